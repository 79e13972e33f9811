/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graph_regions.c - the parts of a module that are compiled alike wherever they stand.
 *
 * Two sorts. Each function is one; it counts as often as calls reach it. And so is each straight
 * piece of a block that comes twice or more, like layers that are written out:
 *
 *   1. Each operation of the ordered block that depends on an argument becomes a token: its name,
 *      dictionary and types, without what its operands are. What depends on no argument (small
 *      constants and what is made of them) belongs to whoever uses it and is no token.
 *   2. Places where the tokens repeat with a period are found by hashing windows of 2, 4, 8, ...
 *      tokens and looking at the distance to the last window with the same hash: n log n in all.
 *      The pieces that cover most are taken first; then equal pieces that stand apart.
 *   3. Each piece is written as a region of its own, with parameters numbered as its text first
 *      names them and operations in an order that depends on the piece alone. Equal texts are one
 *      region. Tokens only propose; the text, and so the key, is all of what the piece computes.
 *
 * Operands stay as they are given: whether they may change places is known of a whole module only
 * (graph_commute.c).
 *
 * A region whose text names what stands at the module's own level (a mesh), or in a module for
 * several partitions or replicas, holds the module's level as well.
 */
#include "keygen/graph_internal.h"

#include <stdlib.h>

#define PIECE_MIN 2    /* operations in a piece that repeats at once */
#define APART_MIN 4    /* operations in equal pieces that stand apart */
#define CLOSED_MAX 256 /* bytes of a dictionary that is content, not a parameter */
#define EXTEND_FREE 32 /* tokens by which any match may be made longer */
#define DOMAIN_REGION "region/1 "

struct piece { /* tokens at .. at + n × times - 1; the match: those `n` tokens before are equal */
    uint32_t at, n, times;
    uint32_t before; /* distance to the equal piece, when times is 1 */
};

struct found { /* a region, with what canon_region has no room for */
    struct canon_region region;
    uint32_t next; /* in the table's chain, + 1 */
};

struct mark {      /* of a value */
    uint32_t seen; /* by the piece with this stamp */
    bool leaves;   /* something outside of its piece uses it */
};

struct finder {
    struct graph *g;
    struct form *sink;
    const char *domain;
    struct printer printer;
    bool failed;
    VECTOR(struct found) found;
    uint32_t *slots, mask;
    VECTOR(uint32_t) tokens_op; /* by token: its operation */
    VECTOR(uint64_t) tokens;
    VECTOR(uint32_t) cut;     /* by token: values alive before it */
    VECTOR(uint32_t) taken;   /* by token: first token of the piece that has it, + 1 */
    VECTOR(uint32_t) taken_n; /* by first token: tokens of that piece */
    VECTOR(struct piece) pieces;
    VECTOR(uint64_t) window;
    uint64_t *last; /* hash table: window's hash, place */
    uint32_t last_mask;
    struct mark *marks; /* by value */
    uint32_t stamp;     /* of the piece that is being ordered */
    VECTOR(uint32_t) roots, order, blocks;
    VECTOR(uint64_t) stack;
};

/* ---- the list of regions ---- */

static void found_add(struct finder *f, const struct canon_region *region)
{
    uint64_t hash;
    memcpy(&hash, region->key.bytes, sizeof hash);
    if (f->found.n * 2 >= f->mask) {
        uint32_t mask = f->slots ? 2 * f->mask + 1 : 255;
        uint32_t *fresh = calloc((size_t)mask + 1, sizeof *fresh);
        if (!fresh) {
            f->failed = true;
            return;
        }
        for (uint32_t i = 0; i < f->found.n; i++) {
            uint64_t h;
            memcpy(&h, f->found.at[i].region.key.bytes, sizeof h);
            f->found.at[i].next = fresh[h & mask];
            fresh[h & mask] = i + 1;
        }
        free(f->slots);
        f->slots = fresh;
        f->mask = mask;
    }
    for (uint32_t i = f->slots[hash & f->mask]; i; i = f->found.at[i - 1].next) {
        struct canon_region *have = &f->found.at[i - 1].region;
        if (key_equal(&have->key, &region->key) &&
            memcmp(&have->proof, &region->proof, sizeof have->proof) == 0) {
            have->count += region->count;
            return;
        }
    }
    PUSH(f, f->found, (struct found){*region, f->slots[hash & f->mask]});
    if (!f->failed)
        f->slots[hash & f->mask] = f->found.n;
}

/* ---- writing one region ---- */

static bool region_begin(struct finder *f)
{
    char domain[48] = DOMAIN_REGION;
    strncat(domain, f->domain, sizeof domain - sizeof DOMAIN_REGION);
    if (!f->printer.symbol_num && !printer_init(&f->printer, f->g, f->sink))
        return false;
    f->printer.by_key = true;
    f->printer.n_ops = 0;
    f->printer.n_values = 0;
    f->printer.names_outside = false;
    form_begin(f->sink, domain);
    return true;
}

/* `dict`: what the module says of it. */
static void region_end(struct finder *f, uint32_t dict, struct canon_region *out)
{
    out->n_ops = f->printer.n_ops;
    if (f->printer.names_outside || (dict && !graph_dict_plain(f->g, dict)))
        printer_put_module(&f->printer, dict);
    short_end(&f->printer);
    form_end(f->sink, &out->key, &out->proof);
    printer_reset(&f->printer); /* numbers of symbols and channels begin anew */
    f->failed |= f->g->failed;
}

static void label_copy(struct canon_region *r, struct view text)
{
    size_t n = text.len < sizeof r->label - 1 ? text.len : sizeof r->label - 1;
    const char *from = text.data;
    for (size_t i = 0; i < n; i++) /* for people: one line */
        r->label[i] = (unsigned char)from[i] < ' ' ? '?' : from[i];
    r->label[n] = '\0';
}

/* ---- functions ---- */

static void funcs_count(struct graph *g)
{
    for (uint32_t i = g->func_order.n; i-- > 0;) {
        struct func *f = &g->funcs.at[g->func_order.at[i]];
        if (f->is_public)
            f->count++;
        for (uint32_t u = 0; u < f->n_uses; u++) {
            uint32_t used = g->symbol_func.at[g->uses.at[f->uses + u].symbol];
            if (used < g->funcs.n && g->funcs.at[used].count <= UINT64_MAX / 2 - f->count)
                g->funcs.at[used].count += f->count;
        }
    }
}

/* A function can be keyed if all that it names can: not where calls go in a circle. */
static bool func_keyable(const struct graph *g, const struct func *f)
{
    if (!f->defined || f->recursive)
        return false;
    for (uint32_t u = 0; u < f->n_uses; u++) {
        uint32_t used = g->symbol_func.at[g->uses.at[f->uses + u].symbol];
        if (used < g->funcs.n && g->funcs.at[used].defined && !g->funcs.at[used].keyed)
            return false;
    }
    return true;
}

static void func_region(struct finder *f, struct func *func, struct canon_region *out)
{
    struct canon_region region = {.count = func->count};
    func->keyed = func_keyable(f->g, func);
    if (!func->keyed || !region_begin(f))
        return;
    bool was_public = func->is_public;
    func->is_public = false; /* the same function wherever it stands */
    printer_put_func(&f->printer, func, false);
    func->is_public = was_public;
    region_end(f, was_public ? f->g->module_dict : f->g->regions_dict, &region);
    region.n_ops -= region.n_ops > 0; /* the return */
    func->key = region.key;
    label_copy(&region, graph_symbol_text(f->g, func->symbol));
    *out = region;
}

/* Keys from callees to callers, the list in the order of the text. */
static void funcs_regions(struct finder *f)
{
    struct graph *g = f->g;
    struct canon_region *regions = calloc((size_t)g->funcs.n + 1, sizeof *regions);
    f->failed |= !regions;
    funcs_count(g);
    for (uint32_t i = 0; i < g->func_order.n && !f->failed; i++)
        func_region(f, &g->funcs.at[g->func_order.at[i]], &regions[g->func_order.at[i]]);
    for (uint32_t i = 0; i < g->funcs.n && !f->failed; i++)
        if (g->funcs.at[i].keyed && g->funcs.at[i].count)
            found_add(f, &regions[i]);
    free(regions);
}

/* ---- tokens ---- */

/* Depends on no argument and is small: part of whatever uses it. `num` of its results says so. */
#define NUM_CLOSED (NONE - 1)

static bool value_closed(const struct graph *g, uint32_t value)
{
    return g->nodes.at[value].num == NUM_CLOSED;
}

static bool op_closed(const struct graph *g, const struct node *o)
{
    const struct shape *s = op_shape(g, o);
    const struct dict *d = &g->dicts.at[s->dict];
    if (op_class(o) != GRAPH_PURE || s->traits & GRAPH_CALL || shape_has_regions(s) ||
        !s->n_results || d->len > CLOSED_MAX || d->n_holes)
        return false;
    const uint32_t *operands = op_operands(g, o, s);
    for (uint32_t i = 0; i < s->n_operands; i++)
        if (!value_closed(g, operands[i]))
            return false;
    return true;
}

static uint64_t token_of(const struct graph *g, uint32_t id)
{
    const struct node *o = &g->nodes.at[id];
    const struct shape *s = op_shape(g, o);
    bool alone = op_class(o) == GRAPH_EFFECT ||
                 (shape_has_regions(s) && g->regions.at[op_region(g, o)].n_captures);
    uint64_t token = mix(alone ? id : 0, alone);
    for (uint32_t i = 0; i < s->n_results; i++)
        token = mix(token, graph_value_says(g, id + i));
    const uint32_t *operands = op_operands(g, o, s);
    for (uint32_t i = 0; i < s->n_operands; i++)
        token = mix(token, value_closed(g, operands[i])
                               ? node_hash(&g->nodes.at[operands[i]])
                               : g->types.items.at[value_type(g, operands[i])].hash);
    return token;
}

/* Tokens of a block, and how many values are alive before each. */
static void tokens_make(struct finder *f, const struct block *b)
{
    struct graph *g = f->g;
    f->tokens.n = f->tokens_op.n = f->cut.n = f->taken.n = f->taken_n.n = 0;
    for (uint32_t i = 0; i < b->n_args; i++)
        g->nodes.at[b->args + i].num = NONE;
    for (uint32_t i = 0; i + 1 < b->n_order && !f->failed; i++) {
        uint32_t id = g->order.at[b->order + i];
        const struct node *o = &g->nodes.at[id];
        bool closed = op_closed(g, o);
        for (uint32_t r = 0; r < op_shape(g, o)->n_results; r++)
            g->nodes.at[id + r].num = closed ? NUM_CLOSED : f->tokens.n;
        if (closed)
            continue;
        PUSH(f, f->tokens, token_of(g, id));
        PUSH(f, f->tokens_op, id);
        PUSH(f, f->cut, 0);
        PUSH(f, f->taken, 0);
        PUSH(f, f->taken_n, 0);
    }
}

/* Where a value of the block is made, in tokens; NONE for what is not made by a token. */
static uint32_t token_of_value(const struct finder *f, uint32_t value)
{
    const struct node *v = &f->g->nodes.at[value];
    uint32_t op = value_op(f->g, value);
    if (op == NONE || v->num >= f->tokens.n || f->tokens_op.at[v->num] != op)
        return NONE;
    return v->num;
}

/* cut[t]: values made before token t and used at it or later. Uses are visited from the last. */
static void cuts_count(struct finder *f, const struct block *b)
{
    struct graph *g = f->g;
    uint32_t n = f->tokens.n;
    /* taken_n holds the last use of each token's values while this runs */
    for (uint32_t i = 0; i < b->n_order; i++) {
        const struct node *o = &g->nodes.at[g->order.at[b->order + i]];
        uint32_t at = op_shape(g, o)->n_results ? o->num : n, value;
        if (i + 1 == b->n_order || at > n)
            at = n;
        for (uint32_t d = 0; graph_dependency(g, o, d, &value); d++) {
            uint32_t made = token_of_value(f, value);
            if (made != NONE && f->taken_n.at[made] < at)
                f->taken_n.at[made] = at;
        }
    }
    for (uint32_t t = 0; t < n; t++) { /* alive in t + 1 .. last use */
        if (t + 1 < n && f->taken_n.at[t] > t)
            f->cut.at[t + 1]++;
        if (f->taken_n.at[t] + 1 < n)
            f->cut.at[f->taken_n.at[t] + 1]--;
        f->taken_n.at[t] = 0;
    }
    for (uint32_t t = 1; t < n; t++)
        f->cut.at[t] += f->cut.at[t - 1];
}

/* ---- repeats ---- */

/* The last place with this hash of a window, which becomes `at`; NONE for the first. */
static uint32_t window_last(struct finder *f, uint64_t hash, uint32_t at)
{
    uint32_t s = (uint32_t)(hash >> 20) & f->last_mask;
    while (f->last[2 * s + 1] && f->last[2 * s] != hash)
        s = (s + 1) & f->last_mask;
    uint32_t before = f->last[2 * s + 1] ? (uint32_t)f->last[2 * s + 1] - 1 : NONE;
    f->last[2 * s] = hash;
    f->last[2 * s + 1] = (uint64_t)at + 1;
    return before;
}

/* Tokens from .. to - 1 equal those `distance` before: a piece with a period, or two apart. The
 * match is made longer by no more than it is long, so that all of this stays near linear. */
static void match_add(struct finder *f, uint32_t from, uint32_t to, uint32_t distance)
{
    const uint64_t *t = f->tokens.at;
    uint32_t more = to - from + EXTEND_FREE;
    if (f->pieces.n > 2 * f->tokens.n)
        return; /* more proposals than tokens: enough */
    for (uint32_t i = 0; i < more && from > distance && t[from - 1] == t[from - 1 - distance]; i++)
        from--;
    for (uint32_t i = 0; i < more && to < f->tokens.n && t[to] == t[to - distance]; i++)
        to++;
    uint32_t n = to - from;
    if (n >= distance && distance >= PIECE_MIN) {
        uint32_t start = from - distance, len = n + distance;
        uint32_t slack = len % distance, best = 0;
        for (uint32_t r = 1; r <= slack; r++) /* cut where the fewest values are alive */
            if (f->cut.at[start + r + distance] < f->cut.at[start + best + distance])
                best = r;
        PUSH(f, f->pieces, (struct piece){start + best, distance, len / distance, 0});
    } else if (n >= APART_MIN && n < distance) {
        PUSH(f, f->pieces, (struct piece){from, n, 1, distance});
    }
}

static void windows_match(struct finder *f, uint32_t width)
{
    uint32_t from = 0, distance = 0, n = f->tokens.n - width + 1;
    memset(f->last, 0, ((size_t)f->last_mask + 1) * 2 * sizeof *f->last);
    for (uint32_t i = 0; i < n && !f->failed; i++) {
        uint32_t before = window_last(f, f->window.at[i], i);
        uint32_t d = before == NONE ? 0 : i - before;
        if (d == distance)
            continue;
        if (distance)
            match_add(f, from, i - 1 + width, distance);
        from = i;
        distance = d;
    }
    if (distance)
        match_add(f, from, n - 1 + width, distance);
}

/* Hashes of windows of twice the width from those of the width. */
static void windows_double(struct finder *f, uint32_t width)
{
    for (uint32_t i = 0; i + 2 * width <= f->tokens.n; i++)
        f->window.at[i] = mix(f->window.at[i] + width, f->window.at[i + width]);
}

static int piece_compare(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;
    uint64_t p = (uint64_t)x->n * x->times, q = (uint64_t)y->n * y->times;
    if ((x->times > 1) != (y->times > 1))
        return x->times > 1 ? -1 : 1;
    if (p != q)
        return p > q ? -1 : 1;
    if (x->n != y->n)
        return x->n < y->n ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

static bool tokens_free(const struct finder *f, uint32_t at, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (f->taken.at[at + i])
            return false;
    return true;
}

static void tokens_take(struct finder *f, uint32_t at, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        f->taken.at[at + i] = at + 1;
    f->taken_n.at[at] = n;
}

static void pieces_find(struct finder *f)
{
    uint32_t n = f->tokens.n;
    f->pieces.n = f->window.n = 0;
    for (uint32_t i = 0; i < n; i++)
        PUSH(f, f->window, f->tokens.at[i]);
    uint32_t mask = 63;
    while (mask < 2 * n)
        mask = 2 * mask + 1;
    free(f->last);
    f->last = malloc(((size_t)mask + 1) * 2 * sizeof *f->last);
    f->last_mask = mask;
    if (!f->last || f->failed) {
        f->failed = true;
        return;
    }
    for (uint32_t width = 2; width <= n && !f->failed; width *= 2) {
        windows_double(f, width / 2);
        windows_match(f, width);
    }
}

/* Pieces that overlap none that covers more. */
static void pieces_choose(struct finder *f)
{
    if (f->pieces.n)
        qsort(f->pieces.at, f->pieces.n, sizeof *f->pieces.at, piece_compare);
    for (uint32_t i = 0; i < f->pieces.n; i++) {
        struct piece p = f->pieces.at[i];
        if (i && piece_compare(&p, &f->pieces.at[i - 1]) == 0)
            continue;
        if (f->taken.at[p.at] || f->taken.at[p.at + p.n - 1] ||
            !tokens_free(f, p.at, p.n * p.times))
            continue;
        if (p.times > 1) {
            for (uint32_t k = 0; k < p.times; k++)
                tokens_take(f, p.at + k * p.n, p.n);
            continue;
        }
        uint32_t twin = p.at - p.before;
        bool known = f->taken.at[twin] == twin + 1 && f->taken_n.at[twin] == p.n;
        if (!known && !tokens_free(f, twin, p.n))
            continue;
        if (!known)
            tokens_take(f, twin, p.n);
        tokens_take(f, p.at, p.n);
    }
}

/* ---- a piece as a region ---- */

/* The content of an operation's operand seen from inside the piece: parameters are their types. */
static uint64_t local_hash(const struct finder *f, uint32_t value, uint32_t at, uint32_t n)
{
    uint32_t made = token_of_value(f, value);
    if (made != NONE && made >= at && made < at + n)
        return f->window.at[made] + value_index(f->g, value);
    return value_closed(f->g, value) ? node_hash(&f->g->nodes.at[value])
                                     : f->g->types.items.at[value_type(f->g, value)].hash;
}

/* Hashes of the piece's operations from its own content, in window[]. */
static void piece_hash(struct finder *f, uint32_t at, uint32_t n)
{
    struct graph *g = f->g;
    for (uint32_t t = at; t < at + n; t++) {
        uint32_t id = f->tokens_op.at[t];
        const struct node *o = &g->nodes.at[id];
        uint64_t hash = f->tokens.at[t];
        for (uint32_t r = 0; r < op_shape(g, o)->n_results; r++)
            hash = mix(hash, graph_value_says(g, id + r));
        uint32_t value;
        for (uint32_t d = 0; graph_dependency(g, o, d, &value); d++)
            hash = mix(hash, local_hash(f, value, at, n));
        f->window.at[t] = hash;
    }
}

static int root_compare(const void *a, const void *b, void *finder)
{
    const struct finder *f = finder;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    const struct node *u = &f->g->nodes.at[x], *v = &f->g->nodes.at[y];
    uint64_t p = f->window.at[u->num] + value_index(f->g, x);
    uint64_t q = f->window.at[v->num] + value_index(f->g, y);
    if (p != q)
        return p < q ? -1 : 1;
    return x < y ? -1 : x > y;
}

/* Marks, for all of the block, which values are used by another piece or by none. */
static void leaves_mark(struct finder *f, const struct block *b)
{
    struct graph *g = f->g;
    for (uint32_t t = 0; t < f->tokens.n; t++) {
        uint32_t id = f->tokens_op.at[t];
        for (uint32_t r = 0; r < op_shape(g, &g->nodes.at[id])->n_results; r++)
            f->marks[id + r].leaves = false;
    }
    for (uint32_t i = 0; i < b->n_order; i++) {
        uint32_t id = g->order.at[b->order + i];
        const struct node *o = &g->nodes.at[id];
        uint32_t user = op_shape(g, o)->n_results ? token_of_value(f, id) : NONE, value;
        for (uint32_t d = 0; graph_dependency(g, o, d, &value); d++) {
            uint32_t made = token_of_value(f, value);
            if (made != NONE &&
                (user == NONE || !f->taken.at[user] || f->taken.at[user] != f->taken.at[made]))
                f->marks[value].leaves = true;
        }
    }
}

/* Orders the piece, depth first from its results; `order` gets operations, closed ones too, and
 * parameters as NONE followed by the value. */
static void piece_walk(struct finder *f, uint32_t root, uint32_t at, uint32_t n)
{
    struct graph *g = f->g;
    uint32_t stamp = f->stamp;
    PUSH(f, f->stack, (uint64_t)value_op(g, root) << 32);
    while (f->stack.n && !f->failed) {
        uint64_t *top = &f->stack.at[f->stack.n - 1];
        uint32_t id = (uint32_t)(*top >> 32), value;
        const struct node *o = &g->nodes.at[id];
        if (op_shape(g, o)->n_results && f->marks[id].seen == stamp) {
            f->stack.n--;
            continue;
        }
        if (!graph_dependency(g, o, (uint32_t)*top, &value)) {
            for (uint32_t r = 0; r < op_shape(g, o)->n_results; r++)
                f->marks[id + r].seen = stamp;
            PUSH(f, f->order, id);
            f->stack.n--;
            continue;
        }
        ++*top;
        if (f->marks[value].seen == stamp)
            continue;
        uint32_t made = token_of_value(f, value);
        if (value_closed(g, value) || (made != NONE && made >= at && made < at + n)) {
            PUSH(f, f->stack, (uint64_t)value_op(g, value) << 32);
            continue;
        }
        f->marks[value].seen = stamp;
        PUSH(f, f->order, NONE);
        PUSH(f, f->order, value);
    }
}

static void piece_order(struct finder *f, uint32_t at, uint32_t n)
{
    struct graph *g = f->g;
    f->roots.n = f->order.n = 0;
    f->stamp++;
    for (uint32_t t = at; t < at + n; t++) {
        uint32_t id = f->tokens_op.at[t];
        for (uint32_t r = 0; r < op_shape(g, &g->nodes.at[id])->n_results; r++)
            if (f->marks[id + r].leaves)
                PUSH(f, f->roots, id + r);
    }
    if (f->roots.n > 1 && !f->failed)
        qsort_r(f->roots.at, f->roots.n, sizeof *f->roots.at, root_compare, f);
    for (uint32_t i = 0; i < f->roots.n && !f->failed; i++)
        piece_walk(f, f->roots.at[i], at, n);
}

static void piece_write(struct finder *f)
{
    struct graph *g = f->g;
    struct form *out = f->sink;
    const char *comma = "";
    form_put_text(out, "region (");
    for (uint32_t i = 0; i < f->order.n; i++)
        if (f->order.at[i] == NONE) {
            form_put_text(out, comma);
            printer_put_param(&f->printer, f->order.at[++i]);
            comma = ", ";
        }
    form_put_text(out, ")\n");
    for (uint32_t i = 0; i < f->order.n && !g->failed; i++) {
        if (f->order.at[i] == NONE)
            i++;
        else
            printer_put_tree(&f->printer, f->order.at[i]);
    }
    form_put_text(out, "gives");
    comma = " ";
    for (uint32_t i = 0; i < f->roots.n; i++) {
        form_put_text(out, comma);
        printer_put_value(&f->printer, f->roots.at[i]);
        comma = ", ";
    }
    form_put_text(out, "\n");
}

/* Writes the ordered piece as a region. The printer overwrites `num`, which later pieces need: it is saved
 * on the stack. */
static void piece_put(struct finder *f, uint32_t at)
{
    struct graph *g = f->g;
    struct canon_region region = {.count = 1};
    if (f->failed || !f->roots.n || !region_begin(f))
        return;
    f->stack.n = 0;
    for (uint32_t i = 0; i < f->order.n; i++) {
        bool param = f->order.at[i] == NONE;
        uint32_t first = f->order.at[param ? ++i : i];
        uint32_t count = param ? 1 : op_shape(g, &g->nodes.at[first])->n_results;
        for (uint32_t r = 0; r < count; r++)
            PUSH(f, f->stack, (uint64_t)(first + r) << 32 | g->nodes.at[first + r].num);
    }
    if (!f->failed)
        piece_write(f);
    for (uint32_t i = 0; i < f->stack.n; i++)
        g->nodes.at[f->stack.at[i] >> 32].num = (uint32_t)f->stack.at[i];
    f->stack.n = 0;
    region_end(f, f->g->regions_dict, &region);
    const struct shape *says = op_shape(g, &g->nodes.at[f->tokens_op.at[at]]);
    const struct text *name = &g->names.items.at[says->name];
    label_copy(&region, (struct view){name->data, name->len});
    found_add(f, &region);
}

static void piece_region(struct finder *f, uint32_t at, uint32_t n)
{
    piece_hash(f, at, n);
    piece_order(f, at, n);
    piece_put(f, at);
}

static void block_regions(struct finder *f, const struct block *b)
{
    if (b->frozen || b->n_order < 2 * PIECE_MIN)
        return;
    tokens_make(f, b);
    if (f->tokens.n < 2 * PIECE_MIN || f->failed)
        return;
    cuts_count(f, b);
    pieces_find(f);
    if (f->failed)
        return;
    pieces_choose(f);
    leaves_mark(f, b);
    for (uint32_t t = 0; t < f->tokens.n && !f->failed; t++)
        if (f->taken.at[t] == t + 1)
            piece_region(f, t, f->taken_n.at[t]);
}

/* All blocks of a function, those inside its operations too. */
static void func_blocks(struct finder *f, const struct func *func)
{
    struct graph *g = f->g;
    f->blocks.n = 0;
    for (uint32_t b = func->block; b != NONE; b = g->blocks.at[b].next)
        PUSH(f, f->blocks, b);
    for (uint32_t i = 0; i < f->blocks.n && !f->failed; i++) {
        const struct block *b = &g->blocks.at[f->blocks.at[i]];
        for (uint32_t k = 0; k < b->n_order; k++) {
            const struct node *o = &g->nodes.at[g->order.at[b->order + k]];
            for (uint32_t r = op_region(g, o); r != NONE; r = g->regions.at[r].next)
                for (uint32_t c = g->regions.at[r].block; c != NONE; c = g->blocks.at[c].next)
                    PUSH(f, f->blocks, c);
        }
    }
}

static int found_gives(struct finder *f, struct form *out, struct err *e)
{
    struct canon_region *list = malloc((f->found.n + 1) * sizeof *list);
    size_t n = 0;
    if (!list || f->failed) {
        free(list);
        return err_set(e, WARM_ENOMEM, "no memory for the regions");
    }
    for (uint32_t i = 0; i < f->found.n; i++)
        list[n++] = f->found.at[i].region;
    out->regions = list;
    out->n_regions = n;
    return 0;
}

static void finder_close(struct finder *f)
{
    void *arrays[] = {f->found.at,  f->slots,    f->tokens_op.at, f->tokens.at,
                      f->cut.at,    f->taken.at, f->taken_n.at,   f->pieces.at,
                      f->window.at, f->last,     f->roots.at,     f->order.at,
                      f->blocks.at, f->stack.at, f->marks};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        free(arrays[i]);
}

int graph_regions(struct graph *g, const char *domain, struct form *out, struct err *e)
{
    struct finder f = {.g = g, .sink = out, .domain = domain};
    funcs_regions(&f);
    f.marks = calloc((size_t)g->nodes.n + 1, sizeof *f.marks);
    f.failed |= !f.marks;
    for (uint32_t i = 0; i < g->funcs.n && !f.failed; i++) {
        struct func *func = &g->funcs.at[i];
        if (!func->reached || !func->defined || (func->inlines && !func->is_public))
            continue;
        func_blocks(&f, func);
        for (uint32_t b = 0; b < f.blocks.n && !f.failed; b++)
            block_regions(&f, &g->blocks.at[f.blocks.at[b]]);
    }
    int rc = found_gives(&f, out, e);
    printer_close(&f.printer);
    finder_close(&f);
    return rc;
}
