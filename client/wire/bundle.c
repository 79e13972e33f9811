/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bundle.c - packs the result of a compile job into one value, and checks such a value. Workers and
 * the preload library write bundles; libwarm reads them.
 *
 * Thread: any; no state.
 */
#include "client/wire/bundle.h"

#include <string.h>

static const char magic[4] = {'W', 'B', 'U', 'N'};

#define HEADER_SIZE 8u
#define ENTRY_SIZE 24u
#define ALIGNMENT 16u

static uint64_t align_up(uint64_t offset)
{
    return (offset + ALIGNMENT - 1) & ~(uint64_t)(ALIGNMENT - 1);
}

void bundle_write(struct writer *w, const struct bundle_section *sections, size_t n)
{
    if (n > BUNDLE_SECTIONS_MAX) {
        w->failed = true;
        return;
    }
    size_t begun = w->len;
    writer_bytes(w, magic, sizeof magic);
    writer_u16(w, BUNDLE_VERSION);
    writer_u16(w, (uint16_t)n);
    uint64_t offset = HEADER_SIZE + n * ENTRY_SIZE;
    for (size_t i = 0; i < n; i++) {
        offset = align_up(offset);
        writer_u32(w, sections[i].type);
        writer_u32(w, 0);
        writer_u64(w, offset);
        writer_u64(w, sections[i].bytes.len);
        offset += sections[i].bytes.len;
    }
    for (size_t i = 0; i < n; i++) {
        while ((w->len - begun) % ALIGNMENT && !w->failed)
            writer_u8(w, 0);
        writer_bytes(w, sections[i].bytes.data, sections[i].bytes.len);
    }
}

/* True if only zeros stand between the end of one section and the start of the next. */
static bool padding_is_zero(const uint8_t *from, const uint8_t *to)
{
    for (; from < to; from++)
        if (*from)
            return false;
    return true;
}

/* Reads n entries of the table from `r`, and finds their sections in `bundle`. *out_end is the end
 * of the last one. False if an entry is not as bundle_write makes it. */
static bool read_sections(struct reader *r, struct view bundle, struct bundle_section *out,
                          size_t n, uint64_t *out_end)
{
    const uint8_t *base = bundle.data;
    uint64_t end = HEADER_SIZE + (uint64_t)n * ENTRY_SIZE;
    for (size_t i = 0; i < n; i++) {
        uint32_t type = reader_u32(r), zero = reader_u32(r);
        uint64_t offset = reader_u64(r), len = reader_u64(r);
        if (r->failed || zero || bundle_find(out, i, type).data != NULL ||
            offset != align_up(end) || offset > bundle.len || len > bundle.len - offset ||
            !padding_is_zero(base + end, base + offset))
            return false;
        out[i] = (struct bundle_section){type, {base + offset, (size_t)len}};
        end = offset + len;
    }
    *out_end = end;
    return true;
}

int bundle_read(const void *data, size_t len, struct bundle_section *out, size_t *out_n,
                struct err *e)
{
    struct reader r = reader_over(data, len);
    struct view found = reader_bytes(&r, sizeof magic);
    uint16_t version = reader_u16(&r), n = reader_u16(&r);
    if (r.failed || memcmp(found.data, magic, sizeof magic) != 0)
        return err_set(e, WARM_EMALFORMED, "not a bundle of compiler output");
    if (version != BUNDLE_VERSION)
        return err_set(e, WARM_EVERSION, "bundle of version %u; this program reads %u", version,
                       BUNDLE_VERSION);
    if (n > BUNDLE_SECTIONS_MAX)
        return err_set(e, WARM_EMALFORMED, "bundle has %u sections, above the limit of %u", n,
                       BUNDLE_SECTIONS_MAX);
    struct bundle_section sections[BUNDLE_SECTIONS_MAX];
    uint64_t end = 0;
    if (!read_sections(&r, (struct view){data, len}, sections, n, &end) || end != len)
        return err_set(e, WARM_EMALFORMED, "bundle: the table of sections is damaged");
    struct view status = bundle_find(sections, n, BUNDLE_STATUS);
    if (status.data && status.len != 4)
        return err_set(e, WARM_EMALFORMED, "bundle: the status has %zu bytes, not 4", status.len);
    memcpy(out, sections, n * sizeof *out);
    *out_n = n;
    return 0;
}

struct view bundle_find(const struct bundle_section *sections, size_t n, uint32_t type)
{
    for (size_t i = 0; i < n; i++)
        if (sections[i].type == type)
            return sections[i].bytes;
    return (struct view){NULL, 0};
}

uint32_t bundle_status(const struct bundle_section *sections, size_t n)
{
    struct view status = bundle_find(sections, n, BUNDLE_STATUS);
    struct reader r = reader_over(status.data, status.len);
    return status.data ? reader_u32(&r) : 0;
}

void bundle_lowered_add(struct writer *section, struct view expression, struct view lowered)
{
    writer_blob(section, expression.data, expression.len);
    writer_blob(section, lowered.data, lowered.len);
}

bool bundle_lowered_next(struct reader *section, struct view *out_expression,
                         struct view *out_lowered)
{
    if (section->failed || section->len == 0)
        return false;
    struct view expression = reader_blob(section, section->len);
    struct view lowered = reader_blob(section, section->len);
    if (section->failed)
        return false;
    *out_expression = expression;
    *out_lowered = lowered;
    return true;
}
