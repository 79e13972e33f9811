/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_tier_fetch.c - look-ups beyond the machine, with a tier that the test plays: what counts, who waits for
 * how long, and what an answer does that comes late. test_tier.c and test_tier_nodes.c have real tiers.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "store/clock.h"
#include "tests/support/tier_rig.h"

#define LARGE_BYTES 100000u /* it does not stand in its entry */
#define TICKS_MS 100u       /* several ticks of fetches */
#define CHEAP_MS 60u        /* such a key is made beside the node that makes it */
#define TRIES_MAX 100       /* if the machine is busy elsewhere, a budget of 50 ms may end early */

static struct tier_rig rig;
static struct tier_call first, second, third;
static struct tier_ask ask;
static struct tier_entry entry;

static void teardown(void)
{
    tier_rig_leave(&first);
    tier_rig_leave(&second);
    tier_rig_leave(&third);
    tier_rig_down(&rig);
}

TestSuite(tier_fetch, .fini = teardown, .timeout = 120);

static void up(const char *const *settings)
{
    tier_rig_up(&rig, settings);
    first.ended = second.ended = third.ended = true;
}

#define UP(...) up((const char *const[]){__VA_ARGS__, NULL})

static uint64_t now(void) { return service_clock_ms(rig.service); }
static uint64_t count(enum stats_counter what) { return tier_rig_count(&rig, what); }

/* Runs the loop for several ticks of the fetches. */
static void let_tick(void)
{
    uint64_t until = now() + TICKS_MS;
    TIER_RIG_AWAIT(&rig, now() > until);
}

/* Asks for a name with the first call, and takes the request for its entry. */
static void ask_first(enum ask_mode mode, const char *name)
{
    tier_rig_ask(&rig, &first, mode, name);
    ask = tier_rig_take(&rig, mode == ASK_LEASE ? TIER_ASK : TIER_GET);
    tier_rig_expect_entry_of(&ask, name);
}

static void answer(enum tier_outcome outcome) { tier_rig_answer(&rig, &ask, outcome); }

/* Answers with the entry of this name and value, as another node sent it. */
static void answer_entry(const char *name, const char *value)
{
    tier_rig_entry(name, view_of_text(value), &entry);
    tier_rig_answer_entry(&rig, &ask, &entry, &rig.key);
}

/* Answers with the entry of a large value, and takes the request for the value. */
static void answer_large_entry(const char *name, const uint8_t *value)
{
    tier_rig_entry(name, (struct view){value, LARGE_BYTES}, &entry);
    tier_rig_answer_entry(&rig, &ask, &entry, &rig.key);
    ask = tier_rig_take(&rig, TIER_GET);
}

/* Lets the daemon learn what it takes to make what is called PREFIX:…. */
static void teach_cost(const char *name, uint32_t cost_ms)
{
    tier_rig_put(&rig, name, view_of_text("made before"), cost_ms);
    ask = tier_rig_take(&rig, TIER_PUT);
    answer(TIER_OK);
    TIER_RIG_AWAIT(&rig, !rig.tier->n_uploads);
}

/* ---- the happy path ---- */

Test(tier_fetch, an_entry_that_counts_is_the_answer_and_is_stored)
{
    struct store_row row;
    char signer[64];
    UP(NULL);
    ask_first(ASK_KNOWN, "graph");
    cr_expect(ask.wants_bytes);
    cr_expect_eq(ask.limit, ENTRY_OBJECT_MAX);
    cr_expect_str_eq(first.seen, "W");
    answer_entry("graph", "the value");
    tier_rig_until(&rig, &first, "W=");
    cr_expect_str_eq(first.value, "the value");
    TIER_RIG_AWAIT(&rig, !rig.service->n_puts);
    cr_expect(tier_rig_has(&rig, "graph", "the value"));
    cr_expect_eq(tier_rig_marks(&rig, "graph"), STORE_TIER_CAME, "it is not sent back");
    struct store_id id = tier_rig_id(&rig, "graph");
    cr_assert_eq(store_peek(rig.base.store, &id, &row, NULL), 0);
    service_signer_name(rig.service, row.signer, signer);
    cr_expect_str_eq(signer, "node-1");
    cr_expect(row.name.len == 5 && memcmp(row.name.data, "graph", 5) == 0);
    cr_expect_eq(count(STATS_tier_hits), 1u);
    cr_expect_eq(count(STATS_tier_hit_bytes), 9u);
    cr_expect_eq(count(STATS_misses), 0u);
}

Test(tier_fetch, what_came_is_found_before_it_is_on_disk)
{
    UP(NULL);
    ask_first(ASK_KNOWN, "graph");
    answer_entry("graph", "the value");
    tier_rig_until(&rig, &first, "W=");
    tier_rig_ask(&rig, &second, ASK_KNOWN, "graph");
    cr_expect_str_eq(second.seen, "=", "without another request");
    cr_expect_str_eq(second.value, "the value");
}

Test(tier_fetch, a_large_value_is_an_object_of_its_own)
{
    char hex[65], want[80];
    uint8_t *value = calloc(1, LARGE_BYTES);
    struct view bytes = {value, LARGE_BYTES};
    UP(NULL);
    ask_first(ASK_KNOWN, "graph");
    answer_large_entry("graph", value);
    bytes_to_hex(entry.content.bytes, sizeof entry.content.bytes, hex);
    snprintf(want, sizeof want, "%.2s/b-%s", hex, hex);
    cr_expect_str_eq(ask.name, want);
    cr_expect_eq(ask.limit, LARGE_BYTES);
    cr_expect_not(ask.wants_bytes);
    tier_rig_answer_value(&rig, &ask, bytes);
    tier_rig_until(&rig, &first, "W=");
    cr_expect_eq(first.len, LARGE_BYTES);
    TIER_RIG_AWAIT(&rig, !rig.service->n_puts);
    cr_expect_eq(tier_rig_marks(&rig, "graph"), STORE_TIER_CAME);
    free(value);
}

/* ---- askers ---- */

Test(tier_fetch, a_second_asker_joins_the_fetch)
{
    UP(NULL);
    ask_first(ASK_KNOWN, "graph");
    tier_rig_ask(&rig, &second, ASK_KNOWN, "graph");
    cr_expect_str_eq(second.seen, "W");
    cr_expect_eq(rig.tier->n_fetches, 1u);
    struct tier_ask of_first = ask;
    tier_rig_ask(&rig, &third, ASK_KNOWN, "another");
    ask = tier_rig_take(&rig, TIER_GET);
    tier_rig_expect_entry_of(&ask, "another");
    answer(TIER_ABSENT);
    tier_rig_until(&rig, &third, "WM");
    cr_expect_str_eq(third.ask.tier_said, "404");
    ask = of_first;
    answer_entry("graph", "the value");
    tier_rig_until(&rig, &first, "W=");
    tier_rig_until(&rig, &second, "W=");
    cr_expect_str_eq(second.value, "the value");
    cr_expect_eq(count(STATS_tier_hits), 1u);
    cr_expect_eq(count(STATS_tier_misses), 1u);
}

Test(tier_fetch, one_asker_that_leaves_does_not_end_the_fetch)
{
    UP(NULL);
    ask_first(ASK_KNOWN, "graph");
    tier_rig_ask(&rig, &second, ASK_KNOWN, "graph");
    tier_rig_leave(&first);
    let_tick();
    answer_entry("graph", "the value");
    tier_rig_until(&rig, &second, "W=");
    cr_expect_str_eq(first.seen, "W", "it is told nothing more");
}

/* Has the only asker leave, and takes the CANCEL of its request. */
static void cancel_first(void)
{
    tier_rig_leave(&first);
    struct tier_ask cancel = tier_rig_take(&rig, (enum tier_operation)TIER_CANCEL);
    cr_expect_eq(cancel.id, ask.id);
}

Test(tier_fetch, a_fetch_that_nobody_wants_is_cancelled_and_its_late_answer_is_dropped)
{
    UP(NULL);
    ask_first(ASK_KNOWN, "graph");
    cancel_first();
    cr_expect_eq(rig.tier->n_fetches, 1u, "until its request ends");
    answer_entry("graph", "the value");
    TIER_RIG_AWAIT(&rig, !rig.tier->fetches);
    cr_expect_eq(rig.service->n_puts, 0u);
    cr_expect_eq(count(STATS_tier_hits), 0u);
    cr_expect_not(tier_rig_has(&rig, "graph", "the value"));
}

Test(tier_fetch, nobody_joins_a_fetch_that_was_cancelled)
{
    UP(NULL);
    ask_first(ASK_KNOWN, "graph");
    cancel_first();
    struct tier_ask old = ask;
    tier_rig_ask(&rig, &second, ASK_KNOWN, "graph");
    ask = tier_rig_take(&rig, TIER_GET);
    cr_expect_neq(ask.id, old.id);
    tier_rig_answer(&rig, &old, TIER_FAILED);
    answer_entry("graph", "the value");
    tier_rig_until(&rig, &second, "W=");
    cr_expect_eq(count(STATS_tier_errors), 0u, "the old one was cancelled by us");
}

Test(tier_fetch, a_value_that_comes_after_the_last_asker_has_left_is_dropped)
{
    uint8_t *value = calloc(1, LARGE_BYTES);
    UP(NULL);
    ask_first(ASK_KNOWN, "graph");
    answer_large_entry("graph", value);
    cancel_first();
    tier_rig_answer_value(&rig, &ask, (struct view){value, LARGE_BYTES});
    TIER_RIG_AWAIT(&rig, !rig.tier->fetches);
    cr_expect_eq(rig.service->n_puts, 0u);
    cr_expect_eq(count(STATS_tier_hits), 0u);
    cr_expect_eq(count(STATS_tier_refused), 0u, "nobody looked at it");
    free(value);
}

/* ---- entries that do not count ---- */

/* Why an entry does not count. */
struct bad {
    const char *name;
    long flip_at; /* a byte of the object, from its end if negative; 0: none */
    long cut;     /* bytes at its end */
    const char *space, *of_name;
    bool has_expired, is_too_large, other_key, same_name_of_key;
    size_t n_unsigned, n_damaged, n_other;
};

/* Answers with an entry that has this fault. */
static void answer_bad(const struct bad *bad)
{
    static const char large[] = "a value of more than the thirty-two bytes of tier_max_value";
    struct signing_key key = rig.key;
    struct writer w;
    if (bad->other_key || bad->same_name_of_key)
        cr_assert_eq(signing_make(bad->other_key ? "stranger" : "node-1", &key, NULL), 0);
    tier_rig_entry(bad->of_name ? bad->of_name : bad->name,
                   view_of_text(bad->is_too_large ? large : "the value"), &entry);
    if (bad->space)
        entry.space = view_of_text(bad->space);
    if (bad->has_expired)
        entry.expires_ms = clock_wall_ms() - 1;
    writer_init(&w, 0);
    entry_write(&entry, &key, &w);
    if (bad->flip_at)
        w.data[bad->flip_at > 0 ? bad->flip_at : (long)w.len + bad->flip_at] ^= 1;
    tier_rig_answer_bytes(&rig, &ask, (struct view){w.data, w.len - (size_t)bad->cut});
    writer_close(&w);
}

Test(tier_fetch, an_entry_that_does_not_count_is_a_miss_and_not_asked_for_again)
{
    static const struct bad all[] = {
        {.name = "its value", .flip_at = -1, .n_damaged = 1},
        {.name = "its value, cut", .cut = 1, .n_other = 1},
        {.name = "its signature", .flip_at = -10, .n_unsigned = 1},
        {.name = "its cost", .flip_at = 112, .n_unsigned = 1},
        {.name = "its magic", .flip_at = 1, .n_other = 1},
        {.name = "its signer", .other_key = true, .n_unsigned = 1},
        {.name = "a key of that name", .same_name_of_key = true, .n_unsigned = 1},
        {.name = "its space", .space = "made", .n_other = 1},
        {.name = "its name", .of_name = "another name", .n_other = 1},
        {.name = "its time", .has_expired = true, .n_other = 1},
        {.name = "its size", .is_too_large = true, .n_other = 1},
    };
    size_t n_unsigned = 0, n_damaged = 0, n_other = 0;
    UP("tier_max_value", "32B");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const struct bad *bad = &all[i];
        ask_first(ASK_KNOWN, bad->name);
        answer_bad(bad);
        tier_rig_until(&rig, &first, "WM");
        n_unsigned += bad->n_unsigned;
        n_damaged += bad->n_damaged;
        n_other += bad->n_other;
        cr_expect_eq(rig.tier->n_unsigned, n_unsigned, "%s: %s", bad->name, first.ask.tier_said);
        cr_expect_eq(rig.tier->n_damaged, n_damaged, "%s: %s", bad->name, first.ask.tier_said);
        cr_expect_eq(rig.tier->n_other, n_other, "%s: %s", bad->name, first.ask.tier_said);
        cr_expect_eq(count(STATS_tier_refused), i + 1);
        tier_rig_ask(&rig, &second, ASK_KNOWN, bad->name);
        cr_expect_str_eq(second.seen, "M", "%s", bad->name);
        cr_expect_str_eq(second.ask.tier_said, "404, a moment ago");
    }
    cr_expect_eq(rig.service->n_puts, 0u);
    cr_expect_eq(count(STATS_tier_hits), 0u);
    cr_expect_eq(count(STATS_tier_errors), 0u, "the tier itself works");
}

/* Makes a key, and the text of its public half. */
static void make_key(const char *name, struct signing_key *key, char text[KEY_TEXT_MAX])
{
    cr_assert(signing_init());
    cr_assert_eq(signing_make(name, key, NULL), 0);
    struct trusted_key public = signing_public(key);
    signing_write_public(&public, text);
}

Test(tier_fetch, a_trusted_key_counts_until_it_is_revoked)
{
    struct signing_key good, revoked;
    char good_text[KEY_TEXT_MAX], revoked_text[KEY_TEXT_MAX];
    make_key("good", &good, good_text);
    make_key("revoked", &revoked, revoked_text);
    UP("tier_trusted", good_text, "tier_trusted", revoked_text, "tier_revoked", revoked_text);
    ask_first(ASK_KNOWN, "graph-1");
    tier_rig_entry("graph-1", view_of_text("the value"), &entry);
    tier_rig_answer_entry(&rig, &ask, &entry, &good);
    tier_rig_until(&rig, &first, "W=");
    ask_first(ASK_KNOWN, "graph-2");
    tier_rig_entry("graph-2", view_of_text("the value"), &entry);
    tier_rig_answer_entry(&rig, &ask, &entry, &revoked);
    tier_rig_until(&rig, &first, "WM");
    cr_expect_str_eq(first.ask.tier_said, "signature of revoked key revoked");
    cr_expect_eq(rig.tier->n_unsigned, 1u);
}

/* How the object of a large value is wrong. */
enum wrong { OTHER_BYTES, OTHER_LENGTH, NOT_SEALED, NO_DESCRIPTOR, GONE, WRONGS };

static void answer_wrong_value(enum wrong wrong, uint8_t *value)
{
    struct tier_answer a = {.id = ask.id, .outcome = TIER_OK, .length = LARGE_BYTES};
    int fd;
    switch (wrong) {
    case OTHER_BYTES:
        value[7] ^= 1;
        tier_rig_answer_value(&rig, &ask, (struct view){value, LARGE_BYTES});
        value[7] ^= 1;
        break;
    case OTHER_LENGTH:
        tier_rig_answer_value(&rig, &ask, (struct view){value, LARGE_BYTES - 1});
        break;
    case NOT_SEALED:
        fd = memfd_create("value", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        cr_assert_eq(write(fd, value, LARGE_BYTES), (ssize_t)LARGE_BYTES);
        fake_helper_answer(&rig.helper, &a, (struct view){0}, fd);
        close(fd);
        break;
    case NO_DESCRIPTOR: answer(TIER_OK); break;
    case GONE: answer(TIER_ABSENT); break;
    case WRONGS: break;
    }
}

Test(tier_fetch, a_large_value_with_other_bytes_is_a_miss)
{
    uint8_t *value = calloc(1, LARGE_BYTES);
    char name[32];
    UP(NULL);
    for (enum wrong wrong = 0; wrong < WRONGS; wrong++) {
        size_t n_bad = wrong < NO_DESCRIPTOR ? (size_t)wrong + 1 : NO_DESCRIPTOR;
        snprintf(name, sizeof name, "graph-%d", (int)wrong);
        ask_first(ASK_KNOWN, name);
        answer_large_entry(name, value);
        answer_wrong_value(wrong, value);
        tier_rig_until(&rig, &first, "WM");
        cr_expect_eq(rig.tier->n_damaged, n_bad, "%d: %s", (int)wrong, first.ask.tier_said);
        cr_expect_eq(rig.tier->n_damaged + rig.tier->n_other, (size_t)wrong + 1);
        tier_rig_ask(&rig, &second, ASK_KNOWN, name);
        cr_expect_str_eq(second.seen, "M", "it is remembered");
    }
    cr_expect_eq(rig.service->n_puts, 0u);
    cr_expect_eq(count(STATS_tier_hits), 0u);
    free(value);
}

Test(tier_fetch, a_value_that_does_not_come_is_a_failure_and_no_miss)
{
    uint8_t *value = calloc(1, LARGE_BYTES);
    UP(NULL);
    ask_first(ASK_KNOWN, "graph");
    answer_large_entry("graph", value);
    answer(TIER_FAILED);
    tier_rig_until(&rig, &first, "WM");
    cr_expect_eq(count(STATS_tier_errors), 1u);
    cr_expect_eq(count(STATS_tier_refused), 0u);
    ask_first(ASK_KNOWN, "graph"); /* it may be there all the same */
    answer(TIER_ABSENT);
    tier_rig_until(&rig, &first, "WM");
    free(value);
}

/* ---- a tier that fails ---- */

Test(tier_fetch, three_failures_in_a_row_and_nobody_is_sent_there_until_a_probe_succeeds)
{
    char name[32];
    UP("tier_breaker", "50ms");
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "graph-%d", i);
        ask_first(ASK_KNOWN, name);
        answer(TIER_FAILED);
        tier_rig_until(&rig, &first, "WM");
    }
    cr_expect_eq(count(STATS_tier_errors), 3u);
    cr_expect_eq(count(STATS_tier_misses), 0u, "an error is no miss");
    tier_rig_ask(&rig, &first, ASK_KNOWN, "graph-0");
    cr_expect_str_eq(first.seen, "M");
    cr_expect_str_eq(first.ask.tier_said, "not asked: outcome 8");
    for (int i = 0; i < 2; i++) { /* the daemon's own question */
        ask = tier_rig_take(&rig, TIER_GET);
        cr_expect_eq(strncmp(ask.name, "00/e-0000", 9), 0, "%s", ask.name);
        tier_rig_ask(&rig, &first, ASK_KNOWN, "graph-0");
        cr_expect_str_eq(first.seen, "M");
        answer(i ? TIER_ABSENT : TIER_FAILED);
    }
    TIER_RIG_AWAIT(&rig, !tier_is_off(rig.tier, &rig.tier->reads));
    ask_first(ASK_KNOWN, "graph-0");
    answer(TIER_ABSENT);
    tier_rig_until(&rig, &first, "WM");
}

Test(tier_fetch, a_success_in_between_begins_the_count_anew)
{
    char name[32];
    UP(NULL);
    for (int i = 0; i < 6; i++) {
        snprintf(name, sizeof name, "graph-%d", i);
        ask_first(ASK_KNOWN, name);
        answer(i % 3 == 2 ? TIER_ABSENT : TIER_FAILED);
        tier_rig_until(&rig, &first, "WM");
    }
    cr_expect_eq(count(STATS_tier_errors), 4u);
    cr_expect_not(tier_is_off(rig.tier, &rig.tier->reads));
}

Test(tier_fetch, a_refusal_of_the_credentials_is_enough)
{
    UP(NULL);
    ask_first(ASK_KNOWN, "graph");
    answer(TIER_DENIED);
    tier_rig_until(&rig, &first, "WM");
    tier_rig_ask(&rig, &first, ASK_KNOWN, "graph");
    cr_expect_str_eq(first.seen, "M");
}

Test(tier_fetch, a_tier_that_says_when_to_come_again_is_left_alone_until_then)
{
    UP(NULL);
    ask_first(ASK_KNOWN, "graph");
    struct tier_answer a = {.id = ask.id, .outcome = TIER_LATER, .wait_ms = 200};
    fake_helper_answer(&rig.helper, &a, (struct view){0}, -1);
    uint64_t began = now();
    tier_rig_until(&rig, &first, "WM");
    uint64_t off_until = rig.tier->reads.off_until_ms;
    cr_expect(off_until >= began + 200 && off_until <= now() + 200);
    tier_rig_ask(&rig, &first, ASK_KNOWN, "graph");
    cr_expect_str_eq(first.seen, "M");
    TIER_RIG_AWAIT(&rig, now() >= off_until);
    ask_first(ASK_KNOWN, "graph");
    answer(TIER_ABSENT);
    tier_rig_until(&rig, &first, "WM");
}

Test(tier_fetch, the_death_of_the_helper_is_a_miss_for_all_and_is_not_remembered)
{
    UP(NULL);
    ask_first(ASK_KNOWN, "graph");
    tier_rig_ask(&rig, &second, ASK_KNOWN, "graph");
    fake_helper_die(&rig.helper);
    tier_rig_until(&rig, &first, "WM");
    tier_rig_until(&rig, &second, "WM");
    cr_expect_str_eq(first.ask.tier_said, "warm-tier ended");
    tier_rig_ask(&rig, &first, ASK_KNOWN, "graph");
    cr_expect_str_eq(first.seen, "M", "there is no helper");
    tier_rig_accept(&rig);
    ask = tier_rig_take(&rig, TIER_GET); /* the daemon's own question: there was a failure */
    cr_expect_eq(strncmp(ask.name, "00/e-0000", 9), 0, "%s", ask.name);
    answer(TIER_ABSENT);
    ask_first(ASK_KNOWN, "graph");
    answer_entry("graph", "the value");
    tier_rig_until(&rig, &first, "W=");
}

Test(tier_fetch, all_waits_end_if_the_daemon_stops)
{
    UP(NULL);
    ask_first(ASK_KNOWN, "graph");
    tier_rig_ask(&rig, &second, ASK_KNOWN, "graph");
    tier_stop(rig.tier);
    cr_expect_str_eq(first.seen, "WM");
    cr_expect_str_eq(second.seen, "WM");
    cr_expect_str_eq(first.ask.tier_said, "the daemon is stopping");
    tier_rig_ask(&rig, &third, ASK_KNOWN, "another");
    cr_expect_str_eq(third.seen, "M");
    answer_entry("graph", "the value");
    TIER_RIG_AWAIT(&rig, !rig.tier->fetches);
    cr_expect_eq(rig.service->n_puts, 0u);
}

/* ---- budgets ---- */

Test(tier_fetch, an_asker_waits_for_half_of_what_making_it_takes)
{
    static const struct {
        const char *taught, *name;
        uint32_t cost_ms, budget_ms;
    } all[] = {{"a:1", "a:2", 1, 50},
               {"b:1", "b:2", 1000, 500},
               {"c:1", "c:2", 60000, 2000},
               {NULL, "d:2", 0, 2000}};
    UP(NULL);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i].taught)
            teach_cost(all[i].taught, all[i].cost_ms);
        uint64_t began = now();
        ask_first(ASK_KNOWN, all[i].name);
        cr_expect_eq(first.ask.tier_ends_ms - began, all[i].budget_ms, "%s", all[i].name);
        answer(TIER_ABSENT);
        TIER_RIG_AWAIT(&rig, first.ended);
        if (fake_helper_is_asked(&rig.helper)) /* the machine was busy, and the budget over */
            tier_rig_take(&rig, (enum tier_operation)TIER_CANCEL);
    }
}

Test(tier_fetch, a_late_answer_is_not_waited_for)
{
    UP(NULL);
    teach_cost("a:1", CHEAP_MS);
    ask_first(ASK_KNOWN, "a:2");
    tier_rig_until(&rig, &first, "WM");
    cr_expect_eq(strncmp(first.ask.tier_said, "no answer in ", 13), 0, "%s", first.ask.tier_said);
    cr_expect_eq(count(STATS_tier_late), 1u);
    struct tier_ask cancel = tier_rig_take(&rig, (enum tier_operation)TIER_CANCEL);
    cr_expect_eq(cancel.id, ask.id, "nobody makes it here: the answer is of no use");
    answer(TIER_FAILED);
    TIER_RIG_AWAIT(&rig, !rig.tier->fetches);
    cr_expect_eq(count(STATS_tier_errors), 0u);
}

Test(tier_fetch, a_late_answer_overtakes_the_maker)
{
    UP(NULL);
    teach_cost("a:1", CHEAP_MS);
    ask_first(ASK_LEASE, "a:2");
    tier_rig_until(&rig, &first, "WL");
    cr_expect_eq(count(STATS_tier_late), 1u);
    let_tick();
    answer_entry("a:2", "the value");
    tier_rig_until(&rig, &first, "WLO");
    TIER_RIG_AWAIT(&rig, !rig.service->n_puts);
    cr_expect(tier_rig_has(&rig, "a:2", "the value"));
    cr_expect_eq(count(STATS_tier_overtook), 1u);
}

Test(tier_fetch, what_is_made_first_ends_the_fetch)
{
    struct tier_ask got[2];
    UP(NULL);
    teach_cost("a:1", CHEAP_MS);
    ask_first(ASK_LEASE, "a:2");
    tier_rig_until(&rig, &first, "WL");
    tier_rig_put(&rig, "a:2", view_of_text("made here"), CHEAP_MS);
    cr_expect_str_eq(first.seen, "WLO");
    for (int i = 0; i < 2; i++) /* in either order */
        got[i] = fake_helper_take(&rig.helper, NULL);
    bool cancel_is_first = got[0].operation == TIER_CANCEL;
    cr_expect_eq(got[!cancel_is_first].operation, TIER_CANCEL);
    cr_expect_eq(got[!cancel_is_first].id, ask.id);
    cr_expect_eq(got[cancel_is_first].operation, TIER_PUT);
    tier_rig_answer(&rig, &got[cancel_is_first], TIER_OK);
    answer_entry("a:2", "made elsewhere");
    TIER_RIG_AWAIT(&rig, !rig.tier->fetches && !rig.tier->n_uploads);
    cr_expect(tier_rig_has(&rig, "a:2", "made here"));
    cr_expect_eq(count(STATS_tier_overtook), 0u);
}

/* ---- leases ---- */

Test(tier_fetch, who_can_make_the_key_gets_its_lease)
{
    UP(NULL);
    ask_first(ASK_LEASE, "graph");
    cr_expect_eq(ask.lease_ms, 10000u);
    cr_expect_eq(ask.slot, 0u);
    answer(TIER_LEASE);
    tier_rig_until(&rig, &first, "WL");
    cr_expect_str_eq(first.ask.tier_said, "404; this node makes it");
    cr_expect_eq(count(STATS_tier_leases), 1u);
    cr_expect_eq(count(STATS_tier_misses), 1u);
    cr_expect_null(rig.tier->fetches);
    struct store_id id = tier_rig_id(&rig, "graph");
    cr_expect_not_null(tier_lease_find(rig.tier, &id));
}

Test(tier_fetch, a_cheap_key_or_an_asker_that_only_looks_takes_no_lease)
{
    UP("tier_min_cost", "1s");
    tier_rig_put(&rig, "a:1", view_of_text("made before"), 100);
    tier_rig_ask(&rig, &first, ASK_LEASE, "a:2");
    ask = tier_rig_take(&rig, TIER_GET);
    answer(TIER_ABSENT);
    tier_rig_until(&rig, &first, "WL");
    tier_rig_leave(&first);
    ask_first(ASK_KNOWN, "graph");
    answer(TIER_ABSENT);
    tier_rig_until(&rig, &first, "WM");
}

Test(tier_fetch, a_lease_that_nobody_wants_any_more_is_given_back)
{
    static const enum tier_outcome all[] = {TIER_LEASE, TIER_FAILED, TIER_WAIT};
    UP(NULL);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        ask_first(ASK_LEASE, "graph");
        cancel_first();
        answer(all[i]);
        if (all[i] != TIER_WAIT) { /* it may have the lease */
            struct tier_ask back = tier_rig_take(&rig, TIER_RELEASE);
            cr_expect_str_eq(back.name, ask.name);
            cr_expect_eq(memcmp(back.token, ask.token, sizeof ask.token), 0);
            tier_rig_answer(&rig, &back, TIER_OK);
        }
        TIER_RIG_AWAIT(&rig, tier_has_let_go(rig.tier));
    }
    cr_expect_eq(count(STATS_tier_leases), 0u);
}

Test(tier_fetch, a_key_that_another_node_makes_is_asked_for_again_until_it_is_there)
{
    uint8_t token[TIER_TOKEN_SIZE];
    UP(NULL);
    ask_first(ASK_LEASE, "graph");
    memcpy(token, ask.token, sizeof token);
    answer(TIER_WAIT);
    ask = tier_rig_take(&rig, TIER_ASK);
    tier_rig_expect_entry_of(&ask, "graph");
    cr_expect_neq(memcmp(token, ask.token, sizeof token), 0);
    tier_rig_ask(&rig, &second, ASK_LEASE, "graph");
    cr_expect_str_eq(second.seen, "W");
    answer(TIER_WAIT);
    ask = tier_rig_take(&rig, TIER_ASK);
    answer_entry("graph", "the value");
    tier_rig_until(&rig, &first, "W=");
    tier_rig_until(&rig, &second, "W=");
    cr_expect_eq(count(STATS_tier_waits), 1u);
    cr_expect_eq(count(STATS_tier_misses), 0u);
}

Test(tier_fetch, the_lease_of_a_node_that_is_gone_goes_to_a_waiter)
{
    UP(NULL);
    ask_first(ASK_LEASE, "graph");
    answer(TIER_WAIT);
    ask = tier_rig_take(&rig, TIER_ASK);
    answer(TIER_LEASE);
    tier_rig_until(&rig, &first, "WL");
    cr_expect_eq(count(STATS_tier_leases), 1u);
}

Test(tier_fetch, without_leases_the_tier_is_asked_for_objects_alone)
{
    static const enum tier_outcome all[] = {TIER_CANNOT, TIER_DENIED};
    UP(NULL);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        rig.tier->has_no_leases = false;
        ask_first(ASK_LEASE, i ? "graph-1" : "graph-2");
        answer(all[i]);
        ask = tier_rig_take(&rig, TIER_GET);
        answer(TIER_ABSENT);
        tier_rig_until(&rig, &first, "WL");
        cr_expect(rig.tier->has_no_leases);
        tier_rig_leave(&first);
    }
    cr_expect_eq(count(STATS_tier_errors), 0u);
    tier_rig_ask(&rig, &first, ASK_LEASE, "graph-3");
    ask = tier_rig_take(&rig, TIER_GET);
    answer(TIER_ABSENT);
    tier_rig_until(&rig, &first, "WL");
}

Test(tier_fetch, beside_a_late_node_an_asker_makes_it_and_the_first_result_wins)
{
    UP("tier_hedge", "4s");
    ask_first(ASK_LEASE, "graph");
    while (!ask.slot) {
        answer(TIER_WAIT);
        ask = tier_rig_take(&rig, TIER_ASK);
    }
    cr_expect_eq(ask.slot, 1u, "beside the lease");
    struct tier_ask lease = ask;
    answer(TIER_LEASE);
    tier_rig_until(&rig, &first, "WL");
    cr_expect_eq(count(STATS_tier_hedges), 1u);
    ask =
        tier_rig_take(&rig, TIER_GET); /* it has a lease, and looks whether the other was faster */
    answer(TIER_ABSENT);
    ask = tier_rig_take(&rig, TIER_GET);
    answer_entry("graph", "the value");
    tier_rig_until(&rig, &first, "WLO");
    cr_expect_eq(count(STATS_tier_overtook), 1u);
    struct tier_ask back = tier_rig_take(&rig, TIER_RELEASE);
    cr_expect_eq(back.slot, 1u);
    cr_expect_eq(memcmp(back.token, lease.token, sizeof lease.token), 0);
    tier_rig_answer(&rig, &back, TIER_OK);
    TIER_RIG_AWAIT(&rig, tier_has_let_go(rig.tier));
}

/* Runs the loop once; another node makes whatever is asked for. */
static void step_with_maker(void)
{
    tier_rig_step(&rig);
    if (!fake_helper_is_asked(&rig.helper))
        return;
    ask = fake_helper_take(&rig.helper, NULL);
    answer(ask.operation == TIER_ASK      ? TIER_WAIT
           : ask.operation == TIER_CANCEL ? TIER_FAILED
                                          : TIER_ABSENT);
}

Test(tier_fetch, a_cheap_key_is_made_beside_the_node_that_makes_it)
{
    char name[32];
    UP(NULL);
    teach_cost("a:1", CHEAP_MS);
    for (int i = 0; !count(STATS_tier_races); i++) {
        cr_assert_lt(i, TRIES_MAX, "each time its budget ended first");
        snprintf(name, sizeof name, "a:%d", i + 2);
        uint64_t began = now();
        ask_first(ASK_LEASE, name);
        answer(TIER_WAIT);
        while (strcmp(first.seen, "WL") != 0)
            step_with_maker();
        if (count(STATS_tier_races)) {
            cr_expect_str_eq(first.ask.tier_said, "another node makes it");
            cr_expect_geq(now() - began, 300u);
        }
        tier_rig_leave(&first);
        while (rig.tier->fetches)
            step_with_maker();
    }
}

/* ---- a helper that somebody took over ---- */

Test(tier_fetch, a_lease_that_answers_a_get_is_a_miss)
{
    UP(NULL);
    ask_first(ASK_KNOWN, "graph");
    answer(TIER_LEASE);
    tier_rig_until(&rig, &first, "WM");
    TIER_RIG_AWAIT(&rig, !tier_link_is_ready(rig.tier->link));
}
