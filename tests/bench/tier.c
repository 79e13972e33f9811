/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier.c - what a tier costs and brings: a local hit with the tier on, off and dead; a hit that comes from
 * Redis, beside the round trips of others.
 *
 *     tier WARMD WARM REDIS_SERVER SEND_TIMES FOLDER
 *
 * T3 has two peers: redis-cli's own round trip, whose library SEND_TIMES (send_times.c) tells, and a GET on a
 * connection of this program, which does nothing with the bytes.
 *
 * The daemons take turns of some milliseconds, so that what else the machine does meets all alike. A figure is
 * the median over the rounds of the ratio within a round.
 */
#include "client/lib/warm.h"
#include "keygen/key.h"
#include "tests/bench/bench.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SIGNED_BYTES 300 /* the head of an entry: the value is signed by its SHA-256 */

enum { N_ROUNDS = 15, N_TURNS = 40, N_OPS = 50, N_VALUES = 200 };
enum {
    OFF,
    ON,
    DEAD,
    SECOND,
    N_DAEMONS
}; /* the second one's store is empty: it finds all in Redis */

static struct warm *warm[N_DAEMONS];
static pid_t pid[N_DAEMONS], redis;
static int port;

static void die_unless(bool good, const char *what)
{
    if (!good)
        bench_die("%s: %s", what, strerror(errno));
}

static int free_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    die_unless(bind(fd, (struct sockaddr *)&a, sizeof a) == 0, "bind");
    die_unless(getsockname(fd, (struct sockaddr *)&a, &len) == 0, "getsockname");
    close(fd);
    return ntohs(a.sin_port);
}

static int connect_redis(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)port),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1;
    for (int i = 0; i < 500; i++, usleep(20000)) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0)
            return fd;
        close(fd);
    }
    bench_die("redis-server does not listen");
}

static void start_daemon(int which, char *program, const char *folder, const char *url, char *key)
{
    char socket[256], store[256], tier[64];
    snprintf(socket, sizeof socket, "%s/%d.sock", folder, which);
    snprintf(store, sizeof store, "%s/store-%d", folder, which);
    snprintf(tier, sizeof tier, "%s", url ? url : "");
    pid[which] =
        bench_start(url ? (char *[]){program, "--socket", socket, "--store", store, "--tier", tier,
                                     "--tier-key", key, "--tier-min-cost", "0", NULL}
                        : (char *[]){program, "--socket", socket, "--store", store, NULL});
    close(bench_connect(socket));
    if (warm_open(&warm[which],
                  &(struct warm_options){.socket = socket, .connect_timeout_ms = 5000}))
        bench_die("warm_open failed");
    struct warm_value v;
    warm_get(warm[which], "nothing", 7, 0, &v); /* HELLO: a connection without it is closed */
}

static void start_all(char **argv)
{
    char key[256], command[600], url[64], text[16];
    snprintf(key, sizeof key, "%s/key", argv[5]);
    snprintf(command, sizeof command, "%s tier keygen bench-1 %s >/dev/null", argv[2], key);
    die_unless(system(command) == 0, "warm tier keygen");
    port = free_port();
    snprintf(text, sizeof text, "%d", port);
    redis = bench_start((char *[]){argv[3], "--port", text, "--bind", "127.0.0.1", "--save", "",
                                   "--appendonly", "no", NULL});
    close(connect_redis());
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", port);
    start_daemon(OFF, argv[1], argv[5], NULL, key);
    start_daemon(ON, argv[1], argv[5], url, key);
    start_daemon(DEAD, argv[1], argv[5], "redis://127.0.0.1:1", key);
    start_daemon(SECOND, argv[1], argv[5], url, key);
}

static void put(int which, const char *name, size_t len)
{
    char *value = malloc(len);
    uint64_t state = len;
    for (size_t i = 0; i < len; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        value[i] = (char)(state >> 56);
    }
    if (warm_put(warm[which], name, strlen(name), value, len, NULL))
        bench_die("warm_put: %s", warm_message(warm[which]));
    free(value);
}

static double get_us(int which, const char *name, size_t len)
{
    struct warm_value v;
    uint64_t began = bench_now_ns();
    if (warm_get(warm[which], name, strlen(name), 0, &v) || v.len != len)
        bench_die("warm_get %s: %s", name, warm_message(warm[which]));
    warm_value_free(&v);
    return (double)(bench_now_ns() - began) / 1000;
}

/* ---- local hits ---- */

static void bench_local(const char *figure, const char *name, size_t len)
{
    static double us[3][N_TURNS * N_OPS];
    double over[2][N_ROUNDS];
    char what[80];
    const size_t n_rounds = bench_rounds(N_ROUNDS);
    for (int d = OFF; d <= DEAD; d++)
        put(d, name, len);
    for (size_t r = 0; r < n_rounds; r++) {
        for (int turn = 0; turn < N_TURNS; turn++)
            for (int d = OFF; d <= DEAD; d++)
                for (int i = 0; i < N_OPS; i++)
                    us[d][turn * N_OPS + i] = get_us(d, name, len);
        double off = bench_quantile(us[OFF], N_TURNS * N_OPS, 0.5);
        over[0][r] = bench_quantile(us[ON], N_TURNS * N_OPS, 0.5) / off;
        over[1][r] = bench_quantile(us[DEAD], N_TURNS * N_OPS, 0.5) / off;
    }
    snprintf(what, sizeof what, "%s hit, tier on / off", name);
    bench_row(figure, what, over[0], n_rounds, BENCH_AT_MOST, 1.03);
    snprintf(what, sizeof what, "%s hit, tier dead / off", name);
    bench_row(figure, what, over[1], n_rounds, BENCH_AT_MOST, 1.03);
}

/* ---- hits from Redis ---- */

static double raw_us(int fd, const char *name, size_t len)
{
    static char answer[128 << 10];
    char request[128];
    int n =
        snprintf(request, sizeof request, "*2\r\n$3\r\nGET\r\n$%zu\r\n%s\r\n", strlen(name), name);
    size_t want = (size_t)snprintf(NULL, 0, "$%zu\r\n", len) + len + 2;
    uint64_t began = bench_now_ns();
    die_unless(write(fd, request, (size_t)n) == n, "write");
    for (size_t at = 0; at < want;) {
        ssize_t got = read(fd, answer + at, sizeof answer - at);
        die_unless(got > 0, "read");
        at += (size_t)got;
    }
    return (double)(bench_now_ns() - began) / 1000;
}

static void set_raw(int fd, const char *name, size_t len)
{
    char *request = malloc(len + 128), answer[5];
    int n = snprintf(request, 128, "*3\r\n$3\r\nSET\r\n$%zu\r\n%s\r\n$%zu\r\n", strlen(name), name,
                     len);
    memset(request + n, 'x', len);
    memcpy(request + n + len, "\r\n", 2);
    die_unless(write(fd, request, (size_t)n + len + 2) == (ssize_t)((size_t)n + len + 2), "write");
    die_unless(read(fd, answer, sizeof answer) == 5, "read");
    free(request);
}

/* Returns redis-cli's own round trip of a GET, whose output goes nowhere. */
static double cli_us(const char *send_times, const char *folder, const char *name)
{
    char command[900], path[300];
    double us = 0;
    snprintf(path, sizeof path, "%s/send-times", folder);
    snprintf(command, sizeof command,
             "LD_PRELOAD=%s SEND_TIMES=%s redis-cli -p %d -r 2000 GET %s >/dev/null", send_times,
             path, port, name);
    die_unless(system(command) == 0, "redis-cli");
    FILE *f = fopen(path, "r");
    die_unless(f && fscanf(f, "%lf", &us) == 1 && us > 0, path);
    fclose(f);
    return us;
}

/* Returns the time that the check of an entry's signature takes. */
static double verify_us(void)
{
    static uint8_t message[SIGNED_BYTES], public[crypto_sign_PUBLICKEYBYTES];
    static uint8_t secret[crypto_sign_SECRETKEYBYTES], signature[crypto_sign_BYTES];
    static double us[N_VALUES];
    die_unless(sodium_init() >= 0, "sodium_init");
    crypto_sign_keypair(public, secret);
    crypto_sign_detached(signature, NULL, message, sizeof message, secret);
    for (int i = 0; i < N_VALUES; i++) {
        uint64_t began = bench_now_ns();
        die_unless(crypto_sign_verify_detached(signature, message, sizeof message, public) == 0,
                   "verify");
        us[i] = (double)(bench_now_ns() - began) / 1000;
    }
    return bench_quantile(us, N_VALUES, 0.5);
}

/* Returns the time that the digest of a value takes. */
static double digest_us(size_t len)
{
    static double us[N_VALUES];
    uint8_t *value = calloc(1, len);
    for (int i = 0; i < N_VALUES; i++) {
        uint64_t began = bench_now_ns();
        struct proof sum = proof_of_bytes(value, len);
        value[0] = sum.bytes[0];
        us[i] = (double)(bench_now_ns() - began) / 1000;
    }
    free(value);
    return bench_quantile(us, N_VALUES, 0.5);
}

/* Waits until the server has so many keys. */
static void await_keys(int fd, long n)
{
    static const char request[] = "*1\r\n$6\r\nDBSIZE\r\n";
    char answer[32] = "";
    for (int i = 0; i < 3000; i++, usleep(10000)) {
        die_unless(write(fd, request, sizeof request - 1) == sizeof request - 1, "write");
        die_unless(read(fd, answer, sizeof answer - 1) > 1, "read");
        if (atol(answer + 1) >= n)
            return;
    }
    bench_die("the entries are not sent: %s", answer);
}

static void bench_redis(const char *label, size_t len, char **argv)
{
    static double us[N_VALUES], raw[N_VALUES], again[N_VALUES];
    static long n_sent = 2; /* of bench_local */
    char name[64], what[80];
    int fd = connect_redis();
    for (int i = 0; i < N_VALUES; i++) {
        snprintf(name, sizeof name, "%s-%d", label, i);
        put(ON, name, len);
    }
    n_sent += N_VALUES;
    await_keys(fd, n_sent);
    set_raw(fd, "raw", len);
    for (int i = 0; i < N_VALUES; i++) {
        snprintf(name, sizeof name, "%s-%d", label, i);
        us[i] = get_us(SECOND, name, len);
        raw[i] = raw_us(fd, "raw", len);
    }
    for (int i = 0; i < N_VALUES; i++) {
        snprintf(name, sizeof name, "%s-%d", label, i);
        again[i] = get_us(SECOND, name, len);
    }
    double ours = bench_quantile(us, N_VALUES, 0.5), theirs = bench_quantile(raw, N_VALUES, 0.5);
    double cli = cli_us(argv[4], argv[5], "raw");
    double over_cli = ours / cli, over = ours / theirs;
    snprintf(what, sizeof what, "%s from Redis / redis-cli, back to back", label);
    bench_row("T3", what, &over_cli, 1, BENCH_AT_MOST, 2.0);
    snprintf(what, sizeof what, "%s from Redis / bare GET, in turns with ours", label);
    bench_row("T3", what, &over, 1, BENCH_AT_MOST, 2.0);
    printf(
        "%s from Redis: %.0f us through two daemons' tier, redis-cli %.1f us, bare GET %.1f us\n",
        label, ours, cli, theirs);
    double local = bench_quantile(again, N_VALUES, 0.5), signature = verify_us(),
           digest = digest_us(len);
    printf("  of which: a hit of the store, for the client's way, %.0f us; the signature %.0f us; "
           "SHA-256 %.0f us; the GET %.0f us; the rest, two hops to warm-tier and a put, %.0f us\n",
           local, signature, digest, theirs, ours - local - signature - digest - theirs);
    close(fd);
}

int main(int argc, char **argv)
{
    if (argc != 6)
        bench_die("usage: tier WARMD WARM REDIS_SERVER SEND_TIMES FOLDER");
    start_all(argv);
    bench_local("T1", "1k", 1 << 10);
    bench_local("T2", "64k", 64 << 10);
    bench_redis("1KiB", 1 << 10, argv);
    bench_redis("60KiB", 60 << 10, argv);
    for (int d = 0; d < N_DAEMONS; d++) {
        warm_close(warm[d]);
        bench_stop(pid[d]);
    }
    bench_stop(redis);
    return 0;
}
