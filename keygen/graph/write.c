/* SPDX-License-Identifier: Apache-2.0 */
/*
 * write.c - writes lines as canonical text for people, and as the records that are hashed. The
 * builder calls it for each line.
 *
 * Most lines of a long program differ from an earlier line only in their operands. So each shape is
 * hashed once, and a line is hashed as the shape's number and the operands: KEYS.md, section 2.3.
 * The text for people is written only on demand.
 *
 * Thread: one at a time for a graph; no other state.
 */
#include "keygen/graph/internal.h"

#include <stdio.h>
#include <stdlib.h>

enum record { RECORD_TEXT, RECORD_SHAPE, RECORD_FUNC, RECORD_LINE };

#define INDENT_MAX 32  /* deeper nesting is not indented further */
#define SYMBOL_TEXT 64 /* bytes of "@#12" */
#define NUMBER_MAX 10  /* bytes of a number of 64 bits */

/* ---- numbers ---- */

/* Hashes a number. A byte has seven bits, the lowest first; the highest bit is set in all bytes but
 * the last. */
static inline void put_number(struct printer *p, uint64_t number)
{
    char *at = form_room(p->out, NUMBER_MAX);
    for (; number > 0x7F; number >>= 7)
        *at++ = (char)(number | 0x80);
    *at++ = (char)number;
    p->out->used = (size_t)(at - p->out->buffer);
}

/* ---- symbols and dictionaries ---- */

/* Returns the number of a symbol, the next one if it has none. */
static uint32_t symbol_number(struct printer *p, uint32_t symbol)
{
    while (p->symbol_num.n <= symbol && !p->g->failed)
        PUSH(p->g, p->symbol_num, NONE);
    if (p->g->failed)
        return 0;
    if (p->symbol_num.at[symbol] == NONE) {
        p->symbol_num.at[symbol] = p->symbols.n;
        PUSH(p->g, p->symbols, symbol);
    }
    return p->symbol_num.at[symbol];
}

/* Writes the text of a symbol. Returns its length. */
static size_t symbol_text(struct printer *p, uint32_t symbol, char out[SYMBOL_TEXT])
{
    char *end = out + SYMBOL_TEXT, *at = decimal_before(end, symbol_number(p, symbol));
    memcpy(out, "@#", 2);
    memmove(out + 2, at, (size_t)(end - at));
    return 2 + (size_t)(end - at);
}

/* Writes the text of a channel's number. Programs have few channels, so it searches them in order. */
static size_t channel_text(struct printer *p, uint64_t channel, char out[SYMBOL_TEXT])
{
    uint32_t i = 0;
    while (i < p->channels.n && p->channels.at[i] != channel)
        i++;
    if (i == p->channels.n)
        PUSH(p->g, p->channels, channel);
    return (size_t)snprintf(out, SYMBOL_TEXT, "ch%u", i + 1);
}

/* Returns the text of a hole; `text` holds it if it is a number. */
static struct view hole_view(struct printer *p, const struct hole *h, char text[SYMBOL_TEXT])
{
    if (h->kind == HOLE_BORROW)
        return h->is.borrow;
    return (struct view){text, h->kind == HOLE_SYMBOL ? symbol_text(p, h->is.symbol, text)
                                                      : channel_text(p, h->is.channel, text)};
}

static size_t dict_len(struct printer *p, uint32_t dict)
{
    const struct dict *d = &p->g->dicts.at[dict];
    char text[SYMBOL_TEXT];
    size_t len = dict ? d->len : 0;
    for (uint32_t i = 0; i < d->n_holes; i++)
        len += hole_view(p, &p->g->holes.at[d->holes + i], text).len;
    return len;
}

/* Writes the text of a dictionary, nothing for the empty one. Hashes it if `to` is NULL. */
static void dict_put(struct printer *p, uint32_t dict, struct writer *to)
{
    const struct dict *d = &p->g->dicts.at[dict];
    uint32_t at = 0;
    char text[SYMBOL_TEXT];
    for (uint32_t i = 0; dict && i <= d->n_holes; i++) {
        const struct hole *h = i < d->n_holes ? &p->g->holes.at[d->holes + i] : NULL;
        struct view fixed = {d->text + at, (h ? h->at : d->len) - at};
        struct view hole = h ? hole_view(p, h, text) : (struct view){"", 0};
        at += (uint32_t)fixed.len;
        if (to) {
            writer_bytes(to, fixed.data, fixed.len);
            writer_bytes(to, hole.data, hole.len);
        } else {
            form_put(p->out, fixed.data, fixed.len);
            form_put(p->out, hole.data, hole.len);
        }
    }
}

/* ---- lines for people ---- */

static void put_text(struct writer *w, const char *text) { writer_bytes(w, text, strlen(text)); }

static void put_view(struct writer *w, const struct text *t) { writer_bytes(w, t->data, t->len); }

/* Writes `before`, then a value: "%4". */
static void put_value(struct writer *w, const char *before, uint32_t number)
{
    char digits[DECIMAL_MAX], *end = digits + sizeof digits, *at = decimal_before(end, number);
    writer_bytes(w, before, strlen(before));
    writer_bytes(w, at, (size_t)(end - at));
}

static void put_values(struct writer *w, uint32_t first, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        put_value(w, i ? ", %" : "%", first + i);
}

static void put_types(struct printer *p, struct writer *w, const struct shape *s)
{
    for (uint32_t i = 0; i < s->n_types; i++) {
        writer_bytes(w, i ? ", " : " : ", i ? 2 : 3);
        put_view(w, &p->g->types.items.at[p->g->shape_types.at[s->types + i]]);
    }
}

static void put_dict(struct printer *p, struct writer *w, uint32_t dict)
{
    writer_bytes(w, " ", dict != 0);
    dict_put(p, dict, w);
}

static void put_op(struct printer *p, struct writer *w, const struct shape *s,
                   const uint32_t *operands)
{
    put_values(w, p->next, shape_results(s));
    writer_bytes(w, " = ", shape_results(s) ? 3 : 0);
    put_view(w, &p->g->names.items.at[s->name]);
    for (uint32_t i = 0; i < s->n_operands; i++)
        put_value(w, i ? ", %" : " %", operands[i]);
    put_dict(p, w, s->dict);
    if (s->kind == LINE_OPEN)
        writer_bytes(w, " (", 2);
    else
        put_types(p, w, s);
}

static void put_block(struct printer *p, struct writer *w, const struct shape *s)
{
    put_value(w, s->kind == LINE_NEXT ? "| ^" : "^", s->name);
    put_text(w, " (");
    for (uint32_t i = 0; i < s->n_types; i++) {
        put_value(w, i ? ", %" : "%", p->next + i);
        writer_bytes(w, " : ", 3);
        put_view(w, &p->g->types.items.at[p->g->shape_types.at[s->types + i]]);
    }
    writer_bytes(w, ")", 1);
}

static void put_close(struct printer *p, struct writer *w, const struct shape *s)
{
    writer_bytes(w, ")", 1);
    put_dict(p, w, s->dict);
    put_types(p, w, s);
    writer_bytes(w, " = ", s->n_types ? 3 : 0);
    put_values(w, p->next, s->n_types);
}

/* ---- the hashed records ---- */

/* Hashes the number of a text that this stream has. Else returns true, and the text must follow. */
static inline bool put_known(struct printer *p, uint32_t *number)
{
    put_number(p, *number);
    if (*number)
        return false;
    *number = ++p->n_texts;
    return true;
}

/* Hashes a name or a type: its text only the first time. */
static inline void put_text_ref(struct printer *p, struct text *t)
{
    if (!put_known(p, &t->number))
        return;
    put_number(p, t->len);
    form_put(p->out, t->data, t->len);
}

/* Hashes a dictionary in the same way. */
static inline void put_dict_ref(struct printer *p, uint32_t dict)
{
    if (!put_known(p, &p->g->dicts.at[dict].number))
        return;
    put_number(p, dict_len(p, dict));
    dict_put(p, dict, NULL);
}

/* Hashes the record that defines a shape, and gives it the next number. */
static __attribute__((noinline)) void shape_define(struct printer *p, struct shape *s)
{
    struct graph *g = p->g;
    put_number(p, RECORD_SHAPE);
    put_number(p, s->kind);
    if (s->kind == LINE_OP || s->kind == LINE_OPEN)
        put_text_ref(p, &g->names.items.at[s->name]);
    else
        put_number(p, s->name);
    put_dict_ref(p, s->dict);
    put_number(p, s->n_operands);
    put_number(p, s->n_types);
    for (uint32_t i = 0; i < s->n_types; i++)
        put_text_ref(p, &g->types.items.at[g->shape_types.at[s->types + i]]);
    s->number = ++p->n_kinds;
}

void printer_line(struct printer *p, uint32_t shape, const uint32_t *operands)
{
    struct shape *s = &p->g->shapes.at[shape];
    if (!s->number)
        shape_define(p, s);
    p->depth -= s->kind == LINE_CLOSE;
    if (p->out->text) {
        struct writer *w = p->out->text;
        static const char spaces[INDENT_MAX + 1] = "                                ";
        size_t n = 2 * (size_t)p->depth;
        writer_bytes(w, spaces, n < INDENT_MAX ? n : INDENT_MAX);
        switch (s->kind) {
        case LINE_OP:
        case LINE_OPEN: put_op(p, w, s, operands); break;
        case LINE_BLOCK:
        case LINE_NEXT: put_block(p, w, s); break;
        case LINE_EMPTY: writer_bytes(w, "()", 2); break;
        case LINE_NEXT_EMPTY: writer_bytes(w, "| ()", 4); break;
        case LINE_CLOSE: put_close(p, w, s); break;
        }
        writer_bytes(w, "\n", 1);
    }
    put_number(p, (uint64_t)RECORD_LINE + s->number - 1);
    for (uint32_t i = 0; i < s->n_operands; i++)
        put_number(p, p->next - operands[i]);
    p->depth += s->kind == LINE_OPEN;
    p->next += s->kind == LINE_OPEN ? 0 : s->n_types;
}

/* ---- functions and the module ---- */

/* Writes the text in `scratch`, and empties it. `next` is the number of the next value behind it. */
static void put_scratch(struct printer *p, uint32_t next)
{
    p->g->failed |= p->scratch.failed;
    if (!p->g->failed) {
        put_number(p, RECORD_TEXT);
        put_number(p, p->scratch.len);
        form_put(p->out, p->scratch.data, p->scratch.len);
        put_number(p, next);
        if (p->out->text)
            writer_bytes(p->out->text, p->scratch.data, p->scratch.len);
        p->next = next;
    }
    p->scratch.len = 0;
}

static void func_for_people(struct printer *p, const struct func *f)
{
    struct writer *w = p->out->text;
    const struct graph *g = p->g;
    put_text(w, f->is_public ? "func public " : "func ");
    put_value(w, "@#", symbol_number(p, f->symbol));
    put_text(w, "(");
    for (uint32_t i = 0; i < f->n_args; i++) {
        put_value(w, i ? ", %" : "%", p->next + i);
        writer_bytes(w, " : ", 3);
        put_view(w, &g->types.items.at[g->values.at[f->values + i]]);
        put_dict(p, w, g->arg_dicts.at[f->arg_dicts + i]);
    }
    put_text(w, ") -> (");
    for (uint32_t i = 0; i < f->n_results; i++) {
        writer_bytes(w, ", ", i ? 2 : 0);
        put_view(w, &g->types.items.at[g->results.at[f->results + 2 * i]]);
        put_dict(p, w, g->results.at[f->results + 2 * i + 1]);
    }
    put_text(w, f->defined ? ") {\n" : ")");
}

void printer_func_begin(struct printer *p, const struct func *f)
{
    struct graph *g = p->g;
    p->depth = 1;
    p->next = f->values;
    put_number(p, RECORD_FUNC);
    put_number(p, symbol_number(p, f->symbol) + 1);
    put_number(p, 2 * f->defined + f->is_public);
    put_number(p, f->n_args);
    put_number(p, f->n_results);
    for (uint32_t i = 0; i < f->n_args; i++) {
        put_text_ref(p, &g->types.items.at[g->values.at[f->values + i]]);
        put_dict_ref(p, g->arg_dicts.at[f->arg_dicts + i]);
    }
    for (uint32_t i = 0; i < f->n_results; i++) {
        put_text_ref(p, &g->types.items.at[g->results.at[f->results + 2 * i]]);
        put_dict_ref(p, g->results.at[f->results + 2 * i + 1]);
    }
    if (p->out->text)
        func_for_people(p, f);
    p->next += f->n_args;
}

void printer_func_end(struct printer *p, const struct func *f)
{
    put_text(&p->scratch, f->defined ? "}" : "");
    put_dict(p, &p->scratch, f->dict);
    put_text(&p->scratch, "\n");
    p->depth = 0;
    put_scratch(p, f->values);
}

static bool name_counts(const struct text *symbol)
{
    return !(symbol->flags & SYMBOL_PRIVATE) || symbol->flags & SYMBOL_KEPT ||
           (symbol->len >= 4 && memcmp(symbol->data, "xla.", 4) == 0);
}

void printer_module(struct printer *p, uint32_t dict)
{
    struct writer *w = &p->scratch;
    put_text(w, "module");
    put_dict(p, w, dict);
    put_text(w, "\n");
    for (uint32_t i = 0; i < p->symbols.n; i++) {
        const struct text *symbol = &p->g->symbols.items.at[p->symbols.at[i]];
        if (!name_counts(symbol))
            continue;
        put_value(w, "name @#", i);
        put_text(w, " ");
        put_view(w, symbol);
        put_text(w, "\n");
    }
    put_scratch(p, 0);
}

/* ---- life ---- */

void printer_init(struct printer *p, struct graph *g, const char *domain, struct form *out)
{
    *p = (struct printer){.g = g, .out = out};
    writer_init(&p->scratch, 0);
    form_begin(out, domain);
    form_text_apart(out);
}

void printer_close(struct printer *p)
{
    free(p->symbols.at);
    free(p->symbol_num.at);
    free(p->channels.at);
    writer_close(&p->scratch);
}
