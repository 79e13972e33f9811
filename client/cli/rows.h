/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows.h - an entry of the store as people and programs see it.
 *
 * Thread: any; no state. Memory: none.
 */
#ifndef WARM_CLI_ROWS_H
#define WARM_CLI_ROWS_H

#include "client/cli/json_writer.h"
#include "client/wire/wire.h"

#define ROWS_MADE_HERE 0xfffffffeu /* owner of what the daemon itself compiled */

/* One object with every field of a row. */
void row_json(struct json *j, const struct wire_row *row);

/* The titles, and one line for a row: key, kind, size, hits, age since last use, hardware, label. */
void rows_title(bool colour);
void row_line(const struct wire_row *row, uint64_t now_ms);

/* The row with one field a line. */
void row_fields(const struct wire_row *row, uint64_t now_ms);

/* Unix time in milliseconds. */
uint64_t rows_now_ms(void);

#endif
