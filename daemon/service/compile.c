/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compile.c - from "compile this, if you do not have it" to the result.
 *
 * The happy path of a miss:
 *   1. COMPILE: the store has nothing under the source's key, nobody else is at it: NEED;
 *   2. SOURCE: the job is sealed, so that nobody can change it any more;
 *   3. a pool thread computes key and proof from the bytes; they must be those of COMPILE;
 *   4. if that job also has a shared key, what is there under it is the result (attempt.c);
 *   5. else a worker compiles; it asks the client for headers over the channel;
 *   6. the result goes to all who wait, then to the store.
 * A compiler that is not known yet, or was replaced, is identified first: WAIT, then 1.
 * A hit stops at 1. Where an earlier compile read files of its client, the store has a manifest:
 * the asker says what is at those paths (CHECK, CHECKED), and only what agrees is its result. So do
 * those who waited for a compile that read files.
 *
 * What may go wrong:
 *   - the source is not what COMPILE said: an error for that client; the next waiter leads;
 *   - the client that serves the headers goes, hangs or sends nonsense, a worker dies, the deadline
 *     passes: an error for the leader; the next waiter leads, from 1, with its own files;
 *   - whatever it is that takes long, another user waits for it for HEDGE_MS in all, then leads too;
 *   - the client leaves and nobody waits: the compile goes on and is stored, unless it was
 * cancelled;
 *   - the compiler says no: all who wait get its log, and it is remembered for a short while;
 *   - the answer depends on more than the key (no memory): only who led gets it.
 *
 * Where a call looks, in order. Only a manifest that changed while the asker compared it leads back,
 * at most CHECKS_MAX times, so a call cannot go round for ever:
 *   LOOK_STORE ─▶ LOOK_FLIGHT (a result that is not on disk yet) ─▶ LOOK_ERRORS (what the compiler
 *   refused a short while ago) ─▶ LOOK_NOWHERE: lead or wait
 *
 * Steps 3 to 6 are in attempt.c. Under an exact key the store has the result, a manifest, or an alias
 * that leads to a shared key, under which there is one of the first two.
 *
 * Thread: loop thread.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/service/attempt.h"
#include "keygen/cuda/job.h"

#define NEED_TURN_MS 10000u /* a client that does not send its source in this time is hedged */
#define HEDGE_MS 2000u      /* how long a compile waits for attempts of other users, in all */

enum { LOOK_STORE, LOOK_FLIGHT, LOOK_ERRORS, LOOK_NOWHERE };

/* ---- errors that are remembered ---- */

static struct artifact *negative_find(struct service *s, const struct call *call)
{
    uint64_t now = service_now_ms(s);
    for (size_t i = 0; i < NEGATIVES; i++) {
        struct negative *n = &s->negatives[i];
        if (n->artifact && key_equal(&n->key, &call->id.key) && n->expires_ms > now &&
            memcmp(&n->proof, &call->proof, sizeof n->proof) == 0)
            return n->artifact;
    }
    return NULL;
}

void negative_add(struct service *s, const struct attempt *attempt, struct artifact *a)
{
    uint64_t ttl = s->config.config->negative_ttl_ms;
    if (ttl == 0 || a->len > NEGATIVE_BYTES_MAX)
        return;
    struct negative *n = &s->negatives[s->next_negative++ % NEGATIVES];
    artifact_unref(n->artifact);
    *n = (struct negative){attempt->id.key, attempt->proof, service_now_ms(s) + ttl,
                           artifact_ref(a)};
}

void negatives_clear(struct service *s)
{
    for (size_t i = 0; i < NEGATIVES; i++)
        artifact_unref(s->negatives[i].artifact);
}

/* ---- looking: the store, then flights ---- */

static void compile_look(struct call *call);

void call_uncheck(struct call *call)
{
    manifest_unref(call->checking);
    artifact_unref(call->candidate);
    call->checking = NULL;
    call->candidate = NULL;
}

void call_check(struct call *call, struct manifest *m, struct artifact *candidate)
{
    call->checking = manifest_ref(m);
    call->candidate = candidate ? artifact_ref(candidate) : NULL;
    call->on_answer(call, &(struct answer){.kind = ANSWER_CHECK, .manifest = m});
}

int manifest_from_store(const struct store_value *v, struct manifest **out)
{
    if (v->data)
        return manifest_decode(v->data, v->row.len, out, NULL);
    if (v->row.len > MANIFEST_MAX)
        return WARM_ETOO_BIG;
    void *bytes = malloc(v->row.len);
    int code = bytes ? file_read_start(v->fd, bytes, v->row.len, NULL) : WARM_ENOMEM;
    if (code == 0)
        code = manifest_decode(bytes, v->row.len, out, NULL);
    free(bytes);
    return code;
}

int manifest_from_artifact(const struct artifact *a, struct manifest **out)
{
    struct store_value v = {.data = a->data, .fd = a->fd};
    v.row.len = a->len;
    return manifest_from_store(&v, out);
}

/* The user refused what is there: it stays as it is, and the result is for this call alone. */
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
    explain_count(s, call->peer, STATS_hits, v->row.kind, 1);
    explain_count(s, call->peer, STATS_saved_ms, v->row.kind, v->row.cost_ms);
    explain_hit(s, call->peer, &call->id);
    enum wire_outcome outcome = audit_wanted(s, call, &v->row) ? WIRE_WAS_HIT_AUDIT : WIRE_WAS_HIT;
    compile_drop(call);
    call->on_answer(call, &(struct answer){.kind = ANSWER_VALUE, .outcome = outcome, .value = v});
}

/* What is on its way to the store: its files, if it read any, are known to be the asker's. */
static void answer_pending(struct call *call, struct artifact *a)
{
    if (damaged_is_refused(call->service, call->peer->uid, &a->key, &a->check)) {
        make_for_itself(call);
        return;
    }
    artifact_ref(a);
    compile_drop(call);
    service_answer_artifact(call, a, WIRE_WAS_HIT);
    artifact_unref(a);
}

/* Asks about a stored manifest, which is taken, unless that was done: where nothing of it agreed, it
 * is asked about again once it has changed, since others may have made the result meanwhile. */
static void call_check_known(struct call *call, struct manifest *m)
{
    struct call_compile *c = call->compile;
    bool again = key_equal(&c->checked, &m->digest) || c->n_checks == CHECKS_MAX;
    m = manifest_for(m, c->bases);
    if (again || !m) {
        manifest_unref(m);
        compile_look(call);
        return;
    }
    c->checked = m->digest;
    c->n_checks++;
    call_check(call, m, NULL);
    manifest_unref(m);
}

static void call_check_stored(struct call *call, const struct store_value *v)
{
    struct manifest *m;
    if (manifest_from_store(v, &m) == 0)
        call_check_known(call, m);
    else
        compile_look(call);
}

static void look_at_shared(struct call *call);

/* Goes where an alias leads. False if that cannot be. */
static bool follow_alias(struct call *call, const struct store_value *v)
{
    struct alias alias;
    if (!v->data || !alias_read(v->data, v->row.len, &alias))
        return false;
    bases_unref(call->compile->bases);
    call->compile->bases = alias.bases;
    call->chosen.id = (struct store_id){STORE_MADE_HERE, alias.key};
    call->chosen.proof = alias.proof;
    look_at_shared(call);
    return true;
}

/* The entry that is being verified may be the result, or a manifest. */
static void look_again(struct call *call)
{
    call->stage = LOOK_STORE;
    compile_look(call);
}

/* True if the call was answered, with HIT or CHECK, or will be when a value is verified, or went on
 * to look elsewhere. */
static bool look_in_store(struct call *call)
{
    struct store_value v;
    struct manifest *m;
    struct artifact *pending = service_find_pending(call->service, &call->id, &call->proof);
    if (pending && pending->kind == STORE_MANIFEST && manifest_from_artifact(pending, &m) == 0) {
        call_check_known(call, m);
        return true;
    }
    int code = store_get(call->service->config.store, &call->id, &v, NULL);
    if (code == WARM_EBUSY)
        return service_prepare(call, &call->id, look_again);
    if (code || memcmp(&v.row.proof, &call->proof, sizeof call->proof) != 0)
        return false;
    if (v.row.kind != STORE_MANIFEST)
        answer_stored(call, &v);
    else if (!follow_alias(call, &v))
        call_check_stored(call, &v);
    return true;
}

/* The result that an alternative names; looks further if it is not there (any more). */
static void look_at_alternative(struct call *call)
{
    struct store_value v;
    int code = store_get(call->service->config.store, &call->chosen.id, &v, NULL);
    if (code == WARM_EBUSY && service_prepare(call, &call->chosen.id, look_at_alternative))
        return;
    call->was_corrupt |= code == WARM_ECORRUPT;
    struct artifact *pending =
        service_find_pending(call->service, &call->chosen.id, &call->chosen.proof);
    if (code == 0 && memcmp(&v.row.proof, &call->chosen.proof, sizeof v.row.proof) == 0)
        answer_stored(call, &v);
    else if (pending)
        answer_pending(call, pending);
    else
        compile_look(call);
}

/* What an alias leads to: the result, or a manifest of results. */
static void look_at_shared(struct call *call)
{
    struct store_value v;
    struct manifest *m;
    struct artifact *pending =
        service_find_pending(call->service, &call->chosen.id, &call->chosen.proof);
    if (pending && pending->kind != STORE_MANIFEST) {
        answer_pending(call, pending);
        return;
    }
    if (pending && manifest_from_artifact(pending, &m) == 0) {
        call_check_known(call, m);
        return;
    }
    int code = store_get(call->service->config.store, &call->chosen.id, &v, NULL);
    if (code == WARM_EBUSY && service_prepare(call, &call->chosen.id, look_at_shared))
        return;
    bool found = code == 0 && memcmp(&v.row.proof, &call->chosen.proof, sizeof v.row.proof) == 0;
    if (found && v.row.kind != STORE_MANIFEST) {
        answer_stored(call, &v);
    } else if (found) {
        call_check_stored(call, &v);
    } else {
        compile_look(call);
    }
}

/* A result that is not in the store: for who has the same files, if the compiler read any. */
static void answer_candidate(struct call *call, struct artifact *result, enum wire_outcome outcome)
{
    call->outcome = outcome;
    if (result->manifest) {
        call_check(call, result->manifest, result);
        return;
    }
    artifact_ref(result);
    compile_drop(call);
    service_answer_artifact(call, result, outcome);
    artifact_unref(result);
}

static bool look_in_flight(struct call *call)
{
    const struct flight *f = flight_find(call->service->flights, &call->id, &call->proof);
    struct artifact *result = f ? flight_result(f) : NULL;
    if (!result)
        return false;
    if (damaged_is_refused(call->service, call->peer->uid, &result->key, &result->check))
        make_for_itself(call);
    else
        answer_candidate(call, result, WIRE_WAS_HIT);
    return true;
}

static bool look_in_errors(struct call *call)
{
    struct artifact *negative = negative_find(call->service, call);
    if (negative)
        answer_candidate(call, negative, WIRE_WAS_HIT);
    return negative != NULL;
}

static void look_no_further(struct call *call)
{
    struct service *s = call->service;
    uint32_t flags = call->compile->flags;
    if (flags & WIRE_COMPILE_ONLY_IF_CACHED) {
        explain_count(s, call->peer, STATS_misses, STORE_CUBIN, 1);
        explain_compile_miss(call);
        compile_drop(call);
        call->on_answer(call, &(struct answer){.kind = ANSWER_MISS});
    } else {
        struct flight *f = flight_find(s->flights, &call->id, &call->proof);
        if (f && !(flags & WIRE_COMPILE_NO_STORE))
            compile_keep(f);
        service_join(call);
    }
}

static void compile_look(struct call *call)
{
    if (call->stage == LOOK_STORE) {
        call->stage = LOOK_FLIGHT;
        if (look_in_store(call))
            return;
    }
    if (call->stage == LOOK_FLIGHT) {
        call->stage = LOOK_ERRORS;
        if (look_in_flight(call))
            return;
    }
    if (call->stage == LOOK_ERRORS) {
        call->stage = LOOK_NOWHERE;
        if (look_in_errors(call))
            return;
    }
    look_no_further(call);
}

/* ---- beginning ---- */

/* What the COMPILE says, but for its compiler. */
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

/* Looks for the result, once the compiler is known; that may have to wait. */
static void compile_with(struct call *call, struct view selector)
{
    struct service *s = call->service;
    struct call_compile *c = call->compile;
    struct err e = {0};
    int code = compiler_find(s->config.compiler, selector, call->peer->uid, &c->toolchain, &e);
    if (code == WARM_EBUSY) {
        call_await(call, selector);
        return;
    }
    if (code) {
        compile_drop(call);
        service_answer_error(call, &e);
        return;
    }
    c->address.compiler = c->toolchain->id;
    call->id = (struct store_id){STORE_MADE_HERE, address_key(&c->address)};
    compile_look(call);
}

static void call_forget_wait(struct call *call)
{
    if (call->compile->waiting)
        call->service->n_awaiting--;
    call->compile->waiting = NULL;
    compiler_await_cancel(&call->compile->identified);
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
    if (!c->selector || service_now_ms(s) > call->ask.expires_ms) {
        if (c->selector)
            err_set(&e, WARM_ETIMEOUT, "the compiler was not identified in time");
        else
            err_set(&e, WARM_ENOMEM, "no memory for a compile");
        compile_drop(call);
        service_answer_error(call, &e);
        return;
    }
    c->waiting = call;
    c->identified.on_change = on_identified;
    s->n_awaiting++;
    compiler_await(s->config.compiler, &c->identified);
    if (first)
        call->on_answer(call, &(struct answer){.kind = ANSWER_WAIT, .n_waiters = 1});
}

void service_compile(struct call *call, const struct wire_compile *ask)
{
    struct service *s = call->service;
    struct err e = {0};
    call->compiles = true;
    explain_asked(s, call->peer);
    int code = compile_begin(call, ask, &e);
    if (code) {
        service_answer_error(call, &e);
        return;
    }
    call->ask.can_make = true;
    call->ask.turn_ms = NEED_TURN_MS;
    call->ask.uid = call->peer->uid;
    call->ask.hedge_at_ms = service_now_ms(s) + HEDGE_MS;
    call->ask.expires_ms =
        service_now_ms(s) + (ask->deadline_ms ? ask->deadline_ms
                                              : s->config.config->compile_timeout_ms +
                                                    s->config.config->lease_timeout_ms);
    call->stage = ask->flags & WIRE_COMPILE_RECACHE ? LOOK_NOWHERE : LOOK_STORE;
    compile_with(call, ask->compiler);
}

void service_checked(struct call *call, const struct wire_path_seen *states)
{
    struct service *s = call->service;
    struct err e = {0};
    if (!call->checking) {
        err_set(&e, WARM_EINVALID, "CHECKED without a CHECK that asked for it");
        service_drop(call, false);
        service_answer_error(call, &e);
        return;
    }
    const struct manifest_alternative *a = manifest_match(call->checking, states);
    if (call->attempt) {
        attempt_checked(call, a);
        return;
    }
    struct artifact *candidate = call->candidate;
    if (a && candidate) {
        artifact_ref(candidate);
        if (call->outcome == WIRE_WAS_COALESCED)
            explain_count(s, call->peer, STATS_coalesced, candidate->kind, 1);
        compile_drop(call);
        service_answer_artifact(call, candidate, call->outcome);
        artifact_unref(candidate);
        return;
    }
    if (a) {
        call->chosen.id = (struct store_id){STORE_MADE_HERE, a->result};
        call->chosen.proof = a->proof;
    }
    if (!a)
        explain_headers(call, call->checking, states);
    call_uncheck(call);
    if (!a && !candidate)
        call->stage = LOOK_STORE; /* for a manifest that was written meanwhile */
    if (a)
        look_at_alternative(call);
    else
        compile_look(call);
}

/* ---- what the flight says ---- */

void compile_on_turn(struct call *call)
{
    call->n_needs++;
    call->on_answer(call, &(struct answer){.kind = ANSWER_NEED});
}

void compile_on_result(struct call *call, struct artifact *result)
{
    struct service *s = call->service;
    if (call->leads) {
        enum wire_outcome outcome = call->outcome;
        if (outcome != WIRE_WAS_HIT)
            explain_count(s, call->peer, outcome == WIRE_WAS_MISS ? STATS_misses : STATS_coalesced,
                          result->kind, 1);
        compile_drop(call);
        service_answer_artifact(call, result, outcome);
        return;
    }
    call->stage = LOOK_NOWHERE;
    if (!result->manifest)
        explain_count(s, call->peer, STATS_coalesced, result->kind, 1);
    answer_candidate(call, result, WIRE_WAS_COALESCED);
}

void compile_drop(struct call *call)
{
    if (call->attempt) {
        call->attempt->leader = NULL;
        call->attempt = NULL;
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
