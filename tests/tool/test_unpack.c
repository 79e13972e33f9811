/* SPDX-License-Identifier: Apache-2.0 */
/* test_unpack.c - compressed streams: whole ones come out, all others are refused. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "client/tool/unpack.h"
#include "keygen/err.h"

/* A frame of zstd with a checksum: "zstd" once. */
static const uint8_t frame[] = {0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x58, 0x21, 0x00, 0x00,
                                'z',  's',  't',  'd',  0x45, 0x2f, 0xa4, 0x1d};

static struct writer packed_text(size_t n)
{
    char *text = malloc(n);
    struct writer w;
    for (size_t i = 0; i < n; i++)
        text[i] = (char)('a' + i * i % 23);
    writer_init(&w, 0);
    cr_assert_eq(unpack_pack_zlib((struct view){text, n}, &w), 0);
    free(text);
    return w;
}

Test(unpack, a_whole_stream_comes_back)
{
    struct writer packed = packed_text(200000), plain;
    writer_init(&plain, 0);
    cr_assert_eq(unpack_zlib((struct view){packed.data, packed.len}, 200000, &plain), 0);
    cr_assert_eq(plain.len, 200000);
    cr_expect_eq(plain.data[5], 'a' + 25 % 23);
    cr_expect_not(unpack_is_zstd((struct view){packed.data, packed.len}));
    writer_close(&packed);
    writer_close(&plain);
}

Test(unpack, a_limit_holds_without_a_buffer_too)
{
    struct writer packed = packed_text(100000);
    struct view v = {packed.data, packed.len};
    cr_expect_eq(unpack_zlib(v, 100000, NULL), 0);
    cr_expect_eq(unpack_zlib(v, 99999, NULL), WARM_ETOO_BIG);
    writer_close(&packed);
}

Test(unpack, a_stream_that_is_cut_changed_or_followed_is_refused)
{
    struct writer packed = packed_text(1000);
    struct view v = {packed.data, packed.len};
    for (size_t len = 0; len < v.len; len++)
        cr_expect_neq(unpack_zlib((struct view){v.data, len}, 1000, NULL), 0, "%zu bytes", len);
    packed.data[packed.len / 2] ^= 1;
    cr_expect_neq(unpack_zlib(v, 1000, NULL), 0);
    packed.data[packed.len / 2] ^= 1;
    writer_u8(&packed, 0);
    cr_expect_eq(unpack_zlib((struct view){packed.data, packed.len}, 1000, NULL), WARM_EMALFORMED);
    writer_close(&packed);
}

Test(unpack, a_frame_of_zstd_is_told_and_checked)
{
    struct view v = {frame, sizeof frame};
    struct writer plain;
    writer_init(&plain, 0);
    cr_expect(unpack_is_zstd(v));
    cr_assert_eq(unpack_zstd(v, 4, &plain), 0);
    cr_expect(plain.len == 4 && memcmp(plain.data, "zstd", 4) == 0);
    cr_expect_eq(unpack_zstd(v, 3, NULL), WARM_ETOO_BIG);
    for (size_t len = 0; len < v.len; len++)
        cr_expect_neq(unpack_zstd((struct view){frame, len}, 4, NULL), 0, "%zu bytes", len);
    writer_close(&plain);
}
