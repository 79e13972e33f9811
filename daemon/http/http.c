/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http.c - the one thing that the daemon says over HTTP: GET /metrics, for Prometheus, curl and health
 * probes. net/connection.c hands a connection here if it begins with "GET /" or "HEAD /".
 *
 *     request (at most HEAD_MAX bytes, up to an empty line) ──▶ one answer ──▶ the connection ends
 *
 * Anything else than GET or HEAD of /metrics gets its status and one line. A request has no body.
 *
 * Thread: loop thread.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/net/connection.h"
#include "daemon/net/protocols.h"

#define HEAD_MAX 8192u
#define METRICS_TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"

struct http {
    struct connection *connection;
};

static bool begins(const uint8_t *data, size_t len, const char *text)
{
    return len >= strlen(text) && memcmp(data, text, strlen(text)) == 0;
}

/* Writes the head and, unless it was asked by HEAD, the body. */
static void answer(struct http *h, const char *status, const char *type, const struct writer *body,
                   bool head_only)
{
    struct writer *out = connection_begin(h->connection);
    writer_format(out,
                  "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
                  "Connection: close\r\n\r\n",
                  status, type, body->len);
    if (!head_only)
        writer_bytes(out, body->data, body->len);
    connection_commit(h->connection, NULL, 0);
}

static void answer_line(struct http *h, const char *status, const char *line)
{
    struct writer body;
    writer_init(&body, 0);
    writer_format(&body, "%s\n", line);
    answer(h, status, "text/plain; charset=utf-8", &body, false);
    writer_close(&body);
}

static void answer_metrics(struct http *h, bool head_only)
{
    struct writer body;
    writer_init(&body, 0);
    service_write_metrics(connection_service(h->connection), connection_peer(h->connection), &body);
    if (body.failed)
        answer_line(h, "503 Service Unavailable", "out of memory");
    else
        answer(h, "200 OK", METRICS_TYPE, &body, head_only);
    writer_close(&body);
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
    const uint8_t *end = memmem(data, len < HEAD_MAX ? len : HEAD_MAX, "\r\n\r\n", 4);
    if (!end && len < HEAD_MAX)
        return 0;
    connection_greeted(h->connection);
    bool head_only = begins(data, len, "HEAD ");
    const uint8_t *path = data + (head_only ? 5 : 4);
    assert(http_fits(data, len) == PROTOCOL_FITS && path < data + len); /* its first message */
    size_t left = len - (size_t)(path - data);
    if (!end)
        answer_line(h, "431 Request Header Fields Too Large", "the request is too long");
    else if (begins(path, left, "/metrics ") || begins(path, left, "/metrics?"))
        answer_metrics(h, head_only);
    else
        answer_line(h, "404 Not Found", "this daemon has /metrics");
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
