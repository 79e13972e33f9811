/* SPDX-License-Identifier: Apache-2.0 */
/* test_ptxas_log.c - messages of ptxas: which lines are times, and which show the source. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "client/lib/ptxas_log.h"

static void expect_without_times(const char *log, const char *expected)
{
    char text[512];
    strcpy(text, log);
    size_t len = ptxas_log_drop_times(text, strlen(text));
    cr_expect(len == strlen(expected) && memcmp(text, expected, len) == 0, "%s: %.*s", log,
              (int)len, text);
}

Test(ptxas_log, times_are_dropped_and_all_else_stays)
{
    static const char *const others[] = {
        "",
        "\n",
        "ptxas info    : Used 8 registers\n",
        "ptxas info    : Function properties for k\n    0 bytes stack frame\n",
        "ptxas info    : Compile time = 1.755 s\n",
        "ptxas info    : Compile time = 1.755 ms, and more\n",
        "ptxas info    : Compile time =  ms\n",
        "ptxas k.ptx, line 7; info : Compile time = 1.755 ms\n",
        "Compile time = 1.755 ms",
        " info : Compile time = 1.755 ms",
        "no line feed",
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char log[512];
        expect_without_times(others[i], others[i]);
        snprintf(log, sizeof log, "ptxas info    : Compile time = 1.755 ms\n%s", others[i]);
        expect_without_times(log, others[i]);
        snprintf(log, sizeof log, "%s\nptxas-blackwell info : Compile time = 0 ms", others[i]);
        char expected[512];
        snprintf(expected, sizeof expected, "%s\n", others[i]);
        expect_without_times(log, expected);
    }
    cr_expect_eq(ptxas_log_drop_times(NULL, 0), 0);
}

Test(ptxas_log, an_info_is_known_by_any_name_of_ptxas)
{
    static const struct {
        const char *line;
        bool is_info;
    } rows[] = {
        {"ptxas info    : 0 bytes gmem", true},
        {"ptxas-blackwell info    : 0 bytes gmem", true},
        {"ptxas k.ptx, line 7; warning : odd", false},
        {"ptxas information", false},
        {"    0 bytes stack frame", false},
        {"ptxas info", false},
        {"", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        cr_expect_eq(ptxas_log_is_info((struct view){rows[i].line, strlen(rows[i].line)}),
                     rows[i].is_info, "%s", rows[i].line);
}
