/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compile.c - from "compile this, if you do not have it" to the result.
 *
 * The happy path of a miss:
 *   1. COMPILE: the store has nothing under the source's key, nobody else is at it: NEED;
 *   2. SOURCE: the job is sealed, so that nobody can change it any more;
 *   3. a pool thread computes key and proof from the bytes; they must be those of COMPILE;
 *   4. a worker compiles; it asks the client for headers over the channel;
 *   5. the result goes to all who wait, then to the store.
 * A compiler that is not known yet, or was replaced, is identified first: WAIT, then 1.
 * A hit stops at 1. Where an earlier compile read files of its client, the store has a manifest:
 * the asker says what is at those paths (CHECK, CHECKED), and only what agrees is its result. So do
 * those who waited for a compile that read files.
 *
 * What may go wrong:
 *   - the source is not what COMPILE said: an error for that client; the next waiter leads;
 *   - the client that serves the headers goes: the next waiter leads, from 1;
 *   - the client leaves and nobody waits: the compile goes on and is stored, unless it was
 * cancelled;
 *   - the compiler says no: all who wait get its log, and it is remembered for a short while;
 *   - the answer depends on more than the key (no memory): only who led gets it;
 *   - a worker dies, or the deadline passes: an error for all who wait; nothing is remembered.
 *
 * Where a call looks, in order; each stage is entered once, so a call cannot go round for ever:
 *   LOOK_STORE ─▶ LOOK_FLIGHT (a result that is not on disk yet) ─▶ LOOK_ERRORS (what the compiler
 *   refused a short while ago) ─▶ LOOK_NOWHERE: lead or wait
 *
 * Thread: loop thread, but for attempt_verify.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/log.h"
#include "daemon/manifest.h"
#include "daemon/service_internal.h"
#include "keygen/job.h"

#define NEED_TURN_MS 10000u /* a client that does not send its source in this time is hedged */

enum { LOOK_STORE, LOOK_FLIGHT, LOOK_ERRORS, LOOK_NOWHERE };

/* One source on its way through the compiler. */
struct attempt {
    struct attempt *prev, *next;
    struct service *service;
    struct flight *flight; /* in phase (4) as long as this exists */
    struct call *leader;   /* NULL when it has left */
    uv_work_t work;
    struct compile *running;
    int job_fd;
    uint64_t job_len;
    int channel_fd; /* -1 once it is the compiler's */
    uint32_t maker;
    bool keep;      /* somebody wants it stored */
    bool cancelled; /* before it ran */
    struct call_compile ask;
    struct store_id id;
    struct proof proof;
    int code; /* of the verification */
    struct err err;
    uint64_t miss;        /* of the history */
    struct writer recipe; /* from the verification on */
    uint32_t session;
};

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

static void negative_add(struct service *s, const struct attempt *attempt, struct artifact *a)
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

static void call_uncheck(struct call *call)
{
    manifest_unref(call->checking);
    artifact_unref(call->candidate);
    call->checking = NULL;
    call->candidate = NULL;
}

/* Asks the client what it has at the manifest's paths; both arguments are referenced. */
static void call_check(struct call *call, struct manifest *m, struct artifact *candidate)
{
    call->checking = manifest_ref(m);
    call->candidate = candidate ? artifact_ref(candidate) : NULL;
    call->digest = manifest_digest(m, call->peer->uid);
    call->on_answer(call,
                    &(struct answer){.kind = ANSWER_CHECK, .manifest = m, .digest = call->digest});
}

static int read_manifest(const struct store_value *v, struct manifest **out)
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

static void answer_stored(struct call *call, const struct store_value *v)
{
    struct service *s = call->service;
    explain_count(s, call->peer, STATS_hits, v->row.kind, 1);
    explain_count(s, call->peer, STATS_saved_ms, v->row.kind, v->row.cost_ms);
    explain_hit(s, call->peer, &call->id);
    compile_drop(call);
    call->on_answer(call, &(struct answer){.kind = ANSWER_VALUE, .value = v});
}

/* The entry that is being verified may be the result, or a manifest. */
static void look_again(struct call *call)
{
    call->stage = LOOK_STORE;
    compile_look(call);
}

/* True if the call was answered, with HIT or CHECK, or will be when a value is verified. */
static bool look_in_store(struct call *call)
{
    struct store_value v;
    int code = store_get(call->service->config.store, &call->id, &v, NULL);
    call->was_corrupt |= code == WARM_ECORRUPT;
    if (code == WARM_EBUSY)
        return service_prepare(call, &call->id, look_again);
    if (code || memcmp(&v.row.proof, &call->proof, sizeof call->proof) != 0)
        return false;
    if (v.row.kind != STORE_MANIFEST) {
        answer_stored(call, &v);
        return true;
    }
    struct manifest *m;
    if (read_manifest(&v, &m) != 0)
        return false;
    call_check(call, m, NULL);
    manifest_unref(m);
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
    if (code == 0 && memcmp(&v.row.proof, &call->chosen.proof, sizeof v.row.proof) == 0)
        answer_stored(call, &v);
    else
        compile_look(call);
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
    if (result)
        answer_candidate(call, result, WIRE_WAS_HIT);
    return result != NULL;
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
        const struct flight *f = flight_find(s->flights, &call->id, &call->proof);
        struct attempt *running = f ? flight_work(f) : NULL;
        if (running)
            running->keep |= !(flags & WIRE_COMPILE_NO_STORE);
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
    int code = compiler_find(s->config.compiler, selector, &c->toolchain, &e);
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
    call->ask.expires_ms =
        service_now_ms(s) + (ask->deadline_ms ? ask->deadline_ms
                                              : s->config.config->compile_timeout_ms +
                                                    s->config.config->lease_timeout_ms);
    call->stage = ask->flags & WIRE_COMPILE_RECACHE ? LOOK_NOWHERE : LOOK_STORE;
    compile_with(call, ask->compiler);
}

void service_checked(struct call *call, enum wire_digest digest,
                     const struct wire_path_digest *states)
{
    struct service *s = call->service;
    struct err e = {0};
    if (!call->checking || digest != call->digest) {
        err_set(&e, WARM_EINVALID, "CHECKED without a CHECK that asked for it");
        service_drop(call, false);
        service_answer_error(call, &e);
        return;
    }
    const struct manifest_alternative *a = manifest_match(call->checking, digest, states);
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
        explain_headers(call, call->checking, digest, states);
    call_uncheck(call);
    if (a)
        look_at_alternative(call);
    else
        compile_look(call);
}

/* ---- what the flight says ---- */

void compile_on_turn(struct call *call)
{
    call->on_answer(call, &(struct answer){.kind = ANSWER_NEED});
}

void compile_on_result(struct call *call, struct artifact *result)
{
    struct service *s = call->service;
    if (call->leads) {
        explain_count(s, call->peer, STATS_misses, result->kind, 1);
        compile_drop(call);
        service_answer_artifact(call, result, WIRE_WAS_MISS);
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
    }
    free(call->compile);
    call->compile = NULL;
}

/* ---- the attempt ---- */

static void attempt_free(struct attempt *t)
{
    if (t->leader)
        t->leader->attempt = NULL;
    if (t->next)
        t->next->prev = t->prev;
    *(t->prev ? &t->prev->next : &t->service->attempts) = t->next;
    close(t->job_fd);
    if (t->channel_fd >= 0)
        close(t->channel_fd);
    writer_close(&t->recipe);
    free(t);
}

/* Ends it without a result for the others: the next waiter leads. */
static void attempt_end(struct attempt *t)
{
    struct service *s = t->service;
    struct flight *f = t->flight;
    attempt_free(t);
    flight_unmake(f, service_now_ms(s));
}

/* An error for the leader alone. */
static void attempt_refuse(struct attempt *t, const struct err *e)
{
    struct call *leader = t->leader;
    explain_failed(t->service, t->miss, e);
    if (leader) {
        /* (4) holds until attempt_end, so leaving does not give the turn to anybody yet */
        flight_leave(&leader->ask, service_now_ms(t->service));
        compile_drop(leader);
        service_answer_error(leader, e);
    }
    attempt_end(t);
}

static void attempt_fail(struct attempt *t, const struct err *e)
{
    explain_failed(t->service, t->miss, e);
    flight_fail(t->flight, e, service_now_ms(t->service));
    attempt_end(t);
}

/* ---- results ---- */

static struct store_row attempt_row(const struct attempt *t)
{
    const struct toolchain *toolchain = t->ask.toolchain;
    return (struct store_row){
        .id = t->id,
        .maker = t->maker,
        .proof = t->proof,
        .compiler = t->ask.address.compiler,
        .graph = t->ask.address.graph,
        .hardware = {t->ask.address.hardware, strlen(t->ask.address.hardware)},
        .compiler_text = {toolchain->text, strlen(toolchain->text)},
        .label = {t->ask.label, strlen(t->ask.label)},
    };
}

/* The manifest of this one compile, and the address and proof of its result. */
static struct manifest *attempt_manifest(const struct attempt *t, const struct compile_done *done,
                                         struct address *out_address, struct proof *out_proof)
{
    struct manifest *m = NULL;
    size_t n = done->n_paths;
    if (n > MANIFEST_PATHS_MAX)
        return NULL;
    struct view *paths = calloc(n, sizeof *paths);
    struct manifest_state *states = calloc(n, sizeof *states);
    if (paths && states) {
        for (size_t i = 0; i < n; i++) {
            const struct compile_path *p = &done->paths[i];
            paths[i] = p->path;
            states[i] = (struct manifest_state){(uint32_t)i, p->absent, p->xxh3, p->sha256};
        }
        *out_address = t->ask.address;
        manifest_seal(&t->ask.address.graph, &t->proof, paths, states, (uint32_t)n,
                      &out_address->graph, out_proof);
        struct manifest_alternative a = {
            .maker = t->maker, .result = address_key(out_address), .proof = *out_proof};
        m = manifest_new(paths, states, (uint32_t)n, &a);
    }
    free(paths);
    free(states);
    return m;
}

/* The manifest that the flight or the store has under the source's key; NULL if none. */
static struct manifest *attempt_known_manifest(const struct attempt *t)
{
    struct store_value v;
    struct manifest *m = NULL;
    if (store_get(t->service->config.store, &t->id, &v, NULL) == 0 &&
        v.row.kind == STORE_MANIFEST && memcmp(&v.row.proof, &t->proof, sizeof t->proof) == 0 &&
        read_manifest(&v, &m) == 0)
        return m;
    return NULL;
}

/* Writes the result's alternative, and what was known before, under the source's key. */
static void store_manifest(const struct attempt *t, const struct artifact *result)
{
    struct manifest *old = attempt_known_manifest(t);
    struct writer w;
    writer_init(&w, 2 * MANIFEST_MAX);
    manifest_write(result->manifest, old, &w);
    manifest_unref(old);
    struct artifact *a = w.failed ? NULL : artifact_from_bytes(w.data, w.len);
    writer_close(&w);
    if (!a)
        return; /* no memory: the result stays unfound, and is made again */
    a->kind = STORE_MANIFEST;
    a->key = t->id.key;
    struct store_row row = attempt_row(t);
    row.group = t->id.key;
    service_store_artifact(t->service, NULL, a, &row);
    artifact_unref(a);
}

static void store_result(const struct attempt *t, struct artifact *result,
                         const struct address *address, const struct proof *proof)
{
    struct store_row row = attempt_row(t);
    if (result->manifest) {
        store_manifest(t, result);
        row.id.key = result->key;
        row.graph = address->graph;
        row.proof = *proof;
        row.group = t->id.key;
    }
    service_store_artifact(t->service, t->flight, result, &row);
}

static void attempt_deliver(struct attempt *t, const struct compile_done *done, struct artifact *a)
{
    struct service *s = t->service;
    struct address address = t->ask.address;
    struct proof proof = t->proof;
    bool keep = done->keep;
    a->kind = STORE_CUBIN;
    a->failed = done->nvrtc_status != 0;
    a->cost_ms = done->ms;
    a->key = t->id.key;
    stats_add(&s->stats, STATS_compiles, STORE_CUBIN, 1);
    if (done->n_paths) {
        a->manifest = attempt_manifest(t, done, &address, &proof);
        keep &= a->manifest != NULL;
        if (a->manifest)
            a->key = a->manifest->alternatives->result;
    }
    if (!a->failed)
        explain_made(s,
                     &(struct history_made){.id = t->id,
                                            .uid = t->maker,
                                            .session = t->session,
                                            .kept = !keep      ? HISTORY_NOT_SOUND
                                                    : !t->keep ? HISTORY_NOT_WANTED
                                                               : HISTORY_KEPT},
                     &t->recipe);
    if (!keep) { /* nobody but the leader may have it */
        if (t->leader)
            flight_finish(t->flight, a, &t->leader->ask, false, service_now_ms(s));
        return;
    }
    bool storing = t->keep && !a->failed;
    if (a->failed)
        negative_add(s, t, a);
    flight_finish(t->flight, a, NULL, storing, service_now_ms(s));
    if (storing)
        store_result(t, a, &address, &proof);
}

static void on_compiled(void *arg, struct compile_done *done)
{
    struct attempt *t = arg;
    struct artifact *a = NULL;
    struct err e = done->err;
    int code = done->status;
    t->running = NULL;
    if (code == 0)
        code = artifact_from_fd(done->fd, done->len, NULL, &a, &e);
    if (code && !*e.text)
        err_set(&e, code, "%s", err_text(code));
    e.code = code;
    if (code == WARM_ECLOSED || code == WARM_ECANCELLED) {
        attempt_refuse(t, &e);
    } else if (code) {
        attempt_fail(t, &e);
    } else {
        attempt_deliver(t, done, a);
        artifact_unref(a);
        attempt_end(t);
    }
}

/* ---- the source ---- */

/* Pool thread: are these the bytes that COMPILE spoke of? */
static int verify_job(const struct attempt *t, const void *bytes, struct writer *recipe,
                      struct err *e)
{
    struct job job;
    struct key graph;
    struct proof proof;
    char hardware[WARM_HARDWARE_MAX];
    int code = job_decode(bytes, t->job_len, &job, e);
    if (code)
        return code;
    code = job_key(&job, hardware, &graph, &proof, e);
    if (code == 0)
        explain_job(&job, &t->ask, recipe);
    job_close(&job);
    if (code)
        return code;
    if (!key_equal(&graph, &t->ask.address.graph) || memcmp(&proof, &t->proof, sizeof proof) != 0 ||
        strcmp(hardware, t->ask.address.hardware) != 0)
        return err_set(e, WARM_EINVALID, "the source is not the one that COMPILE announced");
    return 0;
}

static void attempt_verify(uv_work_t *work)
{
    struct attempt *t = work->data;
    void *bytes = mmap(NULL, t->job_len, PROT_READ, MAP_PRIVATE, t->job_fd, 0);
    if (bytes == MAP_FAILED) {
        t->code = err_set(&t->err, WARM_ENOMEM, "cannot map the source");
        return;
    }
    t->code = verify_job(t, bytes, &t->recipe, &t->err);
    munmap(bytes, t->job_len);
}

static void on_verified(uv_work_t *work, int status)
{
    struct attempt *t = work->data;
    struct service *s = t->service;
    struct err e = {0};
    (void)status;
    if (t->code || t->cancelled) {
        attempt_refuse(t, &t->err);
        return;
    }
    explain_source(s, t->miss, &t->recipe);
    struct compile_request request = {.toolchain = t->ask.toolchain,
                                      .job_fd = t->job_fd,
                                      .job_len = t->job_len,
                                      .channel_fd = t->channel_fd,
                                      .uid = t->maker,
                                      .cb = on_compiled,
                                      .arg = t};
    int code = s->stopping ? err_set(&e, WARM_ESHUTDOWN, "the daemon is stopping")
                           : compiler_start(s->config.compiler, &request, &t->running, &e);
    if (code) {
        attempt_fail(t, &e);
        return;
    }
    t->channel_fd = -1;
}

static struct attempt *attempt_new(struct call *call, int job_fd, uint64_t len, int channel_fd)
{
    struct service *s = call->service;
    struct attempt *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    *t = (struct attempt){.next = s->attempts,
                          .service = s,
                          .flight = call->ask.flight,
                          .leader = call,
                          .job_fd = job_fd,
                          .job_len = len,
                          .channel_fd = channel_fd,
                          .maker = call->peer->uid,
                          .keep = !(call->compile->flags & WIRE_COMPILE_NO_STORE),
                          .ask = *call->compile,
                          .id = call->id,
                          .proof = call->proof};
    if (s->attempts)
        s->attempts->prev = t;
    s->attempts = t;
    t->work.data = t;
    writer_init(&t->recipe, RECIPE_MAX);
    t->miss = explain_compile_miss(call);
    t->session = call->peer->session;
    call->attempt = t;
    call->leads = true;
    flight_set_work(t->flight, t);
    return t;
}

/* A sealed memfd of the job, whichever way it came. */
static int source_fd(const void *data, uint64_t len, int job_fd, int *out, struct err *e)
{
    if (len == 0 || len > SERVICE_JOB_MAX)
        return err_set(e, WARM_ETOO_BIG, "a job of %llu bytes; the limit is %llu",
                       (unsigned long long)len, (unsigned long long)SERVICE_JOB_MAX);
    if (job_fd < 0)
        return memfd_from_bytes(data, len, out, e);
    *out = job_fd;
    return memfd_seal(job_fd, len, e);
}

void service_source(struct call *call, const void *data, uint64_t len, int job_fd, int channel_fd)
{
    struct service *s = call->service;
    struct err e = {0};
    int fd = -1;
    int code = call->ask.state != ASK_OUT && call->compile && !call->leads
                   ? source_fd(data, len, job_fd, &fd, &e)
                   : err_set(&e, WARM_EINVALID, "SOURCE without a NEED that asked for it");
    struct flight *f = call->ask.flight;
    bool first = code == 0 && flight_make(f, &call->ask);
    struct attempt *t = first ? attempt_new(call, fd, len, channel_fd) : NULL;
    if (t) {
        uv_queue_work(s->config.loop, &t->work, attempt_verify, on_verified);
        return;
    }
    if (job_fd >= 0 || fd >= 0)
        close(job_fd >= 0 ? job_fd : fd);
    if (channel_fd >= 0)
        close(channel_fd);
    if (first) {
        code = err_set(&e, WARM_ENOMEM, "no memory for a compile");
        flight_unmake(f, service_now_ms(s)); /* may ask another waiter: it leads now */
    }
    if (code) {
        service_drop(call, false);
        service_answer_error(call, &e);
    } /* else another's source came first: this one waits for it */
}

static void attempt_cancel(struct attempt *t)
{
    t->cancelled = true;
    if (t->running)
        compiler_cancel(t->service->config.compiler, t->running);
}

void compile_cancel(struct flight *f)
{
    if (flight_work(f))
        attempt_cancel(flight_work(f));
}

void compile_shutdown(struct service *s)
{
    for (struct attempt *t = s->attempts; t; t = t->next)
        attempt_cancel(t);
}
