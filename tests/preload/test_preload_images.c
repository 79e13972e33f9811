/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_preload_images.c - what NVRTC made and a driver then refuses to load is not given out again:
 * tests/programs/nvrtc_launch.c on the stand-in for libcuda.so.1 (tests/fakecuda), both built here,
 * a real NVRTC and a real daemon. Needs a toolchain: see support/pool.h, and a C compiler.
 */
#include "tests/support/warmd.h"

struct rig {
    struct warmd kit;
    char *preload, *nvrtc;
};

static char *real_path(char *path)
{
    char *real = realpath(path, NULL);
    free(path);
    return real;
}

static void build(struct rig *r, const char *how)
{
    char *out;
    int status =
        run_command(&out, "cc -I. -D_GNU_SOURCE -std=c11 -O1 -o %s/%s -ldl 2>&1", r->kit.dir, how);
    cr_assert_eq(status, 0, "%s", out);
    free(out);
}

/* False, and the test is skipped, where something is missing. */
static bool rig_up(struct rig *r)
{
    static char *options[] = {(char *)"--jobs", (char *)"1", NULL};
    const char *root = getenv("WARM_TOOLCHAIN");
    char *toolchain = root ? strdup(root) : bin_path("../toolchain");
    *r = (struct rig){.preload = real_path(bin_path("../lib/libwarm-preload.so")),
                      .nvrtc = real_path(path_join(toolchain, "13.5.37/lib/libnvrtc.so.13"))};
    free(toolchain);
    if (!r->preload || !r->nvrtc) {
        free(r->preload);
        free(r->nvrtc);
        cr_skip_test("no libwarm-preload.so in this build, or no CUDA toolchain");
        return false;
    }
    r->kit = warmd_up(options);
    build(r, "libcuda.so.1 -shared -fPIC -Wl,-Bsymbolic,-soname,libcuda.so.1 "
             "tests/fakecuda/libcuda.c");
    build(r, "program tests/programs/nvrtc_launch.c");
    return true;
}

static void rig_down(struct rig *r)
{
    warmd_down(&r->kit);
    free(r->preload);
    free(r->nvrtc);
}

static void expect(struct rig *r, const char *environment, const char *form, const char *want)
{
    char *out;
    int status = run_command(
        &out,
        "cd %s && env WARM_DRIVER_JIT=1 WARM_TIMEOUT_MS=5000 WARM_SOCKET=%s WARM_SESSION=images "
        "%s LD_PRELOAD=%s ./program %s $PWD/libcuda.so.1 %s 2>&1",
        r->kit.dir, r->kit.socket, environment, r->preload, r->nvrtc, form);
    cr_assert_eq(status, 0, "%s", out);
    cr_assert_str_eq(out, want, "%s %s: %s", environment, form, out);
    free(out);
}

/* What `warm` prints has the text. */
static bool says(struct rig *r, const char *command, const char *text)
{
    char *out, *warm = bin_path("warm");
    run_command(&out, "WARM_SOCKET=%s %s %s 2>&1", r->kit.socket, warm, command);
    bool found = strstr(out, text) != NULL;
    free(out);
    free(warm);
    return found;
}

#define REFUSED "FAKECUDA_REFUSE=real"
#define COMPILES(n) says(&r, "stats --json", "\"compiles\": " #n ",")

/* The daemon is told, and gives no answer to that. */
static void wait_until_set_aside(struct rig *r)
{
    for (int i = 0; i < 1000; i++) {
        if (says(r, "stats --json", "\"corrupt\": 1,"))
            return;
        usleep(10000);
    }
    cr_assert_fail("what was refused is not set aside");
}

Test(preload_images, a_cubin_that_does_not_load_is_compiled_anew)
{
    struct rig r;
    if (!rig_up(&r))
        return;
    expect(&r, "", "cubin", "loaded\n");
    expect(&r, "", "cubin", "loaded\n");
    cr_assert(COMPILES(1), "the second was no hit");
    expect(&r, REFUSED, "cubin", "error 200\n");
    cr_assert(COMPILES(1));
    wait_until_set_aside(&r);
    expect(&r, "", "cubin", "loaded\n");
    cr_assert(COMPILES(2), "what was refused was given out again");
    cr_assert(says(&r, "why --last", "refused by the driver"));
    expect(&r, "", "cubin", "loaded\n");
    cr_assert(COMPILES(2));
    rig_down(&r);
}

Test(preload_images, ptx_that_does_not_load_is_compiled_anew)
{
    struct rig r;
    if (!rig_up(&r))
        return;
    expect(&r, "FAKECUDA_BREAKS=.entry", "ptx", "error 218\n");
    wait_until_set_aside(&r);
    expect(&r, "", "ptx", "loaded\n");
    cr_assert(COMPILES(2), "what was refused was given out again");
    rig_down(&r);
}

Test(preload_images, what_is_refused_for_other_reasons_stays)
{
    struct rig r;
    if (!rig_up(&r))
        return;
    expect(&r, "", "cubin", "loaded\n");
    expect(&r, REFUSED " FAKECUDA_CC=80", "cubin", "error 200\n"); /* it is for sm_90 */
    expect(&r, REFUSED " WARM_READONLY=1", "cubin", "error 200\n");
    expect(&r, REFUSED, "short", "error 200\n"); /* and the program lives */
    expect(&r, "", "cubin", "loaded\n");
    cr_assert(COMPILES(1));
    rig_down(&r);
}
