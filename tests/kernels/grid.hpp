/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grid.hpp - the parts of CUDA C++ that the kernels use, and grids of threads to run them on the CPU. The
 * kernels' sources are included behind it.
 *
 *   grid_with_barriers   a block is as many POSIX threads as it has threads; shared memory is static,
 *                        __syncthreads a barrier of the block, shuffles and __syncwarp barriers of a warp. Under
 *                        ThreadSanitizer a missing barrier of a kernel is a reported race
 *   grid_of_fibers       the same with one POSIX thread, which goes on with the next thread of the block at each
 *                        __syncthreads: much faster, and finds no races. Not for warps
 *   grid_in_turn         one thread after the other: for kernels without barriers
 *
 * The blocks of a grid run one after another. One grid at a time.
 */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
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

/* Two barriers in turn. Of one alone ThreadSanitizer would believe that a slow thread, which leaves it, has seen
 * what fast ones did before they came to it again. */
struct barrier {
    pthread_barrier_t each[2];
    void open(unsigned n)
    {
        for (auto &b : each)
            pthread_barrier_init(&b, nullptr, n);
    }
    void wait(unsigned &turns) { pthread_barrier_wait(&each[turns++ % 2]); }
    void close()
    {
        for (auto &b : each)
            pthread_barrier_destroy(&b);
    }
};
thread_local unsigned block_turns, warp_turns;

/* The C library's lgamma() writes the sign into a variable of all threads. */
[[maybe_unused]] thread_local int sign_of_gamma;
#define lgamma(x)  lgamma_r(x, &sign_of_gamma)
#define lgammaf(x) lgammaf_r(x, &sign_of_gamma)

/* The running block: barriers, and a place where a warp's threads leave words for each other. */
barrier block_barrier, warp_barriers[MAX_THREADS / WARP];
[[maybe_unused]] float shuffled[MAX_THREADS];

[[maybe_unused]] unsigned thread_number() { return threadIdx.y * blockDim.x + threadIdx.x; }

/* A thread of the running block, if the block is one of fibers. */
struct fiber {
    ucontext_t at;
    index3 index;
    void (*run)(void **args);
    void **args;
    bool done;
};
ucontext_t fiber_scheduler;
fiber *running_fiber;

[[maybe_unused]] void __syncthreads()
{
    if (running_fiber)
        swapcontext(&running_fiber->at, &fiber_scheduler);
    else
        block_barrier.wait(block_turns);
}

[[maybe_unused]] void __syncwarp()
{
    warp_barriers[thread_number() / WARP].wait(warp_turns);
}

[[maybe_unused]] float __shfl_xor_sync(unsigned, float x, int mask)
{
    const unsigned me = thread_number();
    shuffled[me] = x;
    __syncwarp();
    const float theirs = shuffled[me ^ (unsigned)mask];
    __syncwarp();
    return theirs;
}

[[maybe_unused]] float __int_as_float(int bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

[[maybe_unused]] float __fadd_rn(float a, float b) { return a + b; }
[[maybe_unused]] float __fmul_rn(float a, float b) { return a * b; }
[[maybe_unused]] double __dadd_rn(double a, double b) { return a + b; }
[[maybe_unused]] double __dmul_rn(double a, double b) { return a * b; }

/* The x with erf(x) = y, by Newton's method from a rough start. */
[[maybe_unused]] double erfinv(double y)
{
    double w = -log((1 - y) * (1 + y)), x = y * (w < 5 ? 1 + 0.1 * w : sqrt(w));
    if (!(fabs(y) < 1))
        return fabs(y) == 1 ? y * INFINITY : NAN;
    for (int i = 0; i < 60; i++) {
        const double left = y >= 0 ? erfc(x) - (1 - y) : (1 + y) - erfc(-x);
        const double step = left / (2 / sqrt(M_PI) * exp(-x * x));
        x += step / (1 - x * step);
    }
    return x;
}
[[maybe_unused]] float erfinvf(float y) { return (float)erfinv(y); }

[[maybe_unused]] int min(int a, int b) { return a < b ? a : b; }

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

[[maybe_unused]] void grid_with_barriers(void (*run)(void **), void **args, index3 grid,
                                         index3 block)
{
    static worker workers[MAX_THREADS];
    const unsigned n = block.x * block.y, n_warps = n / WARP;

    gridDim = grid;
    blockDim = block;
    block_barrier.open(n);
    for (unsigned i = 0; i < n_warps; i++)
        warp_barriers[i].open(WARP);
    for (unsigned i = 0; i < n; i++) {
        workers[i] = {pthread_t(), {i % block.x, i / block.x, 0}, run, args};
        if (pthread_create(&workers[i].thread, nullptr, worker_main, &workers[i]) != 0)
            abort(); /* the threads made so far wait for this one for ever */
    }
    for (unsigned i = 0; i < n; i++)
        pthread_join(workers[i].thread, nullptr);
    for (unsigned i = 0; i < n_warps; i++)
        warp_barriers[i].close();
    block_barrier.close();
}

void fiber_main()
{
    running_fiber->run(running_fiber->args);
    running_fiber->done = true;
}

/* Runs the fibers of a block, each up to its next barrier, until all are done. */
void run_fibers(fiber *fibers, unsigned n)
{
    for (unsigned left = n; left;) {
        left = 0;
        for (unsigned i = 0; i < n; i++) {
            if (fibers[i].done)
                continue;
            running_fiber = &fibers[i];
            threadIdx = fibers[i].index;
            swapcontext(&fiber_scheduler, &fibers[i].at);
            left += !fibers[i].done;
        }
    }
    running_fiber = nullptr;
}

[[maybe_unused]] void grid_of_fibers(void (*run)(void **), void **args, index3 grid, index3 block)
{
    constexpr size_t STACK = 256 << 10; /* bytes; those that are not touched take no memory */
    static fiber fibers[MAX_THREADS];
    static char *stacks = static_cast<char *>(mmap(nullptr, MAX_THREADS * STACK,
                                                   PROT_READ | PROT_WRITE,
                                                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    gridDim = grid;
    blockDim = block;
    for (unsigned x = 0; x < grid.x; x++) {
        for (unsigned i = 0; i < block.x; i++) {
            getcontext(&fibers[i].at);
            fibers[i].at.uc_stack = {stacks + i * STACK, 0, STACK};
            fibers[i].at.uc_link = &fiber_scheduler;
            fibers[i].index = {i, 0, 0};
            fibers[i].run = run;
            fibers[i].args = args;
            fibers[i].done = false;
            makecontext(&fibers[i].at, fiber_main, 0);
        }
        blockIdx = {x, 0, 0};
        run_fibers(fibers, block.x);
    }
}

[[maybe_unused]] void grid_in_turn(void (*run)(void **), void **args, index3 grid, index3 block)
{
    gridDim = grid;
    blockDim = block;
    for (blockIdx.y = 0; blockIdx.y < grid.y; blockIdx.y++)
        for (blockIdx.x = 0; blockIdx.x < grid.x; blockIdx.x++)
            for (threadIdx.y = 0; threadIdx.y < block.y; threadIdx.y++)
                for (threadIdx.x = 0; threadIdx.x < block.x; threadIdx.x++)
                    run(args);
}

/* Calls a kernel; args[i] points to its argument i, as for cuLaunchKernel. */
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

template <typename... Args>
constexpr unsigned count_args(void (*)(Args...))
{
    return sizeof...(Args);
}

/* Runs a kernel in blocks of this many threads. */
template <auto kernel>
void launch(unsigned blocks, unsigned threads, bool has_barriers, void **args)
{
    auto run = [](void **a) { call(kernel, a); };
#ifdef __SANITIZE_THREAD__
    constexpr auto together = grid_with_barriers;
#else
    constexpr auto together = grid_of_fibers;
#endif
    if (has_barriers)
        together(run, args, {blocks, 1, 1}, {threads, 1, 1});
    else
        grid_in_turn(run, args, {blocks, 1, 1}, {threads, 1, 1});
}

} // namespace

#define __global__
#define __device__
#define __shared__ static
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(...)
