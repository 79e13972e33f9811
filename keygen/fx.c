/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fx.c - the canonical form of FX graph code (KEYS.md, "FX graph code").
 *
 * The input is what GraphModule.print_readable(include_stride=True, include_device=True) prints. The form
 * is its statements as they are written, in other names, without comments:
 *
 *     class GraphModule(torch.nn.Module):                    graph
 *         def forward(self, x: "f32[2, 3][3, 1]cuda:0"):     forward(self,#0:"f32[2, 3][3, 1]cuda$")
 *             # File: m.py:7 in f, code: y = x.sin() * x
 *             sin: "f32[2, 3][3, 1]cuda:0" = x.sin()     ─▶  #1:"f32[2, 3][3, 1]cuda$"=#0.sin()
 *             mul: "f32[2, 3][3, 1]cuda:0" = sin * x         #2:"f32[2, 3][3, 1]cuda$"=#1*#0
 *             return (mul,)                                  return(#2,)
 *
 * One pass from the front. What forward or a statement gives a name to is numbered by first mention; other
 * names are Python's or torch's and stay. '#' begins a comment in Python, so no number is taken for
 * something else.
 *
 * What the text does not hold, a module, a constant, a function of the program, is refused: one text may
 * then be several programs. A statement that is not understood makes the whole text exact.
 *
 * Thread: any; no state. Memory: the names of one graph.
 */
#include "keygen/fx_internal.h"

#define FREE UINT32_MAX     /* in `locals`: no name of the graph's own so far */
#define UNTYPED 0x80000000u /* in `locals`: an input of which the text does not say what it is */
#define MEMBER_HELD 1u      /* in `members`: the text holds the graph of this name */
#define MEMBER_NEEDED 2u    /* in `members`: the text refers to it */

/* ---- putting ---- */

static bool is_operator(char c) { return memchr("<>=&|!+-*/^~%@:", c, 15) != NULL; }

/* White space counts between two words, and between marks that could make one. */
static void put_gap(struct fx *f, struct token t)
{
    bool word = t.kind != MARK;
    char first = f->text[t.at];
    if (t.spaced &&
        ((word && f->last == 'w') || (!word && is_operator(f->last) && is_operator(first))))
        form_put(f->out, " ", 1);
    f->last = word ? 'w' : first;
}

static void put_token(struct fx *f, struct token t)
{
    if (!t.len) /* the end */
        return;
    put_gap(f, t);
    if (t.kind == STRING)
        fx_put_string(f, t);
    else
        form_put(f->out, f->text + t.at, t.len);
}

static void put_local(struct fx *f, struct token t, uint32_t number)
{
    put_gap(f, t);
    form_put(f->out, "#", 1);
    form_put_u64(f->out, number & ~UNTYPED);
}

static void put_line_end(struct fx *f)
{
    form_put(f->out, "\n", 1);
    f->last = 0;
}

/* What comments say of the nodes that follow, if it is news. */
static void put_tag(struct fx *f)
{
    if (f->tag_len == f->told_len &&
        memcmp(f->text + f->tag_at, f->text + f->told_at, f->tag_len) == 0)
        return;
    form_put_text(f->out, "tag {");
    form_put(f->out, f->text + f->tag_at, f->tag_len);
    form_put_text(f->out, "}\n");
    f->told_at = f->tag_at;
    f->told_len = f->tag_len;
}

/* ---- names ---- */

static uint32_t *name_of(struct fx *f, struct names *names, struct token t, bool *out_new)
{
    uint32_t *number = names_add(names, f->text + t.at, t.len, out_new);
    if (!number)
        fx_fail(f, WARM_ENOMEM, t.at, "no memory for its names");
    return number;
}

/* A name that is given a value here. `is_input`: without a type nothing may be computed with it. */
static void put_target(struct fx *f, struct token t, bool is_input)
{
    bool is_new = false;
    uint32_t *number = name_of(f, &f->locals, t, &is_new);
    if (!number)
        return;
    if (!is_new && *number == FREE)
        fx_give_up(f, "a name that is used before it is given a value");
    if (is_new)
        *number = f->n_locals++ | (is_input ? UNTYPED : 0);
    put_local(f, t, *number);
}

static bool is_one_of(const struct fx *f, struct token t, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (fx_is(f, t, words[i]))
            return true;
    return false;
}

static bool begins_with(const struct fx *f, struct token t, const char *word)
{
    size_t len = strlen(word);
    return t.len > len && memcmp(f->text + t.at, word, len) == 0;
}

/* torch.f, torch's own functions that print without it, and those of Python: their versions are the
 * compiler's. Any other function, math_sqrt and operator_neg apart, is the program's. */
static bool is_known_function(const struct fx *f, struct token first)
{
    static const char *const words[] = {
        "torch", "self",    "fx_pytree", "pytree", "device",
        "slice", "getattr", "setattr",   "abs",    "bool",
        "dict",  "float",   "int",       "len",    "list",
        "max",   "min",     "pow",       "range",  "round",
        "set",   "sum",     "tuple",     "print",  "flex_attention_hop"};
    static const char *const modules[] = {"math_", "operator_", "_operator_"};
    if (is_one_of(f, first, words, COUNT(words)) || begins_with(f, first, "torch__"))
        return true;
    for (size_t i = 0; i < COUNT(modules); i++) { /* math_sqrt, but not math_tools_f */
        size_t len = strlen(modules[i]);
        if (begins_with(f, first, modules[i]))
            return memchr(f->text + first.at + len, '_', first.len - len) == NULL;
    }
    return false;
}

/* An attribute of the module, of which the text must hold the graph. */
static void need_member(struct fx *f, struct token t)
{
    uint32_t *member = name_of(f, &f->members, t, NULL);
    if (member && !fx_is(f, t, "_in_spec") && !fx_is(f, t, "_out_spec"))
        *member |= MEMBER_NEEDED;
}

static void check_members(struct fx *f)
{
    const char *first = NULL;
    for (uint32_t i = 0; i < f->members.cap; i++) {
        const struct names_slot *s = &f->members.slots[i];
        if (s->name && s->number == MEMBER_NEEDED && (!first || s->name < first))
            first = s->name;
    }
    if (first)
        fx_fail(f, WARM_EREFUSED, (uint32_t)(first - f->text),
                "a module, a constant or a value of which the text holds no more than its name: it "
                "cannot tell graphs apart");
}

/* ---- expressions ---- */

/* Where in a statement the reader is. */
struct reading {
    struct token before;
    struct token head; /* the first word of the dotted name that ends in `before` */
    bool head_is_local;
    bool in_self;      /* behind `self` */
    bool is_parameter; /* the whole expression is a parameter or a buffer of the module */
    bool is_flatten;   /* tree_flatten_spec, which takes the inputs apart */
};

/* Words that bind names of their own, or take statements inside. */
static const char *const python_words[] = {
    "with",  "if",    "for",  "while", "try",   "import", "from",  "def",   "lambda", "global",
    "raise", "yield", "else", "del",   "await", "async",  "class", "match", "assert", "nonlocal",
};

/* A name that is no target: one of the graph's own, or one of Python's or torch's. */
static void put_mention(struct fx *f, struct reading *r, struct token t)
{
    bool dotted = fx_is_mark(f, r->before, '.');
    struct token after = fx_peek(f);
    bool keyword = f->parens > 0 && fx_is_equals(f, after);
    if (!dotted && is_one_of(f, t, python_words, COUNT(python_words)))
        fx_give_up(f, "a statement that is not understood");
    if (dotted || keyword) {
        put_token(f, t);
        if (dotted && fx_is(f, t, "device"))
            fx_put_device_call(f);
        if (keyword && fx_is(f, t, "kernel_idx"))
            fx_fail(f, WARM_EREFUSED, t.at,
                    "a kernel that is known to the process that printed it by its number");
        if (dotted && r->in_self && !r->is_parameter && !fx_is_mark(f, after, '.'))
            need_member(f, t);
        return;
    }
    bool is_new = false;
    uint32_t *number = name_of(f, &f->locals, t, &is_new);
    if (!number)
        return;
    if (is_new)
        *number = FREE;
    r->head = t;
    r->head_is_local = *number != FREE;
    r->in_self = fx_is(f, t, "self");
    r->is_flatten |= fx_is(f, t, "fx_pytree");
    if (r->in_self && !fx_is_mark(f, after, '.'))
        need_member(f, t);
    if (*number == FREE) {
        put_token(f, t);
        if (fx_is(f, t, "device"))
            fx_put_device_call(f);
        return;
    }
    if (*number & UNTYPED && !r->is_flatten)
        fx_fail(f, WARM_EREFUSED, t.at,
                "an input without dtype, shape and stride: " FX_HOW_TO_PRINT);
    put_local(f, t, *number);
}

static void put_other(struct fx *f, struct reading *r, struct token t)
{
    if (fx_is_mark(f, t, '(') && r->before.kind == NAME && !r->head_is_local &&
        !is_known_function(f, r->head))
        fx_fail(f, WARM_EREFUSED, r->head.at,
                "a function of which the text does not hold the code: it cannot tell graphs apart");
    if (t.kind == NUMBER && fx_is(f, r->before, "at") && fx_char_at(f, t.at + 1) == 'x')
        fx_fail(f, WARM_EREFUSED, t.at, "an object of the process that printed it");
    put_token(f, t);
}

/* Names of tensors whose values a compiler may take into the code. */
static bool is_constant_name(const struct fx *f, struct token t)
{
    return begins_with(f, t, "_tensor_constant") || begins_with(f, t, "_param_constant") ||
           begins_with(f, t, "_lifted_tensor") || begins_with(f, t, "lifted_tensor") ||
           begins_with(f, t, "_frozen_param");
}

/* Is what follows `self.layer.weight` and no more? With a tensor's type it is a parameter or a buffer,
 * which is an input at another place. */
static bool is_parameter_next(struct fx *f)
{
    uint32_t at = f->at;
    int parens = f->parens;
    struct token t = fx_next(f), name = t;
    bool good = fx_is(f, t, "self");
    for (t = fx_next(f); good && fx_is_mark(f, t, '.'); t = fx_next(f)) {
        name = fx_next(f);
        good = name.kind == NAME;
    }
    good = good && !fx_is(f, name, "self") && !is_constant_name(f, name) &&
           (t.kind == LINE || t.kind == END || fx_is_mark(f, t, ';'));
    f->at = at;
    f->parens = parens;
    return good;
}

/* ---- statements ---- */

static bool ends_statement(struct fx *f, struct token t)
{
    return t.kind == END || t.kind == LINE || (fx_is_mark(f, t, ';') && f->parens == 0);
}

/* NAME: "TYPE" [= EXPRESSION]; gives the expression's first token. */
static struct token put_annotated(struct fx *f, struct reading *r, struct token name)
{
    put_target(f, name, false);
    put_token(f, fx_next(f));
    struct token type = fx_next(f);
    if (type.kind != STRING) {
        fx_fail(f, WARM_EREFUSED, name.at,
                "a name without its dtype, shape and stride: " FX_HOW_TO_PRINT);
        return type;
    }
    bool is_tensor = fx_put_type(f, type);
    struct token t = fx_next(f);
    if (ends_statement(f, t))
        return t;
    if (!fx_is_equals(f, t))
        fx_give_up(f, "a statement that is not understood");
    put_token(f, t);
    r->is_parameter = is_tensor && is_parameter_next(f);
    return fx_next(f);
}

/* NAME, NAME, = EXPRESSION; gives the expression's first token. */
static struct token put_list(struct fx *f, struct token t)
{
    while (t.kind == NAME && f->rc == 0) {
        put_target(f, t, false);
        t = fx_next(f);
        if (!fx_is_mark(f, t, ','))
            break;
        put_token(f, t);
        t = fx_next(f);
    }
    if (!fx_is_equals(f, t))
        fx_give_up(f, "an assignment to several names that is not understood");
    put_token(f, t);
    return fx_next(f);
}

/* What is given a value by the statement that begins with `t`; gives its expression's first token. */
static struct token put_targets(struct fx *f, struct reading *r, struct token t)
{
    while (t.kind == NAME && f->rc == 0) {
        struct token after = fx_peek(f);
        if (fx_is_mark(f, after, ':'))
            return put_annotated(f, r, t);
        if (fx_is_mark(f, after, ','))
            return put_list(f, t);
        if (!fx_is_equals(f, after))
            break;
        put_target(f, t, false);
        put_token(f, fx_next(f));
        t = fx_next(f);
    }
    return t;
}

/* A statement, from its first token to its line's end or ';'. */
static void put_statement(struct fx *f, struct token t)
{
    struct reading r = {.before = {.kind = MARK, .at = t.at}};
    if (t.kind != NAME || is_one_of(f, t, python_words, COUNT(python_words)))
        fx_give_up(f, "a statement that is not understood");
    put_tag(f);
    f->has_return = fx_is(f, t, "return");
    if (f->has_return) {
        put_token(f, t);
        t = fx_next(f);
    } else {
        t = put_targets(f, &r, t);
    }
    for (; f->rc == 0 && !ends_statement(f, t); t = fx_next(f)) {
        if (t.kind == NAME)
            put_mention(f, &r, t);
        else
            put_other(f, &r, t);
        r.before = t;
    }
    if (t.kind == END && f->parens > 0)
        fx_fail(f, WARM_ETRUNCATED, t.at, "a bracket is not closed");
    put_line_end(f);
}

/* ---- graphs ---- */

static void end_graph(struct fx *f)
{
    if (f->in_graph && !f->has_return)
        fx_fail(f, WARM_ETRUNCATED, f->at, "a graph without its return");
    f->in_graph = false;
}

/* def forward(self, a: "TYPE", b): from behind `def`. */
static void put_forward(struct fx *f)
{
    end_graph(f);
    struct token name = fx_next(f), bracket = fx_next(f), t = fx_next(f);
    bool good = fx_is(f, name, "forward") && fx_is_mark(f, bracket, '(') && fx_is(f, t, "self");
    names_clear(&f->locals);
    f->n_locals = f->tag_len = f->told_len = 0;
    f->n_graphs++;
    f->in_graph = true;
    f->has_return = false;
    form_put_text(f->out, "forward(self");
    for (t = fx_next(f); good && f->rc == 0 && fx_is_mark(f, t, ','); t = fx_next(f)) {
        struct token input = fx_next(f);
        if (fx_is_mark(f, input, ')')) { /* printed with an argument a line */
            t = input;
            break;
        }
        bool is_typed = fx_is_mark(f, fx_peek(f), ':');
        good = input.kind == NAME;
        if (!good)
            break;
        put_token(f, t);
        put_target(f, input, !is_typed);
        if (is_typed)
            put_token(f, fx_next(f));
        struct token type = is_typed ? fx_next(f) : input;
        if (is_typed && type.kind != STRING)
            fx_fail(f, WARM_EREFUSED, type.at,
                    "a parameter without its dtype, shape and stride: " FX_HOW_TO_PRINT);
        else if (is_typed)
            fx_put_type(f, type);
    }
    if (!good || !fx_is_mark(f, t, ')'))
        fx_give_up(f, "a signature that is not understood");
    put_token(f, t);
    for (t = fx_next(f); f->rc == 0 && !fx_is_mark(f, t, ':'); t = fx_next(f)) {
        if (ends_statement(f, t))
            fx_fail(f, WARM_ETRUNCATED, t.at, "forward has no body");
        put_token(f, t); /* what it is said to return */
    }
    put_line_end(f);
}

/* class NAME(torch.nn.Module): from behind `class`. The name of a graph inside another counts, since the
 * outer one speaks of it, and so does what it is inside of. */
static void put_class(struct fx *f, uint32_t column)
{
    end_graph(f);
    struct token t = fx_next(f);
    form_put_text(f->out, "graph");
    if (column && !f->inner_column)
        f->inner_column = column;
    if (column) {
        uint32_t *member = name_of(f, &f->members, t, NULL);
        if (member)
            *member |= MEMBER_HELD;
        form_put(f->out, " ", 1);
        put_token(f, t);
        form_put_text(f->out, " inside ");
        form_put_u64(f->out, column / f->inner_column);
    }
    while (t.kind != LINE && t.kind != END)
        t = fx_next(f);
    put_line_end(f);
}

/* ---- the text ---- */

static uint32_t column_of(const struct fx *f, struct token t)
{
    uint32_t at = t.at;
    while (at > 0 && f->text[at - 1] == ' ')
        at--;
    return at == 0 || f->text[at - 1] == '\n' ? t.at - at : 0;
}

static void put_text(struct fx *f)
{
    for (struct token t = fx_next(f); t.kind != END && f->rc == 0; t = fx_next(f)) {
        if (t.kind == LINE || fx_is_mark(f, t, ';'))
            continue;
        if (fx_is(f, t, "class"))
            put_class(f, column_of(f, t));
        else if (fx_is(f, t, "def"))
            put_forward(f);
        else if (f->in_graph)
            put_statement(f, t);
        else
            fx_give_up(f, "text before the first graph");
    }
    end_graph(f);
    fx_put_devices(f);
    if (!f->n_graphs)
        fx_fail(f, WARM_EMALFORMED, 0, "no graph in it");
    if (!f->has_types)
        fx_fail(f, WARM_EREFUSED, 0, "no dtypes, shapes and strides in it: " FX_HOW_TO_PRINT);
    check_members(f);
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
    static const char member[] = "self.";
    const char *at = data, *end = data + len;
    for (; (at = memmem(at, (size_t)(end - at), member, sizeof member - 1)); at++)
        if (!memmem(at, (size_t)(end - at) < 14 ? (size_t)(end - at) : 14, "_spec", 5))
            return true;
    return memmem(data, len, "kernel_idx", 10) != NULL || memmem(data, len, " at 0x", 6) != NULL;
}

int form_fx(const struct canon_input *input, struct form *out, struct err *e)
{
    if (input->len >= NONE)
        return err_set(e, WARM_ETOO_BIG, "FX: 4 GiB and more are not read");
    struct fx f = {.text = input->data, .len = (uint32_t)input->len, .out = out, .e = e};
    form_begin(out, "fx/7");
    if (is_bare_graph(f.text, f.len))
        fx_fail(&f, WARM_EREFUSED, 0, "no dtypes, shapes and strides in it: " FX_HOW_TO_PRINT);
    put_text(&f);
    names_close(&f.locals);
    names_close(&f.members);
    names_close(&f.symbols);
    if (f.rc == WARM_EUNSUPPORTED && hides_something(f.text, f.len))
        return err_set(e, WARM_EREFUSED, "FX: a constant or a kernel that the text does not hold");
    return f.rc;
}

bool form_fx_claims(const char *data, size_t len)
{
    bool has_torch = memmem(data, len, "torch", 5) != NULL;
    return (has_torch && has_forward(data, len)) ||
           (len >= 8 && memcmp(data, "graph():", 8) == 0 &&
            memmem(data, len, "placeholder[target=", 19) != NULL);
}
