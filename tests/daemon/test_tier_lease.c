/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_tier_lease.c - a daemon's leases beyond the machine, with a tier that the test plays: how long they are
 * renewed, and how each of them ends. test_tier_nodes.c has makers that are killed and stopped.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/tier_rig.h"

#define LEASE_MS 300u
#define LEASE "300ms"
#define PART_MS (LEASE_MS / 3) /* between two renewals */

static struct tier_rig rig;
static struct tier_call holder, waiter;
static struct tier_ask lease; /* the ASK that got it */
static struct tier_ask ask;

static void teardown(void)
{
    tier_rig_leave(&holder);
    tier_rig_leave(&waiter);
    tier_rig_down(&rig);
}

TestSuite(tier_lease, .fini = teardown, .timeout = 120);

static void up(const char *const *settings)
{
    tier_rig_up(&rig, settings);
    holder.ended = waiter.ended = true;
}

#define UP(...) up((const char *const[]){__VA_ARGS__, NULL})

/* Starts all; a lease lasts so long that no renewal is due before the test wants one. */
#define UP_WITH_LONG_LEASES() UP("tier_lease", "10m")

static uint64_t now(void) { return service_clock_ms(rig.service); }
static void answer(enum tier_outcome outcome) { tier_rig_answer(&rig, &ask, outcome); }

/* Asks for a name, and has the tier give its lease. */
static void get_lease(struct tier_call *c, const char *name)
{
    tier_rig_ask(&rig, c, ASK_LEASE, name);
    lease = tier_rig_take(&rig, TIER_ASK);
    tier_rig_answer(&rig, &lease, TIER_LEASE);
    tier_rig_until(&rig, c, "WL");
}

/* Takes the next request, which must be about the lease. */
static void take(enum tier_operation operation)
{
    ask = tier_rig_take(&rig, operation);
    cr_expect_str_eq(ask.name, lease.name);
    cr_expect_eq(memcmp(ask.token, lease.token, sizeof lease.token), 0, "its token");
    cr_expect_eq(ask.slot, lease.slot);
}

/* Waits until no lease is left. */
static void await_end(void)
{
    TIER_RIG_AWAIT(&rig, tier_has_let_go(rig.tier));
    cr_expect_eq(tier_leases_count(rig.tier), 0u);
}

/* Lets the renewal of the lease on a name be due. */
static struct tier_lease *let_renew(const char *name)
{
    struct store_id id = tier_rig_id(&rig, name);
    struct tier_lease *l = tier_lease_find(rig.tier, &id);
    l->next_ms = now();
    return l;
}

static void put(const char *name) { tier_rig_put(&rig, name, view_of_text("the value"), 0); }

/* ---- while it is held ---- */

Test(tier_lease, it_is_renewed_three_times_in_its_length_while_the_key_is_made)
{
    uint64_t last;
    UP("tier_lease", LEASE);
    last = now();
    get_lease(&holder, "graph");
    for (int i = 0; i < 4; i++) {
        take(TIER_RENEW);
        cr_expect_eq(ask.lease_ms, LEASE_MS);
        cr_expect_geq(now() - last, PART_MS);
        last = now();
        answer(TIER_OK);
    }
    cr_expect_eq(tier_leases_count(rig.tier), 1u);
    cr_expect_eq(tier_rig_count(&rig, STATS_tier_leases), 1u);
}

Test(tier_lease, each_has_a_token_of_its_own)
{
    struct tier_ask first;
    UP_WITH_LONG_LEASES();
    get_lease(&holder, "graph-1");
    first = lease;
    get_lease(&waiter, "graph-2");
    cr_expect_neq(memcmp(first.token, lease.token, sizeof lease.token), 0);
    cr_expect_eq(tier_leases_count(rig.tier), 2u);
}

Test(tier_lease, a_renewal_that_fails_is_tried_again_and_the_lease_is_kept)
{
    UP_WITH_LONG_LEASES();
    get_lease(&holder, "graph");
    for (int i = 0; i < 2; i++) {
        struct tier_lease *l = let_renew("graph");
        take(TIER_RENEW);
        answer(i ? TIER_OK : TIER_FAILED);
        TIER_RIG_AWAIT(&rig, !l->is_busy);
        cr_expect_not(l->is_lost);
    }
    put("graph");
    take(TIER_FINISH);
    answer(TIER_OK);
    await_end();
}

Test(tier_lease, it_outlives_the_helper)
{
    UP_WITH_LONG_LEASES();
    get_lease(&holder, "graph");
    fake_helper_die(&rig.helper);
    tier_rig_accept(&rig);
    TIER_RIG_AWAIT(&rig, tier_link_is_ready(rig.tier->link));
    let_renew("graph");
    take(TIER_RENEW);
    answer(TIER_OK);
    cr_expect_eq(tier_leases_count(rig.tier), 1u);
}

Test(tier_lease, another_asker_of_this_daemon_waits_for_the_same_lease)
{
    UP_WITH_LONG_LEASES();
    get_lease(&holder, "graph");
    tier_rig_ask(&rig, &waiter, ASK_LEASE, "graph");
    cr_expect_str_eq(waiter.seen, "W", "it is being made here: the tier is not asked");
    tier_rig_leave(&holder);
    tier_rig_until(&rig, &waiter, "WL");
    struct tier_lease *l = let_renew("graph");
    take(TIER_RENEW);
    answer(TIER_OK);
    TIER_RIG_AWAIT(&rig, !l->is_busy);
    cr_expect_eq(tier_leases_count(rig.tier), 1u);
    tier_rig_leave(&waiter);
    take(TIER_RELEASE);
    answer(TIER_OK);
    await_end();
}

/* ---- its end ---- */

Test(tier_lease, the_entry_that_is_sent_ends_it)
{
    UP_WITH_LONG_LEASES();
    get_lease(&holder, "graph");
    put("graph");
    cr_expect_str_eq(holder.seen, "WLO");
    take(TIER_FINISH);
    cr_expect_eq(tier_leases_count(rig.tier), 1u, "until it is there");
    answer(TIER_OK);
    await_end();
}

Test(tier_lease, a_holder_that_leaves_gives_it_back)
{
    UP_WITH_LONG_LEASES();
    get_lease(&holder, "graph");
    tier_rig_leave(&holder);
    take(TIER_RELEASE);
    cr_expect_not(tier_has_let_go(rig.tier), "not before the answer");
    cr_expect_eq(tier_leases_count(rig.tier), 0u, "it is held no longer");
    answer(TIER_OK);
    await_end();
}

Test(tier_lease, a_new_lease_on_the_key_is_another_one)
{
    UP_WITH_LONG_LEASES();
    get_lease(&holder, "graph");
    tier_rig_leave(&holder);
    take(TIER_RELEASE);
    struct tier_ask old = ask;
    get_lease(&waiter, "graph");
    cr_expect_neq(memcmp(old.token, lease.token, sizeof lease.token), 0);
    tier_rig_answer(&rig, &old, TIER_OK);
    put("graph");
    take(TIER_FINISH);
    answer(TIER_OK);
    await_end();
}

Test(tier_lease, a_release_follows_the_renewal_that_is_on_its_way)
{
    UP_WITH_LONG_LEASES();
    get_lease(&holder, "graph");
    let_renew("graph");
    take(TIER_RENEW);
    tier_rig_leave(&holder);
    uint64_t until = now() + 100; /* several ticks */
    TIER_RIG_AWAIT(&rig, now() > until);
    cr_expect_not(fake_helper_is_asked(&rig.helper), "the two could be taken in the wrong order");
    answer(TIER_OK);
    take(TIER_RELEASE);
    answer(TIER_OK);
    await_end();
}

Test(tier_lease, a_release_that_fails_is_sent_again)
{
    UP_WITH_LONG_LEASES();
    get_lease(&holder, "graph");
    tier_rig_leave(&holder);
    for (int i = 0; i < 2; i++) {
        take(TIER_RELEASE);
        answer(TIER_FAILED);
    }
    take(TIER_RELEASE);
    answer(TIER_OK);
    await_end();
}

Test(tier_lease, a_release_is_given_up_after_a_while)
{
    int n = 0;
    UP_WITH_LONG_LEASES();
    get_lease(&holder, "graph");
    tier_rig_leave(&holder);
    uint64_t began = now();
    for (; !tier_has_let_go(rig.tier); tier_rig_step(&rig))
        if (fake_helper_is_asked(&rig.helper)) {
            take(TIER_RELEASE);
            answer(TIER_FAILED);
            n++;
        }
    cr_expect_geq(now() - began, 4000u, "it ends by its time");
    cr_expect_gt(n, 1);
}

Test(tier_lease, a_lost_lease_is_not_given_back)
{
    UP_WITH_LONG_LEASES();
    get_lease(&holder, "graph");
    struct tier_lease *l = let_renew("graph");
    take(TIER_RENEW);
    answer(TIER_ABSENT);
    TIER_RIG_AWAIT(&rig, l->is_lost);
    cr_expect_str_eq(holder.seen, "WL", "the key is made all the same");
    tier_rig_leave(&holder);
    await_end(); /* and nothing is asked for: it is another's by now */
}

Test(tier_lease, an_entry_whose_lease_is_lost_is_sent_without_it)
{
    UP_WITH_LONG_LEASES();
    get_lease(&holder, "graph");
    struct tier_lease *l = let_renew("graph");
    take(TIER_RENEW);
    answer(TIER_ABSENT);
    TIER_RIG_AWAIT(&rig, l->is_lost);
    put("graph");
    ask = tier_rig_take(&rig, TIER_PUT);
    cr_expect_str_eq(ask.name, lease.name);
    answer(TIER_OK);
    await_end();
}

Test(tier_lease, an_entry_that_cannot_be_sent_gives_it_back_after_a_while)
{
    UP_WITH_LONG_LEASES();
    get_lease(&holder, "graph");
    put("graph");
    uint64_t offered = now();
    take(TIER_FINISH); /* it is not answered */
    struct tier_ask finish = ask;
    take(TIER_RELEASE);
    cr_expect_geq(now() - offered, 4900u);
    answer(TIER_OK);
    tier_rig_answer(&rig, &finish, TIER_OK);
    await_end();
}

Test(tier_lease, an_entry_that_is_not_worth_sending_gives_it_back)
{
    UP("tier_lease", "10m", "tier_min_cost", "1s");
    get_lease(&holder, "graph");
    tier_rig_put(&rig, "graph", view_of_text("the value"), 999);
    take(TIER_RELEASE);
    answer(TIER_OK);
    await_end();
}

Test(tier_lease, the_end_of_the_daemon_gives_all_back)
{
    struct tier_ask back[2];
    UP_WITH_LONG_LEASES();
    get_lease(&holder, "graph-1");
    struct tier_ask first = lease;
    get_lease(&waiter, "graph-2");
    cr_expect_not(service_owes_nothing(rig.service));
    service_shutdown(rig.service);
    for (int i = 0; i < 2; i++)
        back[i] = tier_rig_take(&rig, TIER_RELEASE);
    int one = memcmp(back[1].token, first.token, sizeof first.token) == 0;
    cr_expect_eq(memcmp(back[one].token, first.token, sizeof first.token), 0);
    cr_expect_eq(memcmp(back[!one].token, lease.token, sizeof lease.token), 0);
    for (int i = 0; i < 2; i++)
        tier_rig_answer(&rig, &back[i], TIER_OK);
    await_end();
    cr_expect(service_owes_nothing(rig.service));
}

Test(tier_lease, without_an_answer_the_daemon_ends_all_the_same)
{
    UP_WITH_LONG_LEASES();
    get_lease(&holder, "graph");
    service_shutdown(rig.service);
    take(TIER_RELEASE);
} /* the teardown expects that nothing is left */
