/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_call.c - a call alone, on a real service, flights and store: it is answered once, and after its end
 * nothing in the service points to it. The behaviour of its kind (struct call_ops) is the test's.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/service/internal.h"
#include "daemon/service/manifest.h"
#include "daemon/users/budget.h"
#include "tests/support/service.h"

static const struct peer alice = {.uid = 1000, .space = 1000};
static struct service_rig rig;

static void setup(void) { service_rig_up(&rig); }
static void teardown(void) { service_rig_down(&rig); }
TestSuite(call, .init = setup, .fini = teardown, .timeout = 120);

/* What happens to a call, a letter each. Answers: = VALUE, M MISS, F FAILED, E ERROR, W WAIT, C CHECK. Its kind:
 * l it holds the lease, r the flight's result, e the flight's error, d dropped, x dropped because it was
 * cancelled. */
struct told {
    struct call call; /* its first member */
    char seen[32];
    int code;           /* of E and e */
    uint32_t n_waiters; /* of W */
    size_t name_len;    /* that the last answer saw */
    bool ended, again;
    struct artifact *own; /* that its end releases */
};

static void note(struct call *call, char what)
{
    struct told *t = (struct told *)call;
    size_t n = strlen(t->seen);
    cr_assert_lt(n + 1, sizeof t->seen);
    t->seen[n] = what;
}

static void on_answer(struct call *call, const struct answer *a)
{
    static const char letters[] = {[ANSWER_VALUE] = '=', [ANSWER_MISS] = 'M', [ANSWER_FAILED] = 'F',
                                   [ANSWER_ERROR] = 'E', [ANSWER_WAIT] = 'W', [ANSWER_CHECK] = 'C'};
    struct told *t = (struct told *)call;
    cr_assert(a->kind < sizeof letters && letters[a->kind]);
    cr_assert_eq(call->answered, answer_is_last(a->kind));
    note(call, letters[a->kind]);
    t->name_len = call->name.len;
    t->code = a->err ? a->err->code : t->code;
    t->n_waiters = a->n_waiters;
    t->ended = answer_is_last(a->kind);
    if (a->artifact)
        cr_assert(a->artifact->len == 5 && memcmp(a->artifact->data, "bytes", 5) == 0);
}

static void on_lease(struct call *call) { note(call, 'l'); }

static void on_result(struct call *call, struct artifact *result)
{
    note(call, 'r');
    call_answer_artifact(call, result, WIRE_WAS_COALESCED);
}

static void on_error(struct call *call, const struct err *e)
{
    note(call, 'e');
    call_fail(call, e);
}

static void drop(struct call *call, bool cancelled)
{
    struct told *t = (struct told *)call;
    note(call, cancelled ? 'x' : 'd');
    artifact_unref(t->own);
    t->own = NULL;
}

static const struct call_ops ops = {STORE_TRITON, on_lease, on_result, on_error, drop};

static void init(struct told *t, const char *name)
{
    *t = (struct told){.call = {.service = rig.service,
                                .peer = &alice,
                                .on_answer = on_answer,
                                .ops = &ops,
                                .name = view_of_text(name),
                                .id = service_name_id(&alice, view_of_text(name)),
                                .ask = {.uid = alice.uid, .can_make = true, .lease_ms = 60000}}};
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

/* ---- answers ---- */

Test(call, the_last_answer_ends_the_call_before_the_wire_sees_it)
{
    struct told t;
    struct err e;
    err_set(&e, WARM_EIO, "so it is");
    init(&t, "name");
    call_join(&t.call);
    cr_assert_eq(n_flights(), 1u);
    call_fail(&t.call, &e);
    cr_assert_str_eq(t.seen, "ldE");
    cr_assert_eq(t.code, WARM_EIO);
    cr_assert_eq(t.call.ask.state, ASK_OUT);
    cr_assert_eq(n_flights(), 0u);
}

/* The memory of a name belongs to the frame, which is gone after the first answer. */
Test(call, the_name_is_forgotten_with_the_first_answer)
{
    struct told first, t;
    init(&first, "name");
    init(&t, "name");
    call_join(&first.call);
    cr_assert_eq(first.call.name.len, 4u);
    call_join(&t.call);
    cr_assert_str_eq(t.seen, "W");
    cr_assert_eq(t.name_len, 0u);
    cr_assert_null(t.call.name.data);
    cr_assert(t.call.waits && !first.call.waits);
    cr_assert_not(t.call.answered);
    call_drop(&t.call, false);
    call_drop(&first.call, false);
}

Test(call, a_compilers_refusal_is_an_answer_of_its_own)
{
    struct told good, bad;
    init(&good, "good");
    init(&bad, "bad");
    good.own = artifact_new(false);
    bad.own = artifact_new(true);
    call_answer_artifact(&good.call, good.own, WIRE_WAS_MISS);
    call_answer_artifact(&bad.call, bad.own, WIRE_WAS_MISS);
    cr_assert_str_eq(good.seen,
                     "d="); /* on_answer has read bytes that the end of the call released */
    cr_assert_str_eq(bad.seen, "dF");
}

Test(call, a_call_that_was_dropped_is_answered_nothing)
{
    struct told t, cancelled;
    init(&t, "name");
    init(&cancelled, "other");
    call_join(&t.call);
    call_join(&cancelled.call);
    call_drop(&t.call, false);
    call_drop(&cancelled.call, true);
    cr_assert_str_eq(t.seen, "ld");
    cr_assert_str_eq(cancelled.seen, "lx");
    cr_assert(t.call.answered && cancelled.call.answered);
    cr_assert_eq(n_flights(), 0u);
}

/* The wires drop calls that asked for nothing yet. */
Test(call, a_call_of_no_kind_can_be_dropped)
{
    struct told t;
    init(&t, "name");
    t.call.ops = NULL;
    call_drop(&t.call, false);
    cr_assert_str_eq(t.seen, "");
}

Test(call, after_its_end_nothing_points_to_a_call)
{
    for (int dropped = 0; dropped < 2; dropped++) {
        struct told t;
        init(&t, "name");
        struct call *preparing = &t.call, *waiting = &t.call, *putting = &t.call;
        t.call.preparing = &preparing;
        t.call.tier_wait = &waiting;
        t.call.putting = &putting;
        call_answer(&t.call, &(struct answer){.kind = ANSWER_WAIT, .n_waiters = 1});
        cr_assert(preparing && waiting && putting, "WAIT is not the end");
        if (dropped)
            call_drop(&t.call, false);
        else
            call_answer(&t.call, &(struct answer){.kind = ANSWER_MISS});
        cr_assert(!preparing && !waiting && !putting);
        cr_assert(!t.call.preparing && !t.call.tier_wait && !t.call.putting);
    }
}

Test(call, each_answer_is_counted_under_its_kind)
{
    struct told t;
    struct err e;
    struct stats *stats = service_stats(rig.service);
    err_set(&e, WARM_EIO, "so it is");
    init(&t, "triton:name");
    call_fail(&t.call, &e);
    cr_expect_eq(stats->now[STATS_errors][STORE_TRITON], 1u);
    init(&t, "triton:name");
    call_answer(&t.call, &(struct answer){.kind = ANSWER_MISS});
    cr_expect_eq(stats->now[STATS_misses][STORE_TRITON], 1u);
    init(&t, "triton:name");
    call_drop(&t.call, false);
    cr_expect_eq(stats->now[STATS_errors][STORE_TRITON], 1u);
    cr_expect_eq(stats->now[STATS_misses][STORE_TRITON], 1u);
}

/* ---- a manifest's files ---- */

Test(call, a_check_holds_the_manifest_and_the_candidate)
{
    struct told t;
    struct view path = view_of_text("/a.h");
    struct manifest_state state = {.absent = true};
    struct manifest_alternative alternative = {.maker = 1000};
    struct manifest *m = manifest_new(&path, &state, 1, &alternative);
    struct artifact *a = artifact_new(false);
    cr_assert_not_null(m);
    init(&t, "name");
    call_check(&t.call, m, a);
    cr_assert_str_eq(t.seen, "C");
    cr_assert_not(t.call.answered);
    cr_assert(t.call.checking == m && t.call.candidate == a);
    cr_assert(m->refs == 2 && a->refs == 2);
    call_uncheck(&t.call);
    cr_assert(!t.call.checking && !t.call.candidate);
    cr_assert(m->refs == 1 && a->refs == 1);
    call_check(&t.call, m, NULL);
    cr_assert_null(t.call.candidate);
    call_uncheck(&t.call);
    call_drop(&t.call, false);
    manifest_unref(m);
    artifact_unref(a);
}

/* ---- flights ---- */

Test(call, the_first_leads_and_the_next_ones_are_told_how_many_wait)
{
    struct told t[3];
    for (int i = 0; i < 3; i++) {
        init(&t[i], "name");
        call_join(&t[i].call);
    }
    cr_assert_str_eq(t[0].seen, "l");
    cr_assert_str_eq(t[1].seen, "W");
    cr_assert_str_eq(t[2].seen, "W");
    cr_assert_eq(t[1].n_waiters, 1u);
    cr_assert_eq(t[2].n_waiters, 2u);
    call_drop(&t[0].call, false);
    cr_assert_str_eq(t[1].seen, "Wl", "the lease is the next one's");
    call_drop(&t[1].call, false);
    call_drop(&t[2].call, false);
    cr_assert_eq(n_flights(), 0u);
}

Test(call, another_proof_is_another_flight)
{
    struct told one, other;
    init(&one, "name");
    init(&other, "name");
    other.call.proof.bytes[0] = 1;
    call_join(&one.call);
    call_join(&other.call);
    cr_assert_str_eq(one.seen, "l");
    cr_assert_str_eq(other.seen, "l");
    call_drop(&one.call, false);
    call_drop(&other.call, false);
}

Test(call, the_result_of_a_flight_is_its_calls_result)
{
    struct told leader, t;
    struct artifact *a = artifact_new(false);
    init(&leader, "name");
    init(&t, "name");
    call_join(&leader.call);
    call_join(&t.call);
    flight_finish(t.call.ask.flight, a, NULL, FLIGHT_TO_ALL, false, now());
    cr_assert_str_eq(leader.seen, "lrd=");
    cr_assert_str_eq(t.seen, "Wrd=");
    cr_assert_eq(a->refs, 1u);
    artifact_unref(a);
}

Test(call, the_error_of_a_flight_is_its_calls_error)
{
    struct told leader, t;
    struct err e;
    err_set(&e, WARM_ECRASHED, "so it is");
    init(&leader, "name");
    init(&t, "name");
    call_join(&leader.call);
    call_join(&t.call);
    flight_fail(t.call.ask.flight, &e, now());
    cr_assert_str_eq(leader.seen, "ledE");
    cr_assert_str_eq(t.seen, "WedE");
    cr_assert_eq(t.code, WARM_ECRASHED);
}

Test(call, an_asker_that_cannot_make_it_misses_if_nobody_does)
{
    struct told t;
    init(&t, "name");
    t.call.ask.can_make = false;
    call_join(&t.call);
    cr_assert_str_eq(t.seen, "dM");
    cr_assert_eq(n_flights(), 0u);
}

Test(call, a_wait_that_is_too_long_ends_by_the_services_own_timer)
{
    struct told leader, t;
    init(&leader, "name");
    init(&t, "name");
    call_join(&leader.call);
    t.call.ask.expires_ms = now() + 1;
    call_join(&t.call);
    service_rig_until(&rig, &t.ended);
    cr_assert_str_eq(t.seen, "WedE");
    cr_assert_eq(t.code, WARM_ETIMEOUT);
    call_drop(&leader.call, false);
}

Test(call, a_daemon_that_stops_lets_nobody_wait)
{
    struct told t;
    service_shutdown(rig.service);
    init(&t, "name");
    call_join(&t.call);
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

static void on_prepared(struct call *call) { ((struct told *)call)->again = true; }

static void until_nothing_is_prepared(void)
{
    for (bool done = false; !done; done = rig.service->n_preparing == 0) {
        uv_run(&rig.loop, UV_RUN_ONCE);
        service_poll(rig.service);
    }
}

Test(call, a_large_value_is_verified_once_for_a_call)
{
    struct told t;
    put_large("large");
    init(&t, "large");
    cr_assert(call_prepare(&t.call, &t.call.id, on_prepared));
    cr_assert_eq(rig.service->n_preparing, 1u);
    cr_assert_eq(budget_used(alice.uid, BUDGET_checks), 1u);
    cr_assert_not(t.again, "never at once");
    service_rig_until(&rig, &t.again);
    cr_assert_null(t.call.preparing);
    cr_assert_eq(rig.service->n_preparing, 0u);
    cr_assert_eq(budget_used(alice.uid, BUDGET_checks), 0u);
    cr_assert_not(call_prepare(&t.call, &t.call.id, on_prepared));
    cr_assert_eq(budget_used(alice.uid, BUDGET_checks), 0u);
    call_drop(&t.call, false);
}

Test(call, a_call_that_ended_meanwhile_does_not_go_on)
{
    struct told t;
    put_large("large");
    init(&t, "large");
    cr_assert(call_prepare(&t.call, &t.call.id, on_prepared));
    call_drop(&t.call, false);
    until_nothing_is_prepared();
    cr_assert_not(t.again);
    cr_assert_eq(budget_used(alice.uid, BUDGET_checks), 0u);
}

Test(call, nothing_is_verified_above_the_budget_or_without_an_entry)
{
    struct told t;
    init(&t, "absent");
    cr_assert_not(call_prepare(&t.call, &t.call.id, on_prepared));
    cr_assert_eq(budget_used(alice.uid, BUDGET_checks), 0u);
    put_large("large");
    init(&t, "large");
    budget_set(BUDGET_checks, 1, 0);
    cr_assert(budget_take(alice.uid, BUDGET_checks, 1));
    cr_assert_not(call_prepare(&t.call, &t.call.id, on_prepared));
    cr_assert_eq(budget_used(alice.uid, BUDGET_checks), 1u);
    cr_assert_eq(rig.service->n_preparing, 0u);
    budget_give(alice.uid, BUDGET_checks, 1);
    cr_assert(call_prepare(&t.call, &t.call.id, on_prepared), "the call may try again");
    service_rig_until(&rig, &t.again);
    call_drop(&t.call, false);
}
