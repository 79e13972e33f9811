/* SPDX-License-Identifier: Apache-2.0 */
/* test_blob.c - the files of a store by themselves: drafts, blobs, trailers, quarantine. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/blob.h"
#include "tests/support/support.h"

#define LEN (3 * BLOB_PIECE + 17)
#define OWNER 7u

static char *dir;
static struct files files;
static uint8_t *value;
static struct err e;

static void up(void)
{
    dir = memory_dir_new();
    value = malloc(LEN);
    for (size_t i = 0; i < LEN; i++)
        value[i] = (uint8_t)(i * 31 + i / 251);
    cr_assert_eq(files_open(&files, dir, &e), 0, "%s", e.text);
}

static void down(void)
{
    files_close(&files);
    free(value);
    temp_dir_free(dir);
}
TestSuite(blob, .init = up, .fini = down);

static size_t n_files(const char *folder)
{
    char *path = path_join(dir, folder);
    DIR *d = opendir(path);
    size_t n = 0;
    for (struct dirent *entry; d && (entry = readdir(d));)
        n += entry->d_name[0] != '.';
    if (d)
        closedir(d);
    free(path);
    return n;
}

static struct store_row row_of(const struct draft *d, unsigned n)
{
    struct store_row row = {.id.owner = OWNER,
                            .kind = STORE_CUBIN,
                            .is_blob = true,
                            .len = d->len,
                            .check = d->check,
                            .content = d->content,
                            .created_ms = n};
    row.id.key.bytes[0] = (uint8_t)n;
    return row;
}

/* Copies the value into a draft in slices, which must be more than one. */
static void copy(struct draft *d)
{
    struct hashing *h = hashing_new();
    int more, slices = 0;
    cr_assert_eq(draft_begin(&files, d, LEN, &e), 0, "%s", e.text);
    do
        slices++;
    while ((more = draft_copy(&files, d, h, value, -1, BLOB_PIECE, &e)) == 1);
    cr_assert_eq(more, 0, "%s", e.text);
    cr_assert_gt(slices, 1);
    hashing_free(h);
}

static struct blob_id put(void)
{
    struct draft d = DRAFT_NONE;
    copy(&d);
    struct store_row row = row_of(&d, 1);
    cr_assert_eq(draft_seal(&files, &d, &row, &e), 0, "%s", e.text);
    cr_assert_eq(draft_place(&files, &d, OWNER, &e), 0, "%s", e.text);
    struct blob_id id = {OWNER, d.content};
    draft_drop(&files, &d);
    return id;
}

static bool count_row(void *arg, const struct store_row *row)
{
    unsigned *last = arg;
    *last = *last * 10 + row->id.key.bytes[0];
    return true;
}

Test(blob, a_value_is_found_by_its_content_with_the_digests_of_its_bytes)
{
    struct blob_id id = put();
    struct proof want = proof_of_bytes(value, LEN);
    struct key check = key_of_bytes(value, LEN);
    struct blob_state state;
    uint8_t *got = malloc(LEN), *piece = malloc(BLOB_PIECE);
    int fd;
    cr_expect(proof_equal(&id.content, &want));
    cr_assert_eq(blob_open(&files, &id, LEN, &fd, &state, &e), 0, "%s", e.text);
    cr_expect_eq(value_read(fd, got, LEN, &e), 0);
    cr_expect_eq(memcmp(got, value, LEN), 0);
    cr_expect_eq(blob_check(fd, LEN, &check, piece, NULL, &e), 0, "%s", e.text);
    check.bytes[3] ^= 1;
    cr_expect_eq(blob_check(fd, LEN, &check, piece, NULL, &e), WARM_ECORRUPT);
    cr_expect_eq(n_files("tmp"), 0);
    close(fd);
    free(got);
    free(piece);
}

Test(blob, a_draft_that_is_dropped_leaves_nothing)
{
    struct draft d = DRAFT_NONE;
    copy(&d);
    cr_expect_eq(n_files("tmp"), 1);
    draft_drop(&files, &d);
    draft_drop(&files, &d);
    cr_expect_eq(n_files("tmp") + n_files("blobs"), 0);
}

Test(blob, a_file_that_is_shorter_than_its_value_is_not_copied)
{
    char *path = path_join(dir, "short");
    struct draft d = DRAFT_NONE;
    struct hashing *h = hashing_new();
    file_write(path, value, 100);
    int fd = open(path, O_RDONLY | O_CLOEXEC), code;
    cr_assert_eq(draft_begin(&files, &d, LEN, &e), 0);
    do
        code = draft_copy(&files, &d, h, NULL, fd, BLOB_PIECE, &e);
    while (code == 1);
    cr_expect_eq(code, WARM_ETRUNCATED);
    draft_drop(&files, &d);
    cr_expect_eq(n_files("tmp"), 0);
    hashing_free(h);
    close(fd);
    free(path);
}

Test(blob, rows_of_later_entries_follow_the_value_the_newest_first)
{
    struct blob_id id = put();
    struct draft like = {.len = LEN, .check = key_of_bytes(value, LEN), .content = id.content};
    struct blob_state before, after;
    unsigned seen = 0;
    size_t n;
    int fd;
    for (unsigned i = 2; i <= 3; i++) {
        struct store_row row = row_of(&like, i);
        cr_assert_eq(blob_append(&files, &id, &row, &before, &after, &e), 0, "%s", e.text);
        cr_expect_not(blob_state_equal(&before, &after));
    }
    cr_assert_eq(blob_open(&files, &id, LEN, &fd, &after, &e), 0);
    cr_expect_eq(blob_rows(fd, after.size, count_row, &seen, &n), 0);
    cr_expect_eq(n, 3);
    cr_expect_eq(seen, 321);
    close(fd);
    struct blob_id none = {OWNER + 1, id.content};
    struct store_row row = row_of(&like, 4);
    cr_expect_eq(blob_append(&files, &none, &row, &before, &after, &e), WARM_ENOT_FOUND);
}

Test(blob, a_torn_trailer_costs_only_itself)
{
    struct blob_id id = put();
    struct blob_state state;
    unsigned seen = 0;
    size_t n;
    int fd;
    cr_assert_eq(blob_open(&files, &id, LEN, &fd, &state, &e), 0);
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, sizeof path - 1);
    cr_assert_gt(len, 0);
    path[len] = '\0';
    cr_assert_eq(chmod(path, 0600), 0);
    int out = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    cr_assert_eq(write(out, "torn by a crash", 15), 15);
    close(out);
    cr_assert_eq(blob_fstat(fd, &state), 0);
    cr_expect_eq(blob_rows(fd, state.size, count_row, &seen, &n), 0);
    cr_expect_eq(n, 1);
    cr_expect_eq(seen, 1);
    close(fd);
}

Test(blob, a_walk_finds_each_blob_once_and_no_other_file)
{
    struct blob_id id = put(), got;
    struct blob_walk walk;
    char *stray = path_join(dir, "blobs/notes.txt");
    file_write(stray, "x", 1);
    cr_assert_eq(blob_walk_begin(&files, &walk, &e), 0);
    cr_assert_eq(blob_walk_next(&walk, &got), 1);
    cr_expect(blob_id_equal(&got, &id));
    cr_expect_eq(blob_walk_next(&walk, &got), 0);
    cr_expect_not(walk.incomplete);
    blob_walk_end(&walk);
    free(stray);
}

Test(blob, a_doomed_blob_is_not_found_and_a_quarantined_one_is_kept_aside)
{
    struct blob_id id = put();
    struct blob_state state;
    char name[DOOMED_NAME];
    int fd;
    cr_assert_eq(blob_doom(&files, &id, name), 0);
    cr_expect_eq(blob_open(&files, &id, LEN, &fd, &state, &e), WARM_ENOT_FOUND);
    cr_expect_eq(n_files("tmp"), 1);
    blob_bury(&files, name);
    cr_expect_eq(n_files("tmp"), 0);
    cr_expect_eq(blob_doom(&files, &id, name), WARM_ENOT_FOUND);
    id = put();
    cr_assert_eq(blob_quarantine(&files, &id), 0);
    cr_expect_eq(n_files("quarantine"), 1);
    cr_expect_eq(blob_open(&files, &id, LEN, &fd, &state, &e), WARM_ENOT_FOUND);
    for (unsigned i = 0; i < QUARANTINE_MAX + 5; i++) {
        struct store_id entry = {.owner = OWNER};
        entry.key.bytes[1] = (uint8_t)i;
        cr_assert_eq(value_quarantine(&files, &entry, "bad", 3), 0);
    }
    cr_expect_eq(n_files("quarantine"), QUARANTINE_MAX, "the oldest went");
}

Test(blob, what_an_earlier_process_left_in_tmp_goes)
{
    char *stale = path_join(dir, "tmp/put-stale");
    file_write(stale, "x", 1);
    files_sweep_tmp(&files);
    cr_expect_eq(n_files("tmp"), 0);
    free(stale);
}
