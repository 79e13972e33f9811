/* SPDX-License-Identifier: Apache-2.0 */
/* test_units.c - sizes and spans of time: texts that people write, and texts that they read. */
#include <criterion/criterion.h>

#include "client/cli/units.h"

static uint64_t size(const char *text)
{
    uint64_t out = 12345;
    return units_parse_size(text, &out) ? out : UINT64_MAX;
}

static uint64_t span(const char *text)
{
    uint64_t out = 12345;
    return units_parse_span(text, &out) ? out : UINT64_MAX;
}

Test(units, sizes_are_powers_of_1024)
{
    cr_expect_eq(size("4096"), 4096);
    cr_expect_eq(size("64K"), 64 << 10);
    cr_expect_eq(size("64kB"), 64 << 10);
    cr_expect_eq(size("10GiB"), UINT64_C(10) << 30);
    cr_expect_eq(size("3T"), UINT64_C(3) << 40);
}

Test(units, a_size_that_is_none_or_does_not_fit_is_refused)
{
    static const char *const wrong[] = {
        "", "K", "-1", "1.5G", "10X", "10GG", "18446744073709551616", "16777217T"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        cr_expect_eq(size(wrong[i]), UINT64_MAX, "%s", wrong[i]);
}

Test(units, spans_are_seconds_without_a_unit)
{
    cr_expect_eq(span("5"), 5000);
    cr_expect_eq(span("90s"), 90000);
    cr_expect_eq(span("30m"), 1800000);
    cr_expect_eq(span("12h"), 43200000);
    cr_expect_eq(span("7d"), 604800000);
    cr_expect_eq(span("7D"), UINT64_MAX);
    cr_expect_eq(span("213503982335d"), UINT64_MAX, "above 64 bits");
}

Test(units, a_number_has_a_limit)
{
    uint64_t n = 0;
    cr_expect(units_parse_number("100", 100, &n));
    cr_expect_eq(n, 100);
    cr_expect_not(units_parse_number("101", 100, &n));
    cr_expect_not(units_parse_number("1K", UINT64_MAX, &n));
    cr_expect_eq(n, 100, "a refused number changes nothing");
}

Test(units, texts_for_people_have_units)
{
    char text[UNITS_TEXT];
    units_size_text(812, text);
    cr_expect_str_eq(text, "812 B");
    units_size_text(1468006, text);
    cr_expect_str_eq(text, "1.4 MiB");
    units_size_text(UINT64_MAX, text);
    cr_expect_str_eq(text, "16777216 TiB");
    units_size_text(UINT64_C(2) << 30, text);
    cr_expect_str_eq(text, "2 GiB");
    units_age_text(40999, text);
    cr_expect_str_eq(text, "40s");
    units_age_text(UINT64_C(3) * 86400000, text);
    cr_expect_str_eq(text, "3d");
    units_span_text(85000, text);
    cr_expect_str_eq(text, "1 min 25 s");
    units_span_text(UINT64_C(3) * 86400000 + 4 * 3600000, text);
    cr_expect_str_eq(text, "3 d 4 h");
    units_span_text(250, text);
    cr_expect_str_eq(text, "0.25 s");
    units_span_text(7200000, text);
    cr_expect_str_eq(text, "2 h");
}
