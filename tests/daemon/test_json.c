/* SPDX-License-Identifier: Apache-2.0 */
/* test_json.c - the daemon's JSON strings: any bytes become valid JSON, and well-formed text stays. */
#include <criterion/criterion.h>
#include <string.h>

#include "keygen/json.h"

static void expect_json(const char *text, size_t len, const char *want)
{
    struct writer w;
    writer_init(&w, 0);
    json_write_text(&w, text, len);
    cr_assert_eq(w.len, strlen(want), "%.*s, not %s", (int)w.len, (char *)w.data, want);
    cr_assert_eq(memcmp(w.data, want, w.len), 0, "%.*s, not %s", (int)w.len, (char *)w.data, want);
    writer_close(&w);
}

#define EXPECT(text, want) expect_json(text, sizeof(text) - 1, want)
#define BAD "\\ufffd"

Test(json, a_text_is_put_between_quotes)
{
    EXPECT("", "\"\"");
    EXPECT("plain text / 1", "\"plain text / 1\"");
}

Test(json, quotes_backslashes_and_controls_are_escaped)
{
    EXPECT("a\"\\\n\x01\x7f\0z", "\"a\\\"\\\\\\n\\u0001\\u007f\\u0000z\"");
}

Test(json, characters_of_every_length_stay)
{
    EXPECT("\xc2\xa0\xdf\xbf", "\"\xc2\xa0\xdf\xbf\"");
    EXPECT("\xe0\xa0\x80\xed\x9f\xbf\xef\xbf\xbf", "\"\xe0\xa0\x80\xed\x9f\xbf\xef\xbf\xbf\"");
    EXPECT("\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", "\"\xf0\x90\x80\x80\xf4\x8f\xbf\xbf\"");
}

Test(json, what_steers_a_terminal_is_escaped)
{
    EXPECT("\xc2\x9b\xe2\x80\xae", "\"\\u009b\\u202e\"");
    EXPECT("\xf3\xa0\x81\x81", "\"\\udb40\\udc41\"");
}

Test(json, what_is_no_utf8_is_replaced)
{
    EXPECT("\xff", "\"" BAD "\"");
    EXPECT("\xc0\x80", "\"" BAD BAD "\"");                 /* overlong */
    EXPECT("\xe0\x9f\xbf", "\"" BAD BAD BAD "\"");         /* overlong */
    EXPECT("\xed\xa0\x80", "\"" BAD BAD BAD "\"");         /* a surrogate */
    EXPECT("\xf4\x90\x80\x80", "\"" BAD BAD BAD BAD "\""); /* above U+10FFFF */
    EXPECT("\xe2\x82", "\"" BAD "\"");                     /* cut off */
    EXPECT("\xe2\x82x", "\"" BAD "x\"");                   /* and the next character stays */
}

Test(json, a_full_writer_fails)
{
    struct writer w;
    writer_init(&w, 4);
    json_write_text(&w, "abc", 3);
    cr_assert(w.failed);
    writer_close(&w);
}
