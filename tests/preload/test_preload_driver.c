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

#define DRIVER "libcuda.so.1 tests/fakecuda/libcuda.c"
#define DRIVER_FLAGS "-shared -fPIC -Wl,-Bsymbolic,-soname,libcuda.so.1"

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
    build(r, DRIVER, DRIVER_FLAGS);
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

/* Runs a program; what it printed must be `want`, and what the stand-in noted `notes`, with a space after each.
 * NULL: it does not matter. */
static void expect_of(struct rig *r, const char *program, const char *environment,
                      const char *commands, const char *want, const char *notes)
{
    char *out;
    size_t len;
    file_write(r->notes, "", 0);
    int status = run_command(&out,
                             "cd %s && env CUDA_CACHE_DISABLE=1 FAKECUDA_LOG=%s WARM_SOCKET=%s "
                             "WARM_TIMEOUT_MS=5000 WARM_DRIVER_JIT=1 env %s "
                             "LD_PRELOAD=%s %s %s %s 2>&1",
                             r->kit.dir, r->notes, r->kit.socket, environment, r->preload, program,
                             r->real ? r->real : "$PWD/libcuda.so.1", commands);
    cr_assert_eq(status, 0, "%s %s %s: %s", program, environment, commands, out);
    if (want)
        cr_assert_str_eq(out, want, "%s %s %s: %s", program, environment, commands, out);
    free(out);
    char *text = file_read(r->notes, &len);
    for (char *c = text; *c; c++)
        *c = *c == '\n' ? ' ' : *c;
    if (notes && !r->real)
        cr_assert_str_eq(text, notes, "%s %s %s: %s", program, environment, commands, text);
    free(text);
}

static void expect(struct rig *r, const char *environment, const char *commands, const char *want,
                   const char *notes)
{
    expect_of(r, "./program", environment, commands, want, notes);
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
    build(&r, DRIVER, DRIVER_FLAGS " -DANOTHER_BUILD -O0");
    expect(&r, "", "dlsym module a", RAN, MADE);
    rig_down(&r);
}

/* An H100 of another form, or a part of one, runs the same code. */
Test(preload_driver, devices_of_one_target_share_what_has_no_log)
{
    struct rig r;
    if (!rig_up(&r))
        return;
    for (int i = 0; !r.real && i < 2; i++) {
        const char *environment = i ? "FAKECUDA_NAME='H100 PCIe'" : "FAKECUDA_NAME='H100 SXM'";
        expect(&r, environment, "dlsym module a", RAN, i ? KNOWN : MADE);
        expect(&r, environment, "dlsym library a", RAN, i ? KNOWN : MADE);
        expect(&r, environment, "dlsym logs a", RAN, MADE);
        expect(&r, environment, "dlsym link a", RAN, MADE);
        expect(&r, environment, "dlsym link a", RAN, KNOWN);
    }
    if (!r.real) {
        expect(&r, "FAKECUDA_CC=90,90", "dlsym module a library a", RAN RAN, KNOWN KNOWN);
        expect(&r, "FAKECUDA_CC=90,80", "dlsym module a library a", RAN RAN, MADE PLAIN);
        expect(&r, "FAKECUDA_CC=90,80", "dlsym module a", RAN, KNOWN);
        expect(&r, "FAKECUDA_CC=90,80 FAKECUDA_NAME=other", "dlsym module a", RAN, MADE);
        expect(&r, "FAKECUDA_CC=80,80", "dlsym module a", RAN, MADE);
    }
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
    expect(&r, "", "dlsym module broken", "error 218\n", "jit load ptx jit ");
    expect(&r, "", "dlsym module broken", "error 218\n", "load ptx jit ");
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

/* ---- who gets a stand-in ---- */

#define OWN "the driver's\n"
#define LINK_PART "cuLinkCreate cuLinkAddData cuLinkAddFile cuLinkComplete cuLinkDestroy\n"
#define LOAD_PART                                                                                  \
    "cuModuleLoadData cuModuleLoadDataEx cuModuleLoadFatBinary cuLibraryLoadData cuModuleLoad "    \
    "cuLibraryLoadFromFile "

/* Builds the program as `name` again, linked with the stand-in. False on a real driver. */
static bool build_linked(struct rig *r, const char *name, const char *flags)
{
    char flags_and_library[8192];
    snprintf(flags_and_library, sizeof flags_and_library,
             "%s -L%s -Wl,--no-as-needed -l:libcuda.so.1 -Wl,-rpath,%s -ldl", flags, r->kit.dir,
             r->kit.dir);
    char source[64];
    snprintf(source, sizeof source, "%s tests/fakecuda/program.c", name);
    if (!r->real)
        build(r, source, flags_and_library);
    return !r->real;
}

static bool build_plugin(struct rig *r)
{
    build(r, "host tests/fakecuda/plugin_host.c", "-ldl");
    return build_linked(r, "plugin.so", "-DLINKED -shared -fPIC -Dmain=plugin_main");
}

Test(preload_driver, loads_are_left_to_the_driver_by_default)
{
    struct rig r;
    if (!rig_up(&r))
        return;
    static const char *const off[] = {"-u WARM_DRIVER_JIT", "WARM_DRIVER_JIT=0",
                                      "WARM_DRIVER_JIT="};
    for (size_t i = 0; i < sizeof off / sizeof *off; i++) {
        expect(&r, off[i], "dlsym whose are,they", LINK_PART, "");
        expect(&r, off[i], "address whose are,they", LINK_PART, "");
        expect(&r, off[i], "dlsym module a ex a library a", RAN RAN RAN,
               "load ptx jit launch twice load ptx jit launch twice " PLAIN);
    }
    expect(&r, "", "dlsym whose are,they", LOAD_PART LINK_PART, "");
    expect(&r, "", "address whose are,they", LOAD_PART LINK_PART, "");
    rig_down(&r);
}

Test(preload_driver, without_a_daemon_every_look_up_finds_the_drivers_own)
{
    struct rig r;
    if (!rig_up(&r))
        return;
    static const char *const off[] = {"WARM_SOCKET=/nowhere", "WARM_DISABLE=1"};
    for (size_t i = 0; i < sizeof off / sizeof *off; i++) {
        expect(&r, off[i], "dlsym whose are,they", OWN, "");
        expect(&r, off[i], "address whose are,they", OWN, "");
    }
    rig_down(&r);
}

Test(preload_driver, programs_that_are_linked_with_the_driver_get_its_own_functions)
{
    struct rig r;
    if (!rig_up(&r))
        return;
    if (build_linked(&r, "linked", "-DLINKED"))
        for (int i = 0; i < 2; i++) {
            expect_of(&r, "./linked", "", "default whose are,they module a", OWN RAN, PLAIN);
            expect_of(&r, "./linked", "", "next whose are,they link a", OWN RAN, MADE);
        }
    rig_down(&r);
}

/* Extension modules of Python are such plugins: Triton's launcher, for instance. */
Test(preload_driver, plugins_that_are_linked_with_the_driver_get_its_own_functions)
{
    struct rig r;
    if (!rig_up(&r))
        return;
    static const char *const scopes[] = {"local", "global", "deepbind", "namespace"};
    static const char *const hows[] = {"default", "next", "versioned"};
    char flags[4200]; /* with a version, for dlvsym */
    write_text(&r, "versions", "ANY { global: cu*; };\n");
    snprintf(flags, sizeof flags, DRIVER_FLAGS " -Wl,--version-script,%s/versions", r.kit.dir);
    if (!r.real)
        build(&r, DRIVER, flags);
    bool is_built = build_plugin(&r);
    for (size_t i = 0; is_built && i < sizeof scopes / sizeof *scopes; i++) {
        char host[64];
        snprintf(host, sizeof host, "./host %s ./plugin.so", scopes[i]);
        for (size_t j = 0; j < sizeof hows / sizeof *hows; j++) {
            char commands[64];
            snprintf(commands, sizeof commands, "%s whose are,they module a link a", hows[j]);
            expect_of(&r, host, "", commands, OWN RAN RAN, PLAIN MADE);
        }
    }
    rig_down(&r);
}

/* A namespace of its own has no preloaded library; RTLD_DEEPBIND binds dlsym to the C library's. */
Test(preload_driver, handles_are_served_in_every_scope_that_has_our_dlsym)
{
    struct rig r;
    if (!rig_up(&r))
        return;
    build(&r, "host tests/fakecuda/plugin_host.c", "-ldl");
    build(&r, "plugin.so tests/fakecuda/program.c", "-shared -fPIC -Dmain=plugin_main -ldl");
    expect_of(&r, "./host local ./plugin.so", "", "dlsym module a", RAN, MADE);
    expect_of(&r, "./host local ./plugin.so", "", "dlsym module a", RAN, KNOWN);
    expect_of(&r, "./host global ./plugin.so", "", "address module a", RAN, KNOWN);
    expect_of(&r, "./host deepbind ./plugin.so", "", "dlsym module a", RAN, PLAIN);
    expect_of(&r, "./host namespace ./plugin.so", "", "dlsym module a", RAN, PLAIN);
    rig_down(&r);
}

/* The newest headers at hand are those of 13.5. */
Test(preload_driver, only_the_version_of_a_function_that_is_known_is_stood_in_for)
{
    struct rig r;
    if (!rig_up(&r))
        return;
    static const char *const known[] = {"address:12000", "address:12090", "address:13000",
                                        "address:13050"};
    for (size_t i = 0; !r.real && i < sizeof known / sizeof *known; i++) {
        char commands[64];
        snprintf(commands, sizeof commands, "%s whose are,they link a", known[i]);
        expect(&r, "", commands, LOAD_PART LINK_PART RAN, i ? KNOWN : MADE);
    }
    if (!r.real)
        expect(&r, "", "address:14000 whose are,they link a",
               LOAD_PART "cuLinkCreate cuLinkAddFile cuLinkComplete cuLinkDestroy\n"
                         "adding: error 801\n",
               "");
    rig_down(&r);
}

/* Its functions are not those of the first one, whose contexts and modules are its own. */
Test(preload_driver, a_second_driver_in_another_namespace_is_left_alone)
{
    struct rig r;
    if (!rig_up(&r))
        return;
    if (!r.real)
        expect(&r, "", "namespace whose are,they module a", OWN RAN, PLAIN);
    rig_down(&r);
}

/* No key has what such a plugin adds to a link. */
Test(preload_driver, links_are_the_drivers_if_a_part_of_the_process_is_linked_with_it)
{
    struct rig r;
    if (!rig_up(&r))
        return;
    expect(&r, "", "dlsym paths a", r.real ? NULL : RAN, MADE);
    expect(&r, "", "dlsym paths a", r.real ? NULL : RAN, KNOWN);
    if (build_linked(&r, "linked", "-DLINKED_ADD")) {
        expect_of(&r, "./linked", "", "dlsym mixed a,other", RAN,
                  "jit jit link load cubin launch twice ");
        expect_of(&r, "./linked", "", "dlsym paths a", RAN, MADE);
    }
    rig_down(&r);
}

/* As a plugin may, which has it from RTLD_DEFAULT, or from before the daemon was started. */
Test(preload_driver, links_are_the_drivers_once_the_program_has_its_own_functions)
{
    struct rig r;
    if (!rig_up(&r))
        return;
    build(&r, "host tests/fakecuda/plugin_host.c", "-ldl");
    if (build_linked(&r, "global.so", "-shared -fPIC -Dmain=plugin_main")) {
        expect_of(&r, "./host global ./global.so", "", "dlsym link a", RAN, MADE);
        expect_of(&r, "./host global ./global.so", "", "dlsym link a", RAN, KNOWN);
        expect_of(&r, "./host global ./global.so", "", "default,dlsym link a", RAN, MADE);
    }
    rig_down(&r);
}

/* ---- what is not kept ---- */

/* True if `warm why` says the text of the session that the environment names. */
static bool why_says(struct rig *r, const char *session, const char *text)
{
    char *out, *warm = bin_path("warm");
    run_command(&out, "WARM_SOCKET=%s %s why --session %s 2>&1", r->kit.socket, warm, session);
    bool says = strstr(out, text) != NULL && !strstr(out, "cold");
    if (!says)
        fprintf(stderr, "%s\n", out);
    free(out);
    free(warm);
    return says;
}

Test(preload_driver, ptx_that_the_linker_warns_of_is_compiled_once_in_each_process)
{
    struct rig r;
    if (!rig_up(&r))
        return;
    static const char settings[] = "FAKECUDA_SAYS='ptxas warning : recursion'";
    char environment[256];
    for (int i = 0; !r.real && i < 2; i++) {
        snprintf(environment, sizeof environment, "WARM_SESSION=s%d %s", i, settings);
        expect(&r, environment, "dlsym module a", RAN, i ? PLAIN : MADE);
        snprintf(environment, sizeof environment, "s%d", i);
        cr_expect(why_says(&r, environment, "the driver's linker said: ptxas warning : recursion"));
    }
    rig_down(&r);
}

/* Its log would be the linker's, which says more than the loader's. */
Test(preload_driver, a_program_that_asks_for_a_log_gets_its_own_loads)
{
    struct rig r;
    if (!rig_up(&r))
        return;
    for (int i = 0; !r.real && i < 2; i++)
        expect(&r, "FAKECUDA_SAYS='ptxas warning : recursion'", "dlsym logs a", RAN,
               i ? PLAIN : "jit link " PLAIN);
    for (int i = 0; i < 2; i++)
        expect(&r, "", "dlsym logs shared", RAN, i ? KNOWN : MADE);
    rig_down(&r);
}

/* They are the driver's, though the program asked for WARM_DRIVER_JIT. */
Test(preload_driver, why_tells_once_which_loads_are_not_served)
{
    struct rig r;
    if (!rig_up(&r))
        return;
    static const char *const loads[][2] = {
        {"fat fat_odd fat fat_odd", "a fat binary\n    uncacheable: it is compressed"},
        {"module fat_odd module fat_odd", "a fat binary\n    uncacheable: it is compressed"},
        {"ownlibrary a ownlibrary a", "cuLibraryLoadData\n    uncacheable: it has options"},
        {"file a file a", "cuModuleLoad\n    uncacheable: the driver loads files"},
        {"filelibrary a filelibrary a", "cuLibraryLoadFromFile\n    uncacheable: the driver loads"},
    };
    for (size_t i = 0; !r.real && i < sizeof loads / sizeof *loads; i++) {
        char environment[64], commands[64];
        snprintf(environment, sizeof environment, "WARM_SESSION=w%zu", i);
        snprintf(commands, sizeof commands, "dlsym %s", loads[i][0]);
        expect(&r, environment, commands, RAN RAN, PLAIN PLAIN);
        cr_expect(why_says(&r, environment + strlen("WARM_SESSION="), loads[i][1]));
        cr_expect(why_says(&r, environment + strlen("WARM_SESSION="), " 1 not kept"));
    }
    rig_down(&r);
}
