/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_archive.c - archives of entries, without a daemon: golden bytes, and damage of every byte.
 */
#include <criterion/criterion.h>

#include "client/cli/import/archive.h"
#include "tests/support/archive.h"

/* What an archive of one entry has at the beginning of its blocks of 512 bytes. */
Test(archive, bytes_are_golden)
{
    static const uint8_t about[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    static const uint8_t texts[] = {3, 0, 0, 0, 'a', 'b', 'c', 0, 0, 0, 0, 0,
                                    0, 0, 0, 0, 0,   0,   0,   0, 0, 0, 0};
    struct archive_entry entry = {.name = {"abc", 3}, .value = {"v", 1}};
    struct writer w;
    writer_init(&w, 0);
    archive_begin(&w);
    archive_put_head(&w, &entry, 1);
    writer_bytes(&w, "v", 1);
    archive_put_padding(&w, 1);
    archive_end(&w, 1);
    cr_assert_eq(w.len, 10u * 512);
    cr_expect_str_eq((char *)w.data, "warm-archive-3");
    cr_expect_str_eq((char *)w.data + 2 * 512, "entries/000001-other/about");
    cr_expect_str_eq((char *)w.data + 2 * 512 + 124, "00000000104");
    cr_expect_arr_eq(w.data + 3 * 512, about, sizeof about);
    cr_expect_arr_eq(w.data + 3 * 512 + 45, texts, sizeof texts);
    cr_expect_str_eq((char *)w.data + 4 * 512, "entries/000001-other/value");
    cr_expect_str_eq((char *)w.data + 5 * 512, "v");
    cr_expect_str_eq((char *)w.data + 6 * 512, "end");
    cr_expect_str_eq((char *)w.data + 7 * 512, "1\n");
    writer_close(&w);
}

/* The reader's source: bytes in memory. */
static int take(void *arg, void *out, size_t len, struct err *e)
{
    struct reader *from = arg;
    (void)e;
    if (from->len == 0)
        return WARM_ENOT_FOUND;
    reader_copy(from, out, len);
    return from->failed ? WARM_ETRUNCATED : 0;
}

/* How many entries are whole, and how it ended. */
static int read_all(const uint8_t *data, size_t len, unsigned *out_whole, unsigned *out_damaged)
{
    struct reader from = reader_over(data, len);
    struct archive_reader r = {.read = take, .arg = &from};
    struct archive_entry entry;
    struct err e = {0};
    int code = archive_open(&r, &e);
    *out_whole = *out_damaged = 0;
    for (uint64_t n = 0; !code || code == WARM_ECORRUPT; n++) {
        code = archive_next(&r, n, &entry, &e);
        *out_whole += code == 0;
        *out_damaged += code == WARM_ECORRUPT;
    }
    archive_close(&r);
    return code;
}

Test(archive, every_flipped_byte_and_every_cut_is_seen)
{
    struct writer w = archive_of_two();
    unsigned whole, damaged;
    cr_assert_eq(read_all(w.data, w.len, &whole, &damaged), WARM_ENOT_FOUND);
    cr_assert_eq(whole, 2);
    for (size_t i = 0; i < w.len; i++) {
        cr_expect_neq(read_all(w.data, i, &whole, &damaged), WARM_ENOT_FOUND, "cut at %zu", i);
        w.data[i] ^= 0x41;
        int code = read_all(w.data, w.len, &whole, &damaged);
        cr_expect(code != WARM_ENOT_FOUND || damaged, "flipped at %zu", i);
        w.data[i] ^= 0x41;
    }
    writer_close(&w);
}
