/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graph_short.c - the canonical text in short, which is what is hashed of a graph.
 *
 * Most lines of a long program say what an earlier one says, of other values. So of each kind of line,
 * the line apart from its indent and the numbers of its values, the text is written once; a line is
 * then the number of its kind and its operands. KEYS.md, section 1.1, draws the bytes and shows that
 * they are one to one with the readable text:
 *
 *     text    what graph_write.c puts that is in no kind, and the texts of kinds where they begin
 *     items   numbers: how much text comes next; a kind; a line; the end of an operation's regions
 *
 * The text goes into the form as it comes, the items wait in `items` and follow it chunk by chunk.
 *
 * Whether a line is written by its kind depends on what it says alone, so that equal readable texts
 * have equal short ones, whoever read them: a dictionary counts as plain if its own text is shorter
 * than what a reader may borrow and nothing in it is numbered.
 *
 * Invariant: whenever an item is put, all text that is in the form belongs to this or an earlier item.
 */
#include "keygen/graph_internal.h"

#include <stdlib.h>

/* The number that an item begins with. */
enum item {
    ITEM_TEXT,
    ITEM_CLOSE,
    ITEM_OP_KIND,
    ITEM_HEAD_KIND,
    ITEM_LINE /* + the number of its kind */
};

#define FEW 16                /* numbers that are put together */
#define NUMBER_MAX 10         /* bytes of a number */
#define LINE_NEVER (NONE - 1) /* in shape_lines: it is not plain */

/* ---- items ---- */

static uint64_t form_at(const struct form *out) { return out->len + out->used; }

/* The items so far behind the text so far, and how long both are. */
static void chunk_end(struct printer *p)
{
    struct shortener *s = &p->shortener;
    uint64_t lens[2] = {form_at(p->out) - s->chunk, s->n_items};
    uint8_t bytes[sizeof lens];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(lens[i / 8] >> (8 * (i % 8)));
    form_put(p->out, s->items, s->n_items);
    form_put(p->out, bytes, sizeof bytes);
    s->n_items = 0;
    s->chunk = s->told = form_at(p->out);
}

/* Room for `n` numbers in this chunk or the next. */
static inline uint8_t *items_room(struct printer *p, uint32_t n)
{
    struct shortener *s = &p->shortener;
    if (s->n_items > sizeof s->items - n * NUMBER_MAX)
        chunk_end(p);
    return s->items + s->n_items;
}

static inline void items_fill(struct printer *p, const uint8_t *end)
{
    p->shortener.n_items = (uint32_t)(end - p->shortener.items);
}

/* LEB128. */
static inline uint8_t *copy_number(uint8_t *at, uint64_t number)
{
    for (; number >= 0x80; number >>= 7)
        *at++ = (uint8_t)(number | 0x80);
    *at = (uint8_t)number;
    return at + 1;
}

static void put_item(struct printer *p, uint64_t number)
{
    items_fill(p, copy_number(items_room(p, 1), number));
}

/* The text since the last item, and where it ends. */
static void tell_text(struct printer *p)
{
    uint64_t len = form_at(p->out) - p->shortener.told;
    p->shortener.told += len;
    put_item(p, ITEM_TEXT);
    put_item(p, len);
    put_item(p, p->places.n);
    put_item(p, p->n_values);
}

/* ---- kinds of lines ---- */

/* The types of an operation's results or a block's arguments, one after the other. */
static uint32_t line_type(const struct graph *g, uint32_t of, uint32_t i)
{
    return of & LINE_HEAD ? value_type(g, g->blocks.at[of & ~LINE_HEAD].args + i)
                          : g->shape_types.at[g->shapes.at[of].types + i];
}

static uint32_t line_n_types(const struct graph *g, uint32_t of)
{
    return of & LINE_HEAD ? g->blocks.at[of & ~LINE_HEAD].n_args : g->shapes.at[of].n_results;
}

static uint64_t line_hash(const struct graph *g, uint32_t of, bool later)
{
    if (!(of & LINE_HEAD))
        return g->shapes.at[of].line;
    uint32_t n = line_n_types(g, of);
    uint64_t hash = mix(mix(later, g->blocks.at[of & ~LINE_HEAD].label), n);
    for (uint32_t i = 0; i < n; i++)
        hash = mix(hash, line_type(g, of, i));
    return hash;
}

static uint64_t line_hash_of(const struct graph *g, const void *lines, uint32_t i)
{
    (void)g;
    return ((const struct line *)lines)[i].hash;
}

/* Whether a line says what `of` says. Texts, types and dictionaries are there once each. */
static bool line_is(const struct graph *g, const struct line *l, uint32_t of, bool later)
{
    uint32_t n = line_n_types(g, of);
    if ((l->of ^ of) & LINE_HEAD || l->later != later || line_n_types(g, l->of) != n)
        return false;
    for (uint32_t i = 0; i < n; i++)
        if (line_type(g, l->of, i) != line_type(g, of, i))
            return false;
    if (of & LINE_HEAD)
        return g->blocks.at[l->of & ~LINE_HEAD].label == g->blocks.at[of & ~LINE_HEAD].label;
    const struct shape *a = &g->shapes.at[l->of], *b = &g->shapes.at[of];
    return a->name == b->name && a->dict == b->dict && a->n_operands == b->n_operands &&
           shape_has_regions(a) == shape_has_regions(b);
}

/* The line that says what a shape says, or, LINE_HEAD | block, the head of a block; `later`: of a region
 * behind another. NONE without memory. */
static uint32_t line_find(struct printer *p, uint32_t of, bool later)
{
    struct graph *g = p->g;
    struct shortener *s = &p->shortener;
    uint64_t hash = line_hash(g, of, later);
    if ((!s->slots || s->lines.n * 2 >= s->mask) &&
        !graph_slots_widen(g, &s->slots, &s->mask, s->lines.n, line_hash_of, s->lines.at))
        return NONE;
    uint32_t at = (uint32_t)hash & s->mask;
    for (; s->slots[at]; at = (at + 1) & s->mask) {
        const struct line *l = &s->lines.at[s->slots[at] - 1];
        if (l->hash == hash && line_is(g, l, of, later))
            return s->slots[at] - 1;
    }
    PUSH(g, s->lines, (struct line){.hash = hash, .of = of, .later = later});
    if (g->failed)
        return NONE;
    s->slots[at] = s->lines.n;
    return s->lines.n - 1;
}

/* See the top: this must not depend on how a reader gave the dictionary. */
static bool shape_plain(const struct graph *g, const struct shape *s)
{
    const struct dict *d = &g->dicts.at[s->dict];
    return !(s->traits & GRAPH_CALL) && !d->n_holes && d->len < GRAPH_BORROWED;
}

static uint32_t shape_line(struct printer *p, uint32_t shape)
{
    uint32_t *known = &p->shortener.shape_lines[shape];
    if (!*known)
        *known = 1 + (shape_plain(p->g, &p->g->shapes.at[shape]) ? line_find(p, shape, false)
                                                                 : LINE_NEVER);
    return *known - 1;
}

static void put_text(struct printer *p, const struct text *t) { form_put(p->out, t->data, t->len); }

static uint64_t text_told(struct printer *p)
{
    uint64_t len = form_at(p->out) - p->shortener.told;
    p->shortener.told += len;
    return len;
}

/* Name; dictionary and types of the results. */
static void put_op_kind(struct printer *p, const struct shape *s)
{
    const struct graph *g = p->g;
    put_text(p, &g->names.items.at[s->name]);
    uint64_t name_len = text_told(p);
    if (s->dict)
        form_put(p->out, g->dicts.at[s->dict].text, g->dicts.at[s->dict].len);
    uint64_t dict_len = text_told(p);
    put_item(p, ITEM_OP_KIND);
    put_item(p, shape_has_regions(s));
    put_item(p, name_len);
    put_item(p, dict_len);
    put_item(p, s->n_operands);
    put_item(p, s->n_results);
}

static void put_head_kind(struct printer *p, const struct block *b, bool later)
{
    put_item(p, ITEM_HEAD_KIND);
    put_item(p, later);
    put_item(p, b->label);
    put_item(p, b->n_args);
}

/* Each type's text and length. */
static void put_kind_types(struct printer *p, uint32_t of)
{
    uint32_t n = line_n_types(p->g, of);
    for (uint32_t i = 0; i < n; i++) {
        put_text(p, &p->g->types.items.at[line_type(p->g, of, i)]);
        put_item(p, text_told(p));
    }
}

/* What all lines like this one say, before the first of them. */
static void begin_kind(struct printer *p, struct line *l)
{
    l->text = p->shortener.text;
    l->kind = p->shortener.n_kinds++;
    if (l->of & LINE_HEAD)
        put_head_kind(p, &p->g->blocks.at[l->of & ~LINE_HEAD], l->later);
    else
        put_op_kind(p, &p->g->shapes.at[l->of]);
    put_kind_types(p, l->of);
}

/* The number of a line's kind, which by now is said. */
static inline uint64_t line_item(struct printer *p, uint32_t line)
{
    struct line *l = &p->shortener.lines.at[line];
    if (form_at(p->out) != p->shortener.told)
        tell_text(p);
    if (l->text != p->shortener.text)
        begin_kind(p, l);
    return (uint64_t)ITEM_LINE + l->kind;
}

/* How far back from the next value the operands are. */
static inline uint8_t *copy_distances(struct printer *p, uint8_t *at, const uint32_t *operands,
                                      uint32_t n)
{
    const struct node *nodes = p->g->nodes.at;
    bool unordered = false;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t number = nodes[operands[i]].num;
        unordered |= number == NONE;
        at = copy_number(at, p->n_values - number);
    }
    p->unordered |= unordered;
    return at;
}

/* A line of a kind. */
static inline void put_line(struct printer *p, uint64_t item, const uint32_t *operands, uint32_t n)
{
    uint8_t *at = copy_number(items_room(p, 1 + FEW), item);
    for (; n > FEW; n -= FEW, operands += FEW) {
        items_fill(p, copy_distances(p, at, operands, FEW));
        at = items_room(p, FEW);
    }
    items_fill(p, copy_distances(p, at, operands, n));
}

/* ---- what graph_write.c calls ---- */

bool short_put_op(struct printer *p, uint32_t op)
{
    struct graph *g = p->g;
    struct node *o = &g->nodes.at[op];
    const struct shape *s = op_shape(g, o);
    uint32_t line = shape_line(p, o->shape), next = p->n_values;
    if (line >= LINE_NEVER)
        return false;
    put_line(p, line_item(p, line), op_operands(g, o, s), s->n_operands);
    for (uint32_t i = 0; i < s->n_results; i++)
        o[i].num = next++;
    p->n_values = next;
    return true;
}

bool short_put_head(struct printer *p, uint32_t block, bool later)
{
    struct graph *g = p->g;
    uint32_t *known = &p->shortener.head_lines[2 * (size_t)block + later];
    if (!*known)
        *known = line_find(p, LINE_HEAD | block, later) + 1;
    if (!*known)
        return false;
    items_fill(p, copy_number(items_room(p, 1 + FEW), line_item(p, *known - 1)));
    const struct block *b = &g->blocks.at[block];
    for (uint32_t i = 0; i < b->n_args; i++)
        g->nodes.at[b->args + i].num = p->n_values++;
    return true;
}

void short_put_close(struct printer *p)
{
    if (form_at(p->out) != p->shortener.told)
        tell_text(p);
    put_item(p, ITEM_CLOSE);
}

bool short_begin(struct printer *p)
{
    struct shortener *s = &p->shortener;
    s->text = 1;
    s->shape_lines = vector_zeroes((size_t)p->g->shapes.n + 1, sizeof *s->shape_lines);
    s->head_lines = vector_zeroes(2 * (size_t)p->g->blocks.n + 1, sizeof *s->head_lines);
    return s->shape_lines && s->head_lines;
}

void short_end(struct printer *p)
{
    struct shortener *s = &p->shortener;
    if (form_at(p->out) != s->told)
        tell_text(p);
    chunk_end(p);
    s->text++;
    s->n_kinds = 0;
    s->chunk = s->told = 0;
}

void short_close(struct printer *p)
{
    free(p->shortener.shape_lines);
    free(p->shortener.head_lines);
    free(p->shortener.lines.at);
    free(p->shortener.slots);
}
