/* SPDX-License-Identifier: Apache-2.0 */
/* test_bundle.c - compiler output as one value: golden bytes, and one way to write each bundle. */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "client/wire/bundle.h"

static struct writer sample(void)
{
    struct writer w, lowered;
    writer_init(&w, 0);
    writer_init(&lowered, 0);
    bundle_lowered_add(&lowered, view_of_text("f<int>"), view_of_text("_Z1fIiEvv"));
    bundle_lowered_add(&lowered, view_of_text("g"), view_of_text("_Z1gv"));
    struct bundle_section sections[] = {
        {BUNDLE_STATUS, {"\0\0\0\0", 4}},
        {BUNDLE_LOG, {"", 0}},
        {BUNDLE_CUBIN, view_of_text("\x7f"
                                    "ELF cubin bytes")},
        {BUNDLE_LOWERED, {lowered.data, lowered.len}},
    };
    bundle_write(&w, sections, sizeof sections / sizeof *sections);
    cr_assert(!w.failed);
    writer_close(&lowered);
    return w;
}

Test(bundle, smallest_is_the_golden_bytes)
{
    struct writer w;
    writer_init(&w, 0);
    bundle_write(&w, &(struct bundle_section){BUNDLE_LOG, view_of_text("log")}, 1);
    static const uint8_t golden[] = "WBUN\1\0\1\0"
                                    "\2\0\0\0\0\0\0\0"
                                    "\x20\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0"
                                    "log";
    cr_assert_eq(w.len, sizeof golden - 1);
    cr_assert_eq(memcmp(w.data, golden, w.len), 0);
    writer_close(&w);
}

Test(bundle, sections_come_back_aligned)
{
    struct writer w = sample();
    struct bundle_section sections[BUNDLE_SECTIONS_MAX];
    size_t n = 0;
    struct err e;
    cr_assert_eq(bundle_read(w.data, w.len, sections, &n, &e), 0);
    cr_assert_eq(n, 4);
    for (size_t i = 0; i < n; i++)
        cr_assert_eq(((const uint8_t *)sections[i].bytes.data - w.data) % 16, 0);
    struct view cubin = bundle_find(sections, n, BUNDLE_CUBIN);
    cr_assert_eq(cubin.len, 16);
    cr_assert_eq(memcmp(cubin.data,
                        "\x7f"
                        "ELF cubin bytes",
                        16),
                 0);
    cr_assert_null(bundle_find(sections, n, BUNDLE_PTX).data);
    cr_assert_not_null(bundle_find(sections, n, BUNDLE_LOG).data, "empty is not absent");
    cr_assert_eq(bundle_status(sections, n), 0);
    writer_close(&w);
}

Test(bundle, lowered_names_come_back_in_order)
{
    struct writer w = sample();
    struct bundle_section sections[BUNDLE_SECTIONS_MAX];
    size_t n = 0;
    cr_assert_eq(bundle_read(w.data, w.len, sections, &n, NULL), 0);
    struct view section = bundle_find(sections, n, BUNDLE_LOWERED), expression, lowered;
    struct reader list = reader_over(section.data, section.len);
    cr_assert(bundle_lowered_next(&list, &expression, &lowered));
    cr_assert(expression.len == 6 && memcmp(expression.data, "f<int>", 6) == 0);
    cr_assert(lowered.len == 9 && memcmp(lowered.data, "_Z1fIiEvv", 9) == 0);
    cr_assert(bundle_lowered_next(&list, &expression, &lowered));
    cr_assert(!bundle_lowered_next(&list, &expression, &lowered));
    cr_assert(reader_done(&list));
    writer_close(&w);
}

static int read_copy(const uint8_t *data, size_t len)
{
    uint8_t *copy = malloc(len ? len : 1);
    if (len)
        memcpy(copy, data, len);
    struct bundle_section sections[BUNDLE_SECTIONS_MAX];
    size_t n = 0;
    int code = bundle_read(copy, len, sections, &n, NULL);
    if (!code) {
        struct writer again;
        writer_init(&again, 0);
        bundle_write(&again, sections, n);
        cr_assert(again.len == len && memcmp(again.data, data, len) == 0);
        writer_close(&again);
    }
    free(copy);
    return code;
}

Test(bundle, every_cut_is_refused)
{
    struct writer w = sample();
    for (size_t cut = 0; cut < w.len; cut++)
        cr_assert_eq(read_copy(w.data, cut), WARM_EMALFORMED);
    writer_u8(&w, 0);
    cr_assert_eq(read_copy(w.data, w.len), WARM_EMALFORMED, "and so is a byte more");
    writer_close(&w);
}

Test(bundle, every_changed_bit_is_refused_or_read_exactly)
{
    struct writer w = sample();
    size_t n_refused = 0;
    for (size_t i = 0; i < w.len * 8; i++) {
        w.data[i / 8] ^= (uint8_t)(1u << i % 8);
        n_refused += read_copy(w.data, w.len) != 0;
        w.data[i / 8] ^= (uint8_t)(1u << i % 8);
    }
    cr_assert_gt(n_refused, 4 * 20 * 8, "table and padding have one form");
    writer_close(&w);
}

Test(bundle, another_version_is_told_apart)
{
    struct writer w = sample();
    w.data[4] = 2;
    cr_assert_eq(read_copy(w.data, w.len), WARM_EVERSION);
    writer_close(&w);
}

Test(bundle, a_type_twice_is_refused)
{
    struct writer w;
    writer_init(&w, 0);
    struct bundle_section twice[2] = {{BUNDLE_LOG, view_of_text("a")},
                                      {BUNDLE_LOG, view_of_text("b")}};
    bundle_write(&w, twice, 2);
    cr_assert_eq(read_copy(w.data, w.len), WARM_EMALFORMED);
    writer_close(&w);
}
