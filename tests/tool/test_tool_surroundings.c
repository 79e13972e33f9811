/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a compile reads beside the texts of files, each compared with the compiler at that moment: times and rights of
 * files, the umask, folders of outputs, old files that these replace, variables that scripts read, folders that an option means
 * without its name, and options of -Wp.
 */
#include "tests/support/tool_compare.h"

#include <criterion/criterion.h>

Test(tool_surroundings, times_of_files_that_a_pragma_compares_are_looked_at_each_time)
{
    COMPARE({"an older file, then a newer one",
             "printf '#pragma GCC dependency \"d.y\"\\nint x;\\n' >m.cc; "
             "touch -d 2020-01-01 d.y; touch -d 2021-01-01 m.cc",
             {{NULL, "$CXX -Werror -c m.cc", REAL},
              {"touch -d 2022-01-01 d.y; touch -d 2021-01-01 m.cc", NULL, REAL}}},
            {"in an operator of a header",
             "echo '_Pragma(\"GCC dependency \\\"d.y\\\"\")' >h.h; echo '#include \"h.h\"' >m.cc; "
             "touch -d 2020-01-01 d.y; touch -d 2021-01-01 h.h",
             {{NULL, "$CXX -c m.cc", REAL},
              {"touch -d 2022-01-01 d.y; touch -d 2021-01-01 h.h", NULL, REAL}}},
            {"behind a comment",
             "printf '#pragma GCC /* */ \\\\\\n/**/ dependency \"d.y\"\\nint x;\\n' >m.cc; "
             "touch -d 2020-01-01 d.y; touch -d 2021-01-01 m.cc",
             {{NULL, "$CXX -c m.cc", REAL},
              {"touch -d 2022-01-01 d.y; touch -d 2021-01-01 m.cc", NULL, REAL}}});
}

Test(tool_surroundings, an_output_in_the_place_of_an_input_is_written_as_the_compiler_does)
{
    COMPARE({"a header of what is preprocessed",
             "echo '#define H 1' >h.h; printf '#include \"h.h\"\\nint x = H;\\n' >m.cc",
             {{NULL, "$CXX -E m.cc -o m.ii", MADE},
              {NULL, "$CXX -E m.cc -o h.h", REAL},
              {"echo '#define H 1' >h.h", "$CXX -E m.cc -o m.ii", TAKEN}}},
            {"a header before the one that was read",
             "mkdir a b; echo '#define H 1' >b/h.h; "
             "printf '#include <h.h>\\nint x = H;\\n' >m.cc",
             {{NULL, "$CXX -Ia -Ib -E m.cc -o m.ii", MADE},
              {NULL, "$CXX -Ia -Ib -E m.cc -o a/h.h", REAL}}},
            {"what the assembler includes",
             "echo AAAA >d.bin; printf '__asm__(\".incbin \\\\\"d.bin\\\\\"\");\\n' >m.c",
             {{NULL, "$CC -c m.c -o m.o", MADE},
              {NULL, "$CC -c m.c -o d.bin", REAL},
              {"echo AAAA >d.bin", "$CC -c m.c -o m.o", TAKEN}}},
            {"a library of the link",
             "echo 'int f() { return 1; }' >f.cc; g++ -shared -fPIC f.cc -o libf.so; "
             "echo 'int f(); int main() { return f(); }' >m.cc; g++ -c m.cc",
             {{NULL, "$CXX m.o -L. -lf -o m", MADE}, {NULL, "$CXX m.o -L. -lf -o libf.so", REAL}}},
            {"dependencies that are printed",
             "echo 'int x;' >m.cc",
             {{NULL, "$CXX -MD -MF - -c m.cc", REAL},
              {"echo >./-; touch -d 2020-01-01 ./-", NULL, REAL}}});
}

Test(tool_surroundings, rights_of_old_outputs_and_of_the_umask_are_not_kept)
{
    COMPARE({"an old object that can be run",
             "echo 'int x;' >m.cc; touch m.o; chmod 755 m.o",
             {{NULL, "$CXX -c m.cc", REAL}}},
            {"a program over an old one",
             "echo 'int main() {}' >m.cc",
             {{NULL, "$CXX m.cc -o m", MADE},
              {"echo 'int main() { return 1; }' >m.cc", NULL, MADE},
              {NULL, NULL, TAKEN}}},
            {"a umask that takes the owner's",
             "echo 'int main() { return 2; }' >m.cc",
             {{NULL, "umask 0177; $CXX m.cc -o m", REAL},
              {"rm m", "umask 022; $CXX m.cc -o m", MADE},
              {"rm m", "umask 0177; $CXX m.cc -o m", REAL}}});
}

Test(tool_surroundings, programs_that_a_compiler_starts_count_with_their_rights)
{
    COMPARE({"an assembler that may not be run yet",
             "mkdir bin; cp /usr/bin/as bin; echo >>bin/as; chmod 644 bin/as; echo 'int x;' >m.c",
             {{NULL, "$CC -Bbin/ -c m.c", REAL}}},
            {"an assembler that may be run no more",
             "mkdir bin; cp /usr/bin/as bin; echo >>bin/as; echo 'int y;' >m.c",
             {{NULL, "$CC -Bbin/ -c m.c", MADE},
              {NULL, NULL, TAKEN},
              {"chmod 644 bin/as", NULL, REAL}}},
            {"an assembler that is a script",
             "mkdir bin; printf '#!/bin/sh\\nexec as --defsym v=$V \"$@\"\\n' >bin/as; "
             "chmod 755 bin/as; echo 'int x;' >m.c",
             {{NULL, "V=1 $CC -Bbin/ -c m.c", REAL}, {NULL, "V=2 $CC -Bbin/ -c m.c", REAL}}});
}

Test(tool_surroundings, old_outputs_of_a_failure_are_as_the_compiler_leaves_them)
{
    COMPARE({"a header that is missing, with a file of dependencies",
             "printf '#include \"none.h\"\\n' >m.cc",
             {{NULL, "$CXX -c m.cc -MD -MF m.d -o m.o", MADE},
              {NULL, NULL, TAKEN},
              {"echo old | tee m.d >m.o", NULL, MADE},
              {NULL, NULL, TAKEN},
              {"rm m.d m.o", NULL, TAKEN}}},
            {"an error of the assembler, which removes the object",
             "echo 'foo bar' >m.s",
             {{NULL, "$CC -c m.s", MADE},
              {"echo old >m.o", NULL, MADE},
              {"echo old >m.o", NULL, TAKEN},
              {NULL, NULL, TAKEN}}});
}

Test(tool_surroundings, a_failure_for_want_of_a_folder_is_not_kept)
{
    COMPARE({"of the object",
             "echo 'int x;' >m.c",
             {{NULL, "$CC -c m.c -o d/m.o", REAL}, {"mkdir d", NULL, REAL}}},
            {"of the program",
             "echo 'int main(void) { return 0; }' >m.c; gcc -c m.c",
             {{NULL, "$CC m.o -o d/m", REAL}, {"mkdir d", NULL, REAL}}},
            {"of the file of dependencies",
             "echo 'int x;' >m.c",
             {{NULL, "$CC -MD -MF d/m.d -c m.c -o m.o", REAL}, {"mkdir d", NULL, REAL}}});
    if (has_compiler("clang"))
        COMPARE({"of the object",
                 "echo 'int x;' >m.c",
                 {{NULL, "$CLANG -c m.c -o d/m.o", REAL}, {"mkdir d", NULL, REAL}}},
                {"for temporary files",
                 "echo 'int main(void) { return 0; }' >m.c",
                 {{NULL, "TMPDIR=none $CLANG m.c -o m", REAL}, {"mkdir none", NULL, REAL}}});
}

/* "=b" and "$SYSROOT/b" are in the folder of --sysroot, and "-" only changes where quoted names are sought. */
Test(tool_surroundings, a_folder_to_search_that_the_compiler_reads_otherwise_is_not_kept)
{
#define SYSROOT                                                                                    \
    "mkdir -p p/s/a p/s/b; echo '#define H 1' >p/s/a/h.h; echo '#define H 2' >p/s/b/h.h; "         \
    "echo '#define H 3' >p/q.h; printf '#include <h.h>\\nint f(void) { return H; }\\n' >p/m.c; "   \
    "sed 's/<h.h>/\"q.h\"/' p/m.c >p/n.c; cp p/s/a/h.h p/s/a/q.h"
    COMPARE({"in the folder of --sysroot",
             SYSROOT,
             {{NULL, "cd p && $CC --sysroot=s -I=/a -O1 -c m.c -o m.o", REAL},
              {NULL, "cd p && $CC --sysroot=s -I=/b -O1 -c m.c -o m.o", REAL},
              {NULL, "cd p && $CC --sysroot=s -isystem =/b -O1 -c m.c -o m.o", REAL},
              {NULL, "cd p && $CC --sysroot=s '-I$SYSROOT/a' -O1 -c m.c -o m.o", REAL}}},
            {"none",
             SYSROOT,
             {{NULL, "cd p && $CC -Is/a -O1 -c n.c -o n.o", MADE},
              {NULL, "cd p && $CC -I- -Is/a -O1 -c n.c -o n.o", REAL}}});
}

/* As Linux is built. */
Test(tool_surroundings, dependencies_by_way_of_the_preprocessor)
{
    COMPARE(
        {"in the working folder",
         "printf '#include \"h.h\"\\nint x;\\n' >m.c; touch h.h; mkdir o",
         {{NULL, "$CC -Wp,-MMD,o/.m.o.d -O2 -c m.c -o o/m.o", MADE},
          {"rm o/m.o o/.m.o.d", NULL, TAKEN},
          {NULL, "$CC -Wp,-MD,o/.n.o.d -O2 -c m.c -o o/m.o", MADE},
          {"echo 'int h;' >h.h", NULL, MADE},
          {NULL, "$CC -Wp,-MMD,o/.m.o.d -MF x.d -O2 -c m.c -o o/m.o", REAL}}},
        {"in another folder",
         "mkdir -p p/b q/deep/b; echo '#define H 1' | tee q/deep/h.h >p/h.h; "
         "printf '#include <h.h>\\nint f(void) { return H; }\\n' | tee q/deep/m.c >p/m.c",
         {{NULL, "cd p/b && $CC -Wp,-MMD,m.d -I${PWD%/b} -c ${PWD%/b}/m.c -o m.o", MADE},
          {NULL, "cd q/deep/b && $CC -Wp,-MMD,m.d -I${PWD%/b} -c ${PWD%/b}/m.c -o m.o", TAKEN}}});
}
