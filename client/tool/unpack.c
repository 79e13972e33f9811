/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unpack.c - unpacks and checks zlib's and zstd's streams in chunks. The formats of cache folders
 * call it, because frameworks compress their entries, and path_names.c, because fatbinary does; unpack.h has the contract.
 *
 * Thread: any; no state.
 */
#include "client/tool/unpack.h"

#define ZLIB_CONST /* its input is const */
#include <assert.h>
#include <zlib.h>
#include <zstd.h>

#include "keygen/err.h"

#define CHUNK 65536u         /* bytes that one call unpacks */
#define ZLIB_STEP (1u << 30) /* input bytes of one call: zlib counts in unsigned int */

/* The receiver of chunks. */
struct sink {
    struct writer *out;
    size_t len, max_len;
};

static int sink_take(struct sink *s, const void *chunk, size_t len)
{
    if (len > s->max_len - s->len)
        return WARM_ETOO_BIG;
    s->len += len;
    if (s->out)
        writer_bytes(s->out, chunk, len);
    return s->out && s->out->failed ? WARM_ENOMEM : 0;
}

static unsigned step(size_t len) { return (unsigned)(len < ZLIB_STEP ? len : ZLIB_STEP); }

/* ---- zlib ---- */

/* Unpacks the next chunk. Z_STREAM_END with the last one, Z_OK before; else zlib's error. */
static int inflate_chunk(z_stream *z, size_t *left, uint8_t *chunk)
{
    unsigned given = z->avail_in = step(*left);
    z->next_out = chunk;
    z->avail_out = CHUNK;
    int code = inflate(z, Z_NO_FLUSH);
    *left -= given - z->avail_in;
    return code;
}

static int code_of_zlib(int code)
{
    /* no progress is possible: the input is at its end and the stream is not */
    return code == Z_BUF_ERROR   ? WARM_ETRUNCATED
           : code == Z_MEM_ERROR ? WARM_ENOMEM
                                 : WARM_EMALFORMED;
}

int unpack_zlib(struct view packed, size_t max_len, struct writer *out)
{
    assert(packed.data || packed.len == 0);
    uint8_t chunk[CHUNK];
    struct sink sink = {out, 0, max_len};
    z_stream z = {.next_in = packed.data};
    size_t left = packed.len;
    int code = 0, state = inflateInit(&z);
    if (state != Z_OK)
        return code_of_zlib(state);
    while (!code && state == Z_OK) {
        state = inflate_chunk(&z, &left, chunk);
        if (state == Z_OK || state == Z_STREAM_END)
            code = sink_take(&sink, chunk, CHUNK - z.avail_out);
    }
    inflateEnd(&z);
    if (code)
        return code;
    if (state != Z_STREAM_END)
        return code_of_zlib(state);
    return left ? WARM_EMALFORMED : 0;
}

int unpack_pack_zlib(struct view plain, struct writer *out)
{
    assert(out);
    uint8_t chunk[CHUNK];
    z_stream z = {.next_in = plain.data};
    size_t left = plain.len;
    int state = deflateInit(&z, Z_BEST_SPEED);
    if (state != Z_OK)
        return WARM_ENOMEM;
    while (state == Z_OK) {
        unsigned given = z.avail_in = step(left);
        z.next_out = chunk;
        z.avail_out = CHUNK;
        state = deflate(&z, given == left ? Z_FINISH : Z_NO_FLUSH);
        left -= given - z.avail_in;
        writer_bytes(out, chunk, CHUNK - z.avail_out);
    }
    deflateEnd(&z);
    return state == Z_STREAM_END && !out->failed ? 0 : WARM_ENOMEM;
}

/* ---- zstd ---- */

bool unpack_is_zstd(struct view packed)
{
    struct reader r = reader_over(packed.data, packed.len);
    return reader_u32(&r) == ZSTD_MAGICNUMBER;
}

int unpack_zstd(struct view packed, size_t max_len, struct writer *out)
{
    assert(packed.data || packed.len == 0);
    uint8_t chunk[CHUNK];
    struct sink sink = {out, 0, max_len};
    ZSTD_inBuffer in = {packed.data, packed.len, 0};
    ZSTD_DCtx *context = ZSTD_createDCtx();
    int code = context ? 0 : WARM_ENOMEM;
    size_t more = 1; /* 0: the frame is at its end */
    while (!code && more) {
        ZSTD_outBuffer to = {chunk, CHUNK, 0};
        size_t before = in.pos;
        more = ZSTD_decompressStream(context, &to, &in);
        if (ZSTD_isError(more))
            code = WARM_EMALFORMED;
        else if (more && in.pos == before && to.pos == 0)
            code = WARM_ETRUNCATED;
        else
            code = sink_take(&sink, chunk, to.pos);
    }
    ZSTD_freeDCtx(context);
    return code || in.pos == in.size ? code : WARM_EMALFORMED;
}
