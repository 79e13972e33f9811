/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dl.c - decides which function a program gets from dlsym: a stand-in for the names of a family,
 * the real dlsym's answer for all others. The program calls it instead of the C library's dlsym.
 *
 * The answer of the real dlsym for RTLD_NEXT and RTLD_DEFAULT depends on its caller, which it finds
 * by the return address. So it is called in tail position: the return address is the program's own.
 *
 * Thread: any, also before this object's constructors ran; no state.
 */
#include "client/preload/preload.h"

#include <dlfcn.h>
#include <string.h>

#include "client/lib/environment.h"
#include "keygen/expect.h"

static const struct preload_family families[] = {
    {"nvrtc", nvrtc_stand_in},
    {"nvJitLink", nvjitlink_stand_in},
    {"__nvJitLink", nvjitlink_stand_in},
    {"nvvm", nvvm_stand_in},
    {"GetPjrtApi", pjrt_stand_in},
    {"cuModuleLoad", driver_stand_in},
    {"cuLibraryLoad", driver_stand_in},
    {"cuLink", driver_stand_in},
    {"cuGetProcAddress", driver_stand_in},
    {"mlirPassManagerRunOnOp", mlir_stand_in},
    {"PyInit__cutlass_ir", python_stand_in},
    {"wp_cuda_compile_program", python_stand_in},
    {"wp_compile_cpp", python_stand_in},
};

/* Returns the family of a name; NULL if it has none. */
static const struct preload_family *family_of(const char *name)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (strncmp(name, families[i].prefix, strlen(families[i].prefix)) == 0)
            return &families[i];
    return NULL;
}

/* Returns the stand-in for a function that the real dlsym found. Families look up further names, and a missing
 * one must not show in dlerror. */
static void *stand_in_for(const struct preload_family *family, const char *name, void *found)
{
    void *function = family->stand_in(name, found);
    dlerror();
    return function;
}

/*
 * Returns what the code at `caller` finds without a handle: in the global scope, and then in the libraries that
 * its own was linked with, which see each other even if they were loaded RTLD_LOCAL. A caller that was loaded
 * RTLD_DEEPBIND does not get here: it is bound to the C library's dlsym. NULL if that cannot be told.
 */
static void *find_by_default(const char *name, const void *caller)
{
    void *found = preload_real_dlsym(RTLD_DEFAULT, name);
    void *own = found ? NULL : preload_open_library_of(caller);
    if (!own)
        return found;
    found = preload_real_dlsym(own, name);
    dlclose(own);
    return found;
}

/* Returns a function of a family for the caller; NULL: the real dlsym has the answer. The driver's functions get
 * stand-ins through a handle alone. */
static void *answer(const struct preload_family *family, void *handle, const char *name,
                    const void *caller)
{
    bool has_handle = handle != RTLD_NEXT && handle != RTLD_DEFAULT;
    void *found = NULL;
    if (expect_is_off() || environment_is_set("WARM_DISABLE") ||
        (!has_handle && family->stand_in == driver_stand_in)) {
        driver_passes_on(name);
        return NULL;
    }
    if (has_handle)
        found = preload_real_dlsym(handle, name);
    else if (handle == RTLD_DEFAULT)
        found = find_by_default(name, caller);
    else if (preload_comes_next(caller)) /* a program that calls a function of its own first */
        found = preload_real_dlsym(RTLD_NEXT, name);
    return found ? stand_in_for(family, name, found) : NULL;
}

/* Stands in for dlsym. A library that asks for the next object after itself is an interposer too, and gets the
 * real answer. */
__attribute__((optimize("optimize-sibling-calls"))) PRELOAD_EXPORT void *dlsym(void *handle,
                                                                               const char *name)
{
    const struct preload_family *family = family_of(name);
    void *found = family ? answer(family, handle, name, __builtin_return_address(0)) : NULL;
    if (found)
        return found;
    return preload_dlsym_address()(handle, name);
}
