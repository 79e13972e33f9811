/* SPDX-License-Identifier: Apache-2.0 */
/*
 * eval.c - runs a program, operation by operation, in its order. Each operation follows its "Semantics" in
 * the StableHLO specification. What that leaves to the implementation follows XLA. Of integers, x / 0 is -1 and
 * x rem 0 is x. A float outside of a whole type becomes the nearest one, and NaN becomes 0.
 *
 * A value's tensor lives from its operation to the end of its block. No function runs inside of itself,
 * so one table has a place for each value.
 *
 * Thread: any; no state. Recursion: loops and calls, bounded by PROGRAM_DEPTH_MAX and EVAL_CALLS_MAX.
 */
#include "kernels/eval/eval.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/program/gather.h"

struct eval {
    const struct program *p;
    struct err *e;
    number **at; /* by value: its tensor, or NULL */
    size_t bytes;
    uint32_t steps, calls;
};

/* ---- memory ---- */

/* Returns a tensor of this many elements; NULL after an error. */
static number *tensor_new(struct eval *v, int64_t n, int *rc)
{
    size_t bytes = ((size_t)n + 1) * sizeof(number);
    if (bytes > EVAL_BYTES_MAX - v->bytes) {
        *rc = err_set(v->e, WARM_ETOO_BIG, "the program needs more than %zu bytes", EVAL_BYTES_MAX);
        return NULL;
    }
    number *x = malloc(bytes);
    if (!x)
        *rc = err_set(v->e, WARM_ENOMEM, "%zu bytes", bytes);
    else
        v->bytes += bytes;
    return x;
}

static void tensor_free(struct eval *v, number **x, int64_t n)
{
    size_t bytes = *x ? ((size_t)n + 1) * sizeof(number) : 0;
    assert(bytes <= v->bytes);
    v->bytes -= bytes;
    free(*x);
    *x = NULL;
}

static number *tensor_copy(struct eval *v, uint32_t value, int *rc)
{
    int64_t n = program_tensor(v->p, value)->n;
    assert(v->at[value]);
    number *x = tensor_new(v, n, rc);
    if (x && n)
        memcpy(x, v->at[value], (size_t)n * sizeof *x);
    return x;
}

/* ---- elements ---- */

/* Returns the whole number that the low bits are. */
static number wrap(enum elem elem, uint64_t bits)
{
    uint32_t shift = 64 - 8 * program_elem_size(elem);
    bits <<= shift;
    return program_elem_kind(elem) == KIND_UNSIGNED ? (number)(bits >> shift)
                                                    : (number)((int64_t)bits >> shift);
}

static uint64_t bits_of(number x) { return x < 0 ? (uint64_t)(int64_t)x : (uint64_t)x; }
static uint64_t mask_of(enum elem elem) { return UINT64_MAX >> (64 - 8 * program_elem_size(elem)); }

static double sign_of(double x) { return x > 0 ? 1 : x < 0 ? -1 : x; }

/* Returns the maximum of IEEE 754: NaN if an operand is one; -0 is below 0. */
static double larger(double x, double y)
{
    if (isnan(x) || isnan(y))
        return NAN;
    return x > y || (x == y && !signbit(x)) ? x : y;
}
/* Returns the x with erf(x) = y: Giles, "Approximating the erfinv function", GPU Computing Gems 2, 2011, for a
 * start, then Newton's method. */
static double erf_inv(double y)
{
    if (!(fabs(y) < 1))
        return fabs(y) == 1 ? y * INFINITY : NAN;
    double w = -log((1 - y) * (1 + y)), x = y * (w < 5 ? 1 + 0.1 * w : sqrt(w));
    for (int i = 0; i < 60; i++) {
        double slope = 2 / sqrt(M_PI) * exp(-x * x),
               left = y >= 0 ? erfc(x) - (1 - y) : (1 + y) - erfc(-x);
        double step = left / slope;
        x += step / (1 - x * step); /* Halley's: the second derivative is -2x times the first */
    }
    return x;
}

static double unary_float(enum op op, double x)
{
    switch (op) {
    case OP_ABS: return fabs(x);
    case OP_NEGATE: return -x;
    case OP_SIGN: return sign_of(x);
    case OP_EXP: return exp(x);
    case OP_EXPM1: return expm1(x);
    case OP_LOG: return log(x);
    case OP_LOG1P: return log1p(x);
    case OP_LOGISTIC: return 1 / (1 + exp(-x));
    case OP_TANH: return tanh(x);
    case OP_SQRT: return sqrt(x);
    case OP_RSQRT: return 1 / sqrt(x);
    case OP_SINE: return sin(x);
    case OP_COSINE: return cos(x);
    case OP_TAN: return tan(x);
    case OP_CBRT: return cbrt(x);
    case OP_ERF: return erf(x);
    case OP_ERFC: return erfc(x);
    case OP_ERF_INV: return erf_inv(x);
    case OP_LGAMMA: return lgamma(x);
    case OP_SINH: return sinh(x);
    case OP_COSH: return cosh(x);
    case OP_ASIN: return asin(x);
    case OP_ACOS: return acos(x);
    case OP_ATAN: return atan(x);
    case OP_ASINH: return asinh(x);
    case OP_ACOSH: return acosh(x);
    case OP_ATANH: return atanh(x);
    case OP_ROUND: return round(x);
    case OP_ROUND_EVEN: return nearbyint(x);
    case OP_FLOOR: return floor(x);
    default: return ceil(x);
    }
}

static number unary_whole(enum op op, enum elem elem, number x)
{
    switch (op) {
    case OP_ABS: return wrap(elem, x < 0 ? 0 - bits_of(x) : bits_of(x));
    case OP_NEGATE: return wrap(elem, 0 - bits_of(x));
    case OP_SIGN: return sign_of(x);
    case OP_POPCNT: return __builtin_popcountll(bits_of(x) & mask_of(elem));
    case OP_CLZ:
        return (bits_of(x) & mask_of(elem)) ? __builtin_clzll(bits_of(x) & mask_of(elem)) -
                                                  (64 - 8 * (int)program_elem_size(elem))
                                            : (int)(8 * program_elem_size(elem));
    default: return elem == ELEM_I1 ? !x : wrap(elem, ~bits_of(x)); /* OP_NOT */
    }
}

static double binary_float(enum op op, double x, double y)
{
    switch (op) {
    case OP_ADD: return x + y;
    case OP_SUBTRACT: return x - y;
    case OP_MULTIPLY: return x * y;
    case OP_DIVIDE: return x / y;
    case OP_REMAINDER: return fmod(x, y);
    case OP_POWER: return pow(x, y);
    case OP_ATAN2: return atan2(x, y);
    case OP_MAXIMUM: return larger(x, y);
    default: return -larger(-x, -y);
    }
}

static number binary_whole(enum op op, enum elem elem, number x, number y)
{
    uint64_t a = bits_of(x), b = bits_of(y), n = 8 * program_elem_size(elem);
    switch (op) {
    case OP_SHIFT_LEFT: return b < n ? wrap(elem, a << b) : 0;
    case OP_SHIFT_RIGHT: return b < n ? wrap(elem, (a & mask_of(elem)) >> b) : 0;
    case OP_SHIFT_SIGN:
        return wrap(elem, (uint64_t)((int64_t)(a << (64 - n)) >> (64 - n) >> (b < n ? b : n - 1)));
    case OP_POWER: {
        uint64_t power = 1;
        if (y < 0)
            return x == 1 ? 1 : x == -1 ? (b % 2 ? -1 : 1) : 0;
        for (; b; b /= 2, a *= a)
            power *= b % 2 ? a : 1;
        return wrap(elem, power);
    }
    case OP_ADD: return wrap(elem, a + b);
    case OP_SUBTRACT: return wrap(elem, a - b);
    case OP_MULTIPLY: return wrap(elem, a * b);
    case OP_DIVIDE:
        return wrap(elem, y == 0           ? UINT64_MAX
                          : y == -1        ? 0 - a
                          : y < 0 || x < 0 ? (uint64_t)((int64_t)a / (int64_t)b)
                                           : a / b);
    case OP_REMAINDER:
        return y == 0           ? x
               : y == -1        ? 0
               : y < 0 || x < 0 ? (number)((int64_t)a % (int64_t)b)
                                : (number)(a % b);
    case OP_MAXIMUM: return x > y ? x : y;
    case OP_MINIMUM: return x < y ? x : y;
    case OP_AND: return wrap(elem, a & b);
    case OP_OR: return wrap(elem, a | b);
    default: return wrap(elem, a ^ b);
    }
}

static number binary(enum op op, enum elem elem, number x, number y)
{
    return program_is_float(elem) ? binary_float(op, x, y) : binary_whole(op, elem, x, y);
}

/* Returns a number that orders floats as IEEE 754's totalOrder does, but for payloads of NaN. */
static double total_order(double x)
{
    if (isnan(x))
        return signbit(x) ? -INFINITY : INFINITY;
    return isinf(x) ? copysign(DBL_MAX, x) : x;
}

static bool compare(int64_t direction, number x, number y)
{
    switch (direction) {
    case DIRECTION_EQ: return x == y;
    case DIRECTION_NE: return x != y;
    case DIRECTION_GE: return x >= y;
    case DIRECTION_GT: return x > y;
    case DIRECTION_LE: return x <= y;
    default: return x < y;
    }
}

static number convert(enum elem to, enum elem from, number x)
{
    if (to == ELEM_I1)
        return x != 0;
    if (!program_is_whole(to))
        return (double)x;
    if (!program_is_float(from))
        return wrap(to, bits_of(x));
    bool is_signed = program_elem_kind(to) == KIND_SIGNED;
    number most = ldexp(1, (int)(8 * program_elem_size(to)) - is_signed),
           least = is_signed ? -most : 0;
    return isnan(x) ? 0 : x < least ? least : x >= most ? most - 1 : truncl(x);
}

/* ---- indices ---- */

/* A walk over the indices of a shape. `at` is the place of the current one: base + sum of index × stride. */
struct walk {
    const struct tensor *shape;
    const int64_t *stride;
    int64_t index[PROGRAM_RANK_MAX], at;
};

static struct walk walk_of(const struct tensor *shape, int64_t base, const int64_t *stride)
{
    return (struct walk){.shape = shape, .stride = stride, .at = base};
}

static void walk_next(struct walk *w)
{
    for (uint32_t d = w->shape->rank; d-- > 0;) {
        w->at += w->stride[d];
        if (++w->index[d] < w->shape->dims[d])
            return;
        w->at -= w->stride[d] * w->shape->dims[d];
        w->index[d] = 0;
    }
}

static void strides_of(const struct tensor *t, int64_t stride[PROGRAM_RANK_MAX])
{
    int64_t n = 1;
    for (uint32_t d = t->rank; d-- > 0; n *= t->dims[d])
        stride[d] = n;
}

/* Copies to out[i] from x[place of i], for each index of a shape. */
static void copy_from(number *out, const struct tensor *shape, const number *x, int64_t base,
                      const int64_t *stride)
{
    struct walk w = walk_of(shape, base, stride);
    for (int64_t i = 0; i < shape->n; i++, walk_next(&w))
        out[i] = x[w.at];
}

/* Copies to out[place of i] from x[i], for each index of a shape. */
static void copy_to(number *out, int64_t base, const int64_t *stride, const struct tensor *shape,
                    const number *x)
{
    struct walk w = walk_of(shape, base, stride);
    for (int64_t i = 0; i < shape->n; i++, walk_next(&w))
        out[w.at] = x[i];
}

/* ---- operations ---- */

static const number *operand(const struct eval *v, const struct operation *op, uint32_t i)
{
    const number *x = v->at[v->p->operands.at[op->operands + i]];
    assert(i < op->n_operands && x); /* a value is computed before it is used */
    return x;
}

static const struct tensor *operand_type(const struct eval *v, const struct operation *op,
                                         uint32_t i)
{
    return program_tensor(v->p, v->p->operands.at[op->operands + i]);
}

/* Returns the element whose bytes are those of another. */
static number bitcast(enum elem to, enum elem from, number x)
{
    uint8_t bytes[8] = {0};
    uint64_t bits = program_is_float(from) ? 0 : bits_of(x);
    if (program_is_float(from))
        program_elem_put(from, x, bytes);
    else
        memcpy(bytes, &bits, sizeof bits);
    memcpy(&bits, bytes, sizeof bits);
    return program_is_float(to) ? program_elem_get(to, bytes) : wrap(to, bits & mask_of(to));
}

static void run_elements(const struct eval *v, const struct operation *op, const struct tensor *t,
                         number *out)
{
    const struct tensor *of = operand_type(v, op, 0);
    const number *x = operand(v, op, 0), *y = op->n_operands > 1 ? operand(v, op, 1) : NULL;
    const number *z = op->n_operands > 2 ? operand(v, op, 2) : NULL;
    bool x_is_one = of->rank == 0, z_is_one = z && operand_type(v, op, 2)->rank == 0;
    int64_t direction = op->op == OP_COMPARE ? v->p->ints.at[op->ints] : 0;
    bool total = op->op == OP_COMPARE && v->p->ints.at[op->ints + 1];
    for (int64_t i = 0; i < t->n; i++) {
        if (op->op == OP_COMPARE)
            out[i] = !total ? compare(direction, x[i], y[i])
                     : x[i] == 0 && y[i] == 0
                         ? compare(direction, !signbit(x[i]), !signbit(y[i]))
                         : compare(direction, total_order(x[i]), total_order(y[i]));
        else if (op->op == OP_IS_FINITE)
            out[i] = isfinite(x[i]);
        else if (op->op == OP_BITCAST)
            out[i] = bitcast(t->elem, of->elem, x[i]);
        else if (op->op == OP_CONVERT)
            out[i] = convert(t->elem, of->elem, x[i]);
        else if (op->op == OP_SELECT)
            out[i] = x[x_is_one ? 0 : i] ? y[i] : z[i];
        else if (op->op == OP_CLAMP)
            out[i] =
                binary(OP_MINIMUM, t->elem, binary(OP_MAXIMUM, t->elem, x[x_is_one ? 0 : i], y[i]),
                       z[z_is_one ? 0 : i]);
        else if (y)
            out[i] = binary(op->op, t->elem, x[i], y[i]);
        else
            out[i] = program_is_float(t->elem) ? unary_float(op->op, x[i])
                                               : unary_whole(op->op, t->elem, x[i]);
    }
}

static void run_constant(const struct eval *v, const int64_t *ints, const struct tensor *t,
                         number *out)
{
    uint32_t size = program_elem_size(t->elem);
    for (int64_t i = 0; i < t->n; i++) {
        const uint8_t *at = v->p->data.at + ints[0] + (ints[1] ? 0 : i * size);
        uint64_t wide = 0;
        memcpy(&wide, at, size);
        out[i] = program_is_whole(t->elem) ? wrap(t->elem, wide) : program_elem_get(t->elem, at);
    }
}

static void run_iota(int64_t dim, const struct tensor *t, number *out)
{
    int64_t none[PROGRAM_RANK_MAX] = {0};
    struct walk w = walk_of(t, 0, none);
    for (int64_t i = 0; i < t->n; i++, walk_next(&w))
        out[i] = (number)w.index[dim];
}

/* Runs an operation whose elements are elements of one operand. */
static void run_view(const struct eval *v, const struct operation *op, const struct tensor *t,
                     number *out)
{
    const struct tensor *of = operand_type(v, op, 0);
    const int64_t *ints = v->p->ints.at + op->ints;
    int64_t whole[PROGRAM_RANK_MAX], stride[PROGRAM_RANK_MAX] = {0}, base = 0;
    strides_of(of, whole);
    for (uint32_t d = 0; d < of->rank; d++) {
        if (op->op == OP_BROADCAST) {
            stride[ints[d]] = of->dims[d] == 1 ? 0 : whole[d];
        } else if (op->op == OP_REVERSE) {
            stride[d] = whole[d];
        } else if (op->op == OP_TRANSPOSE) {
            stride[d] = whole[ints[d]];
        } else if (op->op == OP_SLICE) {
            base += ints[d] * whole[d];
            stride[d] = t->dims[d] > 1 ? ints[2 * of->rank + d] * whole[d] : 0;
        } else { /* OP_DYNAMIC_SLICE: starts are clamped so that the slice is inside */
            number start = *operand(v, op, 1 + d), most = (number)(of->dims[d] - t->dims[d]);
            base += (int64_t)(start < 0 ? 0 : start > most ? most : start) * whole[d];
            stride[d] = whole[d];
        }
    }
    for (uint32_t i = 0; op->op == OP_REVERSE && i < op->n_ints; i++) {
        base += (t->dims[ints[i]] - 1) * whole[ints[i]];
        stride[ints[i]] = -whole[ints[i]];
    }
    copy_from(out, t, operand(v, op, 0), base, stride);
}

static void run_window(const struct eval *v, const struct operation *op, const struct tensor *t,
                       number *out)
{
    const struct tensor *of = operand_type(v, op, 0);
    const int64_t *size = v->p->ints.at + op->ints;
    int64_t whole[PROGRAM_RANK_MAX], stride[PROGRAM_RANK_MAX];
    strides_of(of, whole);
    for (uint32_t d = 0, inner = of->rank; d < of->rank; d++) {
        stride[d] = whole[d] * size[of->rank + d];
        if (size[d] > 1)
            stride[inner++] = whole[d] * size[2 * of->rank + d];
    }
    assert(op->n_ints == 3 * of->rank);
    copy_from(out, t, operand(v, op, 0), 0, stride);
}

static void run_unwindow(const struct eval *v, const struct operation *op, const struct tensor *t,
                         number *out)
{
    const struct tensor *of = operand_type(v, op, 0);
    uint32_t r = op->n_ints / 4;
    const int64_t *size = v->p->ints.at + op->ints, *step = size + r, *dilation = step + r;
    int64_t none[PROGRAM_RANK_MAX] = {0}, stride[PROGRAM_RANK_MAX];
    struct walk w = walk_of(t, 0, none);
    strides_of(of, stride);
    for (int64_t i = 0; i < t->n; i++, walk_next(&w)) {
        bool inside = true;
        int64_t at = 0;
        for (uint32_t d = 0, inner = r; d < r; d++) {
            int64_t k = w.index[d] - (size[d] > 1 ? w.index[inner] * dilation[d] : 0);
            inside &= k >= 0 && k % step[d] == 0 && k / step[d] < of->dims[d];
            at += k / step[d] * stride[d];
            at += size[d] > 1 ? w.index[inner] * stride[inner] : 0;
            inner += size[d] > 1;
        }
        assert(!inside || (at >= 0 && at < of->n));
        out[i] = inside ? operand(v, op, 0)[at] : 0;
    }
}

/* Runs GATHER, or SCATTER with its slices in order. */
static void run_gather(const struct eval *v, const struct operation *op, const struct tensor *t,
                       number *out)
{
    bool scatters = op->op == OP_SCATTER;
    const struct tensor *x = operand_type(v, op, 0), *indices = operand_type(v, op, 1),
                        *slices = scatters ? operand_type(v, op, 2) : t;
    const int64_t *ints = v->p->ints.at + op->ints;
    int64_t of_x[PROGRAM_RANK_MAX], of_indices[PROGRAM_RANK_MAX], none[PROGRAM_RANK_MAX] = {0},
                                                                  vector = 0;
    struct gather g;
    bool fits = gather_of(ints + scatters, op->n_ints - scatters, x, indices, &g);
    assert(fits); /* check_op sees to it */
    (void)fits;
    strides_of(x, of_x);
    strides_of(indices, of_indices);
    for (uint32_t d = 0; d < indices->rank; d++)
        vector = g.at[d] < 0 ? of_indices[d] : vector;
    if (scatters && t->n)
        memcpy(out, operand(v, op, 0), (size_t)t->n * sizeof *out);
    struct walk w = walk_of(slices, 0, none);
    for (int64_t i = 0; i < slices->n; i++, walk_next(&w)) {
        int64_t from = 0, at = 0;
        bool inside = true;
        for (uint32_t d = 0; d < indices->rank; d++)
            from += g.at[d] < 0 ? 0 : w.index[g.at[d]] * of_indices[d];
        for (uint32_t d = 0; d < x->rank; d++) {
            number start = g.start[d] < 0 ? 0 : operand(v, op, 1)[from + g.start[d] * vector];
            number most = (number)(x->dims[d] - g.sizes[d]);
            if (!scatters && g.start[d] >= 0)
                start = start < 0 ? 0 : start > most ? most : start;
            number k = start + (g.along[d] < 0 ? 0 : (number)w.index[g.along[d]]);
            inside &= k >= 0 && k < (number)x->dims[d];
            at += inside ? (int64_t)k * of_x[d] : 0;
        }
        assert(scatters || (inside && at < x->n)); /* a slice of gather is clamped */
        if (!scatters)
            out[i] = operand(v, op, 0)[at];
        else if (inside)
            out[at] = ints[0] == OP_SELECT
                          ? operand(v, op, 2)[i]
                          : binary((enum op)ints[0], t->elem, out[at], operand(v, op, 2)[i]);
    }
}

/* Calls a side function on scalars. */
static int apply(const struct eval *v, int64_t function, const number *args, uint32_t n_args,
                 number *results, uint32_t n)
{
    const number *arg[2 * SIDE_MAX];
    assert(v->p->side && n_args <= 2 * SIDE_MAX && n <= SIDE_MAX);
    number *result[SIDE_MAX];
    for (uint32_t i = 0; i < n_args; i++)
        arg[i] = &args[i];
    for (uint32_t i = 0; i < n; i++)
        result[i] = &results[i];
    return eval_function(v->p->side, (uint32_t)function, arg, result, v->e);
}

/* Sets *out if the element at b comes before the one at a. */
static int comes_before(const struct eval *v, const struct operation *op, int64_t b, int64_t a,
                        bool *out)
{
    number args[2 * SIDE_MAX], result = 0;
    assert(op->n_operands <= SIDE_MAX); /* check_op sees to it */
    for (uint32_t i = 0; i < op->n_operands; i++) {
        args[2 * i] = operand(v, op, i)[b];
        args[2 * i + 1] = operand(v, op, i)[a];
    }
    int rc = apply(v, v->p->ints.at[op->ints], args, 2 * op->n_operands, &result, 1);
    *out = result != 0;
    return rc;
}

/* Sorts n places by merging, and leaves them in `places`; `room` is for as many. */
static int sort_places(const struct eval *v, const struct operation *op, int64_t *places,
                       int64_t *room, int64_t n)
{
    int rc = 0;
    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t first = 0; first < n && rc == 0; first += 2 * width) {
            int64_t middle = first + width < n ? first + width : n,
                    end = first + 2 * width < n ? first + 2 * width : n, a = first, b = middle;
            for (int64_t k = first; k < end && rc == 0; k++) {
                bool takes_b = a == middle;
                if (!takes_b && b < end)
                    rc = comes_before(v, op, places[b], places[a], &takes_b);
                room[k] = takes_b ? places[b++] : places[a++];
            }
        }
        memcpy(places, room, (size_t)n * sizeof *places);
    }
    return rc;
}

static int run_rank(const struct eval *v, const struct operation *op, const struct tensor *t,
                    number *out)
{
    int64_t dim = v->p->ints.at[op->ints + 1], n = t->dims[dim], stride[PROGRAM_RANK_MAX];
    int64_t *places = malloc((2 * (size_t)n + 1) * sizeof *places);
    int rc = places ? 0 : err_set(v->e, WARM_ENOMEM, "a sort");
    assert(dim >= 0 && dim < t->rank && t->elem == ELEM_I32);
    strides_of(t, stride);
    for (int64_t row = 0; rc == 0 && n && row < t->n / n; row++) {
        int64_t at = row / stride[dim] * stride[dim] * n + row % stride[dim];
        for (int64_t i = 0; i < n; i++)
            places[i] = at + i * stride[dim];
        rc = sort_places(v, op, places, places + n, n);
        for (int64_t i = 0; i < n; i++)
            out[places[i]] = (number)i;
    }
    free(places);
    return rc;
}

static int run_reduce_many(const struct eval *v, const struct operation *op, const struct tensor *t,
                           number *out)
{
    const struct tensor *of = operand_type(v, op, 0);
    const int64_t *ints = v->p->ints.at + op->ints;
    uint32_t n = op->n_operands / 2;
    int64_t kept[PROGRAM_RANK_MAX], stride[PROGRAM_RANK_MAX] = {0};
    number *all = malloc(((size_t)t->n * n + 1) * sizeof *all), args[2 * SIDE_MAX],
           results[SIDE_MAX];
    int rc = all ? 0 : err_set(v->e, WARM_ENOMEM, "a reduction");
    strides_of(t, kept);
    for (uint32_t d = 0, k = 2, to = 0; d < of->rank; d++) {
        if (k < op->n_ints && ints[k] == d)
            k++;
        else
            stride[d] = kept[to++];
    }
    assert(n && n <= SIDE_MAX && ints[1] < n);
    for (int64_t i = 0; all && i < t->n * n; i++)
        all[i] = *operand(v, op, n + (uint32_t)(i % n));
    struct walk w = walk_of(of, 0, stride);
    for (int64_t i = 0; rc == 0 && i < of->n; i++, walk_next(&w)) {
        for (uint32_t k = 0; k < n; k++) {
            args[k] = all[w.at * n + k];
            args[n + k] = operand(v, op, k)[i];
        }
        rc = apply(v, ints[0], args, 2 * n, results, n);
        memcpy(all + w.at * n, results, n * sizeof *results);
    }
    for (int64_t i = 0; rc == 0 && i < t->n; i++)
        out[i] = all[i * n + ints[1]];
    free(all);
    return rc;
}

static void run_update(const struct eval *v, const struct operation *op, const struct tensor *t,
                       number *out)
{
    const struct tensor *update = operand_type(v, op, 1);
    int64_t stride[PROGRAM_RANK_MAX], base = 0;
    strides_of(t, stride);
    for (uint32_t d = 0; d < t->rank; d++) {
        number start = *operand(v, op, 2 + d), most = (number)(t->dims[d] - update->dims[d]);
        base += (int64_t)(start < 0 ? 0 : start > most ? most : start) * stride[d];
    }
    if (t->n)
        memcpy(out, operand(v, op, 0), (size_t)t->n * sizeof *out);
    copy_to(out, base, stride, update, operand(v, op, 1));
}

static void run_pad(const struct eval *v, const struct operation *op, const struct tensor *t,
                    number *out)
{
    const struct tensor *of = operand_type(v, op, 0);
    const int64_t *low = v->p->ints.at + op->ints, *interior = low + 2 * of->rank;
    const number *x = operand(v, op, 0);
    int64_t stride[PROGRAM_RANK_MAX], none[PROGRAM_RANK_MAX] = {0};
    strides_of(t, stride);
    for (int64_t i = 0; i < t->n; i++)
        out[i] = *operand(v, op, 1);
    struct walk w = walk_of(of, 0, none);
    for (int64_t i = 0; i < of->n; i++, walk_next(&w)) {
        bool inside = true;
        int64_t at = 0;
        for (uint32_t d = 0; d < of->rank; d++) {
            int64_t k = low[d] + w.index[d] * (interior[d] + 1);
            inside &= k >= 0 && k < t->dims[d];
            at += k * stride[d];
        }
        if (inside)
            out[at] = x[i];
    }
}

static void run_concatenate(const struct eval *v, const struct operation *op,
                            const struct tensor *t, number *out)
{
    int64_t stride[PROGRAM_RANK_MAX], dim = v->p->ints.at[op->ints], base = 0;
    strides_of(t, stride);
    for (uint32_t i = 0; i < op->n_operands; i++) {
        const struct tensor *of = operand_type(v, op, i);
        copy_to(out, base, stride, of, operand(v, op, i));
        base += of->dims[dim] * stride[dim];
    }
    assert(base == t->dims[dim] * stride[dim]); /* the operands fill the result */
}

static void run_reduce(const struct eval *v, const struct operation *op, const struct tensor *t,
                       number *out)
{
    const struct tensor *of = operand_type(v, op, 0);
    const int64_t *ints = v->p->ints.at + op->ints;
    const number *x = operand(v, op, 0);
    int64_t kept[PROGRAM_RANK_MAX], stride[PROGRAM_RANK_MAX] = {0};
    strides_of(t, kept);
    for (uint32_t d = 0, k = 1, to = 0; d < of->rank; d++) {
        if (k < op->n_ints && ints[k] == d)
            k++;
        else
            stride[d] = kept[to++];
    }
    for (int64_t i = 0; i < t->n; i++)
        out[i] = *operand(v, op, 1);
    struct walk w = walk_of(of, 0, stride);
    for (int64_t i = 0; i < of->n; i++, walk_next(&w))
        out[w.at] = binary((enum op)ints[0], t->elem, out[w.at], x[i]);
}

/* Copies an operand of a product with its batch dimensions first, then the others, then the contracted ones. */
static number *dot_operand(struct eval *v, const struct operation *op, uint32_t which,
                           int64_t sizes[3], int *rc)
{
    const struct tensor *of = operand_type(v, op, which);
    struct dot_side s = program_dot_side(v->p->ints.at + op->ints, which, of->rank);
    const int64_t *dims[] = {s.batch, s.free, s.contracted};
    const uint32_t n[] = {s.n_batch, s.n_free, s.n_contracted};
    struct tensor t = {.n = of->n};
    int64_t whole[PROGRAM_RANK_MAX], stride[PROGRAM_RANK_MAX] = {0};
    strides_of(of, whole);
    for (uint32_t role = 0; role < 3; role++) {
        sizes[role] = 1;
        for (uint32_t i = 0; i < n[role]; i++, t.rank++) {
            sizes[role] *= t.dims[t.rank] = of->dims[dims[role][i]];
            stride[t.rank] = whole[dims[role][i]];
        }
    }
    assert(t.rank == of->rank && sizes[0] * sizes[1] * sizes[2] == of->n);
    number *x = tensor_new(v, t.n, rc);
    if (x)
        copy_from(x, &t, operand(v, op, which), 0, stride);
    return x;
}

static int run_dot(struct eval *v, const struct operation *op, const struct tensor *t, number *out)
{
    int rc = 0;
    int64_t m[3], n[3];
    number *x = dot_operand(v, op, 0, m, &rc), *y = x ? dot_operand(v, op, 1, n, &rc) : NULL;
    assert(!y || (m[0] == n[0] && m[2] == n[2] && m[0] * m[1] * n[1] == t->n));
    for (int64_t i = 0; y && i < t->n; i++) {
        int64_t batch = i / (m[1] * n[1]), row = i / n[1] % m[1], column = i % n[1];
        const number *a = x + (batch * m[1] + row) * m[2], *b = y + (batch * n[1] + column) * n[2];
        number sum = 0;
        for (int64_t k = 0; k < m[2]; k++)
            sum = binary(OP_ADD, t->elem, sum, binary(OP_MULTIPLY, t->elem, a[k], b[k]));
        out[i] = sum;
    }
    if (x)
        tensor_free(v, &x, operand_type(v, op, 0)->n);
    if (y)
        tensor_free(v, &y, operand_type(v, op, 1)->n);
    return rc;
}

/* Runs an operation with one result and no blocks. */
static int run_plain(struct eval *v, const struct operation *op)
{
    const struct tensor *t = program_tensor(v->p, op->results);
    const int64_t *ints = v->p->ints.at + op->ints;
    int rc = 0;
    number *out = tensor_new(v, t->n, &rc);
    if (!out)
        return rc;
    assert(!v->at[op->results]); /* from its operation to the end of its block */
    v->at[op->results] = out;
    switch (op->op) {
    case OP_CONSTANT: run_constant(v, ints, t, out); break;
    case OP_IOTA: run_iota(ints[0], t, out); break;
    case OP_RESHAPE:
        if (t->n)
            memcpy(out, operand(v, op, 0), (size_t)t->n * sizeof *out);
        break;
    case OP_BROADCAST:
    case OP_TRANSPOSE:
    case OP_SLICE:
    case OP_REVERSE:
    case OP_DYNAMIC_SLICE: run_view(v, op, t, out); break;
    case OP_DYNAMIC_UPDATE: run_update(v, op, t, out); break;
    case OP_WINDOW: run_window(v, op, t, out); break;
    case OP_UNWINDOW: run_unwindow(v, op, t, out); break;
    case OP_GATHER:
    case OP_SCATTER: run_gather(v, op, t, out); break;
    case OP_RANK: rc = run_rank(v, op, t, out); break;
    case OP_REDUCE_MANY: rc = run_reduce_many(v, op, t, out); break;
    case OP_PAD: run_pad(v, op, t, out); break;
    case OP_CONCATENATE: run_concatenate(v, op, t, out); break;
    case OP_REDUCE: run_reduce(v, op, t, out); break;
    case OP_DOT: rc = run_dot(v, op, t, out); break;
    default: run_elements(v, op, t, out); break;
    }
    return rc;
}

/* ---- blocks ---- */

static int run_block(struct eval *v, const struct block *b);

/* Runs a block with these tensors as its arguments, and copies its results to `out`. */
static int run_with(struct eval *v, const struct block *b, number *const *args, number **out)
{
    int rc;
    for (uint32_t i = 0; i < b->n_args; i++)
        v->at[b->args + i] = args[i];
    rc = run_block(v, b);
    for (uint32_t i = 0; rc == 0 && i < b->n_results; i++)
        out[i] = tensor_copy(v, v->p->operands.at[b->results + i], &rc);
    for (uint32_t i = b->first; i < b->end; i = v->p->ops.at[i].next) {
        const struct operation *op = &v->p->ops.at[i];
        for (uint32_t k = op->results; k < op->results + op->n_results; k++)
            tensor_free(v, &v->at[k], program_tensor(v->p, k)->n);
    }
    for (uint32_t i = 0; i < b->n_args; i++)
        v->at[b->args + i] = NULL;
    return rc;
}

static void carried_free(struct eval *v, const struct operation *op, number **carried)
{
    for (uint32_t i = 0; i < op->n_results; i++)
        tensor_free(v, &carried[i], program_tensor(v->p, op->results + i)->n);
}

static int run_while(struct eval *v, const struct operation *op)
{
    const struct block *cond = &v->p->blocks.at[v->p->ints.at[op->ints]];
    const struct block *body = &v->p->blocks.at[v->p->ints.at[op->ints + 1]];
    uint32_t n = op->n_operands;
    assert(n && cond->n_args == n && body->n_args == n && cond->n_results == 1 &&
           body->n_results == n);
    number **carried = calloc((size_t)n * 2, sizeof *carried), **next = carried + n,
           *goes_on = NULL;
    int rc = carried ? 0 : err_set(v->e, WARM_ENOMEM, "a loop");
    for (uint32_t i = 0; rc == 0 && i < n; i++)
        carried[i] = tensor_copy(v, v->p->operands.at[op->operands + i], &rc);
    while (rc == 0 && (rc = run_with(v, cond, carried, &goes_on)) == 0) {
        bool stop = *goes_on == 0;
        tensor_free(v, &goes_on, 1);
        if (stop)
            break;
        rc = run_with(v, body, carried, next);
        carried_free(v, op, carried);
        memcpy(carried, next, n * sizeof *carried);
        memset(next, 0, n * sizeof *next);
    }
    if (rc == 0)
        memcpy(v->at + op->results, carried, n * sizeof *carried);
    else if (carried)
        carried_free(v, op, carried);
    free(carried);
    return rc;
}

static int run_call(struct eval *v, const struct operation *op)
{
    const struct block *b = &v->p->blocks.at[v->p->functions.at[v->p->ints.at[op->ints]].block];
    number **args = malloc(((size_t)op->n_operands + 1) * sizeof *args);
    assert(b->n_args == op->n_operands && b->n_results == op->n_results);
    if (!args || v->calls == EVAL_CALLS_MAX) {
        free(args);
        return err_set(v->e, args ? WARM_ETOO_BIG : WARM_ENOMEM, "calls inside of calls");
    }
    for (uint32_t i = 0; i < op->n_operands; i++)
        args[i] = v->at[v->p->operands.at[op->operands + i]];
    v->calls++;
    int rc = run_with(v, b, args, v->at + op->results);
    v->calls--;
    free(args);
    return rc;
}

static int run_block(struct eval *v, const struct block *b)
{
    int rc = 0;
    for (uint32_t i = b->first; rc == 0 && i < b->end; i = v->p->ops.at[i].next) {
        const struct operation *op = &v->p->ops.at[i];
        if (++v->steps > EVAL_STEPS_MAX)
            rc = err_set(v->e, WARM_ETIMEOUT, "more than %u operations", EVAL_STEPS_MAX);
        else if (op->op == OP_WHILE)
            rc = run_while(v, op);
        else if (op->op == OP_CALL)
            rc = run_call(v, op);
        else
            rc = run_plain(v, op);
    }
    return rc;
}

int eval_function(const struct program *p, uint32_t function, const number *const *args,
                  number *const *results, struct err *e)
{
    assert(function < p->functions.n);
    const struct block *b = &p->blocks.at[p->functions.at[function].block];
    struct eval v = {.p = p, .e = e, .at = calloc((size_t)p->values.n + 1, sizeof *v.at)};
    number **copies = calloc((size_t)b->n_results + 1, sizeof *copies);
    number **borrowed = calloc((size_t)b->n_args + 1, sizeof *borrowed);
    int rc = v.at && copies && borrowed ? 0 : err_set(e, WARM_ENOMEM, "the values of a program");
    for (uint32_t i = 0; rc == 0 && i < b->n_args; i++)
        borrowed[i] = (number *)(uintptr_t)args[i]; /* only read */
    if (rc == 0)
        rc = run_with(&v, b, borrowed, copies);
    for (uint32_t i = 0; copies && i < b->n_results; i++) {
        int64_t n = program_tensor(p, p->operands.at[b->results + i])->n;
        if (rc == 0 && n)
            memcpy(results[i], copies[i], (size_t)n * sizeof **copies);
        tensor_free(&v, &copies[i], n);
    }
    assert(v.bytes == 0); /* all of them were freed */
    free(copies);
    free(borrowed);
    free(v.at);
    return rc;
}
