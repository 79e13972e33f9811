/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands that replace a folder in names by their own -ffile-prefix-map, each compared with g++ at that moment: which
 * results another checkout gets, and which it must not get.
 */
#include <criterion/criterion.h>

#include "tests/support/tool.h"
#include "tests/support/tool_compare.h"

/* Two checkouts whose names have other lengths and depths; the source computes with all its names, and with the header's. */
#define CHECKOUTS                                                                                  \
    "T=$PWD; for d in p deep/er/q; do mkdir -p $d/src $d/inc $d/b; printf '%b' "                   \
    "'constexpr unsigned h(const char *s) { return *s ? *s + 7 * h(s + 1) : 5; }\\n"               \
    "constexpr const char *own() { return __FILE__; }\\n"                                          \
    "constexpr const char *caller(const char *s = __builtin_FILE()) { return s; }\\n' "            \
    ">$d/inc/h.h; printf '%b' '#include \"h.h\"\\n"                                                \
    "const char *f() { return __BASE_FILE__; }\\n"                                                 \
    "unsigned g() { constexpr unsigned n = h(__FILE__) + h(own()) + h(caller()); return n; }\\n' " \
    ">$d/src/m.cc; done"
#define IN(checkout, options) "cd " checkout "/b && P=${PWD%/b} && $CXX -std=c++17 -O1 " options
#define SOURCE " -I$P/inc -c $P/src/m.cc -o m.o"
#define MAP "-ffile-prefix-map=$P=."
#define ONE_THEN_OTHER(options, expected)                                                          \
    {                                                                                              \
        {NULL, IN("p", options), MADE}, {NULL, IN("deep/er/q", options), expected},                \
        {                                                                                          \
            NULL, IN("p", options), TAKEN                                                          \
        }                                                                                          \
    }

Test(user_map, names_without_the_folder_are_those_of_each_checkout)
{
    COMPARE(
        {"names in the text", CHECKOUTS, ONE_THEN_OTHER(MAP SOURCE, TAKEN)},
        {"debug information", CHECKOUTS, ONE_THEN_OTHER("-g " MAP SOURCE, TAKEN)},
        {"a file of dependencies", CHECKOUTS,
         ONE_THEN_OTHER("-g -MD -MT m.o -MF m.d " MAP SOURCE, TAKEN)},
        {"names in the text alone", CHECKOUTS,
         ONE_THEN_OTHER("-fmacro-prefix-map=$P/=/usr/src/" SOURCE, TAKEN)},
        {"a warning, which has the whole name", CHECKOUTS,
         ONE_THEN_OTHER("-Wall -Wunused -DX='int f() { int unused; return 1; }' -include "
                        "$P/inc/h.h -Wcpp " MAP SOURCE " -w",
                        TAKEN)},
        {"relative names",
         CHECKOUTS,
         {{NULL, "cd p && $CXX -std=c++17 -g -ffile-prefix-map=$PWD=. -Iinc -c src/m.cc", MADE},
          {NULL, "cd deep/er/q && $CXX -std=c++17 -g -ffile-prefix-map=$PWD=. -Iinc -c src/m.cc",
           TAKEN},
          {"echo '// new' >>deep/er/q/inc/h.h", NULL, MADE}}});
}

/* As CMake links: with all options of its compiles. */
Test(user_map, a_link_of_equal_objects_hits_in_another_checkout)
{
#define OBJECT(checkout, options)                                                                  \
    "cd " checkout "/b && P=${PWD%/b} && g++ -std=c++17 -O1 -fPIC " options MAP SOURCE
#define LINK(checkout, options)                                                                    \
    "cd " checkout "/b && P=${PWD%/b} && $CXX -O1 -g " options " -shared m.o -o libm.so"
    COMPARE({"debug information",
             CHECKOUTS,
             {{OBJECT("p", "-g "), LINK("p", MAP), MADE},
              {OBJECT("deep/er/q", "-g "), LINK("deep/er/q", MAP), TAKEN},
              {NULL, LINK("deep/er/q", ""), MADE},
              {NULL, LINK("p", ""), TAKEN},
              {OBJECT("p", "-g -Dg=k "), LINK("p", MAP), MADE}}},
            {"code that the link makes",
             CHECKOUTS,
             {{OBJECT("p", "-flto -frandom-seed=1 "), LINK("p", ""), MADE},
              {OBJECT("deep/er/q", "-flto -frandom-seed=1 "), LINK("deep/er/q", ""), MADE}}});
}

Test(user_map, names_that_the_option_leaves_are_of_one_checkout)
{
    COMPARE(
        {"debug information, but for names in the text", CHECKOUTS,
         ONE_THEN_OTHER("-g -fmacro-prefix-map=$P=." SOURCE, MADE)},
        {"all of it, compressed", CHECKOUTS, ONE_THEN_OTHER("-g -gz " MAP SOURCE, MADE)},
        {"the working folder, which has no / behind it",
         CHECKOUTS,
         {{NULL, "cd p && $CXX -std=c++17 -g -ffile-prefix-map=$PWD/= -Iinc -c src/m.cc", MADE},
          {NULL, "cd deep/er/q && $CXX -std=c++17 -g -ffile-prefix-map=$PWD/= -Iinc -c src/m.cc",
           MADE}}},
        {"another working folder",
         CHECKOUTS "; mkdir deep/er/q/b2",
         {{NULL, IN("p", "-g " MAP SOURCE), MADE},
          {NULL, "cd deep/er/q/b2 && P=${PWD%/b2} && $CXX -std=c++17 -O1 -g " MAP SOURCE, MADE}}},
        {"a second name of the working folder",
         CHECKOUTS "; ln -s deep/er/q alias",
         {{NULL, IN("p", "-g -DALIAS " MAP SOURCE), MADE},
          {NULL,
           "T=$PWD; cd deep/er/q/b && P=${PWD%/b} && PWD=$T/alias/b $CXX -std=c++17 -O1 -g "
           "-DALIAS " MAP SOURCE,
           MADE}}},
        {"two folders", CHECKOUTS,
         ONE_THEN_OTHER(MAP " -ffile-prefix-map=$(dirname $(dirname $P))=Q" SOURCE, MADE)},
        {"names of other checks", CHECKOUTS,
         ONE_THEN_OTHER("-fsanitize=undefined " MAP SOURCE, MADE)});
}

/* GCC replaces the beginning of a name, whatever stands behind it. The first checkout gives none of these names. */
Test(user_map, a_name_that_only_the_second_checkout_replaces_is_made_there)
{
#define OUTSIDE(text) "; for d in p deep/er/q; do " text "; done"
    COMPARE(
        {"a file beside it",
         CHECKOUTS "; mkdir deep/er/q2; cp p/inc/h.h deep/er/q2",
         {{NULL, "T=$PWD; " IN("p", MAP " -I$T/deep/er/q2 -c $P/src/m.cc -o m.o"), MADE},
          {NULL, "T=$PWD; " IN("deep/er/q", MAP " -I$T/deep/er/q2 -c $P/src/m.cc -o m.o"), MADE},
          {NULL, NULL, TAKEN}}},
        {"a line of the source",
         CHECKOUTS OUTSIDE("sed -i \"1i#line 1 \\\"$T/deep/er/q/y.cc\\\"\" $d/src/m.cc"),
         ONE_THEN_OTHER(MAP SOURCE, MADE)},
        {"a line of a header",
         CHECKOUTS OUTSIDE("sed -i \"1i# 1 \\\"$T/deep/er/q/y.h\\\"\" $d/inc/h.h"),
         ONE_THEN_OTHER("-g " MAP SOURCE, MADE)},
        {"a header by its whole name",
         CHECKOUTS OUTSIDE("mv $d/inc/h.h $d/inc/i.h; echo \"#include "
                           "\\\"$T/deep/er/q/inc/i.h\\\"\" >$d/inc/h.h"),
         ONE_THEN_OTHER(MAP SOURCE, MADE)},
        {"a link that a system's folder is",
         CHECKOUTS "; ln -s deep/er/q/inc sys",
         {{NULL, "T=$PWD; " IN("p", MAP " -isystem $T/sys -c $P/src/m.cc -o m.o"), MADE},
          {NULL, "T=$PWD; " IN("deep/er/q", MAP " -isystem $T/sys -c $P/src/m.cc -o m.o"), MADE}}});
}
