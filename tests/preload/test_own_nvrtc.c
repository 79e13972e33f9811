/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_own_nvrtc.c - a program of another user than the daemon's, with an NVRTC that the daemon has no
 * copy of: what it compiles is kept for this user, and what is not kept has a reason.
 *
 * Needs root, to be two users, and both NVRTCs: see support/pool.h.
 */
#include "tests/support/warmd.h"

#define ALICE 12345u
#define BOB 23456u

static struct warmd k;
static char *folder, *client, *preload, *warm;

static char *real_path(const char *name)
{
    char *found = public_path(name), *real = realpath(found, NULL);
    free(found);
    return real;
}

static void command(const char *format, const char *a, const char *b)
{
    char *out, line[8192];
    snprintf(line, sizeof line, format, a, b);
    cr_assert_eq(run_command(&out, "%s 2>&1", line), 0, "%s: %s", line, out);
    free(out);
}

/* A daemon with 13.5, and 12.9 in a folder of Alice's. */
static void setup(void)
{
    if (!two_users_can_be())
        cr_skip_test("needs root, and folders that another user reaches");
    char *lib12 = toolchain_lib("12.9.86"), *lib13 = toolchain_lib("13.5.37");
    preload = real_path("lib/libwarm-preload.so");
    if (!lib12 || !lib13 || !preload)
        cr_skip_test("no CUDA toolchain, or a build with sanitizers");
    k = warmd_up((char *[]){(char *)"--nvrtc", lib13, NULL});
    warm = real_path("bin/warm");
    folder = path_join(k.dir, "alice");
    client = path_join(k.dir, "client");
    command("cp -rL '%s' '%s'", lib12, folder);
    command("chmod 755 '%s' && touch '%s/part.h'", k.dir, folder);
    command("chown -R 12345 '%s'%s", folder, "");
    command("cc -D_GNU_SOURCE -std=c11 -O1 -pthread -o '%s' %s", client,
            "tests/programs/nvrtc_client.c -ldl");
    free(lib12);
    free(lib13);
}

static void teardown(void)
{
    if (!folder)
        return;
    warmd_down(&k);
    free(folder);
    free(client);
    free(preload);
    free(warm);
}
TestSuite(own_nvrtc, .init = setup, .fini = teardown, .timeout = 300);

/* The output of a command as a user in a session. free() it. */
static char *as(uid_t uid, const char *session, const char *settings, const char *line)
{
    char *out;
    int status = run_command(
        &out,
        "cd '%s' && setpriv --reuid %u --regid %u --clear-groups env HOME='%s' "
        "WARM_TIMEOUT_MS=5000 WARM_SOCKET='%s' WARM_SESSION=%s %s %s 2>&1",
        folder, (unsigned)uid, (unsigned)uid, folder, k.socket, session, settings, line);
    cr_assert_eq(status, 0, "%s: %s", line, out);
    return out;
}

static char *client_as(uid_t uid, const char *session, bool with_warm, const char *arguments)
{
    char line[8192], settings[4096] = "";
    snprintf(line, sizeof line, "'%s' '%s/libnvrtc.so.12' %s", client, folder, arguments);
    if (with_warm)
        snprintf(settings, sizeof settings, "LD_PRELOAD='%s'", preload);
    return as(uid, session, settings, line);
}

/* The first line of `warm why` for a session. free() it. */
static char *why(uid_t uid, const char *session)
{
    char line[4096];
    snprintf(line, sizeof line, "'%s' why --session %s", warm, session);
    return as(uid, "none", "", line);
}

static void expect_why(uid_t uid, const char *session, const char *text)
{
    char *told = why(uid, session);
    cr_expect(strstr(told, text), "%s: %s", session, told);
    free(told);
}

Test(own_nvrtc, its_results_are_kept_for_its_user)
{
    char *direct = client_as(ALICE, "a", false, "simple");
    char *first = client_as(ALICE, "a1", true, "simple");
    char *second = client_as(ALICE, "a2", true, "simple");
    char *other = client_as(BOB, "b1", true, "simple");
    cr_expect_str_eq(first, direct);
    cr_expect_str_eq(second, direct);
    cr_expect_str_eq(other, direct);
    expect_why(ALICE, "a1", "asked 1: 0 hits, 0 coalesced, 1 miss, 0 failed, 0 not kept");
    expect_why(ALICE, "a2", "asked 1: 1 hit, 0 coalesced, 0 misses, 0 failed, 0 not kept");
    expect_why(BOB, "b1", "asked 1: 0 hits, 0 coalesced, 1 miss, 0 failed, 0 not kept");
    free(direct);
    free(first);
    free(second);
    free(other);
}

/* Sources that include, options that show lines, what the compiler refuses, lowered names. */
Test(own_nvrtc, a_hit_shows_what_the_compile_shows_and_the_rest_has_a_reason)
{
    char *direct = client_as(ALICE, "c", false, "cases .");
    for (int i = 0; i < 2; i++) {
        char session[] = {'c', (char)('1' + i), '\0'};
        char *got = client_as(ALICE, session, true, "cases .");
        cr_expect_str_eq(got, direct, "run %d", i);
        free(got);
    }
    expect_why(ALICE, "c2", ": 12 hits");
    expect_why(ALICE, "c2", "18 not kept");
    expect_why(ALICE, "c2",
               "quotes.cu\n    uncacheable: it includes headers, and the daemon has no");
    expect_why(ALICE, "c2", "    uncacheable: its result shows lines");
    expect_why(ALICE, "c2", "    uncacheable: the program's own NVRTC refused the source");
    char *told = why(ALICE, "c2");
    cr_expect(!strstr(told, "cold"), "%s", told);
    free(told);
    char line[4096];
    snprintf(line, sizeof line, "'%s' doctor || true", warm);
    told = as(ALICE, "none", "", line);
    cr_expect(strstr(told, "18 of its compiles were not kept"), "%s", told);
    free(told);
    free(direct);
}

/* Behind this option NVRTC writes remarks to the end of the process. So nothing is stored for other processes. */
Test(own_nvrtc, nothing_is_kept_behind_options_that_nvrtc_does_not_forget)
{
    char *direct = client_as(ALICE, "g", false, "plain");
    free(client_as(ALICE, "g1", true, "remarks"));
    for (int i = 2; i < 4; i++) {
        char session[] = {'g', (char)('0' + i), '\0'};
        char *got = client_as(ALICE, session, true, "plain");
        cr_expect_str_eq(got, direct, "run %d", i);
        free(got);
    }
    expect_why(ALICE, "g1", "    uncacheable: this process gave its own NVRTC options");
    expect_why(ALICE, "g2", "asked 1: 0 hits, 0 coalesced, 1 miss, 0 failed, 0 not kept");
    expect_why(ALICE, "g3", "asked 1: 1 hit, 0 coalesced, 0 misses, 0 failed, 0 not kept");
    free(direct);
}

/* LTO IR holds the working folder. */
Test(own_nvrtc, miss_in_another_folder_names_the_folder_that_the_result_holds)
{
    char line[8192], settings[4096];
    snprintf(settings, sizeof settings, "LD_PRELOAD='%s'", preload);
    command("mkdir '%s/deeper' && chown 12345 '%s/deeper'", folder, folder);
    free(client_as(ALICE, "e1", true, "cases ."));
    snprintf(line, sizeof line, "sh -c \"cd deeper && '%s' '%s/libnvrtc.so.12' cases ..\"", client,
             folder);
    free(as(ALICE, "e2", settings, line));
    expect_why(ALICE, "e2", "in working folder: ");
    expect_why(ALICE, "e2", "/alice/deeper\n");
}

Test(own_nvrtc, another_library_at_its_path_is_another_compiler)
{
    free(client_as(ALICE, "d1", true, "simple"));
    command("printf x >>'%s/%s'", folder, "libnvrtc.so.12");
    free(client_as(ALICE, "d2", true, "simple"));
    expect_why(ALICE, "d2", "asked 1: 0 hits, 0 coalesced, 1 miss");
}
