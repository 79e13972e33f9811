/* SPDX-License-Identifier: Apache-2.0 */
/*
 * texts.c - stores the texts of a graph: types, names, symbols, dictionaries. The readers call it
 * through graph.h.
 *
 * Each text is stored once, in an arena, and has a number. A dictionary is collected in `draft`,
 * entry by entry. When it ends it becomes one text with holes (struct hole).
 *
 * Thread: one at a time for a graph; no other state.
 */
#define XXH_INLINE_ALL
#include "keygen/graph/internal.h"

#include <stdlib.h>
#include <string.h>

#define PAGE_BYTES (256u * 1024) /* of the arena of texts */

struct arena_page {
    struct arena_page *next;
    char bytes[];
};

/* ---- interned texts ---- */

static char *arena_take(struct graph *g, size_t len)
{
    if ((size_t)(g->page_end - g->page_at) < len) {
        size_t room = len > PAGE_BYTES / 4 ? len : PAGE_BYTES;
        struct arena_page *page = g->failed ? NULL : malloc(sizeof *page + room);
        if (!page) {
            g->failed = true;
            return NULL;
        }
        page->next = g->pages;
        g->pages = page;
        if (room == len)
            return page->bytes; /* a page of its own; the current one stays in use */
        g->page_at = page->bytes;
        g->page_end = page->bytes + room;
    }
    char *at = g->page_at;
    g->page_at += len;
    return at;
}

const char *graph_keep(struct graph *g, const char *text, size_t len)
{
    if (!len)
        return "";
    char *at = arena_take(g, len);
    if (at)
        bytes_copy(at, text, len);
    return at;
}

static uint32_t intern_text(struct graph *g, struct intern *t, const char *data, size_t len)
{
    uint64_t hash = XXH3_64bits(data, len);
    if (!slots_reserve(&t->slots)) {
        g->failed = true;
        return 0;
    }
    SLOTS_EACH(&t->slots, hash, i)
    {
        const struct text *have = &t->items.at[i];
        if (have->len == len && bytes_equal(have->data, data, len))
            return i;
    }
    const char *copy = len > UINT32_MAX ? NULL : graph_keep(g, data, len);
    if (!copy) {
        g->failed = true;
        return 0;
    }
    PUSH(g, t->items, (struct text){.data = copy, .len = (uint32_t)len});
    if (g->failed)
        return 0;
    slots_add(&t->slots, hash, t->items.n - 1);
    return t->items.n - 1;
}

uint32_t graph_type(struct graph *g, const char *text, size_t len)
{
    return intern_text(g, &g->types, text, len);
}

uint32_t graph_opname(struct graph *g, const char *text, size_t len)
{
    return intern_text(g, &g->names, text, len);
}

uint32_t graph_symbol(struct graph *g, const char *name, size_t len)
{
    return intern_text(g, &g->symbols, name, len);
}

static struct view text_view(const struct intern *t, uint32_t i)
{
    return i < t->items.n ? (struct view){t->items.at[i].data, t->items.at[i].len}
                          : (struct view){"", 0};
}

struct view graph_type_text(const struct graph *g, uint32_t type)
{
    return text_view(&g->types, type);
}

const char *graph_types_at(const struct graph *g, const uint32_t *types, uint32_t n,
                           const char *text, const char *end)
{
    for (uint32_t i = 0; i < n; i++) {
        struct view type = text_view(&g->types, types[i]);
        if (i && (end - text < 2 || text[0] != ',' || text[1] != ' '))
            return NULL;
        text += i ? 2 : 0;
        if ((size_t)(end - text) < type.len || !bytes_equal(text, type.data, type.len))
            return NULL;
        text += type.len;
        if (text < end && *text != ',' && *text != ')')
            return NULL;
    }
    return text;
}

struct view graph_symbol_text(const struct graph *g, uint32_t symbol)
{
    return text_view(&g->symbols, symbol);
}

void graph_symbol_private(struct graph *g, uint32_t symbol)
{
    if (symbol < g->symbols.items.n)
        g->symbols.items.at[symbol].flags |= SYMBOL_PRIVATE;
}

void graph_symbol_keep(struct graph *g, uint32_t symbol)
{
    if (symbol < g->symbols.items.n)
        g->symbols.items.at[symbol].flags |= SYMBOL_KEPT;
}

/* ---- dictionaries ---- */

void graph_dict_begin(struct graph *g) { g->draft.n = g->entries.n = g->draft_holes.n = 0; }

/* Makes room for `len` more bytes of the draft; false without memory. */
static bool draft_widen(struct graph *g, size_t len)
{
    if (len <= VECTOR_MAX / 4 &&
        vector_widen(&g->failed, &g->draft.at, &g->draft.cap, g->draft.n, (uint32_t)len, 1))
        return true;
    g->failed = true;
    return false;
}

static inline bool draft_room(struct graph *g, size_t len)
{
    return len <= g->draft.cap - g->draft.n || draft_widen(g, len);
}

static inline void draft_put(struct graph *g, const char *text, size_t len)
{
    if (!len || !draft_room(g, len))
        return;
    bytes_copy(g->draft.at + g->draft.n, text, len);
    g->draft.n += (uint32_t)len;
}

void graph_dict_key(struct graph *g, const char *name, size_t len)
{
    uint32_t key = g->draft.n;
    draft_put(g, name, len);
    PUSH(g, g->entries,
         (struct entry){.key = key,
                        .key_len = (uint32_t)len,
                        .value = g->draft.n,
                        .end = g->draft.n,
                        .holes = g->draft_holes.n,
                        .unit = true});
}

static struct entry *entry_open(struct graph *g)
{
    return g->failed || !g->entries.n ? NULL : &g->entries.at[g->entries.n - 1];
}

static __attribute__((noinline)) void dict_text_widened(struct graph *g, const char *text,
                                                        size_t len)
{
    if (draft_widen(g, len))
        graph_dict_text(g, text, len);
}

/* Readers call it for each part of a value: so no variable stays alive across a call. */
void graph_dict_text(struct graph *g, const char *text, size_t len)
{
    struct entry *e = entry_open(g);
    if (!e)
        return;
    if (len > g->draft.cap - g->draft.n) {
        dict_text_widened(g, text, len);
        return;
    }
    char *to = g->draft.at + g->draft.n;
    g->draft.n += (uint32_t)len;
    e->end = g->draft.n;
    e->unit = false;
    bytes_copy(to, text, len);
}

static void dict_hole(struct graph *g, struct hole hole)
{
    hole.at = g->draft.n;
    PUSH(g, g->draft_holes, hole);
    struct entry *e = entry_open(g);
    if (e) {
        e->n_holes++;
        e->unit = false;
    }
}

void graph_dict_borrow(struct graph *g, const char *text, size_t len)
{
    if (len < GRAPH_BORROWED)
        graph_dict_text(g, text, len);
    else
        dict_hole(g, (struct hole){.kind = HOLE_BORROW, .is.borrow = {text, len}});
}

void graph_dict_symbol(struct graph *g, uint32_t symbol)
{
    dict_hole(g, (struct hole){.kind = HOLE_SYMBOL, .is.symbol = symbol});
}

void graph_dict_channel(struct graph *g, uint64_t channel)
{
    dict_hole(g, (struct hole){.kind = HOLE_CHANNEL, .is.channel = channel});
}

struct view graph_dict_last(const struct graph *g)
{
    if (g->failed || !g->entries.n)
        return (struct view){"", 0};
    const struct entry *e = &g->entries.at[g->entries.n - 1];
    return (struct view){g->draft.at + e->value, e->end - e->value};
}

void graph_dict_drop(struct graph *g)
{
    if (g->failed || !g->entries.n)
        return;
    const struct entry *e = &g->entries.at[--g->entries.n];
    g->draft.n = e->key;
    g->draft_holes.n = e->holes;
}

static int entry_compare(const void *a, const void *b, void *draft)
{
    const struct entry *x = a, *y = b;
    size_t len = x->key_len < y->key_len ? x->key_len : y->key_len;
    int d = memcmp((const char *)draft + x->key, (const char *)draft + y->key, len);
    if (d)
        return d;
    if (x->key_len != y->key_len)
        return x->key_len < y->key_len ? -1 : 1;
    return x->key < y->key ? -1 : x->key > y->key; /* equal keys keep their order */
}

static void entries_sort(struct graph *g)
{
    struct entry *at = g->entries.at;
    if (g->entries.n > 16) {
        qsort_r(at, g->entries.n, sizeof *at, entry_compare, g->draft.at);
        return;
    }
    for (uint32_t i = 1; i < g->entries.n; i++) {
        struct entry e = at[i];
        uint32_t j = i;
        for (; j && entry_compare(&at[j - 1], &e, g->draft.at) > 0; j--)
            at[j] = at[j - 1];
        at[j] = e;
    }
}

static bool holes_equal(const struct graph *g, uint32_t first, uint32_t second, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct hole *a = &g->holes.at[first + i], *b = &g->holes.at[second + i];
        if (a->at != b->at || a->kind != b->kind)
            return false;
        if (a->kind == HOLE_SYMBOL && a->is.symbol != b->is.symbol)
            return false;
        if (a->kind == HOLE_CHANNEL && a->is.channel != b->is.channel)
            return false;
        if (a->kind == HOLE_BORROW &&
            (a->is.borrow.len != b->is.borrow.len ||
             memcmp(a->is.borrow.data, b->is.borrow.data, a->is.borrow.len)))
            return false;
    }
    return true;
}

static inline char *text_put(char *at, const char *text, size_t len)
{
    bytes_copy(at, text, len);
    return at + len;
}

/* Appends the sorted entries as "{a = 1, b}" to the draft, and their holes, at the new offsets, to
 * `holes`. Returns the offset of the text in the draft. */
static uint32_t entries_join(struct graph *g)
{
    uint32_t start = g->draft.n;
    for (uint32_t i = 0; i < g->entries.n; i++) {
        struct entry e = g->entries.at[i];
        if (!draft_room(g, (size_t)e.key_len + (e.end - e.value) + sizeof ",  = }"))
            break;
        char *draft = g->draft.at, *at = draft + g->draft.n;
        at = i ? text_put(at, ", ", 2) : text_put(at, "{", 1);
        at = text_put(at, draft + e.key, e.key_len);
        at = e.unit ? at : text_put(at, " = ", 3);
        uint32_t moved = (uint32_t)(at - draft) - start - e.value;
        for (uint32_t h = 0; h < e.n_holes; h++) {
            struct hole hole = g->draft_holes.at[e.holes + h];
            hole.at += moved;
            PUSH(g, g->holes, hole);
        }
        at = text_put(at, draft + e.value, e.end - e.value);
        g->draft.n = (uint32_t)(at - draft);
    }
    draft_put(g, "}", 1);
    return start;
}

static uint64_t dict_hash(const struct graph *g, const struct dict *d)
{
    uint64_t hash = XXH3_64bits(d->text, d->len);
    for (uint32_t i = 0; i < d->n_holes; i++) {
        const struct hole *h = &g->holes.at[d->holes + i];
        hash = mix(hash, (uint64_t)h->at << 2 | h->kind);
        if (h->kind == HOLE_BORROW)
            hash = mix(hash, XXH3_64bits(h->is.borrow.data, h->is.borrow.len));
        else
            hash = mix(hash, h->kind == HOLE_SYMBOL ? h->is.symbol : h->is.channel);
    }
    return hash;
}

uint32_t graph_dict_end(struct graph *g)
{
    if (g->failed || !g->entries.n)
        return 0;
    entries_sort(g);
    uint32_t holes = g->holes.n, start = entries_join(g);
    if (g->failed)
        return 0;
    struct dict d = {.text = g->draft.at + start,
                     .len = g->draft.n - start,
                     .holes = holes,
                     .n_holes = g->holes.n - holes};
    uint64_t hash = dict_hash(g, &d);
    if (!slots_reserve(&g->dict_slots)) {
        g->failed = true;
        return 0;
    }
    SLOTS_EACH(&g->dict_slots, hash, i)
    {
        const struct dict *have = &g->dicts.at[i];
        if (have->len == d.len && have->n_holes == d.n_holes &&
            bytes_equal(have->text, d.text, d.len) &&
            holes_equal(g, have->holes, d.holes, d.n_holes)) {
            g->holes.n = holes;
            return i;
        }
    }
    d.text = graph_keep(g, d.text, d.len);
    PUSH(g, g->dicts, d);
    if (g->failed)
        return 0;
    slots_add(&g->dict_slots, hash, g->dicts.n - 1);
    return g->dicts.n - 1;
}

/* ---- life ---- */

void graph_texts_begin(struct graph *g)
{
    graph_dict_begin(g);
    PUSH(g, g->dicts, (struct dict){.text = "{}", .len = 2});
}

static void intern_free(struct intern *t)
{
    free(t->items.at);
    slots_close(&t->slots);
}

void graph_texts_free(struct graph *g)
{
    while (g->pages) {
        struct arena_page *next = g->pages->next;
        free(g->pages);
        g->pages = next;
    }
    intern_free(&g->types);
    intern_free(&g->names);
    intern_free(&g->symbols);
    free(g->dicts.at);
    slots_close(&g->dict_slots);
    free(g->holes.at);
    free(g->draft.at);
    free(g->entries.at);
    free(g->draft_holes.at);
}
