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
 * The order in which a call looks. Only a manifest that changed while the asker compared it leads back,
 * at most CHECKS_MAX times, so a call cannot go round for ever:
 *
 *     LOOK_STORE ──▶ LOOK_FLIGHT ──▶ LOOK_ERRORS ──▶ LOOK_NOWHERE: lead or wait
 *                    (a result that  (what the compiler refused
 *                    is not on disk) a short while ago)
 *
 * Under an exact key the store has the result, a manifest, or an alias. An alias leads to a shared
 * key, which has a result or a manifest.
 *
 * The wires call service_compile, service_source and service_checked.
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
#include "daemon/service/find.h"
#include "daemon/service/internal.h"
#include "daemon/service/tier.h"
#include "keygen/cuda/job.h"
#include "store/clock.h"

#define NEED_LEASE_MS 10000u /* a client that does not send its source in this time is hedged */
#define HEDGE_MS 2000u       /* how long a compile waits for other users, in all */

enum { LOOK_STORE, LOOK_FLIGHT, LOOK_ERRORS, LOOK_NOWHERE };

/* ---- looking: the store, then flights ---- */

static void compile_look(struct call *call);
static void look_at_chosen(struct call *call);

/* Has the result made for this call alone: its user refused the stored one, which stays. */
static void make_for_itself(struct call *call)
{
    call->compile->flags |= WIRE_COMPILE_RECACHE | WIRE_COMPILE_NO_STORE;
    call->stage = LOOK_NOWHERE;
    compile_look(call);
}

static void answer_stored(struct call *call, const struct store_value *v)
{
    struct service *s = call->service;
    if (damaged_is_refused(s, call->peer->uid, &v->row.id.key, &v->row.check)) {
        make_for_itself(call);
        return;
    }
    bool audit = audit_wanted(s, call, &v->row);
    call_answer(call, &(struct answer){.kind = ANSWER_VALUE,
                                       .outcome = audit ? WIRE_WAS_HIT_AUDIT : WIRE_WAS_HIT,
                                       .value = v});
}

/* Answers with a result on its way to the store: the asker has its files, if it read any. */
static void answer_pending(struct call *call, struct artifact *a)
{
    assert(!a->manifest || key_equal(&a->key, &call->chosen.id.key));
    if (damaged_is_refused(call->service, call->peer->uid, &a->key, &a->check))
        make_for_itself(call);
    else
        call_answer_artifact(call, a, WIRE_WAS_HIT);
}

/* Asks the client about a stored manifest, which is taken. False if it has nothing for this client,
 * or if the client has answered. A client is asked again only if the manifest has changed: others
 * may have made the result meanwhile. */
static bool check_known(struct call *call, struct manifest *m)
{
    struct call_compile *c = call->compile;
    bool again = key_equal(&c->checked, &m->digest) || c->n_checks == CHECKS_MAX;
    m = manifest_for(m, c->bases);
    bool ask = m && !again;
    if (ask) {
        c->checked = m->digest;
        c->n_checks++;
        call_check(call, m, NULL);
    }
    manifest_unref(m);
    return ask;
}

/* Goes on under the key that an alias names, whose bases are taken. */
static void follow_alias(struct call *call, const struct alias *alias)
{
    bases_unref(call->compile->bases);
    call->compile->bases = alias->bases;
    call->chosen.id = (struct store_id){STORE_MADE_HERE, alias->key};
    call->chosen.proof = alias->proof;
    look_at_chosen(call);
}

/* Looks under the exact key, or under `chosen`. True if the call is answered, waits for a value that is
 * being verified, or has gone on elsewhere. */
static bool look_under(struct call *call, const struct store_id *id, const struct proof *proof,
                       void (*again)(struct call *call))
{
    struct find f;
    switch (find_made(call->service, id, proof, call, again, &f)) {
    case FOUND_NONE: break;
    case FOUND_SOON: return true;
    case FOUND_MANIFEST: return check_known(call, f.manifest);
    case FOUND_RESULT:
        if (f.value)
            answer_stored(call, f.value);
        else
            answer_pending(call, f.pending);
        return true;
    case FOUND_ALIAS:
        if (id == &call->id) {
            follow_alias(call, &f.alias);
            return true;
        }
        bases_unref(f.alias.bases); /* no alias leads to another */
    }
    call->was_corrupt |= f.code == WARM_ECORRUPT;
    bool can_make = id == &call->id && !(call->compile->flags & WIRE_COMPILE_ONLY_IF_CACHED);
    return f.code == WARM_ENOT_FOUND &&
           tier_ask(call, &(struct tier_question){id, proof, {0}, can_make}, again);
}

/* Looks for the result, or the manifest, that an alternative or an alias names; then further. */
static void look_at_chosen(struct call *call)
{
    if (!look_under(call, &call->chosen.id, &call->chosen.proof, look_at_chosen))
        compile_look(call);
}

static void look_again(struct call *call)
{
    call->stage = LOOK_STORE;
    compile_look(call);
}

/* Answers with a result that is not in the store, after a check if the compiler read files for it. */
static void answer_candidate(struct call *call, struct artifact *result, enum wire_outcome outcome)
{
    call->outcome = outcome;
    if (result->manifest)
        call_check(call, result->manifest, result);
    else
        call_answer_artifact(call, result, outcome);
}

static void look_no_further(struct call *call)
{
    uint32_t flags = call->compile->flags;
    if (flags & WIRE_COMPILE_ONLY_IF_CACHED) {
        call_answer(call, &(struct answer){.kind = ANSWER_MISS});
        return;
    }
    struct flight *f = flight_find(call->service->flights, &call->id, &call->proof);
    if (f && !(flags & WIRE_COMPILE_NO_STORE))
        builds_keep(f);
    call_join(call);
}

static void compile_look(struct call *call)
{
    struct service *s = call->service;
    assert(call->compile && !call->answered && call->stage <= LOOK_NOWHERE);
    if (call->stage == LOOK_STORE) {
        call->stage = LOOK_FLIGHT;
        if (look_under(call, &call->id, &call->proof, look_again))
            return;
    }
    if (call->stage == LOOK_FLIGHT) {
        const struct flight *f = flight_find(s->flights, &call->id, &call->proof);
        struct artifact *result = f ? flight_result(f) : NULL;
        call->stage = LOOK_ERRORS;
        if (result && damaged_is_refused(s, call->peer->uid, &result->key, &result->check)) {
            make_for_itself(call);
            return;
        }
        if (result) {
            answer_candidate(call, result, WIRE_WAS_HIT);
            return;
        }
    }
    if (call->stage == LOOK_ERRORS) {
        struct artifact *refusal = negative_find(s, &call->id.key, &call->proof);
        call->stage = LOOK_NOWHERE;
        if (refusal) {
            answer_candidate(call, refusal, WIRE_WAS_HIT);
            return;
        }
    }
    look_no_further(call);
}

/* ---- what the flight says ---- */

static void on_lease(struct call *call)
{
    call->n_needs++;
    call_answer(call, &(struct answer){.kind = ANSWER_NEED});
}

static void on_result(struct call *call, struct artifact *result)
{
    if (call->leads) {
        call_answer_artifact(call, result, call->outcome);
        return;
    }
    call->stage = LOOK_NOWHERE;
    answer_candidate(call, result, WIRE_WAS_COALESCED);
}

static void call_forget_wait(struct call *call)
{
    if (call->compile->waiting)
        call->service->n_awaiting--;
    call->compile->waiting = NULL;
    toolchain_wait_cancel(&call->compile->identified);
}

static void compile_drop(struct call *call, bool cancelled)
{
    if (cancelled && flight_is_last(&call->ask))
        builds_cancel(call->ask.flight);
    if (call->build) {
        call->build->leader = NULL;
        call->build = NULL;
    }
    call_uncheck(call);
    if (call->compile) {
        call_forget_wait(call);
        free(call->compile->selector);
        bases_unref(call->compile->bases);
    }
    free(call->compile);
    call->compile = NULL;
}

static const struct call_ops compile_ops = {STORE_CUBIN, on_lease, on_result, call_fail,
                                            compile_drop};

/* ---- beginning ---- */

/* Takes up a COMPILE, but for its compiler. */
static int compile_begin(struct call *call, const struct wire_compile *ask, struct err *e)
{
    if (ask->language != JOB_CUDA && ask->language != JOB_PTX)
        return err_set(e, WARM_EUNSUPPORTED, "language %u is not known", ask->language);
    struct call_compile *c = calloc(1, sizeof *c);
    if (!c)
        return err_set(e, WARM_ENOMEM, "no memory for a compile");
    c->flags = ask->flags;
    c->address.graph = ask->graph;
    memcpy(c->address.hardware, ask->hardware.data, ask->hardware.len); /* checked by wire_get */
    memcpy(c->label, ask->label.data, ask->label.len);
    call->compile = c;
    call->proof = ask->proof;
    return 0;
}

static void call_await(struct call *call, struct view selector);

/* Looks for the result, once the compiler is known, which may have to be identified first. */
static void compile_with(struct call *call, struct view selector)
{
    struct service *s = call->service;
    struct call_compile *c = call->compile;
    struct err e = {0};
    int code = pool_find(s->config.pool, selector, call->peer->uid, &c->toolchain, &e);
    if (code == WARM_EBUSY) {
        call_await(call, selector);
        return;
    }
    if (code) {
        call_fail(call, &e);
        return;
    }
    c->address.compiler = c->toolchain->id;
    call->id = (struct store_id){STORE_MADE_HERE, address_key(&c->address)};
    compile_look(call);
}

static void on_identified(struct toolchain_wait *wait)
{
    struct call_compile *c =
        (struct call_compile *)(void *)((char *)wait - offsetof(struct call_compile, identified));
    struct call *call = c->waiting;
    call_forget_wait(call);
    compile_with(call, (struct view){c->selector, strlen(c->selector)});
}

static void call_await(struct call *call, struct view selector)
{
    struct service *s = call->service;
    struct call_compile *c = call->compile;
    struct err e = {0};
    bool first = !c->selector;
    if (first)
        c->selector = strndup(selector.data, selector.len);
    if (!c->selector || service_clock_ms(s) > call->ask.expires_ms) {
        if (c->selector)
            err_set(&e, WARM_ETIMEOUT, "the compiler was not identified in time");
        else
            err_set(&e, WARM_ENOMEM, "no memory for a compile");
        call_fail(call, &e);
        return;
    }
    c->waiting = call;
    c->identified.on_change = on_identified;
    s->n_awaiting++;
    pool_await(s->config.pool, &c->identified);
    if (first)
        call_answer(call, &(struct answer){.kind = ANSWER_WAIT, .n_waiters = 1});
}

void service_compile(struct call *call, const struct wire_compile *ask)
{
    struct service *s = call->service;
    struct err e = {0};
    assert(!call->ops && !call->answered);
    call->ops = &compile_ops;
    call->began_us = clock_wall_us();
    bookkeeping_asked(s, call->peer);
    int code = compile_begin(call, ask, &e);
    if (code) {
        call_fail(call, &e);
        return;
    }
    call->ask.can_make = true;
    call->ask.lease_ms = NEED_LEASE_MS;
    call->ask.uid = call->peer->uid;
    call->ask.hedge_at_ms = service_clock_ms(s) + HEDGE_MS;
    call->ask.expires_ms =
        service_clock_ms(s) + (ask->deadline_ms ? ask->deadline_ms
                                                : s->config.config->compile_timeout_ms +
                                                      s->config.config->lease_timeout_ms);
    call->stage = ask->flags & WIRE_COMPILE_RECACHE ? LOOK_NOWHERE : LOOK_STORE;
    compile_with(call, ask->compiler);
}

/* ---- the client's files ---- */

void service_checked(struct call *call, const struct wire_path_seen *states)
{
    assert(call->checking && call->compile);
    const struct manifest_alternative *a = manifest_match(call->checking, states);
    if (call->build) {
        build_checked(call, a);
        return;
    }
    if (a && call->candidate) {
        call_answer_artifact(call, call->candidate, call->outcome);
        return;
    }
    if (!a)
        bookkeeping_headers(call, call->checking, states);
    if (!a && !call->candidate)
        call->stage = LOOK_STORE; /* a manifest may have been written meanwhile */
    if (a) {
        call->chosen.id = (struct store_id){STORE_MADE_HERE, a->result};
        call->chosen.proof = a->proof;
    }
    call_uncheck(call);
    if (a)
        look_at_chosen(call);
    else
        compile_look(call);
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
static int source_is_due(struct call *call, struct err *e)
{
    if (!call->compile || call->n_sources >= call->n_needs)
        return err_set(e, WARM_EINVALID, "SOURCE without a NEED that asked for it");
    return ++call->n_sources == call->n_needs && call->ask.state == ASK_HOLDING;
}

void service_source(struct call *call, const void *data, uint64_t len, int job_fd, int channel_fd)
{
    struct err e = {0};
    int fd = -1;
    int due = source_is_due(call, &e);
    int code = due < 0 ? due : due ? source_fd(data, len, job_fd, &fd, &e) : 0;
    if (due > 0 && !code)
        code = build_start(call, fd, len, channel_fd, &e);
    if (due > 0 && !code)
        return;
    if (job_fd >= 0 || fd >= 0)
        fd_close_later(job_fd >= 0 ? job_fd : fd);
    if (channel_fd >= 0)
        close(channel_fd);
    if (code)
        call_fail(call, &e); /* another waiter may lead now */
    /* else it waits for another's result, or is asked for its files */
}
