/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_on_cpu.cpp - the parts of CUDA C++ that the kernels use, and a grid of threads to run them.
 * C++ because the kernels are. */
#include "tests/kernels/cuda_on_cpu.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <utility>

namespace
{

constexpr unsigned WARP = 32;
constexpr unsigned MAX_THREADS = 1024;

struct index3 {
    unsigned x, y, z;
};
thread_local index3 threadIdx, blockIdx;
index3 blockDim, gridDim;

/* The running block: barriers, and a place where a warp's threads leave words for each other. */
pthread_barrier_t block_barrier;
pthread_barrier_t warp_barriers[MAX_THREADS / WARP];
float shuffled[MAX_THREADS];

unsigned thread_number() { return threadIdx.y * blockDim.x + threadIdx.x; }

void __syncthreads() { pthread_barrier_wait(&block_barrier); }

void __syncwarp() { pthread_barrier_wait(&warp_barriers[thread_number() / WARP]); }

float __shfl_xor_sync(unsigned, float x, int mask)
{
    const unsigned me = thread_number();
    shuffled[me] = x;
    __syncwarp();
    const float theirs = shuffled[me ^ (unsigned)mask];
    __syncwarp();
    return theirs;
}

float __int_as_float(int bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

int min(int a, int b) { return a < b ? a : b; }

} // namespace

#define __global__
#define __device__ static
#define __shared__ static
#define __launch_bounds__(threads)

namespace mlp_forward
{
#include "kernels/mlp_forward.cu"
}
namespace mlp_backward
{
#include "kernels/mlp_backward.cu"
}
namespace adam
{
#include "kernels/adam.cu"
}
namespace flash_attention
{
#include "kernels/flash_attention.cu"
}

namespace
{

template <typename... Args, size_t... I>
void call(void (*kernel)(Args...), void **args, std::index_sequence<I...>)
{
    kernel(*static_cast<Args *>(args[I])...);
}

template <typename... Args>
void call(void (*kernel)(Args...), void **args)
{
    call(kernel, args, std::index_sequence_for<Args...>());
}

const struct {
    const char *name;
    void (*run)(void **args);
} KERNELS[] = {
#define KERNEL(file, name)                                                                         \
    {                                                                                              \
#name, [](void **args) { call(file::name, args); }                                         \
    }
    KERNEL(mlp_forward, dense_relu_forward),
    KERNEL(mlp_forward, dense_forward),
    KERNEL(mlp_forward, mse_forward),
    KERNEL(mlp_backward, mse_backward),
    KERNEL(mlp_backward, dense_backward_input),
    KERNEL(mlp_backward, dense_backward_weights),
    KERNEL(adam, adam_step),
    KERNEL(flash_attention, flash_attention_forward),
};

struct worker {
    pthread_t thread;
    index3 index;
    void (*run)(void **args);
    void **args;
};

/* One thread of every block of the grid. The last barrier keeps a fast thread from writing the next
 * block's shared memory while a slow one still reads this block's. */
void *worker_main(void *data)
{
    const worker *w = static_cast<worker *>(data);
    threadIdx = w->index;
    for (unsigned y = 0; y < gridDim.y; y++) {
        for (unsigned x = 0; x < gridDim.x; x++) {
            blockIdx = {x, y, 0};
            w->run(w->args);
            __syncthreads();
        }
    }
    return nullptr;
}

void run_grid(void (*run)(void **), void **args)
{
    static worker workers[MAX_THREADS];
    const unsigned n = blockDim.x * blockDim.y, n_warps = n / WARP;

    pthread_barrier_init(&block_barrier, nullptr, n);
    for (unsigned i = 0; i < n_warps; i++)
        pthread_barrier_init(&warp_barriers[i], nullptr, WARP);
    for (unsigned i = 0; i < n; i++) {
        workers[i] = {pthread_t(), {i % blockDim.x, i / blockDim.x, 0}, run, args};
        if (pthread_create(&workers[i].thread, nullptr, worker_main, &workers[i]) != 0)
            abort(); /* the threads made so far wait for this one for ever */
    }
    for (unsigned i = 0; i < n; i++)
        pthread_join(workers[i].thread, nullptr);
    for (unsigned i = 0; i < n_warps; i++)
        pthread_barrier_destroy(&warp_barriers[i]);
    pthread_barrier_destroy(&block_barrier);
}

int cpu_alloc(device *, size_t len, uint64_t *out_address, err *err)
{
    void *memory = calloc(1, len);
    if (!memory)
        return err_set(err, WARM_ENOMEM, "%zu bytes", len);
    *out_address = reinterpret_cast<uint64_t>(memory);
    return 0;
}

void cpu_release(device *, uint64_t address) { free(reinterpret_cast<void *>(address)); }

int cpu_write(device *, uint64_t to, const void *from, size_t len, err *)
{
    memcpy(reinterpret_cast<void *>(to), from, len);
    return 0;
}

int cpu_read(device *, void *to, uint64_t from, size_t len, err *)
{
    memcpy(to, reinterpret_cast<void *>(from), len);
    return 0;
}

int cpu_launch(device *, const char *kernel, dims grid, dims block, void **args, err *err)
{
    const unsigned n = block.x * block.y;
    if (n == 0 || n > MAX_THREADS || n % WARP != 0)
        return err_set(err, WARM_EINVALID, "%s: a block of %u threads", kernel, n);
    for (const auto &k : KERNELS) {
        if (strcmp(k.name, kernel) == 0) {
            gridDim = {grid.x, grid.y, 1};
            blockDim = {block.x, block.y, 1};
            run_grid(k.run, args);
            return 0;
        }
    }
    return err_set(err, WARM_ENOT_FOUND, "%s", kernel);
}

} // namespace

device *cuda_on_cpu(void)
{
    static device cpu = {cpu_alloc, cpu_release, cpu_write, cpu_read, cpu_launch};
    return &cpu;
}
