/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compile_request.h - the state of a call that asks for a compile.
 *
 * service_compile, service_source and service_checked (service.h) are this module's.
 *
 * Thread: loop thread. Memory: it belongs to the call, and is freed with the call's last answer.
 */
#ifndef WARM_DAEMON_SERVICE_COMPILE_REQUEST_H
#define WARM_DAEMON_SERVICE_COMPILE_REQUEST_H

#include "daemon/compiler/pool.h"
#include "daemon/service/service.h"

struct bases;

/* A header that changed since an earlier compile, for the explanation of a miss. */
struct changed_header {
    char part[160], old[WARM_KEY_TEXT], now[WARM_KEY_TEXT];
};
#define CHANGED_HEADERS 4u

struct call_compile {
    uint32_t flags;                    /* enum wire_compile_flags */
    const struct toolchain *toolchain; /* NULL until it is found */
    struct call *waiting;              /* this call, while its compiler is being identified */
    struct toolchain_wait identified;
    char *selector;      /* by which the client names its compiler; kept for that time */
    struct bases *bases; /* of an alias: manifest.h */
    struct key checked;  /* the digest of the stored manifest that was last asked about, or zero */
    unsigned n_checks;   /* manifests that were asked about */
    struct address address; /* of the source alone */
    char label[WIRE_NAME_MAX + 1];
    unsigned n_changed;
    struct changed_header changed[CHANGED_HEADERS];
};

#endif
