/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lease.c - gives leases to clients that know none: decides who makes a value that several clients ask for.
 *
 *     GET ──▶ no value, and nobody makes it ──▶ null: this connection holds the lease
 *         ──▶ another client makes it ────────▶ held; the value, or null: now it holds the lease
 *     SET of that name, or the connection's end ──▶ the lease ends
 *
 * get.c asks for leases; set.c gives them back.
 *
 * Thread: loop thread.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/redis/internal.h"
#include "daemon/users/budget.h"
#include "keygen/list.h"

#define LEASES_MAX 64u /* of a connection */
/* How long a GET of an FX graph waits for the lease holder. The URL that `warm run` sets allows 30
 * s; other clients wait 5 s for an answer. */
#define TORCH_WAIT_MS 25000u
#define TORCH_WAIT_STRANGER_MS 4000u

/* A lease, or the wait for the holder's value. */
struct redis_lease {
    struct ask ask; /* first: on_lease_answer casts back */
    struct redis *redis;
    struct redis_lease *prev, *next;
    bool waits;
};

bool redis_name_is_leased(struct view name)
{
    static const char fx_graphs[] = "pt2:fx-graph";
    size_t len = sizeof fx_graphs - 1;
    return name.len > len && memcmp(name.data, fx_graphs, len) == 0;
}

static struct redis_lease *lease_find(const struct redis *r, const struct store_id *id)
{
    struct redis_lease *l = r->leases;
    while (l && (l->ask.id.owner != id->owner || !key_equal(&l->ask.id.key, &id->key)))
        l = l->next;
    return l;
}

static void lease_free(struct redis_lease *l)
{
    assert(l->redis->n_leases);
    LIST_REMOVE(l->redis->leases, l);
    l->redis->n_leases--;
    budget_give(l->redis->peer->uid, BUDGET_leases, 1);
    free(l);
}

void redis_lease_give_back(struct redis *r, struct view name)
{
    struct store_id id = service_name_id(r->peer, name);
    struct redis_lease *l = lease_find(r, &id);
    if (!l)
        return;
    ask_drop(&l->ask, false);
    lease_free(l);
}

static void on_lease_answer(struct ask *ask, const struct answer *a)
{
    struct redis_lease *l = (struct redis_lease *)ask;
    struct redis *r = l->redis;
    if (a->kind == ANSWER_WAIT) {
        l->waits = r->waiting_lease = true;
        connection_hold(r->connection);
        return;
    }
    if (a->kind != ANSWER_OVER)
        redis_send_answer(r, a); /* null if this connection holds the lease */
    if (l->waits) {
        l->waits = r->waiting_lease = false;
        connection_resume(r->connection);
    }
    if (a->kind != ANSWER_LEASE)
        lease_free(l);
}

void redis_lease_ask(struct redis *r, struct view name, const struct err *failure)
{
    struct store_id id = service_name_id(r->peer, name);
    struct redis_lease *l = NULL;
    assert(!r->waiting_lease && r->n_leases <= LEASES_MAX);
    if (!lease_find(r, &id) && r->n_leases < LEASES_MAX &&
        budget_take(r->peer->uid, BUDGET_leases, 1) && !(l = calloc(1, sizeof *l)))
        budget_give(r->peer->uid, BUDGET_leases, 1);
    if (!l) { /* it holds this lease already, or too many */
        service_count_miss(r->service, r->peer, name, failure);
        redis_send_null(r);
        return;
    }
    l->ask = (struct ask){.service = r->service, .peer = r->peer, .on_answer = on_lease_answer};
    l->redis = r;
    LIST_ADD(r->leases, l);
    r->n_leases++;
    service_ask(&l->ask, &(struct question){.space = WIRE_SPACE_NAME,
                                            .key = name,
                                            .mode = ASK_LEASE,
                                            .wait_ms = r->peer->session ? TORCH_WAIT_MS
                                                                        : TORCH_WAIT_STRANGER_MS,
                                            .why = failure});
}

void redis_leases_free(struct redis *r)
{
    while (r->leases) {
        ask_drop(&r->leases->ask, false);
        lease_free(r->leases);
    }
    assert(!r->n_leases);
}
