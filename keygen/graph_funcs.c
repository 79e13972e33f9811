/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graph_funcs.c - which functions of a graph count, in which order, and which of them are inlined.
 *
 * Those are taken that the public ones and the module's own level reach, callees before callers. A plain
 * private one is inlined, unless that would make the module much larger: then only small ones are.
 */
#include "keygen/graph_internal.h"

#include <stdlib.h>
#include <string.h>

#define INLINE_FREE (128u * 1024) /* operations after inlining that any module may have */
#define SIZE_MAX_OPS ((uint64_t)1 << 40)

struct func *graph_func_of(const struct graph *g, uint32_t symbol)
{
    uint32_t f = symbol < g->symbol_func.n ? g->symbol_func.at[symbol] : NONE;
    return f < g->funcs.n ? &g->funcs.at[f] : NULL;
}

bool graph_symbol_numbered(const struct graph *g, uint32_t symbol)
{
    if (symbol < g->symbol_func.n && g->symbol_func.at[symbol] == SYMBOL_PRIVATE)
        return true;
    const struct func *f = graph_func_of(g, symbol);
    return f && f->defined && (!f->is_public || g->n_public == 1);
}

/* Depth-first from one function along its uses; a function is appended after those it uses. */
static void func_walk(struct graph *g, uint32_t root)
{
    if (g->funcs.at[root].reached)
        return;
    g->funcs.at[root].reached = true;
    PUSH(g, g->walk, (uint64_t)root << 32);
    while (g->walk.n && !g->failed) {
        uint64_t *top = &g->walk.at[g->walk.n - 1];
        struct func *f = &g->funcs.at[*top >> 32];
        uint32_t i = (uint32_t)*top;
        if (i == f->n_uses) {
            f->walked = true;
            PUSH(g, g->func_order, (uint32_t)(*top >> 32));
            g->walk.n--;
            continue;
        }
        ++*top;
        struct func *used = graph_func_of(g, g->uses.at[f->uses + i].symbol);
        if (!used)
            continue;
        if (used->reached) {
            used->recursive |= !used->walked;
            continue;
        }
        used->reached = true;
        PUSH(g, g->walk, (uint64_t)(used - g->funcs.at) << 32);
    }
}

/* Uses that belong to no function are the module's own. */
static void module_uses_walk(struct graph *g)
{
    uint32_t next = 0;
    for (uint32_t i = 0; i <= g->funcs.n; i++) {
        uint32_t end = i < g->funcs.n ? g->funcs.at[i].uses : g->uses.n;
        for (; next < end; next++) {
            struct func *f = graph_func_of(g, g->uses.at[next].symbol);
            if (f)
                func_walk(g, (uint32_t)(f - g->funcs.at));
        }
        if (i < g->funcs.n)
            next = g->funcs.at[i].uses + g->funcs.at[i].n_uses;
    }
}

static void funcs_reach(struct graph *g)
{
    for (uint32_t i = 0; i < g->funcs.n; i++)
        g->n_public += g->funcs.at[i].is_public && g->funcs.at[i].defined;
    if (!g->n_public) /* a fragment: nothing is known to be unused */
        for (uint32_t i = 0; i < g->funcs.n; i++) {
            g->funcs.at[i].is_public = true;
            g->n_public += g->funcs.at[i].defined;
        }
    for (uint32_t i = 0; i < g->funcs.n; i++)
        if (g->funcs.at[i].is_public)
            func_walk(g, i);
    module_uses_walk(g);
}

/* A function that says nothing but what its operations say, in a module where calls may be inlined. */
static bool func_is_plain(const struct graph *g, const struct func *f)
{
    const struct block *b = &g->blocks.at[f->block];
    if (g->several || g->widths_differ || g->products_meet || g->layouts_show || g->as_given ||
        f->is_public || !f->defined || f->recursive || f->dict || b->frozen || b->last == NONE)
        return false;
    for (uint32_t i = 0; i < b->n_args; i++)
        if (g->arg_dicts.at[f->arg_dicts + i])
            return false;
    for (uint32_t i = 0; i < f->n_results; i++)
        if (g->pairs.at[f->results + 2 * i + 1])
            return false;
    const struct node *ret = &g->nodes.at[b->last]; /* says nothing but which values */
    const struct shape *says = op_shape(g, ret);
    return says->n_operands == f->n_results && !says->n_results && !says->dict &&
           !shape_has_regions(says) && op_class(ret) == GRAPH_PURE;
}

/* The operations of all functions if those of at most `threshold` operations are inlined. */
static uint64_t inline_plan(struct graph *g, uint64_t threshold)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < g->func_order.n; i++) {
        struct func *f = &g->funcs.at[g->func_order.at[i]];
        f->size = f->n_ops;
        for (uint32_t u = 0; u < f->n_uses; u++) {
            const struct use *use = &g->uses.at[f->uses + u];
            const struct func *callee = use->is_call ? graph_func_of(g, use->symbol) : NULL;
            if (callee && callee->inlines)
                f->size += callee->size;
        }
        if (f->size > SIZE_MAX_OPS)
            f->size = SIZE_MAX_OPS;
        f->inlines = f->size <= threshold && func_is_plain(g, f);
        total += f->size;
    }
    return total;
}

/* Callees come before callers, where nothing is recursive. */
static void funcs_call(struct graph *g)
{
    for (uint32_t i = 0; i < g->func_order.n; i++) {
        struct func *f = &g->funcs.at[g->func_order.at[i]];
        f->calls = f->recursive;
        for (uint32_t u = 0; u < f->n_uses && !f->calls; u++) {
            const struct use *use = &g->uses.at[f->uses + u];
            const struct func *named = graph_func_of(g, use->symbol);
            f->calls = use->is_call || (named && named->calls);
        }
    }
}

/* Does the module say of itself a `count`, "replica_count = ", of more than one? */
static bool module_says_more(const struct graph *g, const char *count)
{
    const struct dict *d = &g->dicts.at[g->module_dict];
    const char *at = d->text, *end = at + d->len;
    while (at < end && (at = memmem(at, (size_t)(end - at), count, strlen(count)))) {
        at += strlen(count); /* dictionaries end in a bracket */
        if (at[0] != '1' || (at[1] >= '0' && at[1] <= '9'))
            return true;
    }
    return false;
}

static bool module_has_meshes(const struct graph *g)
{
    const struct dict *d = &g->dicts.at[g->module_dict];
    return memmem(d->text, d->len, ".meshes", sizeof ".meshes" - 1);
}

/* Is there a sum over devices? */
static bool any_sum_of_devices(const struct graph *g)
{
    for (uint32_t i = 0; i < g->shapes.n; i++)
        if ((g->shapes.at[i].traits & (SHAPE_CLASS | GRAPH_REDUCES)) ==
            (GRAPH_EFFECT | GRAPH_REDUCES))
            return true;
    return false;
}

/* Which devices the program is for, as far as it says. Where each runs it on numbers of its own nothing may
 * move: several sums become one, in an order that depends on what stands between them (KEYS.md 2.2). */
static void devices_survey(struct graph *g)
{
    bool replicas =
        module_says_more(g, "num_replicas = ") || module_says_more(g, "replica_count = ");
    g->several = !g->single && (g->several || replicas || module_has_meshes(g) ||
                                module_says_more(g, "num_partitions = "));
    if (!replicas && (g->single || g->several || !any_sum_of_devices(g)))
        return;
    g->several = true;
    for (uint32_t i = 0; i < g->blocks.n; i++)
        g->blocks.at[i].frozen = true;
}

/* A float of less than 32 bits, with which compilers compute in 32. */
#define NARROW ((uint64_t)1 << 63)

/* How many bits the numbers of a type have, as a bit of a set, or of each of several types in it: what stands
 * behind a letter, `f32`, `i1`, which is not the `x` of a dimension. */
static uint64_t type_widths(struct view type)
{
    const char *text = type.data;
    bool complex = memmem(text, type.len, "complex<", 8);
    uint64_t widths = memmem(text, type.len, "pred", 4) ? 1u << 8 : 0;
    for (size_t at = 1; at < type.len; at++) {
        char before = text[at - 1];
        if (before < 'a' || before > 'z' || before == 'x')
            continue;
        unsigned width = 0;
        for (; at < type.len && text[at] >= '0' && text[at] <= '9' && width < 1000; at++)
            width = 10 * width + (unsigned)(text[at] - '0');
        if (before == 'f' && width && width < 32)
            widths |= NARROW | (uint64_t)1 << 32;
        width = width == 1 ? 8 : complex ? 2 * width : width;
        widths |= width ? (uint64_t)1 << (width < 64 ? width : width > 64) : 0;
    }
    return widths;
}

/* Which users of a value a compiler puts with a sum into one kernel depends on the order in which it comes to
 * them, and how that kernel adds, on how many bits all numbers have that go into it (KEYS.md 2.2). Types that
 * only attributes have do not count. */
static void widths_survey(struct graph *g)
{
    uint64_t widths = 0;
    bool *of_value = vector_zeroes(g->types.items.n, sizeof *of_value);
    g->failed |= !of_value;
    for (uint32_t i = 0; i < g->shape_types.n && !g->failed; i++)
        of_value[g->shape_types.at[i]] = true;
    for (uint32_t b = 0; b < g->blocks.n && !g->failed; b++)
        for (uint32_t i = 0; i < g->blocks.at[b].n_args; i++)
            of_value[g->nodes.at[g->blocks.at[b].args + i].operands[NODE_TYPE]] = true;
    for (uint32_t i = 0; i < g->types.items.n && !g->failed; i++)
        widths |= of_value[i] ? type_widths(graph_type_text(g, i)) : 0;
    free(of_value);
    g->narrow = widths & NARROW;
    widths &= ~NARROW;
    g->widths_differ = widths & (widths - 1);
}

void graph_funcs_plan(struct graph *g)
{
    devices_survey(g);
    widths_survey(g);
    funcs_reach(g);
    funcs_call(g);
    g->products_meet = !g->failed && !g->as_given && graph_products_meet(g);
    g->layouts_show = !g->failed && !g->as_given && graph_layouts_show(g);
    uint64_t room = g->n_ops / 2 > INLINE_FREE ? g->n_ops / 2 : INLINE_FREE;
    uint64_t threshold = SIZE_MAX_OPS - 1;
    while (inline_plan(g, threshold) > room + g->n_ops && threshold)
        threshold = threshold > 65536 ? 32768 : threshold / 2;
}
