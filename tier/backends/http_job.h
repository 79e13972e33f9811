/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_job.h - a job: one request to a store behind HTTP, as some transfers, one after another. web.c and s3*.c have
 * both structs as the first members of their own.
 *
 *     http_job_new ─▶ transfer_start ─▶ … ─▶ http_job_end: the request's outcome
 *          │                                      ▲
 *          └─ http_job_give_up: in the next turn ─┘
 *
 * Thread: loop thread. Memory: http_job_end frees the job; nothing may touch it after that. A backend frees itself once
 * it is closed and nothing of it runs.
 */
#ifndef WARM_TIER_BACKENDS_HTTP_JOB_H
#define WARM_TIER_BACKENDS_HTTP_JOB_H

#include <limits.h>

#include "tier/backends/transfer.h"

struct http_backend {
    struct tier_backend base;
    uv_loop_t *loop;
    struct transfer_pool *pool;
    char credentials[PATH_MAX];                    /* their file, or "" */
    void (*dispose)(struct http_backend *backend); /* ends what the backend has beyond this */
    struct http_job *jobs;
    unsigned n_timers;
    bool closing, pool_closed;
    void (*closed)(void *user);
    void *closed_user;
};

struct http_job {
    struct http_job *prev, *next;
    struct http_backend *backend;
    struct tier_request *request;
    size_t size;      /* of the struct that begins with this one */
    uv_timer_t timer; /* ends the request when nothing is under way */
    uint64_t ends_ms;
    bool waits;  /* for its backend; not once it is given up */
    int held_fd; /* an object that perhaps is the answer, or -1 */
    enum tier_outcome given_up;
    char why[TIER_SAID_MAX];
    struct transfer transfer;
};

/* Reads the credentials' file, and makes the backend's pool. False and one line in `why` if either cannot be. */
bool http_backend_init(struct http_backend *backend, const struct tier_backend_functions *functions,
                       uv_loop_t *loop, const struct tier_settings *settings, char *why,
                       size_t why_size);
/* Gives a request up, as a backend must. */
void http_backend_cancel(struct tier_backend *backend, struct tier_request *request);
/* Ends a backend, as a backend must. */
void http_backend_close(struct tier_backend *backend, void (*closed)(void *user), void *user);

/* Makes a job of a request: zeroes, but for this part. `size` bytes are the backend's own struct. */
struct http_job *http_job_new(struct http_backend *backend, struct tier_request *request,
                              size_t size);
/* Ends a job with this outcome. */
void http_job_end(struct http_job *job, enum tier_outcome outcome, const char *said);
/* Ends a job after so many milliseconds, 0: in the loop's next turn. */
void http_job_give_up(struct http_job *job, uint64_t delay_ms, enum tier_outcome outcome,
                      const char *why);
/* Ends a PROBE that found reads and writes, or said why not. `more`: what else works, if both do. */
void http_job_end_probe(struct http_job *job, const char *more);

#endif
