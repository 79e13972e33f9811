/* SPDX-License-Identifier: Apache-2.0 */
/*
 * finder.h - finds numbers from 1 to FINDER_MAX by hashes of what they are for.
 *
 * Open addressing, four bytes a slot. Who looks says what the number would be near to: numbers of which that is
 * near are near in memory, as far as there is room, so that what comes one after the other takes few lines of
 * the processor's cache; the others are where their hashes say. A finder begins as all zeroes.
 *
 *     struct probe p = finder_probe(f, hash, near);
 *     while ((number = finder_next(f, &p)) && !is_the_one(number))
 *         ;
 *     if (!number)
 *         finder_put(f, &p, number = a new one);
 *
 * The same hash is to come with the same `near`. Thread: one at a time for a finder.
 */
#ifndef WARM_KEYGEN_FINDER_H
#define WARM_KEYGEN_FINDER_H

#include <stdbool.h>
#include <stdint.h>

#define FINDER_BITS 24
#define FINDER_MAX ((1u << FINDER_BITS) - 1)
#define FINDER_NEAR 16 /* slots in which a number may be for the sake of what it is near to */

struct finder {
    uint32_t *slots; /* the number, above it the first bits of its hash; or 0 */
    uint32_t mask, n;
};

struct probe {
    uint64_t hash;
    uint32_t at, turns;
};

/* Makes room for some more; n is 0 if for that all were thrown out and are to be put in again. False if there
 * is no memory. */
bool finder_room(struct finder *f, uint32_t more);
/* Forgets all. */
void finder_clear(struct finder *f);
void finder_free(struct finder *f);

static inline struct probe finder_probe(const struct finder *f, uint64_t hash, uint32_t near)
{
    return (struct probe){.hash = hash, .at = near & f->mask};
}

/* A number that may be the one, each time another; at last 0, and the place is where it would be. */
static inline uint32_t finder_next(const struct finder *f, struct probe *p)
{
    for (uint32_t slot; (slot = f->slots[p->at]);) {
        uint32_t step = ++p->turns < FINDER_NEAR ? 1 : (uint32_t)(p->hash >> 16) | 1;
        p->at = (p->at + step) & f->mask;
        if (slot >> FINDER_BITS == p->hash >> (32 + FINDER_BITS))
            return slot & FINDER_MAX;
    }
    return 0;
}

/* Puts one in where a probe has come to its end. */
static inline void finder_put(struct finder *f, const struct probe *p, uint32_t number)
{
    f->slots[p->at] = (uint32_t)(p->hash >> (32 + FINDER_BITS)) << FINDER_BITS | number;
    f->n++;
}

/* Puts one in that is none of those that are there. */
static inline void finder_add(struct finder *f, uint64_t hash, uint32_t near, uint32_t number)
{
    struct probe p = finder_probe(f, hash, near);
    while (finder_next(f, &p))
        ;
    finder_put(f, &p, number);
}

#endif
