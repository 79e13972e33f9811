/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_service.c - the service without a wire: look-ups, leases and puts of several users on a real store,
 * with a loop of the test's own. The pool of workers has no toolchain: none of these requests compiles.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "daemon/service/artifact.h"
#include "tests/support/service.h"

static const struct peer alice = {.uid = 1000, .space = 1000}, bob = {.uid = 1001, .space = 1001};
static struct service_rig rig;

static void setup(void) { service_rig_up(&rig); }
static void teardown(void) { service_rig_down(&rig); }

TestSuite(service, .init = setup, .fini = teardown, .timeout = 120);

/* ---- requests ---- */

/* A GET, and all its answers as one text: "W" for WAIT, "L" for LEASE, "M" for MISS, "E" for ERROR, "O" for
 * OVER, "=value". */
struct asker {
    struct ask ask;
    char seen[64];
    uint64_t token;
    bool ended;
};

static void on_answer(struct ask *ask, const struct answer *a)
{
    struct asker *asker = (struct asker *)ask; /* its first member */
    size_t n = strlen(asker->seen);
    const char *data;
    int len;
    cr_assert(!asker->ended, "answered after the last answer: %s", asker->seen);
    switch (a->kind) {
    case ANSWER_WAIT: strcat(asker->seen, "W"); return;
    case ANSWER_LEASE:
        strcat(asker->seen, "L");
        asker->token = a->token;
        return;
    case ANSWER_VALUE:
        data = a->value ? a->value->data : (const void *)a->artifact->data;
        len = (int)(a->value ? a->value->row.len : a->artifact->len);
        snprintf(asker->seen + n, sizeof asker->seen - n, "=%.*s", len, data);
        break;
    case ANSWER_MISS: strcat(asker->seen, "M"); break;
    case ANSWER_ERROR: strcat(asker->seen, "E"); break;
    case ANSWER_OVER: strcat(asker->seen, "O"); break;
    default: cr_assert_fail("a GET is not answered with %d", (int)a->kind);
    }
    asker->ended = true;
}

/* Asks for a name after a look-up that found nothing, as the wires do. */
static void ask(struct asker *a, const struct peer *peer, const char *name, enum ask_mode mode)
{
    *a = (struct asker){.ask = {.service = rig.service,
                                .peer = peer,
                                .on_answer = on_answer,
                                .name = view_of_text(name)}};
    service_ask(&a->ask, &(struct question){.space = WIRE_SPACE_NAME,
                                            .key = view_of_text(name),
                                            .mode = mode,
                                            .wait_ms = 60000});
}

/* True if a look-up finds this value; NULL: finds nothing. */
static bool finds(const struct peer *peer, const char *name, const char *value)
{
    struct store_value v;
    struct err e;
    struct question q = {.space = WIRE_SPACE_NAME, .key = view_of_text(name)};
    int code = service_get(rig.service, peer, &q, &v, &e);
    bool same = code == 0 && value && v.row.len == strlen(value) &&
                memcmp(v.data, value, strlen(value)) == 0;
    store_turn_end(rig.store);
    return value ? same : code == WARM_ENOT_FOUND;
}

/* ---- values ---- */

Test(service, a_name_is_its_users_own)
{
    cr_assert(finds(&alice, "name", NULL));
    cr_assert_eq(service_rig_put(&rig, &alice, service_rig_text("name", "hers")), 0);
    cr_assert(finds(&alice, "name", "hers"));
    cr_assert(finds(&bob, "name", NULL), "another user's name is another entry");
    cr_assert_eq(service_rig_put(&rig, &bob, service_rig_text("name", "his")), 0);
    cr_assert(finds(&alice, "name", "hers"));
    cr_assert(finds(&bob, "name", "his"));
}

Test(service, a_value_that_is_not_its_checksum_is_refused)
{
    struct key other = key_of_bytes("other", 5);
    struct service_put put = service_rig_text("name", "value");
    put.check = &other;
    cr_assert_eq(service_rig_put(&rig, &alice, put), WARM_ECORRUPT);
    cr_assert(finds(&alice, "name", NULL));
    struct key right = key_of_bytes("value", 5);
    put.check = &right;
    cr_assert_eq(service_rig_put(&rig, &alice, put), 0);
    cr_assert(finds(&alice, "name", "value"));
}

Test(service, an_existing_value_is_kept_if_the_put_asks_for_it)
{
    struct service_rig_put end;
    struct service_put first = service_rig_text("name", "first"),
                       second = service_rig_text("name", "second");
    second.keep_existing = true;
    cr_assert_eq(service_rig_put_begin(&rig, &alice, first, &end), 0);
    cr_assert_eq(service_rig_put_end(&rig, &end), 0);
    cr_assert(!end.existed);
    cr_assert_eq(service_rig_put_begin(&rig, &alice, second, &end), 0);
    cr_assert_eq(service_rig_put_end(&rig, &end), 0);
    cr_assert(end.existed);
    cr_assert(finds(&alice, "name", "first"));
}

Test(service, a_value_above_the_limit_is_refused)
{
    struct service_put put = service_rig_text("name", "x");
    rig.config.max_value = 0;
    cr_assert_eq(service_rig_put(&rig, &alice, put), WARM_ETOO_BIG);
}

/* ---- leases ---- */

Test(service, one_asker_gets_the_lease_and_all_get_its_value)
{
    struct asker a, b, c;
    ask(&a, &alice, "name", ASK_LEASE);
    ask(&b, &alice, "name", ASK_LEASE);
    ask(&c, &bob, "name", ASK_LEASE);
    cr_assert_str_eq(a.seen, "L");
    cr_assert_str_eq(b.seen, "W");
    cr_assert_str_eq(c.seen, "L", "another user waits for nobody");
    cr_assert_neq(a.token, c.token);
    struct service_put put = service_rig_text("name", "made");
    put.lease = &a.ask;
    cr_assert_eq(service_rig_put(&rig, &alice, put), 0);
    service_rig_until(&rig, &b.ended);
    cr_assert_str_eq(b.seen, "W=made");
    ask_drop(&c.ask, false);
}

Test(service, the_lease_of_an_asker_that_goes_away_is_the_next_ones)
{
    struct asker a, b;
    ask(&a, &alice, "name", ASK_LEASE);
    ask(&b, &alice, "name", ASK_LEASE);
    ask_drop(&a.ask, false);
    cr_assert_str_eq(b.seen, "WL");
    cr_assert(!a.ended, "a call that was dropped is not answered");
    ask_drop(&b.ask, false);
}

Test(service, an_asker_that_makes_nothing_waits_for_the_holder_alone)
{
    struct asker a, b, c;
    ask(&c, &alice, "name", ASK_WAIT);
    cr_assert_str_eq(c.seen, "M", "nobody makes it");
    ask(&a, &alice, "name", ASK_LEASE);
    ask(&b, &alice, "name", ASK_WAIT);
    cr_assert_str_eq(b.seen, "W");
    ask_drop(&a.ask, false);
    cr_assert_str_eq(b.seen, "WM");
}

Test(service, a_put_of_another_than_the_holder_answers_the_waiters)
{
    struct asker a, b;
    ask(&a, &alice, "name", ASK_LEASE);
    ask(&b, &alice, "name", ASK_LEASE);
    cr_assert_eq(service_rig_put(&rig, &alice, service_rig_text("name", "theirs")), 0);
    service_rig_until(&rig, &b.ended);
    cr_assert_str_eq(b.seen, "W=theirs");
    if (!a.ended)
        ask_drop(&a.ask, false);
}

Test(service, shutdown_answers_each_waiter_with_an_error)
{
    struct asker a, b;
    ask(&a, &alice, "name", ASK_LEASE);
    ask(&b, &alice, "name", ASK_LEASE);
    service_shutdown(rig.service);
    cr_assert_str_eq(b.seen, "WE");
    if (!a.ended)
        ask_drop(&a.ask, false);
}
