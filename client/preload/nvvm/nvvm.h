/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvvm.h - makes the libNVVM of programs (numba-cuda) start warm. A program's handles are those of the real
 * library, which gets all modules. For each handle we keep the key of its calls so far.
 *
 *     FRESH ── add, verify ──▶ pass on, and count it in the key
 *       │
 *       ├─ compile ──▶ hit: SERVED, getters return the stored result and log
 *       │              miss: REAL: compile for real, store
 *       └─ options that we do not know ──▶ REAL: pass on every call
 *
 *     SERVED ── anything but a getter ──▶ compile for real, then REAL
 *
 * The compile is made under a lease: if many processes compile the same at once, one does. The key covers the
 * library by content, each module's name, bytes and way of adding, each verification, and the options in order.
 *
 * Measured with libNVVM 13.5.37 (strace, and a replaced getenv; PTX, LTO IR, debug and line information):
 *   1. A compile opens no file, and asks for no working folder. Its result is the same in another folder.
 *   2. It reads variables, see compiler_variables.h. If one is set, nothing is served.
 *   3. The options that we know leave nothing behind for later compiles of the process.
 *
 * Thread: any for different handles. Memory: a handle's state lives until it is destroyed.
 */
#ifndef WARM_PRELOAD_NVVM_NVVM_H
#define WARM_PRELOAD_NVVM_NVVM_H

#include <stdatomic.h>
#include <stdint.h>

#include "client/preload/libraries.h"
#include "client/preload/preload.h"

#pragma GCC visibility push(hidden)

typedef void *nvvm_handle;

/* One libNVVM of this process. Lives for ever, and keeps the library loaded. */
struct nvvm_library {
    struct library at;
    /* Accepted calls with unknown options. These may change later compiles, so none of those is stored. */
    atomic_uint n_unknown;
#define FN(name, parameters, arguments) int(*name) parameters;
#include "client/preload/nvvm/nvvm.fn"
};

/* Each function of nvvm.fn has a stand-in, nvvm_on_NAME, which returns as the real one does. */
#define NVVM_IN(...) (struct nvvm_library * library, __VA_ARGS__)
#define FN(name, parameters, arguments) int nvvm_on_##name NVVM_IN parameters;
#include "client/preload/nvvm/nvvm.fn"

#pragma GCC visibility pop

#endif
