/* SPDX-License-Identifier: Apache-2.0 */
/*
 * redis_server.c - runs a redis-server for one test. Suites of the tier call it.
 *
 * Thread: the test's own.
 */
#include "tests/support/redis_server.h"

#include <stdio.h>

#include "tests/support/engine.h"

static void run(struct redis_server *s, const char *option, const char *value)
{
    struct engine engine = {.port = s->port};
    char port[8];
    snprintf(port, sizeof port, "%d", s->port);
    snprintf(s->url, sizeof s->url, "redis://127.0.0.1:%d/1", s->port);
    const char *const argv[] = {"redis-server", "--port", port,           "--bind", "127.0.0.1",
                                "--save",       "",       "--appendonly", "no",     "--logfile",
                                "/dev/null",    option,   value,          NULL};
    engine_start_on_port(&engine, argv);
    s->pid = engine.pid;
}

void redis_server_start(struct redis_server *s, const char *option, const char *value)
{
    s->port = engine_free_port();
    run(s, option, value);
}

void redis_server_restart(struct redis_server *s) { run(s, "--maxclients", "100"); }

void redis_server_stop(struct redis_server *s)
{
    engine_stop(&(struct engine){.pid = s->pid, .port = s->port});
}
