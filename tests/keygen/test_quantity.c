/* SPDX-License-Identifier: Apache-2.0 */
/* test_quantity.c - sizes, spans of time and counts, as people write them. */
#include <criterion/criterion.h>

#include "keygen/quantity.h"

static bool is_bare;

static uint64_t size(const char *text)
{
    uint64_t out = 12345;
    return quantity_size(text, &out, &is_bare) ? out : UINT64_MAX;
}

static uint64_t span(const char *text)
{
    uint64_t out = 12345;
    return quantity_span(text, &out) ? out : UINT64_MAX;
}

Test(quantity, all_spellings_of_a_unit_are_one)
{
    static const char *const ten_gibibytes[] = {"10G",   "10g",  "10GB",  "10GiB",
                                                "10gib", "10gB", "10240M"};
    for (size_t i = 0; i < sizeof ten_gibibytes / sizeof *ten_gibibytes; i++) {
        cr_expect_eq(size(ten_gibibytes[i]), UINT64_C(10) << 30, "%s", ten_gibibytes[i]);
        cr_expect_not(is_bare);
    }
    cr_expect_eq(size("64K"), 64 << 10);
    cr_expect_eq(size("3T"), UINT64_C(3) << 40);
    cr_expect_eq(size("10B"), 10);
    cr_expect_not(is_bare);
}

Test(quantity, digits_alone_are_bytes_and_bare_unless_they_are_zero)
{
    cr_expect_eq(size("4096"), 4096);
    cr_expect(is_bare);
    cr_expect_eq(size("0"), 0);
    cr_expect_not(is_bare);
}

Test(quantity, a_size_that_is_none_or_does_not_fit_is_refused)
{
    static const char *const wrong[] = {"",         "K",   "-1",   "1.5G", "10X",
                                        "10GG",     "1 G", "1KBB", "iB",   "18446744073709551616",
                                        "16777217T"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        cr_expect_eq(size(wrong[i]), UINT64_MAX, "%s", wrong[i]);
}

Test(quantity, spans_are_seconds_without_a_unit)
{
    cr_expect_eq(span("5"), 5000);
    cr_expect_eq(span("500ms"), 500);
    cr_expect_eq(span("90s"), 90000);
    cr_expect_eq(span("30m"), 1800000);
    cr_expect_eq(span("12h"), 43200000);
    cr_expect_eq(span("7d"), 604800000);
    cr_expect_eq(span("7w"), UINT64_MAX);
    cr_expect_eq(span("213503982335d"), UINT64_MAX, "above 64 bits");
}

Test(quantity, a_count_has_a_limit)
{
    uint64_t n = 0;
    cr_expect(quantity_count("100", 100, &n));
    cr_expect_eq(n, 100);
    cr_expect_not(quantity_count("101", 100, &n));
    cr_expect_not(quantity_count("1K", UINT64_MAX, &n));
    cr_expect_eq(n, 100, "a refused number changes nothing");
}
