/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows.h - prints an entry of the store for people and for programs.
 *
 * Thread: main; no state. Memory: none.
 */
#ifndef WARM_CLI_ROWS_H
#define WARM_CLI_ROWS_H

#include "client/cli/json_writer.h"
#include "client/wire/wire.h"

#define ROWS_MADE_HERE 0xfffffffeu /* owner of entries that the daemon itself compiled */

/* Writes one object with every field of a row. */
void row_json(struct json *j, const struct wire_row *row);

/* Prints the titles of row_line. */
void rows_title(bool colour);
/* Prints one line: key, kind, size, hits, time since the last use, hardware, label. */
void row_line(const struct wire_row *row, uint64_t now_ms);

/* Prints the titles of row_brief. */
void rows_brief_title(bool colour);
/* Prints one line that fits a terminal of `width` columns: the first digits of the key, and how many parts
 * stand for the entry's group, whose bytes are `bytes`. */
void row_brief(const struct wire_row *row, uint64_t now_ms, size_t n_parts, uint64_t bytes,
               unsigned width);

/* Prints the row with one field a line. */
void row_fields(const struct wire_row *row, uint64_t now_ms);

/* Returns the Unix time in milliseconds. */
uint64_t rows_now_ms(void);

#endif
