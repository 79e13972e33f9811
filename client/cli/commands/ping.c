/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ping.c - `warm ping`: asks the daemon for a sign of life, for health probes. The exit status
 * alone says whether it answered. main.c calls it.
 *
 * Thread: main.
 */
#include <stdio.h>

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
    struct json j;
    json_init(&j, stdout);
    json_open(&j, '{');
    json_key(&j, "daemon"), json_text(&j, conn->daemon);
    json_key(&j, "uid"), json_u64(&j, (uint64_t)conn->daemon_uid);
    json_key(&j, "socket"), json_text(&j, r->w->socket);
    json_key(&j, "us"), json_u64(&j, (uint64_t)(took_ms * 1e3));
    json_close(&j, '}');
}

static int ping_run(const struct command *self, int argc, char **argv)
{
    struct remote r = {0};
    int status;
    if (!remote_options(&r, self, argc, argv, &status))
        return status;
    if (optind < argc)
        return cli_usage(self, "it takes no arguments");
    double begun_ms = remote_clock_ms();
    status = remote_open(&r);
    if (status)
        return status;
    int code = request_connect(r.w);
    if (code)
        status = remote_fail(&r, code);
    else
        print_answer(&r, remote_clock_ms() - begun_ms);
    remote_close(&r);
    return status;
}

const struct command cmd_ping = {
    .name = "ping",
    .run = ping_run,
    .summary = "Ask the daemon for a sign of life",
    .synopsis = "[--json]",
    .help = "Exit status 0 if it answered, 3 if not. It waits as long as $WARM_TIMEOUT_MS says, or "
            "one\nsecond.\n\n" REMOTE_HELP "\nExample:\n"
            "  $ warm ping\n"
            "  warmd 0.1.0, uid 1000, at /run/user/1000/warm/warmd.sock: 0.31 ms\n",
};
