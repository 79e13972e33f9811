/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_archive.c - archives of entries, without a daemon: golden bytes, and damage of every byte.
 */
#include <criterion/criterion.h>

#include "client/cli/import/archive.h"
#include "tests/support/archive.h"

Test(archive, bytes_are_golden)
{
    static const uint8_t golden[] = {0x77, 0x61, 0x72, 0x6d, 0x20, 0x61, 0x72, 0x63, 0x68, 0x69,
                                     0x76, 0x65, 0x20, 0x32, 0x0d, 0x0a, 0x45, 0x00, 0x00, 0x00,
                                     0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00};
    static const uint8_t rest[] = {3, 0, 0, 0, 'a', 'b', 'c', 0,    0, 0, 0, 0, 0, 0, 0, 0, 0,
                                   0, 0, 0, 0, 0,   0,   'v', 0x5a, 1, 0, 0, 0, 0, 0, 0, 0};
    struct archive_entry entry = {.name = {"abc", 3}, .value = {"v", 1}};
    struct writer w;
    writer_init(&w, 0);
    archive_begin(&w);
    archive_put_head(&w, &entry);
    writer_bytes(&w, "v", 1);
    archive_end(&w, 1);
    cr_assert_eq(w.len, sizeof golden + 16 + sizeof rest);
    cr_assert_arr_eq(w.data, golden, sizeof golden);
    cr_assert_arr_eq(w.data + sizeof golden + 16, rest, sizeof rest);
    writer_close(&w);
}

/* How many entries are whole, and how it ended. */
static int read_all(const uint8_t *data, size_t len, unsigned *out_whole, unsigned *out_damaged)
{
    struct archive_entry entry;
    struct reader r;
    struct err e = {0};
    int code = archive_open(data, len, &r, &e);
    *out_whole = *out_damaged = 0;
    for (uint64_t n = 0; !code || code == WARM_ECORRUPT; n++) {
        code = archive_next(&r, n, &entry, &e);
        *out_whole += code == 0;
        *out_damaged += code == WARM_ECORRUPT;
    }
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
