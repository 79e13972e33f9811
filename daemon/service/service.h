/* SPDX-License-Identifier: Apache-2.0 */
/*
 * service.h - looks up, leases, compiles, stores, lists and removes, for both wires, and decides which
 * peer may see which entry.
 *
 * Every request for a key is an ask, which goes through a row of sources: ask.h. The files, from the top; a file
 * calls those below it:
 *
 *     service.c                        composes: timers, drain, shutdown
 *     inspect.c, metrics.c             filters; the JSON of STATS and INFO; GET /metrics
 *     compile_request.c, audit.c       COMPILE; compiles of hits, to compare
 *     build.c                          one source on its way through the compiler ──▶ build_store.c
 *     lookup.c, damaged.c              GET; values that clients refuse
 *     tier_fetch.c                     what other machines made ──▶ daemon/nodes
 *     put.c, work.c                    values on their way to the store
 *     find.c                           what this daemon made
 *     ask.c                            one request: led through its sources, answered once, counted, in a flight
 *     refused.c, bookkeeping.c         what was refused; counters and history
 *     flight.c artifact.c              tables and values without a service
 *
 * Trust. An entry has an owner. A client's puts are in the space of its peer (peer.h), and no other
 * peer finds them. A value that the daemon compiled belongs to STORE_MADE_HERE. Its maker and
 * administrators get it by key alone; everybody else needs the proof: the SHA-256 of the same
 * canonical bytes. If a peer names a proof, it must be the entry's, whoever the peer is.
 *
 * A name's key is the XXH3-128 of its bytes. The row keeps the name itself, which is compared.
 *
 * Thread: loop thread. Memory: the wire owns its asks; see ask.h.
 */
#ifndef WARM_DAEMON_SERVICE_SERVICE_H
#define WARM_DAEMON_SERVICE_SERVICE_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "client/wire/wire.h"
#include "daemon/compiler/pool.h"
#include "daemon/history/stats.h"
#include "daemon/process/config.h"
#include "daemon/service/ask.h"
#include "daemon/users/peer.h"
#include "store/store.h"

#define SERVICE_JOB_MAX (256ull << 20) /* bytes of an encoded compile job */
#define SERVICE_CHECK_MAX                                                                          \
    (1ull << 20) /* bytes; a thread of the store verifies larger values first */

struct service;

/* All borrowed until service_free. */
struct service_config {
    uv_loop_t *loop;
    const struct config *config; /* its limits may change between calls */
    struct store *store;
    struct pool *pool;
    struct spawner *spawner; /* of the tier's helper; NULL: there is no tier */
    /* Returns the group of a client's put (torch_store.h), zero: none. NULL: no put has one. */
    struct key (*group_of)(struct service *s, const struct peer *peer, struct view name,
                           const struct artifact *value);
};

/* ---- service.c ---- */

/* Makes a service; *out is NULL or to be freed, also on failure. NOMEM; INVALID, IO: of the tier. */
int service_new(struct service **out, const struct service_config *config, struct err *e);
/* Refuses requests that would have to wait from now on; requests in flight go on. */
void service_drain(struct service *s);
/* Ends all requests in flight: waiters get SHUTDOWN, compiles are cancelled. */
void service_shutdown(struct service *s);
/* True if no compile and no put needs the service any more. */
bool service_is_idle(const struct service *s);
/* True if it is idle and no request waits. */
bool service_is_drained(const struct service *s);
/* True if no lease of the tier is being asked for, or is still to be given back. */
bool service_owes_nothing(const struct service *s);
/* Writes the lifetime counters and stops the timers. The service must be idle. */
void service_close(struct service *s);
/* Frees a closed service; NULL is fine. */
void service_free(struct service *s);
/* Runs the store's completions. Call it when the store's on_wake asks for it. */
void service_poll(struct service *s);

/* Returns the store, for walks and removals of the wires. */
struct store *service_store(struct service *s);
/* Returns the daemon's counters. */
struct stats *service_stats(struct service *s);
/* Returns the time of the loop's monotonic clock. */
uint64_t service_now_ms(const struct service *s);
/* Returns how long a RESP GET waits for a lease holder. */
uint64_t service_wait_ms(const struct service *s);
/* Returns the largest value that a client may put, in bytes. */
uint64_t service_max_value(const struct service *s);

/* ---- lookup.c ---- */

/* Returns the id of the entry that a peer's name stands for. */
static inline struct store_id service_name_id(const struct peer *peer, struct view name)
{
    return (struct store_id){peer->space, key_of_bytes(name.data, name.len)};
}

enum ask_mode {
    ASK_KNOWN, /* finds values that exist */
    ASK_WAIT,  /* also waits for a lease holder's value */
    ASK_LEASE, /* also takes the lease */
};
/* What a GET asks for. */
struct question {
    enum wire_space space;
    struct view key;           /* a name, or the 16 bytes of a key */
    const struct proof *proof; /* of a key; may be NULL */
    enum ask_mode mode;
    uint64_t wait_ms;      /* 0: the default */
    const struct err *why; /* what service_get said; NULL: it found nothing */
};
/* Finds an entry that this peer may have, and counts nothing: service_count_hit does, once the answer is queued
 * whole. The value is borrowed until store_turn_end. Errors, in e->code, too: NOT_FOUND, CORRUPT; BUSY if a
 * large value has to be verified first. Any other error is the daemon's own (bookkeeping_is_failure) and no miss. */
int service_get(struct service *s, const struct peer *peer, const struct question *q,
                struct store_value *out, struct err *e);
/* Counts the hit of a value that service_get found. */
void service_count_hit(struct service *s, const struct peer *peer, const struct question *q,
                       const struct store_row *row);
/* Goes on after service_get brought nothing; ranks on several machines begin here (ask->job). Answers with MISS,
 * VALUE, LEASE or ERROR, or with WAIT and later with one of those. */
void service_ask(struct ask *ask, const struct question *q);
/* Counts a look-up by name that found nothing, or failed, and does not wait. */
void service_count_miss(struct service *s, const struct peer *peer, struct view name,
                        const struct err *failure);
/* Finds the row of an entry that this peer may have; counts nothing. NOT_FOUND. */
int service_peek(struct service *s, const struct peer *peer, enum wire_space space, struct view key,
                 struct store_row *out, struct err *e);

#define RESOLVE_MAX 16u /* ids under one key: those of so many users */
/* Writes into `out` at most `cap` ids of entries that this peer may change under a key. An
 * administrator may change those of all users. Returns how many there are. */
size_t service_resolve(struct service *s, const struct peer *peer, enum wire_space space,
                       struct view key, struct store_id *out, size_t cap);

/* ---- compile_request.c ---- */

/* Begins a compile: answers with any of the kinds. */
void service_compile(struct ask *ask, const struct wire_compile *m);
/* Takes the source after NEED: the job's bytes, or a memfd of them (taken; -1 if inline), and the
 * channel to the client's files (taken). Errors are answered. */
void service_source(struct ask *ask, const void *data, uint64_t len, int job_fd, int channel_fd);
/* Takes the client's files after CHECK: one state for each path of ask_checking. In ask.c. */
void service_checked(struct ask *client, const struct wire_path_seen *states);

/* ---- put.c ---- */

/* The place of an entry that a daemon made: `warm import` brings such entries back. */
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
    const struct key *check; /* the value's XXH3-128 as the client says; NULL: unknown */
    struct ask *lease;       /* the ask that holds the lease; NULL: none */
    bool lease_lost;         /* the client named a lease that it does not hold (any more) */
    /* Called once, and never from within service_put; `status` is 0 once the value is committed. */
    void (*on_done)(void *arg, int status, bool existed, const struct key *key,
                    const struct err *e);
    void *arg;
};
/* Stores a value in the peer's space, or, with `made`, among the daemon's own, and hands it to all
 * waiters. On error nothing is kept and on_done does not run. Errors: INVALID, TOO_BIG, CORRUPT (it
 * does not match `check`), LEASE_LOST (another client brought it), DENIED (`made`, by no
 * administrator), NOMEM. */
int service_put(struct service *s, const struct peer *peer, const struct service_put *put,
                struct err *e);

/* ---- work.c: work for a pool thread that ends in a put ---- */

/* Work on a pool thread. The service is not idle until `done` was called. */
struct service_work {
    uv_work_t work;
    struct service *service;
    void (*run)(struct service_work *w);  /* pool thread */
    void (*done)(struct service_work *w); /* loop thread */
};
/* Runs `run` on a pool thread, then `done`, which may free `w`; `w` is borrowed until then. False,
 * and nothing runs, if there is no memory. */
bool service_work_start(struct service *s, struct service_work *w,
                        void (*run)(struct service_work *w), void (*done)(struct service_work *w));

/* ---- damaged.c, audit.c ---- */

/* Takes a client's report (DAMAGED): the value of a HIT under `key` arrived with the checksum
 * `seen`. If that is the entry's own, the client refuses the bytes. */
void service_damaged(struct service *s, const struct peer *peer, const struct key *key,
                     const struct key *seen);

/* Takes the job of a HIT whose outcome was WIRE_WAS_HIT_AUDIT, and compiles it to compare. */
void service_audit(struct service *s, const struct peer *peer, const struct wire_audit *ask);

/* ---- bookkeeping.c: sessions and misses ---- */

/* Joins the session of an id and returns its number, for struct peer. */
uint32_t service_join_session(struct service *s, uint32_t uid, struct view id);
/* Makes the peer's project that of its session, which its other connections may not know. */
void service_set_project(struct service *s, const struct peer *peer);
/* Leaves a session when the connection ends. */
void service_leave_session(struct service *s, uint32_t session);
/* Notes a client's remark about a miss of its own in the history. */
void service_note(struct service *s, const struct peer *peer, const struct wire_note *note);
/* Notes that the peer's session uses an entry that is put later. */
void service_used(struct service *s, const struct peer *peer, struct view name);
/* Writes the JSON of HISTORY. False if nothing is known. */
bool service_write_history(struct service *s, const struct peer *peer,
                           const struct wire_history *ask, struct writer *out);

/* ---- inspect.c ---- */

/* Translates a filter for this peer: a user reaches its own entries, an administrator all. False if
 * nothing can match. */
bool service_filter(const struct peer *peer, const struct wire_filter *in,
                    struct store_filter *out);
/* Marks entries that are to be sent to the tier. UNSUPPORTED: there is none, or no key to sign with; NOMEM. */
int service_push(struct service *s, const struct store_id *ids, size_t n, store_report_cb cb,
                 void *arg, struct err *e);
/* True if the daemon has a tier, and an entry is not sent there. */
bool service_keeps(struct service *s, const struct store_row *row);
/* Finds the name of the key that signed an entry of the tier: see signers_name. */
void service_signer_name(struct service *s, uint32_t signer, char out[64]);
/* Writes the JSON of STATS: with the holdings of all users for an administrator, else of the peer. */
void service_write_stats(struct service *s, const struct peer *peer, struct writer *out);
/* Writes the JSON of INFO. */
void service_write_info(struct service *s, const struct peer *peer, struct writer *out);
/* Writes the text of GET /metrics: metrics.c. */
void service_write_metrics(struct service *s, const struct peer *peer, struct writer *out);

#endif
