/* SPDX-License-Identifier: Apache-2.0 */
/* fx_read.c - the statements of FX graph code into nodes and edges; fx_internal.h. No state. */
#include "keygen/fx_internal.h"

/* --- expressions --- */

static uint32_t add_node(struct fx *f, enum node_kind kind)
{
    if (!fx_grow(f, &f->nodes, &f->cap_nodes, f->n_nodes, sizeof *f->nodes))
        return NONE;
    f->nodes[f->n_nodes] = (struct node){.kind = kind,
                                         .first_edge = f->n_edges,
                                         .segment = f->segment,
                                         .tag_at = f->tag_at,
                                         .tag_len = f->tag_len,
                                         .number = NONE,
                                         .hash = fx_mix(kind, 0)};
    return f->n_nodes++;
}

static void add_edge(struct fx *f, uint32_t at, uint32_t node)
{
    if (!fx_grow(f, &f->edges, &f->cap_edges, f->n_edges, sizeof *f->edges))
        return;
    f->edges[f->n_edges++] = (struct edge){at, node};
}

static void add_root(struct fx *f, uint32_t node)
{
    if (!fx_grow(f, &f->roots, &f->cap_roots, f->n_roots, sizeof *f->roots))
        return;
    f->roots[f->n_roots++] = node;
}

/* An attribute of the module, of which the text must hold the graph: what else it may be, a module,
 * a tensor, a structure, the text does not say. */
static void need_graph(struct fx *f, struct token name)
{
    if (!fx_grow(f, &f->needed, &f->cap_needed, f->n_needed, sizeof *f->needed))
        return;
    f->needed[f->n_needed++] = name;
}

void fx_check_needed(struct fx *f)
{
    for (uint32_t i = 0; i < f->n_needed && f->rc == 0; i++)
        if (fx_get_name(f, &f->graphs, f->needed[i]) == NONE)
            fx_fail(f, WARM_EREFUSED, f->needed[i].at,
                    "a module, a constant or a value of which the text holds no more than its "
                    "name: it cannot tell graphs apart");
}

bool fx_is_operand(struct fx *f, struct token t, struct token before)
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

/* Where in an expression the reader is. */
struct reading {
    struct token before, keyword;
    struct token head; /* the first word of the dotted name that ends in `before` */
    bool head_is_operand;
    bool in_callee;
    bool in_self; /* behind `self` */
    int parens;   /* around the whole */
    int n_commas; /* between the arguments of the first call */
};

/* What an argument can say of the whole operation. */
static void note_argument(struct fx *f, struct reading *r, struct token t, struct shape *shape)
{
    if (fx_is_mark(f, t, ',') && f->parens == r->parens + 1)
        r->n_commas++;
    else if (r->n_commas == 3 && shape->fourth.kind == END)
        shape->fourth = t;
    if (t.kind == NUMBER && fx_is(f, r->before, "at") && fx_char_at(f, t.at + 1) == 'x')
        fx_fail(f, WARM_EREFUSED, t.at, "an object of the process that printed it");
    if (t.kind != NAME)
        return;
    shape->says_true |= fx_is(f, t, "True");
    if (!fx_is_mark(f, fx_peek(f), '='))
        return;
    if (fx_is(f, t, "out") || fx_is(f, t, "inplace") || fx_is(f, t, "max_norm"))
        shape->has_keyword_effect = true;
    if (fx_is(f, t, "kernel_idx"))
        fx_fail(f, WARM_EREFUSED, t.at,
                "a kernel that is known to the process that printed it by its number");
}

/* Which name it is that is called, or looked up in the module. */
static void note_name(struct fx *f, struct reading *r, struct token t, bool is_operand,
                      struct shape *shape)
{
    bool dotted = fx_is_mark(f, r->before, '.');
    if (t.kind == NAME && !dotted) {
        r->head = t;
        r->head_is_operand = is_operand;
        r->in_self = !is_operand && fx_is(f, t, "self");
        if (r->in_self && !fx_is_mark(f, fx_peek(f), '.'))
            need_graph(f, t);
    } else if (t.kind == NAME && r->in_self) {
        if (!fx_is_mark(f, fx_peek(f), '.') && !fx_is(f, t, "_in_spec") &&
            !fx_is(f, t, "_out_spec"))
            need_graph(f, t);
    } else if (fx_is_mark(f, t, '(') && r->before.kind == NAME) {
        if (!fx_is(f, r->before, "device") && !fx_is(f, r->before, "slice"))
            shape->n_calls++;
        if (!r->head_is_operand && !fx_is_known_function(f, r->head))
            fx_fail(f, WARM_EREFUSED, r->head.at,
                    "a function of which the text does not hold the code: it cannot tell graphs "
                    "apart");
    }
}

static void note_token(struct fx *f, struct reading *r, struct token t, uint32_t operand,
                       struct shape *shape)
{
    if (shape->n_tokens < 4)
        shape->first[shape->n_tokens] = t;
    if (shape->n_tokens == 0)
        shape->callee.is_method = operand != NONE;
    if (r->in_callee && t.kind == NAME && shape->callee.n_words < 6)
        shape->callee.words[shape->callee.n_words++] = t;
    else if (!fx_is_mark(f, t, '.'))
        r->in_callee = false;
    note_name(f, r, t, operand != NONE, shape);
    note_argument(f, r, t, shape);
    shape->n_tokens++;
    r->keyword = fx_is_mark(f, t, '=') ? r->before : (struct token){END, 0, 0};
    r->before = t;
}

/* Reads an expression to its end (a line end or ';'), filling the node: its extent, its edges, its
 * hash. */
static void read_expression(struct fx *f, uint32_t node, struct shape *shape)
{
    struct reading r = {.in_callee = true, .parens = f->parens};
    uint64_t hash = f->nodes[node].hash;
    uint32_t end = f->at;

    fx_skip_blanks(f);
    f->nodes[node].at = f->at;
    for (;;) {
        struct token t = fx_next(f);
        if (t.kind == END || t.kind == LINE || (fx_is_mark(f, t, ';') && f->parens == 0)) {
            f->at = t.at;
            break;
        }
        end = f->at;
        uint32_t operand = fx_is_operand(f, t, r.before) ? fx_get_name(f, &f->names, t) : NONE;
        if (operand != NONE)
            add_edge(f, t.at, operand);
        hash = operand != NONE ? fx_mix(hash, f->nodes[operand].hash)
                               : fx_hash_token(f, hash, t, fx_is(f, r.keyword, "index"));
        note_token(f, &r, t, operand, shape);
    }
    struct node *n = &f->nodes[node];
    n->len = end - n->at;
    n->n_edges = f->n_edges - n->first_edge;
    n->hash = hash;
}

/* --- statements --- */

/* A tensor's type says all that counts, or none of it. */
static void set_type(struct fx *f, uint32_t node, struct token token)
{
    const char *s = f->text + token.at + 1;
    struct fx_type type = fx_read_type(s, token.len - 2);
    bool is_plain = type.wrapper == 0 || (type.wrapper == 9 && memcmp(s, "Parameter", 9) == 0) ||
                    (type.wrapper == 6 && memcmp(s, "Buffer", 6) == 0);
    f->nodes[node].type_at = token.at + 1;
    f->nodes[node].type_len = token.len - 2;
    if (!type.is_tensor)
        return;
    if (type.device == NONE)
        fx_fail(f, WARM_EREFUSED, token.at,
                "a tensor without its stride or device: " FX_HOW_TO_PRINT);
    else if (!is_plain)
        fx_fail(f, WARM_EREFUSED, token.at,
                "a tensor of a class whose inside the text does not hold: print the graph behind "
                "AOTAutograd");
    f->has_types = true;
}

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

/* Names of tensors whose values a compiler may take into the code. */
static bool is_constant_name(const struct fx *f, struct token t)
{
    static const char *const stems[] = {"_tensor_constant", "_param_constant", "_lifted_tensor",
                                        "lifted_tensor", "_frozen_param"};
    for (size_t i = 0; i < sizeof stems / sizeof *stems; i++) {
        size_t len = strlen(stems[i]);
        if (t.len >= len && memcmp(f->text + t.at, stems[i], len) == 0)
            return true;
    }
    return false;
}

/* NAME: "TYPE" = self.layer.weight: a parameter or a buffer, which is an input at another place. */
static bool is_parameter(const struct fx *f, const struct node *n, const struct shape *shape)
{
    const struct callee *c = &shape->callee;
    return n->type_len != 0 && c->n_words >= 2 && fx_is(f, c->words[0], "self") && !c->is_method &&
           shape->n_tokens == 2 * c->n_words - 1 && c->n_words < 6 &&
           fx_read_type(f->text + n->type_at, n->type_len).is_tensor &&
           !is_constant_name(f, c->words[c->n_words - 1]);
}

static void settle(struct fx *f, uint32_t node, struct shape *shape)
{
    struct node *n = &f->nodes[node];
    if (n->kind == FLATTEN) {
        add_root(f, node);
        return;
    }
    check_operands(f, n);
    const struct callee *c = &shape->callee;
    f->lowered |= c->n_words > 2 && fx_is(f, c->words[0], "torch") && fx_is(f, c->words[1], "ops");
    if (n->kind != RESULT && !fx_is_arithmetic(f, shape))
        f->keep_operands = true;
    if (is_parameter(f, n, shape))
        f->n_needed--; /* as the last of its words was noted */
    if (n->kind == RESULT || !fx_is_pure(f, shape, n->n_edges)) {
        n->kind = n->kind == RESULT ? RESULT : BARRIER;
        n->hash = fx_mix(n->hash, ++f->segment);
        add_root(f, node);
        return;
    }
    n->hash = fx_mix(n->hash, n->segment);
    n->commutes = fx_is_commutative(f, n, shape);
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
        fx_set_name(f, &f->names, name, f->edges[n->first_edge].node);
        f->n_nodes--;
        f->n_edges = n->first_edge;
        return;
    }
    if (shape.n_tokens == 1 && fx_is(f, shape.first[0], "None") && type.kind != STRING) {
        fx_set_name(f, &f->names, name, NONE); /* deleted */
        f->n_nodes--;
        return;
    }
    settle(f, node, &shape);
    fx_set_name(f, &f->names, name, node);
}

/* a = b = c = None: the names are free again. From behind the second name. */
static void take_deletion(struct fx *f, struct token first, struct token second)
{
    fx_set_name(f, &f->names, first, NONE);
    fx_set_name(f, &f->names, second, NONE);
    for (;;) {
        struct token equals = fx_next(f), t = fx_next(f);
        if (!fx_is_mark(f, equals, '=') || t.kind != NAME) {
            fx_give_up(f, "a chain of assignments that is not understood");
            return;
        }
        if (fx_is(f, t, "None"))
            return;
        fx_set_name(f, &f->names, t, NONE);
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
    fx_set_name(f, &f->names, name, node);
}

/* a, b, c, = fx_pytree.tree_flatten_spec([x, y], self._in_spec), from behind the first comma. The
 * names got their types, and became inputs, on the line before. */
static void take_flatten(struct fx *f, struct token first)
{
    uint32_t expected = fx_get_name(f, &f->names, first);
    struct token t = fx_next(f);
    for (; t.kind == NAME && expected != NONE; t = fx_next(f)) {
        if (fx_get_name(f, &f->names, t) != ++expected || !fx_is_mark(f, fx_next(f), ','))
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
