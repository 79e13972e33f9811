/* SPDX-License-Identifier: Apache-2.0 */
/*
 * own.h - keeps what a program compiles with an NVRTC of its own, such as one in a virtual environment. The
 * daemon neither loads it nor has a copy of it.
 *
 *     own_begin ─┬─ 0: the result of an earlier compile
 *                ├─ WARM_LEASE: the program compiles ──▶ own_end stores the result
 *                └─ another error: the program compiles, and nothing is kept
 *
 * The entry is the user's own, as every value that a client puts. Its name is a SHA-256 over library,
 * builtins and job. Only jobs that read no files are kept: this process does not see which files NVRTC
 * opens. Nothing is kept behind a compile with options that NVRTC does not forget: keygen/cuda/CUDA.md, section 3.
 * `warm why` tells of the others.
 *
 * Thread: any, each with a struct own_compile of its own.
 */
#ifndef WARM_PRELOAD_NVRTC_OWN_H
#define WARM_PRELOAD_NVRTC_OWN_H

#include "client/preload/leased_entry.h"
#include "client/preload/nvrtc/nvrtc.h"

#pragma GCC visibility push(hidden)

struct own_compile {
    struct leased_entry entry; /* entry.w is NULL if nothing will be stored */
    char hardware[64];
    char label[256], compiler[512]; /* as entries and `warm why` show them */
    uint64_t began_ms;
};

/* Asks for the result of a job, and returns as drawn above. Takes `w` if it returns WARM_LEASE, until
 * own_end. */
int own_begin(struct own_compile *own, struct warm *w, const struct warm_job *job,
              struct warm_result *out);
/* True for options that NVRTC may not forget after a compile, and for those that we do not know. */
bool own_options_last(size_t n, const char *const *options);
/* Stores what the library has made, if it succeeded, and gives the connection back. Does nothing
 * without a lease. */
void own_end(struct own_compile *own, const struct nvrtc_library *library, nvrtc_program program,
             char *const *expressions, size_t n_expressions, int rc);

#pragma GCC visibility pop

#endif
