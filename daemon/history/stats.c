/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stats.c - adds up counters over earlier daemons, finds percentiles of hit times, and writes their JSON.
 *
 * The lifetime record in the store, "stats": u32 version (1), u32 counters, u32 kinds, then
 * counters × kinds × u64, then u64 evictions and u64 corrupt. A reader uses the counters and kinds that
 * it knows of a longer or shorter record; it ignores a version that it does not know.
 *
 * service.c loads and saves; bookkeeping.c counts; inspect.c and redis.c ask for the figures.
 *
 * Thread: loop thread.
 */
#include "daemon/history/stats.h"

#include <assert.h>
#include <string.h>

#include "client/wire/wire.h"

#define STATS_RECORD "stats"
#define STATS_VERSION 1u
#define STATS_RECORD_MAX 4096u /* bytes: what the store takes */

static const char *const stats_names[STATS_COUNTERS] = {
#define X(name, help) #name,
    STATS_LIST(X)
#undef X
};

void stats_init(struct stats *s, uint64_t now_ms) { *s = (struct stats){.started_ms = now_ms}; }

/* ---- the lifetime ---- */

void stats_load(struct stats *s, struct store *store)
{
    uint8_t record[STATS_RECORD_MAX];
    size_t len;
    if (store_meta_get(store, STATS_RECORD, record, sizeof record, &len) != 0)
        return;
    struct reader r = reader_over(record, len);
    if (reader_u32(&r) != STATS_VERSION)
        return;
    uint32_t counters = reader_u32(&r), kinds = reader_u32(&r);
    for (uint32_t i = 0; i < counters && !r.failed; i++)
        for (uint32_t k = 0; k < kinds && !r.failed; k++) {
            uint64_t n = reader_u64(&r);
            if (i < STATS_COUNTERS && k < STATS_KINDS)
                s->before[i][k] = n;
        }
    s->evictions_before = reader_u64(&r);
    s->corrupt_before = reader_u64(&r);
}

void stats_save(struct stats *s, struct store *store)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < STATS_COUNTERS; i++)
        sum += stats_total(s, i);
    if (sum == s->saved_sum)
        return;
    struct store_stats counts;
    store_stats(store, &counts);
    struct writer w;
    writer_init(&w, STATS_RECORD_MAX);
    writer_u32(&w, STATS_VERSION);
    writer_u32(&w, STATS_COUNTERS);
    writer_u32(&w, STATS_KINDS);
    for (unsigned i = 0; i < STATS_COUNTERS; i++)
        for (unsigned k = 0; k < STATS_KINDS; k++)
            writer_u64(&w, s->before[i][k] + s->now[i][k]);
    writer_u64(&w, s->evictions_before + counts.n_evictions);
    writer_u64(&w, s->corrupt_before + counts.n_corrupt);
    if (!w.failed && store_meta_put(store, STATS_RECORD, w.data, w.len) == 0)
        s->saved_sum = sum;
    writer_close(&w);
}

uint64_t stats_total(const struct stats *s, enum stats_counter what)
{
    assert(what < STATS_COUNTERS);
    uint64_t sum = 0;
    for (unsigned k = 0; k < STATS_KINDS; k++)
        sum += s->now[what][k];
    return sum;
}

/* ---- hit times: step = 16 × the power of two + the four bits below the highest ---- */

unsigned stats_step(uint64_t ns)
{
    if (ns < 16)
        return (unsigned)ns;
    unsigned power = 63u - (unsigned)__builtin_clzll(ns);
    unsigned step = (power - 3) * 16 + (unsigned)(ns >> (power - 4) & 15);
    return step < STATS_TIME_STEPS ? step : STATS_TIME_STEPS - 1;
}

/* Returns the middle of a step, in nanoseconds. */
static double stats_step_ns(unsigned step)
{
    assert(step < STATS_TIME_STEPS);
    if (step < 16)
        return step;
    unsigned power = step / 16 + 3;
    return (double)(1ull << power) * (1.0 + ((double)(step % 16) + 0.5) / 16.0);
}

void stats_add_hit_time(struct stats *s, enum store_kind kind, uint64_t ns, uint64_t n)
{
    unsigned k = (unsigned)kind < STATS_KINDS ? kind : STORE_OTHER, power = 0;
    while (power < STATS_HIT_POWERS - 1 && ns > 1ull << (STATS_HIT_POWER_MIN + 2 * power))
        power++;
    s->hit_times[stats_step(ns)] += n;
    s->hit_kind_times[k][power] += n;
    s->hit_ns_sum[k] += ns * n;
}

void stats_add_time(struct stats_times *times, enum store_kind kind, uint64_t ns)
{
    unsigned k = (unsigned)kind < STATS_KINDS ? kind : STORE_OTHER, step = 0;
    while (step < STATS_POWERS - 1 && ns > 1ull << (STATS_POWER_MIN + 2 * step))
        step++;
    times->n[k][step]++;
    times->ns_sum[k] += ns;
}

double stats_hit_us(const struct stats *s, double percent)
{
    assert(percent > 0 && percent <= 100);
    uint64_t all = 0, seen = 0;
    for (unsigned i = 0; i < STATS_TIME_STEPS; i++)
        all += s->hit_times[i];
    for (unsigned i = 0; all && i < STATS_TIME_STEPS; i++) {
        seen += s->hit_times[i];
        if ((double)seen * 100.0 >= (double)all * percent)
            return stats_step_ns(i) / 1000.0;
    }
    return 0;
}

uint64_t stats_lifetime(const struct stats *s, enum stats_counter what)
{
    assert(what < STATS_COUNTERS);
    uint64_t sum = 0;
    for (unsigned k = 0; k < STATS_KINDS; k++)
        sum += s->now[what][k] + s->before[what][k];
    return sum;
}

/* ---- JSON ---- */

/* Writes "hits": 1, "misses": 2, … of one kind, or of all (kind < 0), with or without earlier
 * daemons. */
static void stats_write_counters(const struct stats *s, int kind, bool lifetime, struct writer *out)
{
    for (unsigned i = 0; i < STATS_COUNTERS; i++) {
        uint64_t n = 0;
        for (unsigned k = 0; k < STATS_KINDS; k++)
            if (kind < 0 || (unsigned)kind == k)
                n += s->now[i][k] + (lifetime ? s->before[i][k] : 0);
        writer_format(out, "%s\"%s\": %llu", i ? ", " : "", stats_names[i], (unsigned long long)n);
    }
}

static bool stats_kind_used(const struct stats *s, const struct store_stats *store, unsigned kind)
{
    uint64_t any = store->kind_entries[kind];
    for (unsigned i = 0; i < STATS_COUNTERS; i++)
        any |= s->now[i][kind] | s->before[i][kind];
    return any != 0;
}

static void stats_write_kinds(const struct stats *s, const struct store_stats *store, bool lifetime,
                              struct writer *out)
{
    bool first = true;
    writer_format(out, "\"kinds\": {");
    for (unsigned k = 0; k < STATS_KINDS; k++) {
        if (!stats_kind_used(s, store, k))
            continue;
        writer_format(out, "%s\"%s\": {", first ? "" : ", ", wire_kind_name(k));
        stats_write_counters(s, (int)k, lifetime, out);
        if (!lifetime)
            writer_format(out, ", \"entries\": %llu, \"bytes\": %llu",
                          (unsigned long long)store->kind_entries[k],
                          (unsigned long long)store->kind_bytes[k]);
        writer_u8(out, '}');
        first = false;
    }
    writer_u8(out, '}');
}

void stats_write_members(const struct stats *s, const struct store_stats *store, uint64_t now_ms,
                         struct writer *out)
{
    stats_write_counters(s, -1, false, out);
    writer_format(out,
                  ", \"corrupt\": %llu, \"evictions\": %llu, \"entries\": %llu, \"bytes\": %llu, "
                  "\"max_bytes\": %llu, \"disk_bytes\": %llu, ",
                  (unsigned long long)store->n_corrupt, (unsigned long long)store->n_evictions,
                  (unsigned long long)store->n_entries, (unsigned long long)store->n_bytes,
                  (unsigned long long)store->max_bytes, (unsigned long long)store->disk_bytes);
    writer_format(out, "\"hit_us_p50\": %.2f, \"hit_us_p99\": %.2f, \"uptime_s\": %llu, ",
                  stats_hit_us(s, 50), stats_hit_us(s, 99),
                  (unsigned long long)((now_ms - s->started_ms) / 1000));
    stats_write_kinds(s, store, false, out);
    writer_format(out, ", \"lifetime\": {");
    stats_write_counters(s, -1, true, out);
    writer_format(out, ", \"corrupt\": %llu, \"evictions\": %llu, ",
                  (unsigned long long)(s->corrupt_before + store->n_corrupt),
                  (unsigned long long)(s->evictions_before + store->n_evictions));
    stats_write_kinds(s, store, true, out);
    writer_u8(out, '}');
}
