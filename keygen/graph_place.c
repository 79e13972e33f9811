/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graph_place.c - places operations: steps 1, 2, 4 and 5 of graph_canon.c; and orders blocks.
 *
 * A block is ordered by walking depth-first from what has an effect, in order, and then from its
 * last operation, operands before users. Hashes decide only which operand comes first and what is
 * compared; two things are one only if they are equal word by word. So nobody who can make hashes
 * collide can make two programs agree.
 *
 * Most operations have no regions, name no symbol, and stand in no region: for them graph_op_place is one
 * pass over the operands. What the others need besides is in functions of its own.
 *
 * Sources: global value numbering as in Briggs, Cooper, Simpson, "Value Numbering" (1997).
 */
#include "keygen/graph_internal.h"

#include <stdlib.h>
#include <string.h>

#define MERGE_FEW 256                /* places for constants at first */
#define CAPTURES_FREE (1024u * 1024) /* values taken from outside, over all regions */

/* ---- the order of a block ---- */

/* The operation that gives `value`, if it is not in the order yet. An argument is none; it is needed then. */
static uint32_t need_new(struct node *nodes, uint32_t value)
{
    struct node *n = &nodes[value];
    if (!node_is_op(n)) {
        n->where |= NODE_ORDERED; /* so it is not looked at again */
        if (n->shape == NODE_ARG)
            return NONE;
        value -= n->operands[NODE_INDEX];
    }
    return nodes[value].where & NODE_ORDERED ? NONE : value;
}

/* The first operation that must stand before another one in block `b`, of what it depends on from *at on,
 * which is then behind it: its operands, and then what its regions take from outside. */
static inline uint32_t need_next(struct graph *g, uint32_t id, uint32_t *at, uint32_t b)
{
    struct node *nodes = g->nodes.at;
    const struct node *o = &nodes[id];
    const struct shape *s = op_shape(g, o);
    const uint32_t *from = op_operands(g, o, s);
    uint32_t need = NONE, i = *at, n = s->n_operands, new = b << NODE_FLAGS;
    for (; i < n && need == NONE; i++)
        if (!((nodes[from[i]].where ^ new) & (NODE_BLOCK | NODE_ORDERED)))
            need = need_new(nodes, from[i]);
    if (need == NONE && shape_has_regions(s)) {
        const struct region *r = &g->regions.at[o->operands[NODE_REGION]];
        for (; i < n + r->n_captures && need == NONE; i++) {
            uint32_t value = g->captures.at[r->captures + i - n];
            if (!((nodes[value].where ^ new) & (NODE_BLOCK | NODE_ORDERED)))
                need = need_new(nodes, value);
        }
    }
    *at = i;
    return need;
}

static void order_from(struct graph *g, uint32_t root, uint32_t b)
{
    if (g->nodes.at[root].where & NODE_ORDERED)
        return;
    uint32_t floor = g->walk.n, id = root, at = 0;
    g->nodes.at[root].where |= NODE_ORDERED;
    while (!g->failed) {
        uint32_t need = need_next(g, id, &at, b);
        if (need != NONE) { /* first; then `id` goes on where it is */
            PUSH(g, g->walk, (uint64_t)id << 32 | at);
            g->nodes.at[need].where |= NODE_ORDERED;
            id = need;
            at = 0;
            continue;
        }
        PUSH(g, g->order, id);
        if (g->walk.n == floor)
            break;
        uint64_t user = g->walk.at[--g->walk.n];
        id = (uint32_t)(user >> 32);
        at = (uint32_t)user;
    }
}

void graph_block_look(struct graph *g, uint32_t b)
{
    const struct block *block = &g->blocks.at[b];
    for (uint32_t i = 0; i < block->n_order && !g->delicate && !g->failed; i++)
        g->delicate = graph_op_is_delicate(g, &g->nodes.at[g->order.at[block->order + i]]);
}

/* Whether an operation gives something that is in the order; what it gives may be what stands for it. */
static bool is_needed(const struct graph *g, uint32_t id)
{
    uint32_t n = op_shape(g, &g->nodes.at[id])->n_results;
    for (uint32_t i = 0; i < n + !n; i++) {
        uint32_t op = value_op(g, g->nodes.at[id + i].same);
        if (op != NONE && g->nodes.at[op].where & NODE_ORDERED)
            return true;
    }
    return false;
}

/* Calls of which nothing is needed stay, and what they need, before the last operation of the block, which
 * is the last in order: compilers drop them later than what else nothing needs. */
static void idle_calls_order(struct graph *g, uint32_t b)
{
    const struct block *block = &g->blocks.at[b];
    uint32_t end = g->order.n;
    g->roots.n = 0;
    for (uint32_t e = block->calls; e != NONE; e = g->effects.at[e].before)
        if (!is_needed(g, g->effects.at[e].op))
            PUSH(g, g->roots, g->effects.at[e].op);
    g->any_idle = g->any_idle || g->roots.n;
    for (uint32_t i = g->roots.n; i-- > 0 && !g->failed;) {
        uint32_t id = g->roots.at[i], n = op_shape(g, &g->nodes.at[id])->n_results;
        for (uint32_t k = 0; k < n + !n; k++) {
            uint32_t op = value_op(g, g->nodes.at[id + k].same);
            if (op != NONE && node_block(&g->nodes.at[op]) == b)
                order_from(g, op, b);
        }
    }
    if (g->failed || g->order.n == end || !end || g->order.at[end - 1] != block->last)
        return;
    memmove(&g->order.at[end - 1], &g->order.at[end], (g->order.n - end) * sizeof g->order.at[0]);
    g->order.at[g->order.n - 1] = block->last;
}

void graph_block_order(struct graph *g, uint32_t b)
{
    struct block *block = &g->blocks.at[b];
    uint32_t first = g->order.n;
    g->roots.n = 0;
    for (uint32_t e = block->effect; e != NONE; e = g->effects.at[e].before)
        PUSH(g, g->roots, g->effects.at[e].op);
    for (uint32_t i = g->roots.n; i-- > 0 && !g->failed;)
        order_from(g, g->roots.at[i], b);
    if (block->last != NONE && !g->failed) {
        const struct node *last = &g->nodes.at[block->last];
        order_from(g, op_shape(g, last)->n_results ? value_op(g, last->same) : block->last, b);
    }
    if (block->calls != NONE)
        idle_calls_order(g, b);
    block->order = first;
    block->n_order = g->order.n - first;
    block->ordered = true;
    if (block->depth > 1) /* functions: graph_canon.c */
        graph_block_look(g, b);
}

/* ---- content ---- */

static void capture(struct graph *g, uint32_t value, uint32_t depth)
{
    struct node *v = &g->nodes.at[value];
    if (g->blocks.at[node_block(v)].depth > depth || v->same == NONE)
        return;
    v->same = NONE; /* once for each operation: captures_done */
    PUSH(g, g->captures, value);
}

/* What is taken from outside stands for itself again. */
static void captures_done(struct graph *g, uint32_t first)
{
    for (uint32_t i = first; i < g->captures.n; i++)
        g->nodes.at[g->captures.at[i]].same = g->captures.at[i];
}

/* Class, content and captures of the operations in block `b`, inside an operation at `depth`. */
static uint64_t block_survey(struct graph *g, uint32_t b, uint32_t depth, uint32_t *class)
{
    const struct block *block = &g->blocks.at[b];
    uint64_t hash = mix(block->label, block->n_args);
    for (uint32_t i = 0; i < block->n_args; i++)
        hash = mix(hash, node_hash(&g->nodes.at[block->args + i]));
    for (uint32_t i = 0; i < block->n_order && !g->failed; i++) {
        const struct node *o = &g->nodes.at[g->order.at[block->order + i]];
        if (op_class(o) > *class)
            *class = op_class(o);
        const struct shape *s = op_shape(g, o);
        hash = mix(mix(hash, g->names.items.at[s->name].hash), g->dicts.at[s->dict].hash);
        uint32_t value;
        for (uint32_t d = 0; graph_dependency(g, o, d, &value); d++) {
            hash = mix(hash, node_hash(&g->nodes.at[value]));
            if (node_block(&g->nodes.at[value]) != b)
                capture(g, value, depth);
        }
        for (uint32_t r = 0; r < s->n_results; r++)
            hash = mix(hash, node_hash(o + r));
    }
    return hash;
}

static void class_raise(struct node *o, uint32_t class)
{
    if (class > op_class(o))
        op_class_set(o, class);
}

/* Orders the blocks of an operation's regions; gives a hash of what is in them and adds to the
 * operation's class. */
static uint64_t regions_settle(struct graph *g, struct node *o)
{
    uint32_t first = o->operands[NODE_REGION], captures = g->captures.n, class = 0;
    uint32_t depth = g->blocks.at[node_block(o)].depth;
    uint64_t hash = 0;
    if (g->regions.at[first].settled) {
        class_raise(o, g->regions.at[first].class);
        return g->regions.at[first].inside;
    }
    for (uint32_t r = first; r != NONE; r = g->regions.at[r].next) {
        hash = mix(hash, r - first);
        for (uint32_t b = g->regions.at[r].block; b != NONE && !g->failed;
             b = g->blocks.at[b].next) {
            if (!g->blocks.at[b].ordered) /* as those are that several operations have */
                graph_block_order(g, b);
            hash = mix(hash, block_survey(g, b, depth, &class));
        }
    }
    captures_done(g, captures);
    if (g->captures.n > CAPTURES_FREE && g->captures.n > g->nodes.n)
        g->why_exact = "the regions take too many values from outside";
    struct region *r = &g->regions.at[first];
    r->captures = captures;
    r->n_captures = g->captures.n - captures;
    r->settled = !r->n_captures; /* then they are the same for whoever has them */
    r->inside = hash;
    r->class = class;
    class_raise(o, class);
    return hash;
}

/* Class and content of a function. Of one that is inlined everywhere, nobody asks. */
static void func_survey(struct graph *g, struct func *f)
{
    if (f->surveyed || !f->ordered)
        return;
    f->surveyed = true;
    uint32_t captures = g->captures.n; /* of the module's own values, where a text is that wrong */
    for (uint32_t b = f->block; b != NONE && !g->failed; b = g->blocks.at[b].next)
        f->hash = mix(f->hash, block_survey(g, b, 0, &f->class));
    captures_done(g, captures);
    g->captures.n = captures;
}

/* What a symbol's function may do, an operation that names it may do. */
static uint64_t symbols_settle(struct graph *g, struct node *o)
{
    const struct shape *s = op_shape(g, o);
    const struct dict *d = &g->dicts.at[s->dict];
    uint64_t hash = 0;
    uint32_t symbols = s->traits & GRAPH_CALL ? 1 : 0;
    for (uint32_t i = 0; i < d->n_holes + symbols; i++) {
        uint32_t symbol = s->callee;
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
        class_raise(o, f->defined && !f->recursive ? f->class : GRAPH_EFFECT);
    }
    if (symbols && !graph_func_of(g, s->callee))
        op_class_set(o, GRAPH_EFFECT);
    return hash;
}

/* Sorts the first two operands; true if they change places. */
static __attribute__((noinline)) bool operands_sort(struct graph *g, struct node *o,
                                                    const struct shape *s)
{
    const uint32_t *operands = op_operands(g, o, s);
    if (graph_value_order(g, operands[0], operands[1]) <= 0)
        return false;
    op_swap(g, o);
    return true;
}

/* ---- merging ---- */

/* Are two constants, moved or not, the same? */
static bool constants_equal(const struct graph *g, const struct node *a, const struct node *b)
{
    const struct shape *s = op_shape(g, a), *t = op_shape(g, b);
    if (s->n_operands && a->operands[0] != b->operands[0])
        return false;
    const uint32_t own = ((1u << NODE_FLAGS) - 1) & ~(NODE_SWAPPED | NODE_ORDERED);
    if ((a->where ^ b->where) & own)
        return false;
    if (s == t)
        return true;
    return s->name == t->name && s->dict == t->dict && s->traits == t->traits &&
           s->callee == t->callee && s->n_operands == t->n_operands &&
           s->n_results == t->n_results &&
           (!s->n_results || memcmp(g->shape_types.at + s->types, g->shape_types.at + t->types,
                                    s->n_results * sizeof(uint32_t)) == 0);
}

/* Where an operation of such content stands in the table if nothing stands there before it. */
static uint32_t merge_slot(const struct graph *g, uint64_t hash, uint32_t block)
{
    return (uint32_t)((mix(hash, block) >> 32) * g->merge_size >> 32);
}

static uint32_t merge_next(const struct graph *g, uint32_t slot)
{
    return slot + 1 < g->merge_size ? slot + 1 : 0;
}

static bool merge_widen(struct graph *g)
{
    uint64_t size = g->merge_slots ? g->merge_size * UINT64_C(2) : MERGE_FEW;
    uint32_t *old = g->merge_slots, n = g->merge_size;
    g->merge_slots = size <= UINT32_MAX ? vector_zeroes(size, sizeof *g->merge_slots) : NULL;
    if (!g->merge_slots) {
        free(old);
        g->failed = true;
        return false;
    }
    g->merge_size = (uint32_t)size;
    for (uint32_t i = 0; old && i < n; i++) {
        if (!old[i])
            continue;
        const struct node *o = &g->nodes.at[old[i] - 1];
        uint32_t s = merge_slot(g, node_hash(o), node_block(o));
        while (g->merge_slots[s])
            s = merge_next(g, s);
        g->merge_slots[s] = old[i];
    }
    free(old);
    return true;
}

/* A constant, moved or not, of which an equal one came before in this block: that one stands for it.
 * Nothing else is merged: compilers look at how many users a value has (KEYS.md 2.2). */
static __attribute__((noinline)) void constant_merge(struct graph *g, uint32_t id)
{
    struct node *o = &g->nodes.at[id];
    if (g->n_merge * UINT64_C(4) >= g->merge_size * UINT64_C(3) && !merge_widen(g))
        return;
    uint64_t hash = node_hash(o);
    uint32_t s = merge_slot(g, hash, node_block(o));
    for (; g->merge_slots[s]; s = merge_next(g, s)) {
        uint32_t have = g->merge_slots[s] - 1;
        if (node_hash(&g->nodes.at[have]) == hash &&
            node_block(&g->nodes.at[have]) == node_block(o) &&
            constants_equal(g, &g->nodes.at[have], o)) {
            o->same = have;
            return;
        }
    }
    g->merge_slots[s] = id + 1;
    g->n_merge++;
}

/* The constant that stands for `value` in block `b`: one that is there, or a copy. */
static uint32_t constant_in(struct graph *g, uint32_t value, uint32_t b)
{
    struct node o = g->nodes.at[value];
    uint32_t s = g->merge_size ? merge_slot(g, node_hash(&o), b) : 0;
    for (; g->merge_size && g->merge_slots[s]; s = merge_next(g, s)) {
        uint32_t have = g->merge_slots[s] - 1;
        if (node_block(&g->nodes.at[have]) == b && constants_equal(g, &g->nodes.at[have], &o))
            return have;
    }
    uint32_t copy = g->nodes.n;
    struct node *fresh = op_add(g, o.shape, b, o.where & NODE_CLASS);
    if (!fresh)
        return value;
    graph_op_place(g, fresh, op_shape(g, fresh), NULL);
    return copy;
}

/* Operands that are constants from around the operation's region become ones of its own: whether they are
 * written inside or outside is the printer's choice. False if there are none. */
static __attribute__((noinline)) bool constants_settle(struct graph *g, uint32_t id)
{
    uint32_t b = node_block(&g->nodes.at[id]), n = op_shape(g, &g->nodes.at[id])->n_operands;
    bool any = false;
    for (uint32_t i = 0; i < n && !g->failed; i++) { /* nodes may come, so nothing stays in place */
        struct node *o = &g->nodes.at[id];
        uint32_t v = op_operands(g, o, op_shape(g, o))[i];
        if (node_block(&g->nodes.at[v]) == b || !graph_is_constant(g, v))
            continue;
        v = constant_in(g, v, b);
        o = &g->nodes.at[id];
        op_operands_set(g, o, op_shape(g, o))[i] = v;
        any = true;
    }
    return any;
}

/* What an operation holds beside its name, dictionary and operands. */
static __attribute__((noinline)) uint64_t inside_settle(struct graph *g, struct node *o,
                                                        const struct shape *s)
{
    uint64_t inside = shape_has_regions(s) ? regions_settle(g, o) : 0;
    if ((s->has_holes || s->traits & GRAPH_CALL) && !g->failed)
        inside = mix(inside, symbols_settle(g, o));
    return inside;
}

/* What comes from an operation's operands. */
struct drawn {
    uint64_t hash;
    uint32_t all, any, first; /* NODE_SURE of them */
    bool outside;             /* one of them is of another block */
};

/* Operands become those that stand for the values `from`. `hash` is what the operation says. */
static inline struct drawn operands_draw(struct graph *g, struct node *o, const struct shape *s,
                                         const uint32_t *from, uint64_t hash)
{
    const struct node *nodes = g->nodes.at;
    uint32_t *to = op_operands_set(g, o, s), n = s->n_operands, where = o->where, blocks = 0;
    struct drawn d = {.hash = hash, .all = NODE_SURE};
    for (uint32_t i = 0; i < n; i++) {
        uint32_t value = nodes[from[i]].same, sure = nodes[value].where;
        to[i] = value;
        d.hash = mix(d.hash, node_hash(&nodes[value]));
        d.all &= sure;
        d.any |= sure;
        blocks |= sure ^ where;
    }
    d.first = n ? nodes[to[0]].where : 0;
    d.outside = (blocks & NODE_BLOCK) != 0;
    return d;
}

/* Which of NODE_SETTLED an operation has, in a region or not: graph_commute.c. */
static inline uint32_t op_settled(const struct graph *g, const struct node *o,
                                  const struct shape *s, const struct drawn *d, bool in_region)
{
    uint32_t settled = s->sure.always | (s->sure.if_all & d->all) | (s->sure.if_any & d->any) |
                       (s->sure.if_first & d->first);
    if (s->facts & SHAPE_KEEPS && shape_has_regions(s) && graph_regions_keep(g, o))
        settled |= d->all & NODE_NO_EXP;
    if (s->traits & GRAPH_COMMUTES && !in_region && !g->as_given &&
        graph_sure_commutes(s, d->all, d->any))
        settled |= GRAPH_COMMUTES;
    return settled;
}

/* Gives an operation the next place among those of its block with an effect. */
static uint32_t effect_add(struct graph *g, uint32_t id, struct block *b)
{
    PUSH(g, g->effects, (struct effect){.op = id, .before = b->effect});
    b->effect = g->effects.n - 1;
    return ++b->n_effects;
}

void graph_op_place(struct graph *g, struct node *o, const struct shape *s, const uint32_t *from)
{
    uint32_t id = (uint32_t)(o - g->nodes.at);
    struct block *b = &g->blocks.at[node_block(o)];
    uint64_t inside = s->facts & SHAPE_PLAIN || g->failed ? 0 : inside_settle(g, o, s);
    if (g->failed)
        return;
    if (b->frozen || (g->products_meet && !op_is_constant(g, o, s)))
        op_class_set(o, GRAPH_EFFECT);
    if (op_class(o) == GRAPH_EFFECT)
        inside = mix(inside, effect_add(g, id, b));
    uint64_t says = op_says(s, inside);
    struct drawn d = operands_draw(g, o, s, from, says);
    if (d.outside && b->depth > 1 && !b->frozen && constants_settle(g, id)) {
        o = &g->nodes.at[id]; /* no node is added from here on */
        d = operands_draw(g, o, s, op_operands(g, o, s), says);
    }
    op_says_keep(g, o, s, says);
    bool in_region = b->depth > 1;
    if (in_region && o->where & NODE_SWAPPED) { /* a copy from a function, where it may commute */
        op_swap(g, o);
        d = operands_draw(g, o, s, op_operands(g, o, s), says);
    }
    uint32_t settled = op_settled(g, o, s, &d, in_region);
    o->where |= settled;
    if (settled & GRAPH_COMMUTES && s->n_operands >= 2 && operands_sort(g, o, s))
        d = operands_draw(g, o, s, op_operands(g, o, s), says);
    if (s->n_results)
        node_hash_set(o, mix(d.hash, type_hash(g, s->type)));
    for (uint32_t i = 1; i < s->n_results; i++) {
        o[i].where |= settled & NODE_SURE;
        node_hash_set(o + i, mix(d.hash, type_hash(g, g->shape_types.at[s->types + i]) + i));
    }
    if (op_is_constant(g, o, s) && (s->facts & SHAPE_CONSTANT || !g->several))
        constant_merge(g, id);
}
