/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `warm tool` with the real gcc and g++: a run leaves what the compiler would have left,
 * and takes it from the cache only if all that the compiler read is unchanged.
 */
#include "tests/support/tool.h"

Test(tool, second_run_gives_the_same_bytes_as_the_compiler)
{
    struct lab lab;
    if (!lab_up(&lab))
        return;
    write_text(&lab, "a.cpp",
               "#include <cstddef>\nint main() { return (int)sizeof(std::size_t); }\n");
    cr_assert_eq(sh(&lab, NULL, "/usr/bin/g++ -O1 a.cpp -o real"), 0);
    cr_assert_eq(sh(&lab, NULL, GXX "-O1 a.cpp -o a && rm a && " GXX "-O1 a.cpp -o a"), 0);
    cr_assert_eq(told(&lab, "miss"), 1);
    expect_told(&lab, "hit", 1);
    cr_assert_eq(sh(&lab, NULL, "cmp a real && ./a"), 8, "it runs, with its mode bits");
    cr_assert_eq(sh(&lab, NULL, GXX "-O1 a.cpp -o other"), 0);
    expect_told(&lab, "hit", 1);
    lab_down(&lab);
}

Test(tool, changed_header_is_a_miss_and_what_was_before_a_hit)
{
    struct lab lab;
    char *out;
    if (!lab_up(&lab))
        return;
    write_text(&lab, "a.c", "#include \"h.h\"\nint main(void) { return H; }\n");
    write_text(&lab, "h.h", "#define H 1\n");
    expect_cached(&lab, GCC "a.c -o a");
    write_text(&lab, "h.h", "#define H 2\n");
    cr_assert_eq(sh(&lab, &out, GCC "a.c -o a && ./a"), 2, "%s", out);
    expect_told(&lab, "miss", 1);
    free(out);
    write_text(&lab, "h.h", "#define H 1\n");
    cr_assert_eq(sh(&lab, NULL, GCC "a.c -o a; ./a"), 1);
    expect_told(&lab, "hit", 1);
    cr_assert_eq(sh(&lab, NULL, "touch -d '3 days ago' h.h a.c; " GCC "a.c -o a; ./a"), 1);
    expect_told(&lab, "hit", 1);
    lab_down(&lab);
}

Test(tool, new_header_earlier_on_the_path_is_a_miss)
{
    struct lab lab;
    if (!lab_up(&lab))
        return;
    cr_assert_eq(sh(&lab, NULL, "mkdir one two"), 0);
    write_text(&lab, "a.c", "#include <sub/h.h>\nint main(void) { return H; }\n");
    cr_assert_eq(sh(&lab, NULL, "mkdir two/sub && echo '#define H 2' >two/sub/h.h"), 0);
    expect_cached(&lab, GCC "-Ione -Itwo a.c -o a");
    cr_assert_eq(sh(&lab, NULL, "mkdir one/sub && " GCC "-Ione -Itwo a.c -o a; ./a"), 2);
    forget(&lab);
    cr_assert_eq(
        sh(&lab, NULL, "echo '#define H 1' >one/sub/h.h; " GCC "-Ione -Itwo a.c -o a; ./a"), 1);
    expect_told(&lab, "miss", 1);
    cr_assert_eq(sh(&lab, NULL, "rm -r one/sub; " GCC "-Ione -Itwo a.c -o a; ./a"), 2);
    expect_told(&lab, "hit", 1);
    lab_down(&lab);
}

/* Makes lists of libraries for the loader, in a test of their own mount namespaces: `same` is the
 * machine's, `more` has an unrelated library too, and in `wins` a library of the compiler comes from
 * another folder. False, with a line on stderr, if the machine cannot do that. */
static bool make_lists(struct lab *lab)
{
    static const char make[] =
        "unshare -m true && mkdir new extra && cp \"$(ldd \"$(gcc -print-prog-name=cc1)\" | "
        "sed -n 's/.*=> \\(.*libgmp[^ ]*\\) .*/\\1/p')\" new && echo 'int u;' >u.c && "
        "gcc -shared -Wl,-soname,libunrelated.so.1 u.c -o extra/libunrelated.so.1 && rm u.c && "
        "cp /etc/ld.so.cache same && for f in new extra; do (echo $PWD/$f; cat /etc/ld.so.conf) "
        ">$f.conf && /sbin/ldconfig -C $PWD/$f.cache -f $PWD/$f.conf || exit 1; done && "
        "mv new.cache wins && mv extra.cache more";
    char *out;
    int status = sh(lab, &out, "%s", make);
    if (status)
        fprintf(stderr, "skipped: %s\n", out);
    free(out);
    return status == 0;
}

#define WITH_LIST "unshare -m sh -c 'mount --bind %s /etc/ld.so.cache && exec \"$@\"' sh "

/* Only the compiler's own libraries count, and not the whole list. */
Test(tool, a_library_that_newly_wins_is_a_miss)
{
    struct lab lab;
    if (!lab_up(&lab))
        return;
    write_text(&lab, "a.c", "int main(void) { return 7; }\n");
    if (make_lists(&lab)) {
        static const char command[] = WITH_LIST GCC "a.c -o a";
        static const struct {
            const char *list, *told;
        } runs[] = {
            {"same", "hit"}, {"more", "hit"}, {"wins", "miss"}, {"wins", "hit"}, {"more", "hit"}};
        expect_cached(&lab, GCC "a.c -o a");
        for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
            cr_assert_eq(sh(&lab, NULL, command, runs[i].list), 0);
            expect_told(&lab, runs[i].told, 1);
        }
        cr_assert_eq(sh(&lab, NULL, GCC "a.c -o a; ./a"), 7);
        expect_told(&lab, "hit", 1);
    }
    lab_down(&lab);
}

/* In another root, with copies of the compiler's libraries and another list. */
Test(tool, an_archive_of_one_image_serves_another)
{
    static const char copies[] = "mkdir root libs && ldd \"$(gcc -print-prog-name=cc1)\" | "
                                 "sed -n 's/.*=> \\(.*\\) (.*/\\1/p' >names && "
                                 "while read -r lib; do cp \"$lib\" libs || exit 1; done <names";
    static const char in_root[] =
        "unshare -m sh -c 'mount --rbind / root && mount --bind %s root/etc/ld.so.cache && "
        "while read -r lib; do mount --bind libs/$(basename $lib) root$lib || exit 99; done "
        "<names; "
        "exec chroot root sh -c \"cd $PWD && exec \\\"\\$@\\\"\" sh \"$@\"' sh " GCC "a.c -o a";
    struct lab one, two;
    char *out;
    if (!lab_up(&one) || !lab_up(&two))
        return;
    write_text(&one, "a.c", "int main(void) { return 7; }\n");
    write_text(&two, "a.c", "int main(void) { return 7; }\n");
    if (make_lists(&two)) {
        expect_cached(&one, GCC "a.c -o a");
        cr_assert_eq(sh(&one, &out, "%s export seed", one.warm), 0, "%s", out);
        free(out);
        cr_assert_eq(sh(&two, &out, "%s import %s/seed", two.warm, one.d.dir), 0, "%s", out);
        free(out);
        cr_assert_eq(sh(&two, &out, "%s", copies), 0, "%s", out);
        free(out);
        cr_assert_eq(sh(&two, &out, in_root, "more"), 0, "%s", out);
        free(out);
        expect_told(&two, "hit", 1);
        cr_assert_eq(sh(&two, NULL, "./a"), 7);
        cr_assert_eq(sh(&two, NULL, in_root, "wins"), 0);
        expect_told(&two, "miss", 1);
        cr_assert_eq(sh(&two, NULL, "echo >>libs/$(basename $(grep gmp names))"), 0);
        cr_assert_eq(sh(&two, NULL, in_root, "more"), 0);
        expect_told(&two, "miss", 1);
    }
    lab_down(&one);
    lab_down(&two);
}

Test(tool, errors_and_warnings_are_the_compilers_each_time)
{
    struct lab lab;
    char *real, *first, *second;
    if (!lab_up(&lab))
        return;
    write_text(&lab, "bad.c", "int main(void) { return x; }\n");
    write_text(&lab, "warn.c", "int main(void) { int unused; return 0; }\n");
    cr_assert_eq(sh(&lab, &real, "/usr/bin/gcc bad.c"), 1);
    cr_assert_eq(sh(&lab, &first, GCC "bad.c"), 1);
    cr_assert_eq(sh(&lab, &second, GCC "bad.c"), 1);
    expect_told(&lab, "hit", 1);
    cr_assert_str_eq(first, real);
    cr_assert_str_eq(second, real);
    free(real), free(first), free(second);
    cr_assert_eq(sh(&lab, &first, GCC "-Wall -c warn.c"), 0);
    cr_assert_eq(sh(&lab, &second, "rm warn.o; " GCC "-Wall -c warn.c && test -f warn.o"), 0);
    expect_told(&lab, "hit", 1);
    cr_assert(strstr(first, "unused") != NULL);
    cr_assert_str_eq(first, second);
    free(first), free(second);
    lab_down(&lab);
}

Test(tool, a_failure_leaves_a_file_of_before_as_gcc_does)
{
    struct lab lab;
    if (!lab_up(&lab))
        return;
    write_text(&lab, "bad.c", "int main(void) { return x; }\n");
    cr_assert_eq(sh(&lab, NULL, GCC "bad.c -o a"), 1);
    cr_assert_eq(sh(&lab, NULL, "echo old >a; " GCC "bad.c -o a; grep -q old a"), 0,
                 "as gcc, which stops before it links");
    lab_down(&lab);
}

Test(tool, where_it_is_compiled_counts_only_where_that_can_show)
{
    struct lab lab;
    if (!lab_up(&lab))
        return;
    cr_assert_eq(sh(&lab, NULL, "mkdir p q; echo 'int f(void) { return 1; }' | tee p/f.c >q/f.c"),
                 0);
    forget(&lab);
    cr_assert_eq(sh(&lab, NULL, "(cd p; " GCC "-c f.c); (cd q; " GCC "-c f.c)"), 0);
    expect_told(&lab, "hit", 1);
    cr_assert_eq(sh(&lab, NULL, "(cd p; " GCC "-g -c f.c); (cd q; " GCC "-g -c f.c)"), 0);
    expect_told(&lab, "hit", 0);
    lab_down(&lab);
}

/* The lab's folder is a temporary one with a random name, as programs use for generated sources. */
Test(tool, names_of_temporary_folders_do_not_count_unless_the_text_shows_them)
{
    struct lab lab;
    char *one, *two;
    if (!lab_up(&lab))
        return;
    cr_assert_eq(sh(&lab, NULL,
                    "mkdir t1 t2; echo '#include \"h.h\"\nint f(void) { return H; }' | "
                    "tee t1/f.c >t2/f.c; echo '#define H 1' | tee t1/h.h >t2/h.h"),
                 0);
    cr_assert_eq(sh(&lab, NULL, GCC "-c $PWD/t1/f.c -o $PWD/t1/f.o"), 0);
    cr_assert_eq(sh(&lab, NULL, GCC "-c $PWD/t2/f.c -o $PWD/t2/f.o"), 0);
    expect_told(&lab, "hit", 1);
    cr_assert_eq(sh(&lab, NULL, "WARM_TOOL_EXACT=1 " GCC "-c $PWD/t2/f.c -o $PWD/t2/f.o"), 0);
    expect_told(&lab, "hit", 0);
    cr_assert_eq(sh(&lab, NULL, "echo 'const char *f = __FILE__;' | tee t1/g.c >t2/g.c"), 0);
    cr_assert_eq(
        sh(&lab, NULL, GCC "-c $PWD/t1/g.c -o $PWD/t1/g.o; " GCC "-c $PWD/t2/g.c -o $PWD/t2/g.o"),
        0);
    expect_told(&lab, "hit", 0);
    cr_assert_eq(sh(&lab, NULL, "echo 'int f(void) { return y; }' | tee t1/e.c >t2/e.c"), 0);
    cr_assert_eq(sh(&lab, &one, GCC "-c $PWD/t1/e.c"), 1);
    cr_assert_eq(sh(&lab, &two, GCC "-c $PWD/t2/e.c"), 1);
    expect_told(&lab, "hit", 1);
    cr_assert(strstr(one, "/t1/e.c:1:") && strstr(two, "/t2/e.c:1:") && !strstr(two, "/t1/"),
              "messages name the caller's file: %s", two);
    free(one), free(two);
    lab_down(&lab);
}

/* __FILE__ in a header is seen in the result only: as in what AOTInductor makes of a model. */
Test(tool, a_result_that_shows_its_temporary_folder_is_kept_for_that_folder)
{
    struct lab lab;
    if (!lab_up(&lab))
        return;
    write_text(&lab, "h.h", "#define HERE __FILE__\n");
    cr_assert_eq(sh(&lab, NULL,
                    "mkdir t1 t2; echo '#include \"h.h\"\nconst char *f = HERE;' | "
                    "tee t1/f.c >t2/f.c"),
                 0);
    static const char compile[] =
        GCC "-I. -c $PWD/t%d/f.c -o $PWD/t%d/f.o && grep -q /t%d/f.c t%d/f.o";
    for (int folder = 1; folder <= 2; folder++) {
        cr_assert_eq(sh(&lab, NULL, compile, folder, folder, folder, folder), 0);
        expect_told(&lab, "hit", 0);
        cr_assert_eq(sh(&lab, NULL, compile, folder, folder, folder, folder), 0);
        expect_told(&lab, "hit", 1);
    }
    write_text(&lab, "h.h", "#define HERE \"/t1/f.c\"\n");
    cr_assert_eq(sh(&lab, NULL, compile, 1, 1, 1, 1), 0);
    expect_told(&lab, "miss", 1);
    lab_down(&lab);
}

Test(tool, what_shows_the_clock_is_not_kept)
{
    struct lab lab;
    if (!lab_up(&lab))
        return;
    write_text(&lab, "t.c", "const char *t = __TIME__;\n");
    write_text(&lab, "h.h", "static const char *d = __DATE__;\n");
    write_text(&lab, "d.c", "#include \"h.h\"\nconst char *f(void) { return d; }\n");
    cr_assert_eq(sh(&lab, NULL, GCC "-c t.c; " GCC "-c t.c; " GCC "-c d.c"), 0);
    cr_assert_eq(told(&lab, "hit"), 0);
    expect_told(&lab, "not kept", 2); /* the second t.c knows that already */
    lab_down(&lab);
}

Test(tool, what_only_prints_comes_from_the_cache_too)
{
    static const char *const commands[] = {"--version",    "-v",
                                           "-dumpversion", "-print-file-name=bin",
                                           "-E a.c",       "-march=native -E -dM a.c",
                                           "-M a.c"};
    struct lab lab;
    if (!lab_up(&lab))
        return;
    write_text(&lab, "a.c", "#include <stddef.h>\nsize_t n;\n");
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        char *real, *first, *second;
        cr_assert_eq(sh(&lab, &real, "/usr/bin/gcc %s", commands[i]), 0);
        cr_assert_eq(sh(&lab, &first, "$T /usr/bin/gcc -- /usr/bin/gcc %s", commands[i]), 0);
        cr_assert_eq(sh(&lab, &second, "$T /usr/bin/gcc -- /usr/bin/gcc %s", commands[i]), 0);
        expect_told(&lab, "hit", 1);
        cr_assert_str_eq(first, real);
        cr_assert_str_eq(second, real);
        free(real), free(first), free(second);
    }
    lab_down(&lab);
}

/* The compiler runs with the one spelling first. If that was in vain, it is not tried again. */
Test(tool, a_source_whose_spelling_shows_is_compiled_twice_once)
{
    struct lab lab;
    if (!lab_up(&lab))
        return;
    static const char compile[] = GCC "-Wall -c ./w.c 2>&1 | grep -q '^\\./w.c:1:.*unused'";
    for (int version = 1; version <= 3; version++) {
        cr_assert_eq(sh(&lab, NULL, "echo 'void f(void) { int unused%d; }' >w.c", version), 0);
        cr_assert_eq(sh(&lab, NULL, compile), 0);
        cr_expect_eq(told(&lab, "runs again as it was written"), version == 1);
        expect_told(&lab, "miss", 1);
        cr_assert_eq(sh(&lab, NULL, compile), 0);
        expect_told(&lab, "hit", 1);
    }
    lab_down(&lab);
}

/* Ranks with a cache folder each. The text computes with the name of its file in all ways. */
Test(tool, names_of_inductors_folders_do_not_show)
{
    struct lab lab;
    char *out;
    if (!lab_up(&lab))
        return;
    cr_assert_eq(sh(&lab, NULL, "mkdir inc"), 0);
    write_text(&lab, "inc/check.h",
               "#include <source_location>\n"
               "constexpr unsigned hash(const char *s) { return *s ? *s + 33 * hash(s + 1) : 5; }\n"
               "constexpr unsigned here(const char *f = __builtin_FILE()) { return hash(f); }\n"
               "constexpr unsigned there(std::source_location l = std::source_location::current())"
               " { return hash(l.file_name()); }\n"
               "#define W1(x) L##x\n#define W(x) W1(x)\n"
               "#define NAMES __FILE__, __BASE_FILE__, __builtin_FILE()\n"
               "#define HASHES hash(__FILE__), here(), there(), sizeof W(__FILE__)\n"
               "void fail(const char *, const char *, const char *);\n");
    cr_assert_eq(sh(&lab, NULL,
                    "mkdir -p torchinductor_me/ab other/cd; ln -s other link; printf '#include "
                    "\"check.h\"\\nextern "
                    "const unsigned h[] = {HASHES}; const wchar_t *w = W(__FILE__);\\n"
                    "void f(int x) { if (x) fail(NAMES); }\\n' | "
                    "tee torchinductor_me/ab/m.cpp >other/cd/m.cpp"),
                 0);
    static const char compile[] = "export TORCHINDUCTOR_CACHE_DIR=$PWD/link/../other/; cd /; " GXX
                                  "-std=c++20 -I%s/inc -c %s/%s/m.cpp -o %s/%s/m.o";
    const char *dir = lab.d.dir;
    cr_assert_eq(
        sh(&lab, &out, compile, dir, dir, "torchinductor_me/ab", dir, "torchinductor_me/ab"), 0,
        "%s", out);
    free(out);
    expect_told(&lab, "miss", 1);
    cr_assert_eq(sh(&lab, NULL, compile, dir, dir, "other/cd", dir, "other/cd"), 0);
    expect_told(&lab, "hit", 1);
    cr_assert_eq(
        sh(&lab, &out,
           "cmp other/cd/m.o torchinductor_me/ab/m.o && "
           "g++ -std=c++20 -I$PWD/inc -fmacro-prefix-map=$PWD/other/cd/= -c $PWD/other/cd/m.cpp "
           "&& cmp m.o other/cd/m.o && grep -q m.cpp m.o && ! grep -q cd/m.cpp m.o"),
        0, "%s", out);
    free(out);
    forget(&lab);
    static const char checked[] = "echo 'int f(int x) { return 11 / x; }' >%s/m.cpp; cd /; " GXX
                                  "-fsanitize=undefined -c %s/m.cpp -o %s/m.o && "
                                  "grep -q %s/m.cpp %s/m.o";
    static const char *const folders[] = {"$D/torchinductor_me/ab", "$D/torchinductor_me/cd"};
    cr_assert_eq(sh(&lab, NULL, "mkdir torchinductor_me/cd"), 0);
    for (size_t i = 0; i < 2; i++) {
        const char *f = folders[i];
        char *command;
        cr_assert(asprintf(&command, checked, f, f, f, f, f) > 0);
        cr_assert_eq(sh(&lab, NULL, "D=$PWD; %s", command), 0, "a sanitizer names the whole path");
        free(command);
        expect_told(&lab, "hit", 0);
    }
    lab_down(&lab);
}

/* PyTensor makes a random folder for each module, and compiles it with -g where the user works. */
Test(tool, asserts_of_pytensors_modules_do_not_show_the_folder)
{
    static const char compile[] =
        "C=$PWD/%s/compiledir_Linux-6.1-x86_64--3.11.7-64/%s; mkdir -p $C && "
        "printf '%s' >$C/mod.cpp && cd %s && " GXX
        "-shared -fPIC -g $C/mod.cpp -o $C/m1.so && mv $C/m1.so $C/../../m.so";
    static const char checks[] = "#include <assert.h>\\nvoid f(int x) { assert(x); }\\n";
    static const char opens[] = "const char *f() { return __FILE__; }\\n";
    struct lab lab;
    char *out;
    if (!lab_up(&lab))
        return;
    cr_assert_eq(sh(&lab, &out, compile, "one", "tmpa1", checks, "/usr/share"), 0, "%s", out);
    free(out);
    expect_told(&lab, "miss", 1);
    cr_assert_eq(sh(&lab, NULL, compile, "two/2", "tmpb22", checks, "/var/lib"), 0);
    expect_told(&lab, "hit", 1);
    cr_assert_eq(sh(&lab, &out,
                    "cmp one/m.so two/2/m.so && objcopy -g one/m.so && strings one/m.so >names && "
                    "grep -qx mod.cpp names && ! grep compiledir names"),
                 0, "%s", out);
    free(out);
    for (int i = 0; i < 2; i++) {
        const char *folder = i ? "tmpc" : "tmpd";
        cr_assert_eq(sh(&lab, NULL, compile, "one", folder, opens, "/usr/share"), 0);
        cr_assert_eq(sh(&lab, NULL, "strings one/m.so | grep -q %s/mod.cpp", folder), 0,
                     "its author's __FILE__ is the whole path");
    }
    lab_down(&lab);
}

Test(tool, both_outputs_stay_apart)
{
    struct lab lab;
    char *out;
    if (!lab_up(&lab))
        return;
    write_text(&lab, "a.c", "#warning W\nint n;\n");
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(sh(&lab, &out,
                        GCC "-E a.c 2>err >out; grep -c 'int n' out; grep -c W: err; "
                            "grep -c 'int n' err"),
                     1);
        cr_assert(strstr(out, "1\n0\n0\n") || strstr(out, "1\n1\n0\n"), "%s", out);
        free(out);
    }
    expect_told(&lab, "hit", 1);
    lab_down(&lab);
}

Test(tool, dependency_files_come_back)
{
    struct lab lab;
    if (!lab_up(&lab))
        return;
    write_text(&lab, "a.c", "#include \"h.h\"\nint n;\n");
    write_text(&lab, "h.h", "\n");
    cr_assert_eq(sh(&lab, NULL, GCC "-MMD -MF a.dep -c a.c -o a.o && mv a.dep first"), 0);
    cr_assert_eq(sh(&lab, NULL,
                    "rm a.o; " GCC "-MMD -MF a.dep -c a.c -o a.o && cmp a.dep first && "
                    "test -s a.o"),
                 0);
    expect_told(&lab, "hit", 1);
    lab_down(&lab);
}

/* Each folder's name has another length, so GCC breaks the lines elsewhere. */
Test(tool, dependency_files_are_written_for_each_folder)
{
    static const char *const options[] = {
        "-MMD -MF m.d",
        "-MD -MF $D/m.d -MP",
        "-MMD -MF $D/m.d -MT $D/other.o -MT two -MQ 'a$b'",
        "-MD -MF m.d -MP -MQ \"$D/a b\" -MT 'all these'",
        "-MMD -MP -Isub -I$D/sub2 -include $D/first.h",
        "-MMD -g0",
    };
    static const char *const folders[] = {"b/a", "b/one", "b/three", "b/a_much_longer_name_of_it",
                                          "b/some.name-of_15"};
    struct lab lab;
    char *out;
    if (!lab_up(&lab))
        return;
    cr_assert_eq(
        sh(&lab, &out,
           "for d in %s %s %s %s %s; do mkdir -p $d/sub $d/sub2; for i in 1 2 3 4 5 6 7 8 9; "
           "do echo 'int x'$i';' >$d/h$i.h; echo \"#include \\\"h$i.h\\\"\"; done >$d/m.cc; "
           "echo '#include <string>' >>$d/m.cc; echo '#include \"s.h\"' >$d/h1.h; "
           "echo 'int s;' >$d/sub/s.h; echo 'int t;' | tee $d/s.h >$d/sub2/t.h; "
           "echo '#include \"t.h\"' >$d/sub/u.h; echo >$d/first.h; done",
           folders[0], folders[1], folders[2], folders[3], folders[4]),
        0, "%s", out);
    free(out);
    for (size_t o = 0; o < sizeof options / sizeof options[0]; o++) {
        for (size_t f = 0; f < sizeof folders / sizeof folders[0]; f++) {
            cr_assert_eq(
                sh(&lab, &out,
                   "cd %s && D=$PWD && rm -f *.d *.o && /usr/bin/g++ %s -c $D/m.cc -o $D/m.o "
                   "&& mv m.d real && mv m.o real.o && " GXX "%s -c $D/m.cc -o $D/m.o && "
                   "cmp m.d real && { cmp m.o real.o || [ '%s' = '-MMD -g' ]; }",
                   folders[f], options[o], options[o], options[o]),
                0, "%s in %s: %s", options[o], folders[f], out);
            free(out);
        }
        cr_expect_eq(told(&lab, "miss"), 1, "%s: %d misses", options[o], told(&lab, "miss"));
        cr_expect_eq(told(&lab, "hit"), 4, "%s: %d hits", options[o], told(&lab, "hit"));
        forget(&lab);
    }
    lab_down(&lab);
}

/* Names whose meaning hangs on the folder: no other folder gets them. */
Test(tool, dependencies_that_may_read_otherwise_elsewhere_are_for_their_folder_alone)
{
    static const char *const options[] = {
        "-MD -isystem $D/sys", /* GCC may write a shorter name of such a header */
        "-MMD -MT x=$D/m.o",   /* not a path */
        "-MMD -I$D/link",      /* a link: another file */
        "-MMD -DWHERE='\"'$D'\"'",
    };
    struct lab lab;
    char *out;
    if (!lab_up(&lab))
        return;
    cr_assert_eq(sh(&lab, &out,
                    "mkdir -p other; echo 'int s;' >other/s.h; for d in b/a b/two; do "
                    "mkdir -p $d/sys; echo 'int s;' >$d/sys/s.h; ln -s $PWD/other $d/link; "
                    "echo '#include <s.h>' >$d/m.cc; done"),
                 0, "%s", out);
    free(out);
    for (size_t o = 0; o < sizeof options / sizeof options[0]; o++) {
        for (size_t f = 0; f < 4; f++) {
            cr_assert_eq(sh(&lab, &out,
                            "cd %s && D=$PWD && /usr/bin/g++ %s -Isys -MF m.d -c $D/m.cc -o $D/m.o "
                            "&& mv m.d real && " GXX
                            "%s -Isys -MF m.d -c $D/m.cc -o $D/m.o && cmp m.d real",
                            f % 2 ? "b/two" : "b/a", options[o], options[o]),
                         0, "%s: %s", options[o], out);
            free(out);
        }
        forget(&lab);
    }
    lab_down(&lab);
}

Test(tool, what_a_trace_cannot_show_is_run_for_real)
{
    struct lab lab;
    if (!lab_up(&lab))
        return;
    write_text(&lab, "a.c", "int main(void) { return 0; }\n");
    cr_assert_eq(
        sh(&lab, NULL, "for i in 1 2; do " GCC "-save-temps a.c -o a && test -f a.s; done"), 0);
    cr_assert_eq(sh(&lab, NULL,
                    "for i in 1 2; do echo 'int x;' | " GCC "-x c -c - -o /dev/null; done; echo "
                    "'int x = Y;' | WARM_READONLY=1 " GCC "-DY=1 -x c -c - -o x.o && nm x.o | grep "
                    "-q x"),
                 0);
    cr_assert_eq(sh(&lab, NULL, "for i in 1 2; do " GCC "-c a.c -o /dev/null; done"), 0);
    cr_assert_eq(sh(&lab, NULL,
                    "ln -s target link; for i in 1 2; do " GCC "-c a.c -o link; done; "
                    "test -s target"),
                 0);
    cr_assert_eq(told(&lab, "hit"), 0);
    expect_told(&lab, "passed on", 8);
    cr_assert_eq(sh(&lab, NULL, GCC "--no-such-option"), 1);
    cr_assert_eq(sh(&lab, NULL, "$T x -- /nowhere/gcc a.c"), 127);
    lab_down(&lab);
}

/* gcc -fstack-usage is known and refused; -Wl,-Map by another name is found by what it leaves. */
Test(tool, files_that_were_not_announced_keep_a_result_out)
{
    struct lab lab;
    if (!lab_up(&lab))
        return;
    write_text(&lab, "a.c", "int main(void) { return 0; }\n");
    cr_assert_eq(sh(&lab, NULL, GCC "a.c -o a -Wl,--trace,--print-gc-sections,-M=map >/dev/null"),
                 0);
    cr_assert_eq(sh(&lab, NULL,
                    GCC "-fdiagnostics-generate-patch -fdbg-cnt-list -c a.c "
                        "-o a.o >/dev/null"),
                 0);
    cr_assert_eq(told(&lab, "hit"), 0);
    lab_down(&lab);
}

Test(tool, a_compiler_that_is_run_directly_comes_from_the_cache)
{
    struct lab lab;
    if (!lab_up(&lab))
        return;
    write_text(&lab, "a.c", "int f(void) { return 1; }\n");
    cr_assert_eq(sh(&lab, NULL, "%s run -- gcc -c a.c && mv a.o real", lab.warm), 0);
    expect_told(&lab, "miss", 1);
    cr_assert_eq(
        sh(&lab, NULL, "%s run --report -- $(command -v gcc) -c a.c && cmp a.o real", lab.warm), 0);
    expect_told(&lab, "hit", 1);
    cr_assert_eq(sh(&lab, NULL, "rm a.o; %s run gcc -c a.c && cmp a.o real", lab.warm), 0);
    expect_told(&lab, "hit", 1);
    cr_assert_eq(sh(&lab, NULL, "WARM_DISABLE=1 %s run gcc -c a.c && %s run gcc-ar --version",
                    lab.warm, lab.warm),
                 0);
    cr_assert_eq(access(lab.debug, F_OK), -1, "neither went through us");
    lab_down(&lab);
}

Test(tool, a_name_without_a_slash_is_found_on_path)
{
    struct lab lab;
    char *out;
    if (!lab_up(&lab))
        return;
    write_text(&lab, "a.c", "int x;\n");
    cr_assert_eq(sh(&lab, &out, "%s tool -- gcc -c a.c", lab.warm), 0, "%s", out);
    free(out);
    expect_told(&lab, "miss", 1);
    cr_assert_eq(sh(&lab, NULL, GCC "-c a.c"), 0);
    expect_told(&lab, "hit", 1);
    cr_assert_eq(sh(&lab, &out, "%s tool -- no-such-gcc -c a.c", lab.warm), 127);
    cr_assert(strstr(out, "no-such-gcc: No such file") != NULL, "it says why: %s", out);
    free(out);
    lab_down(&lab);
}

Test(tool, eight_at_once_compile_once)
{
    struct lab lab;
    if (!lab_up(&lab))
        return;
    write_text(&lab, "a.cpp",
               "#include <vector>\nint main() { return (int)std::vector<int>(3).size(); }\n");
    cr_assert_eq(sh(&lab, NULL,
                    "for i in 1 2 3 4 5 6 7 8; do mkdir d$i; cp a.cpp d$i; done; "
                    "for i in 1 2 3 4 5 6 7 8; do "
                    "(cd d$i; TMPDIR=$PWD " GXX "$PWD/a.cpp -o a) & done; wait; "
                    "for i in 2 3 4 5 6 7 8; do cmp d1/a d$i/a || exit 9; done; d8/a"),
                 3);
    cr_assert_eq(told(&lab, "miss"), 1);
    expect_told(&lab, "hit", 7);
    lab_down(&lab);
}

Test(tool, without_a_daemon_the_compiler_runs)
{
    struct lab lab;
    if (!lab_up(&lab))
        return;
    write_text(&lab, "a.c", "int main(void) { return 5; }\n");
    cr_assert_eq(sh(&lab, NULL, "WARM_DISABLE=1 " GCC "a.c -o a; ./a"), 5);
    cr_assert_eq(sh(&lab, NULL, "rm a; WARM_SOCKET=/nowhere/s " GCC "a.c -o a; ./a"), 5);
    expect_told(&lab, "passed on", 2);
    cr_assert_eq(sh(&lab, NULL, "rm a; WARM_READONLY=1 " GCC "a.c -o a; ./a"), 5);
    kill(lab.d.pid, SIGSTOP);
    cr_assert_eq(sh(&lab, NULL, "rm a; WARM_TIMEOUT_MS=300 " GCC "a.c -o a; ./a"), 5,
                 "a daemon that hangs");
    kill(lab.d.pid, SIGCONT);
    cr_assert_eq(sh(&lab, NULL, "rm a; kill -9 %d; " GCC "a.c -o a; ./a", (int)lab.d.pid), 5);
    waitpid(lab.d.pid, NULL, 0);
    warmd_start(&lab.d, NULL);
    expect_cached(&lab, GCC "a.c -o a");
    lab_down(&lab);
}

Test(tool, an_output_that_cannot_be_replaced_is_left_to_the_compiler)
{
    struct lab lab;
    char *out;
    if (!lab_up(&lab))
        return;
    write_text(&lab, "a.c", "int n;\n");
    expect_cached(&lab, GCC "-c a.c -o a.o");
    cr_assert_eq(sh(&lab, &out, GCC "-c a.c -o missing/a.o"), 1);
    cr_assert(strstr(out, "missing/a.o") != NULL, "%s", out);
    free(out);
    lab_down(&lab);
}

/* SIGXFSZ would end `warm tool` on a hit, and the compiler by our log of its files. */
Test(tool, under_a_limit_on_the_size_of_files_the_compiler_runs_alone)
{
    struct lab lab;
    if (!lab_up(&lab))
        return;
    write_text(&lab, "a.cc", "#include <string>\nchar big[100000] = {1};\n");
    write_text(&lab, "small.cc", "#include <string>\nint n;\n");
    expect_cached(&lab, GXX "-c a.cc -o a.o");
    int plain = sh(&lab, NULL, "ulimit -f 16; g++ -c a.cc -o a.o");
    cr_assert_neq(plain, 0);
    cr_expect_eq(sh(&lab, NULL, "ulimit -f 16; " GXX "-c a.cc -o a.o"), plain, "a hit");
    cr_expect_eq(sh(&lab, NULL, "ulimit -f 16; " GXX "-c small.cc -o a.o"), 0,
                 "a long log of files");
    expect_told(&lab, "passed on: the limit on the size of files", 2);
    lab_down(&lab);
}

#define PCH "torchinductor_me/precompiled_headers"

/* Where TorchInductor makes its precompiled headers. */
static void write_header(struct lab *lab, const char *name, const char *text)
{
    char path[128];
    cr_assert_eq(sh(lab, NULL, "mkdir -p " PCH), 0);
    snprintf(path, sizeof path, PCH "/%s", name);
    write_text(lab, path, text);
}

/* First for real; then a stub that the compiler ignores, until a compile needs the real one. */
Test(tool, precompiled_headers_are_made_when_something_needs_them)
{
    struct lab lab;
    char *out;
    if (!lab_up(&lab))
        return;
    write_header(&lab, "h.h",
                 "#include \"deep.h\"\n#include \"twin.h\"\n"
                 "static inline int two(void) { return 2; }\n");
    write_header(&lab, "deep.h", "#define DEEP 40\n");
    write_header(&lab, "twin.h", "#define DEEP 40\n"); /* files of one content count */
    write_text(&lab, "a.cpp", "int main() { return two() + DEEP; }\n");
    write_text(&lab, "b.cpp", "int main() { return two() + DEEP + 1; }\n");
    const char *header = GXX "-x c++-header $PWD/" PCH "/h.h -o $PWD/" PCH "/h.h.gch";
    cr_assert_eq(sh(&lab, NULL, "%s", header), 0);
    cr_assert_eq(sh(&lab, NULL, GXX "-include $PWD/" PCH "/h.h $PWD/a.cpp -o a; ./a"), 42);
    cr_assert_eq(sh(&lab, &out, "head -c 4 " PCH "/h.h.gch"), 0);
    cr_assert(strcmp(out, "warm") != 0, "the first one is real");
    free(out);
    expect_told(&lab, "miss", 2);

    cr_assert_eq(sh(&lab, &out, "rm " PCH "/h.h.gch*; %s; head -c 13 " PCH "/h.h.gch", header), 0);
    cr_assert_str_eq(out, "warm-pch-stub");
    free(out);
    cr_assert_eq(sh(&lab, NULL, GXX "-include $PWD/" PCH "/h.h $PWD/a.cpp -o a; ./a"), 42);
    expect_told(&lab, "hit", 2);
    cr_assert_eq(sh(&lab, NULL, "/usr/bin/g++ -include " PCH "/h.h a.cpp -o a; ./a"), 42,
                 "without us");
    cr_assert_eq(sh(&lab, &out, "head -c 13 " PCH "/h.h.gch"), 0);
    cr_assert_str_eq(out, "warm-pch-stub");
    free(out);

    forget(&lab);
    cr_assert_eq(sh(&lab, NULL, GXX "-include $PWD/" PCH "/h.h $PWD/b.cpp -o b; ./b"), 43);
    expect_told(&lab, "miss", 1);
    cr_assert_eq(sh(&lab, &out, "head -c 3 " PCH "/h.h.gch"), 0);
    cr_assert_str_eq(out, "gpc", "now it is real");
    free(out);
    cr_assert_eq(sh(&lab, NULL, GXX "-include $PWD/" PCH "/h.h $PWD/b.cpp -o b; ./b"), 43);
    expect_told(&lab, "hit", 1);
    lab_down(&lab);
}

/* What is in the header is an input of what was compiled with it, stub or not. */
Test(tool, a_change_below_a_precompiled_header_is_a_miss)
{
    struct lab lab;
    if (!lab_up(&lab))
        return;
    write_header(&lab, "h.h", "#include \"deep.h\"\n");
    write_header(&lab, "deep.h", "#define DEEP 40\n");
    write_text(&lab, "a.cpp", "int main() { return DEEP; }\n");
    const char *header = GXX "-x c++-header $PWD/" PCH "/h.h -o $PWD/" PCH "/h.h.gch";
    cr_assert_eq(sh(&lab, NULL, "%s", header), 0);
    cr_assert_eq(sh(&lab, NULL, GXX "-include $PWD/" PCH "/h.h $PWD/a.cpp -o a; ./a"), 40);
    write_header(&lab, "deep.h", "#define DEEP 41\n");
    forget(&lab);
    cr_assert_eq(sh(&lab, NULL, "rm " PCH "/h.h.gch*; %s", header), 0);
    cr_assert_eq(sh(&lab, NULL, GXX "-include $PWD/" PCH "/h.h $PWD/a.cpp -o a; ./a"), 41);
    expect_told(&lab, "miss", 2);
    cr_assert_eq(sh(&lab, NULL,
                    "rm " PCH "/h.h.gch*; cp a.cpp h2.cpp; " GXX "-include $PWD/" PCH
                    "/h.h $PWD/a.cpp -o a; ./a"),
                 41, "no header at all");
    expect_told(&lab, "hit", 1);
    lab_down(&lab);
}

/* As PyTorch leaves it that ran before warm was there. */
Test(tool, a_header_of_others_counts_by_its_bytes)
{
    static const char make[] =
        "echo '#define DEEP %d' >h.h; /usr/bin/g++ -x c++-header h.h -o h.h.gch";
    static const char run[] = GXX "-include $PWD/h.h $PWD/a.cpp -o a; ./a";
    struct lab lab;
    if (!lab_up(&lab))
        return;
    write_text(&lab, "a.cpp", "int main() { return DEEP; }\n");
    cr_assert_eq(sh(&lab, NULL, make, 40), 0);
    cr_assert_eq(sh(&lab, NULL, "echo '#error' >h.h; cp h.h.gch forty; %s", run), 40);
    cr_assert_eq(sh(&lab, NULL, "rm a; %s", run), 40);
    expect_told(&lab, "hit", 1);
    cr_assert_eq(sh(&lab, NULL, make, 41), 0);
    cr_assert_eq(sh(&lab, NULL, "echo '#error' >h.h; %s", run), 41, "another header");
    cr_assert_eq(sh(&lab, NULL, "cp forty h.h.gch; %s", run), 40, "the first one again");
    cr_assert_eq(sh(&lab, NULL, "rm a h.h.gch; %s 2>&1", run), 127, "none: the text is an error");
    lab_down(&lab);
}

Test(tool, killed_in_mid_compile_it_leaves_the_lease_to_the_next)
{
    struct lab lab;
    if (!lab_up(&lab))
        return;
    write_text(&lab, "a.cpp",
               "#include <map>\n#include <string>\nint main() { std::map<std::string, "
               "int> m; m[\"a\"] = 6; return m[\"a\"]; }\n");
    cr_assert_eq(sh(&lab, NULL, GXX "a.cpp -o a & sleep 0.1; kill -9 $!; " GXX "a.cpp -o a; ./a"),
                 6);
    cr_assert_eq(sh(&lab, NULL, "rm a; " GXX "a.cpp -o a; ./a"), 6);
    expect_told(&lab, "hit", 1);
    lab_down(&lab);
}
