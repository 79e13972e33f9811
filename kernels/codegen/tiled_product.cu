/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tiled_product.cu - the template of a matrix product: c = a b, for each matrix of a batch.
 *
 *     a  [BATCH][M][K], element (n, m, k) at n A_BATCH + m A_M + k A_K
 *     b  [BATCH][K][N], element (n, k, m) at n B_BATCH + k B_K + m B_N
 *     c  [BATCH][M][N], row-major
 *
 * A block of 256 threads computes a tile of 64 x 64 elements of c, a thread 4 x 4 of them. The block walks over K
 * in slices of 16: it copies 64 x 16 elements of a and 16 x 64 of b to shared memory (8.5 KiB). Then each thread
 * multiplies a column of 4 by a row of 4 for each k. So a loaded element is used 64 times, and 16 products
 * take 8 reads of shared memory, which are 2 of 16 bytes. Threads that follow one another copy elements that do so
 * in memory, along k or along m. 4 floats of padding keep the rows on different banks.
 *
 * Each element of c is a sum of chains of 256 products, in the order of k: results do not depend on the grid. Tiles at
 * the edges read zeros and leave out what is not there.
 *
 * If few tiles have a long K, a tile's sum has PARTS, each of K products: c is [BATCH][PARTS][M][N] then, and part p
 * of a begins at p A_PART. K_ALL is the length of all: the last part may be shorter.
 *
 * tiled.c replaces SIZES by the constants, `constexpr long long M = 1024, …;`, and the names of types and functions:
 * those of the operands' elements, of c, of the conversion between them, fmaf and __fadd_rn.
 *
 * Source: Volkov and Demmel, "Benchmarking GPUs to tune dense linear algebra", SC 2008, section 5; NVIDIA, "CUTLASS:
 * Fast Linear Algebra in CUDA C++", 2017, figure 5 (thread tiles in block tiles).
 */
extern "C" __global__ __launch_bounds__(256) void kernel(const ELEM *__restrict__ a,
                                                         const ELEM *__restrict__ b, SUM *__restrict__ c)
{
    SIZES
    constexpr int TILE = 64, SLICE = 16, EACH = 4, THREADS = 256, PITCH = TILE + 4, CHAIN = 256;
    constexpr long long TILES_M = (M + TILE - 1) / TILE, TILES_N = (N + TILE - 1) / TILE;
    __shared__ __align__(16) SUM tile_a[SLICE][PITCH], tile_b[SLICE][PITCH]; /* [k][m], [k][n] */
    const long long matrix = blockIdx.x / (TILES_M * TILES_N), batch = matrix / PARTS, part = matrix % PARTS,
                    first_m = blockIdx.x / TILES_N % TILES_M * TILE, first_n = blockIdx.x % TILES_N * TILE;
    const long long end_k = (part + 1) * K <= K_ALL ? K : K_ALL - part * K;
    const int thread = threadIdx.x, row = thread / SLICE * EACH, column = thread % SLICE * EACH;
    SUM sums[EACH][EACH] = {}, totals[EACH][EACH] = {};

    a += batch * A_BATCH + part * A_PART;
    b += batch * B_BATCH + part * B_PART;
    for (long long first_k = 0; first_k < end_k; first_k += SLICE) {
        for (int i = thread; i < TILE * SLICE; i += THREADS) {
            const int k = A_K == 1 ? i % SLICE : i / TILE, m = A_K == 1 ? i / SLICE : i % TILE;
            const bool is_there = first_k + k < end_k && (M % TILE == 0 || first_m + m < M);
            tile_a[k][m] = is_there ? LOAD(a[(first_m + m) * A_M + (first_k + k) * A_K]) : 0;
        }
        for (int i = thread; i < TILE * SLICE; i += THREADS) {
            const int k = B_K == 1 ? i % SLICE : i / TILE, n = B_K == 1 ? i / SLICE : i % TILE;
            const bool is_there = first_k + k < end_k && (N % TILE == 0 || first_n + n < N);
            tile_b[k][n] = is_there ? LOAD(b[(first_k + k) * B_K + (first_n + n) * B_N]) : 0;
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
                c[(matrix * M + first_m + row + i) * N + first_n + column + j] = PLUS(totals[i][j], sums[i][j]);
}
