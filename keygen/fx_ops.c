/* SPDX-License-Identifier: Apache-2.0 */
/* fx_ops.c - what an operation of FX graph code may do (KEYS.md, section 8); fx_internal.h. No state. */
#include "keygen/fx_internal.h"

/* --- operations --- */

/* Operations without effects on their operands, on files or on the state of random numbers, by the
 * name behind the last dot (before the overload, for torch.ops). In alphabetical order. First those of
 * arithmetic, element for element, their sums, and what only moves elements: nothing that compilers
 * look for in a graph in order to replace it. */
/* clang-format off */
static const char *const arithmetic_operations[] = {
    "__and__", "__or__", "_to_copy", "_unsafe_view", "abs", "acos", "acosh", "add", "alias",
    "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and", "bitwise_left_shift", "bitwise_not",
    "bitwise_or", "bitwise_right_shift", "bitwise_xor", "ceil", "clamp", "clamp_max", "clamp_min",
    "clone", "contiguous", "convert_element_type", "cos", "cosh", "detach", "div", "elu", "eq",
    "erf", "erfc", "exp", "exp2", "expand", "expand_as", "expm1", "flatten", "float", "floor",
    "floor_divide", "fmod", "ge", "gelu", "gelu_backward", "gt", "half", "hardsigmoid",
    "hardswish", "hardtanh", "isfinite", "isinf", "isnan", "le", "leaky_relu",
    "leaky_relu_backward", "lerp", "log", "log10", "log1p", "log2", "logaddexp", "logical_and",
    "logical_not", "logical_or", "logical_xor", "lt", "masked_fill", "maximum", "mean", "minimum",
    "mul", "ne", "neg", "permute", "pow", "prod", "reciprocal", "relu", "remainder", "reshape",
    "round", "rsqrt", "rsub", "sigmoid", "sigmoid_backward", "sign", "silu", "silu_backward",
    "sin", "sinh", "size", "softplus", "sqrt", "square", "squeeze", "std", "sub", "sum",
    "sym_size", "t", "tan", "tanh", "tanh_backward", "threshold_backward", "to", "transpose",
    "true_divide", "trunc", "unsqueeze", "var", "view", "view_as", "where",
};

/* And all others. */
static const char *const other_operations[] = {
    "__getitem__", "_adaptive_avg_pool2d", "_adaptive_avg_pool2d_backward",
    "_embedding_bag_forward_only", "_log_softmax", "_log_softmax_backward_data", "_softmax",
    "_softmax_backward_data", "adaptive_avg_pool2d", "addbmm", "addcdiv", "addcmul", "addmm",
    "addmv", "all", "amax", "amin", "any", "arange", "argmax", "argmin", "argsort", "as_strided",
    "avg_pool2d", "avg_pool2d_backward", "baddbmm", "bmm", "cat", "chunk", "constant_pad_nd",
    "conv1d", "conv2d", "conv3d", "convolution", "convolution_backward", "cross_entropy",
    "cumprod", "cumsum", "diag", "diagonal", "einsum", "embedding", "embedding_dense_backward",
    "eye", "fill", "flip", "full", "full_like", "gather", "glu", "index", "index_put",
    "index_select", "iota", "item", "l1_loss", "layer_norm", "linear", "linspace", "log_softmax",
    "logsumexp", "masked_select", "matmul", "max", "max_pool2d", "max_pool2d_with_indices",
    "max_pool2d_with_indices_backward", "min", "mm", "mse_loss", "mse_loss_backward", "mv",
    "narrow", "native_group_norm", "native_group_norm_backward", "native_layer_norm",
    "native_layer_norm_backward", "new_full", "new_ones", "new_zeros", "nll_loss",
    "nll_loss_backward", "nll_loss_forward", "one_hot", "ones", "ones_like", "outer", "pad",
    "repeat", "repeat_interleave", "roll", "scalar_tensor", "scatter", "scatter_add", "select",
    "select_backward", "select_scatter", "slice", "slice_backward", "slice_scatter",
    "smooth_l1_loss", "softmax", "sort", "split", "split_with_sizes", "stack", "std_mean",
    "tensor_split", "tile", "topk", "trace", "tril", "triu", "unbind", "unflatten", "unfold",
    "var_mean", "zeros", "zeros_like",
};
/* clang-format on */

static bool is_in(const char *const *names, size_t high, const char *s, uint32_t len)
{
    size_t low = 0;
    while (low < high) {
        size_t middle = (low + high) / 2;
        const char *name = names[middle];
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

static bool is_one_of(const struct fx *f, struct token t, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (fx_is(f, t, words[i]))
            return true;
    return false;
}

/* torch.nn.functional.relu(x, True) writes to x, and embedding(i, w, None, 2.0) to w. */
static bool may_write(const struct fx *f, const struct shape *shape, struct token name)
{
    struct token fourth = shape->fourth;
    return shape->says_true ||
           (fx_is(f, name, "embedding") && fourth.kind != END && !fx_is(f, fourth, "None"));
}

/* The name of torch's own operation that is called, if it surely has no effect, or of kind END. */
static struct token operation_without_effect(const struct fx *f, const struct shape *shape)
{
    /* overloads that write to an argument */
    static const char *const writing[] = {"out",     "grad_input", "dim_max",
                                          "dim_min", "values",     "values_stable"};
    const struct callee *c = &shape->callee;
    const struct token *w = c->words;
    struct token name = {END, 0, 0};

    if (c->is_method)
        name = c->n_words == 2 ? w[1] : name;
    else if (c->n_words == 2 && fx_is(f, w[0], "torch"))
        name = w[1];
    else if (c->n_words == 5 && fx_is(f, w[1], "ops") &&
             (fx_is(f, w[2], "aten") || fx_is(f, w[2], "prims")) &&
             !is_one_of(f, w[4], writing, COUNT(writing)))
        name = w[3];
    else if (c->n_words == 4 && fx_is(f, w[1], "nn") && fx_is(f, w[2], "functional"))
        name = w[3];
    else if (c->n_words == 4 && fx_is(f, w[1], "_C") && fx_is(f, w[2], "_nn"))
        name = w[3];
    bool torch = c->is_method || fx_is(f, w[0], "torch");
    bool safe = c->is_method || c->n_words == 5 || !may_write(f, shape, name);
    return torch && safe && name.kind == NAME ? name : (struct token){END, 0, 0};
}

static bool is_arithmetic_call(const struct fx *f, const struct shape *shape)
{
    struct token name = operation_without_effect(f, shape);
    return name.kind == NAME && is_in(arithmetic_operations, COUNT(arithmetic_operations),
                                      f->text + name.at, name.len);
}

static bool is_pure_call(const struct fx *f, const struct shape *shape)
{
    struct token name = operation_without_effect(f, shape);
    return is_arithmetic_call(f, shape) ||
           (name.kind == NAME &&
            is_in(other_operations, COUNT(other_operations), f->text + name.at, name.len));
}

/* torch.f, torch's own functions that print without it, and those of Python: their versions are the
 * compiler's. Any other function, math_sqrt and operator_neg apart, is the program's. */
bool fx_is_known_function(const struct fx *f, struct token first)
{
    static const char *const words[] = {
        "torch", "self",    "fx_pytree", "pytree", "device",
        "slice", "getattr", "setattr",   "abs",    "bool",
        "dict",  "float",   "int",       "len",    "list",
        "max",   "min",     "pow",       "range",  "round",
        "set",   "sum",     "tuple",     "print",  "flex_attention_hop"};
    static const char *const modules[] = {"math_", "operator_", "_operator_"};
    static const char inside[] = "torch__"; /* torch._dynamo.f */
    const char *name = f->text + first.at;
    if (is_one_of(f, first, words, COUNT(words)) ||
        (first.len > 7 && memcmp(name, inside, sizeof inside - 1) == 0))
        return true;
    for (size_t i = 0; i < COUNT(modules); i++) { /* math_sqrt, but not math_tools_f */
        size_t len = strlen(modules[i]);
        if (first.len > len && memcmp(name, modules[i], len) == 0)
            return memchr(name + len, '_', first.len - len) == NULL;
    }
    return false;
}

/* --- the shape of an expression --- */

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

/* Exactly `a OP b`, of operands and numbers, or `torch.f(a, b)`. */
static bool is_plain(const struct fx *f, const struct node *n, const struct shape *shape)
{
    const struct callee *c = &shape->callee;
    const struct token *t = shape->first;
    if (shape->n_calls == 0)
        return shape->n_tokens == 3 && is_simple_operand(f, t[0], n) &&
               is_simple_operand(f, t[2], n);
    /* the words and dots between them, "(", a, ",", b, ")" */
    return shape->n_calls == 1 && !c->is_method && c->n_words <= 5 &&
           shape->n_tokens == 2 * c->n_words - 1 + 5 &&
           ((c->n_words == 5 && fx_is(f, c->words[2], "aten") && fx_is(f, c->words[4], "Tensor")) ||
            (c->n_words == 2 && fx_is(f, c->words[0], "torch")));
}

static const struct node *operand(const struct fx *f, const struct node *n, uint32_t i)
{
    return &f->nodes[f->edges[n->first_edge + i].node];
}

/* Real numbers in the processor's memory, or sizes. Complex products are sums of products; tuples and
 * lists are not added but put together; and compilers for other devices fuse a product with a sum, of two
 * the one whose operands were loaded last. */
static bool is_real(const struct fx *f, const struct node *n)
{
    const char *s = f->text + n->type_at;
    if (n->type_len > 4 && memcmp(s, "Sym(", 4) == 0)
        return true;
    struct fx_type type = fx_read_type(s, n->type_len);
    bool on_cpu = type.device != NONE && type.end - type.device == 3 &&
                  memcmp(s + type.device, "cpu", 3) == 0;
    return on_cpu && type.is_tensor && memchr("fbiu", s[type.dtype], 4) != NULL;
}

/* `a + b`, `a * b`, and torch's add and mul of two values. */
bool fx_is_commutative(const struct fx *f, const struct node *n, const struct shape *shape)
{
    if (!is_plain(f, n, shape) || n->n_edges < (shape->n_calls == 0 ? 1 : 2))
        return false;
    struct token operation = operation_of(shape);
    if (!fx_is_mark(f, operation, '+') && !fx_is(f, operation, "add") &&
        !fx_is_mark(f, operation, '*') && !fx_is(f, operation, "mul"))
        return false;
    for (uint32_t i = 0; i < n->n_edges; i++)
        if (!is_real(f, operand(f, n, i)))
            return false;
    for (int i = 0; i <= 2 && shape->n_calls == 0; i += 2)
        if (shape->first[i].kind == NUMBER &&
            f->text[shape->first[i].at + shape->first[i].len - 1] == 'j')
            return false;
    return true;
}

/* An operation that may move, go, or be put off: known, and with no effect asked for. */
bool fx_is_pure(const struct fx *f, const struct shape *shape, uint32_t n_edges)
{
    if (shape->has_keyword_effect || shape->n_tokens == 0)
        return false;
    if (shape->n_calls == 1)
        return is_pure_call(f, shape);
    /* operators and subscripts of operands; a bare self.attribute */
    return shape->n_calls == 0 && (n_edges > 0 || fx_is(f, shape->first[0], "self"));
}

/* Nothing that a compiler looks for in order to replace it, nor could be a part of that. */
bool fx_is_arithmetic(const struct fx *f, const struct shape *shape)
{
    const struct token *t = shape->first;
    if (shape->n_calls > 0)
        return shape->n_calls == 1 && is_arithmetic_call(f, shape);
    return fx_is(f, t[0], "self") || (shape->n_tokens == 4 && fx_is_mark(f, t[1], '[')) ||
           (shape->n_tokens == 3 && t[1].kind == MARK && strchr("+-*/", f->text[t[1].at]) != NULL);
}

/* The hash of a commutative node must not depend on the order of its operands. */
void fx_hash_commutative(struct fx *f, struct node *n, const struct shape *shape)
{
    const struct callee *c = &shape->callee;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n->n_edges; i++)
        sum += fx_mix(f->nodes[f->edges[n->first_edge + i].node].hash, 7);
    if (shape->n_calls == 0) {
        sum = fx_hash_token(f, sum, shape->first[1], false);
        for (int i = 0; i <= 2; i += 2)
            if (shape->first[i].kind == NUMBER)
                sum = fx_hash_token(f, sum, shape->first[i], false);
    }
    for (int i = 0; i < c->n_words && shape->n_calls == 1; i++)
        sum = fx_hash_token(f, sum, c->words[i], false);
    n->hash = fx_mix(sum, n->segment);
}
