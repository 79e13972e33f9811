/* SPDX-License-Identifier: Apache-2.0 */
/* internal.h - what native.c and native/admin.c share. Thread: loop thread. */
#ifndef WARM_DAEMON_NATIVE_INTERNAL_H
#define WARM_DAEMON_NATIVE_INTERNAL_H

#include "daemon/native/rank_agreement.h"
#include "daemon/net/internal.h"

struct native;

struct native_call {
    struct call call; /* first: on_answer casts back */
    struct native *native;
    struct native_call *prev, *next;
    uint64_t tag;
    bool leases; /* it is counted among the leases */
};

struct native_op {
    struct native *native; /* NULL when the connection is gone */
    struct native_op *prev, *next;
    uint64_t tag;
    uint32_t uid;
    unsigned weight; /* of BUDGET_calls */
};

/* How far a request came that goes on in another turn: then its frame is handled again. */
struct native_rest {
    bool there;
    uint64_t done;              /* keys, or rows */
    struct store_cursor cursor; /* of LIST */
    /* of REMOVE and PIN, theirs to free: */
    struct native_op *op;
    struct store_id *ids; /* that were found */
    size_t n_ids;
};

struct native {
    struct connection *connection;
    struct service *service;
    const struct peer *peer;
    bool greeted;
    struct rank_group *job; /* that the client is a rank of; NULL: none */
    struct native_call *calls;
    struct native_op *ops;
    unsigned n_ops;
    struct native_rest rest;
    bool asked_audit; /* the last HIT that welcomed an AUDIT was of the key `audit` */
    struct key audit;
    bool yields; /* the request that is being handled leaves the rest for later */
};

/* One request that is being handled. */
struct request {
    struct native *native;
    const struct wire_frame *frame;
    int fds[WIRE_FDS_MAX]; /* closed after the handler, unless it set them to -1 */
};

/* Handles a request: returns 0, or an error that is then sent. */
typedef int (*native_take)(struct request *r, struct err *e);

/* native.c: */
void native_send_error(struct native *n, uint64_t tag, const struct err *e);
/* For a request without descriptors, when connection_must_yield. Returns 0. */
int native_yield(struct native *n, const struct native_rest *rest);
/* An answer without fields. */
void native_send_empty(struct native *n, uint64_t tag, enum wire_type type);
/* Something that the store does for this request, of so much of BUDGET_calls; NULL: no memory, or too
 * much. Its callback frees it. */
struct native_op *native_op_new(const struct request *r, unsigned weight, struct err *e);
void native_op_free(struct native_op *op);

/* native/admin.c: who handles a message of this type; NULL: not one of these. */
native_take native_admin_handler(uint8_t type);

#endif
