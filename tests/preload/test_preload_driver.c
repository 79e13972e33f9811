/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_preload_driver.c - the CUDA driver's JIT compiler under libwarm-preload.so: a stand-in for
 * libcuda.so.1 and a program on it (tests/fakecuda), both built here, and a real daemon.
 *
 * On a machine with a GPU, WARM_TEST_LIBCUDA=/path/of/libcuda.so.1 runs the program on the real
 * driver instead: results are checked as ever, what only the stand-in can tell is not.
 */
#include "tests/support/warmd.h"

struct rig {
    struct warmd kit;
    char *preload, *notes; /* the file of the stand-in's notes */
    const char *real;      /* path of a real driver, or NULL */
};

#define PTX_HEAD ".version 6.0\n.target sm_50\n.address_size 64\n"
#define TWICE                                                                                      \
    ".visible .entry twice(.param .u64 p) {\n  .reg .b32 %r<2>;\n  .reg .f32 %f<3>;\n"             \
    "  .reg .b64 %d<5>;\n  ld.param.u64 %d1, [p];\n  cvta.to.global.u64 %d2, %d1;\n"               \
    "  mov.u32 %r1, %tid.x;\n  mul.wide.u32 %d3, %r1, 4;\n  add.s64 %d4, %d2, %d3;\n"              \
    "  ld.global.f32 %f1, [%d4];\n  add.f32 %f2, %f1, %f1;\n  st.global.f32 [%d4], %f2;\n  ret;\n" \
    "}\n"

static void write_text(struct rig *r, const char *name, const char *text)
{
    char *path = path_join(r->kit.dir, name);
    file_write(path, text, strlen(text));
    free(path);
}

/* A fat binary with one PTX text: driver/fat.c has the table. */
static void write_fat(struct rig *r, const char *name, const char *text, uint32_t cc,
                      uint64_t flags)
{
    struct {
        uint32_t magic;
        uint16_t version, header;
        uint64_t all;
        uint16_t kind, entry_version;
        uint32_t entry_header;
        uint64_t len;
        uint32_t compressed, options_at, ptx_version, cc;
        uint64_t none, flags, unused[2], options[2];
        char text[4096];
    } fat = {.magic = 0xba55ed50,
             .version = 1,
             .header = 16,
             .kind = 1,
             .entry_version = 0x0101,
             .entry_header = 80,
             .options_at = 64,
             .ptx_version = 6 << 16,
             .cc = cc,
             .flags = flags,
             .options = {72, 0}};
    fat.len = (strlen(text) + 8) / 8 * 8;
    fat.all = 80 + fat.len;
    strcpy(fat.text, text);
    char *path = path_join(r->kit.dir, name);
    file_write(path, &fat, 16 + fat.all);
    free(path);
}

static void write_texts(struct rig *r)
{
    write_fat(r, "fat", PTX_HEAD TWICE, 50, 0x11);
    write_fat(r, "fat_new", PTX_HEAD TWICE, 9000, 0x11);
    write_fat(r, "fat_odd", PTX_HEAD TWICE, 50, 0x13);

    write_text(r, "a", PTX_HEAD TWICE);
    write_text(r, "spaced", "// made by another run\n" PTX_HEAD "\n\n" TWICE);
    write_text(r, "lines", PTX_HEAD TWICE ".file 1 \"/a/k.cu\"\n");
    write_text(r, "lines_elsewhere", PTX_HEAD TWICE ".file 1 \"/b/k.cu\"\n");
    write_text(r, "shared", PTX_HEAD ".extern .shared .align 4 .b8 room[];\n" TWICE);
    write_text(r, "open",
               PTX_HEAD ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param "
                        ".b64 b);\n" TWICE);
    write_text(r, "broken", PTX_HEAD ".visible .entry broken() { broken; }\n");
    write_text(r, "other", PTX_HEAD ".visible .entry other() { ret; }\n");
}

static void build(struct rig *r, const char *source, const char *flags)
{
    char *out;
    int status = run_command(&out, "cc -I. -D_GNU_SOURCE -std=c11 -O1 %s -o %s/%s 2>&1", flags,
                             r->kit.dir, source);
    cr_assert_eq(status, 0, "%s", out);
    free(out);
}

/* False, and the test is skipped, where nothing is built to be preloaded (sanitizers). */
static bool rig_up(struct rig *r)
{
    *r = (struct rig){.preload = bin_path("../lib/libwarm-preload.so"),
                      .real = getenv("WARM_TEST_LIBCUDA")};
    if (access(r->preload, R_OK) != 0) {
        free(r->preload);
        cr_skip_test("libwarm-preload.so is not part of this build");
        return false;
    }
    r->kit = warmd_up(NULL);
    r->notes = path_join(r->kit.dir, "notes");
    build(r, "libcuda.so.1 tests/fakecuda/libcuda.c",
          "-shared -fPIC -Wl,-Bsymbolic,-soname,libcuda.so.1");
    build(r, "program tests/fakecuda/program.c -ldl", "");
    write_texts(r);
    return true;
}

static void rig_down(struct rig *r)
{
    warmd_down(&r->kit);
    free(r->preload);
    free(r->notes);
}

#define RAN "2 4 6 8\n"

/* Runs the program; what it printed must be `want`, and what the stand-in noted `notes`, with a
 * space after each. NULL: it does not matter. */
static void expect(struct rig *r, const char *environment, const char *commands, const char *want,
                   const char *notes)
{
    char *out;
    size_t len;
    file_write(r->notes, "", 0);
    int status = run_command(&out,
                             "cd %s && env CUDA_CACHE_DISABLE=1 FAKECUDA_LOG=%s WARM_SOCKET=%s "
                             "WARM_TIMEOUT_MS=5000 %s "
                             "LD_PRELOAD=%s ./program %s %s 2>&1",
                             r->kit.dir, r->notes, r->kit.socket, environment, r->preload,
                             r->real ? r->real : "$PWD/libcuda.so.1", commands);
    cr_assert_eq(status, 0, "%s", out);
    if (want)
        cr_assert_str_eq(out, want, "%s %s: %s", environment, commands, out);
    free(out);
    char *text = file_read(r->notes, &len);
    for (char *c = text; *c; c++)
        *c = *c == '\n' ? ' ' : *c;
    if (notes && !r->real)
        cr_assert_str_eq(text, notes, "%s %s: %s", environment, commands, text);
    free(text);
}

#define MADE "jit link load cubin launch twice "
#define KNOWN "load cubin launch twice "
#define PLAIN "load ptx jit launch twice "

Test(preload_driver, second_process_loads_the_first_ones_cubin)
{
    struct rig r;
    if (!rig_up(&r))
        return;
    expect(&r, "", "dlsym module a", RAN, MADE);
    expect(&r, "", "dlsym module a", RAN, KNOWN);
    expect(&r, "", "address module a", RAN, KNOWN);
    expect(&r, "", "address ex a", RAN, KNOWN);
    expect(&r, "", "dlsym module spaced", RAN, KNOWN);
    expect(&r, "", "dlsym module shared", RAN, MADE);
    rig_down(&r);
}

/* The driver writes them into the cubin, without being asked. */
Test(preload_driver, line_information_is_in_the_key)
{
    struct rig r;
    if (!rig_up(&r))
        return;
    expect(&r, "", "dlsym module lines", RAN, MADE);
    expect(&r, "", "dlsym module lines", RAN, KNOWN);
    expect(&r, "", "dlsym module lines_elsewhere", RAN, MADE);
    rig_down(&r);
}

Test(preload_driver, libraries_are_served_as_modules_are)
{
    struct rig r;
    if (!rig_up(&r))
        return;
    expect(&r, "", "dlsym library a", RAN, MADE);
    expect(&r, "", "address library a", RAN, KNOWN);
    rig_down(&r);
}

Test(preload_driver, programs_that_are_linked_with_the_driver_are_served)
{
    struct rig r;
    if (!rig_up(&r))
        return;
    if (!r.real) {
        char *out, *linked = path_join(r.kit.dir, "program");
        int status = run_command(&out,
                                 "cc -DLINKED -I. -D_GNU_SOURCE -std=c11 -o %s "
                                 "tests/fakecuda/program.c -L%s -l:libcuda.so.1 -ldl "
                                 "-Wl,-rpath,%s 2>&1",
                                 linked, r.kit.dir, r.kit.dir);
        cr_assert_eq(status, 0, "%s", out);
        free(out);
        free(linked);
        expect(&r, "", "dlsym module a link a", RAN RAN, MADE MADE);
        expect(&r, "", "dlsym module a link a", RAN RAN, KNOWN KNOWN);
    }
    rig_down(&r);
}

Test(preload_driver, fat_binaries_with_one_text_are_that_text)
{
    struct rig r;
    if (!rig_up(&r))
        return;
    expect(&r, "", "dlsym fat fat", RAN, MADE);
    expect(&r, "", "dlsym fat fat module fat module a", RAN RAN RAN, KNOWN KNOWN KNOWN);
    if (!r.real) {
        expect(&r, "", "dlsym fat fat_new", "error 209\n", ""); /* no device is that new */
        expect(&r, "", "dlsym fat fat_odd", RAN, PLAIN);
        expect(&r, "", "dlsym fat a", "error 200\n", "");
    }
    rig_down(&r);
}

Test(preload_driver, driver_device_and_options_are_in_the_key)
{
    struct rig r;
    if (!rig_up(&r))
        return;
    expect(&r, "", "dlsym module a", RAN, MADE);
    expect(&r, "", "dlsym registers a", RAN, MADE);
    expect(&r, "", "dlsym registers a", RAN, KNOWN);
    expect(&r, "FAKECUDA_CC=100", "dlsym module a", RAN, MADE);
    expect(&r, "FAKECUDA_DRIVER=13010", "dlsym module a", RAN, MADE);
    build(&r, "libcuda.so.1 tests/fakecuda/libcuda.c",
          "-shared -fPIC -Wl,-Bsymbolic,-soname,libcuda.so.1 -DANOTHER_BUILD -O0");
    expect(&r, "", "dlsym module a", RAN, MADE);
    rig_down(&r);
}

Test(preload_driver, what_is_not_plain_is_the_drivers)
{
    struct rig r;
    if (!rig_up(&r))
        return;
    for (int i = 0; i < 2; i++) {
        expect(&r, "", "dlsym module open", r.real ? NULL : RAN, PLAIN);
        expect(&r, "", "dlsym target a", r.real ? NULL : RAN, PLAIN);
        expect(&r, "CUDA_FORCE_PTX_JIT=1", "dlsym module a", RAN, PLAIN);
    }
    rig_down(&r);
}

Test(preload_driver, ptx_that_does_not_compile_fails_as_ever)
{
    struct rig r;
    if (!rig_up(&r))
        return;
    for (int i = 0; i < 2; i++)
        expect(&r, "", "dlsym module broken", "error 218\n", "jit load ptx jit ");
    expect(&r, "", "dlsym module a", RAN, MADE);
    rig_down(&r);
}

Test(preload_driver, cubin_that_does_not_load_is_replaced)
{
    struct rig r;
    if (!rig_up(&r))
        return;
    if (!r.real) {
        expect(&r, "FAKECUDA_STAMP=old", "dlsym module a", RAN, MADE);
        expect(&r, "FAKECUDA_STAMP=new FAKECUDA_REFUSE=old", "dlsym module a", RAN,
               "load cubin " MADE);
        expect(&r, "FAKECUDA_REFUSE=old", "dlsym module a", RAN, KNOWN);
        expect(&r, "FAKECUDA_STAMP=new FAKECUDA_REFUSE=new", "dlsym module a", RAN,
               "load cubin jit link load cubin " PLAIN);
    }
    rig_down(&r);
}

Test(preload_driver, links_of_the_program_are_kept_whole)
{
    struct rig r;
    if (!rig_up(&r))
        return;
    expect(&r, "", "dlsym link a,other", r.real ? NULL : RAN,
           "jit jit link load cubin launch twice ");
    expect(&r, "", "address link a,other", r.real ? NULL : RAN, KNOWN);
    expect(&r, "", "dlsym link other,a", r.real ? NULL : RAN,
           "jit jit link load cubin launch twice ");
    expect(&r, "", "dlsym link a", r.real ? NULL : RAN, MADE);
    rig_down(&r);
}

Test(preload_driver, input_that_is_refused_is_refused_when_it_is_added)
{
    struct rig r;
    if (!rig_up(&r))
        return;
    expect(&r, "", "dlsym link a", NULL, NULL);
    for (int i = 0; i < 2; i++)
        expect(&r, "", "dlsym link a,broken", r.real ? NULL : "adding: error 218\n", "jit jit ");
    rig_down(&r);
}

Test(preload_driver, log_of_a_link_is_given_again)
{
    struct rig r;
    if (!rig_up(&r))
        return;
    if (!r.real) {
        expect(&r, "FAKECUDA_SAYS=hello", "dlsym link a", "log of 5: hello; " RAN, NULL);
        expect(&r, "FAKECUDA_SAYS=later", "dlsym link a", "log of 5: hello; " RAN, KNOWN);
        expect(&r, "FAKECUDA_SAYS='ptxas info : Compile time = 1 ms'", "dlsym link other,a",
               "log of 32: ptxas info : Compile time = 1 ms; " RAN, NULL);
        expect(&r, "FAKECUDA_SAYS=later", "dlsym link other,a", RAN, KNOWN);
    }
    rig_down(&r);
}

Test(preload_driver, files_of_a_link_count_by_content)
{
    struct rig r;
    if (!rig_up(&r))
        return;
    expect(&r, "", "dlsym paths a,other", r.real ? NULL : RAN,
           "jit jit link load cubin launch twice ");
    expect(&r, "", "dlsym paths a,other", r.real ? NULL : RAN, KNOWN);
    write_text(&r, "other", PTX_HEAD ".visible .entry another() { ret; }\n");
    expect(&r, "", "dlsym paths a,other", r.real ? NULL : RAN,
           "jit jit link load cubin launch twice ");
    rig_down(&r);
}

Test(preload_driver, without_a_daemon_everything_is_as_ever)
{
    struct rig r;
    if (!rig_up(&r))
        return;
    const char *all = "dlsym module a library a";
    expect(&r, "WARM_SOCKET=/nowhere", all, RAN RAN, PLAIN PLAIN);
    expect(&r, "WARM_DISABLE=1", all, RAN RAN, PLAIN PLAIN);
    expect(&r, "WARM_READONLY=1", "dlsym module a", RAN, PLAIN);
    expect(&r, "", "dlsym module a", RAN, MADE);
    expect(&r, "WARM_READONLY=1", "dlsym module a", RAN, KNOWN);
    expect(&r, "WARM_RECACHE=1", "dlsym module a", RAN, MADE);
    rig_down(&r);
}
