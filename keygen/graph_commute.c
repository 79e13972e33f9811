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
 * nothing. Nor does what comes into a function or out of it.
 *
 * "Surely" is said of a value by the operation that gives it, once it is placed; what is not placed
 * yet, and an argument of whose values nothing is known, is not sure of anything.
 */
#include "keygen/graph_internal.h"

bool graph_regions_keep(const struct graph *g, const struct node *o)
{
    uint32_t first = o->operands[NODE_REGION];
    if (g->regions.at[first].n_captures)
        return false;
    for (uint32_t r = first; r != NONE; r = g->regions.at[r].next)
        for (uint32_t b = g->regions.at[r].block; b != NONE; b = g->blocks.at[b].next)
            for (uint32_t i = 0; i < g->blocks.at[b].n_order; i++) {
                const struct node *inner = &g->nodes.at[g->order.at[g->blocks.at[b].order + i]];
                const struct shape *s = op_shape(g, inner);
                if (s->n_results && (!(s->traits & GRAPH_KEEPS) || shape_has_regions(s)))
                    return false;
            }
    return true;
}

struct sure graph_shape_sure(const struct shape *s)
{
    bool keeps = s->facts & SHAPE_KEEPS, regions = shape_has_regions(s);
    uint32_t always = 0, all = 0, any = 0, first = 0;
    if ((s->traits & SHAPE_CLASS) != GRAPH_PURE)
        always |= NODE_VARIES;
    else if (s->n_operands && (keeps || !regions) && !(s->traits & GRAPH_CALL))
        *(s->n_results == 1 ? &any : &all) |= NODE_VARIES;
    if (keeps && !regions && !(s->traits & SHAPE_PASSED))
        all |= NODE_LITERAL;
    if ((s->traits & (SHAPE_CLASS | SHAPE_PASSED | GRAPH_CALL)) == GRAPH_PURE)
        all |= NODE_MADE;
    if (s->traits & GRAPH_SUM)
        all |= NODE_NO_PRODUCT;
    if (s->traits & GRAPH_MOVES && s->n_operands)
        first |= NODE_NO_PRODUCT;
    if (keeps && !regions) /* with regions: graph_regions_keep */
        all |= NODE_NO_EXP;
    return (struct sure){(uint16_t)always, (uint16_t)all, (uint16_t)any, (uint16_t)first};
}

bool graph_fused_commutes(const struct shape *s, uint32_t all, uint32_t any)
{
    uint32_t wanted = s->traits & GRAPH_SUM ? NODE_NO_PRODUCT : NODE_NO_EXP;
    return s->n_operands == 2 && any & wanted && (any & NODE_LITERAL || all & NODE_VARIES);
}
