/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mlir_pieces.c - what who makes a text in pieces may ask of its reader (mlir_pieces.h). Any thread; no
 * state.
 */
#include "keygen/mlir_internal.h"

static struct slice number_name(char text[DECIMAL_MAX], uint32_t n)
{
    char *end = text + DECIMAL_MAX;
    return (struct slice){decimal_before(end, n), end};
}

void mlir_piece_names(struct mlir *m, const uint32_t *values, uint32_t n)
{
    char text[DECIMAL_MAX];
    m->follow.last[FOLLOW_LAST - 1] = 0;
    for (uint32_t i = 0; i < n && !m->failed; i++)
        mlir_bind_name(m, number_name(text, i), values[i]);
}

uint32_t mlir_piece_value(struct mlir *m, uint32_t n)
{
    char text[DECIMAL_MAX];
    struct slice name = number_name(text, n);
    return mlir_value_find(m, &name);
}

uint32_t mlir_piece_shape(const struct mlir *m) { return m->follow.last[FOLLOW_LAST - 1]; }

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
