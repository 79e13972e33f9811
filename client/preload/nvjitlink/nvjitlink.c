/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvjitlink.c - decides which libnvJitLink a call is for, and defines the functions that programs
 * call instead, as nvrtc.c does. dl.c asks it for a stand-in.
 *
 * Thread: any, no lock.
 */
#include "client/preload/nvjitlink/nvjitlink.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct libraries libraries;

/* ---- libraries ---- */

static bool find(void *handle, const char *name, const char *suffix, void *out_function)
{
    char symbol[96];
    snprintf(symbol, sizeof symbol, "%snvJitLink%s%s", *suffix ? "__" : "", name, suffix);
    void *found = preload_real_dlsym(handle, symbol);
    memcpy(out_function, &found, sizeof found);
    return found != NULL;
}

/* True for functions that 12.x lacks. */
static bool is_late(const char *name)
{
    return strcmp(name, "GetLinkedLTOIR") == 0 || strcmp(name, "GetLinkedLTOIRSize") == 0;
}

/* Makes our struct of a libnvJitLink. */
static struct library *jitlink_new(void *handle, const char *path, const char *suffix)
{
    struct jitlink_library *l = calloc(1, sizeof *l);
    bool has_all = l && stat(path, &l->file) == 0;
#define FN(name, parameters, arguments)                                                            \
    has_all = has_all && (find(handle, #name, suffix, &l->name) || is_late(#name));
#include "client/preload/nvjitlink/nvjitlink.fn"
    if (has_all) {
        strcpy(l->path, path);
        return &l->at;
    }
    free(l);
    return NULL;
}

/* ---- stand-ins ---- */

#define STAND_INS_LIST "client/preload/nvjitlink/nvjitlink.fn"
#define STAND_INS_LIBRARY struct jitlink_library
#define STAND_INS_ON(name) jitlink_on_##name
#define STAND_INS_NAME(name) #name
#include "client/preload/stand_ins.h"

void *nvjitlink_stand_in(const char *name, void *real)
{
    if (!preload_may_stand_in(name, real))
        return real;
    bool has_version = name[0] == '_';
    const char *rest = name + strlen(has_version ? "__nvJitLink" : "nvJitLink");
    for (size_t i = 0; i < sizeof stand_ins / sizeof *stand_ins; i++) {
        size_t len = strlen(stand_ins[i].name);
        const char *suffix = rest + len;
        bool is_it = strncmp(rest, stand_ins[i].name, len) == 0 &&
                     (has_version ? *suffix == '_' && strlen(suffix) < LIBRARIES_SUFFIX : !*suffix);
        if (!is_it)
            continue;
        int set = libraries_index(&libraries, name, real, suffix, jitlink_new);
        return set < 0 ? real : stand_ins[i].function[set];
    }
    return real;
}
