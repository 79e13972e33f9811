/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_store_upgrade.c - an index of format 1 is taken over, whatever fails or dies meanwhile.
 *
 * Format 1 had no table `share`, and the record of a blob was three numbers. `to_format_1` makes such
 * an index of one that this version wrote.
 */
#include <signal.h>
#include <sys/wait.h>

#include "store/fault.h"
#include "store/index.h"
#include "tests/support/page_size.h"
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

static void shorten_blob_records(MDB_txn *txn)
{
    MDB_dbi blob;
    MDB_cursor *cursor;
    MDB_val key, data;
    MDB_cursor_op op = MDB_FIRST;
    uint8_t at[36], bytes[NUMBERS_SIZE(3)];
    cr_assert_eq(mdb_dbi_open(txn, "blob", 0, &blob), 0);
    cr_assert_eq(mdb_cursor_open(txn, blob, &cursor), 0);
    for (; mdb_cursor_get(cursor, &key, &data, op) == 0; op = MDB_NEXT) {
        uint64_t numbers[4];
        cr_assert(numbers_decode(data.mv_data, data.mv_size, numbers, 4));
        numbers_encode(bytes, numbers, 3);
        memcpy(at, key.mv_data, sizeof at);
        key = (MDB_val){sizeof at, at};
        data = (MDB_val){sizeof bytes, bytes};
        cr_assert_eq(mdb_put(txn, blob, &key, &data, 0), 0);
        cr_assert_eq(mdb_cursor_get(cursor, &key, &data, MDB_SET), 0);
    }
    mdb_cursor_close(cursor);
}

static void to_format_1(void)
{
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi share;
    kit_close(&k);
    open_env(&env, &txn);
    cr_assert_eq(mdb_dbi_open(txn, "share", 0, &share), 0);
    cr_assert_eq(mdb_drop(txn, share, 1), 0);
    shorten_blob_records(txn);
    set_format(txn, 1);
    cr_assert_eq(mdb_txn_commit(txn), 0);
    mdb_env_close(env);
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
static const uint32_t users[] = {0, ANN, BOB};

struct shares {
    struct store_share of[3];
};

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

static struct shares shares(void)
{
    struct shares s = {.of = {{0}}};
    for (size_t i = 0; i < 3; i++)
        store_share(k.store, users[i], &s.of[i]);
    store_turn_end(k.store);
    return s;
}

static struct shares fill(void)
{
    for (uint64_t n = 0; n < N_ENTRIES; n++)
        put(n);
    struct shares s = shares();
    cr_assert_eq(s.of[0].n_entries, 1);
    cr_assert_eq(s.of[1].n_entries, 4);
    cr_assert_eq(s.of[2].n_entries, 4);
    return s;
}

static void check(const struct shares *want)
{
    for (uint64_t n = 0; n < N_ENTRIES; n++)
        cr_assert_eq(kit_get(&k, entries[n].owner, n), 0, "entry %d", (int)n);
    struct shares have = shares();
    cr_assert_arr_eq(&have, want, sizeof have);
    cr_assert(!kit_stats(&k).rebuilt);
    cr_assert_eq(kit_stats(&k).n_corrupt, 0);
}

/* ---- */

Test(store_upgrade, index_of_format_1_is_taken_over_once)
{
    struct shares want = fill();
    to_format_1();
    k.n_events = 0;
    kit_open(&k);
    cr_assert_eq(k.n_events, 1);
    cr_assert_not_null(strstr(k.last_event, "format 1: counted the shares of 9 entries"), "%s",
                       k.last_event);
    check(&want);
    kit_reopen(&k);
    cr_assert_eq(k.n_events, 1, "once: %s", k.last_event);
    check(&want);
    kit_close(&k);
    cr_assert_eq(read_format(), INDEX_FORMAT);
}

Test(store_upgrade, shares_that_were_taken_over_go_with_their_entries)
{
    struct store_share share;
    fill();
    to_format_1();
    kit_open(&k);
    for (uint64_t n = 0; n < N_ENTRIES; n++)
        cr_assert_eq(kit_remove(&k, entries[n].owner, n), 0);
    for (size_t i = 0; i < 3; i++)
        cr_assert(!store_share(k.store, users[i], &share));
    store_turn_end(k.store);
}

Test(store_upgrade, blob_of_several_makers_is_in_one_share)
{
    uint8_t *value = kit_value(1, 0, LARGE);
    for (uint64_t n = 1; n <= 2; n++) {
        struct store_put p = kit_put_of(&k, HERE, n, LARGE);
        p.row.maker = n == 1 ? ANN : BOB;
        p.data = value;
        cr_assert_eq(kit_put_with(&k, &p), 0);
    }
    free(value);
    struct shares was = shares();
    to_format_1();
    kit_open(&k);
    struct shares is = shares();
    cr_assert_eq(is.of[1].n_entries, 1);
    cr_assert_eq(is.of[2].n_entries, 1);
    cr_assert_eq(is.of[1].disk_bytes + is.of[2].disk_bytes,
                 was.of[1].disk_bytes + was.of[2].disk_bytes);
    for (uint64_t n = 1; n <= 2; n++)
        cr_assert_eq(kit_remove(&k, HERE, n), 0);
    cr_assert_eq(shares().of[1].disk_bytes + shares().of[2].disk_bytes, 0);
}

Test(store_upgrade, quota_holds_after_the_upgrade)
{
    k.config.quota_bytes = 4 * KIT_MIB;
    kit_reopen(&k);
    for (uint64_t n = 0; n < 40; n++)
        cr_assert_eq(kit_put(&k, ANN, n, LARGE), 0);
    cr_assert_eq(kit_put(&k, BOB, 100, SMALL), 0);
    to_format_1();
    kit_open(&k);
    for (uint64_t n = 200; n < 240; n++)
        cr_assert_eq(kit_put(&k, ANN, n, LARGE), 0);
    cr_assert_leq(shares().of[1].disk_bytes, 4 * KIT_MIB);
    cr_assert_gt(kit_stats(&k).n_evictions, 0);
    cr_assert_eq(kit_get(&k, BOB, 100), 0);
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
    cr_expect(found.is_known && found.is_current && *found.fault == '\0');
    cr_expect_eq(found.n_entries, N_ENTRIES);
    cr_expect_eq(found.n_unreadable, 0);
    to_format_1();
    found = look();
    cr_expect(found.is_known && !found.is_current && found.format == 1);
    cr_expect_eq(found.n_entries, N_ENTRIES);
    cr_expect_eq(read_format(), 1, "not taken over");
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
    static const uint64_t unknown[] = {0, INDEX_FORMAT + 1};
    MDB_env *env;
    MDB_txn *txn;
    for (size_t i = 0; i < 2; i++) {
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

/* Flips a bit in the row of an entry. */
static void damage_row(uint32_t owner, uint64_t n)
{
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi row;
    uint8_t key[INDEX_KEY], bytes[ROW_MAX];
    struct store_id id = kit_id(owner, n);
    MDB_val at = {sizeof key, key}, data;
    index_key(&id, key);
    open_env(&env, &txn);
    cr_assert_eq(mdb_dbi_open(txn, "row", 0, &row), 0);
    cr_assert_eq(mdb_get(txn, row, &at, &data), 0);
    memcpy(bytes, data.mv_data, data.mv_size);
    bytes[60] ^= 1;
    data.mv_data = bytes;
    cr_assert_eq(mdb_put(txn, row, &at, &data, 0), 0);
    cr_assert_eq(mdb_txn_commit(txn), 0);
    mdb_env_close(env);
}

Test(store_upgrade, damaged_rows_cost_themselves_alone)
{
    fill();
    to_format_1();
    damage_row(HERE, 5);
    damage_row(HERE, 7); /* a blob's */
    kit_open(&k);
    for (uint64_t n = 0; n < N_ENTRIES; n++)
        cr_assert_eq(kit_get(&k, entries[n].owner, n), n == 5 || n == 7 ? WARM_ECORRUPT : 0);
    cr_assert_eq(kit_put(&k, ANN, 100, SMALL), 0);
    cr_assert_eq(kit_get(&k, HERE, 7), WARM_ENOT_FOUND);
    cr_assert_eq(kit_put(&k, HERE, 7, LARGE), 0);
    cr_assert_eq(kit_get(&k, HERE, 7), 0);
    cr_assert(!kit_stats(&k).rebuilt);
}

Test(store_upgrade, full_check_knows_format_1)
{
    struct shares want = fill();
    store_mark_suspect();
    to_format_1();
    kit_open(&k);
    check(&want);
}

static void on_crash(int sig)
{
    (void)sig;
    store_mark_suspect();
    _exit(1);
}

/* As the daemon does at its start. False if it crashed. */
static bool opens_in_a_child(void)
{
    static const int fatal[] = {SIGSEGV, SIGBUS, SIGABRT};
    int status;
    pid_t pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0) {
        for (size_t i = 0; i < 3; i++)
            signal(fatal[i], on_crash);
        _exit(kit_try_open(&k) != 0);
    }
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* The 16 bytes at the begin of a page say what it is; those after them say where its entries are. */
static void write_damaged(const char *data, const uint8_t *sound, size_t size, size_t page)
{
    uint8_t noise[200];
    memset(noise, 0xee, sizeof noise);
    int fd = open(data, O_WRONLY | O_TRUNC | O_CLOEXEC);
    cr_assert_geq(fd, 0);
    cr_assert_eq(pwrite(fd, sound, size, 0), (ssize_t)size);
    cr_assert_eq(pwrite(fd, noise, sizeof noise, (off_t)(page * page_bytes() + 16)), sizeof noise);
    close(fd);
}

/* Each start looks at a few pages, the upgrade reads all: what crashes it must not do so forever. */
Test(store_upgrade, crash_over_a_damaged_page_is_not_met_again)
{
    const uint64_t n_entries = 300 * page_bytes() / 4096;
    unsigned n_crashed = 0;
    struct stat st;
    for (uint64_t n = 0; n < n_entries; n++)
        cr_assert_eq(kit_put(&k, HERE, n, 100), 0);
    char *data = path_join(k.dir, "index/data.mdb");
    to_format_1();
    cr_assert_eq(stat(data, &st), 0);
    size_t size = (size_t)st.st_size;
    uint8_t *sound = malloc(size);
    int fd = open(data, O_RDONLY | O_CLOEXEC);
    cr_assert_eq(pread(fd, sound, size, 0), (ssize_t)size);
    close(fd);
    for (size_t page = 2; page < size / page_bytes(); page++) {
        write_damaged(data, sound, size, page);
        if (!opens_in_a_child()) {
            n_crashed++;
            cr_assert(opens_in_a_child(), "page %zu: it crashes again", page);
        }
    }
    cr_log_info("%u pages crash the upgrade", n_crashed);
    cr_assert_gt(n_crashed, 0);
    free(sound);
    free(data);
    kit_open(&k);
}

/* ---- faults and crashes in the midst ---- */

static void fail_at_each_call(int errnum, bool lasting)
{
    struct shares want = fill();
    long n_failed = 0;
    for (long nth = 1;; nth++) {
        to_format_1();
        fault_arm(nth, errnum, lasting);
        int rc = kit_try_open(&k);
        bool reached = fault_disarm();
        if (rc != 0) {
            cr_assert(reached, "cannot open: %s", k.last_event);
            n_failed++;
            uint64_t format = read_format();
            cr_assert(format == 1, "call %ld: all or nothing, not %d", nth, (int)format);
            kit_open(&k);
        }
        check(&want);
        if (!reached)
            break;
        cr_assert_lt(nth, 2000);
    }
    cr_assert_gt(n_failed, 30, "each write of the upgrade may fail");
}

Test(store_upgrade, passing_io_error_at_each_call) { fail_at_each_call(EIO, false); }
Test(store_upgrade, full_disk_from_each_call_on) { fail_at_each_call(ENOSPC, true); }
Test(store_upgrade, no_memory_at_each_call) { fail_at_each_call(ENOMEM, false); }

Test(store_upgrade, killed_at_any_moment)
{
    enum { N = 500, KILLS = 40 };
    struct shares want = fill();
    for (uint64_t n = 0; n < N; n++)
        cr_assert_eq(kit_put(&k, 2000, 1000 + n, 100), 0);
    unsigned n_before = 0;
    for (unsigned i = 0; i < KILLS; i++) {
        to_format_1();
        pid_t pid = fork();
        cr_assert_geq(pid, 0);
        if (pid == 0) {
            kit_try_open(&k);
            pause();
        }
        usleep(i * 250);
        cr_assert_eq(kill(pid, SIGKILL), 0);
        cr_assert_eq(waitpid(pid, NULL, 0), pid);
        n_before += read_format() == 1;
        kit_open(&k);
        check(&want);
        for (uint64_t n = 0; n < N; n++)
            cr_assert_eq(kit_get(&k, 2000, 1000 + n), 0);
    }
    cr_assert_gt(n_before, 0, "some die before the end");
}
