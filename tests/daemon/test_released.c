/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_released.c - reads what released versions wrote: tests/data/released-VERSION.tar.gz has a store, and a
 * tier with the key that signed it. The promises of CHANGELOG.md end when one of these tests fails.
 *
 * With WARM_WRITE_RELEASED=FILE in the environment, `written_by_this_version` makes such a file.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/store_kit.h"
#include "tests/support/tier_kit.h"

#define OWNER 1000u
static const size_t lens[] = {0, 1, 100, 3000, 9000, 66000}; /* the last is a file of its own */
#define N_LENS (sizeof lens / sizeof *lens)
static const char *const texts[] = {"a small value", "another"};

TestSuite(released, .init = tier_setup, .fini = tier_teardown);

static void run_or_fail(const char *format, const char *a, const char *b)
{
    char *out;
    int rc = run_command(&out, format, a, b);
    cr_assert_eq(rc, 0, "%s", out);
    free(out);
}

static void write_store(char *folder)
{
    struct store_kit k;
    kit_begin_in(&k, 64 * KIT_MIB, folder);
    kit_open(&k);
    for (uint64_t n = 0; n < N_LENS; n++)
        cr_assert_eq(kit_put(&k, n % 2 ? OWNER : STORE_MADE_HERE, n, lens[n]), 0);
    cr_assert_eq(kit_pin(&k, OWNER, 1, true), 0);
    kit_close(&k);
}

Test(released, written_by_this_version)
{
    const char *file = getenv("WARM_WRITE_RELEASED");
    if (!file)
        cr_skip_test("writes a file if WARM_WRITE_RELEASED names one");
    char *store = path_join(tier_folder, "store");
    cr_assert_eq(mkdir(store, 0700), 0);
    write_store(store);
    struct warmd daemon = tier_up(NULL, tier_key_file, NULL);
    put_one(&daemon, "released:0", texts[0]);
    put_one(&daemon, "released:1", texts[1]);
    await_objects(2);
    warmd_down(&daemon);
    run_or_fail("tar -C %s --exclude=lock.mdb --owner=0 --group=0 -czf %s .", tier_folder, file);
}

/* Calls `read_it` with each file of a released version unpacked in the folder of the tier. */
static void for_each_version(void (*read_it)(const char *version))
{
    char *list, *rest, *file;
    cr_assert_eq(run_command(&list, "ls tests/data/released-*.tar.gz"), 0);
    for (rest = list; (file = strsep(&rest, "\n")) && *file;) {
        run_or_fail("cd %s && rm -rf ./* && tar --no-same-owner -xzf $OLDPWD/%s", tier_folder,
                    file);
        read_it(file);
    }
    free(list);
}

static void read_store(const char *version)
{
    struct store_kit k;
    kit_begin_in(&k, 64 * KIT_MIB, path_join(tier_folder, "store"));
    kit_open(&k);
    for (uint64_t n = 0; n < N_LENS; n++)
        cr_expect_eq(kit_get(&k, n % 2 ? OWNER : STORE_MADE_HERE, n), 0, "%s: entry %u", version,
                     (unsigned)n);
    cr_expect(!kit_stats(&k).rebuilt, "%s: the index was set aside", version);
    kit_end(&k);
}

Test(released, store_is_read_ever_after) { for_each_version(read_store); }

static void read_tier(const char *version)
{
    struct warmd daemon = tier_up(NULL, tier_key_file, NULL);
    cr_log_info("%s", version);
    expect_value(&daemon, "released:0", texts[0]);
    expect_value(&daemon, "released:1", texts[1]);
    warmd_down(&daemon);
}

Test(released, tier_is_read_ever_after) { for_each_version(read_tier); }
