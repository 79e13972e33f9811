/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recording.h - the file of `warm record`: the entries that a job used, in the order of their first use.
 *
 *     warm record 2
 *     44a1d0e79c18a9560cd344f1095e8acc cubin 4195 55 p:9f86d081884c7d65… k.cu
 *     a96faf705af16834e6c632b61e964e1f other 9 20 n:67726170682d31 graph-1
 *
 * After the first line, each line is one entry: key, kind, bytes of its value, milliseconds that it took to
 * make, how to ask for it, label. To ask takes the name (n:) or the proof (p:), in hex; lines of version 1
 * lack it. Kind, time and label are for people. A reader refuses another first line.
 *
 * Thread: main; no state. Memory: recording_read gives memory that free() frees.
 */
#ifndef WARM_CLI_IMPORT_RECORDING_H
#define WARM_CLI_IMPORT_RECORDING_H

#include "client/cli/import/archive.h"
#include "client/wire/wire.h"

#define RECORDING_MAX (64u << 20) /* bytes */

/* Appends the first line. */
void recording_begin(struct writer *out);
/* Appends an entry; check out->failed. */
void recording_add(struct writer *out, const struct wire_row *row);
struct recorded {
    struct key key;
    uint64_t bytes;
    char how;        /* 'n', 'p', or 0: the line does not tell */
    struct view hex; /* borrows the file's bytes */
};
/* Reads a recording of either version, in order: gives *out. MALFORMED names the line; NOMEM. */
int recording_read(const void *data, size_t len, struct recorded **out, size_t *out_n,
                   struct err *e);
/* Returns the key that an entry of an archive has in a store. */
struct key recording_key_of(const struct archive_entry *entry);

#endif
