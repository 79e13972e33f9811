/* SPDX-License-Identifier: Apache-2.0 */
/*
 * port.c - the loopback port of GET /metrics. main.c opens and closes it; http.c writes the answers.
 *
 * A client's life: accept ──▶ bytes into `head` ──▶ a whole request, or a full `head` ──▶ one write
 * ──▶ close. A client that sends nothing is closed when PORT_CLIENTS others have come. A client that goes
 * away, or for which there is no memory, is closed at once.
 *
 * Thread: loop thread.
 */
#include "daemon/http/port.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/http/http.h"
#include "daemon/net/listener.h"

#define BACKLOG 16

struct port_client {
    uv_tcp_t tcp;
    struct port *port; /* NULL: closing */
    uv_write_t write;
    struct writer answer;
    size_t len;
    char head[HTTP_HEAD_MAX];
};

struct port {
    struct listener listener; /* not uv_listen, which accepts as long as others connect */
    uv_loop_t *loop;
    struct service *service;
    struct port_client *client[PORT_CLIENTS]; /* the oldest first */
    size_t n;
};

int port_address(const char *text, struct sockaddr_storage *out, struct err *e)
{
    char host[INET6_ADDRSTRLEN] = "127.0.0.1", *end;
    const char *colon = strrchr(text, ':'), *digits = colon ? colon + 1 : text;
    size_t len = colon ? (size_t)(colon - text) : 0;
    bool is_quoted = len > 2 && text[0] == '[' && text[len - 1] == ']';
    struct sockaddr_in *v4 = (struct sockaddr_in *)out;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;
    memset(out, 0, sizeof *out);
    unsigned long port = strtoul(digits, &end, 10);
    bool good = *digits >= '0' && *digits <= '9' && !*end && port > 0 && port <= 65535;
    if (len && len < sizeof host)
        snprintf(host, sizeof host, "%.*s", (int)(is_quoted ? len - 2 : len), text + is_quoted);
    else
        good &= !colon;
    if (good && !is_quoted && inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons((uint16_t)port);
        good = ntohl(v4->sin_addr.s_addr) >> 24 == 127;
    } else if (good && is_quoted && inet_pton(AF_INET6, host, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons((uint16_t)port);
        good = IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
    } else {
        good = false;
    }
    return good ? 0
                : err_set(e, WARM_EINVALID,
                          "metrics_listen: \"%s\" is no PORT, 127.0.0.1:PORT or [::1]:PORT; other "
                          "addresses are not of this machine alone",
                          text);
}

/* ---- clients ---- */

static void on_client_closed(uv_handle_t *handle)
{
    struct port_client *c = handle->data;
    writer_close(&c->answer);
    free(c);
}

static void client_close(struct port_client *c)
{
    struct port *p = c->port;
    size_t i = 0;
    if (!p)
        return;
    while (p->client[i] != c)
        i++;
    memmove(p->client + i, p->client + i + 1, (--p->n - i) * sizeof *p->client);
    c->port = NULL;
    uv_close((uv_handle_t *)&c->tcp, on_client_closed);
}

static void on_written(uv_write_t *write, int status)
{
    (void)status; /* a client that went away misses its answer */
    client_close(write->data);
}

static void on_room(uv_handle_t *handle, size_t wanted, uv_buf_t *out)
{
    struct port_client *c = handle->data;
    (void)wanted;
    *out = uv_buf_init(c->head + c->len, (unsigned)(sizeof c->head - c->len));
}

static void on_bytes(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct port_client *c = stream->data;
    (void)buf;
    if (n < 0) {
        client_close(c);
        return;
    }
    c->len += (size_t)n;
    assert(c->len <= sizeof c->head);
    if (c->len == sizeof c->head || http_is_whole((const uint8_t *)c->head, c->len)) {
        static const struct peer nobody = {.uid = PEER_NO_USER, .space = PEER_NO_USER};
        uv_read_stop((uv_stream_t *)&c->tcp);
        http_answer(c->port->service, &nobody, (const uint8_t *)c->head, c->len, &c->answer);
        uv_buf_t bytes = uv_buf_init((char *)c->answer.data, (unsigned)c->answer.len);
        c->write.data = c;
        if (c->answer.failed || uv_write(&c->write, (uv_stream_t *)&c->tcp, &bytes, 1, on_written))
            client_close(c);
    }
}

/* Takes a connection. */
static bool on_client(void *arg, int fd)
{
    struct port *p = arg;
    struct port_client *c = calloc(1, sizeof *c);
    if (!c || uv_tcp_init(p->loop, &c->tcp)) {
        free(c);
        close(fd);
        return true;
    }
    writer_init(&c->answer, 0);
    c->tcp.data = c;
    if (p->n == PORT_CLIENTS)
        client_close(p->client[0]);
    c->port = p;
    p->client[p->n++] = c;
    int rc = uv_tcp_open(&c->tcp, fd);
    if (rc)
        close(fd);
    if (rc || uv_read_start((uv_stream_t *)&c->tcp, on_room, on_bytes))
        client_close(c);
    return true;
}

/* ---- the port ---- */

static void on_port_closed(void *arg)
{
    struct port *p = arg;
    close(p->listener.fd);
    free(p);
}

/* Returns a socket that listens at an address, or -1 with errno. */
static int listen_at(const struct sockaddr_storage *address)
{
    int on = 1, fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t len =
        address->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        bind(fd, (const struct sockaddr *)address, len) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    int errnum = errno;
    if (fd >= 0)
        close(fd);
    errno = errnum;
    return -1;
}

int port_open(struct port **out, uv_loop_t *loop, struct service *service, const char *listen,
              struct err *e)
{
    struct sockaddr_storage address;
    int code = port_address(listen, &address, e);
    struct port *p = code ? NULL : calloc(1, sizeof *p);
    if (code)
        return code;
    if (!p)
        return err_set(e, WARM_ENOMEM, "no memory for a port");
    p->loop = loop;
    p->service = service;
    int fd = listen_at(&address);
    if (fd < 0)
        code = err_sys(e, WARM_EIO, errno, "metrics_listen %s", listen);
    else
        code = listener_start(&p->listener, loop, fd, on_client, p, e);
    if (code) {
        if (fd >= 0)
            close(fd);
        free(p);
        return code;
    }
    *out = p;
    return 0;
}

void port_close(struct port *p)
{
    if (!p)
        return;
    while (p->n)
        client_close(p->client[p->n - 1]);
    listener_close(&p->listener, on_port_closed);
}
