/* SPDX-License-Identifier: Apache-2.0 */
/*
 * service.c - look-ups, leases and puts.
 *
 * A put under a lease:
 *   1. all who wait in the key's flight have the value, if its digest is known: a value in a memfd
 *      is hashed only while it is copied, on a thread of the store's, and then they have it after
 *      (2) unless its client said what it is;
 *   2. the store compares the digest, and makes the value durable; who asks meanwhile gets it from
 *      the flight;
 *   3. the client that brought it is told.
 * What may go wrong:
 *   - the holder leaves (its socket ends, or it gives the lease back): the next waiter has the
 * turn;
 *   - it does not bring it in time: one waiter more has the turn; who comes second gets LEASE_LOST;
 *   - the disk is full: those who waited have the value all the same; the put's client is told.
 *
 * Thread: loop thread.
 */
#include "daemon/service/internal.h"
#include "daemon/service/torch_store.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "daemon/process/closer.h"
#include "daemon/process/log.h"
#include "daemon/users/budget.h"

#define TICK_MS 50u            /* how exact leases and waits are */
#define SAVE_MS 60000u         /* between writes of the lifetime counters */
#define CLAIM_MAX_MS 600000u   /* of what a client says that its value took to make */
#define WAIT_DEFAULT_MS 30000u /* of a native GET that names no deadline */

struct store *service_store(struct service *s) { return s->config.store; }
struct stats *service_stats(struct service *s) { return &s->stats; }
uint64_t service_now_ms(const struct service *s) { return uv_now(s->config.loop); }

uint64_t service_max_value(const struct service *s) { return s->config.config->max_value; }
uint64_t service_wait_ms(const struct service *s) { return s->config.config->wait_timeout_ms; }

static uint64_t unix_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* ---- look-ups ---- */

struct store_id service_name_id(const struct peer *peer, struct view name)
{
    return (struct store_id){peer->space, key_of_bytes(name.data, name.len)};
}

static bool row_has_name(const struct store_row *row, struct view name)
{
    return row->name.len == name.len && memcmp(row->name.data, name.data, name.len) == 0;
}

static struct store_id key_id(uint32_t owner, struct view key)
{
    struct store_id id = {.owner = owner};
    assert(key.len == sizeof id.key);
    memcpy(&id.key, key.data, sizeof id.key);
    return id;
}

/* A proof is compared for everybody: two inputs of one author may have one key, too. Without one the
 * asker wants what is there, whatever it was made of, and that only its maker may have. */
static bool may_have(const struct peer *peer, const struct store_row *row,
                     const struct proof *proof)
{
    if (proof)
        return memcmp(&row->proof, proof, sizeof *proof) == 0;
    return peer_may_see(peer, row);
}

/* Which entry a key names for this peer: one that was made here, else one of its own. */
static int find_id(struct service *s, const struct peer *peer, enum wire_space space,
                   struct view key, const struct proof *proof, struct store_id *out,
                   struct store_row *out_row, struct err *e)
{
    if (space == WIRE_SPACE_NAME) {
        *out = service_name_id(peer, key);
        int code = store_peek(s->config.store, out, out_row, e);
        return code == 0 && !row_has_name(out_row, key) ? WARM_ENOT_FOUND : code;
    }
    *out = key_id(STORE_MADE_HERE, key);
    if (store_peek(s->config.store, out, out_row, e) == 0 && may_have(peer, out_row, proof))
        return 0;
    *out = key_id(peer->space, key);
    int code = store_peek(s->config.store, out, out_row, e);
    return code == 0 && !may_have(peer, out_row, proof) ? WARM_ENOT_FOUND : code;
}

int service_peek(struct service *s, const struct peer *peer, enum wire_space space, struct view key,
                 struct store_row *out, struct err *e)
{
    struct store_id id;
    int code = find_id(s, peer, space, key, NULL, &id, out, e);
    if (code == WARM_ENOT_FOUND && space == WIRE_SPACE_KEY && peer->is_admin &&
        service_resolve(s, peer, space, key, &id, 1))
        code = store_peek(s->config.store, &id, out, e);
    return code;
}

/* A manifest only leads to the value that saves the compile: that hit is the one that counts. */
static void count_hit(struct service *s, const struct peer *peer, enum wire_space space,
                      struct view key, const struct store_value *v)
{
    if (v->row.kind == STORE_MANIFEST) {
        stats_add(&s->stats, STATS_hits, v->row.kind, 1);
        return;
    }
    if (!peer->session || explain_is_bookkeeping(space, key)) {
        stats_add(&s->stats, STATS_hits, v->row.kind, 1);
        stats_add(&s->stats, STATS_saved_ms, v->row.kind, v->row.cost_ms);
        return;
    }
    explain_asked(s, peer);
    explain_count(s, peer, STATS_hits, v->row.kind, 1);
    explain_count(s, peer, STATS_saved_ms, v->row.kind, v->row.cost_ms);
    explain_hit(s, peer, &v->row.id);
}

int service_get(struct service *s, const struct peer *peer, enum wire_space space, struct view key,
                const struct proof *proof, struct store_value *out, struct err *e)
{
    struct store_id id;
    struct store_row row;
    if (space == WIRE_SPACE_NAME) {
        id = service_name_id(peer, key);
    } else {
        int code = find_id(s, peer, space, key, proof, &id, &row, e);
        if (code)
            return code;
    }
    int code = store_get(s->config.store, &id, out, e);
    if (code)
        return code;
    if (id.owner == STORE_MADE_HERE && damaged_is_refused(s, peer->uid, &id.key, &out->row.check))
        return err_set(e, WARM_ENOT_FOUND, "refused before");
    if (space == WIRE_SPACE_NAME && !row_has_name(&out->row, key))
        return err_set(e, WARM_ENOT_FOUND, "not found");
    count_hit(s, peer, space, key, out);
    return 0;
}

/* A miss of it is not for the history. */
static bool is_beside(enum wire_space space, struct view key)
{
    return explain_is_bookkeeping(space, key) || explain_is_second_try(space, key);
}

static void count_miss(struct call *call)
{
    if (call->is_bookkeeping)
        stats_add(&call->service->stats, STATS_misses, STORE_OTHER, 1);
    else
        explain_count(call->service, call->peer, STATS_misses, STORE_OTHER, 1);
}

void service_count_miss(struct service *s, const struct peer *peer, struct view name)
{
    struct call call = {.service = s,
                        .peer = peer,
                        .id = service_name_id(peer, name),
                        .is_bookkeeping = is_beside(WIRE_SPACE_NAME, name)};
    if (!call.is_bookkeeping)
        explain_asked(s, peer);
    count_miss(&call);
    explain_get_miss(&call, name);
}

/* ---- answers ---- */

void service_answer_error(struct call *call, const struct err *e)
{
    explain_count(call->service, call->peer, STATS_errors,
                  call->compiles ? STORE_CUBIN : STORE_OTHER, 1);
    call->on_answer(call, &(struct answer){.kind = ANSWER_ERROR, .err = e});
}

void service_answer_artifact(struct call *call, struct artifact *a, enum wire_outcome outcome)
{
    struct service *s = call->service;
    if (a->failed)
        explain_count(s, call->peer, STATS_errors, a->kind, 1);
    else if (outcome == WIRE_WAS_HIT)
        explain_count(s, call->peer, STATS_hits, a->kind, 1);
    if (!a->failed && outcome != WIRE_WAS_MISS)
        explain_count(s, call->peer, STATS_saved_ms, a->kind, a->cost_ms);
    call->on_answer(call, &(struct answer){.kind = a->failed ? ANSWER_FAILED : ANSWER_VALUE,
                                           .outcome = outcome,
                                           .artifact = a});
}

static void answer_turn(struct call *call)
{
    call->on_answer(call, &(struct answer){.kind = ANSWER_LEASE,
                                           .token = call->ask.token,
                                           .deadline_ms = (uint32_t)call->ask.turn_ms});
}

/* A put on its way through the store's queue. */
struct pending_put {
    struct pending_put *prev, *next;
    struct store_id id;
    struct proof proof;
    struct service *service;
    struct flight *flight; /* in phase (5) until this is done; or NULL */
    struct artifact *artifact;
    bool is_ours;       /* its memfd is this process's memory */
    bool is_awaited;    /* a flight waits for its digest, */
    struct proof asked; /* this one; */
    struct call *lease; /* whose turn it was; NULL if that has gone */
    uint32_t maker;     /* whose budgets it is in: */
    uint64_t n_bytes;
    unsigned n_fds;
    void (*on_done)(void *arg, int status, bool existed, const struct key *key,
                    const struct err *e);
    void *arg;
};

/* The lease's call ends, or brings something else. */
static void call_forget_put(struct call *call)
{
    if (call->putting)
        call->putting->lease = NULL;
    call->putting = NULL;
}

/* ---- what flights say ---- */

static struct call *ask_call(struct ask *ask)
{
    return (struct call *)(void *)((char *)ask - offsetof(struct call, ask));
}

static void on_turn(struct ask *ask)
{
    struct call *call = ask_call(ask);
    if (call->compiles)
        compile_on_turn(call);
    else
        answer_turn(call);
}

static void on_result(struct ask *ask, struct artifact *result)
{
    struct call *call = ask_call(ask);
    if (call->compiles) {
        compile_on_result(call, result);
        return;
    }
    call_forget_put(call);
    if (ask->token) { /* it had been told to make it */
        call->on_answer(call, &(struct answer){.kind = ANSWER_OVER});
        return;
    }
    explain_count(call->service, call->peer, STATS_coalesced, result->kind, 1);
    service_answer_artifact(call, result, WIRE_WAS_COALESCED);
}

static void on_error(struct ask *ask, const struct err *e)
{
    struct call *call = ask_call(ask);
    call_forget_put(call);
    if (!call->compiles && ask->token) {
        call->on_answer(call, &(struct answer){.kind = ANSWER_OVER});
    } else if (!call->compiles && e->code == WARM_ENOT_FOUND) {
        count_miss(call);
        call->on_answer(call, &(struct answer){.kind = ANSWER_MISS});
    } else {
        if (!call->compiles)
            explain_waited(call->service, call->peer, e);
        compile_drop(call);
        service_answer_error(call, e);
    }
}

static const struct ask_ops call_ops = {on_turn, on_result, on_error};

static void on_hedge(void *arg)
{
    struct service *s = arg;
    stats_add(&s->stats, STATS_hedges, STORE_OTHER, 1);
}

static void on_tick(void *arg)
{
    struct service *s = arg;
    attempts_tick(s);
    if (!flights_tick(s->flights, service_now_ms(s)) && !s->attempts)
        ticker_stop(s->tick);
}

void service_tick_start(struct service *s)
{
    if (s->tick && !ticker_runs(s->tick))
        ticker_start(s->tick, TICK_MS, TICK_MS);
}

/* ---- joining ---- */

void service_join(struct call *call)
{
    struct service *s = call->service;
    uint64_t now = service_now_ms(s);
    struct err e = {0};
    if (s->stopping) {
        err_set(&e, WARM_ESHUTDOWN, "the daemon is stopping");
        service_answer_error(call, &e);
        return;
    }
    call->ask.ops = &call_ops;
    int place = flight_join(s->flights, &call->id, &call->proof, &call->ask, now, &e);
    service_tick_start(s);
    if (place < 0) {
        service_answer_error(call, &e);
    } else if (place == FLIGHT_NONE) {
        count_miss(call);
        call->on_answer(call, &(struct answer){.kind = ANSWER_MISS});
    } else if (place == FLIGHT_TURN) {
        if (!call->compiles) {
            count_miss(call);
            explain_get_miss(call, call->name);
        }
        on_turn(&call->ask);
    } else {
        const struct flight *f = call->ask.flight;
        call->on_answer(call, &(struct answer){.kind = ANSWER_WAIT,
                                               .n_waiters = flight_waiters(f),
                                               .elapsed_ms = (uint32_t)flight_age_ms(f, now)});
    }
}

void service_ask(struct call *call, enum ask_mode mode, enum wire_space space, struct view key,
                 const struct proof *proof, uint64_t wait_ms)
{
    struct service *s = call->service;
    struct flight *f = NULL;
    call->is_bookkeeping = is_beside(space, key);
    if (!call->is_bookkeeping)
        explain_asked(s, call->peer);
    if (space == WIRE_SPACE_KEY) {
        call->id = key_id(STORE_MADE_HERE, key);
        f = proof ? flight_find(s->flights, &call->id, proof) : NULL;
        mode = ASK_KNOWN; /* only a COMPILE makes those */
    } else {
        call->id = service_name_id(call->peer, key);
        if (mode == ASK_LEASE)
            explain_look_is_over(call);
        if (mode != ASK_LEASE && flights_count(s->flights) == 0)
            mode = ASK_KNOWN;
        /* Two names of one key are two flights: the name's SHA-256 stands in for a proof. */
        if (mode != ASK_KNOWN || flights_count(s->flights))
            call->proof = proof_of_bytes(key.data, key.len);
        f = flight_find(s->flights, &call->id, &call->proof);
    }
    struct artifact *known = f ? flight_result(f) : NULL;
    if (known && !known->manifest) {
        service_answer_artifact(call, known, WIRE_WAS_HIT);
        return;
    }
    if (mode == ASK_KNOWN) {
        count_miss(call);
        explain_get_miss(call, space == WIRE_SPACE_NAME ? key : (struct view){"", 0});
        explain_looked(call);
        call->on_answer(call, &(struct answer){.kind = ANSWER_MISS});
        return;
    }
    call->ask.can_make = mode == ASK_LEASE;
    call->ask.uid = call->peer->uid;
    call->ask.turn_ms = s->config.config->lease_timeout_ms;
    call->ask.expires_ms = service_now_ms(s) + (wait_ms ? wait_ms : WAIT_DEFAULT_MS);
    call->name = key;
    service_join(call);
}

/* ---- large values that have to be verified first ---- */

static void on_prepared(void *arg, int status)
{
    struct preparing *p = arg;
    struct call *call = p->call;
    void (*again)(struct call * call) = p->again;
    (void)status; /* whatever it found, the store says so when it is asked again */
    p->service->n_preparing--;
    budget_give(p->uid, BUDGET_checks, 1);
    free(p);
    if (call) {
        call->preparing = NULL;
        again(call);
    }
}

bool service_prepare(struct call *call, const struct store_id *id, void (*again)(struct call *call))
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
    call->preparing = p;
    return true;
}

static void get_again(struct call *call)
{
    struct service *s = call->service;
    struct store_value v;
    if (store_get(s->config.store, &call->id, &v, NULL) == 0) {
        explain_count(s, call->peer, STATS_hits, v.row.kind, 1);
        explain_count(s, call->peer, STATS_saved_ms, v.row.kind, v.row.cost_ms);
        call->on_answer(call, &(struct answer){.kind = ANSWER_VALUE, .value = &v});
    } else {
        count_miss(call);
        call->was_corrupt = true; /* it was there a moment ago */
        explain_get_miss(call, (struct view){"", 0});
        call->on_answer(call, &(struct answer){.kind = ANSWER_MISS});
    }
}

void service_get_later(struct call *call, enum wire_space space, struct view key,
                       const struct proof *proof)
{
    struct service *s = call->service;
    struct store_row row;
    explain_asked(s, call->peer);
    if (find_id(s, call->peer, space, key, proof, &call->id, &row, NULL) == 0 &&
        service_prepare(call, &call->id, get_again)) {
        call->on_answer(call, &(struct answer){.kind = ANSWER_WAIT});
        return;
    }
    count_miss(call);
    call->on_answer(call, &(struct answer){.kind = ANSWER_MISS});
}

void service_drop(struct call *call, bool cancelled)
{
    struct service *s = call->service;
    if (call->preparing)
        call->preparing->call = NULL;
    call->preparing = NULL;
    call_forget_put(call);
    if (cancelled && call->compiles && flight_is_last(&call->ask))
        compile_cancel(call->ask.flight);
    compile_drop(call);
    flight_leave(&call->ask, service_now_ms(s));
}

/* ---- puts ---- */

/* Those who waited for the digest have the value now; without it, the next one has the turn. */
static void put_is_hashed(struct pending_put *p, bool good)
{
    struct service *s = p->service;
    struct call *lease = p->lease;
    struct flight *f = good ? flight_find(s->flights, &p->id, &p->asked) : NULL;
    if (lease)
        call_forget_put(lease);
    if (f)
        flight_finish(f, p->artifact, NULL, FLIGHT_TO_ALL, false, service_now_ms(s));
    else if (lease)
        flight_leave(&lease->ask, service_now_ms(s));
}

static void on_stored(void *arg, int status, bool existed, const struct err *e)
{
    struct pending_put *p = arg;
    struct service *s = p->service;
    struct key key = p->artifact->key;
    enum store_kind kind = p->artifact->kind;
    if (p->next)
        p->next->prev = p->prev;
    *(p->prev ? &p->prev->next : &s->puts) = p->next;
    s->n_puts--;
    budget_give(p->maker, BUDGET_puts, p->n_bytes);
    budget_give(p->maker, BUDGET_descriptors, p->n_fds);
    p->artifact->hashed |= status == 0;
    if (p->is_awaited)
        put_is_hashed(p, status == 0);
    if (status) {
        stats_add(&s->stats, STATS_dropped, kind, 1);
        log_user(p->id.owner, LOG_LEVEL_WARNING, "a value of %llu bytes is not stored: %s",
                 (unsigned long long)p->artifact->len, e && *e->text ? e->text : err_text(status));
    }
    if (p->flight)
        flight_stored(p->flight, service_now_ms(s));
    if (p->on_done)
        p->on_done(p->arg, status, existed, &key, e);
    artifact_unref(p->artifact);
    free(p);
}

/* Queues the artifact for the store; `p` is copied. */
static int queue_put(const struct pending_put *p, struct store_put *put, struct err *e)
{
    struct artifact *a = p->artifact;
    struct pending_put *copy = malloc(sizeof *copy);
    if (!copy)
        return err_set(e, WARM_ENOMEM, "no memory for a put");
    *copy = *p;
    put->row.len = a->len;
    put->row.kind = a->kind;
    put->row.cost_ms = a->cost_ms;
    put->data = a->data;
    put->fd = a->data ? -1 : fcntl(a->fd, F_DUPFD_CLOEXEC, 3);
    put->check = a->hashed && !a->data ? &a->check : NULL;
    put->out_check = a->hashed ? NULL : &a->check;
    put->on_done = on_stored;
    put->arg = copy;
    int code = !a->data && put->fd < 0 ? err_set(e, WARM_EIO, "no descriptor left for a put")
                                       : store_put(p->service->config.store, put, e);
    if (code) {
        if (put->fd >= 0)
            close(put->fd);
        free(copy);
        return code;
    }
    artifact_ref(a);
    copy->maker = put->row.maker;
    copy->n_bytes = a->data || p->is_ours ? a->len : 0;
    copy->n_fds = a->data ? 0 : 2;
    if (!budget_charge(copy->maker, BUDGET_puts, copy->n_bytes))
        copy->n_bytes = 0;
    if (!budget_charge(copy->maker, BUDGET_descriptors, copy->n_fds))
        copy->n_fds = 0;
    if (copy->lease) {
        call_forget_put(copy->lease);
        copy->lease->putting = copy;
    }
    copy->id = put->row.id;
    copy->proof = put->row.proof;
    copy->next = p->service->puts;
    if (copy->next)
        copy->next->prev = copy;
    p->service->puts = copy;
    p->service->n_puts++;
    explain_stored(p->service, &put->row.id);
    return 0;
}

struct artifact *service_find_pending(struct service *s, const struct store_id *id,
                                      const struct proof *proof)
{
    struct pending_put *p = s->puts;
    while (p && !(p->id.owner == id->owner && key_equal(&p->id.key, &id->key) &&
                  memcmp(&p->proof, proof, sizeof *proof) == 0))
        p = p->next;
    return p ? p->artifact : NULL;
}

bool service_find_maker(struct service *s, const struct store_id *id, const struct proof *proof,
                        uint32_t *out_maker, struct key *out_check)
{
    struct store_row row;
    for (const struct pending_put *p = s->puts; p; p = p->next)
        if (p->id.owner == id->owner && key_equal(&p->id.key, &id->key) &&
            (!proof || memcmp(&p->proof, proof, sizeof *proof) == 0)) {
            *out_maker = p->maker;
            *out_check = p->artifact->check;
            return true;
        }
    if (store_peek(s->config.store, id, &row, NULL) != 0 ||
        (proof && memcmp(&row.proof, proof, sizeof *proof) != 0))
        return false;
    *out_maker = row.maker;
    *out_check = row.check;
    return true;
}

void service_store_artifact(struct service *s, struct flight *flight, struct artifact *a,
                            struct store_row *row, bool keep_existing)
{
    struct err e = {0};
    struct store_put put = {.row = *row, .keep_existing = keep_existing};
    if (queue_put(&(struct pending_put){.service = s, .flight = flight, .artifact = a}, &put, &e) ==
        0)
        return;
    stats_add(&s->stats, STATS_dropped, a->kind, 1);
    log_user(row->maker, LOG_LEVEL_WARNING, "a result is not stored: %s", e.text);
    if (flight)
        flight_stored(flight, service_now_ms(s));
}

static int put_check(struct service *s, const struct service_put *put, const struct store_id *id,
                     struct err *e)
{
    struct store_row row;
    if (!put->made && (put->name.len == 0 || put->name.len > STORE_NAME_MAX))
        return err_set(e, WARM_EINVALID, "a name has 1 to %u bytes", STORE_NAME_MAX);
    uint64_t max = put->made ? STORE_VALUE_MAX : s->config.config->max_value;
    if (put->len > max || put->len > STORE_VALUE_MAX)
        return err_set(e, WARM_ETOO_BIG, "a value of %llu bytes; the limit is %llu",
                       (unsigned long long)put->len, (unsigned long long)max);
    if (put->lease_lost && store_peek(s->config.store, id, &row, NULL) == 0)
        return err_set(e, WARM_ELEASE_LOST, "somebody else brought it");
    return 0;
}

/* A memfd, as a description that its client does not share. Of our own nobody who is given it may make
 * a description to write with. */
static int put_own_fd(int fd, uint64_t len, bool is_ours, int *out, struct err *e)
{
    int code = is_ours ? 0 : memfd_check(fd, len, e);
    if (is_ours && fchmod(fd, 0400) != 0)
        code = err_sys(e, WARM_EIO, errno, "cannot keep a value");
    int own = code ? -1 : fd_reopen(fd);
    if (code == 0 && own < 0)
        code = err_sys(e, WARM_EIO, errno, "cannot open a value");
    fd_close_later(fd);
    *out = own;
    return code;
}

static int put_artifact(const struct service_put *put, struct artifact **out, struct err *e)
{
    int fd;
    if (put->fd >= 0) {
        int code = put_own_fd(put->fd, put->len, put->is_ours, &fd, e);
        if (code == 0)
            code = artifact_from_fd(fd, put->len, put->check, out, e);
        if (code)
            return code;
    } else if (!(*out = artifact_from_bytes(put->data, put->len))) {
        return err_set(e, WARM_ENOMEM, "no memory for a value");
    }
    if (put->check && !key_equal(&(*out)->check, put->check)) {
        artifact_unref(*out);
        return err_set(e, WARM_ECORRUPT, "the value is not what its checksum says");
    }
    return 0;
}

/* The flight that this put brings the result for; none if what is there already stays. */
static struct flight *put_flight(struct service *s, const struct service_put *put,
                                 const struct store_id *id, struct proof *out_asked)
{
    struct store_row row;
    if (flights_count(s->flights) == 0 ||
        (put->keep_existing && store_peek(s->config.store, id, &row, NULL) == 0))
        return NULL;
    *out_asked = put->made ? put->made->proof : proof_of_bytes(put->name.data, put->name.len);
    return flight_find(s->flights, id, out_asked);
}

/* Of what is put under an address: the parts by which people and keys find it. */
static void put_made(struct store_row *row, const struct service_made *made)
{
    row->proof = made->proof;
    row->compiler = made->address.compiler;
    row->graph = made->address.graph;
}

int service_put(struct service *s, const struct peer *peer, const struct service_put *put,
                struct err *e)
{
    struct store_id id = put->made
                             ? (struct store_id){STORE_MADE_HERE, address_key(&put->made->address)}
                             : service_name_id(peer, put->name);
    int code = put->made && !peer->is_admin
                   ? err_set(e, WARM_EDENIED, "only the daemon makes entries under an address key")
                   : put_check(s, put, &id, e);
    if (code) {
        if (put->fd >= 0)
            fd_close_later(put->fd);
        return code;
    }
    struct artifact *a;
    code = put_artifact(put, &a, e);
    if (code)
        return code;
    a->kind = put->kind;
    a->cost_ms = put->made || put->cost_ms < CLAIM_MAX_MS ? put->cost_ms : CLAIM_MAX_MS;
    a->key = id.key;
    static const struct key none;
    struct key group = torch_store_group(s, peer, put->name, a);
    struct proof asked = {{0}};
    struct flight *f = put_flight(s, put, &id, &asked);
    bool later = f && !a->hashed;
    struct store_put request = {
        .row = {.id = id,
                .maker = peer->uid,
                .group = key_equal(&group, &none) ? put->group : group,
                .expires_ms = put->ttl_ms ? unix_ms() + put->ttl_ms : 0,
                .hardware = put->hardware,
                .compiler_text = put->compiler,
                .name = put->name,
                .label = put->label},
        .keep_existing = put->keep_existing,
    };
    if (put->made)
        put_made(&request.row, put->made);
    struct pending_put pending = {.service = s,
                                  .flight = later ? NULL : f,
                                  .is_ours = put->is_ours,
                                  .is_awaited = later,
                                  .asked = asked,
                                  .lease = later ? put->lease : NULL,
                                  .artifact = a,
                                  .on_done = put->on_done,
                                  .arg = put->arg};
    code = queue_put(&pending, &request, e);
    if (code == 0) {
        stats_add(&s->stats, STATS_puts, put->kind, 1);
        explain_put(s, peer, put, &id);
    }
    if (f && !later) /* also where it could not be stored: those who wait are served */
        flight_finish(f, a, NULL, FLIGHT_TO_ALL, code == 0, service_now_ms(s));
    else if (put->lease && (!later || code))
        flight_leave(&put->lease->ask, service_now_ms(s));
    artifact_unref(a);
    return code;
}

/* ---- work for a pool thread ---- */

static void on_work(uv_work_t *work)
{
    struct service_work *w = work->data;
    w->run(w);
}

static void on_worked(uv_work_t *work, int status)
{
    struct service_work *w = work->data;
    (void)status; /* it is never cancelled */
    w->service->n_preparing--;
    w->done(w);
}

bool service_work_start(struct service *s, struct service_work *w,
                        void (*run)(struct service_work *w), void (*done)(struct service_work *w))
{
    *w = (struct service_work){.work = {.data = w}, .service = s, .run = run, .done = done};
    if (uv_queue_work(s->config.loop, &w->work, on_work, on_worked) != 0)
        return false;
    s->n_preparing++;
    return true;
}

/* ---- the service itself ---- */

static void on_save(void *arg)
{
    struct service *s = arg;
    stats_save(&s->stats, s->config.store);
    explain_departures(s);
    history_save(s->history);
}

int service_new(struct service **out, const struct service_config *config, struct err *e)
{
    struct service *s = calloc(1, sizeof *s);
    if (!s)
        return err_set(e, WARM_ENOMEM, "no memory for the service");
    s->config = *config;
    audit_init(s);
    char path[4096];
    snprintf(path, sizeof path, "%s/history", config->config->store);
    s->history = history_new(path);
    s->flights = flights_new(on_hedge, s);
    s->tick = ticker_new(config->loop, on_tick, s);
    s->save_tick = ticker_new(config->loop, on_save, s);
    if (!s->flights || !s->history || !s->tick || !s->save_tick) {
        ticker_free(s->tick);
        ticker_free(s->save_tick);
        flights_free(s->flights);
        history_free(s->history);
        free(s);
        return err_set(e, WARM_ENOMEM, "no memory for flights");
    }
    stats_init(&s->stats, service_now_ms(s));
    stats_load(&s->stats, config->store);
    ticker_start(s->save_tick, SAVE_MS, SAVE_MS);
    *out = s;
    return 0;
}

void service_drain(struct service *s) { s->stopping = true; }

bool service_is_drained(const struct service *s)
{
    return service_is_idle(s) && flights_count(s->flights) == 0 && s->n_awaiting == 0;
}

void service_shutdown(struct service *s)
{
    struct err e;
    s->stopping = true;
    err_set(&e, WARM_ESHUTDOWN, "the daemon is stopping");
    flights_fail_all(s->flights, &e, service_now_ms(s));
    compiler_stop_identifying(s->config.compiler);
    compile_shutdown(s);
    audit_shutdown(s);
}

bool service_is_idle(const struct service *s)
{
    return !s->n_puts && !s->n_preparing && !s->attempts && !s->audit;
}

void service_close(struct service *s)
{
    stats_save(&s->stats, s->config.store);
    explain_departures(s);
    history_save(s->history);
    ticker_free(s->tick);
    ticker_free(s->save_tick);
    s->tick = s->save_tick = NULL;
}

void service_free(struct service *s)
{
    if (!s)
        return;
    negatives_clear(s);
    flights_free(s->flights);
    history_free(s->history);
    free(s);
}

/* What was committed is seen by reads that begin after this turn's reads have ended. */
void service_poll(struct service *s)
{
    store_turn_end(s->config.store);
    store_poll(s->config.store);
}
