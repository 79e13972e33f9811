/* SPDX-License-Identifier: Apache-2.0 */
/*
 * program_key.h - under which key the executable of one PJRT_Client_Compile is kept.
 *
 *     program, canonical ──────────┐
 *     options, canonical ──────────┤
 *     handlers of custom calls ────┼─▶ SHA-256
 *     plugin, by content ──────────┤
 *     platform, devices, machine ──┘
 *
 * Where other processes have some of the devices, the program counts byte for byte, too: they compile
 * it as well, and all must have the same code.
 *
 * The machine is the processor's features and the number of processors that may be used; for GPUs
 * it is the driver, the libraries that the plugin had loaded and the assembler that it would run.
 *
 * Refused is what must not be kept: programs that refer to the process they were made in, custom
 * calls whose handlers did not come through the plugin's table, so that another process might lack
 * them, and programs with custom calls that could not be read.
 *
 * Thread: any. Memory: as said.
 */
#ifndef WARM_PRELOAD_PJRT_PROGRAM_KEY_H
#define WARM_PRELOAD_PJRT_PROGRAM_KEY_H

#include <stdbool.h>

#include "client/lib/warm.h"
#include "client/preload/pjrt/api.h"
#include "keygen/bytes.h"
#include "keygen/key.h"

#pragma GCC visibility push(hidden)

/* A handler that the program registered with the plugin. Lives for ever. */
struct pjrt_target {
    const struct pjrt_target *next;
    struct key how; /* of the arguments with which it was registered, its address aside */
    size_t len;
    char name[];
};

/* What a plugin is, and the machine that it compiles for. */
struct pjrt_identity {
    char plugin[WARM_IDENTITY_TEXT];
    struct key host;   /* processor */
    struct key device; /* of a GPU: driver, libraries, assembler; else zero */
};
/* `path` is the plugin's; `has_device` is false where it compiles for the processor. Uses `w` for
 * the identities of files. False if one cannot be told. */
bool pjrt_identity_find(struct warm *w, const char *path, bool has_device,
                        struct pjrt_identity *out);

/* The client's platform is the processor. False also where it does not say. */
bool pjrt_is_cpu(const struct pjrt_api *api, struct pjrt_client *client);

/* What the client says of itself; borrows from it. */
struct pjrt_platform {
    struct view name, version, device_kind; /* of the first device */
    bool shared;                            /* some of its devices are other processes' */
};

struct pjrt_key {
    struct proof proof;
    struct pjrt_platform platform;
};
/* Errors: REFUSED, MALFORMED, UNSUPPORTED (the client does not answer), NOMEM, … */
int pjrt_key_make(const struct pjrt_api *api, const struct pjrt_identity *identity,
                  const struct pjrt_target *targets, const struct pjrt_compile_args *args,
                  struct pjrt_key *out);

/* Calls a function of the table. An error is freed; returns whether there was none. */
bool pjrt_ask(const struct pjrt_api *api, enum pjrt_slot slot, void *args);

#pragma GCC visibility pop

#endif
