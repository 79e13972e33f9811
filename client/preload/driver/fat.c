/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fat.c - finds the PTX in fat binaries that hold one uncompressed PTX text and nothing else, as
 * `fatbinary --compress=false` makes them. driver.c and jit.c call it. The driver alone reads all
 * others (cubins in them, compressed, options for the compiler).
 *
 * Thread: any; no state.
 *
 *     OFFSET SIZE FIELD
 *          0    4 0xba55ed50
 *          4    2 1
 *          6    2 16: bytes of this header
 *          8    8 bytes of all entries
 *     an entry:
 *          0    2 1: PTX
 *          2    2 0x0101
 *          4    4 80: bytes of this header
 *          8    8 bytes of the text, padded to a multiple of 8 with NUL
 *         16    4 0: bytes, if it is compressed
 *         20    4 64: where options for the compiler are
 *         24    4 version of PTX: minor, major
 *         28    4 compute capability, e.g. 75: the least that the device must have
 *         32    8 no name
 *         40    8 0x11: 64 bits, Linux; further bits are for debuggers and compression
 *         48   16 0
 *         64   16 no options: 72, then 0
 *         80      the text
 * A wrapper, which compilers put into programs: 0x466243b1, 1 (4 bytes each), pointer to the
 * header.
 *
 * Source: output of fatbinary 13.0; any other layout is left to the driver.
 */
#include <string.h>

#include "client/preload/driver/driver.h"

#define WRAPPER_MAGIC 0x466243b1u
#define FAT_MAGIC 0xba55ed50u
enum { HEADER = 16, ENTRY_HEADER = 80, KIND_PTX = 1 };
#define TEXT_MAX_BYTES (256u * 1024 * 1024)

struct wrapper {
    uint32_t magic, version;
    const void *data;
};

static bool read_entry(struct reader *r, uint64_t all, uint64_t *out_len, uint32_t *out_cc)
{
    bool plain = reader_u16(r) == KIND_PTX && reader_u16(r) == 0x0101;
    plain &= reader_u32(r) == ENTRY_HEADER;
    *out_len = reader_u64(r);
    plain &= reader_u32(r) == 0 && reader_u32(r) == 64;
    reader_u32(r);
    *out_cc = reader_u32(r);
    plain &= reader_u64(r) == 0 && reader_u64(r) == 0x11;
    plain &= reader_u64(r) == 0 && reader_u64(r) == 0;
    plain &= reader_u64(r) == 72 && reader_u64(r) == 0;
    return plain && *out_len <= TEXT_MAX_BYTES && all == ENTRY_HEADER + *out_len;
}

/* Finds the entries of a fat binary. False if the image is none. */
static bool open_fat(const void *image, const uint8_t **out_entries, uint64_t *out_len)
{
    struct wrapper w;
    memcpy(&w.magic, image, sizeof w.magic);
    if (w.magic == WRAPPER_MAGIC) {
        memcpy(&w, image, sizeof w);
        if (w.version != 1 || !w.data)
            return false;
        image = w.data;
    }
    struct reader r = reader_over(image, HEADER);
    if (reader_u32(&r) != FAT_MAGIC || reader_u16(&r) != 1 || reader_u16(&r) != HEADER)
        return false;
    *out_len = reader_u64(&r);
    *out_entries = (const uint8_t *)image + HEADER;
    return true;
}

bool driver_fat_has_ptx(const void *image)
{
    const uint8_t *at;
    uint64_t left;
    if (!open_fat(image, &at, &left))
        return false;
    while (left >= HEADER) {
        struct reader r = reader_over(at, HEADER);
        uint16_t kind = reader_u16(&r);
        reader_u16(&r);
        uint64_t header = reader_u32(&r), len = reader_u64(&r);
        if (kind == KIND_PTX || header < HEADER || len > TEXT_MAX_BYTES || header + len > left)
            return kind == KIND_PTX;
        at += header + len;
        left -= header + len;
    }
    return false;
}

bool driver_fat_ptx(const void *image, struct view *out, unsigned *out_cc)
{
    const uint8_t *entries;
    uint64_t all, len;
    uint32_t cc;
    if (!open_fat(image, &entries, &all) || all < ENTRY_HEADER)
        return false;
    struct reader r = reader_over(entries, ENTRY_HEADER);
    if (!read_entry(&r, all, &len, &cc))
        return false;
    const char *text = (const char *)entries + ENTRY_HEADER;
    *out = (struct view){text, strnlen(text, len)};
    *out_cc = cc;
    return true;
}
