/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bytes.h - the one bounded cursor that parses everything, and the buffer that writes it.
 *
 * struct reader: a window on bytes that somebody else owns. Getters take from the front. The first
 * getter that asks for more than is left sets `failed`; from then on each getter returns zero or
 * an empty view, so a parser reads all its fields and checks once at the end. No caller does
 * pointer arithmetic.
 *
 * struct writer: a growing buffer. The first allocation that fails, or the first byte past
 * `max_len`, sets `failed`; later calls do nothing. Checked once at the end.
 *
 * Integers are little-endian. A "view" is a pointer and a length into memory that is borrowed.
 *
 * Thread: none. Memory: a reader owns nothing; a writer owns `data` until writer_close.
 */
#ifndef WARM_KEYGEN_BYTES_H
#define WARM_KEYGEN_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct view {
    const void *data;
    size_t len; /* bytes */
};

struct reader {
    const uint8_t *data;
    size_t len; /* bytes left */
    bool failed;
};

struct reader reader_over(const void *data, size_t len);
uint8_t reader_u8(struct reader *r);
uint16_t reader_u16(struct reader *r);
uint32_t reader_u32(struct reader *r);
uint64_t reader_u64(struct reader *r);

/* The next `len` bytes as a view into the reader's memory; empty, and `failed`, if fewer are left.
 */
struct view reader_bytes(struct reader *r, size_t len);

/* A u32 length, then that many bytes. Fails if the length is above `max_len`. */
struct view reader_blob(struct reader *r, size_t max_len);

/* Copies the next `len` bytes to `out`; zeroes `out` on failure. */
void reader_copy(struct reader *r, void *out, size_t len);

/* True if no getter failed and every byte was taken. */
bool reader_done(const struct reader *r);

struct writer {
    uint8_t *data;
    size_t len; /* bytes written */
    size_t cap;
    size_t max_len; /* 0: no limit */
    bool failed;
};

void writer_init(struct writer *w, size_t max_len);
void writer_close(struct writer *w);
void writer_u8(struct writer *w, uint8_t v);
void writer_u16(struct writer *w, uint16_t v);
void writer_u32(struct writer *w, uint32_t v);
void writer_u64(struct writer *w, uint64_t v);
void writer_bytes(struct writer *w, const void *data, size_t len);
/* A u32 length, then the bytes: what reader_blob reads. */
void writer_blob(struct writer *w, const void *data, size_t len);
void writer_text(struct writer *w,
                 const char *text); /* writer_blob of a C string without its NUL */
void writer_format(struct writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Room for `len` more bytes, to be filled by the caller before the next call; NULL if it failed. */
void *writer_reserve(struct writer *w, size_t len);
/* Gives the buffer to the caller (free() it) and leaves the writer empty; NULL if it failed. */
void *writer_take(struct writer *w, size_t *out_len);

#endif
