/* SPDX-License-Identifier: Apache-2.0 */
/* test_line_digests.c - finds the first line in which two texts differ, from digests of lines. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/worker/line_digests.h"

/* Returns `n` numbered lines; line `other` (0: none) differs. free() it. */
static char *text_of(uint32_t n, uint32_t other)
{
    char *text = malloc(16 * (size_t)n + 1), *at = text;
    for (uint32_t i = 1; i <= n; i++)
        at += sprintf(at, i == other ? "changed %u\n" : "line %u\n", i);
    *at = '\0';
    return text;
}

static struct line_digests lines_in(const char *text)
{
    struct line_digests lines;
    cr_assert(line_digests_of((struct view){text, strlen(text)}, &lines));
    return lines;
}

static struct line_digests lines_numbered(uint32_t n, uint32_t other)
{
    char *text = text_of(n, other);
    struct line_digests lines = lines_in(text);
    free(text);
    return lines;
}

Test(line_digests, each_line_of_a_short_text_is_told)
{
    uint32_t first, last;
    for (uint32_t n = 1; n <= LINE_DIGESTS_MARKS; n += 15) {
        struct line_digests before = lines_numbered(n, 0);
        for (uint32_t i = 1; i <= n; i++) {
            struct line_digests after = lines_numbered(n, i);
            cr_assert(line_digests_differ(&before, &after, &first, &last));
            cr_assert(first == i && last == i, "line %u of %u: %u-%u", i, n, first, last);
        }
    }
}

Test(line_digests, of_a_long_text_few_lines_are_told)
{
    uint32_t first, last;
    static const uint32_t sizes[] = {257, 300, 512, 513, 5000};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        struct line_digests before = lines_numbered(sizes[k], 0);
        for (uint32_t i = 1; i <= sizes[k]; i += sizes[k] / 50) {
            struct line_digests after = lines_numbered(sizes[k], i);
            cr_assert(line_digests_differ(&before, &after, &first, &last));
            cr_assert(first <= i && i <= last &&
                          last - first < 2 * sizes[k] / LINE_DIGESTS_MARKS + 1,
                      "line %u of %u: %u-%u", i, sizes[k], first, last);
        }
    }
}

Test(line_digests, what_was_added_begins_where_it_was_added)
{
    uint32_t first, last;
    struct line_digests a = lines_in("one\ntwo\n"), b = lines_in("one\ntwo\nthree\n"),
                        c = lines_in("one\nnew\ntwo\n"), none = lines_in(""),
                        cut = lines_in("one\ntwo");
    cr_expect(line_digests_differ(&a, &b, &first, &last) && first == 3 && last == 3);
    cr_expect(line_digests_differ(&b, &a, &first, &last) && first == 3 && last == 3);
    cr_expect(line_digests_differ(&a, &c, &first, &last) && first == 2 && last == 2);
    cr_expect(line_digests_differ(&a, &none, &first, &last) && first == 1 && last == 1);
    cr_expect(line_digests_differ(&a, &cut, &first, &last) && first == 2 && last == 2);
    cr_expect_not(line_digests_differ(&a, &a, &first, &last));
    struct line_digests at_300 = lines_numbered(300, 0), at_200 = lines_numbered(200, 0);
    cr_expect(line_digests_differ(&at_300, &at_200, &first, &last) && first == 201 && last == 202,
              "texts with marks at other steps: %u-%u", first, last);
}

Test(line_digests, bytes_are_read_back_and_damaged_ones_refused)
{
    struct line_digests lines = lines_numbered(300, 0), back;
    struct writer w;
    writer_init(&w, 0);
    line_digests_write(&lines, &w);
    cr_assert_eq(w.len, 6 + 2 * 150);
    cr_assert(line_digests_read((struct view){w.data, w.len}, &back));
    cr_expect_eq(memcmp(&lines, &back, sizeof lines), 0);
    for (size_t len = 0; len < w.len; len++)
        cr_expect_not(line_digests_read((struct view){w.data, len}, &back), "%zu bytes", len);
    static const uint8_t no_step[] = {0, 0, 0, 0, 0, 0}, odd_step[] = {3, 0, 0, 0, 3, 0, 1, 1};
    cr_expect_not(line_digests_read((struct view){no_step, sizeof no_step}, &back));
    cr_expect_not(line_digests_read((struct view){odd_step, sizeof odd_step}, &back));
    writer_close(&w);
}
