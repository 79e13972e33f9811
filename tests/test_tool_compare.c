/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hard cases of compiler caches, each compared with gcc, g++ and clang at that moment: the clock,
 * files that are one or not, folders, dependency files, profiles, specs, precompiled headers.
 */
#include "tests/tool_compare.h"

#define COMPARE(...)                                                                               \
    do {                                                                                           \
        static const struct compared list_[] = {__VA_ARGS__};                                      \
        compare(list_, sizeof list_ / sizeof list_[0]);                                            \
    } while (0)

#define PASTE "#define C(a, b) a##b\\n#define X(a, b) C(a, b)\\n"
#define TWICE "#ifdef SEEN\\n#define TWICE 1\\n#endif\\n#define SEEN 1\\n"
#define TWO_COPIES(once)                                                                           \
    "mkdir a b; printf '" once TWICE "' | tee a/h.h >b/h.h; touch -d 2020-01-01 a/h.h b/h.h; "

/* ---- the clock ---- */

Test(tool_compare, the_clock_is_never_kept)
{
    COMPARE(
        {"a macro of the command line",
         "echo 'const char *t = STAMP;' >a.cc",
         {{NULL, "$CXX -c a.cc '-DSTAMP=__DATE__ \" \" __TIME__'", CLOCK}, {NULL, NULL, CLOCK}}},
        {"assembler with a macro of the command line",
         "echo '.string NOW' >a.S",
         {{NULL, "$CC -c a.S -DNOW=__TIME__", CLOCK}, {NULL, NULL, CLOCK}}},
        {"pasted",
         "printf '" PASTE "const char *t = X(__TI, ME__);\\n' >a.cc",
         {{NULL, "$CXX -c a.cc", CLOCK}, {NULL, NULL, CLOCK}}},
        {"pasted with digraphs, of pieces in another file",
         "printf '#define C(a, b) a%%:%%:b\\n#define X(a, b) C(a, b)\\n' >h.h; "
         "printf '#include \"h.h\"\\nconst char *t = X(__DA, TE__);\\n' >a.cc",
         {{NULL, "$CXX -c a.cc", CLOCK}, {NULL, NULL, CLOCK}}},
        {"in two lines",
         "printf 'const char *t = __TI\\\\\\nME__;\\n' >a.cc",
         {{NULL, "$CXX -c a.cc", CLOCK}, {NULL, NULL, CLOCK}}},
        {"in a source of more than 4 MiB",
         "{ echo 'const char *t = __TIME__;'; yes 'int pad(); /* all of the rest of the line */' "
         "| head -n 120000; } >a.cc",
         {{NULL, "$CXX -c a.cc", CLOCK}, {NULL, NULL, CLOCK}}},
        {"from a file of macros",
         "echo '#define STAMP __TIME__' >m.h; echo 'const char *t = STAMP;' >a.cc",
         {{NULL, "$CXX -imacros m.h -c a.cc", CLOCK}, {NULL, NULL, CLOCK}}},
        {"in what is preprocessed",
         "echo 'const char *t = __TIME__;' >a.cc",
         {{NULL, "$CXX -E a.cc", CLOCK}, {NULL, NULL, CLOCK}}},
        {"the time of a file",
         "echo 'const char *t = STAMP;' >a.cc",
         {{NULL, "$CXX -c a.cc -DSTAMP=__TIMESTAMP__", REAL},
          {"touch -d 2001-01-01 a.cc", NULL, REAL}}});
}

Test(tool_compare, names_of_the_clock_that_show_nothing_are_no_obstacle)
{
    COMPARE(
        {"a comment, a string, a macro that is not used",
         "printf '#define STAMP __TIME__\\n/* __DATE__ */ const char *t = \"__TIME__\";\\n' >a.cc",
         {{NULL, "$CXX -c a.cc", MADE}, {NULL, NULL, TAKEN}}},
        {"an #if that is not taken",
         "printf '#if 0\\nconst char *t = __TIME__;\\n#endif\\nint x;\\n' >a.cc",
         {{NULL, "$CXX -c a.cc", MADE}, {NULL, NULL, TAKEN}}},
        {"a clock that the environment sets",
         "echo 'const char *t = __DATE__ __TIME__;' >a.cc",
         {{NULL, "SOURCE_DATE_EPOCH=1 $CXX -c a.cc", MADE},
          {NULL, NULL, TAKEN},
          {NULL, "SOURCE_DATE_EPOCH=86401 $CXX -c a.cc", MADE}}});
}

/* ---- files of equal content ---- */

Test(tool_compare, which_files_are_one_counts)
{
    COMPARE(
        {"#pragma once, by time",
         TWO_COPIES("#pragma once\\n") "printf '#include \"a/h.h\"\\n#include \"b/h.h\"\\n"
                                       "#ifdef TWICE\\nint x = 2;\\n#endif\\n' >a.cc",
         {{NULL, "$CXX -c a.cc", MADE},
          {NULL, NULL, TAKEN},
          {"touch -d 2020-01-02 b/h.h", NULL, MADE},
          {"touch -d 2020-01-02 a/h.h", NULL, TAKEN},
          {"touch -d 2020-01-03 a/h.h", NULL, TAKEN}}},
        {"a redefinition, by time",
         "mkdir -p src build/include; printf '#pragma once\\ninline int f(int x) { return x; }\\n' "
         "| tee src/h.h >build/include/h.h; touch -d 2020-01-01 src/h.h build/include/h.h; "
         "printf '#include \"src/h.h\"\\n#include \"build/include/h.h\"\\nint g = f(1);\\n' >a.cc",
         {{NULL, "$CXX -c a.cc", MADE},
          {"touch -d 2021-01-01 src/h.h; rm a.o", NULL, MADE},
          {NULL, NULL, TAKEN},
          {"touch -d 2020-01-01 src/h.h", NULL, TAKEN}}},
        {"#import, by time",
         TWO_COPIES("") "printf '#import \"a/h.h\"\\n#import \"b/h.h\"\\n"
                        "#ifdef TWICE\\nint x = 2;\\n#endif\\n' >a.cc",
         {{NULL, "$CXX -w -c a.cc", MADE}, {"touch -d 2020-01-02 b/h.h", NULL, MADE}}},
        {"_Pragma of another's macro, by time",
         TWO_COPIES("ONLY\\n") "printf '#define ONLY _Pragma(\"once\")\\n#include \"a/h.h\"\\n"
                               "#include \"b/h.h\"\\n#ifdef TWICE\\nint x = 2;\\n#endif\\n' >a.cc",
         {{NULL, "$CXX -c a.cc", MADE}, {"touch -d 2020-01-02 b/h.h", NULL, MADE}}},
        {"files of other content may be touched",
         "echo '#pragma once' >h.h; printf '#include \"h.h\"\\nint x;\\n' >a.cc",
         {{NULL, "$CXX -c a.cc", MADE}, {"touch -d 2020-01-02 h.h", NULL, TAKEN}}});
}

/* ---- clang ---- */

Test(tool_compare, clang_is_as_by_itself)
{
    if (!has_compiler("clang"))
        return;
    COMPARE({"a macro of the command line",
             "echo 'const char *t = STAMP;' >a.c",
             {{NULL, "$CLANG -c a.c -DSTAMP=__TIME__", CLOCK}, {NULL, NULL, CLOCK}}},
            {"pasted",
             "printf '" PASTE "const char *t = X(__TI, ME__);\\n' >a.c",
             {{NULL, "$CLANG -c a.c", CLOCK}, {NULL, NULL, CLOCK}}},
            {"the time of a file",
             "echo 'const char *t = STAMP;' >a.c",
             {{NULL, "$CLANG -c a.c -DSTAMP=__TIMESTAMP__", REAL},
              {"touch -d 2001-01-01 a.c", NULL, REAL}}},
            {"#pragma once, by link",
             TWO_COPIES("#pragma once\\n") "printf '#include \"a/h.h\"\\n#include \"b/h.h\"\\n"
                                           "#ifdef TWICE\\nint x = 2;\\n#endif\\n' >a.c",
             {{NULL, "$CLANG -c a.c", MADE},
              {"rm b/h.h; ln -s ../a/h.h b/h.h", NULL, MADE},
              {"rm b/h.h; ln a/h.h b/h.h", NULL, TAKEN},
              {"cp --remove-destination a/h.h b/h.h; touch -d 2020-01-01 b/h.h", NULL, TAKEN}}});
}
