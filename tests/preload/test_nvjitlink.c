/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_nvjitlink.c - programs that use nvJitLink, in this process: through the stand-ins of nvjitlink.c they see
 * what they see without them, whatever they call in which order, and whatever the daemon does.
 *
 * The library is a stand-in (tests/fakecuda/libnvjitlink.c), built here by the system's C compiler: it tells which
 * calls reach it. One test takes the real nvJitLink if tests/clients has installed it. A real daemon.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <sys/stat.h>

#include "client/preload/nvjitlink/nvjitlink.h"
#include "tests/support/shim_kit.h"

#define SOURCE "tests/fakecuda/libnvjitlink.c"
#define LINK "nvjitlink:2:"
#define INPUT "nvjitlink-input:2:"

enum { CUBIN = 1, PTX = 2, LTOIR = 3 };

struct functions {
#define FN(name, parameters, arguments) int(*name) parameters;
#include "client/preload/nvjitlink/nvjitlink.fn"
};

static struct shim_kit k;
static void *library;
static struct functions real, warm;

/* Fills both tables with a library's functions: as they are, and as a program under `warm run` gets them. The
 * names are "PREFIXnvJitLinkXSUFFIX". */
static void find_all(void *from, const char *prefix, const char *suffix, struct functions *out_real,
                     struct functions *out_warm)
{
    char symbol[96];
    void *found;
#define FN(name, parameters, arguments)                                                            \
    snprintf(symbol, sizeof symbol, "%snvJitLink" #name "%s", prefix, suffix);                     \
    found = dlsym(from, symbol);                                                                   \
    memcpy(&out_real->name, &found, sizeof found);                                                 \
    found = found ? nvjitlink_stand_in(symbol, found) : NULL;                                      \
    memcpy(&out_warm->name, &found, sizeof found);
#include "client/preload/nvjitlink/nvjitlink.fn"
}

static void up(void)
{
    shim_kit_up(&k);
    char *path = shim_kit_build(&k, "libnvJitLink.so", SOURCE, "");
    library = shim_kit_load(path);
    free(path);
    find_all(library, "", "", &real, &warm);
}

static void down(void) { shim_kit_down(&k); }

TestSuite(nvjitlink, .init = up, .fini = down, .timeout = 120);

static size_t links(void) { return shim_kit_count(&k, LINK); }
static size_t inputs(void) { return shim_kit_count(&k, INPUT); }

/* ---- a program, a word a call ---- */

enum { OPTIONS = 16, OUT_MAX = 1 << 18 };

struct play {
    const struct functions *f;
    jitlink_handle handle;
    FILE *out; /* all that the program sees */
    char *bytes;
};

/* Calls the two getters of an output, if the library has them. Logs and PTX are texts: their end shows, too. */
#define SHOW(p, name, size, bytes_of, is_text)                                                     \
    do {                                                                                           \
        size_t n = 12345;                                                                          \
        int rc = (p)->f->size ? (p)->f->size((p)->handle, &n) : -1;                                \
        fprintf((p)->out, name " %d %zu ", rc, n);                                                 \
        memset((p)->bytes, '#', OUT_MAX);                                                          \
        rc = rc == -1 ? rc : (p)->f->bytes_of((p)->handle, (void *)(p)->bytes);                    \
        fprintf((p)->out, "%d ", rc);                                                              \
        if (!rc)                                                                                   \
            shim_kit_show((p)->out, (p)->bytes, (is_text) ? strlen((p)->bytes) + 2 : n + 1);       \
        fputc('\n', (p)->out);                                                                     \
    } while (0)

static void show(struct play *p)
{
    SHOW(p, "cubin", GetLinkedCubinSize, GetLinkedCubin, false);
    SHOW(p, "ptx", GetLinkedPtxSize, GetLinkedPtx, true);
    SHOW(p, "ltoir", GetLinkedLTOIRSize, GetLinkedLTOIR, false);
    SHOW(p, "error", GetErrorLogSize, GetErrorLog, true);
    SHOW(p, "info", GetInfoLogSize, GetInfoLog, true);
}

/* Asks for each output without a place for it. */
static void show_nowhere(struct play *p)
{
    fprintf(p->out, "nowhere %d ", p->f->GetLinkedCubinSize(p->handle, NULL));
    fprintf(p->out, "%d ", p->f->GetLinkedCubin(p->handle, NULL));
    fprintf(p->out, "%d ", p->f->GetErrorLogSize(p->handle, NULL));
    fprintf(p->out, "%d\n", p->f->GetInfoLog(p->handle, NULL));
}

/* Makes one call: ptx:NAME=BYTES, cubin:NAME=BYTES, file:PATH, complete, log, show, nowhere. */
static void call(struct play *p, char *word)
{
    char *rest = strchr(word, ':'), *bytes = strchr(word, '=');
    if (rest)
        *rest++ = '\0';
    if (bytes)
        *bytes++ = '\0';
    if (strcmp(word, "ptx") == 0 || strcmp(word, "cubin") == 0) {
        int rc = p->f->AddData(p->handle, *word == 'p' ? PTX : CUBIN, bytes,
                               bytes ? strlen(bytes) : 0, *rest ? rest : NULL);
        fprintf(p->out, "%s %d\n", word, rc);
    } else if (strcmp(word, "file") == 0) {
        fprintf(p->out, "file %d\n", p->f->AddFile(p->handle, CUBIN, rest));
    } else if (strcmp(word, "complete") == 0) {
        fprintf(p->out, "complete %d\n", p->f->Complete(p->handle));
    } else if (strcmp(word, "log") == 0) {
        SHOW(p, "error", GetErrorLogSize, GetErrorLog, true);
    } else if (strcmp(word, "nowhere") == 0) {
        show_nowhere(p);
    } else {
        cr_assert_str_eq(word, "show");
        show(p);
    }
}

/* Runs a program: its options, and its calls with blanks between them. Returns all that it sees; free() it. */
static char *play(const struct functions *f, const char *options, const char *calls)
{
    char *text = NULL, *words = strdup(calls), *rest = words;
    char *given = strdup(options), *left = given;
    const char *list[OPTIONS];
    uint32_t n = 0;
    size_t len;
    while ((list[n] = strsep(&left, " ")))
        n++;
    struct play p = {.f = f, .out = open_memstream(&text, &len), .bytes = calloc(1, OUT_MAX + 16)};
    int rc = f->Create(&p.handle, n, list);
    fprintf(p.out, "create %d\n", rc);
    for (char *word; rc == 0 && (word = strsep(&rest, " "));)
        call(&p, word);
    fprintf(p.out, "destroy %d\n", f->Destroy(&p.handle));
    fclose(p.out);
    free(p.bytes);
    free(words);
    free(given);
    return text;
}

/* Runs a program through the stand-ins. Expects what it sees without them, and these calls of the library; NULL:
 * any. */
static void expect_with(const char *options, const char *calls, const char *notes, const char *when)
{
    char *direct = play(&real, options, calls);
    shim_kit_notes(library);
    char *got = play(&warm, options, calls);
    cr_expect_str_eq(got, direct, "%s %s, %s", options, calls, when);
    const char *noted = shim_kit_notes(library);
    cr_expect(!notes || strcmp(noted, notes) == 0, "%s %s, %s: %s", options, calls, when, noted);
    free(direct);
    free(got);
}

#define ARCH "-arch=sm_90"
static void expect(const char *calls, const char *notes, const char *when)
{
    expect_with(ARCH, calls, notes, when);
}

/* ---- what is served ---- */

#define GET_2 "get get "
#define GET_10 GET_2 GET_2 GET_2 GET_2 GET_2
#define STORE GET_2 GET_2 GET_2 /* of a cubin alone: its size and bytes, and four sizes */

Test(nvjitlink, a_stored_link_is_served_and_shows_what_the_link_showed)
{
    static const struct {
        const char *options, *calls, *hit; /* hit: what reaches the library the second time */
    } rows[] = {
        {ARCH, "ptx:a=one complete show", "create destroy "}, /* PTX costs: it is kept back */
        {ARCH, "cubin:a=one complete show show", "create add destroy "},
        {ARCH, "ptx:a=two cubin:b=two complete show",
         "create destroy "}, /* what comes after it, too */
        {ARCH, "cubin:b=two ptx:a=two complete show", "create add destroy "},
        {ARCH " -ptx -ltoir", "ptx:=unnamed complete show", "create destroy "},
        {ARCH, "ptx:b=log log complete show", "create add " GET_2 "destroy "},
        {ARCH, "show ptx:b=early complete show", "create " GET_10 "destroy "},
        {ARCH, "ptx:b=where complete nowhere", "create get get get get destroy "},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        expect_with(rows[i].options, rows[i].calls, NULL, "a miss");
        cr_expect_eq(links(), i + 1, "%s", rows[i].calls);
        expect_with(rows[i].options, rows[i].calls, rows[i].hit, "a hit");
        cr_expect_eq(links(), i + 1, "%s", rows[i].calls);
    }
}

Test(nvjitlink, each_input_its_place_and_each_option_is_in_the_key)
{
    static const struct {
        const char *options, *calls;
    } rows[] = {
        {ARCH, "ptx:a=1 complete show"},
        {ARCH, "ptx:b=1 complete show"},          /* another name */
        {ARCH, "ptx:=1 complete show"},           /* no name */
        {ARCH, "ptx:a=2 complete show"},          /* other bytes */
        {ARCH, "cubin:a=1 complete show"},        /* another type */
        {ARCH, "ptx:a=1 ptx:b=1 complete show"},  /* two */
        {ARCH, "ptx:b=1 ptx:a=1 complete show"},  /* in another order */
        {"-arch=sm_80", "ptx:a=1 complete show"}, /* other options */
        {ARCH " -O0", "ptx:a=1 complete show"},
        {"-O0 " ARCH, "ptx:a=1 complete show"}, /* in another order */
    };
    size_t n = sizeof rows / sizeof *rows;
    for (size_t i = 0; i < n; i++) {
        expect_with(rows[i].options, rows[i].calls, NULL, "a miss");
        cr_expect_eq(links(), i + 1, "%s %s", rows[i].options, rows[i].calls);
    }
    for (size_t i = 0; i < n; i++)
        expect_with(rows[i].options, rows[i].calls,
                    i == 4 ? "create add destroy " : "create destroy ", "a hit");
    cr_expect_eq(links(), n);
}

Test(nvjitlink, a_file_that_ptx_names_counts_with_its_time)
{
    char *folder = temp_dir_new(), calls[600];
    snprintf(calls, sizeof calls, "ptx:a=.file\t1\t\"%s\" complete show", folder);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(utimensat(AT_FDCWD, folder, (struct timespec[2]){{i, 0}, {i, 0}}, 0), 0);
        expect(calls, NULL, "a miss");
        expect(calls, "create destroy ", "a hit");
    }
    cr_expect_eq(links(), 3);
    temp_dir_free(folder);
}

Test(nvjitlink, variables_that_nvjitlink_reads_switch_it_off)
{
    static const char *const names[] = {"FINALIZER_X", "LLVM_X", "NVJITLINK_X", "NVVM_IR_VER_CHK"};
    for (size_t i = 0; i < 4; unsetenv(names[i++])) {
        setenv(names[i], "1", 1);
        expect("ptx:a=1 complete show", "create add complete " GET_10 "destroy ", names[i]);
    }
    cr_expect_eq(links(), 0);
}

Test(nvjitlink, behind_options_that_may_stay_set_nothing_is_stored)
{
    expect_with(ARCH " -Xnvvm=-x", "ptx:a=1 complete show", NULL, "not served");
    expect("ptx:a=2 complete show", NULL, "a miss");
    cr_expect_eq(links(), 0);
}

/* A time of the first link would be a lie in the second one's log. */
Test(nvjitlink, a_served_log_has_no_times)
{
    static const char options[] = ARCH " -Xptxas=-v", calls[] = "ptx:a=1 complete show";
    char *made = play(&warm, options, calls), *kept = play(&warm, options, calls);
    cr_expect(strstr(made, "Compile time = 1.000 ms\n"), "%s", made);
    cr_expect(!strstr(kept, "Compile time"), "%s", kept);
    cr_expect(strstr(kept, "info 0 34 0 ptxas info    : Used 8 registers\n"), "%s", kept);
    free(made);
    free(kept);
}

/* ---- inputs that are kept back ---- */

/* Removes the only link; its inputs stay known. */
static void remove_link(void)
{
    char name[128], *warm_path = bin_path("warm"), *out;
    shim_kit_name(&k, LINK, name);
    int status =
        run_command(&out, "WARM_SOCKET=%s %s rm %s 2>&1", k.daemon.socket, warm_path, name);
    cr_assert_eq(status, 0, "%s", out);
    cr_assert_eq(links(), 0);
    free(out);
    free(warm_path);
}

Test(nvjitlink, inputs_that_were_kept_back_are_added_in_order_when_they_are_needed)
{
    static const struct {
        const char *calls, *notes; /* notes: if the inputs are known, and the link is not */
    } rows[] = {
        {"ptx:a=1 ptx:b=2 complete show", "create add add complete " STORE GET_10 "destroy "},
        {"ptx:a=1 ptx:b=2 log complete", "create add add " GET_2 "complete " STORE "destroy "},
        {"ptx:a=1 ptx:b=2 ptx:c=3 complete", "create add add add complete " STORE "destroy "},
        {"ptx:a=1 ptx:b=2 file:/c complete show",
         "create add add file complete " GET_10 "destroy "},
        {"ptx:a=1 ptx:b=broken complete show", "create add add complete " GET_10 "destroy "},
        {"ptx:a=1 ptx:b complete show", "create add add complete " GET_10 "destroy "},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        expect("ptx:a=1 ptx:b=2 complete", NULL, "to know the inputs");
        remove_link();
        expect(rows[i].calls, rows[i].notes, "inputs are known");
        if (links())
            remove_link();
    }
}

/* The library reads the byte behind PTX; fresh memory is rarely zero in a program that has run for a while. */
Test(nvjitlink, ptx_that_was_kept_back_has_its_nul)
{
    expect("ptx:a=1 complete show", NULL, "to know the input");
    remove_link();
    mallopt(M_PERTURB, 0x55);
    expect("ptx:a=1 complete show", "create add complete " STORE GET_10 "destroy ", "kept back");
    cr_expect_eq(links(), 1);
}

/* The program was told that the input is good: a link without it would be a wrong one, and be stored. */
Test(nvjitlink, a_link_whose_kept_input_is_refused_later_fails_and_is_not_stored)
{
    int *refuses = dlsym(library, "fake_refuses_ptx");
    cr_assert_not_null(refuses);
    for (int run = 0; run < 2; run++) {
        *refuses = 0;
        expect("cubin:a=1 ptx:b=2 complete", NULL, "to know the input");
        remove_link();
        *refuses = 1;
        char *got = play(&warm, ARCH,
                         run ? "cubin:a=1 ptx:b=2 log complete" : "cubin:a=1 ptx:b=2 complete");
        cr_expect(strstr(got, "ptx 0\n") && strstr(got, "complete 3\n"), "%s", got);
        cr_expect_eq(links(), 0);
        free(got);
    }
}

Test(nvjitlink, inputs_are_known_after_a_link_that_succeeded)
{
    expect("ptx:a=1 ptx:b=unresolved complete show", NULL, "a link that fails");
    cr_expect_eq(inputs(), 0);
    expect("ptx:a=1 ptx:b=2 complete show", NULL, "a link that succeeds");
    cr_expect_eq(inputs(), 2);
    expect("cubin:a=1 cubin:b=2 complete show", NULL, "inputs that cost nothing");
    cr_expect_eq(inputs(), 2);
}

/* ---- what is not served ---- */

Test(nvjitlink, calls_that_cannot_be_served_are_the_librarys)
{
    static const struct {
        const char *options, *calls;
    } rows[] = {
        {ARCH, "complete show"},                            /* no input */
        {ARCH, "ptx:a ptx:a=1 complete show"},              /* an input without bytes */
        {ARCH, "ptx:a= ptx:a=1 complete show"},             /* an empty one */
        {ARCH, "ptx:a=broken ptx:a=1 complete show"},       /* one that is refused */
        {ARCH, "cubin:a=1 file:/nowhere complete show"},    /* a file */
        {ARCH, "ptx:a=unresolved complete show"},           /* a link that fails */
        {ARCH " -time", "ptx:a=1 complete show"},           /* times in the log */
        {ARCH " -Xptxas=-optf=o", "ptx:a=1 complete show"}, /* options in a file */
        {ARCH " -verbose", "ptx:a=1 complete show"},
        {ARCH " --options-file=x", "ptx:a=1 complete show"},
        {ARCH " -kernels-used-cache=x", "ptx:a=1 complete show"},
        {ARCH " -dump=x", "ptx:a=1 complete show"},
        {ARCH " -bad", "ptx:a=1 complete show"}, /* no handle at all */
        {"-O3", "ptx:a=1 complete show"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int run = 0; run < 2; run++) {
            char notes[512];
            shim_kit_notes(library);
            free(play(&real, rows[i].options, rows[i].calls));
            snprintf(notes, sizeof notes, "%s", shim_kit_notes(library));
            expect_with(rows[i].options, rows[i].calls, notes, run ? "again" : "once");
        }
    cr_expect_eq(links(), 0);
    cr_expect_eq(inputs(), 0);
}

/* The library refuses inputs, and another link, once it has linked. */
Test(nvjitlink, a_program_that_goes_on_after_a_hit_is_linked_first)
{
    static const struct {
        const char *calls, *hit;
    } rows[] = {
        {"ptx:a=1 complete complete show", "create add complete complete " GET_10 "destroy "},
        {"ptx:a=2 complete ptx:b=1 show", "create add complete add " GET_10 "destroy "},
        {"ptx:a=3 complete file:/b show complete",
         "create add complete file " GET_10 "complete destroy "},
        {"cubin:a=4 ptx:b=1 complete show ptx:c=1 complete show",
         "create add add complete add complete " GET_10 "destroy "},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        expect(rows[i].calls, NULL, "a miss");
        cr_expect_eq(links(), i + 1, "%s", rows[i].calls);
        expect(rows[i].calls, rows[i].hit, "a hit");
    }
}

/* Without the lease the second link would not be stored. */
Test(nvjitlink, a_link_that_fails_gives_its_lease_back)
{
    char *failed = play(&warm, ARCH, "ptx:a=shaky complete show");
    cr_expect(strstr(failed, "complete 6\n"), "%s", failed);
    cr_expect_eq(links(), 0);
    expect("ptx:a=shaky complete show", NULL, "the second time");
    cr_expect_eq(links(), 1);
    free(failed);
}

static void link_many(const struct functions *f, size_t n, char out[256])
{
    const char *options[] = {ARCH};
    jitlink_handle h;
    size_t len = 0;
    char *cubin = calloc(1, OUT_MAX);
    cr_assert_eq(f->Create(&h, 1, options), 0);
    for (size_t i = 0; i < n; i++)
        cr_assert_eq(f->AddData(h, PTX, "1", 1, "a"), 0);
    cr_assert_eq(f->Complete(h), 0);
    cr_assert_eq(f->GetLinkedCubinSize(h, &len), 0);
    cr_assert_eq(f->GetLinkedCubin(h, cubin), 0);
    snprintf(out, 256, "%zu %.200s", len, cubin);
    cr_assert_eq(f->Destroy(&h), 0);
    free(cubin);
}

Test(nvjitlink, as_many_inputs_as_there_is_room_for_are_served_and_no_more)
{
    char want[256], got[256];
    for (size_t n = 256; n <= 257; n++) {
        link_many(&real, n, want);
        for (int run = 0; run < 2; run++) {
            shim_kit_notes(library);
            link_many(&warm, n, got);
            cr_expect_str_eq(got, want, "%zu inputs, run %d", n, run);
            bool links_anew = strstr(shim_kit_notes(library), "complete") != NULL;
            cr_expect_eq(links_anew, run == 0 || n == 257, "%zu inputs, run %d", n, run);
        }
    }
    cr_expect_eq(links(), 1);
}

Test(nvjitlink, wrong_handles_get_the_librarys_answer)
{
    char byte, out[8];
    size_t n;
    jitlink_handle none = NULL, other = &byte;
    for (int i = 0; i < 2; i++) {
        jitlink_handle h = i ? other : none;
        cr_expect_eq(warm.AddData(h, PTX, "1", 1, "a"), 10);
        cr_expect_eq(warm.AddFile(h, PTX, "/a"), 10);
        cr_expect_eq(warm.Complete(h), 10);
        cr_expect_eq(warm.GetLinkedCubinSize(h, &n), 10);
        cr_expect_eq(warm.GetLinkedCubin(h, out), 10);
        cr_expect_eq(warm.GetErrorLogSize(h, &n), 10);
        cr_expect_eq(warm.GetErrorLog(h, out), 10);
        cr_expect_eq(warm.Destroy(&h), 10);
    }
    cr_expect_eq(warm.Destroy(NULL), 10);
    cr_expect_eq(warm.Create(NULL, 0, NULL), 10);
    cr_expect_str_eq(shim_kit_notes(library),
                     "add file complete get get get get destroy "
                     "add file complete get get get get destroy destroy create ");
}

Test(nvjitlink, an_address_that_is_used_again_is_another_link)
{
    const char *options[] = {ARCH};
    jitlink_handle first, second = NULL;
    size_t n;
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(warm.Create(&first, 1, options), 0);
        cr_assert_eq(warm.AddData(first, PTX, "1", 1, "a"), 0);
        cr_assert_eq(warm.Complete(first), 0);
        second = first;
        cr_assert_eq(warm.Destroy(&first), 0);
    }
    cr_assert_eq(warm.Create(&first, 1, options), 0);
    cr_assert_eq(first, second, "the library gives the address again");
    cr_expect_eq(warm.GetLinkedCubinSize(first, &n), 6, "it was not linked");
    cr_expect_eq(warm.Destroy(&first), 0);
    cr_expect_eq(warm.GetLinkedCubinSize(second, &n), 10, "it is destroyed");
}

/* A plugin that is linked with the library calls its own functions. */
Test(nvjitlink, a_link_that_was_destroyed_without_us_is_forgotten)
{
    const char *options[] = {ARCH};
    jitlink_handle first, second, again;
    size_t n;
    for (int i = 0; i < 2; i++) { /* first REAL, then SERVED */
        cr_assert_eq(warm.Create(&first, 1, options), 0);
        cr_assert_eq(warm.AddData(first, PTX, "1", 1, "a"), 0);
        cr_assert_eq(warm.Complete(first), 0);
        second = first;
        cr_assert_eq(real.Destroy(&first), 0);
        cr_assert_eq(warm.Create(&again, 1, options), 0);
        cr_assert_eq(again, second, "the library gives the address again");
        cr_expect_eq(warm.GetLinkedCubinSize(again, &n), 6, "it was not linked");
        cr_expect_eq(warm.Destroy(&again), 0);
    }
}

Test(nvjitlink, calls_give_their_connections_back)
{
    for (int run = 0; run < 2; run++)
        for (int i = 0; i < 40; i++) {
            char calls[64];
            snprintf(calls, sizeof calls, "ptx:a=%d complete", i);
            expect(calls, run ? "create destroy " : NULL, run ? "a hit" : "a miss");
        }
    cr_expect_eq(links(), 40);
}

/* The first two rounds fill what stays: the store, and buffers of the connection. */
Test(nvjitlink, no_memory_is_lost)
{
    static const char *const programs[] = {
        "ptx:a=1 complete show",
        "ptx:a=1 cubin:b=2 complete complete",
        "ptx:a=1",
        "ptx:a=1 file:/b",
        "ptx:a=broken complete",
        "ptx:a=unresolved complete show",
    };
    for (int round = 0; round < 4; round++) {
        size_t before = shim_kit_allocated();
        for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
            free(play(&warm, ARCH, programs[i]));
        if (round > 1)
            cr_expect_eq(shim_kit_allocated(), before, "round %d", round);
    }
}

/* ---- switches and the daemon ---- */

static const char all[] = "create add complete " GET_10 "destroy ";

Test(nvjitlink, warm_disable_switches_it_off)
{
    setenv("WARM_DISABLE", "1", 1);
    expect("ptx:a=1 complete show", all, "off");
    unsetenv("WARM_DISABLE");
    cr_expect_eq(links(), 0);
}

/* The second run is granted the lease: only then are the outputs taken to be stored, with seven calls more. */
Test(nvjitlink, warm_readonly_stores_nothing)
{
    setenv("WARM_READONLY", "1", 1);
    for (int i = 0; i < 2; i++)
        expect("ptx:a=1 complete show", "create add complete " GET_10 "destroy ", "a miss");
    cr_expect_eq(links() + inputs(), 0);
}

/* Kills the daemon in the middle of a link: between the lease and the result. */
static void kill_daemon(void)
{
    if (k.daemon.pid)
        shim_kit_kill(&k);
}

Test(nvjitlink, a_daemon_that_dies_is_done_without)
{
    static const char calls[] = "ptx:a=1 complete show";
    void (*hook)(void) = kill_daemon;
    void *at = dlsym(library, "fake_on_complete");
    cr_assert_not_null(at);
    char *direct = play(&real, ARCH, calls);
    memcpy(at, &hook, sizeof hook);
    char *got = play(&warm, ARCH, calls);
    cr_expect_eq(k.daemon.pid, 0, "it was killed");
    cr_expect_str_eq(got, direct, "in the middle of a link");
    expect(calls, all, "before the program");
    free(direct);
    free(got);
}

Test(nvjitlink, a_daemon_that_dies_while_inputs_are_kept_back_is_done_without)
{
    const char *options[] = {ARCH};
    static const char want[] = "build 1: -arch=sm_90 2 a: 1;2 b: 2;";
    jitlink_handle h;
    char out[128] = "";
    expect("ptx:a=1 ptx:b=2 complete", NULL, "a miss");
    cr_assert_eq(warm.Create(&h, 1, options), 0);
    cr_assert_eq(warm.AddData(h, PTX, "1", 1, "a"), 0);
    cr_assert_eq(warm.AddData(h, PTX, "2", 1, "b"), 0);
    shim_kit_kill(&k);
    cr_expect_str_eq(shim_kit_notes(library), "create ");
    cr_expect_eq(warm.Complete(h), 0);
    cr_expect_eq(warm.GetLinkedCubin(h, out), 0);
    cr_expect_str_eq(out, want);
    cr_expect_eq(warm.Destroy(&h), 0);
    cr_expect_str_eq(shim_kit_notes(library), "add add complete get destroy ");
}

Test(nvjitlink, a_served_link_needs_no_daemon)
{
    const char *options[] = {ARCH};
    static const char want[] = "build 1: -arch=sm_90 2 a: 1;";
    jitlink_handle h;
    size_t n = 0;
    char out[128] = "";
    expect("ptx:a=1 complete", NULL, "a miss");
    cr_assert_eq(warm.Create(&h, 1, options), 0);
    cr_assert_eq(warm.AddData(h, PTX, "1", 1, "a"), 0);
    cr_assert_eq(warm.Complete(h), 0);
    shim_kit_kill(&k);
    cr_expect_eq(warm.GetLinkedCubinSize(h, &n), 0);
    cr_expect_eq(n, strlen(want));
    cr_expect_eq(warm.GetLinkedCubin(h, out), 0);
    cr_expect_str_eq(out, want);
    cr_expect_eq(warm.Destroy(&h), 0);
    cr_expect_str_eq(shim_kit_notes(library), "create destroy ");
}

Test(nvjitlink, a_damaged_entry_is_replaced)
{
    static const char calls[] = "ptx:a=1 complete show", hit[] = "create destroy ";
    static const char miss[] = "create add complete " STORE GET_10 "destroy ";
    enum { HEAD = 8 + 16 + 32 }; /* before the bundle: leased_entry.h */
    char name[128];
    struct warm_value v;
    expect(calls, miss, "a miss");
    shim_kit_name(&k, LINK, name);
    cr_assert_eq(warm_get(k.w, name, strlen(name), 0, &v), 0);
    char *bytes = calloc(1, v.len + 1);
    memcpy(bytes, v.data, v.len);
    struct {
        size_t len, flip; /* flip: a byte of the entry, or v.len */
        bool is_whole;    /* its own sums agree, but the bundle is damaged */
    } damage[] = {
        {0, v.len, false},        {v.len - 1, v.len, false},        {v.len, 0, false},
        {v.len, 8, false},        {v.len, 8 + 16, false},           {v.len, v.len - 1, false},
        {v.len - 1, v.len, true}, {v.len + 1, v.len, true},         {v.len, HEAD + 1, true},
        {v.len, HEAD + 8, true},  {v.len, HEAD + 8 + 4 * 24, true},
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

/* Links once, and expects that another program is served. The first word of the cubin names the build. */
static void expect_served(const struct functions *f, const char *build)
{
    const char *options[] = {ARCH};
    char out[128] = "";
    jitlink_handle h;
    for (int run = 0; run < 2; run++) {
        cr_assert_eq(f->Create(&h, 1, options), 0);
        cr_assert_eq(f->AddData(h, PTX, "1", 1, "a"), 0);
        cr_assert_eq(f->Complete(h), 0);
        cr_assert_eq(f->GetLinkedCubin(h, out), 0);
        cr_expect_eq(strncmp(out, build, strlen(build)), 0, "%s", out);
        cr_assert_eq(f->Destroy(&h), 0);
    }
}

Test(nvjitlink, each_of_four_libraries_has_its_own_stand_ins_and_a_fifth_has_none)
{
    for (int i = 2; i <= 5; i++) {
        char name[32], flags[32], build[32];
        struct functions own, its;
        snprintf(name, sizeof name, "libnvJitLink%d.so", i);
        snprintf(flags, sizeof flags, "-DBUILD='\"%d\"'", i);
        snprintf(build, sizeof build, "build %d: ", i);
        char *path = shim_kit_build(&k, name, SOURCE, flags);
        find_all(shim_kit_load(path), "", "", &own, &its);
        free(path);
        cr_expect_eq(its.Complete == own.Complete, i == 5, "%d", i);
        cr_expect_neq(its.Complete, warm.Complete);
        expect_served(&its, build);
    }
    cr_expect_eq(links(), 3, "each has an entry of its own");
}

/* A program has the names of the header that it was compiled with. */
Test(nvjitlink, names_with_a_version_are_another_library)
{
    struct functions own, its;
    find_all(library, "__", "_13_5", &own, &its);
    cr_assert_not_null(own.Complete);
    cr_expect_neq(its.Complete, own.Complete);
    cr_expect_neq(its.Complete, warm.Complete);
    expect_served(&its, "build 1: ");
    expect_served(&warm, "build 1: ");
    cr_expect_eq(links(), 2);
}

Test(nvjitlink, a_library_without_lto_ir_is_served)
{
    struct functions own, its;
    char *path = shim_kit_build(&k, "old.so", SOURCE, "-DWITHOUT_LTOIR");
    void *old = shim_kit_load(path);
    find_all(old, "", "", &own, &its);
    cr_expect_null(own.GetLinkedLTOIR);
    cr_expect_neq(its.Complete, own.Complete);
    char *direct = play(&own, ARCH, "ptx:a=1 complete show");
    for (int run = 0; run < 2; run++) {
        char *got = play(&its, ARCH, "ptx:a=1 complete show");
        cr_expect_str_eq(got, direct);
        free(got);
    }
    cr_expect_eq(links(), 1);
    free(direct);
    free(path);
}

Test(nvjitlink, a_library_that_was_replaced_on_disk_is_not_cached)
{
    char *path = shim_kit_build(&k, "libnvJitLink.so", SOURCE, "-DBUILD='\"another\"'");
    expect("ptx:a=1 complete show", all, "replaced");
    cr_expect_eq(links(), 0);
    free(path);
}

Test(nvjitlink, libraries_and_functions_that_are_not_nvjitlinks_are_left_alone)
{
    static const char *const names[] = {"nvJitLinkVersion",
                                        "nvJitLinkCompleteX",
                                        "nvJitLinkComplete_13_5",
                                        "nvJitLinkComp",
                                        "__nvJitLinkComplete",
                                        "__nvJitLinkCompleteX_13",
                                        "__nvJitLinkComplete_13_5_and_more"};
    char *path = shim_kit_build(&k, "part.so", SOURCE, "-DWITHOUT_LOG");
    void *found = dlsym(shim_kit_load(path), "nvJitLinkComplete");
    cr_expect_eq(nvjitlink_stand_in("nvJitLinkComplete", found), found, "it lacks a function");
    found = dlsym(library, "nvJitLinkComplete");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        cr_expect_eq(nvjitlink_stand_in(names[i], found), found, "%s", names[i]);
    free(path);
}

/* ---- the real nvJitLink ---- */

static const char ptx[] =
    ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }\n";

static char *play_real(const struct functions *f, const char *text)
{
    const char *options[] = {ARCH, "-O3"};
    char *seen = NULL;
    size_t len;
    struct play p = {.f = f, .out = open_memstream(&seen, &len), .bytes = calloc(1, OUT_MAX + 16)};
    fprintf(p.out, "%d ", f->Create(&p.handle, 2, options));
    fprintf(p.out, "%d ", f->AddData(p.handle, PTX, text, strlen(text), "k"));
    fprintf(p.out, "%d\n", f->Complete(p.handle));
    show(&p);
    show_nowhere(&p);
    fprintf(p.out, "%d ", f->Complete(p.handle));
    fprintf(p.out, "%d\n", f->AddData(p.handle, PTX, ptx, strlen(ptx), "l"));
    show(&p);
    fprintf(p.out, "%d\n", f->Destroy(&p.handle));
    fclose(p.out);
    free(p.bytes);
    return seen;
}

Test(nvjitlink, the_real_library_shows_the_same_with_and_without_warm)
{
    char *path = shim_kit_vendor("cu13/lib/libnvJitLink.so.13");
    struct functions its, kept;
    if (!path)
        cr_skip_test("no nvJitLink: `make test-clients CLIENTS=nvrtc` installs it");
    find_all(shim_kit_load(path), "__", "_13_5", &its, &kept);
    cr_assert(its.Complete && its.Complete != kept.Complete);
    static const char *const texts[] = {ptx, "no PTX"};
    for (size_t i = 0; i < 2; i++) {
        char *direct = play_real(&its, texts[i]);
        cr_expect_eq(strncmp(direct, "0 0 0\n", 6) == 0, i == 0, "%s", direct);
        for (int run = 0; run < 3; run++) {
            char *got = play_real(&kept, texts[i]);
            cr_expect_str_eq(got, direct, "run %d: %s, not %s", run, got, direct);
            free(got);
        }
        cr_expect_eq(links(), 1);
        free(direct);
    }
    free(path);
}
