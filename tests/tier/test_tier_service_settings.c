/* SPDX-License-Identifier: Apache-2.0 */
/* test_tier_service_settings.c - what warm-tier takes of warmd.conf as a system's service, and nothing else. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/support.h"
#include "tier/service_settings.h"

static char *dir, *path, why[300];
static struct service_settings s;

static void up(void)
{
    dir = temp_dir_new();
    path = path_join(dir, "warmd.conf");
}
static void down(void)
{
    free(path);
    temp_dir_free(dir);
}
TestSuite(tier_service_settings, .init = up, .fini = down);

static bool read_text(const char *text)
{
    *why = '\0';
    file_write(path, text, strlen(text));
    return service_settings_read(path, &s, why, sizeof why);
}

Test(tier_service_settings, the_three_settings_are_read_and_no_other)
{
    cr_assert(
        read_text("# a comment\n\ntier = redis://host/1?x=y\nmax_size = 1G\n"
                  "  tier_credentials=/etc/warm/secret \r\ntier_key = /k\n\ttier_ca\t=\t/ca\n"));
    cr_expect_str_eq(s.url, "redis://host/1?x=y", "with the = in it");
    cr_expect_str_eq(s.credentials, "/etc/warm/secret");
    cr_expect_str_eq(s.ca, "/ca");
    cr_assert(read_text("tier = file:///x"), "without the line's end");
    cr_expect_str_eq(s.url, "file:///x");
    cr_expect(!*s.credentials && !*s.ca, "nothing of the file before");
}

Test(tier_service_settings, the_last_of_two_lines_counts)
{
    cr_assert(read_text("tier = a\ntier = b\n"));
    cr_expect_str_eq(s.url, "b");
    cr_expect_not(read_text("tier = a\ntier =\n"), "it can be taken away");
}

Test(tier_service_settings, a_file_without_a_tier_is_told)
{
    static const char *const texts[] = {"",           "# tier = a\n", "  #tier = a\n", "tier\n",
                                        "tier a\n",   "tier =\n",     "tiers = a\n",   "= a\n",
                                        "Tier = a\n", "tier_ca = a\n"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        cr_expect_not(read_text(texts[i]), "%s", texts[i]);
        cr_expect_not_null(strstr(why, "has no tier"), "%s: %s", texts[i], why);
    }
}

Test(tier_service_settings, a_file_that_is_not_there_is_told)
{
    cr_expect_not(service_settings_read("/nonexistent/warmd.conf", &s, why, sizeof why));
    cr_expect_str_eq(why, "warm-tier cannot read /nonexistent/warmd.conf: "
                          "No such file or directory");
    cr_expect(!*s.url);
}
