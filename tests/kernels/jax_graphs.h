/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jax_graphs.h - the graphs of tests/data/jax_graphs.txt, which jax_graphs.py writes: StableHLO modules,
 * arguments, and the results and gradients that JAX computes.
 *
 * Thread: the test's. Memory: jax_graphs_read owns all; it stays until the process ends.
 */
#ifndef WARM_TESTS_KERNELS_JAX_GRAPHS_H
#define WARM_TESTS_KERNELS_JAX_GRAPHS_H

#include <stddef.h>
#include <stdint.h>

struct program;
struct err;

#define JAX_TENSORS_MAX 112

struct jax_tensor {
    double *at;
    int64_t n;
};

struct jax_graph {
    char name[64];
    const char *module;
    size_t module_len;
    struct jax_tensor args[JAX_TENSORS_MAX], results[JAX_TENSORS_MAX], gradients[JAX_TENSORS_MAX];
    size_t n_args, n_results, n_gradients;
};

/* Returns the number of graphs in *out, of the file or of $WARM_JAX_GRAPHS. The first call reads the file, or fails the test if the file is not of
 * its form. */
size_t jax_graphs_read(struct jax_graph **out);
/* Runs a function of a program on doubles, as eval_function runs it on numbers. */
int eval_doubles(const struct program *p, uint32_t function, const double *const *args,
                 double *const *results, struct err *e);
/* Runs the program's only public function on the graph's arguments, and gives its results in out[i]. */
void jax_graph_run(const struct jax_graph *g, const struct program *p, double **out);
/* Expects n numbers to be those of `want`, within `tolerance` of the larger of 1 and the number. */
void jax_expect(const char *name, const char *what, size_t i, const double *is,
                const struct jax_tensor *want, int64_t n, double tolerance);

#endif
