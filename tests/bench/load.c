/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load.c - P8: the slowest of a hundred hits while the daemon has other work, beside the same
 * hits while it has none.
 *
 *     load WARMD NVRTC FOLDER
 *
 * Three clients make the work, each in a process of its own: one compiles sources that nobody has
 * compiled before, one after the other; one puts a value of 256 KiB every 5 ms, and each put evicts, since
 * the store is full before the first round; one gets 32 MiB every 20 ms, and as any
 * client hashes them. A fourth, which is measured, gets 1 KiB every quarter of a millisecond. In turns
 * with it, it makes a raw ping-pong with a process that does nothing else and has the time slices of the daemon's
 * loop: no server can be faster. Quiet and loaded phases take turns. Nothing is pinned: daemon, worker
 * and clients share what CPUs there are, so with fewer than five the figure is mostly the scheduler's.
 */
#include "client/lib/warm.h"
#include "tests/bench/bench.h"

#include <linux/sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N_ROUNDS = 9, N_HITS = 2000, N_LOADS = 3, HIT_EVERY_US = 250, SETTLE_US = 300000 };
enum { PUT_BYTES = 256 << 10, LARGE_BYTES = 32 << 20, CAP_MIB = 128 };

/* Shared with the children. */
struct load {
    atomic_bool runs;
    atomic_uint busy;       /* loads in the middle of a request */
    atomic_uint n[N_LOADS]; /* requests that each has made */
};

static struct warm *open_client(const char *socket)
{
    struct warm *w;
    const struct warm_options options = {
        .socket = socket, .connect_timeout_ms = 5000, .request_timeout_ms = 60000};
    if (warm_open(&w, &options))
        bench_die("no daemon at %s", socket);
    return w;
}

/* ---- the work: one request each ---- */

static void compile_one(struct warm *w, unsigned n)
{
    static const char *const options[] = {"--gpu-architecture=sm_90"};
    char source[128];
    struct warm_result r;
    snprintf(source, sizeof source,
             "extern \"C\" __global__ void scale(float *x) { x[threadIdx.x] *= %u; }\n", n + 2);
    struct warm_job job = {.name = "scale.cu",
                           .source = source,
                           .source_len = strlen(source),
                           .options = options,
                           .n_options = 1};
    if (warm_compile(w, &job, &r))
        bench_die("warm_compile: %s", warm_message(w));
    if (r.status)
        bench_die("the compiler refused a source: %.*s", (int)r.log.len, (const char *)r.log.data);
    warm_result_free(&r);
}

static void put_one(struct warm *w, unsigned n)
{
    static char value[PUT_BYTES];
    char name[32];
    memcpy(value, &n, sizeof n);
    int len = snprintf(name, sizeof name, "put-%u", n);
    if (warm_put(w, name, (size_t)len, value, sizeof value, NULL))
        bench_die("warm_put: %s", warm_message(w));
}

static void get_large(struct warm *w, unsigned n)
{
    struct warm_value v;
    (void)n;
    if (warm_get(w, "large", 5, 0, &v))
        bench_die("warm_get: %s", warm_message(w));
    warm_value_free(&v);
}

static const struct {
    void (*once)(struct warm *w, unsigned n);
    unsigned pause_us;
} loads[N_LOADS] = {{compile_one, 0}, {put_one, 5000}, {get_large, 20000}};

/* In a child, until it is killed. */
static void load_main(struct load *shared, int i, const char *socket)
{
    struct warm *w = open_client(socket);
    for (unsigned n = 0;; n++) {
        while (!atomic_load(&shared->runs))
            usleep(1000);
        atomic_fetch_add(&shared->busy, 1);
        loads[i].once(w, n);
        atomic_fetch_sub(&shared->busy, 1);
        atomic_fetch_add(&shared->n[i], 1);
        usleep(loads[i].pause_us);
    }
}

static pid_t start_load(struct load *shared, int i, const char *socket)
{
    pid_t parent = getpid(), pid = fork();
    if (pid < 0)
        bench_die("fork failed");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == parent)
            load_main(shared, i, socket);
        _exit(1);
    }
    return pid;
}

/* ---- measuring ---- */

/* Starts the peer of the ping-pong with the slices of the daemon's loop (LOOP_SLICE_NS). Linux before 6.12
 * ignores them. */
static int start_ping_pong(pid_t *out_pid)
{
    struct { /* struct sched_attr of linux/sched/types.h */
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime_ns, deadline_ns, period_ns;
    } attr = {.size = sizeof attr, .policy = SCHED_NORMAL, .runtime_ns = 100000};
    int fd = bench_ping_pong(out_pid);
    syscall(SYS_sched_setattr, *out_pid, &attr, 0);
    return fd;
}

static void get_small(struct warm *w)
{
    struct warm_value v;
    if (warm_get(w, "small", 5, 0, &v))
        bench_die("warm_get: %s", warm_message(w));
    warm_value_free(&v);
}

enum { HIT, PING, N_SUBJECTS };

/* 99th percentiles of hits of 1 KiB, and of ping-pongs, in microseconds. */
static void measure_p99_us(struct warm *w, int ping, double out[N_SUBJECTS])
{
    static double us[N_SUBJECTS][N_HITS];
    for (int i = 0; i < N_HITS; i++) {
        for (int s = 0; s < N_SUBJECTS; s++) {
            uint64_t began = bench_now_ns();
            if (s == HIT)
                get_small(w);
            else
                bench_ping(ping);
            us[s][i] = (double)(bench_now_ns() - began) / 1000;
            usleep(HIT_EVERY_US);
        }
    }
    for (int s = 0; s < N_SUBJECTS; s++)
        out[s] = bench_quantile(us[s], N_HITS, 0.99);
}

static void quieten(struct load *shared)
{
    atomic_store(&shared->runs, false);
    while (atomic_load(&shared->busy))
        usleep(1000);
    usleep(SETTLE_US);
}

static void measure(struct warm *w, int ping, struct load *shared)
{
    const size_t n_rounds = bench_rounds(N_ROUNDS);
    double quiet[N_ROUNDS], loaded[N_ROUNDS], ratio[N_ROUNDS], pings[N_ROUNDS], floor[N_ROUNDS];
    for (size_t r = 0; r < n_rounds; r++) {
        double before[N_SUBJECTS], under[N_SUBJECTS];
        quieten(shared);
        measure_p99_us(w, ping, before);
        atomic_store(&shared->runs, true);
        usleep(SETTLE_US);
        measure_p99_us(w, ping, under);
        quiet[r] = before[HIT];
        loaded[r] = under[HIT];
        ratio[r] = under[HIT] / before[HIT];
        pings[r] = under[PING] / before[PING];
        floor[r] = under[HIT] / under[PING];
    }
    quieten(shared);
    printf(
        "hit of 1 KiB, p99 us: quiet %.0f, loaded %.0f on %ld CPUs; meanwhile %u compiles, %u puts "
        "of 256 KiB, %u gets of 32 MiB\n",
        bench_quantile(quiet, n_rounds, 0.5), bench_quantile(loaded, n_rounds, 0.5),
        sysconf(_SC_NPROCESSORS_ONLN), atomic_load(&shared->n[0]), atomic_load(&shared->n[1]),
        atomic_load(&shared->n[2]));
    bench_row("P8", "hit p99 / ping-pong p99, both under load", floor, n_rounds, BENCH_AT_MOST,
              1.3);
    bench_row("P8", "hit p99 under load / quiet p99", ratio, n_rounds, BENCH_NO_TARGET, 0);
    bench_row("P8", "the same of a raw ping-pong", pings, n_rounds, BENCH_NO_TARGET, 0);
}

/* The values that are asked for, dear enough to stay, and as many others as the cap allows. */
static void fill(struct warm *w)
{
    const struct warm_put_options dear = {.cost_ms = 3600 * 1000};
    char *large = malloc(LARGE_BYTES);
    if (!large)
        bench_die("out of memory");
    memset(large, 0x5a, LARGE_BYTES);
    if (warm_put(w, "small", 5, large, 1 << 10, &dear) ||
        warm_put(w, "large", 5, large, LARGE_BYTES, &dear))
        bench_die("warm_put: %s", warm_message(w));
    free(large);
    for (unsigned n = 0; n < ((unsigned)CAP_MIB << 20) / PUT_BYTES; n++)
        put_one(w, n + 1000000000);
}

int main(int argc, char **argv)
{
    char socket[108], store[4096], cap[16];
    pid_t pids[N_LOADS];
    if (argc != 4)
        bench_die("usage: load WARMD NVRTC FOLDER");
    struct load *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        bench_die("out of memory");
    snprintf(socket, sizeof socket, "%s/load.sock", argv[3]);
    snprintf(store, sizeof store, "%s/load-store", argv[3]);
    snprintf(cap, sizeof cap, "%dM", CAP_MIB);
    pid_t warmd = bench_start((char *[]){argv[1], "--socket", socket, "--store", store, "--nvrtc",
                                         argv[2], "--max-size", cap, NULL});
    close(bench_connect(socket));
    struct warm *w = open_client(socket);
    fill(w);
    pid_t peer;
    int ping = start_ping_pong(&peer);
    for (int i = 0; i < N_LOADS; i++)
        pids[i] = start_load(shared, i, socket);
    measure(w, ping, shared);
    for (int i = 0; i < N_LOADS; i++) {
        kill(pids[i], SIGKILL);
        waitpid(pids[i], NULL, 0);
    }
    close(ping);
    waitpid(peer, NULL, 0);
    warm_close(w);
    bench_stop(warmd);
    return 0;
}
