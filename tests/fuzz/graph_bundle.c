/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graph_bundle.c - reads any bytes as a compiled graph, and as a cubin. A graph of this version that
 * can be read must be written as the same bytes. The target first corrects the checksum: with a wrong one the
 * reader would stop at once.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "kernels/bundle/graph_bundle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct graph_bundle b;
    struct writer again;
    uint32_t registers;
    uint64_t shared;
    graph_cubin_needs((struct view){data, size}, &registers, &shared);
    uint8_t *fixed = malloc(size + 1);
    if (!fixed || size < 32) {
        free(fixed);
        return 0;
    }
    memcpy(fixed, data, size);
    memcpy(fixed, GRAPH_BUNDLE_MAGIC "\0\0\0", 12);
    fixed[8] = size & 1 ? GRAPH_BUNDLE_OLDEST : GRAPH_BUNDLE_VERSION;
    bytes_store(fixed + 24, XXH3_64bits(fixed + 32, size - 32), 8);
    if (graph_bundle_read(fixed, size, &b, NULL) == 0 && fixed[8] == GRAPH_BUNDLE_VERSION) {
        writer_init(&again, 0);
        graph_bundle_write(&b, &again);
        assert(!again.failed && again.len == size && memcmp(again.data, fixed, size) == 0);
        writer_close(&again);
    }
    graph_bundle_close(&b);
    free(fixed);
    return 0;
}
