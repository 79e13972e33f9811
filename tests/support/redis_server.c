/* SPDX-License-Identifier: Apache-2.0 */
/*
 * redis_server.c - runs a redis-server for one test. Suites of the tier call it.
 *
 * Thread: the test's own.
 */
#include "tests/support/redis_server.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

int free_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    cr_assert_eq(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    close(fd);
    return ntohs(a.sin_port);
}

void await_port(int port)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)port),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    for (int i = 0; i < 500; i++, usleep(20000)) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        int rc = connect(fd, (struct sockaddr *)&a, sizeof a);
        close(fd);
        if (rc == 0)
            return;
    }
    cr_assert_fail("nobody listens on port %d", port);
}

static void run(struct redis_server *s, const char *option, const char *value)
{
    char port[8];
    snprintf(port, sizeof port, "%d", s->port);
    snprintf(s->url, sizeof s->url, "redis://127.0.0.1:%d/1", s->port);
    s->pid = fork();
    if (s->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execlp("redis-server", "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "",
               "--appendonly", "no", "--logfile", "/dev/null", option, value, (char *)NULL);
        _exit(127);
    }
    await_port(s->port);
}

void redis_server_start(struct redis_server *s, const char *option, const char *value)
{
    s->port = free_port();
    run(s, option, value);
}

void redis_server_restart(struct redis_server *s) { run(s, "--maxclients", "100"); }

void redis_server_stop(struct redis_server *s)
{
    kill(s->pid, SIGKILL);
    waitpid(s->pid, NULL, 0);
}
