/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flash_attention.cu - exact attention without the score matrix in memory: the keys pass by in
 * tiles, and the softmax is kept up to date as they do.
 *
 *   o[i] = sum over j of softmax_j(scale q[i] . k[j]) v[j]
 *
 * All arrays are float32, row-major, in device memory; a "head" is one head of one batch element:
 *
 *   q, k, v, o [heads][length][64]      lse [heads][length]
 *
 * Sources: Dao, "FlashAttention-2", 2023, algorithm 1; the running maximum and sum are those of
 * Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018, algorithm 3.
 */
constexpr int DIM = 64;    /* of a head */
constexpr int ROWS = 64;   /* queries of a block */
constexpr int COLS = 32;   /* keys of a tile: with 32 the four tiles fit into 48 KiB */
constexpr int LANES = 16;  /* threads that share a row; half a warp, so they can shuffle */
constexpr int ROWS_EACH = ROWS / 16;
constexpr int COLS_EACH = COLS / LANES;
constexpr int DIMS_EACH = DIM / LANES;
#define INF __int_as_float(0x7f800000)

/* Reductions over the LANES threads of a row. */
__device__ float row_max(float x)
{
    for (int mask = LANES / 2; mask > 0; mask /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, mask));
    return x;
}

__device__ float row_sum(float x)
{
    for (int mask = LANES / 2; mask > 0; mask /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, mask);
    return x;
}

/* Copies rows [first, first + n_rows) of one head into shared memory, zeros beyond its end. All
 * 256 threads take part; neighbours read neighbouring words. */
template <int N_ROWS, int STRIDE>
__device__ void load_tile(float (*tile)[STRIDE], const float *head, int first, int length)
{
    const int thread = threadIdx.y * LANES + threadIdx.x;
    for (int i = thread; i < N_ROWS * DIM; i += 256) {
        const int row = i / DIM, d = i % DIM;
        tile[row][d] = first + row < length ? head[(size_t)(first + row) * DIM + d] : 0.0f;
    }
}

/* One block of (16, 16) threads covers ROWS queries (blockIdx.x) of one head (blockIdx.y):
 * threads with one threadIdx.y own ROWS_EACH rows together, of which each holds COLS_EACH scores of
 * the tile and DIMS_EACH elements of the output.
 *
 * `causal` non-zero hides the keys after each query. lse gets log(sum over j of exp(scale q.k)),
 * from which a backward pass can make the probabilities again.
 * Grid: (ceil(length / 64), heads). */
extern "C" __global__ void __launch_bounds__(256)
    flash_attention_forward(const float *__restrict__ q, const float *__restrict__ k,
                            const float *__restrict__ v, float *__restrict__ o,
                            float *__restrict__ lse, int length, float scale, int causal)
{
    /* The odd strides keep threads that read down a column on different banks. */
    __shared__ float q_tile[ROWS][DIM + 1];
    __shared__ float k_tile[COLS][DIM + 1];
    __shared__ float v_tile[COLS][DIM];
    __shared__ float p_tile[ROWS][COLS + 1];
    const int tx = threadIdx.x;
    const int my_row = threadIdx.y * ROWS_EACH;
    const int first_query = blockIdx.x * ROWS;
    const size_t head = (size_t)blockIdx.y * length;

    float out[ROWS_EACH][DIMS_EACH] = {};
    float max[ROWS_EACH], sum[ROWS_EACH] = {};
    for (int r = 0; r < ROWS_EACH; r++)
        max[r] = -INF;
    load_tile<ROWS>(q_tile, q + head * DIM, first_query, length);

    const int last_query = min(first_query + ROWS, length) - 1;
    const int n_keys = causal ? last_query + 1 : length;
    for (int first_key = 0; first_key < n_keys; first_key += COLS) {
        load_tile<COLS>(k_tile, k + head * DIM, first_key, length);
        load_tile<COLS>(v_tile, v + head * DIM, first_key, length);
        __syncthreads();

        float score[ROWS_EACH][COLS_EACH] = {};
#pragma unroll 8
        for (int d = 0; d < DIM; d++)
            for (int r = 0; r < ROWS_EACH; r++)
                for (int c = 0; c < COLS_EACH; c++)
                    score[r][c] = fmaf(q_tile[my_row + r][d], k_tile[tx + c * LANES][d],
                                       score[r][c]);

        for (int r = 0; r < ROWS_EACH; r++) {
            const int query = first_query + my_row + r;
            float tile_max = max[r];
            for (int c = 0; c < COLS_EACH; c++) {
                const int key = first_key + tx + c * LANES;
                const bool seen = key < length && (!causal || key <= query);
                score[r][c] = seen ? score[r][c] * scale : -INF;
                tile_max = fmaxf(tile_max, score[r][c]);
            }
            tile_max = row_max(tile_max);
            /* What was summed under the old maximum is scaled to the new one. The first tile holds
             * a key that is seen (key 0), so tile_max is finite from here on. */
            const float shrink = expf(max[r] - tile_max);
            float tile_sum = 0.0f;
            for (int c = 0; c < COLS_EACH; c++) {
                const float p = expf(score[r][c] - tile_max);
                p_tile[my_row + r][tx + c * LANES] = p;
                tile_sum += p;
            }
            sum[r] = fmaf(sum[r], shrink, row_sum(tile_sum));
            max[r] = tile_max;
            for (int d = 0; d < DIMS_EACH; d++)
                out[r][d] *= shrink;
        }
        __syncwarp(); /* a row of p_tile is written and read by one half warp */

#pragma unroll 8
        for (int c = 0; c < COLS; c++)
            for (int r = 0; r < ROWS_EACH; r++)
                for (int d = 0; d < DIMS_EACH; d++)
                    out[r][d] = fmaf(p_tile[my_row + r][c], v_tile[c][tx + d * LANES], out[r][d]);
        __syncthreads(); /* before the next tile overwrites k_tile and v_tile */
    }

    for (int r = 0; r < ROWS_EACH; r++) {
        const int query = first_query + my_row + r;
        if (query >= length)
            break;
        for (int d = 0; d < DIMS_EACH; d++)
            o[(head + query) * DIM + tx + d * LANES] = out[r][d] / sum[r];
        if (tx == 0)
            lse[head + query] = max[r] + logf(sum[r]);
    }
}
