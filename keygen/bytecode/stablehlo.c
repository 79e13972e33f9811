/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stablehlo.c - writes attributes of the StableHLO dialect in bytecode as text. builtin.c calls it,
 * also for attributes of VHLO that stand for them.
 *
 * Thread: any; the state is the caller's.
 * Source: StableHLO's bytecode.md and the attribute syntax of StablehloAttrs.td.
 */
#include "keygen/bytecode/bytecode.h"

/* An enumeration: "#stablehlo<precision DEFAULT>". */
struct enumeration {
    const char *name;
    const char *const *values;
    size_t n;
};

#define VALUES(...)                                                                                \
    (const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)

static const struct enumeration comparison_direction = {"comparison_direction",
                                                        VALUES("EQ", "NE", "GE", "GT", "LE", "LT")};
static const struct enumeration comparison_type = {
    "comparison_type", VALUES("NOTYPE", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED")};
static const struct enumeration fft_type = {"fft_type", VALUES("FFT", "IFFT", "RFFT", "IRFFT")};
static const struct enumeration precision = {"precision", VALUES("DEFAULT", "HIGH", "HIGHEST")};
static const struct enumeration rng_algorithm = {"rng_algorithm",
                                                 VALUES("DEFAULT", "THREE_FRY", "PHILOX")};
static const struct enumeration rng_distribution = {"rng_distribution",
                                                    VALUES(NULL, "UNIFORM", "NORMAL")};
static const struct enumeration transpose = {
    "transpose", VALUES("TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")};

static void put_enum(struct bytecode *b, struct reader *r, const struct enumeration *e)
{
    uint64_t value = bytecode_varint(r);
    if (value >= e->n || !e->values[value]) {
        bytecode_unknown(b, "a value of an enumeration that is not known");
        return;
    }
    bytecode_put(b, "#stablehlo<");
    bytecode_put(b, e->name);
    bytecode_put(b, " ");
    bytecode_put(b, e->values[value]);
    bytecode_put(b, ">");
}

/* Writes "name = [1, 2]" of n numbers. */
static void put_list(struct bytecode *b, struct reader *r, const char *name, uint64_t n)
{
    bytecode_put(b, name);
    bytecode_put(b, " = [");
    for (uint64_t i = 0; i < n && !bytecode_stopped(b); i++) {
        bytecode_put(b, i ? ", " : "");
        bytecode_put_i64(b, bytecode_signed(r));
    }
    bytecode_put(b, "]");
}

/* Writes a list after *separator, which it updates for the next field. Writes nothing if the list
 * is empty. */
static void put_list_field(struct bytecode *b, struct reader *r, const char *name,
                           const char **separator)
{
    uint64_t n = bytecode_read_count(b, r);
    if (!n)
        return;
    bytecode_put(b, *separator);
    put_list(b, r, name, n);
    *separator = ", ";
}

static void put_number_field(struct bytecode *b, struct reader *r, const char *name,
                             const char **separator)
{
    int64_t n = bytecode_signed(r);
    if (!n)
        return;
    bytecode_put(b, *separator);
    bytecode_put(b, name);
    bytecode_put(b, " = ");
    bytecode_put_i64(b, n);
    *separator = ", ";
}

/* Writes the fields that `lists` names, then a number if `number` is not NULL. Leaves out empty and
 * zero fields. */
static void put_struct(struct bytecode *b, struct reader *r, const char *before,
                       const char *const *lists, const char *number)
{
    const char *separator = "";
    bytecode_put(b, before);
    for (; *lists; lists++)
        put_list_field(b, r, *lists, &separator);
    if (number)
        put_number_field(b, r, number, &separator);
    bytecode_put(b, ">");
}

void bytecode_put_places(struct bytecode *b, const int64_t *place, uint64_t n, const char *names)
{
    (void)BYTECODE_EXPECT(b, n >= 2 && n <= BYTECODE_DIMENSIONS_MAX && strlen(names) == 2);
    bytecode_put(b, "[");
    for (int64_t at = 0; at < (int64_t)n && !bytecode_stopped(b); at++) {
        uint64_t which = 0;
        while (which < n && place[which] != at)
            which++;
        if (which == n) {
            bytecode_unknown(b, "a convolution whose dimensions are not each named once");
            return;
        }
        bytecode_put(b, at ? ", " : "");
        if (which < 2)
            writer_bytes(&b->out, names + which, 1);
        else
            bytecode_put_u64(b, which - 2);
    }
    bytecode_put(b, "]");
}

static void put_conv_side(struct bytecode *b, struct reader *r, const char *names)
{
    int64_t place[BYTECODE_DIMENSIONS_MAX];
    place[0] = bytecode_signed(r);
    place[1] = bytecode_signed(r);
    uint64_t n = bytecode_read_count(b, r);
    if (n > BYTECODE_DIMENSIONS_MAX - 2) {
        bytecode_unknown(b, "a convolution of too many dimensions");
        return;
    }
    for (uint64_t i = 0; i < n; i++)
        place[i + 2] = bytecode_signed(r);
    bytecode_put_places(b, place, n + 2, names);
}

static void put_conv(struct bytecode *b, struct reader *r)
{
    bytecode_put(b, "#stablehlo.conv<");
    put_conv_side(b, r, "bf");
    bytecode_put(b, "x");
    put_conv_side(b, r, "io");
    bytecode_put(b, "->");
    put_conv_side(b, r, "bf");
    bytecode_put(b, ">");
}

static void put_channel(struct bytecode *b, struct reader *r)
{
    bytecode_put(b, "#stablehlo.channel_handle<handle = ");
    bytecode_put_i64(b, bytecode_signed(r));
    bytecode_put(b, ", type = ");
    bytecode_put_i64(b, bytecode_signed(r));
    bytecode_put(b, ">");
}

static void put_alias(struct bytecode *b, struct reader *r)
{
    bytecode_put(b, "#stablehlo.output_operand_alias<");
    put_list(b, r, "output_tuple_indices", bytecode_read_count(b, r));
    bytecode_put(b, ", operand_index = ");
    bytecode_put_i64(b, bytecode_signed(r));
    bytecode_put(b, ", ");
    put_list(b, r, "operand_tuple_indices", bytecode_read_count(b, r));
    bytecode_put(b, ">");
}

static void put_bounds(struct bytecode *b, struct reader *r)
{
    uint64_t n = bytecode_read_count(b, r);
    bytecode_put(b, "#stablehlo.bounds<");
    for (uint64_t i = 0; i < n && !bytecode_stopped(b); i++) {
        int64_t bound = bytecode_signed(r);
        bytecode_put(b, i ? ", " : "");
        bytecode_put_size(b, bound);
    }
    bytecode_put(b, ">");
}

void bytecode_put_stablehlo_attr(struct bytecode *b, struct reader *r, uint64_t code)
{
    static const char *const dot[] = {"lhs_batching_dimensions", "rhs_batching_dimensions",
                                      "lhs_contracting_dimensions", "rhs_contracting_dimensions",
                                      NULL};
    static const char *const gather[] = {"offset_dims",           "collapsed_slice_dims",
                                         "operand_batching_dims", "start_indices_batching_dims",
                                         "start_index_map",       NULL};
    static const char *const scatter[] = {
        "update_window_dims",           "inserted_window_dims",
        "input_batching_dims",          "scatter_indices_batching_dims",
        "scatter_dims_to_operand_dims", NULL};
    switch (code) {
    case STABLEHLO_CHANNEL: put_channel(b, r); break;
    case STABLEHLO_COMPARISON_DIRECTION: put_enum(b, r, &comparison_direction); break;
    case STABLEHLO_COMPARISON_TYPE: put_enum(b, r, &comparison_type); break;
    case STABLEHLO_CONV: put_conv(b, r); break;
    case STABLEHLO_DOT: put_struct(b, r, "#stablehlo.dot<", dot, NULL); break;
    case STABLEHLO_FFT_TYPE: put_enum(b, r, &fft_type); break;
    case STABLEHLO_GATHER:
        put_struct(b, r, "#stablehlo.gather<", gather, "index_vector_dim");
        break;
    case STABLEHLO_PRECISION: put_enum(b, r, &precision); break;
    case STABLEHLO_RNG_ALGORITHM: put_enum(b, r, &rng_algorithm); break;
    case STABLEHLO_RNG_DISTRIBUTION: put_enum(b, r, &rng_distribution); break;
    case STABLEHLO_SCATTER:
        put_struct(b, r, "#stablehlo.scatter<", scatter, "index_vector_dim");
        break;
    case STABLEHLO_TRANSPOSE: put_enum(b, r, &transpose); break;
    case STABLEHLO_BOUNDS: put_bounds(b, r); break;
    case STABLEHLO_ALIAS: put_alias(b, r); break;
    default: bytecode_unknown(b, "a StableHLO attribute that is not known");
    }
}
