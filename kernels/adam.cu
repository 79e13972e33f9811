/* SPDX-License-Identifier: Apache-2.0 */
/*
 * adam.cu - the Adam optimizer, fused: one launch updates every parameter of a model, whose tensors
 * lie one after the other in one vector.
 *
 * All arrays are float32 in device memory: p, m, v, g [n] (parameters, first and second moment,
 * gradient). Source: Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2015,
 * algorithm 1.
 */

/* Step number `step` (from 1) on p, m and v in place:
 *
 *   m = beta1 m + (1 - beta1) g          p = p - rate (m / (1 - beta1^step))
 *   v = beta2 v + (1 - beta2) g^2                / (sqrt(v / (1 - beta2^step)) + epsilon)
 *
 * The grid strides over n, so any grid is right; a block covers blockDim.x elements a stride. */
extern "C" __global__ void adam_step(float *__restrict__ p, float *__restrict__ m,
                                     float *__restrict__ v, const float *__restrict__ g, int n,
                                     float rate, float beta1, float beta2, float epsilon, int step)
{
    const float correction1 = 1.0f / (1.0f - powf(beta1, (float)step));
    const float correction2 = 1.0f / (1.0f - powf(beta2, (float)step));

    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        const float gi = g[i];
        const float mi = fmaf(beta1, m[i], (1.0f - beta1) * gi);
        const float vi = fmaf(beta2, v[i], (1.0f - beta2) * gi * gi);
        m[i] = mi;
        v[i] = vi;
        p[i] -= rate * (mi * correction1) / (sqrtf(vi * correction2) + epsilon);
    }
}
