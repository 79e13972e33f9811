/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ask.c - leads each ask through the sources of its kind, and gives its answers: counts each, and sees to it
 * that an ask is answered once.
 *
 * Invariants:
 *   (1) an ask has one last answer, or is dropped; nothing is answered after either;
 *   (2) an ask that has ended is in no flight, and nothing in the service points to it.
 *
 * lookup.c, compile_request.c and build.c begin asks; a source that was LATER goes on with ask_step or ask_next;
 * flight.c says when an ask that waits goes on. The answer goes to the wire or the build that asked.
 *
 * Thread: loop thread.
 */
#include "daemon/service/ask.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include "daemon/service/bookkeeping.h"
#include "daemon/service/compile_request.h"
#include "daemon/service/internal.h"
#include "daemon/users/budget.h"

#define TICK_MS 50u /* how exact leases and waits are */

/* A stored value that another thread verifies for an ask. */
struct preparing {
    struct service *service;
    uint32_t uid;    /* whose BUDGET_checks it is in */
    struct ask *ask; /* NULL when the ask has ended */
};

/* ---- the sources ---- */

void ask_step(struct ask *ask)
{
    struct look look;
    assert(ask->ops && !ask->preparing && !ask->tier_wait);
    while (ask->at < SOURCES_MAX && ask->ops->sources[ask->at]) {
        assert(!ask->answered);
        look.answer = (struct answer){.kind = ANSWER_VALUE};
        switch (ask->ops->sources[ask->at](ask, &look)) {
        case STEP_FOUND: ask_found(ask, &look.answer); return;
        case STEP_LATER: return;
        case STEP_NOT_HERE: ask->at++; break;
        case STEP_AGAIN: ask->at = 0; break;
        case STEP_MISS: ask->at = SOURCES_MAX; break;
        case STEP_FAILED:
            bookkeeping_failure(ask, &look.find.err);
            if (ask->tells_errors && !ask->waiter.can_make) {
                ask_fail(ask, &look.find.err);
                return;
            }
            ask->at++;
        }
    }
    ask_answer(ask, &(struct answer){.kind = ANSWER_MISS});
}

void ask_next(struct ask *ask)
{
    ask->at++;
    ask_step(ask);
}

void ask_make(struct ask *ask)
{
    ask->at = 0;
    while (ask->at + 1 < SOURCES_MAX && ask->ops->sources[ask->at + 1])
        ask->at++;
    assert(ask->ops->sources[ask->at]);
    ask_step(ask);
}

/* True if the user refused this value, which was made here, before. */
static bool is_refused(const struct ask *ask, const struct answer *a)
{
    const struct store_row *row = a->value ? &a->value->row : NULL;
    uint32_t owner = row ? row->id.owner : ask->id.owner;
    if (a->outcome != WIRE_WAS_HIT || owner != STORE_MADE_HERE ||
        (a->artifact && a->artifact->failed))
        return false;
    return refused_by_user(ask->service, ask->peer->uid, row ? &row->id.key : &a->artifact->key,
                           row ? &row->check : &a->artifact->check);
}

/* True if only clients with the same files may have a result, and this one has not shown that it has them. */
static bool needs_check(const struct ask *ask, const struct artifact *a)
{
    return a && a->manifest && !(ask->is_chosen && key_equal(&a->key, &ask->chosen.id.key));
}

void ask_found(struct ask *ask, const struct answer *found)
{
    struct answer a = *found;
    if (is_refused(ask, &a)) {
        if (!ask->compile) {
            ask_next(ask);
            return;
        }
        /* it is made for this user alone: the stored one stays */
        ask->compile->flags |= WIRE_COMPILE_RECACHE | WIRE_COMPILE_NO_STORE;
        ask_make(ask);
    } else if (needs_check(ask, a.artifact)) {
        ask->outcome = a.outcome;
        ask_check(ask, a.artifact->manifest, a.artifact);
    } else {
        if (a.value && audit_wanted(ask, &a.value->row))
            a.outcome = WIRE_WAS_HIT_AUDIT;
        a.kind = a.artifact && a.artifact->failed ? ANSWER_FAILED : ANSWER_VALUE;
        ask_answer(ask, &a);
    }
}

/* ---- answers ---- */

static void forget(struct ask ***pointer)
{
    assert(!*pointer || **pointer); /* it points to this ask until it forgets it itself */
    if (*pointer)
        **pointer = NULL;
    *pointer = NULL;
}

/* Restores (2). */
static void ask_end(struct ask *ask, bool cancelled)
{
    ask->answered = true;
    forget(&ask->preparing);
    forget(&ask->tier_wait);
    forget(&ask->putting);
    if (ask->ops && ask->ops->drop)
        ask->ops->drop(ask, cancelled);
    ask_uncheck(ask);
    flight_leave(&ask->waiter, service_clock_ms(ask->service));
    assert(ask->waiter.state == WAITER_OUT);
}

/* Finds out if a value that is a file can go out: its descriptor is opened when it is sent. An answer that cannot be
 * built is no hit. */
static int can_send(const struct answer *a, struct err *e)
{
    int file = a->value ? a->value->fd : a->artifact ? a->artifact->fd : -1;
    int own = file < 0 ? -1 : fd_reopen(file);
    if (file >= 0 && own < 0)
        return err_sys(e, WARM_EIO, errno, "no descriptor for a value");
    if (own >= 0)
        close(own);
    return 0;
}

void ask_answer(struct ask *ask, const struct answer *a)
{
    struct err e = {0};
    const struct answer failure = {.kind = ANSWER_ERROR, .err = &e};
    if ((a->kind == ANSWER_VALUE || a->kind == ANSWER_FAILED) && can_send(a, &e) != 0) {
        bookkeeping_failure(ask, &e);
        a = &failure;
    }
    struct artifact *held = a->artifact ? artifact_ref(a->artifact) : NULL;
    assert(!ask->answered); /* (1) */
    assert((a->kind == ANSWER_ERROR) == (a->err != NULL));
    bookkeeping_answer(ask, a);
    ask->name = (struct view){0};
    ask->waits |= a->kind == ANSWER_WAIT;
    if (answer_is_last(a->kind))
        ask_end(ask, false);
    ask->on_answer(ask, a);
    artifact_unref(held);
}

void ask_fail(struct ask *ask, const struct err *e)
{
    ask_answer(ask, &(struct answer){.kind = ANSWER_ERROR, .err = e});
}

void ask_drop(struct ask *ask, bool cancelled) { ask_end(ask, cancelled); }

void ask_renew(struct ask *ask) { flight_renew(&ask->waiter, service_clock_ms(ask->service)); }

/* ---- a manifest's files ---- */

static struct ask *client_of(struct ask *ask) { return ask->ops->is_child ? ask->client : ask; }

const struct manifest *ask_checking(const struct ask *client)
{
    return client->asked ? client->asked->checking : NULL;
}

void ask_check(struct ask *ask, struct manifest *m, struct artifact *candidate)
{
    struct ask *client = client_of(ask);
    assert(!ask->checking && !client->asked);
    client->asked = ask;
    ask->checking = manifest_ref(m);
    ask->candidate = candidate ? artifact_ref(candidate) : NULL;
    ask_answer(ask, &(struct answer){.kind = ANSWER_CHECK, .manifest = m});
}

void ask_uncheck(struct ask *ask)
{
    if (!ask->checking)
        return;
    if (client_of(ask))
        client_of(ask)->asked = NULL;
    manifest_unref(ask->checking);
    artifact_unref(ask->candidate);
    ask->checking = NULL;
    ask->candidate = NULL;
}

/* Goes on with the client's answer: `a` is the alternative of the manifest `m` that agrees with its files, or NULL. */
static void checked(struct ask *ask, struct manifest *m, const struct manifest_alternative *a,
                    struct artifact *candidate)
{
    ask->is_chosen |= a != NULL;
    if (a) {
        ask->chosen.id = (struct store_id){STORE_MADE_HERE, a->result};
        ask->chosen.proof = a->proof;
    }
    if (a && ask->ops->is_child) {
        manifest_unref(ask->matched);
        ask->matched = manifest_of_one(m, a, ask->compile->bases);
    }
    if (a && candidate) {
        ask_found(ask, &(struct answer){.outcome = ask->outcome, .artifact = candidate});
        return;
    }
    if (!a && candidate) {
        ask_next(ask);
        return;
    }
    ask->is_chosen = a != NULL;
    ask->at = 0; /* if no files agree: a manifest may have been written meanwhile */
    ask_step(ask);
}

void service_checked(struct ask *client, const struct wire_path_seen *states)
{
    struct ask *ask = client->asked;
    assert(ask && ask->checking && ask->compile);
    struct manifest *m = manifest_ref(ask->checking);
    struct artifact *candidate = ask->candidate ? artifact_ref(ask->candidate) : NULL;
    const struct manifest_alternative *a = manifest_match(m, states);
    ask_uncheck(ask);
    if (!a && !ask->ops->is_child)
        bookkeeping_headers(ask, m, states);
    checked(ask, m, a, candidate);
    manifest_unref(m);
    artifact_unref(candidate);
}

/* ---- flights ---- */

static struct ask *ask_of(struct waiter *waiter)
{
    return (struct ask *)(void *)((char *)waiter - offsetof(struct ask, waiter));
}

static void on_hold(struct waiter *waiter)
{
    struct ask *ask = ask_of(waiter);
    ask->ops->on_lease(ask);
}

static void on_result(struct waiter *waiter, struct artifact *result)
{
    struct ask *ask = ask_of(waiter);
    assert(waiter->state == WAITER_OUT);
    ask->ops->on_result(ask, result);
}

static void on_error(struct waiter *waiter, const struct err *e)
{
    struct ask *ask = ask_of(waiter);
    assert(waiter->state == WAITER_OUT);
    ask->ops->on_error(ask, e);
}

static const struct waiter_ops waiter_ops = {on_hold, on_result, on_error};

void asks_tick_start(struct service *s)
{
    if (s->tick && !loop_timer_runs(s->tick))
        loop_timer_start(s->tick, TICK_MS, TICK_MS);
}

enum step try_maker(struct ask *ask, struct look *look)
{
    struct service *s = ask->service;
    struct flights *flights = ask->ops->is_child ? s->children : s->flights;
    uint64_t now = service_clock_ms(s);
    struct err e = {0};
    (void)look;
    if (!ask->joins)
        return STEP_MISS;
    if (s->stopping) {
        err_set(&e, WARM_ESHUTDOWN, "the daemon is stopping");
        ask_fail(ask, &e);
        return STEP_LATER;
    }
    ask->waiter.ops = &waiter_ops;
    int place = flight_join(flights, &ask->id, &ask->proof, &ask->waiter, now, &e);
    asks_tick_start(s);
    if (place == FLIGHT_NONE)
        return STEP_MISS;
    if (place < 0) {
        ask_fail(ask, &e);
    } else if (place == FLIGHT_LEADS) {
        ask->ops->on_lease(ask);
    } else {
        const struct flight *f = ask->waiter.flight;
        ask_answer(ask, &(struct answer){.kind = ANSWER_WAIT,
                                         .n_waiters = flight_waiters(f),
                                         .elapsed_ms = (uint32_t)flight_age_ms(f, now)});
    }
    return STEP_LATER;
}

/* ---- large values, which are verified first ---- */

static void on_prepared(void *arg, int status)
{
    struct preparing *p = arg;
    struct ask *ask = p->ask;
    (void)status; /* the store repeats its verdict at the next look-up */
    assert(p->service->n_preparing);
    p->service->n_preparing--;
    budget_give(p->uid, BUDGET_checks, 1);
    free(p);
    if (ask) {
        ask->preparing = NULL;
        ask_step(ask);
    }
}

bool ask_prepare(struct ask *ask, const struct store_id *id)
{
    struct service *s = ask->service;
    uint32_t uid = ask->peer->uid;
    struct preparing *p = ask->prepared ? NULL : malloc(sizeof *p);
    if (!p)
        return false;
    *p = (struct preparing){s, uid, ask};
    bool counted = budget_take(uid, BUDGET_checks, 1);
    if (!counted || store_prepare(s->config.store, id, on_prepared, p, NULL) != 0) {
        budget_give(uid, BUDGET_checks, counted);
        free(p);
        return false;
    }
    s->n_preparing++;
    ask->prepared = true;
    ask->preparing = &p->ask;
    return true;
}
