/* SPDX-License-Identifier: Apache-2.0 */
/*
 * archive.h - entries of a cache in one file, which `warm export` writes and `warm import` reads.
 *
 *     magic, entry, entry, …, end
 *
 * Integers are little-endian; a text is a u32 length and its bytes.
 *
 * | OFFSET | SIZE | FIELD of an entry |
 * |---|---|---|
 * | 0  | 1     | 0x45 |
 * | 1  | 1     | kind (client/wire/PROTOCOL.md) |
 * | 2  | 4     | cost_ms: time that it took to make |
 * | 6  | 8     | n: bytes of the value |
 * | 14 | 16    | checksum (1) |
 * | 30 | 4 + … | name, hardware, compiler, label: texts of at most 512 bytes |
 * | …  | 4 + … | made: empty, or 80 bytes (2) |
 * | …  | n     | value |
 *
 * (1) The key (keygen/key.h) of the domain "archive/2". Its fields 0 to 3: kind, cost_ms, the five texts as they
 * stand here, the value.
 * (2) Of an entry that a daemon made itself, and that has no name: compiler, graph and group (16
 * bytes each), proof (32 bytes), as in store/FORMAT.md.
 *
 * The file begins with the 16 bytes "warm archive 2\r\n" and ends with 0x5a and a u64, the number
 * of entries; another number in the magic is a version that this reader refuses. Example, one entry
 * "abc" of kind other and the value "v":
 *
 *     77 61 72 6d 20 61 72 63 68 69 76 65 20 32 0d 0a
 *     45 00 00 00 00 00 01 00 00 00 00 00 00 00, 16 bytes of checksum
 *     03 00 00 00 61 62 63  00 00 00 00  00 00 00 00  00 00 00 00  00 00 00 00  76
 *     5a 01 00 00 00 00 00 00 00
 *
 * Thread: any; no state. Memory: views are into the bytes that are read.
 */
#ifndef WARM_CLI_IMPORT_ARCHIVE_H
#define WARM_CLI_IMPORT_ARCHIVE_H

#include "keygen/bytes.h"
#include "keygen/err.h"
#include "keygen/key.h"

#define ARCHIVE_TEXT_MAX 512u

/* The address of an entry that a daemon made itself, together with the hardware. */
struct archive_made {
    struct key compiler, graph, group;
    struct proof proof;
};

struct archive_entry {
    uint8_t kind;
    uint32_t cost_ms;
    struct view name, hardware, compiler, label, value;
    bool is_made; /* `made` counts, and the name is empty */
    struct archive_made made;
};

/* True if the data begins as an archive of any version. */
bool archive_claims(const void *data, size_t len);

/* Appends the magic. */
void archive_begin(struct writer *out);
/* Appends the fields before the value. The caller writes the value's bytes right behind them, so
 * that large values need no copy. */
void archive_put_head(struct writer *out, const struct archive_entry *entry);
/* Appends the end, with the number of entries. */
void archive_end(struct writer *out, uint64_t n_entries);

/* Opens the bytes of an archive. Errors: VERSION; MALFORMED if it is none. */
int archive_open(const void *data, size_t len, struct reader *out, struct err *e);
/*
 * Reads the next entry. 0; NOT_FOUND at a correct end; CORRUPT if this entry's checksum is wrong
 * and the next one can be read (out->name is set); MALFORMED or TRUNCATED if no more can be read.
 * `n_before` counts the entries that were returned before, damaged ones too.
 */
int archive_next(struct reader *r, uint64_t n_before, struct archive_entry *out, struct err *e);

#endif
