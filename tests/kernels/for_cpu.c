/* SPDX-License-Identifier: Apache-2.0 */
/*
 * for_cpu.c - writes generated kernels and their launches as C++, has the host's compiler make a library of
 * them, and compares what they compute with JAX. test_codegen.c and test_graph_bundle.c use it.
 */
#include "tests/kernels/for_cpu.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/vjp/vjp.h"

#define TOLERANCE 2e-4 /* of f32 against doubles, through some ten operations and sums */

static const char *const TYPES[] = {"float", "int", "bool"};

static const char FOR_CPU[] = "#include <math.h>\n#define __global__\n#define __device__\nstatic "
                              "struct { unsigned x; } blockIdx, threadIdx;\n"
                              "#define GRID(n) for (blockIdx.x = 0; blockIdx.x < n; blockIdx.x++) "
                              "for (threadIdx.x = 0; threadIdx.x < 256; "
                              "threadIdx.x++)\n";

struct for_cpu for_cpu_open(void)
{
    struct for_cpu c = {.folder = "/tmp/warm-codegen-XXXXXX"};
    char path[128];
    cr_assert_not_null(mkdtemp(c.folder));
    snprintf(path, sizeof path, "%s/graphs.cpp", c.folder);
    c.f = fopen(path, "w");
    cr_assert_not_null(c.f);
    fputs(FOR_CPU, c.f);
    return c;
}

void for_cpu_begin(FILE *f, size_t n, const struct codegen *c)
{
    fprintf(f, "namespace graph_%zu {\n", n);
    for (uint32_t i = 0; i < c->n_kernels; i++)
        fprintf(f, "#define kernel_%u g%zu_kernel_%u\n", i, n, i);
    fwrite(c->source.data, 1, c->source.len, f);
    fprintf(f, "extern \"C\" void run_%zu(void **values)\n{\n", n);
}

void for_cpu_launch(FILE *f, uint32_t kernel, uint32_t blocks)
{
    fprintf(f, "GRID(%u) kernel_%u(", blocks, kernel);
}

void for_cpu_operand(FILE *f, uint32_t k, enum elem elem, uint32_t value)
{
    fprintf(f, "%s(%s *)values[%u]", k ? ", " : "", TYPES[elem], value);
}

void for_cpu_launched(FILE *f) { fprintf(f, ");\n"); }

void for_cpu_end(FILE *f, const struct codegen *c)
{
    fprintf(f, "}\n");
    for (uint32_t i = 0; i < c->n_kernels; i++)
        fprintf(f, "#undef kernel_%u\n", i);
    fprintf(f, "}\n");
}

void for_cpu_compile(struct for_cpu *c)
{
    char command[512], library[128];
    fclose(c->f);
    snprintf(library, sizeof library, "%s/graphs.so", c->folder);
    snprintf(command, sizeof command,
             "c++ -std=c++17 -O0 -ffp-contract=off -w -shared -fPIC -o %s %s/graphs.cpp", library,
             c->folder);
    cr_assert_eq(system(command), 0, "%s", command);
    c->library = dlopen(library, RTLD_NOW);
    cr_assert_not_null(c->library, "%s", dlerror());
}

void (*for_cpu_run(const struct for_cpu *c, size_t n))(void **values)
{
    char name[32];
    void (*run)(void **);
    snprintf(name, sizeof name, "run_%zu", n);
    *(void **)&run = dlsym(c->library, name);
    cr_assert_not_null(*(void **)&run, "%s", name);
    return run;
}

void for_cpu_close(struct for_cpu *c)
{
    char command[128];
    dlclose(c->library);
    snprintf(command, sizeof command, "rm -r %s", c->folder);
    cr_expect_eq(system(command), 0);
}

struct program *for_cpu_derivative(const struct jax_graph *g)
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

void for_cpu_argument(const struct jax_graph *g, uint32_t i, float *x)
{
    if (i >= g->n_args)
        x[0] = i == g->n_args; /* the cotangent of the loss is 1, others are 0 */
    for (int64_t k = 0; i < g->n_args && k < g->args[i].n; k++)
        x[k] = (float)g->args[i].at[k];
}

void for_cpu_agrees(const struct jax_graph *g, uint32_t i, const float *x)
{
    bool is_gradient = i >= g->n_results;
    const struct jax_tensor *want = is_gradient ? &g->gradients[i - g->n_results] : &g->results[i];
    double *is = malloc((size_t)(want->n + 1) * sizeof *is);
    for (int64_t k = 0; k < want->n; k++)
        is[k] = (double)x[k];
    jax_expect(g->name, is_gradient ? "gradient" : "result", i, is, want, want->n, TOLERANCE);
    free(is);
}
