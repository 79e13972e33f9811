/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stats.h - what the daemon counts, since it started and in its store's lifetime.
 *
 * Each counter is kept by kind of artifact. The lifetime is the sum over earlier daemons, which the store
 * remembers, and this one. It is written to the store once a minute, so SIGKILL loses at most the last
 * minute.
 *
 * Hit times go into a histogram of 16 steps for each power of two, so a percentile is right to 6 %.
 *
 * Thread: loop thread. Memory: embedded by its user.
 */
#ifndef WARM_DAEMON_SERVICE_STATS_H
#define WARM_DAEMON_SERVICE_STATS_H

#include <stdint.h>

#include "keygen/bytes.h"
#include "store/store.h"

/* The counters by their names in JSON. The lifetime record has them in this order: append only. */
#define STATS_LIST(X)                                                                              \
    X(hits)                                                                                        \
    X(misses)                                                                                      \
    X(compiles)          /* results of a compiler, good or bad, that this daemon made */           \
    X(coalesced)         /* requests that waited for another's work and got its result */          \
    X(errors)            /* requests that ended in an error of the daemon or the compiler */       \
    X(hedges)            /* a second asker was told to make a value that is late */                \
    X(puts)              /* values that clients stored */                                          \
    X(dropped)           /* values that could not be stored: no space, or a fault */               \
    X(saved_ms)          /* the time that making the hits would have cost */                       \
    X(audits)            /* hits that were made once more and compared (audit.c) */                \
    X(audit_differences) /* of these, those that yielded other bytes */                            \
    X(tier_hits)         /* entries that came from the tier (tier.h) */                            \
    X(tier_misses)       /* look-ups there that found nothing */                                   \
    X(tier_refused)      /* entries from there that did not count */                               \
    X(tier_sent)         /* entries that were sent there */                                        \
    X(tier_sent_bytes)   /* bytes of their values */                                               \
    X(tier_hit_bytes)    /* bytes of the values that came from there */                            \
    X(tier_errors)       /* questions and uploads that failed; no misses */                        \
    X(tier_timeouts)     /* of these kinds, those without an answer in time; not in tier_errors */ \
    X(tier_dropped)      /* entries that waited to be sent, and are not */                         \
    X(tier_leases)       /* keys that this daemon made for all nodes */                            \
    X(tier_waits)        /* keys that another node made meanwhile */                               \
    X(tier_hedges)       /* keys that were made beside a node that was late */                     \
    X(tier_races)        /* askers that made what another node makes, since it is cheap */         \
    X(tier_late)         /* askers whose budget ended before the answer */                         \
    X(tier_overtook)     /* values from there that came before those that were being made */       \
    X(internal_hits)     /* of notes and manifests: no result of its own */                        \
    X(internal_misses)   /* of notes */                                                            \
    X(internal_puts)     /* the same */

enum stats_counter {
#define X(name) STATS_##name,
    STATS_LIST(X)
#undef X
        STATS_COUNTERS
};

#define STATS_KINDS 11u
#define STATS_TIME_STEPS 640u /* 16 for each of 40 powers of two nanoseconds */

/* Times by kind, since the start, in steps of powers of four: 2^16 ns (66 us) to 2^40 ns (18 min). */
#define STATS_POWER_MIN 16u
#define STATS_POWER_MAX 40u
#define STATS_POWERS                                                                               \
    ((STATS_POWER_MAX - STATS_POWER_MIN) / 2 + 2) /* the last one is for longer times */
/* Times of hits by kind: 2^10 ns (1 us) to 2^30 ns (1 s), and longer ones. */
#define STATS_HIT_POWER_MIN 10u
#define STATS_HIT_POWERS 12u
struct stats_times {
    uint64_t n[STATS_KINDS][STATS_POWERS];
    uint64_t ns_sum[STATS_KINDS];
};

struct stats {
    uint64_t now[STATS_COUNTERS][STATS_KINDS];    /* since start */
    uint64_t before[STATS_COUNTERS][STATS_KINDS]; /* of earlier daemons on this store */
    uint64_t evictions_before, corrupt_before;
    uint64_t hit_times[STATS_TIME_STEPS]; /* by duration */
    uint64_t hit_kind_times[STATS_KINDS][STATS_HIT_POWERS];
    uint64_t hit_ns_sum[STATS_KINDS];
    struct stats_times put_times;     /* from the queue of the store to the commit */
    struct stats_times compile_times; /* of the daemon's compiles, and what clients say of theirs */
    uint64_t started_ms;              /* monotonic clock */
    uint64_t saved_sum;               /* of all counters when they were last written */
};

/* Zeroes all counters; `now_ms` is the start on the monotonic clock. */
void stats_init(struct stats *s, uint64_t now_ms);
/* Loads the counters of earlier daemons from the store. */
void stats_load(struct stats *s, struct store *store);
/* Writes the lifetime to the store, if it changed. */
void stats_save(struct stats *s, struct store *store);

/* Adds to a counter of one kind. */
static inline void stats_add(struct stats *s, enum stats_counter what, enum store_kind kind,
                             uint64_t n)
{
    s->now[what][(unsigned)kind < STATS_KINDS ? kind : STORE_OTHER] += n;
}

/* Adds `n` hits of a kind, of `ns` nanoseconds each, from the arrival of the bytes to the departure of the
 * reply. */
void stats_add_hit_time(struct stats *s, enum store_kind kind, uint64_t ns, uint64_t n);
/* Adds one time of a kind. */
void stats_add_time(struct stats_times *times, enum store_kind kind, uint64_t ns);
/* Returns the step of the histogram that a duration belongs to. */
unsigned stats_step(uint64_t ns);
/* Returns the time in microseconds that `percent` of the hits did not exceed; 0 if there were
 * none. */
double stats_hit_us(const struct stats *s, double percent);
/* Returns the sum over all kinds in the store's lifetime. */
uint64_t stats_lifetime(const struct stats *s, enum stats_counter what);
/* Returns the sum over all kinds since the start. */
uint64_t stats_total(const struct stats *s, enum stats_counter what);

/* Writes the members of STATS's JSON object, `lifetime` and `kinds` among them, without its
 * braces. */
void stats_write_members(const struct stats *s, const struct store_stats *store, uint64_t now_ms,
                         struct writer *out);

#endif
