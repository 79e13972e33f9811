/* SPDX-License-Identifier: Apache-2.0 */
/*
 * service.h - what the daemon does, whichever wire it is asked on: look up, lease, compile, store,
 * list, remove; and who may see what.
 *
 *      native.c   redis.c                 the wires: bytes in, struct call, bytes out
 *          │         │
 *          ▼         ▼
 *       service.c  compile.c  admin.c     lookups and puts; compiles; lists and removals
 *          │    │       │
 *          ▼    ▼       ▼
 *        store flight  compiler
 *
 * Trust. An entry has an owner. What clients put is in the space of the peer that put it (peer.h)
 * and nobody else finds it. What the daemon compiled itself belongs to STORE_MADE_HERE; a peer gets
 * it by key alone if it is the maker or an administrator, and else only with the proof: the SHA-256
 * of the same canonical bytes. Where a proof is given it must be the entry's, whoever asks.
 *
 * A name's key is the XXH3-128 of its bytes, and the row keeps the name itself, which is compared.
 *
 * Thread: loop thread. Memory: a struct call belongs to the wire; see there.
 */
#ifndef WARM_DAEMON_SERVICE_SERVICE_H
#define WARM_DAEMON_SERVICE_SERVICE_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "client/wire/wire.h"
#include "daemon/compiler/compiler.h"
#include "daemon/process/config.h"
#include "daemon/service/artifact.h"
#include "daemon/service/flight.h"
#include "daemon/service/stats.h"
#include "daemon/users/peer.h"
#include "store/store.h"

#define SERVICE_JOB_MAX (256ull << 20) /* bytes of an encoded compile job */
#define SERVICE_CHECK_MAX                                                                          \
    (1ull << 20) /* bytes: a larger value is first verified on a thread of the store's */

struct service;

/* All borrowed until service_free. */
struct service_config {
    uv_loop_t *loop;
    const struct config *config; /* its limits may change between calls */
    struct store *store;
    struct compiler *compiler;
};
int service_new(struct service **out, const struct service_config *config, struct err *e);
/* Takes nothing up any more that would have to wait; what is in flight goes on. */
void service_drain(struct service *s);
/* Ends what is in flight: all who wait get SHUTDOWN, compiles are cancelled. */
void service_shutdown(struct service *s);
/* True when nothing runs that still needs the service: no compile, no put. */
bool service_is_idle(const struct service *s);
/* True when nobody waits for anything either. */
bool service_is_drained(const struct service *s);
/* Writes the lifetime counters; nothing of it runs after that. Must be idle. */
void service_close(struct service *s);
void service_free(struct service *s);
/* Runs the store's completions: to be called where the store's on_wake asks for it. */
void service_poll(struct service *s);

struct store *service_store(struct service *s);
struct stats *service_stats(struct service *s);
uint64_t service_now_ms(const struct service *s);    /* the loop's monotonic clock */
uint64_t service_wait_ms(const struct service *s);   /* how long a RESP GET waits on a lease */
uint64_t service_max_value(const struct service *s); /* bytes of what a client may put */

/* ---- look-ups that are answered at once ---- */

struct store_id service_name_id(const struct peer *peer, struct view name);

/*
 * Finds an entry that this peer may have, and counts the hit. `proof` may be NULL. The value is
 * borrowed until store_turn_end. Errors: NOT_FOUND; BUSY where a large value has to be verified
 * first: service_get_later; any other is a fault of ours, and to be treated as a miss.
 */
int service_get(struct service *s, const struct peer *peer, enum wire_space space, struct view key,
                const struct proof *proof, struct store_value *out, struct err *e);
/* The same without a hit, and the row alone. */
int service_peek(struct service *s, const struct peer *peer, enum wire_space space, struct view key,
                 struct store_row *out, struct err *e);
/* A look-up by name that found nothing and waits for nobody. */
void service_count_miss(struct service *s, const struct peer *peer, struct view name);

/* ---- calls: what may have to wait ---- */

enum answer_kind {
    ANSWER_VALUE,  /* last: `value` or `artifact`, and `outcome` */
    ANSWER_MISS,   /* last */
    ANSWER_FAILED, /* last: `artifact` is the compiler's refusal */
    ANSWER_ERROR,  /* last: `err` */
    ANSWER_OVER,   /* last: the lease that this call holds has ended; nothing to tell the client */
    ANSWER_LEASE,  /* make it: `token`, `deadline_ms` */
    ANSWER_WAIT,   /* somebody is at it: `n_waiters`, `elapsed_ms` */
    ANSWER_NEED,   /* send the source: service_source */
    ANSWER_CHECK,  /* say what is at the paths of `manifest`: service_checked */
};

/* Everything in it is borrowed until on_answer returns. */
struct answer {
    enum answer_kind kind;
    enum wire_outcome outcome;
    const struct store_value *value; /* or */
    struct artifact *artifact;
    uint64_t token;
    uint32_t deadline_ms;
    uint32_t n_waiters, elapsed_ms;
    const struct manifest *manifest;
    const struct err *err;
};

struct attempt;
struct preparing;
struct pending_put;
struct bases;

/* A header that is not what it was, for the explanation of a miss. */
struct changed_header {
    char part[160], old[WARM_KEY_TEXT], now[WARM_KEY_TEXT];
};
#define EXPLAIN_HEADERS 4u

/* What a compile is asked by. */
struct call_compile {
    uint32_t flags;                    /* enum wire_compile_flags */
    const struct toolchain *toolchain; /* NULL until it is found */
    struct call *waiting;              /* this one, while its compiler is being identified */
    struct toolchain_wait identified;
    char *selector;      /* what the compiler was asked for by, for then */
    struct bases *bases; /* of an alias: manifest.h */
    struct key checked;  /* the digest of the stored manifest that was last asked about, or zero */
    unsigned n_checks;   /* how many were */
    struct address address; /* of the source alone */
    char label[WIRE_NAME_MAX + 1];
    unsigned n_changed;
    struct changed_header changed[EXPLAIN_HEADERS];
};

/*
 * One request that is not answered yet. The wire embeds it, zeroed, fills in the first part and
 * keeps it where it is until the last answer, or service_drop.
 */
struct call {
    struct service *service;
    const struct peer *peer;
    void (*on_answer)(struct call *call, const struct answer *a);
    struct view name; /* what a GET asks for; borrowed during service_ask */

    /* the service's: */
    struct ask ask;
    struct store_id id;
    struct proof proof;
    bool was_corrupt;            /* what it asks for was there, damaged; a GET's wire says so */
    bool is_bookkeeping;         /* not for the history */
    bool compiles;               /* else it is a GET */
    bool leads;                  /* its source is what is compiled */
    unsigned n_needs, n_sources; /* the second is the answer to so many of the first */
    unsigned stage;              /* of a compile: where to look next */
    struct manifest *checking;   /* ANSWER_CHECK was given */
    struct artifact *candidate;  /* the result that the check is about, if it is not the store's */
    enum wire_outcome outcome;   /* of the candidate, if it is the right one */
    struct attempt *attempt;     /* that this call leads */
    struct pending_put *putting; /* what it brings under its lease is being copied */
    struct preparing *preparing; /* a stored value that is being verified for it */
    bool prepared;               /* that was done once: not again */
    struct call_compile *compile;
    struct {
        struct store_id id;
        struct proof proof;
    } chosen; /* the result that a manifest's alternative names */
};

enum ask_mode {
    ASK_KNOWN, /* what is there already, or just made */
    ASK_WAIT,  /* waits for who makes it; never makes it */
    ASK_LEASE, /* waits for who makes it, or makes it */
};
/* After service_get found nothing. Answers at once with MISS, VALUE or LEASE, or with WAIT and
 * later with one of those or ERROR. `wait_ms` 0: the default. */
void service_ask(struct call *call, enum ask_mode mode, enum wire_space space, struct view key,
                 const struct proof *proof, uint64_t wait_ms);

/* After service_get said BUSY: answers with WAIT, and then with VALUE or MISS. */
void service_get_later(struct call *call, enum wire_space space, struct view key,
                       const struct proof *proof);

/* A compile: answers with any of the kinds. */
void service_compile(struct call *call, const struct wire_compile *ask);
/* The source, after NEED: the job's bytes, or a memfd of them (taken; -1 if inline); the channel to
 * the client's files (taken). Errors are answered. */
void service_source(struct call *call, const void *data, uint64_t len, int job_fd, int channel_fd);
/* After CHECK: one state for each path of the manifest. */
void service_checked(struct call *call, const struct wire_path_seen *states);

/* The asker is gone, or wants it no more (`cancelled`: a compile that nobody else waits for ends).
 * on_answer is not called again. */
void service_drop(struct call *call, bool cancelled);

/* ---- puts ---- */

/* Where the daemon keeps what it makes itself, for what `warm import` brings back. */
struct service_made {
    struct address address;
    struct proof proof;
};

struct service_put {
    struct view name;
    const struct service_made *made; /* instead of a name; NULL: it has one */
    enum store_kind kind;
    bool keep_existing;
    uint32_t cost_ms;
    uint64_t ttl_ms; /* 0: for ever */
    struct key group;
    struct view hardware, compiler, label;
    const void *data; /* the value; or */
    int fd;           /* a memfd with it, taken also on failure; else -1 */
    bool is_ours;     /* this process made the memfd */
    uint64_t len;
    const struct key *check; /* what the client says the value's XXH3-128 is; NULL: unknown */
    struct call *lease;      /* the call that holds the lease; NULL: none */
    bool lease_lost;         /* the client named a lease that it does not hold (any more) */
    /* Once, and never from within service_put: 0 once the value is committed. */
    void (*on_done)(void *arg, int status, bool existed, const struct key *key,
                    const struct err *e);
    void *arg;
};
/* Stores a value in the peer's space, or, with `made`, among what the daemon made, and hands it to
 * all who wait for it. On error nothing was kept and on_done does not run. Errors: INVALID, TOO_BIG,
 * CORRUPT (does not match `check`), LEASE_LOST (somebody else brought it), DENIED (`made`, by no
 * administrator), NOMEM. */
int service_put(struct service *s, const struct peer *peer, const struct service_put *put,
                struct err *e);

/* ---- work for a pool thread that ends in a put ---- */

/* The service is not idle before `done` was called. */
struct service_work {
    uv_work_t work;
    struct service *service;
    void (*run)(struct service_work *w);  /* pool thread */
    void (*done)(struct service_work *w); /* loop thread */
};
/* False, and nothing runs, without memory. `w` is borrowed until `done`, which may free it. */
bool service_work_start(struct service *s, struct service_work *w,
                        void (*run)(struct service_work *w), void (*done)(struct service_work *w));

/* ---- lists and removals: of what is the peer's; of everything for an administrator ---- */

/* What the filter means for this peer. False if nothing can match. */
bool service_filter(const struct peer *peer, const struct wire_filter *in,
                    struct store_filter *out);
/* Writes into `out` the ids of the entries, at most `cap`, that this peer may change under a key: for
 * an administrator those of all users. */
size_t service_resolve(struct service *s, const struct peer *peer, enum wire_space space,
                       struct view key, struct store_id *out, size_t cap);
#define RESOLVE_MAX 16u /* ids under one key: those of so many users */

/* DAMAGED: the value of a HIT under `key` arrived with the checksum `seen`, which is another than the
 * entry's, or the bytes are of no use to the client. */
void service_damaged(struct service *s, const struct peer *peer, const struct key *key,
                     const struct key *seen);

/* AUDIT: the job of a HIT whose outcome was WIRE_WAS_HIT_AUDIT. */
void service_audit(struct service *s, const struct peer *peer, const struct wire_audit *ask);

/* ---- sessions and misses ---- */

/* The session of an id, for struct peer; service_leave_session when the connection ends. */
uint32_t service_join_session(struct service *s, uint32_t uid, struct view id);
void service_leave_session(struct service *s, uint32_t session);
void service_note(struct service *s, const struct peer *peer, const struct wire_note *note);
/* The JSON of HISTORY; false if nothing is known. */
bool service_write_history(struct service *s, const struct peer *peer,
                           const struct wire_history *ask, struct writer *out);

/* ---- the daemon itself ---- */

/* STATS has what each user holds for an administrator, and for a user what that one does. */
void service_write_stats(struct service *s, const struct peer *peer, struct writer *out);
void service_write_info(struct service *s, const struct peer *peer, struct writer *out);

#endif
