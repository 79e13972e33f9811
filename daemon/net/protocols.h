/* SPDX-License-Identifier: Apache-2.0 */
/*
 * protocols.h - the protocols of the daemon. The caller of server_start lists them in this order:
 * the first that takes a connection's first bytes has the connection.
 *
 * Thread: loop thread. Memory: static.
 */
#ifndef WARM_DAEMON_NET_PROTOCOLS_H
#define WARM_DAEMON_NET_PROTOCOLS_H

#include "daemon/net/connection.h"

extern const struct protocol native_protocol;
extern const struct protocol http_protocol;
extern const struct protocol redis_protocol; /* takes every connection */

#endif
