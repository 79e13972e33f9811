/* SPDX-License-Identifier: Apache-2.0 */
/*
 * eval.h - runs a program by the definitions of its operations: the reference that the compiler's rules
 * and its code are compared with. Floating-point numbers are doubles throughout; i32 and i64 wrap around.
 *
 * Tensors are arrays of doubles, row-major; i32, i64 and i1 are whole numbers in them. An operation fails if
 * it gives an i64 that is not below EVAL_WHOLE_MAX.
 *
 * Thread: any; no state. Memory: at most EVAL_BYTES_MAX, freed at the end; arguments are borrowed.
 */
#ifndef WARM_KERNELS_EVAL_EVAL_H
#define WARM_KERNELS_EVAL_EVAL_H

#include "kernels/program/program.h"

#define EVAL_BYTES_MAX ((size_t)2 << 30)
#define EVAL_WHOLE_MAX ((int64_t)1 << 53) /* a double has all whole numbers up to here */
#define EVAL_STEPS_MAX 10000000u          /* operations run */
#define EVAL_CALLS_MAX 64                 /* calls inside of calls */

/* Runs a function. `args` has a tensor for each argument. Fills `results`: the caller's arrays, one for
 * each result, of its type's n doubles. Errors: TOO_BIG for memory, and for an i64; TIMEOUT for a program that takes too
 * many steps; NOMEM. */
int eval_function(const struct program *p, uint32_t function, const double *const *args,
                  double *const *results, struct err *e);

#endif
