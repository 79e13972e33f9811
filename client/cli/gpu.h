/* SPDX-License-Identifier: Apache-2.0 */
/* gpu.h - the target of this machine's GPU. Thread: any. Memory: none is owned. */
#ifndef WARM_CLI_GPU_H
#define WARM_CLI_GPU_H

#include <stdbool.h>

#define GPU_TARGET_MAX 16 /* bytes, NUL included */

/* "sm_90" for the first GPU, as the driver's own tool tells; false where there is none. Takes as long
 * as that tool does: tens of milliseconds. */
bool gpu_target(char out[GPU_TARGET_MAX]);

#endif
