/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scripted.c - answers as a test says, in a process of its own. The suites of tier/backends call it.
 *
 * Thread: the test's own.
 */
#include "tests/support/scripted.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define SEEN_MAX (4u << 20)

/* Waits for the bytes, and forgets what came up to their end. False at the end of the connection. */
static bool await(int fd, char *seen, size_t *len, const char *bytes)
{
    char *at;
    while (!(at = memmem(seen, *len, bytes, strlen(bytes)))) {
        ssize_t n = *len < SEEN_MAX ? read(fd, seen + *len, SEEN_MAX - *len) : 0;
        if (n <= 0)
            return false;
        *len += (size_t)n;
    }
    at += strlen(bytes);
    *len -= (size_t)(at - seen);
    memmove(seen, at, *len);
    return true;
}

static void answer(int fd, const struct scripted_answer *a)
{
    size_t len = a->len ? a->len : strlen(a->bytes), piece = a->in_pieces ? 1 : len;
    for (size_t at = 0; at < len; at += piece)
        if (send(fd, a->bytes + at, piece, MSG_NOSIGNAL) != (ssize_t)piece)
            return;
}

static void serve(int listener, const struct scripted_answer *answers, size_t n)
{
    char *seen = malloc(SEEN_MAX);
    size_t i = 0;
    for (int fd; seen && (fd = accept(listener, NULL, NULL)) >= 0; close(fd)) {
        size_t len = 0;
        int one = 1;
        bool open = true;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        while (open && i < n) {
            const struct scripted_answer *a = &answers[i];
            open = !a->await || await(fd, seen, &len, a->await);
            if (!open)
                break;
            i++;
            if (a->bytes)
                answer(fd, a);
            open = !a->then_closes;
        }
        while (open && read(fd, seen, SEEN_MAX) > 0)
            ;
    }
}

void scripted_start(struct engine *s, const struct scripted_answer *answers, size_t n)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(listener, (struct sockaddr *)&a, sizeof a), 0);
    cr_assert_eq(listen(listener, 16), 0);
    cr_assert_eq(getsockname(listener, (struct sockaddr *)&a, &len), 0);
    s->port = ntohs(a.sin_port);
    s->pid = fork();
    if (s->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        serve(listener, answers, n);
        _exit(0);
    }
    cr_assert_gt(s->pid, 0);
    close(listener);
}
