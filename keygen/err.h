/* SPDX-License-Identifier: Apache-2.0 */
/*
 * err.h - the one list of error codes, and the text that travels with them.
 *
 * Functions that can fail return 0 or a negative code from this list. The layer that finds the
 * fault fills a `struct err` and logs nothing. The layer that handles the fault logs once or
 * replies. A code crosses the wire as its positive number, so nobody may reuse a number.
 *
 * Thread: none of this has state. Memory: a struct err is embedded by its user; 256 bytes.
 */
#ifndef WARM_KEYGEN_ERR_H
#define WARM_KEYGEN_ERR_H

#include <stddef.h>

/* name, number, text for a person if there is no better one */
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

/* A fault with its context. The text is one line for a person, without a newline, and never has the
 * contents of a user's file. `line` and `column` count from 1. They are 0 if they mean nothing. */
struct err {
    int code;
    unsigned line;
    unsigned column;
    char text[244];
};

/* Fills *e (which may be NULL) from a printf format and returns `code`, so that a caller can write
 * `return err_set(e, WARM_EIO, ...)`. Cuts the text if it is too long. */
int err_set(struct err *e, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Does the same, and appends ": " and the text of errno `errnum`. */
int err_sys(struct err *e, int code, int errnum, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Sets e->line and e->column to the place of byte `at` of a text, at most its end. `e` may be NULL. */
void err_place(struct err *e, const char *text, size_t len, size_t at);

/* Returns "MALFORMED" for WARM_EMALFORMED, "OK" for 0, "UNKNOWN" for a number outside the list.
 * Static memory. */
const char *err_name(int code);

/* Returns the list's own text for a code. Static memory. */
const char *err_text(int code);

#endif
