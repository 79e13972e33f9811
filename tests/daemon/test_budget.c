/* SPDX-License-Identifier: Apache-2.0 */
/* test_budget.c - the limits of each user: daemon/users/budget.h. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "daemon/users/budget.h"

Test(budget, a_user_is_held_to_the_limit_and_gets_back_what_was_given_back)
{
    budget_set(BUDGET_calls, 10, 0);
    cr_assert(budget_take(7, BUDGET_calls, 10));
    cr_assert_not(budget_take(7, BUDGET_calls, 1));
    cr_assert(budget_take(8, BUDGET_calls, 1), "another user has a budget of its own");
    budget_give(7, BUDGET_calls, 4);
    cr_assert(budget_take(7, BUDGET_calls, 4));
    cr_assert_not(budget_take(7, BUDGET_calls, UINT64_MAX), "a sum that wraps");
    cr_assert_eq(budget_used(7, BUDGET_calls), 10);
    cr_assert_eq(budget_used_by_all(BUDGET_calls), 11);
}

Test(budget, what_is_charged_counts_though_it_is_too_much)
{
    budget_set(BUDGET_buffers, 100, 0);
    cr_assert(budget_charge(7, BUDGET_buffers, 150));
    cr_assert_not(budget_has(7, BUDGET_buffers, 1));
    budget_give(7, BUDGET_buffers, 150);
    cr_assert(budget_take(7, BUDGET_buffers, 100));
}

/* Each takes all that it gets; there is as much left for the next one as each of them has. */
Test(budget, however_many_take_all_that_they_get_something_is_left_for_the_next)
{
    enum { TOTAL = 1u << 20, GREEDY = 15 };
    budget_set(BUDGET_puts, 0, TOTAL);
    for (unsigned round = 0, took = 1; took; round++) {
        took = 0;
        for (uint32_t uid = 1; uid <= GREEDY; uid++)
            took += budget_take(uid, BUDGET_puts, 1);
    }
    for (uint32_t uid = 1; uid <= GREEDY; uid++)
        cr_assert_eq(budget_used(uid, BUDGET_puts), TOTAL / (GREEDY + 1));
    cr_assert(budget_take(99, BUDGET_puts, TOTAL / (GREEDY + 1) / 2));
}

Test(budget, without_limits_everything_is_counted_and_nothing_refused)
{
    budget_set(BUDGET_space, 0, 0);
    cr_assert(budget_take(1, BUDGET_space, 1ull << 60));
    cr_assert(budget_take(2, BUDGET_space, 1ull << 60));
}

/* A model beside it: an array by uid. */
Test(budget, users_come_and_go_in_any_order)
{
    enum { USERS = 500, STEPS = 200000 };
    static uint64_t model[USERS];
    uint64_t sum = 0;
    uint32_t seen[USERS];
    budget_set(BUDGET_buffers, 0, 0);
    srand(1);
    for (unsigned i = 0; i < STEPS; i++) {
        uint32_t u = (uint32_t)rand() % USERS;
        uint64_t n = (uint64_t)rand() % 3;
        if (rand() % 2) {
            cr_assert(budget_take(u * 64, BUDGET_buffers, n));
            model[u] += n;
            sum += n;
        } else {
            n = n < model[u] ? n : model[u];
            budget_give(u * 64, BUDGET_buffers, n);
            model[u] -= n;
            sum -= n;
        }
        cr_assert_eq(budget_used(u * 64, BUDGET_buffers), model[u]);
    }
    size_t holders = 0;
    for (uint32_t u = 0; u < USERS; u++) {
        cr_assert_eq(budget_used(u * 64, BUDGET_buffers), model[u]);
        holders += model[u] > 0;
    }
    cr_assert_eq(budget_used_by_all(BUDGET_buffers), sum);
    cr_assert_eq(budget_users(seen, USERS), holders);
}
