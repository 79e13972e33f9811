/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compile_request.c - the asker's side of a COMPILE: decides where its result comes from.
 *
 * The happy path of a miss:
 *   1. COMPILE: the store has nothing under the source's key, and nobody compiles it: NEED;
 *   2. SOURCE: the job is sealed, so that nobody can change it any more; build.c takes it from here:
 *   3. a pool thread computes key and proof from the bytes; they must be those of COMPILE;
 *   4. if that job also has a shared key, an entry under it is the result;
 *   5. else a worker compiles; it asks the client for headers over the channel;
 *   6. the result goes to all waiters, then to the store.
 * A compiler that is not known yet, or was replaced, is identified first: WAIT, then 1.
 * A hit stops at 1. If an earlier compile read files of its client, the store has a manifest:
 * the asker describes its files at those paths (CHECK, CHECKED), and only an alternative that agrees is
 * its result. Waiters of a compile that read files are asked in the same way.
 *
 * Failures:
 *   - the source is not the one that COMPILE announced: an error for that client; the next waiter leads;
 *   - the client that serves the headers goes, hangs or sends nonsense, a worker dies, the deadline
 *     passes: an error for the leader; the next waiter leads, from 1, with its own files;
 *   - another user waits for HEDGE_MS in all, whatever the reason: it leads, too;
 *   - the client leaves and nobody waits: the compile goes on and is stored, unless it was
 *     cancelled;
 *   - the compiler refuses: all waiters get its log, and it is remembered for a short while;
 *   - the answer depends on more than the key (no memory): only the leader gets it.
 *
 * ask.h has the order in which it looks. Only a manifest that changed while the asker compared it leads back,
 * at most CHECKS_MAX times, so an ask cannot go round for ever. Under an exact key the store has the result, a
 * manifest, or an alias. An alias leads to a shared key, which has a result or a manifest.
 *
 * The wires call service_compile and service_source.
 *
 * Thread: loop thread.
 */
#include "daemon/service/compile_request.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/process/closer.h"
#include "daemon/service/bookkeeping.h"
#include "daemon/service/build.h"
#include "daemon/service/internal.h"
#include "keygen/cuda/job.h"
#include "store/clock.h"

#define NEED_LEASE_MS 10000u /* a client that does not send its source in this time is hedged */
#define HEDGE_MS 2000u       /* how long a compile waits for other users, in all */

/* ---- what the flight says ---- */

/* Joins the flight of the source's key. Its builds must store their results if this ask wants that. */
static enum step try_compile(struct ask *ask, struct look *look)
{
    struct flight *f = flight_find(ask->service->flights, &ask->id, &ask->proof);
    if (ask->joins && f && !(ask->compile->flags & WIRE_COMPILE_NO_STORE))
        builds_keep(f);
    return try_maker(ask, look);
}

static void on_lease(struct ask *ask)
{
    ask->n_needs++;
    ask_answer(ask, &(struct answer){.kind = ANSWER_NEED});
}

/* Takes a result. That of its own build is the ask's; another may be for clients with other files. */
static void on_result(struct ask *ask, struct artifact *result)
{
    struct answer a = {.artifact = result, .outcome = WIRE_WAS_COALESCED};
    if (ask->build) {
        a.outcome = ask->outcome;
        a.kind = result->failed ? ANSWER_FAILED : ANSWER_VALUE;
        ask_answer(ask, &a);
        return;
    }
    ask->at--; /* if it is not for this client: to the maker once more */
    ask_found(ask, &a);
}

static void forget_wait(struct ask *ask)
{
    if (ask->compile->waiting)
        ask->service->n_awaiting--;
    ask->compile->waiting = NULL;
    toolchain_wait_cancel(&ask->compile->identified);
}

static void compile_drop(struct ask *ask, bool cancelled)
{
    if (cancelled && flight_is_last(&ask->waiter))
        builds_cancel(ask->waiter.flight);
    build_leave(ask);
    if (ask->compile) {
        forget_wait(ask);
        free(ask->compile->selector);
        bases_unref(ask->compile->bases);
    }
    free(ask->compile);
    ask->compile = NULL;
}

const struct ask_ops ask_for_compile = {
    .kind = STORE_CUBIN,
    .sources = {try_made, try_tier, try_flight, try_errors, try_compile},
    .on_lease = on_lease,
    .on_result = on_result,
    .on_error = ask_fail,
    .drop = compile_drop};

/* ---- beginning ---- */

/* Takes up a COMPILE, but for its compiler. */
static int compile_begin(struct ask *ask, const struct wire_compile *m, struct err *e)
{
    if (m->language != JOB_CUDA && m->language != JOB_PTX)
        return err_set(e, WARM_EUNSUPPORTED, "language %u is not known", m->language);
    struct compile *c = calloc(1, sizeof *c);
    if (!c)
        return err_set(e, WARM_ENOMEM, "no memory for a compile");
    c->flags = m->flags;
    c->address.graph = m->graph;
    memcpy(c->address.hardware, m->hardware.data, m->hardware.len); /* checked by wire_get */
    memcpy(c->label, m->label.data, m->label.len);
    ask->compile = c;
    ask->proof = m->proof;
    return 0;
}

static void await_compiler(struct ask *ask, struct view selector);

/* Looks for the result, once the compiler is known, which may have to be identified first. */
static void compile_with(struct ask *ask, struct view selector)
{
    struct compile *c = ask->compile;
    struct err e = {0};
    int code = pool_find(ask->service->config.pool, selector, ask->peer->uid, &c->toolchain, &e);
    if (code == WARM_EBUSY) {
        await_compiler(ask, selector);
    } else if (code) {
        ask_fail(ask, &e);
    } else {
        c->address.compiler = c->toolchain->id;
        ask->id = (struct store_id){STORE_MADE_HERE, address_key(&c->address)};
        if (c->flags & WIRE_COMPILE_RECACHE)
            ask_make(ask);
        else
            ask_step(ask);
    }
}

static void on_identified(struct toolchain_wait *wait)
{
    struct compile *c =
        (struct compile *)(void *)((char *)wait - offsetof(struct compile, identified));
    struct ask *ask = c->waiting;
    forget_wait(ask);
    compile_with(ask, view_of_text(c->selector));
}

static void await_compiler(struct ask *ask, struct view selector)
{
    struct service *s = ask->service;
    struct compile *c = ask->compile;
    struct err e = {0};
    bool first = !c->selector;
    if (first)
        c->selector = strndup(selector.data, selector.len);
    if (!c->selector)
        err_set(&e, WARM_ENOMEM, "no memory for a compile");
    else if (service_clock_ms(s) > ask->waiter.expires_ms)
        err_set(&e, WARM_ETIMEOUT, "the compiler was not identified in time");
    if (e.code) {
        ask_fail(ask, &e);
        return;
    }
    c->waiting = ask;
    c->identified.on_change = on_identified;
    s->n_awaiting++;
    pool_await(s->config.pool, &c->identified);
    if (first)
        ask_answer(ask, &(struct answer){.kind = ANSWER_WAIT, .n_waiters = 1});
}

void service_compile(struct ask *ask, const struct wire_compile *m)
{
    struct service *s = ask->service;
    const struct config *config = s->config.config;
    struct err e = {0};
    assert(!ask->ops && !ask->answered);
    ask->ops = &ask_for_compile;
    ask->began_us = clock_wall_us();
    bookkeeping_asked(s, ask->peer);
    if (compile_begin(ask, m, &e) != 0) {
        ask_fail(ask, &e);
        return;
    }
    uint64_t now = service_clock_ms(s),
             most = config->compile_timeout_ms + config->lease_timeout_ms;
    ask->joins = !(m->flags & WIRE_COMPILE_ONLY_IF_CACHED);
    ask->waiter.can_make = true;
    ask->waiter.lease_ms = NEED_LEASE_MS;
    ask->waiter.uid = ask->peer->uid;
    ask->waiter.hedge_at_ms = now + HEDGE_MS;
    ask->waiter.expires_ms = now + (m->deadline_ms ? m->deadline_ms : most);
    compile_with(ask, m->compiler);
}

/* ---- the source ---- */

/* Makes a memfd of the job that its client cannot change, whichever way the job came. */
static int source_fd(const void *data, uint64_t len, int job_fd, int *out, struct err *e)
{
    if (len == 0 || len > SERVICE_JOB_MAX)
        return err_set(e, WARM_ETOO_BIG, "a job of %llu bytes; the limit is %llu",
                       (unsigned long long)len, (unsigned long long)SERVICE_JOB_MAX);
    if (job_fd < 0)
        return memfd_from_bytes(data, len, out, e);
    *out = job_fd;
    return memfd_check(job_fd, len, e);
}

/* Returns 1 if a SOURCE answers the last NEED; 0 if it answers an earlier one, or its lease is over;
 * INVALID if no NEED asked for it. */
static int source_is_due(struct ask *ask, struct err *e)
{
    if (!ask->compile || ask->n_sources >= ask->n_needs)
        return err_set(e, WARM_EINVALID, "SOURCE without a NEED that asked for it");
    return ++ask->n_sources == ask->n_needs && ask->waiter.state == WAITER_HOLDING;
}

void service_source(struct ask *ask, const void *data, uint64_t len, int job_fd, int channel_fd)
{
    struct err e = {0};
    int fd = -1;
    int due = source_is_due(ask, &e);
    int code = due < 0 ? due : due ? source_fd(data, len, job_fd, &fd, &e) : 0;
    if (due > 0 && !code)
        code = build_start(ask, fd, len, channel_fd, &e);
    if (due > 0 && !code)
        return;
    if (job_fd >= 0 || fd >= 0)
        fd_close_later(job_fd >= 0 ? job_fd : fd);
    if (channel_fd >= 0)
        close(channel_fd);
    if (code)
        ask_fail(ask, &e); /* another waiter may lead now */
    /* else it waits for another's result, or is asked for its files */
}
