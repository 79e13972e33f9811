/* SPDX-License-Identifier: Apache-2.0 */
/* job.c - any bytes as a compile job: decoded, encoded again byte for byte, and its key. */
#include <stdlib.h>
#include <string.h>

#include "keygen/cuda/job.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct job job;
    struct err e;
    if (job_decode(data, size, &job, &e))
        return 0;
    struct writer again;
    writer_init(&again, 0);
    job_encode(&job, &again);
    if (again.failed || again.len != size || memcmp(again.data, data, size) != 0)
        abort();
    writer_close(&again);
    char hardware[WARM_HARDWARE_MAX];
    struct key graph;
    struct proof proof;
    job_key(&job, hardware, &graph, &proof, &e);
    job_close(&job);
    return 0;
}
