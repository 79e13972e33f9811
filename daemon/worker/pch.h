/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pch.h - when a compile makes or uses a precompiled header, and why that is never wrong.
 *
 *   seen first ──▶ plain       seen again, many header bytes ──▶ CREATE ──▶ USE, USE, …
 *                                                                  ▲         │ a path changed
 *                                                                  └─────────┘
 *
 * "The same" is: equal options, working folder, in-memory headers, and equal text up to the first
 * line of the source that is no directive. NVRTC itself checks nothing about the headers when it is
 * told to use a precompiled header by name, so we do: with the header we remember each path that
 * the compiler had asked for by the time it wrote it, present or absent, and ask the client for
 * all of them again. All must have the same content. That also makes the list of paths of a compile
 * that used one complete.
 *
 * A compile with a precompiled header counts only if it ended without an error and without a word
 * in the log; else the caller does it again without (files.c still has the headers).
 *
 * Measured with 13.5 and CUB block primitives: plain 1.0, create 1.45, use 0.42 of the time; the
 * bytes of cubin, PTX and LTO IR are the same in all three. Making one costs, so it is made for
 * what comes a second time. A precompiled header is good only in the process that made it.
 *
 * Thread: main thread, between files_begin and files_end. Memory: at most two on disk (340 MB each
 * for CUB), unnamed: they go when the process does.
 */
#ifndef WARM_DAEMON_WORKER_PCH_H
#define WARM_DAEMON_WORKER_PCH_H

#include <stdbool.h>
#include <stddef.h>

#include "keygen/bytes.h"
#include "keygen/job.h"

/* Bytes of address space that NVRTC is to set aside; CUB with 13.5 takes 337 MB. */
#define PCH_HEAP_SIZE ((size_t)512 << 20)

enum pch_mode { PCH_NONE, PCH_CREATE, PCH_USE };

struct pch_plan {
    enum pch_mode mode;
    unsigned scratch; /* files_scratch_name: the precompiled header, for the other two modes */
    size_t seen;      /* private */
};

/* What to do for this job. `options` are those that the compiler will get. May ask the client. */
struct pch_plan pch_plan(const struct job *job, const struct view *options, size_t n_options);

/* The compile that followed the plan has ended; `clean`: no error, no log. */
void pch_done(const struct pch_plan *plan, const struct job *job, bool clean);

#endif
