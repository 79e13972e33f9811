/* SPDX-License-Identifier: Apache-2.0 */
/*
 * input_sets.c - writes and reads manifests: the sets of inputs of the runs that have one name.
 * inputs.h has their bytes. run_cached.c keeps a manifest for each job, pch.c one for each header.
 *
 * Thread: main.
 */
#include "client/tool/inputs.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const char magic[4] = "WINP";

void inputs_close(struct inputs *in)
{
    free(in->list);
    free(in->bytes);
    *in = (struct inputs){0};
}

static void write_input(const struct input *i, struct writer *w)
{
    writer_u8(w, i->kind);
    writer_u8(w, i->root);
    writer_blob(w, i->path, strlen(i->path) + 1);
    struct stamp stamp = i->may_change ? (struct stamp){0} : i->stamp;
    if (i->kind == INPUT_FILE || i->kind == INPUT_FOLDER) {
        writer_u64(w, stamp.device);
        writer_u64(w, stamp.inode);
        writer_u64(w, stamp.size);
        writer_u64(w, stamp.mtime_ns);
        writer_u64(w, stamp.ctime_ns);
    }
    if (input_has_digest(i))
        writer_bytes(w, i->digest.bytes, sizeof i->digest.bytes);
    if (i->kind == INPUT_FOLDER)
        writer_u32(w, i->covers);
    if (input_has_type(i))
        writer_u8(w, i->type);
    if (input_has_text(i))
        writer_blob(w, i->program, strlen(i->program) + 1);
}

/* Reads a C string in the buffer: its NUL is the blob's last byte, and the only one. */
static const char *read_text(struct reader *r)
{
    struct view text = reader_blob(r, PATH_MAX);
    if (text.len == 0 || memchr(text.data, 0, text.len) != (const char *)text.data + text.len - 1)
        r->failed = true;
    return r->failed ? "" : text.data;
}

static void read_input(struct reader *r, struct input *i)
{
    *i = (struct input){.kind = reader_u8(r), .root = reader_u8(r)};
    i->path = read_text(r);
    if (i->kind == INPUT_FILE || i->kind == INPUT_FOLDER) {
        i->stamp.device = reader_u64(r);
        i->stamp.inode = reader_u64(r);
        i->stamp.size = reader_u64(r);
        i->stamp.mtime_ns = reader_u64(r);
        i->stamp.ctime_ns = reader_u64(r);
    }
    if (input_has_digest(i))
        reader_copy(r, i->digest.bytes, sizeof i->digest.bytes);
    if (i->kind == INPUT_FOLDER)
        i->covers = reader_u32(r);
    if (input_has_type(i))
        i->type = reader_u8(r);
    if (input_has_text(i))
        i->program = read_text(r);
    if (i->kind < INPUT_FILE || i->kind > INPUT_REAL || i->root > TOOL_ROOTS_MAX)
        r->failed = true;
}

static int read_sets(struct reader *r, struct inputs *in)
{
    size_t room = r->len / 7 + 1; /* an input has at least 7 bytes */
    in->list = calloc(room, sizeof *in->list);
    if (!in->list)
        return WARM_ENOMEM;
    for (size_t s = 0; s < in->n_sets && !r->failed; s++) {
        uint32_t n = reader_u32(r);
        if (n > INPUTS_MAX || n > room - in->n)
            return WARM_EMALFORMED;
        in->sets[s] = in->list + in->n;
        in->set_len[s] = n;
        for (uint32_t i = 0; i < n && !r->failed; i++) {
            read_input(r, &in->list[in->n]);
            if (in->list[in->n++].covers > n - i - 1)
                return WARM_EMALFORMED;
        }
    }
    return reader_done(r) ? 0 : WARM_EMALFORMED;
}

int inputs_read(const void *data, size_t len, struct inputs *out, struct err *e)
{
    assert(data && out);
    struct inputs in = {.bytes = malloc(len ? len : 1), .len = len};
    if (!in.bytes)
        return err_set(e, WARM_ENOMEM, "no memory for the stored list of inputs");
    memcpy(in.bytes, data, len);
    struct reader r = reader_over(in.bytes, len);
    struct view head = reader_bytes(&r, sizeof magic);
    uint16_t version = reader_u16(&r);
    in.n_sets = reader_u16(&r);
    int code = 0;
    if (r.failed || memcmp(head.data, magic, sizeof magic) != 0 || version != INPUTS_VERSION ||
        in.n_sets > INPUTS_SETS_MAX)
        code = WARM_EVERSION;
    if (!code)
        code = read_sets(&r, &in);
    if (code) {
        inputs_close(&in);
        return err_set(e, code,
                       "the stored list of inputs is damaged, or of another version of warm");
    }
    *out = in;
    return 0;
}

/* True if both sets look at the same places: then only the newer one is kept. */
static bool same_places(const struct input *a, size_t n, const struct input *b, size_t m)
{
    if (n != m)
        return false;
    for (size_t i = 0; i < n; i++)
        if (a[i].kind != b[i].kind || a[i].root != b[i].root || strcmp(a[i].path, b[i].path) != 0)
            return false;
    return true;
}

static void write_set(const struct input *list, size_t n, struct writer *w)
{
    writer_u32(w, (uint32_t)n);
    for (size_t i = 0; i < n; i++)
        write_input(&list[i], w);
}

void inputs_write(const struct inputs *fresh, const struct inputs *old, struct writer *w)
{
    assert(fresh && w && fresh->n_sets == 1);
    size_t kept[INPUTS_SETS_MAX], n_kept = 0;
    for (size_t s = 0; old && s < old->n_sets && n_kept + 1 < INPUTS_SETS_MAX; s++)
        if (!same_places(fresh->sets[0], fresh->set_len[0], old->sets[s], old->set_len[s]))
            kept[n_kept++] = s;
    writer_bytes(w, magic, sizeof magic);
    writer_u16(w, INPUTS_VERSION);
    writer_u16(w, (uint16_t)(1 + n_kept));
    write_set(fresh->sets[0], fresh->set_len[0], w);
    for (size_t i = 0; i < n_kept; i++)
        write_set(old->sets[kept[i]], old->set_len[kept[i]], w);
}
