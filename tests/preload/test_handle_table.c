/* SPDX-License-Identifier: Apache-2.0 */
/* test_handle_table.c - the table beside a library's handles: found while they live, and by no other. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdint.h>

#include "client/preload/handle_table.h"

static struct handle_table table;
static char states[HANDLE_TABLE_SLOTS];

static void *handle(size_t i) { return (void *)(uintptr_t)(0x7f0000000000 + 64 * i); }

Test(handle_table, a_handle_is_found_until_it_is_taken)
{
    cr_assert(handle_table_add(&table, handle(1), &states[1]));
    cr_expect_eq(handle_table_find(&table, handle(1)), &states[1]);
    cr_expect_null(handle_table_find(&table, handle(2)));
    cr_expect_null(handle_table_find(&table, NULL));
    cr_expect_eq(handle_table_take(&table, handle(1)), &states[1]);
    cr_expect_null(handle_table_find(&table, handle(1)));
    cr_expect_null(handle_table_take(&table, handle(1)));
}

Test(handle_table, a_full_table_refuses_and_serves_the_others)
{
    size_t n = 0;
    for (size_t i = 1; i < 2 * HANDLE_TABLE_SLOTS; i++)
        n += handle_table_add(&table, handle(i), &states[i % HANDLE_TABLE_SLOTS]);
    cr_expect_gt(n, HANDLE_TABLE_SLOTS / 2);
    cr_expect_leq(n, HANDLE_TABLE_SLOTS);
    size_t found = 0;
    for (size_t i = 1; i < 2 * HANDLE_TABLE_SLOTS; i++)
        found += handle_table_find(&table, handle(i)) == &states[i % HANDLE_TABLE_SLOTS];
    cr_expect_eq(found, n);
}

enum { THREADS = 4, ROUNDS = 20000 };

static void *use(void *arg)
{
    size_t first = (size_t)(uintptr_t)arg, wrong = 0;
    for (size_t i = 0; i < ROUNDS; i++) {
        void *h = handle(1 + first + THREADS * (i % 100));
        if (!handle_table_add(&table, h, &states[first]) ||
            handle_table_find(&table, h) != &states[first] ||
            handle_table_take(&table, h) != &states[first])
            wrong++;
    }
    return (void *)wrong;
}

Test(handle_table, threads_with_handles_of_their_own_do_not_meet)
{
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, use, (void *)i), 0);
    for (size_t i = 0; i < THREADS; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        cr_expect_null(wrong);
    }
}
