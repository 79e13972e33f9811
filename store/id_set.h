/* SPDX-License-Identifier: Apache-2.0 */
/*
 * id_set.h - a set of entries that keeps the order in which they were added.
 *
 *     id     ─▶ first, second, third, …
 *     place  ─▶ 0: free │ i + 1: id[i]          a hash table over it
 *
 * Thread: any, one at a time. Memory: id_set_clear frees it; a zeroed one is empty.
 */
#ifndef WARM_STORE_ID_SET_H
#define WARM_STORE_ID_SET_H

#include <stdbool.h>
#include <stdint.h>

#include "store/store.h"

struct id_set {
    struct store_id *id;
    uint32_t *place;
    uint32_t n, cap; /* entries; `place` has twice as many places as `cap` */
};

/* True if the entry is in the set. */
bool id_set_has(const struct id_set *set, const struct store_id *id);
/* Returns the place in `id` of an entry that is in the set. */
uint32_t id_set_index(const struct id_set *set, const struct store_id *id);
/* Adds an entry, if it is not in the set. False if there is no memory. */
bool id_set_add(struct id_set *set, const struct store_id *id);
/* Frees its memory and zeroes it. */
void id_set_clear(struct id_set *set);

#endif
