/* SPDX-License-Identifier: Apache-2.0 */
/*
 * refused.c - remembers what compilers refused, for a short while, and which values users refused.
 *
 * build.c adds a compiler's refusal; damaged.c a user's. ask.c asks whether a user refused what was found.
 * Both tables have a fixed size. The oldest entry makes room, of users' refusals first the user's own.
 *
 * Thread: loop thread.
 */
#include <assert.h>

#include "daemon/service/internal.h"

/* ---- by compilers ---- */

struct artifact *negative_find(struct service *s, const struct key *key, const struct proof *proof)
{
    uint64_t now = service_clock_ms(s);
    for (size_t i = 0; i < NEGATIVES; i++) {
        struct negative *n = &s->negatives[i];
        if (n->artifact && n->expires_ms > now && key_equal(&n->key, key) &&
            proof_equal(&n->proof, proof))
            return n->artifact;
    }
    return NULL;
}

void negative_add(struct service *s, const struct key *key, const struct proof *proof,
                  struct artifact *a)
{
    uint64_t ttl = s->config.config->negative_ttl_ms;
    if (ttl == 0 || a->len > NEGATIVE_BYTES_MAX)
        return;
    struct negative *n = &s->negatives[s->next_negative++ % NEGATIVES];
    artifact_unref(n->artifact);
    *n = (struct negative){*key, *proof, service_clock_ms(s) + ttl, artifact_ref(a)};
}

void negatives_clear(struct service *s)
{
    for (size_t i = 0; i < NEGATIVES; i++) {
        artifact_unref(s->negatives[i].artifact);
        s->negatives[i] = (struct negative){.artifact = NULL};
    }
}

enum step try_errors(struct ask *ask, struct look *look)
{
    assert(ask->compile);
    look->answer.artifact = negative_find(ask->service, &ask->id.key, &ask->proof);
    return look->answer.artifact ? STEP_FOUND : STEP_NOT_HERE;
}

/* ---- by users ---- */

static bool refusal_is(const struct refusal *r, const struct key *key, const struct key *check)
{
    return r->at_ms && key_equal(&r->key, key) && key_equal(&r->check, check);
}

bool refused_by_user(const struct service *s, uint32_t uid, const struct key *key,
                     const struct key *check)
{
    for (size_t i = 0; s->has_refusals && i < REFUSALS; i++)
        if (s->refusals[i].uid == uid && refusal_is(&s->refusals[i], key, check))
            return true;
    return false;
}

bool refused_by_another(const struct service *s, uint32_t uid, const struct key *key,
                        const struct key *check)
{
    for (size_t i = 0; i < REFUSALS; i++)
        if (s->refusals[i].uid != uid && refusal_is(&s->refusals[i], key, check))
            return true;
    return false;
}

/* Finds a free place. Else takes the user's oldest refusal if the user has its share, or the oldest
 * of all. */
static struct refusal *refusal_place(struct service *s, uint32_t uid)
{
    struct refusal *own = NULL, *any = s->refusals;
    unsigned n_own = 0;
    for (size_t i = 0; i < REFUSALS; i++) {
        struct refusal *r = &s->refusals[i];
        if (r->at_ms < any->at_ms)
            any = r;
        if (!r->at_ms || r->uid != uid)
            continue;
        n_own++;
        if (!own || r->at_ms < own->at_ms)
            own = r;
    }
    assert(n_own == 0 || own);
    return n_own >= REFUSALS_OF_USER ? own : any;
}

void refused_note(struct service *s, uint32_t uid, const struct key *key, const struct key *check)
{
    if (refused_by_user(s, uid, key, check))
        return;
    *refusal_place(s, uid) = (struct refusal){uid, *key, *check, service_clock_ms(s) + 1};
    s->has_refusals = true;
}

void refused_forget(struct service *s, const struct key *key, const struct key *check)
{
    for (size_t i = 0; i < REFUSALS; i++)
        if (refusal_is(&s->refusals[i], key, check))
            s->refusals[i] = (struct refusal){0};
}
