/* SPDX-License-Identifier: Apache-2.0 */
/*
 * internal.h - shared by the files of this folder: the state of a connection that speaks RESP, the
 * list of commands, and functions. redis.c has the picture.
 *
 * Thread: loop thread. Memory: all of it belongs to the connection, and redis_on_close frees it; an
 * operation of the store may outlive it, and then answers nobody.
 */
#ifndef WARM_DAEMON_REDIS_INTERNAL_H
#define WARM_DAEMON_REDIS_INTERNAL_H

#include "daemon/net/connection.h"
#include "daemon/net/resp.h"

struct redis_op;
struct redis_lease;
struct spills;

/* DBSIZE and INFO: a walk over the store in slices. */
struct walk {
    bool active;
    struct store_cursor cursor;
    uint64_t n_names;
};

/* A connection that speaks RESP. */
struct redis {
    struct connection *connection;
    struct service *service;
    const struct peer *peer;
    unsigned version;     /* 2 or 3 */
    struct redis_op *ops; /* operations of the store for this connection */
    unsigned n_ops;
    bool waiting;       /* `wait` is in flight */
    bool waiting_lease; /* one of `leases` waits */
    struct ask wait;
    bool again;     /* the command is run again when `wait` is answered */
    size_t n_tries; /* of that command */
    /* of a command of many names: */
    size_t n_taken;         /* arguments that are done, with the command's name; 0: not begun */
    size_t n_found;         /* of those that were found */
    struct store_id *found; /* DEL: the ids of the names that were found */
    struct redis_op *mset;
    struct spills
        *spills; /* of a command with long arguments that is being put together; or NULL */
    struct walk walk;
    struct redis_lease *leases;
    unsigned n_leases;
    bool quit;
};

/* A command that is being answered. */
struct redis_command {
    struct redis *redis;
    const struct resp_arg *args;
    size_t n_args;
    const int *spill_fds; /* of the long arguments, in order; borrowed */
};

/*
 * The commands: name, arguments at least and at most (with the name), and the function redis_do_…
 * It is in set.c if it writes or is about expiry; else in get.c if it reads values or rows, in keys.c if it walks
 * over names, in redis.c if it does none of this. Frequent commands come first, a rare one beside its kind.
 */
#define REDIS_COMMAND_LIST(X)                                                                      \
    X(get, 2, 2, get)                                                                              \
    X(set, 3, 10, set)                                                                             \
    X(mget, 2, RESP_ARGS_MAX, mget)                                                                \
    X(mset, 3, RESP_ARGS_MAX, mset)                                                                \
    X(exists, 2, RESP_ARGS_MAX, exists)                                                            \
    X(del, 2, RESP_ARGS_MAX, del)                                                                  \
    X(ttl, 2, 2, ttl)                                                                              \
    X(pttl, 2, 2, pttl)                                                                            \
    X(scan, 2, 10, scan)                                                                           \
    X(dbsize, 1, 1, dbsize)                                                                        \
    X(ping, 1, 2, ping)                                                                            \
    X(echo, 2, 2, echo)                                                                            \
    X(hello, 1, 8, hello)                                                                          \
    X(auth, 2, 3, ok)                                                                              \
    X(client, 2, RESP_ARGS_MAX, client)                                                            \
    X(select, 2, 2, ok)                                                                            \
    X(info, 1, RESP_ARGS_MAX, info)                                                                \
    X(config, 2, RESP_ARGS_MAX, config)                                                            \
    X(command, 1, RESP_ARGS_MAX, command)                                                          \
    X(quit, 1, 1, quit)

/* Answers the command. */
#define X(name, min_args, max_args, run) void redis_do_##run(struct redis_command *c);
REDIS_COMMAND_LIST(X)
#undef X

/* ---- keys.c ---- */

/* Counts the names of the asker's space, a slice of the store a turn. False if the command goes on in the
 * next turn. */
bool redis_count_names(struct redis *r, uint64_t *out);

/* ---- answer.c: each sends one answer ---- */

/* Returns the writer for an answer; then call redis_commit. */
struct writer *redis_begin(struct redis *r);
/* Sends the bytes that were written since redis_begin. */
void redis_commit(struct redis *r);
/* Sends a simple string. */
void redis_send_status(struct redis *r, const char *text);
/* Sends an error. */
void redis_send_error(struct redis *r, const char *text);
/* Sends an error about the client's bytes; returns -1: the connection must end. */
long redis_fail(struct redis *r, const struct err *e);
/* Sends an integer. */
void redis_send_number(struct redis *r, int64_t n);
/* Sends null. */
void redis_send_null(struct redis *r);
/* Sends bytes that the caller keeps valid until store_turn_end. */
void redis_send_bytes(struct redis *r, const void *data, size_t len);
/* Sends a value in the form in which it was put. False, and nothing is sent, if that cannot be made. */
bool redis_send_stored(struct redis *r, const struct store_value *v);
/* Sends the value that the service found, or null. */
void redis_send_answer(struct redis *r, const struct answer *a);

/* ---- get.c ---- */

/* Returns an argument's bytes; empty for a long one. */
struct view redis_view(const struct resp_arg *a);
/* True if an argument can be a name: 1 to STORE_NAME_MAX bytes. */
bool redis_is_name(const struct resp_arg *a);
/* Finds the row of a name in the peer's own space. */
bool redis_peek(struct redis *r, const struct resp_arg *name, struct store_row *out);
/* True if a command of many names must leave the rest for another turn: it runs again. */
bool redis_must_yield(struct redis *r);
/* True, and an error is sent, if a command has a long argument: its file is gone when the command runs
 * again. */
bool redis_cannot_yield(const struct redis_command *c);

/* ---- lease.c ---- */

/* True for values that are made under leases although the client knows none: PyTorch's FX
 * graphs. */
bool redis_name_is_leased(struct view name);
/* Answers a GET: with null if this client holds the lease, else when the holder has made the
 * value. */
void redis_lease_ask(struct redis *r, struct view name, const struct err *failure);
/* Gives the lease of a name back: the value did not come, or cannot be kept. Nothing if there is
 * none. */
void redis_lease_give_back(struct redis *r, struct view name);
/* Gives all leases back when the connection ends. */
void redis_leases_free(struct redis *r);

/* ---- set.c ---- */

/* Detaches the store's operations from a connection that ends. */
void redis_ops_forget(struct redis *r);

/* ---- long.c; the first two return as protocol.on_bytes does ---- */

/* Begins a long argument, `parsed->spill_at` bytes into `data`; keeps the command's bytes before
 * it. */
long redis_long_begin(struct redis *r, const struct resp_command *parsed, const uint8_t *data);
/* Takes bytes of the command that redis_long_begin began. If they complete it, *out_fds are the files of
 * its long arguments, in order, and connection_command has the rest of it. Run it, then call
 * redis_long_free. */
long redis_long_take(struct redis *r, const uint8_t *data, size_t len, const int **out_fds);
/* Frees the command that is being put together. */
void redis_long_free(struct redis *r);

#endif
