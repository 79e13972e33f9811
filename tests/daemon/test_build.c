/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_build.c - sources on their way through the compiler without a daemon, with real NVRTC: what is refused,
 * which builds share one compile, and who leads when a client goes.
 *
 * The compiler's question about h.h is the gate that holds a compile up.
 */
#include "daemon/service/build.h"

#include <criterion/criterion.h>
#include <string.h>

#include "daemon/service/internal.h"
#include "daemon/users/budget.h"
#include "tests/support/compile_call.h"

#define GOOD_SPELLED                                                                               \
    "/* the same */ extern \"C\" __global__\tvoid f(float *x) { x[threadIdx.x] *= 2; }\n"
#define WITH_HEADER_SPELLED "#include \"h.h\"\n/* the same */\n" WITH_HEADER_KERNEL
#define WITH_HEADER_KERNEL "extern \"C\" __global__ void f(float *x) { *x = N; }\n"
#define WARNS "#include \"h.h\"\nextern \"C\" __global__ void f(float *x) { int y; *x = N; }\n"
#define WARNS_SPELLED                                                                              \
    "#include \"h.h\"\n/* the same */\nextern \"C\" __global__ void f(float *x) { int y; *x = N; " \
    "}\n"

TestSuite(build, .fini = compile_calls_down, .timeout = 120);

/* Has the first call compile, up to the compiler's question about its header. */
static void hold_first(void)
{
    first.silent = true;
    compile_call_ask(&first, 0);
    compile_call_source(&first);
    compile_call_until_asked(&first);
}

/* Has the second call send its source; its build then follows the first one's. */
static void follow_with_second(void)
{
    compile_call_ask(&second, 0);
    cr_assert_str_eq(second.seen, "N", "it has another exact key");
    compile_call_source(&second);
    COMPILE_CALLS_AWAIT(&rig, second.ask.build->child.waiter.state == WAITER_WAITING);
}

static bool is_cached(const struct peer *peer, const char *source)
{
    compile_call_init(&third, peer, source);
    compile_call_run(&third, WIRE_COMPILE_ONLY_IF_CACHED);
    bool found = third.seen[strlen(third.seen) - 1] == '=';
    compile_call_close(&third);
    return found;
}

/* ---- what is refused ---- */

Test(build, a_source_that_is_not_the_announced_one_is_refused_and_the_next_waiter_leads)
{
    NEEDS_COMPILER(&rig);
    compile_call_init(&first, &alice, GOOD);
    compile_call_init(&second, &bob, GOOD);
    compile_call_init(&third, &alice, GOOD_SPELLED);
    struct writer own = first.job;
    first.job = third.job;
    third.job = own;
    compile_call_ask(&first, 0);
    compile_call_ask(&second, 0);
    compile_call_finish(&first);
    cr_expect_str_eq(first.seen, "NE");
    cr_expect_eq(first.code, WARM_EINVALID);
    compile_call_finish(&second);
    compile_call_expect(&second, "WN=", WIRE_WAS_MISS);
    cr_expect_eq(compile_calls_compiles(&rig), 1u);
}

Test(build, a_source_without_the_announced_proof_is_refused)
{
    NEEDS_COMPILER(&rig);
    compile_call_init(&first, &alice, GOOD);
    first.wanted.proof.bytes[31] ^= 1;
    compile_call_run(&first, 0);
    cr_expect_str_eq(first.seen, "NE");
    cr_expect_eq(first.code, WARM_EINVALID);
    cr_expect_eq(compile_calls_compiles(&rig), 0u);
}

Test(build, a_source_that_is_no_job_is_refused)
{
    NEEDS_COMPILER(&rig);
    compile_call_init(&first, &alice, GOOD);
    memset(first.job.data, 0xff, first.job.len);
    compile_call_run(&first, 0);
    cr_expect_str_eq(first.seen, "NE");
    cr_expect_neq(first.code, 0);
    cr_expect_eq(compile_calls_compiles(&rig), 0u);
    cr_expect_eq(budget_used(alice.uid, BUDGET_compiles), 0u);
}

Test(build, a_user_with_too_many_compiles_gets_an_error)
{
    NEEDS_COMPILER(&rig);
    budget_set(BUDGET_compiles, 1, 0);
    compile_call_init(&first, &alice, WITH_HEADER);
    compile_call_init(&second, &alice, GOOD);
    compile_call_init(&third, &bob, GOOD);
    hold_first();
    compile_call_run(&second, 0);
    cr_expect_str_eq(second.seen, "NE");
    cr_expect_eq(second.code, WARM_ETOO_BIG);
    compile_call_run(&third, 0);
    compile_call_expect(&third, "N=", WIRE_WAS_MISS);
    first.silent = false;
    compile_call_finish(&first);
    compile_call_expect(&first, "N=", WIRE_WAS_MISS);
    COMPILE_CALLS_AWAIT(&rig, !rig.service->builds);
    cr_expect_eq(budget_used(alice.uid, BUDGET_compiles), 0u);
}

/* ---- one compile for equal sources ---- */

Test(build, another_spelling_takes_the_stored_result)
{
    NEEDS_COMPILER(&rig);
    compile_call_init(&first, &alice, GOOD);
    compile_call_init(&second, &bob, GOOD_SPELLED);
    compile_call_run(&first, 0);
    compile_calls_stored(&rig);
    compile_call_run(&second, 0);
    compile_call_expect(&second, "N=", WIRE_WAS_HIT);
    cr_expect(key_equal(&first.check, &second.check));
    cr_expect_eq(compile_calls_compiles(&rig), 1u);
}

Test(build, another_spelling_is_asked_for_its_header_before_it_takes_the_stored_result)
{
    NEEDS_COMPILER(&rig);
    compile_call_init(&first, &alice, WITH_HEADER);
    compile_call_init(&second, &bob, WITH_HEADER_SPELLED);
    compile_call_init(&third, &bob, WITH_HEADER_SPELLED "\n");
    third.header = "#define N 2\n";
    compile_call_run(&first, 0);
    compile_calls_stored(&rig);
    compile_call_run(&second, 0);
    compile_call_expect(&second, "NC=", WIRE_WAS_HIT);
    compile_call_run(&third, 0);
    compile_call_expect(&third, "NC=", WIRE_WAS_MISS);
    cr_expect(key_equal(&first.check, &second.check));
    cr_expect_not(key_equal(&first.check, &third.check));
    cr_expect_eq(compile_calls_compiles(&rig), 2u);
}

Test(build, recache_takes_no_stored_result)
{
    NEEDS_COMPILER(&rig);
    compile_call_init(&first, &alice, GOOD);
    compile_call_init(&second, &alice, GOOD_SPELLED);
    compile_call_run(&first, 0);
    compile_calls_stored(&rig);
    compile_call_run(&second, WIRE_COMPILE_RECACHE);
    compile_call_expect(&second, "N=", WIRE_WAS_MISS);
    cr_expect_eq(compile_calls_compiles(&rig), 2u);
}

Test(build, a_user_who_refused_the_shared_bytes_gets_new_ones_for_itself)
{
    NEEDS_COMPILER(&rig);
    compile_call_init(&first, &alice, GOOD);
    compile_call_init(&second, &bob, GOOD_SPELLED);
    compile_call_run(&first, 0);
    compile_calls_stored(&rig);
    service_damaged(rig.service, &bob, &first.key, &first.check);
    compile_call_run(&second, 0);
    compile_call_expect(&second, "N=", WIRE_WAS_MISS);
    cr_expect_eq(compile_calls_compiles(&rig), 2u);
    compile_calls_stored(&rig);
    cr_expect_not(is_cached(&alice, GOOD_SPELLED), "nothing of it is stored");
}

Test(build, another_spelling_follows_a_compile_that_runs)
{
    NEEDS_COMPILER(&rig);
    compile_call_init(&first, &alice, WITH_HEADER);
    compile_call_init(&second, &bob, WITH_HEADER_SPELLED);
    hold_first();
    follow_with_second();
    first.silent = false;
    compile_call_finish(&first);
    compile_call_finish(&second);
    compile_call_expect(&second, "NC=", WIRE_WAS_COALESCED);
    cr_expect(key_equal(&first.check, &second.check));
    cr_expect_eq(compile_calls_compiles(&rig), 1u);
}

Test(build, a_follower_with_another_header_compiles_its_own)
{
    NEEDS_COMPILER(&rig);
    compile_call_init(&first, &alice, WITH_HEADER);
    compile_call_init(&second, &alice, WITH_HEADER_SPELLED);
    second.header = "#define N 2\n";
    hold_first();
    follow_with_second();
    first.silent = false;
    compile_call_finish(&first);
    compile_call_finish(&second);
    cr_expect_eq(second.outcome, WIRE_WAS_MISS, "%s", second.seen);
    cr_expect_not(key_equal(&first.check, &second.check));
    cr_expect_eq(compile_calls_compiles(&rig), 2u);
}

Test(build, a_result_with_a_warning_is_for_its_own_spelling)
{
    NEEDS_COMPILER(&rig);
    compile_call_init(&first, &alice, WARNS);
    compile_call_init(&second, &alice, WARNS_SPELLED);
    hold_first();
    follow_with_second();
    first.silent = false;
    compile_call_finish(&first);
    compile_call_finish(&second);
    compile_call_expect(&second, "N=", WIRE_WAS_MISS);
    cr_expect_eq(compile_calls_compiles(&rig), 2u);
}

Test(build, a_follower_of_a_compile_that_failed_compiles)
{
    NEEDS_COMPILER(&rig);
    compile_call_init(&first, &alice, WITH_HEADER);
    compile_call_init(&second, &alice, WITH_HEADER_SPELLED);
    hold_first();
    follow_with_second();
    compile_call_close(&first);
    compile_call_finish(&second);
    compile_call_expect(&second, "N=", WIRE_WAS_MISS);
    cr_expect_eq(compile_calls_compiles(&rig), 1u);
}

Test(build, a_follower_waits_for_another_user_only_for_a_while)
{
    NEEDS_COMPILER(&rig);
    compile_call_init(&first, &alice, WITH_HEADER);
    compile_call_init(&second, &bob, WITH_HEADER_SPELLED);
    hold_first();
    follow_with_second();
    compile_call_finish(&second); /* the first one's compile is still held */
    compile_call_expect(&second, "N=", WIRE_WAS_MISS);
    cr_expect_eq(service_stats(rig.service)->now[STATS_hedges][STORE_CUBIN], 1u);
    cr_expect_str_eq(first.seen, "NC", "the result is the first one's, too, if it has the header");
    compile_call_checked(&first);
    compile_call_expect(&first, "NC=", WIRE_WAS_COALESCED);
    COMPILE_CALLS_AWAIT(&rig, !rig.service->builds);
    cr_expect_eq(compile_calls_compiles(&rig), 1u);
}

Test(build, another_users_result_ends_a_compile_whose_client_has_the_same_header)
{
    NEEDS_COMPILER(&rig);
    compile_call_init(&first, &alice, WITH_HEADER);
    compile_call_init(&second, &bob, WITH_HEADER);
    hold_first();
    compile_call_ask(&second, 0);
    compile_call_until(&second, "WN"); /* it waits for alice only for a while */
    compile_call_finish(&second);
    compile_call_expect(&second, "WN=", WIRE_WAS_MISS);
    cr_expect_str_eq(first.seen, "NC");
    cr_expect_not_null(rig.service->builds, "its compile goes on meanwhile");
    compile_call_checked(&first);
    compile_call_expect(&first, "NC=", WIRE_WAS_COALESCED);
    COMPILE_CALLS_AWAIT(&rig, !rig.service->builds);
    cr_expect_eq(compile_calls_compiles(&rig), 1u);
}

Test(build, another_users_result_does_not_end_a_compile_whose_client_has_another_header)
{
    NEEDS_COMPILER(&rig);
    compile_call_init(&first, &alice, WITH_HEADER);
    compile_call_init(&second, &bob, WITH_HEADER);
    first.header = "#define N 2\n";
    hold_first();
    compile_call_ask(&second, 0);
    compile_call_until(&second, "WN");
    compile_call_finish(&second);
    compile_call_checked(&first);
    cr_expect_str_eq(first.seen, "NC");
    first.silent = false;
    compile_call_finish(&first);
    compile_call_expect(&first, "NC=", WIRE_WAS_MISS);
    cr_expect_not(key_equal(&first.check, &second.check));
}

/* ---- clients that go ---- */

Test(build, a_leader_that_leaves_does_not_stop_its_compile)
{
    NEEDS_COMPILER(&rig);
    compile_call_init(&first, &alice, GOOD);
    compile_call_ask(&first, 0);
    compile_call_source(&first);
    compile_call_close(&first);
    COMPILE_CALLS_AWAIT(&rig, !rig.service->builds);
    compile_calls_stored(&rig);
    cr_expect_eq(compile_calls_compiles(&rig), 1u);
    cr_expect(is_cached(&bob, GOOD));
}

Test(build, a_cancelled_compile_that_nobody_waits_for_leaves_nothing)
{
    NEEDS_COMPILER(&rig);
    compile_call_init(&first, &alice, GOOD);
    compile_call_ask(&first, 0);
    compile_call_source(&first);
    ask_drop(&first.ask, true);
    first.ended = true;
    COMPILE_CALLS_AWAIT(&rig, !rig.service->builds);
    compile_calls_stored(&rig);
    cr_expect_eq(compile_calls_compiles(&rig), 0u);
    cr_expect_not(is_cached(&alice, GOOD));
}

Test(build, a_cancelled_compile_goes_on_for_a_waiter)
{
    NEEDS_COMPILER(&rig);
    compile_call_init(&first, &alice, GOOD);
    compile_call_init(&second, &alice, GOOD);
    compile_call_ask(&first, 0);
    compile_call_source(&first);
    compile_call_ask(&second, 0);
    ask_drop(&first.ask, true);
    first.ended = true;
    compile_call_finish(&second);
    compile_call_expect(&second, "W=", WIRE_WAS_COALESCED);
}

Test(build, the_next_waiter_leads_with_its_own_header_if_the_leader_goes_in_mid_compile)
{
    NEEDS_COMPILER(&rig);
    compile_call_init(&first, &alice, WITH_HEADER);
    compile_call_init(&second, &bob, WITH_HEADER);
    hold_first();
    compile_call_ask(&second, 0);
    compile_call_close(&first);
    compile_call_finish(&second);
    compile_call_expect(&second, "WN=", WIRE_WAS_MISS);
    cr_expect_eq(compile_calls_compiles(&rig), 1u);
}

Test(build, clients_of_one_user_that_go_do_not_make_the_next_one_fail)
{
    NEEDS_COMPILER(&rig);
    compile_call_init(&first, &alice, WITH_HEADER);
    compile_call_init(&second, &alice, WITH_HEADER);
    compile_call_init(&third, &alice, WITH_HEADER);
    second.silent = true;
    hold_first();
    compile_call_ask(&second, 0);
    compile_call_ask(&third, 0);
    compile_call_close(&first);
    compile_call_until(&second, "WN");
    compile_call_source(&second);
    compile_call_until_asked(&second);
    compile_call_close(&second);
    compile_call_finish(&third);
    compile_call_expect(&third, "WN=", WIRE_WAS_MISS);
}

Test(build, no_store_stores_nothing)
{
    NEEDS_COMPILER(&rig);
    compile_call_init(&first, &alice, GOOD);
    compile_call_run(&first, WIRE_COMPILE_NO_STORE);
    compile_call_expect(&first, "N=", WIRE_WAS_MISS);
    compile_calls_stored(&rig);
    cr_expect_not(is_cached(&alice, GOOD));
    cr_expect_not(is_cached(&alice, GOOD_SPELLED));
}

Test(build, a_waiter_that_wants_the_result_stored_has_it_stored)
{
    NEEDS_COMPILER(&rig);
    compile_call_init(&first, &alice, GOOD);
    compile_call_init(&second, &alice, GOOD);
    compile_call_ask(&first, WIRE_COMPILE_NO_STORE);
    compile_call_source(&first);
    compile_call_ask(&second, 0);
    compile_call_finish(&first);
    compile_call_finish(&second);
    compile_call_expect(&second, "W=", WIRE_WAS_COALESCED);
    compile_calls_stored(&rig);
    cr_expect(is_cached(&alice, GOOD));
}

Test(build, all_calls_end_if_the_service_stops_in_mid_compile)
{
    NEEDS_COMPILER(&rig);
    compile_call_init(&first, &alice, WITH_HEADER);
    compile_call_init(&second, &bob, WITH_HEADER_SPELLED);
    compile_call_init(&third, &alice, WITH_HEADER);
    hold_first();
    follow_with_second();
    compile_call_ask(&third, 0);
    service_shutdown(rig.service);
    for (const struct build *b = rig.service->builds; b; b = b->next)
        cr_expect(b->cancelled);
    COMPILE_CALLS_AWAIT(&rig, !rig.service->builds);
    cr_expect_str_eq(first.seen, "NE");
    cr_expect_str_eq(second.seen, "NE");
    cr_expect_str_eq(third.seen, "WE");
    cr_expect_eq(first.code, WARM_ESHUTDOWN);
    cr_expect_eq(second.code, WARM_ESHUTDOWN);
    cr_expect_eq(third.code, WARM_ESHUTDOWN);
}
