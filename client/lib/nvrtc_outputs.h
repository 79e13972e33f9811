/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvrtc_outputs.h - takes the outputs of a compiled nvrtcProgram as sections of a bundle. Workers and the
 * preload library include it behind their own `nvrtc_program`, so both make the same bytes.
 *
 * Thread: one at a time for a program. Memory: nvrtc_sections_free frees the sections' bytes.
 */
#ifndef WARM_LIB_NVRTC_OUTPUTS_H
#define WARM_LIB_NVRTC_OUTPUTS_H

#include <stdlib.h>

#include "client/lib/ptxas_log.h"
#include "client/wire/bundle.h"

typedef int (*nvrtc_size_fn)(nvrtc_program program, size_t *out);
typedef int (*nvrtc_bytes_fn)(nvrtc_program program, char *out);
typedef int (*nvrtc_lowered_fn)(nvrtc_program program, const char *expression, const char **out);

/* Adds one kind of output as a section, without the NUL at the end of NVRTC's texts, and the log
 * without ptxas's times. A kind that the library does not have, or that this compile did not make, is
 * left out. False if memory ran out. */
static inline bool nvrtc_take_output(nvrtc_program program, nvrtc_size_fn size,
                                     nvrtc_bytes_fn bytes, uint32_t type, bool is_text,
                                     struct bundle_section *sections, size_t *n)
{
    size_t len = 0;
    if (!size || !bytes || size(program, &len) || len <= (is_text ? 1u : 0u))
        return true;
    char *data = malloc(len);
    if (!data)
        return false;
    if (bytes(program, data)) {
        free(data);
        return true;
    }
    len -= is_text;
    if (type == BUNDLE_LOG)
        len = ptxas_log_drop_times(data, len);
    sections[(*n)++] = (struct bundle_section){type, {data, len}};
    return true;
}

/* Adds the lowered names of the expressions that have one. False if memory ran out. */
static inline bool nvrtc_take_lowered(nvrtc_program program, nvrtc_lowered_fn lowered_name,
                                      char *const *expressions, size_t n_expressions,
                                      struct bundle_section *sections, size_t *n)
{
    struct writer w;
    size_t len = 0;
    writer_init(&w, 0);
    for (size_t i = 0; i < n_expressions && lowered_name; i++) {
        const char *lowered;
        if (lowered_name(program, expressions[i], &lowered) == 0)
            bundle_lowered_add(&w, view_of_text(expressions[i]), view_of_text(lowered));
    }
    if (!w.len && !w.failed)
        return true;
    void *data = writer_take(&w, &len);
    if (!data)
        return false;
    sections[(*n)++] = (struct bundle_section){BUNDLE_LOWERED, {data, len}};
    return true;
}

/* Adds all binaries, and PTX: l->GetCUBIN and its kin, each with its size. False if memory ran out. */
#define NVRTC_TAKE_BINARIES(l, program, sections, n)                                               \
    (nvrtc_take_output(program, (l)->GetCUBINSize, (l)->GetCUBIN, BUNDLE_CUBIN, false, sections,   \
                       n) &&                                                                       \
     nvrtc_take_output(program, (l)->GetPTXSize, (l)->GetPTX, BUNDLE_PTX, true, sections, n) &&    \
     nvrtc_take_output(program, (l)->GetLTOIRSize, (l)->GetLTOIR, BUNDLE_LTOIR, false, sections,   \
                       n) &&                                                                       \
     nvrtc_take_output(program, (l)->GetOptiXIRSize, (l)->GetOptiXIR, BUNDLE_OPTIXIR, false,       \
                       sections, n))

/* Frees the sections' bytes. */
static inline void nvrtc_sections_free(struct bundle_section *sections, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free((void *)(uintptr_t)sections[i].bytes.data);
}

#endif
