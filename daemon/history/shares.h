/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shares.h - decides whose record gives way in a table that all users share: the oldest one of the user who
 * has the most. So a user who floods the table pushes out that user's own records alone, as soon as nobody
 * else has more.
 *
 *     lane of uid 1000:  first ──▶ slot ──▶ slot ──▶ last       in the order of taking
 *     lane of uid 1001:  first ──▶ last
 *
 * A record has a number that tells its slot: number % slots. Numbers only grow.
 *
 * Thread: loop thread. Memory: `next` is the owner's, one place a slot.
 */
#ifndef WARM_DAEMON_HISTORY_SHARES_H
#define WARM_DAEMON_HISTORY_SHARES_H

#include <stdint.h>

#define SHARES_LANES 128u /* users; further ones share a lane */

struct lane {
    uint32_t uid;
    uint16_t n, first, last;
};

struct shares {
    struct lane lane[SHARES_LANES];
    uint16_t *next; /* by slot */
    uint32_t n_slots, n_used;
    uint64_t n_taken;
};

/* Makes an empty table of at most 65535 slots; `next` has as many places. */
void shares_init(struct shares *s, uint16_t *next, uint32_t n_slots);
/* Takes a slot for a user and returns the number of its new record. */
uint64_t shares_take(struct shares *s, uint32_t uid);
/* Returns the slot of the user's record after that of `number` (0: the first one); n_slots after the
 * last. */
uint32_t shares_next(const struct shares *s, uint32_t uid, uint64_t number);

#endif
