/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lmdb_check.c - the check of an index's pages reads nothing outside the file, whatever is in it.
 * Input is what differs from a small tree of pages: offset, byte, offset, byte …
 */
#include <stdlib.h>
#include <string.h>

#include "store/lmdb_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PAGE 4096u
#define PAGES 6u

static void put(uint8_t *at, uint64_t v, unsigned size)
{
    for (unsigned i = 0; i < size; i++)
        at[i] = (uint8_t)(v >> (8 * i));
}

static void put_table(uint8_t *at, uint64_t entries, uint64_t root)
{
    memset(at, 0, 48);
    put(at + 6, entries ? 1 : 0, 2);
    put(at + 16, entries ? 1 : 0, 8);
    put(at + 32, entries, 8);
    put(at + 40, root, 8);
}

/* A leaf with one node: a key of one byte and `len` bytes of data, whose place it returns. */
static uint8_t *put_leaf(uint8_t *file, uint64_t page, unsigned flags, uint64_t len)
{
    uint8_t *p = file + page * PAGE;
    uint64_t in_page = flags & 1 ? 8 : len, at = (PAGE - 9 - in_page) & ~1ull;
    put(p, page, 8);
    put(p + 10, 2, 2);
    put(p + 12, 18, 2);
    put(p + 14, at, 2);
    put(p + 16, at, 2);
    put(p + at, len, 4);
    put(p + at + 4, flags, 2);
    put(p + at + 6, 1, 2);
    return p + at + 9;
}

/* Meta pages; a main tree of one table, whose value is on an overflow page; a free list. */
static void make_file(uint8_t *file)
{
    memset(file, 0, PAGES * PAGE);
    for (unsigned i = 0; i < 2; i++) {
        uint8_t *meta = file + i * PAGE + 16;
        put(meta, 0xBEEFC0DE, 4);
        put(meta + 4, 1, 4);
        put_table(meta + 24, 1, 5);
        put(meta + 24, PAGE, 4);
        put_table(meta + 72, 1, 2);
        put(meta + 120, PAGES, 8); /* the last page, which is free, was never written */
        put(meta + 128, 7, 8);
    }
    uint8_t *table = put_leaf(file, 2, 2, 48);
    put_table(table, 1, 3);
    put(put_leaf(file, 3, 1, 100), 4, 8);
    put(table + 24, 1, 8); /* that table has an overflow page */
    put(file + 4 * PAGE, 4, 8);
    put(file + 4 * PAGE + 10, 4, 2);
    put(file + 4 * PAGE + 12, 1, 4);
    uint8_t *list = put_leaf(file, 5, 0, 16);
    put(list, 1, 8);
    put(list + 8, PAGES, 8);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *file = malloc(PAGES * PAGE);
    if (!file)
        return 0;
    make_file(file);
    if (lmdb_check(file, PAGES * PAGE))
        abort(); /* the seed itself is sound */
    for (size_t i = 0; i + 3 <= size; i += 3)
        file[(data[i] | (size_t)data[i + 1] << 8) % (PAGES * PAGE)] ^= data[i + 2];
    uint64_t len = size % 3 == 1 ? data[size - 1] * (PAGES * PAGE / 255u) : PAGES * PAGE;
    uint8_t *cut = malloc(len ? len : 1); /* so that the end of the file is where it ends */
    if (cut) {
        memcpy(cut, file, len);
        lmdb_check(cut, len);
    }
    free(cut);
    free(file);
    return 0;
}
