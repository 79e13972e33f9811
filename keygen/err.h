/* SPDX-License-Identifier: Apache-2.0 */
/*
 * err.h - the one list of error codes, and the text that travels with them.
 *
 * Functions that can fail return 0 or a negative code from this list. The layer that finds the
 * fault fills a `struct err` and logs nothing; the layer that decides what happens next logs once
 * or replies. A code crosses the wire as its positive number, so numbers are never reused.
 *
 * Thread: none of this has state. Memory: a struct err is embedded by its user; 256 bytes.
 */
#ifndef WARM_KEYGEN_ERR_H
#define WARM_KEYGEN_ERR_H

#include <stddef.h>

/* name, number, what a person reads when there is nothing better to say */
#define WARM_ERR_LIST(X)                                                                           \
    X(NOMEM, 1, "out of memory")                                                                   \
    X(INVALID, 2, "invalid argument")                                                              \
    X(MALFORMED, 3, "malformed input")                                                             \
    X(TRUNCATED, 4, "input ends too early")                                                        \
    X(TOO_BIG, 5, "larger than the limit")                                                         \
    X(UNSUPPORTED, 6, "not supported")                                                             \
    X(VERSION, 7, "version not supported")                                                         \
    X(NOT_FOUND, 8, "not found")                                                                   \
    X(DENIED, 9, "not allowed")                                                                    \
    X(CORRUPT, 10, "stored bytes are damaged")                                                     \
    X(FULL, 11, "no space left")                                                                   \
    X(IO, 12, "input/output error")                                                                \
    X(BUSY, 13, "in use by another process")                                                       \
    X(TIMEOUT, 14, "deadline passed")                                                              \
    X(CANCELLED, 15, "cancelled")                                                                  \
    X(CLOSED, 16, "connection closed")                                                             \
    X(NO_DAEMON, 17, "no daemon answers")                                                          \
    X(CRASHED, 18, "the compiler process died")                                                    \
    X(REFUSED, 19, "refused: the result could not be kept soundly")                                \
    X(NO_TOOLCHAIN, 20, "no such compiler")                                                        \
    X(LEASE_LOST, 21, "the lease is no longer held")                                               \
    X(SHUTDOWN, 22, "the daemon is stopping")

/* client/lib/warm.h has the same codes for programs outside; client.c checks that they agree. */
#ifndef WARM_ERROR_CODES
#define WARM_ERROR_CODES
enum warm_error {
#define X(name, number, text) WARM_E##name = -(number),
    WARM_ERR_LIST(X)
#undef X
};
#endif

/* What went wrong, with its context: one line for a person, no newline, never the contents of
 * somebody's file. `line` and `column` count from 1 and are 0 where they mean nothing. */
struct err {
    int code;
    unsigned line;
    unsigned column;
    char text[244];
};

/* Fills *e (which may be NULL) from a printf format and returns `code`, so that a caller can write
 * `return err_set(e, WARM_EIO, ...)`. Cuts the text where it does not fit. */
int err_set(struct err *e, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The same with the text of errno `errnum` appended after ": ". */
int err_sys(struct err *e, int code, int errnum, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Sets e->line and e->column (e may be NULL) to where byte `at` of a text stands, its end at most. */
void err_place(struct err *e, const char *text, size_t len, size_t at);

/* "MALFORMED" for WARM_EMALFORMED; "OK" for 0; "UNKNOWN" for anything else. Static memory. */
const char *err_name(int code);

/* The list's own sentence for a code. Static memory. */
const char *err_text(int code);

#endif
