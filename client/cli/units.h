/* SPDX-License-Identifier: Apache-2.0 */
/*
 * units.h - prints sizes and times for people, and reads the sizes of options.
 *
 * Thread: any; no state. Memory: none.
 */
#ifndef WARM_CLI_UNITS_H
#define WARM_CLI_UNITS_H

#include <stdbool.h>
#include <stdint.h>

#define UNITS_TEXT 32 /* bytes of any text below, NUL included */

/* Reads a size with a unit, or 0 (quantity.h). False if `text` is none, or does not fit. */
bool units_parse_size(const char *text, uint64_t *out_bytes);

/* Writes a size: "1.4 MiB" for 1468006, "10 GiB", "812 B". */
void units_size_text(uint64_t bytes, char out[UNITS_TEXT]);
/* Writes a span: "1 min 25 s", "3 d 4 h", "0.25 s". */
void units_span_text(uint64_t ms, char out[UNITS_TEXT]);
/* Writes a span in few letters, for columns: "3d", "5h", "12m", "40s". */
void units_age_text(uint64_t ms, char out[UNITS_TEXT]);
/* Writes a Unix time as local time with its offset: "2026-03-01 09:30:00 +0100". */
void units_time_text(uint64_t ms, char out[UNITS_TEXT]);

#endif
