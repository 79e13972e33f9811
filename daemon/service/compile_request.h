/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compile_request.h - what an ask for a compile has besides.
 *
 * service_compile and service_source (service.h) are this module's.
 *
 * Thread: loop thread. Memory: it belongs to the ask, and is freed with its last answer. A build has its own.
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

/* How often one client may be asked about manifests that change while it answers. */
#define CHECKS_MAX 8u

struct compile {
    uint32_t flags;                    /* enum wire_compile_flags */
    const struct toolchain *toolchain; /* NULL until it is found */
    struct ask *waiting;               /* this ask, while its compiler is being identified */
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
