/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recording.h - the file of `warm record`: the entries that a job used, in the order of their first use.
 *
 *     warm record 1
 *     44a1d0e79c18a9560cd344f1095e8acc cubin 4195 55 k.cu
 *
 * After the first line, each line is one entry: key, kind, bytes of its value, milliseconds that it took to
 * make, label. Only the key counts; the rest is for people. A reader refuses another first line.
 *
 * Thread: main; no state. Memory: recording_keys gives memory that free() frees.
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
/* Reads the keys of a recording, in order: gives *out. MALFORMED names the line; NOMEM. */
int recording_keys(const void *data, size_t len, struct key **out, size_t *out_n, struct err *e);
/* Returns the key that an entry of an archive has in a store. */
struct key recording_key_of(const struct archive_entry *entry);

#endif
