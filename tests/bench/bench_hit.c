/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_hit.c - P1, P2, P4: what a hit costs, beside a raw ping-pong, Redis and memcached.
 *
 *     bench_hit WARMD REDIS_SERVER MEMCACHED FOLDER
 *
 * Every subject runs under one placement: client and server share CPU 0 for latency, so that no
 * wake-up crosses CPUs; server on CPU 0 and client on CPU 1 for throughput. Subjects take turns
 * within each round; a figure is the median over the rounds of the ratio within a round.
 */
#include "client/warm.h"
#include "keygen/key.h"
#include "tests/bench/bench.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N_ROUNDS = 9, N_CONNECTIONS = 16, N_PIPELINE = 16 };

static const struct size {
    const char *name;
    size_t bytes;
    unsigned n_ops; /* in one turn */
} sizes[] = {
    {"1k", 1 << 10, 4000},
    {"64k", 64 << 10, 1500},
    {"1m", 1 << 20, 200},
    {"32m", 32 << 20, 8},
};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

/* The requests of one hit on one connection, and how many bytes the answer has. */
struct exchange {
    int fd;
    char request[64];
    size_t request_len, answer_len;
};

static void write_all(int fd, const void *data, size_t len)
{
    for (const char *p = data; len;) {
        ssize_t n = write(fd, p, len);
        if (n <= 0)
            bench_die("write failed: %s", strerror(errno));
        p += n;
        len -= (size_t)n;
    }
}

static char *scratch; /* as large as the largest answer */

static void read_all(int fd, size_t len)
{
    for (size_t at = 0; at < len;) {
        ssize_t n = read(fd, scratch + at, len - at);
        if (n <= 0)
            bench_die("the server closed the connection");
        at += (size_t)n;
    }
}

static void exchange_run(void *arg)
{
    struct exchange *x = arg;
    write_all(x->fd, x->request, x->request_len);
    read_all(x->fd, x->answer_len);
}

/* A Redis client that gives its caller the bytes, as ours does, after hashing them: every byte is
 * read. */
static void exchange_run_hashed(void *arg)
{
    struct exchange *x = arg;
    exchange_run(arg);
    volatile uint8_t sink = key_of_bytes(scratch, x->answer_len).bytes[0];
    (void)sink;
}

struct warm_subject {
    struct warm *w;
    const char *name;
    size_t len;
};

static void warm_run(void *arg)
{
    struct warm_subject *s = arg;
    struct warm_value v;
    int rc = warm_get(s->w, s->name, strlen(s->name), 0, &v);
    if (rc || v.len != s->len)
        bench_die("warm_get %s: %s", s->name, warm_message(s->w));
    warm_value_free(&v);
}

/* Median microseconds of one call. */
static double median_us(void (*run)(void *), void *arg, unsigned n)
{
    double *us = malloc(n * sizeof *us);
    if (!us)
        bench_die("out of memory");
    for (unsigned i = 0; i < n; i++) {
        uint64_t start = bench_now_ns();
        run(arg);
        us[i] = (double)(bench_now_ns() - start) / 1000;
    }
    double median = bench_quantile(us, n, 0.5);
    free(us);
    return median;
}

/* A child that answers 32 bytes with 1 KiB: what the kernel takes for one turn. */
static int ping_pong_start(pid_t *out_pid)
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

static struct exchange redis_get(int fd, const struct size *size)
{
    struct exchange x = {.fd = fd};
    x.request_len =
        (size_t)snprintf(x.request, sizeof x.request, "*2\r\n$3\r\nGET\r\n$%zu\r\n%s\r\n",
                         strlen(size->name), size->name);
    x.answer_len = (size_t)snprintf(NULL, 0, "$%zu\r\n", size->bytes) + size->bytes + 2;
    return x;
}

static struct exchange memcached_get(int fd, const struct size *size)
{
    struct exchange x = {.fd = fd};
    x.request_len = (size_t)snprintf(x.request, sizeof x.request, "get %s\r\n", size->name);
    x.answer_len = (size_t)snprintf(NULL, 0, "VALUE %s 0 %zu\r\n", size->name, size->bytes) +
                   size->bytes + strlen("\r\nEND\r\n");
    return x;
}

static void redis_set(int fd, const struct size *size, const char *value)
{
    char head[64];
    int n = snprintf(head, sizeof head, "*3\r\n$3\r\nSET\r\n$%zu\r\n%s\r\n$%zu\r\n",
                     strlen(size->name), size->name, size->bytes);
    write_all(fd, head, (size_t)n);
    write_all(fd, value, size->bytes);
    write_all(fd, "\r\n", 2);
    read_all(fd, strlen("+OK\r\n"));
}

static void memcached_set(int fd, const struct size *size, const char *value)
{
    char head[64];
    int n = snprintf(head, sizeof head, "set %s 0 0 %zu\r\n", size->name, size->bytes);
    write_all(fd, head, (size_t)n);
    write_all(fd, value, size->bytes);
    write_all(fd, "\r\n", 2);
    read_all(fd, strlen("STORED\r\n"));
}

/* Operations a second: 16 connections that each keep 16 requests in flight. */
static double throughput(const char *path, const struct exchange *x, unsigned n_turns)
{
    struct pollfd polls[N_CONNECTIONS];
    size_t left[N_CONNECTIONS];
    char batch[N_PIPELINE * sizeof x->request];
    size_t batch_len = 0;
    for (int i = 0; i < N_PIPELINE; i++) {
        memcpy(batch + batch_len, x->request, x->request_len);
        batch_len += x->request_len;
    }
    for (int i = 0; i < N_CONNECTIONS; i++) {
        polls[i] = (struct pollfd){.fd = bench_connect(path), .events = POLLIN};
        left[i] = N_PIPELINE * x->answer_len;
        write_all(polls[i].fd, batch, batch_len);
    }
    uint64_t start = bench_now_ns();
    for (unsigned done = 0; done < n_turns;) {
        if (poll(polls, N_CONNECTIONS, 5000) <= 0)
            bench_die("%s stopped answering", path);
        for (int i = 0; i < N_CONNECTIONS; i++) {
            if (!polls[i].revents)
                continue;
            ssize_t n = read(polls[i].fd, scratch, left[i]);
            if (n <= 0)
                bench_die("%s closed a connection", path);
            left[i] -= (size_t)n;
            if (left[i] == 0) {
                left[i] = N_PIPELINE * x->answer_len;
                done++;
                write_all(polls[i].fd, batch, batch_len);
            }
        }
    }
    double seconds = (double)(bench_now_ns() - start) / 1e9;
    for (int i = 0; i < N_CONNECTIONS; i++)
        close(polls[i].fd);
    return n_turns * (double)N_PIPELINE / seconds;
}

static char *in_folder(const char *folder, const char *name)
{
    char *path;
    if (asprintf(&path, "%s/%s", folder, name) < 0)
        bench_die("out of memory");
    return path;
}

int main(int argc, char **argv)
{
    if (argc != 5)
        bench_die("usage: bench_hit WARMD REDIS_SERVER MEMCACHED FOLDER");
    char *warm_path = in_folder(argv[4], "warm.sock"),
         *redis_path = in_folder(argv[4], "redis.sock");
    char *memcached_path = in_folder(argv[4], "memcached.sock"),
         *store = in_folder(argv[4], "store");
    size_t largest = sizes[N_SIZES - 1].bytes;
    scratch = malloc(largest + 4096);
    char *value = malloc(largest);
    if (!scratch || !value)
        bench_die("out of memory");
    for (size_t i = 0; i < largest; i++)
        value[i] = (char)(i * 2654435761u >> 13);

    bench_pin(0);
    pid_t ping_pid;
    struct exchange ping = {
        .fd = ping_pong_start(&ping_pid), .request_len = 32, .answer_len = 1024};
    pid_t warmd = bench_start((char *[]){argv[1], "--socket", warm_path, "--store", store, NULL});
    pid_t redis = bench_start((char *[]){argv[2], "--unixsocket", redis_path, "--port", "0",
                                         "--save", "", "--appendonly", "no", NULL});
    pid_t memcached = bench_start(
        (char *[]){argv[3], "-s", memcached_path, "-u", "root", "-m", "512", "-I", "64m", NULL});
    int redis_fd = bench_connect(redis_path), memcached_fd = bench_connect(memcached_path);
    close(bench_connect(warm_path)); /* it listens */
    struct warm *w;
    if (warm_open(&w, &(struct warm_options){.socket = warm_path}))
        bench_die("warm_open failed");
    for (int i = 0; i < N_SIZES; i++) {
        redis_set(redis_fd, &sizes[i], value);
        memcached_set(memcached_fd, &sizes[i], value);
        if (warm_put(w, sizes[i].name, strlen(sizes[i].name), value, sizes[i].bytes, NULL))
            bench_die("warm_put: %s", warm_message(w));
    }

    double floor_us[N_ROUNDS], warm_us[N_SIZES][N_ROUNDS], redis_us[N_SIZES][N_ROUNDS];
    double memcached_us[N_SIZES][N_ROUNDS], ratio[N_ROUNDS];
    for (int r = 0; r < N_ROUNDS; r++) {
        floor_us[r] = median_us(exchange_run, &ping, sizes[0].n_ops);
        for (int i = 0; i < N_SIZES; i++) {
            struct warm_subject s = {w, sizes[i].name, sizes[i].bytes};
            struct exchange rx = redis_get(redis_fd, &sizes[i]);
            struct exchange mx = memcached_get(memcached_fd, &sizes[i]);
            bool hashed = sizes[i].bytes >= 32 << 20; /* P2: every byte hashed on both sides */
            warm_us[i][r] = median_us(warm_run, &s, sizes[i].n_ops);
            redis_us[i][r] =
                median_us(hashed ? exchange_run_hashed : exchange_run, &rx, sizes[i].n_ops);
            memcached_us[i][r] = median_us(exchange_run, &mx, sizes[i].n_ops);
        }
    }
    printf("hits, client and servers on one CPU, median of %d rounds, us: raw ping-pong %.1f\n",
           N_ROUNDS,
           bench_quantile((double[N_ROUNDS]){floor_us[0], floor_us[1], floor_us[2], floor_us[3],
                                             floor_us[4], floor_us[5], floor_us[6], floor_us[7],
                                             floor_us[8]},
                          N_ROUNDS, 0.5));
    for (int r = 0; r < N_ROUNDS; r++)
        ratio[r] = warm_us[0][r] / floor_us[r];
    bench_ratio("P1", "1 KiB hit / raw ping-pong", ratio, N_ROUNDS, "<= 1.15");
    static const char *const targets[N_SIZES] = {"<= 0.92", "<= 0.85", "<= 0.30", "<= 0.08"};
    for (int i = 0; i < N_SIZES; i++) {
        char what[80];
        snprintf(what, sizeof what, "%s hit / Redis%s", sizes[i].name,
                 i == N_SIZES - 1 ? ", every byte hashed" : "");
        for (int r = 0; r < N_ROUNDS; r++)
            ratio[r] = warm_us[i][r] / redis_us[i][r];
        bench_ratio(i ? "P2" : "P1", what, ratio, N_ROUNDS, targets[i]);
    }
    for (int i = 0; i < N_SIZES; i++)
        printf("     %-4s us: warm %.1f, Redis %.1f, memcached %.1f\n", sizes[i].name,
               bench_quantile(warm_us[i], N_ROUNDS, 0.5),
               bench_quantile(redis_us[i], N_ROUNDS, 0.5),
               bench_quantile(memcached_us[i], N_ROUNDS, 0.5));

    bench_pin(1);
    struct exchange rx = redis_get(-1, &sizes[0]), mx = memcached_get(-1, &sizes[0]);
    double over_redis[N_ROUNDS], over_memcached[N_ROUNDS], warm_ops[N_ROUNDS];
    for (int r = 0; r < N_ROUNDS; r++) {
        warm_ops[r] = throughput(warm_path, &rx, 4000);
        over_redis[r] = warm_ops[r] / throughput(redis_path, &rx, 4000);
        over_memcached[r] = warm_ops[r] / throughput(memcached_path, &mx, 4000);
    }
    printf("pipelined 16 x 16, 1 KiB, server and client on a CPU each: %.0f a second over RESP\n",
           bench_quantile(warm_ops, N_ROUNDS, 0.5));
    bench_ratio("P4", "operations / Redis's", over_redis, N_ROUNDS, ">= 0.9");
    bench_ratio("P4", "operations / memcached's", over_memcached, N_ROUNDS, ">= 2.5");

    warm_close(w);
    close(ping.fd);
    bench_stop(ping_pid);
    bench_stop(warmd);
    bench_stop(redis);
    bench_stop(memcached);
    free(warm_path), free(redis_path), free(memcached_path), free(store);
    free(scratch), free(value);
    return 0;
}
