/* SPDX-License-Identifier: Apache-2.0 */
/*
 * codegen.c - decides which values are stored, and writes a kernel for each of them. A kernel is written
 * from its stored value back to others: the element of a fused value at an index is an expression of the
 * elements of its operands at indices that follow from it.
 *
 * Thread: any; no state. Recursion: over fused operations, at most FUSED_DEPTH_MAX deep.
 */
#include "kernels/codegen/codegen.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#define FUSED_DEPTH_MAX 24
#define FUSED_OPS_MAX 48 /* operations in a kernel */
#define ZERO UINT32_MAX  /* in place of a name: the number 0 */

/* What each kernel may call. The edge cases are those of eval.c. */
static const char PRELUDE[] =
    "#pragma nv_diag_suppress 177 /* a kernel may not use all that it declares */\n"
    "static __device__ float larger(float x, float y) { return x > y || x != x ? x : y; }\n"
    "static __device__ float smaller(float x, float y) { return x < y || x != x ? x : y; }\n"
    "static __device__ float sign_of(float x) { return x > 0 ? 1.0f : x < 0 ? -1.0f : x; }\n"
    "static __device__ float of_bits(unsigned x) { union { unsigned u; float f; } b; b.u = x; "
    "return b.f; }\n"
    "static __device__ int to_whole(float x)\n"
    "{\n"
    "    return x != x ? 0 : x <= -2147483648.0f ? -2147483647 - 1 : x >= 2147483648.0f ? "
    "2147483647 : (int)x;\n"
    "}\n"
    "static __device__ int quotient(int x, int y)\n"
    "{\n"
    "    return y == 0 ? -1 : y == -1 ? (int)(0u - (unsigned)x) : x / y;\n"
    "}\n"
    "static __device__ int rest(int x, int y) { return y == 0 ? x : y == -1 ? 0 : x % y; }\n"
    "static __device__ long long within(long long x, long long most) { return x < 0 ? 0 : x > most "
    "? most : x; }\n";

static const char *const TYPES[] = {[ELEM_F32] = "float", [ELEM_I32] = "int", [ELEM_I1] = "bool"};

/* Expressions of operands a and b: on floats, on whole numbers, on truth values. */
static const struct {
    const char *f, *i, *b;
} TEXTS[OP_N] = {
    [OP_ABS] = {"fabsf(%1$s)", "(int)(%1$s < 0 ? 0u - (unsigned)%1$s : (unsigned)%1$s)", NULL},
    [OP_NEGATE] = {"-%1$s", "(int)(0u - (unsigned)%1$s)", NULL},
    [OP_SIGN] = {"sign_of(%1$s)", "(%1$s > 0) - (%1$s < 0)", NULL},
    [OP_EXP] = {"expf(%1$s)", NULL, NULL},
    [OP_EXPM1] = {"expm1f(%1$s)", NULL, NULL},
    [OP_LOG] = {"logf(%1$s)", NULL, NULL},
    [OP_LOG1P] = {"log1pf(%1$s)", NULL, NULL},
    [OP_LOGISTIC] = {"1.0f / (1.0f + expf(-%1$s))", NULL, NULL},
    [OP_TANH] = {"tanhf(%1$s)", NULL, NULL},
    [OP_SQRT] = {"sqrtf(%1$s)", NULL, NULL},
    [OP_RSQRT] = {"1.0f / sqrtf(%1$s)", NULL, NULL},
    [OP_SINE] = {"sinf(%1$s)", NULL, NULL},
    [OP_COSINE] = {"cosf(%1$s)", NULL, NULL},
    [OP_FLOOR] = {"floorf(%1$s)", NULL, NULL},
    [OP_CEIL] = {"ceilf(%1$s)", NULL, NULL},
    [OP_NOT] = {NULL, "~%1$s", "!%1$s"},
    [OP_ADD] = {"%1$s + %2$s", "(int)((unsigned)%1$s + (unsigned)%2$s)", NULL},
    [OP_SUBTRACT] = {"%1$s - %2$s", "(int)((unsigned)%1$s - (unsigned)%2$s)", NULL},
    [OP_MULTIPLY] = {"%1$s * %2$s", "(int)((unsigned)%1$s * (unsigned)%2$s)", NULL},
    [OP_DIVIDE] = {"%1$s / %2$s", "quotient(%1$s, %2$s)", NULL},
    [OP_REMAINDER] = {"fmodf(%1$s, %2$s)", "rest(%1$s, %2$s)", NULL},
    [OP_POWER] = {"powf(%1$s, %2$s)", NULL, NULL},
    [OP_MAXIMUM] = {"larger(%1$s, %2$s)", "%1$s > %2$s ? %1$s : %2$s", "%1$s || %2$s"},
    [OP_MINIMUM] = {"smaller(%1$s, %2$s)", "%1$s < %2$s ? %1$s : %2$s", "%1$s && %2$s"},
    [OP_AND] = {NULL, "%1$s & %2$s", "%1$s && %2$s"},
    [OP_OR] = {NULL, "%1$s | %2$s", "%1$s || %2$s"},
    [OP_XOR] = {NULL, "%1$s ^ %2$s", "%1$s != %2$s"},
};

struct value {
    uint32_t op;   /* that computes it; NONE: an argument */
    uint32_t uses; /* of it by operations that count */
    uint8_t depth; /* of the fused operations below it */
    uint8_t size;  /* how many they are */
    bool stored;
    bool must_store; /* a result, or an operand of a product */
};

struct index {
    uint32_t at[PROGRAM_RANK_MAX]; /* names, or ZERO */
};

struct kernel {
    uint8_t *text;
    size_t len;
    uint64_t hash;
};

struct gen {
    const struct program *p;
    struct codegen *out;
    struct value *values;
    struct writer body;    /* of the kernel being written */
    uint32_t names;        /* so far */
    VECTOR(uint32_t) args; /* values that the kernel reads */
    VECTOR(struct kernel) kernels;
    uint32_t *slots, mask; /* kernel + 1, or 0; open addressing by hash */
    bool failed;
    bool too_big; /* a grid */
};

/* ---- which values are stored ---- */

static bool is_splat(const struct program *p, const struct operation *op)
{
    return op->op == OP_CONSTANT && p->ints.at[op->ints + 1];
}

/* True for values that cost less to compute again than to load. */
static bool is_cheap(const struct gen *g, const struct operation *op)
{
    if (op->op == OP_BROADCAST) {
        uint32_t x = g->p->operands.at[op->operands], by = g->values[x].op;
        return by != PROGRAM_NONE && !g->values[x].stored && is_splat(g->p, &g->p->ops.at[by]);
    }
    return op->op == OP_IOTA || is_splat(g->p, op);
}

static void count_uses(struct gen *g, const struct block *b)
{
    const struct program *p = g->p;
    for (uint32_t i = 0; i < b->n_results; i++) {
        struct value *v = &g->values[p->operands.at[b->results + i]];
        v->must_store = true;
        v->uses++;
    }
    for (uint32_t i = b->end; i-- > b->first;) {
        const struct operation *op = &p->ops.at[i];
        if (!g->values[op->results].uses)
            continue;
        for (uint32_t k = 0; k < op->n_operands; k++) {
            struct value *v = &g->values[p->operands.at[op->operands + k]];
            v->uses++;
            v->must_store |= op->op == OP_DOT;
        }
    }
}

static void choose_stored(struct gen *g, const struct block *b)
{
    const struct program *p = g->p;
    for (uint32_t i = b->first; i < b->end; i++) {
        const struct operation *op = &p->ops.at[i];
        struct value *v = &g->values[op->results];
        uint32_t depth = 1, size = 1;
        for (uint32_t k = 0; k < op->n_operands; k++) {
            const struct value *x = &g->values[p->operands.at[op->operands + k]];
            depth = !x->stored && x->depth >= depth ? x->depth + 1u : depth;
            size += x->stored ? 0 : x->size;
            size = size < UINT8_MAX ? size : UINT8_MAX;
        }
        v->depth = (uint8_t)depth;
        v->size = (uint8_t)size;
        v->stored = v->must_store || op->op == OP_REDUCE || op->op == OP_DOT ||
                    (op->op == OP_CONSTANT && !is_splat(p, op)) || depth >= FUSED_DEPTH_MAX ||
                    size >= FUSED_OPS_MAX || (v->uses > 1 && !is_cheap(g, op));
    }
}

/* ---- statements ---- */

#define SAY(g, ...) writer_format(&(g)->body, __VA_ARGS__)

/* Writes "const TYPE tN = ", and returns N. The caller writes the rest. */
static uint32_t let(struct gen *g, const char *type)
{
    SAY(g, "    const %s t%u = ", type, g->names);
    return g->names++;
}

/* Writes an index or 0. */
static void say_index(struct gen *g, uint32_t name)
{
    if (name == ZERO)
        SAY(g, "0LL");
    else
        SAY(g, "t%u", name);
}

/* Declares the place of an index in a row-major tensor. */
static uint32_t place_of(struct gen *g, const struct tensor *t, const struct index *index)
{
    int64_t stride = 1;
    bool first = true;
    uint32_t name = let(g, "long long");
    for (uint32_t d = t->rank; d-- > 0; stride *= t->dims[d]) {
        if (index->at[d] == ZERO)
            continue;
        SAY(g, first ? "t%u * %" PRId64 "LL" : " + t%u * %" PRId64 "LL", index->at[d], stride);
        first = false;
    }
    SAY(g, first ? "0LL;\n" : ";\n");
    return name;
}

/* Declares the index of a place in a row-major tensor. */
static struct index index_of(struct gen *g, const struct tensor *t, uint32_t place)
{
    struct index index = {{0}};
    int64_t stride = 1;
    for (uint32_t d = t->rank; d-- > 0; stride *= t->dims[d]) {
        index.at[d] = ZERO;
        if (t->dims[d] == 1)
            continue;
        index.at[d] = let(g, "long long");
        SAY(g, "t%u / %" PRId64 "LL %% %" PRId64 "LL;\n", place, stride,
            t->dims[d] > 0 ? t->dims[d] : 1);
    }
    return index;
}

/* Returns the number of the kernel's argument for a stored value. */
static uint32_t arg_of(struct gen *g, uint32_t value)
{
    uint32_t i = 0;
    while (i < g->args.n && g->args.at[i] != value)
        i++;
    if (i == g->args.n)
        PUSH(g, g->args, value);
    return i;
}

static uint32_t emit(struct gen *g, uint32_t value, const struct index *index);

static const struct tensor *operand_type(const struct gen *g, const struct operation *op,
                                         uint32_t i)
{
    return program_tensor(g->p, g->p->operands.at[op->operands + i]);
}

/* Declares the element of an operand. A scalar operand has one element for all indices. */
static uint32_t emit_operand(struct gen *g, const struct operation *op, uint32_t i,
                             const struct index *index)
{
    return emit(g, g->p->operands.at[op->operands + i], index);
}

static void say_applied(struct gen *g, enum op op, enum elem elem, uint32_t x, uint32_t y)
{
    char a[16], b[16];
    const char *text = elem == ELEM_F32   ? TEXTS[op].f
                       : elem == ELEM_I32 ? TEXTS[op].i
                                          : TEXTS[op].b;
    snprintf(a, sizeof a, "t%u", x);
    snprintf(b, sizeof b, "t%u", y);
    writer_format(&g->body, text ? text : "0", a, b);
    SAY(g, ";\n");
}

/* ---- operations ---- */

static uint32_t emit_elements(struct gen *g, const struct operation *op, const struct index *index)
{
    static const char *const DIRECTIONS[] = {"==", "!=", ">=", ">", "<=", "<"};
    enum elem elem = program_tensor(g->p, op->results)->elem, from = operand_type(g, op, 0)->elem;
    uint32_t x[3] = {0}, name;
    for (uint32_t i = 0; i < op->n_operands; i++)
        x[i] = emit_operand(g, op, i, index);
    if (op->op == OP_CLAMP) {
        uint32_t low = let(g, TYPES[elem]);
        say_applied(g, OP_MAXIMUM, elem, x[0], x[1]);
        name = let(g, TYPES[elem]);
        say_applied(g, OP_MINIMUM, elem, low, x[2]);
        return name;
    }
    name = let(g, TYPES[elem]);
    if (op->op == OP_COMPARE)
        SAY(g, "t%u %s t%u;\n", x[0], DIRECTIONS[g->p->ints.at[op->ints]], x[1]);
    else if (op->op == OP_SELECT)
        SAY(g, "t%u ? t%u : t%u;\n", x[0], x[1], x[2]);
    else if (op->op == OP_CONVERT)
        SAY(g,
            elem == ELEM_I1                        ? "t%u != 0;\n"
            : elem == ELEM_I32 && from == ELEM_F32 ? "to_whole(t%u);\n"
            : elem == ELEM_F32                     ? "(float)t%u;\n"
                                                   : "(int)t%u;\n",
            x[0]);
    else
        say_applied(g, op->op, elem, x[0], x[1]);
    return name;
}

static uint32_t emit_constant(struct gen *g, const struct operation *op)
{
    enum elem elem = program_tensor(g->p, op->results)->elem;
    const uint8_t *at = g->p->data.at + g->p->ints.at[op->ints];
    uint32_t bits = *at, name = let(g, TYPES[elem]);
    if (elem != ELEM_I1)
        memcpy(&bits, at, sizeof bits);
    SAY(g,
        elem == ELEM_F32   ? "of_bits(0x%08xu);\n"
        : elem == ELEM_I32 ? "(int)0x%08xu;\n"
                           : "%u != 0;\n",
        bits);
    return name;
}

/* Declares the first index of a dynamic slice of `size` elements in a dimension of n. */
static uint32_t emit_start(struct gen *g, const struct operation *op, uint32_t operand, int64_t n,
                           int64_t size)
{
    struct index none = {{0}};
    uint32_t at = emit_operand(g, op, operand, &none), name = let(g, "long long");
    SAY(g, "within(t%u, %" PRId64 "LL);\n", at, n - size);
    return name;
}

/* Declares the index of an operand that a view of it has at `index`, and the operand's element there. */
static uint32_t emit_view(struct gen *g, const struct operation *op, const struct index *index)
{
    const struct tensor *of = operand_type(g, op, 0), *t = program_tensor(g->p, op->results);
    const int64_t *ints = g->p->ints.at + op->ints;
    struct index to = {{0}};
    if (op->op == OP_RESHAPE) {
        to = index_of(g, of, place_of(g, t, index));
        return emit_operand(g, op, 0, &to);
    }
    for (uint32_t d = 0; d < of->rank; d++) {
        if (op->op == OP_BROADCAST) {
            to.at[d] = of->dims[d] == 1 ? ZERO : index->at[ints[d]];
        } else if (op->op == OP_TRANSPOSE) {
            to.at[ints[d]] = index->at[d];
        } else if (op->op == OP_SLICE) {
            to.at[d] = let(g, "long long");
            SAY(g, "%" PRId64 "LL + %" PRId64 "LL * ", ints[d], ints[2 * of->rank + d]);
            say_index(g, index->at[d]);
            SAY(g, ";\n");
        } else { /* OP_DYNAMIC_SLICE */
            uint32_t start = emit_start(g, op, 1 + d, of->dims[d], t->dims[d]);
            to.at[d] = let(g, "long long");
            SAY(g, "t%u + ", start);
            say_index(g, index->at[d]);
            SAY(g, ";\n");
        }
    }
    return emit_operand(g, op, 0, &to);
}

/* Declares a truth value: all of these names, or true. */
static uint32_t emit_all(struct gen *g, const uint32_t *names, uint32_t n)
{
    uint32_t name = let(g, "bool");
    for (uint32_t i = 0; i < n; i++)
        SAY(g, i ? " && t%u" : "t%u", names[i]);
    SAY(g, n ? ";\n" : "true;\n");
    return name;
}

static uint32_t emit_choice(struct gen *g, enum elem elem, uint32_t which, uint32_t x, uint32_t y)
{
    uint32_t name = let(g, TYPES[elem]);
    SAY(g, "t%u ? t%u : t%u;\n", which, x, y);
    return name;
}

/* Declares the padding, or the element of x if the index is one of x's. x is read at index 0 if not. */
static uint32_t emit_pad(struct gen *g, const struct operation *op, const struct index *index)
{
    const struct tensor *of = operand_type(g, op, 0);
    const int64_t *low = g->p->ints.at + op->ints, *interior = low + 2 * of->rank;
    uint32_t fits[PROGRAM_RANK_MAX], padding = emit_operand(g, op, 1, index);
    struct index to = {{0}};
    if (of->n == 0)
        return padding;
    for (uint32_t d = 0; d < of->rank; d++) {
        uint32_t from = let(g, "long long");
        say_index(g, index->at[d]);
        SAY(g, " - %" PRId64 "LL;\n", low[d]);
        fits[d] = let(g, "bool");
        SAY(g, "t%u >= 0 && t%u %% %" PRId64 "LL == 0 && t%u / %" PRId64 "LL < %" PRId64 "LL;\n",
            from, from, interior[d] + 1, from, interior[d] + 1, of->dims[d]);
        to.at[d] = let(g, "long long");
        SAY(g, "t%u ? t%u / %" PRId64 "LL : 0LL;\n", fits[d], from, interior[d] + 1);
    }
    uint32_t x = emit_operand(g, op, 0, &to);
    return emit_choice(g, of->elem, emit_all(g, fits, of->rank), x, padding);
}

static uint32_t emit_concatenate(struct gen *g, const struct operation *op,
                                 const struct index *index)
{
    const struct tensor *t = program_tensor(g->p, op->results);
    int64_t dim = g->p->ints.at[op->ints], start = 0;
    uint32_t result = ZERO;
    for (uint32_t i = 0; i < op->n_operands; i++) {
        const struct tensor *of = operand_type(g, op, i);
        struct index to = *index;
        if (of->dims[dim] == 0)
            continue;
        uint32_t fits = let(g, "bool");
        say_index(g, index->at[dim]);
        SAY(g, " >= %" PRId64 "LL && ", start);
        say_index(g, index->at[dim]);
        SAY(g, " < %" PRId64 "LL;\n", start + of->dims[dim]);
        to.at[dim] = let(g, "long long");
        SAY(g, "t%u ? ", fits);
        say_index(g, index->at[dim]);
        SAY(g, " - %" PRId64 "LL : 0LL;\n", start);
        start += of->dims[dim];
        uint32_t x = emit_operand(g, op, i, &to);
        result = result == ZERO ? x : emit_choice(g, t->elem, fits, x, result);
    }
    return result;
}

static uint32_t emit_update(struct gen *g, const struct operation *op, const struct index *index)
{
    const struct tensor *of = operand_type(g, op, 0), *update = operand_type(g, op, 1);
    uint32_t fits[PROGRAM_RANK_MAX], x = emit_operand(g, op, 0, index);
    struct index to = {{0}};
    if (update->n == 0)
        return x;
    for (uint32_t d = 0; d < of->rank; d++) {
        uint32_t start = emit_start(g, op, 2 + d, of->dims[d], update->dims[d]),
                 from = let(g, "long long");
        say_index(g, index->at[d]);
        SAY(g, " - t%u;\n", start);
        fits[d] = let(g, "bool");
        SAY(g, "t%u >= 0 && t%u < %" PRId64 "LL;\n", from, from, update->dims[d]);
        to.at[d] = let(g, "long long");
        SAY(g, "t%u ? t%u : 0LL;\n", fits[d], from);
    }
    uint32_t y = emit_operand(g, op, 1, &to);
    return emit_choice(g, of->elem, emit_all(g, fits, of->rank), y, x);
}

/* Writes a loop over n indices, and returns the index. */
static uint32_t begin_loop(struct gen *g, int64_t n)
{
    uint32_t name = g->names++;
    SAY(g, "    for (long long t%u = 0; t%u < %" PRId64 "LL; t%u++) {\n", name, name, n, name);
    return name;
}

static void end_loops(struct gen *g, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        SAY(g, "    }\n");
}

static uint32_t emit_reduce(struct gen *g, const struct operation *op, const struct index *index)
{
    const struct tensor *of = operand_type(g, op, 0);
    const int64_t *ints = g->p->ints.at + op->ints;
    uint32_t n = op->n_ints - 1, first = emit_operand(g, op, 1, index), sum = g->names++;
    struct index to = {{0}};
    SAY(g, "    %s t%u = t%u;\n", TYPES[of->elem], sum, first);
    for (uint32_t d = 0, k = 1, kept = 0; d < of->rank; d++) {
        bool reduced = k < op->n_ints && ints[k] == d;
        to.at[d] = reduced ? begin_loop(g, of->dims[d]) : index->at[kept];
        k += reduced;
        kept += !reduced;
    }
    uint32_t x = emit_operand(g, op, 0, &to);
    SAY(g, "    t%u = ", sum);
    say_applied(g, (enum op)ints[0], of->elem, sum, x);
    end_loops(g, n);
    return sum;
}

static uint32_t emit_dot(struct gen *g, const struct operation *op, const struct index *index)
{
    const int64_t *ints = g->p->ints.at + op->ints;
    uint32_t b = (uint32_t)ints[0], c = (uint32_t)ints[1], out = b, sum = g->names++;
    enum elem elem = operand_type(g, op, 0)->elem;
    struct index to[2] = {{{0}}};
    uint32_t loops[PROGRAM_RANK_MAX], x[2];
    SAY(g, "    %s t%u = 0;\n", TYPES[elem], sum);
    for (uint32_t i = 0; i < c; i++)
        loops[i] = begin_loop(g, operand_type(g, op, 0)->dims[ints[2 + 2 * b + i]]);
    for (uint32_t side = 0; side < 2; side++) {
        const int64_t *batch = ints + 2 + side * b, *contracted = ints + 2 + 2 * b + side * c;
        bool used[PROGRAM_RANK_MAX] = {false};
        for (uint32_t i = 0; i < b; i++) {
            to[side].at[batch[i]] = index->at[i];
            used[batch[i]] = true;
        }
        for (uint32_t i = 0; i < c; i++) {
            to[side].at[contracted[i]] = loops[i];
            used[contracted[i]] = true;
        }
        for (uint32_t d = 0; d < operand_type(g, op, side)->rank; d++)
            if (!used[d])
                to[side].at[d] = index->at[out++];
        x[side] = emit_operand(g, op, side, &to[side]);
    }
    uint32_t product = let(g, TYPES[elem]);
    say_applied(g, OP_MULTIPLY, elem, x[0], x[1]);
    SAY(g, "    t%u = ", sum);
    say_applied(g, OP_ADD, elem, sum, product);
    end_loops(g, c);
    return sum;
}

/* Declares the element of an operation's result at an index, and returns its name. */
static uint32_t emit_op(struct gen *g, const struct operation *op, const struct index *index)
{
    switch (op->op) {
    case OP_CONSTANT: return emit_constant(g, op);
    case OP_IOTA: {
        uint32_t name = let(g, TYPES[program_tensor(g->p, op->results)->elem]);
        say_index(g, index->at[g->p->ints.at[op->ints]]);
        SAY(g, ";\n");
        return name;
    }
    case OP_BROADCAST:
    case OP_RESHAPE:
    case OP_TRANSPOSE:
    case OP_SLICE:
    case OP_DYNAMIC_SLICE: return emit_view(g, op, index);
    case OP_PAD: return emit_pad(g, op, index);
    case OP_CONCATENATE: return emit_concatenate(g, op, index);
    case OP_DYNAMIC_UPDATE: return emit_update(g, op, index);
    case OP_REDUCE: return emit_reduce(g, op, index);
    case OP_DOT: return emit_dot(g, op, index);
    default: return emit_elements(g, op, index);
    }
}

static uint32_t emit(struct gen *g, uint32_t value, const struct index *index)
{
    const struct tensor *t = program_tensor(g->p, value);
    if (!g->values[value].stored)
        return emit_op(g, &g->p->ops.at[g->values[value].op], index);
    uint32_t place = place_of(g, t, index), arg = arg_of(g, value), name = let(g, TYPES[t->elem]);
    SAY(g, "p%u[t%u];\n", arg, place);
    return name;
}

/* ---- kernels ---- */

/* Doubles the table of kernels. */
static void slots_widen(struct gen *g)
{
    uint32_t mask = g->slots ? 2 * g->mask + 1 : 63,
             *slots = calloc((size_t)mask + 1, sizeof *slots);
    g->failed |= !slots;
    if (!slots)
        return;
    for (uint32_t i = 0; i < g->kernels.n; i++) {
        uint32_t at = (uint32_t)g->kernels.at[i].hash & mask;
        while (slots[at])
            at = (at + 1) & mask;
        slots[at] = i + 1;
    }
    free(g->slots);
    g->slots = slots;
    g->mask = mask;
}

/* Returns the number of a kernel with this text, which is added if it is new. Takes the text. */
static uint32_t kernel_of(struct gen *g, struct writer *text)
{
    struct kernel k = {.hash = XXH3_64bits(text->data, text->len)};
    if (!g->slots || 2 * g->kernels.n > g->mask)
        slots_widen(g);
    if (g->failed)
        return 0;
    uint32_t at = (uint32_t)k.hash & g->mask;
    for (; g->slots[at]; at = (at + 1) & g->mask) {
        const struct kernel *old = &g->kernels.at[g->slots[at] - 1];
        if (old->hash == k.hash && old->len == text->len &&
            memcmp(old->text, text->data, text->len) == 0)
            return g->slots[at] - 1;
    }
    writer_format(&g->out->source, "extern \"C\" __global__ void kernel_%u", g->kernels.n);
    PUSH(g->out, g->out->texts, (struct kernel_text){g->out->source.len, text->len});
    writer_bytes(&g->out->source, text->data, text->len);
    k.text = writer_take(text, &k.len);
    g->failed |= !k.text;
    PUSH(g, g->kernels, k);
    g->slots[at] = g->kernels.n;
    return g->kernels.n - 1;
}

/* Writes the kernel that stores an operation's result, and its launch. */
static void write_kernel(struct gen *g, const struct operation *op)
{
    const struct tensor *t = program_tensor(g->p, op->results);
    struct writer text;
    g->args.n = 0;
    g->names = 1; /* t0 is the place of the element */
    writer_init(&g->body, 0);
    struct index index = index_of(g, t, 0);
    SAY(g, "    p[t0] = t%u;\n", emit_op(g, op, &index));

    writer_init(&text, 0);
    writer_format(&text, "(");
    for (uint32_t i = 0; i < g->args.n; i++)
        writer_format(&text, "const %s *p%u, ", TYPES[program_tensor(g->p, g->args.at[i])->elem],
                      i);
    writer_format(&text, "%s *p)\n{\n    const long long t0 = blockIdx.x * %dLL + threadIdx.x;\n",
                  TYPES[t->elem], CODEGEN_BLOCK);
    writer_format(&text, "    if (t0 >= %" PRId64 "LL)\n        return;\n", t->n);
    writer_bytes(&text, g->body.data, g->body.len);
    writer_format(&text, "}\n");
    g->failed |= text.failed || g->body.failed;
    writer_close(&g->body);
    if (!g->failed) {
        struct launch l = {.kernel = kernel_of(g, &text),
                           .args = g->out->args.n,
                           .n_args = g->args.n + 1,
                           .n_writes = 1,
                           .blocks = (uint32_t)((t->n + CODEGEN_BLOCK - 1) / CODEGEN_BLOCK),
                           .threads = CODEGEN_BLOCK};
        g->too_big |= (t->n - 1) / CODEGEN_BLOCK >= CODEGEN_BLOCKS_MAX;
        for (uint32_t i = 0; i < g->args.n; i++)
            PUSH(g->out, g->out->args, g->args.at[i]);
        PUSH(g->out, g->out->args, op->results);
        PUSH(g->out, g->out->launches, l);
    }
    writer_close(&text);
}

static int write_all(struct gen *g, const struct block *b, struct err *e)
{
    const struct program *p = g->p;
    for (uint32_t i = 0; i < p->values.n; i++)
        g->values[i] = (struct value){.op = PROGRAM_NONE, .stored = true};
    for (uint32_t i = b->first; i < b->end; i++) {
        const struct operation *op = &p->ops.at[i];
        if (op->op == OP_CALL || op->op == OP_WHILE) {
            err_set(e, WARM_EUNSUPPORTED, "%s: no code for it yet", program_op_name(op->op));
            if (e)
                e->line = op->line;
            return WARM_EUNSUPPORTED;
        }
        g->values[op->results].op = i;
    }
    count_uses(g, b);
    choose_stored(g, b);
    for (uint32_t i = b->first; !g->failed && i < b->end; i++) {
        const struct operation *op = &p->ops.at[i];
        const struct value *v = &g->values[op->results];
        bool is_data = op->op == OP_CONSTANT && !is_splat(p, op);
        if (v->uses && v->stored && !is_data && program_tensor(p, op->results)->n)
            write_kernel(g, op);
    }
    return 0;
}

int codegen_function(const struct program *p, uint32_t function, struct codegen *out, struct err *e)
{
    struct gen g = {
        .p = p, .out = out, .values = calloc((size_t)p->values.n + 1, sizeof *g.values)};
    *out = (struct codegen){.n_kernels = 0};
    writer_init(&out->source, 0);
    writer_format(&out->source, "%s", PRELUDE);
    g.failed = !g.values;
    int rc = g.failed ? 0 : write_all(&g, &p->blocks.at[p->functions.at[function].block], e);
    out->n_kernels = g.kernels.n;
    if (rc == 0 && (g.failed || out->failed || out->source.failed))
        rc = err_set(e, WARM_ENOMEM, "code");
    if (rc == 0 && g.too_big)
        rc = err_set(e, WARM_ETOO_BIG, "a tensor of more than 2^39 elements");
    for (uint32_t i = 0; i < g.kernels.n; i++)
        free(g.kernels.at[i].text);
    free(g.kernels.at);
    free(g.slots);
    free(g.args.at);
    free(g.values);
    return rc;
}

void codegen_write_kernel(const struct codegen *c, uint32_t kernel, struct writer *out)
{
    const struct kernel_text *text = &c->texts.at[kernel];
    writer_format(out, "%sextern \"C\" __global__ void kernel", PRELUDE);
    writer_bytes(out, c->source.data + text->at, text->len);
}

void codegen_free(struct codegen *c)
{
    free(c->texts.at);
    writer_close(&c->source);
    free(c->launches.at);
    free(c->args.at);
}
