/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_tier_send.c - entries on their way to the tier, which the test plays: what is sent, in which order, and
 * what becomes of an entry that cannot be sent. test_tier_queue.c has daemons that die meanwhile.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/clock.h"
#include "tests/support/store_kit.h"
#include "tests/support/tier_rig.h"

#define LARGE_BYTES 100000u /* it does not stand in its entry */

static struct tier_rig rig;
static struct tier_call holder;
static struct tier_ask ask;

static void teardown(void)
{
    tier_rig_leave(&holder);
    tier_rig_down(&rig);
}

TestSuite(tier_send, .fini = teardown, .timeout = 120);

static void up(const char *const *settings)
{
    tier_rig_up(&rig, settings);
    holder.ended = true;
}

#define UP(...) up((const char *const[]){__VA_ARGS__, NULL})

static uint64_t count(enum stats_counter what) { return tier_rig_count(&rig, what); }
static void answer(enum tier_outcome outcome) { tier_rig_answer(&rig, &ask, outcome); }

/* Puts a value that nothing is known of but its bytes. */
static void put(const char *name, const char *value)
{
    tier_rig_put(&rig, name, view_of_text(value), 0);
}

/* Has the tier give the lease on a name to an asker. Returns the request for it. */
static struct tier_ask get_lease(const char *name)
{
    tier_rig_ask(&rig, &holder, ASK_LEASE, name);
    struct tier_ask lease = tier_rig_take(&rig, TIER_ASK);
    tier_rig_answer(&rig, &lease, TIER_LEASE);
    tier_rig_until(&rig, &holder, "WL");
    return lease;
}

static void await_sent(uint64_t n) { TIER_RIG_AWAIT(&rig, count(STATS_tier_sent) == n); }

/* Waits until the entry waits no longer to be sent. */
static void await_no_mark(const char *name)
{
    TIER_RIG_AWAIT(&rig, !(tier_rig_marks(&rig, name) & STORE_TIER_WAITS));
}

/* Takes the PUT of an entry, which must have this text as its value and a good signature. */
static void take_entry(const char *name, const char *value)
{
    uint8_t *bytes;
    struct tier_entry entry;
    const struct trusted_key *signer;
    struct err e = {0};
    struct proof proof = proof_of_bytes(name, strlen(name));
    struct key key = key_of_bytes(name, strlen(name));
    ask = tier_rig_take_sent(&rig, TIER_PUT, &bytes);
    tier_rig_expect_entry_of(&ask, name);
    int code = entry_read(bytes, ask.length, &rig.service->signers->trusted, &entry, &signer, &e);
    cr_assert_eq(code, 0, "%s", e.text);
    cr_expect_str_eq(signer->name, "node-1");
    cr_expect(entry_is(&entry, view_of_text("user"), &key, &proof));
    cr_assert(entry.is_inline);
    cr_expect(entry_has_value(&entry, value, strlen(value)));
    cr_expect_eq(entry.name.len + entry.label.len, 0u, "names stay here");
    free(bytes);
}

/* ---- the happy path ---- */

Test(tier_send, a_small_entry_is_one_object)
{
    UP("tier_expire", "1h");
    put("graph", "the value");
    take_entry("graph", "the value");
    cr_expect_eq(ask.expire_ms, 3600000u);
    cr_expect_eq(tier_rig_marks(&rig, "graph"), STORE_TIER_WAITS, "until it is there");
    cr_expect_not(tier_has_sent_all(rig.tier));
    answer(TIER_OK);
    await_sent(1);
    cr_expect_eq(count(STATS_tier_sent_bytes), 9u);
    cr_expect(tier_has_sent_all(rig.tier));
    await_no_mark("graph");
}

Test(tier_send, the_entry_follows_its_large_value)
{
    uint8_t *value = kit_value(1, 0, LARGE_BYTES), *sent;
    struct tier_entry entry;
    const struct trusted_key *signer;
    char hex[65], want[80];
    UP(NULL);
    tier_rig_put(&rig, "graph", (struct view){value, LARGE_BYTES}, 0);
    ask = tier_rig_take_sent(&rig, TIER_PUT, &sent);
    struct proof content = proof_of_bytes(value, LARGE_BYTES);
    bytes_to_hex(content.bytes, sizeof content.bytes, hex);
    snprintf(want, sizeof want, "%.2s/b-%s", hex, hex);
    cr_expect_str_eq(ask.name, want);
    cr_assert_eq(ask.length, LARGE_BYTES);
    cr_expect_eq(memcmp(sent, value, LARGE_BYTES), 0);
    free(sent);
    answer(TIER_OK);
    ask = tier_rig_take_sent(&rig, TIER_PUT, &sent);
    tier_rig_expect_entry_of(&ask, "graph");
    cr_assert_eq(
        entry_read(sent, ask.length, &rig.service->signers->trusted, &entry, &signer, NULL), 0);
    cr_expect_not(entry.is_inline);
    cr_expect(entry_has_value(&entry, value, LARGE_BYTES));
    free(sent);
    cr_expect_eq(count(STATS_tier_sent), 0u);
    answer(TIER_OK);
    await_sent(1);
    cr_expect_eq(count(STATS_tier_sent_bytes), LARGE_BYTES);
    free(value);
}

Test(tier_send, an_entry_under_a_lease_ends_it_in_the_same_step)
{
    uint8_t *bytes;
    UP(NULL);
    struct tier_ask lease = get_lease("graph");
    put("graph", "the value");
    ask = tier_rig_take_sent(&rig, TIER_FINISH, &bytes);
    tier_rig_expect_entry_of(&ask, "graph");
    cr_expect_eq(memcmp(ask.token, lease.token, sizeof lease.token), 0);
    free(bytes);
    answer(TIER_OK);
    await_sent(1);
    TIER_RIG_AWAIT(&rig, tier_has_let_go(rig.tier));
}

Test(tier_send, no_more_than_tier_uploads_are_sent_at_once)
{
    struct tier_ask asks[2];
    char name[32];
    UP("tier_uploads", "2");
    for (int i = 0; i < 5; i++) {
        snprintf(name, sizeof name, "graph-%d", i);
        put(name, "the value");
    }
    for (int i = 0; i < 2; i++)
        asks[i] = tier_rig_take(&rig, TIER_PUT);
    cr_expect_eq(rig.tier->n_uploads, 2u);
    cr_expect_eq(rig.tier->n_items, 3u);
    for (int i = 2; i < 5; i++) { /* each end lets one more begin */
        tier_rig_answer(&rig, &asks[0], TIER_OK);
        asks[0] = tier_rig_take(&rig, TIER_PUT);
        cr_expect_eq(rig.tier->n_uploads, 2u);
    }
    for (int i = 0; i < 2; i++)
        tier_rig_answer(&rig, &asks[i], TIER_OK);
    await_sent(5);
}

/* ---- a tier that fails ---- */

Test(tier_send, an_entry_that_was_not_sent_waits_and_is_sent_again)
{
    static const enum tier_outcome all[] = {TIER_FAILED,
                                            TIER_ABSENT}; /* 404 for a PUT is no success */
    UP(NULL);
    put("graph", "the value");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        take_entry("graph", "the value");
        answer(all[i]);
        TIER_RIG_AWAIT(&rig, !rig.tier->n_uploads);
        cr_expect(tier_queue_length(rig.tier) == 1 && rig.tier->writes.n_failures == i + 1);
        cr_expect_eq(tier_rig_marks(&rig, "graph"), STORE_TIER_WAITS);
    }
    cr_expect_eq(count(STATS_tier_errors), 2u);
    take_entry("graph", "the value");
    answer(TIER_OK);
    await_sent(1);
    cr_expect_eq(rig.tier->writes.n_failures, 0u);
}

Test(tier_send, without_its_large_value_an_entry_is_not_sent)
{
    uint8_t *value = kit_value(1, 0, LARGE_BYTES);
    char name[TIER_NAME_MAX + 1];
    UP(NULL);
    tier_rig_put(&rig, "graph", (struct view){value, LARGE_BYTES}, 0);
    ask = tier_rig_take(&rig, TIER_PUT);
    memcpy(name, ask.name, sizeof name);
    answer(TIER_FAILED);
    ask = tier_rig_take(&rig, TIER_PUT);
    cr_expect_str_eq(ask.name, name, "the value again");
    answer(TIER_OK);
    ask = tier_rig_take(&rig, TIER_PUT);
    tier_rig_expect_entry_of(&ask, "graph");
    answer(TIER_OK);
    await_sent(1);
    free(value);
}

Test(tier_send, while_writes_fail_one_upload_at_a_time_tries_again)
{
    struct tier_ask asks[3];
    char name[32];
    UP("tier_breaker", "50ms");
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "graph-%d", i);
        put(name, "the value");
        asks[i] = tier_rig_take(&rig, TIER_PUT);
    }
    for (int i = 0; i < 3; i++)
        tier_rig_answer(&rig, &asks[i], TIER_FAILED);
    TIER_RIG_AWAIT(&rig, rig.tier->writes.n_failures == 3);
    cr_expect(tier_is_off(rig.tier, &rig.tier->writes));
    cr_expect(tier_has_sent_all(rig.tier), "the end of the daemon does not wait for a dead tier");
    for (int i = 0; i < 2; i++) {
        ask = tier_rig_take(&rig, TIER_PUT);
        cr_expect_eq(rig.tier->n_uploads, 1u);
        cr_expect_eq(rig.tier->n_items, 2u);
        if (i == 0)
            answer(TIER_FAILED);
    }
    answer(TIER_OK); /* then all at once */
    for (int i = 0; i < 2; i++)
        asks[i] = tier_rig_take(&rig, TIER_PUT);
    for (int i = 0; i < 2; i++)
        tier_rig_answer(&rig, &asks[i], TIER_OK);
    await_sent(3);
}

Test(tier_send, a_tier_that_says_when_to_come_again_is_left_alone_until_then)
{
    UP(NULL);
    put("graph", "the value");
    take_entry("graph", "the value");
    struct tier_answer a = {.id = ask.id, .outcome = TIER_LATER, .wait_ms = 200};
    fake_helper_answer(&rig.helper, &a, (struct view){0}, -1);
    TIER_RIG_AWAIT(&rig, !rig.tier->n_uploads);
    uint64_t off_until = rig.tier->writes.off_until_ms;
    cr_expect_eq(rig.tier->writes.n_failures, 0u, "it works");
    put("another", "other bytes");
    cr_expect_eq(rig.tier->n_items, 2u);
    TIER_RIG_AWAIT(&rig, fake_helper_is_asked(&rig.helper));
    cr_expect_geq(service_clock_ms(rig.service), off_until);
    for (int i = 0; i < 2; i++) {
        ask = tier_rig_take(&rig, TIER_PUT);
        answer(TIER_OK);
    }
    await_sent(2);
}

Test(tier_send, the_death_of_the_helper_loses_no_entry)
{
    UP(NULL);
    put("graph", "the value");
    take_entry("graph", "the value");
    fake_helper_die(&rig.helper);
    TIER_RIG_AWAIT(&rig, !rig.tier->n_uploads);
    cr_expect_eq(tier_rig_marks(&rig, "graph"), STORE_TIER_WAITS);
    tier_rig_accept(&rig);
    take_entry("graph", "the value");
    answer(TIER_OK);
    await_sent(1);
}

Test(tier_send, the_mark_outlives_a_daemon_that_ends_in_mid_upload)
{
    UP(NULL);
    put("graph", "the value");
    take_entry("graph", "the value");
    tier_stop(rig.tier);
    answer(TIER_FAILED);
    TIER_RIG_AWAIT(&rig, !rig.tier->n_uploads);
    cr_expect_eq(tier_rig_marks(&rig, "graph"), STORE_TIER_WAITS);
    cr_expect_eq(count(STATS_tier_errors), 0u);
    put("another", "other bytes");
    cr_expect_eq(tier_rig_marks(&rig, "another"), 0u, "this tier sends nothing any more");
}

/* ---- entries that are not sent ---- */

Test(tier_send, an_entry_that_the_backend_cannot_take_is_dropped)
{
    static const enum tier_outcome all[] = {TIER_TOO_LARGE, TIER_CANNOT};
    char name[32];
    UP(NULL);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        snprintf(name, sizeof name, "graph-%zu", i);
        put(name, "the value");
        take_entry(name, "the value");
        answer(all[i]);
        await_no_mark(name);
        cr_expect_eq(count(STATS_tier_dropped), i + 1);
    }
    cr_expect_eq(count(STATS_tier_errors), 0u, "the tier works");
    cr_expect_eq(count(STATS_tier_sent), 0u);
    put("graph-2", "the value");
    take_entry("graph-2", "the value"); /* the next one is sent, and the first ones are not */
    answer(TIER_OK);
    await_sent(1);
}

Test(tier_send, the_lease_of_an_entry_that_is_dropped_is_given_back)
{
    UP(NULL);
    struct tier_ask lease = get_lease("graph");
    put("graph", "the value");
    ask = tier_rig_take(&rig, TIER_FINISH);
    answer(TIER_TOO_LARGE);
    ask = tier_rig_take(&rig, TIER_RELEASE);
    cr_expect_str_eq(ask.name, lease.name);
    cr_expect_eq(memcmp(ask.token, lease.token, sizeof lease.token), 0);
    answer(TIER_OK);
    TIER_RIG_AWAIT(&rig, tier_has_let_go(rig.tier));
    await_no_mark("graph");
}

Test(tier_send, values_that_are_too_large_too_cheap_or_empty_never_wait)
{
    UP("tier_max_value", "8B", "tier_min_cost", "1s");
    put("large", "nine bytes");
    tier_rig_put(&rig, "cheap", view_of_text("8 bytes!"), 999);
    tier_rig_put(&rig, "empty", view_of_text(""), 0);
    tier_rig_put(&rig, "dear", view_of_text("8 bytes!"), 1000);
    take_entry("dear", "8 bytes!");
    answer(TIER_OK);
    await_sent(1);
    cr_expect_eq(tier_rig_marks(&rig, "large"), 0u);
    cr_expect_eq(tier_rig_marks(&rig, "cheap"), 0u);
    cr_expect_eq(tier_rig_marks(&rig, "empty"), 0u);
    cr_expect_eq(count(STATS_tier_dropped), 0u);
}

Test(tier_send, an_entry_that_has_waited_too_long_is_dropped)
{
    UP("tier_queue_age", "100ms");
    put("graph", "the value");
    take_entry("graph", "the value");
    uint64_t old = clock_wall_ms() + 100;
    TIER_RIG_AWAIT(&rig, clock_wall_ms() > old);
    answer(TIER_FAILED);
    await_no_mark("graph");
    cr_expect_eq(count(STATS_tier_dropped), 1u);
    cr_expect_eq(count(STATS_tier_sent), 0u);
}

static void on_removed(void *arg, int status, const struct store_report *r, const struct err *e)
{
    (void)e;
    *(bool *)arg = true;
    cr_expect(status == 0 && r->n_entries == 1);
}

Test(tier_send, an_entry_that_has_left_the_store_is_not_sent)
{
    bool removed = false;
    UP("tier_uploads", "1");
    put("first", "the value");
    take_entry("first", "the value");
    put("gone", "other bytes");
    put("third", "third bytes"); /* of no more value: as many bytes */
    struct store_id id = tier_rig_id(&rig, "gone");
    cr_assert_eq(store_remove(rig.base.store, &id, 1, on_removed, &removed, NULL), 0);
    service_rig_until(&rig.base, &removed);
    answer(TIER_OK);
    take_entry("third", "third bytes");
    answer(TIER_OK);
    await_sent(2);
    TIER_RIG_AWAIT(&rig, tier_has_sent_all(rig.tier));
    cr_expect_eq(count(STATS_tier_dropped), 0u, "nobody has dropped it");
}

Test(tier_send, a_value_whose_file_was_damaged_is_not_sent)
{
    size_t len = SERVICE_CHECK_MAX + 1; /* another thread verifies it first */
    uint8_t *value = kit_value(1, 0, len);
    char *blobs, *path;
    UP("tier_uploads", "1");
    put("first", "the value");
    take_entry("first", "the value");
    tier_rig_put(&rig, "graph", (struct view){value, len}, 0);
    blobs = path_join(rig.base.dir, "blobs");
    path = kit_only_file(blobs);
    cr_assert_not_null(path);
    cr_assert_eq(chmod(path, 0600), 0);
    value[len / 2] ^= 1;
    file_write(path, value, len);
    answer(TIER_OK);
    await_sent(1);
    TIER_RIG_AWAIT(&rig, tier_has_sent_all(rig.tier));
    cr_expect_eq(count(STATS_tier_sent), 1u);
    free(path), free(blobs), free(value);
}

/* ---- a value that changes ---- */

Test(tier_send, a_value_that_changes_while_it_is_sent_is_sent_again)
{
    UP(NULL);
    put("graph", "the value");
    take_entry("graph", "the value");
    put("graph", "new bytes");
    answer(TIER_OK);
    take_entry("graph", "new bytes");
    cr_expect_eq(tier_rig_marks(&rig, "graph"), STORE_TIER_WAITS);
    answer(TIER_OK);
    await_sent(2);
    await_no_mark("graph");
}

Test(tier_send, a_value_that_changes_before_it_is_dropped_is_sent)
{
    UP(NULL);
    put("graph", "too large");
    take_entry("graph", "too large");
    put("graph", "small");
    answer(TIER_TOO_LARGE);
    take_entry("graph", "small");
    answer(TIER_OK);
    await_sent(1);
    cr_expect_eq(count(STATS_tier_dropped), 1u);
    await_no_mark("graph");
}

Test(tier_send, the_same_bytes_once_more_are_not_sent_again)
{
    UP(NULL);
    put("graph", "the value");
    take_entry("graph", "the value");
    put("graph", "the value");
    answer(TIER_OK);
    await_sent(1);
    put("another", "other bytes");
    take_entry("another", "other bytes");
    answer(TIER_OK);
    await_sent(2);
    await_no_mark("graph");
}
