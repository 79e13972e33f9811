/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_tier.c - daemons with stores of their own and one folder beyond them: what one made, the other
 * has. And whatever becomes of folder, helper or objects costs hits, and never a wrong byte.
 *
 * Needs a toolchain where it compiles: see support/pool.h.
 */
#include <ftw.h>

#include "tests/support/tier_kit.h"
#include "tier/signing.h"

TestSuite(tier, .init = tier_setup, .fini = tier_teardown);

/* Runs `warm` for the daemon; its output must have the text. */
static void warm_says(const struct warmd *k, const char *arguments, const char *text)
{
    char *warm = bin_path("warm"), *out;
    run_command(&out, "WARM_SOCKET=%s %s %s 2>&1", k->socket, warm, arguments);
    cr_assert(strstr(out, text), "warm %s says: %s", arguments, out);
    free(out);
    free(warm);
}

/* ---- what travels ---- */

Test(tier, a_second_machine_starts_with_the_first_ones_kernels)
{
    NEEDS_TOOLCHAIN(nvrtc);
    struct warmd first = tier_up(nvrtc, tier_key_file, NULL);
    struct key made = make_kernels(&first);
    await_objects(4);
    warmd_down(&first);

    struct warmd second = tier_up(nvrtc, tier_key_file, NULL);
    expect_kernels(&second, &made);
    struct ask a = ask_of(TIER_SOURCE);
    int fd = warmd_native(&second);
    ask_compile(fd, 5, &a, 0, WIRE_HIT); /* from its own store now */
    close(fd);
    cr_assert(warmd_stats_have(&second, "\"compiles\": 0"));
    warmd_down(&second);
}

Test(tier, a_source_with_another_comment_is_not_compiled_again)
{
    NEEDS_TOOLCHAIN(nvrtc);
    char commented[sizeof TIER_SOURCE + 32];
    struct key made, found;
    snprintf(commented, sizeof commented, "// by another\n%s", TIER_SOURCE);
    struct ask a = ask_of(TIER_SOURCE), b = ask_of(commented);
    struct warmd first = tier_up(nvrtc, tier_key_file, NULL);
    int fd = warmd_native(&first);
    lead_compile(fd, 1, &a, 0, "");
    expect_cubin(fd, 1, &made);
    close(fd);
    await_stats(&first, "\"queue\": 0,");
    warmd_down(&first);
    struct warmd second = tier_up(nvrtc, tier_key_file, NULL);
    fd = warmd_native(&second);
    lead_compile(fd, 2, &b, 0, "");
    cr_assert_eq(expect_cubin(fd, 2, &found), WIRE_WAS_HIT);
    cr_assert(key_equal(&made, &found));
    close(fd);
    cr_assert(warmd_stats_have(&second, "\"compiles\": 0"));
    warmd_down(&second);
}

Test(tier, a_named_value_travels_and_is_not_sent_back)
{
    struct warmd first = tier_up(NULL, tier_key_file, NULL);
    put_one(&first, "graph-1", "the bytes");
    await_objects(1);
    warmd_down(&first);
    struct warmd second = tier_up(NULL, tier_key_file, NULL);
    expect_value(&second, "graph-1", "the bytes");
    expect_miss(&second, "graph-2");
    warm_says(&second, "why --last", "the tier: 404");
    expect_value(&second, "graph-1", "the bytes");
    await_stats(&second, "\"entries\": 1,"); /* it is stored behind the answer */
    warm_says(&second, "show graph-1", "came from there, signed by node-1");
    warm_says(&second, "ls --json", "\"signer\":\"node-1\"");
    cr_assert(warmd_stats_have(&second, "\"tier_sent\": 0"));
    warmd_down(&second);
}

Test(tier, a_large_value_is_an_object_of_its_own)
{
    size_t len = 300000;
    char *value = malloc(len + 1);
    for (size_t i = 0; i < len; i++)
        value[i] = (char)('a' + (i * 2654435761u >> 13) % 26);
    value[len] = '\0';
    struct warmd first = tier_up(NULL, tier_key_file, NULL);
    struct warm *w = warmd_libwarm(&first);
    cr_assert_eq(warm_put(w, "large", 5, value, len, NULL), 0);
    warm_close(w);
    await_objects(2);
    warmd_down(&first);
    struct warmd second = tier_up(NULL, tier_key_file, NULL);
    w = warmd_libwarm(&second);
    struct warm_value got;
    cr_assert_eq(warm_get(w, "large", 5, 0, &got), 0);
    cr_assert_eq(got.len, len);
    cr_assert_eq(memcmp(got.data, value, len), 0);
    warm_value_free(&got);
    warm_close(w);
    warmd_down(&second);
    free(value);
}

/* ---- faults ---- */

Test(tier, an_entry_of_an_unknown_key_is_a_miss)
{
    char *other = path_join(tier_folder, "other");
    tier_make_key("node-2", other);
    struct warmd first = tier_up(NULL, tier_key_file, NULL);
    put_one(&first, "graph-1", "the bytes");
    await_objects(1);
    warmd_down(&first);
    struct warmd second = tier_up(NULL, other, NULL);
    expect_miss(&second, "graph-1");
    await_log(&second, "signature of unknown key node-1");
    warm_says(&second, "why --last", "the tier: signature of unknown key node-1");
    cr_assert(warmd_stats_have(&second, "\"refused\": {\"signature\": 1,"));
    warmd_down(&second);
    free(other);
}

static size_t flip_at;
static int flip_byte(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)at;
    if (type != FTW_F || !strstr(path, "/v1/"))
        return 0;
    int fd = open(path, O_RDWR);
    char byte;
    off_t place = (off_t)(flip_at % (size_t)st->st_size);
    cr_assert_eq(pread(fd, &byte, 1, place), 1);
    byte ^= 1;
    cr_assert_eq(pwrite(fd, &byte, 1, place), 1);
    close(fd);
    return 0;
}

Test(tier, no_flipped_byte_is_served)
{
    struct warmd first = tier_up(NULL, tier_key_file, NULL);
    put_one(&first, "graph-1", "the bytes");
    await_objects(1);
    warmd_down(&first);
    for (flip_at = 0; flip_at < 400; flip_at += 23) {
        nftw(tier_folder, flip_byte, 8, FTW_PHYS);
        struct warmd second = tier_up(NULL, tier_key_file, NULL);
        expect_miss(&second, "graph-1");
        cr_assert(warmd_stats_have(&second, "\"tier_refused\": 1"));
        warmd_down(&second);
        nftw(tier_folder, flip_byte, 8, FTW_PHYS);
    }
    struct warmd second = tier_up(NULL, tier_key_file, NULL);
    expect_value(&second, "graph-1", "the bytes");
    warmd_down(&second);
}

static double part; /* of each object, that stays */
static int cut_file(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)at;
    if (type == FTW_F && strstr(path, "/v1/"))
        cr_assert_eq(truncate(path, (off_t)((double)st->st_size * part)), 0);
    return 0;
}

/* As after a copy of the folder that did not come to its end. */
Test(tier, half_an_object_is_not_served)
{
    static char large[200000];
    static const double parts[] = {0.99, 0.5, 0.0};
    memset(large, 'x', sizeof large);
    for (size_t i = 0; i < sizeof large; i += 7)
        large[i] = (char)('a' + i / 7 % 26);
    struct warmd first = tier_up(NULL, tier_key_file, NULL);
    put_one(&first, "graph-1", "the bytes");
    struct warm *w = warmd_libwarm(&first);
    cr_assert_eq(warm_put(w, "large", 5, large, sizeof large, NULL), 0);
    warm_close(w);
    await_objects(3);
    warmd_down(&first);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        part = parts[i];
        nftw(tier_folder, cut_file, 8, FTW_PHYS);
        struct warmd second = tier_up(NULL, tier_key_file, NULL);
        expect_miss(&second, "graph-1");
        expect_miss(&second, "large");
        put_one(&second, "graph-2", "other bytes");
        expect_value(&second, "graph-2", "other bytes");
        warmd_down(&second);
    }
}

Test(tier, a_killed_helper_is_a_miss_and_starts_again)
{
    struct warmd first = tier_up(NULL, tier_key_file, NULL);
    put_one(&first, "graph-1", "the bytes");
    await_objects(1);
    pid_t helper = helper_of(&first);
    kill(helper, SIGKILL);
    await_log(&first, "warm-tier ended");
    expect_miss(&first, "graph-2");
    put_one(&first, "graph-3", "other bytes");
    await_objects(2);
    cr_assert_neq(helper_of(&first), helper);
    warmd_down(&first);
}

Test(tier, a_hung_helper_delays_one_request_and_is_replaced)
{
    struct warmd first = tier_up(NULL, tier_key_file, NULL);
    put_one(&first, "graph-1", "the bytes");
    await_objects(1);
    kill(helper_of(&first), SIGSTOP);
    uint64_t began = clock_now_ms();
    expect_miss(&first, "graph-2");
    cr_assert_lt(clock_now_ms() - began, 10000u);
    await_log(&first, "warm-tier does not answer");
    put_one(&first, "graph-3", "other bytes");
    await_objects(2);
    warmd_down(&first);
}

Test(tier, a_folder_that_is_gone_costs_hits_alone)
{
    struct warmd k = warmd_new();
    char *options[] = {"--tier", "file:///nowhere/at/all", "--tier-key", tier_key_file, NULL};
    warmd_start(&k, options);
    put_one(&k, "graph-1", "the bytes");
    await_log(&k, "the folder is not there");
    expect_miss(&k, "graph-2");
    expect_value(&k, "graph-1", "the bytes");
    warmd_down(&k);
}

/* ---- warm tier push, pull, status ---- */

Test(tier, push_sends_and_pull_brings_what_a_list_names)
{
    NEEDS_TOOLCHAIN(nvrtc);
    char *dear[] = {"--tier-min-cost", "1h", NULL}, *out, *warm = bin_path("warm");
    struct warmd first = tier_up(nvrtc, tier_key_file, dear);
    struct ask a = ask_of(TIER_SOURCE);
    struct warm_put_options cheap = {.cost_ms = 5};
    int fd = warmd_native(&first);
    lead_compile(fd, 1, &a, 0, "");
    expect_cubin(fd, 1, NULL);
    close(fd);
    struct warm *w = warmd_libwarm(&first);
    cr_assert_eq(warm_put(w, "graph-1", 7, "the bytes", 9, &cheap), 0);
    warm_close(w);
    warm_says(&first, "tier push --text graph --dry-run", "1 entry");
    warm_says(&first, "tier push", "queued");
    await_stats(&first, "\"queue\": 0,");
    warm_says(&first, "tier status", "reads    on");
    cr_assert_eq(
        run_command(&out, "WARM_SOCKET=%s %s ls --json >%s/list", first.socket, warm, tier_folder),
        0);
    free(out);
    warmd_down(&first);

    struct warmd second = tier_up(NULL, tier_key_file, NULL);
    char command[300];
    snprintf(command, sizeof command, "tier pull %s/list", tier_folder);
    warm_says(&second, command, "0 were here, 3 came from the tier");
    await_stats(&second, "\"entries\": 3,");
    warm_says(&second, command, "3 were here, 0 came from the tier");
    warm_says(&second, "show graph-1", "came from there, signed by node-1");
    warm_says(&second, "tier push", "queued 0 entries");
    warmd_down(&second);
    free(warm);
}

/* ---- who may have what ---- */

Test(tier, entries_of_a_revoked_key_do_not_count_and_do_not_stay)
{
    struct signing_key key;
    char text[KEY_TEXT_MAX];
    char *other = path_join(tier_folder, "other");
    tier_make_key("node-2", other);
    struct warmd first = tier_up(NULL, tier_key_file, NULL);
    put_one(&first, "graph-1", "the bytes");
    put_one(&first, "graph-2", "more bytes");
    await_objects(2);
    warmd_down(&first);
    cr_assert_eq(signing_read_file(tier_key_file, &key, NULL), 0);
    struct trusted_key public = signing_public(&key);
    signing_write_public(&public, text);

    char *trusts[] = {"--tier-trusted", text, NULL}, *revokes[] = {"--tier-revoked", text, NULL};
    struct warmd second = tier_up(NULL, other, trusts);
    expect_value(&second, "graph-1", "the bytes");
    cr_assert_eq(kill(second.pid, SIGTERM), 0);
    waitpid(second.pid, NULL, 0);
    tier_up_again(&second, NULL, other, revokes);
    await_log(&second, "left the store: no trusted key signed them");
    await_stats(&second, "\"entries\": 0,");
    expect_miss(&second, "graph-1");
    expect_miss(&second, "graph-2");
    warmd_down(&second);
    free(other);
}

/* Ends a daemon, and starts it on its store with other settings of the tier. */
static void start_again(struct warmd *k, char *const *options)
{
    cr_assert_eq(kill(k->pid, SIGTERM), 0);
    waitpid(k->pid, NULL, 0);
    warmd_start(k, options);
}

Test(tier, entries_of_a_key_that_does_not_count_are_refused_with_and_without_a_tier)
{
    struct signing_key key;
    char text[KEY_TEXT_MAX], *other = path_join(tier_folder, "other");
    tier_make_key("node-2", other);
    cr_assert_eq(signing_read_file(tier_key_file, &key, NULL), 0);
    struct trusted_key public = signing_public(&key);
    signing_write_public(&public, text);
    char *trusts[] = {"--tier-trusted", text, NULL};
    struct warmd first = tier_up(NULL, tier_key_file, NULL);
    put_one(&first, "graph-1", "the bytes");
    await_objects(1);
    warmd_down(&first);
    char *const restarts[][9] = {
        {"--tier-revoked", text},
        {"--tier-trusted", text, "--tier-revoked", text},
        {"--tier-key", other},
        {NULL},
        {"--tier", "redis://127.0.0.1:1", "--tier-key", other, "--tier-revoked", text},
        {"--tier", "redis://127.0.0.1:1", "--tier-key", other},
        {"--tier", "redis://127.0.0.1:1", "--tier-key", other, "--tier-credentials", "/none",
         "--tier-revoked", text},
    };
    for (size_t i = 0; i < sizeof restarts / sizeof *restarts; i++) {
        struct warmd second = tier_up(NULL, other, trusts);
        expect_value(&second, "graph-1", "the bytes");
        start_again(&second, trusts);
        expect_value(&second, "graph-1", "the bytes"); /* trusted, and no tier */
        start_again(&second, restarts[i]);
        expect_miss(&second, "graph-1");
        await_stats(&second, "\"entries\": 0,");
        warmd_down(&second);
    }
    free(other);
}

Test(tier, a_revocation_without_a_tier_is_said_in_the_log)
{
    struct signing_key key;
    char text[KEY_TEXT_MAX];
    cr_assert_eq(signing_read_file(tier_key_file, &key, NULL), 0);
    struct trusted_key public = signing_public(&key);
    signing_write_public(&public, text);
    char *revokes[] = {"--tier-revoked", text, NULL};
    struct warmd k = warmd_up(revokes);
    await_log(&k, "what the key node-1 signed is refused: tier_revoked");
    warmd_down(&k);
}

Test(tier, keys_that_cannot_be_read_without_a_tier_do_not_count_and_stop_nothing)
{
    char *nonsense[] = {"--tier-trusted", "no-key", "--tier-key", "/none/key", NULL};
    struct warmd k = warmd_up(nonsense);
    await_log(&k, "no entry that came from a tier counts");
    warmd_down(&k);
}

/* More of them than a slice of the scan once took. */
Test(tier, all_entries_of_a_revoked_key_leave_however_many_there_are)
{
    enum { MANY = 150 };
    struct signing_key key;
    char text[KEY_TEXT_MAX], name[24], *other = path_join(tier_folder, "other");
    tier_make_key("node-2", other);
    struct warmd first = tier_up(NULL, tier_key_file, NULL);
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "graph-%d", i);
        put_one(&first, name, "the bytes");
    }
    await_objects(MANY);
    warmd_down(&first);
    cr_assert_eq(signing_read_file(tier_key_file, &key, NULL), 0);
    struct trusted_key public = signing_public(&key);
    signing_write_public(&public, text);

    char *trusts[] = {"--tier-trusted", text, NULL}, *revokes[] = {"--tier-revoked", text, NULL};
    struct warmd second = tier_up(NULL, other, trusts);
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "graph-%d", i);
        expect_value(&second, name, "the bytes");
    }
    cr_assert_eq(kill(second.pid, SIGTERM), 0);
    waitpid(second.pid, NULL, 0);
    tier_up_again(&second, NULL, other, revokes);
    await_stats(&second, "\"entries\": 0,");
    warmd_down(&second);
    free(other);
}

Test(tier, a_tier_that_is_only_read_gets_nothing)
{
    char *mode[] = {"--tier-mode", "read-only", NULL};
    struct warmd first = tier_up(NULL, tier_key_file, mode);
    put_one(&first, "graph-1", "the bytes");
    cr_assert(warmd_stats_have(&first, "\"queue\": 0,"));
    warm_says(&first, "tier push", "the tier is only read");
    warmd_down(&first);
    cr_assert_eq(count_objects(), 0);
}

Test(tier, what_other_users_put_stays_unless_they_share)
{
    NEEDS_TWO_USERS();
    struct warmd_frame f;
    struct warmd first = tier_up(NULL, tier_key_file, NULL);
    int fd = warmd_native_as(&first, 1);
    warmd_put(fd, 1, "theirs", "the bytes", 0);
    warmd_expect(fd, 1, WIRE_OK);
    put_one(&first, "ours", "the bytes");
    await_objects(1);
    warmd_down(&first);
    cr_assert_eq(count_objects(), 1, "theirs stays");

    char *by_user[] = {"--tier-share", "user", NULL};
    struct warmd second = tier_up(NULL, tier_key_file, by_user);
    close(fd);
    fd = warmd_native_as(&second, 1);
    warmd_put(fd, 1, "theirs", "the bytes", 0);
    warmd_expect(fd, 1, WIRE_OK);
    close(fd);
    await_objects(2);
    warmd_down(&second);
    struct warmd third = tier_up(NULL, tier_key_file, by_user);
    expect_miss(&third, "theirs"); /* another user asks for that name */
    fd = warmd_native_as(&third, 1);
    warmd_get(fd, 1, "theirs", false, 0);
    do
        cr_assert(warmd_frame_try(fd, &f));
    while (f.frame.type == WIRE_WAIT);
    cr_assert_eq(f.frame.type, WIRE_HIT);
    close(fd);
    warmd_down(&third);
}
