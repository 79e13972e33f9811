/* SPDX-License-Identifier: Apache-2.0 */
/*
 * summary.c - prints the line at the end of `warm run`: requests, hits and saved time of the session.
 * commands/run.c calls it.
 *
 * Thread: main.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "client/cli/json_reader.h"
#include "client/cli/remote.h"
#include "client/cli/run/run.h"

static void print_line(struct view session, const char *id, bool if_asked)
{
    unsigned long long gained_ms = json_reader_count(session, "gained_ms");
    unsigned long long errors = json_reader_count(session, "errors");
    unsigned long long unkept = json_reader_count(session, "unkept");
    if (json_reader_count(session, "asked") + unkept == 0) {
        if (!if_asked)
            cli_say("nothing was asked (session %s)", id);
        return;
    }
    char failed[48] = "", left[64] = "";
    if (errors)
        snprintf(failed, sizeof failed, ", %llu failed", errors);
    if (unkept)
        snprintf(left, sizeof left, ", %llu not kept (warm why)", unkept);
    unsigned long long hits = json_reader_count(session, "hits"),
                       misses = json_reader_count(session, "misses");
    fprintf(stderr,
            "warm: asked %llu: %llu hit%s, %llu coalesced, %llu miss%s%s%s; saved at least "
            "%llu.%02llu s "
            "(session %s)\n",
            json_reader_count(session, "asked"), hits, CLI_S(hits),
            json_reader_count(session, "coalesced"), misses, CLI_ES(misses), failed, left,
            gained_ms / 1000, gained_ms % 1000 / 10, id);
}

void run_summary(const struct run_places *places, bool if_asked)
{
    assert(places);
    struct remote r = {.socket = places->socket};
    struct wire_text text;
    struct view session;
    if (remote_open(&r) != 0)
        return; /* the reason is printed */
    struct wire_history question = {
        .of = WIRE_HISTORY_SESSION, .max_misses = 1, .id = view_of_text(places->session)};
    int status = remote_history(&r, &question, &text);
    if (status == CLI_FINDING && !if_asked)
        cli_say("nothing was asked (session %s)", places->session);
    else if (!status && json_reader_find(text.text, "session", &session))
        print_line(session, places->session, if_asked);
    remote_close(&r);
}
