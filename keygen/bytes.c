/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bytes.c - decides when a reader or a writer fails: the parts of bytes.h that are not inline. It
 * has blobs with a length in front, text from a format, and the buffer that grows up to its limit.
 * Every module that reads or writes bytes calls it.
 *
 * Thread: any; no state.
 */
#include "keygen/bytes.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct view reader_blob(struct reader *r, size_t max_len)
{
    uint32_t len = reader_u32(r);
    if (len > max_len)
        r->failed = true;
    return reader_bytes(r, len);
}

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
        if (w->max_len && cap > w->max_len)
            cap = w->max_len;
        uint8_t *data = realloc(w->data, cap);
        if (!data) {
            w->failed = w->no_memory = true;
            return NULL;
        }
        w->data = data;
        w->cap = cap;
    }
    void *at = w->data + w->len;
    w->len = need;
    return at;
}

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

int view_order(struct view a, struct view b)
{
    size_t len = a.len < b.len ? a.len : b.len;
    int order = len ? memcmp(a.data, b.data, len) : 0;
    return order ? order : (a.len > b.len) - (a.len < b.len);
}

bool text_is_one_of(const char *text, const char *const *list)
{
    return view_is_one_of(view_of_text(text), list);
}

bool text_begins_with_one(const char *text, const char *const *list)
{
    while (*list && !text_begins(text, *list))
        list++;
    return *list;
}

bool text_has_one_of(const char *text, const char *const *list)
{
    while (*list && !strstr(text, *list))
        list++;
    return *list;
}

bool view_is_one_of(struct view v, const char *const *list)
{
    while (*list && !view_is(v, *list))
        list++;
    return *list;
}

void bytes_to_hex(const void *data, size_t len, char *out)
{
    static const char digits[] = "0123456789abcdef";
    const uint8_t *bytes = data;
    for (size_t i = 0; i < len; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
    out[2 * len] = '\0';
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
