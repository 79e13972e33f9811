/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_codegen.c - the generated CUDA C++: compiled by the host's C++ compiler and run, its numbers are
 * those of JAX; NVRTC compiles it for three architectures; equal layers share kernels.
 *
 * No kernel has a barrier or shared memory, so on the CPU its threads run one after the other.
 */
#include "kernels/codegen/codegen.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/vjp/vjp.h"
#include "tests/kernels/jax_graphs.h"
#include "tests/support/support.h"

#define TOLERANCE 2e-4 /* of f32 against doubles, through some ten operations and sums */

static const char *const TYPES[] = {"float", "int", "bool"};

/* Returns the derivative of a graph's function for all its arguments. */
static struct program *derivative_of(const struct jax_graph *g)
{
    struct program *p = NULL, *d = NULL;
    struct err e = {0};
    uint32_t arguments[JAX_TENSORS_MAX];
    for (uint32_t i = 0; i < JAX_TENSORS_MAX; i++)
        arguments[i] = i;
    cr_assert_eq(program_read(g->module, g->module_len, &p, &e), 0, "%s: %s", g->name, e.text);
    cr_assert_eq(vjp_function(p, program_function(p, NULL), arguments, (uint32_t)g->n_args, &d, &e),
                 0, "%s: %s", g->name, e.text);
    program_free(p);
    return d;
}

static struct codegen code_of(const char *name, const struct program *p)
{
    struct codegen c;
    struct err e = {0};
    cr_assert_eq(codegen_function(p, program_function(p, NULL), &c, &e), 0, "%s: %s", name, e.text);
    return c;
}

/* Writes the code for the CPU: its kernels with names of their own, and run_N, which launches them all on
 * tensors by value. */
static void write_for_cpu(FILE *f, size_t n, const struct program *p, const struct codegen *c)
{
    fprintf(f, "namespace graph_%zu {\n", n);
    for (uint32_t i = 0; i < c->n_kernels; i++)
        fprintf(f, "#define kernel_%u g%zu_kernel_%u\n", i, n, i);
    fwrite(c->source.data, 1, c->source.len, f);
    fprintf(f, "extern \"C\" void run_%zu(void **values)\n{\n", n);
    for (uint32_t i = 0; i < c->launches.n; i++) {
        const struct launch *l = &c->launches.at[i];
        fprintf(f, "GRID(%ld) kernel_%u(", (long)((l->n + CODEGEN_BLOCK - 1) / CODEGEN_BLOCK),
                l->kernel);
        for (uint32_t k = 0; k < l->n_args; k++) {
            uint32_t value = c->args.at[l->args + k];
            fprintf(f, "%s(%s *)values[%u]", k ? ", " : "", TYPES[program_tensor(p, value)->elem],
                    value);
        }
        fprintf(f, ");\n");
    }
    fprintf(f, "}\n");
    for (uint32_t i = 0; i < c->n_kernels; i++)
        fprintf(f, "#undef kernel_%u\n", i);
    fprintf(f, "}\n");
}

static const char FOR_CPU[] = "#include <math.h>\n#define __global__\n#define __device__\nstatic "
                              "struct { unsigned x; } blockIdx, threadIdx;\n"
                              "#define GRID(n) for (blockIdx.x = 0; blockIdx.x < n; blockIdx.x++) "
                              "for (threadIdx.x = 0; threadIdx.x < 256; "
                              "threadIdx.x++)\n";

/* Compiles a source and loads it. */
static void *compiled(const char *folder)
{
    char command[512], library[256];
    snprintf(library, sizeof library, "%s/graphs.so", folder);
    snprintf(command, sizeof command,
             "c++ -std=c++17 -O0 -ffp-contract=off -w -shared -fPIC -o %s %s/graphs.cpp", library,
             folder);
    cr_assert_eq(system(command), 0, "%s", command);
    void *handle = dlopen(library, RTLD_NOW);
    cr_assert_not_null(handle, "%s", dlerror());
    return handle;
}

/* Returns new memory for each value; arguments and constants have their elements. */
static void **tensors_of(const struct jax_graph *g, const struct program *p)
{
    const struct block *b = &p->blocks.at[p->functions.at[program_function(p, NULL)].block];
    void **values = calloc(p->values.n, sizeof *values);
    for (uint32_t i = 0; i < p->values.n; i++)
        values[i] = calloc((size_t)program_tensor(p, i)->n + 1, 4);
    for (uint32_t i = 0; i < b->n_args; i++) {
        cr_assert_eq(program_tensor(p, b->args + i)->elem, ELEM_F32);
        float *x = values[b->args + i];
        if (i >= g->n_args)
            x[0] = i == g->n_args; /* the cotangent of the loss is 1, others are 0 */
        for (int64_t k = 0; i < g->n_args && k < g->args[i].n; k++)
            x[k] = (float)g->args[i].at[k];
    }
    for (uint32_t i = 0; i < p->ops.n; i++) {
        const struct operation *op = &p->ops.at[i];
        if (op->op != OP_CONSTANT || p->ints.at[op->ints + 1])
            continue;
        const struct tensor *t = program_tensor(p, op->results);
        memcpy(values[op->results], p->data.at + p->ints.at[op->ints],
               (size_t)t->n * program_elem_size(t->elem));
    }
    return values;
}

/* Compares the results and gradients of a run with those of JAX. */
static void results_agree(const struct jax_graph *g, const struct program *p, void *const *values)
{
    const struct block *b = &p->blocks.at[p->functions.at[program_function(p, NULL)].block];
    for (uint32_t i = 0; i < b->n_results; i++) {
        bool is_gradient = i >= g->n_results;
        const struct jax_tensor *want =
            is_gradient ? &g->gradients[i - g->n_results] : &g->results[i];
        const float *x = values[p->operands.at[b->results + i]];
        double *is = malloc((size_t)(want->n + 1) * sizeof *is);
        for (int64_t k = 0; k < want->n; k++)
            is[k] = (double)x[k];
        jax_expect(g->name, is_gradient ? "gradient" : "result", i, is, want, want->n, TOLERANCE);
        free(is);
    }
}

Test(codegen, numbers_are_those_of_jax)
{
    struct jax_graph *graphs;
    size_t n = jax_graphs_read(&graphs);
    char folder[] = "/tmp/warm-codegen-XXXXXX", path[64], command[64];
    struct program **programs = calloc(n, sizeof *programs);
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/graphs.cpp", folder);
    FILE *f = fopen(path, "w");
    cr_assert_not_null(f);
    fputs(FOR_CPU, f);
    for (size_t i = 0; i < n; i++) {
        if (!graphs[i].n_gradients)
            continue;
        programs[i] = derivative_of(&graphs[i]);
        struct codegen c = code_of(graphs[i].name, programs[i]);
        write_for_cpu(f, i, programs[i], &c);
        codegen_free(&c);
    }
    fclose(f);
    void *library = compiled(folder);
    for (size_t i = 0; i < n; i++) {
        char name[32];
        if (!programs[i])
            continue;
        snprintf(name, sizeof name, "run_%zu", i);
        void (*run)(void **) = (void (*)(void **))dlsym(library, name);
        void **values = tensors_of(&graphs[i], programs[i]);
        run(values);
        results_agree(&graphs[i], programs[i], values);
        for (uint32_t k = 0; k < programs[i]->values.n; k++)
            free(values[k]);
        free(values);
        program_free(programs[i]);
    }
    free(programs);
    dlclose(library);
    snprintf(command, sizeof command, "rm -r %s", folder);
    cr_expect_eq(system(command), 0);
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

/* All sources, and the whole list of architectures, would take minutes: one graph in ten. */
Test(codegen, both_nvrtcs_compile_the_code)
{
    static const char *const ARCHS[] = {"sm_80", "sm_90", "sm_100"};
    char *folders[] = {toolchain_lib("12.9.86"), toolchain_lib("13.5.37")};
    if (!folders[0] || !folders[1])
        cr_skip_test("no CUDA toolchain: set WARM_TOOLCHAIN or run `make toolchain`");
    void *libraries[] = {nvrtc_loaded(folders[0], false), nvrtc_loaded(folders[1], true)};
    struct jax_graph *graphs;
    size_t n = jax_graphs_read(&graphs), turn = 0;
    for (size_t i = 0; i < n; i += 10) {
        if (!graphs[i].n_gradients)
            continue;
        struct program *d = derivative_of(&graphs[i]);
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
    cr_expect_geq(n_launches[1], (uint32_t)(3 * 64));
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
