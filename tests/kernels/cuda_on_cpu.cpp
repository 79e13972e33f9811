/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_on_cpu.cpp - the demo's kernels for the CPU, as a struct device. C++ because the kernels are. */
#include "tests/kernels/cuda_on_cpu.h"

#include "tests/kernels/grid.hpp"

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
            grid_with_barriers(k.run, args, {grid.x, grid.y, 1}, {block.x, block.y, 1});
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
