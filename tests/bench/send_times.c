/* SPDX-License-Identifier: Apache-2.0 */
/*
 * send_times.c - a library to preload: writes to $SEND_TIMES how long the program's round trips on its socket take in
 * the median, in microseconds. A round trip is the time from one request to the next one. tier.c runs redis-cli
 * with it: that program does not say itself how long it takes, and its mean has each pause of the machine in it.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define TIMES_MAX 20000

static double at_us[TIMES_MAX];
static size_t n_times;

static void note_time(int fd)
{
    struct sockaddr_storage peer;
    struct timespec now;
    socklen_t len = sizeof peer;
    if (n_times == TIMES_MAX || getpeername(fd, (struct sockaddr *)&peer, &len) != 0)
        return;
    clock_gettime(CLOCK_MONOTONIC, &now);
    at_us[n_times++] = (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

/* Stand in for those of libc: a client sends each request with one of them. */
ssize_t send(int fd, const void *bytes, size_t len, int flags)
{
    note_time(fd);
    return sendto(fd, bytes, len, flags, NULL, 0);
}

ssize_t write(int fd, const void *bytes, size_t len)
{
    static ssize_t (*next)(int, const void *, size_t);
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "write");
    note_time(fd);
    return next(fd, bytes, len);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

__attribute__((destructor)) static void report(void)
{
    const char *path = getenv("SEND_TIMES");
    FILE *f = path && n_times > 1 ? fopen(path, "w") : NULL;
    if (!f)
        return;
    for (size_t i = 0; i + 1 < n_times; i++)
        at_us[i] = at_us[i + 1] - at_us[i];
    qsort(at_us, n_times - 1, sizeof *at_us, compare);
    fprintf(f, "%.3f\n", at_us[(n_times - 1) / 2]);
    fclose(f);
}
