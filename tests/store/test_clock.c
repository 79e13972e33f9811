/* SPDX-License-Identifier: Apache-2.0 */
/* test_clock.c - clocks in their units, and random numbers that do not stand still. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "store/clock.h"

#define TICK_MS 20 /* of the kernel, at most */

Test(clock, each_clock_has_its_unit)
{
    uint64_t us = clock_wall_us(), ms = clock_wall_ms(), coarse = clock_wall_coarse_ms();
    uint64_t later = clock_wall_ms();
    cr_expect_leq(us / 1000, ms);
    cr_expect_geq(us / 1000 + 60000, ms);
    cr_expect_leq(coarse, later);
    cr_expect_geq(coarse + TICK_MS, ms);
    cr_expect_gt(ms, 1700000000000u, "Unix time");
    uint64_t mono = clock_mono_ms(), ns = clock_mono_ns();
    cr_expect_leq(mono, ns / 1000000);
    cr_expect_geq(mono + 60000, ns / 1000000);
}

Test(clock, the_monotonic_clock_does_not_go_back)
{
    uint64_t last = clock_mono_ns();
    for (int i = 0; i < 100000; i++) {
        uint64_t now = clock_mono_ns();
        cr_assert_geq(now, last);
        last = now;
    }
}

/* A store or a daemon begins with the state 0: that must not be the end of a xorshift. */
Test(clock, random_numbers_begin_with_any_state)
{
    uint64_t zero = 0, one = 1, first = random_next(&zero);
    cr_expect_neq(first, 0);
    cr_expect_neq(random_next(&zero), first);
    cr_expect_neq(random_next(&one), first);
}

/* What the callers take: the rest of a division, and the high byte. */
Test(clock, random_numbers_are_spread)
{
    unsigned low[16] = {0}, high[16] = {0};
    uint64_t state = 42;
    for (int i = 0; i < 16000; i++) {
        uint64_t r = random_next(&state);
        low[r % 16]++;
        high[r >> 60]++;
    }
    for (int i = 0; i < 16; i++) { /* 1000, and six standard deviations */
        cr_expect(low[i] > 800 && low[i] < 1200, "%u", low[i]);
        cr_expect(high[i] > 800 && high[i] < 1200, "%u", high[i]);
    }
}
