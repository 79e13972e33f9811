/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libraries.c - decides which set of stand-ins serves a library. The families of NVRTC, nvJitLink and
 * libNVVM call it for each function that a program looks up.
 *
 * Thread: any, no lock.
 */
#include "client/preload/libraries.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/preload/preload.h"
#include "keygen/expect.h"

/* Makes the struct of the library whose function is `real`. */
static struct library *make_one(size_t size, library_find *find, void *handle, const void *base,
                                const char *path, const char *suffix)
{
    struct library *l = handle ? calloc(1, size) : NULL;
    if (l && stat(path, &l->file) == 0) {
        l->base = base;
        strcpy(l->suffix, suffix);
        if (!realpath(path, l->path)) /* the loader's path may have "..", which a daemon refuses */
            strcpy(l->path, path);
        if (find(l, handle))
            return l;
    }
    if (handle)
        dlclose(handle);
    free(l);
    return NULL;
}

int libraries_index(struct libraries *known, const char *name, const void *real, const char *suffix,
                    size_t size, library_find *find)
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
                made = make_one(size, find, preload_open_library(path, name, real), base, path,
                                suffix);
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

bool library_function(const struct library *library, void *handle, const char *name,
                      void *out_function)
{
    char symbol[96];
    const char *suffix = library->suffix;
    snprintf(symbol, sizeof symbol, "%s%s%s", *suffix ? "__" : "", name, suffix);
    void *found = preload_real_dlsym(handle, symbol);
    memcpy(out_function, &found, sizeof found); /* ISO C has no cast of it to a function pointer */
    return found != NULL;
}

bool library_identity(const struct library *library, struct warm *w, char out[WARM_IDENTITY_TEXT])
{
    return preload_file_is(library->path, &library->file) &&
           warm_file_identity(w, library->path, out) == 0;
}
