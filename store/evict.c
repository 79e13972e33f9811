/* SPDX-License-Identifier: Apache-2.0 */
/*
 * evict.c - decides which entries go when the store or a user's share is full. evict_room.c calls it in its
 * steps, the writer along with puts, transaction.c if the map is full.
 *
 * The worth of an entry is what a hit on it saves, times its hits, for each byte:
 *
 *     worth = cost_ms × heat / bytes            heat: hits, halved for every half-life since
 *
 * A victim is the least worth of a random sample of one user's entries: the user with the largest share,
 * or the one above its quota. A sample is 4 runs of 8 neighbours from random places. They lie in
 * the user's range or in that of the daemon's own entries, where only entries made for the user
 * count. Keys are digests, so a key's place says nothing of worth or age. A victim costs a few page
 * reads, whatever the number of entries, and no memory per entry. Source: sampled LRU as in Redis;
 * weighing by cost and size as in GreedyDual-Size-Frequency (Cherkasova 1998).
 *
 *   pinned       never taken
 *   old          last used before keys changed (old.c): taken first, the least worth of them
 *   expired      taken next
 *   young        the newest tenth of the cap by bytes, if younger than a minute and put since the store was
 *                opened: taken only if the whole sample is young, so that a new entry is not the victim of
 *                its own put
 *   in a group   weighed and taken with all of its group; never if one of them is pinned
 *
 * Thread: writer.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "store/internal.h"

#define SAMPLE_RUNS 4u
#define SAMPLE_RUN 8u
#define SAMPLE_MAX (SAMPLE_RUNS * SAMPLE_RUN)
#define SAMPLE_VICTIMS 2u /* of one sample: more would take valuable entries */
#define FRUITLESS_MAX 64u /* samples without a victim: nearly all entries are pinned or others' */
#define FRUITLESS_LARGEST 16u /* after so many, samples come from other users */
#define YOUNG_MS 60000u

/* ---- worth ---- */

/* Counts youth in sixteenths of a tenth of the cap, or of the index's part of its map if that is less. */
void evict_note_put(struct store *s, uint64_t bytes)
{
    struct evictor *ev = &s->evictor;
    uint64_t cap = s->max_bytes, map = s->index.map_bytes / 4 * 3;
    uint64_t share = (cap < map ? cap : map) / 160 + 1;
    ev->put_bytes += bytes;
    for (size_t n = 0; ev->put_bytes >= share && n < 16; n++) {
        ev->put_bytes -= share;
        ev->young[ev->young_at++ % 16] = clock_wall_ms();
    }
    ev->put_bytes %= share;
}

/* Returns the time since which new entries count as young. */
static uint64_t young_since(const struct store *s, uint64_t now_ms)
{
    uint64_t a_tenth_ago = s->evictor.young[s->evictor.young_at % 16];
    uint64_t a_minute_ago = now_ms - YOUNG_MS;
    return a_tenth_ago > a_minute_ago ? a_tenth_ago : a_minute_ago;
}

struct worth {
    double gain; /* cost × heat */
    double bytes;
    bool pinned, young, expired;
    bool current; /* one of them is not old */
};

static void worth_add(struct worth *w, const struct store *s, const struct store_row *row,
                      uint64_t now_ms)
{
    double cost = row->cost_ms ? row->cost_ms : 1;
    w->gain += cost * row_heat(row, now_ms);
    w->bytes += (double)entry_disk_bytes(&s->index, row) + (row->is_blob ? (double)row->len : 0);
    w->pinned |= row->pinned;
    w->young |= row->created_ms > young_since(s, now_ms);
    w->expired |= row_expired(row, now_ms);
    w->current |= !old_row(s, row);
}

/* Returns the worth of a byte. -1: expired; below -1: old. */
static double worth_rank(const struct worth *w)
{
    double worth = w->gain / w->bytes;
    return !w->current ? -1 - 1 / (1 + worth) : w->expired ? -1 : worth;
}

double evict_worth(const struct store *s, const struct store_row *row, uint64_t now_ms)
{
    struct worth w = {0};
    worth_add(&w, s, row, now_ms);
    return worth_rank(&w);
}

struct group_worth {
    struct store *s;
    struct change *c;
    struct worth worth;
    uint64_t now_ms;
};

static int on_member_worth(void *arg, const struct store_id *id)
{
    struct group_worth *g = arg;
    struct store_row row;
    int rc = index_row(&g->s->index, g->c->txn, id, &row);
    if (rc == 0)
        worth_add(&g->worth, g->s, &row, g->now_ms);
    return rc == WARM_ENOT_FOUND || rc == WARM_ECORRUPT ? 0 : rc;
}

static bool in_group(const struct store_row *row)
{
    static const struct key none;
    return !key_equal(&row->group, &none);
}

/* ---- samples ---- */

struct candidate {
    struct store_id id;
    double worth; /* worth_rank */
    bool young, broken;
};
struct sample {
    struct candidate at[SAMPLE_MAX];
    size_t n;
};

static bool sample_has(const struct sample *sample, const struct store_id *id)
{
    for (size_t i = 0; i < sample->n; i++)
        if (key_equal(&sample->at[i].id.key, &id->key))
            return true;
    return false;
}

static int sample_row(struct store *s, struct change *c, struct sample *sample,
                      const struct store_row *row, bool broken)
{
    struct candidate *to = &sample->at[sample->n];
    if (sample_has(sample, &row->id))
        return 0;
    *to = (struct candidate){.id = row->id, .worth = -1, .broken = broken};
    if (!broken) {
        struct group_worth g = {.s = s, .c = c, .now_ms = clock_wall_ms()};
        int rc = 0;
        if (in_group(row))
            rc = change_group(c, row, STORE_GROUP_MAX, on_member_worth, &g);
        if (g.worth.bytes == 0)
            worth_add(&g.worth, s, row, g.now_ms);
        struct worth w = g.worth;
        if (rc != 0 || w.pinned)
            return rc;
        to->worth = worth_rank(&w);
        to->young = w.young && to->worth >= 0;
    }
    sample->n++;
    return 0;
}

/* Adds a run of neighbours from a random place in the owner's range, around its end. Keeps those of `user`,
 * or of EVICT_ANY. */
static int sample_run(struct store *s, struct change *c, MDB_cursor *cursor, uint32_t owner,
                      uint64_t user, struct sample *sample)
{
    struct index_place place = {.after = false};
    struct store_id start = {.owner = owner};
    uint64_t random[2] = {random_next(&s->evictor.rng), random_next(&s->evictor.rng)};
    bool wrapped = false;
    memcpy(start.key.bytes, random, sizeof start.key.bytes);
    index_key(&start, place.key);
    for (size_t i = 0; i < SAMPLE_RUN && sample->n < SAMPLE_MAX; i++) {
        struct store_row row;
        int rc = index_next(&s->index, cursor, &place, &row);
        if (rc == WARM_ENOT_FOUND || ((rc == 0 || rc == WARM_ECORRUPT) && row.id.owner != owner)) {
            if (wrapped)
                return 0;
            wrapped = true;
            start.key = (struct key){{0}};
            place = (struct index_place){.after = false};
            index_key(&start, place.key);
            continue;
        }
        if (rc != 0 && rc != WARM_ECORRUPT)
            return rc;
        bool broken = rc == WARM_ECORRUPT;
        rc = 0;
        if (broken || user == EVICT_ANY || user == entry_user(&row))
            rc = sample_row(s, c, sample, &row, broken);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static int sample_take(struct store *s, struct change *c, uint32_t owner, uint64_t user,
                       struct sample *sample)
{
    MDB_cursor *cursor;
    sample->n = 0;
    int rc = mdb_cursor_open(c->txn, s->index.row, &cursor);
    if (rc != 0)
        return rc;
    for (size_t i = 0; rc == 0 && i < SAMPLE_RUNS; i++)
        rc = sample_run(s, c, cursor, owner, user, sample);
    mdb_cursor_close(cursor);
    return rc;
}

/* Samples one user's entries: its own, or those that the daemon made for it. Bytes decide between them. */
static int sample_user(struct store *s, struct change *c, uint32_t user, struct sample *sample)
{
    struct usage put;
    struct store_share share;
    int rc = index_usage(&s->index, c->txn, user, &put);
    rc = rc ? rc : index_share(&s->index, c->txn, user, &share);
    if (rc != 0)
        return rc;
    bool of_put =
        share.disk_bytes && random_next(&s->evictor.rng) % share.disk_bytes < put.disk_bytes;
    return sample_take(s, c, of_put ? user : STORE_MADE_HERE, user, sample);
}

static int by_worth(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->young != y->young)
        return x->young ? 1 : -1;
    return x->worth < y->worth ? -1 : x->worth > y->worth;
}

/* ---- victims ---- */

int evict_entry(struct store *s, struct change *c, const struct store_id *id)
{
    struct store_row row;
    int rc = index_row(&s->index, c->txn, id, &row);
    if (rc == WARM_ECORRUPT)
        return quarantine_entry(s, c, id, STORE_LEFT_DAMAGED, "its row cannot be read");
    if (rc != 0)
        return rc == WARM_ENOT_FOUND ? 0 : rc;
    assert(c->cause != 0);
    c->n_evicted++;
    c->evicted_bytes += row.len;
    c->n_old += old_row(s, &row);
    change_tell(c, id, c->cause);
    return change_remove(c, &row);
}

struct eviction {
    struct store *s;
    struct change *c;
};

static int on_member_evict(void *arg, const struct store_id *id)
{
    struct eviction *e = arg;
    return evict_entry(e->s, e->c, id);
}

static int evict_with_group(struct store *s, struct change *c, const struct store_id *id)
{
    struct eviction e = {s, c};
    struct store_row row;
    int rc = index_row(&s->index, c->txn, id, &row);
    if (rc == 0 && in_group(&row))
        rc = change_group(c, &row, STORE_GROUP_MAX, on_member_evict, &e);
    if (rc == 0 || rc == WARM_ECORRUPT)
        rc = evict_entry(s, c, id);
    return rc == WARM_ENOT_FOUND ? 0 : rc;
}

static int disk_of(struct store *s, struct change *c, uint64_t user, uint64_t *out)
{
    struct store_share share;
    *out = c->totals.disk_bytes;
    if (user == EVICT_ANY)
        return 0;
    int rc = index_share(&s->index, c->txn, (uint32_t)user, &share);
    *out = share.disk_bytes;
    return rc;
}

/* Samples `user`'s entries. EVICT_ANY: those of the largest user, or of any after too many failures. */
static int sample_for(struct store *s, struct change *c, uint64_t user, unsigned fruitless,
                      struct sample *sample)
{
    uint32_t from = (uint32_t)user;
    int rc;
    if (user == EVICT_ANY && fruitless >= FRUITLESS_LARGEST) {
        rc = index_pick_owner(&s->index, c->txn, random_next, &s->evictor.rng, &from);
        return rc ? rc : sample_take(s, c, from, EVICT_ANY, sample);
    }
    rc = user == EVICT_ANY ? index_largest_share(&s->index, c->txn, &from) : 0;
    return rc ? rc : sample_user(s, c, from, sample);
}

int evict_some(struct store *s, struct change *c, uint64_t user, size_t max, uint64_t goal)
{
    assert(c->txn && max > 0);
    uint64_t before = c->n_evicted + c->n_corrupt, disk;
    unsigned fruitless = 0;
    c->cause = user == EVICT_ANY ? STORE_LEFT_FOR_ROOM : STORE_LEFT_FOR_QUOTA;
    int rc = disk_of(s, c, user, &disk);
    while (rc == 0 && disk > goal && c->n_evicted + c->n_corrupt - before < max &&
           c->n_pages < CHANGE_PAGES_MAX) {
        struct sample sample = {.n = 0};
        rc = sample_for(s, c, user, fruitless, &sample);
        if (rc == 0 && sample.n == 0 && ++fruitless == FRUITLESS_MAX)
            return c->n_evicted + c->n_corrupt > before ? 0 : WARM_ENOT_FOUND;
        qsort(sample.at, sample.n, sizeof *sample.at, by_worth);
        for (size_t i = 0; rc == 0 && disk > goal && i < sample.n && i < SAMPLE_VICTIMS; i++) {
            rc = evict_with_group(s, c, &sample.at[i].id);
            rc = rc ? rc : disk_of(s, c, user, &disk);
        }
    }
    return rc;
}

/* ---- expired entries ---- */

int evict_some_expired(struct store *s, struct change *c, void *arg)
{
    size_t *out_n = arg;
    struct sample sample = {.n = 0};
    uint32_t owner = 0;
    *out_n = 0;
    int rc = index_pick_owner(&s->index, c->txn, random_next, &s->evictor.rng, &owner);
    if (rc != 0)
        return rc == WARM_ENOT_FOUND ? 0 : rc;
    rc = sample_take(s, c, owner, EVICT_ANY, &sample);
    for (size_t i = 0; rc == 0 && i < sample.n; i++) {
        struct store_row row;
        if (sample.at[i].worth >= 0)
            continue;
        rc = index_row(&s->index, c->txn, &sample.at[i].id, &row);
        if (rc == 0 && row_expired(&row, clock_wall_ms())) {
            ++*out_n;
            change_tell(c, &row.id, STORE_LEFT_EXPIRED);
            rc = change_remove(c, &row);
        } else if (rc == WARM_ECORRUPT) {
            ++*out_n;
            rc = quarantine_entry(s, c, &sample.at[i].id, STORE_LEFT_DAMAGED,
                                  "its row cannot be read");
        } else if (rc == WARM_ENOT_FOUND) {
            rc = 0;
        }
    }
    return rc;
}
