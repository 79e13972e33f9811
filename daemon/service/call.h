/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call.h - one request that may have to wait, and its answers.
 *
 *     a wire ──▶ service_ask, service_compile ──▶ WAIT, LEASE, NEED, CHECK   any number, in any order
 *                                             ──▶ VALUE, MISS, FAILED,       one: the last answer
 *                                                 ERROR, OVER
 *     a wire ──▶ call_drop                    ──▶ no answer any more
 *
 * A call is in at most one flight (flight.h). Two kinds of calls exist: a GET (lookup.c) and a compile
 * (compile_request.c). Each has its own struct call_ops.
 *
 * Thread: loop thread. Memory: the wire embeds the call and keeps it at its address until the last
 * answer or call_drop.
 */
#ifndef WARM_DAEMON_SERVICE_CALL_H
#define WARM_DAEMON_SERVICE_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "client/wire/wire.h"
#include "daemon/service/artifact.h"
#include "daemon/service/flight.h"
#include "daemon/users/peer.h"
#include "store/store.h"

struct build;
struct call;
struct call_compile;
struct manifest;
struct service;

#define CALL_TIER_ASKS 4u /* of one call */
#define CALL_FAILURE 128  /* bytes of a text for people */

enum answer_kind {
    ANSWER_VALUE,  /* last: `value` or `artifact`, and `outcome` */
    ANSWER_MISS,   /* last */
    ANSWER_FAILED, /* last: `artifact` is the compiler's refusal */
    ANSWER_ERROR,  /* last: `err` */
    ANSWER_OVER,   /* last: the lease of this call has ended; the client is told nothing */
    ANSWER_LEASE,  /* the client must make the value: `token`, `deadline_ms` */
    ANSWER_WAIT,   /* another client makes the value: `n_waiters`, `elapsed_ms` */
    ANSWER_NEED,   /* the client must send the source: service_source */
    ANSWER_CHECK,  /* the client must describe the paths of `manifest`: service_checked */
};

/* Everything in it is borrowed until on_answer returns. */
struct answer {
    enum answer_kind kind;
    enum wire_outcome outcome;
    const struct store_value *value; /* or */
    struct artifact *artifact;
    uint64_t token;
    uint32_t deadline_ms;
    uint32_t n_waiters, elapsed_ms;
    const struct manifest *manifest;
    const struct err *err;
};

/* True for the kinds that end a call. */
static inline bool answer_is_last(enum answer_kind kind) { return kind <= ANSWER_OVER; }

/* The behaviour of one kind of call. */
struct call_ops {
    enum store_kind kind; /* misses and errors count under it */
    /* Asks the client for the value or for its source: the call holds its flight's lease. */
    void (*on_lease)(struct call *call);
    /* Takes the result of the flight, which the call has left. */
    void (*on_result)(struct call *call, struct artifact *result);
    /* Takes the flight's error; the call has left the flight. */
    void (*on_error)(struct call *call, const struct err *e);
    /* Frees the state of this kind; `cancelled`: the client does not want the result any more. */
    void (*drop)(struct call *call, bool cancelled);
};

/* The wire zeroes a call and fills in the first part. */
struct call {
    struct service *service;
    const struct peer *peer;
    void (*on_answer)(struct call *call, const struct answer *a);
    char job[65];     /* of ranks on several machines, in hex: the tier decides for all; or empty */
    bool no_tier;     /* the ranks of its job must have one answer: only this machine is asked */
    bool was_corrupt; /* the stored value was damaged; the wire of a GET says so */
    char failure
        [CALL_FAILURE]; /* why the daemon could not give a stored value; empty: it did not fail */

    /* the service's: */
    const struct call_ops *ops;
    uint64_t began_us; /* Unix time at which it was asked */
    struct view name;  /* of a GET; borrowed until the first answer */
    struct ask ask;
    struct store_id id;
    struct proof proof;
    bool answered;    /* the last answer was given, or the call was dropped */
    bool waits;       /* WAIT was answered */
    bool is_unlisted; /* its miss counts in the daemon's totals alone */
    bool prepared;    /* a value was verified for it; once is enough */
    /* Pointers to this call, which its end sets to NULL; each is NULL if there is none: */
    struct call **preparing; /* of the value that is being verified for it, */
    struct call **tier_wait; /* of its wait for the tier, */
    struct call **putting;   /* and of a put under its lease: the value is being copied */
    struct key tier_asked;   /* the key that it asked the tier for last */
    unsigned n_tier_asks;
    uint64_t tier_ends_ms;      /* its budget for all of them ends; 0: it has asked nothing yet */
    uint64_t tier_waits_end_ms; /* and its patience with other nodes; 0: as before */
    bool tier_knows;            /* its answer was a certain one */
    char tier_said[96];         /* why the tier brought nothing; empty: it was not asked */
    struct artifact *from_tier; /* what came; borrowed while the call goes on */
    bool joins;                 /* a GET that joins its flight if the tier has nothing */

    /* a compile's: */
    struct call_compile *compile;
    bool leads;                  /* its source is compiled */
    unsigned n_needs, n_sources; /* NEEDs sent, SOURCEs received */
    unsigned stage;              /* where to look next */
    struct manifest *checking;   /* the manifest of the CHECK that is open; NULL: none */
    struct artifact *candidate;  /* the result that the check is about; NULL: one in the store */
    enum wire_outcome outcome;   /* of the candidate, if the client has its files */
    struct build *build;         /* that this call leads */
    struct {
        struct store_id id;
        struct proof proof;
    } chosen; /* the result, or the shared key, that a manifest or an alias names */
};

/* Answers a call; all answers go through here. Counts the answer and notes it in the history. The
 * last answer also ends the call: its memory may be gone on return. */
void call_answer(struct call *call, const struct answer *a);
/* Answers with an error, which ends the call. */
void call_fail(struct call *call, const struct err *e);
/* Answers with a value or with a compiler's refusal, which ends the call. */
void call_answer_artifact(struct call *call, struct artifact *a, enum wire_outcome outcome);

/* Joins the flight of the call's id and proof, and answers with LEASE, NEED, WAIT, MISS or ERROR. */
void call_join(struct call *call);

/* Asks the client for its files at the manifest's paths; references both, `candidate` may be NULL. */
void call_check(struct call *call, struct manifest *m, struct artifact *candidate);
/* Releases the references of call_check. */
void call_uncheck(struct call *call);

/* Has the stored value of an id verified on another thread, then calls `again` unless the call has
 * ended. False if that is impossible, or was done before. */
bool call_prepare(struct call *call, const struct store_id *id, void (*again)(struct call *call));

/* Ends a call without an answer: the client is gone, or wants no answer (`cancelled`: a compile
 * that nobody else waits for ends, too). */
void call_drop(struct call *call, bool cancelled);

/* Starts the timer of flights and compiles, if it does not run. */
void calls_tick_start(struct service *s);

#endif
