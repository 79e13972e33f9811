/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conn.h - one connection to the daemon, as the client has it: frames out, frames in, deadlines.
 *
 *     conn_open ──▶ [HELLO queued] ──conn_send──▶ [HELLO and the request in one write]
 *                                                       │ conn_recv
 *                   WELCOME is taken on the way ◀───────┴──▶ the answer, with its descriptors
 *
 * Every call ends by its deadline, whatever the daemon does. After an error the connection is of no
 * further use: close it.
 *
 * Thread: one at a time. Memory: a struct conn is embedded by its user and owns its buffers and the
 * descriptors that arrived but were not handed out.
 */
#ifndef WARM_LIB_CONN_H
#define WARM_LIB_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/wire/wire.h"

#define CONN_FDS_WAITING 8 /* descriptors that may have arrived before their frames were read */

#define WARM_SYSTEM_SOCKET "/run/warm/warmd.sock"

struct conn {
    int fd;        /* -1: closed */
    bool welcomed; /* WELCOME has come */
    unsigned n_waits;
    int slice_fd; /* a timer that ends waits; -1: none */
    uint64_t slice_ends_ms;
    uint32_t daemon_uid;
    char daemon[64];   /* "warmd 0.1.0" */
    struct writer out; /* frames to send: append with wire_put_*, then conn_send */
    uint8_t *in;
    size_t in_start, in_end, in_cap;
    int fds[CONN_FDS_WAITING];
    size_t n_fds;
};

/* Milliseconds of the clock that deadlines are on (monotonic, right to some milliseconds). */
uint64_t conn_now_ms(void);

/* The administrator's socket that goes with the socket at `path`: admin.sock beside warmd.sock, else
 * the path and ".admin". False if it is longer than `cap`. */
bool conn_admin_path(const char *path, char *out, size_t cap);

/* Connects to the socket at `path` and queues HELLO. Errors: NO_DAEMON (nothing listens there),
 * DENIED, TIMEOUT, INVALID (path), NOMEM, IO. On error nothing is to be closed. */
int conn_open(struct conn *c, const char *path, uint64_t deadline_ms, struct err *e);
void conn_close(struct conn *c);

/* Sends what is in c->out. The frame that begins at `frame_at` of it carries `fds` (borrowed); with
 * no descriptors both are 0. Errors: CLOSED, TIMEOUT, NOMEM, IO. */
int conn_send(struct conn *c, size_t frame_at, const int *fds, size_t n_fds, uint64_t deadline_ms,
              struct err *e);

/* The next frame, WELCOME aside. *out borrows the connection's buffer until the next call. Its
 * descriptors are given in `out_fds`, those that it has not are -1: the caller closes them.
 * `other_fd` (-1: none) is watched too: if it can be read before a frame is whole, returns
 * CONN_OTHER. Errors: CLOSED, TIMEOUT, MALFORMED, TOO_BIG, VERSION, DENIED, NOMEM, IO. */
#define CONN_OTHER 1
int conn_recv(struct conn *c, int other_fd, struct wire_frame *out, int out_fds[WIRE_FDS_MAX],
              uint64_t deadline_ms, struct err *e);

/* Gives the buffer in which the last frame lies, so that a large value need not be copied out of it;
 * NULL if more than that frame is in it. The value of a HIT is aligned there as malloc'ed memory is. */
void *conn_give_buffer(struct conn *c);
void conn_buffer_free(void *buffer); /* any thread */

/* What an ERROR frame says: fills *e and returns its code, always negative. */
int conn_error(const struct wire_frame *frame, struct err *e);

/* Closes those of out_fds that are left, and marks them so. */
void conn_fds_close(int fds[WIRE_FDS_MAX]);

/* Waits for WELCOME if it has not come: for who wants to know c->daemon before the first answer. */
int conn_shake_hands(struct conn *c, uint64_t deadline_ms, struct err *e);

#endif
