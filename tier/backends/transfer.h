/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transfer.h - one HTTP request and its answer, by libcurl on the helper's loop.
 *
 *     transfer_start ──▶ connect, send, receive ──▶ done: an answer of any status, or why there is none
 *                              │
 *                              └─ the time is over, too slow, cancelled: done at once
 *
 * The body of an answer with status 200 goes into a memfd, if one is wanted. All other bodies go into `text`: a page
 * about an error never becomes an object. Redirects are not followed.
 *
 * Thread: loop thread. Memory: the caller keeps a transfer until `done`, which is called once and never from within
 * transfer_start.
 */
#ifndef WARM_TIER_BACKENDS_TRANSFER_H
#define WARM_TIER_BACKENDS_TRANSFER_H

#include <time.h>

#include "tier/backend.h"

struct transfer_pool;

enum transfer_method { TRANSFER_GET, TRANSFER_PUT, TRANSFER_DELETE, TRANSFER_MKCOL };

enum {
    TRANSFER_HEADERS_MAX = 12,
    TRANSFER_TEXT_MAX = 8192,
    TRANSFER_URL_MAX = 1400,
};

/* How all transfers of a pool are made. NULL is none. */
struct transfer_settings {
    const char *ca; /* a file of certificates; NULL: SSL_CERT_FILE, or the system's */
    const char *certificate, *key; /* files: the client's own */
    const char *proxy;             /* NULL: what the environment says */
    uint32_t connections;          /* at most, at once; 0: 16 */
    uint64_t min_rate;             /* bytes a second, after the first two seconds; 0: none */
};

struct transfer {
    enum transfer_method method;
    char url[TRANSFER_URL_MAX];
    const char *headers[TRANSFER_HEADERS_MAX]; /* "name: value"; borrowed until `done` */
    size_t n_headers;
    int fd; /* PUT: `length` bytes from `offset`, or -1 and `body` */
    uint64_t offset, length;
    const char *body;
    bool wants_file; /* a body of status 200 goes into a memfd */
    bool avoids_proxy;
    uint64_t limit; /* bytes of it at most */
    uint64_t timeout_ms;

    /* The answer. TIER_OK: there is one, with this status. Else: why not. */
    enum tier_outcome outcome;
    char said[TIER_SAID_MAX];
    int status;
    int result_fd; /* given to the caller; -1 if there is none */
    uint64_t result_length;
    char text[TRANSFER_TEXT_MAX + 1]; /* the body, cut off; with a NUL */
    size_t text_length;
    char etag[160], content_type[80], region[64], location[200]; /* or "" */
    bool has_length;       /* the answer said how long its body is */
    time_t date, modified; /* 0: not said */
    uint64_t retry_ms;     /* Retry-After; 0: not said */

    void (*done)(struct transfer *transfer);
    void *user;     /* the caller's */
    void *exchange; /* while it runs */
};

/* Makes a pool. Returns NULL and one line in `why` if libcurl cannot be loaded. */
struct transfer_pool *transfer_pool_new(uv_loop_t *loop, const struct transfer_settings *settings,
                                        char *why, size_t why_size);
/* Ends all transfers, then calls `closed`. */
void transfer_pool_close(struct transfer_pool *pool, void (*closed)(void *user), void *user);

/* Starts a transfer. Never fails: what goes wrong is its outcome. */
void transfer_start(struct transfer_pool *pool, struct transfer *transfer);
/* Ends a transfer that runs, with TIER_FAILED and "cancelled", in the loop's next turn. */
void transfer_cancel(struct transfer *transfer);

#endif
