/* SPDX-License-Identifier: Apache-2.0 */
/* test_names.c - the table of names: numbers stay, and a cleared table has no name of before. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "keygen/canon/names.h"

#define MANY 5000u

static char texts[MANY][12];

static void make_texts(void)
{
    for (unsigned i = 0; i < MANY; i++)
        snprintf(texts[i], sizeof texts[i], "add.%u", i);
}
TestSuite(names, .init = make_texts);

Test(names, each_name_keeps_its_number_while_the_table_grows)
{
    struct names t = {0};
    for (uint32_t i = 0; i < MANY; i++) {
        bool is_new = false;
        uint32_t *number = names_add(&t, texts[i], strlen(texts[i]), &is_new);
        cr_assert(number && is_new);
        *number = i + 1;
    }
    for (uint32_t i = 0; i < MANY; i++) {
        bool is_new = true;
        cr_assert_eq(*names_add(&t, texts[i], strlen(texts[i]), &is_new), i + 1);
        cr_assert_not(is_new);
        cr_assert_eq(*names_find(&t, texts[i], strlen(texts[i])), i + 1);
    }
    cr_expect_eq(t.n, MANY);
    names_close(&t);
}

Test(names, a_name_is_all_of_its_bytes)
{
    struct names t = {0};
    *names_add(&t, "ab", 2, NULL) = 1;
    *names_add(&t, "a\0b", 3, NULL) = 2;
    *names_add(&t, "", 0, NULL) = 3;
    cr_expect_null(names_find(&t, "a", 1));
    cr_expect_null(names_find(&t, "abc", 3));
    cr_expect_eq(*names_find(&t, "ab", 2), 1);
    cr_expect_eq(*names_find(&t, "a\0b", 3), 2);
    cr_expect_eq(*names_find(&t, "", 0), 3);
    names_close(&t);
}

Test(names, a_scope_that_ends_leaves_no_name)
{
    struct names t = {0};
    cr_expect_null(names_find(&t, "x", 1), "an empty table");
    for (unsigned round = 0; round < 20; round++) {
        for (unsigned i = round; i < MANY; i += 20)
            *names_add(&t, texts[i], strlen(texts[i]), NULL) = round + 1;
        for (unsigned i = 0; i < MANY; i++) {
            uint32_t *number = names_find(&t, texts[i], strlen(texts[i]));
            cr_assert_eq(number != NULL, i % 20 == round, "%s in round %u", texts[i], round);
            cr_assert(!number || *number == round + 1);
        }
        names_clear(&t);
    }
    names_close(&t);
}
