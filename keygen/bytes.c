/* SPDX-License-Identifier: Apache-2.0 */
/* bytes.c - the bounded cursor and the growing buffer of bytes.h. No state, any thread. */
#include "keygen/bytes.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reader reader_over(const void *data, size_t len)
{
    return (struct reader){.data = data, .len = len, .failed = false};
}

/* The next len bytes, or NULL with the reader failed. */
static const uint8_t *reader_advance(struct reader *r, size_t len)
{
    if (r->failed || len > r->len) {
        r->failed = true;
        r->len = 0;
        return NULL;
    }
    const uint8_t *at = r->data;
    if (len) {
        r->data += len;
        r->len -= len;
    }
    return at;
}

static uint64_t reader_uint(struct reader *r, size_t size)
{
    const uint8_t *p = reader_advance(r, size);
    uint64_t v = 0;
    for (size_t i = 0; p && i < size; i++)
        v |= (uint64_t)p[i] << (8 * i);
    return v;
}

uint8_t reader_u8(struct reader *r) { return (uint8_t)reader_uint(r, 1); }
uint16_t reader_u16(struct reader *r) { return (uint16_t)reader_uint(r, 2); }
uint32_t reader_u32(struct reader *r) { return (uint32_t)reader_uint(r, 4); }
uint64_t reader_u64(struct reader *r) { return reader_uint(r, 8); }

struct view reader_bytes(struct reader *r, size_t len)
{
    const uint8_t *p = reader_advance(r, len);
    return r->failed ? (struct view){"", 0} : (struct view){p, len};
}

struct view reader_blob(struct reader *r, size_t max_len)
{
    uint32_t len = reader_u32(r);
    if (len > max_len)
        r->failed = true;
    return reader_bytes(r, len);
}

void reader_copy(struct reader *r, void *out, size_t len)
{
    const uint8_t *p = reader_advance(r, len);
    if (r->failed)
        memset(out, 0, len);
    else if (len)
        memcpy(out, p, len);
}

bool reader_done(const struct reader *r) { return !r->failed && r->len == 0; }

void writer_init(struct writer *w, size_t max_len) { *w = (struct writer){.max_len = max_len}; }

void writer_close(struct writer *w)
{
    free(w->data);
    *w = (struct writer){0};
}

void *writer_reserve(struct writer *w, size_t len)
{
    if (w->failed || len > SIZE_MAX - w->len || (w->max_len && w->len + len > w->max_len)) {
        w->failed = true;
        return NULL;
    }
    size_t need = w->len + len;
    if (need > w->cap || !w->data) {
        size_t cap = w->cap ? w->cap : 256;
        while (cap < need)
            cap = cap > SIZE_MAX / 2 ? need : cap * 2;
        uint8_t *data = realloc(w->data, cap);
        if (!data) {
            w->failed = true;
            return NULL;
        }
        w->data = data;
        w->cap = cap;
    }
    void *at = w->data + w->len;
    w->len = need;
    return at;
}

void writer_bytes(struct writer *w, const void *data, size_t len)
{
    if (!w->failed && len && len <= w->cap - w->len &&
        (!w->max_len || w->len + len <= w->max_len)) { /* there is room */
        memcpy(w->data + w->len, data, len);
        w->len += len;
        return;
    }
    void *at = writer_reserve(w, len);
    if (at && len)
        memcpy(at, data, len);
}

static void writer_uint(struct writer *w, uint64_t v, size_t size)
{
    uint8_t *at = writer_reserve(w, size);
    for (size_t i = 0; at && i < size; i++)
        at[i] = (uint8_t)(v >> (8 * i));
}

void writer_u8(struct writer *w, uint8_t v) { writer_uint(w, v, 1); }
void writer_u16(struct writer *w, uint16_t v) { writer_uint(w, v, 2); }
void writer_u32(struct writer *w, uint32_t v) { writer_uint(w, v, 4); }
void writer_u64(struct writer *w, uint64_t v) { writer_uint(w, v, 8); }

void writer_blob(struct writer *w, const void *data, size_t len)
{
    if (len > UINT32_MAX) {
        w->failed = true;
        return;
    }
    writer_u32(w, (uint32_t)len);
    writer_bytes(w, data, len);
}

void writer_text(struct writer *w, const char *text) { writer_blob(w, text, strlen(text)); }

void writer_format(struct writer *w, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    size_t before = w->len;
    char *at = n < 0 ? NULL : writer_reserve(w, (size_t)n + 1);
    if (at) {
        vsnprintf(at, (size_t)n + 1, format, again);
        w->len = before + (size_t)n; /* the NUL is not part of the text */
    } else {
        w->failed = true;
    }
    va_end(again);
}

void *writer_take(struct writer *w, size_t *out_len)
{
    if (w->failed || !writer_reserve(w, 0)) {
        writer_close(w);
        return NULL;
    }
    void *data = w->data;
    *out_len = w->len;
    *w = (struct writer){0};
    return data;
}
