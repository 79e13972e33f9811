/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compress.h - objects on their way to a backend, as zstd frames if that pays.
 *
 *     warmd ── bytes ──▶ compress_pack ── frame, or the bytes ──▶ backend ── compress_unpack ──▶ bytes
 *
 * An object is packed if it is larger than COMPRESS_MIN and shrinks by a tenth or more. A frame's own magic
 * number tells, so bytes that begin with it are always packed. Neither HTTP's Content-Encoding nor a field
 * says it: proxies change the one, and warmd's signature is about the bytes alone.
 *
 * What comes back may be anything. Unpacking ends at the size that was asked for. Bytes that are no whole
 * frame stay as they are: warmd compares digests and refuses them.
 *
 * Thread: any; each keeps a context of its own. Memory: descriptors in are borrowed, those that come out are the caller's.
 */
#ifndef WARM_TIER_COMPRESS_H
#define WARM_TIER_COMPRESS_H

#include <stdbool.h>
#include <stdint.h>

#define COMPRESS_MIN 1024u /* bytes */

/* Packs the first `len` bytes of a file. Returns a memfd with a frame, or -1: the bytes are to be sent. */
int compress_pack(int fd, uint64_t len, uint64_t *out_len);
/* Unpacks a frame into at most `limit` bytes. Returns a memfd that can be sealed, or -1: it is no frame,
 * or not a whole one, or would be larger. */
int compress_unpack(int fd, uint64_t len, uint64_t limit, uint64_t *out_len);
/* Does so in memory. Returns the length of what was unpacked, or 0. */
uint64_t compress_unpack_bytes(const uint8_t *bytes, uint64_t len, uint8_t *out, uint64_t limit);
/* Returns how large an object may be in a backend if its bytes are at most `limit`. */
uint64_t compress_bound(uint64_t limit);

#endif
