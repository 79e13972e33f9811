/* SPDX-License-Identifier: Apache-2.0 */
/*
 * codegen.h - CUDA C++ for a function without calls, such as vjp_function gives.
 *
 *     operations ──▶ kernels: a tensor that is stored, and the operations computed on the way to it
 *                ──▶ launches: a kernel and its tensors, in order
 *
 * One thread computes one element of a stored tensor. Reductions and products run over their dimensions in
 * order in that thread, so results are the same in each run. Longer ones are trees of several launches (spread.h).
 * Large products go by tiles (tiled.h).
 *
 * One launch computes several tensors in a row
 *   - if each is small: in a single block, with a barrier where threads wait for each other. A product behind
 *     another one begins a new launch; in a derivative, all that follows one does. So equal layers have equal
 *     launches; or
 *   - if they have the same number of elements, and a thread needs only its own element of the others.
 *
 * Terms
 *   stored   said of a value that has memory: arguments, results, reductions, products and their operands (of
 *            windows, the tensor below), constants with several elements, and what several operations use
 *   fused    said of the other values: each is computed where it is used
 *
 * Two kernels with the same text are one, so layers of the same shape share theirs.
 *
 * A loop is launches that run several times. What it carries has one place, which the operand is written to
 * before the loop, and each trip's result at the end of the trip: directly, if no later launch of the trip
 * reads the old value, else through a place of its own. A dynamic_update_slice of a carried value writes the
 * slice alone.
 *
 * A value that several operations use is stored if that costs less than to compute it for each of them again:
 *
 *     store a value        4 bytes for each element, and 4 for each use
 *     compute it again     for each use: 4 bytes for each stored operand, and its arithmetic
 *
 * by the roofline model and the figures of vjp.h; CODEGEN_SLOW is our estimate of an exp or a tanh. So a
 * relu of a product is computed again in the backward pass, and a sum of two products is kept.
 *
 * Thread: any; no state. Memory: a struct codegen owns its arrays.
 */
#ifndef WARM_KERNELS_CODEGEN_CODEGEN_H
#define WARM_KERNELS_CODEGEN_CODEGEN_H

#include "kernels/program/program.h"

#define CODEGEN_SLOW 20   /* f32 operations that an exp, a tanh or a power stands for */
#define CODEGEN_BLOCK 256 /* threads */
#define CODEGEN_BLOCKS_MAX                                                                         \
    0x7FFFFFFF /* of a grid along x: CUDA C++ Programming Guide, table of compute capabilities */

struct launch {
    uint32_t kernel; /* "kernel_N" in the source */
    uint32_t args,
        n_args; /* slice of codegen.args: the values that it reads, then those it writes */
    uint32_t n_writes;
    uint32_t blocks, threads; /* along x: of the grid, of a block */
    int64_t work,
        most; /* how often innermost statements run, in all threads and in the one that has most */
    bool
        compares; /* a sort, or a scatter with equal indices: n^2 comparisons, and chains as long as the indices say */
};

/* A kernel's text in the source, behind its name. */
struct kernel_text {
    size_t at, len; /* bytes */
};

/* Launches that run several times. */
struct launch_loop {
    uint32_t first, end; /* launches: first to end - 1 */
    uint64_t trips;
    uint32_t
        condition; /* NONE; or the value that says before each trip if there is one, in place of `trips` */
};

struct codegen {
    struct program *
        p; /* the function as the launches compute it (spread.h): `args` and `places` are its values */
    struct writer source;             /* CUDA C++, one extern "C" kernel after the other */
    VECTOR(struct kernel_text) texts; /* by kernel */
    VECTOR(struct launch) launches;
    VECTOR(struct launch_loop) loops; /* by first launch, outer before inner */
    VECTOR(uint32_t) args;            /* values: of several with one place, always the same one */
    uint32_t *places; /* by value of the program: the one that `args` names for it */
    uint32_t n_kernels;
    uint32_t n_forward; /* launches before the derivative's */
    bool failed;
};

/* Generates the code of a function in the form of program_flatten, which may go then. Fills *out (codegen_free, also after an error).
 * Constants that a launch reads have their elements in the program's `data`. Errors: UNSUPPORTED for a call, and
 * for a loop whose trips are not known; TOO_BIG; NOMEM. */
int codegen_function(const struct program *p, uint32_t function, struct codegen *out,
                     struct err *e);
/* Appends a program of one kernel alone, whose name is "kernel": equal kernels of any two functions have
 * equal programs. */
void codegen_write_kernel(const struct codegen *c, uint32_t kernel, struct writer *out);
/* Frees what codegen_function filled in. */
void codegen_free(struct codegen *c);

#endif
