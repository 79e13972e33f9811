/* SPDX-License-Identifier: Apache-2.0 */
/* test_tier_turns.c - requests to the tier are in each user's budget, and users take turns. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "daemon/users/budget.h"
#include "tests/support/tier_rig.h"

#define MANY 100u
#define MOST 20u /* of one user alone: as much is left for the next */
#define STEPS 50 /* more than one tick of the fetches */

static struct tier_rig rig;
static struct tier_call call, others[MANY];
static struct tier_ask asks[MANY];

static void teardown(void)
{
    tier_rig_leave(&call);
    for (unsigned i = 0; i < MANY; i++)
        tier_rig_leave(&others[i]);
    while (rig.tier->fetches) { /* what was not answered is cancelled */
        tier_rig_step(&rig);
        if (fake_helper_is_asked(&rig.helper)) {
            struct tier_ask ask = fake_helper_take(&rig.helper, NULL);
            tier_rig_answer(&rig, &ask, ask.operation == TIER_GET ? TIER_ABSENT : TIER_FAILED);
        }
    }
    tier_rig_down(&rig);
}

static void up(void)
{
    tier_rig_up(&rig, NULL);
    call.ended = true;
    for (unsigned i = 0; i < MANY; i++)
        others[i].ended = true;
}

TestSuite(tier_turns, .init = up, .fini = teardown, .timeout = 120);

static void on_answer(struct ask *of, const struct answer *a)
{
    struct tier_call *c = (struct tier_call *)of;
    c->ended = service_rig_note(c->seen, sizeof c->seen, a->kind);
}

/* Has a user ask for a key that nobody made. */
static void ask_for_nothing(struct tier_call *c, const struct peer *peer, unsigned n)
{
    struct key key = key_of_bytes(&n, sizeof n);
    struct proof proof = proof_of_bytes(&n, sizeof n);
    *c = (struct tier_call){.ask = {.service = rig.service, .peer = peer, .on_answer = on_answer}};
    service_ask(&c->ask, &(struct question){.space = WIRE_SPACE_KEY,
                                            .key = {key.bytes, sizeof key.bytes},
                                            .proof = &proof,
                                            .wait_ms = 60000});
}

/* Takes all requests that come within a few ticks; returns how many there are by now. */
static unsigned take_all(unsigned n)
{
    for (int i = 0; i < STEPS; i++) {
        tier_rig_step(&rig);
        while (n < MANY && fake_helper_is_asked(&rig.helper))
            asks[n++] = tier_rig_take(&rig, TIER_GET);
    }
    return n;
}

Test(tier_turns, random_keys_of_one_user_leave_requests_for_others)
{
    static const struct peer flood = {.uid = 4001, .space = 4001};
    struct tier_entry entry;
    for (unsigned i = 0; i < MANY; i++)
        ask_for_nothing(&others[i], &flood, i);
    unsigned n = take_all(0);
    cr_assert_eq(n, MOST, "%u requests", n);
    tier_rig_ask(&rig, &call, ASK_KNOWN, "graph");
    struct tier_ask ask = tier_rig_take(&rig, TIER_GET);
    tier_rig_expect_entry_of(&ask, "graph");
    tier_rig_entry("graph", view_of_text("the value"), &entry);
    tier_rig_answer_entry(&rig, &ask, &entry, &rig.key);
    tier_rig_until(&rig, &call, "W=");
}

Test(tier_turns, the_next_request_is_of_the_user_who_has_the_fewest)
{
    static const struct peer users[] = {{.uid = 4001, .space = 4001}, {.uid = 4002, .space = 4002}};
    for (unsigned i = 0; i < MANY; i++)
        ask_for_nothing(&others[i], &users[i >= MANY / 2], i);
    unsigned n = take_all(0);
    uint64_t first = budget_used(4001, BUDGET_tier_asks),
             second = budget_used(4002, BUDGET_tier_asks);
    cr_assert_eq(first + second, n);
    cr_expect_gt(second, 0u);
    for (unsigned i = 0; i < n; i++)
        tier_rig_answer(&rig, &asks[i], TIER_ABSENT);
    take_all(n);
    first = budget_used(4001, BUDGET_tier_asks);
    second = budget_used(4002, BUDGET_tier_asks);
    cr_expect(first <= second + 1 && second <= first + 1, "%d and %d", (int)first, (int)second);
}

Test(tier_turns, a_key_above_the_budget_is_asked_for_when_another_was_answered)
{
    struct tier_entry entry;
    char name[32];
    for (unsigned i = 0; i < MOST; i++) {
        snprintf(name, sizeof name, "graph-%u", i);
        tier_rig_ask(&rig, &others[i], ASK_KNOWN, name);
    }
    cr_assert_eq(take_all(0), MOST);
    tier_rig_ask(&rig, &call, ASK_KNOWN, "one more");
    cr_expect_eq(take_all(MOST), MOST);
    cr_expect_str_eq(call.seen, "W");
    tier_rig_answer(&rig, &asks[0], TIER_ABSENT);
    struct tier_ask ask = tier_rig_take(&rig, TIER_GET);
    tier_rig_expect_entry_of(&ask, "one more");
    tier_rig_entry("one more", view_of_text("the value"), &entry);
    tier_rig_answer_entry(&rig, &ask, &entry, &rig.key);
    tier_rig_until(&rig, &call, "W=");
}
