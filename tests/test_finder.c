/* SPDX-License-Identifier: Apache-2.0 */
/* test_finder.c - numbers are found where they were put, in few steps, however near to one another they are to be. */
#include <criterion/criterion.h>

#include "keygen/finder.h"

#define MANY 200000u
#define STEPS (FINDER_NEAR + 8) /* for each that is looked for, on average */

/* What a number is for, and near to what it is to be. */
typedef uint32_t near_of(uint32_t number);

static uint64_t hash_of(uint32_t number)
{
    uint64_t h = (number + 1) * UINT64_C(0x9E3779B97F4A7C15);
    return (h ^ h >> 32) * UINT64_C(0xD6E8FEB86659FD93);
}

static uint32_t near_itself(uint32_t number) { return number; }
static uint32_t near_hash(uint32_t number) { return (uint32_t)hash_of(number); }
static uint32_t near_one(uint32_t number) { return number & 0; }
/* A half has places of its own, one behind the other, where the others are to be too. */
static uint32_t near_half(uint32_t number) { return number % 2 ? number / 2 : 7 * number; }

static void find_all(const struct finder *f, uint32_t n, near_of *near, uint64_t *steps)
{
    for (uint32_t number = 1; number <= n; number++) {
        struct probe p = finder_probe(f, hash_of(number), near(number));
        uint32_t found;
        while ((found = finder_next(f, &p)) && found != number)
            ;
        cr_assert_eq(found, number);
        *steps += p.turns;
    }
}

static void finds(near_of *near)
{
    struct finder f = {0};
    uint64_t steps = 0;
    for (uint32_t number = 1; number <= MANY; number++) {
        uint32_t n = f.n;
        cr_assert(finder_room(&f, 1));
        for (uint32_t again = 1; f.n != n && again < number; again++)
            finder_add(&f, hash_of(again), near(again), again);
        cr_assert_eq(f.n, number - 1);
        finder_add(&f, hash_of(number), near(number), number);
    }
    find_all(&f, MANY, near, &steps);
    for (uint32_t number = MANY + 1; number <= 2 * MANY; number++) {
        struct probe p = finder_probe(&f, hash_of(number), near(number));
        for (uint32_t found; (found = finder_next(&f, &p));)
            cr_assert(found <= MANY);
        steps += p.turns;
    }
    cr_assert_lt(steps, (uint64_t)STEPS * 2 * MANY, "%.1f steps each", (double)steps / 2 / MANY);
    finder_clear(&f);
    struct probe p = finder_probe(&f, hash_of(1), near(1));
    cr_assert_eq(finder_next(&f, &p), 0);
    finder_free(&f);
}

Test(finder, near_to_one_another) { finds(near_itself); }
Test(finder, where_their_hashes_say) { finds(near_hash); }
Test(finder, more_than_there_is_room_for_near_by) { finds(near_half); }
Test(finder, all_near_to_one) { finds(near_one); }
