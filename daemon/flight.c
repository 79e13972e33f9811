/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flight.c - the table of flights, and who has the turn. The phases are in flight.h.
 *
 * Invariants:
 *   (a) an ask is in the list of its flight, or ASK_OUT;
 *   (b) where asks wait and one of them can make it, somebody holds the turn or the daemon makes it
 *       (flight_promote restores this after each departure);
 *   (c) a flight is freed only by flight_settle, and only in phase (6);
 *   (d) callbacks may join, leave or finish any flight: whoever calls them holds a pin, and takes
 *       the next ask from the list's head afresh.
 *
 * Thread: loop thread. Memory: flights are freed when they are gone, asks are never.
 */
#include "daemon/flight.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define FLIGHT_BUCKETS 1024u /* chains get longer with more flights, and nothing else happens */

struct ask_list {
    struct ask *first, *last;
};

struct flight {
    struct flights *all;
    struct flight *next; /* in its bucket */
    struct store_id id;
    struct proof proof;
    struct ask_list asks; /* in order of arrival */
    unsigned n_asks, n_holders;
    unsigned n_making;  /* (4) */
    unsigned n_storing; /* (5) */
    unsigned pins;      /* someone up the stack uses it */
    unsigned telling;   /* results or errors are being handed out: nobody gets a turn meanwhile */
    struct artifact *result;
    void *work;
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
    while (f && !(f->id.owner == id->owner && key_equal(&f->id.key, &id->key) &&
                  (!proof || memcmp(&f->proof, proof, sizeof *proof) == 0)))
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
    if (f->n_asks || f->n_making || f->n_storing || f->pins)
        return;
    struct flight **at = flight_bucket(f->all, &f->id);
    while (*at != f)
        at = &(*at)->next;
    *at = f->next;
    f->all->count--;
    artifact_unref(f->result);
    free(f);
}

struct artifact *flight_result(const struct flight *f) { return f->result; }
const struct store_id *flight_id(const struct flight *f) { return &f->id; }
unsigned flight_waiters(const struct flight *f) { return f->n_asks - f->n_holders; }
void *flight_work(const struct flight *f) { return f->work; }
void flight_set_work(struct flight *f, void *work) { f->work = work; }

uint64_t flight_age_ms(const struct flight *f, uint64_t now_ms)
{
    return now_ms > f->began_ms ? now_ms - f->began_ms : 0;
}

/* ---- places in a flight ---- */

static void ask_link(struct flight *f, struct ask *ask)
{
    ask->flight = f;
    ask->state = ASK_WAITING;
    ask->overdue = false;
    ask->next = NULL;
    ask->prev = f->asks.last;
    *(f->asks.last ? &f->asks.last->next : &f->asks.first) = ask;
    f->asks.last = ask;
    f->n_asks++;
}

static void ask_unlink(struct ask *ask)
{
    struct flight *f = ask->flight;
    *(ask->prev ? &ask->prev->next : &f->asks.first) = ask->next;
    *(ask->next ? &ask->next->prev : &f->asks.last) = ask->prev;
    f->n_asks--;
    if (ask->state == ASK_HOLDING)
        f->n_holders--;
    ask->state = ASK_OUT;
    ask->flight = NULL;
    ask->prev = ask->next = NULL;
}

/* Tokens are a random start and a count through a mixer (SplitMix64, Steele et al. 2014), which is
 * a bijection: none comes twice. */
static uint64_t token_next(struct flights *all)
{
    uint64_t z;
    do {
        z = all->token_base + ++all->token_count * 0x9e3779b97f4a7c15u;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        z ^= z >> 31;
    } while (z == 0);
    return z;
}

static void ask_hold(struct ask *ask, uint64_t now_ms)
{
    ask->state = ASK_HOLDING;
    ask->turn_ends_ms = now_ms + ask->turn_ms;
    ask->token = token_next(ask->flight->all);
    ask->flight->n_holders++;
}

static struct ask *flight_next_maker(const struct flight *f)
{
    struct ask *ask = f->asks.first;
    while (ask && !(ask->state == ASK_WAITING && ask->can_make))
        ask = ask->next;
    return ask;
}

static void flight_tell_error(struct flight *f, struct ask *ask, const struct err *e)
{
    assert(ask->flight == f);
    ask_unlink(ask);
    ask->ops->on_error(ask, e);
}

/* Restores (b). Where nobody in the flight can make it, those who wait are told. */
static void flight_promote(struct flight *f, uint64_t now_ms)
{
    f->pins++;
    while (f->n_asks && !f->n_holders && !f->n_making && !f->telling) {
        struct ask *ask = flight_next_maker(f);
        if (ask) {
            ask_hold(ask, now_ms);
            ask->ops->on_turn(ask);
            break;
        }
        struct err e;
        err_set(&e, WARM_ENOT_FOUND, "nobody makes it any more");
        flight_tell_error(f, f->asks.first, &e);
    }
    f->pins--;
    flight_settle(f);
}

static bool flight_all_overdue(const struct flight *f, uint64_t now_ms)
{
    for (const struct ask *ask = f->asks.first; ask; ask = ask->next)
        if (ask->state == ASK_HOLDING && ask->turn_ends_ms > now_ms)
            return false;
    return true;
}

static void flight_note_hedge(struct flight *f)
{
    if (f->all->on_hedge)
        f->all->on_hedge(f->all->on_hedge_arg);
}

int flight_join(struct flights *all, const struct store_id *id, const struct proof *proof,
                struct ask *ask, uint64_t now_ms, struct err *e)
{
    assert(ask->state == ASK_OUT);
    struct flight *f = flight_find(all, id, proof);
    bool idle = !f || (!f->n_making && !f->n_holders);
    if (idle && !ask->can_make)
        return FLIGHT_NONE;
    if (!f && !(f = flight_new(all, id, proof, now_ms)))
        return err_set(e, WARM_ENOMEM, "no memory for a flight");
    if (idle)
        f->began_ms = now_ms;
    ask_link(f, ask);
    if (f->n_making || !ask->can_make)
        return FLIGHT_WAIT;
    if (!idle && !flight_all_overdue(f, now_ms))
        return FLIGHT_WAIT;
    if (!idle)
        flight_note_hedge(f);
    for (struct ask *held = f->asks.first; held; held = held->next)
        held->overdue |= held->state == ASK_HOLDING;
    ask_hold(ask, now_ms);
    return FLIGHT_TURN;
}

void flight_leave(struct ask *ask, uint64_t now_ms)
{
    struct flight *f = ask->flight;
    if (ask->state == ASK_OUT)
        return;
    ask_unlink(ask);
    flight_promote(f, now_ms);
}

bool flight_is_last(const struct ask *ask)
{
    return ask->state != ASK_OUT && ask->flight->n_asks == 1;
}

/* ---- making ---- */

bool flight_make(struct flight *f, struct ask *ask)
{
    if (f->n_making)
        return false;
    /* Holders of a hedge wait too, now: one compile is enough. */
    for (struct ask *held = f->asks.first; held; held = held->next)
        if (held->state == ASK_HOLDING)
            held->state = ASK_WAITING;
    assert(ask->flight == f);
    f->n_holders = 0;
    f->n_making = 1;
    return true;
}

void flight_unmake(struct flight *f, uint64_t now_ms)
{
    f->n_making = 0;
    f->work = NULL;
    flight_promote(f, now_ms);
}

/* ---- results ---- */

/* Those who were there when the result came are taken out first: a callback may join anew. */
void flight_finish(struct flight *f, struct artifact *result, struct ask *only, bool storing,
                   uint64_t now_ms)
{
    f->pins++;
    f->telling++;
    artifact_ref(result);
    if (storing) {
        artifact_unref(f->result);
        f->result = artifact_ref(result);
        f->n_storing++;
    }
    for (unsigned n = only ? 1 : f->n_asks; n && f->n_asks; n--) {
        struct ask *ask = only ? only : f->asks.first;
        ask_unlink(ask);
        ask->ops->on_result(ask, result);
    }
    artifact_unref(result);
    f->telling--;
    f->pins--;
    flight_promote(f, now_ms);
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

void flight_fail(struct flight *f, const struct err *e, uint64_t now_ms)
{
    f->pins++;
    f->telling++;
    for (unsigned n = f->n_asks; n && f->n_asks; n--)
        flight_tell_error(f, f->asks.first, e);
    f->telling--;
    f->pins--;
    flight_promote(f, now_ms);
}

/* ---- time ---- */

/* The first ask of the flight whose wait has passed. */
static struct ask *flight_expired(const struct flight *f, uint64_t now_ms)
{
    struct ask *ask = f->asks.first;
    while (ask && !(ask->state == ASK_WAITING && ask->expires_ms && ask->expires_ms <= now_ms))
        ask = ask->next;
    return ask;
}

/* A holder whose turn has passed and that was not hedged yet. */
static struct ask *flight_overdue(const struct flight *f, uint64_t now_ms)
{
    struct ask *ask = f->asks.first;
    while (ask && !(ask->state == ASK_HOLDING && !ask->overdue && ask->turn_ends_ms <= now_ms))
        ask = ask->next;
    return ask;
}

static void flight_tick(struct flight *f, uint64_t now_ms)
{
    struct ask *ask, *maker;
    while ((ask = flight_expired(f, now_ms))) {
        struct err e;
        err_set(&e, WARM_ETIMEOUT, "it was not made in time");
        flight_tell_error(f, ask, &e);
    }
    while ((ask = flight_overdue(f, now_ms)) && (maker = flight_next_maker(f))) {
        ask->overdue = true;
        flight_note_hedge(f);
        ask_hold(maker, now_ms);
        maker->ops->on_turn(maker);
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
            /* Pinned before this one may go: callbacks cannot free what is pinned. */
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
