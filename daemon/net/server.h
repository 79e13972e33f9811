/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server.h - keeps all connections: who may connect, the buffers they share, and the turns of the loop.
 *
 * Connections share one input buffer, one output buffer and one parsed RESP command, so that an idle one
 * costs little. Only bytes that are left at the end of a turn move into a connection's own memory.
 *
 * Thread: loop thread. Memory: the server outlives its connections.
 */
#ifndef WARM_DAEMON_NET_SERVER_H
#define WARM_DAEMON_NET_SERVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "daemon/process/config.h"
#include "daemon/service/service.h"

struct server;
struct connection;
struct protocol;

struct server_config {
    uv_loop_t *loop;
    const struct config *config; /* max_connections and the like are read when they are needed */
    struct service *service;
    int listener_fd; /* borrowed */
    int admin_fd;    /* borrowed; -1: none */
    bool is_shared;  /* other users can connect to listener_fd: it admits no administrators */
    gid_t trust_group;
    const struct protocol *const *protocols; /* ends with NULL; the last takes every connection */
};

/* Begins to accept. Gives *out. Errors: NOMEM, IO. */
int server_start(struct server **out, const struct server_config *config, struct err *e);
/* Stops accepting connections. */
void server_stop_accepting(struct server *s);
/* True if no connection has anything left to send. */
bool server_is_quiet(const struct server *s);
/* Closes all connections; `on_closed` runs when the last handle is closed: then server_free. */
void server_close(struct server *s, void (*on_closed)(void *arg), void *arg);
/* Frees the server. Its handles must be closed. */
void server_free(struct server *s);
/* Returns the number of open connections. */
unsigned server_count(const struct server *s);

#endif
