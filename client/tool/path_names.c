/* SPDX-License-Identifier: Apache-2.0 */
/*
 * path_names.c - decides if an output of nvcc may have names that are made of the source's path. result.c asks it
 * before a result is kept for all folders.
 *
 * It looks for the beginnings of such names, and for the part that every module id has: length and name of the file.
 * Names stand in ELF files and PTX as they are, and in compressed parts of fat binaries, which it unpacks. A fat binary:
 *
 *     OFFSET SIZE FIELD
 *          0    4 0xba55ed50
 *          4    2 1
 *          6    2 bytes of this header
 *          8    8 bytes of all entries
 *     an entry:
 *          4    4 bytes of this header
 *          8    8 bytes of the content
 *         16    4 bytes, if it is compressed
 *         40    8 flags: 0x8000 compressed by zstd, 0x2000 in another way
 *
 * Source: output of fatbinary 13.0 with each --compress-mode.
 *
 * Thread: any; no state.
 */
#include "client/tool/path_names.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "client/tool/unpack.h"

#define FAT_MAGIC "\x50\xed\x55\xba"
enum { FAT_HEADER = 16, ENTRY_HEADER = 64, COMPRESSED = 0x2000, BY_ZSTD = 0x8000 };
#define UNPACKED_MAX ((size_t)256 << 20)

/* Writes "_4_k_cu" for "folder/k.cu". False if it does not fit. */
static bool id_part(const char *source, char *out, size_t cap)
{
    const char *slash = strrchr(source, '/'), *name = slash ? slash + 1 : source;
    int n = snprintf(out, cap, "_%zu_%s", strlen(name), name);
    if (n < 0 || (size_t)n >= cap)
        return false;
    for (char *c = out; *c; c++)
        if (!isalnum((unsigned char)*c) || (unsigned char)*c >= 0x80)
            *c = '_';
    return true;
}

static bool has(struct view text, const char *needle)
{
    return text.len && memmem(text.data, text.len, needle, strlen(needle));
}

/* What to look for: names with this part of an id; of COUNTS_SOURCE only those with a process number. */
struct sought {
    const char *id;
    bool source_counts;
};

static bool has_prefix(struct view text)
{
    return has(text, "_GLOBAL__N__") || has(text, "__nv_static_") || has(text, "_INTERNAL_") ||
           has(text, "__cudaRegisterLinkedBinary_");
}

/* True if "_5cb939b5_28075" stands at `at`, or only looks like it. */
static bool is_of_process(const char *at, const char *end)
{
    if (end - at < 11 || at[0] != '_' || at[9] != '_' || !isdigit((unsigned char)at[10]))
        return false;
    for (int i = 1; i < 9; i++)
        if (!isxdigit((unsigned char)at[i]))
            return false;
    return true;
}

static bool has_name(struct view text, const struct sought *s)
{
    const char *at = text.data, *end = at + text.len;
    size_t len = strlen(s->id);
    bool has_id = false;
    if (!s->source_counts)
        return has(text, s->id) || has_prefix(text);
    while (text.len && (at = memmem(at, (size_t)(end - at), s->id, len))) {
        has_id = true;
        at += len;
        if (is_of_process(at, end))
            return true;
    }
    return !has_id && has_prefix(text); /* a form of name that is not known here */
}

static bool packed_has_name(struct view packed, const struct sought *s)
{
    struct writer plain;
    writer_init(&plain, UNPACKED_MAX);
    bool shows = unpack_zstd(packed, UNPACKED_MAX, &plain) ||
                 has_name((struct view){plain.data, plain.len}, s);
    writer_close(&plain);
    return shows;
}

/* Reads the next entry. True if it has a name, or cannot be read. */
static bool entry_has_name(struct reader *r, const struct sought *s)
{
    struct view head = reader_bytes(r, ENTRY_HEADER);
    struct reader h = reader_over(head.data, head.len);
    reader_u32(&h);
    uint32_t header = reader_u32(&h);
    uint64_t len = reader_u64(&h);
    uint32_t packed = reader_u32(&h);
    reader_bytes(&h, 20);
    uint64_t flags = reader_u64(&h);
    if (h.failed || header < ENTRY_HEADER)
        return true;
    reader_bytes(r, header - ENTRY_HEADER);
    struct view data = reader_bytes(r, len);
    if (r->failed || packed > data.len)
        return true;
    if (!packed && !(flags & (COMPRESSED | BY_ZSTD)))
        return false; /* it is in the file as it is */
    return !(flags & BY_ZSTD) || packed_has_name((struct view){data.data, packed}, s);
}

bool path_names_show(const char *source, bool source_counts, struct view file)
{
    assert(source);
    char id[300];
    struct sought sought = {id, source_counts};
    if (!id_part(source, id, sizeof id) || has_name(file, &sought))
        return true;
    struct reader r = reader_over(file.data, file.len);
    const uint8_t *at;
    while (r.len && (at = memmem(r.data, r.len, FAT_MAGIC, 4))) {
        reader_bytes(&r, (size_t)(at - r.data) + 4);
        struct reader fat = r;
        uint16_t version = reader_u16(&fat), header = reader_u16(&fat);
        uint64_t all = reader_u64(&fat);
        if (fat.failed || version != 1 || header != FAT_HEADER || all > fat.len)
            continue; /* bytes that only look like one */
        struct reader entries = reader_over(fat.data, all);
        while (entries.len)
            if (entry_has_name(&entries, &sought))
                return true;
    }
    return false;
}
