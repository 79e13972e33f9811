/* SPDX-License-Identifier: Apache-2.0 */
/*
 * linker.c - asks the dynamic linker for the real dlsym, and for the library that a function is in.
 * dl.c and all families call it; it knows none of them.
 *
 * Thread: any, also before this object's constructors ran; no state but one pointer.
 */
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>

#include "client/lib/digests.h"
#include "client/preload/preload.h"

/* Versions under which the C library has dlsym, newest first: since 2.34, and before that the first
 * release on each machine. */
static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};

preload_dlsym_fn *preload_dlsym_address(void)
{
    static _Atomic(preload_dlsym_fn *) known;
    preload_dlsym_fn *f = atomic_load_explicit(&known, memory_order_acquire);
    if (f)
        return f;
    void *found = NULL;
    for (size_t i = 0; !found && i < sizeof versions / sizeof *versions; i++)
        found = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
    memcpy(&f, &found, sizeof f);
    /* Another object's dlsym has no version: only the C library's dlsym finds it. */
    found = f(RTLD_NEXT, "dlsym");
    if (found)
        memcpy(&f, &found, sizeof f);
    atomic_store_explicit(&known, f, memory_order_release);
    return f;
}

void *preload_real_dlsym(void *handle, const char *name)
{
    return preload_dlsym_address()(handle, name);
}

/* The linker defines these: the begin and the end of this object. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));

bool preload_is_ours(const void *address)
{
    return (uintptr_t)address >= (uintptr_t)__ehdr_start && (uintptr_t)address < (uintptr_t)_end;
}

const void *preload_library_of(const void *function, char *out, size_t cap)
{
    Dl_info it;
    if (!function || preload_is_ours(function) || !dladdr(function, &it) || !it.dli_fname ||
        it.dli_fname[0] != '/' || strlen(it.dli_fname) >= cap)
        return NULL;
    strcpy(out, it.dli_fname);
    return it.dli_fbase;
}

/* A walk over all objects in the order in which the dynamic linker searches them. */
struct walk {
    uintptr_t caller;
    bool is_behind, found; /* the caller was seen; we come next */
};

static bool has_address(const struct dl_phdr_info *of, uintptr_t address)
{
    for (size_t i = 0; i < of->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &of->dlpi_phdr[i];
        if (p->p_type == PT_LOAD && address - (of->dlpi_addr + p->p_vaddr) < p->p_memsz)
            return true;
    }
    return false;
}

static int on_object(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct walk *w = arg;
    (void)size;
    if (w->is_behind && strncmp(info->dlpi_name, "linux-vdso", 10) == 0)
        return 0;
    w->found = w->is_behind && has_address(info, (uintptr_t)__ehdr_start);
    bool is_over = w->is_behind;
    w->is_behind = has_address(info, w->caller);
    return is_over;
}

bool preload_comes_next(const void *caller)
{
    struct walk w = {.caller = (uintptr_t)caller};
    dl_iterate_phdr(on_object, &w);
    return w.found;
}

void *preload_open_library(const char *path, const char *name, const void *function)
{
    void *handle = dlopen(path, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    if (handle && preload_real_dlsym(handle, name) != function) {
        dlclose(handle);
        handle = NULL;
    }
    return handle;
}

void *preload_open_library_of(const void *address)
{
    char path[PATH_MAX];
    return preload_library_of(address, path, sizeof path) ? dlopen(path, RTLD_LAZY | RTLD_NOLOAD)
                                                          : NULL;
}

bool preload_file_is(const char *path, const struct stat *st)
{
    struct stat now;
    return stat(path, &now) == 0 && stat_is_same(&now, st);
}
