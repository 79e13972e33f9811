/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process.c - P5 and P10: hits and misses of whole processes.
 *
 *     process WARM WARMD NVRTC CCACHE FILE.cu FOLDER
 *
 * P5   `warm compile` of a cached file, written out; ccache's direct hit on a small C file; /bin/true,
 *      the floor that exec sets. The three take turns on one CPU. Times are from posix_spawn to the
 *      end of the process. Without ccache that row is left out.
 * P10  64 processes that ask for the same new source at once: how often it is compiled.
 */
#include "tests/bench/bench.h"

#include <errno.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N_ROUNDS = 9, N_TURNS = 60, N_AT_ONCE = 64, N_SOURCES = 3 };

extern char **environ;

static char *text(const char *format, const char *a, const char *b)
{
    char *out;
    if (asprintf(&out, format, a, b) < 0)
        bench_die("out of memory");
    return out;
}

static pid_t begin(char *const argv[])
{
    pid_t pid;
    int error = posix_spawn(&pid, argv[0], NULL, NULL, argv, environ);
    if (error)
        bench_die("cannot run %s: %s", argv[0], strerror(error));
    return pid;
}

/* Anything but exit status 0 ends the benchmark. */
static void end(pid_t pid, char *const argv[])
{
    int status;
    if (waitpid(pid, &status, 0) != pid || status)
        bench_die("%s %s failed", argv[0], argv[1] ? argv[1] : "");
}

/* Microseconds of a whole process. */
static double process_us(char *const argv[])
{
    uint64_t began = bench_now_ns();
    end(begin(argv), argv);
    return (double)(bench_now_ns() - began) / 1000;
}

/* ---- P5 ---- */

static void bench_hits(char *const warm[], char *const ccache[])
{
    static char *const floor_argv[] = {"/bin/true", NULL};
    char *const *const subjects[] = {floor_argv, warm, ccache};
    bool has_ccache = access(ccache[0], X_OK) == 0;
    const size_t n_rounds = bench_rounds(N_ROUNDS);
    double over_ms[N_ROUNDS], ratio[N_ROUNDS], medians[3][N_ROUNDS] = {{0}};
    for (int i = 0; i < 2; i++) { /* the misses */
        process_us(warm);
        if (has_ccache)
            process_us(ccache);
    }
    for (size_t r = 0; r < n_rounds; r++) {
        double us[3][N_TURNS];
        for (int i = 0; i < N_TURNS; i++)
            for (int s = 0; s < 2 + has_ccache; s++)
                us[s][i] = process_us(subjects[s]);
        for (int s = 0; s < 2 + has_ccache; s++)
            medians[s][r] = bench_quantile(us[s], N_TURNS, 0.5);
        over_ms[r] = (medians[1][r] - medians[0][r]) / 1000;
        ratio[r] = medians[2][r] / medians[1][r];
    }
    printf("whole processes on one CPU, us: /bin/true %.0f, warm compile %.0f, ccache %.0f\n",
           bench_quantile(medians[0], n_rounds, 0.5), bench_quantile(medians[1], n_rounds, 0.5),
           bench_quantile(medians[2], n_rounds, 0.5));
    bench_row("P5", "warm compile, hit, minus /bin/true, ms", over_ms, n_rounds, BENCH_AT_MOST,
              0.5);
    if (has_ccache)
        bench_row("P5", "ccache's hit / ours", ratio, n_rounds, BENCH_AT_LEAST, 2.5);
    else
        bench_absent("P5", "ccache's hit / ours", "no ccache");
}

/* ---- P10 ---- */

/* The daemon's own count. */
static double n_compiles(const char *warm)
{
    char *command = text("%s stats --json%s", warm, ""), line[1024];
    FILE *f = popen(command, "r");
    double n = -1;
    while (f && n < 0 && fgets(line, sizeof line, f)) {
        const char *at = strstr(line, "\"compiles\":");
        if (at)
            n = strtod(at + strlen("\"compiles\":"), NULL);
    }
    if (!f || n < 0)
        bench_die("%s tells no compiles", command);
    pclose(f);
    free(command);
    return n;
}

static void write_source(const char *path, int n)
{
    FILE *f = fopen(path, "w");
    if (!f ||
        fprintf(f, "__global__ void scale_%d(float *x) { x[threadIdx.x] *= %d; }\n", n, n) < 0 ||
        fclose(f))
        bench_die("cannot write %s", path);
}

static void bench_equal_misses(char *warm, const char *folder)
{
    char *source = text("%s/%s", folder, "equal.cu"), *out = text("%s/%s", folder, "equal.cubin");
    char *argv[] = {warm, "compile", source, "--arch", "sm_90", "-o", out, NULL};
    double compiles[N_SOURCES];
    pid_t pids[N_AT_ONCE];
    for (int r = 0; r < N_SOURCES; r++) {
        write_source(source, r);
        double before = n_compiles(warm);
        for (int i = 0; i < N_AT_ONCE; i++)
            pids[i] = begin(argv);
        for (int i = 0; i < N_AT_ONCE; i++)
            end(pids[i], argv);
        compiles[r] = n_compiles(warm) - before;
    }
    bench_row("P10", "64 processes miss the same at once: compiles", compiles, N_SOURCES,
              BENCH_AT_MOST, 1);
    free(source), free(out);
}

int main(int argc, char **argv)
{
    if (argc != 7)
        bench_die("usage: process WARM WARMD NVRTC CCACHE FILE.cu FOLDER");
    const char *folder = argv[6];
    char *socket = text("%s/%s", folder, "process.sock"),
         *c_file = text("%s/%s", folder, "small.c");
    char *store = text("%s/%s", folder, "process-store"), *ccache = text("%s/%s", folder, "ccache");
    char *cubin = text("%s/%s", folder, "out.cubin"), *object = text("%s/%s", folder, "small.o");
    FILE *f = fopen(c_file, "w");
    if (!f || fputs("int add(int a, int b) { return a + b; }\n", f) < 0 || fclose(f))
        bench_die("cannot write %s", c_file);
    setenv("WARM_SOCKET", socket, 1);
    setenv("CCACHE_DIR", ccache, 1);
    bench_pin(0);
    pid_t warmd = bench_start(
        (char *[]){argv[2], "--socket", socket, "--store", store, "--nvrtc", argv[3], NULL});
    close(bench_connect(socket));
    bench_hits((char *[]){argv[1], "compile", argv[5], "--arch", "sm_90", "-o", cubin, NULL},
               (char *[]){argv[4], "/usr/bin/gcc", "-c", c_file, "-o", object, NULL});
    bench_pin(-1);
    bench_equal_misses(argv[1], folder);
    bench_stop(warmd);
    free(socket), free(c_file), free(store), free(ccache), free(cubin), free(object);
    return 0;
}
