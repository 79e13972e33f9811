/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graph.c - what the readers call to build a graph, one operation after the other (graph.h).
 *
 * One pass and no look-back: an operation that has begun waits in `frames` with its operands and
 * results on scratch stacks, and becomes a node when it ends. So the operations inside its
 * regions come before it, which is the order that graph_canon.c wants.
 */
#include "keygen/graph_internal.h"

#include <stdlib.h>
#include <string.h>

bool graph_failed(const struct graph *g) { return g->failed; }

/* ---- module, functions, blocks ---- */

bool graph_dict_plain(const struct graph *g, uint32_t dict)
{
    static const char one[] = "{mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32}";
    const struct dict *d = &g->dicts.at[dict];
    return d->len == sizeof one - 1 && !d->n_holes && memcmp(d->text, one, d->len) == 0;
}

void graph_module_dict(struct graph *g, uint32_t dict)
{
    g->module_dict = g->regions_dict = dict;
    g->single = graph_dict_plain(g, dict);
}

void graph_module_regions_dict(struct graph *g, uint32_t dict) { g->regions_dict = dict; }

void graph_folds_at_calls(struct graph *g) { g->folds_at_calls = true; }

void graph_keeps_unused(struct graph *g) { g->keeps_unused = true; }

/* A use of each symbol that a dictionary names. */
static void uses_of_dict(struct graph *g, uint32_t dict)
{
    const struct dict *d = &g->dicts.at[dict];
    for (uint32_t i = 0; i < d->n_holes; i++)
        if (g->holes.at[d->holes + i].kind == HOLE_SYMBOL)
            PUSH(g, g->uses,
                 (struct use){.symbol = g->holes.at[d->holes + i].is.symbol, .is_call = false});
}

/* The next block; where numbers of blocks end, the graph is beyond what it holds. */
static uint32_t block_new(struct graph *g, uint32_t label, uint32_t depth)
{
    if (g->blocks.n == BLOCKS_MAX) {
        g->why_exact = GRAPH_MANY_BLOCKS;
        return 0;
    }
    PUSH(g, g->blocks,
         (struct block){.args = g->nodes.n,
                        .label = label,
                        .next = NONE,
                        .last = NONE,
                        .calls = NONE,
                        .effect = NONE,
                        .depth = (uint16_t)(depth < UINT16_MAX ? depth : UINT16_MAX)});
    return g->blocks.n ? g->blocks.n - 1 : 0;
}

uint32_t graph_block_arg(struct graph *g, uint32_t type)
{
    if (g->failed)
        return 0;
    struct block *b = &g->blocks.at[g->block];
    b->n_args++;
    return graph_arg_add(g, type, g->block, b->sure);
}

void graph_func_begin(struct graph *g, uint32_t symbol, bool is_public)
{
    if (g->failed)
        return;
    g->block = block_new(g, 0, 1);
    if (is_public && !g->failed) /* they come from memory */
        g->blocks.at[g->block].sure = NODE_NO_PRODUCT | NODE_NO_EXP | NODE_VARIES;
    PUSH(g, g->funcs,
         (struct func){.symbol = symbol,
                       .is_public = is_public,
                       .block = g->block,
                       .nodes = g->nodes.n,
                       .n_ops = g->n_ops,
                       .uses = g->uses.n,
                       .arg_dicts = g->arg_dicts.n,
                       .results = g->pairs.n});
    if (g->failed)
        return;
    if (g->symbol_func.at[symbol] < SYMBOL_PRIVATE)
        g->defined_twice = true;
    g->symbol_func.at[symbol] = g->funcs.n - 1;
}

uint32_t graph_func_arg(struct graph *g, uint32_t type, uint32_t dict)
{
    uint32_t v = graph_block_arg(g, type);
    PUSH(g, g->arg_dicts, dict);
    if (!g->failed)
        uses_of_dict(g, dict);
    return v;
}

void graph_func_result(struct graph *g, uint32_t type, uint32_t dict)
{
    PUSH(g, g->pairs, type);
    PUSH(g, g->pairs, dict);
    if (g->failed)
        return;
    uses_of_dict(g, dict);
    g->funcs.at[g->funcs.n - 1].n_results++;
}

void graph_func_dict(struct graph *g, uint32_t dict)
{
    if (g->failed)
        return;
    g->funcs.at[g->funcs.n - 1].dict = dict;
    uses_of_dict(g, dict);
}

void graph_func_end(struct graph *g)
{
    g->block = 0;
    if (g->failed)
        return;
    struct func *f = &g->funcs.at[g->funcs.n - 1];
    f->n_nodes = g->nodes.n - f->nodes;
    f->n_ops = g->n_ops - f->n_ops; /* it was how many were before */
    f->n_uses = g->uses.n - f->uses;
    f->defined = f->n_ops > 0;
}

void graph_region_begin(struct graph *g)
{
    if (g->failed)
        return;
    struct frame *f = &g->frames.at[g->frames.n - 1];
    uint32_t region = g->regions.n;
    PUSH(g, g->regions, (struct region){.block = NONE, .next = NONE});
    if (f->region == NONE)
        f->region = region;
    else if (!g->failed)
        g->regions.at[f->last_region].next = region;
    f->last_region = region;
    f->last_block = NONE;
}

void graph_block_begin(struct graph *g, uint32_t label)
{
    if (g->failed)
        return;
    if (!g->frames.n) { /* a further block of the function */
        uint32_t block = block_new(g, label, 1);
        if (g->failed)
            return;
        g->blocks.at[g->block].next = block;
        g->blocks.at[g->block].frozen = g->blocks.at[block].frozen = true;
        g->block = block;
        return;
    }
    struct frame *f = &g->frames.at[g->frames.n - 1];
    uint32_t block = block_new(g, label, g->blocks.at[f->block].depth + 1);
    if (g->failed)
        return;
    if (f->last_block == NONE)
        g->regions.at[f->last_region].block = block;
    else {
        g->blocks.at[f->last_block].next = block;
        g->blocks.at[f->last_block].frozen = g->blocks.at[block].frozen = true;
    }
    g->blocks.at[block].sure = f->traits & GRAPH_REDUCES ? NODE_NO_PRODUCT | NODE_VARIES : 0;
    f->last_block = g->block = block;
}

void graph_region_end(struct graph *g)
{
    if (!g->failed)
        g->block = g->frames.at[g->frames.n - 1].block;
}

/* ---- operations ---- */

void graph_op_begin(struct graph *g, uint32_t opname)
{
    PUSH(g, g->frames,
         (struct frame){.name = opname,
                        .callee = NONE,
                        .traits = graph_opname_traits(g, opname),
                        .operands = g->stack_operands.n,
                        .results = g->stack_results.n,
                        .region = NONE,
                        .last_region = NONE,
                        .last_block = NONE,
                        .block = g->block,
                        .from = graph_extent(g)});
}

void graph_op_traits(struct graph *g, unsigned traits)
{
    if (!g->failed)
        g->frames.at[g->frames.n - 1].traits = traits;
}

void graph_op_dict(struct graph *g, uint32_t dict)
{
    if (g->failed)
        return;
    g->frames.at[g->frames.n - 1].dict = dict;
    if (g->dicts.at[dict].n_holes)
        uses_of_dict(g, dict);
}

void graph_op_callee(struct graph *g, uint32_t symbol)
{
    if (g->failed)
        return;
    g->frames.at[g->frames.n - 1].callee = symbol;
    PUSH(g, g->uses, (struct use){.symbol = symbol, .is_call = true});
}

void graph_op_operand(struct graph *g, uint32_t value) { PUSH(g, g->stack_operands, value); }

void graph_op_result(struct graph *g, uint32_t type) { PUSH(g, g->stack_results, type); }

/* ---- shapes ---- */

static uint64_t shape_slot(const struct shape *s) { return mix(s->line, s->callee); }

static uint64_t shape_slot_of(const struct graph *g, const void *items, uint32_t i)
{
    (void)items;
    return shape_slot(&g->shapes.at[i]);
}

/* Whether they say the same, up to what their operations may do. */
static bool shapes_alike(const struct graph *g, const struct shape *have, const struct shape *s,
                         const uint32_t *types)
{
    if (have->line != s->line || have->name != s->name || have->dict != s->dict ||
        have->n_operands != s->n_operands || have->n_results != s->n_results ||
        have->callee != s->callee || (have->traits ^ s->traits) & (GRAPH_CALL | SHAPE_REGIONS))
        return false;
    for (uint32_t r = 0; r < s->n_results; r++)
        if (g->shape_types.at[have->types + r] != types[r])
            return false;
    return true;
}

static uint8_t shape_facts(const struct shape *s)
{
    bool plain = !shape_has_regions(s) && !s->has_holes && !(s->traits & (GRAPH_CALL | GRAPH_STAYS));
    bool moves = s->traits & GRAPH_MOVES && !s->has_holes;
    unsigned facts = 0;
    if (plain)
        facts |= SHAPE_PLAIN;
    if (plain && s->traits & GRAPH_CONSTANT && s->n_operands == 0 && s->n_results == 1)
        facts |= SHAPE_CONSTANT;
    if (moves && s->n_operands == 1 && s->n_results == 1)
        facts |= SHAPE_MOVED;
    if (s->traits & GRAPH_KEEPS && !s->has_holes)
        facts |= SHAPE_KEEPS;
    if (s->n_operands > 2 || shape_has_regions(s))
        facts |= SHAPE_SPILLS;
    return (uint8_t)facts;
}

/* Another shape with result types. Its hashes are known, and one that it is alike, or NONE. */
static uint32_t shape_new(struct graph *g, const struct shape *says, const uint32_t *types)
{
    uint32_t number = g->shapes.n;
    PUSH(g, g->shapes, *says);
    if (g->failed)
        return 0;
    struct shape *s = &g->shapes.at[number];
    if (s->alike == NONE)
        s->alike = number;
    s->types = g->shape_types.n;
    s->type = s->n_results ? types[0] : 0;
    for (uint32_t i = 0; i < s->n_results; i++)
        PUSH(g, g->shape_types, types[i]);
    if (g->failed)
        return 0;
    s->has_holes = g->dicts.at[s->dict].n_holes > 0;
    s->facts = shape_facts(s);
    s->sure = graph_shape_sure(g, s);
    s->last = NONE;
    return number;
}

/* The number of a shape with result types, of one that is there if there is one. */
static uint32_t shape_number(struct graph *g, struct shape *s, const uint32_t *types)
{
    if (g->failed)
        return 0;
    s->hash = mix(g->names.items.at[s->name].hash, g->dicts.at[s->dict].hash);
    s->line = mix(mix(s->hash, (uint64_t)s->n_operands << 1 | shape_has_regions(s)), s->n_results);
    for (uint32_t i = 0; i < s->n_results; i++)
        s->line = mix(s->line, types[i]);
    if ((!g->shape_slots || g->shapes.n * 2 >= g->shape_mask) &&
        !graph_slots_widen(g, &g->shape_slots, &g->shape_mask, g->shapes.n, shape_slot_of, NULL))
        return 0;
    uint32_t at = (uint32_t)shape_slot(s) & g->shape_mask;
    s->alike = NONE;
    for (; g->shape_slots[at]; at = (at + 1) & g->shape_mask) {
        const struct shape *have = &g->shapes.at[g->shape_slots[at] - 1];
        if (!shapes_alike(g, have, s, types))
            continue;
        if (have->traits == s->traits)
            return g->shape_slots[at] - 1;
        s->alike = have->alike;
    }
    uint32_t number = shape_new(g, s, types);
    if (!g->failed)
        g->shape_slots[at] = number + 1;
    return number;
}

uint32_t graph_shape(struct graph *g, const struct graph_op_shape *op, const uint32_t *results)
{
    struct shape s = {.name = op->name,
                      .dict = op->dict,
                      .n_operands = op->n_operands,
                      .n_results = op->n_results,
                      .callee = op->traits & GRAPH_CALL ? op->callee : NONE,
                      .traits = (uint16_t)op->traits};
    return shape_number(g, &s, results);
}

/* ---- nodes ---- */

/* Room for `more` entries at once. */
#define HAS_ROOM(g, vector, more)                                                                  \
    ((vector).cap - (vector).n >= (more) ||                                                        \
     vector_widen(&(g)->failed, &(vector).at, &(vector).cap, (vector).n, more,                     \
                  sizeof *(vector).at))

uint32_t graph_arg_add(struct graph *g, uint32_t type, uint32_t block, uint32_t sure)
{
    uint32_t id = g->nodes.n;
    PUSH(g, g->nodes,
         (struct node){.shape = NODE_ARG,
                       .operands[NODE_TYPE] = type,
                       .same = id,
                       .where = block << NODE_FLAGS | (sure & type_sure(g, type))});
    return id;
}

bool graph_op_room(struct graph *g, const struct shape *s)
{
    return HAS_ROOM(g, g->nodes, s->n_results + 1) &&
           (!shape_spills(s) || HAS_ROOM(g, g->spilled, shape_spill_words(s)));
}

/* The operation itself if it is known to stand there already: the last of its shape, with the same operand.
 * graph_canon merges all constants that are equal, moved or not, but programs write these over and over,
 * and they need not become nodes at all. What only moves one does where the program may be for several
 * devices, as far as is known by now. */
static uint32_t op_last(const struct graph *g, const struct shape *s, const uint32_t *operands)
{
    if (s->last == NONE || !(g->single || s->facts & SHAPE_CONSTANT) ||
        node_block(&g->nodes.at[s->last]) != g->block ||
        (s->n_operands && g->nodes.at[s->last].operands[0] != operands[0]))
        return NONE;
    return s->last;
}

/* *out: the operation's first result, or NONE. False if there is no memory. In line, since for most
 * operations this is all that their reader asks for. */
static inline __attribute__((always_inline)) bool
op_append(struct graph *g, uint32_t shape, uint32_t region, const uint32_t *operands, uint32_t *out)
{
    struct shape *s = &g->shapes.at[shape];
    uint32_t id = op_last(g, s, operands);
    if (id != NONE) {
        g->n_ops++;
        g->blocks.at[g->block].last = *out = id;
        return true;
    }
    id = g->nodes.n;
    struct node *o = op_add(g, shape, g->block, s->traits & SHAPE_CLASS);
    if (!o)
        return false;
    if (region != NONE)
        o->operands[NODE_REGION] = region;
    uint32_t *to = op_operands_set(g, o, s);
    for (uint32_t i = 0; i < s->n_operands; i++)
        to[i] = operands[i];
    if (op_is_constant(g, o, s))
        s->last = id;
    g->blocks.at[g->block].last = id;
    *out = s->n_results ? id : NONE;
    return true;
}

/* ---- operations that have ended ---- */

/* How many values the newest nodes take from before the node `from`, constants apart. */
static uint32_t captures_count(struct graph *g, uint32_t from)
{
    uint32_t first = g->captures.n;
    for (uint32_t id = from; id < g->nodes.n; id++) {
        const struct node *o = &g->nodes.at[id];
        if (!node_is_op(o))
            continue;
        const struct shape *s = op_shape(g, o);
        const uint32_t *operands = op_operands(g, o, s);
        for (uint32_t i = 0; i < s->n_operands; i++) {
            uint32_t v = operands[i];
            if (v >= from || g->nodes.at[v].same == NONE || graph_is_constant(g, v))
                continue;
            g->nodes.at[v].same = NONE; /* counted */
            PUSH(g, g->captures, v);
        }
    }
    uint32_t n = g->captures.n - first;
    while (g->captures.n > first) {
        uint32_t v = g->captures.at[--g->captures.n];
        g->nodes.at[v].same = v;
    }
    return n;
}

/* Where a compiler's programs do not nest, what regions take from outside is handed to them, also for what
 * nothing needs. So how much that is, as it is written, counts: in place of the label of the first block,
 * to which nothing can branch where there is no other. */
static void captures_note(struct graph *g, const struct frame *f)
{
    struct block *b = &g->blocks.at[g->regions.at[f->region].block];
    if (b->next == NONE && b->label == 0 && b->depth <= DEPTH_MAX)
        b->label = captures_count(g, f->from.nodes);
}

uint32_t graph_op_end(struct graph *g)
{
    if (g->failed)
        return 0;
    const struct frame f = g->frames.at[--g->frames.n];
    bool inside = f.region != NONE && !(f.traits & GRAPH_CALL);
    if (inside && g->regions.at[f.region].block != NONE)
        captures_note(g, &f);
    struct shape s = {.name = f.name,
                      .dict = f.dict,
                      .n_operands = g->stack_operands.n - f.operands,
                      .n_results = g->stack_results.n - f.results,
                      .callee = f.traits & GRAPH_CALL ? f.callee : NONE,
                      .traits = (uint16_t)(f.traits | (inside ? SHAPE_REGIONS : 0))};
    g->stack_operands.n = f.operands;
    g->stack_results.n = f.results;
    g->block = f.block;
    uint32_t shape = shape_number(g, &s, s.n_results ? &g->stack_results.at[f.results] : NULL);
    uint32_t region = inside ? graph_body(g, &f.from, f.region) : NONE;
    uint32_t id = 0;
    if (!g->failed)
        op_append(g, shape, region, s.n_operands ? &g->stack_operands.at[f.operands] : NULL, &id);
    return id;
}

struct graph_op_shape graph_op_shape(const struct graph *g)
{
    if (g->failed)
        return (struct graph_op_shape){.callee = NONE};
    const struct frame *f = &g->frames.at[g->frames.n - 1];
    return (struct graph_op_shape){.name = f->name,
                                   .dict = f->dict,
                                   .callee = f->callee,
                                   .traits = f->traits,
                                   .n_operands = g->stack_operands.n - f->operands,
                                   .n_results = g->stack_results.n - f->results};
}

const uint32_t *graph_op_operands(const struct graph *g)
{
    uint32_t first = g->failed ? 0 : g->frames.at[g->frames.n - 1].operands;
    return first < g->stack_operands.n ? &g->stack_operands.at[first] : NULL;
}

/* The functions that an operation of a shape names. */
static __attribute__((noinline)) bool uses_of_shape(struct graph *g, uint32_t shape)
{
    const struct shape *s = &g->shapes.at[shape];
    if (s->has_holes)
        uses_of_dict(g, s->dict);
    if (s->traits & GRAPH_CALL)
        PUSH(g, g->uses, (struct use){.symbol = s->callee, .is_call = true});
    return !g->failed;
}

bool graph_op_of_shape(struct graph *g, uint32_t shape, const uint32_t *types,
                       const uint32_t *operands, uint32_t *out)
{
    if (g->failed)
        return false;
    const struct shape *s = &g->shapes.at[shape];
    for (uint32_t i = 0; types && i < s->n_operands; i++)
        if (value_type(g, operands[i]) != types[i])
            return false;
    if (!(s->facts & SHAPE_PLAIN) && !uses_of_shape(g, shape))
        return false;
    return op_append(g, shape, NONE, operands, out);
}

bool graph_op_repeat(struct graph *g, const struct graph_op_shape *shape, const uint32_t *types,
                     const uint32_t *operands, uint32_t *out)
{
    uint32_t number = graph_shape(g, shape, types + shape->n_operands);
    return graph_op_of_shape(g, number, types, operands, out);
}

void graph_op_drop(struct graph *g)
{
    if (g->failed)
        return;
    const struct frame *f = &g->frames.at[--g->frames.n];
    g->stack_operands.n = f->operands;
    g->stack_results.n = f->results;
}

uint32_t graph_value_type(const struct graph *g, uint32_t value)
{
    return value < g->nodes.n ? value_type(g, value) : 0;
}

void graph_value_types(const struct graph *g, const uint32_t *values, uint32_t n, uint32_t *types)
{
    for (uint32_t i = 0; i < n; i++)
        types[i] = values[i] < g->nodes.n ? value_type(g, values[i]) : 0;
}

uint32_t graph_n_values(const struct graph *g) { return g->nodes.n; }

/* ---- life ---- */

struct graph *graph_new(size_t input_len)
{
    struct graph *g = calloc(1, sizeof *g);
    if (!g)
        return NULL;
    uint32_t ops =
        1024 + (uint32_t)(input_len / 56 < VECTOR_MAX / 8 ? input_len / 56 : VECTOR_MAX / 8);
    vector_reserve(&g->failed, &g->nodes.at, &g->nodes.cap, ops, sizeof *g->nodes.at);
    vector_reserve(&g->failed, &g->spilled.at, &g->spilled.cap, ops, sizeof *g->spilled.at);
    vector_reserve(&g->failed, &g->shapes.at, &g->shapes.cap, 256, sizeof *g->shapes.at);
    vector_reserve(&g->failed, &g->shape_types.at, &g->shape_types.cap, 256,
                   sizeof *g->shape_types.at);
    vector_reserve(&g->failed, &g->order.at, &g->order.cap, ops, sizeof *g->order.at);
    graph_texts_begin(g);
    block_new(g, 0, 0); /* the module's own level */
    if (g->failed) {
        graph_free(g);
        return NULL;
    }
    return g;
}

void graph_free(struct graph *g)
{
    if (!g)
        return;
    graph_texts_free(g);
    void *arrays[] = {g->shapes.at,         g->shape_types.at,   g->shape_slots, g->nodes.at,
                      g->spilled.at,        g->regions.at,       g->blocks.at,   g->funcs.at,
                      g->uses.at,           g->arg_dicts.at,     g->pairs.at,    g->frames.at,
                      g->stack_operands.at, g->stack_results.at, g->order.at,    g->captures.at,
                      g->func_order.at,     g->walk.at,          g->merge_slots, g->roots.at,
                      g->copies.at,         g->effects.at,       g->bodies.at,   g->body_slots,
                      g->used};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        free(arrays[i]);
    free(g);
}
