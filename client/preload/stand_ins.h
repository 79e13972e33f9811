/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stand_ins.h - defines the functions that a program gets from dlsym in place of a library's: one set of them for
 * each library of the process (libraries.h), because a stand-in is a plain function.
 *
 *     s0_CompileProgram(…), s1_… ──▶ nvvm_on_CompileProgram(library 0, …)
 *
 * It is no interface: the .c file of a family includes it once, for its static definitions,
 * and gives dl.c the one called stand_in. Before that the file has
 * defined `static struct libraries libraries`, and these macros, here as for libNVVM:
 *
 *     STAND_INS_LIST         "client/preload/nvvm/nvvm.fn"   the functions, as FN(name, parameters, arguments)
 *     STAND_INS_LIBRARY      struct nvvm_library             begins with struct library
 *     STAND_INS_ON(name)     nvvm_on_##name                  the function that answers
 *     STAND_INS_NAME(name)   "nvvm" #name                    by which programs look it up
 *     STAND_INS_LACKS(name)  false                           true if a library may lack it: it is NULL then
 *
 * Thread: any, no lock. Memory: none.
 */
#ifndef WARM_PRELOAD_STAND_INS_H
#define WARM_PRELOAD_STAND_INS_H

#include <string.h>

#include "client/preload/libraries.h"
#include "client/preload/preload.h"

#define STAND_IN(set, name, parameters, arguments)                                                 \
    static int s##set##_##name parameters                                                          \
    {                                                                                              \
        STAND_INS_LIBRARY *library = (STAND_INS_LIBRARY *)atomic_load(&libraries.items[set]);      \
        return STAND_INS_ON(name) LIBRARY_WITH arguments;                                          \
    }
#define FN(name, parameters, arguments) STAND_IN(0, name, parameters, arguments)
#include STAND_INS_LIST
#define FN(name, parameters, arguments) STAND_IN(1, name, parameters, arguments)
#include STAND_INS_LIST
#define FN(name, parameters, arguments) STAND_IN(2, name, parameters, arguments)
#include STAND_INS_LIST
#define FN(name, parameters, arguments) STAND_IN(3, name, parameters, arguments)
#include STAND_INS_LIST
_Static_assert(LIBRARIES_MAX == 4, "a set for each library");

static const struct {
    const char *name;
    void *function[LIBRARIES_MAX]; /* by set */
} stand_ins[] = {
#define FN(name, parameters, arguments)                                                            \
    {STAND_INS_NAME(name),                                                                         \
     {(void *)s0_##name, (void *)s1_##name, (void *)s2_##name, (void *)s3_##name}},
#include STAND_INS_LIST
};

/* Finds the functions of a library. */
static bool stand_ins_find(struct library *at, void *handle)
{
    STAND_INS_LIBRARY *library = (STAND_INS_LIBRARY *)at;
    bool has_all = true;
#define FN(name, parameters, arguments)                                                            \
    has_all &= library_function(at, handle, STAND_INS_NAME(name), &library->name) ||               \
               STAND_INS_LACKS(name);
#include STAND_INS_LIST
    return has_all;
}

/* Returns the stand-in for `real`, which a program looked up as `name`; `real` itself if there is none. A name may
 * have "__" in front and a version at its end: these are other functions. */
static void *stand_in(const char *name, void *real)
{
    if (!preload_may_stand_in(name, real))
        return real;
    bool has_version = strncmp(name, "__", 2) == 0;
    for (size_t i = 0; i < sizeof stand_ins / sizeof *stand_ins; i++) {
        const char *plain = name + (has_version ? 2 : 0);
        const char *suffix = plain + strlen(stand_ins[i].name);
        if (strncmp(plain, stand_ins[i].name, strlen(stand_ins[i].name)) != 0 ||
            (has_version ? *suffix != '_' || strlen(suffix) >= LIBRARIES_SUFFIX : *suffix))
            continue;
        int set = libraries_index(&libraries, name, real, suffix, sizeof(STAND_INS_LIBRARY),
                                  stand_ins_find);
        return set < 0 ? real : stand_ins[i].function[set];
    }
    return real;
}

#endif
