/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvjitlink.h - how programs' nvJitLink starts warm: real handles, and beside each what it was given.
 *
 *     FRESH ── add ──▶ passed on, or, where the work is done by adding (PTX), kept back if the same
 *       │              inputs so far have been accepted before
 *       │
 *       ├─ complete ──▶ known: SERVED, getters answer from what the real library once answered
 *       │               not known: what was kept back is added, the real link is made and stored
 *       └─ anything else ──▶ REAL: what was kept back is added, and all is passed on
 *
 * Only this process can make the artifact, with its own library, so it is made under a lease: of many
 * processes that link the same at once, one does. The key has the library by content, the options,
 * and each input's type, name and bytes.
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
    struct library at; /* suffix: "" or "_13_5" */
    char path[4096];
    struct stat file; /* at `path`, when it was loaded */
#define FN(name, parameters, arguments) int(*name) parameters;
#include "client/preload/nvjitlink/nvjitlink.fn"
};

#define JITLINK_IN(...) (struct jitlink_library * library, __VA_ARGS__)
#define JITLINK_WITH(...) (library, __VA_ARGS__)
#define FN(name, parameters, arguments) int jitlink_on_##name JITLINK_IN parameters;
#include "client/preload/nvjitlink/nvjitlink.fn"

#pragma GCC visibility pop

#endif
