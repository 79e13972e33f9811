/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_tiled.c - the template of matrix products, run on the CPU with its barriers: every layout that is a
 * matrix product has the numbers of the interpreter. Only assertions of tests/plain, so that
 * ThreadSanitizer runs it: make tsan.
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

#define TOLERANCE 1e-5 /* of sums of up to 100 products of numbers below 1 */

/* A dot_general; `taken`: it is a product of matrices. */
static const struct {
    const char *dims, *a, *b, *c;
    bool taken;
    int64_t blocks; /* if taken */
} CASES[] = {
    {"contracting_dims = [1] x [0]", "70x33", "33x50", "70x50", true, 2},
    {"contracting_dims = [0] x [0]", "33x70", "33x50", "70x50", true, 2},
    {"contracting_dims = [1] x [1]", "64x32", "64x32", "64x64", true, 1},
    {"contracting_dims = [0] x [1]", "17x130", "65x17", "130x65", true, 6},
    {"batching_dims = [0] x [0], contracting_dims = [2] x [1]", "3x40x20", "3x20x10", "3x40x10",
     true, 3},
    {"batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3]", "2x3x5x7", "2x3x6x7",
     "2x3x5x6", true, 6},
    {"batching_dims = [1] x [0], contracting_dims = [0] x [1]", "20x3x9", "3x20x10", "3x9x10", true,
     3},
    {"contracting_dims = [2] x [0]", "4x20x33", "33x50", "4x20x50", true, 2},
    {"contracting_dims = [1, 2] x [0, 1]", "9x4x5", "4x5x8", "9x8", true, 1},
    {"contracting_dims = [0] x [0]", "50", "50x8", "8", true, 1},
    {"contracting_dims = [0] x [0]", "100", "100", "", true, 1},
    {"contracting_dims = [1] x [0]", "4x20x3", "20x50", "4x3x50", false, 0},
    {"contracting_dims = [1, 2] x [1, 0]", "9x4x5", "5x4x8", "9x8", false, 0},
};
#define N_CASES (sizeof CASES / sizeof *CASES)

static void type_text(const char *dims, char out[64])
{
    snprintf(out, 64, "tensor<%s%sf32>", dims, *dims ? "x" : "");
}

static struct program *program_of(size_t i)
{
    char text[1024], a[64], b[64], c[64];
    struct program *p;
    struct err e = {0};
    type_text(CASES[i].a, a);
    type_text(CASES[i].b, b);
    type_text(CASES[i].c, c);
    snprintf(text, sizeof text,
             "func.func public @main(%%a: %s, %%b: %s) -> %s {\n"
             "%%0 = stablehlo.dot_general %%a, %%b, %s : (%s, %s) -> %s\nreturn %%0 : %s\n}\n",
             a, b, c, CASES[i].dims, a, b, c, c);
    cr_assert_eq(program_read(text, strlen(text), &p, &e), 0, "%s: %s", text, e.text);
    return p;
}

/* Writes the kernel of case i, and run_i. */
static void write_case(FILE *f, size_t i, const struct tiled *t)
{
    struct writer text;
    writer_init(&text, 0);
    tiled_write(t, &text);
    cr_assert(!text.failed);
    fprintf(f, "extern \"C\" void kernel_%zu%.*s", i, (int)text.len, (const char *)text.data);
    fprintf(f,
            "extern \"C\" void run_%zu(void **values)\n{\nvoid *args[] = {&values[0], "
            "&values[1], &values[2]};\nlaunch<kernel_%zu>(%ld, %u, true, args);\n}\n",
            i, i, (long)tiled_blocks(t), TILED_THREADS);
    writer_close(&text);
}

static void run_case(size_t i, const struct program *p, void (*run)(void **))
{
    const int64_t n[] = {program_tensor(p, 0)->n, program_tensor(p, 1)->n, program_tensor(p, 2)->n};
    double *x[3];
    float *f[3];
    struct err e = {0};
    for (int k = 0; k < 3; k++) {
        x[k] = calloc((size_t)n[k], sizeof *x[k]);
        f[k] = calloc((size_t)n[k], sizeof *f[k]);
        for (int64_t j = 0; j < n[k]; j++) {
            f[k][j] = (float)((j * 7919 + k * 31) % 201 - 100) / 100;
            x[k][j] = (double)f[k][j];
        }
    }
    run((void *[]){f[0], f[1], f[2]});
    cr_assert_eq(eval_doubles(p, program_function(p, NULL), (const double *const[]){x[0], x[1]},
                              (double *const[]){x[2]}, &e),
                 0, "%s", e.text);
    for (int64_t j = 0; j < n[2]; j++)
        cr_assert(fabs((double)f[2][j] - x[2][j]) <= TOLERANCE * (1 + fabs(x[2][j])),
                  "case %zu, element %ld: %g, not %g", i, (long)j, (double)f[2][j], x[2][j]);
    for (int k = 0; k < 3; k++) {
        free(x[k]);
        free(f[k]);
    }
}

Test(tiled, products_of_every_layout_have_the_numbers_of_the_interpreter)
{
    struct for_cpu cpu = for_cpu_open();
    struct program *programs[N_CASES];
    for (size_t i = 0; i < N_CASES; i++) {
        struct tiled t;
        uint32_t origins[8];
        programs[i] = program_of(i);
        program_origins(programs[i], origins);
        bool taken = tiled_of(programs[i], origins, &programs[i]->ops.at[0], &t);
        cr_assert_eq(taken, CASES[i].taken, "case %zu", i);
        if (!taken)
            continue;
        cr_assert_eq(tiled_blocks(&t), CASES[i].blocks, "case %zu: %ld", i, (long)tiled_blocks(&t));
        write_case(cpu.f, i, &t);
    }
    for_cpu_compile(&cpu);
    for (size_t i = 0; i < N_CASES; i++) {
        if (CASES[i].taken)
            run_case(i, programs[i], for_cpu_run(&cpu, i));
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
    } SIZES[] = {{{.parts = 1, .batch = 1, .m = 512, .n = 512, .k = 512}, true},
                 {{.parts = 1, .batch = 1, .m = 128, .n = 16, .k = 16}, false},
                 {{.parts = 1, .batch = 1, .m = 256, .n = 256, .k = 4096}, false},
                 {{.parts = 1, .batch = 16, .m = 64, .n = 128, .k = 64}, true},
                 {{.parts = 1, .batch = 1, .m = 100000, .n = 8, .k = 64}, false},
                 {{.parts = 1, .batch = 1, .m = 1024, .n = 1024, .k = 16}, false}};
    for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES; i++)
        cr_assert_eq(tiled_pays(&SIZES[i].t), SIZES[i].pays, "%zu", i);
}
