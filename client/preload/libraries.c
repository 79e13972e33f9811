/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libraries.c - decides which set of stand-ins serves a library. The families of NVRTC, nvJitLink and
 * libNVVM call it for each function that a program looks up.
 *
 * Thread: any, no lock.
 */
#include "client/preload/libraries.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "client/preload/preload.h"
#include "keygen/expect.h"

/* Makes the struct of the library whose function is `real`. */
static struct library *make_one(library_new make, void *handle, const void *base, const char *path,
                                const char *suffix)
{
    struct library *l = handle ? make(handle, path, suffix) : NULL;
    if (l) {
        l->base = base;
        strcpy(l->suffix, suffix);
    } else if (handle) {
        dlclose(handle);
    }
    return l;
}

int libraries_index(struct libraries *known, const char *name, const void *real, const char *suffix,
                    library_new make)
{
    char path[PATH_MAX];
    if (!WARM_EXPECT(real && strlen(suffix) < LIBRARIES_SUFFIX))
        return -1;
    const void *base = preload_library_of(real, path, sizeof path);
    struct library *made = NULL;
    for (int i = 0; base && i < LIBRARIES_MAX; i++) {
        struct library *l = atomic_load(&known->items[i]);
        if (!l) {
            if (!made)
                made = make_one(make, preload_open_library(path, name, real), base, path, suffix);
            if (!made || atomic_compare_exchange_strong(&known->items[i], &l, made))
                return made ? i : -1;
        }
        if (l->base == base && strcmp(l->suffix, suffix) == 0) {
            free(made);
            return i;
        }
    }
    free(made);
    return -1;
}
