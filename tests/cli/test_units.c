/* SPDX-License-Identifier: Apache-2.0 */
/* test_units.c - sizes and spans of time for people. tests/keygen/test_quantity.c has how they are read. */
#include <criterion/criterion.h>

#include "client/cli/units.h"

Test(units, the_size_of_an_option_has_a_unit)
{
    uint64_t n = 7;
    cr_expect(units_parse_size("4096B", &n) && n == 4096);
    cr_expect(units_parse_size("0", &n) && n == 0);
    cr_expect_not(units_parse_size("4096", &n));
    cr_expect_not(units_parse_size("", &n));
    cr_expect_eq(n, 0, "a refused size changes nothing");
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
