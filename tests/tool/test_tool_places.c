/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of a command's places count, each compared with gcc and g++ at that moment: the spelling of a folder to
 * search, the folder of the source, the working folder, a home.
 */
#include <criterion/criterion.h>

#include "tests/support/tool.h"
#include "tests/support/tool_compare.h"

/* A source in p and in q, and a folder of headers with a second name. */
#define LINKED(header, source)                                                                     \
    "mkdir -p p q/deep one-1.0; ln -s one-1.0 one; printf '" header "\\n' >one/h.h; "              \
    "printf '#include \"h.h\"\\n" source "\\n' | tee q/deep/m.cc >p/m.cc"
#define AS(folder) "cd p && $CXX -I${PWD%/p}/" folder " -O1 -c m.cc -o m.o"
#define ELSEWHERE(folder) "cd q/deep && $CXX -I${PWD%/q/deep}/" folder " -O1 -c m.cc -o m.o"

Test(tool_places, the_spelling_of_a_folder_to_search_does_not_count)
{
    COMPARE({"through a link, and otherwise",
             LINKED("#define H 1", "int f() { return H; }"),
             {{NULL, AS("one"), MADE},
              {NULL, AS("one-1.0"), TAKEN},
              {NULL, AS(".//p/../one"), TAKEN},
              {NULL, ELSEWHERE("one-1.0"), TAKEN},
              {"echo '#define H 2' >one/h.h", NULL, MADE},
              {NULL, AS("one"), TAKEN}}},
            {"in messages",
             LINKED("int g() { int unused; return 1; }", "int f() { return g(); }"),
             {{NULL, AS("one") " -Wall", MADE},
              {NULL, AS("one-1.0") " -Wall", TAKEN},
              {NULL, AS("./one") " -Wall", TAKEN}}},
            {"in files of dependencies",
             LINKED("#define H 1", "int f() { return H; }"),
             {{NULL, AS("one") " -MD -MP -MF m.d", MADE},
              {NULL, AS("one-1.0") " -MD -MP -MF m.d", TAKEN},
              {NULL, AS(".//p/../one") " -MD -MP -MF m.d", TAKEN}}},
            {"of system headers",
             LINKED("#define H 1", "int f() { return H; }"),
             {{NULL, "cd p && $CXX -isystem ${PWD%/p}/one -c m.cc -o m.o", MADE},
              {NULL, "cd p && $CXX -isystem ${PWD%/p}/one-1.0 -c m.cc -o m.o", TAKEN}}});
}

Test(tool_places, the_spelling_of_a_folder_to_search_counts_where_it_shows)
{
    COMPARE({"a name in a header",
             LINKED("inline const char *here() { return __FILE__; }",
                    "const char *f() { return here(); }"),
             {{NULL, AS("one"), MADE},
              {NULL, AS("one-1.0"), MADE},
              {NULL, AS("./one"), MADE},
              {NULL, AS("one"), TAKEN}}},
            {"a name in a header, whatever the folder of the source",
             LINKED("inline const char *here() { return __FILE__; }",
                    "const char *f() { return here(); }"),
             {{NULL, AS("one") " -MMD -MF m.d", MADE},
              {NULL, AS("one-1.0") " -MMD -MF m.d", MADE},
              {NULL, ELSEWHERE("one") " -MMD -MF m.d", TAKEN},
              {NULL, ELSEWHERE("one-1.0") " -MMD -MF m.d", TAKEN}}},
            {"the length of a name",
             LINKED("constexpr int n(const char *s) { return *s ? 1 + n(s + 1) : 0; }\\n"
                    "enum { N = n(__FILE__) };",
                    "int f() { return N; }"),
             {{NULL, AS("one"), MADE}, {NULL, AS("one-1.0"), MADE}, {NULL, AS("one"), TAKEN}}},
            {"debug information",
             LINKED("inline int g() { return 1; }", "int f() { return g(); }"),
             {{NULL, AS("one") " -g", MADE}, {NULL, AS("one-1.0") " -g", MADE}}},
            {"a macro of the command",
             LINKED("#define H 1", "const char *f() { return R; }"),
             {{NULL, AS("one") " -DR='\"'$PWD/one'\"'", MADE},
              {NULL, AS("one-1.0") " -DR='\"'$PWD/one'\"'", MADE}}});
}

Test(tool_places, where_a_folder_to_search_leads_counts)
{
    COMPARE(
        {"a link that leads elsewhere",
         LINKED("#define H 1", "int f() { return H; }") "; cp -r one-1.0 two",
         {{NULL, AS("one"), MADE},
          {"ln -sfn two one; echo '#define H 2' >one-1.0/h.h", NULL, MADE},
          {NULL, AS("two"), TAKEN},
          {NULL, AS("one-1.0"), MADE}}},
        {"two names of one folder, which the compiler searches once",
         LINKED(
             "#define H 1\\n#if __has_include_next(<h.h>)\\n#define N 2\\n#endif",
             "int f() { return N + 0; }\\n#ifndef N\\n#define N 7\\n#endif") ";"
                                                                             "sed -i 's/N + 0/H/' "
                                                                             "p/m.cc; echo 'int n "
                                                                             "= N;' >>p/m.cc",
         {{NULL, AS("one") " -I${PWD%/p}/one-1.0", MADE},
          {"rm one; cp -r one-1.0 one", NULL, MADE}}});
}

/* As FlashInfer compiles files of its package, from a folder in the user's home. */
Test(tool_places, the_working_folder_does_not_count_where_only_that_of_the_source_shows)
{
#define PACKAGE                                                                                    \
    "mkdir -p lib one/b two/deeper/b; printf '#define CHECK(x) ((x) ? 0 : fail(__FILE__))\\n"      \
    "int fail(const char *);\\n' >lib/h.h; printf '#include \"h.h\"\\nint f(int x) { return "      \
    "CHECK(x); }\\n' >lib/m.cc"
#define IN(home, option)                                                                           \
    "T=$PWD; cd " home "/b && $CXX -c $T/lib/m.cc -MMD -MF $T/" home "/b/m.d -o $T/" home          \
    "/b/m.o" option
    COMPARE({"a check",
             PACKAGE,
             {{NULL, IN("one", ""), MADE},
              {NULL, IN("two/deeper", ""), TAKEN},
              {"cp -r lib lib2",
               "T=$PWD; cd two/deeper/b && $CXX -c $T/lib2/m.cc -MMD -MF $T/two/deeper/b/m.d -o "
               "$T/two/deeper/b/m.o",
               MADE},
              {"echo '// changed' >>lib/h.h", IN("one", ""), MADE}}},
            {"both show",
             PACKAGE,
             {{NULL, IN("one", " -DR='\"'$T/one/b'\"'"), MADE},
              {NULL, IN("two/deeper", " -DR='\"'$T/two/deeper/b'\"'"), MADE},
              {NULL, IN("one", " -g"), MADE},
              {NULL, IN("two/deeper", " -g"), MADE}}});
}

/* As TVM FFI makes them: a check in a header names the source, whose folder is in the user's home. */
Test(tool_places, where_a_module_of_tvm_ffi_lies_counts_where_its_text_asks)
{
#define MODULE(text)                                                                               \
    "mkdir -p inc; for d in one two/deeper; do mkdir -p $d/.cache/tvm-ffi/m; printf '" text        \
    "\\n' >$d/.cache/tvm-ffi/m/main.cpp; done; printf 'void fail(const char *);\\n"                \
    "#define CHECK(x) ((x) ? (void)0 : fail(__FILE__))\\n' >inc/h.h"
#define IN_HOME(home)                                                                              \
    "T=$PWD; cd " home "/.cache/tvm-ffi/m && $CXX -O2 -fPIC -I$T/inc -MMD -MF main.d -c "          \
    "$T/" home "/.cache/tvm-ffi/m/main.cpp -o main.o"
    COMPARE(
        {"a name from the user's own hand",
         MODULE("const char *f() { return __FILE__; }"),
         {{NULL, IN_HOME("one"), MADE}, {NULL, IN_HOME("two/deeper"), MADE}, {NULL, NULL, TAKEN}}});
}

Test(tool_places, a_check_of_a_module_of_tvm_ffi_names_no_home)
{
    struct lab lab;
    char *out;
    if (!lab_up(&lab))
        return;
    cr_assert_eq(sh(&lab, NULL, "%s", MODULE("#include \"h.h\"\\nvoid f(int x) { CHECK(x); }")), 0);
    static const char compile[] =
        "cd %s/.cache/tvm-ffi/m && " GXX
        "-O2 -fPIC -I%s/inc -MMD -MF main.d -c $PWD/main.cpp -o main.o && "
        "grep -q main.cpp main.o && ! grep -q /main.cpp main.o";
    cr_assert_eq(sh(&lab, &out, compile, "one", lab.d.dir), 0, "%s", out);
    free(out);
    expect_told(&lab, "miss", 1);
    cr_assert_eq(sh(&lab, &out, compile, "two/deeper", lab.d.dir), 0, "%s", out);
    free(out);
    expect_told(&lab, "hit", 1);
    lab_down(&lab);
}

/* The includer is reached from two places: which of them it is read from must not be mixed up. */
Test(tool_places, a_file_that_two_places_name_is_the_one_that_the_compiler_opens)
{
#define NESTED                                                                                     \
    "mkdir -p w/src q/src; printf '#include \"src/h.h\"\\nint x = H;\\n' | tee q/src/a.cc "        \
    ">w/src/a.cc; echo '#define H 1' | tee q/src/h.h >w/src/h.h"
    COMPARE({"by a folder to search above the source",
             NESTED,
             {{NULL, "T=$PWD; cd w/src && $CXX -I$T/w -c $T/w/src/a.cc -o a.o", MADE},
              {"echo '#define H 2' >w/src/h.h",
               "T=$PWD; cd q/src && $CXX -I$T/w -c $T/q/src/a.cc -o a.o", MADE}}},
            {"by a variable",
             NESTED,
             {{NULL, "T=$PWD; cd w/src && CPATH=$T/no:$T/w $CXX -c $T/w/src/a.cc -o a.o", MADE},
              {"echo '#define H 2' >w/src/h.h",
               "T=$PWD; cd q/src && CPATH=$T/no:$T/w $CXX -c $T/q/src/a.cc -o a.o", MADE}}});
}

/* A header with something that warns, in a folder with names of three lengths. */
#define SHORTENED                                                                                  \
    "mkdir -p p d/real long_name_of_a_folder; ln -s $PWD/d/real long_name_of_a_folder/link; "      \
    "ln -s d/real s; echo '__attribute__((deprecated)) int old();' >s/h.h; "                       \
    "printf '#include <h.h>\\nint f() { return old(); }\\n' >p/m.cc"
#define OF(option, folder) "cd p && $CXX " option " ${PWD%/p}/" folder " m.cc -o m.o"

Test(tool_places, names_that_gcc_shortens_count)
{
    COMPARE({"in messages",
             SHORTENED,
             {{NULL, OF("-c -isystem", "long_name_of_a_folder/link"), MADE},
              {NULL, OF("-c -isystem", "s"), MADE},
              {NULL, OF("-c -isystem", "long_name_of_a_folder/link"), TAKEN}}},
            {"in messages, of a folder that is searched last",
             SHORTENED,
             {{NULL, OF("-c -idirafter", "long_name_of_a_folder/link"), MADE},
              {NULL, OF("-c -idirafter", "s"), MADE},
              {NULL, OF("-c -idirafter", "s"), TAKEN}}},
            {"in preprocessed texts",
             SHORTENED,
             {{NULL, OF("-E -isystem", "long_name_of_a_folder/link"), MADE},
              {NULL, OF("-E -isystem", "s"), MADE},
              {NULL, OF("-E -isystem", "s"), TAKEN}}},
            {"of a folder that is named from the working folder",
             "mkdir -p q/a/b/c s/1/2; touch s/h.h; echo '#include \"../../h.h\"' >s/1/2/n.h; "
             "for d in q q/a/b/c; do cp -a s $d/s; echo '#include <1/2/n.h>' >$d/m.cc; done",
             {{NULL, "cd q && $CXX -isystem s -c m.cc -MD -MF m.d", MADE},
              {NULL, "cd q/a/b/c && $CXX -isystem s -c m.cc -MD -MF m.d", TAKEN}}});
}

/* A folder of system headers in p and in q, with a link to a folder that the header's name does not show. */
#define LINK_INSIDE                                                                                \
    "mkdir -p x/y x/z p/long_name_of_a_folder q/long_name_of_a_folder; "                           \
    "echo 'enum { H = 1 }; __attribute__((deprecated)) int old();' >x/y/h.h; "                     \
    "echo 'enum { H = 2 }; __attribute__((deprecated)) int old();' >x/z/h.h; "                     \
    "printf '#include <in/h.h>\\nint x = H;\\n#ifdef OLD\\nint f() { return old(); "               \
    "}\\n#endif\\n' | "                                                                            \
    "tee p/m.cc >q/m.cc; ln -s $PWD/x/y p/long_name_of_a_folder/in; "                              \
    "ln -s $PWD/x/z q/long_name_of_a_folder/in"
#define INSIDE(option) "$CXX -isystem $PWD/long_name_of_a_folder -c $PWD/m.cc -o m.o" option
#define INSIDE_HERE(option) "$CXX -isystem long_name_of_a_folder -c m.cc -o m.o" option

/* GCC opens the header by its name without links, so the trace alone would show the same file for both. */
Test(tool_places, where_a_link_below_a_system_folder_leads_counts)
{
    COMPARE({"in two folders",
             LINK_INSIDE,
             {{NULL, "cd p && " INSIDE(""), MADE},
              {NULL, "cd q && " INSIDE(""), MADE},
              {NULL, "cd p && " INSIDE(""), TAKEN},
              {"ln -sfn $PWD/x/y q/long_name_of_a_folder/in", "cd q && " INSIDE(""), TAKEN}}},
            {"a link that leads elsewhere later",
             LINK_INSIDE,
             {{NULL, "cd p && " INSIDE(" -O1"), MADE},
              {"ln -sfn $PWD/x/z p/long_name_of_a_folder/in", NULL, MADE},
              {"ln -sfn $PWD/x/y p/long_name_of_a_folder/in", NULL, TAKEN}}},
            {"of a folder that is named from the working folder",
             LINK_INSIDE,
             {{NULL, "cd p && " INSIDE_HERE(""), MADE},
              {NULL, "cd q && " INSIDE_HERE(""), MADE},
              {"ln -sfn $PWD/x/z p/long_name_of_a_folder/in", "cd p && " INSIDE_HERE(""), TAKEN}}},
            {"in messages",
             LINK_INSIDE "; cp x/y/h.h x/z/h.h",
             {{NULL, "cd p && " INSIDE(" -DOLD"), MADE},
              {NULL, "cd q && " INSIDE(" -DOLD"), MADE},
              {"rm p/long_name_of_a_folder/in; cp -a x/y p/long_name_of_a_folder/in",
               "cd p && " INSIDE(" -DOLD"), MADE}}},
            {"in files of dependencies",
             LINK_INSIDE "; cp x/y/h.h x/z/h.h",
             {{NULL, "cd p && " INSIDE(" -MD -MF m.d"), MADE},
              {NULL, "cd q && " INSIDE(" -MD -MF m.d"), MADE},
              {"rm p/long_name_of_a_folder/in; cp -a x/y p/long_name_of_a_folder/in",
               "cd p && " INSIDE(" -MD -MF m.d"), MADE}}});
}

/* The same link is shorter than the header's name in one folder, and longer in the other. */
Test(tool_places, which_name_gcc_shows_counts)
{
#define SHORTER_IN_ONE                                                                             \
    "mkdir -p a_name_of_20_letters p/a_folder_with_a_name_that_is_long/inc q/inc; "                \
    "echo '__attribute__((deprecated)) int old();' >a_name_of_20_letters/h.h; "                    \
    "for d in p/*long q; do printf '#include <in/h.h>\\nint f() { return old(); }\\n' >$d/m.cc; "  \
    "ln -s $PWD/a_name_of_20_letters $d/inc/in; done"
    COMPARE({"in messages",
             SHORTER_IN_ONE,
             {{NULL, "cd p/*long && $CXX -isystem $PWD/inc -c $PWD/m.cc -o m.o", MADE},
              {NULL, "cd q && $CXX -isystem $PWD/inc -c $PWD/m.cc -o m.o", MADE}}},
            {"in files of dependencies",
             SHORTER_IN_ONE,
             {{NULL, "cd p/*long && $CXX -w -isystem $PWD/inc -c $PWD/m.cc -MD -MF m.d", MADE},
              {NULL, "cd q && $CXX -w -isystem $PWD/inc -c $PWD/m.cc -MD -MF m.d", MADE}}},
            {"in preprocessed texts",
             SHORTER_IN_ONE,
             {{NULL, "cd p/*long && $CXX -isystem $PWD/inc -E $PWD/m.cc -o m.i", MADE},
              {NULL, "cd q && $CXX -isystem $PWD/inc -E $PWD/m.cc -o m.i", MADE}}});
}

Test(tool_places, system_headers_of_a_project_hit_in_another_folder)
{
#define PROJECT                                                                                    \
    "mkdir -p p/third/sub q/deeper/third/sub; "                                                    \
    "echo '#include \"../h.h\"' | tee p/third/sub/n.h >q/deeper/third/sub/n.h; "                   \
    "echo 'enum { H = 1 };' | tee p/third/h.h >q/deeper/third/h.h; "                               \
    "printf '#include <sub/n.h>\\nint x = H;\\n' | tee p/m.cc >q/deeper/m.cc; "                    \
    "touch -d '10 minutes ago' p/*/*.h q/*/*/*.h"
#define BUILT(option) "$CXX -isystem $PWD/third -c $PWD/m.cc -o $PWD/m.o" option
    COMPARE({"with a file of dependencies",
             PROJECT,
             {{NULL, "cd p && " BUILT(" -MD -MT m.o -MF m.d"), MADE},
              {NULL, "cd q/deeper && " BUILT(" -MD -MT m.o -MF m.d"), TAKEN},
              {"echo 'enum { H = 2 };' >q/deeper/third/h.h", NULL, MADE}}},
            {"of a folder that is named from the working folder",
             PROJECT,
             {{NULL, "cd p && $CXX -isystem third -c m.cc -o m.o", MADE},
              {NULL, "cd q/deeper && $CXX -isystem third -c m.cc -o m.o", TAKEN},
              {NULL, "cd p && $CXX -isystem third -c m.cc -o m.o -MD -MF m.d", MADE},
              {NULL, "cd q/deeper && $CXX -isystem third -c m.cc -o m.o -MD -MF m.d", TAKEN},
              {"echo 'enum { H = 2 };' >q/deeper/third/h.h", NULL, MADE}}});
}

/* A header that includes the next one of its name, if there is one. In p a second folder is the first one, in q a copy. */
#define ONE_OR_TWO                                                                                 \
    "mkdir -p p/inc q/inc; printf '#ifdef SEEN\\nint twice;\\n#endif\\n#define SEEN\\n"            \
    "#if __has_include_next(<h.h>)\\n#include_next <h.h>\\n#endif\\n' | tee p/inc/h.h "            \
    ">q/inc/h.h; "                                                                                 \
    "echo '#include <h.h>' | tee p/m.cc >q/m.cc; ln -s inc p/copy; cp -a q/inc q/copy"
#define SEARCHED "$CXX -I$PWD/inc -I$PWD/copy -c $PWD/m.cc -o m.o"

Test(tool_places, which_folders_are_one_counts)
{
    COMPARE(
        {"two checkouts",
         ONE_OR_TWO,
         {{NULL, "cd p && " SEARCHED, MADE},
          {NULL, "cd q && " SEARCHED, MADE},
          {NULL, "cd p && " SEARCHED, TAKEN}}},
        {"relative folders",
         ONE_OR_TWO,
         {{NULL, "cd p && $CXX -Iinc -Icopy -c m.cc", MADE},
          {NULL, "cd q && $CXX -Iinc -Icopy -c m.cc", MADE}}},
        {"a copy in place of a link",
         ONE_OR_TWO,
         {{NULL, "cd p && " SEARCHED " -O1", MADE},
          {"rm p/copy; cp -a p/inc p/copy", NULL, MADE},
          {"rm -r p/copy; ln -s inc p/copy", NULL, TAKEN}}},
        {"the compiler's own folder",
         "mkdir p q; echo '#include <stddef.h>' | tee p/m.cc >q/m.cc; "
         "ln -s $(gcc -print-file-name=include) p/inc; mkdir q/inc; "
         "cp p/inc/stddef.h q/inc",
         {{NULL, "cd p && $CXX -E -Iinc m.cc", MADE}, {NULL, "cd q && $CXX -E -Iinc m.cc", MADE}}});
}

Test(tool_places, names_count_in_sources_of_any_language)
{
    if (!has_compiler("clang"))
        return;
    COMPARE({"Objective-C",
             "mkdir p q_of_another_length; echo 'int n[sizeof __FILE__];' | tee p/m.m "
             ">q_of_another_length/m.m",
             {{NULL, "cd p && $CLANG -c $PWD/m.m -o m.o", MADE},
              {NULL, "cd q_of_another_length && $CLANG -c $PWD/m.m -o m.o", MADE}}},
            {"OpenCL",
             "mkdir p q_of_another_length; echo '__constant int n = sizeof __FILE__;' | tee p/m.cl "
             ">q_of_another_length/m.cl",
             {{NULL, "cd p && $CLANG -c $PWD/m.cl -o m.o", MADE},
              {NULL, "cd q_of_another_length && $CLANG -c $PWD/m.cl -o m.o", MADE}}});
}

#define ABBA(command)                                                                              \
    {NULL, "cd p && " command, MADE}, {NULL, "cd q/deeper && " command, MADE},                     \
        {NULL, NULL, TAKEN},                                                                       \
    {                                                                                              \
        NULL, "cd p && " command, TAKEN                                                            \
    }
#define ATTT(command)                                                                              \
    {NULL, "cd p && " command, MADE}, {NULL, "cd q/deeper && " command, TAKEN},                    \
        {NULL, NULL, TAKEN},                                                                       \
    {                                                                                              \
        NULL, "cd p && " command, TAKEN                                                            \
    }
#define BOTH(path, text)                                                                           \
    "for d in p q/deeper; do mkdir -p $d/one $d/two; printf '" text "\\n' >$d/" path "; done; "

Test(tool_places, macros_of_a_file_before_the_source_count)
{
    COMPARE({"another file",
             BOTH("m.cc", "int x = H;")
                 BOTH("one/h.h", "#define H 1") "echo '#define H 2' >p/one/h.h",
             {ABBA("$CXX -imacros $PWD/one/h.h -c $PWD/m.cc -o m.o")}},
            {"found in a folder",
             BOTH("m.cc", "int x = H;") BOTH("one/h.h", "#define H 1")
                 BOTH("two/h.h", "#define H 3") "rm p/one/h.h",
             {ABBA("$CXX -imacros h.h -I$PWD/one -I$PWD/two -c $PWD/m.cc -o m.o")}},
            {"the same",
             BOTH("m.cc", "int x = H;") BOTH("one/h.h", "#define H 5") ":",
             {ATTT("$CXX -imacros $PWD/one/h.h -c $PWD/m.cc -o m.o -MD -MF m.d")}},
            {"its own name",
             BOTH("m.cc", "const char *x = H;") BOTH("one/h.h", "#define H __FILE__") ":",
             {ABBA("$CXX -imacros $PWD/one/h.h -c $PWD/m.cc -o m.o")}},
            {"its own name, from here",
             BOTH("m.cc", "const char *x = H;") BOTH("one/h.h", "#define H __FILE__") ":",
             {ATTT("$CXX -imacros one/h.h -c m.cc -o m.o")}},
            {"absent in the working folder",
             BOTH("m.cc", "int x = H;") BOTH("one/h.h", "#define H 7") "echo '#define H 8' >p/h.h",
             {ABBA("$CXX -imacros h.h -I$PWD/one -c $PWD/m.cc -o m.o")}});
}

Test(tool_places, which_files_are_read_once_counts)
{
#define TWICE                                                                                      \
    BOTH("m.cc", "#include \"one/h.h\"\\n#include \"two/h.h\"\\nint x = __COUNTER__;")             \
    BOTH("one/h.h", "#pragma once\\nenum { N = __COUNTER__ };\\n#undef N\\n#define N M")
    COMPARE(
        {"a link and a copy",
         TWICE "ln -s ../one/h.h p/two/h.h; sed s/N/M/ q/deeper/one/h.h >q/deeper/two/h.h",
         {ABBA("$CXX -c $PWD/m.cc -o m.o")}},
        {"a link and an equal copy of another time",
         BOTH("m.cc", "#include \"one/h.h\"\\n#include \"two/h.h\"\\nint y = __COUNTER__;") BOTH(
             "one/h.h",
             "#pragma once\\nint f(int = __COUNTER__);") "ln -s ../one/h.h p/two/h.h; cp "
                                                         "q/deeper/one/h.h q/deeper/two/h.h; touch "
                                                         "-d '5 minutes ago' q/deeper/two/h.h",
         {ABBA("$CXX -c $PWD/m.cc -o m.o")}},
        {"a linked folder and an equal copy of another time",
         BOTH("m.cc", "#include \"one/h.h\"\\n#include \"two/h.h\"\\nint z = __COUNTER__;") BOTH(
             "one/h.h",
             "#pragma once\\nint f(int = __COUNTER__);") "rmdir p/two; ln -s one p/two; cp "
                                                         "q/deeper/one/h.h q/deeper/two/h.h; touch "
                                                         "-d '5 minutes ago' q/deeper/two/h.h",
         {ABBA("$CXX -c m.cc -o m.o")}},
        {"a linked folder and an equal copy, searched",
         BOTH("m.cc", "#include \"one/h.h\"\\n#include <h.h>\\nint v = __COUNTER__;") BOTH(
             "one/h.h",
             "#pragma once\\nint f(int = __COUNTER__);") "rmdir p/two; ln -s one p/two; cp "
                                                         "q/deeper/one/h.h q/deeper/two/h.h; touch "
                                                         "-d '5 minutes ago' q/deeper/two/h.h",
         {ABBA("$CXX -isystem $PWD/two -c $PWD/m.cc -o m.o")}});
}

Test(tool_places, folders_to_search_for_quoted_names_count)
{
    COMPARE(
        {"other headers",
         BOTH("m.cc", "#include \"h.h\"\\nint x = H;")
             BOTH("one/h.h", "#define H 1") "echo '#define H 2' >p/one/h.h",
         {ABBA("$CXX -iquote $PWD/one -c $PWD/m.cc -o m.o")}},
        {"the same, with messages",
         BOTH("m.cc", "#include \"h.h\"\\nint f() { return g(); }")
             BOTH("one/h.h", "static int g() { int unused; return 3; }") ":",
         {ATTT("$CXX -Wall -iquote $PWD/one -c $PWD/m.cc -o m.o -MD -MF m.d")}},
        {"a folder that one of them has",
         BOTH("m.cc", "#include \"h.h\"\\nint x = H;") BOTH("one/h.h", "#define H 4")
             BOTH("two/h.h", "#define H 5") "rm -r p/one",
         {ABBA("$CXX -iquote one -iquote two -c m.cc -o m.o")}},
        {"also searched for other names",
         BOTH("m.cc", "#include <h.h>\\n#include \"h.h\"\\nint x = H;") BOTH(
             "one/h.h",
             "#ifdef H\\n#undef H\\n#define H 9\\n#else\\n#define H 6\\n#endif") "rmdir p/two; ln "
                                                                                 "-s one p/two; cp "
                                                                                 "q/deeper/one/h.h "
                                                                                 "q/deeper/two/; "
                                                                                 "sed -i s/9/8/ "
                                                                                 "q/deeper/two/h.h",
         {ABBA("$CXX -iquote $PWD/two -I$PWD/one -c $PWD/m.cc -o m.o")}},
        {"a link that leads elsewhere",
         BOTH("m.cc", "#include \"in/h.h\"\\nint x = H;")
             BOTH("one/h.h", "#define H 10") "sed -i s/10/11/ p/one/h.h; ln -s $PWD/p/one "
                                             "p/two/in; ln -s $PWD/q/deeper/one q/deeper/two/in",
         {ABBA("$CXX -iquote $PWD/two -c $PWD/m.cc -o m.o")}});
}

/* As pyKeOps generates and compiles them. */
Test(tool_places, sources_of_pykeops_hit_in_another_home)
{
#define GENERATED(text)                                                                            \
    "for d in one/.cache/keops2.3/Linux_a two/deeper/.cache/keops2.3/Linux_b_c; do mkdir -p $d; "  \
    "echo 'int f(int x) { return x * 3; }' >$d/f1.cpp; "                                           \
    "printf '\\n#include \"%s/f1.cpp\"\\n" text "\\n' $PWD/$d >$d/m.cpp; done; mkdir w"
#define AT(folder)                                                                                 \
    "T=$PWD; cd $T/" folder "/.. && $CXX -shared -fPIC -O3 -std=c++11 -flto=auto "                 \
    "$T/" folder "/m.cpp -o $T/" folder "/m.so"
#define ONE AT("one/.cache/keops2.3/Linux_a")
#define TWO AT("two/deeper/.cache/keops2.3/Linux_b_c")
    COMPARE({"a source that includes another one by its whole name",
             GENERATED("int g() { return f(2); }"),
             {{NULL, ONE, MADE},
              {NULL, TWO, TAKEN},
              {"echo 'int f(int x) { return x * 5; }' >two/deeper/.cache/keops2.3/Linux_b_c/f1.cpp",
               NULL, MADE},
              {NULL, ONE, TAKEN}}},
            {"a source that shows the folder otherwise",
             GENERATED("const char *g = \"'$PWD/$d'\";"),
             {{NULL, ONE, MADE}, {NULL, TWO, MADE}, {NULL, ONE, TAKEN}}},
            {"the length of a name",
             GENERATED("char g[sizeof __FILE__];"),
             {{NULL, ONE, MADE}, {NULL, TWO, MADE}, {NULL, ONE, TAKEN}}},
            {"another source by a name that is short",
             GENERATED("int g() { return f(4); }") "; sed -i 's|\".*Linux_a|\"|' "
                                                   "one/.cache/keops2.3/Linux_a/m.cpp; mv "
                                                   "one/.cache/keops2.3/Linux_a/f1.cpp "
                                                   "one/.cache/keops2.3/Linux_a/f2.cpp",
             {{NULL, ONE, MADE}, {NULL, TWO, MADE}}});
}

/* As CMake compiles with CMAKE_UNITY_BUILD. */
Test(tool_places, sources_of_unity_builds_hit_in_another_folder)
{
#define UNITY(text)                                                                                \
    "for d in one another/deeper; do mkdir -p $d/src $d/b/CMakeFiles/t.dir/Unity another/src; "    \
    "printf 'int f() { return 1; }\\n" text "\\n' >$d/src/a.cc; "                                  \
    "echo 'int g() { return f(); }' >$d/src/b.cc; "                                                \
    "printf '/* generated by CMake */\\n\\n#include \"%s/src/a.cc\"\\n// NOLINT\\n#include "       \
    "\"%s/src/b.cc\"\\n' $PWD/$d $PWD/$d >$d/b/CMakeFiles/t.dir/Unity/unity_0_cxx.cxx; done; "     \
    "cp one/src/* another/src"
#define UNITY_IN(folder, options)                                                                  \
    "cd " folder "/b && $CXX " options " -MD -MT u.o -MF u.d -o u.o "                              \
    "-c $PWD/CMakeFiles/t.dir/Unity/unity_0_cxx.cxx"
#define UNITY_FILE "another/deeper/b/CMakeFiles/t.dir/Unity/unity_0_cxx.cxx"
#define ANOTHER "another/deeper"
    COMPARE({"an object",
             UNITY(""),
             {{NULL, UNITY_IN("one", ""), MADE},
              {NULL, UNITY_IN(ANOTHER, ""), TAKEN},
              {"echo 'int h;' >>another/deeper/src/b.cc", NULL, MADE},
              {NULL, UNITY_IN("one", ""), TAKEN},
              {"cp one/src/b.cc another/deeper/src/b.cc", UNITY_IN(ANOTHER, "-g"), MADE},
              {NULL, UNITY_IN("one", "-g"), MADE}}},
            {"another source",
             UNITY(""),
             {{NULL, UNITY_IN("one", "-O1"), MADE},
              {"sed -i '4,$d' " UNITY_FILE, UNITY_IN(ANOTHER, "-O1"), MADE},
              {"echo 'int h;' >another/src/b.cc; sed -i 's,/deeper/src/a,/src/b,' " UNITY_FILE,
               NULL, MADE}}},
            {"sources from a folder above",
             UNITY(""),
             {{NULL, UNITY_IN("one", "-O2"), MADE},
              {"echo 'int h;' >>another/src/a.cc; sed -i 's,/deeper/src,/src,' " UNITY_FILE,
               UNITY_IN(ANOTHER, "-O2"), MADE}}},
            {"a name that shows",
             UNITY("extern const char *n; const char *n = __FILE__;"),
             {{NULL, UNITY_IN("one", ""), MADE},
              {NULL, UNITY_IN(ANOTHER, ""), MADE},
              {NULL, NULL, TAKEN}}},
            {"an error",
             UNITY("int x = y;"),
             {{NULL, UNITY_IN("one", ""), MADE}, {NULL, UNITY_IN(ANOTHER, ""), TAKEN}}},
            {"a source that includes such a file",
             UNITY("") "; for d in one another/deeper; do echo '#include "
                       "\"../b/CMakeFiles/t.dir/Unity/unity_0_cxx.cxx\"' >$d/src/m.cc; done",
             {{NULL, "cd one && $CXX -c $PWD/src/m.cc -o m.o", REAL}}});
}

/* As in Bazel's sandbox. */
Test(tool_places, where_a_link_to_a_source_leads_does_not_count)
{
#define LINKED_SOURCE                                                                              \
    "mkdir -p p q/deeper x y; for d in x y; do echo 'int x = 1;' >$d/m.cc; done; "                 \
    "ln -s $PWD/x/m.cc p/m.cc; ln -s $PWD/y/m.cc q/deeper/m.cc"
    COMPARE(
        {"two folders",
         LINKED_SOURCE,
         {{NULL, "cd p && $CXX -MD -MF m.d -c m.cc -o m.o", MADE},
          {NULL, "cd q/deeper && $CXX -MD -MF m.d -c m.cc -o m.o", TAKEN},
          {"echo 'int x = 2;' >y/m.cc", NULL, MADE}}},
        {"a source that leads to the output",
         LINKED_SOURCE
         "; echo 'int y = 4;' >p/m.cpp; echo 'int y = 4;' >q/deeper/m.o; ln -s m.o q/deeper/m.cpp",
         {{NULL, "cd p && $CXX -c m.cpp -o m.o", MADE},
          {NULL, "cd q/deeper && $CXX -c m.cpp -o m.o", REAL}}});
}

/* As setuptools compiles an extension of pybind11, whose headers throw errors with __FILE__. */
Test(tool_places, headers_by_whole_names_that_show_leave_the_working_folder_out)
{
#define EXTENSION(header)                                                                          \
    "mkdir -p lib p/src q/deeper/src; printf 'inline const char *here() { return __FILE__; }\\n"   \
    "#define HERE __FILE__\\n' >lib/h.h; printf '" header                                          \
    "const char *f() { return here(); }\\n' | tee p/src/m.cc >q/deeper/src/m.cc"
    COMPARE({"a header of another folder",
             EXTENSION("#include <h.h>\\n"),
             {{NULL, "T=$PWD; cd p && $CXX -I$T/lib -c src/m.cc -o m.o", MADE},
              {NULL, "T=$PWD; cd q/deeper && $CXX -I$T/lib -c src/m.cc -o m.o", TAKEN},
              {NULL, "T=$PWD; cd q/deeper && $CXX -I$T/lib -c ./src/m.cc -o m.o", TAKEN}}},
            {"its macro",
             EXTENSION("#include <h.h>\\nconst char *g() { return HERE; }\\n"),
             {{NULL, "T=$PWD; cd p && $CXX -I$T/lib -c src/m.cc -o m.o", MADE},
              {NULL, "T=$PWD; cd p && $CXX -I$T/lib -c $PWD/src/m.cc -o m.o", MADE}}},
            {"a header beside the source",
             EXTENSION("#include \"h.h\"\\n") "; cp lib/h.h p/src",
             {{NULL, "cd p && $CXX -c src/m.cc -o m.o", MADE},
              {NULL, "cd p && $CXX -c $PWD/src/m.cc -o m.o", MADE},
              {NULL, "cd p && $CXX -c ./src/m.cc -o m.o", MADE}}},
            {"a header beside the source that is searched, too",
             EXTENSION("#include \"h.h\"\\n") "; cp lib/h.h p/src",
             {{NULL, "cd p && $CXX -I$PWD/src -c src/m.cc -o m.o", MADE},
              {NULL, "cd p && $CXX -I$PWD/src -c $PWD/src/m.cc -o m.o", MADE}}});
}

/* As /home/u, which leads to /mnt/home/u: the kernel tells the working folder's name without links, a build the other. */
Test(tool_places, a_project_below_a_link_hits_in_another_one)
{
#define HOMES                                                                                      \
    "mkdir -p mnt/a mnt/b/deeper; for d in mnt/a mnt/b/deeper; do mkdir -p $d/src $d/inc $d/b; "   \
    "echo '#define H 1' >$d/inc/h.h; printf '#include <h.h>\\nint f() { return H; }\\n' "          \
    ">$d/src/m.cc; done; ln -s mnt/a one; ln -s mnt/b/deeper another"
#define IN_HOMES(command, expected)                                                                \
    {                                                                                              \
        {NULL, "cd one/b && P=${PWD%/b} && " command, MADE},                                       \
        {NULL, "cd another/b && P=${PWD%/b} && " command, expected},                               \
        {NULL, NULL, TAKEN},                                                                       \
        {"echo '#define H 2' >mnt/a/inc/h.h", "cd one/b && P=${PWD%/b} && " command, MADE},        \
        {NULL, "cd another/b && P=${PWD%/b} && " command, TAKEN},                                  \
    }
    COMPARE({"an object", HOMES, IN_HOMES("$CXX -I$P/inc -c $P/src/m.cc -o m.o", TAKEN)},
            {"a file of dependencies", HOMES,
             IN_HOMES("$CXX -I$P/inc -MD -MF $P/b/m.d -c $P/src/m.cc -o $P/b/m.o", TAKEN)},
            {"debug information", HOMES, IN_HOMES("$CXX -g -I$P/inc -c $P/src/m.cc -o m.o", MADE)});
}

/* As CMake compiles below a temporary folder, for pip: nothing of the project lies in the working folder. */
Test(tool_places, a_project_whose_build_lies_elsewhere_hits_in_another_one)
{
#define PROJECTS(header)                                                                           \
    "for d in one/p another/deeper/p; do mkdir -p $d/src $d/inc; "                                 \
    "printf '" header "\\n' >$d/inc/h.h; "                                                         \
    "printf '#include <h.h>\\nint f() { return H; }\\n' >$d/src/m.cc; done; mkdir b1 b2"
#define FROM_ELSEWHERE(b, p, options)                                                              \
    "P=$PWD/" p " && cd " b " && $CXX -I$P/inc " options " -c $P/src/m.cc -o m.o"
#define OTHER "another/deeper/p"
#define NAMED(folder)                                                                              \
    "-MD -MT " folder "$P/m.o -MF $(mkdir -p " folder "$P && echo " folder "$P/m.d)"
    COMPARE({"an object",
             PROJECTS("#define H 1"),
             {{NULL, FROM_ELSEWHERE("b1", "one/p", "-MD -MF m.d"), MADE},
              {NULL, FROM_ELSEWHERE("b2", OTHER, "-MD -MF m.d"), TAKEN},
              {"echo '#define H 2' >" OTHER "/inc/h.h", FROM_ELSEWHERE("b2", OTHER, "-MD -MF m.d"),
               MADE},
              {NULL, FROM_ELSEWHERE("b1", "one/p", "-MD -MF m.d"), TAKEN}}},
            {"objects in folders that have the source's name",
             PROJECTS("#define H 1"),
             {{NULL, FROM_ELSEWHERE("b1", "one/p", NAMED("t.dir")), MADE},
              {NULL, FROM_ELSEWHERE("b2", OTHER, NAMED("t.dir")), TAKEN},
              {"echo '#define H 2' >" OTHER "/inc/h.h", NULL, MADE},
              {NULL, FROM_ELSEWHERE("b1", "one/p", NAMED("t.dir")), TAKEN},
              {NULL, FROM_ELSEWHERE("b1", "one/p", NAMED("u.dir")), MADE},
              {NULL, FROM_ELSEWHERE("b1", "one/p", NAMED("u.dir/x")), MADE}}},
            {"a file that only one of them has",
             PROJECTS("#if __has_include(\"more.h\")\\n#define H 1\\n#else\\n#define H 3\\n#endif"),
             {{NULL, FROM_ELSEWHERE("b1", "one/p", ""), MADE},
              {"touch " OTHER "/inc/more.h", FROM_ELSEWHERE("b2", OTHER, ""), MADE},
              {NULL, FROM_ELSEWHERE("b1", "one/p", ""), TAKEN}}},
            {"a name that shows",
             PROJECTS("#define H __FILE__[sizeof __FILE__ - 8]"),
             {{NULL, FROM_ELSEWHERE("b1", "one/p", ""), MADE},
              {NULL, FROM_ELSEWHERE("b2", OTHER, ""), MADE}}},
            {"a warning",
             PROJECTS("#warning here\\n#define H 1"),
             {{NULL, FROM_ELSEWHERE("b1", "one/p", ""), MADE},
              {NULL, FROM_ELSEWHERE("b2", OTHER, ""), TAKEN}}},
            {"two projects",
             PROJECTS("#define H 1"),
             {{NULL, FROM_ELSEWHERE("b1", "one/p", "-I${P%/one/p}/another/deeper/p/inc"), MADE},
              {"echo '#define H 5' >one/p/inc/h.h",
               FROM_ELSEWHERE("b1", "one/p", "-I${P%/one/p}/another/deeper/p/inc"), MADE},
              {"rm one/p/inc/h.h",
               FROM_ELSEWHERE("b1", "one/p", "-I${P%/one/p}/another/deeper/p/inc"), MADE}}});
}

Test(tool_places, a_generated_source_in_the_working_folder_speaks)
{
#define SPEAKS(text)                                                                               \
    "mkdir -p torchinductor_u/ab; printf '#warning here\\nint f() { return 1; }\\n" text           \
    "' >torchinductor_u/ab/c.cpp"
#define THERE "cd torchinductor_u/ab && $CXX -c "
    COMPARE({"a warning", SPEAKS(""), {{NULL, THERE "$PWD/c.cpp", MADE}, {NULL, NULL, TAKEN}}},
            {"an error",
             SPEAKS("int g() { return no; }"),
             {{NULL, THERE "$PWD/c.cpp", MADE}, {NULL, NULL, TAKEN}}},
            {"a relative name", SPEAKS(""), {{NULL, THERE "c.cpp", MADE}, {NULL, NULL, TAKEN}}});
}

/* As make compiles. */
Test(tool_places, a_relative_source_that_shows_its_name_hits_from_another_working_folder)
{
#define ASSERTS                                                                                    \
    "for d in p q/deeper; do mkdir -p $d/src; printf '#include <cassert>\\n"                       \
    "int f(int x) { assert(x); return sizeof __FILE__; }\\n' >$d/src/m.cc; done"
    COMPARE({"as it is spelled",
             ASSERTS,
             {{NULL, "cd p && $CXX -O1 -c src/m.cc -o m.o", MADE},
              {NULL, "cd q/deeper && $CXX -O1 -c src/m.cc -o m.o", TAKEN},
              {NULL, "cd q/deeper && $CXX -O1 -c src/m.cc -o other.o", TAKEN},
              {"echo '// changed' >>q/deeper/src/m.cc",
               "cd q/deeper && $CXX -O1 -c src/m.cc -o m.o", MADE}}},
            {"by other names",
             ASSERTS,
             {{NULL, "cd p && $CXX -O2 -c src/m.cc -o m.o", MADE},
              {NULL, "cd p && $CXX -O2 -c ./src/m.cc -o m.o", MADE},
              {NULL, "cd p && $CXX -O2 -c $PWD/src/m.cc -o m.o", MADE},
              {NULL, "cd q/deeper && $CXX -O2 -c $PWD/src/m.cc -o m.o", MADE},
              {NULL, "cd p/src && $CXX -O2 -c m.cc -o m.o", MADE}}},
            {"with debug information",
             ASSERTS,
             {{NULL, "cd p && $CXX -g -c src/m.cc -o m.o", MADE},
              {NULL, "cd q/deeper && $CXX -g -c src/m.cc -o m.o", MADE}}});
}

/* As TorchInductor compiles with an environment for each checkout. */
#define ENVIRONMENTS(header)                                                                       \
    "for v in env another/env; do mkdir -p $v/lib/python3.11/site-packages/torch/include; "        \
    "printf '" header "\\n' >$v/lib/python3.11/site-packages/torch/include/t.h; done; "            \
    "mkdir -p torchinductor_u/ab; printf '#include <t.h>\\nint f() { return T; }\\n' "             \
    ">torchinductor_u/ab/c.cpp"
#define TORCH "/lib/python3.11/site-packages/torch/"
#define WITH_ENVIRONMENT(env, option)                                                              \
    "cd torchinductor_u/ab && T=${PWD%/torchinductor_u/ab} && $CXX -shared -fPIC -I$T/" env TORCH  \
    "include -L$T/" env TORCH "lib " option " $PWD/c.cpp -o $PWD/c.so"
#define OWN(env) "T=$PWD; cd p && $CXX -I$T/" env TORCH "include -c c.cpp"

Test(tool_places, an_equal_environment_of_python_hits)
{
    COMPARE(
        {"for generated sources",
         ENVIRONMENTS("#define T 1"),
         {{NULL, WITH_ENVIRONMENT("env", ""), MADE},
          {NULL, WITH_ENVIRONMENT("another/env", ""), TAKEN},
          {"ln -s another/env linked", WITH_ENVIRONMENT("linked", ""), TAKEN},
          {"echo '#define T 2' >another/env" TORCH "include/t.h",
           WITH_ENVIRONMENT("another/env", ""), MADE},
          {NULL, WITH_ENVIRONMENT("env", ""), TAKEN}}},
        {"a file that only one of them has",
         ENVIRONMENTS("#if __has_include(\"more.h\")\\n#define T 1\\n#else\\n#define T 3\\n#endif"),
         {{NULL, WITH_ENVIRONMENT("env", ""), MADE},
          {"touch another/env" TORCH "include/more.h", WITH_ENVIRONMENT("another/env", ""), MADE},
          {NULL, WITH_ENVIRONMENT("env", ""), TAKEN}}},
        {"whose name shows",
         ENVIRONMENTS("#define T 1"),
         {{NULL, WITH_ENVIRONMENT("env", "-Wl,-rpath,$T/env/lib"), MADE},
          {NULL, WITH_ENVIRONMENT("another/env", "-Wl,-rpath,$T/another/env/lib"), MADE},
          {NULL, WITH_ENVIRONMENT("another/env", "-Wl,-rpath,$T/env/lib"), MADE}}},
        {"that the source spells",
         ENVIRONMENTS("#define T 1") "; echo \"// $PWD/env/x.py\" >>torchinductor_u/ab/c.cpp; "
                                     "mkdir v; cp -r torchinductor_u v/torchinductor_v",
         {{NULL, WITH_ENVIRONMENT("env", ""), MADE},
          {NULL,
           "cd v/torchinductor_v/ab && T=${PWD%/v/torchinductor_v/ab} && $CXX -shared -fPIC "
           "-I$T/env" TORCH "include -L$T/env" TORCH "lib $PWD/c.cpp -o $PWD/c.so",
           TAKEN},
          {NULL, WITH_ENVIRONMENT("another/env", ""), MADE}}},
        {"in a warning",
         ENVIRONMENTS("#warning here\\n#define T 1"),
         {{NULL, WITH_ENVIRONMENT("env", ""), MADE},
          {NULL, WITH_ENVIRONMENT("another/env", ""), TAKEN}}},
        {"for a user's own source",
         ENVIRONMENTS("#define T 1") "; mkdir p; cp torchinductor_u/ab/c.cpp p",
         {{NULL, OWN("env"), MADE},
          {NULL, OWN("another/env"), TAKEN},
          {"echo '#define T 2' >another/env" TORCH "include/t.h", OWN("another/env"), MADE},
          {NULL, OWN("env"), TAKEN}}},
        {"in a warning for a user's own source",
         ENVIRONMENTS("#warning here\\n#define T 1") "; mkdir p; cp torchinductor_u/ab/c.cpp p",
         {{NULL, OWN("env"), MADE}, {NULL, OWN("another/env"), TAKEN}}},
        {"for a user's own source that shows it",
         ENVIRONMENTS("inline const char *here() { return __FILE__; }\\n#define T here()[1]"),
         {{NULL, "T=$PWD; cp torchinductor_u/ab/c.cpp .; $CXX -I$T/env" TORCH "include -c c.cpp",
           MADE},
          {NULL, "T=$PWD; $CXX -I$T/another/env" TORCH "include -c c.cpp", MADE}}});
}

Test(tool_places, checks_in_an_environment_of_python_do_not_name_it)
{
    struct lab lab;
    char *out;
    if (!lab_up(&lab))
        return;
    cr_assert_eq(sh(&lab, NULL, "%s",
                    ENVIRONMENTS("inline const char *here() { return __FILE__; }\\n"
                                 "#define T here()[1]")),
                 0);
    static const char compile[] = GXX
        "-fPIC -I%s/%s" TORCH "include -c $PWD/torchinductor_u/ab/c.cpp -o c.o && "
        "grep -q lib/python3.11/site-packages/torch/include/t.h c.o && ! grep -q /lib/python3 c.o";
    cr_assert_eq(sh(&lab, &out, compile, lab.d.dir, "env"), 0, "%s", out);
    free(out);
    expect_told(&lab, "miss", 1);
    cr_assert_eq(sh(&lab, &out, compile, lab.d.dir, "another/env"), 0, "%s", out);
    free(out);
    expect_told(&lab, "hit", 1);
    lab_down(&lab);
}

Test(tool_places, a_folder_with_a_space_hits_with_a_file_of_dependencies)
{
#define SPACES                                                                                     \
    "for d in p 'my project/of long names for lines'; do mkdir -p \"$d/src\" \"$d/a b\"; "         \
    "echo '#define H 1' >\"$d/a b/h.h\"; printf '#include <h.h>\\n#include <stddef.h>\\n"          \
    "int x = H;\\n' >\"$d/src/m.cc\"; done"
#define IN_SPACES(option)                                                                          \
    {                                                                                              \
        {NULL,                                                                                     \
         "cd p && $CXX -I\"$PWD/a b\" -MD -MP -MF m.d " option " -c \"$PWD/src/m.cc\" -o m.o",     \
         MADE},                                                                                    \
        {NULL,                                                                                     \
         "cd my*/of* && $CXX -I\"$PWD/a b\" -MD -MP -MF m.d " option                               \
         " -c \"$PWD/src/m.cc\" -o m.o",                                                           \
         TAKEN},                                                                                   \
        {NULL, NULL, TAKEN},                                                                       \
    }
    COMPARE(
        {"no target", SPACES, IN_SPACES("")}, {"a relative target", SPACES, IN_SPACES("-MT m.o")},
        {"an escaped target", SPACES, IN_SPACES("-MQ \"$PWD/m.o\"")},
        {"a target as it is",
         SPACES,
         {{NULL, "cd p && $CXX -MD -MF m.d -MT \"$PWD/m.o\" -c \"$PWD/src/m.cc\" -I'a b'", MADE},
          {NULL, "cd my*/of* && $CXX -MD -MF m.d -MT \"$PWD/m.o\" -c \"$PWD/src/m.cc\" -I'a b'",
           MADE}}});
}
