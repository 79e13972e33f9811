/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flight.h - one flight for each key that is being made: who makes it, who waits, who gets it.
 *
 * The life of a flight; reviews and tests refer to these numbers:
 *
 *   (1) made      by the first asker of a key that is not known, who gets the turn: to make the
 *                 artifact under a lease, or to send its source.
 *   (2) held      one asker has the turn; others wait, in order of arrival. If the holder leaves,
 *                 the next waiter that can make it has the turn at once: one of another user, if
 *                 there is one.
 *   (3) hedged    one waiter more has the turn beside those who have it or compile: when all of
 *                 them passed the end of their turns, or when it has waited long enough for other
 *                 users (`hedge_at_ms`). The first result goes to all who can use it.
 *   (4) making    the daemon compiles what a holder brought, in one build for each user at most.
 *                 The user's other askers wait. If a build ends without a verdict of the
 *                 compiler, its asker is told why, and the next waiter has the turn: back to (2).
 *   (5) storing   there is a result. All who waited have it already; it is on its way to disk, and
 *                 an asker that comes meanwhile gets it from the flight.
 *   (6) gone      nobody is in it, nothing runs for it: freed.
 *
 *        ┌────────────── nobody left ──────────────┐
 *        │        leaves, next one                 ▼
 *   (1)─▶(2)◀──┐   ┌──────▶(3)─┐                  (6)
 *        │ └───┴───┘           │ result            ▲
 *        ├─────────▶(4)────────┴─▶(5)──── stored ──┘
 *                  └─▶(2) no verdict
 *
 * A flight is found by store id and proof: two inputs that share a key by design of an attacker are
 * two flights. Nothing here knows sockets, the store or the compiler.
 *
 * Thread: loop thread. Memory: an ask belongs to whoever asks, and stays where it is until it left
 * its flight: by flight_leave, or when on_result or on_error is called.
 */
#ifndef WARM_DAEMON_SERVICE_FLIGHT_H
#define WARM_DAEMON_SERVICE_FLIGHT_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/service/artifact.h"
#include "keygen/err.h"
#include "store/store.h"

struct flight;
struct flights;
struct ask;

struct ask_ops {
    /* It is this asker's turn: it is to make the artifact, or to send its source. */
    void (*on_hold)(struct ask *ask);
    /* It left the flight with the result (borrowed). */
    void (*on_result)(struct ask *ask, struct artifact *result);
    /* It left the flight without. NOT_FOUND: nobody makes it any more. */
    void (*on_error)(struct ask *ask, const struct err *e);
};

enum ask_state {
    ASK_OUT = 0,
    ASK_WAITING,
    ASK_HOLDING, /* it has the turn */
    ASK_MAKING,  /* what it brought is being compiled */
};

struct ask_list {
    struct ask *first, *last;
};

struct ask {
    const struct ask_ops *ops;
    uint32_t uid;         /* whose it is */
    bool can_make;        /* false: only waits, never has a turn */
    uint64_t lease_ms;    /* how long its turn is; then another gets one too */
    uint64_t expires_ms;  /* when it gives up waiting (TIMEOUT); 0: never */
    uint64_t hedge_at_ms; /* from then on it waits for no other user; 0: it always does */
    /* the flight's: */
    enum ask_state state;
    unsigned n_failed; /* builds of its own user that failed while it waited */
    struct flight *flight;
    struct making *making; /* ASK_MAKING */
    struct ask_list *in;
    struct ask *prev, *next;
    uint64_t lease_ends_ms;
    uint64_t token; /* of its turn: hard to guess, never 0, never the same twice */
};

/* One build of the daemon's compiler (4). Embedded in what runs, zeroed. */
struct making {
    struct flight *flight; /* NULL: it is in none */
    struct ask *ask;       /* that brought it; NULL when it has left */
    uint32_t uid;
    struct making *next;
};

/* NULL: no memory. `on_hedge` (may be NULL) is called for each hedge. */
struct flights *flights_new(void (*on_hedge)(void *arg), void *arg);
/* Nothing may be in flight any more. */
void flights_free(struct flights *all);

/* The flight of a key; NULL if there is none. `proof` NULL: any. */
struct flight *flight_find(struct flights *all, const struct store_id *id,
                           const struct proof *proof);
/* The result of a flight in phase (5) (borrowed); else NULL. */
struct artifact *flight_result(const struct flight *f);
const struct store_id *flight_id(const struct flight *f);
/* How many wait, and for how long there has been something to wait for. */
unsigned flight_waiters(const struct flight *f);
uint64_t flight_age_ms(const struct flight *f, uint64_t now_ms);

enum flight_place {
    FLIGHT_LEADS, /* yours to make: ask->token (on_hold is not called) */
    FLIGHT_WAIT,
    FLIGHT_NONE, /* nobody makes it, and neither can this asker */
};
/* Joins the key's flight, or makes it. A result that the flight has is ignored: the caller looked
 * at it. Negative: NOMEM. */
int flight_join(struct flights *all, const struct store_id *id, const struct proof *proof,
                struct ask *ask, uint64_t now_ms, struct err *e);

/* The asker gives up its place, and its turn if it has it. Nothing of `ask` is called. ASK_OUT is
 * fine. */
void flight_leave(struct ask *ask, uint64_t now_ms);
/* True if this asker is the last one in its flight. */
bool flight_is_last(const struct ask *ask);

/* The daemon begins to make it, from what the holder `ask` brought. Other holders of the same user
 * wait now: one build of a user is enough. Ends with flight_unmake, after flight_finish, flight_pass
 * or flight_fail if there is something to say. The flight lives until then. */
void flight_make(struct ask *ask, struct making *m);
/* If the asker is still in the flight, it waits again. */
void flight_unmake(struct making *m, uint64_t now_ms);
/* The builds that run, the newest first. */
struct making *flight_makings(const struct flight *f);

/* Who gets a result. */
enum flight_reach {
    FLIGHT_TO_MAKER,   /* the asker of build `by` alone; the others stay */
    FLIGHT_TO_WAITERS, /* it, and all who are in no build of their own */
    FLIGHT_TO_ALL,
};
/* Hands the result out. `by` is NULL for a result that no build of the daemon brought. With
 * `storing`, keeps it (a reference) for who comes until flight_stored. */
void flight_finish(struct flight *f, struct artifact *result, const struct making *by,
                   enum flight_reach reach, bool storing, uint64_t now_ms);
void flight_stored(struct flight *f, uint64_t now_ms);
/* The build ended without a verdict, and its asker has left: the waiters of the same user are told
 * the error if it is the FLIGHT_FAILURES_MAX-th while they wait, so that a user's many processes do
 * not fail one after the other. */
#define FLIGHT_FAILURES_MAX 2u
void flight_pass(struct making *m, const struct err *e);
/* Tells all who are in the flight that there will be none. */
void flight_fail(struct flight *f, const struct err *e, uint64_t now_ms);

/* Ends waits that took too long, and hedges. True while anything is in flight. */
bool flights_tick(struct flights *all, uint64_t now_ms);
/* Calls flight_fail for each. */
void flights_fail_all(struct flights *all, const struct err *e, uint64_t now_ms);
unsigned flights_count(const struct flights *all);

#endif
