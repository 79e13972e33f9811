/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compile.h - compiles one job: from its encoded bytes to the bundle and the list of paths.
 *
 *     job ──▶ options ──▶ NVRTC ──▶ log, cubin, PTX, … ──▶ sealed memfds
 *                          │  ▲
 *                          ▼  │ files.c
 *                         client
 *
 * Thread: main thread. Memory: the result's descriptors are given to the caller.
 */
#ifndef WARM_DAEMON_WORKER_COMPILE_H
#define WARM_DAEMON_WORKER_COMPILE_H

#include "daemon/worker/message.h"
#include "daemon/worker/nvrtc.h"
#include "keygen/bytes.h"

struct compile_result {
    int nvrtc_status;
    bool keep;         /* the answer depends on the job and the listed paths alone */
    bool shareable;    /* it is the same for every spelling of the job: job_shared_key */
    bool names_places; /* a text may name a file beneath the job's folders by its absolute path */
    bool names_inner;  /* a text may lead from these into an absolute -I folder */
    bool has_once;     /* a file may be left out because it was read under another name */
    bool movable;      /* the places of the -I folders cannot show */
    uint32_t ms, n_paths;
    int bundle_fd, paths_fd; /* sealed memfds */
    uint64_t bundle_len, paths_len;
};

/* Compiles a job; the result names `compiler` as its maker. `channel` leads to the client, -1:
 * there is none. Returns 0 and fills *out for an answer of the compiler, good or bad. Errors, with
 * nothing to close: MALFORMED, UNSUPPORTED, INVALID (a NUL in the source, which the compiler would
 * take for its end), CLOSED, TIMEOUT, NOMEM, IO. */
int compile_job(const struct nvrtc *nvrtc, struct view encoded, const char *compiler, int channel,
                struct compile_result *out, struct err *e);

/* Compiles a small kernel, so that the library's set-up is done for every process that is forked
 * from then on. */
void compile_warm_up(const struct nvrtc *nvrtc);

#endif
