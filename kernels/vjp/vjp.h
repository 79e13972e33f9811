/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vjp.h - the derivative of a function, as a program of the same form (reverse mode).
 *
 *     f(x0, x1) -> (y0, y1)   becomes   f_vjp(x0, x1, c0, c1) -> (y0, y1, g0, g1)
 *
 * Terms
 *   cotangent   c: for each f32 result, how much the final loss changes with each of its elements
 *   gradient    g: the same for a chosen argument; sum over results of c × dy/dx
 *   active      said of a value that depends on a chosen argument and that a gradient can pass
 *
 * Thread: one at a time for a program; no other state. Memory: the derivative is a new program.
 */
#ifndef WARM_KERNELS_VJP_VJP_H
#define WARM_KERNELS_VJP_VJP_H

#include "kernels/program/program.h"

#define VJP_OPS_MAX 10000000u /* operations of a function with its calls written out */
#define VJP_CALLS_MAX 64      /* calls inside of calls */

/* Computes the derivative for n arguments, given by their positions. Gives *out (program_free): one public
 * function. Its arguments are those of `function`, then a cotangent for each f32 result; its results are
 * those of `function`, then the gradients. Calls are written out.
 * Errors: INVALID for an argument that is not f32; UNSUPPORTED for an active operation without a rule, a
 * loop above all; TOO_BIG; NOMEM. */
int vjp_function(const struct program *p, uint32_t function, const uint32_t *arguments, uint32_t n,
                 struct program **out, struct err *e);

/* Copies a function with its calls written out. Gives *out (program_free): one public function with the
 * same arguments and results. Errors: UNSUPPORTED for a loop; TOO_BIG; NOMEM. */
int vjp_inline(const struct program *p, uint32_t function, struct program **out, struct err *e);

#endif
