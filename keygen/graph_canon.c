/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graph_canon.c - numbers values by content, inlines calls, and orders each block.
 *
 * Callees come before callers. In a function, operations are taken in the order in which they
 * ended, so that when one is taken, its operands and all that is inside it are done:
 *
 *   1. each operand becomes the value that stands for it; one that is a constant outside of the
 *      operation's region becomes an equal one inside;
 *   2. the blocks inside are ordered, and what they take from outside is collected;
 *   3. a call of a plain private function becomes a copy of that function's operations, each of
 *      which goes through these steps; a constant that goes in or comes out is marked, and so is each of
 *      several results;
 *   4. operands of what commutes are sorted: by their content one, two, three levels deep, so that
 *      equal layers come out equal, then by their whole content;
 *   5. if a constant equals an earlier one of its block exactly, that one stands for it.
 *
 * Step 3 is here, the others are in graph_place.c.
 */
#include "keygen/graph_internal.h"

#include <stdlib.h>

#define PASSED "warm.passed" /* an operation that marks its operand */

/* ---- inlining ---- */

/* Takes back the last operation, a constant for which an earlier one stands: that one. */
static uint32_t op_take_back(struct graph *g, uint32_t id)
{
    uint32_t same = g->nodes.at[id].same;
    if (g->nodes.n == id + 1) /* nothing came for its sake */
        g->nodes.n = id;
    return same;
}

/* A copy of an operation in `block`, with operands that the copies stand for, and with these regions if
 * it has any. */
static uint32_t op_copy(struct graph *g, uint32_t source, uint32_t block, uint32_t region)
{
    uint32_t id = g->nodes.n, shape = g->nodes.at[source].shape;
    uint32_t flags = g->nodes.at[source].where & (NODE_CLASS | NODE_SWAPPED);
    struct node *o = g->failed ? NULL : op_add(g, shape, block, flags);
    if (!o)
        return 0;
    const struct shape *s = op_shape(g, o);
    if (region != NONE)
        o->operands[NODE_REGION] = region;
    graph_op_place(g, o, s, op_operands(g, &g->nodes.at[source], s));
    if (g->failed)
        return id;
    for (uint32_t i = 0; i < s->n_results; i++)
        g->nodes.at[source + i].same = g->nodes.at[id + i].same;
    return g->nodes.at[id].same == id ? id : op_take_back(g, id);
}

/* The next block of the source is begun in the copy. */
static void copy_block(struct graph *g, struct copy *c)
{
    struct block from = g->blocks.at[c->inner];
    uint32_t fresh = g->blocks.n, args = g->nodes.n;
    if (fresh == BLOCKS_MAX) {
        g->why_exact = GRAPH_MANY_BLOCKS;
        g->failed = true;
        return;
    }
    for (uint32_t i = 0; i < from.n_args; i++) {
        graph_arg_add(g, g->nodes.at[from.args + i].operands[NODE_TYPE], fresh, from.sure);
        g->nodes.at[from.args + i].same = args + i;
    }
    PUSH(g, g->blocks,
         (struct block){.args = args,
                        .n_args = from.n_args,
                        .label = from.label,
                        .next = NONE,
                        .last = NONE,
                        .calls = NONE,
                        .effect = NONE,
                        .depth = (uint16_t)(g->blocks.at[c->block].depth + 1),
                        .sure = from.sure,
                        .frozen = from.frozen});
    if (g->failed)
        return;
    if (c->copied_block == NONE)
        g->regions.at[c->copied_region].block = fresh;
    else
        g->blocks.at[c->copied_block].next = fresh;
    c->copied_block = fresh;
    c->at = 0;
    graph_args_hash(g, fresh);
}

static void copy_region(struct graph *g, struct copy *c)
{
    uint32_t fresh = g->regions.n;
    PUSH(g, g->regions, (struct region){.block = NONE, .next = NONE});
    if (g->failed)
        return;
    if (c->first_region == NONE)
        c->first_region = fresh;
    else
        g->regions.at[c->copied_region].next = fresh;
    c->copied_region = fresh;
    c->copied_block = NONE;
    c->inner = g->regions.at[c->region].block;
    if (c->inner != NONE)
        copy_block(g, c);
}

static void copy_begin(struct graph *g, uint32_t source, uint32_t block)
{
    struct copy c = {.source = source,
                     .block = block,
                     .region = op_region(g, &g->nodes.at[source]),
                     .first_region = NONE,
                     .copied_block = NONE};
    copy_region(g, &c);
    PUSH(g, g->copies, c);
}

/* Whether the copy of an operation into `block` can have the operation's own regions, if any: those that
 * take nothing from outside are the same wherever they stand. */
static bool regions_stay(const struct graph *g, uint32_t op, uint32_t block)
{
    uint32_t region = op_region(g, &g->nodes.at[op]);
    if (region == NONE)
        return true;
    const struct region *r = &g->regions.at[region];
    return !r->n_captures && r->block != NONE &&
           g->blocks.at[r->block].depth == g->blocks.at[block].depth + 1;
}

/* Copies an operation and all that is in it; the regions of an operation before itself. */
static void tree_copy(struct graph *g, uint32_t source, uint32_t block)
{
    if (regions_stay(g, source, block)) {
        op_copy(g, source, block, op_region(g, &g->nodes.at[source]));
        return;
    }
    copy_begin(g, source, block);
    while (g->copies.n && !g->failed) {
        struct copy *c = &g->copies.at[g->copies.n - 1];
        if (c->inner != NONE && c->at < g->blocks.at[c->inner].n_order) {
            uint32_t child = g->order.at[g->blocks.at[c->inner].order + c->at++];
            uint32_t into = c->copied_block;
            if (regions_stay(g, child, into))
                g->blocks.at[into].last =
                    op_copy(g, child, into, op_region(g, &g->nodes.at[child]));
            else
                copy_begin(g, child, into);
        } else if (c->inner != NONE && g->blocks.at[c->inner].next != NONE) {
            c->inner = g->blocks.at[c->inner].next;
            copy_block(g, c);
        } else if (g->regions.at[c->region].next != NONE) {
            c->region = g->regions.at[c->region].next;
            copy_region(g, c);
        } else {
            struct copy done = *c;
            g->copies.n--;
            uint32_t id = op_copy(g, done.source, done.block, done.first_region);
            if (g->copies.n && !g->failed)
                g->blocks.at[done.block].last = id;
        }
    }
}

static bool call_fits(const struct graph *g, uint32_t id, const struct func *f)
{
    const struct block *b = &g->blocks.at[f->block];
    const struct node *call = &g->nodes.at[id];
    const struct shape *s = op_shape(g, call);
    if (!f->inlines || s->dict || s->n_operands != b->n_args || s->n_results != f->n_results ||
        shape_has_regions(s) || g->blocks.at[node_block(call)].last == id)
        return false;
    const uint32_t *operands = op_operands(g, call, s);
    for (uint32_t i = 0; i < s->n_operands; i++)
        if (value_type(g, operands[i]) != value_type(g, b->args + i))
            return false;
    const struct node *ret = &g->nodes.at[b->last];
    const uint32_t *gives = op_operands(g, ret, op_shape(g, ret));
    for (uint32_t i = 0; i < s->n_results; i++) {
        uint32_t type = g->shape_types.at[s->types + i];
        if (value_type(g, gives[i]) != type || g->pairs.at[f->results + 2 * i] != type)
            return false;
    }
    return true;
}

/* The mark of a value that goes through a call. */
static uint32_t value_mark(struct graph *g, uint32_t value, uint32_t block)
{
    uint32_t type = value_type(g, value), id = g->nodes.n;
    struct graph_op_shape says = {.name = graph_opname(g, PASSED, sizeof PASSED - 1, GRAPH_EFFECT),
                                  .callee = NONE,
                                  .traits = GRAPH_PURE | GRAPH_MOVES | GRAPH_KEEPS | SHAPE_PASSED,
                                  .n_operands = 1,
                                  .n_results = 1};
    uint32_t shape = graph_shape(g, &says, &type);
    struct node *o = g->failed ? NULL : op_add(g, shape, block, GRAPH_PURE);
    if (!o)
        return value;
    o->operands[0] = value;
    graph_op_place(g, o, op_shape(g, o), o->operands);
    return g->nodes.at[id].same;
}

/* What stands for a value on the other side of a call that is inlined. A compiler computes with constants
 * before it inlines, so what is made of constants alone is not the same there, and what is seen `later` than
 * without a call is another thing too: KEYS.md 2.2. */
static inline uint32_t value_passed(struct graph *g, uint32_t value, uint32_t block, bool later)
{
    return later || g->nodes.at[value].where & NODE_MADE ? value_mark(g, value, block) : value;
}

/* Step 3. */
static void call_inline(struct graph *g, uint32_t id, const struct func *f)
{
    struct node call = g->nodes.at[id];
    struct shape s = *op_shape(g, &call);
    struct block callee = g->blocks.at[f->block];
    uint32_t block = node_block(&call);
    /* one of several results; or what a loop may hand on as it is, for all that can be seen then */
    bool later = s.n_results > 1 || (f->passes && (g->in_named || g->blocks.at[block].depth > 1));
    for (uint32_t i = 0; i < s.n_operands; i++) {
        uint32_t value = g->nodes.at[op_operands(g, &call, &s)[i]].same;
        value = value_passed(g, value, block, false);
        g->nodes.at[callee.args + i].same = value;
    }
    for (uint32_t i = 0; i + 1 < callee.n_order && !g->failed; i++) {
        uint32_t source = g->order.at[callee.order + i];
        if (op_has_regions(g, &g->nodes.at[source]))
            tree_copy(g, source, block);
        else
            op_copy(g, source, block, NONE);
    }
    for (uint32_t i = 0; i < s.n_results && !g->failed; i++) {
        const struct node *ret = &g->nodes.at[callee.last];
        uint32_t value = op_operands(g, ret, op_shape(g, ret))[i];
        value = value_passed(g, g->nodes.at[value].same, block, later);
        g->nodes.at[id + i].same = value;
    }
}

/* Whether a function that the dictionary names calls one. */
static bool dict_calls(const struct graph *g, const struct dict *d)
{
    for (uint32_t i = 0; i < d->n_holes; i++) {
        const struct hole *h = &g->holes.at[d->holes + i];
        const struct func *f = h->kind == HOLE_SYMBOL ? graph_func_of(g, h->is.symbol) : NULL;
        if (f && f->calls)
            return true;
    }
    return false;
}

/* Finds which values operations take. */
static void uses_look(struct graph *g)
{
    g->used = vector_zeroes(g->nodes.n, sizeof *g->used);
    g->failed |= !g->used;
    for (uint32_t id = 0; id < g->nodes.n && g->used; id++) {
        const struct node *o = &g->nodes.at[id];
        if (!node_is_op(o))
            continue;
        const struct shape *s = op_shape(g, o);
        const uint32_t *operands = op_operands(g, o, s);
        for (uint32_t i = 0; i < s->n_operands; i++)
            g->used[operands[i]] = 1;
    }
}

/* Is it one that stays though nothing takes what it gives? Constants are looked for before it is seen whether
 * they are used. */
static bool op_is_unused(const struct graph *g, uint32_t id, const struct shape *s)
{
    return g->used && s->n_results == 1 && !g->used[id] && !(s->facts & SHAPE_CONSTANT) &&
           g->blocks.at[node_block(&g->nodes.at[id])].last != id;
}

/* Whether an operation calls a function as it is written, or stays as a call does, or one inside it. */
static bool op_stays(const struct graph *g, const struct node *o, const struct shape *s)
{
    if (s->traits & GRAPH_CALL || (s->traits & GRAPH_STAYS && g->several) ||
        (s->has_holes && dict_calls(g, &g->dicts.at[s->dict])))
        return true;
    if (!shape_has_regions(s))
        return false;
    for (uint32_t r = op_region(g, o); r != NONE; r = g->regions.at[r].next)
        for (uint32_t b = g->regions.at[r].block; b != NONE; b = g->blocks.at[b].next)
            if (g->blocks.at[b].calls != NONE)
                return true;
    return false;
}

static void nodes_take(struct graph *g, uint32_t first, uint32_t n)
{
    for (uint32_t id = first; id < first + n && !g->failed; id++) {
        struct node *o = &g->nodes.at[id];
        if (!node_is_op(o) || g->blocks.at[node_block(o)].ordered)
            continue;
        const struct shape *s = op_shape(g, o);
        const struct func *f = s->traits & GRAPH_CALL ? graph_func_of(g, s->callee) : NULL;
        if ((!(s->facts & SHAPE_PLAIN) && op_stays(g, o, s)) || op_is_unused(g, id, s)) {
            struct block *b = &g->blocks.at[node_block(o)];
            PUSH(g, g->effects, (struct effect){.op = id, .before = b->calls});
            b->calls = g->effects.n - 1;
        }
        if (f && call_fits(g, id, f))
            call_inline(g, id, f);
        else
            graph_op_place(g, o, s, op_operands(g, o, s));
    }
}

/* The regions that several operations have come before all of these. */
static void bodies_canon(struct graph *g)
{
    for (uint32_t i = 0; i < g->bodies.n && !g->failed; i++) {
        const struct body *body = &g->bodies.at[i];
        nodes_take(g, body->from.nodes, body->n_nodes);
        for (uint32_t b = 0; b < body->n_blocks && !g->failed; b++)
            graph_block_order(g, body->from.blocks + b);
    }
}

/* Whether what is needed in a function, which is in order, needs each of its arguments. */
static bool func_needs_all(const struct graph *g, const struct func *f)
{
    const struct block *b = &g->blocks.at[f->block];
    uint32_t i = 0;
    while (i < b->n_args && g->nodes.at[b->args + i].where & NODE_ORDERED)
        i++;
    return i == b->n_args;
}

/* Whether what a function gives may be one of its arguments as it is, once all that gives one of its operands
 * as it is has gone. */
static bool func_passes(struct graph *g, const struct func *f)
{
    const struct node *ret = &g->nodes.at[g->blocks.at[f->block].last];
    uint32_t floor = g->walk.n, result = op_operands(g, ret, op_shape(g, ret))[0], value;
    bool found = false;
    g->roots.n = 0; /* what was looked at: not NODE_ORDERED meanwhile */
    PUSH(g, g->walk, result);
    while (g->walk.n > floor && !found && !g->failed) {
        uint32_t id = (uint32_t)g->walk.at[--g->walk.n], op = value_op(g, id);
        struct node *o = &g->nodes.at[op == NONE ? id : op];
        found = op == NONE && value_type(g, id) == value_type(g, result);
        if (op == NONE || !(o->where & NODE_ORDERED) || op_shape(g, o)->traits & GRAPH_ALTERS)
            continue;
        o->where &= ~NODE_ORDERED;
        PUSH(g, g->roots, op);
        for (uint32_t d = 0; graph_dependency(g, o, d, &value); d++)
            PUSH(g, g->walk, value);
    }
    for (uint32_t i = 0; i < g->roots.n; i++)
        g->nodes.at[g->roots.at[i]].where |= NODE_ORDERED;
    g->walk.n = floor;
    return found;
}

/* A compiler keeps what it hands to a function until it inlines it, needed or not, and rewrites before that
 * what it would not have kept: a function that does not need all its arguments, or has calls of which
 * nothing is needed, is no copy of its operations. */
static void func_canon(struct graph *g, struct func *f, bool is_last)
{
    g->any_idle = false;
    g->in_named = f->named;
    nodes_take(g, f->nodes, f->n_nodes);
    if (is_last) { /* nothing is merged any more, and ordering takes memory */
        free(g->merge_slots);
        g->merge_slots = NULL;
        g->n_merge = g->merge_size = 0;
    }
    for (uint32_t b = f->block; b != NONE && !g->failed; b = g->blocks.at[b].next) {
        graph_block_order(g, b);
        f->inlines = f->inlines && !g->any_idle && func_needs_all(g, f);
        if (!f->inlines || f->named) /* else its copies count, whose arguments are known */
            graph_block_look(g, b);
    }
    f->passes = f->inlines && f->n_results == 1 && !g->failed && func_passes(g, f);
    f->ordered = true;
}

/* Operations of the module's own level stand between the functions' and stay as they are. */
static void module_canon(struct graph *g, uint32_t n_read)
{
    uint32_t next = 0;
    g->blocks.at[0].frozen = true;
    for (uint32_t i = 0; i < g->funcs.n; i++) {
        nodes_take(g, next, g->funcs.at[i].nodes - next);
        next = g->funcs.at[i].nodes + g->funcs.at[i].n_nodes;
    }
    nodes_take(g, next, n_read - next);
    graph_block_order(g, 0);
}

static bool any_call(const struct graph *g)
{
    for (uint32_t i = 0; i < g->uses.n; i++)
        if (g->uses.at[i].is_call)
            return true;
    return false;
}

/* Whether an operation that is needed computes from constants alone, and not only moves them. */
static bool any_constant_made(const struct graph *g)
{
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const struct node *o = &g->nodes.at[i];
        if ((~o->where & (NODE_ORDERED | NODE_MADE)) || !node_is_op(o))
            continue;
        const struct shape *s = op_shape(g, o);
        if (s->n_operands && s->n_results && !(s->traits & GRAPH_MOVES))
            return true;
    }
    return false;
}

/* Functions that are named by more than calls stay, wherever calls of them are inlined; so do public ones. */
static void funcs_name(struct graph *g)
{
    for (uint32_t i = 0; i < g->uses.n && !g->failed; i++) {
        struct func *f = graph_func_of(g, g->uses.at[i].symbol);
        if (f && (f->is_public || !g->uses.at[i].is_call))
            f->named = true;
    }
}

int graph_canon(struct graph *g, struct err *e)
{
    uint32_t n_read = g->nodes.n;
    if (g->defined_twice)
        return err_set(e, WARM_EMALFORMED, "a symbol is defined twice");
    if (g->why_exact)
        return err_set(e, WARM_EUNSUPPORTED, "%s", g->why_exact);
    for (uint32_t b = 0; b < g->blocks.n; b++) {
        if (g->blocks.at[b].depth > DEPTH_MAX) {
            g->why_exact = "regions are nested too deeply";
            return err_set(e, WARM_EUNSUPPORTED, "%s", g->why_exact);
        }
    }
    if (!g->failed)
        graph_funcs_plan(g);
    for (uint32_t b = 0; b < g->blocks.n; b++)
        graph_args_hash(g, b);
    funcs_name(g);
    if (g->keeps_unused && !g->failed)
        uses_look(g);
    bodies_canon(g);
    for (uint32_t i = 0; i < g->func_order.n && !g->failed; i++)
        func_canon(g, &g->funcs.at[g->func_order.at[i]], i + 1 == g->func_order.n);
    if (!g->failed)
        module_canon(g, n_read);
    free(g->used);
    g->used = NULL;
    if (g->why_exact)
        return err_set(e, WARM_EUNSUPPORTED, "%s", g->why_exact);
    if (g->failed)
        return err_set(e, WARM_ENOMEM, "no memory for the graph");
    graph_commute_undo(g);
    g->folds_otherwise = g->folds_at_calls && any_call(g) && any_constant_made(g);
    for (uint32_t i = 0; i < g->nodes.n; i++)
        g->nodes.at[i].num = NONE;
    return 0;
}
