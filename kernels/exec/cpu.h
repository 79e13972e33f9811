/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpu.h - runs the module of a bundle by the interpreter (eval.h), on doubles: for machines without a GPU, and to
 * check what a GPU computed.
 *
 * Thread: any; no state.
 */
#ifndef WARM_KERNELS_EXEC_CPU_H
#define WARM_KERNELS_EXEC_CPU_H

#include "kernels/bundle/graph_bundle.h"

/* Gives the function that was compiled as *out (program_free). Errors: UNSUPPORTED for a bundle without a module;
 * MALFORMED; those of program_read and wanted_function. */
int cpu_open(const struct graph_bundle *b, struct program **out, struct err *e);
/* Runs it. args[i] has the elements of argument i; results[i] has room for those of result i, which are rounded to
 * their type. Errors: those of eval_function; NOMEM. */
int cpu_run(const struct program *p, const uint8_t *const *args, uint8_t *const *results,
            struct err *e);
/* Returns how far an element is from another, in units of what the type rounds, with the largest element of both
 * tensors as their size: at most some hundred for results that agree. */
double cpu_distance(const struct tensor *type, const uint8_t *is, const uint8_t *want);

#endif
