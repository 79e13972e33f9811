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
