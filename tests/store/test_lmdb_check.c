/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_lmdb_check.c - a file that LMDB wrote is sound, and each change that would lead LMDB astray is found.
 * lmdb_check.c shows that the check reads nothing outside of the file.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/lmdb_check.h"
#include "store/table.h"
#include "tests/support/page_size.h"
#include "tests/support/store_kit.h"

#define PAGE page_bytes()
#define N_RECORDS (3000u * (unsigned)(PAGE / 4096u)) /* many pages, whatever their size */

static char *dir, *path;
static uint8_t *file;
static size_t size;
static size_t n_tree_pages; /* branches and leaves of the tables */

/* Opens an environment that is made anew, or again. */
static MDB_env *open_env(void)
{
    MDB_env *env;
    cr_assert_eq(mdb_env_create(&env), 0);
    cr_assert_eq(mdb_env_set_maxdbs(env, 4), 0);
    cr_assert_eq(mdb_env_set_mapsize(env, 64 << 20), 0);
    cr_assert_eq(mdb_env_open(env, path, MDB_NOSUBDIR | MDB_NOLOCK | MDB_NOSYNC, 0600), 0);
    return env;
}

/* Writes records of all forms: short and long values, duplicates in a node and in a tree of their own. */
static void fill(MDB_env *env)
{
    static uint8_t value[3 * PAGE_BYTES_MAX];
    MDB_txn *txn;
    MDB_dbi plain, sorted;
    cr_assert_eq(table_begin(env, 0, &txn), 0);
    cr_assert_eq(mdb_dbi_open(txn, "plain", MDB_CREATE, &plain), 0);
    cr_assert_eq(mdb_dbi_open(txn, "sorted", MDB_CREATE | MDB_DUPSORT | MDB_DUPFIXED, &sorted), 0);
    for (uint32_t i = 0; i < N_RECORDS; i++) {
        uint8_t key[4], member[16] = {0};
        owner_encode(i, key);
        memcpy(member, key, sizeof key);
        size_t len = i % 100 ? i % 50 : 3 * PAGE - 100 + i % 50;
        cr_assert_eq(table_put(txn, plain, bytes_val(key, 4), bytes_val(value, len), 0), 0);
        MDB_val group = i % 3 ? name_val("large") : bytes_val(key, 3);
        cr_assert_eq(table_put(txn, sorted, group, bytes_val(member, sizeof member), 0), 0);
    }
    cr_assert_eq(table_commit(txn), 0);
    cr_assert_eq(table_begin(env, 0, &txn), 0);
    for (uint32_t i = 0; i < N_RECORDS; i += 2) { /* which leaves free pages */
        uint8_t key[4];
        owner_encode(i, key);
        cr_assert_eq(table_del(txn, plain, bytes_val(key, 4), NULL), 0);
    }
    MDB_stat stat;
    mdb_stat(txn, plain, &stat);
    n_tree_pages = stat.ms_branch_pages + stat.ms_leaf_pages;
    mdb_stat(txn, sorted, &stat);
    n_tree_pages += stat.ms_branch_pages + stat.ms_leaf_pages;
    cr_assert_eq(table_commit(txn), 0);
}

static void up(void)
{
    dir = memory_dir_new();
    path = path_join(dir, "index");
    MDB_env *env = open_env();
    fill(env);
    mdb_env_close(env);
    file = (uint8_t *)file_read(path, &size);
    cr_assert_gt(n_tree_pages, 20);
}

static void down(void)
{
    free(file);
    free(path);
    temp_dir_free(dir);
}
TestSuite(lmdb_check, .init = up, .fini = down);

/* Returns the faults that are found if one byte of each page changes, the meta pages left out. */
static size_t faults_of_byte(size_t at, uint8_t with)
{
    size_t n = 0;
    for (size_t page = 2; page < size / PAGE; page++) {
        file[page * PAGE + at] ^= with;
        n += lmdb_check(file, size) != NULL;
        file[page * PAGE + at] ^= with;
    }
    return n;
}

Test(lmdb_check, what_lmdb_wrote_is_sound)
{
    const char *fault = lmdb_check(file, size);
    cr_expect_null(fault, "%s", fault);
    unlink(path);
    MDB_env *env = open_env();
    mdb_env_close(env);
    free(file);
    file = (uint8_t *)file_read(path, &size);
    cr_expect_null(lmdb_check(file, size), "an empty environment");
}

/* LMDB leaves a mark of its memory in the pages inside of nodes. */
Test(lmdb_check, a_store_with_groups_is_sound)
{
    struct store_kit k;
    size_t len;
    kit_begin(&k, 64 * KIT_MIB);
    for (uint64_t n = 0; n < 12; n++) {
        struct store_put put = kit_put_of(&k, 1000, n, 100);
        uint8_t *value = kit_value(n, 0, 100);
        put.data = value;
        put.row.group = (struct key){{(uint8_t)(1 + n / 4)}};
        cr_assert_eq(kit_put_with(&k, &put), 0);
        free(value);
    }
    kit_close(&k);
    char *index = path_join(k.dir, "index/data.mdb");
    uint8_t *bytes = (uint8_t *)file_read(index, &len);
    const char *fault = lmdb_check(bytes, len);
    cr_expect_null(fault, "%s", fault);
    free(bytes);
    free(index);
    kit_end(&k);
}

Test(lmdb_check, a_page_that_is_another_or_of_another_kind_is_found)
{
    cr_expect_geq(faults_of_byte(0, 1), n_tree_pages, "its number");
    cr_expect_geq(faults_of_byte(10, 3), n_tree_pages, "leaf or branch");
    cr_expect_geq(faults_of_byte(12, 0x40), n_tree_pages, "the number of its nodes");
    cr_expect_geq(faults_of_byte(15, 0x80), n_tree_pages, "where its nodes begin");
    cr_expect_geq(faults_of_byte(16, 1), n_tree_pages, "where its first node is");
    cr_expect_null(lmdb_check(file, size));
}

Test(lmdb_check, a_file_that_lost_its_end_is_found)
{
    unsigned n = 0;
    for (size_t cut = PAGE; cut + PAGE < size; cut += PAGE)
        n += lmdb_check(file, size - cut) == NULL;
    cr_expect_leq(n, 2, "of the last pages some may be free: %u", n);
    cr_expect_not_null(lmdb_check(file, 2 * PAGE));
    cr_expect_not_null(lmdb_check(file, PAGE));
    cr_expect_not_null(lmdb_check(file, 0));
}

/* Two nodes of one branch that lead to one page: LMDB would free it twice. */
Test(lmdb_check, a_page_that_is_used_twice_is_found)
{
    size_t n_branches = 0;
    for (size_t page = 2; page < size / PAGE; page++) {
        uint8_t *p = file + page * PAGE;
        size_t first = p[16] | (size_t)p[17] << 8, second = p[18] | (size_t)p[19] << 8;
        uint8_t before[6];
        if (p[10] != 1 || p[11] || first > PAGE - 8 || second > PAGE - 8)
            continue;
        memcpy(before, p + first, 6);
        memcpy(p + first, p + second, 6); /* the number of its page; a free page may look so, too */
        n_branches += lmdb_check(file, size) != NULL;
        memcpy(p + first, before, 6);
    }
    cr_expect_geq(n_branches, 2);
}

Test(lmdb_check, a_table_with_other_numbers_than_it_has_is_found)
{
    uint8_t *newest = file[144] > file[PAGE + 144] ? file : file + PAGE;
    static const uint8_t fields[] = {88 + 6, 88 + 16, 88 + 32, 88 + 40, 40 + 16, 40 + 32};
    for (size_t i = 0; i < sizeof fields; i++) {
        newest[fields[i]] ^= 1;
        cr_expect_not_null(lmdb_check(file, size), "byte %u", fields[i]);
        newest[fields[i]] ^= 1;
    }
    file[16] ^= 1;
    cr_expect_not_null(lmdb_check(file, size), "LMDB reads both meta pages");
    file[16] ^= 1;
    cr_expect_null(lmdb_check(file, size));
}
