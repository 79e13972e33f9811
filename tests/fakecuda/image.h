/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image.h - how the stand-in for libcuda.so.1 finds a kernel that it can run: in the library
 * $FAKECUDA_KERNELS, under the name image_ID, as a struct image_kernel. ID is that of the cubin, which the
 * library's maker has compiled from the same source.
 *
 * Thread: any; no state.
 */
#ifndef WARM_TESTS_FAKECUDA_IMAGE_H
#define WARM_TESTS_FAKECUDA_IMAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct image_kernel {
    void (*run)(unsigned blocks, unsigned threads, bool has_barriers, void **args);
    unsigned n_args; /* all of them addresses */
    bool has_barriers;
};

/* Returns the ID of a whole ELF file, FNV-1a of its bytes up to the end of its section table. */
static inline uint64_t image_id(const void *image)
{
    const unsigned char *at = (const unsigned char *)image;
    uint64_t hash = 0xcbf29ce484222325u, sections;
    uint16_t size, n;
    memcpy(&sections, at + 0x28, sizeof sections);
    memcpy(&size, at + 0x3a, sizeof size);
    memcpy(&n, at + 0x3c, sizeof n);
    for (uint64_t i = 0; i < sections + (uint64_t)size * n; i++)
        hash = (hash ^ at[i]) * 0x100000001b3u;
    return hash;
}

#endif
