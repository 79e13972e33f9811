/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_mlir_lines.c - lines of MLIR text in a usual and in an unusual spelling, each twice: they are one program,
 * and each part of a line counts.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "keygen/canon/canon.h"

static int key_of(const char *text, struct key *out, struct err *e)
{
    struct canon_input input = {.data = text, .len = strlen(text), .kind = CANON_MLIR};
    struct canon_result result = {0};
    int rc = canon_key(&input, &result, NULL, e);
    cr_assert(!result.exact, "%s", text);
    *out = result.key;
    return rc;
}

static struct key good_key(const char *text)
{
    struct key key;
    struct err e = {0};
    cr_assert_eq(key_of(text, &key, &e), 0, "%u:%u: %s in\n%s", e.line, e.column, e.text, text);
    return key;
}

/* `text` with each `from` (or only the n-th, from 1) replaced by `to`; free() it. */
static char *changed(const char *text, const char *from, const char *to, unsigned only)
{
    size_t room = strlen(text) * (1 + strlen(to)) + 1;
    char *out = malloc(room), *at = out;
    unsigned n = 0;
    cr_assert(strstr(text, from), "'%s' is not in the text", from);
    for (const char *p; (p = strstr(text, from)); text = p + strlen(from)) {
        memcpy(at, text, (size_t)(p - text));
        at += p - text;
        at = stpcpy(at, !only || ++n == only ? to : from);
    }
    strcpy(at, text);
    return out;
}

/* Each line is there twice. */
static const char usual[] =
    "module @m {\n"
    "  func.func public @main(%arg0: tensor<4x8xf32>, %arg1: tensor<4x8xf32>, %arg2: tensor<i32>) "
    "-> "
    "(tensor<4xf32>, tensor<4xf32>) {\n"
    "    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>\n"
    "    %0 = stablehlo.slice %arg0 [0:4, 1:7:2] : (tensor<4x8xf32>) -> tensor<4x3xf32>\n"
    "    %1 = stablehlo.slice %arg1 [0:4, 1:7:2] : (tensor<4x8xf32>) -> tensor<4x3xf32>\n"
    "    %2 = stablehlo.slice %arg1 [0:4, 2:8:2] : (tensor<4x8xf32>) -> tensor<4x3xf32>\n"
    "    %3 = stablehlo.compare GT, %0, %1, FLOAT : (tensor<4x3xf32>, tensor<4x3xf32>) -> "
    "tensor<4x3xi1>\n"
    "    %4 = stablehlo.compare LT, %1, %2, FLOAT : (tensor<4x3xf32>, tensor<4x3xf32>) -> "
    "tensor<4x3xi1>\n"
    "    %5 = stablehlo.select %3, %0, %1 : tensor<4x3xi1>, tensor<4x3xf32>\n"
    "    %6 = stablehlo.select %4, %1, %2 : tensor<4x3xi1>, tensor<4x3xf32>\n"
    "    %7:2 = call @both(%5, %arg2) : (tensor<4x3xf32>, tensor<i32>) -> (tensor<4x3xf32>, "
    "tensor<i32>)\n"
    "    %8:2 = call @both(%6, %7#1) : (tensor<4x3xf32>, tensor<i32>) -> (tensor<4x3xf32>, "
    "tensor<i32>)\n"
    "    %9 = stablehlo.subtract %7#0, %8#0 : tensor<4x3xf32>\n"
    "    %10 = stablehlo.subtract %8#0, %9 : tensor<4x3xf32>\n"
    "    %11 = stablehlo.reduce(%9 init: %cst) applies stablehlo.add across dimensions = [1] : "
    "(tensor<4x3xf32>, tensor<f32>) -> tensor<4xf32>\n"
    "    %12 = stablehlo.reduce(%10 init: %cst) applies stablehlo.add across dimensions = [1] : "
    "(tensor<4x3xf32>, tensor<f32>) -> tensor<4xf32>\n"
    "    %13 = stablehlo.transpose %10, dims = [1, 0] : (tensor<4x3xf32>) -> tensor<3x4xf32>\n"
    "    %14 = stablehlo.reduce(%13 init: %cst) applies stablehlo.maximum across dimensions = [0] "
    ": "
    "(tensor<3x4xf32>, tensor<f32>) -> tensor<4xf32>\n"
    "    %15 = stablehlo.multiply %12, %14 : tensor<4xf32>\n"
    "    return %11, %15 : tensor<4xf32>, tensor<4xf32>\n"
    "  }\n"
    "  func.func private @both(%arg0: tensor<4x3xf32>, %arg1: tensor<i32>) -> (tensor<4x3xf32>, "
    "tensor<i32>) {\n"
    "    %c = stablehlo.constant dense<1> : tensor<i32>\n"
    "    %0 = stablehlo.subtract %arg1, %c : tensor<i32>\n"
    "    %1 = stablehlo.negate %arg0 : tensor<4x3xf32>\n"
    "    return %1, %0 : tensor<4x3xf32>, tensor<i32>\n"
    "  }\n"
    "}\n";

Test(mlir_lines, unusual_spelling_is_the_same_program)
{
    static const char *const spellings[][2] = {
        {") -> ", ")  ->  "},
        {" : (", " :  ("},
        {", ", " , "},
        {" = stablehlo", " =  stablehlo"},
        {"\n    ", "  // a note\n\t"},
        {"f32>\n", "f32> loc(#loc3)\n"},
        {"f32>\n", "f32> loc(\"x.py\":1:2)\n"},
        {"f32>\n", "f32>\n    loc(\"x.py\":1:2)\n"},
        {") -> tensor", ")\n      -> tensor"},
        {"tensor<i32>)\n", "tensor<i32>\n)\n"},
        {"[0:4, ", "[ 0 : 4 , "},
        {"init: ", "init:"},
        {" applies", "\n  applies"},
        {"tensor<4x3xf32>\n", "tensor<4x3xf32> // %9\n"},
    };
    struct key want = good_key(usual);
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++)
        for (unsigned only = 0; only < 4; only++) {
            char *text = changed(usual, spellings[i][0], spellings[i][1], only);
            struct key have = good_key(text);
            cr_expect(key_equal(&have, &want), "'%s' %u", spellings[i][1], only);
            free(text);
        }
}

Test(mlir_lines, whatever_a_line_says_counts)
{
    static const char *const changes[][2] = {
        {"[0:4, 1:7:2]", "[0:4, 0:6:2]"},
        {"[0:4, 2:8:2]", "[0:4, 2:7:2]"},
        {"compare GT", "compare GE"},
        {"compare LT, %1, %2, FLOAT", "compare LT, %1, %2, TOTALORDER"},
        {"%8:2 = call @both(%6, %7#1)", "%8:2 = call @both(%5, %7#1)"},
        {"subtract %8#0, %9 ", "subtract %9, %8#0 "},
        {"%10 init: %cst) applies stablehlo.add", "%10 init: %cst) applies stablehlo.minimum"},
        {"reduce(%10 init", "reduce(%9 init"},
        {"return %11, %15", "return %15, %11"},
        {"select %4, %1, %2", "select %4, %2, %1"},
    };
    struct key base = good_key(usual);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        char *text = changed(usual, changes[i][0], changes[i][1], 0);
        struct key have = good_key(text);
        cr_expect(!key_equal(&have, &base), "'%s'", changes[i][1]);
        free(text);
    }
}

/* The type goes on behind its line, to the end of the memory. */
Test(mlir_lines, a_type_that_does_not_end_is_an_error)
{
    static const char text[] = "func.func @main(%a: tensor<2xui64>) -> tensor<2xui64> {\n"
                               "  %0:2 = stablehlo.rng_bit_generator %a, algorithm = DEFAULT : "
                               "(tensor<2xui64>) -> (tensor<2x\n"
                               "  return %0 : tensor/<2xui64>\n}";
    size_t len = strlen(text);
    char *exact = malloc(len);
    struct canon_input input = {.data = memcpy(exact, text, len), .len = len, .kind = CANON_MLIR};
    struct canon_result result;
    struct err e = {0};
    int rc = canon_key(&input, &result, NULL, &e);
    cr_expect_eq(rc, WARM_ETRUNCATED, "%d: %s", rc, e.text);
    cr_expect_eq(e.line, 4, "%u:%u: %s", e.line, e.column, e.text);
    free(exact);
}

Test(mlir_lines, types_that_the_operands_do_not_have_are_an_error_in_the_second_line_too)
{
    static const char *const changes[][2] = {
        {"reduce(%10 init: %cst)", "reduce(%13 init: %cst)"},
        {"reduce(%10 init: %cst)", "reduce(%10 init: %10)"},
        {"slice %arg1 [0:4, 1", "slice %0 [0:4, 1"},
        {"@both(%6, %7#1)", "@both(%7#1, %6)"},
    };
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        struct key key;
        struct err e = {0};
        char *text = changed(usual, changes[i][0], changes[i][1], 0);
        cr_expect_eq(key_of(text, &key, &e), WARM_EMALFORMED, "'%s'", changes[i][1]);
        cr_expect_gt(e.line, 4u);
        free(text);
    }
}
