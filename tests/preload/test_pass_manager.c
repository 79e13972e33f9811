/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_pass_manager.c - programs that run MLIR passes, in this process: through the stand-in of pass_manager.c a
 * module becomes what the passes make of it, whoever ran them, and whatever the daemon does.
 *
 * The library is a stand-in (tests/fakemlir/libmlir.c), built here by the system's C compiler: it tells which calls
 * reach it. tests/clients/jaxold_mlir.py has a real one. A real daemon.
 */
#include <dlfcn.h>

#include "client/preload/leased_entry.h"
#include "client/preload/mlir/api.h"
#include "client/preload/preload.h"
#include "tests/support/shim_kit.h"

#define SOURCE "tests/fakemlir/libmlir.c"
#define ENTRY "mlir:1:"
#define PASSES "canonicalize,cse"

typedef mlir_result run_fn(mlir_pass_manager manager, mlir_operation operation);

static struct shim_kit k;
static void *library;
static struct mlir_api api; /* the real functions */
static run_fn *warm;        /* the stand-in for api.run */

/* Returns the function that a program gets for the passes of a library. */
static run_fn *stand_in_of(void *from)
{
    void *found = dlsym(from, "mlirPassManagerRunOnOp");
    run_fn *function;
    cr_assert_not_null(found);
    found = mlir_stand_in("mlirPassManagerRunOnOp", found);
    memcpy(&function, &found, sizeof found);
    return function;
}

static void up(void)
{
    void *found;
    shim_kit_up(&k);
    setenv("WARM_MLIR", "1", 1);
    char *path = shim_kit_build(&k, "libmlir.so", SOURCE, "");
    library = shim_kit_load(path);
    free(path);
#define X(type, name, symbol, parameters)                                                          \
    found = dlsym(library, symbol);                                                                \
    cr_assert_not_null(found, "%s", symbol);                                                       \
    memcpy(&api.name, &found, sizeof found);
    MLIR_FUNCTIONS(X)
#undef X
    warm = stand_in_of(library);
    cr_assert_neq(warm, api.run);
}

static void down(void) { shim_kit_down(&k); }

TestSuite(pass_manager, .fini = down, .timeout = 120);

static size_t entries(void) { return shim_kit_count(&k, ENTRY); }

static int live(void)
{
    int (*function)(void);
    void *found = dlsym(library, "fake_live");
    memcpy(&function, &found, sizeof found);
    return function();
}

/* ---- a program ---- */

static void on_text(mlir_text text, void *user) { fwrite(text.data, 1, text.len, user); }

/* Parses a module, holds its first operation as Reactant does, runs passes, and prints the module and what it
 * holds. Returns all that it sees; free() it. */
static char *play(run_fn *run, const char *passes, const char *text)
{
    char *seen = NULL, *pipeline = strdup(passes);
    size_t len;
    FILE *out = open_memstream(&seen, &len);
    int before = live();
    mlir_context context = {out};
    mlir_module module = api.parse(context, (mlir_text){text, strlen(text)});
    cr_assert_not_null(module.ptr, "%s", text);
    mlir_operation operation = api.module_operation(module);
    mlir_operation held = api.first(api.first_block(api.region(operation, 0)));
    mlir_result result = run((mlir_pass_manager){pipeline}, operation);
    fprintf(out, "result %d\n", result.value);
    api.print(operation, on_text, out);
    fprintf(out, "held: ");
    api.print(held, on_text, out);
    api.module_destroy(module);
    fprintf(out, "live: %d\n", live() - before);
    fclose(out);
    free(pipeline);
    return seen;
}

/* Runs passes through the stand-in. Expects what the program sees without it, and these calls of the library: the
 * program itself parses its module. NULL: any. */
static void expect_with(const char *passes, const char *text, const char *notes, const char *when)
{
    char *direct = play(api.run, passes, text);
    shim_kit_notes(library);
    char *got = play(warm, passes, text);
    const char *noted = shim_kit_notes(library);
    cr_expect_str_eq(got, direct, "%s %s: %s", text, when, got);
    cr_expect(!notes || strcmp(noted, notes) == 0, "%s %s: %s", text, when, noted);
    free(direct);
    free(got);
}

static void expect(const char *text, const char *notes, const char *when)
{
    expect_with(PASSES, text, notes, when);
}

#define RAN "parse run "
#define SERVED "parse parse " /* the second is that of the entry */
#define MAIN "func @main {} add\n"
#define MODULE "module @a {}\n" MAIN

/* ---- what is served ---- */

Test(pass_manager, a_module_becomes_what_the_passes_of_another_process_made, .init = up)
{
    static const char *const texts[] = {
        MODULE,
        MODULE "func @helper {private=1 todo=1} mul\nfunc @unused {} sub\n",
        "module @a {shape=4 todo=2}\nfunc @main {todo=1 keep=2} add\nconst @c {value=3}\n",
        "module {}\nfunc @main {done=no} nameless\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        expect(texts[i], RAN, "a miss");
        cr_expect_eq(entries(), i + 1, "%s", texts[i]);
        expect(texts[i], SERVED, "a hit");
        cr_expect_eq(entries(), i + 1, "%s", texts[i]);
    }
}

/* Reactant counts its modules, so the name says nothing; the program's own name stays. */
Test(pass_manager, the_name_of_the_module_does_not_count_and_stays, .init = up)
{
    expect("module @loop_76 {x=1}\n" MAIN, RAN, "a miss");
    expect("module @loop_177 {x=1}\n" MAIN, SERVED, "a hit");
    cr_expect_eq(entries(), 1);
}

Test(pass_manager, modules_passes_and_the_order_of_functions_count, .init = up)
{
    static const struct {
        const char *passes, *text;
    } rows[] = {
        {PASSES, MODULE "func @f {} 1\n"},
        {PASSES, "module @a {x=1}\n" MAIN "func @f {} 1\n"},
        {PASSES, MODULE "func @f {} 2\n"},
        {PASSES, MODULE "func @g {} 1\n"},
        {PASSES, MODULE "func @f {a=1} 1\n"},
        {PASSES, "module @a {}\nfunc @f {} 1\n" MAIN},
        {"cse,canonicalize", MODULE "func @f {} 1\n"},
        {"", MODULE "func @f {} 1\n"},
    };
    size_t n = sizeof rows / sizeof *rows;
    for (size_t i = 0; i < n; i++) {
        expect_with(rows[i].passes, rows[i].text, RAN, "a miss");
        cr_expect_eq(entries(), i + 1, "%s %s", rows[i].passes, rows[i].text);
    }
    for (size_t i = 0; i < n; i++)
        expect_with(rows[i].passes, rows[i].text, SERVED, "a hit");
}

/* The program may hold operations of the module: those that have a counterpart stay the same objects. */
Test(pass_manager, an_operation_that_stays_is_the_same_object_with_another_body, .init = up)
{
    for (int run = 0; run < 2; run++) {
        mlir_module module = api.parse((mlir_context){&k}, (mlir_text){MODULE, strlen(MODULE)});
        mlir_operation operation = api.module_operation(module);
        mlir_block block = api.first_block(api.region(operation, 0));
        mlir_operation held = api.first(block);
        char pipeline[] = PASSES;
        cr_assert_eq(warm((mlir_pass_manager){pipeline}, operation).value, 1);
        cr_expect_eq(api.first_block(api.region(operation, 0)).ptr, block.ptr);
        cr_expect_eq(api.first(block).ptr, held.ptr, "run %d", run);
        cr_expect_not_null(api.attribute(held, (mlir_text){"done", 4}).ptr, "run %d", run);
        api.module_destroy(module);
        cr_expect_eq(live(), 0, "run %d: %d operations live", run, live());
    }
    cr_expect_eq(entries(), 1);
}

Test(pass_manager, a_gradient_is_kept_as_one, .init = up)
{
    char *warm_path = bin_path("warm"), *out;
    expect(MODULE "func @g {} enzyme.autodiff\n", RAN, "a miss");
    int status = run_command(&out, "WARM_SOCKET=%s %s ls --kind backward --json", k.daemon.socket,
                             warm_path);
    cr_expect_eq(status, 0);
    cr_expect(strstr(out, ENTRY), "%s", out);
    free(out);
    free(warm_path);
}

/* The pool has 32 connections: one that a run keeps is missing in the end. */
Test(pass_manager, runs_give_their_connections_back, .init = up)
{
    for (int i = 0; i < 40; i++)
        expect(MODULE, i ? SERVED : RAN, "one more");
}

/* The first two rounds fill what stays: the store, and buffers of the connection. */
Test(pass_manager, no_memory_is_lost, .init = up)
{
    static const char *const programs[] = {
        MODULE,
        MODULE "func @unused {} 1\n",
        MODULE "value @v {}\n",
        MODULE "func @f {} fails\n",
        MODULE "func @f {} binds\n",
    };
    for (int round = 0; round < 4; round++) {
        size_t before = shim_kit_allocated();
        for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
            free(play(warm, PASSES, programs[i]));
        if (round > 1)
            cr_expect_eq(shim_kit_allocated(), before, "round %d", round);
    }
}

/* ---- what is not ---- */

Test(pass_manager, modules_that_cannot_be_put_in_place_are_run, .init = up)
{
    static const char *const texts[] = {
        MODULE "value @v {}\n",     /* a result, which others may use */
        MODULE "^\nfunc @f {} 1\n", /* two blocks */
    };
    for (size_t i = 0; i < 2; i++) {
        expect(texts[i], RAN, "a miss");
        expect(texts[i], "parse parse run ", "there, and not put in place");
    }
}

Test(pass_manager, addresses_and_elided_constants_are_never_kept, .init = up)
{
    static const char *const bodies[] = {
        "enzymexla_compile_cpu",   "cuResultHandlerPtr=4",
        "xla_python_cpu_callback", "python_gpu_callback",
        "CustomSPMDPartitioning",  "InspectSharding",
        "dense<__elided__>",       "binds", /* in the result */
    };
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++)
        for (int run = 0; run < 2; run++) {
            char text[256];
            snprintf(text, sizeof text, MODULE "func @f {} %s\n", bodies[i]);
            expect(text, RAN, run ? "again" : "once");
        }
    expect_with("inspect{x=__elided__}", MODULE, RAN, "in the pipeline");
    cr_expect_eq(entries(), 1, "a mark of the last one: nobody waits for it");
}

/* Without the lease the second run would not be stored. */
Test(pass_manager, a_run_that_fails_is_the_programs_and_gives_its_lease_back, .init = up)
{
    static const char text[] = MODULE "func @f {} shaky\n";
    for (int run = 0; run < 2; run++)
        expect(MODULE "func @f {} fails\n", RAN, "a run that fails");
    char *failed = play(warm, PASSES, text);
    cr_expect_eq(strncmp(failed, "result 0\n", 9), 0, "%s", failed);
    cr_expect_eq(entries(), 0);
    expect(text, RAN, "the second time");
    cr_expect_eq(entries(), 1);
    free(failed);
}

Test(pass_manager, operations_that_are_no_modules_are_run, .init = up)
{
    char pipeline[] = PASSES;
    mlir_module module = api.parse((mlir_context){&k}, (mlir_text){MODULE, strlen(MODULE)});
    mlir_operation part = api.first(api.first_block(api.region(api.module_operation(module), 0)));
    shim_kit_notes(library);
    cr_expect_eq(warm((mlir_pass_manager){pipeline}, part).value, 0);
    cr_expect_eq(warm((mlir_pass_manager){pipeline}, (mlir_operation){NULL}).value, 0);
    cr_expect_str_eq(shim_kit_notes(library), "run run ");
    cr_expect_eq(entries(), 0);
    api.module_destroy(module);
}

/* ---- the entry ---- */

static void put_whole(const char *name, const char *text)
{
    shim_kit_put_whole(&k, name, text, strlen(text));
}

Test(pass_manager, an_entry_that_is_damaged_or_does_not_parse_is_replaced, .init = up)
{
    char name[128];
    expect(MODULE, RAN, "a miss");
    shim_kit_name(&k, ENTRY, name);
    cr_assert_eq(warm_put(k.w, name, strlen(name), MODULE, strlen(MODULE), NULL), 0);
    expect(MODULE, RAN, "another value");
    expect(MODULE, SERVED, "replaced");
    put_whole(name, "module @a {}\nfunc @main {} broken\n");
    expect(MODULE, "parse parse run ", "it does not parse");
    expect(MODULE, SERVED, "replaced");
    put_whole(name, MODULE "value @v {}\n");
    expect(MODULE, "parse parse run ", "it cannot be put in place");
    expect(MODULE, SERVED, "replaced");
}

/* An entry's functions that the module does not have are new, and those that the entry lacks go. */
Test(pass_manager, the_entry_takes_the_place_of_the_module, .init = up)
{
    char name[128];
    expect(MODULE "func @helper {} mul\n", RAN, "a miss");
    shim_kit_name(&k, ENTRY, name);
    put_whole(name, "module @other {made=1}\nconst @new {}\nfunc @new {} new\nconst @main {} "
                    "\nfunc @main {a=1} another\n");
    char *got = play(warm, PASSES, MODULE "func @helper {} mul\n");
    cr_expect_str_eq(got, "result 1\nmodule @a {made=1} \nconst @new {} \nfunc @new {} new\n"
                          "const @main {} \nfunc @main {a=1} another\n"
                          "held: func @main {a=1} another\nlive: 0\n");
    free(got);
}

/* ---- switches and the daemon ---- */

Test(pass_manager, switches_are_obeyed, .init = up)
{
    setenv("WARM_DISABLE", "1", 1);
    expect(MODULE, RAN, "WARM_DISABLE");
    unsetenv("WARM_DISABLE");
    setenv("WARM_READONLY", "1", 1);
    expect(MODULE, RAN, "WARM_READONLY");
    cr_expect_eq(entries(), 0);
}

static void kill_daemon(void)
{
    if (k.daemon.pid)
        shim_kit_kill(&k);
}

/* The daemon is killed in the middle of the passes: between the lease and the result. */
Test(pass_manager, a_daemon_that_dies_is_done_without, .init = up)
{
    void (*hook)(void) = kill_daemon;
    void *at = dlsym(library, "fake_on_run");
    cr_assert_not_null(at);
    char *direct = play(api.run, PASSES, MODULE);
    memcpy(at, &hook, sizeof hook);
    char *got = play(warm, PASSES, MODULE);
    cr_expect_eq(k.daemon.pid, 0, "it was killed");
    cr_expect_str_eq(got, direct, "in the middle of the passes");
    expect(MODULE, RAN, "before the program");
    free(direct);
    free(got);
}

/* ---- libraries ---- */

Test(pass_manager, one_library_has_the_stand_in_and_no_other, .init = up)
{
    char *path = shim_kit_build(&k, "second.so", SOURCE, "");
    void *second = shim_kit_load(path);
    void *found = dlsym(second, "mlirPassManagerRunOnOp");
    cr_expect_eq(mlir_stand_in("mlirPassManagerRunOnOp", found), found);
    cr_expect_eq(stand_in_of(library), warm, "asked again");
    found = dlsym(library, "mlirPassManagerRunOnOp");
    cr_expect_eq(mlir_stand_in("mlirPassManagerRunOnOpX", found), found);
    unsetenv("WARM_MLIR");
    cr_expect_eq(mlir_stand_in("mlirPassManagerRunOnOp", found), found, "WARM_MLIR is not set");
    free(path);
}

/* Without a library of which the process has a stand-in already. */
static void up_alone(void)
{
    shim_kit_up(&k);
    setenv("WARM_MLIR", "1", 1);
}

Test(pass_manager, a_library_that_lacks_a_function_is_left_alone, .init = up_alone)
{
    char *path = shim_kit_build(&k, "part.so", SOURCE, "-DWITHOUT_DESTROY");
    void *found = dlsym(shim_kit_load(path), "mlirPassManagerRunOnOp");
    cr_expect_eq(mlir_stand_in("mlirPassManagerRunOnOp", found), found);
    free(path);
    path = shim_kit_build(&k, "whole.so", SOURCE, "");
    found = dlsym(shim_kit_load(path), "mlirPassManagerRunOnOp");
    cr_expect_neq(mlir_stand_in("mlirPassManagerRunOnOp", found), found, "the next one is served");
    free(path);
}
