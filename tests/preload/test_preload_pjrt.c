/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_preload_pjrt.c - PJRT plugins under libwarm-preload.so, with a stand-in for the plugin and a
 * program on it (tests/fakepjrt), both built here; a real daemon. What the plugin notes in a file
 * says what it was asked to do.
 */
#include <sched.h>

#include "tests/support/warmd.h"

struct rig {
    struct warmd kit;
    char *preload, *calls; /* the file of the plugin's notes */
};

#define PROGRAM "func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n  "
#define ADD "%0 = stablehlo.add %x, %x : tensor<4xf32>\n  return %0 : tensor<4xf32>\n}"
#define CALL(target)                                                                               \
    "%0 = stablehlo.custom_call @" target                                                          \
    "(%x) {api_version = 4 : i32} : (tensor<4xf32>) -> tensor<4xf32>\n"                            \
    "  return %0 : tensor<4xf32>\n}"

static void write_program(struct rig *r, const char *name, const char *text)
{
    char *path = path_join(r->kit.dir, name);
    file_write(path, text, strlen(text));
    free(path);
}

/* The programs of all tests. */
static void write_programs(struct rig *r)
{
    write_program(r, "a", "module @a {\n" PROGRAM ADD "\n}\n");
    write_program(r, "renamed", "module @step_7 {\n " PROGRAM ADD " loc(\"f.py\":3:1)\n}\n");
    write_program(r, "fails",
                  "module @a {\n" PROGRAM "%9 = \"x.fails\"(%x) : (tensor<4xf32>) -> "
                  "tensor<4xf32>\n  return %9 : tensor<4xf32>\n}\n}\n");
    write_program(r, "call", "module @a {\n" PROGRAM CALL("my_kernel") "\n}\n");
    write_program(r, "bound", "module @a {\n" PROGRAM CALL("xla_python_cpu_callback") "\n}\n");
    write_program(r, "sharded", "module @a {\n" PROGRAM CALL("Sharding") "\n}\n");
}

static void build(struct rig *r, const char *what, const char *flags)
{
    char *out;
    int status = run_command(&out,
                             "cc -I. -D_GNU_SOURCE -std=c11 %s -o %s/%s tests/fakepjrt/%s.c "
                             "-ldl 2>&1",
                             flags, r->kit.dir, what, what);
    cr_assert_eq(status, 0, "%s: %s", what, out);
    free(out);
}

/* False, and the test is skipped, where nothing is built to be preloaded (sanitizers). */
static bool rig_up(struct rig *r)
{
    *r = (struct rig){.preload = bin_path("../lib/libwarm-preload.so")};
    if (access(r->preload, R_OK) != 0) {
        free(r->preload);
        cr_skip_test("libwarm-preload.so is not part of this build");
        return false;
    }
    r->kit = warmd_up(NULL);
    r->calls = path_join(r->kit.dir, "calls");
    build(r, "plugin", "-shared -fPIC");
    build(r, "client", "");
    write_programs(r);
    return true;
}

static void rig_down(struct rig *r)
{
    warmd_down(&r->kit);
    free(r->preload);
    free(r->calls);
}

/* Runs the program with `environment` in front; what it printed must be `want`. Gives the plugin's
 * notes of this run, in one line, until the next run. */
static const char *run_client(struct rig *r, const char *environment, const char *commands,
                              const char *want)
{
    static char calls[1024];
    char *out;
    file_write(r->calls, "", 0);
    int status =
        run_command(&out,
                    "cd %s && FAKE_PJRT_LOG=%s WARM_SOCKET=%s %s LD_PRELOAD=%s ./client "
                    "$PWD/plugin %s 2>&1",
                    r->kit.dir, r->calls, r->kit.socket, environment, r->preload, commands);
    cr_assert_eq(status, 0, "%s", out);
    if (want)
        cr_assert_str_eq(out, want);
    free(out);
    size_t len;
    char *text = file_read(r->calls, &len);
    for (char *c = text; *c; c++)
        *c = *c == '\n' ? ' ' : *c;
    snprintf(calls, sizeof calls, "%s", text);
    free(text);
    return calls;
}

static unsigned long executables(struct rig *r)
{
    char *warm = bin_path("warm"), *out;
    run_command(&out, "WARM_SOCKET=%s %s ls --kind executable | grep -c pjrt:", r->kit.socket,
                warm);
    unsigned long n = strtoul(out, NULL, 10);
    free(out);
    free(warm);
    return n;
}

#define MADE "compile serialize "
#define LOADED "load "
#define REAL "compile "

Test(preload_pjrt, second_process_loads_what_the_first_compiled)
{
    struct rig r;
    if (!rig_up(&r))
        return;
    cr_assert_str_eq(run_client(&r, "", "compile a ''", "made of 149 and 0 bytes\n"), MADE);
    cr_assert_str_eq(run_client(&r, "", "compile a ''", "made of 149 and 0 bytes\n"), LOADED);
    cr_assert_str_eq(run_client(&r, "", "compile renamed ''", "made of 149 and 0 bytes\n"), LOADED,
                     "names and locations do not count");
    cr_assert_str_eq(run_client(&r, "FAKE_PJRT_DEVICES=4", "compile a ''", NULL), MADE,
                     "other devices are another key");
    cr_assert_str_eq(run_client(&r, "XLA_FLAGS=--xla_cpu_use_x=1", "compile a ''", NULL), MADE);
    cr_assert_str_eq(run_client(&r, "XLA_FLAGS=--xla_dump_max_hlo_modules=9", "compile a ''", NULL),
                     LOADED, "it only says how a dump looks");
    for (int i = 0; i < 2; i++)
        cr_assert_str_neq(run_client(&r, "XLA_FLAGS=--xla_dump_to=/d", "compile a ''", NULL),
                          LOADED, "a hit would write no dump");
    rig_down(&r);
}

Test(preload_pjrt, an_entry_says_its_target_and_its_device)
{
    struct rig r;
    char *out, *warm = bin_path("warm");
    if (!rig_up(&r))
        return;
    run_client(&r, "", "compile a ''", NULL);
    cr_assert_eq(run_command(&out, "WARM_SOCKET=%s %s ls --arch sm_90 --kind executable --json",
                             r.kit.socket, warm),
                 0);
    cr_expect_not_null(strstr(out, "\"arch\":\"sm_90 fake device\""), "%s", out);
    free(out), free(warm);
    rig_down(&r);
}

/* Each process of several compiles for itself; one key is one program, in one order. */
Test(preload_pjrt, processes_that_share_devices_hit_by_the_same_key)
{
    struct rig r;
    if (!rig_up(&r))
        return;
    static const char shared[] = "FAKE_PJRT_DEVICES=4 FAKE_PJRT_OWN=2";
    cr_assert_str_eq(run_client(&r, "FAKE_PJRT_DEVICES=4", "compile a ''", NULL), MADE);
    cr_assert_str_eq(run_client(&r, shared, "compile a ''", NULL), MADE);
    cr_assert_str_eq(run_client(&r, shared, "compile a ''", NULL), LOADED);
    cr_assert_str_eq(run_client(&r, shared, "compile renamed ''", NULL), LOADED);
    cr_assert_str_eq(run_client(&r, "FAKE_PJRT_DEVICES=4", "compile renamed ''", NULL), LOADED);
    cr_assert_str_eq(run_client(&r, "FAKE_PJRT_DEVICES=4 FAKE_PJRT_OWN=1", "compile a ''", NULL),
                     MADE);
    cr_assert_str_eq(run_client(&r, "FAKE_PJRT_OWN=unknown", "compile a ''", NULL), REAL);
    rig_down(&r);
}

Test(preload_pjrt, processes_at_once_compile_once)
{
    struct rig r;
    if (!rig_up(&r))
        return;
    char *out;
    int status = run_command(&out,
                             "cd %s && export FAKE_PJRT_LOG=%s WARM_SOCKET=%s LD_PRELOAD=%s; for i "
                             "in 1 2 3 4 5 6; do ./client $PWD/plugin compile a '' & done; wait",
                             r.kit.dir, r.calls, r.kit.socket, r.preload);
    cr_assert_eq(status, 0);
    free(out);
    cr_assert_eq(run_command(&out, "grep -c compile %s", r.calls), 0);
    cr_assert_str_eq(out, "1\n");
    free(out);
    rig_down(&r);
}

Test(preload_pjrt, versions_that_are_not_known_pass_through)
{
    struct rig r;
    if (!rig_up(&r))
        return;
    cr_assert_str_eq(run_client(&r, "FAKE_PJRT_MINOR=4711", "compile a '' compile a ''", NULL),
                     REAL REAL);
    cr_assert_str_eq(run_client(&r, "FAKE_PJRT_MINOR=12", "compile a ''", NULL), REAL);
    cr_assert_str_eq(run_client(&r, "", "short a ''", NULL), REAL, "so do shorter arguments");
    cr_assert_eq(executables(&r), 0);
    rig_down(&r);
}

Test(preload_pjrt, custom_calls_need_their_handlers)
{
    struct rig r;
    if (!rig_up(&r))
        return;
    cr_assert_str_eq(run_client(&r, "", "compile call '' compile call ''", NULL), REAL REAL,
                     "where no handler was registered nothing is kept");
    const char *with = "register my_kernel compile call ''";
    cr_assert_str_eq(run_client(&r, "", with, NULL), "register " MADE);
    cr_assert_str_eq(run_client(&r, "", with, NULL), "register " LOADED);
    cr_assert_str_eq(run_client(&r, "", "compile call ''", NULL), REAL,
                     "a process without the handler loads nothing");
    const char *bound = "register xla_python_cpu_callback compile bound ''";
    cr_assert_str_eq(run_client(&r, "", bound, NULL), "register " REAL,
                     "what refers to its process is never kept");
    cr_assert_str_eq(run_client(&r, "", "compile sharded ''", NULL), MADE);
    cr_assert_eq(executables(&r), 2);
    rig_down(&r);
}

Test(preload_pjrt, entries_that_do_not_load_are_made_anew)
{
    struct rig r;
    if (!rig_up(&r))
        return;
    char *warm = bin_path("warm"), *out;
    run_client(&r, "", "compile a ''", NULL);
    cr_assert_str_eq(
        run_client(&r, "FAKE_PJRT_NO_LOAD=1", "compile a ''", "made of 149 and 0 bytes\n"),
        LOADED MADE);
    cr_assert_str_eq(run_client(&r, "", "compile a ''", NULL), LOADED);
    int status =
        run_command(&out,
                    "cd %s && export WARM_SOCKET=%s && echo damaged >bytes && name=$(%s ls "
                    "--kind executable | grep -o 'pjrt:.*') && %s put $name bytes 2>&1",
                    r.kit.dir, r.kit.socket, warm, warm);
    cr_assert_eq(status, 0, "%s", out);
    cr_assert_str_eq(run_client(&r, "", "compile a ''", "made of 149 and 0 bytes\n"), MADE,
                     "bytes that are no entry of ours never reach the plugin");
    cr_assert_str_eq(run_client(&r, "", "compile a ''", NULL), LOADED);
    free(out);
    free(warm);
    rig_down(&r);
}

Test(preload_pjrt, entries_that_are_cut_or_of_another_program_never_reach_the_plugin)
{
    struct rig r;
    if (!rig_up(&r))
        return;
    char *warm = bin_path("warm"), *out;
    run_client(&r, "", "compile sharded ''", NULL);
    int status = run_command(&out,
                             "cd %s && export WARM_SOCKET=%s && %s ls --kind executable | grep -o "
                             "'pjrt:.*' >name && %s get $(cat name) -o other",
                             r.kit.dir, r.kit.socket, warm, warm);
    cr_assert_eq(status, 0, "%s", out);
    free(out);
    run_client(&r, "", "compile a ''", NULL);
    static const char *const damage[] = {"cat other", "head -c 1 entry", "head -c 40 entry",
                                         "head -c -1 entry", "(cat entry; echo)"};
    for (size_t i = 0; i < sizeof damage / sizeof *damage; i++) {
        status = run_command(&out,
                             "cd %s && export WARM_SOCKET=%s && n=$(%s ls --kind executable | grep "
                             "-o 'pjrt:.*' | grep -vf name) && %s get $n -o entry && %s >bad && %s "
                             "put $n bad 2>&1",
                             r.kit.dir, r.kit.socket, warm, warm, damage[i], warm);
        cr_assert_eq(status, 0, "%s: %s", damage[i], out);
        free(out);
        cr_expect_str_eq(run_client(&r, "", "compile a ''", "made of 149 and 0 bytes\n"), MADE,
                         "%s", damage[i]);
        cr_expect_str_eq(run_client(&r, "", "compile a ''", NULL), LOADED, "it healed");
    }
    free(warm);
    rig_down(&r);
}

/* The second program is read from a pipe, which gets it when the daemon is dead. */
Test(preload_pjrt, daemon_that_is_killed_in_the_middle_is_done_without)
{
    struct rig r;
    if (!rig_up(&r))
        return;
    char *path = path_join(r.kit.dir, "pipe"), *program = path_join(r.kit.dir, "renamed");
    size_t len;
    char *text = file_read(program, &len);
    cr_assert_eq(mkfifo(path, 0600), 0);
    pid_t killer = fork();
    if (killer == 0) {
        int fd = open(path, O_WRONLY); /* waits for its reader */
        kill(r.kit.pid, SIGKILL);
        _exit(write(fd, text, len) != (ssize_t)len);
    }
    cr_assert_str_eq(run_client(&r, "", "compile a '' compile pipe '' compile a ''", NULL),
                     MADE REAL REAL);
    cr_assert_eq(warmd_reap(killer), 0);
    warmd_reap(r.kit.pid);
    warmd_start(&r.kit, NULL);
    cr_assert_str_eq(run_client(&r, "", "compile a ''", NULL), LOADED, "what was stored is there");
    free(text), free(path), free(program);
    rig_down(&r);
}

Test(preload_pjrt, errors_of_the_compiler_are_the_programs)
{
    struct rig r;
    if (!rig_up(&r))
        return;
    const char *twice = "compile fails '' compile fails ''";
    cr_assert_str_eq(run_client(&r, "", twice, "an error\nan error\n"), REAL REAL);
    cr_assert_eq(executables(&r), 0);
    rig_down(&r);
}

Test(preload_pjrt, what_the_plugin_does_not_serialize_is_remembered)
{
    struct rig r;
    if (!rig_up(&r))
        return;
    const char *settings = "FAKE_PJRT_NO_SERIALIZE=1 WARM_SESSION=alone";
    cr_assert_str_eq(run_client(&r, settings, "compile a ''", NULL), MADE);
    cr_assert_str_eq(run_client(&r, settings, "compile a ''", NULL), REAL);
    char *out, *warm = bin_path("warm");
    run_command(&out, "WARM_SOCKET=%s %s why --session alone 2>&1", r.kit.socket, warm);
    cr_expect(strstr(out, "uncacheable: the plugin does not serialize"), "%s", out);
    free(out);
    free(warm);
    rig_down(&r);
}

Test(preload_pjrt, switches_of_the_environment_are_obeyed)
{
    struct rig r;
    if (!rig_up(&r))
        return;
    cr_assert_str_eq(run_client(&r, "WARM_READONLY=1", "compile a ''", NULL), REAL);
    cr_assert_eq(executables(&r), 0);
    run_client(&r, "", "compile a ''", NULL);
    cr_assert_str_eq(run_client(&r, "WARM_READONLY=1", "compile a ''", NULL), LOADED);
    cr_assert_str_eq(run_client(&r, "WARM_DISABLE=1", "compile a ''", NULL), REAL);
    cr_assert_str_eq(run_client(&r, "WARM_RECACHE=1", "compile a ''", NULL), MADE);
    cr_assert_str_eq(run_client(&r, "WARM_SOCKET=/nowhere", "compile a ''", NULL), REAL);
    rig_down(&r);
}

Test(preload_pjrt, another_set_of_processors_is_another_key)
{
    struct rig r;
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0 || CPU_COUNT(&set) < 2)
        cr_skip_test("needs two processors");
    if (!rig_up(&r))
        return;
    run_client(&r, "", "compile a ''", NULL);
    cr_assert_str_eq(run_client(&r, "taskset 1 env", "compile a ''", NULL), MADE);
    rig_down(&r);
}
