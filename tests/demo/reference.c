/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reference.c - the formulas of reference.h as plain loops, with sums in double. runner.c compares the
 * outputs of compiled kernels with them.
 *
 * Thread: any; no state.
 */
#include "tests/demo/reference.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>

enum { MAX_DIM = 256, MAX_COLS = 1024 }; /* what the scratch arrays hold */

void reference_dense(const float *x, const float *w, const float *b, float *y, int batch, int n_in,
                     int n_out, int relu)
{
    for (int r = 0; r < batch; r++) {
        for (int o = 0; o < n_out; o++) {
            double sum = b[o];
            for (int i = 0; i < n_in; i++)
                sum += (double)x[r * n_in + i] * w[o * n_in + i];
            y[r * n_out + o] = (float)(relu && sum < 0 ? 0 : sum);
        }
    }
}

double reference_mse(const float *y, const float *target, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += ((double)y[i] - target[i]) * ((double)y[i] - target[i]);
    return sum / n;
}

void reference_mse_backward(const float *y, const float *target, float *dy, int n)
{
    for (int i = 0; i < n; i++)
        dy[i] = (float)(2 * ((double)y[i] - target[i]) / n);
}

void reference_dense_backward_input(const float *dy, const float *w, const float *x, float *dx,
                                    int batch, int n_in, int n_out)
{
    for (int r = 0; r < batch; r++) {
        for (int i = 0; i < n_in; i++) {
            double sum = 0;
            for (int o = 0; o < n_out; o++)
                sum += (double)dy[r * n_out + o] * w[o * n_in + i];
            dx[r * n_in + i] = x[r * n_in + i] > 0 ? (float)sum : 0;
        }
    }
}

void reference_dense_backward_weights(const float *dy, const float *x, float *dw, float *db,
                                      int batch, int n_in, int n_out)
{
    for (int o = 0; o < n_out; o++) {
        double bias = 0;
        for (int r = 0; r < batch; r++)
            bias += dy[r * n_out + o];
        db[o] = (float)bias;
        for (int i = 0; i < n_in; i++) {
            double sum = 0;
            for (int r = 0; r < batch; r++)
                sum += (double)dy[r * n_out + o] * x[r * n_in + i];
            dw[o * n_in + i] = (float)sum;
        }
    }
}

void reference_adam_step(float *p, float *m, float *v, const float *g, int n, double rate,
                         double beta1, double beta2, double epsilon, int step)
{
    for (int i = 0; i < n; i++) {
        double mi = beta1 * m[i] + (1 - beta1) * g[i];
        double vi = beta2 * v[i] + (1 - beta2) * g[i] * g[i];
        double m_hat = mi / (1 - pow(beta1, step));
        double v_hat = vi / (1 - pow(beta2, step));
        m[i] = (float)mi;
        v[i] = (float)vi;
        p[i] = (float)(p[i] - rate * m_hat / (sqrt(v_hat) + epsilon));
    }
}

static double dot(const float *a, const float *b, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += (double)a[i] * b[i];
    return sum;
}

/* Compares one query with the first n_keys keys of its head. */
static void attend(const float *q, const float *k, const float *v, float *o, float *lse, int n_keys,
                   int dim, double scale)
{
    double max = -INFINITY, sum = 0, out[MAX_DIM] = {0};
    for (int j = 0; j < n_keys; j++)
        max = fmax(max, scale * dot(q, k + j * dim, dim));
    for (int j = 0; j < n_keys; j++) {
        double weight = exp(scale * dot(q, k + j * dim, dim) - max);
        sum += weight;
        for (int d = 0; d < dim; d++)
            out[d] += weight * v[j * dim + d];
    }
    for (int d = 0; d < dim; d++)
        o[d] = (float)(out[d] / sum);
    *lse = (float)(max + log(sum));
}

void reference_attention(const float *q, const float *k, const float *v, float *o, float *lse,
                         int heads, int length, int dim, double scale, int causal)
{
    assert(dim <= MAX_DIM);
    for (int h = 0; h < heads; h++) {
        size_t head = (size_t)h * (size_t)length * (size_t)dim;
        for (int i = 0; i < length; i++)
            attend(q + head + i * dim, k + head, v + head, o + head + i * dim, lse + h * length + i,
                   causal ? i + 1 : length, dim, scale);
    }
}

struct ranked {
    float logit;
    int token;
};

static int by_falling_logit(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->logit != y->logit)
        return x->logit > y->logit ? -1 : 1;
    return x->token - y->token;
}

void reference_top_p(const float *logits, int *token, float *prob, int *kept, int rows, int n_cols,
                     double p)
{
    struct ranked ranked[MAX_COLS];
    assert(n_cols <= MAX_COLS);
    for (int r = 0; r < rows; r++) {
        for (int c = 0; c < n_cols; c++)
            ranked[c] = (struct ranked){logits[r * n_cols + c], c};
        qsort(ranked, (size_t)n_cols, sizeof *ranked, by_falling_logit);

        double sum = 0, mass = 0;
        for (int c = 0; c < n_cols; c++)
            sum += exp((double)ranked[c].logit - ranked[0].logit);
        kept[r] = 0;
        for (int c = 0; c < n_cols; c++) {
            double share = exp((double)ranked[c].logit - ranked[0].logit) / sum;
            token[r * n_cols + c] = ranked[c].token;
            prob[r * n_cols + c] = (float)share;
            kept[r] += mass < p;
            mass += share;
        }
    }
}
