/* SPDX-License-Identifier: Apache-2.0 */
/*
 * build.c - takes one source through the compiler, or to the result of an equal one: build.h has its
 * states.
 *
 * The happy path:
 *   1. a pool thread computes exact key and proof from the bytes; they must be those of COMPILE; and
 *      the shared key, if the job has one;
 *   2. the store has nothing under the shared key, and no other build compiles for it;
 *   3. a worker compiles, and says whether the result may be shared;
 *   4. the result goes to all waiters, then to the store: under the shared key with an alias from
 *      the exact one, else under the exact one; then to the followers.
 * At 2 the tier is asked, too. A result may be there. If it has a manifest, the leader describes its files
 * at those paths; if they agree, the build goes on at 4 without a compile.
 * Read from the end: build_start, build_verify, build_look, build_compile, on_compiled, build_deliver.
 * Failures:
 *   - the leader leaves while its answer is needed: the next waiter leads (builds_tick sees it);
 *   - the leader does not answer for ASK_MS: the build compiles;
 *   - the build waits for the pool: users' sources are verified round robin;
 *   - the compile ends without a verdict of the compiler, for whatever reason: the leader is told,
 *     and the next waiter leads, with its own files. The leader's files may have been the reason;
 *   - the compile hangs, or takes long: other users lead builds of their own (flight.h). The first
 *     verdict goes to all who can use it, and ends builds that nobody needs any more;
 *   - the followed build ends without a result: one of its followers compiles, the others follow that
 *     one; with a result that must not be shared (a warning, say): each compiles its own;
 *   - the followed build is another user's, and takes long: the follower follows its own user's, or
 *     compiles;
 *   - the leader has other files: the build compiles.
 *
 * compile_request.c starts a build and passes the leader's files on; service.c runs the clock.
 *
 * Thread: loop thread, but for build_verify and build_digest.
 */
#include "daemon/service/build.h"

#include <assert.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/process/closer.h"
#include "daemon/process/list.h"
#include "daemon/process/log.h"
#include "daemon/service/bookkeeping.h"
#include "daemon/service/find.h"
#include "daemon/service/internal.h"
#include "daemon/service/tier.h"
#include "daemon/users/budget.h"
#include "keygen/cuda/job.h"

#define ASK_MS 10000u /* in which a leader has to describe its files */
/* What the loop thread does itself, some 0.1 ms each; a pool thread does more. */
#define PATHS_HERE_MAX 64u         /* headers of a manifest */
#define HASH_HERE_MAX (256u << 10) /* bytes of a result, to hash */

/* ---- ends ---- */

static void build_look(struct build *b);

static void build_unfollow(struct build *b)
{
    assert(!b->follows || b->follows != b);
    struct build **at = b->follows ? &b->follows->followers : NULL;
    while (at && *at != b)
        at = &(*at)->next_follower;
    if (at)
        *at = b->next_follower;
    b->follows = NULL;
}

static struct build *take_follower(struct build *b)
{
    struct build *f = b->followers;
    if (f)
        build_unfollow(f);
    return f;
}

static void build_free(struct build *b)
{
    assert(!b->followers && !b->follows && !b->making.flight && !b->running);
    if (b->leader)
        b->leader->build = NULL;
    LIST_REMOVE(b->service->builds, b);
    budget_give(b->maker, BUDGET_compiles, 1);
    fd_close_later(b->job_fd);
    if (b->channel_fd >= 0)
        close(b->channel_fd);
    manifest_paths_close(&b->paths);
    writer_close(&b->recipe);
    artifact_unref(b->made);
    free(b);
}

/* Ends a build. If no other build and no lease is left, the next waiter of its flight leads. */
static void build_end(struct build *b)
{
    struct build *follower;
    b->state = BUILD_DONE;
    while ((follower = take_follower(b)))
        build_look(follower);
    flight_unmake(&b->making, service_clock_ms(b->service));
    build_free(b);
}

/* Ends a build with an error for its leader alone. */
static void build_refuse(struct build *b, const struct err *e)
{
    struct call *leader = b->leader;
    bookkeeping_failed(b->service, b->miss, e);
    if (leader)
        call_fail(leader, e); /* it leaves; phase (4) holds until build_end, so nobody leads yet */
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

/* Ends a build whose result nobody waits for, soon; not one that others follow. */
static void build_cancel(struct build *b)
{
    b->cancelled = !b->followers;
    if (b->running && b->cancelled)
        pool_cancel(b->service->config.pool, b->running);
}

/* Tells the leader that its result comes from the tier. */
static void on_overtaken(struct making *m)
{
    struct build *b = build_of(m);
    if (b->leader)
        b->leader->outcome = WIRE_WAS_HIT;
    build_cancel(b);
}

/* Copies a result for a client that knows its headers by other names. NULL: no memory. */
static struct artifact *artifact_for(const struct artifact *a, struct manifest *m)
{
    struct artifact *copy = NULL;
    int fd = a->data ? -1 : fcntl(a->fd, F_DUPFD_CLOEXEC, 0);
    if (a->data)
        copy = artifact_from_bytes(a->data, a->len);
    else if (fd < 0 || artifact_from_fd(fd, a->len, &a->check, &copy, NULL) != 0)
        copy = NULL;
    if (!copy)
        return NULL;
    copy->kind = a->kind;
    copy->cost_ms = a->cost_ms;
    copy->key = a->key;
    copy->manifest = manifest_ref(m);
    return copy;
}

/* Asks the leader of a build that compiles whether it has the files of another build's result. The
 * compile goes on meanwhile; the answer comes to build_checked. */
static void build_offer(struct build *b, const struct artifact *a)
{
    struct call *leader = b->leader;
    if (!leader || leader->checking || b->state != BUILD_COMPILING || b->afresh ||
        b->n_offers == CHECKS_MAX)
        return;
    struct manifest *m = manifest_of_one(a->manifest, a->manifest->alternatives, b->paths.bases);
    struct artifact *copy = m ? artifact_for(a, m) : NULL;
    b->n_offers++;
    if (copy)
        call_check(leader, m, copy);
    artifact_unref(copy);
    manifest_unref(m);
}

/* Hands a result to all who can use it. If it depends on files, each waiter compares them, and so
 * do the leaders of other builds, which go on meanwhile. Else everybody can use it: builds without
 * a leader end, unless their results alone are stored. */
static void build_finish(struct build *b, struct artifact *a, bool storing)
{
    bool to_all = !a->manifest;
    struct making *m = flight_makings(b->flight);
    for (; to_all && m; m = m->next)
        if (m != &b->making && build_of(m)->leader)
            build_of(m)->leader->outcome = WIRE_WAS_COALESCED;
    flight_finish(b->flight, a, &b->making, to_all ? FLIGHT_TO_ALL : FLIGHT_TO_WAITERS, storing,
                  service_clock_ms(b->service));
    for (m = flight_makings(b->flight); m; m = m->next) {
        struct build *other = build_of(m);
        if (other != b && to_all && !other->leader && (b->keep || !other->keep))
            build_cancel(other);
        else if (other != b && !to_all && (b->keep || !other->keep))
            build_offer(other, a);
    }
}

/* Ends a build with a result that it did not compile. */
static void build_take(struct build *b, struct artifact *a, enum wire_outcome outcome)
{
    if (b->leader)
        b->leader->outcome = outcome;
    b->state = BUILD_DONE;
    build_finish(b, a, b->keep);
    if (b->keep)
        build_store_alias(b);
    build_end(b);
}

/* True if the build's user refused this value: the build then compiles, for this user alone. */
static bool build_is_refused(struct build *b, const struct key *key, const struct key *check)
{
    if (!damaged_is_refused(b->service, b->maker, key, check))
        return false;
    b->afresh = b->alone = true;
    b->keep = false;
    return true;
}

/* Ends a build with a stored value; `m` (may be NULL) is taken. False, and nothing is done, if the
 * value cannot be read. */
static bool build_take_stored(struct build *b, const struct store_value *v, struct manifest *m)
{
    struct artifact *a = NULL;
    if (build_is_refused(b, &v->row.id.key, &v->row.check)) {
        manifest_unref(m);
        return false;
    }
    int fd = v->data ? -1 : fcntl(v->fd, F_DUPFD_CLOEXEC, 0);
    if (v->data)
        a = artifact_from_bytes(v->data, v->row.len);
    else if (fd < 0 || artifact_from_fd(fd, v->row.len, &v->row.check, &a, NULL) != 0)
        a = NULL;
    if (!a) {
        manifest_unref(m);
        return false;
    }
    a->kind = v->row.kind;
    a->cost_ms = v->row.cost_ms;
    a->key = v->row.id.key;
    a->manifest = m;
    build_take(b, a, WIRE_WAS_HIT);
    artifact_unref(a);
    return true;
}

/* Asks the leader for its files; the answer comes to build_checked. */
static void build_ask(struct build *b, struct manifest *m, struct artifact *candidate)
{
    b->state = BUILD_LOOKING;
    b->asked_ms = service_clock_ms(b->service);
    call_check(b->leader, m, candidate);
}

/* Takes the result of the followed build, after a check if it depends on files. */
static void build_take_candidate(struct build *b, struct artifact *a)
{
    if (!a->manifest) {
        build_take(b, a, WIRE_WAS_COALESCED);
        return;
    }
    struct manifest *m =
        b->leader ? manifest_of_one(a->manifest, a->manifest->alternatives, b->paths.bases) : NULL;
    struct artifact *copy = m ? artifact_for(a, m) : NULL;
    if (copy) {
        build_ask(b, m, copy);
    } else { /* no memory, or no leader: its compile would fail for that reason */
        b->alone = true;
        build_look(b);
    }
    artifact_unref(copy);
    manifest_unref(m);
}

/* ---- compiling ---- */

/* Hands the compiled result to the followers; `a` is NULL if they may not have it. */
static void followers_take(struct build *b, struct artifact *a)
{
    struct build *f;
    b->state = BUILD_DONE;
    while ((f = take_follower(b))) {
        f->alone = a == NULL;
        if (a)
            build_take_candidate(f, a);
        else
            build_look(f);
    }
}

/* Describes a compiled result: its key, and who may have it. Hash and manifest follow. Takes the
 * paths. */
static void build_describe(struct build *b, struct pool_result *done, struct artifact *a)
{
    struct service *s = b->service;
    bool shared = b->shares && b->keep && done->keep && done->shareable;
    b->made = a;
    b->made_keep = done->keep;
    b->made_shared = shared;
    b->made_address = b->ask.address;
    b->made_proof = shared ? b->shared_proof : b->proof;
    if (shared)
        b->made_address.graph = b->shared_graph;
    a->kind = STORE_CUBIN;
    a->failed = done->nvrtc_status != 0;
    a->cost_ms = done->ms;
    a->key = shared ? b->shared_id.key : b->id.key;
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
                                                .kept = !keep      ? HISTORY_NOT_SOUND
                                                        : !b->keep ? HISTORY_NOT_WANTED
                                                                   : HISTORY_KEPT},
                         &b->recipe);
    if (!keep) { /* nobody but the leader may have it */
        flight_finish(b->flight, a, &b->making, FLIGHT_TO_MAKER, false, service_clock_ms(s));
        followers_take(b, NULL);
        return;
    }
    bool storing = b->keep && !a->failed;
    if (a->failed)
        negative_add(s, &b->id.key, &b->proof, a);
    build_finish(b, a, storing);
    if (storing)
        build_store_result(b, a, shared, &b->made_address, &b->made_proof);
    followers_take(b, shared ? a : NULL);
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
    if (b->leader)
        b->miss = bookkeeping_compile_miss(b->leader);
    bookkeeping_source(s, b->miss, &b->recipe);
    assert(!b->running && b->channel_fd >= 0);
    struct pool_request request = {.toolchain = b->ask.toolchain,
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

static void on_prepared(struct call *call)
{
    if (call->build && call->build->state == BUILD_LOOKING)
        build_look(call->build);
}

/* Asks the leader for its files at the paths of a manifest, which is taken. False if there is no
 * leader, or it has answered that. */
static bool build_ask_manifest(struct build *b, struct manifest *m)
{
    bool can = b->leader && !key_equal(&b->asked, &m->digest) && b->n_asked < CHECKS_MAX;
    m = manifest_for(m, b->paths.bases);
    can &= m != NULL;
    if (can) {
        b->asked = m->digest;
        b->n_asked++;
        build_ask(b, m, NULL);
    }
    manifest_unref(m);
    return can;
}

/* Asks the tier for the shared key; false if it is not asked. */
static bool build_ask_tier(struct build *b)
{
    struct tier_question q = {&b->shared_id, &b->shared_proof, {"", 0}, false};
    if (!b->leader || !tier_ask(b->leader, &q, on_prepared))
        return false;
    b->state = BUILD_LOOKING;
    return true;
}

/* Looks under the shared key. True if the build has its result, or waits. */
static bool look_for_shared(struct build *b)
{
    struct find f;
    switch (find_made(b->service, &b->shared_id, &b->shared_proof, b->leader, on_prepared, &f)) {
    case FOUND_NONE: return f.code == WARM_ENOT_FOUND && build_ask_tier(b);
    case FOUND_MANIFEST: return build_ask_manifest(b, f.manifest);
    case FOUND_ALIAS: bases_unref(f.alias.bases); return false;
    case FOUND_SOON: b->state = BUILD_LOOKING; return true;
    case FOUND_RESULT: break;
    }
    if (f.value)
        return build_take_stored(b, f.value, NULL);
    if (build_is_refused(b, &f.pending->key, &f.pending->check))
        return false;
    artifact_ref(f.pending);
    build_take(b, f.pending, WIRE_WAS_HIT);
    artifact_unref(f.pending);
    return true;
}

/* True if a build waits for no other user any more. */
static bool build_is_hedged(const struct build *b)
{
    return service_clock_ms(b->service) >= b->hedge_at_ms;
}

/* Follows another build that compiles for the same shared key. False if there is none. */
static bool build_follow(struct build *b)
{
    bool own_only = build_is_hedged(b);
    for (struct build *u = b->service->builds; u; u = u->next)
        if (u->state == BUILD_COMPILING && u->shares && u->keep &&
            (u->maker == b->maker || !own_only) &&
            key_equal(&u->shared_id.key, &b->shared_id.key) &&
            proof_equal(&u->shared_proof, &b->shared_proof)) {
            b->state = BUILD_FOLLOWING;
            b->follows = u;
            b->next_follower = u->followers;
            u->followers = b;
            return true;
        }
    return false;
}

/* Takes the result that the leader has the files for, by the manifest of the shared key. */
static bool take_alternative(struct build *b, const struct store_id *id, const struct proof *proof,
                             struct manifest *one)
{
    struct find f;
    if (!one || find_made(b->service, id, proof, NULL, NULL, &f) != FOUND_RESULT)
        return false;
    if (f.value)
        return build_take_stored(b, f.value, manifest_ref(one));
    struct artifact *copy = NULL;
    if (!build_is_refused(b, &f.pending->key, &f.pending->check))
        copy = artifact_for(f.pending, one);
    if (!copy)
        return false;
    build_take(b, copy, WIRE_WAS_HIT);
    artifact_unref(copy);
    return true;
}

/* Takes a result that was offered, since the leader has its files: its own compile is not
 * needed. */
static void build_accept(struct build *b, struct artifact *a)
{
    b->leader->outcome = WIRE_WAS_COALESCED;
    flight_finish(b->flight, a, &b->making, FLIGHT_TO_MAKER, false, service_clock_ms(b->service));
    build_cancel(b);
}

void build_checked(struct call *call, const struct manifest_alternative *a)
{
    struct build *b = call->build;
    assert(b && b->leader == call);
    struct artifact *candidate = call->candidate ? artifact_ref(call->candidate) : NULL;
    struct manifest *one = a ? manifest_of_one(call->checking, a, b->paths.bases) : NULL;
    struct store_id id = {.owner = STORE_MADE_HERE};
    struct proof proof = {{0}};
    if (a) {
        id.key = a->result;
        proof = a->proof;
    }
    call_uncheck(call);
    b->asked_ms = 0;
    if (b->state == BUILD_COMPILING) {
        if (candidate && a)
            build_accept(b, candidate);
    } else if (candidate && a) {
        build_take(b, candidate, WIRE_WAS_COALESCED);
    } else if (candidate) {
        b->alone = true;
        build_look(b);
    } else if (!a || !take_alternative(b, &id, &proof, one)) {
        build_look(b);
    }
    manifest_unref(one);
    artifact_unref(candidate);
}

/* Goes on after the verification, and after whatever the build waited for. */
static void build_look(struct build *b)
{
    assert(b->state != BUILD_DONE && !b->running && !b->follows);
    struct err e = {0};
    if (b->service->stopping) {
        err_set(&e, WARM_ESHUTDOWN, "the daemon is stopping");
        build_fail(b, &e);
        return;
    }
    if (b->shares && !b->afresh && look_for_shared(b))
        return;
    if (b->shares && !b->alone && build_follow(b))
        return;
    build_compile(b);
}

/* ---- the clock ---- */

static bool is_in_pool(const struct build *b)
{
    for (unsigned i = 0; i < VERIFY_MAX; i++)
        if (b->service->verifying[i] == b)
            return true;
    return false;
}

/* True if a build has followed another user's for long enough. */
static bool follows_too_long(const struct build *b)
{
    return b->state == BUILD_FOLLOWING && b->follows->maker != b->maker && build_is_hedged(b);
}

/* Ends builds that need the answer of a leader that has gone, and cancelled builds. */
void builds_tick(struct service *s)
{
    uint64_t now = service_clock_ms(s);
    for (struct build *b = s->builds, *next; b; b = next) {
        next = b->next;
        bool waits = b->state == BUILD_LOOKING || b->state == BUILD_FOLLOWING ||
                     (b->state == BUILD_VERIFYING && !is_in_pool(b));
        if (waits && (b->cancelled || (!b->leader && b->state == BUILD_LOOKING))) {
            build_unfollow(b);
            err_set(&b->err, WARM_ECANCELLED, "the compile was cancelled");
            build_refuse(b, &b->err);
            next = s->builds; /* other builds may have come and gone with it */
        } else if (follows_too_long(b)) {
            build_unfollow(b);
            stats_add(&s->stats, STATS_hedges, STORE_CUBIN, 1);
            build_look(b);
            next = s->builds;
        } else if (waits && b->asked_ms && now - b->asked_ms > ASK_MS) {
            call_uncheck(b->leader);
            b->asked_ms = 0;
            b->alone = true;
            build_compile(b);
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
    if (!key_equal(&graph, &b->ask.address.graph) || !proof_equal(&proof, &b->proof) ||
        strcmp(hardware, b->ask.address.hardware) != 0)
        return err_set(e, WARM_EINVALID, "the source is not the one that COMPILE announced");
    return 0;
}

static void find_shared_key(struct build *b, const struct job *job)
{
    struct address address = b->ask.address;
    const struct toolchain *tool = b->ask.toolchain;
    unsigned version = (unsigned)(tool->major * 100 + tool->minor);
    if ((b->paths.bases && b->paths.bases->n_places > MANIFEST_PATHS_PLACES_MAX) ||
        job_shared_key(job, version, &address.graph, &b->shared_proof, NULL) != 0)
        return;
    b->shares = true;
    b->shared_graph = address.graph;
    b->shared_id = (struct store_id){STORE_MADE_HERE, address_key(&address)};
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
        bookkeeping_job(&job, &b->ask, &b->recipe);
        find_shared_key(b, &job);
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

static struct build *build_new(struct call *call, int job_fd, uint64_t len, int channel_fd)
{
    struct service *s = call->service;
    struct build *b = calloc(1, sizeof *b);
    if (!b)
        return NULL;
    *b = (struct build){.service = s,
                        .flight = call->ask.flight,
                        .making = {.on_overtaken = on_overtaken},
                        .hedge_at_ms = call->ask.hedge_at_ms,
                        .leader = call,
                        .job_fd = job_fd,
                        .job_len = len,
                        .channel_fd = channel_fd,
                        .maker = call->peer->uid,
                        .may_replace = call->peer->is_admin,
                        .keep = !(call->compile->flags & WIRE_COMPILE_NO_STORE),
                        .asked = call->compile->checked,
                        .afresh = call->compile->flags & WIRE_COMPILE_RECACHE,
                        .alone = call->compile->flags & WIRE_COMPILE_RECACHE,
                        .ask = *call->compile,
                        .id = call->id,
                        .proof = call->proof};
    LIST_ADD(s->builds, b);
    b->work.data = b;
    writer_init(&b->recipe, RECIPE_MAX);
    b->session = call->peer->session;
    call->build = b;
    call->leads = true;
    call->outcome = WIRE_WAS_MISS;
    flight_make(&call->ask, &b->making);
    return b;
}

int build_start(struct call *call, int job_fd, uint64_t len, int channel_fd, struct err *e)
{
    assert(call->compile && !call->build && call->ask.state == ASK_HOLDING);
    assert(job_fd >= 0 && len);
    int code = budget_ask(call->peer->uid, BUDGET_compiles, 1, e);
    if (code)
        return code;
    if (!build_new(call, job_fd, len, channel_fd)) {
        budget_give(call->peer->uid, BUDGET_compiles, 1);
        return err_set(e, WARM_ENOMEM, "no memory for a compile");
    }
    verify_next(call->service);
    return 0;
}

void builds_cancel(struct flight *f)
{
    for (struct making *m = flight_makings(f); m; m = m->next)
        build_cancel(build_of(m));
}

void builds_keep(struct flight *f)
{
    for (struct making *m = flight_makings(f); m; m = m->next)
        build_of(m)->keep = true;
}

void builds_shutdown(struct service *s)
{
    for (struct build *b = s->builds; b; b = b->next) {
        b->cancelled = true;
        if (b->running)
            pool_cancel(s->config.pool, b->running);
    }
    calls_tick_start(s); /* builds_tick ends builds that wait */
}
