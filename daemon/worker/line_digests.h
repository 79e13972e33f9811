/* SPDX-License-Identifier: Apache-2.0 */
/*
 * line_digests.h - finds the first line in which two texts differ, from digests of their lines.
 * Neither text needs to exist any more.
 *
 *     line 1 ─┐ mark 0        line 1 ─┐ mark 0        A mark is a digest of all lines before it. The
 *     line 2 ─┤ mark 1        line 2 ─┤ mark 1        first mark that differs shows the line: here
 *     line 3 ─┤ mark 2   !=   LINE 3 ─┤ mark 2        line 3.
 *
 * A text of up to LINE_DIGESTS_MARKS lines has a mark after each line. A longer one has a mark
 * after each 2nd, 4th, … line, and the answer is a range of lines.
 *
 * A mark has 16 bits. So one of 65536 changes shows too late. Use the answer only to show it to a
 * person.
 *
 * Thread: any; no state. Memory: borrows the text.
 */
#ifndef WARM_DAEMON_WORKER_LINE_DIGESTS_H
#define WARM_DAEMON_WORKER_LINE_DIGESTS_H

#include <stdbool.h>
#include <stdint.h>

#include "keygen/bytes.h"

#define LINE_DIGESTS_MARKS 256u

struct line_digests {
    uint32_t n;    /* lines; the last may have no line feed */
    uint16_t step; /* lines from mark to mark: a power of 2, at most 2^15 */
    uint16_t n_marks;
    uint16_t marks[LINE_DIGESTS_MARKS];
};

/* Computes the digests of a text. False if it has too many lines. */
bool line_digests_of(struct view text, struct line_digests *out);

/* Finds the range of lines, counted from 1, that contains the first difference of two different
 * texts. False if the digests do not show it. */
bool line_digests_differ(const struct line_digests *a, const struct line_digests *b,
                         uint32_t *out_first, uint32_t *out_last);

/* Appends the digests as bytes: u32 n, u16 step, then the marks. */
void line_digests_write(const struct line_digests *lines, struct writer *out);
/* Reads such bytes. False, and nothing is written, if they are malformed. */
bool line_digests_read(struct view bytes, struct line_digests *out);

#endif
