/* SPDX-License-Identifier: Apache-2.0 */
/* test_stats.c - the daemon's counters: kinds, times, and the lifetime of a store. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/history/stats.h"
#include "tests/support/store_kit.h"

static struct stats s;

Test(stats, counters_are_kept_by_kind_and_add_up)
{
    stats_init(&s, 0);
    stats_add(&s, STATS_hits, STORE_CUBIN, 3);
    stats_add(&s, STATS_hits, STORE_FX_GRAPH, 4);
    stats_add(&s, STATS_misses, STORE_CUBIN, 1);
    stats_add(&s, STATS_hits, (enum store_kind)STATS_KINDS, 5);
    cr_expect_eq(stats_total(&s, STATS_hits), 12u);
    cr_expect_eq(stats_total(&s, STATS_misses), 1u);
    cr_expect_eq(s.now[STATS_hits][STORE_OTHER], 5u, "a kind that is not known is another kind");
}

Test(stats, a_step_is_at_most_6_percent_of_its_time)
{
    for (uint64_t ns = 1; ns < 1ull << 40; ns += 1 + ns / 7) {
        struct stats *one = calloc(1, sizeof *one);
        cr_assert_not_null(one);
        stats_init(one, 0);
        stats_add_hit_time(one, STORE_OTHER, ns, 1);
        double us = stats_hit_us(one, 50), want = (double)ns / 1000.0;
        cr_assert(us <= want * 1.06 + 0.001 && us >= want * 0.94 - 0.001, "%llu ns: %f us",
                  (unsigned long long)ns, us);
        cr_assert(ns < 16 || stats_step(ns) >= stats_step(ns - 1));
        free(one);
    }
    cr_expect_lt(stats_step(UINT64_MAX), STATS_TIME_STEPS);
}

Test(stats, percentiles_count_hits_and_not_steps)
{
    stats_init(&s, 0);
    cr_expect_eq(stats_hit_us(&s, 50), 0);
    stats_add_hit_time(&s, STORE_OTHER, 10000, 98);
    stats_add_hit_time(&s, STORE_OTHER, 1000000, 2);
    cr_expect_lt(stats_hit_us(&s, 50), 11);
    cr_expect_lt(stats_hit_us(&s, 98), 11);
    cr_expect_gt(stats_hit_us(&s, 99), 900);
}

Test(stats, the_lifetime_is_that_of_the_store)
{
    struct store_kit k;
    kit_begin(&k, 64 * KIT_MIB);
    stats_init(&s, 0);
    stats_load(&s, k.store);
    stats_add(&s, STATS_hits, STORE_CUBIN, 7);
    stats_save(&s, k.store);
    stats_add(&s, STATS_puts, STORE_CUBIN, 2);
    stats_save(&s, k.store);
    kit_close(&k);
    kit_open(&k);
    static struct stats next;
    stats_init(&next, 0);
    stats_load(&next, k.store);
    stats_add(&next, STATS_hits, STORE_TRITON, 1);
    cr_expect_eq(stats_lifetime(&next, STATS_hits), 8u);
    cr_expect_eq(stats_lifetime(&next, STATS_puts), 2u);
    cr_expect_eq(stats_total(&next, STATS_hits), 1u, "since its own start");
    kit_end(&k);
}
