/* SPDX-License-Identifier: Apache-2.0 */
/* test_flight.c - the life of flights, with a clock that the test turns. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "daemon/service/flight.h"

/* An asker that notes its answers, in one line for all askers. */
struct asker {
    struct waiter ask;
    char name;
    struct asker *leaves; /* who leaves when this one is told its result */
};

static char heard[256];
static unsigned n_hedges;
static struct flights *flights;
static const struct store_id id = {1, {{1, 2, 3}}};
static const struct proof proof = {{9}};

static void hear(const struct waiter *ask, const char *what)
{
    const struct asker *a = (const struct asker *)ask;
    size_t at = strlen(heard);
    snprintf(heard + at, sizeof heard - at, "%c:%s ", a->name, what);
}

static void on_hold(struct waiter *ask) { hear(ask, "turn"); }
static void on_result(struct waiter *ask, struct artifact *result)
{
    struct asker *a = (struct asker *)ask;
    cr_assert_eq(ask->state, WAITER_OUT);
    cr_assert_eq(result->len, 1);
    hear(ask, "result");
    if (a->leaves)
        flight_leave(&a->leaves->ask, 0);
}
static void on_error(struct waiter *ask, const struct err *e)
{
    cr_assert_eq(ask->state, WAITER_OUT);
    hear(ask, err_name(e->code));
}
static const struct waiter_ops ops = {on_hold, on_result, on_error};

static void on_hedge(void *arg)
{
    (void)arg;
    n_hedges++;
}

static struct asker asker(char name)
{
    return (struct asker){
        .ask = {.ops = &ops, .can_make = true, .lease_ms = 100, .expires_ms = 10000}, .name = name};
}

static int join(struct asker *a, uint64_t now_ms)
{
    return flight_join(flights, &id, &proof, &a->ask, now_ms, NULL);
}

static struct artifact *artifact(void) { return artifact_from_bytes("x", 1); }

static void setup(void)
{
    heard[0] = '\0';
    n_hedges = 0;
    flights = flights_new(on_hedge, NULL);
}

static void teardown(void)
{
    cr_assert_eq(flights_count(flights), 0, "a flight was left over");
    flights_free(flights);
}
TestSuite(flight, .init = setup, .fini = teardown);

Test(flight, first_has_the_turn_and_the_others_wait)
{
    struct asker a = asker('a'), b = asker('b');
    cr_assert_eq(join(&a, 0), FLIGHT_LEADS);
    cr_assert_eq(join(&b, 0), FLIGHT_WAIT);
    cr_assert_neq(a.ask.token, 0);
    flight_leave(&b.ask, 0);
    flight_leave(&a.ask, 0);
    cr_assert_str_eq(heard, "");
}

Test(flight, late_joiner_gets_same_artifact)
{
    struct asker a = asker('a'), b = asker('b');
    struct artifact *made = artifact();
    cr_assert_eq(join(&a, 0), FLIGHT_LEADS);
    struct flight *f = flight_find(flights, &id, &proof);
    flight_finish(f, made, NULL, FLIGHT_TO_ALL, true, 0);
    cr_assert_str_eq(heard, "a:result ");
    f = flight_find(flights, &id, &proof);
    cr_assert_eq(flight_result(f), made);
    cr_assert_eq(join(&b, 0), FLIGHT_LEADS); /* who does not want the result may make it anew */
    flight_leave(&b.ask, 0);
    flight_stored(f, 0);
    cr_assert_null(flight_find(flights, &id, &proof));
    artifact_unref(made);
}

Test(flight, list_names_the_maker_and_counts_the_waiters)
{
    struct asker a = asker('a'), b = asker('b'), c = asker('c');
    struct flight_brief list[2];
    a.ask.uid = 1, b.ask.uid = c.ask.uid = 2;
    cr_assert_eq(flights_list(flights, -1, list, 2, 0), 0);
    join(&a, 10), join(&b, 20), join(&c, 30);
    cr_assert_eq(flights_list(flights, -1, list, 2, 60), 1);
    cr_assert(store_id_equal(&list[0].id, &id));
    cr_assert(list[0].maker == 1 && !list[0].is_built && list[0].n_waiters == 2);
    cr_assert_eq(list[0].age_ms, 50);
    cr_assert_eq(flights_list(flights, 2, list, 2, 60), 1, "who waits sees it");
    cr_assert_eq(flights_list(flights, 3, list, 2, 60), 0, "others do not");
    cr_assert_eq(flights_list(flights, -1, list, 0, 60), 0);
    struct making m = {0};
    flight_make(&a.ask, &m);
    m.uid = 1;
    cr_assert(flights_list(flights, 1, list, 2, 60) == 1 && list[0].is_built);
    flight_unmake(&m, 60);
    flight_leave(&c.ask, 60), flight_leave(&b.ask, 60), flight_leave(&a.ask, 60);
}

Test(flight, next_waiter_has_the_turn_when_the_holder_leaves)
{
    struct asker a = asker('a'), b = asker('b'), c = asker('c');
    join(&a, 0);
    join(&b, 0);
    join(&c, 0);
    flight_leave(&a.ask, 0);
    cr_assert_str_eq(heard, "b:turn ");
    flight_leave(&b.ask, 0);
    cr_assert_str_eq(heard, "b:turn c:turn ");
    flight_leave(&c.ask, 0);
}

Test(flight, who_cannot_make_it_is_told_when_nobody_does)
{
    struct asker a = asker('a'), b = asker('b');
    b.ask.can_make = false;
    cr_assert_eq(join(&b, 0), FLIGHT_NONE);
    join(&a, 0);
    cr_assert_eq(join(&b, 0), FLIGHT_WAIT);
    flight_leave(&a.ask, 0);
    cr_assert_str_eq(heard, "b:NOT_FOUND ");
}

Test(flight, a_stalled_holder_is_hedged_once_and_first_result_serves_all)
{
    struct asker a = asker('a'), b = asker('b'), c = asker('c');
    join(&a, 0);
    join(&b, 0);
    join(&c, 0);
    flights_tick(flights, 99);
    cr_assert_str_eq(heard, "");
    flights_tick(flights, 100);
    cr_assert_str_eq(heard, "b:turn ");
    flights_tick(flights, 150);
    cr_assert_str_eq(heard, "b:turn ");
    struct artifact *made = artifact();
    flight_finish(flight_find(flights, &id, &proof), made, NULL, FLIGHT_TO_ALL, false, 0);
    cr_assert_str_eq(heard, "b:turn a:result b:result c:result ");
    cr_assert_eq(n_hedges, 1);
    artifact_unref(made);
}

Test(flight, others_wait_for_a_holder_that_makes_progress_and_not_long_for_one_that_does_not)
{
    struct asker a = asker('a'), b = asker('b'), c = asker('c');
    a.ask.lease_ms = 10 * FLIGHT_RENEWAL_MS;
    a.ask.expires_ms = b.ask.expires_ms = c.ask.expires_ms = 100 * FLIGHT_RENEWAL_MS;
    join(&a, 0);
    join(&b, 0);
    uint64_t now = 0;
    for (; now < 20 * FLIGHT_RENEWAL_MS; now += FLIGHT_RENEWAL_MS / 2) {
        flight_renew(&a.ask, now);
        flight_renew(&b.ask, now); /* it holds no lease */
        flights_tick(flights, now);
    }
    cr_assert_eq(join(&c, now), FLIGHT_WAIT);
    cr_assert_str_eq(heard, "");
    flights_tick(flights, now + FLIGHT_RENEWAL_MS);
    cr_assert_str_eq(heard, "b:turn ");
    flight_leave(&c.ask, now);
    flight_leave(&b.ask, now);
    flight_leave(&a.ask, now);
}

Test(flight, who_comes_when_the_holder_is_overdue_has_the_turn_at_once)
{
    struct asker a = asker('a'), b = asker('b'), c = asker('c');
    join(&a, 0);
    cr_assert_eq(join(&b, 200), FLIGHT_LEADS);
    cr_assert_eq(join(&c, 201), FLIGHT_WAIT);
    flight_leave(&a.ask, 201); /* b still holds */
    cr_assert_str_eq(heard, "");
    flight_leave(&b.ask, 201);
    cr_assert_str_eq(heard, "c:turn ");
    flight_leave(&c.ask, 201);
}

Test(flight, waits_end_at_their_deadline)
{
    struct asker a = asker('a'), b = asker('b');
    b.ask.expires_ms = 50;
    join(&a, 0);
    join(&b, 0);
    cr_assert(flights_tick(flights, 50));
    cr_assert_str_eq(heard, "b:TIMEOUT ");
    flight_leave(&a.ask, 50);
    cr_assert_not(flights_tick(flights, 60));
}

Test(flight, a_compile_outlives_its_leader_and_everybody_else)
{
    struct asker a = asker('a'), b = asker('b');
    struct making m;
    join(&a, 0);
    struct flight *f = a.ask.flight;
    flight_make(&a.ask, &m);
    cr_assert_eq(join(&b, 0), FLIGHT_WAIT);
    flight_leave(&a.ask, 0);
    cr_assert_null(m.waiter);
    flight_leave(&b.ask, 0);
    cr_assert_str_eq(heard, "");
    struct artifact *made = artifact();
    flight_finish(f, made, &m, FLIGHT_TO_ALL, true, 0);
    flight_unmake(&m, 0);
    flight_stored(f, 0);
    artifact_unref(made);
}

Test(flight, a_compile_without_result_passes_the_turn_on)
{
    struct asker a = asker('a'), b = asker('b');
    struct making m;
    join(&a, 0);
    flight_make(&a.ask, &m);
    join(&b, 0);
    flight_leave(&a.ask, 0);
    flight_unmake(&m, 0);
    cr_assert_str_eq(heard, "b:turn ");
    flight_leave(&b.ask, 0);
}

Test(flight, a_result_for_the_leader_alone_leaves_the_others_waiting)
{
    struct asker a = asker('a'), b = asker('b');
    struct making m;
    join(&a, 0);
    struct flight *f = a.ask.flight;
    flight_make(&a.ask, &m);
    join(&b, 0);
    struct artifact *made = artifact();
    flight_finish(f, made, &m, FLIGHT_TO_MAKER, false, 0);
    cr_assert_str_eq(heard, "a:result ");
    flight_unmake(&m, 0);
    cr_assert_str_eq(heard, "a:result b:turn ");
    flight_leave(&b.ask, 0);
    artifact_unref(made);
}

/* ---- several users ---- */

/* Of a user; waits for others until `hedge_at_ms`. */
static struct asker asker_of(char name, uint32_t uid, uint64_t hedge_at_ms)
{
    struct asker a = asker(name);
    a.ask.uid = uid;
    a.ask.hedge_at_ms = hedge_at_ms;
    return a;
}

Test(flight, a_user_waits_for_another_ones_compile_until_its_time_has_come)
{
    struct asker a = asker_of('a', 1, 20), b = asker_of('b', 2, 30), c = asker_of('c', 2, 31);
    struct making of_a, of_b;
    join(&a, 0);
    struct flight *f = a.ask.flight;
    flight_make(&a.ask, &of_a);
    cr_assert_eq(join(&b, 1), FLIGHT_WAIT);
    cr_assert_eq(join(&c, 1), FLIGHT_WAIT);
    flights_tick(flights, 29);
    cr_assert_str_eq(heard, "");
    flights_tick(flights, 31);
    flights_tick(flights, 32);
    cr_assert_str_eq(heard, "b:turn ", "one of a user is enough");
    flight_make(&b.ask, &of_b);
    flights_tick(flights, 33);
    cr_assert_str_eq(heard, "b:turn ");
    cr_assert_eq(n_hedges, 1);
    struct artifact *made = artifact();
    flight_finish(f, made, &of_b, FLIGHT_TO_ALL, false, 34);
    cr_assert_str_eq(heard, "b:turn a:result b:result c:result ");
    flight_unmake(&of_b, 34);
    flight_unmake(&of_a, 34);
    artifact_unref(made);
}

Test(flight, whoever_comes_back_after_its_time_has_come_has_the_turn_at_once)
{
    struct asker a = asker_of('a', 1, 20), b = asker_of('b', 2, 30);
    struct making m;
    join(&a, 0);
    flight_make(&a.ask, &m);
    cr_assert_eq(join(&b, 31), FLIGHT_LEADS);
    flight_leave(&b.ask, 31);
    flight_leave(&a.ask, 31);
    flight_unmake(&m, 31);
}

Test(flight, a_result_that_depends_on_files_leaves_other_attempts_alone)
{
    struct asker a = asker_of('a', 1, 20), b = asker_of('b', 2, 20), c = asker_of('c', 3, 50);
    struct making of_a, of_b;
    join(&a, 0);
    struct flight *f = a.ask.flight;
    flight_make(&a.ask, &of_a);
    join(&b, 20);
    flight_make(&b.ask, &of_b);
    join(&c, 20);
    struct artifact *made = artifact();
    flight_finish(f, made, &of_a, FLIGHT_TO_WAITERS, false, 21);
    cr_assert_str_eq(heard, "a:result c:result ");
    flight_unmake(&of_a, 21);
    flight_finish(f, made, &of_b, FLIGHT_TO_WAITERS, false, 22);
    cr_assert_str_eq(heard, "a:result c:result b:result ");
    flight_unmake(&of_b, 22);
    artifact_unref(made);
}

Test(flight, the_next_turn_is_another_users)
{
    struct asker a = asker_of('a', 1, 20), b = asker_of('b', 1, 20), c = asker_of('c', 2, 20);
    join(&a, 0);
    join(&b, 0);
    join(&c, 0);
    flight_leave(&a.ask, 1);
    flight_leave(&c.ask, 1);
    cr_assert_str_eq(heard, "c:turn b:turn ");
    flight_leave(&b.ask, 1);
}

Test(flight, a_second_attempt_of_a_user_waits_but_its_holders_source_is_not_lost)
{
    struct asker a = asker_of('a', 1, 0), b = asker_of('b', 1, 0), c = asker_of('c', 2, 10);
    struct making m;
    join(&a, 0);
    join(&b, 0);
    join(&c, 0);
    flights_tick(flights, 100); /* the turn of a is over: b and c have one too */
    cr_assert_str_eq(heard, "b:turn c:turn ");
    flight_make(&a.ask, &m);
    cr_assert_eq(b.ask.state, WAITER_WAITING);
    cr_assert_eq(c.ask.state, WAITER_HOLDING, "another user's turn is its own");
    flight_leave(&a.ask, 100);
    flight_leave(&c.ask, 100);
    flight_unmake(&m, 100);
    cr_assert_str_eq(heard, "b:turn c:turn b:turn ");
    flight_leave(&b.ask, 100);
}

/* Eight processes of one user, and a source that kills the compiler: two attempts, not eight. */
Test(flight, what_fails_twice_for_a_user_has_failed_for_all_of_its_askers)
{
    enum { N = 8 };
    struct asker own[N], other = asker_of('x', 2, 1000);
    struct making m;
    struct err e;
    err_set(&e, WARM_ECRASHED, "it died");
    for (int i = 0; i < N; i++) {
        own[i] = asker_of((char)('a' + i), 1, 1000);
        join(&own[i], 0);
    }
    join(&other, 0);
    flight_make(&own[0].ask, &m);
    flight_pass(&m, &e);
    flight_leave(&own[0].ask, 1);
    flight_unmake(&m, 1);
    cr_assert_str_eq(heard, "x:turn ", "another user fails or not for itself");
    flight_leave(&other.ask, 1);
    cr_assert_str_eq(heard, "x:turn b:turn ");
    flight_make(&own[1].ask, &m);
    flight_pass(&m, &e);
    flight_leave(&own[1].ask, 2);
    flight_unmake(&m, 2);
    cr_assert_str_eq(heard, "x:turn b:turn c:CRASHED d:CRASHED e:CRASHED f:CRASHED g:CRASHED "
                            "h:CRASHED ");
}

/* ---- errors, and the table ---- */

Test(flight, an_error_goes_to_all)
{
    struct asker a = asker('a'), b = asker('b');
    struct err e;
    join(&a, 0);
    join(&b, 0);
    err_set(&e, WARM_ECRASHED, "it died");
    flight_fail(a.ask.flight, &e, 0);
    cr_assert_str_eq(heard, "a:CRASHED b:CRASHED ");
}

Test(flight, a_callback_may_take_another_out)
{
    struct asker a = asker('a'), b = asker('b'), c = asker('c');
    a.leaves = &b;
    join(&a, 0);
    join(&b, 0);
    join(&c, 0);
    struct artifact *made = artifact();
    flight_finish(a.ask.flight, made, NULL, FLIGHT_TO_ALL, false, 0);
    cr_assert_str_eq(heard, "a:result c:result ");
    artifact_unref(made);
}

Test(flight, two_inputs_with_one_key_are_two_flights)
{
    struct asker a = asker('a'), b = asker('b');
    const struct proof other = {{8}};
    cr_assert_eq(join(&a, 0), FLIGHT_LEADS);
    cr_assert_eq(flight_join(flights, &id, &other, &b.ask, 0, NULL), FLIGHT_LEADS);
    flight_leave(&a.ask, 0);
    flight_leave(&b.ask, 0);
}

Test(flight, ten_thousand_keys_expire_in_one_tick)
{
    enum { N = 10000 };
    static struct asker holders[N], waiters[N];
    for (unsigned i = 0; i < N; i++) {
        struct store_id one = {.owner = i};
        memcpy(one.key.bytes, &i, sizeof i);
        holders[i] = asker('h');
        waiters[i] = asker('w');
        waiters[i].ask.expires_ms = 10;
        cr_assert_eq(flight_join(flights, &one, &proof, &holders[i].ask, 0, NULL), FLIGHT_LEADS);
        cr_assert_eq(flight_join(flights, &one, &proof, &waiters[i].ask, 0, NULL), FLIGHT_WAIT);
    }
    flights_tick(flights, 10);
    for (unsigned i = 0; i < N; i++) {
        cr_assert_eq(waiters[i].ask.state, WAITER_OUT);
        flight_leave(&holders[i].ask, 10);
    }
}
