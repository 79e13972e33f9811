/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graph_layouts.c - whether it shows how values lie in memory before a compiler says how.
 *
 * MLIR has no layouts, but XLA's HLO has, and they come in with it: a transposed value lies as it did before, what
 * is computed element for element lies as its first operand, the parameters and the results of functions row by
 * row. XLA for GPUs then chooses layouts of its own, but leaves what products of more than two matrices take as it
 * lies, and what changes its rank bit for bit (KEYS.md 2.2). So where there are both, the order of operands and
 * what is a call decide how a product is computed. HLO text says all layouts itself.
 */
#include "keygen/graph_values.h"

#include <stdlib.h>

/* How many dimensions a type has, which is tensor<2x?xf32>. */
static unsigned rank_of(const struct graph *g, uint32_t type)
{
    struct view t = graph_type_text(g, type);
    const char *at = memchr(t.data, '<', t.len), *end = t.data + t.len;
    unsigned rank = 0;
    while (at && ++at < end) {
        const char *from = at;
        while (at < end && (*at == '?' || (*at >= '0' && *at <= '9')))
            at++;
        if (at == from || at == end || *at != 'x')
            break;
        rank++;
    }
    return rank;
}

static bool dict_has(const struct graph *g, uint32_t dict, const char *what)
{
    const struct dict *d = &g->dicts.at[dict];
    return memmem(d->text, d->len, what, strlen(what)) != NULL;
}

/* What operations of a name do, in MLIR, whose names have a dot. */
enum { TURNS = 1, LIES = 2, MULTIPLIES = 4, CASTS = 8 };

static uint8_t name_kind(const struct graph *g, uint32_t opname)
{
    const struct text *name = &g->names.items.at[opname];
    const char *dot = memrchr(name->data, '.', name->len);
    size_t len = dot ? (size_t)(name->data + name->len - dot) : 0;
    if (len == 10 && memcmp(dot, ".transpose", len) == 0)
        return TURNS;
    if (len == 12 && memcmp(dot, ".custom_call", len) == 0)
        return LIES;
    if (len == 16 && memcmp(dot, ".bitcast_convert", len) == 0)
        return CASTS;
    return dot && values_role(g, opname) == PRODUCT ? MULTIPLIES : 0;
}

/* Does anything come out that does not lie row by row, or may it come in so? */
static bool any_turned(const struct graph *g, const uint8_t *kinds)
{
    for (uint32_t i = 0; i < g->shapes.n; i++) {
        const struct shape *s = &g->shapes.at[i];
        if (kinds[s->name] == TURNS || (kinds[s->name] == LIES && dict_has(g, s->dict, "layout")))
            return true;
    }
    for (uint32_t i = 0; i < g->arg_dicts.n; i++)
        if (g->arg_dicts.at[i] && dict_has(g, g->arg_dicts.at[i], "layout"))
            return true;
    return dict_has(g, g->module_dict, "layout");
}

/* Is it a product over one dimension, of nothing that goes side by side? Of matrices, if its operands are. */
static bool is_plain(const struct graph *g, const struct shape *s)
{
    return s->n_operands == 2 && dict_has(g, s->dict, "lhs_contracting_dimensions = [") &&
           !dict_has(g, s->dict, "lhs_contracting_dimensions = [0, ") &&
           !dict_has(g, s->dict, "lhs_contracting_dimensions = [1, ") &&
           !dict_has(g, s->dict, "lhs_batching_dimensions = [0") &&
           !dict_has(g, s->dict, "lhs_batching_dimensions = [1");
}

/* Does an operation, of a shape that may, care how what it takes lies? */
static bool op_cares(const struct graph *g, const struct node *o, const struct shape *s,
                     uint8_t kind)
{
    const uint32_t *operands = op_operands(g, o, s);
    if (kind == CASTS)
        return s->n_operands == 1 && rank_of(g, s->type) != rank_of(g, value_type(g, operands[0]));
    return rank_of(g, value_type(g, operands[0])) > 2 || rank_of(g, value_type(g, operands[1])) > 2;
}

/* Does anything? `kinds`: of names. */
static bool any_caring(struct graph *g, const uint8_t *kinds)
{
    uint8_t *by_shape = vector_zeroes(g->shapes.n, sizeof *by_shape);
    bool found = false;
    g->failed |= !by_shape;
    for (uint32_t i = 0; i < g->shapes.n && by_shape && !found; i++) {
        const struct shape *s = &g->shapes.at[i];
        by_shape[i] = kinds[s->name] & (MULTIPLIES | CASTS);
        found = by_shape[i] == MULTIPLIES && !is_plain(g, s);
    }
    for (uint32_t id = 0; id < g->nodes.n && by_shape && !found; id++) {
        const struct node *o = &g->nodes.at[id];
        if (node_is_op(o) && by_shape[o->shape])
            found = op_cares(g, o, op_shape(g, o), by_shape[o->shape]);
    }
    free(by_shape);
    return found;
}

bool graph_layouts_show(struct graph *g)
{
    uint8_t *kinds = vector_zeroes(g->names.items.n, sizeof *kinds), all = 0;
    g->failed |= !kinds;
    for (uint32_t i = 0; i < g->names.items.n && kinds; i++)
        all |= kinds[i] = name_kind(g, i);
    bool show = all & (MULTIPLIES | CASTS) && any_turned(g, kinds) && any_caring(g, kinds);
    free(kinds);
    return show;
}
