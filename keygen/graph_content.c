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
 * step of a hash can be undone. Only operations of many operands keep them, in the words behind the
 * operands, so that finding one takes no more than NEAR_FEW to the third power steps:
 *
 *     operand 0 | operand 1 | ... | says | says, with operands | with their operands    (8 bytes each)
 */
#include "keygen/graph_internal.h"

#include <string.h>

#define DEPTHS 3 /* of what is near */

_Static_assert(NEAR_WORDS * sizeof(uint32_t) == DEPTHS * sizeof(uint64_t),
               "the words behind operands");

static uint64_t type_hash(const struct graph *g, uint32_t type)
{
    return g->types.items.at[type].hash;
}

void graph_args_hash(struct graph *g, uint32_t b)
{
    const struct block *block = &g->blocks.at[b];
    for (uint32_t i = 0; i < block->n_args; i++) {
        struct node *v = &g->nodes.at[block->args + i];
        node_hash_set(v, mix(mix(type_hash(g, v->operands[NODE_TYPE]), block->depth),
                             (uint64_t)block->label << 32 | i));
    }
}

/* What an operation of the shape says that holds nothing else. */
static uint64_t shape_says(const struct shape *s) { return mix(s->hash, s->n_operands); }

uint32_t graph_shape_near(const struct graph *g, const struct shape *s)
{
    return (uint32_t)mix(shape_says(s), type_hash(g, s->type));
}

/* What the operation says: what its shape does, or it is found in the hash of its first result. */
static uint64_t op_says(const struct graph *g, const struct node *o, const struct shape *s)
{
    if (op_is_plain(o, s))
        return shape_says(s);
    const uint32_t *operands = op_operands(g, o, s);
    uint64_t hash = unmix(node_hash(o), type_hash(g, s->type));
    for (uint32_t i = s->n_operands; i-- > 0;)
        hash = unmix(hash, node_hash(&g->nodes.at[operands[i]]));
    return hash;
}

/* A hash of the operation, with its operands down to `depth`. */
static uint32_t value_near(const struct graph *g, uint32_t value, unsigned depth)
{
    uint32_t op = value_op(g, value);
    if (op == NONE)
        return (uint32_t)type_hash(g, value_type(g, value));
    const struct node *o = &g->nodes.at[op];
    const struct shape *s = op_shape(g, o);
    if (!depth && value == op && op_is_plain(o, s))
        return s->near;
    const uint32_t *operands = op_operands(g, o, s);
    uint64_t hash;
    if (s->n_operands > NEAR_FEW) {
        memcpy(&hash, (const char *)(operands + s->n_operands) + depth * sizeof hash, sizeof hash);
    } else {
        hash = op_says(g, o, s);
        for (uint32_t i = 0; depth && i < s->n_operands; i++) /* calls itself DEPTHS deep at most */
            hash = mix(hash, value_near(g, operands[i], depth - 1));
    }
    return (uint32_t)mix(hash, type_hash(g, value_type(g, value)) + (value - op));
}

/* Keeps what is near the results of an operation of many operands. */
static void near_keep(struct graph *g, uint32_t *operands, uint32_t n, uint64_t says)
{
    uint64_t near[DEPTHS] = {says, says, says};
    for (unsigned depth = 1; depth < DEPTHS; depth++)
        for (uint32_t i = 0; i < n; i++)
            near[depth] = mix(near[depth], value_near(g, operands[i], depth - 1));
    memcpy(operands + n, near, sizeof near);
}

void graph_results_hash(struct graph *g, struct node *o, const struct shape *s, uint64_t inside)
{
    uint32_t *operands = op_operands_set(g, o, s);
    uint64_t hash = mix(s->hash, inside + s->n_operands);
    if (s->n_operands > NEAR_FEW)
        near_keep(g, operands, s->n_operands, hash);
    for (uint32_t i = 0; i < s->n_operands; i++)
        hash = mix(hash, node_hash(&g->nodes.at[operands[i]]));
    if (s->n_results)
        node_hash_set(o, mix(hash, type_hash(g, s->type)));
    for (uint32_t i = 1; i < s->n_results; i++)
        node_hash_set(o + i, mix(hash, type_hash(g, g->shape_types.at[s->types + i]) + i));
}

uint32_t graph_value_says(const struct graph *g, uint32_t value) { return value_near(g, value, 0); }

int graph_value_order(const struct graph *g, uint32_t a, uint32_t b)
{
    for (unsigned depth = 0; depth < DEPTHS && a != b; depth++) {
        uint32_t x = value_near(g, a, depth), y = value_near(g, b, depth);
        if (x != y)
            return x < y ? -1 : 1;
    }
    uint64_t x = node_hash(&g->nodes.at[a]), y = node_hash(&g->nodes.at[b]);
    return x < y ? -1 : x > y;
}
