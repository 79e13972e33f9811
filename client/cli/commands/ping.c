/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ping.c - `warm ping`: asks the daemon for a sign of life, for health probes. The exit status
 * alone says whether it answered, and with --deep whether it can compile. main.c calls it.
 *
 * Thread: main.
 */
#include <stdio.h>

#include "client/cli/json_reader.h"
#include "client/cli/json_writer.h"
#include "client/cli/remote.h"

static void print_answer(const struct remote *r, double took_ms)
{
    const struct conn *conn = &r->w->conn;
    if (!r->as_json) {
        printf("%s, uid %u, at %s: %.2f ms\n", conn->daemon, (unsigned)conn->daemon_uid,
               r->w->socket, took_ms);
        return;
    }
    struct json j = {.out = stdout};
    json_open(&j, '{');
    json_key(&j, "daemon"), json_text(&j, conn->daemon);
    json_key(&j, "uid"), json_u64(&j, (uint64_t)conn->daemon_uid);
    json_key(&j, "socket"), json_text(&j, r->w->socket);
    json_key(&j, "us"), json_u64(&j, (uint64_t)(took_ms * 1e3));
    json_close(&j, '}');
}

/* Asks the daemon if it can compile. Prints its faults, and returns the exit status. */
static int ask_deep(struct remote *r)
{
    struct wire_text text;
    int status = remote_text(r, WIRE_INFO, &text);
    if (status || json_reader_is(text.text, "workers.spawner", "true"))
        return status;
    cli_say("the daemon at %s answers, but it compiles nothing: the process that starts its "
            "compilers is gone, and another one is not there yet",
            r->w->socket);
    return CLI_FINDING;
}

static int ping_run(const struct command *self, int argc, char **argv)
{
    struct remote r = {0};
    bool deep = false;
    int status;
    const struct cli_option options[] = {{"deep", '\0', NULL, &deep, NULL}, REMOTE_ROWS(r), {0}};
    if (!cli_options(self, argc, argv, options, &status))
        return status;
    double begun_ms = remote_clock_ms();
    status = remote_open(&r);
    if (status)
        return status;
    int code = request_connect(r.w);
    if (code)
        status = remote_fail(&r, code);
    else if (deep)
        status = ask_deep(&r);
    if (!status)
        print_answer(&r, remote_clock_ms() - begun_ms);
    remote_close(&r);
    return status;
}

const struct command cmd_ping = {
    .name = "ping",
    .takes_nothing = true,
    .run = ping_run,
    .summary = "Ask the daemon for a sign of life",
    .synopsis = "[--deep] [--json]",
    .help =
        "Exit status 0 if it answered, 3 if not. It waits as long as $WARM_TIMEOUT_MS says, or "
        "one\nsecond.\n\n"
        "      --deep            also whether it can compile; exit status 1 if not\n" REMOTE_HELP
        "\nExample:\n"
        "  $ warm ping\n"
        "  warmd 0.1.0, uid 1000, at /run/user/1000/warm/warmd.sock: 0.31 ms\n",
};
