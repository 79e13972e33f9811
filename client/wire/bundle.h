/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bundle.h - the result of a compile job as one value: everything that an nvrtcProgram can show.
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
 * Thread: any; no state. Memory: sections are views into the bundle.
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
    BUNDLE_STATUS = 1, /* u32: the compiler's return code (nvrtcResult); 0 is success */
    BUNDLE_LOG = 2,    /* text without NUL */
    BUNDLE_CUBIN = 3,
    BUNDLE_PTX = 4, /* text without NUL */
    BUNDLE_LTOIR = 5,
    BUNDLE_OPTIXIR = 6,
    BUNDLE_LOWERED = 7,  /* for each name expression in order: blob expression, blob lowered name */
    BUNDLE_COMPILER = 8, /* text without NUL: the compiler, "NVRTC 13.5 4e41f5…" */
};
#define BUNDLE_SECTIONS_MAX 16u

struct bundle_section {
    uint32_t type;
    struct view bytes;
};

/* Appends a bundle of `n` sections, no type twice; check writer->failed. Alignment is relative to
 * the bundle's first byte. */
void bundle_write(struct writer *w, const struct bundle_section *sections, size_t n);

/* Checks the whole bundle and fills `out` (room for BUNDLE_SECTIONS_MAX). A bundle can be written
 * in one way only, and any other is refused: sections follow one another, with zeros between them
 * and nothing behind the last. Sections of unknown types are kept. Errors: MALFORMED, VERSION. */
int bundle_read(const void *data, size_t len, struct bundle_section *out, size_t *out_n,
                struct err *e);

/* Returns the section of that type; an empty view with NULL data if there is none. */
struct view bundle_find(const struct bundle_section *sections, size_t n, uint32_t type);

/* Returns the compiler's return code; 0 if the bundle has none. */
uint32_t bundle_status(const struct bundle_section *sections, size_t n);

/* Appends one pair to the bytes of a BUNDLE_LOWERED section. */
void bundle_lowered_add(struct writer *section, struct view expression, struct view lowered);
/* Reads the next pair from a reader over such a section. False at the end; if the reader has failed
 * then, the section is damaged. */
bool bundle_lowered_next(struct reader *section, struct view *out_expression,
                         struct view *out_lowered);

#endif
