/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvrtc.h - how programs' NVRTC starts warm: the program keeps its real handles, and beside each we
 * keep what it was made from, until it is compiled.
 *
 *     FRESH ── compile ──▶ asked of the daemon ──▶ SERVED: getters answer from the result
 *       │                     │ no answer, or none that   │ a second compile, or a question that
 *       │                     ▼ may stand for a compile   ▼ the result cannot answer
 *       └─ any error ──▶ the real compile ────────────▶ REAL: everything is passed on
 *
 * A SERVED handle shows what it would show after the real compile: return codes, sizes, PTX, cubin,
 * LTO-IR, OptiX-IR, the log, lowered names. Before it becomes REAL the compile that was spared is made
 * up for, since a second compile of a handle builds on the first. What becomes of a precompiled
 * header depends on the process: a program that asked for one (--pch) and then for its fate, or for
 * the log, which tells it, becomes REAL.
 *
 * Thread: any for different programs, as NVRTC itself. Memory: a program's state lives until the
 * program destroys its handle.
 */
#ifndef WARM_PRELOAD_NVRTC_NVRTC_H
#define WARM_PRELOAD_NVRTC_NVRTC_H

#include <limits.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "client/preload/libraries.h"
#include "client/preload/preload.h"

#pragma GCC visibility push(hidden)

typedef void *nvrtc_program;
typedef int (*nvrtc_callback)(void *payload, void *reserved); /* 1: cancel the compile */

enum nvrtc_result {
    NVRTC_SUCCESS = 0,
    NVRTC_INVALID_INPUT = 3,
    NVRTC_COMPILATION = 6,
    NVRTC_NAMES_AFTER_COMPILATION = 8,
    NVRTC_NO_NAMES_BEFORE_COMPILATION = 9,
    NVRTC_NAME_NOT_VALID = 10,
    NVRTC_INTERNAL_ERROR = 11,
    NVRTC_NO_PCH_ATTEMPTED = 13,
};

/* One libnvrtc of this process. Lives for ever, and keeps the library loaded. */
struct nvrtc_library {
    struct library at;
    char path[PATH_MAX]; /* without links */
    struct stat file;    /* at `path`, when it was loaded: another one there is another compiler */
    _Atomic uint64_t skip_until_ms; /* the daemon does not take this compiler: not before */
#define FN(name, parameters, arguments) int(*name) parameters;
#include "client/preload/nvrtc/nvrtc.fn"
};

/* What the stand-in for each function of nvrtc.fn does, and returns: as the real one; the library is
 * the one that the program looked the function up in. */
#define NVRTC_IN(...) (struct nvrtc_library * library, __VA_ARGS__)
#define NVRTC_WITH(...) (library, __VA_ARGS__)
#define FN(name, parameters, arguments) int nvrtc_on_##name NVRTC_IN parameters;
#include "client/preload/nvrtc/nvrtc.fn"

#pragma GCC visibility pop

#endif
