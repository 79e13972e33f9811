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
#define KEEPS (GRAPH_PURE | GRAPH_KEEPS)
#define LIVES (GRAPH_PURE | GRAPH_LIVES)
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
    {"chlo.constant", KEEPS},
    {"chlo.cosh", GRAPH_PURE},
    {"chlo.digamma", GRAPH_PURE},
    {"chlo.erf", KEEPS | GRAPH_LIVES},
    {"chlo.erf_inv", KEEPS | GRAPH_LIVES},
    {"chlo.erfc", GRAPH_PURE},
    {"chlo.is_inf", KEEPS},
    {"chlo.is_neg_inf", KEEPS},
    {"chlo.is_pos_inf", KEEPS},
    {"chlo.lgamma", GRAPH_PURE},
    {"chlo.next_after", KEEPS | GRAPH_DELICATE},
    {"chlo.polygamma", GRAPH_PURE | GRAPH_DELICATE},
    {"chlo.ragged_dot", KEEPS | GRAPH_DELICATE},
    {"chlo.sinh", GRAPH_PURE},
    {"chlo.square", KEEPS | GRAPH_LIVES},
    {"chlo.tan", GRAPH_PURE},
    {"chlo.top_k", KEEPS},
    {"chlo.zeta", GRAPH_PURE | GRAPH_DELICATE},
    {"func.call", GRAPH_PURE | GRAPH_CALL},
    {"func.return", GRAPH_PURE},
    {"sdy.manual_computation", GRAPH_DISTINCT},
    {"sdy.return", GRAPH_PURE},
    {"sdy.sharding_constraint", GRAPH_DISTINCT},
    {"stablehlo.abs", KEEPS | GRAPH_LIVES},
    {"stablehlo.add", KEEPS | GRAPH_COMMUTES | GRAPH_FUSES | GRAPH_SUM},
    {"stablehlo.all_reduce", GRAPH_EFFECT | GRAPH_REDUCES},
    {"stablehlo.and", KEEPS | GRAPH_COMMUTES},
    {"stablehlo.atan2", KEEPS | GRAPH_LIVES | GRAPH_DELICATE},
    {"stablehlo.batch_norm_grad", KEEPS | GRAPH_DELICATE},
    {"stablehlo.batch_norm_inference", KEEPS | GRAPH_DELICATE},
    {"stablehlo.batch_norm_training", KEEPS | GRAPH_DELICATE},
    {"stablehlo.bitcast_convert", KEEPS | GRAPH_LIVES},
    {"stablehlo.broadcast", KEEPS | GRAPH_MOVES},
    {"stablehlo.broadcast_in_dim", KEEPS | GRAPH_MOVES},
    {"stablehlo.case", GRAPH_PURE},
    {"stablehlo.cbrt", KEEPS | GRAPH_LIVES},
    {"stablehlo.ceil", KEEPS | GRAPH_LIVES},
    {"stablehlo.cholesky", KEEPS | GRAPH_DELICATE},
    {"stablehlo.clamp", KEEPS | GRAPH_LIVES},
    {"stablehlo.compare", KEEPS},
    {"stablehlo.complex", KEEPS},
    {"stablehlo.concatenate", KEEPS | GRAPH_LIVES},
    {"stablehlo.constant", KEEPS | GRAPH_SUM},
    {"stablehlo.convert", KEEPS | GRAPH_LIVES},
    {"stablehlo.convolution", KEEPS | GRAPH_LIVES},
    {"stablehlo.cosine", KEEPS | GRAPH_LIVES},
    {"stablehlo.count_leading_zeros", KEEPS},
    {"stablehlo.custom_call", GRAPH_DISTINCT},
    {"stablehlo.divide", KEEPS | GRAPH_FUSES},
    {"stablehlo.dot", KEEPS | GRAPH_LIVES},
    {"stablehlo.dot_general", KEEPS | GRAPH_LIVES},
    {"stablehlo.dynamic_broadcast_in_dim", KEEPS},
    {"stablehlo.dynamic_conv", KEEPS},
    {"stablehlo.dynamic_gather", KEEPS},
    {"stablehlo.dynamic_iota", KEEPS},
    {"stablehlo.dynamic_pad", KEEPS},
    {"stablehlo.dynamic_reshape", KEEPS},
    {"stablehlo.dynamic_slice", KEEPS | GRAPH_LIVES},
    {"stablehlo.dynamic_update_slice", KEEPS | GRAPH_LIVES},
    {"stablehlo.einsum", KEEPS | GRAPH_DELICATE},
    {"stablehlo.exponential", LIVES},
    {"stablehlo.exponential_minus_one", LIVES},
    {"stablehlo.fft", KEEPS},
    {"stablehlo.floor", KEEPS | GRAPH_LIVES},
    {"stablehlo.gather", KEEPS | GRAPH_LIVES},
    {"stablehlo.get_dimension_size", KEEPS},
    {"stablehlo.get_tuple_element", KEEPS},
    {"stablehlo.if", GRAPH_PURE},
    {"stablehlo.imag", KEEPS},
    {"stablehlo.iota", KEEPS | GRAPH_SUM},
    {"stablehlo.is_finite", KEEPS},
    {"stablehlo.log", KEEPS | GRAPH_LIVES},
    {"stablehlo.log_plus_one", KEEPS | GRAPH_LIVES},
    {"stablehlo.logistic", KEEPS | GRAPH_LIVES},
    {"stablehlo.map", GRAPH_PURE},
    {"stablehlo.maximum", KEEPS | GRAPH_LIVES | GRAPH_COMMUTES},
    {"stablehlo.minimum", KEEPS | GRAPH_LIVES | GRAPH_COMMUTES},
    {"stablehlo.multiply", KEEPS | GRAPH_COMMUTES | GRAPH_FUSES},
    {"stablehlo.negate", KEEPS | GRAPH_LIVES},
    {"stablehlo.not", KEEPS},
    {"stablehlo.optimization_barrier", GRAPH_DISTINCT},
    {"stablehlo.or", KEEPS | GRAPH_COMMUTES},
    {"stablehlo.pad", KEEPS | GRAPH_LIVES},
    {"stablehlo.partition_id", KEEPS},
    {"stablehlo.popcnt", KEEPS},
    {"stablehlo.power", LIVES | GRAPH_DELICATE},
    {"stablehlo.real", KEEPS},
    {"stablehlo.real_dynamic_slice", KEEPS},
    {"stablehlo.reduce", KEEPS | GRAPH_REDUCES},
    {"stablehlo.reduce_precision", KEEPS | GRAPH_LIVES},
    {"stablehlo.reduce_scatter", GRAPH_EFFECT | GRAPH_REDUCES},
    {"stablehlo.reduce_window", KEEPS | GRAPH_REDUCES},
    {"stablehlo.remainder", KEEPS | GRAPH_DELICATE},
    {"stablehlo.replica_id", KEEPS},
    {"stablehlo.reshape", KEEPS | GRAPH_MOVES},
    {"stablehlo.return", KEEPS},
    {"stablehlo.reverse", KEEPS | GRAPH_MOVES},
    {"stablehlo.rng_bit_generator", KEEPS},
    {"stablehlo.round_nearest_afz", KEEPS | GRAPH_LIVES},
    {"stablehlo.round_nearest_even", KEEPS | GRAPH_LIVES},
    {"stablehlo.rsqrt", KEEPS | GRAPH_LIVES},
    {"stablehlo.scatter", KEEPS},
    {"stablehlo.select", KEEPS},
    {"stablehlo.select_and_scatter", KEEPS},
    {"stablehlo.set_dimension_size", KEEPS},
    {"stablehlo.shift_left", KEEPS},
    {"stablehlo.shift_right_arithmetic", KEEPS},
    {"stablehlo.shift_right_logical", KEEPS},
    {"stablehlo.sign", KEEPS | GRAPH_LIVES},
    {"stablehlo.sine", KEEPS | GRAPH_LIVES},
    {"stablehlo.slice", KEEPS | GRAPH_MOVES},
    {"stablehlo.sort", KEEPS},
    {"stablehlo.sqrt", KEEPS | GRAPH_LIVES},
    {"stablehlo.subtract", KEEPS | GRAPH_SUM | GRAPH_FUSES},
    {"stablehlo.tan", KEEPS | GRAPH_LIVES},
    {"stablehlo.tanh", KEEPS | GRAPH_LIVES},
    {"stablehlo.torch_index_select", KEEPS},
    {"stablehlo.transpose", KEEPS | GRAPH_MOVES},
    {"stablehlo.triangular_solve", KEEPS | GRAPH_DELICATE},
    {"stablehlo.tuple", KEEPS},
    {"stablehlo.unary_einsum", KEEPS | GRAPH_DELICATE},
    {"stablehlo.uniform_dequantize", KEEPS | GRAPH_DELICATE},
    {"stablehlo.uniform_quantize", KEEPS | GRAPH_DELICATE},
    {"stablehlo.while", GRAPH_PURE},
    {"stablehlo.xor", KEEPS | GRAPH_COMMUTES},
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
    return d ? d : strlen(have) != len; /* a name may have a zero in it */
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
    return MLIR_UNKNOWN_OP;
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
        return traits & GRAPH_FUSES ? traits : traits & ~(unsigned)GRAPH_COMMUTES;
    return traits & ~(unsigned)(GRAPH_COMMUTES | GRAPH_FUSES);
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
