/* SPDX-License-Identifier: Apache-2.0 */
/*
 * archive.h - entries of a cache in one file, which `warm export` writes and `warm import` reads: a tar archive,
 * compressed with zstd (archive_stream.h). `tar --zstd -tf FILE` lists it.
 *
 *     warm-archive-3                          a line for people
 *     entries/000001-object/about             fields of the first entry, below
 *     entries/000001-object/g++ a.cc          its value; the file's name is the label, in letters that any
 *                                             file system has, or "value"
 *     …
 *     end                                     the number of entries, in digits
 *
 * Every member is a regular file with a header of POSIX ustar. Another number in the first name is a version that
 * this reader refuses. Integers of `about` are little-endian; a text is a u32 length and its bytes.
 *
 * | OFFSET | SIZE | FIELD of `about` |
 * |---|---|---|
 * | 0  | 1     | kind (client/wire/PROTOCOL.md) |
 * | 1  | 4     | cost_ms: time that it took to make |
 * | 5  | 8     | expires_ms: Unix time; 0: never |
 * | 13 | 16    | group (store/FORMAT.md); zero: none |
 * | 29 | 16    | checksum (1) |
 * | 45 | 4 + … | name, hardware, compiler, label: texts of at most 512 bytes |
 * | …  | 4 + … | made: empty, or 64 bytes (2) |
 *
 * (1) The key (keygen/key.h) of the domain "archive/3". Its fields 0 to 4: kind, cost_ms, expires_ms, the group and
 * the five texts as they stand here, the value.
 * (2) Of an entry that a daemon made itself, and that has no name: compiler and graph (16 bytes each), proof (32
 * bytes), as in store/FORMAT.md.
 *
 * Example, the `about` of an entry "abc" of kind other with the value "v":
 *
 *     00 00 00 00 00  00 00 00 00 00 00 00 00, 16 bytes of zero, 16 bytes of checksum
 *     03 00 00 00 61 62 63  00 00 00 00  00 00 00 00  00 00 00 00  00 00 00 00
 *
 * Thread: any; no state. Memory: an entry that is read borrows from its reader until the next one is read.
 */
#ifndef WARM_CLI_IMPORT_ARCHIVE_H
#define WARM_CLI_IMPORT_ARCHIVE_H

#include "keygen/bytes.h"
#include "keygen/err.h"
#include "keygen/key.h"

#define ARCHIVE_TEXT_MAX 512u

/* The address of an entry that a daemon made itself, together with the hardware. */
struct archive_made {
    struct key compiler, graph;
    struct proof proof;
};

struct archive_entry {
    uint8_t kind;
    uint32_t cost_ms;
    uint64_t expires_ms; /* Unix time; 0: never */
    struct key group;
    struct view name, hardware, compiler, label, value;
    bool is_made; /* `made` counts, and the name is empty */
    struct archive_made made;
};

/* ---- writing ---- */

/* Appends the first member. */
void archive_begin(struct writer *out);
/* Appends what stands before the value of entry `number`, from 1. The caller writes the value's bytes right behind
 * it, so that large values need no copy, and then archive_put_padding. */
void archive_put_head(struct writer *out, const struct archive_entry *entry, uint64_t number);
/* Appends what stands between a value of `len` bytes and the next member. */
void archive_put_padding(struct writer *out, uint64_t len);
/* Appends the end, with the number of entries. */
void archive_end(struct writer *out, uint64_t n_entries);

/* ---- reading ---- */

/* The caller sets the first two fields and zeroes the rest. */
struct archive_reader {
    /* Reads exactly `len` bytes. NOT_FOUND: there is none left; TRUNCATED: fewer; or another error. */
    int (*read)(void *arg, void *out, size_t len, struct err *e);
    void *arg;
    struct writer about, value; /* of the entry that was read last */
};

/* Reads the first member. Errors: VERSION; MALFORMED if this is no archive; those of `read`. The caller calls
 * archive_close in any case. */
int archive_open(struct archive_reader *r, struct err *e);
/*
 * Reads the next entry. 0; NOT_FOUND at a correct end; CORRUPT if this entry's checksum is wrong
 * and the next one can be read (out->name is set); MALFORMED or TRUNCATED if no more can be read.
 * `n_before` counts the entries that were returned before, damaged ones too.
 */
int archive_next(struct archive_reader *r, uint64_t n_before, struct archive_entry *out,
                 struct err *e);
/* Frees what the reader owns. */
void archive_close(struct archive_reader *r);

#endif
