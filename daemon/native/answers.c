/* SPDX-License-Identifier: Apache-2.0 */
/*
 * answers.c - sends the answers that all requests share, and keeps the operations of the store for a
 * connection.
 *
 * native.c and admin.c call it.
 *
 * Thread: loop thread.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/native/internal.h"
#include "daemon/users/budget.h"
#include "keygen/list.h"

void native_send_error(struct native *n, uint64_t tag, const struct err *e)
{
    struct wire_error m = {(uint32_t)-e->code, {e->text, strlen(e->text)}};
    wire_put_error(connection_begin(n->connection), tag, &m);
    connection_commit(n->connection, NULL, 0);
}

void native_send_empty(struct native *n, uint64_t tag, enum wire_type type)
{
    wire_put_empty(connection_begin(n->connection), type, tag);
    connection_commit(n->connection, NULL, 0);
}

int native_yield(struct native *n, const struct native_rest *rest)
{
    assert(!n->yields);
    n->rest = *rest;
    n->yields = true;
    connection_yield(n->connection);
    return 0;
}

/* ---- operations of the store ---- */

struct native_op *native_op_new(const struct request *r, unsigned weight, struct err *e)
{
    assert(weight);
    struct native *n = r->native;
    if (budget_ask(n->peer->uid, BUDGET_calls, weight, e) != 0)
        return NULL;
    struct native_op *op = malloc(sizeof *op);
    if (!op) {
        budget_give(n->peer->uid, BUDGET_calls, weight);
        err_set(e, WARM_ENOMEM, "no memory for a request");
        return NULL;
    }
    *op = (struct native_op){.native = n,
                             .tag = r->frame->tag,
                             .uid = n->peer->uid,
                             .pid = n->peer->pid,
                             .weight = weight};
    LIST_ADD(n->ops, op);
    n->n_ops++;
    return op;
}

void native_op_free(struct native_op *op)
{
    struct native *n = op->native;
    assert(!n || n->n_ops);
    if (n) {
        LIST_REMOVE(n->ops, op);
        /* an ended connection may have waited for this */
        if (--n->n_ops == 0)
            connection_resume(n->connection);
    }
    budget_give(op->uid, BUDGET_calls, op->weight);
    free(op);
}
