/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graph_content.c - hashes of what values are. Any thread; no state.
 *
 * The hash of a result is that of what its operation says, mixed with those of the operands one after
 * the other, and with the result's type and place: so of all that it is computed from, down to the
 * arguments.
 *
 * Which of two operands comes first where they commute must not depend on the layer that they stand in.
 * So what is near decides first: what their operations say, then these with the operands' operations,
 * then with those of theirs. Few operations commute, so these hashes are not kept but found again: each
 * step of a hash can be undone. Only operations of many operands keep those that were asked for, in the
 * words behind the operands, so that finding one takes no more than NEAR_FEW to the third power steps:
 *
 *     operand 0 | operand 1 | ... | which are known | says | says, with operands | with their operands
 *
 * The hashes have two words each. The first is known; a bit is set for each depth that is.
 */
#include "keygen/graph_internal.h"

#include <string.h>

void graph_args_hash(struct graph *g, uint32_t b)
{
    const struct block *block = &g->blocks.at[b];
    for (uint32_t i = 0; i < block->n_args; i++) {
        struct node *v = &g->nodes.at[block->args + i];
        node_hash_set(v, mix(mix(type_hash(g, v->operands[NODE_TYPE]), block->depth),
                             (uint64_t)block->label << 32 | i));
    }
}

/* What the operation says: what its shape does, or it is found in the hash of its first result. */
static uint64_t op_says_again(const struct graph *g, const struct node *o, const struct shape *s)
{
    if (op_is_plain(o, s))
        return op_says(s, 0);
    const uint32_t *operands = op_operands(g, o, s);
    uint64_t hash = unmix(node_hash(o), type_hash(g, s->type));
    for (uint32_t i = s->n_operands; i-- > 0;)
        hash = unmix(hash, node_hash(&g->nodes.at[operands[i]]));
    return hash;
}

static uint32_t value_near(const struct graph *g, uint32_t value, unsigned depth);

/* A hash of the operation, with its operands down to `depth`. */
static uint64_t op_near(const struct graph *g, const struct node *o, const struct shape *s,
                        unsigned depth)
{
    const uint32_t *operands = op_operands(g, o, s);
    uint32_t *kept =
        s->n_operands > NEAR_FEW ? g->spilled.at + o->operands[NODE_SPILL] + s->n_operands : NULL;
    bool known = kept && kept[0] >> depth & 1;
    uint64_t hash;
    if (kept)
        memcpy(&hash, kept + 1 + (known ? 2 * depth : 0), sizeof hash);
    else
        hash = op_says_again(g, o, s);
    if (known)
        return hash;
    for (uint32_t i = 0; depth && i < s->n_operands; i++)
        hash = mix(hash, value_near(g, operands[i], depth - 1));
    if (kept) {
        memcpy(kept + 1 + 2 * depth, &hash, sizeof hash);
        kept[0] |= 1u << depth;
    }
    return hash;
}

/* The same of a value; the two call each other NEAR_DEPTHS deep at most. */
static uint32_t value_near(const struct graph *g, uint32_t value, unsigned depth)
{
    uint32_t op = value_op(g, value);
    if (op == NONE)
        return (uint32_t)type_hash(g, value_type(g, value));
    const struct node *o = &g->nodes.at[op];
    uint64_t hash = op_near(g, o, op_shape(g, o), depth);
    return (uint32_t)mix(hash, type_hash(g, value_type(g, value)) + (value - op));
}

uint32_t graph_value_says(const struct graph *g, uint32_t value) { return value_near(g, value, 0); }

int graph_value_order(const struct graph *g, uint32_t a, uint32_t b)
{
    for (unsigned depth = 0; depth < NEAR_DEPTHS && a != b; depth++) {
        uint32_t x = value_near(g, a, depth), y = value_near(g, b, depth);
        if (x != y)
            return x < y ? -1 : 1;
    }
    uint64_t x = node_hash(&g->nodes.at[a]), y = node_hash(&g->nodes.at[b]);
    return x < y ? -1 : x > y;
}
