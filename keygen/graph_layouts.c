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

static bool name_ends(const struct graph *g, const struct shape *s, const char *with)
{
    const struct text *name = &g->names.items.at[s->name];
    size_t len = strlen(with);
    return name->len > len && memcmp(name->data + name->len - len, with, len) == 0;
}

/* Does anything come out that does not lie row by row, or may it come in so? */
static bool any_turned(const struct graph *g)
{
    for (uint32_t i = 0; i < g->shapes.n; i++) {
        const struct shape *s = &g->shapes.at[i];
        if (name_ends(g, s, ".transpose") ||
            (name_ends(g, s, ".custom_call") && dict_has(g, s->dict, "layout")))
            return true;
    }
    for (uint32_t i = 0; i < g->arg_dicts.n; i++)
        if (g->arg_dicts.at[i] && dict_has(g, g->arg_dicts.at[i], "layout"))
            return true;
    return dict_has(g, g->module_dict, "layout");
}

/* May operations of this shape care how what they take lies? In MLIR, whose names have a dot. */
static bool shape_may_care(const struct graph *g, const struct shape *s)
{
    const struct text *name = &g->names.items.at[s->name];
    return s->n_operands && memchr(name->data, '.', name->len) &&
           (values_role(g, s->name) == PRODUCT || name_ends(g, s, ".bitcast_convert"));
}

/* Does an operation that may? Not the product of two matrices over one dimension, nor what keeps the rank. */
static bool op_cares(const struct graph *g, const struct node *o, const struct shape *s)
{
    const uint32_t *operands = op_operands(g, o, s);
    unsigned rank = rank_of(g, value_type(g, operands[0]));
    if (name_ends(g, s, ".bitcast_convert"))
        return rank != rank_of(g, s->type);
    bool plain = name_ends(g, s, ".dot_general") && s->n_operands == 2 && rank <= 2 &&
                 rank_of(g, value_type(g, operands[1])) <= 2 &&
                 dict_has(g, s->dict, "lhs_contracting_dimensions = [") &&
                 !dict_has(g, s->dict, "lhs_contracting_dimensions = [0, ") &&
                 !dict_has(g, s->dict, "lhs_contracting_dimensions = [1, ") &&
                 !dict_has(g, s->dict, "lhs_batching_dimensions = [0") &&
                 !dict_has(g, s->dict, "lhs_batching_dimensions = [1");
    return !plain;
}

static bool any_caring(struct graph *g)
{
    bool *may = vector_zeroes(g->shapes.n, sizeof *may), any = false, found = false;
    g->failed |= !may;
    for (uint32_t i = 0; i < g->shapes.n && may; i++)
        any |= may[i] = shape_may_care(g, &g->shapes.at[i]);
    for (uint32_t id = 0; id < g->nodes.n && any && !found; id++) {
        const struct node *o = &g->nodes.at[id];
        found = node_is_op(o) && may[o->shape] && op_cares(g, o, op_shape(g, o));
    }
    free(may);
    return found;
}

bool graph_layouts_show(struct graph *g) { return any_turned(g) && any_caring(g); }
