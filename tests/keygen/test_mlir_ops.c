/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_mlir_ops.c - the tables of operations: each name is found, none that is only like one. Attributes are
 * dropped in their own places alone.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "keygen/mlir/ops.h"

static bool is_known(const char *name) { return mlir_op_is_known(name, strlen(name)); }

/* From the StableHLO specification, without "stablehlo.". */
static const char *const usual[] = {
    "abs",
    "add",
    "and",
    "atan2",
    "batch_norm_grad",
    "batch_norm_inference",
    "batch_norm_training",
    "bitcast_convert",
    "broadcast_in_dim",
    "case",
    "cbrt",
    "ceil",
    "cholesky",
    "clamp",
    "compare",
    "complex",
    "concatenate",
    "constant",
    "convert",
    "convolution",
    "cosine",
    "count_leading_zeros",
    "divide",
    "dot_general",
    "dynamic_broadcast_in_dim",
    "dynamic_conv",
    "dynamic_gather",
    "dynamic_iota",
    "dynamic_pad",
    "dynamic_reshape",
    "dynamic_slice",
    "dynamic_update_slice",
    "exponential",
    "exponential_minus_one",
    "fft",
    "floor",
    "gather",
    "get_dimension_size",
    "get_tuple_element",
    "if",
    "imag",
    "iota",
    "is_finite",
    "log",
    "log_plus_one",
    "logistic",
    "map",
    "maximum",
    "minimum",
    "multiply",
    "negate",
    "not",
    "or",
    "pad",
    "partition_id",
    "popcnt",
    "power",
    "real",
    "reduce",
    "reduce_precision",
    "reduce_window",
    "remainder",
    "replica_id",
    "reshape",
    "return",
    "reverse",
    "rng_bit_generator",
    "round_nearest_afz",
    "round_nearest_even",
    "rsqrt",
    "scatter",
    "select",
    "select_and_scatter",
    "shift_left",
    "shift_right_arithmetic",
    "shift_right_logical",
    "sign",
    "sine",
    "slice",
    "sort",
    "sqrt",
    "subtract",
    "tan",
    "tanh",
    "transpose",
    "triangular_solve",
    "tuple",
    "uniform_dequantize",
    "uniform_quantize",
    "while",
    "xor",
};

Test(mlir_ops, each_operation_of_the_usual_spelling_is_known)
{
    static const char *const others[] = {"func.return", "sdy.return",      "chlo.acos",
                                         "chlo.erf",    "chlo.next_after", "chlo.zeta"};
    char name[64];
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        snprintf(name, sizeof name, "stablehlo.%s", usual[i]);
        cr_expect(is_known(name), "%s", name);
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        cr_expect(is_known(others[i]), "%s", others[i]);
}

Test(mlir_ops, an_operation_of_another_spelling_is_unknown)
{
    static const char *const others[] = {"stablehlo.send",
                                         "stablehlo.recv",
                                         "stablehlo.infeed",
                                         "stablehlo.outfeed",
                                         "stablehlo.rng",
                                         "stablehlo.after_all",
                                         "stablehlo.create_token",
                                         "stablehlo.all_gather",
                                         "stablehlo.all_to_all",
                                         "stablehlo.collective_permute",
                                         "stablehlo.composite",
                                         "mhlo.add",
                                         "sdy.mesh"};
    static const char *const known[] = {
        "stablehlo.all_reduce",          "stablehlo.custom_call",  "func.call",
        "stablehlo.reduce_scatter",      "sdy.manual_computation", "sdy.sharding_constraint",
        "stablehlo.optimization_barrier"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        cr_expect_not(is_known(others[i]), "%s", others[i]);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        cr_expect(is_known(known[i]), "%s", known[i]);
}

Test(mlir_ops, a_name_that_is_only_like_one_is_unknown)
{
    static const char *const names[] = {
        "",
        ".",
        "add", /* no dialect */
        "stablehlo",
        "stablehlo.",
        "stablehlo.a",
        "stablehlo.ad",
        "stablehlo.adds",
        "stablehlo.add ",
        "stablehlo. add",
        "stablehlo.add and", /* two that stand side by side */
        "stablehlo.xor ",
        "stablehlo.xora",
        "stablehlo.zzz",
        "stablehlo.ADD",
        "Stablehlo.add",
        "stablehlo.stablehlo.add",
        "chlo.add",
        "func.call.x",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        cr_expect_not(is_known(names[i]), "`%s`", names[i]);
    cr_expect(mlir_op_is_known("stablehlo.addition", strlen("stablehlo.add")),
              "its length ends it");
    cr_expect_not(mlir_op_is_known("stablehlo.add\0", strlen("stablehlo.add") + 1));
}

/* ---- attributes ---- */

static bool drops(const char *op, const char *key, const char *value)
{
    return mlir_attr_is_dropped(op, op ? strlen(op) : 0, key, strlen(key), value,
                                value ? strlen(value) : 0);
}

Test(mlir_ops, an_attribute_is_dropped_if_it_says_what_its_absence_says)
{
    static const struct {
        const char *op, *key, *value, *other; /* other: NULL if any value is dropped */
    } rows[] = {
        {NULL, "jax.result_info", "\"x\"", NULL},
        {NULL, "mhlo.layout_mode", "\"default\"", "\"auto\""},
        {"stablehlo.custom_call", "has_side_effect", "false", "true"},
        {"stablehlo.custom_call", "backend_config", "\"\"", "\"x\""},
        {"stablehlo.custom_call", "api_version", "1 : i32", "2 : i32"},
        {"stablehlo.custom_call", "called_computations", "[]", "[@f]"},
        {"stablehlo.custom_call", "output_operand_aliases", "[]", "[1]"},
        {"stablehlo.sort", "is_stable", "false", "true"},
        {"stablehlo.sort", "dimension", "-1 : i64", "0 : i64"},
        {"stablehlo.gather", "indices_are_sorted", "false", "true"},
        {"stablehlo.dynamic_gather", "indices_are_sorted", "false", "true"},
        {"stablehlo.scatter", "indices_are_sorted", "false", "true"},
        {"stablehlo.scatter", "unique_indices", "false", "true"},
        {"stablehlo.cholesky", "lower", "false", "true"},
        {"stablehlo.tanh", "result_accuracy",
         "#stablehlo.result_accuracy<mode = #stablehlo.result_accuracy_mode<DEFAULT>>",
         "#stablehlo.result_accuracy<mode = #stablehlo.result_accuracy_mode<HIGHEST>>"},
    };
    static const char *const places[] = {NULL, "stablehlo.add", "func.func", "builtin.module"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cr_expect(drops(rows[i].op, rows[i].key, rows[i].value), "%s", rows[i].key);
        cr_expect_eq(drops(rows[i].op, rows[i].key, NULL), rows[i].other == NULL, "%s",
                     rows[i].key);
        if (rows[i].other) {
            char longer[200];
            cr_expect_not(drops(rows[i].op, rows[i].key, rows[i].other), "%s", rows[i].other);
            cr_expect_not(drops(rows[i].op, rows[i].key, ""), "%s", rows[i].key);
            snprintf(longer, sizeof longer, "%s ", rows[i].value);
            cr_expect_not(drops(rows[i].op, rows[i].key, longer), "%s", longer);
        }
        for (size_t k = rows[i].op ? 0 : 1; k < sizeof places / sizeof *places; k++)
            cr_expect_not(drops(places[k], rows[i].key, rows[i].value), "%s of %s", rows[i].key,
                          places[k] ? places[k] : "an argument");
    }
}

Test(mlir_ops, a_key_that_is_only_like_one_is_kept)
{
    static const char *const keys[] = {"", "jax.result_inf", "jax.result_info2", "result_info"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        cr_expect_not(drops(NULL, keys[i], "\"x\""), "%s", keys[i]);
    cr_expect_not(drops("stablehlo.gather", "unique_indices", "false"), "of scatter alone");
    cr_expect_not(drops("chlo.tan", "result_accuracy", "0"));
}
