/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_nvvm.c - programs that use libNVVM, in this process: through the stand-ins of nvvm.c they see what they see
 * without them, whatever they call in which order, and whatever the daemon does.
 *
 * The library is a stand-in (tests/fakecuda/libnvvm.c), built here by the system's C compiler: it tells which calls
 * reach it. One test takes the real libNVVM if tests/clients has installed it. A real daemon.
 */
#include <dlfcn.h>

#include "client/preload/nvvm/nvvm.h"
#include "tests/support/shim_kit.h"

#define SOURCE "tests/fakecuda/libnvvm.c"
#define ENTRY "nvvm:2:"

struct functions {
#define FN(name, parameters, arguments) int(*name) parameters;
#include "client/preload/nvvm/nvvm.fn"
};

static struct shim_kit k;
static void *library;
static struct functions real, warm;

/* Fills both tables with a library's functions: as they are, and as a program under `warm run` gets them. */
static void find_all(void *from, struct functions *out_real, struct functions *out_warm)
{
    void *found;
#define FN(name, parameters, arguments)                                                            \
    found = dlsym(from, "nvvm" #name);                                                             \
    memcpy(&out_real->name, &found, sizeof found);                                                 \
    found = found ? nvvm_stand_in("nvvm" #name, found) : NULL;                                     \
    memcpy(&out_warm->name, &found, sizeof found);
#include "client/preload/nvvm/nvvm.fn"
}

static void up(void)
{
    shim_kit_up(&k);
    char *path = shim_kit_build(&k, "libnvvm.so", SOURCE, "");
    library = shim_kit_load(path);
    free(path);
    find_all(library, &real, &warm);
}

static void down(void) { shim_kit_down(&k); }

TestSuite(nvvm, .init = up, .fini = down, .timeout = 120);

/* ---- a program, a word a call ---- */

enum { OPTIONS = 80, OUT_MAX = 1 << 16 };

struct play {
    const struct functions *f;
    nvvm_handle handle;
    FILE *out; /* all that the program sees */
    char *bytes;
};

static void show(struct play *p)
{
    size_t n = 12345;
    int rc = p->f->GetCompiledResultSize(p->handle, &n);
    fprintf(p->out, "size %d %zu\n", rc, n);
    memset(p->bytes, '#', OUT_MAX);
    rc = p->f->GetCompiledResult(p->handle, p->bytes);
    fprintf(p->out, "result %d ", rc);
    shim_kit_show(p->out, p->bytes, rc ? 0 : n + 1);
    n = 12345;
    rc = p->f->GetProgramLogSize(p->handle, &n);
    fprintf(p->out, "\nlog-size %d %zu", rc, n);
    memset(p->bytes, '#', OUT_MAX);
    rc = n ? p->f->GetProgramLog(p->handle, p->bytes) : 0;
    fprintf(p->out, "\nlog %d ", rc);
    shim_kit_show(p->out, p->bytes, rc ? 0 : n + 1);
    fputc('\n', p->out);
}

static void show_nowhere(struct play *p)
{
    fprintf(p->out, "nowhere %d ", p->f->GetCompiledResultSize(p->handle, NULL));
    fprintf(p->out, "%d ", p->f->GetCompiledResult(p->handle, NULL));
    fprintf(p->out, "%d ", p->f->GetProgramLogSize(p->handle, NULL));
    fprintf(p->out, "%d\n", p->f->GetProgramLog(p->handle, NULL));
}

/* Splits "a,b" in place. Returns how many there are. */
static int split(char *text, const char *options[OPTIONS])
{
    int n = 0;
    for (char *at = text; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        options[n++] = at;
    for (int i = 1; i < n; i++)
        text[options[i] - text - 1] = '\0';
    return n;
}

/* Makes one call: add:NAME=BYTES, lazy:NAME=BYTES, verify:OPTION,…, compile:OPTION,…, show, nowhere. */
static void call(struct play *p, char *word)
{
    const char *options[OPTIONS];
    char *rest = strchr(word, ':'), *bytes = strchr(word, '=');
    if (rest)
        *rest++ = '\0';
    if (strcmp(word, "add") == 0 || strcmp(word, "lazy") == 0) {
        if (bytes)
            *bytes++ = '\0';
        const char *name = *rest ? rest : NULL;
        int rc =
            *word == 'a'
                ? p->f->AddModuleToProgram(p->handle, bytes, bytes ? strlen(bytes) : 0, name)
                : p->f->LazyAddModuleToProgram(p->handle, bytes, bytes ? strlen(bytes) : 0, name);
        fprintf(p->out, "%s %d\n", word, rc);
    } else if (strcmp(word, "verify") == 0) {
        int n = split(rest, options);
        fprintf(p->out, "%s %d\n", word, p->f->VerifyProgram(p->handle, n, options));
    } else if (strcmp(word, "compile") == 0) {
        int n = split(rest, options);
        fprintf(p->out, "%s %d\n", word, p->f->CompileProgram(p->handle, n, options));
    } else if (strcmp(word, "nowhere") == 0) {
        show_nowhere(p);
    } else {
        cr_assert_str_eq(word, "show");
        show(p);
    }
}

/* Runs a program: its calls with blanks between them. Returns all that it sees; free() it. */
static char *play(const struct functions *f, const char *calls)
{
    char *text = NULL, *words = strdup(calls), *rest = words;
    size_t len;
    struct play p = {.f = f, .out = open_memstream(&text, &len), .bytes = calloc(1, OUT_MAX + 16)};
    fprintf(p.out, "create %d\n", f->CreateProgram(&p.handle));
    for (char *word; (word = strsep(&rest, " "));)
        call(&p, word);
    fprintf(p.out, "destroy %d\n", f->DestroyProgram(&p.handle));
    fprintf(p.out, "%s\n", p.handle ? "a handle" : "none");
    fclose(p.out);
    free(p.bytes);
    free(words);
    return text;
}

/* Runs a program through the stand-ins. Expects what it sees without them, and these calls of the library. */
static void expect(const char *calls, const char *notes, const char *when)
{
    char *direct = play(&real, calls);
    shim_kit_notes(library);
    char *got = play(&warm, calls);
    cr_expect_str_eq(got, direct, "%s, %s", calls, when);
    const char *noted = shim_kit_notes(library);
    cr_expect(!notes || strcmp(noted, notes) == 0, "%s, %s: %s", calls, when, noted);
    free(direct);
    free(got);
}

static size_t entries(void) { return shim_kit_count(&k, ENTRY); }

/* ---- what is served ---- */

Test(nvvm, a_stored_compile_is_served_and_shows_what_the_compile_showed)
{
    static const struct {
        const char *calls, *hit; /* hit: what reaches the library the second time */
    } rows[] = {
        {"add:a=one compile: show", "create add destroy "},
        {"add:a=two verify: compile:-opt=3,-g show show", "create add verify destroy "},
        {"add:=unnamed lazy:l=two compile:-arch=compute_90 show", "create add lazy destroy "},
        {"add:a=warns compile: show", "create add destroy "},
        {"show add:b=one compile: show",
         "create size result log-size add destroy "}, /* getters before the compile */
        {"add:b=two compile: nowhere", "create add size result log-size log destroy "},
        {"add:b=three compile:-gen-lto,-generate-line-info,-numba-debug,-ftz=1,-prec-div=0,"
         "-prec-sqrt=0,-fma=0 show",
         "create add destroy "},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        expect(rows[i].calls, NULL, "a miss");
        cr_expect_eq(entries(), i + 1, "%s", rows[i].calls);
        expect(rows[i].calls, rows[i].hit, "a hit");
        cr_expect_eq(entries(), i + 1, "%s", rows[i].calls);
    }
}

/* A second compile builds on the first, so the library makes up for the one that was left out. */
Test(nvvm, a_program_that_goes_on_after_a_hit_is_compiled_first)
{
    static const struct {
        const char *calls, *hit;
    } rows[] = {
        {"add:a=1 compile:-opt=0 compile:-opt=3 show",
         "create add compile compile size result log-size destroy "},
        {"add:a=2 compile:-g compile:-bad show",
         "create add compile compile size result log-size log destroy "},
        {"add:a=3 compile:-g add:b=4 show compile: show",
         "create add compile add size result log-size compile size result log-size destroy "},
        {"add:a=5 compile:-g lazy:b=4 show",
         "create add compile lazy size result log-size destroy "},
        {"add:a=6 compile:-g verify:-bad show",
         "create add compile verify size result log-size log destroy "},
        {"add:a=7 compile:-g verify: show",
         "create add compile verify size result log-size destroy "},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        expect(rows[i].calls, NULL, "a miss");
        expect(rows[i].calls, rows[i].hit, "a hit");
        cr_expect_eq(entries(), i + 1, "%s", rows[i].calls);
    }
}

Test(nvvm, every_call_and_its_place_is_in_the_key)
{
    static const char *const programs[] = {
        "add:a=1 compile: show",
        "add:b=1 compile: show",           /* another name */
        "add:=1 compile: show",            /* no name */
        "add:a=2 compile: show",           /* other bytes */
        "lazy:a=1 compile: show",          /* another way */
        "add:a=1 verify: compile: show",   /* verified */
        "add:a=1 verify:-g compile: show", /* verified with an option */
        "verify: add:a=1 compile: show",   /* refused by the library: not stored */
        "add:a=1 compile:-g show",         /* an option */
        "add:a=1 compile:-g,-opt=0 show",  /* two */
        "add:a=1 compile:-opt=0,-g show",  /* in another order */
        "add:a=1 add:b=1 compile: show",   /* two modules */
        "add:b=1 add:a=1 compile: show",   /* in another order */
        "add:a=1 add:b=1 add:c=1 compile: show",
    };
    size_t n = sizeof programs / sizeof *programs;
    for (size_t i = 0; i < n; i++) {
        expect(programs[i], NULL, "a miss");
        cr_expect_eq(entries(), i < 7 ? i + 1 : i, "%s", programs[i]);
    }
    for (size_t i = 0; i < n; i++)
        expect(programs[i], NULL, "a hit");
    cr_expect_eq(entries(), n - 1);
}

/* The pool has 32 connections: one that a call keeps is missing in the end. */
Test(nvvm, calls_give_their_connections_back)
{
    for (int run = 0; run < 2; run++)
        for (int i = 0; i < 40; i++) {
            char calls[64];
            snprintf(calls, sizeof calls, "add:a=%d compile:", i);
            expect(calls, run ? "create add destroy " : NULL, run ? "a hit" : "a miss");
        }
    cr_expect_eq(entries(), 40);
}

/* The first two rounds fill what stays: the store, and buffers of the connection. */
Test(nvvm, no_memory_is_lost)
{
    static const char *const programs[] = {
        "add:a=1 compile:-g show",
        "add:a=1 compile:-g,-opt=3 compile: show",
        "add:a=1 add:b",
        "add:a=broken compile: show",
        "add:a=1 compile:-time show",
    };
    for (int round = 0; round < 4; round++) {
        size_t before = shim_kit_allocated();
        for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
            free(play(&warm, programs[i]));
        if (round > 1)
            cr_expect_eq(shim_kit_allocated(), before, "round %d", round);
    }
}

/* ---- what is not ---- */

Test(nvvm, calls_that_cannot_be_served_are_the_librarys)
{
    static const char *const programs[] = {
        "compile: show",                           /* no module */
        "verify: show",                            /* the same */
        "add:a add:a=1 compile: show",             /* a module without bytes */
        "lazy:a add:a=1 compile: show",            /* the same */
        "add:a= add:a=1 compile: show",            /* an empty one, which the library refuses */
        "add:a=broken compile: show",              /* a compile that fails */
        "add:a=1 compile:-bad show compile: show", /* an option that the library refuses */
        "add:a=1 verify:-bad compile: show",       /* the same */
        "add:a=1 compile:-time show",              /* one that we do not know */
        "add:a=1 verify:-time compile: show",      /* the same */
        "add:a=1 compile:-gg show",
    };
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        for (int run = 0; run < 2; run++) {
            char notes[512];
            shim_kit_notes(library);
            free(play(&real, programs[i]));
            snprintf(notes, sizeof notes, "%s", shim_kit_notes(library));
            expect(programs[i], notes, run ? "again" : "once");
        }
    cr_expect_eq(entries(), 0);
}

/* Without the lease the second compile would not be stored. */
Test(nvvm, a_compile_that_fails_gives_its_lease_back)
{
    char *failed = play(&warm, "add:a=shaky compile: show");
    cr_expect(strstr(failed, "compile 9\n"), "%s", failed);
    cr_expect_eq(entries(), 0);
    expect("add:a=shaky compile: show", NULL, "the second time");
    cr_expect_eq(entries(), 1);
    free(failed);
}

Test(nvvm, numbers_of_options_that_cannot_be_are_passed_on)
{
    const char *many[OPTIONS], *missing[] = {"-g", NULL};
    nvvm_handle p;
    for (size_t i = 0; i < OPTIONS; i++)
        many[i] = "-g";
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(warm.CreateProgram(&p), 0);
        cr_assert_eq(warm.AddModuleToProgram(p, "1", 1, "a"), 0);
        shim_kit_notes(library);
        if (i < 3)
            cr_expect_eq(warm.CompileProgram(p, i == 0 ? -1 : i == 1 ? OPTIONS : 65, many), 0);
        else
            cr_expect_eq(warm.CompileProgram(p, 2, missing), 7);
        cr_expect_str_eq(shim_kit_notes(library), "compile ", "%d", i);
        cr_expect_eq(warm.DestroyProgram(&p), 0);
    }
    cr_expect_eq(entries(), 0);
}

Test(nvvm, wrong_handles_get_the_librarys_answer)
{
    char byte, out[8];
    size_t n;
    nvvm_handle none = NULL, other = &byte;
    for (int i = 0; i < 2; i++) {
        nvvm_handle h = i ? other : none;
        cr_expect_eq(warm.AddModuleToProgram(h, "1", 1, "a"), 5);
        cr_expect_eq(warm.LazyAddModuleToProgram(h, "1", 1, "a"), 5);
        cr_expect_eq(warm.VerifyProgram(h, 0, NULL), 5);
        cr_expect_eq(warm.CompileProgram(h, 0, NULL), 5);
        cr_expect_eq(warm.GetCompiledResultSize(h, &n), 5);
        cr_expect_eq(warm.GetCompiledResult(h, out), 5);
        cr_expect_eq(warm.GetProgramLogSize(h, &n), 5);
        cr_expect_eq(warm.GetProgramLog(h, out), 5);
        cr_expect_eq(warm.DestroyProgram(&h), 5);
    }
    cr_expect_eq(warm.DestroyProgram(NULL), 5);
    cr_expect_eq(warm.CreateProgram(NULL), 5);
    cr_expect_str_eq(shim_kit_notes(library),
                     "add lazy verify compile size result log-size log destroy "
                     "add lazy verify compile size result log-size log destroy destroy create ");
}

Test(nvvm, an_address_that_is_used_again_is_another_program)
{
    nvvm_handle first, second;
    size_t n;
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(warm.CreateProgram(&first), 0);
        cr_assert_eq(warm.AddModuleToProgram(first, "1", 1, "a"), 0);
        cr_assert_eq(warm.CompileProgram(first, 0, NULL), 0);
        second = first;
        cr_assert_eq(warm.DestroyProgram(&first), 0);
    }
    cr_assert_eq(warm.CreateProgram(&first), 0);
    cr_assert_eq(first, second, "the library gives the address again");
    cr_expect_eq(warm.GetCompiledResultSize(first, &n), 5, "it was not compiled");
    cr_expect_eq(warm.CompileProgram(first, 0, NULL), 8);
    cr_expect_eq(warm.DestroyProgram(&first), 0);
    cr_expect_eq(warm.GetCompiledResultSize(second, &n), 5, "it is destroyed");
}

/* A plugin that is linked with the library calls its own functions. */
Test(nvvm, a_program_that_was_destroyed_without_us_is_forgotten)
{
    nvvm_handle first, second, again;
    size_t n;
    for (int i = 0; i < 2; i++) { /* first REAL, then SERVED */
        cr_assert_eq(warm.CreateProgram(&first), 0);
        cr_assert_eq(warm.AddModuleToProgram(first, "1", 1, "a"), 0);
        cr_assert_eq(warm.CompileProgram(first, 0, NULL), 0);
        second = first;
        cr_assert_eq(real.DestroyProgram(&first), 0);
        cr_assert_eq(warm.CreateProgram(&again), 0);
        cr_assert_eq(again, second, "the library gives the address again");
        cr_expect_eq(warm.GetCompiledResultSize(again, &n), 5, "it was not compiled");
        cr_expect_eq(warm.DestroyProgram(&again), 0);
    }
}

/* ---- the environment ---- */

Test(nvvm, variables_that_libnvvm_reads_switch_it_off)
{
    static const char *const names[] = {"LIBNVVM_NVVM_VERSION", "NVVM_X", "LLVM_DEBUG"};
    static const char *const others[] = {"MY_LLVM_HOME", "HOME_OF"};
    for (size_t i = 0; i < 3; i++) {
        setenv(names[i], "1", 1);
        expect("add:a=1 compile: show", "create add compile size result log-size destroy ",
               names[i]);
        unsetenv(names[i]);
    }
    cr_expect_eq(entries(), 0);
    for (size_t i = 0; i < 2; i++)
        setenv(others[i], "NVVM", 1);
    expect("add:a=1 compile: show", NULL, "a miss");
    expect("add:a=1 compile: show", "create add destroy ", "a hit");
}

/* Some options of LLVM stay set in the process. */
Test(nvvm, behind_options_that_we_do_not_know_nothing_is_stored)
{
    expect("add:a=1 compile: show", NULL, "a miss");
    expect("add:a=1 compile:-restrict show", NULL, "not served");
    expect("add:a=2 compile: show", NULL, "a miss");
    cr_expect_eq(entries(), 1);
    expect("add:a=1 compile: show", "create add destroy ", "a hit");
}

Test(nvvm, warm_disable_switches_it_off)
{
    setenv("WARM_DISABLE", "1", 1);
    expect("add:a=1 compile: show", "create add compile size result log-size destroy ", "off");
    unsetenv("WARM_DISABLE");
    cr_expect_eq(entries(), 0);
}

/* The second run is granted the lease: only then are result and log taken to be stored. */
Test(nvvm, warm_readonly_stores_nothing)
{
    setenv("WARM_READONLY", "1", 1);
    for (int i = 0; i < 2; i++)
        expect("add:a=1 compile: show", "create add compile size result log-size destroy ",
               "a miss");
    cr_expect_eq(entries(), 0);
}

/* ---- the daemon ---- */

/* The first daemon is killed in the middle of the compile: between the lease and the result. */
static void kill_daemon(void)
{
    if (k.daemon.pid)
        shim_kit_kill(&k);
}

Test(nvvm, a_daemon_that_dies_is_done_without)
{
    static const char calls[] = "add:a=1 compile: show";
    void (*hook)(void) = kill_daemon;
    void *at = dlsym(library, "fake_on_compile");
    cr_assert_not_null(at);
    char *direct = play(&real, calls);
    memcpy(at, &hook, sizeof hook);
    char *got = play(&warm, calls);
    cr_expect_eq(k.daemon.pid, 0, "it was killed");
    cr_expect_str_eq(got, direct, "in the middle of a compile");
    expect(calls, "create add compile size result log-size destroy ", "before the program");
    free(direct);
    free(got);
}

Test(nvvm, a_served_program_needs_no_daemon)
{
    nvvm_handle p;
    size_t n = 0;
    char out[128] = "", log[64] = "";
    expect("add:a=warns compile:-g", NULL, "a miss");
    cr_assert_eq(warm.CreateProgram(&p), 0);
    cr_assert_eq(warm.AddModuleToProgram(p, "warns", 5, "a"), 0);
    cr_assert_eq(warm.CompileProgram(p, 1, (const char *[]){"-g"}), 0);
    shim_kit_kill(&k);
    shim_kit_notes(library);
    cr_expect_eq(warm.GetCompiledResultSize(p, &n), 0);
    cr_expect_eq(n, strlen("build 1: add a: warns; -g") + 1);
    cr_expect_eq(warm.GetCompiledResult(p, out), 0);
    cr_expect_str_eq(out, "build 1: add a: warns; -g");
    cr_expect_eq(warm.GetProgramLog(p, log), 0);
    cr_expect_str_eq(log, "warning: so it is\n");
    cr_expect_str_eq(shim_kit_notes(library), "");
    cr_expect_eq(warm.VerifyProgram(p, 0, NULL), 0);
    cr_expect_str_eq(shim_kit_notes(library), "compile verify ");
    cr_expect_eq(warm.GetCompiledResult(p, out), 0);
    cr_expect_str_eq(out, "build 1: add a: warns; -g", "with the options of its compile");
    cr_expect_eq(warm.DestroyProgram(&p), 0);
}

Test(nvvm, a_daemon_that_dies_between_two_calls_is_done_without)
{
    nvvm_handle p;
    size_t n;
    expect("add:a=1 compile:", NULL, "a miss");
    cr_assert_eq(warm.CreateProgram(&p), 0);
    cr_assert_eq(warm.AddModuleToProgram(p, "1", 1, "a"), 0);
    shim_kit_kill(&k);
    shim_kit_notes(library);
    cr_expect_eq(warm.CompileProgram(p, 0, NULL), 0);
    cr_expect_eq(warm.GetCompiledResultSize(p, &n), 0);
    cr_expect_eq(warm.DestroyProgram(&p), 0);
    cr_expect_str_eq(shim_kit_notes(library), "compile size destroy ");
}

Test(nvvm, a_damaged_entry_is_replaced)
{
    static const char
        calls[] = "add:a=warns compile: show",
        miss[] = "create add compile size log-size result log size result log-size log destroy ",
        hit[] = "create add destroy ";
    enum { HEAD = 8 + 16 + 32 }; /* before the bundle: leased_entry.h */
    char name[128];
    struct warm_value v;
    expect(calls, miss, "a miss");
    shim_kit_name(&k, ENTRY, name);
    cr_assert_eq(warm_get(k.w, name, strlen(name), 0, &v), 0);
    char *bytes = calloc(1, v.len + 1);
    memcpy(bytes, v.data, v.len);
    struct {
        size_t len, flip; /* flip: a byte of the entry, or v.len */
        bool is_whole;    /* its own sums agree, but the bundle is damaged */
    } damage[] = {
        {0, v.len, false},        {v.len - 1, v.len, false}, {v.len, 0, false},
        {v.len, 8, false},        {v.len, 8 + 16, false},    {v.len, v.len - 1, false},
        {v.len - 1, v.len, true}, {v.len + 1, v.len, true},  {v.len, HEAD + 1, true},
        {v.len, HEAD + 8, true},  {v.len, HEAD + 32, true},
    };
    for (size_t i = 0; i < sizeof damage / sizeof *damage; i++) {
        size_t len = damage[i].len, flip = damage[i].flip;
        bytes[flip] ^= 36;
        if (damage[i].is_whole)
            shim_kit_put_whole(&k, name, bytes + HEAD, len - HEAD);
        else
            cr_assert_eq(warm_put(k.w, name, strlen(name), bytes, len, NULL), 0);
        bytes[flip] ^= 36;
        size_t before = shim_kit_allocated();
        expect(calls, miss, "damaged");
        cr_expect(i == 0 || shim_kit_allocated() == before, "a damaged value is freed");
        expect(calls, hit, "replaced");
    }
    warm_value_free(&v);
    free(bytes);
}

/* ---- libraries ---- */

Test(nvvm, each_of_four_libraries_has_its_own_stand_ins_and_a_fifth_has_none)
{
    for (int i = 2; i <= 5; i++) {
        char name[32], flags[32], want[64], out[64];
        struct functions own, its;
        nvvm_handle p;
        snprintf(name, sizeof name, "libnvvm%d.so", i);
        snprintf(flags, sizeof flags, "-DBUILD='\"%d\"'", i);
        char *path = shim_kit_build(&k, name, SOURCE, flags);
        find_all(shim_kit_load(path), &own, &its);
        free(path);
        cr_expect_eq(its.CompileProgram == own.CompileProgram, i == 5, "%d", i);
        cr_expect_neq(its.CompileProgram, warm.CompileProgram);
        for (int run = 0; run < 2; run++) {
            cr_assert_eq(its.CreateProgram(&p), 0);
            cr_assert_eq(its.AddModuleToProgram(p, "1", 1, "a"), 0);
            cr_assert_eq(its.CompileProgram(p, 0, NULL), 0);
            cr_assert_eq(its.GetCompiledResult(p, out), 0);
            snprintf(want, sizeof want, "build %d: add a: 1;", i);
            cr_expect_str_eq(out, want);
            cr_assert_eq(its.DestroyProgram(&p), 0);
        }
    }
    cr_expect_eq(entries(), 3, "each has an entry of its own");
    expect("add:a=1 compile: show", NULL, "the first library");
    cr_expect_eq(entries(), 4);
}

Test(nvvm, a_library_that_was_replaced_on_disk_is_not_cached)
{
    char *path = shim_kit_build(&k, "libnvvm.so", SOURCE, "-DBUILD='\"another\"'");
    expect("add:a=1 compile: show", "create add compile size result log-size destroy ", "replaced");
    cr_expect_eq(entries(), 0);
    cr_assert_eq(unlink(path), 0);
    expect("add:a=1 compile: show", "create add compile size result log-size destroy ", "removed");
    free(path);
}

static int of_the_program(nvvm_handle *out)
{
    (void)out;
    return 0;
}

Test(nvvm, libraries_and_functions_that_are_not_libnvvms_are_left_alone)
{
    int (*function)(nvvm_handle *) = of_the_program;
    void *found;
    char *path = shim_kit_build(&k, "old.so", SOURCE, "-DWITHOUT_LOG");
    void *old = shim_kit_load(path);
    found = dlsym(old, "nvvmCompileProgram");
    cr_expect_eq(nvvm_stand_in("nvvmCompileProgram", found), found, "a library that lacks one");
    found = dlsym(library, "nvvmVersion");
    cr_expect_eq(nvvm_stand_in("nvvmVersion", found), found, "a function that works on no program");
    memcpy(&found, &function, sizeof found);
    cr_expect_eq(nvvm_stand_in("nvvmCreateProgram", found), found, "a function of no library");
    found = dlsym(library, "nvvmCreateProgram");
    cr_expect_eq(nvvm_stand_in("nvvmCreateProgramX", found), found);
    cr_expect_eq(nvvm_stand_in("nvvmCreate", found), found);
    free(path);
}

/* ---- the real libNVVM ---- */

#define TARGET                                                                                     \
    "target triple = \"nvptx64-nvidia-cuda\"\n"                                                    \
    "target datalayout = \"e-p:64:64:64-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-" \
    "f32:32:32-f64:64:64-v16:16:16-v32:32:32-v64:64:64-v128:128:128-n16:32:64\"\n"
static const char module[] =
    TARGET "define void @k(float* %x) { %v = load float, float* %x\n %w = fmul float %v, 2.0\n"
           " store float %w, float* %x\n ret void }\n"
           "!nvvm.annotations = !{!0}\n!0 = !{void (float*)* @k, !\"kernel\", i32 1}\n"
           "!nvvmir.version = !{!1}\n!1 = !{i32 2, i32 0}\n";

/* Compiles `text` as numba-cuda does, shows everything, goes on after it, and returns what it saw. */
static char *play_real(const struct functions *f, const char *text)
{
    const char *options[] = {"-arch=compute_90", "-opt=3"};
    char *seen = NULL;
    size_t len;
    struct play p = {.f = f, .out = open_memstream(&seen, &len), .bytes = calloc(1, OUT_MAX + 16)};
    fprintf(p.out, "%d ", f->CreateProgram(&p.handle));
    fprintf(p.out, "%d ", f->AddModuleToProgram(p.handle, text, strlen(text), "k"));
    fprintf(p.out, "%d ", f->VerifyProgram(p.handle, 2, options));
    fprintf(p.out, "%d\n", f->CompileProgram(p.handle, 2, options));
    show(&p);
    show_nowhere(&p);
    fprintf(p.out, "%d\n", f->CompileProgram(p.handle, 1, options));
    show(&p);
    fprintf(p.out, "%d\n", f->DestroyProgram(&p.handle));
    fclose(p.out);
    free(p.bytes);
    return seen;
}

Test(nvvm, the_real_library_shows_the_same_with_and_without_warm)
{
    char *path = shim_kit_vendor("cu13/lib/libnvvm.so.4");
    struct functions its, kept;
    if (!path)
        cr_skip_test("no libNVVM: `make test-clients CLIENTS=nvrtc` installs it");
    find_all(shim_kit_load(path), &its, &kept);
    static const char *const texts[] = {module, "no module"};
    for (size_t i = 0; i < 2; i++) {
        char *direct = play_real(&its, texts[i]);
        cr_expect_eq(strstr(direct, ".visible .entry k") != NULL, i == 0, "%s", direct);
        for (int run = 0; run < 3; run++) {
            char *got = play_real(&kept, texts[i]);
            cr_expect_str_eq(got, direct, "run %d", run);
            free(got);
        }
        cr_expect_eq(entries(), 1);
        free(direct);
    }
    free(path);
}
