/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stand_ins.h - defines the functions that a program gets from dlsym in place of a library's: one set of them for
 * each library of the process (libraries.h), because a stand-in is a plain function.
 *
 *     s0_CompileProgram(…), s1_… ──▶ nvvm_on_CompileProgram(library 0, …)
 *
 * It is no interface: the .c file of a family includes it once, for its static definitions. Before that the file has
 * defined `static struct libraries libraries`, and these macros, here as for libNVVM:
 *
 *     STAND_INS_LIST         "client/preload/nvvm/nvvm.fn"   the functions, as FN(name, parameters, arguments)
 *     STAND_INS_LIBRARY      struct nvvm_library             begins with struct library
 *     STAND_INS_ON(name)     nvvm_on_##name                  the function that answers
 *     STAND_INS_NAME(name)   "nvvm" #name                    by which the family finds it in stand_ins[]
 *
 * Thread: any, no lock. Memory: none.
 */
#ifndef WARM_PRELOAD_STAND_INS_H
#define WARM_PRELOAD_STAND_INS_H

#include "client/preload/libraries.h"

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

#endif
