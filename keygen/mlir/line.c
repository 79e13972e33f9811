/* SPDX-License-Identifier: Apache-2.0 */
/*
 * line.c - reads operations a line at a time: lines that repeat an earlier one, and lines in a
 * usual spelling. mlir.c calls it before it reads an operation word by word.
 *
 * Programs repeat themselves: of 64 equal layers, 63 bring no line that differs from an earlier one
 * in more than the names of values and a location. So a line is split into
 *
 *     stablehlo.add  %3, %7  : tensor<8xf32>  loc(#loc12)
 *     head           values  tail
 *
 * The reader remembers the operation under four things: head, number of values, their types, tail.
 * If the same four come again, it adds the operation to the graph without another look at them. It
 * tries first the line that followed the last lines before (mlir/predictor.h). So a layer that
 * repeats is compared, not looked up.
 *
 * The result is the same as that of a full reading, because a line is remembered only if
 *   (1) the whole operation stands on it, without regions, successors, or names in its tail
 *   (2) its meaning depends on those four alone, so it is not an operation kept as its tokens
 *   (3) the reader took a location `loc(#locN)` outside of the tail as the operation's location
 *
 * If most lines are new, the reader stops remembering them.
 *
 * A new line in the spelling of printers has one blank where one is enough, and repeats the types
 * of its operands. It becomes an operation in one go, without the stacks of plain.c. Any other line
 * is left to plain.c, and nothing has changed: both make the same operation. A reduction that
 * `applies` an operation is compared with earlier ones in the same way.
 *
 * Evidence: instructions of a key (callgrind, real modules) without a path
 *   E1  the guess from the last lines              17 to 19 % more
 *   E2  usual lines in one go                      17 to 23 % more
 *   E3  reductions as repeated lines               13 to 19 % more
 *
 * Thread: one at a time for a reader; the state is struct mlir. Memory: some 100 bytes for each
 * different line.
 */
#include "keygen/mlir/internal.h"

#include <string.h>

#define LINE_MAX_BYTES 2048
#define LINES_JUDGED 2048 /* lines until the reader checks the share of new ones */

/* Reads the operands at p, behind the head. Returns the tail's first byte, or NULL if the line
 * cannot be remembered. */
static const char *values_read(struct mlir *m, const char *p, const char *end)
{
    struct line *l = &m->line;
    l->n_values = 0;
    while (p < end && *p == '%') {
        uint32_t value;
        p = mlir_value_at(m, p + 1, end, &value);
        if (value == GRAPH_NONE || l->n_values == LINE_OPERANDS_MAX)
            return NULL;
        l->values[l->n_values++] = value;
        if (end - p > 2 && p[0] == ',' && p[1] == ' ' && p[2] == '%')
            p += 2;
        else
            break;
    }
    return p;
}

/* Returns the end of a text without the " loc(#locN)" at its end. */
static const char *without_loc(const char *at, const char *end)
{
    if (end - at < 10 || end[-1] != ')')
        return end;
    const char *p = end - 1;
    while (p > at && p[-1] >= '0' && p[-1] <= '9')
        p--;
    return p - at >= 9 && memcmp(p - 9, " loc(#loc", 9) == 0 ? p - 9 : end;
}

/* Returns the end of the line if at most " loc(#locN)" is left of it at p; else NULL. */
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

/* Returns the start of the next line's text, behind the line that ends at p. NULL if that text may
 * belong to the same operation: more types, or a location. */
static const char *line_follower(const struct mlir *m, const char *p)
{
    const char *end = m->s.end;
    p += p < end && *p == '\n';
    while (end - p > 8) { /* eight blanks at once */
        uint64_t others = eight(p) ^ EACH(' ');
        if (others) {
            p += __builtin_ctzll(others) / 8;
            break;
        }
        p += 8;
    }
    while (p < end && (*p == ' ' || *p == '\n'))
        p++;
    return p < end && (slice_is_plain(*p) ? *p >= 'a' && *p != 'l'
                                          : *p == '%' || *p == '}' || *p == '"' || *p == '^')
               ? p
               : NULL;
}

/* True if the line at p has the shape `shape`. Then sets *out_end to its end and m->line to its
 * values. */
static bool line_is(struct mlir *m, const char *p, const struct line_shape *shape,
                    const char **out_end)
{
    const char *end = m->s.end;
    if ((size_t)(end - p) < shape->head_len || !bytes_equal(p, shape->head, shape->head_len))
        return false;
    p += shape->head_len;
    m->line.n_values = 0;
    if (shape->n_operands && !(p = values_read(m, p, end)))
        return false;
    if (m->line.n_values != shape->n_operands || (size_t)(end - p) < shape->tail_len ||
        memcmp(p, shape->tail, shape->tail_len) != 0)
        return false;
    return (*out_end = line_end(p + shape->tail_len, end)) != NULL;
}

/* Returns the first byte behind an operation's name: mostly a blank or '%'. */
static const char *name_end(const char *p, const char *end)
{
    for (; end - p >= 8; p += 8) {
        uint64_t x = eight(p), low = (x - EACH('&')) & ~x & EACH(0x80);
        if (low)
            return p + __builtin_ctzll(low) / 8;
    }
    while (p < end && (unsigned char)*p >= '&')
        p++;
    return p;
}

/* Fills m->line from `at` on. False if the line cannot be remembered. */
static bool line_split(struct mlir *m, const char *at, const char **out_end)
{
    struct slice rest = {at, m->s.end};
    if (slice_len(rest) > LINE_MAX_BYTES)
        rest.end = rest.at + LINE_MAX_BYTES;
    const char *p = name_end(at, rest.end), *end = NULL;
    m->line.n_values = 0;
    if (rest.end - p > 7 && p[0] == ' ' && p[1] == '%')
        p++;
    if (p == rest.end || *p != '%') { /* a constant, a call, or an unusual spelling */
        bool constant = rest.end - p > 7 && memcmp(p, " dense<", 7) == 0;
        if (!(end = memchr(p, '\n', (size_t)(rest.end - p))))
            return false;
        const char *first = constant ? NULL : memchr(p, '%', (size_t)(end - p));
        if (!first && !(first = memchr(p, ' ', (size_t)(end - p))))
            return false;
        p = first;
    }
    m->line.head = (struct slice){rest.at, p};
    if (*p == '%' && (!(p = values_read(m, p, m->s.end)) || p >= rest.end))
        return false;
    if (!end && !(end = memchr(p, '\n', (size_t)(rest.end - p))))
        return false;
    m->line.tail = (struct slice){p, without_loc(p, end)};
    *out_end = end;
    return true;
}

/* Returns a tag for the head of the split line and its number of values. Two heads may share a tag. */
static uint32_t line_tag(const struct line *l)
{
    size_t len = slice_len(l->head);
    uint64_t first = 0, last = 0;
    if (len >= sizeof first) {
        memcpy(&first, l->head.at, sizeof first);
        memcpy(&last, l->head.end - sizeof last, sizeof last);
    } else {
        memcpy(&first, l->head.at, len);
    }
    return (uint32_t)(((first * 31 + last) * 31 + len * 64 + l->n_values) * 0x9E3779B97F4A7C15u >>
                      32);
}

/* Returns the number of the split line's shape, or GRAPH_NONE. */
static uint32_t shape_of_split(struct mlir *m)
{
    struct line *l = &m->line;
    l->tag = line_tag(l);
    uint32_t i = cache_find(&m->lines, l->tag, l->tail, &l->hash);
    if (i == GRAPH_NONE)
        return GRAPH_NONE;
    const struct line_shape *shape = &m->line_shapes.at[i];
    if (shape->n_operands == l->n_values && shape->head_len == slice_len(l->head) &&
        bytes_equal(shape->head, l->head.at, shape->head_len))
        return i;
    l->open = false; /* another head has this tag: only the first is remembered */
    return GRAPH_NONE;
}

/* Returns the number of the shape of the line whose operation begins at p, or GRAPH_NONE. */
static uint32_t shape_find(struct mlir *m, const char *p, const char **out_end)
{
    struct line *l = &m->line;
    uint32_t next = predictor_next(&m->predictor);
    l->split = l->open = false;
    if (next && MLIR_EXPECT(m, next <= m->line_shapes.n) &&
        line_is(m, p, &m->line_shapes.at[next - 1], out_end))
        return next - 1;
    l->split = line_split(m, p, out_end);
    if (m->n_lines_new == GRAPH_NONE || !l->split)
        return GRAPH_NONE;
    l->open = true;
    m->n_lines_met++;
    return shape_of_split(m);
}

/* Adds the operation of shape `i` to the graph, with the values of m->line and `n_results` results. */
static bool shape_repeats(struct mlir *m, uint32_t i, uint32_t n_results, uint32_t *out)
{
    const struct line_shape *shape = &m->line_shapes.at[i];
    const uint32_t *types = m->line_types.n ? &m->line_types.at[shape->types] : NULL;
    if (shape->n_results != n_results || m->op_infos.at[shape->info].n_fallbacks ||
        !graph_op_of_shape(m->g, shape->op, types, m->line.values, out))
        return false;
    m->line.open = false;
    predictor_add(&m->predictor, i + 1);
    return true;
}

bool mlir_line_repeats(struct mlir *m, uint32_t lhs)
{
    const char *end;
    uint32_t value;
    if (m->line.open && m->line.head.at == m->s.at)
        return false; /* mlir_lines_read has tried it already */
    uint32_t i = shape_find(m, m->s.at, &end);
    if (i == GRAPH_NONE || !line_follower(m, end) ||
        !shape_repeats(m, i, mlir_n_results(m, lhs), &value)) {
        m->line.open &= i == GRAPH_NONE;
        return false;
    }
    mlir_bind_results(m, lhs, value);
    m->s.at = end;
    return true;
}

/* Remembers the split line. `number`: its operation's shape in the graph. */
static void shape_record(struct mlir *m, uint32_t info, uint32_t number,
                         const struct graph_op_shape *op, const uint32_t *types)
{
    struct line *l = &m->line;
    l->open = false;
    if (!MLIR_EXPECT(m, l->split && op->n_operands == l->n_values &&
                            !m->op_infos.at[info].n_fallbacks)) /* (2) */
        return;
    if (++m->n_lines_new >= LINES_JUDGED && m->n_lines_new > m->n_lines_met / 2) {
        m->n_lines_new = GRAPH_NONE;
        return;
    }
    cache_add(m, &m->lines, l->tag, l->tail, l->hash, m->line_shapes.n);
    if (m->failed || !MLIR_EXPECT(m, m->lines.n == m->line_shapes.n + 1)) /* the same numbers */
        return;
    struct line_shape shape = {.op = number,
                               .n_operands = op->n_operands,
                               .n_results = op->n_results,
                               .head = l->head.at,
                               .tail = m->lines.entries[m->line_shapes.n].name,
                               .head_len = (uint32_t)slice_len(l->head),
                               .tail_len = (uint32_t)slice_len(l->tail),
                               .types = m->line_types.n,
                               .info = info};
    for (uint32_t i = 0; i < op->n_operands; i++)
        PUSH(m, m->line_types, types[i]);
    PUSH(m, m->line_shapes, shape);
    if (!m->failed)
        predictor_add(&m->predictor, (uint32_t)m->line_shapes.n);
}

/* ---- a new line ---- */

/* Returns the operation's number in `op_infos` if the name before `end` is a word; else GRAPH_NONE. */
static uint32_t line_info(struct mlir *m, const char *end)
{
    struct slice name = {m->line.head.at, end}, ahead = name;
    uint32_t hash;
    if (!end || *name.at == '"')
        return GRAPH_NONE;
    uint32_t i = cache_find(&m->infos, 0, name, &hash); /* a name in quotes has no usual syntax */
    return i == GRAPH_NONE && slice_word(&ahead).end == end ? mlir_info_of(m, name) : i;
}

static inline __attribute__((always_inline)) const char *word_at(const char *p, const char *end,
                                                                 const char *word, size_t len)
{
    return p && (size_t)(end - p) >= len && memcmp(p, word, len) == 0 ? p + len : NULL;
}

/* Reads the types behind "(types of the values) -> " into `types`. False if they are not n. */
static bool results_compose(struct mlir *m, const char *p, const char *end, uint32_t n,
                            uint32_t *types)
{
    bool list = *p == '(';
    struct slice back = m->s;
    uint32_t i = 0;
    if (n > LINE_OPERANDS_MAX || (!list && n != 1))
        return false;
    p += list;
    for (; i < n && p && p < end; i++) {
        m->s.at = p;
        if (end - p < 9 || memcmp(p, "tensor<", 7) != 0 || !slice_is_plain(p[7]))
            break;
        types[i] = mlir_type_take(m);
        if (m->s.at > end) /* a type that continues in the next line */
            break;
        p = i + 1 < n ? word_at(m->s.at, end, ", ", 2) : m->s.at;
    }
    m->s = back;
    return i == n && p && mlir_ok(m) && (list ? p + 1 == end && *p == ')' : p == end);
}

/* Reads the types behind ':' of a line into `types`: those of m->line's operands, then those of n
 * results. False if their spelling is unusual. */
static bool types_compose(struct mlir *m, const char *p, const char *end, uint32_t n,
                          uint32_t *types)
{
    const struct line *l = &m->line;
    uint32_t n_values = l->n_values;
    for (uint32_t i = 0; i < n_values; i++)
        types[i] = graph_value_type(m->g, l->values[i]);
    if (p < end && *p == '(') { /* "(types) -> types" */
        p = graph_types_at(m->g, types, n_values, p + 1, end);
        return (p = word_at(p, end, ") -> ", 5)) && p < end &&
               results_compose(m, p, end, n, types + n_values);
    }
    if (!n) /* a return: the types of its operands */
        return graph_types_at(m->g, types, n_values, p, end) == end;
    for (uint32_t i = 1; i < n_values; i++) /* one type for all */
        if (types[i] != types[0])
            return false;
    types[n_values] = types[0];
    return n == 1 && graph_types_at(m->g, types, 1, p, end) == end;
}

/* Reads the clauses between the operands of the split line and its ':', to which it moves *p. False
 * if it does not understand them. */
static bool clauses_compose(struct mlir *m, const struct opinfo *info, const char *name_end,
                            const char **p, uint32_t *out)
{
    const struct line *l = &m->line;
    const char *lead_at = name_end + 1;
    if (info->syntax == SYNTAX_SIMPLE && lead_at == l->head.end &&
        (*p = word_at(l->tail.at, l->tail.end, " : ", 3)))
        return true;
    struct slice clauses = {l->tail.at, slice_find(l->tail, ':')}, lead = {0};
    if (clauses.end + 2 >= l->tail.end || clauses.end[1] != ' ' ||
        (clauses.at < clauses.end && *clauses.at == ',' && clauses.at[1] != ' '))
        return false;
    *p = clauses.end + 2;
    if (info->syntax == SYNTAX_COMPARE) {
        if (l->head.end - lead_at != 4 || lead_at[2] != ',' || lead_at[3] != ' ')
            return false;
        lead = (struct slice){lead_at, lead_at + 2};
    } else if (lead_at != l->head.end) {
        return false;
    }
    *out = mlir_clauses_of(m, clauses, info, lead);
    return *out != MLIR_NOT_UNDERSTOOD && mlir_ok(m) && !m->failed;
}

/* Makes the dictionary of a call if `head` is "call @f(" and the rest of the line begins with
 * ") : ", and moves *p behind that. Else false. */
static bool callee_compose(struct mlir *m, const char *name_end, const char **p, uint32_t *out)
{
    const struct line *l = &m->line;
    struct slice at = {name_end + 1, l->head.end};
    if (slice_len(at) < 3 || *at.at != '@' || at.at[1] == '"' || at.end[-1] != '(')
        return false;
    struct slice name = {at.at + 1, at.end - 1}, ahead = name;
    *p = word_at(l->tail.at, l->tail.end, ") : ", 4);
    if (!*p || slice_id(&ahead).end != name.end)
        return false;
    graph_dict_begin(m->g);
    graph_dict_key(m->g, "callee", 6);
    graph_dict_symbol(m->g, mlir_symbol(m, &at));
    *out = graph_dict_end(m->g);
    return true;
}

/* Adds the split line's operation to the graph without the stacks of plain.c. False, and nothing
 * has changed, if its spelling is unusual. */
static bool line_compose(struct mlir *m, uint32_t n_results, uint32_t *out)
{
    struct line *l = &m->line;
    uint32_t types[2 * LINE_OPERANDS_MAX];
    const char *name_end = memchr(l->head.at, ' ', slice_len(l->head)), *p;
    uint32_t i = line_info(m, name_end);
    if (i == GRAPH_NONE || m->failed)
        return false;
    const struct opinfo *info = &m->op_infos.at[i];
    struct graph_op_shape op = {
        .name = info->graph_name, .n_operands = l->n_values, .n_results = n_results};
    if (info->syntax == SYNTAX_CALL) {
        if (!callee_compose(m, name_end, &p, &op.dict))
            return false;
    } else if (info->syntax == SYNTAX_SIMPLE || info->syntax == SYNTAX_COMPARE) {
        if (!clauses_compose(m, info, name_end, &p, &op.dict))
            return false;
    } else {
        return false;
    }
    if (!types_compose(m, p, l->tail.end, n_results, types))
        return false;
    uint32_t shape = graph_shape(m->g, &op, types + l->n_values);
    if (graph_failed(m->g) || !graph_op_of_shape(m->g, shape, NULL, l->values, out))
        return false;
    if (l->open && !info->n_fallbacks && !memchr(l->tail.at, '%', (size_t)(p - l->tail.at)))
        shape_record(m, i, shape, &op, types);
    return true;
}

/* Does the same with a constant, "name dense<...> : type", which has no operands. */
static bool constant_compose(struct mlir *m, uint32_t n_results, uint32_t *out)
{
    struct line *l = &m->line;
    struct slice dense = {l->tail.at + 6, l->tail.end};
    bool usual = l->open && n_results == 1 && word_at(l->tail.at, l->tail.end, " dense<", 7);
    uint32_t i = usual ? line_info(m, l->head.end) : GRAPH_NONE, type;
    if (i == GRAPH_NONE || m->failed || m->op_infos.at[i].syntax != SYNTAX_CONSTANT)
        return false;
    const struct opinfo *info = &m->op_infos.at[i];
    const char *close = slice_close(dense), *p = word_at(close, l->tail.end, "> : ", 4);
    if (!p || dense.at[1] == '=' || !results_compose(m, p, l->tail.end, 1, &type))
        return false;
    struct view name = graph_type_text(m->g, type);
    struct slice body = {dense.at + 1, close},
                 spelled = {name.data, (const char *)name.data + name.len};
    graph_dict_begin(m->g);
    graph_dict_key(m->g, "value", 5);
    if (!mlir_dense_typed(m, body, spelled))
        return false;
    struct graph_op_shape op = {
        .name = info->graph_name, .dict = graph_dict_end(m->g), .n_results = 1};
    uint32_t shape = graph_shape(m->g, &op, &type);
    if (graph_failed(m->g) || !graph_op_of_shape(m->g, shape, NULL, NULL, out))
        return false;
    shape_record(m, i, shape, &op, NULL);
    return true;
}

/* ---- reductions ---- */

void mlir_reduction_record(struct mlir *m, struct slice tail, const struct reduction *r)
{
    uint32_t hash;
    if (slice_len(tail) > LINE_MAX_BYTES || memchr(tail.at, '\n', slice_len(tail)) ||
        memchr(tail.at, '%', slice_len(tail)) ||
        cache_find(&m->reduced, 0, tail, &hash) != GRAPH_NONE)
        return;
    PUSH(m, m->reductions, *r);
    if (!m->failed)
        cache_add(m, &m->reduced, 0, tail, hash, m->reductions.n - 1);
}

/* Adds a reduction of one value if "%0 init: %1)" stands at p and an earlier one had the text
 * behind it. Returns the next line's text; else NULL, and nothing has changed. */
static const char *reduction_repeats(struct mlir *m, const char *p, uint32_t n_results,
                                     uint32_t *out)
{
    struct slice s = {p + 1, m->s.end};
    uint32_t values[2];
    uint32_t hash;
    if (n_results != 1 || *p != '%' || (values[0] = mlir_value_find(m, &s)) == GRAPH_NONE ||
        !(p = word_at(s.at, s.end, " init: %", 8)))
        return NULL;
    s.at = p;
    if ((values[1] = mlir_value_find(m, &s)) == GRAPH_NONE || !(p = word_at(s.at, s.end, ") ", 2)))
        return NULL;
    size_t rest = (size_t)(s.end - p) < LINE_MAX_BYTES ? (size_t)(s.end - p) : LINE_MAX_BYTES;
    const char *end = memchr(p, '\n', rest), *follower = end ? line_follower(m, end) : NULL;
    if (!follower)
        return NULL;
    uint32_t i = cache_find(&m->reduced, 0, (struct slice){p, without_loc(p, end)}, &hash);
    if (i == GRAPH_NONE)
        return NULL;
    struct reduction r = m->reductions.at[i];
    if (graph_value_type(m->g, values[0]) != r.types[0] ||
        graph_value_type(m->g, values[1]) != r.types[1])
        return NULL;
    graph_op_begin(m->g, r.name);
    graph_op_operand(m->g, values[0]);
    graph_op_operand(m->g, values[1]);
    graph_op_dict(m->g, r.dict);
    if (!mlir_reduction_body(m, r.inner, r.types[1]))
        return NULL;
    graph_op_result(m->g, r.result);
    *out = graph_op_end(m->g);
    return follower;
}

/* ---- lines ---- */

/* Reads "name = " or "name:2 = ", the name of an operation's results. */
static const char *names_read(struct mlir *m, const char *p, uint64_t *slot, uint32_t *n)
{
    p = mlir_slot(m, p, m->s.end, true, slot);
    *n = 1;
    if (m->s.end - p > 8 && *p == ':') {
        const char *digits = ++p;
        for (*n = 0; p < digits + 6 && *p >= '0' && *p <= '9'; p++)
            *n = *n * 10 + (uint32_t)(*p - '0');
    }
    return m->s.end - p < 4 || memcmp(p, " = ", 3) != 0 || p[3] == ' ' ? NULL : p + 3;
}

/* Reads one line, "%name = ..." or "...", from its first letter on. False if nothing has changed. */
static bool line_take(struct mlir *m)
{
    const char *p = m->s.at, *end;
    uint32_t value, n = 0;
    uint64_t slot = 0;
    m->line.open = m->line.split = false;
    if (*p == '%' && !(p = names_read(m, p + 1, &slot, &n)))
        return false;
    if (m->reductions.n && (end = word_at(p, m->s.end, "stablehlo.reduce(", 17))) {
        if (!(end = reduction_repeats(m, end, n, &value)))
            return false;
        mlir_bind(m, slot, value, n);
        m->s.at = end;
        return true;
    }
    uint32_t i = shape_find(m, p, &end);
    const char *follower = i == GRAPH_NONE && !m->line.split ? NULL : line_follower(m, end);
    if (i == GRAPH_NONE || !follower || !shape_repeats(m, i, n, &value)) {
        m->line.open &= i == GRAPH_NONE;
        if (!m->line.split || !follower ||
            !(m->line.n_values ? line_compose(m, n, &value) : constant_compose(m, n, &value)))
            return false;
    }
    if (n)
        mlir_bind(m, slot, value, n);
    m->s.at = follower;
    return true;
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

/* True if only white space is between the end of the operation and that of the tail. The reader may
 * have looked for more behind the operation. */
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

void mlir_line_record(struct mlir *m, const struct opinfo *info, uint32_t types)
{
    struct line *l = &m->line;
    struct graph_op_shape op = graph_op_shape(m->g);
    uint32_t operand_types[LINE_OPERANDS_MAX];
    l->open = false;
    op.n_results = m->types_stack.n - types;
    if (info->n_fallbacks || op.n_operands != l->n_values || !line_ends(m) ||
        op.n_results > LINE_OPERANDS_MAX ||
        (l->n_values &&
         memcmp(graph_op_operands(m->g), l->values, l->n_values * sizeof *l->values)))
        return;
    for (uint32_t i = 0; i < op.n_operands; i++)
        operand_types[i] = graph_value_type(m->g, l->values[i]);
    const uint32_t *result_types = op.n_results ? &m->types_stack.at[types] : NULL;
    shape_record(m, (uint32_t)(info - m->op_infos.at), graph_shape(m->g, &op, result_types), &op,
                 operand_types);
}
