/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_link.c - warmd's end of warm-tier, with a stand-in for the helper: it dies, hangs, sends rubbish. Each
 * request must end exactly once, whatever the helper does.
 *
 * The stand-in is support/fake_helper.h, at the socket of a service; one test has the spawner start a program.
 */
#include "daemon/tier/link.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/lib/packet.h"
#include "daemon/process/log.h"
#include "tests/support/fake_helper.h"
#include "tests/support/support.h"

#define LONG_MS 600000u /* a request's time, if it plays no part */

static uv_loop_t loop;
static struct spawner *spawner;
static struct tier_link *tier;
static struct fake_helper helper;
static unsigned n_ready;

/* A request, and how it ended. */
struct errand {
    struct tier_errand base; /* its first member */
    unsigned n_done;
    struct tier_answer answer;
    char bytes[64];
    int fd;
    bool goes_on; /* sends `next` when it ends */
    struct errand *next;
    bool next_was_sent;
};

static void step(void *arg)
{
    (void)arg;
    uv_run(&loop, UV_RUN_NOWAIT);
    usleep(1000);
}

#define AWAIT(condition) FAKE_HELPER_AWAIT(&helper, condition)

static void on_ready(void *arg) { ++*(unsigned *)arg; }

static void on_done(struct tier_errand *errand, const struct tier_answer *answer, int fd)
{
    struct errand *r = (struct errand *)errand;
    r->n_done++;
    r->answer = *answer;
    r->fd = fd;
    cr_assert_lt(errand->bytes.len, sizeof r->bytes);
    if (errand->bytes.len)
        memcpy(r->bytes, errand->bytes.data, errand->bytes.len);
    if (r->goes_on)
        r->next_was_sent = tier_link_send(tier, &r->next->base);
}

static void ask(struct errand *r, enum tier_operation operation, uint32_t timeout_ms)
{
    *r = (struct errand){
        .base = {.ask = {.operation = operation, .timeout_ms = timeout_ms, .name = "object"},
                 .fd = -1,
                 .done = on_done},
        .fd = -1};
}

static void send_get(struct errand *r)
{
    ask(r, TIER_GET, LONG_MS);
    cr_assert(tier_link_send(tier, &r->base));
    cr_assert_eq(r->n_done, 0u, "done ran within tier_link_send");
}

/* ---- the stand-in ---- */

static struct tier_ask take_ask(int *out_fd) { return fake_helper_take(&helper, out_fd); }

static void answer_with(uint64_t id, uint32_t outcome, const char *bytes, int fd)
{
    struct tier_answer head = {.id = id, .outcome = outcome, .length = strlen(bytes)};
    memset(head.said, 'x', sizeof head.said); /* no NUL: the link adds one */
    fake_helper_answer(&helper, &head, view_of_text(bytes), fd);
}

static void answer(uint64_t id, uint32_t outcome) { answer_with(id, outcome, "", -1); }

static void expect_end(const struct errand *r, uint32_t outcome)
{
    AWAIT(r->n_done);
    cr_expect_eq(r->n_done, 1u);
    cr_expect_eq(r->answer.outcome, outcome);
}

static void link_up(const char *program, const char *socket_path)
{
    struct err e = {0};
    struct tier_link_config config = {.loop = &loop,
                                      .spawner = spawner,
                                      .program = program,
                                      .url = "redis://tier",
                                      .credentials = "/the/credentials",
                                      .ca = "",
                                      .socket = socket_path,
                                      .on_ready = on_ready,
                                      .arg = &n_ready};
    cr_assert_eq(tier_link_new(&tier, &config, &e), 0, "%s", e.text);
}

static void setup(void)
{
    struct err e = {0};
    log_set_level(LOG_LEVEL_ERROR);
    fake_helper_up(&helper, step, NULL);
    cr_assert_eq(uv_loop_init(&loop), 0);
    cr_assert_eq(spawner_start(&spawner, &e), 0, "%s", e.text);
}

static void link_down(void)
{
    tier_link_close(tier);
    tier = NULL;
    uv_run(&loop, UV_RUN_DEFAULT);
}

static void teardown(void)
{
    link_down();
    spawner_stop(spawner);
    cr_expect_eq(uv_loop_close(&loop), 0, "a handle was left open");
    fake_helper_down(&helper);
}

TestSuite(link, .init = setup, .fini = teardown, .timeout = 120);

/* ---- answers ---- */

Test(link, each_request_gets_its_own_answer_in_any_order)
{
    struct errand first, second;
    link_up("", helper.path);
    fake_helper_accept(&helper);
    ask(&first, TIER_GET, LONG_MS);
    first.base.ask.wants_bytes = true;
    first.base.ask.limit = 64;
    cr_assert(tier_link_send(tier, &first.base));
    send_get(&second);
    uint64_t one = take_ask(NULL).id, two = take_ask(NULL).id;
    cr_assert(one && two && one != two);
    answer(two, TIER_ABSENT);
    expect_end(&second, TIER_ABSENT);
    cr_expect_eq(first.n_done, 0u);
    answer_with(one, TIER_OK, "the object", -1);
    expect_end(&first, TIER_OK);
    cr_expect_str_eq(first.bytes, "the object");
    cr_expect_eq(second.bytes[0], '\0');
    cr_expect_eq(strnlen(first.answer.said, TIER_SAID_MAX), TIER_SAID_MAX - 1u);
}

Test(link, descriptors_go_both_ways)
{
    struct errand get, put;
    struct stat ours, theirs;
    int got, object = memfd_create("object", MFD_CLOEXEC);
    link_up("", helper.path);
    fake_helper_accept(&helper);
    ask(&put, TIER_PUT, LONG_MS);
    put.base.fd = object;
    cr_assert(tier_link_send(tier, &put.base));
    answer(take_ask(&got).id, TIER_OK);
    expect_end(&put, TIER_OK);
    cr_assert_eq(fstat(object, &ours), 0, "the descriptor stays the caller's");
    cr_assert_eq(fstat(got, &theirs), 0);
    cr_expect_eq(ours.st_ino, theirs.st_ino);
    send_get(&get);
    answer_with(take_ask(NULL).id, TIER_OK, "", got);
    close(got);
    expect_end(&get, TIER_OK);
    cr_assert_eq(fstat(get.fd, &theirs), 0);
    cr_expect_eq(ours.st_ino, theirs.st_ino);
    close(get.fd);
    close(object);
}

Test(link, an_answer_to_no_request_is_dropped_with_its_descriptor)
{
    struct errand get;
    int ends[2];
    char byte;
    link_up("", helper.path);
    fake_helper_accept(&helper);
    send_get(&get);
    uint64_t id = take_ask(NULL).id;
    cr_assert_eq(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    answer_with(id + 1, TIER_OK, "", ends[1]);
    close(ends[1]);
    AWAIT(read(ends[0], &byte, 1) == 0); /* the end of the pipe: nobody has the other one */
    close(ends[0]);
    cr_expect_eq(get.n_done, 0u);
    cr_expect(tier_link_is_ready(tier));
    answer(id, TIER_ABSENT);
    answer(id, TIER_OK); /* a second answer has no request either */
    answer(0, TIER_OK);
    AWAIT(n_ready == 1);
    expect_end(&get, TIER_ABSENT);
}

Test(link, a_cancelled_request_still_ends_by_its_answer)
{
    struct errand get;
    link_up("", helper.path);
    fake_helper_accept(&helper);
    send_get(&get);
    uint64_t id = take_ask(NULL).id;
    tier_link_cancel(tier, &get.base);
    struct tier_ask cancel = take_ask(NULL);
    cr_expect_eq(cancel.id, id);
    cr_expect_eq(cancel.operation, TIER_CANCEL);
    cr_expect_eq(get.n_done, 0u);
    answer(id, TIER_FAILED);
    expect_end(&get, TIER_FAILED);
}

/* ---- the helper's faults ---- */

/* How a helper that somebody took over may answer. */
struct lie {
    uint32_t operation, outcome;
    const char *bytes;
    bool has_fd, wants_bytes;
};

/* Sends a request, answers it with a lie, and expects that it ends once, and the helper with it. */
static void expect_caught(const struct lie *lie)
{
    struct errand r;
    int object = memfd_create("object", MFD_CLOEXEC), got = -1;
    bool sends = lie->operation == TIER_PUT || lie->operation == TIER_FINISH;
    link_up("", helper.path);
    fake_helper_accept(&helper);
    ask(&r, lie->operation, LONG_MS);
    r.base.fd = sends ? object : -1;
    r.base.ask.wants_bytes = lie->wants_bytes;
    r.base.ask.limit = 4;
    cr_assert(tier_link_send(tier, &r.base));
    answer_with(take_ask(&got).id, lie->outcome, lie->bytes, lie->has_fd ? object : -1);
    expect_end(&r, TIER_FAILED);
    cr_expect_eq(r.fd, -1);
    cr_expect_not(tier_link_is_ready(tier), "%u %u", lie->operation, lie->outcome);
    link_down();
    close(object);
    if (got >= 0)
        close(got);
}

Test(link, an_outcome_that_a_request_cannot_have_ends_the_helper)
{
    static const struct lie lies[] = {{TIER_GET, TIER_LEASE, "", false, true},
                                      {TIER_GET, TIER_WAIT, "", false, true},
                                      {TIER_GET, TIER_EXISTS, "", false, false},
                                      {TIER_ASK, TIER_EXISTS, "", false, true},
                                      {TIER_ASK, 11, "", false, true},
                                      {TIER_ASK, UINT32_MAX, "", false, true},
                                      {TIER_PUT, TIER_LEASE, "", false, false},
                                      {TIER_PUT, TIER_WAIT, "", false, false},
                                      {TIER_FINISH, TIER_LEASE, "", false, false},
                                      {TIER_RENEW, TIER_LEASE, "", false, false},
                                      {TIER_RELEASE, TIER_EXISTS, "", false, false},
                                      {TIER_PROBE, TIER_WAIT, "", false, false}};
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++)
        expect_caught(&lies[i]);
}

Test(link, an_object_that_nobody_asked_for_ends_the_helper)
{
    static const struct lie lies[] = {
        {TIER_GET, TIER_OK, "abcd", false, false},   {TIER_GET, TIER_OK, "", true, true},
        {TIER_GET, TIER_OK, "abcde", false, true},   {TIER_ASK, TIER_LEASE, "abcd", false, true},
        {TIER_ASK, TIER_ABSENT, "", true, true},     {TIER_PUT, TIER_OK, "", true, false},
        {TIER_RELEASE, TIER_OK, "ab", false, false}, {TIER_RENEW, TIER_OK, "", true, false}};
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++)
        expect_caught(&lies[i]);
}

Test(link, a_second_greeting_ends_the_helper)
{
    link_up("", helper.path);
    fake_helper_accept(&helper);
    answer(0, TIER_OK);
    AWAIT(n_ready == 1);
    cr_expect(tier_link_is_ready(tier));
    answer(0, TIER_OK);
    AWAIT(!tier_link_is_ready(tier));
    cr_expect_eq(n_ready, 1u);
}

Test(link, a_flag_that_is_no_flag_and_a_wait_without_end_are_not_believed)
{
    struct tier_answer a = {.outcome = TIER_OK};
    struct tier_ask probe = {.operation = TIER_PROBE}, get = {.operation = TIER_GET};
    cr_expect_null(tier_answer_fault(&a, &probe, 0, false));
    memset(&a.capabilities, 0xff, sizeof a.capabilities);
    cr_expect_not_null(tier_answer_fault(&a, &probe, 0, false));
    cr_expect_eq(strlen(a.capabilities.said), sizeof a.capabilities.said - 1);
    a = (struct tier_answer){.outcome = TIER_LATER, .wait_ms = UINT64_MAX};
    cr_expect_null(tier_answer_fault(&a, &get, 0, false));
    cr_expect_eq(a.wait_ms, TIER_WAIT_MAX_MS);
}

Test(link, the_death_of_the_helper_ends_all_requests_and_another_is_started)
{
    struct errand first, second, again;
    link_up("", helper.path);
    fake_helper_accept(&helper);
    send_get(&first);
    send_get(&second);
    ask(&again, TIER_GET, LONG_MS);
    first.goes_on = true;
    first.next = &again;
    fake_helper_die(&helper);
    expect_end(&first, TIER_FAILED);
    expect_end(&second, TIER_FAILED);
    cr_expect_str_eq(first.answer.said, "warm-tier ended");
    cr_expect_not(first.next_was_sent, "nobody is there to take it");
    cr_expect_not(tier_link_is_ready(tier));
    cr_expect_not(tier_link_send(tier, &again.base));
    fake_helper_accept(&helper); /* after a pause */
    AWAIT(tier_link_is_ready(tier));
    send_get(&again);
    answer(take_ask(NULL).id, TIER_OK);
    expect_end(&again, TIER_OK);
    cr_expect_eq(first.n_done + second.n_done, 2u);
}

Test(link, a_helper_that_does_not_answer_in_time_is_ended)
{
    struct errand slow, patient;
    char byte;
    link_up("", helper.path);
    fake_helper_accept(&helper);
    send_get(&patient);
    ask(&slow, TIER_GET, 1);
    cr_assert(tier_link_send(tier, &slow.base));
    expect_end(&slow, TIER_FAILED);
    cr_expect_str_eq(slow.answer.said, "warm-tier did not answer");
    expect_end(&patient, TIER_FAILED); /* it was with the same helper */
    take_ask(NULL);
    take_ask(NULL);
    AWAIT(recv(helper.fd, &byte, 1, MSG_DONTWAIT) == 0); /* the connection has ended */
}

Test(link, an_answer_in_time_keeps_the_helper)
{
    struct errand slow, later;
    link_up("", helper.path);
    fake_helper_accept(&helper);
    ask(&slow, TIER_GET, 1);
    cr_assert(tier_link_send(tier, &slow.base));
    answer(take_ask(NULL).id, TIER_LATER);
    expect_end(&slow, TIER_LATER);
    AWAIT(uv_now(&loop) > slow.base.ends_ms + 200); /* several ticks after its time */
    cr_expect(tier_link_is_ready(tier));
    send_get(&later);
    answer(take_ask(NULL).id, TIER_OK);
    expect_end(&later, TIER_OK);
    cr_expect_eq(slow.n_done, 1u);
}

/* Sends a packet that is no answer, with a descriptor, and expects the end of the helper. */
static void expect_end_by_rubbish(size_t len)
{
    struct errand get;
    int ends[2];
    char byte, *rubbish = calloc(1, len);
    memset(rubbish, 0xff, len);
    link_up("", helper.path);
    fake_helper_accept(&helper);
    send_get(&get);
    cr_assert_eq(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    cr_assert_eq(packet_send(helper.fd, rubbish, len, &ends[1], 1), 0);
    close(ends[1]);
    expect_end(&get, TIER_FAILED);
    cr_expect_not(tier_link_is_ready(tier));
    AWAIT(read(ends[0], &byte, 1) == 0); /* the descriptor is closed */
    close(ends[0]);
    free(rubbish);
}

Test(link, a_packet_that_is_too_short_ends_the_helper)
{
    expect_end_by_rubbish(sizeof(struct tier_answer) - 1);
}

Test(link, a_packet_that_is_too_long_ends_the_helper)
{
    expect_end_by_rubbish(sizeof(struct tier_answer) + TIER_BYTES_MAX + 64);
}

Test(link, a_helper_that_takes_no_more_refuses_requests)
{
    enum { MANY = 20000 };
    struct errand *gets = calloc(MANY, sizeof *gets);
    int n = 0;
    link_up("", helper.path);
    fake_helper_accept(&helper);
    for (; n < MANY; n++) {
        ask(&gets[n], TIER_GET, LONG_MS);
        if (!tier_link_send(tier, &gets[n].base))
            break;
    }
    cr_assert(n > 0 && n < MANY, "%d were sent", n);
    fake_helper_die(&helper);
    for (int i = 0; i < n; i++)
        expect_end(&gets[i], TIER_FAILED);
    cr_expect_eq(gets[n].n_done, 0u, "it was not sent");
    free(gets);
}

Test(link, a_helper_without_a_backend_is_not_used)
{
    struct errand get;
    link_up("", helper.path);
    fake_helper_accept(&helper);
    send_get(&get);
    answer(0, TIER_MISSET);
    expect_end(&get, TIER_FAILED);
    cr_expect_eq(n_ready, 0u);
    cr_expect_not(tier_link_is_ready(tier));
}

/* ---- start and end ---- */

Test(link, the_program_gets_its_arguments_and_its_socket)
{
    char *program = path_join(helper.dir, "helper"), *said = path_join(helper.dir, "said"),
         text[512];
    struct errand get;
    snprintf(text, sizeof text,
             "#!/bin/sh\n[ -S /proc/self/fd/%d ] && echo \"$# $1 $2 $3.\" >%s\n"
             "dd bs=1 count=1 <&%d 2>/dev/null\n",
             TIER_FD, said, TIER_FD);
    file_write(program, text, strlen(text));
    cr_assert_eq(chmod(program, 0700), 0);
    link_up(program, "");
    send_get(&get); /* the program ends when it has read of it */
    expect_end(&get, TIER_FAILED);
    size_t len;
    char *got = file_read(said, &len);
    cr_expect_str_eq(got, "3 redis://tier /the/credentials .\n");
    free(got);
    free(said);
    free(program);
}

Test(link, closing_ends_each_request_once)
{
    struct errand first, second;
    link_up("", helper.path);
    fake_helper_accept(&helper);
    send_get(&first);
    send_get(&second);
    link_down();
    cr_expect_eq(first.n_done, 1u);
    cr_expect_eq(second.n_done, 1u);
    cr_expect_eq(first.answer.outcome, TIER_FAILED);
}

Test(link, without_a_service_there_is_a_link_that_is_not_ready)
{
    struct errand get;
    char *nobody = path_join(helper.dir, "nobody");
    link_up("", nobody);
    cr_expect_not(tier_link_is_ready(tier));
    ask(&get, TIER_GET, LONG_MS);
    cr_expect_not(tier_link_send(tier, &get.base));
    free(nobody);
}

Test(link, another_users_service_is_not_used)
{
    if (geteuid() != 0)
        cr_skip_test("needs root");
    cr_assert_eq(seteuid(65534), 0);
    cr_assert_eq(listen(helper.listener, 8), 0); /* notes who listens */
    cr_assert_eq(seteuid(0), 0);
    link_up("", helper.path);
    cr_expect_not(tier_link_is_ready(tier));
}
