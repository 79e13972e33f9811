/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_mlir.c - the key of MLIR text: what it depends on, what not, and that it never changes by
 * accident. Each fact is a change of one place in a module that has a bit of everything.
 */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/canon_kit.h"

static int key_of(const char *text, struct canon_result *out, struct err *e)
{
    struct canon_input input = {.data = text, .len = strlen(text), .kind = CANON_MLIR};
    memset(e, 0, sizeof *e);
    return canon_key(&input, out, NULL, e);
}

static struct key good_key(const char *text)
{
    struct canon_result r;
    struct err e;
    int rc = key_of(text, &r, &e);
    cr_assert_eq(rc, 0, "%u:%u: %s in\n%s", e.line, e.column, e.text, text);
    cr_assert(!r.exact);
    return r.key;
}

static bool same(const char *a, const char *b)
{
    struct key x = good_key(a), y = good_key(b);
    return key_equal(&x, &y);
}

/* `text` with each `from` replaced by `to`; free() it. */
static char *changed(const char *text, const char *from, const char *to)
{
    size_t n = 0;
    for (const char *p = text; (p = strstr(p, from)); p += strlen(from))
        n++;
    cr_assert(n > 0, "'%s' is not in the text", from);
    char *out = malloc(strlen(text) + n * strlen(to) + 1), *at = out;
    for (const char *p; (p = strstr(text, from)); text = p + strlen(from)) {
        memcpy(at, text, (size_t)(p - text));
        at += p - text;
        strcpy(at, to);
        at += strlen(to);
    }
    strcpy(at, text);
    return out;
}

static const char model[] =
    "module @jit_step attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {\n"
    "  sdy.mesh @mesh = <[\"x\"=2, \"y\"=2]>\n"
    "  func.func public @main(%arg0: tensor<4x8xf32> {tf.aliasing_output = 0 : i32}, "
    "%arg1: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"x\"}, {\"y\"}]>}, "
    "%arg2: tensor<i32>) -> (tensor<4x4xf32> {jax.result_info = \"result\"}, tensor<4x4xf32>) {\n"
    "    %cst = stablehlo.constant dense<0x7FC00001> : tensor<f32>\n"
    "    %cst_0 = stablehlo.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>\n"
    "    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0], "
    "precision = [DEFAULT, HIGHEST] : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>\n"
    "    %1 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x4xf32>\n"
    "    %2 = stablehlo.broadcast_in_dim %cst_0, dims = [1] : (tensor<4xf32>) -> tensor<4x4xf32>\n"
    "    %3 = stablehlo.compare GT, %0, %1, FLOAT : (tensor<4x4xf32>, tensor<4x4xf32>) -> "
    "tensor<4x4xi1>\n"
    "    %4 = stablehlo.select %3, %0, %2 : tensor<4x4xi1>, tensor<4x4xf32>\n"
    "    %5 = call @inner(%4, %arg2) : (tensor<4x4xf32>, tensor<i32>) -> tensor<4x4xf32>\n"
    "    %6 = \"stablehlo.all_reduce\"(%5) <{channel_handle = #stablehlo.channel_handle<handle = "
    "7, "
    "type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>}> ({\n"
    "    ^bb0(%arg3: tensor<f32>, %arg4: tensor<f32>):\n"
    "      %8 = stablehlo.add %arg3, %arg4 : tensor<f32>\n"
    "      stablehlo.return %8 : tensor<f32>\n"
    "    }) : (tensor<4x4xf32>) -> tensor<4x4xf32>\n"
    "    %7 = stablehlo.subtract %6, %2 : tensor<4x4xf32>\n"
    "    return %7, %6 : tensor<4x4xf32>, tensor<4x4xf32>\n"
    "  }\n"
    "  func.func private @inner(%arg0: tensor<4x4xf32>, %arg1: tensor<i32>) -> tensor<4x4xf32> {\n"
    "    %c = stablehlo.constant dense<0> : tensor<i32>\n"
    "    %0:2 = stablehlo.while(%iterArg = %c, %iterArg_0 = %arg0) : tensor<i32>, tensor<4x4xf32>\n"
    "    cond {\n"
    "      %1 = stablehlo.compare LT, %iterArg, %arg1, SIGNED : (tensor<i32>, tensor<i32>) -> "
    "tensor<i1>\n"
    "      stablehlo.return %1 : tensor<i1>\n"
    "    } do {\n"
    "      %c_1 = stablehlo.constant dense<1> : tensor<i32>\n"
    "      %1 = stablehlo.add %iterArg, %c_1 : tensor<i32>\n"
    "      %2 = stablehlo.tanh %iterArg_0 : tensor<4x4xf32>\n"
    "      stablehlo.return %1, %2 : tensor<i32>, tensor<4x4xf32>\n"
    "    }\n"
    "    return %0#1 : tensor<4x4xf32>\n"
    "  }\n"
    "}\n";

static void expect_same(const char *from, const char *to)
{
    char *other = changed(model, from, to);
    cr_expect(same(model, other), "'%s' -> '%s' must keep the key", from, to);
    free(other);
}

static void expect_different(const char *from, const char *to)
{
    char *other = changed(model, from, to);
    cr_expect(!same(model, other), "'%s' -> '%s' must change the key", from, to);
    free(other);
}

Test(mlir, each_part_that_counts_changes_the_key)
{
    static const char *const changes[][2] = {
        {"num_partitions = 4", "num_partitions = 8"},
        {"\"y\"=2", "\"y\"=4"},
        {"tf.aliasing_output = 0", "tf.aliasing_output = 1"},
        {" {tf.aliasing_output = 0 : i32}", ""},
        {" {tf.aliasing_output = 0 : i32}", " {jax.buffer_donor = true}"},
        {"[{\"x\"}, {\"y\"}]", "[{\"y\"}, {\"x\"}]"},
        {"[{\"x\"}, {\"y\"}]", "[{\"x\"}, {}]"},
        {"0x7FC00001", "0x7FC00002"},
        {"0x7FC00001", "0x7F800001"},
        {"[1.0, 2.0, 3.0, 4.0]", "[1.0, 2.0, 4.0, 3.0]"},
        {"[1.0, 2.0, 3.0, 4.0]", "[1.0, 2.0, 3.0, 4.0000005]"},
        {"[1.0, 2.0, 3.0, 4.0]", "[-0.0, 2.0, 3.0, 4.0]"},
        {"[DEFAULT, HIGHEST]", "[HIGHEST, DEFAULT]"},
        {"dims = [1]", "dims = [0]"},
        {"compare GT", "compare GE"},
        {", FLOAT", ", TOTALORDER"},
        {"select %3, %0, %2", "select %3, %2, %0"},
        {"subtract %6, %2", "subtract %2, %6"},
        {"return %7, %6", "return %6, %7"},
        {"[[0, 1], [2, 3]]", "[[0, 2], [1, 3]]"},
        {"type = 1>", "type = 0>"},
        {"handle = 7", "handle = 0"},
        {"%8 = stablehlo.add", "%8 = stablehlo.multiply"},
        {"dense<1> : tensor<i32>", "dense<2> : tensor<i32>"},
        {"compare LT, %iterArg, %arg1, SIGNED", "compare LT, %arg1, %iterArg, SIGNED"},
        {"stablehlo.tanh", "stablehlo.sine"},
        {"%arg3, %arg4 :", "%arg4, %arg3 :"},
        {"add %iterArg, %c_1", "add %c_1, %iterArg"},
        {"tensor<i32>", "tensor<i64>"},
        {"4x4xf32>", "4x4xbf16>"},
        {"4x4xf32>", "4x4xf16>"},
        {"4x8xf32>", "6x8xf32>"},
        {"0x7FC00001", "0x7FC00003"},
        {"call @inner(%4", "call @inner(%0"},
        {"<4x8xf32>", "<4x8xf32, #stablehlo.bounds<4, 8>>"},
        {"{tf.aliasing_output = 0 : i32}",
         "{mhlo.layout_mode = \"{0,1}\", tf.aliasing_output = 0 : i32}"},
        {"tensor<i32>", "tensor<ui32>"},
        {"tensor<i32>", "tensor<si32>"},
    };
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++)
        expect_different(changes[i][0], changes[i][1]);
}

Test(mlir, each_name_that_does_not_count_keeps_the_key)
{
    expect_same("@jit_step", "@module_0076.reactant_loop");
    expect_same("@inner", "@closed_call_17");
    expect_same("@mesh", "@empty_mesh");
    expect_same("\"x\"", "\"data\"");
    expect_same("%arg3", "%lhs");
    expect_same("%iterArg", "%carry");
    expect_same("%cst_0", "%42");
    expect_same("^bb0", "^entry");
    expect_same("handle = 7", "handle = 1234");
    expect_same("jax.result_info = \"result\"", "jax.result_info = \"result['loss']\"");
    expect_same(" {jax.result_info = \"result\"}", "");
    expect_same(" {jax.result_info = \"result\"}", " {mhlo.layout_mode = \"default\"}");
    expect_same("\n", " // a comment\n");
    expect_same("    ", "\t");
    expect_same(", ", " , \n ");
    expect_same("}\n", "} loc(\"f.py\":3:4)\n");
    expect_same("dense<0x7FC00001>", "dense<\"0x0100C07F\">");
    expect_same("[1.0, 2.0, 3.0, 4.0]", "\"0x0000803F000000400000404000008040\"");
}

/* True if the module has another key with `attr` in place of "K = 0, ". */
static bool counts(const char *module, const char *attr)
{
    char *with = changed(module, "K = 0", attr), *without = changed(module, "K = 0, ", "");
    bool other = !same(with, without);
    free(with);
    free(without);
    return other;
}

Test(mlir, an_attribute_is_dropped_in_its_own_places_alone)
{
    static const struct {
        const char *text;
        bool of_arguments, of_tanh; /* dropped there: of arguments and results, of stablehlo.tanh */
    } attrs[] = {{"jax.result_info = \"x\"", true, false},
                 {"mhlo.layout_mode = \"default\"", true, false},
                 {"lower = false", false, false},
                 {"result_accuracy = #stablehlo.result_accuracy<mode = "
                  "#stablehlo.result_accuracy_mode<DEFAULT>>",
                  false, true}};
    static const char *const places[] = {
        "module attributes {K = 0, a = 1} {}",
        "func.func @f() attributes {K = 0, a = 1} {\nreturn\n}",
        "\"func.func\"() <{function_type = () -> (), sym_name = \"f\"}> ({\n"
        "\"func.return\"() : () -> ()\n}) {K = 0, a = 1} : () -> ()",
        "func.func @f() {\nstablehlo.custom_call @t() {K = 0, a = 1} : () -> ()\nreturn\n}",
        "func.func @f() {\n\"stablehlo.custom_call\"() <{call_target_name = \"t\"}> "
        "{K = 0, a = 1} : () -> ()\nreturn\n}",
    };
    static const char argument[] = "func.func @f(%a: tensor<4xf32> {K = 0, a = 1}) {\nreturn\n}";
    static const char result[] = "func.func private @f() -> (tensor<4xf32> {K = 0, a = 1})";
    static const char tanh[] = "func.func @f(%a: tensor<4xf32>) {\n%0 = stablehlo.tanh %a "
                               "{K = 0, a = 1} : tensor<4xf32>\nreturn\n}";
    for (size_t i = 0; i < sizeof attrs / sizeof *attrs; i++) {
        const char *attr = attrs[i].text;
        for (size_t k = 0; k < sizeof places / sizeof *places; k++)
            cr_expect(counts(places[k], attr), "%s in %s", attr, places[k]);
        cr_expect_eq(counts(argument, attr), !attrs[i].of_arguments, "%s of an argument", attr);
        cr_expect_eq(counts(result, attr), !attrs[i].of_arguments, "%s of a result", attr);
        cr_expect_eq(counts(tanh, attr), !attrs[i].of_tanh, "%s of tanh", attr);
    }
}

/* A program keeps its own order: what another compiler may not see, this one may. */
Test(mlir, order_repetition_and_calls_count)
{
    expect_different("%cst = stablehlo.constant dense<0x7FC00001> : tensor<f32>\n",
                     "%cst = stablehlo.constant dense<0x7FC00001> : tensor<f32>\n"
                     "%dead = stablehlo.negate %cst : tensor<f32>\n");
    expect_different("%cst = stablehlo.constant dense<0x7FC00001> : tensor<f32>\n",
                     "%cst = stablehlo.constant dense<0x7FC00001> : tensor<f32>\n"
                     "%twice = stablehlo.constant dense<0x7FC00001> : tensor<f32>\n");
    expect_different("stablehlo.add %arg3, %arg4", "stablehlo.add %arg4, %arg3");
    expect_different("return %7, %6", "return %6, %7");
    expect_different("@main", "@train");
    expect_different("}\n  func.func private @inner(%arg0: tensor<4x4xf32>",
                     "}\n  func.func private @other() -> () {\n return\n }\n"
                     "  func.func private @inner(%arg0: tensor<4x4xf32>");
}

#define SINE "%0 = stablehlo.sine %a : tensor<4xf32>\n"
#define COSINE "%1 = stablehlo.cosine %a : tensor<4xf32>\n"
#define BODY(ops) "(%a: tensor<4xf32>) -> tensor<4xf32> {\n" ops "}\n"
#define MAIN(ops) "func.func @main" BODY(ops)
#define CALL "%0 = call @f(%a) : (tensor<4xf32>) -> tensor<4xf32>\n"
#define RETURN(value) "return " value " : tensor<4xf32>\n"
#define DIVIDE "%2 = stablehlo.divide %0, %1 : tensor<4xf32>\n"

Test(mlir, two_ways_to_write_one_function_are_two_programs)
{
    static const char f[] = "func.func private @f" BODY(SINE RETURN("%0"));
    static const char g[] =
        "func.func private @g" BODY("%0 = stablehlo.cosine %a : tensor<4xf32>\n" RETURN("%0"));
    static const char main[] = MAIN(CALL RETURN("%0")), here[] = MAIN(SINE RETURN("%0"));
    char texts[4][1024];
    cr_expect(!same(MAIN(SINE COSINE DIVIDE RETURN("%2")), MAIN(COSINE SINE DIVIDE RETURN("%2"))));
    snprintf(texts[0], sizeof *texts, "%s%s", main, f);
    snprintf(texts[1], sizeof *texts, "%s%s", here, f);
    snprintf(texts[2], sizeof *texts, "%s%s%s", main, f, g);
    snprintf(texts[3], sizeof *texts, "%s%s%s", main, g, f);
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < i; j++)
            cr_expect(!same(texts[i], texts[j]), "%d and %d", i, j);
    cr_expect(!same(texts[1], here), "a function that nobody calls counts");
}

Test(mlir, numbers_of_channels_count_where_each_process_compiles_for_itself)
{
    struct canon_input a = {
        .data = model, .len = strlen(model), .kind = CANON_MLIR, .many_processes = true};
    char *renumbered = changed(model, "handle = 7", "handle = 8"),
         *none = changed(model, "handle = 7", "handle = 0");
    struct canon_input b = a;
    struct canon_result x, y;
    b.data = renumbered;
    cr_assert_eq(canon_key(&a, &x, NULL, NULL), 0);
    cr_assert_eq(canon_key(&b, &y, NULL, NULL), 0);
    cr_expect(!key_equal(&x.key, &y.key));
    cr_expect(!same(model, none), "0 is no channel");
    free(renumbered);
    free(none);
}

/* A private function's name is nobody's but the module's, unless somebody else may read it. */
Test(mlir, the_name_of_a_private_function_counts_where_it_may_be_read)
{
    static const char form[] = "func.func @main(%%a: tensor<4xf32>) -> tensor<4xf32> {\n"
                               "%%0 = call @%s(%%a) : (tensor<4xf32>) -> tensor<4xf32>\n"
                               "%%1 = stablehlo.custom_call @target(%%0) {note = \"%s\"} : "
                               "(tensor<4xf32>) -> tensor<4xf32>\n"
                               "return %%1 : tensor<4xf32>\n}\n"
                               "func.func private @%s(%%a: tensor<4xf32>) -> tensor<4xf32>%s\n";
    static const char body[] = " {\nreturn %a : tensor<4xf32>\n}";
    static const struct {
        const char *one, *other, *note, *body;
        bool same;
    } cases[] = {
        {"f", "g", "x", body, true},
        {"f", "g", "f", body, false},         /* a string says it */
        {"xla.f", "xla.g", "x", body, false}, /* XLA knows such names */
        {"xla.f", "f", "x", body, false},
        {"f", "g", "x", "", false}, /* it is defined elsewhere */
        {"f", "target", "x", body, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char a[1024], b[1024];
        snprintf(a, sizeof a, form, cases[i].one, cases[i].note, cases[i].one, cases[i].body);
        snprintf(b, sizeof b, form, cases[i].other, cases[i].note, cases[i].other, cases[i].body);
        cr_expect_eq(same(a, b), cases[i].same, "%s, %s", cases[i].one, cases[i].other);
    }
}

#define FUNC(args, body) "func.func @main(" args ") -> tensor<4xf32> {\n" body "\n}\n"

#define F32 "tensor<f32>"
#define V32 "tensor<8xf32>"
/* A reduction of %arg to %name with a body of one operation. */
#define REDUCTION(name, arg, op)                                                                   \
    name " = \"stablehlo.reduce\"(" arg ", %z) <{dimensions = array<i64: 0>}> ({ ^bb0(%a: " F32    \
         ", %b: " F32 "): %c = \"stablehlo." op "\"(%a, %b) : (" F32 ", " F32 ") -> " F32          \
         " \"stablehlo.return\"(%c) : (" F32 ") -> () }) : (" V32 ", " F32 ") -> " F32 "\n"
#define ZERO "%z = stablehlo.constant dense<0.0> : " F32 "\n"
#define SUMS(body)                                                                                 \
    "func.func public @main(%x: " V32 ", %y: " V32 ") -> (" F32 ", " F32 ") {\n" ZERO body         \
    "return %0, %1 : " F32 ", " F32 "\n}\n"

Test(mlir, a_region_that_takes_from_outside_is_no_other)
{
    /* the same body but for where its second operand comes from */
    static const char inside[] = SUMS(REDUCTION("%0", "%x", "add") REDUCTION("%1", "%y", "add"));
    char *outside = changed(inside, "return %0, %1", "return %0, %2");
    char *taken = changed(outside, "%1 = \"stablehlo.reduce\"(%y",
                          "%1 = stablehlo.negate %0 : " F32 "\n%2 = \"stablehlo.reduce\"(%y");
    char *first = strstr(taken, "%2 = "), *operand = strstr(first, "\"(%a, %b)");
    char *closed = strdup(taken);
    operand[strlen("\"(%a, %")] = '1';
    cr_assert(!same(taken, closed));
    free(closed);
    free(taken);
    free(outside);
}

Test(mlir, a_decimal_is_the_double_that_the_c_library_reads)
{
    static const char *const decimals[] = {"0.1",
                                           "-0.0",
                                           "9.99999993E-9",
                                           "0.899999976",
                                           "1.500000e-01",
                                           "1.0e+22",
                                           "1.0e22",
                                           "1.0e+23",
                                           "123456789012345.0",
                                           "1234567890123456.7",
                                           "8.5e-22",
                                           "1.25e-21",
                                           "0.000000000000001",
                                           "0.30000000000000004",
                                           "-2.560000e+02",
                                           "4.9e-324",
                                           "9.99e-0005",
                                           "1.7976931348623157e+308"};
    for (size_t i = 0; i < sizeof decimals / sizeof *decimals; i++) {
        char said[256], bits[256];
        double d = strtod(decimals[i], NULL);
        uint64_t raw;
        memcpy(&raw, &d, sizeof raw);
        static const char form[] = "func.func public @main() -> tensor<f64> {\n"
                                   "%%0 = stablehlo.constant dense<%s> : tensor<f64>\n"
                                   "return %%0 : tensor<f64>\n}\n";
        char hex[32];
        snprintf(hex, sizeof hex, "0x%016" PRIX64, raw);
        snprintf(said, sizeof said, form, decimals[i]);
        snprintf(bits, sizeof bits, form, hex);
        cr_assert(same(said, bits), "%s", decimals[i]);
    }
}

/* No module is like that, but texts may be. */
Test(mlir, a_function_that_uses_a_value_of_the_module_has_a_key)
{
    static const char text[] = "module {\n%0 = \"x.op\"() {f = @f} : () -> tensor<f32>\n"
                               "func.func private @f() -> tensor<f32> {\n"
                               "%1 = stablehlo.tanh %0 : tensor<f32>\n"
                               "return %1 : tensor<f32>\n}\n}\n";
    char *other = changed(text, "tanh", "sine");
    cr_expect(same(text, text) && !same(text, other));
    free(other);
}

Test(mlir, what_refers_to_the_printing_process_is_refused)
{
    static const char call[] =
        FUNC("%a: tensor<4xf32>", "%0 = stablehlo.custom_call @plain(%a) : (tensor<4xf32>) -> "
                                  "tensor<4xf32>\nreturn %0 : tensor<4xf32>");
    static const char *const targets[] = {"@enzymexla_compile_cpu", "@xla_python_cpu_callback",
                                          "@xla_ffi_python_gpu_callback", "@CustomSPMDPartitioning",
                                          "@InspectSharding"};
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        char *bound = changed(call, "@plain", targets[i]);
        struct canon_input input = {.data = bound, .len = strlen(bound), .kind = CANON_MLIR};
        struct canon_result result;
        struct err e;
        cr_expect_eq(canon_key(&input, &result, NULL, &e), WARM_EREFUSED, "%s", targets[i]);
        free(bound);
    }
}

Test(mlir, labels_among_tokens_go_with_their_blocks)
{
    static const char one[] =
        "func.func @main(%a: tensor<f32>, %p: i1) -> tensor<f32> {\n"
        "cf.cond_br %p, ^left, ^right\n"
        "^left:\n%0 = stablehlo.sine %a : tensor<f32>\nreturn %0 : tensor<f32>\n"
        "^right:\n%1 = stablehlo.cosine %a : tensor<f32>\nreturn %1 : tensor<f32>\n}\n";
    char *swapped = changed(one, "^left, ^right", "^right, ^left");
    cr_expect(!same(one, swapped));
    char *renamed = changed(one, "^left", "^bb7");
    cr_expect(same(one, renamed));
    free(swapped);
    free(renamed);
}

Test(mlir, which_result_counts_in_an_operation_that_is_kept_as_tokens)
{
    static const char one[] =
        "func.func @main(%a: tensor<f32>) -> tensor<f32> {\n"
        "%0 = new.loop %a {\n %x:2 = new.pair %a\n new.yield %x#0\n} : tensor<f32>\n"
        "return %0 : tensor<f32>\n}\n";
    char *other = changed(one, "%x#0", "%x#1"), *renamed = changed(one, "%x", "%y");
    cr_expect(!same(one, other));
    cr_expect(same(one, renamed));
    free(other);
    free(renamed);
}

/* A function of `line`s on values of two types; the line stands for each "LINE". */
static char *repeated(const char *first, const char *second, const char *third)
{
    static const char text[] =
        "func.func public @main(%%a: tensor<2xf32>, %%b: tensor<3xf32>, %%c: tensor<2xf32>) -> "
        "(tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {\n"
        "  %%0 = %s\n  %%1 = %s\n  %%2 = %s\n"
        "  return %%0, %%1, %%2 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>\n}\n";
    char *out = NULL;
    cr_assert_geq(asprintf(&out, text, first, second, third), 0);
    return out;
}

Test(mlir, a_line_that_repeats_means_what_it_means_alone)
{
    static const struct {
        const char *second, *third; /* after "stablehlo.add %a, %c : tensor<2xf32>" */
        bool same;                  /* as with that line again, of other values */
    } cases[] = {
        {"stablehlo.add %c, %c : tensor<2xf32>", "stablehlo.add %0, %1 : tensor<2xf32>", true},
        {"stablehlo.add  %c,%c : tensor<2xf32>", "stablehlo.add %0, %1  :tensor<2xf32>", true},
        {"stablehlo.add %c, %c : tensor<2xf32> loc(#loc7)",
         "stablehlo.add %0, %1 : tensor<2xf32> loc(#loc123)", true},
        {"stablehlo.add %c, %c : tensor<2xf32> loc(\"x.py\":1:2)",
         "stablehlo.add %0, %1 : tensor<2xf32> // loc(#loc1)", true},
        {"stablehlo.add %c, %c : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>",
         "\"stablehlo.add\"(%0, %1) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>", true},
        {"stablehlo.add %a, %c : tensor<2xf32>", "stablehlo.add %0, %1 : tensor<2xf32>", false},
        {"stablehlo.add %c, %c : tensor<2xf32>", "stablehlo.add %0, %0 : tensor<2xf32>", false},
        {"stablehlo.subtract %c, %c : tensor<2xf32>", "stablehlo.add %0, %1 : tensor<2xf32>",
         false},
        {"stablehlo.add %c, %c {k = 1 : i64} : tensor<2xf32>",
         "stablehlo.add %0, %1 : tensor<2xf32>", false},
    };
    char *base =
        repeated("stablehlo.add %a, %c : tensor<2xf32>", "stablehlo.add %c, %c : tensor<2xf32>",
                 "stablehlo.add %0, %1 : tensor<2xf32>");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *other =
            repeated("stablehlo.add %a, %c : tensor<2xf32>", cases[i].second, cases[i].third);
        cr_expect_eq(same(base, other), cases[i].same, "%s", other);
        free(other);
    }
    free(base);
}

/* (a - b) - a, with a few words behind the last name or none. */
static struct key key_of_names(const char *a, const char *b, const char *tail)
{
    char text[512];
    snprintf(text, sizeof text,
             "func.func public @main(%%%s: tensor<2xi32>, %%%s: tensor<2xi32>) -> tensor<2xi32> {\n"
             "  %%r = stablehlo.subtract %%%s, %%%s : tensor<2xi32>\n"
             "  %%q = stablehlo.subtract %%r, %%%s : tensor<2xi32>\n"
             "  return %%q : tensor<2xi32>\n}%s",
             a, b, a, b, a, tail);
    return good_key(text);
}

Test(mlir, whatever_a_name_looks_like_it_is_a_name)
{
    static const char *const names[] = {
        "0",
        "1",
        "01",
        "00",
        "1234567",
        "12345678",
        "a",
        "a1",
        "a01",
        "a1_1",
        "x1y2",
        "123456789",
        "arg1",
        "_1",
        "$1",
        "-1",
        "a.1",
        "a-1",
        "abcdefg",
        "abcdefg1",
        "abcdefgh1",
        "abcdefgh",
        "abcdefghijkl1",
        "abcdefgi1",
        "A1",
        "cst_1",
        "cst",
        "4294967296",
        "a4294967297",
        "abcdefghijklmnopqrstuvwxyz1",
    };
    struct key want = key_of_names("left", "right", "");
    size_t n = sizeof names / sizeof *names;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            if (i == j)
                continue;
            struct key have = key_of_names(names[i], names[j], j % 2 ? "" : "  // end");
            cr_expect(key_equal(&have, &want), "%%%s and %%%s", names[i], names[j]);
        }
}

Test(mlir, a_line_of_operands_of_another_type_repeats_nothing)
{
    struct canon_result result;
    struct err e = {0};
    char *good =
        repeated("stablehlo.add %a, %c : tensor<2xf32>", "stablehlo.add %a, %c : tensor<2xf32>",
                 "stablehlo.add %a, %c : tensor<2xf32>");
    char *text = repeated("stablehlo.add %a, %c : tensor<2xf32>",
                          "stablehlo.add %b, %c : tensor<2xf32>", /* kept as its tokens */
                          "stablehlo.add %a, %c : tensor<2xf32>");
    cr_expect(!same(good, text));
    char *wrong = repeated("stablehlo.add %a, %c : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>",
                           "stablehlo.add %b, %c : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>",
                           "stablehlo.add %a, %c : tensor<2xf32>");
    cr_expect_eq(key_of(wrong, &result, &e), WARM_EMALFORMED);
    cr_expect_eq(e.line, 3u);
    free(good);
    free(text);
    free(wrong);
}

Test(mlir, the_generic_form_agrees_with_the_printed_one)
{
    static const char *const pairs[][2] = {
        {"%0 = stablehlo.slice %a [0:4, 1:8:2] : (tensor<4x8xf32>) -> tensor<4x4xf32>",
         "%0 = \"stablehlo.slice\"(%a) <{limit_indices = array<i64: 4, 8>, start_indices = "
         "array<i64: 0, 1>, strides = array<i64: 1, 2>}> : (tensor<4x8xf32>) -> tensor<4x4xf32>"},
        {"%0 = stablehlo.pad %a, %s, low = [0, 1], high = [2, 0], interior = [0, 0] : "
         "(tensor<4x8xf32>, tensor<f32>) -> tensor<6x9xf32>",
         "%0 = \"stablehlo.pad\"(%a, %s) <{edge_padding_high = array<i64: 2, 0>, edge_padding_low "
         "= "
         "array<i64: 0, 1>, interior_padding = array<i64: 0, 0>}> : (tensor<4x8xf32>, tensor<f32>) "
         "-> tensor<6x9xf32>"},
        {"%0 = stablehlo.reduce(%a init: %s) applies stablehlo.add across dimensions = [0] : "
         "(tensor<4x8xf32>, tensor<f32>) -> tensor<8xf32>",
         "%0 = \"stablehlo.reduce\"(%a, %s) <{dimensions = array<i64: 0>}> ({\n"
         "^bb0(%x: tensor<f32>, %y: tensor<f32>):\n"
         "%1 = \"stablehlo.add\"(%x, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32>\n"
         "\"stablehlo.return\"(%1) : (tensor<f32>) -> ()\n"
         "}) : (tensor<4x8xf32>, tensor<f32>) -> tensor<8xf32>"},
        {"%0 = stablehlo.reduce_precision %a, format = e5m10 : tensor<4x8xf32>",
         "%0 = \"stablehlo.reduce_precision\"(%a) <{exponent_bits = 5 : i32, mantissa_bits = 10 : "
         "i32}> : (tensor<4x8xf32>) -> tensor<4x8xf32>"},
        {"%0 = stablehlo.iota dim = 1 : tensor<4x8xi32>",
         "%0 = \"stablehlo.iota\"() <{iota_dimension = 1 : i64}> : () -> tensor<4x8xi32>"},
        {"%0 = stablehlo.concatenate %a, %a, dim = 0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> "
         "tensor<8x8xf32>",
         "%0 = \"stablehlo.concatenate\"(%a, %a) <{dimension = 0 : i64}> : (tensor<4x8xf32>, "
         "tensor<4x8xf32>) -> tensor<8x8xf32>"},
        {"%0 = stablehlo.custom_call @f(%a) {backend_config = \"q\"} : (tensor<4x8xf32>) -> "
         "tensor<4xf32>",
         "%0 = \"stablehlo.custom_call\"(%a) <{api_version = 1 : i32, backend_config = \"q\", "
         "call_target_name = \"f\", has_side_effect = false}> : (tensor<4x8xf32>) -> "
         "tensor<4xf32>"},
        {"%0 = stablehlo.rng_bit_generator %k, algorithm = THREE_FRY : (tensor<2xui64>) -> "
         "tensor<2xui64>",
         "%0 = \"stablehlo.rng_bit_generator\"(%k) <{rng_algorithm = #stablehlo<rng_algorithm "
         "THREE_FRY>}> : (tensor<2xui64>) -> tensor<2xui64>"},
        {"%0 = stablehlo.fft %z, type = FFT, length = [8] : (tensor<8xcomplex<f32>>) -> "
         "tensor<8xcomplex<f32>>",
         "%0 = \"stablehlo.fft\"(%z) <{fft_length = array<i64: 8>, fft_type = #stablehlo<fft_type "
         "FFT>}> : (tensor<8xcomplex<f32>>) -> tensor<8xcomplex<f32>>"},
        {"%0 = chlo.top_k(%a, k = 2) : tensor<4x8xf32> -> tensor<4x2xf32>",
         "%0 = \"chlo.top_k\"(%a) <{k = 2 : i64}> : (tensor<4x8xf32>) -> tensor<4x2xf32>"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char *texts[2];
        for (size_t k = 0; k < 2; k++) {
            static const char frame[] =
                "func.func @main(%a: tensor<4x8xf32>, %s: tensor<f32>, %k: tensor<2xui64>, "
                "%z: tensor<8xcomplex<f32>>) {\nBODY\n\"mine.use\"(%0) : (TYPE) -> ()\nreturn\n}\n";
            char *body = changed(frame, "BODY", pairs[i][k]);
            const char *colon = strrchr(pairs[i][0], ' ');
            texts[k] = changed(body, "TYPE", colon + 1);
            free(body);
        }
        cr_expect(same(texts[0], texts[1]), "%s", pairs[i][0]);
        free(texts[0]);
        free(texts[1]);
    }
}

Test(mlir, aliases_are_what_they_stand_for)
{
    static const char with[] = "#groups = dense<[[0, 1]]> : tensor<1x2xi64>\n"
                               "!t = tensor<4xf32>\n" FUNC("%a: !t", "%0 = \"mine.op\"(%a) {g = "
                                                                     "#groups} : (!t) -> !t\n"
                                                                     "return %0 : !t");
    static const char without[] =
        FUNC("%a: tensor<4xf32>", "%0 = \"mine.op\"(%a) {g = dense<[[0, 1]]> : tensor<1x2xi64>} : "
                                  "(tensor<4xf32>) -> tensor<4xf32>\nreturn %0 : tensor<4xf32>");
    cr_expect(same(with, without));
    char *other = changed(with, "[[0, 1]]", "[[1, 0]]");
    cr_expect(!same(with, other));
    free(other);
}

Test(mlir, resources_are_constants)
{
    static const char resource[] =
        FUNC("", "%0 = stablehlo.constant dense_resource<w> : tensor<4xf32>\n"
                 "return %0 : tensor<4xf32>") "{-#\n  dialect_resources: {\n    builtin: {\n"
                                              "      w: \"0x040000000000803F00000040000040400000"
                                              "8040\"\n    }\n  }\n#-}\n";
    static const char dense[] =
        FUNC("", "%0 = stablehlo.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>\n"
                 "return %0 : tensor<4xf32>");
    cr_expect(same(resource, dense));
}

/* As MLIR prints them, and in the generic form. */
Test(mlir, attributes_of_ones_own_stand_where_the_operation_prints_them)
{
    static const char *const lines[][2] = {
        {"%0 = stablehlo.slice %a [0:2] {mine = \"x\"} : (tensor<4xf32>) -> tensor<2xf32>\n",
         "%0 = \"stablehlo.slice\"(%a) <{limit_indices = array<i64: 2>, start_indices = array<i64: "
         "0>, "
         "strides = array<i64: 1>}> {mine = \"x\"} : (tensor<4xf32>) -> tensor<2xf32>\n"},
        {"%0 = stablehlo.compare  LT, %a, %a,  FLOAT {mine = \"x\"} : (tensor<4xf32>, "
         "tensor<4xf32>) -> "
         "tensor<4xi1>\n",
         "%0 = \"stablehlo.compare\"(%a, %a) <{compare_type = #stablehlo<comparison_type FLOAT>, "
         "comparison_direction = #stablehlo<comparison_direction LT>}> {mine = \"x\"} : "
         "(tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>\n"},
        {"%0 = stablehlo.optimization_barrier {mine = \"x\"} %a : tensor<4xf32>\n",
         "%0 = \"stablehlo.optimization_barrier\"(%a) {mine = \"x\"} : (tensor<4xf32>) -> "
         "tensor<4xf32>\n"},
        {"%0:2 = chlo.top_k(%a, k = 4) {mine = \"x\"} : tensor<4xf32> -> (tensor<4xf32>, "
         "tensor<4xi32>)\n",
         "%0:2 = \"chlo.top_k\"(%a) {k = 4 : i64, mine = \"x\"} : (tensor<4xf32>) -> "
         "(tensor<4xf32>, "
         "tensor<4xi32>)\n"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char texts[2][1024];
        for (int k = 0; k < 2; k++)
            snprintf(texts[k], sizeof texts[k],
                     "func.func @main(%%a: tensor<4xf32>) {\n%sreturn %%0%s : %s\n}\n", lines[i][k],
                     i == 3 ? "#0" : "",
                     i == 0   ? "tensor<2xf32>"
                     : i == 1 ? "tensor<4xi1>"
                              : "tensor<4xf32>");
        cr_expect(same(texts[0], texts[1]), "%s", lines[i][0]);
        char *other = changed(texts[0], "\"x\"", "\"y\"");
        cr_expect(!same(texts[0], other), "%s", lines[i][0]);
        free(other);
    }
}

static bool same_number(const char *one, const char *other, const char *type)
{
    static const char form[] =
        "func.func @main() -> tensor<%s> {\n"
        "  %%0 = stablehlo.constant dense<%s> : tensor<%s>\n  return %%0 : tensor<%s>\n}\n";
    char texts[2][512];
    snprintf(texts[0], sizeof texts[0], form, type, one, type, type);
    snprintf(texts[1], sizeof texts[1], form, type, other, type, type);
    return same(texts[0], texts[1]);
}

/* As MLIR reads them. */
Test(mlir, numbers_of_small_floats_are_their_bits)
{
    cr_expect(same_number("1.5", "1.500000e+00", "f8E4M3FN"));
    cr_expect(same_number("1.5", "0x3C", "f8E4M3FN"));
    cr_expect(same_number("1.5", "\"0x3C\"", "f8E4M3FN"));
    cr_expect(same_number("[1.5, -448.0]", "\"0x3CFE\"", "2xf8E4M3FN"));
    cr_expect(same_number("[1.5, 1.5]", "0x3C", "2xf8E4M3FN"));
    cr_expect(same_number("1.953130e-03", "0x01", "f8E4M3FN"), "the smallest, printed in short");
    cr_expect(same_number("1.0625", "0x38", "f8E4M3FN"), "to the even one below");
    cr_expect(same_number("1.1875", "0x3A", "f8E4M3FN"), "and above");
    cr_expect(same_number("57344.0", "0x7B", "f8E5M2"));
    cr_expect(same_number("1.0e-30", "0.0", "f8E5M2"));
    cr_expect(same_number("240.0", "0x77", "f8E4M3"));
    cr_expect(same_number("15.5", "0x6F", "f8E3M4"));
    cr_expect(same_number("240.0", "0x7F", "f8E4M3FNUZ"));
    cr_expect(same_number("57344.0", "0x7F", "f8E5M2FNUZ"));
    cr_expect(same_number("30.0", "0x7F", "f8E4M3B11FNUZ"));
    cr_expect(same_number("-7.5", "0x3F", "f6E2M3FN"));
    cr_expect(same_number("28.0", "0x1F", "f6E3M2FN"));
    cr_expect(same_number("-6.0", "0xF", "f4E2M1FN"));
    cr_expect(same_number("-0.0", "0x80", "f8E4M3FN"));
    cr_expect(!same_number("-0.0", "0.0", "f8E4M3FN"));
    cr_expect(!same_number("-0.0", "0x80", "f8E4M3FNUZ"), "which has no such zero, but a NaN");
    cr_expect(!same_number("1.5", "1.625", "f8E4M3FN"));
    cr_expect(!same_number("1.5", "-1.5", "f8E4M3FN"));
    cr_expect(!same_number("0x7F", "0xFF", "f8E4M3FN"), "two NaNs");
    cr_expect(!same_number("500.0", "0x7E", "f8E4M3FN"), "what is too large stays as it is");
    cr_expect(!same_number("500.0", "600.0", "f8E4M3FN"));
}

Test(mlir, each_prefix_of_a_module_is_an_error_or_another_key)
{
    size_t len = strlen(model);
    struct key whole = good_key(model);
    for (size_t n = 0; n + 2 < len; n++) {
        struct canon_input input = {.data = model, .len = n, .kind = CANON_MLIR};
        struct canon_result r;
        struct err e;
        if (canon_key(&input, &r, NULL, &e) == 0)
            cr_expect(!key_equal(&whole, &r.key), "%zu bytes", n);
    }
}

Test(mlir, the_canonical_text_is_readable_and_is_what_is_hashed)
{
    struct canon_input input = {.data = FUNC("%x: tensor<4xf32>",
                                             "%c = stablehlo.constant dense<1.0> : tensor<4xf32>\n"
                                             "%y = stablehlo.add %x, %c : tensor<4xf32>\n"
                                             "return %y : tensor<4xf32>"),
                                .kind = CANON_MLIR};
    input.len = strlen(input.data);
    struct canon_result r;
    struct writer text;
    writer_init(&text, 0);
    cr_assert_eq(canon_key(&input, &r, &text, NULL), 0);
    writer_u8(&text, 0);
    cr_expect_str_eq((const char *)text.data,
                     "func public @#0(%0 : tensor<4xf32>) -> (tensor<4xf32>) {\n"
                     "  %1 = stablehlo.constant {value = dense<0000803F> : tensor<4xf32>} : "
                     "tensor<4xf32>\n"
                     "  %2 = stablehlo.add %0, %1 : tensor<4xf32>\n"
                     "  func.return %2\n"
                     "}\n"
                     "module\n"
                     "name @#0 main\n");
    writer_close(&text);
}

Test(mlir, golden_keys)
{
    static const char empty[] = "module {\n}\n";
    canon_expect_golden("mlir", CANON_MLIR, model, strlen(model));
    canon_expect_golden("mlir_empty", CANON_MLIR, empty, strlen(empty));
}
