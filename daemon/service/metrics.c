/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metrics.c - the daemon's counters in the text format of OpenMetrics 1.0, for Prometheus and its kin.
 * http/http.c calls it for GET /metrics.
 *
 * A label is a kind, a user's number or a state: never a name that a client chose. An administrator sees
 * all users' space, anybody else only their own.
 *
 * Thread: loop thread.
 */
#include "client/wire/version.h"
#include "daemon/nodes/tier.h"
#include "daemon/service/internal.h"

#define USERS_SHOWN 64u
#define REFUSED_COUNTED 64u

static void write_family(struct writer *out, const char *name, const char *type, const char *unit,
                         const char *help)
{
    writer_format(out, "# TYPE %s %s\n", name, type);
    if (unit)
        writer_format(out, "# UNIT %s %s\n", name, unit);
    writer_format(out, "# HELP %s %s\n", name, help);
}

static void write_counters(const struct stats *s, struct writer *out)
{
    static const char *const names[] = {
#define X(name, help) "warm_" #name,
        STATS_LIST(X)
#undef X
    };
    static const char *const helps[] = {
#define X(name, help) help,
        STATS_LIST(X)
#undef X
    };
    for (unsigned i = 0; i < STATS_COUNTERS; i++)
        if (helps[i]) {
            write_family(out, names[i], "counter", NULL, helps[i]);
            for (unsigned k = 0; k < STATS_KINDS; k++)
                if (s->now[i][k])
                    writer_format(out, "%s_total{kind=\"%s\"} %llu\n", names[i], wire_kind_name(k),
                                  (unsigned long long)s->now[i][k]);
        }
    write_family(out, "warm_saved_seconds", "counter", "seconds",
                 "Time that the hits would have taken to make.");
    for (unsigned k = 0; k < STATS_KINDS; k++)
        if (s->now[STATS_saved_ms][k])
            writer_format(out, "warm_saved_seconds_total{kind=\"%s\"} %.3f\n", wire_kind_name(k),
                          (double)s->now[STATS_saved_ms][k] / 1e3);
}

/* Writes the buckets of one kind: n counts of times up to 2^power ns, 2^(power + 2) ns, …; the last is of
 * longer ones. */
static void write_histogram(struct writer *out, const char *name, const char *kind,
                            const uint64_t *counts, unsigned n, unsigned power, uint64_t ns_sum)
{
    uint64_t seen = 0, all = 0;
    for (unsigned i = 0; i < n; i++)
        all += counts[i];
    if (all == 0)
        return;
    for (unsigned i = 0; i < n - 1; i++) {
        seen += counts[i];
        writer_format(out, "%s_bucket{kind=\"%s\",le=\"%.9g\"} %llu\n", name, kind,
                      (double)(1ull << (power + 2 * i)) / 1e9, (unsigned long long)seen);
    }
    writer_format(out,
                  "%s_bucket{kind=\"%s\",le=\"+Inf\"} %llu\n%s_count{kind=\"%s\"} %llu\n"
                  "%s_sum{kind=\"%s\"} %.9f\n",
                  name, kind, (unsigned long long)all, name, kind, (unsigned long long)all, name,
                  kind, (double)ns_sum / 1e9);
}

/* Writes one histogram for each kind that has any. */
static void write_times(const struct stats_times *times, const char *name, const char *help,
                        struct writer *out)
{
    write_family(out, name, "histogram", "seconds", help);
    for (unsigned k = 0; k < STATS_KINDS; k++)
        write_histogram(out, name, wire_kind_name(k), times->n[k], STATS_POWERS, STATS_POWER_MIN,
                        times->ns_sum[k]);
}

static void write_number(struct writer *out, const char *name, const char *unit, const char *help,
                         uint64_t value)
{
    write_family(out, name, "gauge", unit, help);
    writer_format(out, "%s %llu\n", name, (unsigned long long)value);
}

static void write_total(struct writer *out, const char *name, const char *help, uint64_t value)
{
    write_family(out, name, "counter", NULL, help);
    writer_format(out, "%s_total %llu\n", name, (unsigned long long)value);
}

static void write_store(struct store *from, struct writer *out)
{
    struct store_stats store;
    store_stats(from, &store);
    write_family(out, "warm_store_entries", "gauge", NULL, "Entries in the store.");
    for (unsigned k = 0; k < STATS_KINDS; k++)
        if (store.kind_entries[k])
            writer_format(out, "warm_store_entries{kind=\"%s\"} %llu\n", wire_kind_name(k),
                          (unsigned long long)store.kind_entries[k]);
    write_family(out, "warm_store_bytes", "gauge", "bytes", "Bytes of the entries' values.");
    for (unsigned k = 0; k < STATS_KINDS; k++)
        if (store.kind_entries[k])
            writer_format(out, "warm_store_bytes{kind=\"%s\"} %llu\n", wire_kind_name(k),
                          (unsigned long long)store.kind_bytes[k]);
    write_number(out, "warm_store_max_bytes", "bytes", "The limit (max_size).", store.max_bytes);
    write_number(out, "warm_store_disk_bytes", "bytes", "Room that the store takes on disk.",
                 store.disk_bytes);
    write_number(out, "warm_store_read_only", NULL, "1 if the disk is full or failing.",
                 store.read_only);
    static const char *const reasons[] = {
        [STORE_LEFT_FOR_ROOM] = "max_size",
        [STORE_LEFT_FOR_QUOTA] = "quota",
        [STORE_LEFT_EVICTED] = "asked",
    };
    write_family(out, "warm_evictions", "counter", NULL, "Entries that were evicted.");
    for (unsigned i = STORE_LEFT_FOR_ROOM; i <= STORE_LEFT_EVICTED; i++)
        writer_format(out, "warm_evictions_total{reason=\"%s\"} %llu\n", reasons[i],
                      (unsigned long long)store.left_entries[i]);
    write_family(out, "warm_evicted_bytes", "counter", "bytes", "Bytes of their values.");
    for (unsigned i = STORE_LEFT_FOR_ROOM; i <= STORE_LEFT_EVICTED; i++)
        writer_format(out, "warm_evicted_bytes_total{reason=\"%s\"} %llu\n", reasons[i],
                      (unsigned long long)store.left_bytes[i]);
    write_total(out, "warm_corrupt", "Damaged values that were found.", store.n_corrupt);
}

static void write_workers(struct pool *from, struct writer *out)
{
    struct pool_stats c;
    pool_stats(from, &c);
    write_family(out, "warm_workers", "gauge", NULL, "Compiler processes.");
    writer_format(out, "warm_workers{state=\"busy\"} %u\nwarm_workers{state=\"idle\"} %u\n",
                  c.n_busy, c.n_workers - c.n_busy);
    write_number(out, "warm_compile_queue", NULL, "Compiles that wait for a worker.", c.n_queued);
    write_total(out, "warm_worker_crashes", "Compiler processes that died.", c.n_crashes);
    write_total(out, "warm_worker_timeouts", "Compiles that took too long.", c.n_timeouts);
}

static void write_users(struct service *s, const struct peer *peer, struct writer *out)
{
    uint32_t uids[USERS_SHOWN] = {peer->uid};
    size_t n = peer->uid != PEER_NO_USER;
    write_family(out, "warm_user_disk_bytes", "gauge", "bytes", "Room that a user's entries take.");
    if (peer->is_admin)
        n = store_users(s->config.store, uids, USERS_SHOWN);
    for (size_t i = 0; i < n; i++) {
        struct store_share share = {0};
        store_share(s->config.store, uids[i], &share);
        writer_format(out, "warm_user_disk_bytes{uid=\"%u\"} %llu\n", (unsigned)uids[i],
                      (unsigned long long)share.disk_bytes);
    }
}

void service_write_metrics(struct service *s, const struct peer *peer, struct writer *out)
{
    write_family(out, "warm", "info", NULL, "The daemon.");
    writer_format(out, "warm_info{version=\"%s\"} 1\n", WARM_VERSION);
    write_family(out, "warm_uptime_seconds", "gauge", "seconds", "Time since the daemon started.");
    writer_format(out, "warm_uptime_seconds %.3f\n",
                  (double)(service_now_ms(s) - s->stats.started_ms) / 1e3);
    write_counters(&s->stats, out);
    write_family(out, "warm_hit_seconds", "histogram", "seconds",
                 "Time from a request's bytes to its answer, for hits.");
    for (unsigned k = 0; k < STATS_KINDS; k++)
        write_histogram(out, "warm_hit_seconds", wire_kind_name(k), s->stats.hit_kind_times[k],
                        STATS_HIT_POWERS, STATS_HIT_POWER_MIN, s->stats.hit_ns_sum[k]);
    write_times(&s->stats.put_times, "warm_put_seconds",
                "Time from a value's arrival to its commit.", out);
    write_times(
        &s->stats.compile_times, "warm_compile_seconds",
        "Time that it took to make a value: the daemon's compiles, and what clients say of theirs.",
        out);
    write_store(s->config.store, out);
    write_workers(s->config.pool, out);
    write_number(out, "warm_compiles_in_flight", NULL, "Keys that are being made now.",
                 flights_count(s->flights));
    tier_write_metrics(s->tier, out);
    struct toolchain_refusal list[REFUSED_COUNTED];
    size_t n = pool_refused(s->config.pool, peer->is_admin ? -1 : (int64_t)peer->uid, list,
                            REFUSED_COUNTED);
    write_number(out, "warm_toolchains_refused", NULL,
                 "Libraries that programs named, and that the daemon does not load.", n);
    write_users(s, peer, out);
    writer_format(out, "# EOF\n");
}
