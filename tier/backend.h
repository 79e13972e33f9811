/*
 * backend.h - what warm-tier asks of a store beyond the machine.
 *
 *   warmd ──SEQPACKET, descriptors──▶ warm-tier ──▶ backend ──▶ redis:// s3:// file:// http://
 *
 * A backend keeps objects under names, and perhaps leases. It knows nothing of keys, proofs or signatures: warmd makes
 * the bytes of an object and checks those that come back. A backend is one struct of functions; backends.c chooses it
 * by the scheme of the URL.
 *
 * Names of objects are "HH/e-ID", "HH/b-SHA256", "HH/p-ID", "HH/l-ID" and "probe-HOST", of [0-9a-z/-] alone, at most
 * 80 bytes. The backend puts the prefix of its URL and "v1/" before them.
 *
 * Thread: warm-tier's loop thread. No function blocks for longer than a local file needs.
 * Memory: the caller keeps a request alive until `done` is called, exactly once, and never from within the call that
 * started it. Descriptors in a request stay the caller's; a descriptor in an answer becomes the caller's.
 */
#ifndef WARM_TIER_BACKEND_H
#define WARM_TIER_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

/* What became of a request. The order is of no meaning; the numbers go over the socket to warmd. */
enum tier_outcome {
    TIER_OK = 0,     /* GET: the object. PUT: it is there now. */
    TIER_ABSENT = 1, /* the backend says for certain that there is no such object */
    TIER_EXISTS = 2, /* PUT with only_if_absent: somebody else's object is there */
    TIER_LEASE = 3,  /* ASK: no object, and the lease is the asker's now */
    TIER_WAIT = 4,  /* ASK: no object, another one has the lease; `wait_ms` says how long at most */
    TIER_LATER = 5, /* overloaded: 429, 503, OOM of Redis; `wait_ms` is Retry-After, or 0 */
    TIER_DENIED = 6, /* credentials: 401, 403, NOPERM, WRONGPASS */
    TIER_MISSET =
        7, /* configuration: no such bucket, wrong region, TLS that does not verify, a redirect */
    TIER_FAILED = 8,     /* transport: refused, reset, timed out, 5xx, rubbish, cut in the middle */
    TIER_CANNOT = 9,     /* the backend has no such operation (leases over plain HTTP) */
    TIER_TOO_LARGE = 10, /* GET: the object is larger than `limit` */
};

enum tier_operation {
    TIER_GET, /* an object's bytes */
    TIER_PUT, /* an object, whole or not at all */
    TIER_ASK, /* in one round trip: the object, or its lease, or how long to wait (Redis: one EVAL) */
    TIER_FINISH,  /* PUT of a small object and the release of its lease in one step */
    TIER_RENEW,   /* keeps a lease for another lease_ms; TIER_ABSENT: it is lost */
    TIER_RELEASE, /* gives a lease back without an object */
    TIER_PROBE,   /* writes, reads and removes probe-HOST, and finds out the capabilities */
};

/* What the probe found. Never assumed from the scheme. */
struct tier_capabilities {
    bool reads, writes;     /* objects can be read, written */
    bool conditional;       /* PUT only_if_absent leaves what is there (shown by trying it twice) */
    bool checksums;         /* a PUT with the wrong checksum is refused */
    bool leases;            /* ASK, FINISH, RENEW and RELEASE work */
    uint64_t clock_skew_ms; /* how far the server's clock is from ours; 0 if it does not say */
    char said[200];         /* for `warm doctor`: one line in words */
};

enum {
    TIER_NAME_MAX = 80,
    TIER_TOKEN_SIZE = 16, /* of a lease: random, so that nobody releases another's */
    TIER_SAID_MAX = 160,
};

/*
 * One request and, when `done` is called, its answer.
 * Units: bytes, milliseconds. Zero-initialise, then fill what the operation names.
 */
struct tier_request {
    enum tier_operation operation;
    char name[TIER_NAME_MAX + 1];
    uint64_t timeout_ms; /* from now; the backend ends with TIER_FAILED by then, whatever happens */

    /* PUT, FINISH: `length` bytes of `fd` from `offset`. The file may be longer and is not changed. */
    int fd;
    uint64_t offset, length;
    uint8_t sha256[32];  /* of these bytes: for x-amz-checksum-sha256 */
    bool only_if_absent; /* PUT: ignored by a backend that is not `conditional` */
    uint64_t expire_ms;  /* PUT, FINISH: Redis drops the object after it; 0: never */

    /* GET, ASK: refuses an object larger than this before it reads it. */
    uint64_t limit;
    bool may_lend; /* the object may come as result_data */

    /* ASK, FINISH, RENEW, RELEASE. `job` may be empty: then no answer is kept for the job (see KEYS of the EVAL). */
    uint8_t token[TIER_TOKEN_SIZE];
    uint64_t lease_ms;
    uint32_t slot; /* 0: the lease; else one beside it, for a maker that does not wait */
    char job[65];  /* ASK: hex digest of the job whose ranks must get one answer */

    /* The answer. */
    enum tier_outcome outcome;
    int result_fd; /* GET, ASK with TIER_OK: a memfd at offset 0, or -1 */
    const void *
        result_data; /* with may_lend: the bytes themselves in place of it, borrowed until `done` ends */
    uint64_t result_length;
    uint64_t wait_ms;
    struct tier_capabilities capabilities; /* PROBE */
    char said
        [TIER_SAID_MAX]; /* not TIER_OK: what happened, in words, without a secret: "404", "timed
                                             out after 512 ms", "403 SignatureDoesNotMatch" */
    void (*done)(struct tier_request *request);
    void *user;         /* the caller's */
    void *backend_data; /* the backend's, while the request runs */
};

struct tier_backend {
    const struct tier_backend_functions *functions;
};

struct tier_backend_functions {
    const char *scheme; /* "redis" */
    /* Starts `request`. Never fails: what goes wrong is its outcome. */
    void (*start)(struct tier_backend *backend, struct tier_request *request);
    /* Gives `request` up: `done` is called with TIER_FAILED and "cancelled", soon. */
    void (*cancel)(struct tier_backend *backend, struct tier_request *request);
    /* Ends the backend after all its requests; `closed` is called once nothing of it runs any more. */
    void (*close)(struct tier_backend *backend, void (*closed)(void *user), void *user);
};

/* How a backend is set up. All texts are borrowed for the call alone. */
struct tier_settings {
    const char
        *url; /* SCHEME://[USER@]HOST[:PORT][/PATH][?name=value&…]; a password in it is refused */
    const char
        *credentials;  /* file with `name = value` lines, or NULL: the environment and profiles */
    const char *ca;    /* file of certificates, or NULL: the system's */
    const char *proxy; /* or NULL: the environment's */
    uint32_t connections; /* at most, at once */
    uint64_t min_rate;    /* bytes a second below which a transfer fails */
};

/*
 * Makes the backend of settings->url on `loop`. Connects nothing yet. Returns NULL and one line in `why` if the URL or
 * another setting is wrong: what is wrong and what to write instead, with secrets masked.
 */
struct tier_backend *tier_backend_new(uv_loop_t *loop, const struct tier_settings *settings,
                                      char *why, size_t why_size);

#endif
