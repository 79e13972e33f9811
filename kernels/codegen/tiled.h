/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tiled.h - matrix products by tiles: which dot_general it pays for, and its kernel, from the template
 * tiled_product.cu.
 *
 * A product is c[batch][m][n] = sum over k of a × b. Several dimensions of one role count as one if they follow
 * one another in memory.
 *
 * When it pays is a model, not a measurement. A thread for each element reads two operands for a product. A
 * multiprocessor does 32 loads in a cycle, so it feeds 16 of its 128 multipliers: an eighth. Tiles come near to
 * all of them, but there are as many multiprocessors at work as there are tiles. With 132 of them (H100)
 * tiles win from 132 / 8 tiles on: TILED_TILES_MIN. Source: NVIDIA, "H100 Tensor Core GPU Architecture", 2022; CUDA
 * C++ Programming Guide, arithmetic instructions of compute capability 9.0.
 *
 * Thread: any; no state. Memory: borrows all.
 */
#ifndef WARM_KERNELS_CODEGEN_TILED_H
#define WARM_KERNELS_CODEGEN_TILED_H

#include "kernels/program/program.h"

#define TILED_TILES_MIN 17
#define TILED_SIZE_MIN 32  /* rows and columns; below, more than half of a tile is not there */
#define TILED_K_MIN 32     /* products of a sum: two slices */
#define TILED_THREADS 256u /* of a block */
#define TILED_EACH 16      /* elements of a tile that a thread computes */

/* Sizes, and strides in elements. */
struct tiled {
    int64_t batch, m, n, k;
    int64_t a_batch, a_m, a_k, b_batch, b_k, b_n;
    int64_t parts;          /* of the sum over k, each by itself: c[batch][part][m][n] */
    int64_t k_all;          /* elements of all parts; the last part may be shorter */
    int64_t a_part, b_part; /* strides */
    uint32_t a, b;          /* values: the operands, or what they are parts of (spread.h) */
    enum elem elem, sum;    /* of the operands, of the result */
};

/* Finds sizes and strides of a dot_general. False if it is no product of matrices of floating-point numbers.
 * `origins` is of program_origins. */
bool tiled_of(const struct program *p, const uint32_t *origins, const struct operation *dot,
              struct tiled *out);
/* True if tiles pay. */
bool tiled_pays(const struct tiled *t);
/* Returns the blocks of its grid. */
int64_t tiled_blocks(const struct tiled *t);
/* Appends the kernel's text behind its name: parameters a, b, c and the body. */
void tiled_write(const struct tiled *t, struct writer *out);
/* Appends the template's constants, which stand for SIZES. */
void tiled_sizes(const struct tiled *t, struct writer *out);

#endif
