/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fx.c - the canonical form of FX graph code (KEYS.md, "FX graph code").
 *
 * The input is what GraphModule.print_readable(include_stride=True, include_device=True) prints. The form
 * is its statements as they are written, in other names, without comments:
 *
 *     class GraphModule(torch.nn.Module):                    class
 *         def forward(self, x: "f32[2, s7][s7, 1]cuda:0"):   def(self,#0:"f32[2, s$0][s$0, 1]cuda$")
 *             # File: m.py:7 in f, code: y = x.sin() * x
 *             sin: "f32[2, s7][s7, 1]cuda:0" = x.sin()   ─▶  #1:"f32[2, s$0][s$0, 1]cuda$"=#0.sin()
 *             mul: "f32[2, s7][s7, 1]cuda:0" = sin * x       #2:"f32[2, s$0][s$0, 1]cuda$"=#1*#0
 *             return (mul,)                                  return(#2,)
 *
 * One pass from the front. What forward or a statement gives a name to is numbered by first mention; other
 * names are Python's or torch's and stay. '#' begins a comment in Python and '$' is in no word of it, so
 * no number is taken for something else. Sizes that are not known yet (s7, u0) are numbered, too. The
 * first index of a device is '$'; if the text names another device, the form ends with what '$' is.
 *
 * What the text does not hold, a module, a constant, a function of the program, is refused: one text may
 * then be several programs. A statement that is not understood makes the whole text exact.
 *
 * Thread: any; no state. Memory: the names of one graph, the attributes of the module and the sizes.
 */
#include <string.h>

#include "keygen/canon/form.h"
#include "keygen/canon/names.h"
#include "keygen/domains.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define HOW_TO_PRINT                                                                               \
    "print it with print_readable(print_output=False, include_stride=True, include_device=True)"

#define FREE UINT32_MAX     /* in `locals`: no name of the graph's own so far */
#define UNTYPED 0x80000000u /* in `locals`: an input of which the text does not say what it is */
#define MEMBER_HELD 1u      /* in `members`: the text holds the graph of this name */
#define MEMBER_NEEDED 2u    /* in `members`: the text refers to it */

enum token_kind { END, LINE, NAME, NUMBER, STRING, MARK };

struct token {
    enum token_kind kind;
    uint32_t at, len;
    bool spaced; /* white space stands before it */
};

/* A piece of the input: inputs are below 4 GiB. */
struct span {
    uint32_t at, len;
};

struct fx {
    const char *text;
    uint32_t len, at;
    struct form *out;
    struct err *e;
    int rc;     /* the first error; parsing stops */
    int parens; /* inside brackets, line ends do not count */

    struct names locals;  /* of this graph: a number and flags, or FREE */
    struct names members; /* attributes of the module */
    struct names symbols; /* s0, u3: by first use in the text */
    uint32_t n_locals, n_symbols, n_graphs;
    struct span tag,
        told;          /* what comments say of the nodes that follow; what the form says so far */
    struct span index; /* the first index of a device that the text names */
    uint32_t inner_column; /* where the first graph inside another begins */
    uint32_t body_column;  /* where the statements of this graph do */
    bool in_graph, has_return, has_types, several_devices;
    char last; /* what was put last: 'w' a word, or a mark */
};

static void fail(struct fx *f, int code, uint32_t at, const char *what)
{
    if (f->rc)
        return;
    f->rc = err_set(f->e, code, "FX: %s", what);
    err_place(f->e, f->text, f->len, at);
}

/* The exact bytes are the form. `why` is static. */
static void give_up(struct fx *f, const char *why)
{
    if (f->rc)
        return;
    f->rc = WARM_EUNSUPPORTED;
    f->out->why_exact = why;
}

/* ---- bytes into tokens of Python ---- */

enum class { C_MARK, C_NAME, C_DIGIT, C_BLANK, C_LINE, C_COMMENT, C_QUOTE, C_OPEN, C_CLOSE, C_BAD };

/* By their first byte; what is not listed is a mark. */
/* clang-format off */
static const uint8_t classes[256] = {
    [0 ... 8] = C_BAD, [11 ... 31] = C_BAD, ['\t'] = C_BLANK, ['\n'] = C_LINE, [' '] = C_BLANK,
    ['#'] = C_COMMENT, ['"'] = C_QUOTE, ['\''] = C_QUOTE, ['0' ... '9'] = C_DIGIT,
    ['A' ... 'Z'] = C_NAME, ['a' ... 'z'] = C_NAME, ['_'] = C_NAME, [0x80 ... 255] = C_NAME,
    ['('] = C_OPEN, ['['] = C_OPEN, ['{'] = C_OPEN, [')'] = C_CLOSE, [']'] = C_CLOSE, ['}'] = C_CLOSE,
    ['\\'] = C_BAD, ['$'] = C_BAD, [0x7f] = C_BAD,
};
/* clang-format on */

static enum class class_of(char c) { return (enum class)classes[(uint8_t)c]; }
static bool is_digit(char c) { return class_of(c) == C_DIGIT; }
static bool is_word_char(char c) { return class_of(c) == C_NAME || is_digit(c); }
static char char_at(const struct fx *f, uint32_t at) { return at < f->len ? f->text[at] : '\0'; }

static bool is(const struct fx *f, struct token t, const char *text)
{
    return t.len == strlen(text) && memcmp(f->text + t.at, text, t.len) == 0;
}

static bool is_mark(const struct fx *f, struct token t, char c)
{
    return t.kind == MARK && f->text[t.at] == c;
}

/* Is this one '=', and not the first of two? */
static bool is_equals(const struct fx *f, struct token t)
{
    return is_mark(f, t, '=') && char_at(f, t.at + 1) != '=';
}

static bool begins_with(const struct fx *f, struct token t, const char *word)
{
    size_t len = strlen(word);
    return t.len > len && memcmp(f->text + t.at, word, len) == 0;
}

static bool is_one_of(const struct fx *f, struct token t, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (is(f, t, words[i]))
            return true;
    return false;
}

static uint32_t string_end(struct fx *f, uint32_t begin)
{
    uint32_t at = begin + 1;
    char quote = f->text[begin];
    if (char_at(f, at) == quote && char_at(f, at + 1) == quote)
        give_up(f, "text of several lines");
    while (at < f->len && f->text[at] != quote && f->text[at] != '\n')
        at += f->text[at] == '\\' ? 2 : 1;
    if (at >= f->len || f->text[at] != quote)
        fail(f, WARM_ETRUNCATED, begin, "a string is not closed");
    return at < f->len ? at + 1 : f->len;
}

/* 1, 1e-05, 0x1F, 1.5: a sign after an exponent belongs to it. */
static uint32_t number_end(const struct fx *f, uint32_t at)
{
    for (at++; at < f->len; at++) {
        char c = f->text[at], before = f->text[at - 1];
        bool sign = (c == '-' || c == '+') && (before == 'e' || before == 'E') &&
                    is_digit(char_at(f, at + 1));
        if (!is_word_char(c) && c != '.' && !sign)
            break;
    }
    return at;
}

static uint32_t word_end(const char *s, uint32_t at, uint32_t len)
{
    while (at < len && is_word_char(s[at]))
        at++;
    return at;
}

/* Of a comment that FX prints before a node, what stands before the place in the source:
 *
 *     # ac_graph_id: 2 - MUST_SAVE File: m.py:7 in f, code: y = x.sin()
 *       ^~~~~~~~~~~~~~~~~~~~~~~~~~
 *
 * decides how the graph is cut into a forward and a backward part, or compiled. It holds for the
 * nodes up to the next such comment. Other comments say nothing. */
static void read_comment(struct fx *f, const char *at, const char *end)
{
    static const char place[] = "File: ", no_place[] = "No stacktrace found";
    const char *stop = NULL, *found = at;
    while (at < end && (*at == '#' || *at == ' '))
        at++;
    for (found = at; (found = memmem(found, (size_t)(end - found), place, sizeof place - 1));
         found++)
        if (!stop ||
            stop > at) /* the last one, as a tag may hold anything; but the first is the place */
            stop = found;
    if (!stop)
        stop = memmem(at, (size_t)(end - at), no_place, sizeof no_place - 1);
    if (!stop)
        return;
    f->tag = (struct span){(uint32_t)(at - f->text), (uint32_t)(stop - at)};
    if (memmem(at, f->tag.len, "...'", 4))
        fail(f, WARM_EREFUSED, f->tag.at,
             "an annotation that is cut short: it cannot tell graphs apart");
}

/* Over blanks and comments, and line ends inside brackets. */
static void skip_blanks(struct fx *f)
{
    for (; f->at < f->len; f->at++) {
        enum class c = class_of(f->text[f->at]);
        if (c == C_COMMENT) {
            const char *at = f->text + f->at, *line = memchr(at, '\n', f->len - f->at);
            const char *end = line ? line : f->text + f->len;
            read_comment(f, at, end);
            f->at = (uint32_t)(end - f->text) - 1; /* the line's end is looked at next */
        } else if (c != C_BLANK && !(c == C_LINE && f->parens > 0) &&
                   !(f->text[f->at] == '\r' && char_at(f, f->at + 1) == '\n')) {
            return;
        }
    }
}

/* The next token, behind blanks and comments; END at the end and after a failure. */
static struct token next(struct fx *f)
{
    uint32_t from = f->at;
    skip_blanks(f);
    struct token t = {END, f->at, 0, f->at > from};
    uint32_t end = f->at + 1;
    if (f->at >= f->len || f->rc)
        return t;
    enum class c = class_of(f->text[t.at]);
    if (c == C_DIGIT || (f->text[t.at] == '.' && is_digit(char_at(f, end)))) {
        t.kind = NUMBER;
        end = number_end(f, t.at);
    } else if (c == C_NAME) {
        t.kind = NAME;
        end = word_end(f->text, end, f->len);
    } else if (c == C_QUOTE) {
        t.kind = STRING;
        end = string_end(f, t.at);
    } else {
        t.kind = c == C_LINE ? LINE : MARK;
        f->parens += (c == C_OPEN) - (c == C_CLOSE);
    }
    if (c == C_BAD)
        give_up(f, "characters that FX graph code does not have");
    if (f->parens < 0)
        fail(f, WARM_EMALFORMED, t.at, "a bracket closes that was not opened");
    f->at = end;
    if (f->rc)
        t.kind = END;
    else
        t.len = end - t.at;
    return t;
}

/* What next() may change, to look ahead. */
struct mark {
    uint32_t at;
    int parens;
    struct span tag;
};
static struct mark mark_of(const struct fx *f) { return (struct mark){f->at, f->parens, f->tag}; }
static void go_back(struct fx *f, struct mark m)
{
    f->at = m.at;
    f->parens = m.parens;
    f->tag = m.tag;
}

static struct token peek(struct fx *f)
{
    struct mark m = mark_of(f);
    struct token t = next(f);
    go_back(f, m);
    return t;
}

/* ---- names into numbers ---- */

/* The number of a name; 0, and *out_new is set, if it is new. NULL without memory. */
static uint32_t *number_of(struct fx *f, struct names *names, struct span name, bool *out_new)
{
    uint32_t *number = names_add(names, f->text + name.at, name.len, out_new);
    if (!number)
        fail(f, WARM_ENOMEM, name.at, "no memory for its names");
    return number;
}

static bool is_number(const char *s, uint32_t len)
{
    for (uint32_t i = 0; i < len; i++)
        if (!is_digit(s[i]))
            return false;
    return len > 0;
}

/* A size that is not known: s0, u3. */
static bool is_symbol(const char *word, uint32_t len)
{
    return len >= 2 && (word[0] == 's' || word[0] == 'u') && is_number(word + 1, len - 1);
}

static void put_symbol(struct fx *f, struct span word)
{
    bool is_new = false;
    uint32_t *number = number_of(f, &f->symbols, word, &is_new);
    if (number && is_new)
        *number = f->n_symbols++;
    form_put(f->out, f->text + word.at, 1);
    form_put(f->out, "$", 1);
    form_put_u64(f->out, number ? *number : 0);
}

/* ---- devices and types ---- */

/* Puts a kind and, if it has one, an index. Devices that have none by nature are not counted. */
static void put_device(struct fx *f, struct span kind, struct span index)
{
    const char *name = f->text + kind.at;
    bool single = (kind.len == 3 && memcmp(name, "cpu", 3) == 0) ||
                  (kind.len == 4 && memcmp(name, "meta", 4) == 0);
    form_put(f->out, name, kind.len);
    if (!index.len) {
        f->several_devices |= !single;
        return;
    }
    if (!f->index.len)
        f->index = index;
    bool first = index.len == f->index.len &&
                 memcmp(f->text + index.at, f->text + f->index.at, index.len) == 0;
    f->several_devices |= !first;
    form_put(f->out, first ? "$" : ":", 1);
    if (!first)
        form_put(f->out, f->text + index.at, index.len);
}

/* "cuda:0", "cpu" */
static void put_device_text(struct fx *f, struct span device)
{
    const char *s = f->text + device.at, *colon = memchr(s, ':', device.len);
    uint32_t kind = colon ? (uint32_t)(colon - s) : device.len, behind = kind + (colon != NULL);
    struct span index = {device.at + behind, device.len - behind};
    if (colon && !is_number(colon + 1, index.len))
        form_put(f->out, s, device.len);
    else
        put_device(f, (struct span){device.at, kind}, index);
}

/* A string; '$' and no quotes for one that names a device: 'cuda:0', 'xpu'. */
static void put_string(struct fx *f, struct token t)
{
    static const char *const kinds[] = {"cuda", "xpu", "mps", "mtia",
                                        "hpu",  "npu", "xla", "privateuseone"};
    struct span inside = {t.at + 1, t.len - 2};
    const char *s = f->text + inside.at, *colon = memchr(s, ':', inside.len);
    struct token kind = {NAME, inside.at, colon ? (uint32_t)(colon - s) : inside.len, false};
    if (!is_one_of(f, kind, kinds, COUNT(kinds)) ||
        (colon && !is_number(colon + 1, inside.len - kind.len - 1))) {
        form_put(f->out, f->text + t.at, t.len);
        return;
    }
    form_put(f->out, "$", 1);
    put_device_text(f, inside);
}

/* From behind the word `device`: puts (type='cuda', index=0) if that comes. */
static void put_device_call(struct fx *f)
{
    enum { BRACKET, TYPE, EQUALS, KIND, COMMA, INDEX, EQUALS_AGAIN, NUMERAL, CLOSE, N };
    struct token t[N];
    struct mark m = mark_of(f);
    for (int i = 0; i < N; i++)
        t[i] = next(f);
    if (!is(f, t[TYPE], "type") || !is_mark(f, t[EQUALS], '=') || t[KIND].kind != STRING ||
        !is_mark(f, t[COMMA], ',') || !is(f, t[INDEX], "index") ||
        !is_mark(f, t[EQUALS_AGAIN], '=') || !is_mark(f, t[CLOSE], ')') ||
        !is_number(f->text + t[NUMERAL].at, t[NUMERAL].len)) {
        go_back(f, m);
        return;
    }
    form_put_text(f->out, "($");
    put_device(f, (struct span){t[KIND].at + 1, t[KIND].len - 2},
               (struct span){t[NUMERAL].at, t[NUMERAL].len});
    form_put_text(f->out, ")");
}

/* "Parameter(f32[2, 3][3, 1]cuda:0)": f32 at 10, its device at 26. */
struct type {
    uint32_t wrapper; /* length of the class's name, or 0 */
    uint32_t device;  /* where the device begins; 0: it, or the stride, is missing */
    uint32_t end;     /* of the device */
    bool is_tensor;
};

static struct type read_type(const char *s, uint32_t len)
{
    struct type t = {.end = len};
    uint32_t at = word_end(s, 0, len), groups = 0, dtype = 0;
    if (at > 0 && at < len && s[at] == '(' && s[len - 1] == ')') {
        t.wrapper = at;
        t.end = len - 1;
        dtype = at + 1;
        at = word_end(s, dtype, t.end);
    }
    t.is_tensor = at > dtype && at < t.end && s[at] == '[';
    for (; at < t.end && s[at] == '['; groups++) {
        int depth = 0;
        do {
            depth += (s[at] == '[') - (s[at] == ']');
            at++;
        } while (at < t.end && depth > 0);
    }
    if (t.is_tensor && groups == 2 && at < t.end)
        t.device = at;
    return t;
}

/* The text of a type up to its device, its sizes numbered. */
static void put_sizes(struct fx *f, struct span type)
{
    const char *s = f->text + type.at;
    for (uint32_t at = 0, end; at < type.len; at = end) {
        end = word_end(s, at, type.len);
        bool is_dtype = end < type.len && s[end] == '['; /* u8[2] */
        if (!is_dtype && is_symbol(s + at, end - at)) {
            put_symbol(f, (struct span){type.at + at, end - at});
        } else {
            end += end == at;
            form_put(f->out, s + at, end - at);
        }
    }
}

/* Puts an annotation, "f32[s0, 3][3, 1]cuda:0". Refuses a tensor of which it does not say all. True if it
 * is a tensor. */
static bool put_type(struct fx *f, struct token token)
{
    uint32_t at = token.at + 1, len = token.len - 2;
    struct type t = read_type(f->text + at, len);
    struct token class = {NAME, at, t.wrapper, false};
    if (memchr(f->text + at, '$', len))
        give_up(f, "a type that is not understood");
    if (t.is_tensor && !t.device)
        fail(f, WARM_EREFUSED, token.at, "a tensor without its stride or device: " HOW_TO_PRINT);
    if (t.is_tensor && t.wrapper && !is(f, class, "Parameter") && !is(f, class, "Buffer"))
        fail(f, WARM_EREFUSED, token.at,
             "a tensor of a class whose inside the text does not hold: print the graph behind "
             "AOTAutograd");
    form_put(f->out, "\"", 1);
    put_sizes(f, (struct span){at, t.device ? t.device : len});
    if (t.device) {
        put_device_text(f, (struct span){at + t.device, t.end - t.device});
        form_put(f->out, f->text + at + t.end, len - t.end);
    }
    form_put(f->out, "\"", 1);
    f->last = '"';
    f->has_types |= t.is_tensor;
    return t.is_tensor;
}

/* ---- tokens into the form ---- */

static bool is_operator(char c) { return memchr("<>=&|!+-*/^~%@:", c, 15) != NULL; }

/* White space counts between two words, and between marks that could make one. */
static void put_gap(struct fx *f, struct token t)
{
    bool word = t.kind != MARK;
    char first = f->text[t.at];
    if (t.spaced && (word ? f->last == 'w' : is_operator(f->last) && is_operator(first)))
        form_put(f->out, " ", 1);
    f->last = word ? 'w' : first;
}

static void put_token(struct fx *f, struct token t)
{
    if (!t.len) /* the end */
        return;
    put_gap(f, t);
    if (t.kind == STRING)
        put_string(f, t);
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
    if (f->tag.len == f->told.len &&
        memcmp(f->text + f->tag.at, f->text + f->told.at, f->tag.len) == 0)
        return;
    form_put_text(f->out, "# ");
    form_put(f->out, f->text + f->tag.at, f->tag.len);
    put_line_end(f);
    f->told = f->tag;
}

/* A name that is given a value here. `untyped`: an input with which nothing may be computed. */
static void put_target(struct fx *f, struct token t, bool untyped)
{
    bool is_new = false;
    uint32_t *number = number_of(f, &f->locals, (struct span){t.at, t.len}, &is_new);
    if (!number)
        return;
    if (is_new)
        *number = f->n_locals++ | (untyped ? UNTYPED : 0);
    else if (*number == FREE)
        give_up(f, "a name that is used before it is given a value");
    put_local(f, t, *number);
}

/* An attribute of the module, of which the text must hold the graph. */
static void need_member(struct fx *f, struct token t)
{
    uint32_t *member = number_of(f, &f->members, (struct span){t.at, t.len}, NULL);
    if (member && !is(f, t, "_in_spec") && !is(f, t, "_out_spec"))
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
        fail(f, WARM_EREFUSED, (uint32_t)(first - f->text),
             "a module, a constant or a value of which the text holds no more than its name: it "
             "cannot tell graphs apart");
}

/* ---- expressions ---- */

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

/* Words that begin a statement inside, or bind names of their own. */
static const char *const python_words[] = {
    "with",  "if",    "for",  "while", "try",   "import", "from",  "def",    "lambda",   "global",
    "raise", "yield", "else", "del",   "await", "async",  "class", "assert", "nonlocal",
};

/* Where in a statement the reader is. */
struct reading {
    struct token before;
    struct token head; /* the first word of the dotted name that ends in `before` */
    bool head_is_local;
    bool in_self;      /* behind `self` */
    bool is_parameter; /* the whole expression is a parameter or a buffer of the module */
    bool is_flatten;   /* tree_flatten_spec, which takes the inputs apart */
};

/* A name behind a dot, or the keyword of an argument. */
static void put_inner_name(struct fx *f, const struct reading *r, struct token t,
                           struct token after)
{
    bool dotted = is_mark(f, r->before, '.');
    put_token(f, t);
    if (dotted && is(f, t, "device"))
        put_device_call(f);
    if (dotted && r->in_self && !r->is_parameter && !is_mark(f, after, '.'))
        need_member(f, t);
    if (!dotted && is(f, t, "kernel_idx"))
        fail(f, WARM_EREFUSED, t.at,
             "a kernel that is known to the process that printed it by its number");
}

/* A name that is no target: one of the graph's own, or one of Python's or torch's. */
static void put_mention(struct fx *f, struct reading *r, struct token t)
{
    struct token after = peek(f);
    if (is_mark(f, r->before, '.') || (f->parens > 0 && is_equals(f, after))) {
        put_inner_name(f, r, t, after);
        return;
    }
    if (is_one_of(f, t, python_words, COUNT(python_words)))
        give_up(f, "a statement that is not understood");
    bool is_new = false;
    uint32_t *number = number_of(f, &f->locals, (struct span){t.at, t.len}, &is_new);
    if (!number)
        return;
    if (is_new)
        *number = FREE;
    r->head = t;
    r->head_is_local = *number != FREE;
    r->in_self = is(f, t, "self");
    r->is_flatten |= is(f, t, "fx_pytree");
    if (r->in_self && !is_mark(f, after, '.'))
        need_member(f, t);
    if (r->head_is_local && *number & UNTYPED && !r->is_flatten)
        fail(f, WARM_EREFUSED, t.at, "an input without dtype, shape and stride: " HOW_TO_PRINT);
    if (r->head_is_local) {
        put_local(f, t, *number);
    } else if (is_symbol(f->text + t.at, t.len)) {
        put_gap(f, t);
        put_symbol(f, (struct span){t.at, t.len});
    } else {
        put_token(f, t);
    }
    if (is(f, t, "device") && !r->head_is_local)
        put_device_call(f);
}

static void put_other(struct fx *f, const struct reading *r, struct token t)
{
    if (is_mark(f, t, '(') && r->before.kind == NAME && !r->head_is_local &&
        !is_known_function(f, r->head))
        fail(f, WARM_EREFUSED, r->head.at,
             "a function of which the text does not hold the code: it cannot tell graphs apart");
    if (t.kind == NUMBER && is(f, r->before, "at") && char_at(f, t.at + 1) == 'x')
        fail(f, WARM_EREFUSED, t.at, "an object of the process that printed it");
    put_token(f, t);
}

/* ---- statements ---- */

static bool ends_statement(const struct fx *f, struct token t)
{
    return t.kind == END || t.kind == LINE || (is_mark(f, t, ';') && f->parens == 0);
}

/* Is what follows `self.layer.weight` and no more? With a tensor's type it is a parameter or a buffer,
 * an input at another place; but not a constant, which a compiler may take into the code. */
static bool is_parameter_next(struct fx *f)
{
    static const char *const constants[] = {"_tensor_constant", "_param_constant", "_lifted_tensor",
                                            "lifted_tensor", "_frozen_param"};
    struct mark m = mark_of(f);
    struct token t = next(f), name = t;
    bool good = is(f, t, "self");
    for (t = next(f); good && is_mark(f, t, '.'); t = next(f)) {
        name = next(f);
        good = name.kind == NAME;
    }
    good = good && !is(f, name, "self") && ends_statement(f, t);
    for (size_t i = 0; i < COUNT(constants); i++)
        good = good && !begins_with(f, name, constants[i]);
    go_back(f, m);
    return good;
}

/* NAME: "TYPE" [= EXPRESSION]; gives the expression's first token. */
static struct token put_annotated(struct fx *f, struct reading *r, struct token name)
{
    put_target(f, name, false);
    put_token(f, next(f));
    struct token type = next(f);
    if (type.kind != STRING) {
        fail(f, WARM_EREFUSED, name.at,
             "a name without its dtype, shape and stride: " HOW_TO_PRINT);
        return type;
    }
    bool is_tensor = put_type(f, type);
    struct token t = next(f);
    if (ends_statement(f, t))
        return t;
    if (!is_equals(f, t))
        give_up(f, "a statement that is not understood");
    put_token(f, t);
    r->is_parameter = is_tensor && is_parameter_next(f);
    return next(f);
}

/* NAME, NAME, = EXPRESSION; gives the expression's first token. */
static struct token put_list(struct fx *f, struct token t)
{
    while (t.kind == NAME) {
        put_target(f, t, false);
        t = next(f);
        if (!is_mark(f, t, ','))
            break;
        put_token(f, t);
        t = next(f);
    }
    if (!is_equals(f, t))
        give_up(f, "an assignment to several names that is not understood");
    put_token(f, t);
    return next(f);
}

/* What is given a value by the statement that begins with `t`; gives its expression's first token. */
static struct token put_targets(struct fx *f, struct reading *r, struct token t)
{
    while (t.kind == NAME) {
        struct token after = peek(f);
        if (is_mark(f, after, ':'))
            return put_annotated(f, r, t);
        if (is_mark(f, after, ','))
            return put_list(f, t);
        if (!is_equals(f, after))
            break;
        put_target(f, t, false);
        put_token(f, next(f));
        t = next(f);
    }
    return t;
}

/* A statement, from its first token to its line's end or ';'. */
static void put_statement(struct fx *f, struct token t)
{
    struct reading r = {.before = {.kind = MARK, .at = t.at}};
    if (t.kind != NAME || is_one_of(f, t, python_words, COUNT(python_words)))
        give_up(f, "a statement that is not understood");
    put_tag(f);
    f->has_return = is(f, t, "return");
    if (f->has_return) {
        put_token(f, t);
        t = next(f);
    } else {
        t = put_targets(f, &r, t);
    }
    for (; !ends_statement(f, t); t = next(f)) {
        if (t.kind == NAME)
            put_mention(f, &r, t);
        else
            put_other(f, &r, t);
        r.before = t;
    }
    if (t.kind == END && f->parens > 0)
        fail(f, WARM_ETRUNCATED, t.at, "a bracket is not closed");
    put_line_end(f);
}

/* ---- graphs and the text ---- */

static void end_graph(struct fx *f)
{
    if (f->in_graph && !f->has_return)
        fail(f, WARM_ETRUNCATED, f->at, "a graph without its return");
    f->in_graph = false;
}

/* {, NAME [: "TYPE"]} of a signature, from its first comma on; gives the token behind. */
static struct token put_inputs(struct fx *f, struct token t)
{
    while (is_mark(f, t, ',') && peek(f).kind == NAME) {
        struct token name = next(f);
        bool is_typed = is_mark(f, peek(f), ':');
        put_token(f, t);
        put_target(f, name, !is_typed);
        if (is_typed) {
            put_token(f, next(f));
            t = next(f);
            if (t.kind == STRING)
                put_type(f, t);
            else
                fail(f, WARM_EREFUSED, t.at,
                     "a parameter without its dtype, shape and stride: " HOW_TO_PRINT);
        }
        t = next(f);
    }
    return is_mark(f, t, ',') ? next(f) : t; /* printed with an argument a line */
}

/* def forward(self, a: "TYPE", b): from behind `def`. */
static void put_forward(struct fx *f)
{
    struct token name = next(f), bracket = next(f), self = next(f), t = next(f);
    end_graph(f);
    names_clear(&f->locals);
    f->n_locals = f->tag.len = f->told.len = f->body_column = 0;
    f->n_graphs++;
    f->in_graph = true;
    f->has_return = false;
    form_put_text(f->out, "def(self");
    t = put_inputs(f, t);
    if (!is(f, name, "forward") || !is_mark(f, bracket, '(') || !is(f, self, "self") ||
        !is_mark(f, t, ')'))
        give_up(f, "a signature that is not understood");
    put_token(f, t);
    for (t = next(f); !is_mark(f, t, ':') && f->rc == 0; t = next(f)) {
        if (ends_statement(f, t))
            fail(f, WARM_ETRUNCATED, t.at, "forward has no body");
        put_token(f, t); /* what it is said to return */
    }
    put_line_end(f);
}

/* class NAME(torch.nn.Module): from behind `class`. The name of a graph inside another counts, since the
 * outer one speaks of it, and so does what it is inside of. */
static void put_class(struct fx *f, uint32_t column)
{
    static const char *const base[] = {"(", "torch", ".", "nn", ".", "Module", ")", ":"};
    struct token t = next(f);
    end_graph(f);
    form_put_text(f->out, "class");
    if (column && !f->inner_column)
        f->inner_column = column;
    if (column && column % f->inner_column)
        give_up(f, "a graph that is indented in another way");
    if (column && t.kind == NAME) {
        uint32_t *member = number_of(f, &f->members, (struct span){t.at, t.len}, NULL);
        if (member)
            *member |= MEMBER_HELD;
        form_put(f->out, " ", 1);
        form_put(f->out, f->text + t.at, t.len);
    }
    for (uint32_t depth = column; depth; depth -= f->inner_column)
        form_put(f->out, ">", 1);
    while (!is_mark(f, t, '(') && t.kind != LINE && t.kind != END) /* also <lambda> */
        t = next(f);
    for (size_t i = 0; i < COUNT(base); i++, t = next(f))
        if (!is(f, t, base[i]))
            give_up(f, "a class that is not understood");
    put_line_end(f);
}

static void put_text(struct fx *f)
{
    bool starts_line = true;
    for (struct token t = next(f); t.kind != END; t = next(f)) {
        uint32_t column = t.at, line = t.at;
        while (starts_line && line > 0 && f->text[line - 1] != '\n')
            line--;
        column -= line;
        bool moved = starts_line && f->in_graph && f->body_column && f->body_column != column;
        if (t.kind == LINE || is_mark(f, t, ';')) {
            starts_line = t.kind == LINE;
            continue;
        }
        if (is(f, t, "class")) {
            put_class(f, starts_line ? column : 0);
        } else if (is(f, t, "def")) {
            put_forward(f);
        } else if (f->in_graph && !moved) {
            f->body_column = starts_line ? column : f->body_column;
            put_statement(f, t);
        } else {
            give_up(f, "text that stands in no graph");
        }
        starts_line = char_at(f, f->at - 1) == '\n';
    }
    end_graph(f);
    if (f->index.len && f->several_devices) {
        form_put_text(f->out, "$ is ");
        form_put(f->out, f->text + f->index.at, f->index.len);
        put_line_end(f);
    }
    if (!f->n_graphs)
        fail(f, WARM_EMALFORMED, 0, "no graph in it");
    if (!f->has_types)
        fail(f, WARM_EREFUSED, 0, "no dtypes, shapes and strides in it: " HOW_TO_PRINT);
    check_members(f);
}

/* Text that is not read to its end must hold nothing of what is refused where it is read. */
static int check_exact(const struct fx *f)
{
    static const char member[] = "self.";
    const char *at = f->text, *end = at + f->len;
    bool hides = memmem(at, f->len, "kernel_idx", 10) || memmem(at, f->len, " at 0x", 6);
    for (; !hides && (at = memmem(at, (size_t)(end - at), member, sizeof member - 1)); at++)
        hides = !memmem(at, end - at < 14 ? (size_t)(end - at) : 14, "_spec", 5);
    if (!memmem(f->text, f->len, ": \"", 3))
        return err_set(f->e, WARM_EREFUSED,
                       "FX: no dtypes, shapes and strides in it: " HOW_TO_PRINT);
    return hides ? err_set(f->e, WARM_EREFUSED,
                           "FX: a module, a constant or a kernel that the text does not hold")
                 : WARM_EUNSUPPORTED;
}

int form_fx(const struct canon_input *input, struct form *out, struct err *e)
{
    if (input->len >= UINT32_MAX)
        return err_set(e, WARM_ETOO_BIG, "FX: 4 GiB and more are not read");
    struct fx f = {.text = input->data, .len = (uint32_t)input->len, .out = out, .e = e};
    form_begin(out, DOMAIN_FX);
    put_text(&f);
    names_close(&f.locals);
    names_close(&f.members);
    names_close(&f.symbols);
    return f.rc == WARM_EUNSUPPORTED ? check_exact(&f) : f.rc;
}

/* str(graph) is of this kind, too, so that it is refused and not kept as bytes: it does not tell graphs
 * apart that differ in dtype, shape or stride. */
bool form_fx_claims(const char *data, size_t len)
{
    return (memmem(data, len, "torch", 5) && memmem(data, len, "def forward(", 12)) ||
           (len >= 8 && memcmp(data, "graph():", 8) == 0 &&
            memmem(data, len, "placeholder[target=", 19));
}
