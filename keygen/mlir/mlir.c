/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mlir.c - reads MLIR text into a graph (KEYS.md, "MLIR"). canon.c calls it.
 *
 * It reads the text once. Each operation goes through
 *
 *     names on the left ── name ── operands, clauses, dictionary ── types ── bound names
 *
 * An operation with regions waits on the stack of scopes from its '{' to its '}'. So nesting costs
 * heap, never the call stack.
 *
 * The reader understands the generic form and the forms that StableHLO, CHLO, func and Shardy print. It
 * keeps any other operation as its tokens up to the end of the line, with numbers for values and
 * labels. It assumes that such an operation has effects. Text that is not MLIR is an error with its
 * line and column.
 *
 * Thread: any; no state.
 * Source: MLIR Language Reference, https://mlir.llvm.org/docs/LangRef/.
 */
#include "keygen/domains.h"
#include "keygen/mlir/internal.h"

#include <locale.h>
#include <stdlib.h>
#include <string.h>

/* Reads the '}' that closes the innermost scope. */
static bool scope_close(struct mlir *m)
{
    if (!m->scopes.n)
        return mlir_malformed(m, "a '}' that closes nothing");
    m->s.at++;
    struct scope *s = &m->scopes.at[m->scopes.n - 1];
    if (s->kind == SCOPE_FUNC || s->kind == SCOPE_FUNC_GENERIC)
        mlir_function_end(m, s->undo);
    else
        mlir_unbind_to(m, s->undo);
    switch (s->kind) {
    case SCOPE_FUNC:
        graph_func_end(m->g);
        /* fall through */
    case SCOPE_MODULE:
        m->scopes.n--;
        mlir_skip_loc(m);
        return true;
    case SCOPE_MODULE_GENERIC:
    case SCOPE_FUNC_GENERIC: return mlir_named_tail(m);
    case SCOPE_GENERIC:
        graph_region_end(m->g);
        if (slice_take(&m->s, ','))
            return mlir_generic_region(m);
        return mlir_expect(m, ')', "expected ')' after regions") && mlir_generic_tail(m, true);
    case SCOPE_COND:
        graph_region_end(m->g);
        s->kind = SCOPE_BODY;
        if (!slice_take_word(&m->s, "do"))
            return mlir_malformed(m, "expected 'do'");
        return mlir_while_region(m);
    case SCOPE_BODY:
    case SCOPE_REDUCER: graph_region_end(m->g); return mlir_scope_finish(m);
    case SCOPE_MANUAL:
        graph_region_end(m->g);
        if (!mlir_expect(m, ':', "expected ':' and types") ||
            !mlir_function_type_read(m, s->operands))
            return false;
        return mlir_scope_finish(m);
    }
    return false;
}

/* Reads "^bb1(%a: t):". */
static bool block_read(struct mlir *m)
{
    if (mlir_in_module(m))
        return mlir_malformed(m, "a block outside of any region");
    m->s.at++;
    struct slice name = slice_id(&m->s);
    uint32_t label = mlir_label(m, name);
    m->scopes.at[m->scopes.n - 1].in_block = true;
    graph_block_begin(m->g, label);
    if (slice_take(&m->s, '(') && !mlir_block_args_read(m))
        return false;
    return mlir_expect(m, ':', "expected ':' after a label");
}

/* Reads "#alias = ..." or "!alias = ...". */
static bool alias_read(struct mlir *m)
{
    char sigil = *m->s.at++;
    struct slice name = slice_id(&m->s);
    uint32_t hash;
    if (name.at == name.end || !mlir_expect(m, '=', "expected '='"))
        return mlir_malformed(m, "expected an alias");
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
        return mlir_malformed(m, "an alias is defined twice");
    PUSH(m, m->alias_values, value);
    cache_add(m, &m->aliases, (uint32_t)sigil, name, hash, m->alias_values.n - 1);
    return !m->failed;
}

/* False at the beginning of a region in the generic form: its first block may still have a label. */
static bool in_block(const struct mlir *m)
{
    const struct scope *s = m->scopes.n ? &m->scopes.at[m->scopes.n - 1] : NULL;
    return !s || s->in_block || s->kind != SCOPE_GENERIC;
}

static bool op_read(struct mlir *m)
{
    uint32_t lhs = m->lhs.n;
    if (*m->s.at == '%' && !mlir_lhs_read(m))
        return false;
    slice_skip(&m->s);
    if (!in_block(m))
        mlir_block_open(m, &m->scopes.at[m->scopes.n - 1]);
    if (m->s.at < m->s.end && *m->s.at == '"')
        return mlir_op_generic(m, lhs);
    const char *at = m->s.at;
    struct slice name = slice_word(&m->s);
    if (name.at == name.end)
        return mlir_fail(m, at, WARM_EMALFORMED, "expected an operation");
    uint32_t i = mlir_info_of(m, name);
    if (m->failed)
        return false;
    const struct opinfo *info = &m->op_infos.at[i];
    switch (info->syntax) {
    case SYNTAX_SIMPLE:
    case SYNTAX_COMPARE: return mlir_op_simple(m, info, lhs);
    case SYNTAX_CONSTANT: return mlir_op_constant(m, info, lhs);
    case SYNTAX_CALL:
    case SYNTAX_CUSTOM_CALL:
    case SYNTAX_COMPOSITE: return mlir_op_call(m, info, lhs);
    case SYNTAX_WHILE: return mlir_op_while(m, info, lhs) && mlir_while_region(m);
    case SYNTAX_REDUCE: return mlir_op_reduce(m, info, lhs);
    case SYNTAX_MANUAL: return mlir_op_manual(m, info, lhs);
    case SYNTAX_MESH: return mlir_op_mesh(m, info, lhs);
    case SYNTAX_FUNC:
        if (mlir_in_module(m))
            return mlir_op_func(m, info);
        break;
    case SYNTAX_MODULE:
        if (m->scopes.n == 0)
            return mlir_op_module(m, info);
        break;
    case SYNTAX_UNKNOWN: break;
    }
    return mlir_op_as_text(m, info, lhs);
}

static bool item_read(struct mlir *m)
{
    char c = *m->s.at;
    if (c == '}')
        return scope_close(m);
    if (c == '^')
        return block_read(m);
    if (c == '#' || c == '!')
        return mlir_in_module(m) ? alias_read(m)
                                 : mlir_malformed(m, "an alias inside of a function");
    if (c == '{' && m->s.end - m->s.at > 2 && memcmp(m->s.at, "{-#", 3) == 0) {
        /* "{-# ... #-}", the data of resources: dense.c reads it when a constant names one. */
        const char *end = memmem(m->s.at, (size_t)(m->s.end - m->s.at), "#-}", 3);
        if (!end)
            return mlir_fail(m, m->s.end, WARM_EMALFORMED, "resources that do not end");
        m->s.at = end + 3;
        return true;
    }
    return op_read(m);
}

static bool mlir_read(struct mlir *m)
{
    bool empty = true;
    while (slice_skip(&m->s), m->s.at < m->s.end) {
        if (!item_read(m) || m->failed || graph_failed(m->g))
            return false;
        empty = false;
    }
    if (m->scopes.n)
        return mlir_fail(m, m->end, WARM_EMALFORMED, "a region is not closed");
    return !empty || mlir_fail(m, m->begin, WARM_EMALFORMED, "no operation");
}

static void mlir_close(struct mlir *m)
{
    struct names *caches[] = {&m->types,     &m->dicts, &m->named,   &m->labels,
                              &m->resources, &m->axes,  &m->aliases, &m->infos};
    for (size_t i = 0; i < sizeof caches / sizeof *caches; i++)
        names_close(caches[i]);
    void *arrays[] = {
        m->alias_values.at, m->resource_values.at, m->named_bindings.at, m->undo.at,
        m->lhs.at,          m->scopes.at,          m->operands.at,       m->types_stack.at,
        m->arg_slots.at,    m->op_infos.at,        m->pending.at};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        free(arrays[i]);
    for (uint32_t i = 0; i < m->n_families; i++)
        free(m->families[i].bindings.at);
    writer_close(&m->scratch);
    writer_close(&m->bytes);
    if (m->c_locale)
        freelocale((locale_t)m->c_locale);
}

void mlir_begin(struct mlir *m, struct form *out, struct err *e)
{
    m->e = e;
    m->n_families = 1; /* of the empty word */
    writer_init(&m->scratch, 0);
    writer_init(&m->bytes, 0);
    m->g = graph_new(DOMAIN_MLIR, out);
    m->failed = !m->g;
    if (m->g)
        m->unknown_type = graph_type(m->g, "?", 1);
}

int mlir_end(struct mlir *m, bool complete, struct form *out, struct err *e)
{
    int rc = m->code;
    if (!rc && (m->failed || graph_failed(m->g)))
        rc = err_set(e, WARM_ENOMEM, "no memory to read MLIR");
    out->why_exact = m->why_exact;
    mlir_close(m);
    if (!rc && complete)
        rc = graph_end(m->g, e);
    graph_free(m->g);
    return rc;
}

int form_mlir(const struct canon_input *input, struct form *out, struct err *e)
{
    const char *text = input->data;
    size_t names = input->len / 64;
    struct mlir m = {.begin = text,
                     .end = text + input->len,
                     .number_max = names < VECTOR_MAX ? (uint32_t)names + 4096 : VECTOR_MAX,
                     .many_processes = input->many_processes};
    m.s = (struct slice){m.begin, m.end};
    mlir_begin(&m, out, e);
    if (!m.failed)
        mlir_read(&m);
    return mlir_end(&m, true, out, e);
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
