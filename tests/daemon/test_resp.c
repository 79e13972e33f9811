/* SPDX-License-Identifier: Apache-2.0 */
/* test_resp.c - the decoder and the encoder of RESP. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/net/resp.h"

static struct resp_command command;

static long parse(const char *text) { return resp_parse(text, strlen(text), 0, &command, NULL); }

static void expect_args(size_t n, ...)
{
    va_list args;
    va_start(args, n);
    cr_assert_eq(command.n_args, n);
    for (size_t i = 0; i < n; i++) {
        const char *want = va_arg(args, const char *);
        cr_assert_eq(command.args[i].len, strlen(want));
        cr_assert_eq(memcmp(command.args[i].data, want, strlen(want)), 0, "argument %zu", i);
    }
    va_end(args);
}

Test(resp, takes_a_command_and_leaves_the_next)
{
    const char *text = "*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n*1\r\n";
    cr_assert_eq(parse(text), (long)strlen(text) - 4);
    expect_args(2, "GET", "key");
}

Test(resp, takes_lines_typed_by_hand)
{
    cr_assert_eq(parse("  SET  a\tb \r\nnext"), 13);
    expect_args(3, "SET", "a", "b");
    cr_assert_eq(parse("PING\n"), 5);
    expect_args(1, "PING");
    cr_assert_eq(parse("\r\n"), 2);
    cr_assert_eq(command.n_args, 0);
}

Test(resp, arguments_may_hold_any_byte)
{
    static const char text[] = "*2\r\n$4\r\nE\r\nC\r\n$3\r\n\0\r\n\r\n";
    cr_assert_eq(resp_parse(text, sizeof text - 1, 0, &command, NULL), (long)sizeof text - 1);
    cr_assert_eq(command.args[0].len, 4);
    cr_assert_eq(memcmp(command.args[1].data, "\0\r\n", 3), 0);
}

Test(resp, a_length_may_be_spelt_otherwise)
{
    static const char *const same[] = {"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n",
                                       "*2\n$3\nGET\r\n$3\nkey\r\n",
                                       "*02\r\n$0000000003\r\nGET\r\n$000000003\r\nkey\r\n"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        cr_assert_eq(parse(same[i]), (long)strlen(same[i]), "form %zu", i);
        expect_args(2, "GET", "key");
    }
}

Test(resp, every_split_needs_more)
{
    const char *text = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$10\r\n0123456789\r\n";
    for (size_t len = 0; len < strlen(text); len++) {
        char *part = malloc(len + 1); /* of its exact size: a read behind it is seen */
        memcpy(part, text, len);
        cr_assert_eq(resp_parse(part, len, 0, &command, NULL), 0, "%zu bytes", len);
        cr_assert_eq(command.spill_len, 0);
        free(part);
    }
}

Test(resp, refuses_what_is_no_command)
{
    static const char *const wrong[] = {"*x\r\n",
                                        "*-2\r\n",
                                        "*5000\r\n",
                                        "*1\r\n+PING\r\n",
                                        "*1\r\n$-1\r\n",
                                        "*1\r\n$x\r\n",
                                        "*1\r\n$1\r\nab\r\n",
                                        "*1\r\n$99999999999999999999\r\n",
                                        "*1\r\n$4294967297\r\n",
                                        "*\r\n",
                                        "*1\r\n$\r\n",
                                        "*99999999999\r\n",
                                        "*1\r\n\r\n"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        cr_assert_lt(parse(wrong[i]), 0, "case %zu", i);
    cr_assert_eq(parse("*-1\r\n"), 5, "a null array is an empty command");
}

Test(resp, a_line_that_never_ends_is_refused)
{
    static char text[RESP_LINE_MAX + 2];
    memset(text, 'a', sizeof text);
    cr_assert_eq(resp_parse(text, sizeof text, 0, &command, NULL), WARM_ETOO_BIG);
    text[0] = '*';
    memset(text + 1, '1', sizeof text - 1);
    cr_assert_eq(resp_parse(text, sizeof text, 0, &command, NULL), WARM_ETOO_BIG);
}

Test(resp, a_long_argument_is_to_be_spilled_whatever_length_it_announces)
{
    const char *head = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4294967296\r\n";
    cr_assert_eq(parse(head), 0);
    cr_assert_eq(command.spill_len, 1ull << 32);
    cr_assert_eq(command.spill_at, strlen(head));
}

Test(resp, goes_on_behind_what_was_spilled)
{
    const char *text = "*5\r\n$4\r\nMSET\r\n$1\r\na\r\n$70000\r\n$1\r\nb\r\n$80000\r\nPING\r\n";
    cr_assert_eq(parse(text), 0);
    cr_assert_eq(command.spill_len, 70000);
    cr_assert_eq(resp_parse(text, strlen(text), 1, &command, NULL), 0);
    cr_assert_eq(command.spill_len, 80000);
    cr_assert_eq(resp_parse(text, strlen(text), 2, &command, NULL), (long)strlen(text) - 6);
    cr_assert_eq(command.n_args, 5);
    cr_assert_null(command.args[2].data);
    cr_assert_eq(command.args[2].len, 70000);
    cr_assert_eq(command.args[4].len, 80000);
}

Test(resp, a_command_has_a_limit)
{
    struct writer w;
    static char value[60000];
    writer_init(&w, 0);
    resp_put_array(&w, 40);
    for (int i = 0; i < 30; i++)
        resp_put_bulk(&w, value, sizeof value);
    cr_assert_eq(resp_parse(w.data, w.len, 0, &command, NULL), WARM_ETOO_BIG);
    writer_close(&w);
}

Test(resp, numbers_are_decimal_and_fit)
{
    static const struct {
        const char *text;
        bool good;
        int64_t n;
    } cases[] = {{"0", true, 0},
                 {"-1", true, -1},
                 {"123456789012345678", true, 123456789012345678},
                 {"", false, 0},
                 {"-", false, 0},
                 {"1x", false, 0},
                 {" 1", false, 0},
                 {"1234567890123456789", false, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct resp_arg a = {(const uint8_t *)cases[i].text, strlen(cases[i].text)};
        int64_t n = 0;
        cr_assert_eq(resp_arg_number(&a, &n), cases[i].good, "\"%s\"", cases[i].text);
        cr_assert_eq(n, cases[i].n);
    }
}

Test(resp, globs)
{
    static const struct {
        const char *pattern, *name;
        bool match;
    } cases[] = {{"*", "", true},
                 {"*", "abc", true},
                 {"a*c", "abbc", true},
                 {"a*c", "abb", false},
                 {"a?c", "abc", true},
                 {"a?c", "ac", false},
                 {"[abc]x", "bx", true},
                 {"[^abc]x", "bx", false},
                 {"[a-c]x", "bx", true},
                 {"[a-c]x", "dx", false},
                 {"\\*", "*", true},
                 {"\\*", "a", false},
                 {"a\\", "a\\", true},
                 {"[", "a", false},
                 {"pt2:*:c1", "pt2:fx:c1", true},
                 {"*a*b*c*", "xxaxxbxxc", true},
                 {"", "", true},
                 {"", "a", false},
                 {"[a", "a", true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_assert_eq(resp_glob((struct view){cases[i].pattern, strlen(cases[i].pattern)},
                               (struct view){cases[i].name, strlen(cases[i].name)}),
                     cases[i].match, "%s ~ %s", cases[i].pattern, cases[i].name);
}

Test(resp, answers_have_these_bytes)
{
    struct writer w;
    writer_init(&w, 0);
    resp_put_status(&w, "OK");
    resp_put_error(&w, "ERR a\r\nb");
    resp_put_number(&w, -42);
    resp_put_number(&w, 0);
    resp_put_bulk(&w, "a\0b", 3);
    resp_put_null(&w, 2);
    resp_put_null(&w, 3);
    resp_put_array(&w, 2);
    resp_put_map(&w, 2, 2);
    resp_put_map(&w, 2, 3);
    static const char want[] = "+OK\r\n-ERR a  b\r\n:-42\r\n:0\r\n$3\r\na\0b\r\n$-1\r\n_\r\n*2\r\n"
                               "*4\r\n%2\r\n";
    cr_assert_eq(w.len, sizeof want - 1);
    cr_assert_eq(memcmp(w.data, want, w.len), 0);
    writer_close(&w);
}
