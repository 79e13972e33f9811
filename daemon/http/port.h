/* SPDX-License-Identifier: Apache-2.0 */
/*
 * port.h - a TCP port of this machine that answers GET /metrics and nothing else, if `metrics_listen` is
 * set.
 *
 *     connection (at most PORT_CLIENTS; a further one takes the place of the oldest)
 *         ──▶ request, up to an empty line ──▶ http_answer ──▶ the connection ends
 *
 * Every user of the machine can reach it, so it tells what a peer without a user may see: counters, and
 * no user's use. It listens on a loopback address alone.
 *
 * Thread: loop thread. Memory: its own, until its handles are closed after port_close.
 */
#ifndef WARM_DAEMON_HTTP_PORT_H
#define WARM_DAEMON_HTTP_PORT_H

#include <netinet/in.h>
#include <uv.h>

#include "daemon/service/service.h"

#define PORT_CLIENTS 16u

struct port;

/* Reads `PORT`, `127.0.0.1:PORT` or `[::1]:PORT`. INVALID for anything else, also for an address of a
 * network. */
int port_address(const char *text, struct sockaddr_storage *out, struct err *e);

/* Begins to listen. Gives *out; the service must live until port_close. Errors: INVALID, NOMEM, IO. */
int port_open(struct port **out, uv_loop_t *loop, struct service *service, const char *listen,
              struct err *e);
/* Closes the port and its connections; the loop must run until their handles are closed. NULL is
 * fine. */
void port_close(struct port *p);

#endif
