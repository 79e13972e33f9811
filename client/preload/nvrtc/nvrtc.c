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
#include <string.h>

#include "keygen/bytes.h"

static struct libraries libraries;

/* ---- for programs that look functions up ---- */

#define STAND_INS_LIST "client/preload/nvrtc/nvrtc.fn"
#define STAND_INS_LIBRARY struct nvrtc_library
#define STAND_INS_ON(name) nvrtc_on_##name
#define STAND_INS_NAME(name) "nvrtc" #name
#define STAND_INS_LACKS(name)                                                                      \
    !text_is_one_of(                                                                               \
        #name, ONE_OF("CreateProgram", "DestroyProgram", "AddNameExpression", "CompileProgram"))
#include "client/preload/stand_ins.h"

void *nvrtc_stand_in(const char *name, void *real) { return stand_in(name, real); }

/* ---- for programs that are linked with NVRTC ---- */

/*
 * Finds a function of the NVRTC that the code at `caller` is linked with. The library is loaded, but a plugin may
 * have brought it, and then RTLD_NEXT does not see it; its soname finds it. A wheel may have given it another
 * soname: then it is in the global scope, or the caller's libraries have it. NULL if there is no NVRTC, because a
 * program found our export as a weak symbol.
 */
static void *find_linked(const char *soname, const char *symbol, const void *caller)
{
    void *handle = dlopen(soname, RTLD_LAZY | RTLD_NOLOAD);
    void *found = handle ? preload_real_dlsym(handle, symbol) : dlvsym(RTLD_NEXT, symbol, soname);
    if (!found && (handle = preload_open_library_of(caller)) != NULL)
        found = dlvsym(handle, symbol, soname);
    if (handle)
        dlclose(handle);
    return found;
}

/* Returns the libnvrtc of a program that is linked with it. NULL if it is not served. */
static struct nvrtc_library *library_linked(const char *soname, const void *caller)
{
    static const char any[] = "nvrtcCreateProgram";
    void *real = find_linked(soname, any, caller);
    int set = real ? libraries_index(&libraries, any, real, "", sizeof(struct nvrtc_library),
                                     stand_ins_find)
                   : -1;
    return set < 0 ? NULL : (struct nvrtc_library *)atomic_load(&libraries.items[set]);
}

/* Exports nvrtcNAME@libnvrtc.so.MAJOR, and no other name. */
#define EXPORTED(major, name, parameters, arguments)                                               \
    PRELOAD_EXPORT int nvrtc##major##_##name parameters;                                           \
    int nvrtc##major##_##name parameters                                                           \
    {                                                                                              \
        const void *caller = __builtin_return_address(0);                                          \
        struct nvrtc_library *library = library_##major(caller);                                   \
        int(*real) parameters;                                                                     \
        if (library)                                                                               \
            return nvrtc_on_##name LIBRARY_WITH arguments;                                         \
        void *found = find_linked("libnvrtc.so." #major, "nvrtc" #name, caller);                   \
        memcpy(&real, &found, sizeof real);                                                        \
        return real ? real arguments : NVRTC_INTERNAL_ERROR;                                       \
    }                                                                                              \
    __asm__(".symver nvrtc" #major "_" #name ",nvrtc" #name "@libnvrtc.so." #major ",remove");
#define LIBRARY_LINKED(major)                                                                      \
    static struct nvrtc_library *library_##major(const void *caller)                               \
    {                                                                                              \
        static _Atomic(struct nvrtc_library *) known;                                              \
        if (!atomic_load_explicit(&known, memory_order_acquire))                                   \
            atomic_store_explicit(&known, library_linked("libnvrtc.so." #major, caller),           \
                                  memory_order_release);                                           \
        return atomic_load_explicit(&known, memory_order_acquire);                                 \
    }
LIBRARY_LINKED(12)
LIBRARY_LINKED(13)
#define FN(name, parameters, arguments) EXPORTED(12, name, parameters, arguments)
#define FN_12 FN
#define FN_13(name, parameters, arguments)
#include "client/preload/nvrtc/nvrtc.fn"
#define FN(name, parameters, arguments) EXPORTED(13, name, parameters, arguments)
#define FN_12(name, parameters, arguments)
#define FN_13 FN
#include "client/preload/nvrtc/nvrtc.fn"
