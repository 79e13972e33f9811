/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lower.h - operations of StableHLO that the program has no operation for, written with those that it has. For
 * read.c, codegen/spread.c, and the derivative of lgamma. Each follows its section of the StableHLO specification.
 *
 *     convolution          products of windows: pad, WINDOW, dot_general, transpose
 *     reduce_window        pad, WINDOW, reduce; cumulative ones of long rows by doubling
 *     select_and_scatter   the place of each window's element, then UNWINDOW and sums
 *     rng_bit_generator    Philox4x32-10 or Threefry2x32-20 on numbers of elements: whole numbers, products of 64 bits
 *     bitcast_convert      of elements of another size: shifts
 *     sort, top_k          RANK, a scatter that turns ranks into an order, and a gather for each tensor
 *
 * Thread: one at a time for a program; no other state.
 */
#ifndef WARM_KERNELS_PROGRAM_LOWER_H
#define WARM_KERNELS_PROGRAM_LOWER_H

#include "kernels/program/program.h"

struct lower {
    struct program *p;
    struct err *e;
    int code;      /* the first error; later calls do nothing */
    uint32_t line; /* of the operation that is written */
};

/* By dimension of the operand. */
struct windows {
    int64_t size[PROGRAM_RANK_MAX], stride[PROGRAM_RANK_MAX], dilation[PROGRAM_RANK_MAX],
        base[PROGRAM_RANK_MAX], low[PROGRAM_RANK_MAX], high[PROGRAM_RANK_MAX];
};

struct convolution {
    struct windows w; /* by spatial dimension */
    uint32_t n;       /* spatial dimensions */
    bool reversed[PROGRAM_RANK_MAX];
    int64_t feature_groups, batch_groups;
    int64_t lhs[2 + PROGRAM_RANK_MAX]; /* its dimensions: batch, feature, spatial */
    int64_t rhs[2 + PROGRAM_RANK_MAX]; /* input feature, output feature, spatial */
    int64_t out[2 + PROGRAM_RANK_MAX]; /* batch, feature, spatial */
};

/* Returns a convolution of x by w; 0 after an error, as the others do. */
uint32_t lower_convolution(struct lower *l, uint32_t x, uint32_t w, const struct convolution *c,
                           uint32_t type);
/* Fills `out` with n tensors. With `function` NONE the reducer is an operation; else it is a side function. */
void lower_reduce_window(struct lower *l, const uint32_t *x, const uint32_t *init, uint32_t n,
                         enum op reducer, uint32_t function, const struct windows *w,
                         uint32_t *out);
/* Returns the sums. `wins` is the comparison that keeps the element at the left: GE or LE. */
uint32_t lower_select_and_scatter(struct lower *l, uint32_t x, uint32_t source, uint32_t init,
                                  enum direction wins, const struct windows *w);
/* Fills `out` with n sorted tensors; the side function compares two elements of each. */
void lower_sort(struct lower *l, const uint32_t *x, uint32_t n, uint32_t function, int64_t dim,
                uint32_t *out);
/* Fills values and indices of the k largest elements of each row. */
void lower_top_k(struct lower *l, uint32_t x, int64_t k, uint32_t out[2]);
/* Fills the next state, and random bits of this type. `philox`, or else Threefry. */
void lower_random(struct lower *l, uint32_t state, bool philox, uint32_t type, uint32_t out[2]);
/* Returns x with its bytes as elements of this type, which has one dimension more or less if their size differs. */
uint32_t lower_bitcast(struct lower *l, uint32_t x, uint32_t type);
/* Returns the number that follows x on the way to y. */
uint32_t lower_next_after(struct lower *l, uint32_t x, uint32_t y);
/* Returns the derivative of lgamma. */
uint32_t lower_digamma(struct lower *l, uint32_t x);
/* Returns which ? x : 0, or x if no gradient can pass it: what a branch sees of a value from outside. */
uint32_t lower_gate(struct lower *l, uint32_t which, uint32_t x);
/* Returns the number of a type. */
uint32_t lower_type(struct lower *l, struct tensor t);
/* Returns a scalar. */
uint32_t lower_scalar(struct lower *l, enum elem elem, double x);
/* Returns a scalar that a reducer changes nothing with. */
uint32_t lower_identity(struct lower *l, enum op reducer, enum elem elem);
/* Adds an operation with n operands. After an error returns 0, which is harmless. The arrays are not the program's own. */
uint32_t lower_add(struct lower *l, enum op op, const uint32_t *operands, uint32_t n,
                   const int64_t *ints, uint32_t n_ints, uint32_t type);

#endif
