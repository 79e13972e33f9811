/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fx.c - the canonical form of FX graph code (KEYS.md, "FX graphs").
 *
 * Owner: nobody; no state. Thread: any.
 *
 * The input is what GraphModule.print_readable(include_stride=True, include_device=True) prints:
 *
 *     class GraphModule(torch.nn.Module):
 *         def forward(self, x: "f32[2, 3][3, 1]cuda:0"):
 *             # File: m.py:7 in f, code: y = x.sin() * x         input #0 "f32[2, 3][3, 1]cuda"
 *             sin: "f32[2, 3][3, 1]cuda:0" = x.sin()        ─▶   #1 "f32[2, 3][3, 1]cuda"=#0.sin()
 *             mul: "f32[2, 3][3, 1]cuda:0" = sin * x             #2 "f32[2, 3][3, 1]cuda"=#0*#1
 *             return (mul,)                                      return(#2,)
 *
 * Each statement is a node, each name in it that a statement defined is an edge. The form is the
 * nodes that the results need, in the order in which a walk from the results finds them (operands
 * first), so neither names nor the order of statements count. Operands of a commutative operation
 * are sorted by what they compute. Only operations that are known to have no effect move or go:
 * any other one, a barrier, keeps its place among its like, and nothing crosses it.
 *
 * A statement that is not understood makes the whole text exact.
 */
#include "keygen/fx_internal.h"

#include <stdlib.h>

/* --- the form --- */

static void put_gap(struct fx *f, struct token t)
{
    bool word = t.kind == NAME || t.kind == NUMBER || t.kind == STRING;
    if (word && f->last == 'w')
        form_put(f->out, " ", 1);
    f->last = word ? 'w' : 0;
}

static void put_edge(struct fx *f, uint32_t node)
{
    struct token word = {NAME, 0, 0};
    put_gap(f, word);
    form_put(f->out, "#", 1);
    form_put_u64(f->out, f->nodes[node].number);
}

/* ", index=0" in device(type='cuda', index=0) goes where only one is used. */
static bool skip_index(struct fx *f, struct token t, uint32_t end)
{
    uint32_t at = f->at;
    if (f->keep_index || !fx_is_mark(f, t, ','))
        return false;
    struct token name = fx_next(f), equals = fx_next(f), value = fx_next(f);
    if (value.at < end && fx_is(f, name, "index") && fx_is_mark(f, equals, '=') &&
        value.kind == NUMBER && fx_is_mark(f, fx_peek(f), ')'))
        return true;
    f->at = at;
    return false;
}

static void put_expression(struct fx *f, const struct node *n, bool exchanged)
{
    uint32_t edge = n->first_edge, end = n->at + n->len;
    bool in_device = false;

    f->at = n->at;
    f->parens = 1; /* line ends inside do not count */
    f->last = 0;
    while (f->at < end) {
        struct token t = fx_next(f);
        f->parens = 1;
        if (t.kind == END)
            return;
        if (in_device && skip_index(f, t, end))
            continue;
        if (edge < n->first_edge + n->n_edges && f->edges[edge].at == t.at) {
            uint32_t other = exchanged ? n->first_edge * 2 + n->n_edges - 1 - edge : edge;
            put_edge(f, f->edges[other].node);
            edge++;
            continue;
        }
        if (fx_is(f, t, "device") && fx_is_mark(f, fx_peek(f), '('))
            in_device = true;
        in_device = in_device && !fx_is_mark(f, t, ')');
        f->parens = 1;
        put_gap(f, t);
        if (t.kind == STRING) {
            form_put(f->out, "\"", 1);
            form_put(f->out, f->text + t.at + 1, fx_string_len(f, f->text + t.at + 1, t.len - 2));
            form_put(f->out, f->text + t.at, 1);
        } else {
            form_put(f->out, f->text + t.at, t.len);
        }
    }
}

/* `5 + x` reads as `x + 5`. */
static void put_commutative(struct fx *f, const struct node *n)
{
    if (n->n_edges != 1) {
        const struct edge *e = &f->edges[n->first_edge];
        put_expression(f, n,
                       n->n_edges == 2 && f->nodes[e[1].node].hash < f->nodes[e[0].node].hash);
        return;
    }
    f->at = n->at;
    f->parens = 1;
    f->last = 0;
    struct token a = fx_next(f), operator= fx_next(f), b = fx_next(f);
    struct token number = a.kind == NUMBER ? a : b;
    put_edge(f, f->edges[n->first_edge].node);
    form_put(f->out, f->text + operator.at, operator.len);
    form_put(f->out, f->text + number.at, number.len);
}

static void put_type(struct fx *f, const struct node *n)
{
    if (n->type_len == 0)
        return;
    form_put(f->out, " \"", 2);
    form_put(f->out, f->text + n->type_at, fx_string_len(f, f->text + n->type_at, n->type_len));
    form_put(f->out, "\"", 1);
}

static void put_node(struct fx *f, uint32_t i)
{
    struct node *n = &f->nodes[i];
    if (n->kind == RESULT || n->kind == FLATTEN) {
        form_put_text(f->out, n->kind == RESULT ? "return " : "flatten ");
    } else {
        n->number = f->n_numbered++;
        form_put(f->out, "#", 1);
        form_put_u64(f->out, n->number);
        put_type(f, n);
        if (n->segment != 0 && n->kind == PURE) { /* which barriers it stands behind */
            form_put(f->out, "@", 1);
            form_put_u64(f->out, n->segment);
        }
        form_put(f->out, n->kind == BARRIER ? "!" : "=", 1);
    }
    if (n->commutes)
        put_commutative(f, n);
    else
        put_expression(f, n, false);
    form_put(f->out, "\n", 1);
}

static void push(struct fx *f, uint32_t i)
{
    void *stack = f->stack;
    if (!fx_grow(f, &stack, &f->cap_stack, f->n_stack, sizeof *f->stack))
        return;
    f->stack = stack;
    f->stack[f->n_stack++] = i;
}

/* Puts a node behind all that it needs. A node is on the stack at most once for each edge to it. */
static void walk(struct fx *f, uint32_t root)
{
    push(f, root);
    while (f->n_stack > 0 && f->rc == 0) {
        uint32_t i = f->stack[f->n_stack - 1];
        struct node *n = &f->nodes[i];
        if (n->number != NONE) {
            f->n_stack--;
            continue;
        }
        if (n->opened) {
            f->n_stack--;
            put_node(f, i);
            continue;
        }
        n->opened = true;
        const struct edge *e = &f->edges[n->first_edge];
        bool exchanged =
            n->commutes && n->n_edges == 2 && f->nodes[e[1].node].hash < f->nodes[e[0].node].hash;
        for (uint32_t k = 0; k < n->n_edges; k++) { /* the last pushed is walked first */
            uint32_t to = e[exchanged ? k : n->n_edges - 1 - k].node;
            if (f->nodes[to].number == NONE && !f->nodes[to].opened)
                push(f, to);
        }
    }
}

static void put_graph(struct fx *f)
{
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        struct node *n = &f->nodes[i];
        if (n->kind != INPUT)
            continue;
        n->number = f->n_numbered++;
        form_put_text(f->out, "input #");
        form_put_u64(f->out, n->number);
        put_type(f, n);
        form_put(f->out, "\n", 1);
    }
    for (uint32_t i = 0; i < f->n_roots && f->rc == 0; i++)
        walk(f, f->roots[i]);
}

/* --- the text --- */

/* def forward(self, a: "TYPE", b), from behind "forward". */
static void take_signature(struct fx *f)
{
    struct token t = fx_next(f);
    bool good = fx_is_mark(f, t, '(') && fx_is(f, fx_next(f), "self");

    for (t = fx_next(f); good && fx_is_mark(f, t, ','); t = fx_next(f)) {
        struct token name = fx_next(f), type = {END, 0, 0};
        good = name.kind == NAME;
        if (fx_is_mark(f, fx_peek(f), ':')) {
            fx_next(f);
            type = fx_next(f);
            if (type.kind != STRING)
                fx_fail(f, WARM_EREFUSED, type.at,
                        "a parameter without its dtype, shape and stride: " FX_HOW_TO_PRINT);
        }
        if (good && f->rc == 0)
            fx_take_input(f, name, type);
    }
    if (!good || !fx_is_mark(f, t, ')'))
        fx_give_up(f, "a signature that is not understood");
    for (t = fx_next(f); f->rc == 0 && !fx_is_mark(f, t, ':'); t = fx_next(f))
        if (t.kind == END || t.kind == LINE) {
            fx_fail(f, WARM_ETRUNCATED, t.at, "forward has no body");
            return;
        }
}

static void forget_graph(struct fx *f)
{
    f->n_nodes = f->n_edges = f->n_roots = f->n_stack = 0;
    f->segment = f->n_numbered = 0;
    if (f->cap_names > 0)
        memset(f->names, 0, f->cap_names * sizeof *f->names);
    f->n_names = 0;
}

/* Ends the graph that was being read, if there is one, and puts it. */
static void finish_graph(struct fx *f)
{
    uint32_t at = f->at;
    int parens = f->parens;
    if (f->n_graphs == 0 || f->rc < 0)
        return;
    if (f->n_roots == 0 || f->nodes[f->roots[f->n_roots - 1]].kind != RESULT)
        fx_fail(f, WARM_ETRUNCATED, f->at, "a graph without its return");
    if (f->rc == 0)
        put_graph(f);
    f->at = at;
    f->parens = parens;
    forget_graph(f);
}

/* class NAME(torch.nn.Module): the name of a graph inside another counts, since the outer one
 * speaks of it. */
static void take_class(struct fx *f, bool inner)
{
    bool in_name = true;
    finish_graph(f);
    form_put_text(f->out, inner ? "graph " : "graph");
    for (struct token t = fx_next(f); t.kind != LINE && t.kind != END; t = fx_next(f)) {
        in_name = in_name && !fx_is_mark(f, t, '(');
        if (inner && in_name)
            form_put(f->out, f->text + t.at, t.len);
    }
    form_put(f->out, "\n", 1);
}

static void take_line(struct fx *f, struct token t, bool indented)
{
    if (fx_is(f, t, "class")) {
        take_class(f, indented);
        return;
    }
    if (fx_is(f, t, "def")) {
        if (!fx_is(f, fx_next(f), "forward")) {
            fx_give_up(f, "a function that is not forward");
            return;
        }
        if (f->n_nodes > 0)
            finish_graph(f);
        f->n_graphs++;
        take_signature(f);
        return;
    }
    if (f->n_graphs == 0) {
        fx_give_up(f, "text before the first graph");
        return;
    }
    fx_take_statement(f, t);
}

static void take_text(struct fx *f)
{
    bool line_start = true;
    for (;;) {
        uint32_t before = f->at;
        struct token t = fx_next(f);
        if (t.kind == END || f->rc < 0)
            break;
        if (t.kind == LINE) {
            line_start = true;
            continue;
        }
        if (fx_is_mark(f, t, ';'))
            continue;
        take_line(f, t, line_start && t.at > before);
        line_start = false;
    }
    if (f->rc == 0 && f->n_graphs == 0)
        fx_fail(f, WARM_EMALFORMED, 0, "no graph in it");
    finish_graph(f);
    if (f->rc == 0 && !f->has_types)
        fx_fail(f, WARM_EREFUSED, 0, "no dtypes, shapes and strides in it: " FX_HOW_TO_PRINT);
}

/* str(graph), and graph.code without annotations, do not tell graphs apart that differ in dtype,
 * shape or stride. */
static bool is_bare_graph(const char *data, size_t len)
{
    return (len >= 8 && memcmp(data, "graph():", 8) == 0) ||
           (memmem(data, len, "def forward(self", 16) != NULL &&
            memmem(data, len, ": \"", 3) == NULL);
}

int form_fx(const struct canon_input *input, struct form *out, struct err *e)
{
    if (input->len >= NONE)
        return err_set(e, WARM_ETOO_BIG, "FX: more than 4 GiB");
    struct fx f = {.text = input->data, .len = (uint32_t)input->len, .out = out, .e = e};

    if (is_bare_graph(f.text, f.len))
        fx_fail(&f, WARM_EREFUSED, 0, "no dtypes, shapes and strides in it: " FX_HOW_TO_PRINT);
    f.edges = malloc(64 * sizeof *f.edges);
    f.cap_edges = f.edges != NULL ? 64 : 0;
    if (f.edges == NULL)
        fx_fail(&f, WARM_ENOMEM, 0, "no memory for its nodes");
    fx_scan_devices(&f);
    form_begin(out, "fx/1");
    if (f.rc == 0)
        take_text(&f);
    free(f.nodes);
    free(f.edges);
    free(f.names);
    free(f.stack);
    free(f.roots);
    return f.rc;
}

bool form_fx_claims(const char *data, size_t len)
{
    bool has_forward = memmem(data, len, "def forward(self", 16) != NULL;
    bool has_torch = memmem(data, len, "torch", 5) != NULL;
    return (has_forward && has_torch) || (len >= 8 && memcmp(data, "graph():", 8) == 0 &&
                                          memmem(data, len, "placeholder[target=", 19) != NULL);
}
