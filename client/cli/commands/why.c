/* SPDX-License-Identifier: Apache-2.0 */
/*
 * why.c - `warm why`: prints the reasons of misses, which the daemon has written down. --json
 * prints the daemon's own JSON. main.c calls it.
 *
 * Thread: main.
 */
#include <stdio.h>
#include <string.h>

#include "client/cli/import/nearest_form.h"
#include "client/cli/json_reader.h"
#include "client/cli/json_writer.h"
#include "client/cli/progress.h"
#include "client/cli/remote.h"
#include "client/cli/run/run.h"
#include "client/cli/units.h"

#define FIELD_MAX 520

/* ---- one miss ---- */

static void field(struct view miss, const char *name, char out[FIELD_MAX])
{
    json_reader_copy(miss, name, out, FIELD_MAX);
}

/* Prints the title of a miss: its label, else its name, else its key. */
static void print_title(struct view miss)
{
    static const char *const names[] = {"label", "name", "key"};
    char text[FIELD_MAX] = "";
    char when[UNITS_TEXT];
    units_time_text(json_reader_count(miss, "time_ms"), when);
    fputs(when, stdout);
    for (size_t i = 0; i < sizeof names / sizeof *names && !*text; i++)
        field(miss, names[i], text);
    if (*text)
        printf("  %s", text);
    field(miss, "hardware", text);
    if (*text)
        printf("  %s", text);
    field(miss, "kind", text);
    if (strcmp(text, "other") != 0)
        printf("  (%s)", text);
    putchar('\n');
}

/* True for a digest, "5e1f0a77c0129b3d" or "5e1f0a77c0129b3d (812 bytes)", which tells a person nothing. */
static bool is_digest(const char *text)
{
    size_t digits = strspn(text, "0123456789abcdef");
    return digits >= 16 && (!text[digits] || text[digits] == ' ');
}

/* Prints a difference: "option --std: c++17 → c++20"; an added or removed option has one side. Of contents it
 * prints only that they differ. */
static void print_change(struct view change, bool is_command)
{
    char part[FIELD_MAX], old[FIELD_MAX], now[FIELD_MAX];
    field(change, "part", part);
    field(change, "old", old);
    field(change, "new", now);
    if (strcmp(part, "input") == 0)
        fputs(is_command ? "its folder, environment or further options"
                         : "a part of its input that has no name",
              stdout);
    else if (is_digest(*old ? old : now) && is_digest(*now ? now : old))
        printf("%s, which %s", part, !*old ? "is new" : !*now ? "is gone" : "has changed");
    else if (strcmp(part, "option -O") == 0 && *old && *now)
        printf("option %s \xe2\x86\x92 %s", old, now);
    else
        printf("%s: %s \xe2\x86\x92 %s", part, *old ? old : "(none)", *now ? now : "(none)");
}

static void print_reason(const char *reason, bool colour)
{
    printf("    %s%s%s", colour ? "\033[1m" : "", reason, colour ? "\033[0m" : "");
}

/* Prints the first difference from the nearest form. False if none is known. */
static bool print_form(struct remote *r, struct view miss, const char *reason, bool colour)
{
    char name[FIELD_MAX], when[UNITS_TEXT];
    struct forms_change c;
    if (strcmp(reason, "cold") != 0 && strcmp(reason, "differs") != 0)
        return false;
    field(miss, "name", name);
    if (!*name)
        field(miss, "key", name);
    if (!forms_explain(r, view_of_text(name), &c))
        return false;
    units_time_text(c.made_ms, when);
    print_reason("differs", colour);
    const char *old = *c.old ? c.old : "(none)", *now = *c.now ? c.now : "(none)";
    printf(" from %s of %s: ", c.label, when);
    if (c.line)
        printf("%s \xe2\x86\x92 %s, line %zu", old, now, c.line);
    else
        printf("%s: %s \xe2\x86\x92 %s", c.option, old, now);
    if (c.n_lines > 1)
        printf(", and %zu more %s", c.n_lines - 1, c.n_lines == 2 ? "line" : "lines");
    putchar('\n');
    return true;
}

static void print_tier(const char *tier)
{
    if (*tier)
        printf("    the tier: %s\n", tier);
}

static void print_miss(struct remote *r, struct view miss, bool colour)
{
    char reason[FIELD_MAX], text[FIELD_MAX], tier[FIELD_MAX], kind[FIELD_MAX];
    struct view changes, change;
    print_title(miss);
    field(miss, "kind", kind);
    field(miss, "reason", reason);
    field(miss, "text", text);
    field(miss, "tier", tier);
    if (print_form(r, miss, reason, colour)) {
        print_tier(tier);
        return;
    }
    print_reason(reason, colour);
    if (*text)
        printf(": %s", text);
    else if (strcmp(reason, "cold") == 0)
        fputs(": nothing like it was made here before", stdout);
    if (json_reader_find(miss, "changes", &changes))
        for (size_t i = 0; json_reader_item(changes, i, &change); i++) {
            fputs(i ? "\n             " : " from the nearest entry in ", stdout);
            print_change(change, strcmp(kind, "manifest") == 0);
        }
    putchar('\n');
    print_tier(tier);
}

/* ---- all of them ---- */

static void print_history(struct remote *r, struct view doc)
{
    struct view session, misses, miss;
    bool colour = colour_wanted(stdout);
    char id[FIELD_MAX];
    if (json_reader_find(doc, "session", &session)) {
        field(session, "id", id);
        unsigned long long hits = json_reader_count(session, "hits"),
                           missed = json_reader_count(session, "misses");
        printf("session %s: asked %llu: %llu hit%s, %llu coalesced, %llu miss%s, %llu failed, "
               "%llu not kept\n",
               id, json_reader_count(session, "asked"), hits, CLI_S(hits),
               json_reader_count(session, "coalesced"), missed, CLI_ES(missed),
               json_reader_count(session, "errors"), json_reader_count(session, "unkept"));
    }
    if (json_reader_find(doc, "misses", &misses))
        for (size_t i = 0; json_reader_item(misses, i, &miss); i++)
            print_miss(r, miss, colour);
}

static int why(struct remote *r, const struct wire_history *ask)
{
    struct wire_text text;
    run_daemon_wake(r->socket);
    int status = remote_open(r);
    if (status)
        return status;
    status = remote_history(r, ask, &text);
    if (status == CLI_FINDING) {
        if (ask->of == WIRE_HISTORY_KEY)
            cli_say("%.*s: no miss of that is known", (int)ask->id.len, (const char *)ask->id.data);
        else
            cli_say("no miss is known%s",
                    ask->of == WIRE_HISTORY_SESSION ? " of that session" : "");
        status = CLI_FINDING;
    } else if (!status && r->as_json) {
        json_print(stdout, text.text);
    } else if (!status) {
        struct writer copy; /* the next question uses the connection's buffer */
        writer_init(&copy, 0);
        writer_bytes(&copy, text.text.data, text.text.len);
        if (copy.failed)
            status = remote_fail(r, WARM_ENOMEM);
        else
            print_history(r, (struct view){copy.data, copy.len});
        writer_close(&copy);
    }
    remote_close(r);
    return status;
}

static int why_run(const struct command *self, int argc, char **argv)
{
    struct remote r = {0};
    struct wire_history ask = {.of = WIRE_HISTORY_LAST, .id = {"", 0}};
    const char *session = NULL;
    bool last = false;
    int status;
    const struct cli_option options[] = {{"last", '\0', NULL, &last, NULL},
                                         {"session", '\0', cli_take_text, &session, "an ID"},
                                         REMOTE_ROWS(r),
                                         {0}};
    if (!cli_options(self, argc, argv, options, &status))
        return status;
    if (session)
        ask = (struct wire_history){.of = WIRE_HISTORY_SESSION, .id = view_of_text(session)};
    if ((optind < argc) + (ask.of == WIRE_HISTORY_SESSION) + last > 1 || argc - optind > 1)
        return cli_usage(self, "name one key, or --last, or one --session");
    if (optind < argc) {
        ask.of = WIRE_HISTORY_KEY;
        ask.id = (struct view){argv[optind], strlen(argv[optind])};
    }
    if (ask.id.len > WIRE_NAME_MAX)
        return cli_usage(self, "a key or session has at most %u bytes", WIRE_NAME_MAX);
    conn_administer(); /* looking is no use of the entries */
    return why(&r, &ask);
}

const struct command cmd_why = {
    .name = "why",
    .run = why_run,
    .summary = "Say why something was not in the cache",
    .synopsis = "[KEY | --last | --session ID]",
    .help =
        "Prints one reason for each miss: cold (nothing like it was made here), evicted (when,\n"
        "and why), differs (the part of its key that differs from the nearest entry: old → new),\n"
        "uncacheable, corrupt, disabled, timeout, failed. In a program of JAX, Triton or PyTorch, "
        "it is\n"
        "the first operation or option that differs.\n\n"
        "KEY is a key in hex, a name, or a label, for instance a file's name.\n\n"
        "      --last            the misses of the session that asked last: of the last\n"
        "                        `warm run`, or the last miss of all; this is the default\n"
        "      --session ID      those of one session; `warm run --report` prints the "
        "ID\n" REMOTE_HELP "\n--json has session (id, asked, hits, coalesced, misses, errors, "
        "unkept, saved_ms, gained_ms, …) and misses,\n"
        "the oldest first (time_ms, key, name, label, kind, hardware, compiler, reason, text, "
        "tier,\n"
        "changes: part, old, new).\n"
        "Exit status: 1 if no miss is known.\n\n"
        "Example:\n"
        "  $ warm why train.cu\n",
};
