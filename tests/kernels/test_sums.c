/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_sums.c - sums of many elements are right, and many threads work on them. The generated kernels run on the
 * CPU. With $WARM_SUMS set to a power of two (`make nightly`: 28) the longest sum has as many elements.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/bundle/graph_bundle.h"
#include "kernels/vjp/wanted.h"
#include "tests/kernels/for_cpu.h"

#define WORK_ALONE (1 << 16) /* elements loaded, or products, that few threads may do */
#define THREADS_MIN 4096
#define WORK_RATIO_MAX 64
#define LARGE_MAX (1 << 20)
#define NO_GRADIENT "reductions indices" /* they have operations without one */

/* x is argument 0, y argument 1 if there is one; the body gives %r. */
struct reduction {
    const char *name, *x, *y, *result, *body;
};

#define REDUCE(op, from, type, dims, to, start)                                                    \
    "%c = stablehlo.constant dense<" start "> : tensor<" type ">\n"                                \
    "%r = stablehlo.reduce(" from " init: %c) applies stablehlo." op " across dimensions = [" dims \
    "] : "

static const struct reduction CASES[] = {
    {"all", "1000x1031xf32", NULL, "f32",
     REDUCE("add", "%x", "f32", "0, 1", "",
            "0.0") "(tensor<1000x1031xf32>, tensor<f32>) -> tensor<f32>\n"},
    {"rows", "61x5003xf32", NULL, "61xf32",
     REDUCE("add", "%x", "f32", "1", "",
            "0.0") "(tensor<61x5003xf32>, tensor<f32>) -> tensor<61xf32>\n"},
    {"columns", "5003x61xf32", NULL, "61xf32",
     REDUCE("add", "%x", "f32", "0", "",
            "0.0") "(tensor<5003x61xf32>, tensor<f32>) -> tensor<61xf32>\n"},
    {"middle", "7x1009x9xf32", NULL, "9xf32",
     REDUCE("add", "%x", "f32", "0, 1", "",
            "0.0") "(tensor<7x1009x9xf32>, tensor<f32>) -> tensor<9xf32>\n"},
    {"f64", "70001xf64", NULL, "f64",
     REDUCE("add", "%x", "f64", "0", "",
            "0.0") "(tensor<70001xf64>, tensor<f64>) -> tensor<f64>\n"},
    {"bf16", "70001xbf16", NULL, "bf16",
     REDUCE("add", "%x", "bf16", "0", "",
            "0.0") "(tensor<70001xbf16>, tensor<bf16>) -> tensor<bf16>\n"},
    {"f16", "50001xf16", NULL, "f16",
     REDUCE("add", "%x", "f16", "0", "",
            "0.0") "(tensor<50001xf16>, tensor<f16>) -> tensor<f16>\n"},
    {"squares", "300x301xf32", "300x301xf32", "f32",
     "%d = stablehlo.subtract %x, %y : tensor<300x301xf32>\n"
     "%q = stablehlo.multiply %d, %d : tensor<300x301xf32>\n" REDUCE(
         "add", "%q", "f32", "0, 1", "",
         "0.0") "(tensor<300x301xf32>, tensor<f32>) -> tensor<f32>\n"},
    {"product", "100003xf32", "100003xf32", "f32",
     "%r = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (tensor<100003xf32>, "
     "tensor<100003xf32>) -> tensor<f32>\n"},
    {"few outputs", "5x20011xf32", "20011x3xf32", "5x3xf32",
     "%r = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<5x20011xf32>, "
     "tensor<20011x3xf32>) -> tensor<5x3xf32>\n"},
    {"tiles in parts", "40x8200xf32", "8200x40xf32", "40x40xf32",
     "%r = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<40x8200xf32>, "
     "tensor<8200x40xf32>) -> tensor<40x40xf32>\n"},
    {"tiles of bf16", "40x5001xbf16", "5001x40xbf16", "40x40xbf16",
     "%r = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<40x5001xbf16>, "
     "tensor<5001x40xbf16>) -> tensor<40x40xbf16>\n"},
    {"batch of products", "6x3x3001xf32", "6x3001x2xf32", "6x3x2xf32",
     "%r = stablehlo.dot_general %x, %y, batching_dims = [0] x [0], contracting_dims = [2] x [1] : "
     "(tensor<6x3x3001xf32>, tensor<6x3001x2xf32>) -> tensor<6x3x2xf32>\n"},
};
#define N_CASES (sizeof CASES / sizeof *CASES)

static struct codegen code_of(const char *text)
{
    struct program *p = NULL, *f = NULL;
    struct codegen c;
    struct err e = {0};
    cr_assert_eq(program_read(text, strlen(text), &p, &e), 0, "%s\n%s", e.text, text);
    cr_assert_eq(program_flatten(p, program_function(p, NULL), &f, &e), 0, "%s", e.text);
    cr_assert_eq(codegen_function(f, 0, &c, &e), 0, "%s", e.text);
    program_free(p);
    program_free(f);
    return c;
}

static struct codegen code_of_case(const struct reduction *r)
{
    char text[2048];
    snprintf(text, sizeof text,
             "func.func public @main(%%x: tensor<%s>%s%s%s) -> tensor<%s> {\n%sreturn %%r : "
             "tensor<%s>\n}\n",
             r->x, r->y ? ", %y: tensor<" : "", r->y ? r->y : "", r->y ? ">" : "", r->result,
             r->body, r->result);
    return code_of(text);
}

/* Expects that no kernel leaves much work to few threads, or to one, but for those that compare slices or rows. */
static void is_spread(const char *name, const struct codegen *c)
{
    for (uint32_t i = 0; i < c->launches.n; i++) {
        const struct launch *l = &c->launches.at[i];
        int64_t threads = (int64_t)l->blocks * l->threads;
        cr_expect_geq(l->most * threads, l->work, "%s: launch %u", name, i);
        if (l->compares || l->work <= WORK_ALONE)
            continue;
        const struct kernel_text *text = &c->texts.at[l->kernel];
        cr_expect(threads >= THREADS_MIN && l->most * threads <= l->work * WORK_RATIO_MAX,
                  "%s: launch %u does %ld in %ld threads, %ld in one\n%.*s", name, i, (long)l->work,
                  (long)threads, (long)l->most, (int)text->len,
                  (const char *)c->source.data + text->at);
    }
}

/* Returns addresses of a plan's buffers, with numbers in the arguments that cancel each other for the most part. */
static void **buffers_of(const struct graph_bundle *b, uint8_t **arena)
{
    void **at = calloc((size_t)b->buffers.n + 1, sizeof *at);
    *arena = calloc((size_t)b->arena + 1, 1);
    memset(*arena, 0xFF, (size_t)b->arena);
    for (uint32_t i = 0; i < b->buffers.n; i++) {
        const struct graph_buffer *buffer = &b->buffers.at[i];
        uint32_t size = program_elem_size(buffer->type.elem), state = 1 + i;
        at[i] = buffer->place == PLACE_ARENA ? *arena + buffer->at : b->constants.data + buffer->at;
        if (buffer->place != PLACE_ARGUMENT)
            continue;
        at[i] = malloc((size_t)buffer->type.n * size + 1);
        for (int64_t k = 0; k < buffer->type.n; k++) {
            state = state * 1664525 + 1013904223;
            program_elem_put(buffer->type.elem, (state >> 8) / 0x1p24 - 0.45,
                             (uint8_t *)at[i] + k * size);
        }
    }
    return at;
}

static double element(const struct graph_bundle *b, void **at, uint32_t i, int64_t k)
{
    enum elem elem = b->buffers.at[i].type.elem;
    return program_elem_get(elem, (uint8_t *)at[i] + k * program_elem_size(elem));
}

/* Sums the terms of result `to` of a case by the definition; *out_size is the sum of their sizes. */
static long double exact(const struct reduction *r, const struct graph_bundle *b, void **at,
                         int64_t to, long double *out_size, int64_t *out_n)
{
    const int64_t *x = b->buffers.at[0].type.dims, *y = b->buffers.at[1].type.dims;
    bool dot = strstr(r->body, "dot_general"), squares = strcmp(r->name, "squares") == 0,
         batch = strstr(r->body, "batching"), vectors = strcmp(r->name, "product") == 0;
    int64_t columns = strcmp(r->name, "columns") == 0  ? x[1]
                      : strcmp(r->name, "middle") == 0 ? x[2]
                                                       : 0;
    int64_t n = b->buffers.at[0].type.n, k = vectors ? n : batch ? x[2] : x[1];
    int64_t count = dot ? k : columns ? n / columns : strcmp(r->name, "rows") == 0 ? x[1] : n;
    long double sum = 0, size = 0;
    for (int64_t i = 0; i < count; i++) {
        long double term;
        if (!dot) {
            term = (long double)element(b, at, 0, columns ? i * columns + to : to * count + i);
            if (squares) {
                float d = (float)element(b, at, 0, i) - (float)element(b, at, 1, i);
                term = (long double)(d * d);
            }
        } else {
            int64_t n_y = vectors ? 1 : batch ? y[2] : y[1], m = vectors ? 1 : batch ? x[1] : x[0];
            int64_t matrix = to / (m * n_y), row = to / n_y % m, column = to % n_y;
            term = (long double)element(b, at, 0, (matrix * m + row) * k + i) *
                   (long double)element(b, at, 1, (matrix * k + i) * n_y + column);
        }
        sum += term;
        size += fabsl(term);
    }
    *out_size = size;
    *out_n = count;
    return sum;
}

/* The bound is that of the tree: 4 log2(n) eps sum|x|, and one rounding of the result's type. A product of
 * matrices may have chains of 256 products before it. */
static void is_right(const struct reduction *r, const struct graph_bundle *b, void **at)
{
    uint32_t result = b->results.at[0];
    const struct tensor *t = &b->buffers.at[result].type;
    double eps = t->elem == ELEM_F64 ? 0x1p-52 : 0x1p-23, last = t->elem == ELEM_BF16  ? 0x1p-8
                                                                 : t->elem == ELEM_F16 ? 0x1p-11
                                                                                       : eps;
    for (int64_t to = 0; to<t->n; to += t->n> 64 ? 37 : 1) {
        long double size;
        int64_t n;
        long double want = exact(r, b, at, to, &size, &n);
        double is = element(b, at, result, to),
               bound = (4 * log2((double)n) + (strstr(r->body, "dot_") ? 128 : 0)) * eps *
                           (double)size +
                       last * fabs((double)want);
        cr_expect(fabs(is - (double)want) <= bound, "%s: element %ld is %.9g, not %.9g (bound %g)",
                  r->name, (long)to, is, (double)want, bound);
    }
}

Test(sums, errors_are_those_of_a_tree_and_many_threads_work)
{
    struct for_cpu cpu = for_cpu_open();
    struct graph_bundle plans[N_CASES];
    struct err e = {0};
    for (size_t i = 0; i < N_CASES; i++) {
        struct codegen c = code_of_case(&CASES[i]);
        is_spread(CASES[i].name, &c);
        cr_assert_eq(graph_bundle_plan(&c, &plans[i], &e), 0, "%s", e.text);
        for_cpu_plan(cpu.f, i, &plans[i], &c);
        codegen_free(&c);
    }
    for_cpu_compile(&cpu);
    for (size_t i = 0; i < N_CASES; i++) {
        uint8_t *arena;
        void **at = buffers_of(&plans[i], &arena);
        for_cpu_run(&cpu, i)(at);
        is_right(&CASES[i], &plans[i], at);
        for (uint32_t k = 0; k < plans[i].n_arguments; k++)
            free(at[k]);
        free(at);
        free(arena);
        graph_bundle_close(&plans[i]);
    }
    for_cpu_close(&cpu);
}

/* One thread that adds 2^20 tenths in f32 is 4 % off; with 2^28 of them it stops at 2^21. */
Test(sums, many_equal_numbers_are_that_many_times_the_number)
{
    const char *power = getenv("WARM_SUMS");
    int bits = power ? atoi(power) : 20;
    char text[1024];
    struct graph_bundle plan;
    struct err e = {0};
    snprintf(text, sizeof text,
             "func.func public @main() -> tensor<f32> {\n%%i = stablehlo.iota dim = 0 : "
             "tensor<%ldxf32>\n"
             "%%z = stablehlo.subtract %%i, %%i : tensor<%ldxf32>\n%%o = stablehlo.cosine %%z : "
             "tensor<%ldxf32>\n%%t = stablehlo.constant dense<0.1> : tensor<%ldxf32>\n%%x = "
             "stablehlo.multiply %%o, %%t : tensor<%ldxf32>\n%%c = stablehlo.constant dense<0.0> : "
             "tensor<f32>\n%%s = "
             "stablehlo.reduce(%%x init: %%c) applies stablehlo.add across dimensions = [0] : "
             "(tensor<%ldxf32>, tensor<f32>) -> tensor<f32>\nreturn %%s : tensor<f32>\n}\n",
             1L << bits, 1L << bits, 1L << bits, 1L << bits, 1L << bits, 1L << bits);
    struct for_cpu cpu = for_cpu_open();
    struct codegen c = code_of(text);
    is_spread("ones", &c);
    cr_assert_eq(graph_bundle_plan(&c, &plan, &e), 0, "%s", e.text);
    for_cpu_plan(cpu.f, 0, &plan, &c);
    for_cpu_compile(&cpu);
    uint8_t *arena;
    void **at = buffers_of(&plan, &arena);
    for_cpu_run(&cpu, 0)(at);
    double is = element(&plan, at, plan.results.at[0], 0), want = ldexp((double)0.1f, bits);
    cr_expect(fabs(is - want) <= 4 * bits * 0x1p-23 * want, "%.9g, not %.9g", is, want);
    free(at);
    free(arena);
    graph_bundle_close(&plan);
    codegen_free(&c);
    for_cpu_close(&cpu);
}

/* Returns the function of a model, or its derivative. */
static struct codegen code_of_model(const char *module, size_t len, bool derives)
{
    struct program *p = NULL, *f = NULL;
    struct wanted w = {.derives = derives};
    struct codegen c;
    struct err e = {0};
    cr_assert_eq(program_read(module, len, &p, &e), 0, "%s", e.text);
    cr_assert_eq(wanted_function(p, &w, &f, &e), 0, "%s", e.text);
    cr_assert_eq(codegen_function(f, 0, &c, &e), 0, "%s", e.text);
    program_free(p);
    program_free(f);
    return c;
}

Test(sums, many_threads_work_in_models_of_real_sizes)
{
    size_t n = 0;
    FILE *f = fopen("tests/data/jax_large.txt", "rb");
    char *text = calloc(1, LARGE_MAX), name[64], *end;
    cr_assert(f && text);
    cr_assert_lt(fread(text, 1, LARGE_MAX, f), LARGE_MAX);
    fclose(f);
    for (char *at = text; sscanf(at, "graph %63s", name) == 1; at = end + 5, n++) {
        char *module = strchr(at, '\n') + 1;
        cr_assert_not_null(end = strstr(module, "\nend\n"));
        for (int derives = 0; derives < 2; derives++) {
            if (derives && strstr(NO_GRADIENT, name))
                continue;
            struct codegen c = code_of_model(module, (size_t)(end - module), derives);
            is_spread(name, &c);
            codegen_free(&c);
        }
    }
    cr_expect_geq(n, (size_t)10);
    free(text);
}
