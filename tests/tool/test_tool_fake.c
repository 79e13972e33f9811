/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `warm tool` with a compiler of our own making, behind a gate: what many processes at once do, and
 * what a process that dies or interferes in the middle of a compile does to the others. As ptxas it
 * shows what counts in PTX.
 */
#include "tests/support/tool.h"

/*
 * gcc|ptxas … INPUT -o OUTPUT: copies, with the time of the file that the input's last .file names. Before
 * that (LATE=1: after that) it adds a line to the file "count", and waits for the file "gate"; by
 * system calls that no trace sees, since they would be inputs. Both are in its own folder.
 */
static const char fake[] =
    "#define _GNU_SOURCE\n"
    "#include <fcntl.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
    "#include <sys/stat.h>\n#include <sys/syscall.h>\n#include <time.h>\n#include <unistd.h>\n"
    "static void rendezvous(void) {\n"
    "  char exe[4096] = \"\", path[4200], line[64];\n"
    "  syscall(SYS_readlink, \"/proc/self/exe\", exe, sizeof exe - 1);\n"
    "  int n = (int)(strrchr(exe, '/') - exe);\n"
    "  snprintf(path, sizeof path, \"%.*s/count\", n, exe);\n"
    "  long fd = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_APPEND | O_CREAT, 0600);\n"
    "  int len = snprintf(line, sizeof line, \"%d\\n\", (int)getppid());\n"
    "  syscall(SYS_write, fd, line, len);\n"
    "  snprintf(path, sizeof path, \"%.*s/gate\", n, exe);\n"
    "  for (int i = 0; i < 20000 && syscall(SYS_faccessat, AT_FDCWD, path, F_OK); i++)\n"
    "    usleep(2000);\n"
    "}\n"
    "static void work(int seconds) {\n"
    "  for (volatile clock_t c = clock(); clock() - c < seconds * CLOCKS_PER_SEC;) continue;\n"
    "}\n"
    "int main(int argc, char **argv) {\n"
    "  char text[65536] = \"\", name[4096]; const char *in = 0, *out = 0; struct stat st = {0};\n"
    "  for (int i = 1; i < argc; i++)\n"
    "    if (!strcmp(argv[i], \"-o\")) out = argv[++i];\n"
    "    else if (argv[i][0] != '-') in = argv[i];\n"
    "    else if (!strcmp(argv[i], \"--version\")) { puts(\"fake 1.0\"); return 0; }\n"
    "    else if (!strcmp(argv[i], \"--no-such\")) { puts(\"what?\"); return 3; }\n"
    "  if (getenv(\"WORK\")) work(atoi(getenv(\"WORK\")));\n"
    "  int late = getenv(\"LATE\") != 0;\n"
    "  if (!late) rendezvous();\n"
    "  FILE *f = fopen(in, \"r\");\n"
    "  if (!f) return 1;\n"
    "  text[fread(text, 1, sizeof text - 1, f)] = 0;\n"
    "  fclose(f);\n"
    "  char *file = strstr(text, \".file\"), *end = file ? strrchr(file, '\"') : 0;\n"
    "  if (end) {\n"
    "    *end = 0; file = strrchr(file, '\"'); if (file) stat(strcpy(name, file + 1), &st);\n"
    "    *end = '\"';\n"
    "  }\n"
    "  f = fopen(out, \"w\");\n"
    "  if (!f) return 1;\n"
    "  fprintf(f, \"%s%ld\\n\", text, (long)st.st_mtime);\n"
    "  fclose(f);\n"
    "  if (late) rendezvous();\n"
    "  return 0;\n"
    "}\n";

/* Makes a lab whose bin/ has a compiler of this source under each of `names`. */
static bool compiler_up(struct lab *lab, const char *source, const char *names,
                        char *const *options)
{
    char *out;
    if (!lab_up_with(lab, options))
        return false;
    write_text(lab, "compiler.c", source);
    cr_assert_eq(sh(lab, &out,
                    "mkdir bin && /usr/bin/gcc -w compiler.c -o compiler && "
                    "for n in %s; do cp -p compiler bin/$n || exit 1; done",
                    names),
                 0, "%s", out);
    free(out);
    return true;
}

static bool fake_up(struct lab *lab) { return compiler_up(lab, fake, "gcc ptxas", NULL); }

/* The same with a daemon whose leases last a second without progress. */
static bool hasty_up(struct lab *lab)
{
    static char option[] = "--lease-timeout", value[] = "1s";
    return compiler_up(lab, fake, "gcc ptxas", (char *[]){option, value, NULL});
}

#define FAKE "$T $PWD/bin/gcc -- $PWD/bin/gcc "
#define AWAIT(condition)                                                                           \
    "i=0; until " condition "; do sleep 0.02; i=$((i+1)); [ $i -lt 1000 ] || exit 99; done; "
#define LINES(n) "[ -e bin/count ] && [ $(wc -l <bin/count) -ge " #n " ]"

/* Eight ranks, each with the same source in a folder of its own. */
#define RANKS                                                                                      \
    "for i in 1 2 3 4 5 6 7 8; do mkdir d$i; echo 'int x;' >d$i/a.c; "                             \
    "(exec " FAKE "-c $PWD/d$i/a.c -o $PWD/d$i/a.o) & done; "

Test(tool_fake, a_holder_that_is_killed_is_followed_by_one_of_those_who_wait)
{
    struct lab lab;
    if (!fake_up(&lab))
        return;
    cr_assert_eq(
        sh(&lab, NULL,
           RANKS AWAIT(LINES(1)) "sleep 0.3; [ $(wc -l <bin/count) = 1 ] || exit 98; "
                                 "kill -9 $(cat bin/count); " AWAIT(
                                     LINES(2)) "touch bin/gate; wait; ls d*/a.o | wc -l >made; "
                                               "cat d*/a.o | sort -u | wc -l >kinds; "
                                               "[ $(wc -l <bin/count) = 2 ] && grep -qx 7 made && "
                                               "grep -qx 2 kinds"),
        0, "two compiles, seven results, all alike");
    lab_down(&lab);
}

Test(tool_fake, all_wait_for_one_compile)
{
    struct lab lab;
    if (!fake_up(&lab))
        return;
    cr_assert_eq(sh(&lab, NULL,
                    RANKS AWAIT(LINES(1)) "touch bin/gate; wait; [ $(wc -l <bin/count) = 1 ] && "
                                          "[ $(ls d*/a.o | wc -l) = 8 ]"),
                 0);
    cr_assert_eq(told(&lab, "miss"), 1);
    expect_told(&lab, "hit", 7);
    lab_down(&lab);
}

/* The compiler works for several times the length of a lease. */
Test(tool_fake, all_wait_for_one_compile_as_long_as_it_makes_progress)
{
    struct lab lab;
    if (!hasty_up(&lab))
        return;
    write_text(&lab, "bin/gate", "");
    cr_assert_eq(sh(&lab, NULL,
                    "export WORK=5; " RANKS "wait; [ $(wc -l <bin/count) = 1 ] && "
                    "[ $(ls d*/a.o | wc -l) = 8 ]"),
                 0);
    cr_assert_eq(told(&lab, "miss"), 1);
    expect_told(&lab, "hit", 7);
    lab_down(&lab);
}

/* The first compiler is stopped before it made anything, in a way that its `warm tool` does not see. */
Test(tool_fake, a_compiler_that_is_stopped_does_not_hold_the_others)
{
    struct lab lab;
    if (!hasty_up(&lab))
        return;
    cr_assert_eq(sh(&lab, NULL,
                    RANKS AWAIT(LINES(
                        1)) "p=$(cat bin/count); c=$(cat /proc/$p/task/$p/children); "
                            "kill -STOP $c; touch bin/gate; " AWAIT(
                                "[ $(ls d*/a.o | wc -l) = 7 ]") "kill -CONT $c; wait; "
                                                                "[ $(ls d*/a.o | wc -l) = 8 ]"),
                 0);
    lab_down(&lab);
}

/* While the compiler runs on after it has written, another process puts its own file there. */
Test(tool_fake, a_file_that_another_put_in_the_outputs_place_is_not_kept)
{
    struct lab lab;
    if (!fake_up(&lab))
        return;
    write_text(&lab, "a.c", "int x;\n");
    cr_assert_eq(sh(&lab, NULL,
                    "export LATE=1; (exec " FAKE "-c a.c -o a.o) & " AWAIT(LINES(
                        1)) "rm a.o; echo poison >a.o; touch bin/gate; wait; grep -q poison a.o"),
                 0);
    expect_told(&lab, "not kept", 1);
    cr_assert_eq(sh(&lab, NULL, "LATE=1 " FAKE "-c a.c -o b.o && grep -q 'int x' b.o"), 0,
                 "the next one has its own");
    lab_down(&lab);
}

Test(tool_fake, a_header_that_changes_during_the_compile_keeps_its_result_out)
{
    struct lab lab;
    if (!fake_up(&lab))
        return;
    write_text(&lab, "a.c", "int x;\n");
    cr_assert_eq(sh(&lab, NULL,
                    "export LATE=1; (exec " FAKE "-c a.c -o a.o) & " AWAIT(
                        LINES(1)) "echo 'int y;' >a.c; touch bin/gate; wait; grep -q 'int x' a.o"),
                 0);
    cr_assert_eq(told(&lab, "hit"), 0);
    expect_told(&lab, "not kept", 1);
    lab_down(&lab);
}

/* ---- ptxas ---- */

#define PTXAS "$T $PWD/bin/ptxas -- $PWD/bin/ptxas "

static const char ptx[] = ".version 8.0\n.target sm_90\n.address_size 64\n"
                          ".visible .entry k(.param .u64 p)\n{\n"
                          ".reg .b64 %%rd<3>;\n.reg .b32 %%r<3>;\n"
                          ".loc 1 %d 1\nld.param.u64 %%rd1, [p];\nmov.u32 %%r1, %s;\n"
                          "st.global.u32 [%%rd1], %%r1;\nret;\n}\n.file 1 \"%s/k.py\"\n";

static void write_ptx(struct lab *lab, const char *name, int line, const char *value,
                      const char *folder)
{
    char text[2048];
    snprintf(text, sizeof text, ptx, line, value, folder);
    write_text(lab, name, text);
}

/* Hits of the second command after the first. */
static int hits_after(struct lab *lab, const char *first, const char *second)
{
    cr_assert_eq(sh(lab, NULL, "%s", first), 0, "%s", first);
    forget(lab);
    cr_assert_eq(sh(lab, NULL, "%s", second), 0, "%s", second);
    int hits = told(lab, "hit");
    forget(lab);
    return hits;
}

/* ptxas reads one file, so its runs have no list of files: what they were is told with their result. */
Test(tool_fake, why_names_the_option_and_the_source_of_ptxas)
{
    static const struct {
        const char *change, *options, *reason;
    } rows[] = {
        {":", "-arch sm_90 -O1", "option -O: (none) \xe2\x86\x92 -O1\n"},
        {":", "-arch sm_100", "option -arch: sm_90 \xe2\x86\x92 sm_100\n"},
        {"echo '// more' >>one.ptx; sed -i s/tid.x/tid.y/ one.ptx", "-arch sm_90",
         "in source one.ptx, which has changed\n"},
    };
    struct lab lab;
    char *out;
    if (!fake_up(&lab))
        return;
    write_text(&lab, "bin/gate", "");
    write_ptx(&lab, "one.ptx", 3, "%tid.x", lab.d.dir);
    cr_assert_eq(sh(&lab, NULL, PTXAS "-arch sm_90 one.ptx -o one.cubin"), 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cr_assert_eq(sh(&lab, NULL,
                        "%s; export WARM_SESSION=s%zu; " PTXAS "%s one.ptx -o one.cubin",
                        rows[i].change, i, rows[i].options),
                     0);
        cr_assert_eq(sh(&lab, &out, "%s why --session s%zu", lab.warm, i), 0);
        cr_expect(strstr(out, rows[i].reason), "%s: %s", rows[i].options, out);
        free(out);
    }
    lab_down(&lab);
}

Test(tool_fake, ptx_counts_by_its_code_if_the_cubin_has_no_line_table)
{
    static const char one[] = PTXAS "-suppress-debug-info -v --gpu-name=sm_90 one.ptx -o one.cubin";
    struct lab lab;
    if (!fake_up(&lab))
        return;
    write_text(&lab, "bin/gate", "");
    write_text(&lab, "k.py", "\n");
    write_ptx(&lab, "one.ptx", 3, "%tid.x", lab.d.dir);
    write_ptx(&lab, "moved.ptx", 7, "%tid.x", "/elsewhere");
    write_ptx(&lab, "other.ptx", 3, "%tid.y", lab.d.dir);
    static const struct {
        const char *options;
        int hits;
    } rows[] = {
        {"-suppress-debug-info -v --gpu-name=sm_90 moved.ptx", 1},
        {"-suppress-debug-info -v --gpu-name=sm_90 other.ptx", 0},
        {"-suppress-debug-info -v --gpu-name=sm_90a one.ptx", 0},
        {"-suppress-debug-info -v -O1 --gpu-name=sm_90 one.ptx", 0},
    };
    cr_assert_eq(hits_after(&lab, one, one), 1);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char command[512];
        snprintf(command, sizeof command, PTXAS "%s -o b%zu", rows[i].options, i);
        cr_expect_eq(hits_after(&lab, one, command), rows[i].hits, "%s", command);
    }
    cr_assert_eq(hits_after(&lab, one,
                            "WARM_TOOL_EXACT=1 " PTXAS
                            "-suppress-debug-info -v --gpu-name=sm_90 moved.ptx -o c"),
                 0);
    cr_assert_eq(hits_after(&lab, one,
                            "CAN_FINALIZE_DEBUG=1 " PTXAS
                            "-suppress-debug-info -v --gpu-name=sm_90 one.ptx -o g"),
                 0);
    lab_down(&lab);
}

/* ptxas writes the lines, and the file that they name, into the cubin: without -lineinfo too. */
Test(tool_fake, ptx_with_other_lines_is_another)
{
    static const char *const options[] = {"", "-lineinfo", "-g", "-g -suppress-debug-info"};
    static const char *const others[] = {"moved", "blank"};
    struct lab lab;
    if (!fake_up(&lab))
        return;
    write_text(&lab, "bin/gate", "");
    write_text(&lab, "k.py", "\n");
    write_ptx(&lab, "one.ptx", 3, "%tid.x", lab.d.dir);
    write_ptx(&lab, "moved.ptx", 7, "%tid.x", "/elsewhere");
    cr_assert_eq(
        sh(&lab, NULL, "sed 's/^ret/\\n\\nret/' one.ptx >blank.ptx; ! cmp -s one.ptx blank.ptx"),
        0);
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        char one[256], other[256];
        snprintf(one, sizeof one, PTXAS "%s --gpu-name=sm_90 one.ptx -o one.cubin", options[i]);
        cr_expect_eq(hits_after(&lab, one, one), 1, "%s", one);
        for (size_t k = 0; k < 2; k++) {
            snprintf(other, sizeof other, PTXAS "%s --gpu-name=sm_90 %s.ptx -o o.cubin", options[i],
                     others[k]);
            cr_expect_eq(hits_after(&lab, one, other), 0, "%s", other);
        }
    }
    lab_down(&lab);
}

/* ptxas reads the directive as tokens: the name may stand on another line, or behind a comment with a quote. */
Test(tool_fake, the_file_that_ptx_names_counts_however_the_directive_is_written)
{
    static const char *const spellings[] = {"\\n", "/* \" */"};
    struct lab lab;
    if (!fake_up(&lab))
        return;
    write_text(&lab, "bin/gate", "");
    write_ptx(&lab, "k.ptx", 3, "%tid.x", lab.d.dir);
    for (size_t i = 0; i < sizeof spellings / sizeof spellings[0]; i++) {
        write_text(&lab, "k.py", "\n");
        cr_assert_eq(sh(&lab, NULL, "sed 's|^.file 1|&%s|' k.ptx >one.ptx", spellings[i]), 0);
        static const char one[] = PTXAS "--gpu-name=sm_90 one.ptx -o one.cubin";
        static const char later[] =
            "touch -d '3 days ago' k.py; " PTXAS "--gpu-name=sm_90 one.ptx -o one.cubin";
        cr_expect_eq(hits_after(&lab, one, one), 1, "%s", spellings[i]);
        cr_expect_eq(hits_after(&lab, one, later), 0, "%s", spellings[i]);
    }
    lab_down(&lab);
}

/* With -lineinfo, the table has the PTX's own lines, even if it names no source. */
Test(tool_fake, the_lines_of_the_ptx_itself_count_with_line_information_alone)
{
    static const struct {
        const char *option;
        int hits;
    } rows[] = {{"", 1}, {"-lineinfo -suppress-debug-info", 1}, {"-lineinfo", 0}, {"-g", 0}};
    struct lab lab;
    if (!fake_up(&lab))
        return;
    write_text(&lab, "bin/gate", "");
    write_ptx(&lab, "lines.ptx", 3, "%tid.x", lab.d.dir);
    cr_assert_eq(sh(&lab, NULL,
                    "grep -v '^.loc\\|^.file' lines.ptx >one.ptx; sed 's/^ret/\\n\\nret/' one.ptx "
                    ">moved.ptx"),
                 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char one[256], other[256];
        snprintf(one, sizeof one, PTXAS "%s --gpu-name=sm_90 one.ptx -o a", rows[i].option);
        snprintf(other, sizeof other, PTXAS "%s --gpu-name=sm_90 moved.ptx -o b", rows[i].option);
        cr_expect_eq(hits_after(&lab, one, other), rows[i].hits, "%s", other);
    }
    lab_down(&lab);
}

/* With -g, ptxas writes its command into the cubin. */
Test(tool_fake, the_names_of_files_count_with_full_debug_output)
{
    struct lab lab;
    if (!fake_up(&lab))
        return;
    write_text(&lab, "bin/gate", "");
    write_ptx(&lab, "one.ptx", 3, "%tid.x", lab.d.dir);
    cr_assert_eq(sh(&lab, NULL, "cp one.ptx two.ptx"), 0);
    static const char one[] = PTXAS "-g --gpu-name=sm_90 one.ptx -o a";
    cr_expect_eq(hits_after(&lab, one, PTXAS "-g --gpu-name=sm_90 two.ptx -o a"), 0);
    cr_expect_eq(hits_after(&lab, one, PTXAS "-g --gpu-name=sm_90 one.ptx -o b"), 0);
    cr_expect_eq(hits_after(&lab, one, one), 1);
    lab_down(&lab);
}

/* Makes a lab whose compiler is going to be linked with a library, tiny.c, by the test. */
static bool linked_up(struct lab *lab)
{
    if (!fake_up(lab))
        return false;
    write_text(lab, "bin/gate", "");
    write_text(lab, "tiny.c", "int tiny(void) { return 1; }\n");
    write_ptx(lab, "one.ptx", 3, "%tid.x", lab->d.dir);
    return true;
}

/* The compiler finds its library in two folders of its own list. The first folder is empty. */
Test(tool_fake, a_library_that_newly_wins_by_the_compilers_own_list_is_a_miss)
{
    static const char run[] = "$T gcc -- $PWD/bin/gcc one.ptx -o one.o";
    struct lab lab;
    char *out;
    if (!linked_up(&lab))
        return;
    cr_assert_eq(
        sh(&lab, &out,
           "mkdir first second && /usr/bin/gcc -shared -fPIC tiny.c -o second/libtiny.so && "
           "/usr/bin/gcc -w compiler.c -o bin/gcc -Wl,--no-as-needed -Lsecond -ltiny "
           "-Wl,-rpath,'$ORIGIN/../first:'$PWD/second"),
        0, "%s", out);
    free(out);
    expect_cached(&lab, run);
    cr_assert_eq(sh(&lab, NULL, "cp second/libtiny.so first && %s", run), 0);
    expect_told(&lab, "miss", 1);
    cr_assert_eq(sh(&lab, NULL, "%s", run), 0);
    expect_told(&lab, "hit", 1);
    cr_assert_eq(sh(&lab, NULL, "rm first/libtiny.so && %s", run), 0);
    expect_told(&lab, "hit", 1);
    lab_down(&lab);
}

/* The library that asks for it has a list of folders of its own, which the loader finds by the caller. */
Test(tool_fake, a_library_that_a_compiler_loads_by_its_name_counts)
{
    static const char run[] = "$T gcc -- $PWD/bin/gcc one.ptx -o one.o";
    struct lab lab;
    char *out;
    if (!linked_up(&lab))
        return;
    write_text(&lab, "load.c",
               "#include <dlfcn.h>\n#include <stdlib.h>\n"
               "__attribute__((constructor)) static void load(void) {\n"
               "  dlopen(\"libnone.so\", RTLD_NOW);\n"
               "  if (!dlopen(\"libplug.so\", RTLD_NOW)) _Exit(9);\n}\n");
    cr_assert_eq(
        sh(&lab, &out,
           "mkdir first second && /usr/bin/gcc -shared -fPIC tiny.c -o second/libplug.so && "
           "/usr/bin/gcc -shared -fPIC load.c -o bin/libload.so -Wl,-rpath,$PWD/first:$PWD/second "
           "&& /usr/bin/gcc -w compiler.c -o bin/gcc -Wl,--no-as-needed -Lbin -lload "
           "-Wl,-rpath,$PWD/bin"),
        0, "%s", out);
    free(out);
    expect_cached(&lab, run);
    static const struct {
        const char *change, *told;
    } rows[] = {
        {"/usr/bin/gcc -DOTHER -shared -fPIC -g tiny.c -o second/libplug.so", "miss"},
        {"cp second/libplug.so wide && printf '\\001' | dd of=wide bs=1 seek=4 conv=notrunc 2>dd "
         "&& "
         "cp wide first/libplug.so",
         "miss"}, /* of 32 bits: the loader passes over it */
        {"cp second/libplug.so first/libplug.so", "miss"},
        {"rm first/libplug.so", "hit"},
        {"touch second/libother.so", "hit"},
        {"cp second/libplug.so first/libnone.so", "miss"},
        {"rm first/libnone.so", "hit"},
        {"mkdir -p first/glibc-hwcaps/x86-64-v2", "miss"},
        {"cp second/libplug.so first/glibc-hwcaps/x86-64-v2/libplug.so", "miss"},
        {"echo >>first/glibc-hwcaps/x86-64-v2/libplug.so", "miss"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cr_assert_eq(sh(&lab, &out, "%s && %s", rows[i].change, run), 0, "%s", out);
        free(out);
        expect_told(&lab, rows[i].told, 1);
    }
    lab_down(&lab);
}

/* A name is another file's after a change of the folder. */
Test(tool_fake, a_name_in_another_folder_is_another_input)
{
    static const char source[] =
        "#include <stdio.h>\n#include <string.h>\n#include <unistd.h>\n"
        "static void copy(const char *from, FILE *to) {\n"
        "  FILE *f = fopen(from, \"r\"); for (int c; f && (c = getc(f)) >= 0;) putc(c, to);\n"
        "  if (f) fclose(f); }\n"
        "int main(int argc, char **argv) {\n"
        "  (void)argc; FILE *out = fopen(argv[3], \"w\"); copy(argv[1], out); copy(\"h.h\", out);\n"
        "  if (chdir(\"sub\")) return 1;\n"
        "  copy(\"h.h\", out); return fclose(out); }\n";
    static const char run[] = "$T gcc -- $PWD/bin/gcc a.c -o a.o && cat a.o";
    struct lab lab;
    char *out;
    if (!compiler_up(&lab, source, "gcc", NULL))
        return;
    cr_assert_eq(sh(&lab, NULL, "mkdir sub && echo a >a.c && echo b >h.h && echo c >sub/h.h"), 0);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(sh(&lab, &out, "%s", run), 0);
        cr_assert_str_eq(out, "a\nb\nc\n");
        free(out);
    }
    expect_told(&lab, "hit", 1);
    cr_assert_eq(sh(&lab, &out, "echo d >sub/h.h; %s", run), 0);
    cr_assert_str_eq(out, "a\nb\nd\n");
    free(out);
    expect_told(&lab, "miss", 1);
    lab_down(&lab);
}

/* Writes k.ptx, with some lines of comment, which do not count. */
static void write_kernel(struct lab *lab, int comments, const char *body)
{
    char text[1024];
    snprintf(text, sizeof text,
             "%.*s.version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k()\n{\n%s\n}\n",
             4 * comments, "//c\n//d\n", body);
    write_text(lab, "k.ptx", text);
}

/* Messages name the file and its lines: those of another text of the same form are not taken. */
Test(tool_fake, ptx_that_fails_or_warns_goes_by_its_own_text)
{
    static const char compiler[] =
        "#include <stdio.h>\n#include <string.h>\n"
        "int main(int argc, char **argv) {\n"
        "  char line[512]; const char *in = argv[argc - 3], *out = argv[argc - 1]; int n = 0;\n"
        "  FILE *f = fopen(in, \"r\"); int bad = 0;\n"
        "  while (fgets(line, sizeof line, f)) {\n"
        "    n++;\n"
        "    if (strstr(line, \"rett\")) printf(\"ptxas %s, line %d; error : no\\n\", in, n), "
        "bad = 1;\n"
        "    if (strstr(line, \"bogus\")) printf(\"ptxas %s, line %d; warning : odd\\n\", in, n);\n"
        "  }\n"
        "  printf(\"ptxas info : Used 8 registers\\n\");\n"
        "  fclose(f); if (bad) return 255;\n"
        "  f = fopen(out, \"w\"); fputs(\"cubin\", f); return fclose(f); }\n";
    static const char *const bodies[] = {"rett;", ".pragma \"bogus\";\nret;", "ret;"};
    struct lab lab;
    char *out;
    if (!compiler_up(&lab, compiler, "ptxas", NULL))
        return;
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++)
        for (int comments = 0; comments < 4; comments++) {
            char *plain;
            write_kernel(&lab, comments & 1, bodies[i]);
            int status = sh(&lab, &plain, "bin/ptxas -arch=sm_90 k.ptx -o plain");
            cr_assert_eq(sh(&lab, &out, PTXAS "-arch=sm_90 k.ptx -o ours"), status);
            cr_assert_str_eq(out, plain);
            bool form = i == 2; /* nothing that it prints shows its text */
            expect_told(&lab, "hit", comments >= (form ? 1 : 2));
            free(plain), free(out);
        }
    lab_down(&lab);
}

Test(tool_fake, ptx_that_fails_leaves_no_file_of_another_place)
{
    static const char compiler[] = "int main(void) { return 255; }\n";
    struct lab lab;
    char *out;
    if (!compiler_up(&lab, compiler, "ptxas", NULL))
        return;
    write_kernel(&lab, false, "ret");
    cr_assert_eq(sh(&lab, &out, "echo old >a.cubin; " PTXAS "-arch=sm_90 k.ptx -o a.cubin"), 255);
    free(out);
    cr_assert_eq(sh(&lab, &out, PTXAS "-arch=sm_90 k.ptx -o b.cubin"), 255);
    free(out);
    expect_told(&lab, "hit", 1);
    cr_assert_eq(sh(&lab, &out, "cat a.cubin; ls b.cubin 2>/dev/null"), 2, "%s", out);
    cr_expect_str_eq(out, "old\n");
    free(out);
    lab_down(&lab);
}

Test(tool_fake, ptx_that_fails_for_want_of_a_folder_is_compiled_once_it_is_there)
{
    struct lab lab;
    if (!fake_up(&lab))
        return;
    write_kernel(&lab, false, "ret");
    cr_assert_eq(sh(&lab, NULL, "touch bin/gate; " PTXAS "-arch=sm_90 k.ptx -o d/a.cubin"), 1);
    cr_assert_eq(sh(&lab, NULL, "mkdir d; " PTXAS "-arch=sm_90 k.ptx -o d/a.cubin"), 0);
    lab_down(&lab);
}

/* ptxas writes its name into messages and cubins. The time of a compile is printed by that compile
 * alone. */
Test(tool_fake, a_hit_of_ptxas_prints_its_own_name_and_no_time)
{
    static const char compiler[] =
        "#include <stdio.h>\n#include <string.h>\n"
        "int main(int argc, char **argv) {\n"
        "  const char *name = strrchr(argv[0], '/') + 1; FILE *f = fopen(argv[argc - 1], \"w\");\n"
        "  printf(\"%s info    : Used 8 registers\\n\", name);\n"
        "  printf(\"%s info    : Compile time = 1.755 ms\\n\", name);\n"
        "  fputs(name, f); return fclose(f); }\n";
    static const char *const names[] = {"ptxas", "ptxas-blackwell"};
    struct lab lab;
    char *out, expected[256];
    if (!compiler_up(&lab, compiler, "ptxas ptxas-blackwell", NULL))
        return;
    for (size_t i = 0; i < 2; i++)
        for (int comments = 0; comments < 3; comments++) {
            write_kernel(&lab, comments, "ret;");
            int n =
                snprintf(expected, sizeof expected, "%s info    : Used 8 registers\n", names[i]);
            if (comments == 0)
                snprintf(expected + n, sizeof expected - (size_t)n,
                         "%s info    : Compile time = 1.755 ms\n", names[i]);
            cr_assert_eq(sh(&lab, &out,
                            "$T $PWD/bin/%s -- $PWD/bin/%s -v -arch=sm_90 k.ptx -o k.cubin",
                            names[i], names[i]),
                         0);
            cr_expect_str_eq(out, expected);
            free(out);
            cr_expect_eq(sh(&lab, NULL, "[ $(cat k.cubin) = %s ]", names[i]), 0);
            expect_told(&lab, comments ? "hit" : "miss", 1);
        }
    lab_down(&lab);
}

/* Several names are looked up, and then a lease is asked for: one miss for people. */
Test(tool_fake, a_compile_that_misses_is_one_miss_of_its_session)
{
    static const char *const commands[] = {
        PTXAS "-lineinfo --gpu-name=sm_90 one.ptx -o one.cubin",
        "$T gcc -- $PWD/bin/gcc one.ptx -o one.o",
    };
    struct lab lab;
    char *out;
    if (!fake_up(&lab))
        return;
    write_text(&lab, "bin/gate", "");
    write_ptx(&lab, "one.ptx", 3, "%tid.x", lab.d.dir);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        cr_assert_eq(sh(&lab, NULL, "export WARM_SESSION=first%zu; %s", i, commands[i]), 0);
        sh(&lab, &out, "%s why --session first%zu", lab.warm, i);
        cr_assert(strstr(out, "asked 1: 0 hits, 0 coalesced, 1 miss"), "%s", out);
        free(out);
        cr_assert_eq(sh(&lab, NULL, "export WARM_SESSION=then%zu; %s", i, commands[i]), 0);
        sh(&lab, &out, "%s why --session then%zu", lab.warm, i);
        cr_assert(strstr(out, "asked 1: 1 hit, 0 coalesced, 0 misses"), "%s", out);
        free(out);
    }
    lab_down(&lab);
}

/* ptxas writes time and size of the source beside the lines: the exact result is that of today's. */
Test(tool_fake, ptx_of_a_touched_source_is_another_where_lines_count)
{
    static const char exact[] =
        "export WARM_TOOL_EXACT=1; " PTXAS "-lineinfo --gpu-name=sm_90 one.ptx -o a; cp a first";
    struct lab lab;
    if (!fake_up(&lab))
        return;
    write_text(&lab, "bin/gate", "");
    write_text(&lab, "k.py", "\n");
    write_ptx(&lab, "one.ptx", 3, "%tid.x", lab.d.dir);
    cr_assert_eq(hits_after(&lab, exact, exact), 1);
    cr_assert_eq(hits_after(&lab, "touch -d '2 days ago' k.py", exact), 0);
    cr_assert_eq(sh(&lab, NULL, "tail -n 1 a | grep -qx $(stat -c %%Y k.py)"), 0);
    lab_down(&lab);
}

Test(tool_fake, what_ptxas_only_prints_is_known_and_what_nobody_knows_passes_through)
{
    struct lab lab;
    char *out;
    if (!fake_up(&lab))
        return;
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(sh(&lab, &out, PTXAS "--version"), 0);
        cr_assert_str_eq(out, "fake 1.0\n");
        free(out);
    }
    expect_told(&lab, "hit", 1);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(sh(&lab, &out, PTXAS "--no-such x.ptx"), 3);
        cr_assert_str_eq(out, "what?\n");
        free(out);
    }
    expect_told(&lab, "passed on", 2);
    cr_assert_eq(sh(&lab, &out, PTXAS "--version; echo >>bin/ptxas; " PTXAS "--version"), 0);
    cr_assert_str_eq(out, "fake 1.0\nfake 1.0\n");
    free(out);
    cr_assert_eq(told(&lab, "hit"), 1, "another ptxas is another key");
    lab_down(&lab);
}
