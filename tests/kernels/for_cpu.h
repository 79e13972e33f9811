/* SPDX-License-Identifier: Apache-2.0 */
/*
 * for_cpu.h - generated CUDA C++ as a library for the CPU: the kernels of many graphs in one source, and for
 * graph N a function run_N that launches them on the tensors that it is given;
 * or the kernels alone, for the stand-in of the driver (tests/fakecuda): found by the cubin that they stand for.
 *
 * A kernel without barriers runs one thread after the other.
 *
 * Thread: the test's. Memory: for_cpu_close removes the folder.
 */
#ifndef WARM_TESTS_KERNELS_FOR_CPU_H
#define WARM_TESTS_KERNELS_FOR_CPU_H

#include <stdio.h>

#include "kernels/bundle/graph_bundle.h"
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
/* Writes a launch of a kernel in this many blocks of threads. Its n operands are values[i]. */
void for_cpu_launch(FILE *f, const struct codegen *c, uint32_t kernel, uint32_t blocks,
                    uint32_t threads, const uint32_t *values, uint32_t n);
/* Writes a kernel for the stand-in, which finds it by the cubin's bytes. */
void for_cpu_cubin(FILE *f, const struct codegen *c, uint32_t kernel, const void *cubin);
/* Ends run_N. */
void for_cpu_end(FILE *f, const struct codegen *c);
/* Writes run_N whole: it launches the plan. values[i] is the address of buffer i. */
void for_cpu_plan(FILE *f, size_t n, const struct graph_bundle *b, const struct codegen *c);
/* Compiles the source, with $WARM_CPU_FLAGS, and loads it. */
void for_cpu_compile(struct for_cpu *c);
/* Returns run_N. */
void (*for_cpu_run(const struct for_cpu *c, size_t n))(void **values);
/* Unloads and removes all. */
void for_cpu_close(struct for_cpu *c);

/* Returns a function of %a and %b of these types, an operation: "add %a, %b"; or its derivative for both. */
struct program *for_cpu_program(const char *a, const char *b, const char *c, const char *op,
                                bool derives);
/* Returns the derivative of a graph's function for all its floating-point arguments; the function itself if the graph has no
 * gradients. */
struct program *for_cpu_derivative(const struct jax_graph *g);
/* Fills an argument of that derivative; `x` has room for its elements, and for one. */
void for_cpu_argument(const struct jax_graph *g, uint32_t i, enum elem elem, void *x);
/* Expects result i of that derivative, a result or a gradient, to be that of JAX. */
void for_cpu_agrees(const struct jax_graph *g, uint32_t i, enum elem elem, const void *x);

#endif
