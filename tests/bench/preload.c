/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preload.c - the cost of a hit inside a program that compiles with NVRTC, beside a raw ping-pong on a
 * socket and the compile.
 *
 *     preload WARMD PRELOAD LIBNVRTC FOLDER [-IFOLDER…]
 *
 * One turn is all that a program does: nvrtcCreateProgram, CompileProgram, GetCUBINSize, GetCUBIN,
 * DestroyProgram. Client and daemon share CPU 0, as in hit.c. With -I options a source of CuPy's
 * is compiled too, for whose hits many header paths are looked at.
 *
 * The program starts the daemon and then itself, twice: with the preloaded library, which measures
 * hits; and without, which measures compiles.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/bench/bench.h"

enum { N_ROUNDS = 9, N_COMPILES = 5, N_OPTIONS_MAX = 32, N_PINGS = 2000, N_SUBJECTS = 3 };

static struct {
    int (*create)(void **program, const char *source, const char *name, int n, const char *const *,
                  const char *const *);
    int (*compile)(void *program, int n_options, const char *const *options);
    int (*size)(void *program, size_t *out);
    int (*cubin)(void *program, char *out);
    int (*destroy)(void **program);
} nvrtc;

static struct subject {
    const char *name;
    double target_us;
    char *source;
    const char *options[N_OPTIONS_MAX];
    int n_options;
    unsigned n_turns;
    size_t cubin_bytes;
    char *cubin; /* of the first turn: every other gives the same */
} subjects[N_SUBJECTS] = {{.name = "small", .target_us = 60, .n_turns = 500},
                          {.name = "large", .target_us = 120, .n_turns = 300},
                          {.name = "CuPy's headers", .target_us = 1000, .n_turns = 100}};

static void load(const char *path)
{
    static const char *const names[] = {"nvrtcCreateProgram", "nvrtcCompileProgram",
                                        "nvrtcGetCUBINSize", "nvrtcGetCUBIN",
                                        "nvrtcDestroyProgram"};
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL), *found[5];
    for (size_t i = 0; library && i < 5; i++)
        if (!(found[i] = dlsym(library, names[i])))
            bench_die("%s has no %s", path, names[i]);
    if (!library)
        bench_die("%s", dlerror());
    memcpy(&nvrtc, found, sizeof nvrtc);
}

/* ---- sources ---- */

/* As many kernels as make a cubin of about 64 KiB. */
static char *large_source(void)
{
    char *text;
    size_t len;
    FILE *f = open_memstream(&text, &len);
    for (int i = 0; i < 13; i++)
        fprintf(f,
                "extern \"C\" __global__ void k%d(float *x, int n) {\n"
                "  float v = x[threadIdx.x];\n"
                "  #pragma unroll\n"
                "  for (int i = 0; i < 96; i++) v = v * x[i] + %d.0f;\n"
                "  x[threadIdx.x] = v;\n}\n",
                i, i);
    fclose(f);
    return text;
}

static void prepare(int n_includes, char **includes)
{
    subjects[0].source =
        strdup("extern \"C\" __global__ void saxpy(float a, const float *x, float *y, int n)\n"
               "{ int i = threadIdx.x + blockIdx.x * blockDim.x; if (i < n) y[i] += a * x[i]; }\n");
    subjects[1].source = large_source();
    subjects[2].source = strdup("#include <cupy/complex.cuh>\n#include <cupy/carray.cuh>\n"
                                "#include <cupy/atomics.cuh>\nextern \"C\" __global__ void add(\n"
                                "CArray<float, 1, true, true> x, CArray<float, 1, true, true> y)\n"
                                "{ ptrdiff_t i = threadIdx.x; y[i] += x[i]; }\n");
    for (int i = 0; i < N_SUBJECTS; i++)
        subjects[i].options[subjects[i].n_options++] = "-arch=sm_90";
    struct subject *s = &subjects[2];
    for (int i = 0; i < n_includes && s->n_options < N_OPTIONS_MAX; i++)
        s->options[s->n_options++] = includes[i];
    if (!n_includes)
        s->source = NULL;
}

/* ---- turns ---- */

static void turn(struct subject *s)
{
    void *program;
    size_t size = 0;
    if (nvrtc.create(&program, s->source, "bench.cu", 0, NULL, NULL) ||
        nvrtc.compile(program, s->n_options, s->options) || nvrtc.size(program, &size))
        bench_die("%s does not compile", s->name);
    char *cubin = malloc(size);
    if (!cubin || nvrtc.cubin(program, cubin))
        bench_die("%s: no cubin", s->name);
    if (s->cubin && (size != s->cubin_bytes || memcmp(cubin, s->cubin, size) != 0))
        bench_die("%s: another cubin than before", s->name);
    if (s->cubin)
        free(cubin);
    else
        s->cubin = cubin;
    s->cubin_bytes = size;
    nvrtc.destroy(&program);
}

static uint64_t cpu_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static double median_turn_us(struct subject *s, unsigned n, uint64_t (*now_ns)(void))
{
    double *us = malloc(n * sizeof *us);
    if (!us)
        bench_die("out of memory");
    for (unsigned i = 0; i < n; i++) {
        uint64_t start = now_ns();
        turn(s);
        us[i] = (double)(now_ns() - start) / 1000;
    }
    double median = bench_quantile(us, n, 0.5);
    free(us);
    return median;
}

static double median_ping_us(int fd)
{
    static double us[N_PINGS];
    for (int i = 0; i < N_PINGS; i++) {
        uint64_t start = bench_now_ns();
        bench_ping(fd);
        us[i] = (double)(bench_now_ns() - start) / 1000;
    }
    return bench_quantile(us, N_PINGS, 0.5);
}

/* ---- the two roles ---- */

static void measure_hits(void)
{
    const size_t n_rounds = bench_rounds(N_ROUNDS);
    double ping[N_ROUNDS], over[N_SUBJECTS][N_ROUNDS];
    pid_t pid;
    int fd = bench_ping_pong(&pid);
    for (int i = 0; i < N_SUBJECTS; i++)
        if (subjects[i].source)
            turn(&subjects[i]); /* the miss */
    for (size_t r = 0; r < n_rounds; r++) {
        ping[r] = median_ping_us(fd);
        for (int i = 0; i < N_SUBJECTS; i++)
            if (subjects[i].source)
                over[i][r] =
                    median_turn_us(&subjects[i], subjects[i].n_turns, bench_now_ns) - ping[r];
    }
    close(fd);
    waitpid(pid, NULL, 0);
    printf("raw ping-pong: %.1f us\n", bench_quantile(ping, n_rounds, 0.5));
    for (int i = 0; i < N_SUBJECTS; i++) {
        struct subject *s = &subjects[i];
        char what[80];
        if (!s->source)
            continue;
        snprintf(what, sizeof what, "%s, cubin of %zu bytes: hit beyond ping-pong, us", s->name,
                 s->cubin_bytes);
        bench_row("I1", what, over[i], n_rounds, BENCH_AT_MOST, s->target_us);
    }
    fflush(stdout);
}

static void measure_compiles(void)
{
    for (int i = 0; i < N_SUBJECTS; i++)
        if (subjects[i].source)
            printf("without warm, %s: %.0f us on the processor\n", subjects[i].name,
                   median_turn_us(&subjects[i], N_COMPILES, cpu_now_ns));
    fflush(stdout);
}

/* Runs this program in a role, with these settings added to the environment. */
static void run_role(char **argv, const char *role, const char *preload)
{
    pid_t pid = fork();
    if (pid == 0) {
        setenv("BENCH_ROLE", role, 1);
        if (preload)
            setenv("LD_PRELOAD", preload, 1);
        execv("/proc/self/exe", argv);
        _exit(127);
    }
    int status;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
        bench_die("measuring %s failed", role);
}

int main(int argc, char **argv)
{
    if (argc < 5)
        bench_die("usage: preload WARMD PRELOAD LIBNVRTC FOLDER [-IFOLDER...]");
    const char *role = getenv("BENCH_ROLE");
    bench_pin(0);
    if (role) {
        load(argv[3]);
        prepare(argc - 5, argv + 5);
        strcmp(role, "hits") == 0 ? measure_hits() : measure_compiles();
        return 0;
    }
    char *socket, *store;
    if (asprintf(&socket, "%s/preload.sock", argv[4]) < 0 ||
        asprintf(&store, "%s/preload-store", argv[4]) < 0)
        bench_die("out of memory");
    setenv("WARM_SOCKET", socket, 1);
    pid_t warmd = bench_start((char *[]){argv[1], "--socket", socket, "--store", store, NULL});
    close(bench_connect(socket));
    run_role(argv, "hits", argv[2]);
    run_role(argv, "compiles", NULL);
    bench_stop(warmd);
    free(socket);
    free(store);
    return 0;
}
