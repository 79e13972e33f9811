/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_compile_request.c - the asker's side of a COMPILE without a daemon, with real NVRTC: where its result
 * comes from, and what its client may send.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/compile_call.h"

TestSuite(compile_request, .fini = compile_calls_down, .timeout = 120);

static void expect_error(const struct compile_call *c, const char *seen, int code)
{
    cr_expect_str_eq(c->seen, seen);
    cr_expect_eq(c->code, code, "error %d", c->code);
    cr_expect_null(c->ask.compile, "its state is freed");
}

/* Has Alice ask for the good source, and then this peer, who waits for what she brings. */
static void ask_both(const struct peer *peer)
{
    compile_call_init(&first, &alice, GOOD);
    compile_call_init(&second, peer, GOOD);
    compile_call_ask(&first, 0);
    compile_call_ask(&second, 0);
}

/* ---- where the result comes from ---- */

Test(compile_request, a_miss_is_compiled_and_the_next_call_hits)
{
    NEEDS_COMPILER(&rig);
    compile_call_init(&first, &alice, GOOD);
    compile_call_init(&second, &bob, GOOD);
    compile_call_run(&first, 0);
    compile_call_expect(&first, "N=", WIRE_WAS_MISS);
    compile_calls_stored(&rig);
    compile_call_run(&second, 0);
    compile_call_expect(&second, "=", WIRE_WAS_HIT);
    cr_expect(key_equal(&first.key, &second.key));
    cr_expect(key_equal(&first.check, &second.check));
    cr_expect_eq(compile_calls_compiles(&rig), 1u);
}

Test(compile_request, the_compilers_identity_is_a_part_of_the_key)
{
    const struct toolchain *toolchain;
    struct err e = {0};
    NEEDS_COMPILER(&rig);
    compile_call_init(&first, &alice, GOOD);
    compile_call_ask(&first, 0);
    cr_assert_eq(pool_find(rig.pool, view_of_text(""), alice.uid, &toolchain, &e), 0, "%s", e.text);
    struct address want = {.graph = first.wanted.graph, .compiler = toolchain->id};
    memcpy(want.hardware, first.hardware, sizeof want.hardware);
    struct key key = address_key(&want);
    cr_expect(key_equal(&first.ask.id.key, &key));
    want.compiler.bytes[0] ^= 1;
    key = address_key(&want);
    cr_expect_not(key_equal(&first.ask.id.key, &key));
}

Test(compile_request, a_call_that_comes_meanwhile_waits_for_the_same_result)
{
    NEEDS_COMPILER(&rig);
    ask_both(&alice);
    compile_call_finish(&first);
    compile_call_finish(&second);
    compile_call_expect(&first, "N=", WIRE_WAS_MISS);
    compile_call_expect(&second, "W=", WIRE_WAS_COALESCED);
    cr_expect(key_equal(&first.check, &second.check));
    cr_expect_eq(compile_calls_compiles(&rig), 1u);
}

Test(compile_request, another_proof_never_gets_the_result)
{
    NEEDS_COMPILER(&rig);
    compile_call_init(&first, &alice, GOOD);
    compile_call_init(&second, &alice, GOOD);
    compile_call_init(&third, &alice, GOOD);
    second.wanted.proof.bytes[0] ^= 1;
    third.wanted.proof = second.wanted.proof;
    compile_call_ask(&first, 0);
    compile_call_ask(&second, 0);
    cr_expect_str_eq(second.seen, "N", "it waits for nobody's result");
    compile_call_finish(&first);
    compile_call_ask(&third, WIRE_COMPILE_ONLY_IF_CACHED); /* the result is on its way */
    cr_expect_str_eq(third.seen, "M");
    compile_calls_stored(&rig);
    compile_call_close(&third);
    compile_call_init(&third, &alice, GOOD);
    third.wanted.proof = second.wanted.proof;
    compile_call_ask(&third, WIRE_COMPILE_ONLY_IF_CACHED);
    cr_expect_str_eq(third.seen, "M");
    cr_expect_str_eq(second.seen, "N");
}

Test(compile_request, another_proof_never_gets_a_result_on_its_way_to_the_store)
{
    NEEDS_COMPILER(&rig);
    compile_call_init(&first, &alice, GOOD);
    compile_call_init(&second, &alice, GOOD);
    compile_call_init(&third, &alice, GOOD);
    second.wanted.proof.bytes[0] ^= 1;
    compile_call_run(&first, 0);
    cr_assert_not(service_is_idle(rig.service), "the loop has not run since");
    compile_call_ask(&second, 0);
    cr_expect_str_eq(second.seen, "N");
    compile_call_ask(&third, 0);
    compile_call_expect(&third, "=", WIRE_WAS_HIT);
}

Test(compile_request, only_if_cached_is_a_miss_and_waits_for_nobody)
{
    NEEDS_COMPILER(&rig);
    compile_call_init(&first, &alice, GOOD);
    compile_call_init(&second, &alice, GOOD);
    compile_call_init(&third, &alice, GOOD);
    compile_call_ask(&first, 0);
    compile_call_ask(&second, WIRE_COMPILE_ONLY_IF_CACHED);
    cr_expect_str_eq(second.seen, "M");
    compile_call_finish(&first);
    compile_call_run(&third, WIRE_COMPILE_ONLY_IF_CACHED);
    compile_call_expect(&third, "=", WIRE_WAS_HIT);
}

Test(compile_request, recache_compiles_again)
{
    NEEDS_COMPILER(&rig);
    compile_call_init(&first, &alice, GOOD);
    compile_call_init(&second, &alice, GOOD);
    compile_call_run(&first, 0);
    compile_calls_stored(&rig);
    compile_call_run(&second, WIRE_COMPILE_RECACHE);
    compile_call_expect(&second, "N=", WIRE_WAS_MISS);
    cr_expect_eq(compile_calls_compiles(&rig), 2u);
}

Test(compile_request, the_compilers_refusal_is_remembered)
{
    NEEDS_COMPILER(&rig);
    compile_call_init(&first, &alice, "no CUDA\n");
    compile_call_init(&second, &bob, "no CUDA\n");
    compile_call_run(&first, 0);
    cr_expect_str_eq(first.seen, "NF");
    compile_call_run(&second, 0);
    cr_expect_str_eq(second.seen, "F");
    cr_expect_eq(second.outcome, WIRE_WAS_HIT);
    cr_expect_eq(compile_calls_compiles(&rig), 1u);
}

Test(compile_request, a_user_who_refused_the_stored_bytes_gets_new_ones)
{
    NEEDS_COMPILER(&rig);
    compile_call_init(&first, &alice, GOOD);
    compile_call_init(&second, &bob, GOOD);
    compile_call_init(&third, &alice, GOOD);
    compile_call_run(&first, 0);
    compile_calls_stored(&rig);
    service_damaged(rig.service, &bob, &first.key, &first.check);
    compile_call_run(&second, 0);
    compile_call_expect(&second, "N=", WIRE_WAS_MISS);
    compile_call_run(&third, 0);
    compile_call_expect(&third, "=", WIRE_WAS_HIT);
}

/* ---- the client's files ---- */

Test(compile_request, a_client_with_the_same_header_gets_the_result)
{
    NEEDS_COMPILER(&rig);
    compile_call_init(&first, &alice, WITH_HEADER);
    compile_call_init(&second, &alice, WITH_HEADER);
    compile_call_init(&third, &alice, WITH_HEADER);
    first.header = second.header = "#define N 1\n";
    third.header = "#define N 2\n";
    compile_call_run(&first, 0);
    compile_call_expect(&first, "N=", WIRE_WAS_MISS);
    compile_calls_stored(&rig);
    compile_call_run(&second, 0);
    compile_call_expect(&second, "C=", WIRE_WAS_HIT);
    cr_expect(key_equal(&first.check, &second.check));
    compile_call_run(&third, 0);
    cr_expect_eq(third.outcome, WIRE_WAS_MISS);
    cr_expect_eq(strncmp(third.seen, "CN", 2), 0, "%s", third.seen);
    cr_expect_not(key_equal(&first.check, &third.check));
    cr_expect_eq(compile_calls_compiles(&rig), 2u);
}

Test(compile_request, a_waiter_is_asked_for_its_header_before_it_gets_the_result)
{
    NEEDS_COMPILER(&rig);
    compile_call_init(&first, &alice, WITH_HEADER);
    compile_call_init(&second, &alice, WITH_HEADER);
    compile_call_init(&third, &alice, WITH_HEADER);
    first.header = second.header = "#define N 1\n";
    third.header = "#define N 2\n";
    compile_call_ask(&first, 0);
    compile_call_ask(&second, 0);
    compile_call_ask(&third, 0);
    compile_call_finish(&first);
    compile_call_finish(&second);
    compile_call_expect(&second, "WC=", WIRE_WAS_COALESCED);
    compile_call_finish(&third);
    cr_expect_eq(third.outcome, WIRE_WAS_MISS, "%s", third.seen);
    cr_expect_not(key_equal(&first.check, &third.check));
}

Test(compile_request, a_result_that_came_while_a_client_compared_its_files_is_found)
{
    NEEDS_COMPILER(&rig);
    compile_call_init(&first, &alice, WITH_HEADER);
    compile_call_init(&second, &alice, WITH_HEADER);
    compile_call_init(&third, &alice, WITH_HEADER);
    first.header = "#define N 1\n";
    second.header = third.header = "#define N 2\n";
    compile_call_run(&first, 0);
    compile_calls_stored(&rig);
    compile_call_ask(&third, 0);
    cr_expect_str_eq(third.seen, "C");
    compile_call_run(&second, 0);
    compile_calls_stored(&rig);
    compile_call_finish(&third);
    compile_call_expect(&third, "CC=", WIRE_WAS_HIT);
    cr_expect(key_equal(&second.check, &third.check));
}

/* ---- what a client may send ---- */

Test(compile_request, an_unknown_language_or_compiler_is_an_error)
{
    NEEDS_COMPILER(&rig);
    compile_call_init(&first, &alice, GOOD);
    compile_call_init(&second, &alice, GOOD);
    first.wanted.language = 99;
    compile_call_ask(&first, 0);
    expect_error(&first, "E", WARM_EUNSUPPORTED);
    second.wanted.compiler = view_of_text("9.1");
    compile_call_ask(&second, 0);
    expect_error(&second, "E", WARM_ENO_TOOLCHAIN);
}

Test(compile_request, a_source_that_nobody_asked_for_is_an_error_and_closes_its_descriptors)
{
    int ends[2], job[2];
    char byte;
    NEEDS_COMPILER(&rig);
    ask_both(&alice);
    cr_assert_eq(pipe2(job, O_CLOEXEC | O_NONBLOCK), 0);
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    service_source(&second.ask, NULL, 100, job[1], ends[1]);
    expect_error(&second, "WE", WARM_EINVALID);
    cr_expect_eq(recv(ends[0], &byte, 1, MSG_DONTWAIT), 0, "the channel is closed");
    COMPILE_CALLS_AWAIT(&rig, read(job[0], &byte, 1) == 0); /* and so is the job, by a thread */
    close(ends[0]);
    close(job[0]);
    compile_call_finish(&first);
    compile_call_expect(&first, "N=", WIRE_WAS_MISS);
}

Test(compile_request, a_second_source_for_one_need_is_an_error)
{
    NEEDS_COMPILER(&rig);
    ask_both(&bob);
    compile_call_source(&first);
    compile_call_source(&first);
    expect_error(&first, "NE", WARM_EINVALID);
    compile_call_finish(&second);
    cr_expect_eq(second.seen[strlen(second.seen) - 1], '=', "%s", second.seen);
}

Test(compile_request, a_source_that_comes_after_another_result_is_dropped)
{
    NEEDS_COMPILER(&rig);
    compile_call_init(&first, &alice, WITH_HEADER);
    compile_call_init(&second, &bob, WITH_HEADER);
    compile_call_ask(&first, 0);
    compile_call_ask(&second, 0);
    compile_call_until(&second, "WN"); /* another user waits no longer for alice's source */
    compile_call_finish(&second);
    cr_expect_str_eq(first.seen, "NC");
    compile_call_source(&first);
    cr_expect_str_eq(first.seen, "NC");
    compile_call_finish(&first);
    compile_call_expect(&first, "NC=", WIRE_WAS_COALESCED);
    cr_expect_eq(compile_calls_compiles(&rig), 1u);
}

/* Sends a source of `len` bytes that must be refused with this code; the waiter leads next. */
static void expect_refused(uint64_t len, int job_fd, int code)
{
    ask_both(&bob);
    service_source(&first.ask, first.job.data, len, job_fd, -1);
    expect_error(&first, "NE", code);
    compile_call_finish(&second);
    compile_call_expect(&second, "WN=", WIRE_WAS_MISS);
}

Test(compile_request, an_empty_source_is_refused_and_the_next_waiter_leads)
{
    NEEDS_COMPILER(&rig);
    expect_refused(0, -1, WARM_ETOO_BIG);
}

Test(compile_request, a_source_beyond_the_limit_is_refused_unread)
{
    NEEDS_COMPILER(&rig);
    expect_refused(SERVICE_JOB_MAX + 1ull, -1, WARM_ETOO_BIG);
}

Test(compile_request, a_source_that_its_client_can_still_change_is_refused)
{
    int fd = memfd_create("job", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    NEEDS_COMPILER(&rig);
    cr_assert_eq(ftruncate(fd, 4096), 0);
    expect_refused(4096, fd, WARM_EINVALID);
}

Test(compile_request, a_leader_that_goes_before_its_source_makes_the_next_one_lead)
{
    NEEDS_COMPILER(&rig);
    ask_both(&bob);
    compile_call_close(&first);
    compile_call_finish(&second);
    compile_call_expect(&second, "WN=", WIRE_WAS_MISS);
    cr_expect_str_eq(first.seen, "N", "it is told nothing more");
}
