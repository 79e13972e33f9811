/* SPDX-License-Identifier: Apache-2.0 */
/*
 * closer.c - closes descriptors on a thread of its own, which reads their numbers from a pipe.
 *
 * Every file of the daemon that closes a memfd or a client's socket calls fd_close_later. Without the thread
 * it closes at once.
 *
 * Thread: any; the reader has its own.
 */
#include "daemon/process/closer.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <unistd.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int to_thread = -1, from_loop = -1;

/* Closes descriptors until the pipe ends. */
static void *closer_main(void *arg)
{
    int fd;
    (void)arg;
    for (;;) {
        ssize_t n = read(from_loop, &fd, sizeof fd); /* a pipe delivers so few bytes in one piece */
        if (n == (ssize_t)sizeof fd)
            close(fd);
        else if (n >= 0 || errno != EINTR)
            return NULL;
    }
}

/* Starts the thread, without signals: they are for the loop. */
static void closer_start(void)
{
    pthread_t thread;
    sigset_t all, before;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return;
    from_loop = ends[0];
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool good = pthread_create(&thread, NULL, closer_main, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (good) {
        pthread_detach(thread);
        fcntl(ends[1], F_SETFL, O_NONBLOCK);
        to_thread = ends[1];
    } else {
        close(ends[0]);
        close(ends[1]);
    }
}

void fd_close_later(int fd)
{
    assert(fd >= 0);
    pthread_once(&once, closer_start);
    if (to_thread < 0 || write(to_thread, &fd, sizeof fd) != (ssize_t)sizeof fd)
        close(fd);
}
