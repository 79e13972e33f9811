/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mlir.c - reads MLIR text into a graph (KEYS.md, "MLIR"). Any thread; no state.
 *
 * One pass. Each operation goes through
 *
 *     names on the left ── name ── operands, clauses, dictionary ── types ── bound names
 *
 * and one with regions is left on the stack of scopes at its '{' and taken up again at its '}'. So
 * nesting costs heap, never the call stack.
 *
 * The generic form and the forms that StableHLO, func and Shardy print are read; any other operation
 * is kept as its tokens up to the end of the line, with the values and labels in it numbered, and is
 * taken to have effects. What is not MLIR is an error with its line and column.
 *
 * Source: MLIR Language Reference, https://mlir.llvm.org/docs/LangRef/.
 */
#include "keygen/mlir_internal.h"

#include <locale.h>
#include <stdlib.h>
#include <string.h>

static bool malformed(struct mlir *m, const char *what)
{
    return mlir_fail(m, m->s.at, WARM_EMALFORMED, what);
}

static bool expect(struct mlir *m, char c, const char *what)
{
    return slice_take(&m->s, c) || malformed(m, what);
}

static bool peek(struct mlir *m, char c)
{
    slice_skip(&m->s);
    return m->s.at < m->s.end && *m->s.at == c;
}

static bool take_arrow(struct mlir *m)
{
    slice_skip(&m->s);
    if (m->s.end - m->s.at < 2 || m->s.at[0] != '-' || m->s.at[1] != '>')
        return false;
    m->s.at += 2;
    return true;
}

static void skip_loc(struct mlir *m)
{
    slice_skip(&m->s);
    if (m->s.end - m->s.at < 5 || memcmp(m->s.at, "loc(", 4) != 0)
        return;
    m->s.at += 3;
    const char *close =
        m->s.at[1] == '#' ? memchr(m->s.at, ')', (size_t)(m->s.end - m->s.at)) : slice_close(m->s);
    m->s.at = close && close < m->s.end ? close + 1 : m->s.end;
}

/* "{...}" at the cursor; false if it does not end. */
static bool take_braces(struct mlir *m, struct slice *out)
{
    const char *close = slice_close(m->s);
    if (close >= m->s.end)
        return mlir_fail(m, m->s.end, WARM_EMALFORMED, "a '{' is not closed");
    *out = (struct slice){m->s.at, close + 1};
    m->s.at = close + 1;
    return true;
}

/* ---- operands and names ---- */

/* "%name" at the cursor, appended to the operands. */
static bool operand_read(struct mlir *m)
{
    const char *at = m->s.at++;
    uint32_t value = mlir_value_find(m, &m->s);
    if (value == GRAPH_NONE)
        return mlir_fail(m, at, WARM_EMALFORMED, "a value that nothing before it gives");
    graph_op_operand(m->g, value);
    PUSH(m, m->operands, value);
    return !m->failed;
}

/* Operands separated by ','. The cursor stands behind the last one. */
static bool operands_read(struct mlir *m)
{
    while (peek(m, '%')) {
        if (!operand_read(m))
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

/* "%0, %1:2 =" */
static bool lhs_read(struct mlir *m)
{
    do {
        if (!peek(m, '%'))
            return malformed(m, "expected a value's name");
        m->s.at++;
        uint64_t slot = mlir_slot(m, &m->s, true);
        uint32_t n = 1;
        if (m->failed)
            return false;
        if (m->s.at < m->s.end && *m->s.at == ':') {
            m->s.at++;
            for (n = 0; m->s.at < m->s.end && *m->s.at >= '0' && *m->s.at <= '9' && n < 100000000;)
                n = n * 10 + (uint32_t)(*m->s.at++ - '0');
        }
        PUSH(m, m->lhs, (struct result_name){slot, n});
    } while (slice_take(&m->s, ','));
    return expect(m, '=', "expected '='");
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
    for (uint32_t i = first; i < m->lhs.n && !m->failed; i++) {
        mlir_bind(m, m->lhs.at[i].slot, value, m->lhs.at[i].n);
        value += m->lhs.at[i].n;
    }
    m->lhs.n = first;
}

/* ---- types ---- */

static bool type_read(struct mlir *m)
{
    PUSH(m, m->types_stack, mlir_type(m, slice_type(&m->s)));
    return mlir_ok(m);
}

static bool word_goes_on(const struct slice *s)
{
    return s->at < s->end && (*s->at == '<' || *s->at == '_' || *s->at == '.' ||
                              (*s->at >= '0' && *s->at <= '9') || (*s->at >= 'a' && *s->at <= 'z'));
}

/* True, and the cursor behind it, if the text goes on with this very type. */
static bool type_matches(struct mlir *m, uint32_t type)
{
    struct view text = graph_type_text(m->g, type);
    slice_skip(&m->s);
    struct slice rest = {m->s.at + text.len, m->s.end};
    if ((size_t)(m->s.end - m->s.at) < text.len || memcmp(m->s.at, text.data, text.len) != 0 ||
        word_goes_on(&rest))
        return false;
    m->s.at += text.len;
    return true;
}

/* The type of an operand, which must be what the operand has. */
static bool type_check(struct mlir *m, uint32_t operand)
{
    uint32_t want = graph_value_type(m->g, m->operands.at[operand]);
    if (type_matches(m, want))
        return true;
    const char *at = m->s.at;
    uint32_t type = mlir_type(m, slice_type(&m->s));
    if (!mlir_ok(m))
        return false;
    return type == want || want == m->unknown_type ||
           mlir_fail(m, at, WARM_EMALFORMED, "an operand has another type");
}

/* A type, likely that of operand `like`. */
static bool type_read_like(struct mlir *m, uint32_t like)
{
    if (like < m->operands.n) {
        uint32_t type = graph_value_type(m->g, m->operands.at[like]);
        if (type_matches(m, type)) {
            PUSH(m, m->types_stack, type);
            return !m->failed;
        }
    }
    return type_read(m);
}

static bool results_read(struct mlir *m, uint32_t operands)
{
    if (!peek(m, '('))
        return type_read_like(m, operands);
    m->s.at++;
    if (slice_take(&m->s, ')'))
        return true;
    do {
        if (!type_read(m))
            return false;
    } while (slice_take(&m->s, ','));
    return expect(m, ')', "expected ')' after types");
}

/* "(types) -> types" behind ':'. */
static bool function_type_read(struct mlir *m, uint32_t operands)
{
    if (!expect(m, '(', "expected the types of operands"))
        return false;
    for (uint32_t i = operands; i < m->operands.n; i++) {
        if (i > operands && !expect(m, ',', "expected ','"))
            return false;
        if (!type_check(m, i))
            return false;
    }
    if (!expect(m, ')', "expected ')' after types"))
        return false;
    if (!take_arrow(m))
        return malformed(m, "expected '->'");
    return results_read(m, operands);
}

static bool operand_is(const struct mlir *m, uint32_t operand, uint32_t type)
{
    uint32_t have = graph_value_type(m->g, m->operands.at[operand]);
    return have == type || have == m->unknown_type;
}

/* A list of `n` types speaks of operands too: the same for all, one for each, or, of a selection,
 * the predicate's and that of the rest. True if it says what they have. */
static bool list_fits(const struct mlir *m, uint32_t operands, uint32_t types, uint32_t n)
{
    uint32_t n_operands = m->operands.n - operands;
    bool each = n == n_operands;
    for (uint32_t i = 0; i < n_operands; i++)
        if (!operand_is(m, operands + i, m->types_stack.at[types + (each ? i : i && n == 2)]))
            return false;
    return each || n == 1 || (n == 2 && n_operands == 3);
}

/* What stands behind ':': a function's type, or a list, of which the last are the results'. With a
 * list that the operands do not fit, *fits is false. */
static bool op_types_read(struct mlir *m, uint32_t operands, uint32_t types, uint32_t n_results,
                          bool *fits)
{
    *fits = true;
    if (peek(m, '('))
        return function_type_read(m, operands);
    do {
        if (!type_read_like(m, operands + m->types_stack.n - types))
            return false;
    } while (slice_take(&m->s, ','));
    uint32_t n = m->types_stack.n - types;
    *fits = m->operands.n == operands || list_fits(m, operands, types, n);
    if (take_arrow(m)) {
        m->types_stack.n = types;
        return results_read(m, operands);
    }
    if (n < n_results)
        return malformed(m, "fewer types than results");
    for (uint32_t i = 0; i < n_results; i++)
        m->types_stack.at[types + i] = m->types_stack.at[types + n - n_results + i];
    m->types_stack.n = types + n_results;
    return true;
}

/* ---- operations ---- */

static const char *full_name(struct slice word)
{
    static const char *const shorts[][2] = {
        {"call", "func.call"}, {"return", "func.return"}, {"module", "builtin.module"}};
    for (size_t i = 0; i < sizeof shorts / sizeof *shorts; i++)
        if (slice_is(word, shorts[i][0]))
            return shorts[i][1];
    return NULL;
}

static uint32_t info_of(struct mlir *m, struct slice word)
{
    uint64_t hash;
    uint32_t i = cache_find(&m->infos, 0, word, &hash);
    if (i != GRAPH_NONE)
        return i;
    const char *full = full_name(word);
    struct slice name = full ? (struct slice){full, full + strlen(full)} : word;
    struct slice bare = name;
    if (slice_word(&bare).end != name.end) /* odd letters: the quotes stay */
        name = (struct slice){name.at - 1, name.end + 1};
    size_t len = slice_len(name);
    struct opinfo info = {.syntax = mlir_syntax(name.at, len),
                          .traits = mlir_op_traits(name.at, len)};
    info.graph_name = graph_opname(m->g, name.at, len, info.traits);
    if (len < sizeof info.name) {
        memcpy(info.name, name.at, len);
        info.name_len = (uint32_t)len;
    }
    PUSH(m, m->op_infos, info);
    cache_add(m, &m->infos, 0, word, hash, m->op_infos.n - 1);
    return m->op_infos.n - 1;
}

/* Result types are on the stack from `types` on: ends the operation and binds its names. */
static bool op_finish(struct mlir *m, const struct opinfo *info, unsigned traits, uint32_t types,
                      uint32_t lhs)
{
    uint32_t n = m->types_stack.n - types, wanted = mlir_n_results(m, lhs);
    if (n != wanted)
        return malformed(m, "other numbers of results and of their types");
    if (traits & GRAPH_COMMUTES)
        traits = n ? mlir_traits(m, m->types_stack.at[types], traits)
                   : traits & ~(unsigned)GRAPH_COMMUTES;
    if (traits != info->traits)
        graph_op_traits(m->g, traits);
    if (m->line.open)
        mlir_line_record(m, info, traits, types);
    for (uint32_t i = 0; i < n; i++)
        graph_op_result(m->g, m->types_stack.at[types + i]);
    mlir_bind_results(m, lhs, graph_op_end(m->g));
    m->types_stack.n = types;
    skip_loc(m);
    return !m->failed;
}

static unsigned traits_with(const struct opinfo *info, const struct dict_info *d)
{
    return d->side_effect ? GRAPH_EFFECT : info->traits;
}

/* An operation whose syntax is not known: its tokens, to the end of the line. */
static bool op_as_text(struct mlir *m, const struct opinfo *info, uint32_t lhs)
{
    struct slice text = {m->s.at, slice_find(m->s, '\n')};
    uint32_t operands = m->operands.n, types = m->types_stack.n;
    m->text_operands = operands;
    m->n_texts++;
    m->n_own = 0;
    m->s.at = text.end;
    m->line.open = false;
    graph_op_begin(m->g, info->graph_name);
    graph_dict_begin(m->g);
    graph_dict_key(m->g, "text", 4);
    if (!mlir_attr(m, text, ATTR_VALUES))
        return false;
    graph_op_dict(m->g, graph_dict_end(m->g));
    for (uint32_t i = mlir_n_results(m, lhs); i > 0 && !m->failed; i--)
        PUSH(m, m->types_stack, m->unknown_type);
    m->operands.n = operands;
    struct opinfo unknown = *info;
    unknown.traits = info->traits & GRAPH_CALL ? GRAPH_CALL : GRAPH_PURE;
    return op_finish(m, &unknown, GRAPH_EFFECT, types, lhs);
}

/* Cached clauses between operands and ':', with `lead`, what stood before the operands. */
static const struct dict_info *clauses_of(struct mlir *m, struct slice text,
                                          const struct opinfo *info, struct slice lead)
{
    static const struct dict_info none = {.callee = GRAPH_NONE};
    uint64_t hash;
    slice_trim(&text);
    if (text.at == text.end && lead.at == lead.end)
        return &none;
    uint32_t tag = 2 * info->graph_name;
    if (slice_len(lead) == 2) /* LT: of a comparison, the only one to have it */
        tag = 0x80000000u | (uint32_t)(uint8_t)lead.at[0] << 9 | (uint32_t)(uint8_t)lead.at[1] << 1;
    bool cached = lead.at == lead.end || slice_len(lead) == 2;
    uint32_t known = cached ? cache_find(&m->dicts, tag, text, &hash) : GRAPH_NONE;
    if (known != GRAPH_NONE)
        return &m->dict_infos.at[known];
    struct dict_info made = {.callee = GRAPH_NONE};
    graph_dict_begin(m->g);
    if (lead.at < lead.end) {
        graph_dict_key(m->g, "comparison_direction", 20);
        graph_dict_text(m->g, "#stablehlo<comparison_direction ", 32);
        graph_dict_text(m->g, lead.at, slice_len(lead));
        graph_dict_text(m->g, ">", 1);
    }
    made.not_understood = !mlir_clauses(m, text, info, &made);
    made.dict = made.not_understood ? 0 : graph_dict_end(m->g);
    PUSH(m, m->dict_infos, made);
    if (m->failed || !mlir_ok(m))
        return &none;
    if (cached)
        cache_add(m, &m->dicts, tag, text, hash, m->dict_infos.n - 1);
    return &m->dict_infos.at[m->dict_infos.n - 1];
}

#define CLAUSES_MAX 65536 /* bytes between an operation's operands and its types */
#define FALLBACKS_MAX 16  /* of one name, then its clauses are not looked for */

/* The clauses up to ':'; up to the end of the window if there is none. */
static struct slice clauses_find(const struct mlir *m)
{
    struct slice window = m->s;
    if (slice_len(window) > CLAUSES_MAX)
        window.end = window.at + CLAUSES_MAX;
    return (struct slice){m->s.at, slice_find(window, ':')};
}

/* What was read of the operation from `start` on is not what it says: its tokens count. */
static bool op_fall_back(struct mlir *m, const struct opinfo *info, struct slice start,
                         uint32_t lhs)
{
    struct opinfo *count = &m->op_infos.at[info - m->op_infos.at];
    graph_op_drop(m->g);
    m->s = start;
    if (++count->n_fallbacks >= FALLBACKS_MAX)
        count->syntax = SYNTAX_UNKNOWN;
    return op_as_text(m, info, lhs);
}

/* Operations whose one type is the result's, and says what the operands have. */
static bool result_type_only(const struct opinfo *info)
{
    return strcmp(info->name, "stablehlo.complex") == 0 ||
           strcmp(info->name, "stablehlo.tuple") == 0;
}

static bool op_simple(struct mlir *m, const struct opinfo *info, uint32_t lhs)
{
    struct slice start = m->s, lead = {0}, inside = {0};
    uint32_t operands = m->operands.n, types = m->types_stack.n;
    graph_op_begin(m->g, info->graph_name);
    if (info->syntax == SYNTAX_COMPARE) {
        lead = slice_word(&m->s);
        slice_take(&m->s, ',');
    }
    if (peek(m, '(')) { /* convolution(%0, %1), top_k(%0, k = 2) */
        m->s.at++;
        if (!operands_read(m))
            return false;
        inside = (struct slice){m->s.at, slice_find(m->s, ')')};
        m->s.at = inside.end;
        if (!expect(m, ')', "expected ')'"))
            return false;
    } else if (!operands_read(m)) {
        return false;
    }
    bool typed = m->operands.n > operands || lhs < m->lhs.n; /* else: a return of nothing */
    slice_skip(&m->s);
    struct slice clauses = {m->s.at, m->s.at};
    if (typed && !(m->s.at < m->s.end && *m->s.at == ':'))
        clauses = clauses_find(m);
    slice_trim(&inside);
    const struct dict_info *d =
        clauses_of(m, inside.at < inside.end ? inside : clauses, info, lead);
    if (!mlir_ok(m) || m->failed)
        return false;
    bool both = inside.at < inside.end && clauses.at < clauses.end;
    m->s.at = clauses.end;
    if (d->not_understood || both || (typed && !slice_take(&m->s, ':'))) {
        m->operands.n = operands;
        return op_fall_back(m, info, start, lhs);
    }
    unsigned traits = traits_with(info, d);
    bool fits = true;
    graph_op_dict(m->g, d->dict);
    if (typed && !op_types_read(m, operands, types, mlir_n_results(m, lhs), &fits))
        return false;
    m->operands.n = operands;
    if (!fits && !result_type_only(info)) {
        m->types_stack.n = types;
        return op_fall_back(m, info, start, lhs);
    }
    return op_finish(m, info, traits, types, lhs);
}

static bool op_constant(struct mlir *m, const struct opinfo *info, uint32_t lhs)
{
    uint32_t types = m->types_stack.n;
    struct slice attrs = {0}, value;
    graph_op_begin(m->g, info->graph_name);
    if (peek(m, '{') && !take_braces(m, &attrs))
        return false;
    slice_skip(&m->s);
    value.at = m->s.at;
    m->s.at = slice_find(m->s, ':');
    if (!expect(m, ':', "expected ':' and a type") || !type_read(m))
        return false;
    value.end = m->s.at;
    uint64_t hash;
    uint32_t tag = 2 * info->graph_name;
    uint32_t known = attrs.at ? GRAPH_NONE : cache_find(&m->dicts, tag, value, &hash);
    if (known == GRAPH_NONE) {
        struct dict_info made = {.callee = GRAPH_NONE};
        struct slice key = {"value", &"value"[5]};
        graph_dict_begin(m->g);
        if (attrs.at &&
            !mlir_dict_entries(m, (struct slice){attrs.at + 1, attrs.end - 1}, info, &made))
            return false;
        if (!mlir_dict_entry(m, key, value, false, info, &made))
            return false;
        made.dict = graph_dict_end(m->g);
        PUSH(m, m->dict_infos, made);
        known = m->dict_infos.n - 1;
        if (!attrs.at)
            cache_add(m, &m->dicts, tag, value, hash, known);
    }
    if (m->failed)
        return false;
    graph_op_dict(m->g, m->dict_infos.at[known].dict);
    return op_finish(m, info, info->traits, types, lhs);
}

/* "@f(%0) {attrs} : (t) -> t", with the symbol as callee or as name of the target; and
 * `composite "name" %0 {attrs} : (t) -> t`. */
static bool op_call(struct mlir *m, const struct opinfo *info, uint32_t lhs)
{
    uint32_t operands = m->operands.n, types = m->types_stack.n;
    graph_op_begin(m->g, info->graph_name);
    graph_dict_begin(m->g);
    slice_skip(&m->s);
    bool composite = info->syntax == SYNTAX_COMPOSITE;
    if (m->s.at >= m->s.end || *m->s.at != (composite ? '"' : '@'))
        return malformed(m, "expected what is called");
    if (composite) {
        struct slice name = slice_string(&m->s);
        graph_dict_key(m->g, "name", 4);
        graph_dict_text(m->g, name.at, slice_len(name));
    } else {
        uint32_t symbol = mlir_symbol(m, &m->s);
        if (info->syntax == SYNTAX_CALL) {
            graph_op_callee(m->g, symbol);
        } else {
            struct view name = graph_symbol_text(m->g, symbol);
            if (form_is_process_bound(name.data, name.len))
                return mlir_fail(m, m->s.at, WARM_EREFUSED, FORM_PROCESS_BOUND);
            bool quoted = name.len && *(const char *)name.data == '"';
            graph_dict_key(m->g, "call_target_name", 16);
            graph_dict_text(m->g, "\"", !quoted);
            graph_dict_text(m->g, name.data, name.len);
            graph_dict_text(m->g, "\"", !quoted);
        }
        if (!expect(m, '(', "expected '('"))
            return false;
    }
    struct dict_info d = {.callee = GRAPH_NONE};
    struct slice attrs = {0};
    if (!operands_read(m) || (!composite && !expect(m, ')', "expected ')'")))
        return false;
    if (peek(m, '{') &&
        (!take_braces(m, &attrs) ||
         !mlir_dict_entries(m, (struct slice){attrs.at + 1, attrs.end - 1}, info, &d)))
        return false;
    graph_op_dict(m->g, graph_dict_end(m->g));
    bool fits;
    if (!expect(m, ':', "expected ':' and types") ||
        !op_types_read(m, operands, types, mlir_n_results(m, lhs), &fits))
        return false;
    if (!fits)
        return malformed(m, "an operand has another type");
    m->operands.n = operands;
    return op_finish(m, info, traits_with(info, &d), types, lhs);
}

/* "sdy.mesh @mesh = <["x"=2]> {attrs}" */
static bool op_mesh(struct mlir *m, const struct opinfo *info, uint32_t lhs)
{
    uint32_t types = m->types_stack.n;
    struct dict_info d = {.callee = GRAPH_NONE};
    struct slice attrs = {0};
    graph_op_begin(m->g, info->graph_name);
    if (!peek(m, '@'))
        return malformed(m, "expected the mesh's name");
    uint32_t symbol = mlir_symbol(m, &m->s);
    graph_symbol_private(m->g, symbol);
    if (!expect(m, '=', "expected '='") || !peek(m, '<'))
        return malformed(m, "expected the mesh");
    struct slice mesh = {m->s.at, slice_close(m->s)};
    if (mesh.end >= m->s.end)
        return malformed(m, "a mesh that does not end");
    m->s.at = ++mesh.end;
    graph_dict_begin(m->g);
    graph_dict_key(m->g, "sym_name", 8);
    graph_dict_symbol(m->g, symbol);
    graph_dict_key(m->g, "mesh", 4);
    graph_dict_text(m->g, "#sdy.mesh", 9);
    if (!mlir_attr(m, mesh, ATTR_MESH))
        return false;
    if (peek(m, '{') &&
        (!take_braces(m, &attrs) ||
         !mlir_dict_entries(m, (struct slice){attrs.at + 1, attrs.end - 1}, info, &d)))
        return false;
    graph_op_dict(m->g, graph_dict_end(m->g));
    return op_finish(m, info, info->traits, types, lhs);
}

/* ---- operations with regions ---- */

static struct scope *scope_push(struct mlir *m, enum scope_kind kind, const struct opinfo *info,
                                uint32_t lhs)
{
    if (kind != SCOPE_GENERIC)
        m->line.open = false;
    PUSH(m, m->scopes,
         (struct scope){.kind = kind,
                        .undo = m->undo.n,
                        .results = lhs,
                        .n_results = m->lhs.n - lhs,
                        .operands = m->operands.n,
                        .types = m->types_stack.n,
                        .names = m->arg_names.n,
                        .info = info ? (uint32_t)(info - m->op_infos.at) : GRAPH_NONE,
                        .region = m->n_regions++});
    return m->failed ? NULL : &m->scopes.at[m->scopes.n - 1];
}

static void region_open(struct mlir *m, struct scope *s)
{
    s->region = m->n_regions++;
    s->n_labels = 0;
    s->in_block = false;
    s->undo = m->undo.n;
    graph_region_begin(m->g);
}

/* The unlabelled first block. */
static void block_open(struct mlir *m, struct scope *s)
{
    s->in_block = true;
    s->n_labels = 1;
    graph_block_begin(m->g, 0);
}

uint32_t mlir_label(struct mlir *m, struct slice name)
{
    uint64_t hash;
    if (!m->scopes.n)
        return 0;
    struct scope *s = &m->scopes.at[m->scopes.n - 1];
    uint32_t label = cache_find(&m->labels, s->region, name, &hash);
    if (label == GRAPH_NONE) {
        label = s->n_labels++;
        cache_add(m, &m->labels, s->region, name, hash, label);
    }
    return label;
}

/* "%a: type loc(...)", giving the name and type. */
static bool arg_read(struct mlir *m, struct slice *name, uint32_t *type)
{
    if (!peek(m, '%'))
        return malformed(m, "expected an argument");
    m->s.at++;
    *name = slice_id(&m->s);
    if (!expect(m, ':', "expected ':'"))
        return false;
    *type = mlir_type(m, slice_type(&m->s));
    skip_loc(m);
    return mlir_ok(m);
}

static bool block_args_read(struct mlir *m)
{
    if (slice_take(&m->s, ')'))
        return true;
    do {
        struct slice name;
        uint32_t type;
        if (!arg_read(m, &name, &type))
            return false;
        mlir_bind_name(m, name, graph_block_arg(m->g, type));
    } while (slice_take(&m->s, ','));
    return expect(m, ')', "expected ')' after arguments");
}

/* "while(%a = %0, ...) : types attributes {...} cond {" */
static bool op_while(struct mlir *m, const struct opinfo *info, uint32_t lhs)
{
    struct scope *s = scope_push(m, SCOPE_COND, info, lhs);
    struct slice attrs = {0};
    if (!s || !expect(m, '(', "expected '('"))
        return false;
    graph_op_begin(m->g, info->graph_name);
    while (peek(m, '%')) {
        m->s.at++;
        PUSH(m, m->arg_names, slice_id(&m->s));
        if (!expect(m, '=', "expected '='") || !peek(m, '%'))
            return malformed(m, "expected a value");
        if (!operand_read(m))
            return false;
        slice_take(&m->s, ',');
    }
    if (!expect(m, ')', "expected ')'"))
        return false;
    if (slice_take(&m->s, ':'))
        do {
            if (!type_read_like(m, s->operands + m->types_stack.n - s->types))
                return false;
        } while (slice_take(&m->s, ','));
    uint32_t n = m->types_stack.n - s->types;
    if (n != m->operands.n - s->operands || !list_fits(m, s->operands, s->types, n))
        return malformed(m, "operands and types do not agree");
    if (slice_take_word(&m->s, "attributes")) {
        slice_skip(&m->s);
        if (!take_braces(m, &attrs))
            return false;
        graph_op_dict(m->g, mlir_dict(m, attrs, info));
    }
    return slice_take_word(&m->s, "cond") || malformed(m, "expected 'cond'");
}

/* The '{' of cond or do. */
static bool while_region(struct mlir *m)
{
    struct scope *s = &m->scopes.at[m->scopes.n - 1];
    if (!expect(m, '{', "expected '{'"))
        return false;
    region_open(m, s);
    block_open(m, s);
    uint32_t n = m->types_stack.n - s->types;
    for (uint32_t i = 0; i < n && !m->failed; i++)
        mlir_bind_name(m, m->arg_names.at[s->names + i],
                       graph_block_arg(m->g, m->types_stack.at[s->types + i]));
    return !m->failed;
}

/* The one operation of "applies stablehlo.add" as the region that it stands for. */
static bool reduce_applies(struct mlir *m, struct scope *s, struct slice name)
{
    if (m->operands.n - s->operands != 2)
        return malformed(m, "'applies' needs one operand");
    uint32_t type = graph_value_type(m->g, m->operands.at[s->operands + 1]);
    uint32_t inner = info_of(m, name),
             ret = info_of(m, (struct slice){"stablehlo.return", &"stablehlo.return"[16]});
    if (m->failed)
        return false;
    graph_region_begin(m->g);
    graph_block_begin(m->g, 0);
    uint32_t lhs = graph_block_arg(m->g, type), rhs = graph_block_arg(m->g, type);
    unsigned traits = mlir_traits(m, type, m->op_infos.at[inner].traits);
    graph_op_begin(m->g, m->op_infos.at[inner].graph_name);
    graph_op_traits(m->g, traits);
    graph_op_operand(m->g, lhs);
    graph_op_operand(m->g, rhs);
    graph_op_result(m->g, type);
    uint32_t value = graph_op_end(m->g);
    graph_op_begin(m->g, m->op_infos.at[ret].graph_name);
    graph_op_operand(m->g, value);
    graph_op_end(m->g);
    graph_region_end(m->g);
    return true;
}

/* Ends an operation whose scope is the innermost. */
static bool scope_finish(struct mlir *m, unsigned traits)
{
    struct scope s = m->scopes.at[--m->scopes.n];
    m->operands.n = s.operands;
    m->arg_names.n = s.names;
    return op_finish(m, &m->op_infos.at[s.info], traits, s.types, s.results);
}

/* Pairs "(%0 init: %1), (%2 init: %3)": inputs, then initial values. */
static bool reduce_operands(struct mlir *m, const struct scope *s)
{
    uint32_t inits = m->arg_names.n; /* borrowed as a stack of slices */
    do {
        if (!expect(m, '(', "expected '('") || !peek(m, '%'))
            return malformed(m, "expected a value");
        if (!operand_read(m))
            return false;
        if (!slice_take_word(&m->s, "init") || !expect(m, ':', "expected ':'") || !peek(m, '%'))
            return malformed(m, "expected an initial value");
        struct slice from = m->s;
        from.at++;
        m->s.at++;
        mlir_value_find(m, &m->s);
        PUSH(m, m->arg_names, (struct slice){from.at - 1, m->s.at});
        if (!expect(m, ')', "expected ')'"))
            return false;
    } while (slice_take(&m->s, ','));
    struct slice back = m->s;
    for (uint32_t i = inits; i < m->arg_names.n; i++) {
        m->s.at = m->arg_names.at[i].at;
        if (!operand_read(m))
            return false;
    }
    m->s = back;
    m->arg_names.n = s->names;
    return !m->failed;
}

/* "reducer(%a: t, %b: t) (%c: u, %d: u) {": left sides of all pairs, then right sides. */
static bool reducer_open(struct mlir *m, struct scope *s)
{
    uint32_t types = m->types_stack.n;
    region_open(m, s);
    block_open(m, s);
    while (peek(m, '(')) {
        m->s.at++;
        for (int side = 0; side < 2; side++) {
            struct slice name;
            uint32_t type;
            if (!arg_read(m, &name, &type))
                return false;
            PUSH(m, m->arg_names, name);
            PUSH(m, m->types_stack, type);
            if (!expect(m, side ? ')' : ',', "expected a pair of arguments"))
                return false;
        }
    }
    uint32_t n = m->types_stack.n - types;
    for (uint32_t i = 0; i < n && !m->failed; i++) {
        uint32_t at = i < n / 2 ? 2 * i : 2 * (i - n / 2) + 1;
        mlir_bind_name(m, m->arg_names.at[s->names + at],
                       graph_block_arg(m->g, m->types_stack.at[types + at]));
    }
    m->types_stack.n = types;
    return expect(m, '{', "expected '{'");
}

static bool op_reduce(struct mlir *m, const struct opinfo *info, uint32_t lhs)
{
    struct scope *s = scope_push(m, SCOPE_REDUCER, info, lhs);
    if (!s)
        return false;
    struct slice applies = {0};
    graph_op_begin(m->g, info->graph_name);
    if (!reduce_operands(m, s))
        return false;
    if (slice_take_word(&m->s, "applies"))
        applies = slice_word(&m->s);
    if (!slice_take_word(&m->s, "across"))
        return malformed(m, "expected 'across'");
    struct slice clauses = {m->s.at, slice_find(m->s, ':')};
    m->s.at = clauses.end;
    const struct dict_info *d = clauses_of(m, clauses, info, (struct slice){0});
    if (!mlir_ok(m) || m->failed)
        return false;
    if (d->not_understood)
        return malformed(m, "a clause of a reduction that is not known");
    graph_op_dict(m->g, d->dict);
    if (!expect(m, ':', "expected ':' and types") || !peek(m, '('))
        return malformed(m, "expected types");
    if (!function_type_read(m, s->operands))
        return false;
    unsigned traits = info->traits;
    if (applies.at < applies.end) /* `info` may move */
        return reduce_applies(m, s, applies) && scope_finish(m, traits);
    skip_loc(m);
    if (!slice_take_word(&m->s, "reducer"))
        return malformed(m, "expected 'reducer'");
    return reducer_open(m, s);
}

/* "sdy.manual_computation(%0) in_shardings=[..] out_shardings=[..] manual_axes={..} (%a: t) {" */
static bool op_manual(struct mlir *m, const struct opinfo *info, uint32_t lhs)
{
    static const struct {
        const char *word, *prefix, *suffix;
    } parts[] = {{"in_shardings", "#sdy.sharding_per_value<", ">"},
                 {"out_shardings", "#sdy.sharding_per_value<", ">"},
                 {"manual_axes", "#sdy<manual_axes", ">"}};
    struct scope *s = scope_push(m, SCOPE_MANUAL, info, lhs);
    if (!s || !expect(m, '(', "expected '('"))
        return false;
    graph_op_begin(m->g, info->graph_name);
    if (!operands_read(m) || !expect(m, ')', "expected ')'"))
        return false;
    s->dict = m->dict_infos.n;
    graph_dict_begin(m->g);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (!slice_take_word(&m->s, parts[i].word) || !expect(m, '=', "expected '='"))
            return malformed(m, "expected the shardings");
        slice_skip(&m->s);
        struct slice value = {m->s.at, slice_close(m->s)};
        if (value.end >= m->s.end)
            return malformed(m, "a sharding that does not end");
        m->s.at = ++value.end;
        graph_dict_key(m->g, parts[i].word, strlen(parts[i].word));
        graph_dict_text(m->g, parts[i].prefix, strlen(parts[i].prefix));
        if (!mlir_attr(m, value, ATTR_AXES))
            return false;
        graph_dict_text(m->g, parts[i].suffix, 1);
    }
    graph_op_dict(m->g, graph_dict_end(m->g));
    region_open(m, s);
    block_open(m, s);
    if (!expect(m, '(', "expected '('") || !block_args_read(m))
        return false;
    return expect(m, '{', "expected '{'");
}

/* ---- the generic form ---- */

/* Keys and values of up to two dictionaries, and successors, into one; the names of functions and
 * modules are left to the caller. */
static bool generic_dict(struct mlir *m, const struct scope *s, struct slice attrs,
                         const struct opinfo *info, struct dict_info *out)
{
    *out = (struct dict_info){.callee = GRAPH_NONE};
    graph_dict_begin(m->g);
    if (s->successors.at) {
        graph_dict_key(m->g, "successors", 10);
        if (!mlir_attr(m, s->successors, ATTR_VALUES))
            return false;
    }
    if (s->props.at &&
        !mlir_dict_entries(m, (struct slice){s->props.at + 1, s->props.end - 1}, info, out))
        return false;
    if (attrs.at && !mlir_dict_entries(m, (struct slice){attrs.at + 1, attrs.end - 1}, info, out))
        return false;
    out->dict = graph_dict_end(m->g);
    return !graph_failed(m->g);
}

/* The same, remembered: both dictionaries stand side by side. */
static bool generic_dict_cached(struct mlir *m, const struct scope *s, struct slice attrs,
                                const struct opinfo *info, struct dict_info *out)
{
    uint64_t hash;
    struct slice text = {s->props.at ? s->props.at : attrs.at, attrs.at ? attrs.end : s->props.end};
    *out = (struct dict_info){.callee = GRAPH_NONE};
    if (s->successors.at)
        return generic_dict(m, s, attrs, info, out);
    if (!text.at)
        return true;
    uint32_t tag = 2 * info->graph_name + 3;
    uint32_t known = cache_find(&m->dicts, tag, text, &hash);
    if (known != GRAPH_NONE) {
        *out = m->dict_infos.at[known];
        return true;
    }
    if (!generic_dict(m, s, attrs, info, out))
        return false;
    PUSH(m, m->dict_infos, *out);
    cache_add(m, &m->dicts, tag, text, hash, m->dict_infos.n - 1);
    return !m->failed;
}

/* Behind the regions: "{attrs} : (types) -> types". The operation ends. */
static bool generic_tail(struct mlir *m, bool has_regions)
{
    struct scope s = m->scopes.at[m->scopes.n - 1];
    struct opinfo *info = &m->op_infos.at[s.info];
    struct slice attrs = {0};
    struct dict_info d;
    if (peek(m, '{') && !take_braces(m, &attrs))
        return false;
    if (!(has_regions ? generic_dict(m, &s, attrs, info, &d)
                      : generic_dict_cached(m, &s, attrs, info, &d)))
        return false;
    graph_op_dict(m->g, d.dict);
    if (info->traits & GRAPH_CALL) {
        if (d.callee == GRAPH_NONE)
            return malformed(m, "a call of nothing");
        graph_op_callee(m->g, d.callee);
    }
    if (!expect(m, ':', "expected ':' and types") || !function_type_read(m, s.operands))
        return false;
    return scope_finish(m, traits_with(info, &d));
}

static bool in_module(const struct mlir *m)
{
    return m->scopes.n == 0 || (m->scopes.n == 1 && (m->scopes.at[0].kind == SCOPE_MODULE ||
                                                     m->scopes.at[0].kind == SCOPE_MODULE_GENERIC));
}

static bool func_generic_open(struct mlir *m, struct scope *s);

/* "{" of a region in parentheses. */
static bool generic_region(struct mlir *m)
{
    if (!expect(m, '{', "expected '{'"))
        return false;
    struct scope *s = &m->scopes.at[m->scopes.n - 1];
    enum syntax syntax = m->op_infos.at[s->info].syntax;
    if (m->scopes.n == 1 && syntax == SYNTAX_MODULE) {
        s->kind = SCOPE_MODULE_GENERIC;
        if (m->module_seen)
            return malformed(m, "a second module");
        m->module_seen = true;
        graph_op_drop(m->g);
        return true;
    }
    m->scopes.n--;
    bool top = in_module(m);
    m->scopes.n++;
    if (top && syntax == SYNTAX_FUNC) {
        graph_op_drop(m->g);
        return func_generic_open(m, s);
    }
    region_open(m, s);
    return true;
}

/* `"name"(%0)[^bb1]<{props}>({regions}){attrs} : (types) -> types` */
static bool op_generic(struct mlir *m, uint32_t lhs)
{
    const char *at = m->s.at;
    struct slice quoted = slice_string(&m->s);
    if (slice_len(quoted) < 3)
        return mlir_fail(m, at, WARM_EMALFORMED, "expected an operation's name");
    uint32_t i = info_of(m, (struct slice){quoted.at + 1, quoted.end - 1});
    if (m->failed)
        return false;
    const struct opinfo *info = &m->op_infos.at[i];
    struct scope *s = scope_push(m, SCOPE_GENERIC, info, lhs);
    if (!s || !expect(m, '(', "expected '('"))
        return false;
    graph_op_begin(m->g, info->graph_name);
    if (!operands_read(m) || !expect(m, ')', "expected ')' after operands"))
        return false;
    if (peek(m, '[')) {
        m->line.open = false;
        s->successors = (struct slice){m->s.at, slice_close(m->s)};
        if (s->successors.end >= m->s.end)
            return malformed(m, "successors that do not end");
        m->s.at = ++s->successors.end;
    }
    if (peek(m, '<')) {
        m->s.at++;
        if (!peek(m, '{') || !take_braces(m, &s->props))
            return malformed(m, "expected properties");
        if (!expect(m, '>', "expected '>'"))
            return false;
    }
    if (!peek(m, '('))
        return generic_tail(m, false);
    m->line.open = false;
    m->s.at++;
    return generic_region(m);
}

/* ---- functions ---- */

/* The value of one key of a dictionary with braces; empty if it is not there. */
static struct slice dict_value(struct slice braces, const char *wanted)
{
    struct slice s = {braces.at ? braces.at + 1 : NULL, braces.at ? braces.end - 1 : NULL};
    while (s.at < s.end) {
        struct slice key = slice_word(&s), value = {0};
        if (key.at == key.end)
            break;
        if (slice_take(&s, '=')) {
            value = (struct slice){s.at, slice_find(s, ',')};
            s.at = value.end;
            slice_trim(&value);
        }
        if (slice_is(key, wanted))
            return value;
        if (!slice_take(&s, ','))
            break;
    }
    return (struct slice){0};
}

/* The next element of "[{..}, {..}]"; the dictionary without entries when there are no more. */
static uint32_t next_dict(struct mlir *m, struct slice *list)
{
    if (!list->at)
        return 0;
    slice_take(list, '[');
    slice_take(list, ',');
    slice_skip(list);
    if (list->at >= list->end || *list->at != '{')
        return 0;
    struct slice braces = {list->at, slice_close(*list)};
    if (braces.end >= list->end)
        return 0;
    list->at = ++braces.end;
    return mlir_dict(m, braces, NULL);
}

static bool is_private(struct slice word) { return slice_is(word, "private"); }

/* "(%arg0: type {attrs} loc(..), ...)" */
static bool func_args(struct mlir *m)
{
    if (!expect(m, '(', "expected '('"))
        return false;
    if (slice_take(&m->s, ')'))
        return true;
    do {
        struct slice name = {0}, attrs;
        uint32_t type, dict = 0;
        if (peek(m, '%')) {
            if (!arg_read(m, &name, &type))
                return false;
        } else {
            type = mlir_type(m, slice_type(&m->s));
        }
        if (peek(m, '{')) {
            if (!take_braces(m, &attrs))
                return false;
            dict = mlir_dict(m, attrs, NULL);
        }
        skip_loc(m);
        uint32_t value = graph_func_arg(m->g, type, dict);
        if (name.at)
            mlir_bind_name(m, name, value);
        if (!mlir_ok(m))
            return false;
    } while (slice_take(&m->s, ','));
    return expect(m, ')', "expected ')' after arguments");
}

/* "-> type", "-> (type {attrs}, ...)" */
static bool func_results(struct mlir *m)
{
    if (!take_arrow(m))
        return true;
    bool list = peek(m, '(');
    if (list) {
        m->s.at++;
        if (slice_take(&m->s, ')'))
            return true;
    }
    do {
        struct slice attrs;
        uint32_t type = mlir_type(m, slice_type(&m->s)), dict = 0;
        if (list && peek(m, '{')) {
            if (!take_braces(m, &attrs))
                return false;
            dict = mlir_dict(m, attrs, NULL);
        }
        graph_func_result(m->g, type, dict);
        if (!mlir_ok(m))
            return false;
    } while (list && slice_take(&m->s, ','));
    return !list || expect(m, ')', "expected ')' after results");
}

static bool op_func(struct mlir *m, const struct opinfo *info)
{
    struct slice attrs, before = m->s, word = slice_word(&m->s);
    if (!is_private(word) && !slice_is(word, "public") && !slice_is(word, "nested"))
        m->s = before;
    if (!peek(m, '@'))
        return malformed(m, "expected the function's name");
    struct scope *s = scope_push(m, SCOPE_FUNC, info, m->lhs.n);
    if (!s)
        return false;
    s->in_block = true;
    s->n_labels = 1;
    mlir_function_begin(m);
    graph_func_begin(m->g, mlir_symbol(m, &m->s), !is_private(word));
    if (!func_args(m) || !func_results(m))
        return false;
    if (slice_take_word(&m->s, "attributes")) {
        slice_skip(&m->s);
        if (!take_braces(m, &attrs))
            return false;
        graph_func_dict(m->g, mlir_dict(m, attrs, NULL));
    }
    if (slice_take(&m->s, '{'))
        return true;
    graph_func_end(m->g); /* a declaration */
    mlir_function_end(m, s->undo);
    m->scopes.n--;
    skip_loc(m);
    return true;
}

/* `"func.func"() <{function_type = (t) -> t, sym_name = "f", ...}> ({` with its first block. */
static bool func_generic_open(struct mlir *m, struct scope *s)
{
    struct slice name = dict_value(s->props, "sym_name");
    struct slice type = dict_value(s->props, "function_type");
    struct slice args = dict_value(s->props, "arg_attrs");
    struct slice results = dict_value(s->props, "res_attrs");
    struct slice visibility = dict_value(s->props, "sym_visibility");
    if (slice_len(name) < 3 || *name.at != '"' || !type.at)
        return malformed(m, "a function needs a name and a type");
    s->kind = SCOPE_FUNC_GENERIC;
    s->undo = m->undo.n;
    mlir_function_begin(m);
    struct slice bare = {name.at + 1, name.end - 1}, word = bare;
    if (slice_id(&bare).end != word.end)
        word = name;
    graph_func_begin(m->g, graph_symbol(m->g, word.at, slice_len(word)),
                     !slice_is(visibility, "\"private\""));
    struct slice after = m->s;
    uint32_t first = graph_n_values(m->g), n_args = 0;
    if (peek(m, '^')) {
        m->s.at++;
        struct slice label = slice_id(&m->s);
        mlir_label(m, label);
        s->in_block = true;
        if (slice_take(&m->s, '(') && !slice_take(&m->s, ')')) {
            do {
                struct slice arg;
                uint32_t arg_type;
                if (!arg_read(m, &arg, &arg_type))
                    return false;
                mlir_bind_name(m, arg, graph_func_arg(m->g, arg_type, next_dict(m, &args)));
                n_args++;
            } while (slice_take(&m->s, ','));
            if (!expect(m, ')', "expected ')' after arguments"))
                return false;
        }
        if (!expect(m, ':', "expected ':' after a label"))
            return false;
    } else if (!peek(m, '}')) {
        s->in_block = true;
        s->n_labels = 1;
    }
    after = m->s;
    m->s = type;
    bool declaration = !s->in_block;
    const char *close = peek(m, '(') ? slice_close(m->s) : m->s.end;
    if (close >= m->s.end)
        return malformed(m, "expected a function's type");
    struct slice list = {m->s.at + 1, close};
    uint32_t n = 0;
    for (; slice_skip(&list), list.at < list.end; n++) {
        uint32_t arg_type = mlir_type(m, slice_type(&list));
        if (declaration)
            graph_func_arg(m->g, arg_type, next_dict(m, &args));
        else if (n >= n_args || graph_value_type(m->g, first + n) != arg_type)
            return malformed(m, "the function's type and its arguments do not agree");
        if (!mlir_ok(m) || (!slice_take(&list, ',') && list.at < list.end))
            return malformed(m, "expected a type");
    }
    if (!declaration && n != n_args)
        return malformed(m, "the function's type and its arguments do not agree");
    m->s.at = close + 1;
    uint32_t types = m->types_stack.n;
    if (!take_arrow(m))
        return malformed(m, "expected '->'");
    if (!results_read(m, GRAPH_NONE))
        return false;
    for (uint32_t i = types; i < m->types_stack.n; i++)
        graph_func_result(m->g, m->types_stack.at[i], next_dict(m, &results));
    m->types_stack.n = types;
    m->s = after;
    return mlir_ok(m);
}

/* A dictionary of what is left of a function's or module's attributes in the generic form. */
static bool rest_dict(struct mlir *m, struct slice props, struct slice attrs, uint32_t *out)
{
    static const char *const known[] = {"sym_name", "function_type", "arg_attrs", "res_attrs",
                                        "sym_visibility"};
    struct dict_info d = {.callee = GRAPH_NONE};
    struct slice s = {props.at ? props.at + 1 : NULL, props.at ? props.end - 1 : NULL};
    graph_dict_begin(m->g);
    while (slice_skip(&s), s.at < s.end) {
        struct slice entry = {s.at, slice_find(s, ',')}, key = slice_word(&s);
        bool drop = false;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            drop |= slice_is(key, known[i]);
        if (!drop && !mlir_dict_entries(m, entry, NULL, &d))
            return false;
        s.at = entry.end;
        slice_take(&s, ',');
    }
    if (attrs.at && !mlir_dict_entries(m, (struct slice){attrs.at + 1, attrs.end - 1}, NULL, &d))
        return false;
    *out = graph_dict_end(m->g);
    return mlir_ok(m);
}

/* Behind the region of a function or module in the generic form: "){attrs} : () -> ()". */
static bool named_tail(struct mlir *m)
{
    struct scope s = m->scopes.at[m->scopes.n - 1];
    struct slice attrs = {0};
    uint32_t dict;
    if (!expect(m, ')', "expected ')'") || (peek(m, '{') && !take_braces(m, &attrs)) ||
        !rest_dict(m, s.props, attrs, &dict))
        return false;
    if (s.kind == SCOPE_FUNC_GENERIC) {
        graph_func_dict(m->g, dict);
        graph_func_end(m->g);
    } else {
        graph_module_dict(m->g, dict);
    }
    m->scopes.n--;
    if (!expect(m, ':', "expected ':'") || !function_type_read(m, m->operands.n))
        return false;
    m->types_stack.n = s.types;
    skip_loc(m);
    return true;
}

static bool op_module(struct mlir *m, const struct opinfo *info)
{
    struct slice attrs;
    if (m->module_seen) {
        m->why_exact = "more than one module";
        return mlir_fail(m, m->s.at, WARM_EUNSUPPORTED, m->why_exact);
    }
    m->module_seen = true;
    if (peek(m, '@'))
        mlir_symbol(m, &m->s);
    if (slice_take_word(&m->s, "attributes")) {
        slice_skip(&m->s);
        if (!take_braces(m, &attrs))
            return false;
        graph_module_dict(m->g, mlir_dict(m, attrs, NULL));
    }
    return scope_push(m, SCOPE_MODULE, info, m->lhs.n) && expect(m, '{', "expected '{'");
}

/* ---- the walk ---- */

/* '}' */
static bool scope_close(struct mlir *m)
{
    if (!m->scopes.n)
        return malformed(m, "a '}' that closes nothing");
    m->s.at++;
    struct scope *s = &m->scopes.at[m->scopes.n - 1];
    if (s->kind == SCOPE_FUNC || s->kind == SCOPE_FUNC_GENERIC)
        mlir_function_end(m, s->undo);
    else
        mlir_unbind_to(m, s->undo);
    switch (s->kind) {
    case SCOPE_MODULE:
        m->scopes.n--;
        skip_loc(m);
        return true;
    case SCOPE_FUNC:
        graph_func_end(m->g);
        m->scopes.n--;
        skip_loc(m);
        return true;
    case SCOPE_MODULE_GENERIC:
    case SCOPE_FUNC_GENERIC: return named_tail(m);
    case SCOPE_GENERIC:
        graph_region_end(m->g);
        if (slice_take(&m->s, ','))
            return generic_region(m);
        return expect(m, ')', "expected ')' after regions") && generic_tail(m, true);
    case SCOPE_COND:
        graph_region_end(m->g);
        s->kind = SCOPE_BODY;
        if (!slice_take_word(&m->s, "do"))
            return malformed(m, "expected 'do'");
        return while_region(m);
    case SCOPE_BODY:
    case SCOPE_REDUCER:
        graph_region_end(m->g);
        return scope_finish(m, m->op_infos.at[s->info].traits);
    case SCOPE_MANUAL:
        graph_region_end(m->g);
        if (!expect(m, ':', "expected ':' and types") || !function_type_read(m, s->operands))
            return false;
        return scope_finish(m, m->op_infos.at[s->info].traits);
    }
    return false;
}

/* "^bb1(%a: t):" */
static bool block_read(struct mlir *m)
{
    if (in_module(m))
        return malformed(m, "a block outside of any region");
    m->s.at++;
    struct slice name = slice_id(&m->s);
    uint32_t label = mlir_label(m, name);
    m->scopes.at[m->scopes.n - 1].in_block = true;
    graph_block_begin(m->g, label);
    if (slice_take(&m->s, '(') && !block_args_read(m))
        return false;
    return expect(m, ':', "expected ':' after a label");
}

/* "#alias = ..." and "!alias = ..." */
static bool alias_read(struct mlir *m)
{
    char sigil = *m->s.at++;
    struct slice name = slice_id(&m->s);
    uint64_t hash;
    if (name.at == name.end || !expect(m, '=', "expected '='"))
        return malformed(m, "expected an alias");
    slice_skip(&m->s);
    if (m->s.end - m->s.at > 4 && memcmp(m->s.at, "loc(", 4) == 0) {
        m->s.at += 3;
        const char *close = slice_close(m->s);
        if (close >= m->s.end)
            return mlir_fail(m, m->s.end, WARM_EMALFORMED, "a location that does not end");
        m->s.at = close + 1;
        return true;
    }
    struct slice value = {m->s.at, slice_find(m->s, '\n')};
    m->s.at = value.end;
    slice_trim(&value);
    if (cache_find(&m->aliases, (uint32_t)sigil, name, &hash) != GRAPH_NONE)
        return malformed(m, "an alias is defined twice");
    PUSH(m, m->alias_values, value);
    cache_add(m, &m->aliases, (uint32_t)sigil, name, hash, m->alias_values.n - 1);
    return !m->failed;
}

/* False in a region of the generic form whose first block, if it has a label, may still come. */
static bool in_block(const struct mlir *m)
{
    const struct scope *s = m->scopes.n ? &m->scopes.at[m->scopes.n - 1] : NULL;
    return !s || s->in_block || s->kind != SCOPE_GENERIC;
}

static bool op_read(struct mlir *m)
{
    uint32_t lhs = m->lhs.n;
    if (*m->s.at == '%' && !lhs_read(m))
        return false;
    slice_skip(&m->s);
    if (!in_block(m))
        block_open(m, &m->scopes.at[m->scopes.n - 1]);
    if (mlir_line_repeats(m, lhs))
        return !m->failed;
    if (m->s.at < m->s.end && *m->s.at == '"')
        return op_generic(m, lhs);
    const char *at = m->s.at;
    struct slice name = slice_word(&m->s);
    if (name.at == name.end)
        return mlir_fail(m, at, WARM_EMALFORMED, "expected an operation");
    uint32_t i = info_of(m, name);
    if (m->failed)
        return false;
    const struct opinfo *info = &m->op_infos.at[i];
    switch (info->syntax) {
    case SYNTAX_SIMPLE:
    case SYNTAX_COMPARE: return op_simple(m, info, lhs);
    case SYNTAX_CONSTANT: return op_constant(m, info, lhs);
    case SYNTAX_CALL:
    case SYNTAX_CUSTOM_CALL:
    case SYNTAX_COMPOSITE: return op_call(m, info, lhs);
    case SYNTAX_WHILE: return op_while(m, info, lhs) && while_region(m);
    case SYNTAX_REDUCE: return op_reduce(m, info, lhs);
    case SYNTAX_MANUAL: return op_manual(m, info, lhs);
    case SYNTAX_MESH: return op_mesh(m, info, lhs);
    case SYNTAX_FUNC:
        if (in_module(m))
            return op_func(m, info);
        break;
    case SYNTAX_MODULE:
        if (m->scopes.n == 0)
            return op_module(m, info);
        break;
    case SYNTAX_UNKNOWN: break;
    }
    return op_as_text(m, info, lhs);
}

/* "{-# ... #-}": the data of resources, which are read where they are named. */
static bool resources_skip(struct mlir *m)
{
    const char *end = memmem(m->s.at, (size_t)(m->s.end - m->s.at), "#-}", 3);
    if (!end)
        return mlir_fail(m, m->s.end, WARM_EMALFORMED, "resources that do not end");
    m->s.at = end + 3;
    return true;
}

static bool item_read(struct mlir *m)
{
    char c = *m->s.at;
    if (c == '}')
        return scope_close(m);
    if (c == '^')
        return block_read(m);
    if (c == '#' || c == '!')
        return in_module(m) ? alias_read(m) : malformed(m, "an alias inside of a function");
    if (c == '{' && m->s.end - m->s.at > 2 && memcmp(m->s.at, "{-#", 3) == 0)
        return resources_skip(m);
    return op_read(m);
}

static bool mlir_read(struct mlir *m)
{
    bool empty = true;
    while (slice_skip(&m->s), m->s.at < m->s.end) {
        if (!item_read(m) || m->failed || graph_failed(m->g))
            return false;
        empty = false;
        if (in_block(m))
            mlir_lines_repeat(m);
    }
    if (m->scopes.n)
        return mlir_fail(m, m->end, WARM_EMALFORMED, "a region is not closed");
    return !empty || mlir_fail(m, m->begin, WARM_EMALFORMED, "no operation");
}

static void mlir_close(struct mlir *m)
{
    struct cache *caches[] = {&m->types,     &m->dicts, &m->named,   &m->labels, &m->lines,
                              &m->resources, &m->axes,  &m->aliases, &m->infos,  &m->heads};
    for (size_t i = 0; i < sizeof caches / sizeof *caches; i++)
        cache_close(caches[i]);
    void *arrays[] = {m->dict_infos.at,     m->alias_values.at, m->resource_values.at,
                      m->named_bindings.at, m->undo.at,         m->lhs.at,
                      m->scopes.at,         m->operands.at,     m->types_stack.at,
                      m->arg_names.at,      m->op_infos.at,     m->commutes.at,
                      m->pending.at,        m->line_shapes.at,  m->line_types.at};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        free(arrays[i]);
    for (uint32_t i = 0; i < m->n_families; i++)
        free(m->families[i].bindings.at);
    writer_close(&m->scratch);
    writer_close(&m->bytes);
    if (m->c_locale)
        freelocale((locale_t)m->c_locale);
}

int form_mlir(const struct canon_input *input, struct form *out, struct err *e)
{
    const char *text = input->data;
    struct mlir m = {.begin = text, .end = text + input->len, .e = e};
    m.s = (struct slice){m.begin, m.end};
    m.n_families = 1; /* of the empty word */
    m.number_max = input->len / 64 < VECTOR_MAX ? (uint32_t)(input->len / 64) + 4096 : VECTOR_MAX;
    m.g = graph_new(input->len);
    if (!m.g)
        return err_set(e, WARM_ENOMEM, "no memory to read MLIR");
    writer_init(&m.scratch, 0);
    writer_init(&m.bytes, 0);
    m.unknown_type = graph_type(m.g, "?", 1);
    mlir_read(&m);
    int rc = m.code;
    if (!rc && (m.failed || graph_failed(m.g)))
        rc = err_set(e, WARM_ENOMEM, "no memory to read MLIR");
    out->why_exact = m.why_exact;
    mlir_close(&m);
    if (!rc)
        rc = graph_write(m.g, "mlir/1", out, e);
    graph_free(m.g);
    return rc;
}

bool form_mlir_claims(const char *data, size_t len)
{
    static const char *const words[] = {"module", "builtin.module", "func.func", "sdy.mesh"};
    struct slice s = {data, data + len};
    slice_skip(&s);
    if (s.at >= s.end)
        return false;
    if (*s.at == '"') {
        struct slice name = slice_string(&s);
        return slice_is(name, "\"builtin.module\"") || slice_is(name, "\"func.func\"");
    }
    if (*s.at == '#' || *s.at == '!') { /* an alias */
        s.at++;
        struct slice name = slice_id(&s);
        return name.at < name.end && slice_take(&s, '=');
    }
    struct slice word = slice_word(&s);
    slice_skip(&s);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (slice_is(word, words[i]))
            return s.at < s.end && strchr("@{apn", *s.at); /* a name, a body, attributes, private */
    return false;
}
