/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libraries.h - finds the library that a real function is in. A process may have several of a
 * family, such as NVRTC 12 and 13. A stand-in is a plain function: one set of stand-ins serves each
 * library.
 *
 *     real function ── mapped where? ──▶ library 0 │ 1 │ 2 │ 3: the set of that number serves it
 *                                        none is free: the program gets the real function
 *
 * Thread: any, no lock: one compare-and-swap publishes a library. Memory: libraries live for ever.
 */
#ifndef WARM_PRELOAD_LIBRARIES_H
#define WARM_PRELOAD_LIBRARIES_H

#include <stdatomic.h>

#pragma GCC visibility push(hidden)

enum { LIBRARIES_MAX = 4, LIBRARIES_SUFFIX = 16 };

/* The first member of a family's struct for a library. */
struct library {
    const void *base;              /* where it is mapped */
    char suffix[LIBRARIES_SUFFIX]; /* of its functions' names; "" */
};

/* Puts `library` before the arguments of a function of a family's list. */
#define LIBRARY_WITH(...) (library, __VA_ARGS__)

struct libraries {
    _Atomic(struct library *) items[LIBRARIES_MAX];
};

/* Makes a family's struct of the library `handle`, which was loaded from `path` and stays loaded: gives it
 * (free()). NULL if that fails. */
typedef struct library *(*library_new)(void *handle, const char *path, const char *suffix);

/* Returns the number of the library whose function `name` is `real`, and makes it first if it is new. -1 if there
 * is no such library, or no free number. */
int libraries_index(struct libraries *known, const char *name, const void *real, const char *suffix,
                    library_new make);

#pragma GCC visibility pop

#endif
