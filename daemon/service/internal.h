/* SPDX-License-Identifier: Apache-2.0 */
/* internal.h - what service.c, compile.c and admin.c share. Thread: loop thread. */
#ifndef WARM_DAEMON_SERVICE_INTERNAL_H
#define WARM_DAEMON_SERVICE_INTERNAL_H

#include "daemon/history/history.h"
#include "daemon/process/ticker.h"
#include "daemon/service/manifest.h"
#include "daemon/service/service.h"

#define VERIFY_MAX 3u /* sources that are verified at once; the pool has four threads */
#define NEGATIVES 64u /* compiler errors that are remembered */
#define NEGATIVE_BYTES_MAX (1u << 20) /* bytes of one of them */

struct negative {
    struct key key;
    struct proof proof;
    uint64_t expires_ms;
    struct artifact *artifact; /* NULL: the slot is empty */
};

/* A process asked for an entry in vain, without a lease: the last of them. */
#define LOOKS 64u
struct look {
    struct store_id id;
    uint64_t miss, at_ms; /* of the history; 0: none */
    uint32_t session;
    pid_t pid;
};

/* A user has no use for what was made here for another. */
#define REFUSALS 1024u
#define REFUSALS_OF_USER 64u
struct refusal {
    uint32_t uid;
    struct key key, check;
    uint64_t at_ms; /* 0: the place is free */
};

/* An entry that a client asked to have verified: the last of them. */
#define VERIFIED 64u
struct verified {
    struct store_id id;
    uint64_t at_ms;
};

struct preparing {
    struct service *service;
    uint32_t uid;      /* of whose BUDGET_checks it is */
    struct call *call; /* NULL when it was dropped */
    void (*again)(struct call *call);
};

struct service {
    struct service_config config;
    struct stats stats;
    struct history *history;
    struct flights *flights;
    struct attempt *attempts;              /* compiles that run */
    struct audit *audit;                   /* the one that runs; NULL: none */
    uint32_t n_before_audit;               /* hits until the next */
    struct attempt *verifying[VERIFY_MAX]; /* of which pool threads verify the sources; or NULL */
    struct pending_put *puts;              /* in the store's queue, the newest first */
    unsigned n_puts;
    unsigned n_preparing; /* with the store's other threads, or in struct service_work */
    unsigned n_awaiting;  /* compiles whose compiler is being identified */
    struct negative negatives[NEGATIVES];
    unsigned next_negative;
    struct look looks[LOOKS];
    unsigned next_look;
    struct refusal refusals[REFUSALS];
    bool has_refusals;
    struct verified verified[VERIFIED];
    unsigned next_verified;
    struct ticker *tick;      /* runs while anything is in flight */
    struct ticker *save_tick; /* writes the lifetime counters */
    bool stopping;
};

/* Joins the call's flight and answers with what that means: LEASE, NEED, WAIT, MISS or ERROR. */
void service_join(struct call *call);
void service_answer_error(struct call *call, const struct err *e);
void service_answer_artifact(struct call *call, struct artifact *a, enum wire_outcome outcome);
/* Has the stored value of an id verified on another thread, then calls `again`, unless the call was
 * dropped. False if that cannot be, or was done before. */
bool service_prepare(struct call *call, const struct store_id *id,
                     void (*again)(struct call *call));
/* Starts the flights' clock. */
void service_tick_start(struct service *s);

/* Writes an artifact under an id; `flight` (may be NULL) is told when it is committed. What cannot be
 * stored is counted and logged. `row` brings all but what the artifact knows. `keep_existing`: does
 * nothing if there is an entry. */
void service_store_artifact(struct service *s, struct flight *flight, struct artifact *a,
                            struct store_row *row, bool keep_existing);
/* For whom the entry of an id was made, with this proof (NULL: any), whether it is stored or on its way;
 * and its checksum. False if there is none. */
bool service_find_maker(struct service *s, const struct store_id *id, const struct proof *proof,
                        uint32_t *out_maker, struct key *out_check);

/* What is on its way to the store under an id with this proof (borrowed); NULL if nothing is. */
struct artifact *service_find_pending(struct service *s, const struct store_id *id,
                                      const struct proof *proof);

/* damaged.c: true if the user refused this value of an entry that was made here for another. */
bool damaged_is_refused(const struct service *s, uint32_t uid, const struct key *key,
                        const struct key *check);

/* audit.c: */
void audit_init(struct service *s);
/* True if this hit is to be made once more and compared. */
bool audit_wanted(struct service *s, const struct call *call, const struct store_row *row);
/* Ends the audit that runs, if one does. */
void audit_shutdown(struct service *s);

/* explain.c: what the history is told. */
/* What a client notes for itself: nobody's hit, and nobody's miss. */
bool explain_is_bookkeeping(enum wire_space space, struct view key);
/* A name that is tried after the first one missed: a hit is one, a miss says nothing new. */
bool explain_is_second_try(enum wire_space space, struct view key);
void explain_asked(struct service *s, const struct peer *peer);
/* stats_add, for the asker's session too. */
void explain_count(struct service *s, const struct peer *peer, enum stats_counter what,
                   enum store_kind kind, uint64_t n);
void explain_hit(struct service *s, const struct peer *peer, const struct store_id *id);
void explain_departures(struct service *s);
void explain_stored(struct service *s, const struct store_id *id);
void explain_get_miss(struct call *call, struct view name);
/* The call asked in vain, without a lease: if its process comes back for the lease, both are one. */
void explain_looked(const struct call *call);
/* A lease is asked for: a look that this process had for the same entry no longer counts. */
void explain_look_is_over(const struct call *call);
void explain_put(struct service *s, const struct peer *peer, const struct service_put *put,
                 const struct store_id *id);
void explain_job(const struct job *job, const struct call_compile *ask, struct writer *out);
uint64_t explain_compile_miss(struct call *call);
void explain_source(struct service *s, uint64_t miss, const struct writer *recipe);
void explain_made(struct service *s, const struct history_made *made, const struct writer *recipe);
/* What a compile read: in which line a header is not what it was. */
void explain_lines(struct service *s, uint64_t miss, const struct compile_done *done);
void explain_failed(struct service *s, uint64_t miss, const struct err *e);
/* What the asker has is none of the manifest's alternatives: in what it differs from the newest. */
void explain_headers(struct call *call, const struct manifest *m,
                     const struct wire_path_seen *states);
void explain_waited(struct service *s, const struct peer *peer, const struct err *e);

/* compile.c: what the flight calls for an ask that compiles. */
void compile_on_turn(struct call *call);
void compile_on_result(struct call *call, struct artifact *result);
/* Lets go of what the call has of a compile. */
void compile_drop(struct call *call);
/* What runs for this flight is to be stored. */
void compile_keep(struct flight *f);
/* Nobody wants what runs for this flight any more. */
void compile_cancel(struct flight *f);
void compile_shutdown(struct service *s);
void negatives_clear(struct service *s);
/* attempt.c: ends what nobody will bring to an end. From time to time while anything is in flight. */
void attempts_tick(struct service *s);

#endif
