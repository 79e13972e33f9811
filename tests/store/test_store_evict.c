/* SPDX-License-Identifier: Apache-2.0 */
/* test_store_evict.c - which entries go if there is no room for all, and which must stay. */
#include "tests/support/page_size.h"
#include "tests/support/store_kit.h"

#define HERE STORE_MADE_HERE

static struct store_kit k;

static void end(void) { kit_end(&k); }

TestSuite(store_evict, .fini = end, .timeout = 300);

static int put_worth(uint32_t owner, uint64_t n, size_t len, uint32_t cost_ms)
{
    uint8_t *value = kit_value(n, 0, len);
    struct store_put put = kit_put_of(&k, owner, n, len);
    put.data = value;
    put.row.cost_ms = cost_ms;
    int rc = kit_put_with(&k, &put);
    free(value);
    return rc;
}

/* Puts an entry that the daemon made for a user. */
static int put_made(uint32_t maker, uint64_t n, size_t len)
{
    uint8_t *value = kit_value(n, 0, len);
    struct store_put put = kit_put_of(&k, HERE, n, len);
    put.data = value;
    put.row.maker = maker;
    int rc = kit_put_with(&k, &put);
    free(value);
    return rc;
}

static bool there(uint32_t owner, uint64_t n)
{
    struct store_row row;
    struct store_id id = kit_id(owner, n);
    int rc = store_peek(k.store, &id, &row, NULL);
    store_turn_end(k.store);
    return rc == 0;
}

static size_t count_there(uint32_t owner, uint64_t from, uint64_t to)
{
    size_t n = 0;
    for (uint64_t i = from; i < to; i++)
        n += there(owner, i);
    return n;
}

static uint64_t disk_bytes(void)
{
    uint64_t bytes = 0;
    kit_count_files(k.dir, &bytes);
    return bytes;
}

/* Sizes from 100 bytes to 4 MiB, most of them small: the shape of compiled kernels. */
static size_t size_of(uint64_t n)
{
    uint64_t x = n * 0x9e3779b97f4a7c15u;
    unsigned shift = (unsigned)(x >> 60);
    return 100 + (size_t)((x >> 20) % ((size_t)256 << shift)) / 2;
}

Test(store_evict, cap_is_honoured_with_values_of_all_sizes)
{
    const uint64_t cap = 48 * KIT_MIB;
    uint64_t written = 0;
    kit_begin(&k, cap);
    for (uint64_t n = 0; written < 6 * cap; n++) {
        size_t len = size_of(n);
        cr_assert_eq(kit_put(&k, HERE, n, len), 0, "%s", k.last_event);
        cr_assert_eq(kit_get(&k, HERE, n), 0, "what was just put is there");
        written += len;
        cr_assert_leq(kit_stats(&k).n_bytes, cap);
    }
    struct store_stats st = kit_stats(&k);
    cr_assert_geq(st.n_bytes, cap / 100 * 85, "%" PRIu64, st.n_bytes);
    cr_assert_gt(st.n_evictions, 0);
    kit_reopen(&k); /* the files of what was evicted last are gone by now */
    st = kit_stats(&k);
    cr_assert_leq(disk_bytes(), cap + cap / 10, "%" PRIu64 " for %" PRIu64, disk_bytes(), cap);
    cr_assert_leq(st.n_bytes, cap);
}

Test(store_evict, what_took_long_to_make_stays)
{
    kit_begin(&k, 16 * KIT_MIB);
    for (uint64_t n = 0; n < 2000; n++)
        cr_assert_eq(put_worth(HERE, n, 20000, n % 2 ? 10000 : 10), 0);
    size_t dear = 0, cheap = 0;
    for (uint64_t n = 0; n < 1800; n++) /* the last ones are young */
        *(n % 2 ? &dear : &cheap) += there(HERE, n);
    cr_assert_gt(dear, 300, "%zu dear, %zu cheap", dear, cheap);
    cr_assert_lt(cheap, dear / 10, "%zu dear, %zu cheap", dear, cheap);
}

Test(store_evict, what_is_hit_often_stays)
{
    kit_begin(&k, 16 * KIT_MIB);
    for (uint64_t n = 0; n < 100; n++)
        cr_assert_eq(kit_put(&k, HERE, n, 20000), 0);
    for (int hits = 0; hits < 20; hits++)
        for (uint64_t n = 0; n < 100; n++)
            cr_assert_eq(kit_get(&k, HERE, n), 0);
    kit_reopen(&k); /* writes the hits */
    for (uint64_t n = 100; n < 3000; n++)
        cr_assert_eq(kit_put(&k, HERE, n, 20000), 0);
    cr_assert_gt(count_there(HERE, 0, 100), 95);
}

Test(store_evict, small_ones_outlive_large_ones_of_equal_use)
{
    kit_begin(&k, 32 * KIT_MIB);
    for (uint64_t n = 0; n < 400; n++)
        cr_assert_eq(kit_put(&k, HERE, n, n % 2 ? 1000 : 300000), 0);
    size_t small = 0, large = 0;
    for (uint64_t n = 0; n < 300; n++)
        *(n % 2 ? &small : &large) += there(HERE, n);
    cr_assert_gt(small, 145, "%zu small, %zu large", small, large);
    cr_assert_lt(large, 60, "%zu small, %zu large", small, large);
}

Test(store_evict, new_entry_of_little_worth_gets_its_chance)
{
    kit_begin(&k, 16 * KIT_MIB);
    for (uint64_t n = 0; n < 1200; n++)
        cr_assert_eq(put_worth(HERE, n, 20000, 60000), 0);
    for (uint64_t n = 5000; n < 5020; n++) { /* cheap newcomers, far less than the young share */
        cr_assert_eq(put_worth(HERE, n, 20000, 1), 0);
        cr_assert(there(HERE, n));
    }
    cr_assert_geq(count_there(HERE, 5000, 5020), 18);
}

/* All entries are younger than a minute, but only the newcomer was put since the store was opened. */
Test(store_evict, new_entry_of_little_worth_gets_its_chance_after_a_restart)
{
    kit_begin(&k, 16 * KIT_MIB);
    for (unsigned round = 0; round < 20; round++) {
        k.config.max_bytes = 16 * KIT_MIB;
        kit_reopen(&k);
        for (uint64_t n = 0; n < 60; n++)
            cr_assert_eq(put_worth(HERE, n, 20000, 60000), 0);
        k.config.max_bytes = KIT_MIB;
        kit_reopen(&k);
        cr_assert_eq(put_worth(HERE, 5000, 70000, 1), 0);
        cr_assert(there(HERE, 5000), "round %u", round);
    }
}

Test(store_evict, pinned_entry_stays_and_a_store_full_of_them_says_so)
{
    kit_begin(&k, 8 * KIT_MIB);
    int rc = 0;
    uint64_t n = 0;
    for (; rc == 0 && n < 1000; n++) {
        uint8_t *value = kit_value(n, 0, 60000);
        struct store_put put = kit_put_of(&k, HERE, n, 60000);
        put.data = value;
        put.row.pinned = true;
        rc = kit_put_with(&k, &put);
        free(value);
    }
    cr_assert_eq(rc, WARM_EFULL);
    cr_assert_gt(n, 100);
    cr_assert_eq(count_there(HERE, 0, n - 1), n - 1, "none of the pinned ones went");
    cr_assert(kit_stats(&k).read_only);
    cr_assert_eq(kit_pin(&k, HERE, 0, false), 0);
    cr_assert_eq(kit_put(&k, HERE, 5000, 50000), 0, "one may go now");
    for (int i = 0; i < 10000 && there(HERE, 0); i++) /* with that put, or soon after it */
        usleep(1000);
    cr_assert(!there(HERE, 0));
    cr_assert(!kit_stats(&k).read_only);
}

static int put_in_group(uint64_t n, const char *group, size_t len)
{
    uint8_t *value = kit_value(n, 0, len);
    struct store_put put = kit_put_of(&k, HERE, n, len);
    put.data = value;
    put.row.group = key_of_bytes(group, strlen(group));
    int rc = kit_put_with(&k, &put);
    free(value);
    return rc;
}

Test(store_evict, entries_of_a_group_leave_together)
{
    kit_begin(&k, 8 * KIT_MIB);
    char name[16];
    for (uint64_t n = 0; n < 200; n++) {
        snprintf(name, sizeof name, "group %" PRIu64, n / 5);
        cr_assert_eq(put_in_group(n, name, 10000), 0);
    }
    for (uint64_t n = 1000; n < 1500; n++)
        cr_assert_eq(kit_put(&k, HERE, n, 10000), 0);
    size_t whole = 0, gone = 0;
    for (uint64_t g = 0; g < 40; g++) {
        size_t left = count_there(HERE, 5 * g, 5 * g + 5);
        cr_assert(left == 0 || left == 5, "group %" PRIu64 " has %zu of 5", g, left);
        whole += left == 5;
        gone += left == 0;
    }
    cr_assert_gt(gone, 0);
    cr_assert_eq(whole + gone, 40);
}

Test(store_evict, pinned_member_keeps_its_group)
{
    kit_begin(&k, 8 * KIT_MIB);
    for (uint64_t n = 0; n < 5; n++)
        cr_assert_eq(put_in_group(n, "kept", 10000), 0);
    cr_assert_eq(kit_pin(&k, HERE, 3, true), 0);
    for (uint64_t n = 1000; n < 2500; n++)
        cr_assert_eq(kit_put(&k, HERE, n, 10000), 0);
    cr_assert_eq(count_there(HERE, 0, 5), 5);
}

Test(store_evict, quota_takes_from_its_owner_alone)
{
    kit_begin(&k, 64 * KIT_MIB);
    kit_close(&k);
    k.config.quota_bytes = 4 * KIT_MIB;
    kit_open(&k);
    for (uint64_t n = 0; n < 100; n++) {
        cr_assert_eq(put_made(1002, n, 20000), 0);
        cr_assert_eq(kit_put(&k, 1001, n, 20000), 0);
    }
    for (uint64_t n = 0; n < 1000; n++)
        cr_assert_eq(kit_put(&k, 1000, n, 20000), 0);
    size_t left = count_there(1000, 0, 1000);
    cr_assert(left > 120 && left * 20000 <= 4 * KIT_MIB, "%zu are left", left);
    cr_assert_eq(count_there(HERE, 0, 100), 100);
    cr_assert_eq(count_there(1001, 0, 100), 100);
    for (uint64_t n = 100; n < 1000; n++)
        cr_assert_eq(put_made(1003, n, 20000), 0);
    left = count_there(HERE, 100, 1000);
    cr_assert(left > 120 && left * 20000 <= 4 * KIT_MIB, "made here for one user: %zu", left);
    cr_assert_eq(count_there(HERE, 0, 100), 100, "and for another one");
    cr_assert_eq(count_there(1001, 0, 100), 100);
    cr_assert_eq(kit_put(&k, 1000, 5000, 5u << 20), WARM_ETOO_BIG, "more than the quota");
    cr_assert(!kit_stats(&k).read_only, "what is too large for one says nothing about the disk");
}

/* Whatever one user puts, and says that it cost, another's few entries stay. */
Test(store_evict, the_largest_user_goes_first)
{
    kit_begin(&k, 16 * KIT_MIB);
    for (uint64_t n = 0; n < 20; n++) {
        cr_assert_eq(put_worth(1000, n, 30000, 1), 0);
        cr_assert_eq(put_made(1000, n, 30000), 0);
    }
    for (uint64_t n = 0; n < 1500; n++)
        cr_assert_eq(n % 2 ? put_worth(1001, n, 40000, UINT32_MAX)
                           : put_worth(1001, n, 90000, UINT32_MAX),
                     0);
    cr_assert_eq(count_there(1000, 0, 20), 20);
    cr_assert_eq(count_there(HERE, 0, 20), 20);
}

/* The value of a blob that two users' entries share is in the share of the first, until it goes. */
Test(store_evict, shares_add_up_whoever_brings_and_takes)
{
    struct store_share a, b;
    kit_begin(&k, 64 * KIT_MIB);
    for (uint64_t n = 0; n < 3; n++) {
        uint8_t *value = kit_value(7, 0, 100000);
        struct store_put put = kit_put_of(&k, HERE, n, 100000);
        put.data = value;
        put.row.maker = n ? 1001 : 1000;
        cr_assert_eq(kit_put_with(&k, &put), 0);
        free(value);
    }
    cr_assert(store_share(k.store, 1000, &a) && store_share(k.store, 1001, &b));
    store_turn_end(k.store);
    cr_assert(a.n_entries == 1 && a.disk_bytes > 100000);
    cr_assert(b.n_entries == 2 && b.disk_bytes < 10000 && b.disk_bytes > 0);
    for (uint64_t n = 0; n < 3; n++)
        cr_assert_eq(kit_remove(&k, HERE, n), 0);
    cr_assert_not(store_share(k.store, 1000, &a));
    cr_assert_not(store_share(k.store, 1001, &b));
}

Test(store_evict, pins_are_at_most_half_of_a_share)
{
    struct store_share share;
    kit_begin(&k, 16 * KIT_MIB);
    kit_close(&k);
    k.config.quota_bytes = 8 * KIT_MIB;
    kit_open(&k);
    size_t pinned = 0;
    for (uint64_t n = 0; n < 70; n++) {
        cr_assert_eq(kit_put(&k, 1000, n, 100000), 0);
        pinned += kit_pin(&k, 1000, n, true) == 0;
    }
    cr_assert(pinned > 30 && pinned * 100000 <= 4 * KIT_MIB, "%zu are pinned", pinned);
    cr_assert_eq(kit_pin(&k, 1000, 0, false), 0);
    cr_assert_eq(kit_pin(&k, 1000, 0, true), 0, "an unpinned one makes room");
    /* A pinned entry that is replaced by a larger one keeps its pin as far as there is room. */
    cr_assert_eq(kit_put_version(&k, 1000, 1, 1, 3u << 20), 0);
    cr_assert(store_share(k.store, 1000, &share));
    store_turn_end(k.store);
    cr_assert_leq(share.pinned_bytes, 4 * KIT_MIB);
    for (uint64_t n = 100; n < 300; n++)
        cr_assert_eq(kit_put(&k, 1001, n, 100000), 0, "another user puts what it likes");
}

Test(store_evict, value_larger_than_the_store_is_refused)
{
    kit_begin(&k, 4 * KIT_MIB);
    cr_assert_eq(kit_put(&k, HERE, 1, 1000), 0);
    cr_assert_eq(kit_put(&k, HERE, 2, 5u << 20), WARM_ETOO_BIG);
    cr_assert(!kit_stats(&k).read_only);
    cr_assert_eq(kit_get(&k, HERE, 1), 0, "and takes nothing with it");
    kit_until_files(&k, "tmp", 0);
    cr_assert_eq(kit_files(&k, "blobs"), 0);
}

/* ---- store_evict ---- */

static void fill_mixed(void)
{
    kit_begin(&k, 64 * KIT_MIB);
    for (uint64_t n = 0; n < 300; n++)
        cr_assert_eq(put_worth(n % 3 ? HERE : 1000, n, n % 10 ? 1000 : 100000, (uint32_t)n + 1), 0);
    cr_assert_eq(kit_pin(&k, HERE, 1, true), 0);
}

Test(store_evict, filter_takes_what_matches_and_nothing_else)
{
    fill_mixed();
    struct store_filter f = store_filter_all();
    f.owner = 1000;
    f.min_bytes = 50000;
    cr_assert_eq(kit_evict(&k, &f, 0, true), 0);
    struct store_report dry = k.report;
    cr_assert_eq(dry.n_entries, 10);
    cr_assert_eq(dry.n_bytes, 10 * 100000);
    cr_assert_eq(kit_stats(&k).n_entries, 300, "a dry run takes nothing");
    cr_assert_eq(kit_evict(&k, &f, 0, false), 0);
    cr_assert_eq(k.report.n_entries, dry.n_entries);
    cr_assert_eq(k.report.n_bytes, dry.n_bytes);
    for (uint64_t n = 0; n < 300; n++)
        cr_assert_eq(there(n % 3 ? HERE : 1000, n), n % 30 != 0);
    cr_assert_eq(kit_files(&k, "blobs"), 20);
}

/* Puts an entry whose value, of 100 KB, `same` has, too. */
static int put_same(uint64_t n, uint64_t same)
{
    uint8_t *value = kit_value(same, 0, 100000);
    struct store_put put = kit_put_of(&k, 1000, n, 100000);
    put.data = value;
    int rc = kit_put_with(&k, &put);
    free(value);
    return rc;
}

static void expect_evicts(const struct store_filter *f, uint64_t to, uint64_t n, uint64_t bytes)
{
    uint64_t before = kit_stats(&k).n_bytes;
    for (int dry = 1; dry >= 0; dry--) {
        cr_assert_eq(kit_evict(&k, f, to, dry), 0);
        cr_expect_eq(k.report.n_entries, n, "dry %d: %" PRIu64, dry, k.report.n_entries);
        cr_expect_eq(k.report.n_bytes, bytes, "dry %d: %" PRIu64, dry, k.report.n_bytes);
    }
    cr_expect_eq(kit_stats(&k).n_bytes, before - bytes);
}

Test(store_evict, a_dry_run_counts_the_entries_that_go_and_the_bytes_that_are_freed)
{
    kit_begin(&k, 64 * KIT_MIB);
    struct store_filter f = store_filter_all();
    for (uint64_t n = 0; n < 10; n++) /* one file */
        cr_assert_eq(put_same(n, 0), 0);
    for (uint64_t n = 10; n < 20; n++)
        cr_assert_eq(put_same(n, n), 0);
    cr_assert_eq(kit_put(&k, HERE, 30, 0), 0); /* an empty value */
    f.owner = 1000;
    expect_evicts(&f, 0, 20, 11 * 100000);
    f = store_filter_all();
    expect_evicts(&f, 0, 1, 0);
    for (uint64_t n = 0; n < 10; n++) /* two files: the six entries that go free one of them */
        cr_assert_eq(put_same(n, n < 5 ? 0 : 1), 0);
    cr_assert_eq(kit_evict(&k, &f, 150000, true), 0);
    struct store_report dry = k.report;
    cr_assert_eq(kit_evict(&k, &f, 150000, false), 0);
    cr_expect_eq(k.report.n_entries, dry.n_entries);
    cr_expect_eq(k.report.n_bytes, 100000);
    cr_expect_eq(dry.n_bytes, 100000);
}

/* Puts a result, or what leads to it. */
static int put_part(uint64_t n, enum store_kind kind, bool pinned)
{
    struct store_put put = kit_put_of(&k, HERE, n, 1000);
    uint8_t *value = kit_value(n, 0, 1000);
    put.data = value;
    put.row.kind = kind;
    put.row.group = key_of_bytes("command", 7);
    int rc = kit_put_with(&k, &put);
    free(value);
    return rc ? rc : pinned ? kit_pin(&k, HERE, n, true) : 0;
}

Test(store_evict, what_only_led_to_an_evicted_result_goes_with_the_last_one)
{
    kit_begin(&k, 64 * KIT_MIB);
    struct store_filter f = store_filter_all();
    f.kind = STORE_OBJECT;
    cr_assert_eq(put_part(1, STORE_OBJECT, false), 0);
    cr_assert_eq(put_part(2, STORE_OBJECT, true), 0);
    cr_assert_eq(put_part(3, STORE_MANIFEST, false), 0);
    cr_assert_eq(put_part(4, STORE_MANIFEST, false), 0);
    expect_evicts(&f, 0, 1, 1000); /* the second needs them */
    cr_assert_eq(kit_pin(&k, HERE, 2, false), 0);
    expect_evicts(&f, 0, 3, 3000);
    cr_assert_eq(kit_stats(&k).n_entries, 0);
}

Test(store_evict, everything_goes_but_what_is_pinned)
{
    fill_mixed();
    struct store_filter f = store_filter_all();
    cr_assert_eq(kit_evict(&k, &f, 0, false), 0);
    cr_assert_eq(k.report.n_entries, 299);
    cr_assert_eq(kit_stats(&k).n_entries, 1);
    cr_assert(there(HERE, 1));
}

Test(store_evict, least_valuable_go_first_until_the_size_is_reached)
{
    kit_begin(&k, 64 * KIT_MIB);
    for (uint64_t n = 0; n < 200; n++)
        cr_assert_eq(put_worth(HERE, n, 1000, (uint32_t)(n + 1) * 10), 0);
    struct store_filter f = store_filter_all();
    cr_assert_eq(kit_evict(&k, &f, 150000, true), 0);
    cr_assert_eq(k.report.n_entries, 50);
    cr_assert_eq(kit_evict(&k, &f, 150000, false), 0);
    cr_assert_eq(k.report.n_entries, 50);
    cr_assert_eq(kit_stats(&k).n_bytes, 150000);
    cr_assert_eq(count_there(HERE, 0, 50), 0);
    cr_assert_eq(count_there(HERE, 50, 200), 150);
}

Test(store_evict, more_than_one_step_scans_or_removes_go_in_order)
{
    enum { N = 6000, LEFT = 1000 };
    kit_begin(&k, 256 * KIT_MIB);
    for (uint64_t n = 0; n < N; n++) {
        struct store_put put = kit_put_of(&k, HERE, n, 10);
        put.data = "ten bytes.";
        put.row.cost_ms = (uint32_t)n + 1;
        put.on_done = n == N - 1 ? kit_on_done : NULL;
        k.done = false;
        cr_assert_eq(store_put(k.store, &put, NULL), 0);
    }
    kit_wait(&k, &k.done);
    struct store_filter f = store_filter_all();
    cr_assert_eq(kit_evict(&k, &f, LEFT * 10, false), 0);
    cr_assert_eq(k.report.n_entries, N - LEFT);
    cr_assert_eq(count_there(HERE, N - LEFT, N), LEFT);
    cr_assert_eq(kit_stats(&k).n_entries, LEFT);
}

/* ---- the map ---- */

Test(store_evict, full_map_is_met_by_eviction)
{
    kit_begin_in(&k, 64 * KIT_MIB, memory_dir_new());
    k.config.index_bytes = 4 * KIT_MIB; /* far less than the cap says */
    kit_open(&k);
    for (uint64_t n = 0; n < 1000; n++) {
        cr_assert_eq(kit_put(&k, HERE, n, 20000), 0, "%s", k.last_event);
        cr_assert_eq(kit_get(&k, HERE, n), 0, "entry %d", (int)n);
    }
    cr_assert_gt(kit_stats(&k).n_entries, 50);
}

/* ---- entries whose keys are of older versions ---- */

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Makes all present entries old. */
static void change_keys(bool tell)
{
    usleep(2000);
    store_expect_old(k.store, now_ms(), tell);
    usleep(2000);
}

static int put_named(uint32_t owner, uint64_t n, const char *name)
{
    static const uint8_t value[20000];
    struct store_put put = kit_put_of(&k, owner, n, sizeof value);
    put.data = value;
    put.row.name = (struct view){name, strlen(name)};
    return kit_put_with(&k, &put);
}

static uint64_t n_expected;
static bool counts_as_expected(const struct store_stats *st) { return st->n_old == n_expected; }
static bool something_was_told(const struct store_stats *st) { return st && *k.last_event; }

Test(store_evict, entries_of_older_keys_go_first)
{
    kit_begin(&k, 16 * KIT_MIB);
    for (uint64_t n = 0; n < 400; n++)
        cr_assert_eq(put_worth(HERE, n, 20000, 60000), 0);
    change_keys(true);
    n_expected = 400;
    kit_until(&k, counts_as_expected);
    kit_until(&k, something_was_told); /* the count is there before its message */
    cr_assert_str_eq(k.last_event, "400 entries of older key versions, to be evicted first");
    uint64_t n = 1000;
    while (kit_stats(&k).n_evictions < 100 && n < 5000) /* of less worth by far */
        cr_assert_eq(put_worth(HERE, n++, 20000, 1), 0);
    uint64_t n_gone = kit_stats(&k).n_evictions;
    size_t left = count_there(HERE, 0, 400);
    cr_assert_geq(n_gone, 100);
    cr_assert_leq(left, 400 - n_gone + 5, "%zu are left after %" PRIu64, left, n_gone);
    for (int i = 0; i < 5000 && kit_stats(&k).n_old != count_there(HERE, 0, 400); i++)
        usleep(1000); /* the writer may still be at it */
    cr_assert_eq(kit_stats(&k).n_old, count_there(HERE, 0, 400), "those that went are counted off");
}

Test(store_evict, pinned_entry_of_an_older_key_stays)
{
    kit_begin(&k, 16 * KIT_MIB);
    for (uint64_t n = 0; n < 40; n++) {
        cr_assert_eq(kit_put(&k, HERE, n, 20000), 0);
        cr_assert_eq(kit_pin(&k, HERE, n, true), 0);
    }
    change_keys(false);
    for (uint64_t n = 1000; n < 3000; n++)
        cr_assert_eq(kit_put(&k, HERE, n, 20000), 0);
    cr_assert_gt(kit_stats(&k).n_evictions, 1000);
    cr_assert_eq(count_there(HERE, 0, 40), 40);
}

Test(store_evict, hit_saves_an_entry_from_before_keys_changed)
{
    if (page_bytes() != 4096)
        cr_skip_test("its numbers are for pages of 4 KiB");
    kit_begin(&k, 16 * KIT_MIB);
    for (uint64_t n = 0; n < 600; n++)
        cr_assert_eq(kit_put(&k, HERE, n, 20000), 0);
    usleep(2000);
    uint64_t changed_ms = now_ms();
    usleep(2000);
    for (uint64_t n = 0; n < 100; n++)
        cr_assert_eq(kit_get(&k, HERE, n), 0);
    kit_reopen(&k); /* writes the hits */
    store_expect_old(k.store, changed_ms, true);
    n_expected = 500;
    kit_until(&k, counts_as_expected);
    for (uint64_t n = 1000; kit_stats(&k).n_evictions < 400 && n < 5000; n++)
        cr_assert_eq(kit_put(&k, HERE, n, 20000), 0);
    cr_assert_geq(kit_stats(&k).n_evictions, 400);
    cr_assert_eq(count_there(HERE, 0, 100), 100);
}

Test(store_evict, names_that_clients_chose_are_of_no_key_version)
{
    static const char hex[] = "0123456789abcdef0123456789abcdef";
    static const struct {
        const char *prefix, *digest;
        bool old;
    } names[] = {
        {"pjrt:1:", hex, true},
        {"cc:2:", hex, true},
        {"jax:12:", hex, true},
        {"pt2:fx-graph-v1::f", hex, false},
        {"", hex, false},
        {":1:", hex, false},
        {"key:", hex, false},
        {"a:1b:", hex, false},
        {"cc:2:", "0123456789abcdef", false},
        {"cc::", hex, false},
        {"1:", hex, false},
        {"alpha", "", false},
    };
    kit_begin(&k, 16 * KIT_MIB);
    n_expected = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char name[128];
        snprintf(name, sizeof name, "%s%s", names[i].prefix, names[i].digest);
        cr_assert_eq(put_named(1000, i, name), 0);
        n_expected += names[i].old;
    }
    change_keys(true);
    kit_until(&k, counts_as_expected);
    struct store_filter all = store_filter_all();
    cr_assert_eq(kit_evict(&k, &all, (sizeof names / sizeof *names - n_expected) * 20000, false),
                 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        cr_assert_neq(there(1000, i), names[i].old, "%s", names[i].prefix);
}
