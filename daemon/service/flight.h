/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flight.h - one flight for each key that is being made: who makes it, who waits, who gets it.
 *
 * One asker of a flight holds its lease: it must make the artifact, or send its source. Others wait.
 *
 * The life of a flight; reviews and tests refer to these numbers:
 *
 *   (1) made      by the first asker of a key that is not known; that asker holds the lease.
 *   (2) held      one asker holds the lease; others wait, in order of arrival. If the holder leaves,
 *                 the next waiter that can make it holds the lease at once: one of another user, if
 *                 there is one.
 *   (3) hedged    one more waiter holds a lease, beside the holders and the builds: when all leases
 *                 have passed their ends, or when that waiter has waited long enough for other users
 *                 (`hedge_at_ms`). The first result goes to all who can use it.
 *   (4) making    the daemon compiles what a holder brought, in at most one build for each user. The
 *                 user's other askers wait. If a build ends without a verdict of the compiler, its
 *                 asker is told why, and the next waiter holds the lease: back to (2).
 *   (5) storing   there is a result. All waiters have it already; it is on its way to disk, and an
 *                 asker that comes meanwhile gets it from the flight.
 *   (6) gone      nobody is in it, nothing runs for it: freed.
 *
 *        ┌────────────── nobody left ──────────────┐
 *        │        leaves, next one                 ▼
 *   (1)─▶(2)◀──┐   ┌──────▶(3)─┐                  (6)
 *        │ └───┴───┘           │ result            ▲
 *        ├─────────▶(4)────────┴─▶(5)──── stored ──┘
 *                  └─▶(2) no verdict
 *
 * If the daemon has a tier, an asker may wait for that before (1): phases (0) and (0') in tier_fetch.c.
 *
 * A flight is found by store id and proof: two inputs for which an attacker made one key are two
 * flights. A flight knows no sockets, no store and no compiler.
 *
 * Thread: loop thread. Memory: a waiter belongs to its caller, and stays at its address until it has left
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
struct waiter;

struct waiter_ops {
    /* Tells the asker that it holds the lease: it must make the artifact, or send its source. */
    void (*on_hold)(struct waiter *waiter);
    /* Hands out the result (borrowed); the asker has left the flight. */
    void (*on_result)(struct waiter *waiter, struct artifact *result);
    /* Tells why there is no result; the asker has left the flight. NOT_FOUND: nobody makes it any
     * more. */
    void (*on_error)(struct waiter *waiter, const struct err *e);
};

enum waiter_state {
    WAITER_OUT = 0,
    WAITER_WAITING,
    WAITER_HOLDING, /* it holds the lease */
    WAITER_MAKING,  /* the source that it brought is being compiled */
};

struct waiter_list {
    struct waiter *first, *last;
};

struct waiter {
    const struct waiter_ops *ops;
    uint32_t uid;         /* its user */
    bool can_make;        /* false: it only waits, and never holds the lease */
    uint64_t lease_ms;    /* how long its lease lasts; after that another asker gets one, too */
    uint64_t expires_ms;  /* when it gives up waiting (TIMEOUT); 0: never */
    uint64_t hedge_at_ms; /* from then on it waits for no other user; 0: it always does */
    /* the flight's: */
    enum waiter_state state;
    unsigned n_failed; /* builds of its own user that failed while it waited */
    struct flight *flight;
    struct making *making; /* WAITER_MAKING */
    struct waiter_list *in;
    struct waiter *prev, *next;
    uint64_t lease_ends_ms;
    uint64_t token; /* of its lease: hard to guess, never 0, never the same twice */
};

/* One build of the daemon's compiler (4). Embedded in struct build, zeroed but for on_overtaken. */
struct making {
    /* Tells the build that its asker gets a result from elsewhere now. It may end later, not here. */
    void (*on_overtaken)(struct making *m);
    struct flight *flight; /* NULL: it is in none */
    struct waiter *waiter; /* the asker that brought it; NULL when that has left */
    uint32_t uid;
    struct making *prev, *next;
};

/* Makes an empty table; NULL: no memory. `on_hedge` (may be NULL) is called for each hedge. */
struct flights *flights_new(void (*on_hedge)(void *arg), void *arg);
/* Frees the table, in which no flight is left. */
void flights_free(struct flights *all);

/* Finds the flight of a key; NULL if there is none. `proof` NULL: any. */
struct flight *flight_find(struct flights *all, const struct store_id *id,
                           const struct proof *proof);
/* Returns the result of a flight in phase (5) (borrowed); else NULL. */
struct artifact *flight_result(const struct flight *f);
/* Returns how many askers wait. */
unsigned flight_waiters(const struct flight *f);
/* Returns for how long there has been a result to wait for. */
uint64_t flight_age_ms(const struct flight *f, uint64_t now_ms);

enum flight_place {
    FLIGHT_LEADS, /* the asker holds the lease: waiter->token (on_hold is not called) */
    FLIGHT_WAIT,
    FLIGHT_NONE, /* nobody makes it, and this asker cannot */
};
/* Joins the key's flight, or makes it; returns an enum flight_place. The flight's own result is
 * ignored: the caller has looked at it. Negative: NOMEM. */
int flight_join(struct flights *all, const struct store_id *id, const struct proof *proof,
                struct waiter *waiter, uint64_t now_ms, struct err *e);

/* Takes the asker out of its flight; its lease, if it holds one, ends. Calls nothing of `waiter`.
 * WAITER_OUT is fine. */
void flight_leave(struct waiter *waiter, uint64_t now_ms);
#define FLIGHT_RENEWAL_MS 20000u
/* Renews the lease of an asker whose client makes progress: it ends in FLIGHT_RENEWAL_MS, or after its own length if that
 * is shorter. Does nothing if it holds no lease. */
void flight_renew(struct waiter *waiter, uint64_t now_ms);
/* True if this asker is the last one in its flight. */
bool flight_is_last(const struct waiter *waiter);

/* Begins a build of the source that the lease holder `waiter` brought. Other holders of the same user
 * wait from now on: one build of a user is enough. flight_unmake ends it, after flight_finish,
 * flight_pass or flight_fail if it had an outcome. The flight lives until then. */
void flight_make(struct waiter *waiter, struct making *m);
/* Ends a build. Its asker waits again if it is still in the flight. */
void flight_unmake(struct making *m, uint64_t now_ms);
/* Returns the builds that run, the newest first. */
struct making *flight_makings(const struct flight *f);

/* The waiters that get a result. */
enum flight_reach {
    FLIGHT_TO_MAKER,   /* the asker of build `by` alone; the others stay */
    FLIGHT_TO_WAITERS, /* that asker, and all who have no build of their own */
    FLIGHT_TO_ALL,
};
/* Hands the result out. `by` is NULL for a result that no build of the daemon brought. With
 * `storing` the flight keeps a reference for askers that come before flight_stored. */
void flight_finish(struct flight *f, struct artifact *result, const struct making *by,
                   enum flight_reach reach, bool storing, uint64_t now_ms);
/* Hands out a result from elsewhere to all, and tells the builds that it has overtaken them. */
void flight_overtake(struct flight *f, struct artifact *result, uint64_t now_ms);
/* Ends one `storing`: the result is in the store, or cannot be stored. */
void flight_stored(struct flight *f, uint64_t now_ms);
#define FLIGHT_FAILURES_MAX 2u
/* Notes that a build ended without a verdict; the caller tells its asker. A waiter of the same user
 * is told the FLIGHT_FAILURES_MAX-th such error while it waits. So a user's many processes do not
 * fail one after the other. */
void flight_pass(struct making *m, const struct err *e);
/* Tells all who are in the flight that there will be no result. */
void flight_fail(struct flight *f, const struct err *e, uint64_t now_ms);

/* Ends waits that took too long, and hedges. True while anything is in flight. */
bool flights_tick(struct flights *all, uint64_t now_ms);
/* Calls flight_fail for each flight. */
void flights_fail_all(struct flights *all, const struct err *e, uint64_t now_ms);
/* Returns how many flights there are. */
unsigned flights_count(const struct flights *all);

/* A flight that somebody is making something for, as people see it. */
struct flight_brief {
    struct store_id id;
    uint32_t maker; /* the user of the build or of the lease */
    bool is_built;  /* by the daemon's compiler; else the maker's program makes it */
    unsigned n_waiters;
    uint64_t age_ms;
};
#define FLIGHTS_LOOKED_AT 1024u
/* Lists at most `cap` flights, after a look at FLIGHTS_LOOKED_AT of them; returns how many. `uid`: only
 * flights in which this user makes the artifact or waits for it; -1: of all users. */
size_t flights_list(const struct flights *all, int64_t uid, struct flight_brief *out, size_t cap,
                    uint64_t now_ms);

#endif
