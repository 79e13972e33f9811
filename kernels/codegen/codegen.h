/* SPDX-License-Identifier: Apache-2.0 */
/*
 * codegen.h - CUDA C++ for a function without calls and loops, such as vjp_function gives.
 *
 *     operations ──▶ kernels: a tensor that is stored, and the operations computed on the way to it
 *                ──▶ launches: a kernel and its tensors, in order
 *
 * One thread computes one element of a stored tensor. Reductions and products run over their dimensions
 * in order in that thread, so results are the same in each run. No kernel uses shared memory yet.
 *
 * Terms
 *   stored   said of a value that has memory: arguments, results, reductions, products and their operands,
 *            constants with several elements, and what several operations use
 *   fused    said of the other values: each is computed where it is used
 *
 * Two kernels with the same text are one, so layers of the same shape share theirs.
 *
 * Thread: any; no state. Memory: a struct codegen owns its arrays.
 */
#ifndef WARM_KERNELS_CODEGEN_CODEGEN_H
#define WARM_KERNELS_CODEGEN_CODEGEN_H

#include "kernels/program/program.h"

#define CODEGEN_BLOCK 256 /* threads */
#define CODEGEN_BLOCKS_MAX                                                                         \
    0x7FFFFFFF /* of a grid along x: CUDA C++ Programming Guide, table of compute capabilities */

struct launch {
    uint32_t kernel; /* "kernel_N" in the source */
    uint32_t args,
        n_args; /* slice of codegen.args: the values that it reads, then those it writes */
    uint32_t n_writes;
    uint32_t blocks, threads; /* along x: of the grid, of a block */
};

/* A kernel's text in the source, behind its name. */
struct kernel_text {
    size_t at, len; /* bytes */
};

struct codegen {
    struct writer source;             /* CUDA C++, one extern "C" kernel after the other */
    VECTOR(struct kernel_text) texts; /* by kernel */
    VECTOR(struct launch) launches;
    VECTOR(uint32_t) args; /* values */
    uint32_t n_kernels;
    bool failed;
};

/* Generates the code of a function. Fills *out (codegen_free, also after an error). Constants that a launch
 * reads have their elements in the program's `data`. Errors: UNSUPPORTED for calls and loops; NOMEM. */
int codegen_function(const struct program *p, uint32_t function, struct codegen *out,
                     struct err *e);
/* Appends a program of one kernel alone, whose name is "kernel": equal kernels of any two functions have
 * equal programs. */
void codegen_write_kernel(const struct codegen *c, uint32_t kernel, struct writer *out);
/* Frees what codegen_function filled in. */
void codegen_free(struct codegen *c);

#endif
