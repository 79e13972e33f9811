/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_reach.c - any bytes as a header and a source, with a byte 0xff between them: a source that
 * shows its place by itself shows it with a header too. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "keygen/cuda/reach.h"

static int shows(const uint8_t *header, size_t header_len, const uint8_t *source, size_t len)
{
    struct cuda_reach *r = cuda_reach_new();
    if (!r)
        abort();
    cuda_reach_add(r, header, header_len);
    cuda_reach_add(r, source, len);
    int it = cuda_reach_shows_place(r, source, len);
    cuda_reach_free(r);
    return it;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *between = size ? memchr(data, 0xff, size) : NULL;
    size_t header_len = between ? (size_t)(between - data) : size;
    const uint8_t *source = between ? between + 1 : data;
    size_t len = between ? size - header_len - 1 : size;
    if (shows(data, 0, source, len) && !shows(data, header_len, source, len))
        abort();
    return 0;
}
