/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_mlir_reader.c - the reader for programs whose types and attributes alone are text: a program that is
 * built by it has the key of its text. The first error stops it. test_mlir_bytecode.c has bytecode.
 */
#include <criterion/criterion.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "keygen/mlir/reader.h"
#include "tests/support/canon_kit.h"

static struct form form;
static struct mlir *m;
static struct graph *g;
static struct err e;
static const struct mlir_parts none;

static void begin(void)
{
    memset(&form, 0, offsetof(struct form, buffer));
    m = mlir_reader_new(false, &form, &e);
    cr_assert_not_null(m);
    g = mlir_reader_graph(m);
}
TestSuite(mlir_reader, .init = begin);

static char *spoiled[64]; /* not freed, so that no later text is at their place */
static unsigned n_spoiled;

/* Overwrites a text that the reader has seen. */
static void spoil(char *text)
{
    memset(text, 'x', strlen(text));
    cr_assert_lt(n_spoiled, sizeof spoiled / sizeof *spoiled);
    spoiled[n_spoiled++] = text;
}

/* Returns the number of a type. */
static uint32_t type_of(const char *text)
{
    char *copy = strdup(text);
    uint32_t type = mlir_reader_type(m, view_of_text(copy));
    spoil(copy);
    return type;
}

/* Returns the number of an operation. */
static uint32_t op_of(const char *name)
{
    char *copy = strdup(name);
    uint32_t op = mlir_reader_op(m, view_of_text(copy));
    spoil(copy);
    return op;
}

/* Adds an operation of one operand and one result, or none: type 0. Returns the result. */
static uint32_t add_op(const char *name, uint32_t operand, uint32_t type,
                       const struct mlir_parts *parts)
{
    uint32_t op = op_of(name), dict = mlir_reader_dict(m, op, parts);
    graph_op_begin(g, mlir_reader_name(m, op));
    graph_op_dict(g, dict);
    graph_op_operand(g, operand);
    if (type)
        graph_op_result(g, type);
    return graph_op_end(g);
}

/* Builds the function @main, which applies an operation to its argument. */
static void build(const char *name, const struct mlir_parts *parts)
{
    struct mlir_parts func = {.properties =
                                  view_of_text("{function_type = (tensor<4xf32>) -> tensor<4xf32>, "
                                               "sym_name = \"main\"}")};
    uint32_t type = type_of("tensor<4xf32>");
    uint32_t argument = mlir_reader_func(m, op_of("\"func.func\""), &func, &type, 1, false);
    add_op("\"func.return\"", add_op(name, argument, type, parts), 0, &none);
    graph_func_end(g);
}

/* Ends the reader, and compares the key with that of a text. */
static bool has_key_of(const char *text)
{
    struct canon_result want = canon_of(CANON_MLIR, text);
    struct key key;
    struct proof proof;
    cr_assert_eq(mlir_reader_free(m, true, &form, &e), 0, "%s", e.text);
    form_end(&form, &key, &proof);
    return key_equal(&key, &want.key) && proof_equal(&proof, &want.proof);
}

#define MAIN(line)                                                                                 \
    "func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n%0 = " line "\n"                       \
    "return %0 : tensor<4xf32>\n}\n"

/* ---- programs ---- */

Test(mlir_reader, a_program_has_the_key_of_its_text)
{
    build("\"stablehlo.tanh\"", &none);
    cr_expect(has_key_of(MAIN("stablehlo.tanh %a : tensor<4xf32>")));
}

Test(mlir_reader, another_program_has_another_key)
{
    build("\"stablehlo.sine\"", &none);
    cr_expect_not(has_key_of(MAIN("stablehlo.tanh %a : tensor<4xf32>")));
}

Test(mlir_reader, properties_and_attributes_are_one_dictionary)
{
    struct mlir_parts parts = {.properties = view_of_text("{b = 2 : i32}"),
                               .attributes = view_of_text("{a = \"x\"}")};
    build("\"stablehlo.tanh\"", &parts);
    cr_expect(has_key_of(MAIN("stablehlo.tanh %a {a = \"x\", b = 2 : i32} : tensor<4xf32>")));
}

Test(mlir_reader, attributes_that_the_form_drops_are_dropped)
{
    struct mlir_parts parts = {
        .properties = view_of_text("{result_accuracy = #stablehlo.result_accuracy<mode = "
                                   "#stablehlo.result_accuracy_mode<DEFAULT>>}")};
    build("\"stablehlo.tanh\"", &parts);
    cr_expect(has_key_of(MAIN("stablehlo.tanh %a : tensor<4xf32>")));
}

Test(mlir_reader, the_same_attribute_of_another_operation_is_kept)
{
    struct mlir_parts parts = {
        .properties = view_of_text("{result_accuracy = #stablehlo.result_accuracy<mode = "
                                   "#stablehlo.result_accuracy_mode<DEFAULT>>}")};
    build("\"stablehlo.negate\"", &parts);
    cr_expect_not(has_key_of(MAIN("stablehlo.negate %a : tensor<4xf32>")));
}

Test(mlir_reader, the_modules_dictionary_counts)
{
    struct mlir_parts parts = {.attributes = view_of_text("{mhlo.num_partitions = 2 : i32}")};
    mlir_reader_module(m, op_of("\"builtin.module\""), &parts);
    build("\"stablehlo.tanh\"", &none);
    cr_expect(has_key_of("module attributes {mhlo.num_partitions = 2 : i32} {\n" MAIN(
        "stablehlo.tanh %a : tensor<4xf32>") "}\n"));
}

Test(mlir_reader, a_declaration_has_no_values)
{
    struct mlir_parts parts = {
        .properties = view_of_text("{function_type = (tensor<4xf32>) -> tensor<4xf32>, "
                                   "sym_name = \"f\", sym_visibility = \"private\"}")};
    mlir_reader_func(m, op_of("\"func.func\""), &parts, NULL, 0, true);
    graph_func_end(g);
    cr_expect_eq(graph_n_values(g), 0);
    cr_expect(has_key_of("func.func private @f(tensor<4xf32>) -> tensor<4xf32>"));
}

Test(mlir_reader, equal_texts_have_equal_numbers)
{
    uint32_t f32 = type_of("tensor<4xf32>"), add = op_of("\"stablehlo.add\"");
    cr_expect_neq(f32, 0);
    cr_expect_neq(type_of("tensor<4xf64>"), f32);
    cr_expect_eq(type_of("tensor<4xf32>"), f32);
    cr_expect_neq(op_of("\"stablehlo.subtract\""), add);
    cr_expect_eq(op_of("\"stablehlo.add\""), add);
    cr_expect_eq(mlir_reader_name(m, op_of("\"stablehlo.add\"")), mlir_reader_name(m, add));
    cr_expect_eq(mlir_reader_dict(m, add, &none), 0, "the empty dictionary");
    cr_expect_eq(mlir_reader_free(m, false, &form, &e), 0);
}

/* ---- errors ---- */

/* Expects that the reader has stopped, that all calls are harmless now, and that the first error is told. */
static void expect_stopped(const char *why)
{
    struct mlir_parts parts = {.properties = view_of_text("{a = }")};
    uint32_t type = 0;
    cr_expect(mlir_reader_stopped(m), "`%s`", why);
    type_of("tensor<");
    uint32_t op = op_of("\"stablehlo.add\"");
    mlir_reader_name(m, op);
    mlir_reader_dict(m, op, &parts);
    mlir_reader_module(m, op, &parts);
    mlir_reader_func(m, op, &parts, &type, 1, false);
    cr_expect(mlir_reader_stopped(m), "`%s`", why);
    int code = mlir_reader_free(m, true, &form, &e);
    cr_expect(code == WARM_EMALFORMED || code == WARM_ETRUNCATED, "%s: %d", why, code);
    cr_expect_gt(strlen(e.text), 0, "%s", why);
}

Test(mlir_reader, a_text_that_is_no_type_stops_it)
{
    static const char *const types[] = {" ", "tensor<4xf32> tensor<4xf32>", "!", "tensor<4xf32> x",
                                        ")"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (i)
            begin();
        cr_expect_not(mlir_reader_stopped(m));
        cr_expect_eq(type_of(types[i]), 0, "%s", types[i]);
        expect_stopped(types[i]);
    }
}

Test(mlir_reader, a_text_that_is_no_dictionary_stops_it)
{
    static const char *const dicts[] = {"{a = }", "{a = 1", "{a 1}", "{= 1}", "{a = \"x}", "a = 1"};
    for (size_t i = 0; i < sizeof dicts / sizeof *dicts; i++) {
        struct mlir_parts parts = {.attributes = view_of_text(dicts[i])};
        if (i)
            begin();
        cr_expect_eq(mlir_reader_dict(m, op_of("\"stablehlo.add\""), &parts), 0, "%s", dicts[i]);
        expect_stopped(dicts[i]);
    }
}

Test(mlir_reader, a_function_without_its_properties_stops_it)
{
    static const char *const properties[] = {"", "{}", "{sym_name = \"f\"}",
                                             "{function_type = () -> ()}",
                                             "{function_type = 1, sym_name = \"f\"}"};
    for (size_t i = 0; i < sizeof properties / sizeof *properties; i++) {
        struct mlir_parts parts = {.properties = view_of_text(properties[i])};
        if (i)
            begin();
        mlir_reader_func(m, op_of("\"func.func\""), &parts, NULL, 0, false);
        expect_stopped(properties[i]);
    }
}

Test(mlir_reader, an_error_tells_its_place_in_its_own_text)
{
    struct mlir_parts parts = {.properties = view_of_text("{b = 2 : i32}"),
                               .attributes = view_of_text("{c = 1 : i32,\na 1}")};
    mlir_reader_dict(m, op_of("\"stablehlo.add\""), &parts);
    cr_expect_neq(mlir_reader_free(m, true, &form, &e), 0);
    cr_expect_eq(e.line, 2, "%u:%u: %s", e.line, e.column, e.text);
}

/* A caller that finds an error of its own ends the reader before the program is complete. */
Test(mlir_reader, a_program_that_is_not_complete_can_be_given_up)
{
    struct mlir_parts func = {.properties =
                                  view_of_text("{function_type = () -> (), sym_name = \"main\"}")};
    mlir_reader_func(m, op_of("\"func.func\""), &func, NULL, 0, false);
    graph_op_begin(g, mlir_reader_name(m, op_of("\"stablehlo.add\"")));
    cr_expect_not(mlir_reader_stopped(m));
    cr_expect_eq(mlir_reader_free(m, false, &form, &e), 0);
}
