/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_tier_patience.c - how long an asker waits for other nodes, whatever the tier says: the test plays it.
 */
#include <criterion/criterion.h>

#include "tests/support/tier_rig.h"

#define HEDGE "400ms"
#define HEDGE_MS 400u
#define SLACK_MS 5000u /* of a busy machine; a wait without a bound never ends */

static struct tier_rig rig;
static struct tier_call call;

static void down(void)
{
    tier_rig_leave(&call);
    tier_rig_down(&rig);
}

TestSuite(tier_patience, .fini = down, .timeout = 120);

#define UP(...) tier_rig_up(&rig, (const char *const[]){__VA_ARGS__, NULL})

static uint64_t now(void) { return service_clock_ms(rig.service); }

static bool lies; /* the helper answers WAIT to whatever it is asked */

/* Runs the loop once. The tier says of each key that another node makes it. */
static void step_with_maker(void)
{
    tier_rig_step(&rig);
    while (fake_helper_is_asked(&rig.helper)) {
        struct tier_ask ask = fake_helper_take(&rig.helper, NULL);
        if (ask.operation == TIER_CANCEL)
            continue;
        tier_rig_answer(&rig, &ask, lies || ask.operation == TIER_ASK ? TIER_WAIT : TIER_ABSENT);
    }
}

/* Asks for a name, and returns how long it takes until these are the answers. */
static uint64_t ask_until(enum ask_mode mode, const char *name, const char *seen)
{
    uint64_t began = now();
    tier_rig_ask(&rig, &call, mode, name);
    while (strcmp(call.seen, seen) != 0) {
        cr_assert_lt(now() - began, 60000u, "%s: %s, not %s (%s)", name, call.seen, seen,
                     call.ask.tier_said);
        step_with_maker();
    }
    return now() - began;
}

/* Lets the call go, and waits until nothing is asked for it. */
static void leave(void)
{
    tier_rig_leave(&call);
    while (rig.tier->fetches)
        step_with_maker();
}

Test(tier_patience, a_tier_that_only_says_wait_costs_tier_hedge_once)
{
    UP("tier_hedge", HEDGE);
    uint64_t took = ask_until(ASK_LEASE, "graph-1", "WL");
    cr_expect_geq(took, HEDGE_MS);
    cr_expect_lt(took, HEDGE_MS + SLACK_MS);
    cr_expect(strstr(call.ask.tier_said, "another node makes it, and is late"));
    leave();
    for (int i = 0; i < 20; i++) { /* within tier_breaker */
        char name[32];
        snprintf(name, sizeof name, "key-%d", i);
        took = ask_until(ASK_LEASE, name, "WL");
        cr_expect_lt(took, HEDGE_MS, "%s took %llu ms", name, (unsigned long long)took);
        leave();
    }
}

Test(tier_patience, after_tier_breaker_nodes_are_waited_for_again)
{
    UP("tier_hedge", HEDGE, "tier_breaker", "1ms");
    for (int i = 0; i < 2; i++) {
        cr_expect_geq(ask_until(ASK_LEASE, i ? "graph-1" : "graph-2", "WL"), HEDGE_MS);
        leave();
    }
}

Test(tier_patience, a_node_that_only_reads_waits_no_longer)
{
    lies = true;
    UP("tier_hedge", HEDGE, "tier_mode", "read-only");
    cr_expect_lt(ask_until(ASK_LEASE, "graph-1", "WL"), HEDGE_MS + SLACK_MS);
}

Test(tier_patience, a_wait_is_three_times_what_making_it_took_here)
{
    UP("tier_hedge", "1ms");
    tier_rig_put(&rig, "a:1", view_of_text("made here"), 300);
    struct tier_ask ask = tier_rig_take(&rig, TIER_PUT);
    tier_rig_answer(&rig, &ask, TIER_OK);
    uint64_t took = ask_until(ASK_LEASE, "a:2", "WL");
    cr_expect_geq(took, 900u);
    cr_expect_lt(took, 900u + SLACK_MS);
    leave();
}

Test(tier_patience, what_another_machine_says_of_costs_makes_no_wait_longer)
{
    struct tier_entry entry;
    UP("tier_hedge", HEDGE);
    tier_rig_ask(&rig, &call, ASK_KNOWN, "a:1");
    struct tier_ask ask = tier_rig_take(&rig, TIER_GET);
    tier_rig_entry("a:1", view_of_text("made elsewhere"), &entry);
    entry.cost_ms = 500000;
    tier_rig_answer_entry(&rig, &ask, &entry, &rig.key);
    tier_rig_until(&rig, &call, "W=");
    TIER_RIG_AWAIT(&rig, !rig.service->n_puts);
    cr_expect_lt(ask_until(ASK_LEASE, "a:2", "WL"), HEDGE_MS + SLACK_MS);
    leave();
}

Test(tier_patience, what_a_user_says_of_costs_makes_nobody_elses_wait_longer)
{
    UP("tier_hedge", HEDGE);
    struct store_row row = {
        .id.owner = 4001, .maker = 4001, .cost_ms = 500000, .name = view_of_text("a:1")};
    tier_cost_note(rig.tier, &row, false);
    struct tier_cost of_liar = tier_cost_of(rig.tier, NULL, view_of_text("a:2"), 4001);
    cr_expect(of_liar.n_made == 1 && of_liar.made_ms == 500000);
    cr_expect_lt(ask_until(ASK_LEASE, "a:2", "WL"), HEDGE_MS + SLACK_MS);
    leave();
}
