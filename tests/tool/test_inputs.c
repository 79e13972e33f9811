/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_inputs.c - the name of a result follows its inputs as they are now, and a manifest of them is read
 * whole or not at all. test_trace_log.c has the way from a trace to inputs.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/tool/inputs.h"
#include "tests/support/support.h"

#define LIST_MAX 8

static char *dir, *paths[LIST_MAX];
static struct tool_job job;
static struct input list[LIST_MAX];
static struct inputs in; /* one set: `list` */
static struct err e;

static void up(void)
{
    dir = temp_dir_new();
    job = (struct tool_job){.family = "cc", .names = {"cc:test"}};
    in = (struct inputs){.list = list, .n_sets = 1, .sets = {list}};
}

static void down(void)
{
    for (size_t i = 0; i < in.n; i++)
        free(paths[i]);
    temp_dir_free(dir);
}
TestSuite(inputs, .init = up, .fini = down);

/* Adds an input in the folder of the test, of which nothing is known yet. NULL: there is no file. */
static struct input *add(enum input_kind kind, const char *name, const char *text)
{
    cr_assert_lt(in.n, LIST_MAX);
    paths[in.n] = path_join(dir, name);
    if (text)
        file_write(paths[in.n], text, strlen(text));
    list[in.n] = (struct input){.kind = (uint8_t)kind, .path = paths[in.n]};
    in.set_len[0] = ++in.n;
    return &list[in.n - 1];
}

/* Returns the result's name now: of two static texts in turn. */
static const char *name_now(bool as_it_was)
{
    static char names[2][TOOL_NAME_TEXT];
    static unsigned turn;
    char *name = names[turn++ % 2];
    cr_expect_eq(inputs_now(&job, NULL, &in, 0, name), as_it_was);
    return name;
}

static void expect_changed(bool changes, const char *before, const char *why)
{
    char then[TOOL_NAME_TEXT];
    snprintf(then, sizeof then, "%s", before);
    cr_expect_eq(strcmp(name_now(true), then) != 0, changes, "%s", why);
}

/* Sets both times of a file, in seconds. */
static void set_time(const char *path, long seconds)
{
    struct timespec times[2] = {{.tv_sec = seconds}, {.tv_sec = seconds}};
    cr_assert_eq(utimensat(AT_FDCWD, path, times, 0), 0);
}

/* ---- the name ---- */

Test(inputs, content_counts_and_time_only_if_it_shows)
{
    struct input *file = add(INPUT_FILE, "a.h", "int a;\n");
    set_time(file->path, 1000);
    char first[TOOL_NAME_TEXT], same[TOOL_NAME_TEXT];
    snprintf(first, sizeof first, "%s", name_now(true));
    cr_assert_eq(inputs_name(&job, list, in.n, same), 0);
    cr_expect_str_eq(first, same, "that of the run itself");
    set_time(file->path, 2000);
    expect_changed(false, first, "a touched file");
    file_write(file->path, "int b;\n", 7);
    expect_changed(true, first, "other bytes");
    file_write(file->path, "int a;\n", 7);
    expect_changed(false, first, "the bytes of before");
    job.times_show = true;
    set_time(file->path, 1000);
    snprintf(first, sizeof first, "%s", name_now(true));
    set_time(file->path, 1001);
    expect_changed(true, first, "a touched file");
}

Test(inputs, an_input_that_comes_or_goes_names_no_result)
{
    struct input *absent = add(INPUT_ABSENT, "b.h", NULL), *file = add(INPUT_FILE, "a.h", "1");
    char first[TOOL_NAME_TEXT];
    snprintf(first, sizeof first, "%s", name_now(true));
    file_write(absent->path, "", 0);
    cr_expect_str_neq(name_now(false), first);
    cr_assert_eq(unlink(absent->path), 0);
    cr_assert_eq(symlink("/nowhere", absent->path), 0);
    cr_expect_str_neq(name_now(false), first, "a link without its file is there, too");
    cr_assert_eq(unlink(absent->path), 0);
    cr_expect_str_eq(name_now(true), first);
    cr_assert_eq(unlink(file->path), 0);
    name_now(false);
    cr_assert_eq(mkdir(file->path, 0700), 0);
    name_now(false);
}

Test(inputs, absent_files_of_an_unchanged_folder_are_not_looked_at)
{
    struct input *folder = add(INPUT_FOLDER, ".", NULL), *absent = add(INPUT_ABSENT, "b.h", NULL);
    struct stat st;
    folder->covers = 1;
    char first[TOOL_NAME_TEXT];
    snprintf(first, sizeof first, "%s", name_now(true));
    file_write(absent->path, "", 0); /* the folder changes with it */
    cr_expect_str_neq(name_now(false), first);
    cr_assert_eq(stat(dir, &st), 0);
    folder->stamp = (struct stamp){
        .device = st.st_dev,
        .inode = st.st_ino,
        .size = (uint64_t)st.st_size,
        .mtime_ns = (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec,
        .ctime_ns = (uint64_t)st.st_ctim.tv_sec * 1000000000u + (uint64_t)st.st_ctim.tv_nsec};
    absent->is_there = false;
    cr_expect_str_eq(name_now(true), first, "its stamp says that nothing was added");
    cr_assert_eq(unlink(absent->path), 0);
    cr_expect_str_eq(name_now(true), first);
}

Test(inputs, the_same_files_in_another_root_have_one_name)
{
    char *roots[] = {path_join(dir, "x"), path_join(dir, "y")};
    char first[TOOL_NAME_TEXT] = "";
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(mkdir(roots[i], 0700), 0);
        char *path = path_join(roots[i], "a.h");
        file_write(path, "int a;\n", 7);
        free(path);
        list[0] = (struct input){.kind = INPUT_FILE, .root = 1, .path = "/a.h"};
        in.set_len[0] = 1;
        job.roots[0] = roots[i], job.n_roots = 1;
        if (i)
            cr_expect_str_eq(name_now(true), first);
        else
            snprintf(first, sizeof first, "%s", name_now(true));
    }
    job.n_roots = 0;
    name_now(false); /* a manifest of a job with more roots */
    free(roots[0]), free(roots[1]);
}

/* `#pragma once` depends on it. */
Test(inputs, it_counts_which_files_of_one_content_are_one_file)
{
    struct input *a = add(INPUT_FILE, "a.h", "1"), *b = add(INPUT_FILE, "b.h", "1");
    char first[TOOL_NAME_TEXT], *text;
    set_time(a->path, 1000), set_time(b->path, 1000);
    snprintf(first, sizeof first, "%s", name_now(true));
    set_time(b->path, 1001);
    expect_changed(true, first, "other times");
    set_time(b->path, 1000);
    expect_changed(false, first, "the same times");
    cr_assert_eq(run_command(&text, "ln -f %s %s", a->path, b->path), 0);
    expect_changed(true, first, "one file");
    free(text);
}

Test(inputs, a_variable_is_set_empty_or_not_at_all)
{
    struct input *v = add(INPUT_VARIABLE, "v", NULL);
    char first[TOOL_NAME_TEXT], empty[TOOL_NAME_TEXT];
    v->path = "WARM_TEST_INPUT";
    unsetenv(v->path);
    snprintf(first, sizeof first, "%s", name_now(true));
    setenv(v->path, "", 1);
    snprintf(empty, sizeof empty, "%s", name_now(true));
    cr_expect_str_neq(first, empty);
    setenv(v->path, "x", 1);
    expect_changed(true, empty, "a value");
    unsetenv(v->path);
    expect_changed(false, first, "as before");
}

/* ---- manifests ---- */

/* Writes the set in `in`, with the sets of `old`. */
static struct inputs rewrite(const struct inputs *old)
{
    struct writer w;
    struct inputs out;
    writer_init(&w, 0);
    inputs_write(&in, old, &w);
    cr_assert(!w.failed);
    cr_assert_eq(inputs_read(w.data, w.len, &out, &e), 0, "%s", e.text);
    writer_close(&w);
    return out;
}

static void add_all_kinds(void)
{
    struct input *file = add(INPUT_FILE, "a.h", NULL);
    file->stamp = (struct stamp){1, 2, 3, 4, 5};
    file->digest.bytes[31] = 6;
    add(INPUT_EXISTS, "d", NULL)->type = 'd';
    add(INPUT_PROGRAM, "as", NULL)->program = "/usr/bin/as";
    add(INPUT_VARIABLE, "V", NULL)->type = 's';
    add(INPUT_LIBRARY, "libc.so.6", NULL)->digest.bytes[0] = 7;
    add(INPUT_FOLDER, "f", NULL)->covers = 1;
    add(INPUT_ABSENT, "f/b.h", NULL)->root = 2;
}

Test(inputs, a_manifest_brings_all_back)
{
    add_all_kinds();
    struct inputs got = rewrite(NULL);
    cr_assert_eq(got.n, in.n);
    cr_assert(got.n_sets == 1 && got.set_len[0] == in.n && got.sets[0] == got.list);
    for (size_t i = 0; i < in.n; i++) {
        const struct input *a = &list[i], *b = &got.list[i];
        cr_expect(a->kind == b->kind && a->root == b->root && a->type == b->type, "%zu", i);
        cr_expect_str_eq(a->path, b->path);
        cr_expect_eq(a->covers, b->covers);
        cr_expect_arr_eq(&a->stamp, &b->stamp, sizeof a->stamp);
        cr_expect(proof_equal(&a->digest, &b->digest), "%zu", i);
    }
    cr_expect_str_eq(got.list[2].program, "/usr/bin/as");
    inputs_close(&got);
    list[0].may_change = true;
    got = rewrite(NULL);
    cr_expect_eq(got.list[0].stamp.inode, 0, "it must be read each time");
    inputs_close(&got);
}

Test(inputs, the_newest_sets_are_kept_and_each_once)
{
    struct inputs old = {0}, got;
    char name[16];
    add(INPUT_ABSENT, "0", NULL);
    for (int i = 0; i < INPUTS_SETS_MAX + 2; i++) {
        snprintf(name, sizeof name, "%d", i);
        list[0].path = name;
        got = rewrite(&old);
        inputs_close(&old);
        old = got;
    }
    cr_expect_eq(old.n_sets, INPUTS_SETS_MAX);
    cr_expect_str_eq(old.sets[0]->path, "7");
    cr_expect_str_eq(old.sets[INPUTS_SETS_MAX - 1]->path, "2");
    list[0].path = "4";
    got = rewrite(&old);
    cr_expect_eq(got.n_sets, INPUTS_SETS_MAX, "in the place of the other one");
    cr_expect_str_eq(got.sets[0]->path, "4");
    cr_expect_str_eq(got.sets[1]->path, "7");
    cr_expect_str_eq(got.sets[INPUTS_SETS_MAX - 1]->path, "2");
    inputs_close(&old);
    inputs_close(&got);
}

static void expect_unreadable(const struct writer *w, size_t len, int code, const char *why)
{
    struct inputs out;
    uint8_t *copy = malloc(len ? len : 1); /* so that reading behind it shows */
    memcpy(copy, w->data, len);
    int got = inputs_read(copy, len, &out, &e);
    cr_expect(code ? got == code : got != 0, "%s, %zu bytes: %d", why, len, got);
    free(copy);
}

Test(inputs, a_manifest_that_is_damaged_is_refused)
{
    struct writer w;
    add_all_kinds();
    writer_init(&w, 0);
    inputs_write(&in, NULL, &w);
    for (size_t len = 0; len < w.len; len++)
        expect_unreadable(&w, len, 0, "cut");
    writer_u8(&w, 0);
    expect_unreadable(&w, w.len, WARM_EMALFORMED, "longer");
    w.data[4] ^= 1;
    expect_unreadable(&w, w.len - 1, WARM_EVERSION, "another version");
    w.data[4] ^= 1;
    w.data[12] = 0; /* the kind of the first */
    expect_unreadable(&w, w.len - 1, WARM_EMALFORMED, "no kind");
    w.data[12] = INPUT_FILE;
    w.data[13] = TOOL_ROOTS_MAX + 1;
    expect_unreadable(&w, w.len - 1, WARM_EMALFORMED, "no root");
    w.data[13] = 0;
    w.data[19] = '\0';
    expect_unreadable(&w, w.len - 1, WARM_EMALFORMED, "a path that ends before its end");
    writer_close(&w);
}

Test(inputs, a_folder_covers_no_more_than_follows)
{
    struct writer w;
    add(INPUT_FOLDER, "f", NULL)->covers = 2;
    add(INPUT_ABSENT, "f/a.h", NULL);
    writer_init(&w, 0);
    inputs_write(&in, NULL, &w);
    expect_unreadable(&w, w.len, WARM_EMALFORMED, "one more");
    writer_close(&w);
}
