/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_absent_folders.c - absent files that one look at their folder replaces. A folder that stands for a
 * file of another one, or that changed during the run, would make a wrong hit.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "client/tool/file_state.h"
#include "client/tool/trace_log.h"
#include "tests/support/support.h"

#define MANY 32

static char *dir, *texts[MANY];
static struct tool_job job;
static struct input list[MANY];
static size_t n;
static struct inputs out;
static struct writer folders;

static void up(void)
{
    dir = temp_dir_new();
    writer_init(&folders, 0);
}
static void down(void)
{
    for (size_t i = 0; i < MANY; i++)
        free(texts[i]);
    inputs_close(&out);
    writer_close(&folders);
    temp_dir_free(dir);
}
TestSuite(absent_folders, .init = up, .fini = down);

static void add(uint8_t kind, uint8_t root, const char *path)
{
    cr_assert_lt(n, MANY);
    texts[n] = strdup(path);
    list[n] = (struct input){.kind = kind, .root = root, .path = texts[n]};
    n++;
}

/* Adds an absent file below the test's own folder. */
static void add_below(const char *name)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    add(INPUT_ABSENT, 0, path);
}

static void make_folder(const char *name)
{
    char *path = path_join(dir, name);
    cr_assert_eq(mkdir(path, 0755), 0);
    free(path);
}

static void group(uint64_t started_ns)
{
    cr_assert_eq(inputs_group(&job, started_ns, list, n, &out, &folders), 0);
}

static bool is_folder(size_t i, const char *path, uint32_t covers)
{
    const struct input *f = &out.list[i];
    return f->kind == INPUT_FOLDER && f->covers == covers &&
           strcmp((const char *)folders.data + (uintptr_t)f->path, path) == 0;
}

/* True if input i is the folder `name` with its present stamp, and the files that it covers follow. */
static bool covers(size_t i, const char *name, uint32_t n_files)
{
    struct stat st;
    char *path = path_join(dir, name);
    size_t len = strlen(path);
    cr_assert_eq(stat(path, &st), 0);
    struct stamp stamp = stamp_of(&st);
    bool good =
        is_folder(i, path, n_files) && memcmp(&stamp, &out.list[i].stamp, sizeof stamp) == 0;
    for (size_t k = i + 1; k <= i + n_files; k++)
        good = good && out.list[k].kind == INPUT_ABSENT &&
               strncmp(out.list[k].path, path, len) == 0 && out.list[k].path[len] == '/' &&
               !strchr(out.list[k].path + len + 1, '/');
    free(path);
    return good;
}

Test(absent_folders, three_files_of_a_folder_are_worth_a_look_at_it)
{
    make_folder("a"), make_folder("b");
    add_below("a/1"), add_below("b/1"), add_below("a/2"), add_below("b/2"), add_below("a/3");
    group(UINT64_MAX);
    cr_assert_eq(out.n, 6);
    cr_expect(covers(0, "a", 3));
    cr_expect(out.list[4].kind == INPUT_ABSENT && out.list[5].kind == INPUT_ABSENT, "b has two");
}

Test(absent_folders, folders_that_begin_alike_are_kept_apart)
{
    static const char *const names[] = {"a/b", "a/bc", "a/b/c", "a"};
    char name[32];
    make_folder("a"), make_folder("a/b"), make_folder("a/bc"), make_folder("a/b/c");
    for (const char *file = "1mz"; *file; file++)
        for (size_t i = 0; i < 4; i++) {
            snprintf(name, sizeof name, "%s/%c", names[i], *file);
            add_below(name);
        }
    group(UINT64_MAX);
    cr_assert_eq(out.n, 16);
    cr_expect(covers(0, "a", 3) && covers(4, "a/b", 3) && covers(8, "a/b/c", 3) &&
              covers(12, "a/bc", 3));
}

Test(absent_folders, other_inputs_come_first_in_their_own_order)
{
    static const char paths[] = "z\0y\0x"; /* in the order in which they were seen */
    make_folder("a");
    add_below("a/1");
    list[n++] = (struct input){.kind = INPUT_FILE, .path = paths};
    add_below("a/2");
    list[n++] = (struct input){.kind = INPUT_EXISTS, .path = paths + 2};
    list[n++] = (struct input){.kind = INPUT_FILE, .path = paths + 4};
    add_below("a/3");
    group(UINT64_MAX);
    cr_assert_eq(out.n, 7);
    for (size_t i = 0; i < 3; i++)
        cr_expect_str_eq(out.list[i].path, paths + 2 * i);
    cr_expect(covers(3, "a", 3));
}

Test(absent_folders, a_folder_is_one_of_its_root)
{
    struct stat st;
    char *one = path_join(dir, "one"), *two = path_join(dir, "two");
    make_folder("one"), make_folder("two"), make_folder("one/a"), make_folder("two/a");
    job.roots[0] = one, job.roots[1] = two, job.n_roots = 2;
    add(INPUT_ABSENT, 1, "/a/1"), add(INPUT_ABSENT, 2, "/a/1"), add(INPUT_ABSENT, 1, "/a/2");
    group(UINT64_MAX);
    cr_expect_eq(out.n, 3, "two of one, one of the other");
    inputs_close(&out);
    add(INPUT_ABSENT, 2, "/a/2"), add(INPUT_ABSENT, 2, "/a/3");
    group(UINT64_MAX);
    cr_assert_eq(out.n, 6);
    cr_expect(is_folder(2, "/a", 3) && out.list[2].root == 2);
    char *folder = path_join(two, "a");
    cr_assert_eq(stat(folder, &st), 0);
    struct stamp stamp = stamp_of(&st);
    cr_expect_eq(memcmp(&stamp, &out.list[2].stamp, sizeof stamp), 0, "its own stamp");
    free(folder), free(one), free(two);
}

Test(absent_folders, a_folder_that_changed_during_the_run_has_no_stamp)
{
    static const struct stamp none;
    make_folder("a");
    add_below("a/1"), add_below("a/2"), add_below("a/3");
    add_below("gone/1"), add_below("gone/2"), add_below("gone/3");
    group(0);
    cr_assert_eq(out.n, 8);
    cr_expect_eq(memcmp(&out.list[0].stamp, &none, sizeof none), 0);
    inputs_close(&out);
    group(UINT64_MAX);
    cr_expect_neq(memcmp(&out.list[0].stamp, &none, sizeof none), 0);
    cr_expect_eq(memcmp(&out.list[4].stamp, &none, sizeof none), 0, "it is not there");
}

Test(absent_folders, files_without_a_folder_are_looked_for_one_by_one)
{
    add(INPUT_ABSENT, 0, "1"), add(INPUT_ABSENT, 0, "2"), add(INPUT_ABSENT, 0, "3");
    add(INPUT_ABSENT, 0, "/1"), add(INPUT_ABSENT, 0, "/2"), add(INPUT_ABSENT, 0, "/3");
    group(UINT64_MAX);
    cr_expect_eq(out.n, 6);
}

Test(absent_folders, no_inputs_make_no_list)
{
    cr_assert_eq(inputs_group(&job, 0, NULL, 0, &out, &folders), 0);
    cr_expect_eq(out.n, 0);
}
