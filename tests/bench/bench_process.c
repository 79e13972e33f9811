/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_process.c - P5: what a hit costs as a whole process, beside /bin/true and ccache.
 *
 *     bench_process WARM WARMD NVRTC CCACHE FILE.cu FOLDER
 *
 * `warm compile` of a cached file, written out; ccache's direct hit on a small C file; /bin/true,
 * the floor that exec sets. The three take turns. Times are from posix_spawn to the end of the
 * process.
 */
#include "tests/bench/bench.h"

#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N_ROUNDS = 9, N_TURNS = 100 };

extern char **environ;

/* Microseconds of a whole process; anything but exit status 0 ends the benchmark. */
static double process_us(char *const argv[])
{
    pid_t pid;
    int status;
    uint64_t start = bench_now_ns();
    if (posix_spawn(&pid, argv[0], NULL, NULL, argv, environ) || waitpid(pid, &status, 0) != pid)
        bench_die("cannot run %s: %s", argv[0], strerror(errno));
    uint64_t end = bench_now_ns();
    if (status)
        bench_die("%s %s failed", argv[0], argv[1] ? argv[1] : "");
    return (double)(end - start) / 1000;
}

static char *text(const char *format, const char *a, const char *b)
{
    char *out;
    if (asprintf(&out, format, a, b) < 0)
        bench_die("out of memory");
    return out;
}

int main(int argc, char **argv)
{
    if (argc != 7)
        bench_die("usage: bench_process WARM WARMD NVRTC CCACHE FILE.cu FOLDER");
    char *folder = argv[6], *socket = text("%s/%s", folder, "process.sock");
    char *c_file = text("%s/%s", folder, "small.c"),
         *store = text("%s/%s", folder, "process-store");
    char *cubin = text("%s/%s", folder, "out.cubin"), *object = text("%s/%s", folder, "small.o");
    FILE *f = fopen(c_file, "w");
    if (!f || fputs("int add(int a, int b) { return a + b; }\n", f) < 0 || fclose(f))
        bench_die("cannot write %s", c_file);
    setenv("WARM_SOCKET", socket, 1);
    setenv("CCACHE_DIR", text("%s/%s", folder, "ccache"), 1);
    bench_pin(0);
    pid_t warmd = bench_start(
        (char *[]){argv[2], "--socket", socket, "--store", store, "--nvrtc", argv[3], NULL});
    close(bench_connect(socket));

    char *true_argv[] = {"/bin/true", NULL};
    char *warm_argv[] = {argv[1], "compile", argv[5], "--arch", "sm_90", "-o", cubin, NULL};
    char *ccache_argv[] = {argv[4], "/usr/bin/gcc", "-c", c_file, "-o", object, NULL};
    process_us(warm_argv); /* the misses */
    process_us(ccache_argv);
    process_us(ccache_argv);

    double over_ms[N_ROUNDS], ratio[N_ROUNDS], medians[3][N_ROUNDS];
    for (int r = 0; r < N_ROUNDS; r++) {
        double us[3][N_TURNS];
        for (int i = 0; i < N_TURNS; i++) {
            us[0][i] = process_us(true_argv);
            us[1][i] = process_us(warm_argv);
            us[2][i] = process_us(ccache_argv);
        }
        for (int s = 0; s < 3; s++)
            medians[s][r] = bench_quantile(us[s], N_TURNS, 0.5);
        over_ms[r] = (medians[1][r] - medians[0][r]) / 1000;
        ratio[r] = medians[2][r] / medians[1][r];
    }
    printf("whole processes on one CPU, us: /bin/true %.0f, warm compile %.0f, ccache %.0f\n",
           bench_quantile(medians[0], N_ROUNDS, 0.5), bench_quantile(medians[1], N_ROUNDS, 0.5),
           bench_quantile(medians[2], N_ROUNDS, 0.5));
    bench_ratio("P5", "warm compile, hit, minus /bin/true, ms", over_ms, N_ROUNDS, "<= 0.5");
    bench_ratio("P5", "ccache's hit / ours", ratio, N_ROUNDS, ">= 2.5");
    bench_stop(warmd);
    return 0;
}
