/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine.h - for suites of tier/backends: engines (servers of S3, Redis, HTTP) of a test's own on loopback, which end with it.
 *
 *     engine_start ─▶ uses s.port ─▶ engine_stop
 *
 * Thread: the test's own. Memory: nothing is owned but the process.
 */
#ifndef WARM_TESTS_SUPPORT_ENGINE_H
#define WARM_TESTS_SUPPORT_ENGINE_H

#include <sys/types.h>

struct engine {
    pid_t pid;
    int port;
};

/* Returns a port of loopback that nobody listens on now. */
int engine_free_port(void);

/* Returns a connection to a port of loopback; -1 if nobody listens there. */
int engine_connect(int port);

/* Starts a program that prints its port as its first line. NULL ends `argv`. */
void engine_start(struct engine *s, const char *const *argv);
/* Starts a program that shall listen on s->port, and waits until it does. */
void engine_start_on_port(struct engine *s, const char *const *argv);
/* Ends it, and waits for its end. */
void engine_stop(struct engine *s);

/* Sends "GET /-/TEXT" to a server of ours, outside of what is tested. `out` gets the answer's body; NULL is fine. */
void engine_tell(const struct engine *s, const char *text, char *out, size_t cap);

/* Makes certificates in a folder: ca.crt, server.crt and .key for 127.0.0.1 and localhost, client.crt and .key, and
 * other.crt, an authority that signed none of these. With server.key: expired.crt, and elsewhere.crt for other.example. */
void engine_make_certificates(const char *folder);

#endif
