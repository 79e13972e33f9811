/* SPDX-License-Identifier: Apache-2.0 */
/*
 * id_set.c - which entries a session used (daemon/history), and which belong to others (daemon/service/closure.c):
 * an open hash table over a list that only grows.
 *
 * Thread: any, one at a time.
 */
#include "store/id_set.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define CAP_FIRST 64u

/* Returns the place of an entry, or the free one where it belongs. */
static uint32_t *place_of(const struct id_set *set, const struct store_id *id)
{
    uint64_t hash;
    uint32_t mask = 2 * set->cap - 1;          /* a power of two */
    memcpy(&hash, id->key.bytes, sizeof hash); /* keys are digests */
    for (uint32_t at = (uint32_t)hash & mask;; at = (at + 1) & mask)
        if (!set->place[at] || store_id_equal(&set->id[set->place[at] - 1], id))
            return &set->place[at];
}

bool id_set_has(const struct id_set *set, const struct store_id *id)
{
    return set->n && *place_of(set, id);
}

uint32_t id_set_index(const struct id_set *set, const struct store_id *id)
{
    assert(id_set_has(set, id));
    return *place_of(set, id) - 1;
}

static bool grow(struct id_set *set)
{
    uint32_t cap = set->cap ? 2 * set->cap : CAP_FIRST;
    struct store_id *id = realloc(set->id, cap * sizeof *id);
    if (id)
        set->id = id;
    uint32_t *place = id ? calloc(2 * (size_t)cap, sizeof *place) : NULL;
    if (!place)
        return false;
    free(set->place);
    set->place = place;
    set->cap = cap;
    for (uint32_t i = 0; i < set->n; i++)
        *place_of(set, &set->id[i]) = i + 1;
    return true;
}

bool id_set_add(struct id_set *set, const struct store_id *id)
{
    if (id_set_has(set, id))
        return true;
    if (set->n == set->cap && !grow(set))
        return false;
    assert(set->n < set->cap);
    *place_of(set, id) = set->n + 1;
    set->id[set->n++] = *id;
    return true;
}

void id_set_clear(struct id_set *set)
{
    free(set->id);
    free(set->place);
    *set = (struct id_set){.n = 0};
}
