/* SPDX-License-Identifier: Apache-2.0 */
/* test_file_state.c - what the tool knows of a file or a folder, and when that changes. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/tool/file_state.h"
#include "tests/support/support.h"

static char *dir;

static void up(void) { dir = temp_dir_new(); }
static void down(void) { temp_dir_free(dir); }
TestSuite(file_state, .init = up, .fini = down);

static char *write_file(const char *name, const char *text)
{
    char *path = path_join(dir, name);
    file_write(path, text, strlen(text));
    return path;
}

static struct stamp stamp(const char *path)
{
    struct stat st;
    cr_assert_eq(stat(path, &st), 0, "%s", path);
    return stamp_of(&st);
}

static bool same_folder(const char *path, const struct proof *was)
{
    struct proof now;
    cr_assert_eq(folder_digest(path, &now), 0);
    return proof_equal(&now, was);
}

Test(file_state, a_digest_is_that_of_the_bytes_and_of_the_stamp)
{
    char *path = write_file("a.h", "int a;\n");
    struct proof got, want = proof_of_bytes("int a;\n", 7);
    struct stamp old = stamp(path);
    bool may_change;
    cr_assert_eq(file_digest(NULL, path, &old, &got, &may_change), 0);
    cr_expect(proof_equal(&got, &want));
    file_write(path, "int a, b;\n", 10);
    cr_expect_eq(file_digest(NULL, path, &old, &got, &may_change), WARM_EBUSY,
                 "it is not the file of that stamp");
    struct stamp now = stamp(path);
    cr_expect_eq(file_digest(NULL, path, &now, &got, &may_change), 0);
    unlink(path);
    cr_expect_neq(file_digest(NULL, path, &now, &got, &may_change), 0);
    free(path);
}

Test(file_state, a_file_of_a_moment_ago_is_not_settled)
{
    char *path = write_file("a.h", "int a;\n");
    struct stamp fresh = stamp(path), old = fresh;
    cr_expect(!stamp_is_settled(&fresh), "it could change within a tick of the clock");
    old.ctime_ns -= 3600ull * 1000000000ull;
    old.mtime_ns -= 3600ull * 1000000000ull;
    cr_expect(stamp_is_settled(&old));
    cr_expect(!stamp_is_before(&fresh, fresh.ctime_ns), "the same tick");
    cr_expect(stamp_is_before(&old, fresh.ctime_ns));
    free(path);
}

Test(file_state, a_folder_is_the_set_of_its_names)
{
    struct proof empty, two;
    cr_assert_eq(folder_digest(dir, &empty), 0);
    char *a = write_file("a", "1"), *b = write_file("b", "2");
    cr_expect(!same_folder(dir, &empty));
    cr_assert_eq(folder_digest(dir, &two), 0);
    file_write(a, "other bytes", 11);
    cr_expect(same_folder(dir, &two), "bytes do not count");
    unlink(a);
    cr_expect(!same_folder(dir, &two));
    free(write_file("a", "again, and now behind b"));
    cr_expect(same_folder(dir, &two), "the order of the names does not count");
    char *joined = path_join(dir, "ab");
    cr_assert_eq(rename(b, joined), 0);
    cr_expect(!same_folder(dir, &two));
    cr_expect_eq(folder_digest(b, &two), WARM_ENOT_FOUND);
    free(a), free(b), free(joined);
}

Test(file_state, types_and_binaries_are_told_apart)
{
    static const struct {
        const char *content;
        bool is_binary;
    } files[] = {{"\177ELF\2\1\1", true},
                 {"!<arch>\n", true},
                 {"!<thin>\n", true},
                 {"glibc-ld.so", true},
                 {"int solo(void);\n", false},
                 {"ELF\n", false},
                 {"", false}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char *file = write_file("content", files[i].content);
        cr_expect_eq(file_is_binary(file), files[i].is_binary, "%s", files[i].content);
        unlink(file);
        cr_expect(!file_is_binary(file), "there is none");
        free(file);
    }
    struct stat st;
    char *path = write_file("f", "");
    cr_assert_eq(stat(path, &st), 0);
    cr_expect_eq(file_type(&st), 'f');
    cr_assert_eq(stat(dir, &st), 0);
    cr_expect_eq(file_type(&st), 'd');
    cr_assert_eq(stat("/dev/null", &st), 0);
    cr_expect_eq(file_type(&st), 'o');
    free(path);
}
