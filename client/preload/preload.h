/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preload.h - libwarm-preload.so: what `warm run` loads into the programs it starts.
 *
 *      program ── dlsym("nvrtcCompileProgram") ──▶ dl.c ── which family? ──▶ nvrtc.c: our stand-in,
 *         │                                                                  which knows the real one
 *         └── execve("…/ptxas") ──▶ exec.c ──▶ `warm tool -- …/ptxas`
 *
 * The program opens its libraries as it always did; only the functions it looks up in them are ours,
 * and each of them can hand the call on. What is not served soundly is handed on.
 *
 * What this object exports is what has default visibility: the functions that it stands in for.
 * Everything declared here, and libwarm, is hidden, so that nothing of ours meets a program's names.
 *
 * Thread: any. Nothing happens, and nothing is allocated, before the first name of a family is
 * looked up. No lock is ever held: a fork finds everything usable. Memory: stand-ins live for ever.
 */
#ifndef WARM_PRELOAD_H
#define WARM_PRELOAD_H

#include <stdbool.h>
#include <sys/stat.h>

#include "client/lib/warm.h"
#include "client/preload/old_glibc.h"

OLD_GLIBC_BIND(dlopen);
OLD_GLIBC_BIND(dlclose);
OLD_GLIBC_BIND(dladdr);
OLD_GLIBC_BIND(dlerror);
OLD_GLIBC_BIND(dlvsym);

/* For the functions that programs are to find here. */
#define PRELOAD_EXPORT __attribute__((visibility("default")))

#pragma GCC visibility push(hidden)

/*
 * Functions whose names begin with `prefix`. `stand_in` gives what the program is to call instead
 * of `real`, or `real` itself. `real` is what the real dlsym found for `name`: never NULL, and never
 * one of our own exports.
 */
struct preload_family {
    const char *prefix;
    void *(*stand_in)(const char *name, void *real);
};
void *nvrtc_stand_in(const char *name, void *real);     /* nvrtc.c */
void *nvjitlink_stand_in(const char *name, void *real); /* nvjitlink.c */
void *pjrt_stand_in(const char *name, void *real);      /* pjrt.c */
void *driver_stand_in(const char *name, void *real);    /* driver.c */
void *mlir_stand_in(const char *name, void *real);      /* pass_manager.c */

/* The real dlsym, dlvsym and so on: for names that are to be found without stand-ins. A handle of
 * RTLD_NEXT means: after this object. */
void *preload_real_dlsym(void *handle, const char *name);

/* Where the library that `function` lies in is mapped, and its absolute path, as the dynamic linker
 * has it, in `out`. NULL if that is not known, or if the function is one of ours. */
const void *preload_library_of(const void *function, char *out, size_t cap);

/* Whether the file at `path` still is the one of which `st` was taken. */
bool preload_file_is(const char *path, const struct stat *st);

#pragma GCC visibility pop

#endif
