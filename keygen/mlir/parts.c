/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parts.c - reads the parts of operations of MLIR text: names on the left, operands, types,
 * locations. plain.c, region.c and func.c call it.
 *
 * Types of operands behind ':' must be the types that the operands have: see mlir_list_fits.
 *
 * Thread: any; the state is struct mlir.
 */
#include "keygen/mlir/internal.h"

#include <string.h>

bool mlir_take_arrow(struct mlir *m)
{
    slice_skip(&m->s);
    if (m->s.end - m->s.at < 2 || m->s.at[0] != '-' || m->s.at[1] != '>')
        return false;
    m->s.at += 2;
    return true;
}

void mlir_skip_loc(struct mlir *m)
{
    slice_skip(&m->s);
    if (m->s.end - m->s.at < 5 || memcmp(m->s.at, "loc(", 4) != 0)
        return;
    m->s.at += 3;
    const char *close =
        m->s.at[1] == '#' ? memchr(m->s.at, ')', (size_t)(m->s.end - m->s.at)) : slice_close(m->s);
    m->s.at = close && close < m->s.end ? close + 1 : m->s.end;
}

bool mlir_take_braces(struct mlir *m, struct slice *out)
{
    const char *close = slice_close(m->s);
    if (close >= m->s.end)
        return mlir_fail(m, m->s.end, WARM_EMALFORMED, "a '{' is not closed");
    *out = (struct slice){m->s.at, close + 1};
    m->s.at = close + 1;
    return true;
}

/* ---- operands and names ---- */

bool mlir_operand_read(struct mlir *m)
{
    const char *at = m->s.at++;
    uint32_t value = mlir_value_find(m, &m->s);
    if (value == GRAPH_NONE)
        return mlir_fail(m, at, WARM_EMALFORMED, "a value that is not defined before its use");
    graph_op_operand(m->g, value);
    PUSH(m, m->operands, value);
    return !m->failed;
}

bool mlir_operands_read(struct mlir *m)
{
    while (mlir_peek(m, '%')) {
        if (!mlir_operand_read(m))
            return false;
        struct slice ahead = m->s;
        if (!slice_take(&ahead, ','))
            break;
        slice_skip(&ahead);
        if (ahead.at >= ahead.end || *ahead.at != '%')
            break;
        m->s = ahead;
    }
    return true;
}

bool mlir_lhs_read(struct mlir *m)
{
    do {
        if (!mlir_peek(m, '%'))
            return mlir_malformed(m, "expected a value's name");
        uint64_t slot;
        uint32_t n = 1;
        const char *at = m->s.at;
        m->s.at = mlir_slot(m, at + 1, m->s.end, true, &slot);
        if (m->failed)
            return false;
        if (m->s.at < m->s.end && *m->s.at == ':') {
            m->s.at++;
            for (n = 0; m->s.at < m->s.end && *m->s.at >= '0' && *m->s.at <= '9' && n < 100000000;)
                n = n * 10 + (uint32_t)(*m->s.at++ - '0');
        }
        PUSH(m, m->lhs, (struct result_name){slot, n, at});
    } while (slice_take(&m->s, ','));
    return mlir_expect(m, '=', "expected '='");
}

uint32_t mlir_n_results(const struct mlir *m, uint32_t first)
{
    uint64_t n = 0;
    for (uint32_t i = first; i < m->lhs.n; i++)
        n += m->lhs.at[i].n;
    return n < VECTOR_MAX ? (uint32_t)n : VECTOR_MAX;
}

void mlir_bind_results(struct mlir *m, uint32_t first, uint32_t value)
{
    const char *back = m->s.at;
    for (uint32_t i = first; i < m->lhs.n && !m->failed; value += m->lhs.at[i++].n) {
        m->s.at = m->lhs.at[i].at; /* for the error */
        mlir_bind(m, m->lhs.at[i].slot, value, m->lhs.at[i].n);
    }
    m->s.at = back;
    m->lhs.n = first;
}

/* ---- types ---- */

bool mlir_type_read(struct mlir *m)
{
    PUSH(m, m->types_stack, mlir_type_take(m));
    return mlir_ok(m);
}

/* Moves behind this very type. False if the text has another one. */
static bool type_matches(struct mlir *m, uint32_t type)
{
    slice_skip(&m->s);
    const char *end = graph_types_at(m->g, &type, 1, m->s.at, m->s.end);
    m->s.at = end ? end : m->s.at;
    return end;
}

/* Reads the type of an operand, which must be the operand's own. */
static bool type_check(struct mlir *m, uint32_t operand)
{
    uint32_t want = graph_value_type(m->g, m->operands.at[operand]);
    if (type_matches(m, want))
        return true;
    const char *at = m->s.at;
    uint32_t type = mlir_type_take(m);
    if (!mlir_ok(m))
        return false;
    return type == want || want == m->unknown_type ||
           mlir_fail(m, at, WARM_EMALFORMED, "an operand has another type");
}

bool mlir_type_read_like(struct mlir *m, uint32_t like)
{
    if (like < m->operands.n) {
        uint32_t type = graph_value_type(m->g, m->operands.at[like]);
        if (type_matches(m, type)) {
            PUSH(m, m->types_stack, type);
            return !m->failed;
        }
    }
    return mlir_type_read(m);
}

bool mlir_results_read(struct mlir *m, uint32_t operands)
{
    if (!mlir_peek(m, '('))
        return mlir_type_read_like(m, operands);
    m->s.at++;
    if (slice_take(&m->s, ')'))
        return true;
    do {
        if (!mlir_type_read(m))
            return false;
    } while (slice_take(&m->s, ','));
    return mlir_expect(m, ')', "expected ')' after types");
}

bool mlir_function_type_read(struct mlir *m, uint32_t operands)
{
    if (!mlir_expect(m, '(', "expected the types of operands"))
        return false;
    for (uint32_t i = operands; i < m->operands.n; i++) {
        if (i > operands && !mlir_expect(m, ',', "expected ','"))
            return false;
        if (!type_check(m, i))
            return false;
    }
    if (!mlir_expect(m, ')', "expected ')' after types"))
        return false;
    if (!mlir_take_arrow(m))
        return mlir_malformed(m, "expected '->'");
    return mlir_results_read(m, operands);
}

static bool operand_is(const struct mlir *m, uint32_t operand, uint32_t type)
{
    uint32_t have = graph_value_type(m->g, m->operands.at[operand]);
    return have == type || have == m->unknown_type;
}

bool mlir_list_fits(const struct mlir *m, uint32_t operands, uint32_t types, uint32_t n)
{
    uint32_t n_operands = m->operands.n - operands;
    bool each = n == n_operands;
    if (m->failed ||
        !WARM_EXPECT(types <= m->types_stack.n && n <= m->types_stack.n - types && (n || each)))
        return false;
    for (uint32_t i = 0; i < n_operands; i++)
        if (!operand_is(m, operands + i, m->types_stack.at[types + (each ? i : i && n == 2)]))
            return false;
    return each || n == 1 || (n == 2 && n_operands == 3);
}

bool mlir_op_types_read(struct mlir *m, uint32_t operands, uint32_t types, uint32_t n_results,
                        bool *fits)
{
    *fits = true;
    if (mlir_peek(m, '('))
        return mlir_function_type_read(m, operands);
    do {
        if (!mlir_type_read_like(m, operands + m->types_stack.n - types))
            return false;
    } while (slice_take(&m->s, ','));
    uint32_t n = m->types_stack.n - types;
    *fits = m->operands.n == operands || mlir_list_fits(m, operands, types, n);
    if (mlir_take_arrow(m)) {
        m->types_stack.n = types;
        return mlir_results_read(m, operands);
    }
    if (n < n_results)
        return mlir_malformed(m, "fewer types than results");
    for (uint32_t i = 0; i < n_results; i++)
        m->types_stack.at[types + i] = m->types_stack.at[types + n - n_results + i];
    m->types_stack.n = types + n_results;
    return true;
}
