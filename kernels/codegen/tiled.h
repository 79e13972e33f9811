/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tiled.h - matrix products by tiles: which dot_general it pays for, and its kernel, from the template
 * tiled_product.cu.
 *
 * A product is c[batch][m][n] = sum over k of a × b, where each index stands for several dimensions. The operands
 * are stored tensors, or windows of them (convolutions, parts of a sum): codegen.c writes what loads an element.
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

struct tiled {
    int64_t batch, m, n, k;
    bool
        small; /* indices of the operands have 32 bits: they take half the registers and instructions */
};

/* How an operand is loaded. */
struct tiled_load {
    struct view
        text; /* statements that set x to the element at t1, t2, t3: batch, m, k or batch, k, n */
    bool along_k; /* threads that follow one another load elements along k: they do so in memory */
};

/* Returns the sizes of a product of x and y with these dimension numbers. */
struct tiled tiled_of(const struct tensor *x, const struct tensor *y, const int64_t *ints);
/* True if a tile would be at least half full. */
bool tiled_fits(const struct tiled *t);
/* True if tiles pay. */
bool tiled_pays(const struct tiled *t);
/* Returns the blocks of its grid. */
int64_t tiled_blocks(const struct tiled *t);
/* Appends the kernel's text behind its name. `sum` is the element type of c, f32 or f64; `parameters` are those
 * before c. */
void tiled_write(const struct tiled *t, enum elem sum, struct view parameters,
                 const struct tiled_load loads[2], struct writer *out);

#endif
