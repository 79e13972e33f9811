/* SPDX-License-Identifier: Apache-2.0 */
/*
 * negative.c - remembers the refusals of compilers for a short while.
 *
 * build.c adds a refusal when a compile ends with one; compile_request.c asks before it leads or waits.
 * The table has a fixed size: the oldest entry makes room.
 *
 * Thread: loop thread.
 */
#include "daemon/service/internal.h"

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
