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
        struct value *v = &g->values.at[block->args + i];
        v->hash = mix(mix(type_hash(g, v->type), block->depth), (uint64_t)block->label << 32 | i);
    }
}

/* What the operation says, from the hash of its first result. */
static uint64_t op_says(const struct graph *g, const struct op *o)
{
    const uint32_t *operands = g->operands.at + o->operands;
    const struct value *result = &g->values.at[o->results];
    uint64_t hash = unmix(result->hash, type_hash(g, result->type));
    for (uint32_t i = op_shape(g, o)->n_operands; i-- > 0;)
        hash = unmix(hash, g->values.at[operands[i]].hash);
    return hash;
}

/* A hash of the operation, with its operands down to `depth`. */
static uint32_t value_near(const struct graph *g, uint32_t value, unsigned depth)
{
    const struct value *v = &g->values.at[value];
    if (v->def & DEF_ARG)
        return (uint32_t)type_hash(g, v->type);
    const struct op *o = &g->ops.at[v->def];
    const uint32_t *operands = g->operands.at + o->operands;
    uint32_t n_operands = op_shape(g, o)->n_operands;
    uint64_t hash;
    if (n_operands > NEAR_FEW) {
        memcpy(&hash, (const char *)(operands + n_operands) + depth * sizeof hash, sizeof hash);
    } else {
        hash = op_says(g, o);
        for (uint32_t i = 0; depth && i < n_operands; i++) /* calls itself DEPTHS deep at most */
            hash = mix(hash, value_near(g, operands[i], depth - 1));
    }
    return (uint32_t)mix(hash, type_hash(g, v->type) + (value - o->results));
}

/* Keeps what is near the results of an operation of many operands. */
static void near_keep(struct graph *g, const struct op *o, uint64_t says)
{
    uint32_t *operands = g->operands.at + o->operands, n = op_shape(g, o)->n_operands;
    uint64_t near[DEPTHS] = {says, says, says};
    for (unsigned depth = 1; depth < DEPTHS; depth++)
        for (uint32_t i = 0; i < n; i++)
            near[depth] = mix(near[depth], value_near(g, operands[i], depth - 1));
    memcpy(operands + n, near, sizeof near);
}

void graph_results_hash(struct graph *g, const struct op *o, uint64_t inside)
{
    const uint32_t *operands = g->operands.at + o->operands;
    struct value *values = g->values.at, *results = values + o->results;
    const struct shape *s = op_shape(g, o);
    uint32_t n_operands = s->n_operands, n_results = s->n_results;
    uint64_t hash = mix(s->hash, inside + n_operands);
    if (n_operands > NEAR_FEW)
        near_keep(g, o, hash);
    for (uint32_t i = 0; i < n_operands; i++)
        hash = mix(hash, values[operands[i]].hash);
    for (uint32_t i = 0; i < n_results; i++)
        results[i].hash = mix(hash, type_hash(g, results[i].type) + i);
}

uint32_t graph_value_says(const struct graph *g, uint32_t value) { return value_near(g, value, 0); }

int graph_value_order(const struct graph *g, uint32_t a, uint32_t b)
{
    for (unsigned depth = 0; depth < DEPTHS && a != b; depth++) {
        uint32_t x = value_near(g, a, depth), y = value_near(g, b, depth);
        if (x != y)
            return x < y ? -1 : 1;
    }
    uint64_t x = g->values.at[a].hash, y = g->values.at[b].hash;
    return x < y ? -1 : x > y;
}
