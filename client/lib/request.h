/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request.h - struct warm, which programs see as a pointer: requests on a connection that comes and
 * goes.
 *
 *                  ┌───────────────── no connection ◀─────────────────┐
 *                  │ a request, and the pause is over                 │ a failure: close, pause
 *                  ▼                                                  │ 100 ms, doubled up to 5 s
 *     request_ask ──▶ connect ──▶ send ──▶ answer ──▶ more answers ───┘
 *                                  ▲         │ CLOSED, on a connection that had been idle:
 *                                  └─────────┘ the daemon was restarted; once more at once
 *
 * A daemon that says nothing for silence_ms hangs, also if it said WAIT: halfway it is asked for a
 * sign of life. Then no request of the process tries that socket for DEADLINE_PAUSE_FACTOR times as
 * long.
 *
 * Thread: one at a time for each struct warm. Memory: as each function says.
 */
#ifndef WARM_LIB_REQUEST_H
#define WARM_LIB_REQUEST_H

#include <sys/stat.h>
#include <sys/types.h>

#include "client/lib/conn.h"
#include "client/lib/warm.h"

struct digests; /* digests.h */

/* A libnvrtc that the daemon does not load, but has a copy of. */
struct own_nvrtc {
    char *path;       /* NULL: none */
    struct stat file; /* at `path`, when it was identified */
    char id[WARM_KEY_TEXT];
};

struct warm {
    struct conn conn;
    bool connected;
    pid_t pid; /* that opened it: not to be used across fork */
    char socket[108];
    unsigned connect_timeout_ms, request_timeout_ms;
    unsigned silence_ms;     /* a daemon that says nothing for so long hangs */
    uint64_t life_tag;       /* tag of the question for a sign of life; 0: none */
    uint64_t heard_ms;       /* time of the last sign of life, or of a later request */
    bool recache, read_only; /* $WARM_RECACHE, $WARM_READONLY */
    bool told_recache;       /* the daemon was told of $WARM_RECACHE */
    uint64_t last_tag;
    uint64_t n_tags;       /* of the request under way: the first one and those after it */
    struct writer request; /* frames of the request that is being made */
    uint64_t retry_at_ms;  /* without a connection: no attempt before this time */
    unsigned pause_ms;
    struct digests *digests; /* of headers; NULL until a compile asks for them */
    struct own_nvrtc nvrtc;
    bool existed;   /* the last put found an entry, which it was to keep */
    struct err err; /* of the last failure */
};

/* One frame that answers a request. */
struct answer {
    struct wire_frame frame; /* borrows the connection's buffer until the next answer */
    int fds[WIRE_FDS_MAX];   /* -1: none; the receiver takes or closes them */
};

/* Connects; HELLO goes with the first request. Errors: NO_DAEMON, and those of conn_open. */
int request_open(struct warm *w);

/* Begins a request: empties w->request and returns the request's tag. */
uint64_t request_begin(struct warm *w);

/* Begins a request that has `n` answers, and returns the first of n tags. request_ask and
 * request_next then take an answer to any of them; its frame says which. */
uint64_t request_begin_many(struct warm *w, uint64_t n);

/* Empties w->request for one more frame of the same request. */
void request_renew(struct warm *w);

/* Sends w->request, whose last frame carries `fds` (borrowed), and waits for the first frame that
 * answers `tag`. An ERROR frame is turned into its code. */
int request_ask(struct warm *w, uint64_t tag, const int *fds, size_t n_fds, uint64_t deadline_ms,
                struct answer *out);

/* Sends w->request, which belongs to a request under way, on the present connection. */
int request_tell(struct warm *w, const int *fds, size_t n_fds, uint64_t deadline_ms);

/* Waits for the next frame that answers `tag`. Returns CONN_OTHER if `other_fd` (-1: none) can be
 * read first. */
int request_next(struct warm *w, uint64_t tag, int other_fd, uint64_t deadline_ms,
                 struct answer *out);

/* Loads and verifies the value of a HIT or FAILED. Gives *out (warm_value_free) and takes
 * answer->fds. If the value does not match its checksum, tells the daemon and returns CORRUPT. */
int request_value(struct warm *w, struct answer *answer, const struct wire_hit *hit,
                  struct warm_value *out);

/* Tells the daemon that the value of entry `key` with checksum `check` is useless, although it came
 * as it was put. The daemon sets the entry aside. Waits for nothing. */
void request_tell_refused(struct warm *w, const struct key *key, const struct key *check);

/* Ends the connection after a frame that does not answer the request. Returns MALFORMED. */
int request_unexpected(struct warm *w, struct answer *answer);

/* Tells the daemon why an artifact was not asked for, or not taken. Waits for no answer; keeps
 * w->err.
 */
void request_note(struct warm *w, const struct wire_note *note);

/* Stores, as warm_put does, an artifact that a daemon made itself. `place` is its key:
 * WIRE_MADE_LEN in wire.h. DENIED for all but administrators. Defined in client.c. */
int client_put_made(struct warm *w, const uint8_t place[WIRE_MADE_LEN], const struct key *group,
                    const void *data, size_t len, const struct warm_put_options *options);

/* Stores, as warm_put does, an entry under its name, in a group (zero: none). Defined in client.c. */
int client_put_named(struct warm *w, struct view name, const struct key *group, const void *data,
                     size_t len, const struct warm_put_options *options);

/* Connects and shakes hands now, before the first request. Errors: as request_open and
 * conn_recv. */
int request_connect(struct warm *w);

/* Finds the identity of a libnvrtc by its content (nvrtc_id.h). False if its files cannot be read. */
bool request_nvrtc_id(struct warm *w, const char *path, struct key *out);

/* Compiles as warm_compile does, but tells `warm why` nothing if the daemon has no such compiler: the caller
 * may still keep the result of its own compile. */
int request_compile(struct warm *w, const struct warm_job *job, struct warm_result *out);
/* Tells `warm why` that this job is not kept, and that the reason is w->err. */
void request_tell_uncached(struct warm *w, const struct warm_job *job);
#define COMPILE_MANY_MAX 64u
/*
 * Does the work of warm_compile for up to COMPILE_MANY_MAX jobs at once: one round trip if the cache has all,
 * and as many compiles at a time as the daemon allows. Returns 0 if all were answered: then out_codes[i] is
 * 0, with out[i] (warm_result_free), or the error of job i, whose text is in w->err for the last one. On an
 * error there is nothing to free.
 */
int request_compile_many(struct warm *w, const struct warm_job *jobs, size_t n,
                         struct warm_result *out, int *out_codes);

/*
 * Computes the proof of what job->compiler, an absolute path, makes of the job: its content and
 * everything that the compile can see. *out_shows_cwd: that is the working folder, too. Errors: REFUSED, with
 * the reason in w->err, if the job reads files or shows lines, and those of job_key.
 */
int request_own_proof(struct warm *w, const struct warm_job *job,
                      char out_hardware[WARM_HARDWARE_MAX], bool *out_shows_cwd, struct proof *out);
/* Unpacks a bundle that lies in a value. Takes the value. Errors: MALFORMED, VERSION, CORRUPT. */
int request_unpack(struct warm *w, struct warm_value *value, struct view bundle,
                   struct warm_result *out);

#endif
