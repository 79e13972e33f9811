/* SPDX-License-Identifier: Apache-2.0 */
/* test_inspect.c - what a peer sees of other users: filters, and the JSON of STATS and INFO. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/json_reader.h"
#include "tests/support/service.h"

static const struct peer ada = {.uid = 1000, .space = 1000}, bob = {.uid = 1001, .space = 1001},
                         member = {.uid = 1002, .space = 5000}, /* of the trusted group */
    root = {.uid = 0, .space = 0, .is_admin = true};
static struct service_rig rig;

static void setup(void) { service_rig_up(&rig); }
static void teardown(void) { service_rig_down(&rig); }
TestSuite(inspect, .init = setup, .fini = teardown, .timeout = 120);

/* ---- filters ---- */

static struct wire_filter all(void)
{
    return (struct wire_filter){
        .uid = -1, .kind = -1, .pinned = -1, .max_bytes = UINT64_MAX, .max_hits = UINT32_MAX};
}

/* True if the filter of a peer reaches an entry of this owner and maker. */
static bool reaches(const struct peer *peer, const struct wire_filter *f, uint32_t owner,
                    uint32_t maker)
{
    struct store_filter out;
    struct store_row row = {.id.owner = owner, .maker = maker, .len = 5};
    return service_filter(peer, f, &out) && store_filter_match(&out, &row, 1000);
}

Test(inspect, a_user_reaches_their_own_entries_alone)
{
    struct wire_filter f = all();
    cr_expect(reaches(&ada, &f, 1000, 1000));
    cr_expect(reaches(&ada, &f, STORE_MADE_HERE, 1000), "made for Ada");
    cr_expect_not(reaches(&ada, &f, 1001, 1001));
    cr_expect_not(reaches(&ada, &f, STORE_MADE_HERE, 1001));
    cr_expect(reaches(&member, &f, 5000, 1003), "the group's");
    cr_expect_not(reaches(&member, &f, 1003, 1003));
    cr_expect(reaches(&root, &f, 1000, 1000) && reaches(&root, &f, STORE_MADE_HERE, 1001));
}

Test(inspect, a_user_may_name_no_other_user)
{
    struct store_filter out = {.owner = 77};
    struct wire_filter f = all();
    f.uid = 1001;
    cr_expect_not(service_filter(&ada, &f, &out));
    cr_expect_eq(out.owner, 77, "it is set on success alone");
    f.uid = 0;
    cr_expect_not(service_filter(&ada, &f, &out));
    f.uid = 1000;
    cr_expect(reaches(&ada, &f, 1000, 1000) && !reaches(&ada, &f, 1001, 1001));
    f.uid = 1001;
    cr_expect(reaches(&root, &f, 1001, 1001) && reaches(&root, &f, STORE_MADE_HERE, 1001));
    cr_expect_not(reaches(&root, &f, 1000, 1000));
}

Test(inspect, each_field_of_a_filter_is_taken)
{
    struct wire_filter f = {.uid = -1,
                            .kind = 3,
                            .pinned = 1,
                            .min_bytes = 4,
                            .max_bytes = 5,
                            .min_age_ms = 6,
                            .min_idle_ms = 7,
                            .min_hits = 8,
                            .max_hits = 9,
                            .hardware = view_of_text("sm_90"),
                            .compiler = view_of_text("12"),
                            .text = view_of_text("t")};
    struct store_filter out;
    cr_assert(service_filter(&root, &f, &out));
    cr_expect(out.owner == -1 && out.maker == -1 && out.kind == 3 && out.pinned == 1);
    cr_expect(out.min_bytes == 4 && out.max_bytes == 5 && out.min_age_ms == 6);
    cr_expect(out.min_idle_ms == 7 && out.min_hits == 8 && out.max_hits == 9);
    cr_expect(out.hardware.len == 5 && out.compiler.len == 2 && out.text.len == 1);
}

/* ---- STATS ---- */

static struct writer json;

/* Returns the JSON for a peer; it lives until the next call. */
static struct view json_for(const struct peer *peer,
                            void (*write)(struct service *s, const struct peer *peer,
                                          struct writer *out))
{
    writer_close(&json);
    writer_init(&json, 0);
    write(rig.service, peer, &json);
    cr_assert_not(json.failed);
    return (struct view){json.data, json.len};
}

static bool has(struct view doc, const char *path)
{
    struct view v;
    return json_reader_find(doc, path, &v);
}

Test(inspect, stats_tell_a_user_of_no_other)
{
    cr_assert_eq(service_rig_put(&rig, &ada, service_rig_text("a", "hers")), 0);
    cr_assert_eq(service_rig_put(&rig, &bob, service_rig_text("b", "his")), 0);
    struct view doc = json_for(&ada, service_write_stats);
    cr_expect(has(doc, "users.1000") && !has(doc, "users.1001") && !has(doc, "users.0"));
    cr_expect_gt(json_reader_count(doc, "users.1000.space.used"), 0);
    cr_expect_eq(json_reader_count(doc, "entries"), 2);
    cr_expect_eq(json_reader_count(doc, "puts"), 2);
    doc = json_for(&root, service_write_stats);
    cr_expect(has(doc, "users.1000") && has(doc, "users.1001"), "an administrator sees all");
    doc = json_for(&member, service_write_stats);
    cr_expect(has(doc, "users.1002") && !has(doc, "users.1000"), "also without entries");
    writer_close(&json);
}

static void on_answer(struct ask *call, const struct answer *a) { (void)call, (void)a; }

static void lease(struct ask *call, const struct peer *peer, const char *name)
{
    *call = (struct ask){
        .service = rig.service, .peer = peer, .on_answer = on_answer, .name = view_of_text(name)};
    service_ask(call, &(struct question){.space = WIRE_SPACE_NAME,
                                         .key = view_of_text(name),
                                         .mode = ASK_LEASE,
                                         .wait_ms = 60000});
}

static size_t n_making(struct view doc)
{
    struct view rest, item;
    size_t n = 0;
    cr_assert(json_reader_find(doc, "making", &rest));
    while (json_reader_next(&rest, &item))
        n++;
    return n;
}

Test(inspect, what_is_being_made_is_told_to_its_users)
{
    struct ask hers, waits, his;
    struct view rest, item, v;
    lease(&hers, &ada, "a");
    lease(&waits, &ada, "a");
    lease(&his, &bob, "b");
    struct view doc = json_for(&ada, service_write_stats);
    cr_assert_eq(n_making(doc), 1);
    json_reader_find(doc, "making", &rest);
    cr_assert(json_reader_next(&rest, &item));
    cr_expect_eq(json_reader_count(item, "uid"), 1000);
    cr_expect_eq(json_reader_count(item, "waiters"), 1);
    cr_expect(json_reader_find(item, "by", &v) && view_is(v, "\"client\""));
    cr_expect_eq(n_making(json_for(&bob, service_write_stats)), 1);
    cr_expect_eq(n_making(json_for(&member, service_write_stats)), 0);
    cr_expect_eq(n_making(json_for(&root, service_write_stats)), 2);
    ask_drop(&hers, false), ask_drop(&waits, false), ask_drop(&his, false);
    cr_expect_eq(n_making(json_for(&root, service_write_stats)), 0);
    writer_close(&json);
}

/* ---- INFO ---- */

Test(inspect, info_has_versions_settings_and_the_stores_state)
{
    struct view doc, v;
    cr_assert_eq(service_rig_put(&rig, &ada, service_rig_text("a", "value")), 0);
    doc = json_for(&ada, service_write_info);
    cr_expect_eq(json_reader_count(doc, "protocol"), WIRE_VERSION);
    cr_expect_eq(json_reader_count(doc, "store.entries"), 1);
    cr_expect_eq(json_reader_count(doc, "store.bytes"), 5);
    cr_expect(json_reader_find(doc, "store.read_only", &v) && view_is(v, "false"));
    cr_expect(has(doc, "settings") && has(doc, "log") && has(doc, "config_file"));
    cr_expect(json_reader_find(doc, "toolchains", &v) && view_is(v, "[]"), "it has none");
    cr_expect(json_reader_find(doc, "workers.landlock", &v) && view_is(v, "null"),
              "no worker has run yet");
    writer_close(&json);
}
