/* SPDX-License-Identifier: Apache-2.0 */
/* test_json.c - the daemon's JSON writer: any bytes become valid JSON. */
#include <criterion/criterion.h>
#include <string.h>

#include "daemon/process/json.h"

Test(json, escapes_and_replaces_what_is_no_utf8)
{
    struct writer w;
    writer_init(&w, 0);
    json_write_text(&w, "a\"\\\n\x01\xc3\xa9\xff\xc0\x80\xed\xa0\x80", 13);
    static const char want[] =
        "\"a\\\"\\\\\\u000a\\u0001\xc3\xa9\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd"
        "\\ufffd\"";
    cr_assert_eq(w.len, sizeof want - 1, "%.*s", (int)w.len, (char *)w.data);
    cr_assert_eq(memcmp(w.data, want, w.len), 0);
    writer_close(&w);
}
