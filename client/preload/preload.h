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
 * Thread: any. Nothing happens, and nothing is allocated, before the first name of a family is
 * looked up. Memory: stand-ins live for ever.
 */
#ifndef WARM_PRELOAD_H
#define WARM_PRELOAD_H

#include <stdbool.h>

#include "client/warm.h"

/* Functions whose names begin with `prefix`. `stand_in` gives what the program is to call instead
 * of `real`, which dlsym found, or `real` itself. Called with no lock held. */
struct preload_family {
    const char *prefix;
    void *(*stand_in)(const char *name, void *real);
};
void *nvrtc_stand_in(const char *name, void *real);     /* nvrtc.c */
void *nvjitlink_stand_in(const char *name, void *real); /* nvjitlink.c */

/* The real dlsym: what the program would have got. */
void *preload_real_dlsym(void *handle, const char *name);

/*
 * A connection to the daemon for the calling thread, to be given back with preload_return; NULL:
 * go on without (WARM_DISABLE, no daemon, a daemon that failed a moment ago). Waits at most
 * WARM_TIMEOUT_MS, and after a failure not again for a while. In a forked child connections are
 * opened anew.
 */
struct warm *preload_borrow(void);
void preload_return(struct warm *w);

/* WARM_READONLY=1 and WARM_RECACHE=1. */
bool preload_may_store(void);
bool preload_may_hit(void);

#endif
