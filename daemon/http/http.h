/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http.h - the answer to one HTTP request: GET or HEAD of /metrics, for the sockets (http.c) and for the
 * loopback port (port.c).
 *
 * Thread: loop thread. Memory: none.
 */
#ifndef WARM_DAEMON_HTTP_HTTP_H
#define WARM_DAEMON_HTTP_HTTP_H

#include "daemon/service/service.h"

#define HTTP_HEAD_MAX 8192u /* bytes of a request */

/* True if the bytes have the empty line that ends a request. */
bool http_is_whole(const uint8_t *data, size_t len);
/* Writes the whole answer to a request. A request that is too long or malformed gets an error as its answer.
 * What the answer tells depends on `peer`. */
void http_answer(struct service *service, const struct peer *peer, const uint8_t *data, size_t len,
                 struct writer *out);

#endif
