/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_probe.c - a warm-tier for one probe: its answer, its line for a person, and nothing of it is left.
 * test_tier_command.c has the command with other stores.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "client/cli/run/probe.h"
#include "tests/support/support.h"

/* Probes a URL. Expects that no process and no descriptor is left. */
static bool probe(const char *url, struct tier_answer *out, char why[200])
{
    struct probe p = {.url = url, .credentials = "", .ca = ""};
    unsigned before = open_descriptors();
    *why = '\0';
    bool good = probe_tier(&p, out, why, 200);
    cr_expect_eq(open_descriptors(), before);
    cr_expect(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD, "the helper is reaped");
    return good;
}

Test(probe, a_folder_that_can_be_written_has_all)
{
    struct tier_answer a;
    char *dir = temp_dir_new(), url[300], why[200], words[300];
    snprintf(url, sizeof url, "file://%s", dir);
    cr_assert(probe(url, &a, why), "%s", why);
    cr_expect(a.outcome == TIER_OK && a.capabilities.reads && a.capabilities.writes);
    cr_expect(probe_words(&a, words, sizeof words));
    cr_expect_str_eq(words, a.capabilities.said);
    cr_expect_gt(strlen(words), 0);
    temp_dir_free(dir);
}

Test(probe, a_folder_that_is_not_there_is_an_answer)
{
    struct tier_answer a;
    char why[200], words[300];
    cr_assert(probe("file:///nonexistent/tier", &a, why), "%s", why);
    cr_expect_neq(a.outcome, TIER_OK);
    cr_expect_not(probe_words(&a, words, sizeof words));
    cr_expect_not_null(strstr(words, "the folder is not there"), "%s", words);
}

Test(probe, a_url_that_is_none_has_the_reason_in_place_of_an_answer)
{
    struct tier_answer a;
    char why[200];
    cr_expect_not(probe("ftp://host", &a, why));
    cr_expect_not_null(strstr(why, "use one of file://"), "%s", why);
    cr_expect_not(probe("", &a, why));
    cr_expect_gt(strlen(why), 0);
}

Test(probe, a_reason_is_cut_to_its_room)
{
    struct probe p = {.url = "ftp://host", .credentials = "", .ca = ""};
    struct tier_answer a;
    char why[20];
    memset(why, '!', sizeof why);
    cr_expect_not(probe_tier(&p, &a, why, 10));
    cr_expect_eq(strlen(why), 9);
    cr_expect_eq(why[10], '!');
}

/* ---- words ---- */

static struct tier_answer answer(enum tier_outcome outcome, bool reads, uint64_t skew_ms)
{
    struct tier_answer a = {.outcome = outcome};
    a.capabilities.reads = reads;
    a.capabilities.clock_skew_ms = skew_ms;
    strcpy(a.capabilities.said, "it can");
    return a;
}

static void expect_words(struct tier_answer a, bool can_be_read, const char *want)
{
    char words[300];
    cr_expect_eq(probe_words(&a, words, sizeof words), can_be_read, "%s", want);
    cr_expect_str_eq(words, want);
}

Test(probe, the_words_are_the_tiers_own)
{
    struct tier_answer failed = answer(TIER_FAILED, true, 0);
    expect_words(answer(TIER_OK, true, 0), true, "it can");
    expect_words(answer(TIER_OK, false, 0), false, "it can");
    expect_words(failed, false, "it can");
    strcpy(failed.said, "403");
    expect_words(failed, false, "403");
}

Test(probe, a_clock_that_is_far_off_is_told)
{
    expect_words(answer(TIER_OK, true, 5000), true, "it can");
    expect_words(answer(TIER_OK, true, 5001), true, "it can; its clock is 5 s from this machine's");
    expect_words(answer(TIER_OK, true, UINT64_MAX), true,
                 "it can; its clock is 18446744073709551 s from this machine's");
    expect_words(answer(TIER_FAILED, true, 600000), false, "it can");
}

Test(probe, words_are_cut_to_their_room)
{
    struct tier_answer a = answer(TIER_OK, true, 600000);
    char words[16];
    for (size_t cap = 1; cap < sizeof words; cap++) {
        memset(words, '!', sizeof words);
        cr_expect(probe_words(&a, words, cap));
        cr_expect_eq(strlen(words), cap - 1);
        cr_expect_eq(words[cap], '!');
    }
}
