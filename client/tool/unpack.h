/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unpack.h - unpacks the compressed streams in other programs' files, zlib's and zstd's,
 * with their own libraries, which check them.
 *
 * A "whole" stream is right from its first byte to its last, with its own checksum if it has one,
 * and nothing follows it.
 *
 * Thread: any; no state. Memory: the packed bytes are borrowed; the content is appended to a
 * writer, or counted and dropped if `out` is NULL.
 */
#ifndef WARM_TOOL_UNPACK_H
#define WARM_TOOL_UNPACK_H

#include "keygen/bytes.h"

/* Unpacks a stream. Returns 0 if it is whole and unpacks to at most `max_len` bytes; else
 * MALFORMED, TRUNCATED, TOO_BIG or NOMEM, with part of the content in `out`. */
int unpack_zlib(struct view packed, size_t max_len, struct writer *out);
/* Unpacks a frame of zstd in the same way. */
int unpack_zstd(struct view packed, size_t max_len, struct writer *out);

/* True if the bytes begin as a zstd frame. No stream of zlib begins so. */
bool unpack_is_zstd(struct view packed);

/* Appends `plain` as a zlib stream of the fastest level, as client/python/warm/triton.py does. */
int unpack_pack_zlib(struct view plain, struct writer *out);

#endif
