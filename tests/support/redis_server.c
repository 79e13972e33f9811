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

void redis_server_start_tls(struct redis_server *s, const char *folder, const char *name,
                            bool asks_client)
{
    struct engine engine = {.port = engine_free_port()};
    char port[8], ca[400], certificate[400], key[400];
    snprintf(port, sizeof port, "%d", engine.port);
    snprintf(ca, sizeof ca, "%s/ca.crt", folder);
    snprintf(certificate, sizeof certificate, "%s/%s.crt", folder, name);
    snprintf(key, sizeof key, "%s/server.key", folder);
    const char *const argv[] = {"redis-server",
                                "--port",
                                "0",
                                "--tls-port",
                                port,
                                "--bind",
                                "127.0.0.1",
                                "--save",
                                "",
                                "--logfile",
                                "/dev/null",
                                "--tls-auth-clients",
                                asks_client ? "yes" : "no",
                                "--tls-ca-cert-file",
                                ca,
                                "--tls-cert-file",
                                certificate,
                                "--tls-key-file",
                                key,
                                NULL};
    engine_start_on_port(&engine, argv);
    s->pid = engine.pid;
    s->port = engine.port;
    snprintf(s->url, sizeof s->url, "rediss://127.0.0.1:%d", s->port);
}

void redis_server_restart(struct redis_server *s) { run(s, "--maxclients", "100"); }

void redis_server_stop(struct redis_server *s)
{
    engine_stop(&(struct engine){.pid = s->pid, .port = s->port});
}
