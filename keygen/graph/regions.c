/* SPDX-License-Identifier: Apache-2.0 */
/*
 * regions.c - finds the parts of a module that are compiled alike in any surroundings. graph_end
 * calls it for a graph that keeps its lines.
 *
 * There are two sorts of regions. Each function is one; its count is how often calls reach it. A
 * straight run of operations in a block, if it occurs twice or more (unrolled layers), is the
 * other:
 *
 *   1. Each operation of a block that depends on an argument becomes a token: a hash of the
 *      operation without the identity of its operands. An operation that depends on no argument
 *      (a small constant, or an operation of such constants) is closed: it belongs to each user.
 *   2. The finder hashes windows of 2, 4, 8, ... tokens, and measures the distance to the last
 *      equal window. So it finds tokens that repeat with a period, in n log n. It chooses the
 *      pieces that cover most first.
 *   3. The finder writes each piece as a region. Its text numbers the parameters by first mention,
 *      and orders the operations by the piece alone. Equal texts are one region. Tokens only
 *      propose: the text, and so the key, contains the whole computation of the piece.
 *
 * An operation that may have effects equals no other, so it is in no piece.
 *
 * Terms
 *   token     a number for an operation of a block; operations of equal tokens may be equal
 *   closed    said of an operation that depends on no argument and is small
 *   window    2^k tokens in a row
 *   piece     a run of tokens that repeats at once (a period)
 *   cut       a place between two tokens; its cost is the number of values that are alive there
 *   root      a result from which a piece is ordered, depth first
 *   leaves    said of a value of a piece that is used outside of it
 *
 * Thread: one at a time for a graph; no other state.
 */
#include "keygen/canon/names.h"
#include "keygen/domains.h"
#include "keygen/graph/internal.h"

#include <stdio.h>
#include <stdlib.h>

#define PIECE_MIN 2    /* operations in a piece that repeats at once */
#define CLOSED_MAX 256 /* bytes of a dictionary; an operation with a longer one is not closed */
#define EXTEND_FREE 32 /* tokens by which each match may be extended */

struct piece { /* tokens at .. at + n × times - 1 */
    uint32_t at, n, times;
};

struct mark {      /* of a value */
    uint64_t hash; /* of a closed one */
    uint32_t op;   /* of an operation's result: the operation's line */
    uint32_t made; /* the token of the current block that defines it; CLOSED; or another number */
    uint32_t seen; /* stamp of the last piece that visited it */
    bool leaves;   /* an operation outside of its piece uses it */
};
#define CLOSED (NONE - 1)

struct block { /* operations at lines first .. end - 1 */
    uint32_t first, end;
    bool alone; /* the only one of its region */
};

struct function { /* of a graph, beside struct func */
    bool walked, recursive, keyed;
    uint64_t count; /* how often calls reach it */
    struct key key; /* as a region */
};

struct finder {
    struct graph *g;
    struct printer *printer;
    char domain[48];
    bool failed;
    bool nameless; /* the current region names a function that has no key */
    VECTOR(struct canon_region) found;
    struct names known;            /* key and proof of each that was found, and its number */
    struct function *functions;    /* by number */
    uint32_t *func_of;             /* by symbol; NONE */
    VECTOR(uint32_t) func_order;   /* callees before callers */
    VECTOR(uint32_t) module_lines; /* operations of the module's own level */
    VECTOR(struct block) blocks;
    VECTOR(uint32_t) ops;       /* of the current block: their lines */
    VECTOR(uint32_t) tokens_op; /* by token: the line of its operation */
    VECTOR(uint64_t) tokens;
    VECTOR(uint32_t) cut;     /* by token: values alive before it */
    VECTOR(uint32_t) taken;   /* by token: the first token of its piece, + 1 */
    VECTOR(uint32_t) taken_n; /* by first token: tokens of that piece */
    VECTOR(struct piece) pieces;
    VECTOR(uint64_t) window;
    uint64_t *last; /* hash table: the window's hash, its place */
    uint32_t last_mask;
    struct mark *marks; /* by value */
    uint32_t stamp;     /* of the current piece */
    VECTOR(uint32_t) roots, order;
    VECTOR(uint64_t) stack;
};

/* ---- operations, by their lines ---- */

static const struct shape *line_shape(const struct graph *g, uint32_t line)
{
    return &g->shapes.at[g->lines.at[line].shape];
}

/* Returns the shape that has the operation's results: that of its line, or of its closing line. */
static uint32_t op_results(const struct graph *g, uint32_t op)
{
    return line_shape(g, g->lines.at[op].next - 1)->n_types;
}

/* Returns the operands of the operation and of the operations inside of it: a slice of
 * graph.operands. */
static const uint32_t *op_takes(const struct graph *g, uint32_t op, uint32_t *out_n)
{
    uint32_t first = g->lines.at[op].operands, next = g->lines.at[op].next;
    *out_n = (next < g->lines.n ? g->lines.at[next].operands : g->operands.n) - first;
    return *out_n ? g->operands.at + first : NULL;
}

/* Returns the first value that is defined inside of the operation. */
static uint32_t op_inside(const struct graph *g, uint32_t op)
{
    uint32_t line = op + 1, end = g->lines.at[op].next;
    while (line < end && line_shape(g, line)->kind != LINE_BLOCK &&
           line_shape(g, line)->kind != LINE_NEXT)
        line++;
    return line < end ? g->lines.at[line].value : g->lines.at[op].value;
}

/* Finds the next value from outside that the operation uses, from operand *i on, and moves *i
 * behind it. False after the last. */
static bool op_dependency(const struct graph *g, uint32_t op, uint32_t *i, uint32_t *out)
{
    uint32_t n, inside = op_inside(g, op);
    const uint32_t *takes = op_takes(g, op, &n);
    while (*i < n && takes[*i] >= inside)
        ++*i;
    if (*i == n)
        return false;
    *out = takes[(*i)++];
    return true;
}

static bool op_is_pure(const struct graph *g, uint32_t op)
{
    for (uint32_t line = op; line < g->lines.at[op].next; line++) {
        const struct shape *s = line_shape(g, line);
        if ((s->kind == LINE_OP || s->kind == LINE_OPEN) && !g->names.items.at[s->name].flags)
            return false;
    }
    return true;
}

static uint64_t shape_hash(const struct graph *g, const struct shape *s)
{
    bool named = s->kind == LINE_OP || s->kind == LINE_OPEN;
    uint64_t hash = mix(s->kind, named ? g->names.items.at[s->name].hash : s->name);
    hash = mix(mix(hash, g->dicts.at[s->dict].hash), (uint64_t)s->n_operands << 32 | s->n_types);
    for (uint32_t i = 0; i < s->n_types; i++)
        hash = mix(hash, g->types.items.at[g->shape_types.at[s->types + i]].hash);
    return hash;
}

static uint64_t type_hash(const struct graph *g, uint32_t value)
{
    return g->types.items.at[g->values.at[value]].hash;
}

static bool value_closed(const struct finder *f, uint32_t value)
{
    return f->marks[value].made == CLOSED;
}

/* Returns a hash of the operation. It has the content of closed operands, and the types of others. */
static uint64_t op_hash(const struct finder *f, uint32_t op)
{
    const struct graph *g = f->g;
    uint32_t n, inside = op_inside(g, op);
    const uint32_t *takes = op_takes(g, op, &n);
    uint64_t hash = n;
    for (uint32_t line = op; line < g->lines.at[op].next; line++)
        hash = mix(hash, shape_hash(g, line_shape(g, line)));
    for (uint32_t i = 0; i < n; i++)
        hash = mix(hash, takes[i] >= inside          ? takes[i] - inside
                         : value_closed(f, takes[i]) ? f->marks[takes[i]].hash
                                                     : type_hash(g, takes[i]));
    return hash;
}

/* ---- the list of regions ---- */

static void found_add(struct finder *f, const struct canon_region *region)
{
    char both[sizeof region->key + sizeof region->proof];
    bool is_new = false;
    memcpy(both, &region->key, sizeof region->key);
    memcpy(both + sizeof region->key, &region->proof, sizeof region->proof);
    const char *kept = graph_keep(f->g, both, sizeof both);
    uint32_t *number = kept ? names_add(&f->known, kept, sizeof both, &is_new) : NULL;
    f->failed |= !number;
    if (!number)
        return;
    if (is_new) {
        *number = f->found.n;
        PUSH(f, f->found, *region);
    } else {
        f->found.at[*number].count += region->count;
    }
}

/* ---- writing one region ---- */

static void region_begin(struct finder *f)
{
    printer_begin(f->printer);
    f->nameless = false;
}

/* Writes a line; its values get numbers. */
static void line_write(struct finder *f, uint32_t line)
{
    struct printer *p = f->printer;
    const struct line *l = &f->g->lines.at[line];
    const struct shape *s = line_shape(f->g, line);
    for (uint32_t i = 0; s->kind != LINE_OPEN && i < s->n_types; i++)
        p->nums[l->value + i] = p->next + i;
    printer_line(p, l->shape, s->n_operands ? f->g->operands.at + l->operands : NULL);
}

static void op_write(struct finder *f, uint32_t op)
{
    for (uint32_t line = op; line < f->g->lines.at[op].next && !f->g->failed; line++)
        line_write(f, line);
}

/* True if the module's dictionary means nothing for a region: one partition and one replica. */
static bool dict_plain(const struct graph *g, uint32_t dict)
{
    static const char one[] = "{mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32}";
    const struct dict *d = &g->dicts.at[dict];
    return !dict || (d->len == sizeof one - 1 && !d->n_holes && memcmp(d->text, one, d->len) == 0);
}

/* Ends a region and sets its key. False without memory, or if the region names a function without
 * one. */
static bool region_end(struct finder *f, struct canon_region *out)
{
    struct graph *g = f->g;
    struct printer *p = f->printer;
    if (p->symbols.n || !dict_plain(g, g->module_dict)) {
        for (uint32_t i = 0; i < f->module_lines.n; i++)
            op_write(f, f->module_lines.at[i]);
        printer_module(p, g->module_dict);
    }
    form_end(p->out, &out->key, &out->proof);
    f->failed |= g->failed;
    return !f->failed && !f->nameless;
}

static size_t symbol_is_keyed(void *finder, uint32_t symbol, char out[64])
{
    struct finder *f = finder;
    uint32_t func = f->func_of[symbol];
    char key[WARM_KEY_TEXT];
    if (func == NONE || !f->g->funcs.at[func].defined)
        return 0;
    f->nameless |= !f->functions[func].keyed;
    key_to_text(&f->functions[func].key, key);
    return (size_t)snprintf(out, 64, "@key %s", key);
}

static uint64_t ops_count(const struct graph *g, uint32_t line, uint32_t end)
{
    uint64_t n = 0;
    for (; line < end; line++)
        n += line_shape(g, line)->kind == LINE_OP || line_shape(g, line)->kind == LINE_OPEN;
    return n;
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

/* Calls `visit` for each function that the lines from `line` on name. */
static void names_visit(struct finder *f, uint32_t line, uint32_t end,
                        void (*visit)(struct finder *, uint32_t func, uint64_t of), uint64_t of)
{
    struct graph *g = f->g;
    for (; line < end && !f->failed; line++) {
        const struct dict *d = &g->dicts.at[line_shape(g, line)->dict];
        for (uint32_t i = 0; i < d->n_holes; i++) {
            const struct hole *h = &g->holes.at[d->holes + i];
            uint32_t func = h->kind == HOLE_SYMBOL ? f->func_of[h->is.symbol] : NONE;
            if (func != NONE)
                visit(f, func, of);
        }
    }
}

static void func_names(struct finder *f, uint32_t func,
                       void (*visit)(struct finder *, uint32_t func, uint64_t of), uint64_t of)
{
    const struct func *named = &f->g->funcs.at[func];
    names_visit(f, named->lines, named->lines + named->n_lines, visit, of);
}

#define FUNC_DONE ((uint64_t)1 << 32)

static void func_push(struct finder *f, uint32_t func, uint64_t of)
{
    (void)of;
    struct function *named = &f->functions[func];
    if (named->count == 0) /* not visited yet */
        PUSH(f, f->stack, func);
    named->recursive |= named->count && !named->walked;
}

/* Orders the functions, callees before callers. Meanwhile a `count` above 0 marks a visited function. */
static void funcs_order(struct finder *f)
{
    for (uint32_t i = 0; i < f->g->funcs.n; i++) {
        PUSH(f, f->stack, i);
        while (f->stack.n && !f->failed) {
            uint64_t top = f->stack.at[f->stack.n - 1];
            struct function *at = &f->functions[(uint32_t)top];
            if (top & FUNC_DONE) {
                at->walked = true;
                PUSH(f, f->func_order, (uint32_t)top);
                f->stack.n--;
            } else if (at->count) {
                f->stack.n--;
            } else {
                at->count = 1;
                f->stack.at[f->stack.n - 1] = top | FUNC_DONE;
                func_names(f, (uint32_t)top, func_push, 0);
            }
        }
    }
}

static void func_add(struct finder *f, uint32_t func, uint64_t count)
{
    if (f->functions[func].count <= UINT64_MAX / 2 - count)
        f->functions[func].count += count;
}

/* Counts how often calls reach each function. A fragment may have no public function: each then
 * counts once. */
static void funcs_count(struct finder *f)
{
    const struct graph *g = f->g;
    bool any_public = false;
    for (uint32_t i = 0; i < g->funcs.n; i++)
        any_public |= g->funcs.at[i].is_public && g->funcs.at[i].defined;
    for (uint32_t i = 0; i < g->funcs.n; i++)
        f->functions[i].count = g->funcs.at[i].is_public || !any_public;
    for (uint32_t i = 0; i < f->module_lines.n; i++)
        names_visit(f, f->module_lines.at[i], g->lines.at[f->module_lines.at[i]].next, func_add, 1);
    for (uint32_t i = f->func_order.n; i-- > 0;)
        func_names(f, f->func_order.at[i], func_add, f->functions[f->func_order.at[i]].count);
}

/* True if the function uses only values of its own. */
static bool func_is_closed(const struct graph *g, const struct func *func)
{
    for (uint32_t line = func->lines; line < func->lines + func->n_lines; line++)
        for (uint32_t i = 0; i < line_shape(g, line)->n_operands; i++)
            if (g->operands.at[g->lines.at[line].operands + i] < func->values)
                return false;
    return true;
}

static void func_region(struct finder *f, uint32_t number, struct canon_region *out)
{
    struct graph *g = f->g;
    struct function *function = &f->functions[number];
    const struct func *func = &g->funcs.at[number];
    struct canon_region region = {.count = function->count};
    if (!func->defined || function->recursive || !func_is_closed(g, func))
        return;
    region_begin(f);
    printer_func_begin(f->printer, func);
    for (uint32_t i = 0; i < func->n_lines && !g->failed; i++)
        line_write(f, func->lines + i);
    printer_func_end(f->printer, func);
    function->keyed = region_end(f, &region);
    region.n_ops = ops_count(g, func->lines, func->lines + func->n_lines);
    region.n_ops -= region.n_ops > 0; /* the return */
    function->key = region.key;
    label_copy(&region, graph_symbol_text(g, func->symbol));
    *out = region;
}

/* Computes the keys, callees first; lists the functions in the order of the text. */
static void funcs_regions(struct finder *f)
{
    struct graph *g = f->g;
    struct canon_region *regions = calloc((size_t)g->funcs.n + 1, sizeof *regions);
    f->failed |= !regions;
    for (uint32_t i = 0; i < f->func_order.n && !f->failed; i++)
        func_region(f, f->func_order.at[i], &regions[f->func_order.at[i]]);
    for (uint32_t i = 0; i < g->funcs.n && !f->failed; i++)
        if (f->functions[i].keyed && f->functions[i].count)
            found_add(f, &regions[i]);
    free(regions);
}

/* ---- tokens ---- */

/* True if the operation is closed. */
static bool op_closed(const struct finder *f, uint32_t op)
{
    const struct graph *g = f->g;
    const struct shape *s = line_shape(g, op);
    const struct dict *d = &g->dicts.at[s->dict];
    if (s->kind != LINE_OP || !g->names.items.at[s->name].flags || !s->n_types ||
        d->len > CLOSED_MAX || d->n_holes)
        return false;
    for (uint32_t i = 0; i < s->n_operands; i++)
        if (!value_closed(f, g->operands.at[g->lines.at[op].operands + i]))
            return false;
    return true;
}

/* Collects the block's operations and makes their tokens. The last operation, which ends the block,
 * has none. */
static void tokens_make(struct finder *f, const struct block *b)
{
    const struct graph *g = f->g;
    f->tokens.n = f->tokens_op.n = f->cut.n = f->taken.n = f->taken_n.n = f->ops.n = 0;
    for (uint32_t op = b->first; op < b->end && !f->failed; op = g->lines.at[op].next)
        PUSH(f, f->ops, op);
    for (uint32_t i = 0; i + 1 < f->ops.n && !f->failed; i++) {
        uint32_t op = f->ops.at[i], first = g->lines.at[op].value;
        bool closed = op_closed(f, op);
        uint64_t hash = op_hash(f, op);
        for (uint32_t r = 0; r < op_results(g, op); r++) {
            f->marks[first + r].made = closed ? CLOSED : f->tokens.n;
            f->marks[first + r].hash = hash + r;
            f->marks[first + r].op = op;
        }
        if (closed)
            continue;
        PUSH(f, f->tokens, op_is_pure(g, op) ? hash : mix(hash, op));
        PUSH(f, f->tokens_op, op);
        PUSH(f, f->cut, 0);
        PUSH(f, f->taken, 0);
        PUSH(f, f->taken_n, 0);
    }
}

/* Returns the token of the current block that defines a value, or NONE. */
static uint32_t token_of_value(const struct finder *f, uint32_t value)
{
    uint32_t made = f->marks[value].made;
    if (made >= f->tokens.n)
        return NONE;
    uint32_t op = f->tokens_op.at[made], first = f->g->lines.at[op].value;
    return value >= first && value - first < op_results(f->g, op) ? made : NONE;
}

/* Returns the token of an operation of the block; the number of tokens if it has none. */
static uint32_t token_of_op(const struct finder *f, uint32_t op, uint32_t *at)
{
    while (*at < f->tokens.n && f->tokens_op.at[*at] < op)
        ++*at;
    return *at < f->tokens.n && f->tokens_op.at[*at] == op ? *at : f->tokens.n;
}

/* Fills `cut`: cut[t] counts the values that are defined before token t and used at t or later. */
static void cuts_count(struct finder *f)
{
    uint32_t n = f->tokens.n, at = 0, value;
    /* meanwhile taken_n has the last use of each token's values */
    for (uint32_t i = 0; i < f->ops.n; i++) {
        uint32_t user = token_of_op(f, f->ops.at[i], &at);
        for (uint32_t d = 0; op_dependency(f->g, f->ops.at[i], &d, &value);) {
            uint32_t made = token_of_value(f, value);
            if (made != NONE && f->taken_n.at[made] < user)
                f->taken_n.at[made] = user;
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

/* Returns the last place of a window with this hash, NONE if there is none, and stores `at` instead. */
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

/* Adds a match: tokens from .. to - 1 equal those `distance` before. It becomes a piece if they repeat
 * with that period. A match at most doubles when it is extended, so the whole stays near linear. */
static void match_add(struct finder *f, uint32_t from, uint32_t to, uint32_t distance)
{
    const uint64_t *t = f->tokens.at;
    uint32_t more = to - from + EXTEND_FREE;
    if (f->pieces.n > 2 * f->tokens.n)
        return; /* enough: more proposals than tokens */
    for (uint32_t i = 0; i < more && from > distance && t[from - 1] == t[from - 1 - distance]; i++)
        from--;
    for (uint32_t i = 0; i < more && to < f->tokens.n && t[to] == t[to - distance]; i++)
        to++;
    uint32_t start = from - distance, len = to - start, slack = len % distance, best = 0;
    if (len < 2 * distance || distance < PIECE_MIN)
        return;
    for (uint32_t r = 1; r <= slack; r++) /* cut at the fewest live values */
        if (f->cut.at[start + r + distance] < f->cut.at[start + best + distance])
            best = r;
    PUSH(f, f->pieces, (struct piece){start + best, distance, len / distance});
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

/* Doubles the width of the windows whose hashes are in window[]. */
static void windows_double(struct finder *f, uint32_t width)
{
    for (uint32_t i = 0; i + 2 * width <= f->tokens.n; i++)
        f->window.at[i] = mix(f->window.at[i] + width, f->window.at[i + width]);
}

static int piece_compare(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;
    uint64_t p = (uint64_t)x->n * x->times, q = (uint64_t)y->n * y->times;
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

/* Chooses pieces, those that cover most first; no two of them overlap. */
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
        for (uint32_t k = 0; k < p.times; k++)
            tokens_take(f, p.at + k * p.n, p.n);
    }
}

/* ---- a piece as a region ---- */

static bool in_piece(uint32_t token, uint32_t at, uint32_t n)
{
    return token != NONE && token >= at && token < at + n;
}

/* Returns a hash of a value as the piece sees it: a parameter is its type. */
static uint64_t local_hash(const struct finder *f, uint32_t value, uint32_t at, uint32_t n)
{
    uint32_t made = token_of_value(f, value);
    if (in_piece(made, at, n))
        return f->window.at[made] + (value - f->g->lines.at[f->tokens_op.at[made]].value);
    return value_closed(f, value) ? f->marks[value].hash : type_hash(f->g, value);
}

/* Hashes the piece's operations by the piece's own content, into window[]. */
static void piece_hash(struct finder *f, uint32_t at, uint32_t n)
{
    for (uint32_t t = at; t < at + n; t++) {
        uint64_t hash = f->tokens.at[t];
        uint32_t value;
        for (uint32_t d = 0; op_dependency(f->g, f->tokens_op.at[t], &d, &value);)
            hash = mix(hash, local_hash(f, value, at, n));
        f->window.at[t] = hash;
    }
}

static int root_compare(const void *a, const void *b, void *finder)
{
    const struct finder *f = finder;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    uint64_t p = local_hash(f, x, 0, f->tokens.n), q = local_hash(f, y, 0, f->tokens.n);
    if (p != q)
        return p < q ? -1 : 1;
    return x < y ? -1 : x > y;
}

/* Marks the values of pieces that an operation outside of their piece uses. */
static void leaves_mark(struct finder *f)
{
    const struct graph *g = f->g;
    uint32_t at = 0, value;
    for (uint32_t t = 0; t < f->tokens.n; t++)
        for (uint32_t r = 0; r < op_results(g, f->tokens_op.at[t]); r++)
            f->marks[g->lines.at[f->tokens_op.at[t]].value + r].leaves = false;
    for (uint32_t i = 0; i < f->ops.n; i++) {
        uint32_t user = token_of_op(f, f->ops.at[i], &at);
        for (uint32_t d = 0; op_dependency(g, f->ops.at[i], &d, &value);) {
            uint32_t made = token_of_value(f, value);
            if (made != NONE && (user == f->tokens.n || !f->taken.at[user] ||
                                 f->taken.at[user] != f->taken.at[made]))
                f->marks[value].leaves = true;
        }
    }
}

/* Orders the piece, depth first from `root`. Appends to `order` its operations, closed ones too,
 * and its parameters as NONE and the value. */
static void piece_walk(struct finder *f, uint32_t root, uint32_t at, uint32_t n)
{
    const struct graph *g = f->g;
    uint32_t value;
    PUSH(f, f->stack, (uint64_t)f->marks[root].op << 32);
    while (f->stack.n && !f->failed) {
        uint64_t top = f->stack.at[f->stack.n - 1];
        uint32_t op = (uint32_t)(top >> 32), i = (uint32_t)top, first = g->lines.at[op].value;
        if (f->marks[first].seen == f->stamp) {
            f->stack.n--;
            continue;
        }
        if (!op_dependency(g, op, &i, &value)) {
            for (uint32_t r = 0; r < op_results(g, op); r++)
                f->marks[first + r].seen = f->stamp;
            PUSH(f, f->order, op);
            f->stack.n--;
            continue;
        }
        f->stack.at[f->stack.n - 1] = (uint64_t)op << 32 | i;
        if (f->marks[value].seen == f->stamp)
            continue;
        if (value_closed(f, value) || in_piece(token_of_value(f, value), at, n)) {
            PUSH(f, f->stack, (uint64_t)f->marks[value].op << 32);
            continue;
        }
        f->marks[value].seen = f->stamp;
        PUSH(f, f->order, NONE);
        PUSH(f, f->order, value);
    }
}

static void piece_order(struct finder *f, uint32_t at, uint32_t n)
{
    const struct graph *g = f->g;
    f->roots.n = f->order.n = 0;
    f->stamp++;
    for (uint32_t t = at; t < at + n; t++) {
        uint32_t op = f->tokens_op.at[t], first = g->lines.at[op].value;
        for (uint32_t r = 0; r < op_results(g, op); r++)
            if (f->marks[first + r].leaves)
                PUSH(f, f->roots, first + r);
    }
    if (f->roots.n > 1 && !f->failed)
        qsort_r(f->roots.at, f->roots.n, sizeof *f->roots.at, root_compare, f);
    for (uint32_t i = 0; i < f->roots.n && !f->failed; i++)
        piece_walk(f, f->roots.at[i], at, n);
}

/* Writes the parameters: "region (%0 : type)". */
static void params_write(struct finder *f)
{
    struct printer *p = f->printer;
    struct writer *w = &p->scratch;
    uint32_t n = 0;
    writer_format(w, "region (");
    for (uint32_t i = 0; i < f->order.n; i++)
        if (f->order.at[i] == NONE) {
            struct view type = graph_type_text(f->g, f->g->values.at[f->order.at[++i]]);
            writer_format(w, n ? ", %%%u : " : "%%%u : ", n);
            writer_bytes(w, type.data, type.len);
            p->nums[f->order.at[i]] = n++;
        }
    writer_format(w, ")\n");
    printer_scratch(p, n);
}

/* Writes the results: "gives %4, %7". */
static void results_write(struct finder *f)
{
    struct printer *p = f->printer;
    writer_format(&p->scratch, "gives");
    for (uint32_t i = 0; i < f->roots.n; i++)
        writer_format(&p->scratch, i ? ", %%%u" : " %%%u", p->nums[f->roots.at[i]]);
    writer_format(&p->scratch, "\n");
    printer_scratch(p, 0);
}

static void piece_region(struct finder *f, uint32_t at, uint32_t n)
{
    struct graph *g = f->g;
    struct canon_region region = {.count = 1};
    piece_hash(f, at, n);
    piece_order(f, at, n);
    if (f->failed || !f->roots.n)
        return;
    region_begin(f);
    params_write(f);
    for (uint32_t i = 0; i < f->order.n && !g->failed; i++) {
        uint32_t op = f->order.at[i];
        if (op == NONE) {
            i++;
            continue;
        }
        op_write(f, op);
        region.n_ops += ops_count(g, op, g->lines.at[op].next);
    }
    results_write(f);
    if (!region_end(f, &region))
        return;
    const struct text *name = &g->names.items.at[line_shape(g, f->tokens_op.at[at])->name];
    label_copy(&region, (struct view){name->data, name->len});
    found_add(f, &region);
}

static void block_regions(struct finder *f, const struct block *b)
{
    tokens_make(f, b);
    if (f->tokens.n < 2 * PIECE_MIN || !b->alone || f->failed)
        return;
    cuts_count(f);
    pieces_find(f);
    if (f->failed)
        return;
    pieces_choose(f);
    leaves_mark(f);
    for (uint32_t t = 0; t < f->tokens.n && !f->failed; t++)
        if (f->taken.at[t] == t + 1)
            piece_region(f, t, f->taken_n.at[t]);
}

/* Adds the blocks of lines first .. end - 1. `headless`: the first block has no head, as in a
 * function. */
static void blocks_add(struct finder *f, uint32_t first, uint32_t end, bool headless)
{
    const struct graph *g = f->g;
    struct block b = {.first = first, .alone = true};
    bool any = headless; /* a block is open */
    for (uint32_t line = first; line <= end && !f->failed;) {
        enum line_kind kind = line < end ? line_shape(g, line)->kind : LINE_CLOSE;
        if (kind == LINE_OP || kind == LINE_OPEN) {
            line = g->lines.at[line].next;
            continue;
        }
        bool another = any && kind == LINE_BLOCK;
        b.end = line++;
        b.alone &= !another;
        if (any)
            PUSH(f, f->blocks, b);
        any = kind == LINE_BLOCK || kind == LINE_NEXT;
        b = (struct block){.first = line, .alone = !another};
    }
}

/* Adds all blocks of a function, and those inside of its operations. */
static void func_blocks(struct finder *f, const struct func *func)
{
    const struct graph *g = f->g;
    f->blocks.n = 0;
    blocks_add(f, func->lines, func->lines + func->n_lines, true);
    for (uint32_t i = 0; i < f->blocks.n && !f->failed; i++) {
        struct block b = f->blocks.at[i];
        for (uint32_t op = b.first; op < b.end; op = g->lines.at[op].next)
            if (g->lines.at[op].next > op + 1)
                blocks_add(f, op + 1, g->lines.at[op].next - 1, false);
    }
}

static int found_gives(struct finder *f, struct form *out, struct err *e)
{
    if (f->failed)
        return err_set(e, WARM_ENOMEM, "no memory for the regions");
    out->regions = f->found.at;
    out->n_regions = f->found.n;
    f->found.at = NULL;
    return 0;
}

static void finder_close(struct finder *f)
{
    free(f->printer->nums);
    f->printer->nums = NULL;
    names_close(&f->known);
    void *arrays[] = {f->found.at,        f->functions, f->func_of,  f->func_order.at,
                      f->module_lines.at, f->blocks.at, f->ops.at,   f->tokens_op.at,
                      f->tokens.at,       f->cut.at,    f->taken.at, f->taken_n.at,
                      f->pieces.at,       f->window.at, f->last,     f->marks,
                      f->roots.at,        f->order.at,  f->stack.at};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        free(arrays[i]);
}

/* Allocates the tables by value, line, symbol and function. */
static void finder_tables(struct finder *f)
{
    struct graph *g = f->g;
    struct printer *p = f->printer;
    f->marks = calloc((size_t)g->values.n + 1, sizeof *f->marks);
    f->functions = calloc((size_t)g->funcs.n + 1, sizeof *f->functions);
    f->func_of = malloc(((size_t)g->symbols.items.n + 1) * sizeof *f->func_of);
    p->nums = calloc((size_t)g->values.n + 1, sizeof *p->nums);
    f->failed |= !f->marks || !f->functions || !f->func_of || !p->nums;
    if (f->failed)
        return;
    for (uint32_t i = 0; i < g->values.n; i++)
        f->marks[i].made = NONE;
    for (uint32_t i = 0; i < g->symbols.items.n; i++)
        f->func_of[i] = NONE;
    for (uint32_t i = 0; i < g->funcs.n; i++)
        f->func_of[g->funcs.at[i].symbol] = i;
    uint32_t func = 0;
    for (uint32_t line = 0; line < g->lines.n;) {
        while (func < g->funcs.n && g->funcs.at[func].lines + g->funcs.at[func].n_lines <= line)
            func++;
        if (func < g->funcs.n && g->funcs.at[func].lines <= line) {
            line = g->funcs.at[func].lines + g->funcs.at[func].n_lines;
            continue;
        }
        PUSH(f, f->module_lines, line);
        line = g->lines.at[line].next;
    }
    p->symbol_is_keyed = symbol_is_keyed;
    p->context = f;
}

int graph_regions(struct graph *g, struct form *out, struct err *e)
{
    struct finder f = {.g = g, .printer = &g->printer, .failed = g->failed};
    snprintf(f.domain, sizeof f.domain, DOMAIN_REGION "%s", g->domain);
    g->printer.domain = f.domain;
    finder_tables(&f);
    if (!f.failed) {
        funcs_order(&f);
        funcs_count(&f);
        funcs_regions(&f);
    }
    for (uint32_t i = 0; i < g->funcs.n && !f.failed; i++) {
        if (!f.functions[i].count)
            continue;
        func_blocks(&f, &g->funcs.at[i]);
        for (uint32_t b = 0; b < f.blocks.n && !f.failed; b++)
            block_regions(&f, &f.blocks.at[b]);
    }
    int rc = found_gives(&f, out, e);
    finder_close(&f);
    return rc;
}
