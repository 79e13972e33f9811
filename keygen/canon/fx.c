/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fx.c - the canonical form of FX graph code (KEYS.md, "FX graph code"). canon.c calls it.
 *
 * The input is the output of GraphModule.print_readable(include_stride=True, include_device=True). The
 * form is its statements as they are written, in other names, without comments:
 *
 *     class GraphModule(torch.nn.Module):                   class
 *         def forward(self, x: "f32[2, s7][s7, 1]cpu"):         def forward(self,#0:"f32[2, s$0]...cpu"):
 *             # File: m.py:7 in f, code: y = x.sin() * x
 *             sin: "f32[2, s7][s7, 1]cpu" = x.sin()   ─▶            #1:"f32[2, s$0][s$0, 1]cpu"=#0.sin()
 *             mul: "f32[2, s7][s7, 1]cpu" = sin * x                 #2:"f32[2, s$0][s$0, 1]cpu"=#1*#0
 *             return (mul,)                                         return(#2,)
 *
 * One pass from the front, line by line. forward's arguments and the targets of its assignments get
 * numbers by first mention, and so do unknown sizes (s7, u0). '#' begins a comment in Python and '$'
 * is in no word of it, so nothing else reads like a number.
 *
 * Any other name must be one of torch's or Python's, or a parameter of the module, or a graph in the
 * text. Another name stands for something that the text does not hold, so that one text may be
 * several programs. The form refuses such a text, and each statement that it does not know.
 *
 * Thread: any; no state. Memory: the names of one graph, the graphs of the module and the sizes.
 */
#include <string.h>

#include "keygen/canon/tokens.h"
#include "keygen/domains.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define HOW_TO_PRINT                                                                               \
    "print it with print_readable(print_output=False, include_stride=True, include_device=True)"
#define NOT_UNDERSTOOD "a statement that is not understood: " HOW_TO_PRINT

#define GRAPH_HELD 1u   /* in `graphs`: the text holds the graph of this name */
#define GRAPH_NEEDED 2u /* in `graphs`: the text refers to it */

/* clang-format off */
static const uint8_t classes[256] = {
    [0 ... 8] = CLASS_BAD, [11 ... 31] = CLASS_BAD, [0x7f ... 255] = CLASS_BAD,
    ['\\'] = CLASS_BAD, ['$'] = CLASS_BAD, ['?'] = CLASS_BAD, ['`'] = CLASS_BAD,
    ['\t'] = CLASS_BLANK, [' '] = CLASS_BLANK, ['\n'] = CLASS_LINE, ['#'] = CLASS_HASH,
    ['"'] = CLASS_QUOTE, ['\''] = CLASS_QUOTE,
    ['('] = CLASS_OPEN, ['['] = CLASS_OPEN, ['{'] = CLASS_OPEN,
    [')'] = CLASS_CLOSE, [']'] = CLASS_CLOSE, ['}'] = CLASS_CLOSE,
    ['!'] = CLASS_MARK, ['%'] = CLASS_MARK, ['&'] = CLASS_MARK, ['*' ... '/'] = CLASS_MARK,
    [':' ... '>'] = CLASS_MARK, ['@'] = CLASS_MARK, ['^'] = CLASS_MARK, ['|'] = CLASS_MARK,
    ['~'] = CLASS_MARK,
};
/* clang-format on */

struct span {
    uint32_t at, len;
};

struct fx {
    struct tokens t;
    struct names locals; /* of this graph */
    struct names graphs; /* those inside of the outermost one */
    struct names sizes;  /* s0, u3 */
    uint32_t n_locals, n_sizes;
    struct span tag;        /* what the last comment says of the nodes that follow */
    bool in_graph, in_body; /* behind a class; behind its forward */
    bool has_return, has_tensors;
};

static void refuse(struct fx *f, uint32_t at, const char *what)
{
    tokens_fail(&f->t, WARM_EREFUSED, at, what);
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Returns the byte that follows t->now, behind white space. '=' is an assignment; of "==" it is 'E'. */
static char char_ahead(const struct fx *f)
{
    uint32_t at = tokens_ahead(&f->t);
    char c = at < f->t.len ? f->t.text[at] : '\0';
    return c == '=' && at + 1 < f->t.len && f->t.text[at + 1] == '=' ? 'E' : c;
}

/* Reads the next token. A string behind a word or a string is one with a prefix, or of several lines. */
static void next(struct fx *f)
{
    enum token_kind before = f->t.now.kind;
    tokens_next(&f->t);
    if (f->t.now.kind == TOKEN_STRING && !f->t.now.spaced &&
        (before == TOKEN_STRING || before == TOKEN_WORD))
        refuse(f, f->t.now.at, NOT_UNDERSTOOD);
    if (f->t.now.kind == TOKEN_STRING && memchr(f->t.text + f->t.now.at, '\n', f->t.now.len))
        tokens_fail(&f->t, WARM_ETRUNCATED, f->t.now.at, "a string without end");
}

static void put_next(struct fx *f)
{
    tokens_put(&f->t, &f->t.now);
    next(f);
}

static bool ends_line(const struct fx *f)
{
    return f->t.now.kind == TOKEN_END || f->t.now.kind == TOKEN_LINE;
}

/* ---- names ---- */

static bool is_size(const char *word, uint32_t len)
{
    bool good = len >= 2 && (word[0] == 's' || word[0] == 'u');
    for (uint32_t i = 1; i < len && good; i++)
        good = is_digit(word[i]);
    return good;
}

/* Puts the number of an unknown size behind its letter: "s$0". */
static void put_size(struct fx *f, struct token word)
{
    bool is_new = false;
    uint32_t *number = tokens_number(&f->t, &f->sizes, word, &is_new);
    if (number && is_new)
        *number = f->n_sizes++;
    tokens_put(&f->t, &(struct token){word.at, 1, 0, TOKEN_WORD, word.spaced});
    word.spaced = false;
    tokens_put_number(&f->t, word, '$', number ? *number : 0);
}

/* torch and Python's own names, as the printer writes them: no name of a graph is one of them. */
static const char *const words[] = {"torch", "device",  "None",
                                    "True",  "False",   "inf",
                                    "nan",   "slice",   "getattr",
                                    "not",   "is",      "and",
                                    "or",    "in",      "abs",
                                    "bool",  "complex", "dict",
                                    "float", "int",     "len",
                                    "list",  "max",     "min",
                                    "pow",   "range",   "round",
                                    "set",   "setattr", "sum",
                                    "tuple", "print",   "flex_attention_hop"};

/* True for torch and the names that it prints for its own functions, and for those of Python: the
 * compiler's identity covers their versions. math_sqrt and operator_neg are such names, math_tools_f is not. */
static bool is_known(const struct fx *f, struct token name)
{
    static const char *const modules[] = {"math_", "operator_", "_operator_"};
    const char *text = f->t.text + name.at;
    if (tokens_in(&f->t, &name, words, COUNT(words)) ||
        (name.len > 7 && memcmp(text, "torch__", 7) == 0))
        return true;
    for (size_t i = 0; i < COUNT(modules); i++) {
        size_t len = strlen(modules[i]);
        if (name.len > len && memcmp(text, modules[i], len) == 0)
            return !memchr(text + len, '_', name.len - len);
    }
    return false;
}

/* Puts a name that is given a value here. */
static void put_target(struct fx *f)
{
    bool is_new = false;
    if (f->t.now.kind != TOKEN_WORD || tokens_in(&f->t, &f->t.now, words, COUNT(words)) ||
        tokens_is(&f->t, "self"))
        refuse(f, f->t.now.at, NOT_UNDERSTOOD);
    uint32_t *number = f->t.rc ? NULL : tokens_number(&f->t, &f->locals, f->t.now, &is_new);
    if (!number)
        return;
    if (is_new)
        *number = f->n_locals++;
    tokens_put_number(&f->t, f->t.now, '#', *number);
    next(f);
}

/* Marks a graph of the module. */
static void mark_graph(struct fx *f, struct token name, uint32_t how)
{
    uint32_t *graph = tokens_number(&f->t, &f->graphs, name, NULL);
    if (graph)
        *graph |= how;
}

static void check_graphs(struct fx *f)
{
    uint32_t i = 0;
    while (i < f->graphs.n && f->graphs.entries[i].number != GRAPH_NEEDED)
        i++;
    if (i < f->graphs.n)
        refuse(f, (uint32_t)(f->graphs.entries[i].name - f->t.text),
               "the text has only the name of this module, constant or value: it cannot tell "
               "graphs apart");
}

/* Puts self.layer.weight. With a tensor's type and nothing behind it, it is a parameter or a buffer: an
 * input at another place. But it is not a constant, which a compiler may take into the code. Anything
 * else must be a graph of the text. */
static void put_self(struct fx *f, bool may_be_parameter)
{
    static const char *const constants[] = {"_tensor_constant", "_param_constant", "_lifted_tensor",
                                            "lifted_tensor", "_frozen_param"};
    struct token name = f->t.now;
    uint32_t n = 0;
    for (put_next(f); tokens_mark(&f->t, '.'); put_next(f), n++) {
        put_next(f);
        name = f->t.now;
        if (name.kind != TOKEN_WORD)
            refuse(f, name.at, NOT_UNDERSTOOD);
    }
    bool is_parameter = may_be_parameter && n > 0 && (ends_line(f) || tokens_mark(&f->t, ';'));
    for (size_t i = 0; i < COUNT(constants); i++) {
        size_t len = strlen(constants[i]);
        if (name.len >= len && memcmp(f->t.text + name.at, constants[i], len) == 0)
            is_parameter = false;
    }
    if (!is_parameter)
        mark_graph(f, name, n == 1 ? GRAPH_NEEDED : 0);
    if (!is_parameter && n != 1)
        refuse(f, name.at,
               "the text has only the name of this module or value: it cannot tell graphs "
               "apart");
}

/* Puts a word that is no target. */
static void put_word(struct fx *f, bool may_be_parameter)
{
    struct token word = f->t.now;
    bool is_field = f->t.last == '.' || is_digit(f->t.text[word.at]);
    bool is_keyword = word.depth && char_ahead(f) == '=';
    const uint32_t *number =
        is_field || is_keyword ? NULL : names_find(&f->locals, f->t.text + word.at, word.len);
    if (is_keyword && tokens_is(&f->t, "kernel_idx"))
        refuse(f, word.at, "a kernel's number, which only the process that printed it understands");
    if (is_field || is_keyword) {
        put_next(f);
    } else if (tokens_is(&f->t, "self")) {
        put_self(f, may_be_parameter);
    } else if (number) {
        tokens_put_number(&f->t, word, '#', *number);
        next(f);
    } else if (is_size(f->t.text + word.at, word.len)) {
        put_size(f, word);
        next(f);
    } else {
        if (!is_known(f, word))
            refuse(f, word.at,
                   "the text lacks the code behind this name: it cannot tell graphs apart");
        put_next(f);
    }
}

/* ---- types ---- */

static uint32_t word_end(const char *s, uint32_t at, uint32_t len)
{
    while (at < len && classes[(uint8_t)s[at]] == CLASS_WORD)
        at++;
    return at;
}

/* True for "f32[2, 3][3, 1]cuda:0" and "Parameter(f32[2, 3][3, 1]cuda:0)". Refuses a tensor whose
 * type is not complete. */
static bool check_type(struct fx *f, const char *type, uint32_t len)
{
    static const char *const classes_known[] = {"Parameter", "Buffer", "Sym"};
    uint32_t word = word_end(type, 0, len), at = (uint32_t)(type - f->t.text);
    bool is_class = word < len && type[word] == '(' && type[len - 1] == ')';
    bool is_tensor = memchr(type, '[', len) != NULL;
    char last = len > is_class ? type[len - 1 - is_class] : ']';
    struct token class = {at, word, 0, TOKEN_WORD, false};
    if (memchr(type, '$', len) || memchr(type, '\\', len))
        refuse(f, at, "a type that is not understood");
    if (is_tensor && (!memmem(type, len, "][", 2) || last == ']'))
        refuse(f, at, "a tensor without its stride or device: " HOW_TO_PRINT);
    if (is_tensor && is_class && !tokens_in(&f->t, &class, classes_known, COUNT(classes_known)))
        refuse(f, at,
               "the text lacks the content of this class of tensors: print the graph behind "
               "AOTAutograd");
    f->has_tensors |= is_tensor;
    return is_tensor;
}

/* Puts :"f32[s0, 3][3, 1]cuda:0". True if it is the type of a tensor. */
static bool put_type(struct fx *f)
{
    struct tokens *t = &f->t;
    put_next(f);
    if (t->now.kind != TOKEN_STRING) {
        refuse(f, t->now.at, "a name without its dtype, shape and stride: " HOW_TO_PRINT);
        return false;
    }
    const char *type = t->text + t->now.at + 1;
    uint32_t len = t->now.len - 2;
    bool is_tensor = check_type(f, type, len);
    tokens_put_text(t, "\"");
    for (uint32_t at = 0, end; at < len && !t->rc; at = end) {
        end = word_end(type, at, len);
        bool is_dtype = end < len && type[end] == '['; /* u8[2] */
        struct token word = {t->now.at + 1 + at, end - at, 0, TOKEN_WORD, false};
        if (!is_dtype && is_size(type + at, word.len)) {
            put_size(f, word);
            continue;
        }
        end += end == at;
        word.len = end - at;
        tokens_put(t, &word);
    }
    tokens_put_text(t, "\"");
    next(f);
    return is_tensor;
}

/* ---- statements ---- */

/* Puts {NAME =} EXPRESSION, NAME: "TYPE" [= EXPRESSION] or {NAME,} = EXPRESSION, up to a line's end or ';'. */
static void put_statement(struct fx *f)
{
    struct tokens *t = &f->t;
    bool is_typed = false, may_target = t->now.kind == TOKEN_WORD;
    if (!may_target)
        refuse(f, t->now.at, NOT_UNDERSTOOD);
    f->has_return = tokens_is(t, "return");
    if (f->has_return)
        put_next(f);
    may_target &= !f->has_return;
    for (bool assigned = false; !ends_line(f) && (t->now.depth || !tokens_mark(t, ';'));) {
        char ahead = may_target && t->now.kind == TOKEN_WORD ? char_ahead(f) : '\0';
        bool is_list = ahead == ',' && !assigned, has_type = ahead == ':' && !assigned;
        if (may_target && (ahead == '=' || is_list || has_type)) {
            put_target(f);
            is_typed = has_type && put_type(f);
            if (is_list)
                put_next(f);
            if (tokens_mark(t, '=')) {
                put_next(f);
                assigned = true;
            }
            continue;
        }
        if (t->now.kind == TOKEN_WORD)
            put_word(f, is_typed);
        else
            put_next(f);
        may_target = is_typed = false;
    }
}

static void put_statements(struct fx *f)
{
    if (!f->in_body)
        refuse(f, f->t.now.at, "text outside of a graph: " HOW_TO_PRINT);
    for (put_statement(f); tokens_mark(&f->t, ';');) {
        put_next(f);
        if (!ends_line(f))
            put_statement(f);
    }
}

/* Puts def forward(self, a: "TYPE", b: "TYPE") -> ANYTHING: */
static void put_forward(struct fx *f)
{
    static const char *const head[] = {"def", "forward", "(", "self"};
    struct tokens *t = &f->t;
    names_clear(&f->locals);
    f->n_locals = 0;
    f->tag = (struct span){0, 0};
    f->in_graph = f->in_body = true;
    for (size_t i = 0; i < COUNT(head); i++) {
        if (!tokens_is(t, head[i]))
            refuse(f, t->now.at, "a signature that is not understood");
        put_next(f);
    }
    while (tokens_mark(t, ',')) {
        next(f);
        if (tokens_mark(t, ')')) /* printed with an argument a line */
            break;
        tokens_put_text(t, ",");
        put_target(f);
        if (!tokens_mark(t, ':'))
            refuse(f, t->now.at, "an input without dtype, shape and stride: " HOW_TO_PRINT);
        put_type(f);
    }
    if (!tokens_mark(t, ')') || t->now.depth)
        refuse(f, t->now.at, "a signature that is not understood");
    while (!ends_line(f) && (t->now.depth || !tokens_mark(t, ':')))
        put_next(f); /* the type of the result */
    if (!ends_line(f))
        put_next(f);
    if (t->now.kind != TOKEN_LINE)
        tokens_fail(t, WARM_ETRUNCATED, t->now.at, "a graph without its return");
}

/* Puts class NAME(torch.nn.Module): The outermost name does not count. */
static void put_class(struct fx *f, bool is_outermost)
{
    static const char *const base[] = {"(", "torch", ".", "nn", ".", "Module", ")", ":"};
    struct tokens *t = &f->t;
    f->in_graph = true;
    put_next(f);
    struct token name = t->now;
    for (name.len = 0; !ends_line(f) && !tokens_mark(t, '('); next(f)) /* also <lambda> */
        name.len = t->now.at + t->now.len - name.at;
    for (size_t i = 0; i < COUNT(base); i++, next(f))
        if (!name.len || !tokens_is(t, base[i]))
            refuse(f, t->now.at, "a class that is not understood: " HOW_TO_PRINT);
    if (is_outermost || t->rc)
        return;
    mark_graph(f, name, GRAPH_HELD);
    tokens_put(t, &name);
}

/* ---- lines and the text ---- */

/* Reads a comment line that FX prints before a node:
 *
 *     # ac_graph_id: 2 - MUST_SAVE File: m.py:7 in f, code: y = x.sin()
 *       ^~~~~~~~~~~~~~~~~~~~~~~~~~
 *
 * The part before the place in the source decides how the graph is cut into a forward and a backward
 * part, or compiled. It holds for the nodes up to the next such comment. */
static void put_comment(struct fx *f, uint32_t at, uint32_t end)
{
    static const char place[] = "File: ", no_place[] = "No stacktrace found";
    const char *text = f->t.text, *stop = NULL, *found;
    while (at < end && (text[at] == '#' || text[at] == ' '))
        at++;
    for (uint32_t from = at; (found = memmem(text + from, end - from, place, sizeof place - 1));) {
        stop = found;
        if (found == text + at)
            break; /* else the last one, as a tag may hold anything */
        from = (uint32_t)(found - text) + 1;
    }
    if (!stop)
        stop = memmem(text + at, end - at, no_place, sizeof no_place - 1);
    struct span tag = {at, stop ? (uint32_t)(stop - text) - at : 0};
    if (!stop || (tag.len == f->tag.len && memcmp(text + at, text + f->tag.at, tag.len) == 0))
        return;
    if (memmem(text + at, tag.len, "...'", 4))
        refuse(f, at, "an annotation that is cut short: it cannot tell graphs apart");
    f->tag = tag;
    tokens_put_text(&f->t, "# ");
    tokens_put_exact(&f->t, at, at + tag.len);
    tokens_put_text(&f->t, "\n");
}

static void end_graph(struct fx *f)
{
    if (f->in_graph && !f->has_return)
        tokens_fail(&f->t, WARM_ETRUNCATED, f->t.at, "a graph without its return");
    f->in_graph = f->in_body = f->has_return = false;
}

static void put_line(struct fx *f)
{
    struct tokens *t = &f->t;
    uint32_t begin = t->at, indent = 0;
    while (begin + indent < t->len && t->text[begin + indent] == ' ')
        indent++;
    uint32_t first = begin + indent;
    if (first < t->len && t->text[first] == '#') {
        const char *line = memchr(t->text + first, '\n', t->len - first);
        put_comment(f, first, line ? (uint32_t)(line - t->text) : t->len);
    }
    t->now.kind = TOKEN_LINE;
    next(f);
    if (ends_line(f))
        return;
    tokens_put_exact(t, begin, t->now.at);
    if (tokens_is(t, "class")) {
        end_graph(f);
        put_class(f, indent == 0);
    } else if (tokens_is(t, "def")) {
        if (f->in_body)
            end_graph(f);
        put_forward(f);
    } else {
        put_statements(f);
    }
    if (!ends_line(f))
        refuse(f, t->now.at, NOT_UNDERSTOOD);
    tokens_put_text(t, "\n");
}

int form_fx(const struct canon_input *input, struct form *out, struct err *e)
{
    struct fx f = {.t = {.classes = classes, .language = "FX"}};
    int rc = tokens_begin(&f.t, input, out, e);
    if (rc)
        return rc;
    form_begin(out, DOMAIN_FX);
    if (memchr(f.t.text, '\r', f.t.len)) /* it ends a line of Python, and a comment */
        refuse(&f, 0, "a carriage return");
    do
        put_line(&f);
    while (f.t.now.kind != TOKEN_END);
    end_graph(&f);
    if (!f.has_tensors)
        refuse(&f, 0, "no dtypes, shapes and strides in it: " HOW_TO_PRINT);
    check_graphs(&f);
    names_close(&f.locals);
    names_close(&f.graphs);
    names_close(&f.sizes);
    return tokens_end(&f.t);
}

/* Claims str(graph), too: it does not tell graphs apart that differ in dtype, shape or stride, so
 * that its exact bytes are no key. */
bool form_fx_claims(const char *data, size_t len)
{
    return (memmem(data, len, "torch", 5) && memmem(data, len, "def forward(", 12)) ||
           (len >= 8 && memcmp(data, "graph():", 8) == 0 &&
            memmem(data, len, "placeholder[target=", 19));
}
