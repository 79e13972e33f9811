/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stand_in.c - builds and loads the stand-in for a GPU's driver. A library that is loaded already is found by
 * its SONAME, so dlopen("libcuda.so.1") returns ours. test_exec.c and test_train.c use it.
 */
#include "tests/kernels/stand_in.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

bool stand_in_is_needless(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (library)
        dlclose(library);
    return library;
}

void stand_in_build(const char *folder)
{
    char command[512];
    snprintf(command, sizeof command,
             "cc -std=c11 -O1 -g -D_GNU_SOURCE -I. -w -shared -fPIC "
             "-Wl,-Bsymbolic,-soname,libcuda.so.1 -o %s/libcuda.so.1 tests/fakecuda/libcuda.c -ldl",
             folder);
    cr_assert_eq(system(command), 0, "%s", command);
}

void stand_in_load(const char *folder, const char *kernels)
{
    char path[256];
    snprintf(path, sizeof path, "%s/libcuda.so.1", folder);
    setenv("FAKECUDA_KERNELS", kernels, 1);
    cr_assert_not_null(dlopen(path, RTLD_NOW | RTLD_GLOBAL), "%s", dlerror());
}
