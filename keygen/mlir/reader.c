/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reader.c - implements reader.h: reads types and attributes of a program whose operations are not
 * text. The bytecode reader calls it.
 *
 * Thread: any; the state is struct mlir.
 */
#include "keygen/mlir/reader.h"
#include "keygen/expect.h"
#include "keygen/mlir/internal.h"

#include <stdlib.h>

/* Makes the text the one in which errors are found. */
static struct slice text_enter(struct mlir *m, struct view text)
{
    m->begin = text.data;
    m->end = m->begin + text.len;
    m->s = (struct slice){m->begin, m->end};
    return m->s;
}

/* Returns the braces as a part of the generic form; {NULL, NULL} if there are none. */
static struct slice part_of(struct view braces)
{
    const char *at = braces.len ? braces.data : NULL;
    return (struct slice){at, at ? at + braces.len : NULL};
}

struct mlir *mlir_reader_new(bool many_processes, struct form *out, struct err *e)
{
    struct mlir *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    m->begin = m->end = "";
    m->copies = true;
    m->many_processes = many_processes;
    m->resources_read = true; /* there are none */
    mlir_begin(m, out, e);
    return m;
}

int mlir_reader_free(struct mlir *m, bool complete, struct form *out, struct err *e)
{
    int rc = mlir_end(m, complete, out, e);
    free(m);
    return rc;
}

bool mlir_reader_stopped(const struct mlir *m)
{
    return m->code || m->failed || graph_failed(m->g);
}

struct graph *mlir_reader_graph(const struct mlir *m) { return m->g; }

uint32_t mlir_reader_op(struct mlir *m, struct view name)
{
    if (m->failed || !MLIR_EXPECT(m, name.len >= 2)) /* in its quotes */
        return 0;
    struct slice text = text_enter(m, name);
    uint32_t op = mlir_info_of(m, (struct slice){text.at + 1, text.end - 1});
    return m->failed ? 0 : op;
}

uint32_t mlir_reader_name(const struct mlir *m, uint32_t op)
{
    return m->failed || !WARM_EXPECT(op < m->op_infos.n) ? 0 : m->op_infos.at[op].graph_name;
}

uint32_t mlir_reader_type(struct mlir *m, struct view text)
{
    if (m->failed || !MLIR_EXPECT(m, text.len > 0))
        return 0;
    text_enter(m, text);
    struct slice type = slice_type(&m->s);
    slice_skip(&m->s);
    if (m->s.at < m->s.end)
        mlir_malformed(m, "expected a type");
    return mlir_ok(m) ? mlir_type(m, type) : 0;
}

uint32_t mlir_reader_dict(struct mlir *m, uint32_t op, const struct mlir_parts *parts)
{
    if (m->failed || !MLIR_EXPECT(m, op < m->op_infos.n))
        return 0;
    uint32_t dict = 0;
    struct view successors = parts->successors;
    graph_dict_begin(m->g);
    if (successors.len) {
        graph_dict_key(m->g, "successors", 10);
        graph_dict_text(m->g, successors.data, successors.len);
    }
    text_enter(m, parts->properties);
    if (mlir_dict_part(m, part_of(parts->properties), &m->op_infos.at[op]) &&
        (text_enter(m, parts->attributes),
         mlir_dict_part(m, part_of(parts->attributes), &m->op_infos.at[op])))
        dict = graph_dict_end(m->g);
    return dict;
}

void mlir_reader_module(struct mlir *m, uint32_t op, const struct mlir_parts *parts)
{
    uint32_t dict;
    if (MLIR_EXPECT(m, op < m->op_infos.n) &&
        mlir_other_attrs(m, &m->op_infos.at[op], part_of(parts->properties),
                         part_of(parts->attributes), &dict))
        graph_module_dict(m->g, dict);
}

uint32_t mlir_reader_func(struct mlir *m, uint32_t op, const struct mlir_parts *parts,
                          const uint32_t *types, uint32_t n_args, bool is_declaration)
{
    struct func_props props;
    uint32_t dict, first = graph_n_values(m->g);
    struct slice braces = part_of(parts->properties);
    text_enter(m, parts->properties);
    if (!MLIR_EXPECT(m, op < m->op_infos.n) || !mlir_func_begin(m, braces, &props))
        return first;
    for (uint32_t i = 0; i < n_args; i++)
        mlir_func_arg(m, types[i], &props);
    if (!props.has_others) /* the usual case: the braces need no second look */
        braces = part_of((struct view){0});
    if (mlir_func_types(m, &props, is_declaration ? GRAPH_NONE : first) &&
        mlir_other_attrs(m, &m->op_infos.at[op], braces, part_of(parts->attributes), &dict))
        graph_func_dict(m->g, dict);
    return first;
}
