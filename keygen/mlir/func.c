/* SPDX-License-Identifier: Apache-2.0 */
/*
 * func.c - reads functions and modules of MLIR text, in the form that func prints and in the
 * generic form: symbol, visibility, arguments with their attributes, results. mlir.c and region.c
 * call it.
 *
 * Thread: any; the state is struct mlir.
 */
#include "keygen/mlir/internal.h"

#include <stddef.h>
#include <string.h>

/* Returns the place for the property that a key names; NULL if it names none. */
static struct slice *func_prop(struct func_props *props, struct slice key)
{
    static const struct {
        const char *name;
        size_t place;
    } names[] = {{"sym_name", offsetof(struct func_props, name)},
                 {"function_type", offsetof(struct func_props, type)},
                 {"arg_attrs", offsetof(struct func_props, args)},
                 {"res_attrs", offsetof(struct func_props, results)},
                 {"sym_visibility", offsetof(struct func_props, visibility)}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (slice_is(key, names[i].name))
            return (struct slice *)((char *)props + names[i].place);
    return NULL;
}

/* Reads the values of a function's properties. If a key comes twice, the first counts. Behind a key
 * in quotes it looks for no property. */
static void func_props_read(struct slice braces, struct func_props *out)
{
    struct slice s = {braces.at ? braces.at + 1 : NULL, braces.at ? braces.end - 1 : NULL};
    bool odd = false;
    *out = (struct func_props){0};
    while (slice_skip(&s), s.at < s.end) {
        struct slice entry = {s.at, slice_find(s, ',')}, key = slice_word(&s);
        struct slice *prop = func_prop(out, key);
        odd |= key.at == key.end;
        out->has_others |= !prop;
        if (prop && !prop->at && !odd && slice_take(&s, '=')) {
            *prop = (struct slice){s.at, entry.end};
            slice_trim(prop);
        }
        s.at = entry.end;
        if (!slice_take(&s, ',') && s.at < s.end)
            break;
    }
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
        graph_func_dict(m->g, mlir_dict(m, attrs, info));
    }
    if (slice_take(&m->s, '{'))
        return true;
    graph_func_end(m->g); /* a declaration */
    mlir_function_end(m, s->undo);
    m->scopes.n--;
    mlir_skip_loc(m);
    return true;
}

bool mlir_func_begin(struct mlir *m, struct slice braces, struct func_props *out)
{
    func_props_read(braces, out);
    struct slice name = out->name;
    if (slice_len(name) < 3 || *name.at != '"' || !out->type.at)
        return mlir_malformed(m, "a function needs a name and a type");
    struct slice bare = {name.at + 1, name.end - 1}, word = bare;
    if (slice_id(&bare).end != word.end)
        word = name;
    graph_func_begin(m->g, graph_symbol(m->g, word.at, slice_len(word)),
                     !slice_is(out->visibility, "\"private\""));
    return true;
}

uint32_t mlir_func_arg(struct mlir *m, uint32_t type, struct func_props *props)
{
    return graph_func_arg(m->g, type, next_dict(m, &props->args));
}

bool mlir_func_types(struct mlir *m, struct func_props *props, uint32_t first)
{
    struct slice back = m->s;
    if (!MLIR_EXPECT(m, first == GRAPH_NONE || first <= graph_n_values(m->g)))
        return false;
    uint32_t n_args = graph_n_values(m->g) - first, n = 0, types = m->types_stack.n;
    m->s = props->type;
    const char *close = mlir_peek(m, '(') ? slice_close(m->s) : m->s.end;
    if (close >= m->s.end)
        return mlir_malformed(m, "expected a function's type");
    struct slice list = {m->s.at + 1, close};
    for (; slice_skip(&list), list.at < list.end; n++) {
        uint32_t type = mlir_type(m, slice_type(&list));
        if (first == GRAPH_NONE)
            mlir_func_arg(m, type, props);
        else if (n >= n_args || graph_value_type(m->g, first + n) != type)
            return mlir_malformed(m, "the function's type and its arguments do not agree");
        if (!mlir_ok(m) || (!slice_take(&list, ',') && list.at < list.end))
            return mlir_malformed(m, "expected a type");
    }
    if (first != GRAPH_NONE && n != n_args)
        return mlir_malformed(m, "the function's type and its arguments do not agree");
    m->s.at = close + 1;
    if (!mlir_take_arrow(m))
        return mlir_malformed(m, "expected '->'");
    if (!mlir_results_read(m, GRAPH_NONE))
        return false;
    for (uint32_t i = types; i < m->types_stack.n; i++)
        graph_func_result(m->g, m->types_stack.at[i], next_dict(m, &props->results));
    m->types_stack.n = types;
    m->s = back;
    return mlir_ok(m);
}

bool mlir_func_generic_open(struct mlir *m, struct scope *s)
{
    struct func_props props;
    s->kind = SCOPE_FUNC_GENERIC;
    s->undo = m->undo.n;
    mlir_function_begin(m);
    if (!mlir_func_begin(m, s->props, &props))
        return false;
    uint32_t first = graph_n_values(m->g);
    if (mlir_peek(m, '^')) {
        m->s.at++;
        struct slice label = slice_id(&m->s);
        mlir_label(m, label);
        s->in_block = true;
        if (slice_take(&m->s, '(') && !slice_take(&m->s, ')')) {
            do {
                uint64_t slot;
                uint32_t type;
                if (!mlir_arg_read(m, &slot, &type))
                    return false;
                mlir_bind(m, slot, mlir_func_arg(m, type, &props), 1);
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
    return mlir_func_types(m, &props, s->in_block ? first : GRAPH_NONE);
}

bool mlir_other_attrs(struct mlir *m, const struct opinfo *info, struct slice props,
                      struct slice attrs, uint32_t *out)
{
    struct slice s = {props.at ? props.at + 1 : NULL, props.at ? props.end - 1 : NULL};
    struct func_props unused;
    graph_dict_begin(m->g);
    while (slice_skip(&s), s.at < s.end) {
        struct slice entry = {s.at, slice_find(s, ',')}, key = slice_word(&s);
        if (!func_prop(&unused, key) && !mlir_dict_entries(m, entry, info))
            return false;
        s.at = entry.end;
        slice_take(&s, ',');
    }
    if (!mlir_dict_part(m, attrs, info))
        return false;
    *out = graph_dict_end(m->g);
    return mlir_ok(m);
}

bool mlir_named_tail(struct mlir *m)
{
    if (!MLIR_EXPECT(m, m->scopes.n > 0))
        return false;
    struct scope s = m->scopes.at[m->scopes.n - 1];
    struct slice attrs = {0};
    uint32_t dict;
    if (!mlir_expect(m, ')', "expected ')'") ||
        (mlir_peek(m, '{') && !mlir_take_braces(m, &attrs)) ||
        !mlir_other_attrs(m, &m->op_infos.at[s.info], s.props, attrs, &dict))
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
        graph_module_dict(m->g, mlir_dict(m, attrs, info));
    }
    return mlir_scope_push(m, SCOPE_MODULE, info, m->lhs.n) && mlir_expect(m, '{', "expected '{'");
}
