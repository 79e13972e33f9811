/* SPDX-License-Identifier: Apache-2.0 */
/*
 * row.h - the encoded row: all that the store knows of one entry, with a checksum of its own.
 *
 *     ┌ version, kind, flags ┬ id ┬ numbers ┬ digests, if present ┬ 4 texts ┬ XXH3-64 ┐
 *
 * The same bytes are the value of an entry in the index and the trailer of a blob file. FORMAT.md
 * has the table. The row contains its id, so that a row under the wrong key is detected.
 *
 * Thread: any; no state. Memory: a decoded row borrows the encoded bytes.
 */
#ifndef WARM_STORE_ROW_H
#define WARM_STORE_ROW_H

#include "store/store.h"

#define ROW_VERSION 1u
#define ROW_FIXED 96u /* bytes before the optional digests */
#define ROW_MAX (ROW_FIXED + 2 * 32 + 3 * 16 + 4 * (2 + STORE_NAME_MAX) + 8)

/* Appends the encoded row; check w->failed. Texts longer than STORE_NAME_MAX are cut. */
void row_encode(const struct store_row *row, struct writer *w);

/* Returns the number of bytes that row_encode appends. */
size_t row_encoded_len(const struct store_row *row);

/* Decodes a row. *out borrows `data`, and is undefined after an error. Errors: CORRUPT (row_encode cannot have
 * written these bytes), VERSION (the checksum is right, the version unknown). */
int row_decode(const void *data, size_t len, struct store_row *out);

/* Decodes a row whose checksum is wrong: to correct the accounts, never to serve it. False if its parts
 * do not fit together. */
bool row_salvage(const void *data, size_t len, struct store_row *out);

/* Returns the checksum of rows and other small records: XXH3-64. */
uint64_t row_checksum(const void *data, size_t len);

/* A record of n numbers (usage, blob references, totals) is n × u64 and a checksum. */
#define NUMBERS_SIZE(n) (8 * (n) + 8)
/* Writes NUMBERS_SIZE(n) bytes. */
void numbers_encode(uint8_t *out, const uint64_t *numbers, size_t n);
/* Reads them. False if the length or the checksum is wrong. */
bool numbers_decode(const void *data, size_t len, uint64_t *out, size_t n);

/* Returns the row's heat at `now_ms`: halved for every STORE_HEAT_HALF_LIFE_MS since its last access. */
double row_heat(const struct store_row *row, uint64_t now_ms);
/* Adds `n` hits, the last of them at `last_ms`. */
void row_touch(struct store_row *row, uint32_t n, uint64_t last_ms);
/* True if the row has an expiry and it is past. */
bool row_expired(const struct store_row *row, uint64_t now_ms);

#endif
