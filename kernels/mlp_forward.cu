/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mlp_forward.cu - the forward pass of a multilayer perceptron: dense layers, ReLU, mean squared
 * error. Three launches of dense_relu_forward / dense_forward and one of mse_forward are the
 * forward half of a training step of Chain(Dense(1=>16, relu), Dense(16=>16, relu), Dense(16=>1)).
 *
 * All arrays are float32, row-major, in device memory:
 *
 *   x [batch][n_in]    w [n_out][n_in]    b [n_out]    y [batch][n_out]
 *
 * The product is the usual tiled one: both operands pass through shared memory a TILE x TILE square
 * at a time. So each element is read from global memory once for each TILE outputs that need it
 * (CUDA C++ Programming Guide, "Shared Memory"). Sizes are free; ragged edges read zeros.
 */
constexpr int TILE = 16;
constexpr int MSE_THREADS = 256;

/* y[r][c] = act(sum over k of x[r][k] w[c][k] + b[c]).
 *
 * A block of TILE x TILE threads covers TILE rows (blockIdx.y) and TILE outputs (blockIdx.x) of y,
 * one element for each thread. */
template <bool RELU>
__device__ void dense(const float *__restrict__ x, const float *__restrict__ w,
                      const float *__restrict__ b, float *__restrict__ y, int batch, int n_in,
                      int n_out)
{
    /* One column more than needed: threads that walk down a column touch 16 different banks. */
    __shared__ float x_tile[TILE][TILE + 1];
    __shared__ float w_tile[TILE][TILE + 1];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int row = blockIdx.y * TILE + ty;
    const int col = blockIdx.x * TILE + tx;
    const int w_row = blockIdx.x * TILE + ty;
    float sum = 0.0f;

    for (int k0 = 0; k0 < n_in; k0 += TILE) {
        const int k = k0 + tx;
        x_tile[ty][tx] = row < batch && k < n_in ? x[(size_t)row * n_in + k] : 0.0f;
        w_tile[ty][tx] = w_row < n_out && k < n_in ? w[(size_t)w_row * n_in + k] : 0.0f;
        __syncthreads();
#pragma unroll
        for (int i = 0; i < TILE; i++)
            sum = fmaf(x_tile[ty][i], w_tile[tx][i], sum);
        __syncthreads();
    }
    if (row >= batch || col >= n_out)
        return;
    sum += b[col];
    y[(size_t)row * n_out + col] = RELU ? fmaxf(sum, 0.0f) : sum;
}

/* Grid: (ceil(n_out / 16), ceil(batch / 16)); block: (16, 16). */
extern "C" __global__ void dense_relu_forward(const float *x, const float *w, const float *b,
                                              float *y, int batch, int n_in, int n_out)
{
    dense<true>(x, w, b, y, batch, n_in, n_out);
}

extern "C" __global__ void dense_forward(const float *x, const float *w, const float *b, float *y,
                                         int batch, int n_in, int n_out)
{
    dense<false>(x, w, b, y, batch, n_in, n_out);
}

/* loss[0] = mean over n of (y - target)^2; y, target: [n].
 *
 * One block of 256 threads covers everything: each thread sums a strided share, then the block
 * halves the partial sums until one is left. The order of additions is fixed, so equal inputs give
 * equal bits. */
extern "C" __global__ void mse_forward(const float *__restrict__ y,
                                       const float *__restrict__ target, float *__restrict__ loss,
                                       int n)
{
    __shared__ float partial[MSE_THREADS];
    const int t = threadIdx.x;
    float sum = 0.0f;

    for (int i = t; i < n; i += MSE_THREADS) {
        const float d = y[i] - target[i];
        sum = fmaf(d, d, sum);
    }
    partial[t] = sum;
    for (int half = MSE_THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (t < half)
            partial[t] += partial[t + half];
    }
    if (t == 0)
        loss[0] = partial[0] / n;
}
