/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stats.c - `warm stats`: prints the daemon's counters; with --since, --user or --project its counters by
 * hour. --json prints the daemon's own JSON. main.c calls it.
 *
 * --reset keeps the present totals as an entry of the user; later calls show the difference from it.
 *
 * Thread: main.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/filter.h"
#include "client/cli/json_reader.h"
#include "client/cli/json_writer.h"
#include "client/cli/remote.h"
#include "client/cli/rows.h"
#include "client/cli/run/run.h"
#include "client/cli/units.h"
#include "keygen/quantity.h"

#define ZERO "warm:stats:zero" /* the entry of --reset */
#define ZERO_COST_MS 600000u   /* so that it is evicted late */
#define TOTALS_MAX 256u        /* users and projects in one table */
#define TEXT_MAX 64
#define HOUR_MS 3600000u

enum unit { COUNT, BYTES, MS, SECONDS, MICROSECONDS };

struct line {
    const char *title, *field;
    enum unit unit;
    bool has_lifetime;
};

static const struct line lines[] = {
    {"hits", "hits", COUNT, true},
    {"misses", "misses", COUNT, true},
    {"compiles", "compiles", COUNT, true},
    {"coalesced", "coalesced", COUNT, true},
    {"puts", "puts", COUNT, true},
    {"errors", "errors", COUNT, true},
    {"time saved", "saved_ms", MS, true},
    {"evictions", "evictions", COUNT, true},
    {"damaged values", "corrupt", COUNT, true},
    {"entries", "entries", COUNT, false},
    {"bytes", "bytes", BYTES, false},
    {"bytes at most", "max_bytes", BYTES, false},
    {"bytes on disk", "disk_bytes", BYTES, false},
    {"hit, median", "hit_us_p50", MICROSECONDS, false},
    {"hit, 99 %", "hit_us_p99", MICROSECONDS, false},
    {"uptime", "uptime_s", SECONDS, false},
};

static void number_text(struct view object, const char *field, enum unit unit, char out[UNITS_TEXT])
{
    struct view value;
    double n;
    if (!json_reader_find(object, field, &value) || !json_reader_number(value, &n) || n < 0)
        snprintf(out, UNITS_TEXT, "-");
    else if (unit == BYTES)
        units_size_text((uint64_t)n, out);
    else if (unit == MS || unit == SECONDS)
        units_span_text((uint64_t)(unit == MS ? n : n * 1000), out);
    else
        snprintf(out, UNITS_TEXT, unit == COUNT ? "%.0f" : "%.1f us", n);
}

/* Writes the share of requests that were hits: "75 %". */
static void rate_text(struct view object, char out[UNITS_TEXT])
{
    double hits = (double)json_reader_count(object, "hits");
    double all = hits + (double)json_reader_count(object, "misses") +
                 (double)json_reader_count(object, "coalesced");
    snprintf(out, UNITS_TEXT, all > 0 ? "%.0f %%" : "-", 100 * hits / (all > 0 ? all : 1));
}

/* Prints the counters: since the start, since --reset if there was one, and in all. */
static void print_stats(struct view doc, struct view zero)
{
    char now[UNITS_TEXT], all[UNITS_TEXT] = "", grown[UNITS_TEXT] = "";
    struct view lifetime = {"", 0}, then = {"", 0};
    json_reader_find(doc, "lifetime", &lifetime);
    bool was_reset = zero.len && json_reader_find(zero, "lifetime", &then);
    printf("%-16s %12s %12s%s\n", "", "since start", "in total", was_reset ? "  since reset" : "");
    rate_text(doc, now);
    rate_text(lifetime, all);
    printf("%-16s %12s %12s\n", "hit rate", now, all);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        number_text(doc, lines[i].field, lines[i].unit, now);
        if (!lines[i].has_lifetime) {
            printf("%-16s %12s\n", lines[i].title, now);
            continue;
        }
        number_text(lifetime, lines[i].field, lines[i].unit, all);
        if (was_reset) {
            unsigned long long a = json_reader_count(lifetime, lines[i].field),
                               b = json_reader_count(then, lines[i].field);
            unsigned long long n = a > b ? a - b : 0;
            if (lines[i].unit == MS)
                units_span_text(n, grown);
            else
                snprintf(grown, UNITS_TEXT, "%llu", n);
        }
        printf(was_reset ? "%-16s %12s %12s %12s\n" : "%-16s %12s %12s\n", lines[i].title, now, all,
               grown);
    }
}

static void print_kinds(struct view doc)
{
    struct view kinds, name, kind;
    if (!json_reader_find(doc, "kinds", &kinds))
        return;
    for (size_t i = 0; json_reader_member(kinds, i, &name, &kind); i++) {
        char hits[UNITS_TEXT], misses[UNITS_TEXT], entries[UNITS_TEXT], bytes[UNITS_TEXT];
        if (i == 0)
            printf("\n%-16s %12s %12s %12s %12s\n", "by kind", "hits", "misses", "entries",
                   "bytes");
        number_text(kind, "hits", COUNT, hits);
        number_text(kind, "misses", COUNT, misses);
        number_text(kind, "entries", COUNT, entries);
        number_text(kind, "bytes", BYTES, bytes);
        printf("%-16.*s %12s %12s %12s %12s\n", (int)name.len, (const char *)name.data, hits,
               misses, entries, bytes);
    }
}

/* Prints what each user has of the store, and may have. */
static void print_quotas(struct view doc)
{
    struct view users, name, user, space;
    char used[UNITS_TEXT], most[UNITS_TEXT];
    if (!json_reader_find(doc, "users", &users))
        return;
    for (size_t i = 0; json_reader_member(users, i, &name, &user); i++) {
        if (!json_reader_find(user, "space", &space))
            continue;
        unsigned long long limit = json_reader_count(space, "limit");
        units_size_text(json_reader_count(space, "used"), used);
        units_size_text(limit, most);
        printf("%suser %-11.*s %12s of %s\n", i ? "" : "\n", (int)name.len, (const char *)name.data,
               used, limit ? most : "all");
    }
}

/* ---- by hour ---- */

struct choice {
    uint64_t since_ms; /* Unix time; 0: all */
    int64_t uid;       /* -1: any */
    const char *project;
    bool reset;
};

enum { HITS, MISSES, COALESCED, ERRORS, SAVED_MS, SUMS };
static const char *const sum_names[SUMS] = {"hits", "misses", "coalesced", "errors", "saved_ms"};

/* The sums of the chosen rows of one user and project. */
struct total {
    unsigned long long uid, n[SUMS];
    char project[TEXT_MAX];
};

static struct total *total_of(struct total *totals, size_t *n, unsigned long long uid,
                              const char *project)
{
    for (size_t i = 0; i < *n; i++)
        if (totals[i].uid == uid && strcmp(totals[i].project, project) == 0)
            return &totals[i];
    if (*n == TOTALS_MAX)
        return &totals[*n - 1]; /* the last line has all others */
    totals[*n] = (struct total){.uid = uid};
    snprintf(totals[*n].project, TEXT_MAX, "%s", project);
    return &totals[(*n)++];
}

static size_t add_up(struct view doc, const struct choice *c, struct total *totals)
{
    struct view rest, row;
    size_t n = 0;
    if (!json_reader_find(doc, "usage", &rest))
        return 0;
    while (json_reader_next(&rest, &row)) {
        char project[TEXT_MAX];
        unsigned long long uid = json_reader_count(row, "uid");
        json_reader_copy(row, "project", project, sizeof project);
        if (json_reader_count(row, "hour_ms") + HOUR_MS <= c->since_ms ||
            (c->uid >= 0 && uid != (unsigned long long)c->uid) ||
            (c->project && strcmp(project, c->project) != 0))
            continue;
        struct total *t = total_of(totals, &n, uid, project);
        for (size_t i = 0; i < SUMS; i++)
            t->n[i] += json_reader_count(row, sum_names[i]);
    }
    return n;
}

static int by_saved(const void *a, const void *b)
{
    const struct total *x = a, *y = b;
    return (x->n[SAVED_MS] < y->n[SAVED_MS]) - (x->n[SAVED_MS] > y->n[SAVED_MS]);
}

static void print_totals(struct total *totals, size_t n)
{
    if (!n)
        puts("no requests");
    else
        printf("%-10s %-20s %9s %9s %9s %9s %9s %12s\n", "USER", "PROJECT", "HITS", "MISSES",
               "WAITS", "FAILED", "HIT RATE", "SAVED");
    if (n)
        qsort(totals, n, sizeof *totals, by_saved);
    for (size_t i = 0; i < n; i++) {
        const struct total *t = &totals[i];
        unsigned long long all = t->n[HITS] + t->n[MISSES] + t->n[COALESCED];
        char rate[UNITS_TEXT], saved[UNITS_TEXT];
        snprintf(rate, sizeof rate, all ? "%.0f %%" : "-",
                 100.0 * (double)t->n[HITS] / (double)(all + !all));
        units_span_text(t->n[SAVED_MS], saved);
        printf("%-10llu %-20s %9llu %9llu %9llu %9llu %9s %12s\n", t->uid,
               *t->project ? t->project : "-", t->n[HITS], t->n[MISSES], t->n[COALESCED],
               t->n[ERRORS], rate, saved);
    }
}

static void json_totals(const struct total *totals, size_t n)
{
    struct json j = {.out = stdout};
    json_open(&j, '[');
    for (size_t i = 0; i < n; i++) {
        json_open(&j, '{');
        json_key(&j, "uid"), json_u64(&j, totals[i].uid);
        json_key(&j, "project"), json_text(&j, totals[i].project);
        for (size_t k = 0; k < SUMS; k++)
            json_key(&j, sum_names[k]), json_u64(&j, totals[i].n[k]);
        json_close(&j, '}');
    }
    json_close(&j, ']');
}

static int stats_by_hour(struct remote *r, const struct choice *c)
{
    static struct total totals[TOTALS_MAX];
    struct wire_text text;
    int status = remote_history(r, &(struct wire_history){.of = WIRE_HISTORY_USAGE}, &text);
    if (status)
        return status;
    size_t n = add_up(text.text, c, totals);
    if (r->as_json)
        json_totals(totals, n);
    else
        print_totals(totals, n);
    return CLI_OK;
}

/* ---- all of it ---- */

/* Keeps the present totals for later calls. */
static int reset(struct remote *r)
{
    struct wire_text text;
    struct warm_put_options options = {.cost_ms = ZERO_COST_MS,
                                       .label = "counters at `warm stats --reset`"};
    int status = remote_text(r, WIRE_STATS, &text);
    if (status)
        return status;
    char *copy = malloc(text.text.len + 1);
    if (!copy)
        return remote_fail(r, WARM_ENOMEM);
    memcpy(copy, text.text.data, text.text.len);
    int code = warm_put(r->w, ZERO, strlen(ZERO), copy, text.text.len, &options);
    free(copy);
    return code ? remote_fail(r, code) : CLI_OK;
}

static int stats(struct remote *r)
{
    struct wire_text text;
    struct warm_value zero = {.data = NULL};
    if (!r->as_json && warm_get(r->w, ZERO, strlen(ZERO), 0, &zero))
        zero.len = 0;
    int status = remote_text(r, WIRE_STATS, &text);
    if (!status && r->as_json) {
        json_print(stdout, text.text);
    } else if (!status) {
        print_stats(text.text, (struct view){zero.data, zero.len});
        print_kinds(text.text);
        print_quotas(text.text);
    }
    warm_value_free(&zero);
    return status;
}

static int stats_run(const struct command *self, int argc, char **argv)
{
    struct remote r = {0};
    struct choice choice = {.uid = -1};
    int status;
    const struct cli_option options[] = {
        {"since", '\0', filter_take_since, &choice.since_ms, CLI_SPAN},
        {"user", '\0', filter_take_user, &choice.uid, FILTER_USER},
        {"project", '\0', cli_take_text, &choice.project, "a name"},
        {"reset", '\0', NULL, &choice.reset, NULL},
        REMOTE_ROWS(r),
        {0}};
    if (!cli_options(self, argc, argv, options, &status))
        return status;
    conn_administer(); /* looking is no use of the entries */
    run_daemon_wake(r.socket);
    status = remote_open(&r);
    if (status)
        return status;
    bool by_hour = choice.since_ms || choice.uid >= 0 || choice.project;
    status = choice.reset ? reset(&r) : by_hour ? stats_by_hour(&r, &choice) : stats(&r);
    remote_close(&r);
    return status;
}

const struct command cmd_stats = {
    .name = "stats",
    .takes_nothing = true,
    .run = stats_run,
    .summary = "Show hits, misses, compiles and sizes",
    .synopsis = "[--since SPAN] [--user USER] [--project NAME] [--reset] [--json]",
    .help =
        "Prints the counters since the daemon's start, those of all its starts, and those since\n"
        "--reset. With one of the first three options prints what each user and project asked\n"
        "instead. A project is what a program has in $WARM_PROJECT.\n\n"
        "      --since SPAN      in the last 30m, 12h or 7d, by whole hours\n"
        "      --user USER       of this user alone: a name or a number\n"
        "      --project NAME    of this project alone\n"
        "      --reset           begin a column of counters since now, for you alone\n" REMOTE_HELP
        "\n--json has hits, misses, compiles, coalesced, errors, corrupt, evictions, entries,\n"
        "bytes, max_bytes, saved_ms, hit_us_p50, hit_us_p99, uptime_s, kinds (each kind's own)\n"
        "and lifetime. By hour it is an array of objects: uid, project, hits, misses, coalesced,\n"
        "errors, saved_ms.\n\n"
        "Example:\n"
        "  $ warm stats --since 24h\n",
};
