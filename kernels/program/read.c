/* SPDX-License-Identifier: Apache-2.0 */
/*
 * read.c - reads a program from the canonical text of a module (KEYS.md, section 2), which keygen writes
 * for text and for bytecode. It has one statement a line:
 *
 *     func public @#0(%0 : tensor<2xf32>) -> (tensor<2xf32>) {
 *       %1 = stablehlo.add %0, %0 : tensor<2xf32>            an operation
 *       stablehlo.while %1 (                                 one with blocks
 *         ^0 (%2 : tensor<2xf32>)                            the head of a block
 *         ...
 *         | ^0 (%5 : tensor<2xf32>)                          ... of the next one
 *         ...
 *       ) : tensor<2xf32> = %9                               its end
 *       func.return %9
 *     }
 *     module {...}
 *     name @#0 main
 *
 * Everything that the compiler does not know is refused: operations, element types and attributes.
 * Keygen has checked the grammar and the scopes of values; this file checks again all that it indexes by.
 *
 * Thread: any; no state. Memory: the canonical text and some tables, freed at the end.
 */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/program/check.h"
#include "kernels/program/gather.h"
#include "kernels/program/lower.h"
#include "kernels/program/program.h"
#include "keygen/canon/canon.h"

#define ATTRS_MAX 16
#define ADVICE "the framework's own compiler goes on"
#define DOT "stablehlo.dot" /* a product without dimension numbers: OP_DOT with others */

struct attr {
    struct view key, value;
    bool used;
};

struct stmt {                  /* a line of an operation, or of its end */
    uint32_t first, n_results; /* numbers of values in the text */
    bool has_results;
    struct view name;
    struct attr attrs[ATTRS_MAX];
    uint32_t n_attrs;
    bool opens;
};

struct open {       /* a loop or a choice whose blocks are being read */
    uint32_t op;    /* of a loop: in program.ops */
    uint32_t block; /* the current one */
    bool chooses;
    /* of a choice */
    uint32_t selector, which; /* values: case's index, or if's condition; if this branch is taken */
    uint32_t outside;         /* numbers in the text below it are from outside */
    uint32_t n, n_results;    /* branches, results of each */
    uint32_t results;         /* in read.chosen: of all branches */
    bool returned;
};

struct read {
    struct program *p;
    struct err *e;
    const char *at, *end; /* the rest of the text; `end` is the end of the current line */
    const char *text_end;
    uint32_t line, op_line; /* the current one; that on which its operation begins */
    int code;
    bool failed;               /* a VECTOR had no memory */
    VECTOR(uint32_t) values;   /* of the function: by number in the text, the program's value */
    VECTOR(uint32_t) operands; /* of the statement: the program's values */
    VECTOR(uint32_t) types;    /* of the statement's results, or of a block's arguments */
    VECTOR(int64_t) ints;
    VECTOR(uint32_t) by_symbol; /* by number in the text: the function, or NONE */
    struct stmt s;
    struct open open[PROGRAM_DEPTH_MAX];
    uint32_t depth;
    uint32_t function, block; /* being read; NONE */
    uint32_t region; /* numbers in the text below it are from outside of the region that is read */
    VECTOR(uint32_t) chosen;  /* results of open choices' branches */
    VECTOR(uint32_t) guarded; /* loops inside of branches: their trips must be known */
};

__attribute__((format(printf, 3, 4))) static bool fail(struct read *r, int code, const char *format,
                                                       ...)
{
    char text[sizeof r->e->text];
    va_list args;
    if (r->code)
        return false;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (r->failed || r->p->failed) /* the text is not to blame */
        r->code = err_set(r->e, WARM_ENOMEM, "a program");
    else
        r->code = err_set(r->e, code, "%s", text);
    if (r->e)
        r->e->line = r->line;
    return false;
}

/* Fails because the text is not what keygen writes. */
static bool strange(struct read *r)
{
    return fail(r, WARM_EMALFORMED, "a statement of unknown syntax, or whose types do not fit");
}

static bool lacks(struct read *r, struct view what, const char *of)
{
    int n = what.len < 80 ? (int)what.len : 80;
    return fail(r, WARM_EUNSUPPORTED, "%.*s: %s: " ADVICE, n, (const char *)what.data, of);
}

/* ---- the line ---- */

/* Moves to the next line, behind its indentation. False at the end of the text. */
static bool next_line(struct read *r)
{
    if (r->line)
        r->at = r->end < r->text_end ? r->end + 1 : r->text_end;
    if (r->at >= r->text_end)
        return false;
    const char *end = memchr(r->at, '\n', (size_t)(r->text_end - r->at));
    r->end = end ? end : r->text_end;
    r->line++;
    while (r->at < r->end && *r->at == ' ')
        r->at++;
    return true;
}

/* Takes this text if the rest of the line begins with it. */
static bool take(struct read *r, const char *text)
{
    size_t len = strlen(text);
    if ((size_t)(r->end - r->at) < len || memcmp(r->at, text, len) != 0)
        return false;
    r->at += len;
    return true;
}

/* Takes a number. */
static bool take_number(struct read *r, int64_t *out)
{
    bool minus = take(r, "-");
    const char *first = r->at;
    int64_t n = 0;
    for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++)
        if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, *r->at - '0', &n))
            return fail(r, WARM_ETOO_BIG, "a number of more than 63 bits");
    *out = minus ? -n : n;
    return r->at > first || strange(r);
}

static bool take_u32(struct read *r, uint32_t *out)
{
    int64_t n;
    if (!take_number(r, &n))
        return false;
    *out = (uint32_t)n;
    return (n >= 0 && n < VECTOR_MAX) || strange(r);
}

static struct view take_word(struct read *r)
{
    const char *first = r->at;
    while (r->at < r->end && *r->at != ' ' && *r->at != ',' && *r->at != '>' && *r->at != ')')
        r->at++;
    return (struct view){first, (size_t)(r->at - first)};
}

/* Takes a type, and appends its number to `types`. */
static bool take_type(struct read *r)
{
    struct view whole = {r->at, 0};
    struct tensor t = {.rank = 0};
    if (!take(r, "tensor<"))
        return lacks(r, take_word(r), "the type is not a tensor");
    for (;;) {
        if (r->at < r->end && *r->at == '?')
            return fail(r, WARM_EUNSUPPORTED, "a dynamic shape: " ADVICE);
        if (r->at >= r->end || *r->at < '0' || *r->at > '9')
            break;
        if (t.rank == PROGRAM_RANK_MAX)
            return fail(r, WARM_EUNSUPPORTED, "a tensor of more than %d dimensions: " ADVICE,
                        PROGRAM_RANK_MAX);
        if (!take_number(r, &t.dims[t.rank++]))
            return false;
        if (!take(r, "x"))
            return strange(r);
    }
    struct view elem = take_word(r);
    for (int i = 0; i < ELEM_N; i++) {
        if (!view_is(elem, program_elem_name((enum elem)i)))
            continue;
        uint32_t type;
        struct err why = {0};
        t.elem = (enum elem)i;
        if (!take(r, ">"))
            break;
        int rc = program_type(r->p, &t, &type, &why);
        if (rc)
            return fail(r, rc, "%s", why.text);
        PUSH(r, r->types, type);
        return true;
    }
    r->at = elem.data;
    for (int depth = 1; r->at < r->end; r->at++)
        if ((depth += (*r->at == '<') - (*r->at == '>')) == 0)
            break;
    whole.len = (size_t)(r->at - (const char *)whole.data) + (r->at < r->end);
    return lacks(r, whole, "elements that the compiler lacks");
}

/* Returns a value as the innermost branch sees it. A branch that is not taken runs on zeros, and passes no
 * gradient on: 0 times infinity would be no number. */
static uint32_t seen_by_branch(struct read *r, uint32_t number)
{
    for (uint32_t i = r->region ? 0 : r->depth; i-- > 0;) {
        const struct open *o = &r->open[i];
        if (!o->chooses || number >= o->outside)
            continue;
        struct err why = {0};
        struct lower l = {.p = r->p, .e = &why, .line = r->line};
        uint32_t value = lower_gate(&l, o->which, r->values.at[number]);
        if (l.code)
            fail(r, l.code, "%s", why.text);
        return value;
    }
    return r->values.at[number];
}

/* Takes "%4" of a value that was defined, and appends it to `operands`. */
static bool take_operand(struct read *r)
{
    uint32_t number;
    if (!take(r, "%") || !take_u32(r, &number))
        return strange(r);
    if (number >= r->values.n || r->values.at[number] == PROGRAM_NONE)
        return strange(r);
    if (number < r->region)
        return fail(r, WARM_EUNSUPPORTED,
                    "a reducer or a comparison that uses a value from outside: " ADVICE);
    uint32_t value = seen_by_branch(r, number);
    PUSH(r, r->operands, value);
    return !r->code;
}

static bool take_operands(struct read *r)
{
    r->operands.n = 0;
    if (r->at >= r->end || *r->at != '%')
        return true;
    do
        if (!take_operand(r))
            return false;
    while (take(r, ", "));
    return true;
}

/* Takes "%4, %5": the numbers of new values. */
static bool take_results(struct read *r)
{
    struct stmt *s = &r->s;
    s->has_results = true;
    for (s->n_results = 0; s->n_results == 0 || take(r, ", "); s->n_results++) {
        uint32_t number;
        if (!take(r, "%") || !take_u32(r, &number))
            return strange(r);
        if (s->n_results == 0)
            s->first = number;
        else if (number != s->first + s->n_results)
            return strange(r);
    }
    return true;
}

/* Returns the end of a value of a dictionary: a ',' or '}' outside of brackets and strings. */
static const char *value_end(const char *at, const char *end)
{
    int depth = 0;
    for (bool quoted = false; at < end; at++) {
        if (quoted) {
            at += *at == '\\' && at + 1 < end;
            quoted = *at != '"';
        } else if (*at == '"') {
            quoted = true;
        } else if (strchr("([{<", *at)) {
            depth++;
        } else if (depth == 0 && (*at == ',' || *at == '}')) {
            break;
        } else if (*at == '-' && at + 1 < end && at[1] == '>') {
            at++; /* an arrow */
        } else if (strchr(")]}>", *at)) {
            depth--;
        }
    }
    return at;
}

/* Takes a dictionary, if there is one. */
static bool take_dict(struct read *r)
{
    struct stmt *s = &r->s;
    s->n_attrs = 0;
    if (!take(r, "{"))
        return true;
    while (!take(r, "}")) {
        struct attr a = {.key = {r->at, 0}};
        if (s->n_attrs == ATTRS_MAX)
            return fail(r, WARM_EUNSUPPORTED, "more than %d attributes: " ADVICE, ATTRS_MAX);
        while (r->at < r->end && *r->at != ' ' && *r->at != ',' && *r->at != '}')
            r->at++;
        a.key.len = (size_t)(r->at - (const char *)a.key.data);
        if (take(r, " = ")) {
            a.value.data = r->at;
            r->at = value_end(r->at, r->end);
            a.value.len = (size_t)(r->at - (const char *)a.value.data);
        }
        s->attrs[s->n_attrs++] = a;
        if (!take(r, ", ") && (r->at >= r->end || *r->at != '}'))
            return strange(r);
    }
    return true;
}

/* Takes the dictionary and the types at the end of an operation. */
static bool take_tail(struct read *r)
{
    r->types.n = 0;
    if (take(r, " {")) {
        r->at--;
        if (!take_dict(r))
            return false;
    }
    if (take(r, " : "))
        do
            if (!take_type(r))
                return false;
        while (take(r, ", "));
    return true;
}

/* Reads the current line as a statement. */
static bool read_stmt(struct read *r)
{
    struct stmt *s = &r->s;
    *s = (struct stmt){.first = 0};
    if (r->at < r->end && *r->at == '%' && (!take_results(r) || !take(r, " = ")))
        return strange(r);
    s->name = take_word(r);
    r->operands.n = 0;
    if (take(r, " %")) {
        r->at--;
        if (!take_operands(r))
            return false;
    }
    if (take(r, " (") && r->at == r->end) {
        s->opens = true;
        return true;
    }
    return take_tail(r) && (r->at == r->end || strange(r));
}

/* ---- attributes ---- */

/* Begins to read the value of an attribute, at r->at; finish with attr_end. False if there is none. */
static bool attr_begin(struct read *r, const char *key, const char **out_end)
{
    for (uint32_t i = 0; i < r->s.n_attrs; i++) {
        struct attr *a = &r->s.attrs[i];
        if (!view_is(a->key, key) || !a->value.data)
            continue;
        a->used = true;
        *out_end = r->end;
        r->at = a->value.data;
        r->end = r->at + a->value.len;
        return true;
    }
    return false;
}

/* Ends it: the whole value must have been read. The line is at its end then. */
static bool attr_end(struct read *r, const char *end)
{
    bool whole = r->at == r->end;
    r->at = r->end = end;
    return whole;
}

static bool lacks_attr(struct read *r, const char *key)
{
    return fail(r, WARM_EUNSUPPORTED,
                "%.*s: attribute %s is missing or of an unknown form: " ADVICE, (int)r->s.name.len,
                (const char *)r->s.name.data, key);
}

/* Takes numbers up to `close`. Returns how many there are in *n. */
static bool take_numbers(struct read *r, const char *close, uint32_t *n)
{
    for (*n = 0; !take(r, close); ++*n) {
        int64_t number;
        if ((*n && !take(r, ", ")) || !take_number(r, &number))
            return false;
        PUSH(r, r->ints, number);
    }
    return true;
}

/* Appends the numbers of "array<i64 : 1, 2>" to `ints`. */
static bool attr_array(struct read *r, const char *key)
{
    const char *end;
    uint32_t n;
    if (!attr_begin(r, key, &end))
        return lacks_attr(r, key);
    bool ok =
        take(r, "array<i64") && (take(r, ">") || (take(r, " : ") && take_numbers(r, ">", &n)));
    return (attr_end(r, end) && ok) || lacks_attr(r, key);
}

/* Appends the number of "1 : i64" to `ints`. */
static bool attr_number(struct read *r, const char *key)
{
    const char *end;
    int64_t n = 0;
    if (!attr_begin(r, key, &end))
        return lacks_attr(r, key);
    bool ok = take_number(r, &n) && take(r, " : i64");
    PUSH(r, r->ints, n);
    return (attr_end(r, end) && ok) || lacks_attr(r, key);
}

static bool attr_compare(struct read *r)
{
    static const char *const DIRECTIONS[] = {"EQ", "NE", "GE", "GT", "LE", "LT"};
    static const char *const TYPES[] = {[KIND_FLOAT] = "FLOAT",
                                        [KIND_SIGNED] = "SIGNED",
                                        [KIND_UNSIGNED] = "UNSIGNED",
                                        [KIND_TRUTH] = "UNSIGNED"};
    const char *end;
    bool ok = false;
    if (!attr_begin(r, "comparison_direction", &end))
        return lacks_attr(r, "comparison_direction");
    if (take(r, "#stablehlo<comparison_direction ")) {
        struct view word = take_word(r);
        for (int64_t i = 0; i < 6; i++) {
            if (view_is(word, DIRECTIONS[i])) {
                PUSH(r, r->ints, i);
                ok = take(r, ">");
            }
        }
    }
    PUSH(r, r->ints, 0);
    if (!attr_end(r, end) || !ok)
        return lacks_attr(r, "comparison_direction");
    if (!attr_begin(r, "compare_type", &end))
        return true; /* the operands' own comparison */
    ok = take(r, "#stablehlo<comparison_type ");
    struct view word = take_word(r);
    if (view_is(word, "TOTALORDER") && !r->failed) {
        r->ints.at[r->ints.n - 1] = 1;
        ok = ok && take(r, ">");
        return (attr_end(r, end) && ok) || lacks_attr(r, "compare_type");
    }
    ok = ok && r->operands.n &&
         view_is(word, TYPES[program_elem_kind(program_tensor(r->p, r->operands.at[0])->elem)]) &&
         take(r, ">");
    return (attr_end(r, end) && ok) || lacks_attr(r, "compare_type");
}

/* Appends the numbers of a product of matrices or vectors, stablehlo.dot: the last dimension of the left one
 * with the first of the right one. */
static bool ints_of_dot(struct read *r)
{
    const struct tensor *left = r->operands.n ? program_tensor(r->p, r->operands.at[0]) : NULL;
    for (uint32_t i = 0; i < r->s.n_attrs; i++)
        r->s.attrs[i].used |= view_is(r->s.attrs[i].key, "precision_config");
    PUSH(r, r->ints, 0);
    PUSH(r, r->ints, 1);
    PUSH(r, r->ints, left && left->rank ? left->rank - 1 : 0);
    PUSH(r, r->ints, 0);
    return !r->failed || fail(r, WARM_ENOMEM, "a product");
}

static bool attr_dot(struct read *r)
{
    static const char *const LISTS[] = {
        "lhs_batching_dimensions = [", "rhs_batching_dimensions = [",
        "lhs_contracting_dimensions = [", "rhs_contracting_dimensions = ["};
    const char *end;
    uint32_t n[4] = {0}, first = r->ints.n;
    PUSH(r, r->ints, 0);
    PUSH(r, r->ints, 0);
    if (!attr_begin(r, "dot_dimension_numbers", &end))
        return lacks_attr(r, "dot_dimension_numbers");
    bool ok = take(r, "#stablehlo.dot<");
    for (int i = 0; ok && i < 4; i++) {
        if (take(r, LISTS[i]))
            ok =
                take_numbers(r, "]", &n[i]) && (take(r, ", ") || (r->at < r->end && *r->at == '>'));
    }
    ok = ok && take(r, ">") && n[0] == n[1] && n[2] == n[3];
    if (!attr_end(r, end) || !ok || r->failed)
        return lacks_attr(r, "dot_dimension_numbers");
    r->ints.at[first] = n[0];
    r->ints.at[first + 1] = n[2];
    /* It asks for the least precision that will do; f32 throughout is at least that. */
    for (uint32_t i = 0; i < r->s.n_attrs; i++)
        r->s.attrs[i].used |= view_is(r->s.attrs[i].key, "precision_config");
    return true;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Appends the elements of "dense<0000803F> : tensor<f32>" to the program's data. */
static bool attr_value(struct read *r)
{
    const char *end;
    struct program *p = r->p;
    if (r->types.n != 1 || !attr_begin(r, "value", &end))
        return lacks_attr(r, "value");
    uint32_t type = r->types.at[0], size = program_elem_size(p->types.at[type].elem),
             first = p->data.n;
    int64_t n = p->types.at[type].n;
    bool ok = take(r, "dense<");
    uint8_t most = p->types.at[type].elem == ELEM_I1 ? 1 : UINT8_MAX; /* of a byte */
    while (ok && r->end - r->at >= 2 && hex_digit(r->at[0]) >= 0 && hex_digit(r->at[1]) >= 0 &&
           !p->failed) {
        PUSH(p, p->data, (uint8_t)(hex_digit(r->at[0]) * 16 + hex_digit(r->at[1])));
        r->at += 2;
    }
    for (uint32_t i = first; i < p->data.n; i++)
        ok &= p->data.at[i] <= most;
    ok = ok && take(r, "> : ") && take_type(r) && r->types.at[1] == type;
    r->types.n = 1;
    if (p->failed)
        return fail(r, WARM_ENOMEM, "a constant");
    uint32_t len = p->data.n - first;
    bool splat = len == size;
    if (!attr_end(r, end) || !ok || (!splat && (uint64_t)len != (uint64_t)n * size))
        return lacks_attr(r, "value");
    PUSH(r, r->ints, first);
    PUSH(r, r->ints, splat && n != 0);
    return true;
}

/* Fills `ints` from the attributes. */
static bool read_attrs(struct read *r, enum op op)
{
    switch (op) {
    case OP_COMPARE: return attr_compare(r);
    case OP_CONSTANT: return attr_value(r);
    case OP_IOTA: return attr_number(r, "iota_dimension");
    case OP_BROADCAST: return attr_array(r, "broadcast_dimensions");
    case OP_TRANSPOSE: return attr_array(r, "permutation");
    case OP_SLICE:
        return attr_array(r, "start_indices") && attr_array(r, "limit_indices") &&
               attr_array(r, "strides");
    case OP_PAD:
        return attr_array(r, "edge_padding_low") && attr_array(r, "edge_padding_high") &&
               attr_array(r, "interior_padding");
    case OP_CONCATENATE: return attr_number(r, "dimension");
    case OP_DYNAMIC_SLICE: return attr_array(r, "slice_sizes");
    case OP_REVERSE: return attr_array(r, "dimensions");
    case OP_GATHER:
    case OP_SCATTER:
    case OP_CHAIN:
    case OP_UNWINDOW:
    case OP_WINDOW: return attr_array(r, "ints");
    case OP_DOT: return view_is(r->s.name, DOT) ? ints_of_dot(r) : attr_dot(r);
    default: return true;
    }
}

/* Attributes that JAX, Reactant and torch-xla print and that change no result: hints about memory, findings of
 * an analysis, Enzyme's hints for loops, XLA's layouts, and the mark of a single device. `value` is the value
 * that is ignored; NULL: any. */
static const struct {
    const char *key, *value;
} HINTS[] = {{"tf.aliasing_output", NULL},
             {"jax.uses_shape_polymorphism", "false"},
             {"jax.buffer_donor", NULL},
             {"reactant.donated", NULL},
             {"enzymexla.memory_effects", NULL},
             {"enzymexla.bounds", NULL},
             {"enzymexla.finite", NULL},
             {"enzymexla.no_nan", NULL},
             {"enzymexla.non_negative", NULL},
             {"enzymexla.symmetric_matrix", NULL},
             {"enzymexla.disable_min_cut", NULL},
             {"enzyme.disable_mincut", NULL},
             {"enzyme.enable_checkpointing", NULL},
             {"enzyme.binomial_checkpointing", NULL},
             {"enzyme.checkpoint_period", NULL},
             {"result_layout", NULL},
             {"xla_shape", NULL},
             {"transform.with_named_sequence", NULL},
             {"mhlo.num_partitions", "1 : i32"},
             {"mhlo.num_partitions", "1 : i64"},
             {"mhlo.num_replicas", "1 : i32"},
             {"mhlo.num_replicas", "1 : i64"},
             {"mhlo.cross_program_prefetches", "[]"},
             {"mhlo.dynamic_parameter_bindings", "[]"},
             {"mhlo.input_output_alias", "[]"},
             {"mhlo.is_dynamic", "false"},
             {"mhlo.use_auto_spmd_partitioning", "false"}};

static bool is_hint(const struct attr *a)
{
    for (size_t i = 0; i < sizeof HINTS / sizeof *HINTS; i++)
        if (view_is(a->key, HINTS[i].key) && (!HINTS[i].value || view_is(a->value, HINTS[i].value)))
            return true;
    return false;
}

/* True if every attribute was used, or changes nothing; else fails. */
static bool attrs_are_known(struct read *r)
{
    for (uint32_t i = 0; i < r->s.n_attrs; i++)
        if (!r->s.attrs[i].used && !is_hint(&r->s.attrs[i]))
            return lacks(r, r->s.attrs[i].key, "an attribute that the compiler lacks");
    return true;
}

/* ---- operations ---- */

/* Finds an operation by its full name. */
static bool op_of_name(struct view name, enum op *out)
{
    static const char dialect[] = "stablehlo.";
    const size_t skip = sizeof dialect - 1;
    if (view_is(name, "func.call")) {
        *out = OP_CALL;
        return true;
    }
    if (view_is(name, DOT)) {
        *out = OP_DOT;
        return true;
    }
    struct view rest = name;
    if (name.len > skip && memcmp(name.data, dialect, skip) == 0)
        rest = (struct view){(const char *)name.data + skip, name.len - skip};
    for (int i = 0; i < OP_CALL; i++) {
        const char *its = program_op_name((enum op)i);
        if (view_is(rest, its) && (rest.len < name.len) == !strchr(its, '.')) {
            *out = (enum op)i;
            return true;
        }
    }
    return false;
}

/* Gives the next number in the text to a value. */
static void define(struct read *r, uint32_t value) { PUSH(r, r->values, value); }

static bool results_are_next(struct read *r, uint32_t n)
{
    return (r->s.has_results && r->s.first == r->values.n && r->s.n_results == n &&
            r->types.n == n) ||
           strange(r);
}

/* Adds the operation in `operands`, `ints` and `types`. */
static bool add(struct read *r, enum op op)
{
    struct err why = {0};
    uint32_t value;
    if (!attrs_are_known(r) || !results_are_next(r, 1) || r->failed)
        return fail(r, WARM_ENOMEM, "an operation");
    int rc = program_add(r->p,
                         &(struct new_op){op, r->op_line, r->operands.at, r->operands.n, r->ints.at,
                                          r->ints.n, r->types.at[0]},
                         &value, &why);
    if (rc)
        return fail(r, rc, "%s", why.text);
    define(r, value);
    return true;
}

/* Reads "^0 (%1 : type, %2 : type)" of a block, up to its types. */
static bool read_head(struct read *r, const char *begins)
{
    r->types.n = 0;
    if (!take(r, begins))
        return strange(r);
    if (!take(r, ")"))
        do {
            uint32_t number;
            if (!take(r, "%") || !take_u32(r, &number) || number != r->values.n + r->types.n ||
                !take(r, " : ") || !take_type(r))
                return strange(r);
        } while (!take(r, ")") && take(r, ", "));
    return r->at == r->end || strange(r);
}

/* Gives the next numbers in the text to n values. Their types must be those of the text. */
static bool define_results(struct read *r, const uint32_t *values, uint32_t n)
{
    if (!results_are_next(r, n))
        return false;
    for (uint32_t i = 0; i < n; i++) {
        if (r->p->values.at[values[i]] != r->types.at[i])
            return fail(r, WARM_EINVALID,
                        "%.*s: the result's type does not follow from the operands",
                        (int)r->s.name.len, (const char *)r->s.name.data);
        define(r, values[i]);
    }
    return !r->failed || fail(r, WARM_ENOMEM, "results");
}

static struct lower lower_of(struct read *r, struct err *why)
{
    return (struct lower){.p = r->p, .e = why, .line = r->op_line};
}

/* Ends an operation that was written with others. */
static bool lowered(struct read *r, const struct lower *l, const uint32_t *values, uint32_t n)
{
    if (l->code)
        return fail(r, l->code, "%s", l->e->text);
    return attrs_are_known(r) && define_results(r, values, n);
}

/* ---- regions: functions of scalars ---- */

/* Reads a statement of a region. */
static bool read_scalar_op(struct read *r)
{
    enum op op;
    if (!read_stmt(r) || (!op_of_name(r->s.name, &op) &&
                          !lacks(r, r->s.name, "an operation that the compiler lacks")))
        return false;
    bool scalar = r->types.n == 1 && r->p->types.at[r->types.at[0]].rank == 0 && !r->s.opens;
    if (scalar && (op == OP_BROADCAST || op == OP_RESHAPE) && r->operands.n == 1) {
        r->ints.n = 0;
        for (uint32_t i = 0; i < r->s.n_attrs; i++)
            r->s.attrs[i].used = true;
        return attrs_are_known(r) && define_results(r, r->operands.at, 1);
    }
    if (!scalar || (op > OP_CONVERT && op != OP_CONSTANT))
        return lacks(r, r->s.name,
                     "an operation that the compiler lacks in a reducer or comparison");
    r->ints.n = 0;
    return read_attrs(r, op) && add(r, op);
}

/* Reads a region, whose head is the current line, as a side function. */
static bool read_region(struct read *r, const char *begins, uint32_t *out_function)
{
    struct program *p = r->p;
    uint32_t first = 0, number = r->values.n;
    struct err why = {0};
    if (!p->side && !(p->side = program_new()))
        return fail(r, WARM_ENOMEM, "a region");
    r->p = p->side;
    r->region = number;
    bool ok = read_head(r, begins), returned = false;
    int rc = ok ? program_func_begin(r->p, "side", r->types.at, r->types.n, &first, &why) : 0;
    for (uint32_t i = 0; ok && i < r->types.n; i++)
        define(r, first + i);
    while (ok && rc == 0 && !returned && (ok = next_line(r))) {
        returned = take(r, "stablehlo.return ");
        ok = returned ? take_operands(r) && r->at == r->end : read_scalar_op(r);
    }
    if (ok && rc == 0)
        rc = program_func_end(r->p, r->operands.at, r->operands.n, &why);
    *out_function = r->p->functions.n - 1;
    r->p = p;
    r->region = 0;
    for (uint32_t i = number; i < r->values.n; i++)
        r->values.at[i] = PROGRAM_NONE;
    if (rc)
        return fail(r, rc, "%s", why.text);
    return (ok && next_line(r)) || strange(r);
}

/* Returns the operation that a side function is, on its two arguments; SELECT if it is its second argument. */
static enum op op_of_region(const struct program *side, uint32_t function,
                            enum direction *direction)
{
    const struct block *b = &side->blocks.at[side->functions.at[function].block];
    uint32_t result = b->n_results == 1 ? side->operands.at[b->results] : PROGRAM_NONE;
    if (b->n_args == 2 && b->first == b->end && result == b->args + 1)
        return OP_SELECT;
    if (b->n_args != 2 || b->end != b->first + 1 || side->ops.at[b->first].results != result ||
        side->ops.at[b->first].n_operands != 2)
        return OP_N;
    const struct operation *op = &side->ops.at[b->first];
    const uint32_t *operands = side->operands.at + op->operands;
    bool forth = operands[0] == b->args && operands[1] == b->args + 1,
         back = operands[1] == b->args && operands[0] == b->args + 1;
    if (op->op == OP_COMPARE && forth)
        *direction = (enum direction)side->ints.at[op->ints];
    bool turns = op->op == OP_ADD || op->op == OP_MULTIPLY || op->op == OP_MAXIMUM ||
                 op->op == OP_MINIMUM || op->op == OP_AND || op->op == OP_OR;
    return (turns && (forth || back)) || (op->op == OP_COMPARE && forth) ? op->op : OP_N;
}

/* Reads the line behind the last region. `operands` are those at the opening. */
static bool region_end(struct read *r, struct view name)
{
    r->s = (struct stmt){.name = name};
    r->ints.n = 0;
    return (take(r, ")") && take_tail(r) && take(r, " = ") && take_results(r) && r->at == r->end) ||
           strange(r);
}

/* Reads numbers of an array into `out`; all 1 if there is none. */
static bool take_array(struct read *r, const char *key, int64_t *out, uint32_t n)
{
    const char *end;
    for (uint32_t i = 0; i < n; i++)
        out[i] = 1;
    if (!attr_begin(r, key, &end))
        return true;
    attr_end(r, end);
    r->ints.n = 0;
    if (!attr_array(r, key) || r->ints.n != n)
        return lacks_attr(r, key);
    memcpy(out, r->ints.at, n * sizeof *out);
    return true;
}

/* Reads "dense<...> : tensor<nx2xi64>" of padding; zeros if there is none. */
static bool take_padding(struct read *r, int64_t *low, int64_t *high, uint32_t n)
{
    const char *end;
    uint64_t numbers[2 * PROGRAM_RANK_MAX] = {0};
    uint32_t digits = 0;
    for (uint32_t i = 0; i < n; i++)
        low[i] = high[i] = 0;
    if (!attr_begin(r, "padding", &end))
        return true;
    bool ok = take(r, "dense<");
    for (; ok && r->at < r->end && hex_digit(*r->at) >= 0 && digits < 32 * n; digits++) {
        uint32_t byte = digits / 2; /* little-endian; the high digit comes first */
        numbers[byte / 8] |= (uint64_t)hex_digit(*r->at++)
                             << (8 * (byte % 8) + (digits % 2 ? 0 : 4));
    }
    ok = ok && take(r, "> : tensor<") && (digits == 16 || digits == 32 * n || n == 0);
    r->at = r->end;
    if (!attr_end(r, end) || !ok)
        return lacks_attr(r, "padding");
    for (uint32_t i = 0; i < n; i++) {
        low[i] = (int64_t)numbers[digits == 16 ? 0 : 2 * i];
        high[i] = (int64_t)numbers[digits == 16 ? 0 : 2 * i + 1];
    }
    return true;
}

/* Reads windows over each dimension of a tensor. */
static bool take_windows(struct read *r, uint32_t rank, struct windows *w)
{
    bool ok = rank <= PROGRAM_RANK_MAX && take_array(r, "window_dimensions", w->size, rank) &&
              take_array(r, "window_strides", w->stride, rank) &&
              take_array(r, "window_dilations", w->dilation, rank) &&
              take_array(r, "base_dilations", w->base, rank) &&
              take_padding(r, w->low, w->high, rank);
    for (uint32_t d = 0; ok && d < rank; d++)
        if (w->size[d] < 1 || w->base[d] < 1)
            return fail(r, WARM_EINVALID, "a window or a dilation of less than 1");
    return ok;
}

static bool end_reduce(struct read *r, const uint32_t *operands, uint32_t n, uint32_t function,
                       bool windowed)
{
    enum direction none;
    enum op op = op_of_region(r->p->side, function, &none);
    bool simple = n == 1 && op < OP_COMPARE;
    uint32_t values[SIDE_MAX];
    struct err why = {0};
    struct lower l = lower_of(r, &why);
    if (windowed) {
        struct windows w;
        if (!take_windows(r, program_tensor(r->p, operands[0])->rank, &w))
            return false;
        lower_reduce_window(&l, operands, operands + n, n, op, simple ? PROGRAM_NONE : function, &w,
                            values);
        return lowered(r, &l, values, n);
    }
    if (simple)
        PUSH(r, r->ints, op);
    for (uint32_t i = 0; !simple && i < 2; i++)
        PUSH(r, r->ints, i ? 0 : function);
    if (!attr_array(r, "dimensions"))
        return false;
    for (uint32_t i = 0; i < n && !r->failed; i++) {
        if (!simple)
            r->ints.at[1] = i;
        values[i] = lower_add(&l, simple ? OP_REDUCE : OP_REDUCE_MANY, operands, 2 * n, r->ints.at,
                              r->ints.n, PROGRAM_NONE);
    }
    return lowered(r, &l, values, n);
}

/* Appends the list "key = [1, 2]" of dimension numbers to ints, if it is next. */
static bool take_list(struct read *r, const char *key, uint32_t *n)
{
    *n = 0;
    if (!take(r, key))
        return true;
    bool ok = take(r, " = [") && take_numbers(r, "]", n);
    take(r, ", ");
    return ok;
}

/* Reads dimension numbers in the form of gather.h, without the sizes of a slice. */
static bool take_gather(struct read *r, const char *key, const char *begins,
                        const char *const names[5])
{
    const char *end;
    uint32_t n[5], first = r->ints.n;
    int64_t vector = 0;
    for (int i = 0; i < GATHER_FIXED; i++)
        PUSH(r, r->ints, 0);
    if (!attr_begin(r, key, &end))
        return lacks_attr(r, key);
    bool ok = take(r, begins);
    for (int i = 0; ok && i < 5; i++)
        ok = take_list(r, names[i], &n[i]);
    if (ok && take(r, "index_vector_dim = "))
        ok = take_number(r, &vector);
    ok = ok && take(r, ">");
    if (!attr_end(r, end) || !ok || r->failed || n[2] != n[3])
        return lacks_attr(r, key);
    int64_t fixed[GATHER_FIXED] = {n[0], n[1], n[2], n[4], vector, 0};
    const char *flag_end;
    if (attr_begin(r, "unique_indices", &flag_end)) {
        fixed[5] = take(r, "true");
        r->at = r->end;
        attr_end(r, flag_end);
    }
    memcpy(r->ints.at + first, fixed, sizeof fixed);
    for (uint32_t i = 0; i < r->s.n_attrs; i++)
        r->s.attrs[i].used |= view_is(r->s.attrs[i].key, "indices_are_sorted");
    return true;
}

static bool read_gather(struct read *r)
{
    static const char *const NAMES[] = {"offset_dims", "collapsed_slice_dims",
                                        "operand_batching_dims", "start_indices_batching_dims",
                                        "start_index_map"};
    r->ints.n = 0;
    return take_gather(r, "dimension_numbers", "#stablehlo.gather<", NAMES) &&
           attr_array(r, "slice_sizes") && add(r, OP_GATHER);
}

static bool end_scatter(struct read *r, const uint32_t *operands, uint32_t function)
{
    static const char *const NAMES[] = {"update_window_dims", "inserted_window_dims",
                                        "input_batching_dims", "scatter_indices_batching_dims",
                                        "scatter_dims_to_operand_dims"};
    enum direction none;
    enum op op = op_of_region(r->p->side, function, &none);
    const struct tensor *x = program_tensor(r->p, operands[0]),
                        *updates = program_tensor(r->p, operands[2]);
    struct err why = {0};
    struct lower l = lower_of(r, &why);
    if (op == OP_N || op == OP_COMPARE)
        return lacks(r, r->s.name, "its update is not one operation on its two arguments");
    PUSH(r, r->ints, op);
    if (!take_gather(r, "scatter_dimension_numbers", "#stablehlo.scatter<", NAMES))
        return false;
    const int64_t *fixed = r->ints.at + 1, *window = fixed + GATHER_FIXED;
    int64_t sizes[PROGRAM_RANK_MAX], used = 0;
    for (uint32_t d = 0; d < x->rank; d++) {
        bool gone = false;
        for (int64_t i = 0; i < fixed[1] + fixed[2]; i++)
            gone |= window[fixed[0] + i] == d;
        bool fits = used < fixed[0] && window[used] >= 0 && window[used] < updates->rank;
        sizes[d] = gone || !fits ? 1 : updates->dims[window[used++]];
    }
    for (uint32_t d = 0, rank = x->rank; d < rank; d++)
        PUSH(r, r->ints, sizes[d]);
    if (r->failed)
        return fail(r, WARM_ENOMEM, "a scatter");
    uint32_t value = lower_add(&l, OP_SCATTER, operands, 3, r->ints.at, r->ints.n, PROGRAM_NONE);
    return lowered(r, &l, &value, 1);
}

static bool end_sort(struct read *r, const uint32_t *operands, uint32_t n, uint32_t function)
{
    uint32_t values[SIDE_MAX];
    struct err why = {0};
    struct lower l = lower_of(r, &why);
    int64_t dim = (int64_t)program_tensor(r->p, operands[0])->rank - 1;
    const char *end;
    for (uint32_t i = 0; i < r->s.n_attrs; i++) /* ours is stable in any case */
        r->s.attrs[i].used |= view_is(r->s.attrs[i].key, "is_stable");
    if (attr_begin(r, "dimension", &end)) {
        attr_end(r, end);
        if (!attr_number(r, "dimension"))
            return false;
        dim = r->ints.at[0] < 0 ? r->ints.at[0] + dim + 1 : r->ints.at[0];
    }
    lower_sort(&l, operands, n, function, dim, values);
    return lowered(r, &l, values, n);
}

static bool end_select(struct read *r, const uint32_t *operands, uint32_t select, uint32_t scatter)
{
    enum direction wins = DIRECTION_EQ, none;
    struct windows w;
    struct err why = {0};
    struct lower l = lower_of(r, &why);
    if (op_of_region(r->p->side, select, &wins) != OP_COMPARE ||
        (wins != DIRECTION_GE && wins != DIRECTION_LE) ||
        op_of_region(r->p->side, scatter, &none) != OP_ADD)
        return lacks(r, r->s.name, "it does not add to the largest or the least of each window");
    if (!take_windows(r, program_tensor(r->p, operands[0])->rank, &w))
        return false;
    uint32_t value = lower_select_and_scatter(&l, operands[0], operands[1], operands[2], wins, &w);
    return lowered(r, &l, &value, 1);
}

/* Reads an operation with regions of scalars, from its opening to its end. */
static bool read_with_regions(struct read *r)
{
    struct view name = r->s.name;
    uint32_t operands[2 * SIDE_MAX + 1], n = r->operands.n, functions[2] = {0, 0};
    bool reduces = view_is(name, "stablehlo.reduce"),
         windowed = view_is(name, "stablehlo.reduce_window"),
         selects = view_is(name, "stablehlo.select_and_scatter"),
         sorts = view_is(name, "stablehlo.sort"),
         own = view_is(name, "warm.rank") || view_is(name, "warm.reduce");
    if (!r->s.opens || n == 0 || n > (sorts ? SIDE_MAX : 2 * SIDE_MAX) ||
        ((reduces || windowed) && n % 2))
        return lacks(r, name, "a form that the compiler lacks");
    if (!reduces && !windowed && !sorts && !own && n != 3)
        return lacks(r, name, "it is of several tensors");
    memcpy(operands, r->operands.at, n * sizeof *operands);
    for (int i = 0; i < 1 + selects; i++)
        if ((i == 0 && !next_line(r)) || !read_region(r, i ? "| ^0 (" : "^0 (", &functions[i]))
            return strange(r);
    if (!region_end(r, name))
        return false;
    if (own) { /* the function, then the other ints */
        PUSH(r, r->ints, functions[0]);
        r->operands.n = 0;
        for (uint32_t i = 0; i < n; i++)
            PUSH(r, r->operands, operands[i]);
        return attr_array(r, "ints") &&
               add(r, view_is(name, "warm.rank") ? OP_RANK : OP_REDUCE_MANY);
    }
    return reduces || windowed ? end_reduce(r, operands, n / 2, functions[0], windowed)
           : sorts             ? end_sort(r, operands, n, functions[0])
           : selects           ? end_select(r, operands, functions[0], functions[1])
                               : end_scatter(r, operands, functions[0]);
}

/* ---- other operations that are written with simpler ones ---- */

/* Reads "[b, 0, 1, f]": by role, the dimension of its letter or number. */
static bool take_roles(struct read *r, const char *letters, int64_t *out, uint32_t n)
{
    if (!take(r, "["))
        return false;
    for (uint32_t d = 0; d < n; d++) {
        int64_t role;
        if (d && !take(r, ", "))
            return false;
        if (r->at < r->end && (*r->at == letters[0] || *r->at == letters[1]))
            role = *r->at++ == letters[1];
        else if (!take_number(r, &role) || (role += 2) < 2 || role >= n)
            return false;
        out[role] = d;
    }
    return take(r, "]");
}

static bool read_convolution(struct read *r)
{
    struct convolution c = {.feature_groups = 1, .batch_groups = 1};
    const char *end, *const groups[] = {"feature_group_count", "batch_group_count"};
    struct err why = {0};
    struct lower l = lower_of(r, &why);
    if (r->operands.n != 2 || r->types.n != 1)
        return strange(r);
    uint32_t rank = program_tensor(r->p, r->operands.at[0])->rank;
    if (rank < 2 || rank != program_tensor(r->p, r->operands.at[1])->rank ||
        rank != r->p->types.at[r->types.at[0]].rank || !attr_begin(r, "dimension_numbers", &end))
        return lacks_attr(r, "dimension_numbers");
    c.n = rank - 2;
    bool ok = take(r, "#stablehlo.conv<") && take_roles(r, "bf", c.lhs, rank) && take(r, "x") &&
              take_roles(r, "io", c.rhs, rank) && take(r, " -> ") &&
              take_roles(r, "bf", c.out, rank) && take(r, ">");
    if (!attr_end(r, end) || !ok)
        return lacks_attr(r, "dimension_numbers");
    for (int i = 0; i < 2; i++) {
        r->ints.n = 0;
        if (!attr_number(r, groups[i]))
            return false;
        *(i ? &c.batch_groups : &c.feature_groups) = r->ints.at[0];
    }
    if (!take_array(r, "window_strides", c.w.stride, c.n) ||
        !take_array(r, "lhs_dilation", c.w.base, c.n) ||
        !take_array(r, "rhs_dilation", c.w.dilation, c.n) ||
        !take_padding(r, c.w.low, c.w.high, c.n))
        return false;
    if (attr_begin(r, "window_reversal", &end)) {
        bool whole = take(r, "array<i1");
        for (uint32_t i = 0; whole && i < c.n; i++)
            whole = take(r, i ? ", " : " : ") &&
                    ((c.reversed[i] = take(r, "true")) || take(r, "false"));
        whole = whole && take(r, ">");
        if (!attr_end(r, end) || !whole)
            return lacks_attr(r, "window_reversal");
    }
    for (uint32_t i = 0; i < r->s.n_attrs; i++)
        r->s.attrs[i].used |= view_is(r->s.attrs[i].key, "precision_config");
    uint32_t type = r->types.at[0],
             value = lower_convolution(&l, r->operands.at[0], r->operands.at[1], &c, type);
    return lowered(r, &l, &value, 1);
}

static bool read_top_k(struct read *r)
{
    uint32_t values[2];
    struct err why = {0};
    struct lower l = lower_of(r, &why);
    r->ints.n = 0;
    if (r->operands.n != 1 || !attr_number(r, "k"))
        return false;
    lower_top_k(&l, r->operands.at[0], r->ints.at[0], values);
    return lowered(r, &l, values, 2);
}

/* Reads an operation that hands its operands on: a barrier of the optimizer, or a mark. */
static bool read_same(struct read *r)
{
    for (uint32_t i = 0; i < r->s.n_attrs; i++)
        r->s.attrs[i].used = true;
    return define_results(r, r->operands.at, r->operands.n);
}

/* Reads a custom call that only marks a value, for one device. */
static bool read_custom_call(struct read *r)
{
    static const char *const MARKS[] = {"\"Sharding\"", "\"SPMDFullToShardShape\"",
                                        "\"SPMDShardToFullShape\"", "\"annotate_device_placement\"",
                                        "\"LayoutConstraint\""};
    const char *end;
    struct view name = r->s.name;
    if (attr_begin(r, "call_target_name", &end)) {
        struct view target = {r->at, (size_t)(r->end - r->at)};
        r->at = r->end;
        attr_end(r, end);
        for (size_t i = 0; i < sizeof MARKS / sizeof *MARKS; i++)
            if (view_is(target, MARKS[i]) && r->operands.n == 1)
                return read_same(r);
        return fail(r, WARM_EUNSUPPORTED,
                    "%.*s of %.*s: an operation that the compiler lacks: " ADVICE, (int)name.len,
                    (const char *)name.data, target.len < 60 ? (int)target.len : 60,
                    (const char *)target.data);
    }
    return lacks(r, name, "an operation that the compiler lacks");
}

static bool read_random(struct read *r)
{
    struct err why = {0};
    struct lower l = lower_of(r, &why);
    uint32_t values[2] = {0, 0};
    const char *end;
    if (r->operands.n != 1 || r->types.n != 2 || !attr_begin(r, "rng_algorithm", &end))
        return lacks_attr(r, "rng_algorithm");
    bool ok = take(r, "#stablehlo<rng_algorithm "), threefry = ok && take(r, "THREE_FRY");
    /* XLA's default is Philox, on CPUs and GPUs */
    ok = ok && (threefry || take(r, "PHILOX") || take(r, "DEFAULT")) && take(r, ">");
    if (!attr_end(r, end) || !ok)
        return lacks_attr(r, "rng_algorithm");
    lower_random(&l, r->operands.at[0], !threefry, r->types.at[1], values);
    return lowered(r, &l, values, 2);
}

/* Reads a function of floating-point numbers that is written with others. */
static bool read_function(struct read *r)
{
    struct err why = {0};
    struct lower l = lower_of(r, &why);
    bool next = view_is(r->s.name, "chlo.next_after");
    const uint32_t *x = r->operands.at;
    if (r->operands.n != 1u + next || !program_is_float(program_tensor(r->p, x[0])->elem) ||
        r->p->values.at[x[0]] != r->p->values.at[x[next]])
        return strange(r);
    uint32_t value = next ? lower_next_after(&l, x[0], x[1]) : lower_digamma(&l, x[0]);
    return lowered(r, &l, &value, 1);
}

static bool read_bitcast(struct read *r)
{
    struct err why = {0};
    struct lower l = lower_of(r, &why);
    if (r->operands.n != 1 || r->types.n != 1)
        return strange(r);
    uint32_t value = lower_bitcast(&l, r->operands.at[0], r->types.at[0]);
    return lowered(r, &l, &value, 1);
}

/* Rounds to f16 or bf16, which other precisions have no type for. */
static bool read_reduce_precision(struct read *r)
{
    struct err why = {0};
    struct lower l = lower_of(r, &why);
    int64_t bits[2] = {0, 0};
    const char *end, *const keys[] = {"exponent_bits", "mantissa_bits"};
    for (int i = 0; i < 2; i++) {
        if (!attr_begin(r, keys[i], &end) || !take_number(r, &bits[i]))
            return lacks_attr(r, keys[i]);
        r->at = r->end;
        attr_end(r, end);
    }
    enum elem to = bits[0] == 5 && bits[1] == 10   ? ELEM_F16
                   : bits[0] == 8 && bits[1] == 7  ? ELEM_BF16
                   : bits[0] == 8 && bits[1] == 23 ? ELEM_F32
                                                   : ELEM_N;
    if (to == ELEM_N || r->operands.n != 1 || r->types.n != 1)
        return lacks(r, r->s.name, "a precision that is not that of f16, bf16 or f32");
    struct tensor t = *program_tensor(r->p, r->operands.at[0]);
    uint32_t x = r->operands.at[0], type = 0, back = r->types.at[0];
    t.elem = to;
    l.code = program_type(r->p, &t, &type, &why);
    x = lower_add(&l, OP_CONVERT, &x, 1, NULL, 0, type);
    x = lower_add(&l, OP_CONVERT, &x, 1, NULL, 0, back);
    return lowered(r, &l, &x, 1);
}

/* ---- blocks ---- */

/* Adds a value for each type of the line, and gives these values the line's names. */
static void define_values(struct read *r)
{
    struct program *p = r->p;
    for (uint32_t i = 0; i < r->types.n; i++) {
        define(r, p->values.n);
        PUSH(p, p->values, r->types.at[i]);
    }
}

/* Begins a block whose head is the current line. */
static bool block_begin(struct read *r, const char *begins)
{
    struct program *p = r->p;
    if (!read_head(r, begins))
        return false;
    r->block = p->blocks.n;
    PUSH(p, p->blocks,
         (struct block){.args = p->values.n, .n_args = r->types.n, .first = p->ops.n});
    define_values(r);
    return !p->failed || fail(r, WARM_ENOMEM, "a block");
}

/* Ends the block at a return. */
static bool block_return(struct read *r)
{
    struct program *p = r->p;
    struct block *b = &p->blocks.at[r->block];
    b->end = p->ops.n;
    b->results = p->operands.n;
    b->n_results = r->operands.n;
    for (uint32_t i = 0; i < r->operands.n; i++)
        PUSH(p, p->operands, r->operands.at[i]);
    return !p->failed || fail(r, WARM_ENOMEM, "a block");
}

/* True if the current block has ended with a return. */
static bool returned(const struct read *r) { return r->p->blocks.at[r->block].end == r->p->ops.n; }

/* ---- choices ---- */

/* Begins a branch: its operations are the open block's own. Adds the value that tells if it is taken. */
static bool branch_begin(struct read *r, struct open *o, bool of_if, uint32_t n_branches)
{
    struct err why = {0};
    struct lower l = {.p = r->p, .e = &why, .line = r->line};
    uint32_t which = o->selector, type = r->p->values.at[o->selector];
    if (of_if && o->n > 0)
        which = lower_add(&l, OP_NOT, &which, 1, NULL, 0, PROGRAM_NONE);
    if (!of_if) { /* the last one is taken for other numbers, too */
        bool last = o->n + 1 == n_branches;
        uint32_t number = 0;
        for (uint32_t i = last ? 0 : o->n; i < (last ? n_branches - 1 : o->n + 1); i++) {
            l.code = l.code ? l.code : program_splat(r->p, type, i, &number, &why);
            uint32_t differs =
                lower_add(&l, OP_COMPARE, (uint32_t[]){o->selector, number}, 2,
                          (int64_t[]){last ? DIRECTION_NE : DIRECTION_EQ, 0}, 2, PROGRAM_NONE);
            which = which == o->selector ? differs
                                         : lower_add(&l, OP_AND, (uint32_t[]){which, differs}, 2,
                                                     NULL, 0, PROGRAM_NONE);
        }
        if (which == o->selector) { /* the only branch */
            struct tensor t = {.elem = ELEM_I1};
            l.code = l.code ? l.code : program_type(r->p, &t, &type, &why);
            l.code = l.code ? l.code : program_splat(r->p, type, 1, &which, &why);
        }
    }
    for (uint32_t i = r->depth - 1; i-- > 0;)
        if (r->open[i].chooses) {
            which = lower_add(&l, OP_AND, (uint32_t[]){which, r->open[i].which}, 2, NULL, 0,
                              PROGRAM_NONE);
            break;
        }
    o->which = which;
    o->returned = false;
    return l.code == 0 || fail(r, l.code, "%s", why.text);
}

/* Counts the branches of the choice that begins at the current line. */
static uint32_t count_branches(const struct read *r)
{
    uint32_t n = 1, depth = 0;
    for (const char *line = r->end; line < r->text_end;) {
        line += *line == '\n';
        const char *end = memchr(line, '\n', (size_t)(r->text_end - line));
        end = end ? end : r->text_end;
        while (line < end && *line == ' ')
            line++;
        if (*line == ')' && depth-- == 0)
            break;
        n += *line == '|' && depth == 0;
        depth += end > line && end[-1] == '(';
        line = end;
    }
    return n;
}

/* Begins a case or an if at its opening, and its first branch at the next line. */
static bool choice_begin(struct read *r, bool of_if)
{
    if (!r->s.opens || r->operands.n != 1 || r->depth == PROGRAM_DEPTH_MAX)
        return strange(r);
    struct open *o = &r->open[r->depth++];
    *o = (struct open){.chooses = true,
                       .block = r->block,
                       .selector = r->operands.at[0],
                       .outside = r->values.n,
                       .results = r->chosen.n,
                       .op = of_if ? 2 : count_branches(r)};
    const struct tensor *t = program_tensor(r->p, o->selector);
    if (t->rank || t->elem != (of_if ? ELEM_I1 : ELEM_I32))
        return strange(r);
    return next_line(r) && take(r, "^0 ()") && branch_begin(r, o, of_if, o->op);
}

static bool branch_return(struct read *r)
{
    struct open *o = &r->open[r->depth - 1];
    if (o->returned || (o->n && r->operands.n != o->n_results))
        return strange(r);
    o->n_results = r->operands.n;
    o->n++;
    o->returned = true;
    for (uint32_t i = 0; i < r->operands.n; i++)
        PUSH(r, r->chosen, r->operands.at[i]);
    return true;
}

/* Ends a choice at its last line: its results are those of the branch that is taken. */
static bool choice_end(struct read *r)
{
    struct open o = r->open[--r->depth];
    struct err why = {0};
    struct lower l = {.p = r->p, .e = &why, .line = r->line};
    uint32_t n = o.n_results, *values = malloc(((size_t)n + 1) * sizeof *values), number = 0;
    r->s = (struct stmt){.name = view_of_text("stablehlo.case")};
    bool ok = values && o.returned && o.n == o.op && take_tail(r) &&
              (n == 0 || (take(r, " = ") && take_results(r))) && r->at == r->end;
    if (!values || r->failed) {
        free(values);
        return fail(r, WARM_ENOMEM, "a choice");
    }
    const struct tensor *t = program_tensor(r->p, o.selector);
    bool of_if = t->elem == ELEM_I1;
    uint32_t type = r->p->values.at[o.selector];
    for (uint32_t i = 0; ok && i < n; i++)
        values[i] = r->chosen.at[o.results + (o.n - 1) * n + i];
    for (uint32_t k = o.n - 1; ok && k-- > 0;) {
        uint32_t taken = o.selector;
        if (!of_if) {
            l.code = l.code ? l.code : program_splat(r->p, type, k, &number, &why);
            taken = lower_add(&l, OP_COMPARE, (uint32_t[]){o.selector, number}, 2,
                              (int64_t[]){DIRECTION_EQ, 0}, 2, PROGRAM_NONE);
        }
        for (uint32_t i = 0; i < n; i++)
            values[i] = lower_add(
                &l, OP_SELECT, (uint32_t[]){taken, r->chosen.at[o.results + k * n + i], values[i]},
                3, NULL, 0, PROGRAM_NONE);
    }
    r->chosen.n = o.results;
    r->block = o.block;
    for (uint32_t i = o.outside; i < r->values.n; i++)
        r->values.at[i] = PROGRAM_NONE;
    ok = ok ? n == 0 || lowered(r, &l, values, n) : strange(r);
    free(values);
    return ok;
}

/* Begins a loop at its opening, and its first block at the next line. */
static bool while_begin(struct read *r)
{
    struct program *p = r->p;
    if (!r->s.opens || r->operands.n == 0)
        return strange(r);
    if (r->depth == PROGRAM_DEPTH_MAX)
        return fail(r, WARM_EUNSUPPORTED, "while: loops nested more than %d deep: " ADVICE,
                    PROGRAM_DEPTH_MAX);
    struct operation op = {.op = OP_WHILE,
                           .line = r->line,
                           .operands = p->operands.n,
                           .n_operands = r->operands.n,
                           .ints = p->ints.n,
                           .n_ints = 2};
    for (uint32_t i = 0; i < r->operands.n; i++)
        PUSH(p, p->operands, r->operands.at[i]);
    PUSH(p, p->ints, p->blocks.n);
    PUSH(p, p->ints, 0);
    for (uint32_t i = 0; i < r->depth; i++)
        if (r->open[i].chooses) {
            PUSH(r, r->guarded, p->ops.n);
            break;
        }
    r->open[r->depth++] = (struct open){.op = p->ops.n, .block = r->block};
    PUSH(p, p->ops, op);
    return (!p->failed || fail(r, WARM_ENOMEM, "a loop")) && next_line(r) && block_begin(r, "^0 (");
}

/* True if the types of n values, at `values`, are those of the loop's operands. */
static bool carries(const struct program *p, const struct operation *op, const uint32_t *values,
                    uint32_t n)
{
    bool same = n == op->n_operands;
    for (uint32_t i = 0; same && i < n; i++)
        same = p->values.at[values[i]] == p->values.at[p->operands.at[op->operands + i]];
    return same;
}

static bool block_fits(const struct program *p, const struct operation *op, const struct block *b)
{
    bool same = b->n_args == op->n_operands;
    for (uint32_t i = 0; same && i < b->n_args; i++)
        same = p->values.at[b->args + i] == p->values.at[p->operands.at[op->operands + i]];
    return same;
}

/* Ends a loop at its last line. */
static bool while_end(struct read *r)
{
    struct program *p = r->p;
    struct open o = r->open[--r->depth];
    struct operation *op = &p->ops.at[o.op];
    if (!returned(r))
        return strange(r);
    r->s = (struct stmt){.name = view_of_text("stablehlo.while")};
    if (!take_tail(r) || !take(r, " = ") || !take_results(r) || r->at != r->end ||
        !attrs_are_known(r) || !results_are_next(r, op->n_operands))
        return strange(r);
    struct block *cond = &p->blocks.at[p->ints.at[op->ints]],
                 *body = &p->blocks.at[p->ints.at[op->ints + 1]];
    bool fits = cond != body && block_fits(p, op, cond) && block_fits(p, op, body) &&
                cond->n_results == 1 &&
                carries(p, op, p->operands.at + body->results, body->n_results);
    if (fits) {
        const struct tensor *t = program_tensor(p, p->operands.at[cond->results]);
        fits = t->elem == ELEM_I1 && t->rank == 0;
    }
    for (uint32_t i = 0; fits && i < op->n_operands; i++)
        fits = r->types.at[i] == p->values.at[p->operands.at[op->operands + i]];
    if (!fits)
        return fail(r, WARM_EINVALID, "while: the types of operands, blocks and results differ");
    op->next = p->ops.n;
    op->results = p->values.n;
    op->n_results = op->n_operands;
    r->block = o.block;
    define_values(r);
    return !p->failed || fail(r, WARM_ENOMEM, "a loop");
}

/* Adds a call. Its types are checked when all functions are known. */
static bool read_call(struct read *r)
{
    struct program *p = r->p;
    const char *end;
    uint32_t symbol = 0;
    if (!attr_begin(r, "callee", &end))
        return lacks_attr(r, "callee");
    bool ok = take(r, "@#") && take_u32(r, &symbol);
    if (!attr_end(r, end) || !ok)
        return lacks_attr(r, "callee");
    if (!attrs_are_known(r) || (r->types.n && !results_are_next(r, r->types.n)))
        return false;
    struct operation op = {.op = OP_CALL,
                           .line = r->line,
                           .operands = p->operands.n,
                           .n_operands = r->operands.n,
                           .ints = p->ints.n,
                           .n_ints = 1,
                           .results = p->values.n,
                           .n_results = r->types.n,
                           .next = p->ops.n + 1};
    for (uint32_t i = 0; i < r->operands.n; i++)
        PUSH(p, p->operands, r->operands.at[i]);
    PUSH(p, p->ints, symbol);
    define_values(r);
    PUSH(p, p->ops, op);
    return !p->failed || fail(r, WARM_ENOMEM, "a call");
}

static bool read_case(struct read *r) { return choice_begin(r, false); }
static bool read_if(struct read *r) { return choice_begin(r, true); }

/* Reads a composite operation as a call of what it is composed of. */
static bool read_composite(struct read *r)
{
    for (uint32_t i = 0; i < r->s.n_attrs; i++) {
        struct attr *a = &r->s.attrs[i];
        if (view_is(a->key, "decomposition"))
            a->key = view_of_text("callee");
        else
            a->used = true;
    }
    return read_call(r);
}

/* Operations that are read in ways of their own. */
static const struct {
    const char *name;
    bool (*read)(struct read *r);
} FORMS[] = {{"stablehlo.reduce", read_with_regions},
             {"stablehlo.reduce_window", read_with_regions},
             {"stablehlo.scatter", read_with_regions},
             {"stablehlo.select_and_scatter", read_with_regions},
             {"stablehlo.sort", read_with_regions},
             {"warm.rank", read_with_regions},
             {"warm.reduce", read_with_regions},
             {"stablehlo.gather", read_gather},
             {"stablehlo.convolution", read_convolution},
             {"stablehlo.rng_bit_generator", read_random},
             {"stablehlo.bitcast_convert", read_bitcast},
             {"stablehlo.reduce_precision", read_reduce_precision},
             {"stablehlo.custom_call", read_custom_call},
             {"stablehlo.optimization_barrier", read_same},
             {"sdy.sharding_constraint", read_same},
             {"stablehlo.composite", read_composite},
             {"stablehlo.case", read_case},
             {"stablehlo.if", read_if},
             {"chlo.digamma", read_function},
             {"chlo.next_after", read_function},
             {"chlo.top_k", read_top_k}};

bool program_has_op(struct view name)
{
    enum op op;
    for (size_t i = 0; i < sizeof FORMS / sizeof *FORMS; i++)
        if (view_is(name, FORMS[i].name))
            return true;
    return view_is(name, "func.return") || view_is(name, "stablehlo.return") ||
           view_is(name, "chlo.square") || op_of_name(name, &op);
}

struct view program_line_op(struct view line)
{
    const char *at = line.data, *end = at + line.len, *equals = memmem(at, line.len, " = ", 3);
    while (at < end && *at == ' ')
        at++;
    if (at < end && *at == '%' && equals)
        at = equals + 3;
    size_t n = 0;
    while (at + n < end && (isalnum((unsigned char)at[n]) || at[n] == '_' || at[n] == '.'))
        n++;
    return (struct view){at, memchr(at, '.', n) && isalpha((unsigned char)*at) ? n : 0};
}

static bool read_op(struct read *r)
{
    enum op op;
    r->op_line = r->line;
    if (!read_stmt(r))
        return false;
    if (view_is(r->s.name, "func.return") || view_is(r->s.name, "stablehlo.return"))
        return r->depth && r->open[r->depth - 1].chooses ? branch_return(r) : block_return(r);
    if (view_is(r->s.name, "chlo.square") && r->operands.n == 1) {
        PUSH(r, r->operands, r->operands.at[0]);
        r->ints.n = 0;
        return add(r, OP_MULTIPLY);
    }
    for (size_t i = 0; i < sizeof FORMS / sizeof *FORMS; i++)
        if (view_is(r->s.name, FORMS[i].name))
            return FORMS[i].read(r) || strange(r);
    if (!op_of_name(r->s.name, &op))
        return lacks(r, r->s.name, "an operation that the compiler lacks");
    if (op == OP_WHILE)
        return while_begin(r);
    if (r->s.opens)
        return strange(r);
    if (op == OP_CALL)
        return read_call(r);
    r->ints.n = 0;
    return read_attrs(r, op) && add(r, op);
}

/* ---- functions and the module ---- */

/* Skips an argument's dictionary of hints: donation of its memory is a permission that goes unused. */
static bool skip_arg_dict(struct read *r)
{
    if (!take(r, " {"))
        return true;
    r->at--;
    return take_dict(r) && attrs_are_known(r);
}

/* Reads "func public @#0(%0 : type {dict}) -> (type {dict}) {". */
static bool func_begin(struct read *r)
{
    struct program *p = r->p;
    uint32_t symbol;
    take(r, "public ");
    if (!take(r, "@#") || !take_u32(r, &symbol) || !take(r, "("))
        return strange(r);
    r->values.n = r->types.n = 0;
    if (!take(r, ")"))
        do {
            uint32_t number;
            if (!take(r, "%") || !take_u32(r, &number) || number != r->types.n || !take(r, " : ") ||
                !take_type(r) || !skip_arg_dict(r))
                return strange(r);
        } while (!take(r, ")") && take(r, ", "));
    while (r->by_symbol.n <= symbol && !r->failed)
        PUSH(r, r->by_symbol, PROGRAM_NONE);
    if (r->failed)
        return fail(r, WARM_ENOMEM, "a function");
    if (r->by_symbol.at[symbol] != PROGRAM_NONE)
        return fail(r, WARM_EINVALID, "func.func: an earlier function has this name");
    r->function = r->by_symbol.at[symbol] = p->functions.n;
    r->block = p->blocks.n;
    PUSH(p, p->functions, (struct function){.block = r->block, .forward = PROGRAM_NONE});
    PUSH(p, p->blocks,
         (struct block){.args = p->values.n, .n_args = r->types.n, .first = p->ops.n});
    define_values(r);
    r->types.n = 0;
    if (!take(r, " -> ("))
        return strange(r);
    if (!take(r, ")"))
        do
            if (!take_type(r) || !skip_arg_dict(r))
                return false;
        while (!take(r, ")") && take(r, ", "));
    if (!take(r, " {"))
        return fail(r, WARM_EUNSUPPORTED, "a function without a body: " ADVICE);
    uint32_t types = p->operands.n;
    for (uint32_t i = 0; i < r->types.n; i++)
        PUSH(p, p->operands, r->types.at[i]);
    if (p->failed)
        return fail(r, WARM_ENOMEM, "a function");
    p->functions.at[r->function].types = types;
    p->functions.at[r->function].n_types = r->types.n;
    return r->at == r->end || strange(r);
}

static bool func_end(struct read *r)
{
    struct program *p = r->p;
    const struct function *f = &p->functions.at[r->function];
    const struct block *b = &p->blocks.at[f->block];
    bool fits = r->depth == 0 && returned(r) && b->n_results == f->n_types;
    for (uint32_t i = 0; fits && i < f->n_types; i++)
        fits = p->values.at[p->operands.at[b->results + i]] == p->operands.at[f->types + i];
    r->function = PROGRAM_NONE;
    r->s = (struct stmt){.name = view_of_text("func.func")};
    if (!fits)
        return fail(r, WARM_EINVALID, "return: the values' types are not those of the function");
    if (take(r, " {")) {
        r->at--;
        if (!take_dict(r))
            return false;
    }
    return (attrs_are_known(r) && r->at == r->end) || strange(r);
}

/* Reads the module's dictionary: one program on one device. */
static bool read_module(struct read *r)
{
    r->s = (struct stmt){.name = view_of_text("module")};
    if (take(r, " {")) {
        r->at--;
        if (!take_dict(r))
            return false;
    }
    return attrs_are_known(r);
}

/* Reads "name @#0 main". */
static bool read_name(struct read *r)
{
    uint32_t symbol;
    if (!take(r, "@#") || !take_u32(r, &symbol) || !take(r, " "))
        return strange(r);
    uint32_t f = symbol < r->by_symbol.n ? r->by_symbol.at[symbol] : PROGRAM_NONE;
    if (f == PROGRAM_NONE)
        return true; /* the name of something else */
    char *name = strndup(r->at, (size_t)(r->end - r->at));
    if (name)
        PUSH(r->p, r->p->names, name);
    if (!name || r->p->failed) {
        free(name);
        return fail(r, WARM_ENOMEM, "a name");
    }
    r->p->functions.at[f].name = name;
    return true;
}

static bool read_line(struct read *r)
{
    if (r->function == PROGRAM_NONE) {
        if (take(r, "func "))
            return func_begin(r);
        if (take(r, "module"))
            return read_module(r);
        if (take(r, "name "))
            return read_name(r);
        if (take(r, "sdy.mesh {mesh = #sdy.mesh<[]>,")) /* one device, as JAX writes it for keys */
            return true;
        struct view word = take_word(r);
        return lacks(r, word, "an operation that the compiler lacks");
    }
    if (r->depth && r->open[r->depth - 1].chooses && r->at < r->end &&
        (*r->at == '|' || *r->at == ')')) {
        struct open *o = &r->open[r->depth - 1];
        if (take(r, ")"))
            return choice_end(r);
        return (o->returned && take(r, "| ^0 ()") && r->at == r->end &&
                branch_begin(r, o, program_tensor(r->p, o->selector)->elem == ELEM_I1, o->op)) ||
               strange(r);
    }
    if (r->depth && r->at < r->end && *r->at == '|') {
        struct operation *op = &r->p->ops.at[r->open[r->depth - 1].op];
        if (r->p->ints.at[op->ints + 1] || !returned(r))
            return strange(r);
        r->p->ints.at[op->ints + 1] = r->p->blocks.n;
        return block_begin(r, "| ^0 (");
    }
    if (r->depth && take(r, ")"))
        return while_end(r);
    if (take(r, "}"))
        return func_end(r);
    if (r->at < r->end && *r->at == '^')
        return fail(r, WARM_EUNSUPPORTED, "a function of several blocks: " ADVICE);
    return read_op(r);
}

/* ---- calls ---- */

/* Replaces the symbols of calls by functions, and checks the types. */
static bool link_calls(struct read *r)
{
    struct program *p = r->p;
    bool ok = true;
    for (uint32_t i = 0; ok && i < p->ops.n; i++) {
        const struct operation *op = &p->ops.at[i];
        if (op->op != OP_CALL)
            continue;
        r->line = op->line;
        int64_t symbol = p->ints.at[op->ints];
        uint32_t callee = symbol < r->by_symbol.n ? r->by_symbol.at[symbol] : PROGRAM_NONE;
        if (callee == PROGRAM_NONE) {
            ok = fail(r, WARM_EINVALID, "call: no such function");
            break;
        }
        p->ints.at[op->ints] = callee;
        const struct function *f = &p->functions.at[callee];
        const struct block *b = &p->blocks.at[f->block];
        bool fits = b->n_args == op->n_operands && f->n_types == op->n_results;
        for (uint32_t k = 0; fits && k < b->n_args; k++)
            fits = p->values.at[b->args + k] == p->values.at[p->operands.at[op->operands + k]];
        for (uint32_t k = 0; fits && k < f->n_types; k++)
            fits = p->operands.at[f->types + k] == p->values.at[op->results + k];
        ok = fits || fail(r, WARM_EINVALID, "call: the types are not those of the function");
    }
    return ok;
}

/* Returns the line of a call that closes a circle. `left` counts, by function, the calls to functions that have
 * calls left themselves; at least one has. */
static uint32_t circle_line(const struct program *p, uint32_t *left)
{
    const uint32_t seen = UINT32_MAX;
    uint32_t f = 0, line = 0;
    while (!left[f])
        f++;
    while (left[f] != seen) {
        uint32_t i = p->blocks.at[p->functions.at[f].block].first;
        left[f] = seen;
        while (p->ops.at[i].op != OP_CALL || !left[p->ints.at[p->ops.at[i].ints]])
            i++;
        f = (uint32_t)p->ints.at[p->ops.at[i].ints];
        line = p->ops.at[i].line;
    }
    return line;
}

/* Fails if a function calls itself, directly or by others: takes away functions without calls left. */
static bool calls_end(struct read *r)
{
    struct program *p = r->p;
    uint32_t n = p->functions.n, n_ready = 0, n_calls = 0;
    uint32_t *calls =
        calloc((size_t)n + 1, sizeof *calls); /* by function: calls in it to others that are left */
    uint32_t *ready = calloc((size_t)n + 1, sizeof *ready);
    uint32_t *caller = malloc(((size_t)p->ops.n + 1) * sizeof *caller);
    uint32_t *list = malloc(((size_t)p->ops.n + 1) * sizeof *list); /* calls, linked by callee */
    uint32_t *head = malloc(((size_t)n + 1) * sizeof *head);
    bool memory = calls && ready && caller && list && head;
    for (uint32_t f = 0; memory && f < n; f++)
        head[f] = PROGRAM_NONE;
    for (uint32_t f = 0; memory && f < n; f++) {
        const struct block *b = &p->blocks.at[p->functions.at[f].block];
        for (uint32_t i = b->first; i < b->end; i++) {
            if (p->ops.at[i].op != OP_CALL)
                continue;
            uint32_t callee = (uint32_t)p->ints.at[p->ops.at[i].ints];
            caller[n_calls] = f;
            list[n_calls] = head[callee];
            head[callee] = n_calls++;
            calls[f]++;
        }
    }
    for (uint32_t f = 0; memory && f < n; f++)
        if (!calls[f])
            ready[n_ready++] = f;
    for (uint32_t i = 0; memory && i < n_ready; i++)
        for (uint32_t c = head[ready[i]]; c != PROGRAM_NONE; c = list[c])
            if (--calls[caller[c]] == 0)
                ready[n_ready++] = caller[c];
    r->line = memory && n_ready < n ? circle_line(p, calls) : 0;
    free(calls);
    free(ready);
    free(caller);
    free(list);
    free(head);
    if (!memory)
        return fail(r, WARM_ENOMEM, "calls");
    return n_ready == n ||
           fail(r, WARM_EUNSUPPORTED, "call: a function that calls itself: " ADVICE);
}

/* Fails if a loop inside of a branch might never end while the branch is not taken. */
static bool branches_end(struct read *r)
{
    struct program *p = r->p;
    uint32_t *origins = r->guarded.n ? calloc((size_t)p->values.n + 1, sizeof *origins) : NULL;
    struct counted c;
    if (r->guarded.n && !origins)
        return fail(r, WARM_ENOMEM, "loops");
    if (origins)
        program_origins(p, origins);
    for (uint32_t i = 0; i < r->guarded.n && !r->code; i++) {
        const struct operation *op = &p->ops.at[r->guarded.at[i]];
        r->line = op->line;
        if (!program_counted(p, origins, op, &c))
            fail(r, WARM_EUNSUPPORTED,
                 "while: inside of a branch its number of trips must be known: " ADVICE);
    }
    free(origins);
    return !r->code;
}

static void read_text(struct read *r)
{
    while (!r->code && next_line(r))
        if (!read_line(r))
            strange(r); /* unless the fault is known */
    if (!r->code && (r->failed || r->p->failed))
        fail(r, WARM_ENOMEM, "a program");
    if (!r->code && r->function != PROGRAM_NONE)
        strange(r);
    if (!r->code && link_calls(r) && calls_end(r))
        branches_end(r);
}

int program_read(const void *data, size_t len, struct program **out, struct err *e)
{
    struct canon_input input = {.data = data, .len = len, .kind = CANON_AUTO};
    struct canon_result result;
    struct writer text;
    input.kind = canon_detect(NULL, data, len);
    if (input.kind != CANON_MLIR && input.kind != CANON_MLIR_BYTECODE)
        return err_set(e, WARM_EUNSUPPORTED, "not MLIR text or bytecode");
    writer_init(&text, PROGRAM_TEXT_MAX);
    int rc = canon_key(&input, &result, &text, e);
    if (rc == 0 && result.exact)
        rc = err_set(e, WARM_EUNSUPPORTED, "not understood: %s", result.why_exact);
    if (rc == 0 && text.failed)
        rc = err_set(e, text.len ? WARM_ETOO_BIG : WARM_ENOMEM, "the canonical text of the graph");
    struct program *p = rc == 0 ? program_new() : NULL;
    if (rc == 0 && !p)
        rc = err_set(e, WARM_ENOMEM, "a program");
    if (rc == 0) {
        const char *at = (const char *)text.data;
        struct read r = {.p = p,
                         .e = e,
                         .at = at,
                         .end = at,
                         .text_end = at + text.len,
                         .function = PROGRAM_NONE,
                         .block = PROGRAM_NONE};
        read_text(&r);
        free(r.values.at);
        free(r.operands.at);
        free(r.types.at);
        free(r.ints.at);
        free(r.by_symbol.at);
        free(r.chosen.at);
        free(r.guarded.at);
        rc = r.code;
    }
    writer_close(&text);
    if (rc)
        program_free(p);
    else
        *out = p;
    return rc;
}
