/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool.h - the pool of worker processes, and the toolchains that they compile with.
 *
 *     warmd (loop thread)
 *       │  queue ▸ `jobs` slots
 *       ├─ spawner: small, forked before all else; starts, kills and reaps
 *       │    └─ fork server, one a toolchain: NVRTC loaded and warm; has seen no source of a client
 *       │         ├─ worker: one job, then it ends ◀── job, channel · result (memfd) ──▶ warmd
 *       │         └─ worker …                      ◀── "what is at this path?" ─────────▶ client
 *       └─ …
 *
 * No process compiles two sources, so a source that takes its worker over spoils its own result
 * alone. A worker's death costs one request: its job has a second attempt in another worker, then
 * fails with CRASHED. A job past its deadline is killed and fails with TIMEOUT. Workers see no
 * network, no other process, a scrubbed environment (worker/sandbox.h), and only the files that the
 * client's channel hands them. The machine's other programs go before them. On a kernel without
 * system-call filters a worker's result is not kept, and only the asker gets it.
 *
 * Thread: loop thread. Memory: see each function.
 */
#ifndef WARM_DAEMON_COMPILER_POOL_H
#define WARM_DAEMON_COMPILER_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "daemon/compiler/toolchain.h"
#include "keygen/bytes.h"
#include "keygen/err.h"
#include "keygen/key.h"

/* Limits that may change while the pool runs. */
struct pool_limits {
    size_t jobs;                  /* workers at once */
    uint64_t worker_memory;       /* bytes of address space of a worker; 0: no limit */
    uint64_t timeout_ms, idle_ms; /* of a compile; an idle fork server ends after idle_ms */
};

struct pool_config {         /* texts and lists are copied */
    struct spawner *spawner; /* borrowed */
    uv_loop_t *loop;
    const char *worker_path;
    char *const *nvrtc; /* libraries or folders, the default first */
    size_t n_nvrtc;
    char *const *nvrtc_from; /* folders from which other users may name libraries */
    size_t n_nvrtc_from;
    struct pool_limits limits;
    /* Remember the identity of a library file across starts, by name; shaped like store_meta_get
     * and store_meta_put. May be NULL. */
    int (*recall)(void *arg, const char *name, void *out, size_t cap, size_t *out_len);
    int (*remember)(void *arg, const char *name, const void *data, size_t len);
    void *memory_arg;
};

struct pool;
/* Identifies the toolchains (by content; remembered by device, inode, size, mtime and ctime), and
 * starts the fork server of the library that was loaded last, or the default's. A library that cannot be read is
 * left out, with a line in the log. NOMEM, IO. */
int pool_open(struct pool **out, const struct pool_config *config, struct err *e);
/* Kills the workers; `on_closed` runs when the last handle is closed. */
void pool_close(struct pool *p, void (*on_closed)(void *arg), void *arg);

/* Sets other limits; running compiles go on. */
void pool_set_limits(struct pool *p, const struct pool_limits *limits);

/* Finds the toolchain that a request names, borrowed until pool_close, and starts its fork server.
 * "" names the default, and "12.9" or "12" the newest that matches. Hex digits (8 at least) are the
 * beginning of an id, "/…" is the path of a libnvrtc. Nobody but root and the daemon's own user may
 * be able to change such a file (toolchain.h). It may lie anywhere if `uid`, the asker's, is the
 * daemon's own, else in nvrtc_from or beside a configured library. A library that is not known, or
 * whose file has changed, is identified on a pool thread: BUSY meanwhile, and pool_await tells when
 * to ask again. Errors: NO_TOOLCHAIN (err lists the toolchains, or says what is wrong with the
 * path), BUSY, NOMEM. */
int pool_find(struct pool *p, struct view selector, uint32_t uid, const struct toolchain **out,
              struct err *e);

/* Waits after BUSY: on_change runs once, from the loop, when it is time to ask again. */
void pool_await(struct pool *p, struct toolchain_wait *wait);
/* Stops identifying: waiters are told now, and get SHUTDOWN when they ask again. */
void pool_stop_identifying(struct pool *p);
/* Lists the toolchains, at most `cap`; returns how many. */
size_t pool_toolchains(struct pool *p, const struct toolchain **out, size_t cap);
/* Lists the paths that lead to no usable library, as toolchains_refused does. */
size_t pool_refused(struct pool *p, int64_t uid, struct toolchain_refusal *out, size_t cap);

/* One path that the compiler asked for, in the order of first requests. */
struct pool_path {
    struct view path; /* as asked */
    bool absent;
    struct proof sha256; /* of the bytes that the compiler saw */
    uint32_t same;       /* the first path of the list that led to this very file; its own number */
    struct view lines;   /* digests of its lines (daemon/worker/line_digests.h); empty: none */
};

struct pool_result {
    int status; /* 0: the compiler gave an answer, good or bad; else CRASHED, TIMEOUT, CANCELLED,
                   CLOSED (the client that serves the headers is gone), NOMEM, IO, … */
    struct err err; /* what happened, if status is not 0 */
    bool keep;      /* the answer depends on the key alone, so it may be stored: false for an error
                       for want of memory, and the like */
    bool shareable; /* it may also be kept under the job's shared key: job_shared_key */
    bool names_places; /* a text may name a path of the list as an absolute one */
    bool has_once;     /* a text may have `#pragma once`, or `#import` */
    bool movable;      /* no -I folder shows in it, wherever it is */
    bool
        names_inner; /* a text may lead from the working or the program's folder into a -I folder */
    int nvrtc_status; /* what the compiler returned */
    int fd; /* sealed memfd with the bundle (client/wire/bundle.h); the callback takes it */
    uint64_t len;
    uint32_t ms;                   /* what the compile itself took */
    const struct pool_path *paths; /* and */
    size_t n_paths;
    void *list; /* what they point into: borrowed, or taken by a callback that sets both to NULL */
    uint64_t list_len;
};
/* Frees the paths of a result whose callback took them. Any thread. */
void pool_paths_free(struct pool_result *done);
/* A compile that asked for more paths is not kept, and its list is not read. */
#define COMPILE_PATHS_MAX 4096u
typedef void (*pool_cb)(void *arg, struct pool_result *done);

struct pool_request {
    const struct toolchain *toolchain;
    int job_fd; /* sealed memfd with the encoded job (keygen/cuda/job.h): borrowed until the callback */
    uint64_t job_len;
    int channel_fd;      /* to the client: taken; -1 if there is none (every other header reads as
                            absent) */
    uint32_t uid;        /* whose source it is */
    uint64_t timeout_ms; /* 0: the default */
    pool_cb cb;
    void *arg;
};
struct pool_job;
/* Queues a compile; the callback runs once, never from within this call. Users get slots round
 * robin. Errors: NOMEM, SHUTDOWN; then nothing was taken. */
int pool_start(struct pool *p, const struct pool_request *request, struct pool_job **out,
               struct err *e);
/* Cancels a job: its callback runs soon with CANCELLED, and its slot is free after that. */
void pool_cancel(struct pool *p, struct pool_job *compile);

struct pool_stats {
    uint64_t n_compiles, n_crashes, n_timeouts;
    unsigned n_workers, n_busy, n_queued; /* workers; those that compile; compiles that wait */
    int landlock; /* version in force in the workers; 0: this kernel has none; -1: not known yet */
    bool seccomp; /* their system-call filter is in force */
    bool spawner_gone; /* nothing can be compiled now */
};
/* Copies the counters. */
void pool_stats(struct pool *p, struct pool_stats *out);

#endif
