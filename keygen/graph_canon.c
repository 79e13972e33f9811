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
 *      which goes through these steps;
 *   4. operands of what commutes are sorted: by their content one, two, three levels deep, so that
 *      equal layers come out equal, then by their whole content;
 *   5. if a pure operation equals an earlier one of its block exactly, that one stands for it.
 *
 * A block is ordered by walking depth-first from what has an effect, in order, and then from its
 * last operation, operands before users. Hashes decide only which operand comes first and what is
 * compared; two things are one only if they are equal word by word. So nobody who can make hashes
 * collide can make two programs agree.
 *
 * Sources: global value numbering as in Briggs, Cooper, Simpson, "Value Numbering" (1997).
 */
#include "keygen/graph_internal.h"

#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 256                /* regions inside one another */
#define MERGE_BLOCK_MAX 64           /* operations in a block that is compared with another */
#define CAPTURES_FREE (1024u * 1024) /* values taken from outside, over all regions */
#define POS_VISITING (NONE - 1)

/* ---- the order of a block ---- */

/* The operation, if any, that must stand before the user of `value` in block `b`. */
static uint32_t need_of(const struct graph *g, uint32_t value, uint32_t b)
{
    uint32_t def = g->values.at[value].def;
    if (def & DEF_ARG || g->ops.at[def].block != b || g->ops.at[def].pos != NONE)
        return NONE;
    return def;
}

static void order_from(struct graph *g, uint32_t root, uint32_t b)
{
    if (g->ops.at[root].pos != NONE)
        return;
    uint32_t floor = g->walk.n;
    g->ops.at[root].pos = POS_VISITING;
    PUSH(g, g->walk, (uint64_t)root << 32);
    while (g->walk.n > floor && !g->failed) {
        uint64_t *top = &g->walk.at[g->walk.n - 1];
        uint32_t id = (uint32_t)(*top >> 32), need = NONE, value;
        struct op *o = &g->ops.at[id];
        while (need == NONE && graph_dependency(g, o, (uint32_t)*top, &value)) {
            ++*top;
            need = need_of(g, value, b);
        }
        if (need != NONE) {
            g->ops.at[need].pos = POS_VISITING;
            PUSH(g, g->walk, (uint64_t)need << 32);
            continue;
        }
        o->pos = g->order.n - g->blocks.at[b].order;
        PUSH(g, g->order, id);
        g->walk.n--;
    }
}

static void block_order(struct graph *g, uint32_t b)
{
    struct block *block = &g->blocks.at[b];
    block->order = g->order.n;
    g->roots.n = 0;
    for (uint32_t op = block->effect; op != NONE;) {
        uint32_t before = g->ops.at[op].pos;
        g->ops.at[op].pos = NONE;
        PUSH(g, g->roots, op);
        op = before;
    }
    for (uint32_t i = g->roots.n; i-- > 0 && !g->failed;)
        order_from(g, g->roots.at[i], b);
    if (block->last != NONE) {
        const struct op *last = &g->ops.at[block->last];
        order_from(g,
                   op_shape(g, last)->n_results ? g->values.at[g->values.at[last->results].same].def
                                                : block->last,
                   b);
    }
    block->n_order = g->order.n - block->order;
}

/* ---- content ---- */

static void capture(struct graph *g, uint32_t value, uint32_t op, uint32_t depth)
{
    struct value *v = &g->values.at[value];
    if (g->blocks.at[value_block(g, v)].depth > depth || v->num == op)
        return;
    v->num = op; /* once for each operation */
    PUSH(g, g->captures, value);
}

/* Traits, content and captures of the operations in block `b`, inside operation `id`. */
static uint64_t block_survey(struct graph *g, uint32_t b, uint32_t id, uint32_t depth,
                             uint32_t *traits)
{
    const struct block *block = &g->blocks.at[b];
    uint64_t hash = mix(block->label, block->n_args);
    for (uint32_t i = 0; i < block->n_args; i++)
        hash = mix(hash, g->values.at[block->args + i].hash);
    for (uint32_t i = 0; i < block->n_order && !g->failed; i++) {
        const struct op *o = &g->ops.at[g->order.at[block->order + i]];
        if ((o->traits & TRAIT_CLASS) > *traits)
            *traits = o->traits & TRAIT_CLASS;
        const struct shape *s = op_shape(g, o);
        hash = mix(mix(hash, g->names.items.at[s->name].hash), g->dicts.at[s->dict].hash);
        uint32_t value;
        for (uint32_t d = 0; graph_dependency(g, o, d, &value); d++) {
            hash = mix(hash, g->values.at[value].hash);
            capture(g, value, id, depth);
        }
        for (uint32_t r = 0; r < s->n_results; r++)
            hash = mix(hash, g->values.at[o->results + r].hash);
    }
    return hash;
}

/* Orders the blocks of an operation's regions; gives a hash of what is in them and adds to the
 * operation's traits. */
static uint64_t regions_settle(struct graph *g, uint32_t id)
{
    uint32_t first = op_shape(g, &g->ops.at[id])->regions, captures = g->captures.n, traits = 0;
    uint32_t depth = g->blocks.at[g->ops.at[id].block].depth;
    uint64_t hash = 0;
    for (uint32_t r = first; r != NONE; r = g->regions.at[r].next) {
        hash = mix(hash, r - first);
        for (uint32_t b = g->regions.at[r].block; b != NONE && !g->failed;
             b = g->blocks.at[b].next) {
            block_order(g, b);
            hash = mix(hash, block_survey(g, b, id, depth, &traits));
        }
    }
    if (g->captures.n > CAPTURES_FREE && g->captures.n > g->operands.n)
        g->why_exact = "the regions take too many values from outside";
    g->regions.at[first].captures = captures;
    g->regions.at[first].n_captures = g->captures.n - captures;
    struct op *o = &g->ops.at[id];
    if (traits > (o->traits & TRAIT_CLASS))
        o->traits = (o->traits & ~TRAIT_CLASS) | traits;
    return hash;
}

/* Traits and content of a function. Of one that is inlined everywhere, nobody asks. */
static void func_survey(struct graph *g, struct func *f)
{
    if (f->surveyed || !f->ordered)
        return;
    f->surveyed = true;
    for (uint32_t b = f->block; b != NONE && !g->failed; b = g->blocks.at[b].next)
        f->hash = mix(f->hash, block_survey(g, b, NONE, 0, &f->traits));
}

/* What a symbol's function may do, an operation that names it may do. */
static uint64_t symbols_settle(struct graph *g, struct op *o)
{
    const struct shape *s = op_shape(g, o);
    const struct dict *d = &g->dicts.at[s->dict];
    uint64_t hash = 0;
    uint32_t symbols = o->traits & GRAPH_CALL ? 1 : 0;
    for (uint32_t i = 0; i < d->n_holes + symbols; i++) {
        uint32_t symbol = s->regions;
        if (i < d->n_holes) {
            if (g->holes.at[d->holes + i].kind != HOLE_SYMBOL)
                continue;
            symbol = g->holes.at[d->holes + i].is.symbol;
        }
        struct func *f = graph_func_of(g, symbol);
        if (!f)
            continue;
        func_survey(g, f);
        hash = mix(hash, f->hash);
        uint32_t traits = f->defined && !f->recursive ? f->traits : GRAPH_EFFECT;
        if (traits > (o->traits & TRAIT_CLASS))
            o->traits = (o->traits & ~TRAIT_CLASS) | traits;
    }
    if (symbols && !graph_func_of(g, s->regions))
        o->traits = (o->traits & ~TRAIT_CLASS) | GRAPH_EFFECT;
    return hash;
}

/* Sorts the first two operands. */
static void operands_sort(struct graph *g, struct op *o)
{
    uint32_t *at = &g->operands.at[o->operands];
    if (graph_value_order(g, at[0], at[1]) > 0) {
        uint32_t first = at[0];
        at[0] = at[1];
        at[1] = first;
        o->traits ^= GRAPH_SWAPPED;
    }
}

/* ---- merging ---- */

/* Do two operations say the same, but for what is in their regions? */
static bool says_equal(const struct graph *g, const struct op *a, const struct op *b)
{
    const struct shape *s = op_shape(g, a), *t = op_shape(g, b);
    if ((a->traits ^ b->traits) & ~(uint32_t)GRAPH_SWAPPED)
        return false;
    if (s == t)
        return true;
    return s->name == t->name && s->dict == t->dict && s->n_operands == t->n_operands &&
           s->n_results == t->n_results && (op_has_regions(a) || s->regions == t->regions) &&
           (!s->n_results || memcmp(g->shape_types.at + s->types, g->shape_types.at + t->types,
                                    s->n_results * sizeof(uint32_t)) == 0);
}

/* The same value, or the same place in the two blocks that are being compared. */
static bool operand_equal(const struct graph *g, uint32_t x, uint32_t y, uint32_t a, uint32_t b)
{
    if (x == y)
        return true;
    const struct value *u = &g->values.at[x], *v = &g->values.at[y];
    if (value_block(g, u) != a || value_block(g, v) != b || value_index(g, x) != value_index(g, y))
        return false;
    if (u->def & DEF_ARG || v->def & DEF_ARG)
        return u->def & v->def & DEF_ARG;
    return g->ops.at[u->def].pos == g->ops.at[v->def].pos;
}

static bool blocks_equal(const struct graph *g, uint32_t a, uint32_t b)
{
    const struct block *x = &g->blocks.at[a], *y = &g->blocks.at[b];
    if (x->frozen || y->frozen || x->n_args != y->n_args || x->n_order != y->n_order ||
        x->n_order > MERGE_BLOCK_MAX)
        return false;
    for (uint32_t i = 0; i < x->n_args; i++)
        if (g->values.at[x->args + i].type != g->values.at[y->args + i].type)
            return false;
    for (uint32_t i = 0; i < x->n_order; i++) {
        const struct op *p = &g->ops.at[g->order.at[x->order + i]];
        const struct op *q = &g->ops.at[g->order.at[y->order + i]];
        if (!says_equal(g, p, q) || op_has_regions(p))
            return false;
        for (uint32_t k = 0; k < op_shape(g, p)->n_operands; k++)
            if (!operand_equal(g, g->operands.at[p->operands + k], g->operands.at[q->operands + k],
                               a, b))
                return false;
    }
    return true;
}

static bool ops_equal(const struct graph *g, const struct op *a, const struct op *b)
{
    if (a->block != b->block || !says_equal(g, a, b))
        return false;
    const uint32_t *x = g->operands.at + a->operands, *y = g->operands.at + b->operands;
    for (uint32_t i = 0, n = op_shape(g, a)->n_operands; i < n; i++)
        if (x[i] != y[i])
            return false;
    if (!op_has_regions(a))
        return true;
    uint32_t r = op_shape(g, a)->regions, s = op_shape(g, b)->regions;
    for (; r != NONE && s != NONE; r = g->regions.at[r].next, s = g->regions.at[s].next)
        if (g->regions.at[r].block == NONE || g->regions.at[s].block == NONE ||
            !blocks_equal(g, g->regions.at[r].block, g->regions.at[s].block))
            return false;
    return r == s;
}

static uint64_t merge_hash(const struct graph *g, const struct op *o)
{
    return mix(g->values.at[o->results].hash, o->block);
}

static bool merge_widen(struct graph *g)
{
    uint32_t mask = g->merge_slots ? 2 * g->merge_mask + 1 : 1023;
    while (!g->merge_slots && mask < g->ops.n)
        mask = 2 * mask + 1;
    uint64_t *fresh = vector_zeroes((size_t)mask + 1, sizeof *fresh);
    if (!fresh) {
        g->failed = true;
        return false;
    }
    for (uint32_t i = 0; g->merge_slots && i <= g->merge_mask; i++) {
        if (!g->merge_slots[i])
            continue;
        uint32_t id = (uint32_t)g->merge_slots[i] - 1;
        uint32_t s = (uint32_t)merge_hash(g, &g->ops.at[id]) & mask;
        while (fresh[s])
            s = (s + 1) & mask;
        fresh[s] = g->merge_slots[i];
    }
    free(g->merge_slots);
    g->merge_slots = fresh;
    g->merge_mask = mask;
    return true;
}

/* True if an equal operation came before in this block: its results stand for these. */
static bool op_merge(struct graph *g, uint32_t id)
{
    const struct op *o = &g->ops.at[id];
    if (g->n_merge * 4ull >= g->merge_mask * 3ull && !merge_widen(g))
        return false;
    uint64_t hash = merge_hash(g, o);
    uint32_t s = (uint32_t)hash & g->merge_mask;
    for (; g->merge_slots[s]; s = (s + 1) & g->merge_mask) {
        if ((g->merge_slots[s] ^ hash) >> 32)
            continue;
        const struct op *have = &g->ops.at[(uint32_t)g->merge_slots[s] - 1];
        if (!ops_equal(g, have, o))
            continue;
        for (uint32_t i = 0, n = op_shape(g, o)->n_results; i < n; i++)
            g->values.at[o->results + i].same = have->results + i;
        return true;
    }
    g->merge_slots[s] = (hash & ~(uint64_t)UINT32_MAX) | (id + 1);
    g->n_merge++;
    return false;
}

static void op_place(struct graph *g, uint32_t id);

/* The result of an operation that is the same wherever it stands: it depends on nothing. */
static bool is_constant(const struct graph *g, uint32_t value)
{
    uint32_t def = g->values.at[value].def;
    if (def & DEF_ARG)
        return false;
    const struct op *o = &g->ops.at[def];
    const struct shape *s = op_shape(g, o);
    return s->n_operands == 0 && s->n_results == 1 && (o->traits & TRAIT_CLASS) == GRAPH_PURE &&
           !(o->traits & GRAPH_CALL) && !op_has_regions(o) && !s->has_holes;
}

/* The constant that stands for `value` in block `b`: one that is there, or a copy. */
static uint32_t constant_in(struct graph *g, uint32_t value, uint32_t b)
{
    struct op o = g->ops.at[g->values.at[value].def];
    uint64_t hash = mix(g->values.at[value].hash, b); /* merge_hash of what is looked for */
    for (uint32_t s = (uint32_t)hash & g->merge_mask; g->merge_slots && g->merge_slots[s];
         s = (s + 1) & g->merge_mask) {
        const struct op *have = &g->ops.at[(uint32_t)g->merge_slots[s] - 1];
        if (have->block == b && says_equal(g, have, &o))
            return have->results;
    }
    const struct op *copy = graph_op_add(g, o.shape, b, o.traits);
    if (!copy)
        return value;
    uint32_t result = copy->results;
    op_place(g, g->ops.n - 1);
    return result;
}

/* Each operand becomes the value that stands for it, and constants from around a region ones of its
 * own: whether they are written inside or outside is the printer's choice. */
static void operands_settle(struct graph *g, uint32_t id)
{
    const struct op *o = &g->ops.at[id];
    const struct block *block = &g->blocks.at[o->block];
    uint32_t at = o->operands, end = at + op_shape(g, o)->n_operands, b = o->block;
    if (block->depth <= 1 || block->frozen) {
        const struct value *values = g->values.at;
        for (uint32_t *v = g->operands.at + at; at < end; at++, v++)
            *v = values[*v].same;
        return;
    }
    for (; at < end; at++) {
        uint32_t v = g->values.at[g->operands.at[at]].same;
        if (is_constant(g, v) && g->ops.at[g->values.at[v].def].block != b)
            v = constant_in(g, v, b);
        g->operands.at[at] = v;
    }
}

/* Steps 1, 2, 4 and 5 of the opening comment. */
static void op_place(struct graph *g, uint32_t id)
{
    operands_settle(g, id);
    struct op *o = &g->ops.at[id]; /* no operation is added from here on */
    uint64_t inside = op_has_regions(o) ? regions_settle(g, id) : 0;
    if (g->failed)
        return;
    const struct shape *s = op_shape(g, o);
    struct block *b = &g->blocks.at[o->block];
    if (s->has_holes || o->traits & GRAPH_CALL)
        inside = mix(inside, symbols_settle(g, o));
    graph_commute_settle(g, o);
    if (o->traits & GRAPH_COMMUTES && s->n_operands >= 2)
        operands_sort(g, o);
    if (b->frozen)
        o->traits = (o->traits & ~TRAIT_CLASS) | GRAPH_EFFECT;
    uint32_t class = o->traits & TRAIT_CLASS;
    if (class == GRAPH_EFFECT) {
        inside = mix(inside, ++b->n_effects);
        o->pos = b->effect;
        b->effect = id;
    }
    graph_results_hash(g, o, inside);
    if (class == GRAPH_PURE && s->n_results)
        op_merge(g, id);
}

/* ---- inlining ---- */

/* A copy of an operation in `block`, with operands that the copies stand for, and with these regions if
 * it has any. */
static uint32_t op_copy(struct graph *g, uint32_t source, uint32_t block, uint32_t regions)
{
    struct op from = g->ops.at[source];
    uint32_t shape = from.shape;
    if (op_has_regions(&from)) {
        struct shape s = g->shapes.at[shape];
        s.regions = regions;
        shape = graph_shape_add(g, &s);
    }
    const struct op *o = g->failed ? NULL : graph_op_add(g, shape, block, from.traits);
    if (!o)
        return 0;
    uint32_t id = g->ops.n - 1, results = o->results, n_results = op_shape(g, o)->n_results;
    for (uint32_t i = 0, n = op_shape(g, o)->n_operands; i < n; i++)
        g->operands.at[o->operands + i] = g->values.at[g->operands.at[from.operands + i]].num;
    op_place(g, id);
    for (uint32_t i = 0; i < n_results && !g->failed; i++)
        g->values.at[from.results + i].num = g->values.at[results + i].same;
    return id;
}

/* The next block of the source is begun in the copy. */
static void copy_block(struct graph *g, struct copy *c)
{
    struct block from = g->blocks.at[c->inner];
    uint32_t fresh = g->blocks.n, args = g->values.n;
    for (uint32_t i = 0; i < from.n_args; i++) {
        PUSH(g, g->values,
             (struct value){.type = g->values.at[from.args + i].type,
                            .def = DEF_ARG | fresh,
                            .same = args + i,
                            .num = NONE});
        if (!g->failed)
            g->values.at[from.args + i].num = args + i;
    }
    PUSH(g, g->blocks,
         (struct block){.args = args,
                        .n_args = from.n_args,
                        .label = from.label,
                        .next = NONE,
                        .last = NONE,
                        .effect = NONE,
                        .depth = g->blocks.at[c->block].depth + 1,
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
                     .region = op_shape(g, &g->ops.at[source])->regions,
                     .first_region = NONE,
                     .copied_block = NONE};
    copy_region(g, &c);
    PUSH(g, g->copies, c);
}

/* Copies an operation and all that is in it; the regions of an operation before itself. */
static void tree_copy(struct graph *g, uint32_t source, uint32_t block)
{
    if (!op_has_regions(&g->ops.at[source])) {
        op_copy(g, source, block, NONE);
        return;
    }
    copy_begin(g, source, block);
    while (g->copies.n && !g->failed) {
        struct copy *c = &g->copies.at[g->copies.n - 1];
        if (c->inner != NONE && c->at < g->blocks.at[c->inner].n_order) {
            uint32_t child = g->order.at[g->blocks.at[c->inner].order + c->at++];
            uint32_t into = c->copied_block;
            if (op_has_regions(&g->ops.at[child]))
                copy_begin(g, child, into);
            else
                g->blocks.at[into].last = op_copy(g, child, into, NONE);
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

static bool call_fits(const struct graph *g, const struct op *call, const struct func *f)
{
    const struct block *b = &g->blocks.at[f->block];
    const struct shape *s = op_shape(g, call);
    if (!f->inlines || s->dict || s->n_operands != b->n_args || s->n_results != f->n_results ||
        g->blocks.at[call->block].last == (uint32_t)(call - g->ops.at))
        return false;
    for (uint32_t i = 0; i < s->n_operands; i++)
        if (g->values.at[g->operands.at[call->operands + i]].type != g->values.at[b->args + i].type)
            return false;
    const struct op *ret = &g->ops.at[b->last];
    for (uint32_t i = 0; i < s->n_results; i++) {
        uint32_t type = g->values.at[call->results + i].type;
        if (g->values.at[g->operands.at[ret->operands + i]].type != type ||
            g->pairs.at[f->results + 2 * i] != type)
            return false;
    }
    return true;
}

/* Step 3. */
static void call_inline(struct graph *g, uint32_t id, const struct func *f)
{
    struct op call = g->ops.at[id];
    struct shape s = *op_shape(g, &call);
    struct block callee = g->blocks.at[f->block];
    for (uint32_t i = 0; i < s.n_operands; i++)
        g->values.at[callee.args + i].num = g->values.at[g->operands.at[call.operands + i]].same;
    for (uint32_t i = 0; i + 1 < callee.n_order && !g->failed; i++)
        tree_copy(g, g->order.at[callee.order + i], call.block);
    if (g->failed)
        return;
    const struct op *ret = &g->ops.at[callee.last];
    for (uint32_t i = 0; i < s.n_results; i++)
        g->values.at[call.results + i].same = g->values.at[g->operands.at[ret->operands + i]].num;
}

static void ops_take(struct graph *g, uint32_t first, uint32_t n)
{
    for (uint32_t id = first; id < first + n && !g->failed; id++) {
        const struct op *o = &g->ops.at[id];
        const struct func *f =
            o->traits & GRAPH_CALL ? graph_func_of(g, op_shape(g, o)->regions) : NULL;
        if (f && call_fits(g, o, f))
            call_inline(g, id, f);
        else
            op_place(g, id);
    }
}

static void func_canon(struct graph *g, struct func *f, bool is_last)
{
    ops_take(g, f->ops, f->n_ops);
    if (is_last) { /* nothing is merged any more, and ordering takes memory */
        free(g->merge_slots);
        g->merge_slots = NULL;
        g->n_merge = g->merge_mask = 0;
    }
    for (uint32_t b = f->block; b != NONE && !g->failed; b = g->blocks.at[b].next)
        block_order(g, b);
    f->ordered = true;
}

/* Operations of the module's own level stand between the functions' and stay as they are. */
static void module_canon(struct graph *g, uint32_t n_read)
{
    uint32_t next = 0;
    g->blocks.at[0].frozen = true;
    for (uint32_t i = 0; i < g->funcs.n; i++) {
        ops_take(g, next, g->funcs.at[i].ops - next);
        next = g->funcs.at[i].ops + g->funcs.at[i].n_ops;
    }
    ops_take(g, next, n_read - next);
    block_order(g, 0);
}

int graph_canon(struct graph *g, struct err *e)
{
    uint32_t n_read = g->ops.n;
    if (g->defined_twice)
        return err_set(e, WARM_EMALFORMED, "a symbol is defined twice");
    for (uint32_t b = 0; b < g->blocks.n; b++) {
        if (g->blocks.at[b].depth > DEPTH_MAX) {
            g->why_exact = "regions are nested too deeply";
            return err_set(e, WARM_EUNSUPPORTED, "%s", g->why_exact);
        }
        graph_args_hash(g, b);
    }
    if (!g->failed)
        graph_funcs_plan(g);
    for (uint32_t i = 0; i < g->func_order.n && !g->failed; i++)
        func_canon(g, &g->funcs.at[g->func_order.at[i]], i + 1 == g->func_order.n);
    if (!g->failed)
        module_canon(g, n_read);
    if (g->failed)
        return err_set(e, WARM_ENOMEM, "no memory for the graph");
    if (g->why_exact)
        return err_set(e, WARM_EUNSUPPORTED, "%s", g->why_exact);
    return 0;
}
