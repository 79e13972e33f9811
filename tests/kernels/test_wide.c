/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_wide.c - i64: arithmetic of all 64 bits by the generated code, on the CPU and through NVRTC; counters and
 * indices, in loops and in their derivatives. test_eval.c, test_vjp.c and test_graph_bundle.c run graphs of JAX
 * and Reactant with it.
 */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/bundle/graph_bundle.h"
#include "kernels/eval/eval.h"
#include "kernels/vjp/vjp.h"
#include "tests/kernels/for_cpu.h"
#include "tests/kernels/jax_graphs.h"
#include "tests/kernels/print_program.h"

#define L4 "tensor<4xi64>"
#define L "tensor<i64>"
#define MOST INT64_MAX
#define LEAST INT64_MIN

/* Functions of x and y, four i64 each; of f, four f32; and of k, a scalar. */
static const char ARITHMETIC[] =
    "func.func public @main(%x: " L4 ", %y: " L4 ", %f: tensor<4xf32>, %k: " L ") -> (" L4 ", " L4
    ", " L4 ", " L4 ", " L4 ", " L4 ", " L4 ", " L4 ", " L4 ", " L4 ", " L4 ", " L4
    ", tensor<4xi32>, tensor<4xf32>, tensor<4xi1>, " L ", " L ", " L ", tensor<4xi1>, tensor<2xf32>"
    ") {\n"
    "%add = stablehlo.add %x, %y : " L4 "\n%sub = stablehlo.subtract %x, %y : " L4 "\n"
    "%mul = stablehlo.multiply %x, %y : " L4 "\n%div = stablehlo.divide %x, %y : " L4 "\n"
    "%rem = stablehlo.remainder %x, %y : " L4 "\n%abs = stablehlo.abs %x : " L4 "\n"
    "%neg = stablehlo.negate %x : " L4 "\n%sgn = stablehlo.sign %x : " L4 "\n"
    "%not = stablehlo.not %x : " L4 "\n%xor = stablehlo.xor %x, %y : " L4 "\n"
    "%whole = stablehlo.convert %f : (tensor<4xf32>) -> " L4 "\n"
    "%c = stablehlo.constant dense<[1234567890123456789, -1, 4294967296, -9223372036854775808]> "
    ": " L4 "\n%max = stablehlo.maximum %x, %c : " L4 "\n"
    "%low = stablehlo.convert %x : (" L4 ") -> tensor<4xi32>\n"
    "%float = stablehlo.convert %x : (" L4 ") -> tensor<4xf32>\n"
    "%true = stablehlo.convert %y : (" L4 ") -> tensor<4xi1>\n"
    "%z = stablehlo.constant dense<-4294967297> : " L "\n"
    "%sum = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [0] : (" L4
    ", " L ") -> " L "\n"
    "%least = stablehlo.reduce(%y init: %k) applies stablehlo.minimum across dimensions = [0] : "
    "(" L4 ", " L ") -> " L "\n"
    "%dot = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] : (" L4 ", " L4 ") -> " L
    "\n"
    "%lt = stablehlo.compare LT, %x, %c, SIGNED : (" L4 ", " L4 ") -> tensor<4xi1>\n"
    "%part = stablehlo.dynamic_slice %f, %k, sizes = [2] : (tensor<4xf32>, " L
    ") -> tensor<2xf32>\n"
    "return %add, %sub, %mul, %div, %rem, %abs, %neg, %sgn, %not, %xor, %whole, %max, %low, "
    "%float, "
    "%true, %sum, %least, %dot, %lt, %part : " L4 ", " L4 ", " L4 ", " L4 ", " L4 ", " L4 ", " L4
    ", " L4 ", " L4 ", " L4 ", " L4 ", " L4 ", tensor<4xi32>, tensor<4xf32>, tensor<4xi1>, " L
    ", " L ", " L ", tensor<4xi1>, tensor<2xf32>\n}\n";

enum { N_RESULTS = 20 };

static struct program *flat(const char *module)
{
    struct program *p = NULL, *f = NULL;
    struct err e = {0};
    cr_assert_eq(program_read(module, strlen(module), &p, &e), 0, "line %u: %s", e.line, e.text);
    cr_assert_eq(program_flatten(p, program_function(p, NULL), &f, &e), 0, "%s", e.text);
    program_free(p);
    return f;
}

/* Runs the generated code of a program on the CPU, as its bundle plans it. Copies its results to out[i]. */
static void run_on_cpu(const struct program *p, void *const *args, void *const *out)
{
    struct codegen c;
    struct graph_bundle b;
    struct err e = {0};
    struct for_cpu cpu = for_cpu_open();
    cr_assert_eq(codegen_function(p, 0, &c, &e), 0, "%s", e.text);
    cr_assert_eq(graph_bundle_plan(&c, &b, &e), 0, "%s", e.text);
    cr_assert_eq(b.loops.n, 0u);
    for_cpu_begin(cpu.f, 0, &c);
    for (uint32_t i = 0; i < b.launches.n; i++) {
        const struct graph_launch *l = &b.launches.at[i];
        for_cpu_launch(cpu.f, &c, l->kernel, l->blocks, l->threads, b.operands.at + l->args,
                       l->n_args);
    }
    for_cpu_end(cpu.f, &c);
    for_cpu_compile(&cpu);
    char *arena = malloc((size_t)b.arena + 1);
    void **at = calloc((size_t)b.buffers.n + 1, sizeof *at);
    memset(arena, 0xFF, (size_t)b.arena);
    for (uint32_t i = 0; i < b.buffers.n; i++)
        at[i] = b.buffers.at[i].place == PLACE_ARGUMENT ? args[i]
                : b.buffers.at[i].place == PLACE_ARENA
                    ? arena + b.buffers.at[i].at
                    : (void *)(b.constants.data + b.buffers.at[i].at);
    for_cpu_run(&cpu, 0)(at);
    for (uint32_t i = 0; i < b.results.n; i++)
        memcpy(out[i], at[b.results.at[i]],
               (size_t)graph_tensor_bytes(&b.buffers.at[b.results.at[i]].type));
    free(at);
    free(arena);
    for_cpu_close(&cpu);
    graph_bundle_close(&b);
    codegen_free(&c);
}

static void expect_wide(const char *what, const int64_t *is, const int64_t *want, int n)
{
    for (int i = 0; i < n; i++)
        cr_expect_eq(is[i], want[i], "%s %d: %" PRId64 ", not %" PRId64, what, i, is[i], want[i]);
}

/* By hand: two's complement wraps around; x / 0 is -1 and x rem 0 is x, as in XLA. */
Test(wide, generated_code_has_all_64_bits)
{
    static int64_t x[] = {LEAST, MOST, -7000000000, 5}, y[] = {-1, 2, 3000000000, 0}, k[] = {3};
    static float f[] = {NAN, 1e30f, -1e30f, -5000000000.75f};
    static const struct {
        const char *name;
        int64_t want[4];
    } WIDE[] = {
        {"add", {MOST, LEAST + 1, -4000000000, 5}},
        {"subtract", {LEAST + 1, MOST - 2, -10000000000, 5}},
        {"multiply", {LEAST, -2, -2553255926290448384, 0}},
        {"divide", {LEAST, MOST / 2, -2, -1}},
        {"remainder", {0, 1, -1000000000, 5}},
        {"abs", {LEAST, MOST, 7000000000, 5}},
        {"negate", {LEAST, -MOST, 7000000000, -5}},
        {"sign", {-1, 1, -1, 1}},
        {"not", {MOST, LEAST, 6999999999, -6}},
        {"xor", {MOST, MOST - 2, -7000000000 ^ 3000000000, 5}},
        {"convert", {0, MOST, LEAST, -5000000000}},
        {"maximum", {1234567890123456789, MOST, 4294967296, 5}},
    };
    static int64_t wide[12][4], sum[1], least[1], dot[1];
    static int32_t low[4];
    static float floats[4], part[2];
    static uint8_t truth[4], less[4];
    void *args[] = {x, y, f, k}, *out[N_RESULTS];
    for (int i = 0; i < 12; i++)
        out[i] = wide[i];
    void *rest[] = {low, floats, truth, sum, least, dot, less, part};
    memcpy(out + 12, rest, sizeof rest);
    struct program *p = flat(ARITHMETIC);
    run_on_cpu(p, args, out);
    for (int i = 0; i < 12; i++)
        expect_wide(WIDE[i].name, wide[i], WIDE[i].want, 4);
    static const int32_t LOW[] = {0, -1, 1589934592, 5};
    static const float FLOATS[] = {-0x1p63f, 0x1p63f, -7e9f, 5};
    static const uint8_t TRUTH[] = {1, 1, 1, 0}, LESS[] = {1, 0, 1, 0};
    for (int i = 0; i < 4; i++) {
        cr_expect_eq(low[i], LOW[i], "%d: %" PRId32, i, low[i]);
        cr_expect_eq(floats[i], FLOATS[i], "%d: %g", i, (double)floats[i]);
        cr_expect_eq(truth[i], TRUTH[i], "%d", i);
        cr_expect_eq(less[i], LESS[i], "%d", i);
    }
    expect_wide("sum", sum, (int64_t[]){-4294967297 - 1 - 7000000000 + 5}, 1);
    expect_wide("least", least, (int64_t[]){-1}, 1);
    expect_wide("dot", dot, (int64_t[]){6670116110564327422}, 1);
    cr_expect(part[0] == -1e30f && part[1] == f[3], "%g %g", (double)part[0], (double)part[1]);
    program_free(p);
}

Test(wide, the_interpreter_has_64_bits)
{
    static const number x[] = {-9007199254740993, INT64_MIN, -7000000000, INT64_MAX},
                        y[] = {1, -1, 3000000000, 0}, f[] = {NAN, 1e30, -1e30, -5e9}, k[] = {3};
    static const number *const args[] = {x, y, f, k};
    static const char MORE[] = "func.func public @main(%x: " L4 ", %y: " L4
                               ", %f: tensor<4xf32>, %k: " L ") -> " L4 " {\n%0 = stablehlo.%s\n"
                               "return %0 : " L4 "\n}\n";
    static const struct {
        const char *op;
        number want[4];
    } CASES[] = {
        {"add %x, %y : " L4, {-9007199254740992, INT64_MAX, -4000000000, INT64_MAX}},
        {"subtract %x, %y : " L4, {-9007199254740994, INT64_MIN + 1, -10000000000, INT64_MAX}},
        {"multiply %x, %x : " L4, {18014398509481985, 0, -6340232221128654848, 1}},
        {"divide %x, %y : " L4, {-9007199254740993, INT64_MIN, -2, -1}},
        {"remainder %x, %y : " L4, {0, 0, -1000000000, INT64_MAX}},
        {"negate %x : " L4, {9007199254740993, INT64_MIN, 7000000000, -INT64_MAX}},
        {"not %x : " L4, {9007199254740992, INT64_MAX, 6999999999, INT64_MIN}},
        {"convert %f : (tensor<4xf32>) -> " L4, {0, INT64_MAX, INT64_MIN, -5000000000}},
        {"constant dense<[1, 9007199254740993, -4294967297, 0]> : " L4,
         {1, 9007199254740993, -4294967297, 0}},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        char module[1024];
        number is[4], *out[] = {is};
        struct err e = {0};
        const char *at = strstr(MORE, "%s");
        snprintf(module, sizeof module, "%.*s%s%s", (int)(at - MORE), MORE, CASES[i].op, at + 2);
        struct program *p = flat(module);
        cr_assert_eq(eval_function(p, 0, args, out, &e), 0, "%s: %s", CASES[i].op, e.text);
        for (int k4 = 0; k4 < 4; k4++)
            cr_expect_eq(is[k4], CASES[i].want[k4], "%s %d: %.0Lf", CASES[i].op, k4, is[k4]);
        program_free(p);
    }
}

Test(wide, constants_are_written_as_they_were_read)
{
    struct writer text;
    writer_init(&text, 0);
    struct program *p = flat(ARITHMETIC);
    program_write(p, &text);
    writer_u8(&text, 0);
    cr_expect(strstr((char *)text.data, "dense<[1234567890123456789, -1, 4294967296, "
                                        "-9223372036854775808]> : tensor<4xi64>"),
              "%s", (char *)text.data);
    text.len--;
    struct program *again = flat((char *)text.data);
    cr_expect_eq(again->ops.n, p->ops.n);
    cr_expect(again->data.n == p->data.n && memcmp(again->data.at, p->data.at, p->data.n) == 0);
    program_free(again);
    program_free(p);
    writer_close(&text);
}

/* ---- counters ---- */

/* Returns a loop: it counts from `start` as long as the counter compares with `bound`, by `step`, in elements
 * of `type`, and multiplies x by a half. free() it. */
static char *loop(const char *type, const char *start, const char *compare, const char *bound,
                  const char *step)
{
    char *text = malloc(2048);
    snprintf(text, 2048,
             "!i = tensor<%s>\nfunc.func public @main(%%x: tensor<f32>, %%n: !i) -> tensor<f32> {\n"
             "%%start = stablehlo.constant dense<%s> : !i\n"
             "%%h = stablehlo.constant dense<0.5> : tensor<f32>\n"
             "%%0:2 = stablehlo.while(%%i = %%start, %%a = %%x) : !i, tensor<f32>\ncond {\n"
             "%%bound = stablehlo.constant dense<%s> : !i\n"
             "%%go = stablehlo.compare %s, %%i, %s, SIGNED : (!i, !i) -> tensor<i1>\n"
             "stablehlo.return %%go : tensor<i1>\n} do {\n"
             "%%step = stablehlo.constant dense<%s> : !i\n%%j = stablehlo.add %%i, %%step : !i\n"
             "%%b = stablehlo.multiply %%a, %%h : tensor<f32>\n"
             "stablehlo.return %%j, %%b : !i, tensor<f32>\n}\nreturn %%0#1 : tensor<f32>\n}\n",
             type, start, *bound == '%' ? "0" : bound, compare, *bound == '%' ? bound : "%bound",
             step);
    return text;
}

/* Loops, and how often they run; -1: that is not known. */
static const struct {
    const char *type, *start, *compare, *bound, *step;
    int trips;
} LOOPS[] = {
    {"i64", "0", "LT", "7", "1", 7},
    {"i64", "1099511627776", "LE", "1099511627780", "2", 3},
    {"i64", "5", "GT", "-5000000000", "-1000000000", 6},
    {"i64", "10", "NE", "1", "-3", 3},
    {"i64", "2147483646", "LT", "2147483650", "1", 4},
    {"i32", "2147483646", "LE", "2147483647", "1", -1},                   /* it wraps around */
    {"i64", "9223372036854775800", "LT", "9223372036854775807", "1", -1}, /* too large a counter */
    {"i64", "0", "LT", "%n", "1", -1},
    {"i64", "0", "LT", "7", "0", -1},
};

Test(wide, trips_are_counted_beyond_32_bits)
{
    for (size_t i = 0; i < sizeof LOOPS / sizeof *LOOPS; i++) {
        char *text =
            loop(LOOPS[i].type, LOOPS[i].start, LOOPS[i].compare, LOOPS[i].bound, LOOPS[i].step);
        struct program *p = flat(text);
        struct codegen c;
        struct err e = {0};
        int rc = codegen_function(p, 0, &c, &e);
        cr_expect_eq(rc, 0, "%zu: %s", i, e.text);
        bool known = c.loops.n == 1 && c.loops.at[0].condition == PROGRAM_NONE;
        cr_expect_eq(known, LOOPS[i].trips >= 0, "%zu", i);
        cr_expect(!known || c.loops.at[0].trips == (uint64_t)LOOPS[i].trips, "%zu", i);
        codegen_free(&c);
        program_free(p);
        free(text);
    }
}

Test(wide, derivatives_of_loops_follow_wide_counters)
{
    static const uint32_t FIRST[] = {0};
    for (size_t i = 0; i < sizeof LOOPS / sizeof *LOOPS; i++) {
        char *text =
            loop(LOOPS[i].type, LOOPS[i].start, LOOPS[i].compare, LOOPS[i].bound, LOOPS[i].step);
        const double x[] = {3}, n[] = {0}, cotangent[] = {1}, *args[] = {x, n, cotangent};
        double y, gradient, *out[] = {&y, &gradient};
        struct program *p = flat(text), *d = NULL;
        struct err e = {0};
        int rc = vjp_function(p, 0, FIRST, 1, &d, &e);
        cr_expect_eq(rc, LOOPS[i].trips < 0 ? WARM_EUNSUPPORTED : 0, "%zu: %s", i, e.text);
        if (rc == 0) {
            cr_assert_eq(eval_doubles(d, 0, args, out, &e), 0, "%zu: %s", i, e.text);
            cr_expect_eq(gradient, ldexp(1, -LOOPS[i].trips), "%zu: %g", i, gradient);
            cr_expect_eq(y, 3 * gradient);
        }
        program_free(d);
        program_free(p);
        free(text);
    }
    char *text = loop("i64", "0", "LT", "5000000000", "1");
    struct program *p = flat(text), *d = NULL;
    struct err e = {0};
    cr_expect_eq(vjp_function(p, 0, FIRST, 1, &d, &e), WARM_EUNSUPPORTED);
    cr_expect(strstr(e.text, "while: the counter passes over 2^31 numbers"), "%s", e.text);
    program_free(p);
    free(text);
}

/* An empty range of Julia, as Reactant traces it: its limit is its start less a step, and is carried. */
Test(wide, a_loop_without_a_trip_is_gone)
{
    static const char EMPTY[] =
        "func.func public @main(%x: tensor<f32>) -> tensor<f32> {\n"
        "%zero = stablehlo.constant dense<0> : " L "\n%start = stablehlo.constant dense<3> : " L
        "\n%step = stablehlo.constant dense<4> : " L "\n%last = stablehlo.constant dense<-1> : " L
        "\n%0:5 = stablehlo.while(%i = %zero, %s = %step, %l = %last, %f = %start, %a = %x) : " L
        ", " L ", " L ", " L ", tensor<f32>\ncond {\n%d = stablehlo.subtract %l, %f : " L
        "\n%q = stablehlo.divide %d, %s : " L "\n%one = stablehlo.constant dense<1> : " L
        "\n%n = stablehlo.add %q, %one : " L "\n%go = stablehlo.compare LT, %i, %n : (" L ", " L
        ") -> tensor<i1>\nstablehlo.return %go : tensor<i1>\n} do {\n"
        "%one = stablehlo.constant dense<1> : " L "\n%j = stablehlo.add %i, %one : " L
        "\n%b = stablehlo.sine %a : tensor<f32>\nstablehlo.return %j, %s, %l, %f, %b : " L ", " L
        ", " L ", " L ", tensor<f32>\n}\nreturn %0#4 : tensor<f32>\n}\n";
    struct program *p = flat(EMPTY);
    for (uint32_t i = 0; i < p->ops.n; i++)
        cr_expect(p->ops.at[i].op != OP_WHILE && p->ops.at[i].op != OP_SINE);
    program_free(p);
}

Test(wide, indices_are_all_of_one_type)
{
    static const char MIXED[] =
        "func.func public @main(%x: tensor<4x4xf32>, %i: " L
        ", %k: tensor<i32>) -> tensor<2x2xf32> "
        "{\n%0 = stablehlo.dynamic_slice %x, %i, %k, sizes = [2, 2] : (tensor<4x4xf32>, " L
        ", tensor<i32>) -> tensor<2x2xf32>\nreturn %0 : tensor<2x2xf32>\n}\n";
    struct program *p = NULL;
    struct err e = {0};
    cr_expect_eq(program_read(MIXED, strlen(MIXED), &p, &e), WARM_EINVALID);
    cr_expect(strstr(e.text, "dynamic_slice: the starts are not one scalar"), "%s", e.text);
    cr_expect_eq(e.line, 2u);
}
