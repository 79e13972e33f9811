/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mlir_ops.c - the tables of mlir_ops.h. No state, any thread.
 *
 * Source: the StableHLO specification ("Ops", traits and side effects), the CHLO and Shardy
 * operation definitions. An operation that is not listed may have any effect.
 */
#include "keygen/mlir_ops.h"

#include <endian.h>
#include <stdint.h>
#include <string.h>

#include "keygen/graph.h"

/* Sorted by name. What is not here: rng (hidden state), infeed, outfeed, send, recv (order), and
 * the collectives, whose order among themselves is an agreement between devices. custom_call is
 * here as what it is without has_side_effect = true; a reader that sees that attribute says so. */
#define KEEPS (GRAPH_PURE | GRAPH_KEEPS)
#define LIVES (GRAPH_PURE | GRAPH_LIVES)
struct op_traits {
    char name[28]; /* and zeroes */
    unsigned traits;
};
static const struct op_traits stablehlo_table[] = {
    /* "stablehlo." left out */
    {"abs", KEEPS | GRAPH_LIVES},
    {"add", KEEPS | GRAPH_COMMUTES | GRAPH_FUSES | GRAPH_SUM},
    {"all_reduce", GRAPH_EFFECT | GRAPH_REDUCES},
    {"and", KEEPS | GRAPH_COMMUTES},
    {"atan2", KEEPS | GRAPH_LIVES | GRAPH_DELICATE},
    {"batch_norm_grad", KEEPS | GRAPH_DELICATE},
    {"batch_norm_inference", KEEPS | GRAPH_DELICATE},
    {"batch_norm_training", KEEPS | GRAPH_DELICATE},
    {"bitcast_convert", KEEPS | GRAPH_LIVES},
    {"broadcast", KEEPS | GRAPH_MOVES},
    {"broadcast_in_dim", KEEPS | GRAPH_MOVES},
    {"case", GRAPH_PURE},
    {"cbrt", KEEPS | GRAPH_LIVES | GRAPH_ALTERS},
    {"ceil", KEEPS | GRAPH_LIVES},
    {"cholesky", KEEPS | GRAPH_DELICATE},
    {"clamp", KEEPS | GRAPH_LIVES},
    {"compare", KEEPS},
    {"complex", KEEPS},
    {"concatenate", KEEPS | GRAPH_LIVES},
    {"constant", KEEPS | GRAPH_SUM | GRAPH_CONSTANT},
    {"convert", KEEPS | GRAPH_LIVES},
    {"convolution", KEEPS | GRAPH_LIVES | GRAPH_ALTERS},
    {"cosine", KEEPS | GRAPH_LIVES | GRAPH_ALTERS},
    {"count_leading_zeros", KEEPS},
    {"custom_call", GRAPH_DISTINCT | GRAPH_STAYS},
    {"divide", KEEPS | GRAPH_FUSES},
    {"dot", KEEPS | GRAPH_LIVES | GRAPH_ALTERS},
    {"dot_general", KEEPS | GRAPH_LIVES | GRAPH_ALTERS},
    {"dynamic_broadcast_in_dim", KEEPS},
    {"dynamic_conv", KEEPS},
    {"dynamic_gather", KEEPS},
    {"dynamic_iota", KEEPS},
    {"dynamic_pad", KEEPS},
    {"dynamic_reshape", KEEPS},
    {"dynamic_slice", KEEPS | GRAPH_LIVES},
    {"dynamic_update_slice", KEEPS | GRAPH_LIVES},
    {"einsum", KEEPS | GRAPH_DELICATE},
    {"exponential", LIVES | GRAPH_ALTERS},
    {"exponential_minus_one", LIVES | GRAPH_ALTERS},
    {"fft", KEEPS},
    {"floor", KEEPS | GRAPH_LIVES},
    {"gather", KEEPS | GRAPH_LIVES},
    {"get_dimension_size", KEEPS},
    {"get_tuple_element", KEEPS},
    {"if", GRAPH_PURE},
    {"imag", KEEPS},
    {"iota", KEEPS | GRAPH_SUM},
    {"is_finite", KEEPS},
    {"log", KEEPS | GRAPH_LIVES | GRAPH_ALTERS},
    {"log_plus_one", KEEPS | GRAPH_LIVES | GRAPH_ALTERS},
    {"logistic", KEEPS | GRAPH_LIVES | GRAPH_ALTERS},
    {"map", GRAPH_PURE},
    {"maximum", KEEPS | GRAPH_LIVES | GRAPH_COMMUTES},
    {"minimum", KEEPS | GRAPH_LIVES | GRAPH_COMMUTES},
    {"multiply", KEEPS | GRAPH_COMMUTES | GRAPH_FUSES},
    {"negate", KEEPS | GRAPH_LIVES},
    {"not", KEEPS},
    {"optimization_barrier", GRAPH_DISTINCT},
    {"or", KEEPS | GRAPH_COMMUTES},
    {"pad", KEEPS | GRAPH_LIVES},
    {"partition_id", KEEPS},
    {"popcnt", KEEPS},
    {"power", LIVES | GRAPH_DELICATE},
    {"real", KEEPS},
    {"real_dynamic_slice", KEEPS},
    {"reduce", KEEPS | GRAPH_REDUCES},
    {"reduce_precision", KEEPS | GRAPH_LIVES},
    {"reduce_scatter", GRAPH_EFFECT | GRAPH_REDUCES},
    {"reduce_window", KEEPS | GRAPH_REDUCES},
    {"remainder", KEEPS | GRAPH_DELICATE},
    {"replica_id", KEEPS},
    {"reshape", KEEPS | GRAPH_MOVES},
    {"return", KEEPS},
    {"reverse", KEEPS | GRAPH_MOVES},
    {"rng_bit_generator", KEEPS},
    {"round_nearest_afz", KEEPS | GRAPH_LIVES},
    {"round_nearest_even", KEEPS | GRAPH_LIVES},
    {"rsqrt", KEEPS | GRAPH_LIVES | GRAPH_ALTERS},
    {"scatter", KEEPS},
    {"select", KEEPS},
    {"select_and_scatter", KEEPS},
    {"set_dimension_size", KEEPS},
    {"shift_left", KEEPS},
    {"shift_right_arithmetic", KEEPS},
    {"shift_right_logical", KEEPS},
    {"sign", KEEPS | GRAPH_LIVES},
    {"sine", KEEPS | GRAPH_LIVES | GRAPH_ALTERS},
    {"slice", KEEPS | GRAPH_MOVES},
    {"sort", KEEPS},
    {"sqrt", KEEPS | GRAPH_LIVES | GRAPH_ALTERS},
    {"subtract", KEEPS | GRAPH_SUM | GRAPH_FUSES},
    {"tan", KEEPS | GRAPH_LIVES | GRAPH_ALTERS},
    {"tanh", KEEPS | GRAPH_LIVES | GRAPH_ALTERS},
    {"torch_index_select", KEEPS},
    {"transpose", KEEPS | GRAPH_MOVES},
    {"triangular_solve", KEEPS | GRAPH_DELICATE},
    {"tuple", KEEPS},
    {"unary_einsum", KEEPS | GRAPH_DELICATE},
    {"uniform_dequantize", KEEPS | GRAPH_DELICATE},
    {"uniform_quantize", KEEPS | GRAPH_DELICATE},
    {"while", GRAPH_PURE},
    {"xor", KEEPS | GRAPH_COMMUTES},
};
static const struct op_traits other_table[] = {
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
    {"sdy.sharding_constraint", GRAPH_DISTINCT | GRAPH_STAYS},
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

/* The first eight letters of a name as a number that sorts as they do. */
static inline uint64_t first_letters(const char *name, size_t len)
{
    char letters[8] = {0};
    uint64_t x;
    memcpy(letters, name, len < sizeof letters ? len : sizeof letters);
    memcpy(&x, letters, sizeof x);
    return be64toh(x);
}

/* Without branches that depend on the name, up to where its letters begin in the table. */
static unsigned traits_find(const struct op_traits *table, size_t n, const char *name, size_t len)
{
    const struct op_traits *end = table + n, *at = table;
    uint64_t first = first_letters(name, len);
    while (n > 1) {
        size_t half = n / 2;
        at += -(size_t)(first_letters(at[half - 1].name, 8) < first) & half;
        n -= half;
    }
    at += first_letters(at->name, 8) < first;
    for (; at < end && first_letters(at->name, 8) == first; at++)
        if (len < sizeof at->name && memcmp(at->name, name, len) == 0 && !at->name[len])
            return at->traits;
    return MLIR_UNKNOWN_OP;
}

unsigned mlir_op_traits(const char *name, size_t len)
{
    static const char dialect[] = "stablehlo.";
    const size_t skip = sizeof dialect - 1;
    if (len > skip && memcmp(name, dialect, skip) == 0)
        return traits_find(stablehlo_table, sizeof stablehlo_table / sizeof *stablehlo_table,
                           name + skip, len - skip);
    return traits_find(other_table, sizeof other_table / sizeof *other_table, name, len);
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
