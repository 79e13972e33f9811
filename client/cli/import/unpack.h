/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unpack.h - the compressed streams in other programs' cache folders: zlib's and zstd's, taken apart
 * and checked by their own libraries.
 *
 * "Whole" means: the stream is right from its first byte to its last, with its own checksum where it
 * has one, and nothing follows it.
 *
 * Thread: any; no state. Memory: what is packed is borrowed; what comes out is appended to a writer,
 * or counted and dropped where `out` is NULL.
 */
#ifndef WARM_CLI_IMPORT_UNPACK_H
#define WARM_CLI_IMPORT_UNPACK_H

#include "keygen/bytes.h"

/* Both return 0 for a stream that is whole and unpacks to at most `max_len` bytes; else MALFORMED,
 * TRUNCATED, TOO_BIG or NOMEM, with part of the content in `out`. */
int unpack_zlib(struct view packed, size_t max_len, struct writer *out);
int unpack_zstd(struct view packed, size_t max_len, struct writer *out);

/* True if it begins as a zstd frame does. No stream of zlib begins so. */
bool unpack_is_zstd(struct view packed);

/* Appends `plain` as a zlib stream of the fastest level: what client/python/warm/triton.py makes. */
int unpack_pack_zlib(struct view plain, struct writer *out);

#endif
