/* SPDX-License-Identifier: Apache-2.0 */
/*
 * redis_server.h - for suites that need a redis-server: one of the test's own, on loopback, that keeps
 * nothing and ends with the test.
 *
 * Thread: the test's own. Memory: the caller's.
 */
#ifndef WARM_TESTS_SUPPORT_REDIS_SERVER_H
#define WARM_TESTS_SUPPORT_REDIS_SERVER_H

#include <stdbool.h>
#include <sys/types.h>

struct redis_server {
    pid_t pid;
    int port;
    char url[64]; /* redis://127.0.0.1:PORT/1, or rediss://127.0.0.1:PORT */
};

/* Starts a server with one more option and its value, and waits until it listens. */
void redis_server_start(struct redis_server *s, const char *option, const char *value);
/* Starts a server that speaks TLS alone and shows NAME.crt of `folder` (engine_make_certificates). With `asks_client`
 * it wants a client's certificate, too. */
void redis_server_start_tls(struct redis_server *s, const char *folder, const char *name,
                            bool asks_client);
/* Starts a server that was stopped again, empty, on its port. */
void redis_server_restart(struct redis_server *s);
/* Kills the server. */
void redis_server_stop(struct redis_server *s);

#endif
