/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reference.h - what the kernels of kernels/ compute, on the CPU and by the formula.
 *
 * Written to be checked by eye and by tests: plain loops, sums in double, no tiles. Shapes and
 * layouts are those of the .cu files: float32, row-major.
 *
 * Thread: pure functions. Memory: all arrays are the caller's; outputs do not overlap inputs.
 */
#ifndef WARM_TESTS_DEMO_REFERENCE_H
#define WARM_TESTS_DEMO_REFERENCE_H

/* Computes y = x w^T + b, and max(0, y) if `relu`.
 * x: [batch][n_in], w: [n_out][n_in], b: [n_out], y: [batch][n_out] */
void reference_dense(const float *x, const float *w, const float *b, float *y, int batch, int n_in,
                     int n_out, int relu);

/* Returns the mean over n of (y - target)^2. y, target: [n] */
double reference_mse(const float *y, const float *target, int n);
/* Computes the gradient of reference_mse. dy: [n] */
void reference_mse_backward(const float *y, const float *target, float *dy, int n);

/* Computes dx = dy w if x > 0, else 0: back through w and the ReLU that made x.
 * dy: [batch][n_out], w: [n_out][n_in], x, dx: [batch][n_in] */
void reference_dense_backward_input(const float *dy, const float *w, const float *x, float *dx,
                                    int batch, int n_in, int n_out);
/* Computes dw = dy^T x: [n_out][n_in], and db = the column sums of dy: [n_out] */
void reference_dense_backward_weights(const float *dy, const float *x, float *dw, float *db,
                                      int batch, int n_in, int n_out);

/* Makes step number `step` (from 1) of Adam (Kingma and Ba 2015, algorithm 1), in place.
 * p, m, v, g: [n] */
void reference_adam_step(float *p, float *m, float *v, const float *g, int n, double rate,
                         double beta1, double beta2, double epsilon, int step);

/* Computes o = softmax(scale q k^T) v for each head. With `causal`, later keys are hidden from each
 * query. lse = log(sum over keys of exp(scale q.k)).
 * q, k, v, o: [heads][length][dim], lse: [heads][length]; dim <= 256 */
void reference_attention(const float *q, const float *k, const float *v, float *o, float *lse,
                         int heads, int length, int dim, double scale, int causal);

/* Sorts each row's tokens from the most to the least probable (equal ones in order), with the
 * softmax of its logits. `kept` is the number of tokens that reach the mass p. logits, prob,
 * token: [rows][n_cols], kept: [rows]; n_cols <= 1024 */
void reference_top_p(const float *logits, int *token, float *prob, int *kept, int rows, int n_cols,
                     double p);

#endif
