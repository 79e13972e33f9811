/* SPDX-License-Identifier: Apache-2.0 */
/*
 * archive_stream.h - the compression of an archive: one frame of zstd.
 *
 *     archive.h ──bytes──▶ archive_out ──▶ FILE          a window of 128 MiB: of near-equal values, only
 *     archive.h ◀──bytes── archive_in ◀── bytes of it    the difference takes room
 *
 * Thread: main. Memory: archive_out_close and archive_in_close free all but the file and its bytes.
 */
#ifndef WARM_CLI_IMPORT_ARCHIVE_STREAM_H
#define WARM_CLI_IMPORT_ARCHIVE_STREAM_H

#include <stdio.h>

#include "keygen/bytes.h"
#include "keygen/err.h"

struct archive_out;
/* Begins to write; borrows the file. 0 or NOMEM. */
int archive_out_new(struct archive_out **out, FILE *file, struct err *e);
/* Compresses and writes bytes. 0 or IO. */
int archive_out_write(struct archive_out *o, const void *data, size_t len, struct err *e);
/* Writes the rest. 0 or IO. */
int archive_out_finish(struct archive_out *o, struct err *e);
/* Frees it; NULL is fine. */
void archive_out_close(struct archive_out *o);

struct archive_in;
/* Begins to read a file's bytes, which it borrows. 0, NOMEM, or VERSION for an archive without compression. */
int archive_in_new(struct archive_in **out, struct view file, struct err *e);
/* Reads exactly `len` bytes; the `read` of struct archive_reader, for an archive_in. */
int archive_in_read(void *arg, void *out, size_t len, struct err *e);
/* Returns how many bytes of the file have been read. */
size_t archive_in_done(const struct archive_in *in);
/* Frees it; NULL is fine. */
void archive_in_close(struct archive_in *in);

#endif
