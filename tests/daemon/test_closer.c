/* SPDX-License-Identifier: Apache-2.0 */
/* test_closer.c - descriptors that are closed later: all are, and their owner never waits for one. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/process/closer.h"
#include "tests/support/warmd.h"

#define PIPE_ROOM 16384 /* numbers that fit the pipe to the thread: 64 KiB */

TestSuite(closer, .timeout = 100);

/* Expects that the other end of a pipe is closed, within the time for anything. */
static void expect_end(int reader)
{
    struct pollfd p = {.fd = reader, .events = POLLIN};
    char byte;
    cr_assert_eq(poll(&p, 1, WARMD_WAIT_MS), 1, "it was never closed");
    cr_expect_eq(read(reader, &byte, 1), 0);
    close(reader);
}

/* Makes a socket whose close waits until *out_peer is closed: what it sent was not read yet. */
static int slow_socket(int *out_peer)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof address;
    struct linger linger = {.l_onoff = 1, .l_linger = 600};
    static char bytes[1 << 16];
    int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(listening, (struct sockaddr *)&address, sizeof address), 0);
    cr_assert_eq(listen(listening, 1), 0);
    cr_assert_eq(getsockname(listening, (struct sockaddr *)&address, &len), 0);
    cr_assert_eq(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    *out_peer = accept(listening, NULL, NULL);
    cr_assert_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    while (write(fd, bytes, sizeof bytes) > 0)
        ;
    cr_assert_eq(errno, EAGAIN);
    cr_assert_eq(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger), 0);
    close(listening);
    return fd;
}

Test(closer, every_descriptor_is_closed)
{
    int ends[40][2];
    for (int i = 0; i < 40; i++)
        cr_assert_eq(pipe(ends[i]), 0);
    for (int i = 0; i < 40; i++)
        fd_close_later(ends[i][1]);
    for (int i = 0; i < 40; i++)
        expect_end(ends[i][0]);
}

Test(closer, a_slow_close_holds_up_only_the_closes_behind_it)
{
    int peer, ends[2];
    fd_close_later(slow_socket(&peer)); /* at once, or the test's time is over */
    cr_assert_eq(pipe(ends), 0);
    fd_close_later(ends[1]);
    close(peer);
    expect_end(ends[0]);
}

Test(closer, without_room_a_descriptor_is_closed_at_once)
{
    int peer, ends[2];
    struct rlimit limit;
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_max < PIPE_ROOM + 500)
        cr_skip_test("needs %d descriptors", PIPE_ROOM + 500);
    limit.rlim_cur = limit.rlim_max;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    fd_close_later(slow_socket(&peer));
    for (int i = 0; i < PIPE_ROOM + 1; i++)
        fd_close_later(dup(null));
    cr_assert_eq(pipe(ends), 0);
    fd_close_later(ends[1]);
    cr_expect(fcntl(ends[1], F_GETFD) < 0, "it was left open");
    expect_end(ends[0]);
    close(peer);
}

Test(closer, signals_are_for_the_loop)
{
    int ends[2], n_threads = 0;
    char own[32], *lines, *save = NULL;
    cr_assert_eq(pipe(ends), 0);
    fd_close_later(ends[1]);
    expect_end(ends[0]); /* the thread runs */
    snprintf(own, sizeof own, "/%d/", (int)getpid());
    cr_assert_eq(run_command(&lines, "grep SigBlk /proc/%d/task/*/status", (int)getpid()), 0);
    for (char *l = strtok_r(lines, "\n", &save); l; l = strtok_r(NULL, "\n", &save)) {
        unsigned long long blocked = strtoull(strrchr(l, '\t') + 1, NULL, 16);
        if (strstr(strstr(l, "/task/"), own))
            continue; /* the loop's */
        n_threads++;
        for (int s = SIGHUP; s < SIGRTMIN; s++)
            cr_expect(blocked >> (s - 1) & 1 || s == SIGKILL || s == SIGSTOP || s >= 32, "%d", s);
    }
    cr_expect_geq(n_threads, 1);
    free(lines);
}
