/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store.c - P6, P7 and P9: the store by itself, without a daemon around it.
 *
 *     store FOLDER MEMORY
 *
 * P6  a small durable put, beside one append and fdatasync of as many bytes, but at least a page, in
 *     the same folder. They take turns, so that both meet the same state of the disk.
 * P7  ten turnovers at the cap with values up to 64 MiB: what the disk holds beside what is live, and
 *     the longest that a put took. Disk is counted as blocks of files, the index included.
 * P9  a store of 10^6 entries: from store_open to the first value, entries on disk, memory.
 *
 * P6 is of the disk that FOLDER is on. P7 and P9 are of the store: MEMORY is a folder in a tmpfs where
 * there is one, to leave out the time in which the device syncs 64 MiB.
 */
#include "store/store.h"
#include "tests/bench/bench.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { N_ROUNDS = 9, N_PUTS = 200, N_ENTRIES = 1000000, N_OPENS = 9 };
#define MIB (1ull << 20)
#define CHURN_CAP (1024 * MIB)
#define CHURN_TURNOVERS 10
#define CHURN_VALUE_MAX (64 * MIB)

struct bench {
    struct store *store;
    sem_t woken;
    bool done;
    int status;
};

static void on_wake(void *arg) { sem_post(&((struct bench *)arg)->woken); }

static void on_event(void *arg, const char *line)
{
    (void)arg;
    fprintf(stderr, "%s\n", line);
}

static void bench_open(struct bench *b, const char *dir, uint64_t max_bytes)
{
    struct err e;
    struct store_config config = {.dir = dir,
                                  .max_bytes = max_bytes,
                                  .on_wake = on_wake,
                                  .on_wake_arg = b,
                                  .on_event = on_event};
    if (store_open(&b->store, &config, &e) != 0)
        bench_die("%s", e.text);
}

static void on_done(void *arg, int status, bool existed, const struct err *e)
{
    struct bench *b = arg;
    (void)existed;
    b->done = true;
    b->status = status;
    if (status != 0)
        fprintf(stderr, "put: %s\n", e->text);
}

static struct store_put put_of(struct bench *b, uint64_t n, size_t len)
{
    struct store_put put = {.fd = -1, .on_done = on_done, .arg = b};
    put.row.id = (struct store_id){STORE_MADE_HERE, key_of_bytes(&n, sizeof n)};
    put.row.kind = STORE_CUBIN;
    put.row.len = len;
    put.row.cost_ms = 100;
    put.row.compiler = key_of_bytes("compiler", 8);
    put.row.graph = put.row.id.key;
    put.row.proof = proof_of_bytes(&n, sizeof n);
    put.row.hardware = (struct view){"sm_90", 5};
    put.row.compiler_text = (struct view){"NVRTC 13.0.48", 13};
    put.row.label = (struct view){"kernel.cu", 9};
    return put;
}

static void wait_done(struct bench *b)
{
    for (store_poll(b->store); !b->done; store_poll(b->store))
        sem_wait(&b->woken);
    if (b->status != 0)
        bench_die("a put failed");
}

/* Milliseconds from asking to the callback. */
static double put_ms(struct bench *b, uint64_t n, const void *data, size_t len, int fd)
{
    struct store_put put = put_of(b, n, len);
    put.data = data;
    put.fd = fd;
    b->done = false;
    uint64_t start = bench_now_ns();
    if (store_put(b->store, &put, NULL) != 0)
        bench_die("a put was refused");
    wait_done(b);
    return (double)(bench_now_ns() - start) / 1e6;
}

/* ---- P6 ---- */

static double append_ms(int fd, const void *data, size_t len)
{
    uint64_t start = bench_now_ns();
    if (write(fd, data, len) != (ssize_t)len || fdatasync(fd) != 0)
        bench_die("append: %s", strerror(errno));
    return (double)(bench_now_ns() - start) / 1e6;
}

static void bench_put(const char *folder, size_t len)
{
    char dir[4096], file[4096], what[96], data[64 << 10];
    const size_t n_rounds = bench_rounds(N_ROUNDS);
    double ratios[N_ROUNDS], puts[N_PUTS], appends[N_PUTS], put_p50 = 0, append_p50 = 0;
    struct bench b = {.store = NULL};
    uint64_t n = 0;
    size_t append_len = len < 4096 ? 4096 : len;
    sem_init(&b.woken, 0, 0);
    snprintf(dir, sizeof dir, "%s/put-%zu", folder, len);
    snprintf(file, sizeof file, "%s/append-%zu", folder, len);
    int fd = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0)
        bench_die("%s: %s", file, strerror(errno));
    memset(data, 0x5a, sizeof data);
    bench_open(&b, dir, 4096 * MIB);
    for (unsigned i = 0; i < N_PUTS; i++, n++) /* the first pages of both files */
        put_ms(&b, n, data, len, -1), append_ms(fd, data, append_len);
    for (size_t round = 0; round < n_rounds; round++) {
        for (unsigned i = 0; i < N_PUTS; i++, n++) {
            memcpy(data, &n, sizeof n);
            puts[i] = put_ms(&b, n, data, len, -1);
            appends[i] = append_ms(fd, data, append_len);
        }
        put_p50 = bench_quantile(puts, N_PUTS, 0.5);
        append_p50 = bench_quantile(appends, N_PUTS, 0.5);
        ratios[round] = put_p50 / append_p50;
    }
    snprintf(what, sizeof what, "durable put of %zu bytes / append of %zu, fdatasync", len,
             append_len);
    bench_row("P6", what, ratios, n_rounds, BENCH_AT_MOST, 1.5);
    printf("      last round: put p50 %.3f ms, p99 %.3f ms; append p50 %.3f ms, p99 %.3f ms\n",
           put_p50, bench_quantile(puts, N_PUTS, 0.99), append_p50,
           bench_quantile(appends, N_PUTS, 0.99));
    store_close(b.store);
    close(fd);
}

static unsigned group_left;

static void on_group_done(void *arg, int status, bool existed, const struct err *e)
{
    group_left--;
    on_done(arg, status, existed, e);
}

/* Puts that share commits: how many a second. */
static void bench_put_grouped(const char *folder)
{
    char dir[4096], data[20 << 10];
    struct bench b = {.store = NULL};
    enum { N = 6400, AT_ONCE = 32 };
    sem_init(&b.woken, 0, 0);
    snprintf(dir, sizeof dir, "%s/put-grouped", folder);
    memset(data, 0x5a, sizeof data);
    bench_open(&b, dir, 4096 * MIB);
    uint64_t start = bench_now_ns();
    for (uint64_t n = 0; n < N;) {
        for (group_left = 0; group_left < AT_ONCE; group_left++, n++) {
            struct store_put put = put_of(&b, n, sizeof data);
            put.data = data;
            put.on_done = on_group_done;
            if (store_put(b.store, &put, NULL) != 0)
                bench_die("a put was refused");
        }
        for (store_poll(b.store); group_left; store_poll(b.store))
            sem_wait(&b.woken);
    }
    double seconds = (double)(bench_now_ns() - start) / 1e9;
    printf("      %d at once, 20 KiB: %.0f durable puts/s\n", AT_ONCE, N / seconds);
    store_close(b.store);
}

/* ---- P7 ---- */

static uint64_t counted_bytes;

static int on_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)path, (void)ftw;
    counted_bytes += type == FTW_F ? (uint64_t)st->st_blocks * 512 : 0;
    return 0;
}

static uint64_t disk_bytes(const char *dir)
{
    counted_bytes = 0;
    nftw(dir, on_file, 16, FTW_PHYS);
    return counted_bytes;
}

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 11;
}

/* Lengths spread evenly over their logarithm, from 1 KiB to 64 MiB, with a tail as of compiled
 * kernels: two thirds are below 64 KiB and hold little of the bytes. */
static size_t churn_len(uint64_t *state)
{
    unsigned shift = next_random(state) % 3 ? next_random(state) % 6 : 6 + next_random(state) % 10;
    uint64_t len = (1ull << (10 + shift)) + next_random(state) % (1ull << (10 + shift));
    return len < CHURN_VALUE_MAX ? (size_t)len : (size_t)CHURN_VALUE_MAX;
}

struct churn {
    double ratio_max, put_max_ms, put_cpu_ms /* the most that one took */, small_max_ms;
    uint64_t n_puts, n_bytes;
};

static double process_cpu_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* One turnover of the cap. `data` holds CHURN_VALUE_MAX bytes in a memfd. */
static struct churn churn_turn(struct bench *b, const char *dir, int fd, uint8_t *map, uint64_t *n,
                               uint64_t *state)
{
    struct churn c = {0};
    struct store_stats st;
    uint64_t measured = 0;
    while (c.n_bytes < CHURN_CAP) {
        size_t len = churn_len(state);
        memcpy(map, n, sizeof *n); /* no two are the same */
        int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        double cpu_ms = process_cpu_ms(), ms = put_ms(b, (*n)++, NULL, len, own);
        cpu_ms = process_cpu_ms() - cpu_ms;
        c.put_cpu_ms = cpu_ms > c.put_cpu_ms ? cpu_ms : c.put_cpu_ms;
        c.put_max_ms = ms > c.put_max_ms ? ms : c.put_max_ms;
        if (len <= STORE_INLINE_MAX)
            c.small_max_ms = ms > c.small_max_ms ? ms : c.small_max_ms;
        c.n_puts++;
        c.n_bytes += len;
        if (c.n_bytes - measured < CHURN_CAP / 16)
            continue;
        measured = c.n_bytes;
        store_stats(b->store, &st);
        double ratio = (double)disk_bytes(dir) / (double)st.n_bytes;
        c.ratio_max = ratio > c.ratio_max ? ratio : c.ratio_max;
    }
    return c;
}

static void bench_churn(const char *folder)
{
    char dir[4096];
    struct bench b = {.store = NULL};
    double ratios[CHURN_TURNOVERS], worst[CHURN_TURNOVERS];
    uint64_t n = 0, state = 1, n_puts = 0;
    double cpu_ms = 0;
    sem_init(&b.woken, 0, 0);
    snprintf(dir, sizeof dir, "%s/churn", folder);
    int fd = memfd_create("value", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, CHURN_VALUE_MAX) != 0)
        bench_die("memfd: %s", strerror(errno));
    uint8_t *map = mmap(NULL, CHURN_VALUE_MAX, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        bench_die("mmap: %s", strerror(errno));
    for (size_t i = 0; i < CHURN_VALUE_MAX; i += 8)
        memcpy(map + i, &(uint64_t){next_random(&state)}, 8);
    bench_open(&b, dir, CHURN_CAP);
    churn_turn(&b, dir, fd, map, &n, &state); /* fills it */
    for (unsigned turn = 0; turn < CHURN_TURNOVERS; turn++) {
        struct churn c = churn_turn(&b, dir, fd, map, &n, &state);
        struct store_stats st;
        store_stats(b.store, &st);
        ratios[turn] = c.ratio_max;
        worst[turn] = c.put_max_ms;
        cpu_ms = c.put_cpu_ms > cpu_ms ? c.put_cpu_ms : cpu_ms;
        n_puts += c.n_puts;
        printf(
            "      turnover %2u: disk/live <= %.3f, live/cap %.3f, worst put %.0f ms, worst below "
            "64 KiB %.0f ms\n",
            turn + 1, c.ratio_max, (double)st.n_bytes / CHURN_CAP, c.put_max_ms, c.small_max_ms);
    }
    bench_row("P7", "disk / live at the cap, values to 64 MiB", ratios, CHURN_TURNOVERS,
              BENCH_AT_MOST, 1.10);
    printf(
        "      %llu puts, the worst of all %.0f ms; the most that one took of all CPUs %.0f ms\n",
        (unsigned long long)n_puts, bench_quantile(worst, CHURN_TURNOVERS, 1), cpu_ms);
    bench_row("P7", "the longest put of a turnover, ms", worst, CHURN_TURNOVERS, BENCH_AT_MOST,
              150);
    store_close(b.store);
    munmap(map, CHURN_VALUE_MAX);
    close(fd);
}

/* ---- P9 ---- */

/* Resident memory in MiB: of this process, and of that what no file is behind. */
static void resident(double *out_all, double *out_own)
{
    char line[256];
    long all_kib = 0, own_kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f)) {
        sscanf(line, "VmRSS: %ld", &all_kib);
        sscanf(line, "RssAnon: %ld", &own_kib);
    }
    if (f)
        fclose(f);
    *out_all = (double)all_kib / 1024;
    *out_own = (double)own_kib / 1024;
}

static void on_row(void *arg, const struct store_row *row) { *(uint64_t *)arg += row->len; }

static double scan_ms(struct bench *b)
{
    struct store_cursor cursor = {{0}};
    uint64_t bytes = 0, start = bench_now_ns();
    while (store_scan(b->store, &cursor, 4096, on_row, &bytes, NULL) == 1)
        store_turn_end(b->store);
    store_turn_end(b->store);
    return (double)(bench_now_ns() - start) / 1e6;
}

static double hits_ns(struct bench *b)
{
    enum { N = 500000 };
    struct store_value v;
    uint64_t start = bench_now_ns();
    for (uint64_t i = 0; i < N; i++) {
        uint64_t n = i * 7919 % N_ENTRIES;
        struct store_id id = {STORE_MADE_HERE, key_of_bytes(&n, sizeof n)};
        if (store_get(b->store, &id, &v, NULL) != 0)
            bench_die("an entry is not there");
        store_turn_end(b->store);
    }
    return (double)(bench_now_ns() - start) / N;
}

static void fill(struct bench *b, const char *dir)
{
    bench_open(b, dir, 16384 * MIB);
    char data[1024];
    memset(data, 0x5a, sizeof data);
    for (uint64_t n = 0; n < N_ENTRIES; n++) {
        struct store_put put = put_of(b, n, 100);
        memcpy(data, &n, sizeof n);
        put.data = data;
        put.on_done = n % 1000 == 999 ? on_done : NULL;
        b->done = false;
        if (store_put(b->store, &put, NULL) != 0)
            bench_die("a put was refused");
        if (n % 1000 == 999)
            wait_done(b);
    }
    store_close(b->store);
}

static void bench_start_up(const char *folder)
{
    char dir[4096];
    double opens[N_OPENS], all, own;
    struct bench b = {.store = NULL};
    struct store_value v;
    sem_init(&b.woken, 0, 0);
    snprintf(dir, sizeof dir, "%s/million", folder);
    fill(&b, dir);
    for (unsigned i = 0; i < N_OPENS; i++) {
        uint64_t n = i * 100003ull % N_ENTRIES, start = bench_now_ns();
        bench_open(&b, dir, 16384 * MIB);
        struct store_id id = {STORE_MADE_HERE, key_of_bytes(&n, sizeof n)};
        if (store_get(b.store, &id, &v, NULL) != 0)
            bench_die("entry %llu is not there", (unsigned long long)n);
        opens[i] = (double)(bench_now_ns() - start) / 1e6;
        if (i + 1 < N_OPENS)
            store_close(b.store);
    }
    bench_row("P9", "ms from store_open to the first value, 10^6 entries", opens, N_OPENS,
              BENCH_AT_MOST, 5);
    resident(&all, &own);
    printf("      resident after the first hit: %.1f MiB, %.1f MiB of it not file pages\n", all,
           own);
    bench_row("P9", "resident after the first hit, MiB", &all, 1, BENCH_AT_MOST, 64);
    uint64_t bytes = disk_bytes(dir);
    printf("      %.0f bytes on disk for each entry of 100 bytes, its row and all tables\n",
           (double)bytes / N_ENTRIES);
    printf("      scan of all rows: %.0f ms", scan_ms(&b));
    printf(", again %.0f ms\n", scan_ms(&b));
    printf("      random hit of 10^6, one a turn: %.0f ns", hits_ns(&b));
    printf(", again %.0f ns\n", hits_ns(&b));
    resident(&all, &own);
    printf("      resident after that: %.1f MiB, %.1f MiB of it not file pages\n", all, own);
    store_close(b.store);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        bench_die("usage: store FOLDER MEMORY [put|churn|start]");
    const char *only = argc > 3 ? argv[3] : "";
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!*only || strcmp(only, "put") == 0) {
        bench_put(argv[1], 1 << 10);
        bench_put(argv[1], 20 << 10);
        bench_put_grouped(argv[1]);
    }
    if (!*only || strcmp(only, "churn") == 0)
        bench_churn(argv[2]);
    if (!*only || strcmp(only, "start") == 0)
        bench_start_up(argv[2]);
    return 0;
}
