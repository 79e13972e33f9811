/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bundle.h - the result of a compile job as one value: everything that a program handle shows.
 *
 *     offset  size      field (little-endian)
 *     0       4         "WBUN"
 *     4       2         version, 1
 *     6       2         n, sections
 *     8       n × 24    section: u32 type, u32 zero, u64 offset, u64 length
 *     -       -         the sections' bytes, each at a multiple of 16
 *
 * One entry is one record: a cubin and its log cannot be torn apart.
 *
 * Thread: none. Memory: sections are views into the bundle.
 */
#ifndef WARM_CLIENT_BUNDLE_H
#define WARM_CLIENT_BUNDLE_H

#include "keygen/bytes.h"
#include "keygen/err.h"

enum bundle_type {
    BUNDLE_STATUS = 1, /* u32: what the compiler returned (nvrtcResult); 0 is success */
    BUNDLE_LOG = 2,    /* text without NUL */
    BUNDLE_CUBIN = 3,
    BUNDLE_PTX = 4, /* text without NUL */
    BUNDLE_LTOIR = 5,
    BUNDLE_OPTIXIR = 6,
    BUNDLE_LOWERED = 7, /* for each name expression in order: blob expression, blob lowered name */
};
#define BUNDLE_SECTIONS_MAX 16u

struct bundle_section {
    uint32_t type;
    struct view bytes;
};

/* Appends a bundle of `n` sections. */
void bundle_write(struct writer *w, const struct bundle_section *sections, size_t n);
/* Checks the whole bundle and fills `out` (room for BUNDLE_SECTIONS_MAX). MALFORMED, VERSION. */
int bundle_read(const void *data, size_t len, struct bundle_section *out, size_t *out_n,
                struct err *e);
/* The section of that type; an empty view with NULL data if there is none. */
struct view bundle_find(const struct bundle_section *sections, size_t n, uint32_t type);

#endif
