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

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "client/lib/warm.h"

#pragma GCC visibility push(hidden)

enum { LIBRARIES_MAX = 4, LIBRARIES_SUFFIX = 16 };

/* The first member of a family's struct for a library. */
struct library {
    const void *base;              /* where it is mapped */
    char suffix[LIBRARIES_SUFFIX]; /* of its functions' names; "" */
    char path[PATH_MAX];           /* without links */
    struct stat file; /* at `path`, when it was loaded: another file is another library */
};

/* Puts `library` before the arguments of a function of a family's list. */
#define LIBRARY_WITH(...) (library, __VA_ARGS__)

struct libraries {
    _Atomic(struct library *) items[LIBRARIES_MAX];
};

/* Fills the functions of a family's struct. False if the library lacks one that it must have. */
typedef bool library_find(struct library *library, void *handle);

/* Returns the number of the library whose function `name` is `real`. If it is new, makes the family's struct of it
 * first, of `size` bytes. -1 if there is no such library, or no free number. */
int libraries_index(struct libraries *known, const char *name, const void *real, const char *suffix,
                    size_t size, library_find *find);

/* Finds a function: `name`, or "__", the name and the library's suffix. False, and writes NULL, if there is none. */
bool library_function(const struct library *library, void *handle, const char *name,
                      void *out_function);

/* Writes the identity of a library's content. False without a daemon, or if another file lies at its path now. */
bool library_identity(const struct library *library, struct warm *w, char out[WARM_IDENTITY_TEXT]);

#pragma GCC visibility pop

#endif
