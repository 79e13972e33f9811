/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_codegen.c - the generated CUDA C++: NVRTC compiles it for three architectures; equal layers share
 * kernels; loops have one place for what they carry. test_graph_bundle.c runs it.
 */
#include "kernels/codegen/codegen.h"
#include "kernels/codegen/tiled.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/vjp/vjp.h"
#include "tests/kernels/for_cpu.h"
#include "tests/support/support.h"

static struct codegen code_of(const char *name, const struct program *p)
{
    struct codegen c;
    struct err e = {0};
    cr_assert_eq(codegen_function(p, program_function(p, NULL), &c, &e), 0, "%s: %s", name, e.text);
    return c;
}

/* ---- NVRTC ---- */

/* Loads an NVRTC. Its builtins come first: under ASan its own RUNPATH is not searched. */
static void *nvrtc_loaded(const char *folder, bool new)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/libnvrtc-builtins.so.%s", folder, new ? "13.5" : "12.9");
    cr_assert_not_null(dlopen(path, RTLD_LAZY), "%s", dlerror());
    snprintf(path, sizeof path, "%s/libnvrtc.so.%s", folder, new ? "13" : "12");
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    cr_assert_not_null(handle, "%s", dlerror());
    return handle;
}

/* Compiles a source for an architecture; expects no error and no spilled register. */
static void nvrtc_takes(void *handle, const char *name, const char *source, const char *arch)
{
    int (*create)(void **, const char *, const char *, int, const char *const *,
                  const char *const *);
    int (*compile)(void *, int, const char *const *);
    int (*log_size)(void *, size_t *), (*log_of)(void *, char *), (*cubin_size)(void *, size_t *),
        (*destroy)(void **);
    *(void **)&create = dlsym(handle, "nvrtcCreateProgram");
    *(void **)&compile = dlsym(handle, "nvrtcCompileProgram");
    *(void **)&log_size = dlsym(handle, "nvrtcGetProgramLogSize");
    *(void **)&log_of = dlsym(handle, "nvrtcGetProgramLog");
    *(void **)&cubin_size = dlsym(handle, "nvrtcGetCUBINSize");
    *(void **)&destroy = dlsym(handle, "nvrtcDestroyProgram");

    char log[4096] = "", option[32];
    const char *options[] = {option, "--no-cache", "--ptxas-options=--warn-on-spills"};
    void *program;
    size_t len = 0, cubin = 0;
    snprintf(option, sizeof option, "-arch=%s", arch);
    cr_assert_eq(create(&program, source, "graph.cu", 0, NULL, NULL), 0);
    int rc = compile(program, 3, options);
    if (log_size(program, &len) == 0 && len < sizeof log)
        log_of(program, log);
    cr_expect_eq(rc, 0, "%s for %s: %d\n%s", name, arch, rc, log);
    cr_expect_str_eq(log, "", "%s for %s: %s", name, arch, log);
    cr_expect_eq(cubin_size(program, &cubin), 0);
    cr_expect_gt(cubin, (size_t)0);
    destroy(&program);
}

Test(codegen, both_nvrtcs_compile_tiles_without_a_spill)
{
    static const char *const ARCHS[] = {"sm_80", "sm_90", "sm_100"};
    static const struct tiled SIZES[] = {
        {1, 512, 512, 512, 0, 512, 1, 0, 512, 1},            /* row-major */
        {1, 511, 300, 65, 0, 1, 511, 0, 1, 65},              /* both transposed, with edges */
        {24, 100, 64, 32, 100 * 32, 32, 1, 64 * 32, 64, 1}}; /* a batch */
    char *folders[] = {toolchain_lib("12.9.86"), toolchain_lib("13.5.37")};
    if (!folders[0] || !folders[1])
        cr_skip_test("no CUDA toolchain: set WARM_TOOLCHAIN or run `make toolchain`");
    void *libraries[] = {nvrtc_loaded(folders[0], false), nvrtc_loaded(folders[1], true)};
    for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES; i++) {
        struct writer source;
        writer_init(&source, 0);
        writer_format(&source, "extern \"C\" __global__ void kernel");
        tiled_write(&SIZES[i], &source);
        writer_u8(&source, 0);
        for (size_t k = 0; k < 6; k++)
            nvrtc_takes(libraries[k % 2], "tiles", (const char *)source.data, ARCHS[k / 2]);
        writer_close(&source);
    }
    free(folders[0]);
    free(folders[1]);
}

/* All sources would take minutes: one graph in ten, or all with WARM_TEST_ALL. */
Test(codegen, both_nvrtcs_compile_the_code)
{
    static const char *const ARCHS[] = {"sm_80", "sm_90", "sm_100"};
    char *folders[] = {toolchain_lib("12.9.86"), toolchain_lib("13.5.37")};
    if (!folders[0] || !folders[1])
        cr_skip_test("no CUDA toolchain: set WARM_TOOLCHAIN or run `make toolchain`");
    void *libraries[] = {nvrtc_loaded(folders[0], false), nvrtc_loaded(folders[1], true)};
    struct jax_graph *graphs;
    size_t n = jax_graphs_read(&graphs), turn = 0;
    for (size_t i = 0; i < n; i += getenv("WARM_TEST_ALL") ? 1 : 10) {
        if (!graphs[i].n_gradients)
            continue;
        struct program *d = for_cpu_derivative(&graphs[i]);
        struct codegen c = code_of(graphs[i].name, d);
        writer_u8(&c.source, 0);
        for (size_t k = 0; k < (i == 0 ? 6 : 1); k++, turn++)
            nvrtc_takes(libraries[turn % 2], graphs[i].name, (const char *)c.source.data,
                        ARCHS[turn % 6 / 2]);
        codegen_free(&c);
        program_free(d);
    }
    free(folders[0]);
    free(folders[1]);
}

/* ---- sharing and refusals ---- */

/* Returns a chain of n equal layers, each with weights of its own. free() it. */
static char *layers(int n)
{
    char *text = malloc((size_t)n * 512 + 512), *at = text;
    at += sprintf(at, "func.func public @main(%%x0: tensor<8x16xf32>");
    for (int i = 0; i < n; i++)
        at += sprintf(at, ", %%w%d: tensor<16x16xf32>", i);
    at += sprintf(at, ") -> tensor<8x16xf32> {\n");
    for (int i = 0; i < n; i++)
        at += sprintf(at,
                      "%%d%d = stablehlo.dot_general %%x%d, %%w%d, contracting_dims = [1] x [0] : "
                      "(tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>\n"
                      "%%x%d = stablehlo.tanh %%d%d : tensor<8x16xf32>\n",
                      i, i, i, i + 1, i);
    sprintf(at, "return %%x%d : tensor<8x16xf32>\n}\n", n);
    return text;
}

Test(codegen, equal_layers_share_kernels)
{
    static const int DEPTHS[] = {3, 64};
    uint32_t n_kernels[2], n_launches[2], all[65];
    for (uint32_t i = 0; i < 65; i++)
        all[i] = i;
    for (int i = 0; i < 2; i++) {
        char *text = layers(DEPTHS[i]);
        struct program *p, *d;
        struct err e = {0};
        cr_assert_eq(program_read(text, strlen(text), &p, &e), 0, "%s", e.text);
        cr_assert_eq(vjp_function(p, 0, all, (uint32_t)DEPTHS[i] + 1, &d, &e), 0, "%s", e.text);
        struct codegen c = code_of("layers", d);
        n_kernels[i] = c.n_kernels;
        n_launches[i] = c.launches.n;
        codegen_free(&c);
        program_free(d);
        program_free(p);
        free(text);
    }
    cr_expect_eq(n_kernels[1], n_kernels[0], "%u kernels for 64 layers, %u for 3", n_kernels[1],
                 n_kernels[0]);
    cr_expect_geq(n_launches[1], 2u * 64); /* forward and back */
}

Test(codegen, calls_are_refused)
{
    static const char MODULE[] =
        "func.func public @main(%x: tensor<f32>) -> tensor<f32> {\n"
        "%0 = func.call @f(%x) : (tensor<f32>) -> tensor<f32>\nreturn %0 : tensor<f32>\n}\n"
        "func.func private @f(%x: tensor<f32>) -> tensor<f32> {\nreturn %x : tensor<f32>\n}\n";
    struct program *p;
    struct codegen c;
    struct err e = {0};
    cr_assert_eq(program_read(MODULE, strlen(MODULE), &p, &e), 0, "%s", e.text);
    cr_expect_eq(codegen_function(p, program_function(p, NULL), &c, &e), WARM_EUNSUPPORTED);
    cr_expect_not_null(strstr(e.text, "call: no code"), "%s", e.text);
    cr_expect_eq(e.line, 2);
    codegen_free(&c);
    program_free(p);
}

/* ---- loops ---- */

/* Returns the code of a graph of jax_graphs.txt, or of its derivative. */
static struct codegen code_of_graph(const char *name)
{
    struct jax_graph *graphs;
    size_t n = jax_graphs_read(&graphs), i = 0;
    while (i < n && strcmp(graphs[i].name, name) != 0)
        i++;
    cr_assert_lt(i, n, "%s", name);
    struct program *d = for_cpu_derivative(&graphs[i]);
    struct codegen c = code_of(name, d);
    if (getenv("WARM_TEST_SHOW"))
        fprintf(stderr, "%s: %u kernels, %u launches, %u loops\n%.*s\n", name, c.n_kernels,
                c.launches.n, c.loops.n, (int)c.source.len, (const char *)c.source.data);
    program_free(d);
    return c;
}

/* The third case of the programs that this project is for: 16 equal modules, in three forms. */
Test(codegen, a_chain_of_equal_modules_has_the_kernels_of_one)
{
    struct codegen chain = code_of_graph("chain"), scanned = code_of_graph("chain_scanned"),
                   trained = code_of_graph("chain_trained");
    cr_expect_leq(chain.n_kernels, 40u, "%u", chain.n_kernels);
    cr_expect_leq(scanned.n_kernels, 40u, "%u", scanned.n_kernels);
    cr_expect_eq(scanned.loops.n, 2u); /* forward and back */
    cr_expect_eq(trained.loops.n, 3u); /* steps; in each of them, forward and back */
    cr_expect_leq(trained.launches.n, 64u, "%u", trained.launches.n);
    codegen_free(&chain);
    codegen_free(&scanned);
    codegen_free(&trained);
}

/* ---- what is stored ---- */

/* Returns the tensors that the code of tanh(a) and a·a writes, a being computed by `op` from x and z. */
static uint32_t n_written(const char *op)
{
    char text[1024];
    struct program *p;
    struct err e = {0};
    uint32_t n = 0;
    snprintf(text, sizeof text,
             "func.func public @main(%%x: tensor<99xf32>, %%z: tensor<99xf32>) -> (tensor<99xf32>, "
             "tensor<99xf32>) {\n%%c = stablehlo.constant dense<0.0> : tensor<99xf32>\n"
             "%%a = %s : tensor<99xf32>\n%%0 = stablehlo.tanh %%a : tensor<99xf32>\n"
             "%%1 = stablehlo.multiply %%a, %%a : tensor<99xf32>\n"
             "return %%0, %%1 : tensor<99xf32>, tensor<99xf32>\n}\n",
             op);
    cr_assert_eq(program_read(text, strlen(text), &p, &e), 0, "%s", e.text);
    struct codegen c = code_of(op, p);
    for (uint32_t i = 0; i < c.launches.n; i++)
        n += c.launches.at[i].n_writes;
    codegen_free(&c);
    program_free(p);
    return n;
}

Test(codegen, a_value_is_stored_if_that_costs_less)
{
    cr_expect_eq(n_written("stablehlo.maximum %x, %c"), 2u); /* 4 bytes each time, or 4 once more */
    cr_expect_eq(n_written("stablehlo.subtract %x, %z"), 3u); /* 8 bytes each time */
    cr_expect_eq(n_written("stablehlo.tanh %x"), 2u); /* 20 operations in the time of 1 byte */
    cr_expect_eq(n_written("stablehlo.power %x, %z"), 3u);
}
