/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvrtc_id.h - the identity of an NVRTC: the content of its library and of its builtins.
 *
 * Two copies with one identity are one compiler, in any folder. The daemon identifies the libraries
 * that it may load. A client identifies a library that the daemon may not load, and so finds the
 * daemon's copy of it.
 *
 * Thread: any; no state. Memory: as each function says.
 */
#ifndef WARM_LIB_NVRTC_ID_H
#define WARM_LIB_NVRTC_ID_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "keygen/key.h"

/* The folder of a CUDA toolkit with the libraries for this machine; lib64 may be a link to it. Those for other machines,
 * which cross compilers use, lie beside it. sbsa: Arm servers. */
#ifdef __aarch64__
#define CUDA_TARGET_LIB "/targets/sbsa-linux/lib"
#else
#define CUDA_TARGET_LIB "/targets/x86_64-linux/lib"
#endif

struct nvrtc_file {
    uint64_t len;
    struct proof sha256;
};

/* Writes the name of the folder's entry that begins with `prefix` and has the highest version.
 * False if there is none. */
bool nvrtc_newest_entry(const char *folder, const char *prefix, char out[NAME_MAX + 1]);

/* Returns the path of the builtins beside a library: of its own version if its name without links
 * tells one, else the newest of its major version; "" if there are none. free() it. NULL without
 * memory. */
char *nvrtc_builtins_of(const char *library);

/* Returns the identity. `builtins` is NULL if there are none. */
struct key nvrtc_id(const struct nvrtc_file *library, const struct nvrtc_file *builtins);

#endif
