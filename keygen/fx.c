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
#include <stdlib.h>
#include <string.h>

#include "keygen/forms.h"

#define NONE UINT32_MAX
#define HOW_TO_PRINT                                                                               \
    "print it with print_readable(print_output=False, include_stride=True, include_device=True)"

enum token_kind { END, LINE, NAME, NUMBER, STRING, MARK };

struct token {
    enum token_kind kind;
    uint32_t at, len;
};

enum node_kind { INPUT, FLATTEN, PURE, BARRIER, RESULT };

struct node {
    uint32_t at, len;           /* its expression */
    uint32_t type_at, type_len; /* its annotation's inside, or 0, 0 */
    uint32_t first_edge, n_edges;
    uint32_t segment; /* barriers before it */
    uint32_t number;  /* in the form, or NONE */
    uint64_t hash;    /* of all that it computes: only sorts operands */
    enum node_kind kind;
    uint8_t commutes; /* 0, or 1: the two simple operands at its edges may be exchanged */
    bool opened;      /* the walk has been here */
    bool no_product;  /* an input, or ends in an addition: nothing to fuse with an addition */
};

/* A name in an expression that stands for a node. */
struct edge {
    uint32_t at, node;
};

struct name {
    uint32_t at, len, hash, node;
};

struct fx {
    const char *text;
    uint32_t len, at;
    struct form *out;
    struct err *e;
    int rc;
    int parens; /* inside brackets, line ends do not count */

    struct node *nodes;
    uint32_t n_nodes, cap_nodes;
    struct edge *edges;
    uint32_t n_edges, cap_edges;
    struct name *names; /* open addressing, a power of two */
    uint32_t n_names, cap_names;
    uint32_t *stack;
    uint32_t n_stack, cap_stack;
    uint32_t *roots; /* barriers and the result, in order */
    uint32_t n_roots, cap_roots;
    uint32_t segment;
    uint32_t n_numbered;
    bool keep_index; /* the graph uses two devices of a kind */
    bool has_types;
    uint32_t n_graphs;
    char last;
};

/* --- failing --- */

static void fail(struct fx *f, int code, uint32_t at, const char *what)
{
    unsigned line = 1, column = 1;
    if (f->rc < 0)
        return;
    f->rc = code;
    for (uint32_t i = 0; i < at && i < f->len; i++) {
        column = f->text[i] == '\n' ? 1 : column + 1;
        line += f->text[i] == '\n';
    }
    err_set(f->e, code, "FX: %s", what);
    if (f->e != NULL) {
        f->e->line = line;
        f->e->column = column;
    }
}

static void give_up(struct fx *f, const char *why)
{
    if (f->rc < 0)
        return;
    f->rc = WARM_EUNSUPPORTED;
    f->out->why_exact = why;
}

static bool grow(struct fx *f, void **array, uint32_t *cap, uint32_t n, size_t size)
{
    if (n < *cap)
        return true;
    uint32_t more = *cap == 0 ? 64 : *cap + *cap / 2;
    void *moved = more > *cap ? realloc(*array, (size_t)more * size) : NULL;
    if (moved == NULL) {
        fail(f, WARM_ENOMEM, 0, "no memory for its nodes");
        return false;
    }
    *array = moved;
    *cap = more;
    return true;
}

/* --- tokens of Python --- */

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (uint8_t)c >= 0x80;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static uint32_t string_end(struct fx *f, uint32_t at)
{
    char quote = f->text[at];
    uint32_t begin = at++;
    while (at < f->len && f->text[at] != quote && f->text[at] != '\n')
        at += f->text[at] == '\\' ? 2 : 1;
    if (at >= f->len || f->text[at] != quote) {
        fail(f, WARM_ETRUNCATED, begin, "a string is not closed");
        return f->len;
    }
    return at + 1;
}

/* 1, 1e-05, 0x1F, 1.5: a sign after an exponent belongs to it. */
static uint32_t number_end(const struct fx *f, uint32_t at)
{
    for (at++; at < f->len; at++) {
        char c = f->text[at], before = f->text[at - 1];
        bool sign = (c == '-' || c == '+') && (before == 'e' || before == 'E') && at + 1 < f->len &&
                    is_digit(f->text[at + 1]);
        if (!is_name_char(c) && !is_digit(c) && c != '.' && !sign)
            break;
    }
    return at;
}

/* Blanks and comments; line ends inside brackets. False at a line end that counts. */
static bool skip_blanks(struct fx *f)
{
    while (f->at < f->len) {
        char c = f->text[f->at];
        if (c == '\n' && f->parens == 0)
            return false;
        if (c == '#') {
            const char *nl = memchr(f->text + f->at, '\n', f->len - f->at);
            f->at = nl != NULL ? (uint32_t)(nl - f->text) : f->len;
        } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
            f->at++;
        } else {
            return true;
        }
    }
    return true;
}

static struct token next_token(struct fx *f)
{
    bool inside = skip_blanks(f);
    struct token t = {END, f->at, 0};
    if (f->at == f->len || f->rc < 0)
        return t;
    char c = f->text[f->at];
    uint32_t end = f->at + 1;
    if (!inside) {
        t.kind = LINE;
    } else if (is_name_char(c)) {
        t.kind = NAME;
        while (end < f->len && (is_name_char(f->text[end]) || is_digit(f->text[end])))
            end++;
    } else if (is_digit(c) || (c == '.' && end < f->len && is_digit(f->text[end]))) {
        t.kind = NUMBER;
        end = number_end(f, f->at);
    } else if (c == '"' || c == '\'') {
        t.kind = STRING;
        end = string_end(f, f->at);
    } else if (c == '\\' || (uint8_t)c < ' ' || c == 0x7f) {
        give_up(f, "characters that FX graph code does not have");
        return t;
    } else {
        t.kind = MARK;
        f->parens += (c == '(' || c == '[' || c == '{') - (c == ')' || c == ']' || c == '}');
        if (f->parens < 0)
            fail(f, WARM_EMALFORMED, f->at, "a bracket closes that was not opened");
    }
    t.len = end - f->at;
    f->at = end;
    return t;
}

static struct token peek_token(struct fx *f)
{
    uint32_t at = f->at;
    int parens = f->parens;
    struct token t = next_token(f);
    f->at = at;
    f->parens = parens;
    return t;
}

static char char_at(const struct fx *f, uint32_t at) { return at < f->len ? f->text[at] : '\0'; }

static bool token_is(const struct fx *f, struct token t, const char *text)
{
    size_t len = strlen(text);
    return t.len == len && memcmp(f->text + t.at, text, len) == 0;
}

static bool is_mark(const struct fx *f, struct token t, char c)
{
    return t.kind == MARK && f->text[t.at] == c;
}

/* --- names --- */

static uint64_t mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

static uint64_t hash_bytes(uint64_t h, const char *s, uint32_t len)
{
    uint64_t w = 0;
    for (; len >= 8; s += 8, len -= 8) {
        memcpy(&w, s, 8);
        h = mix(h, w);
    }
    for (w = len; len > 0; len--)
        w = w << 8 | (uint8_t)s[len - 1];
    return mix(h, w);
}

static uint32_t name_hash(const struct fx *f, struct token t)
{
    return (uint32_t)(hash_bytes(t.len, f->text + t.at, t.len) >> 32);
}

static struct name *find_name(const struct fx *f, struct token t, uint32_t hash)
{
    uint32_t mask = f->cap_names - 1;
    for (uint32_t i = hash & mask;; i = (i + 1) & mask) {
        struct name *n = &f->names[i];
        if (n->len == 0 || (n->hash == hash && n->len == t.len &&
                            memcmp(f->text + n->at, f->text + t.at, t.len) == 0))
            return n;
    }
}

static bool grow_names(struct fx *f)
{
    uint32_t cap = f->cap_names == 0 ? 256 : f->cap_names * 2, old_cap = f->cap_names;
    struct name *old = f->names;
    struct name *names = calloc(cap, sizeof *names);
    if (names == NULL) {
        fail(f, WARM_ENOMEM, 0, "no memory for its names");
        return false;
    }
    f->names = names;
    f->cap_names = cap;
    for (uint32_t i = 0; i < old_cap; i++)
        if (old[i].len != 0)
            *find_name(f, (struct token){NAME, old[i].at, old[i].len}, old[i].hash) = old[i];
    free(old);
    return true;
}

/* From here on the name stands for `node` (NONE: for nothing). */
static void set_name(struct fx *f, struct token t, uint32_t node)
{
    if (f->n_names * 2 >= f->cap_names && !grow_names(f))
        return;
    uint32_t hash = name_hash(f, t);
    struct name *n = find_name(f, t, hash);
    f->n_names += n->len == 0;
    *n = (struct name){t.at, t.len, hash, node};
}

static uint32_t get_name(const struct fx *f, struct token t)
{
    if (f->cap_names == 0)
        return NONE;
    const struct name *n = find_name(f, t, name_hash(f, t));
    return n->len == 0 ? NONE : n->node;
}

/* --- types --- */

/* "f32[2, 3][3, 1]cuda:0": where the device begins; 0 if it is no tensor; NONE if the stride or the
 * device is missing. */
static uint32_t type_device(const char *type, uint32_t len)
{
    uint32_t at = 0;
    int groups = 0;

    while (at < len && (is_name_char(type[at]) || is_digit(type[at])))
        at++;
    if (at == 0 || at == len || type[at] != '[')
        return 0;
    while (at < len && type[at] == '[') {
        int depth = 0;
        do {
            depth += (type[at] == '[') - (type[at] == ']');
            at++;
        } while (at < len && depth > 0);
        groups++;
    }
    return groups == 2 && at < len ? at : NONE;
}

/* A bit for each index, one for none, and two at once for an index of several digits: it is then
 * kept. */
static uint64_t device_bit(const char *digits, uint32_t len)
{
    if (len == 0)
        return 1;
    return len == 1 && is_digit(digits[0]) ? 2u << (digits[0] - '0') : 3u << 11;
}

/* Adds what index `device` ("cuda:0") has to *indices; devices that have none by nature are not
 * counted. */
static void note_device(const char *device, uint32_t len, uint64_t *indices)
{
    const char *colon = memchr(device, ':', len);
    uint32_t kind = colon != NULL ? (uint32_t)(colon - device) : len;
    if ((kind == 3 && memcmp(device, "cpu", 3) == 0) ||
        (kind == 4 && memcmp(device, "meta", 4) == 0))
        return;
    *indices |= colon != NULL ? device_bit(colon + 1, len - kind - 1) : device_bit(NULL, 0);
}

/* A string is a device if it is "cuda:0", "xpu:12" and the like; the length of its kind, or 0. */
static uint32_t device_string(const char *s, uint32_t len)
{
    uint32_t kind = 0, at;
    while (kind < len && s[kind] >= 'a' && s[kind] <= 'z')
        kind++;
    if (kind == 0 || kind + 1 >= len || s[kind] != ':')
        return 0;
    for (at = kind + 1; at < len && is_digit(s[at]); at++)
        ;
    return at == len ? kind : 0;
}

/* Which device indices does the text name? In types, in device(type='cuda', index=0), in strings.
 */
static void scan_devices(struct fx *f)
{
    uint64_t indices = 0;
    struct token t, before = {END, 0, 0}, name = {END, 0, 0};

    for (t = next_token(f); f->rc == 0 && t.kind != END; t = next_token(f)) {
        const char *s = f->text + t.at + 1;
        uint32_t len = t.len < 2 ? 0 : t.len - 2;
        if (t.kind == STRING) {
            uint32_t at = type_device(s, len);
            if (at != 0 && at != NONE)
                note_device(s + at, len - at, &indices);
            else if (device_string(s, len) != 0)
                note_device(s, len, &indices);
            else if (is_mark(f, before, '=') && token_is(f, name, "type") &&
                     !is_mark(f, peek_token(f), ','))
                note_device(s, len, &indices);
        } else if (t.kind == NUMBER && is_mark(f, before, '=') && token_is(f, name, "index")) {
            indices |= device_bit(f->text + t.at, t.len);
        }
        if (before.kind == NAME)
            name = before;
        before = t;
    }
    f->keep_index = (indices & (indices - 1)) != 0;
    f->at = 0;
    if (f->rc == 0 && f->parens != 0)
        fail(f, WARM_ETRUNCATED, f->len, "a bracket is not closed");
    f->parens = 0;
}

/* --- operations --- */

/* Operations without effects on their operands, on files or on the state of random numbers, by the
 * name behind the last dot (before the overload, for torch.ops). In alphabetical order. */
/* clang-format off */
static const char *const pure_operations[] = {
    "__and__", "__getitem__", "__or__", "_adaptive_avg_pool2d",
    "_adaptive_avg_pool2d_backward", "_embedding_bag_forward_only", "_log_softmax",
    "_log_softmax_backward_data", "_softmax", "_softmax_backward_data", "_to_copy",
    "_unsafe_view", "abs", "acos", "acosh", "adaptive_avg_pool2d", "add", "addbmm", "addcdiv",
    "addcmul", "addmm", "addmv", "alias", "all", "amax", "amin", "any", "arange", "argmax",
    "argmin", "argsort", "as_strided", "asin", "asinh", "atan", "atan2", "atanh",
    "avg_pool2d", "avg_pool2d_backward", "baddbmm", "bitwise_and", "bitwise_left_shift",
    "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "bmm", "cat", "ceil",
    "chunk", "clamp", "clamp_max", "clamp_min", "clone", "constant_pad_nd", "contiguous",
    "conv1d", "conv2d", "conv3d", "convert_element_type", "convolution",
    "convolution_backward", "cos", "cosh", "cross_entropy", "cumprod", "cumsum", "detach",
    "diag", "diagonal", "div", "einsum", "elu", "embedding", "embedding_dense_backward", "eq",
    "erf", "erfc", "exp", "exp2", "expand", "expand_as", "expm1", "eye", "fill", "flatten",
    "flip", "float", "floor", "floor_divide", "fmod", "full", "full_like", "gather", "ge",
    "gelu", "gelu_backward", "glu", "gt", "half", "hardsigmoid", "hardswish", "hardtanh",
    "index", "index_put", "index_select", "iota", "isfinite", "isinf", "isnan", "item",
    "l1_loss", "layer_norm", "le", "leaky_relu", "leaky_relu_backward", "lerp", "linear",
    "linspace", "log", "log10", "log1p", "log2", "log_softmax", "logaddexp", "logical_and",
    "logical_not", "logical_or", "logical_xor", "logsumexp", "lt", "masked_fill",
    "masked_select", "matmul", "max", "max_pool2d", "max_pool2d_with_indices",
    "max_pool2d_with_indices_backward", "maximum", "mean", "min", "minimum", "mm", "mse_loss",
    "mse_loss_backward", "mul", "mv", "narrow", "native_group_norm",
    "native_group_norm_backward", "native_layer_norm", "native_layer_norm_backward", "ne",
    "neg", "new_full", "new_ones", "new_zeros", "nll_loss", "nll_loss_backward",
    "nll_loss_forward", "one_hot", "ones", "ones_like", "outer", "pad", "permute", "pow",
    "prod", "reciprocal", "relu", "remainder", "repeat", "repeat_interleave", "reshape",
    "roll", "round", "rsqrt", "rsub", "scalar_tensor", "scatter", "scatter_add", "select",
    "select_backward", "select_scatter", "sigmoid", "sigmoid_backward", "sign", "silu",
    "silu_backward", "sin", "sinh", "size", "slice", "slice_backward", "slice_scatter",
    "smooth_l1_loss", "softmax", "softplus", "sort", "split", "split_with_sizes", "sqrt",
    "square", "squeeze", "stack", "std", "std_mean", "sub", "sum", "sym_size", "t", "tan",
    "tanh", "tanh_backward", "tensor_split", "threshold_backward", "tile", "to", "topk",
    "trace", "transpose", "tril", "triu", "true_divide", "trunc", "unbind", "unflatten",
    "unfold", "unsqueeze", "var", "var_mean", "view", "view_as", "where", "zeros",
    "zeros_like",
};
/* clang-format on */

static bool is_pure_name(const char *s, uint32_t len)
{
    size_t low = 0, high = sizeof pure_operations / sizeof pure_operations[0];
    while (low < high) {
        size_t middle = (low + high) / 2;
        const char *name = pure_operations[middle];
        int order = strncmp(s, name, len);
        if (order == 0)
            order = name[len] == '\0' ? 0 : -1;
        if (order == 0)
            return true;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return false;
}

/* What a dotted name calls: the word to look up, and whether it is one of torch's own functions.
 * "torch.ops.aten.add.Tensor": add; "torch.nn.functional.relu": relu; "x.sin": sin. */
struct callee {
    struct token words[6];
    int n_words;
    bool is_method; /* the first word is an operand */
};

static bool is_pure_call(const struct fx *f, const struct callee *c)
{
    const struct token *w = c->words;
    struct token name = {END, 0, 0};

    if (c->is_method)
        name = c->n_words == 2 ? w[1] : name;
    else if (c->n_words == 2 && token_is(f, w[0], "torch"))
        name = w[1];
    else if (c->n_words == 5 && token_is(f, w[1], "ops") &&
             (token_is(f, w[2], "aten") || token_is(f, w[2], "prims")) && !token_is(f, w[4], "out"))
        name = w[3];
    else if (c->n_words == 4 && token_is(f, w[1], "nn") && token_is(f, w[2], "functional"))
        name = w[3];
    else if (c->n_words == 4 && token_is(f, w[1], "_C") && token_is(f, w[2], "_nn"))
        name = w[3];
    bool torch = c->is_method || token_is(f, w[0], "torch");
    return name.kind == NAME && torch && is_pure_name(f->text + name.at, name.len);
}

/* --- expressions --- */

static uint32_t add_node(struct fx *f, enum node_kind kind)
{
    void *nodes = f->nodes;
    if (!grow(f, &nodes, &f->cap_nodes, f->n_nodes, sizeof *f->nodes))
        return NONE;
    f->nodes = nodes;
    f->nodes[f->n_nodes] = (struct node){.kind = kind,
                                         .no_product = kind == INPUT,
                                         .first_edge = f->n_edges,
                                         .segment = f->segment,
                                         .number = NONE,
                                         .hash = mix(kind, 0)};
    return f->n_nodes++;
}

static void add_edge(struct fx *f, uint32_t at, uint32_t node)
{
    void *edges = f->edges;
    if (!grow(f, &edges, &f->cap_edges, f->n_edges, sizeof *f->edges))
        return;
    f->edges = edges;
    f->edges[f->n_edges++] = (struct edge){at, node};
}

static void add_root(struct fx *f, uint32_t node)
{
    void *roots = f->roots;
    if (!grow(f, &roots, &f->cap_roots, f->n_roots, sizeof *f->roots))
        return;
    f->roots = roots;
    f->roots[f->n_roots++] = node;
}

/* What reading an expression found. */
struct shape {
    struct callee callee; /* of the first call */
    int n_tokens;
    struct token first[4];   /* the first tokens, for what is no call */
    int n_calls;             /* opening brackets behind a name */
    bool has_keyword_effect; /* out=, inplace=True */
};

/* Is this name an operand? Not behind a dot, and not a keyword of a call. */
static bool is_operand(struct fx *f, struct token t, struct token before)
{
    if (t.kind != NAME || is_mark(f, before, '.'))
        return false;
    struct token after = peek_token(f);
    if (f->parens > 0 && is_mark(f, after, '=')) {
        uint32_t at = f->at;
        int parens = f->parens;
        next_token(f);
        bool equals = char_at(f, f->at) == '=';
        f->at = at;
        f->parens = parens;
        return equals;
    }
    return true;
}

/* The part of a quoted text that counts: without a device's index where only one is used. */
static uint32_t string_len(const struct fx *f, const char *s, uint32_t len)
{
    uint32_t at = type_device(s, len), kind = device_string(s, len);
    const char *colon = at != 0 && at != NONE ? memchr(s + at, ':', len - at)
                        : kind != 0           ? s + kind
                                              : NULL;
    return colon != NULL && !f->keep_index ? (uint32_t)(colon - s) : len;
}

static uint64_t hash_token(const struct fx *f, uint64_t hash, struct token t, bool is_index)
{
    if (t.kind == STRING)
        return hash_bytes(hash, f->text + t.at + 1, string_len(f, f->text + t.at + 1, t.len - 2));
    return is_index && !f->keep_index ? hash : hash_bytes(hash, f->text + t.at, t.len);
}

/* Reads an expression to its end (a line end or ';'), filling the node: its extent, its edges, its
 * hash. */
static void read_expression(struct fx *f, uint32_t node, struct shape *shape)
{
    struct token before = {END, 0, 0}, keyword = before, t;
    bool in_callee = true;
    uint64_t hash = f->nodes[node].hash;
    uint32_t end = f->at;

    skip_blanks(f);
    f->nodes[node].at = f->at;
    for (;;) {
        t = peek_token(f);
        if (t.kind == END || t.kind == LINE || (is_mark(f, t, ';') && f->parens == 0))
            break;
        next_token(f);
        end = f->at;
        uint32_t operand = is_operand(f, t, before) ? get_name(f, t) : NONE;
        if (operand != NONE)
            add_edge(f, t.at, operand);
        hash = operand != NONE ? mix(hash, f->nodes[operand].hash)
                               : hash_token(f, hash, t, token_is(f, keyword, "index"));
        if (shape->n_tokens < 4)
            shape->first[shape->n_tokens] = t;
        if (shape->n_tokens == 0)
            shape->callee.is_method = operand != NONE;
        if (in_callee && t.kind == NAME && shape->callee.n_words < 6)
            shape->callee.words[shape->callee.n_words++] = t;
        else if (!is_mark(f, t, '.'))
            in_callee = false;
        if (is_mark(f, t, '(') && before.kind == NAME && !token_is(f, before, "device") &&
            !token_is(f, before, "slice"))
            shape->n_calls++;
        if (t.kind == NAME && (token_is(f, t, "out") || token_is(f, t, "inplace")) &&
            is_mark(f, peek_token(f), '='))
            shape->has_keyword_effect = true;
        shape->n_tokens++;
        keyword = is_mark(f, t, '=') ? before : (struct token){END, 0, 0};
        before = t;
    }
    struct node *n = &f->nodes[node];
    n->len = end - n->at;
    n->n_edges = f->n_edges - n->first_edge;
    n->hash = hash;
}

static bool is_simple_operand(const struct fx *f, struct token t, const struct node *n)
{
    if (t.kind == NUMBER)
        return true;
    for (uint32_t i = 0; i < n->n_edges; i++)
        if (f->edges[n->first_edge + i].at == t.at)
            return true;
    return false;
}

/* The last word of what is called, or the operator between two operands. */
static struct token operation_of(const struct shape *shape)
{
    const struct callee *c = &shape->callee;
    if (shape->n_calls == 0)
        return shape->n_tokens == 3 ? shape->first[1] : (struct token){END, 0, 0};
    return c->n_words == 5 ? c->words[3] : c->words[c->n_words ? c->n_words - 1 : 0];
}

static bool is_no_product(struct fx *f, const struct node *n, const struct shape *shape)
{
    /* and a division by what is no number, which nobody turns into a multiplication */
    static const char *const sums[] = {"add", "sub", "sum", "mm", "bmm", "addmm", "convolution"};
    struct token operation = operation_of(shape);
    if (shape->n_calls == 0)
        return is_mark(f, operation, '+') || is_mark(f, operation, '-');
    bool found = token_is(f, operation, "div") && n->n_edges == 2 &&
                 token_is(f, shape->callee.words[4], "Tensor");
    for (size_t i = 0; shape->n_calls == 1 && i < sizeof sums / sizeof *sums; i++)
        found |= token_is(f, operation, sums[i]);
    return found;
}

/* Of two products that are added a compiler fuses one with the addition, which rounds it otherwise;
 * which one depends on their order. So an addition commutes only with one operand that is none. */
static bool may_exchange(struct fx *f, const struct node *n, const struct shape *shape)
{
    struct token operation = operation_of(shape);
    if (!is_mark(f, operation, '+') && !token_is(f, operation, "add"))
        return true;
    bool safe = n->n_edges < 2; /* the other operand is a number */
    for (uint32_t i = 0; i < n->n_edges; i++)
        safe |= f->nodes[f->edges[n->first_edge + i].node].no_product;
    return safe;
}

/* `a + b`, `a * b`, and torch's add and mul of two values: exactly these tokens. */
static bool is_commutative(struct fx *f, const struct node *n, const struct shape *shape)
{
    const struct token *t = shape->first;
    if (shape->n_tokens == 3 && shape->n_calls == 0)
        return (is_mark(f, t[1], '+') || is_mark(f, t[1], '*')) && is_simple_operand(f, t[0], n) &&
               is_simple_operand(f, t[2], n);
    const struct callee *c = &shape->callee;
    if (c->is_method || shape->n_calls != 1 || n->n_edges != 2)
        return false;
    /* the words and dots between them, "(", a, ",", b, ")" */
    if (shape->n_tokens != 2 * c->n_words - 1 + 5)
        return false;
    bool aten =
        c->n_words == 5 && token_is(f, c->words[2], "aten") && token_is(f, c->words[4], "Tensor");
    struct token name = aten ? c->words[3] : c->words[c->n_words - 1];
    return (aten || (c->n_words == 2 && token_is(f, c->words[0], "torch"))) &&
           (token_is(f, name, "add") || token_is(f, name, "mul"));
}

/* An operation that may move, go, or be put off: known, and with no effect asked for. */
static bool is_pure(struct fx *f, const struct shape *shape, uint32_t n_edges)
{
    if (shape->has_keyword_effect || shape->n_tokens == 0)
        return false;
    if (shape->n_calls == 1)
        return is_pure_call(f, &shape->callee);
    /* operators and subscripts of operands; a bare self.attribute */
    return shape->n_calls == 0 && (n_edges > 0 || token_is(f, shape->first[0], "self"));
}

/* --- statements --- */

static void check_type(struct fx *f, struct token type)
{
    uint32_t at = type_device(f->text + type.at + 1, type.len - 2);
    if (at == NONE)
        fail(f, WARM_EREFUSED, type.at, "a tensor without its stride or device: " HOW_TO_PRINT);
    else if (at != 0)
        f->has_types = true;
}

static void set_type(struct fx *f, uint32_t node, struct token type)
{
    check_type(f, type);
    f->nodes[node].type_at = type.at + 1;
    f->nodes[node].type_len = type.len - 2;
    f->nodes[node].hash = hash_token(f, f->nodes[node].hash, type, false);
}

/* The hash of a commutative node must not depend on the order of its operands. */
static void hash_commutative(struct fx *f, struct node *n, const struct shape *shape)
{
    const struct callee *c = &shape->callee;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n->n_edges; i++)
        sum += mix(f->nodes[f->edges[n->first_edge + i].node].hash, 7);
    if (shape->n_calls == 0) {
        sum = hash_token(f, sum, shape->first[1], false);
        for (int i = 0; i <= 2; i += 2)
            if (shape->first[i].kind == NUMBER)
                sum = hash_token(f, sum, shape->first[i], false);
    }
    for (int i = 0; i < c->n_words && shape->n_calls == 1; i++)
        sum = hash_token(f, sum, c->words[i], false);
    n->hash = mix(sum, n->segment);
}

/* An input of which the text does not say what it is must not be computed with. */
static void check_operands(struct fx *f, const struct node *n)
{
    for (uint32_t i = 0; i < n->n_edges; i++) {
        const struct edge *e = &f->edges[n->first_edge + i];
        if (f->nodes[e->node].kind == INPUT && f->nodes[e->node].type_len == 0)
            fail(f, WARM_EREFUSED, e->at,
                 "an input without dtype, shape and stride: " HOW_TO_PRINT);
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
    if (n->kind == RESULT || !is_pure(f, shape, n->n_edges)) {
        n->kind = n->kind == RESULT ? RESULT : BARRIER;
        n->hash = mix(n->hash, ++f->segment);
        add_root(f, node);
        return;
    }
    n->hash = mix(n->hash, n->segment);
    n->no_product = is_no_product(f, n, shape);
    n->commutes = is_commutative(f, n, shape) && may_exchange(f, n, shape);
    if (n->commutes)
        hash_commutative(f, n, shape);
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
        set_name(f, name, f->edges[n->first_edge].node);
        f->n_nodes--;
        f->n_edges = n->first_edge;
        return;
    }
    if (shape.n_tokens == 1 && token_is(f, shape.first[0], "None") && type.kind != STRING) {
        set_name(f, name, NONE); /* deleted */
        f->n_nodes--;
        return;
    }
    settle(f, node, &shape);
    set_name(f, name, node);
}

/* a = b = c = None: the names are free again. From behind the second name. */
static void take_deletion(struct fx *f, struct token first, struct token second)
{
    set_name(f, first, NONE);
    set_name(f, second, NONE);
    for (;;) {
        struct token equals = next_token(f), t = next_token(f);
        if (!is_mark(f, equals, '=') || t.kind != NAME) {
            give_up(f, "a chain of assignments that is not understood");
            return;
        }
        if (token_is(f, t, "None"))
            return;
        set_name(f, t, NONE);
    }
}

/* An input: a parameter of forward, or one of the names that tree_flatten_spec fills. */
static void take_input(struct fx *f, struct token name, struct token type)
{
    uint32_t node = add_node(f, INPUT);
    if (node == NONE)
        return;
    f->nodes[node].hash = mix(node, 1);
    if (type.kind == STRING)
        set_type(f, node, type);
    set_name(f, name, node);
}

/* a, b, c, = fx_pytree.tree_flatten_spec([x, y], self._in_spec), from behind the first comma. The
 * names got their types, and became inputs, on the line before. */
static void take_flatten(struct fx *f, struct token first)
{
    uint32_t expected = get_name(f, first);
    struct token t = next_token(f);
    for (; t.kind == NAME && expected != NONE; t = next_token(f)) {
        if (get_name(f, t) != ++expected || !is_mark(f, next_token(f), ','))
            break;
    }
    struct shape shape = {0};
    uint32_t node = is_mark(f, t, '=') ? add_node(f, FLATTEN) : NONE;
    if (node == NONE) {
        give_up(f, "an assignment to several names that is not understood");
        return;
    }
    read_expression(f, node, &shape);
    settle(f, node, &shape);
}

/* NAME: "TYPE", without a value: an input, whose name tree_flatten_spec fills later. */
static void take_annotated(struct fx *f, struct token name)
{
    struct token type = next_token(f);
    if (type.kind != STRING) {
        fail(f, WARM_EREFUSED, name.at,
             "a name without its dtype, shape and stride: " HOW_TO_PRINT);
        return;
    }
    struct token after = peek_token(f);
    if (is_mark(f, after, '=')) {
        next_token(f);
        take_assignment(f, name, type);
    } else {
        take_input(f, name, type);
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
    struct token second = next_token(f), after = peek_token(f);
    if (second.kind == NAME && is_mark(f, after, '=') && char_at(f, after.at + 1) != '=') {
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
        if (token_is(f, t, words[i]))
            return true;
    return false;
}

static void take_statement(struct fx *f, struct token t)
{
    if (token_is(f, t, "return")) {
        take_other(f, f->at, RESULT);
        return;
    }
    if (token_is(f, t, "pass"))
        return;
    if (t.kind != NAME || is_word_of_python(f, t)) {
        give_up(f, "a statement that is not understood");
        return;
    }
    struct token after = peek_token(f);
    if (is_mark(f, after, ':')) {
        next_token(f);
        take_annotated(f, t);
    } else if (is_mark(f, after, ',')) {
        next_token(f);
        take_flatten(f, t);
    } else if (is_mark(f, after, '=') && char_at(f, after.at + 1) != '=') {
        next_token(f);
        take_plain_assignment(f, t);
    } else {
        take_other(f, t.at, BARRIER);
    }
}

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
    if (f->keep_index || !is_mark(f, t, ','))
        return false;
    struct token name = next_token(f), equals = next_token(f), value = next_token(f);
    if (value.at < end && token_is(f, name, "index") && is_mark(f, equals, '=') &&
        value.kind == NUMBER && is_mark(f, peek_token(f), ')'))
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
        struct token t = next_token(f);
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
        if (token_is(f, t, "device") && is_mark(f, peek_token(f), '('))
            in_device = true;
        in_device = in_device && !is_mark(f, t, ')');
        f->parens = 1;
        put_gap(f, t);
        if (t.kind == STRING) {
            form_put(f->out, "\"", 1);
            form_put(f->out, f->text + t.at + 1, string_len(f, f->text + t.at + 1, t.len - 2));
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
    struct token a = next_token(f), operator= next_token(f), b = next_token(f);
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
    form_put(f->out, f->text + n->type_at, string_len(f, f->text + n->type_at, n->type_len));
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
    if (!grow(f, &stack, &f->cap_stack, f->n_stack, sizeof *f->stack))
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
    struct token t = next_token(f);
    bool good = is_mark(f, t, '(') && token_is(f, next_token(f), "self");

    for (t = next_token(f); good && is_mark(f, t, ','); t = next_token(f)) {
        struct token name = next_token(f), type = {END, 0, 0};
        good = name.kind == NAME;
        if (is_mark(f, peek_token(f), ':')) {
            next_token(f);
            type = next_token(f);
            if (type.kind != STRING)
                fail(f, WARM_EREFUSED, type.at,
                     "a parameter without its dtype, shape and stride: " HOW_TO_PRINT);
        }
        if (good && f->rc == 0)
            take_input(f, name, type);
    }
    if (!good || !is_mark(f, t, ')'))
        give_up(f, "a signature that is not understood");
    for (t = next_token(f); f->rc == 0 && !is_mark(f, t, ':'); t = next_token(f))
        if (t.kind == END || t.kind == LINE) {
            fail(f, WARM_ETRUNCATED, t.at, "forward has no body");
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
        fail(f, WARM_ETRUNCATED, f->at, "a graph without its return");
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
    for (struct token t = next_token(f); t.kind != LINE && t.kind != END; t = next_token(f)) {
        in_name = in_name && !is_mark(f, t, '(');
        if (inner && in_name)
            form_put(f->out, f->text + t.at, t.len);
    }
    form_put(f->out, "\n", 1);
}

static void take_line(struct fx *f, struct token t, bool indented)
{
    if (token_is(f, t, "class")) {
        take_class(f, indented);
        return;
    }
    if (token_is(f, t, "def")) {
        if (!token_is(f, next_token(f), "forward")) {
            give_up(f, "a function that is not forward");
            return;
        }
        if (f->n_nodes > 0)
            finish_graph(f);
        f->n_graphs++;
        take_signature(f);
        return;
    }
    if (f->n_graphs == 0) {
        give_up(f, "text before the first graph");
        return;
    }
    take_statement(f, t);
}

static void take_text(struct fx *f)
{
    bool line_start = true;
    for (;;) {
        uint32_t before = f->at;
        struct token t = next_token(f);
        if (t.kind == END || f->rc < 0)
            break;
        if (t.kind == LINE) {
            line_start = true;
            continue;
        }
        if (is_mark(f, t, ';'))
            continue;
        take_line(f, t, line_start && t.at > before);
        line_start = false;
    }
    if (f->rc == 0 && f->n_graphs == 0)
        fail(f, WARM_EMALFORMED, 0, "no graph in it");
    finish_graph(f);
    if (f->rc == 0 && !f->has_types)
        fail(f, WARM_EREFUSED, 0, "no dtypes, shapes and strides in it: " HOW_TO_PRINT);
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
        fail(&f, WARM_EREFUSED, 0, "no dtypes, shapes and strides in it: " HOW_TO_PRINT);
    f.edges = malloc(64 * sizeof *f.edges);
    f.cap_edges = f.edges != NULL ? 64 : 0;
    if (f.edges == NULL)
        fail(&f, WARM_ENOMEM, 0, "no memory for its nodes");
    scan_devices(&f);
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
