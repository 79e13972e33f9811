/* SPDX-License-Identifier: Apache-2.0 */
/* test_digests.c - which digests of files are remembered, and which are not. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "client/lib/digests.h"
#include "tests/support/support.h"

static char *folder, *path;
static struct digests *d;

static void setup(void)
{
    folder = temp_dir_new();
    path = path_join(folder, "a.h");
    d = digests_new();
    cr_assert_not_null(d);
}

/* Waits until the last change is old enough to be remembered. */
static void settle(void) { usleep(2100 * 1000); }

static void teardown(void)
{
    digests_free(d);
    free(path);
    temp_dir_free(folder);
}
TestSuite(digests, .init = setup, .fini = teardown, .timeout = 60);

static struct stat stat_of(const char *file)
{
    struct stat st;
    cr_assert_eq(stat(file, &st), 0);
    return st;
}

static const struct proof some = {{1, 2, 3}};

Test(digests, a_file_is_known_until_its_stat_changes)
{
    struct proof out = {{0}};
    file_write(path, "one", 3);
    struct stat st = stat_of(path);
    digests_keep(d, path, &st, &some);
    cr_assert(digests_recall(d, path, &st, &out));
    cr_assert_eq(memcmp(&out, &some, sizeof out), 0);
    file_write(path, "two", 3); /* as long, and elsewhere in time */
    st = stat_of(path);
    cr_assert_not(digests_recall(d, path, &st, &out));
}

Test(digests, what_has_just_changed_is_not_remembered)
{
    char *other = path_join(folder, "b.h");
    digests_keep_absent(d, other);
    cr_assert_not(digests_is_absent(d, other), "its folder has just changed");
    free(other);
}

/* A page that is dirty takes writes through a mapping without a word in the times. A file that has settled is written
 * to the disk first. */
Test(digests, times_of_a_file_that_was_just_written_do_not_show_a_mapping)
{
    struct statfs fs;
    file_write(path, "one", 3);
    int fd = open(path, O_RDONLY);
    struct stat st = stat_of(path);
    cr_assert_eq(fstatfs(fd, &fs), 0);
    bool in_memory = fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC;
    cr_assert_not(stat_shows_mappings(fd, &st));
    for (int i = 0; i < 2; i++) {
        st.st_ctim.tv_sec -= 50;
        st.st_mtim.tv_sec -= 50;
        cr_assert_eq(stat_shows_mappings(fd, &st), !in_memory);
    }
    close(fd);
    fd = memfd_create("in memory", MFD_CLOEXEC); /* a file of a tmpfs */
    cr_assert_not(stat_shows_mappings(fd, &st));
    close(fd);
}

/* What stat_shows_mappings promises, of this kernel and file system. */
Test(digests, a_write_through_a_mapping_changes_the_times_of_a_clean_page)
{
    file_write(path, "one", 3);
    int fd = open(path, O_RDWR);
    char *text = mmap(NULL, 3, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    cr_assert(text != MAP_FAILED);
    settle();
    text[0] = 'O'; /* the page is dirty now */
    settle();
    struct stat before = stat_of(path);
    bool shows = stat_shows_mappings(fd, &before);
    text[1] = 'N';
    struct stat after = stat_of(path);
    cr_expect(!shows || !stat_is_same(&before, &after));
    munmap(text, 3);
    close(fd);
}

Test(digests, what_is_absent_stays_so_until_its_folder_changes)
{
    char *deep = path_join(folder, "sub/folder/b.h"), *sub = path_join(folder, "sub");
    settle();
    digests_begin(d);
    digests_keep_absent(d, path);
    digests_keep_absent(d, deep);
    digests_begin(d);
    cr_assert(digests_is_absent(d, path) && digests_is_absent(d, deep));
    cr_assert_eq(mkdir(sub, 0700), 0);
    digests_begin(d);
    cr_assert_not(digests_is_absent(d, deep));
    cr_assert_not(digests_is_absent(d, path));
    free(deep);
    free(sub);
}

Test(digests, behind_a_link_that_leads_nowhere_nothing_is_known)
{
    char *elsewhere = path_join(folder, "elsewhere"), *link = path_join(folder, "link");
    char *beneath = path_join(folder, "link/sub/b.h");
    cr_assert_eq(symlink(elsewhere, link), 0);
    settle();
    digests_begin(d);
    digests_keep_absent(d, link);
    digests_keep_absent(d, beneath);
    cr_assert_not(digests_is_absent(d, link));
    cr_assert_not(digests_is_absent(d, beneath));
    free(elsewhere);
    free(link);
    free(beneath);
}

Test(digests, a_file_where_something_else_was_known)
{
    struct proof out;
    struct stat st;
    settle();
    digests_keep_absent(d, path);
    st = stat_of(folder);
    digests_keep(d, folder, &st, &some); /* as if it had become a file */
    cr_assert_not(digests_is_absent(d, path));
    cr_assert(digests_recall(d, folder, &st, &out));
}

Test(digests, more_than_there_is_room_for)
{
    struct proof out;
    settle();
    struct stat st = stat_of(folder);
    for (unsigned i = 0; i < 3 * DIGESTS_MAX; i++) {
        char name[64];
        snprintf(name, sizeof name, "/nowhere/%u", i);
        digests_keep(d, name, &st, &some);
        cr_assert(digests_recall(d, name, &st, &out));
    }
    cr_assert_not(digests_recall(NULL, path, &st, &out));
    digests_keep(NULL, path, &st, &some);
    cr_assert_not(digests_is_absent(NULL, path));
}
