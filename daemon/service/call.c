/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call.c - gives answers: counts each, and sees to it that a call is answered once.
 *
 * Invariants:
 *   (1) a call has one last answer, or is dropped; nothing is answered after either;
 *   (2) a call that has ended is in no flight, and nothing in the service points to it.
 *
 * lookup.c and compile_request.c decide which answer to give; flight.c says when a call that waits
 * goes on. The answer goes to the wire that made the call.
 *
 * Thread: loop thread.
 */
#include "daemon/service/call.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include "daemon/service/bookkeeping.h"
#include "daemon/service/internal.h"
#include "daemon/service/manifest.h"
#include "daemon/users/budget.h"

#define TICK_MS 50u /* how exact leases and waits are */

/* A stored value that another thread verifies for a call. */
struct preparing {
    struct service *service;
    uint32_t uid;      /* whose BUDGET_checks it is in */
    struct call *call; /* NULL when the call has ended */
    void (*again)(struct call *call);
};

/* ---- answers ---- */

static void forget(struct call ***pointer)
{
    assert(!*pointer || **pointer); /* it points to this call until it forgets it itself */
    if (*pointer)
        **pointer = NULL;
    *pointer = NULL;
}

/* Restores (2). */
static void call_end(struct call *call, bool cancelled)
{
    call->answered = true;
    forget(&call->preparing);
    forget(&call->tier_wait);
    forget(&call->putting);
    if (call->ops && call->ops->drop)
        call->ops->drop(call, cancelled);
    flight_leave(&call->ask, service_clock_ms(call->service));
    assert(call->ask.state == ASK_OUT);
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

void call_answer(struct call *call, const struct answer *a)
{
    struct err e = {0};
    const struct answer failure = {.kind = ANSWER_ERROR, .err = &e};
    if ((a->kind == ANSWER_VALUE || a->kind == ANSWER_FAILED) && can_send(a, &e) != 0) {
        bookkeeping_failure(call, &e);
        a = &failure;
    }
    struct artifact *held = a->artifact ? artifact_ref(a->artifact) : NULL;
    assert(!call->answered); /* (1) */
    assert((a->kind == ANSWER_ERROR) == (a->err != NULL));
    bookkeeping_answer(call, a);
    call->name = (struct view){0};
    call->waits |= a->kind == ANSWER_WAIT;
    if (answer_is_last(a->kind))
        call_end(call, false);
    call->on_answer(call, a);
    artifact_unref(held);
}

void call_fail(struct call *call, const struct err *e)
{
    call_answer(call, &(struct answer){.kind = ANSWER_ERROR, .err = e});
}

void call_answer_artifact(struct call *call, struct artifact *a, enum wire_outcome outcome)
{
    call_answer(call, &(struct answer){.kind = a->failed ? ANSWER_FAILED : ANSWER_VALUE,
                                       .outcome = outcome,
                                       .artifact = a});
}

void call_drop(struct call *call, bool cancelled) { call_end(call, cancelled); }

/* ---- a manifest's files ---- */

void call_check(struct call *call, struct manifest *m, struct artifact *candidate)
{
    assert(!call->checking);
    call->checking = manifest_ref(m);
    call->candidate = candidate ? artifact_ref(candidate) : NULL;
    call_answer(call, &(struct answer){.kind = ANSWER_CHECK, .manifest = m});
}

void call_uncheck(struct call *call)
{
    manifest_unref(call->checking);
    artifact_unref(call->candidate);
    call->checking = NULL;
    call->candidate = NULL;
}

/* ---- flights ---- */

static struct call *call_of(struct ask *ask)
{
    return (struct call *)(void *)((char *)ask - offsetof(struct call, ask));
}

static void on_hold(struct ask *ask)
{
    struct call *call = call_of(ask);
    call->ops->on_lease(call);
}

static void on_result(struct ask *ask, struct artifact *result)
{
    struct call *call = call_of(ask);
    assert(ask->state == ASK_OUT);
    call->ops->on_result(call, result);
}

static void on_error(struct ask *ask, const struct err *e)
{
    struct call *call = call_of(ask);
    assert(ask->state == ASK_OUT);
    call->ops->on_error(call, e);
}

static const struct ask_ops ask_ops = {on_hold, on_result, on_error};

void calls_tick_start(struct service *s)
{
    if (s->tick && !loop_timer_runs(s->tick))
        loop_timer_start(s->tick, TICK_MS, TICK_MS);
}

void call_join(struct call *call)
{
    struct service *s = call->service;
    uint64_t now = service_clock_ms(s);
    struct err e = {0};
    assert(!call->answered);
    if (s->stopping) {
        err_set(&e, WARM_ESHUTDOWN, "the daemon is stopping");
        call_fail(call, &e);
        return;
    }
    call->ask.ops = &ask_ops;
    int place = flight_join(s->flights, &call->id, &call->proof, &call->ask, now, &e);
    calls_tick_start(s);
    if (place < 0) {
        call_fail(call, &e);
    } else if (place == FLIGHT_NONE) {
        call_answer(call, &(struct answer){.kind = ANSWER_MISS});
    } else if (place == FLIGHT_LEADS) {
        call->ops->on_lease(call);
    } else {
        const struct flight *f = call->ask.flight;
        call_answer(call, &(struct answer){.kind = ANSWER_WAIT,
                                           .n_waiters = flight_waiters(f),
                                           .elapsed_ms = (uint32_t)flight_age_ms(f, now)});
    }
}

/* ---- large values, which are verified first ---- */

static void on_prepared(void *arg, int status)
{
    struct preparing *p = arg;
    struct call *call = p->call;
    void (*again)(struct call * call) = p->again;
    (void)status; /* the store repeats its verdict at the next look-up */
    assert(p->service->n_preparing);
    p->service->n_preparing--;
    budget_give(p->uid, BUDGET_checks, 1);
    free(p);
    if (call) {
        call->preparing = NULL;
        again(call);
    }
}

bool call_prepare(struct call *call, const struct store_id *id, void (*again)(struct call *call))
{
    struct service *s = call->service;
    uint32_t uid = call->peer->uid;
    struct preparing *p = call->prepared ? NULL : malloc(sizeof *p);
    if (!p)
        return false;
    *p = (struct preparing){s, uid, call, again};
    bool counted = budget_take(uid, BUDGET_checks, 1);
    if (!counted || store_prepare(s->config.store, id, on_prepared, p, NULL) != 0) {
        budget_give(uid, BUDGET_checks, counted);
        free(p);
        return false;
    }
    s->n_preparing++;
    call->prepared = true;
    call->preparing = &p->call;
    return true;
}
