/* SPDX-License-Identifier: Apache-2.0 */
/*
 * internal.h - what the files of the RESP wire share: the state of a connection, the command that
 * is being answered, and what one of these files does for the others. redis.c has the picture.
 *
 * Thread: loop thread. Memory: all of it belongs to the connection and goes with redis_on_close; an
 * operation of the store's may outlive it, and then answers nobody.
 */
#ifndef WARM_DAEMON_REDIS_INTERNAL_H
#define WARM_DAEMON_REDIS_INTERNAL_H

#include "daemon/net/connection.h"
#include "daemon/net/resp.h"

struct redis_op;
struct redis_lease;
struct spills;

/* KEYS and DBSIZE: a walk over the store in slices. */
struct walk {
    bool active;
    struct store_cursor cursor;
    struct writer names; /* bulk strings */
    uint64_t n_names;
};

/* A connection that speaks RESP. */
struct redis {
    struct connection *connection;
    struct service *service;
    const struct peer *peer;
    unsigned version;     /* 2 or 3 */
    struct redis_op *ops; /* what the store is doing for this connection */
    unsigned n_ops;
    bool waiting;       /* `wait` is in flight */
    bool waiting_lease; /* one of `leases` waits */
    struct call wait;
    bool again;     /* the command is run again when `wait` is answered */
    size_t n_tries; /* of that command */
    /* of a command of many names: */
    size_t n_taken;         /* arguments that are done, its name included; 0: not begun */
    size_t n_found;         /* of those, */
    struct store_id *found; /* DEL: which */
    struct redis_op *mset;
    struct spills *spills; /* NULL: no command with a long argument is being put together */
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

/* ---- redis/answer.c: one answer each, but for begin and commit, between which one is written ---- */

/* Begins an answer: returns where to write it. */
struct writer *redis_begin(struct redis *r);
/* Ends the answer that redis_begin began. */
void redis_commit(struct redis *r);
/* Answers with a status such as "OK", with an error, a number, or null. */
void redis_send_status(struct redis *r, const char *text);
void redis_send_error(struct redis *r, const char *text);
void redis_send_number(struct redis *r, int64_t n);
void redis_send_null(struct redis *r);
/* `data` stays where it is until the store's turn ends. */
void redis_send_bytes(struct redis *r, const void *data, size_t len);
/* A value, in the form in which it was put; null if that cannot be made. */
void redis_send_stored(struct redis *r, const struct store_value *v);
/* The value that the service found, or null. */
void redis_send_answer(struct redis *r, const struct answer *a);

/* ---- redis/get.c ---- */

/* An argument's bytes; empty for a long one. */
struct view redis_view(const struct resp_arg *a);
/* True if it can be a name: 1 to STORE_NAME_MAX bytes. */
bool redis_is_name(const struct resp_arg *a);
/* Finds a value by its name in the peer's own space, and counts the hit: service_get. */
int redis_find(struct redis *r, const struct resp_arg *name, struct store_value *out);
/* Finds the row alone, and counts no hit. */
bool redis_peek(struct redis *r, const struct resp_arg *name, struct store_row *out);
/* Answers with the value of a name, or null; does not wait. */
void redis_send_named(struct redis *r, const struct resp_arg *name);
/* True if a command of many names is to leave the rest of them for another turn: it is run again. */
bool redis_must_yield(struct redis *r);
/* True, and an error is sent, if it has a long argument: what came in files does not come again. */
bool redis_cannot_yield(const struct redis_command *c);
/* For commands other than GET that need the values of args[from…to): false if the command has to run
 * again, when a large one is verified. After as many tries as it has values it goes on without. */
bool redis_values_ready(struct redis_command *c, size_t from, size_t to);

/* Each answers the command of its name; the table in redis.c calls it. */
void redis_do_get(struct redis_command *c);
void redis_do_mget(struct redis_command *c);
void redis_do_strlen(struct redis_command *c);
void redis_do_exists(struct redis_command *c);
void redis_do_type(struct redis_command *c);

/* ---- redis/lease.c ---- */

/* True for what is made under leases though the client knows none: PyTorch's FX graphs. */
bool redis_name_is_leased(struct view name);
/* Answers a GET: with null if it is this client's turn, else when somebody has made it. */
void redis_lease_ask(struct redis *r, struct view name);
/* The value did not come, or cannot be kept: the next one's turn. Nothing if it has no turn. */
void redis_lease_give_back(struct redis *r, struct view name);
/* Gives all leases of the connection back. */
void redis_leases_free(struct redis *r);

/* ---- redis/set.c ---- */

/* The connection ends before what the store does for it. */
void redis_ops_forget(struct redis *r);

void redis_do_set(struct redis_command *c);
void redis_do_setnx(struct redis_command *c);
void redis_do_setex(struct redis_command *c);
void redis_do_psetex(struct redis_command *c);
void redis_do_getset(struct redis_command *c);
void redis_do_mset(struct redis_command *c);
void redis_do_del(struct redis_command *c);   /* DEL, UNLINK */
void redis_do_flush(struct redis_command *c); /* FLUSHALL, FLUSHDB */
void redis_do_ttl(struct redis_command *c);
void redis_do_pttl(struct redis_command *c);
void redis_do_expire(struct redis_command *c);
void redis_do_pexpire(struct redis_command *c);
void redis_do_persist(struct redis_command *c);

/* ---- redis/names.c ---- */

void redis_do_keys(struct redis_command *c);
void redis_do_dbsize(struct redis_command *c);
void redis_do_scan(struct redis_command *c);

/* ---- redis/long.c: each returns as protocol.on_bytes does ---- */

/* A long argument begins, `parsed->spill_at` bytes into `data`: what came of the command before it is
 * kept. */
long redis_long_begin(struct redis *r, const struct resp_command *parsed, const uint8_t *data);
/* True while the bytes that come are those of a long argument: redis_long_take; else, while
 * r->spills, they are the rest of a command that has some: redis_long_rest. */
bool redis_long_comes(const struct redis *r);
/* Takes bytes of a long argument. */
long redis_long_take(struct redis *r, const uint8_t *data, size_t len);
/* Reads the rest of a command that has long arguments, and runs it. */
long redis_long_rest(struct redis *r, const uint8_t *data, size_t len);
/* Drops a command that was not complete. */
void redis_long_free(struct redis *r);

/* ---- redis.c ---- */

/* Runs a complete command. */
void redis_run(struct redis *r, const struct resp_command *parsed, const int *spill_fds);
/* Says what is wrong with the client's bytes; returns -1: the connection is to end. */
long redis_fail(struct redis *r, const struct err *e);

#endif
