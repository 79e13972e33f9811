/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quantity.h - numbers with a unit, as people write them in settings and options.
 *
 *     10G, 10GB, 10GiB, 10gib    10 × 2^30 bytes       500ms, 30s, 10m, 12h, 7d    a span of time
 *
 * Thread: any; no state. Memory: borrows.
 */
#ifndef WARM_KEYGEN_QUANTITY_H
#define WARM_KEYGEN_QUANTITY_H

#include <stdbool.h>
#include <stdint.h>

/* Reads a number without a unit, at most `max`. False if the text is none. */
bool quantity_count(const char *text, uint64_t max, uint64_t *out);
/* Reads a size: digits and B, or K, M, G or T (powers of 1024), alone or with B or iB behind it, in any case.
 * Digits alone are bytes: *out_is_bare is then true, unless they are 0. False if the text is no size. */
bool quantity_size(const char *text, uint64_t *out_bytes, bool *out_is_bare);
/* Reads a span of time: digits and ms, s, m, h or d; digits alone are seconds. False if the text is none. */
bool quantity_span(const char *text, uint64_t *out_ms);

#endif
