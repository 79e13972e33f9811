/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ops.c - the tables of mlir/ops.h: known operations, and attributes that the form drops. pretty.c looks
 * up each new operation name here, and attr.c looks up each attribute.
 *
 * Thread: any; no state.
 * Source: the StableHLO specification ("Ops"), the CHLO and Shardy operation definitions.
 */
#include "keygen/mlir/ops.h"

#include <string.h>

/* Operations in the usual order: operands, clauses, a dictionary, types. Sorted, without "stablehlo.". */
static const char known_names[] =
    " abs add all_reduce and atan2 batch_norm_grad batch_norm_inference batch_norm_training "
    "bitcast_convert broadcast broadcast_in_dim case cbrt ceil chlo.acos chlo.acosh "
    "chlo.asin chlo.asinh chlo.atan chlo.atanh chlo.bessel_i1e chlo.conj chlo.constant "
    "chlo.cosh chlo.digamma chlo.erf chlo.erf_inv chlo.erfc chlo.is_inf chlo.is_neg_inf "
    "chlo.is_pos_inf chlo.lgamma chlo.next_after chlo.polygamma chlo.ragged_dot chlo.sinh "
    "chlo.square chlo.tan chlo.top_k chlo.zeta cholesky clamp compare complex concatenate "
    "constant convert convolution cosine count_leading_zeros custom_call divide dot "
    "dot_general dynamic_broadcast_in_dim dynamic_conv dynamic_gather dynamic_iota "
    "dynamic_pad dynamic_reshape dynamic_slice dynamic_update_slice einsum exponential "
    "exponential_minus_one fft floor func.call func.return gather get_dimension_size "
    "get_tuple_element if imag iota is_finite log log_plus_one logistic map maximum minimum "
    "multiply negate not optimization_barrier or pad partition_id popcnt power real "
    "real_dynamic_slice reduce reduce_precision reduce_scatter reduce_window remainder "
    "replica_id reshape return reverse rng_bit_generator round_nearest_afz "
    "round_nearest_even rsqrt scatter sdy.manual_computation sdy.return "
    "sdy.sharding_constraint select select_and_scatter set_dimension_size shift_left "
    "shift_right_arithmetic shift_right_logical sign sine slice sort sqrt subtract tan tanh "
    "torch_index_select transpose triangular_solve tuple unary_einsum uniform_dequantize "
    "uniform_quantize while xor ";

/* The attributes that the form drops, each in its own places alone. `ops`: on these operations, a list
 * as above; NULL: on arguments and results of functions, where XLA reads mhlo.layout_mode alike. `value`: the
 * default, which an absent attribute means; NULL: whatever its value. jax.result_info also stands in
 * client/python/warm/jax/_enzyme.py. */
static const struct dropped_attr {
    const char *ops, *key, *value;
} dropped_table[] = {
    {NULL, "jax.result_info", NULL},
    {NULL, "mhlo.layout_mode", "\"default\""},
    {" custom_call ", "has_side_effect", "false"},
    {" custom_call ", "backend_config", "\"\""},
    {" custom_call ", "api_version", "1 : i32"},
    {" custom_call ", "called_computations", "[]"},
    {" custom_call ", "output_operand_aliases", "[]"},
    {" sort ", "is_stable", "false"},
    {" sort ", "dimension", "-1 : i64"},
    {" dynamic_gather gather scatter ", "indices_are_sorted", "false"},
    {" scatter ", "unique_indices", "false"},
    {" cholesky ", "lower", "false"},
    {" cbrt cosine exponential exponential_minus_one log log_plus_one logistic rsqrt sine sqrt tan "
     "tanh ",
     "result_accuracy",
     "#stablehlo.result_accuracy<mode = #stablehlo.result_accuracy_mode<DEFAULT>>"},
};

/* True if an operation, given by its full name, is in such a list. */
static bool is_one_of(const char *names, const char *name, size_t len)
{
    static const char dialect[] = "stablehlo.";
    const size_t skip = sizeof dialect - 1;
    if (len > skip && memcmp(name, dialect, skip) == 0) {
        name += skip;
        len -= skip;
    } else if (!memchr(name, '.', len)) {
        return false;
    }
    const char *from = names, *to = names + strlen(names) - 1; /* blanks around what is left */
    while (from < to) {
        const char *at = from + (to - from) / 2;
        size_t i = 0;
        while (*at != ' ')
            at--;
        while (i < len && name[i] != ' ' && at[1 + i] == name[i])
            i++;
        if (i == len && at[1 + i] == ' ')
            return true;
        if (i < len && at[1 + i] < name[i])
            from = strchr(at + 1 + i, ' ');
        else
            to = at;
    }
    return false;
}

bool mlir_op_is_known(const char *name, size_t len) { return is_one_of(known_names, name, len); }

static bool text_is(const char *want, const char *text, size_t len)
{
    return len && *want == *text && strlen(want) == len && memcmp(want, text, len) == 0;
}

bool mlir_attr_is_dropped(const char *op, size_t op_len, const char *key, size_t key_len,
                          const char *value, size_t value_len)
{
    for (size_t i = 0; i < sizeof dropped_table / sizeof *dropped_table; i++) {
        const struct dropped_attr *d = &dropped_table[i];
        if (text_is(d->key, key, key_len) && (d->ops ? op && is_one_of(d->ops, op, op_len) : !op) &&
            (!d->value || text_is(d->value, value, value_len)))
            return true;
    }
    return false;
}
