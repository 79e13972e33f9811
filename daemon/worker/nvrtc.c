/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvrtc.c - loads libnvrtc and its builtins from descriptors, and looks up the functions that nvrtc.fn
 * lists. The fork server calls it once, before it forks a worker.
 *
 * Thread: the main thread.
 */
#include "daemon/worker/nvrtc.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Copies an object pointer of dlsym into a function pointer, which ISO C does not let us cast. */
static bool find(void *library, const char *symbol, void *out_function)
{
    void *found = dlsym(library, symbol);
    memcpy(out_function, &found, sizeof found);
    return found != NULL;
}

/* Opens a library by its descriptor. The loader takes paths only: this one leads to the open file,
 * even if another lies at its path by now. */
static void *load(int fd, int mode)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return dlopen(path, mode | RTLD_LOCAL);
}

int nvrtc_open(struct nvrtc *out, int library, int builtins, const char *name, struct err *e)
{
    void *handle = NULL;
    if (builtins < 0 || load(builtins, RTLD_LAZY))
        handle = load(library, RTLD_NOW);
    if (!handle)
        return err_set(e, WARM_ENO_TOOLCHAIN, "cannot load %s: %s", name, dlerror());
    const char *missing = NULL;
#define FN(name, parameters)                                                                       \
    if (!find(handle, "nvrtc" #name, &out->name))                                                  \
        missing = "nvrtc" #name;
#define FN_OPTIONAL(name, parameters) find(handle, "nvrtc" #name, &out->name);
#include "daemon/worker/nvrtc.fn"
#undef FN
#undef FN_OPTIONAL
    if (missing)
        return err_set(e, WARM_ENO_TOOLCHAIN, "%s has no %s", name, missing);
    int rc = out->Version(&out->major, &out->minor);
    if (rc)
        return err_set(e, WARM_ENO_TOOLCHAIN, "%s: nvrtcVersion says %d", name, rc);
    return 0;
}
