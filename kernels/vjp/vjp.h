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
 * The function's own code is the same without a derivative, if it has no loop: gradients read only what it
 * stores in any case, and compute other values again. So the forward pass alone has the same kernels. It
 * stores results, operands and results of products, and results of reductions.
 *
 * A loop becomes two: one forward, which keeps what the other needs of each trip, and one that runs from the
 * last trip to the first. It keeps the carried values, and of each other value the cheaper way:
 *
 *     keep a value         8 bytes for each element: it is written once and read once
 *     compute it again     its operands' bytes, and its arithmetic at VJP_FLOPS_PER_BYTE
 *
 * That is the roofline model (Williams, Waterman and Patterson, CACM 52(4), 2009): time is bytes over
 * bandwidth, or arithmetic over its peak. What is kept and then not used is left out again.
 *
 * Thread: one at a time for a program; no other state. Memory: the derivative is a new program.
 */
#ifndef WARM_KERNELS_VJP_VJP_H
#define WARM_KERNELS_VJP_VJP_H

#include "kernels/program/program.h"

/* f32 operations in the time of one byte: 67e12 / 3.35e12, of the H100 SXM's data sheet (NVIDIA, 2023). */
#define VJP_FLOPS_PER_BYTE 20

/* Computes the derivative for n arguments, given by their positions. Gives *out (program_free): one public
 * function, in the form of program_flatten. Its arguments are those of `function`, then a cotangent for each
 * f32 result; its results are those of `function`, then the gradients.
 * Errors: INVALID for an argument that is not f32; UNSUPPORTED for an active operation without a rule, and
 * for an active loop whose trips are not known; TOO_BIG; NOMEM. */
int vjp_function(const struct program *p, uint32_t function, const uint32_t *arguments, uint32_t n,
                 struct program **out, struct err *e);
/* Computes it for a caller that never runs the function alone: the gradients may read all of its values. */
int vjp_whole(const struct program *p, uint32_t function, const uint32_t *arguments, uint32_t n,
              struct program **out, struct err *e);

#endif
