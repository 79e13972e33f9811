/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu.c - finds the target of this machine's GPU by nvidia-smi, for `warm compile` and `warm
 * doctor`. A static program cannot load the driver's library; nvidia-smi comes with every driver.
 *
 * Thread: main.
 */
#include "client/cli/gpu.h"

#include <stdio.h>

bool gpu_target(char out[GPU_TARGET_MAX])
{
    FILE *tool =
        popen("nvidia-smi --id=0 --query-gpu=compute_cap --format=csv,noheader 2>/dev/null", "re");
    if (!tool)
        return false;
    unsigned major, minor;
    int n_fields = fscanf(tool, "%3u.%1u", &major, &minor);
    if (pclose(tool) != 0 || n_fields != 2)
        return false;
    snprintf(out, GPU_TARGET_MAX, "sm_%u%u", major, minor);
    return true;
}
