/* SPDX-License-Identifier: Apache-2.0 */
/*
 * internal.h - the state of connections and of the server, which connection.c and server.c share.
 *
 * Thread: loop thread. Memory: a connection is freed by its handle's close callback, the server by
 * server_free.
 */
#ifndef WARM_DAEMON_NET_INTERNAL_H
#define WARM_DAEMON_NET_INTERNAL_H

#include "client/wire/wire.h"
#include "daemon/net/connection.h"
#include "daemon/net/listener.h"
#include "daemon/net/resp.h"
#include "daemon/net/server.h"
#include "daemon/process/loop_timer.h"

#define INPUT_SHARED (256u << 10) /* bytes read in one turn */
#define OUTPUT_ITEMS 256u         /* pieces of one turn's output */
#define FDS_MAX 8u                /* descriptors that wait for their frame */

/* A piece of this turn's output: bytes of the shared buffer, or borrowed ones. */
struct output_item {
    const void *data; /* NULL: in server->out, at this offset */
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
    struct server *server;
    struct connection *prev, *next; /* of all */
    struct connection *next_ready;  /* in server->ready or server->later */
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
    bool ended;   /* nothing more is read */
    bool ending;  /* closed when the queue is empty */
    bool closing;
    bool is_ready; /* in server->ready */
    bool is_later; /* in server->later; not both */
    bool resumes;  /* `held` ends when it is taken from there */
    bool stopped;  /* there is input that was not parsed, though it may be whole */
    bool starved;  /* in server->starved: its user is over a budget */
    struct connection *next_starved;
};

/* An accepted socket for which there is no place yet. */
#define PARKED_MAX 64u
#define PARKED_OF_USER 8u
struct parked {
    int fd;
    struct peer peer;
};

struct server {
    struct server_config config;
    struct listener listener, admin; /* the second if there is an admin_fd */
    uv_prepare_t prepare;
    uv_idle_t idle;          /* active while `later` has any: the loop does not sleep */
    struct loop_timer *tick; /* runs while there are connections, and a little longer */
    struct connection *all;
    unsigned count, n_open_handles;   /* count: connections that are not closed yet */
    struct parked parked[PARKED_MAX]; /* the longest waiting first */
    unsigned n_parked;
    struct connection *ready;   /* these go on before the loop sleeps */
    struct connection *later;   /* these go on in the next turn */
    struct connection *starved; /* these go on when their users may take more */
    bool closing;
    void (*on_closed)(void *arg);
    void *on_closed_arg;

    struct connection *current; /* this connection has the turn: its output is batched */
    uint64_t turn_began_ns;
    struct writer out;
    size_t begun_at; /* of connection_begin */
    struct output_item items[OUTPUT_ITEMS];
    unsigned n_items;
    size_t n_batched; /* bytes of them */
    struct resp_command command;
    uint8_t input[INPUT_SHARED];
};

/* Goes on with a connection outside its own event: with input that waits, or output that is
 * queued. */
void connection_continue(struct connection *c);
/* True while its user is over a budget that the connection would take more of. */
bool connection_is_over_budget(const struct connection *c);
/* True if it may be closed to make room for another. */
bool connection_is_idle(const struct connection *c);
/* Closes a connection that is past one of its deadlines. */
void connection_check_deadlines(struct connection *c, uint64_t now_ms);
void server_make_ready(struct connection *c);
void server_make_ready_later(struct connection *c);
void server_make_starved(struct connection *c);
void server_forget(struct connection *c); /* when it is closed */
void server_forget_handle(struct server *s);

#endif
