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

/* The counters by their names in JSON, and their help in the metrics; NULL: they are not there. The lifetime record has
 * them in this order: append only. */
#define STATS_LIST(X)                                                                              \
    X(hits, "Requests that were answered from the store.")                                         \
    X(misses, "Requests whose answer was not in the store.")                                       \
    X(compiles, "Compiles that the daemon ran.")                                                   \
    X(coalesced, "Requests that got the result of another's compile.")                             \
    X(errors, "Requests that ended in an error.")                                                  \
    X(hedges, "Second compiles, begun because the first was late.")                                \
    X(puts, "Values that clients stored.")                                                         \
    X(dropped, "Values that could not be stored.")                                                 \
    X(saved_ms, NULL) /* the time that making the hits would have cost */                          \
    X(audits, "Hits that were compiled again and compared.")                                       \
    X(audit_differences, "Audits that found other bytes.")                                         \
    X(tier_hits, "Entries that came from the tier.")                                               \
    X(tier_misses, "Questions to the tier that found nothing.")                                    \
    X(tier_refused, "Entries of the tier that did not count.")                                     \
    X(tier_sent, "Entries that were sent to the tier.")                                            \
    X(tier_sent_bytes, NULL)                                                                       \
    X(tier_hit_bytes, NULL)                                                                        \
    X(tier_errors, "Questions and uploads to the tier that failed.")                               \
    X(tier_timeouts, "The same, without an answer in time.")                                       \
    X(tier_dropped, "Entries that waited to be sent, and are not.")                                \
    X(tier_leases, "Keys that were made here for all nodes.")                                      \
    X(tier_waits, "Keys that another node made meanwhile.")                                        \
    X(tier_hedges, "Keys made beside a node that was late.")                                       \
    X(tier_races, "Cheap keys made though another node makes them.")                               \
    X(tier_late, "Askers whose budget ended before the answer.")                                   \
    X(tier_overtook, "Values that came before those made here.")                                   \
    X(internal_hits, NULL) /* of notes and manifests: no result of its own */                      \
    X(internal_misses, NULL)                                                                       \
    X(internal_puts, NULL)

enum stats_counter {
#define X(name, help) STATS_##name,
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
