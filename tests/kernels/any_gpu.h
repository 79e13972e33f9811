/* SPDX-License-Identifier: Apache-2.0 */
/*
 * any_gpu.h - the GPU of the tests of kernels/exec: this machine's, with cubins of NVRTC, or else the stand-in for
 * libcuda.so.1 (tests/fakecuda), which runs kernels that were compiled for the CPU.
 *
 *     a real GPU   any_gpu_cubin ─▶ a cubin of the toolchain's NVRTC ─▶ driver_open
 *     none         for_cpu_cubin ─▶ a library for the CPU ─▶ any_gpu_use ─▶ driver_open
 *
 * Thread: the test's. Memory: as each function says.
 */
#ifndef WARM_TESTS_KERNELS_ANY_GPU_H
#define WARM_TESTS_KERNELS_ANY_GPU_H

#include <stdbool.h>
#include <stddef.h>

/* True if this machine's driver knows of a GPU. Tests with settings of the stand-in skip then. */
bool any_gpu_is_real(void);
/* Returns the target of that GPU, or sm_90, which is the stand-in's. */
const char *any_gpu_target(void);
/* Compiles CUDA C++ for the real GPU. Gives *out_len bytes (free()). Skips the test if there is no toolchain. */
void *any_gpu_cubin(const char *source, size_t *out_len);
/* Builds FOLDER/libcuda.so.1, the stand-in. */
void any_gpu_build_stand_in(const char *folder);
/* Builds the stand-in and loads it into this process, so that driver_open finds it, with the library of kernels
 * FOLDER/graphs.so. Does nothing on a real GPU. */
void any_gpu_use(const char *folder);

#endif
