/* SPDX-License-Identifier: Apache-2.0 */
/* test_programs.c - programs on $PATH, as a shell finds them. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "client/exec/programs.h"
#include "tests/support/support.h"

Test(programs, the_first_executable_file_counts)
{
    char *dir = temp_dir_new(), *one = path_join(dir, "one"), *two = path_join(dir, "two");
    char *text = path_join(one, "tool"), *tool = path_join(two, "tool"), *path, found[PATH_MAX];
    mkdir(one, 0755);
    mkdir(two, 0755);
    file_write(text, "x", 1);
    file_write(tool, "x", 1);
    chmod(text, 0644);
    chmod(tool, 0755);
    cr_assert_geq(asprintf(&path, "/nonexistent:%s:%s", one, two), 0);
    setenv("PATH", path, 1);
    cr_assert(program_find("tool", found));
    cr_expect_str_eq(found, tool);
    cr_expect_not(program_find("other", found));
    unsetenv("PATH");
    cr_expect_not(program_find("tool", found));
    free(path);
    free(text);
    free(tool);
    free(one);
    free(two);
    temp_dir_free(dir);
}
