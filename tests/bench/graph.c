/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graph.c - what compiling a graph costs, through a daemon that runs on SOCKET as process PID.
 *
 *     graph SOCKET PID MODELS LARGE JOBS
 *
 * Case 0 is the perceptron of three layers in MODELS (kernels/examples) with the gradients of its parameters.
 * Cold takes nothing from the cache. NVRTC's time is what the daemon measured for each kernel. CPU is that of
 * the daemon and its workers: where others use the machine, it says more than the time. 64 layers are those
 * of PyTorch's regional compilation behind one linear, all of width 10: linear, relu, sigmoid, linear, relu. Planning is all but
 * the compiles of kernels: read, derivative, code, places. The static figures are of kernels of models in LARGE
 * (tests/data/jax_large.txt) with their gradients: the most registers, stack and shared memory of any kernel,
 * and the bytes of all tensors that launches read and write, as a multiple of those of arguments and results. Loops count once.
 * G9 is how well these cold compiles fill the CPUs: their time, by that of their kernels in NVRTC by JOBS, the compiles at a time.
 */
#include "tests/bench/bench.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/lib/warm.h"
#include "kernels/bundle/graph_bundle.h"
#include "kernels/vjp/vjp.h"

enum { ROUNDS = 5, LAYERS = 64, PARAMETERS_MAX = 512, PIDS_MAX = 4096, TEXT_MAX = 1 << 24 };

static const char *socket_path, *models;
static double jobs;
static int daemon_pid;

/* ---- the daemon's CPU time ---- */

struct process {
    int pid, parent;
    double ms; /* its own, and of children that have ended */
};

static bool read_process(const char *pid, struct process *out)
{
    char path[64], text[1024];
    unsigned long t[4];
    snprintf(path, sizeof path, "/proc/%.16s/stat", pid);
    FILE *f = fopen(path, "r");
    size_t len = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f)
        fclose(f);
    text[len] = '\0';
    const char *end = strrchr(text, ')');
    out->pid = atoi(pid);
    if (!end || sscanf(end + 1, " %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %lu %lu",
                       &out->parent, &t[0], &t[1], &t[2], &t[3]) != 5)
        return false;
    out->ms = (double)(t[0] + t[1] + t[2] + t[3]) * 1000 / (double)sysconf(_SC_CLK_TCK);
    return true;
}

/* Returns the CPU time of the daemon and of all below it. */
static double daemon_cpu_ms(void)
{
    static struct process all[PIDS_MAX];
    int n = 0;
    double ms = 0;
    DIR *proc = opendir("/proc");
    for (struct dirent *e; proc && n < PIDS_MAX && (e = readdir(proc));)
        if (e->d_name[0] >= '1' && e->d_name[0] <= '9')
            n += read_process(e->d_name, &all[n]);
    if (proc)
        closedir(proc);
    for (int i = 0; i < n; i++) {
        int at = i;
        for (int depth = 0; depth < 8 && at >= 0 && all[at].pid != daemon_pid; depth++) {
            int k = 0;
            while (k < n && all[k].pid != all[at].parent)
                k++;
            at = k < n ? k : -1;
        }
        ms += at >= 0 && all[at].pid == daemon_pid ? all[i].ms : 0;
    }
    return ms;
}

/* ---- graphs ---- */

static double now_ms(void) { return (double)bench_now_ns() / 1e6; }

struct compiled {
    double ms, nvrtc_ms, cpu_ms;
    unsigned kernels, hits;
};

/* Compiles a text with the gradients of its first arguments, on a new connection. */
static struct compiled compile(const char *text, uint32_t n_gradients, bool cold)
{
    static uint32_t arguments[PARAMETERS_MAX];
    struct warm_graph g = {.data = text,
                           .len = strlen(text),
                           .target = "sm_90",
                           .flags = WARM_GRAPH_VJP,
                           .arguments = arguments,
                           .n_arguments = n_gradients,
                           .job_flags = cold ? WARM_RECACHE : 0};
    struct warm_options options = {.socket = socket_path};
    struct warm_graph_result r;
    struct warm *w;
    for (uint32_t i = 0; i < PARAMETERS_MAX; i++)
        arguments[i] = i;
    double cpu = daemon_cpu_ms(), began = now_ms();
    if (warm_open(&w, &options))
        bench_die("no daemon at %s", socket_path);
    if (warm_graph_compile(w, &g, &r))
        bench_die("%s", warm_message(w));
    struct compiled c = {.ms = now_ms() - began,
                         .nvrtc_ms = (double)r.cost_ms,
                         .kernels = r.n_kernels,
                         .hits = r.n_hits};
    c.cpu_ms = daemon_cpu_ms() - cpu;
    warm_graph_result_free(&r);
    warm_close(w);
    return c;
}

static char *model(const char *name)
{
    char path[4096], *text = calloc(1, 1 << 16);
    snprintf(path, sizeof path, "%s/%s.mlir", models, name);
    FILE *f = fopen(path, "rb");
    if (!f || !text || fread(text, 1, (1 << 16) - 1, f) == 0)
        bench_die("%s: cannot be read", path);
    fclose(f);
    return text;
}

#define X "tensor<32x10xf32>"
#define W "tensor<10x10xf32>"
#define B "tensor<10xf32>"
#define H "tensor<10x1xf32>"
#define Y "tensor<32x1xf32>"

/* Writes x·w + b, number i of a chain. Its result is %l, or the next %x for the first. */
static char *write_linear(char *at, int i)
{
    return at + sprintf(at,
                        "%%d%d = stablehlo.dot_general %%x%d, %%w%d, contracting_dims = [1] x [0] "
                        ": (" X ", " W ") -> " X "\n"
                        "%%e%d = stablehlo.broadcast_in_dim %%b%d, dims = [1] : (" B ") -> " X "\n"
                        "%%%c%d = stablehlo.add %%d%d, %%e%d : " X "\n",
                        i, i, i, i, i, i ? 'l' : 'x', i ? i : 1, i, i);
}

/* Returns one linear and then a chain of layers. Parameters are w0, b0, w1, b1, …: one pair, then two for each
 * layer, and the head's. A head is a product to one column, and its sum is the loss. */
static char *chain(int layers, bool head)
{
    char *text = calloc(1, TEXT_MAX), *at = text;
    at += sprintf(at, "func.func public @main(");
    for (int i = 0; i <= 2 * layers; i++)
        at += sprintf(at, "%%w%d: " W ", %%b%d: " B ", ", i, i);
    at += sprintf(at,
                  "%%h: " H ", %%x0: " X ") -> %s {\n"
                  "%%zero = stablehlo.constant dense<0.0> : " X "\n"
                  "%%sum = stablehlo.constant dense<0.0> : tensor<f32>\n",
                  head ? "tensor<f32>" : X);
    for (int i = 0; i <= 2 * layers; i++) {
        at = write_linear(at, i);
        if (i)
            at += sprintf(at, "%%%c%d = stablehlo.maximum %%l%d, %%zero : " X "\n",
                          i % 2 ? 'r' : 'x', i % 2 ? i : i + 1, i);
        if (i % 2)
            at += sprintf(at, "%%x%d = stablehlo.logistic %%r%d : " X "\n", i + 1, i);
    }
    if (head)
        at += sprintf(at,
                      "%%p = stablehlo.dot_general %%x%d, %%h, contracting_dims = [1] x [0] : (" X
                      ", " H ") -> " Y "\n"
                      "%%r = stablehlo.reduce(%%p init: %%sum) applies stablehlo.add across "
                      "dimensions = [0, 1] : (" Y ", tensor<f32>) -> tensor<f32>\n",
                      2 * layers + 1);
    sprintf(at, head ? "return %%r : tensor<f32>\n}\n" : "return %%x%d : " X "\n}\n",
            2 * layers + 1);
    return text;
}

/* Compiles a chain of layers with the gradients of all parameters. */
static struct compiled compile_chain(int layers, bool head, bool cold)
{
    char *text = chain(layers, head);
    struct compiled c = compile(text, 4 * (uint32_t)layers + 2 + head, cold);
    free(text);
    return c;
}

/* ---- planning ---- */

/* Returns the nanoseconds for each operation of a chain of so many. */
static double plan_ns(int n)
{
    char *text = malloc((size_t)n * 64 + 256), *at = text;
    at += sprintf(at, "func.func public @main(%%x0: tensor<32xf32>) -> tensor<32xf32> {\n");
    for (int i = 0; i < n; i++)
        at += sprintf(at, "%%x%d = stablehlo.%s %%x%d : tensor<32xf32>\n", i + 1,
                      i % 3 ? "tanh" : "exponential", i);
    sprintf(at, "return %%x%d : tensor<32xf32>\n}\n", n);
    const uint32_t first = 0;
    struct program *p, *d;
    struct codegen c;
    struct graph_bundle b;
    struct err e = {0};
    struct timespec t0, t1;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t0);
    if (program_read(text, strlen(text), &p, &e) ||
        vjp_function(p, program_function(p, NULL), &first, 1, &d, &e) ||
        codegen_function(d, program_function(d, NULL), &c, &e) || graph_bundle_plan(&c, &b, &e))
        bench_die("%s", e.text);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t1);
    graph_bundle_close(&b);
    codegen_free(&c);
    program_free(d);
    program_free(p);
    free(text);
    return ((double)(t1.tv_sec - t0.tv_sec) * 1e9 + (double)(t1.tv_nsec - t0.tv_nsec)) / n;
}

/* ---- static figures ---- */

/* Returns the bytes of local memory that a thread of a cubin's kernel has, where registers spill: the attribute
 * EIATTR_MIN_STACK_SIZE of section .nv.info, 0x12 behind its form 4: size, symbol, value. */
static uint32_t stack_of(struct view cubin)
{
    static const uint8_t ATTRIBUTE[] = {4, 0x12, 8, 0};
    const uint8_t *at = memmem(cubin.data, cubin.len, ATTRIBUTE, sizeof ATTRIBUTE);
    uint32_t bytes;
    if (!at || at + 12 > (const uint8_t *)cubin.data + cubin.len)
        bench_die("a cubin without EIATTR_MIN_STACK_SIZE");
    memcpy(&bytes, at + 8, sizeof bytes);
    return bytes;
}

/* Returns the bytes of tensors that launches read and write, by those of arguments and results. */
static double traffic(const struct graph_bundle *b)
{
    double moved = 0, least = 0;
    for (uint32_t i = 0; i < b->launches.n; i++)
        for (uint32_t k = 0; k < b->launches.at[i].n_args; k++)
            moved += (double)graph_tensor_bytes(
                &b->buffers.at[b->operands.at[b->launches.at[i].args + k]].type);
    for (uint32_t i = 0; i < b->n_arguments; i++)
        least += (double)graph_tensor_bytes(&b->buffers.at[i].type);
    for (uint32_t i = 0; i < b->results.n; i++)
        least += (double)graph_tensor_bytes(&b->buffers.at[b->results.at[i]].type);
    return moved / least;
}

/* Writes the rows of a model for an architecture. Returns the time of its compile, by that of its kernels / jobs. */
static double needs(const char *name, const char *text, size_t len, const char *arch)
{
    struct warm_graph g = {.data = text,
                           .len = len,
                           .target = arch,
                           .flags = WARM_GRAPH_VJP,
                           .job_flags = WARM_RECACHE};
    struct warm_options options = {.socket = socket_path};
    struct warm_graph_result r;
    struct graph_bundle b;
    struct err e = {0};
    struct warm *w;
    double registers = 0, stack = 0, shared = 0, began = now_ms();
    if (warm_open(&w, &options))
        bench_die("no daemon at %s", socket_path);
    if (warm_graph_compile(w, &g, &r))
        bench_die("%s: %s", name, warm_message(w));
    double filled = (now_ms() - began) * jobs / (double)r.cost_ms;
    if (r.n_hits)
        bench_die("%s: not cold", name);
    if (graph_bundle_read(r.data, r.len, &b, &e))
        bench_die("%s: %s", name, e.text);
    for (uint32_t i = 0; i < b.kernels.n; i++) {
        uint32_t n = 0, spilled = stack_of(b.kernels.at[i].cubin);
        uint64_t bytes = 0;
        if (!graph_cubin_needs(b.kernels.at[i].cubin, &n, &bytes))
            bench_die("%s: a cubin that does not tell", name);
        registers = n > registers ? n : registers;
        stack = spilled > stack ? spilled : stack;
        shared = (double)bytes > shared ? (double)bytes : shared;
    }
    char what[96];
    snprintf(what, sizeof what, "%s, %s: registers, of %u kernels", name, arch, b.kernels.n);
    bench_row("G7", what, &registers, 1, BENCH_AT_MOST, 255);
    bench_row("G7", "  bytes of stack", &stack, 1, BENCH_AT_MOST, 0);
    bench_row("G7", "  bytes of shared memory of a block", &shared, 1, BENCH_AT_MOST, 49152);
    double moved = traffic(&b);
    if (strcmp(arch, "sm_80") == 0) /* the plan is that of all */
        bench_row("G8", "  bytes moved / arguments and results", &moved, 1, BENCH_NO_TARGET, 0);
    graph_bundle_close(&b);
    warm_graph_result_free(&r);
    warm_close(w);
    return filled;
}

static void static_figures(const char *large)
{
    static const char *const ARCHS[] = {"sm_80", "sm_90", "sm_100", "sm_120"}, *const NAMES[] = {
                                                                                   "language_model",
                                                                                   "residual",
                                                                                   "lstm"};
    char *text = calloc(1, TEXT_MAX), line[96];
    double filled[12];
    FILE *f = fopen(large, "rb");
    if (!f || !text || fread(text, 1, TEXT_MAX - 1, f) == 0)
        bench_die("%s: cannot be read", large);
    fclose(f);
    for (size_t i = 0; i < 3; i++) {
        snprintf(line, sizeof line, "graph %s\n", NAMES[i]);
        const char *at = strstr(text, line), *end = at ? strstr(at, "\nend\n") : NULL;
        if (!end)
            bench_die("%s: no graph %s", large, NAMES[i]);
        at += strlen(line);
        for (size_t k = 0; k < 4; k++)
            filled[4 * i + k] = needs(NAMES[i], at, (size_t)(end - at), ARCHS[k]);
    }
    bench_row("G9", "cold compiles of these / (their NVRTC / CPUs)", filled, 12, BENCH_AT_MOST,
              1.2);
    free(text);
}

/* ---- figures ---- */

static void case_0(size_t rounds)
{
    double cold[ROUNDS], nvrtc[ROUNDS], cpu[ROUNDS], warm[4 * ROUNDS], more[ROUNDS];
    char *three = model("mlp_1_16_16_1"), *five = model("mlp_1_16_16_16_16_1");
    unsigned kernels = 0;
    for (size_t i = 0; i < rounds; i++) {
        struct compiled c = compile(three, 6, true);
        cold[i] = c.ms;
        nvrtc[i] = c.nvrtc_ms;
        cpu[i] = c.cpu_ms;
        kernels = c.kernels;
        more[i] = compile(five, 10, false).ms / c.ms;
    }
    for (size_t i = 0; i < 4 * rounds; i++)
        warm[i] = compile(three, 6, false).ms;
    char what[96];
    snprintf(what, sizeof what, "case 0 cold, %u kernels, ms", kernels);
    bench_row("G1", what, cold, rounds, BENCH_AT_MOST, 2000);
    bench_row("G1", "  of it in NVRTC, as the daemon measured", nvrtc, rounds, BENCH_AT_MOST, 2000);
    bench_row("G1", "  CPU of the daemon and its workers, ms", cpu, rounds, BENCH_AT_MOST, 2000);
    bench_row("G2", "case 0 warm, ms", warm, 4 * rounds, BENCH_AT_MOST, 20);
    bench_row("G3", "3 -> 5 layers adds, of the cold time", more, rounds, BENCH_AT_MOST, 0.05);
    free(three);
    free(five);
}

static void layers(size_t rounds, bool head)
{
    double ratio[ROUNDS], cpu[ROUNDS];
    for (size_t i = 0; i < rounds; i++) {
        struct compiled a = compile_chain(1, head, true), b = compile_chain(LAYERS, head, true);
        ratio[i] = b.ms / a.ms;
        cpu[i] = b.cpu_ms / a.cpu_ms;
    }
    bench_row("G4",
              head ? "64 layers / one layer, with a head and a loss" : "64 layers / one layer",
              ratio, rounds, BENCH_AT_MOST, 1.15);
    bench_row("G4", "  the same, CPU of the daemon", cpu, rounds, BENCH_AT_MOST, 1.15);
}

static void depth(void)
{
    compile_chain(10, true, false);
    struct compiled c = compile_chain(12, true, false);
    double fresh = c.kernels - c.hits;
    bench_row("G5", "depth 10 -> 12: kernels compiled", &fresh, 1, BENCH_AT_MOST, 0);
}

static void planning(size_t rounds)
{
    double ratio[ROUNDS], large[ROUNDS], each[ROUNDS];
    for (size_t i = 0; i < rounds; i++) {
        double small = plan_ns(10000);
        each[i] = plan_ns(100000);
        ratio[i] = each[i] / small;
        large[i] = plan_ns(1000000) / each[i];
    }
    bench_row("G6", "planning of 10^5 operations / 10^4, each", ratio, rounds, BENCH_AT_MOST, 1.5);
    bench_row("G6", "  10^6 / 10^5, each", large, rounds, BENCH_AT_MOST, 1.5);
    bench_row("G6", "  ns for each of 10^5, with its derivative", each, rounds, BENCH_AT_MOST,
              10000);
}

int main(int argc, char **argv)
{
    if (argc != 6)
        bench_die("usage: graph SOCKET PID MODELS LARGE JOBS");
    socket_path = argv[1];
    daemon_pid = atoi(argv[2]);
    models = argv[3];
    jobs = atof(argv[5]);
    size_t rounds = bench_rounds(ROUNDS);
    case_0(rounds);
    layers(rounds, false);
    layers(rounds, true);
    depth();
    planning(rounds);
    static_figures(argv[4]);
    return 0;
}
