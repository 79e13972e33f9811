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

uint32_t graph_value_sure(const struct graph *g, uint32_t value)
{
    const struct node *n = &g->nodes.at[value];
    if (n->shape == NODE_ARG)
        return g->blocks.at[node_block(n)].sure;
    return (node_is_op(n) ? n : n - n->operands[NODE_INDEX])->where & NODE_SURE;
}

/* True if what is in the operation's regions makes no exponential of what comes in. */
static bool regions_keep(const struct graph *g, const struct node *o)
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

/* What the operation's own results are surely not. */
static uint32_t results_sure(const struct graph *g, const struct node *o, const struct shape *s,
                             const uint32_t *operands)
{
    uint32_t all = NODE_SURE, any = 0, first = 0, sure = 0;
    for (uint32_t i = 0; i < s->n_operands; i++) {
        uint32_t one = graph_value_sure(g, operands[i]);
        all &= one;
        any |= one;
        first = i ? first : one;
    }
    bool keeps = s->traits & GRAPH_KEEPS && !s->has_holes, regions = shape_has_regions(s);
    if ((s->traits & SHAPE_CLASS) != GRAPH_PURE)
        sure |= NODE_VARIES;
    else if (s->n_operands && (keeps || !regions) && !(s->traits & GRAPH_CALL))
        sure |= (s->n_results == 1 ? any : all) & NODE_VARIES;
    if (keeps && !regions && !(s->traits & SHAPE_PASSED))
        sure |= all & NODE_LITERAL;
    if ((s->traits & (SHAPE_CLASS | SHAPE_PASSED | GRAPH_CALL)) == GRAPH_PURE)
        sure |= all & NODE_MADE;
    if (s->traits & GRAPH_SUM)
        sure |= all & NODE_NO_PRODUCT;
    if (s->traits & GRAPH_MOVES && s->n_operands)
        sure |= first & NODE_NO_PRODUCT;
    if (keeps && (!regions || regions_keep(g, o)))
        sure |= all & NODE_NO_EXP;
    return sure;
}

/* Whether a sum or a product of real numbers commutes. */
static bool fused_commutes(const struct graph *g, const struct shape *s, const uint32_t *operands)
{
    if (s->n_operands != 2)
        return false;
    uint32_t first = graph_value_sure(g, operands[0]), second = graph_value_sure(g, operands[1]);
    uint32_t wanted = s->traits & GRAPH_SUM ? NODE_NO_PRODUCT : NODE_NO_EXP;
    if (!((first | second) & wanted))
        return false;
    return ((first | second) & NODE_LITERAL) || (first & second & NODE_VARIES);
}

void graph_commute_settle(const struct graph *g, struct node *o)
{
    const struct shape *s = op_shape(g, o);
    const uint32_t *operands = op_operands(g, o, s);
    uint32_t flags = s->traits & GRAPH_COMMUTES;
    flags |= results_sure(g, o, s, operands);
    if (s->traits & GRAPH_FUSES && !fused_commutes(g, s, operands))
        flags &= ~(uint32_t)GRAPH_COMMUTES;
    o->where = (o->where & ~NODE_SETTLED) | flags;
}
