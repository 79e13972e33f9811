/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_change.c - one transaction on a real index keeps the accounts in order: all or nothing, each blob
 * once, and never below zero.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/change.h"
#include "store/fault.h"
#include "store/table.h"
#include "tests/support/support.h"

#define ADA 1000u
#define BOB 1001u
#define LARGE (STORE_INLINE_MAX + 1000u)

static char *dir;
static struct index x;
static struct change c;
static uint8_t bytes[STORE_INLINE_MAX];

static void begin(void) { cr_assert_eq(change_begin(&c, &x), 0); }

static void commit(void)
{
    cr_assert_eq(change_commit(&c), 0);
    change_close(&c);
}

static void up(void)
{
    struct err e;
    dir = memory_dir_new();
    cr_assert_eq(index_open(&x, dir, 64 << 20, NULL, &e), 0, "%s", e.text);
    begin();
}

static void down(void)
{
    change_close(&c);
    index_close(&x);
    temp_dir_free(dir);
}
TestSuite(change, .init = up, .fini = down);

/* Returns the row of entry n. Large ones have one content. */
static struct store_row row(uint32_t owner, uint32_t maker, uint8_t n, uint64_t len)
{
    struct store_row r = {.id = {.owner = owner, .key = {{n}}},
                          .kind = STORE_CUBIN,
                          .maker = maker,
                          .len = len,
                          .is_blob = len > STORE_INLINE_MAX};
    if (r.is_blob)
        memset(r.content.bytes, 7, sizeof r.content.bytes);
    return r;
}

static void insert(const struct store_row *r)
{
    cr_assert_eq(change_insert(&c, r, r->is_blob ? NULL : bytes), 0);
}

static struct store_share share_of(uint32_t user)
{
    struct store_share s;
    cr_assert_eq(index_share(&x, c.txn, user, &s), 0);
    return s;
}

static struct usage usage_of(uint32_t owner)
{
    struct usage u;
    cr_assert_eq(index_usage(&x, c.txn, owner, &u), 0);
    return u;
}

/* Expects that no account has anything of these users. */
static void expect_nothing(void)
{
    static const uint32_t all[] = {ADA, BOB, STORE_MADE_HERE};
    static const struct totals none;
    for (size_t i = 0; i < 3; i++) {
        struct store_share s = share_of(all[i]);
        struct usage u = usage_of(all[i]);
        cr_expect(!s.n_entries && !s.disk_bytes && !s.pinned_bytes, "the share of %u", all[i]);
        cr_expect(!u.n_entries && !u.n_bytes && !u.disk_bytes, "the usage of %u", all[i]);
    }
    cr_expect_arr_eq(&c.totals, &none, sizeof none);
}

/* ---- all or nothing ---- */

Test(change, an_entry_that_comes_and_goes_leaves_no_account)
{
    struct store_row small = row(ADA, ADA, 1, 100), page = row(ADA, ADA, 2, 9000);
    insert(&small);
    insert(&page);
    commit();
    begin();
    cr_expect_eq(c.totals.n_entries, 2);
    cr_expect_eq(c.totals.kind_bytes[STORE_CUBIN], 9100);
    cr_expect_eq(usage_of(ADA).n_bytes, 9100);
    cr_expect_eq(share_of(ADA).disk_bytes,
                 entry_disk_bytes(c.index, &small) + entry_disk_bytes(c.index, &page));
    cr_expect_eq(change_remove(&c, &small), 0);
    cr_expect_eq(change_remove(&c, &page), 0);
    expect_nothing();
}

Test(change, an_abort_undoes_all)
{
    struct store_row r = row(ADA, ADA, 1, LARGE), got;
    insert(&r);
    cr_assert_eq(change_remove(&c, &r), 0);
    cr_expect_eq(c.n_doomed, 1);
    change_abort(&c);
    cr_expect_eq(c.n_doomed, 0, "its file must stay");
    change_close(&c);
    begin();
    cr_expect_eq(index_row(&x, c.txn, &r.id, &got), WARM_ENOT_FOUND);
    expect_nothing();
}

Test(change, a_commit_that_fails_changes_nothing)
{
    struct store_row first = row(ADA, ADA, 1, LARGE), second = row(ADA, ADA, 2, 100), got;
    insert(&first);
    commit();
    struct totals before = x.totals;
    bool reached = true;
    for (long nth = 1; reached; nth++) {
        begin();
        insert(&second);
        cr_assert_eq(change_remove(&c, &first), 0);
        fault_arm(nth, ENOSPC, false);
        int rc = change_commit(&c);
        reached = fault_disarm();
        cr_assert_eq(rc != 0, reached, "%ld", nth);
        if (!reached)
            break;
        cr_expect_eq(c.n_doomed, 0, "the file of an entry that is still there");
        cr_expect_arr_eq(&x.totals, &before, sizeof before);
        change_close(&c);
        begin();
        cr_expect_eq(index_row(&x, c.txn, &first.id, &got), 0);
        cr_expect_eq(index_row(&x, c.txn, &second.id, &got), WARM_ENOT_FOUND);
        change_close(&c);
    }
    cr_expect_eq(c.n_doomed, 1);
    change_close(&c);
    begin();
    cr_expect_eq(index_row(&x, c.txn, &second.id, &got), 0);
}

/* ---- shares and blobs ---- */

Test(change, an_entry_of_the_daemon_is_in_its_makers_share)
{
    struct store_row r = row(STORE_MADE_HERE, BOB, 1, 100);
    insert(&r);
    cr_expect_eq(share_of(BOB).n_entries, 1);
    cr_expect_eq(usage_of(BOB).n_entries, 0);
    cr_expect_eq(usage_of(STORE_MADE_HERE).n_entries, 1);
    cr_expect_eq(share_of(STORE_MADE_HERE).n_entries, 0);
}

Test(change, a_blob_counts_once_and_is_doomed_with_its_last_entry)
{
    struct store_row a = row(STORE_MADE_HERE, ADA, 1, LARGE);
    struct store_row b = row(STORE_MADE_HERE, BOB, 2, LARGE);
    struct blob_id blob = {STORE_MADE_HERE, a.content};
    insert(&a);
    insert(&b);
    uint64_t file = blob_disk_bytes(LARGE);
    cr_expect_eq(c.totals.n_bytes, LARGE, "one file");
    cr_expect_eq(c.totals.blob_disk_bytes, file);
    cr_expect_eq(share_of(ADA).disk_bytes, entry_disk_bytes(c.index, &a) + file);
    cr_expect_eq(share_of(BOB).disk_bytes, entry_disk_bytes(c.index, &b));
    cr_expect_eq(change_remove(&c, &a), 0);
    cr_expect_eq(c.n_doomed, 0);
    cr_expect_eq(share_of(ADA).disk_bytes, file, "who brought it has it as long as it is there");
    cr_expect_eq(change_remove(&c, &b), 0);
    cr_assert_eq(c.n_doomed, 1);
    expect_nothing();
    cr_expect(change_spare_blob(&c, &blob));
    cr_expect(!change_spare_blob(&c, &blob));
    cr_expect_eq(c.n_doomed, 0);
}

Test(change, the_blob_of_another_owner_is_another_blob)
{
    struct store_row a = row(ADA, ADA, 1, LARGE), b = row(BOB, BOB, 1, LARGE);
    insert(&a);
    insert(&b);
    cr_expect_eq(c.totals.n_bytes, 2 * LARGE);
    cr_expect_eq(change_remove(&c, &a), 0);
    cr_assert_eq(c.n_doomed, 1);
    cr_expect_eq(c.doomed[0].owner, ADA);
}

Test(change, a_forgotten_blob_is_not_subtracted_twice)
{
    struct store_row a = row(ADA, ADA, 1, LARGE);
    struct blob_id blob = {ADA, a.content};
    insert(&a);
    cr_expect_eq(change_forget_blob(&c, &blob), 0);
    cr_expect_eq(c.n_doomed, 1);
    cr_expect_eq(c.totals.blob_disk_bytes, 0);
    cr_expect_eq(share_of(ADA).disk_bytes, entry_disk_bytes(c.index, &a));
    cr_expect_eq(change_forget_blob(&c, &blob), WARM_ENOT_FOUND);
    cr_expect_eq(change_remove(&c, &a), 0);
    cr_expect_eq(c.n_doomed, 1);
    expect_nothing();
}

Test(change, a_pin_counts_with_its_blob_until_the_entry_goes)
{
    struct store_row a = row(ADA, ADA, 1, LARGE), other = row(ADA, ADA, 2, 10), got;
    insert(&a);
    insert(&other);
    cr_assert_eq(change_pin(&c, &a, true), 0);
    cr_expect_eq(share_of(ADA).pinned_bytes,
                 entry_disk_bytes(c.index, &a) + blob_disk_bytes(LARGE));
    cr_assert_eq(index_row(&x, c.txn, &a.id, &got), 0);
    cr_assert(got.pinned);
    cr_assert_eq(change_pin(&c, &got, false), 0);
    cr_expect_eq(share_of(ADA).pinned_bytes, 0);
    cr_assert_eq(change_pin(&c, &a, true), 0);
    cr_assert_eq(index_row(&x, c.txn, &a.id, &got), 0);
    cr_assert_eq(change_remove(&c, &got), 0);
    cr_expect_eq(share_of(ADA).pinned_bytes, 0);
}

/* ---- damage ---- */

/* Overwrites the end of a row, its checksum; with `all`, the whole row. */
static void damage(const struct store_row *r, bool all)
{
    uint8_t key[INDEX_KEY], copy[ROW_MAX];
    MDB_val data;
    index_key(&r->id, key);
    cr_assert_eq(table_get(c.txn, x.row, bytes_val(key, sizeof key), &data), 0);
    size_t len = data.mv_size;
    memcpy(copy, data.mv_data, len);
    memset(copy + (all ? 0 : len - 8), 0xff, all ? len : 8);
    cr_assert_eq(table_put(c.txn, x.row, bytes_val(key, sizeof key), bytes_val(copy, len), 0), 0);
}

Test(change, a_row_that_cannot_be_read_is_removed_with_what_it_names)
{
    struct store_row small = row(ADA, ADA, 1, 100), large = row(ADA, ADA, 2, LARGE);
    insert(&small);
    insert(&large);
    damage(&small, false);
    damage(&large, false);
    cr_assert_eq(change_remove_broken(&c, &small.id), 0);
    cr_assert_eq(change_remove_broken(&c, &large.id), 0);
    cr_expect(c.broke);
    cr_expect_eq(c.n_doomed, 1);
    expect_nothing();
    cr_expect_eq(change_remove_broken(&c, &large.id), 0, "it is gone already");
}

Test(change, a_row_of_rubbish_takes_no_account_below_zero)
{
    struct store_row small = row(ADA, ADA, 1, 100), lost = row(ADA, ADA, 2, 50), got;
    uint8_t key[INDEX_KEY];
    insert(&small);
    damage(&small, true);
    index_key(&lost.id, key); /* a row that no account has */
    cr_assert_eq(table_put(c.txn, x.row, bytes_val(key, sizeof key), name_val("rubbish"), 0), 0);
    cr_assert_eq(table_put(c.txn, x.value, bytes_val(key, sizeof key), bytes_val(bytes, 50), 0), 0);
    cr_assert_eq(change_remove_broken(&c, &lost.id), 0);
    cr_expect_eq(c.totals.n_entries, 0);
    cr_expect_eq(c.totals.n_bytes, 50);
    cr_assert_eq(change_remove_broken(&c, &small.id), 0);
    cr_expect_eq(c.totals.n_entries, 0);
    cr_expect_eq(c.totals.n_bytes, 0, "the length is that of the value");
    cr_expect_eq(usage_of(ADA).n_entries, 0);
    cr_expect_eq(share_of(ADA).n_entries, 0);
    cr_expect_eq(index_row(&x, c.txn, &lost.id, &got), WARM_ENOT_FOUND);
}

/* ---- groups ---- */

struct members {
    unsigned n, keys;
};

static int on_member(void *arg, const struct store_id *id)
{
    struct members *m = arg;
    m->n++;
    m->keys |= 1u << id->key.bytes[0];
    struct store_row r;
    cr_assert_eq(id->owner, ADA);
    return index_row(&x, c.txn, id, &r) == 0 ? change_remove(&c, &r) : WARM_ENOT_FOUND;
}

static int on_failure(void *arg, const struct store_id *id)
{
    (void)id;
    ++*(unsigned *)arg;
    return WARM_EIO;
}

Test(change, a_group_is_of_one_owner_and_may_shrink_while_it_is_walked)
{
    struct members m = {0};
    unsigned n = 0;
    struct store_row r, none = row(ADA, ADA, 9, 10);
    insert(&none);
    for (uint8_t i = 1; i <= 5; i++) {
        r = row(i == 5 ? BOB : ADA, ADA, i, 10);
        r.group = (struct key){{42}};
        insert(&r);
    }
    r.id.owner = ADA;
    cr_expect_eq(change_group(&c, &r, 9, on_failure, &n), WARM_EIO);
    cr_expect_eq(n, 1, "an error ends the walk");
    cr_expect_eq(change_group(&c, &r, 3, on_member, &m), 0);
    cr_expect_eq(m.n, 3, "at most as many");
    cr_expect_eq(change_group(&c, &r, 9, on_member, &m), 0);
    cr_expect_eq(m.n, 4);
    cr_expect_eq(m.keys, 1u << 1 | 1u << 2 | 1u << 3 | 1u << 4);
    cr_expect_eq(change_group(&c, &none, 9, on_failure, &n), 0);
    cr_expect_eq(n, 1, "entries without a group are none");
}

Test(change, only_so_many_departures_are_told)
{
    struct store_id id = {.owner = ADA};
    for (unsigned i = 0; i < CHANGE_LEFT_MAX + 5; i++) {
        id.key.bytes[0] = (uint8_t)i;
        change_tell(&c, &id, STORE_LEFT_EVICTED);
    }
    cr_expect_eq(c.n_left, CHANGE_LEFT_MAX);
    cr_expect_eq(c.left[CHANGE_LEFT_MAX - 1].id.key.bytes[0], CHANGE_LEFT_MAX - 1);
}
