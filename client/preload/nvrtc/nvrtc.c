/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvrtc.c - decides which libnvrtc a call is for, and defines the functions that programs call
 * instead. dl.c asks it for a stand-in; programs that are linked with NVRTC find its exports first.
 *
 *     found by dlsym ──▶ s0_CompileProgram, s1_… one set for each library of the process ─┐
 *     linked ──▶ nvrtcCompileProgram@libnvrtc.so.13, @libnvrtc.so.12 ─────────────────────┴▶
 *                                                              nvrtc_on_CompileProgram(library, …)
 *
 * Thread: any, no lock.
 */
#include "client/preload/nvrtc/nvrtc.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static struct libraries libraries;

static struct nvrtc_library *library_at(int i)
{
    return (struct nvrtc_library *)atomic_load(&libraries.items[i]);
}

/* ---- libraries ---- */

/* Finds a function. dlsym returns an object pointer; ISO C wants it copied, not cast, into a
 * function pointer. */
static void find(void *handle, const char *symbol, void *out_function)
{
    void *found = preload_real_dlsym(handle, symbol);
    memcpy(out_function, &found, sizeof found);
}

/* Makes our struct of a libnvrtc, and keeps the library loaded. */
static struct library *nvrtc_new(const char *path, const char *suffix)
{
    struct nvrtc_library *l = calloc(1, sizeof *l);
    void *handle = dlopen(path, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    (void)suffix;
    if (!l || !handle || stat(path, &l->file) < 0)
        goto fail;
    if (!realpath(path, l->path)) /* the loader's path may have "..", which a daemon refuses */
        strcpy(l->path, path);
#define FN(name, parameters, arguments) find(handle, "nvrtc" #name, &l->name);
#include "client/preload/nvrtc/nvrtc.fn"
    if (l->CreateProgram && l->DestroyProgram && l->AddNameExpression && l->CompileProgram)
        return &l->at;
fail:
    if (handle)
        dlclose(handle);
    free(l);
    return NULL;
}

static int library_index(const void *real)
{
    return libraries_index(&libraries, real, "", nvrtc_new);
}

/* ---- for programs that look functions up ---- */

#define STAND_INS_LIST "client/preload/nvrtc/nvrtc.fn"
#define STAND_INS_LIBRARY struct nvrtc_library
#define STAND_INS_ON(name) nvrtc_on_##name
#define STAND_INS_NAME(name) "nvrtc" #name
#include "client/preload/stand_ins.h"

void *nvrtc_stand_in(const char *name, void *real)
{
    if (!preload_may_stand_in(name, real))
        return real;
    for (size_t i = 0; i < sizeof stand_ins / sizeof *stand_ins; i++) {
        if (strcmp(name, stand_ins[i].name) != 0)
            continue;
        int set = library_index(real);
        return set < 0 ? real : stand_ins[i].function[set];
    }
    return real;
}

/* ---- for programs that are linked with NVRTC ---- */

/*
 * Finds the libnvrtc of a program that is linked with it. The library is loaded, but a plugin may
 * have brought it, and then RTLD_NEXT does not see it; its soname finds it. NULL if a program calls
 * without an NVRTC, because it found our export as a weak symbol.
 */
static struct nvrtc_library *library_linked(const char *soname)
{
    void *handle = dlopen(soname, RTLD_LAZY | RTLD_NOLOAD);
    if (!handle)
        return NULL;
    int set = library_index(preload_real_dlsym(handle, "nvrtcCreateProgram"));
    dlclose(handle);
    return set < 0 ? NULL : library_at(set);
}

static struct nvrtc_library *library_12(void)
{
    static _Atomic(struct nvrtc_library *) known;
    if (!atomic_load_explicit(&known, memory_order_acquire))
        atomic_store_explicit(&known, library_linked("libnvrtc.so.12"), memory_order_release);
    return atomic_load_explicit(&known, memory_order_acquire);
}

static struct nvrtc_library *library_13(void)
{
    static _Atomic(struct nvrtc_library *) known;
    if (!atomic_load_explicit(&known, memory_order_acquire))
        atomic_store_explicit(&known, library_linked("libnvrtc.so.13"), memory_order_release);
    return atomic_load_explicit(&known, memory_order_acquire);
}

/* Exports nvrtcNAME@libnvrtc.so.MAJOR, and no other name. A program that was linked without
 * versions gets the default version. */
#define EXPORTED(major, at, name, parameters, arguments)                                           \
    PRELOAD_EXPORT int nvrtc##major##_##name parameters;                                           \
    int nvrtc##major##_##name parameters                                                           \
    {                                                                                              \
        struct nvrtc_library *library = library_##major();                                         \
        return library ? nvrtc_on_##name LIBRARY_WITH arguments : NVRTC_INTERNAL_ERROR;            \
    }                                                                                              \
    __asm__(".symver nvrtc" #major "_" #name ",nvrtc" #name at "libnvrtc.so." #major ",remove");
#define FN(name, parameters, arguments) EXPORTED(12, "@", name, parameters, arguments)
#define FN_12 FN
#define FN_13(name, parameters, arguments)
#include "client/preload/nvrtc/nvrtc.fn"
#define FN(name, parameters, arguments) EXPORTED(13, "@@", name, parameters, arguments)
#define FN_12(name, parameters, arguments)
#define FN_13 FN
#include "client/preload/nvrtc/nvrtc.fn"
