/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pieces.c - implements pieces.h. The bytecode reader calls it to get the number of a value from
 * the text reader. It also calls it to add an operation that repeats an earlier one to the graph.
 *
 * Thread: any; the state is struct mlir.
 */
#include "keygen/mlir/internal.h"

static struct slice number_name(char text[DECIMAL_MAX], uint32_t n)
{
    char *end = text + DECIMAL_MAX;
    return (struct slice){decimal_before(end, n), end};
}

void mlir_piece_names(struct mlir *m, const uint32_t *values, uint32_t n)
{
    char text[DECIMAL_MAX];
    m->predictor.last[PREDICTOR_LAST - 1] = 0;
    for (uint32_t i = 0; i < n && !m->failed; i++)
        mlir_bind_name(m, number_name(text, i), values[i]);
}

uint32_t mlir_piece_value(struct mlir *m, uint32_t n)
{
    char text[DECIMAL_MAX];
    struct slice name = number_name(text, n);
    return mlir_value_find(m, &name);
}

uint32_t mlir_piece_shape(const struct mlir *m) { return m->predictor.last[PREDICTOR_LAST - 1]; }

bool mlir_piece_repeats(struct mlir *m, uint32_t shape, const uint32_t *operands,
                        uint32_t n_operands, uint32_t n_results, uint32_t *out)
{
    const struct line_shape *s = &m->line_shapes.at[shape - 1];
    const uint32_t *types = m->line_types.n ? &m->line_types.at[s->types] : NULL;
    if (m->failed || s->n_operands != n_operands || s->n_results != n_results ||
        m->op_infos.at[s->info].n_fallbacks ||
        !graph_op_of_shape(m->g, s->op, types, operands, out))
        return false;
    m->n_lines_met += m->n_lines_met < GRAPH_NONE;
    return true;
}

void mlir_piece_types(const struct mlir *m, const uint32_t *values, uint32_t n, uint32_t *out_types)
{
    for (uint32_t i = 0; i < n; i++)
        out_types[i] = graph_value_type(m->g, values[i]);
}

struct graph_op_shape mlir_piece_operation(const struct mlir *m) { return m->ended; }

void mlir_piece_region_begin(struct mlir *m, struct mlir_piece_region *r, const uint32_t *operands)
{
    graph_op_begin(m->g, r->op.name);
    for (uint32_t i = 0; i < r->op.n_operands; i++)
        graph_op_operand(m->g, operands[i]);
    graph_region_begin(m->g);
    graph_block_begin(m->g, 0);
    r->n_values = r->n_args < MLIR_PIECE_VALUES ? r->n_args : MLIR_PIECE_VALUES;
    for (uint32_t i = 0; i < r->n_values; i++)
        r->values[i] = graph_block_arg(m->g, r->args[i]);
}

void mlir_piece_region_op(struct mlir *m, struct mlir_piece_region *r, uint32_t shape,
                          const uint32_t *operands, uint32_t n_operands)
{
    const struct line_shape *s = &m->line_shapes.at[shape - 1];
    const uint32_t *types = m->line_types.n ? &m->line_types.at[s->types] : NULL;
    uint32_t values[LINE_OPERANDS_MAX], first = 0;
    bool fits = s->n_operands == n_operands && n_operands <= LINE_OPERANDS_MAX &&
                s->n_results <= MLIR_PIECE_VALUES - r->n_values;
    for (uint32_t i = 0; fits && i < n_operands; i++)
        values[i] = r->values[operands[i]];
    if (!fits || !graph_op_of_shape(m->g, s->op, types, values, &first))
        m->failed = true; /* only without memory: the earlier one did fit */
    for (uint32_t i = 0; !m->failed && i < s->n_results; i++)
        r->values[r->n_values++] = first + i;
}

bool mlir_piece_region_end(struct mlir *m, struct mlir_piece_region *r, uint32_t *out)
{
    graph_region_end(m->g);
    graph_op_dict(m->g, r->op.dict);
    for (uint32_t i = 0; i < r->op.n_results; i++)
        graph_op_result(m->g, r->results[i]);
    *out = graph_op_end(m->g);
    return !m->failed && !graph_failed(m->g);
}
