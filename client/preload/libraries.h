/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libraries.h - which library of a family a function is of: a process may have several, NVRTC 12 and
 * 13 say, and a stand-in is a plain function, which knows its library by which set it is of.
 *
 *     real function ── mapped where? ──▶ library 0 │ 1 │ 2 │ 3: the same number has its stand-ins
 *                                        none is free: the program gets the real function
 *
 * Thread: any, no lock: a library is published by one compare-and-swap. Memory: libraries live for
 * ever.
 */
#ifndef WARM_PRELOAD_LIBRARIES_H
#define WARM_PRELOAD_LIBRARIES_H

#include <stdatomic.h>

#pragma GCC visibility push(hidden)

enum { LIBRARIES_MAX = 4, LIBRARIES_SUFFIX = 16 };

/* The first member of what a family keeps of a library. */
struct library {
    const void *base;              /* where it is mapped */
    char suffix[LIBRARIES_SUFFIX]; /* of its functions' names; "" */
};

struct libraries {
    _Atomic(struct library *) items[LIBRARIES_MAX];
};

/* Makes a family's own of the library that has been loaded from `path`; NULL if it cannot. What it
 * gives can be freed by free(). */
typedef struct library *(*library_new)(const char *path, const char *suffix);

/* The number of the library that `real` lies in, known so far or made now; -1: there is none. */
int libraries_index(struct libraries *known, const void *real, const char *suffix,
                    library_new make);

#pragma GCC visibility pop

#endif
