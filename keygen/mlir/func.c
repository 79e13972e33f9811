/* SPDX-License-Identifier: Apache-2.0 */
/*
 * func.c - reads functions and modules of MLIR text, in the form that func prints and in the
 * generic form: symbol, visibility, arguments with their attributes, results. mlir.c and region.c
 * call it.
 *
 * Thread: any; the state is struct mlir.
 */
#include "keygen/mlir/internal.h"

#include <string.h>

/* A function's properties in the generic form. */
enum { FUNC_NAME, FUNC_TYPE, FUNC_ARGS, FUNC_RESULTS, FUNC_VISIBILITY, FUNC_PROPS };
static const char *const func_props[FUNC_PROPS] = {"sym_name", "function_type", "arg_attrs",
                                                   "res_attrs", "sym_visibility"};

/* Returns the property that a key names; FUNC_PROPS if it names none. */
static size_t func_prop(struct slice key)
{
    size_t i = 0;
    while (i < FUNC_PROPS && !slice_is(key, func_props[i]))
        i++;
    return i;
}

/* Reads the values of a function's properties. If a key comes twice, the first counts. Behind a key
 * in quotes it looks for no property. Writes all other entries to `rest`, with a comma behind
 * each. */
static void func_props_read(struct slice braces, struct slice out[FUNC_PROPS], struct writer *rest)
{
    struct slice s = {braces.at ? braces.at + 1 : NULL, braces.at ? braces.end - 1 : NULL};
    bool seen[FUNC_PROPS + 1] = {false}, odd = false;
    memset(out, 0, FUNC_PROPS * sizeof *out);
    while (slice_skip(&s), s.at < s.end) {
        struct slice entry = {s.at, slice_find(s, ',')}, key = slice_word(&s);
        size_t i = func_prop(key);
        odd |= key.at == key.end;
        if (i == FUNC_PROPS) {
            writer_bytes(rest, entry.at, slice_len(entry));
            writer_bytes(rest, ",", 1);
        } else if (!seen[i] && !odd && slice_take(&s, '=')) {
            out[i] = (struct slice){s.at, entry.end};
            slice_trim(&out[i]);
        }
        seen[i] = true;
        s.at = entry.end;
        if (!slice_take(&s, ',') && s.at < s.end)
            break;
    }
}

/* Reads the properties of the scope. If the text comes in pieces, it keeps only the other entries,
 * because the types and attributes are most of a large function's text. */
static void func_props_take(struct mlir *m, struct scope *s, struct slice out[FUNC_PROPS])
{
    struct writer rest;
    writer_init(&rest, 0);
    writer_bytes(&rest, "{", 1);
    func_props_read(s->props, out, &rest);
    writer_bytes(&rest, "}", 1);
    m->failed |= rest.failed;
    if (m->pieces && s->props.at && !rest.failed) {
        const char *text = (const char *)rest.data;
        s->props = mlir_keep(m, (struct slice){text, text + rest.len});
    }
    writer_close(&rest);
}

/* Reads the next element of "[{..}, {..}]". Returns the dictionary without entries after the last
 * one. */
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

/* True if nothing more follows about an argument or a result whose type was read. */
static inline bool is_over(const struct mlir *m)
{
    return m->s.at < m->s.end && (*m->s.at == ',' || *m->s.at == ')');
}

/* Reads "(%arg0: type {attrs} loc(..), ...)". */
static bool func_args(struct mlir *m)
{
    if (!mlir_expect(m, '(', "expected '('"))
        return false;
    if (slice_take(&m->s, ')'))
        return true;
    do {
        struct slice attrs;
        uint64_t slot = 0;
        uint32_t type, dict = 0;
        bool named = mlir_peek(m, '%');
        if (named) {
            if (!mlir_arg_read(m, &slot, &type))
                return false;
        } else {
            type = mlir_type_take(m);
        }
        if (!is_over(m)) {
            if (mlir_peek(m, '{')) {
                if (!mlir_take_braces(m, &attrs))
                    return false;
                dict = mlir_dict(m, attrs, NULL);
            }
            mlir_skip_loc(m);
        }
        uint32_t value = graph_func_arg(m->g, type, dict);
        if (named)
            mlir_bind(m, slot, value, 1);
        if (!mlir_ok(m))
            return false;
    } while (slice_take(&m->s, ','));
    return mlir_expect(m, ')', "expected ')' after arguments");
}

/* Reads "-> type" or "-> (type {attrs}, ...)". */
static bool func_results(struct mlir *m)
{
    if (!mlir_take_arrow(m))
        return true;
    bool list = mlir_peek(m, '(');
    if (list) {
        m->s.at++;
        if (slice_take(&m->s, ')'))
            return true;
    }
    do {
        struct slice attrs;
        uint32_t type = mlir_type_take(m), dict = 0;
        if (list && !is_over(m) && mlir_peek(m, '{')) {
            if (!mlir_take_braces(m, &attrs))
                return false;
            dict = mlir_dict(m, attrs, NULL);
        }
        graph_func_result(m->g, type, dict);
        if (!mlir_ok(m))
            return false;
    } while (list && slice_take(&m->s, ','));
    return !list || mlir_expect(m, ')', "expected ')' after results");
}

bool mlir_op_func(struct mlir *m, const struct opinfo *info)
{
    struct slice attrs, before = m->s, word = slice_word(&m->s);
    if (!is_private(word) && !slice_is(word, "public") && !slice_is(word, "nested"))
        m->s = before;
    if (!mlir_peek(m, '@'))
        return mlir_malformed(m, "expected the function's name");
    struct scope *s = mlir_scope_push(m, SCOPE_FUNC, info, m->lhs.n);
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
        if (!mlir_take_braces(m, &attrs))
            return false;
        graph_func_dict(m->g, mlir_dict(m, attrs, NULL));
    }
    if (slice_take(&m->s, '{'))
        return true;
    graph_func_end(m->g); /* a declaration */
    mlir_function_end(m, s->undo);
    m->scopes.n--;
    mlir_skip_loc(m);
    return true;
}

/* Reads `"func.func"() <{function_type = (t) -> t, sym_name = "f", ...}> ({` and opens its first
 * block. */
bool mlir_func_generic_open(struct mlir *m, struct scope *s)
{
    struct slice props[FUNC_PROPS];
    func_props_take(m, s, props);
    struct slice name = props[FUNC_NAME], type = props[FUNC_TYPE], args = props[FUNC_ARGS],
                 results = props[FUNC_RESULTS], visibility = props[FUNC_VISIBILITY];
    if (slice_len(name) < 3 || *name.at != '"' || !type.at)
        return mlir_malformed(m, "a function needs a name and a type");
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
    if (mlir_peek(m, '^')) {
        m->s.at++;
        struct slice label = slice_id(&m->s);
        mlir_label(m, label);
        s->in_block = true;
        if (slice_take(&m->s, '(') && !slice_take(&m->s, ')')) {
            do {
                uint64_t slot;
                uint32_t arg_type;
                if (!mlir_arg_read(m, &slot, &arg_type))
                    return false;
                mlir_bind(m, slot, graph_func_arg(m->g, arg_type, next_dict(m, &args)), 1);
                n_args++;
            } while (slice_take(&m->s, ','));
            if (!mlir_expect(m, ')', "expected ')' after arguments"))
                return false;
        }
        if (!mlir_expect(m, ':', "expected ':' after a label"))
            return false;
    } else if (!mlir_peek(m, '}')) {
        s->in_block = true;
        s->n_labels = 1;
    }
    after = m->s;
    m->s = type;
    bool declaration = !s->in_block;
    const char *close = mlir_peek(m, '(') ? slice_close(m->s) : m->s.end;
    if (close >= m->s.end)
        return mlir_malformed(m, "expected a function's type");
    struct slice list = {m->s.at + 1, close};
    uint32_t n = 0;
    for (; slice_skip(&list), list.at < list.end; n++) {
        uint32_t arg_type = mlir_type(m, slice_type(&list));
        if (declaration)
            graph_func_arg(m->g, arg_type, next_dict(m, &args));
        else if (n >= n_args || graph_value_type(m->g, first + n) != arg_type)
            return mlir_malformed(m, "the function's type and its arguments do not agree");
        if (!mlir_ok(m) || (!slice_take(&list, ',') && list.at < list.end))
            return mlir_malformed(m, "expected a type");
    }
    if (!declaration && n != n_args)
        return mlir_malformed(m, "the function's type and its arguments do not agree");
    m->s.at = close + 1;
    uint32_t types = m->types_stack.n;
    if (!mlir_take_arrow(m))
        return mlir_malformed(m, "expected '->'");
    if (!mlir_results_read(m, GRAPH_NONE))
        return false;
    for (uint32_t i = types; i < m->types_stack.n; i++)
        graph_func_result(m->g, m->types_stack.at[i], next_dict(m, &results));
    m->types_stack.n = types;
    m->s = after;
    return mlir_ok(m);
}

/* Makes the dictionary of the other attributes of a function or module in the generic form. */
static bool rest_dict(struct mlir *m, struct slice props, struct slice attrs, uint32_t *out)
{
    struct slice s = {props.at ? props.at + 1 : NULL, props.at ? props.end - 1 : NULL};
    graph_dict_begin(m->g);
    while (slice_skip(&s), s.at < s.end) {
        struct slice entry = {s.at, slice_find(s, ',')}, key = slice_word(&s);
        if (func_prop(key) == FUNC_PROPS && !mlir_dict_entries(m, entry, NULL))
            return false;
        s.at = entry.end;
        slice_take(&s, ',');
    }
    if (attrs.at && !mlir_dict_entries(m, (struct slice){attrs.at + 1, attrs.end - 1}, NULL))
        return false;
    *out = graph_dict_end(m->g);
    return mlir_ok(m);
}

/* Reads "){attrs} : () -> ()" behind the region of a function or module in the generic form. */
bool mlir_named_tail(struct mlir *m)
{
    struct scope s = m->scopes.at[m->scopes.n - 1];
    struct slice attrs = {0};
    uint32_t dict;
    if (!mlir_expect(m, ')', "expected ')'") ||
        (mlir_peek(m, '{') && !mlir_take_braces(m, &attrs)) || !rest_dict(m, s.props, attrs, &dict))
        return false;
    if (s.kind == SCOPE_FUNC_GENERIC) {
        graph_func_dict(m->g, dict);
        graph_func_end(m->g);
    } else {
        graph_module_dict(m->g, dict);
    }
    m->scopes.n--;
    if (!mlir_expect(m, ':', "expected ':'") || !mlir_function_type_read(m, m->operands.n))
        return false;
    m->types_stack.n = s.types;
    mlir_skip_loc(m);
    return true;
}

bool mlir_op_module(struct mlir *m, const struct opinfo *info)
{
    struct slice attrs;
    if (m->module_seen) {
        m->why_exact = "more than one module";
        return mlir_fail(m, m->s.at, WARM_EUNSUPPORTED, m->why_exact);
    }
    m->module_seen = true;
    if (mlir_peek(m, '@'))
        mlir_symbol(m, &m->s);
    if (slice_take_word(&m->s, "attributes")) {
        slice_skip(&m->s);
        if (!mlir_take_braces(m, &attrs))
            return false;
        graph_module_dict(m->g, mlir_dict(m, attrs, NULL));
    }
    return mlir_scope_push(m, SCOPE_MODULE, info, m->lhs.n) && mlir_expect(m, '{', "expected '{'");
}
