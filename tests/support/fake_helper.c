/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_helper.c - takes the requests of a link to warm-tier, and answers as the test says. The suite of the link
 * and those of the service's tier call it.
 *
 * Thread: the test's own.
 */
#include "tests/support/fake_helper.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/lib/packet.h"
#include "tests/support/support.h"

void fake_helper_up(struct fake_helper *h, void (*step)(void *arg), void *arg)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    *h = (struct fake_helper){.dir = temp_dir_new(), .fd = -1, .step = step, .arg = arg};
    h->path = path_join(h->dir, "socket");
    snprintf(un.sun_path, sizeof un.sun_path, "%s", h->path);
    h->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    cr_assert_eq(bind(h->listener, (struct sockaddr *)&un, sizeof un), 0);
    cr_assert_eq(listen(h->listener, 8), 0);
}

void fake_helper_accept(struct fake_helper *h)
{
    fake_helper_die(h);
    FAKE_HELPER_AWAIT(h, (h->fd = accept4(h->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >=
                             0);
}

struct tier_ask fake_helper_take(struct fake_helper *h, int *out_fd)
{
    struct tier_ask got;
    FAKE_HELPER_AWAIT(h, packet_receive(h->fd, &got, sizeof got, out_fd, out_fd ? 1 : 0) ==
                             sizeof got);
    return got;
}

bool fake_helper_is_asked(const struct fake_helper *h)
{
    char byte;
    return h->fd >= 0 && recv(h->fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) > 0;
}

void fake_helper_answer(struct fake_helper *h, const struct tier_answer *answer, struct view bytes,
                        int fd)
{
    size_t len = sizeof *answer + bytes.len;
    char *packet = malloc(len);
    memcpy(packet, answer, sizeof *answer);
    if (bytes.len)
        memcpy(packet + sizeof *answer, bytes.data, bytes.len);
    cr_assert_eq(packet_send(h->fd, packet, len, &fd, fd >= 0), 0);
    free(packet);
}

void fake_helper_die(struct fake_helper *h)
{
    if (h->fd >= 0)
        close(h->fd);
    h->fd = -1;
}

void fake_helper_down(struct fake_helper *h)
{
    fake_helper_die(h);
    close(h->listener);
    free(h->path);
    temp_dir_free(h->dir);
}
