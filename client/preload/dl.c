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
};

/* Returns the family of a name; NULL if it has none, or after a broken promise. */
static const struct preload_family *family_of(const char *name)
{
    if (expect_is_off())
        return NULL;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (strncmp(name, families[i].prefix, strlen(families[i].prefix)) == 0)
            return &families[i];
    return NULL;
}

/*
 * Returns the stand-in for a name. In the global scope the real dlsym finds our export first, even
 * if the program has no such library. The program's function is then behind us. NULL leaves dlerror
 * as the real dlsym does. Families look up further names, and a missing one must not show in
 * dlerror.
 */
static void *find_stand_in(const struct preload_family *family, const char *name, void *found)
{
    void *real = preload_is_ours(found) ? preload_real_dlsym(RTLD_NEXT, name) : found;
    if (!real)
        return NULL;
    void *function = family->stand_in(name, real);
    dlerror();
    return function;
}

/* Stands in for dlsym. A caller that asks for the next object after itself is an interposer too, and gets the
 * real answer. It never gets an export of ours that has no real function behind it. */
__attribute__((optimize("optimize-sibling-calls"))) PRELOAD_EXPORT void *dlsym(void *handle,
                                                                               const char *name)
{
    const struct preload_family *family = family_of(name);
    if (family && handle != RTLD_NEXT) {
        void *found = preload_real_dlsym(handle, name);
        if (found)
            return find_stand_in(family, name, found);
    } else if (family && !preload_real_dlsym(RTLD_NEXT, name)) {
        return NULL;
    }
    return preload_dlsym_address()(handle, name);
}
