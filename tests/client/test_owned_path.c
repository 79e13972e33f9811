/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_owned_path.c - whose path may be believed: owners, modes, links, and each part on the way. Most tests
 * need root, to give parts to another user.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "client/lib/owned_path.h"
#include "tests/support/support.h"

#define OTHER 65534u

static char *dir, *folder, *file;
static struct err e;

static void up(void)
{
    dir = temp_dir_new();
    folder = path_join(dir, "folder");
    file = path_join(folder, "file");
    cr_assert_eq(mkdir(folder, 0755), 0);
    file_write(file, "x", 1);
    chmod(file, 0644);
}

static void down(void)
{
    free(folder);
    free(file);
    temp_dir_free(dir);
}
TestSuite(owned_path, .init = up, .fini = down, .timeout = 60);

static void expect_denied(const char *path, const char *text)
{
    cr_expect_eq(owned_path_check(path, "the store", &e), WARM_EDENIED, "%s", path);
    cr_expect(strstr(e.text, text) && strstr(e.text, "the store"), "%s", e.text);
}

static void expect_fine(const char *path)
{
    cr_expect_eq(owned_path_check(path, "the store", &e), 0, "%s: %s", path, e.text);
}

Test(owned_path, own_files_and_what_is_not_there_yet_are_fine)
{
    char *missing = path_join(folder, "a/b/c");
    expect_fine(file);
    expect_fine(folder);
    expect_fine(missing);
    expect_fine("/dev/null");
    cr_assert_eq(chdir(folder), 0);
    expect_fine("file");
    expect_fine("../folder/./file");
    free(missing);
}

/* Who opens a pipe waits for a writer, without end. */
Test(owned_path, a_pipe_is_no_file)
{
    char *pipe = path_join(folder, "pipe"), *link = path_join(folder, "link");
    cr_assert(mkfifo(pipe, 0600) == 0 && symlink("pipe", link) == 0);
    cr_expect_eq(owned_path_check(link, "the settings", &e), WARM_EINVALID);
    cr_expect(strstr(e.text, "the settings: ") && strstr(e.text, "/pipe is no file"), "%s", e.text);
    free(pipe);
    free(link);
}

Test(owned_path, what_others_may_write_is_refused_at_each_part)
{
    static const mode_t modes[] = {0777, 0757, 0775 /* the group of no user */};
    if (geteuid() == 0)
        cr_assert(chown(folder, 0, 1) == 0 && chown(file, 0, 1) == 0);
    for (size_t i = 0; i < (geteuid() == 0 ? 3 : 2); i++) {
        cr_assert_eq(chmod(folder, modes[i]), 0);
        expect_denied(file, "can be written by other users");
        expect_denied(folder, "chmod go-w");
        cr_assert_eq(chmod(folder, 0755), 0);
        cr_assert_eq(chmod(file, modes[i]), 0);
        expect_denied(file, "can be written by other users");
        cr_assert_eq(chmod(file, 0600), 0);
    }
    expect_fine(file);
}

Test(owned_path, a_sticky_folder_counts_above_but_not_at_the_end)
{
    cr_assert_eq(chmod(folder, 01777), 0);
    expect_fine(file);
    expect_denied(folder, "can be written by other users");
    cr_expect_eq(owned_path_check_folders(file, "the socket", &e), 0);
    cr_assert_eq(chmod(folder, 0777), 0);
    cr_expect_eq(owned_path_check_folders(file, "the socket", &e), WARM_EDENIED);
}

Test(owned_path, parts_of_another_user_are_refused_at_each_place)
{
    NEEDS_TWO_USERS();
    cr_assert_eq(chown(file, OTHER, 0), 0);
    expect_denied(file, "belongs to another user (uid 65534)");
    cr_expect_eq(owned_path_check_folders(file, "the socket", &e), 0, "only the folders count");
    cr_assert(chown(file, 0, 0) == 0 && chown(folder, OTHER, 0) == 0);
    expect_denied(file, "belongs to another user (uid 65534)");
    char *missing = path_join(folder, "missing");
    expect_denied(missing, "belongs to another user (uid 65534)");
    free(missing);
}

Test(owned_path, a_link_leads_to_what_counts_and_its_owner_counts)
{
    NEEDS_TWO_USERS();
    char *link = path_join(dir, "link"), *through = path_join(link, "file");
    cr_assert_eq(symlink("folder", link), 0);
    expect_fine(link);
    expect_fine(through);
    cr_assert_eq(lchown(link, OTHER, 0), 0);
    expect_denied(link, "belongs to another user");
    expect_denied(through, "belongs to another user");
    cr_assert(lchown(link, 0, 0) == 0 && chown(folder, OTHER, 0) == 0);
    expect_denied(link, "belongs to another user");
    expect_denied(through, "belongs to another user");
    unlink(link);
    cr_assert_eq(symlink(folder, link), 0); /* with its whole path */
    expect_denied(through, "belongs to another user");
    cr_assert_eq(chown(folder, 0, 0), 0);
    expect_fine(through);
    free(link);
    free(through);
}

Test(owned_path, links_in_a_circle_end)
{
    char *a = path_join(dir, "a"), *b = path_join(dir, "b");
    cr_assert(symlink("b", a) == 0 && symlink("a", b) == 0);
    cr_expect_eq(owned_path_check(a, "the store", &e), WARM_EINVALID, "%s", e.text);
    free(a);
    free(b);
}

Test(owned_path, a_path_as_long_as_paths_can_be_is_checked_or_refused)
{
    char path[3 * 4096];
    for (size_t len = 4000; len < sizeof path - 8; len += 37) {
        memset(path, 0, sizeof path);
        for (size_t at = 0; at + 2 < len; at += 2)
            memcpy(path + at, "/.", 2);
        cr_expect_eq(owned_path_check(path, "the store", &e), len > 4094 ? WARM_EINVALID : 0,
                     "%zu: %s", len, e.text);
    }
}

Test(owned_path, the_owners_private_group_may_write_and_no_other_group)
{
    const struct passwd *root = getpwuid(0);
    const struct group *group = getgrgid(0);
    NEEDS_TWO_USERS();
    if (!root || !group || root->pw_gid != 0 || strcmp(group->gr_name, root->pw_name) != 0 ||
        group->gr_mem[0])
        cr_skip_test("root's group is no private one here");
    cr_assert(chmod(folder, 0775) == 0 && chmod(file, 0664) == 0);
    expect_fine(file);
    cr_assert_eq(chown(folder, 0, 1), 0);
    expect_denied(file, "can be written by other users");
    cr_assert(chown(folder, 0, 0) == 0 && chmod(folder, 0775) == 0);
    /* user 1 may write, too: version 2; owner, user 1, group, mask, others */
    static const struct {
        uint32_t version;
        struct {
            uint16_t tag, perm;
            uint32_t id;
        } entry[5];
    } list = {2, {{1, 7, -1u}, {2, 7, 1}, {4, 5, -1u}, {16, 7, -1u}, {32, 5, -1u}}};
    if (setxattr(folder, "system.posix_acl_access", &list, sizeof list, 0) != 0)
        cr_skip_test("this file system has no access control lists");
    expect_denied(file, "can be written by other users");
}

/* A user's own folder in a user namespace that has a number for that user alone, as in many containers. */
Test(owned_path, in_a_user_namespace_the_machines_folders_above_are_fine)
{
    NEEDS_TWO_USERS();
    char map[32] = "1000 1000 1", *theirs = path_join(folder, "theirs");
    cr_assert(chmod(dir, 0755) == 0 && mkdir(theirs, 0755) == 0);
    cr_assert_eq(chown(folder, 1000, 1000), 0);
    pid_t pid = fork();
    if (pid == 0) {
        if (setgroups(0, NULL) || setresgid(1000, 1000, 1000) || setresuid(1000, 1000, 1000) ||
            unshare(CLONE_NEWUSER) != 0)
            _exit(77);
        int fd = open("/proc/self/uid_map", O_WRONLY);
        if (fd < 0 || write(fd, map, strlen(map)) < 0)
            _exit(77);
        _exit(owned_path_check(folder, "the store", NULL) != 0   ? 1
              : owned_path_check(theirs, "the store", NULL) == 0 ? 2
                                                                 : 0);
    }
    int status;
    waitpid(pid, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        cr_skip_test("there are no user namespaces here");
    cr_assert_eq(status, 0, "%x", status);
    free(theirs);
}
