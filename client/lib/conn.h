/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conn.h - the client's end of one connection to the daemon: frames out, frames in, deadlines.
 *
 *     conn_open ──▶ [HELLO queued] ──conn_send──▶ [HELLO and the request in one write]
 *                                                       │ conn_recv
 *                   WELCOME is read on the way ◀────────┴──▶ the answer, with its descriptors
 *
 * Every call ends by its deadline, whatever the daemon does. After an error the connection is
 * useless: close it.
 *
 * We live in programs that close all descriptors, as daemons do, and use the numbers again. So before each
 * send, each receive and the close, device and inode of the descriptor are compared with those of our
 * socket. Another descriptor is left alone, and the connection is CLOSED. A race remains: a thread of the
 * program may close and open a descriptor between the comparison and the system call after it.
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

#define CONN_FDS_WAITING 8 /* descriptors that may arrive before their frames are read */

#define WARM_SYSTEM_SOCKET "/run/warm/warmd.sock"

struct conn {
    int fd;                  /* -1: closed */
    uint64_t fd_dev, fd_ino; /* of the socket */
    bool welcomed;           /* WELCOME has come */
    uint32_t daemon_uid;
    char daemon[64];   /* "warmd 0.1.0" */
    struct writer out; /* frames to send: append with wire_put_*, then conn_send */
    uint8_t *in;
    size_t in_start, in_end, in_cap;
    int fds[CONN_FDS_WAITING];
    size_t n_fds;
};

#define CONN_OTHER 1 /* conn_recv: the other descriptor can be read */

/* Returns the time of the clock that all deadlines use: monotonic, right to some milliseconds. */
uint64_t conn_now_ms(void);

/* Writes the path of the administrator's socket that goes with the socket at `path`: admin.sock
 * beside warmd.sock, else the path and ".admin". False if it is longer than `cap`. */
bool conn_admin_path(const char *path, char *out, size_t cap);

/* Connects to the socket at `path` and queues HELLO. Errors: NO_DAEMON (nothing listens there),
 * DENIED, TIMEOUT, INVALID (path), NOMEM, IO. After an error there is nothing to close. */
int conn_open(struct conn *c, const char *path, uint64_t deadline_ms, struct err *e);
/* Makes each later connection of this process one that administers: its GETs count as no use. */
void conn_administer(void);
/* Closes the connection and frees all that it owns; closing it twice is fine. */
void conn_close(struct conn *c);

/* Sends the bytes in c->out. The frame that begins there at `frame_at` carries `fds` (borrowed, at
 * most WIRE_FDS_MAX); without descriptors both are 0. Errors: CLOSED, TIMEOUT, NOMEM, IO. */
int conn_send(struct conn *c, size_t frame_at, const int *fds, size_t n_fds, uint64_t deadline_ms,
              struct err *e);

/* Receives the next frame after WELCOME. *out borrows the connection's buffer until the next call.
 * Gives the frame's descriptors in `out_fds`, which the caller closes; the others are -1. Watches
 * `other_fd` (-1: none) too, and returns CONN_OTHER if it can be read before a frame is whole.
 * Errors: CLOSED, TIMEOUT, MALFORMED, TOO_BIG, VERSION, DENIED, NOMEM, IO. */
int conn_recv(struct conn *c, int other_fd, struct wire_frame *out, int out_fds[WIRE_FDS_MAX],
              uint64_t deadline_ms, struct err *e);

/* Gives the buffer that holds the last frame, so that a large value need not be copied out of it
 * (conn_buffer_free). NULL if it holds more than that frame. The value of a HIT is aligned there
 * like malloc'ed memory. */
void *conn_give_buffer(struct conn *c);
/* Frees such a buffer, or keeps it for the next connection. Thread: any. */
void conn_buffer_free(void *buffer);

/* Decodes an ERROR frame: fills *e and returns its code, always negative. */
int conn_error(const struct wire_frame *frame, struct err *e);

/* Closes the descriptors that are still open, and sets all to -1. */
void conn_fds_close(int fds[WIRE_FDS_MAX]);

/* Waits for WELCOME if it has not come, so that c->daemon is known before the first answer. Errors:
 * as conn_send and conn_recv. */
int conn_shake_hands(struct conn *c, uint64_t deadline_ms, struct err *e);

#endif
