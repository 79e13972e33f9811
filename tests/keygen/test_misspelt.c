/* SPDX-License-Identifier: Apache-2.0 */
/* test_misspelt.c - the word that was meant is the nearest one, or none. */
#include <criterion/criterion.h>

#include "keygen/misspelt.h"

static const char *meant(const char *word)
{
    static const char *const exist[] = {"max_size", "max_value", "quota", "jobs", "pin"};
    struct misspelt m = {.word = word};
    for (size_t i = 0; i < sizeof exist / sizeof *exist; i++)
        misspelt_try(&m, exist[i]);
    return misspelt_meant(&m) ? misspelt_meant(&m) : "";
}

Test(misspelt, letters_that_are_wrong_missing_swapped_or_too_many)
{
    cr_expect_str_eq(meant("max_sise"), "max_size");
    cr_expect_str_eq(meant("maxsize"), "max_size");
    cr_expect_str_eq(meant("max-size"), "max_size");
    cr_expect_str_eq(meant("quoat"), "quota");
    cr_expect_str_eq(meant("max_valuee"), "max_value");
}

Test(misspelt, a_word_that_is_not_near_means_none)
{
    cr_expect_str_eq(meant("socket"), "");
    cr_expect_str_eq(meant(""), "", "a short word is not near to nothing");
    cr_expect_str_eq(meant("p"), "pin");
    cr_expect_str_eq(meant("max_size_max_size_max_size_max_size"), "");
}
