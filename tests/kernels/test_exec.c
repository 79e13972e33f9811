/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_exec.c - the runner of bundles, on this machine's GPU or else on the stand-in for a driver: the numbers are
 * JAX's, launched one by one and replayed as a CUDA graph; what goes wrong on a device is an error with CUDA's name.
 */
#include "client/lib/warm.h" /* first: its own error codes */

#include "kernels/exec/exec.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/exec/npy.h"
#include "kernels/vjp/vjp.h"
#include "tests/kernels/any_gpu.h"
#include "tests/kernels/for_cpu.h"
#include "tests/kernels/made.h"
#include "tests/support/support.h"

#define SAMPLE 5 /* of so many graphs one is run; with WARM_TEST_ALL on the CPU all */

static void elf_begin(uint8_t *out) { memcpy(out, "\177ELF\2\1", 6); }

/* Compiles what was written, and opens the GPU, or the stand-in with it. */
static struct driver *driver_of(struct for_cpu *cpu)
{
    struct driver *d = NULL;
    struct err e = {0};
    for_cpu_compile(cpu);
    any_gpu_use(cpu->folder);
    cr_assert_eq(driver_open(0, &d, &e), 0, "%s", e.text);
    return d;
}

/* Compares the first n results with JAX. */
static void expect_results(const struct jax_graph *g, struct graph_exec *x,
                           const struct graph_bundle *b, size_t n)
{
    struct err e = {0};
    for (uint32_t i = 0; i < n; i++) {
        const struct tensor *t = &b->buffers.at[b->results.at[i]].type;
        int64_t *is = calloc((size_t)t->n + 1, sizeof *is); /* enough for each type */
        cr_assert_eq(graph_exec_read(x, i, is, &e), 0, "%s: %s", g->name, e.text);
        for_cpu_agrees(g, i, t->elem, is);
        free(is);
    }
}

/* Writes an argument of the graph, or a cotangent; or numbers that would spoil all that reads them. */
static void write_argument(const struct jax_graph *g, struct graph_exec *x,
                           const struct graph_bundle *b, uint32_t i, bool spoiled)
{
    size_t n = (size_t)b->buffers.at[i].type.n;
    float *argument = calloc(n + 1, sizeof *argument);
    struct err e = {0};
    for_cpu_argument(g, i, ELEM_F32, argument);
    for (size_t k = 0; spoiled && k < n; k++)
        argument[k] = NAN;
    cr_assert_eq(graph_exec_write(x, i, argument, &e), 0, "%s", e.text);
    free(argument);
}

/* Runs a graph as a recording, and then its forward pass and its derivative one after the other. */
static void run_graph(struct driver *d, const struct jax_graph *g, const struct graph_bundle *b)
{
    struct graph_exec *x;
    struct err e = {0};
    void *recording;
    cr_assert_eq(graph_exec_new(d, b, true, &x, &e), 0, "%s: %s", g->name, e.text);
    for (uint32_t i = 0; i < b->n_arguments; i++)
        write_argument(g, x, b, i, false);
    cr_assert_eq(driver_capture_begin(d, &e), 0, "%s", e.text);
    cr_assert_eq(graph_exec_launch(x, &e), 0, "%s", e.text);
    cr_assert_eq(driver_capture_end(d, &recording, &e), 0, "%s", e.text);
    cr_assert_eq(driver_replay(d, recording, &e), 0, "%s", e.text);
    expect_results(g, x, b, b->results.n);
    for (uint32_t i = (uint32_t)g->n_args; i < b->n_arguments; i++)
        write_argument(g, x, b, i, true);
    cr_assert_eq(graph_exec_launch_forward(x, &e), 0, "%s", e.text);
    expect_results(g, x, b, g->n_results);
    for (uint32_t i = (uint32_t)g->n_args; i < b->n_arguments; i++)
        write_argument(g, x, b, i, false);
    cr_assert_eq(graph_exec_launch_backward(x, &e), 0, "%s", e.text);
    expect_results(g, x, b, b->results.n);
    driver_recording_free(d, recording);
    graph_exec_free(x);
}

/* Runs a graph by libwarm, on memory of the test. */
static void run_by_libwarm(const struct jax_graph *g, const struct graph_bundle *b)
{
    struct writer bundle;
    struct warm_exec *x = NULL;
    char why[WARM_WHY_TEXT];
    const struct warm_tensor *arguments, *results;
    void *at[2][64];
    writer_init(&bundle, 0);
    graph_bundle_write(b, &bundle);
    cr_assert_eq(warm_graph_open(bundle.data, bundle.len, 0, &x, why), 0, "%s: %s", g->name, why);
    unsigned n = warm_graph_arguments(x, &arguments), m = warm_graph_results(x, &results);
    cr_assert(n == b->n_arguments && m == b->results.n && n <= 64 && m <= 64);
    for (unsigned i = 0; i < n; i++) {
        float *argument = calloc(arguments[i].bytes / sizeof(float) + 1, sizeof *argument);
        for_cpu_argument(g, i, ELEM_F32, argument);
        cr_assert_eq(warm_graph_memory(x, arguments[i].bytes, &at[0][i]), 0);
        cr_assert_eq(warm_graph_copy(x, at[0][i], argument, arguments[i].bytes, NULL), 0, "%s",
                     warm_graph_message(x));
        free(argument);
    }
    for (unsigned i = 0; i < m; i++)
        cr_assert_eq(warm_graph_memory(x, results[i].bytes, &at[1][i]), 0);
    for (int again = 0; again < 2; again++)
        cr_assert_eq(warm_graph_run(x, (const void *const *)at[0], at[1], NULL), 0, "%s: %s",
                     g->name, warm_graph_message(x));
    cr_assert_eq(warm_graph_wait(x, NULL), 0, "%s: %s", g->name, warm_graph_message(x));
    for (unsigned i = 0; i < m; i++) {
        int64_t *is = calloc(results[i].bytes / sizeof *is + 1, sizeof *is);
        cr_assert_eq(warm_graph_copy(x, is, at[1][i], results[i].bytes, NULL), 0);
        for_cpu_agrees(g, i, b->buffers.at[b->results.at[i]].type.elem, is);
        free(is);
        warm_graph_memory_free(x, at[1][i]);
    }
    for (unsigned i = 0; i < n; i++)
        warm_graph_memory_free(x, at[0][i]);
    warm_graph_close(x);
    writer_close(&bundle);
}

Test(exec, bundles_give_the_numbers_of_jax_replayed_and_in_two_parts)
{
    struct jax_graph *graphs;
    size_t n = jax_graphs_read(&graphs), n_run = 0;
    struct made *made = calloc(n, sizeof *made);
    struct for_cpu cpu = for_cpu_open();
    size_t one_of = any_gpu_is_real() || !getenv("WARM_TEST_ALL") ? SAMPLE : 1;
    for (size_t i = 0; i < n; i += one_of)
        if (graphs[i].n_gradients)
            made[i] = made_of_program(for_cpu_derivative(&graphs[i]), cpu.f);
    struct driver *d = driver_of(&cpu);
    cr_expect_str_eq(driver_arch(d), any_gpu_target());
    for (size_t i = 0; i < n; i++) {
        if (!made[i].p)
            continue;
        run_graph(d, &graphs[i], &made[i].b);
        run_by_libwarm(&graphs[i], &made[i].b);
        made_free(&made[i]);
        n_run++;
    }
    cr_expect_gt(n_run, 100 / one_of);
    driver_close(d);
    for_cpu_close(&cpu);
    free(made);
}

static const char ADD[] =
    "func.func public @main(%x: tensor<300xf32>, %y: tensor<300xf32>) -> tensor<300xf32> {\n"
    "%0 = stablehlo.add %x, %y : tensor<300xf32>\nreturn %0 : tensor<300xf32>\n}\n";

/* x, x + y, x + y: results that are an argument, and one tensor twice. */
static const char TWICE[] =
    "func.func public @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, "
    "tensor<4xf32>, tensor<4xf32>) {\n%0 = stablehlo.add %x, %y : tensor<4xf32>\n"
    "return %x, %0, %0 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>\n}\n";

Test(exec, libwarm_writes_each_result_where_the_caller_wants_it)
{
    struct for_cpu cpu = for_cpu_open();
    struct made m = made_of_text(TWICE, cpu.f);
    struct writer bundle;
    struct warm_exec *x = NULL;
    char why[WARM_WHY_TEXT];
    void *memory, *context = &memory, *popped;
    float numbers[5][4] = {{1, 2, 3, 4}, {10, 20, 30, 40}};
    struct driver *d = driver_of(&cpu);
    int (*get)(void **), (*pop)(void **);
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW);
    *(void **)&get = dlsym(cuda, "cuCtxGetCurrent");
    *(void **)&pop = dlsym(cuda, "cuCtxPopCurrent_v2");
    cr_assert_eq(pop(&popped), 0); /* a thread that never used CUDA */
    writer_init(&bundle, 0);
    graph_bundle_write(&m.b, &bundle);
    cr_assert_eq(warm_graph_open(bundle.data, bundle.len, 0, &x, why), 0, "%s", why);
    cr_assert_eq(warm_graph_memory(x, 5 * 256, &memory), 0);
    char *at = memory;
    const void *arguments[] = {at, at + 256};
    void *results[] = {at + 512, at + 768, at + 1024};
    for (int i = 0; i < 2; i++)
        cr_assert_eq(warm_graph_copy(x, at + 256 * i, numbers[i], sizeof *numbers, NULL), 0);
    cr_assert_eq(warm_graph_run(x, arguments, results, NULL), 0, "%s", warm_graph_message(x));
    for (int i = 2; i < 5; i++)
        cr_assert_eq(warm_graph_copy(x, numbers[i], at + 256 * i, sizeof *numbers, NULL), 0);
    for (int i = 0; i < 4; i++)
        cr_expect(numbers[2][i] == numbers[0][i] && numbers[3][i] == (float)(11 * (i + 1)) &&
                  numbers[4][i] == numbers[3][i]);
    cr_assert_eq(get(&context), 0);
    cr_expect_null(context, "a call left its context behind");
    results[1] = at + 770;
    cr_expect_eq(warm_graph_run(x, arguments, results, NULL), WARM_EINVALID);
    cr_expect(strstr(warm_graph_message(x), "result 1: the address"), "%s", warm_graph_message(x));
    warm_graph_memory_free(x, memory);
    warm_graph_close(x);
    cr_expect_eq(warm_graph_open(bundle.data, bundle.len, 99, &x, why), WARM_EINVALID);
    cr_expect(strstr(why, "there is no GPU 99"), "%s", why);
    cr_expect_eq(warm_graph_open(bundle.data, bundle.len, WARM_ON_CPU, &x, why), WARM_EUNSUPPORTED);
    cr_expect(strstr(why, "the bundle has no module"), "%s", why);
    cr_expect_eq(warm_graph_open(bundle.data, 20, 0, &x, why), WARM_ETRUNCATED);
    driver_close(d);
    writer_close(&bundle);
    made_free(&m);
    for_cpu_close(&cpu);
}

/* A file of an older `warm`. Its cubins have today's kernels in the stand-in. */
Test(exec, a_bundle_of_version_2_still_runs)
{
    static const uint32_t arguments[] = {0, 1};
    size_t len, text_len;
    char *bytes = file_read("tests/data/version_2.bundle", &len), why[WARM_WHY_TEXT];
    char *text = file_read("tests/data/version_2.mlir", &text_len);
    struct for_cpu cpu = for_cpu_open();
    struct graph_bundle b;
    struct program *p, *d;
    struct codegen c;
    struct warm_exec *x;
    struct err e = {0};
    if (any_gpu_is_real() && !driver_can_run(any_gpu_target(), view_of_text("sm_90")))
        cr_skip_test("the GPU cannot run sm_90");
    cr_assert_eq(bytes[8], 2);
    cr_assert_eq(graph_bundle_read(bytes, len, &b, &e), 0, "%s", e.text);
    cr_assert_eq(program_read(text, text_len, &p, &e), 0, "%s", e.text);
    cr_assert_eq(vjp_function(p, 0, arguments, 2, &d, &e), 0, "%s", e.text);
    cr_assert_eq(codegen_function(d, 0, &c, &e), 0, "%s", e.text);
    cr_assert(c.n_kernels == 2 && b.kernels.n == 2 && b.n_forward == 1);
    for (uint32_t i = 0; i < 2; i++)
        for_cpu_cubin(cpu.f, &c, i, b.kernels.at[i].cubin.data);
    struct driver *driver = driver_of(&cpu);
    cr_assert_eq(warm_graph_open(bytes, len, 0, &x, why), 0, "%s", why);
    float in[3][12] = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 1, 1}, {.1f, 0, 0, .1f, .1f, 0}}, out[12];
    void *at[6];
    for (int i = 0; i < 6; i++) {
        cr_assert_eq(warm_graph_memory(x, sizeof out, &at[i]), 0);
        cr_assert_eq(warm_graph_copy(x, at[i], in[i % 3], sizeof out, NULL), 0);
    }
    cr_assert_eq(warm_graph_run(x, (const void *const *)at, at + 3, NULL), 0, "%s",
                 warm_graph_message(x));
    cr_assert_eq(warm_graph_copy(x, out, at[3], sizeof out, NULL), 0);
    for (int i = 0; i < 4; i++) {
        cr_expect_float_eq(out[2 * i], tanhf(.1f * (in[0][3 * i] + in[0][3 * i + 2])), 1e-6);
        cr_expect_float_eq(out[2 * i + 1], tanhf(.1f * in[0][3 * i + 1]), 1e-6);
    }
    warm_graph_close(x);
    cr_expect_eq(warm_graph_open(bytes, len, WARM_ON_CPU, &x, why), WARM_EUNSUPPORTED);
    cr_expect_str_eq(why, "the bundle has no module: compile it again");
    driver_close(driver);
    codegen_free(&c);
    program_free(d);
    program_free(p);
    graph_bundle_close(&b);
    for_cpu_close(&cpu);
    free(text);
    free(bytes);
}

/* Expects that loading fails, with these words. */
static void refused(struct driver *d, const struct graph_bundle *b, int code, const char *words)
{
    struct graph_exec *x = NULL;
    struct err e = {0};
    cr_expect_eq(graph_exec_new(d, b, true, &x, &e), code, "%s", e.text);
    cr_expect(strstr(e.text, words), "%s: %s", words, e.text);
}

Test(exec, faults_have_the_name_that_cuda_gives_them)
{
    struct for_cpu cpu = for_cpu_open();
    struct made m = made_of_text(ADD, cpu.f);
    struct graph_exec *x;
    struct err e = {0};
    struct driver *d = driver_of(&cpu);
    if (!any_gpu_is_real()) {
        setenv("FAKECUDA_MEMORY", "3000", 1);
        refused(d, &m.b, WARM_ENOMEM, "CUDA_ERROR_OUT_OF_MEMORY");
        unsetenv("FAKECUDA_MEMORY");
        setenv("FAKECUDA_REFUSE", "real", 1);
        refused(d, &m.b, WARM_EMALFORMED, "cuModuleLoadData");
        unsetenv("FAKECUDA_REFUSE");
    }
    m.b.target = view_of_text("sm_50");
    refused(d, &m.b, WARM_EUNSUPPORTED, "compiled for sm_50, and the GPU (");
    m.b.target = view_of_text(any_gpu_target());
    struct view whole = m.b.kernels.at[0].cubin;
    m.b.kernels.at[0].cubin.len = 70;
    refused(d, &m.b, WARM_EMALFORMED, "not a whole cubin");
    m.b.kernels.at[0].cubin = whole;
    cr_assert_eq(graph_exec_new(d, &m.b, true, &x, &e), 0, "%s", e.text);
    graph_exec_bind(x, 1, 256);
    cr_expect_eq(graph_exec_write(x, 1, "", &e), WARM_EIO);
    cr_expect(strstr(e.text, "CUDA_ERROR_INVALID_VALUE"), "%s", e.text);
    cr_expect_eq(graph_exec_launch(x, &e), 0, "%s", e.text);
    float sum[300];
    for (int i = 0; i < 2; i++) { /* no call of this context succeeds any more */
        cr_expect_eq(graph_exec_read(x, 0, sum, &e), WARM_EIO);
        cr_expect(strstr(e.text, "CUDA_ERROR_ILLEGAL_ADDRESS"), "%s", e.text);
    }
    graph_exec_free(x);
    driver_close(d);
    made_free(&m);
    for_cpu_close(&cpu);
}

/* The driver reads as many parameters as the kernel has, not as many as the bundle says. */
Test(exec, a_bundle_with_too_few_operands_is_no_crash)
{
    struct for_cpu cpu = for_cpu_open();
    struct made m = made_of_text(ADD, cpu.f);
    struct graph_exec *x;
    struct err e = {0};
    struct driver *d = driver_of(&cpu);
    struct graph_launch *l = &m.b.launches.at[0];
    cr_assert_eq(l->n_args, 3u);
    l->args += 2;
    l->n_args = 1;
    cr_assert_eq(graph_exec_new(d, &m.b, true, &x, &e), 0, "%s", e.text);
    cr_expect_eq(graph_exec_launch(x, &e), 0, "%s", e.text);
    graph_exec_free(x);
    driver_close(d);
    made_free(&m);
    for_cpu_close(&cpu);
}

/* Expects that a cubin with this field is no whole file: of its header, or of the section behind that. */
static void cut_off(struct driver *d, struct made *m, size_t at, uint64_t value, size_t size)
{
    uint8_t image[64 + 64 + 8] = {0};
    elf_begin(image);
    bytes_store(image + 0x28, 64, 8);                     /* section headers */
    bytes_store(image + 0x3A, 64 | (uint64_t)1 << 16, 4); /* size and number of them */
    bytes_store(image + 64 + 4, 1, 4);                    /* of the program's data */
    bytes_store(image + at, value, size);
    m->b.kernels.at[0].cubin = (struct view){image, sizeof image};
    refused(d, &m->b, WARM_EMALFORMED, "not a whole cubin");
}

Test(exec, a_cubin_that_points_outside_does_not_reach_the_driver)
{
    struct for_cpu cpu = for_cpu_open();
    struct made m = made_of_text(ADD, cpu.f);
    struct driver *d = driver_of(&cpu);
    cut_off(d, &m, 0x28, UINT64_MAX - 8, 8);         /* section headers */
    cut_off(d, &m, 0x3C, 3, 2);                      /* number of them */
    cut_off(d, &m, 0x3A, 40, 2);                     /* their size */
    cut_off(d, &m, 64 + 24, 137, 8);                 /* the section's offset */
    cut_off(d, &m, 64 + 32, UINT64_MAX, 8);          /* its size */
    cut_off(d, &m, 0x36, 56 | (uint64_t)3 << 16, 4); /* program headers */
    driver_close(d);
    made_free(&m);
    for_cpu_close(&cpu);
}

/* The second bundle reads the first one's result where it is, and the result is copied back. */
Test(exec, bundles_pass_tensors_on_the_device)
{
    struct for_cpu cpu = for_cpu_open();
    struct made m = made_of_text(ADD, cpu.f);
    struct graph_exec *a, *b;
    struct err e = {0};
    float x[300], y[300], is[300];
    void *recording;
    struct driver *d = driver_of(&cpu);
    for (int i = 0; i < 300; i++) {
        x[i] = (float)i;
        y[i] = 1;
    }
    cr_assert_eq(graph_exec_new(d, &m.b, true, &a, &e), 0, "%s", e.text);
    cr_assert_eq(graph_exec_new(d, &m.b, true, &b, &e), 0, "%s", e.text);
    graph_exec_bind(b, 0, graph_exec_result(a, 0));
    cr_assert_eq(graph_exec_write(a, 0, x, &e), 0, "%s", e.text);
    cr_assert_eq(graph_exec_write(a, 1, y, &e), 0, "%s", e.text);
    cr_assert_eq(graph_exec_write(b, 1, y, &e), 0, "%s", e.text);
    cr_assert_eq(driver_capture_begin(d, &e), 0);
    cr_assert(!graph_exec_launch(a, &e) && !graph_exec_launch(b, &e));
    cr_assert_eq(driver_copy(d, graph_exec_argument(a, 0), graph_exec_result(b, 0), sizeof x, &e),
                 0);
    cr_assert_eq(driver_capture_end(d, &recording, &e), 0);
    for (int i = 0; i < 10; i++)
        cr_assert_eq(driver_replay(d, recording, &e), 0, "%s", e.text);
    cr_assert_eq(graph_exec_read(b, 0, is, &e), 0, "%s", e.text);
    for (int i = 0; i < 300; i++)
        cr_expect_eq(is[i], (float)(i + 20), "%d: %g", i, (double)is[i]);
    driver_recording_free(d, recording);
    graph_exec_free(b);
    graph_exec_free(a);
    driver_close(d);
    made_free(&m);
    for_cpu_close(&cpu);
}

/* Large enough for tiles: 20 of them, cut off at two edges. */
Test(exec, large_products_go_by_tiles)
{
    enum { M = 319, N = 250, K = 40 };
    static const char DOT[] =
        "func.func public @main(%a: tensor<319x40xf32>, %b: tensor<40x250xf32>) -> "
        "tensor<319x250xf32> {\n"
        "%x = stablehlo.tanh %a : tensor<319x40xf32>\n"
        "%0 = stablehlo.dot_general %x, %b, contracting_dims = [1] x [0] : (tensor<319x40xf32>, "
        "tensor<40x250xf32>) -> tensor<319x250xf32>\n"
        "%1 = stablehlo.negate %0 : tensor<319x250xf32>\nreturn %1 : tensor<319x250xf32>\n}\n";
    static float a[M * K], b[K * N], is[M * N];
    struct for_cpu cpu = for_cpu_open();
    struct made m = made_of_text(DOT, cpu.f);
    struct graph_exec *x;
    struct err e = {0};
    cr_assert_eq(m.b.launches.n, 3u);
    cr_expect_eq(m.b.launches.at[1].blocks, 20u);
    struct driver *d = driver_of(&cpu);
    for (int i = 0; i < M * K; i++)
        a[i] = (float)(i % 13 - 6) / 8;
    for (int i = 0; i < K * N; i++)
        b[i] = (float)(i % 7 - 3) / 4;
    cr_assert_eq(graph_exec_new(d, &m.b, true, &x, &e), 0, "%s", e.text);
    cr_assert(!graph_exec_write(x, 0, a, &e) && !graph_exec_write(x, 1, b, &e), "%s", e.text);
    cr_assert_eq(graph_exec_launch(x, &e), 0, "%s", e.text);
    cr_assert_eq(graph_exec_read(x, 0, is, &e), 0, "%s", e.text);
    for (int i = 0; i < M * N; i++) {
        double sum = 0;
        for (int k = 0; k < K; k++)
            sum -= tanh((double)a[i / N * K + k]) * (double)b[k * N + i % N];
        cr_assert(fabs(sum - (double)is[i]) < 1e-4, "%d: %g, not %g", i, (double)is[i], sum);
    }
    graph_exec_free(x);
    driver_close(d);
    made_free(&m);
    for_cpu_close(&cpu);
}

/* A target of the same major number and no larger minor one runs, and sm_90a on sm_90 alone. */
Test(exec, a_gpu_runs_what_is_made_for_it_or_for_an_older_one_of_its_kind)
{
    static const struct {
        const char *arch, *target;
        bool runs;
    } CASES[] = {
        {"sm_90", "sm_90", true},     {"sm_90", "sm_90a", true},      {"sm_89", "sm_86", true},
        {"sm_86", "sm_89", false},    {"sm_90", "sm_89", false},      {"sm_100", "sm_90a", false},
        {"sm_103", "sm_100a", false}, {"sm_103", "sm_100f", true},    {"sm_103", "sm_103a", true},
        {"sm_100", "sm_103f", false}, {"sm_121", "sm_120", true},     {"sm_120", "sm_12", false},
        {"sm_90", "sm_90x", false},   {"sm_90", "compute_90", false}, {"sm_90", "sm_", false},
        {"sm_90", "", false}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        cr_expect_eq(driver_can_run(CASES[i].arch, view_of_text(CASES[i].target)), CASES[i].runs,
                     "%s on %s", CASES[i].target, CASES[i].arch);
}

/* Runs `warm exec` in a folder, with the stand-in if there is one there; expects status and words. */
static void command_is(const char *folder, const char *environment, const char *arguments,
                       int status, const char *words)
{
    char *out, *program = bin_path("warm");
    int is = run_command(&out, "cd %s && FAKECUDA_KERNELS=%s/graphs.so %s %s exec %s 2>&1", folder,
                         folder, environment, program, arguments);
    cr_expect_eq(is, status, "%s: %d: %s", arguments, is, out);
    cr_expect(strstr(out, words), "%s: %s", arguments, out);
    free(out);
    free(program);
}

static void write_bundle(const struct for_cpu *cpu, const char *name, const struct graph_bundle *b)
{
    struct writer bytes;
    char path[128];
    writer_init(&bytes, 0);
    graph_bundle_write(b, &bytes);
    snprintf(path, sizeof path, "%s/%s", cpu->folder, name);
    file_write(path, (const char *)bytes.data, bytes.len);
    writer_close(&bytes);
}

/* A loop of 5000 trips would be a CUDA graph of as many nodes: it is launched, which the stand-in notes. */
static void expect_no_graph(const struct for_cpu *cpu)
{
    char *said;
    command_is(cpu->folder, "FAKECUDA_LOG=notes LD_LIBRARY_PATH=.", "loop.bundle =7 --repeat 2", 0,
               "");
    command_is(cpu->folder, "FAKECUDA_LOG=few LD_LIBRARY_PATH=.", "add.bundle =1 =2 --repeat 2", 0,
               "");
    cr_expect_eq(run_command(&said, "grep -c ^graph %s/notes %s/few", cpu->folder, cpu->folder), 0);
    cr_expect(strstr(said, "/notes:0\n") && strstr(said, "/few:2\n"), "%s", said);
    free(said);
}

Test(exec, the_command_runs_a_bundle_or_says_why_not)
{
    static const char WHOLE[] =
        "func.func public @main(%x: tensor<3xi32>) -> tensor<3xi32> {\n"
        "%0 = stablehlo.add %x, %x : tensor<3xi32>\nreturn %0 : tensor<3xi32>\n}\n";
    const char *HERE = any_gpu_is_real() ? "" : "LD_LIBRARY_PATH=.";
    char arch[64];
    struct for_cpu cpu = for_cpu_open();
    static const char LOOP[] =
        "func.func public @main(%x: tensor<f32>) -> tensor<f32> {\n"
        "%n = stablehlo.constant dense<5000> : tensor<i32>\n"
        "%z = stablehlo.constant dense<0> : tensor<i32>\n"
        "%one = stablehlo.constant dense<1> : tensor<i32>\n"
        "%y = stablehlo.constant dense<1.0> : tensor<f32>\n"
        "%0:2 = stablehlo.while(%i = %z, %a = %x) : tensor<i32>, tensor<f32>\n"
        "cond {\n%c = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> "
        "tensor<i1>\nstablehlo.return %c : tensor<i1>\n} do {\n"
        "%b = stablehlo.add %a, %y : tensor<f32>\n%j = stablehlo.add %i, %one : tensor<i32>\n"
        "stablehlo.return %j, %b : tensor<i32>, tensor<f32>\n}\n"
        "return %0#1 : tensor<f32>\n}\n";
    static const char UNTIL[] =
        "func.func public @main(%x: tensor<f32>) -> tensor<f32> {\n"
        "%n = stablehlo.constant dense<100.0> : tensor<f32>\n"
        "%0 = stablehlo.while(%a = %x) : tensor<f32>\n"
        "cond {\n%c = stablehlo.compare LT, %a, %n, FLOAT : (tensor<f32>, tensor<f32>) -> "
        "tensor<i1>\nstablehlo.return %c : tensor<i1>\n} do {\n"
        "%b = stablehlo.add %a, %a : tensor<f32>\nstablehlo.return %b : tensor<f32>\n}\n"
        "return %0 : tensor<f32>\n}\n";
    struct made until = made_of_text(UNTIL, cpu.f);
    struct made m = made_of_text(ADD, cpu.f), whole = made_of_text(WHOLE, cpu.f),
                loop = made_of_text(LOOP, cpu.f);
    for_cpu_compile(&cpu);
    if (!any_gpu_is_real())
        any_gpu_build_stand_in(cpu.folder);
    snprintf(arch, sizeof arch, "\"arch\":\"%s\"", any_gpu_target());
    m.b.module = view_of_text(ADD);
    write_bundle(&cpu, "until.bundle", &until.b);
    write_bundle(&cpu, "add.bundle", &m.b);
    write_bundle(&cpu, "a\"dd.bundle", &m.b);
    write_bundle(&cpu, "whole.bundle", &whole.b);
    write_bundle(&cpu, "loop.bundle", &loop.b);
    cr_expect_gt(graph_bundle_count(&loop.b, 1 << 20), 4999u);
    cr_expect_eq(graph_bundle_count(&loop.b, 4097), 4097u);
    cr_expect_eq(graph_bundle_count(&m.b, 4097), 1u);
    command_is(cpu.folder, HERE, "add.bundle =1 =2.5", 0, "result 0  300xf32  3.5 3.5 ");
    command_is(cpu.folder, HERE, "add.bundle =1 =2 -o out --repeat 3", 0, "then 3 runs of ");
    command_is(cpu.folder, HERE, "add.bundle out/0.npy =1", 0, "300xf32  4 4 ");
    command_is(cpu.folder, HERE, "--json add.bundle =1 =1", 0, arch);
    command_is(cpu.folder, HERE, "add.bundle =1", 2, "argument 1 is 300xf32. Give a file, or =0");
    command_is(cpu.folder, HERE, "add.bundle =1 =1 =1", 2, "it takes 2 inputs, not 3");
    command_is(cpu.folder, HERE, "add.bundle =1 =x", 2, "=x: not a number");
    command_is(cpu.folder, HERE, "whole.bundle =1e10", 2, "=1e10: argument 0 is of whole numbers");
    command_is(cpu.folder, HERE, "whole.bundle =-7", 0, "result 0  3xi32  -14 -14 -14");
    command_is(cpu.folder, HERE, "--json 'a\"dd.bundle' =1 =1", 0, "\"bundle\":\"a\\\"dd.bundle\"");
    command_is(cpu.folder, HERE, "add.bundle =1 add.bundle", 2, "argument 1: it has ");
    command_is(cpu.folder, HERE, "add.bundle =1 nothing.npy", 2, "No such file");
    command_is(cpu.folder, HERE, "/dev/zero =1 =1", 2, "/dev/zero: not a regular file");
    char *sparse = path_join(cpu.folder, "sparse");
    file_write(sparse, "", 0);
    cr_assert_eq(truncate(sparse, (off_t)1 << 40), 0);
    free(sparse);
    command_is(cpu.folder, HERE, "sparse =1 =1", 2, "sparse: File too large");
    command_is(cpu.folder, HERE, "$(printf 'a\\033b\\302\\233c') =1", 2,
               "warm: a?b?c: No such file");
    command_is(cpu.folder, HERE, "loop.bundle =7 --repeat 2", 0, "then 2 runs of ");
    command_is(cpu.folder, HERE, "loop.bundle =7", 0, "result 0  f32  5007");
    command_is(cpu.folder, HERE, "graphs.cpp", 2, "not a compiled graph");
    command_is(cpu.folder, HERE, "add.bundle --repeat 0", 2, "not a number from 1");
    command_is(cpu.folder, HERE, "until.bundle =7", 0, "result 0  f32  112");
    command_is(cpu.folder, HERE, "until.bundle =700", 0, "result 0  f32  700");
    command_is(cpu.folder, HERE, "until.bundle =3 --repeat 2", 0, "then 2 runs of ");
    command_is(cpu.folder, "", "--device cpu add.bundle =1 =2.5", 0, "result 0  300xf32  3.5 3.5 ");
    command_is(cpu.folder, "", "--device cpu whole.bundle =1", 1, "the bundle has no module");
    command_is(cpu.folder, "", "--device tpu add.bundle =1 =1", 2, "neither cpu nor gpu");
    command_is(cpu.folder, HERE, "--check add.bundle =1 =2.5", 0, "within 0 roundings of the CPU");
    if (!any_gpu_is_real()) {
        command_is(cpu.folder, "", "add.bundle =1 =1", 1, "no GPU to run it on: libcuda.so.1");
        command_is(cpu.folder, "FAKECUDA_CC=80 LD_LIBRARY_PATH=.", "add.bundle =1 =1", 1,
                   "it is compiled for sm_90, and the GPU (Stand-in 80) is sm_80");
        expect_no_graph(&cpu);
        command_is(cpu.folder, "FAKECUDA_CC=93 LD_LIBRARY_PATH=.", "add.bundle =1 =2.5", 0,
                   "result 0  300xf32  3.5 3.5 ");
        command_is(cpu.folder, "FAKECUDA_MEMORY=999 LD_LIBRARY_PATH=.", "add.bundle =1 =1", 1,
                   "CUDA_ERROR_OUT_OF_MEMORY");
    }
    made_free(&until);
    made_free(&m);
    made_free(&whole);
    made_free(&loop);
    for_cpu_close(&cpu);
}

/* ---- files ---- */

static const struct tensor MATRIX = {.elem = ELEM_F32, .rank = 2, .dims = {2, 3}, .n = 6};

/* Returns a .npy file with this header and six elements. */
static struct writer npy_of(const char *header)
{
    struct writer w;
    writer_init(&w, 0);
    writer_bytes(&w, "\x93NUMPY\1\0", 8);
    writer_u16(&w, (uint16_t)strlen(header));
    writer_bytes(&w, header, strlen(header));
    for (int i = 0; i < 6; i++)
        writer_u32(&w, (uint32_t)i);
    return w;
}

static void npy_is(const char *header, int code)
{
    struct writer w = npy_of(header);
    struct view is = {NULL, 0};
    struct err e = {0};
    cr_expect_eq(npy_read(w.data, w.len, &MATRIX, &is, &e), code, "%s: %s", header, e.text);
    if (code == 0)
        cr_expect_eq(is.len, 24u);
    writer_close(&w);
}

/* numpy fills the header up with blanks. */
static void shape_is_named(void)
{
    struct writer w =
        npy_of("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }          \n");
    struct view is;
    struct err e = {0};
    cr_expect_eq(npy_read(w.data, w.len, &MATRIX, &is, &e), WARM_EINVALID);
    cr_expect_str_eq(e.text, "the argument is 2x3xf32, row-major, and the file has descr '<f4', "
                             "shape (3, 2), fortran_order False");
    writer_close(&w);
}

Test(exec, files_of_other_types_are_refused)
{
    npy_is("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }  \n", 0);
    npy_is("{'shape':(2,3),'fortran_order':False,'descr':'<f4'}", 0);
    npy_is("{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }", WARM_EINVALID);
    npy_is("{'descr': '>f4', 'fortran_order': False, 'shape': (2, 3), }", WARM_EINVALID);
    npy_is("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }", WARM_EINVALID);
    npy_is("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }", WARM_EINVALID);
    npy_is("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3, 1), }", WARM_EINVALID);
    npy_is("{'descr': '<f4', 'fortran_order': False, 'shape': (6,), }", WARM_EINVALID);
    shape_is_named();
    npy_is("{'descr': '<f4', 'fortran_order': False}", WARM_EMALFORMED);
    npy_is("", WARM_EMALFORMED);
    struct view is;
    struct err e = {0};
    uint8_t raw[24] = {0};
    cr_expect_eq(npy_read(raw, 24, &MATRIX, &is, &e), 0);
    cr_expect_eq(npy_read(raw, 23, &MATRIX, &is, &e), WARM_EINVALID);
    cr_expect(strstr(e.text, "23 bytes") && strstr(e.text, "2x3xf32 has 24"), "%s", e.text);
    cr_expect_eq(npy_read("\x93NUMPY\1\0\xff\xff", 10, &MATRIX, &is, &e), WARM_EMALFORMED);
}

Test(exec, written_files_are_read_again)
{
    static const struct tensor TYPES[] = {{.elem = ELEM_F32, .n = 1},
                                          {.elem = ELEM_I32, .rank = 1, .dims = {5}, .n = 5},
                                          {.elem = ELEM_I1, .rank = 3, .dims = {2, 0, 4}, .n = 0},
                                          {.elem = ELEM_F32, .rank = 2, .dims = {2, 3}, .n = 6}};
    uint8_t elements[24];
    struct view is;
    struct err e = {0};
    for (uint8_t i = 0; i < sizeof elements; i++)
        elements[i] = i;
    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++) {
        struct writer w;
        writer_init(&w, 0);
        npy_write(&TYPES[i], elements, &w);
        cr_expect_eq(npy_read(w.data, w.len, &TYPES[i], &is, &e), 0, "%zu: %s", i, e.text);
        cr_expect_eq(((const uint8_t *)is.data - w.data) % 64, 0);
        cr_expect_eq(memcmp(is.data, elements, is.len), 0);
        writer_close(&w);
    }
}
