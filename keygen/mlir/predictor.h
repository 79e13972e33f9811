/* SPDX-License-Identifier: Apache-2.0 */
/*
 * predictor.h - guesses the next number of a sequence from its last numbers.
 *
 *     … 3 4 5 ─▶ predictor_next: 6, if 6 was added after 3 4 5 before
 *
 * It is only a guess: other last numbers may share a place of the table. 0 means no guess. Without it,
 * a key takes 17 to 19 % more instructions (mlir/line.c, E1).
 *
 * Thread: one at a time. Memory: none of its own. All zeroes is a new sequence.
 */
#ifndef WARM_KEYGEN_MLIR_PREDICTOR_H
#define WARM_KEYGEN_MLIR_PREDICTOR_H

#include <stdint.h>
#include <string.h>

#define PREDICTOR_LAST 3u      /* numbers that the guess depends on */
#define PREDICTOR_PLACES 4096u /* sequences whose next number is remembered */

struct predictor {
    uint32_t last[PREDICTOR_LAST], place; /* place: index of `next` for `last` */
    uint32_t next[PREDICTOR_PLACES];
};

/* Returns the guess. */
static inline uint32_t predictor_next(const struct predictor *f) { return f->next[f->place]; }

/* Adds the number that really came. */
static inline void predictor_add(struct predictor *f, uint32_t number)
{
    uint64_t hash = 0;
    f->next[f->place] = number;
    memmove(f->last, f->last + 1, sizeof f->last - sizeof *f->last);
    f->last[PREDICTOR_LAST - 1] = number;
    for (unsigned i = 0; i < PREDICTOR_LAST; i++)
        hash = (hash + f->last[i]) * 0x9E3779B97F4A7C15u;
    f->place = (uint32_t)(hash / (UINT64_MAX / PREDICTOR_PLACES + 1));
}

#endif
