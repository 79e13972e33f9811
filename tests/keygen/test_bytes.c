/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_bytes.c - the bounded cursor and the growing buffer: what was written is read back, and the first
 * request beyond the bounds fails all that follow.
 */
#include <criterion/criterion.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "keygen/bytes.h"

Test(bytes, integers_are_little_endian)
{
    static const uint8_t want[] = {0x01, 0x03, 0x02, 0x07, 0x06, 0x05, 0x04, 0x0f,
                                   0x0e, 0x0d, 0x0c, 0x0b, 0x0a, 0x09, 0x08};
    struct writer w;
    writer_init(&w, 0);
    writer_u8(&w, 0x01);
    writer_u16(&w, 0x0203);
    writer_u32(&w, 0x04050607);
    writer_u64(&w, 0x08090a0b0c0d0e0f);
    cr_assert_eq(w.len, sizeof want);
    cr_assert_eq(memcmp(w.data, want, sizeof want), 0);
    struct reader r = reader_over(w.data, w.len);
    cr_assert_eq(reader_u8(&r), 0x01);
    cr_assert_eq(reader_u16(&r), 0x0203);
    cr_assert_eq(reader_u32(&r), 0x04050607);
    cr_assert_eq(reader_u64(&r), 0x08090a0b0c0d0e0f);
    cr_assert(reader_done(&r));
    writer_close(&w);
}

Test(bytes, hex_is_lower_case_and_ends_with_nul)
{
    static const uint8_t data[] = {0x00, 0x9a, 0xff};
    char text[] = "?????????";
    bytes_to_hex(data, sizeof data, text);
    cr_assert_str_eq(text, "009aff");
    cr_assert_eq(text[7], '?');
    bytes_to_hex(data, 0, text);
    cr_assert_str_eq(text, "");
}

Test(bytes, a_getter_beyond_the_end_fails_all_later_ones)
{
    static const uint8_t data[] = {1, 2, 3};
    uint8_t copy[2] = {9, 9};
    struct reader r = reader_over(data, sizeof data);
    cr_assert_eq(reader_u16(&r), 0x0201);
    cr_assert_eq(reader_u16(&r), 0, "one byte is left");
    cr_assert(r.failed);
    cr_assert_eq(reader_u8(&r), 0, "though a byte was left");
    cr_assert_eq(reader_bytes(&r, 0).len, 0u);
    reader_copy(&r, copy, sizeof copy);
    cr_assert_eq(copy[0] | copy[1], 0, "a failed copy leaves zeroes");
    cr_assert(!reader_done(&r));
}

Test(bytes, a_reader_with_bytes_left_is_not_done)
{
    struct reader r = reader_over("ab", 2);
    reader_u8(&r);
    cr_assert(!reader_done(&r));
    reader_u8(&r);
    cr_assert(reader_done(&r));
}

Test(bytes, a_blob_above_its_limit_or_the_input_fails)
{
    struct writer w;
    writer_init(&w, 0);
    writer_text(&w, "four");
    for (size_t max = 0; max < 6; max++) {
        struct reader r = reader_over(w.data, w.len);
        struct view v = reader_blob(&r, max);
        cr_assert_eq(r.failed, max < 4, "%zu", max);
        cr_assert_eq(v.len, max < 4 ? 0u : 4u);
    }
    for (size_t len = 0; len < w.len; len++) {
        struct reader r = reader_over(w.data, len);
        cr_assert_eq(reader_blob(&r, 100).len, 0u);
        cr_assert(r.failed, "cut at %zu", len);
    }
    static const uint8_t huge[] = {0xff, 0xff, 0xff, 0xff, 'x'};
    struct reader r = reader_over(huge, sizeof huge);
    reader_blob(&r, SIZE_MAX);
    cr_assert(r.failed, "the length is a lie");
    writer_close(&w);
}

Test(bytes, a_writer_stops_at_its_limit)
{
    struct writer w;
    writer_init(&w, 5);
    writer_u32(&w, 1);
    writer_u8(&w, 2);
    cr_assert(!w.failed && w.len == 5);
    writer_u8(&w, 3);
    cr_assert(w.failed);
    writer_bytes(&w, "", 0);
    cr_assert_eq(w.len, 5u, "a failed writer takes nothing more");
    cr_assert_null(writer_reserve(&w, 0));
    size_t len;
    cr_assert_null(writer_take(&w, &len));
    cr_assert_null(w.data, "writer_take frees what it does not give");
}

Test(bytes, a_length_that_would_wrap_fails)
{
    struct writer w;
    writer_init(&w, 0);
    writer_u8(&w, 1);
    cr_assert_null(writer_reserve(&w, SIZE_MAX));
    cr_assert(w.failed);
    writer_close(&w);
}

Test(bytes, a_buffer_keeps_its_bytes_while_it_grows)
{
    struct writer w;
    writer_init(&w, 0);
    for (uint32_t i = 0; i < 10000; i++)
        writer_u32(&w, i);
    size_t len;
    uint8_t *data = writer_take(&w, &len);
    cr_assert_eq(len, 40000u);
    struct reader r = reader_over(data, len);
    for (uint32_t i = 0; i < 10000; i++)
        cr_assert_eq(reader_u32(&r), i);
    free(data);
}

Test(bytes, an_empty_writer_gives_an_empty_buffer)
{
    struct writer w;
    size_t len = 1;
    writer_init(&w, 0);
    void *data = writer_take(&w, &len);
    cr_assert_not_null(data);
    cr_assert_eq(len, 0u);
    free(data);
}

Test(bytes, a_formatted_text_has_no_nul)
{
    struct writer w;
    writer_init(&w, 0);
    writer_format(&w, "%s-%d", "a", 12);
    writer_u8(&w, '!');
    cr_assert_eq(w.len, 5u);
    cr_assert_eq(memcmp(w.data, "a-12!", 5), 0);
    writer_close(&w);
}

/* Expects the text of printf, behind what was there. */
#define FORMATS_AS_PRINTF(...)                                                                     \
    do {                                                                                           \
        char want[256] = "<";                                                                      \
        struct writer w;                                                                           \
        snprintf(want + 1, sizeof want - 1, __VA_ARGS__);                                          \
        writer_init(&w, 0);                                                                        \
        writer_u8(&w, '<');                                                                        \
        writer_format(&w, __VA_ARGS__);                                                            \
        cr_expect(!w.failed && w.len == strlen(want) && memcmp(w.data, want, w.len) == 0,          \
                  "%.*s, not %s", (int)w.len, (char *)w.data, want);                               \
        writer_close(&w);                                                                          \
    } while (0)

Test(bytes, formats_are_those_of_printf)
{
    FORMATS_AS_PRINTF("%s", "");
    FORMATS_AS_PRINTF("text alone");
    FORMATS_AS_PRINTF("%s%s, %d%% %u", "a", "bc", 12, 34u);
    FORMATS_AS_PRINTF("%d %d %u %u", INT32_MIN, INT32_MAX, 0u, UINT32_MAX);
    FORMATS_AS_PRINTF("%ld %ld %ld", LONG_MIN, LONG_MAX, -1L);
    FORMATS_AS_PRINTF("%s %d %5.2f %s", "before", -1, 2.5, "behind");
    FORMATS_AS_PRINTF("%d %08x %zu %lu %lld %c", 1, 0xABCu, (size_t)7, ULONG_MAX, 5LL, 'c');
    FORMATS_AS_PRINTF("%2$d %1$d", 1, 2);
}

Test(bytes, a_format_beyond_the_limit_writes_nothing)
{
    struct writer w;
    writer_init(&w, 4);
    writer_format(&w, "%s", "ab");
    writer_format(&w, "%s-%d", "c", 12);
    cr_expect(w.failed && !w.no_memory);
    cr_expect_eq(w.len, (size_t)2);
    writer_close(&w);
}

Test(bytes, equal_and_copy_agree_with_the_c_library_at_every_length)
{
    char a[100], b[100], to[100];
    for (size_t len = 0; len < sizeof a; len++) {
        for (size_t i = 0; i < sizeof a; i++)
            a[i] = b[i] = (char)(i * 37 + len);
        cr_assert(bytes_equal(a, b, len));
        for (size_t i = 0; i < len; i++) {
            b[i] ^= 1;
            cr_assert(!bytes_equal(a, b, len), "%zu of %zu", i, len);
            b[i] ^= 1;
        }
        memset(to, 0, sizeof to);
        bytes_copy(to, a, len);
        cr_assert_eq(memcmp(to, a, len), 0, "%zu", len);
        cr_assert(len == sizeof to || to[len] == 0, "no byte too many of %zu", len);
    }
}

Test(bytes, decimals_are_those_of_printf)
{
    static const uint64_t numbers[] = {0, 9, 10, 123456789, UINT64_MAX};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        char want[32], got[DECIMAL_MAX];
        int len = snprintf(want, sizeof want, "%llu", (unsigned long long)numbers[i]);
        char *begin = decimal_before(got + sizeof got, numbers[i]);
        cr_assert_eq(got + sizeof got - begin, len);
        cr_assert_eq(memcmp(begin, want, (size_t)len), 0);
    }
}
