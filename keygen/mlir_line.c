/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mlir_line.c - operations that say what an earlier line said of other values.
 *
 * Programs repeat themselves: of 64 equal layers, 63 bring no line that differs from an earlier one
 * in more than the names of values and a location. So a line is taken apart as
 *
 *     stablehlo.add  %3, %7  : tensor<8xf32>  loc(#loc12)
 *     head           values  tail
 *
 * and what the reader made of (head, number of values, types of values, tail) is remembered. When
 * the same come again, the operation goes into the graph without a second look at them. What
 * followed the last lines the last time is tried first, so a layer that repeats is compared, not
 * looked up.
 *
 * That is the same as reading it again, because a line is remembered only if the whole operation
 * stands on it, without regions, successors or names in its tail, if what was read of it depends on
 * nothing but those four (never an operation that is kept as its tokens), and if a location
 * `loc(#locN)` that the tail leaves out was read as the operation's location.
 *
 * When most lines are new, remembering them is given up.
 *
 * Thread: one at a time. Memory: some 100 bytes for each different line.
 */
#include "keygen/mlir_internal.h"

#include <string.h>

#define LINE_MAX_BYTES 2048
#define LINES_JUDGED 2048 /* lines after which the share of new ones is looked at */

/* The operands at p, which is behind the head; the tail's first byte. NULL: not to be remembered. */
static const char *values_read(struct mlir *m, const char *p, const char *end)
{
    struct line *l = &m->line;
    l->n_values = 0;
    while (p < end && *p == '%') {
        struct slice s = {p + 1, end};
        uint32_t value = mlir_value_find(m, &s);
        if (value == GRAPH_NONE || l->n_values == LINE_OPERANDS_MAX)
            return NULL;
        l->values[l->n_values++] = value;
        p = s.at;
        if (end - p > 2 && p[0] == ',' && p[1] == ' ' && p[2] == '%')
            p += 2;
        else
            break;
    }
    return p;
}

/* The end of a text without " loc(#locN)" behind it. */
static const char *without_loc(const char *at, const char *end)
{
    if (end - at < 10 || end[-1] != ')')
        return end;
    const char *p = end - 1;
    while (p > at && p[-1] >= '0' && p[-1] <= '9')
        p--;
    return p - at >= 9 && memcmp(p - 9, " loc(#loc", 9) == 0 ? p - 9 : end;
}

/* The end of the line if nothing but " loc(#locN)" is left of it at p; else NULL. */
static const char *line_end(const char *p, const char *end)
{
    if (end - p > 10 && memcmp(p, " loc(#loc", 9) == 0) {
        p += 9;
        while (p < end && *p >= '0' && *p <= '9')
            p++;
        if (p == end || *p++ != ')')
            return NULL;
    }
    return p < end && *p == '\n' ? p : NULL;
}

/* True if the line at p says what `shape` does; *out_end is its end then, and its values are in
 * m->line. */
static bool line_is(struct mlir *m, const char *p, const struct line_shape *shape,
                    const char **out_end)
{
    const char *end = m->s.end;
    if ((size_t)(end - p) < shape->head.len || memcmp(p, shape->head.at, shape->head.len) != 0)
        return false;
    p += shape->head.len;
    m->line.n_values = 0;
    if (shape->op.n_operands && !(p = values_read(m, p, end)))
        return false;
    if (m->line.n_values != shape->op.n_operands || (size_t)(end - p) < shape->tail.len ||
        memcmp(p, shape->tail.at, shape->tail.len) != 0)
        return false;
    return (*out_end = line_end(p + shape->tail.len, end)) != NULL;
}

/* Fills m->line from `at` on; false if the line is not one to be remembered. */
static bool line_split(struct mlir *m, const char *at, const char **out_end)
{
    struct slice rest = {at, m->s.end};
    if (slice_len(rest) > LINE_MAX_BYTES)
        rest.end = rest.at + LINE_MAX_BYTES;
    const char *end = memchr(rest.at, '\n', slice_len(rest));
    if (!end)
        return false;
    const char *p = memchr(rest.at, '%', (size_t)(end - rest.at));
    m->line.n_values = 0;
    if (!p)
        p = memchr(rest.at, ' ', (size_t)(end - rest.at));
    if (!p)
        return false;
    m->line.head = (struct slice){rest.at, p};
    if (*p == '%' && !(p = values_read(m, p, end)))
        return false;
    m->line.tail = (struct slice){p, without_loc(p, end)};
    *out_end = end;
    return true;
}

/* Where the number of what followed the last lines is kept: likely to follow them again. */
static uint32_t *follower(struct mlir *m)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < LINES_BEFORE; i++)
        hash = (hash + m->last_shapes[i]) * 0x9E3779B97F4A7C15u;
    return &m->followers[hash / (UINT64_MAX / FOLLOWERS + 1)];
}

static void shape_follows(struct mlir *m, uint32_t i)
{
    *follower(m) = i + 1;
    memmove(m->last_shapes, m->last_shapes + 1, sizeof m->last_shapes - sizeof *m->last_shapes);
    m->last_shapes[LINES_BEFORE - 1] = i + 1;
}

/* The number of the shape that the line has whose operation begins at p, or GRAPH_NONE. */
static uint32_t shape_find(struct mlir *m, const char *p, const char **out_end)
{
    struct line *l = &m->line;
    uint32_t next = *follower(m);
    l->split = l->open = false;
    if (next && line_is(m, p, &m->line_shapes.at[next - 1], out_end))
        return next - 1;
    l->split = line_split(m, p, out_end);
    l->head_id = GRAPH_NONE;
    if (m->n_lines_new == GRAPH_NONE || !l->split)
        return GRAPH_NONE;
    l->open = true;
    m->n_lines_met++;
    l->head_id = cache_find(&m->heads, l->n_values, l->head, &l->head_hash);
    return l->head_id == GRAPH_NONE ? GRAPH_NONE
                                    : cache_find(&m->lines, l->head_id, l->tail, &l->tail_hash);
}

/* Puts the operation of shape `i` into the graph, with the values of m->line and `n_results`. */
static bool shape_repeats(struct mlir *m, uint32_t i, uint32_t n_results, uint32_t *out)
{
    const struct line_shape *shape = &m->line_shapes.at[i];
    const uint32_t *types = m->line_types.n ? &m->line_types.at[shape->types] : NULL;
    if (shape->op.n_results != n_results || m->op_infos.at[shape->info].n_fallbacks ||
        !graph_op_repeat(m->g, &shape->op, types, m->line.values, out))
        return false;
    m->line.open = false;
    shape_follows(m, i);
    return true;
}

bool mlir_line_repeats(struct mlir *m, uint32_t lhs)
{
    const char *end;
    uint32_t value;
    if (m->line.open && m->line.head.at == m->s.at)
        return false; /* mlir_lines_read was here */
    uint32_t i = shape_find(m, m->s.at, &end);
    if (i == GRAPH_NONE || !shape_repeats(m, i, mlir_n_results(m, lhs), &value)) {
        m->line.open &= i == GRAPH_NONE;
        return false;
    }
    mlir_bind_results(m, lhs, value);
    m->s.at = end;
    return true;
}

/* The operation's number in `op_infos` if the line that was split is its name, a space, operands, and
 * what follows them; else GRAPH_NONE. */
static uint32_t simple_info(struct mlir *m)
{
    const struct line *l = &m->line;
    if (!l->split || !l->n_values || l->head.end[-1] != ' ')
        return GRAPH_NONE;
    struct slice rest = {l->tail.at, m->s.end};
    if (slice_take(&rest, ',') && (slice_skip(&rest), rest.at < rest.end && *rest.at == '%'))
        return GRAPH_NONE; /* more operands */
    uint32_t info = l->head_id == GRAPH_NONE ? GRAPH_NONE : m->head_infos.at[l->head_id];
    if (info == GRAPH_NONE) {
        struct slice ahead = {l->head.at, l->head.end - 1}, word = slice_id(&ahead);
        if (word.at == word.end || ahead.at != ahead.end || memchr(word.at, '-', slice_len(word)))
            return GRAPH_NONE;
        info = mlir_info_of(m, word);
    }
    return m->failed || m->op_infos.at[info].syntax != SYNTAX_SIMPLE ? GRAPH_NONE : info;
}

/* One line "%name = ..." or "...", at whose first letter the cursor is. False with an error, or, where
 * nothing has changed, without one. */
static bool line_take(struct mlir *m)
{
    const char *p = m->s.at, *end;
    bool named = *p == '%';
    uint32_t value, lhs = m->lhs.n;
    uint64_t slot = 0;
    m->line.open = m->line.split = false;
    if (named) {
        struct slice name = {p + 1, m->s.end};
        slot = mlir_slot(m, &name, true);
        p = name.at;
        if (m->s.end - p < 4 || memcmp(p, " = ", 3) != 0 || p[3] == ' ')
            return false;
        p += 3;
    }
    uint32_t i = shape_find(m, p, &end);
    if (i != GRAPH_NONE && shape_repeats(m, i, named, &value)) {
        if (named)
            mlir_bind(m, slot, value, 1);
        m->s.at = end;
        return true;
    }
    m->line.open &= i == GRAPH_NONE;
    uint32_t info = simple_info(m);
    if (info == GRAPH_NONE)
        return false;
    if (named)
        PUSH(m, m->lhs, (struct result_name){slot, 1});
    return !m->failed && mlir_op_simple_line(m, &m->op_infos.at[info], m->line.head.end - 1, lhs);
}

bool mlir_lines_read(struct mlir *m)
{
    const char *end = m->s.end;
    while (!m->failed && !graph_failed(m->g)) {
        const char *at = m->s.at;
        if (at < end && *at == '\n')
            at++;
        while (at < end && *at == ' ')
            at++;
        m->s.at = at;
        if (at == end || !(*at == '%' || *at == '"' || (*at >= 'a' && *at <= 'z')) || !line_take(m))
            break;
    }
    return mlir_ok(m);
}

/* True if nothing but white space is between where the operation ends (the reader may have looked for
 * more) and where the tail does. */
static bool line_ends(const struct mlir *m)
{
    const char *tail = m->line.tail.end, *at = m->s.at;
    if (at < m->line.tail.at)
        return false;
    for (const char *p = at < tail ? at : tail; p < (at < tail ? tail : at); p++)
        if (*p != ' ' && *p != '\t' && *p != '\n' && *p != '\r')
            return false;
    return !memchr(m->line.tail.at, '%', slice_len(m->line.tail));
}

void mlir_line_record(struct mlir *m, const struct opinfo *info, unsigned traits, uint32_t types)
{
    struct line *l = &m->line;
    struct graph_op_shape op = graph_op_shape(m->g);
    l->open = false;
    if (info->n_fallbacks || op.n_operands != l->n_values || !line_ends(m) ||
        (l->n_values &&
         memcmp(graph_op_operands(m->g), l->values, l->n_values * sizeof *l->values)))
        return;
    if (++m->n_lines_new >= LINES_JUDGED && m->n_lines_new > m->n_lines_met / 2) {
        m->n_lines_new = GRAPH_NONE;
        return;
    }
    op.traits = traits;
    op.n_results = m->types_stack.n - types;
    if (l->head_id == GRAPH_NONE) {
        l->head_id = m->heads.entries.n;
        PUSH(m, m->head_infos, (uint32_t)(info - m->op_infos.at));
        cache_add(m, &m->heads, l->n_values, l->head, l->head_hash, l->head_id);
        l->tail_hash = cache_hash(l->head_id, l->tail);
    }
    struct line_shape shape = {.op = op,
                               .head = {l->head.at, (uint32_t)slice_len(l->head)},
                               .tail = {l->tail.at, (uint32_t)slice_len(l->tail)},
                               .types = m->line_types.n,
                               .info = (uint32_t)(info - m->op_infos.at)};
    for (uint32_t i = 0; i < op.n_operands; i++)
        PUSH(m, m->line_types, graph_value_type(m->g, l->values[i]));
    for (uint32_t i = 0; i < op.n_results; i++)
        PUSH(m, m->line_types, m->types_stack.at[types + i]);
    PUSH(m, m->line_shapes, shape);
    if (m->failed)
        return;
    cache_add(m, &m->lines, l->head_id, l->tail, l->tail_hash, m->line_shapes.n - 1);
    shape_follows(m, m->line_shapes.n - 1);
}
