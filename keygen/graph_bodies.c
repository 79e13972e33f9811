/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graph_bodies.c - the regions of reductions, sorts and the like, each once.
 *
 * A program that reduces a thousand times says a thousand times how two numbers become one. Regions that
 * take nothing from outside, name no symbol, hold no other regions and say what those of an earlier
 * operation say, word by word and equally deep, are taken back while the graph is read, and the operation
 * gets the earlier ones. Nothing that is canonical depends on it: what such a region is made of is the same
 * whoever has it.
 *
 * Thread: one at a time for a graph.
 */
#include "keygen/graph_internal.h"

#define BODY_NODES_MAX 64 /* a larger one is kept as it is */

struct graph_extent graph_extent(const struct graph *g)
{
    return (struct graph_extent){.nodes = g->nodes.n,
                                 .spilled = g->spilled.n,
                                 .blocks = g->blocks.n,
                                 .regions = g->regions.n,
                                 .uses = g->uses.n};
}

/* Where the operands of the i-th node of a body are, and how many. */
static const uint32_t *body_operands(const struct graph *g, const struct node *n, uint32_t *out)
{
    *out = node_is_op(n) ? op_shape(g, n)->n_operands : 0;
    return *out ? op_operands(g, n, op_shape(g, n)) : NULL;
}

/* True if the newest nodes are such a body; then *out is a hash of it. */
static bool body_hash(const struct graph *g, const struct graph_extent *from, uint64_t *out)
{
    uint64_t hash = g->regions.n - from->regions;
    if (g->nodes.n - from->nodes > BODY_NODES_MAX || g->uses.n != from->uses)
        return false;
    for (uint32_t i = from->nodes; i < g->nodes.n; i++) {
        const struct node *n = &g->nodes.at[i];
        uint32_t n_operands;
        const uint32_t *operands = body_operands(g, n, &n_operands);
        if (node_is_op(n) && op_has_regions(g, n))
            return false;
        hash = mix(hash, (uint64_t)n->shape << 32 | (node_block(n) - from->blocks));
        for (uint32_t k = 0; k < n_operands; k++) {
            if (operands[k] < from->nodes)
                return false;
            hash = mix(hash, operands[k] - from->nodes);
        }
    }
    *out = hash;
    return true;
}

static uint64_t body_hash_of(const struct graph *g, const void *items, uint32_t i)
{
    (void)items;
    return g->bodies.at[i].hash;
}

static bool nodes_equal(const struct graph *g, const struct body *a, const struct graph_extent *b)
{
    for (uint32_t i = 0; i < a->n_nodes; i++) {
        const struct node *x = &g->nodes.at[a->from.nodes + i], *y = &g->nodes.at[b->nodes + i];
        uint32_t n_operands, ignored;
        const uint32_t *u = body_operands(g, x, &n_operands), *v = body_operands(g, y, &ignored);
        if (x->shape != y->shape || node_block(x) - a->from.blocks != node_block(y) - b->blocks ||
            (x->where ^ y->where) & ((1u << NODE_FLAGS) - 1) ||
            (!node_is_op(x) && x->operands[0] != y->operands[0]))
            return false;
        for (uint32_t k = 0; k < n_operands; k++)
            if (u[k] - a->from.nodes != v[k] - b->nodes)
                return false;
    }
    return true;
}

/* The same number, counted from where each body begins; or NONE in both. */
static bool same_place(uint32_t x, uint32_t y, uint32_t x_from, uint32_t y_from)
{
    return x == NONE || y == NONE ? x == y : x - x_from == y - y_from;
}

static bool blocks_equal(const struct graph *g, const struct body *a, const struct graph_extent *b)
{
    for (uint32_t i = 0; i < a->n_blocks; i++) {
        const struct block *x = &g->blocks.at[a->from.blocks + i],
                           *y = &g->blocks.at[b->blocks + i];
        if (x->n_args != y->n_args || x->label != y->label || x->depth != y->depth ||
            x->sure != y->sure || x->frozen != y->frozen ||
            !same_place(x->args, y->args, a->from.nodes, b->nodes) ||
            !same_place(x->last, y->last, a->from.nodes, b->nodes) ||
            !same_place(x->next, y->next, a->from.blocks, b->blocks))
            return false;
    }
    for (uint32_t i = 0; i < a->n_regions; i++) {
        const struct region *x = &g->regions.at[a->from.regions + i];
        const struct region *y = &g->regions.at[b->regions + i];
        if (!same_place(x->block, y->block, a->from.blocks, b->blocks) ||
            !same_place(x->next, y->next, a->from.regions, b->regions))
            return false;
    }
    return true;
}

static bool body_equal(const struct graph *g, const struct body *a, const struct graph_extent *b)
{
    return a->n_nodes == g->nodes.n - b->nodes && a->n_blocks == g->blocks.n - b->blocks &&
           a->n_regions == g->regions.n - b->regions && nodes_equal(g, a, b) &&
           blocks_equal(g, a, b);
}

/* Takes back what came since `from`. */
static void extent_take_back(struct graph *g, const struct graph_extent *from)
{
    for (uint32_t i = from->nodes; i < g->nodes.n; i++) {
        const struct node *n = &g->nodes.at[i];
        if (node_is_op(n) && g->shapes.at[n->shape].last == i)
            g->shapes.at[n->shape].last = NONE;
    }
    g->nodes.n = from->nodes;
    g->spilled.n = from->spilled;
    g->blocks.n = from->blocks;
    g->regions.n = from->regions;
}

uint32_t graph_body(struct graph *g, const struct graph_extent *from, uint32_t region)
{
    uint64_t hash;
    if (g->failed || g->why_exact || !body_hash(g, from, &hash))
        return region;
    if (g->bodies.n * UINT64_C(2) >= g->body_mask &&
        !graph_slots_widen(g, &g->body_slots, &g->body_mask, g->bodies.n, body_hash_of, NULL))
        return region;
    uint32_t at = (uint32_t)hash & g->body_mask;
    for (; g->body_slots[at]; at = (at + 1) & g->body_mask) {
        const struct body *have = &g->bodies.at[g->body_slots[at] - 1];
        if (have->hash != hash || !body_equal(g, have, from))
            continue;
        extent_take_back(g, from);
        return have->from.regions;
    }
    PUSH(g, g->bodies,
         (struct body){.from = *from,
                       .n_nodes = g->nodes.n - from->nodes,
                       .n_blocks = g->blocks.n - from->blocks,
                       .n_regions = g->regions.n - from->regions,
                       .hash = hash});
    if (!g->failed)
        g->body_slots[at] = g->bodies.n;
    return region;
}
