/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace.c - writes a session in the Trace Event format (JSON object form), which Perfetto and
 * chrome://tracing read. commands/report.c calls it.
 *
 *     "X" complete event   one request: `ts` and `dur` in microseconds
 *     "M" metadata         names of processes and lanes
 *
 * Complete events of one thread must nest, so that a lane is a thread.
 *
 * Thread: main.
 */
#include "client/cli/json_writer.h"
#include "client/cli/report/report.h"

static void begin_event(struct json *j, const char *name, const char *phase,
                        const struct report_event *e)
{
    json_open(j, '{');
    json_key(j, "name");
    json_text(j, name);
    json_key(j, "ph");
    json_text(j, phase);
    json_key(j, "pid");
    json_u64(j, e->pid);
    json_key(j, "tid");
    json_u64(j, e->lane);
}

static void name_place(struct json *j, const char *what, const char *text,
                       const struct report_event *e)
{
    begin_event(j, what, "M", e);
    json_key(j, "args");
    json_open(j, '{');
    json_key(j, "name");
    json_text(j, text);
    json_close(j, '}');
    json_close(j, '}');
}

static void write_args(struct json *j, const struct report_event *e)
{
    char reason[REPORT_TEXT];
    report_text(e->why, "reason", reason);
    json_key(j, "args");
    json_open(j, '{');
    json_key(j, "kind");
    json_text(j, e->kind);
    json_key(j, "key");
    json_text(j, e->key);
    json_key(j, "bytes");
    json_u64(j, e->bytes);
    json_key(j, "cost_ms");
    json_u64(j, e->cost_ms);
    if (*reason) {
        json_key(j, "reason");
        json_text(j, reason);
    }
    json_close(j, '}');
}

void report_trace(const struct report *report, FILE *out)
{
    struct json j = {.out = out};
    char name[REPORT_TEXT];
    json_open(&j, '{');
    json_key(&j, "displayTimeUnit");
    json_text(&j, "ms");
    json_key(&j, "otherData");
    json_open(&j, '{');
    json_key(&j, "session");
    json_text(&j, report->id);
    json_close(&j, '}');
    json_key(&j, "traceEvents");
    json_open(&j, '[');
    for (size_t i = 0; i < report->n_events; i++) {
        const struct report_event *e = &report->event[i];
        if (i == 0 || e->pid != e[-1].pid) {
            snprintf(name, sizeof name, "process %llu", (unsigned long long)e->pid);
            name_place(&j, "process_name", name, e);
        }
        if (i == 0 || e->pid != e[-1].pid || e->lane != e[-1].lane)
            name_place(&j, "thread_name", "requests", e);
        begin_event(&j, *e->label ? e->label : e->key, "X", e);
        json_key(&j, "cat");
        json_text(&j, report_what_names[e->what]);
        json_key(&j, "ts");
        json_u64(&j, e->at_us);
        json_key(&j, "dur");
        json_u64(&j, e->us ? e->us : 1);
        write_args(&j, e);
        json_close(&j, '}');
    }
    json_close(&j, ']');
    json_close(&j, '}');
}
