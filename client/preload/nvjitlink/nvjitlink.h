/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvjitlink.h - makes the nvJitLink of programs start warm. A program keeps its real handles;
 * beside each we keep its inputs.
 *
 *     FRESH ── add ──▶ pass on; an expensive input (PTX), or one behind it, is kept back if the real
 *       │              library accepted the same inputs before
 *       │
 *       ├─ complete ──▶ hit: SERVED, getters return the stored answers of the real library
 *       │               miss: add the inputs kept back, link for real, store
 *       └─ anything else ──▶ REAL: add the inputs kept back, and pass on every call
 *
 *     SERVED ── anything but a getter ──▶ add the inputs kept back, link for real, then REAL
 *
 * Only this process can make the artifact, with its own library. So it is made under a lease: if
 * many processes link the same at once, one does. The key covers the library by content, the
 * options, and each input's type, name and bytes; of PTX also the files that it names (ptx_files.h). An input of
 * another type may hold PTX that we cannot read: before 13.4 the link is then the library's.
 *
 * The library reads variables, too: compiler_variables.h. If one is set, nothing is served.
 *
 * Thread: any for different handles. Memory: a handle's state lives until it is destroyed.
 */
#ifndef WARM_PRELOAD_NVJITLINK_NVJITLINK_H
#define WARM_PRELOAD_NVJITLINK_NVJITLINK_H

#include <stdatomic.h>
#include <stdint.h>

#include "client/preload/libraries.h"
#include "client/preload/preload.h"

#pragma GCC visibility push(hidden)

typedef void *jitlink_handle;

/* One libnvJitLink of this process under one version of its names. Lives for ever, and keeps the
 * library loaded. */
struct jitlink_library {
    struct library at; /* its suffix is "" or one as "_13_5" */
    /* It got an option that we do not know, which may change its later links, too: none is stored. */
    atomic_bool took_unknown;
#define FN(name, parameters, arguments) int(*name) parameters;
#include "client/preload/nvjitlink/nvjitlink.fn"
};

/* Each function of nvjitlink.fn has a stand-in, jitlink_on_NAME, which returns as the real one
 * does. */
#define JITLINK_IN(...) (struct jitlink_library * library, __VA_ARGS__)
#define FN(name, parameters, arguments) int jitlink_on_##name JITLINK_IN parameters;
#include "client/preload/nvjitlink/nvjitlink.fn"

#pragma GCC visibility pop

#endif
