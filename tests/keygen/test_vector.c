/* SPDX-License-Identifier: Apache-2.0 */
/* test_vector.c - growing arrays: entries survive growth, and a failure stays and changes nothing. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "keygen/vector.h"

struct owner {
    VECTOR(uint64_t) numbers;
    bool failed;
};

Test(vector, entries_survive_growth)
{
    struct owner o = {.failed = false};
    for (uint64_t i = 0; i < 300000; i++)
        PUSH(&o, o.numbers, i * i);
    cr_assert(!o.failed);
    cr_assert_eq(o.numbers.n, 300000u);
    cr_assert_geq(o.numbers.cap, o.numbers.n);
    for (uint64_t i = 0; i < 300000; i++)
        cr_assert_eq(o.numbers.at[i], i * i);
    free(o.numbers.at);
}

Test(vector, a_failed_owner_takes_no_more_growth)
{
    struct owner o = {.failed = true};
    PUSH(&o, o.numbers, 1);
    cr_assert_eq(o.numbers.n, 0u);
    cr_assert_null(o.numbers.at);
}

Test(vector, the_largest_number_of_entries_is_a_failure)
{
    bool failed = false;
    void *at = NULL;
    uint32_t cap = 7;
    cr_assert(!vector_grow(&failed, &at, &cap, VECTOR_MAX, 1));
    cr_assert(failed);
    cr_assert(at == NULL && cap == 7, "the vector is as it was");
    failed = false;
    cr_assert(!vector_widen(&failed, &at, &cap, 5, VECTOR_MAX, 1));
    cr_assert(failed && cap == 7);
}

Test(vector, widen_makes_room_for_all)
{
    struct owner o = {.failed = false};
    PUSH(&o, o.numbers, 42);
    cr_assert(vector_widen(&o.failed, &o.numbers.at, &o.numbers.cap, o.numbers.n, 5000,
                           sizeof *o.numbers.at));
    cr_assert_geq(o.numbers.cap - o.numbers.n, 5000u);
    cr_assert_eq(o.numbers.at[0], 42u);
    free(o.numbers.at);
}
