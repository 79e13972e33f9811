/* SPDX-License-Identifier: Apache-2.0 */
/*
 * build.c - takes one source through the compiler, or to the result of an equal one: build.h has its
 * states.
 *
 * The happy path:
 *   1. a pool thread computes exact key and proof from the bytes; they must be those of COMPILE; and
 *      the shared key, if the job has one;
 *   2. the child finds nothing under the shared key, and holds its lease;
 *   3. a worker compiles, and says whether the result may be shared;
 *   4. the result goes to all waiters of the exact key, then to the store: under the shared key with an alias from
 *      the exact one, else under the exact one; then to all who wait for the shared key.
 * At 2 the child looks as ask.h says. If it finds a result, or waits for one, the build goes on at 4 without a compile.
 * Read from the end: build_start, build_verify, build_look, build_compile, on_compiled, build_deliver.
 * Failures:
 *   - the leader leaves while its answer is needed: the next waiter leads (builds_tick sees it);
 *   - the leader does not answer for ASK_MS: the build compiles;
 *   - the build waits for the pool: users' sources are verified round robin;
 *   - the compile ends without a verdict of the compiler, for whatever reason: the leader is told,
 *     and the next waiter leads, with its own files. The leader's files may have been the reason;
 *   - the compile hangs, or takes long: other users lead builds of their own, and hold the shared key's lease beside
 *     it (flight.h). The first verdict goes to all who can use it, and ends builds that nobody needs any more;
 *   - the build that holds the shared key's lease ends without a result: the next child holds it; with a result that
 *     must not be shared (a warning, say), or for other files: each compiles its own.
 *
 * compile_request.c starts a build; service.c runs the clock.
 *
 * Thread: loop thread, but for build_verify and build_digest.
 */
#include "daemon/service/build.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/process/closer.h"
#include "daemon/service/bookkeeping.h"
#include "daemon/service/find.h"
#include "daemon/service/internal.h"
#include "daemon/users/budget.h"
#include "keygen/cuda/job.h"
#include "keygen/list.h"

#define ASK_MS 10000u /* in which a leader has to describe its files */
/* What the loop thread does itself, some 0.1 ms each; a pool thread does more. */
#define PATHS_HERE_MAX 64u         /* headers of a manifest */
#define HASH_HERE_MAX (256u << 10) /* bytes of a result, to hash */
#define LEASE_FOREVER (1ull << 40) /* ms: the lease of a shared key ends with its build */

/* ---- ends ---- */

static struct ask *leader_of(const struct build *b) { return b->child.client; }

static struct build *build_of_child(struct ask *child)
{
    return (struct build *)(void *)((char *)child - offsetof(struct build, child));
}

/* Ends a build. If no other build and no lease is left, the next waiter of its flight leads; and so with the shared
 * key's. */
static void build_end(struct build *b)
{
    b->state = BUILD_DONE;
    if (!b->child.answered)
        ask_drop(&b->child, false);
    flight_unmake(&b->making, service_clock_ms(b->service));
    assert(b->child.answered && !b->making.flight && !b->running);
    if (leader_of(b))
        leader_of(b)->build = NULL;
    LIST_REMOVE(b->service->builds, b);
    budget_give(b->maker, BUDGET_compiles, 1);
    fd_close_later(b->job_fd);
    if (b->channel_fd >= 0)
        close(b->channel_fd);
    manifest_paths_close(&b->paths);
    writer_close(&b->recipe);
    manifest_unref(b->child.matched);
    artifact_unref(b->made);
    free(b);
}

/* Ends a build with an error for its leader alone. */
static void build_refuse(struct build *b, const struct err *e)
{
    bookkeeping_failed(b->service, b->miss, e);
    if (leader_of(b))
        ask_fail(leader_of(b),
                 e); /* it leaves; phase (4) holds until build_end, so nobody leads yet */
    build_end(b);
}

/* True if the fault is this client's: it left, hung, sent nonsense or took too long. Another build of
 * the same user may succeed. */
static bool is_the_leaders_own(int code)
{
    return code == WARM_ECLOSED || code == WARM_ECANCELLED || code == WARM_ETIMEOUT ||
           code == WARM_EMALFORMED;
}

/* Ends a build whose compile had no verdict: the next waiter leads. */
static void build_pass(struct build *b, const struct err *e)
{
    if (!is_the_leaders_own(e->code))
        flight_pass(&b->making, e);
    build_refuse(b, e);
}

static void build_fail(struct build *b, const struct err *e)
{
    bookkeeping_failed(b->service, b->miss, e);
    flight_fail(b->flight, e, service_clock_ms(b->service));
    build_end(b);
}

/* ---- results ---- */

static struct build *build_of(struct making *m)
{
    return (struct build *)(void *)((char *)m - offsetof(struct build, making));
}

/* Ends a build whose result nobody waits for, soon; not one whose shared key others wait for. */
static void build_cancel(struct build *b)
{
    const struct waiter *w = &b->child.waiter;
    b->cancelled = w->state != WAITER_HOLDING || flight_waiters(w->flight) == 0;
    if (b->running && b->cancelled)
        pool_cancel(b->service->config.pool, b->running);
}

/* Tells the leader that its result comes from the tier. */
static void on_overtaken(struct making *m)
{
    struct build *b = build_of(m);
    if (leader_of(b))
        leader_of(b)->outcome = WIRE_WAS_HIT;
    build_cancel(b);
}

/* Hands a result to all who can use it. If it depends on files, each waiter compares them; other builds go on
 * meanwhile. Else everybody can use it: builds without a leader end, unless their results alone are stored. */
static void build_finish(struct build *b, struct artifact *a, bool storing)
{
    bool to_all = !a->manifest;
    struct making *m = flight_makings(b->flight);
    for (; to_all && m; m = m->next)
        if (m != &b->making && leader_of(build_of(m)))
            leader_of(build_of(m))->outcome = WIRE_WAS_COALESCED;
    flight_finish(b->flight, a, &b->making, to_all ? FLIGHT_TO_ALL : FLIGHT_TO_WAITERS, storing,
                  service_clock_ms(b->service));
    for (m = flight_makings(b->flight); to_all && m; m = m->next) {
        struct build *other = build_of(m);
        if (other != b && !leader_of(other) && (build_keeps(b) || !build_keeps(other)))
            build_cancel(other);
    }
}

/* Takes what the child found in place of a compile; one that runs ends. A result that depends on files has the manifest
 * of those that the leader has shown. False, and nothing is done, if it cannot be kept. */
static bool build_take(struct build *b, const struct answer *found)
{
    struct artifact *a = found->artifact;
    assert(b->shares && (a != NULL) != (found->value != NULL));
    struct store_value of_artifact;
    if (a && !b->child.matched)
        artifact_ref(a);
    else if (a)
        a = artifact_from_stored((of_artifact = artifact_as_stored(a), &of_artifact));
    else
        a = artifact_from_stored(found->value);
    if (!a)
        return false;
    if (b->child.matched)
        a->manifest = manifest_ref(b->child.matched);
    if (leader_of(b))
        leader_of(b)->outcome = found->outcome;
    if (b->state == BUILD_COMPILING) {
        flight_finish(b->flight, a, &b->making, FLIGHT_TO_MAKER, false,
                      service_clock_ms(b->service));
        build_cancel(b);
    } else {
        b->state = BUILD_DONE;
        build_finish(b, a, build_keeps(b));
        if (build_keeps(b))
            build_store_alias(b);
        build_end(b);
    }
    artifact_unref(a);
    return true;
}

/* ---- compiling ---- */

/* Hands the compiled result to those who wait for the shared key; `a` is NULL if they may not have it. */
static void children_take(struct build *b, struct artifact *a)
{
    struct flight *f = b->child.waiter.flight;
    struct err e;
    b->state = BUILD_DONE;
    if (f && a)
        flight_finish(f, a, NULL, FLIGHT_TO_ALL, false, service_clock_ms(b->service));
    if (!f || a)
        return;
    err_set(&e, WARM_ENOT_FOUND, "the result is for its own source alone");
    flight_fail(f, &e, service_clock_ms(b->service));
}

/* Describes a compiled result: its key, and who may have it. Hash and manifest follow. Takes the
 * paths. */
static void build_describe(struct build *b, struct pool_result *done, struct artifact *a)
{
    struct service *s = b->service;
    bool shared = b->shares && build_keeps(b) && done->keep && done->shareable;
    b->made = a;
    b->made_keep = done->keep;
    b->made_shared = shared;
    b->made_address = b->compile.address;
    b->made_proof = shared ? b->child.proof : b->proof;
    if (shared)
        b->made_address.graph = b->shared_graph;
    a->kind = STORE_CUBIN;
    a->failed = done->nvrtc_status != 0;
    a->cost_ms = done->ms;
    a->key = shared ? b->child.id.key : b->id.key;
    stats_add(&s->stats, STATS_compiles, STORE_CUBIN, 1);
    stats_add_time(&s->stats.compile_times, STORE_CUBIN, done->ms * 1000000ull);
    if (done->n_paths)
        bookkeeping_lines(s, b->miss, done);
    b->done = *done;
    done->paths = NULL;
    done->list = NULL;
}

/* Makes the manifest and hashes the result, which takes long for many paths or a large result. Any
 * thread. The daemon hashes it itself, since a compiler process may say anything. */
static void build_digest(struct build *b)
{
    b->err = (struct err){0};
    if (b->done.n_paths)
        b->made_manifest =
            build_manifest(b, &b->done, b->made_shared, &b->made_address, &b->made_proof);
    b->code = artifact_hash(b->made, &b->err);
}

/* Completes the result on the loop thread, where bases are counted. */
static void build_digested(struct build *b)
{
    struct manifest *m = b->made_manifest;
    b->made_manifest = NULL;
    if (m && !manifest_set_bases(m, b->made_shared ? b->paths.bases : NULL)) {
        manifest_unref(m);
        m = NULL;
    }
    if (b->done.n_paths)
        b->made_keep &= m != NULL;
    if (m)
        b->made->key = m->alternatives->result;
    b->made->manifest = m;
    pool_paths_free(&b->done);
}

static void build_deliver(struct build *b)
{
    struct service *s = b->service;
    struct artifact *a = b->made;
    bool keep = b->made_keep, shared = b->made_shared;
    if (!a->failed)
        bookkeeping_made(s,
                         &(struct history_made){.id = b->id,
                                                .uid = b->maker,
                                                .session = b->session,
                                                .kept = !keep             ? HISTORY_NOT_SOUND
                                                        : !build_keeps(b) ? HISTORY_NOT_WANTED
                                                                          : HISTORY_KEPT},
                         &b->recipe);
    if (!keep) { /* nobody but the leader may have it */
        flight_finish(b->flight, a, &b->making, FLIGHT_TO_MAKER, false, service_clock_ms(s));
        children_take(b, NULL);
        return;
    }
    bool storing = build_keeps(b) && !a->failed;
    if (a->failed)
        negative_add(s, &b->id.key, &b->proof, a);
    build_finish(b, a, storing);
    if (storing)
        build_store_result(b, a, shared, &b->made_address, &b->made_proof);
    children_take(b, shared ? a : NULL);
}

/* Ends a build after its compile, with a result or an error. */
static void build_settle(struct build *b, int code, struct err *e)
{
    if (code && !*e->text)
        err_set(e, code, "%s", err_text(code));
    e->code = code;
    if (code == WARM_ESHUTDOWN) {
        build_fail(b, e);
    } else if (code) {
        build_pass(b, e);
    } else {
        build_deliver(b);
        build_end(b);
    }
}

/* Runs build_digest on a pool thread. */
static void build_digest_work(uv_work_t *work) { build_digest(work->data); }

static void on_digested(uv_work_t *work, int status)
{
    struct build *b = work->data;
    (void)status;
    build_digested(b);
    if (b->cancelled)
        b->code = err_set(&b->err, WARM_ECANCELLED, "the compile was cancelled");
    build_settle(b, b->code, &b->err);
}

static void on_compiled(void *arg, struct pool_result *done)
{
    struct build *b = arg;
    struct artifact *a = NULL;
    struct err e = done->err;
    int code = done->status;
    assert(b->state == BUILD_COMPILING);
    b->running = NULL;
    if (code == 0)
        code = artifact_from_fd(done->fd, done->len, NULL, &a, &e);
    if (code) {
        build_settle(b, code, &e);
        return;
    }
    bool is_long = (a->len > HASH_HERE_MAX && !a->hashed) || done->n_paths > PATHS_HERE_MAX;
    build_describe(b, done, a);
    if (is_long) {
        uv_queue_work(b->service->config.loop, &b->work, build_digest_work, on_digested);
        return;
    }
    build_digest(b);
    build_digested(b);
    build_settle(b, b->code, &b->err);
}

static void build_compile(struct build *b)
{
    struct service *s = b->service;
    struct err e = {0};
    struct ask *leader = leader_of(b);
    if (leader && *b->child.tier_said) /* what the child heard */
        memcpy(leader->tier_said, b->child.tier_said, sizeof leader->tier_said);
    if (leader && *b->child.failure)
        memcpy(leader->failure, b->child.failure, sizeof leader->failure);
    if (leader)
        b->miss = bookkeeping_compile_miss(leader);
    bookkeeping_source(s, b->miss, &b->recipe);
    assert(!b->running && b->channel_fd >= 0);
    struct pool_request request = {.toolchain = b->compile.toolchain,
                                   .job_fd = b->job_fd,
                                   .job_len = b->job_len,
                                   .channel_fd = b->channel_fd,
                                   .uid = b->maker,
                                   .cb = on_compiled,
                                   .arg = b};
    int code = pool_start(s->config.pool, &request, &b->running, &e);
    if (code) {
        build_pass(b, &e);
        return;
    }
    b->state = BUILD_COMPILING;
    b->channel_fd = -1;
}

/* ---- looking ---- */

/* Joins the flight of the shared key. A build that recompiles, or had no use for another's result, stays alone. */
static enum step try_build(struct ask *child, struct look *look)
{
    const struct build *b = build_of_child(child);
    if (b->state == BUILD_COMPILING)
        return STEP_LATER; /* the client has other files: it goes on */
    if (b->alone || b->compile.flags & WIRE_COMPILE_RECACHE)
        return STEP_MISS;
    return try_maker(child, look);
}

static void child_leads(struct ask *child) { build_compile(build_of_child(child)); }

/* Takes another build's result for the shared key; if it depends on files, after a check. */
static void child_result(struct ask *child, struct artifact *result)
{
    struct build *b = build_of_child(child);
    struct manifest *m = NULL;
    if (b->state == BUILD_DONE)
        return; /* its own */
    b->alone = true;
    child->at = 1; /* before the maker */
    if (!result->manifest) {
        ask_found(child, &(struct answer){.artifact = result, .outcome = WIRE_WAS_COALESCED});
        return;
    }
    if (child->client && !child->client->asked)
        m = manifest_of_one(result->manifest, result->manifest->alternatives, b->paths.bases);
    child->outcome = WIRE_WAS_COALESCED;
    if (m)
        ask_check(child, m, result);
    else /* no memory, or no leader: its compile would fail for that reason */
        ask_next(child);
    manifest_unref(m);
}

static void child_error(struct ask *child, const struct err *e)
{
    if (build_of_child(child)->state == BUILD_LOOKING)
        ask_fail(child, e);
}

const struct ask_ops ask_of_child = {.kind = STORE_CUBIN,
                                     .is_child = true,
                                     .sources = {try_made, try_tier, try_build},
                                     .on_lease = child_leads,
                                     .on_result = child_result,
                                     .on_error = child_error};

/* Takes the answers of the child. */
static void on_child(struct ask *child, const struct answer *a)
{
    struct build *b = build_of_child(child);
    bool found = a->kind == ANSWER_VALUE || a->kind == ANSWER_FAILED;
    if (a->kind == ANSWER_CHECK) {
        b->asked_ms = service_clock_ms(b->service);
        child->client->on_answer(child->client, a);
    } else if (a->kind == ANSWER_ERROR && a->err->code == WARM_ESHUTDOWN) {
        build_fail(b, a->err);
    } else if (answer_is_last(a->kind) && !(found && build_take(b, a)) &&
               b->state == BUILD_LOOKING) {
        build_compile(b);
    }
}

/* Goes on after the verification. */
static void build_look(struct build *b)
{
    assert(b->state == BUILD_VERIFYING && !b->running);
    struct err e = {0};
    if (b->service->stopping) {
        err_set(&e, WARM_ESHUTDOWN, "the daemon is stopping");
        build_fail(b, &e);
        return;
    }
    b->state = BUILD_LOOKING;
    assert(b->child.at == 0 && !b->child.answered);
    if (!b->shares)
        build_compile(b);
    else if (b->compile.flags & WIRE_COMPILE_RECACHE)
        ask_make(&b->child);
    else
        ask_step(&b->child);
}

/* ---- the clock ---- */

static bool is_in_pool(const struct build *b)
{
    for (unsigned i = 0; i < VERIFY_MAX; i++)
        if (b->service->verifying[i] == b)
            return true;
    return false;
}

/* Ends builds that need the answer of a leader that has gone, and cancelled builds. */
void builds_tick(struct service *s)
{
    uint64_t now = service_clock_ms(s);
    for (struct build *b = s->builds, *next; b; b = next) {
        next = b->next;
        bool looks = b->state == BUILD_LOOKING;
        bool waits = looks || (b->state == BUILD_VERIFYING && !is_in_pool(b));
        bool is_lost = looks && !leader_of(b) && b->child.waiter.state == WAITER_OUT;
        if (waits && (b->cancelled || is_lost)) {
            err_set(&b->err, WARM_ECANCELLED, "the compile was cancelled");
            build_refuse(b, &b->err);
            next = s->builds; /* other builds may have come and gone with it */
        } else if (looks && b->child.checking && now - b->asked_ms > ASK_MS) {
            ask_answer(&b->child, &(struct answer){.kind = ANSWER_MISS});
            next = s->builds;
        }
    }
}

/* ---- the source ---- */

/* Checks that these are the bytes that COMPILE announced. Pool thread. */
static int verify_key(const struct build *b, const struct job *job, struct err *e)
{
    char hardware[WARM_HARDWARE_MAX];
    struct key graph;
    struct proof proof;
    int code = job_key(job, hardware, &graph, &proof, e);
    if (code)
        return code;
    if (!key_equal(&graph, &b->compile.address.graph) || !proof_equal(&proof, &b->proof) ||
        strcmp(hardware, b->compile.address.hardware) != 0)
        return err_set(e, WARM_EINVALID, "the source is not the one that COMPILE announced");
    return 0;
}

static void find_shared_key(struct build *b, const struct job *job)
{
    struct address address = b->compile.address;
    const struct toolchain *tool = b->compile.toolchain;
    unsigned version = (unsigned)(tool->major * 100 + tool->minor);
    if ((b->paths.bases && b->paths.bases->n_places > MANIFEST_PATHS_PLACES_MAX) ||
        job_shared_key(job, version, &address.graph, &b->child.proof, NULL) != 0)
        return;
    b->shares = true;
    b->shared_graph = address.graph;
    b->child.id = (struct store_id){STORE_MADE_HERE, address_key(&address)};
}

static int verify_job(struct build *b, const void *bytes, struct err *e)
{
    struct job job;
    int code = job_decode(bytes, b->job_len, &job, e);
    if (code)
        return code;
    code = verify_key(b, &job, e);
    if (!code && job.language == JOB_CUDA)
        code = manifest_paths_open(&b->paths, &job, e);
    if (!code) {
        bookkeeping_job(&job, &b->compile, &b->recipe);
        find_shared_key(b, &job);
        b->compile.bases = b->paths.bases;
    }
    job_close(&job);
    return code;
}

static void build_verify(uv_work_t *work)
{
    struct build *b = work->data;
    void *bytes = mmap(NULL, b->job_len, PROT_READ, MAP_PRIVATE, b->job_fd, 0);
    if (bytes == MAP_FAILED) {
        b->code = err_set(&b->err, WARM_ENOMEM, "cannot map the source");
        return;
    }
    b->code = verify_job(b, bytes, &b->err);
    munmap(bytes, b->job_len);
}

static bool user_is_in_pool(const struct service *s, uint32_t uid)
{
    for (unsigned i = 0; i < VERIFY_MAX; i++)
        if (s->verifying[i] && s->verifying[i]->maker == uid)
            return true;
    return false;
}

/* Finds the oldest waiting build of a user who has none in the pool. Large sources take long to
 * hash: those of one user must delay no other user. */
static struct build *next_to_verify(const struct service *s)
{
    struct build *oldest = NULL;
    for (struct build *b = s->builds; b; b = b->next)
        if (b->state == BUILD_VERIFYING && !b->cancelled && !user_is_in_pool(s, b->maker))
            oldest = b;
    return oldest;
}

static void on_verified(uv_work_t *work, int status);

/* Gives free places in the pool to builds that wait for their verification. */
static void verify_next(struct service *s)
{
    for (unsigned i = 0; i < VERIFY_MAX; i++)
        if (!s->verifying[i] && (s->verifying[i] = next_to_verify(s)))
            uv_queue_work(s->config.loop, &s->verifying[i]->work, build_verify, on_verified);
}

static void on_verified(uv_work_t *work, int status)
{
    struct build *b = work->data;
    struct service *s = b->service;
    (void)status;
    for (unsigned i = 0; i < VERIFY_MAX; i++)
        if (s->verifying[i] == b)
            s->verifying[i] = NULL;
    if (b->code || b->cancelled)
        build_refuse(b, &b->err);
    else
        build_look(b);
    verify_next(s);
}

/* Prepares the child: it asks on as its leader has asked so far. */
static void child_init(struct build *b, struct ask *leader)
{
    b->peer = *leader->peer;
    b->peer.session = 0;
    b->compile = (struct compile){.flags = leader->compile->flags,
                                  .toolchain = leader->compile->toolchain,
                                  .checked = leader->compile->checked,
                                  .address = leader->compile->address};
    memcpy(b->compile.label, leader->compile->label, sizeof b->compile.label);
    b->child = (struct ask){.service = b->service,
                            .peer = &b->peer,
                            .on_answer = on_child,
                            .ops = &ask_of_child,
                            .compile = &b->compile,
                            .client = leader,
                            .joins = true,
                            .tier_asked = leader->tier_asked,
                            .n_tier_asks = leader->n_tier_asks,
                            .tier_ends_ms = leader->tier_ends_ms,
                            .tier_waits_end_ms = leader->tier_waits_end_ms,
                            .waiter = {.uid = b->maker,
                                       .can_make = build_keeps(b),
                                       .lease_ms = LEASE_FOREVER,
                                       .hedge_at_ms = leader->waiter.hedge_at_ms}};
    memcpy(b->child.job, leader->job, sizeof b->child.job);
}

static struct build *build_new(struct ask *leader, int job_fd, uint64_t len, int channel_fd)
{
    struct service *s = leader->service;
    struct build *b = calloc(1, sizeof *b);
    if (!b)
        return NULL;
    *b = (struct build){.service = s,
                        .flight = leader->waiter.flight,
                        .making = {.on_overtaken = on_overtaken},
                        .job_fd = job_fd,
                        .job_len = len,
                        .channel_fd = channel_fd,
                        .maker = leader->peer->uid,
                        .may_replace = leader->peer->is_admin,
                        .id = leader->id,
                        .proof = leader->proof,
                        .session = leader->peer->session};
    child_init(b, leader);
    LIST_ADD(s->builds, b);
    b->work.data = b;
    writer_init(&b->recipe, RECIPE_MAX);
    leader->build = b;
    leader->outcome = WIRE_WAS_MISS;
    flight_make(&leader->waiter, &b->making);
    return b;
}

int build_start(struct ask *leader, int job_fd, uint64_t len, int channel_fd, struct err *e)
{
    assert(leader->compile && !leader->build && leader->waiter.state == WAITER_HOLDING);
    assert(job_fd >= 0 && len);
    int code = budget_ask(leader->peer->uid, BUDGET_compiles, 1, e);
    if (code)
        return code;
    if (!build_new(leader, job_fd, len, channel_fd)) {
        budget_give(leader->peer->uid, BUDGET_compiles, 1);
        return err_set(e, WARM_ENOMEM, "no memory for a compile");
    }
    verify_next(leader->service);
    return 0;
}

void build_leave(struct ask *leader)
{
    if (leader->build)
        leader->build->child.client = NULL;
    leader->build = NULL;
}

void builds_cancel(struct flight *f)
{
    for (struct making *m = flight_makings(f); m; m = m->next)
        build_cancel(build_of(m));
}

void builds_keep(struct flight *f)
{
    for (struct making *m = flight_makings(f); m; m = m->next)
        build_of(m)->compile.flags &= ~(uint32_t)WIRE_COMPILE_NO_STORE;
}

void builds_shutdown(struct service *s)
{
    for (struct build *b = s->builds; b; b = b->next) {
        b->cancelled = true;
        if (b->running)
            pool_cancel(s->config.pool, b->running);
    }
    asks_tick_start(s); /* builds_tick ends builds that wait */
}
