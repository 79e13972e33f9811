/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvrtc.h - makes the NVRTC of programs start warm. A program keeps its real handles; beside each
 * we keep the source and headers that it was made from, until it is compiled.
 *
 *     FRESH ── compile ──▶ ask the daemon ───────▶ SERVED: getters answer from the result
 *       │                     │ no answer, or one that    │ a second compile, or a question that
 *       │                     ▼ cannot replace a compile  ▼ the result cannot answer
 *       └─ any error ──▶ the real compile ────────────▶ REAL: everything is passed on
 *
 * A SERVED handle answers as after the real compile: return codes, sizes, PTX, cubin, LTO-IR,
 * OptiX-IR, the log, lowered names. Before it becomes REAL, the skipped compile is run, because a
 * second compile of a handle builds on the first. The fate of a precompiled header depends on the
 * process. So a program that asked for one (--pch), and then for its status or for the log, becomes
 * REAL.
 *
 * Thread: any for different programs, as NVRTC itself. Memory: a program's state lives until the
 * program destroys its handle.
 */
#ifndef WARM_PRELOAD_NVRTC_NVRTC_H
#define WARM_PRELOAD_NVRTC_NVRTC_H

#include <stdatomic.h>

#include "client/preload/libraries.h"
#include "client/preload/preload.h"

#pragma GCC visibility push(hidden)

typedef void *nvrtc_program;
typedef int (*nvrtc_callback)(void *payload, void *reserved); /* 1: cancel the compile */

enum nvrtc_result {
    NVRTC_SUCCESS = 0,
    NVRTC_INVALID_INPUT = 3,
    NVRTC_INVALID_OPTION = 5,
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
    _Atomic uint64_t skip_until_ms; /* the daemon refused this compiler: do not ask before */
    atomic_uint
        n_lasting; /* compiles with options that later ones of this process may feel (own.h) */
#define FN(name, parameters, arguments) int(*name) parameters;
#include "client/preload/nvrtc/nvrtc.fn"
};

/* Each function of nvrtc.fn has a stand-in, nvrtc_on_NAME, which returns as the real one does.
 * `library` is the library in which the program looked the function up. */
#define NVRTC_IN(...) (struct nvrtc_library * library, __VA_ARGS__)
#define FN(name, parameters, arguments) int nvrtc_on_##name NVRTC_IN parameters;
#include "client/preload/nvrtc/nvrtc.fn"

#pragma GCC visibility pop

#endif
