/* SPDX-License-Identifier: Apache-2.0 */
/*
 * internal.h - the state of a connection that speaks the native protocol, which the files of this
 * folder share.
 *
 * Thread: loop thread. Memory: it belongs to the connection; a native_op may outlive it.
 */
#ifndef WARM_DAEMON_NATIVE_INTERNAL_H
#define WARM_DAEMON_NATIVE_INTERNAL_H

#include "daemon/native/rank_agreement.h"
#include "daemon/net/connection.h"
#include "store/id_set.h"

struct native;

struct native_call {
    struct ask ask; /* first: on_answer casts back */
    struct native *native;
    struct native_call *prev, *next;
    uint64_t tag;
    bool leases;            /* it counts in BUDGET_leases */
    bool notes;             /* its answer is noted for the other ranks of its job: */
    struct proof rank_name; /* the name with this SHA-256 was asked for */
};

struct native_op {
    struct native *native; /* NULL when the connection is gone */
    struct native_op *prev, *next;
    uint64_t tag;
    uint32_t uid;
    pid_t pid;
    unsigned weight;         /* of BUDGET_calls */
    const char *done;        /* for the log: "evicted"; NULL: nothing is logged */
    uint64_t imported_bytes; /* of a PUT that imports */
};

/* The progress of a request that goes on in another turn: its frame is then handled again. */
struct native_rest {
    bool there;
    uint64_t done;              /* keys, or rows */
    struct store_cursor cursor; /* of LIST */
    /* of REMOVE, PIN, PUSH and CLOSURE, which free them: */
    struct native_op *op;
    struct id_set ids; /* of the entries that were found */
    bool found_all;
};

struct native {
    struct connection *connection;
    struct service *service;
    const struct peer *peer;
    bool greeted;
    struct rank_group *ranks; /* those of the client's job; NULL: it is no rank */
    struct native_call *calls;
    struct native_op *ops;
    unsigned n_ops;
    uint64_t n_imported, imported_bytes; /* logged at the end of the connection */
    struct native_rest rest;
    bool asked_audit; /* the last HIT that welcomed an AUDIT was of the key `audit` */
    struct key audit;
    bool yields; /* the request that is being handled goes on later */
};

/* One request that is being handled. */
struct request {
    struct native *native;
    const struct wire_frame *frame;
    int fds[WIRE_FDS_MAX]; /* closed after the handler, unless it set them to -1 */
};

/* Handles a request. Returns 0, or an error that is then sent. */
typedef int (*native_take)(struct request *r, struct err *e);

/* ---- answers.c ---- */

/* Answers a request with ERROR. */
void native_send_error(struct native *n, uint64_t tag, const struct err *e);
/* Leaves the rest of a request without descriptors for another turn (connection_must_yield).
 * Returns 0. */
int native_yield(struct native *n, const struct native_rest *rest);
/* Answers a request without fields. */
void native_send_empty(struct native *n, uint64_t tag, enum wire_type type);
/* Makes an operation of the store for this request. It takes `weight` of BUDGET_calls. NULL: no memory, or
 * the user has too many requests. Its callback frees it. */
struct native_op *native_op_new(const struct request *r, unsigned weight, struct err *e);
/* Frees an operation. */
void native_op_free(struct native_op *op);

/* Returns the handler of a message for people; NULL: no such type. In admin.c. */
native_take native_admin_handler(uint8_t type);

#endif
