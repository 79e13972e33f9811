/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_tier_moves.c - which entries are pushed and pulled: limits, ages, lists that cannot be read. Daemons
 * with a folder beyond them, or with none. test_tier.c has the commands.
 */
#include "client/cli/commands/tier_moves.h"
#include "client/cli/filter.h"
#include "client/cli/json_reader.h"
#include "tests/support/printed.h"
#include "tests/support/tier_kit.h"

static char *list_path;

static void up(void)
{
    tier_setup();
    printed_setup();
    list_path = path_join(printed_folder, "list");
}
static void down(void)
{
    free(list_path);
    printed_teardown();
    tier_teardown();
}
TestSuite(tier_moves, .init = up, .fini = down, .timeout = 120);

static struct tier_moves all(void)
{
    return (struct tier_moves){
        .filter = filter_all(), .max_entries = UINT64_MAX, .max_bytes = UINT64_MAX};
}

static void push(const struct warmd *k, struct tier_moves m, int status, const char *printed)
{
    struct remote r = {.socket = k->socket};
    cr_expect_eq(tier_moves_push(&r, &m), status);
    cr_expect_null(r.w, "it is closed");
    printed_has(printed);
}

static void pull(const struct warmd *k, struct tier_moves m, const char *list, int status,
                 const char *printed)
{
    struct remote r = {.socket = k->socket, .as_json = true};
    file_write(list_path, list, strlen(list));
    cr_expect_eq(tier_moves_pull(&r, &m, list_path), status, "%s", list);
    cr_expect_null(r.w);
    printed_has(printed);
}

static void put_costly(const struct warmd *k, const char *name, size_t len, uint32_t cost_ms)
{
    char value[1000] = "";
    struct warm *w = warmd_libwarm(k);
    struct warm_put_options options = {.cost_ms = cost_ms};
    memset(value, *name, len);
    cr_assert_eq(warm_put(w, name, strlen(name), value, len, &options), 0, "%s", warm_message(w));
    warm_close(w);
}

/* ---- status ---- */

Test(tier_moves, status_is_of_the_tier_or_that_there_is_none)
{
    struct warmd k = warmd_up(NULL);
    struct remote r = {.socket = k.socket};
    cr_expect_eq(tier_moves_status(&r), CLI_FINDING);
    printed_has("warm: the daemon has no tier: set tier in warmd.conf");
    warmd_down(&k);
    r = (struct remote){.socket = "/nonexistent"};
    cr_expect_eq(tier_moves_status(&r), CLI_NO_DAEMON);
    printed_has("no daemon answers at");
    k = tier_up(NULL, tier_key_file, NULL);
    r = (struct remote){.socket = k.socket};
    await_stats(&k, "\"ready\": true");
    cr_expect_eq(tier_moves_status(&r), CLI_OK);
    printed_has("tier     file://");
    r.as_json = true;
    cr_expect_eq(tier_moves_status(&r), CLI_OK);
    printed_has("\"queue\": 0");
    warmd_down(&k);
}

/* ---- push ---- */

Test(tier_moves, the_costliest_are_pushed_first_within_the_limits)
{
    struct warmd k = warmd_up(NULL);
    struct tier_moves m = all();
    m.dry_run = true;
    push(&k, m, CLI_OK, "would have queued 0 entries, 0 B");
    put_costly(&k, "cheap", 10, 1);
    put_costly(&k, "dear", 300, 1000);
    put_costly(&k, "middle", 50, 100);
    push(&k, m, CLI_OK, "would have queued 3 entries, 360 B");
    m.max_entries = 2;
    push(&k, m, CLI_OK, "would have queued 2 entries, 350 B");
    m.max_entries = 0;
    push(&k, m, CLI_OK, "would have queued 0 entries, 0 B");
    m = all(), m.dry_run = true;
    m.max_bytes = 310;
    push(&k, m, CLI_OK, "would have queued 2 entries, 310 B");
    m.max_bytes = 309;
    push(&k, m, CLI_OK, "would have queued 1 entry, 300 B");
    m.max_bytes = 60;
    push(&k, m, CLI_OK, "would have queued 2 entries, 60 B");
    m = all(), m.dry_run = true;
    m.filter.min_bytes = 50;
    push(&k, m, CLI_OK, "would have queued 2 entries, 350 B");
    warmd_down(&k);
}

Test(tier_moves, entries_that_are_too_old_are_not_pushed)
{
    struct warmd k = warmd_up(NULL);
    struct tier_moves m = all();
    put_costly(&k, "one", 10, 1);
    m.dry_run = true;
    m.since_ms = 1;
    push(&k, m, CLI_OK, "would have queued 1 entry, 10 B");
    m.since_ms = UINT64_MAX;
    push(&k, m, CLI_OK, "would have queued 0 entries, 0 B");
    warmd_down(&k);
}

Test(tier_moves, a_push_to_no_tier_fails)
{
    struct warmd k = warmd_up(NULL);
    struct tier_moves m = all();
    push(&k, m, CLI_OK, "queued 0 entries");
    put_costly(&k, "one", 10, 1);
    push(&k, m, CLI_USAGE, "warm: ");
    m.session = "no-such-session";
    push(&k, m, CLI_FINDING, "warm: ");
    warmd_down(&k);
    push(&(struct warmd){.socket = "/nonexistent"}, m, CLI_NO_DAEMON, "no daemon answers at");
}

Test(tier_moves, more_entries_than_one_message_may_have_are_all_queued)
{
    enum { N = 1001 }; /* two messages */
    char *never[] = {"--tier-min-cost", "1h", NULL};
    struct warmd k = tier_up(NULL, tier_key_file, never);
    struct warm *w = warmd_libwarm(&k);
    struct warm_put_options cheap = {.cost_ms = 1};
    char name[16];
    for (unsigned i = 0; i < N; i++) {
        snprintf(name, sizeof name, "n%u", i);
        cr_assert_eq(warm_put(w, name, strlen(name), "v", 1, &cheap), 0, "%s", warm_message(w));
    }
    push(&k, all(), CLI_OK, "queued 1001 entries, 1001 B");
    warm_close(w);
    warmd_down(&k);
}

/* ---- pull ---- */

/* Pulls until so many entries of the list are here. Returns how many came. One is missing if the tier is late,
 * and comes twice if it is asked for before the store has it. */
static unsigned long long pull_all(const struct warmd *k, const char *list, unsigned n)
{
    unsigned long long here = 0, brought = 0;
    struct tier_moves m = all();
    file_write(list_path, list, strlen(list));
    for (uint64_t end = clock_now_ms() + WARMD_WAIT_MS; here < n && clock_now_ms() < end;) {
        struct remote r = {.socket = k->socket, .as_json = true};
        tier_moves_pull(&r, &m, list_path);
        char *printed = printed_take(), *json = strchr(printed, '{');
        cr_assert_not_null(json, "%s", printed);
        here = json_reader_count(view_of_text(json), "here");
        brought += json_reader_count(view_of_text(json), "brought");
        free(printed);
    }
    cr_expect_eq(here, n);
    return brought;
}

Test(tier_moves, a_list_tells_what_is_here_what_came_and_what_is_missing)
{
    struct warmd first = tier_up(NULL, tier_key_file, NULL), second;
    put_one(&first, "one", "1");
    put_one(&first, "two", "22");
    await_stats(&first, "\"tier_sent\": 2");
    warmd_down(&first);
    second = tier_up(NULL, tier_key_file, NULL);
    await_stats(&second, "\"ready\": true");
    put_costly(&second, "here", 4, 1);
    static const char list[] =
        "[{\"name\": \"one\", \"bytes\": 1}, {\"name\": \"here\", \"bytes\": 4},"
        " {\"name\": \"two\", \"bytes\": 2}, {\"name\": \"none\"}]";
    struct tier_moves m = all();
    m.dry_run = true;
    pull(&second, m, list, CLI_OK,
         "\"here\":1,\"brought\":3,\"bytes\":3,\"stay\":0,\"missing\":0}");
    m.max_bytes = 1;
    pull(&second, m, list, CLI_OK,
         "\"here\":1,\"brought\":2,\"bytes\":1,\"stay\":0,\"missing\":0}");
    m.max_entries = 1;
    pull(&second, m, list, CLI_OK,
         "\"here\":1,\"brought\":1,\"bytes\":1,\"stay\":0,\"missing\":0}");
    m = all();
    m.max_entries = 0;
    pull(&second, m, list, CLI_OK,
         "\"here\":1,\"brought\":0,\"bytes\":0,\"stay\":0,\"missing\":0}");
    cr_expect_geq(pull_all(&second, list, 3), 2, "two of them came");
    pull(&second, all(), list, CLI_FINDING,
         "\"here\":3,\"brought\":0,\"bytes\":0,\"stay\":0,\"missing\":1}");
    expect_value(&second, "two", "22");
    warmd_down(&second);
}

/* A list has what stays on the other machine, too: notes of programs, and what is cheap to make. */
Test(tier_moves, a_list_came_whole_if_all_that_travels_came)
{
    char *out, *warm = bin_path("warm"), *usual[] = {"--tier-min-cost", "20ms", NULL};
    struct warmd first = tier_up(NULL, tier_key_file, usual), second;
    put_costly(&first, "dear", 4, 500);
    put_costly(&first, "cheap", 5, 1);
    put_one(&first, "file:1:2:3:4:5", "note");
    await_stats(&first, "\"tier_sent\": 1");
    cr_assert_eq(run_command(&out, "WARM_SOCKET=%s %s ls --all --json", first.socket, warm), 0);
    second = tier_up(NULL, tier_key_file, NULL);
    await_stats(&second, "\"ready\": true");
    struct tier_moves m = all();
    m.dry_run = true;
    pull(&second, m, out, CLI_OK, "\"brought\":1,\"bytes\":4,\"stay\":2,\"missing\":0}");
    pull(&second, all(), out, CLI_OK, "\"brought\":1,\"bytes\":4,\"stay\":2,\"missing\":0}");
    free(out), free(warm);
    warmd_down(&first);
    warmd_down(&second);
}

/* Nobody could ask for such an entry. */
Test(tier_moves, objects_that_name_no_entry_are_passed_over)
{
    static const char proof[] = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    static const char key[] = "00112233445566778899aabbccddeeff";
    static const char *const objects[] = {
        "{}",
        "{\"name\": \"\"}",
        "{\"key\": \"KEY\"}",                                           /* of a name */
        "{\"made_here\": true, \"name\": \"n\", \"key\": \"KEY\"}",     /* no proof */
        "{\"made_here\": true, \"name\": \"n\", \"proof\": \"PROOF\"}", /* no key */
        "{\"made_here\": true, \"key\": \"KEY0\", \"proof\": \"PROOF\"}",
        "{\"made_here\": true, \"key\": \"KEY\", \"proof\": \"xPROOF\"}",
        "{\"made_here\": true, \"key\": \"gKEY\", \"proof\": \"PROOF\"}",
        "1",
        "[]",
    };
    struct warmd k = warmd_up(NULL);
    for (size_t i = 0; i < sizeof objects / sizeof *objects; i++) {
        struct writer w;
        writer_init(&w, 0);
        writer_u8(&w, '[');
        for (const char *c = objects[i]; *c;) {
            bool bad = *c == 'g' || *c == 'x'; /* one digit of the next one is none, or is more */
            const char *word = c + bad;
            if (strncmp(word, "KEY", 3) == 0) {
                writer_format(&w, "%s%s", bad ? "zz" : "", key + 2 * bad);
                c = word + 3;
            } else if (strncmp(word, "PROOF", 5) == 0) {
                writer_format(&w, "%s%s", bad ? "0" : "", proof);
                c = word + 5;
            } else {
                writer_u8(&w, (uint8_t)*c++);
            }
        }
        writer_format(&w, "]%c", 0);
        pull(&k, all(), (char *)w.data, CLI_OK,
             "\"here\":0,\"brought\":0,\"bytes\":0,\"stay\":0,\"missing\":0}");
        writer_close(&w);
    }
    char whole[300];
    snprintf(whole, sizeof whole, "[{\"made_here\": true, \"key\": \"%s\", \"proof\": \"%s\"}]",
             key, proof);
    pull(&k, all(), whole, CLI_FINDING, "\"missing\":1}");
    pull(&k, all(), "[{\"name\": \"n\"}, {\"name\": \"m\"", CLI_FINDING, "\"missing\":");
    pull(&k, all(), "", CLI_OK, "\"missing\":0}");
    pull(&k, all(), "no list", CLI_OK, "\"missing\":0}");
    warmd_down(&k);
}

Test(tier_moves, a_list_that_is_not_there_is_wrong_usage)
{
    struct remote r = {.socket = "/nonexistent"};
    struct tier_moves m = all();
    cr_expect_eq(tier_moves_pull(&r, &m, "/nonexistent/list"), CLI_USAGE);
    printed_has("warm: /nonexistent/list: No such file or directory");
    pull(&(struct warmd){.socket = "/nonexistent"}, m, "[]", CLI_NO_DAEMON, "no daemon answers at");
}
