/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inflate.h - zlib's format, enough of it to check and take apart what frameworks stored, and to
 * write what they read. (`warm` is a static program of a few hundred kilobytes: no library for this.)
 *
 * Thread: any; no state. Memory: the input is borrowed.
 * Source: RFC 1950 (zlib), RFC 1951 (deflate), RFC 8878 sections 3.1.1 and 3.1.1.2 (zstd frames).
 */
#ifndef WARM_INFLATE_H
#define WARM_INFLATE_H

#include "keygen/bytes.h"

/*
 * Decompresses a zlib stream into `out` (may be NULL: only checked), no more than `max_len` bytes.
 * Returns 0 where the stream is whole, its checksum is right and nothing follows it; else MALFORMED,
 * TRUNCATED, TOO_BIG or NOMEM.
 */
int inflate_zlib(const void *data, size_t len, size_t max_len, struct writer *out);

/* Appends `data` as a zlib stream that is not compressed. */
void inflate_store(struct writer *out, const void *data, size_t len);

/* True if the bytes are one zstd frame from its magic number to its last block: its content is not
 * looked at. */
bool inflate_zstd_is_whole(const void *data, size_t len);

#endif
