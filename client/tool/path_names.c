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

static bool has_name(struct view text, const char *id)
{
    return has(text, id) || has(text, "_GLOBAL__N__") || has(text, "__nv_static_") ||
           has(text, "_INTERNAL_") || has(text, "__cudaRegisterLinkedBinary_");
}

static bool packed_has_name(struct view packed, const char *id)
{
    struct writer plain;
    writer_init(&plain, UNPACKED_MAX);
    bool shows = unpack_zstd(packed, UNPACKED_MAX, &plain) ||
                 has_name((struct view){plain.data, plain.len}, id);
    writer_close(&plain);
    return shows;
}

/* Reads the next entry. True if it has a name, or cannot be read. */
static bool entry_has_name(struct reader *r, const char *id)
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
    return !(flags & BY_ZSTD) || packed_has_name((struct view){data.data, packed}, id);
}

bool path_names_show(const char *source, struct view file)
{
    assert(source);
    char id[300];
    if (!id_part(source, id, sizeof id) || has_name(file, id))
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
            if (entry_has_name(&entries, id))
                return true;
    }
    return false;
}
