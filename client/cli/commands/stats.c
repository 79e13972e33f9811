/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stats.c - `warm stats`: prints the daemon's counters. --json prints the daemon's own JSON. main.c
 * calls it.
 *
 * Thread: main.
 */
#include <stdio.h>
#include <string.h>

#include "client/cli/json_reader.h"
#include "client/cli/remote.h"
#include "client/cli/units.h"

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

static void print_stats(struct view doc)
{
    char now[UNITS_TEXT], all[UNITS_TEXT] = "";
    struct view lifetime = {"", 0};
    json_reader_find(doc, "lifetime", &lifetime);
    printf("%-16s %12s %12s\n", "", "since start", "in total");
    rate_text(doc, now);
    rate_text(lifetime, all);
    printf("%-16s %12s %12s\n", "hit rate", now, all);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        number_text(doc, lines[i].field, lines[i].unit, now);
        if (lines[i].has_lifetime)
            number_text(lifetime, lines[i].field, lines[i].unit, all);
        printf(lines[i].has_lifetime ? "%-16s %12s %12s\n" : "%-16s %12s\n", lines[i].title, now,
               all);
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

static int stats_run(const struct command *self, int argc, char **argv)
{
    struct remote r = {0};
    struct answer answer;
    struct wire_text text;
    int status;
    if (!remote_options(&r, self, argc, argv, &status))
        return status;
    if (optind < argc)
        return cli_usage(self, "it takes no arguments");
    status = remote_open(&r);
    if (status)
        return status;
    status = remote_text(&r, WIRE_STATS, &answer, &text);
    if (!status && r.as_json) {
        fwrite(text.text.data, 1, text.text.len, stdout);
        putchar('\n');
    } else if (!status) {
        print_stats(text.text);
        print_kinds(text.text);
    }
    remote_close(&r);
    return status;
}

const struct command cmd_stats = {
    .name = "stats",
    .run = stats_run,
    .summary = "Show hits, misses, compiles and sizes",
    .synopsis = "[--json]",
    .help =
        "Prints the counters since the daemon's start and, in a second column, those of all its\n"
        "starts.\n\n" REMOTE_HELP
        "\n--json has hits, misses, compiles, coalesced, errors, corrupt, evictions, entries,\n"
        "bytes, max_bytes, saved_ms, hit_us_p50, hit_us_p99, uptime_s, kinds (each kind's own)\n"
        "and lifetime.\n\n"
        "Example:\n"
        "  $ warm stats --json | jq .saved_ms\n",
};
