/* SPDX-License-Identifier: Apache-2.0 */
/*
 * build.h - one source on its way through the compiler.
 *
 *     SOURCE ──▶ VERIFYING ──▶ LOOKING ──▶ COMPILING ──▶ DONE
 *                (a pool       (its child             (its result is
 *                 thread)       asks)                  handed out)
 *
 * A job has its exact key. keygen/cuda/job.h gives some jobs a shared key: of the canonical source,
 * without what cannot show in the result. For that the build has a child: an ask under the shared key. What the
 * child finds is the job's result; from then on an alias leads from the exact key to it. If there is nothing, the
 * child joins the flight of the shared key: its build compiles, or waits for one that does.
 *
 * The ask whose source it is leads the build (child.client): its client serves the headers, and answers the checks
 * of the child.
 *
 * Thread: loop thread, but for the verification, and the manifest and hash of a large result. Memory: a
 * build is freed when it has ended.
 */
#ifndef WARM_DAEMON_SERVICE_BUILD_H
#define WARM_DAEMON_SERVICE_BUILD_H

#include "daemon/headers/manifest.h"
#include "daemon/headers/manifest_paths.h"
#include "daemon/service/compile_request.h"

enum build_state {
    BUILD_VERIFYING, /* on a pool thread, or waiting for a place there */
    BUILD_LOOKING,   /* its child goes through its sources, or waits for another build */
    BUILD_COMPILING, /* or a pool thread hashes the result; the child may hold the lease of the shared key */
    BUILD_DONE, /* its result is being handed out */
};

struct build {
    struct build *prev, *next;
    struct service *service;
    struct flight *flight; /* in phase (4) as long as this exists: `making` */
    struct making making;
    struct ask
        child; /* child.client leads; NULL when that has left. The id and proof are the shared ones */
    struct peer peer;       /* of the child: the maker, in no session */
    struct compile compile; /* of the child, and of the leader when it began */
    uv_work_t work;
    enum build_state state;
    struct pool_job *running;
    int job_fd;
    uint64_t job_len;
    int channel_fd; /* -1 once it is the pool's */
    uint32_t maker;
    bool may_replace; /* it may replace results that were made for others, too */
    bool cancelled;   /* it must end; a compile that runs was told so */
    bool shares;      /* it has a shared key */
    bool alone;       /* another build's result was not for its files: it waits for none */
    struct store_id id;
    struct proof proof;
    struct manifest_paths paths; /* from the job */
    int code;                    /* of the verification */
    struct err err;
    uint64_t miss;        /* its number in the history */
    struct writer recipe; /* from the verification on */
    uint32_t session;
    struct key shared_graph;
    uint64_t asked_ms; /* when the leader was asked for its files */
    /* of the result, from the end of the compile on: */
    struct pool_result done; /* its paths are owned */
    struct manifest *made_manifest;
    struct artifact *made;
    bool made_keep, made_shared; /* it may be stored; under the shared key */
    struct address made_address;
    struct proof made_proof;
};

/* True if somebody wants the result stored. */
static inline bool build_keeps(const struct build *b)
{
    return !(b->compile.flags & WIRE_COMPILE_NO_STORE);
}

/* Starts a build from the job that the ask brought. The ask, which holds its flight's lease,
 * leads the build. Takes both descriptors on success. Errors: NOMEM, TOO_BIG if the user has too
 * many. */
int build_start(struct ask *leader, int job_fd, uint64_t len, int channel_fd, struct err *e);
/* Takes an ask that ends out of the build that it leads, if there is one. */
void build_leave(struct ask *leader);

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
