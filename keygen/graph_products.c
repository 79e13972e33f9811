/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graph_products.c - whether two matrix products of a graph may share an operand, and sum over the same
 * dimensions of it.
 *
 * XLA for GPUs makes one product of two such, in an order and of a choice that depend on the order in which
 * all operations stand (KEYS.md 2.2). They may share one if they take one value over the same dimensions, or
 * two values of one class (graph_values.h), since compilers undo movements; and if they stand in the same
 * loops. Hashes of 64 bits stand for values.
 */
#include "keygen/graph_values.h"

#include <stdlib.h>

#define DIMS_MAX 31
#define SIDE_UNKNOWN UINT32_MAX
#define ONES_KNOWN (1u << DIMS_MAX)
#define SEEN_ONCE 32 /* products that are looked for at one time */

struct operand_use {
    uint64_t value : VALUE_BITS;
    uint64_t class : CLASS_BITS;
};

struct product_use {
    uint64_t by : EXACT_BITS;  /* which product: equal ones are one */
    uint64_t loop : LOOP_BITS; /* around it, of those that surely turn twice */
    /* of the first use of a class, left or right: there are others, of other values, by other products */
    uint64_t others : 2, many : 2;
    struct operand_use of[2]; /* left, right */
    uint32_t side[2];         /* a set of dimensions: product_side */
};

struct survey {
    const struct graph *g;
    struct values values;
    bool failed;
    bool *has_product; /* by function: it has, or what it calls or names; NULL: not looked at */
    uint32_t *sides;   /* by shape, of its left and right operand; 0: not looked at */
    uint32_t *ones;    /* by type, dims_of_one and ONES_KNOWN; 0: not looked at */
    VECTOR(struct product_use) uses;
    uint32_t n_seen;    /* of them: the others are still to be looked for */
    struct finder seen; /* by what they take: 2 * which + right + 1 */
    bool meet;
};

/* ---- which dimensions ---- */

/* The numbers that stand from `at` on, one more in *at each time, up to what closes them; -1 at the end. */
static int number_next(const char **at, const char *end)
{
    for (; *at < end && **at != ']' && **at != '}'; ++*at) {
        int n = 0;
        if (**at < '0' || **at > '9')
            continue;
        for (; *at < end && **at >= '0' && **at <= '9'; ++*at)
            n = n < 64 ? 10 * n + (**at - '0') : 64;
        return n;
    }
    return -1;
}

/* Which dimensions of a type have one element. */
static uint32_t dims_of_one(const struct graph *g, uint32_t type)
{
    struct view t = graph_type_text(g, type);
    const char *end = t.data + t.len, *at = memchr(t.data, '[', t.len);
    uint32_t ones = 0;
    if (!at)
        at = memchr(t.data, '<', t.len);
    for (unsigned dim = 0; at && ++at < end && dim < DIMS_MAX; dim++) {
        const char *from = at;
        while (at < end && (*at == '?' || (*at >= '0' && *at <= '9')))
            at++;
        if (at == from || at == end || (*at != 'x' && *at != ',' && *at != ']'))
            break;
        ones |= (uint32_t)(at - from == 1 && *from == '1') << dim;
    }
    return ones;
}

struct labels {
    const char *at, *end;
};

/* How a convolution labels the dimensions of an operand, as "0, 1, i, o" or "01io"; empty if it says nothing
 * that is known. */
static struct labels labels_of(const struct graph *g, const struct shape *s, bool right)
{
    const struct dict *d = &g->dicts.at[s->dict];
    const char *end = d->text + d->len, *at = memmem(d->text, d->len, "#stablehlo.conv<[", 17),
               *hlo = memmem(d->text, d->len, "dim_labels = ", 13);
    if (at && right && (at = memmem(at, (size_t)(end - at), "]x[", 3)))
        at += 3;
    else if (at)
        at += 17;
    else if (hlo && right && (at = memchr(hlo + 13, '_', (size_t)(end - hlo - 13))))
        at++;
    else if (hlo)
        at = hlo + 13;
    struct labels labels = {at ? at : end, at ? at : end};
    while (labels.end < end && !memchr("]_-", *labels.end, 3))
        labels.end++;
    return labels;
}

/* Whether a convolution may become a product of matrices: its window has one element. */
static bool convolution_is_product(const struct graph *g, const struct shape *s, uint32_t window)
{
    struct labels labels = labels_of(g, s, true);
    uint32_t ones = dims_of_one(g, window);
    unsigned dim = 0;
    for (const char *at = labels.at; at < labels.end; at++) {
        if (*at >= '0' && *at <= '9' && !(dim < DIMS_MAX && ones >> dim & 1))
            return false;
        dim += *at != ',' && *at != ' ';
    }
    return true;
}

/* Which dimension of an operand such a convolution sums over: a set, or SIDE_UNKNOWN. */
static uint32_t convolution_side(const struct graph *g, const struct shape *s, bool right)
{
    struct labels labels = labels_of(g, s, right);
    unsigned dim = 0;
    for (const char *at = labels.at; at < labels.end; at++) {
        if (*at == (right ? 'i' : 'f'))
            return dim < DIMS_MAX ? 1u << dim : SIDE_UNKNOWN;
        dim += *at != ',' && *at != ' ';
    }
    return SIDE_UNKNOWN;
}

/* Which dimensions of an operand, "lhs_" or "rhs_", a product sums over or goes through side by side: a sum of
 * products that go side by side may become one. A set, or SIDE_UNKNOWN. */
static uint32_t product_side(const struct graph *g, const struct shape *s, const char *operand)
{
    const struct dict *d = &g->dicts.at[s->dict];
    const char *at = d->text, *end = at + d->len;
    uint32_t dims = 0;
    while (at < end && (at = memmem(at, (size_t)(end - at), operand, 4)))
        for (int n; (n = number_next(&at, end)) >= 0;)
            dims |= n < DIMS_MAX ? 1u << n : SIDE_UNKNOWN;
    return dims ? dims : SIDE_UNKNOWN;
}

/* ---- which products ---- */

static inline bool is_product(const struct survey *v, uint32_t id)
{
    const struct node *o = &v->g->nodes.at[id];
    if (!node_is_op(o))
        return false;
    const struct shape *s = op_shape(v->g, o);
    enum role role = v->values.role[s->name];
    if ((role != PRODUCT && role != CONVOLUTION) || s->n_operands < 2)
        return false;
    return role == PRODUCT ||
           convolution_is_product(v->g, s, value_type(v->g, op_operands(v->g, o, s)[1]));
}

static bool any_product(const struct survey *v, uint32_t nodes, uint32_t n)
{
    for (uint32_t id = nodes; id < nodes + n; id++)
        if (is_product(v, id))
            return true;
    return false;
}

/* Finds which functions have products. False if none has that is reached. */
static bool funcs_look(struct survey *v)
{
    const struct graph *g = v->g;
    bool any = false;
    free(v->has_product);
    v->has_product = vector_zeroes(g->funcs.n, sizeof *v->has_product);
    v->failed |= !v->has_product;
    for (uint32_t i = 0; i < g->func_order.n && !v->failed; i++) {
        const struct func *f = &g->funcs.at[g->func_order.at[i]];
        bool has = any_product(v, f->nodes, f->n_nodes);
        for (uint32_t u = 0; u < f->n_uses && !has; u++) {
            const struct func *used = graph_func_of(g, g->uses.at[f->uses + u].symbol);
            has = used && v->has_product[used - g->funcs.at];
        }
        v->has_product[f - g->funcs.at] = has;
        any |= has;
    }
    return any;
}

/* Are there products in what an operation names? */
static bool names_product(struct survey *v, const struct shape *s)
{
    const struct dict *d = &v->g->dicts.at[s->dict];
    for (uint32_t i = 0; i < d->n_holes; i++) {
        const struct hole *h = &v->g->holes.at[d->holes + i];
        const struct func *f = h->kind == HOLE_SYMBOL ? graph_func_of(v->g, h->is.symbol) : NULL;
        if (f && !v->has_product)
            funcs_look(v);
        if (f && (v->failed || v->has_product[f - v->g->funcs.at]))
            return true;
    }
    return false;
}

/* How a product uses an operand, the left one or the right one. */
static void use_look(struct survey *v, struct product_use *use, uint32_t id, bool right)
{
    const struct graph *g = v->g;
    const struct node *o = &g->nodes.at[id];
    const struct shape *s = op_shape(g, o);
    uint32_t operand = op_operands(g, o, s)[right], type = value_type(g, operand);
    struct value of = value_at(&v->values, operand);
    bool convolution = v->values.role[s->name] == CONVOLUTION;
    uint32_t *side = &v->sides[2 * (s - g->shapes.at) + right];
    if (!*side)
        *side = convolution ? convolution_side(g, s, right)
                            : product_side(g, s, right ? "rhs_" : "lhs_");
    if (!v->ones[type])
        v->ones[type] = dims_of_one(g, type) | ONES_KNOWN;
    use->of[right] = (struct operand_use){.value = of.value, .class = of.class};
    use->side[right] = *side;
    if (convolution || *side == SIDE_UNKNOWN) /* moved, it becomes a product like the others */
        use->of[right].value = mix(of.value, 1) >> (64 - VALUE_BITS);
    else
        use->side[right] &= ~v->ones[type] | ONES_KNOWN; /* one element is as good as none */
}

/* ---- which meet ---- */

/* What a product takes: a value over some dimensions; a class. Both in its loop, and of all uses: 2 * which +
 * right. */
static uint64_t value_of_use(const struct survey *v, uint32_t i)
{
    const struct product_use *u = &v->uses.at[i / 2];
    return mix(mix(u->of[i % 2].value, u->side[i % 2]), u->loop);
}

static uint64_t class_of_use(const struct survey *v, uint32_t i, uint32_t *class)
{
    const struct product_use *u = &v->uses.at[i / 2];
    *class = values_class(&v->values, u->of[i % 2].class);
    return mix(mix(1, *class), u->loop);
}

/* Sees whether another product takes the same. */
static void value_meets(struct survey *v, uint32_t i, uint64_t hash)
{
    struct probe p = finder_probe(&v->seen, hash, (uint32_t)hash);
    uint32_t found;
    while ((found = finder_next(&v->seen, &p)) && value_of_use(v, found - 1) != hash)
        ;
    if (!found)
        finder_put(&v->seen, &p, i + 1);
    else
        v->meet |= v->uses.at[(found - 1) / 2].by != v->uses.at[i / 2].by;
}

/* Looks for the uses that came since it last did, many at a time, so that the memory is not waited for. */
static void uses_see(struct survey *v)
{
    uint64_t hashes[2 * SEEN_ONCE];
    while (v->n_seen < v->uses.n && !v->failed) {
        uint32_t known = v->seen.n;
        v->failed |= !finder_room(&v->seen, 2 * SEEN_ONCE);
        if (v->seen.n != known)
            v->n_seen = 0;
        uint32_t at = 2 * v->n_seen, left = 2 * v->uses.n - at;
        uint32_t n = left < 2 * SEEN_ONCE ? left : 2 * SEEN_ONCE;
        for (uint32_t i = 0; i < n && !v->failed; i++) {
            hashes[i] = value_of_use(v, at + i);
            __builtin_prefetch(&v->seen.slots[(uint32_t)hashes[i] & v->seen.mask]);
        }
        for (uint32_t i = 0; i < n && !v->failed; i++)
            value_meets(v, at + i, hashes[i]);
        v->n_seen += n / 2;
    }
}

/* The first are looked for soon: mostly they meet, or none does. */
static void use_add(struct survey *v, const struct product_use *use)
{
    if (v->uses.n == FINDER_MAX / 2) {
        v->values.unknown = true;
        return;
    }
    PUSH(v, v->uses, *use);
    uint32_t n = v->uses.n - v->n_seen;
    if (n == SEEN_ONCE || n > v->n_seen / 4)
        uses_see(v);
}

/* A product stands in the loops around it, as far as it is not the same in each turn: then compilers may take
 * it out. */
static void product_take(struct survey *v, uint32_t id)
{
    struct value gives = value_at(&v->values, id);
    struct product_use use = {.by = gives.exact, .loop = values_loop(&v->values, id)};
    use_look(v, &use, id, false);
    use_look(v, &use, id, true);
    use_add(v, &use);
    while (use.loop > gives.loop) {
        use.loop = v->values.loops.at[use.loop];
        use_add(v, &use);
    }
}

static void op_look(struct values *values, uint32_t id, void *ctx)
{
    struct survey *v = ctx;
    const struct shape *s = op_shape(v->g, &v->g->nodes.at[id]);
    if (is_product(v, id))
        product_take(v, id);
    values->unknown |= v->meet || (s->has_holes && names_product(v, s));
    values->failed |= v->failed;
}

/* Whether two products take something of one class, of which more than one value is taken. Once all classes
 * are known. A product does not meet itself. */
static bool classes_meet(struct survey *v)
{
    finder_clear(&v->seen);
    v->failed |= !finder_room(&v->seen, 2 * v->uses.n);
    for (uint32_t i = 0; i < 2 * v->uses.n && !v->failed; i++) {
        uint32_t class, found;
        uint64_t hash = class_of_use(v, i, &class);
        struct probe p = finder_probe(&v->seen, hash, class);
        while ((found = finder_next(&v->seen, &p)) && class_of_use(v, found - 1, &class) != hash)
            ;
        if (!found)
            finder_put(&v->seen, &p, found = i + 1);
        uint32_t k = found - 1;
        const struct product_use *u = &v->uses.at[i / 2];
        struct product_use *first = &v->uses.at[k / 2];
        uint64_t mine = u->of[i % 2].value, other = first->of[k % 2].value;
        first->others |= (uint64_t)(mine != other) << k % 2;
        first->many |= (uint64_t)(u->by != first->by) << k % 2;
        if (first->others & first->many)
            return true;
    }
    return false;
}

/* A product in what several operations share. */
static bool bodies_have_product(const struct survey *v)
{
    const struct graph *g = v->g;
    for (uint32_t i = 0; i < g->bodies.n; i++)
        if (any_product(v, g->bodies.at[i].from.nodes, g->bodies.at[i].n_nodes))
            return true;
    return false;
}

static bool graph_survey(struct survey *v)
{
    if (!any_product(v, 0, v->g->nodes.n))
        return false;
    if (bodies_have_product(v))
        return true;
    values_walk(&v->values, op_look, v);
    v->failed |= v->values.failed;
    if (v->values.unknown)
        return v->meet || funcs_look(v);
    uses_see(v);
    return v->meet || (v->uses.n && classes_meet(v));
}

bool graph_products_meet(struct graph *g)
{
    struct survey v = {.g = g};
    bool any = false, meet = false;
    for (uint32_t i = 0; i < g->names.items.n && !any; i++) {
        enum role role = values_role(g, i);
        any = role == PRODUCT || role == CONVOLUTION;
    }
    if (!any)
        return false;
    v.sides = vector_zeroes(2 * (size_t)g->shapes.n, sizeof *v.sides);
    v.ones = vector_zeroes(g->types.items.n, sizeof *v.ones);
    if (values_begin(&v.values, g) && v.sides && v.ones)
        meet = graph_survey(&v);
    else
        v.failed = true;
    g->failed |= v.failed;
    values_end(&v.values);
    free(v.has_product);
    free(v.sides);
    free(v.ones);
    finder_free(&v.seen);
    free(v.uses.at);
    return meet;
}
