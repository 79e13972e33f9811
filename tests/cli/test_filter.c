/* SPDX-License-Identifier: Apache-2.0 */
/* test_filter.c - the options that choose entries: each sets its field, and a wrong value is refused. */
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <stdio.h>
#include <string.h>

#include "client/cli/filter.h"

static const struct command command = {.name = "ls", .synopsis = "", .help = ""};

static bool option(struct wire_filter *f, const char *name, const char *value)
{
    const struct cli_option rows[] = {FILTER_ROWS(*f), {0}};
    char word[80], *argv[] = {(char[]){"ls"}, word, NULL};
    int status;
    snprintf(word, sizeof word, "--%s%s%s", name, value ? "=" : "", value ? value : "");
    optind = 0;
    return cli_options(&command, 2, argv, rows, &status);
}

Test(filter, no_option_chooses_all)
{
    struct wire_filter f = filter_all();
    cr_expect(filter_is_all(&f));
}

Test(filter, each_option_sets_its_field)
{
    struct wire_filter f = filter_all();
    cr_expect(option(&f, "kind", "cubin"));
    cr_expect_eq(f.kind, WIRE_KIND_CUBIN);
    cr_expect(option(&f, "idle", "1h"));
    cr_expect_eq(f.min_idle_ms, 3600000);
    cr_expect(option(&f, "max-size", "1K"));
    cr_expect_eq(f.max_bytes, 1024);
    cr_expect(option(&f, "user", "root"));
    cr_expect_eq(f.uid, 0);
    cr_expect(option(&f, "unpinned", NULL));
    cr_expect_eq(f.pinned, 0);
    cr_expect_not(filter_is_all(&f));
}

Test(filter, a_wrong_value_is_refused_and_named, .init = cr_redirect_stderr)
{
    struct wire_filter f = filter_all();
    cr_expect_not(option(&f, "kind", "nonesuch"));
    cr_expect_not(option(&f, "min-hits", "many"));
    cr_expect_not(option(&f, "text", ""));
    cr_expect(filter_is_all(&f));
}
