/* SPDX-License-Identifier: Apache-2.0 */
/*
 * build.c - a source on its way through the compiler: build.h has its states.
 *
 * The happy path:
 *   1. a pool thread computes exact key and proof from the bytes; they must be those of COMPILE; and
 *      the shared key, if the job has one;
 *   2. the store has nothing under the shared key, and nobody is compiling for it;
 *   3. a worker compiles, and says whether the result may be shared;
 *   4. the result goes to all who wait, then to the store: under the shared key with an alias from
 *      the exact one, else under the exact one; then to those who follow.
 * At 2 a result may be there: the leader says what it has at the paths of its manifest, if it has
 * one, and if they are the same, it goes to 4 without a compile.
 * What may go wrong:
 *   - the leader leaves while its answer is needed: the next waiter leads (builds_tick sees it);
 *   - it does not answer for ASK_MS: the build compiles;
 *   - it waits for the pool: users' sources are verified in turn;
 *   - the compile ends without a verdict of the compiler, for whatever reason: the leader is told,
 *     and the next waiter leads, with its own files. The leader's files may have been the reason;
 *   - it hangs, or takes long: other users lead builds of their own (flight.h). The first verdict
 *     goes to all who can use it, and ends builds that nobody needs any more;
 *   - the build that it follows ends without a result: one of the followers compiles, the others
 *     follow it; with a result that must not be shared (a warning, say): each compiles its own;
 *   - the build that it follows is another user's, and takes long: it follows its own user's, or
 *     compiles;
 *   - its files are others: it compiles.
 *
 * Thread: loop thread, but for build_verify and build_digest.
 */
#include "daemon/service/build.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/process/closer.h"
#include "daemon/process/log.h"
#include "daemon/service/bookkeeping.h"
#include "daemon/service/find.h"
#include "daemon/service/internal.h"
#include "daemon/users/budget.h"
#include "keygen/cuda/job.h"

#define ASK_MS 10000u              /* what a leader may take to say what files it has */
#define PATHS_HERE_MAX 64u         /* headers whose manifest takes some 0.1 ms to make; likewise */
#define HASH_HERE_MAX (256u << 10) /* bytes of a result: some 0.1 ms; a pool thread hashes more */

/* ---- ends ---- */

static void build_look(struct build *t);

static void build_unfollow(struct build *t)
{
    struct build **at = t->follows ? &t->follows->followers : NULL;
    while (at && *at != t)
        at = &(*at)->next_follower;
    if (at)
        *at = t->next_follower;
    t->follows = NULL;
}

static struct build *take_follower(struct build *t)
{
    struct build *f = t->followers;
    if (f)
        build_unfollow(f);
    return f;
}

static void build_free(struct build *t)
{
    if (t->leader)
        t->leader->build = NULL;
    if (t->next)
        t->next->prev = t->prev;
    *(t->prev ? &t->prev->next : &t->service->builds) = t->next;
    budget_give(t->maker, BUDGET_compiles, 1);
    fd_close_later(t->job_fd);
    if (t->channel_fd >= 0)
        close(t->channel_fd);
    manifest_paths_close(&t->paths);
    writer_close(&t->recipe);
    artifact_unref(t->made);
    free(t);
}

/* Ends it; if nobody else is at it, the next waiter in its flight leads. */
static void build_end(struct build *t)
{
    struct build *follower;
    t->state = BUILD_DONE;
    while ((follower = take_follower(t)))
        build_look(follower);
    flight_unmake(&t->making, service_clock_ms(t->service));
    build_free(t);
}

/* An error for the leader alone. */
static void build_refuse(struct build *t, const struct err *e)
{
    struct call *leader = t->leader;
    bookkeeping_failed(t->service, t->miss, e);
    if (leader)
        call_fail(leader, e); /* it leaves; (4) holds until build_end, so nobody leads yet */
    build_end(t);
}

/* True if the end of a compile says nothing of what another build of the same user would come to:
 * its client left, hung or sent nonsense, or took too long. */
static bool is_the_leaders_own(int code)
{
    return code == WARM_ECLOSED || code == WARM_ECANCELLED || code == WARM_ETIMEOUT ||
           code == WARM_EMALFORMED;
}

/* The compile ended without a verdict: the next waiter leads. */
static void build_pass(struct build *t, const struct err *e)
{
    if (!is_the_leaders_own(e->code))
        flight_pass(&t->making, e);
    build_refuse(t, e);
}

static void build_fail(struct build *t, const struct err *e)
{
    bookkeeping_failed(t->service, t->miss, e);
    flight_fail(t->flight, e, service_clock_ms(t->service));
    build_end(t);
}

/* ---- what is already there, or on its way ---- */

static struct build *build_of(struct making *m)
{
    return (struct build *)(void *)((char *)m - offsetof(struct build, making));
}

static void build_cancel(struct build *t);

/* A copy of a result for who knows its headers by other names. NULL: no memory. */
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

/* Asks the leader of another build, which compiles, whether it has the files that the result was made
 * from. The compile goes on meanwhile; the answer comes to build_checked. */
static void build_offer(struct build *t, const struct artifact *a)
{
    struct call *leader = t->leader;
    if (!leader || leader->checking || t->state != BUILD_COMPILING || t->afresh ||
        t->n_offers == CHECKS_MAX)
        return;
    struct manifest *m = manifest_of_one(a->manifest, a->manifest->alternatives, t->paths.bases);
    struct artifact *copy = m ? artifact_for(a, m) : NULL;
    t->n_offers++;
    if (copy)
        call_check(leader, m, copy);
    artifact_unref(copy);
    manifest_unref(m);
}

/* Hands a result to all who can use it. One that depends on files is compared by each waiter, and by the
 * leaders of other builds, which go on meanwhile. Any other is everybody's: builds that have no
 * leader any more end, unless they alone are to be stored. */
static void build_finish(struct build *t, struct artifact *a, bool storing)
{
    bool to_all = !a->manifest;
    struct making *m = flight_makings(t->flight);
    for (; to_all && m; m = m->next)
        if (m != &t->making && build_of(m)->leader)
            build_of(m)->leader->outcome = WIRE_WAS_COALESCED;
    flight_finish(t->flight, a, &t->making, to_all ? FLIGHT_TO_ALL : FLIGHT_TO_WAITERS, storing,
                  service_clock_ms(t->service));
    for (m = flight_makings(t->flight); m; m = m->next) {
        struct build *other = build_of(m);
        if (other != t && to_all && !other->leader && (t->keep || !other->keep))
            build_cancel(other);
        else if (other != t && !to_all && (t->keep || !other->keep))
            build_offer(other, a);
    }
}

/* Ends it with a result that it did not compile. */
static void build_take(struct build *t, struct artifact *a, enum wire_outcome outcome)
{
    if (t->leader)
        t->leader->outcome = outcome;
    t->state = BUILD_DONE;
    build_finish(t, a, t->keep);
    if (t->keep)
        build_store_alias(t);
    build_end(t);
}

/* True if its user refused this value: the build then compiles, for this user alone. */
static bool build_is_refused(struct build *t, const struct key *key, const struct key *check)
{
    if (!damaged_is_refused(t->service, t->maker, key, check))
        return false;
    t->afresh = t->alone = true;
    t->keep = false;
    return true;
}

/* The same from the store; `m` (may be NULL) is taken. False, and nothing is done, if it cannot be
 * read. */
static bool build_take_stored(struct build *t, const struct store_value *v, struct manifest *m)
{
    struct artifact *a = NULL;
    if (build_is_refused(t, &v->row.id.key, &v->row.check)) {
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
    build_take(t, a, WIRE_WAS_HIT);
    artifact_unref(a);
    return true;
}

/* Asks the leader for its files; the answer comes to build_checked. */
static void build_ask(struct build *t, struct manifest *m, struct artifact *candidate)
{
    t->state = BUILD_LOOKING;
    t->asked_ms = service_clock_ms(t->service);
    call_check(t->leader, m, candidate);
}

/* Whom it followed has a result that may be shared. */
static void build_take_candidate(struct build *t, struct artifact *a)
{
    if (!a->manifest) {
        build_take(t, a, WIRE_WAS_COALESCED);
        return;
    }
    struct manifest *m =
        t->leader ? manifest_of_one(a->manifest, a->manifest->alternatives, t->paths.bases) : NULL;
    struct artifact *copy = m ? artifact_for(a, m) : NULL;
    if (copy) {
        build_ask(t, m, copy);
    } else { /* no memory, or its leader has gone and the compile would find that out */
        t->alone = true;
        build_look(t);
    }
    artifact_unref(copy);
    manifest_unref(m);
}

static void on_prepared(struct call *call)
{
    if (call->build && call->build->state == BUILD_LOOKING)
        build_look(call->build);
}

/* Asks the leader what it has at the paths of a manifest, which is taken. False if that cannot be, or
 * was done. */
static bool build_ask_manifest(struct build *t, struct manifest *m)
{
    bool can = t->leader && !key_equal(&t->asked, &m->digest) && t->n_asked < CHECKS_MAX;
    m = manifest_for(m, t->paths.bases);
    can &= m != NULL;
    if (can) {
        t->asked = m->digest;
        t->n_asked++;
        build_ask(t, m, NULL);
    }
    manifest_unref(m);
    return can;
}

/* Looks under the shared key. True if the build has its result, or waits. */
static bool look_for_shared(struct build *t)
{
    struct find f;
    switch (find_made(t->service, &t->shared_id, &t->shared_proof, t->leader, on_prepared, &f)) {
    case FOUND_NONE: return false;
    case FOUND_MANIFEST: return build_ask_manifest(t, f.manifest);
    case FOUND_ALIAS: bases_unref(f.alias.bases); return false;
    case FOUND_SOON: t->state = BUILD_LOOKING; return true;
    case FOUND_RESULT: break;
    }
    if (f.value)
        return build_take_stored(t, f.value, NULL);
    if (build_is_refused(t, &f.pending->key, &f.pending->check))
        return false;
    artifact_ref(f.pending);
    build_take(t, f.pending, WIRE_WAS_HIT);
    artifact_unref(f.pending);
    return true;
}

/* True if it waits for no other user any more. */
static bool build_is_hedged(const struct build *t)
{
    return service_clock_ms(t->service) >= t->hedge_at_ms;
}

/* Waits for another build that compiles for the same shared key. False if there is none. */
static bool build_follow(struct build *t)
{
    bool own_only = build_is_hedged(t);
    for (struct build *u = t->service->builds; u; u = u->next)
        if (u->state == BUILD_COMPILING && u->shares && u->keep &&
            (u->maker == t->maker || !own_only) &&
            key_equal(&u->shared_id.key, &t->shared_id.key) &&
            proof_equal(&u->shared_proof, &t->shared_proof)) {
            t->state = BUILD_FOLLOWING;
            t->follows = u;
            t->next_follower = u->followers;
            u->followers = t;
            return true;
        }
    return false;
}

/* Takes the result that the leader has the files for, by the manifest of the shared key. */
static bool take_alternative(struct build *t, const struct store_id *id, const struct proof *proof,
                             struct manifest *one)
{
    struct find f;
    if (!one || find_made(t->service, id, proof, NULL, NULL, &f) != FOUND_RESULT)
        return false;
    if (f.value)
        return build_take_stored(t, f.value, manifest_ref(one));
    struct artifact *copy = NULL;
    if (!build_is_refused(t, &f.pending->key, &f.pending->check))
        copy = artifact_for(f.pending, one);
    if (!copy)
        return false;
    build_take(t, copy, WIRE_WAS_HIT);
    artifact_unref(copy);
    return true;
}

/* The leader has the files of a result that was offered: it needs its own compile no longer. */
static void build_accept(struct build *t, struct artifact *a)
{
    t->leader->outcome = WIRE_WAS_COALESCED;
    flight_finish(t->flight, a, &t->making, FLIGHT_TO_MAKER, false, service_clock_ms(t->service));
    build_cancel(t);
}

void build_checked(struct call *call, const struct manifest_alternative *a)
{
    struct build *t = call->build;
    struct artifact *candidate = call->candidate ? artifact_ref(call->candidate) : NULL;
    struct manifest *one = a ? manifest_of_one(call->checking, a, t->paths.bases) : NULL;
    struct store_id id = {.owner = STORE_MADE_HERE};
    struct proof proof = {{0}};
    if (a) {
        id.key = a->result;
        proof = a->proof;
    }
    call_uncheck(call);
    t->asked_ms = 0;
    if (t->state == BUILD_COMPILING) {
        if (candidate && a)
            build_accept(t, candidate);
    } else if (candidate && a) {
        build_take(t, candidate, WIRE_WAS_COALESCED);
    } else if (candidate) {
        t->alone = true;
        build_look(t);
    } else if (!a || !take_alternative(t, &id, &proof, one)) {
        build_look(t);
    }
    manifest_unref(one);
    artifact_unref(candidate);
}

/* ---- compiling ---- */

/* Hands what was compiled to those who follow; NULL if they may not have it. */
static void followers_take(struct build *t, struct artifact *a)
{
    struct build *f;
    t->state = BUILD_DONE;
    while ((f = take_follower(t))) {
        f->alone = a == NULL;
        if (a)
            build_take_candidate(f, a);
        else
            build_look(f);
    }
}

/* What the compiler made, but for its hash and its manifest: which key it goes by, and who may have it.
 * Takes the paths. */
static void build_describe(struct build *t, struct pool_result *done, struct artifact *a)
{
    struct service *s = t->service;
    bool shared = t->shares && t->keep && done->keep && done->shareable;
    t->made = a;
    t->made_keep = done->keep;
    t->made_shared = shared;
    t->made_address = t->ask.address;
    t->made_proof = shared ? t->shared_proof : t->proof;
    if (shared)
        t->made_address.graph = t->shared_graph;
    a->kind = STORE_CUBIN;
    a->failed = done->nvrtc_status != 0;
    a->cost_ms = done->ms;
    a->key = shared ? t->shared_id.key : t->id.key;
    stats_add(&s->stats, STATS_compiles, STORE_CUBIN, 1);
    if (done->n_paths)
        bookkeeping_lines(s, t->miss, done);
    t->done = *done;
    done->paths = NULL;
    done->list = NULL;
}

/* Any thread: what takes long for many paths, or a large result. The digest is the daemon's own: a
 * compiler process may say anything of what it made. */
static void build_digest(struct build *t)
{
    t->err = (struct err){0};
    if (t->done.n_paths)
        t->made_manifest =
            build_manifest(t, &t->done, t->made_shared, &t->made_address, &t->made_proof);
    t->code = artifact_hash(t->made, &t->err);
}

/* The rest of it, on the loop thread: bases are counted. */
static void build_digested(struct build *t)
{
    struct manifest *m = t->made_manifest;
    t->made_manifest = NULL;
    if (m && !manifest_set_bases(m, t->made_shared ? t->paths.bases : NULL)) {
        manifest_unref(m);
        m = NULL;
    }
    if (t->done.n_paths)
        t->made_keep &= m != NULL;
    if (m)
        t->made->key = m->alternatives->result;
    t->made->manifest = m;
    pool_paths_free(&t->done);
}

static void build_deliver(struct build *t)
{
    struct service *s = t->service;
    struct artifact *a = t->made;
    bool keep = t->made_keep, shared = t->made_shared;
    if (!a->failed)
        bookkeeping_made(s,
                         &(struct history_made){.id = t->id,
                                                .uid = t->maker,
                                                .session = t->session,
                                                .kept = !keep      ? HISTORY_NOT_SOUND
                                                        : !t->keep ? HISTORY_NOT_WANTED
                                                                   : HISTORY_KEPT},
                         &t->recipe);
    if (!keep) { /* nobody but the leader may have it */
        flight_finish(t->flight, a, &t->making, FLIGHT_TO_MAKER, false, service_clock_ms(s));
        followers_take(t, NULL);
        return;
    }
    bool storing = t->keep && !a->failed;
    if (a->failed)
        negative_add(s, &t->id.key, &t->proof, a);
    build_finish(t, a, storing);
    if (storing)
        build_store_result(t, a, shared, &t->made_address, &t->made_proof);
    followers_take(t, shared ? a : NULL);
}

/* The end of a compile, with a result or an error. */
static void build_settle(struct build *t, int code, struct err *e)
{
    if (code && !*e->text)
        err_set(e, code, "%s", err_text(code));
    e->code = code;
    if (code == WARM_ESHUTDOWN) {
        build_fail(t, e);
    } else if (code) {
        build_pass(t, e);
    } else {
        build_deliver(t);
        build_end(t);
    }
}

/* Pool thread. */
static void build_digest_work(uv_work_t *work) { build_digest(work->data); }

static void on_digested(uv_work_t *work, int status)
{
    struct build *t = work->data;
    (void)status;
    build_digested(t);
    if (t->cancelled)
        t->code = err_set(&t->err, WARM_ECANCELLED, "the compile was cancelled");
    build_settle(t, t->code, &t->err);
}

static void on_compiled(void *arg, struct pool_result *done)
{
    struct build *t = arg;
    struct artifact *a = NULL;
    struct err e = done->err;
    int code = done->status;
    t->running = NULL;
    if (code == 0)
        code = artifact_from_fd(done->fd, done->len, NULL, &a, &e);
    if (code) {
        build_settle(t, code, &e);
        return;
    }
    bool is_long = (a->len > HASH_HERE_MAX && !a->hashed) || done->n_paths > PATHS_HERE_MAX;
    build_describe(t, done, a);
    if (is_long) {
        uv_queue_work(t->service->config.loop, &t->work, build_digest_work, on_digested);
        return;
    }
    build_digest(t);
    build_digested(t);
    build_settle(t, t->code, &t->err);
}

static void build_compile(struct build *t)
{
    struct service *s = t->service;
    struct err e = {0};
    if (t->leader)
        t->miss = bookkeeping_compile_miss(t->leader);
    bookkeeping_source(s, t->miss, &t->recipe);
    struct pool_request request = {.toolchain = t->ask.toolchain,
                                   .job_fd = t->job_fd,
                                   .job_len = t->job_len,
                                   .channel_fd = t->channel_fd,
                                   .uid = t->maker,
                                   .cb = on_compiled,
                                   .arg = t};
    int code = pool_start(s->config.pool, &request, &t->running, &e);
    if (code) {
        build_pass(t, &e);
        return;
    }
    t->state = BUILD_COMPILING;
    t->channel_fd = -1;
}

/* Goes on behind the verification, and behind whatever it waited for. */
static void build_look(struct build *t)
{
    struct err e = {0};
    if (t->service->stopping) {
        err_set(&e, WARM_ESHUTDOWN, "the daemon is stopping");
        build_fail(t, &e);
        return;
    }
    if (t->shares && !t->afresh && look_for_shared(t))
        return;
    if (t->shares && !t->alone && build_follow(t))
        return;
    build_compile(t);
}

static bool is_in_pool(const struct build *t)
{
    for (unsigned i = 0; i < VERIFY_MAX; i++)
        if (t->service->verifying[i] == t)
            return true;
    return false;
}

/* True if it has followed another user's build for long enough. */
static bool follows_too_long(const struct build *t)
{
    return t->state == BUILD_FOLLOWING && t->follows->maker != t->maker && build_is_hedged(t);
}

/* Ends those whose leader has gone where its answer is needed, and those who were cancelled. */
void builds_tick(struct service *s)
{
    uint64_t now = service_clock_ms(s);
    for (struct build *t = s->builds, *next; t; t = next) {
        next = t->next;
        bool waits = t->state == BUILD_LOOKING || t->state == BUILD_FOLLOWING ||
                     (t->state == BUILD_VERIFYING && !is_in_pool(t));
        if (waits && (t->cancelled || (!t->leader && t->state == BUILD_LOOKING))) {
            build_unfollow(t);
            err_set(&t->err, WARM_ECANCELLED, "the compile was cancelled");
            build_refuse(t, &t->err);
            next = s->builds; /* others may have come and gone with it */
        } else if (follows_too_long(t)) {
            build_unfollow(t);
            stats_add(&s->stats, STATS_hedges, STORE_CUBIN, 1);
            build_look(t);
            next = s->builds;
        } else if (waits && t->asked_ms && now - t->asked_ms > ASK_MS) {
            call_uncheck(t->leader);
            t->asked_ms = 0;
            t->alone = true;
            build_compile(t);
        }
    }
}

/* ---- the source ---- */

/* Pool thread: are these the bytes that COMPILE spoke of? */
static int verify_key(const struct build *t, const struct job *job, struct err *e)
{
    char hardware[WARM_HARDWARE_MAX];
    struct key graph;
    struct proof proof;
    int code = job_key(job, hardware, &graph, &proof, e);
    if (code)
        return code;
    if (!key_equal(&graph, &t->ask.address.graph) || !proof_equal(&proof, &t->proof) ||
        strcmp(hardware, t->ask.address.hardware) != 0)
        return err_set(e, WARM_EINVALID, "the source is not the one that COMPILE announced");
    return 0;
}

static void find_shared_key(struct build *t, const struct job *job)
{
    struct address address = t->ask.address;
    const struct toolchain *tool = t->ask.toolchain;
    unsigned version = (unsigned)(tool->major * 100 + tool->minor);
    if ((t->paths.bases && t->paths.bases->n_places > MANIFEST_PATHS_PLACES_MAX) ||
        job_shared_key(job, version, &address.graph, &t->shared_proof, NULL) != 0)
        return;
    t->shares = true;
    t->shared_graph = address.graph;
    t->shared_id = (struct store_id){STORE_MADE_HERE, address_key(&address)};
}

static int verify_job(struct build *t, const void *bytes, struct err *e)
{
    struct job job;
    int code = job_decode(bytes, t->job_len, &job, e);
    if (code)
        return code;
    code = verify_key(t, &job, e);
    if (!code && job.language == JOB_CUDA)
        code = manifest_paths_open(&t->paths, &job, e);
    if (!code) {
        bookkeeping_job(&job, &t->ask, &t->recipe);
        find_shared_key(t, &job);
    }
    job_close(&job);
    return code;
}

static void build_verify(uv_work_t *work)
{
    struct build *t = work->data;
    void *bytes = mmap(NULL, t->job_len, PROT_READ, MAP_PRIVATE, t->job_fd, 0);
    if (bytes == MAP_FAILED) {
        t->code = err_set(&t->err, WARM_ENOMEM, "cannot map the source");
        return;
    }
    t->code = verify_job(t, bytes, &t->err);
    munmap(bytes, t->job_len);
}

static bool user_is_in_pool(const struct service *s, uint32_t uid)
{
    for (unsigned i = 0; i < VERIFY_MAX; i++)
        if (s->verifying[i] && s->verifying[i]->maker == uid)
            return true;
    return false;
}

/* The oldest that waits, of a user who has none in the pool: large sources of one user, which take long
 * to hash, hold nobody else up. */
static struct build *next_to_verify(const struct service *s)
{
    struct build *oldest = NULL;
    for (struct build *t = s->builds; t; t = t->next)
        if (t->state == BUILD_VERIFYING && !t->cancelled && !user_is_in_pool(s, t->maker))
            oldest = t;
    return oldest;
}

static void on_verified(uv_work_t *work, int status);

static void verify_next(struct service *s)
{
    for (unsigned i = 0; i < VERIFY_MAX; i++)
        if (!s->verifying[i] && (s->verifying[i] = next_to_verify(s)))
            uv_queue_work(s->config.loop, &s->verifying[i]->work, build_verify, on_verified);
}

static void on_verified(uv_work_t *work, int status)
{
    struct build *t = work->data;
    struct service *s = t->service;
    (void)status;
    for (unsigned i = 0; i < VERIFY_MAX; i++)
        if (s->verifying[i] == t)
            s->verifying[i] = NULL;
    if (t->code || t->cancelled)
        build_refuse(t, &t->err);
    else
        build_look(t);
    verify_next(s);
}

static struct build *build_new(struct call *call, int job_fd, uint64_t len, int channel_fd)
{
    struct service *s = call->service;
    struct build *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    *t = (struct build){.next = s->builds,
                        .service = s,
                        .flight = call->ask.flight,
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
    if (s->builds)
        s->builds->prev = t;
    s->builds = t;
    t->work.data = t;
    writer_init(&t->recipe, RECIPE_MAX);
    t->session = call->peer->session;
    call->build = t;
    call->leads = true;
    call->outcome = WIRE_WAS_MISS;
    flight_make(&call->ask, &t->making);
    return t;
}

int build_start(struct call *call, int job_fd, uint64_t len, int channel_fd, struct err *e)
{
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

static void build_cancel(struct build *t)
{
    t->cancelled = !t->followers;
    if (t->running && t->cancelled)
        pool_cancel(t->service->config.pool, t->running);
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
    for (struct build *t = s->builds; t; t = t->next) {
        t->cancelled = true;
        if (t->running)
            pool_cancel(s->config.pool, t->running);
    }
    calls_tick_start(s); /* builds_tick ends those who wait */
}
