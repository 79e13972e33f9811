/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graph_commute.c - whether an operation commutes, for the sake of its operands. Part of graph.h.
 *
 * Of two products a compiler fuses one with their sum, and which one depends on the order. Of two
 * exponentials it makes one of their exponents' sum, exp(a) * exp(b) = exp(a + b), and a and b may be
 * products (XLA on CPU: other bits for a fifth of random inputs). So the sum of two values commutes
 * if one of them is surely no product, and the product of two if one is surely no exponential, after
 * whatever a compiler simplifies away before.
 *
 * And XLA takes constants together, (x + c) + d = x + (c + d), where they stand second; one that is
 * written so is put there first, but not one that comes out late (a constant sorted, the sum of its
 * elements, a power of it). So what is computed from constants alone in such a way commutes with
 * nothing.
 *
 * "Surely" is said of a value by the operation that gives it, once it is placed; what is not placed
 * yet, and an argument of whose values nothing is known, is not sure of anything.
 */
#include "keygen/graph_internal.h"

/* TRAIT_SURE as it holds for a value. */
static uint32_t sure_of(const struct graph *g, uint32_t value)
{
    uint32_t def = g->values.at[value].def;
    return def & DEF_ARG ? g->blocks.at[def & ~DEF_ARG].sure : g->ops.at[def].traits & TRAIT_SURE;
}

/* True if what is in the operation's regions makes no exponential of what comes in. */
static bool regions_keep(const struct graph *g, const struct op *o)
{
    uint32_t first = op_shape(g, o)->regions;
    if (g->regions.at[first].n_captures)
        return false;
    for (uint32_t r = first; r != NONE; r = g->regions.at[r].next)
        for (uint32_t b = g->regions.at[r].block; b != NONE; b = g->blocks.at[b].next)
            for (uint32_t i = 0; i < g->blocks.at[b].n_order; i++) {
                const struct op *inner = &g->ops.at[g->order.at[g->blocks.at[b].order + i]];
                const struct shape *s = op_shape(g, inner);
                if (s->n_results && (!(s->traits & GRAPH_KEEPS) || op_has_regions(inner)))
                    return false;
            }
    return true;
}

/* What the operation's own results are surely not. */
static uint32_t results_sure(const struct graph *g, const struct op *o, const struct shape *s)
{
    const uint32_t *operands = &g->operands.at[o->operands];
    uint32_t all = TRAIT_SURE, any = 0, first = 0, sure = 0;
    for (uint32_t i = 0; i < s->n_operands; i++) {
        uint32_t one = sure_of(g, operands[i]);
        all &= one;
        any |= one;
        first = i ? first : one;
    }
    bool keeps = s->traits & GRAPH_KEEPS && !s->has_holes;
    if ((s->traits & TRAIT_CLASS) != GRAPH_PURE)
        sure |= TRAIT_VARIES;
    else if (s->n_operands && (keeps || !op_has_regions(o)) && !(s->traits & GRAPH_CALL))
        sure |= (s->n_results == 1 ? any : all) & TRAIT_VARIES;
    if (keeps && !op_has_regions(o))
        sure |= all & TRAIT_LITERAL;
    if (s->traits & GRAPH_SUM)
        sure |= all & TRAIT_NO_PRODUCT;
    if (s->traits & GRAPH_MOVES && s->n_operands)
        sure |= first & TRAIT_NO_PRODUCT;
    if (keeps && (!op_has_regions(o) || regions_keep(g, o)))
        sure |= all & TRAIT_NO_EXP;
    return sure;
}

/* Whether a sum or a product of real numbers commutes. */
static bool fused_commutes(const struct graph *g, const struct op *o, const struct shape *s)
{
    if (s->n_operands != 2)
        return false;
    uint32_t first = sure_of(g, g->operands.at[o->operands]);
    uint32_t second = sure_of(g, g->operands.at[o->operands + 1]);
    uint32_t wanted = s->traits & GRAPH_SUM ? TRAIT_NO_PRODUCT : TRAIT_NO_EXP;
    if (!((first | second) & wanted))
        return false;
    return ((first | second) & TRAIT_LITERAL) || (first & second & TRAIT_VARIES);
}

void graph_commute_settle(const struct graph *g, struct op *o)
{
    const struct shape *s = op_shape(g, o);
    uint32_t traits = s->traits & (GRAPH_COMMUTES | GRAPH_FUSES);
    traits |= results_sure(g, o, s);
    if (s->traits & GRAPH_FUSES && !fused_commutes(g, o, s))
        traits &= ~(uint32_t)(GRAPH_COMMUTES | GRAPH_FUSES);
    o->traits = (o->traits & ~TRAIT_SETTLED) | traits;
}
