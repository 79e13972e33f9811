/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hlo_ops.c - what may be done with an HLO instruction of each opcode. Any thread; no state.
 */
#include "keygen/hlo_internal.h"

#include <stdlib.h>
#include <string.h>

/* What XLA itself may do with an instruction of each opcode: `pure` ones may be merged, moved and
 * removed. COMMUTES_INT: the operands may change places if they are integers; COMMUTES also if they
 * are real numbers, where one of them is surely no exponential, which EXPONENTIAL ones may be made
 * of. The sum of reals is not among those: of a*b + c*d one product may be fused with
 * the sum, and which one depends on the order. Any opcode that is not here has an effect. */
enum opcode_kind { PURE, EXPONENTIAL, COMMUTES_INT, COMMUTES, UNKNOWN_OPCODE };

struct opcode {
    const char *name;
    enum opcode_kind kind;
};

/* Sorted by name. */
static const struct opcode opcodes[] = {
    {"abs", PURE},
    {"acos", PURE},
    {"acosh", PURE},
    {"add", COMMUTES_INT},
    {"and", COMMUTES_INT},
    {"asin", PURE},
    {"asinh", PURE},
    {"atan2", PURE},
    {"atanh", PURE},
    {"batch-norm-grad", PURE},
    {"batch-norm-inference", PURE},
    {"batch-norm-training", PURE},
    {"bitcast", PURE},
    {"bitcast-convert", PURE},
    {"broadcast", PURE},
    {"cbrt", PURE},
    {"ceil", PURE},
    {"cholesky", PURE},
    {"clamp", PURE},
    {"compare", PURE},
    {"complex", PURE},
    {"concatenate", PURE},
    {"conditional", PURE},
    {"constant", PURE},
    {"convert", PURE},
    {"convolution", PURE},
    {"copy", PURE},
    {"cosh", PURE},
    {"cosine", PURE},
    {"count-leading-zeros", PURE},
    {"divide", PURE},
    {"dot", PURE},
    {"dynamic-reshape", PURE},
    {"dynamic-slice", PURE},
    {"dynamic-update-slice", PURE},
    {"erf", PURE},
    {"exponential", EXPONENTIAL},
    {"exponential-minus-one", EXPONENTIAL},
    {"fft", PURE},
    {"floor", PURE},
    {"fusion", PURE},
    {"gather", PURE},
    {"get-dimension-size", PURE},
    {"get-tuple-element", PURE},
    {"imag", PURE},
    {"iota", PURE},
    {"is-finite", PURE},
    {"log", PURE},
    {"log-plus-one", PURE},
    {"logistic", PURE},
    {"map", PURE},
    {"maximum", COMMUTES_INT},
    {"minimum", COMMUTES_INT},
    {"multiply", COMMUTES},
    {"negate", PURE},
    {"not", PURE},
    {"or", COMMUTES_INT},
    {"pad", PURE},
    {"partition-id", PURE},
    {"popcnt", PURE},
    {"power", EXPONENTIAL},
    {"ragged-dot", PURE},
    {"real", PURE},
    {"reduce", PURE},
    {"reduce-precision", PURE},
    {"reduce-window", PURE},
    {"remainder", PURE},
    {"replica-id", PURE},
    {"reshape", PURE},
    {"reverse", PURE},
    {"rng-bit-generator", PURE},
    {"round-nearest-afz", PURE},
    {"round-nearest-even", PURE},
    {"rsqrt", PURE},
    {"scaled-dot", PURE},
    {"scan", PURE},
    {"scatter", PURE},
    {"select", PURE},
    {"select-and-scatter", PURE},
    {"set-dimension-size", PURE},
    {"shift-left", PURE},
    {"shift-right-arithmetic", PURE},
    {"shift-right-logical", PURE},
    {"sign", PURE},
    {"sine", PURE},
    {"sinh", PURE},
    {"slice", PURE},
    {"sort", PURE},
    {"sqrt", PURE},
    {"stochastic-convert", PURE},
    {"subtract", PURE},
    {"tan", PURE},
    {"tanh", PURE},
    {"topk", PURE},
    {"transpose", PURE},
    {"triangular-solve", PURE},
    {"tuple", PURE},
    {"while", PURE},
    {"xor", COMMUTES_INT},
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
        return GRAPH_EFFECT;
    char t = h->base[in->type.at]; /* s32, u8, pred; f32, bf16; c64; a tuple's bracket */
    bool whole = t == 's' || t == 'u' || t == 'p', real = t == 'f' || t == 'b';
    bool commutes = (kind == COMMUTES_INT && whole) || (kind == COMMUTES && (whole || real));
    unsigned traits = GRAPH_PURE | (kind == EXPONENTIAL ? 0u : (unsigned)GRAPH_KEEPS);
    if (commutes && in->n_operands == 2)
        traits |= GRAPH_COMMUTES | (whole ? 0u : (unsigned)GRAPH_FUSES);
    return traits;
}
