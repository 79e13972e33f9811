/* SPDX-License-Identifier: Apache-2.0 */
/*
 * archive_stream.c - compresses an archive while it is written, and unpacks it while it is read, so that memory
 * holds one entry. commands/export.c and commands/import.c use it.
 *
 * Thread: main.
 */
#include "client/cli/import/archive_stream.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#define CHUNK ((size_t)128 << 10)
#define WINDOW_LOG 27 /* the largest that `zstd -d` and tar take without an option */
#define LEVEL 3

/* ---- writing ---- */

struct archive_out {
    FILE *file;
    ZSTD_CCtx *zstd;
    uint8_t chunk[CHUNK];
};

int archive_out_new(struct archive_out **out, FILE *file, struct err *e)
{
    struct archive_out *o = calloc(1, sizeof *o);
    if (o)
        o->zstd = ZSTD_createCCtx();
    if (!o || !o->zstd) {
        free(o);
        return err_set(e, WARM_ENOMEM, "no memory for the compression");
    }
    o->file = file;
    ZSTD_CCtx_setParameter(o->zstd, ZSTD_c_compressionLevel, LEVEL);
    ZSTD_CCtx_setParameter(o->zstd, ZSTD_c_enableLongDistanceMatching, 1);
    ZSTD_CCtx_setParameter(o->zstd, ZSTD_c_windowLog, WINDOW_LOG);
    ZSTD_CCtx_setParameter(o->zstd, ZSTD_c_checksumFlag, 1);
    *out = o;
    return 0;
}

/* Compresses until the input is taken, and at the end until the frame is complete. */
static int compress(struct archive_out *o, ZSTD_inBuffer *in, ZSTD_EndDirective how, struct err *e)
{
    size_t left;
    do {
        ZSTD_outBuffer to = {o->chunk, sizeof o->chunk, 0};
        left = ZSTD_compressStream2(o->zstd, &to, in, how);
        if (ZSTD_isError(left))
            return err_set(e, WARM_ENOMEM, "cannot compress: %s", ZSTD_getErrorName(left));
        if (to.pos && fwrite(o->chunk, 1, to.pos, o->file) != to.pos)
            return err_sys(e, WARM_EIO, errno, "cannot write the archive");
    } while (in->pos < in->size || (how == ZSTD_e_end && left));
    return 0;
}

int archive_out_write(struct archive_out *o, const void *data, size_t len, struct err *e)
{
    assert(data || len == 0);
    ZSTD_inBuffer in = {data, len, 0};
    return len ? compress(o, &in, ZSTD_e_continue, e) : 0;
}

int archive_out_finish(struct archive_out *o, struct err *e)
{
    ZSTD_inBuffer in = {NULL, 0, 0};
    return compress(o, &in, ZSTD_e_end, e);
}

void archive_out_close(struct archive_out *o)
{
    if (!o)
        return;
    ZSTD_freeCCtx(o->zstd);
    free(o);
}

/* ---- reading ---- */

struct archive_in {
    ZSTD_DCtx *zstd;
    ZSTD_inBuffer file;
    bool ended; /* the frame is complete */
};

int archive_in_new(struct archive_in **out, struct view file, struct err *e)
{
    static const char before[] = "warm archive ";
    if (file.len >= sizeof before && memcmp(file.data, before, sizeof before - 1) == 0)
        return err_set(e, WARM_EVERSION, "an archive of another version: export it with this one");
    struct archive_in *in = calloc(1, sizeof *in);
    if (in)
        in->zstd = ZSTD_createDCtx();
    if (!in || !in->zstd) {
        free(in);
        return err_set(e, WARM_ENOMEM, "no memory to unpack an archive");
    }
    in->file = (ZSTD_inBuffer){file.data, file.len, 0};
    *out = in;
    return 0;
}

int archive_in_read(void *arg, void *out, size_t len, struct err *e)
{
    struct archive_in *in = arg;
    ZSTD_outBuffer to = {out, len, 0};
    while (to.pos < len && !in->ended) {
        size_t before = in->file.pos, got = to.pos;
        size_t more = ZSTD_decompressStream(in->zstd, &to, &in->file);
        if (ZSTD_isError(more))
            return err_set(e, WARM_EMALFORMED, "the archive is damaged: %s",
                           ZSTD_getErrorName(more));
        in->ended = more == 0;
        if (!in->ended && in->file.pos == before && to.pos == got)
            break; /* the file ends within the frame */
    }
    if (to.pos == len)
        return 0;
    if (in->ended && in->file.pos < in->file.size)
        return err_set(e, WARM_EMALFORMED, "the archive is damaged: it goes on behind its end");
    return in->ended && to.pos == 0 ? WARM_ENOT_FOUND : WARM_ETRUNCATED;
}

size_t archive_in_done(const struct archive_in *in) { return in->file.pos; }

void archive_in_close(struct archive_in *in)
{
    if (!in)
        return;
    ZSTD_freeDCtx(in->zstd);
    free(in);
}
