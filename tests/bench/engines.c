/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engines.c - what warm-tier costs on an engine that runs: time_engines.py starts the engines and calls it.
 *
 *     engines HELPER URL CREDENTIALS get BYTES TIMES      puts one object, then times GETs of it, one after the other
 *     engines HELPER URL CREDENTIALS many BYTES COUNT     times COUNT GETs at once, and reads the helper's memory
 *
 * Prints one line: the median in microseconds, and the most memory in KiB, without the objects themselves.
 *
 * Thread: main.
 */
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client/lib/packet.h"
#include "tier/message.h"

static int fd; /* to the helper */
static pid_t helper;

static void die(const char *why)
{
    fprintf(stderr, "bench engines: %s\n", why);
    exit(1);
}

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void start_helper(char **argv)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        die("no socket");
    helper = fork();
    if (helper == 0) {
        dup2(pair[1], TIER_FD);
        execl(argv[1], argv[1], argv[2], argv[3], "", (char *)NULL);
        _exit(127);
    }
    fd = pair[0];
}

/* Waits for one answer, which must be a success. */
static void receive(void)
{
    struct tier_answer a;
    int object;
    if (packet_receive(fd, &a, sizeof a, &object, 1) != (ssize_t)sizeof a)
        die("warm-tier ended");
    if (a.outcome != TIER_OK)
        die(a.said);
    if (object >= 0)
        close(object);
}

static void send_ask(struct tier_ask ask, int object)
{
    static uint64_t id;
    ask.id = ++id;
    ask.timeout_ms = 60000;
    ask.limit = ask.length;
    snprintf(ask.name, sizeof ask.name, ask.length > 65536 ? "ab/b-%064d" : "ab/e-%064d", 7);
    if (ask.operation == TIER_GET)
        ask.length = 0;
    if (packet_send(fd, &ask, sizeof ask, &object, object >= 0) != 0)
        die("warm-tier ended");
}

static void put_object(size_t len)
{
    struct tier_ask put = {.operation = TIER_PUT, .length = len};
    int object = memfd_create("bench", MFD_CLOEXEC);
    if (ftruncate(object, (off_t)len) != 0)
        die("no memory");
    uint32_t *words = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, object, 0);
    for (size_t i = 0; i < len / sizeof *words; i++)
        words[i] = (uint32_t)(i * 2654435761u);
    SHA256((const unsigned char *)words, len, put.sha256);
    munmap(words, len);
    send_ask(put, object);
    close(object);
    receive();
}

/* Returns the helper's memory in KiB, without that of objects: memfds are shared memory. */
static unsigned long memory_kib(void)
{
    char path[40], line[200];
    unsigned long sum = 0, n;
    snprintf(path, sizeof path, "/proc/%d/status", helper);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "RssAnon: %lu", &n) == 1 || sscanf(line, "RssFile: %lu", &n) == 1)
            sum += n;
    if (f)
        fclose(f);
    return sum;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    if (argc != 7)
        die("HELPER URL CREDENTIALS get|many BYTES TIMES");
    size_t len = strtoull(argv[5], NULL, 10);
    int n = atoi(argv[6]), at_once = strcmp(argv[4], "many") == 0 ? n : 1;
    if (n < 1 || len < 4 || (at_once > 1 && n > (int)TIER_ASKS_MAX))
        die("too few or too many");
    double *times = calloc((size_t)n, sizeof *times);
    unsigned long most = 0;
    start_helper(argv);
    receive(); /* that it is ready */
    put_object(len);
    for (int i = 0; i < n; i += at_once) {
        double began = now_us();
        for (int k = 0; k < at_once; k++)
            send_ask((struct tier_ask){.operation = TIER_GET, .length = len}, -1);
        for (int k = 0; k < at_once; k++) {
            receive();
            times[i + k] = now_us() - began;
            unsigned long now = at_once > 1 || i == n - 1 ? memory_kib() : 0;
            most = now > most ? now : most;
        }
    }
    qsort(times, (size_t)n, sizeof *times, by_size);
    printf("%.0f %lu\n", times[n / 2], most);
    close(fd);
    waitpid(helper, NULL, 0);
    free(times);
    return 0;
}
