/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dl.c - decides which function a program gets from dlsym: a stand-in for the names of a family,
 * the real dlsym's answer for all others. The program calls it instead of the C library's dlsym.
 *
 * The answer of the real dlsym for RTLD_NEXT and RTLD_DEFAULT depends on its caller, which it finds
 * by the return address. So it is called in tail position: the return address is the program's own.
 *
 * Thread: any, also before this object's constructors ran; no state but one pointer.
 */
#include "client/preload/preload.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

#include "client/lib/digests.h"
#include "keygen/expect.h"

static const struct preload_family families[] = {
    {"nvrtc", nvrtc_stand_in},
    {"nvJitLink", nvjitlink_stand_in},
    {"__nvJitLink", nvjitlink_stand_in},
    {"GetPjrtApi", pjrt_stand_in},
    {"cuModuleLoad", driver_stand_in},
    {"cuLibraryLoad", driver_stand_in},
    {"cuLink", driver_stand_in},
    {"cuGetProcAddress", driver_stand_in},
    {"mlirPassManagerRunOnOp", mlir_stand_in},
};

typedef void *(*dlsym_fn)(void *handle, const char *name);

/* Versions under which the C library has dlsym, newest first: since 2.34, and before that the first
 * release on each machine. */
static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};

/* Returns the next dlsym behind ours: the C library's, or that of another object like this one. The
 * latter has no version, so only the C library's dlsym finds it. */
static dlsym_fn real_dlsym(void)
{
    static _Atomic(dlsym_fn) known;
    dlsym_fn f = atomic_load_explicit(&known, memory_order_acquire);
    if (f)
        return f;
    void *found = NULL;
    for (size_t i = 0; !found && i < sizeof versions / sizeof *versions; i++)
        found = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
    memcpy(&f, &found, sizeof f);
    found = f(RTLD_NEXT, "dlsym");
    if (found)
        memcpy(&f, &found, sizeof f);
    atomic_store_explicit(&known, f, memory_order_release);
    return f;
}

void *preload_real_dlsym(void *handle, const char *name) { return real_dlsym()(handle, name); }

/* The linker defines these: the begin and the end of this object. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));

static bool is_ours(const void *address)
{
    return (uintptr_t)address >= (uintptr_t)__ehdr_start && (uintptr_t)address < (uintptr_t)_end;
}

const void *preload_library_of(const void *function, char *out, size_t cap)
{
    Dl_info it;
    if (!function || is_ours(function) || !dladdr(function, &it) || !it.dli_fname ||
        it.dli_fname[0] != '/' || strlen(it.dli_fname) >= cap)
        return NULL;
    strcpy(out, it.dli_fname);
    return it.dli_fbase;
}

bool preload_file_is(const char *path, const struct stat *st)
{
    struct stat now;
    return stat(path, &now) == 0 && stat_is_same(&now, st);
}

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
 * if the program has no such library; the program's function is behind us, and NULL leaves dlerror
 * as the real dlsym does. Families look up further names, and a missing one must not show in
 * dlerror.
 */
static void *find_stand_in(const struct preload_family *family, const char *name, void *found)
{
    void *real = is_ours(found) ? preload_real_dlsym(RTLD_NEXT, name) : found;
    if (!real)
        return NULL;
    void *function = family->stand_in(name, real);
    dlerror();
    return function;
}

/* Stands in for dlsym. A caller that asks for the next object after itself is an interposer too: it
 * gets the real answer, and never an export of ours if nothing is behind us. */
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
    return real_dlsym()(handle, name);
}
