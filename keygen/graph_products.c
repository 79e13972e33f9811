/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graph_products.c - whether two matrix products of a graph may share an operand, and sum over the same
 * dimensions of it.
 *
 * XLA for GPUs makes one product of two such, in an order and of a choice that depend on the order in which
 * all operations stand (KEYS.md 2.2). Told by hashes, so that equal values that are computed twice are one:
 *
 *   value  what an operand is, but for what leaves every element where it is (x * 2, convert(x))
 *   source what that was moved from (reshape, transpose, broadcast); itself if it was not
 *   side   the dimensions over which a product sums it, and which it goes through side by side
 *
 * Two products meet if they have one source and not one value, since compilers undo movements, or one value
 * and one side. Callees come before callers: what a callee's products take that is an argument, a call's
 * products take from its operands. Where that is not known they are said to meet. Hashes that collide say so,
 * too: that costs hits.
 */
#include "keygen/graph_internal.h"

#include <stdlib.h>

/* Uses of values by products, of all functions and calls, beside as many as there are nodes; with more they
 * are said to meet. */
#define USES_FREE ((uint32_t)1 << 16)

struct value {
    uint64_t value : 63, constant : 1;
    uint64_t source;
};

struct product_use {
    struct value of;
    uint64_t side, by; /* which product: equal ones are one */
    bool made;         /* not of this, but of something made of it and maybe others */
};

struct seen { /* a slot of a table */
    uint64_t key, is;
};

struct survey {
    const struct graph *g;
    bool failed, meet;
    bool *is_product;     /* by name */
    struct value *values; /* by node */
    VECTOR(struct product_use) uses;
    uint32_t *first; /* of a function, by its place in func_order; NONE before its turn */
    uint32_t *place; /* in func_order, by function */
    struct seen *table;
    uint32_t mask, n_seen;
    uint64_t scope; /* the function that is looked at: what its callees take is its own, too */
};

static struct value value_new(uint64_t hash, bool constant)
{
    return (struct value){.value = hash >> 1, .constant = constant, .source = hash};
}

static bool ends_in(const struct text *t, const char *name)
{
    size_t n = strlen(name);
    return t->len >= n && !memcmp(t->data + t->len - n, name, n) &&
           (t->len == n || t->data[t->len - n - 1] == '.');
}

static bool is_product_name(const struct text *t)
{
    static const char *const names[] = {"dot_general", "dot",          "convolution", "ragged_dot",
                                        "ragged-dot",  "dynamic_conv", "einsum"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (ends_in(t, names[i]))
            return true;
    return false;
}

static bool is_product(const struct survey *v, const struct shape *s)
{
    return v->is_product[s->name] && s->n_operands >= 2;
}

/* What a dictionary says of one side of a product, "lhs_" or "rhs_": which dimensions. */
static uint64_t side_hash(const struct graph *g, const struct shape *s, const char *side)
{
    const struct dict *d = &g->dicts.at[s->dict];
    const char *at = d->text, *end = at + d->len;
    uint64_t hash = 1;
    while (at < end && (at = memmem(at, (size_t)(end - at), side, 4))) {
        for (at += 4; at < end && *at != ']' && *at != '}'; at++)
            hash = mix(hash, (unsigned char)*at);
    }
    return hash;
}

/* The slot of a key, maybe an empty one. */
static struct seen *seen_at(const struct survey *v, uint64_t key)
{
    uint32_t i = (uint32_t)(key >> 32) & v->mask;
    while (v->table[i].key && v->table[i].key != key)
        i = (i + 1) & v->mask;
    return &v->table[i];
}

static bool seen_widen(struct survey *v)
{
    struct seen *old = v->table;
    uint32_t n = v->mask + 1;
    v->table = calloc((size_t)n * 2, sizeof *v->table);
    if (!v->table) {
        v->table = old;
        return false;
    }
    v->mask = n * 2 - 1;
    for (uint32_t i = 0; i < n; i++)
        if (old[i].key)
            *seen_at(v, old[i].key) = old[i];
    free(old);
    return true;
}

/* What was seen with a key first. */
static uint64_t seen_first(struct survey *v, uint64_t key, uint64_t is)
{
    struct seen *s = seen_at(v, key | 1);
    if (s->key)
        return s->is;
    *s = (struct seen){.key = key | 1, .is = is};
    if (++v->n_seen > v->mask / 2 && !seen_widen(v))
        v->failed = true;
    return is;
}

static void use_add(struct survey *v, struct product_use use)
{
    uint64_t source = mix(use.of.source, v->scope);
    uint64_t side = mix(mix(use.of.value, use.side), v->scope);
    if (v->uses.n >= USES_FREE + v->g->nodes.n ||
        (!use.made && seen_first(v, source, use.of.value) != use.of.value) ||
        seen_first(v, side, use.by) != use.by)
        v->meet = true;
    PUSH(v, v->uses, use);
}

static void product_take(struct survey *v, uint32_t id, const struct shape *s)
{
    const uint32_t *operands = op_operands(v->g, &v->g->nodes.at[id], s);
    struct value left = v->values[operands[0]], right = v->values[operands[1]];
    if (left.source == right.source) /* it does not meet itself */
        right.value = left.value;
    uint64_t by = v->values[id].source;
    use_add(v, (struct product_use){.of = left, .side = side_hash(v->g, s, "lhs_"), .by = by});
    use_add(v, (struct product_use){.of = right, .side = side_hash(v->g, s, "rhs_"), .by = by});
}

/* Which elements there are: a type without that of the elements. */
static struct view type_dims(const struct graph *g, uint32_t type)
{
    struct view t = graph_type_text(g, type);
    const char *text = t.data, *at = memchr(text, '[', t.len);
    if (at)
        return (struct view){.data = at, .len = (size_t)(text + t.len - at)};
    while (t.len && text[t.len - 1] != 'x')
        t.len--;
    return t;
}

static bool same_dims(const struct graph *g, uint32_t a, uint32_t b)
{
    struct view x = type_dims(g, a), y = type_dims(g, b);
    return x.len && x.len == y.len && !memcmp(x.data, y.data, x.len);
}

/* The function that an operation calls, or NULL. */
static const struct func *callee_of(const struct graph *g, const struct shape *s)
{
    return s->traits & GRAPH_CALL ? graph_func_of(g, s->callee) : NULL;
}

static uint32_t uses_end(const struct survey *v, uint32_t place)
{
    return place + 1 < v->g->func_order.n && v->first[place + 1] != NONE ? v->first[place + 1]
                                                                         : v->uses.n;
}

/* The products of a function that is named take its operands, for all that is known. */
static void named_take(struct survey *v, const struct func *f, uint32_t id, const struct shape *s)
{
    uint32_t place = v->place[f - v->g->funcs.at];
    if (f->recursive || place == NONE || v->first[place] == NONE) {
        v->meet = true;
        return;
    }
    const uint32_t *operands = op_operands(v->g, &v->g->nodes.at[id], s);
    if (v->first[place] != uses_end(v, place))
        for (uint32_t i = 0; i < s->n_operands; i++) {
            struct value of = v->values[operands[i]];
            of.value = mix(of.value, mix(id, i)); /* nobody else's */
            use_add(v, (struct product_use){.of = of, .by = mix(id, i)});
        }
}

/* What a use of a value becomes where the value `from` is `to` for the caller. */
static struct value value_through(struct value used, struct value from, struct value to)
{
    if (used.value != from.value) /* moved */
        to.value = mix(used.value, to.value);
    return to;
}

/* The products of a function that is called take what they take of its arguments from the operands, and what
 * it gives from the results. */
static void call_take(struct survey *v, const struct func *f, uint32_t id, const struct shape *s)
{
    const struct graph *g = v->g;
    const struct block *b = &g->blocks.at[f->block];
    const uint32_t *operands = op_operands(g, &g->nodes.at[id], s);
    uint32_t place = v->place[f - g->funcs.at];
    if (f->recursive || place == NONE || v->first[place] == NONE || s->n_operands != b->n_args ||
        b->last == NONE) {
        v->meet = true;
        return;
    }
    const struct node *ret = &g->nodes.at[b->last];
    const struct shape *gives = op_shape(g, ret);
    for (uint32_t u = v->first[place], end = uses_end(v, place); u < end && !v->meet; u++) {
        struct product_use use = v->uses.at[u], here = use;
        bool found = use.of.constant;
        here.by = mix(use.by, id);
        if (found)
            use_add(v, here);
        for (uint32_t i = 0; i < s->n_operands; i++) {
            struct value arg = v->values[b->args + i];
            if (use.of.source != arg.source)
                continue;
            found = true;
            here.of = value_through(use.of, arg, v->values[operands[i]]);
            use_add(v, here);
        }
        for (uint32_t i = 0; i < s->n_results && i < gives->n_operands && !found; i++) {
            struct value given = v->values[op_operands(g, ret, gives)[i]];
            here.of = value_through(use.of, given, v->values[id + i]);
            if (use.of.source == given.source)
                use_add(v, here);
        }
        here.made = true;
        here.side = mix(use.side, use.of.value);
        for (uint32_t i = 0; i < s->n_operands && !found; i++) {
            here.of = v->values[operands[i]];
            if (!here.of.constant)
                use_add(v, here);
        }
    }
}

/* Values that an operation gives: what is made of one value alone, element for element, or moved from it, may
 * be that one to a compiler. */
static void values_give(struct survey *v, uint32_t id, const struct shape *s)
{
    const struct graph *g = v->g;
    const struct node *o = &g->nodes.at[id];
    const uint32_t *operands = op_operands(g, o, s);
    bool pure = op_class(o) == GRAPH_PURE && !shape_has_regions(s);
    uint64_t hash = mix(s->hash, pure ? s->n_operands : mix(id, 1));
    uint32_t n_vary = 0, varies = 0;
    for (uint32_t i = 0; i < s->n_operands; i++) {
        const struct value *from = &v->values[operands[i]];
        hash = mix(hash, from->value + from->source);
        if (!from->constant) {
            n_vary++;
            varies = operands[i];
        }
    }
    struct value made = value_new(hash, pure && !n_vary);
    if (pure && n_vary == 1 && s->n_results == 1 && !is_product(v, s)) {
        const struct value *from = &v->values[varies];
        if (s->traits & GRAPH_MOVES)
            made.source = from->source;
        else if (same_dims(g, s->type, value_type(g, varies)))
            made = *from;
    }
    for (uint32_t i = 0; i < s->n_results; i++)
        v->values[id + i] = i ? value_new(mix(hash, i), made.constant) : made;
}

/* What a function gives that it was given, maybe moved. */
static void call_gives(struct survey *v, const struct func *f, uint32_t id, const struct shape *s)
{
    const struct graph *g = v->g;
    const struct block *b = &g->blocks.at[f->block];
    if (b->last == NONE)
        return;
    const struct node *ret = &g->nodes.at[b->last];
    const struct shape *gives = op_shape(g, ret);
    const uint32_t *operands = op_operands(g, &g->nodes.at[id], s);
    for (uint32_t i = 0; i < s->n_results && i < gives->n_operands; i++) {
        struct value given = v->values[op_operands(g, ret, gives)[i]];
        for (uint32_t k = 0; k < s->n_operands && k < b->n_args; k++) {
            struct value arg = v->values[b->args + k];
            if (given.source == arg.source)
                v->values[id + i] = value_through(given, arg, v->values[operands[k]]);
        }
    }
}

static void op_survey(struct survey *v, uint32_t id, const struct shape *s)
{
    const struct graph *g = v->g;
    const struct func *f = callee_of(g, s);
    values_give(v, id, s);
    if (is_product(v, s))
        product_take(v, id, s);
    if (f && f->defined) {
        call_gives(v, f, id, s);
        call_take(v, f, id, s);
    }
    const struct dict *d = &g->dicts.at[s->dict];
    for (uint32_t i = 0; s->has_holes && i < d->n_holes; i++) {
        const struct hole *h = &g->holes.at[d->holes + i];
        const struct func *named = h->kind == HOLE_SYMBOL ? graph_func_of(g, h->is.symbol) : NULL;
        if (named && named->defined)
            named_take(v, named, id, s);
    }
}

static void nodes_survey(struct survey *v, uint32_t first, uint32_t n)
{
    const struct graph *g = v->g;
    for (uint32_t id = first; id < first + n; id++)
        if (g->nodes.at[id].shape == NODE_ARG)
            v->values[id] = value_new(mix(id + 1, 1), false);
    for (uint32_t id = first; id < first + n && !v->meet && !v->failed; id++)
        if (node_is_op(&g->nodes.at[id]))
            op_survey(v, id, op_shape(g, &g->nodes.at[id]));
}

static void graph_survey(struct survey *v)
{
    const struct graph *g = v->g;
    for (uint32_t i = 0; i < g->funcs.n; i++)
        v->place[i] = NONE;
    for (uint32_t i = 0; i < g->func_order.n; i++) {
        v->first[i] = NONE;
        v->place[g->func_order.at[i]] = i;
    }
    for (uint32_t i = 0; i < g->bodies.n; i++)
        nodes_survey(v, g->bodies.at[i].from.nodes, g->bodies.at[i].n_nodes);
    v->meet |= v->uses.n > 0; /* a product in what several operations share */
    for (uint32_t i = 0; i < g->func_order.n && !v->meet && !v->failed; i++) {
        const struct func *f = &g->funcs.at[g->func_order.at[i]];
        v->first[i] = v->uses.n;
        v->scope = i + 1;
        nodes_survey(v, f->nodes, f->n_nodes);
    }
}

bool graph_products_meet(struct graph *g)
{
    struct survey v = {.g = g, .mask = 255};
    bool any = false;
    v.is_product = vector_zeroes(g->names.items.n, sizeof *v.is_product);
    for (uint32_t i = 0; i < g->names.items.n && v.is_product; i++)
        any |= v.is_product[i] = is_product_name(&g->names.items.at[i]);
    if (any) {
        v.values = vector_zeroes(g->nodes.n, sizeof *v.values);
        v.first = vector_zeroes(g->func_order.n, sizeof *v.first);
        v.place = vector_zeroes(g->funcs.n, sizeof *v.place);
        v.table = vector_zeroes(v.mask + 1, sizeof *v.table);
    }
    if (v.values && v.first && v.place && v.table)
        graph_survey(&v);
    else
        v.failed = any || !v.is_product;
    g->failed |= v.failed;
    free(v.is_product);
    free(v.values);
    free(v.first);
    free(v.place);
    free(v.table);
    free(v.uses.at);
    return v.meet;
}
