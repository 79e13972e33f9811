/* SPDX-License-Identifier: Apache-2.0 */
/* test_output.c - the output file of a command: a whole file or the old one, in its place. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cli/cli.h"
#include "client/cli/output.h"
#include "tests/support/support.h"

static char *dir;

static void up(void) { dir = temp_dir_new(); }
static void down(void) { temp_dir_free(dir); }
TestSuite(output, .init = up, .fini = down);

static void expect_file(const char *path, const char *text)
{
    size_t len;
    char *bytes = file_read(path, &len);
    cr_expect_str_eq(bytes, text);
    free(bytes);
}

static int n_files(void)
{
    DIR *d = opendir(dir);
    int n = 0;
    for (struct dirent *e; (e = readdir(d));)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

Test(output, a_new_file_and_an_old_one_get_the_bytes_and_nothing_is_left_beside_them)
{
    char *path = path_join(dir, "k.cubin");
    cr_assert_eq(output_write(path, "one", 3), 0);
    expect_file(path, "one");
    cr_assert_eq(output_write(path, "", 0), 0);
    expect_file(path, "");
    cr_assert_eq(output_write(path, "three", 5), 0);
    expect_file(path, "three");
    cr_expect_eq(n_files(), 1);
    free(path);
}

Test(output, a_reader_of_the_old_file_keeps_it)
{
    char *path = path_join(dir, "k.cubin"), text[4] = "";
    file_write(path, "old", 3);
    FILE *f = fopen(path, "r");
    cr_assert_eq(output_write(path, "new", 3), 0);
    cr_expect_eq(fread(text, 1, 3, f), 3);
    cr_expect_str_eq(text, "old");
    fclose(f);
    expect_file(path, "new");
    free(path);
}

Test(output, a_link_stays_a_link)
{
    char *path = path_join(dir, "target"), *link = path_join(dir, "link");
    struct stat st;
    file_write(path, "old", 3);
    cr_assert_eq(symlink("target", link), 0);
    cr_assert_eq(output_write(link, "new", 3), 0);
    cr_expect(lstat(link, &st) == 0 && S_ISLNK(st.st_mode));
    expect_file(path, "new");
    free(path);
    free(link);
}

Test(output, a_folder_that_is_not_there_is_a_wrong_command_line)
{
    char *path = path_join(dir, "none/k.cubin");
    cr_expect_eq(output_write(path, "x", 1), CLI_USAGE);
    cr_expect_eq(n_files(), 0);
    free(path);
}

Test(output, a_default_name_is_the_files_with_another_ending)
{
    static const char *const names[][2] = {{"dir/k.cu", "k.cubin"},
                                           {"k", "k.cubin"},
                                           {"a.b.cu", "a.b.cubin"},
                                           {"x.y/.cu", ".cu.cubin"}};
    char out[PATH_MAX], *deep = calloc(1, PATH_MAX + 1);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        cr_assert(output_name(names[i][0], "cubin", out));
        cr_expect_str_eq(out, names[i][1]);
    }
    memset(deep, 'a', PATH_MAX);
    cr_expect_not(output_name(deep, "cubin", out));
    free(deep);
}
