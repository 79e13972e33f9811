/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu.h - the first GPU of this machine as a struct device, with one module loaded: what the demo's checks
 * need of exec/driver.h.
 *
 * Thread: a GPU is used by the thread that opened it. Memory: a GPU owns its driver and its module; what was
 * allocated on the device goes with them.
 */
#ifndef WARM_TESTS_DEMO_GPU_H
#define WARM_TESTS_DEMO_GPU_H

#include "kernels/exec/driver.h"
#include "tests/demo/device.h"

struct gpu;

/* Opens the first GPU. Errors: those of driver_open. */
int gpu_open(struct gpu **out, struct err *e);
/* Frees everything; NULL is fine. */
void gpu_close(struct gpu *g);

/* Returns the driver, which lives as long as the GPU. */
const struct driver *gpu_driver(const struct gpu *g);
/* Loads a cubin in place of the one loaded before; borrows the bytes during the call. Errors: those of
 * driver_load. */
int gpu_load(struct gpu *g, const void *cubin, size_t len, struct err *e);
/* Returns the device, for launches of the loaded module's kernels. It lives as long as the GPU. */
struct device *gpu_device(struct gpu *g);

#endif
