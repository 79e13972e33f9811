/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spread.h - reductions and products of matrices as trees: what codegen.c does first.
 *
 * A thread adds at most SPREAD_CHAIN elements in a row, and a product of matrices 256 products. What
 * remains are tensors of partial sums, which are reduced in the same way: each level is a launch, and the last
 * ones, which are small, are one launch with barriers. So a sum of n elements has an error of at most
 * 4 log2(n) eps sum|x|: each level adds 31 roundings of eps / 2 for 5 bits of n, or 15 for 4.
 *
 * The shape of a tree follows from the shapes of the tensors alone. So do the bits of its result.
 *
 *     x[..., n] ──WINDOW──▶ x[..., n / f, f] ──REDUCE──▶ x[..., n / f] ──▶ ... ──REDUCE──▶ x[...]
 *
 * The part that a thread adds has the largest strides. So threads that follow one another read elements that do.
 *
 * Thread: one at a time for a program; no other state.
 */
#ifndef WARM_KERNELS_CODEGEN_SPREAD_H
#define WARM_KERNELS_CODEGEN_SPREAD_H

#include "kernels/program/program.h"

#define SPREAD_CHAIN 32        /* elements that a thread reduces; 31 <= 8 log2(32) roundings */
#define SPREAD_CHAIN_SMALL 16  /* of a tensor below SPREAD_LARGE: else too few threads would work */
#define SPREAD_LARGE (1 << 17) /* elements: SPREAD_CHAIN of each of 4096 threads */
#define SPREAD_PRODUCTS 256    /* that one accumulator adds */
#define SPREAD_TILE_PRODUCTS 8192 /* of an element of a tile: 32 chains (tiled_product.cu) */
#define SPREAD_THREADS                                                                             \
    (1 << 15) /* of a product without tiles; a quarter of an H100's 270 336 wait for memory */
#define SPREAD_TILES 132 /* multiprocessors of an H100; each works on a tile */

/* Adds an operation to a program as program_add does, or operations that compute the same. */
int spread_add(struct program *p, const struct new_op *op, uint32_t *out, struct err *e);

#endif
