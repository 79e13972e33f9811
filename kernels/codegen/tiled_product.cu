/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tiled_product.cu - the template of a matrix product: c = a b, for each matrix of a batch.
 *
 *     a  [BATCH][M][K] f32, element (n, m, k) at n A_BATCH + m A_M + k A_K
 *     b  [BATCH][K][N] f32, element (n, k, m) at n B_BATCH + k B_K + m B_N
 *     c  [BATCH][M][N] f32, row-major
 *
 * A block of 256 threads computes a tile of 64 x 64 elements of c, a thread 4 x 4 of them. The block walks over K
 * in slices of 16: it copies 64 x 16 elements of a and 16 x 64 of b to shared memory (8.5 KiB). Then each thread
 * multiplies a column of 4 by a row of 4 for each k. So a loaded element is used 64 times, and 16 products
 * take 8 reads of shared memory, which are 2 of 16 bytes. Threads that follow one another copy elements that do so
 * in memory, along k or along m. 4 floats of padding keep the rows on different banks.
 *
 * Each element of c is one sum in the order of k, as a loop over k computes it: results do not depend on the
 * grid. Tiles at the edges read zeros and leave out what is not there. 64 registers are enough, which a launch
 * without __launch_bounds__ must do with.
 *
 * SIZES declares the constants: `constexpr long long M = 1024, …;`. tiled.c replaces it; a compiler of this
 * file alone has it from -DSIZES=….
 *
 * Source: Volkov and Demmel, "Benchmarking GPUs to tune dense linear algebra", SC 2008, section 5; NVIDIA, "CUTLASS:
 * Fast Linear Algebra in CUDA C++", 2017, figure 5 (thread tiles in block tiles).
 */
extern "C" __global__ void kernel(const float *__restrict__ a, const float *__restrict__ b,
                                  float *__restrict__ c)
{
    SIZES
    constexpr int TILE = 64, SLICE = 16, EACH = 4, THREADS = 256, PITCH = TILE + 4;
    constexpr long long TILES_M = (M + TILE - 1) / TILE, TILES_N = (N + TILE - 1) / TILE;
    __shared__ __align__(16) float tile_a[SLICE][PITCH], tile_b[SLICE][PITCH]; /* [k][m], [k][n] */
    const long long batch = blockIdx.x / (TILES_M * TILES_N), first_m = blockIdx.x / TILES_N % TILES_M * TILE,
                    first_n = blockIdx.x % TILES_N * TILE;
    const int thread = threadIdx.x, row = thread / SLICE * EACH, column = thread % SLICE * EACH;
    float sums[EACH][EACH] = {};

    a += batch * A_BATCH;
    b += batch * B_BATCH;
    for (long long first_k = 0; first_k < K; first_k += SLICE) {
        for (int i = thread; i < TILE * SLICE; i += THREADS) {
            const int k = A_K == 1 ? i % SLICE : i / TILE, m = A_K == 1 ? i / SLICE : i % TILE;
            const bool is_there = (K % SLICE == 0 || first_k + k < K) && (M % TILE == 0 || first_m + m < M);
            tile_a[k][m] = is_there ? a[(first_m + m) * A_M + (first_k + k) * A_K] : 0.0f;
        }
        for (int i = thread; i < TILE * SLICE; i += THREADS) {
            const int k = B_K == 1 ? i % SLICE : i / TILE, n = B_K == 1 ? i / SLICE : i % TILE;
            const bool is_there = (K % SLICE == 0 || first_k + k < K) && (N % TILE == 0 || first_n + n < N);
            tile_b[k][n] = is_there ? b[(first_k + k) * B_K + (first_n + n) * B_N] : 0.0f;
        }
        __syncthreads();
        for (int k = 0; k < SLICE; k++)
            for (int i = 0; i < EACH; i++)
                for (int j = 0; j < EACH; j++)
                    sums[i][j] += tile_a[k][row + i] * tile_b[k][column + j];
        __syncthreads(); /* before the next slice takes its place */
    }
    for (int i = 0; i < EACH; i++)
        for (int j = 0; j < EACH; j++)
            if (first_m + row + i < M && first_n + column + j < N)
                c[(batch * M + first_m + row + i) * N + first_n + column + j] = sums[i][j];
}
