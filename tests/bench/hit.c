/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hit.c - P1, P2: what a hit costs, beside a raw ping-pong, Redis and memcached.
 *
 *     hit WARMD REDIS_SERVER MEMCACHED FOLDER
 *
 * Every subject runs under one placement: client and server share CPU 0, so that no wake-up crosses CPUs. Subjects take
 * turns of
 * some milliseconds, so that what else the machine does meets all of them alike; a figure is the
 * median over the rounds of the ratio within a round. A peer whose program is not there is left out.
 */
#include "client/lib/warm.h"
#include "keygen/key.h"
#include "tests/bench/bench.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N_ROUNDS = 9 };

static const struct size {
    const char *name, *text;
    size_t bytes;
    unsigned n_turns, n_ops; /* in a round; in a turn */
    double limit;            /* of the ratio to Redis */
} sizes[] = {
    {"1k", "1 KiB", 1 << 10, 60, 50, 0.92},
    {"64k", "64 KiB", 64 << 10, 40, 25, 0.85},
    {"1m", "1 MiB", 1 << 20, 20, 10, 0.30},
    {"32m", "32 MiB", 32 << 20, 3, 2, 0.08},
};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

/* ---- bytes over a socket ---- */

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

/* ---- subjects: what answers a request ---- */

/* A request, and how many bytes the answer has. */
struct exchange {
    char request[64];
    size_t request_len, answer_len;
};

static struct exchange ping(const struct size *size)
{
    return (struct exchange){.request_len = 32, .answer_len = size->bytes};
}

static struct exchange redis_get(const struct size *size)
{
    struct exchange x;
    x.request_len =
        (size_t)snprintf(x.request, sizeof x.request, "*2\r\n$3\r\nGET\r\n$%zu\r\n%s\r\n",
                         strlen(size->name), size->name);
    x.answer_len = (size_t)snprintf(NULL, 0, "$%zu\r\n", size->bytes) + size->bytes + 2;
    return x;
}

static struct exchange memcached_get(const struct size *size)
{
    struct exchange x;
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

enum subject { WARM, FLOOR, REDIS, MEMCACHED, N_SUBJECTS };

static struct bench {
    struct warm *warm;
    char *path[N_SUBJECTS]; /* of sockets; NULL: not there */
    int fd[N_SUBJECTS];
    pid_t pid[N_SUBJECTS];
} bench;

static bool is_there(enum subject s) { return bench.pid[s] > 0; }

static struct exchange exchange_of(enum subject s, const struct size *size)
{
    return s == FLOOR ? ping(size) : s == REDIS ? redis_get(size) : memcached_get(size);
}

/* ---- starting ---- */

/* A child that answers 32 bytes with 1 KiB: what the kernel takes for one turn. */
static void start_floor(void)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
        bench_die("socketpair failed");
    bench.pid[FLOOR] = fork();
    if (bench.pid[FLOOR] == 0) {
        char in[32], out[1 << 10] = {0};
        close(pair[0]);
        while (read(pair[1], in, sizeof in) == sizeof in && write(pair[1], out, sizeof out) > 0)
            ;
        _exit(0);
    }
    close(pair[1]);
    bench.fd[FLOOR] = pair[0];
}

static char *in_folder(const char *folder, const char *name)
{
    char *path;
    if (asprintf(&path, "%s/%s", folder, name) < 0)
        bench_die("out of memory");
    return path;
}

static void start(enum subject s, const char *program, const char *folder, const char *name,
                  char *const argv[])
{
    if (access(program, X_OK) != 0)
        return;
    bench.path[s] = in_folder(folder, name);
    bench.pid[s] = bench_start(argv);
    bench.fd[s] = bench_connect(bench.path[s]);
}

static void start_all(char **argv)
{
    const char *folder = argv[4];
    char *store = in_folder(folder, "store"), *warm = in_folder(folder, "warm.sock");
    char *redis = in_folder(folder, "redis.sock"), *memcached = in_folder(folder, "memcached.sock");
    start_floor();
    start(WARM, argv[1], folder, "warm.sock",
          (char *[]){argv[1], "--socket", warm, "--store", store, NULL});
    start(REDIS, argv[2], folder, "redis.sock",
          (char *[]){argv[2], "--unixsocket", redis, "--port", "0", "--save", "", "--appendonly",
                     "no", NULL});
    start(MEMCACHED, argv[3], folder, "memcached.sock",
          (char *[]){argv[3], "-s", memcached, "-u", "root", "-m", "512", "-I", "64m", NULL});
    if (!is_there(WARM))
        bench_die("%s is not there", argv[1]);
    if (warm_open(&bench.warm, &(struct warm_options){.socket = warm, .connect_timeout_ms = 5000}))
        bench_die("warm_open failed");
    free(store), free(warm), free(redis), free(memcached);
}

static void fill_all(const char *value)
{
    for (int i = 0; i < N_SIZES; i++) {
        const struct size *size = &sizes[i];
        if (warm_put(bench.warm, size->name, strlen(size->name), value, size->bytes, NULL))
            bench_die("warm_put: %s", warm_message(bench.warm));
        if (is_there(REDIS))
            redis_set(bench.fd[REDIS], size, value);
        if (is_there(MEMCACHED))
            memcached_set(bench.fd[MEMCACHED], size, value);
    }
}

static void stop_all(void)
{
    warm_close(bench.warm);
    for (int s = 0; s < N_SUBJECTS; s++) {
        if (!is_there(s))
            continue;
        close(bench.fd[s]);
        bench_stop(bench.pid[s]);
        free(bench.path[s]);
    }
}

/* ---- latency ---- */

static void hit_warm(const struct size *size)
{
    struct warm_value v;
    if (warm_get(bench.warm, size->name, strlen(size->name), 0, &v) || v.len != size->bytes)
        bench_die("warm_get %s: %s", size->name, warm_message(bench.warm));
    warm_value_free(&v);
}

/* The largest are hashed by all, so that every byte is read; ours hashes them all in any case. */
static void hit_peer(enum subject s, const struct exchange *x, bool hashed)
{
    write_all(bench.fd[s], x->request, x->request_len);
    read_all(bench.fd[s], x->answer_len);
    volatile uint8_t sink = hashed ? key_of_bytes(scratch, x->answer_len).bytes[0] : 0;
    (void)sink;
}

static void turn_us(enum subject s, const struct size *size, double *out)
{
    struct exchange x = s == WARM ? (struct exchange){{0}, 0, 0} : exchange_of(s, size);
    for (unsigned i = 0; i < size->n_ops; i++) {
        uint64_t began = bench_now_ns();
        if (s == WARM)
            hit_warm(size);
        else
            hit_peer(s, &x, size->bytes >= 32 << 20);
        out[i] = (double)(bench_now_ns() - began) / 1000;
    }
}

/* Median microseconds of each subject in one round. */
static void latency_round(const struct size *size, double out[N_SUBJECTS])
{
    size_t n = size->n_turns * size->n_ops;
    double *us = malloc(N_SUBJECTS * n * sizeof *us);
    if (!us)
        bench_die("out of memory");
    for (unsigned turn = 0; turn < size->n_turns; turn++)
        for (int s = 0; s < N_SUBJECTS; s++)
            if (is_there(s) && (s != FLOOR || size == sizes))
                turn_us(s, size, us + (size_t)s * n + turn * size->n_ops);
    for (int s = 0; s < N_SUBJECTS; s++)
        out[s] = is_there(s) ? bench_quantile(us + (size_t)s * n, n, 0.5) : 0;
    free(us);
}

static void bench_latency(const struct size *size)
{
    const size_t n_rounds = bench_rounds(N_ROUNDS);
    double us[N_SUBJECTS][N_ROUNDS], round[N_SUBJECTS], over_floor[N_ROUNDS], over_redis[N_ROUNDS];
    char what[80];
    for (size_t r = 0; r < n_rounds; r++) {
        latency_round(size, round);
        for (int s = 0; s < N_SUBJECTS; s++)
            us[s][r] = round[s];
        over_floor[r] = round[WARM] / round[FLOOR];
        over_redis[r] = round[WARM] / round[REDIS];
    }
    if (size == sizes)
        bench_row("P1", "1 KiB hit / raw ping-pong", over_floor, n_rounds, BENCH_AT_MOST, 1.15);
    snprintf(what, sizeof what, "%s hit / Redis%s", size->text,
             size->bytes >= 32 << 20 ? ", every byte hashed" : "");
    if (is_there(REDIS))
        bench_row(size == sizes ? "P1" : "P2", what, over_redis, n_rounds, BENCH_AT_MOST,
                  size->limit);
    else
        bench_absent(size == sizes ? "P1" : "P2", what, "no redis-server");
    printf("hit of %-6s us: warm %.1f, Redis %.1f, memcached %.1f", size->text,
           bench_quantile(us[WARM], n_rounds, 0.5), bench_quantile(us[REDIS], n_rounds, 0.5),
           bench_quantile(us[MEMCACHED], n_rounds, 0.5));
    if (size == sizes)
        printf(", raw ping-pong %.1f", bench_quantile(us[FLOOR], n_rounds, 0.5));
    putchar('\n');
}

int main(int argc, char **argv)
{
    if (argc != 5)
        bench_die("usage: hit WARMD REDIS_SERVER MEMCACHED FOLDER");
    size_t largest = sizes[N_SIZES - 1].bytes;
    scratch = malloc(largest + 4096);
    char *value = malloc(largest);
    if (!scratch || !value)
        bench_die("out of memory");
    for (size_t i = 0; i < largest; i++)
        value[i] = (char)(i * 2654435761u >> 13);
    bench_pin(0);
    start_all(argv);
    fill_all(value);
    for (int i = 0; i < N_SIZES; i++)
        bench_latency(&sizes[i]);
    stop_all();
    free(scratch), free(value);
    return 0;
}
