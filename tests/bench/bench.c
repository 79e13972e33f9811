/* SPDX-License-Identifier: Apache-2.0 */
/* bench.c - clocks, medians and child processes. */
#include "tests/bench/bench.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

uint64_t bench_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int double_order(const void *a, const void *b)
{
    double x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return x < y ? -1 : x > y;
}

double bench_quantile(double *v, size_t n, double q)
{
    qsort(v, n, sizeof *v, double_order);
    return v[(size_t)(q * (double)(n - 1) + 0.5)];
}

void bench_pin(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (cpu < 0 || i == cpu)
            CPU_SET(i, &set);
    sched_setaffinity(0, sizeof set, &set); /* best effort: the run says where it was placed */
}

pid_t bench_start(char *const argv[])
{
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid < 0)
        bench_die("fork failed");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        const char *log = getenv("BENCH_LOG");
        int fd = open(log ? log : "/dev/null", O_WRONLY | O_CREAT | O_APPEND, 0600);
        dup2(fd, 1);
        dup2(fd, 2);
        execvp(argv[0], argv);
        _exit(127);
    }
    return pid;
}

void bench_stop(pid_t pid)
{
    kill(pid, SIGTERM);
    waitpid(pid, NULL, 0);
}

int bench_connect(const char *path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    snprintf(to.sun_path, sizeof to.sun_path, "%s", path);
    uint64_t end = bench_now_ns() + 10000000000u;
    do {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0)
            return fd;
        close(fd);
        usleep(2000);
    } while (bench_now_ns() < end);
    bench_die("nobody answers at %s", path);
}

size_t bench_rounds(size_t most)
{
    const char *text = getenv("BENCH_ROUNDS");
    unsigned long n = text ? strtoul(text, NULL, 10) : 0;
    return n > 0 && n < most ? n : most;
}

static FILE *rows_file(void)
{
    const char *path = getenv("BENCH_ROWS");
    FILE *f = path ? fopen(path, "a") : stdout;
    if (!f)
        bench_die("cannot write %s", path);
    return f;
}

static void rows_close(FILE *f)
{
    if (f != stdout)
        fclose(f);
}

int bench_ping_pong(pid_t *out_pid)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
        bench_die("socketpair failed");
    *out_pid = fork();
    if (*out_pid == 0) {
        char in[32], out[1 << 10] = {0};
        close(pair[0]);
        while (read(pair[1], in, sizeof in) == sizeof in && write(pair[1], out, sizeof out) > 0)
            ;
        _exit(0);
    }
    close(pair[1]);
    return pair[0];
}

void bench_ping(int fd)
{
    char out[32] = {0}, in[1 << 10];
    if (write(fd, out, sizeof out) != sizeof out || read(fd, in, sizeof in) <= 0)
        bench_die("the ping-pong ended");
}

void bench_row(const char *figure, const char *what, double *rounds, size_t n,
               enum bench_target target, double limit)
{
    double median = bench_quantile(rounds, n, 0.5);
    bool reached = target == BENCH_AT_MOST ? median <= limit : median >= limit;
    char spread[40];
    FILE *f = rows_file();
    snprintf(spread, sizeof spread, "%.2f to %.2f", rounds[0], rounds[n - 1]);
    fprintf(f, "%-4s %-56s %8.2f  %-16s ", figure, what, median, spread);
    if (target == BENCH_NO_TARGET)
        fputs("-\n", f);
    else
        fprintf(f, "%s %-6g %s\n", target == BENCH_AT_MOST ? "<=" : ">=", limit,
                reached ? "reached" : "MISSED");
    rows_close(f);
}

void bench_absent(const char *figure, const char *what, const char *why)
{
    FILE *f = rows_file();
    fprintf(f, "%-4s %-56s        -  %s\n", figure, what, why);
    rows_close(f);
}

void bench_die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("bench: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}
