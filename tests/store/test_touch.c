/* SPDX-License-Identifier: Apache-2.0 */
/* test_touch.c - the table of hits that are not in the index yet. */
#include <criterion/criterion.h>
#include <string.h>

#include "store/touch.h"

static struct store_id entry(uint32_t owner, unsigned n)
{
    struct store_id id = {.owner = owner};
    memcpy(id.key.bytes, &n, sizeof n);
    return id;
}

Test(touch, hits_of_an_entry_add_up_and_keep_the_last_time)
{
    static struct touches t;
    struct store_id a = entry(1, 5), b = entry(2, 5);
    cr_assert_null(touch_find(&t, &a));
    cr_assert(touch_add(&t, &a, 100));
    cr_assert(touch_add(&t, &a, 300));
    cr_assert(touch_add(&t, &b, 200));
    cr_expect_eq(touch_find(&t, &a)->n_hits, 2u);
    cr_expect_eq(touch_find(&t, &a)->last_ms, 300u);
    cr_expect_eq(touch_find(&t, &b)->n_hits, 1u, "another owner's entry of the same key");
    cr_expect_eq(t.n, 2u);
    touch_clear(&t);
    cr_expect_null(touch_find(&t, &a));
    cr_expect_eq(t.n, 0u);
}

Test(touch, a_full_table_takes_hits_of_its_own_entries_alone)
{
    static struct touches t;
    struct store_id id;
    unsigned n = 0;
    for (id = entry(1, n); touch_add(&t, &id, 1); id = entry(1, n))
        cr_assert_leq(++n, TOUCH_MAX, "the table is bounded");
    cr_expect_eq(n, TOUCH_MAX);
    cr_expect_null(touch_find(&t, &id));
    id = entry(1, 0);
    cr_expect(touch_add(&t, &id, 2), "an entry that is there");
    cr_expect_eq(touch_find(&t, &id)->n_hits, 2u);
    for (unsigned i = 0; i < n; i++) {
        id = entry(1, i);
        cr_assert_not_null(touch_find(&t, &id), "entry %u", i);
    }
}
