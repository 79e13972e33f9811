/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flight.c - decides which asker of a key holds the lease, which ones wait, and who gets the result.
 *
 * ask.c joins flights, build.c and put.c bring results, service.c runs the clock. The phases are in
 * flight.h.
 *
 * Invariants:
 *   (a) a waiter is WAITER_OUT, or in one list of its flight: `busy` if it holds a lease or has a build,
 *       else `waiting`;
 *   (b) if waiters wait and one of them can make it, somebody holds the lease or the daemon builds it
 *       (flight_promote restores this after each departure);
 *   (c) a flight is freed only by flight_settle, and only in phase (6);
 *   (d) callbacks may join, leave or finish any flight: the code that calls them holds a pin, and takes
 *       the next waiter from the list's head afresh;
 *   (e) a user has at most one build in a flight, and while it runs none of its waiters holds the lease;
 *   (f) a waiter waits for other users until `hedge_at_ms`, however often it joins, and a tick more.
 *
 * Thread: loop thread. Memory: flights are freed in phase (6); waiters belong to their callers.
 */
#include "daemon/service/flight.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "keygen/list.h"

#define FLIGHT_BUCKETS 1024u /* more flights make the chains longer, no more */

struct flight {
    struct flights *all;
    struct flight *next; /* in its bucket */
    struct store_id id;
    struct proof proof;
    struct waiter_list busy, waiting; /* the second in order of arrival */
    unsigned n_asks, n_holders;
    struct making *makings; /* (4) */
    unsigned n_storing;     /* (5) */
    uint32_t last_uid;      /* the user of the last lease */
    unsigned pins;          /* callers up the stack that use it */
    unsigned telling;       /* results or errors are being handed out: no new lease meanwhile */
    struct artifact *result;
    uint64_t began_ms;
};

struct flights {
    struct flight *buckets[FLIGHT_BUCKETS];
    unsigned count;
    uint64_t token_base, token_count;
    void (*on_hedge)(void *arg);
    void *on_hedge_arg;
};

/* ---- the table ---- */

static struct flight **flight_bucket(struct flights *all, const struct store_id *id)
{
    uint32_t hash;
    memcpy(&hash, id->key.bytes, sizeof hash); /* a key is a digest: it needs no further hashing */
    return &all->buckets[(hash ^ id->owner) % FLIGHT_BUCKETS];
}

struct flights *flights_new(void (*on_hedge)(void *arg), void *arg)
{
    struct flights *all = calloc(1, sizeof *all);
    if (!all)
        return NULL;
    if (getrandom(&all->token_base, sizeof all->token_base, 0) != (ssize_t)sizeof all->token_base)
        all->token_base = (uint64_t)(uintptr_t)all * 0x9e3779b97f4a7c15u;
    all->on_hedge = on_hedge;
    all->on_hedge_arg = arg;
    return all;
}

void flights_free(struct flights *all)
{
    assert(!all || all->count == 0);
    free(all);
}

struct flight *flight_find(struct flights *all, const struct store_id *id,
                           const struct proof *proof)
{
    struct flight *f = *flight_bucket(all, id);
    while (f && !(store_id_equal(&f->id, id) && (!proof || proof_equal(&f->proof, proof))))
        f = f->next;
    return f;
}

static struct flight *flight_new(struct flights *all, const struct store_id *id,
                                 const struct proof *proof, uint64_t now_ms)
{
    struct flight *f = calloc(1, sizeof *f);
    if (!f)
        return NULL;
    struct flight **bucket = flight_bucket(all, id);
    *f = (struct flight){.all = all, .next = *bucket, .id = *id, .began_ms = now_ms};
    if (proof)
        f->proof = *proof;
    *bucket = f;
    all->count++;
    return f;
}

/* Frees the flight if it is gone (6). */
static void flight_settle(struct flight *f)
{
    assert(f->n_holders <= f->n_asks);
    if (f->n_asks || f->makings || f->n_storing || f->pins)
        return;
    assert(!f->busy.first && !f->waiting.first && !f->telling); /* (c) */
    struct flight **at = flight_bucket(f->all, &f->id);
    while (*at != f)
        at = &(*at)->next;
    *at = f->next;
    f->all->count--;
    artifact_unref(f->result);
    free(f);
}

struct artifact *flight_result(const struct flight *f) { return f->result; }
unsigned flight_waiters(const struct flight *f) { return f->n_asks - f->n_holders; }
struct making *flight_makings(const struct flight *f) { return f->makings; }

uint64_t flight_age_ms(const struct flight *f, uint64_t now_ms)
{
    return now_ms > f->began_ms ? now_ms - f->began_ms : 0;
}

/* ---- places in a flight ---- */

static void list_add(struct waiter_list *list, struct waiter *waiter)
{
    assert(!waiter->in); /* (a) */
    waiter->in = list;
    waiter->next = NULL;
    waiter->prev = list->last;
    *(list->last ? &list->last->next : &list->first) = waiter;
    list->last = waiter;
}

static void list_remove(struct waiter *waiter)
{
    assert(waiter->in);
    *(waiter->prev ? &waiter->prev->next : &waiter->in->first) = waiter->next;
    *(waiter->next ? &waiter->next->prev : &waiter->in->last) = waiter->prev;
    waiter->in = NULL;
    waiter->prev = waiter->next = NULL;
}

/* Ends the lease or the build of a waiter, which stays in its list. */
static void waiter_rest(struct waiter *waiter)
{
    assert(waiter->state != WAITER_OUT);
    assert((waiter->state == WAITER_MAKING) == (waiter->making != NULL));
    if (waiter->state == WAITER_HOLDING)
        waiter->flight->n_holders--;
    if (waiter->making)
        waiter->making->waiter = NULL;
    waiter->making = NULL;
    waiter->state = WAITER_WAITING;
}

static void waiter_unlink(struct waiter *waiter)
{
    struct flight *f = waiter->flight;
    waiter_rest(waiter);
    list_remove(waiter);
    f->n_asks--;
    waiter->state = WAITER_OUT;
    waiter->flight = NULL;
}

/* Ends the lease or the build of a waiter, which waits from now on. */
static void waiter_wait(struct waiter *waiter)
{
    struct flight *f = waiter->flight;
    waiter_rest(waiter);
    list_remove(waiter);
    list_add(&f->waiting, waiter);
}

static void waiter_hold(struct waiter *waiter, uint64_t now_ms)
{
    struct flight *f = waiter->flight;
    assert(waiter->state == WAITER_WAITING && waiter->can_make);
    list_remove(waiter);
    list_add(&f->busy, waiter);
    waiter->state = WAITER_HOLDING;
    waiter->lease_ends_ms = now_ms + waiter->lease_ms;
    /* A new token: a random start and a count through a mixer (SplitMix64, Steele et al. 2014).
     * The mixer is a bijection, so no token comes twice. */
    uint64_t z;
    do {
        z = f->all->token_base + ++f->all->token_count * 0x9e3779b97f4a7c15u;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        z ^= z >> 31;
    } while (z == 0);
    waiter->token = z;
    f->n_holders++;
    f->last_uid = waiter->uid;
}

static bool flight_is_idle(const struct flight *f) { return !f->n_holders && !f->makings; }

static struct waiter *list_find_maker(const struct waiter_list *list, bool but, uint32_t uid)
{
    struct waiter *waiter = list->first;
    while (waiter && !(waiter->can_make && !(but && waiter->uid == uid)))
        waiter = waiter->next;
    return waiter;
}

/* True if the user has a build, or a lease that has not passed its end. */
static bool flight_has_user(const struct flight *f, uint32_t uid, uint64_t now_ms)
{
    for (const struct making *m = f->makings; m; m = m->next)
        if (m->uid == uid)
            return true;
    for (const struct waiter *waiter = f->busy.first; waiter; waiter = waiter->next)
        if (waiter->uid == uid && waiter->state == WAITER_HOLDING && waiter->lease_ends_ms > now_ms)
            return true;
    return false;
}

static bool flight_all_overdue(const struct flight *f, uint64_t now_ms)
{
    for (const struct waiter *waiter = f->busy.first; waiter; waiter = waiter->next)
        if (waiter->state == WAITER_HOLDING && waiter->lease_ends_ms > now_ms)
            return false;
    return !f->makings;
}

static void flight_tell_error(struct flight *f, struct waiter *waiter, const struct err *e)
{
    assert(waiter->flight == f);
    waiter_unlink(waiter);
    waiter->ops->on_error(waiter, e);
}

/* Restores (b). If nobody in the flight can make it, the waiters are told. */
static void flight_promote(struct flight *f, uint64_t now_ms)
{
    f->pins++;
    while (f->waiting.first && flight_is_idle(f) && !f->telling) {
        struct waiter *waiter = list_find_maker(&f->waiting, true, f->last_uid);
        if (!waiter) /* better of another user than the last */
            waiter = list_find_maker(&f->waiting, false, 0);
        if (waiter) {
            waiter_hold(waiter, now_ms);
            waiter->ops->on_hold(waiter);
            break;
        }
        struct err e;
        err_set(&e, WARM_ENOT_FOUND, "nobody makes it any more");
        flight_tell_error(f, f->waiting.first, &e);
    }
    f->pins--;
    flight_settle(f);
}

static void flight_note_hedge(struct flight *f)
{
    if (f->all->on_hedge)
        f->all->on_hedge(f->all->on_hedge_arg);
}

/* True if a waiter may hold a lease beside the holders and the builds (3). */
static bool flight_may_hedge(const struct flight *f, const struct waiter *waiter, uint64_t now_ms)
{
    if (!waiter->can_make)
        return false;
    if (flight_all_overdue(f, now_ms))
        return true;
    return waiter->hedge_at_ms && waiter->hedge_at_ms <= now_ms &&
           !flight_has_user(f, waiter->uid, now_ms);
}

int flight_join(struct flights *all, const struct store_id *id, const struct proof *proof,
                struct waiter *waiter, uint64_t now_ms, struct err *e)
{
    assert(waiter->state == WAITER_OUT);
    struct flight *f = flight_find(all, id, proof);
    bool idle = !f || flight_is_idle(f);
    if (idle && !waiter->can_make)
        return FLIGHT_NONE;
    if (!f && !(f = flight_new(all, id, proof, now_ms)))
        return err_set(e, WARM_ENOMEM, "no memory for a flight");
    if (idle)
        f->began_ms = now_ms;
    assert(waiter->state == WAITER_OUT && !waiter->flight); /* (a) */
    waiter->flight = f;
    waiter->state = WAITER_WAITING;
    waiter->making = NULL;
    list_add(&f->waiting, waiter);
    f->n_asks++;
    if (!idle && !flight_may_hedge(f, waiter, now_ms))
        return FLIGHT_WAIT;
    if (!idle)
        flight_note_hedge(f);
    waiter_hold(waiter, now_ms);
    return FLIGHT_LEADS;
}

void flight_leave(struct waiter *waiter, uint64_t now_ms)
{
    struct flight *f = waiter->flight;
    if (waiter->state == WAITER_OUT)
        return;
    waiter_unlink(waiter);
    flight_promote(f, now_ms);
}

void flight_renew(struct waiter *waiter, uint64_t now_ms)
{
    uint64_t more = waiter->lease_ms < FLIGHT_RENEWAL_MS ? waiter->lease_ms : FLIGHT_RENEWAL_MS;
    if (waiter->state == WAITER_HOLDING)
        waiter->lease_ends_ms = now_ms + more;
}

bool flight_is_last(const struct waiter *waiter)
{
    return waiter->state != WAITER_OUT && waiter->flight->n_asks == 1;
}

/* ---- making ---- */

void flight_make(struct waiter *waiter, struct making *m)
{
    struct flight *f = waiter->flight;
    assert(waiter->state == WAITER_HOLDING);
    for (const struct making *other = f->makings; other; other = other->next)
        assert(other->uid != waiter->uid); /* (e) */
    for (struct waiter *held = f->busy.first, *next; held; held = next) {
        next = held->next;
        if (held != waiter && held->state == WAITER_HOLDING && held->uid == waiter->uid)
            waiter_wait(held);
    }
    f->n_holders--;
    waiter->state = WAITER_MAKING;
    waiter->making = m;
    *m = (struct making){
        .on_overtaken = m->on_overtaken, .flight = f, .waiter = waiter, .uid = waiter->uid};
    LIST_ADD(f->makings, m);
}

void flight_unmake(struct making *m, uint64_t now_ms)
{
    struct flight *f = m->flight;
    assert(f && f->makings);
    if (m->waiter)
        waiter_wait(m->waiter);
    LIST_REMOVE(f->makings, m);
    m->flight = NULL;
    flight_promote(f, now_ms);
}

/* ---- results ---- */

/* Moves the waiters that must be told to a list of the caller's: callbacks may join anew, or take each
 * other out (d). */
static void list_take(struct waiter_list *from, const struct making *by, enum flight_reach reach,
                      struct waiter_list *to)
{
    for (struct waiter *waiter = from->first, *next; waiter; waiter = next) {
        next = waiter->next;
        bool is_its = by && waiter == by->waiter;
        if (is_its || reach == FLIGHT_TO_ALL ||
            (reach == FLIGHT_TO_WAITERS && waiter->state != WAITER_MAKING)) {
            list_remove(waiter);
            list_add(to, waiter);
        }
    }
}

void flight_finish(struct flight *f, struct artifact *result, const struct making *by,
                   enum flight_reach reach, bool storing, uint64_t now_ms)
{
    struct waiter_list told = {0};
    assert(!by || by->flight == f);
    assert(by || reach == FLIGHT_TO_ALL);
    f->pins++;
    f->telling++;
    artifact_ref(result);
    if (storing) {
        artifact_unref(f->result);
        f->result = artifact_ref(result);
        f->n_storing++;
    }
    list_take(&f->busy, by, reach, &told);
    list_take(&f->waiting, by, reach, &told);
    while (told.first) {
        struct waiter *waiter = told.first;
        waiter_unlink(waiter);
        waiter->ops->on_result(waiter, result);
    }
    artifact_unref(result);
    f->telling--;
    f->pins--;
    flight_promote(f, now_ms);
}

void flight_overtake(struct flight *f, struct artifact *result, uint64_t now_ms)
{
    assert(result && !f->result);
    for (struct making *m = f->makings; m; m = m->next)
        m->on_overtaken(m);
    flight_finish(f, result, NULL, FLIGHT_TO_ALL, false, now_ms);
}

void flight_stored(struct flight *f, uint64_t now_ms)
{
    assert(f->n_storing);
    if (--f->n_storing == 0) {
        artifact_unref(f->result);
        f->result = NULL;
    }
    flight_promote(f, now_ms);
}

void flight_pass(struct making *m, const struct err *e)
{
    struct flight *f = m->flight;
    assert(f && e->code);
    struct waiter_list told = {0};
    for (struct waiter *waiter = f->waiting.first, *next; waiter; waiter = next) {
        next = waiter->next;
        if (waiter->uid == m->uid && ++waiter->n_failed >= FLIGHT_FAILURES_MAX) {
            list_remove(waiter);
            list_add(&told, waiter);
        }
    }
    f->pins++;
    while (told.first)
        flight_tell_error(f, told.first, e);
    f->pins--;
}

void flight_fail(struct flight *f, const struct err *e, uint64_t now_ms)
{
    struct waiter_list told = {0};
    f->pins++;
    f->telling++;
    list_take(&f->busy, NULL, FLIGHT_TO_ALL, &told);
    list_take(&f->waiting, NULL, FLIGHT_TO_ALL, &told);
    while (told.first)
        flight_tell_error(f, told.first, e);
    f->telling--;
    f->pins--;
    flight_promote(f, now_ms);
}

/* ---- time ---- */

/* Finds the first waiter of a list whose wait has passed. */
static struct waiter *list_expired(const struct waiter_list *list, uint64_t now_ms)
{
    struct waiter *waiter = list->first;
    while (waiter &&
           !(waiter->state != WAITER_HOLDING && waiter->expires_ms && waiter->expires_ms <= now_ms))
        waiter = waiter->next;
    return waiter;
}

/* Finds the first waiter that may hold a lease beside the others (3). If one due waiter of a user may
 * not, none of that user may. So a long list costs one look at each user. */
static struct waiter *flight_next_hedge(const struct flight *f, uint64_t now_ms)
{
    const struct waiter *no = NULL;
    for (struct waiter *waiter = f->waiting.first; waiter; waiter = waiter->next) {
        bool due = waiter->can_make && waiter->hedge_at_ms && waiter->hedge_at_ms <= now_ms;
        if (no && due && no->uid == waiter->uid)
            continue;
        if (flight_may_hedge(f, waiter, now_ms))
            return waiter;
        no = due ? waiter : no;
    }
    return NULL;
}

static void flight_tick(struct flight *f, uint64_t now_ms)
{
    struct waiter *waiter;
    while ((waiter = list_expired(&f->waiting, now_ms)) ||
           (waiter = list_expired(&f->busy, now_ms))) {
        struct err e;
        err_set(&e, WARM_ETIMEOUT, "it was not made in time");
        flight_tell_error(f, waiter, &e);
    }
    while (!flight_is_idle(f) && (waiter = flight_next_hedge(f, now_ms))) {
        flight_note_hedge(f);
        waiter_hold(waiter, now_ms);
        waiter->ops->on_hold(waiter);
    }
}

bool flights_tick(struct flights *all, uint64_t now_ms)
{
    for (unsigned i = 0; i < FLIGHT_BUCKETS && all->count; i++) {
        struct flight *f = all->buckets[i], *next;
        if (f)
            f->pins++;
        for (; f; f = next) {
            flight_tick(f, now_ms);
            /* Pinned before this one may go: callbacks cannot free a pinned flight. */
            next = f->next;
            if (next)
                next->pins++;
            f->pins--;
            flight_promote(f, now_ms);
        }
    }
    return all->count > 0;
}

void flights_fail_all(struct flights *all, const struct err *e, uint64_t now_ms)
{
    for (unsigned i = 0; i < FLIGHT_BUCKETS; i++) {
        struct flight *f = all->buckets[i], *next;
        if (f)
            f->pins++;
        for (; f; f = next) {
            flight_fail(f, e, now_ms);
            next = f->next;
            if (next)
                next->pins++;
            f->pins--;
            flight_settle(f);
        }
    }
}

unsigned flights_count(const struct flights *all) { return all->count; }

static bool list_has_user(const struct waiter_list *list, int64_t uid)
{
    const struct waiter *waiter = list->first;
    while (waiter && waiter->uid != uid)
        waiter = waiter->next;
    return waiter != NULL;
}

/* True if somebody makes it, and the user has a part in it. */
static bool flight_is_listed(const struct flight *f, int64_t uid)
{
    if (flight_is_idle(f))
        return false;
    return uid < 0 || list_has_user(&f->busy, uid) || list_has_user(&f->waiting, uid);
}

size_t flights_list(const struct flights *all, int64_t uid, struct flight_brief *out, size_t cap,
                    uint64_t now_ms)
{
    size_t n = 0, looked_at = 0;
    for (size_t i = 0; i < FLIGHT_BUCKETS; i++)
        for (const struct flight *f = all->buckets[i]; f; f = f->next) {
            if (n == cap || looked_at++ == FLIGHTS_LOOKED_AT)
                return n;
            if (flight_is_listed(f, uid))
                out[n++] = (struct flight_brief){f->id, f->makings ? f->makings->uid : f->last_uid,
                                                 f->makings != NULL, flight_waiters(f),
                                                 flight_age_ms(f, now_ms)};
        }
    return n;
}
