/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hlo_ops.c - what may be done with an HLO instruction of each opcode. Any thread; no state.
 */
#include "keygen/hlo_internal.h"

#include <stdlib.h>
#include <string.h>

/* What XLA itself may do with an instruction of each opcode: `pure` ones may be merged, moved and
 * removed. COMMUTES, ADDS: the operands may change places if they are integers. Not if they are real numbers:
 * of a*b + c*d one product may be fused with the sum, and which one depends on the order; and of
 * (x * c) * d and (c * x) * d XLA makes x * (c * d) of the first only, where nothing but HLO's own
 * passes puts constants in order. DELICATE ones, and sums of real numbers: GRAPH_DELICATE. ALTERS:
 * GRAPH_ALTERS. SUMS are those over devices. Any opcode that is not here has an effect. */
enum opcode_kind { PURE, ALTERS, CONSTANT, COMMUTES, ADDS, SUBTRACTS, DELICATE, SUMS, UNKNOWN_OPCODE };

struct opcode {
    const char *name;
    enum opcode_kind kind;
};

/* Sorted by name. */
static const struct opcode opcodes[] = {
    {"abs", PURE},
    {"acos", PURE},
    {"acosh", PURE},
    {"add", ADDS},
    {"all-reduce", SUMS},
    {"all-reduce-start", SUMS},
    {"and", COMMUTES},
    {"asin", PURE},
    {"asinh", PURE},
    {"atan2", DELICATE},
    {"atanh", PURE},
    {"batch-norm-grad", DELICATE},
    {"batch-norm-inference", DELICATE},
    {"batch-norm-training", DELICATE},
    {"bitcast", PURE},
    {"bitcast-convert", PURE},
    {"broadcast", PURE},
    {"cbrt", ALTERS},
    {"ceil", PURE},
    {"cholesky", DELICATE},
    {"clamp", PURE},
    {"compare", PURE},
    {"complex", PURE},
    {"concatenate", PURE},
    {"conditional", PURE},
    {"constant", CONSTANT},
    {"convert", PURE},
    {"convolution", ALTERS},
    {"copy", PURE},
    {"cosh", PURE},
    {"cosine", ALTERS},
    {"count-leading-zeros", PURE},
    {"divide", PURE},
    {"dot", ALTERS},
    {"dynamic-reshape", PURE},
    {"dynamic-slice", PURE},
    {"dynamic-update-slice", PURE},
    {"erf", PURE},
    {"exponential", ALTERS},
    {"exponential-minus-one", ALTERS},
    {"fft", PURE},
    {"floor", PURE},
    {"fusion", DELICATE},
    {"gather", PURE},
    {"get-dimension-size", PURE},
    {"get-tuple-element", PURE},
    {"imag", PURE},
    {"iota", PURE},
    {"is-finite", PURE},
    {"log", ALTERS},
    {"log-plus-one", ALTERS},
    {"logistic", ALTERS},
    {"map", PURE},
    {"maximum", COMMUTES},
    {"minimum", COMMUTES},
    {"multiply", COMMUTES},
    {"negate", PURE},
    {"not", PURE},
    {"or", COMMUTES},
    {"pad", PURE},
    {"partition-id", PURE},
    {"popcnt", PURE},
    {"power", DELICATE},
    {"ragged-dot", DELICATE},
    {"real", PURE},
    {"reduce", PURE},
    {"reduce-precision", PURE},
    {"reduce-scatter", SUMS},
    {"reduce-window", PURE},
    {"remainder", DELICATE},
    {"replica-id", PURE},
    {"reshape", PURE},
    {"reverse", PURE},
    {"rng-bit-generator", PURE},
    {"round-nearest-afz", PURE},
    {"round-nearest-even", PURE},
    {"rsqrt", ALTERS},
    {"scaled-dot", DELICATE},
    {"scan", PURE},
    {"scatter", PURE},
    {"select", PURE},
    {"select-and-scatter", PURE},
    {"set-dimension-size", PURE},
    {"shift-left", PURE},
    {"shift-right-arithmetic", PURE},
    {"shift-right-logical", PURE},
    {"sign", PURE},
    {"sine", ALTERS},
    {"sinh", PURE},
    {"slice", PURE},
    {"sort", PURE},
    {"sqrt", ALTERS},
    {"stochastic-convert", PURE},
    {"subtract", SUBTRACTS},
    {"tan", ALTERS},
    {"tanh", ALTERS},
    {"topk", PURE},
    {"transpose", PURE},
    {"triangular-solve", DELICATE},
    {"tuple", PURE},
    {"while", PURE},
    {"xor", COMMUTES},
};

static int compare_opcode(const void *key, const void *element)
{
    const struct view *name = key;
    const struct opcode *o = element;
    size_t len = strlen(o->name), common = name->len < len ? name->len : len;
    int order = memcmp(name->data, o->name, common);
    return order ? order : (name->len > len) - (name->len < len);
}

static uint32_t opcode_kind_of(const struct hlo *h, struct span opcode)
{
    struct view name = {h->base + opcode.at, opcode.len};
    const struct opcode *o =
        bsearch(&name, opcodes, COUNT(opcodes), sizeof *opcodes, compare_opcode);
    return o ? o->kind : UNKNOWN_OPCODE;
}

unsigned hlo_traits_of(struct hlo *h, const struct instr *in)
{
    enum opcode_kind kind =
        (enum opcode_kind)hlo_word_kind(h, &h->opcodes, in->opcode, opcode_kind_of);
    if (kind == UNKNOWN_OPCODE)
        return GRAPH_EFFECT | GRAPH_DELICATE;
    if (kind == SUMS)
        return GRAPH_EFFECT | GRAPH_DELICATE | GRAPH_REDUCES;
    char t = h->base[in->type.at]; /* s32, u8, pred; f32, bf16; c64; a tuple's bracket */
    bool whole = t == 's' || t == 'u' || t == 'p', adds = kind == ADDS || kind == SUBTRACTS;
    if (kind == DELICATE || (adds && !whole))
        return GRAPH_PURE | GRAPH_DELICATE;
    if (kind == CONSTANT)
        return GRAPH_PURE | GRAPH_CONSTANT;
    if (kind == ALTERS)
        return GRAPH_PURE | GRAPH_ALTERS;
    bool commutes = (kind == COMMUTES || kind == ADDS) && whole && in->n_operands == 2;
    return commutes ? GRAPH_PURE | GRAPH_COMMUTES : GRAPH_PURE;
}
