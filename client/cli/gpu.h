/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu.h - the target of this machine's GPU.
 *
 * Thread: main. Memory: none.
 */
#ifndef WARM_CLI_GPU_H
#define WARM_CLI_GPU_H

#include <stdbool.h>

#define GPU_TARGET_MAX 16 /* bytes, NUL included */

/* Writes "sm_90", the target of the first GPU. False if there is none. Takes as long as the
 * driver's own tool: tens of milliseconds. */
bool gpu_target(char out[GPU_TARGET_MAX]);

#endif
