/* SPDX-License-Identifier: Apache-2.0 */
/*
 * internal.h - the state of a connection, and of the turn that all connections of a server share.
 *
 *     server.c ──▶ connection.c ──▶ output.c ──▶ turn.c       each calls those on its right alone
 *
 * Thread: loop thread. Memory: a connection is freed by its handle's close callback, the turn by its
 * server.
 */
#ifndef WARM_DAEMON_NET_INTERNAL_H
#define WARM_DAEMON_NET_INTERNAL_H

#include "client/wire/wire.h"
#include "daemon/net/connection.h"
#include "daemon/net/resp.h"

#define INPUT_SHARED (256u << 10) /* bytes read in one turn */
#define OUTPUT_ITEMS 256u         /* pieces of one turn's output */
#define FDS_MAX 8u                /* descriptors that wait for their frame */

/* A piece of this turn's output: bytes of the shared buffer, or borrowed ones. */
struct output_item {
    const void *data; /* NULL: in turn->out, at this offset */
    size_t at, len;
    int fds[WIRE_FDS_MAX]; /* owned; sent with the first byte */
    unsigned n_fds;
    struct artifact *artifact; /* a reference: its bytes are `data`, or */
    bool with_artifact_fd;     /* its descriptor goes with the first byte */
};

/* A piece of the queue: output that the socket has not taken yet. */
struct output_piece {
    struct output_piece *next;
    int file_fd;  /* -1: the bytes are here */
    bool encodes; /* the base64 of `raw_len` bytes of the file from `raw_at` on */
    uint64_t raw_at, raw_len;
    int fds[WIRE_FDS_MAX]; /* owned until sent */
    unsigned n_fds;
    struct artifact *artifact; /* as in struct output_item */
    bool with_artifact_fd;
    size_t size;        /* of this block of memory; 0: there was none to map, it is malloc'ed */
    uint64_t at, len;   /* bytes in all; of these sent */
    uint64_t n_buffer;  /* of BUDGET_buffers */
    unsigned n_counted; /* descriptors, of BUDGET_descriptors */
    const uint8_t *bytes;
    uint8_t data[];
};

struct connection {
    uv_poll_t poll;
    struct turn *turn;
    struct connection *prev, *next; /* of all of a server */
    struct connection *next_ready;  /* in turn->ready or turn->later */
    struct peer peer;
    int fd;
    int events;                      /* that are watched */
    const struct protocol *protocol; /* NULL before the first bytes */
    void *state;
    uint8_t *in; /* input that is kept for the next turn; NULL: none */
    size_t in_len, in_cap;
    int in_fds[FDS_MAX];
    unsigned n_in_fds;
    struct output_piece *queue, **queue_end;
    uint64_t queued; /* bytes */
    uint64_t born_ms, progress_ms;
    bool greeted; /* a whole message came */
    bool held;    /* by the protocol */
    bool hung_up; /* the client has closed its end; input may be left to read */
    bool deaf; /* the client reads no more answers: they are dropped; its requests are still read */
    bool ended;  /* nothing more is read */
    bool ending; /* closed when the queue is empty */
    bool closing;
    bool is_ready; /* in turn->ready */
    bool is_later; /* in turn->later; not both */
    bool resumes;  /* `held` ends when it is taken from there */
    bool stopped;  /* there is input that was not parsed, though it may be whole */
    bool starved;  /* in turn->starved: its user is over a budget */
    struct connection *next_starved;
};

/* All that the connections of a server share. One connection at a time has the turn. */
struct turn {
    uv_loop_t *loop;
    struct service *service;
    const struct protocol *const *protocols; /* ends with NULL; the last takes every connection */
    void (*on_close)(void *arg, struct connection *c); /* connection_close was called */
    void (*on_freed)(void *arg);                       /* a closed connection is freed */
    void *arg;

    uv_idle_t idle;             /* active while `later` has any: the loop does not sleep */
    struct connection *ready;   /* these go on before the loop sleeps */
    struct connection *later;   /* these go on in the next turn */
    struct connection *starved; /* these go on when their users may take more */

    struct connection *current; /* this connection has the turn: its output is batched */
    uint64_t began_ns;
    struct writer out;
    size_t begun_at; /* of connection_begin */
    struct output_item items[OUTPUT_ITEMS];
    unsigned n_items;
    size_t n_batched; /* bytes of them */
    struct resp_command command;
    uint8_t input[INPUT_SHARED];
};

/* ---- turn.c ---- */

/* Gives the turn to a connection. */
void turn_begin(struct turn *t, struct connection *c);
/* True if the turn has lasted so long that the rest should wait for the next one. */
bool turn_is_over(const struct turn *t);
/* Lets a connection go on before the loop sleeps. */
void turn_make_ready(struct connection *c);
/* Lets a connection go on in the next turn. */
void turn_make_ready_later(struct connection *c);
/* Lets a connection go on when its user may take more. */
void turn_make_starved(struct connection *c);
/* Makes those ready that wait for the next turn: it begins. */
void turn_take_later(struct turn *t);
/* Makes the starved ones ready for which `may_go_on`. */
void turn_take_starved(struct turn *t, bool (*may_go_on)(const struct connection *c));
/* Removes a ready connection from its list and returns it; NULL if there is none. */
struct connection *turn_next_ready(struct turn *t);
/* Removes a connection that is closed from all lists. */
void turn_forget(struct connection *c);

/* ---- output.c; connection.h has more of it ---- */

/* Sends this turn's output, and queues bytes that the socket does not take. False if the connection is
 * broken. */
bool output_flush(struct connection *c);
/* Drops this turn's output. */
void output_clear(struct turn *t);
/* Sends as much of the queue as the socket takes, within a turn's share. False if the connection is
 * broken. */
bool output_send_queue(struct connection *c);
/* Drops the queue. */
void output_drop_queue(struct connection *c);
/* Ends a connection for whose answer there is no memory. */
void output_break(struct connection *c);

/* ---- connection.c ---- */

/* Makes a connection of a socket, which is taken. NULL: no memory, and the socket is closed. */
struct connection *connection_new(struct turn *turn, int fd, const struct peer *peer);
/* Closes a connection: its handle's close callback frees it. */
void connection_close(struct connection *c);
/* Goes on with a connection outside its own event: with input that waits, or output that is
 * queued. */
void connection_continue(struct connection *c);
/* True while its user is over a budget that the connection would take more of. */
bool connection_is_over_budget(const struct connection *c);
/* True if it may be closed to make room for another. */
bool connection_is_idle(const struct connection *c);
/* Closes a connection that is past one of its deadlines. */
void connection_check_deadlines(struct connection *c, uint64_t now_ms);

#endif
