/* SPDX-License-Identifier: Apache-2.0 */
/*
 * s3_internal.h - a job: one request to S3 as some transfers, one after another. For s3*.c alone.
 *
 *     job_new ─▶ job_begin ─▶ s3_send_… ─▶ then(job) ─▶ s3_send_… ─▶ then(job) ─▶ http_job_end
 *                   ▲              │
 *                   └── job_wait ◀─┘ no keys yet, or no probe yet
 *
 * `then` finds in `answer` what the last transfer's answer means. A transfer without an answer ends the job before.
 *
 * Thread: loop thread. Memory: http_job_end frees the job; nothing may touch it after that.
 */
#ifndef WARM_TIER_BACKENDS_S3_INTERNAL_H
#define WARM_TIER_BACKENDS_S3_INTERNAL_H

#include "tier/backends/aws_identity.h"
#include "tier/backends/http_job.h"
#include "tier/backends/s3_answer.h"
#include "tier/backends/sigv4.h"

struct job;

enum s3_conditions { CONDITIONS_UNKNOWN, CONDITIONS_WORK, CONDITIONS_IGNORED };

struct s3_backend {
    struct http_backend http;
    struct aws_identity *identity;
    char origin[300], host[280]; /* https://HOST[:PORT], and HOST[:PORT] as it is signed */
    char bucket[64];             /* in the path, or "" */
    char prefix[512], region[64], profile[64];
    void (*begin)(struct job *job); /* s3.c: begins a job, from its first step */
    int64_t clock_s;                /* the server's clock minus ours, if it refused ours */
    enum s3_conditions conditions;
    char own[TIER_NAME_MAX + 1]; /* an entry that we wrote, or "" */
    uint64_t own_read_ms;        /* when an object that we wrote was last read; 0: never */
    struct tier_request probe;   /* our own, and when it ended */
    uint64_t probed_ms;
    bool probing;
};

struct s3_lease {
    char token[2 * TIER_TOKEN_SIZE + 1];
    uint64_t ms, age_ms; /* of its life, since it was written */
    char etag[160], body[160];
};

struct job {
    struct http_job http; /* it waits for keys, or for the probe */
    struct s3_backend *backend;
    bool is_due; /* to begin again */
    bool was_refused, was_skewed;
    bool is_unsure; /* PROBE: an answer told nothing */
    unsigned round, step;
    struct s3_lease lease;
    uint64_t held_length; /* of http.held_fd */

    void (*then)(struct job *job); /* takes the answer */
    struct s3_answer answer;
    void (*then_denied)(struct job *job); /* while our own entry is read: takes this answer */
    struct s3_answer denied;
    char name[2 * TIER_NAME_MAX + 1]; /* that of a job's answer has two digests */
    char payload[65], condition[220], checksum[48];
    char lines[5][SIGV4_TEXT_MAX + 64], token_line[4200];
};

/* ---- s3_job.c ---- */

/* Makes a job of a request. */
struct job *job_new(struct s3_backend *backend, struct tier_request *request);
/* Ends a job with what the answer says. */
void job_fail(struct job *job);
/* Lets a job wait for s3_wake_jobs, at most until its time is over. */
void job_wait(struct job *job);
/* Begins all jobs again that wait. */
void s3_wake_jobs(struct s3_backend *backend);

/* Sends GET. With `wants_file` the object comes in a memfd, else in transfer.text. */
void s3_send_get(struct job *job, const char *name, bool wants_file, void (*then)(struct job *job));
/* Sends PUT of a text, which must live on, or of the request's bytes if that is NULL. `condition` is a header, or "". */
void s3_send_put(struct job *job, const char *name, const char *text, const char *condition,
                 void (*then)(struct job *job));
/* Sends PUT of a text with another text's checksum. */
void s3_send_damaged(struct job *job, const char *name, const char *text,
                     void (*then)(struct job *job));
/* Sends DELETE. */
void s3_send_delete(struct job *job, const char *name, void (*then)(struct job *job));

/* Writes so many random bytes in hex, at most 16. */
void s3_random_hex(char *out, size_t n_bytes);

/* Takes an object's bytes and ends the job, unless the object is absent. True if it is absent. */
bool s3_take_object(struct job *job);

/* ---- s3_lease.c, s3_probe.c ---- */

/* Begins the job of ASK. */
void s3_ask(struct job *job);
/* Begins the job of FINISH. */
void s3_finish(struct job *job);
/* Begins the job of RENEW or RELEASE. */
void s3_change_lease(struct job *job);
/* Begins the job of PROBE. */
void s3_probe(struct job *job);
/* Starts a probe of our own: s3_wake_jobs is called after it. */
void s3_start_probe(struct s3_backend *backend);

#endif
