/* SPDX-License-Identifier: Apache-2.0 */
/*
 * html.c - writes a session as one HTML page: totals, a timeline, misses with advice, a comparison. The
 * page has no scripts, loads nothing, and its policy forbids both. Names come from users, so every text
 * is escaped. commands/report.c calls it.
 *
 * Thread: main.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/cli/json_reader.h"
#include "client/cli/report/report.h"
#include "client/cli/units.h"
#include "client/wire/version.h"

#define WIDTH 1000u /* of the timeline, in its own units */
#define LANE 12u    /* height of a lane */
#define GAP 8u      /* between processes */
#define NAMES 90u   /* width of the processes' names */
#define ROWS_MAX 500u

static const char head[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
    "'unsafe-inline'\">\n"
    "<meta name=\"viewport\" content=\"width=device-width\">\n<title>warm: session ";
static const char style[] =
    "</title>\n<style>\n"
    "body{font:14px/1.45 system-ui,sans-serif;margin:2em auto;max-width:1100px;padding:0 1em;"
    "color:#222;background:#fff}\n"
    "h1{font-size:1.4em}h2{font-size:1.1em;margin-top:2em}\n"
    "table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.25em .8em .25em 0;"
    "border-bottom:1px solid #ddd;vertical-align:top;overflow-wrap:anywhere}\n"
    "td.n,th.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}\n"
    ".big{display:flex;flex-wrap:wrap;gap:1em 2.5em}.big b{display:block;font-size:1.6em}\n"
    "small{color:#666}svg{width:100%;height:auto;background:#f6f6f6}svg text{font-size:9px;"
    "fill:#555}\n"
    ".hit{fill:#2a9d5c;background:#2a9d5c}.wait{fill:#e0a100;background:#e0a100}"
    ".compile{fill:#c8452f;background:#c8452f}.make{fill:#7a4fbf;background:#7a4fbf}\n"
    ".lease{fill:#b9a3e0;background:#b9a3e0}.miss{fill:#888;background:#888}.error{fill:#000;"
    "background:#000}\n"
    ".key span{display:inline-block;width:.8em;height:.8em;margin:0 .3em 0 1em}\n"
    "@media(prefers-color-scheme:dark){body{color:#ddd;background:#161616}svg{background:#222}"
    "svg text{fill:#aaa}th,td{border-color:#444}small{color:#999}.error{fill:#fff;background:#fff}"
    "}\n</style></head><body>\n";

/* ---- texts ---- */

/* Writes a text so that it is nothing but text, in elements and in quoted attributes. */
static void put(FILE *out, const char *text)
{
    for (; *text; text++) {
        switch (*text) {
        case '<': fputs("&lt;", out); break;
        case '>': fputs("&gt;", out); break;
        case '&': fputs("&amp;", out); break;
        case '"': fputs("&quot;", out); break;
        case '\'': fputs("&#39;", out); break;
        default: fputc(*text, out);
        }
    }
}

static void put_field(FILE *out, struct view object, const char *name)
{
    char text[REPORT_TEXT * 4];
    json_reader_copy(object, name, text, sizeof text);
    put(out, text);
}

static const char *span(uint64_t ms)
{
    static char text[UNITS_TEXT];
    units_span_text(ms, text);
    return text;
}

/* Returns microseconds for people; static memory. */
static const char *span_us(uint64_t us)
{
    static char text[UNITS_TEXT];
    if (us >= 1000000)
        units_span_text(us / 1000, text);
    else
        snprintf(text, sizeof text, us < 1000 ? "%.0f \xc2\xb5s" : "%.1f ms",
                 us < 1000 ? (double)us : (double)us / 1e3);
    return text;
}

static const char *size(uint64_t bytes)
{
    static char text[UNITS_TEXT];
    units_size_text(bytes, text);
    return text;
}

static const char *name_of(const struct report_event *e) { return *e->label ? e->label : e->key; }

/* ---- totals ---- */

static void put_big(FILE *out, const char *value, const char *title)
{
    fprintf(out, "<div><b>%s</b>%s</div>\n", value, title);
}

static void put_summary(const struct report *r, FILE *out)
{
    static const struct {
        const char *field, *title;
    } counts[] = {{"asked", "requests"}, {"hits", "hits"},     {"coalesced", "waits"},
                  {"misses", "misses"},  {"errors", "failed"}, {"unkept", "not kept"}};
    char text[40], when[UNITS_TEXT];
    struct view command;
    units_time_text(json_reader_count(r->session, "started_ms"), when);
    fputs("<h1>Session ", out);
    put(out, r->id);
    fputs("</h1>\n", out);
    if (json_reader_find(r->session, "command", &command) && command.len > 2) {
        fputs("<p><code>", out);
        put_field(out, r->session, "command");
        fputs("</code></p>\n", out);
    }
    fprintf(out, "<p>%s, %s from the first request to the last answer</p>\n<div class=big>", when,
            span_us(r->us));
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        snprintf(text, sizeof text, "%llu", json_reader_count(r->session, counts[i].field));
        put_big(out, text, counts[i].title);
    }
    unsigned long long hits = json_reader_count(r->session, "hits"),
                       all = hits + json_reader_count(r->session, "misses") +
                             json_reader_count(r->session, "coalesced");
    snprintf(text, sizeof text, all ? "%.0f %%" : "-", 100.0 * (double)hits / (double)(all + !all));
    put_big(out, text, "hit rate");
    put_big(out, span(json_reader_count(r->session, "gained_ms")), "saved, at least");
    fprintf(
        out,
        "</div>\n<p><small>Saved counts overlapping times once, such as those of an entry and of "
        "its part. Added up they are %s.</small></p>\n",
        span(json_reader_count(r->session, "saved_ms")));
    if (r->n_forgotten)
        fprintf(out,
                "<p><small>The daemon no longer knows %" PRIu64 " requests; totals by kind and "
                "the timeline are without them.</small></p>\n",
                r->n_forgotten);
}

struct total {
    const char *framework, *kind;
    uint64_t n[REPORT_WHATS], made_us, saved_ms, bytes;
};

static int compare_totals(const void *a, const void *b)
{
    const struct total *x = a, *y = b;
    int order = strcmp(x->framework, y->framework);
    return order ? order : strcmp(x->kind, y->kind);
}

static bool costs(enum report_what what)
{
    return what != REPORT_HIT && what != REPORT_MISS && what != REPORT_LEASE;
}

static void put_totals(const struct report *r, FILE *out)
{
    struct total total[64];
    size_t n = 0;
    for (size_t i = 0; i < r->n_events; i++) {
        const struct report_event *e = &r->event[i];
        size_t at = 0;
        while (at < n && (strcmp(total[at].framework, e->framework) != 0 ||
                          strcmp(total[at].kind, e->kind) != 0))
            at++;
        if (at == n && n == sizeof total / sizeof *total)
            continue;
        if (at == n)
            total[n++] = (struct total){.framework = e->framework, .kind = e->kind};
        total[at].n[e->what]++;
        total[at].made_us += costs(e->what) ? e->us : 0;
        total[at].saved_ms += e->what == REPORT_HIT ? e->cost_ms : 0;
        total[at].bytes += e->bytes;
    }
    qsort(total, n, sizeof *total, compare_totals);
    fputs("<h2>By framework and kind</h2>\n<table><tr><th>Framework<th>Kind<th class=n>Hits"
          "<th class=n>Waits<th class=n>Made<th class=n>Missed<th class=n>Failed<th class=n>Time "
          "spent<th class=n>Its hits took<th class=n>Size</tr>\n",
          out);
    for (size_t i = 0; i < n; i++) {
        const struct total *t = &total[i];
        fprintf(out, "<tr><td>%s<td>", t->framework);
        put(out, t->kind);
        fprintf(out,
                "<td class=n>%" PRIu64 "<td class=n>%" PRIu64 "<td class=n>%" PRIu64
                "<td class=n>%" PRIu64 "<td class=n>%" PRIu64,
                t->n[REPORT_HIT], t->n[REPORT_WAIT], t->n[REPORT_COMPILE] + t->n[REPORT_MAKE],
                t->n[REPORT_MISS] + t->n[REPORT_LEASE], t->n[REPORT_ERROR]);
        fprintf(out, "<td class=n>%s", span_us(t->made_us));
        fprintf(out, "<td class=n>%s", span(t->saved_ms));
        fprintf(out, "<td class=n>%s</tr>\n", size(t->bytes));
    }
    fputs("</table>\n", out);
}

/* ---- the timeline ---- */

static double x_of(const struct report *r, uint64_t us)
{
    return NAMES + (double)us / (double)(r->us ? r->us : 1) * (WIDTH - NAMES - 10);
}

static void put_bar(const struct report *r, const struct report_event *e, unsigned y, FILE *out)
{
    double width = x_of(r, e->us) - NAMES;
    fprintf(out, "<rect class=%s x=%.1f y=%u width=%.1f height=%u><title>",
            report_what_names[e->what], x_of(r, e->at_us), y, width < 1.5 ? 1.5 : width, LANE - 2);
    put(out, name_of(e));
    fprintf(out, "\n%s, %s", report_what_names[e->what], e->kind);
    fprintf(out, ", at %s", span_us(e->at_us));
    fprintf(out, ", %s", span_us(e->us));
    if (e->what == REPORT_HIT)
        fprintf(out, "; it took %s to make", span(e->cost_ms));
    fputs("</title></rect>\n", out);
}

/* Returns the height of the timeline: of the events before the `n`-th. */
static unsigned height(const struct report *r, size_t n)
{
    unsigned y = 4;
    for (size_t i = 1; i < n; i++)
        if (r->event[i].pid != r->event[i - 1].pid)
            y += LANE + GAP;
        else if (r->event[i].lane != r->event[i - 1].lane)
            y += LANE;
    return y;
}

static void put_timeline(const struct report *r, FILE *out)
{
    unsigned bottom = height(r, r->n_events) + LANE + 14, y = 4;
    fputs("<h2>Timeline</h2>\n<p class=key>One row for each process, more if it compiles side by "
          "side. Point at a bar for its name.<br>",
          out);
    for (unsigned i = 0; i < REPORT_WHATS; i++)
        fprintf(out, "<span class=%s></span>%s", report_what_names[i], report_what_names[i]);
    fprintf(out, "</p>\n<svg viewBox=\"0 0 %u %u\" role=img aria-label=Timeline>\n", WIDTH,
            bottom + 6);
    for (size_t i = 0; i < r->n_events; i++) {
        const struct report_event *e = &r->event[i];
        bool is_new = i == 0 || e->pid != e[-1].pid;
        if (i && is_new)
            y += LANE + GAP;
        else if (i && e->lane != e[-1].lane)
            y += LANE;
        if (is_new)
            fprintf(out, "<text x=4 y=%u>process %" PRIu64 "</text>\n", y + 8, e->pid);
        put_bar(r, e, y, out);
    }
    for (unsigned i = 0; i <= 4; i++) {
        uint64_t us = r->us * i / 4;
        fprintf(out, "<text x=%.1f y=%u text-anchor=%s>%s</text>\n", x_of(r, us), bottom,
                i == 0   ? "start"
                : i == 4 ? "end"
                         : "middle",
                span_us(us));
    }
    fputs("</svg>\n", out);
}

/* ---- misses ---- */

/* Returns what a user can do about a reason. */
static const char *advice(const char *reason)
{
    static const struct {
        const char *reason, *advice;
    } all[] = {
        {"cold", "Nothing: the next run has it. An archive of another machine brings it before the "
                 "first run (warm import)."},
        {"evicted",
         "Raise max_size or quota (warm config set max_size 50G), or pin it (warm pin)."},
        {"differs", "Expected if you changed this part. If not, see what sets it in this run."},
        {"uncacheable", "Without the named option or token it is kept."},
        {"corrupt", "It was made again. If it happens more than once: warm verify, and check the "
                    "disk."},
        {"disabled", "Unset the variable, or leave the option out."},
        {"timeout", "warm doctor tells how the daemon is; WARM_TIMEOUT_MS sets the limit."},
        {"failed",
         "It is here, and the daemon could not give it: warm doctor, and the daemon's log."},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i].reason, reason) == 0)
            return all[i].advice;
    return "";
}

static void put_reason(FILE *out, struct view miss)
{
    char reason[REPORT_TEXT];
    struct view changes, change;
    report_text(miss, "reason", reason);
    fputs("<td><b>", out);
    put(out, reason);
    fputs("</b> ", out);
    put_field(out, miss, "text");
    if (json_reader_find(miss, "changes", &changes))
        while (json_reader_next(&changes, &change)) {
            fputs("<br>", out);
            put_field(out, change, "part");
            fputs(": ", out);
            put_field(out, change, "old");
            fputs(" \xe2\x86\x92 ", out);
            put_field(out, change, "new");
        }
    fprintf(out, "<td>%s</tr>\n", advice(reason));
}

static const struct report_event *event_of(const struct report *r, uint64_t miss)
{
    for (size_t i = 0; i < r->n_events; i++)
        if (r->event[i].miss == miss)
            return &r->event[i];
    return NULL;
}

static void put_misses(const struct report *r, FILE *out)
{
    struct view rest, miss;
    size_t n = 0;
    fputs("<h2>Misses</h2>\n", out);
    if (!json_reader_find((struct view){r->misses.data, r->misses.len}, "misses", &rest))
        return;
    while (json_reader_next(&rest, &miss)) {
        if (n++ == 0)
            fputs("<table><tr><th>What<th>Kind<th class=n>Cost<th>Why<th>What to do</tr>\n", out);
        if (n <= ROWS_MAX) {
            const struct report_event *e = event_of(r, json_reader_count(miss, "number"));
            char label[REPORT_TEXT];
            report_text(miss, "label", label);
            if (!*label)
                report_text(miss, "name", label);
            if (!*label)
                report_text(miss, "key", label);
            fputs("<tr><td>", out);
            put(out, label);
            fputs("<td>", out);
            put_field(out, miss, "kind");
            fprintf(out, "<td class=n>%s", e && costs(e->what) ? span_us(e->us) : "-");
            put_reason(out, miss);
        }
    }
    fputs(n ? "</table>\n" : "<p>None.</p>\n", out);
    if (n > ROWS_MAX)
        fprintf(out, "<p>And %zu more: warm why --session ID.</p>\n", n - ROWS_MAX);
}

/* ---- comparison ---- */

static void put_change(FILE *out, const char *title, uint64_t before, uint64_t now, bool is_time)
{
    fprintf(out, "<tr><td>%s<td class=n>", title);
    if (is_time)
        fputs(span(before), out);
    else
        fprintf(out, "%" PRIu64, before);
    fputs("<td class=n>", out);
    if (is_time)
        fprintf(out, "%s</tr>\n", span(now));
    else
        fprintf(out, "%" PRIu64 "</tr>\n", now);
}

static const struct report_event *find_event(const struct report *r,
                                             const struct report_event *like, bool by_key)
{
    for (size_t i = 0; i < r->n_events; i++)
        if (by_key ? strcmp(r->event[i].key, like->key) == 0
                   : *like->label && strcmp(r->event[i].label, like->label) == 0)
            return &r->event[i];
    return NULL;
}

/* Lists the requests that had another outcome before. */
static void put_differences(const struct report *now, const struct report *before, FILE *out)
{
    unsigned n = 0;
    fputs("<table><tr><th>What<th>Before<th>Now</tr>\n", out);
    for (size_t i = 0; i < now->n_events && n < ROWS_MAX; i++) {
        const struct report_event *e = &now->event[i], *old = find_event(before, e, true);
        const char *then = old ? report_what_names[old->what] : "not asked for";
        if (old && (old->what == e->what))
            continue;
        if (!old && find_event(before, e, false))
            then = "another key under this name";
        else if (!old && e->what == REPORT_HIT)
            continue;
        n++;
        fputs("<tr><td>", out);
        put(out, name_of(e));
        fprintf(out, "<td>%s<td>%s</tr>\n", then, report_what_names[e->what]);
    }
    fputs("</table>\n", out);
    if (!n)
        fputs("<p>Each request had the same outcome.</p>\n", out);
}

static void put_comparison(const struct report *now, const struct report *before, FILE *out)
{
    static const struct {
        const char *field, *title;
        bool is_time;
    } rows[] = {{"asked", "requests", false},          {"hits", "hits", false},
                {"coalesced", "waits", false},         {"misses", "misses", false},
                {"errors", "failed", false},           {"unkept", "not kept", false},
                {"gained_ms", "saved, at least", true}};
    fputs("<h2>Compared with session ", out);
    put(out, before->id);
    fputs("</h2>\n<table><tr><th><th class=n>Before<th class=n>Now</tr>\n", out);
    put_change(out, "first request to last answer", before->us / 1000, now->us / 1000, true);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        put_change(out, rows[i].title, json_reader_count(before->session, rows[i].field),
                   json_reader_count(now->session, rows[i].field), rows[i].is_time);
    fputs("</table>\n<h2>What differs</h2>\n", out);
    put_differences(now, before, out);
}

void report_html(const struct report *report, const struct report *before, FILE *out)
{
    fputs(head, out);
    put(out, report->id);
    fputs(style, out);
    put_summary(report, out);
    if (report->n_events)
        put_timeline(report, out);
    put_misses(report, out);
    put_totals(report, out);
    if (before)
        put_comparison(report, before, out);
    fputs("<p><small>warm " WARM_VERSION "</small></p>\n</body></html>\n", out);
}
