/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_admin.c - the native messages for people on a server without a daemon: lists, removals, pins, checks. What
 * other users see is in test_inspect.c and test_trust.c.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cli/json_reader.h"
#include "daemon/process/log.h"
#include "tests/support/server_rig.h"
#include "tests/support/store_kit.h"

#define ENTRIES 5

static struct server_rig rig;
static struct server_rig_frame f;
static struct writer w, keys;
static int client;

static void setup(void)
{
    log_set_level(LOG_LEVEL_ERROR);
    writer_init(&w, 0);
    writer_init(&keys, 0);
    server_rig_prepare(&rig);
}

static void teardown(void)
{
    close(client);
    server_rig_down(&rig);
    writer_close(&w);
    writer_close(&keys);
}

TestSuite(admin, .init = setup, .fini = teardown, .timeout = 120);

static void up(void)
{
    server_rig_start(&rig);
    client = server_rig_native(&rig);
}

static void send_frames(void) { server_rig_send(client, &w, NULL, 0); }

static void answer(uint64_t tag, enum wire_type type)
{
    server_rig_answer(&rig, client, &f, tag, type);
}

/* Puts a value of so many bytes, and waits until it is stored. */
static void put(const char *name, size_t len)
{
    uint8_t *value = kit_value(1, 0, len);
    struct wire_put m = {.len = len,
                         .kind = WIRE_KIND_TRITON,
                         .cost_ms = 7,
                         .key = view_of_text(name),
                         .hardware = view_of_text("sm_90"),
                         .label = view_of_text("label"),
                         .value = {value, len}};
    server_rig_put(client, 1000, &m);
    answer(1000, WIRE_OK);
    free(value);
}

/* Puts entry-0 to entry-4, of one byte to five. */
static void put_all(void)
{
    char name[32];
    for (int i = 0; i < ENTRIES; i++) {
        snprintf(name, sizeof name, "entry-%d", i);
        put(name, (size_t)i + 1);
    }
}

static struct wire_report expect_report(uint64_t tag)
{
    struct wire_report m = {0};
    do
        cr_assert(server_rig_take(&rig, client, &f));
    while (f.frame.type == WIRE_PROGRESS);
    cr_assert_eq(f.frame.type, WIRE_REPORT, "%s", wire_type_name(f.frame.type));
    cr_assert_eq(f.frame.tag, tag);
    cr_assert_eq(wire_get_report(&f.frame, &m, NULL), 0);
    return m;
}

/* Fills `keys` with these names. Returns how many. */
static uint32_t list_names(const char *const *names)
{
    uint32_t n = 0;
    keys.len = 0;
    for (; names[n]; n++)
        wire_keys_add(&keys, WIRE_SPACE_NAME, names[n], strlen(names[n]));
    return n;
}

#define NAMES(...) list_names((const char *const[]){__VA_ARGS__, NULL})

static struct wire_filter all(void)
{
    return (struct wire_filter){
        .uid = -1, .kind = -1, .pinned = -1, .max_bytes = UINT64_MAX, .max_hits = UINT32_MAX};
}

/* True if the entry is there: asks for its row, which it leaves in *out. */
static bool show(const char *name, struct wire_row *out)
{
    wire_put_show(&w, 1, &(struct wire_show){WIRE_SPACE_NAME, view_of_text(name)});
    send_frames();
    cr_assert(server_rig_take(&rig, client, &f));
    if (f.frame.type == WIRE_MISS)
        return false;
    cr_assert_eq(f.frame.type, WIRE_ROW);
    cr_assert_eq(wire_get_row(&f.frame, out, NULL), 0);
    return true;
}

/* ---- rows ---- */

Test(admin, a_row_has_all_that_the_put_said)
{
    struct wire_row row;
    up();
    put("name", 9);
    cr_assert(show("name", &row));
    cr_expect(row.len == 9 && row.cost_ms == 7 && row.kind == WIRE_KIND_TRITON && !row.pinned);
    cr_expect(row.owner == geteuid() && row.maker == geteuid() && row.hits == 0);
    cr_expect(row.name.len == 4 && memcmp(row.name.data, "name", 4) == 0);
    cr_expect(row.label.len == 5 && memcmp(row.label.data, "label", 5) == 0);
    cr_expect(row.hardware.len == 5 && memcmp(row.hardware.data, "sm_90", 5) == 0);
    cr_expect(row.tier == 0 && row.signer.len == 0);
    cr_expect_not(show("other", &row));
}

/* Lists in steps of `max_rows` with a filter. Returns the sum of the entries' lengths; each comes once. */
static uint64_t list(const struct wire_filter *filter, uint32_t max_rows, unsigned *out_steps)
{
    struct wire_list m = {.filter = *filter, .max_rows = max_rows};
    struct wire_end end = {.more = true};
    struct wire_row row;
    bool seen[ENTRIES + 1] = {false};
    uint64_t sum = 0;
    for (*out_steps = 0; end.more; ++*out_steps) {
        uint32_t n = 0;
        wire_put_list(&w, 3, &m);
        send_frames();
        for (;; n++) {
            cr_assert(server_rig_take(&rig, client, &f));
            cr_assert_eq(f.frame.tag, 3u);
            if (f.frame.type != WIRE_ROW)
                break;
            cr_assert_eq(wire_get_row(&f.frame, &row, NULL), 0);
            cr_assert_leq(row.len, ENTRIES);
            cr_assert_not(seen[row.len], "an entry came twice");
            seen[row.len] = true;
            sum += row.len;
        }
        cr_assert_eq(f.frame.type, WIRE_END);
        cr_assert_eq(wire_get_end(&f.frame, &end, NULL), 0);
        cr_assert_leq(n, max_rows);
        memcpy(m.cursor, end.cursor, sizeof m.cursor);
    }
    return sum;
}

Test(admin, a_list_in_steps_has_each_entry_once)
{
    struct wire_filter filter = all();
    unsigned n_steps;
    up();
    put_all();
    cr_expect_eq(list(&filter, 100, &n_steps), 15u);
    cr_expect_eq(n_steps, 1u);
    cr_expect_eq(list(&filter, 2, &n_steps), 15u);
    cr_expect_geq(n_steps, 3u);
    filter.min_bytes = 4;
    cr_expect_eq(list(&filter, 2, &n_steps), 9u);
    filter.kind = WIRE_KIND_CUBIN;
    cr_expect_eq(list(&filter, 2, &n_steps), 0u);
}

Test(admin, a_wrong_field_costs_that_request_alone)
{
    struct wire_row row;
    up();
    for (int type = WIRE_LIST; type <= WIRE_PUSH; type++) {
        if (type == WIRE_STATS || type == WIRE_INFO) /* they have no fields */
            continue;
        size_t at = wire_begin(&w, (enum wire_type)type, 0, (uint64_t)type);
        writer_bytes(&w, "\xff", 1);
        wire_end(&w, at);
        send_frames();
        answer((uint64_t)type, WIRE_ERROR);
    }
    cr_expect_not(show("name", &row));
}

/* ---- texts ---- */

static struct view text_of(uint64_t tag)
{
    struct wire_text m;
    answer(tag, WIRE_TEXT);
    cr_assert_eq(wire_get_text(&f.frame, &m, NULL), 0);
    return m.text;
}

Test(admin, statistics_and_settings_are_json)
{
    up();
    put_all();
    wire_put_empty(&w, WIRE_STATS, 4);
    wire_put_empty(&w, WIRE_INFO, 5);
    send_frames();
    struct view stats = text_of(4);
    cr_expect_eq(json_reader_count(stats, "entries"), ENTRIES);
    cr_expect_eq(json_reader_count(stats, "puts"), ENTRIES);
    cr_expect_eq(json_reader_count(text_of(5), "protocol"), WIRE_VERSION);
}

Test(admin, a_note_is_in_the_history_of_its_session)
{
    struct wire_history ask = {.of = WIRE_HISTORY_SESSION, .id = view_of_text("run-1")};
    up();
    wire_put_history(&w, 1, &ask);
    send_frames();
    answer(1, WIRE_MISS); /* no such session */
    wire_put_hello(&w, 2,
                   &(struct wire_hello){.version_min = WIRE_VERSION,
                                        .version_max = WIRE_VERSION,
                                        .client = view_of_text("test session=run-1")});
    wire_put_note(&w, 0,
                  &(struct wire_note){.reason = WIRE_REASON_UNCACHEABLE,
                                      .label = view_of_text("kernel.cu"),
                                      .text = view_of_text("__TIME__")});
    wire_put_history(&w, 3, &ask);
    send_frames();
    answer(2, WIRE_WELCOME);
    struct view text = text_of(3); /* the note itself has no answer */
    cr_expect(memmem(text.data, text.len, "kernel.cu", 9), "%.*s", (int)text.len,
              (const char *)text.data);
    cr_expect(memmem(text.data, text.len, "__TIME__", 8));
}

/* ---- changes ---- */

Test(admin, removed_entries_are_reported_and_gone)
{
    struct wire_row row;
    up();
    put_all();
    uint32_t n = NAMES("entry-1", "entry-3", "no such name");
    wire_put_remove(&w, 5, &(struct wire_remove){n, {keys.data, keys.len}});
    send_frames();
    struct wire_report report = expect_report(5);
    cr_expect(report.n_entries == 2 && report.n_bytes == 2 + 4);
    cr_expect(show("entry-0", &row) && show("entry-2", &row) && show("entry-4", &row));
    cr_expect(!show("entry-1", &row) && !show("entry-3", &row));
    n = NAMES("no such name");
    wire_put_remove(&w, 6, &(struct wire_remove){n, {keys.data, keys.len}});
    send_frames();
    cr_expect_eq(expect_report(6).n_entries, 0u);
}

static struct wire_report evict(uint64_t min_bytes, bool dry_run)
{
    struct wire_evict m = {.filter = all(), .dry_run = dry_run};
    m.filter.min_bytes = min_bytes;
    wire_put_evict(&w, 7, &m);
    send_frames();
    return expect_report(7);
}

static void pin(bool pinned)
{
    uint32_t n = NAMES("entry-4");
    wire_put_pin(&w, 8, &(struct wire_pin){pinned, n, {keys.data, keys.len}});
    send_frames();
    cr_expect_eq(expect_report(8).n_entries, 1u);
}

Test(admin, an_eviction_takes_what_its_filter_says_and_leaves_pins)
{
    struct wire_row row;
    up();
    put_all();
    pin(true);
    cr_assert(show("entry-4", &row));
    cr_expect(row.pinned);
    cr_expect_eq(evict(4, true).n_entries, 1u, "it would take one");
    cr_expect(show("entry-3", &row), "and takes none");
    struct wire_report report = evict(4, false);
    cr_expect(report.n_entries == 1 && report.n_bytes == 4);
    cr_expect(!show("entry-3", &row) && show("entry-4", &row) && show("entry-2", &row));
    pin(false);
    cr_expect_eq(evict(4, false).n_entries, 1u);
    cr_expect_not(show("entry-4", &row));
}

Test(admin, who_is_no_administrator_reaches_no_other_user)
{
    struct wire_evict m = {.filter = all()};
    struct wire_list list_all = {.filter = all()};
    struct wire_end end;
    rig.config.is_shared = true; /* its clients are no administrators */
    up();
    put_all();
    m.filter.uid = list_all.filter.uid = (int64_t)geteuid() + 1;
    wire_put_evict(&w, 7, &m);
    send_frames();
    cr_expect_eq(expect_report(7).n_entries, 0u);
    wire_put_list(&w, 8, &list_all);
    send_frames();
    answer(8, WIRE_END);
    cr_assert_eq(wire_get_end(&f.frame, &end, NULL), 0);
    cr_expect_not(end.more);
    wire_put_verify(&w, 9, &(struct wire_verify){0});
    send_frames();
    server_rig_expect_error(&rig, client, 9, WARM_EDENIED);
}

Test(admin, without_a_tier_nothing_is_pushed)
{
    up();
    put_all();
    uint32_t n = NAMES("entry-1");
    wire_put_push(&w, 9, &(struct wire_remove){n, {keys.data, keys.len}});
    send_frames();
    server_rig_expect_error(&rig, client, 9, WARM_EUNSUPPORTED);
}

/* Changes a byte in the only file of the store. */
static void damage_file(void)
{
    size_t len;
    char *blobs = path_join(rig.base.dir, "blobs"), *path = kit_only_file(blobs);
    cr_assert_not_null(path);
    char *bytes = file_read(path, &len);
    cr_assert_eq(chmod(path, 0600), 0);
    bytes[100] ^= 1;
    file_write(path, bytes, len);
    free(bytes), free(path), free(blobs);
}

Test(admin, verify_finds_what_is_damaged)
{
    struct wire_row row;
    up();
    put_all();
    put("large", WIRE_INLINE_MAX + 1);
    wire_put_verify(&w, 9, &(struct wire_verify){0});
    send_frames();
    struct wire_report report = expect_report(9);
    cr_expect(report.n_entries == ENTRIES + 1 && report.n_corrupt == 0);
    damage_file();
    wire_put_verify(&w, 10, &(struct wire_verify){0});
    send_frames();
    cr_expect_eq(expect_report(10).n_corrupt, 1u);
    SERVER_RIG_AWAIT(&rig, !show("large", &row)); /* it is taken away, after the report */
}
