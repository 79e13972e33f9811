/* SPDX-License-Identifier: Apache-2.0 */
/* test_table.c - records of a real LMDB table: keys in the order of owners, numbers with a checksum. */
#include <criterion/criterion.h>
#include <string.h>

#include "store/table.h"
#include "tests/support/support.h"

static char *dir;
static MDB_env *env;
static MDB_txn *txn;
static MDB_dbi dbi;

static void up(void)
{
    dir = memory_dir_new();
    cr_assert_eq(mdb_env_create(&env), 0);
    cr_assert_eq(mdb_env_open(env, dir, MDB_NOSYNC, 0600), 0);
    cr_assert_eq(table_begin(env, 0, &txn), 0);
    cr_assert_eq(mdb_dbi_open(txn, NULL, 0, &dbi), 0);
}

static void down(void)
{
    if (txn)
        mdb_txn_abort(txn);
    mdb_env_close(env);
    temp_dir_free(dir);
}
TestSuite(table, .init = up, .fini = down);

Test(table, a_record_is_there_after_the_commit_and_gone_after_an_abort)
{
    MDB_val got;
    cr_assert_eq(table_put(txn, dbi, name_val("a"), name_val("1"), 0), 0);
    cr_assert_eq(table_commit(txn), 0);
    cr_assert_eq(table_begin(env, 0, &txn), 0);
    cr_assert_eq(table_put(txn, dbi, name_val("b"), name_val("2"), 0), 0);
    mdb_txn_abort(txn);
    cr_assert_eq(table_begin(env, 0, &txn), 0);
    cr_assert_eq(table_get(txn, dbi, name_val("a"), &got), 0);
    cr_expect(got.mv_size == 1 && *(const char *)got.mv_data == '1');
    cr_expect_eq(table_get(txn, dbi, name_val("b"), &got), WARM_ENOT_FOUND);
    cr_expect_eq(table_del(txn, dbi, name_val("a"), NULL), 0);
    cr_expect_eq(table_get(txn, dbi, name_val("a"), &got), WARM_ENOT_FOUND);
}

Test(table, keys_of_owners_are_in_the_order_of_their_numbers)
{
    static const uint32_t owners[] = {0, 1, 255, 256, 1000, 65536, 0x01000000, STORE_MADE_HERE};
    uint8_t before[4], key[4];
    for (size_t i = 0; i < sizeof owners / sizeof *owners; i++) {
        owner_encode(owners[i], key);
        cr_expect_eq(owner_decode(key), owners[i]);
        cr_expect(i == 0 || memcmp(before, key, 4) < 0, "%u", owners[i]);
        memcpy(before, key, 4);
    }
}

Test(table, a_blobs_key_is_its_owner_and_then_its_content)
{
    struct blob_id id = {258, proof_of_bytes("x", 1)};
    uint8_t key[BLOB_KEY];
    blob_key(&id, key);
    cr_expect_eq(owner_decode(key), 258);
    cr_expect_eq(memcmp(key + 4, id.content.bytes, 32), 0);
}

Test(table, numbers_come_back_and_a_damaged_record_is_damage)
{
    uint64_t numbers[3] = {1, UINT64_MAX, 42}, got[3];
    MDB_val raw;
    uint8_t bytes[NUMBERS_SIZE(3)];
    cr_assert_eq(numbers_put(txn, dbi, name_val("n"), numbers, 3), 0);
    cr_assert_eq(numbers_get(txn, dbi, name_val("n"), got, 3), 0);
    cr_expect_eq(memcmp(got, numbers, sizeof numbers), 0);
    cr_expect_eq(numbers_get(txn, dbi, name_val("n"), got, 2), MDB_CORRUPTED, "another count");
    cr_expect_eq(numbers_get(txn, dbi, name_val("m"), got, 3), WARM_ENOT_FOUND);
    cr_assert_eq(table_get(txn, dbi, name_val("n"), &raw), 0);
    cr_assert_eq(raw.mv_size, sizeof bytes);
    memcpy(bytes, raw.mv_data, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] ^= 0x20;
        cr_assert_eq(table_put(txn, dbi, name_val("n"), bytes_val(bytes, sizeof bytes), 0), 0);
        cr_expect_eq(numbers_get(txn, dbi, name_val("n"), got, 3), MDB_CORRUPTED, "byte %zu", i);
        bytes[i] ^= 0x20;
    }
}
