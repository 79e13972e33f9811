/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvvm.c - decides which libNVVM a call is for, and defines the functions that programs call instead, as
 * nvrtc.c does. dl.c asks it for a stand-in.
 *
 * Thread: any, no lock.
 */
#include "client/preload/nvvm/nvvm.h"

#include <stdlib.h>
#include <string.h>

static struct libraries libraries;

/* Makes our struct of a libNVVM. */
static struct library *nvvm_new(void *handle, const char *path, const char *suffix)
{
    struct nvvm_library *l = calloc(1, sizeof *l);
    void *found;
    bool has_all = l && !*suffix && stat(path, &l->file) == 0;
#define FN(name, parameters, arguments)                                                            \
    found = has_all ? preload_real_dlsym(handle, "nvvm" #name) : NULL;                             \
    has_all = found != NULL;                                                                       \
    if (has_all)                                                                                   \
        memcpy(&l->name, &found, sizeof found);
#include "client/preload/nvvm/nvvm.fn"
    if (has_all) {
        strcpy(l->path, path);
        return &l->at;
    }
    free(l);
    return NULL;
}

#define STAND_INS_LIST "client/preload/nvvm/nvvm.fn"
#define STAND_INS_LIBRARY struct nvvm_library
#define STAND_INS_ON(name) nvvm_on_##name
#define STAND_INS_NAME(name) "nvvm" #name
#include "client/preload/stand_ins.h"

void *nvvm_stand_in(const char *name, void *real)
{
    if (!preload_may_stand_in(name, real))
        return real;
    for (size_t i = 0; i < sizeof stand_ins / sizeof *stand_ins; i++)
        if (strcmp(name, stand_ins[i].name) == 0) {
            int set = libraries_index(&libraries, name, real, "", nvvm_new);
            return set < 0 ? real : stand_ins[i].function[set];
        }
    return real;
}
