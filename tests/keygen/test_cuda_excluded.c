/* SPDX-License-Identifier: Apache-2.0 */
/* test_cuda_excluded.c - what no compile reads of a text if NDEBUG is defined throughout. */
#include <criterion/criterion.h>
#include <string.h>

#include "keygen/cuda/cuda.h"

/* Expects that the words LIVE and DEAD of a text are kept and dropped, and its lines and length kept. */
static void check(const char *text)
{
    char copy[512];
    size_t len = strlen(text);
    cr_assert_lt(len, sizeof copy);
    memcpy(copy, text, len + 1);
    cuda_blank_excluded(copy, len, "NDEBUG");
    cr_expect_eq(strlen(copy), len);
    cr_expect(!strstr(copy, "DEAD"), "%s", copy);
    for (size_t i = 0; i < len; i++) {
        cr_expect_eq(copy[i] == '\n', text[i] == '\n');
        if (strncmp(text + i, "LIVE", 4) == 0)
            cr_expect_eq(strncmp(copy + i, "LIVE", 4), 0, "%s", copy);
    }
}

Test(cuda_excluded, groups_of_a_debugging_build_are_dropped)
{
    check("LIVE\n#ifdef NDEBUG\nLIVE\n#else\nDEAD\n#endif\nLIVE\n");
    check("#ifndef NDEBUG\nDEAD\n#else\nLIVE\n#endif\n");
    check("# if ! defined ( NDEBUG ) // here\nDEAD\n# else\nLIVE\n# endif\n");
    check("#if !defined NDEBUG\nDEAD\n#endif\nLIVE\n");
    check("#if defined(NDEBUG)\nLIVE\n#elif defined X\nDEAD\n#else\nDEAD\n#endif\nLIVE\n");
    check("#ifndef NDEBUG\nDEAD\n#elif defined X\nLIVE\n#else\nLIVE\n#endif\n");
    check("#ifdef X\n#ifdef NDEBUG\nLIVE\n#else\nDEAD\n#if 1\nDEAD\n#else\nDEAD\n#endif\n#endif\n"
          "LIVE\n#else\nLIVE\n#endif\n");
    check(
        "#ifndef NDEBUG\n#ifdef X\nDEAD\n#else\nDEAD\n#endif\n#ifndef NDEBUG\nDEAD\n#endif\nDEAD\n"
        "#endif\nLIVE\n");
    check("#ifndef NDEBUG\n#define CHECK(x) \\\n    DEAD\n#endif\nLIVE\n");
}

Test(cuda_excluded, all_other_groups_stay)
{
    check("#if !defined(NDEBUG) || X\nLIVE\n#else\nLIVE\n#endif\n");
    check("#if defined(NDEBUG) && X\nLIVE\n#else\nLIVE\n#endif\n");
    check("#ifdef NDEBUG2\nLIVE\n#else\nLIVE\n#endif\n#if NDEBUG\nLIVE\n#else\nLIVE\n#endif\n");
    check("/*\n#ifndef NDEBUG\n*/ LIVE /*\n#endif\n*/\n");
    check("const char *s = R\"(\n#ifndef NDEBUG\n)\"; LIVE; const char *e = R\"(\n#endif\n)\";\n");
    check("int LIVE; // \\\n#ifndef NDEBUG\nLIVE\n");
    check("#if 0\n#endif\n#endif\n#ifndef NDEBUG\nLIVE\n#endif\n");
    check("#ifndef NDEBUG\nLIVE\n");
    check("?\?=ifndef NDEBUG\nLIVE\n#ifndef NDEBUG\nLIVE\n?\?=endif\nLIVE\n#endif\n");
    check("#ifndef NDEBUG\nLIVE\n%:endif\nLIVE\n#ifdef X\n#endif\n");
    check("\\u0041\n#ifndef NDEBUG\nLIVE\n#endif\n");
}
