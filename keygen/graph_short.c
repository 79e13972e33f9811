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

#define FEW 16           /* numbers that are put together */
#define NUMBER_MAX 10    /* bytes of a number */
#define NEVER UINT32_MAX /* in place of a text: what is not plain is of no kind */

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

static __attribute__((noinline)) uint8_t *items_next_chunk(struct printer *p, const uint8_t *end)
{
    items_fill(p, end);
    chunk_end(p);
    return p->shortener.items;
}

/* One number behind those that end at `at`, in this chunk or the next: where it ends. */
static inline uint8_t *next_number(struct printer *p, uint8_t *at, uint64_t number)
{
    if (at > p->shortener.items + sizeof p->shortener.items - NUMBER_MAX)
        at = items_next_chunk(p, at);
    return copy_number(at, number);
}

static inline uint8_t *items_at(struct printer *p)
{
    return p->shortener.items + p->shortener.n_items;
}

/* The text since the last item, if any, and where it ends. */
static void tell_text_since(struct printer *p, uint64_t len)
{
    p->shortener.told += len;
    uint8_t *at = next_number(p, items_at(p), ITEM_TEXT);
    at = next_number(p, at, len);
    at = next_number(p, at, p->places.n);
    items_fill(p, next_number(p, at, p->n_values));
}

static inline void tell_text(struct printer *p)
{
    uint64_t len = form_at(p->out) - p->shortener.told;
    if (len)
        tell_text_since(p, len);
}

/* ---- kinds of lines ---- */

static void put_text(struct printer *p, const struct text *t) { form_put(p->out, t->data, t->len); }

static uint64_t text_told(struct printer *p)
{
    uint64_t len = form_at(p->out) - p->shortener.told;
    p->shortener.told += len;
    return len;
}

/* Name and dictionary. */
static uint8_t *put_op_kind(struct printer *p, uint8_t *at, const struct shape *s)
{
    const struct graph *g = p->g;
    put_text(p, &g->names.items.at[s->name]);
    uint64_t name_len = text_told(p);
    if (s->dict)
        form_put(p->out, g->dicts.at[s->dict].text, g->dicts.at[s->dict].len);
    uint64_t dict_len = text_told(p);
    at = next_number(p, at, ITEM_OP_KIND);
    at = next_number(p, at, shape_has_regions(s));
    at = next_number(p, at, name_len);
    at = next_number(p, at, dict_len);
    at = next_number(p, at, s->n_operands);
    return next_number(p, at, s->n_results);
}

static uint8_t *put_head_kind(struct printer *p, uint8_t *at, const struct block *b, bool later)
{
    at = next_number(p, at, ITEM_HEAD_KIND);
    at = next_number(p, at, later);
    at = next_number(p, at, b->label);
    return next_number(p, at, b->n_args);
}

/* A type's text and length. */
static inline uint8_t *put_kind_type(struct printer *p, uint8_t *at, uint32_t type)
{
    put_text(p, &p->g->types.items.at[type]);
    return next_number(p, at, text_told(p));
}

static void kind_begin(struct printer *p, struct kind *k)
{
    k->text = p->shortener.text;
    k->number = p->shortener.n_kinds++;
}

/* See the top: this must not depend on how a reader gave the dictionary. */
static bool shape_plain(const struct graph *g, const struct shape *s)
{
    const struct dict *d = &g->dicts.at[s->dict];
    return !(s->traits & GRAPH_CALL) && !d->n_holes && d->len < GRAPH_BORROWED;
}

/* What all lines of such operations say, before the first of them. False if they are not plain. */
static bool shape_begin(struct printer *p, struct kind *k, const struct shape *s)
{
    if (k->text == NEVER || !shape_plain(p->g, s)) {
        k->text = NEVER;
        return false;
    }
    tell_text(p);
    kind_begin(p, k);
    uint8_t *at = put_op_kind(p, items_at(p), s);
    for (uint32_t i = 0; i < s->n_results; i++)
        at = put_kind_type(p, at, p->g->shape_types.at[s->types + i]);
    items_fill(p, at);
    return true;
}

/* ---- heads of blocks ---- */

static uint64_t head_hash(const struct graph *g, const struct head *h)
{
    const struct block *b = &g->blocks.at[h->block];
    uint64_t hash = mix(mix(h->later, b->label), b->n_args);
    for (uint32_t i = 0; i < b->n_args; i++)
        hash = mix(hash, value_type(g, b->args + i));
    return hash;
}

static uint64_t head_hash_of(const struct graph *g, const void *heads, uint32_t i)
{
    return head_hash(g, (const struct head *)heads + i);
}

/* Whether the lines say the same. Types are there once each. */
static bool heads_equal(const struct graph *g, const struct head *x, const struct head *y)
{
    const struct block *a = &g->blocks.at[x->block], *b = &g->blocks.at[y->block];
    if (x->later != y->later || a->label != b->label || a->n_args != b->n_args)
        return false;
    for (uint32_t i = 0; i < a->n_args; i++)
        if (value_type(g, a->args + i) != value_type(g, b->args + i))
            return false;
    return true;
}

/* The number of the head that says what that of a block says; NONE without memory. */
static uint32_t head_find(struct printer *p, uint32_t block, bool later)
{
    struct graph *g = p->g;
    struct shortener *s = &p->shortener;
    struct head head = {.block = block, .later = later};
    if ((!s->slots || s->heads.n * 2 >= s->mask) &&
        !graph_slots_widen(g, &s->slots, &s->mask, s->heads.n, head_hash_of, s->heads.at))
        return NONE;
    uint32_t at = (uint32_t)head_hash(g, &head) & s->mask;
    for (; s->slots[at]; at = (at + 1) & s->mask)
        if (heads_equal(g, &s->heads.at[s->slots[at] - 1], &head))
            return s->slots[at] - 1;
    PUSH(g, s->heads, head);
    if (g->failed)
        return NONE;
    s->slots[at] = s->heads.n;
    return s->heads.n - 1;
}

/* What all such heads say, before the first of them. */
static void head_begin(struct printer *p, struct head *h)
{
    const struct block *b = &p->g->blocks.at[h->block];
    kind_begin(p, &h->kind);
    uint8_t *at = put_head_kind(p, items_at(p), b, h->later);
    for (uint32_t i = 0; i < b->n_args; i++)
        at = put_kind_type(p, at, value_type(p->g, b->args + i));
    items_fill(p, at);
}

/* ---- lines ---- */

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
    struct kind *k = &p->shortener.kinds[s->alike];
    if (k->text == p->shortener.text)
        tell_text(p);
    else if (!shape_begin(p, k, s))
        return false;
    put_line(p, (uint64_t)ITEM_LINE + k->number, op_operands(g, o, s), s->n_operands);
    uint32_t next = p->n_values;
    for (uint32_t i = 0; i < s->n_results; i++)
        o[i].num = next++;
    p->n_values = next;
    return true;
}

bool short_put_head(struct printer *p, uint32_t block, bool later)
{
    struct graph *g = p->g;
    uint32_t *known = &p->shortener.block_heads[2 * (size_t)block + later];
    if (!*known)
        *known = head_find(p, block, later) + 1;
    if (!*known)
        return false;
    struct head *h = &p->shortener.heads.at[*known - 1];
    tell_text(p);
    if (h->kind.text != p->shortener.text)
        head_begin(p, h);
    items_fill(p, copy_number(items_room(p, 1 + FEW), (uint64_t)ITEM_LINE + h->kind.number));
    const struct block *b = &g->blocks.at[block];
    for (uint32_t i = 0; i < b->n_args; i++)
        g->nodes.at[b->args + i].num = p->n_values++;
    return true;
}

void short_put_close(struct printer *p)
{
    tell_text(p);
    items_fill(p, next_number(p, items_at(p), ITEM_CLOSE));
}

bool short_begin(struct printer *p)
{
    struct shortener *s = &p->shortener;
    s->text = 1;
    s->kinds = vector_zeroes((size_t)p->g->shapes.n + 1, sizeof *s->kinds);
    s->block_heads = vector_zeroes(2 * (size_t)p->g->blocks.n + 1, sizeof *s->block_heads);
    return s->kinds && s->block_heads;
}

void short_end(struct printer *p)
{
    struct shortener *s = &p->shortener;
    tell_text(p);
    chunk_end(p);
    s->text++;
    s->n_kinds = 0;
    s->chunk = s->told = 0;
}

void short_close(struct printer *p)
{
    free(p->shortener.kinds);
    free(p->shortener.block_heads);
    free(p->shortener.heads.at);
    free(p->shortener.slots);
}
