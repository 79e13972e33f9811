/* SPDX-License-Identifier: Apache-2.0 */
/* test_setting_line.c - what a line of a file of settings says. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "tier/setting_line.h"

static const struct {
    const char *line, *name, *value;
} good[] = {{"name = value", "name", "value"},
            {"name=value\r\n", "name", "value"},
            {"\t name\t=  two words \n", "name", "two words"},
            {"name = a=b = c", "name", "a=b = c"},
            {"name = # no comment", "name", "# no comment"},
            {"name =", "name", ""},
            {" = value", "", "value"},
            {"", NULL, NULL},
            {" \t\r\n", NULL, NULL},
            {"# name = value", NULL, NULL},
            {"  #name = value", NULL, NULL}};

Test(setting_line, a_line_is_a_setting_a_comment_or_empty)
{
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        char line[64], *name = line, *value = line;
        snprintf(line, sizeof line, "%s", good[i].line);
        cr_assert(setting_line_split(line, &name, &value), "%s", good[i].line);
        if (good[i].name) {
            cr_expect_str_eq(name, good[i].name, "%s", good[i].line);
            cr_expect_str_eq(value, good[i].value, "%s", good[i].line);
        } else {
            cr_expect(!name && !value, "%s", good[i].line);
        }
    }
}

Test(setting_line, anything_else_is_told)
{
    char line[] = " a word\n", *name = line, *value = line;
    cr_expect_not(setting_line_split(line, &name, &value));
    cr_expect(!name && !value);
}

Test(setting_line, spaces_at_both_ends_are_cut_off)
{
    char text[] = " \r\n in the middle \t", none[] = "", spaces[] = "  ";
    cr_expect_str_eq(setting_trim(text), "in the middle");
    cr_expect_str_eq(setting_trim(none), "");
    cr_expect_str_eq(setting_trim(spaces), "");
}
