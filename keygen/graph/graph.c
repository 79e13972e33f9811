/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graph.c - the builder: turns the calls of the readers into lines. The readers of MLIR text and of
 * bytecode call it; graph.h has the contract.
 *
 * An open operation waits in `frames`, with its operands and results on scratch stacks. It becomes
 * a line when it ends or when its first region begins. A block's head becomes a line when its
 * arguments are complete, that is, at the next call of another kind. Each line is written at
 * once.
 *
 * Thread: one at a time for a graph; no other state.
 */
#include "keygen/graph/internal.h"

#include <stdlib.h>

bool graph_failed(const struct graph *g) { return g->failed; }

/* ---- shapes ---- */

static bool shape_is(const struct graph *g, const struct shape *have, const struct shape *s,
                     const uint32_t *types)
{
    return have->kind == s->kind && have->name == s->name && have->dict == s->dict &&
           have->n_operands == s->n_operands && have->n_types == s->n_types &&
           (!s->n_types ||
            memcmp(g->shape_types.at + have->types, types, s->n_types * sizeof *types) == 0);
}

/* Returns the number of a shape. An equal one gets the same number. */
static uint32_t shape_number(struct graph *g, struct shape s, const uint32_t *types)
{
    uint64_t hash = mix(mix(s.kind, s.name), (uint64_t)s.dict << 32 | s.n_operands);
    if (!slots_reserve(&g->shape_slots))
        g->failed = true;
    if (g->failed)
        return 0;
    for (uint32_t i = 0; i < s.n_types; i++)
        hash = mix(hash, types[i]);
    hash >>= 32;
    SLOTS_EACH(&g->shape_slots, hash, i)
    {
        if (shape_is(g, &g->shapes.at[i], &s, types))
            return i;
    }
    s.types = g->shape_types.n;
    for (uint32_t i = 0; i < s.n_types; i++)
        PUSH(g, g->shape_types, types[i]);
    PUSH(g, g->shapes, s);
    uint32_t number = g->failed ? 0 : g->shapes.n - 1;
    if (!g->failed)
        slots_add(&g->shape_slots, hash, number);
    return number;
}

uint32_t graph_shape(struct graph *g, const struct graph_op_shape *op, const uint32_t *results)
{
    return shape_number(g,
                        (struct shape){.kind = LINE_OP,
                                       .name = op->name,
                                       .dict = op->dict,
                                       .n_operands = op->n_operands,
                                       .n_types = op->n_results},
                        results);
}

/* ---- lines ---- */

static inline void line_put(struct graph *g, uint32_t shape, const uint32_t *operands)
{
    if (!g->failed && GRAPH_EXPECT(g, shape < g->shapes.n))
        printer_line(&g->printer, shape, operands);
}

/* Adds the values of an operation's results; returns the first. */
static inline uint32_t results_add(struct graph *g, uint32_t types, uint32_t n)
{
    uint32_t first = g->values.n;
    for (uint32_t i = 0; i < n; i++)
        PUSH(g, g->values, g->shape_types.at[types + i]);
    return n ? first : NONE;
}

/* Writes the head of the current block. */
static void block_put(struct graph *g)
{
    uint32_t n = g->values.n - g->block_args;
    struct shape s = {.kind = g->block_kind, .name = g->block_label, .n_types = n};
    g->block_open = false;
    if (!g->failed)
        line_put(g, shape_number(g, s, n ? g->values.at + g->block_args : NULL), NULL);
}

static void func_put(struct graph *g)
{
    g->head_put = true;
    if (!g->failed)
        printer_func_begin(&g->printer, &g->func);
}

/* Writes the waiting line, before anything else comes. */
static inline void line_before(struct graph *g)
{
    if (g->block_open)
        block_put(g);
    if (g->in_func && !g->head_put) {
        g->func.defined = true;
        func_put(g);
    }
}

/* ---- module, functions, blocks ---- */

void graph_module_dict(struct graph *g, uint32_t dict) { g->module_dict = dict; }

void graph_func_begin(struct graph *g, uint32_t symbol, bool is_public)
{
    g->arg_dicts.n = g->results.n = 0;
    g->func = (struct func){.symbol = symbol, .is_public = is_public, .values = g->values.n};
    g->in_func = !g->failed;
    g->head_put = false;
}

uint32_t graph_func_arg(struct graph *g, uint32_t type, uint32_t dict)
{
    if (!g->in_func)
        return 0;
    PUSH(g, g->arg_dicts, dict);
    PUSH(g, g->values, type);
    g->func.n_args++;
    return g->values.n - 1;
}

void graph_func_result(struct graph *g, uint32_t type, uint32_t dict)
{
    if (!g->in_func)
        return;
    PUSH(g, g->results, type);
    PUSH(g, g->results, dict);
    g->func.n_results++;
}

void graph_func_dict(struct graph *g, uint32_t dict)
{
    if (g->in_func)
        g->func.dict = dict;
}

void graph_func_end(struct graph *g)
{
    if (!g->in_func)
        return;
    const struct func *f = &g->func;
    if (g->block_open)
        block_put(g);
    if (!g->head_put)
        func_put(g);
    g->in_func = false;
    if (f->defined && !f->is_public)
        graph_symbol_private(g, f->symbol);
    if (g->failed)
        return;
    printer_func_end(&g->printer, f);
    g->values.n = f->values;
}

void graph_region_begin(struct graph *g)
{
    if (g->failed || !GRAPH_EXPECT(g, g->frames.n > 0))
        return;
    struct frame *f = &g->frames.at[g->frames.n - 1];
    line_before(g);
    g->block_kind = f->opened ? LINE_NEXT : LINE_BLOCK;
    g->region_empty = true;
    if (f->opened)
        return;
    f->opened = true;
    struct shape s = {
        .kind = LINE_OPEN, .name = f->name, .n_operands = g->stack_operands.n - f->operands};
    line_put(g, shape_number(g, s, NULL), s.n_operands ? g->stack_operands.at + f->operands : NULL);
}

void graph_block_begin(struct graph *g, uint32_t label)
{
    line_before(g);
    g->block_open = true;
    g->block_label = label;
    g->block_args = g->values.n;
    if (!g->region_empty)
        g->block_kind = LINE_BLOCK;
    g->region_empty = false;
}

uint32_t graph_block_arg(struct graph *g, uint32_t type)
{
    PUSH(g, g->values, type);
    return g->failed ? 0 : g->values.n - 1;
}

void graph_region_end(struct graph *g)
{
    if (g->region_empty && GRAPH_EXPECT(g, !g->block_open)) {
        struct shape s = {.kind = g->block_kind == LINE_NEXT ? LINE_NEXT_EMPTY : LINE_EMPTY};
        line_put(g, shape_number(g, s, NULL), NULL);
    }
    g->region_empty = false;
    line_before(g);
}

/* ---- operations ---- */

void graph_op_begin(struct graph *g, uint32_t opname)
{
    line_before(g);
    PUSH(g, g->frames,
         (struct frame){
             .name = opname, .operands = g->stack_operands.n, .results = g->stack_results.n});
}

void graph_op_dict(struct graph *g, uint32_t dict)
{
    if (!g->failed && GRAPH_EXPECT(g, g->frames.n > 0 && dict < g->dicts.n))
        g->frames.at[g->frames.n - 1].dict = dict;
}

void graph_op_operand(struct graph *g, uint32_t value) { PUSH(g, g->stack_operands, value); }

void graph_op_result(struct graph *g, uint32_t type) { PUSH(g, g->stack_results, type); }

uint32_t graph_op_end(struct graph *g)
{
    if (g->failed || !GRAPH_EXPECT(g, g->frames.n > 0))
        return 0;
    const struct frame f = g->frames.at[--g->frames.n];
    struct shape s = {.kind = f.opened ? LINE_CLOSE : LINE_OP,
                      .name = f.opened ? 0 : f.name,
                      .dict = f.dict,
                      .n_operands = f.opened ? 0 : g->stack_operands.n - f.operands,
                      .n_types = g->stack_results.n - f.results};
    uint32_t shape = shape_number(g, s, s.n_types ? g->stack_results.at + f.results : NULL);
    line_put(g, shape, s.n_operands ? g->stack_operands.at + f.operands : NULL);
    g->stack_operands.n = f.operands;
    g->stack_results.n = f.results;
    if (g->failed)
        return 0;
    return results_add(g, g->shapes.at[shape].types, s.n_types);
}

bool graph_op_of_shape(struct graph *g, uint32_t shape, const uint32_t *operands, uint32_t *out)
{
    if (g->failed || !GRAPH_EXPECT(g, shape < g->shapes.n))
        return false;
    line_before(g);
    line_put(g, shape, operands);
    const struct shape *s = &g->shapes.at[shape];
    *out = results_add(g, s->types, s->n_types);
    return !g->failed;
}

void graph_op_drop(struct graph *g)
{
    if (g->failed || !GRAPH_EXPECT(g, g->frames.n > 0))
        return;
    const struct frame *f = &g->frames.at[--g->frames.n];
    g->stack_operands.n = f->operands;
    g->stack_results.n = f->results;
}

uint32_t graph_value_type(const struct graph *g, uint32_t value)
{
    return value < g->values.n ? g->values.at[value] : 0;
}

uint32_t graph_n_values(const struct graph *g) { return g->values.n; }

/* ---- life ---- */

struct graph *graph_new(const char *domain, struct form *out)
{
    struct graph *g = calloc(1, sizeof *g);
    if (!g)
        return NULL;
    printer_init(&g->printer, g, domain, out);
    graph_texts_begin(g);
    return g;
}

int graph_end(struct graph *g, struct err *e)
{
    bool is_complete = !g->frames.n && !g->in_func && g->module_dict < g->dicts.n;
    if (!g->failed && !GRAPH_EXPECT(g, is_complete))
        return err_set(e, WARM_EINVALID, "a program that does not end");
    if (!g->failed)
        printer_module(&g->printer, g->module_dict);
    return g->failed ? err_set(e, WARM_ENOMEM, "no memory for the program") : 0;
}

void graph_free(struct graph *g)
{
    if (!g)
        return;
    graph_texts_free(g);
    printer_close(&g->printer);
    void *arrays[] = {g->shapes.at, g->shape_types.at,    g->shape_slots.at,
                      g->values.at, g->arg_dicts.at,      g->results.at,
                      g->frames.at, g->stack_operands.at, g->stack_results.at};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        free(arrays[i]);
    free(g);
}
