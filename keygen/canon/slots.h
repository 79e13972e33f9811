/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slots.h - finds equal items of an array by their hash: open addressing, at most half of the slots in use.
 *
 *     slots_reserve(&t)                         before each of these
 *     SLOTS_EACH(&t, hash, i) compare item i;   an equal one has one of these numbers
 *     slots_add(&t, hash, number)               for a new one
 *
 * Thread: one at a time for a table. Memory: slots_close; a struct slots of zeroes is empty.
 */
#ifndef WARM_KEYGEN_CANON_SLOTS_H
#define WARM_KEYGEN_CANON_SLOTS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

struct slot {
    uint32_t hash, number; /* of the item, from 1; 0: the slot is free */
};

struct slots {
    struct slot *at;
    uint32_t mask, n;
};

/* Visits the numbers of the items with a hash. */
#define SLOTS_EACH(t, hash_of, i)                                                                  \
    for (uint32_t hash_ = (uint32_t)(hash_of), slot_ = hash_ & (t)->mask, i;                       \
         (i = (t)->at[slot_].number - 1) != UINT32_MAX; slot_ = (slot_ + 1) & (t)->mask)           \
        if ((t)->at[slot_].hash == hash_)

/* Adds an item, for which there is room. */
static inline void slots_add(struct slots *t, uint64_t hash, uint32_t number)
{
    uint32_t slot = (uint32_t)hash & t->mask;
    while (t->at[slot].number)
        slot = (slot + 1) & t->mask;
    t->at[slot] = (struct slot){(uint32_t)hash, number + 1};
    t->n++;
}

/* Takes out the item that was added last. */
static inline void slots_take(struct slots *t, uint64_t hash, uint32_t number)
{
    uint32_t slot = (uint32_t)hash & t->mask;
    while (t->at[slot].number != number + 1)
        slot = (slot + 1) & t->mask;
    t->at[slot].number = 0;
    t->n--;
}

/* Makes room for one more item. False without memory. */
static inline bool slots_reserve(struct slots *t)
{
    if (t->at && 2 * t->n < t->mask)
        return true;
    struct slots wider = {.mask = t->at ? 2 * t->mask + 1 : 255};
    wider.at = calloc((size_t)wider.mask + 1, sizeof *wider.at);
    if (!wider.at)
        return false;
    for (uint32_t i = 0; t->at && i <= t->mask; i++)
        if (t->at[i].number)
            slots_add(&wider, t->at[i].hash, t->at[i].number - 1);
    free(t->at);
    *t = wider;
    return true;
}

/* Frees the table. */
static inline void slots_close(struct slots *t) { free(t->at); }

#endif
