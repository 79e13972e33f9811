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
 * written so is put there first, but not one that comes out late: of constants (a constant sorted, its
 * cube root), or of what is no constant as it is written (x to the power of 0, the select of a
 * comparison that always holds, a slice that is written over). So what commutes are a constant that is
 * written so, and what surely varies: what comes from memory, real arithmetic of it, and what is made
 * of nothing else by operations that never give the same for all (GRAPH_LIVES). Not what comes into a
 * function or out of it, if it is a constant. This holds for integers, too: XLA for GPUs makes one kernel of
 * x * broadcast(reduce(x)), and two where the product is turned round.
 *
 * In regions nothing commutes: of two equal reductions, loops or branches a compiler makes one, but it
 * compares what is in them as it is written (XLA for GPUs fuses the one otherwise than the two, and then
 * sums in another order). Nor in functions that are not inlined, since regions may call them.
 *
 * Where numbers have not all as many bits, only with an argument or a constant that is written so: in which
 * order a compiler comes to the users of a value decides what it computes together with a sum, and the number
 * of bits of what goes in there how the sum is taken. What an operand is made of decides that order.
 *
 * Nor in a program for several devices, where an operand that lies otherwise than the one after it decides
 * how the result lies.
 *
 * Where the module has a sum of two products, or what a compiler may make one of, nothing commutes at all:
 * which product LLVM fuses then depends on the order in which the operands of everything before it were
 * loaded. It is known last, and what did change places then goes back.
 *
 * "Surely" is said of a value by the operation that gives it, once it is placed; what is not placed
 * yet, and an argument of whose values nothing is known, is not sure of anything.
 */
#include "keygen/graph_internal.h"

#include <string.h>

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

/* True of an array without elements: whatever it is given to, its numbers are known. */
static bool type_is_empty(const char *t, size_t len)
{
    for (size_t i = 1; i + 1 < len; i++)
        if (t[i] == '0' && t[i + 1] == 'x' && (t[i - 1] == '<' || t[i - 1] == 'x'))
            return true;
    return false;
}

uint32_t graph_sure_of_type(const char *text, size_t len)
{
    return type_is_empty(text, len) ? NODE_SURE & ~NODE_VARIES : NODE_SURE;
}

struct sure graph_shape_sure(const struct graph *g, const struct shape *s)
{
    bool keeps = s->facts & SHAPE_KEEPS, regions = shape_has_regions(s);
    uint32_t always = 0, all = 0, any = 0, first = 0;
    if (s->traits & GRAPH_FUSES)
        any |= NODE_VARIES;
    if (s->traits & GRAPH_LIVES && s->n_operands)
        all |= NODE_VARIES;
    if (s->traits & GRAPH_MOVES && s->n_operands)
        first |= s->traits & SHAPE_PASSED ? NODE_VARIES : NODE_VARIES | NODE_LITERAL;
    if (s->facts & SHAPE_CONSTANT)
        always |= NODE_LITERAL;
    if ((s->traits & (SHAPE_CLASS | SHAPE_PASSED | GRAPH_CALL)) == GRAPH_PURE)
        all |= NODE_MADE;
    if (s->traits & GRAPH_SUM)
        all |= NODE_NO_PRODUCT;
    if (s->traits & GRAPH_MOVES && s->n_operands)
        first |= NODE_NO_PRODUCT;
    if (keeps && !regions) /* with regions: graph_regions_keep */
        all |= NODE_NO_EXP;
    uint32_t may = NODE_SURE;
    for (uint32_t i = 0; i < s->n_results; i++)
        may &= type_sure(g, g->shape_types.at[s->types + i]);
    return (struct sure){(uint16_t)(always & may), (uint16_t)(all & may), (uint16_t)(any & may),
                         (uint16_t)(first & may)};
}

bool graph_sure_commutes(const struct shape *s, uint32_t all, uint32_t any)
{
    uint32_t wanted = s->traits & GRAPH_SUM ? NODE_NO_PRODUCT : NODE_NO_EXP;
    if (s->traits & GRAPH_FUSES && !(any & wanted))
        return false;
    return s->n_operands == 2 && (any & NODE_LITERAL || all & NODE_VARIES);
}

/* ---- sums of two products ---- */

bool graph_op_is_delicate(const struct graph *g, const struct node *o)
{
    const struct shape *s = op_shape(g, o);
    if (s->traits & GRAPH_DELICATE)
        return true;
    if (s->traits & GRAPH_CALL) { /* its function may be one that was not looked at */
        const struct func *f = graph_func_of(g, s->callee);
        return !f || f->inlines;
    }
    if (~s->traits & (GRAPH_SUM | GRAPH_FUSES) || s->n_operands != 2)
        return false;
    const uint32_t *operands = op_operands(g, o, s);
    return !((g->nodes.at[operands[0]].where | g->nodes.at[operands[1]].where) & NODE_NO_PRODUCT);
}

/* A complex product is two sums of products. */
static bool any_complex(const struct graph *g)
{
    for (uint32_t i = 0; i < g->types.items.n; i++) {
        struct view type = graph_type_text(g, i);
        if (!memchr(type.data, 'c', type.len))
            continue;
        if (memmem(type.data, type.len, "complex<", 8) || memmem(type.data, type.len, "c64[", 4) ||
            memmem(type.data, type.len, "c128[", 5))
            return true;
    }
    return false;
}

/* Marks the blocks of functions that stay beside the public ones; true if there are any. */
static bool funcs_keep(struct graph *g)
{
    bool any = false;
    for (uint32_t i = 0; i < g->func_order.n; i++) {
        const struct func *f = &g->funcs.at[g->func_order.at[i]];
        if (!f->named && (f->inlines || f->is_public))
            continue;
        for (uint32_t b = f->block; b != NONE; b = g->blocks.at[b].next)
            g->blocks.at[b].kept = any = true;
    }
    return any;
}

/* Whether whichever of two operands comes first, a compiler comes to all that they are made of in one order. */
static bool order_is_one(const struct graph *g, const struct node *o)
{
    const uint32_t *operands = op_operands(g, o, op_shape(g, o));
    for (int i = 0; i < 2; i++)
        if (value_op(g, operands[i]) == NONE || g->nodes.at[operands[i]].where & NODE_LITERAL)
            return true;
    return false;
}

void graph_commute_undo(struct graph *g)
{
    bool all = g->delicate || g->several || g->products_meet || g->layouts_show || g->narrow ||
               any_complex(g),
         some = funcs_keep(g);
    for (uint32_t i = 0; i < g->nodes.n && (all || some || g->widths_differ); i++) {
        struct node *o = &g->nodes.at[i];
        if (!(o->where & (NODE_SWAPPED | GRAPH_COMMUTES)) || !node_is_op(o) ||
            !(all || g->blocks.at[node_block(o)].kept || (g->widths_differ && !order_is_one(g, o))))
            continue;
        if (o->where & NODE_SWAPPED)
            op_swap(g, o);
        o->where &= ~(uint32_t)GRAPH_COMMUTES;
    }
}
