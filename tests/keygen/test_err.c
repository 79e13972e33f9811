/* SPDX-License-Identifier: Apache-2.0 */
/* test_err.c - the codes of errors keep their numbers, and a text of any length stays inside its struct. */
#include <criterion/criterion.h>
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>

#include "keygen/err.h"

/* In the order of their numbers, which cross the wire. */
static const char *const names[] = {
    "OK",          "NOMEM",   "INVALID",      "MALFORMED",  "TRUNCATED", "TOO_BIG",
    "UNSUPPORTED", "VERSION", "NOT_FOUND",    "DENIED",     "CORRUPT",   "FULL",
    "IO",          "BUSY",    "TIMEOUT",      "CANCELLED",  "CLOSED",    "NO_DAEMON",
    "CRASHED",     "REFUSED", "NO_TOOLCHAIN", "LEASE_LOST", "SHUTDOWN"};
enum { N_NAMES = sizeof names / sizeof *names };

Test(err, a_code_keeps_its_number_and_has_a_text_of_its_own)
{
    for (int i = 0; i < N_NAMES; i++) {
        cr_expect_str_eq(err_name(-i), names[i]);
        cr_expect_gt(strlen(err_text(-i)), 0);
        for (int k = 0; k < i; k++)
            cr_expect_str_neq(err_text(-i), err_text(-k), "%s and %s", names[i], names[k]);
    }
    cr_expect_eq(WARM_ETIMEOUT, -14);
}

Test(err, a_number_that_is_no_code_is_unknown)
{
    static const int numbers[] = {1, 3, -N_NAMES, INT_MIN, INT_MAX};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        cr_expect_str_eq(err_name(numbers[i]), "UNKNOWN", "%d", numbers[i]);
        cr_expect_str_eq(err_text(numbers[i]), "unknown error", "%d", numbers[i]);
    }
}

Test(err, a_fault_is_filled_in_and_its_code_returned)
{
    struct err e = {.line = 5, .column = 6};
    cr_expect_eq(err_set(&e, WARM_EIO, "%s at %d", "bad", 7), WARM_EIO);
    cr_expect_eq(e.code, WARM_EIO);
    cr_expect_str_eq(e.text, "bad at 7");
    cr_expect(e.line == 0 && e.column == 0, "the place of an older fault");
    cr_expect_eq(err_set(NULL, WARM_EFULL, "%s", "nobody asks"), WARM_EFULL);
}

Test(err, the_systems_reason_stands_behind_the_text)
{
    struct err e;
    cr_expect_eq(err_sys(&e, WARM_EDENIED, EACCES, "cannot open %s", "x"), WARM_EDENIED);
    cr_expect_eq(e.code, WARM_EDENIED);
    cr_expect_str_eq(e.text, "cannot open x: Permission denied");
    cr_expect_eq(err_sys(NULL, WARM_EIO, EIO, "%s", "nobody asks"), WARM_EIO);
}

Test(err, a_long_text_is_cut_at_the_end_of_its_room)
{
    struct {
        struct err e;
        char behind;
    } s = {.behind = '!'};
    const size_t most = sizeof s.e.text - 1;
    char text[2 * sizeof s.e.text];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    err_set(&s.e, WARM_EIO, "%s", text);
    cr_expect_eq(strlen(s.e.text), most);
    err_sys(&s.e, WARM_EIO, ENOENT, "%s", text);
    cr_expect_eq(strlen(s.e.text), most, "without room for the reason");
    text[most - 4] = '\0';
    err_sys(&s.e, WARM_EIO, ENOENT, "%s", text);
    cr_expect_str_eq(s.e.text + most - 4, ": No", "with room for its beginning");
    text[most] = '\0';
    err_set(&s.e, WARM_EIO, "%s", text);
    cr_expect_str_eq(s.e.text, text, "the longest that fits");
    cr_expect_eq(s.behind, '!');
}

Test(err, a_place_is_a_line_and_a_column_that_count_from_1)
{
    static const char text[] = "ab\n\ncd\n";
    static const struct {
        size_t at;
        unsigned line, column;
    } places[] = {{0, 1, 1}, {1, 1, 2}, {2, 1, 3}, {3, 2, 1}, {4, 3, 1}, {6, 3, 3}, {7, 4, 1}};
    struct err e = {.code = WARM_EMALFORMED};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        err_place(&e, text, strlen(text), places[i].at);
        cr_expect(e.line == places[i].line && e.column == places[i].column, "%zu: %u:%u",
                  places[i].at, e.line, e.column);
    }
    err_place(&e, text, 2, SIZE_MAX);
    cr_expect(e.line == 1 && e.column == 3, "behind the end: the end");
    err_place(&e, NULL, 0, 5);
    cr_expect(e.line == 1 && e.column == 1, "of no text");
    cr_expect_eq(e.code, WARM_EMALFORMED);
    err_place(NULL, text, 2, 0);
}
