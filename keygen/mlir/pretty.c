/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pretty.c - turns the clauses that StableHLO, CHLO, func and Shardy print into attributes. It also
 * knows the syntax of each operation. plain.c calls it.
 *
 *     stablehlo.transpose %0, dims = [1, 0] : ...   {permutation = array<i64: 1, 0>}
 *     stablehlo.slice %0 [0:1, 2:8:2] : ...         {limit_indices = ..., start_indices = ..., ...}
 *
 * Each clause becomes the attribute of the generic form, so that both forms agree. If the table
 * lacks a clause, the reader keeps the tokens of its operation.
 *
 * Thread: any; the state is struct mlir.
 * Source: the assembly formats in StablehloOps.td, ChloOps.td, FuncOps.td and sdy/ir/ops.td.
 */
#include "keygen/mlir/internal.h"

#include <stdio.h>
#include <string.h>

/* ---- syntax of an operation ---- */

/* Operations whose syntax is not SIMPLE, and SIMPLE ones that mlir/ops.c does not know. */
#define NAME(text) text, sizeof text - 1
static const struct {
    const char *name;
    size_t len;
    enum syntax syntax;
} syntax_table[] = {
    {NAME("stablehlo.constant"), SYNTAX_CONSTANT},
    {NAME("chlo.constant"), SYNTAX_CONSTANT},
    {NAME("stablehlo.compare"), SYNTAX_COMPARE},
    {NAME("func.call"), SYNTAX_CALL},
    {NAME("stablehlo.custom_call"), SYNTAX_CUSTOM_CALL},
    {NAME("stablehlo.composite"), SYNTAX_COMPOSITE},
    {NAME("stablehlo.while"), SYNTAX_WHILE},
    {NAME("stablehlo.reduce"), SYNTAX_REDUCE},
    {NAME("sdy.manual_computation"), SYNTAX_MANUAL},
    {NAME("sdy.mesh"), SYNTAX_MESH},
    {NAME("func.func"), SYNTAX_FUNC},
    {NAME("builtin.module"), SYNTAX_MODULE},
    {NAME("stablehlo.rng"), SYNTAX_SIMPLE},
    {NAME("stablehlo.after_all"), SYNTAX_SIMPLE},
    {NAME("stablehlo.create_token"), SYNTAX_SIMPLE},
};

enum syntax mlir_syntax(const char *name, size_t len)
{
    for (size_t i = 0; i < sizeof syntax_table / sizeof *syntax_table; i++)
        if (syntax_table[i].len == len && bytes_equal(syntax_table[i].name, name, len))
            return syntax_table[i].syntax;
    return mlir_op_is_known(name, len) ? SYNTAX_SIMPLE : SYNTAX_UNKNOWN;
}

/* ---- clauses ---- */

enum clause_kind {
    CLAUSE_ARRAY,  /* [1, 0]      key = array<i64: 1, 0> */
    CLAUSE_I64,    /* 1           key = 1 : i64 */
    CLAUSE_ENUM,   /* FFT         key = #stablehlo<fft_type FFT>, the enum's name is in `extra` */
    CLAUSE_VALUE,  /* anything    key = anything */
    CLAUSE_PREFIX, /* <...>       key = extra<...> */
    CLAUSE_CONV,   /* [..]x[..]   key = #stablehlo.conv<...> */
    CLAUSE_WINDOW, /* {...}       of a convolution */
    CLAUSE_BATCH,  /* [0] x [0]   of dot_general */
    CLAUSE_CONTRACT,
    CLAUSE_PRECISION, /* [A, B]    precision_config = [#stablehlo<precision A>, ...] */
    CLAUSE_FORMAT,    /* e5m10     of reduce_precision */
};

struct clause {
    const char *op; /* without its dialect */
    size_t op_len;
    const char *word;
    size_t word_len;
    enum clause_kind kind;
    const char *key, *extra;
};

/* The most frequent clauses come first. */
static const struct clause clause_table[] = {
    {NAME("broadcast_in_dim"), NAME("dims"), CLAUSE_ARRAY, "broadcast_dimensions", NULL},
    {NAME("dot_general"), NAME("batching_dims"), CLAUSE_BATCH, NULL, NULL},
    {NAME("dot_general"), NAME("contracting_dims"), CLAUSE_CONTRACT, NULL, NULL},
    {NAME("dot_general"), NAME("precision"), CLAUSE_PRECISION, NULL, NULL},
    {NAME("transpose"), NAME("dims"), CLAUSE_ARRAY, "permutation", NULL},
    {NAME("reduce"), NAME("dimensions"), CLAUSE_ARRAY, "dimensions", NULL},
    {NAME("dynamic_slice"), NAME("sizes"), CLAUSE_ARRAY, "slice_sizes", NULL},
    {NAME("iota"), NAME("dim"), CLAUSE_I64, "iota_dimension", NULL},
    {NAME("dot_general"), NAME("algorithm"), CLAUSE_PREFIX, "algorithm",
     "#stablehlo.dot_algorithm"},
    {NAME("dynamic_broadcast_in_dim"), NAME("dims"), CLAUSE_ARRAY, "broadcast_dimensions", NULL},
    {NAME("reverse"), NAME("dims"), CLAUSE_ARRAY, "dimensions", NULL},
    {NAME("broadcast"), NAME("sizes"), CLAUSE_ARRAY, "broadcast_sizes", NULL},
    {NAME("pad"), NAME("low"), CLAUSE_ARRAY, "edge_padding_low", NULL},
    {NAME("pad"), NAME("high"), CLAUSE_ARRAY, "edge_padding_high", NULL},
    {NAME("pad"), NAME("interior"), CLAUSE_ARRAY, "interior_padding", NULL},
    {NAME("fft"), NAME("length"), CLAUSE_ARRAY, "fft_length", NULL},
    {NAME("dynamic_iota"), NAME("dim"), CLAUSE_I64, "iota_dimension", NULL},
    {NAME("concatenate"), NAME("dim"), CLAUSE_I64, "dimension", NULL},
    {NAME("get_dimension_size"), NAME("dim"), CLAUSE_I64, "dimension", NULL},
    {NAME("set_dimension_size"), NAME("dim"), CLAUSE_I64, "dimension", NULL},
    {NAME("torch_index_select"), NAME("dim"), CLAUSE_I64, "dim", NULL},
    {NAME("torch_index_select"), NAME("batch_dims"), CLAUSE_I64, "batch_dims", NULL},
    {NAME("top_k"), NAME("k"), CLAUSE_I64, "k", NULL},
    {NAME("fft"), NAME("type"), CLAUSE_ENUM, "fft_type", "fft_type"},
    {NAME("rng"), NAME("distribution"), CLAUSE_ENUM, "rng_distribution", "rng_distribution"},
    {NAME("rng_bit_generator"), NAME("algorithm"), CLAUSE_ENUM, "rng_algorithm", "rng_algorithm"},
    {NAME("cholesky"), NAME("lower"), CLAUSE_VALUE, "lower", NULL},
    {NAME("einsum"), NAME("config"), CLAUSE_VALUE, "einsum_config", NULL},
    {NAME("unary_einsum"), NAME("config"), CLAUSE_VALUE, "einsum_config", NULL},
    {NAME("dot"), NAME("precision"), CLAUSE_PRECISION, NULL, NULL},
    {NAME("convolution"), NAME("dim_numbers"), CLAUSE_CONV, "dimension_numbers", NULL},
    {NAME("convolution"), NAME("window"), CLAUSE_WINDOW, NULL, NULL},
    {NAME("dynamic_conv"), NAME("dim_numbers"), CLAUSE_CONV, "dimension_numbers", NULL},
    {NAME("dynamic_conv"), NAME("window"), CLAUSE_WINDOW, NULL, NULL},
    {NAME("reduce_precision"), NAME("format"), CLAUSE_FORMAT, NULL, NULL},
};

static const struct {
    const char *word, *key, *type;
} window_table[] = {
    {"stride", "window_strides", "i64"},   {"pad", "padding", NULL},
    {"lhs_dilate", "lhs_dilation", "i64"}, {"rhs_dilate", "rhs_dilation", "i64"},
    {"reverse", "window_reversal", "i1"},
};

/* Lists that wait until all clauses are read. */
struct dot_dims {
    struct slice lhs_batch, rhs_batch, lhs_contract, rhs_contract;
    bool present;
};

static inline void put_key(struct mlir *m, const char *key)
{
    graph_dict_key(m->g, key, strlen(key));
}

static inline void put_text(struct mlir *m, const char *text)
{
    graph_dict_text(m->g, text, strlen(text));
}

/* Writes "[1, 0]" as "array<i64 : 1, 0>". */
static bool put_array(struct mlir *m, const char *key, const char *type, struct slice list)
{
    slice_trim(&list);
    if (slice_len(list) < 2 || list.at[0] != '[' || list.end[-1] != ']')
        return false;
    list.at++;
    list.end--;
    slice_trim(&list);
    put_key(m, key);
    put_text(m, "array<");
    put_text(m, type);
    if (list.at < list.end) {
        put_text(m, " : ");
        mlir_attr(m, list, 0);
    }
    put_text(m, ">");
    return true;
}

static bool put_precision(struct mlir *m, struct slice list)
{
    slice_trim(&list);
    if (slice_len(list) < 2 || list.at[0] != '[' || list.end[-1] != ']')
        return false;
    list.at++;
    list.end--;
    put_key(m, "precision_config");
    put_text(m, "[");
    for (bool more = false; slice_skip(&list), list.at < list.end; more = true) {
        struct slice word = slice_word(&list);
        if (word.at == word.end)
            return false;
        put_text(m, more ? ", #stablehlo<precision " : "#stablehlo<precision ");
        graph_dict_text(m->g, word.at, slice_len(word));
        put_text(m, ">");
        if (!slice_take(&list, ',') && list.at < list.end)
            return false;
    }
    put_text(m, "]");
    return true;
}

/* Reads "e5m10". */
static bool put_format(struct mlir *m, struct slice word)
{
    unsigned exponent, mantissa;
    char text[32], tail;
    slice_trim(&word);
    if (slice_len(word) >= sizeof text)
        return false;
    memcpy(text, word.at, slice_len(word));
    text[slice_len(word)] = '\0';
    if (sscanf(text, "e%9um%9u%c", &exponent, &mantissa, &tail) != 2)
        return false;
    put_key(m, "exponent_bits");
    graph_dict_text(m->g, text, (size_t)snprintf(text, sizeof text, "%u : i32", exponent));
    put_key(m, "mantissa_bits");
    graph_dict_text(m->g, text, (size_t)snprintf(text, sizeof text, "%u : i32", mantissa));
    return true;
}

/* Returns the ']' of the list that begins at s.at. */
static const char *list_close(struct slice s)
{
    const char *p = s.at + 1;
    while (p < s.end && (slice_is_plain(*p) || *p == ',' || *p == ' '))
        p++;
    return p < s.end && *p == ']' ? p : slice_close(s);
}

/* Reads "[0] x [1]". */
static bool dims_pair(struct slice text, struct slice *lhs, struct slice *rhs)
{
    slice_skip(&text);
    const char *close = text.at < text.end && *text.at == '[' ? list_close(text) : text.end;
    if (close >= text.end)
        return false;
    *lhs = (struct slice){text.at + 1, close};
    text.at = close + 1;
    if (!slice_take_word(&text, "x"))
        return false;
    slice_skip(&text);
    close = text.at < text.end && *text.at == '[' ? list_close(text) : text.end;
    if (close >= text.end)
        return false;
    *rhs = (struct slice){text.at + 1, close};
    slice_trim(lhs);
    slice_trim(rhs);
    return true;
}

static void put_dims(struct mlir *m, const char *name, struct slice list, bool *more)
{
    if (list.at == list.end)
        return;
    put_text(m, *more ? ", " : "");
    put_text(m, name);
    put_text(m, " = [");
    mlir_attr(m, list, 0);
    put_text(m, "]");
    *more = true;
}

static void put_dot(struct mlir *m, const struct dot_dims *d)
{
    bool more = false;
    put_key(m, "dot_dimension_numbers");
    put_text(m, "#stablehlo.dot<");
    put_dims(m, "lhs_batching_dimensions", d->lhs_batch, &more);
    put_dims(m, "rhs_batching_dimensions", d->rhs_batch, &more);
    put_dims(m, "lhs_contracting_dimensions", d->lhs_contract, &more);
    put_dims(m, "rhs_contracting_dimensions", d->rhs_contract, &more);
    put_text(m, ">");
}

/* Writes padding, "[[1, 1], [0, 0]]", as a constant with one pair for each dimension. */
static bool put_padding(struct mlir *m, struct slice list)
{
    char type[48];
    size_t pairs = 0;
    for (const char *p = list.at; p < list.end; p++)
        pairs += *p == '[';
    if (!pairs)
        return false;
    pairs--;
    int n = snprintf(type, sizeof type, "tensor<%zux2xi64>", pairs);
    put_key(m, "padding");
    return mlir_dense_typed(m, list, (struct slice){type, type + n});
}

static bool put_window(struct mlir *m, struct slice braces)
{
    slice_trim(&braces);
    if (slice_len(braces) < 2 || braces.at[0] != '{' || braces.end[-1] != '}')
        return false;
    struct slice s = {braces.at + 1, braces.end - 1};
    while (slice_skip(&s), s.at < s.end) {
        struct slice word = slice_word(&s);
        if (!slice_take(&s, '='))
            return false;
        struct slice value = {s.at, slice_find(s, ',')};
        s.at = value.end;
        slice_take(&s, ',');
        size_t i = 0, n = sizeof window_table / sizeof *window_table;
        while (i < n && !slice_is(word, window_table[i].word))
            i++;
        if (i == n)
            return false;
        slice_trim(&value);
        if (!(window_table[i].type ? put_array(m, window_table[i].key, window_table[i].type, value)
                                   : put_padding(m, value)))
            return false;
    }
    return true;
}

static bool put_clause(struct mlir *m, const struct clause *c, struct slice value,
                       struct dot_dims *dot)
{
    slice_trim(&value);
    switch (c->kind) {
    case CLAUSE_ARRAY: return put_array(m, c->key, "i64", value);
    case CLAUSE_PRECISION: return put_precision(m, value);
    case CLAUSE_FORMAT: return put_format(m, value);
    case CLAUSE_WINDOW: return put_window(m, value);
    case CLAUSE_BATCH: return dot->present = dims_pair(value, &dot->lhs_batch, &dot->rhs_batch);
    case CLAUSE_CONTRACT:
        return dot->present = dims_pair(value, &dot->lhs_contract, &dot->rhs_contract);
    case CLAUSE_I64:
        put_key(m, c->key);
        mlir_attr(m, value, 0);
        put_text(m, " : i64");
        return true;
    case CLAUSE_ENUM:
        put_key(m, c->key);
        put_text(m, "#stablehlo<");
        put_text(m, c->extra);
        put_text(m, " ");
        mlir_attr(m, value, 0);
        put_text(m, ">");
        return true;
    case CLAUSE_CONV:
        put_key(m, c->key);
        put_text(m, "#stablehlo.conv<");
        mlir_attr(m, value, 0);
        put_text(m, ">");
        return true;
    case CLAUSE_PREFIX:
        put_key(m, c->key);
        put_text(m, c->extra);
        mlir_attr(m, value, 0);
        return true;
    case CLAUSE_VALUE: put_key(m, c->key); return mlir_attr(m, value, 0);
    }
    return false;
}

static const char *const slice_keys[] = {"start_indices", "limit_indices", "strides"};

/* Reads "[0:1, 2:8:2]": start, end and step of each dimension. */
static bool put_slice(struct mlir *m, struct slice list)
{
    for (size_t part = 0; part < 3; part++) {
        struct slice s = list;
        put_key(m, slice_keys[part]);
        put_text(m, "array<i64");
        for (bool more = false; slice_skip(&s), s.at < s.end; more = true) {
            struct slice number = {"1", &"1"[1]}; /* the step, if it is not there */
            size_t i = 0;
            for (; i < 3 && (!i || slice_take(&s, ':')); i++) {
                struct slice at = slice_word(&s);
                number = i == part ? at : number;
                if (at.at == at.end)
                    return false;
            }
            if (i < 2 || (!slice_take(&s, ',') && s.at < s.end))
                return false;
            put_text(m, more ? ", " : " : ");
            graph_dict_text(m->g, number.at, slice_len(number));
        }
        put_text(m, ">");
    }
    return true;
}

/* Finds a clause. `op`: an operation's name without its dialect. */
static const struct clause *clause_find(struct slice op, struct slice word)
{
    for (size_t i = 0; i < sizeof clause_table / sizeof *clause_table; i++) {
        const struct clause *c = &clause_table[i];
        if (c->op_len == slice_len(op) && c->word_len == slice_len(word) &&
            bytes_equal(c->op, op.at, c->op_len) && bytes_equal(c->word, word.at, c->word_len))
            return c;
    }
    return NULL;
}

static struct slice name_in_dialect(const struct opinfo *info)
{
    struct slice name = {info->name, info->name + info->name_len};
    const char *dot = memchr(name.at, '.', info->name_len);
    return (struct slice){dot ? dot + 1 : name.at, name.end};
}

/* Returns the end of a clause's value: the first ',' outside of brackets. The loop skips lists
 * first, because most values are like "[0, 1] x [0, 1]". */
static const char *value_end(struct slice s)
{
    while (s.at < s.end && (*s.at == ' ' || *s.at == 'x' || *s.at == '[')) {
        if (*s.at == '[')
            s.at = list_close(s);
        if (s.at == s.end)
            break;
        s.at++;
    }
    return slice_find(s, ',');
}

/* Reads a clause without a name: slices, an element of a tuple, a sharding, a type of comparison. */
static bool put_bare(struct mlir *m, struct slice *s, const struct opinfo *info)
{
    struct slice name = {info->name, info->name + info->name_len};
    struct slice value = {s->at, slice_find(*s, ',')};
    if (memchr(value.at, '{', slice_len(value))) /* a dictionary needs no ',' before it */
        value.end = slice_find(value, '{');
    s->at = value.end;
    slice_trim(&value);
    bool brackets = slice_len(value) > 1 && value.at[0] == '[' && value.end[-1] == ']';
    struct slice inner = {value.at + 1, value.end - 1};
    if (slice_is(name, "stablehlo.slice") && brackets)
        return put_slice(m, inner);
    if (slice_is(name, "stablehlo.get_tuple_element") && brackets) {
        put_key(m, "index");
        mlir_attr(m, inner, 0);
        put_text(m, " : i32");
        return true;
    }
    if (slice_is(name, "sdy.sharding_constraint") && value.at < value.end && *value.at == '<') {
        put_key(m, "sharding");
        put_text(m, "#sdy.sharding");
        return mlir_attr(m, value, ATTR_AXES);
    }
    if (info->syntax == SYNTAX_COMPARE) {
        struct slice ahead = value, word = slice_word(&ahead);
        if (ahead.at != value.end || word.at == word.end)
            return false;
        put_key(m, "compare_type");
        put_text(m, "#stablehlo<comparison_type ");
        graph_dict_text(m->g, word.at, slice_len(word));
        put_text(m, ">");
        return true;
    }
    return false;
}

bool mlir_clauses(struct mlir *m, struct slice s, const struct opinfo *info)
{
    struct dot_dims dot = {0};
    struct slice op = name_in_dialect(info);
    while (slice_take(&s, ',') || (slice_skip(&s), s.at < s.end)) {
        slice_skip(&s);
        if (s.at < s.end && *s.at == '{') {
            const char *close = slice_close(s);
            if (close >= s.end)
                return false;
            if (!mlir_dict_entries(m, (struct slice){s.at + 1, close}, info))
                return false;
            s.at = close + 1;
            continue;
        }
        struct slice ahead = s, word = slice_word(&ahead);
        if (word.at == word.end || !slice_take(&ahead, '=')) {
            if (!put_bare(m, &s, info))
                return false;
            continue;
        }
        const struct clause *c = clause_find(op, word);
        struct slice value = {ahead.at, value_end(ahead)};
        const char *dict = value.end; /* a dictionary needs no ',' before it */
        if (memchr(ahead.at, '{', slice_len(ahead)))
            dict = slice_find(ahead, '{');
        slice_skip(&ahead);
        if (dict < value.end)
            value.end = dict == ahead.at ? slice_close(ahead) + 1 : dict;
        if (value.end > s.end)
            return false;
        s.at = value.end;
        if (!c || !put_clause(m, c, value, &dot))
            return false;
    }
    if (dot.present)
        put_dot(m, &dot);
    return mlir_ok(m);
}
