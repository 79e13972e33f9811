/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http.c - the one thing that the daemon says over HTTP: GET /metrics, for Prometheus, curl and health
 * probes. net/connection.c hands a connection here if it begins with "GET /" or "HEAD /".
 *
 *     request (at most HTTP_HEAD_MAX bytes, up to an empty line) ──▶ one answer ──▶ the connection ends
 *
 * Anything else than GET or HEAD of /metrics gets its status and one line. A request has no body.
 *
 * Thread: loop thread.
 */
#include "daemon/http/http.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/net/connection.h"
#include "daemon/net/protocols.h"

#define METRICS_TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"

struct http {
    struct connection *connection;
};

/* Writes the head and, unless it was asked by HEAD, the body. */
static void put_answer(struct writer *out, const char *status, const char *type,
                       const struct writer *body, bool head_only)
{
    writer_format(out,
                  "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
                  "Connection: close\r\n\r\n",
                  status, type, body->len);
    if (!head_only)
        writer_bytes(out, body->data, body->len);
}

static void put_line(struct writer *out, const char *status, const char *line)
{
    struct writer body;
    writer_init(&body, 0);
    writer_format(&body, "%s\n", line);
    put_answer(out, status, "text/plain; charset=utf-8", &body, false);
    writer_close(&body);
}

static void put_metrics(struct service *service, const struct peer *peer, struct writer *out,
                        bool head_only)
{
    struct writer body;
    writer_init(&body, 0);
    service_write_metrics(service, peer, &body);
    if (body.failed)
        put_line(out, "503 Service Unavailable", "out of memory");
    else
        put_answer(out, "200 OK", METRICS_TYPE, &body, head_only);
    writer_close(&body);
}

bool http_is_whole(const uint8_t *data, size_t len)
{
    return memmem(data, len < HTTP_HEAD_MAX ? len : HTTP_HEAD_MAX, "\r\n\r\n", 4);
}

void http_answer(struct service *service, const struct peer *peer, const uint8_t *data, size_t len,
                 struct writer *out)
{
    bool head_only = view_begins((struct view){data, len}, "HEAD ");
    size_t at = head_only ? 5 : view_begins((struct view){data, len}, "GET ") ? 4 : 0;
    if (!http_is_whole(data, len))
        put_line(out, "431 Request Header Fields Too Large", "the request is too long");
    else if (!at)
        put_line(out, "405 Method Not Allowed", "this daemon answers GET and HEAD");
    else if (view_begins((struct view){data + at, len - at}, "/metrics ") ||
             view_begins((struct view){data + at, len - at}, "/metrics?"))
        put_metrics(service, peer, out, head_only);
    else
        put_line(out, "404 Not Found", "this daemon has /metrics");
}

/* True if the bytes begin an HTTP request. RESP has inline commands, and GET is one of them: a
 * name that begins with '/' cannot be asked for inline. */
static enum protocol_fit http_fits(const uint8_t *data, size_t len)
{
    static const char *const methods[] = {"GET /", "HEAD /"};
    for (size_t i = 0; i < 2; i++) {
        size_t n = strlen(methods[i]);
        if (memcmp(data, methods[i], len < n ? len : n) == 0)
            return len < n ? PROTOCOL_NEEDS_MORE : PROTOCOL_FITS;
    }
    return PROTOCOL_IS_OTHER;
}

static long http_on_bytes(void *state, const uint8_t *data, size_t len)
{
    struct http *h = state;
    assert(h->connection);
    if (len < HTTP_HEAD_MAX && !http_is_whole(data, len))
        return 0;
    connection_greeted(h->connection);
    http_answer(connection_service(h->connection), connection_peer(h->connection), data, len,
                connection_begin(h->connection));
    connection_commit(h->connection, NULL, 0);
    return -1;
}

static void *http_open(struct connection *c)
{
    struct http *h = malloc(sizeof *h);
    if (h)
        h->connection = c;
    return h;
}

static bool http_on_end(void *state)
{
    (void)state;
    return false;
}

static bool http_is_partial(const void *state)
{
    (void)state;
    return false;
}

static bool http_is_idle(const void *state)
{
    (void)state;
    return true;
}

const struct protocol http_protocol = {.fits = http_fits,
                                       .open = http_open,
                                       .on_bytes = http_on_bytes,
                                       .on_end = http_on_end,
                                       .is_partial = http_is_partial,
                                       .is_idle = http_is_idle,
                                       .on_close = free};
