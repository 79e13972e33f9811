/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plain.c - reads operations of MLIR text without regions in the syntax of StableHLO and func, and
 * keeps operations of unknown syntax as their tokens. mlir.c calls it for each such operation.
 *
 * Thread: any; the state is struct mlir.
 */
#include "keygen/mlir/internal.h"

#include <string.h>

static const char *full_name(struct slice word)
{
    static const char *const shorts[][2] = {
        {"call", "func.call"}, {"return", "func.return"}, {"module", "builtin.module"}};
    if (slice_len(word) > 6)
        return NULL;
    for (size_t i = 0; i < sizeof shorts / sizeof *shorts; i++)
        if (slice_is(word, shorts[i][0]))
            return shorts[i][1];
    return NULL;
}

static uint32_t info_new(struct mlir *m, struct slice word, uint64_t hash)
{
    const char *full = full_name(word);
    struct slice name = full ? (struct slice){full, full + strlen(full)} : word;
    struct slice bare = name;
    if (slice_word(&bare).end != name.end && MLIR_EXPECT(m, name.at[-1] == '"'))
        /* other characters: the quotes stay */
        name = (struct slice){name.at - 1, name.end + 1};
    size_t len = slice_len(name);
    struct opinfo info = {.syntax = mlir_syntax(name.at, len),
                          .graph_name = graph_opname(m->g, name.at, len)};
    if (len < sizeof info.name) {
        memcpy(info.name, name.at, len);
        info.name_len = (uint32_t)len;
    }
    PUSH(m, m->op_infos, info);
    cache_add(m, &m->infos, 0, word, hash, m->op_infos.n - 1);
    return m->op_infos.n - 1;
}

uint32_t mlir_info_of(struct mlir *m, struct slice word)
{
    uint32_t hash;
    uint32_t i = cache_find(&m->infos, 0, word, &hash);
    return i == GRAPH_NONE ? info_new(m, word, hash) : i;
}

bool mlir_op_finish(struct mlir *m, uint32_t types, uint32_t lhs)
{
    if (!MLIR_EXPECT(m, types <= m->types_stack.n && lhs <= m->lhs.n))
        return false;
    uint32_t n = m->types_stack.n - types, wanted = mlir_n_results(m, lhs);
    if (n != wanted)
        return mlir_malformed(m, "other numbers of results and of their types");
    for (uint32_t i = 0; i < n; i++)
        graph_op_result(m->g, m->types_stack.at[types + i]);
    mlir_bind_results(m, lhs, graph_op_end(m->g));
    m->types_stack.n = types;
    mlir_skip_loc(m);
    return !m->failed;
}

bool mlir_op_as_text(struct mlir *m, const struct opinfo *info, uint32_t lhs)
{
    struct slice text = {m->s.at, slice_find(m->s, '\n')};
    uint32_t operands = m->operands.n, types = m->types_stack.n;
    m->text_operands = operands;
    m->n_texts++;
    m->n_own = 0;
    m->s.at = text.end;
    graph_op_begin(m->g, info->graph_name);
    graph_dict_begin(m->g);
    graph_dict_key(m->g, "text", 4);
    if (!mlir_attr(m, text, ATTR_VALUES))
        return false;
    graph_op_dict(m->g, graph_dict_end(m->g));
    for (uint32_t i = mlir_n_results(m, lhs); i > 0 && !m->failed; i--)
        PUSH(m, m->types_stack, m->unknown_type);
    m->operands.n = operands;
    return mlir_op_finish(m, types, lhs);
}

uint32_t mlir_clauses_of(struct mlir *m, struct slice text, const struct opinfo *info,
                         struct slice lead)
{
    uint32_t hash;
    slice_trim(&text);
    if (text.at == text.end && lead.at == lead.end)
        return 0;
    uint32_t tag = 2 * info->graph_name;
    bool compares = info->syntax == SYNTAX_COMPARE;
    if (compares && slice_len(lead) == 2)
        tag = 0x80000000u | (uint32_t)(uint8_t)lead.at[0] << 9 | (uint32_t)(uint8_t)lead.at[1] << 1;
    bool cached = lead.at == lead.end || (compares && slice_len(lead) == 2);
    uint32_t known = cached ? cache_find(&m->dicts, tag, text, &hash) : GRAPH_NONE;
    if (known != GRAPH_NONE)
        return known;
    graph_dict_begin(m->g);
    if (compares && lead.at < lead.end) {
        graph_dict_key(m->g, "comparison_direction", 20);
        graph_dict_text(m->g, "#stablehlo<comparison_direction ", 32);
        graph_dict_text(m->g, lead.at, slice_len(lead));
        graph_dict_text(m->g, ">", 1);
    }
    bool understood = (compares || mlir_clauses(m, lead, info)) && mlir_clauses(m, text, info);
    uint32_t dict = understood ? graph_dict_end(m->g) : MLIR_NOT_UNDERSTOOD;
    if (cached && !m->failed && mlir_ok(m))
        cache_add(m, &m->dicts, tag, text, hash, dict);
    return dict;
}

#define CLAUSES_MAX 65536 /* bytes between an operation's operands and its types */
#define FALLBACKS_MAX 16  /* of one name; after them the reader does not look for its clauses */

/* Returns the clauses up to ':', or up to the end of the window if there is none. */
static struct slice clauses_find(const struct mlir *m)
{
    struct slice window = m->s;
    if (slice_len(window) > CLAUSES_MAX)
        window.end = window.at + CLAUSES_MAX;
    return (struct slice){m->s.at, slice_find(window, ':')};
}

/* Drops the operation, which the reader misunderstood from `start` on, and keeps its tokens. */
static bool op_fall_back(struct mlir *m, const struct opinfo *info, struct slice start,
                         uint32_t lhs)
{
    struct opinfo *count = &m->op_infos.at[info - m->op_infos.at];
    graph_op_drop(m->g);
    m->s = start;
    if (++count->n_fallbacks >= FALLBACKS_MAX)
        count->syntax = SYNTAX_UNKNOWN;
    return mlir_op_as_text(m, info, lhs);
}

/* True for an operation whose only printed type is that of its result and of its operands. */
static bool result_type_only(const struct opinfo *info)
{
    return strcmp(info->name, "stablehlo.complex") == 0 ||
           strcmp(info->name, "stablehlo.tuple") == 0;
}

bool mlir_op_simple(struct mlir *m, const struct opinfo *info, uint32_t lhs)
{
    struct slice start = m->s, lead = {0}, inside = {0};
    uint32_t operands = m->operands.n, types = m->types_stack.n;
    graph_op_begin(m->g, info->graph_name);
    if (info->syntax == SYNTAX_COMPARE) {
        lead = slice_word(&m->s);
        slice_take(&m->s, ',');
    }
    if (mlir_peek(m, '{')) { /* optimization_barrier {a = 1} %0, %1 */
        inside = (struct slice){m->s.at, slice_close(m->s)};
        if (inside.end >= m->s.end)
            return op_fall_back(m, info, start, lhs);
        m->s.at = ++inside.end;
    }
    if (inside.at == inside.end && mlir_peek(m, '(')) { /* convolution(%0, %1), top_k(%0, k = 2) */
        m->s.at++;
        if (!mlir_operands_read(m))
            return false;
        inside = (struct slice){m->s.at, slice_find(m->s, ')')};
        m->s.at = inside.end;
        if (!mlir_expect(m, ')', "expected ')'"))
            return false;
    } else if (!mlir_operands_read(m)) {
        return false;
    }
    bool typed = m->operands.n > operands || lhs < m->lhs.n; /* else: a return of no value */
    slice_skip(&m->s);
    struct slice clauses = {m->s.at, m->s.at};
    if (typed && !(m->s.at < m->s.end && *m->s.at == ':'))
        clauses = clauses_find(m);
    slice_trim(&inside);
    m->s.at = clauses.end;
    bool odd = lead.at < lead.end && inside.at < inside.end; /* no printer writes a comparison so */
    if (clauses.at == clauses.end)
        clauses = inside;
    else if (inside.at < inside.end)
        lead = inside;
    uint32_t dict = mlir_clauses_of(m, clauses, info, lead);
    if (!mlir_ok(m) || m->failed)
        return false;
    if (odd || dict == MLIR_NOT_UNDERSTOOD || (typed && !slice_take(&m->s, ':'))) {
        m->operands.n = operands;
        return op_fall_back(m, info, start, lhs);
    }
    bool fits = true;
    graph_op_dict(m->g, dict);
    if (typed && !mlir_op_types_read(m, operands, types, mlir_n_results(m, lhs), &fits))
        return false;
    m->operands.n = operands;
    if (!fits && !result_type_only(info)) {
        m->types_stack.n = types;
        return op_fall_back(m, info, start, lhs);
    }
    return mlir_op_finish(m, types, lhs);
}

/* Writes the value of a constant into the open dictionary. `text` ends with its type. */
static bool constant_value(struct mlir *m, const struct opinfo *info, struct slice text,
                           uint32_t type)
{
    struct slice key = {"value", &"value"[5]}, rest = {text.at + 5, text.end};
    if (!slice_begins(text, "dense<"))
        return mlir_dict_entry(m, key, text, false, info);
    struct slice body = {rest.at + 1, slice_close(rest)};
    rest.at = body.end + 1;
    if (body.end == rest.end || !slice_take(&rest, ':'))
        return mlir_dict_entry(m, key, text, false, info);
    struct view spelled = graph_type_text(m->g, type);
    const char *name = spelled.data;
    graph_dict_key(m->g, key.at, slice_len(key));
    return mlir_dense_typed(m, body, (struct slice){name, name + spelled.len});
}

bool mlir_op_constant(struct mlir *m, const struct opinfo *info, uint32_t lhs)
{
    uint32_t types = m->types_stack.n;
    struct slice attrs = {0}, value;
    graph_op_begin(m->g, info->graph_name);
    if (mlir_peek(m, '{') && !mlir_take_braces(m, &attrs))
        return false;
    slice_skip(&m->s);
    value.at = m->s.at;
    m->s.at = slice_find(m->s, ':');
    if (!mlir_expect(m, ':', "expected ':' and a type") || !mlir_type_read(m) || m->failed)
        return false;
    value.end = m->s.at;
    uint32_t hash;
    uint32_t tag = 2 * info->graph_name;
    uint32_t known = attrs.at ? GRAPH_NONE : cache_find(&m->dicts, tag, value, &hash);
    if (known == GRAPH_NONE) {
        graph_dict_begin(m->g);
        if (!mlir_dict_part(m, attrs, info) ||
            !constant_value(m, info, value, m->types_stack.at[types]))
            return false;
        known = graph_dict_end(m->g);
        if (!attrs.at)
            cache_add(m, &m->dicts, tag, value, hash, known);
    }
    if (m->failed)
        return false;
    graph_op_dict(m->g, known);
    return mlir_op_finish(m, types, lhs);
}

bool mlir_op_call(struct mlir *m, const struct opinfo *info, uint32_t lhs)
{
    uint32_t operands = m->operands.n, types = m->types_stack.n;
    graph_op_begin(m->g, info->graph_name);
    graph_dict_begin(m->g);
    slice_skip(&m->s);
    bool composite = info->syntax == SYNTAX_COMPOSITE;
    if (m->s.at >= m->s.end || *m->s.at != (composite ? '"' : '@'))
        return mlir_malformed(m, "expected what is called");
    if (composite) {
        struct slice name = slice_string(&m->s);
        graph_dict_key(m->g, "name", 4);
        graph_dict_text(m->g, name.at, slice_len(name));
        mlir_string_names(m, name);
    } else {
        uint32_t symbol = mlir_symbol(m, &m->s);
        if (info->syntax == SYNTAX_CALL) {
            graph_dict_key(m->g, "callee", 6);
            graph_dict_symbol(m->g, symbol);
        } else {
            struct view name = graph_symbol_text(m->g, symbol);
            graph_symbol_keep(m->g, symbol); /* it is a string in the generic form */
            if (form_is_process_bound(name.data, name.len))
                return mlir_fail(m, m->s.at, WARM_EREFUSED, FORM_PROCESS_BOUND);
            bool quoted = name.len && *(const char *)name.data == '"';
            graph_dict_key(m->g, "call_target_name", 16);
            graph_dict_text(m->g, "\"", !quoted);
            graph_dict_text(m->g, name.data, name.len);
            graph_dict_text(m->g, "\"", !quoted);
        }
        if (!mlir_expect(m, '(', "expected '('"))
            return false;
    }
    struct slice attrs = {0};
    if (!mlir_operands_read(m) || (!composite && !mlir_expect(m, ')', "expected ')'")))
        return false;
    if (mlir_peek(m, '{') && (!mlir_take_braces(m, &attrs) || !mlir_dict_part(m, attrs, info)))
        return false;
    graph_op_dict(m->g, graph_dict_end(m->g));
    bool fits;
    if (!mlir_expect(m, ':', "expected ':' and types") ||
        !mlir_op_types_read(m, operands, types, mlir_n_results(m, lhs), &fits))
        return false;
    if (!fits)
        return mlir_malformed(m, "an operand has another type");
    m->operands.n = operands;
    return mlir_op_finish(m, types, lhs);
}

bool mlir_op_mesh(struct mlir *m, const struct opinfo *info, uint32_t lhs)
{
    uint32_t types = m->types_stack.n;
    struct slice attrs = {0};
    graph_op_begin(m->g, info->graph_name);
    if (!mlir_peek(m, '@'))
        return mlir_malformed(m, "expected the mesh's name");
    uint32_t symbol = mlir_symbol(m, &m->s);
    graph_symbol_private(m->g, symbol);
    if (!mlir_expect(m, '=', "expected '='") || !mlir_peek(m, '<'))
        return mlir_malformed(m, "expected the mesh");
    struct slice mesh = {m->s.at, slice_close(m->s)};
    if (mesh.end >= m->s.end)
        return mlir_malformed(m, "a mesh that does not end");
    m->s.at = ++mesh.end;
    graph_dict_begin(m->g);
    graph_dict_key(m->g, "sym_name", 8);
    graph_dict_symbol(m->g, symbol);
    graph_dict_key(m->g, "mesh", 4);
    graph_dict_text(m->g, "#sdy.mesh", 9);
    if (!mlir_attr(m, mesh, ATTR_MESH))
        return false;
    if (mlir_peek(m, '{') && (!mlir_take_braces(m, &attrs) || !mlir_dict_part(m, attrs, info)))
        return false;
    graph_op_dict(m->g, graph_dict_end(m->g));
    return mlir_op_finish(m, types, lhs);
}
