/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tiled_product.cu - the template of a matrix product: c = a b, for each matrix of a batch.
 *
 *     a  [BATCH][M][K], b [BATCH][K][N]: each element as LOAD_A and LOAD_B compute it
 *     c  [BATCH][M][N], row-major
 *
 * The operands need not be matrices in memory. A convolution is a product of windows: a's rows are the places of a
 * window, and K is its elements. LOAD_A finds such an element in the tensor, or 0 beside it.
 *
 * A block of 256 threads computes a tile of 64 x 64 elements of c, a thread 4 x 4 of them. The block walks over K
 * in slices of 16: it copies 64 x 16 elements of a and 16 x 64 of b to shared memory (8.5 KiB). Then each thread
 * multiplies a column of 4 by a row of 4 for each k. So a loaded element is used 64 times, and 16 products
 * take 8 reads of shared memory, which are 2 of 16 bytes. Threads that follow one another copy elements that do so
 * in memory, along k or along the other index. 4 floats of padding keep the rows on different banks.
 *
 * Each element of c is a sum of chains of 256 products, in the order of k: results do not depend on the grid. Tiles at
 * the edges read zeros and leave out what is not there.
 *
 * tiled.c replaces PARAMETERS, SIZES by the constants, `constexpr long long M = 1024, …;`, LOAD_A and LOAD_B by
 * statements that set x to the element at t1, t2 and t3, and SUM, FMA and PLUS by c's type, fmaf and __fadd_rn.
 *
 * Source: Volkov and Demmel, "Benchmarking GPUs to tune dense linear algebra", SC 2008, section 5; NVIDIA, "CUTLASS:
 * Fast Linear Algebra in CUDA C++", 2017, figure 5 (thread tiles in block tiles).
 */
extern "C" __global__ __launch_bounds__(256) void kernel(PARAMETERS SUM *__restrict__ c)
{
    SIZES
    constexpr int TILE = 64, SLICE = 16, EACH = 4, THREADS = 256, PITCH = TILE + 4, CHAIN = 256;
    constexpr long long TILES_M = (M + TILE - 1) / TILE, TILES_N = (N + TILE - 1) / TILE;
    __shared__ __align__(16) SUM tile_a[SLICE][PITCH], tile_b[SLICE][PITCH]; /* [k][m], [k][n] */
    const long long batch = blockIdx.x / (TILES_M * TILES_N),
                    first_m = blockIdx.x / TILES_N % TILES_M * TILE, first_n = blockIdx.x % TILES_N * TILE;
    const int thread = threadIdx.x, row = thread / SLICE * EACH, column = thread % SLICE * EACH;
    SUM sums[EACH][EACH] = {}, totals[EACH][EACH] = {};

    for (long long first_k = 0; first_k < K; first_k += SLICE) {
        for (int i = thread; i < TILE * SLICE; i += THREADS) {
            const int k = A_ALONG_K ? i % SLICE : i / TILE, m = A_ALONG_K ? i / SLICE : i % TILE;
            const place_t t1 = batch, t2 = first_m + m, t3 = first_k + k;
            SUM x = 0;
            if ((K % SLICE == 0 || t3 < K) && (M % TILE == 0 || t2 < M)) {
LOAD_A
            }
            tile_a[k][m] = x;
        }
        for (int i = thread; i < TILE * SLICE; i += THREADS) {
            const int k = B_ALONG_K ? i % SLICE : i / TILE, n = B_ALONG_K ? i / SLICE : i % TILE;
            const place_t t1 = batch, t2 = first_k + k, t3 = first_n + n;
            SUM x = 0;
            if ((K % SLICE == 0 || t2 < K) && (N % TILE == 0 || t3 < N)) {
LOAD_B
            }
            tile_b[k][n] = x;
        }
        __syncthreads();
        for (int k = 0; k < SLICE; k++)
            for (int i = 0; i < EACH; i++)
                for (int j = 0; j < EACH; j++)
                    sums[i][j] = FMA(tile_a[k][row + i], tile_b[k][column + j], sums[i][j]);
        __syncthreads(); /* before the next slice takes its place */
        if ((first_k + SLICE) % CHAIN != 0)
            continue;
        for (int i = 0; i < EACH; i++) /* a chain ends */
            for (int j = 0; j < EACH; j++) {
                totals[i][j] = PLUS(totals[i][j], sums[i][j]);
                sums[i][j] = 0;
            }
    }
    for (int i = 0; i < EACH; i++)
        for (int j = 0; j < EACH; j++)
            if (first_m + row + i < M && first_n + column + j < N)
                c[(batch * M + first_m + row + i) * N + first_n + column + j] = PLUS(totals[i][j], sums[i][j]);
}
