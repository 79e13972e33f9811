/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server.h - for suites of tier/backends: servers of a test's own on loopback, which end with it.
 *
 *     server_start ─▶ uses s.port ─▶ server_stop
 *
 * Thread: the test's own. Memory: nothing is owned but the process.
 */
#ifndef WARM_TESTS_SUPPORT_SERVER_H
#define WARM_TESTS_SUPPORT_SERVER_H

#include <sys/types.h>

struct server {
    pid_t pid;
    int port;
};

/* Returns a port of loopback that nobody listens on now. */
int server_free_port(void);

/* Starts a program that prints its port as its first line. NULL ends `argv`. */
void server_start(struct server *s, const char *const *argv);
/* Starts a program that shall listen on s->port, and waits until it does. */
void server_start_on_port(struct server *s, const char *const *argv);
/* Ends it, and waits for its end. */
void server_stop(struct server *s);

/* Sends "GET /-/TEXT" to a server of ours, outside of what is tested. `out` gets the answer's body; NULL is fine. */
void server_tell(const struct server *s, const char *text, char *out, size_t cap);

/* Makes certificates in a folder: ca.crt, server.crt and .key for 127.0.0.1 and localhost, client.crt and .key, and
 * other.crt, an authority that signed none of these. */
void server_make_certificates(const char *folder);

#endif
