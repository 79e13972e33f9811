/* SPDX-License-Identifier: Apache-2.0 */
/*
 * restart.c - keeps what an exec of this program needs, since a handler of signals can ask nobody for it. main.c
 * calls it.
 *
 * Thread: see restart.h.
 */
#include "daemon/process/restart.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MARK "WARMD_RESTARTED"
#define PASSED_FIRST 3 /* sd_listen_fds(3) */

static char **arguments, **environment;
static int n_passed; /* sockets of the service manager */
static bool was_restarted;
static struct timespec began;

void restart_prepare(char **argv)
{
    static char mark[] = MARK "=1";
    const char *count = getenv("LISTEN_FDS");
    size_t n = 0;
    while (environ[n])
        n++;
    was_restarted = getenv(MARK) != NULL;
    clock_gettime(CLOCK_MONOTONIC, &began);
    n_passed = count ? atoi(count) : 0;
    arguments = argv;
    environment = calloc(n + 2, sizeof *environment);
    if (environment && n)
        memcpy(environment, environ, n * sizeof *environ);
    if (environment && !was_restarted)
        environment[n] = mark;
    unsetenv(MARK); /* children must not have it */
}

bool restart_was(void) { return was_restarted; }

void restart_now(void)
{
    static const char said[] = "warmd: it failed, and starts again; the store is checked first\n";
    struct timespec now;
    sigset_t none;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (!environment || (was_restarted && now.tv_sec - began.tv_sec < RESTART_AGE_S))
        return;
    for (int i = 0; i < n_passed; i++)
        fcntl(PASSED_FIRST + i, F_SETFD, 0);
    if (write(STDERR_FILENO, said, sizeof said - 1) < 0) {
        /* nobody reads it */
    }
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none,
                NULL); /* a handler blocks its own signal, and exec keeps that */
    execve("/proc/self/exe", arguments, environment);
}
