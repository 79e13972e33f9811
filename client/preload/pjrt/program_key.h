/* SPDX-License-Identifier: Apache-2.0 */
/*
 * program_key.h - makes the key of the executable of one PJRT_Client_Compile.
 *
 *     program, canonical ──────────┐
 *     options, canonical ──────────┤
 *     handlers of custom calls ────┼─▶ SHA-256
 *     plugin, by content ──────────┤
 *     platform, devices, machine ──┘
 *
 * If other processes have some of the devices, the numbers of channels count, too: those processes
 * compile the program as well, and all must have the same code.
 *
 * The machine is the processor's features and the number of usable processors; for GPUs it is the
 * driver, the libraries that the plugin had loaded, and the assembler that it would run.
 *
 * It refuses programs that refer to the process they were made in, and unreadable programs with custom calls.
 * It also refuses custom calls whose handlers did not come through the plugin's table, because another
 * process might lack those.
 *
 * Thread: any. Memory: results borrow from the client, as each struct says.
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
    struct key how; /* of its registration's arguments, without its address */
    size_t len;
    char name[];
};

/* The identity of a plugin, and of the machine that it compiles for. */
struct pjrt_identity {
    char plugin[WARM_IDENTITY_TEXT];
    struct key host;   /* processor */
    struct key device; /* of a GPU: driver, libraries, assembler; else zero */
};
/* Identifies the plugin at `path` and its machine; `has_device` is false if it compiles for the
 * processor. Asks `w` for identities of files. False if one cannot be found. */
bool pjrt_identity_find(struct warm *w, const char *path, bool has_device,
                        struct pjrt_identity *out);

/* True if the client's platform is the processor. False also if the client does not answer. */
bool pjrt_is_cpu(const struct pjrt_api *api, struct pjrt_client *client);

/* The client's description of itself; borrows from it. */
struct pjrt_platform {
    struct view name, version, device_kind; /* of the first device, */
    struct view capability;                 /* as "9.0"; empty if it is no CUDA device */
    bool shared;                            /* other processes own some of its devices */
};

struct pjrt_key {
    struct proof proof;
    struct pjrt_platform platform;
};
/* Makes the key. Errors: REFUSED, MALFORMED, UNSUPPORTED (the client does not answer), NOMEM, … */
int pjrt_key_make(const struct pjrt_api *api, const struct pjrt_identity *identity,
                  const struct pjrt_target *targets, const struct pjrt_compile_args *args,
                  struct pjrt_key *out);

/* Calls a function of the table. True on success; frees an error. */
bool pjrt_ask(const struct pjrt_api *api, enum pjrt_slot slot, void *args);

#pragma GCC visibility pop

#endif
