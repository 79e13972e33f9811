/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_graph_limits.c - graphs that are hostile or strange: each is compiled in little memory and time, or
 * refused in one line. test_program.c has those that the reader refuses.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/bundle/graph_bundle.h"
#include "kernels/eval/eval.h"
#include "kernels/vjp/vjp.h"
#include "tests/kernels/jax_graphs.h"

static struct program *read_text(const char *text)
{
    struct program *p = NULL;
    struct err e = {0};
    cr_assert_eq(program_read(text, strlen(text), &p, &e), 0, "%s\n%s", e.text, text);
    return p;
}

/* Compiles a function as far as its plan. Returns the code of the error. */
static int planned(const struct program *p, struct graph_bundle *out, struct err *e)
{
    struct codegen code;
    *out = (struct graph_bundle){.n_arguments = 0};
    int rc = codegen_function(p, 0, &code, e);
    if (rc == 0)
        rc = graph_bundle_plan(&code, out, e);
    codegen_free(&code);
    return rc;
}

/* Compiles a module, forward and with the gradient of argument 0. Expects these codes. */
static void compiles(const char *text, int forward, int back, const char *says)
{
    static const uint32_t FIRST[] = {0};
    struct program *p = read_text(text), *f = NULL, *d = NULL;
    struct graph_bundle b = {.n_arguments = 0};
    struct err e = {0};
    int rc = program_flatten(p, program_function(p, NULL), &f, &e);
    if (rc == 0)
        rc = planned(f, &b, &e);
    cr_expect_eq(rc, forward, "%d %s\n%s", rc, e.text, text);
    cr_expect(!forward || strstr(e.text, says), "%s", e.text);
    graph_bundle_close(&b);
    b = (struct graph_bundle){.n_arguments = 0};
    rc = vjp_function(p, program_function(p, NULL), FIRST, 1, &d, &e);
    if (rc == 0)
        rc = planned(d, &b, &e);
    cr_expect_eq(rc, back, "gradient: %d %s\n%s", rc, e.text, text);
    cr_expect(!back || strstr(e.text, says), "%s", e.text);
    graph_bundle_close(&b);
    program_free(f);
    program_free(d);
    program_free(p);
}

#define MAIN(arguments, results, body)                                                             \
    "func.func public @main(" arguments ") -> " results " {\n" body "}\n"

Test(graph_limits, tensors_without_elements_and_scalars_compile)
{
    compiles(MAIN("%x: tensor<0x3xf32>", "tensor<0x3xf32>",
                  "%0 = stablehlo.tanh %x : tensor<0x3xf32>\nreturn %0 : tensor<0x3xf32>\n"),
             0, 0, "");
    compiles(
        MAIN("%x: tensor<0x3xf32>", "tensor<3xf32>",
             "%c = stablehlo.constant dense<2.0> : tensor<f32>\n"
             "%0 = stablehlo.reduce(%x init: %c) applies stablehlo.add across dimensions = [0] "
             ": (tensor<0x3xf32>, tensor<f32>) -> tensor<3xf32>\nreturn %0 : tensor<3xf32>\n"),
        0, 0, "");
    compiles(MAIN("%x: tensor<4x0xf32>", "tensor<4x4xf32>",
                  "%0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [1] : "
                  "(tensor<4x0xf32>, tensor<4x0xf32>) -> tensor<4x4xf32>\n"
                  "return %0 : tensor<4x4xf32>\n"),
             0, 0, "");
    compiles(MAIN("%x: tensor<f32>", "tensor<f32>",
                  "%0 = stablehlo.multiply %x, %x : tensor<f32>\nreturn %0 : tensor<f32>\n"),
             0, 0, "");
    compiles(MAIN("%x: tensor<f32>", "tensor<f32>", "return %x : tensor<f32>\n"), 0, 0, "");
}

/* No element of the joined tensor is read, so it is none of the operands' elements. */
Test(graph_limits, joined_tensors_without_elements_compile)
{
    compiles(MAIN("%x: tensor<0xf32>", "tensor<f32>",
                  "%c = stablehlo.constant dense<2.0> : tensor<f32>\n"
                  "%j = stablehlo.concatenate %x, %x, dim = 0 : (tensor<0xf32>, tensor<0xf32>) -> "
                  "tensor<0xf32>\n%t = stablehlo.tanh %j : tensor<0xf32>\n"
                  "%0 = stablehlo.reduce(%t init: %c) applies stablehlo.add across dimensions = "
                  "[0] : (tensor<0xf32>, tensor<f32>) -> tensor<f32>\nreturn %0 : tensor<f32>\n"),
             0, 0, "");
}

/* Of one element a slice of any stride is the same. */
Test(graph_limits, a_slice_of_one_element_may_have_any_stride)
{
    compiles(MAIN("%x: tensor<4x4xf32>", "tensor<1x1xf32>",
                  "%0 = stablehlo.slice %x [0:1:9223372036854775807, 3:4:9223372036854775807] : "
                  "(tensor<4x4xf32>) -> tensor<1x1xf32>\nreturn %0 : tensor<1x1xf32>\n"),
             0, 0, "");
}

/* A constant of 10 GB that is one number over and over takes four bytes here. */
Test(graph_limits, large_constants_take_no_memory)
{
    compiles(MAIN("%x: tensor<2500000000xf32>", "tensor<2500000000xf32>",
                  "%c = stablehlo.constant dense<0x7F800000> : tensor<2500000000xf32>\n"
                  "%0 = stablehlo.add %x, %c : tensor<2500000000xf32>\n"
                  "return %0 : tensor<2500000000xf32>\n"),
             0, 0, "");
    compiles(MAIN("%x: tensor<1099511627776xf32>", "tensor<1099511627776xf32>",
                  "%0 = stablehlo.tanh %x : tensor<1099511627776xf32>\n"
                  "return %0 : tensor<1099511627776xf32>\n"),
             WARM_ETOO_BIG, WARM_ETOO_BIG, "a tensor of more than 2^39 elements");
}

Test(graph_limits, numbers_that_are_not_finite_are_kept)
{
    struct program *p = read_text(
        MAIN("%x: tensor<3xf32>", "tensor<3xf32>",
             "%c = stablehlo.constant dense<[0x7F800000, 0xFF800000, 0x7FC00000]> : tensor<3xf32>\n"
             "%0 = stablehlo.add %x, %c : tensor<3xf32>\nreturn %0 : tensor<3xf32>\n"));
    double x[3] = {1, 1, 1}, y[3];
    const double *args[] = {x};
    double *results[] = {y};
    struct err e = {0};
    cr_assert_eq(eval_doubles(p, 0, args, results, &e), 0);
    cr_expect(isinf(y[0]) && y[0] > 0 && isinf(y[1]) && y[1] < 0 && isnan(y[2]));
    program_free(p);
}

#define LOOP(bound, step) LOOP_FROM("0", bound, step)
#define LOOP_FROM(start, bound, step)                                                              \
    MAIN("%x: tensor<1024xf32>, %n: tensor<i32>", "tensor<1024xf32>",                              \
         "%zero = stablehlo.constant dense<" start "> : tensor<i32>\n"                             \
         "%b = stablehlo.constant dense<" bound "> : tensor<i32>\n"                                \
         "%s = stablehlo.constant dense<" step "> : tensor<i32>\n"                                 \
         "%0:2 = stablehlo.while(%i = %zero, %h = %x) : tensor<i32>, tensor<1024xf32>\n"           \
         "cond {\n  %c = stablehlo.compare LT, %i, %b, SIGNED : (tensor<i32>, tensor<i32>) -> "    \
         "tensor<i1>\n  stablehlo.return %c : tensor<i1>\n} do {\n"                                \
         "  %t = stablehlo.tanh %h : tensor<1024xf32>\n"                                           \
         "  %j = stablehlo.add %i, %s : tensor<i32>\n"                                             \
         "  stablehlo.return %j, %t : tensor<i32>, tensor<1024xf32>\n}\n"                          \
         "return %0#1 : tensor<1024xf32>\n")

Test(graph_limits, loops_have_a_known_number_of_trips)
{
    compiles(LOOP("5", "2"), 0, 0, "");
    compiles(LOOP("0", "1"), 0, 0, "");
    compiles(LOOP("-7", "1"), 0, 0, "");
    /* 2^31 - 1 trips: forward a plan of some launches, back more rows than a tensor may have */
    compiles(LOOP("2147483647", "1"), 0, WARM_ETOO_BIG, "2^40 elements");
    /* the counter would wrap around */
    compiles(LOOP("2147483647", "2"), 0, WARM_EUNSUPPORTED, "trips is not known");
    compiles(LOOP("5", "0"), 0, WARM_EUNSUPPORTED, "trips is not known");
    compiles(LOOP("5", "-1"), 0, WARM_EUNSUPPORTED, "trips is not known");
}

/* The way back finds a trip's rows by how far the counter is from its start: in an i32, or not at all. */
Test(graph_limits, a_counter_over_more_than_half_of_its_range_has_no_derivative)
{
    compiles(LOOP_FROM("-1073741824", "1073741823", "1073741823"), 0, 0, "");
    compiles(LOOP_FROM("-2000000000", "2000000000", "1000000000"), 0, WARM_EUNSUPPORTED,
             "while: the counter passes over 2^31 numbers");
    compiles(LOOP_FROM("-2147483648", "2147483647", "1"), 0, WARM_EUNSUPPORTED,
             "while: the counter passes over 2^31 numbers");
}

/* Writes a function of n loops inside of one another; the innermost calls `callee`. */
static char *put_nest(char *at, int n, const char *access, const char *name, const char *callee)
{
    at += sprintf(at,
                  "func.func %s @%s(%%h0: tensor<4xf32>) -> tensor<4xf32> {\n"
                  "%%zero = stablehlo.constant dense<0> : tensor<i32>\n"
                  "%%b = stablehlo.constant dense<2> : tensor<i32>\n"
                  "%%s = stablehlo.constant dense<1> : tensor<i32>\n",
                  access, name);
    for (int i = 0; i < n; i++)
        at +=
            sprintf(at,
                    "%%w%d:2 = stablehlo.while(%%i%d = %%zero, %%h%d = %%h%d) : tensor<i32>, "
                    "tensor<4xf32>\ncond {\n%%c = stablehlo.compare LT, %%i%d, %%b, SIGNED : "
                    "(tensor<i32>, tensor<i32>) -> tensor<i1>\nstablehlo.return %%c : tensor<i1>\n"
                    "} do {\n%%j%d = stablehlo.add %%i%d, %%s : tensor<i32>\n",
                    i + 1, i + 1, i + 1, i, i + 1, i + 1, i + 1);
    if (callee)
        at += sprintf(at, "%%t = func.call @%s(%%h%d) : (tensor<4xf32>) -> tensor<4xf32>\n", callee,
                      n);
    else
        at += sprintf(at, "%%t = stablehlo.tanh %%h%d : tensor<4xf32>\n", n);
    at += sprintf(at, "stablehlo.return %%j%d, %%t : tensor<i32>, tensor<4xf32>\n}\n", n);
    for (int i = n; i > 1; i--)
        at += sprintf(at, "stablehlo.return %%j%d, %%w%d#1 : tensor<i32>, tensor<4xf32>\n}\n",
                      i - 1, i);
    return at + sprintf(at, "return %%w1#1 : tensor<4xf32>\n}\n");
}

/* Each function has fewer loops inside of one another than may be; all calls written out have more. */
Test(graph_limits, loops_inside_of_calls_inside_of_loops_have_a_limit)
{
    char *text = malloc(1 << 17);
    put_nest(put_nest(text, 16, "public", "main", "f"), 16, "private", "f", NULL);
    compiles(text, 0, 0, "");
    put_nest(put_nest(text, 16, "public", "main", "f"), 17, "private", "f", NULL);
    compiles(text, WARM_EUNSUPPORTED, WARM_EUNSUPPORTED, "while: loops nested more than 32 deep");
    put_nest(put_nest(put_nest(text, 30, "public", "main", "f"), 30, "private", "f", "g"), 30,
             "private", "g", NULL);
    compiles(text, WARM_EUNSUPPORTED, WARM_EUNSUPPORTED, "while: loops nested more than 32 deep");
    free(text);
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Returns the CPU time to plan a chain of n operations with its gradient. */
static double chain_s(int n)
{
    char *text = malloc((size_t)n * 64 + 256), *at = text;
    at += sprintf(at, "func.func public @main(%%v0: tensor<8xf32>) -> tensor<8xf32> {\n");
    for (int i = 0; i < n; i++)
        at += sprintf(at, "%%v%d = stablehlo.%s %%v%d : tensor<8xf32>\n", i + 1,
                      i % 3 ? "tanh" : "sine", i);
    sprintf(at, "return %%v%d : tensor<8xf32>\n}\n", n);
    double began = seconds();
    compiles(text, 0, 0, "");
    free(text);
    return seconds() - began;
}

/* Returns the CPU time to plan a loop that carries n values with its gradient. Each new value is of two old
 * ones, in a ring: no order of them keeps all old values to the end of a trip, and a gradient passes all. */
static double loop_s(int n)
{
    char *text = malloc((size_t)n * 256 + 1024), *at = text;
    at += sprintf(at, "func.func public @main(%%x: tensor<4xf32>) -> tensor<4xf32> {\n"
                      "%%zero = stablehlo.constant dense<0> : tensor<i32>\n"
                      "%%b = stablehlo.constant dense<9> : tensor<i32>\n"
                      "%%s = stablehlo.constant dense<1> : tensor<i32>\n");
    at += sprintf(at, "%%w:%d = stablehlo.while(%%i = %%zero", n + 1);
    for (int i = 0; i < n; i++)
        at += sprintf(at, ", %%h%d = %%x", i);
    at += sprintf(at, ") : tensor<i32>");
    for (int i = 0; i < n; i++)
        at += sprintf(at, ", tensor<4xf32>");
    at += sprintf(at, "\ncond {\n%%c = stablehlo.compare LT, %%i, %%b, SIGNED : (tensor<i32>, "
                      "tensor<i32>) -> tensor<i1>\nstablehlo.return %%c : tensor<i1>\n} do {\n"
                      "%%j = stablehlo.add %%i, %%s : tensor<i32>\n");
    for (int i = 0; i < n; i++)
        at +=
            sprintf(at, "%%t%d = stablehlo.add %%h%d, %%h%d : tensor<4xf32>\n", i, i, (i + 1) % n);
    at += sprintf(at, "stablehlo.return %%j");
    for (int i = 0; i < n; i++)
        at += sprintf(at, ", %%t%d", i);
    at += sprintf(at, " : tensor<i32>");
    for (int i = 0; i < n; i++)
        at += sprintf(at, ", tensor<4xf32>");
    sprintf(at, "\n}\nreturn %%w#1 : tensor<4xf32>\n}\n");
    double began = seconds();
    compiles(text, 0, 0, "");
    free(text);
    return seconds() - began;
}

/* Returns the CPU time to join n tensors, or to refuse that. */
static double join_s(int n, int code)
{
    char *text = malloc((size_t)n * 64 + 1024), *at = text;
    at += sprintf(at, "func.func public @main(%%x0: tensor<1xf32>");
    for (int i = 1; i < n; i++)
        at += sprintf(at, ", %%x%d: tensor<1xf32>", i);
    at += sprintf(at, ") -> tensor<%dxf32> {\n%%c = stablehlo.concatenate %%x0", n);
    for (int i = 1; i < n; i++)
        at += sprintf(at, ", %%x%d", i);
    at += sprintf(at, ", dim = 0 : (tensor<1xf32>");
    for (int i = 1; i < n; i++)
        at += sprintf(at, ", tensor<1xf32>");
    sprintf(at, ") -> tensor<%dxf32>\nreturn %%c : tensor<%dxf32>\n}\n", n, n);
    double began = seconds();
    compiles(text, code, code, "an operation of more than 4000 tensors");
    free(text);
    return seconds() - began;
}

/* Ten times the operations take some ten times as long: 25 times, for a busy machine. */
Test(graph_limits, planning_is_linear)
{
    double small = chain_s(10000), large = chain_s(100000);
    cr_expect_lt(large, 25 * small + 0.2, "%.3f s for 10^4 operations, %.3f s for 10^5", small,
                 large);
    small = loop_s(2000), large = loop_s(20000);
    cr_expect_lt(large, 25 * small + 0.2, "%.3f s for 2000 carried values, %.3f s for 20 000",
                 small, large);
    small = join_s(3900, 0), large = join_s(39000, WARM_ETOO_BIG);
    cr_expect_lt(large, 25 * small + 0.2, "%.3f s for 3900 operands, %.3f s for 39 000", small,
                 large);
}
