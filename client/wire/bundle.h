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
#ifndef WARM_WIRE_BUNDLE_H
#define WARM_WIRE_BUNDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keygen/bytes.h"
#include "keygen/err.h"

#define BUNDLE_VERSION 1u

enum bundle_type {
    BUNDLE_STATUS = 1, /* u32: what the compiler returned (nvrtcResult); 0 is success */
    BUNDLE_LOG = 2,    /* text without NUL */
    BUNDLE_CUBIN = 3,
    BUNDLE_PTX = 4, /* text without NUL */
    BUNDLE_LTOIR = 5,
    BUNDLE_OPTIXIR = 6,
    BUNDLE_LOWERED = 7,  /* for each name expression in order: blob expression, blob lowered name */
    BUNDLE_COMPILER = 8, /* text without NUL: what made it, "NVRTC 13.5 4e41f5…" */
};
#define BUNDLE_SECTIONS_MAX 16u

struct bundle_section {
    uint32_t type;
    struct view bytes;
};

/* Appends a bundle of `n` sections, no type twice; check writer->failed. Alignment is relative to
 * the bundle's first byte. */
void bundle_write(struct writer *w, const struct bundle_section *sections, size_t n);

/* Checks the whole bundle and fills `out` (room for BUNDLE_SECTIONS_MAX). There is one way to write
 * a bundle, and any other is refused: sections in place one after the other, zeros between them,
 * nothing behind the last. Types that are not known are kept. Errors: MALFORMED, VERSION. */
int bundle_read(const void *data, size_t len, struct bundle_section *out, size_t *out_n,
                struct err *e);

/* The section of that type; an empty view with NULL data if there is none. */
struct view bundle_find(const struct bundle_section *sections, size_t n, uint32_t type);

/* What the compiler returned; 0 if the bundle does not say. */
uint32_t bundle_status(const struct bundle_section *sections, size_t n);

/* BUNDLE_LOWERED: an adder appends one pair to the section's bytes; `next` takes one from a reader
 * over them, and false means the end or, if the reader has failed, a section that is damaged. */
void bundle_lowered_add(struct writer *section, struct view expression, struct view lowered);
bool bundle_lowered_next(struct reader *section, struct view *out_expression,
                         struct view *out_lowered);

#endif
