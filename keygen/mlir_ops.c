/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mlir_ops.c - the tables of mlir_ops.h. No state, any thread.
 *
 * Source: the StableHLO specification ("Ops", traits and side effects), the CHLO and Shardy
 * operation definitions. An operation that is not listed may have any effect.
 */
#include "keygen/mlir_ops.h"

#include <string.h>

/* Those that depend on their operands alone and have no effect. */
static const char *const pure_names[] = {
    "stablehlo.abs",
    "stablehlo.add",
    "stablehlo.and",
    "stablehlo.atan2",
    "stablehlo.batch_norm_grad",
    "stablehlo.batch_norm_inference",
    "stablehlo.batch_norm_training",
    "stablehlo.bitcast_convert",
    "stablehlo.broadcast",
    "stablehlo.broadcast_in_dim",
    "stablehlo.case",
    "stablehlo.cbrt",
    "stablehlo.ceil",
    "stablehlo.cholesky",
    "stablehlo.clamp",
    "stablehlo.compare",
    "stablehlo.complex",
    "stablehlo.concatenate",
    "stablehlo.constant",
    "stablehlo.convert",
    "stablehlo.convolution",
    "stablehlo.cosine",
    "stablehlo.count_leading_zeros",
    "stablehlo.divide",
    "stablehlo.dot",
    "stablehlo.dot_general",
    "stablehlo.dynamic_broadcast_in_dim",
    "stablehlo.dynamic_conv",
    "stablehlo.dynamic_gather",
    "stablehlo.dynamic_iota",
    "stablehlo.dynamic_pad",
    "stablehlo.dynamic_reshape",
    "stablehlo.dynamic_slice",
    "stablehlo.dynamic_update_slice",
    "stablehlo.einsum",
    "stablehlo.exponential",
    "stablehlo.exponential_minus_one",
    "stablehlo.fft",
    "stablehlo.floor",
    "stablehlo.gather",
    "stablehlo.get_dimension_size",
    "stablehlo.get_tuple_element",
    "stablehlo.if",
    "stablehlo.imag",
    "stablehlo.iota",
    "stablehlo.is_finite",
    "stablehlo.log",
    "stablehlo.log_plus_one",
    "stablehlo.logistic",
    "stablehlo.map",
    "stablehlo.maximum",
    "stablehlo.minimum",
    "stablehlo.multiply",
    "stablehlo.negate",
    "stablehlo.not",
    "stablehlo.or",
    "stablehlo.pad",
    "stablehlo.partition_id",
    "stablehlo.popcnt",
    "stablehlo.power",
    "stablehlo.real",
    "stablehlo.real_dynamic_slice",
    "stablehlo.reduce",
    "stablehlo.reduce_precision",
    "stablehlo.reduce_window",
    "stablehlo.remainder",
    "stablehlo.replica_id",
    "stablehlo.reshape",
    "stablehlo.return",
    "stablehlo.reverse",
    "stablehlo.rng_bit_generator",
    "stablehlo.round_nearest_afz",
    "stablehlo.round_nearest_even",
    "stablehlo.rsqrt",
    "stablehlo.scatter",
    "stablehlo.select",
    "stablehlo.select_and_scatter",
    "stablehlo.set_dimension_size",
    "stablehlo.shift_left",
    "stablehlo.shift_right_arithmetic",
    "stablehlo.shift_right_logical",
    "stablehlo.sign",
    "stablehlo.sine",
    "stablehlo.slice",
    "stablehlo.sort",
    "stablehlo.sqrt",
    "stablehlo.subtract",
    "stablehlo.tan",
    "stablehlo.tanh",
    "stablehlo.torch_index_select",
    "stablehlo.transpose",
    "stablehlo.triangular_solve",
    "stablehlo.tuple",
    "stablehlo.unary_einsum",
    "stablehlo.uniform_dequantize",
    "stablehlo.uniform_quantize",
    "stablehlo.while",
    "stablehlo.xor",
    "chlo.acos",
    "chlo.acosh",
    "chlo.asin",
    "chlo.asinh",
    "chlo.atan",
    "chlo.atanh",
    "chlo.bessel_i1e",
    "chlo.conj",
    "chlo.constant",
    "chlo.cosh",
    "chlo.digamma",
    "chlo.erf",
    "chlo.erf_inv",
    "chlo.erfc",
    "chlo.is_inf",
    "chlo.is_neg_inf",
    "chlo.is_pos_inf",
    "chlo.lgamma",
    "chlo.next_after",
    "chlo.polygamma",
    "chlo.ragged_dot",
    "chlo.sinh",
    "chlo.square",
    "chlo.tan",
    "chlo.top_k",
    "chlo.zeta",
    "func.return",
    "sdy.return",
};

/* Others that are printed as most are: operands, clauses, a dictionary, types. */
static const char *const known_names[] = {
    "stablehlo.all_reduce",
    "stablehlo.custom_call",
    "stablehlo.optimization_barrier",
    "stablehlo.reduce_scatter",
    "func.call",
    "sdy.manual_computation",
    "sdy.sharding_constraint",
};

/* Defaults of the operation definitions: an absent attribute means this. NULL: any operation. */
static const struct attr_default {
    const char *op, *key, *value;
} default_table[] = {
    {"stablehlo.custom_call", "has_side_effect", "false"},
    {"stablehlo.custom_call", "backend_config", "\"\""},
    {"stablehlo.custom_call", "api_version", "1 : i32"},
    {"stablehlo.custom_call", "called_computations", "[]"},
    {"stablehlo.custom_call", "output_operand_aliases", "[]"},
    {"stablehlo.sort", "is_stable", "false"},
    {"stablehlo.sort", "dimension", "-1 : i64"},
    {"stablehlo.gather", "indices_are_sorted", "false"},
    {"stablehlo.dynamic_gather", "indices_are_sorted", "false"},
    {"stablehlo.scatter", "indices_are_sorted", "false"},
    {"stablehlo.scatter", "unique_indices", "false"},
    {"stablehlo.cholesky", "lower", "false"},
    {NULL, "mhlo.layout_mode", "\"default\""},
    {NULL, "result_accuracy",
     "#stablehlo.result_accuracy<mode = #stablehlo.result_accuracy_mode<DEFAULT>>"},
};

static bool is_one_of(const char *const *names, size_t n, const char *name, size_t len)
{
    for (size_t i = 0; i < n; i++)
        if (strlen(names[i]) == len && memcmp(names[i], name, len) == 0)
            return true;
    return false;
}

enum mlir_op mlir_op_of(const char *name, size_t len)
{
    if (is_one_of(pure_names, sizeof pure_names / sizeof *pure_names, name, len))
        return MLIR_OP_PURE;
    return is_one_of(known_names, sizeof known_names / sizeof *known_names, name, len)
               ? MLIR_OP_KNOWN
               : MLIR_OP_UNKNOWN;
}

static bool text_is(const char *want, const char *text, size_t len)
{
    return len && *want == *text && strlen(want) == len && memcmp(want, text, len) == 0;
}

bool mlir_attr_is_default(const char *op, size_t op_len, const char *key, size_t key_len,
                          const char *value, size_t value_len)
{
    if (text_is("jax.result_info", key, key_len))
        return true;
    for (size_t i = 0; i < sizeof default_table / sizeof *default_table; i++) {
        const struct attr_default *d = &default_table[i];
        if (text_is(d->key, key, key_len) && (!d->op || text_is(d->op, op, op_len)) &&
            text_is(d->value, value, value_len))
            return true;
    }
    return false;
}
