/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table.h - a hash table with addresses as keys. Nothing is removed from it.
 *
 * Thread: one at a time. Memory: table_free frees the slots; the keys are the caller's.
 */
#ifndef WARM_TABLE_H
#define WARM_TABLE_H

#include <stddef.h>
#include <stdint.h>

struct table_slot {
    const void *key; /* NULL: free */
    uint64_t low, high;
};

struct table {
    struct table_slot *slots;
    size_t n, cap; /* cap: 0 or a power of 2 */
};

/* Returns the slot of a key, or NULL. It stays where it is until the next table_add. */
struct table_slot *table_find(const struct table *t, const void *key);
/* Adds a key that is not in the table. Returns its slot; NULL without memory. */
struct table_slot *table_add(struct table *t, const void *key);
/* Frees the slots, and makes the table empty. */
void table_free(struct table *t);

#endif
