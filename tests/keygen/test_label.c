/* SPDX-License-Identifier: Apache-2.0 */
/* test_label.c - a label has a file under its whole name alone. */
#include <criterion/criterion.h>

#include "keygen/label.h"

static bool has(const char *label, const char *path)
{
    return label_has_file(view_of_text(label), view_of_text(path));
}

Test(label, each_file_of_a_command_by_its_name_in_whatever_folder)
{
    cr_expect(has("g++ a.cc", "a.cc"));
    cr_expect(has("g++ a.cc b.cc c.cc", "/src/b.cc"));
    cr_expect(has("g++ a.cc b.cc c.cc", "../c.cc"));
    cr_expect(has("g++ my file.cc b.cc", "my file.cc"));
}

Test(label, no_part_of_a_name_and_not_the_compiler)
{
    cr_expect(!has("g++ aa.cc", "a.cc"));
    cr_expect(!has("g++ a.cc", "a.c"));
    cr_expect(!has("g++ a.cc b.cc", "a"));
    cr_expect(!has("g++ a.cc", "g++"));
    cr_expect(!has("g++ a.cc", ""));
    cr_expect(!has("g++ a.cc", "a.cc/"));
    cr_expect(!has("", "a.cc"));
}
