/* SPDX-License-Identifier: Apache-2.0 */
/* fx_read.c - the statements of FX graph code into nodes and edges; fx_internal.h. No state. */
#include "keygen/fx_internal.h"

/* --- expressions --- */

static uint32_t add_node(struct fx *f, enum node_kind kind)
{
    void *nodes = f->nodes;
    if (!fx_grow(f, &nodes, &f->cap_nodes, f->n_nodes, sizeof *f->nodes))
        return NONE;
    f->nodes = nodes;
    f->nodes[f->n_nodes] = (struct node){.kind = kind,
                                         .no_product = kind == INPUT,
                                         .first_edge = f->n_edges,
                                         .segment = f->segment,
                                         .number = NONE,
                                         .hash = fx_mix(kind, 0)};
    return f->n_nodes++;
}

static void add_edge(struct fx *f, uint32_t at, uint32_t node)
{
    void *edges = f->edges;
    if (!fx_grow(f, &edges, &f->cap_edges, f->n_edges, sizeof *f->edges))
        return;
    f->edges = edges;
    f->edges[f->n_edges++] = (struct edge){at, node};
}

static void add_root(struct fx *f, uint32_t node)
{
    void *roots = f->roots;
    if (!fx_grow(f, &roots, &f->cap_roots, f->n_roots, sizeof *f->roots))
        return;
    f->roots = roots;
    f->roots[f->n_roots++] = node;
}

/* What reading an expression found. */

/* Is this name an operand? Not behind a dot, and not a keyword of a call. */
static bool is_operand(struct fx *f, struct token t, struct token before)
{
    if (t.kind != NAME || fx_is_mark(f, before, '.'))
        return false;
    struct token after = fx_peek(f);
    if (f->parens > 0 && fx_is_mark(f, after, '=')) {
        uint32_t at = f->at;
        int parens = f->parens;
        fx_next(f);
        bool equals = fx_char_at(f, f->at) == '=';
        f->at = at;
        f->parens = parens;
        return equals;
    }
    return true;
}

/* Reads an expression to its end (a line end or ';'), filling the node: its extent, its edges, its
 * hash. */
static void read_expression(struct fx *f, uint32_t node, struct shape *shape)
{
    struct token before = {END, 0, 0}, keyword = before, t;
    bool in_callee = true;
    uint64_t hash = f->nodes[node].hash;
    uint32_t end = f->at;

    fx_skip_blanks(f);
    f->nodes[node].at = f->at;
    for (;;) {
        t = fx_peek(f);
        if (t.kind == END || t.kind == LINE || (fx_is_mark(f, t, ';') && f->parens == 0))
            break;
        fx_next(f);
        end = f->at;
        uint32_t operand = is_operand(f, t, before) ? fx_get_name(f, t) : NONE;
        if (operand != NONE)
            add_edge(f, t.at, operand);
        hash = operand != NONE ? fx_mix(hash, f->nodes[operand].hash)
                               : fx_hash_token(f, hash, t, fx_is(f, keyword, "index"));
        if (shape->n_tokens < 4)
            shape->first[shape->n_tokens] = t;
        if (shape->n_tokens == 0)
            shape->callee.is_method = operand != NONE;
        if (in_callee && t.kind == NAME && shape->callee.n_words < 6)
            shape->callee.words[shape->callee.n_words++] = t;
        else if (!fx_is_mark(f, t, '.'))
            in_callee = false;
        if (fx_is_mark(f, t, '(') && before.kind == NAME && !fx_is(f, before, "device") &&
            !fx_is(f, before, "slice"))
            shape->n_calls++;
        if (t.kind == NAME && (fx_is(f, t, "out") || fx_is(f, t, "inplace")) &&
            fx_is_mark(f, fx_peek(f), '='))
            shape->has_keyword_effect = true;
        shape->n_tokens++;
        keyword = fx_is_mark(f, t, '=') ? before : (struct token){END, 0, 0};
        before = t;
    }
    struct node *n = &f->nodes[node];
    n->len = end - n->at;
    n->n_edges = f->n_edges - n->first_edge;
    n->hash = hash;
}

/* --- statements --- */

static void check_type(struct fx *f, struct token type)
{
    uint32_t at = fx_type_device(f->text + type.at + 1, type.len - 2);
    if (at == NONE)
        fx_fail(f, WARM_EREFUSED, type.at,
                "a tensor without its stride or device: " FX_HOW_TO_PRINT);
    else if (at != 0)
        f->has_types = true;
}

static void set_type(struct fx *f, uint32_t node, struct token type)
{
    check_type(f, type);
    f->nodes[node].type_at = type.at + 1;
    f->nodes[node].type_len = type.len - 2;
    f->nodes[node].hash = fx_hash_token(f, f->nodes[node].hash, type, false);
}

/* The hash of a commutative node must not depend on the order of its operands. */

/* An input of which the text does not say what it is must not be computed with. */
static void check_operands(struct fx *f, const struct node *n)
{
    for (uint32_t i = 0; i < n->n_edges; i++) {
        const struct edge *e = &f->edges[n->first_edge + i];
        if (f->nodes[e->node].kind == INPUT && f->nodes[e->node].type_len == 0)
            fx_fail(f, WARM_EREFUSED, e->at,
                    "an input without dtype, shape and stride: " FX_HOW_TO_PRINT);
    }
}

static void settle(struct fx *f, uint32_t node, struct shape *shape)
{
    struct node *n = &f->nodes[node];
    if (n->kind == FLATTEN) {
        add_root(f, node);
        return;
    }
    check_operands(f, n);
    if (n->kind == RESULT || !fx_is_pure(f, shape, n->n_edges)) {
        n->kind = n->kind == RESULT ? RESULT : BARRIER;
        n->hash = fx_mix(n->hash, ++f->segment);
        add_root(f, node);
        return;
    }
    n->hash = fx_mix(n->hash, n->segment);
    n->no_product = fx_is_no_product(f, n, shape);
    n->commutes = fx_is_commutative(f, n, shape) && fx_may_exchange(f, n, shape);
    if (n->commutes)
        fx_hash_commutative(f, n, shape);
}

/* NAME [: "TYPE"] = EXPRESSION, from behind the '='. */
static void take_assignment(struct fx *f, struct token name, struct token type)
{
    struct shape shape = {0};
    uint32_t node = add_node(f, PURE);
    if (node == NONE)
        return;
    if (type.kind == STRING)
        set_type(f, node, type);
    read_expression(f, node, &shape);
    struct node *n = &f->nodes[node];
    if (shape.n_tokens == 1 && type.kind != STRING && n->n_edges == 1) { /* another name */
        fx_set_name(f, name, f->edges[n->first_edge].node);
        f->n_nodes--;
        f->n_edges = n->first_edge;
        return;
    }
    if (shape.n_tokens == 1 && fx_is(f, shape.first[0], "None") && type.kind != STRING) {
        fx_set_name(f, name, NONE); /* deleted */
        f->n_nodes--;
        return;
    }
    settle(f, node, &shape);
    fx_set_name(f, name, node);
}

/* a = b = c = None: the names are free again. From behind the second name. */
static void take_deletion(struct fx *f, struct token first, struct token second)
{
    fx_set_name(f, first, NONE);
    fx_set_name(f, second, NONE);
    for (;;) {
        struct token equals = fx_next(f), t = fx_next(f);
        if (!fx_is_mark(f, equals, '=') || t.kind != NAME) {
            fx_give_up(f, "a chain of assignments that is not understood");
            return;
        }
        if (fx_is(f, t, "None"))
            return;
        fx_set_name(f, t, NONE);
    }
}

/* An input: a parameter of forward, or one of the names that tree_flatten_spec fills. */
void fx_take_input(struct fx *f, struct token name, struct token type)
{
    uint32_t node = add_node(f, INPUT);
    if (node == NONE)
        return;
    f->nodes[node].hash = fx_mix(node, 1);
    if (type.kind == STRING)
        set_type(f, node, type);
    fx_set_name(f, name, node);
}

/* a, b, c, = fx_pytree.tree_flatten_spec([x, y], self._in_spec), from behind the first comma. The
 * names got their types, and became inputs, on the line before. */
static void take_flatten(struct fx *f, struct token first)
{
    uint32_t expected = fx_get_name(f, first);
    struct token t = fx_next(f);
    for (; t.kind == NAME && expected != NONE; t = fx_next(f)) {
        if (fx_get_name(f, t) != ++expected || !fx_is_mark(f, fx_next(f), ','))
            break;
    }
    struct shape shape = {0};
    uint32_t node = fx_is_mark(f, t, '=') ? add_node(f, FLATTEN) : NONE;
    if (node == NONE) {
        fx_give_up(f, "an assignment to several names that is not understood");
        return;
    }
    read_expression(f, node, &shape);
    settle(f, node, &shape);
}

/* NAME: "TYPE", without a value: an input, whose name tree_flatten_spec fills later. */
static void take_annotated(struct fx *f, struct token name)
{
    struct token type = fx_next(f);
    if (type.kind != STRING) {
        fx_fail(f, WARM_EREFUSED, name.at,
                "a name without its dtype, shape and stride: " FX_HOW_TO_PRINT);
        return;
    }
    struct token after = fx_peek(f);
    if (fx_is_mark(f, after, '=')) {
        fx_next(f);
        take_assignment(f, name, type);
    } else {
        fx_take_input(f, name, type);
    }
}

/* Anything else: a barrier, if it is one expression. */
static void take_other(struct fx *f, uint32_t at, enum node_kind kind)
{
    struct shape shape = {0};
    f->at = at;
    uint32_t node = add_node(f, kind);
    if (node == NONE)
        return;
    read_expression(f, node, &shape);
    if (kind != RESULT)
        shape.has_keyword_effect = true;
    settle(f, node, &shape);
}

/* name = ...: one of a value, another name, or a chain. From behind the '='. */
static void take_plain_assignment(struct fx *f, struct token name)
{
    uint32_t at = f->at;
    struct token second = fx_next(f), after = fx_peek(f);
    if (second.kind == NAME && fx_is_mark(f, after, '=') && fx_char_at(f, after.at + 1) != '=') {
        take_deletion(f, name, second);
        return;
    }
    f->at = at;
    f->parens = 0;
    take_assignment(f, name, (struct token){END, 0, 0});
}

static bool is_word_of_python(const struct fx *f, struct token t)
{
    static const char *const words[] = {"with", "if",  "for",    "while",  "try",   "import",
                                        "from", "def", "lambda", "global", "raise", "yield"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (fx_is(f, t, words[i]))
            return true;
    return false;
}

void fx_take_statement(struct fx *f, struct token t)
{
    if (fx_is(f, t, "return")) {
        take_other(f, f->at, RESULT);
        return;
    }
    if (fx_is(f, t, "pass"))
        return;
    if (t.kind != NAME || is_word_of_python(f, t)) {
        fx_give_up(f, "a statement that is not understood");
        return;
    }
    struct token after = fx_peek(f);
    if (fx_is_mark(f, after, ':')) {
        fx_next(f);
        take_annotated(f, t);
    } else if (fx_is_mark(f, after, ',')) {
        fx_next(f);
        take_flatten(f, t);
    } else if (fx_is_mark(f, after, '=') && fx_char_at(f, after.at + 1) != '=') {
        fx_next(f);
        take_plain_assignment(f, t);
    } else {
        take_other(f, t.at, BARRIER);
    }
}
