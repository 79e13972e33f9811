/* SPDX-License-Identifier: Apache-2.0 */
/* test_json_reader.c - looking values up in JSON, also in texts that are none. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/json_reader.h"

Test(json_reader, a_path_leads_to_a_nested_member)
{
    struct view v;
    double n;
    struct view json =
        view_of_text("{\"a\": {\"b,}\": \"]\", \"n\": [1, {\"x\": 2}], \"c\": 4.5}, \"c\": 7}");
    cr_assert(json_reader_find(json, "a.c", &v));
    cr_assert(json_reader_number(v, &n));
    cr_expect_eq(n, 4.5);
    cr_assert(json_reader_find(json, "c", &v));
    cr_expect(view_is(v, "7"));
    cr_expect_not(json_reader_find(json, "a.d", &v));
    cr_expect_not(json_reader_find(json, "c.d", &v), "a number has no members");
}

Test(json_reader, a_count_is_never_negative)
{
    struct view json = view_of_text("{\"a\": 12, \"b\": -3, \"c\": \"x\"}");
    cr_expect_eq(json_reader_count(json, "a"), 12);
    cr_expect_eq(json_reader_count(json, "b"), 0);
    cr_expect_eq(json_reader_count(json, "c"), 0);
    cr_expect_eq(json_reader_count(json, "d"), 0);
}

Test(json_reader, items_and_members_have_numbers)
{
    struct view name, v;
    cr_assert(json_reader_item(view_of_text("[1, \"two\", [3]]"), 2, &v));
    cr_expect(view_is(v, "[3]"));
    cr_expect_not(json_reader_item(view_of_text("[1]"), 1, &v));
    cr_assert(json_reader_member(view_of_text("{\"a\": 1, \"b\": 2}"), 1, &name, &v));
    cr_expect(name.len == 1 && memcmp(name.data, "b", 1) == 0);
    cr_expect(view_is(v, "2"));
}

Test(json_reader, a_text_loses_its_escapes_and_its_control_characters)
{
    char text[32];
    json_reader_text(view_of_text("\"a\\\"b\\u00e4\\n\\ud83d\""), text, sizeof text);
    cr_expect_str_eq(text, "a\"b\xc3\xa4??");
    json_reader_text(view_of_text("\"0123456789\""), text, 5);
    cr_expect_str_eq(text, "0123");
}

/* The reader is bounded by its view: each cut text stands alone in memory. */
Test(json_reader, a_text_that_ends_anywhere_has_no_values_and_no_faults)
{
    static const char whole[] = "{\"a\": {\"b\": [1, \"\\u00e4\", true]}}";
    for (size_t len = 0; len < sizeof whole - 1; len++) {
        char *cut = malloc(len + 1), text[8];
        struct view v;
        memcpy(cut, whole, len);
        if (json_reader_find((struct view){cut, len}, "a.b", &v))
            json_reader_text(v, text, sizeof text);
        cr_expect_not(json_reader_find((struct view){cut, len}, "c", &v));
        free(cut);
    }
}
