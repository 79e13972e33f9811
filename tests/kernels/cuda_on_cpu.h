/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_on_cpu.h - the kernels of kernels/, but for the CUB one, compiled by the host's compiler and
 * run by threads: what they compute and where they need a barrier can be tested without a GPU.
 *
 * A block is as many POSIX threads as it has threads; the blocks of a grid run one after another.
 * Shared memory is static, __syncthreads a barrier of the block, shuffles and __syncwarp barriers
 * of a warp. Under ThreadSanitizer a missing barrier of a kernel is a reported race.
 *
 * Thread: one launch at a time. Memory: device memory is the heap.
 */
#ifndef WARM_TESTS_KERNELS_CUDA_ON_CPU_H
#define WARM_TESTS_KERNELS_CUDA_ON_CPU_H

#ifdef __cplusplus
extern "C" {
#endif

#include "tests/demo/device.h"

/* A device whose modules are always loaded. Lives for ever. */
struct device *cuda_on_cpu(void);

#ifdef __cplusplus
}
#endif

#endif
