/* SPDX-License-Identifier: Apache-2.0 */
/* fx_ops.c - what an operation of FX graph code may do (KEYS.md, section 8); fx_internal.h. No state. */
#include "keygen/fx_internal.h"

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

static bool is_pure_call(const struct fx *f, const struct shape *shape)
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
    return name.kind == NAME && torch && safe && is_pure_name(f->text + name.at, name.len);
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

static bool is_sum(const struct fx *f, const struct node *n, const struct shape *shape)
{
    struct token operation = operation_of(shape);
    return is_plain(f, n, shape) &&
           (fx_is_mark(f, operation, '+') || fx_is_mark(f, operation, '-') ||
            fx_is(f, operation, "add") || fx_is(f, operation, "sub"));
}

static const struct node *operand(const struct fx *f, const struct node *n, uint32_t i)
{
    return &f->nodes[f->edges[n->first_edge + i].node];
}

/* The value is surely no constant, which a division by it would turn into a multiplication. */
static bool varies(const struct fx *f, const struct node *n, const struct shape *shape)
{
    static const char *const words[] = {"std", "var", "mean", "sum",  "sqrt",   "exp",
                                        "sin", "cos", "tanh", "silu", "gelu",   "sigmoid",
                                        "mul", "div", "add",  "sub",  "detach", "clone"};
    struct token operation = operation_of(shape);
    bool may = shape->n_calls == 0
                   ? is_plain(f, n, shape) && strchr("+-*/", f->text[operation.at]) != NULL
                   : shape->n_calls == 1 && is_one_of(f, operation, words, COUNT(words));
    for (uint32_t i = 0; i < n->n_edges; i++)
        may = may && operand(f, n, i)->varies;
    return may && n->n_edges > 0;
}

/* Whatever is made of it, no multiplication is the last thing that happens to its value: inputs come
 * from memory; sums of such values, and what only moves them; a division by what is no constant.
 * Nothing else: compilers turn a matrix product of inner size 1, or a sum over one element, into a
 * product, and drop the addition of 0. */
static bool is_no_product(const struct fx *f, const struct node *n, const struct shape *shape)
{
    static const char *const moves[] = {
        "view", "_unsafe_view", "reshape", "expand", "unsqueeze", "squeeze", "permute", "transpose",
        "t",    "slice",        "select",  "detach", "alias",     "clone"};
    struct token operation = operation_of(shape);
    bool moves_one =
        shape->n_calls == 1 && n->n_edges == 1 && is_one_of(f, operation, moves, COUNT(moves));
    if (is_plain(f, n, shape) && n->n_edges == 2 &&
        (fx_is_mark(f, operation, '/') || fx_is(f, operation, "div")))
        return operand(f, n, 1)->varies;
    for (uint32_t i = 0; i < n->n_edges; i++)
        if (!operand(f, n, i)->no_product)
            return false;
    return n->n_edges > 0 && (is_sum(f, n, shape) || moves_one);
}

void fx_note_value(const struct fx *f, struct node *n, const struct shape *shape)
{
    n->varies = varies(f, n, shape);
    n->no_product = is_no_product(f, n, shape);
}

/* Real numbers in the processor's memory, or sizes. Complex products are sums of products; tuples and
 * lists are not added but put together; and compilers for other devices fuse a product with a sum, of two
 * the one whose operands were loaded last, so that the order of operands anywhere before may count. */
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

/* Of two products that are added a compiler fuses one with the addition, which rounds it otherwise;
 * which one depends on their order. So an addition commutes only with one operand that is none. */
static bool may_fuse(const struct fx *f, const struct node *n)
{
    for (uint32_t i = 0; i < n->n_edges; i++)
        if (operand(f, n, i)->no_product)
            return false;
    return n->n_edges == 2;
}

/* `a + b`, `a * b`, and torch's add and mul of two values. */
bool fx_is_commutative(const struct fx *f, const struct node *n, const struct shape *shape)
{
    if (!is_plain(f, n, shape) || n->n_edges < (shape->n_calls == 0 ? 1 : 2))
        return false;
    struct token operation = operation_of(shape);
    bool adds = fx_is_mark(f, operation, '+') || fx_is(f, operation, "add");
    if (!adds && !fx_is_mark(f, operation, '*') && !fx_is(f, operation, "mul"))
        return false;
    for (uint32_t i = 0; i < n->n_edges; i++)
        if (!is_real(f, operand(f, n, i)))
            return false;
    for (int i = 0; i <= 2 && shape->n_calls == 0; i += 2)
        if (shape->first[i].kind == NUMBER &&
            f->text[shape->first[i].at + shape->first[i].len - 1] == 'j')
            return false;
    return !(adds && may_fuse(f, n));
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
