/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compress.c - packs and unpacks objects with zstd, a piece at a time. main.c of warm-tier calls it.
 *
 * Thread: any; each keeps a context of its own.
 */
#include "tier/compress.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zstd.h>

#define LEVEL 3       /* cubins shrink to a third, XLA's programs to a seventh */
#define WINDOW_LOG 27 /* at most 128 MiB of memory to unpack */
#define PIECE (64u << 10)

static bool begins_as_frame(const uint8_t *bytes, uint64_t len)
{
    static const uint8_t magic[] = {0x28, 0xb5, 0x2f, 0xfd};
    return len >= sizeof magic && memcmp(bytes, magic, sizeof magic) == 0;
}

static const uint8_t *map(int fd, uint64_t len)
{
    void *at = len ? mmap(NULL, (size_t)len, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    return at == MAP_FAILED ? NULL : at;
}

/* Appends a piece to a memfd, up to `most` bytes in all. */
static bool append(int fd, const void *piece, size_t n, uint64_t most, uint64_t *len)
{
    if (n > most - *len || write(fd, piece, n) != (ssize_t)n)
        return false;
    *len += n;
    return true;
}

/* Packs into `out`. False if it would be larger than `most`, or memory runs out. */
static bool pack(const uint8_t *bytes, uint64_t len, int out, uint64_t most, uint64_t *out_len)
{
    uint8_t piece[PIECE];
    ZSTD_CCtx *z = ZSTD_createCCtx();
    ZSTD_inBuffer in = {bytes, (size_t)len, 0};
    size_t left = z ? ZSTD_CCtx_setParameter(z, ZSTD_c_compressionLevel, LEVEL) : 1;
    bool good = z && !ZSTD_isError(left) && !ZSTD_isError(ZSTD_CCtx_setPledgedSrcSize(z, len));
    *out_len = 0;
    do {
        ZSTD_outBuffer to = {piece, sizeof piece, 0};
        left = good ? ZSTD_compressStream2(z, &to, &in, ZSTD_e_end) : 0;
        good = good && !ZSTD_isError(left) && append(out, piece, to.pos, most, out_len);
    } while (good && left);
    ZSTD_freeCCtx(z);
    return good;
}

int compress_pack(int fd, uint64_t len, uint64_t *out_len)
{
    const uint8_t *bytes = map(fd, len);
    if (!bytes)
        return -1;
    bool must = begins_as_frame(bytes, len);
    uint64_t most = must ? compress_bound(len) : len - len / 10;
    int out = must || len > COMPRESS_MIN ? memfd_create("warm-tier", MFD_CLOEXEC) : -1;
    if (out >= 0 && !pack(bytes, len, out, most, out_len)) {
        close(out);
        out = -1;
    }
    munmap((void *)(uintptr_t)bytes, (size_t)len);
    return out;
}

/* Unpacks one whole frame into `out`. */
static bool unpack(const uint8_t *bytes, uint64_t len, int out, uint64_t limit, uint64_t *out_len)
{
    uint8_t piece[PIECE];
    ZSTD_DCtx *z = ZSTD_createDCtx();
    ZSTD_inBuffer in = {bytes, (size_t)len, 0};
    size_t left = 1;
    bool good = z && !ZSTD_isError(ZSTD_DCtx_setParameter(z, ZSTD_d_windowLogMax, WINDOW_LOG));
    *out_len = 0;
    while (good && left) {
        ZSTD_outBuffer to = {piece, sizeof piece, 0};
        left = ZSTD_decompressStream(z, &to, &in);
        good = !ZSTD_isError(left) && append(out, piece, to.pos, limit, out_len) &&
               (to.pos || in.pos < in.size || !left); /* else it is cut off */
    }
    ZSTD_freeDCtx(z);
    return good && in.pos == in.size;
}

int compress_unpack(int fd, uint64_t len, uint64_t limit, uint64_t *out_len)
{
    const uint8_t *bytes = map(fd, len);
    if (!bytes)
        return -1;
    int out = begins_as_frame(bytes, len)
                  ? memfd_create("warm-tier", MFD_CLOEXEC | MFD_ALLOW_SEALING)
                  : -1;
    if (out >= 0 && !unpack(bytes, len, out, limit, out_len)) {
        close(out);
        out = -1;
    }
    munmap((void *)(uintptr_t)bytes, (size_t)len);
    return out;
}

uint64_t compress_unpack_bytes(const uint8_t *bytes, uint64_t len, uint8_t *out, uint64_t limit)
{
    static _Thread_local ZSTD_DCtx *z; /* kept: it is larger than what it unpacks */
    bool is_whole = begins_as_frame(bytes, len) &&
                    ZSTD_findFrameCompressedSize(bytes, (size_t)len) == (size_t)len;
    if (!is_whole || (!z && !(z = ZSTD_createDCtx())))
        return 0;
    size_t n = ZSTD_decompressDCtx(z, out, (size_t)limit, bytes, (size_t)len);
    return ZSTD_isError(n) ? 0 : n;
}

uint64_t compress_bound(uint64_t limit) { return ZSTD_compressBound((size_t)limit); }
