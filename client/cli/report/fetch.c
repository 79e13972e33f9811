/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fetch.c - asks the daemon for a session, its events and its misses, and decides in which lane of its
 * process an event is drawn. commands/report.c calls it.
 *
 * Thread: main.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/json_reader.h"
#include "client/cli/report/report.h"

#define JSON_MAX (64u << 20) /* bytes of all events */
#define LANES_MAX 64u        /* of one process; further events share the last one */

const char *const report_what_names[REPORT_WHATS] = {"hit",   "wait", "compile", "make",
                                                     "lease", "miss", "error"};

void report_text(struct view object, const char *path, char out[REPORT_TEXT])
{
    json_reader_copy(object, path, out, REPORT_TEXT);
}

/* ---- questions ---- */

/* Asks for JSON, and keeps a copy. CLI_FINDING if the daemon knows nothing. */
static int ask(struct remote *r, const struct wire_history *question, struct writer *out)
{
    struct wire_text text;
    int status = remote_history(r, question, &text);
    if (status)
        return status;
    assert(!out->failed);
    out->len = 0;
    writer_bytes(out, text.text.data, text.text.len);
    return out->failed ? remote_fail(r, WARM_ENOMEM) : 0;
}

/* Asks for all pages of events; the first one tells the session. */
static int ask_events(struct remote *r, const char *id, struct report *out)
{
    struct writer page;
    struct view events;
    uint32_t next = 0;
    int status;
    writer_init(&page, JSON_MAX);
    do {
        struct wire_history question = {
            .of = WIRE_HISTORY_EVENTS, .max_misses = next, .id = {id, strlen(id)}};
        status = ask(r, &question, &page);
        struct view doc = {page.data, page.len};
        if (status || !json_reader_find(doc, "events", &events) || events.len < 2)
            break;
        if (!next) {
            writer_bytes(&out->json, page.data, page.len);
            writer_u8(&out->pages, '[');
        }
        if (out->pages.len > 1 && events.len > 2)
            writer_u8(&out->pages, ',');
        writer_bytes(&out->pages, (const char *)events.data + 1, events.len - 2);
        next = (uint32_t)json_reader_count(doc, "next");
    } while (next);
    writer_u8(&out->pages, ']');
    writer_close(&page);
    return status;
}

/* ---- events ---- */

/* Returns whose product an entry is, as its kind and label tell. */
static const char *framework_of(const struct report_event *e)
{
    static const struct {
        const char *label, *framework;
    } labels[] = {{"pt2:", "PyTorch"}, {"jax", "JAX"},     {"jit_", "JAX"},  {"g++ ", "g++"},
                  {"gcc ", "gcc"},     {"c++ ", "c++"},    {"cc ", "cc"},    {"nvcc ", "nvcc"},
                  {"ptxas ", "ptxas"}, {"clang", "clang"}, {"cupy", "CuPy"}, {"triton", "Triton"}};
    static const struct {
        const char *kind, *framework;
    } kinds[] = {{"fx-graph", "PyTorch"}, {"triton", "Triton"}, {"executable", "XLA"},
                 {"graph", "JAX"},        {"cubin", "CUDA"},    {"object", "host compiler"}};
    for (size_t i = 0; i < sizeof labels / sizeof *labels; i++)
        if (text_begins(e->label, labels[i].label))
            return labels[i].framework;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(e->kind, kinds[i].kind) == 0)
            return kinds[i].framework;
    return "other";
}

static enum report_what what_of(struct view event)
{
    char text[REPORT_TEXT];
    report_text(event, "what", text);
    for (unsigned i = 0; i < REPORT_WHATS; i++)
        if (strcmp(text, report_what_names[i]) == 0)
            return i;
    return REPORT_ERROR;
}

static void read_event(struct view json, struct report_event *e)
{
    *e = (struct report_event){.what = what_of(json),
                               .at_us = json_reader_count(json, "at_us"),
                               .us = json_reader_count(json, "us"),
                               .pid = json_reader_count(json, "pid"),
                               .cost_ms = json_reader_count(json, "cost_ms"),
                               .bytes = json_reader_count(json, "bytes"),
                               .miss = json_reader_count(json, "miss")};
    json_reader_copy(json, "kind", e->kind, sizeof e->kind);
    json_reader_copy(json, "key", e->key, sizeof e->key);
    report_text(json, "label", e->label);
    e->framework = framework_of(e);
}

static int compare_start(const void *a, const void *b)
{
    const struct report_event *x = a, *y = b;
    return (x->at_us > y->at_us) - (x->at_us < y->at_us);
}

static int compare_place(const void *a, const void *b)
{
    const struct report_event *x = a, *y = b;
    if (x->pid != y->pid)
        return (x->pid > y->pid) - (x->pid < y->pid);
    if (x->lane != y->lane)
        return (x->lane > y->lane) - (x->lane < y->lane);
    return compare_start(a, b);
}

/* Gives the events of one process, sorted by time, the first lane that is free. */
static void pack(struct report_event *e, size_t n)
{
    uint64_t end[LANES_MAX] = {0};
    for (size_t i = 0; i < n; i++) {
        assert(e[i].pid == e[0].pid && (i == 0 || e[i - 1].at_us <= e[i].at_us));
        while (e[i].lane + 1 < LANES_MAX && end[e[i].lane] > e[i].at_us)
            e[i].lane++;
        end[e[i].lane] = e[i].at_us + (e[i].us ? e[i].us : 1);
    }
}

static void place_events(struct report *out)
{
    qsort(out->event, out->n_events, sizeof *out->event, compare_start);
    out->began_us = out->n_events ? out->event[0].at_us : 0;
    for (size_t i = 0; i < out->n_events; i++) {
        struct report_event *e = &out->event[i];
        assert(e->at_us >= out->began_us);
        e->at_us -= out->began_us;
        if (e->at_us + e->us > out->us)
            out->us = e->at_us + e->us;
    }
    qsort(out->event, out->n_events, sizeof *out->event, compare_place);
    for (size_t from = 0, to = 0; from < out->n_events; from = to) {
        while (to < out->n_events && out->event[to].pid == out->event[from].pid)
            to++;
        pack(out->event + from, to - from);
    }
    qsort(out->event, out->n_events, sizeof *out->event, compare_place);
}

/* Lets each event know the JSON of its miss, which has its label. */
static void join_misses(struct report *out)
{
    struct view doc = {out->misses.data, out->misses.len}, rest, miss;
    if (!json_reader_find(doc, "misses", &rest))
        return;
    while (json_reader_next(&rest, &miss)) {
        uint64_t number = json_reader_count(miss, "number");
        for (size_t i = 0; number && i < out->n_events; i++) {
            struct report_event *e = &out->event[i];
            if (e->miss != number)
                continue;
            char label[REPORT_TEXT];
            e->why = miss;
            report_text(miss, "label", label);
            if (*label)
                memcpy(e->label, label, sizeof label);
            e->framework = framework_of(e);
        }
    }
}

static int read_events(struct report *out)
{
    struct view rest = {out->pages.data, out->pages.len}, item;
    size_t n = 0;
    while (json_reader_next(&rest, &item))
        n++;
    out->event = calloc(n ? n : 1, sizeof *out->event);
    if (!out->event)
        return WARM_ENOMEM;
    rest = (struct view){out->pages.data, out->pages.len};
    while (out->n_events < n && json_reader_next(&rest, &item))
        read_event(item, &out->event[out->n_events++]);
    assert(out->n_events == n); /* both walks find the same */
    uint64_t all = json_reader_count(out->session, "n_events");
    out->n_forgotten = all > n ? all - n : 0;
    place_events(out);
    join_misses(out);
    return 0;
}

int report_fetch(struct remote *r, const char *id, struct report *out)
{
    *out = (struct report){.n_events = 0};
    writer_init(&out->json, JSON_MAX);
    writer_init(&out->pages, JSON_MAX);
    writer_init(&out->misses, JSON_MAX);
    int status = ask_events(r, id, out);
    if (status == CLI_FINDING)
        cli_say(*id ? "no session %s is known" : "no session is known", id);
    if (status)
        return status;
    if (out->pages.failed ||
        !json_reader_find((struct view){out->json.data, out->json.len}, "session", &out->session))
        return remote_fail(r, WARM_ENOMEM);
    report_text(out->session, "id", out->id);
    status = ask(r, &(struct wire_history){.of = WIRE_HISTORY_SESSION, .id = view_of_text(out->id)},
                 &out->misses);
    if (status)
        return status;
    return read_events(out) ? remote_fail(r, WARM_ENOMEM) : 0;
}

void report_free(struct report *report)
{
    writer_close(&report->json);
    writer_close(&report->pages);
    writer_close(&report->misses);
    free(report->event);
}
