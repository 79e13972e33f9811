/* SPDX-License-Identifier: Apache-2.0 */
/*
 * properties.c - writes the names of operations, and the attributes in their properties, as text;
 * translates VHLO. bytecode.c looks up each name here, and walk.c calls it for each operation.
 *
 * From version 5 on, the inherent attributes of an operation are no dictionary. They are numbers of
 * attributes, in the order of their names; an optional one carries a bit that says whether it is
 * there. So a reader must know the names. If a version of a dialect has more or fewer than the list
 * here, the count differs and the reader refuses the operation.
 *
 * VHLO is StableHLO for storage: each operation has a version, and each default is explicit. A
 * current operation becomes the StableHLO one that it stands for; the reader refuses older
 * versions.
 *
 * Thread: any; no state.
 * Source: the operation definitions of builtin, func, StableHLO and VHLO (to 1.20), and the
 * correspondence in the StableHLO specification of VHLO.
 */
#include <stdlib.h>
#include <string.h>

#include "keygen/bytecode/bytecode.h"

#define PROPERTIES_MAX 24

struct operation {
    const char *name, *properties;
};

/* Sorted by name. `vhlo_plain` lists the VHLO operations without properties. */
static const struct operation operations[] = {
    {"builtin.module", "?sym_name ?sym_visibility"},
    {"chlo.top_k", "k"},
    {"func.call", "?arg_attrs callee ?no_inline ?res_attrs"},
    {"func.func", "?arg_attrs function_type ?no_inline ?res_attrs sym_name ?sym_visibility"},
    {"sdy.manual_computation", "in_shardings manual_axes out_shardings"},
    {"sdy.mesh", "mesh sym_name"},
    {"sdy.reshard", "sharding"},
    {"sdy.return", ""},
    {"sdy.sharding_constraint", "sharding"},
    {"sdy.sharding_group", "group_id"},
    {"stablehlo.all_gather", "all_gather_dim ?channel_handle replica_groups "
                             "?use_global_device_ids"},
    {"stablehlo.all_reduce", "?channel_handle replica_groups ?use_global_device_ids"},
    {"stablehlo.all_to_all", "?channel_handle concat_dimension replica_groups split_count "
                             "split_dimension"},
    {"stablehlo.batch_norm_grad", "epsilon feature_index"},
    {"stablehlo.batch_norm_inference", "epsilon feature_index"},
    {"stablehlo.batch_norm_training", "epsilon feature_index"},
    {"stablehlo.broadcast", "broadcast_sizes"},
    {"stablehlo.broadcast_in_dim", "broadcast_dimensions"},
    {"stablehlo.cbrt", "?result_accuracy"},
    {"stablehlo.cholesky", "?lower"},
    {"stablehlo.collective_broadcast", "?channel_handle replica_groups"},
    {"stablehlo.collective_permute", "?channel_handle source_target_pairs"},
    {"stablehlo.compare", "?compare_type comparison_direction"},
    {"stablehlo.composite", "?composite_attributes decomposition name ?version"},
    {"stablehlo.concatenate", "dimension"},
    {"stablehlo.constant", "value"},
    {"stablehlo.convolution", "batch_group_count dimension_numbers feature_group_count "
                              "?lhs_dilation ?padding ?precision_config ?rhs_dilation "
                              "?window_reversal ?window_strides"},
    {"stablehlo.cosine", "?result_accuracy"},
    {"stablehlo.custom_call", "?api_version ?backend_config call_target_name "
                              "?called_computations ?has_side_effect ?operand_layouts "
                              "?output_operand_aliases ?result_layouts"},
    {"stablehlo.dot", "?precision_config"},
    {"stablehlo.dot_general", "?algorithm dot_dimension_numbers ?precision_config"},
    {"stablehlo.dynamic_broadcast_in_dim", "broadcast_dimensions ?known_expanding_dimensions "
                                           "?known_nonexpanding_dimensions"},
    {"stablehlo.dynamic_gather", "dimension_numbers ?indices_are_sorted"},
    {"stablehlo.dynamic_iota", "iota_dimension"},
    {"stablehlo.dynamic_slice", "slice_sizes"},
    {"stablehlo.einsum", "einsum_config"},
    {"stablehlo.exponential", "?result_accuracy"},
    {"stablehlo.exponential_minus_one", "?result_accuracy"},
    {"stablehlo.fft", "fft_length fft_type"},
    {"stablehlo.gather", "dimension_numbers ?indices_are_sorted slice_sizes"},
    {"stablehlo.get_dimension_size", "dimension"},
    {"stablehlo.get_tuple_element", "index"},
    {"stablehlo.infeed", "infeed_config ?layout"},
    {"stablehlo.iota", "iota_dimension"},
    {"stablehlo.log", "?result_accuracy"},
    {"stablehlo.log_plus_one", "?result_accuracy"},
    {"stablehlo.logistic", "?result_accuracy"},
    {"stablehlo.map", "dimensions"},
    {"stablehlo.outfeed", "outfeed_config"},
    {"stablehlo.pad", "edge_padding_high edge_padding_low interior_padding"},
    {"stablehlo.reduce", "dimensions"},
    {"stablehlo.reduce_precision", "exponent_bits mantissa_bits"},
    {"stablehlo.reduce_scatter", "?channel_handle replica_groups scatter_dimension "
                                 "?use_global_device_ids"},
    {"stablehlo.reduce_window", "?base_dilations ?padding ?window_dilations window_dimensions "
                                "?window_strides"},
    {"stablehlo.reverse", "dimensions"},
    {"stablehlo.rng", "rng_distribution"},
    {"stablehlo.rng_bit_generator", "rng_algorithm"},
    {"stablehlo.rsqrt", "?result_accuracy"},
    {"stablehlo.scatter", "?indices_are_sorted scatter_dimension_numbers ?unique_indices"},
    {"stablehlo.select_and_scatter", "?padding ?window_dimensions ?window_strides"},
    {"stablehlo.set_dimension_size", "dimension"},
    {"stablehlo.sine", "?result_accuracy"},
    {"stablehlo.slice", "limit_indices start_indices strides"},
    {"stablehlo.sort", "?dimension ?is_stable"},
    {"stablehlo.sqrt", "?result_accuracy"},
    {"stablehlo.tan", "?result_accuracy"},
    {"stablehlo.tanh", "?result_accuracy"},
    {"stablehlo.torch_index_select", "batch_dims dim"},
    {"stablehlo.transpose", "permutation"},
    {"stablehlo.triangular_solve", "left_side lower transpose_a unit_diagonal"},
    {"stablehlo.unary_einsum", "einsum_config"},
    {"vhlo.all_gather_v2", "all_gather_dim channel_id replica_groups use_global_device_ids"},
    {"vhlo.all_reduce_v2", "channel_id replica_groups use_global_device_ids"},
    {"vhlo.all_to_all_v2", "channel_id concat_dimension replica_groups split_count "
                           "split_dimension"},
    {"vhlo.batch_norm_grad_v1", "epsilon feature_index"},
    {"vhlo.batch_norm_inference_v1", "epsilon feature_index"},
    {"vhlo.batch_norm_training_v1", "epsilon feature_index"},
    {"vhlo.broadcast_in_dim_v1", "broadcast_dimensions"},
    {"vhlo.broadcast_v1", "broadcast_sizes"},
    {"vhlo.call_v1", "callee"},
    {"vhlo.cbrt_v2", "result_accuracy"},
    {"vhlo.cholesky_v1", "lower"},
    {"vhlo.collective_permute_v1", "channel_id source_target_pairs"},
    {"vhlo.compare_v1", "compare_type comparison_direction"},
    {"vhlo.composite_v1", "composite_attributes decomposition name version"},
    {"vhlo.composite_v2", "composite_attributes decomposition name version"},
    {"vhlo.concatenate_v1", "dimension"},
    {"vhlo.constant_v1", "value"},
    {"vhlo.convolution_v1",
     "batch_group_count feature_group_count input_batch_dimension input_feature_dimension "
     "input_spatial_dimensions kernel_input_feature_dimension kernel_output_feature_dimension "
     "kernel_spatial_dimensions lhs_dilation output_batch_dimension output_feature_dimension "
     "output_spatial_dimensions padding precision_config rhs_dilation window_reversal "
     "window_strides"},
    {"vhlo.cosine_v2", "result_accuracy"},
    {"vhlo.custom_call_v1", "api_version backend_config call_target_name called_computations "
                            "has_side_effect operand_layouts output_operand_aliases "
                            "result_layouts"},
    {"vhlo.custom_call_v2", "api_version backend_config call_target_name called_computations "
                            "has_side_effect operand_layouts output_operand_aliases "
                            "result_layouts result_tilings"},
    {"vhlo.dot_general_v2",
     "accumulation_type allow_imprecise_accumulation lhs_batching_dimensions lhs_component_count "
     "lhs_contracting_dimensions lhs_precision_type num_primitive_operations precision_config "
     "rhs_batching_dimensions rhs_component_count rhs_contracting_dimensions rhs_precision_type"},
    {"vhlo.dynamic_slice_v1", "slice_sizes"},
    {"vhlo.exponential_minus_one_v2", "result_accuracy"},
    {"vhlo.exponential_v2", "result_accuracy"},
    {"vhlo.fft_v1", "fft_length fft_type"},
    {"vhlo.func_v1", "arg_attrs function_type res_attrs sym_name sym_visibility"},
    {"vhlo.gather_v2", "collapsed_slice_dims index_vector_dim indices_are_sorted offset_dims "
                       "operand_batching_dims slice_sizes start_index_map "
                       "start_indices_batching_dims"},
    {"vhlo.get_dimension_size_v1", "dimension"},
    {"vhlo.get_tuple_element_v1", "index"},
    {"vhlo.iota_v1", "iota_dimension"},
    {"vhlo.log_plus_one_v2", "result_accuracy"},
    {"vhlo.log_v2", "result_accuracy"},
    {"vhlo.logistic_v2", "result_accuracy"},
    {"vhlo.map_v1", "dimensions"},
    {"vhlo.pad_v1", "edge_padding_high edge_padding_low interior_padding"},
    {"vhlo.reduce_precision_v1", "exponent_bits mantissa_bits"},
    {"vhlo.reduce_scatter_v1", "channel_id replica_groups scatter_dimension "
                               "use_global_device_ids"},
    {"vhlo.reduce_v1", "dimensions"},
    {"vhlo.reduce_window_v1", "base_dilations padding window_dilations window_dimensions "
                              "window_strides"},
    {"vhlo.reverse_v1", "dimensions"},
    {"vhlo.rng_bit_generator_v1", "rng_algorithm"},
    {"vhlo.rng_v1", "rng_distribution"},
    {"vhlo.rsqrt_v2", "result_accuracy"},
    {"vhlo.scatter_v2", "index_vector_dim indices_are_sorted input_batching_dims "
                        "inserted_window_dims scatter_dims_to_operand_dims "
                        "scatter_indices_batching_dims unique_indices update_window_dims"},
    {"vhlo.select_and_scatter_v1", "padding window_dimensions window_strides"},
    {"vhlo.sine_v2", "result_accuracy"},
    {"vhlo.slice_v1", "limit_indices start_indices strides"},
    {"vhlo.sort_v1", "dimension is_stable"},
    {"vhlo.sqrt_v2", "result_accuracy"},
    {"vhlo.tan_v2", "result_accuracy"},
    {"vhlo.tanh_v2", "result_accuracy"},
    {"vhlo.transpose_v1", "permutation"},
    {"vhlo.triangular_solve_v1", "left_side lower transpose_a unit_diagonal"},
};

/* VHLO operations without attributes. Version 1 of some is older than their accuracy attribute,
 * whose default then applies. */
/* clang-format off */
static const char *const vhlo_plain[] = {
    "abs_v1", "add_v1", "after_all_v1", "and_v1", "atan2_v1", "bitcast_convert_v1", "case_v1",
    "cbrt_v1", "ceil_v1", "clamp_v1", "complex_v1", "convert_v1", "cosine_v1",
    "count_leading_zeros_v1", "divide_v1", "dynamic_pad_v1", "dynamic_reshape_v1",
    "dynamic_update_slice_v1", "exponential_minus_one_v1", "exponential_v1", "floor_v1", "if_v1",
    "imag_v1", "is_finite_v1", "log_plus_one_v1", "log_v1", "logistic_v1", "maximum_v1",
    "minimum_v1", "multiply_v1", "negate_v1", "not_v1", "optimization_barrier_v1", "or_v1",
    "partition_id_v1", "popcnt_v1", "power_v1", "real_dynamic_slice_v1", "real_v1",
    "remainder_v1", "replica_id_v1", "reshape_v1", "return_v1", "round_nearest_afz_v1",
    "round_nearest_even_v1", "rsqrt_v1", "select_v1", "shift_left_v1",
    "shift_right_arithmetic_v1", "shift_right_logical_v1", "sign_v1", "sine_v1", "sqrt_v1",
    "subtract_v1", "tan_v1", "tanh_v1", "tuple_v1", "while_v1", "xor_v1",
};
/* clang-format on */

#define COUNT(array) (sizeof(array) / sizeof *(array))

static int compare_name(const void *key, const void *element)
{
    const char *name = key;
    const struct operation *o = element;
    return strcmp(name, o->name);
}

void bytecode_opname_look_up(struct bytecode_opname *op)
{
    char name[80];
    op->vhlo = view_is(op->dialect, "vhlo");
    op->properties = NULL;
    if (op->dialect.len + op->name.len + 2 > sizeof name)
        return;
    memcpy(name, op->dialect.data, op->dialect.len);
    name[op->dialect.len] = '.';
    memcpy(name + op->dialect.len + 1, op->name.data, op->name.len);
    name[op->dialect.len + 1 + op->name.len] = '\0';
    const struct operation *o =
        bsearch(name, operations, COUNT(operations), sizeof *operations, compare_name);
    if (o) {
        op->properties = o->properties;
        return;
    }
    /* Other operations of StableHLO and func have no properties. */
    if (view_is(op->dialect, "stablehlo") || view_is(op->dialect, "func"))
        op->properties = "";
    for (size_t i = 0; op->vhlo && i < COUNT(vhlo_plain); i++)
        if (view_is(op->name, vhlo_plain[i]))
            op->properties = "";
}

void bytecode_put_opname(struct bytecode *b, const struct bytecode_opname *op, bool in_function)
{
    struct view name = op->name;
    if (!op->vhlo) {
        writer_bytes(&b->out, op->dialect.data, op->dialect.len);
        bytecode_put(b, ".");
        writer_bytes(&b->out, name.data, name.len);
        return;
    }
    if (!op->properties) {
        bytecode_unknown(b, "a VHLO operation or version that is not known");
        return;
    }
    bool is_return = view_is(name, "return_v1");
    if (view_is(name, "func_v1") || view_is(name, "call_v1") || (is_return && in_function))
        bytecode_put(b, "func.");
    else
        bytecode_put(b, "stablehlo.");
    if (BYTECODE_EXPECT(b, name.len > 3)) /* without "_v1" */
        writer_bytes(&b->out, name.data, name.len - 3);
}

/* ---- properties ---- */

struct property {
    struct view name;
    uint64_t attr;
    bool present;
};

/* Reads the number for each name of the list. Returns their count; 0 also if the list is empty. */
static size_t properties_read(struct bytecode *b, const struct bytecode_opname *op,
                              struct view bytes, struct property out[PROPERTIES_MAX])
{
    struct reader r = reader_over(bytes.data, bytes.len);
    const char *at = op->properties;
    size_t n = 0;
    for (; *at && n < PROPERTIES_MAX; n++) {
        bool optional = *at == '?';
        at += optional;
        size_t len = strcspn(at, " ");
        out[n] = (struct property){.name = {at, len}, .present = true};
        out[n].attr = optional ? bytecode_flagged(&r, &out[n].present) : bytecode_varint(&r);
        at += len + (at[len] == ' ');
    }
    (void)BYTECODE_EXPECT(b, !*at); /* all names of the list have room */
    if (!reader_done(&r))
        bytecode_unknown(b, "properties of an operation in a version that is not known");
    return n;
}

/* ---- VHLO ---- */

/* The value of an attribute of VHLO that StableHLO leaves out. */
enum vhlo_default {
    WRITTEN,      /* StableHLO never leaves it out */
    FALSE_BOOL,   /* false */
    EMPTY,        /* an empty array, dictionary or string */
    NO_TYPE,      /* no comparison type */
    ACCURACY,     /* the default accuracy */
    ZERO_CHANNEL, /* no channel */
    MINUS_ONE,
};

enum vhlo_spelling {
    AS_IT_IS,
    NUMBERS,  /* a tensor becomes array<i64: ...> */
    BOOLEANS, /* a tensor becomes array<i1: ...> */
    SYMBOL,   /* a string becomes the symbol of a function */
    SYMBOLS,
    UNIT,    /* a boolean becomes present or absent */
    CHANNEL, /* a number becomes a channel handle */
};

/* By name: an attribute means the same in each operation that has it. */
static const struct vhlo_rule {
    const char *name;
    enum vhlo_default absent;
    enum vhlo_spelling spelling;
} vhlo_rules[] = {
    {"arg_attrs", EMPTY, AS_IT_IS},
    {"backend_config", EMPTY, AS_IT_IS},
    {"base_dilations", WRITTEN, NUMBERS},
    {"broadcast_dimensions", WRITTEN, NUMBERS},
    {"broadcast_sizes", WRITTEN, NUMBERS},
    {"called_computations", EMPTY, SYMBOLS},
    {"callee", WRITTEN, SYMBOL},
    {"channel_id", ZERO_CHANNEL, CHANNEL},
    {"compare_type", NO_TYPE, AS_IT_IS},
    {"composite_attributes", EMPTY, AS_IT_IS},
    {"decomposition", WRITTEN, SYMBOL},
    {"dimensions", WRITTEN, NUMBERS},
    {"edge_padding_high", WRITTEN, NUMBERS},
    {"edge_padding_low", WRITTEN, NUMBERS},
    {"fft_length", WRITTEN, NUMBERS},
    {"has_side_effect", FALSE_BOOL, AS_IT_IS},
    {"indices_are_sorted", FALSE_BOOL, AS_IT_IS},
    {"interior_padding", WRITTEN, NUMBERS},
    {"is_stable", FALSE_BOOL, AS_IT_IS},
    {"lhs_dilation", WRITTEN, NUMBERS},
    {"limit_indices", WRITTEN, NUMBERS},
    {"operand_layouts", EMPTY, AS_IT_IS},
    {"output_operand_aliases", EMPTY, AS_IT_IS},
    {"permutation", WRITTEN, NUMBERS},
    {"res_attrs", EMPTY, AS_IT_IS},
    {"result_accuracy", ACCURACY, AS_IT_IS},
    {"result_layouts", EMPTY, AS_IT_IS},
    {"result_tilings", EMPTY, AS_IT_IS},
    {"rhs_dilation", WRITTEN, NUMBERS},
    {"slice_sizes", WRITTEN, NUMBERS},
    {"start_indices", WRITTEN, NUMBERS},
    {"strides", WRITTEN, NUMBERS},
    {"sym_visibility", EMPTY, AS_IT_IS},
    {"unique_indices", FALSE_BOOL, AS_IT_IS},
    {"use_global_device_ids", FALSE_BOOL, UNIT},
    {"window_dilations", WRITTEN, NUMBERS},
    {"window_dimensions", WRITTEN, NUMBERS},
    {"window_reversal", WRITTEN, BOOLEANS},
    {"window_strides", WRITTEN, NUMBERS},
};

static const struct vhlo_rule *rule_of(struct view name)
{
    static const struct vhlo_rule plain = {"", WRITTEN, AS_IT_IS};
    for (size_t i = 0; i < COUNT(vhlo_rules); i++)
        if (view_is(name, vhlo_rules[i].name))
            return &vhlo_rules[i];
    return &plain;
}

/* True if the mode is the default and all tolerances are zero. */
static bool accuracy_is_default(struct bytecode *b, struct reader r)
{
    int64_t atol = bytecode_signed(&r), rtol = bytecode_signed(&r), ulps = bytecode_signed(&r);
    struct bytecode_vhlo mode;
    return !atol && !rtol && !ulps && bytecode_vhlo_open(b, bytecode_varint(&r), &mode) &&
           mode.code == VHLO_ACCURACY_MODE && bytecode_varint(&mode.rest) == 0;
}

static bool is_absent(struct bytecode *b, const struct vhlo_rule *rule, uint64_t attr)
{
    struct bytecode_vhlo v;
    struct view text;
    int64_t number;
    if (rule->absent == WRITTEN || !bytecode_vhlo_open(b, attr, &v))
        return false;
    switch (rule->absent) {
    case FALSE_BOOL: return v.code == VHLO_BOOL && bytecode_varint(&v.rest) == 0;
    case NO_TYPE: return v.code == VHLO_COMPARISON_TYPE && bytecode_varint(&v.rest) == 0;
    case ACCURACY: return v.code == VHLO_ACCURACY && accuracy_is_default(b, v.rest);
    case ZERO_CHANNEL: return bytecode_vhlo_integer(b, attr, &number) && number == 0;
    case EMPTY:
        if (v.code == VHLO_STRING)
            return bytecode_string_of(b, attr, &text) && !text.len;
        return (v.code == VHLO_ARRAY || v.code == VHLO_DICT) && bytecode_varint(&v.rest) == 0;
    default: return false;
    }
}

static void put_symbol_attr(struct bytecode *b, uint64_t attr)
{
    struct view name;
    if (bytecode_string_of(b, attr, &name))
        bytecode_put_symbol(b, name);
    else
        bytecode_unknown(b, "the name of a function that is no string");
}

static void put_symbols(struct bytecode *b, uint64_t attr)
{
    struct bytecode_vhlo v;
    if (!bytecode_vhlo_open(b, attr, &v) || v.code != VHLO_ARRAY) {
        bytecode_unknown(b, "names of functions that are no array");
        return;
    }
    uint64_t n = bytecode_varint(&v.rest);
    bytecode_put(b, "[");
    for (uint64_t i = 0; i < n && !bytecode_stopped(b) && !v.rest.failed; i++) {
        bytecode_put(b, i ? ", " : "");
        put_symbol_attr(b, bytecode_varint(&v.rest));
    }
    bytecode_put(b, "]");
}

/* Puts a comma before each attribute of a list but the first. */
static void put_comma(struct bytecode *b, bool *any)
{
    bytecode_put(b, *any ? ", " : "");
    *any = true;
}

/* Writes the channel of a collective, which connects devices. StableHLO's handle then has type 0. */
static void put_channel_id(struct bytecode *b, uint64_t attr)
{
    int64_t id;
    if (!bytecode_vhlo_integer(b, attr, &id) || id < 0) {
        bytecode_unknown(b, "a channel that is no number");
        return;
    }
    bytecode_put(b, "channel_handle = #stablehlo.channel_handle<handle = ");
    bytecode_put_u64(b, (uint64_t)id);
    bytecode_put(b, ", type = 0>");
}

static void put_dense_array(struct bytecode *b, const char *before, uint64_t attr)
{
    bytecode_put(b, before);
    bytecode_put(b, ": ");
    size_t empty = b->out.len;
    bytecode_put_elements(b, attr);
    if (b->out.len == empty)
        b->out.len -= 2; /* an empty array has no colon */
    bytecode_put(b, ">");
}

static void put_vhlo_property(struct bytecode *b, const struct property *p, bool *any)
{
    const struct vhlo_rule *rule = rule_of(p->name);
    if (is_absent(b, rule, p->attr))
        return;
    put_comma(b, any);
    if (rule->spelling == CHANNEL) {
        put_channel_id(b, p->attr);
        return;
    }
    writer_bytes(&b->out, p->name.data, p->name.len);
    if (rule->spelling == UNIT)
        return;
    bytecode_put(b, " = ");
    switch (rule->spelling) {
    case NUMBERS: put_dense_array(b, "array<i64", p->attr); break;
    case BOOLEANS: put_dense_array(b, "array<i1", p->attr); break;
    case SYMBOL: put_symbol_attr(b, p->attr); break;
    case SYMBOLS: put_symbols(b, p->attr); break;
    default: bytecode_put_attr(b, p->attr, 0);
    }
}

/* Returns the attribute of a name that the operation's list has. */
static uint64_t attr_named(struct bytecode *b, const struct property *p, size_t n, const char *name)
{
    size_t i = 0;
    while (i < n && !view_is(p[i].name, name))
        i++;
    return BYTECODE_EXPECT(b, i < n) ? p[i].attr : UINT64_MAX;
}

/* Writes "name = [1, 2]" from a tensor; nothing if the tensor is empty. */
static void put_dims(struct bytecode *b, struct property *p, size_t n, const char *name, bool *any)
{
    size_t start = b->out.len;
    bool before = *any;
    put_comma(b, any);
    bytecode_put(b, name);
    bytecode_put(b, " = [");
    size_t empty = b->out.len;
    bytecode_put_elements(b, attr_named(b, p, n, name));
    if (b->out.len == empty) {
        b->out.len = start;
        *any = before;
        return;
    }
    bytecode_put(b, "]");
}

/* Several attributes of VHLO that StableHLO holds in one: `name` = `before`, the lists, the number,
 * then ">". */
struct bundle {
    const char *op, *name, *before;
    const char *lists[6];
    const char *number;
};

static const struct bundle bundles[] = {
    {"dot_general_v2",
     "dot_dimension_numbers",
     "#stablehlo.dot<",
     {"lhs_batching_dimensions", "rhs_batching_dimensions", "lhs_contracting_dimensions",
      "rhs_contracting_dimensions"},
     NULL},
    {"gather_v2",
     "dimension_numbers",
     "#stablehlo.gather<",
     {"offset_dims", "collapsed_slice_dims", "operand_batching_dims", "start_indices_batching_dims",
      "start_index_map"},
     "index_vector_dim"},
    {"scatter_v2",
     "scatter_dimension_numbers",
     "#stablehlo.scatter<",
     {"update_window_dims", "inserted_window_dims", "input_batching_dims",
      "scatter_indices_batching_dims", "scatter_dims_to_operand_dims"},
     "index_vector_dim"},
};

static void put_bundle(struct bytecode *b, const struct bundle *bundle, struct property *p,
                       size_t n)
{
    bool any = false;
    bytecode_put(b, bundle->name);
    bytecode_put(b, " = ");
    bytecode_put(b, bundle->before);
    for (size_t i = 0; bundle->lists[i]; i++)
        put_dims(b, p, n, bundle->lists[i], &any);
    int64_t number = 0;
    if (bundle->number && !bytecode_vhlo_integer(b, attr_named(b, p, n, bundle->number), &number))
        bytecode_unknown(b, "a dimension that is no number");
    if (number > 0) {
        put_comma(b, &any);
        bytecode_put(b, bundle->number);
        bytecode_put(b, " = ");
        bytecode_put_u64(b, (uint64_t)number);
    }
    bytecode_put(b, ">");
}

/* VHLO spells the dimensions of a convolution as nine attributes. */
static const char *const conv_names[] = {
    "input_batch_dimension",           "input_feature_dimension",
    "input_spatial_dimensions",        "kernel_input_feature_dimension",
    "kernel_output_feature_dimension", "kernel_spatial_dimensions",
    "output_batch_dimension",          "output_feature_dimension",
    "output_spatial_dimensions"};

static void put_convolution(struct bytecode *b, struct property *p, size_t n)
{
    static const char *const sides[] = {"dimension_numbers = #stablehlo.conv<", "x", "->"};
    static const char *const letters[] = {"bf", "io", "bf"};
    for (size_t side = 0; side < 3; side++) {
        int64_t first, second;
        const char *const *names = conv_names + 3 * side;
        if (!bytecode_vhlo_integer(b, attr_named(b, p, n, names[0]), &first) ||
            !bytecode_vhlo_integer(b, attr_named(b, p, n, names[1]), &second)) {
            bytecode_unknown(b, "a dimension that is no number");
            return;
        }
        bytecode_put(b, sides[side]);
        bytecode_put_conv_side(b, letters[side], first, second, attr_named(b, p, n, names[2]));
    }
    bytecode_put(b, ">");
}

static bool of_convolution(const struct bytecode_opname *op, struct view name)
{
    for (size_t i = 0; i < COUNT(conv_names); i++)
        if (view_is(name, conv_names[i]))
            return view_is(op->name, "convolution_v1");
    return false;
}

static bool in_bundle(const struct bundle *bundle, struct view name)
{
    for (size_t i = 0; bundle->lists[i]; i++)
        if (view_is(name, bundle->lists[i]))
            return true;
    return bundle->number && view_is(name, bundle->number);
}

/* True if the attribute is one of the seven of a dot's algorithm. Refuses a dot that has an
 * algorithm. */
static bool of_algorithm(struct bytecode *b, const struct bytecode_opname *op,
                         const struct property *p)
{
    static const char *const names[] = {"accumulation_type",        "allow_imprecise_accumulation",
                                        "lhs_component_count",      "lhs_precision_type",
                                        "num_primitive_operations", "rhs_component_count",
                                        "rhs_precision_type"};
    if (!view_is(op->name, "dot_general_v2"))
        return false;
    for (size_t i = 0; i < COUNT(names); i++) {
        if (!view_is(p->name, names[i]))
            continue;
        if (!bytecode_vhlo_is_none(b, p->attr))
            bytecode_unknown(b, "a dot with an algorithm in VHLO");
        return true;
    }
    return false;
}

static void put_vhlo_properties(struct bytecode *b, const struct bytecode_opname *op,
                                struct property *p, size_t n)
{
    bool any = false;
    const struct bundle *bundle = NULL;
    for (size_t i = 0; i < COUNT(bundles); i++)
        if (view_is(op->name, bundles[i].op))
            bundle = &bundles[i];
    if (view_is(op->name, "convolution_v1")) {
        put_comma(b, &any);
        put_convolution(b, p, n);
    }
    if (bundle) {
        put_comma(b, &any);
        put_bundle(b, bundle, p, n);
    }
    for (size_t i = 0; i < n && !bytecode_stopped(b); i++)
        if (!(bundle && in_bundle(bundle, p[i].name)) && !of_convolution(op, p[i].name) &&
            !of_algorithm(b, op, &p[i]))
            put_vhlo_property(b, &p[i], &any);
}

void bytecode_put_properties(struct bytecode *b, const struct bytecode_opname *op,
                             const struct bytecode_properties *properties)
{
    struct view bytes = {b->start + properties->at, properties->len};
    struct property p[PROPERTIES_MAX];
    if (!op->properties) {
        bytecode_unknown(b, "an operation whose properties are not known");
        return;
    }
    size_t n = properties_read(b, op, bytes, p);
    if (bytecode_stopped(b))
        return;
    if (op->vhlo) {
        put_vhlo_properties(b, op, p, n);
        return;
    }
    bool any = false;
    for (size_t i = 0; i < n && !bytecode_stopped(b); i++) {
        if (!p[i].present)
            continue;
        put_comma(b, &any);
        writer_bytes(&b->out, p[i].name.data, p[i].name.len);
        if (bytecode_attr_is_unit(b, p[i].attr))
            continue;
        bytecode_put(b, " = ");
        bytecode_put_attr(b, p[i].attr, 0);
    }
}
