/* SPDX-License-Identifier: Apache-2.0 */
/*
 * build.h - one source on its way through the compiler.
 *
 *     SOURCE ──▶ VERIFYING ──▶ LOOKING ──▶ FOLLOWING ──▶ COMPILING ──▶ DONE
 *                (a pool       (is the      (another
 *                 thread)       result      build
 *                               there under compiles for
 *                               the shared  the same
 *                               key?)       shared key)
 *
 * A job has its exact key. keygen/cuda/job.h gives some jobs a shared key: of the canonical source,
 * without what cannot show in the result. LOOKING and FOLLOWING are for jobs with a shared key. A result
 * that they find is the job's; from then on an alias leads from the exact key to it.
 *
 * The call whose source it is leads the build: it serves the headers, and answers checks of its files.
 *
 * Thread: loop thread, but for the verification, and the manifest and hash of a large result. Memory: a
 * build is freed when it has ended.
 */
#ifndef WARM_DAEMON_SERVICE_BUILD_H
#define WARM_DAEMON_SERVICE_BUILD_H

#include "daemon/service/compile_request.h"
#include "daemon/service/manifest.h"
#include "daemon/service/manifest_paths.h"

enum build_state {
    BUILD_VERIFYING, /* on a pool thread, or waiting for a place there */
    BUILD_LOOKING, /* a value is being verified, or the leader is asked for its files (`asked_ms`) */
    BUILD_FOLLOWING,
    BUILD_COMPILING, /* or a pool thread hashes the result */
    BUILD_DONE,      /* its result is being handed out */
};

struct build {
    struct build *prev, *next;
    struct service *service;
    struct flight *flight; /* in phase (4) as long as this exists: `making` */
    struct making making;
    uint64_t hedge_at_ms; /* from then on it follows only its own user's builds */
    struct call *leader;  /* NULL when that has left */
    uv_work_t work;
    enum build_state state;
    struct pool_job *running;
    int job_fd;
    uint64_t job_len;
    int channel_fd; /* -1 once it is the pool's */
    uint32_t maker;
    bool keep;        /* a caller wants the result stored */
    bool may_replace; /* it may replace results that were made for others, too */
    bool cancelled;   /* it must end; a compile that runs was told so */
    struct call_compile ask;
    struct store_id id;
    struct proof proof;
    struct manifest_paths paths; /* from the job */
    int code;                    /* of the verification */
    struct err err;
    uint64_t miss;        /* its number in the history */
    struct writer recipe; /* from the verification on */
    uint32_t session;
    /* of the shared key: */
    bool shares;       /* it has one */
    unsigned n_offers; /* other builds' results that its leader was asked about while it compiles */
    bool afresh;       /* it ignores stored results */
    bool alone;        /* it follows no other build */
    struct key asked;  /* the digest of the stored manifest that the leader was last asked about */
    unsigned n_asked;
    struct key shared_graph;
    struct store_id shared_id;
    struct proof shared_proof;
    uint64_t asked_ms; /* when the leader was asked for its files; 0: no question is open */
    struct build *follows, *followers, *next_follower;
    /* of the result, from the end of the compile on: */
    struct pool_result done; /* its paths are owned */
    struct manifest *made_manifest;
    struct artifact *made;
    bool made_keep, made_shared; /* it may be stored; under the shared key */
    struct address made_address;
    struct proof made_proof;
};

/* How often one client may be asked about manifests that change while it answers. */
#define CHECKS_MAX 8u

/* Starts a build from the job that the call brought. The call, which holds its flight's lease,
 * leads the build. Takes both descriptors on success. Errors: NOMEM, TOO_BIG if the user has too
 * many. */
int build_start(struct call *call, int job_fd, uint64_t len, int channel_fd, struct err *e);
/* Goes on with the leader's answer to its check: `a` is the alternative of call->checking that
 * agrees with its files; NULL if none does. */
void build_checked(struct call *call, const struct manifest_alternative *a);

/* Marks the builds of this flight: their results must be stored. */
void builds_keep(struct flight *f);
/* Ends the builds of this flight that nothing else waits for. */
void builds_cancel(struct flight *f);
/* Ends builds that wait for a leader that has gone. Call it from time to time while there are builds. */
void builds_tick(struct service *s);
/* Ends all builds. */
void builds_shutdown(struct service *s);

/* ---- build_store.c ---- */

/* Makes the manifest of this one compile (given), without bases, and the address and proof of its
 * result. `shared`: for the shared key. NULL: it cannot be written down. Any thread, while nothing
 * changes the build. */
struct manifest *build_manifest(const struct build *b, const struct pool_result *done, bool shared,
                                struct address *address, struct proof *proof);
/* Queues an alias from the exact key to the shared one; the flight is told when it is committed. */
void build_store_alias(const struct build *b);
/* Queues the result, with its manifest if it has one; `shared`: under the shared key, with an alias
 * from the exact one. The flight is told when all is committed. */
void build_store_result(const struct build *b, struct artifact *result, bool shared,
                        const struct address *address, const struct proof *proof);

#endif
