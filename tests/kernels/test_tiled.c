/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_tiled.c - products by tiles, run on the CPU with their barriers: in every layout, and of windows, they have
 * the numbers of the interpreter. Each case is as large as the model of tiled.h asks for. Only assertions of
 * tests/plain, so that ThreadSanitizer runs it: make tsan.
 */
#include "kernels/codegen/tiled.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/eval/eval.h"
#include "tests/kernels/for_cpu.h"
#include "tests/kernels/jax_graphs.h"

#define TOLERANCE                                                                                  \
    2e-5 /* of f32 sums of up to 5000 products of numbers below 1, by the largest element */

/* An operation on %a and %b, and how many launches compute products by tiles: forward, or with the gradients of both. A
 * tensor of all windows may be in memory, or must not. */
struct tiled_case {
    const char *a, *b, *c, *op;
    uint32_t n_tiled;
    enum { FORWARD, GRADIENTS, SMALL_GRADIENTS } kind;
};

#define DOT "dot_general %a, %b, "
#define CONVOLUTION(x, k, y)                                                                       \
    "convolution(%a, %b) dim_numbers = [" x "]x[" k "]->[" y "], window = {"
#define GROUPS(batch, feature)                                                                     \
    "} {batch_group_count = " batch " : i64, feature_group_count = " feature " : i64}"
#define NHWC CONVOLUTION("b, 0, 1, f", "0, 1, i, o", "b, 0, 1, f")
#define NCHW CONVOLUTION("b, f, 0, 1", "o, i, 0, 1", "b, f, 0, 1")

static const struct tiled_case CASES[] = {
    {"260x33xf32", "33x250xf32", "260x250xf32", DOT "contracting_dims = [1] x [0]", 1, FORWARD},
    {"70x260xf32", "70x250xf32", "260x250xf32", DOT "contracting_dims = [0] x [0]", 1, FORWARD},
    {"257x32xf32", "256x32xf32", "257x256xf32", DOT "contracting_dims = [1] x [1]", 3, GRADIENTS},
    {"40x330xf32", "200x40xf32", "330x200xf32", DOT "contracting_dims = [0] x [1]", 1, FORWARD},
    {"17x40x34xf32", "17x34x33xf32", "17x40x33xf32",
     DOT "batching_dims = [0] x [0], contracting_dims = [2] x [1]", 1, FORWARD},
    {"3x6x35x32xf32", "3x6x36x32xf32", "3x6x35x36xf32",
     DOT "batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3]", 1, FORWARD},
    {"36x20x34xf32", "20x36x40xf32", "20x34x40xf32",
     DOT "batching_dims = [1] x [0], contracting_dims = [0] x [1]", 1, FORWARD},
    {"4x80x33xf32", "33x250xf32", "4x80x250xf32", DOT "contracting_dims = [2] x [0]", 1, FORWARD},
    {"4x40x70xf32", "40x250xf32", "4x70x250xf32", DOT "contracting_dims = [1] x [0]", 1, FORWARD},
    {"260x4x9xf32", "4x9x250xf32", "260x250xf32", DOT "contracting_dims = [1, 2] x [0, 1]", 1,
     FORWARD},
    {"260x4x9xf32", "9x4x250xf32", "260x250xf32", DOT "contracting_dims = [1, 2] x [1, 0]", 1,
     FORWARD},
    /* parts of a long sum, which do not divide it */
    {"40x111x41xf32", "41x50x111xf32", "40x50xf32", DOT "contracting_dims = [1, 2] x [2, 0]", 1,
     FORWARD},
    {"260x33xf64", "33x250xf64", "260x250xf64", DOT "contracting_dims = [1] x [0]", 1, FORWARD},
    {"260x33xf16", "33x250xf16", "260x250xf32", DOT "contracting_dims = [1] x [0]", 1, FORWARD},
    {"260x33xbf16", "33x250xbf16", "260x250xf32", DOT "contracting_dims = [1] x [0]", 1, FORWARD},
    {"260x33xf16", "33x250xf32", "260x250xf32", DOT "contracting_dims = [1] x [0]", 1, FORWARD},
    {"260x33xi32", "33x250xi32", "260x250xi32", DOT "contracting_dims = [1] x [0]", 0, FORWARD},
    {"100x33xf32", "33x250xf32", "100x250xf32", DOT "contracting_dims = [1] x [0]", 0, FORWARD},
    /* convolutions: padding, strides, dilations of both, reversed, groups of both */
    {"2x17x13x5xf32", "3x3x5x140xf32", "2x17x13x140xf32",
     NHWC "pad = [[1, 1], [1, 1]]" GROUPS("1", "1"), 3, GRADIENTS},
    {"2x5x17x13xf32", "140x5x3x3xf32", "2x140x17x13xf32",
     NCHW "pad = [[1, 1], [1, 1]]" GROUPS("1", "1"), 3, GRADIENTS},
    {"3x33x29x4xf32", "3x4x4x150xf32", "3x16x30x150xf32",
     NHWC "stride = [2, 1], pad = [[0, 0], [2, 2]]" GROUPS("1", "1"), 3, GRADIENTS},
    {"3x4x33x29xf16", "150x4x3x3xf16", "3x150x16x25xf32",
     NCHW "stride = [2, 1], rhs_dilate = [1, 2]" GROUPS("1", "1"), 1, FORWARD},
    {"2x12x9x6xf32", "3x2x6x150xf32", "2x24x9x150xf32",
     NHWC "pad = [[2, 1], [2, -1]], lhs_dilate = [2, 1], reverse = [true, true]" GROUPS("1", "1"),
     1, GRADIENTS},
    {"2x17x13x8xbf16", "3x3x4x140xbf16", "2x17x13x140xf32",
     NHWC "pad = [[1, 1], [1, 1]]" GROUPS("1", "2"), 1, FORWARD},
    {"2x17x13x8xf64", "3x3x4x140xf64", "2x17x13x140xf64",
     NHWC "pad = [[1, 1], [1, 1]]" GROUPS("1", "2"), 2, GRADIENTS},
    {"4x17x13x4xf32", "3x3x4x140xf32", "2x17x13x140xf32",
     NHWC "pad = [[1, 1], [1, 1]]" GROUPS("2", "1"), 2, GRADIENTS},
    {"4x90x11xf32", "3x11x150xf32", "4x90x150xf32",
     CONVOLUTION("b, 0, f", "0, i, o", "b, 0, f") "pad = [[2, 0]]" GROUPS("1", "1"), 1, GRADIENTS},
    {"2x6x7x8x3xf32", "2x2x3x3x140xf32", "2x5x6x8x140xf32",
     CONVOLUTION("b, 0, 1, 2, f", "0, 1, 2, i, o",
                 "b, 0, 1, 2, f") "pad = [[0, 0], [0, 0], [1, 1]]" GROUPS("1", "1"),
     3, GRADIENTS},
    {"4x33x33x36xf32", "3x3x36x70xf32", "4x16x16x70xf32", NHWC "stride = [2, 2]" GROUPS("1", "1"),
     3, GRADIENTS},
    /* both gradients of many features */
    {"3x17x13x70xf32", "2x2x70x70xf32", "3x17x13x70xf32",
     NHWC "pad = [[1, 0], [0, 1]]" GROUPS("1", "1"), 3, SMALL_GRADIENTS},
    {"3x70x17x13xf32", "70x70x3x2xf32", "3x70x15x14xf32",
     NCHW "pad = [[1, 1], [2, 1]], rhs_dilate = [2, 2]" GROUPS("1", "1"), 3, SMALL_GRADIENTS},
    {"2x14x11x140xf64", "2x2x70x140xf64", "2x14x11x140xf64",
     NHWC "pad = [[1, 0], [0, 1]]" GROUPS("1", "2"), 3, SMALL_GRADIENTS},
    {"6x12x13x70xf32", "2x2x70x140xf32", "3x12x13x140xf32",
     NHWC "pad = [[1, 0], [0, 1]]" GROUPS("2", "1"), 3, SMALL_GRADIENTS},
    {"4x140x70xf32", "3x70x140xf32", "4x140x140xf32",
     CONVOLUTION("b, 0, f", "0, i, o", "b, 0, f") "pad = [[2, 0]]" GROUPS("1", "1"), 3,
     SMALL_GRADIENTS},
    {"70x7x5x6x3xf32", "2x2x1x70x70xf32", "3x6x6x6x70xf32",
     CONVOLUTION("f, 0, 1, 2, b", "0, 1, 2, i, o",
                 "b, 0, 1, 2, f") "pad = [[0, 0], [1, 1], [0, 0]]" GROUPS("1", "1"),
     3, SMALL_GRADIENTS},
    /* the gradients of weights and of inputs, as JAX writes them */
    {"8x20x20x40xf32", "8x20x20x36xf32", "2x2x40x36xf32",
     CONVOLUTION("f, 0, 1, b", "i, 0, 1, o", "0, 1, b, f") "pad = [[1, 0], [0, 1]]" GROUPS("1",
                                                                                           "1"),
     1, FORWARD},
    {"3x20x17x4xf32", "3x3x150x4xf32", "3x39x17x150xf32",
     CONVOLUTION("b, 0, 1, f", "0, 1, o, i",
                 "b, 0, 1, f") "pad = [[1, 1], [1, 1]], lhs_dilate = [2, 1], reverse = [true, "
                               "true]" GROUPS("1", "1"),
     1, FORWARD},
    /* too few features */
    {"2x40x40x8xf32", "3x3x8x3xf32", "2x40x40x3xf32",
     NHWC "pad = [[1, 1], [1, 1]]" GROUPS("1", "1"), 0, FORWARD},
};
#define N_CASES (sizeof CASES / sizeof *CASES)

/* Returns the launches of the template. */
static uint32_t count_tiled(const struct codegen *c)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->launches.n; i++) {
        const struct kernel_text *k = &c->texts.at[c->launches.at[i].kernel];
        n += memmem(c->source.data + k->at, k->len, "tile_a", 6) != NULL;
    }
    return n;
}

/* Expects no tensor in memory that is larger than twice any argument or result, as one of all windows would be. */
static void stores_no_windows(size_t i, const struct graph_bundle *b)
{
    int64_t most = 0;
    for (uint32_t k = 0; k < b->n_arguments + b->results.n; k++) {
        uint32_t of = k < b->n_arguments ? k : b->results.at[k - b->n_arguments];
        most = most > b->buffers.at[of].type.n ? most : b->buffers.at[of].type.n;
    }
    for (uint32_t k = 0; k < b->buffers.n; k++)
        cr_assert(b->buffers.at[k].type.n <= 2 * most, "case %zu: buffer %u of %ld elements", i, k,
                  (long)b->buffers.at[k].type.n);
}

/* Runs a plan, and the interpreter on the same numbers. */
static void run_case(size_t i, const struct program *p, const struct graph_bundle *b,
                     void (*run)(void **))
{
    void **at = calloc((size_t)b->buffers.n + 1, sizeof *at);
    double *x[4] = {NULL}, *y[4] = {NULL};
    uint8_t *arena = malloc((size_t)b->arena + 1);
    struct err e = {0};
    memset(arena, 0xFF, (size_t)b->arena);
    cr_assert(b->n_arguments <= 4 && b->results.n <= 4);
    for (uint32_t k = 0; k < b->buffers.n; k++) {
        const struct graph_buffer *buffer = &b->buffers.at[k];
        uint32_t size = program_elem_size(buffer->type.elem);
        at[k] = buffer->place == PLACE_ARENA ? arena + buffer->at : b->constants.data + buffer->at;
        if (buffer->place != PLACE_ARGUMENT)
            continue;
        at[k] = malloc((size_t)buffer->type.n * size);
        x[k] = calloc((size_t)buffer->type.n, sizeof *x[k]);
        for (int64_t j = 0; j < buffer->type.n; j++) {
            uint8_t *to = (uint8_t *)at[k] + j * size;
            program_elem_put(buffer->type.elem, (double)((j * 7919 + k * 31) % 201 - 100) / 100,
                             to);
            x[k][j] = (double)program_elem_get(buffer->type.elem, to);
        }
    }
    run(at);
    for (uint32_t k = 0; k < b->results.n; k++)
        y[k] = calloc((size_t)b->buffers.at[b->results.at[k]].type.n, sizeof *y[k]);
    cr_assert_eq(eval_doubles(p, program_function(p, NULL), (const double *const *)x, y, &e), 0,
                 "%s", e.text);
    for (uint32_t k = 0; k < b->results.n; k++) {
        const struct tensor *t = &b->buffers.at[b->results.at[k]].type;
        double most = 0, bound = t->elem == ELEM_F64 ? 1e-12 : TOLERANCE;
        for (int64_t j = 0; j < t->n; j++)
            most = fmax(most, fabs(y[k][j]));
        cr_assert(most > 0.1);
        for (int64_t j = 0; j < t->n; j++) {
            double is = (double)program_elem_get(t->elem, (uint8_t *)at[b->results.at[k]] +
                                                              j * program_elem_size(t->elem));
            cr_assert(fabs(is - y[k][j]) <= bound * most,
                      "case %zu, result %u, element %ld: %g, not %g", i, k, (long)j, is, y[k][j]);
        }
        free(y[k]);
    }
    for (uint32_t k = 0; k < b->n_arguments; k++) {
        free(at[k]);
        free(x[k]);
    }
    free(arena);
    free(at);
}

Test(tiled, products_have_the_numbers_of_the_interpreter)
{
    struct for_cpu cpu = for_cpu_open();
    struct program *programs[N_CASES];
    struct graph_bundle plans[N_CASES];
    struct err e = {0};
    for (size_t i = 0; i < N_CASES; i++) {
        struct codegen c;
        programs[i] = for_cpu_program(CASES[i].a, CASES[i].b, CASES[i].c, CASES[i].op,
                                      CASES[i].kind != FORWARD);
        cr_assert_eq(codegen_function(programs[i], 0, &c, &e), 0, "case %zu: %s", i, e.text);
        uint32_t n = count_tiled(&c);
        cr_assert_eq(n, CASES[i].n_tiled, "case %zu: %u", i, n);
        cr_assert_eq(graph_bundle_plan(&c, &plans[i], &e), 0, "%s", e.text);
        if (CASES[i].kind == SMALL_GRADIENTS)
            stores_no_windows(i, &plans[i]);
        for_cpu_plan(cpu.f, i, &plans[i], &c);
        codegen_free(&c);
    }
    for_cpu_compile(&cpu);
    for (size_t i = 0; i < N_CASES; i++) {
        run_case(i, programs[i], &plans[i], for_cpu_run(&cpu, i));
        graph_bundle_close(&plans[i]);
        program_free(programs[i]);
    }
    for_cpu_close(&cpu);
}

/* The threshold is a model's: kernels/codegen/tiled.h. */
Test(tiled, tiles_are_for_products_that_fill_a_gpu)
{
    static const struct {
        struct tiled t;
        bool pays;
    } SIZES[] = {{{.batch = 1, .m = 512, .n = 512, .k = 512}, true},
                 {{.batch = 1, .m = 128, .n = 16, .k = 16}, false},
                 {{.batch = 1, .m = 256, .n = 256, .k = 4096}, false},
                 {{.batch = 16, .m = 64, .n = 128, .k = 64}, true},
                 {{.batch = 1, .m = 100000, .n = 8, .k = 64}, false},
                 {{.batch = 1, .m = 1024, .n = 1024, .k = 16}, false}};
    for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES; i++)
        cr_assert_eq(tiled_pays(&SIZES[i].t), SIZES[i].pays, "%zu", i);
}

/* Returns how the operands of the code's products by tiles are loaded: "k-" if threads that follow one another load
 * elements of the first one along k, and of the second one not. Static memory. */
static const char *loads_of(const struct program *p)
{
    static char out[64];
    struct codegen c;
    struct err e = {0};
    size_t n = 0;
    cr_assert_eq(codegen_function(p, 0, &c, &e), 0, "%s", e.text);
    for (uint32_t i = 0; i < c.launches.n && n + 4 < sizeof out; i++) {
        const struct kernel_text *k = &c.texts.at[c.launches.at[i].kernel];
        static const char A[] = "A_ALONG_K = ", B[] = ", B_ALONG_K = ";
        const char *at = memmem(c.source.data + k->at, k->len, A, strlen(A));
        if (!at)
            continue;
        at += strlen(A);
        n += (size_t)sprintf(out + n, "%s%c%c", n ? " " : "", *at == '1' ? 'k' : '-',
                             at[1 + strlen(B)] == '1' ? 'k' : '-');
    }
    codegen_free(&c);
    return out;
}

/* If an operand has such an order. Forward, then the gradients. */
Test(tiled, threads_read_elements_that_follow_one_another)
{
    static const struct {
        const char *a, *b, *c, *op, *loads;
    } LAYOUTS[] = {
        {"512x512xf32", "512x512xf32", "512x512xf32", DOT "contracting_dims = [1] x [0]",
         "k- kk --"},
        {"512x512xf32", "512x512xf32", "512x512xf32", DOT "contracting_dims = [0] x [1]",
         "-k -k -k"},
        /* features last */
        {"8x28x28x64xf32", "3x3x64x64xf32", "8x28x28x64xf32",
         NHWC "pad = [[1, 1], [1, 1]]" GROUPS("1", "1"), "k- -- kk"},
        /* places last */
        {"8x64x28x28xf32", "64x64x3x3xf32", "8x64x28x28xf32",
         NCHW "pad = [[1, 1], [1, 1]]" GROUPS("1", "1"), "-k k- --"},
        {"8x64x57x57xf32", "64x64x3x3xf32", "8x64x28x28xf32",
         NCHW "stride = [2, 2]" GROUPS("1", "1"), "-k k- --"},
    };
    for (size_t i = 0; i < sizeof LAYOUTS / sizeof *LAYOUTS; i++) {
        struct program *p =
            for_cpu_program(LAYOUTS[i].a, LAYOUTS[i].b, LAYOUTS[i].c, LAYOUTS[i].op, true);
        const char *loads = loads_of(p);
        cr_assert_str_eq(loads, LAYOUTS[i].loads, "case %zu: %s", i, loads);
        program_free(p);
    }
}

/* Indices have 32 bits if they fit. */
Test(tiled, indices_of_large_operands_have_64_bits)
{
    static const char *const ROWS[] = {"512x64xf32", "16777216x64xf32"};
    for (size_t i = 0; i < 2; i++) {
        static const char *const TYPES[] = {"int place_t", "long long place_t"};
        struct codegen c;
        struct err e = {0};
        struct program *p =
            for_cpu_program(ROWS[i], "64x256xf32", i ? "16777216x256xf32" : "512x256xf32",
                            DOT "contracting_dims = [1] x [0]", false);
        cr_assert_eq(codegen_function(p, 0, &c, &e), 0, "%s", e.text);
        const struct kernel_text *k = &c.texts.at[0];
        cr_assert(memmem(c.source.data + k->at, k->len, TYPES[i], strlen(TYPES[i])), "%s", ROWS[i]);
        codegen_free(&c);
        program_free(p);
    }
}
