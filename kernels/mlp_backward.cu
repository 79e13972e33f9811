/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mlp_backward.cu - the backward pass (vector-Jacobian product) of mlp_forward.cu: from the outputs
 * and the residuals that the forward pass left, the gradient of the loss by every weight and bias.
 *
 * All arrays are float32, row-major, in device memory. For a layer y = act(x w^T + b):
 *
 *   x, dx [batch][n_in]    w, dw [n_out][n_in]    db [n_out]    dy [batch][n_out]
 *
 * `dy` is the cotangent before the activation, d loss / d (x w^T + b). mse_backward makes that of the last layer.
 * Each layer, from the last to the first, launches dense_backward_weights. All but the first then launch
 * dense_backward_input, whose output is the dy of the layer before.
 * Source: Rumelhart, Hinton, Williams, "Learning representations by back-propagating errors", 1986.
 */
constexpr int TILE = 16;

/* dy[i] = d mean((y - target)^2) / d y[i] = 2 (y[i] - target[i]) / n.
 * A block covers blockDim.x elements, one for each thread. */
extern "C" __global__ void mse_backward(const float *__restrict__ y,
                                        const float *__restrict__ target, float *__restrict__ dy,
                                        int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        dy[i] = 2.0f * (y[i] - target[i]) / n;
}

/* dx[r][c] = sum over k of dy[r][k] w[k][c], and 0 where x[r][c] <= 0: x is the output of the ReLU
 * of the layer before, and positive exactly where that ReLU let its input through.
 *
 * A block of TILE x TILE threads covers TILE rows (blockIdx.y) and TILE inputs (blockIdx.x).
 * Grid: (ceil(n_in / 16), ceil(batch / 16)). */
extern "C" __global__ void dense_backward_input(const float *__restrict__ dy,
                                                const float *__restrict__ w,
                                                const float *__restrict__ x,
                                                float *__restrict__ dx, int batch, int n_in,
                                                int n_out)
{
    __shared__ float dy_tile[TILE][TILE + 1];
    __shared__ float w_tile[TILE][TILE + 1];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int row = blockIdx.y * TILE + ty;
    const int col = blockIdx.x * TILE + tx;
    float sum = 0.0f;

    for (int k0 = 0; k0 < n_out; k0 += TILE) {
        const int dy_k = k0 + tx, w_k = k0 + ty;
        dy_tile[ty][tx] = row < batch && dy_k < n_out ? dy[(size_t)row * n_out + dy_k] : 0.0f;
        w_tile[ty][tx] = w_k < n_out && col < n_in ? w[(size_t)w_k * n_in + col] : 0.0f;
        __syncthreads();
#pragma unroll
        for (int i = 0; i < TILE; i++)
            sum = fmaf(dy_tile[ty][i], w_tile[i][tx], sum);
        __syncthreads();
    }
    if (row < batch && col < n_in)
        dx[(size_t)row * n_in + col] = x[(size_t)row * n_in + col] > 0.0f ? sum : 0.0f;
}

/* dw[o][i] = sum over the batch of dy[r][o] x[r][i];  db[o] = sum over the batch of dy[r][o].
 *
 * A block of TILE x TILE threads covers TILE outputs (blockIdx.y) and TILE inputs (blockIdx.x), and
 * walks the whole batch. So no two blocks add to one element: no atomics, and equal inputs produce
 * equal bits. The blocks of the first column of the grid make db from the tiles they have anyway.
 * Grid: (ceil(n_in / 16), ceil(n_out / 16)). */
extern "C" __global__ void dense_backward_weights(const float *__restrict__ dy,
                                                  const float *__restrict__ x,
                                                  float *__restrict__ dw, float *__restrict__ db,
                                                  int batch, int n_in, int n_out)
{
    __shared__ float dy_tile[TILE][TILE + 1];
    __shared__ float x_tile[TILE][TILE + 1];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int out = blockIdx.y * TILE + ty;
    const int in = blockIdx.x * TILE + tx;
    float sum = 0.0f, bias = 0.0f;

    for (int r0 = 0; r0 < batch; r0 += TILE) {
        const int row = r0 + ty, dy_col = blockIdx.y * TILE + tx;
        dy_tile[ty][tx] = row < batch && dy_col < n_out ? dy[(size_t)row * n_out + dy_col] : 0.0f;
        x_tile[ty][tx] = row < batch && in < n_in ? x[(size_t)row * n_in + in] : 0.0f;
        __syncthreads();
#pragma unroll
        for (int i = 0; i < TILE; i++) {
            sum = fmaf(dy_tile[i][ty], x_tile[i][tx], sum);
            bias += dy_tile[i][ty];
        }
        __syncthreads();
    }
    if (out < n_out && in < n_in)
        dw[(size_t)out * n_in + in] = sum;
    if (out < n_out && in == 0)
        db[out] = bias;
}
