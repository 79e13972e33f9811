/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cub_block.cu - top-p ("nucleus") sampling's cut: for each row of logits, the most probable tokens
 * in order, their probabilities, and how many of them it takes to reach the mass p.
 *
 * The arithmetic is small; the headers are not. CUB's block-wide reduce, radix sort and scan come
 * with some 500 header files, which makes this the demo's case of a slow front end.
 *
 * All arrays are row-major, in device memory, n_cols <= 1024:
 *
 *   logits [rows][n_cols] float32          token [rows][n_cols] int32, logits in falling order
 *   prob   [rows][n_cols] float32, falling kept  [rows] int32
 *
 * Equal logits keep the order of their tokens: CUB's block radix sort is stable.
 * Source: Holtzman et al., "The Curious Case of Neural Text Degeneration", 2020, section 3.1.
 */
#include <cub/block/block_load.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_store.cuh>

constexpr int THREADS = 128;
constexpr int ITEMS = 8;
#define INF __int_as_float(0x7f800000)

using load_floats = cub::BlockLoad<float, THREADS, ITEMS, cub::BLOCK_LOAD_WARP_TRANSPOSE>;
using store_floats = cub::BlockStore<float, THREADS, ITEMS, cub::BLOCK_STORE_WARP_TRANSPOSE>;
using store_ints = cub::BlockStore<int, THREADS, ITEMS, cub::BLOCK_STORE_WARP_TRANSPOSE>;
using sort_pairs = cub::BlockRadixSort<float, THREADS, ITEMS, int>;
using reduce_floats = cub::BlockReduce<float, THREADS>;
using reduce_ints = cub::BlockReduce<int, THREADS>;
using scan_floats = cub::BlockScan<float, THREADS>;

/* One block of 128 threads covers one row, 8 neighbouring elements for each thread.
 *
 * kept[row] counts the elements before which less than `p` has been summed: the smallest number of
 * most probable tokens whose mass reaches p, and at least 1 for p > 0. Grid: rows. */
extern "C" __global__ void __launch_bounds__(THREADS)
    top_p_rows(const float *__restrict__ logits, int *__restrict__ token, float *__restrict__ prob,
               int *__restrict__ kept, int n_cols, float p)
{
    /* The steps follow one another, so they share the memory; a barrier parts them. */
    __shared__ union {
        load_floats::TempStorage load;
        store_floats::TempStorage store_f;
        store_ints::TempStorage store_i;
        sort_pairs::TempStorage sort;
        reduce_floats::TempStorage reduce_f;
        reduce_ints::TempStorage reduce_i;
        scan_floats::TempStorage scan;
    } temp;
    __shared__ float row_max, row_sum;
    const int row = blockIdx.x;
    const size_t at = (size_t)row * n_cols;

    float x[ITEMS];
    int index[ITEMS];
    load_floats(temp.load).Load(logits + at, x, n_cols, -INF); /* sorts last */
    for (int i = 0; i < ITEMS; i++)
        index[i] = threadIdx.x * ITEMS + i;
    __syncthreads();
    sort_pairs(temp.sort).SortDescending(x, index);

    /* After the sort the first element of the first thread is the row's largest. */
    if (threadIdx.x == 0)
        row_max = x[0];
    __syncthreads();
    for (int i = 0; i < ITEMS; i++)
        x[i] = threadIdx.x * ITEMS + i < n_cols ? expf(x[i] - row_max) : 0.0f;
    const float total = reduce_floats(temp.reduce_f).Sum(x);
    if (threadIdx.x == 0)
        row_sum = total; /* CUB gives the sum to the first thread alone */
    __syncthreads();
    for (int i = 0; i < ITEMS; i++)
        x[i] /= row_sum;

    float before[ITEMS];
    scan_floats(temp.scan).ExclusiveSum(x, before);
    __syncthreads();
    int n_kept = 0;
    for (int i = 0; i < ITEMS; i++)
        n_kept += threadIdx.x * ITEMS + i < n_cols && before[i] < p;
    n_kept = reduce_ints(temp.reduce_i).Sum(n_kept);
    if (threadIdx.x == 0)
        kept[row] = n_kept;
    __syncthreads();
    store_floats(temp.store_f).Store(prob + at, x, n_cols);
    __syncthreads();
    store_ints(temp.store_i).Store(token + at, index, n_cols);
}
