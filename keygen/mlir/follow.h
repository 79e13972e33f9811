/* SPDX-License-Identifier: Apache-2.0 */
/*
 * follow.h - what comes after the last numbers of a sequence, foretold from what came the last time.
 *
 *     … 3 4 5 ─▶ follow_next: 6, if 6 was added after 3 4 5 before
 *
 * A guess: other last numbers may share a place. 0 stands for nothing yet.
 *
 * Thread: one at a time. Memory: none; all zeroes is a sequence that begins.
 */
#ifndef WARM_KEYGEN_MLIR_FOLLOW_H
#define WARM_KEYGEN_MLIR_FOLLOW_H

#include <stdint.h>
#include <string.h>

#define FOLLOW_LAST 3u      /* from so many the next one is foretold */
#define FOLLOW_PLACES 4096u /* sequences of so many whose follower is remembered */

struct follow {
    uint32_t last[FOLLOW_LAST], place; /* of what follows them */
    uint32_t next[FOLLOW_PLACES];
};

static inline uint32_t follow_next(const struct follow *f) { return f->next[f->place]; }

static inline void follow_add(struct follow *f, uint32_t number)
{
    uint64_t hash = 0;
    f->next[f->place] = number;
    memmove(f->last, f->last + 1, sizeof f->last - sizeof *f->last);
    f->last[FOLLOW_LAST - 1] = number;
    for (unsigned i = 0; i < FOLLOW_LAST; i++)
        hash = (hash + f->last[i]) * 0x9E3779B97F4A7C15u;
    f->place = (uint32_t)(hash / (UINT64_MAX / FOLLOW_PLACES + 1));
}

#endif
