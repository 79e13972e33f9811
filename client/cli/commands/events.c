/* SPDX-License-Identifier: Apache-2.0 */
/*
 * events.c - `warm events`: prints what happens in the daemon, a line of JSON each, until it is interrupted. It
 * asks for new events twice a second (daemon/history/feed.c), so a slow reader of its output
 * delays nobody. main.c calls it.
 *
 * Thread: main.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "client/cli/json_reader.h"
#include "client/cli/remote.h"

#define POLL_MS 500u
#define NUMBER_TEXT 24

/* What the daemon calls them (daemon/service/bookkeeping.c, daemon/history/history.c). */
static const char *const names[] = {
    "hit",    "compiled", "got another's compile",   "miss",   "put",
    "reason", "left",     "refused by the compiler", "failed", "error",
    NULL};

struct wanted {
    const char *field[3], *value[3]; /* NULL: any */
};

static bool is_wanted(const struct wanted *w, struct view event)
{
    char text[128];
    bool is = true;
    for (size_t i = 0; is && i < 3; i++) {
        json_reader_copy(event, w->field[i], text, sizeof text);
        is = !w->value[i] || strcmp(text, w->value[i]) == 0;
    }
    return is;
}

/* Refuses the names of events and kinds that no line will have. */
static int check_names(const struct command *self, const char *kind, const char *event)
{
    uint8_t number;
    if (kind && !wire_kind_from_name(kind, &number))
        return cli_usage(self, "unknown kind %s", kind);
    const char *const *name = names;
    while (event && *name && strcmp(*name, event) != 0)
        name++;
    return *name ? CLI_OK : cli_usage(self, "unknown event %s", event);
}

/* Prints what came after *number, and sets it. Returns an exit status. */
static int print_new(struct remote *r, const struct wanted *w, char number[NUMBER_TEXT])
{
    struct wire_text text;
    struct view events, event, next;
    struct wire_history question = {.of = WIRE_HISTORY_FEED, .id = view_of_text(number)};
    int status = remote_history(r, &question, &text);
    if (status)
        return status;
    if (!json_reader_find(text.text, "events", &events) ||
        !json_reader_find(text.text, "next", &next))
        return remote_fail(r, WARM_EMALFORMED);
    unsigned long long dropped = json_reader_count(text.text, "dropped");
    if (dropped)
        printf("{\"event\": \"dropped\", \"n\": %llu}\n", dropped);
    while (json_reader_next(&events, &event))
        if (is_wanted(w, event))
            printf("%.*s\n", (int)event.len, (const char *)event.data);
    json_reader_text(next, number, NUMBER_TEXT);
    return fflush(stdout) ? CLI_FINDING : CLI_OK;
}

static int events_run(const struct command *self, int argc, char **argv)
{
    struct wanted w = {.field = {"session", "kind", "event"}};
    struct remote r = {0};
    char number[NUMBER_TEXT] = "";
    bool once = false;
    int status;
    const struct cli_option options[] = {{"session", '\0', cli_take_text, &w.value[0], "an ID"},
                                         {"kind", '\0', cli_take_text, &w.value[1], "a kind"},
                                         {"event", '\0', cli_take_text, &w.value[2], "a name"},
                                         {"once", '\0', NULL, &once, NULL},
                                         REMOTE_ROWS(r),
                                         {0}};
    if (!cli_options(self, argc, argv, options, &status))
        return status;
    if ((status = check_names(self, w.value[1], w.value[2])) != CLI_OK)
        return status;
    if (once)
        strcpy(number, "0");
    if ((status = remote_open(&r)) != CLI_OK)
        return status;
    while ((status = print_new(&r, &w, number)) == CLI_OK && !once)
        nanosleep(&(struct timespec){.tv_nsec = POLL_MS * 1000000l}, NULL);
    remote_close(&r);
    return status;
}

const struct command cmd_events = {
    .name = "events",
    .takes_nothing = true,
    .run = events_run,
    .summary = "Print what happens in the daemon, a line of JSON each",
    .synopsis = "[--once] [--session ID] [--kind KIND] [--event NAME]",
    .help =
        "Print what happens in the daemon, a line of JSON each, until it is interrupted.\n"
        "\n"
        "You see what you do yourself; the administrator sees all users. NAME is hit, compiled,\n"
        "\"got another's compile\", miss, put, reason (why there was a miss), left (an entry was\n"
        "evicted or removed), \"refused by the compiler\", failed, error. The daemon keeps the "
        "newest\n"
        "4096 of all users; a line with the event \"dropped\" says how many came and went before\n"
        "they were asked for.\n"
        "\n"
        "      --once            print what the daemon still knows, and end\n"
        "      --session ID      of this session alone; --kind KIND, --event NAME likewise\n"
        "      --json            it is JSON anyway\n"
        "      --socket PATH     the daemon's socket ($WARM_SOCKET, or this user's default)\n"
        "  -h, --help            print this\n"
        "\n"
        "Example:\n"
        "  $ warm events --event reason\n"
        "  {\"time_ms\": 1795884312345, \"event\": \"reason\", \"uid\": 1000, \"kind\": \"cubin\", "
        "\"session\": "
        "\"3f2a27ad26a42bd1\", \"label\": \"flash_attention.cu\", \"why\": \"differs: option "
        "--use_fast_math\"}\n",
};
