/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bytes.h - the one bounded cursor that parses all bytes, and the buffer that writes them.
 *
 * struct reader: a window on borrowed bytes. Getters read from the front. If fewer bytes are left
 * than a getter needs, it sets `failed`. From then on each getter returns zero or an empty view. So
 * a parser reads all its fields and checks once at the end. No caller does pointer arithmetic.
 *
 * struct writer: a growing buffer. The first allocation that fails, or the first byte past
 * `max_len`, sets `failed`. Later calls do nothing. The caller checks once at the end.
 *
 * Integers are little-endian. A "view" is a pointer and a length: it borrows memory.
 *
 * Functions that run for each field of a message are inline, at the end of this file.
 *
 * Thread: none. Memory: a reader owns nothing; a writer owns `data` until writer_close.
 */
#ifndef WARM_KEYGEN_BYTES_H
#define WARM_KEYGEN_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct view {
    const void *data;
    size_t len; /* bytes */
};

/* Returns a view of a C string without its NUL; an empty one of NULL. */
static inline struct view view_of_text(const char *text)
{
    return (struct view){text ? text : "", text ? strlen(text) : 0};
}
/* True if the view is this text. */
static inline bool view_is(struct view v, const char *text)
{
    return v.len ? *(const char *)v.data == *text && v.len == strlen(text) &&
                       memcmp(v.data, text, v.len) == 0
                 : !*text;
}
/* True if it begins with this text. */
static inline bool view_begins(struct view v, const char *text)
{
    return v.len >= strlen(text) && (!*text || memcmp(v.data, text, strlen(text)) == 0);
}
/* Orders views by their bytes, a shorter one before those that it begins. 0: they are equal. */
int view_order(struct view a, struct view b);
static inline bool view_equal(struct view a, struct view b)
{
    return a.len == b.len && (!a.len || memcmp(a.data, b.data, a.len) == 0);
}
/* A list of texts, for the functions below. */
#define ONE_OF(...) ((const char *const[]){__VA_ARGS__, NULL})
/* True if the text is one of a list, which ends with NULL. */
bool text_is_one_of(const char *text, const char *const *list);
/* True if the text begins with one of a list. */
bool text_begins_with_one(const char *text, const char *const *list);
/* True if the text contains one of a list. */
bool text_has_one_of(const char *text, const char *const *list);
/* True if the view is one of a list. */
bool view_is_one_of(struct view v, const char *const *list);
/* True if a text begins or ends with another. */
static inline bool text_begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}
static inline bool text_ends(const char *text, const char *with)
{
    size_t len = strlen(text), n = strlen(with);
    return len >= n && memcmp(text + len - n, with, n) == 0;
}

struct reader {
    const uint8_t *data;
    size_t len; /* bytes left */
    bool failed;
};

static inline struct reader reader_over(const void *data, size_t len);
static inline uint8_t reader_u8(struct reader *r);
static inline uint16_t reader_u16(struct reader *r);
static inline uint32_t reader_u32(struct reader *r);
static inline uint64_t reader_u64(struct reader *r);

/* Returns the next `len` bytes as a view into the reader's memory. If fewer are left, the view is
 * empty and the reader `failed`. */
static inline struct view reader_bytes(struct reader *r, size_t len);

/* Reads a u32 length, then returns that many bytes. Fails if the length is above `max_len`. */
struct view reader_blob(struct reader *r, size_t max_len);

/* Copies the next `len` bytes to `out`. Zeroes `out` on failure. */
static inline void reader_copy(struct reader *r, void *out, size_t len);

/* True if no getter failed and no byte is left. */
static inline bool reader_done(const struct reader *r);

/* Like memcmp() == 0 and memcpy(). Short texts need no call: up to so many words, and 16 bytes to copy. */
#define FEW_WORDS 8
static inline bool bytes_equal(const void *a, const void *b, size_t len);
static inline void bytes_copy(void *to, const void *from, size_t len);

/* Writes the 2 * len lower-case hex digits of some bytes, and NUL. */
void bytes_to_hex(const void *data, size_t len, char *out);

#define DECIMAL_MAX 20
/* Writes n in decimal to the bytes that end before `end`. Returns a pointer to the first digit. */
static inline char *decimal_before(char *end, uint64_t n);

struct writer {
    uint8_t *data;
    size_t len;     /* bytes written */
    size_t cap;     /* of `data`; never above max_len */
    size_t max_len; /* 0: no limit */
    bool failed;
    bool no_memory; /* it failed without memory, not at its limit */
};

/* Begins an empty buffer of at most `max_len` bytes. 0 means no limit. */
void writer_init(struct writer *w, size_t max_len);
/* Frees the buffer. */
void writer_close(struct writer *w);
static inline void writer_u8(struct writer *w, uint8_t v);
static inline void writer_u16(struct writer *w, uint16_t v);
static inline void writer_u32(struct writer *w, uint32_t v);
static inline void writer_u64(struct writer *w, uint64_t v);
static inline void writer_bytes(struct writer *w, const void *data, size_t len);
/* Appends a u32 length, then the bytes, in the layout of reader_blob. */
void writer_blob(struct writer *w, const void *data, size_t len);
void writer_text(struct writer *w,
                 const char *text); /* appends a C string without its NUL, as writer_blob does */
void writer_format(struct writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Returns room for `len` more bytes, or NULL on failure. The caller must fill it before the next
 * call. */
void *writer_reserve(struct writer *w, size_t len);
/* Gives the buffer to the caller (free() it) and leaves the writer empty. Returns NULL if the
 * writer failed. */
void *writer_take(struct writer *w, size_t *out_len);

/* ---- inline ---- */

static inline struct reader reader_over(const void *data, size_t len)
{
    return (struct reader){.data = data, .len = len, .failed = false};
}

/* Returns the next len bytes, or sets `failed` and returns NULL. */
static inline const uint8_t *reader_advance(struct reader *r, size_t len)
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

/* Returns `size` bytes as a number. If the compiler knows `size`, this is one load, and bytes_store one store. */
static inline uint64_t bytes_load(const uint8_t *p, size_t size)
{
    uint64_t v = 0;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    memcpy(&v, p, size);
#else
    for (size_t i = 0; i < size; i++)
        v |= (uint64_t)p[i] << (8 * i);
#endif
    return v;
}

static inline void bytes_store(uint8_t *p, uint64_t v, size_t size)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    memcpy(p, &v, size);
#else
    for (size_t i = 0; i < size; i++)
        p[i] = (uint8_t)(v >> (8 * i));
#endif
}

static inline uint64_t reader_uint(struct reader *r, size_t size)
{
    const uint8_t *p = reader_advance(r, size);
    return p ? bytes_load(p, size) : 0;
}

static inline uint8_t reader_u8(struct reader *r) { return (uint8_t)reader_uint(r, 1); }
static inline uint16_t reader_u16(struct reader *r) { return (uint16_t)reader_uint(r, 2); }
static inline uint32_t reader_u32(struct reader *r) { return (uint32_t)reader_uint(r, 4); }
static inline uint64_t reader_u64(struct reader *r) { return reader_uint(r, 8); }

static inline struct view reader_bytes(struct reader *r, size_t len)
{
    const uint8_t *p = reader_advance(r, len);
    return r->failed ? (struct view){"", 0} : (struct view){p, len};
}

static inline void reader_copy(struct reader *r, void *out, size_t len)
{
    const uint8_t *p = reader_advance(r, len);
    if (r->failed)
        memset(out, 0, len);
    else if (len)
        memcpy(out, p, len);
}

static inline bool reader_done(const struct reader *r) { return !r->failed && r->len == 0; }

/* Does the same as writer_reserve, which it calls only if the buffer must grow. */
static inline void *writer_room(struct writer *w, size_t len)
{
    if (w->failed || len > w->cap - w->len || !w->data)
        return writer_reserve(w, len);
    void *at = w->data + w->len;
    w->len += len;
    return at;
}

static inline void writer_uint(struct writer *w, uint64_t v, size_t size)
{
    uint8_t *at = (uint8_t *)writer_room(w, size);
    if (at)
        bytes_store(at, v, size);
}

static inline void writer_u8(struct writer *w, uint8_t v) { writer_uint(w, v, 1); }
static inline void writer_u16(struct writer *w, uint16_t v) { writer_uint(w, v, 2); }
static inline void writer_u32(struct writer *w, uint32_t v) { writer_uint(w, v, 4); }
static inline void writer_u64(struct writer *w, uint64_t v) { writer_uint(w, v, 8); }

static inline char *decimal_before(char *end, uint64_t n)
{
    do
        *--end = (char)('0' + n % 10);
    while (n /= 10);
    return end;
}

static inline void writer_bytes(struct writer *w, const void *data, size_t len)
{
    void *at = writer_room(w, len);
    if (at && len)
        memcpy(at, data, len);
}

static inline uint64_t bytes_word(const void *at)
{
    uint64_t x;
    memcpy(&x, at, sizeof x);
    return x;
}

static inline bool bytes_equal(const void *a, const void *b, size_t len)
{
    const char *x = a, *y = b;
    if (len < 8 || len > 8 * FEW_WORDS)
        return !len || memcmp(a, b, len) == 0;
    for (size_t i = 0; i < len - 8; i += 8)
        if (bytes_word(x + i) != bytes_word(y + i))
            return false;
    return bytes_word(x + len - 8) == bytes_word(y + len - 8);
}

static inline void bytes_copy(void *to, const void *from, size_t len)
{
    char *x = to;
    const char *y = from;
    if (len >= 8 && len <= 16) {
        uint64_t first = bytes_word(y), last = bytes_word(y + len - 8);
        memcpy(x, &first, sizeof first);
        memcpy(x + len - 8, &last, sizeof last);
    } else if (len > 16) {
        memcpy(to, from, len);
    } else if (len >= 4) {
        uint32_t first, last;
        memcpy(&first, y, sizeof first);
        memcpy(&last, y + len - 4, sizeof last);
        memcpy(x, &first, sizeof first);
        memcpy(x + len - 4, &last, sizeof last);
    } else if (len) {
        char first = y[0], middle = y[len / 2], last = y[len - 1];
        x[0] = first;
        x[len / 2] = middle;
        x[len - 1] = last;
    }
}

#endif
