/* SPDX-License-Identifier: Apache-2.0 */
/*
 * for_cpu.c - writes generated kernels, and their launches, as C++. The host's compiler makes a library of
 * them; then their results are compared with JAX's. test_codegen.c and test_graph_bundle.c use it.
 */
#include "tests/kernels/for_cpu.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/vjp/vjp.h"
#include "tests/fakecuda/image.h"

#define TOLERANCE 2e-4 /* of f32 against doubles, through some ten operations and sums */

struct for_cpu for_cpu_open(void)
{
    struct for_cpu c = {.folder = "/tmp/warm-codegen-XXXXXX"};
    char path[128];
    cr_assert_not_null(mkdtemp(c.folder));
    snprintf(path, sizeof path, "%s/graphs.cpp", c.folder);
    c.f = fopen(path, "w");
    cr_assert_not_null(c.f);
    fputs("#include \"tests/kernels/grid.hpp\"\n#include \"tests/fakecuda/image.h\"\n", c.f);
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

/* True if the threads of a block of the kernel wait for each other. */
static bool has_barriers(const struct codegen *c, uint32_t kernel)
{
    static const char BARRIER[] = "__syncthreads";
    const struct kernel_text *text = &c->texts.at[kernel];
    return memmem(c->source.data + text->at, text->len, BARRIER, strlen(BARRIER));
}

void for_cpu_launch(FILE *f, const struct codegen *c, uint32_t kernel, uint32_t blocks,
                    uint32_t threads, const uint32_t *values, uint32_t n)
{
    fprintf(f, "{\nvoid *args[] = {");
    for (uint32_t i = 0; i < n; i++)
        fprintf(f, "&values[%u], ", values[i]);
    fprintf(f, "};\nlaunch<kernel_%u>(%u, %u, %d, args);\n}\n", kernel, blocks, threads,
            has_barriers(c, kernel));
}

void for_cpu_cubin(FILE *f, const struct codegen *c, uint32_t kernel, const void *cubin)
{
    struct writer text;
    unsigned long long id = image_id(cubin);
    writer_init(&text, 0);
    codegen_write_kernel(c, kernel, &text);
    fprintf(f,
            "#ifndef HAS_%llx\n#define HAS_%llx\nnamespace of_%llx {\n#define kernel kernel_%llx\n",
            id, id, id, id);
    fwrite(text.data, 1, text.len, f);
    fprintf(f,
            "#undef kernel\n}\nextern \"C\" const struct image_kernel image_%016llx;\n"
            "const struct image_kernel image_%016llx = {launch<of_%llx::kernel_%llx>, "
            "count_args(of_%llx::kernel_%llx), %d};\n#endif\n",
            id, id, id, id, id, id, has_barriers(c, kernel));
    writer_close(&text);
}

void for_cpu_end(FILE *f, const struct codegen *c)
{
    fprintf(f, "}\n");
    for (uint32_t i = 0; i < c->n_kernels; i++)
        fprintf(f, "#undef kernel_%u\n", i);
    fprintf(f, "}\n");
}

void for_cpu_plan(FILE *f, size_t n, const struct graph_bundle *b, const struct codegen *c)
{
    for_cpu_begin(f, n, c);
    for (uint32_t i = 0, next = 0; i < b->launches.n; i++) {
        const struct graph_launch *l = &b->launches.at[i];
        const uint32_t *args = b->operands.at + l->args;
        for (; next < b->loops.n && b->loops.at[next].first == i; next++)
            if (b->loops.at[next].condition != GRAPH_NONE)
                fprintf(f, "while (*(bool *)values[%u]) {\n", b->loops.at[next].condition);
            else
                fprintf(f, "for (unsigned long i%u = 0; i%u < %luu; i%u++) {\n", next, next,
                        (unsigned long)b->loops.at[next].trips, next);
        for_cpu_launch(f, c, l->kernel, l->blocks, l->threads, args, l->n_args);
        for (uint32_t k = 0; k < b->loops.n; k++)
            fputs(b->loops.at[k].end == i + 1 ? "}\n" : "", f);
    }
    for_cpu_end(f, c);
}

void for_cpu_compile(struct for_cpu *c)
{
    char command[512], library[128];
    const char *flags = getenv("WARM_CPU_FLAGS");
    fclose(c->f);
    snprintf(library, sizeof library, "%s/graphs.so", c->folder);
    snprintf(command, sizeof command,
             "c++ -std=c++17 -O0 -ffp-contract=off -w -I. -pthread -shared -fPIC %s -o %s "
             "%s/graphs.cpp",
             flags ? flags : "", library, c->folder);
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
    if (c->library)
        dlclose(c->library);
    else
        fclose(c->f); /* it was not compiled */
    snprintf(command, sizeof command, "rm -r %s", c->folder);
    cr_expect_eq(system(command), 0);
}

struct program *for_cpu_program(const char *a, const char *b, const char *c, const char *op,
                                bool derives)
{
    static const uint32_t BOTH[] = {0, 1};
    char text[1024];
    struct program *p = NULL, *out = NULL;
    struct err e = {0};
    snprintf(text, sizeof text,
             "!a = tensor<%s>\n!b = tensor<%s>\n!c = tensor<%s>\n"
             "func.func public @main(%%a: !a, %%b: !b) -> !c {\n"
             "%%0 = stablehlo.%s : (!a, !b) -> !c\nreturn %%0 : !c\n}\n",
             a, b, c, op);
    cr_assert_eq(program_read(text, strlen(text), &p, &e), 0, "%s: %s", text, e.text);
    uint32_t f = program_function(p, NULL);
    int rc = derives ? vjp_function(p, f, BOTH, 2, &out, &e) : program_flatten(p, f, &out, &e);
    cr_assert_eq(rc, 0, "%s: %s", text, e.text);
    program_free(p);
    return out;
}

struct program *for_cpu_derivative(const struct jax_graph *g)
{
    struct program *p = NULL, *d = NULL;
    struct err e = {0};
    uint32_t arguments[JAX_TENSORS_MAX], n = 0;
    cr_assert_eq(program_read(g->module, g->module_len, &p, &e), 0, "%s: %s", g->name, e.text);
    uint32_t first = p->blocks.at[p->functions.at[program_function(p, NULL)].block].args;
    for (uint32_t i = 0; i < g->n_args; i++)
        if (program_is_float(program_tensor(p, first + i)->elem))
            arguments[n++] = i;
    int rc = g->n_gradients ? vjp_function(p, program_function(p, NULL), arguments, n, &d, &e)
                            : program_flatten(p, program_function(p, NULL), &d, &e);
    cr_assert_eq(rc, 0, "%s: %s", g->name, e.text);
    program_free(p);
    return d;
}

void for_cpu_argument(const struct jax_graph *g, uint32_t i, enum elem elem, void *x)
{
    if (i >= g->n_args) /* the cotangent of the loss is 1, others are 0 */
        program_elem_put(elem, i == g->n_args, x);
    for (int64_t k = 0; i < g->n_args && k < g->args[i].n; k++)
        program_elem_put(elem, g->args[i].at[k], (uint8_t *)x + k * program_elem_size(elem));
}

void for_cpu_agrees(const struct jax_graph *g, uint32_t i, enum elem elem, const void *x)
{
    bool is_gradient = i >= g->n_results;
    const struct jax_tensor *want = is_gradient ? &g->gradients[i - g->n_results] : &g->results[i];
    double *is = malloc((size_t)(want->n + 1) * sizeof *is);
    for (int64_t k = 0; k < want->n; k++)
        is[k] = program_elem_get(elem, (const uint8_t *)x + k * program_elem_size(elem));
    jax_expect(g->name, is_gradient ? "gradient" : "result", i, is, want, want->n,
               program_is_float(elem) ? TOLERANCE : 0);
    free(is);
}
