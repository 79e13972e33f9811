/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gather.h - the dimension numbers of GATHER, SCATTER and CHAIN, which StableHLO names in two ways.
 *
 *     ints: offset, collapsed, batching, map: how many; the index vector's dimension; 1 if indices are unique;
 *           then offset_dims, collapsed_slice_dims, operand_batching_dims, start_indices_batching_dims,
 *           start_index_map, slice_sizes
 *
 * SCATTER has its reducer first. For it these are update_window_dims, inserted_window_dims, input_batching_dims,
 * scatter_indices_batching_dims, scatter_dims_to_operand_dims and the sizes of a window.
 *
 * The element of a slice at r is x[..., start + r[along], ...]: `start` is a component of the index vector that
 * stands in `indices` at r, and `along` is a dimension of the slices.
 *
 * Thread: any; no state.
 */
#ifndef WARM_KERNELS_PROGRAM_GATHER_H
#define WARM_KERNELS_PROGRAM_GATHER_H

#include "kernels/program/program.h"

#define GATHER_FIXED 6 /* ints before the lists */

struct gather {
    int start[PROGRAM_RANK_MAX]; /* by dimension of x: a component of the index vector; -1: none */
    int along[PROGRAM_RANK_MAX]; /* by dimension of x: one of the slices' dimensions; -1: none */
    int at
        [PROGRAM_RANK_MAX]; /* by dimension of `indices`: one of the slices'; -1: the index vector */
    int64_t sizes[PROGRAM_RANK_MAX]; /* of a slice, by dimension of x */
    uint32_t rank;                   /* of the slices */
    bool unique, overlaps;           /* slices that start elsewhere may have elements in common */
};

/* Reads dimension numbers, of GATHER's form. False if they do not fit each other or these tensors. */
bool gather_of(const int64_t *ints, uint32_t n, const struct tensor *x,
               const struct tensor *indices, struct gather *out);
/* Reads those of CHAIN, which has no x: that is as large as its windows. */
bool gather_of_chain(const int64_t *ints, uint32_t n, const struct tensor *indices,
                     const struct tensor *updates, struct gather *out);
/* Gives the type of the slices. */
void gather_type(const struct gather *g, const struct tensor *x, const struct tensor *indices,
                 struct tensor *out);
/* Returns how many slices there are. */
int64_t gather_count(const struct gather *g, const struct tensor *indices);

#endif
