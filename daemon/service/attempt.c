/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attempt.c - a source on its way through the compiler: attempt.h has its states.
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
 *   - the leader leaves while its answer is needed: the next waiter leads (attempts_tick sees it);
 *   - it does not answer for ASK_MS: the attempt compiles;
 *   - it waits for the pool: users' sources are verified in turn;
 *   - the compile ends without a verdict of the compiler, for whatever reason: the leader is told,
 *     and the next waiter leads, with its own files. The leader's files may have been the reason;
 *   - it hangs, or takes long: other users lead attempts of their own (flight.h). The first verdict
 *     goes to all who can use it, and ends attempts that nobody needs any more;
 *   - the attempt that it follows ends without a result: one of the followers compiles, the others
 *     follow it; with a result that must not be shared (a warning, say): each compiles its own;
 *   - the attempt that it follows is another user's, and takes long: it follows its own user's, or
 *     compiles;
 *   - its files are others: it compiles.
 *
 * Thread: loop thread, but for attempt_verify and attempt_digest.
 */
#include "daemon/service/attempt.h"

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

static void attempt_look(struct attempt *t);

static void attempt_unfollow(struct attempt *t)
{
    struct attempt **at = t->follows ? &t->follows->followers : NULL;
    while (at && *at != t)
        at = &(*at)->next_follower;
    if (at)
        *at = t->next_follower;
    t->follows = NULL;
}

static struct attempt *take_follower(struct attempt *t)
{
    struct attempt *f = t->followers;
    if (f)
        attempt_unfollow(f);
    return f;
}

static void attempt_free(struct attempt *t)
{
    if (t->leader)
        t->leader->attempt = NULL;
    if (t->next)
        t->next->prev = t->prev;
    *(t->prev ? &t->prev->next : &t->service->attempts) = t->next;
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
static void attempt_end(struct attempt *t)
{
    struct attempt *follower;
    t->state = ATTEMPT_DONE;
    while ((follower = take_follower(t)))
        attempt_look(follower);
    flight_unmake(&t->making, service_clock_ms(t->service));
    attempt_free(t);
}

/* An error for the leader alone. */
static void attempt_refuse(struct attempt *t, const struct err *e)
{
    struct call *leader = t->leader;
    bookkeeping_failed(t->service, t->miss, e);
    if (leader)
        call_fail(leader, e); /* it leaves; (4) holds until attempt_end, so nobody leads yet */
    attempt_end(t);
}

/* True if the end of a compile says nothing of what another attempt of the same user would come to:
 * its client left, hung or sent nonsense, or took too long. */
static bool is_the_leaders_own(int code)
{
    return code == WARM_ECLOSED || code == WARM_ECANCELLED || code == WARM_ETIMEOUT ||
           code == WARM_EMALFORMED;
}

/* The compile ended without a verdict: the next waiter leads. */
static void attempt_pass(struct attempt *t, const struct err *e)
{
    if (!is_the_leaders_own(e->code))
        flight_pass(&t->making, e);
    attempt_refuse(t, e);
}

static void attempt_fail(struct attempt *t, const struct err *e)
{
    bookkeeping_failed(t->service, t->miss, e);
    flight_fail(t->flight, e, service_clock_ms(t->service));
    attempt_end(t);
}

/* ---- what is already there, or on its way ---- */

static struct attempt *attempt_of(struct making *m)
{
    return (struct attempt *)(void *)((char *)m - offsetof(struct attempt, making));
}

static void attempt_cancel(struct attempt *t);

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

/* Asks the leader of another attempt, which compiles, whether it has the files that the result was made
 * from. The compile goes on meanwhile; the answer comes to attempt_checked. */
static void attempt_offer(struct attempt *t, const struct artifact *a)
{
    struct call *leader = t->leader;
    if (!leader || leader->checking || t->state != ATTEMPT_COMPILING || t->afresh ||
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
 * leaders of other attempts, which go on meanwhile. Any other is everybody's: attempts that have no
 * leader any more end, unless they alone are to be stored. */
static void attempt_finish(struct attempt *t, struct artifact *a, bool storing)
{
    bool to_all = !a->manifest;
    struct making *m = flight_makings(t->flight);
    for (; to_all && m; m = m->next)
        if (m != &t->making && attempt_of(m)->leader)
            attempt_of(m)->leader->outcome = WIRE_WAS_COALESCED;
    flight_finish(t->flight, a, &t->making, to_all ? FLIGHT_TO_ALL : FLIGHT_TO_WAITERS, storing,
                  service_clock_ms(t->service));
    for (m = flight_makings(t->flight); m; m = m->next) {
        struct attempt *other = attempt_of(m);
        if (other != t && to_all && !other->leader && (t->keep || !other->keep))
            attempt_cancel(other);
        else if (other != t && !to_all && (t->keep || !other->keep))
            attempt_offer(other, a);
    }
}

/* Ends it with a result that it did not compile. */
static void attempt_take(struct attempt *t, struct artifact *a, enum wire_outcome outcome)
{
    if (t->leader)
        t->leader->outcome = outcome;
    t->state = ATTEMPT_DONE;
    attempt_finish(t, a, t->keep);
    if (t->keep)
        attempt_store_alias(t);
    attempt_end(t);
}

/* True if its user refused this value: the attempt then compiles, for this user alone. */
static bool attempt_is_refused(struct attempt *t, const struct key *key, const struct key *check)
{
    if (!damaged_is_refused(t->service, t->maker, key, check))
        return false;
    t->afresh = t->alone = true;
    t->keep = false;
    return true;
}

/* The same from the store; `m` (may be NULL) is taken. False, and nothing is done, if it cannot be
 * read. */
static bool attempt_take_stored(struct attempt *t, const struct store_value *v, struct manifest *m)
{
    struct artifact *a = NULL;
    if (attempt_is_refused(t, &v->row.id.key, &v->row.check)) {
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
    attempt_take(t, a, WIRE_WAS_HIT);
    artifact_unref(a);
    return true;
}

/* Asks the leader for its files; the answer comes to attempt_checked. */
static void attempt_ask(struct attempt *t, struct manifest *m, struct artifact *candidate)
{
    t->state = ATTEMPT_LOOKING;
    t->asked_ms = service_clock_ms(t->service);
    call_check(t->leader, m, candidate);
}

/* Whom it followed has a result that may be shared. */
static void attempt_take_candidate(struct attempt *t, struct artifact *a)
{
    if (!a->manifest) {
        attempt_take(t, a, WIRE_WAS_COALESCED);
        return;
    }
    struct manifest *m =
        t->leader ? manifest_of_one(a->manifest, a->manifest->alternatives, t->paths.bases) : NULL;
    struct artifact *copy = m ? artifact_for(a, m) : NULL;
    if (copy) {
        attempt_ask(t, m, copy);
    } else { /* no memory, or its leader has gone and the compile would find that out */
        t->alone = true;
        attempt_look(t);
    }
    artifact_unref(copy);
    manifest_unref(m);
}

static void on_prepared(struct call *call)
{
    if (call->attempt && call->attempt->state == ATTEMPT_LOOKING)
        attempt_look(call->attempt);
}

/* Asks the leader what it has at the paths of a manifest, which is taken. False if that cannot be, or
 * was done. */
static bool attempt_ask_manifest(struct attempt *t, struct manifest *m)
{
    bool can = t->leader && !key_equal(&t->asked, &m->digest) && t->n_asked < CHECKS_MAX;
    m = manifest_for(m, t->paths.bases);
    can &= m != NULL;
    if (can) {
        t->asked = m->digest;
        t->n_asked++;
        attempt_ask(t, m, NULL);
    }
    manifest_unref(m);
    return can;
}

/* Looks under the shared key. True if the attempt has its result, or waits. */
static bool look_for_shared(struct attempt *t)
{
    struct find f;
    switch (find_made(t->service, &t->shared_id, &t->shared_proof, t->leader, on_prepared, &f)) {
    case FOUND_NONE: return false;
    case FOUND_MANIFEST: return attempt_ask_manifest(t, f.manifest);
    case FOUND_ALIAS: bases_unref(f.alias.bases); return false;
    case FOUND_SOON: t->state = ATTEMPT_LOOKING; return true;
    case FOUND_RESULT: break;
    }
    if (f.value)
        return attempt_take_stored(t, f.value, NULL);
    if (attempt_is_refused(t, &f.pending->key, &f.pending->check))
        return false;
    artifact_ref(f.pending);
    attempt_take(t, f.pending, WIRE_WAS_HIT);
    artifact_unref(f.pending);
    return true;
}

/* True if it waits for no other user any more. */
static bool attempt_is_hedged(const struct attempt *t)
{
    return service_clock_ms(t->service) >= t->hedge_at_ms;
}

/* Waits for another attempt that compiles for the same shared key. False if there is none. */
static bool attempt_follow(struct attempt *t)
{
    bool own_only = attempt_is_hedged(t);
    for (struct attempt *u = t->service->attempts; u; u = u->next)
        if (u->state == ATTEMPT_COMPILING && u->shares && u->keep &&
            (u->maker == t->maker || !own_only) &&
            key_equal(&u->shared_id.key, &t->shared_id.key) &&
            proof_equal(&u->shared_proof, &t->shared_proof)) {
            t->state = ATTEMPT_FOLLOWING;
            t->follows = u;
            t->next_follower = u->followers;
            u->followers = t;
            return true;
        }
    return false;
}

/* Takes the result that the leader has the files for, by the manifest of the shared key. */
static bool take_alternative(struct attempt *t, const struct store_id *id,
                             const struct proof *proof, struct manifest *one)
{
    struct find f;
    if (!one || find_made(t->service, id, proof, NULL, NULL, &f) != FOUND_RESULT)
        return false;
    if (f.value)
        return attempt_take_stored(t, f.value, manifest_ref(one));
    struct artifact *copy = NULL;
    if (!attempt_is_refused(t, &f.pending->key, &f.pending->check))
        copy = artifact_for(f.pending, one);
    if (!copy)
        return false;
    attempt_take(t, copy, WIRE_WAS_HIT);
    artifact_unref(copy);
    return true;
}

/* The leader has the files of a result that was offered: it needs its own compile no longer. */
static void attempt_accept(struct attempt *t, struct artifact *a)
{
    t->leader->outcome = WIRE_WAS_COALESCED;
    flight_finish(t->flight, a, &t->making, FLIGHT_TO_MAKER, false, service_clock_ms(t->service));
    attempt_cancel(t);
}

void attempt_checked(struct call *call, const struct manifest_alternative *a)
{
    struct attempt *t = call->attempt;
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
    if (t->state == ATTEMPT_COMPILING) {
        if (candidate && a)
            attempt_accept(t, candidate);
    } else if (candidate && a) {
        attempt_take(t, candidate, WIRE_WAS_COALESCED);
    } else if (candidate) {
        t->alone = true;
        attempt_look(t);
    } else if (!a || !take_alternative(t, &id, &proof, one)) {
        attempt_look(t);
    }
    manifest_unref(one);
    artifact_unref(candidate);
}

/* ---- compiling ---- */

/* Hands what was compiled to those who follow; NULL if they may not have it. */
static void followers_take(struct attempt *t, struct artifact *a)
{
    struct attempt *f;
    t->state = ATTEMPT_DONE;
    while ((f = take_follower(t))) {
        f->alone = a == NULL;
        if (a)
            attempt_take_candidate(f, a);
        else
            attempt_look(f);
    }
}

/* What the compiler made, but for its hash and its manifest: which key it goes by, and who may have it.
 * Takes the paths. */
static void attempt_describe(struct attempt *t, struct pool_result *done, struct artifact *a)
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
static void attempt_digest(struct attempt *t)
{
    t->err = (struct err){0};
    if (t->done.n_paths)
        t->made_manifest =
            attempt_manifest(t, &t->done, t->made_shared, &t->made_address, &t->made_proof);
    t->code = artifact_hash(t->made, &t->err);
}

/* The rest of it, on the loop thread: bases are counted. */
static void attempt_digested(struct attempt *t)
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

static void attempt_deliver(struct attempt *t)
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
    attempt_finish(t, a, storing);
    if (storing)
        attempt_store_result(t, a, shared, &t->made_address, &t->made_proof);
    followers_take(t, shared ? a : NULL);
}

/* The end of a compile, with a result or an error. */
static void attempt_settle(struct attempt *t, int code, struct err *e)
{
    if (code && !*e->text)
        err_set(e, code, "%s", err_text(code));
    e->code = code;
    if (code == WARM_ESHUTDOWN) {
        attempt_fail(t, e);
    } else if (code) {
        attempt_pass(t, e);
    } else {
        attempt_deliver(t);
        attempt_end(t);
    }
}

/* Pool thread. */
static void attempt_digest_work(uv_work_t *work) { attempt_digest(work->data); }

static void on_digested(uv_work_t *work, int status)
{
    struct attempt *t = work->data;
    (void)status;
    attempt_digested(t);
    if (t->cancelled)
        t->code = err_set(&t->err, WARM_ECANCELLED, "the compile was cancelled");
    attempt_settle(t, t->code, &t->err);
}

static void on_compiled(void *arg, struct pool_result *done)
{
    struct attempt *t = arg;
    struct artifact *a = NULL;
    struct err e = done->err;
    int code = done->status;
    t->running = NULL;
    if (code == 0)
        code = artifact_from_fd(done->fd, done->len, NULL, &a, &e);
    if (code) {
        attempt_settle(t, code, &e);
        return;
    }
    bool is_long = (a->len > HASH_HERE_MAX && !a->hashed) || done->n_paths > PATHS_HERE_MAX;
    attempt_describe(t, done, a);
    if (is_long) {
        uv_queue_work(t->service->config.loop, &t->work, attempt_digest_work, on_digested);
        return;
    }
    attempt_digest(t);
    attempt_digested(t);
    attempt_settle(t, t->code, &t->err);
}

static void attempt_compile(struct attempt *t)
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
        attempt_pass(t, &e);
        return;
    }
    t->state = ATTEMPT_COMPILING;
    t->channel_fd = -1;
}

/* Goes on behind the verification, and behind whatever it waited for. */
static void attempt_look(struct attempt *t)
{
    struct err e = {0};
    if (t->service->stopping) {
        err_set(&e, WARM_ESHUTDOWN, "the daemon is stopping");
        attempt_fail(t, &e);
        return;
    }
    if (t->shares && !t->afresh && look_for_shared(t))
        return;
    if (t->shares && !t->alone && attempt_follow(t))
        return;
    attempt_compile(t);
}

static bool is_in_pool(const struct attempt *t)
{
    for (unsigned i = 0; i < VERIFY_MAX; i++)
        if (t->service->verifying[i] == t)
            return true;
    return false;
}

/* True if it has followed another user's attempt for long enough. */
static bool follows_too_long(const struct attempt *t)
{
    return t->state == ATTEMPT_FOLLOWING && t->follows->maker != t->maker && attempt_is_hedged(t);
}

/* Ends those whose leader has gone where its answer is needed, and those who were cancelled. */
void attempts_tick(struct service *s)
{
    uint64_t now = service_clock_ms(s);
    for (struct attempt *t = s->attempts, *next; t; t = next) {
        next = t->next;
        bool waits = t->state == ATTEMPT_LOOKING || t->state == ATTEMPT_FOLLOWING ||
                     (t->state == ATTEMPT_VERIFYING && !is_in_pool(t));
        if (waits && (t->cancelled || (!t->leader && t->state == ATTEMPT_LOOKING))) {
            attempt_unfollow(t);
            err_set(&t->err, WARM_ECANCELLED, "the compile was cancelled");
            attempt_refuse(t, &t->err);
            next = s->attempts; /* others may have come and gone with it */
        } else if (follows_too_long(t)) {
            attempt_unfollow(t);
            stats_add(&s->stats, STATS_hedges, STORE_CUBIN, 1);
            attempt_look(t);
            next = s->attempts;
        } else if (waits && t->asked_ms && now - t->asked_ms > ASK_MS) {
            call_uncheck(t->leader);
            t->asked_ms = 0;
            t->alone = true;
            attempt_compile(t);
        }
    }
}

/* ---- the source ---- */

/* Pool thread: are these the bytes that COMPILE spoke of? */
static int verify_key(const struct attempt *t, const struct job *job, struct err *e)
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

static void find_shared_key(struct attempt *t, const struct job *job)
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

static int verify_job(struct attempt *t, const void *bytes, struct err *e)
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

static void attempt_verify(uv_work_t *work)
{
    struct attempt *t = work->data;
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
static struct attempt *next_to_verify(const struct service *s)
{
    struct attempt *oldest = NULL;
    for (struct attempt *t = s->attempts; t; t = t->next)
        if (t->state == ATTEMPT_VERIFYING && !t->cancelled && !user_is_in_pool(s, t->maker))
            oldest = t;
    return oldest;
}

static void on_verified(uv_work_t *work, int status);

static void verify_next(struct service *s)
{
    for (unsigned i = 0; i < VERIFY_MAX; i++)
        if (!s->verifying[i] && (s->verifying[i] = next_to_verify(s)))
            uv_queue_work(s->config.loop, &s->verifying[i]->work, attempt_verify, on_verified);
}

static void on_verified(uv_work_t *work, int status)
{
    struct attempt *t = work->data;
    struct service *s = t->service;
    (void)status;
    for (unsigned i = 0; i < VERIFY_MAX; i++)
        if (s->verifying[i] == t)
            s->verifying[i] = NULL;
    if (t->code || t->cancelled)
        attempt_refuse(t, &t->err);
    else
        attempt_look(t);
    verify_next(s);
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
    if (s->attempts)
        s->attempts->prev = t;
    s->attempts = t;
    t->work.data = t;
    writer_init(&t->recipe, RECIPE_MAX);
    t->session = call->peer->session;
    call->attempt = t;
    call->leads = true;
    call->outcome = WIRE_WAS_MISS;
    flight_make(&call->ask, &t->making);
    return t;
}

int attempt_start(struct call *call, int job_fd, uint64_t len, int channel_fd, struct err *e)
{
    int code = budget_ask(call->peer->uid, BUDGET_compiles, 1, e);
    if (code)
        return code;
    if (!attempt_new(call, job_fd, len, channel_fd)) {
        budget_give(call->peer->uid, BUDGET_compiles, 1);
        return err_set(e, WARM_ENOMEM, "no memory for a compile");
    }
    verify_next(call->service);
    return 0;
}

static void attempt_cancel(struct attempt *t)
{
    t->cancelled = !t->followers;
    if (t->running && t->cancelled)
        pool_cancel(t->service->config.pool, t->running);
}

void attempts_cancel(struct flight *f)
{
    for (struct making *m = flight_makings(f); m; m = m->next)
        attempt_cancel(attempt_of(m));
}

void attempts_keep(struct flight *f)
{
    for (struct making *m = flight_makings(f); m; m = m->next)
        attempt_of(m)->keep = true;
}

void attempts_shutdown(struct service *s)
{
    for (struct attempt *t = s->attempts; t; t = t->next) {
        t->cancelled = true;
        if (t->running)
            pool_cancel(s->config.pool, t->running);
    }
    calls_tick_start(s); /* attempts_tick ends those who wait */
}
