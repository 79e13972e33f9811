/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample.c - asks the daemon for its counters, and computes rates and rows of tables for `warm top`.
 * commands/top.c and screen.c call it.
 *
 * Thread: main.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/json_reader.h"
#include "client/cli/top/top.h"
#include "keygen/shown.h"

const struct top_layout top_layouts[TOP_TABLES] = {
    [TOP_KINDS] = {"kinds",
                   {{"KIND", TOP_COUNT, NULL},
                    {"HITS", TOP_COUNT, "hits"},
                    {"MISSES", TOP_COUNT, "misses"},
                    {"RATE", TOP_PERCENT, NULL},
                    {"COMPILE", TOP_COUNT, "compiles"},
                    {"PUTS", TOP_COUNT, "puts"},
                    {"SAVED", TOP_MS, "saved_ms"},
                    {"ENTRIES", TOP_COUNT, "entries"},
                    {"SIZE", TOP_BYTES, "bytes"}},
                   9,
                   1},
    [TOP_MAKING] = {"making",
                    {{"BEING MADE", TOP_COUNT, NULL},
                     {"USER", TOP_UID, "uid"},
                     {"BY", TOP_MAKER, NULL},
                     {"WAITERS", TOP_COUNT, "waiters"},
                     {"SINCE", TOP_MS, "ms"}},
                    5,
                    4},
    [TOP_USERS] = {"users",
                   {{"USER", TOP_COUNT, NULL},
                    {"CONNECTED", TOP_COUNT, "connections.used"},
                    {"CALLS", TOP_COUNT, "calls.used"},
                    {"LEASES", TOP_COUNT, "leases.used"},
                    {"COMPILES", TOP_COUNT, "compiles.used"},
                    {"SPACE", TOP_BYTES, "space.used"},
                    {"PINNED", TOP_BYTES, "pins.used"}},
                   7,
                   5},
    [TOP_TIER] = {"kinds",
                  {{"FROM THE TIER", TOP_COUNT, NULL},
                   {"CAME", TOP_COUNT, "tier_hits"},
                   {"SIZE", TOP_BYTES, "tier_hit_bytes"},
                   {"ABSENT", TOP_COUNT, "tier_misses"},
                   {"ERRORS", TOP_COUNT, "tier_errors"},
                   {"LATE", TOP_COUNT, "tier_timeouts"},
                   {"SENT", TOP_COUNT, "tier_sent"},
                   {"SIZE", TOP_BYTES, "tier_sent_bytes"},
                   {"DROPPED", TOP_COUNT, "tier_dropped"}},
                  9,
                  1},
};

/* ---- samples ---- */

static double number_of(struct view object, const char *path)
{
    struct view value;
    double n;
    return json_reader_find(object, path, &value) && json_reader_number(value, &n) ? n : -1;
}

static int ask(struct remote *r, enum wire_type type, struct wire_text *out)
{
    struct answer answer;
    uint64_t tag = request_begin(r->w);
    wire_put_empty(&r->w->request, type, tag);
    int code = request_ask(r->w, tag, NULL, 0, conn_now_ms() + DEADLINE_PERSON_ANSWER_MS, &answer);
    if (!code && (answer.frame.type != WIRE_TEXT || wire_get_text(&answer.frame, out, &r->w->err)))
        code = request_unexpected(r->w, &answer);
    return code;
}

static void read_stats(struct top *t, struct view stats, uint64_t now_ms)
{
    static const char *const names[] = {
#define X(name, title) #name,
        TOP_COUNTER_LIST(X)
#undef X
    };
    assert(now_ms >= t->at_ms); /* the monotonic clock */
    double seconds = (double)(now_ms - t->at_ms) / 1e3;
    for (size_t i = 0; i < TOP_COUNTERS; i++) {
        double n = number_of(stats, names[i]), more = n - t->counter[i];
        if (more < 0) /* another daemon, which began at zero */
            more = n;
        if (t->at_ms && seconds > 0)
            t->rate[i][t->n_samples % TOP_RATES] = more / seconds;
        t->counter[i] = n;
    }
    if (t->at_ms)
        t->n_samples++;
    t->at_ms = now_ms;
    t->entries = number_of(stats, "entries");
    t->bytes = number_of(stats, "bytes");
    t->max_bytes = number_of(stats, "max_bytes");
    t->uptime_s = number_of(stats, "uptime_s");
    t->hit_us_p50 = number_of(stats, "hit_us_p50");
    t->hit_us_p99 = number_of(stats, "hit_us_p99");
    struct view list, item;
    t->n_making = t->n_waiting = 0;
    if (!json_reader_find(stats, "making", &list))
        return;
    for (size_t i = 0; json_reader_item(list, i, &item); i++) {
        t->n_making++;
        t->n_waiting += (unsigned)json_reader_count(item, "waiters");
    }
}

int top_sample(struct top *t)
{
    struct wire_text text;
    int code = ask(&t->remote, WIRE_INFO, &text);
    if (code)
        return code;
    t->workers = number_of(text.text, "workers.running");
    t->busy = number_of(text.text, "workers.busy");
    t->queued = number_of(text.text, "workers.queued");
    code = ask(&t->remote, WIRE_STATS, &text);
    if (code)
        return code;
    t->stats.len = 0;
    writer_bytes(&t->stats, text.text.data, text.text.len);
    if (t->stats.failed)
        return WARM_ENOMEM;
    read_stats(t, (struct view){t->stats.data, t->stats.len}, conn_now_ms());
    return 0;
}

double top_rate(const struct top *t, enum top_counter what, size_t back)
{
    assert((unsigned)what < TOP_COUNTERS);
    if (back >= t->n_samples || back >= TOP_RATES)
        return 0;
    return t->rate[what][(t->n_samples - 1 - back) % TOP_RATES];
}

/* ---- rows ---- */

static double hit_rate(struct view json)
{
    double hits = number_of(json, "hits"), all = hits + number_of(json, "misses");
    return all > 0 ? 100 * hits / all : -1;
}

/* Finds the i-th row's JSON and name. */
static bool next_row(enum top_table which, struct view list, size_t i, struct view *out, char *name)
{
    struct view text;
    if (which != TOP_MAKING) {
        if (!json_reader_member(list, i, &text, out))
            return false;
        snprintf(name, TOP_TEXT, "%.*s", (int)text.len, (const char *)text.data);
        return true;
    }
    *name = '\0';
    if (!json_reader_item(list, i, out))
        return false;
    json_reader_copy(*out, "label", name, TOP_TEXT);
    if (!*name)
        json_reader_copy(*out, "key", name, TOP_TEXT);
    return true;
}

static const struct top *sorting; /* qsort hands nothing on */

static int compare_rows(const void *a, const void *b)
{
    const struct top_row *x = a, *y = b;
    size_t column = sorting->sort[sorting->table];
    double by = column ? y->number[column] - x->number[column] : 0; /* the largest first */
    int order = by > 0 ? 1 : by < 0 ? -1 : strcmp(x->name, y->name);
    return sorting->reversed ? -order : order;
}

void top_fill_rows(struct top *t)
{
    assert((unsigned)t->table < TOP_TABLES && t->sort[t->table] < top_layouts[t->table].n_columns);
    const struct top_layout *layout = &top_layouts[t->table];
    struct view list, json;
    char name[TOP_TEXT];
    t->n_rows = 0;
    if (!json_reader_find((struct view){t->stats.data, t->stats.len}, layout->name, &list))
        return;
    for (size_t i = 0; t->n_rows < TOP_ROWS && next_row(t->table, list, i, &json, name); i++) {
        struct top_row *row = &t->row[t->n_rows];
        /* without control characters, which a client may have put into a label */
        snprintf(row->name, sizeof row->name, "%s", name);
        row->name[shown_clean(row->name, strlen(row->name))] = '\0';
        if (*t->filter && !strstr(row->name, t->filter))
            continue;
        assert(layout->n_columns <= TOP_COLUMNS);
        for (size_t k = 1; k < layout->n_columns; k++) {
            const struct top_column *c = &layout->column[k];
            if (c->unit == TOP_PERCENT)
                row->number[k] = hit_rate(json);
            else if (c->unit == TOP_MAKER)
                row->number[k] = json_reader_is(json, "by", "\"client\"");
            else
                row->number[k] = number_of(json, c->field);
        }
        t->n_rows++;
    }
    sorting = t;
    qsort(t->row, t->n_rows, sizeof *t->row, compare_rows);
}

void top_number_text(enum top_unit unit, double n, char out[UNITS_TEXT])
{
    if (unit == TOP_UID && n < 0)
        snprintf(out, UNITS_TEXT, "another");
    else if (n < 0)
        snprintf(out, UNITS_TEXT, "-");
    else if (unit == TOP_BYTES)
        units_size_text((uint64_t)n, out);
    else if (unit == TOP_MS)
        units_span_text((uint64_t)n, out);
    else if (unit == TOP_MAKER)
        snprintf(out, UNITS_TEXT, "%s", n > 0 ? "program" : "warmd");
    else
        snprintf(out, UNITS_TEXT, unit == TOP_PERCENT ? "%.0f %%" : "%.0f", n);
}
