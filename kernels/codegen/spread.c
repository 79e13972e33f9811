/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spread.c - replaces reductions and products of matrices by trees of them. program_spread calls it for each
 * operation.
 *
 * Thread: one at a time for a program; no other state.
 */
#include "kernels/codegen/spread.h"

#include <string.h>

#include "keygen/expect.h"

#include "kernels/codegen/tiled.h"
#include "kernels/program/gather.h"
#include "kernels/program/lower.h"

static struct tensor type_of(const struct lower *t, uint32_t value)
{
    return *program_tensor(t->p, value);
}

static int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }

/* Returns the number of elements along some dimensions. */
static int64_t along(const struct tensor *x, const int64_t *dims, uint32_t n)
{
    int64_t product = 1;
    for (uint32_t i = 0; i < n; i++)
        product *= x->dims[dims[i]];
    return product;
}

/* How a level divides dimensions: those in `whole` go into the chain, and a part of one more. */
struct cut {
    uint32_t n_whole; /* the first ones of the list */
    bool splits;      /* the next one is divided: `size` of its elements go into the chain */
    int64_t size, parts;
};

/* Divides dimensions so that a chain has at most `chain` elements. */
static struct cut cut_of(const struct tensor *x, const int64_t *dims, uint32_t n, int64_t chain)
{
    struct cut c = {0, false, 1, 1};
    for (; c.n_whole < n && x->dims[dims[c.n_whole]] <= chain; c.n_whole++)
        chain /= x->dims[dims[c.n_whole]] ? x->dims[dims[c.n_whole]] : 1;
    if (c.n_whole < n && chain > 1) {
        int64_t size = x->dims[dims[c.n_whole]];
        c.splits = true;
        c.parts = (size + chain - 1) / chain;
        c.size = (size + c.parts - 1) / c.parts;
        (void)WARM_EXPECT(c.size <= chain && c.parts * c.size >= size);
    }
    return c;
}

/* Returns x with dimension d divided: padded to parts * size elements, then windows of them. A part has elements
 * that follow one another, or every parts-th one. Its place is the last dimension. */
static uint32_t divided(struct lower *t, uint32_t x, uint32_t d, const struct cut *c, bool follow,
                        uint32_t padding)
{
    struct tensor of = type_of(t, x);
    int64_t ints[3 * PROGRAM_RANK_MAX] = {0};
    uint32_t r = of.rank;
    if (!WARM_EXPECT(d < r && c->splits))
        return x;
    ints[r + d] = c->parts * c->size - of.dims[d];
    if (ints[r + d])
        x = lower_add(t, OP_PAD, (uint32_t[]){x, padding}, 2, ints, 3 * r, PROGRAM_NONE);
    for (uint32_t i = 0; i < 3 * r; i++)
        ints[i] = 1;
    ints[d] = c->size;
    ints[r + d] = follow ? c->size : 1;
    ints[2 * r + d] = follow ? 1 : c->parts;
    return lower_add(t, OP_WINDOW, &x, 1, ints, 3 * r, PROGRAM_NONE);
}

/* Writes one level of a reduction, and changes `dims` to those that are left. */
static uint32_t level(struct lower *t, enum op reducer, uint32_t x, int64_t *dims, uint32_t *n)
{
    struct tensor of = type_of(t, x);
    uint32_t left = 0, start = lower_identity(t, reducer, of.elem);
    struct cut c = cut_of(&of, dims, *n, of.n >= SPREAD_LARGE ? SPREAD_CHAIN : SPREAD_CHAIN_SMALL);
    int64_t ints[2 + PROGRAM_RANK_MAX] = {reducer};
    memcpy(ints + 1, dims, c.n_whole * sizeof *dims);
    if (c.splits) {
        x = divided(t, x, (uint32_t)dims[c.n_whole], &c, false, start);
        ints[1 + c.n_whole] = of.rank;
    }
    for (uint32_t i = c.n_whole; i < *n; i++) /* their numbers without those that are gone */
        dims[left++] = dims[i] - c.n_whole;
    (void)WARM_EXPECT(left < *n || c.splits); /* each level has fewer elements */
    *n = left;
    return lower_add(t, OP_REDUCE, (uint32_t[]){x, start}, 2, ints, 1 + c.n_whole + c.splits,
                     PROGRAM_NONE);
}

static uint32_t reduce(struct lower *t, enum op reducer, uint32_t x, uint32_t start, int64_t *dims,
                       uint32_t n)
{
    int64_t ints[1 + PROGRAM_RANK_MAX] = {reducer};
    struct tensor of = type_of(t, x);
    while (t->code == 0 && of.n > 0 && along(&of, dims, n) > SPREAD_CHAIN) {
        x = level(t, reducer, x, dims, &n);
        of = type_of(t, x);
    }
    memcpy(ints + 1, dims, n * sizeof *dims);
    return lower_add(t, OP_REDUCE, (uint32_t[]){x, start}, 2, ints, 1 + n, PROGRAM_NONE);
}

/* Returns the products of a chain; 0 if the whole sum is one. Sets *follow if it is for tiles. */
static int64_t chain_of(const struct tiled *s, bool *follow)
{
    int64_t outputs = s->batch * s->m * s->n, tiles = tiled_blocks(s);
    *follow = tiled_fits(s);
    if (tiled_pays(s))
        return s->k > SPREAD_TILE_PRODUCTS ? SPREAD_TILE_PRODUCTS : 0;
    int64_t parts = min((SPREAD_TILES + tiles - 1) / tiles, s->k / SPREAD_PRODUCTS);
    if (*follow && parts * tiles >= TILED_TILES_MIN)
        return min((s->k + parts - 1) / parts, SPREAD_TILE_PRODUCTS);
    *follow = false;
    int64_t chain = SPREAD_PRODUCTS;
    if (s->k <= chain && (outputs >= SPREAD_THREADS || outputs * s->k <= 2 * SPREAD_THREADS))
        return 0;
    while (chain > SPREAD_CHAIN_SMALL && outputs * (s->k / chain) < SPREAD_THREADS)
        chain /= 2;
    return s->k > chain ? chain : 0;
}

/* Makes one dimension of those that a product contracts, which is the last one of each operand. */
static void join_contracted(struct lower *t, uint32_t operands[2], int64_t *ints)
{
    int64_t out[4 + 2 * PROGRAM_RANK_MAX] = {ints[0], 1}, b = ints[0];
    for (uint32_t side = 0; side < 2 && t->code == 0; side++) {
        struct tensor of = type_of(t, operands[side]), joined = {.elem = of.elem};
        struct dot_side s = program_dot_side(ints, side, of.rank);
        int64_t perm[PROGRAM_RANK_MAX];
        uint32_t n = s.n_batch + s.n_free;
        memcpy(perm, s.batch, s.n_batch * sizeof *perm);
        memcpy(perm + b, s.free, s.n_free * sizeof *perm);
        memcpy(perm + n, s.contracted, s.n_contracted * sizeof *perm);
        for (uint32_t i = 0; i < n; i++)
            joined.dims[joined.rank++] = of.dims[perm[i]];
        joined.dims[joined.rank++] = along(&of, s.contracted, s.n_contracted);
        uint32_t type = lower_type(t, joined);
        (void)WARM_EXPECT(t->code || t->p->types.at[type].n == of.n);
        operands[side] =
            lower_add(t, OP_TRANSPOSE, &operands[side], 1, perm, of.rank, PROGRAM_NONE);
        operands[side] = lower_add(t, OP_RESHAPE, &operands[side], 1, NULL, 0, type);
        for (int64_t i = 0; i < b; i++)
            out[2 + side * b + i] = i;
        out[2 + 2 * b + side] = n;
    }
    memcpy(ints, out, (size_t)(4 + 2 * b) * sizeof *ints);
}

/* Writes a product of matrices: products of parts of the sum, and the sum of those. */
static uint32_t product(struct lower *t, const struct new_op *op, uint32_t type)
{
    uint32_t operands[2] = {op->operands[0], op->operands[1]};
    struct tensor x = type_of(t, operands[0]), y = type_of(t, operands[1]),
                  sums = t->p->types.at[type];
    int64_t ints[2 + 4 * PROGRAM_RANK_MAX], b = op->ints[0];
    struct tiled sizes = tiled_of(&x, &y, op->ints);
    struct cut cut = {0};
    bool follow = false;
    int64_t chain = x.n == 0 || y.n == 0 ? 0 : chain_of(&sizes, &follow);
    if (!chain || sums.rank == PROGRAM_RANK_MAX)
        return lower_add(t, OP_DOT, operands, 2, op->ints, op->n_ints, type);
    memcpy(ints, op->ints, op->n_ints * sizeof *ints);
    if (ints[1] > 1)
        join_contracted(t, operands, ints);
    int64_t out[6 + 2 * PROGRAM_RANK_MAX] = {b + 1, 1};
    for (uint32_t side = 0; side < 2 && t->code == 0; side++) {
        struct tensor of = type_of(t, operands[side]);
        const int64_t *contracted = ints + 2 + 2 * b + side;
        uint32_t zero = lower_identity(t, OP_OR, of.elem);
        cut = cut_of(&of, contracted, 1, chain);
        operands[side] = divided(t, operands[side], (uint32_t)*contracted, &cut, follow, zero);
        memcpy(out + 2 + side * (b + 1), ints + 2 + side * b, (size_t)b * sizeof *out);
        out[2 + side * (b + 1) + b] = *contracted; /* the parts: one more batch dimension */
        out[4 + 2 * b + side] = of.rank;
    }
    memmove(sums.dims + b + 1, sums.dims + b, (sums.rank++ - (uint32_t)b) * sizeof *sums.dims);
    sums.dims[b] = cut.parts;
    uint32_t of_parts =
        lower_add(t, OP_DOT, operands, 2, out, (uint32_t)(6 + 2 * b), lower_type(t, sums));
    return reduce(t, OP_ADD, of_parts, lower_identity(t, OP_ADD, sums.elem), &b, 1);
}

/* Returns the type with f32 in place of its elements. */
static uint32_t wide_type(struct lower *t, uint32_t type)
{
    struct tensor wide = t->p->types.at[type];
    wide.elem = ELEM_F32;
    return lower_type(t, wide);
}

static uint32_t converted(struct lower *t, uint32_t x, uint32_t type)
{
    return lower_add(t, OP_CONVERT, &x, 1, NULL, 0, type);
}

/* Writes a reduction of several tensors: each level has an operation for each of them. The order of the elements
 * stays: a reducer need not be commutative. */
static uint32_t reduce_many(struct lower *t, const struct new_op *op)
{
    uint32_t m = op->n_operands / 2, n = op->n_ints - 2, x[2 * SIDE_MAX], next[SIDE_MAX];
    int64_t dims[PROGRAM_RANK_MAX], ints[3 + PROGRAM_RANK_MAX] = {op->ints[0], op->ints[1]};
    memcpy(x, op->operands, op->n_operands * sizeof *x);
    memcpy(dims, op->ints + 2, n * sizeof *dims);
    for (;;) {
        struct tensor of = type_of(t, x[0]);
        if (t->code || of.n == 0 || along(&of, dims, n) <= SPREAD_CHAIN)
            break;
        int64_t chain = of.n >= SPREAD_LARGE ? SPREAD_CHAIN : SPREAD_CHAIN_SMALL;
        struct cut c = cut_of(&of, dims + n - 1, 1, chain);
        ints[2] = c.splits ? of.rank : dims[n - 1];
        for (uint32_t i = 0; c.splits && i < m; i++)
            x[i] = divided(t, x[i], (uint32_t)dims[n - 1], &c, true, x[m + i]);
        for (uint32_t i = 0; i < m; i++) {
            ints[1] = i;
            next[i] = lower_add(t, OP_REDUCE_MANY, x, 2 * m, ints, 3, PROGRAM_NONE);
        }
        memcpy(x, next, m * sizeof *x);
        n -= !c.splits;
    }
    ints[1] = op->ints[1];
    memcpy(ints + 2, dims, n * sizeof *dims);
    return lower_add(t, OP_REDUCE_MANY, x, 2 * m, ints, 2 + n, op->type);
}

/* Writes a scatter with chains of the slices that have equal indices, if there may be any. */
static uint32_t scatter(struct lower *t, const struct new_op *op)
{
    struct tensor x = type_of(t, op->operands[0]), indices = type_of(t, op->operands[1]);
    struct gather g;
    uint32_t operands[4];
    if (!WARM_EXPECT(op->n_operands == 3 || op->n_operands == 4))
        return 0;
    memcpy(operands, op->operands, 3 * sizeof *operands);
    bool fits = gather_of(op->ints + 1, op->n_ints - 1, &x, &indices, &g);
    int64_t n = fits ? gather_count(&g, &indices) : 0;
    bool chains = n > 1 && !g.unique && !g.overlaps && op->n_operands == 3;
    if (chains)
        operands[3] =
            lower_add(t, OP_CHAIN, operands + 1, 2, op->ints + 1, op->n_ints - 1, PROGRAM_NONE);
    return lower_add(t, OP_SCATTER, operands, chains ? 4 : op->n_operands, op->ints, op->n_ints,
                     op->type);
}

int spread_add(struct program *p, const struct new_op *op, uint32_t *out, struct err *e)
{
    struct lower t = {.p = p, .e = e, .line = op->line};
    int64_t dims[PROGRAM_RANK_MAX];
    bool reduces = op->op == OP_REDUCE && op->n_ints > 1;
    if (op->op == OP_REDUCE_MANY || op->op == OP_SCATTER) {
        *out = op->op == OP_SCATTER ? scatter(&t, op) : reduce_many(&t, op);
        return t.code;
    }
    if (!reduces && op->op != OP_DOT)
        return program_add(p, op, out, e);
    enum elem elem = p->types.at[op->type].elem;
    bool half = elem == ELEM_F16 || elem == ELEM_BF16;
    uint32_t type = half ? wide_type(&t, op->type) : op->type, x[2];
    memcpy(x, op->operands, sizeof x);
    for (int i = 0; reduces && half && i < 2; i++)
        x[i] = converted(&t, x[i], wide_type(&t, p->values.at[x[i]]));
    if (reduces)
        memcpy(dims, op->ints + 1, (op->n_ints - 1) * sizeof *dims);
    if (t.code == 0)
        *out = reduces ? reduce(&t, (enum op)op->ints[0], x[0], x[1], dims, op->n_ints - 1)
                       : product(&t, op, type);
    if (half)
        *out = converted(&t, *out, op->type);
    return t.code;
}
