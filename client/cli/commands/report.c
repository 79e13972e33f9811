/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report.c - `warm report`: writes a session's timeline, totals and misses as a web page, as JSON, or as a
 * trace for Perfetto. main.c calls it; client/cli/report/ has the parts.
 *
 * Thread: main.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/json_reader.h"
#include "client/cli/json_writer.h"
#include "client/cli/output.h"
#include "client/cli/report/report.h"
#include "client/cli/run/run.h"

enum format { HTML, JSON, TRACE, FORMATS };

struct options {
    const char *session, *compare, *output;
    enum format format;
};

static bool take_format(const char *text, void *to)
{
    static const char *const names[FORMATS] = {"html", "json", "trace"};
    for (unsigned i = 0; i < FORMATS; i++)
        if (strcmp(text, names[i]) == 0)
            return *(enum format *)to = i, true;
    return false;
}

static void write_view(FILE *out, struct view v) { fwrite(v.data, 1, v.len, out); }

/* Writes the daemon's own JSON of a session. */
static void write_session(const struct report *r, FILE *out)
{
    struct view misses = {"[]", 2};
    json_reader_find((struct view){r->misses.data, r->misses.len}, "misses", &misses);
    fprintf(out, "{\"schema\": %u, \"session\": ", JSON_SCHEMA);
    write_view(out, r->session);
    fputs(", \"events\": ", out);
    write_view(out, (struct view){r->pages.data, r->pages.len});
    fputs(", \"misses\": ", out);
    write_view(out, misses);
}

static void write_json(const struct report *r, const struct report *before, FILE *out)
{
    write_session(r, out);
    if (before) {
        fputs(", \"compare\": ", out);
        write_session(before, out);
        fputs("}", out);
    }
    fputs("}\n", out);
}

static int write_report(const struct options *o, const struct report *r,
                        const struct report *before)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    if (!out) {
        cli_say("no memory for a report");
        return CLI_USAGE;
    }
    if (o->format == HTML)
        report_html(r, before, out);
    else if (o->format == JSON)
        write_json(r, before, out);
    else
        report_trace(r, out);
    bool done = !ferror(out);
    done &= fclose(out) == 0;
    int status = CLI_USAGE;
    if (done)
        status = output_write(o->output ? o->output : "-", text, len);
    else
        cli_say("no memory for a report");
    free(text);
    return status;
}

static int report(struct remote *r, const struct options *o)
{
    struct report now = {.n_events = 0}, before = {.n_events = 0};
    run_daemon_wake(r->socket);
    int status = remote_open(r);
    if (!status)
        status = report_fetch(r, o->session, &now);
    if (!status && o->compare)
        status = report_fetch(r, o->compare, &before);
    if (!status)
        status = write_report(o, &now, o->compare ? &before : NULL);
    report_free(&now);
    report_free(&before);
    remote_close(r);
    return status;
}

static int report_run(const struct command *self, int argc, char **argv)
{
    struct remote r = {0};
    struct options o = {.session = ""};
    int status;
    const struct cli_option options[] = {
        {"session", '\0', cli_take_text, &o.session, "an ID"},
        {"compare", '\0', cli_take_text, &o.compare, "an ID"},
        {"format", '\0', take_format, &o.format, "a format: html, json or trace"},
        {"output", 'o', cli_take_text, &o.output, "a file"},
        REMOTE_ROWS(r),
        {0}};
    if (!cli_options(self, argc, argv, options, &status))
        return status;
    if (strlen(o.session) > WIRE_SESSION_MAX ||
        (o.compare && (!*o.compare || strlen(o.compare) > WIRE_SESSION_MAX)))
        return cli_usage(self, "the ID of a session has 1 to %u bytes", WIRE_SESSION_MAX);
    if (r.as_json)
        o.format = JSON;
    if (o.format == HTML && !o.output && isatty(STDOUT_FILENO))
        return cli_usage(self, "name a file for the page: -o report.html");
    return report(&r, &o);
}

const struct command cmd_report = {
    .name = "report",
    .takes_nothing = true,
    .run = report_run,
    .summary = "Write a page with the timeline of a run",
    .synopsis = "[--session ID] [--compare ID] [--format html|json|trace] [-o FILE]",
    .help =
        "Writes a page about what a session of `warm run` asked for. It has a timeline of each\n"
        "process, the cost of each compile, and totals by framework and kind. Each miss has its\n"
        "reason and its remedy. The page is one file without scripts, and needs no network.\n\n"
        "      --session ID      the session; `warm run --report` prints the ID. Default: the one\n"
        "                        that asked last\n"
        "      --compare ID      also show what differs from this session\n"
        "      --format FORMAT   html (default), json, or trace, which https://ui.perfetto.dev "
        "and\n"
        "                        chrome://tracing open\n"
        "  -o, --output FILE     write to FILE; default: standard output\n" REMOTE_HELP
        "\nThe daemon keeps the last 8192 requests of all sessions in memory.\n"
        "Exit status: 1 if the session is not known.\n\n"
        "Example:\n"
        "  $ warm run --report python train.py\n"
        "  $ warm report -o report.html\n",
};
