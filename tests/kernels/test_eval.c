/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_eval.c - the reference interpreter against JAX: random graphs, multilayer perceptrons, loops and
 * whole numbers; and what it does with programs that do not end or need too much memory.
 */
#include "kernels/eval/eval.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/program/program.h"
#include "tests/kernels/jax_graphs.h"

#define TOLERANCE 1e-11 /* both sides compute with doubles, in another order */

Test(eval, results_are_those_of_jax)
{
    struct jax_graph *graphs;
    size_t n = jax_graphs_read(&graphs);
    cr_assert_geq(n, (size_t)100);
    for (size_t i = 0; i < n; i++) {
        const struct jax_graph *g = &graphs[i];
        struct program *p;
        struct err e = {0};
        double *out[JAX_TENSORS_MAX];
        cr_assert_eq(program_read(g->module, g->module_len, &p, &e), 0, "%s: line %u: %s", g->name,
                     e.line, e.text);
        jax_graph_run(g, p, out);
        const struct block *b = &p->blocks.at[p->functions.at[program_function(p, NULL)].block];
        cr_assert_eq(b->n_results, g->n_results, "%s", g->name);
        for (uint32_t k = 0; k < b->n_results; k++) {
            jax_expect(g->name, "result", k, out[k], &g->results[k],
                       program_tensor(p, p->operands.at[b->results + k])->n, TOLERANCE);
            free(out[k]);
        }
        program_free(p);
    }
}

/* Reads a module, runs it, and returns what eval_function returns. */
static int run(const char *module, const double *const *args, double *const *results)
{
    struct program *p;
    struct err e = {0};
    cr_assert_eq(program_read(module, strlen(module), &p, &e), 0, "line %u: %s", e.line, e.text);
    int rc = eval_doubles(p, program_function(p, NULL), args, results, &e);
    cr_expect_eq(rc, e.code);
    program_free(p);
    return rc;
}

Test(eval, whole_numbers_wrap_and_divide_as_xla_does)
{
    static const char MODULE[] =
        "func.func public @main(%x: tensor<4xi32>, %y: tensor<4xi32>, %f: tensor<4xf32>) -> "
        "(tensor<4xi32>, "
        "tensor<4xi32>, tensor<4xi32>, tensor<4xi32>) {\n"
        "%0 = stablehlo.divide %x, %y : tensor<4xi32>\n"
        "%1 = stablehlo.remainder %x, %y : tensor<4xi32>\n"
        "%2 = stablehlo.multiply %x, %x : tensor<4xi32>\n"
        "%3 = stablehlo.convert %f : (tensor<4xf32>) -> tensor<4xi32>\n"
        "return %0, %1, %2, %3 : tensor<4xi32>, tensor<4xi32>, tensor<4xi32>, tensor<4xi32>\n}\n";
    const double x[] = {7, -7, INT32_MIN, 65537}, y[] = {0, 2, -1, 0},
                 f[] = {NAN, 1e20, -1e20, -2.9};
    const double *args[] = {x, y, f};
    double out[4][4], *results[] = {out[0], out[1], out[2], out[3]};
    static const double WANT[4][4] = {{-1, -3, INT32_MIN, -1},
                                      {7, -1, 0, 65537},
                                      {49, 49, 0, 131073},
                                      {0, INT32_MAX, INT32_MIN, -2}};
    cr_assert_eq(run(MODULE, args, results), 0);
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 4; k++)
            cr_expect_eq(out[i][k], WANT[i][k], "%d %d: %g", i, k, out[i][k]);
}

Test(eval, nan_and_signs_of_zero_follow_ieee_754)
{
    static const char MODULE[] =
        "func.func public @main(%x: tensor<3xf32>, %y: tensor<3xf32>) -> (tensor<3xf32>, "
        "tensor<3xf32>, "
        "tensor<3xf32>, tensor<3xi1>) {\n"
        "%0 = stablehlo.maximum %x, %y : tensor<3xf32>\n"
        "%1 = stablehlo.minimum %x, %y : tensor<3xf32>\n"
        "%2 = stablehlo.sign %x : tensor<3xf32>\n"
        "%3 = stablehlo.compare NE, %x, %x, FLOAT : (tensor<3xf32>, tensor<3xf32>) -> "
        "tensor<3xi1>\n"
        "return %0, %1, %2, %3 : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xi1>\n}\n";
    const double x[] = {NAN, -0.0, 1}, y[] = {1, 0, NAN}, *args[] = {x, y};
    double out[4][3], *results[] = {out[0], out[1], out[2], out[3]};
    cr_assert_eq(run(MODULE, args, results), 0);
    cr_expect(isnan(out[0][0]) && isnan(out[0][2]) && isnan(out[1][0]) && isnan(out[1][2]));
    cr_expect(!signbit(out[0][1]) && signbit(out[1][1]));
    cr_expect(isnan(out[2][0]) && signbit(out[2][1]) && out[2][2] == 1);
    cr_expect(out[3][0] == 1 && out[3][1] == 0 && out[3][2] == 0);
}

Test(eval, tensors_without_elements_are_fine)
{
    static const char MODULE[] =
        "func.func public @main(%x: tensor<0x3xf32>) -> (tensor<3xf32>, tensor<2x2xf32>) {\n"
        "%z = stablehlo.constant dense<2.5> : tensor<f32>\n"
        "%0 = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [0] : "
        "(tensor<0x3xf32>, tensor<f32>) -> tensor<3xf32>\n"
        "%t = stablehlo.transpose %x, dims = [1, 0] : (tensor<0x3xf32>) -> tensor<3x0xf32>\n"
        "%s = stablehlo.slice %t [0:2, 0:0] : (tensor<3x0xf32>) -> tensor<2x0xf32>\n"
        "%1 = stablehlo.dot_general %s, %s, contracting_dims = [1] x [1] : (tensor<2x0xf32>, "
        "tensor<2x0xf32>) -> tensor<2x2xf32>\n"
        "return %0, %1 : tensor<3xf32>, tensor<2x2xf32>\n}\n";
    const double x[1] = {0}, *args[] = {x};
    double sums[3], products[4] = {1, 1, 1, 1}, *results[] = {sums, products};
    cr_assert_eq(run(MODULE, args, results), 0);
    for (int i = 0; i < 3; i++)
        cr_expect_eq(sums[i], 2.5);
    for (int i = 0; i < 4; i++)
        cr_expect_eq(products[i], 0);
}

Test(eval, endless_loops_and_large_tensors_are_errors)
{
    static const char ENDLESS[] =
        "func.func public @main(%x: tensor<i1>) -> tensor<i1> {\n"
        "%0 = stablehlo.while(%a = %x) : tensor<i1>\ncond {\n  stablehlo.return %a : tensor<i1>\n} "
        "do {\n"
        "  %1 = stablehlo.not %a : tensor<i1>\n  %2 = stablehlo.not %1 : tensor<i1>\n"
        "  stablehlo.return %2 : tensor<i1>\n}\nreturn %0 : tensor<i1>\n}\n";
    static const char LARGE[] =
        "func.func public @main(%x: tensor<i1>) -> tensor<i1> {\n"
        "%0 = stablehlo.iota dim = 0 : tensor<1000000x1000000xf32>\nreturn %x : tensor<i1>\n}\n";
    const double x[] = {1}, *args[] = {x};
    double out[1], *results[] = {out};
    cr_expect_eq(run(ENDLESS, args, results), WARM_ETIMEOUT);
    cr_expect_eq(run(LARGE, args, results), WARM_ETOO_BIG);
}

Test(eval, a_state_of_two_numbers_has_the_key_in_philox_s_counter)
{
    static const char MODULE[] =
        "func.func public @main(%two: tensor<2xui64>, %three: tensor<3xui64>) -> (tensor<2xui64>, "
        "tensor<5xui32>, tensor<3xui64>, tensor<5xui32>) {\n"
        "%s, %a = stablehlo.rng_bit_generator %two, algorithm = PHILOX : (tensor<2xui64>) -> "
        "(tensor<2xui64>, tensor<5xui32>)\n"
        "%t, %b = stablehlo.rng_bit_generator %three, algorithm = DEFAULT : (tensor<3xui64>) -> "
        "(tensor<3xui64>, tensor<5xui32>)\n"
        "return %s, %a, %t, %b : tensor<2xui64>, tensor<5xui32>, tensor<3xui64>, tensor<5xui32>\n"
        "}\n";
    struct program *p;
    struct err e = {0};
    const number two[] = {7, UINT64_MAX},
                 three[] = {7, UINT64_MAX, 7}, *const args[] = {two, three};
    number s[2], a[5], t[3], b[5], *const results[] = {s, a, t, b};
    cr_assert_eq(program_read(MODULE, sizeof MODULE - 1, &p, &e), 0, "%s", e.text);
    cr_assert_eq(eval_function(p, program_function(p, NULL), args, results, &e), 0, "%s", e.text);
    for (int i = 0; i < 5; i++)
        cr_expect_eq(a[i], b[i], "%d: %.0Lf, %.0Lf", i, a[i], b[i]);
    cr_expect(s[0] == 7 && s[1] == 1);
    cr_expect(t[0] == 7 && t[1] == 1 && t[2] == 8, "the counter carries");
    program_free(p);
}
