/* SPDX-License-Identifier: Apache-2.0 */
/*
 * build.h - one source on its way through the compiler; what compile_request.c and build.c share.
 *
 *     SOURCE ──▶ VERIFYING ──▶ LOOKING ──▶ FOLLOWING ──▶ COMPILING ──▶ DONE
 *                (a pool       (is the      (another
 *                 thread)       result      compiles for
 *                               there under the same
 *                               the shared  shared key)
 *                               key?)
 *
 * A job has its exact key, and where keygen/cuda/job.h gives it one, a shared key: of the canonical
 * source, without what cannot show in the result. LOOKING and FOLLOWING are for such jobs; what they
 * find is the job's result, and an alias leads there from the exact key from then on.
 *
 * Thread: loop thread, but for the verification and the hash of a large result. Memory: see each function.
 */
#ifndef WARM_DAEMON_SERVICE_BUILD_H
#define WARM_DAEMON_SERVICE_BUILD_H

#include "daemon/service/compile_request.h"
#include "daemon/service/manifest.h"
#include "daemon/service/manifest_paths.h"

enum build_state {
    BUILD_VERIFYING, /* on a pool thread, or its user's turn there is to come */
    BUILD_LOOKING,   /* a value is being verified, or the leader says what it has (`asked_ms`) */
    BUILD_FOLLOWING,
    BUILD_COMPILING, /* or a pool thread hashes what the compiler made */
    BUILD_DONE,      /* its result is being handed out */
};

struct build {
    struct build *prev, *next;
    struct service *service;
    struct flight *flight; /* in phase (4) as long as this exists: `making` */
    struct making making;
    uint64_t hedge_at_ms; /* from then on it follows only its own user's builds */
    struct call *leader;  /* NULL when it has left */
    uv_work_t work;
    enum build_state state;
    struct pool_job *running;
    int job_fd;
    uint64_t job_len;
    int channel_fd; /* -1 once it is the compiler's */
    uint32_t maker;
    bool keep;        /* somebody wants it stored */
    bool may_replace; /* also results that were made for others */
    bool cancelled;   /* and it does not compile, where the compiler says so */
    struct call_compile ask;
    struct store_id id;
    struct proof proof;
    struct manifest_paths paths; /* from the job */
    int code;                    /* of the verification */
    struct err err;
    uint64_t miss;        /* of the history */
    struct writer recipe; /* from the verification on */
    uint32_t session;
    /* of the shared key: */
    bool shares;       /* it has one */
    unsigned n_offers; /* results of others that its leader was asked about while it compiles */
    bool afresh;       /* it is not to look at what is there */
    bool alone;        /* it is to compile whatever others do */
    struct key asked;  /* the digest of the stored manifest that the leader was last asked about */
    unsigned n_asked;
    struct key shared_graph;
    struct store_id shared_id;
    struct proof shared_proof;
    uint64_t asked_ms; /* when the leader was asked for its files; 0: it is not */
    struct build *follows, *followers, *next_follower;
    /* of the result, from the end of the compile on: */
    struct pool_result done; /* its paths are owned */
    struct manifest *made_manifest;
    struct artifact *made;
    bool made_keep, made_shared; /* it may be stored; under the shared key */
    struct address made_address;
    struct proof made_proof;
};

/* How often one job may be asked about manifests that change while it answers. */
#define CHECKS_MAX 8u

/* Starts a build from the job that the call brought, which holds its flight's lease: the call leads
 * it. Takes both descriptors on success. Errors: NOMEM, or the user has too many. */
int build_start(struct call *call, int job_fd, uint64_t len, int channel_fd, struct err *e);
/* Goes on with what the leader said to its check: `a` is the alternative of call->checking that its
 * files agree with; NULL if none does. */
void build_checked(struct call *call, const struct manifest_alternative *a);

/* Has the results of the builds of this flight stored. */
void builds_keep(struct flight *f);
/* Ends the builds of this flight that nothing else waits for. */
void builds_cancel(struct flight *f);
/* Ends builds that wait for a leader that has gone. To be called from time to time while any exist. */
void builds_tick(struct service *s);
/* Ends all builds. */
void builds_shutdown(struct service *s);

/* build_store.c: */
/* The manifest of this one compile (given), and the address and proof of its result. `shared`: as it
 * is kept under the shared key. NULL: it cannot be written down. Any thread, while nothing of the
 * build's job changes. It has no bases yet. */
struct manifest *build_manifest(const struct build *b, const struct pool_result *done, bool shared,
                                struct address *address, struct proof *proof);
/* From the exact key to the shared one; the flight is told when it is committed. */
void build_store_alias(const struct build *b);
/* Queues the result, with its manifest if it has one; `shared`: under the shared key, with an alias
 * from the exact one. The flight is told when all is committed. */
void build_store_result(const struct build *b, struct artifact *result, bool shared,
                        const struct address *address, const struct proof *proof);

#endif
