/* SPDX-License-Identifier: Apache-2.0 */
/* test_spawner.c - processes start with little, end with the daemon, and are reported when they do.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/compiler/spawner.h"
#include "daemon/worker/message.h"
#include "tests/support/support.h"

#define WAIT_MS 20000

/* Runs a shell command with a socket as its WORKER_FD; our end is *out_fd. */
static uint64_t run_shell(struct spawner *s, const char *command, int *out_fd)
{
    char *text = strdup(command);
    char shell[] = "/bin/sh", option[] = "-c";
    char *argv[] = {shell, option, text, NULL};
    int pair[2];
    struct err e;
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    struct spawn spawn = {.id = spawner_next_id(s), .argv = argv, .fd = pair[1]};
    cr_assert_eq(spawner_run(s, &spawn, &e), 0, "%s", e.text);
    close(pair[1]);
    free(text);
    *out_fd = pair[0];
    return spawn.id;
}

static struct spawner_event next_event(struct spawner *s)
{
    struct spawner_event event;
    struct pollfd ready = {.fd = spawner_fd(s), .events = POLLIN};
    cr_assert_eq(poll(&ready, 1, WAIT_MS), 1, "no word from the spawner");
    cr_assert_eq(spawner_read(s, &event), 1);
    return event;
}

/* All that comes until the other end closes. */
static char *read_all(int fd)
{
    char *data = calloc(1, 65536);
    size_t len = 0;
    ssize_t n;
    while ((n = read(fd, data + len, 65535 - len)) > 0)
        len += (size_t)n;
    close(fd);
    return data;
}

static struct spawner *start(void)
{
    struct spawner *s;
    struct err e;
    cr_assert_eq(spawner_start(&s, &e), 0, "%s", e.text);
    return s;
}

TestSuite(spawner, .timeout = 60);

Test(spawner, reports_how_each_process_ended)
{
    struct spawner *s = start();
    int fd;
    uint64_t id = run_shell(s, "exit 7", &fd);
    struct spawner_event event = next_event(s);
    cr_assert_eq(event.id, id);
    cr_assert(WIFEXITED(event.status) && WEXITSTATUS(event.status) == 7);
    close(fd);
    id = run_shell(s, "kill -SEGV $$", &fd);
    event = next_event(s);
    cr_assert_eq(event.id, id);
    cr_assert(WIFSIGNALED(event.status) && WTERMSIG(event.status) == SIGSEGV);
    close(fd);
    spawner_stop(s);
}

Test(spawner, kills_by_name_and_only_what_still_runs)
{
    struct spawner *s = start();
    int ended, running;
    uint64_t first = run_shell(s, "exit 0", &ended);
    next_event(s);
    uint64_t second = run_shell(s, "read line <&3", &running);
    spawner_kill(s, first);
    spawner_kill(s, 12345);
    spawner_kill(s, second);
    struct spawner_event event = next_event(s);
    cr_assert_eq(event.id, second);
    cr_assert(WIFSIGNALED(event.status) && WTERMSIG(event.status) == SIGKILL);
    close(ended);
    close(running);
    spawner_stop(s);
}

Test(spawner, hands_on_nothing_but_the_socket)
{
    setenv("WARM_TEST_SECRET", "1", 1);
    int leak = open("/dev/null", O_RDONLY); /* without O_CLOEXEC */
    struct spawner *s = start();
    int late = open("/dev/null", O_RDONLY);
    int fd;
    run_shell(s, "{ ls /proc/self/fd; env; ulimit -Hc; ulimit -Ss; } >&3", &fd);
    char *out = read_all(fd);
    cr_expect_eq(strncmp(out, "0\n1\n2\n3\n4\n", 10), 0, "only the socket, and ls's own: %s", out);
    cr_expect(strncmp(out + 10, "5\n", 2) != 0, "%s", out);
    cr_expect_null(strstr(out, "WARM_TEST_SECRET"));
    cr_expect(strstr(out, "LC_ALL=C"), "%s", out);
    cr_expect(strstr(out, "\n0\n"), "no core dumps: %s", out);
    free(out);
    close(leak);
    close(late);
    spawner_stop(s);
}

Test(spawner, says_so_when_a_program_is_not_there)
{
    struct spawner *s = start();
    char none[] = "/nowhere/warm-nvrtc";
    char *argv[] = {none, NULL};
    int pair[2];
    struct err e;
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    struct spawn spawn = {.id = spawner_next_id(s), .argv = argv, .fd = pair[1]};
    cr_assert_eq(spawner_run(s, &spawn, &e), 0);
    struct spawner_event event = next_event(s);
    cr_assert_eq(event.id, spawn.id);
    cr_assert(WIFEXITED(event.status) && WEXITSTATUS(event.status) == 127);
    close(pair[0]);
    close(pair[1]);
    spawner_stop(s);
}

Test(spawner, refuses_arguments_that_do_not_fit)
{
    struct spawner *s = start();
    char *long_text = malloc(20000);
    memset(long_text, 'x', 19999);
    long_text[19999] = '\0';
    char *argv[] = {long_text, NULL};
    struct err e;
    struct spawn spawn = {.id = 1, .argv = argv, .fd = 0};
    cr_assert_eq(spawner_run(s, &spawn, &e), WARM_ETOO_BIG);
    free(long_text);
    spawner_stop(s);
}

Test(spawner, takes_its_processes_with_it_when_it_is_stopped)
{
    struct spawner *s = start();
    int fd;
    run_shell(s, "echo up >&3; read line <&3", &fd);
    char word[3];
    cr_assert_eq(read(fd, word, 3), 3);
    spawner_stop(s);
    char *rest = read_all(fd); /* ends only when the process has */
    cr_assert_str_eq(rest, "");
    free(rest);
}

/* A "daemon" starts a process and is then killed like a daemon that crashed. */
static void daemon_run(int tell)
{
    struct spawner *s = start();
    int fd;
    run_shell(s, "echo $$ $PPID >&3; read line <&3", &fd);
    char text[64] = "";
    if (read(fd, text, sizeof text - 1) <= 0 || write(tell, text, strlen(text)) < 0)
        _exit(1);
    pause();
}

Test(spawner, nothing_outlives_a_daemon_that_is_killed)
{
    int pipes[2];
    cr_assert_eq(pipe(pipes), 0);
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* orphans come to us: so we see them end */
    pid_t daemon = fork();
    if (daemon == 0)
        daemon_run(pipes[1]);
    char text[64] = "";
    cr_assert_gt(read(pipes[0], text, sizeof text - 1), 0);
    long process, spawner;
    cr_assert_eq(sscanf(text, "%ld %ld", &process, &spawner), 2);
    kill(daemon, SIGKILL);
    int n_ended = 0, status;
    while (wait(&status) > 0)
        n_ended++;
    cr_assert_geq(n_ended, 2, "the daemon and the spawner at least");
    cr_assert(kill((pid_t)process, 0) < 0 && errno == ESRCH);
    cr_assert(kill((pid_t)spawner, 0) < 0 && errno == ESRCH);
}

Test(spawner, its_death_is_told)
{
    struct spawner *s = start();
    int fd;
    run_shell(s, "echo $PPID >&3; read line <&3", &fd);
    char text[64] = "";
    cr_assert_gt(read(fd, text, sizeof text - 1), 0);
    kill((pid_t)strtol(text, NULL, 10), SIGKILL);
    struct pollfd ready = {.fd = spawner_fd(s), .events = POLLIN};
    cr_assert_eq(poll(&ready, 1, WAIT_MS), 1);
    struct spawner_event event;
    cr_assert_eq(spawner_read(s, &event), WARM_ECLOSED);
    char *rest = read_all(fd);
    free(rest);
    spawner_stop(s);
}
