/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_vjp.c - derivatives: every rule against finite differences, whole graphs against jax.grad, the
 * derivative as text, and what has no derivative.
 */
#include "kernels/vjp/vjp.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/eval/eval.h"
#include "tests/kernels/jax_graphs.h"
#include "tests/kernels/print_program.h"

#define TOLERANCE 1e-8 /* of doubles against doubles; sums differ in order, and constants are f32 */
#define DIFFERENCE 1e-6    /* the step of finite differences */
#define DIFFERENCE_OK 2e-8 /* what they are good for, relative */

static const struct block *main_block(const struct program *p)
{
    uint32_t f = program_function(p, NULL);
    cr_assert_neq(f, PROGRAM_NONE);
    return &p->blocks.at[p->functions.at[f].block];
}

static int64_t elements(const struct program *p, uint32_t value)
{
    return program_tensor(p, value)->n;
}

static struct program *read_program(const char *name, const char *text, size_t len)
{
    struct program *p = NULL;
    struct err e = {0};
    cr_assert_eq(program_read(text, len, &p, &e), 0, "%s: line %u: %s", name, e.line, e.text);
    return p;
}

static struct program *derivative(const char *name, const struct program *p,
                                  const uint32_t *arguments, uint32_t n)
{
    struct program *d = NULL;
    struct err e = {0};
    cr_assert_eq(vjp_function(p, program_function(p, NULL), arguments, n, &d, &e), 0,
                 "%s: line %u: %s", name, e.line, e.text);
    return d;
}

/* Returns the derivative after it was written as StableHLO and read again. Frees the argument. */
static struct program *written_and_read(const char *name, struct program *d)
{
    struct writer text;
    writer_init(&text, 0);
    program_write(d, &text);
    program_free(d);
    d = read_program(name, (const char *)text.data, text.len);
    writer_close(&text);
    return d;
}

/* Runs the only function of p. Gives new arrays in out[i]. */
static void run(const char *name, const struct program *p, const double *const *args, double **out)
{
    const struct block *b = main_block(p);
    struct err e = {0};
    for (uint32_t i = 0; i < b->n_results; i++)
        out[i] = calloc((size_t)elements(p, p->operands.at[b->results + i]) + 1, sizeof **out);
    cr_assert_eq(eval_doubles(p, program_function(p, NULL), args, out, &e), 0, "%s: %s", name,
                 e.text);
}

/* ---- against JAX ---- */

static void gradients_agree(const struct jax_graph *g)
{
    struct program *p = read_program(g->name, g->module, g->module_len);
    uint32_t arguments[JAX_TENSORS_MAX], n_results = main_block(p)->n_results;
    for (uint32_t i = 0; i < g->n_args; i++)
        arguments[i] = i;
    struct program *d =
        written_and_read(g->name, derivative(g->name, p, arguments, (uint32_t)g->n_args));
    const struct block *b = main_block(d);
    const double *args[2 * JAX_TENSORS_MAX];
    double *cotangents[JAX_TENSORS_MAX], *out[2 * JAX_TENSORS_MAX];
    cr_assert_leq(b->n_args, g->n_args + JAX_TENSORS_MAX);
    for (size_t i = 0; i < b->n_args; i++) {
        if (i < g->n_args) {
            args[i] = g->args[i].at;
            continue;
        }
        double *c = cotangents[i - g->n_args] =
            calloc((size_t)elements(d, b->args + (uint32_t)i) + 1, sizeof *c);
        c[0] = i == g->n_args; /* of the loss, a scalar; 0 of all others */
        args[i] = c;
    }
    run(g->name, d, args, out);
    for (size_t i = 0; i < g->n_gradients; i++)
        jax_expect(g->name, "gradient", i, out[n_results + i], &g->gradients[i], g->args[i].n,
                   TOLERANCE);
    for (uint32_t i = 0; i < n_results; i++)
        jax_expect(g->name, "result", i, out[i], &g->results[i], g->results[i].n, TOLERANCE);
    for (uint32_t i = 0; i < b->n_results; i++)
        free(out[i]);
    for (size_t i = g->n_args; i < b->n_args; i++)
        free(cotangents[i - g->n_args]);
    program_free(d);
    program_free(p);
}

Test(vjp, gradients_are_those_of_jax)
{
    struct jax_graph *graphs;
    size_t n = jax_graphs_read(&graphs), n_done = 0;
    for (size_t i = 0; i < n; i++) {
        if (graphs[i].n_gradients) {
            gradients_agree(&graphs[i]);
            n_done++;
        }
    }
    cr_expect_geq(n_done, (size_t)150);
}

/* ---- against finite differences ---- */

#define A "tensor<3x4xf64>"
#define S "tensor<f64>"
#define UNARY(op)                                                                                  \
    {                                                                                              \
        op, "%0 = stablehlo." op " %x : " A "\n", A                                                \
    }
#define CHLO(op)                                                                                   \
    {                                                                                              \
        "chlo." op,                                                                                \
            "%h = stablehlo.constant dense<0.5> : " A "\n%a = stablehlo.multiply %x, %h : " A      \
            "\n%0 = chlo." op " %a : " A " -> " A "\n",                                            \
            A                                                                                      \
    }
#define BINARY(op)                                                                                 \
    {                                                                                              \
        op, "%0 = stablehlo." op " %x, %z : " A "\n", A                                            \
    }
#define REDUCE(op, init)                                                                           \
    {                                                                                              \
        "reduce " op,                                                                              \
            "%i = stablehlo.constant dense<" init "> : " S "\n"                                    \
            "%0 = stablehlo.reduce(%x init: %i) applies stablehlo." op                             \
            " across dimensions = [1] : (" A ", " S ") -> tensor<3xf64>\n",                        \
            "tensor<3xf64>"                                                                        \
    }

#define INDICES "%n = stablehlo.constant dense<[[1], [0], [1], [7]]> : tensor<4x1xi32>\n"
#define NUMBERS                                                                                    \
    "scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], "                    \
    "inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>"
#define SCATTER(op, unique)                                                                        \
    {                                                                                              \
        "scatter " op,                                                                             \
            "%n = stablehlo.constant dense<[[2], [0], [9]]> : tensor<3x1xi32>\n"                   \
            "%0 = \"stablehlo.scatter\"(%x, %n, %z) <{" NUMBERS ", unique_indices = " unique       \
            "}> ({\n^bb0(%a: " S ", %b: " S "):\n  %c = stablehlo." op " %a, %b : " S              \
            "\n  stablehlo.return %c : " S "\n}) : (" A ", tensor<3x1xi32>, " A ") -> " A "\n",    \
            A                                                                                      \
    }
#define WINDOWS(op, init)                                                                          \
    {                                                                                              \
        "reduce_window " op,                                                                       \
            "%i = stablehlo.constant dense<" init "> : " S                                         \
            "\n%0 = \"stablehlo.reduce_window\"(%x, %i) <{window_dimensions = array<i64: 2, 3>, "  \
            "window_strides = array<i64: 1, 2>, padding = dense<[[0, 1], [1, 0]]> : "              \
            "tensor<2x2xi64>}> ({\n^bb0(%a: " S ", %b: " S "):\n  %c = stablehlo." op              \
            " %a, %b : " S "\n  stablehlo.return %c : " S "\n}) : (" A ", " S                      \
            ") -> tensor<3x2xf64>\n",                                                              \
            "tensor<3x2xf64>"                                                                      \
    }

/* Functions of x and z, 3x4, positive and without ties; of s, a scalar; and of k, an i32 of 1. */
static const struct {
    const char *name, *body, *result;
} RULES[] = {
    UNARY("abs"),
    UNARY("negate"),
    UNARY("sign"),
    UNARY("exponential"),
    UNARY("exponential_minus_one"),
    UNARY("log"),
    UNARY("log_plus_one"),
    UNARY("logistic"),
    UNARY("tanh"),
    UNARY("sqrt"),
    UNARY("rsqrt"),
    UNARY("sine"),
    UNARY("cosine"),
    UNARY("tan"),
    UNARY("cbrt"),
    UNARY("round_nearest_afz"),
    UNARY("round_nearest_even"),
    CHLO("erf"),
    CHLO("erfc"),
    CHLO("erf_inv"),
    CHLO("lgamma"),
    CHLO("digamma"),
    CHLO("sinh"),
    CHLO("cosh"),
    CHLO("asin"),
    CHLO("acos"),
    CHLO("atan"),
    CHLO("asinh"),
    CHLO("atanh"),
    {"chlo.acosh",
     "%h = stablehlo.constant dense<1.5> : " A "\n%a = stablehlo.add %x, %h : " A
     "\n%0 = chlo.acosh %a : " A " -> " A "\n",
     A},
    BINARY("atan2"),
    UNARY("floor"),
    UNARY("ceil"),
    BINARY("add"),
    BINARY("subtract"),
    BINARY("multiply"),
    BINARY("divide"),
    BINARY("remainder"),
    BINARY("power"),
    BINARY("maximum"),
    BINARY("minimum"),
    REDUCE("add", "0.5"),
    REDUCE("maximum", "0xFFF0000000000000"),
    REDUCE("minimum", "0.75"),
    REDUCE("multiply", "1.5"),
    {"reduce add, its initial value",
     "%0 = stablehlo.reduce(%x init: %s) applies stablehlo.add across dimensions = [0] : (" A ", " S
     ") -> tensor<4xf64>\n",
     "tensor<4xf64>"},
    {"reduce multiply, one factor is 0",
     "%i = stablehlo.constant dense<2.0> : " S
     "\n%c = stablehlo.constant dense<[[0.0, 1.0, 2.0, 1.0], [0.0, 0.0, "
     "1.0, 1.0], [1.0, 1.0, 1.0, 3.0]]> : " A "\n%m = stablehlo.multiply %x, %c : " A
     "\n%0 = stablehlo.reduce(%m init: %i) applies stablehlo.multiply across dimensions = [1] : (" A
     ", " S ") -> tensor<3xf64>\n",
     "tensor<3xf64>"},
    {"select",
     "%c = stablehlo.compare LT, %x, %z, FLOAT : (" A ", " A ") -> tensor<3x4xi1>\n"
     "%0 = stablehlo.select %c, %x, %z : tensor<3x4xi1>, " A "\n",
     A},
    {"clamp",
     "%b = stablehlo.broadcast_in_dim %s, dims = [] : (" S ") -> " A
     "\n%h = stablehlo.add %z, %b : " A "\n"
     "%0 = stablehlo.clamp %s, %x, %h : (" S ", " A ", " A ") -> " A "\n",
     A},
    {"clamp, scalar above",
     "%c = stablehlo.constant dense<0.5> : " A "\n%l = stablehlo.multiply %z, %c : " A "\n"
     "%0 = stablehlo.clamp %l, %x, %s : (" A ", " A ", " S ") -> " A "\n",
     A},
    {"convert",
     "%c = stablehlo.convert %x : (" A ") -> tensor<3x4xf32>\n"
     "%0 = stablehlo.convert %c : (tensor<3x4xf32>) -> " A "\n",
     A},
    {"broadcast of a scalar", "%0 = stablehlo.broadcast_in_dim %s, dims = [] : (" S ") -> " A "\n",
     A},
    {"broadcast with another order",
     "%0 = stablehlo.broadcast_in_dim %x, dims = [2, 0] : (" A ") -> tensor<4x2x3xf64>\n",
     "tensor<4x2x3xf64>"},
    {"broadcast of dimensions of 1",
     "%r = stablehlo.reshape %x : (" A ") -> tensor<1x12x1xf64>\n"
     "%0 = stablehlo.broadcast_in_dim %r, dims = [3, 1, 0] : (tensor<1x12x1xf64>) -> "
     "tensor<1x12x2x5xf64>\n",
     "tensor<1x12x2x5xf64>"},
    {"reshape", "%0 = stablehlo.reshape %x : (" A ") -> tensor<2x6xf64>\n", "tensor<2x6xf64>"},
    {"transpose",
     "%r = stablehlo.reshape %x : (" A ") -> tensor<2x3x2xf64>\n"
     "%0 = stablehlo.transpose %r, dims = [2, 0, 1] : (tensor<2x3x2xf64>) -> tensor<2x2x3xf64>\n",
     "tensor<2x2x3xf64>"},
    {"slice", "%0 = stablehlo.slice %x [1:3, 0:4:3] : (" A ") -> tensor<2x2xf64>\n",
     "tensor<2x2xf64>"},
    {"pad",
     "%0 = stablehlo.pad %x, %s, low = [1, -1], high = [-2, 2], interior = [1, 0] : (" A ", " S
     ") -> tensor<4x5xf64>\n",
     "tensor<4x5xf64>"},
    {"concatenate",
     "%0 = stablehlo.concatenate %x, %z, %x, dim = 0 : (" A ", " A ", " A ") -> tensor<9x4xf64>\n",
     "tensor<9x4xf64>"},
    {"dynamic_slice",
     "%0 = stablehlo.dynamic_slice %x, %k, %k, sizes = [2, 2] : (" A
     ", tensor<i32>, tensor<i32>) -> tensor<2x2xf64>\n",
     "tensor<2x2xf64>"},
    {"dynamic_update_slice",
     "%u = stablehlo.slice %z [0:2, 0:3] : (" A ") -> tensor<2x3xf64>\n"
     "%0 = stablehlo.dynamic_update_slice %x, %u, %k, %k : (" A
     ", tensor<2x3xf64>, tensor<i32>, tensor<i32>) -> " A "\n",
     A},
    {"dot_general",
     "%0 = stablehlo.dot_general %x, %z, contracting_dims = [1] x [1] : (" A ", " A
     ") -> tensor<3x3xf64>\n",
     "tensor<3x3xf64>"},
    {"dot_general with batches",
     "%a = stablehlo.reshape %x : (" A ") -> tensor<2x3x2xf64>\n%b = stablehlo.reshape %z : (" A
     ") -> tensor<3x2x2xf64>\n"
     "%0 = stablehlo.dot_general %a, %b, batching_dims = [2] x [1], contracting_dims = [1] x [0] : "
     "(tensor<2x3x2xf64>, tensor<3x2x2xf64>) -> tensor<2x2x2xf64>\n",
     "tensor<2x2x2xf64>"},
    {"dot_general over two dimensions in another order",
     "%t = stablehlo.transpose %z, dims = [1, 0] : (" A ") -> tensor<4x3xf64>\n"
     "%0 = stablehlo.dot_general %x, %t, contracting_dims = [1, 0] x [0, 1] : (" A
     ", tensor<4x3xf64>) -> " S "\n",
     S},
    {"dot_general without contraction",
     "%a = stablehlo.slice %x [0:1, 0:4] : (" A ") -> tensor<1x4xf64>\n"
     "%0 = stablehlo.dot_general %a, %z, contracting_dims = [] x [] : (tensor<1x4xf64>, " A
     ") -> tensor<1x4x3x4xf64>\n",
     "tensor<1x4x3x4xf64>"},
    {"reverse", "%0 = stablehlo.reverse %x, dims = [1, 0] : " A "\n", A},
    {"gather",
     INDICES
     "%0 = \"stablehlo.gather\"(%x, %n) <{dimension_numbers = "
     "#stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], "
     "index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>}> : (" A ", tensor<4x1xi32>) -> "
     "tensor<4x4xf64>\n",
     "tensor<4x4xf64>"},
    SCATTER("add", "false"),
    SCATTER("maximum", "false"),
    SCATTER("minimum", "false"),
    SCATTER("multiply", "true"),
    {"scatter of assignments",
     INDICES "%u = stablehlo.transpose %z, dims = [1, 0] : (" A ") -> tensor<4x3xf64>\n"
             "%y = stablehlo.transpose %x, dims = [1, 0] : (" A ") -> tensor<4x3xf64>\n"
             "%0 = \"stablehlo.scatter\"(%y, %n, %u) <{" NUMBERS ", unique_indices = false}> ({\n"
             "^bb0(%a: " S ", %b: " S "):\n  stablehlo.return %b : " S "\n}) : (tensor<4x3xf64>, "
             "tensor<4x1xi32>, tensor<4x3xf64>) -> tensor<4x3xf64>\n",
     "tensor<4x3xf64>"},
    {"sort",
     "%0 = \"stablehlo.sort\"(%x) <{dimension = 1 : i64, is_stable = true}> ({\n^bb0(%a: " S
     ", %b: " S "):\n  %c = stablehlo.compare LT, %a, %b, TOTALORDER : (" S ", " S
     ") -> tensor<i1>\n  stablehlo.return %c : tensor<i1>\n}) : (" A ") -> " A "\n",
     A},
    {"top_k", "%0, %i = chlo.top_k(%x, k = 2) : " A " -> (tensor<3x2xf64>, tensor<3x2xi32>)\n",
     "tensor<3x2xf64>"},
    {"convolution",
     "%a = stablehlo.reshape %x : (" A ") -> tensor<1x1x12xf64>\n"
     "%b = stablehlo.reshape %z : (" A ") -> tensor<4x1x3xf64>\n"
     "%0 = stablehlo.convolution(%a, %b) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], window = "
     "{stride = [2], pad = [[1, 2]], lhs_dilate = [1], rhs_dilate = [2]} {batch_group_count = 1 : "
     "i64, feature_group_count = 1 : i64} : (tensor<1x1x12xf64>, tensor<4x1x3xf64>) -> "
     "tensor<1x4x6xf64>\n",
     "tensor<1x4x6xf64>"},
    WINDOWS("add", "0.0"),
    WINDOWS("maximum", "0xFFF0000000000000"),
    WINDOWS("multiply", "1.0"),
    {"case",
     "%0 = \"stablehlo.case\"(%k) ({\n  stablehlo.return %x : " A "\n}, {\n  %a = "
     "stablehlo.multiply %x, %z : " A "\n  stablehlo.return %a : " A "\n}) : (tensor<i32>) -> " A
     "\n",
     A},
    {"while",
     "%c = stablehlo.constant dense<3> : tensor<i32>\n%o = stablehlo.constant dense<1> : "
     "tensor<i32>\n%p = stablehlo.constant dense<0> : tensor<i32>\n"
     "%l:2 = stablehlo.while(%h = %x, %i = %p) : " A ", tensor<i32>\ncond {\n  %q = "
     "stablehlo.compare LT, %i, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>\n  "
     "stablehlo.return %q : tensor<i1>\n} do {\n  %a = stablehlo.multiply %h, %z : " A
     "\n  %b = stablehlo.sine %a : " A "\n  %j = stablehlo.add %i, %o : tensor<i32>\n  "
     "stablehlo.return %b, %j : " A ", tensor<i32>\n}\n%0 = stablehlo.add %l#0, %x : " A "\n",
     A},
    {"a value used three times",
     "%a = stablehlo.multiply %x, %x : " A "\n%0 = stablehlo.multiply %a, %x : " A "\n", A},
};

enum { N_X = 12, N_ARGS = 4 };

/* Returns numbers between 0 and 1 that look random. */
static double evenly(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (double)(*state >> 8) / 16777216.0;
}

/* Compares the derivative along a direction with the difference of two runs. */
static void rule_holds(const char *name, const struct program *p, const struct program *d)
{
    const struct block *b = main_block(p);
    int64_t n = elements(p, p->operands.at[b->results]);
    double at[N_ARGS][N_X], along[3][N_X], moved[3][N_X], *c = malloc((size_t)n * sizeof *c);
    double *up[1], *down[1], *out[4], by_rule = 0, by_difference = 0, size = 1;
    const double *moved_args[] = {moved[0], moved[1], moved[2], at[3]},
                 *args[] = {at[0], at[1], at[2], at[3], c};
    uint32_t state = 7;
    at[3][0] = 1;
    for (int64_t i = 0; i < n; i++)
        c[i] = evenly(&state) - 0.5;
    for (int a = 0; a < 3; a++)
        for (int i = 0; i < N_X; i++) {
            at[a][i] = a == 2 ? 0.7 : 0.3 + evenly(&state);
            along[a][i] = evenly(&state) - 0.5;
            moved[a][i] = at[a][i] + DIFFERENCE * along[a][i];
        }
    run(name, p, moved_args, up);
    for (int a = 0; a < 3; a++)
        for (int i = 0; i < N_X; i++)
            moved[a][i] = at[a][i] - DIFFERENCE * along[a][i];
    run(name, p, moved_args, down);
    run(name, d, args, out);
    for (int64_t i = 0; i < n; i++)
        by_difference += c[i] * (up[0][i] - down[0][i]) / (2 * DIFFERENCE);
    for (int a = 0; a < 3; a++)
        for (int i = 0; i < (a == 2 ? 1 : N_X); i++) {
            by_rule += out[1 + a][i] * along[a][i];
            size += fabs(out[1 + a][i]);
        }
    cr_expect_leq(fabs(by_rule - by_difference), DIFFERENCE_OK * size,
                  "%s: %.12g by the rule, %.12g by differences", name, by_rule, by_difference);
    free(c);
    free(up[0]);
    free(down[0]);
    for (int i = 0; i < 4; i++)
        free(out[i]);
}

static struct program *program_of(const char *name, const char *body, const char *result)
{
    char text[4096];
    snprintf(text, sizeof text,
             "func.func public @main(%%x: " A ", %%z: " A ", %%s: " S
             ", %%k: tensor<i32>) -> %s {\n%sreturn %%0 : %s\n}\n",
             result, body, result);
    return read_program(name, text, strlen(text));
}

Test(vjp, every_rule_agrees_with_finite_differences)
{
    static const uint32_t ARGUMENTS[] = {0, 1, 2};
    for (size_t i = 0; i < sizeof RULES / sizeof *RULES; i++) {
        struct program *p = program_of(RULES[i].name, RULES[i].body, RULES[i].result);
        struct program *d =
            written_and_read(RULES[i].name, derivative(RULES[i].name, p, ARGUMENTS, 3));
        rule_holds(RULES[i].name, p, d);
        program_free(d);
        program_free(p);
    }
}

/* Operations whose results are no floating-point numbers, or have no derivative; and those of other files' making. */
static const enum op WITHOUT[] = {OP_POPCNT,      OP_CLZ,       OP_NOT,        OP_AND,
                                  OP_OR,          OP_XOR,       OP_SHIFT_LEFT, OP_SHIFT_RIGHT,
                                  OP_SHIFT_SIGN,  OP_IS_FINITE, OP_BITCAST,    OP_CHAIN,
                                  OP_REDUCE_MANY, OP_UNWINDOW,  OP_CALL};

Test(vjp, every_operation_with_a_derivative_is_tried)
{
    bool seen[OP_N] = {false};
    for (size_t i = 0; i < sizeof WITHOUT / sizeof *WITHOUT; i++)
        seen[WITHOUT[i]] = true;
    for (size_t i = 0; i < sizeof RULES / sizeof *RULES; i++) {
        struct program *p = program_of(RULES[i].name, RULES[i].body, RULES[i].result);
        for (uint32_t k = 0; k < p->ops.n; k++)
            seen[p->ops.at[k].op] = true;
        program_free(p);
    }
    for (int i = 0; i < OP_N; i++)
        cr_expect(seen[i], "%s", program_op_name((enum op)i));
}

/* ---- conventions and refusals ---- */

Test(vjp, equal_operands_share_the_gradient)
{
    static const uint32_t ARGUMENTS[] = {0, 1};
    struct program *p = program_of("tie", "%0 = stablehlo.maximum %x, %z : " A "\n", A);
    struct program *d = derivative("tie", p, ARGUMENTS, 2);
    double x[N_X] = {0}, s[1] = {0}, k[1] = {0}, c[N_X], *out[3];
    const double *args[] = {x, x, s, k, c};
    for (int i = 0; i < N_X; i++)
        c[i] = i;
    run("tie", d, args, out);
    for (int i = 0; i < N_X; i++)
        cr_expect(out[1][i] == 0.5 * i && out[2][i] == 0.5 * i);
    for (int i = 0; i < 3; i++)
        free(out[i]);
    program_free(d);
    program_free(p);
}

Test(vjp, refusals_say_why)
{
    static const struct {
        const char *body;
        uint32_t argument;
        int code;
        const char *says;
        unsigned line;
    } CASES[] = {
        {"%0 = stablehlo.add %x, %z : " A "\n", 3, WARM_EINVALID,
         "argument 3 is not of floating-point numbers", 0},
        {"%0 = stablehlo.add %x, %z : " A "\n", 4, WARM_EINVALID, "argument 4: there are 4", 0},
        {"%0 = stablehlo.while(%a = %x) : " A
         "\ncond {\n  %f = stablehlo.constant dense<false> : tensor<i1>\n"
         "  stablehlo.return %f : tensor<i1>\n} do {\n  %t = stablehlo.tanh %a : " A
         "\n  stablehlo.return %t : " A "\n}\n",
         0, WARM_EUNSUPPORTED, "while: the number of trips is not known", 2},
        {"%r = stablehlo.reduce(%x init: %s) applies stablehlo.maximum across dimensions = [0, 1] "
         ": (" A ", " S ") -> " S "\n%0 = stablehlo.broadcast_in_dim %r, dims = [] : (" S ") -> " A
         "\n",
         2, WARM_EUNSUPPORTED, "reduce: the gradient of an initial value", 2},
        {"%n = stablehlo.constant dense<[[2], [2], [1]]> : tensor<3x1xi32>\n"
         "%0 = \"stablehlo.scatter\"(%x, %n, %z) <{" NUMBERS
         ", unique_indices = false}> ({\n^bb0(%a: " S ", %b: " S "):\n  %c = stablehlo.multiply "
         "%a, %b : " S "\n  stablehlo.return %c : " S "\n}) : (" A ", tensor<3x1xi32>, " A ") -> " A
         "\n",
         1, WARM_EUNSUPPORTED, "scatter that multiplies", 3},
        {"%n = stablehlo.iota dim = 1 : tensor<3x4xi32>\n%i = stablehlo.constant dense<0> : "
         "tensor<i32>\n%l = stablehlo.constant dense<0xFFF0000000000000> : " S
         "\n%r:2 = stablehlo.reduce(%x init: %l), (%n init: %i) across dimensions = [1] : (" A
         ", tensor<3x4xi32>, " S ", tensor<i32>) -> (tensor<3xf64>, tensor<3xi32>)\n"
         "reducer(%a: " S ", %b: " S ") (%c: tensor<i32>, %d: tensor<i32>) {\n"
         "  %g = stablehlo.compare GE, %a, %b : (" S ", " S ") -> tensor<i1>\n"
         "  %v = stablehlo.select %g, %a, %b : tensor<i1>, " S
         "\n  %w = stablehlo.select %g, %c, %d : tensor<i1>, tensor<i32>\n"
         "  stablehlo.return %v, %w : " S ", tensor<i32>\n}\n"
         "%0 = stablehlo.broadcast_in_dim %r#0, dims = [0] : (tensor<3xf64>) -> " A "\n",
         0, WARM_EUNSUPPORTED, "reduce of several tensors", 5},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct program *p = program_of("refused", CASES[i].body, A), *d = NULL;
        struct err e = {0};
        cr_expect_eq(vjp_function(p, 0, &CASES[i].argument, 1, &d, &e), CASES[i].code, "%zu: %s", i,
                     e.text);
        cr_expect_not_null(strstr(e.text, CASES[i].says), "%zu: %s", i, e.text);
        cr_expect_eq(e.line, CASES[i].line, "%zu: line %u", i, e.line);
        cr_expect_null(d);
        program_free(p);
    }
}

Test(vjp, calls_are_written_out_once_for_each_call)
{
    static const char MODULE[] =
        "func.func public @main(%x: tensor<f32>) -> tensor<f32> {\n"
        "%0 = func.call @f(%x) : (tensor<f32>) -> tensor<f32>\n%1 = func.call @f(%0) : "
        "(tensor<f32>) -> tensor<f32>\n"
        "return %1 : tensor<f32>\n}\nfunc.func private @f(%x: tensor<f32>) -> tensor<f32> {\n"
        "%0 = stablehlo.multiply %x, %x : tensor<f32>\nreturn %0 : tensor<f32>\n}\n";
    static const uint32_t FIRST[] = {0};
    struct program *p = read_program("calls", MODULE, strlen(MODULE)),
                   *d = derivative("calls", p, FIRST, 1);
    const double x[] = {3}, c[] = {1}, *args[] = {x, c};
    double *out[2];
    run("calls", d, args, out);
    cr_expect_eq(*out[0], 81);
    cr_expect_eq(*out[1], 4 * 27);
    free(out[0]);
    free(out[1]);
    program_free(d);
    program_free(p);
}

/* The inner loop's bound is a value that the outer loop carries without a change. So the flat form alone shows
 * that it makes no trip. */
Test(vjp, a_loop_without_a_trip_passes_gradients_on)
{
    static const char MODULE[] =
        "func.func public @main(%x: tensor<f32>) -> tensor<f32> {\n"
        "%zero = stablehlo.constant dense<0> : tensor<i32>\n"
        "%two = stablehlo.constant dense<2> : tensor<i32>\n"
        "%one = stablehlo.constant dense<1> : tensor<i32>\n"
        "%0:3 = stablehlo.while(%i = %zero, %n = %zero, %h = %x) : tensor<i32>, tensor<i32>, "
        "tensor<f32>\ncond {\n%c = stablehlo.compare LT, %i, %two, SIGNED : (tensor<i32>, "
        "tensor<i32>) -> tensor<i1>\nstablehlo.return %c : tensor<i1>\n} do {\n"
        "%w:2 = stablehlo.while(%j = %zero, %g = %h) : tensor<i32>, tensor<f32>\n"
        "cond {\n%d = stablehlo.compare LT, %j, %n, SIGNED : (tensor<i32>, tensor<i32>) -> "
        "tensor<i1>\nstablehlo.return %d : tensor<i1>\n} do {\n"
        "%t = stablehlo.tanh %g : tensor<f32>\n%k = stablehlo.add %j, %one : tensor<i32>\n"
        "stablehlo.return %k, %t : tensor<i32>, tensor<f32>\n}\n"
        "%m = stablehlo.multiply %w#1, %w#1 : tensor<f32>\n"
        "%l = stablehlo.add %i, %one : tensor<i32>\n"
        "stablehlo.return %l, %n, %m : tensor<i32>, tensor<i32>, tensor<f32>\n}\n"
        "return %0#2 : tensor<f32>\n}\n";
    static const uint32_t FIRST[] = {0};
    struct program *p = read_program("no trip", MODULE, strlen(MODULE)),
                   *d = derivative("no trip", p, FIRST, 1);
    const double x[] = {3}, c[] = {1}, *args[] = {x, c};
    double *out[2];
    run("no trip", d, args, out);
    cr_expect_eq(*out[0], 81);
    cr_expect_eq(*out[1], 4 * 27);
    free(out[0]);
    free(out[1]);
    program_free(d);
    program_free(p);
}

/* Returns the products in the derivative of a loop of three trips of h·w, h being [rows][columns]. */
static uint32_t n_products(int rows, int columns)
{
    char text[2048];
    static const uint32_t BOTH[] = {0, 1};
    uint32_t n = 0;
    snprintf(text, sizeof text,
             "!h = tensor<%dx%dxf32>\n!w = tensor<%dx%dxf32>\n"
             "func.func public @main(%%x: !h, %%w: !w) -> !h {\n"
             "%%c = stablehlo.constant dense<0> : tensor<i32>\n"
             "%%n = stablehlo.constant dense<3> : tensor<i32>\n"
             "%%s = stablehlo.constant dense<1> : tensor<i32>\n"
             "%%0:2 = stablehlo.while(%%i = %%c, %%h = %%x) : tensor<i32>, !h\n"
             "cond {\n%%q = stablehlo.compare LT, %%i, %%n, SIGNED : (tensor<i32>, tensor<i32>) -> "
             "tensor<i1>\nstablehlo.return %%q : tensor<i1>\n} do {\n"
             "%%d = stablehlo.dot_general %%h, %%w, contracting_dims = [1] x [0] : (!h, !w) -> !h\n"
             "%%t = stablehlo.tanh %%d : !h\n%%j = stablehlo.add %%i, %%s : tensor<i32>\n"
             "stablehlo.return %%j, %%t : tensor<i32>, !h\n}\nreturn %%0#1 : !h\n}\n",
             rows, columns, columns, columns);
    struct program *p = read_program("products", text, strlen(text)),
                   *d = derivative("products", p, BOTH, 2);
    for (uint32_t i = 0; i < d->ops.n; i++)
        n += d->ops.at[i].op == OP_DOT;
    program_free(d);
    program_free(p);
    return n;
}

/* Of a product of few rows reading it costs less than reading all weights again; of many rows and few columns
 * its operands are no larger than itself. */
Test(vjp, a_loop_keeps_what_costs_less_to_read)
{
    cr_expect_eq(n_products(2, 24), 3u); /* forward, and to both operands */
    cr_expect_eq(n_products(64, 4), 4u); /* and once more on the way back */
}
