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
 * Each statement is a node, each name in it that a statement defined is an edge. Where all is arithmetic
 * on the CPU, on tensors that are alike, the form is the nodes that the results need, in the order in which
 * a walk from the results finds them (operands first), so neither names nor the order of statements count,
 * and operands of a commutative operation are sorted by what they compute. Only operations that are known
 * to have no effect move or go: any other one, a barrier, keeps its place among its like, and nothing
 * crosses it. Elsewhere the nodes stay in the order of the text.
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
    put_gap(f, (struct token){NAME, 0, 0});
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

static void put_string(struct fx *f, struct token t)
{
    const char *s = f->text + t.at;
    form_put(f->out, "\"", 1);
    form_put(f->out, s + 1, fx_device_len(f, s + 1, t.len - 2));
    form_put(f->out, s, 1);
}

static void put_expression(struct fx *f, const struct node *n, bool exchanged)
{
    uint32_t edge = n->first_edge, end = n->at + n->len;
    struct token t = {END, 0, 0}, before;
    bool in_device = false;

    f->at = n->at;
    f->last = 0;
    while (f->at < end) {
        f->parens = 1; /* line ends inside do not count */
        before = t;
        t = fx_next(f);
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
        put_gap(f, t);
        f->parens = 1;
        if (t.kind == STRING)
            put_string(f, t);
        else if (fx_is_symbol(f->text + t.at, t.len) && fx_is_operand(f, t, before))
            fx_put_symbol(f, f->text + t.at, t.len);
        else
            form_put(f->out, f->text + t.at, t.len);
    }
}

/* Whether the two operands change places: the one with the smaller hash comes first. */
static bool is_exchanged(const struct fx *f, const struct node *n)
{
    const struct edge *e = &f->edges[n->first_edge];
    return n->commutes && !f->keep_operands && n->n_edges == 2 &&
           f->nodes[e[1].node].hash < f->nodes[e[0].node].hash;
}

/* `5 + x` reads as `x + 5`. */
static void put_with_number(struct fx *f, const struct node *n)
{
    f->at = n->at;
    f->parens = 1;
    f->last = 0;
    struct token a = fx_next(f), operator= fx_next(f), b = fx_next(f);
    put_edge(f, f->edges[n->first_edge].node);
    struct token number = a.kind == NUMBER ? a : b;
    form_put(f->out, f->text + operator.at, operator.len);
    form_put(f->out, f->text + number.at, number.len);
}

static void put_type(struct fx *f, const struct node *n)
{
    const char *s = f->text + n->type_at;
    uint32_t len = n->type_len;
    if (len == 0)
        return;
    struct fx_type type = fx_read_type(s, len);
    const char *colon =
        type.device != NONE ? memchr(s + type.device, ':', type.end - type.device) : NULL;
    if (colon != NULL && !f->keep_index)
        len = (uint32_t)(colon - s);
    form_put(f->out, " \"", 2);
    fx_put_sizes(f, s, len);
    form_put(f->out, "\"", 1);
}

/* What the comment before it says: {ac_graph_id: 2 - MUST_SAVE}. The number is one of the process
 * that traced the graph: only which are equal counts. */
static void put_tag(struct fx *f, const struct node *n)
{
    static const char counter[] = "ac_graph_id: ";
    const char *s = f->text + n->tag_at, *end = s + n->tag_len;
    const char *found = memmem(s, n->tag_len, counter, sizeof counter - 1);
    const char *digits = found != NULL ? found + sizeof counter - 1 : end, *rest = digits;
    if (n->tag_len == 0)
        return;
    while (rest < end && *rest >= '0' && *rest <= '9')
        rest++;
    form_put(f->out, "{", 1);
    if (rest > digits) {
        form_put(f->out, s, (size_t)(found - s));
        form_put(f->out, counter, sizeof counter - 1);
        fx_put_number(f, found, (uint32_t)(rest - found));
        form_put(f->out, rest, (size_t)(end - rest));
    } else {
        form_put(f->out, s, n->tag_len);
    }
    form_put(f->out, "}", 1);
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
        put_tag(f, n);
        if (n->segment != 0 && n->kind == PURE) { /* which barriers it stands behind */
            form_put(f->out, "@", 1);
            form_put_u64(f->out, n->segment);
        }
        form_put(f->out, n->kind == BARRIER ? "!" : "=", 1);
    }
    if (n->commutes && !f->keep_operands && n->n_edges == 1)
        put_with_number(f, n);
    else
        put_expression(f, n, is_exchanged(f, n));
    form_put(f->out, "\n", 1);
}

static void push(struct fx *f, uint32_t i)
{
    if (!fx_grow(f, &f->stack, &f->cap_stack, f->n_stack, sizeof *f->stack))
        return;
    f->stack[f->n_stack++] = i;
}

/* Puts a node behind all that it needs, or only opens them where their order counts. A node is on the
 * stack at most once for each edge to it. */
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
            if (!f->keep_order)
                put_node(f, i);
            continue;
        }
        n->opened = true;
        const struct edge *e = &f->edges[n->first_edge];
        bool exchanged = is_exchanged(f, n);
        for (uint32_t k = 0; k < n->n_edges; k++) { /* the last pushed is walked first */
            uint32_t to = e[exchanged ? k : n->n_edges - 1 - k].node;
            if (f->nodes[to].number == NONE && !f->nodes[to].opened)
                push(f, to);
        }
    }
}

/* Whether all tensors of the graph have elements of one type, or are masks, and lie row by row. */
static bool tensors_are_alike(const struct fx *f)
{
    struct token first = {END, 0, 0};
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = &f->nodes[i];
        if (n->kind == RESULT || n->kind == FLATTEN || (n->kind == INPUT && n->type_len == 0))
            continue; /* an input without a type is the list of those that have one */
        const char *type = f->text + n->type_at;
        struct token elements = {NAME, n->type_at, fx_word_end(type, 0, n->type_len)};
        if (!fx_lies_in_rows(type, n->type_len))
            return false;
        if (fx_is(f, elements, "b8"))
            continue;
        if (first.kind == END)
            first = elements;
        if (first.len != elements.len || memcmp(f->text + first.at, type, first.len) != 0)
            return false;
    }
    return true;
}

static void put_graph(struct fx *f)
{
    f->keep_operands = f->keep_operands || !tensors_are_alike(f);
    f->keep_order = f->keep_order || f->keep_operands;
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
    for (uint32_t i = 0; i < f->n_nodes && f->keep_order; i++)
        if ((f->nodes[i].opened || f->lowered) && f->nodes[i].kind != INPUT)
            put_node(f, i);
}

/* --- the text --- */

/* def forward(self, a: "TYPE", b), from behind "forward". */
static void take_signature(struct fx *f)
{
    struct token t = fx_next(f);
    bool good = fx_is_mark(f, t, '(') && fx_is(f, fx_next(f), "self");

    for (t = fx_next(f); good && fx_is_mark(f, t, ','); t = fx_next(f)) {
        if (fx_is_mark(f, fx_peek(f), ')')) { /* printed with an argument a line */
            t = fx_next(f);
            break;
        }
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
    f->segment = f->n_numbered = f->tag_len = 0;
    if (f->names.cap > 0)
        memset(f->names.slots, 0, f->names.cap * sizeof *f->names.slots);
    f->names.n = 0;
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
 * speaks of it; and so does what it is inside of, if that is one too. */
static void take_class(struct fx *f, uint32_t column)
{
    bool inner = column > 0, in_name = true;
    finish_graph(f);
    form_put_text(f->out, inner ? "graph " : "graph");
    struct token t = fx_next(f);
    f->keep_operands = f->keep_operands || inner; /* of what surrounds it, too */
    if (inner && (t.kind == NAME || t.kind == NUMBER))
        fx_set_name(f, &f->graphs, t, 0);
    for (; t.kind != LINE && t.kind != END; t = fx_next(f)) {
        in_name = in_name && !fx_is_mark(f, t, '(');
        if (inner && in_name)
            form_put(f->out, f->text + t.at, t.len);
    }
    f->inner_column = f->inner_column == 0 ? column : f->inner_column;
    if (column > f->inner_column) {
        form_put_text(f->out, " inside ");
        form_put_u64(f->out, column / f->inner_column);
    }
    form_put(f->out, "\n", 1);
}

static void take_line(struct fx *f, struct token t, uint32_t column)
{
    if (fx_is(f, t, "class")) {
        take_class(f, column);
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

static uint32_t column_of(const struct fx *f, struct token t)
{
    uint32_t at = t.at;
    while (at > 0 && f->text[at - 1] != '\n')
        at--;
    return t.at - at;
}

static void take_text(struct fx *f)
{
    bool line_start = true;
    for (;;) {
        struct token t = fx_next(f);
        if (t.kind == END || f->rc < 0)
            break;
        if (t.kind == LINE) {
            line_start = true;
            continue;
        }
        if (fx_is_mark(f, t, ';'))
            continue;
        take_line(f, t, line_start ? column_of(f, t) : 0);
        line_start = false;
    }
    if (f->rc == 0 && f->n_graphs == 0)
        fx_fail(f, WARM_EMALFORMED, 0, "no graph in it");
    finish_graph(f);
    fx_check_needed(f);
    if (f->rc == 0 && !f->has_types)
        fx_fail(f, WARM_EREFUSED, 0, "no dtypes, shapes and strides in it: " FX_HOW_TO_PRINT);
}

/* def forward(self, also with each argument on a line of its own */
static bool has_forward(const char *data, size_t len)
{
    static const char head[] = "def forward(";
    const char *at = data, *end = data + len;
    while ((at = memmem(at, (size_t)(end - at), head, sizeof head - 1)) != NULL) {
        at += sizeof head - 1;
        const char *word = at;
        while (word < end && (*word == ' ' || *word == '\n'))
            word++;
        if (end - word >= 4 && memcmp(word, "self", 4) == 0)
            return true;
    }
    return false;
}

/* str(graph), and graph.code without annotations, do not tell graphs apart that differ in dtype,
 * shape or stride. */
static bool is_bare_graph(const char *data, size_t len)
{
    return (len >= 8 && memcmp(data, "graph():", 8) == 0) ||
           (has_forward(data, len) && memmem(data, len, ": \"", 3) == NULL);
}

/* What is refused where it is read must not come in by a text that is not read to its end. */
static bool hides_something(const char *data, size_t len)
{
    static const char *const words[] = {"self._tensor_constant", "self._param_constant",
                                        "kernel_idx"};
    for (size_t i = 0; i < COUNT(words); i++)
        if (memmem(data, len, words[i], strlen(words[i])) != NULL)
            return true;
    return false;
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
    form_begin(out, "fx/6");
    if (f.rc == 0)
        take_text(&f);
    if (f.rc == WARM_EUNSUPPORTED && hides_something(f.text, f.len))
        f.rc = err_set(e, WARM_EREFUSED, "FX: a constant or a kernel that the text does not hold");
    free(f.nodes);
    free(f.edges);
    free(f.names.slots);
    free(f.graphs.slots);
    free(f.symbols.slots);
    free(f.needed);
    free(f.stack);
    free(f.roots);
    return f.rc;
}

bool form_fx_claims(const char *data, size_t len)
{
    bool has_torch = memmem(data, len, "torch", 5) != NULL;
    return (has_torch && has_forward(data, len)) ||
           (len >= 8 && memcmp(data, "graph():", 8) == 0 &&
            memmem(data, len, "placeholder[target=", 19) != NULL);
}
