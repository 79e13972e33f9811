/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_ask.c - an ask alone, on a real service, flights and store: it is answered once, and after its end
 * nothing in the service points to it. The behaviour of its kind (struct ask_ops) is the test's.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/headers/manifest.h"
#include "daemon/service/internal.h"
#include "daemon/users/budget.h"
#include "tests/support/service.h"

static const struct peer alice = {.uid = 1000, .space = 1000};
static struct service_rig rig;

static void setup(void) { service_rig_up(&rig); }
static void teardown(void) { service_rig_down(&rig); }
TestSuite(ask, .init = setup, .fini = teardown, .timeout = 120);

/* What happens to an ask, a letter each. Answers: = VALUE, M MISS, F FAILED, E ERROR, W WAIT, C CHECK. Its kind:
 * l it holds the lease, r the flight's result, e the flight's error, d dropped, x dropped because it was
 * cancelled. */
struct told {
    struct ask ask; /* its first member */
    char seen[32];
    int code;           /* of E and e */
    uint32_t n_waiters; /* of W */
    size_t name_len;    /* that the last answer saw */
    bool ended, again;
    struct artifact *own; /* that its end releases */
};

static void note(struct ask *ask, char what)
{
    struct told *t = (struct told *)ask;
    size_t n = strlen(t->seen);
    cr_assert_lt(n + 1, sizeof t->seen);
    t->seen[n] = what;
}

static void on_answer(struct ask *ask, const struct answer *a)
{
    static const char letters[] = {[ANSWER_VALUE] = '=', [ANSWER_MISS] = 'M', [ANSWER_FAILED] = 'F',
                                   [ANSWER_ERROR] = 'E', [ANSWER_WAIT] = 'W', [ANSWER_CHECK] = 'C'};
    struct told *t = (struct told *)ask;
    cr_assert(a->kind < sizeof letters && letters[a->kind]);
    cr_assert_eq(ask->answered, answer_is_last(a->kind));
    note(ask, letters[a->kind]);
    t->name_len = ask->name.len;
    t->code = a->err ? a->err->code : t->code;
    t->n_waiters = a->n_waiters;
    t->ended = answer_is_last(a->kind);
    if (a->artifact)
        cr_assert(a->artifact->len == 5 && memcmp(a->artifact->data, "bytes", 5) == 0);
}

static void on_lease(struct ask *ask) { note(ask, 'l'); }

static void on_result(struct ask *ask, struct artifact *result)
{
    note(ask, 'r');
    ask_found(ask, &(struct answer){.artifact = result, .outcome = WIRE_WAS_COALESCED});
}

static void on_error(struct ask *ask, const struct err *e)
{
    note(ask, 'e');
    ask_fail(ask, e);
}

static void drop(struct ask *ask, bool cancelled)
{
    struct told *t = (struct told *)ask;
    note(ask, cancelled ? 'x' : 'd');
    artifact_unref(t->own);
    t->own = NULL;
}

static const struct ask_ops ops = {.kind = STORE_TRITON,
                                   .sources = {try_maker},
                                   .on_lease = on_lease,
                                   .on_result = on_result,
                                   .on_error = on_error,
                                   .drop = drop};

static void init(struct told *t, const char *name)
{
    *t = (struct told){.ask = {.service = rig.service,
                               .peer = &alice,
                               .on_answer = on_answer,
                               .ops = &ops,
                               .joins = true,
                               .name = view_of_text(name),
                               .id = service_name_id(&alice, view_of_text(name)),
                               .waiter = {.uid = alice.uid, .can_make = true, .lease_ms = 60000}}};
}

static struct artifact *artifact_new(bool failed)
{
    struct artifact *a = artifact_from_bytes("bytes", 5);
    cr_assert_not_null(a);
    a->failed = failed;
    return a;
}

static unsigned n_flights(void) { return flights_count(rig.service->flights); }
static uint64_t now(void) { return service_now_ms(rig.service); }

/* ---- the rows ---- */

static bool has(const struct ask_ops *kind, source_try s)
{
    bool found = false;
    for (size_t i = 0; i < SOURCES_MAX; i++)
        found |= kind->sources[i] == s;
    return found;
}

/* Only the daemon's compiler makes what a COMPILE or its child gets: a claimed value may be anything. */
Test(ask, a_compile_and_its_child_never_see_a_peers_own_space)
{
    cr_expect(!has(&ask_for_compile, try_own) && !has(&ask_of_child, try_own));
    cr_expect(ask_for_compile.sources[0] == try_made && ask_of_child.sources[0] == try_made);
    cr_expect(!has(&ask_of_child, try_flight), "its flights are those of children alone");
    cr_expect(ask_of_child.is_child && !ask_for_compile.is_child);
}

Test(ask, a_name_is_looked_up_in_its_users_space_alone_and_a_key_has_no_maker)
{
    const struct ask_ops *named[] = {&ask_for_name, &ask_of_rank, &ask_of_ranks};
    for (size_t i = 0; i < 3; i++)
        cr_expect(has(named[i], try_own) && !has(named[i], try_made) && has(named[i], try_maker));
    cr_expect(has(&ask_for_key, try_own) && !has(&ask_for_key, try_maker));
}

Test(ask, ranks_of_one_machine_never_ask_the_tier_and_those_of_several_ask_it_first)
{
    cr_expect_not(has(&ask_of_rank, try_tier));
    cr_expect(ask_of_ranks.sources[0] == try_tier);
    cr_expect(ask_for_name.sources[0] == try_own && ask_for_key.sources[0] == try_own);
}

/* What alice claims under a key of hers is in no flight of another user, whatever the proof says. */
Test(ask, a_claimed_value_comes_into_no_flight_of_another_user)
{
    static const struct peer bob = {.uid = 1001, .space = 1001};
    struct told hers, his;
    init(&hers, "name");
    init(&his, "name");
    his.ask.peer = &bob;
    his.ask.id = service_name_id(&bob, view_of_text("name"));
    ask_step(&hers.ask);
    ask_step(&his.ask);
    cr_assert_str_eq(his.seen, "l", "he waits for nobody");
    cr_assert_eq(service_rig_put(&rig, &alice, service_rig_text("name", "bytes")), 0);
    cr_assert_str_eq(his.seen, "l");
    ask_drop(&his.ask, false);
    if (!hers.ask.answered)
        ask_drop(&hers.ask, false);
}

/* ---- answers ---- */

Test(ask, the_last_answer_ends_the_ask_before_the_wire_sees_it)
{
    struct told t;
    struct err e;
    err_set(&e, WARM_EIO, "so it is");
    init(&t, "name");
    ask_step(&t.ask);
    cr_assert_eq(n_flights(), 1u);
    ask_fail(&t.ask, &e);
    cr_assert_str_eq(t.seen, "ldE");
    cr_assert_eq(t.code, WARM_EIO);
    cr_assert_eq(t.ask.waiter.state, WAITER_OUT);
    cr_assert_eq(n_flights(), 0u);
}

/* The memory of a name belongs to the frame, which is gone after the first answer. */
Test(ask, the_name_is_forgotten_with_the_first_answer)
{
    struct told first, t;
    init(&first, "name");
    init(&t, "name");
    ask_step(&first.ask);
    cr_assert_eq(first.ask.name.len, 4u);
    ask_step(&t.ask);
    cr_assert_str_eq(t.seen, "W");
    cr_assert_eq(t.name_len, 0u);
    cr_assert_null(t.ask.name.data);
    cr_assert(t.ask.waits && !first.ask.waits);
    cr_assert_not(t.ask.answered);
    ask_drop(&t.ask, false);
    ask_drop(&first.ask, false);
}

Test(ask, a_compilers_refusal_is_an_answer_of_its_own)
{
    struct told good, bad;
    init(&good, "good");
    init(&bad, "bad");
    good.own = artifact_new(false);
    bad.own = artifact_new(true);
    ask_found(&good.ask, &(struct answer){.artifact = good.own, .outcome = WIRE_WAS_MISS});
    ask_found(&bad.ask, &(struct answer){.artifact = bad.own, .outcome = WIRE_WAS_MISS});
    cr_assert_str_eq(good.seen,
                     "d="); /* on_answer has read bytes that the end of the ask released */
    cr_assert_str_eq(bad.seen, "dF");
}

Test(ask, an_ask_that_was_dropped_is_answered_nothing)
{
    struct told t, cancelled;
    init(&t, "name");
    init(&cancelled, "other");
    ask_step(&t.ask);
    ask_step(&cancelled.ask);
    ask_drop(&t.ask, false);
    ask_drop(&cancelled.ask, true);
    cr_assert_str_eq(t.seen, "ld");
    cr_assert_str_eq(cancelled.seen, "lx");
    cr_assert(t.ask.answered && cancelled.ask.answered);
    cr_assert_eq(n_flights(), 0u);
}

/* The wires drop asks that asked for nothing yet. */
Test(ask, an_ask_of_no_kind_can_be_dropped)
{
    struct told t;
    init(&t, "name");
    t.ask.ops = NULL;
    ask_drop(&t.ask, false);
    cr_assert_str_eq(t.seen, "");
}

Test(ask, after_its_end_nothing_points_to_an_ask)
{
    for (int dropped = 0; dropped < 2; dropped++) {
        struct told t;
        init(&t, "name");
        struct ask *preparing = &t.ask, *waiting = &t.ask, *putting = &t.ask;
        t.ask.preparing = &preparing;
        t.ask.tier_wait = &waiting;
        t.ask.putting = &putting;
        ask_answer(&t.ask, &(struct answer){.kind = ANSWER_WAIT, .n_waiters = 1});
        cr_assert(preparing && waiting && putting, "WAIT is not the end");
        if (dropped)
            ask_drop(&t.ask, false);
        else
            ask_answer(&t.ask, &(struct answer){.kind = ANSWER_MISS});
        cr_assert(!preparing && !waiting && !putting);
        cr_assert(!t.ask.preparing && !t.ask.tier_wait && !t.ask.putting);
    }
}

Test(ask, each_answer_is_counted_under_its_kind)
{
    struct told t;
    struct err e;
    struct stats *stats = service_stats(rig.service);
    err_set(&e, WARM_EIO, "so it is");
    init(&t, "triton:name");
    ask_fail(&t.ask, &e);
    cr_expect_eq(stats->now[STATS_errors][STORE_TRITON], 1u);
    init(&t, "triton:name");
    ask_answer(&t.ask, &(struct answer){.kind = ANSWER_MISS});
    cr_expect_eq(stats->now[STATS_misses][STORE_TRITON], 1u);
    init(&t, "triton:name");
    ask_drop(&t.ask, false);
    cr_expect_eq(stats->now[STATS_errors][STORE_TRITON], 1u);
    cr_expect_eq(stats->now[STATS_misses][STORE_TRITON], 1u);
}

/* ---- a manifest's files ---- */

Test(ask, a_check_holds_the_manifest_and_the_candidate)
{
    struct told t;
    struct view path = view_of_text("/a.h");
    struct manifest_state state = {.absent = true};
    struct manifest_alternative alternative = {.maker = 1000};
    struct manifest *m = manifest_new(&path, &state, 1, &alternative);
    struct artifact *a = artifact_new(false);
    cr_assert_not_null(m);
    init(&t, "name");
    ask_check(&t.ask, m, a);
    cr_assert_str_eq(t.seen, "C");
    cr_assert_not(t.ask.answered);
    cr_assert(t.ask.checking == m && t.ask.candidate == a);
    cr_assert(m->refs == 2 && a->refs == 2);
    ask_uncheck(&t.ask);
    cr_assert(!t.ask.checking && !t.ask.candidate);
    cr_assert(m->refs == 1 && a->refs == 1);
    ask_check(&t.ask, m, NULL);
    cr_assert_null(t.ask.candidate);
    ask_uncheck(&t.ask);
    ask_drop(&t.ask, false);
    manifest_unref(m);
    artifact_unref(a);
}

/* ---- flights ---- */

Test(ask, the_first_leads_and_the_next_ones_are_told_how_many_wait)
{
    struct told t[3];
    for (int i = 0; i < 3; i++) {
        init(&t[i], "name");
        ask_step(&t[i].ask);
    }
    cr_assert_str_eq(t[0].seen, "l");
    cr_assert_str_eq(t[1].seen, "W");
    cr_assert_str_eq(t[2].seen, "W");
    cr_assert_eq(t[1].n_waiters, 1u);
    cr_assert_eq(t[2].n_waiters, 2u);
    ask_drop(&t[0].ask, false);
    cr_assert_str_eq(t[1].seen, "Wl", "the lease is the next one's");
    ask_drop(&t[1].ask, false);
    ask_drop(&t[2].ask, false);
    cr_assert_eq(n_flights(), 0u);
}

Test(ask, another_proof_is_another_flight)
{
    struct told one, other;
    init(&one, "name");
    init(&other, "name");
    other.ask.proof.bytes[0] = 1;
    ask_step(&one.ask);
    ask_step(&other.ask);
    cr_assert_str_eq(one.seen, "l");
    cr_assert_str_eq(other.seen, "l");
    ask_drop(&one.ask, false);
    ask_drop(&other.ask, false);
}

Test(ask, the_result_of_a_flight_is_its_asks_result)
{
    struct told leader, t;
    struct artifact *a = artifact_new(false);
    init(&leader, "name");
    init(&t, "name");
    ask_step(&leader.ask);
    ask_step(&t.ask);
    flight_finish(t.ask.waiter.flight, a, NULL, FLIGHT_TO_ALL, false, now());
    cr_assert_str_eq(leader.seen, "lrd=");
    cr_assert_str_eq(t.seen, "Wrd=");
    cr_assert_eq(a->refs, 1u);
    artifact_unref(a);
}

Test(ask, the_error_of_a_flight_is_its_asks_error)
{
    struct told leader, t;
    struct err e;
    err_set(&e, WARM_ECRASHED, "so it is");
    init(&leader, "name");
    init(&t, "name");
    ask_step(&leader.ask);
    ask_step(&t.ask);
    flight_fail(t.ask.waiter.flight, &e, now());
    cr_assert_str_eq(leader.seen, "ledE");
    cr_assert_str_eq(t.seen, "WedE");
    cr_assert_eq(t.code, WARM_ECRASHED);
}

Test(ask, an_asker_that_cannot_make_it_misses_if_nobody_does)
{
    struct told t;
    init(&t, "name");
    t.ask.waiter.can_make = false;
    ask_step(&t.ask);
    cr_assert_str_eq(t.seen, "dM");
    cr_assert_eq(n_flights(), 0u);
}

Test(ask, a_wait_that_is_too_long_ends_by_the_services_own_timer)
{
    struct told leader, t;
    init(&leader, "name");
    init(&t, "name");
    ask_step(&leader.ask);
    t.ask.waiter.expires_ms = now() + 1;
    ask_step(&t.ask);
    service_rig_until(&rig, &t.ended);
    cr_assert_str_eq(t.seen, "WedE");
    cr_assert_eq(t.code, WARM_ETIMEOUT);
    ask_drop(&leader.ask, false);
}

Test(ask, a_daemon_that_stops_lets_nobody_wait)
{
    struct told t;
    service_shutdown(rig.service);
    init(&t, "name");
    ask_step(&t.ask);
    cr_assert_str_eq(t.seen, "dE");
    cr_assert_eq(t.code, WARM_ESHUTDOWN);
    cr_assert_eq(n_flights(), 0u);
}

/* ---- large values ---- */

/* Stores a value that the store verifies on another thread. */
static void put_large(const char *name)
{
    size_t len = SERVICE_CHECK_MAX + 1;
    struct err e;
    struct service_put put = service_rig_text(name, "");
    char *bytes = calloc(1, len);
    cr_assert_not_null(bytes);
    cr_assert_eq(memfd_from_bytes(bytes, len, &put.fd, &e), 0, "%s", e.text);
    free(bytes);
    put.data = NULL;
    put.len = len;
    put.is_ours = true;
    cr_assert_eq(service_rig_put(&rig, &alice, put), 0);
}

/* The source that the ask goes on with. */
static enum step go_on(struct ask *ask, struct look *look)
{
    (void)look;
    ((struct told *)ask)->again = true;
    return STEP_LATER;
}

static const struct ask_ops verified = {.kind = STORE_TRITON, .sources = {go_on}};

static void until_nothing_is_prepared(void)
{
    for (bool done = false; !done; done = rig.service->n_preparing == 0) {
        uv_run(&rig.loop, UV_RUN_ONCE);
        service_poll(rig.service);
    }
}

Test(ask, a_large_value_is_verified_once_for_an_ask)
{
    struct told t;
    put_large("large");
    init(&t, "large");
    t.ask.ops = &verified;
    cr_assert(ask_prepare(&t.ask, &t.ask.id));
    cr_assert_eq(rig.service->n_preparing, 1u);
    cr_assert_eq(budget_used(alice.uid, BUDGET_checks), 1u);
    cr_assert_not(t.again, "never at once");
    service_rig_until(&rig, &t.again);
    cr_assert_null(t.ask.preparing);
    cr_assert_eq(rig.service->n_preparing, 0u);
    cr_assert_eq(budget_used(alice.uid, BUDGET_checks), 0u);
    cr_assert_not(ask_prepare(&t.ask, &t.ask.id));
    cr_assert_eq(budget_used(alice.uid, BUDGET_checks), 0u);
    ask_drop(&t.ask, false);
}

Test(ask, an_ask_that_ended_meanwhile_does_not_go_on)
{
    struct told t;
    put_large("large");
    init(&t, "large");
    t.ask.ops = &verified;
    cr_assert(ask_prepare(&t.ask, &t.ask.id));
    ask_drop(&t.ask, false);
    until_nothing_is_prepared();
    cr_assert_not(t.again);
    cr_assert_eq(budget_used(alice.uid, BUDGET_checks), 0u);
}

Test(ask, nothing_is_verified_above_the_budget_or_without_an_entry)
{
    struct told t;
    init(&t, "absent");
    t.ask.ops = &verified;
    cr_assert_not(ask_prepare(&t.ask, &t.ask.id));
    cr_assert_eq(budget_used(alice.uid, BUDGET_checks), 0u);
    put_large("large");
    init(&t, "large");
    t.ask.ops = &verified;
    budget_set(BUDGET_checks, 1, 0);
    cr_assert(budget_take(alice.uid, BUDGET_checks, 1));
    cr_assert_not(ask_prepare(&t.ask, &t.ask.id));
    cr_assert_eq(budget_used(alice.uid, BUDGET_checks), 1u);
    cr_assert_eq(rig.service->n_preparing, 0u);
    budget_give(alice.uid, BUDGET_checks, 1);
    cr_assert(ask_prepare(&t.ask, &t.ask.id), "the ask may try again");
    service_rig_until(&rig, &t.again);
    ask_drop(&t.ask, false);
}
