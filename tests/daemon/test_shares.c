/* SPDX-License-Identifier: Apache-2.0 */
/* test_shares.c - whose record gives way in a table that all users share. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "daemon/history/shares.h"

#define SLOTS 6u
#define MANY 400u

static uint16_t next[MANY];
static struct shares s;
static uint32_t owner[MANY]; /* of each slot */

static uint32_t take(uint32_t uid)
{
    uint32_t slot = (uint32_t)(shares_take(&s, uid) % s.n_slots);
    owner[slot] = uid;
    return slot;
}

/* Returns the slots of a user in order, as digits. */
static const char *slots_of(uint32_t uid)
{
    static char text[64];
    size_t n = 0;
    for (uint32_t slot = shares_next(&s, uid, 0); slot < s.n_slots;
         slot = shares_next(&s, uid, s.n_slots + slot)) {
        cr_assert_lt(n, SLOTS, "a circle");
        text[n++] = (char)('0' + slot);
    }
    text[n] = '\0';
    return text;
}

static void up(void) { shares_init(&s, next, SLOTS); }
TestSuite(shares, .init = up);

Test(shares, a_users_records_come_in_the_order_of_taking)
{
    cr_expect_str_eq(slots_of(7), "", "none yet");
    take(7), take(8), take(7), take(8), take(7);
    cr_expect_str_eq(slots_of(7), "024");
    cr_expect_str_eq(slots_of(8), "13");
    cr_expect_str_eq(slots_of(9), "");
}

Test(shares, a_number_grows_and_tells_its_slot)
{
    uint64_t last = 0;
    for (int i = 0; i < 20; i++) {
        uint64_t number = shares_take(&s, 7);
        cr_expect_gt(number, last);
        cr_expect_eq(number % SLOTS, (unsigned)i % SLOTS);
        last = number;
    }
    cr_expect_eq(shares_next(&s, 7, last), SLOTS, "nothing comes after the newest");
}

Test(shares, a_user_who_floods_the_table_loses_only_own_records)
{
    take(8), take(8);
    for (int i = 0; i < 50; i++)
        take(7);
    cr_expect_str_eq(slots_of(8), "01");
    cr_expect_eq(strlen(slots_of(7)), SLOTS - 2);
}

Test(shares, a_newcomer_takes_from_the_one_who_has_most)
{
    for (int i = 0; i < 4; i++)
        take(7);
    take(8), take(8);
    cr_expect_eq(take(9), 0, "the oldest of 7's");
    cr_expect_str_eq(slots_of(9), "0");
    cr_expect_str_eq(slots_of(7), "123");
    cr_expect_str_eq(slots_of(8), "45");
    take(9);
    cr_expect_str_eq(slots_of(9), "01", "7 still had more than 8");
    cr_expect_str_eq(slots_of(7), "23");
    cr_expect_str_eq(slots_of(8), "45");
}

Test(shares, a_user_who_lost_all_starts_anew)
{
    shares_init(&s, next, 1);
    cr_expect_eq(take(7), 0);
    cr_expect_eq(take(8), 0);
    cr_expect_str_eq(slots_of(7), "");
    cr_expect_str_eq(slots_of(8), "0");
    cr_expect_eq(take(7), 0);
    cr_expect_str_eq(slots_of(7), "0");
    cr_expect_str_eq(slots_of(8), "");
}

/* More users than lanes: some share one, and nobody's records get lost in a circle. */
Test(shares, users_without_a_lane_of_their_own_share_one)
{
    shares_init(&s, next, MANY);
    for (uint32_t i = 0; i < 5 * MANY; i++)
        take(1000 + i % (SHARES_LANES + 50));
    for (uint32_t uid = 1000; uid < 1000 + SHARES_LANES + 50; uid++) {
        unsigned n_own = 0, n_seen = 0;
        for (uint32_t slot = shares_next(&s, uid, 0); slot < MANY && n_seen <= MANY;
             slot = shares_next(&s, uid, MANY + slot), n_seen++)
            n_own += owner[slot] == uid;
        cr_expect_leq(n_seen, MANY, "a circle");
        cr_expect(n_own > 0 || uid >= 1000 + SHARES_LANES, "%u has no record", uid);
    }
}
