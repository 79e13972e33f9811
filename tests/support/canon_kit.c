/* SPDX-License-Identifier: Apache-2.0 */
/*
 * canon_kit.c - makes and compares keys of texts. The suites of PTX, CUDA C++ and graphs of PyTorch call it.
 *
 * Thread: any; no state.
 */
#include "tests/support/canon_kit.h"

#include <criterion/criterion.h>
#include <string.h>

int canon_error(enum canon_kind kind, const char *text, struct err *e)
{
    struct canon_input input = {.data = text, .len = strlen(text), .kind = kind};
    struct canon_result result;
    return canon_key(&input, &result, NULL, e);
}

struct canon_result canon_of(enum canon_kind kind, const char *text)
{
    struct canon_input input = {.data = text, .len = strlen(text), .kind = kind};
    struct canon_result result;
    struct err e = {0};
    cr_assert_eq(canon_key(&input, &result, NULL, &e), 0, "%s\n%s", e.text, text);
    return result;
}

static bool is_same(enum canon_kind kind, const char *a, const char *b)
{
    struct canon_result x = canon_of(kind, a), y = canon_of(kind, b);
    return key_equal(&x.key, &y.key);
}

void canon_expect_same(enum canon_kind kind, const char *a, const char *b)
{
    cr_expect(is_same(kind, a, b), "these differ:\n%s\n%s", a, b);
}

void canon_expect_other(enum canon_kind kind, const char *a, const char *b)
{
    cr_expect(!is_same(kind, a, b), "these are alike:\n%s\n%s", a, b);
}
