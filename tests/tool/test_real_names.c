/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What counts of the name without links of a file: where it lies, and if it is the shorter one.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/tool/inputs.h"
#include "tests/support/support.h"

#define FOLDERS 300

static char *dir, *root;
static struct tool_job job;

static void up(void)
{
    char *made = temp_dir_new();
    dir = realpath(made, NULL);
    free(made);
    root = path_join(dir, "root");
    cr_assert_eq(mkdir(root, 0700), 0);
    job = (struct tool_job){.roots = {root}, .n_roots = 1};
    snprintf(job.cwd, sizeof job.cwd, "%s", root);
}

static void down(void)
{
    temp_dir_free(dir);
    free(root);
}
TestSuite(real_names, .init = up, .fini = down);

/* Makes a file, and the folder above it. */
static void make(const char *folder, const char *name)
{
    char *whole = path_join(root, folder), *file = path_join(whole, name);
    mkdir(whole, 0700);
    file_write(file, "1", 1);
    free(whole);
    free(file);
}

static void expect(const char *path, char kind, const char *text)
{
    char out[PATH_MAX];
    char got = real_name(&job, path, out);
    cr_expect(got == kind && (got == 0 || strcmp(out, text) == 0), "%s: '%c' %s", path, got, out);
}

static void expect_in_root(const char *name, char kind, const char *text)
{
    char *path = path_join(root, name);
    expect(path, kind, text);
    free(path);
}

Test(real_names, of_many_folders_each_is_known)
{
    char folder[16], path[32];
    for (int i = 0; i < FOLDERS; i++) {
        snprintf(folder, sizeof folder, "f%d", i);
        snprintf(path, sizeof path, "f%d/h.h", i);
        make(folder, "h.h");
        expect(path, REAL_PLAIN, "");
        expect_in_root(path, REAL_PLAIN, "");
    }
}

Test(real_names, a_link_counts_by_what_it_leads_to)
{
    make("one", "h.h");
    make("a_long_name", "h.h");
    char *far = path_join(dir, "far"), *link = path_join(root, "one/far");
    mkdir(far, 0700);
    char *file = path_join(far, "h.h");
    file_write(file, "1", 1);
    cr_assert_eq(symlink(far, link), 0);
    expect_in_root("one/far/h.h", REAL_SHORTER, file);
    expect("one/far/h.h", REAL_ELSEWHERE, file);
    free(link);
    link = path_join(root, "s");
    cr_assert_eq(symlink("a_long_name", link), 0);
    expect_in_root("s/h.h", REAL_BELOW, "/a_long_name/h.h");
    expect("s/h.h", REAL_BELOW, "/a_long_name/h.h");
    free(link);
    link = path_join(root, "a_long_name/link.h");
    cr_assert_eq(symlink("../one/h.h", link), 0);
    expect_in_root("a_long_name/link.h", REAL_SHORTER_BELOW, "/one/h.h");
    expect("a_long_name/link.h", REAL_BELOW, "/one/h.h");
    expect_in_root("a_long_name/../one/h.h", REAL_SHORTER_BELOW, "/one/h.h");
    expect("a_long_name/../one/h.h", REAL_PLAIN, "");
    expect("none/h.h", 0, "");
    free(link);
    free(file);
    free(far);
}

Test(real_names, a_root_that_a_link_leads_to_is_where_it_leads)
{
    make("one", "h.h");
    job.roots[0] = path_join(dir, "a_link_with_a_long_name");
    cr_assert_eq(symlink(root, job.roots[0]), 0);
    char *path = path_join(job.roots[0], "one/h.h"), *real = path_join(root, "one/h.h");
    expect(path, REAL_SHORTER, real);
    free(job.roots[0]);
    free(path);
    job.roots[0] = path_join(dir, "l");
    cr_assert_eq(symlink(root, job.roots[0]), 0);
    path = path_join(job.roots[0], "one/h.h");
    expect(path, REAL_PLAIN, "");
    free(job.roots[0]);
    free(path);
    free(real);
}
