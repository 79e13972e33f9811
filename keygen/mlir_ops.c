/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mlir_ops.c - the tables of mlir_ops.h. No state, any thread.
 *
 * Source: the StableHLO specification ("Ops", traits and side effects), the CHLO and Shardy
 * operation definitions. An operation that is not listed may have any effect.
 */
#include "keygen/mlir_ops.h"

#include <stdint.h>
#include <string.h>

#include "keygen/graph.h"

/* Sorted by name. What is not here: rng (hidden state), infeed, outfeed, send, recv (order), and
 * the collectives, whose order among themselves is an agreement between devices. custom_call is
 * here as what it is without has_side_effect = true; a reader that sees that attribute says so. */
static const struct op_traits {
    const char *name;
    unsigned traits;
} op_table[] = {
    {"chlo.acos", GRAPH_PURE},
    {"chlo.acosh", GRAPH_PURE},
    {"chlo.asin", GRAPH_PURE},
    {"chlo.asinh", GRAPH_PURE},
    {"chlo.atan", GRAPH_PURE},
    {"chlo.atanh", GRAPH_PURE},
    {"chlo.bessel_i1e", GRAPH_PURE},
    {"chlo.conj", GRAPH_PURE},
    {"chlo.constant", GRAPH_PURE},
    {"chlo.cosh", GRAPH_PURE},
    {"chlo.digamma", GRAPH_PURE},
    {"chlo.erf", GRAPH_PURE},
    {"chlo.erf_inv", GRAPH_PURE},
    {"chlo.erfc", GRAPH_PURE},
    {"chlo.is_inf", GRAPH_PURE},
    {"chlo.is_neg_inf", GRAPH_PURE},
    {"chlo.is_pos_inf", GRAPH_PURE},
    {"chlo.lgamma", GRAPH_PURE},
    {"chlo.next_after", GRAPH_PURE},
    {"chlo.polygamma", GRAPH_PURE},
    {"chlo.ragged_dot", GRAPH_PURE},
    {"chlo.sinh", GRAPH_PURE},
    {"chlo.square", GRAPH_PURE},
    {"chlo.tan", GRAPH_PURE},
    {"chlo.top_k", GRAPH_PURE},
    {"chlo.zeta", GRAPH_PURE},
    {"func.call", GRAPH_PURE | GRAPH_CALL},
    {"func.return", GRAPH_PURE},
    {"sdy.manual_computation", GRAPH_DISTINCT},
    {"sdy.return", GRAPH_PURE},
    {"sdy.sharding_constraint", GRAPH_DISTINCT},
    {"stablehlo.abs", GRAPH_PURE},
    {"stablehlo.add", GRAPH_PURE | GRAPH_COMMUTES | GRAPH_FUSES | GRAPH_SUM},
    {"stablehlo.all_reduce", GRAPH_EFFECT | GRAPH_REDUCES},
    {"stablehlo.and", GRAPH_PURE | GRAPH_COMMUTES},
    {"stablehlo.atan2", GRAPH_PURE},
    {"stablehlo.batch_norm_grad", GRAPH_PURE},
    {"stablehlo.batch_norm_inference", GRAPH_PURE},
    {"stablehlo.batch_norm_training", GRAPH_PURE},
    {"stablehlo.bitcast_convert", GRAPH_PURE},
    {"stablehlo.broadcast", GRAPH_PURE | GRAPH_MOVES},
    {"stablehlo.broadcast_in_dim", GRAPH_PURE | GRAPH_MOVES},
    {"stablehlo.case", GRAPH_PURE},
    {"stablehlo.cbrt", GRAPH_PURE},
    {"stablehlo.ceil", GRAPH_PURE},
    {"stablehlo.cholesky", GRAPH_PURE},
    {"stablehlo.clamp", GRAPH_PURE},
    {"stablehlo.compare", GRAPH_PURE},
    {"stablehlo.complex", GRAPH_PURE},
    {"stablehlo.concatenate", GRAPH_PURE},
    {"stablehlo.constant", GRAPH_PURE | GRAPH_SUM},
    {"stablehlo.convert", GRAPH_PURE},
    {"stablehlo.convolution", GRAPH_PURE},
    {"stablehlo.cosine", GRAPH_PURE},
    {"stablehlo.count_leading_zeros", GRAPH_PURE},
    {"stablehlo.custom_call", GRAPH_DISTINCT},
    {"stablehlo.divide", GRAPH_PURE},
    {"stablehlo.dot", GRAPH_PURE},
    {"stablehlo.dot_general", GRAPH_PURE},
    {"stablehlo.dynamic_broadcast_in_dim", GRAPH_PURE},
    {"stablehlo.dynamic_conv", GRAPH_PURE},
    {"stablehlo.dynamic_gather", GRAPH_PURE},
    {"stablehlo.dynamic_iota", GRAPH_PURE},
    {"stablehlo.dynamic_pad", GRAPH_PURE},
    {"stablehlo.dynamic_reshape", GRAPH_PURE},
    {"stablehlo.dynamic_slice", GRAPH_PURE},
    {"stablehlo.dynamic_update_slice", GRAPH_PURE},
    {"stablehlo.einsum", GRAPH_PURE},
    {"stablehlo.exponential", GRAPH_PURE},
    {"stablehlo.exponential_minus_one", GRAPH_PURE},
    {"stablehlo.fft", GRAPH_PURE},
    {"stablehlo.floor", GRAPH_PURE},
    {"stablehlo.gather", GRAPH_PURE},
    {"stablehlo.get_dimension_size", GRAPH_PURE},
    {"stablehlo.get_tuple_element", GRAPH_PURE},
    {"stablehlo.if", GRAPH_PURE},
    {"stablehlo.imag", GRAPH_PURE},
    {"stablehlo.iota", GRAPH_PURE | GRAPH_SUM},
    {"stablehlo.is_finite", GRAPH_PURE},
    {"stablehlo.log", GRAPH_PURE},
    {"stablehlo.log_plus_one", GRAPH_PURE},
    {"stablehlo.logistic", GRAPH_PURE},
    {"stablehlo.map", GRAPH_PURE},
    {"stablehlo.maximum", GRAPH_PURE | GRAPH_COMMUTES},
    {"stablehlo.minimum", GRAPH_PURE | GRAPH_COMMUTES},
    {"stablehlo.multiply", GRAPH_PURE | GRAPH_COMMUTES},
    {"stablehlo.negate", GRAPH_PURE},
    {"stablehlo.not", GRAPH_PURE},
    {"stablehlo.optimization_barrier", GRAPH_DISTINCT},
    {"stablehlo.or", GRAPH_PURE | GRAPH_COMMUTES},
    {"stablehlo.pad", GRAPH_PURE},
    {"stablehlo.partition_id", GRAPH_PURE},
    {"stablehlo.popcnt", GRAPH_PURE},
    {"stablehlo.power", GRAPH_PURE},
    {"stablehlo.real", GRAPH_PURE},
    {"stablehlo.real_dynamic_slice", GRAPH_PURE},
    {"stablehlo.reduce", GRAPH_PURE | GRAPH_REDUCES},
    {"stablehlo.reduce_precision", GRAPH_PURE},
    {"stablehlo.reduce_scatter", GRAPH_EFFECT | GRAPH_REDUCES},
    {"stablehlo.reduce_window", GRAPH_PURE | GRAPH_REDUCES},
    {"stablehlo.remainder", GRAPH_PURE},
    {"stablehlo.replica_id", GRAPH_PURE},
    {"stablehlo.reshape", GRAPH_PURE | GRAPH_MOVES},
    {"stablehlo.return", GRAPH_PURE},
    {"stablehlo.reverse", GRAPH_PURE | GRAPH_MOVES},
    {"stablehlo.rng_bit_generator", GRAPH_PURE},
    {"stablehlo.round_nearest_afz", GRAPH_PURE},
    {"stablehlo.round_nearest_even", GRAPH_PURE},
    {"stablehlo.rsqrt", GRAPH_PURE},
    {"stablehlo.scatter", GRAPH_PURE | GRAPH_REDUCES},
    {"stablehlo.select", GRAPH_PURE},
    {"stablehlo.select_and_scatter", GRAPH_PURE | GRAPH_REDUCES},
    {"stablehlo.set_dimension_size", GRAPH_PURE},
    {"stablehlo.shift_left", GRAPH_PURE},
    {"stablehlo.shift_right_arithmetic", GRAPH_PURE},
    {"stablehlo.shift_right_logical", GRAPH_PURE},
    {"stablehlo.sign", GRAPH_PURE},
    {"stablehlo.sine", GRAPH_PURE},
    {"stablehlo.slice", GRAPH_PURE | GRAPH_MOVES},
    {"stablehlo.sort", GRAPH_PURE},
    {"stablehlo.sqrt", GRAPH_PURE},
    {"stablehlo.subtract", GRAPH_PURE | GRAPH_SUM},
    {"stablehlo.tan", GRAPH_PURE},
    {"stablehlo.tanh", GRAPH_PURE},
    {"stablehlo.torch_index_select", GRAPH_PURE},
    {"stablehlo.transpose", GRAPH_PURE | GRAPH_MOVES},
    {"stablehlo.triangular_solve", GRAPH_PURE},
    {"stablehlo.tuple", GRAPH_PURE},
    {"stablehlo.unary_einsum", GRAPH_PURE},
    {"stablehlo.uniform_dequantize", GRAPH_PURE},
    {"stablehlo.uniform_quantize", GRAPH_PURE},
    {"stablehlo.while", GRAPH_PURE},
    {"stablehlo.xor", GRAPH_PURE | GRAPH_COMMUTES},
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

static int name_cmp(const char *have, const char *name, size_t len)
{
    int d = strncmp(have, name, len);
    return d ? d : have[len] != '\0';
}

unsigned mlir_op_traits(const char *name, size_t len)
{
    size_t low = 0, high = sizeof op_table / sizeof *op_table;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int d = name_cmp(op_table[middle].name, name, len);
        if (d == 0)
            return op_table[middle].traits;
        if (d < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return GRAPH_EFFECT;
}

/* The text after the dimensions of tensor<4x?x2xf32>: "f32>". */
static const char *element_of(const char *type, size_t len, size_t *out_len)
{
    static const char tensor[] = "tensor<";
    if (len < sizeof tensor || memcmp(type, tensor, sizeof tensor - 1))
        return NULL;
    size_t at = sizeof tensor - 1;
    for (;;) {
        size_t i = at;
        while (i < len && ((type[i] >= '0' && type[i] <= '9') || type[i] == '?'))
            i++;
        if (i == at || i >= len || type[i] != 'x')
            break;
        at = i + 1;
    }
    *out_len = len - at;
    return type + at;
}

unsigned mlir_type_traits(const char *type, size_t len, unsigned traits)
{
    size_t n;
    const char *e = element_of(type, len, &n);
    bool known = e && n >= 2, digit = known && e[1] >= '0' && e[1] <= '9';
    if (known && ((e[0] == 'i' && digit) || ((e[0] == 'u' || e[0] == 's') && e[1] == 'i')))
        return traits & ~(unsigned)GRAPH_FUSES;
    if (known && ((e[0] == 'f' && digit) || (e[0] == 'b' && n > 3 && e[1] == 'f')))
        return traits;
    return traits & ~(unsigned)(GRAPH_COMMUTES | GRAPH_FUSES);
}

static bool text_is(const char *want, const char *text, size_t len)
{
    return strlen(want) == len && memcmp(want, text, len) == 0;
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
