/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_answers.c - the answers that all native requests share, and operations of the store whose client does not
 * stay until their end.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/process/log.h"
#include "daemon/users/budget.h"
#include "tests/support/server_rig.h"

static struct server_rig rig;
static struct server_rig_frame f;
static struct writer w, keys;
static int client;

static void setup(void)
{
    log_set_level(LOG_LEVEL_ERROR);
    writer_init(&w, 0);
    writer_init(&keys, 0);
    server_rig_up(&rig);
    client = server_rig_native(&rig);
}

static void teardown(void)
{
    close(client);
    server_rig_down(&rig);
    writer_close(&w);
    writer_close(&keys);
    cr_expect_eq(budget_used(geteuid(), BUDGET_calls), 0u, "each operation has ended");
}

TestSuite(answers, .init = setup, .fini = teardown, .timeout = 120);

static uint64_t n_calls(void) { return budget_used(geteuid(), BUDGET_calls); }

static void put(uint64_t tag, const char *name)
{
    struct wire_put m = {.len = 5, .key = view_of_text(name), .value = {"value", 5}};
    server_rig_put(client, tag, &m);
}

static bool is_stored(const char *name)
{
    struct store_row row;
    struct peer peer = {.uid = geteuid(), .space = geteuid()};
    bool is =
        service_peek(rig.base.service, &peer, WIRE_SPACE_NAME, view_of_text(name), &row, NULL) == 0;
    store_turn_end(rig.base.store);
    return is;
}

/* Asks to remove so many keys: `first`, and others that name no entry. */
static void remove_keys(uint64_t tag, const char *first, uint32_t n)
{
    char name[16];
    keys.len = 0;
    wire_keys_add(&keys, WIRE_SPACE_NAME, first, strlen(first));
    for (uint32_t i = 1; i < n; i++) {
        int len = snprintf(name, sizeof name, "%u", i);
        wire_keys_add(&keys, WIRE_SPACE_NAME, name, (size_t)len);
    }
    wire_put_remove(&w, tag, &(struct wire_remove){n, {keys.data, keys.len}});
    server_rig_send(client, &w, NULL, 0);
}

Test(answers, an_error_has_the_requests_tag_a_code_and_one_line)
{
    struct wire_error m;
    wire_put_empty(&w, (enum wire_type)0x7f, 0x1122334455667788u);
    server_rig_send(client, &w, NULL, 0);
    server_rig_answer(&rig, client, &f, 0x1122334455667788u, WIRE_ERROR);
    cr_assert_eq(wire_get_error(&f.frame, &m, NULL), 0);
    cr_expect_eq(m.code, (uint32_t)-WARM_EUNSUPPORTED);
    cr_expect(m.text.len && !memchr(m.text.data, '\n', m.text.len));
}

Test(answers, an_operation_counts_until_it_ends)
{
    put(1, "name");
    SERVER_RIG_AWAIT(&rig, n_calls() == 1);
    server_rig_expect_frame(&rig, client, 1, WIRE_OK);
    cr_expect_eq(n_calls(), 0u);
}

Test(answers, an_operation_on_many_keys_counts_for_several)
{
    put(1, "name");
    server_rig_expect_frame(&rig, client, 1, WIRE_OK);
    remove_keys(2, "name", 64);
    SERVER_RIG_AWAIT(&rig, n_calls() == 3);
    server_rig_expect_frame(&rig, client, 2, WIRE_REPORT);
    cr_expect_eq(n_calls(), 0u);
    put(3, "name");
    server_rig_expect_frame(&rig, client, 3, WIRE_OK);
    budget_set(BUDGET_calls, 2, 0);
    remove_keys(4, "name", 64);
    server_rig_expect_error(&rig, client, 4, WARM_ETOO_BIG);
    cr_expect(is_stored("name"));
    remove_keys(5, "name", 63);
    server_rig_expect_frame(&rig, client, 5, WIRE_REPORT);
    cr_expect_not(is_stored("name"));
}

Test(answers, an_operation_that_the_store_refuses_leaves_nothing)
{
    struct wire_put m = {.len = 5, .key = view_of_text("name"), .value = {"value", 5}};
    m.check.bytes[0] = 1; /* not its checksum */
    server_rig_put(client, 1, &m);
    server_rig_expect_error(&rig, client, 1, WARM_ECORRUPT);
    cr_expect_eq(n_calls(), 0u);
}

Test(answers, a_client_that_sends_no_more_still_gets_its_answers)
{
    for (uint64_t tag = 1; tag <= 3; tag++)
        put(tag, "name");
    cr_assert_eq(shutdown(client, SHUT_WR), 0);
    for (uint64_t tag = 1; tag <= 3; tag++)
        server_rig_expect_frame(&rig, client, tag, WIRE_OK);
    cr_expect(server_rig_is_ended(&rig, client), "the last of them lets it go");
}

Test(answers, an_operation_outlives_its_client)
{
    put(1, "name");
    SERVER_RIG_AWAIT(&rig, n_calls() == 1);
    close(client);
    SERVER_RIG_AWAIT(&rig, server_count(rig.server) == 0 && n_calls() == 0);
    cr_expect(is_stored("name"));
    client = server_rig_native(&rig);
}

Test(answers, a_long_request_does_not_hold_up_other_clients_and_is_answered_once)
{
    enum { MANY = WIRE_KEYS_MAX };
    int other = server_rig_client(&rig);
    put(1, "name");
    server_rig_expect_frame(&rig, client, 1, WIRE_OK);
    remove_keys(2, "name", MANY);
    server_rig_say(other, "PING\r\n");
    server_rig_expect(&rig, other, "+PONG\r\n");
    server_rig_expect_frame(&rig, client, 2, WIRE_REPORT);
    put(3, "name");
    server_rig_expect_frame(&rig, client, 3, WIRE_OK);
    close(other);
}
