/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_mlir_hostile.c - texts that are no MLIR program, or one that a reader could choke on: refused with
 * their place, or read in bounded memory.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "keygen/canon/canon.h"

#define FUNC(args, body) "func.func @main(" args ") -> tensor<4xf32> {\n" body "\n}\n"

static int key_of(const char *text, struct canon_result *out, struct err *e)
{
    struct canon_input input = {.data = text, .len = strlen(text), .kind = CANON_MLIR};
    memset(e, 0, sizeof *e);
    return canon_key(&input, out, NULL, e);
}

static void expect_error(const char *text, int code, unsigned line)
{
    struct canon_result r;
    struct err e;
    cr_expect_eq(key_of(text, &r, &e), code, "%s: %s", err_name(e.code), text);
    cr_expect_eq(e.line, line, "line %u of %s", e.line, text);
    cr_expect_gt(e.column, 0);
}

Test(mlir_hostile, elided_text_is_refused_with_its_place)
{
    expect_error(FUNC("", "%0 = stablehlo.constant dense<...> : tensor<4xf32>\nreturn %0 : "
                          "tensor<4xf32>"),
                 WARM_EREFUSED, 2);
    expect_error(FUNC("", "%0 = stablehlo.constant dense_resource<__elided__> : tensor<4xf32>\n"
                          "return %0 : tensor<4xf32>"),
                 WARM_EREFUSED, 2);
    expect_error(FUNC("", "%0 = \"mine.op\"() {a = [...]} : () -> tensor<4xf32>\n"
                          "return %0 : tensor<4xf32>"),
                 WARM_EREFUSED, 2);
}

Test(mlir_hostile, what_is_no_program_has_no_key)
{
    expect_error(FUNC("", "%0 = stablehlo.constant dense<0x10> : tensor<f4E2M1FN>"),
                 WARM_EMALFORMED, 2);
    expect_error(FUNC("%a: tensor<4xf32>", "return %b : tensor<4xf32>"), WARM_EMALFORMED, 2);
    expect_error(FUNC("%a: tensor<4xf32>", "%0 = stablehlo.convert %a : (tensor<5xf32>) -> "
                                           "tensor<4xf32>\nreturn %0 : tensor<4xf32>"),
                 WARM_EMALFORMED, 2);
    expect_error("func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n", WARM_ETRUNCATED, 2);
    expect_error("module {\n  func.func @f(", WARM_ETRUNCATED, 2);
    expect_error(FUNC("", "%0 = stablehlo.constant dense<300> : tensor<4xi8>\n"
                          "return %0 : tensor<4xf32>"),
                 WARM_EMALFORMED, 2);
    expect_error("}\n", WARM_EMALFORMED, 1);
    expect_error(FUNC("%a: tensor<4xf32>", "%0 = \"mine.op\"(%a) {m = #map} : (tensor<4xf32>) -> "
                                           "tensor<4xf32>\nreturn %0 : tensor<4xf32>"),
                 WARM_EMALFORMED, 2);
}

#define T "tensor<4xf32>"
#define ABS(name, of) "%" name " = stablehlo.abs %" of " : " T "\n"
#define GENERIC(name, of) "%" name " = \"stablehlo.abs\"(%" of ") : (" T ") -> " T "\n"
#define RETURN(of) "return %" of " : " T
#define WHILE(name, cond, body)                                                                    \
    "%" name " = stablehlo.while(%i = %a) : " T "\ncond {\n" cond                                  \
    "%t = stablehlo.constant dense<true> : tensor<i1>\nstablehlo.return %t : tensor<i1>\n} do "    \
    "{\n" body "stablehlo.return %i : " T "\n}\n"
#define SUM(name)                                                                                  \
    "%" name                                                                                       \
    " = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [0] : (" T         \
    ", tensor<f32>) -> tensor<f32>\n"

/* The rule of MLIR's text: a name has one value in a region. Names of closed regions are free again. */
Test(mlir_hostile, a_name_has_one_value_in_a_region)
{
    static const struct {
        const char *text;
        unsigned line, column; /* of the error; 0: there is none */
    } CASES[] = {
        {FUNC("%a: " T, ABS("0", "a") ABS("0", "a") RETURN("0")), 3, 1},
        {FUNC("%a: " T, ABS("0", "a") "  " ABS("0", "0") RETURN("0")), 3, 3},
        {FUNC("%a: " T, GENERIC("x", "a") GENERIC("y", "x") GENERIC("x", "y") RETURN("x")), 4, 1},
        {FUNC("%a: " T, ABS("a-b", "a") ABS("a-b", "a") RETURN("a")), 3, 1}, /* no family */
        {FUNC("%a: " T, ABS("a", "a") RETURN("a")), 2, 1},
        {FUNC("%a: " T ", %a: " T, RETURN("a")), 1, 53},
        {FUNC("%a: " T, "%0, %0 = \"mine.op\"() : () -> (" T ", " T ")\n" RETURN("0")), 2, 5},
        {FUNC("%a: " T, "%0:2 = mine.op\n" ABS("0", "a") RETURN("a")), 3, 1},
        {FUNC("%a: " T, "%c = stablehlo.constant dense<1.0> : " T
                        "\n%c = stablehlo.constant dense<1.0> : " T "\n" RETURN("c")),
         3, 1},
        {FUNC("%a: " T,
              "%z = stablehlo.constant dense<1.0> : tensor<f32>\n" SUM("0") SUM("0") RETURN("a")),
         4, 1},
        {FUNC("%a: " T, ABS("w", "a") WHILE("w", "", "") RETURN("w")), 3, 1},
        {FUNC("%a: " T, WHILE("w", "", ABS("0", "i") ABS("0", "i")) RETURN("w")), 8, 1},
        {FUNC("%a: " T, WHILE("w", "", ABS("i", "a")) RETURN("w")), 7, 1},
        {FUNC("%a: " T,
              "\"mine.op\"() ({\n^bb0(%x: " T ", %x: " T "):\n}) : () -> ()\n" RETURN("a")),
         3, 42},
        {FUNC("%a: " T, "\"mine.op\"() ({\n" ABS("0", "a") "^bb1:\n" ABS(
                            "0", "a") "}) : () -> ()\n" RETURN("a")),
         5, 1},
        /* in other regions and functions */
        {FUNC("%a: " T, WHILE("w", ABS("0", "i"), ABS("0", "i")) ABS("0", "w") RETURN("0")), 0, 0},
        {FUNC("%a: " T, WHILE("w", "", "") WHILE("v", "", "") ABS("i", "v") RETURN("i")), 0, 0},
        {FUNC("%a: " T, "\"mine.isolated\"() ({\n^bb0(%a: " T
                        "):\n" ABS("0", "a") "}, {\n^bb0(%a: " T "):\n" ABS(
                            "0", "a") "}) : () -> ()\n" ABS("0", "a") RETURN("0")),
         0, 0},
        {FUNC("%a: " T, ABS("0", "a") RETURN("0")) "func.func @g(%a: " T ") -> " T
                                                   " {\n" ABS("0", "a") RETURN("0") "\n}\n",
         0, 0},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct canon_result r;
        struct err e;
        int rc = key_of(CASES[i].text, &r, &e);
        cr_expect_eq(rc, CASES[i].line ? WARM_EMALFORMED : 0, "%s: %s", e.text, CASES[i].text);
        cr_expect(e.line == CASES[i].line && e.column == CASES[i].column, "%u:%u of %s", e.line,
                  e.column, CASES[i].text);
        cr_expect(rc == 0 || strstr(e.text, "a name that has a value already"), "%s", e.text);
    }
}

Test(mlir_hostile, deep_nesting_needs_no_stack)
{
    enum { DEPTH = 100000 };
    static const char open[] = "\"mine.op\"() ({\n", close[] = "}) : () -> ()\n";
    char *text = malloc(DEPTH * (sizeof open + sizeof close) + 1), *at = text;
    for (int i = 0; i < DEPTH; i++)
        at = stpcpy(at, open);
    for (int i = 0; i < DEPTH; i++)
        at = stpcpy(at, close);
    struct canon_input input = {.data = text, .len = (size_t)(at - text), .kind = CANON_MLIR};
    struct canon_result r;
    struct err e;
    cr_assert_eq(canon_key(&input, &r, NULL, &e), 0, "%s", e.text);
    cr_expect(!r.exact);
    free(text);
}

Test(mlir_hostile, aliases_of_aliases_cannot_blow_up)
{
    char text[8192], *at = text;
    at += sprintf(at, "#a0 = [1, 2, 3, 4, 5, 6, 7, 8]\n");
    for (int i = 1; i < 60; i++)
        at += sprintf(at, "#a%d = [#a%d, #a%d]\n", i, i - 1, i - 1);
    sprintf(at, "func.func @main() {\n\"mine.op\"() {x = #a59} : () -> ()\nreturn\n}\n");
    struct canon_result r;
    struct err e;
    cr_assert_eq(key_of(text, &r, &e), 0, "%s", e.text);
    cr_expect(r.exact);
}
