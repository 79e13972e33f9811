/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What decides whether `warm tool` takes a result from the cache, one thing at a time, with the real
 * gcc: all that can change what it leaves makes a miss, what cannot makes a hit, and what nobody can
 * tell is never kept.
 */
#include <sys/mman.h>

#include "tests/support/tool.h"

enum outcome { MISS, HIT, NEVER };

struct row {
    const char *what;
    enum outcome outcome;
    const char *first, *change, *second; /* second NULL: the first again */
};

/* Each row in a folder of its own, with a source and a header. */
static void run_row(struct lab *lab, size_t i, const struct row *row)
{
    static const char prepare[] =
        "mkdir %zu && cd %zu && echo '#define H 1' >h.h && mkdir one two && "
        "echo '#define TWO 1' >one/two.h && echo '#define TWO 2' >two/two.h && "
        "printf '#include \"h.h\"\\n#define UNUSED\\nint main(void) { return H; }\\nint "
        "row%zu;\\n' >a.c";
    char *out;
    forget(lab);
    cr_assert_eq(sh(lab, NULL, prepare, i, i, i), 0);
    cr_assert_eq(sh(lab, &out, "cd %zu && %s", i, row->first), 0, "%s: %s", row->what, out);
    if (told(lab, "hit")) {
        sh(lab, &out, "cat %s; cat %zu/a.c", lab->debug, i);
        cr_assert_fail("%s: known from before: %s", row->what, out);
    }
    forget(lab);
    free(out);
    cr_assert_eq(sh(lab, &out, "cd %zu && %s", i, row->change), 0, "%s: %s", row->what, out);
    free(out);
    cr_assert_eq(sh(lab, &out, "cd %zu && %s", i, row->second ? row->second : row->first), 0,
                 "%s: %s", row->what, out);
    free(out);
    int hits = told(lab, "hit"), misses = told(lab, "miss");
    cr_assert_eq(hits, row->outcome == HIT, "%s: %d hits", row->what, hits);
    if (row->outcome == MISS)
        cr_assert_eq(misses, 1, "%s: %d misses", row->what, misses);
}

static void run_rows(const struct row *rows, size_t n)
{
    struct lab lab;
    if (!lab_up(&lab))
        return;
    for (size_t i = 0; i < n; i++)
        run_row(&lab, i, &rows[i]);
    lab_down(&lab);
}

#define OBJECT GCC "-c a.c -o a.o"

/* The same command, in an environment with this. */
#define WITH(setting) setting " " OBJECT
/* one/libx.so, which needs two/liby.so. */
#define NEEDED                                                                                     \
    "echo 'int x;' >x.c; echo 'int y;' >y.c; /usr/bin/gcc -shared y.c -o two/liby.so; "            \
    "/usr/bin/gcc -shared x.c -Wl,--no-as-needed -Ltwo -ly -o one/libx.so; "

Test(tool_key, what_can_change_the_result_is_a_miss)
{
    static const struct row rows[] = {
        {"an option", MISS, OBJECT, "true", GCC "-O2 -c a.c -o a.o"},
        {"what is made", MISS, GCC "-c a.c -o x", "rm x", GCC "-S a.c -o x"},
        {"whether it goes to a file", MISS, GCC "-E a.c", "true", GCC "-E a.c -o x"},
        {"a macro", MISS, OBJECT, "true", GCC "-DX -c a.c -o a.o"},
        {"the order of macros", MISS, GCC "-DX=1 -UX -c a.c", "true", GCC "-UX -DX=1 -c a.c"},
        {"the language", MISS, OBJECT, "true", GCC "-x c++ -c a.c -o a.o"},
        {"an option of a family", MISS, GCC "-falign-loops=8 -c a.c", "true",
         GCC "-falign-loops=16 -c a.c"},
        {"the folder where that is shown", MISS, GCC "-fworking-directory -E a.c", "cp a.c h.h one",
         "cd one && " GCC "-fworking-directory -E a.c"},
        {"a random seed", MISS, GCC "-frandom-seed=1 -c a.c", "true", GCC "-frandom-seed=2 -c a.c"},
        {"the source", MISS, OBJECT, "echo 'int more;' >>a.c", NULL},
        {"a header", MISS, OBJECT, "echo '#define H 2' >h.h", NULL},
        {"a header of the same size and time", MISS, OBJECT,
         "touch -r h.h t; echo '#define H 3' >h.h; touch -r t h.h", NULL},
        {"another file by the header's name", MISS, OBJECT,
         "echo '#define H 4' >n.h; touch -r h.h n.h; mv n.h h.h", NULL},
        {"the order of folders", MISS, GCC "-Ione -Itwo -include two.h -c a.c", "true",
         GCC "-Itwo -Ione -include two.h -c a.c"},
        {"a folder of the environment", MISS, WITH("CPATH=one"), "true", WITH("CPATH=two")},
        {"a folder for C", MISS, WITH("C_INCLUDE_PATH=one"), "true", WITH("C_INCLUDE_PATH=two")},
        {"a folder of compilers", MISS, OBJECT, "true", WITH("COMPILER_PATH=$PWD/one")},
        {"another linker on PATH", MISS, GCC "a.c", "ln -s /usr/bin/ld one/ld",
         "PATH=$PWD/one:$PATH " GCC "a.c"},
        {"the language of messages", MISS, "LC_ALL=C " GCC "-Wunused-macros -c a.c", "true",
         "LC_ALL=de_DE.UTF-8 " GCC "-Wunused-macros -c a.c"},
        {"the time to show", MISS, WITH("SOURCE_DATE_EPOCH=1"), "true",
         WITH("SOURCE_DATE_EPOCH=2")},
        {"a variable known only from the trace", MISS, OBJECT, "true",
         WITH("BINUTILS_ROOT=$PWD/one")},
        {"another library in every program", MISS, OBJECT, "true",
         WITH("LD_PRELOAD=$(/usr/bin/gcc -print-file-name=libm.so.6)")},
        {"a folder of libraries that comes to be there", MISS, WITH("LD_LIBRARY_PATH=$PWD/new"),
         "mkdir new", NULL},
        {"a folder with a library that wins", MISS, OBJECT,
         "cp $(/usr/bin/gcc -print-file-name=libc.so.6) one", WITH("LD_LIBRARY_PATH=$PWD/one")},
        {"a folder with a library that comes to be there", MISS, WITH("LD_LIBRARY_PATH=$PWD/new"),
         "mkdir new && cp $(/usr/bin/gcc -print-file-name=libc.so.6) new", NULL},
        {"the working folder as one of libraries", MISS, WITH("LD_LIBRARY_PATH=/no:"),
         "cp $(/usr/bin/gcc -print-file-name=libz.so.1) .", NULL},
        {"variants of libraries", MISS, WITH("LD_LIBRARY_PATH=$PWD/one"), "mkdir one/glibc-hwcaps",
         NULL},
        {"a choice among variants of libraries", MISS, OBJECT, "true",
         WITH("GLIBC_TUNABLES=glibc.cpu.x86_shstk=off")},
        {"a library found earlier", MISS, WITH("LD_LIBRARY_PATH=$PWD/one"),
         "cp $(/usr/bin/gcc -print-file-name=libc.so.6) one", NULL},
        {"the assembler", MISS, "cp /usr/bin/as one; " GCC "-Bone/ -c a.c", "echo >>one/as",
         GCC "-Bone/ -c a.c"},
        {"the linker", MISS, "cp /usr/bin/ld one; " GCC "-Bone/ a.c", "echo >>one/ld",
         GCC "-Bone/ a.c"},
        {"a linker that appears", MISS, GCC "-Bone/ a.c", "cp /usr/bin/ld one", NULL},
        {"a library that is linked", MISS,
         "echo 'int x;' >x.c; /usr/bin/gcc -shared x.c -o libx.so; " GCC "a.c -L. -lx",
         "echo 'int y;' >>x.c; /usr/bin/gcc -shared x.c -o libx.so", GCC "a.c -L. -lx"},
        {"a library found earlier by the linker", MISS,
         "echo 'int x;' >x.c; /usr/bin/gcc -shared x.c -o two/libx.so; " GCC "a.c -Lone -Ltwo -lx",
         "cp two/libx.so one", GCC "a.c -Lone -Ltwo -lx"},
        {"a library that another needs, found elsewhere by the linker", MISS,
         NEEDED "LD_LIBRARY_PATH=$PWD/two " GCC "a.c -Wl,--no-as-needed -Lone -lx",
         "mkdir three; echo 'int y = 2, z;' >y.c; /usr/bin/gcc -shared y.c -o three/liby.so",
         "LD_LIBRARY_PATH=$PWD/three:$PWD/two " GCC "a.c -Wl,--no-as-needed -Lone -lx"},
        {"a library that another needs, no more found by the linker", MISS,
         NEEDED "LD_LIBRARY_PATH=$PWD/two " GCC "a.c -Wl,--no-as-needed -Lone -lx 2>&1", "true",
         "LD_LIBRARY_PATH=$PWD/none " GCC "a.c -Wl,--no-as-needed -Lone -lx 2>&1"},
        {"a folder in one word for the loader and two for the linker", MISS,
         NEEDED "LD_LIBRARY_PATH=$PWD/two " GCC "a.c -Wl,--no-as-needed -Lone -lx 2>&1", "true",
         "LD_LIBRARY_PATH=\"$PWD/none;$PWD/two\" " GCC "a.c -Wl,--no-as-needed -Lone -lx 2>&1"},
        {"a linker's script", MISS,
         "echo '{ };' >v; " GCC "-shared -fPIC -Wl,--version-script=v a.c",
         "echo '{ local: *; };' >v", GCC "-shared -fPIC -Wl,--version-script=v a.c"},
        {"an object", MISS, "/usr/bin/gcc -c a.c -o b.o; " GCC "b.o",
         "/usr/bin/gcc -O2 -c a.c -o b.o", GCC "b.o"},
        {"a target in a file of dependencies", MISS, GCC "-MMD -c a.c -o a.o", "true",
         GCC "-MMD -c a.c -o b.o"},
        {"where messages go", MISS, GCC "-Wunused-macros -c a.c >o 2>e", "true",
         GCC "-Wunused-macros -c a.c >o 2>&1"},
    };
    run_rows(rows, sizeof rows / sizeof rows[0]);
}

Test(tool_key, what_cannot_change_the_result_is_a_hit)
{
    static const struct row rows[] = {
        {"nothing", HIT, OBJECT, "true", NULL},
        {"an option of a family, again", HIT, GCC "-falign-loops=8 -c a.c", "true", NULL},
        {"a touched header", HIT, OBJECT, "touch -d '2 days ago' h.h", NULL},
        {"an equal header", HIT, OBJECT, "cp h.h n.h; mv n.h h.h", NULL},
        {"the output's name", HIT, OBJECT, "true", GCC "-c a.c -o other.o"},
        {"the places of -o and -c", HIT, OBJECT, "true", GCC "-o b.o a.c -c"},
        {"an output that is there", HIT, OBJECT, "echo old >a.o", NULL},
        {"files that nobody asked for", HIT, OBJECT, "touch other.h one/h2.h two/h3.h", NULL},
        {"a folder for what is temporary", HIT, OBJECT, "true", WITH("TMPDIR=$PWD/one")},
        {"a terminal's kind", HIT, OBJECT, "true", WITH("TERM=dumb")},
        {"a folder of libraries without one of the compiler's", HIT, OBJECT, "true",
         WITH("LD_LIBRARY_PATH=$PWD/one")},
        {"a folder on PATH without the linker", HIT, GCC "a.c", "true",
         "PATH=$PWD/one:$PATH " GCC "a.c"},
        {"such a folder below the working folder", HIT, "PATH=$PWD/one:$PATH " GCC "a.c", "true",
         "PATH=$PWD/two:$PATH " GCC "a.c"},
        {"another such folder", HIT, WITH("LD_LIBRARY_PATH=$PWD/one"), "touch one/libother.so.1",
         WITH("LD_LIBRARY_PATH=$PWD/two")},
        {"a folder of libraries without one that the linker needs", HIT,
         NEEDED "LD_LIBRARY_PATH=$PWD/two " GCC "a.c -Wl,--no-as-needed -Lone -lx",
         "mkdir three; touch three/libz.so",
         "LD_LIBRARY_PATH=$PWD/three:$PWD/two:$PWD/none " GCC "a.c -Wl,--no-as-needed -Lone -lx"},
        {"a folder of libraries that is not there", HIT, OBJECT, "true",
         WITH("LD_LIBRARY_PATH=$PWD/none:/no/such/folder")},
        {"what make says", HIT, OBJECT, "true", WITH("MAKEFLAGS='j8 --jobserver-auth=3,4'")},
        {"a variable that nobody asks for", HIT, OBJECT, "true", WITH("MY_OWN=1")},
        {"our own library in every program", HIT, OBJECT, "true",
         WITH("LD_PRELOAD=/usr/local/lib/libwarm-preload.so")},
        {"folders that are not there", HIT, GCC "-Inone -Iother -c a.c", "true",
         GCC "-Iother -c a.c"},
        {"the language of messages where there are none", HIT, WITH("LC_ALL=C"), "true",
         WITH("LC_ALL=C.UTF-8 LANG=de_DE.UTF-8 LANGUAGE=de")},
        {"where messages go where there are none", HIT, OBJECT " >o 2>e", "true",
         OBJECT " >o 2>&1"},
        {"the path by which the compiler is named", HIT, OBJECT, "true",
         "$T /usr/bin/gcc -- /usr/bin/gcc -c a.c -o a.o"},
        {"the priority", HIT, OBJECT, "true", "nice " OBJECT},
    };
    run_rows(rows, sizeof rows / sizeof rows[0]);
}

Test(tool_key, what_nobody_can_tell_is_never_kept)
{
    static const struct row rows[] = {
        {"a file of options that names another", NEVER, "echo @p >o; echo -O1 >p; " GCC "@o -c a.c",
         "true", NULL},
        {"a file of specs", NEVER, "echo >s; " GCC "-specs=s -c a.c", "true", NULL},
        {"a profile that is written", NEVER, GCC "-fprofile-generate -c a.c", "true", NULL},
        {"coverage", NEVER, GCC "--coverage -c a.c", "true", NULL},
        {"the file's time", NEVER, "echo 'char *t = __TIMESTAMP__;' >>a.c; " OBJECT, "true",
         OBJECT},
        {"dependencies for make", NEVER, WITH("DEPENDENCIES_OUTPUT=d"), "true", NULL},
        {"an output with two names", NEVER, "touch b.o; ln b.o a.o; " OBJECT, "true", NULL},
        {"an output that only we may read", NEVER, "touch a.o; chmod 600 a.o; " OBJECT, "true",
         NULL},
        {"a device", NEVER, GCC "-c a.c -o /dev/null", "true", NULL},
        {"a pipe for a header", NEVER, "rm h.h; mkfifo h.h; (echo '#define H 1' >h.h &) ; " OBJECT,
         "true", NULL},
    };
    run_rows(rows, sizeof rows / sizeof rows[0]);
}

#define PCH "torchinductor_me/precompiled_headers"

/* An old header of ours: the compiler would use it, so no result of the new text is taken. */
Test(tool_key, a_precompiled_header_that_is_out_of_date_counts_as_the_compiler_takes_it)
{
    struct lab lab;
    if (!lab_up(&lab))
        return;
    cr_assert_eq(sh(&lab, NULL, "mkdir -p " PCH), 0);
    write_text(&lab, PCH "/h.h", "#include \"deep.h\"\n");
    write_text(&lab, PCH "/deep.h", "#define DEEP 41\n");
    write_text(&lab, "a.c", "int main(void) { return DEEP; }\n");
    static const char compile[] = GCC "-include $PWD/" PCH "/h.h $PWD/a.c -o a; ./a";
    cr_assert_eq(sh(&lab, NULL, compile), 41);
    write_text(&lab, PCH "/deep.h", "#define DEEP 40\n");
    cr_assert_eq(sh(&lab, NULL, GCC "-x c-header $PWD/" PCH "/h.h -o $PWD/" PCH "/h.h.gch"), 0);
    write_text(&lab, PCH "/deep.h", "#define DEEP 41\n");
    cr_assert_eq(sh(&lab, NULL, "/usr/bin/gcc -include $PWD/" PCH "/h.h $PWD/a.c -o a; ./a"), 40);
    forget(&lab);
    cr_assert_eq(sh(&lab, NULL, compile), 40, "as without us");
    expect_told(&lab, "hit", 0);
    lab_down(&lab);
}

/* The page is dirty at the second write, which does not set the file's times. Once the file has settled, the tool cleans
 * the page, so the last one does. */
Test(tool_key, what_is_written_through_a_mapping_is_seen)
{
    struct lab lab;
    if (!lab_up(&lab))
        return;
    write_text(&lab, "h.h", "#define H 1\n");
    write_text(&lab, "a.c", "#include \"h.h\"\nint main(void) { return H; }\n");
    char *path = path_join(lab.d.dir, "h.h");
    int fd = open(path, O_RDWR);
    char *text = mmap(NULL, 12, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    cr_assert(text != MAP_FAILED);
    for (int i = 2; i < 6; i++) {
        if (i > 3)
            usleep(2100000); /* file_state.c: SETTLED_NS */
        text[10] = (char)('0' + i);
        cr_expect_eq(sh(&lab, NULL, GCC "a.c -o a; ./a"), i);
        expect_told(&lab, "miss", 1);
        cr_expect_eq(sh(&lab, NULL, GCC "a.c -o a; ./a"), i);
        expect_told(&lab, "hit", 1);
    }
    munmap(text, 12);
    close(fd);
    free(path);
    lab_down(&lab);
}

Test(tool_key, permissions_are_those_of_a_new_file)
{
    struct lab lab;
    char *real, *ours;
    if (!lab_up(&lab))
        return;
    write_text(&lab, "a.c", "int main(void) { return 0; }\n");
    cr_assert_eq(sh(&lab, NULL, GCC "a.c -o a && " GCC "-c a.c -o a.o"), 0);
    cr_assert_eq(sh(&lab, &real,
                    "rm a a.o; umask 027; /usr/bin/gcc a.c -o a; /usr/bin/gcc -c a.c -o a.o; %s",
                    "stat -c %a a a.o; rm a a.o"),
                 0);
    forget(&lab);
    cr_assert_eq(sh(&lab, &ours, "umask 027; " GCC "a.c -o a; " GCC "-c a.c -o a.o; %s",
                    "stat -c %a a a.o; rm a a.o"),
                 0);
    expect_told(&lab, "hit", 2);
    cr_assert_str_eq(ours, real);
    free(real), free(ours);
    lab_down(&lab);
}

/* The message names the output file, so a run with another name gets its own message. */
Test(tool_key, messages_name_the_callers_own_output)
{
    struct lab lab;
    char *real, *ours;
    if (!lab_up(&lab))
        return;
    write_text(&lab, "a.c", "int main(void) { return 0; }\n");
    cr_assert_eq(sh(&lab, NULL, GCC "-v a.c -o first"), 0);
    cr_assert_eq(sh(&lab, &real, "/usr/bin/gcc -v a.c -o second 2>&1 | grep -c -w second"), 0);
    cr_assert_eq(sh(&lab, &ours, GCC "-v a.c -o second 2>&1 | grep -c -w second"), 0);
    cr_assert_str_eq(ours, real);
    free(real), free(ours);
    lab_down(&lab);
}

/* On a terminal gcc colours and folds: `script` gives it one. */
Test(tool_key, a_terminal_gets_what_it_would_get)
{
    struct lab lab;
    char *real, *ours, *again;
    if (!lab_up(&lab))
        return;
    if (sh(&lab, NULL, "script -qec true /dev/null </dev/null") != 0) {
        fprintf(stderr, "skipped: no program `script`, or no terminals\n");
        lab_down(&lab);
        return;
    }
    write_text(&lab, "bad.c", "int main(void) { return x; }\n");
    cr_assert_eq(sh(&lab, &real,
                    "export TERM=xterm; script -qec '/usr/bin/gcc bad.c' /dev/null </dev/null; :"),
                 0);
    static const char ask[] = "export TERM=xterm; script -qec \"" GCC "bad.c\" /dev/null "
                              "</dev/null; :";
    cr_assert_eq(sh(&lab, &ours, ask), 0);
    cr_assert_eq(sh(&lab, &again, ask), 0);
    expect_told(&lab, "hit", 1);
    cr_assert(strstr(real, "\033[") != NULL, "it is coloured: %s", real);
    cr_assert_str_eq(ours, real);
    cr_assert_str_eq(again, real);
    free(real), free(ours), free(again);
    lab_down(&lab);
}

Test(tool_key, a_folder_of_PATH_that_a_user_cannot_search_costs_no_hit)
{
    NEEDS_TWO_USERS();
    struct warmd d = warmd_up(NULL);
    char *dir = temp_dir_new(), *program = public_path("bin/warm"), *out;
    int rc = run_command(
        &out,
        "exec 2>&1; cd %s; mkdir closed home; chown 4242 . home; chmod 700 closed; echo 'int x;' "
        ">a.c\n"
        "for i in 1 2; do WARM_SOCKET=%s HOME=$PWD/home PATH=$PWD/closed/bin:/usr/bin:/bin setpriv "
        "--reuid 4242 --regid 4242 --clear-groups %s run --report gcc -c a.c -o a.o; done",
        dir, d.socket, program);
    cr_expect(rc == 0 && strstr(out, "asked 1: 1 hit,"), "%s", out);
    free(out);
    free(program);
    temp_dir_free(dir);
    warmd_down(&d);
}

/* AOTInductor links a model's weights from a folder below that of its code. */
Test(tool_key, a_link_of_generated_objects_in_a_folder_and_below_it_hits_elsewhere)
{
    static const char link[] =
        "F=$PWD/%s/torchinductor_me/ab; mkdir -p $F/w %s/work && cp a.o $F/a.o && cp b.o $F/w/b.o "
        "&& "
        "cd %s/work && " GXX "-g1 -shared $F/a.o $F/w/b.o -o $F/m.so && "
        "g++ -g1 -shared $F/a.o $F/w/b.o -o fresh.so && cmp fresh.so $F/m.so";
    static const char *const folders[] = {"one", "two/deeper"};
    struct lab lab;
    char *out;
    if (!lab_up(&lab))
        return;
    cr_assert_eq(sh(&lab, NULL,
                    "echo 'int f() { return 4; }' | g++ -g1 -fPIC -xc++ -c - -o a.o && "
                    "echo 'int g() { return 5; }' | g++ -fPIC -xc++ -c - -o b.o"),
                 0);
    for (size_t i = 0; i < 2; i++) {
        const char *f = folders[i];
        cr_assert_eq(sh(&lab, &out, link, f, f, f), 0, "%s", out);
        free(out);
        expect_told(&lab, "hit", (int)i);
    }
    lab_down(&lab);
}
