/* SPDX-License-Identifier: Apache-2.0 */
/* test_listing.c - rows that a command keeps: sorted, decoded, and listed in pieces by a real daemon. */
#include <stdlib.h>
#include <string.h>

#include "client/cli/filter.h"
#include "client/cli/listing.h"
#include "tests/support/warmd.h"

static void keep(struct listing *l, const char *name, uint64_t value)
{
    struct writer w;
    struct wire_row row = {.kind = WIRE_KIND_OTHER, .len = value, .name = view_of_text(name)};
    writer_init(&w, 0);
    wire_put_row(&w, 1, &row);
    cr_assert(!w.failed);
    cr_assert_eq(listing_keep(l, (struct view){w.data + WIRE_HEADER, w.len - WIRE_HEADER}, value),
                 0);
    writer_close(&w);
}

Test(listing, rows_are_sorted_with_the_highest_value_first)
{
    struct listing l = {0};
    struct wire_row row;
    char name[16];
    for (uint64_t i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "n%llu", (unsigned long long)(i * 7919 % 1000));
        keep(&l, name, i * 7919 % 1000);
    }
    listing_sort(&l);
    cr_assert_eq(l.n, 1000);
    for (size_t i = 0; i < l.n; i++) {
        cr_assert(listing_row(&l, i, &row));
        cr_assert_eq(row.len, 999 - i);
        snprintf(name, sizeof name, "n%zu", 999 - i);
        cr_assert(row.name.len == strlen(name) && memcmp(row.name.data, name, row.name.len) == 0,
                  "a row keeps its own bytes");
    }
    listing_close(&l);
    cr_expect_eq(l.n, 0);
}

Test(listing, a_damaged_row_is_refused)
{
    struct listing l = {0};
    struct wire_row row;
    keep(&l, "name", 1);
    l.rows[0].len--;
    cr_expect_not(listing_row(&l, 0, &row));
    listing_close(&l);
}

static int count(void *arg, const struct wire_row *row, struct view frame)
{
    struct listing *l = arg;
    return listing_keep(l, frame, row->len);
}

static int stop(void *arg, const struct wire_row *row, struct view frame)
{
    (void)row, (void)frame;
    return ++*(int *)arg == 2 ? WARM_ECANCELLED : 0;
}

Test(listing, a_daemons_rows_come_each_once_and_a_caller_can_stop)
{
    struct warmd d = warmd_up(NULL);
    struct remote r = {.socket = d.socket};
    struct listing l = {0};
    struct wire_list message = {.filter = filter_all()};
    int n_seen = 0;
    cr_assert_eq(remote_open(&r), 0);
    for (int i = 0; i < 5; i++) {
        char name[16];
        snprintf(name, sizeof name, "n%d", i);
        cr_assert_eq(warm_put(r.w, name, strlen(name), "value", (size_t)i, NULL), 0);
    }
    cr_expect_eq(listing_ask(&r, &message, count, &l), 0);
    cr_expect_eq(l.n, 5);
    memset(message.cursor, 0, sizeof message.cursor);
    cr_expect_eq(listing_ask(&r, &message, stop, &n_seen), WARM_ECANCELLED);
    cr_expect_eq(n_seen, 2);
    listing_close(&l);
    remote_close(&r);
    warmd_down(&d);
}
