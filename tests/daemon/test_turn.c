/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_turn.c - which connection has the turn of the loop, and which ones go on without an event of their
 * own. The connections here have no socket: the lists look at none.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "daemon/net/internal.h"

#define CONNECTIONS 4

static uv_loop_t loop;
static struct turn turn;
static struct connection all[CONNECTIONS];

static void setup(void)
{
    cr_assert_eq(uv_loop_init(&loop), 0);
    cr_assert_eq(uv_idle_init(&loop, &turn.idle), 0);
    for (int i = 0; i < CONNECTIONS; i++)
        all[i].turn = &turn;
}

static void teardown(void)
{
    uv_close((uv_handle_t *)&turn.idle, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    cr_expect_eq(uv_loop_close(&loop), 0);
}

TestSuite(turn, .init = setup, .fini = teardown, .timeout = 30);

/* Takes all ready connections; returns which, a digit each in ascending order. */
static const char *ready(void)
{
    static char text[CONNECTIONS + 1];
    bool taken[CONNECTIONS] = {false};
    size_t n = 0;
    for (struct connection *c; (c = turn_next_ready(&turn));) {
        cr_assert_not(taken[c - all], "a connection is taken twice");
        taken[c - all] = true;
    }
    for (int i = 0; i < CONNECTIONS; i++)
        if (taken[i])
            text[n++] = (char)('0' + i);
    text[n] = '\0';
    return text;
}

static bool may_go_on(const struct connection *c) { return c->peer.uid == 0; }

Test(turn, a_connection_that_is_ready_goes_on_once)
{
    turn_make_ready(&all[0]);
    turn_make_ready(&all[2]);
    turn_make_ready(&all[0]);
    turn_make_ready_later(&all[2]); /* it goes on now: that is soon enough */
    cr_expect_str_eq(ready(), "02");
    turn_take_later(&turn);
    cr_expect_str_eq(ready(), "");
    turn_make_ready(&all[0]);
    cr_expect_str_eq(ready(), "0");
}

Test(turn, a_connection_for_later_waits_for_the_next_turn)
{
    turn_make_ready_later(&all[1]);
    turn_make_ready(&all[1]); /* nor does it go on before its turn */
    turn_make_ready_later(&all[1]);
    turn_make_ready_later(&all[3]);
    cr_expect_str_eq(ready(), "");
    turn_take_later(&turn);
    cr_expect_str_eq(ready(), "13");
    turn_take_later(&turn);
    cr_expect_str_eq(ready(), "");
}

Test(turn, the_loop_does_not_sleep_while_a_connection_is_there_for_later)
{
    turn_make_ready(&all[0]);
    cr_expect_not(uv_is_active((uv_handle_t *)&turn.idle));
    turn_make_ready_later(&all[1]);
    cr_expect(uv_is_active((uv_handle_t *)&turn.idle));
    turn_take_later(&turn);
    cr_expect_not(uv_is_active((uv_handle_t *)&turn.idle));
    cr_expect_str_eq(ready(), "01");
}

Test(turn, only_a_connection_that_resumes_is_let_go)
{
    all[0].held = all[1].held = true;
    all[0].resumes = true;
    turn_make_ready_later(&all[0]);
    turn_make_ready_later(&all[1]);
    turn_take_later(&turn);
    cr_expect_not(all[0].held);
    cr_expect_not(all[0].resumes, "it lets go once");
    cr_expect(all[1].held);
}

Test(turn, a_starved_connection_goes_on_when_its_user_may_take_more)
{
    for (int i = 0; i < CONNECTIONS; i++) {
        all[i].peer.uid = 1;
        turn_make_starved(&all[i]);
        turn_make_starved(&all[i]);
    }
    turn_take_starved(&turn, may_go_on);
    cr_expect_str_eq(ready(), "");
    all[0].peer.uid = all[2].peer.uid = 0;
    turn_take_starved(&turn, may_go_on);
    cr_expect_str_eq(ready(), "02");
    turn_take_starved(&turn, may_go_on);
    cr_expect_str_eq(ready(), "", "they were taken off the list");
    turn_make_starved(&all[0]); /* and can starve again */
    all[1].peer.uid = all[3].peer.uid = 0;
    turn_take_starved(&turn, may_go_on);
    cr_expect_str_eq(ready(), "013");
}

Test(turn, a_closed_connection_is_on_no_list)
{
    for (int i = 0; i < CONNECTIONS; i++)
        turn_make_starved(&all[i]);
    turn_make_ready(&all[0]);
    turn_make_ready(&all[1]);
    turn_make_ready_later(&all[2]);
    turn_make_ready_later(&all[3]);
    turn_make_ready_later(&all[2]);
    for (int i = 0; i < CONNECTIONS; i += 2) { /* the first and the last of a list */
        all[i].closing = true;
        turn_forget(&all[i]);
        turn_forget(&all[i]);
    }
    for (const struct connection *c = turn.later; c; c = c->next_ready)
        cr_expect_not(c->closing);
    for (const struct connection *c = turn.starved; c; c = c->next_starved)
        cr_expect_not(c->closing);
    turn_take_later(&turn);
    turn_take_starved(&turn, may_go_on);
    cr_expect_str_eq(ready(), "13");
    turn_make_ready(&all[0]);
    turn_make_ready_later(&all[0]);
    turn_make_starved(&all[0]);
    turn_take_later(&turn);
    turn_take_starved(&turn, may_go_on);
    cr_expect_str_eq(ready(), "");
}

Test(turn, a_turn_that_lasts_long_is_over)
{
    int fresh = 0;
    for (int i = 0; i < 10000 && !fresh; i++) { /* the machine may be busy elsewhere */
        turn_begin(&turn, &all[1]);
        fresh = !turn_is_over(&turn);
    }
    cr_expect(fresh, "each turn is over at once");
    cr_expect_eq(turn.current, &all[1]);
    turn.began_ns -= 1000000000u;
    cr_expect(turn_is_over(&turn));
}
