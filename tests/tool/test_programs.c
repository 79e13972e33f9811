/* SPDX-License-Identifier: Apache-2.0 */
/* test_programs.c - programs on $PATH, as a shell finds them. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

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

Test(programs, a_folder_of_that_name_is_no_program)
{
    char *dir = temp_dir_new(), *one = path_join(dir, "one"), *two = path_join(dir, "two");
    char *folder = path_join(one, "tool"), *tool = path_join(two, "tool"), *path, found[PATH_MAX];
    cr_assert(!mkdir(one, 0755) && !mkdir(two, 0755) && !mkdir(folder, 0755));
    file_write(tool, "x", 1);
    chmod(tool, 0755);
    cr_assert_geq(asprintf(&path, "%s:%s", one, two), 0);
    setenv("PATH", path, 1);
    cr_assert(program_find("tool", found));
    cr_expect_str_eq(found, tool);
    free(path), free(folder), free(tool), free(one), free(two);
    temp_dir_free(dir);
}

Test(programs, an_empty_part_of_path_is_the_working_folder)
{
    char *dir = temp_dir_new(), *tool = path_join(dir, "tool"), found[PATH_MAX];
    file_write(tool, "x", 1);
    chmod(tool, 0755);
    cr_assert_eq(chdir(dir), 0);
    setenv("PATH", "/nonexistent:", 1);
    cr_assert(program_find("tool", found));
    cr_expect_str_eq(found, "tool");
    free(tool);
    temp_dir_free(dir);
}
