/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ask.h - one request for a key, by whichever wire it came, and the sources that it goes through.
 *
 *     a wire ──▶ service_ask, service_compile ──▶ ask_step ──▶ source ─ NOT_HERE ─▶ next source …
 *                                                    ▲            ├─ FOUND, MISS, FAILED ──▶ ask_answer
 *                    a client, a flight, the tier, ──┘            └─ LATER: it waits
 *                    a thread of the store
 *
 * Each kind of ask has its own row of sources, and goes through it from left to right:
 *
 *     by name           own space, flight, tier, maker
 *     by key            made here, own space, flight, tier
 *     rank of one node  own space, flight, maker                (after the job's earlier answer: rank_agreement.h)
 *     rank of several   tier, own space, flight, maker          (the same)
 *     COMPILE           made here, tier, flight, errors, maker
 *     child             made here, tier, maker                  (the shared key of a build)
 *
 *     own space  what the peer put                              lookup.c
 *     made here  a put that is being written, then the store;   find.c
 *                an alias and a manifest lead on, after a CHECK of the client's files
 *     flight     a result that is not in the store yet          ask.c
 *     errors     what a compiler refused a short while ago      refused.c
 *     tier       what other machines made                       tier_fetch.c
 *     maker      the key's flight: the ask makes it, or waits   ask.c, flight.c
 *
 * Rules of trust, which tests/daemon/test_ask.c checks in the rows:
 *   - COMPILE and its child never see a peer's own space: only the daemon's compiler made what they get;
 *   - a GET by name sees the own space alone. A GET by key has no maker: only a COMPILE makes such an entry;
 *   - no claimed value comes into a flight in which another user can wait: the flight of a name has the
 *     id of its peer's space, and those of COMPILE and child get what the daemon's compiler made;
 *   - the ranks of one node never ask the tier: it may know what it did not know a moment ago. Those of
 *     several ask it first, and its certain answer is theirs, whatever this node has.
 *
 * Answers: WAIT, LEASE, NEED, CHECK   any number, in any order
 *          VALUE, MISS, FAILED, ERROR, OVER   one: the last
 * ask_answer alone gives them. ask_drop ends an ask without one.
 *
 * Thread: loop thread. Memory: the wire embeds the ask and keeps it at its address until the last
 * answer or ask_drop. The build embeds its child.
 */
#ifndef WARM_DAEMON_SERVICE_ASK_H
#define WARM_DAEMON_SERVICE_ASK_H

#include <stdbool.h>
#include <stdint.h>

#include "client/wire/wire.h"
#include "daemon/service/find.h"
#include "daemon/service/flight.h"
#include "daemon/users/peer.h"
#include "store/store.h"

struct ask;
struct build;
struct compile;

#define ASK_TIER_MAX 4u /* questions to the tier of one ask */
#define ASK_FAILURE 128 /* bytes of a text for people */

enum answer_kind {
    ANSWER_VALUE,  /* last: `value` or `artifact`, and `outcome` */
    ANSWER_MISS,   /* last */
    ANSWER_FAILED, /* last: `artifact` is the compiler's refusal */
    ANSWER_ERROR,  /* last: `err` */
    ANSWER_OVER,   /* last: the lease of this ask has ended; the client is told nothing */
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

/* True for the kinds that end an ask. */
static inline bool answer_is_last(enum answer_kind kind) { return kind <= ANSWER_OVER; }

/* What a source says. */
enum step {
    STEP_FOUND,    /* look->answer */
    STEP_NOT_HERE, /* the next source is asked */
    STEP_LATER,    /* the ask waits, or was answered: it may be gone */
    STEP_AGAIN,    /* the look starts anew */
    STEP_MISS,     /* there is nothing, and no other source is asked */
    STEP_FAILED,   /* the daemon failed: look->find.err. That is no miss */
};
/* What a source found, until the store's turn ends. */
struct look {
    struct answer answer;
    struct find find;
};
/* Looks for what an ask wants. */
typedef enum step (*source_try)(struct ask *ask, struct look *look);
enum step try_own(struct ask *ask,
                  struct look *look); /* lookup.c; by name or by key, after service_get */
enum step try_made(struct ask *ask, struct look *look);   /* find.c */
enum step try_flight(struct ask *ask, struct look *look); /* find.c */
enum step try_errors(struct ask *ask, struct look *look); /* refused.c */
enum step try_tier(struct ask *ask, struct look *look);   /* tier_fetch.c */
enum step try_maker(struct ask *ask, struct look *look);  /* ask.c */

#define SOURCES_MAX 5u
/* One kind of ask. */
struct ask_ops {
    enum store_kind kind; /* misses and errors count under it */
    bool is_child;        /* its answers go to a build: nobody's hit or miss */
    source_try
        sources[SOURCES_MAX]; /* in order; the last is followed by NULL, or by nothing: a miss */
    /* Tells the asker that it holds the flight's lease: it makes the value, or sends its source. */
    void (*on_lease)(struct ask *ask);
    /* Takes the result of the flight, which the ask has left. */
    void (*on_result)(struct ask *ask, struct artifact *result);
    /* Takes the flight's error; the ask has left the flight. */
    void (*on_error)(struct ask *ask, const struct err *e);
    /* Frees the state of this kind; `cancelled`: the client does not want the result any more. */
    void (*drop)(struct ask *ask, bool cancelled);
};
/* The kinds: lookup.c, compile_request.c, build.c. */
extern const struct ask_ops ask_for_name, ask_for_key, ask_of_rank, ask_of_ranks, ask_for_compile,
    ask_of_child;

/* The wire zeroes an ask and fills in the first part. */
struct ask {
    struct service *service;
    const struct peer *peer;
    void (*on_answer)(struct ask *ask, const struct answer *a);
    char job[65]; /* of ranks on several machines, in hex: the tier decides for all; or empty */
    bool is_rank; /* of a job whose ranks must have one answer */
    bool tells_errors; /* the wire can tell an error of the daemon; else it is as a miss */

    /* the service's: */
    const struct ask_ops *ops;
    uint64_t began_us; /* Unix time at which it was asked */
    struct view name;  /* of a GET; borrowed until the first answer */
    struct waiter waiter;
    struct store_id id;
    struct proof proof;
    unsigned at;      /* the source that is asked */
    bool was_corrupt; /* the stored value was damaged */
    bool answered;    /* the last answer was given, or the ask was dropped */
    bool waits;       /* WAIT was answered */
    bool is_unlisted; /* its miss counts in the daemon's totals alone */
    bool prepared;    /* a value was verified for it; once is enough */
    bool joins;       /* it may wait for a maker, or be one */
    char failure
        [ASK_FAILURE]; /* why the daemon could not give a stored value; empty: it did not fail */
    /* Pointers to this ask, which its end sets to NULL; each is NULL if there is none: */
    struct ask **preparing; /* of the value that is being verified for it, */
    struct ask **tier_wait; /* of its wait for the tier, */
    struct ask **putting;   /* and of a put under its lease: the value is being copied */
    struct key tier_asked;  /* the key that it asked the tier for last */
    unsigned n_tier_asks;
    uint64_t tier_ends_ms;      /* its budget for all of them ends; 0: it has asked nothing yet */
    uint64_t tier_waits_end_ms; /* and its patience with other nodes; 0: as before */
    bool tier_knows;            /* its answer was a certain one */
    char tier_said[96];         /* why the tier brought nothing; empty: it was not asked */

    /* of a compile, and its child: */
    struct compile *compile;
    struct ask
        *client;       /* of a child: the ask of the client whose source it is; NULL: it has left */
    struct ask *asked; /* whose CHECK this ask's client answers now: itself, or a child; NULL */
    unsigned n_needs, n_sources; /* NEEDs sent, SOURCEs received */
    bool no_tier;                /* what it found leads nowhere: the tier knows no more */
    bool is_chosen;              /* `chosen` counts: */
    struct {
        struct store_id id;
        struct proof proof;
    } chosen; /* the result, or the shared key, that a manifest or an alias names */
    struct manifest *checking;  /* the manifest of the CHECK that is open; NULL: none */
    struct artifact *candidate; /* the result that the check is about; NULL: one in the store */
    enum wire_outcome
        outcome; /* of the candidate, if the client has its files; of what a build brings */
    struct manifest *matched; /* of a child: the alternative that agrees, alone */
    struct build *build;      /* that this ask leads */
};

/* Goes on at the source of ask->at. The ask may be gone on return. */
void ask_step(struct ask *ask);
/* Goes on behind that source. */
void ask_next(struct ask *ask);
/* Goes on at the maker: no other source has anything for this ask. */
void ask_make(struct ask *ask);

/* Answers an ask; all answers go through here. Counts the answer and notes it in the history. The
 * last answer also ends the ask: its memory may be gone on return. */
void ask_answer(struct ask *ask, const struct answer *a);
/* Answers with an error, which ends the ask. */
void ask_fail(struct ask *ask, const struct err *e);
/* Takes what was found, or what the flight brought: answers, unless the client has refused it, or must be asked for
 * its files first. */
void ask_found(struct ask *ask, const struct answer *a);

/* Asks the client for its files at the manifest's paths; references both, `candidate` may be NULL. */
void ask_check(struct ask *ask, struct manifest *m, struct artifact *candidate);
/* Releases the references of ask_check. */
void ask_uncheck(struct ask *ask);
/* Returns the manifest whose paths the client of an ask describes now; NULL: none. */
const struct manifest *ask_checking(const struct ask *client);

/* Has the stored value of an id verified on another thread, then goes on unless the ask has ended. False if
 * that is impossible, or was done before. */
bool ask_prepare(struct ask *ask, const struct store_id *id);

/* Ends an ask without an answer: the client is gone, or wants no answer (`cancelled`: a compile
 * that nobody else waits for ends, too). */
void ask_drop(struct ask *ask, bool cancelled);
/* Renews the lease of this asker: its client makes progress, so others wait on. */
void ask_renew(struct ask *ask);

/* Starts the timer of flights and compiles, if it does not run. */
void asks_tick_start(struct service *s);

#endif
