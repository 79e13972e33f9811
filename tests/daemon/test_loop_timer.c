/* SPDX-License-Identifier: Apache-2.0 */
/* test_loop_timer.c - timers of the loop that cost no turn anything. */
#include "daemon/process/loop_timer.h"

#include <criterion/criterion.h>

struct clock {
    struct loop_timer *ticker;
    int n_ticks, stop_after;
};

static void on_tick(void *arg)
{
    struct clock *c = arg;
    if (++c->n_ticks == c->stop_after)
        loop_timer_stop(c->ticker);
}

static void open_clock(uv_loop_t *loop, struct clock *c)
{
    cr_assert_eq(uv_loop_init(loop), 0);
    c->ticker = loop_timer_new(loop, on_tick, c);
    cr_assert(c->ticker);
}

/* The loop runs to its end: nothing is left that would keep it. */
static void close_clock(uv_loop_t *loop, struct clock *c)
{
    loop_timer_free(c->ticker);
    uv_run(loop, UV_RUN_DEFAULT);
    cr_assert_eq(uv_loop_close(loop), 0);
}

Test(loop_timer, ticks_once_and_stops)
{
    uv_loop_t loop;
    struct clock c = {0};
    open_clock(&loop, &c);
    loop_timer_start(c.ticker, 1, 0);
    cr_assert(loop_timer_runs(c.ticker));
    uv_run(&loop, UV_RUN_DEFAULT);
    cr_assert_eq(c.n_ticks, 1);
    cr_assert_not(loop_timer_runs(c.ticker));
    close_clock(&loop, &c);
}

Test(loop_timer, repeats_until_it_is_stopped)
{
    uv_loop_t loop;
    struct clock c = {.stop_after = 3};
    open_clock(&loop, &c);
    loop_timer_start(c.ticker, 0, 1);
    uv_run(&loop, UV_RUN_DEFAULT);
    cr_assert_eq(c.n_ticks, 3);
    close_clock(&loop, &c);
}

Test(loop_timer, the_loop_waits_without_a_timeout_while_one_runs)
{
    uv_loop_t loop;
    struct clock c = {0};
    open_clock(&loop, &c);
    loop_timer_start(c.ticker, 60000, 60000);
    uv_run(&loop, UV_RUN_NOWAIT);
    cr_assert_eq(uv_backend_timeout(&loop), -1);
    close_clock(&loop, &c);
    cr_assert_eq(c.n_ticks, 0);
}

Test(loop_timer, a_start_while_it_runs_counts_anew)
{
    uv_loop_t loop;
    struct clock c = {0};
    open_clock(&loop, &c);
    loop_timer_start(c.ticker, 0, 1);
    loop_timer_start(c.ticker, 60000, 0);
    for (int i = 0; i < 3; i++)
        uv_run(&loop, UV_RUN_NOWAIT);
    cr_assert_eq(c.n_ticks, 0);
    loop_timer_start(c.ticker, 1, 0);
    uv_run(&loop, UV_RUN_DEFAULT);
    cr_assert_eq(c.n_ticks, 1);
    close_clock(&loop, &c);
}

Test(loop_timer, free_of_none_is_fine) { loop_timer_free(NULL); }
