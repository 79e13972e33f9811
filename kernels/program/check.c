/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check.c - decides if an operation's operands and ints fit it, and computes the type of its result.
 * program_add calls it for each operation. The rules are the constraints (C) of each operation in the
 * StableHLO specification, section "Ops".
 *
 * Thread: any; no state.
 */
#include "kernels/program/check.h"

#include <string.h>

#include "kernels/program/gather.h"

#define ALLOW_F (1u << KIND_FLOAT)
#define ALLOW_I (1u << KIND_SIGNED | 1u << KIND_UNSIGNED)
#define ALLOW_B (1u << KIND_TRUTH)
#define ALLOW_FI (ALLOW_F | ALLOW_I)
#define ALLOW_IB (ALLOW_I | ALLOW_B)
#define ALLOW_FIB (ALLOW_F | ALLOW_I | ALLOW_B)
#define ALLOW_SHAPE 0u

static const struct {
    int n_operands;
    unsigned allow; /* bit by enum elem_kind; 0: a rule of its own */
} RULES[] = {
#define X(name, text, operands, elements) {operands, ALLOW_##elements},
    PROGRAM_OPS(X)
#undef X
};

bool check_same(const struct tensor *a, const struct tensor *b)
{
    return a->elem == b->elem && a->rank == b->rank &&
           memcmp(a->dims, b->dims, sizeof a->dims) == 0;
}

static bool same_dims(const struct tensor *a, const struct tensor *b)
{
    return a->rank == b->rank && memcmp(a->dims, b->dims, sizeof a->dims) == 0;
}

static int wrong(struct err *e, const char *what) { return err_set(e, WARM_EINVALID, "%s", what); }

/* True if n numbers are dimensions below `rank`, each at most once. With `rising` each is larger than the last. */
static bool dims_fit(const int64_t *dims, uint32_t n, uint32_t rank, bool rising)
{
    unsigned seen = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (dims[i] < 0 || dims[i] >= rank || seen & 1u << dims[i])
            return false;
        if (rising && i && dims[i] <= dims[i - 1])
            return false;
        seen |= 1u << dims[i];
    }
    return true;
}

static int check_slice(const struct tensor *x, const int64_t *ints, struct tensor *out,
                       struct err *e)
{
    uint32_t r = x->rank;
    for (uint32_t i = 0; i < r; i++) {
        int64_t start = ints[i], limit = ints[r + i], stride = ints[2 * r + i];
        if (start < 0 || limit < start || limit > x->dims[i] || stride < 1)
            return wrong(e, "the slice is not inside of the operand");
        out->dims[i] = (limit - start) / stride + ((limit - start) % stride != 0);
    }
    return 0;
}

/* Checks WINDOW. */
static int check_window(const struct tensor *x, const int64_t *ints, struct tensor *out,
                        struct err *e)
{
    uint32_t r = x->rank;
    for (uint32_t d = 0; d < r; d++) {
        int64_t size = ints[d], stride = ints[r + d], dilation = ints[2 * r + d], span;
        if (size < 1 || stride < 1 || dilation < 1 ||
            __builtin_mul_overflow(size - 1, dilation, &span) || span >= PROGRAM_ELEMENTS_MAX)
            return wrong(e, "a size, a stride or a dilation is out of range");
        out->dims[d] = x->dims[d] > span ? (x->dims[d] - span - 1) / stride + 1 : 0;
        if (size > 1 && out->rank == PROGRAM_RANK_MAX)
            return wrong(e, "the result has too many dimensions");
        if (size > 1)
            out->dims[out->rank++] = size;
    }
    return 0;
}

/* Checks UNWINDOW: of windows back to what they are windows of. */
static int check_unwindow(const struct tensor *y, const struct new_op *op, struct tensor *out,
                          struct err *e)
{
    struct tensor x = {.elem = y->elem}, windows;
    uint32_t r = op->n_ints / 4;
    if (r > PROGRAM_RANK_MAX || op->n_ints != 4 * r)
        return wrong(e, "an attribute has not one number for each dimension");
    x.rank = r;
    memcpy(x.dims, op->ints + 3 * r, r * sizeof *x.dims);
    for (uint32_t d = 0; d < r; d++)
        if (x.dims[d] < 0 || x.dims[d] > PROGRAM_ELEMENTS_MAX)
            return wrong(e, "a size is out of range");
    windows = x;
    int rc = check_window(&x, op->ints, &windows, e);
    if (rc || !check_same(&windows, y))
        return rc ? rc : wrong(e, "the windows do not fit");
    *out = windows;
    memcpy(out->dims, x.dims, r * sizeof *x.dims);
    return 0;
}

/* Checks GATHER, SCATTER and CHAIN. */
static int check_gather(const struct program *p, const struct new_op *op, struct tensor *out,
                        struct err *e)
{
    uint32_t skip = op->op == OP_SCATTER, of = op->op == OP_CHAIN ? 0 : 1;
    const struct tensor *x = program_tensor(p, op->operands[0]),
                        *indices = program_tensor(p, op->operands[of]);
    struct gather g;
    struct tensor slices;
    bool fits =
        op->op == OP_CHAIN
            ? gather_of_chain(op->ints, op->n_ints, indices, program_tensor(p, op->operands[1]), &g)
            : op->n_ints >= skip && gather_of(op->ints + skip, op->n_ints - skip, x, indices, &g);
    if (!fits)
        return wrong(e, "the dimension numbers do not fit");
    gather_type(&g, op->op == OP_CHAIN ? program_tensor(p, op->operands[1]) : x, indices, &slices);
    if (op->op == OP_GATHER) {
        *out = slices;
        return 0;
    }
    slices.elem = op->op == OP_CHAIN ? program_tensor(p, op->operands[1])->elem : slices.elem;
    if (op->n_operands < 2u + skip || op->n_operands > 2u + 2 * skip ||
        !check_same(&slices, program_tensor(p, op->operands[1 + skip])))
        return wrong(e, "the updates do not fit");
    if (op->op == OP_CHAIN) {
        *out = (struct tensor){.elem = ELEM_I64, .rank = 1, .dims = {gather_count(&g, indices)}};
        return 0;
    }
    enum op kind = (enum op)op->ints[0];
    bool known = kind == OP_SELECT || kind == OP_ADD || kind == OP_MULTIPLY || kind == OP_MAXIMUM ||
                 kind == OP_MINIMUM || kind == OP_AND || kind == OP_OR;
    if (!known || (kind != OP_SELECT && !(RULES[kind].allow & 1u << program_elem_kind(x->elem))))
        return wrong(e,
                     "its reducer is not add, multiply, maximum, minimum, and, or, or assignment");
    return 0;
}

/* Returns a side function on n scalars of these tensors' elements; NULL if there is none. */
static const struct block *side_block(const struct program *p, const struct new_op *op)
{
    if (!p->side || op->n_ints < 1 || op->ints[0] < 0 || op->ints[0] >= p->side->functions.n)
        return NULL;
    return &p->side->blocks.at[p->side->functions.at[op->ints[0]].block];
}

/* Checks RANK: a comparison of two elements of each operand. */
static int check_rank(const struct program *p, const struct new_op *op, struct tensor *out,
                      struct err *e)
{
    const struct block *b = side_block(p, op);
    const struct tensor *x = program_tensor(p, op->operands[0]);
    if (!b || op->n_operands > SIDE_MAX || op->n_ints != 2 || op->ints[1] < 0 ||
        op->ints[1] >= x->rank || b->n_args != 2 * op->n_operands || b->n_results != 1)
        return wrong(e, "no such dimension, or a comparison that does not fit");
    for (uint32_t i = 0; i < b->n_args; i++)
        if (!same_dims(program_tensor(p, op->operands[i / 2]), x) ||
            program_tensor(p->side, b->args + i)->rank != 0 ||
            program_tensor(p->side, b->args + i)->elem !=
                program_tensor(p, op->operands[i / 2])->elem)
            return wrong(e, "the operands do not fit");
    *out = *x;
    out->elem = ELEM_I32;
    return x->dims[op->ints[1]] <= INT32_MAX ? 0 : wrong(e, "more than 2^31 elements in a row");
}

/* Returns x without the dimensions that op->ints has from `first` on, in order. */
static struct tensor reduced(const struct tensor *x, const struct new_op *op, uint32_t first,
                             enum elem elem)
{
    struct tensor out = {.elem = elem};
    for (uint32_t i = 0, k = first; i < x->rank; i++) {
        if (k < op->n_ints && op->ints[k] == i)
            k++;
        else
            out.dims[out.rank++] = x->dims[i];
    }
    return out;
}

/* Checks REDUCE_MANY: a reducer of scalars, for each operand one from either side. */
static int check_reduce_many(const struct program *p, const struct new_op *op, struct tensor *out,
                             struct err *e)
{
    const struct block *b = side_block(p, op);
    uint32_t n = op->n_operands / 2;
    const struct tensor *x = program_tensor(p, op->operands[0]);
    if (!b || n > SIDE_MAX || op->n_operands % 2 || op->n_ints < 2 || op->ints[1] < 0 ||
        op->ints[1] >= n || b->n_args != 2 * n || b->n_results != n)
        return wrong(e, "a reducer that does not fit");
    for (uint32_t i = 0; i < n; i++) {
        enum elem elem = program_tensor(p, op->operands[i])->elem;
        const struct tensor *init = program_tensor(p, op->operands[n + i]);
        bool fits = same_dims(program_tensor(p, op->operands[i]), x) && init->rank == 0 &&
                    init->elem == elem;
        uint32_t values[] = {b->args + i, b->args + n + i, p->side->operands.at[b->results + i]};
        for (int k = 0; k < 3; k++)
            fits &= program_tensor(p->side, values[k])->rank == 0 &&
                    program_tensor(p->side, values[k])->elem == elem;
        if (!fits)
            return wrong(e, "the operands do not fit its reducer");
    }
    if (!dims_fit(op->ints + 2, op->n_ints - 2, x->rank, true))
        return wrong(e, "the dimensions are not those of the operand, in order");
    *out = reduced(x, op, 2, program_tensor(p, op->operands[op->ints[1]])->elem);
    return 0;
}

static int check_pad(const struct tensor *x, const int64_t *ints, struct tensor *out, struct err *e)
{
    uint32_t r = x->rank;
    for (uint32_t i = 0; i < 3 * r; i++)
        if (ints[i] < -PROGRAM_ELEMENTS_MAX || ints[i] > PROGRAM_ELEMENTS_MAX)
            return wrong(e, "the padding is more than 2^40");
    for (uint32_t i = 0; i < r; i++) {
        int64_t gaps = x->dims[i] > 0 ? x->dims[i] - 1 : 0, n;
        if (ints[2 * r + i] < 0 || __builtin_mul_overflow(gaps, ints[2 * r + i], &n) ||
            __builtin_add_overflow(n, x->dims[i], &n) || __builtin_add_overflow(n, ints[i], &n) ||
            __builtin_add_overflow(n, ints[r + i], &n) || n < 0)
            return wrong(e, "the padding does not fit the operand");
        out->dims[i] = n;
    }
    return 0;
}

static int check_broadcast(const struct tensor *x, const int64_t *dims, const struct tensor *out,
                           struct err *e)
{
    if (x->elem != out->elem || !dims_fit(dims, x->rank, out->rank, false))
        return wrong(e, "broadcast_dimensions does not fit the types");
    for (uint32_t i = 0; i < x->rank; i++)
        if (x->dims[i] != 1 && x->dims[i] != out->dims[dims[i]])
            return wrong(e, "a dimension of the operand is neither 1 nor that of the result");
    return 0;
}

static int check_concatenate(const struct program *p, const struct new_op *op, struct tensor *out,
                             struct err *e)
{
    int64_t d = op->ints[0], sum = 0;
    if (op->n_operands == 0 || d < 0 || d >= out->rank)
        return wrong(e, "no such dimension");
    for (uint32_t i = 0; i < op->n_operands; i++) {
        struct tensor x = *program_tensor(p, op->operands[i]);
        if (x.rank != out->rank || __builtin_add_overflow(sum, x.dims[d], &sum))
            return wrong(e, "the operands' types do not fit");
        x.dims[d] = out->dims[d];
        if (!check_same(&x, out))
            return wrong(e, "the operands' types do not fit");
    }
    out->dims[d] = sum;
    return 0;
}

/* True if the last operands are a scalar for each dimension of x, all of the same whole numbers. */
static bool starts_fit(const struct program *p, const struct new_op *op, uint32_t first,
                       uint32_t rank)
{
    if (op->n_operands != first + rank)
        return false;
    for (uint32_t i = first; i < op->n_operands; i++) {
        const struct tensor *t = program_tensor(p, op->operands[i]);
        if (!program_is_whole(t->elem) || t->rank != 0 ||
            t->elem != program_tensor(p, op->operands[first])->elem)
            return false;
    }
    return true;
}

static int check_reduce(const struct tensor *x, const struct tensor *init, const struct new_op *op,
                        struct tensor *out, struct err *e)
{
    enum op kind = (enum op)op->ints[0];
    bool of_numbers = kind == OP_ADD || kind == OP_MULTIPLY,
         of_order = kind == OP_MAXIMUM || kind == OP_MINIMUM;
    if (!of_numbers && !of_order && kind != OP_AND && kind != OP_OR)
        return wrong(e, "its reducer is not add, multiply, maximum, minimum, and, or");
    if (!(RULES[kind].allow & 1u << program_elem_kind(x->elem)))
        return wrong(e, "its reducer does not take such elements");
    if (init->rank != 0 || init->elem != x->elem)
        return wrong(e, "the initial value is not a scalar of the operand's elements");
    if (!dims_fit(op->ints + 1, op->n_ints - 1, x->rank, true))
        return wrong(e, "the dimensions are not those of the operand, in order");
    *out = reduced(x, op, 1, x->elem);
    return 0;
}

static int check_dot(const struct tensor *x, const struct tensor *y, const struct new_op *op,
                     const struct tensor *given, struct tensor *out, struct err *e)
{
    if (op->n_ints < 2 || op->ints[0] < 0 || op->ints[1] < 0 || op->ints[0] > PROGRAM_RANK_MAX ||
        op->ints[1] > PROGRAM_RANK_MAX || op->n_ints != 2 + 2 * (op->ints[0] + op->ints[1]))
        return wrong(e, "the numbers of dimensions do not fit");
    uint32_t b = (uint32_t)op->ints[0], c = (uint32_t)op->ints[1];
    /* batch and contracting dimensions together must differ from one another */
    int64_t of_x[2 * PROGRAM_RANK_MAX], of_y[2 * PROGRAM_RANK_MAX];
    const int64_t *ints = op->ints + 2;
    memcpy(of_x, ints, b * sizeof *ints);
    memcpy(of_y, ints + b, b * sizeof *ints);
    memcpy(of_x + b, ints + 2 * b, c * sizeof *ints);
    memcpy(of_y + b, ints + 2 * b + c, c * sizeof *ints);
    /* The result may have wider elements: sums of f16 in f32, of i8 in i32. */
    enum elem elem = given ? given->elem : x->elem;
    if (x->elem == ELEM_I1 || y->elem == ELEM_I1 || elem == ELEM_I1 ||
        program_is_float(x->elem) != program_is_float(elem) ||
        program_is_float(y->elem) != program_is_float(elem))
        return wrong(e, "the elements of operands and result are not all numbers of one kind");
    if (!dims_fit(of_x, b + c, x->rank, false) || !dims_fit(of_y, b + c, y->rank, false))
        return wrong(e, "the dimension numbers do not fit the operands");
    *out = (struct tensor){.elem = elem};
    unsigned used_x = 0, used_y = 0;
    for (uint32_t i = 0; i < b + c; i++) {
        if (x->dims[of_x[i]] != y->dims[of_y[i]])
            return wrong(e, "paired dimensions differ");
        used_x |= 1u << of_x[i];
        used_y |= 1u << of_y[i];
    }
    if (x->rank + y->rank - b - 2 * c > PROGRAM_RANK_MAX)
        return wrong(e, "the result has too many dimensions");
    for (uint32_t i = 0; i < b; i++)
        out->dims[out->rank++] = x->dims[of_x[i]];
    for (uint32_t i = 0; i < x->rank; i++)
        if (!(used_x & 1u << i))
            out->dims[out->rank++] = x->dims[i];
    for (uint32_t i = 0; i < y->rank; i++)
        if (!(used_y & 1u << i))
            out->dims[out->rank++] = y->dims[i];
    return 0;
}

/* Checks the operations without operands; the caller gave their type. */
static int check_source(const struct program *p, const struct new_op *op, const struct tensor *out,
                        struct err *e)
{
    if (op->op == OP_IOTA)
        return op->n_ints == 1 && op->ints[0] >= 0 && op->ints[0] < out->rank &&
                       out->elem != ELEM_I1
                   ? 0
                   : wrong(e, "no such dimension, or elements of i1");
    if (op->n_ints != 2 || op->ints[0] < 0 || op->ints[0] > p->data.n)
        return wrong(e, "the constant has no elements");
    int64_t n = op->ints[1] ? 1 : out->n;
    return n <= (p->data.n - op->ints[0]) / program_elem_size(out->elem)
               ? 0
               : wrong(e, "the constant has too few elements");
}

/* Checks the operations on two or three tensors of one shape. */
static int check_elements(const struct program *p, const struct new_op *op, const struct tensor *x,
                          struct tensor *out, struct err *e)
{
    const struct tensor *y = program_tensor(p, op->operands[1]);
    const struct tensor *z = op->n_operands > 2 ? program_tensor(p, op->operands[2]) : NULL;
    if (op->op == OP_COMPARE) {
        out->elem = ELEM_I1;
        return op->n_ints == 2 && op->ints[0] >= 0 && op->ints[0] <= DIRECTION_LT &&
                       (op->ints[1] == 0 || (op->ints[1] == 1 && program_is_float(x->elem))) &&
                       check_same(x, y)
                   ? 0
                   : wrong(e, "the operands' types differ");
    }
    *out = *y;
    if (op->op == OP_SELECT)
        return x->elem == ELEM_I1 && (x->rank == 0 || same_dims(x, y)) && check_same(y, z)
                   ? 0
                   : wrong(e, "the operands' types do not fit");
    return y->elem != ELEM_I1 && x->elem == y->elem && z->elem == y->elem &&
                   (x->rank == 0 || same_dims(x, y)) && (z->rank == 0 || same_dims(z, y))
               ? 0
               : wrong(e, "the operands' types do not fit");
}

int check_op(const struct program *p, const struct new_op *op, struct tensor *out, struct err *e)
{
    const struct tensor *given = op->type == PROGRAM_NONE ? NULL : &p->types.at[op->type];
    if (RULES[op->op].n_operands >= 0 && (uint32_t)RULES[op->op].n_operands != op->n_operands)
        return wrong(e, "wrong number of operands");
    if (op->op == OP_CONSTANT || op->op == OP_IOTA) {
        if (!given)
            return wrong(e, "it has no type");
        *out = *given;
        return check_source(p, op, out, e);
    }
    if (op->n_operands == 0)
        return wrong(e, "wrong number of operands");
    const struct tensor *x = program_tensor(p, op->operands[0]);
    const struct tensor *y = op->n_operands > 1 ? program_tensor(p, op->operands[1]) : NULL;
    uint32_t r = x->rank;
    *out = *x;

    if (RULES[op->op].allow) {
        if (!(RULES[op->op].allow & 1u << program_elem_kind(x->elem)))
            return wrong(e, "it does not take such elements");
        return !y || check_same(x, y) ? 0 : wrong(e, "the operands' types differ");
    }
    static const uint8_t INTS_PER_DIM[OP_N] = {
        [OP_BROADCAST] = 1, [OP_TRANSPOSE] = 1,     [OP_SLICE] = 3,
        [OP_PAD] = 3,       [OP_DYNAMIC_SLICE] = 1, [OP_WINDOW] = 3};
    if (INTS_PER_DIM[op->op] && op->n_ints != INTS_PER_DIM[op->op] * r)
        return wrong(e, "an attribute has not one number for each dimension");
    switch (op->op) {
    case OP_COMPARE:
    case OP_SELECT:
    case OP_CLAMP: return check_elements(p, op, x, out, e);
    case OP_IS_FINITE:
        out->elem = ELEM_I1;
        return program_is_float(x->elem) ? 0 : wrong(e, "it does not take such elements");
    case OP_CONVERT:
    case OP_BITCAST:
    case OP_RESHAPE:
    case OP_BROADCAST:
        if (!given)
            return wrong(e, "it has no type");
        *out = *given;
        if (op->op == OP_BROADCAST)
            return check_broadcast(x, op->ints, out, e);
        if (op->op == OP_CONVERT)
            return same_dims(x, out) ? 0 : wrong(e, "the shape differs from the operand's");
        if (op->op == OP_BITCAST)
            return same_dims(x, out) && x->elem != ELEM_I1 && out->elem != ELEM_I1 &&
                           program_elem_size(x->elem) == program_elem_size(out->elem)
                       ? 0
                       : wrong(e, "the elements have another size than the operand's");
        return x->elem == out->elem && x->n == out->n
                   ? 0
                   : wrong(e, "the elements differ from the operand's");
    case OP_TRANSPOSE:
        if (!dims_fit(op->ints, r, r, false))
            return wrong(e, "the permutation is none");
        for (uint32_t i = 0; i < r; i++)
            out->dims[i] = x->dims[op->ints[i]];
        return 0;
    case OP_REVERSE:
        return dims_fit(op->ints, op->n_ints, r, false) ? 0 : wrong(e, "no such dimension");
    case OP_GATHER:
    case OP_SCATTER:
    case OP_CHAIN:
        return op->n_operands >= 2 ? check_gather(p, op, out, e)
                                   : wrong(e, "wrong number of operands");
    case OP_RANK: return check_rank(p, op, out, e);
    case OP_REDUCE_MANY: return check_reduce_many(p, op, out, e);
    case OP_UNWINDOW: return check_unwindow(x, op, out, e);
    case OP_WINDOW: return check_window(x, op->ints, out, e);
    case OP_SLICE: return check_slice(x, op->ints, out, e);
    case OP_PAD:
        if (y->rank != 0 || y->elem != x->elem)
            return wrong(e, "the padding value is not a scalar of the operand's elements");
        return check_pad(x, op->ints, out, e);
    case OP_CONCATENATE:
        return op->n_ints == 1 ? check_concatenate(p, op, out, e) : wrong(e, "no such dimension");
    case OP_DYNAMIC_SLICE:
        for (uint32_t i = 0; i < r; i++) {
            if (op->ints[i] < 0 || op->ints[i] > x->dims[i])
                return wrong(e, "a size is larger than the operand");
            out->dims[i] = op->ints[i];
        }
        return starts_fit(p, op, 1, r)
                   ? 0
                   : wrong(
                         e,
                         "the starts are not one scalar for each dimension, all of one whole type");
    case OP_DYNAMIC_UPDATE:
        if (!y || y->rank != r || y->elem != x->elem)
            return wrong(e, "the update does not fit the operand");
        for (uint32_t i = 0; i < r; i++)
            if (y->dims[i] > x->dims[i])
                return wrong(e, "the update is larger than the operand");
        return starts_fit(p, op, 2, r)
                   ? 0
                   : wrong(
                         e,
                         "the starts are not one scalar for each dimension, all of one whole type");
    case OP_REDUCE:
        return op->n_ints >= 1 ? check_reduce(x, y, op, out, e) : wrong(e, "it has no reducer");
    case OP_DOT: return check_dot(x, y, op, given, out, e);
    default: return wrong(e, "not built this way");
    }
}
