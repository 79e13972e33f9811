/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_daemon.c - listens as a daemon does, and plays its script on a thread. Suites of libwarm and of what
 * is built on it call it.
 *
 * Thread: the functions of scripts run on the daemon's thread, the others on the test's.
 */
#include "tests/support/fake_daemon.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/support/support.h"

#define LONG_MS 60000u

static void *play(void *arg)
{
    struct fake_daemon *d = arg;
    d->script(d);
    fake_daemon_hang_up(d);
    return NULL;
}

void fake_daemon_up(struct fake_daemon *d, void (*script)(struct fake_daemon *d), void *arg)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    *d = (struct fake_daemon){
        .dir = temp_dir_new(), .script = script, .arg = arg, .left = SIZE_MAX, .fd = -1};
    d->path = path_join(d->dir, "s");
    d->in = malloc(WIRE_HEADER + WIRE_PAYLOAD_MAX);
    cr_assert_not_null(d->in);
    d->fds[0] = d->fds[1] = -1;
    writer_init(&d->out, 0);
    strcpy(address.sun_path, d->path);
    d->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(d->listener, (struct sockaddr *)&address, sizeof address), 0);
    cr_assert_eq(listen(d->listener, 8), 0);
    cr_assert_eq(pthread_create(&d->thread, NULL, play, d), 0);
}

struct warm *fake_daemon_libwarm(const struct fake_daemon *d)
{
    struct warm_options options = {
        .socket = d->path, .connect_timeout_ms = LONG_MS, .request_timeout_ms = LONG_MS};
    struct warm *w;
    cr_assert_eq(warm_open(&w, &options), 0);
    return w;
}

static void close_fds(struct fake_daemon *d)
{
    for (size_t i = 0; i < WIRE_FDS_MAX; i++) {
        if (d->fds[i] >= 0)
            close(d->fds[i]);
        d->fds[i] = -1;
    }
}

void fake_daemon_end(struct fake_daemon *d)
{
    if (d->ended)
        return;
    shutdown(d->listener, SHUT_RDWR); /* a script that waits for one more client ends */
    pthread_join(d->thread, NULL);
    d->ended = true;
}

void fake_daemon_down(struct fake_daemon *d)
{
    fake_daemon_end(d);
    close(d->listener);
    close_fds(d);
    writer_close(&d->out);
    free(d->in);
    free(d->path);
    temp_dir_free(d->dir);
    cr_assert(!*d->wrong, "%s", d->wrong);
}

/* ---- the script's ---- */

void fake_daemon_expect(struct fake_daemon *d, bool is_so, const char *what)
{
    if (!is_so && !*d->wrong)
        snprintf(d->wrong, sizeof d->wrong, "%s", what);
}

bool fake_daemon_talks(const struct fake_daemon *d) { return d->fd >= 0; }

void fake_daemon_hang_up(struct fake_daemon *d)
{
    if (d->fd >= 0)
        close(d->fd);
    d->fd = -1;
}

/* Reads `len` bytes with the descriptors that come with them. False if the client hung up first. */
static bool read_all(struct fake_daemon *d, uint8_t *to, size_t len, size_t *n_fds)
{
    while (len) {
        char control[CMSG_SPACE(WIRE_FDS_MAX * sizeof(int))];
        struct iovec part = {to, len};
        struct msghdr m = {.msg_iov = &part,
                           .msg_iovlen = 1,
                           .msg_control = control,
                           .msg_controllen = sizeof control};
        ssize_t n = recvmsg(d->fd, &m, MSG_CMSG_CLOEXEC);
        if (n <= 0)
            return false;
        to += n;
        len -= (size_t)n;
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        for (size_t at = 0; c && at < c->cmsg_len - CMSG_LEN(0) && *n_fds < WIRE_FDS_MAX;
             at += sizeof(int))
            memcpy(&d->fds[(*n_fds)++], CMSG_DATA(c) + at, sizeof(int));
    }
    return true;
}

/* Reads a frame into d->frame. False at the end. */
static bool read_frame(struct fake_daemon *d, size_t *n_fds)
{
    uint32_t len;
    struct err e;
    if (d->fd < 0 || !read_all(d, d->in, WIRE_HEADER, n_fds))
        return false;
    memcpy(&len, d->in + 4, sizeof len); /* little-endian, as this machine */
    if (len > WIRE_PAYLOAD_MAX || !read_all(d, d->in + WIRE_HEADER, len, n_fds))
        return false;
    fake_daemon_expect(d, wire_parse(d->in, WIRE_HEADER + len, &d->frame, &e) > 0, "no frame");
    return true;
}

void fake_daemon_take(struct fake_daemon *d, enum wire_type type)
{
    size_t n_fds = 0;
    char text[128];
    close_fds(d);
    d->frame = (struct wire_frame){.type = 0};
    if (read_frame(d, &n_fds))
        snprintf(text, sizeof text, "the client sent %s, not %s", wire_type_name(d->frame.type),
                 wire_type_name((uint8_t)type));
    else
        snprintf(text, sizeof text, "the client hung up in place of %s",
                 wire_type_name((uint8_t)type));
    if (d->frame.type == 0)
        fake_daemon_hang_up(d);
    bool is_right = d->frame.type == type && d->frame.n_fds == n_fds;
    fake_daemon_expect(d, is_right || (d->frame.type == 0 && d->left != SIZE_MAX), text);
}

void fake_daemon_send(struct fake_daemon *d, const int *fds, size_t n_fds)
{
    size_t len = d->out.len < d->left ? d->out.len : d->left;
    bool is_cut = len < d->out.len;
    d->out.len = 0;
    if (d->fd < 0)
        return;
    if (len && !send_with_fds(d->fd, d->out.data, len, fds, n_fds))
        is_cut = true;
    d->sent += len;
    d->left -= d->left == SIZE_MAX ? 0 : len;
    if (is_cut)
        fake_daemon_hang_up(d);
}

void fake_daemon_say(struct fake_daemon *d, enum wire_type type)
{
    wire_put_empty(&d->out, type, d->frame.tag);
    fake_daemon_send(d, NULL, 0);
}

void fake_daemon_meet(struct fake_daemon *d)
{
    fake_daemon_hang_up(d);
    d->fd = accept(d->listener, NULL, NULL);
    fake_daemon_take(d, WIRE_HELLO);
    wire_put_welcome(&d->out, d->frame.tag,
                     &(struct wire_welcome){.version = WIRE_VERSION, .daemon = {"fake", 4}});
    fake_daemon_send(d, NULL, 0);
}
