/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hard cases of compiler caches, each compared with gcc, g++ and clang at that moment: the clock,
 * files that are one or not, folders, dependency files, profiles, specs, precompiled headers.
 */
#include "tests/support/tool_compare.h"

#include <criterion/criterion.h>

#include "tests/support/tool.h"

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

/* ---- folders ---- */

/* The same in two folders, p and q. */
#define IN_TWO(file) "mkdir p q; " file " | tee p/m.cc >q/m.cc"
#define STEPS_IN_TWO(command, expected)                                                            \
    {                                                                                              \
        {NULL, "cd p && " command, MADE}, {NULL, "cd q && " command, expected},                    \
            {NULL, NULL, TAKEN}, {NULL, "cd p && " command, TAKEN},                                \
    }

Test(tool_compare, the_working_folder_counts_where_it_shows)
{
    COMPARE({"nowhere", IN_TWO("echo 'int f;'"), STEPS_IN_TWO("$CXX -c m.cc", TAKEN)},
            {"debug information", IN_TWO("echo 'int g;'"), STEPS_IN_TWO("$CXX -g -c m.cc", MADE)},
            {"none of it", IN_TWO("echo 'int h;'"), STEPS_IN_TWO("$CXX -g -g0 -c m.cc", TAKEN)},
            {"lines in assembler",
             "mkdir p q; printf '.file 1 \"a.c\"\\n.text\\nf:\\n.loc 1 1 0\\nret\\n' | tee p/m.s "
             ">q/m.s",
             STEPS_IN_TWO("$CC -c m.s", MADE)},
            {"a path of the environment in a macro",
             IN_TWO("printf '#define S(x) #x\\n#define T(x) S(x)\\nconst char *t = T(P);\\n'"),
             STEPS_IN_TWO("$CXX -c m.cc -DP=$PWD", MADE)});
}

Test(tool_compare, options_of_which_nobody_knows_all_are_real)
{
    COMPARE(
        {"the long name of -g",
         IN_TWO("echo 'int f;'"),
         {{NULL, "cd p && $CXX --debug -c m.cc", REAL},
          {NULL, "cd q && $CXX --debug -c m.cc", REAL}}},
        {"specs that ask for -g",
         IN_TWO("echo 'int f;'") "; printf '*cc1plus:\\n+ -g\\n\\n' >s",
         {{NULL, "cd p && $CXX -specs=../s -c m.cc", REAL},
          {NULL, "cd q && $CXX -specs=../s -c m.cc", REAL}}},
        {"a profile",
         "mkdir p q; printf 'int f(int n) { int s = 0; while (n--) s += n %% 3 ? n : 1; return s; }"
         "int main(void) { return f(99) & 1; }' | tee p/m.c >q/m.c; (cd q; gcc -O2 "
         "-fprofile-arcs -c m.c && gcc --coverage m.o -o m && ./m; rm -f m.o m)",
         {{NULL, "cd p && $CC -O2 -fbranch-probabilities -c m.c", REAL},
          {NULL, "cd q && $CC -O2 -fbranch-probabilities -c m.c", REAL}}},
        {"an option of tomorrow", "echo 'int f;' >m.cc", {{NULL, "$CXX --no-such -c m.cc", REAL}}},
        {"options from a file",
         "echo 'int f = V;' >m.cc; echo -DV=1 >o",
         {{NULL, "$CXX @o -c m.cc", MADE},
          {"echo -DV=2 >o", NULL, MADE},
          {"echo '@p' >o; echo -DV=3 >p", NULL, REAL}}},
        {"a build's own identity",
         "echo 'int main() {}' >m.cc",
         {{NULL, "$CXX -Wl,--build-id=sha1 m.cc -o m", MADE}, {NULL, NULL, TAKEN}}},
        {"a random identity",
         "echo 'int main() {}' >m.cc",
         {{NULL, "$CXX -Wl,--build-id=uuid m.cc -o m", CLOCK}}},
        {"what the linker measures",
         "echo 'int main() {}' >m.cc",
         {{NULL, "$CXX -Wl,--stats m.cc -o m", CLOCK}}},
        {"what the driver does",
         "echo 'int main() {}' >m.cc",
         {{NULL, "$CXX -v -c m.cc", CLOCK}, {NULL, "$CXX '-###' -c m.cc", CLOCK}}},
        {"what the compiler measures",
         "echo 'int main() {}' >m.cc",
         {{NULL, "$CXX -time -c m.cc", CLOCK},
          {NULL, "$CXX -ftime-report -c m.cc", CLOCK},
          {NULL, "$CXX -Q -c m.cc", CLOCK},
          {NULL, "$CXX -fmem-report -c m.cc", CLOCK},
          {NULL, "$CXX -Wa,--statistics -c m.cc", CLOCK}}});
}

/* The folder of all of it is temporary: the names of p and q are no part of the first key. */
#define PLACED                                                                                     \
    "$PWD/p/m.cc -o $PWD/p/m.o", MADE                                                              \
    }                                                                                              \
    ,                                                                                              \
    {                                                                                              \
        NULL, "$CXX -std=c++20 -c $PWD/q/m.cc -o $PWD/q/m.o"
#define STEPS_PLACED(expected)                                                                     \
    {                                                                                              \
        {NULL, "$CXX -std=c++20 -c " PLACED, expected}, {NULL, NULL, TAKEN},                       \
    }
#define HASH                                                                                       \
    "constexpr unsigned hash(const char *s) { unsigned h = 5381; while (*s) h = h * 33 + "         \
    "(unsigned char)*s++; return h; }\\n"
#define PLACE(header, source)                                                                      \
    "mkdir p q; printf '" header "' | tee p/h.h >q/h.h; "                                          \
    "printf '#include \"h.h\"\\n" source "' | tee p/m.cc >q/m.cc"

Test(tool_compare, temporary_folders_count_where_their_names_decide)
{
    COMPARE(
        {"nowhere", PLACE("#define H 1\\n", "int x = H;\\n"), STEPS_PLACED(TAKEN)},
        {"pasted of short pieces",
         PLACE(HASH PASTE "#define D X(__, X(FIL, X(E, __)))\\n",
               "extern const unsigned x = hash(D);\\n"),
         STEPS_PLACED(MADE)},
        {"the system's headers",
         PLACE("#include <string>\\n#include <cassert>\\n", "int x = 1;\\n"), STEPS_PLACED(TAKEN)},
        {"__FILE__ of a header, hashed",
         PLACE(HASH "static const unsigned id = hash(__FILE__);\\n", "int x = id;\\n"),
         STEPS_PLACED(MADE)},
        {"a macro of a header that leads to __FILE__",
         PLACE(HASH "#define HERE __FILE__\\n#define ID hash(HERE)\\n", "int x = ID;\\n"),
         STEPS_PLACED(MADE)},
        {"a macro of the command line",
         PLACE(HASH, "int x = ID;\\n"),
         {{NULL, "$CXX '-DID=hash(__FILE__)' -c $PWD/p/m.cc -o $PWD/p/m.o", MADE},
          {NULL, "$CXX '-DID=hash(__FILE__)' -c $PWD/q/m.cc -o $PWD/q/m.o", MADE}}},
        {"__builtin_FILE of a caller",
         PLACE(HASH
               "constexpr unsigned id(const char *f = __builtin_FILE()) { return hash(f); }\\n",
               "unsigned x() { constexpr unsigned v = id(); return v; }\\n"),
         STEPS_PLACED(MADE)},
        {"source_location",
         PLACE(HASH "#include <source_location>\\nconstexpr unsigned id(std::source_location l = "
                    "std::source_location::current()) { return hash(l.file_name()); }\\n",
               "unsigned x() { constexpr unsigned v = id(); return v; }\\n"),
         STEPS_PLACED(MADE)},
        {"wide characters",
         PLACE("#define W2(x) L##x\\n#define W1(x) W2(x)\\nvoid log(const wchar_t *);\\n"
               "#define CHECK(c) ((c) ? void() : log(W1(__FILE__)))\\n",
               "void f(int x) { CHECK(x); }\\n"),
         STEPS_PLACED(MADE)},
        {"the length, in a type",
         PLACE("template <int N> struct S {};\\n", "void f(S<sizeof(__FILE__)>) {}\\n"),
         STEPS_PLACED(MADE)},
        {"a preprocessor computes nothing",
         PLACE(HASH
               "constexpr unsigned id(const char *f = __builtin_FILE()) { return hash(f); }\\n",
               "#define S2(x) #x\\n#define S(x) S2(x)\\nunsigned x() { return id(); }\\n"),
         {{NULL, "$CXX -E -P $PWD/p/m.cc -o $PWD/p/m.i", MADE},
          {NULL, "$CXX -E -P $PWD/q/m.cc -o $PWD/q/m.i", TAKEN},
          {NULL, "$CXX -E $PWD/p/m.cc -o $PWD/p/m.i", MADE},
          {NULL, "$CXX -E $PWD/q/m.cc -o $PWD/q/m.i", TAKEN}}},
        {"names of files in its text, in folders of other lengths",
         "mkdir -p p other/q; printf '#define S2(x) #x\\n#define S(x) S2(x)\\n#define HERE "
         "__FILE__\\n' "
         "| tee p/h.h >other/q/h.h; printf '#include \"h.h\"\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n"
         "const char *f = HERE, *g = S(HERE);\\nconst char *h =\\n\\n__FILE__ __BASE_FILE__;\\n' | "
         "tee "
         "p/m.cc >other/q/m.cc",
         {{NULL, "$CXX -E $PWD/p/m.cc -o $PWD/p/m.i", MADE},
          {NULL, "$CXX -E $PWD/other/q/m.cc -o $PWD/other/q/m.i", TAKEN},
          {NULL, "cd p && $CXX -g -dD -E $PWD/m.cc -o $PWD/m.i", MADE},
          {NULL, "cd other/q && $CXX -g -dD -E $PWD/m.cc -o $PWD/m.i", TAKEN}}},
        {"it may show a name in a text",
         PLACE("#define S2(x) L ## #x\\n#define S(x) S2(x)\\n#define HERE __FILE__\\n",
               "const wchar_t *f = S(HERE);\\n"),
         {{NULL, "$CXX -E -P $PWD/p/m.cc -o $PWD/p/m.i", MADE},
          {NULL, "$CXX -E -P $PWD/q/m.cc -o $PWD/q/m.i", TAKEN}}},
        {"the name of a folder that it escapes",
         "mkdir 'p\"' 'q\"'; printf '#define HERE __FILE__\\n' | tee 'p\"/h.h' >'q\"/h.h'; "
         "printf '#include \"h.h\"\\nconst char *f = HERE;\\n' | tee 'p\"/m.cc' >'q\"/m.cc'",
         {{NULL, "$CXX -E -P $PWD/'p\"'/m.cc -o $PWD/'p\"'/m.i", MADE},
          {NULL, "$CXX -E -P $PWD/'q\"'/m.cc -o $PWD/'q\"'/m.i", MADE}}},
        {"the source, from a header",
         PLACE("static const char *base = __BASE_FILE__;\\n",
               "const char *f() { return base; }\\n"),
         STEPS_PLACED(MADE)});
}

/* A text, an argument and a variable that name a folder mean it in the other folder, too. */
Test(tool_compare, a_temporary_folder_that_is_named_is_that_folder)
{
#define NAMED(text)                                                                                \
    "mkdir p q; echo '#define H 1' | tee p/h.h >q/h.h; "                                           \
    "printf '" text "\\nint x = H;\\n' \"$PWD/p\" | tee p/m.cc >q/m.cc"
#define STEPS_NAMED(setting, option)                                                               \
    {                                                                                              \
        {NULL, setting "$CXX " option " -c $PWD/p/m.cc -o $PWD/p/m.o", MADE},                      \
        {"echo '#define H 2' >p/h.h", setting "$CXX " option " -c $PWD/q/m.cc -o $PWD/q/m.o",      \
         MADE},                                                                                    \
        {NULL, NULL, TAKEN},                                                                       \
    }
    COMPARE({"in a text", NAMED("#include \"%s/h.h\""), STEPS_NAMED("", "")},
            {"in a macro", NAMED("#include FILE"), STEPS_NAMED("", "-DFILE=\\\"$PWD/p/h.h\\\"")},
            {"in a variable", NAMED("#include <h.h>"), STEPS_NAMED("CPATH=$PWD/p ", "")});
}

/* Clang calls a lambda "(lambda at FILE:LINE:COLUMN)". */
Test(tool_compare, temporary_folders_count_where_clang_names_types_by_them)
{
    if (!has_compiler("clang"))
        return;
    COMPARE({"a lambda, hashed",
             PLACE(HASH "template <class T> constexpr unsigned id(T) { return "
                        "hash(__PRETTY_FUNCTION__); }\\n",
                   "extern const unsigned x = id([] {});\\n"),
             {{NULL, "$CLANG -std=c++17 -c $PWD/p/m.cc -o $PWD/p/m.o", MADE},
              {NULL, "$CLANG -std=c++17 -c $PWD/q/m.cc -o $PWD/q/m.o", MADE},
              {NULL, NULL, TAKEN}}});
}

/* ---- a project in another folder ---- */

/* A project with a folder to build in, twice: with a name of another length, and deeper. */
#define PROJECT(source)                                                                            \
    "for d in p deep/er/checkout; do mkdir -p $d/src $d/inc $d/b; "                                \
    "printf '#define H 1\\nint h();\\n' >$d/inc/h.h; printf '%b' '#include \"h.h\"\\n" source      \
    "\\n' "                                                                                        \
    ">$d/src/m.cc; done"
#define IN_BOTH(command, expected)                                                                 \
    {                                                                                              \
        {NULL, "cd p/b && P=${PWD%/b} && " command, MADE},                                         \
            {NULL, "cd deep/er/checkout/b && P=${PWD%/b} && " command, expected},                  \
            {NULL, NULL, TAKEN}, {NULL, "cd p/b && P=${PWD%/b} && " command, TAKEN},               \
    }
#define COMPILE "$CXX -std=c++20 -I$P/inc -c $P/src/m.cc "

Test(tool_compare, a_project_in_another_folder_is_taken_if_its_place_shows_nowhere)
{
    COMPARE({"an object", PROJECT("int f() { return H; }"), IN_BOTH(COMPILE "-o m.o", TAKEN)},
            {"optimized, without asserts",
             PROJECT("#include <string>\\nint f(std::string s) { return s.size() + H; }"),
             IN_BOTH(COMPILE "-O2 -DNDEBUG -o $P/b/m.o", TAKEN)},
            {"a check of its own, which a release leaves out",
             PROJECT("#ifndef NDEBUG\\n#define CHECK(x) ((x) ? 0 : fail(__FILE__))\\nint "
                     "fail(const char *);\\n#else\\n#define CHECK(x) (x)\\n#endif\\nint f(int x) "
                     "{ return CHECK(x) + H; }"),
             IN_BOTH(COMPILE "-DNDEBUG -o m.o", TAKEN)},
            {"a file of dependencies", PROJECT("int g() { return H; }"),
             IN_BOTH(COMPILE "-MD -MP -MF $P/b/m.d -o $P/b/m.o", TAKEN)},
            {"a source by its way from here", PROJECT("int i() { return H; }"),
             IN_BOTH("$CXX -I$P/inc -MMD -c ../src/m.cc -o m.o", TAKEN)},
            {"an error", PROJECT("int f() { return nothere; }"), IN_BOTH(COMPILE "-o m.o", TAKEN)},
            {"a warning in a header's macro", PROJECT("int f() { int unused; return H; }"),
             IN_BOTH(COMPILE "-Wall -o m.o", TAKEN)},
            {"a library", PROJECT("int f() { return H; }"),
             IN_BOTH("$CXX -shared -fPIC -I$P/inc $P/src/m.cc -o $P/b/libm.so", TAKEN)},
            {"preprocessed", PROJECT("const char *f() { return __FILE__; }"),
             IN_BOTH("$CXX -E -I$P/inc $P/src/m.cc -o m.ii", TAKEN)});
}

Test(tool_compare, a_project_in_another_folder_is_made_there_if_its_place_may_show)
{
    COMPARE(
        {"debug information", PROJECT("int f() { return H; }"), IN_BOTH(COMPILE "-g -o m.o", MADE)},
        {"a profiler", PROJECT("int f() { return H; }"), IN_BOTH(COMPILE "-pg -o m.o", MADE)},
        {"an assert", PROJECT("#include <cassert>\\nint f(int x) { assert(x); return H; }"),
         IN_BOTH(COMPILE "-o m.o", MADE)},
        {"a check that comes back",
         PROJECT(
             "#undef NDEBUG\\n#ifndef NDEBUG\\n#define CHECK(x) ((x) ? 0 : fail(__FILE__))\\nint "
             "fail(const char *);\\n#else\\n#define CHECK(x) (x)\\n#endif\\nint f(int x) "
             "{ return CHECK(x) + H; }"),
         IN_BOTH(COMPILE "-DNDEBUG -o m.o", MADE)},
        {"a hash of its name",
         PROJECT("constexpr int h(const char *s) { return *s ? *s + 7 * h(s + 1) : 0; }\\n"
                 "int f() { constexpr int n = h(__FILE__); return n; }"),
         IN_BOTH(COMPILE "-O2 -o m.o", MADE)},
        {"the length of a caller's name",
         PROJECT("constexpr int n(const char *s) { return *s ? 1 + n(s + 1) : 0; }\\n"
                 "int f(int l = n(__builtin_FILE())) { return l; }\\nint g() { return f(); }"),
         IN_BOTH(COMPILE "-O2 -o m.o", MADE)},
        {"a place in the source",
         PROJECT("#include <source_location>\\nint f() { return "
                 "std::source_location::current().file_name()[1]; }"),
         IN_BOTH(COMPILE "-O2 -o m.o", MADE)},
        {"a name in a header's text",
         PROJECT("int f() { return H; }") "; for d in p deep/er/checkout; do echo 'inline const "
                                          "char *here() { return __FILE__; }' >>$d/inc/h.h; done",
         IN_BOTH(COMPILE "-o m.o", MADE)},
        {"a macro of the command", PROJECT("const char *f() { return R; }"),
         IN_BOTH(COMPILE "-DR='\"'$P'\"' -o m.o", MADE)},
        {"an option that may hash names", PROJECT("static int s = H; int *f() { return &s; }"),
         IN_BOTH(COMPILE "-fsanitize=undefined -o m.o", MADE)},
        {"a place where libraries are searched", PROJECT("int f() { return H; }"),
         IN_BOTH("$CXX -shared -fPIC -I$P/inc $P/src/m.cc -Wl,-rpath,$P/lib -o m.so", MADE)});
}

/* ---- standard input, and results in more than one file ---- */

Test(tool_compare, standard_input_is_a_source_like_any_other)
{
    COMPARE({"an object",
             "echo 'int x = V;' >in",
             {{NULL, "$CXX -DV=1 -x c++ -c - -o m.o <in", MADE},
              {NULL, "cat in | $CXX -DV=1 -x c++ -c - -o m.o", TAKEN},
              {"echo 'int y = V;' >in", NULL, MADE},
              {"echo '#include \"h.h\"' >in; echo 'int z = 1;' >h.h", NULL, MADE},
              {"echo 'int z = 2;' >h.h", NULL, MADE}}},
            {"nothing",
             ":",
             {{NULL, "$CXX -march=native -E - </dev/null", MADE},
              {NULL, NULL, TAKEN},
              {NULL, "$CXX -march=native -E -v - </dev/null", MADE},
              {NULL, NULL, TAKEN}}},
            {"with messages",
             "echo 'int f() { return nothere; }' >in",
             {{NULL, "$CXX -x c++ -c - -o m.o <in", MADE}, {NULL, NULL, TAKEN}}},
            {"to standard output",
             "printf 'int f() { return 1; }\\nchar s[] = \"\\001\";\\n' >in",
             {{NULL, "$CXX -x c++ -S - -o - <in", MADE}, {NULL, NULL, TAKEN}}},
            {"beside a file",
             "echo 'int x;' | tee in >a.cc",
             {{NULL, "$CXX -x c++ a.cc - -c <in", REAL}}});
    if (has_compiler("clang"))
        COMPARE({"an object to standard output",
                 "echo 'int f(void) { return 7; }' >in",
                 {{NULL, "$CLANG -x c -c - -o - <in", MADE},
                  {NULL, NULL, TAKEN},
                  {"echo 'int f(void) { return 8; }' >in", NULL, MADE}}});
}

Test(tool_compare, debug_information_in_its_own_file_comes_back)
{
    COMPARE({"beside the object", IN_TWO("echo 'int f(int x) { return x; }'"),
             STEPS_IN_TWO("$CXX -g -gsplit-dwarf -c m.cc -o m.o", MADE)},
            {"under another name",
             "echo 'int f(int x) { return x; }' >m.cc",
             {{NULL, "$CXX -g -gsplit-dwarf -c m.cc -o a.o", MADE},
              {NULL, "$CXX -g -gsplit-dwarf -c m.cc -o b.o", MADE},
              {"rm *.dwo", NULL, TAKEN}}},
            {"of a link",
             "echo 'int main() {}' >m.cc",
             {{NULL, "$CXX -g -gsplit-dwarf m.cc -o m", REAL}}});
}

Test(tool_compare, what_the_linker_compiles_is_kept_if_it_comes_out_alike)
{
    COMPARE({"a library", IN_TWO("echo 'int f(int x) { return x * 3; }'"),
             STEPS_IN_TWO("$CXX -O2 -flto -fPIC -shared m.cc -o m.so", MADE)},
            {"an object with a seed", IN_TWO("echo 'int f(int x) { return x * 5; }'"),
             STEPS_IN_TWO("$CXX -O2 -flto -frandom-seed=7 -c m.cc -o m.o", MADE)});
    if (has_compiler("clang"))
        COMPARE({"an object", IN_TWO("echo 'int f(int x) { return x * 3; }'"),
                 STEPS_IN_TWO("$CLANG -O2 -flto -c m.cc -o m.o", MADE)});
}

/* ---- how a source is spelled ---- */

#define THREE(options, second)                                                                     \
    {                                                                                              \
        {NULL, "$CXX " options " m.cc", MADE}, {NULL, "$CXX " options " ./m.cc", second},          \
            {NULL, NULL, TAKEN}, {NULL, "$CXX " options " $PWD/m.cc", second},                     \
            {NULL, NULL, TAKEN}, {NULL, "$CXX " options " m.cc", TAKEN},                           \
    }

Test(tool_compare, the_spelling_of_a_source_does_not_count)
{
    COMPARE({"an object",
             "echo 'int x;' >m.cc",
             {{NULL, "$CXX -c m.cc", MADE},
              {NULL, "$CXX -c ./m.cc", TAKEN},
              {NULL, "$CXX -c $PWD/m.cc", TAKEN},
              {NULL, "$CXX -c .//./m.cc", TAKEN},
              {NULL, "$CXX -c $PWD//m.cc -o $PWD/m.o", MADE},
              {NULL, "$CXX -c ./m.cc -o n.o", TAKEN}}},
            {"in a folder, with a constructor of the file",
             "mkdir sub; echo '#define H 1' >sub/h.h; printf '#include \"h.h\"\nnamespace { struct "
             "A { A() {} ~A() {} } a; }\nint y = H;\n' >sub/m.cc",
             {{NULL, "$CXX -O2 -fPIC -c .//sub/m.cc", MADE},
              {NULL, "$CXX -O2 -fPIC -c sub/m.cc", TAKEN},
              {"echo '#define H 2' >sub/h.h", "$CXX -O2 -fPIC -c ./sub/m.cc", MADE},
              {NULL, "$CXX -O2 -fPIC -c sub/./m.cc", TAKEN}}},
            {"a program of two",
             "echo 'int f();int main() { return f(); }' >m.cc; echo 'int f() { return 3; }' >f.c++",
             {{NULL, "$CXX ./m.cc $PWD/f.c++ -o m && ./m", MADE},
              {NULL, "$CXX m.cc f.c++ -o m && ./m", TAKEN}}},
            {"an assertion that is switched off",
             "echo 'int check(int n) { return n; }' >m.cc",
             {{NULL, "$CXX -DNDEBUG -include cassert -c ./m.cc", MADE},
              {NULL, "$CXX -DNDEBUG -include cassert -c m.cc", TAKEN}}},
            {"a folder by its path",
             "mkdir i; echo '#define H 1' >i/h.h; printf '#include <h.h>\nint z = H;\n' >m.cc",
             {{NULL, "$CXX -I$PWD/i -c m.cc", MADE}, {NULL, "$CXX -I$PWD/i -c ./m.cc", TAKEN}}});
}

Test(tool_compare, the_spelling_of_a_source_counts_where_it_shows)
{
    COMPARE(
        {"__FILE__", "echo 'const char *f = __FILE__;' >m.cc", THREE("-c", MADE)},
        {"debug information", "echo 'int f() { return 4; }' >m.cc", THREE("-g -c", MADE)},
        {"a warning", "echo 'int f() { int unused; return 5; }' >m.cc", THREE("-Wall -c", MADE)},
        {"an error", "echo 'int f() { return six; }' >m.cc", THREE("-c", MADE)},
        {"an assertion", "printf '#include <cassert>\nvoid f(int x) { assert(x == 7); }\n' >m.cc",
         THREE("-c", MADE)},
        {"a macro of a header, hashed",
         "printf '" HASH "#define ID hash(__FILE__)\n' >h.h; printf '#include \"h.h\"\nextern "
         "const unsigned x = ID;\n' >m.cc",
         THREE("-c", MADE)},
        {"a header beside it, by its own name",
         "echo 'static const char *const name = __FILE__;' >h.h; printf '#include \"h.h\"\nconst "
         "char *f() { return name; }\n' >m.cc",
         THREE("-c", MADE)},
        {"a header that asks for its caller",
         "printf '" HASH
         "constexpr unsigned id(const char *f = __builtin_FILE()) { return hash(f); "
         "}\n' >h.h; printf '#include \"h.h\"\nextern const unsigned x = id();\n' >m.cc",
         THREE("-c", MADE)},
        {"a macro of the command line", "echo 'const char *eight = NAME;' >m.cc",
         THREE("-DNAME=__FILE__ -c", MADE)},
        {"pasted",
         "printf '#define C(a, b, c) a##b##c\n#define X(a, b, c) C(a, b, c)\nconst char *nine = "
         "X(__F, IL, E__);\n' >m.cc",
         THREE("-c", MADE)},
        {"wide, pasted",
         "printf '#define C(a, b, c) a##b##c\n#define X(a, b, c) C(a, b, c)\n#define L1(x) L##x\n"
         "#define L2(x) L1(x)\nconst wchar_t *ten = L2(X(__F, IL, E__));\n' >m.cc",
         THREE("-c", MADE)},
        {"a sanitizer", "echo 'int f(int x) { return 11 / x; }' >m.cc",
         THREE("-fsanitize=undefined -c", MADE)},
        {"dependencies", "echo 'int twelve;' >m.cc", THREE("-MMD -MF m.d -o m.o -c", MADE)},
        {"assembler with comments", "echo 'int f() { return 13; }' >m.cc",
         THREE("-fverbose-asm -S", MADE)});
}

Test(tool_compare, only_names_that_surely_lead_to_one_file_are_spelled_anew)
{
    COMPARE({"above a link",
             "mkdir -p a/b c; ln -s a/b l; echo 'int one;' >a/m.cc; echo 'int two;' >m.cc",
             {{NULL, "$CXX -c m.cc", MADE},
              {NULL, "$CXX -c l/../m.cc", MADE},
              {NULL, "$CXX -c $PWD/l/../m.cc", MADE}}},
            {"a name like an option",
             "echo 'int dash;' >-m.cc; echo 'int at;' >@m.cc",
             {{NULL, "$CXX -c ./-m.cc", MADE},
              {NULL, "$CXX -c $PWD/-m.cc", MADE},
              {NULL, "$CXX -c ./@m.cc", MADE}}});
}

/* ---- outputs and messages ---- */

Test(tool_compare, dependency_files_are_the_compilers)
{
    COMPARE({"of each kind",
             "printf '#include \"h.h\"\\nint x;\\n' >m.cc; touch h.h; mkdir sub",
             {{NULL, "$CXX -c m.cc -o m.o -MD", MADE},
              {NULL, "$CXX -c m.cc -o n.o -MD", MADE},
              {NULL, "$CXX -c m.cc -o m.o -MD -MF x.d -MT foo -MP", MADE},
              {NULL, "$CXX -c m.cc -o m.o -MMD -MF sub/x.d -MQ '$foo'", MADE},
              {"rm m.o sub/x.d", NULL, TAKEN},
              {NULL, "$CXX -MM m.cc -MT k", MADE}}},
            {"a header that moves",
             "mkdir a b; echo '#pragma once' >b/h.h; printf '#include <h.h>\\nint x;\\n' >m.cc",
             {{NULL, "$CXX -Ia -Ib -MD -MF x.d -c m.cc -o m.o", MADE},
              {"mv b/h.h a", NULL, MADE},
              {"mv a/h.h b", NULL, TAKEN}}});
}

Test(tool_compare, messages_and_locales)
{
    COMPARE({"warnings",
             "echo 'int f() { int unused; char c = 1000; }' >m.cc",
             {{NULL, "LC_ALL=C $CXX -Wall -c m.cc", MADE},
              {NULL, NULL, TAKEN},
              {NULL, "LC_ALL=C.UTF-8 $CXX -Wall -c m.cc", MADE},
              {NULL, NULL, TAKEN},
              {NULL, "LC_ALL=C $CXX -Wall -c m.cc", TAKEN},
              {"rm m.o", "LC_ALL=C $CXX -Wall -Werror -c m.cc", MADE}}},
            {"errors",
             "echo 'int f() { return nope; }' >m.cc",
             {{NULL, "$CXX -c m.cc", MADE}, {NULL, NULL, TAKEN}}},
            {"errors that leave a file of before",
             "echo 'int f() { return none; }' >m.cc; echo old >m.o",
             {{NULL, "$CXX -c m.cc", MADE}, {NULL, NULL, TAKEN}}},
            {"nothing printed",
             "echo 'int f() { return 0; }' >m.cc",
             {{NULL, "LC_ALL=C $CXX -c m.cc", MADE},
              {NULL, "LC_ALL=C.UTF-8 $CXX -c m.cc", TAKEN},
              {NULL, "LANG=de_DE.UTF-8 TERM=dumb COLUMNS=70 $CXX -c m.cc 2>&1", TAKEN}}},
            {"a message that names the output",
             "echo 'int main() {}' >m.cc; echo 'PHDRS { t PT_LOAD FLAGS(7); } SECTIONS { .text : { "
             "*(.text) } :t }' >s.ld",
             {{NULL, "$CXX -nostdlib -T s.ld m.cc -o first", MADE},
              {NULL, "$CXX -nostdlib -T s.ld m.cc -o other", MADE},
              {NULL, NULL, TAKEN}}});
}

/* ---- other inputs ---- */

Test(tool_compare, inputs_of_other_kinds)
{
    COMPARE({".incbin",
             "echo AAAA >d.bin; printf '__asm__(\".data\\\\n.incbin \\\\\"d.bin\\\\\"\\\\n\");\\n' "
             ">m.c",
             {{NULL, "$CC -c m.c", MADE}, {"echo BBBB >d.bin", NULL, MADE}, {NULL, NULL, TAKEN}}},
            {"__has_include",
             "printf '#if __has_include(\"n.h\")\\nint x = 1;\\n#endif\\nint y;\\n' >m.cc",
             {{NULL, "$CXX -c m.cc", MADE}, {"touch n.h", NULL, MADE}, {"rm n.h", NULL, TAKEN}}},
            {"#include_next",
             "mkdir a b; echo '#include_next <h.h>' >a/h.h; echo '#define H 2' >b/h.h; "
             "printf '#include <h.h>\\nint x = H;\\n' >m.cc",
             {{NULL, "$CXX -Ia -Ib -c m.cc", MADE}, {"echo '#define H 3' >b/h.h", NULL, MADE}}},
            {"a folder by link, and what is above it",
             "mkdir -p a/x b/x; echo '#define H 1' >a/h.h; echo '#define H 2' >b/h.h; ln -s a/x l; "
             "printf '#include \"l/../h.h\"\\nint x = H;\\n' >m.cc",
             {{NULL, "$CXX -c m.cc", MADE}, {"rm l; ln -s b/x l", NULL, MADE}}},
            {"an edit that keeps size and time",
             "echo '#define H 1' >h.h; printf '#include \"h.h\"\\nint x = H;\\n' >m.cc",
             {{NULL, "$CXX -c m.cc", MADE},
              {"touch -r h.h t; echo '#define H 2' >h.h; touch -r t h.h", NULL, MADE}}},
            {"a library that another one needs, which the loader's list has",
             "echo 'int f() { return 1; }' >f.cc; g++ -shared -fPIC f.cc -o libf.so "
             "-Wl,--no-as-needed -l:libresolv.so.2; "
             "echo 'int f(); int main() { return f(); }' >m.cc",
             {{NULL, "$CXX m.cc -L. -lf -o m", MADE}, {NULL, NULL, TAKEN}}},
            {"an archive that wins",
             "mkdir a b; echo 'int f() { return 1; }' >f.cc; g++ -c f.cc; ar rcs b/libf.a f.o; "
             "echo 'int f(); int main() { return f(); }' >m.cc",
             {{NULL, "$CXX m.cc -La -Lb -lf -o m", MADE},
              {"echo 'int f() { return 2; }' >f.cc; g++ -c f.cc; ar rcs a/libf.a f.o", NULL, MADE},
              {"rm a/libf.a", NULL, TAKEN}}});
}

Test(tool_compare, what_the_command_line_says)
{
    COMPARE({"macros and their blanks",
             "printf '#define S(x) #x\\n#define T(x) S(x)\\nconst char *t = T(V);\\n' >m.cc",
             {{NULL, "$CXX -c '-DV=a b' m.cc", MADE},
              {NULL, "$CXX -c '-DV=a  b' m.cc", MADE},
              {NULL, "$CXX -c -D 'V=a b' m.cc", TAKEN},
              {NULL, "$CXX -w -c -DV=1 -UV -DV=2 m.cc", MADE},
              {NULL, "$CXX -w -c -DV=2 -UV m.cc", MADE}}},
            {"folders that are not there, and a warning of them",
             "echo 'int x;' >m.cc",
             {{NULL, "$CXX -Wmissing-include-dirs -Inone -c m.cc", MADE},
              {NULL, "$CXX -Wmissing-include-dirs -Iother -c m.cc", MADE},
              {NULL, "$CXX -Inone -c m.cc", MADE},
              {NULL, "$CXX -Iother -c m.cc", TAKEN}}},
            {"several sources",
             "echo 'int x;' >m.cc; echo 'int y;' >n.cc",
             {{NULL, "$CXX -c m.cc n.cc", MADE},
              {NULL, "$CXX -c n.cc m.cc", MADE},
              {"rm m.o", NULL, TAKEN}}},
            {"a folder for outputs that is not there",
             "echo 'int x;' >m.cc",
             {{NULL, "$CXX -c m.cc -o none/m.o", REAL}, {"mkdir none", NULL, REAL}}},
            {"the name of the source, where it shows",
             "echo 'const char *f = __FILE__;' | tee m.cc >n.cc",
             {{NULL, "$CXX -c m.cc -o x.o", MADE}, {NULL, "$CXX -c n.cc -o x.o", MADE}}},
            {"a recorded command",
             "echo 'int x;' >m.cc",
             {{NULL, "$CXX -frecord-gcc-switches -c m.cc -o first.o", MADE},
              {NULL, "$CXX -frecord-gcc-switches -c m.cc -o other.o", TAKEN},
              {NULL, "$CXX -frecord-gcc-switches -DX -c m.cc -o other.o", MADE}}},
            {"a name for the loader, as of the output",
             "echo 'int x;' >m.cc",
             {{NULL, "$CXX -shared -fPIC -Wl,-soname,first.so m.cc -o first.so", MADE},
              {NULL, "$CXX -shared -fPIC -Wl,-soname,first.so m.cc -o other.so", MADE},
              {NULL, NULL, TAKEN}}},
            {"permissions",
             "echo 'int main() {}' >m.cc",
             {{NULL, "umask 022; $CXX m.cc -o m", MADE},
              {"rm m", "umask 077; $CXX m.cc -o m", TAKEN},
              {"rm m; umask 022; touch m", "umask 077; $CXX m.cc -o m", REAL}}});
}

Test(tool_compare, the_compilers_own_parts)
{
    COMPARE({"an assembler on PATH",
             "mkdir bin; echo 'int x;' >m.c",
             {{NULL, "PATH=$PWD/bin:$PATH $CC -c m.c", MADE},
              {"cp /usr/bin/as bin; echo >>bin/as", NULL, MADE},
              {NULL, NULL, TAKEN},
              {"rm bin/as", NULL, TAKEN}}},
            {"one by -B",
             "mkdir bin; echo 'int x;' >m.c",
             {{NULL, "$CC -Bbin/ -c m.c", MADE},
              {"cp /usr/bin/as bin; echo >>bin/as", NULL, MADE},
              {"rm bin/as", NULL, TAKEN}}},
            {"libraries by the environment",
             "mkdir a b; echo 'int f() { return 1; }' >f.cc; g++ -c f.cc; ar rcs a/libf.a f.o; "
             "echo 'int f() { return 2; }' >f.cc; g++ -c f.cc; ar rcs b/libf.a f.o; "
             "echo 'int f(); int main() { return f(); }' >m.cc",
             {{NULL, "LIBRARY_PATH=a $CXX m.cc -lf -o m", MADE},
              {NULL, "LIBRARY_PATH=b $CXX m.cc -lf -o m", MADE},
              {NULL, "LIBRARY_PATH=a $CXX m.cc -lf -o m", TAKEN}}},
            {"this processor",
             "echo 'int f(int x) { return x * 3; }' >m.c",
             {{NULL, "$CC -O3 -march=native -c m.c", MADE}, {NULL, NULL, TAKEN}}});
}

/* With -Winvalid-pch the compiler warns of a stub; -Werror makes that an error. */
Test(tool_compare, a_stub_for_a_precompiled_header_breaks_no_build)
{
    static const char header[] = GXX "-x c++-header $PCH/p.h -o $PCH/p.h.gch";
    struct lab lab;
    char *out;
    if (!lab_up(&lab))
        return;
    char *pch = path_join(lab.d.dir, "torchinductor_me/precompiled_headers");
    setenv("PCH", pch, 1);
    free(pch);
    cr_assert_eq(sh(&lab, NULL, "mkdir -p $PCH; echo '#include <vector>' >$PCH/p.h"), 0);
    write_text(&lab, "torchinductor_me/precompiled_headers/a.cc",
               "#include \"p.h\"\nstd::vector<int> v;\n");
    cr_assert_eq(sh(&lab, NULL,
                    "%s && rm $PCH/p.h.gch* && %s && head -c 13 $PCH/p.h.gch | grep -q stub",
                    header, header),
                 0);
    cr_assert_eq(sh(&lab, &out, "cd $PCH; " GXX "-Winvalid-pch -Werror -c a.cc"), 0, "%s", out);
    free(out);
    cr_assert_eq(sh(&lab, &out,
                    "cd $PCH; rm p.h.gch*; mkdir b; %s && mv p.h.gch b/ && " GXX
                    "-Winvalid-pch -Werror -Ib -I. -c a.cc",
                    header),
                 0, "%s", out);
    free(out);
    cr_assert_eq(sh(&lab, &out,
                    "cd $PCH; rm -r b; for i in 1 2; do rm -f p.h.gch*; " GXX
                    "-Winvalid-pch -x c++-header p.h -o $PCH/p.h.gch; done; "
                    "g++ -Winvalid-pch -Werror -c a.cc"),
                 0, "%s", out);
    free(out);
    lab_down(&lab);
}

/* Its users may do without warm, and nothing on the maker's command line says that they will mind. */
Test(tool_compare, no_stub_stands_where_other_programs_make_headers)
{
    struct lab lab;
    char *out;
    if (!lab_up(&lab))
        return;
    write_text(&lab, "p.h", "#include <vector>\n");
    write_text(&lab, "a.cc", "#include \"p.h\"\nstd::vector<int> v;\n");
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(sh(&lab, &out,
                        "rm -f p.h.gch*; " GXX "-x c++-header p.h -o p.h.gch && "
                        "g++ -Winvalid-pch -Werror -c a.cc"),
                     0, "run %d: %s", i, out);
        free(out);
    }
    lab_down(&lab);
}

/* ---- clang ---- */

Test(tool_compare, clang_is_as_by_itself)
{
    if (!has_compiler("clang"))
        return;
    COMPARE(
        {"a macro of the command line",
         "echo 'const char *t = STAMP;' >a.c",
         {{NULL, "$CLANG -c a.c -DSTAMP=__TIME__", CLOCK}, {NULL, NULL, CLOCK}}},
        {"pasted",
         "printf '" PASTE "const char *t = X(__TI, ME__);\\n' >a.c",
         {{NULL, "$CLANG -c a.c", CLOCK}, {NULL, NULL, CLOCK}}},
        {"what it measures",
         "echo 'int f;' >a.c",
         {{NULL, "$CLANG -ftime-report -c a.c", CLOCK},
          {NULL, "$CLANG -fproc-stat-report -c a.c", CLOCK},
          {NULL, "CC_PRINT_PROC_STAT=1 $CLANG -c a.c", CLOCK}}},
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
          {"cp --remove-destination a/h.h b/h.h; touch -d 2020-01-01 b/h.h", NULL, TAKEN}}},
        {"debug information by the compiler's own options",
         "echo 'int f;' >a.c",
         {{NULL, "$CLANG -Xclang -debug-info-kind=limited -c a.c", REAL},
          {NULL, "$CLANG -emit-ast -c a.c", REAL},
          {NULL, "$CLANG -frecord-command-line -c a.c -o A.o", REAL},
          {NULL, "$CLANG -g -grecord-command-line -c a.c -o A.o", REAL}}},
        {"a recorded command, which has the name of the output",
         "echo 'int x;' >a.c",
         {{NULL, "$CLANG -frecord-gcc-switches -c a.c -o a", REAL},
          {NULL, "$CLANG -frecord-gcc-switches -c a.c -o b", REAL},
          {NULL, "$CLANG -g -grecord-gcc-switches -c a.c -o b", REAL}}},
        {"options from a file",
         "echo 'int f = V;' >a.c; echo -DV=1 >c.cfg",
         {{NULL, "$CLANG --config $PWD/c.cfg -c a.c", REAL}, {"echo -DV=2 >c.cfg", NULL, REAL}}},
        {"a precompiled header whose source was touched",
         "echo '#define V 1' >p.h; echo 'int x = V;' >a.c; clang -x c-header p.h -o p.h.pch",
         {{NULL, "$CLANG -include p.h -c a.c", REAL}, {"touch -d 2001-01-01 p.h", NULL, REAL}}},
        {"lines in assembler",
         "mkdir p q; printf '.file 1 \"a.c\"\n.text\nf:\n.loc 1 1 0\nret\n' | tee p/m.s >q/m.s",
         STEPS_IN_TWO("$CLANG -c m.s", MADE)});
}

/* As CMake compiles. */
Test(tool_compare, a_file_of_dependencies_of_clang_is_written_for_the_folder)
{
#define CLANG_MD "$CLANG -I$P/inc -MD -MT m.o -MF m.d -o $P/b/m.o -c $P/src/m.cc"
    if (!has_compiler("clang"))
        return;
    COMPARE({"a project in another folder", PROJECT("#include <stdio.h>\\nint g() { return H; }"),
             IN_BOTH(CLANG_MD, TAKEN)},
            {"targets by their whole names", PROJECT("#include <stddef.h>\\nint g() { return H; }"),
             IN_BOTH("$CLANG -I$P/inc -MMD -MP -MQ $P/b/m.o -MT $P/b/n.o -MF m.d -o $P/b/m.o -c "
                     "$P/src/m.cc",
                     TAKEN)},
            {"a working folder", PROJECT("int f() { return H; }"),
             IN_BOTH("$CLANG -I../inc -MD -MF m.d -o m.o -c ../src/m.cc", TAKEN)},
            {"debug information", PROJECT("int f() { return H; }"), IN_BOTH(CLANG_MD " -g", MADE)},
            {"its name", PROJECT("const char *f() { return __FILE__; }"), IN_BOTH(CLANG_MD, MADE)});
}
