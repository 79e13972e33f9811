/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_store_upgrade.c - an index of another format is set aside, and the check tells before.
 */
#include "store/index.h"
#include "tests/support/store_kit.h"

#define HERE STORE_MADE_HERE
#define SMALL 3000
#define LARGE 70000
#define ANN 1000u
#define BOB 1001u

static struct store_kit k;

static void begin(void) { kit_begin(&k, 64 * KIT_MIB); }
static void end(void) { kit_end(&k); }

TestSuite(store_upgrade, .init = begin, .fini = end, .timeout = 300);

/* ---- an index of another format ---- */

static MDB_val text(char *name) { return (MDB_val){strlen(name), name}; }

static void open_env(MDB_env **env, MDB_txn **txn)
{
    char *path = path_join(k.dir, "index");
    cr_assert_eq(mdb_env_create(env), 0);
    cr_assert_eq(mdb_env_set_maxdbs(*env, 8), 0);
    cr_assert_eq(mdb_env_set_mapsize(*env, 256 * KIT_MIB), 0);
    cr_assert_eq(mdb_env_open(*env, path, 0, 0600), 0);
    cr_assert_eq(mdb_txn_begin(*env, NULL, 0, txn), 0);
    free(path);
}

static void set_format(MDB_txn *txn, uint64_t format)
{
    uint8_t bytes[NUMBERS_SIZE(1)];
    MDB_dbi meta;
    MDB_val name = text("format"), data = {sizeof bytes, bytes};
    numbers_encode(bytes, &format, 1);
    cr_assert_eq(mdb_dbi_open(txn, "meta", 0, &meta), 0);
    cr_assert_eq(mdb_put(txn, meta, &name, &data, 0), 0);
}

static uint64_t read_format(void)
{
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi meta;
    MDB_val name = text("format"), data;
    uint64_t format = 0;
    open_env(&env, &txn);
    cr_assert_eq(mdb_dbi_open(txn, "meta", 0, &meta), 0);
    cr_assert_eq(mdb_get(txn, meta, &name, &data), 0);
    cr_assert(numbers_decode(data.mv_data, data.mv_size, &format, 1));
    mdb_txn_abort(txn);
    mdb_env_close(env);
    return format;
}

/* ---- the entries of the store ---- */

/* Entries of two users: put by them, and made here for them; small and large, some pinned. */
static const struct {
    uint32_t owner, maker;
    size_t len;
    bool pinned;
} entries[] = {
    {ANN, ANN, SMALL, false},     {ANN, ANN, LARGE, true},      {BOB, BOB, 0, false},
    {BOB, BOB, LARGE + 1, false}, {HERE, ANN, SMALL, true},     {HERE, BOB, 100, false},
    {HERE, ANN, LARGE, false},    {HERE, BOB, 3 * LARGE, true}, {HERE, 0, SMALL, false},
};
#define N_ENTRIES (sizeof entries / sizeof *entries)
static void put(uint64_t n)
{
    struct store_put p = kit_put_of(&k, entries[n].owner, n, entries[n].len);
    uint8_t *value = kit_value(n, 0, entries[n].len);
    p.row.maker = entries[n].maker;
    p.data = value;
    cr_assert_eq(kit_put_with(&k, &p), 0);
    free(value);
    if (entries[n].pinned)
        cr_assert_eq(kit_pin(&k, entries[n].owner, n, true), 0);
}

static void fill(void)
{
    for (uint64_t n = 0; n < N_ENTRIES; n++)
        put(n);
}

/* ---- the check without a store ---- */

static struct store_findings look(void)
{
    struct store_findings found;
    struct err e = {0};
    cr_assert_eq(store_check(k.dir, &found, &e), 0, "%s", e.text);
    return found;
}

Test(store_upgrade, check_tells_format_and_entries_and_changes_nothing)
{
    fill();
    kit_close(&k);
    struct store_findings found = look();
    cr_expect(found.is_known && *found.fault == '\0');
    cr_expect_eq(found.n_entries, N_ENTRIES);
    cr_expect_eq(found.n_unreadable, 0);
}

Test(store_upgrade, check_names_what_the_daemon_would_set_aside)
{
    MDB_env *env;
    MDB_txn *txn;
    fill();
    kit_close(&k);
    open_env(&env, &txn);
    set_format(txn, 77);
    cr_assert_eq(mdb_txn_commit(txn), 0);
    mdb_env_close(env);
    struct store_findings found = look();
    cr_expect(!found.is_known && found.format == 77);
    cr_expect_eq(read_format(), 77);
}

Test(store_upgrade, check_counts_values_that_cannot_be_read)
{
    char *out;
    fill();
    kit_close(&k);
    cr_assert_eq(run_command(&out,
                             "f=$(find %s/blobs -type f | head -n 1) && chmod 600 $f && "
                             "printf x | dd of=$f bs=1 seek=5 conv=notrunc 2>&1",
                             k.dir),
                 0);
    free(out);
    struct store_findings found = look();
    cr_expect_geq(found.n_unreadable, 1);
    cr_expect_lt(found.n_unreadable, N_ENTRIES);
}

Test(store_upgrade, check_leaves_a_store_in_use_alone)
{
    struct store_findings found;
    struct err e = {0};
    cr_expect_eq(store_check(k.dir, &found, &e), WARM_EBUSY);
    cr_expect_not_null(strstr(e.text, "is in use by process"), "%s", e.text);
    cr_expect_eq(store_check("/nonexistent", &found, &e), WARM_EIO);
}

Test(store_upgrade, index_of_an_unknown_format_is_set_aside)
{
    static const uint64_t unknown[] = {0, 1, INDEX_FORMAT + 1};
    MDB_env *env;
    MDB_txn *txn;
    for (size_t i = 0; i < 3; i++) {
        cr_assert_eq(kit_put(&k, ANN, 1, SMALL), 0);
        cr_assert_eq(kit_put(&k, ANN, 2, LARGE), 0);
        kit_close(&k);
        open_env(&env, &txn);
        set_format(txn, unknown[i]);
        cr_assert_eq(mdb_txn_commit(txn), 0);
        mdb_env_close(env);
        kit_open(&k);
        cr_assert(kit_stats(&k).rebuilt);
        cr_assert_eq(kit_get(&k, ANN, 1), WARM_ENOT_FOUND);
        for (unsigned ms = 0; kit_get(&k, ANN, 2) != 0; ms++) {
            cr_assert_lt(ms, KIT_WAIT_S * 1000u, "the blob comes back");
            usleep(1000);
        }
    }
}
