/* SPDX-License-Identifier: Apache-2.0 */
/* job.c - any bytes as a compile job: decoded, encoded again byte for byte, and its key. As a file of a
 * recorded job: the path of its compiler is a text, and the rest is the same job. */
#include <stdlib.h>
#include <string.h>

#include "client/lib/job_file.h"
#include "keygen/cuda/job.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_file(const uint8_t *data, size_t size)
{
    static const char name[] = "00112233445566778899aabbccddeeff-0.job";
    struct job_file file;
    struct err e;
    if (job_file_read(name, data, size, &file, &e))
        return;
    if (file.path.len == 0 || file.path.len >= size || file.job.source.len >= size ||
        memchr(file.path.data, '\0', file.path.len))
        abort();
    job_close(&file.job);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct job job;
    read_file(data, size);
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
