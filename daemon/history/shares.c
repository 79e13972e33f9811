/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shares.c - keeps the order of each user's records, and takes the oldest of the largest user if no slot is
 * free. events.c and tables.c use it.
 *
 * Thread: loop thread.
 */
#include "daemon/history/shares.h"

#include <assert.h>
#include <stddef.h>

void shares_init(struct shares *s, uint16_t *next, uint32_t n_slots)
{
    assert(n_slots <= UINT16_MAX);
    *s = (struct shares){.next = next, .n_slots = n_slots};
}

/* Returns the lane of a user; a free one if the user has none; a shared one if none is free. */
static struct lane *lane_of(struct shares *s, uint32_t uid)
{
    struct lane *unused = NULL;
    for (struct lane *l = s->lane; l < s->lane + SHARES_LANES; l++) {
        if (l->n && l->uid == uid)
            return l;
        if (!l->n && !unused)
            unused = l;
    }
    if (!unused)
        return &s->lane[uid % SHARES_LANES];
    unused->uid = uid;
    return unused;
}

static uint32_t take_oldest(struct shares *s)
{
    struct lane *largest = s->lane;
    for (struct lane *l = s->lane; l < s->lane + SHARES_LANES; l++)
        if (l->n > largest->n)
            largest = l;
    assert(largest->n);
    uint32_t slot = largest->first;
    largest->first = s->next[slot];
    largest->n--;
    return slot;
}

uint64_t shares_take(struct shares *s, uint32_t uid)
{
    uint32_t slot = s->n_used < s->n_slots ? s->n_used++ : take_oldest(s);
    struct lane *l = lane_of(s, uid);
    if (l->n)
        s->next[l->last] = (uint16_t)slot;
    else
        l->first = (uint16_t)slot;
    l->last = (uint16_t)slot;
    l->n++;
    return ++s->n_taken * s->n_slots + slot;
}

uint32_t shares_next(const struct shares *s, uint32_t uid, uint64_t number)
{
    const struct lane *l = s->lane;
    while (l < s->lane + SHARES_LANES && !(l->n && l->uid == uid))
        l++;
    if (l == s->lane + SHARES_LANES)
        l = &s->lane[uid % SHARES_LANES];
    uint32_t slot = (uint32_t)(number % s->n_slots);
    if (!l->n || (number && slot == l->last))
        return s->n_slots;
    return number ? s->next[slot] : l->first;
}
