/* SPDX-License-Identifier: Apache-2.0 */
/*
 * region.c - reads operations of MLIR text with regions, as printed and in the generic form. mlir.c
 * calls it at such an operation and at the '}' of its regions.
 *
 * From its '{' on an operation waits on the stack of scopes; at the '}' it goes on here. So nesting
 * costs heap, never the call stack.
 *
 * Thread: any; the state is struct mlir.
 */
#include "keygen/mlir/internal.h"

#include <string.h>

struct scope *mlir_scope_push(struct mlir *m, enum scope_kind kind, const struct opinfo *info,
                              uint32_t lhs)
{
    if (kind != SCOPE_GENERIC)
        if (!MLIR_EXPECT(m, lhs <= m->lhs.n && (!info || info < m->op_infos.at + m->op_infos.n)))
            return NULL;
    PUSH(m, m->scopes,
         (struct scope){.kind = kind,
                        .undo = m->undo.n,
                        .first = graph_n_values(m->g),
                        .results = lhs,
                        .n_results = m->lhs.n - lhs,
                        .operands = m->operands.n,
                        .types = m->types_stack.n,
                        .args = m->arg_slots.n,
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
    s->first = graph_n_values(m->g);
    graph_region_begin(m->g);
}

void mlir_block_open(struct mlir *m, struct scope *s)
{
    s->in_block = true;
    s->n_labels = 1;
    graph_block_begin(m->g, 0);
}

uint32_t mlir_label(struct mlir *m, struct slice name)
{
    uint32_t hash;
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

bool mlir_arg_read(struct mlir *m, uint64_t *slot, uint32_t *type)
{
    if (!mlir_peek(m, '%'))
        return mlir_malformed(m, "expected an argument");
    m->s.at++;
    m->s.at = mlir_slot(m, m->s.at, m->s.end, true, slot);
    if (m->s.at < m->s.end && *m->s.at == ':') /* the usual spelling */
        m->s.at++;
    else if (!mlir_expect(m, ':', "expected ':'"))
        return false;
    *type = mlir_type_take(m);
    if (m->s.at < m->s.end && *m->s.at != ',')
        mlir_skip_loc(m);
    return mlir_ok(m);
}

bool mlir_block_args_read(struct mlir *m)
{
    if (slice_take(&m->s, ')'))
        return true;
    do {
        uint64_t slot;
        uint32_t type;
        if (!mlir_arg_read(m, &slot, &type))
            return false;
        mlir_bind(m, slot, graph_block_arg(m->g, type), 1);
    } while (slice_take(&m->s, ','));
    return mlir_expect(m, ')', "expected ')' after arguments");
}

bool mlir_op_while(struct mlir *m, const struct opinfo *info, uint32_t lhs)
{
    struct scope *s = mlir_scope_push(m, SCOPE_COND, info, lhs);
    struct slice attrs = {0};
    if (!s || !mlir_expect(m, '(', "expected '('"))
        return false;
    graph_op_begin(m->g, info->graph_name);
    while (mlir_peek(m, '%')) {
        uint64_t slot;
        m->s.at = mlir_slot(m, m->s.at + 1, m->s.end, true, &slot);
        PUSH(m, m->arg_slots, slot);
        if (!mlir_expect(m, '=', "expected '='") || !mlir_peek(m, '%'))
            return mlir_malformed(m, "expected a value");
        if (!mlir_operand_read(m))
            return false;
        slice_take(&m->s, ',');
    }
    if (!mlir_expect(m, ')', "expected ')'"))
        return false;
    if (slice_take(&m->s, ':'))
        do {
            if (!mlir_type_read_like(m, s->operands + m->types_stack.n - s->types))
                return false;
        } while (slice_take(&m->s, ','));
    uint32_t n = m->types_stack.n - s->types;
    if (n != m->operands.n - s->operands || !mlir_list_fits(m, s->operands, s->types, n))
        return mlir_malformed(m, "operands and types do not agree");
    if (slice_take_word(&m->s, "attributes")) {
        slice_skip(&m->s);
        if (!mlir_take_braces(m, &attrs))
            return false;
        graph_op_dict(m->g, mlir_dict(m, attrs, info));
    }
    return slice_take_word(&m->s, "cond") || mlir_malformed(m, "expected 'cond'");
}

/* Begins a region of cond or do at its '{'. */
bool mlir_while_region(struct mlir *m)
{
    if (!MLIR_EXPECT(m, m->scopes.n > 0) || !mlir_expect(m, '{', "expected '{'"))
        return false;
    struct scope *s = &m->scopes.at[m->scopes.n - 1];
    region_open(m, s);
    mlir_block_open(m, s);
    uint32_t n =
        m->types_stack.n - s->types; /* mlir_op_while: a type and a name for each operand */
    if (!MLIR_EXPECT(m, s->types + n == m->types_stack.n && s->args + n <= m->arg_slots.n))
        return false;
    for (uint32_t i = 0; i < n && !m->failed; i++)
        mlir_bind(m, m->arg_slots.at[s->args + i],
                  graph_block_arg(m->g, m->types_stack.at[s->types + i]), 1);
    return !m->failed;
}

/* Adds the region of "applies stablehlo.add" to the open operation. `inner`: the applied operation in
 * `op_infos`. */
static bool reduction_body(struct mlir *m, uint32_t inner, uint32_t type)
{
    uint32_t ret = mlir_info_of(m, (struct slice){"stablehlo.return", &"stablehlo.return"[16]});
    if (m->failed || !MLIR_EXPECT(m, inner < m->op_infos.n))
        return false;
    graph_region_begin(m->g);
    graph_block_begin(m->g, 0);
    uint32_t lhs = graph_block_arg(m->g, type), rhs = graph_block_arg(m->g, type);
    graph_op_begin(m->g, m->op_infos.at[inner].graph_name);
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

/* Adds the region that "applies stablehlo.add" stands for. */
static bool reduce_applies(struct mlir *m, const struct scope *s, struct slice name)
{
    if (m->operands.n - s->operands != 2)
        return mlir_malformed(m, "'applies' needs one operand");
    uint32_t inner = mlir_info_of(m, name);
    return !m->failed &&
           reduction_body(m, inner, graph_value_type(m->g, m->operands.at[s->operands + 1]));
}

bool mlir_scope_finish(struct mlir *m)
{
    if (!MLIR_EXPECT(m, m->scopes.n > 0))
        return false;
    struct scope s = m->scopes.at[--m->scopes.n];
    if (!MLIR_EXPECT(m, s.operands <= m->operands.n && s.args <= m->arg_slots.n &&
                            s.info < m->op_infos.n))
        return false;
    m->operands.n = s.operands;
    m->arg_slots.n = s.args;
    return mlir_op_finish(m, s.types, s.results);
}

/* Reads the pairs "(%0 init: %1), (%2 init: %3)". Adds all inputs, then all initial values. */
static bool reduce_operands(struct mlir *m, const struct scope *s)
{
    uint32_t inits = m->arg_slots.n; /* serves here as a stack of places in the text */
    do {
        if (!mlir_expect(m, '(', "expected '('") || !mlir_peek(m, '%'))
            return mlir_malformed(m, "expected a value");
        if (!mlir_operand_read(m))
            return false;
        if (!slice_take_word(&m->s, "init") || !mlir_expect(m, ':', "expected ':'") ||
            !mlir_peek(m, '%'))
            return mlir_malformed(m, "expected an initial value");
        PUSH(m, m->arg_slots, (uint64_t)(m->s.at++ - m->begin));
        mlir_value_find(m, &m->s);
        if (!mlir_expect(m, ')', "expected ')'"))
            return false;
    } while (slice_take(&m->s, ','));
    struct slice back = m->s;
    for (uint32_t i = inits; i < m->arg_slots.n; i++) {
        m->s.at = m->begin + m->arg_slots.at[i];
        if (!mlir_operand_read(m))
            return false;
    }
    m->s = back;
    m->arg_slots.n = s->args;
    return !m->failed;
}

/* Reads "reducer(%a: t, %b: t) (%c: u, %d: u) {". The arguments are the left sides of all pairs,
 * then the right sides. */
static bool reducer_open(struct mlir *m, struct scope *s)
{
    uint32_t types = m->types_stack.n;
    region_open(m, s);
    mlir_block_open(m, s);
    while (mlir_peek(m, '(')) {
        m->s.at++;
        for (int side = 0; side < 2; side++) {
            uint64_t slot;
            uint32_t type;
            if (!mlir_arg_read(m, &slot, &type))
                return false;
            PUSH(m, m->arg_slots, slot);
            PUSH(m, m->types_stack, type);
            if (!mlir_expect(m, side ? ')' : ',', "expected a pair of arguments"))
                return false;
        }
    }
    uint32_t n = m->types_stack.n - types;
    if (!MLIR_EXPECT(m, m->failed || (n % 2 == 0 && s->args + n <= m->arg_slots.n)))
        return false;
    for (uint32_t i = 0; i < n && !m->failed; i++) {
        uint32_t at = i < n / 2 ? 2 * i : 2 * (i - n / 2) + 1;
        mlir_bind(m, m->arg_slots.at[s->args + at],
                  graph_block_arg(m->g, m->types_stack.at[types + at]), 1);
    }
    m->types_stack.n = types;
    return mlir_expect(m, '{', "expected '{'");
}

bool mlir_op_reduce(struct mlir *m, const struct opinfo *info, uint32_t lhs)
{
    struct scope *s = mlir_scope_push(m, SCOPE_REDUCER, info, lhs);
    if (!s)
        return false;
    struct slice applies = {0};
    graph_op_begin(m->g, info->graph_name);
    if (!reduce_operands(m, s))
        return false;
    if (slice_take_word(&m->s, "applies"))
        applies = slice_word(&m->s);
    if (!slice_take_word(&m->s, "across"))
        return mlir_malformed(m, "expected 'across'");
    struct slice clauses = {m->s.at, slice_find(m->s, ':')};
    m->s.at = clauses.end;
    uint32_t dict = mlir_clauses_of(m, clauses, info, (struct slice){0});
    if (!mlir_ok(m) || m->failed)
        return false;
    if (dict == MLIR_NOT_UNDERSTOOD)
        return mlir_malformed(m, "a clause of a reduction that is not known");
    graph_op_dict(m->g, dict);
    if (!mlir_expect(m, ':', "expected ':' and types") || !mlir_peek(m, '('))
        return mlir_malformed(m, "expected types");
    if (!mlir_function_type_read(m, s->operands))
        return false;
    if (applies.at < applies.end) /* `info` may move */
        return reduce_applies(m, s, applies) && mlir_scope_finish(m);
    mlir_skip_loc(m);
    if (!slice_take_word(&m->s, "reducer"))
        return mlir_malformed(m, "expected 'reducer'");
    return reducer_open(m, s);
}

bool mlir_op_manual(struct mlir *m, const struct opinfo *info, uint32_t lhs)
{
    static const struct {
        const char *word, *prefix, *suffix;
    } parts[] = {{"in_shardings", "#sdy.sharding_per_value<", ">"},
                 {"out_shardings", "#sdy.sharding_per_value<", ">"},
                 {"manual_axes", "#sdy<manual_axes", ">"}};
    struct scope *s = mlir_scope_push(m, SCOPE_MANUAL, info, lhs);
    if (!s || !mlir_expect(m, '(', "expected '('"))
        return false;
    graph_op_begin(m->g, info->graph_name);
    if (!mlir_operands_read(m) || !mlir_expect(m, ')', "expected ')'"))
        return false;
    graph_dict_begin(m->g);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (!slice_take_word(&m->s, parts[i].word) || !mlir_expect(m, '=', "expected '='"))
            return mlir_malformed(m, "expected the shardings");
        slice_skip(&m->s);
        struct slice value = {m->s.at, slice_close(m->s)};
        if (value.end >= m->s.end)
            return mlir_malformed(m, "a sharding that does not end");
        m->s.at = ++value.end;
        graph_dict_key(m->g, parts[i].word, strlen(parts[i].word));
        graph_dict_text(m->g, parts[i].prefix, strlen(parts[i].prefix));
        if (!mlir_attr(m, value, ATTR_AXES))
            return false;
        graph_dict_text(m->g, parts[i].suffix, 1);
    }
    graph_op_dict(m->g, graph_dict_end(m->g));
    region_open(m, s);
    mlir_block_open(m, s);
    if (!mlir_expect(m, '(', "expected '('") || !mlir_block_args_read(m))
        return false;
    return mlir_expect(m, '{', "expected '{'");
}

/* ---- the generic form ---- */

/* Makes one dictionary of the successors and the entries of up to two dictionaries. The caller
 * reads the names of functions and modules. */
static bool generic_dict(struct mlir *m, const struct scope *s, struct slice attrs,
                         const struct opinfo *info, uint32_t *out)
{
    graph_dict_begin(m->g);
    if (s->successors.at) {
        graph_dict_key(m->g, "successors", 10);
        if (!mlir_attr(m, s->successors, ATTR_VALUES))
            return false;
    }
    if (!mlir_dict_part(m, s->props, info) || !mlir_dict_part(m, attrs, info))
        return false;
    *out = graph_dict_end(m->g);
    return !graph_failed(m->g);
}

/* Does the same with a cache: both dictionaries stand side by side in the text. */
static bool generic_dict_cached(struct mlir *m, const struct scope *s, struct slice attrs,
                                const struct opinfo *info, uint32_t *out)
{
    uint32_t hash;
    struct slice text = {s->props.at ? s->props.at : attrs.at, attrs.at ? attrs.end : s->props.end};
    *out = 0;
    if (s->successors.at)
        return generic_dict(m, s, attrs, info, out);
    if (!text.at)
        return true;
    uint32_t tag = 2 * info->graph_name + 3;
    uint32_t known = cache_find(&m->dicts, tag, text, &hash);
    if (known != GRAPH_NONE) {
        *out = known;
        return true;
    }
    if (!generic_dict(m, s, attrs, info, out))
        return false;
    cache_add(m, &m->dicts, tag, text, hash, *out);
    return !m->failed;
}

bool mlir_generic_tail(struct mlir *m, bool has_regions)
{
    if (!MLIR_EXPECT(m, m->scopes.n > 0))
        return false;
    struct scope s = m->scopes.at[m->scopes.n - 1];
    struct opinfo *info = &m->op_infos.at[s.info];
    struct slice attrs = {0};
    uint32_t dict;
    if ((mlir_peek(m, '{') && !mlir_take_braces(m, &attrs)) ||
        !(has_regions ? generic_dict(m, &s, attrs, info, &dict)
                      : generic_dict_cached(m, &s, attrs, info, &dict)))
        return false;
    graph_op_dict(m->g, dict);
    if (!mlir_expect(m, ':', "expected ':' and types") || !mlir_function_type_read(m, s.operands))
        return false;
    return mlir_scope_finish(m);
}

bool mlir_in_module(const struct mlir *m)
{
    return m->scopes.n == 0 || (m->scopes.n == 1 && (m->scopes.at[0].kind == SCOPE_MODULE ||
                                                     m->scopes.at[0].kind == SCOPE_MODULE_GENERIC));
}

bool mlir_generic_region(struct mlir *m)
{
    if (!MLIR_EXPECT(m, m->scopes.n > 0) || !mlir_expect(m, '{', "expected '{'"))
        return false;
    struct scope *s = &m->scopes.at[m->scopes.n - 1];
    enum syntax syntax = m->op_infos.at[s->info].syntax;
    if (m->scopes.n == 1 && syntax == SYNTAX_MODULE) {
        s->kind = SCOPE_MODULE_GENERIC;
        if (m->module_seen)
            return mlir_malformed(m, "a second module");
        m->module_seen = true;
        graph_op_drop(m->g);
        return true;
    }
    m->scopes.n--;
    bool top = mlir_in_module(m);
    m->scopes.n++;
    if (top && syntax == SYNTAX_FUNC) {
        graph_op_drop(m->g);
        return mlir_func_generic_open(m, s);
    }
    region_open(m, s);
    return true;
}

bool mlir_op_generic(struct mlir *m, uint32_t lhs)
{
    const char *at = m->s.at;
    struct slice quoted = slice_string(&m->s);
    if (slice_len(quoted) < 3)
        return mlir_fail(m, at, WARM_EMALFORMED, "expected an operation's name");
    uint32_t i = mlir_info_of(m, (struct slice){quoted.at + 1, quoted.end - 1});
    if (m->failed)
        return false;
    const struct opinfo *info = &m->op_infos.at[i];
    struct scope *s = mlir_scope_push(m, SCOPE_GENERIC, info, lhs);
    if (!s || !mlir_expect(m, '(', "expected '('"))
        return false;
    graph_op_begin(m->g, info->graph_name);
    if (!mlir_operands_read(m) || !mlir_expect(m, ')', "expected ')' after operands"))
        return false;
    if (mlir_peek(m, '[')) {
        s->successors = (struct slice){m->s.at, slice_close(m->s)};
        if (s->successors.end >= m->s.end)
            return mlir_malformed(m, "successors that do not end");
        m->s.at = ++s->successors.end;
    }
    if (mlir_peek(m, '<')) {
        m->s.at++;
        if (!mlir_peek(m, '{') || !mlir_take_braces(m, &s->props))
            return mlir_malformed(m, "expected properties");
        if (!mlir_expect(m, '>', "expected '>'"))
            return false;
    }
    if (!mlir_peek(m, '('))
        return mlir_generic_tail(m, false);
    m->s.at++;
    return mlir_generic_region(m);
}
