/* SPDX-License-Identifier: Apache-2.0 */
/* test_unity.c - which files are sources of unity builds, and what they include. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/tool/unity.h"

#define CMAKE "/p/b/CMakeFiles/t.dir/Unity/unity_0_cxx.cxx"
#define MESON "/p/b/libt.so.p/t-unity0.cpp"

Test(unity, their_names_are_known)
{
    cr_expect(unity_is_name(CMAKE));
    cr_expect(unity_is_name(MESON));
    cr_expect(unity_is_name("t.p/t-unity12.c"));
    cr_expect(!unity_is_name("/p/Unity/unity_0/m.cc"));
    cr_expect(!unity_is_name("/p/x-unity0/m.cc"));
    cr_expect(!unity_is_name("/p/unity_0_cxx.cxx"));
    cr_expect(!unity_is_name("/p/t-unity.c"));
}

/* Expects the names of a text, separated by ' ', and what is left of it; both NULL: it is no such source. */
static void check(const char *path, const char *text, const char *names, const char *left)
{
    uint8_t copy[256];
    size_t len = strlen(text);
    cr_assert_lt(len, sizeof copy);
    memcpy(copy, text, len);
    char *found = unity_names(path, copy, len);
    cr_expect_eq(found != NULL, names != NULL, "%s", text);
    for (char *at = found; at && *at; at += strlen(at) + 1) {
        size_t n = strcspn(names, " ");
        cr_expect(strlen(at) == n && strncmp(at, names, n) == 0, "%s", at);
        names += n + (names[n] != '\0');
    }
    cr_expect(!names || *names == '\0', "%s", names);
    free(found);
    size_t now = unity_hide(path, copy, len);
    left = left ? left : text;
    cr_expect(now == strlen(left) && memcmp(copy, left, now) == 0, "%.*s", (int)now, (char *)copy);
}

Test(unity, nothing_but_comments_and_includes)
{
    check(CMAKE, "/* by CMake */\n\n// NOLINT\n#include \"/p/a.cc\"\n#include \"/p/b.cc\"\n",
          "/p/a.cc /p/b.cc", "/* by CMake */\n\n// NOLINT\n\3\n\3\n");
    check(MESON, "#include </p/a.c>\n#include</p/b.c>", "/p/a.c /p/b.c", "\3\n\3\n");
    check("/p/m.cc", "#include \"/p/a.cc\"\n", NULL, NULL);
    static const char *const others[] = {
        "",
        "/* by CMake */\n",
        "#include \"/p/a.cc\"\nint x;\n",
        "#include \"/p/a.cc\" int x;\n",
        "#include \"a.cc\"\n",
        "#include \"/p/a.cc\"\n#include \"a.cc\"\n",
        "#include \"/p/a.cc>\n",
        "#include \"/p/a.cc\"\n// \\\n#include \"/p/b.cc\"\n",
        "#include \"/p/a.cc\"\n/* \n#include \"/p/b.cc\"\n*/\n",
        "/* */ int x; /* */\n#include \"/p/b.cc\"\n",
        "#include \"/p/a.cc\"\n// ?\?/\n#include \"/p/b.cc\"\n",
        "#include \"/p/a.cc\"\n\3\n",
        "#include \"/p/a\"b.cc\"\n",
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        check(CMAKE, others[i], NULL, NULL);
}
