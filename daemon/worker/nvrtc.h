/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvrtc.h - NVRTC, opened at run time. Nothing links to it; nvrtc.fn lists what is called.
 *
 * Thread: the main thread alone compiles (deep nesting needs its growing stack).
 * Memory: a struct nvrtc is embedded by its user; the library stays loaded until the process ends.
 */
#ifndef WARM_DAEMON_WORKER_NVRTC_H
#define WARM_DAEMON_WORKER_NVRTC_H

#include <stddef.h>

#include "keygen/err.h"

typedef struct nvrtc_program_private *nvrtc_program;

/* The results that the worker tells apart. */
enum nvrtc_result {
    NVRTC_SUCCESS = 0,
    NVRTC_INVALID_OPTION = 5,
    NVRTC_COMPILATION = 6,
};

#define FN(name, parameters) typedef int(*nvrtc_##name##_fn) parameters;
#define FN_OPTIONAL(name, parameters) FN(name, parameters)
#include "daemon/worker/nvrtc.fn"
#undef FN
#undef FN_OPTIONAL

struct nvrtc {
#define FN(name, parameters) nvrtc_##name##_fn name;
#define FN_OPTIONAL(name, parameters) FN(name, parameters)
#include "daemon/worker/nvrtc.fn"
#undef FN
#undef FN_OPTIONAL
    int major, minor;
};

/* Loads the builtins (-1: none) and then the library: some versions do not find their builtins by
 * themselves. The descriptors stay the caller's; `name` is for messages. Errors: NO_TOOLCHAIN with
 * the loader's text. */
int nvrtc_open(struct nvrtc *out, int library, int builtins, const char *name, struct err *e);

#endif
