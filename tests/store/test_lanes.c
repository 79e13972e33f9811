/* SPDX-License-Identifier: Apache-2.0 */
/* test_lanes.c - the order in which the copier takes tasks: users in turn, entries in order. */
#include <criterion/criterion.h>
#include <string.h>

#include "store/internal.h"

static struct store store; /* task_free asks it for the folder of drafts, and these have none */

/* Adds a put of `user` for the entry (owner, key). */
static struct task *put(struct lanes *l, uint32_t user, uint32_t owner, uint8_t key)
{
    struct task *t = task_new(TASK_PUT, 0);
    cr_assert_not_null(t);
    t->row.maker = user;
    t->row.id.owner = owner;
    t->row.id.key.bytes[0] = key;
    cr_assert(lanes_add(l, t));
    return t;
}

static struct task *evict(struct lanes *l, int64_t owner, int64_t maker)
{
    struct task *t = task_new(TASK_EVICT, 0);
    cr_assert_not_null(t);
    t->evict.filter = store_filter_all();
    t->evict.filter.owner = owner;
    t->evict.filter.maker = maker;
    cr_assert(lanes_add(l, t));
    return t;
}

/* Expects that it is the turn of `t`, and takes it. */
static void expect_next(struct lanes *l, struct task *t)
{
    cr_assert(lanes_next(l) == t);
    lanes_take(l, t);
    task_free(&store, t);
}

Test(lanes, users_have_turns_whatever_the_number_of_their_tasks)
{
    struct lanes l = {0};
    struct task *a[3], *b, *c;
    for (int i = 0; i < 3; i++)
        a[i] = put(&l, 7, 7, (uint8_t)i);
    b = put(&l, 9, 9, 1);
    c = put(&l, 8, 8, 1);
    expect_next(&l, a[0]);
    expect_next(&l, c);
    expect_next(&l, b);
    expect_next(&l, a[1]);
    expect_next(&l, a[2]);
    cr_assert_null(lanes_next(&l));
    lanes_free(&store, &l);
}

Test(lanes, a_task_keeps_its_place_until_it_is_taken)
{
    struct lanes l = {0};
    struct task *a = put(&l, 7, 7, 1), *b = put(&l, 9, 9, 1);
    cr_assert(lanes_next(&l) == a, "a slice of 7's");
    cr_assert(lanes_next(&l) == b, "a slice of 9's");
    cr_assert(lanes_next(&l) == a, "the next slice of 7's");
    lanes_free(&store, &l);
}

Test(lanes, puts_of_one_entry_by_several_users_keep_their_order)
{
    struct lanes l = {0};
    struct task *first = put(&l, 9, STORE_MADE_HERE, 1), *second = put(&l, 7, STORE_MADE_HERE, 1);
    struct task *other = put(&l, 8, STORE_MADE_HERE, 2);
    expect_next(&l, other); /* 7 comes first in the circle, and must wait */
    expect_next(&l, first);
    expect_next(&l, second);
    lanes_free(&store, &l);
}

Test(lanes, an_eviction_waits_for_the_puts_that_it_may_reach_and_for_no_others)
{
    struct lanes l = {0};
    struct task *mine = put(&l, 7, 7, 1);
    struct task *of_nine = evict(&l, 9, 9), *of_seven = evict(&l, 7, 7);
    cr_assert(lanes_hold_up(&l, mine), "an eviction of its user is queued");
    struct task *all = evict(&l, -1, -1);
    expect_next(&l, mine); /* user 0 has the eviction of all entries, which waits for it */
    expect_next(&l, of_nine);
    expect_next(&l, all);
    expect_next(&l, of_seven);
    lanes_free(&store, &l);
}

Test(lanes, what_is_left_is_freed)
{
    struct lanes l = {0};
    for (uint32_t user = 0; user < 40; user++)
        put(&l, user, user, 1);
    lanes_free(&store, &l);
    cr_assert_eq(l.n, 0u);
    cr_assert_null(l.lane);
}
