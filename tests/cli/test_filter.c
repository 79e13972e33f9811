/* SPDX-License-Identifier: Apache-2.0 */
/* test_filter.c - the options that choose entries: each sets its field, and a wrong value is refused. */
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <getopt.h>
#include <string.h>

#include "client/cli/filter.h"

static const struct command command = {.name = "ls", .synopsis = "", .help = ""};

static int option(struct wire_filter *f, int number, char *value)
{
    optarg = value;
    return filter_option(&command, f, number);
}

Test(filter, no_option_chooses_all)
{
    struct wire_filter f = filter_all();
    cr_expect(filter_is_all(&f));
    cr_expect_eq(option(&f, 'x', NULL), 0, "an option of another command");
    cr_expect(filter_is_all(&f));
}

Test(filter, each_option_sets_its_field)
{
    struct wire_filter f = filter_all();
    cr_expect_eq(option(&f, FILTER_KIND, (char[]){"cubin"}), 1);
    cr_expect_eq(f.kind, WIRE_KIND_CUBIN);
    cr_expect_eq(option(&f, FILTER_IDLE, (char[]){"1h"}), 1);
    cr_expect_eq(f.min_idle_ms, 3600000);
    cr_expect_eq(option(&f, FILTER_MAX_SIZE, (char[]){"1K"}), 1);
    cr_expect_eq(f.max_bytes, 1024);
    cr_expect_eq(option(&f, FILTER_USER, (char[]){"root"}), 1);
    cr_expect_eq(f.uid, 0);
    cr_expect_eq(option(&f, FILTER_UNPINNED, NULL), 1);
    cr_expect_eq(f.pinned, 0);
    cr_expect_not(filter_is_all(&f));
}

Test(filter, a_wrong_value_is_refused_and_named, .init = cr_redirect_stderr)
{
    struct wire_filter f = filter_all();
    cr_expect_eq(option(&f, FILTER_KIND, (char[]){"nonesuch"}), -1);
    cr_expect_eq(option(&f, FILTER_MIN_HITS, (char[]){"many"}), -1);
    cr_expect_eq(option(&f, FILTER_TEXT, (char[]){""}), -1);
    cr_expect(filter_is_all(&f));
}
