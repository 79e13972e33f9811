/* SPDX-License-Identifier: Apache-2.0 */
/*
 * any_gpu.c - finds the machine's GPU, compiles for it, or builds and loads the stand-in. A library that is loaded
 * already is found by its SONAME, so dlopen("libcuda.so.1") returns ours. test_exec.c and test_train.c use it.
 *
 * Thread: the test's. State: what was found, once for each test, because Criterion forks for each.
 */
#include "tests/kernels/any_gpu.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/exec/driver.h"
#include "tests/support/compile.h"

static char found[32]; /* the real GPU's target, "none", or empty before the first question */

const char *any_gpu_target(void) { return any_gpu_is_real() ? found : "sm_90"; }

bool any_gpu_is_real(void)
{
    struct driver *d = NULL;
    struct err e = {0};
    if (!*found) {
        bool real = driver_open(0, &d, &e) == 0;
        snprintf(found, sizeof found, "%s", real ? driver_arch(d) : "none");
        driver_close(d);
    }
    return strcmp(found, "none") != 0;
}

/* ---- NVRTC ---- */

static void *nvrtc_open(void)
{
    static void *handle;
    NEEDS_TOOLCHAIN(folder);
    char path[4096];
    for (int i = 0; i < 2 && !handle; i++) {
        snprintf(path, sizeof path, "%s/%s", folder,
                 i ? "libnvrtc.so.13" : "libnvrtc-builtins.so.13.5");
        handle = dlopen(path, RTLD_NOW);
        cr_assert_not_null(handle, "%s", dlerror());
        handle = i ? handle : NULL;
    }
    return handle;
}

void *any_gpu_cubin(const char *source, size_t *out_len)
{
    void *handle = nvrtc_open(), *program, *cubin;
    int (*create)(void **, const char *, const char *, int, const char *const *,
                  const char *const *);
    int (*compile)(void *, int, const char *const *);
    int (*cubin_size)(void *, size_t *), (*cubin_of)(void *, void *), (*destroy)(void **);
    *(void **)&create = dlsym(handle, "nvrtcCreateProgram");
    *(void **)&compile = dlsym(handle, "nvrtcCompileProgram");
    *(void **)&cubin_size = dlsym(handle, "nvrtcGetCUBINSize");
    *(void **)&cubin_of = dlsym(handle, "nvrtcGetCUBIN");
    *(void **)&destroy = dlsym(handle, "nvrtcDestroyProgram");
    char option[64];
    const char *options[] = {option};
    snprintf(option, sizeof option, "-arch=%s", any_gpu_target());
    cr_assert_eq(create(&program, source, "graph.cu", 0, NULL, NULL), 0);
    cr_assert_eq(compile(program, 1, options), 0, "%s: %.400s", option, source);
    cr_assert_eq(cubin_size(program, out_len), 0);
    cr_assert_not_null(cubin = malloc(*out_len));
    cr_assert_eq(cubin_of(program, cubin), 0);
    destroy(&program);
    return cubin;
}

/* ---- the stand-in ---- */

void any_gpu_build_stand_in(const char *folder)
{
    char command[512];
    snprintf(command, sizeof command,
             "cc -std=c11 -O1 -g -D_GNU_SOURCE -I. -w -shared -fPIC "
             "-Wl,-Bsymbolic,-soname,libcuda.so.1 -o %s/libcuda.so.1 tests/fakecuda/libcuda.c -ldl",
             folder);
    cr_assert_eq(system(command), 0, "%s", command);
}

void any_gpu_use(const char *folder)
{
    char path[256];
    if (any_gpu_is_real())
        return;
    if (dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD))
        cr_skip_test("a driver without a GPU is here, and hides the stand-in");
    any_gpu_build_stand_in(folder);
    snprintf(path, sizeof path, "%s/graphs.so", folder);
    setenv("FAKECUDA_KERNELS", path, 1);
    snprintf(path, sizeof path, "%s/libcuda.so.1", folder);
    cr_assert_not_null(dlopen(path, RTLD_NOW | RTLD_GLOBAL), "%s", dlerror());
}
