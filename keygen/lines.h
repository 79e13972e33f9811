/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lines.h - where two texts begin to differ, told from digests of theirs when one of them is gone.
 *
 *     line 1 ─┐ mark 0        line 1 ─┐ mark 0        A mark stands for all that is before it. With
 *     line 2 ─┤ mark 1        line 2 ─┤ mark 1        the first that differs the texts do: here in
 *     line 3 ─┤ mark 2   !=   LINE 3 ─┤ mark 2        line 3.
 *
 * A text of up to LINES_MARKS lines has a mark at each; a longer one at every 2nd, 4th, …, and then a
 * range of lines is told.
 *
 * A mark has 16 bits: of 65536 changed lines one is told too late. Good enough for a person to look at,
 * and for nothing else.
 *
 * Thread: any; no state. Memory: borrows the text.
 */
#ifndef WARM_KEYGEN_LINES_H
#define WARM_KEYGEN_LINES_H

#include <stdbool.h>
#include <stdint.h>

#include "keygen/bytes.h"

#define LINES_MARKS 256u

struct lines {
    uint32_t n;    /* lines; the last may have no line feed */
    uint16_t step; /* lines from mark to mark: a power of 2, at most 2^15 */
    uint16_t n_marks;
    uint16_t marks[LINES_MARKS];
};

/* False where it has too many lines. */
bool lines_of(struct view text, struct lines *out);

/* The lines, counted from 1, among which is the first that differs, of texts that are known to; false
 * if that cannot be told. */
bool lines_differ(const struct lines *a, const struct lines *b, uint32_t *out_first,
                  uint32_t *out_last);

/* As bytes: u32 n, u16 step, then the marks. */
void lines_write(const struct lines *lines, struct writer *out);
/* False, and nothing written, where they are not the bytes of one. */
bool lines_read(struct view bytes, struct lines *out);

#endif
