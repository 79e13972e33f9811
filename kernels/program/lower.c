/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lower.c - writes convolutions, windows, random numbers and sorts with simpler operations. read.c calls it.
 *
 * Thread: one at a time for a program; no other state.
 */
#include "kernels/program/lower.h"

#include <math.h>
#include <string.h>

#include "keygen/expect.h"

#define SCAN_MIN 512 /* elements of a row whose cumulative sums are written by doubling */

uint32_t lower_add(struct lower *l, enum op op, const uint32_t *operands, uint32_t n,
                   const int64_t *ints, uint32_t n_ints, uint32_t type)
{
    uint32_t out = 0;
    if (l->code == 0)
        l->code = program_add(l->p, &(struct new_op){op, l->line, operands, n, ints, n_ints, type},
                              &out, l->e);
    return out;
}

static uint32_t two(struct lower *l, enum op op, uint32_t x, uint32_t y)
{
    return lower_add(l, op, (uint32_t[]){x, y}, 2, NULL, 0, PROGRAM_NONE);
}

static struct tensor type_of(const struct lower *l, uint32_t value)
{
    return *program_tensor(l->p, value);
}

uint32_t lower_type(struct lower *l, struct tensor t)
{
    uint32_t type = 0;
    if (l->code == 0)
        l->code = program_type(l->p, &t, &type, l->e);
    return type;
}

static uint32_t splat(struct lower *l, struct tensor t, double x)
{
    uint32_t type = lower_type(l, t), out = 0;
    if (l->code == 0)
        l->code = program_splat(l->p, type, x, &out, l->e);
    return out;
}

uint32_t lower_scalar(struct lower *l, enum elem elem, double x)
{
    return splat(l, (struct tensor){.elem = elem}, x);
}

uint32_t lower_identity(struct lower *l, enum op reducer, enum elem elem)
{
    uint32_t out = 0;
    if (l->code == 0)
        l->code = program_identity(l->p, reducer, elem, &out, l->e);
    return out;
}

static uint32_t reshape(struct lower *l, uint32_t x, struct tensor t)
{
    uint32_t type = lower_type(l, t);
    return l->code || l->p->values.at[x] == type ? x
                                                 : lower_add(l, OP_RESHAPE, &x, 1, NULL, 0, type);
}

/* Returns x repeated: its dimensions are those of `t` from `first` on. */
static uint32_t spread(struct lower *l, uint32_t x, struct tensor t, uint32_t first)
{
    int64_t dims[PROGRAM_RANK_MAX];
    struct tensor of = type_of(l, x);
    (void)WARM_EXPECT(l->code || first + of.rank <= t.rank);
    for (uint32_t d = 0; d < of.rank; d++)
        dims[d] = first + d;
    t.elem = of.elem;
    return lower_add(l, OP_BROADCAST, &x, 1, dims, of.rank, lower_type(l, t));
}

uint32_t lower_gate(struct lower *l, uint32_t which, uint32_t x)
{
    struct tensor t = type_of(l, x);
    if (l->code || !program_is_float(t.elem))
        return x;
    uint32_t zero = splat(l, t, 0);
    return lower_add(l, OP_SELECT, (uint32_t[]){which, x, zero}, 3, NULL, 0, PROGRAM_NONE);
}

/* ---- windows ---- */

/* Returns x padded for its windows. */
static uint32_t padded(struct lower *l, uint32_t x, uint32_t padding, const struct windows *w)
{
    int64_t ints[3 * PROGRAM_RANK_MAX];
    uint32_t r = type_of(l, x).rank;
    bool any = false;
    for (uint32_t d = 0; d < r; d++) {
        ints[d] = w->low[d];
        ints[r + d] = w->high[d];
        ints[2 * r + d] = w->base[d] - 1;
        any |= ints[d] || ints[r + d] || ints[2 * r + d];
    }
    return any ? lower_add(l, OP_PAD, (uint32_t[]){x, padding}, 2, ints, 3 * r, PROGRAM_NONE) : x;
}

/* Fills the ints of WINDOW. Returns how many dimensions a window has. */
static uint32_t window_ints(const struct windows *w, uint32_t r, int64_t ints[3 * PROGRAM_RANK_MAX])
{
    uint32_t n = 0;
    for (uint32_t d = 0; d < r; d++) {
        ints[d] = w->size[d];
        ints[r + d] = w->stride[d];
        ints[2 * r + d] = w->dilation[d];
        n += w->size[d] > 1;
    }
    return n;
}

static uint32_t windowed(struct lower *l, uint32_t x, const struct windows *w, uint32_t *out_n)
{
    int64_t ints[3 * PROGRAM_RANK_MAX];
    uint32_t r = type_of(l, x).rank;
    *out_n = window_ints(w, r, ints);
    return lower_add(l, OP_WINDOW, &x, 1, ints, 3 * r, PROGRAM_NONE);
}

/* Returns the dimension of a cumulative window: from the first element to each, or from each to the last. -1. */
static int cumulative(const struct tensor *x, const struct windows *w)
{
    int found = -1;
    for (uint32_t d = 0; d < x->rank; d++) {
        int64_t n = x->dims[d], pad = w->low[d] + w->high[d];
        if (w->stride[d] != 1 || w->base[d] != 1)
            return -1;
        if (w->size[d] == 1 && pad == 0 && w->low[d] == 0)
            continue;
        if (found >= 0 || w->size[d] != n || w->dilation[d] != 1 || pad != n - 1 ||
            (w->low[d] && w->high[d]) || n < SCAN_MIN)
            return -1;
        found = (int)d;
    }
    return found;
}

/* Hillis and Steele, "Data parallel algorithms", CACM 29(12), 1986: after step i each element has 2^i ones. */
static uint32_t scan(struct lower *l, uint32_t x, uint32_t init, enum op reducer,
                     const struct windows *w, uint32_t dim)
{
    struct tensor t = type_of(l, x);
    uint32_t none = lower_identity(l, reducer, t.elem);
    for (int64_t step = 1; step < t.dims[dim] && !l->code; step *= 2) {
        int64_t ints[3 * PROGRAM_RANK_MAX] = {0};
        ints[dim] = w->low[dim] ? step : -step;
        ints[t.rank + dim] = -ints[dim];
        uint32_t moved =
            lower_add(l, OP_PAD, (uint32_t[]){x, none}, 2, ints, 3 * t.rank, PROGRAM_NONE);
        x = two(l, reducer, x, moved);
    }
    return two(l, reducer, x, spread(l, init, t, 0));
}

void lower_reduce_window(struct lower *l, const uint32_t *x, const uint32_t *init, uint32_t n,
                         enum op reducer, uint32_t function, const struct windows *w, uint32_t *out)
{
    int64_t ints[2 + PROGRAM_RANK_MAX] = {reducer};
    uint32_t operands[2 * SIDE_MAX], n_dims = 0, rank = type_of(l, x[0]).rank;
    struct tensor t = type_of(l, x[0]);
    int dim = function == PROGRAM_NONE ? cumulative(&t, w) : -1;
    if (dim >= 0) {
        out[0] = scan(l, x[0], init[0], reducer, w, (uint32_t)dim);
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        operands[i] = windowed(l, padded(l, x[i], init[i], w), w, &n_dims);
        operands[n + i] = init[i];
    }
    uint32_t fixed = function == PROGRAM_NONE ? 1 : 2;
    for (uint32_t i = 0; i < n_dims; i++)
        ints[fixed + i] = rank + i;
    for (uint32_t i = 0; i < n; i++) {
        if (function != PROGRAM_NONE) {
            ints[0] = function;
            ints[1] = i;
        }
        out[i] = lower_add(l, function == PROGRAM_NONE ? OP_REDUCE : OP_REDUCE_MANY, operands,
                           2 * n, ints, fixed + n_dims, PROGRAM_NONE);
    }
}

/* ---- side functions ---- */

/* Begins a side function on scalars, and returns a builder for it. */
static struct lower side_begin(struct lower *l, const enum elem *elems, uint32_t n, uint32_t *args)
{
    uint32_t types[4];
    (void)WARM_EXPECT(n <= 4);
    struct lower s = {.e = l->e, .code = l->code, .line = l->line};
    if (!l->code && !l->p->side && !(l->p->side = program_new()))
        s.code = err_set(l->e, WARM_ENOMEM, "a function");
    s.p = l->p->side;
    for (uint32_t i = 0; i < n && !s.code; i++)
        types[i] = lower_type(&s, (struct tensor){.elem = elems[i]});
    if (!s.code)
        s.code = program_func_begin(s.p, "side", types, n, args, s.e);
    return s;
}

/* Ends it, and returns its number. */
static uint32_t side_end(struct lower *l, struct lower *s, const uint32_t *results, uint32_t n)
{
    if (!s->code)
        s->code = program_func_end(s->p, results, n, s->e);
    l->code = s->code;
    return s->code ? 0 : s->p->functions.n - 1;
}

static uint32_t compared(struct lower *l, enum direction direction, bool total, uint32_t x,
                         uint32_t y)
{
    return lower_add(l, OP_COMPARE, (uint32_t[]){x, y}, 2, (int64_t[]){direction, total}, 2,
                     PROGRAM_NONE);
}

/* Adds the reducer of (value, place): the value that wins, of equal ones the first. */
static uint32_t winner(struct lower *l, enum elem elem, enum direction wins)
{
    uint32_t a = 0;
    struct lower s = side_begin(l, (enum elem[]){elem, ELEM_I32, elem, ELEM_I32}, 4, &a);
    enum direction strictly = wins == DIRECTION_GE ? DIRECTION_GT : DIRECTION_LT;
    uint32_t equal = two(&s, OP_AND, compared(&s, DIRECTION_EQ, false, a, a + 2),
                         compared(&s, DIRECTION_LT, false, a + 1, a + 3)),
             left = two(&s, OP_OR, compared(&s, strictly, false, a, a + 2), equal), results[2];
    for (uint32_t i = 0; i < 2; i++)
        results[i] = lower_add(&s, OP_SELECT, (uint32_t[]){left, a + i, a + 2 + i}, 3, NULL, 0,
                               PROGRAM_NONE);
    return side_end(l, &s, results, 2);
}

uint32_t lower_select_and_scatter(struct lower *l, uint32_t x, uint32_t source, uint32_t init,
                                  enum direction wins, const struct windows *w)
{
    struct tensor of = type_of(l, x);
    uint32_t function = winner(l, of.elem, wins), n = 0, r = of.rank;
    uint32_t none = lower_identity(l, wins == DIRECTION_GE ? OP_MAXIMUM : OP_MINIMUM, of.elem);
    uint32_t whole = padded(l, x, none, w), values = windowed(l, whole, w, &n);
    struct tensor wide = type_of(l, whole), t = type_of(l, values), places = t;
    int64_t ints[4 * PROGRAM_RANK_MAX] = {function, 1}, sums[1 + PROGRAM_RANK_MAX] = {OP_ADD},
                     back[3 * PROGRAM_RANK_MAX] = {0}, factor = 1;
    places.elem = ELEM_I32;
    uint32_t place = splat(l, places, 0); /* in a window, row-major */
    for (uint32_t d = t.rank; d-- > r && !l->code; factor *= t.dims[d]) {
        uint32_t iota = lower_add(l, OP_IOTA, NULL, 0, (int64_t[]){d}, 1, lower_type(l, places));
        place = two(l, OP_ADD, place, two(l, OP_MULTIPLY, iota, splat(l, places, (double)factor)));
    }
    for (uint32_t i = 0; i < n; i++)
        sums[1 + i] = ints[2 + i] = r + i;
    uint32_t chosen = lower_add(
        l, OP_REDUCE_MANY, (uint32_t[]){values, place, none, lower_scalar(l, ELEM_I32, INT32_MAX)},
        4, ints, 2 + n, PROGRAM_NONE);
    if (l->code)
        return 0;
    uint32_t hit = compared(l, DIRECTION_EQ, false, spread(l, chosen, t, 0), place);
    uint32_t moved =
        lower_add(l, OP_SELECT, (uint32_t[]){hit, spread(l, source, t, 0), splat(l, t, 0)}, 3, NULL,
                  0, PROGRAM_NONE);
    window_ints(w, r, ints);
    memcpy(ints + 3 * r, wide.dims, r * sizeof *ints);
    moved = lower_add(l, OP_UNWINDOW, &moved, 1, ints, 4 * r, PROGRAM_NONE);
    uint32_t zero = lower_scalar(l, of.elem, 0);
    moved = lower_add(l, OP_REDUCE, (uint32_t[]){moved, zero}, 2, sums, 1 + n, PROGRAM_NONE);
    for (uint32_t d = 0; d < r; d++) {
        back[d] = -w->low[d];
        back[r + d] = -w->high[d];
    }
    moved = lower_add(l, OP_PAD, (uint32_t[]){moved, zero}, 2, back, 3 * r, PROGRAM_NONE);
    return two(l, OP_ADD, moved, spread(l, init, of, 0));
}

/* ---- convolution ---- */

/* Returns x with dimension d divided into (groups, the rest), and changes the numbers of the dimensions behind it. */
static uint32_t grouped(struct lower *l, uint32_t x, int64_t d, int64_t groups, int64_t *dims,
                        uint32_t n)
{
    struct tensor t = type_of(l, x);
    if (l->code)
        return 0;
    if (groups < 1 || t.dims[d] % groups || t.rank == PROGRAM_RANK_MAX) {
        l->code = err_set(l->e, WARM_EINVALID, "convolution: the groups do not fit");
        return 0;
    }
    memmove(t.dims + d + 1, t.dims + d, (t.rank - (uint32_t)d) * sizeof *t.dims);
    t.dims[d] = groups;
    t.dims[d + 1] /= groups;
    t.rank++;
    for (uint32_t i = 0; i < n; i++)
        dims[i] += dims[i] >= d; /* the rest of d, too */
    return reshape(l, x, t);
}

uint32_t lower_convolution(struct lower *l, uint32_t x, uint32_t k, const struct convolution *c,
                           uint32_t type)
{
    struct tensor result = l->p->types.at[type];
    struct convolution v = *c;
    struct windows w;
    uint32_t n_window = 0, r, n = 2 + c->n;
    int64_t groups = c->feature_groups * c->batch_groups, dims[PROGRAM_RANK_MAX], n_reversed = 0;
    if (c->feature_groups < 1 || c->batch_groups < 1 ||
        (c->feature_groups > 1 && c->batch_groups > 1)) {
        l->code = err_set(l->e, WARM_EINVALID, "convolution: the groups do not fit");
        return 0;
    }
    int64_t *split = c->batch_groups > 1 ? &v.lhs[0] : &v.lhs[1], group_x = *split,
            group_k = v.rhs[1];
    if (groups > 1) {
        x = grouped(l, x, group_x, groups, v.lhs, n);
        k = grouped(l, k, group_k, groups, v.rhs, n);
    }
    r = type_of(l, x).rank;
    for (uint32_t d = 0; d < r; d++)
        w.size[d] = w.stride[d] = w.dilation[d] = w.base[d] = 1, w.low[d] = w.high[d] = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        int64_t d = v.lhs[2 + i];
        w.size[d] = type_of(l, k).dims[v.rhs[2 + i]];
        w.stride[d] = c->w.stride[i];
        w.dilation[d] = c->w.dilation[i];
        w.base[d] = c->w.base[i];
        w.low[d] = c->w.low[i];
        w.high[d] = c->w.high[i];
        if (c->reversed[i])
            dims[n_reversed++] = v.rhs[2 + i];
    }
    if (n_reversed)
        k = lower_add(l, OP_REVERSE, &k, 1, dims, (uint32_t)n_reversed, PROGRAM_NONE);
    if (l->code)
        return 0;
    x = windowed(l, padded(l, x, lower_scalar(l, type_of(l, x).elem, 0), &w), &w, &n_window);
    /* Windows of one element have no dimension: nor has the kernel then. */
    struct tensor kt = type_of(l, k);
    int64_t of_k[PROGRAM_RANK_MAX] = {0};
    uint32_t left = 0;
    for (uint32_t d = 0; d < kt.rank; d++) {
        bool gone = false;
        for (uint32_t i = 0; i < c->n; i++)
            gone |= v.rhs[2 + i] == d && kt.dims[d] == 1;
        of_k[d] = left;
        kt.dims[left] = kt.dims[d];
        left += !gone;
    }
    memset(kt.dims + left, 0, (PROGRAM_RANK_MAX - left) * sizeof *kt.dims);
    kt.rank = left;
    k = reshape(l, k, kt);
    /* batch: the groups; contracted: features and places in a window, last, in the order of x's memory */
    int64_t ints[2 + 4 * PROGRAM_RANK_MAX] = {groups > 1, 1 + n_window}, order[PROGRAM_RANK_MAX],
                         *of_x = ints + 2 + 2 * ints[0], *in_k = of_x + 1 + n_window, *at = in_k;
    uint32_t n_free = 0, n_in_order = r - 1;
    for (uint32_t d = 0, window = r; d < r; d++) {
        bool is_feature = d == v.lhs[1];
        order[is_feature ? n_in_order++ : n_free++] = d;
        if (is_feature)
            *at++ = of_k[v.rhs[0]];
        for (uint32_t i = 0; i < c->n; i++)
            if (v.lhs[2 + i] == d && w.size[d] > 1) {
                order[n_in_order++] = window++;
                *at++ = of_k[v.rhs[2 + i]];
            }
    }
    for (uint32_t i = 0; i <= n_window; i++)
        of_x[i] = n_free + i;
    if (groups > 1) {
        ints[2] = group_x - (v.lhs[1] < group_x);
        ints[3] = of_k[group_k];
    }
    /* The product has the groups, x's other dimensions in order, and the output features. */
    struct tensor product = {.elem = result.elem}, merged;
    int64_t perm[PROGRAM_RANK_MAX], from[PROGRAM_RANK_MAX] = {0}, in_order[PROGRAM_RANK_MAX];
    if (groups > 1)
        product.dims[product.rank++] = groups;
    struct tensor xt = type_of(l, x);
    x = lower_add(l, OP_TRANSPOSE, &x, 1, order, n_in_order, PROGRAM_NONE);
    for (uint32_t d = 0; d < r; d++) {
        bool is_free = d != v.lhs[1] && !(groups > 1 && d == group_x);
        from[d] = product.rank;
        if (is_free)
            product.dims[product.rank++] = xt.dims[d];
    }
    int64_t features = product.rank;
    product.dims[product.rank++] = result.dims[c->out[1]] / groups;
    if (l->code)
        return 0;
    uint32_t y = lower_add(l, OP_DOT, (uint32_t[]){x, k}, 2, ints,
                           (uint32_t)(in_k + 1 + n_window - ints), lower_type(l, product));
    in_order[c->out[0]] = from[v.lhs[0]];
    in_order[c->out[1]] = features;
    for (uint32_t i = 0; i < c->n; i++)
        in_order[c->out[2 + i]] = from[v.lhs[2 + i]];
    uint32_t m = 0;
    for (uint32_t d = 0; d < n; d++) {
        if (groups > 1 && d == c->out[1])
            perm[m++] = 0;
        perm[m++] = in_order[d];
    }
    y = lower_add(l, OP_TRANSPOSE, &y, 1, perm, m, PROGRAM_NONE);
    if (l->code)
        return 0;
    merged = type_of(l, y);
    return groups > 1 && merged.n == result.n ? reshape(l, y, result) : y;
}

/* ---- bits ---- */

/* Returns x's bytes as elements of the same size. */
static uint32_t as(struct lower *l, uint32_t x, enum elem elem)
{
    struct tensor t = type_of(l, x);
    t.elem = elem;
    return lower_add(l, OP_BITCAST, &x, 1, NULL, 0, lower_type(l, t));
}

static uint32_t converted(struct lower *l, uint32_t x, enum elem elem)
{
    struct tensor t = type_of(l, x);
    t.elem = elem;
    return lower_add(l, OP_CONVERT, &x, 1, NULL, 0, lower_type(l, t));
}

/* Returns x applied to a number. */
static uint32_t with(struct lower *l, enum op op, uint32_t x, double number)
{
    return two(l, op, x, splat(l, type_of(l, x), number));
}

static enum elem bits_of(enum elem elem)
{
    uint32_t size = program_elem_size(elem);
    return size == 1 ? ELEM_U8 : size == 2 ? ELEM_U16 : size == 4 ? ELEM_U32 : ELEM_U64;
}

/* Returns elements `start` to `limit` - 1 of a dimension. */
static uint32_t sliced(struct lower *l, uint32_t x, uint32_t dim, int64_t start, int64_t limit)
{
    struct tensor t = type_of(l, x);
    int64_t ints[3 * PROGRAM_RANK_MAX];
    (void)WARM_EXPECT(l->code || (dim < t.rank && start <= limit && limit <= t.dims[dim]));
    for (uint32_t d = 0; d < t.rank; d++) {
        ints[d] = d == dim ? start : 0;
        ints[t.rank + d] = d == dim ? limit : t.dims[d];
        ints[2 * t.rank + d] = 1;
    }
    return lower_add(l, OP_SLICE, &x, 1, ints, 3 * t.rank, PROGRAM_NONE);
}

/* Returns narrow elements as wide ones: the first of each row has the low bits. */
static uint32_t widened(struct lower *l, uint32_t x, struct tensor to)
{
    struct tensor t = type_of(l, x);
    enum elem wide = bits_of(to.elem), elem = to.elem;
    uint32_t bits = 8 * program_elem_size(t.elem), whole = 0;
    (void)WARM_EXPECT(l->code || (t.rank == to.rank + 1 && t.dims[to.rank] * bits <= 64));
    x = converted(l, as(l, x, bits_of(t.elem)), wide);
    to.elem = wide;
    for (int64_t i = 0; i < t.dims[t.rank - 1] && !l->code; i++) {
        uint32_t part = reshape(l, sliced(l, x, t.rank - 1, i, i + 1), to);
        part = with(l, OP_SHIFT_LEFT, part, (double)(i * bits));
        whole = i ? two(l, OP_OR, whole, part) : part;
    }
    return as(l, whole, elem);
}

/* Returns wide elements as rows of narrow ones. */
static uint32_t narrowed(struct lower *l, uint32_t x, struct tensor to)
{
    struct tensor t = to;
    int64_t dim = (int64_t)to.rank - 1;
    t.elem = bits_of(type_of(l, x).elem);
    uint32_t iota = lower_add(l, OP_IOTA, NULL, 0, &dim, 1, lower_type(l, t)),
             shift = with(l, OP_MULTIPLY, iota, 8.0 * program_elem_size(to.elem));
    x = two(l, OP_SHIFT_RIGHT, spread(l, as(l, x, t.elem), t, 0), shift);
    return as(l, converted(l, x, bits_of(to.elem)), to.elem);
}

uint32_t lower_bitcast(struct lower *l, uint32_t x, uint32_t type)
{
    struct tensor from = type_of(l, x), to = l->p->types.at[type];
    int64_t a = program_elem_size(from.elem), b = program_elem_size(to.elem);
    const struct tensor *longer = a < b ? &from : &to;
    int64_t row = longer->rank ? longer->dims[longer->rank - 1] : 0;
    bool is_row = from.rank + (a > b) == to.rank + (a < b) && row == (a < b ? b / a : a / b);
    for (uint32_t d = 0; is_row && d + 1 < longer->rank; d++)
        is_row = from.dims[d] == to.dims[d];
    if (a == b)
        return lower_add(l, OP_BITCAST, &x, 1, NULL, 0, type);
    if (!is_row || from.elem == ELEM_I1 || to.elem == ELEM_I1) {
        l->code = err_set(l->e, WARM_EINVALID, "bitcast_convert: the shapes do not fit");
        return 0;
    }
    return a < b ? widened(l, x, to) : narrowed(l, x, to);
}

/* ---- random bits ---- */

/* Fills the low and the high half of 64-bit elements. */
static void halves(struct lower *l, uint32_t x, uint32_t out[2])
{
    out[0] = converted(l, x, ELEM_U32);
    out[1] = converted(l, with(l, OP_SHIFT_RIGHT, x, 32), ELEM_U32);
}

/* Applies Philox4x32-10: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011. */
static void philox(struct lower *l, const uint32_t key[2], uint32_t c[4])
{
    static const double FACTORS[] = {0xD2511F53, 0xCD9E8D57};
    static const uint32_t STEPS[] = {0x9E3779B9, 0xBB67AE85};
    struct tensor t = type_of(l, c[0]);
    for (uint32_t round = 0; round < 10 && !l->code; round++) {
        uint32_t product[2][2], keys[2];
        for (uint32_t i = 0; i < 2; i++) {
            halves(l, with(l, OP_MULTIPLY, converted(l, c[2 * i], ELEM_U64), FACTORS[i]),
                   product[i]);
            keys[i] = spread(l, with(l, OP_ADD, key[i], (double)(round * STEPS[i])), t, 0);
        }
        c[0] = two(l, OP_XOR, two(l, OP_XOR, product[1][1], c[1]), keys[0]);
        c[2] = two(l, OP_XOR, two(l, OP_XOR, product[0][1], c[3]), keys[1]);
        c[1] = product[1][0];
        c[3] = product[0][0];
    }
}

/* Applies Threefry2x32-20, of the same paper. */
static void threefry(struct lower *l, const uint32_t key[2], uint32_t x[2])
{
    static const uint8_t TURNS[] = {13, 15, 26, 6, 17, 29, 16, 24};
    struct tensor t = type_of(l, x[0]);
    uint32_t third = with(l, OP_XOR, two(l, OP_XOR, key[0], key[1]), 0x1BD11BDA),
             keys[] = {key[0], key[1], third};
    for (uint32_t i = 0; i < 3; i++)
        keys[i] = spread(l, keys[i], t, 0);
    for (uint32_t round = 0; round <= 20 && !l->code; round++) {
        uint32_t turn = TURNS[round % 8], group = round / 4;
        if (round % 4 == 0) {
            x[0] = two(l, OP_ADD, x[0], keys[group % 3]);
            x[1] = with(l, OP_ADD, two(l, OP_ADD, x[1], keys[(group + 1) % 3]), group);
        }
        if (round == 20)
            return;
        x[0] = two(l, OP_ADD, x[0], x[1]);
        x[1] = two(l, OP_OR, with(l, OP_SHIFT_LEFT, x[1], turn),
                   with(l, OP_SHIFT_RIGHT, x[1], 32 - turn));
        x[1] = two(l, OP_XOR, x[0], x[1]);
    }
}

/* Returns the 64-bit number at a place of the state. */
static uint32_t state_at(struct lower *l, uint32_t state, int64_t at)
{
    return reshape(l, sliced(l, state, 0, at, at + 1), (struct tensor){.elem = ELEM_U64});
}

/* Returns counter + 0, 1, ..., n - 1. */
static uint32_t counted(struct lower *l, uint32_t counter, int64_t n)
{
    struct tensor t = {.elem = ELEM_U64, .rank = 1, .dims = {n}};
    uint32_t iota = lower_add(l, OP_IOTA, NULL, 0, (int64_t[]){0}, 1, lower_type(l, t));
    return two(l, OP_ADD, spread(l, counter, t, 0), iota);
}

/* Returns high + 1 where low has passed 2^64, as `sum` shows. */
static uint32_t carried(struct lower *l, uint32_t high, uint32_t low, uint32_t sum)
{
    struct tensor t = type_of(l, sum);
    uint32_t passed = compared(l, DIRECTION_LT, false, sum, spread(l, low, t, 0));
    return two(l, OP_ADD, spread(l, high, t, 0), converted(l, passed, ELEM_U64));
}

/* Returns n rows of words, in order, as one row. Each is as long as the first. */
static uint32_t interleaved(struct lower *l, const uint32_t *words, uint32_t n, int64_t outer,
                            int64_t inner)
{
    uint32_t rows[4];
    struct tensor t = type_of(l, words[0]), row = {.elem = t.elem, .rank = 3};
    row.dims[0] = outer;
    row.dims[1] = 1;
    row.dims[2] = inner;
    (void)WARM_EXPECT(l->code || (n <= 4 && outer * inner == t.dims[0]));
    for (uint32_t i = 0; i < n; i++)
        rows[i] = reshape(l, words[i], row);
    uint32_t all = lower_add(l, OP_CONCATENATE, rows, n, (int64_t[]){1}, 1, PROGRAM_NONE);
    return reshape(l, all, (struct tensor){t.elem, 1, {t.dims[0] * n}, 0});
}

/* Returns n words that Philox makes of counters, and the next state. A state of two numbers has the key in its counter,
 * and XLA's order of both. */
static uint32_t philox_words(struct lower *l, uint32_t state, int64_t n, uint32_t *next)
{
    int64_t blocks = (n + 3) / 4, size = type_of(l, state).dims[0];
    uint32_t key = state_at(l, state, 0), low = state_at(l, state, 1), keys[2], c[4],
             high = state_at(l, state, size > 2 ? 2 : 0), sum = counted(l, low, blocks);
    (void)WARM_EXPECT(l->code || size == 2 || size == 3); /* lower_random sees to it */
    struct tensor one = {.elem = ELEM_U64, .rank = 1, .dims = {1}};
    halves(l, key, keys);
    halves(l, sum, c);
    halves(l, carried(l, high, low, sum), c + 2);
    philox(l, keys, c);
    uint32_t then = with(l, OP_ADD, low, (double)blocks),
             parts[] = {key, then, carried(l, high, low, then)};
    for (uint32_t i = 0; i < 3; i++)
        parts[i] = reshape(l, parts[i], one);
    *next = lower_add(l, OP_CONCATENATE, parts, (uint32_t)size, (int64_t[]){0}, 1, PROGRAM_NONE);
    return sliced(l, interleaved(l, c, 4, blocks, 1), 0, 0, n);
}

/* Returns the dimension that Threefry's two words alternate in, as XLA has it: the first that is even, or the
 * longest. */
static uint32_t alternating(const struct tensor *t)
{
    uint32_t longest = 0;
    for (uint32_t d = 0; d < t->rank; d++)
        if (t->dims[d] % 2 == 0)
            return d;
    for (uint32_t d = 0; d < t->rank; d++)
        longest = t->dims[d] > t->dims[longest] ? d : longest;
    return longest;
}

/* Returns the words of elements of a type; of 64-bit ones, two words each; and the next state. */
static uint32_t threefry_words(struct lower *l, uint32_t state, const struct tensor *t,
                               uint32_t *next)
{
    uint32_t dim = alternating(t), keys[2], x[2], key = state_at(l, state, 0),
             counter = state_at(l, state, 1);
    int64_t outer = 1, inner = 1, n = t->rank ? t->dims[dim] : 1, half = (n + 1) / 2;
    (void)WARM_EXPECT(l->code || dim < t->rank || t->rank == 0);
    for (uint32_t d = 0; d < dim; d++)
        outer *= t->dims[d];
    for (uint32_t d = dim + 1; d < t->rank; d++)
        inner *= t->dims[d];
    bool wide = program_elem_size(t->elem) == 8;
    int64_t counters = wide ? t->n : outer * half * inner;
    halves(l, key, keys);
    halves(l, counted(l, counter, counters), x);
    threefry(l, keys, x);
    struct tensor one = {.elem = ELEM_U64, .rank = 1, .dims = {1}};
    uint32_t parts[] = {reshape(l, key, one),
                        reshape(l, with(l, OP_ADD, counter, (double)counters), one)};
    *next = lower_add(l, OP_CONCATENATE, parts, 2, (int64_t[]){0}, 1, PROGRAM_NONE);
    if (wide)
        return interleaved(l, x, 2, t->n, 1);
    uint32_t all = interleaved(l, x, 2, outer * half, inner);
    all = reshape(l, all, (struct tensor){ELEM_U32, 3, {outer, 2 * half, inner}, 0});
    return sliced(l, all, 1, 0, n);
}

void lower_random(struct lower *l, uint32_t state, bool is_philox, uint32_t type, uint32_t out[2])
{
    struct tensor of = type_of(l, state), t = l->p->types.at[type], words = t;
    uint32_t size = program_elem_size(t.elem);
    if (of.elem != ELEM_U64 || of.rank != 1 || t.elem == ELEM_I1 ||
        (of.dims[0] != 2 && !(is_philox && of.dims[0] == 3))) {
        l->code = err_set(l->e, WARM_EINVALID, "rng_bit_generator: the state does not fit");
        return;
    }
    uint32_t x = is_philox ? philox_words(l, state, size == 8 ? 2 * t.n : t.n, &out[0])
                           : threefry_words(l, state, &t, &out[0]);
    words.elem = ELEM_U32;
    if (size == 8)
        words.dims[words.rank++] = 2;
    x = reshape(l, x, words);
    if (size < 4)
        x = converted(l, x, bits_of(t.elem));
    out[1] = l->code ? 0 : lower_bitcast(l, x, type);
}

/* ---- functions ---- */

/* Returns from - x, or from / x. */
static uint32_t from(struct lower *l, double number, enum op op, uint32_t x)
{
    return two(l, op, splat(l, type_of(l, x), number), x);
}

static uint32_t picked(struct lower *l, uint32_t which, uint32_t x, uint32_t y)
{
    return lower_add(l, OP_SELECT, (uint32_t[]){which, x, y}, 3, NULL, 0, PROGRAM_NONE);
}

/* Returns a fraction of z's type. */
static uint32_t fraction(struct lower *l, uint32_t z, const double of[2])
{
    return with(l, OP_DIVIDE, splat(l, type_of(l, z), of[0]), of[1]);
}

/* Adds to the bits: without the sign they grow with the size. So the next number has one more or one less; from 0 on it is the least. */
uint32_t lower_next_after(struct lower *l, uint32_t x, uint32_t y)
{
    struct tensor t = type_of(l, x);
    enum elem whole = bits_of(t.elem);
    double top = ldexp(1, (int)(8 * program_elem_size(t.elem)) - 1); /* the sign's bit */
    uint32_t a = as(l, x, whole), of_y = with(l, OP_AND, as(l, y, whole), top),
             zero = splat(l, t, 0), up = compared(l, DIRECTION_LT, false, x, y),
             positive = compared(l, DIRECTION_GT, false, x, zero),
             grows = compared(l, DIRECTION_EQ, false, up, positive);
    uint32_t next = picked(l, grows, with(l, OP_ADD, a, 1), with(l, OP_SUBTRACT, a, 1)),
             least = with(l, OP_OR, of_y, 1);
    next = picked(l, compared(l, DIRECTION_EQ, false, x, zero), least, next);
    next = picked(l, compared(l, DIRECTION_EQ, false, x, y), y, as(l, next, t.elem));
    uint32_t sum = two(l, OP_ADD, x, y); /* NaN if one of them is */
    uint32_t none = two(l, OP_OR, compared(l, DIRECTION_NE, false, x, x),
                        compared(l, DIRECTION_NE, false, y, y));
    return picked(l, none, sum, next);
}

/* Returns digamma(z) for z >= 0.5: the asymptotic series at z + 10 (Abramowitz and Stegun, 6.3.18), minus 1 / z, ...,
 * 1 / (z + 9) (6.3.6). */
static uint32_t digamma_of_large(struct lower *l, uint32_t z)
{
    /* Bernoulli numbers B(2k) / 2k, as fractions, which f32 has; the next term is below 2^-56 from 10.5 on */
    static const double TERMS[][2] = {{1, 12},  {-691, 32760}, {1, 132}, {-1, 240},
                                      {1, 252}, {-1, 120},     {1, 12}};
    uint32_t y = with(l, OP_ADD, z, 10), r = from(l, 1, OP_DIVIDE, two(l, OP_MULTIPLY, y, y)),
             tail = splat(l, type_of(l, z), 0), sum = from(l, 0.5, OP_DIVIDE, y);
    for (uint32_t i = 0; i < sizeof TERMS / sizeof *TERMS; i++)
        tail = two(l, OP_MULTIPLY, two(l, OP_ADD, tail, fraction(l, z, TERMS[i])), r);
    sum = two(l, OP_ADD, sum, tail);
    for (uint32_t i = 10; i-- > 0;)
        sum = two(l, OP_ADD, sum, from(l, 1, OP_DIVIDE, with(l, OP_ADD, z, i)));
    uint32_t log = lower_add(l, OP_LOG, &y, 1, NULL, 0, PROGRAM_NONE);
    return two(l, OP_SUBTRACT, log, sum);
}

uint32_t lower_digamma(struct lower *l, uint32_t x)
{
    enum elem elem = type_of(l, x).elem;
    bool half = program_elem_size(elem) == 2;
    x = half ? converted(l, x, ELEM_F32) : x;
    struct tensor t = type_of(l, x);
    /* psi(x) = psi(1 - x) - pi / tan(pi x): 6.3.7. Where that is not used, nothing in it is infinite. */
    uint32_t low = compared(l, DIRECTION_LT, false, x, splat(l, t, 0.5)),
             whole = lower_add(l, OP_ROUND, &x, 1, NULL, 0, PROGRAM_NONE),
             rest = picked(l, low, two(l, OP_SUBTRACT, x, whole), splat(l, t, 0.25)),
             pi = with(l, OP_ADD, splat(l, t, (float)M_PI), M_PI - (double)(float)M_PI),
             turn = two(l, OP_MULTIPLY, rest, pi),
             pole = compared(l, DIRECTION_EQ, false, rest, splat(l, t, 0));
    uint32_t y = digamma_of_large(l, picked(l, low, from(l, 1, OP_SUBTRACT, x), x));
    turn = lower_add(l, OP_TAN, &turn, 1, NULL, 0, PROGRAM_NONE);
    uint32_t mirrored = two(l, OP_SUBTRACT, y, two(l, OP_DIVIDE, pi, turn));
    y = picked(l, pole, splat(l, t, NAN), picked(l, low, mirrored, y));
    return half ? converted(l, y, elem) : y;
}

/* ---- sorting ---- */

/* Returns the dimension numbers that take one element of each row: GATHER's. */
static uint32_t take_ints(uint32_t rank, int64_t dim, int64_t *ints)
{
    uint32_t n = 0;
    (void)WARM_EXPECT(dim >= 0 && dim < rank);
    int64_t fixed[] = {0, 1, rank - 1, 1, rank, 1};
    memcpy(ints, fixed, sizeof fixed);
    n = 6;
    ints[n++] = dim;
    for (int twice = 0; twice < 2; twice++)
        for (uint32_t d = 0; d < rank; d++)
            if (d != dim)
                ints[n++] = d;
    ints[n++] = dim;
    for (uint32_t d = 0; d < rank; d++)
        ints[n++] = 1;
    return n;
}

/* Returns, by place in its sorted row, where the element was. */
static uint32_t order_of(struct lower *l, const uint32_t *x, uint32_t n, uint32_t function,
                         int64_t dim)
{
    int64_t ints[1 + 6 + 4 * PROGRAM_RANK_MAX + 2] = {OP_SELECT};
    uint32_t rank = lower_add(l, OP_RANK, x, n, (int64_t[]){function, dim}, 2, PROGRAM_NONE);
    if (l->code)
        return 0;
    struct tensor t = type_of(l, rank);
    uint32_t n_ints = take_ints(t.rank, dim, ints + 1), zeros = splat(l, t, 0);
    uint32_t iota = lower_add(l, OP_IOTA, NULL, 0, &dim, 1, lower_type(l, t));
    return lower_add(l, OP_SCATTER, (uint32_t[]){zeros, rank, iota}, 3, ints, 1 + n_ints,
                     PROGRAM_NONE);
}

static uint32_t taken(struct lower *l, uint32_t x, uint32_t order, int64_t dim)
{
    int64_t ints[6 + 4 * PROGRAM_RANK_MAX + 2];
    uint32_t n_ints = l->code ? 0 : take_ints(type_of(l, x).rank, dim, ints);
    return lower_add(l, OP_GATHER, (uint32_t[]){x, order}, 2, ints, n_ints, PROGRAM_NONE);
}

void lower_sort(struct lower *l, const uint32_t *x, uint32_t n, uint32_t function, int64_t dim,
                uint32_t *out)
{
    uint32_t order = order_of(l, x, n, function, dim);
    for (uint32_t i = 0; i < n; i++)
        out[i] = taken(l, x[i], order, dim);
}

void lower_top_k(struct lower *l, uint32_t x, int64_t k, uint32_t out[2])
{
    struct tensor t = type_of(l, x);
    uint32_t a = 0;
    int64_t dim = (int64_t)t.rank - 1, ints[3 * PROGRAM_RANK_MAX];
    if (t.rank == 0 || k < 0 || k > t.dims[dim]) {
        l->code = err_set(l->e, WARM_EINVALID, "top_k: more elements than a row has");
        return;
    }
    struct lower s = side_begin(l, (enum elem[]){t.elem, t.elem}, 2, &a);
    uint32_t greater = s.code ? 0 : compared(&s, DIRECTION_GT, program_is_float(t.elem), a, a + 1);
    uint32_t function = side_end(l, &s, &greater, 1), order = order_of(l, &x, 1, function, dim);
    for (uint32_t d = 0; d < t.rank; d++) {
        ints[d] = 0;
        ints[t.rank + d] = d == dim ? k : t.dims[d];
        ints[2 * t.rank + d] = 1;
    }
    order = lower_add(l, OP_SLICE, &order, 1, ints, 3 * t.rank, PROGRAM_NONE);
    out[0] = l->code ? 0 : taken(l, x, order, dim);
    out[1] = order;
}
