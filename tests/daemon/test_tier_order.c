/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_tier_order.c - in which order the queue of the tier gives its entries out, and how long that takes. The queue is
 * the daemon's, in memory alone: no helper sends what is taken.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <time.h>

#include "daemon/nodes/tier_state.h"

static struct tier *tier;
static uint64_t put_ns; /* when the oldest put on its way to the disk came */

static uint64_t first_put_ns(void *arg) { return *(uint64_t *)arg; }

static void setup(void)
{
    tier = calloc(1, sizeof *tier);
    cr_assert(tier);
    put_ns = UINT64_MAX;
    tier->host = (struct tier_host){.first_put_ns = first_put_ns, .arg = &put_ns};
}

static void teardown(void) { free(tier); }
TestSuite(tier_order, .init = setup, .fini = teardown);

/* Adds an item that others wait for. Its time names it. */
static void add(float value, bool is_leased, uint64_t offered_ns)
{
    struct tier_item item = {
        .value = value, .is_urgent = true, .is_leased = is_leased, .offered_ns = offered_ns};
    tier_queue_return(tier, &item);
}

/* Expects that the item of this time is next; 0: none is. */
static void expect_next(uint64_t offered_ns, bool early)
{
    struct tier_item item = {.offered_ns = 0};
    bool is_early = false;
    cr_assert_eq(tier_queue_take(tier, &item, &is_early), offered_ns != 0);
    cr_assert_eq(item.offered_ns, offered_ns);
    cr_assert_eq(is_early, early);
}

Test(tier_order, the_most_valuable_is_first)
{
    add(1, false, 10);
    add(3, false, 20);
    add(2, false, 30);
    expect_next(20, false);
    expect_next(30, false);
    expect_next(10, false);
    expect_next(0, false);
}

Test(tier_order, a_leased_one_waits_for_what_was_offered_before)
{
    add(9, true, 30);
    add(1, false, 20);
    add(5, false, 40);
    expect_next(40, true); /* by value: of the two that may go */
    expect_next(20, true);
    expect_next(30, false);
    expect_next(0, false);
}

Test(tier_order, of_leased_ones_the_first_offered_goes_and_one_time_holds_up_nobody)
{
    add(9, true, 50);
    add(1, true, 40);
    add(2, true, 40);
    expect_next(40, true);
    expect_next(40, true);
    expect_next(50, false);
}

Test(tier_order, a_leased_one_waits_for_puts_and_for_uploads)
{
    add(9, true, 30);
    put_ns = 10;
    expect_next(0, true);
    put_ns = 90;
    tier->uploads[3].runs = true;
    tier->uploads[3].item.offered_ns = 20;
    expect_next(0, true);
    tier->uploads[3].item.offered_ns = 30;
    expect_next(30, false);
}

static double cpu_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* Returns the least time of some that taking one of QUEUE_MAX items takes; it is put back. */
static double take_ms(void)
{
    double least = 1e9;
    for (int i = 0; i < 5; i++) {
        struct tier_item item;
        bool early;
        double began = cpu_ms();
        cr_assert(tier_queue_take(tier, &item, &early));
        double took = cpu_ms() - began;
        least = took < least ? took : least;
        tier_queue_return(tier, &item);
    }
    return least;
}

/* Was: each leased one looked through the whole queue, 4096 x 4096 steps on the daemon's loop for each upload. */
Test(tier_order, a_queue_full_of_leased_ones_takes_about_as_long_as_one_without)
{
    for (uint64_t i = 0; i < QUEUE_MAX; i++)
        add(1, false, QUEUE_MAX - i);
    double without = take_ms();
    tier->n_items = 0;
    for (uint64_t i = 0; i < QUEUE_MAX; i++) /* the first offered is the last one looked at */
        add(1, true, QUEUE_MAX - i);
    double with = take_ms();
    cr_assert_lt(with, 20 * without + 0.05, "%.3f ms, and without leases %.3f ms", with, without);
}
