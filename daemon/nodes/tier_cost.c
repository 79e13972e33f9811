/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier_cost.c - how long it takes to make what somebody asks for: the mean of what was made before, by
 * compiler, or by the user and the beginning of the name ("pt2:…", "jax:…"). The store remembers it.
 *
 * The record "tier.costs" has COSTS times struct tier_cost: u64 hash, two floats in ms, two counts.
 *
 * Thread: loop thread.
 */
#include <string.h>

#include "daemon/nodes/tier_state.h"

#define RECORD "tier.costs"
#define WEIGHT 8u /* of the past: the mean follows a change within so many results */
#define PREFIX_MAX 24u

static uint64_t hash_of_compiler(const struct key *compiler)
{
    uint64_t hash;
    memcpy(&hash, compiler->bytes, sizeof hash); /* a digest needs no further hashing */
    return hash ? hash : 1;
}

/* Hashes, by FNV-1a (Fowler, Noll, Vo), what stands before the first ':' or '/', for one user: what a client says of
 * its costs counts for its user alone. */
static uint64_t hash_of_name(struct view name, uint32_t uid)
{
    const uint8_t *text = name.data;
    uint64_t hash = 0xcbf29ce484222325u ^ uid * 0x9e3779b97f4a7c15u, all = hash;
    size_t i = 0;
    for (; i < name.len && i < PREFIX_MAX && text[i] != ':' && text[i] != '/'; i++)
        hash = (hash ^ text[i]) * 0x100000001b3u;
    return i == name.len || i == PREFIX_MAX ? all : hash;
}

static void add_cost(float *mean_ms, uint32_t *n, uint32_t cost_ms)
{
    *n += *n < WEIGHT;
    *mean_ms += ((float)cost_ms - *mean_ms) / (float)*n;
}

void tier_cost_note(struct tier *t, const struct store_row *row, bool from_tier)
{
    if (!t || !row->cost_ms || row->kind == STORE_MANIFEST)
        return;
    uint64_t hash = row->id.owner == STORE_MADE_HERE ? hash_of_compiler(&row->compiler)
                                                     : hash_of_name(row->name, row->maker);
    /* The place of the hash, or a free one for it. A full chain gives its last place up. */
    struct tier_cost *c = NULL;
    for (size_t i = 0; i < 8; i++) {
        c = &t->costs[(hash + i) % COSTS];
        if (!c->hash || c->hash == hash)
            break;
    }
    if (c->hash != hash)
        *c = (struct tier_cost){.hash = hash};
    add_cost(&c->mean_ms, &c->n, row->cost_ms);
    if (!from_tier)
        add_cost(&c->made_ms, &c->n_made, row->cost_ms);
    t->costs_changed = true;
}

struct tier_cost tier_cost_of(const struct tier *t, const struct key *compiler, struct view name,
                              uint32_t uid)
{
    uint64_t hash = compiler ? hash_of_compiler(compiler) : hash_of_name(name, uid);
    for (size_t i = 0; i < 8; i++)
        if (t->costs[(hash + i) % COSTS].hash == hash)
            return t->costs[(hash + i) % COSTS];
    return (struct tier_cost){.hash = hash};
}

void tier_costs_load(struct tier *t)
{
    size_t len = 0;
    if (store_meta_get(t->host.store, RECORD, t->costs, sizeof t->costs, &len) != 0 ||
        len != sizeof t->costs)
        memset(t->costs, 0, sizeof t->costs);
    for (size_t i = 0; i < COSTS; i++)
        if (!(t->costs[i].mean_ms >= 0 && t->costs[i].mean_ms < 1e8f && t->costs[i].made_ms >= 0 &&
              t->costs[i].made_ms < 1e8f))
            t->costs[i] = (struct tier_cost){0};
}

void tier_costs_save(struct tier *t)
{
    if (t->costs_changed)
        store_meta_put(t->host.store, RECORD, t->costs, sizeof t->costs);
    t->costs_changed = false;
}
