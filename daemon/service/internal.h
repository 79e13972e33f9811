/* SPDX-License-Identifier: Apache-2.0 */
/*
 * internal.h - the state of the service, which the files of this folder share, and the functions of files
 * without a header of their own.
 *
 * Thread: loop thread. Memory: freed by service_free.
 */
#ifndef WARM_DAEMON_SERVICE_INTERNAL_H
#define WARM_DAEMON_SERVICE_INTERNAL_H

#include "daemon/history/history.h"
#include "daemon/process/loop_timer.h"
#include "daemon/service/service.h"

#define VERIFY_MAX 3u /* sources that are verified at once; libuv's pool has four threads */
#define NEGATIVES 64u /* compiler errors that are remembered */
#define NEGATIVE_BYTES_MAX (1u << 20) /* bytes of one of them */

struct negative {
    struct key key;
    struct proof proof;
    uint64_t expires_ms;
    struct artifact *artifact; /* NULL: the slot is empty */
};

/* A process asked for an entry in vain, without a lease: the last LOOKS of them. */
#define LOOKS 64u
struct recent_miss {
    struct store_id id;
    uint64_t miss, at_ms; /* number in the history; 0: none */
    uint32_t session;
    pid_t pid;
};

/* A user refused a value that was made here for another user. */
#define REFUSALS 1024u
#define REFUSALS_OF_USER 64u
struct refusal {
    uint32_t uid;
    struct key key, check;
    uint64_t at_ms; /* 0: a free place */
};

/* An entry that a client asked to have verified: the last VERIFIED of them. */
#define VERIFIED 64u
struct verified {
    struct store_id id;
    uint64_t at_ms;
};

struct service {
    struct service_config config;
    struct stats stats;
    struct history *history;
    struct flights *flights;
    struct flights
        *children;           /* of shared keys: a build that compiles, and those that wait for it */
    struct signers *signers; /* whose entries of a tier count */
    struct tier *tier;       /* NULL: none is configured */
    struct build *builds;    /* compiles that run */
    struct audit *audit;     /* the one that runs; NULL: none */
    uint32_t n_before_audit; /* hits until the next */
    struct build *verifying[VERIFY_MAX]; /* whose sources pool threads verify; NULL: a free place */
    struct pending_put *puts;            /* in the store's queue, the newest first */
    unsigned n_puts;
    unsigned n_preparing; /* values with the store's other threads, or in struct service_work */
    unsigned n_awaiting;  /* compiles whose compiler is being identified */
    struct negative negatives[NEGATIVES];
    unsigned next_negative;
    struct recent_miss looks[LOOKS];
    unsigned next_look;
    struct refusal refusals[REFUSALS];
    bool has_refusals;
    struct verified verified[VERIFIED];
    unsigned next_verified;
    struct loop_timer *tick;      /* runs while anything is in flight */
    struct loop_timer *save_tick; /* writes the lifetime counters, logs evictions */
    uint64_t logged_entries[STORE_LEFT_CAUSES], logged_bytes[STORE_LEFT_CAUSES];
    bool evicts_forms; /* forms.c */
    bool stopping;
};

/* Returns the loop's monotonic clock, in ms. */
static inline uint64_t service_clock_ms(const struct service *s) { return uv_now(s->config.loop); }

/* ---- refused.c ---- */

/* True if the user refused this value of an entry that was made here for another user. */
bool refused_by_user(const struct service *s, uint32_t uid, const struct key *key,
                     const struct key *check);
/* True if another user refused it. */
bool refused_by_another(const struct service *s, uint32_t uid, const struct key *key,
                        const struct key *check);
/* Remembers a user's refusal. */
void refused_note(struct service *s, uint32_t uid, const struct key *key, const struct key *check);
/* Forgets all users' refusals of a value. */
void refused_forget(struct service *s, const struct key *key, const struct key *check);
/* Finds what a compiler refused a short while ago (borrowed); NULL if nothing is known. */
struct artifact *negative_find(struct service *s, const struct key *key, const struct proof *proof);
/* Remembers a compiler's refusal for a short while. */
void negative_add(struct service *s, const struct key *key, const struct proof *proof,
                  struct artifact *a);
/* Forgets all refusals. */
void negatives_clear(struct service *s);

/* ---- tier_fetch.c ---- */

/* Polls, races and ends waits. */
void tier_fetches_tick(struct tier *t);
/* Ends all waits. */
void tier_fetches_stop(struct tier *t);

/* ---- audit.c ---- */

/* Chooses the first hit to audit. */
void audit_init(struct service *s);
/* True if the result of this hit must be compiled again and compared. */
bool audit_wanted(const struct ask *ask, const struct store_row *row);
/* Ends the audit that runs, if one does. */
void audit_shutdown(struct service *s);

#endif
