/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_preload_pjrt.c - PJRT plugins under libwarm-preload.so, with a stand-in for the plugin and a
 * program on it (tests/fakepjrt), both built here; a real daemon. What the plugin notes in a file
 * says what it was asked to do.
 */
#include "tests/support/warmd.h"

#include "client/preload/pjrt/compile_options.c"
#include "client/preload/pjrt/machine.c" /* tested by themselves, too: they are in no library */

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
    cr_assert_str_eq(run_client(&r, "XLA_FLAGS=--xla_dump_to=/d", "compile a ''", NULL), LOADED);
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

/* ---- the processor ---- */

static struct key key_of_processor(const char *cpuinfo)
{
    char text[1024];
    struct key_builder b;
    struct key key;
    struct proof unused;
    snprintf(text, sizeof text, "%s", cpuinfo);
    key_begin(&b, "test");
    add_processor(&b, text);
    key_end(&b, &key, &unused);
    return key;
}

#define CPU(model, mhz, flags)                                                                     \
    "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: " model                \
    "\ncpu MHz\t\t: " mhz "\nflags\t\t: fpu sse2 " flags "\n\nprocessor\t: 1\n"

Test(pjrt_machine, features_and_model_count_and_the_clock_does_not)
{
    struct key base = key_of_processor(CPU("143", "2100.0", "avx2 avx512f"));
    struct key clock = key_of_processor(CPU("143", "3500.0", "avx2 avx512f"));
    struct key feature = key_of_processor(CPU("143", "2100.0", "avx2"));
    struct key model = key_of_processor(CPU("85", "2100.0", "avx2 avx512f"));
    struct key arm = key_of_processor("Features\t: fp asimd sve\nCPU part\t: 0xd40\n");
    struct key arm_without = key_of_processor("Features\t: fp asimd\nCPU part\t: 0xd40\n");
    cr_expect(key_equal(&base, &clock));
    cr_expect(!key_equal(&base, &feature));
    cr_expect(!key_equal(&base, &model));
    cr_expect(!key_equal(&arm, &arm_without));
}

/* ---- compile options ---- */

static struct key key_of(int *out_code, const char *bytes, size_t len)
{
    struct key_builder b;
    struct key key;
    struct proof proof;
    key_begin(&b, "test");
    *out_code = pjrt_options_add(&b, bytes, len);
    key_end(&b, &key, &proof);
    return key;
}

#define KEY(bytes) key_of(&code, bytes, sizeof(bytes) - 1)
#define EQUAL(a, b)                                                                                \
    {                                                                                              \
        struct key one = KEY(a), other = KEY(b);                                                   \
        cr_expect_eq(code, 0);                                                                     \
        cr_expect(key_equal(&one, &other));                                                        \
    }
#define DIFFERENT(a, b)                                                                            \
    {                                                                                              \
        struct key one = KEY(a), other = KEY(b);                                                   \
        cr_expect_eq(code, 0);                                                                     \
        cr_expect(!key_equal(&one, &other));                                                       \
    }
/* Field 3 in field 3: DebugOptions. 357: tag ea 16... a map from text to text; 109 xla_dump_to. */
#define DEBUG_4(fields) "\x1a\x06\x1a\x04" fields
#define MAP_A                                                                                      \
    "\xaa\x16\x06\x0a\x01"                                                                         \
    "a\x12\x01"                                                                                    \
    "1"
#define MAP_B                                                                                      \
    "\xaa\x16\x06\x0a\x01"                                                                         \
    "b\x12\x01"                                                                                    \
    "2"

Test(pjrt_options, order_of_a_map_does_not_count)
{
    int code;
    EQUAL("\x1a\x14\x1a\x12" MAP_A MAP_B, "\x1a\x14\x1a\x12" MAP_B MAP_A);
    DIFFERENT("\x1a\x14\x1a\x12" MAP_A MAP_B, "\x1a\x14\x1a\x12" MAP_A MAP_A);
    /* of two entries with one key the last counts */
    DIFFERENT("\x1a\x14\x1a\x12\xaa\x16\x06\x0a\x01"
              "a\x12\x01"
              "2" MAP_A,
              "\x1a\x14\x1a\x12" MAP_A "\xaa\x16\x06\x0a\x01"
              "a\x12\x01"
              "2");
}

Test(pjrt_options, dumps_do_not_count_and_everything_else_does)
{
    int code;
    EQUAL("\x1a\x06\x1a\x04\xea\x06\x01x", "\x1a\x02\x1a\x00");        /* 109 */
    DIFFERENT("\x1a\x05\x1a\x03\xf8\x01\x01", "\x1a\x02\x1a\x00");     /* 31 */
    DIFFERENT("\x1a\x04\x4a\x02\x08\x01", "\x1a\x04\x4a\x02\x08\x02"); /* device assignment */
    DIFFERENT("\x10\x01", "\x10\x00");
    DIFFERENT("\xfa\x3f\x01x", "\xfa\x3f\x01y"); /* a field that nobody knows */
    DIFFERENT("\xea\x06\x01x", "");              /* 109 of another message is not a dump */
}

Test(pjrt_options, what_a_key_cannot_hold_is_refused)
{
    int code;
    KEY("\x1a\x06\x1a\x04\xfa\x0d\x01x"); /* 223: results of autotuning in a file */
    cr_expect_eq(code, WARM_EREFUSED);
    KEY("\x1a\x05\x1a\x03\xfa\x0d\x00");
    cr_expect_eq(code, 0);
    KEY("\x3a\x12\x0a\x10xla_gpu_ptx_file"); /* 7: env_option_overrides */
    cr_expect_eq(code, WARM_EREFUSED);
    KEY("\x3a\x1a\x0a\x18xla_cpu_enable_fast_math");
    cr_expect_eq(code, 0);
    cr_expect(!pjrt_flag_is_refused("--xla_cpu_enable_fast_math=true"), "an option like others");
    cr_expect(pjrt_flag_is_refused("--xla_gpu_ptx_file=a.ptx"));
    cr_expect(!pjrt_flag_is_refused("--xla_gpu_ptx_file="));
    cr_expect(!pjrt_flag_is_refused("--xla_cpu_enable_fast_min_max=true"));
}

Test(pjrt_options, repeated_fields_keep_their_order)
{
    int code;
    DIFFERENT("\x0a\x01"
              "a\x0a\x01"
              "b",
              "\x0a\x01"
              "b\x0a\x01"
              "a");
    EQUAL("\x0a\x01"
          "a\x10\x01",
          "\x10\x01\x0a\x01"
          "a");
}

Test(pjrt_options, damaged_messages_are_refused)
{
    int code;
    static const char whole[] = DEBUG_4("\xf8\x01\x01\x00");
    for (size_t len = 1; len + 1 < sizeof whole; len++) {
        key_of(&code, whole, len);
        cr_expect_eq(code, WARM_EMALFORMED, "%zu bytes", len);
    }
    KEY("\x18\x01"); /* field 3 as a number */
    cr_expect_eq(code, WARM_EMALFORMED);
    KEY("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff");
    cr_expect_eq(code, WARM_EMALFORMED);
    KEY("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f"); /* longer than anything */
    cr_expect_eq(code, WARM_EMALFORMED);
    KEY("\x0b"); /* a group */
    cr_expect_eq(code, WARM_EMALFORMED);
}
