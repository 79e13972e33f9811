/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compilers that a program starts, by whatever call of libc, go through `warm tool`: with the real
 * libwarm-preload.so, and a stand-in for `warm` that prints its command line.
 */
#include <criterion/criterion.h>
#include <elf.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/exec/elf.h"
#include "tests/support/support.h"

struct lab {
    char *dir, *preload, *warm;
};

static bool lab_up(struct lab *lab)
{
    char *bin = bin_path("warm");
    cr_assert(asprintf(&lab->preload, "%.*s/lib/libwarm-preload.so",
                       (int)(strlen(bin) - strlen("/bin/warm")), bin) > 0);
    free(bin);
    if (access(lab->preload, R_OK) < 0) {
        free(lab->preload);
        fprintf(stderr, "skipped: no libwarm-preload.so in this build\n");
        return false;
    }
    static const char script[] = "#!/bin/sh\necho \"warm $*\"\necho \"MARK=$MARK\"\n";
    static const char compiler[] = "#!/bin/sh\necho \"real $*\"\n";
    lab->dir = temp_dir_new();
    lab->warm = path_join(lab->dir, "warm");
    file_write(lab->warm, script, strlen(script));
    chmod(lab->warm, 0755);
    static const char *const names[] = {"g++",     "my-g++-12", "ptxas", "ptxas-blackwell",
                                        "notg++x", "lib.gcc.d"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char *path = path_join(lab->dir, names[i]);
        file_write(path, compiler, strlen(compiler));
        chmod(path, 0755);
        free(path);
    }
    return true;
}

static void lab_down(struct lab *lab)
{
    temp_dir_free(lab->dir);
    free(lab->preload);
    free(lab->warm);
}

/* What a shell command prints, $D being the lab's folder and first on PATH; trimmed to its lines.
 * What a make around the tests tells the makes below it is not for ours. */
static char *sh(const struct lab *lab, const char *command)
{
    char *out;
    int status = run_command(&out,
                             "cd %s && unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES && "
                             "D=$PWD PATH=$PWD:/usr/bin:/bin WARM_EXE=%s MARK=kept "
                             "WARM_DISABLE= WARM_TOOL_ACTIVE= LD_PRELOAD=%s sh -c '%s' 2>&1",
                             lab->dir, lab->warm, lab->preload, command);
    cr_assert_geq(status, 0);
    return out;
}

static void expect(const struct lab *lab, const char *command, const char *format)
{
    char *out = sh(lab, command), *want;
    cr_assert(asprintf(&want, format, lab->dir, lab->dir, lab->dir) >= 0);
    cr_assert_str_eq(out, want, "`%s` prints\n%s", command, out);
    free(want);
    free(out);
}

Test(exec, a_shell_starts_compilers_through_warm)
{
    struct lab lab;
    if (!lab_up(&lab))
        return;
    expect(&lab, "g++ -c \"a b.c\"", "warm tool --argv0 g++ -- %s/g++ -c a b.c\nMARK=kept\n");
    expect(&lab, "$D/my-g++-12 x", "warm tool --argv0 %s/my-g++-12 -- %s/my-g++-12 x\nMARK=kept\n");
    expect(&lab, "exec ptxas-blackwell",
           "warm tool --argv0 ptxas-blackwell -- %s/ptxas-blackwell\nMARK=kept\n");
    expect(&lab, "notg++x 1; lib.gcc.d 2", "real 1\nreal 2\n");
    lab_down(&lab);
}

Test(exec, nothing_changes_where_it_is_not_wanted)
{
    struct lab lab;
    if (!lab_up(&lab))
        return;
    expect(&lab, "WARM_DISABLE=1 g++ x", "real x\n");
    expect(&lab, "WARM_TOOL_ACTIVE=1 g++ x", "real x\n");
    expect(&lab, "WARM_EXE= g++ x", "real x\n");
    expect(&lab, "WARM_EXE=/nowhere/warm g++ x", "real x\n");
    expect(&lab, "unset WARM_EXE; g++ x", "real x\n");
    expect(&lab, "env -i PATH=$PATH g++ x", "real x\n");
    lab_down(&lab);
}

Test(exec, errors_are_the_kernels_own)
{
    struct lab lab;
    if (!lab_up(&lab))
        return;
    expect(&lab, "$D/none/g++; echo $?", "sh: 1: %s/none/g++: not found\n127\n");
    expect(&lab, "chmod -x $D/g++; $D/g++; echo $?", "sh: 1: %s/g++: Permission denied\n126\n");
    lab_down(&lab);
}

Test(exec, make_and_env_find_it_too)
{
    struct lab lab;
    if (!lab_up(&lab))
        return;
    expect(&lab, "printf \"all:\\n\\t@g++ -o x\\n\" | make -s -f -",
           "warm tool --argv0 g++ -- %s/g++ -o x\nMARK=kept\n");
    expect(&lab, "env MARK=other g++", "warm tool --argv0 g++ -- %s/g++\nMARK=other\n");
    lab_down(&lab);
}

/* Each call of libc, from a program of ours that is started with the library. Between vfork and exec
 * nothing may be allocated: the memory is the parent's. */
static const char calls[] =
    "#define _GNU_SOURCE\n"
    "#include <spawn.h>\n#include <stdlib.h>\n#include <string.h>\n#include <sys/wait.h>\n"
    "#include <unistd.h>\nextern char **environ;\n"
    "static volatile int vforked;\n"
    "void *__libc_malloc(size_t);\n"
    "void *malloc(size_t n) { if (vforked) _exit(77); return __libc_malloc(n); }\n"
    "int main(int argc, char **argv) {\n"
    "  char *a[] = {\"g++\", \"x\", 0}, *p = argv[2]; const char *how = argv[1]; pid_t pid = 0;\n"
    "  if (argc < 3) return 1;\n"
    "  if (!strcmp(how, \"spawn\")) posix_spawn(&pid, p, 0, 0, a, environ);\n"
    "  else if (!strcmp(how, \"spawnp\")) posix_spawnp(&pid, \"g++\", 0, 0, a, environ);\n"
    "  else if (!strcmp(how, \"system\")) return system(\"g++ x\");\n"
    "  else if ((pid = !strncmp(how, \"v\", 1) ? vfork() : fork()) == 0) {\n"
    "    vforked = how[0] == 'v';\n"
    "    if (strstr(how, \"execve\")) execve(p, a, environ);\n"
    "    if (strstr(how, \"execvpe\")) execvpe(\"g++\", a, environ);\n"
    "    if (strstr(how, \"execvp\")) execvp(\"g++\", a);\n"
    "    if (strstr(how, \"execv\")) execv(p, a);\n"
    "    if (strstr(how, \"execlp\")) execlp(\"g++\", \"g++\", \"x\", (char *)0);\n"
    "    if (strstr(how, \"execle\")) execle(p, \"g++\", \"x\", (char *)0, environ);\n"
    "    if (strstr(how, \"execl\")) execl(p, \"g++\", \"x\", (char *)0);\n"
    "    _exit(9);\n"
    "  }\n"
    "  vforked = 0;\n"
    "  int status; waitpid(pid, &status, 0); return status;\n"
    "}\n";

Test(exec, every_call_of_libc)
{
    static const char *const names[] = {"spawn",    "spawnp",   "system",    "execve",  "execvpe",
                                        "execvp",   "execv",    "execlp",    "execle",  "execl",
                                        "v-execve", "v-execvp", "v-execvpe", "v-execv", "v-execl",
                                        "v-execlp", "v-execle"};
    struct lab lab;
    char *out;
    if (!lab_up(&lab))
        return;
    char *source = path_join(lab.dir, "calls.c");
    file_write(source, calls, strlen(calls));
    cr_assert_eq(run_command(&out, "/usr/bin/gcc -w %s -o %s/calls 2>&1", source, lab.dir), 0, "%s",
                 out);
    free(out);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char command[64];
        snprintf(command, sizeof command, "$D/calls %s $D/g++", names[i]);
        expect(&lab, command, "warm tool --argv0 g++ -- %s/g++ x\nMARK=kept\n");
    }
    free(source);
    lab_down(&lab);
}

/* ---- AddressSanitizer ---- */

/* Starts ./checked by another call of libc in each way, and prints its status. */
static const char starter[] =
    "import os, subprocess, sys\n"
    "way = sys.argv[1]\n"
    "if way == 'subprocess': print(subprocess.call(['./checked']))\n"
    "if way == 'name': print(subprocess.call(['checked']))\n"
    "if way == 'system': print(os.waitstatus_to_exitcode(os.system('./checked; exit $?')))\n"
    "spawn = {'spawn': os.posix_spawn, 'spawnp': os.posix_spawnp}.get(way)\n"
    "if spawn:\n"
    "    pid = spawn('./checked' if way == 'spawn' else 'checked', ['checked'], os.environ)\n"
    "    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n";

/* Prints the libraries that are preloaded into it. */
static const char says[] = "#include <stdio.h>\n#include <stdlib.h>\n"
                           "int main(void) { puts(getenv(\"LD_PRELOAD\")); return 7; }\n";

/* Makes `checked`, of which AddressSanitizer's shared runtime must be the first library, and a script for it. */
static bool checked_up(struct lab *lab)
{
    char *out;
    if (!lab_up(lab))
        return false;
    char *source = path_join(lab->dir, "c.c"), *python = path_join(lab->dir, "start.py");
    file_write(source, says, strlen(says));
    file_write(python, starter, strlen(starter));
    int rc = run_command(&out,
                         "exec 2>&1; cd %s && gcc -fsanitize=address -o checked c.c && "
                         "printf '#!%%s/checked\n' $PWD >script && chmod +x script",
                         lab->dir);
    cr_assert_eq(rc, 0, "%s", out);
    free(out), free(source), free(python);
    return true;
}

Test(exec, programs_with_address_sanitizer_start_whatever_starts_them)
{
    static const char *const ways[] = {"./checked; echo $?",     "./script; echo $?",
                                       "env checked; echo $?",   "python3 start.py subprocess",
                                       "python3 start.py name",  "python3 start.py system",
                                       "python3 start.py spawn", "python3 start.py spawnp"};
    struct lab lab;
    if (!checked_up(&lab))
        return;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        expect(&lab, ways[i], "\n7\n"); /* nothing is preloaded */
    lab_down(&lab);
}

Test(exec, the_users_own_preloaded_libraries_stay)
{
    struct lab lab;
    if (!checked_up(&lab))
        return;
    expect(&lab,
           "ASAN_OPTIONS=verify_asan_link_order=0 LD_PRELOAD=libm.so.6:$LD_PRELOAD:libdl.so.2 "
           "./checked",
           "libm.so.6:libdl.so.2\n");
    lab_down(&lab);
}

Test(exec, programs_that_musl_loads_start_whatever_starts_them)
{
    struct lab lab;
    char *out;
    if (!checked_up(&lab))
        return;
    int rc = run_command(&out, "exec 2>&1; cd %s && musl-gcc -o checked c.c", lab.dir);
    cr_assert_eq(rc, 0, "%s", out);
    free(out);
    expect(&lab, "./checked; echo $?", "\n7\n");
    expect(&lab, "./script; echo $?", "\n7\n");
    expect(&lab, "python3 start.py spawnp", "\n7\n");
    lab_down(&lab);
}

/* A program for another processor, which nothing here runs: a processor's number stands in its header. */
Test(exec, programs_of_another_processor_and_word_size_start_without_the_library)
{
    static const struct {
        size_t at;
        char value;
    } changes[] = {{EI_CLASS, ELFCLASS32}, {offsetof(Elf64_Ehdr, e_machine), EM_386}};
    struct lab lab;
    size_t len;
    if (!lab_up(&lab))
        return;
    char *path = path_join(lab.dir, "other"), *bytes = file_read("/bin/sh", &len);
    file_write(path, bytes, len);
    cr_expect(!elf_cannot_load_ours(path));
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        char was = bytes[changes[i].at];
        bytes[changes[i].at] = changes[i].value;
        file_write(path, bytes, len);
        cr_expect(elf_cannot_load_ours(path), "%zu", i);
        bytes[changes[i].at] = was;
    }
    free(path), free(bytes);
    lab_down(&lab);
}

/* As in a chroot: the dynamic linker would complain of the absent library on standard error. */
Test(exec, a_program_that_cannot_reach_the_library_starts_without_it)
{
    struct lab lab;
    if (!lab_up(&lab))
        return;
    expect(&lab,
           "cp $LD_PRELOAD . && LD_PRELOAD=$PWD/libwarm-preload.so sh -c '\\''"
           "rm libwarm-preload.so; /bin/true; printenv LD_PRELOAD'\\''",
           "\n");
    lab_down(&lab);
}
