/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preload.h - libwarm-preload.so, which `warm run` loads into the programs that it starts.
 *
 *      program ── dlsym("nvrtcCompileProgram") ──▶ dl.c ── which family? ──▶ nvrtc.c: our stand-in
 *         │
 *         └── execve("…/ptxas") ──▶ exec.c ──▶ `warm tool -- …/ptxas`
 *
 * The program opens its libraries as it always did. Only the functions that it looks up in them are
 * ours, and each of them can pass the call on. Calls that cannot be served soundly are passed on.
 *
 * This object exports the functions that it stands in for, and nothing else: they alone have
 * default visibility. It exports none of the driver: such a name would be bound before anybody knows if a daemon
 * lives. An export finds the real function by its library's soname, because RTLD_NEXT does not see the libraries of a
 * plugin. Everything declared here, and libwarm, is hidden, so that no name of ours
 * meets a program's. After a broken promise (keygen/expect.h) all calls are passed on.
 *
 * Thread: any. Until a program looks up a name of a family, only the constructor of exec.c runs, and nothing
 * is allocated. No lock is ever held: a fork finds everything usable. Memory: stand-ins live for ever.
 */
#ifndef WARM_PRELOAD_H
#define WARM_PRELOAD_H

#include <stdbool.h>
#include <sys/stat.h>

#include "client/lib/warm.h"
#include "client/preload/old_glibc.h"
#include "keygen/expect.h"

OLD_GLIBC_BIND(dlopen);
OLD_GLIBC_BIND(dlclose);
OLD_GLIBC_BIND(dladdr);
OLD_GLIBC_BIND(dlerror);
OLD_GLIBC_BIND(dlvsym);

/* Makes a function visible to programs. */
#define PRELOAD_EXPORT __attribute__((visibility("default")))

#pragma GCC visibility push(hidden)

/*
 * A family is the functions whose names begin with `prefix`. `stand_in` returns the function that
 * the program will call: a stand-in, or `real` itself. `real` is the real dlsym's answer for
 * `name`: never NULL, and never one of our own exports.
 */
struct preload_family {
    const char *prefix;
    void *(*stand_in)(const char *name, void *real);
};
/* Returns the stand-in for `real`, or `real` itself. Each of these is the stand_in of one family. */
void *nvrtc_stand_in(const char *name, void *real);     /* nvrtc.c */
void *nvjitlink_stand_in(const char *name, void *real); /* nvjitlink.c */
void *nvvm_stand_in(const char *name, void *real);      /* nvvm.c */
void *pjrt_stand_in(const char *name, void *real);      /* pjrt.c */
void *driver_stand_in(const char *name, void *real);    /* driver.c */
void *mlir_stand_in(const char *name, void *real);      /* pass_manager.c */
void *python_stand_in(const char *name, void *real);    /* python.c */

/* Notes that a program gets the driver's own function of this name: driver.c. */
void driver_passes_on(const char *name);

/* False after a broken promise: the call must be passed on. Checks the arguments of a stand_in. */
static inline bool preload_may_stand_in(const char *name, const void *real)
{
    return !expect_is_off() && WARM_EXPECT(name && real);
}

/* ---- linker.c ---- */

typedef void *preload_dlsym_fn(void *handle, const char *name);
/* Returns the next dlsym behind ours: the C library's, or that of another object like this one. */
preload_dlsym_fn *preload_dlsym_address(void);

/* Calls the real dlsym: its answer is no stand-in. RTLD_NEXT as handle means the objects after this one. */
void *preload_real_dlsym(void *handle, const char *name);

/* True if a function is one of this object. */
bool preload_is_ours(const void *address);

/* True if this object is the next after that of `caller` in the order of the dynamic linker's search. */
bool preload_comes_next(const void *caller);

/* Returns the address where the library of `function` is mapped, and writes its absolute path, as
 * the dynamic linker has it. NULL if that is not known, or if the function is one of ours. */
const void *preload_library_of(const void *function, char *out, size_t cap);

/* Returns a handle of the library at `path`, and keeps it loaded. NULL unless it is the one in which `name` is
 * `function`: dlmopen loads a library a second time. */
void *preload_open_library(const char *path, const char *name, const void *function);

/* Returns a handle (dlclose()) of the library that has `address`. NULL if there is none. */
void *preload_open_library_of(const void *address);

/* True if the file at `path` is still the one that `st` describes. */
bool preload_file_is(const char *path, const struct stat *st);

#pragma GCC visibility pop

#endif
