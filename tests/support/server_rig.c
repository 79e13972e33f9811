/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server_rig.c - runs a server with its clients. The suites of daemon/net and daemon/native call it.
 *
 * Thread: the test's own.
 */
#include "tests/support/server_rig.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/wire/memfd.h"
#include "daemon/net/protocols.h"
#include "tests/support/support.h"

static struct sockaddr_un address_of(const struct server_rig *r, const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/%s", r->dir, name);
    return address;
}

static int listen_at(const struct server_rig *r, const char *name)
{
    struct sockaddr_un address = address_of(r, name);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    cr_assert_eq(chmod(address.sun_path, 0666), 0);
    cr_assert_eq(listen(fd, 64), 0);
    return fd;
}

void server_rig_prepare(struct server_rig *r)
{
    static const struct protocol *const protocols[] = {&native_protocol, &http_protocol,
                                                       &redis_protocol, NULL};
    service_rig_up(&r->base);
    r->server = NULL;
    r->dir = temp_dir_new();
    cr_assert_eq(chmod(r->dir, 0755), 0);
    r->listener = listen_at(r, "socket");
    r->admin = listen_at(r, "admin");
    r->config = (struct server_config){.loop = &r->base.loop,
                                       .config = &r->base.config,
                                       .service = r->base.service,
                                       .listener_fd = r->listener,
                                       .admin_fd = -1,
                                       .trust_group = PEER_NO_GROUP,
                                       .protocols = protocols};
}

void server_rig_start(struct server_rig *r)
{
    struct err e = {0};
    cr_assert_eq(server_start(&r->server, &r->config, &e), 0, "%s", e.text);
}

void server_rig_up(struct server_rig *r)
{
    server_rig_prepare(r);
    server_rig_start(r);
}

static void on_closed(void *arg)
{
    cr_expect_not(*(bool *)arg, "closed twice");
    *(bool *)arg = true;
}

void server_rig_close_server(struct server_rig *r)
{
    bool closed = false;
    server_close(r->server, on_closed, &closed);
    cr_expect_not(closed, "not from within the call");
    service_rig_until(&r->base, &closed);
    server_free(r->server);
    r->server = NULL;
}

void server_rig_down(struct server_rig *r)
{
    if (r->server)
        server_rig_close_server(r);
    close(r->listener);
    close(r->admin);
    service_rig_down(&r->base);
    temp_dir_free(r->dir);
}

void server_rig_turn(struct server_rig *r) { uv_run(&r->base.loop, UV_RUN_NOWAIT); }

/* ---- a client ---- */

static int connect_to(struct server_rig *r, const char *name)
{
    struct sockaddr_un address = address_of(r, name);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    cr_assert_eq(connect(fd, (struct sockaddr *)&address, sizeof address), 0, "%s: %s", name,
                 strerror(errno));
    return fd;
}

int server_rig_connect(struct server_rig *r) { return connect_to(r, "socket"); }
int server_rig_connect_admin(struct server_rig *r) { return connect_to(r, "admin"); }

int server_rig_connect_as(struct server_rig *r, uid_t uid)
{
    cr_assert_eq(seteuid(uid), 0); /* the kernel notes it at connect */
    int fd = connect_to(r, "socket");
    cr_assert_eq(seteuid(0), 0);
    return fd;
}

int server_rig_client(struct server_rig *r)
{
    unsigned before = server_count(r->server);
    int fd = server_rig_connect(r);
    SERVER_RIG_AWAIT(r, server_count(r->server) != before);
    cr_assert_eq(server_count(r->server), before + 1);
    return fd;
}

void server_rig_say(int fd, const char *text)
{
    cr_assert_eq(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

/* Receives like server_rig_receive; a descriptor that comes along goes to *out_fd, unless that is NULL. */
static size_t receive_with_fd(struct server_rig *r, int fd, uint8_t *out, size_t len, int *out_fd)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    size_t n = 0;
    while (n < len) {
        struct iovec iov = {out + n, len - n};
        struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
        ssize_t more;
        if (out_fd) {
            m.msg_control = &control;
            m.msg_controllen = sizeof control;
        }
        SERVER_RIG_AWAIT(r, (more = recvmsg(fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC)) >= 0 ||
                                errno != EAGAIN);
        cr_assert_geq(more, 0, "recvmsg: %s", strerror(errno));
        if (more == 0)
            return n;
        n += (size_t)more;
        struct cmsghdr *c = out_fd ? CMSG_FIRSTHDR(&m) : NULL;
        if (c && c->cmsg_type == SCM_RIGHTS)
            memcpy(out_fd, CMSG_DATA(c), sizeof *out_fd);
    }
    return n;
}

size_t server_rig_receive(struct server_rig *r, int fd, char *out, size_t len)
{
    return receive_with_fd(r, fd, (uint8_t *)out, len, NULL);
}

void server_rig_expect(struct server_rig *r, int fd, const char *want)
{
    char got[512] = "";
    server_rig_receive(r, fd, got, strlen(want));
    cr_assert_str_eq(got, want);
}

bool server_rig_is_ended(struct server_rig *r, int fd)
{
    char byte;
    SERVER_RIG_AWAIT(r, recv(fd, &byte, 1, MSG_DONTWAIT) == 0);
    return true;
}

/* ---- a client of the native protocol ---- */

void server_rig_send(int fd, struct writer *w, const int *fds, size_t n_fds)
{
    cr_assert_not(w->failed);
    cr_assert(send_with_fds(fd, w->data, w->len, fds, n_fds), "%s", strerror(errno));
    w->len = 0;
}

bool server_rig_take(struct server_rig *r, int fd, struct server_rig_frame *out)
{
    uint32_t rest;
    out->fd = -1;
    if (receive_with_fd(r, fd, out->bytes, WIRE_HEADER, &out->fd) < WIRE_HEADER)
        return false;
    memcpy(&rest, out->bytes + 4, sizeof rest);
    cr_assert_leq(rest, sizeof out->bytes - WIRE_HEADER);
    cr_assert_eq(receive_with_fd(r, fd, out->bytes + WIRE_HEADER, rest, &out->fd), rest);
    cr_assert_eq(wire_parse(out->bytes, WIRE_HEADER + rest, &out->frame, NULL),
                 (long)(WIRE_HEADER + rest));
    return true;
}

void server_rig_answer(struct server_rig *r, int fd, struct server_rig_frame *out, uint64_t tag,
                       enum wire_type type)
{
    cr_assert(server_rig_take(r, fd, out), "the connection has ended; wanted: %s",
              wire_type_name(type));
    cr_assert_eq(out->frame.type, type, "%s, not %s", wire_type_name(out->frame.type),
                 wire_type_name(type));
    cr_assert_eq(out->frame.tag, tag);
}

void server_rig_expect_frame(struct server_rig *r, int fd, uint64_t tag, enum wire_type type)
{
    static struct server_rig_frame f;
    server_rig_answer(r, fd, &f, tag, type);
    if (f.fd >= 0)
        close(f.fd);
}

void server_rig_expect_error(struct server_rig *r, int fd, uint64_t tag, int code)
{
    static struct server_rig_frame f;
    struct wire_error m;
    server_rig_answer(r, fd, &f, tag, WIRE_ERROR);
    cr_assert_eq(wire_get_error(&f.frame, &m, NULL), 0);
    cr_expect_eq(-(int)m.code, code, "error %d: %.*s", -(int)m.code, (int)m.text.len,
                 (const char *)m.text.data);
}

void server_rig_put(int fd, uint64_t tag, const struct wire_put *put)
{
    struct wire_put m = *put;
    struct writer w;
    int value_fd = -1;
    if (m.len > WIRE_INLINE_MAX) {
        value_fd = memfd_sealed("value", m.value.data, m.value.len, NULL);
        cr_assert(value_fd >= 0);
        m.value = (struct view){0};
    }
    writer_init(&w, 0);
    wire_put_put(&w, tag, &m);
    server_rig_send(fd, &w, &value_fd, value_fd >= 0);
    writer_close(&w);
    if (value_fd >= 0)
        close(value_fd);
}

int server_rig_hello(struct server_rig *r, int fd)
{
    struct writer w;
    writer_init(&w, 0);
    wire_put_hello(&w, 0,
                   &(struct wire_hello){.version_min = WIRE_VERSION,
                                        .version_max = WIRE_VERSION,
                                        .client = {"test", 4}});
    server_rig_send(fd, &w, NULL, 0);
    server_rig_expect_frame(r, fd, 0, WIRE_WELCOME);
    writer_close(&w);
    return fd;
}

int server_rig_native(struct server_rig *r) { return server_rig_hello(r, server_rig_client(r)); }
