/* SPDX-License-Identifier: Apache-2.0 */
/* test_tier_resp_reply.c - replies of Redis in pieces, at their limits, and rubbish. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tier/resp_reply.h"

#define BULK_MAX 8

static struct resp_reply r;

static long parse(const char *text) { return resp_reply_parse(text, strlen(text), BULK_MAX, &r); }

static bool is_item(const struct resp_item *item, enum resp_type type, const char *text)
{
    return item->type == type && item->len == strlen(text) &&
           memcmp(item->data, text, item->len) == 0;
}

Test(tier_resp_reply, each_type_is_read)
{
    cr_expect(parse("+OK\r\n") == 5 && is_item(&r.item, RESP_TEXT, "OK"));
    cr_expect(parse("+\r\n") == 3 && is_item(&r.item, RESP_TEXT, ""));
    cr_expect(parse("-ERR no\r\n") == 9 && is_item(&r.item, RESP_ERROR, "ERR no"));
    cr_expect(parse(":17\r\n") == 5 && r.item.type == RESP_NUMBER && r.item.number == 17);
    cr_expect(parse(":-1\r\n") == 5 && r.item.type == RESP_NUMBER && r.item.number == -1);
    cr_expect(parse("$3\r\na\r\n\r\n") == 9 && is_item(&r.item, RESP_BULK, "a\r\n"));
    cr_expect(parse("$0\r\n\r\n") == 6 && is_item(&r.item, RESP_BULK, ""));
    cr_expect(parse("$-1\r\n") == 5 && r.item.type == RESP_NIL);
    cr_expect(parse("*-1\r\n") == 5 && r.item.type == RESP_NIL);
    cr_expect(parse("*0\r\n") == 4 && r.item.type == RESP_ARRAY && r.n_items == 0);
    cr_expect(parse("+OK\r\n+more\r\n") == 5 && is_item(&r.item, RESP_TEXT, "OK"), "one alone");
}

Test(tier_resp_reply, a_reply_is_whole_with_its_last_byte)
{
    static const char reply[] = "*4\r\n:1\r\n$5\r\na\r\nbc\r\n$-1\r\n-ERR\r\n";
    for (size_t len = 0; len < sizeof reply - 1; len++)
        cr_assert_eq(resp_reply_parse(reply, len, BULK_MAX, &r), 0, "%zu", len);
    cr_assert_eq(parse(reply), (long)sizeof reply - 1);
    cr_assert_eq(r.n_items, RESP_ITEMS_MAX);
    cr_expect_eq(r.items[0].number, 1);
    cr_expect(is_item(&r.items[1], RESP_BULK, "a\r\nbc"));
    cr_expect_eq(r.items[2].type, RESP_NIL);
    cr_expect(is_item(&r.items[3], RESP_ERROR, "ERR"));
}

Test(tier_resp_reply, numbers_have_at_most_18_digits)
{
    cr_expect(parse(":999999999999999999\r\n") > 0 && r.item.number == 999999999999999999);
    cr_expect(parse(":-999999999999999999\r\n") > 0 && r.item.number == -999999999999999999);
    cr_expect_eq(parse(":1000000000000000000\r\n"), -1);
    cr_expect_eq(parse("$9223372036854775807\r\n"), -1);
    cr_expect_eq(parse("$18446744073709551615\r\n"), -1);
}

Test(tier_resp_reply, rubbish_is_told_at_once)
{
    static const char *const bad[] = {
        "x\r\n",       "\r\n",        "\n",     "+OK\n",        "$-2\r\n",           "*-2\r\n",
        "$9\r\n",      ":1x\r\n",     ":\r\n",  ":-\r\n",       ":+1\r\n",           ": 1\r\n",
        "$1\r\nabc",   "$1\r\na\n\r", "*5\r\n", "*1\r\n*1\r\n", "*2\r\n:1\r\nx\r\n", "$\r\n",
        "*1\r\n$9\r\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_expect_eq(parse(bad[i]), -1, "%s", bad[i]);
    cr_expect_eq(resp_reply_parse("\0\r\n", 3, BULK_MAX, &r), -1);
}

Test(tier_resp_reply, a_line_that_does_not_end_is_rubbish)
{
    char line[RESP_LINE_MAX + 2];
    memset(line, 'x', sizeof line);
    line[0] = '+';
    cr_expect_eq(resp_reply_parse(line, RESP_LINE_MAX - 1, BULK_MAX, &r), 0);
    cr_expect_eq(resp_reply_parse(line, RESP_LINE_MAX, BULK_MAX, &r), -1);
    memcpy(line + RESP_LINE_MAX - 2, "\r\n", 2);
    cr_expect_eq(resp_reply_parse(line, RESP_LINE_MAX, BULK_MAX, &r), RESP_LINE_MAX);
}

Test(tier_resp_reply, a_bulk_is_as_long_as_it_may_be)
{
    cr_expect_eq(parse("$8\r\n12345678\r\n"), 14);
    cr_expect_eq(parse("$9\r\n123456789\r\n"), -1);
    cr_expect_eq(resp_reply_parse("$0\r\n\r\n", 6, 0, &r), 6);
    cr_expect_eq(resp_reply_parse("$1\r\na\r\n", 7, 0, &r), -1);
}
