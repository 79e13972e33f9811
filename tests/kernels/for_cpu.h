/* SPDX-License-Identifier: Apache-2.0 */
/*
 * for_cpu.h - generated CUDA C++ as a library for the CPU: the kernels of many graphs in one source, and for
 * graph N a function run_N that launches them on the tensors that it is given.
 *
 * No kernel has a barrier or shared memory, so the threads run one after the other.
 *
 * Thread: the test's. Memory: for_cpu_close removes the folder.
 */
#ifndef WARM_TESTS_KERNELS_FOR_CPU_H
#define WARM_TESTS_KERNELS_FOR_CPU_H

#include <stdio.h>

#include "kernels/codegen/codegen.h"
#include "tests/kernels/jax_graphs.h"

struct for_cpu {
    char folder[64];
    FILE *f;
    void *library;
};

/* Begins a source. */
struct for_cpu for_cpu_open(void);
/* Writes the kernels of graph n, and the beginning of run_N(void **values). */
void for_cpu_begin(FILE *f, size_t n, const struct codegen *c);
/* Writes a launch of a kernel in this many blocks, whose operands are values[i]. */
void for_cpu_launch(FILE *f, uint32_t kernel, uint32_t blocks);
/* Writes operand k of the launch. for_cpu_launched follows the last one. */
void for_cpu_operand(FILE *f, uint32_t k, enum elem elem, uint32_t value);
/* Ends a launch. */
void for_cpu_launched(FILE *f);
/* Ends run_N. */
void for_cpu_end(FILE *f, const struct codegen *c);
/* Compiles the source and loads it. */
void for_cpu_compile(struct for_cpu *c);
/* Returns run_N. */
void (*for_cpu_run(const struct for_cpu *c, size_t n))(void **values);
/* Unloads and removes all. */
void for_cpu_close(struct for_cpu *c);

/* Returns the derivative of a graph's function for all its arguments. */
struct program *for_cpu_derivative(const struct jax_graph *g);
/* Fills an argument of that derivative; `x` has room for its elements, and for one. */
void for_cpu_argument(const struct jax_graph *g, uint32_t i, float *x);
/* Expects result i of that derivative, a result or a gradient, to be that of JAX. */
void for_cpu_agrees(const struct jax_graph *g, uint32_t i, const float *x);

#endif
