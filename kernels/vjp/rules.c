/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rules.c - one rule for each operation: from the cotangent of its result to those of its operands. vjp.c
 * calls it from the last operation to the first.
 *
 * Sources. The derivatives of elementary functions: Abramowitz and Stegun, 3.3, 4.2, 4.3, 4.5. If a
 * function has no derivative, or the rule moves elements, the rule has the convention of JAX
 * (jax/_src/lax/lax.py, slicing.py): each rule names the function there.
 *
 * Names in the rules: x, z operands, y the result, g its cotangent.
 *
 * Thread: one at a time for a struct vjp.
 */
#include "kernels/vjp/rules.h"

#include <math.h>
#include <string.h>

#include "kernels/program/gather.h"

#define INTS_MAX (8 * PROGRAM_RANK_MAX)

/* ---- building ---- */

bool vjp_broken(struct vjp *v)
{
    v->l.code = v->l.code ? v->l.code : program_fault(v->l.e);
    return false;
}

static uint32_t one(struct vjp *v, enum op op, uint32_t x)
{
    return lower_add(&v->l, op, &x, 1, NULL, 0, PROGRAM_NONE);
}

static uint32_t two(struct vjp *v, enum op op, uint32_t x, uint32_t y)
{
    return lower_add(&v->l, op, (uint32_t[]){x, y}, 2, NULL, 0, PROGRAM_NONE);
}

static uint32_t times(struct vjp *v, uint32_t x, uint32_t y) { return two(v, OP_MULTIPLY, x, y); }

static uint32_t pick(struct vjp *v, uint32_t which, uint32_t x, uint32_t y)
{
    return lower_add(&v->l, OP_SELECT, (uint32_t[]){which, x, y}, 3, NULL, 0, PROGRAM_NONE);
}

static uint32_t compare(struct vjp *v, enum direction direction, uint32_t x, uint32_t y)
{
    return lower_add(&v->l, OP_COMPARE, (uint32_t[]){x, y}, 2, (int64_t[]){direction, 0}, 2,
                     PROGRAM_NONE);
}

void vjp_pass(struct vjp *v, uint32_t to, uint32_t cotangent)
{
    if (v->l.code || !VJP_EXPECT(v, to < v->n_tables) || !v->active[to])
        return;
    if (!VJP_EXPECT(v, v->l.p->values.at[cotangent] == v->l.p->values.at[to])) /* equal types */
        return;
    if (v->cotangents[to] == PROGRAM_NONE) {
        v->cotangents[to] = cotangent;
        return;
    }
    v->cotangents[to] = two(v, OP_ADD, v->cotangents[to], cotangent);
}

uint32_t vjp_splat(struct vjp *v, uint32_t like, double x)
{
    uint32_t out = 0;
    if (v->l.code == 0)
        v->l.code = program_splat(v->l.p, v->l.p->values.at[like], x, &out, v->l.e);
    return out;
}

uint32_t vjp_type(struct vjp *v, enum elem elem, uint32_t rank, const int64_t *dims)
{
    struct tensor t = {.elem = elem, .rank = rank};
    if (!VJP_EXPECT(v, rank <= PROGRAM_RANK_MAX))
        return 0;
    if (rank)
        memcpy(t.dims, dims, rank * sizeof *dims);
    return lower_type(&v->l, t);
}

/* Returns a scalar of a value's elements. */
static uint32_t scalar(struct vjp *v, uint32_t like, double x)
{
    return v->l.code ? 0 : lower_scalar(&v->l, program_tensor(v->l.p, like)->elem, x);
}

/* Returns x with the elements of `like`. */
static uint32_t of_elements(struct vjp *v, uint32_t x, uint32_t like)
{
    if (v->l.code)
        return x;
    struct tensor t = *program_tensor(v->l.p, x);
    enum elem elem = program_tensor(v->l.p, like)->elem;
    return t.elem == elem
               ? x
               : lower_add(&v->l, OP_CONVERT, &x, 1, NULL, 0, vjp_type(v, elem, t.rank, t.dims));
}

static struct tensor type_of(const struct vjp *v, uint32_t value)
{
    return *program_tensor(v->l.p, value);
}

/* Returns the sum of x over these dimensions, in rising order; x itself if there are none. */
static uint32_t sum(struct vjp *v, uint32_t x, const int64_t *dims, uint32_t n)
{
    int64_t ints[1 + PROGRAM_RANK_MAX] = {OP_ADD};
    if (n == 0 || v->l.code || !VJP_EXPECT(v, n <= type_of(v, x).rank))
        return x;
    memcpy(ints + 1, dims, n * sizeof *dims);
    return lower_add(&v->l, OP_REDUCE, (uint32_t[]){x, scalar(v, x, 0)}, 2, ints, 1 + n,
                     PROGRAM_NONE);
}

static uint32_t sum_all(struct vjp *v, uint32_t x)
{
    static const int64_t ALL[PROGRAM_RANK_MAX] = {0, 1, 2, 3, 4, 5, 6, 7};
    return sum(v, x, ALL, type_of(v, x).rank);
}

/* Returns x with dimension i of the result from dimension perm[i] of x; x itself if that changes nothing. */
static uint32_t transposed(struct vjp *v, uint32_t x, const int64_t *perm)
{
    uint32_t rank = type_of(v, x).rank, in_place = 0;
    while (in_place < rank && perm[in_place] == in_place)
        in_place++;
    return in_place == rank ? x : lower_add(&v->l, OP_TRANSPOSE, &x, 1, perm, rank, PROGRAM_NONE);
}

/* Returns x in the shape of `like`, which has as many elements; x itself if it has that shape. */
static uint32_t shaped(struct vjp *v, uint32_t x, uint32_t like)
{
    uint32_t type = v->l.p->values.at[like];
    if (!v->l.code)
        (void)VJP_EXPECT(v, type_of(v, x).n == type_of(v, like).n);
    return v->l.code || v->l.p->values.at[x] == type
               ? x
               : lower_add(&v->l, OP_RESHAPE, &x, 1, NULL, 0, type);
}

/* Returns x, a tensor with some dimensions of `like` in order, repeated along the others. */
static uint32_t spread(struct vjp *v, uint32_t x, uint32_t like, const int64_t *dims, uint32_t n)
{
    return lower_add(&v->l, OP_BROADCAST, &x, 1, dims, n, v->l.p->values.at[like]);
}

/* Returns x repeated to the shape of `like` if it is a scalar. */
static uint32_t full(struct vjp *v, uint32_t x, uint32_t like)
{
    return type_of(v, x).rank == 0 && type_of(v, like).rank != 0 ? spread(v, x, like, NULL, 0) : x;
}

/* Passes g, of a full shape, on to an operand that may be a scalar. */
static void pass_sum(struct vjp *v, uint32_t to, uint32_t g)
{
    vjp_pass(v, to, type_of(v, to).rank == 0 ? sum_all(v, g) : g);
}

/* ---- elementwise ---- */

/* Returns x + by, and from - x. */
static uint32_t plus(struct vjp *v, uint32_t x, double by)
{
    return two(v, OP_ADD, x, vjp_splat(v, x, by));
}
static uint32_t minus(struct vjp *v, double from, uint32_t x)
{
    return two(v, OP_SUBTRACT, vjp_splat(v, x, from), x);
}

/* Fails for an operation without a rule. */
static void vjp_lacks(struct vjp *v, enum op op)
{
    /* what read.c made of operations of StableHLO has their names */
    const char *name = op == OP_SCATTER       ? "scatter that multiplies, perhaps at equal indices"
                       : op == OP_REDUCE_MANY ? "reduce of several tensors"
                       : op == OP_UNWINDOW    ? "select_and_scatter"
                                              : program_op_name(op);
    if (v->l.code)
        return;
    v->l.code = err_set(v->l.e, WARM_EUNSUPPORTED,
                        "%s: it has no derivative here: take that of the framework", name);
    if (v->l.e)
        v->l.e->line = v->l.line;
}

static void unary_rule(struct vjp *v, enum op op, uint32_t x, uint32_t y, uint32_t g)
{
    switch (op) {
    case OP_ABS: g = times(v, g, one(v, OP_SIGN, x)); break; /* abs_p: sign, so 0 at 0 */
    case OP_NEGATE: g = one(v, OP_NEGATE, g); break;
    case OP_EXP: g = times(v, g, y); break;
    case OP_EXPM1: g = times(v, g, two(v, OP_ADD, y, vjp_splat(v, y, 1))); break;
    case OP_LOG: g = two(v, OP_DIVIDE, g, x); break;
    case OP_LOG1P: g = two(v, OP_DIVIDE, g, two(v, OP_ADD, x, vjp_splat(v, x, 1))); break;
    case OP_LOGISTIC: /* y' = y (1 - y) */
        g = times(v, g, times(v, y, two(v, OP_SUBTRACT, vjp_splat(v, y, 1), y)));
        break;
    case OP_TANH: /* y' = 1 - y² */
        g = times(v, g, two(v, OP_SUBTRACT, vjp_splat(v, y, 1), times(v, y, y)));
        break;
    case OP_SQRT: g = two(v, OP_DIVIDE, times(v, g, vjp_splat(v, y, 0.5f)), y); break; /* 1 / 2y */
    case OP_RSQRT:                                                                     /* -y / 2x */
        g = times(v, g, times(v, vjp_splat(v, y, -0.5f), two(v, OP_DIVIDE, y, x)));
        break;
    case OP_SINE: g = times(v, g, one(v, OP_COSINE, x)); break;
    case OP_COSINE: g = one(v, OP_NEGATE, times(v, g, one(v, OP_SINE, x))); break;
    case OP_TAN: g = times(v, g, plus(v, times(v, y, y), 1)); break;
    case OP_CBRT: g = times(v, g, two(v, OP_DIVIDE, y, times(v, x, vjp_splat(v, x, 3)))); break;
    case OP_ERF:
    case OP_ERFC: /* +- 2 / sqrt(pi) exp(-x²): Abramowitz and Stegun, 7.1.19 */
        g = times(v, times(v, g, vjp_splat(v, x, (op == OP_ERF ? 2 : -2) / sqrt(M_PI))),
                  one(v, OP_EXP, one(v, OP_NEGATE, times(v, x, x))));
        break;
    case OP_ERF_INV:
        g = times(v, times(v, g, vjp_splat(v, x, sqrt(M_PI) / 2)), one(v, OP_EXP, times(v, y, y)));
        break;
    case OP_SINH: g = times(v, g, one(v, OP_COSH, x)); break;
    case OP_COSH: g = times(v, g, one(v, OP_SINH, x)); break;
    case OP_ASIN: g = times(v, g, one(v, OP_RSQRT, minus(v, 1, times(v, x, x)))); break;
    case OP_ACOS:
        g = one(v, OP_NEGATE, times(v, g, one(v, OP_RSQRT, minus(v, 1, times(v, x, x)))));
        break;
    case OP_ATAN: g = two(v, OP_DIVIDE, g, plus(v, times(v, x, x), 1)); break;
    case OP_ASINH: g = times(v, g, one(v, OP_RSQRT, plus(v, times(v, x, x), 1))); break;
    case OP_ACOSH:
        g = times(v, g, one(v, OP_RSQRT, times(v, plus(v, x, -1), plus(v, x, 1))));
        break;
    case OP_ATANH: g = two(v, OP_DIVIDE, g, minus(v, 1, times(v, x, x))); break;
    case OP_LGAMMA: g = times(v, g, lower_digamma(&v->l, x)); break;
    default: vjp_lacks(v, op); return;
    }
    vjp_pass(v, x, g);
}

/* Follows rem_p: x rem z = x - z trunc(x / z). */
static uint32_t minus_whole_quotient(struct vjp *v, uint32_t x, uint32_t z, uint32_t g)
{
    uint32_t q = two(v, OP_DIVIDE, x, z), whole = one(v, OP_FLOOR, one(v, OP_ABS, q));
    return one(v, OP_NEGATE, times(v, g, times(v, one(v, OP_SIGN, q), whole)));
}

/* Follows pow_p: z x^(z-1), 0 if z is 0; y log x, with log 1 if x is 0. */
static void power_rule(struct vjp *v, uint32_t x, uint32_t z, uint32_t y, uint32_t g)
{
    uint32_t zero = vjp_splat(v, x, 0), unit = vjp_splat(v, x, 1);
    if (v->active[x]) {
        uint32_t slope = times(v, z, two(v, OP_POWER, x, two(v, OP_SUBTRACT, z, unit)));
        vjp_pass(v, x, times(v, g, pick(v, compare(v, DIRECTION_EQ, z, zero), zero, slope)));
    }
    if (v->active[z]) {
        uint32_t safe = pick(v, compare(v, DIRECTION_EQ, x, zero), unit, x);
        vjp_pass(v, z, times(v, g, times(v, y, one(v, OP_LOG, safe))));
    }
}

/* Follows max_p and min_p: all to the operand that is chosen, half to each of two equal ones. */
static void choice_rule(struct vjp *v, enum op op, uint32_t x, uint32_t z, uint32_t g)
{
    enum direction wins = op == OP_MAXIMUM ? DIRECTION_GT : DIRECTION_LT;
    uint32_t share =
        pick(v, compare(v, wins, x, z), vjp_splat(v, x, 1),
             pick(v, compare(v, DIRECTION_EQ, x, z), vjp_splat(v, x, 0.5f), vjp_splat(v, x, 0)));
    vjp_pass(v, x, times(v, g, share));
    vjp_pass(v, z, times(v, g, two(v, OP_SUBTRACT, vjp_splat(v, x, 1), share)));
}

static void binary_rule(struct vjp *v, enum op op, uint32_t x, uint32_t z, uint32_t y, uint32_t g)
{
    switch (op) {
    case OP_ADD:
        vjp_pass(v, x, g);
        vjp_pass(v, z, g);
        break;
    case OP_SUBTRACT:
        vjp_pass(v, x, g);
        if (v->active[z])
            vjp_pass(v, z, one(v, OP_NEGATE, g));
        break;
    case OP_MULTIPLY:
        if (v->active[x])
            vjp_pass(v, x, times(v, g, z));
        if (v->active[z])
            vjp_pass(v, z, times(v, g, x));
        break;
    case OP_DIVIDE:
        if (v->active[x])
            vjp_pass(v, x, two(v, OP_DIVIDE, g, z));
        if (v->active[z])
            vjp_pass(v, z, one(v, OP_NEGATE, two(v, OP_DIVIDE, times(v, g, y), z)));
        break;
    case OP_REMAINDER:
        vjp_pass(v, x, g);
        if (v->active[z])
            vjp_pass(v, z, minus_whole_quotient(v, x, z, g));
        break;
    case OP_POWER: power_rule(v, x, z, y, g); break;
    case OP_ATAN2: { /* atan2_p: z / (x² + z²), -x / (x² + z²) */
        uint32_t by = two(v, OP_DIVIDE, g, two(v, OP_ADD, times(v, x, x), times(v, z, z)));
        vjp_pass(v, x, times(v, by, z));
        vjp_pass(v, z, one(v, OP_NEGATE, times(v, by, x)));
        break;
    }
    default: choice_rule(v, op, x, z, g); break;
    }
}

static void select_rule(struct vjp *v, const uint32_t *operands, uint32_t g)
{
    uint32_t zero = vjp_splat(v, g, 0);
    vjp_pass(v, operands[1], pick(v, operands[0], g, zero));
    vjp_pass(v, operands[2], pick(v, operands[0], zero, g));
}

/* Follows clamp_p: to x inside of the bounds, to a bound outside of it, to none of two equal ones. */
static void clamp_rule(struct vjp *v, const uint32_t *operands, uint32_t g)
{
    uint32_t x = operands[1], zero = vjp_splat(v, g, 0);
    uint32_t low = full(v, operands[0], x), high = full(v, operands[2], x);
    uint32_t inside =
        two(v, OP_AND, compare(v, DIRECTION_GT, x, low), compare(v, DIRECTION_LT, x, high));
    uint32_t below =
        two(v, OP_AND, compare(v, DIRECTION_GT, low, x), compare(v, DIRECTION_LT, low, high));
    vjp_pass(v, x, pick(v, inside, g, zero));
    if (v->active[operands[0]])
        pass_sum(v, operands[0], pick(v, below, g, zero));
    if (v->active[operands[2]])
        pass_sum(v, operands[2], pick(v, compare(v, DIRECTION_LT, high, x), g, zero));
}

/* ---- shapes ---- */

/* Follows broadcast_in_dim_p: the sum over the copies of each element. */
static void broadcast_rule(struct vjp *v, uint32_t x, const int64_t *dims, uint32_t g)
{
    struct tensor of = type_of(v, x), t = type_of(v, g);
    int64_t summed[PROGRAM_RANK_MAX], perm[PROGRAM_RANK_MAX];
    uint32_t n = 0, kept = 0;
    for (uint32_t d = 0; d < t.rank; d++) {
        bool copies = true;
        for (uint32_t i = 0; i < of.rank; i++)
            copies &= dims[i] != d || (of.dims[i] == 1 && t.dims[d] != 1);
        if (copies)
            summed[n++] = d;
    }
    g = sum(v, g, summed, n);
    if (v->l.code)
        return;
    for (uint32_t i = 0; i < of.rank; i++) { /* the rank of a dimension among those that are kept */
        int64_t rank = dims[i];
        bool copies = false;
        for (uint32_t k = 0; k < n; k++) {
            copies |= summed[k] == dims[i];
            rank -= summed[k] < dims[i];
        }
        if (!copies)
            perm[kept++] = rank;
    }
    if (!VJP_EXPECT(v, kept == type_of(v, g).rank))
        return;
    g = transposed(v, g, perm);
    vjp_pass(v, x, shaped(v, g, x));
}

/* Follows slice_p: the elements back in their places, 0 in the others. */
static void slice_rule(struct vjp *v, uint32_t x, const int64_t *ints, uint32_t g)
{
    struct tensor of = type_of(v, x), t = type_of(v, g);
    int64_t pad[3 * PROGRAM_RANK_MAX];
    uint32_t r = of.rank;
    if (t.n == 0)
        return;
    for (uint32_t d = 0; d < r; d++) {
        int64_t start = ints[d], stride = ints[2 * r + d];
        pad[d] = start;
        pad[r + d] = of.dims[d] - (start + (t.dims[d] - 1) * stride + 1);
        pad[2 * r + d] = t.dims[d] > 1 ? stride - 1 : 0; /* of one element any stride is fine */
        (void)VJP_EXPECT(v, pad[d] >= 0 && pad[r + d] >= 0);
    }
    vjp_pass(
        v, x,
        lower_add(&v->l, OP_PAD, (uint32_t[]){g, scalar(v, g, 0)}, 2, pad, 3 * r, PROGRAM_NONE));
}

/* Follows pad_p: the elements that came from x; the padding value gets the others. */
static void pad_rule(struct vjp *v, const uint32_t *operands, const int64_t *ints, uint32_t g)
{
    struct tensor of = type_of(v, operands[0]);
    int64_t cut[3 * PROGRAM_RANK_MAX] = {0}, back[3 * PROGRAM_RANK_MAX];
    uint32_t r = of.rank;
    for (uint32_t d = 0; d < r; d++) {
        cut[d] = -ints[d];
        cut[r + d] = -ints[r + d];
        back[d] = 0;
        back[r + d] = of.dims[d] ? (of.dims[d] - 1) * (ints[2 * r + d] + 1) + 1 : 0;
        back[2 * r + d] = ints[2 * r + d] + 1;
    }
    uint32_t to_x =
        lower_add(&v->l, OP_PAD, (uint32_t[]){g, scalar(v, g, 0)}, 2, cut, 3 * r, PROGRAM_NONE);
    to_x = lower_add(&v->l, OP_SLICE, &to_x, 1, back, 3 * r, PROGRAM_NONE);
    vjp_pass(v, operands[0], to_x);
    if (v->active[operands[1]])
        vjp_pass(v, operands[1], two(v, OP_SUBTRACT, sum_all(v, g), sum_all(v, to_x)));
}

/* Follows concatenate_p: to each operand its part. */
static void concatenate_rule(struct vjp *v, const struct operation *op, uint32_t g)
{
    struct tensor t = type_of(v, g);
    int64_t start = 0, dim = v->l.p->ints.at[op->ints];
    for (uint32_t i = 0; i < op->n_operands; i++) {
        uint32_t x = v->l.p->operands.at[op->operands + i];
        struct tensor of = type_of(v, x);
        int64_t ints[3 * PROGRAM_RANK_MAX];
        for (uint32_t d = 0; d < t.rank; d++) {
            ints[d] = d == dim ? start : 0;
            ints[t.rank + d] = ints[d] + of.dims[d];
            ints[2 * t.rank + d] = 1;
        }
        start += of.dims[dim];
        if (v->active[x])
            vjp_pass(v, x, lower_add(&v->l, OP_SLICE, &g, 1, ints, 3 * t.rank, PROGRAM_NONE));
    }
    (void)VJP_EXPECT(v, start == t.dims[dim]); /* each element went to one operand */
}

/* Adds g, of a dynamic slice of x, to what x has so far: only the slice changes. */
static void add_slice(struct vjp *v, uint32_t x, uint32_t *use, uint32_t r, uint32_t g)
{
    struct tensor part = type_of(v, g);
    if (!VJP_EXPECT(v, v->active[x] && part.rank == r))
        return;
    uint32_t so_far = use[1] = v->cotangents[x];
    g = two(v, OP_ADD,
            lower_add(&v->l, OP_DYNAMIC_SLICE, use + 1, r + 1, part.dims, r, PROGRAM_NONE), g);
    use[0] = so_far;
    use[1] = g;
    v->cotangents[x] = lower_add(&v->l, OP_DYNAMIC_UPDATE, use, r + 2, NULL, 0, PROGRAM_NONE);
}

/* Follows dynamic_slice_p and dynamic_update_slice_p: the slice goes back where it was, 0 elsewhere. */
static void dynamic_rule(struct vjp *v, const struct operation *op, const uint32_t *operands,
                         uint32_t g)
{
    uint32_t use[PROGRAM_RANK_MAX + 2], r = type_of(v, operands[0]).rank;
    uint32_t first = op->op == OP_DYNAMIC_SLICE ? 1 : 2;
    memcpy(use + 2, operands + first, r * sizeof *use);
    if (op->op == OP_DYNAMIC_SLICE && v->cotangents[operands[0]] != PROGRAM_NONE) {
        add_slice(v, operands[0], use, r, g);
        return;
    }
    if (op->op == OP_DYNAMIC_SLICE) {
        use[0] = vjp_splat(v, operands[0], 0);
        use[1] = g;
        vjp_pass(v, operands[0],
                 lower_add(&v->l, OP_DYNAMIC_UPDATE, use, r + 2, NULL, 0, PROGRAM_NONE));
        return;
    }
    use[0] = g;
    use[1] = vjp_splat(v, operands[1], 0);
    if (v->active[operands[0]])
        vjp_pass(v, operands[0],
                 lower_add(&v->l, OP_DYNAMIC_UPDATE, use, r + 2, NULL, 0, PROGRAM_NONE));
    use[1] = g;
    if (v->active[operands[1]]) {
        struct tensor part = type_of(v, operands[1]);
        vjp_pass(v, operands[1],
                 lower_add(&v->l, OP_DYNAMIC_SLICE, use + 1, r + 1, part.dims, r, PROGRAM_NONE));
    }
}

/* ---- reductions and products ---- */

/* Returns 1 for each element of x that is `of`, which has x's shape, else 0. */
static uint32_t ones_if_equal(struct vjp *v, uint32_t x, uint32_t of)
{
    return pick(v, compare(v, DIRECTION_EQ, x, of), vjp_splat(v, x, 1), vjp_splat(v, x, 0));
}

/* Returns the derivative of a product by each factor, which is the product of the others. It is P / x, but if one factor
 * is 0 it is P, without that factor, for it alone; if several are 0, all are 0. */
static uint32_t product_slope(struct vjp *v, uint32_t x, const int64_t *reduced, uint32_t n,
                              const int64_t *kept, uint32_t n_kept)
{
    int64_t ints[1 + PROGRAM_RANK_MAX] = {OP_MULTIPLY};
    uint32_t zero = vjp_splat(v, x, 0), unit = vjp_splat(v, x, 1);
    uint32_t is_zero = compare(v, DIRECTION_EQ, x, zero), safe = pick(v, is_zero, unit, x);
    memcpy(ints + 1, reduced, n * sizeof *reduced);
    uint32_t p = lower_add(&v->l, OP_REDUCE, (uint32_t[]){safe, scalar(v, safe, 1)}, 2, ints, 1 + n,
                           PROGRAM_NONE);
    uint32_t n_zeros = sum(v, pick(v, is_zero, unit, zero), reduced, n);
    p = spread(v, p, x, kept, n_kept);
    n_zeros = spread(v, n_zeros, x, kept, n_kept);
    uint32_t of_zero = pick(v, compare(v, DIRECTION_EQ, n_zeros, unit), p, zero);
    uint32_t of_other =
        pick(v, compare(v, DIRECTION_EQ, n_zeros, zero), two(v, OP_DIVIDE, p, safe), zero);
    return pick(v, is_zero, of_zero, of_other);
}

/* Follows reduce_sum_p, reduce_max_p, reduce_min_p (equal shares to equal elements), reduce_prod_p. */
static void reduce_rule(struct vjp *v, const struct operation *op, const uint32_t *operands,
                        const int64_t *ints, uint32_t g)
{
    uint32_t x = operands[0], rank = type_of(v, x).rank, n_kept = 0;
    int64_t kept[PROGRAM_RANK_MAX];
    for (uint32_t d = 0, k = 1; d < rank; d++) {
        if (k < op->n_ints && ints[k] == d)
            k++;
        else
            kept[n_kept++] = d;
    }
    if (!VJP_EXPECT(v, op->n_ints + n_kept == 1 + rank))
        return;
    if (ints[0] != OP_ADD && v->active[operands[1]]) {
        v->l.code = err_set(v->l.e, WARM_EUNSUPPORTED, "reduce: the gradient of an initial value");
        if (v->l.e)
            v->l.e->line = op->line;
        return;
    }
    if (ints[0] == OP_ADD && v->active[operands[1]])
        vjp_pass(v, operands[1], sum_all(v, g));
    if (!v->active[x])
        return;
    if (ints[0] == OP_ADD) {
        vjp_pass(v, x, spread(v, g, x, kept, n_kept));
    } else if (ints[0] == OP_MULTIPLY) {
        uint32_t slope = product_slope(v, x, ints + 1, op->n_ints - 1, kept, n_kept);
        uint32_t all = times(v, spread(v, g, x, kept, n_kept), spread(v, operands[1], x, NULL, 0));
        vjp_pass(v, x, times(v, all, slope));
    } else {
        uint32_t is_it = compare(v, DIRECTION_EQ, x, spread(v, op->results, x, kept, n_kept));
        uint32_t ones = ones_if_equal(v, x, spread(v, op->results, x, kept, n_kept));
        uint32_t share = two(v, OP_DIVIDE, g, sum(v, ones, ints + 1, op->n_ints - 1));
        vjp_pass(v, x, pick(v, is_it, spread(v, share, x, kept, n_kept), vjp_splat(v, x, 0)));
    }
}

/* Returns the product of g, of a product's result, and the other operand over the other's free dimensions:
 * g first, or last. */
static uint32_t product_with(struct vjp *v, const struct dot_side *its, uint32_t b,
                             uint32_t skipped, uint32_t g, uint32_t other, bool first)
{
    int64_t dot[INTS_MAX] = {b, its->n_free}, *of_g = dot + 2 + (first ? 0 : b),
            *of_other = dot + 2 + (first ? b : 0);
    for (uint32_t i = 0; i < b; i++) {
        of_g[i] = i;
        of_other[i] = its->batch[i];
    }
    of_g = dot + 2 + 2 * b + (first ? 0 : its->n_free);
    of_other = dot + 2 + 2 * b + (first ? its->n_free : 0);
    for (uint32_t i = 0; i < its->n_free; i++) {
        of_g[i] = b + skipped + i;
        of_other[i] = its->free[i];
    }
    return lower_add(&v->l, OP_DOT, (uint32_t[]){first ? g : other, first ? other : g}, 2, dot,
                     2 + 2 * (b + its->n_free), PROGRAM_NONE);
}

/* Follows dot_general_p: the product of g and the other operand over the other's free dimensions. Its result has
 * the batch dimensions, this operand's free ones, and the contracted ones in the other's order. With the other
 * operand first, the contracted ones come before the free ones: chosen if no transpose follows then. */
static uint32_t dot_slope(struct vjp *v, const int64_t *ints, uint32_t which, uint32_t x,
                          uint32_t other, uint32_t g)
{
    uint32_t rank = type_of(v, x).rank, b = (uint32_t)ints[0], c = (uint32_t)ints[1];
    struct dot_side mine = program_dot_side(ints, which, rank),
                    its = program_dot_side(ints, !which, type_of(v, other).rank);
    uint32_t skipped = which ? 0 : mine.n_free; /* of g's dimensions: batch, lhs free, rhs free */
    int64_t contracted[PROGRAM_RANK_MAX], perm[2][PROGRAM_RANK_MAX];
    uint32_t n = 0, first = 0;
    for (int64_t d = 0; d < PROGRAM_RANK_MAX; d++)
        for (uint32_t i = 0; i < c; i++)
            if (its.contracted[i] == d)
                contracted[n++] = mine.contracted[i];
    if (!VJP_EXPECT(v, n == c))
        return 0;
    for (uint32_t order = 0; order < 2; order++) {
        n = 0;
        for (uint32_t i = 0; i < b; i++)
            perm[order][mine.batch[i]] = n++;
        for (uint32_t i = 0; order == 1 && i < c; i++)
            perm[order][contracted[i]] = n++;
        for (uint32_t i = 0; i < mine.n_free; i++)
            perm[order][mine.free[i]] = n++;
        for (uint32_t i = 0; order == 0 && i < c; i++)
            perm[order][contracted[i]] = n++;
    }
    for (uint32_t d = 0; d < rank; d++)
        first |= perm[0][d] != d;
    for (uint32_t d = 0; d < rank; d++)
        first &= perm[1][d] == d;
    uint32_t out = product_with(v, &its, b, skipped, g, of_elements(v, other, g), !first);
    return v->l.code ? 0 : of_elements(v, transposed(v, out, perm[first]), x);
}

/* Returns the operation of v->l.p that makes a value; NULL. */
static const struct operation *maker(const struct vjp *v, uint32_t value)
{
    const struct program *p = v->l.p;
    uint32_t i = p->ops.n;
    while (i && p->ops.at[i - 1].results > value)
        i--;
    return i && p->ops.at[i - 1].results == value ? &p->ops.at[i - 1] : NULL;
}

/* Returns the place of a number in a list; n if it is not there. */
static uint32_t place_in(const int64_t *list, uint32_t n, int64_t number)
{
    uint32_t i = 0;
    while (i < n && list[i] != number)
        i++;
    return i;
}

/* Returns what window_rule returns, if g is a product of which one operand has the places of the windows and the
 * other one their elements, as a convolution has it: then it is a product, too. With w the elements of a window,
 *
 *     sum over w of UNWINDOW(a · b)[x, w, c]  =  sum over w and k of UNWINDOW(a)[x, w, k] b[w, c, k]
 *
 * and no tensor is as large as all windows. NONE for others; for windows that skip places, since it would multiply
 * zeros; and if c is short, since most of a tile would be empty (codegen/tiled.h).
 *
 * Dimensions have numbers: those of the product, and from CONTRACTED on. */
static uint32_t window_product(struct vjp *v, const struct tensor *x, const int64_t *ints,
                               uint32_t g)
{
    enum { CONTRACTED = 2 * PROGRAM_RANK_MAX, COLUMNS_MIN = 32 };
    const struct operation *dot = maker(v, g);
    uint32_t r = x->rank, n = 0, m = 0, rank[2], operands[2];
    int64_t of[PROGRAM_RANK_MAX], of_side[2][2 * PROGRAM_RANK_MAX], old[INTS_MAX], new[INTS_MAX],
        back[4 * PROGRAM_RANK_MAX], perm[PROGRAM_RANK_MAX], out[2 * PROGRAM_RANK_MAX], columns = 1;
    for (uint32_t d = 0; d < PROGRAM_RANK_MAX; d++)
        perm[d] = of[d] = d;
    for (; dot && dot->op == OP_TRANSPOSE; dot = maker(v, g)) {
        for (uint32_t d = 0; d < type_of(v, g).rank; d++)
            of[d] = v->l.p->ints.at[dot->ints + (uint32_t)of[d]];
        g = v->l.p->operands.at[dot->operands];
    }
    if (!dot || dot->op != OP_DOT)
        return PROGRAM_NONE;
    memcpy(old, v->l.p->ints.at + dot->ints, dot->n_ints * sizeof *old);
    memcpy(operands, v->l.p->operands.at + dot->operands, sizeof operands);
    for (uint32_t i = 0, next = (uint32_t)old[0]; i < 2; i++) {
        rank[i] = type_of(v, operands[i]).rank;
        struct dot_side s = program_dot_side(old, i, rank[i]);
        for (uint32_t k = 0; k < s.n_batch; k++)
            of_side[i][s.batch[k]] = k;
        for (uint32_t k = 0; k < s.n_contracted; k++)
            of_side[i][s.contracted[k]] = CONTRACTED + k;
        for (uint32_t k = 0; k < s.n_free; k++)
            of_side[i][s.free[k]] = next++;
    }
    uint32_t first = 0;
    while (first < r && ints[first] == 1)
        first++;
    uint32_t a = first < r && place_in(of_side[0], rank[0], of[first]) == rank[0], b = !a;
    for (uint32_t d = 0; d < r; d++) {
        if (ints[r + d] != 1 ||
            (ints[d] > 1 && (place_in(of_side[a], rank[a], of[d]) == rank[a] ||
                             place_in(of_side[b], rank[b], of[d]) < rank[b] ||
                             place_in(of_side[a], rank[a], of[r + n]) < rank[a])))
            return PROGRAM_NONE;
        n += ints[d] > 1;
    }
    struct tensor wide = type_of(v, operands[a]);
    for (uint32_t i = 0; i < rank[b]; i++)
        if (of_side[b][i] < CONTRACTED && place_in(of + r, n, of_side[b][i]) == n &&
            place_in(of_side[a], rank[a], of_side[b][i]) == rank[a])
            columns *= type_of(v, operands[b]).dims[i];
    if (columns < COLUMNS_MIN || n == 0 || rank[a] + n > PROGRAM_RANK_MAX)
        return PROGRAM_NONE;
    /* a, with the elements of a window behind its dimensions; the product sums over them in the order of memory */
    new[0] = old[0];
    new[1] = old[1] + n;
    int64_t *summed_a = new + 2 + 2 * new[0], *summed_b = summed_a + new[1];
    for (uint32_t i = 0; i < rank[a]; i++) {
        uint32_t d = place_in(of, r, of_side[a][i]), window = r;
        back[i] = d < r ? ints[d] : 1;
        back[rank[a] + i] = 1;
        back[2 * rank[a] + i] = d < r ? ints[2 * r + d] : 1;
        back[3 * rank[a] + i] = d < r ? x->dims[d] : wide.dims[i];
        for (uint32_t k = 0; k < d && d < r; k++)
            window += ints[k] > 1;
        if (back[i] > 1) {
            summed_a[m] = wide.rank;
            summed_b[m++] = place_in(of_side[b], rank[b], of[window]);
            of_side[a][wide.rank] = of[window];
            wide.dims[wide.rank++] = back[i];
        } else if (of_side[a][i] >= CONTRACTED) {
            summed_a[m] = i;
            summed_b[m++] = place_in(of_side[b], rank[b], of_side[a][i]);
        }
    }
    uint32_t y = lower_add(&v->l, OP_BROADCAST, &operands[a], 1, perm, rank[a],
                           vjp_type(v, wide.elem, wide.rank, wide.dims));
    y = lower_add(&v->l, OP_UNWINDOW, &y, 1, back, 4 * rank[a], PROGRAM_NONE);
    if (!VJP_EXPECT(v, m == new[1])) /* each has its partner in b */
        return PROGRAM_NONE;
    for (uint32_t i = 0; i < new[0]; i++) {
        new[2 + i] = place_in(of_side[a], rank[a], i);
        new[2 + new[0] + i] = place_in(of_side[b], rank[b], i);
    }
    y = lower_add(&v->l, OP_DOT, (uint32_t[]){y, operands[b]}, 2, new,
                  (uint32_t)(2 + 2 * (new[0] + new[1])), PROGRAM_NONE);
    m = (uint32_t) new[0];
    for (uint32_t i = 0; i < m; i++)
        out[i] = i;
    for (uint32_t i = 0; i < 2; i++) {
        struct dot_side s = program_dot_side(new, i, i ? rank[b] : wide.rank);
        for (uint32_t k = 0; k < s.n_free; k++)
            out[m++] = of_side[i ? b : a][s.free[k]];
    }
    (void)VJP_EXPECT(v, m == r);
    for (uint32_t d = 0; d < r; d++)
        perm[d] = place_in(out, m, of[d]);
    return transposed(v, y, perm);
}

/* Transposes WINDOW: the sum over the windows that an element is in. */
static void window_rule(struct vjp *v, const struct operation *op, uint32_t x, const int64_t *ints,
                        uint32_t g)
{
    struct tensor of = type_of(v, x);
    int64_t back[4 * PROGRAM_RANK_MAX], dims[PROGRAM_RANK_MAX];
    uint32_t n = 0;
    memcpy(back, ints, op->n_ints * sizeof *back);
    memcpy(back + op->n_ints, of.dims, of.rank * sizeof *back);
    for (uint32_t d = 0; d < of.rank; d++)
        if (ints[d] > 1) {
            dims[n] = of.rank + n;
            n++;
        }
    uint32_t product = window_product(v, &of, ints, g);
    if (product != PROGRAM_NONE) {
        vjp_pass(v, x, product);
        return;
    }
    g = lower_add(&v->l, OP_UNWINDOW, &g, 1, back, op->n_ints + of.rank, PROGRAM_NONE);
    vjp_pass(v, x, sum(v, g, dims, n));
}

/* Returns indices in range, as gather has them: no slice begins outside of x, or ends there. */
static uint32_t clamped_indices(struct vjp *v, uint32_t x, uint32_t indices, const int64_t *ints,
                                uint32_t n)
{
    struct tensor of = type_of(v, x), t = type_of(v, indices), vector = {.elem = t.elem, .rank = 1};
    struct gather slices;
    int64_t constant[2] = {v->l.p->data.n, 0}, dim = ints[4];
    uint8_t bytes[PROGRAM_RANK_MAX * 8];
    uint32_t size = program_elem_size(t.elem), k = 0;
    if (v->l.code || !VJP_EXPECT(v, gather_of(ints, n, &of, &t, &slices)))
        return 0;
    for (uint32_t d = 0; d < of.rank; d++)
        if (slices.start[d] >= 0) {
            program_elem_put(t.elem, (double)(of.dims[d] - slices.sizes[d]),
                             bytes + (uint32_t)slices.start[d] * size);
            k++;
        }
    for (uint32_t i = 0; i < k * size; i++)
        PUSH(v->l.p, v->l.p->data, bytes[i]);
    vector.dims[0] = k;
    bool has_vector = dim < t.rank;
    uint32_t most =
        lower_add(&v->l, OP_CONSTANT, NULL, 0, constant, 2, vjp_type(v, t.elem, 1, vector.dims));
    if (!has_vector) /* one component */
        most = lower_add(&v->l, OP_RESHAPE, &most, 1, NULL, 0, vjp_type(v, t.elem, 0, NULL));
    most = lower_add(&v->l, OP_BROADCAST, &most, 1, &dim, has_vector,
                     v->l.code ? 0 : v->l.p->values.at[indices]);
    return lower_add(&v->l, OP_CLAMP, (uint32_t[]){vjp_splat(v, indices, 0), indices, most}, 3,
                     NULL, 0, PROGRAM_NONE);
}

/* Returns, for each element of a scatter's updates, if its slice is inside of x. */
static uint32_t inside_of(struct vjp *v, const uint32_t *operands, const int64_t *ints, uint32_t n)
{
    struct tensor of = type_of(v, operands[0]), t = type_of(v, operands[1]),
                  updates = type_of(v, operands[2]), yes = {.elem = ELEM_I1};
    struct gather slices;
    int64_t dims[PROGRAM_RANK_MAX];
    uint32_t kept = 0, all = 0,
             same = compare(v, DIRECTION_EQ, operands[1],
                            clamped_indices(v, operands[0], operands[1], ints, n));
    if (v->l.code || !VJP_EXPECT(v, gather_of(ints, n, &of, &t, &slices)))
        return 0;
    if (ints[4] < t.rank) {
        v->l.code = program_splat(v->l.p, vjp_type(v, yes.elem, 0, NULL), 1, &all, v->l.e);
        same = lower_add(&v->l, OP_REDUCE, (uint32_t[]){same, all}, 2, (int64_t[]){OP_AND, ints[4]},
                         2, PROGRAM_NONE);
    }
    for (uint32_t d = 0; d < t.rank; d++)
        if (slices.at[d] >= 0)
            dims[kept++] = slices.at[d];
    return lower_add(&v->l, OP_BROADCAST, &same, 1, dims, kept,
                     vjp_type(v, ELEM_I1, updates.rank, updates.dims));
}

/* Follows gather_p: the slices back where they were, added up. */
static void gather_rule(struct vjp *v, const struct operation *op, const uint32_t *operands,
                        const int64_t *ints, uint32_t g)
{
    int64_t scatter[INTS_MAX + 1] = {OP_ADD};
    memcpy(scatter + 1, ints, op->n_ints * sizeof *ints);
    uint32_t use[] = {vjp_splat(v, operands[0], 0), operands[1], g};
    if (type_of(v, g).n) /* a clamped slice goes back to where it was read */
        use[1] = clamped_indices(v, operands[0], operands[1], ints, op->n_ints);
    vjp_pass(v, operands[0],
             lower_add(&v->l, OP_SCATTER, use, 3, scatter, op->n_ints + 1, PROGRAM_NONE));
}

/* Returns the slices of x at a scatter's indices; 0 for those outside of x. */
static uint32_t slices_of(struct vjp *v, const struct operation *op, uint32_t x,
                          const uint32_t *operands, const int64_t *ints)
{
    uint32_t found = lower_add(&v->l, OP_GATHER, (uint32_t[]){x, operands[1]}, 2, ints + 1,
                               op->n_ints - 1, PROGRAM_NONE);
    return v->l.code ? 0 : found;
}

/* Follows scatter_mul_p: with equal indices, updates have none. */
static void scaled_rule(struct vjp *v, const struct operation *op, const uint32_t *operands,
                        const int64_t *ints, uint32_t g)
{
    uint32_t x = operands[0], updates = operands[2];
    if (v->active[updates] && !ints[6]) {
        vjp_lacks(v, OP_SCATTER);
        return;
    }
    if (v->active[x])
        vjp_pass(v, x,
                 lower_add(&v->l, OP_SCATTER, (uint32_t[]){g, operands[1], updates}, 3, ints,
                           op->n_ints, PROGRAM_NONE));
    if (!v->active[updates])
        return;
    uint32_t inside = inside_of(v, operands, ints + 1, op->n_ints - 1),
             mine = slices_of(v, op, times(v, g, x), operands, ints);
    vjp_pass(v, updates, pick(v, inside, mine, vjp_splat(v, updates, 0)));
}

/* Follows scatter_max_p and scatter_min_p: equal shares to all that are the result. */
static void winners_rule(struct vjp *v, const struct operation *op, const uint32_t *operands,
                         const int64_t *ints, uint32_t g)
{
    uint32_t x = operands[0], updates = operands[2], y = op->results,
             none = vjp_splat(v, updates, 0);
    int64_t add[INTS_MAX];
    memcpy(add, ints, op->n_ints * sizeof *ints);
    add[0] = OP_ADD;
    uint32_t won = pick(v, compare(v, DIRECTION_EQ, updates, slices_of(v, op, y, operands, ints)),
                        vjp_splat(v, updates, 1), none);
    won = pick(v, inside_of(v, operands, ints + 1, op->n_ints - 1), won, none);
    uint32_t kept = pick(v, compare(v, DIRECTION_EQ, x, y), vjp_splat(v, x, 1), vjp_splat(v, x, 0)),
             all = lower_add(&v->l, OP_SCATTER, (uint32_t[]){kept, operands[1], won}, 3, add,
                             op->n_ints, PROGRAM_NONE),
             share = two(v, OP_DIVIDE, g, all);
    vjp_pass(v, x, times(v, kept, share));
    vjp_pass(v, updates, times(v, won, slices_of(v, op, share, operands, ints)));
}

/* Follows scatter_add_p and scatter_p: of several updates of an element, assignment has the last one. */
static void scatter_rule(struct vjp *v, const struct operation *op, const uint32_t *operands,
                         const int64_t *ints, uint32_t g)
{
    enum op kind = (enum op)ints[0];
    if (kind == OP_MULTIPLY || kind == OP_MAXIMUM || kind == OP_MINIMUM) {
        (kind == OP_MULTIPLY ? scaled_rule : winners_rule)(v, op, operands, ints, g);
        return;
    }
    uint32_t updates = operands[2],
             inside = v->active[operands[2]] ? inside_of(v, operands, ints + 1, op->n_ints - 1) : 0;
    if (kind == OP_ADD)
        vjp_pass(v, operands[0], g);
    else if (v->active[operands[0]])
        vjp_pass(v, operands[0],
                 lower_add(&v->l, OP_SCATTER,
                           (uint32_t[]){g, operands[1], vjp_splat(v, updates, 0)}, 3, ints,
                           op->n_ints, PROGRAM_NONE));
    if (!v->active[updates] || v->l.code)
        return;
    uint32_t mine = slices_of(v, op, g, operands, ints);
    if (kind == OP_SELECT && !ints[6]) { /* who wrote last? */
        struct tensor t = type_of(v, updates), whole = type_of(v, operands[0]),
                      flat = {.elem = ELEM_I64, .rank = 1, .dims = {t.n}};
        uint32_t ids = lower_add(&v->l, OP_IOTA, NULL, 0, (int64_t[]){0}, 1,
                                 vjp_type(v, flat.elem, 1, flat.dims));
        ids = lower_add(&v->l, OP_RESHAPE, &ids, 1, NULL, 0, vjp_type(v, ELEM_I64, t.rank, t.dims));
        uint32_t none = 0;
        if (!v->l.code)
            v->l.code = program_splat(v->l.p, vjp_type(v, ELEM_I64, whole.rank, whole.dims), -1,
                                      &none, v->l.e);
        uint32_t last = lower_add(&v->l, OP_SCATTER, (uint32_t[]){none, operands[1], ids}, 3, ints,
                                  op->n_ints, PROGRAM_NONE);
        last = slices_of(v, op, last, operands, ints);
        mine = v->l.code
                   ? 0
                   : pick(v, compare(v, DIRECTION_EQ, last, ids), mine, vjp_splat(v, updates, 0));
    }
    if (!v->l.code)
        mine = pick(v, inside, mine, vjp_splat(v, updates, 0));
    vjp_pass(v, updates, mine);
}

void vjp_rule(struct vjp *v, const struct operation *op, uint32_t g)
{
    uint32_t operands[PROGRAM_RANK_MAX + 2], x, y = op->results;
    int64_t ints[INTS_MAX], inverse[PROGRAM_RANK_MAX];
    v->l.line = op->line;
    if (!VJP_EXPECT(v, v->l.p->values.at[g] == v->l.p->values.at[y] && op->op != OP_WHILE))
        return;
    if (op->op == OP_CONCATENATE) { /* the only one with more operands */
        concatenate_rule(v, op, g);
        return;
    }
    if (!VJP_EXPECT(v, op->n_operands && op->n_operands <= PROGRAM_RANK_MAX + 2 &&
                           op->n_ints <= INTS_MAX))
        return;
    /* The program's arrays move when the rule adds operations. */
    memcpy(operands, v->l.p->operands.at + op->operands, op->n_operands * sizeof *operands);
    if (op->n_ints)
        memcpy(ints, v->l.p->ints.at + op->ints, op->n_ints * sizeof *ints);
    x = operands[0];
    switch (op->op) {
    case OP_SELECT: select_rule(v, operands, g); break;
    case OP_CLAMP: clamp_rule(v, operands, g); break;
    case OP_CONVERT: vjp_pass(v, x, of_elements(v, g, x)); break;
    case OP_BROADCAST: broadcast_rule(v, x, ints, g); break;
    case OP_RESHAPE: vjp_pass(v, x, shaped(v, g, x)); break;
    case OP_TRANSPOSE:
        for (uint32_t i = 0; i < op->n_ints; i++)
            inverse[ints[i]] = i;
        vjp_pass(v, x, transposed(v, g, inverse));
        break;
    case OP_REVERSE:
        vjp_pass(v, x, lower_add(&v->l, OP_REVERSE, &g, 1, ints, op->n_ints, PROGRAM_NONE));
        break;
    case OP_WINDOW: window_rule(v, op, x, ints, g); break;
    case OP_GATHER: gather_rule(v, op, operands, ints, g); break;
    case OP_SCATTER: scatter_rule(v, op, operands, ints, g); break;
    case OP_UNWINDOW:
    case OP_REDUCE_MANY:
    case OP_BITCAST: vjp_lacks(v, op->op); break;
    case OP_SLICE: slice_rule(v, x, ints, g); break;
    case OP_PAD: pad_rule(v, operands, ints, g); break;
    case OP_DYNAMIC_SLICE:
    case OP_DYNAMIC_UPDATE: dynamic_rule(v, op, operands, g); break;
    case OP_REDUCE: reduce_rule(v, op, operands, ints, g); break;
    case OP_DOT:
        for (uint32_t i = 0; i < 2; i++)
            if (v->active[operands[i]])
                vjp_pass(v, operands[i], dot_slope(v, ints, i, operands[i], operands[!i], g));
        break;
    default:
        if (op->n_operands == 1)
            unary_rule(v, op->op, x, y, g);
        else
            binary_rule(v, op->op, x, operands[1], y, g);
    }
}
