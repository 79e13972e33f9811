/* SPDX-License-Identifier: Apache-2.0 */
/*
 * eval.h - runs a program by the definitions of its operations: the reference that the compiler's rules
 * and its code are compared with. Floating-point numbers are doubles throughout; i32 and i64 wrap around.
 *
 * Tensors are arrays of numbers, row-major: each holds a double, a whole number of 64 bits or a truth value exactly.
 *
 * Thread: any; no state. Memory: at most EVAL_BYTES_MAX, freed at the end; arguments are borrowed.
 */
#ifndef WARM_KERNELS_EVAL_EVAL_H
#define WARM_KERNELS_EVAL_EVAL_H

#include "kernels/program/program.h"

#define EVAL_BYTES_MAX ((size_t)2 << 30)
#define EVAL_STEPS_MAX 10000000u /* operations run */
#define EVAL_CALLS_MAX 64        /* calls inside of calls */

/* 64 bits of mantissa on x86-64, 113 on aarch64. Floating-point operations round to doubles. */
typedef long double number;

/* Runs a function. `args` has a tensor for each argument. Fills `results`: the caller's arrays, one for
 * each result, of its type's n numbers. Errors: TOO_BIG for memory; TIMEOUT for a program that takes too
 * many steps; NOMEM. */
int eval_function(const struct program *p, uint32_t function, const number *const *args,
                  number *const *results, struct err *e);

#endif
