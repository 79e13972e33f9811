/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graph_write.c - the canonical text of a graph whose blocks are ordered.
 *
 *     module {mhlo.num_partitions = 1 : i32}
 *     func public (%0 : tensor<f32>, %1 : tensor<f32> {tf.aliasing_output = 0 : i32}) -> (tensor<f32>) {
 *       %2 = stablehlo.add %0, %1 : tensor<f32>
 *       %3 = stablehlo.while %2 : tensor<f32> (
 *         ^0 (%4 : tensor<f32>)
 *         stablehlo.return %4
 *         | ^0 (%5 : tensor<f32>)
 *         ...
 *       )
 *       func.return %3
 *     }
 *
 * Values are numbered from 0 in each function, symbols ("@#0") and channels ("ch1") in the module,
 * all as the text first names them. A function follows the one that first names it.
 *
 * The text is written to be hashed, with most of its lines in short (graph_short.c), and once more, with
 * printer.readable set, if someone wants to read it.
 */
#include "keygen/graph_internal.h"

#include <stdlib.h>

static void put_view(struct printer *p, const char *prefix, size_t prefix_len, const struct text *t)
{
    form_put(p->out, prefix, prefix_len);
    form_put(p->out, t->data, t->len);
}

static void put_number(struct printer *p, const char *prefix, size_t prefix_len, uint32_t number)
{
    char digits[16];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number);
    while (prefix_len)
        digits[--at] = prefix[--prefix_len];
    form_put(p->out, digits + at, sizeof digits - at);
}

void printer_put_value(struct printer *p, uint32_t value)
{
    uint32_t number = p->g->nodes.at[value].num;
    if (number == NONE)
        p->unordered = true;
    put_number(p, "%", 1, number);
}

static void put_new_value(struct printer *p, uint32_t value)
{
    p->g->nodes.at[value].num = p->n_values++;
    printer_put_value(p, value);
}

static void put_type(struct printer *p, const char *prefix, size_t prefix_len, uint32_t type)
{
    put_view(p, prefix, prefix_len, &p->g->types.items.at[type]);
}

static void put_symbol(struct printer *p, uint32_t symbol)
{
    struct graph *g = p->g;
    uint32_t f = g->symbol_func.at[symbol];
    if (p->by_key && f < g->funcs.n && g->funcs.at[f].defined) {
        char text[WARM_KEY_TEXT];
        key_to_text(&g->funcs.at[f].key, text);
        form_put_text(p->out, "@key ");
        form_put(p->out, text, sizeof text - 1);
        return;
    }
    if (!graph_symbol_numbered(g, symbol)) {
        put_view(p, "@", 1, &g->symbols.items.at[symbol]);
        return;
    }
    p->names_outside |= f == SYMBOL_PRIVATE;
    if (p->symbol_num[symbol] == NONE) {
        p->symbol_num[symbol] = p->n_symbols++;
        if (f < g->funcs.n && !g->funcs.at[f].is_public)
            PUSH(g, p->queue, f);
    }
    put_number(p, "@#", 2, p->symbol_num[symbol]);
}

static bool channels_widen(struct printer *p)
{
    uint32_t mask = p->channels ? 2 * p->channel_mask + 1 : 63;
    struct channel *fresh = calloc((size_t)mask + 1, sizeof *fresh);
    if (!fresh) {
        p->g->failed = true;
        return false;
    }
    for (uint32_t i = 0; p->channels && i <= p->channel_mask; i++) {
        uint32_t s = (uint32_t)mix(0, (uint64_t)p->channels[i].id) & mask;
        while (fresh[s].num)
            s = (s + 1) & mask;
        if (p->channels[i].num)
            fresh[s] = p->channels[i];
    }
    free(p->channels);
    p->channels = fresh;
    p->channel_mask = mask;
    return true;
}

static void put_channel(struct printer *p, int64_t id)
{
    if (id <= 0) { /* 0: no channel; below: the compiler gives one */
        form_put_text(p->out, id ? "-" : "");
        form_put_u64(p->out, id ? 0 - (uint64_t)id : 0);
        return;
    }
    if (p->n_channels * 2 >= p->channel_mask && !channels_widen(p))
        return;
    uint32_t s = (uint32_t)mix(0, (uint64_t)id) & p->channel_mask;
    while (p->channels[s].num && p->channels[s].id != id)
        s = (s + 1) & p->channel_mask;
    if (!p->channels[s].num)
        p->channels[s] = (struct channel){id, ++p->n_channels};
    put_number(p, "ch", 2, p->channels[s].num);
}

static void put_dict(struct printer *p, uint32_t dict)
{
    const struct dict *d = &p->g->dicts.at[dict];
    uint32_t at = 0;
    if (!dict)
        return;
    form_put(p->out, " ", 1);
    for (uint32_t i = 0; i < d->n_holes; i++) {
        const struct hole *h = &p->g->holes.at[d->holes + i];
        form_put(p->out, d->text + at, h->at - at);
        at = h->at;
        if (h->kind == HOLE_SYMBOL)
            put_symbol(p, h->is.symbol);
        else if (h->kind == HOLE_CHANNEL)
            put_channel(p, h->is.channel);
        else
            form_put(p->out, h->is.borrow.data, h->is.borrow.len);
    }
    form_put(p->out, d->text + at, d->len - at);
}

#define INDENT_MAX 32 /* deeper nesting is not indented further */

static void put_indent(struct printer *p)
{
    char spaces[INDENT_MAX];
    size_t n = 2 * (size_t)p->places.n;
    memset(spaces, ' ', sizeof spaces);
    form_put(p->out, spaces, n < sizeof spaces ? n : sizeof spaces);
}

static void put_args(struct printer *p, const struct block *b, uint32_t dicts)
{
    form_put(p->out, "(", 1);
    for (uint32_t i = 0; i < b->n_args; i++) {
        if (i)
            form_put(p->out, ", ", 2);
        put_new_value(p, b->args + i);
        put_type(p, " : ", 3, value_type(p->g, b->args + i));
        if (dicts != NONE)
            put_dict(p, p->g->arg_dicts.at[dicts + i]);
    }
    form_put(p->out, ")", 1);
}

/* `later`: of another region than the operation's first. */
static void put_block_head(struct printer *p, uint32_t block, bool later)
{
    if (!p->readable && short_put_head(p, block, later))
        return;
    put_indent(p);
    form_put_text(p->out, later ? "| " : "");
    put_number(p, "^", 1, p->g->blocks.at[block].label);
    form_put(p->out, " ", 1);
    put_args(p, &p->g->blocks.at[block], NONE);
    form_put(p->out, "\n", 1);
}

/* "%4, %5 = name %1, %2 {dict} : type, type", up to the end of the line or the operation's regions. */
static __attribute__((noinline)) void put_op_text(struct printer *p, uint32_t op)
{
    const struct node *o = &p->g->nodes.at[op];
    const struct shape *s = op_shape(p->g, o);
    put_indent(p);
    for (uint32_t i = 0; i < s->n_results; i++) {
        if (i)
            form_put(p->out, ", ", 2);
        put_new_value(p, op + i);
    }
    put_view(p, " = ", s->n_results ? 3 : 0, &p->g->names.items.at[s->name]);
    for (uint32_t i = 0; i < s->n_operands; i++) {
        form_put(p->out, i ? ", " : " ", i ? 2 : 1);
        printer_put_value(p, op_operands(p->g, o, s)[i]);
    }
    if (s->traits & GRAPH_CALL) {
        form_put(p->out, " ", 1);
        put_symbol(p, s->callee);
    }
    put_dict(p, s->dict);
    for (uint32_t i = 0; i < s->n_results; i++)
        put_type(p, i ? ", " : " : ", i ? 2 : 3, p->g->shape_types.at[s->types + i]);
    form_put_text(p->out, shape_has_regions(s) ? " (\n" : "\n");
}

/* An operation's line; if it has regions, their place is the next. True then. */
static inline bool put_op(struct printer *p, uint32_t op)
{
    p->n_ops++;
    if (p->readable || !short_put_op(p, op))
        put_op_text(p, op);
    if (!op_has_regions(p->g, &p->g->nodes.at[op]))
        return false;
    PUSH(p->g, p->places, (struct place){.op = op, .region = NONE, .block = NONE});
    return true;
}

/* A block's operations from its place on, up to one with regions: true if one was. */
static bool put_ops(struct printer *p, struct place *at)
{
    const struct block *b = &p->g->blocks.at[at->block];
    const uint32_t *order = p->g->order.at + b->order;
    uint32_t i = at->at, n = b->n_order;
    while (i < n) {
        at->at = i + 1; /* before places may move */
        if (put_op(p, order[i++]))
            return true;
    }
    return false;
}

/* Goes to the next block of the operation around; false if there is none and it is closed. */
static bool place_next(struct printer *p, struct place *at)
{
    struct graph *g = p->g;
    if (at->block != NONE)
        at->block = g->blocks.at[at->block].next;
    bool later = false;
    while (at->block == NONE && at->op != NONE) {
        at->region = at->region == NONE ? op_region(g, &g->nodes.at[at->op])
                                        : g->regions.at[at->region].next;
        if (at->region == NONE)
            break;
        if (at->region != op_region(g, &g->nodes.at[at->op]))
            later = true;
        at->block = g->regions.at[at->region].block;
        if (at->block == NONE) { /* a region without blocks */
            put_indent(p);
            form_put_text(p->out, later ? "| ()\n" : "()\n");
        }
    }
    if (at->block == NONE)
        return false;
    at->at = 0;
    put_block_head(p, at->block, later);
    return true;
}

/* Leaves a block, and the regions of an operation if it is `inside` of one. */
static void put_close(struct printer *p, bool inside)
{
    if (inside && !p->readable)
        short_put_close(p);
    p->places.n--;
    if (inside && p->readable) {
        put_indent(p);
        form_put(p->out, ")\n", 2);
    }
}

/* Writes what is on the stack of places above `floor`. */
static void put_places(struct printer *p, uint32_t floor)
{
    struct graph *g = p->g;
    while (p->places.n > floor && !g->failed) {
        struct place *at = &p->places.at[p->places.n - 1];
        if (at->block != NONE && put_ops(p, at))
            continue;
        if (!place_next(p, at))
            put_close(p, at->op != NONE);
    }
}

/* The operations of a block and of all that follow it in its region, with what is inside them. */
static void put_blocks(struct printer *p, uint32_t block)
{
    uint32_t floor = p->places.n;
    PUSH(p->g, p->places, (struct place){.op = NONE, .region = NONE, .block = block});
    put_places(p, floor);
}

void printer_put_tree(struct printer *p, uint32_t op)
{
    uint32_t floor = p->places.n;
    put_op(p, op);
    put_places(p, floor);
}

void printer_put_param(struct printer *p, uint32_t value)
{
    put_new_value(p, value);
    put_type(p, " : ", 3, value_type(p->g, value));
}

void printer_put_func(struct printer *p, const struct func *f, bool named)
{
    const struct graph *g = p->g;
    p->n_values = 0;
    form_put_text(p->out, f->is_public ? "func public " : "func ");
    if (named) {
        if (p->symbol_num && !p->by_key && graph_symbol_numbered(g, f->symbol))
            put_number(p, "@#", 2, p->symbol_num[f->symbol]);
        else
            put_view(p, "@", 1, &g->symbols.items.at[f->symbol]);
        form_put(p->out, " ", 1);
    }
    put_args(p, &g->blocks.at[f->block], f->arg_dicts);
    form_put_text(p->out, " -> (");
    for (uint32_t i = 0; i < f->n_results; i++) {
        put_type(p, ", ", i ? 2 : 0, g->pairs.at[f->results + 2 * i]);
        put_dict(p, g->pairs.at[f->results + 2 * i + 1]);
    }
    form_put(p->out, ")", 1);
    put_dict(p, f->dict);
    if (!f->defined) {
        form_put(p->out, "\n", 1);
        return;
    }
    form_put(p->out, " {\n", 3);
    put_blocks(p, f->block);
    form_put(p->out, "}\n", 2);
}

static int name_compare(const void *a, const void *b, void *graph)
{
    const struct graph *g = graph;
    const struct text *x = &g->symbols.items.at[g->funcs.at[*(const uint32_t *)a].symbol];
    const struct text *y = &g->symbols.items.at[g->funcs.at[*(const uint32_t *)b].symbol];
    size_t len = x->len < y->len ? x->len : y->len;
    int d = memcmp(x->data, y->data, len);
    return d ? d : x->len < y->len ? -1 : x->len > y->len;
}

/* Public functions and declarations that are reached, by name. */
static void queue_outside(struct printer *p)
{
    struct graph *g = p->g;
    for (uint32_t i = 0; i < g->funcs.n; i++)
        if (g->funcs.at[i].reached && (g->funcs.at[i].is_public || !g->funcs.at[i].defined))
            PUSH(g, p->queue, i);
    if (p->queue.n > 1 && !g->failed)
        qsort_r(p->queue.at, p->queue.n, sizeof *p->queue.at, name_compare, g);
}

bool printer_init(struct printer *p, struct graph *g, struct form *out)
{
    *p = (struct printer){.g = g, .out = out};
    p->symbol_num = malloc((g->symbols.items.n + 1) * sizeof *p->symbol_num);
    if (!p->symbol_num || !short_begin(p)) {
        g->failed = true;
        return false;
    }
    memset(p->symbol_num, 0xFF, g->symbols.items.n * sizeof *p->symbol_num);
    return true;
}

void printer_reset(struct printer *p)
{
    if (p->n_symbols)
        memset(p->symbol_num, 0xFF, p->g->symbols.items.n * sizeof *p->symbol_num);
    if (p->n_channels)
        memset(p->channels, 0, ((size_t)p->channel_mask + 1) * sizeof *p->channels);
    p->n_symbols = p->n_channels = 0;
    p->queue.n = 0;
}

void printer_close(struct printer *p)
{
    free(p->symbol_num);
    free(p->channels);
    free(p->queue.at);
    free(p->places.at);
    short_close(p);
}

void printer_put_module(struct printer *p, uint32_t dict)
{
    form_put_text(p->out, "module");
    put_dict(p, dict);
    form_put(p->out, "\n", 1);
    put_blocks(p, 0);
}

static int module_put(struct graph *g, struct form *out, bool readable, struct err *e)
{
    struct printer p;
    bool unordered = false;
    if (printer_init(&p, g, out)) {
        p.readable = readable;
        if (g->folds_otherwise) /* KEYS.md 2.2 */
            form_put_text(out, "warm.calls\n");
        printer_put_module(&p, g->module_dict);
        queue_outside(&p);
        for (uint32_t i = 0; i < p.queue.n && !g->failed; i++) {
            const struct func *f = &g->funcs.at[p.queue.at[i]];
            printer_put_func(&p, f, !(f->is_public && f->defined && g->n_public == 1));
        }
        if (!readable)
            short_end(&p);
        unordered = p.unordered;
    }
    printer_close(&p);
    if (g->failed)
        return err_set(e, WARM_ENOMEM, "no memory for the canonical text");
    if (unordered)
        return err_set(e, WARM_EMALFORMED, "an operand that nothing before it gives");
    return 0;
}

static int module_write(struct graph *g, const char *domain, struct form *out, struct err *e)
{
    form_begin(out, domain);
    form_goes(out, FORM_HASHED);
    int rc = module_put(g, out, false, e);
    if (rc || !out->text)
        return rc;
    form_goes(out, FORM_READ);
    return module_put(g, out, true, e);
}

int graph_write(struct graph *g, const char *domain, struct form *out, struct err *e)
{
    g->as_given = out->want_regions;
    int rc = graph_canon(g, e);
    if (rc)
        out->why_exact = g->why_exact;
    if (rc)
        return rc;
    return out->want_regions ? graph_regions(g, domain, out, e) : module_write(g, domain, out, e);
}
