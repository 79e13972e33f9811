/* SPDX-License-Identifier: Apache-2.0 */
/*
 * canon_kit.c - makes and compares keys of texts. The suites of PTX, CUDA C++ and graphs of PyTorch call it.
 *
 * Thread: any; no state.
 */
#include "tests/support/canon_kit.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/support.h"

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

/* Fails with the first line in which `now` differs from `golden`. */
static void expect_lines(const char *name, const char *golden, const char *now)
{
    const char *line = now, *at = golden;
    unsigned n = 1;
    for (; *at && *at == *now; at++, now++)
        if (*now == '\n')
            n++, line = now + 1;
    if (*at == *now)
        return;
    const char *was = golden + (line - (now - (at - golden)));
    cr_assert_fail(
        "%s: line %u is\n  %.*s\nand was\n  %.*s\nIf that is meant: the next version of its "
        "domain, then `make goldens`",
        name, n, (int)strcspn(line, "\n"), line, (int)strcspn(was, "\n"), was);
}

void canon_expect_golden(const char *name, enum canon_kind kind, const void *data, size_t len)
{
    struct canon_input input = {.data = data, .len = len, .kind = kind};
    struct canon_result result;
    struct err e = {0};
    struct writer text, now;
    char path[200], key[WARM_KEY_TEXT];
    size_t golden_len;
    writer_init(&text, 0);
    writer_init(&now, 0);
    cr_assert_eq(canon_key(&input, &result, &text, &e), 0, "%s: %s", name, e.text);
    key_to_text(&result.key, key);
    writer_format(&now, "%s\n", key);
    writer_bytes(&now, text.data, text.len);
    writer_u8(&now, 0);
    cr_assert_not(text.failed || now.failed);
    snprintf(path, sizeof path, "tests/data/golden/%s.txt", name);
    if (getenv("WARM_GOLDENS"))
        file_write(path, now.data, now.len - 1);
    char *golden = file_read(path, &golden_len);
    const char *lines[] = {strchr(golden, '\n'), strchr((char *)now.data, '\n')};
    cr_assert(lines[0] && lines[1], "%s has no lines", path);
    expect_lines(name, lines[0] + 1, lines[1] + 1);
    cr_expect_eq(memcmp(golden, key, strlen(key)), 0,
                 "%s: the key is %s, of the same text as before: its domain has changed", name,
                 key);
    free(golden);
    writer_close(&text);
    writer_close(&now);
}
