/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store.h - the artifacts of keys, on disk.
 *
 *      loop thread                         writer thread
 *      ───────────                         ─────────────
 *      store_get ──▶ LMDB read txn         queue ──▶ group commit ──▶ completions
 *      store_scan     │                      ▲   blob files: write, hash, rename   │
 *      store_put ─────┼──────────────────────┘                                     ▼
 *      store_poll ◀───┼─────────────── on_wake(arg), from the writer thread ───────┘
 *                     ▼
 *      DIR/index/        LMDB: rows, inline values up to STORE_INLINE_MAX
 *      DIR/blobs/OWNER/ab/…   one file per larger value, named by the SHA-256 of its bytes
 *      DIR/quarantine/   values that failed verification, for a person to look at
 *
 * Only one process can open a store: a lock file sees to that. FORMAT.md has the bytes.
 *
 * An entry is found by (owner, key). The owner is a uid for entries that this user's clients put
 * ("claimed"), or STORE_MADE_HERE for those that the daemon compiled itself. So users cannot see or
 * replace each other's claimed entries, whatever keys they choose.
 *
 * Invariants that tests and reviews refer to:
 *   (1) a value is served only if its length and XXH3-128 match its row, and the row its own;
 *   (2) a row is visible only after its value is complete on disk;
 *   (3) a completed put survives SIGKILL of the process;
 *   (4) a hit writes nothing: access times and hits are batched in memory;
 *   (5) opening reads a constant number of pages, however many entries there are;
 *   (6) a broken index never stops the service: it is set aside and rebuilt from the blobs.
 *
 * Thread: one loop thread calls everything, unless a function says otherwise.
 * Memory: rows and views that are returned live until store_turn_end.
 */
#ifndef WARM_STORE_STORE_H
#define WARM_STORE_STORE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keygen/bytes.h"
#include "keygen/err.h"
#include "keygen/key.h"

#define STORE_INLINE_MAX                                                                           \
    (64u << 10) /* bytes; above, a value is a file and is served by descriptor */
#define STORE_VALUE_MAX (4ull << 30) /* bytes */
#define STORE_NAME_MAX 512u          /* bytes of a key's own name, and of each text in a row */
#define STORE_MADE_HERE 0xfffffffeu  /* owner of the daemon's own compiles */

/* Kinds of artifacts, for listing and statistics. Numbers are on disk: never reuse one. Their names are those of
 * WIRE_KIND_LIST (client/wire/wire.h). */
enum store_kind {
    STORE_OTHER = 0,
    STORE_CUBIN = 1,      /* a compile job's result: cubin or PTX, log, lowered names */
    STORE_MANIFEST = 2,   /* the headers that a compile read, and its result */
    STORE_BACKWARD = 3,   /* differentiation output: AOTAutograd, Enzyme, VJP */
    STORE_EXECUTABLE = 4, /* XLA, PJRT */
    STORE_FX_GRAPH = 5,   /* Inductor */
    STORE_TRITON = 6,
    STORE_AUTOTUNE = 7,
    STORE_OBJECT = 8, /* a host compiler's output */
    STORE_GRAPH = 9,  /* a graph after a pass pipeline */
    STORE_FORM = 10,  /* the text that a key was made of, for `warm why` */
};

struct store_id {
    uint32_t owner; /* uid, or STORE_MADE_HERE */
    struct key key;
};
static inline bool store_id_equal(const struct store_id *a, const struct store_id *b)
{
    return a->owner == b->owner && key_equal(&a->key, &b->key);
}

/* Marks of an entry for the tier, the store beyond the machine. This store keeps them, unknown ones too, and
 * does nothing else with them. */
enum store_tier {
    STORE_TIER_WAITS = 1, /* it is to be sent there */
    STORE_TIER_CAME = 2,  /* it came from there */
};

/* All that the store knows of an entry, except its value. Views are borrowed. */
struct store_row {
    struct store_id id;
    enum store_kind kind;
    bool pinned;
    bool is_blob;         /* the value is a file */
    uint32_t maker;       /* uid whose request or put made it */
    uint64_t len;         /* bytes of the value */
    struct key check;     /* XXH3-128 of the value */
    struct proof proof;   /* SHA-256 of the request's canonical bytes; zero if there is none */
    struct proof content; /* SHA-256 of the value; zero unless is_blob */
    struct key group;     /* entries of one group leave together; zero if none */
    uint64_t created_ms, accessed_ms, expires_ms; /* Unix time; expires_ms 0: never */
    /* The time that it took, and that a hit saves. The daemon believes a client up to 600 000 ms: CLAIM_MAX_MS
     * of daemon/service/put.c. */
    uint32_t cost_ms;
    uint32_t hits;   /* all so far, unwritten ones included */
    float heat;      /* hits, halved for every STORE_HEAT_HALF_LIFE_MS */
    uint32_t tier;   /* marks of enum store_tier */
    uint32_t signer; /* with STORE_TIER_CAME: the number of the key that signed it (store_trust) */
    struct key compiler; /* parts of the address, as given; zero or empty if they do not apply */
    struct key graph;
    struct view hardware;      /* "sm_90" */
    struct view compiler_text; /* "NVRTC 13.5 …" */
    struct view name;          /* the key as its owner gave it, when that is not a digest */
    struct view label;         /* for people: a file's name */
};
#define STORE_HEAT_HALF_LIFE_MS (7ull * 24 * 3600 * 1000)

struct store_config {
    const char *dir;
    uint64_t max_bytes;         /* cap on the values and the index, on disk */
    uint64_t quota_bytes;       /* cap for each user's share; 0: none */
    unsigned commit_delay_ms;   /* a put waits at most this long for others to share its commit; 0:
                                 only for queued ones */
    uint64_t index_bytes;       /* address space for the index; 0: enough for max_bytes */
    uint64_t async_check_bytes; /* store_get does not hash unverified blobs above this, and
                                   returns BUSY: see store_prepare. 0: no limit */
    void (*on_wake)(
        void *arg); /* completions wait for store_poll. Any thread of the store, often */
    void *on_wake_arg;
    void (*on_event)(void *arg,
                     const char *line); /* any of these threads: one line worth logging */
    void *on_event_arg;
};

struct store;

/* Opens or makes the store; starts its threads. Gives *out (store_close). Forks a child that
 * checks the index, so call it before the process has threads or much memory. Errors: BUSY
 * (another process has it; err names its pid), IO (not a folder, not writable), NOMEM. A damaged
 * index is no error: see (6). */
int store_open(struct store **out, const struct store_config *config, struct err *e);

/* What store_check found. */
struct store_findings {
    uint64_t format;   /* of the index */
    bool is_known;     /* this version can read it; else store_open sets the index aside */
    const char *fault; /* of the index's pages, in words; "": none. Static memory */
    uint64_t n_entries, n_bytes;
    uint64_t n_unreadable; /* damaged, or of another version of rows: they are misses */
};
/* Reads a whole store and changes nothing in it. Errors: IO (no store there), NOT_FOUND (no index yet),
 * BUSY (a process uses it; err names its pid), NOMEM. Any thread, without an open store. */
int store_check(const char *dir, struct store_findings *out, struct err *e);

/* Marks the store that this process opened last as suspect: the next open then checks every entry
 * of its index, not only a few. For a handler of SIGSEGV, SIGBUS and SIGABRT, in which the memory
 * map of a damaged index can end. Async-signal-safe; any thread. */
void store_mark_suspect(void);

/* Changes the caps (struct store_config). Entries above the new cap go in the background, those
 * above a user's quota at the user's next put. The address space of the index stays as it was at
 * open. */
void store_set_caps(struct store *s, uint64_t max_bytes, uint64_t quota_bytes);

#define STORE_SIGNERS_MAX 16u
/* Says by whose numbers (struct store_row) an entry counts that came from the tier. Any other of these is not found,
 * and a put replaces it; store_scan has it, so that it can be removed. Before this call none counts. Copies
 * `signers`. */
void store_trust(struct store *s, const uint32_t *signers, size_t n);

/* Makes eviction take entries of older key versions first. These were last used before this time
 * (Unix, ms; 0: none), and their keys are digests of content, not names of other programs. Counts
 * them in the background, and with `tell` reports their number in one event. */
void store_expect_old(struct store *s, uint64_t before_ms, bool tell);

/* Commits all that is queued and the batched access times, runs no more callbacks, and frees. */
void store_close(struct store *s);

/* A value. Small: `data` points into the index. Large: `fd` is a read-only descriptor of a file
 * whose first row.len bytes are the value. Both are borrowed until store_turn_end. */
struct store_value {
    struct store_row row;
    const void *data; /* NULL if row.is_blob */
    int fd;           /* -1 unless row.is_blob */
};

/*
 * Finds an entry, verifies it (1) and counts a hit. An expired entry is not found, nor one that does not count
 * (store_trust). out->row.hits, heat
 * and accessed_ms lack unwritten hits; store_peek has them.
 * Errors, after which *out is undefined: NOT_FOUND; CORRUPT (it failed verification and goes to
 * quarantine: treat it as a miss); IO; BUSY (only with config.async_check_bytes: see store_prepare).
 */
int store_get(struct store *s, const struct store_id *id, struct store_value *out, struct err *e);
/* Does the same as store_get, but counts no hit: the entry is as old and as little used as before. */
int store_look(struct store *s, const struct store_id *id, struct store_value *out, struct err *e);

/* Hashes a large blob on another thread, after a store_get that returned BUSY. `cb` runs from
 * store_poll with 0, NOT_FOUND, CORRUPT, IO or NOMEM; call store_get again in any case. Errors:
 * NOT_FOUND, NOMEM; BUSY if too many are under way. */
int store_prepare(struct store *s, const struct store_id *id, void (*cb)(void *arg, int status),
                  void *arg, struct err *e);

#define STORE_GROUP_MAX 1024u /* members of a group that are looked at together */
/* Lists the other members of the entry's group: those that are of no use without it. Returns how many it
 * wrote. */
size_t store_group(struct store *s, const struct store_id *id,
                   struct store_id out[STORE_GROUP_MAX]);

/* Reads the row alone: counts no hit, does not read the value. Errors: NOT_FOUND, CORRUPT, IO. */
int store_peek(struct store *s, const struct store_id *id, struct store_row *out, struct err *e);

/* Lists the first `cap` owners that have entries; returns their number. */
size_t store_owners(struct store *s, uint32_t *out, size_t cap);

/* Returns the CPU time that the writer has spent in its present round, in ms: a damaged index may hold it for ever.
 * Any thread. */
uint64_t store_writer_ms(struct store *s);
/* What a store's folder has by name, each a path below it, also what its user keeps there; ends with NULL. For a
 * caller who checks its owners. */
extern const char *const store_parts[];
/* True if a process holds the lock of the store at `dir`. *out is then the name of its machine or container, or
 * "" if that is not known. Any thread, without an open store. */
bool store_lock_host(const char *dir, char out[HOST_NAME_MAX + 1]);

/* A user's share: the entries that it put, and those that were made here for it. */
struct store_share {
    uint64_t n_entries, disk_bytes, pinned_bytes;
};
/* Reads a user's share. False if it is empty. */
bool store_share(struct store *s, uint32_t user, struct store_share *out);
/* Lists the first `cap` users that have a share; returns their number. */
size_t store_users(struct store *s, uint32_t *out, size_t cap);
/* Returns the bytes that one user may pin: half of a quota, or of the store. */
uint64_t store_pins_max(struct store *s);

/* Ends this turn of the loop: all results of store_get, store_peek and store_scan become invalid.
 * Call it after each batch of requests; it is cheap. */
void store_turn_end(struct store *s);

/* One entry to write. `row` needs id, kind, maker, cost_ms, len, and the known parts of the
 * address. The store fills check, content, created and accessed. All views are copied. */
struct store_put {
    struct store_row row;
    const void *data;        /* the value, copied before store_put returns; or NULL, and instead */
    int fd;                  /* a file or memfd with row.len bytes from offset 0: taken */
    bool keep_existing;      /* succeed without a change if the id has an entry (SET NX) */
    const struct key *check; /* the XXH3-128 that a value in a file must have, else the put fails
                                with CORRUPT; NULL: unknown */
    struct key *out_check;   /* set before on_done runs with 0, if it is not NULL */
    /* Loop thread, from store_poll: 0 once the entry is durable (3), or NOMEM, FULL, TOO_BIG, IO,
     * TRUNCATED (the descriptor had fewer bytes), CORRUPT (it had other bytes). `existed`: see keep_existing. */
    void (*on_done)(void *arg, int status, bool existed, const struct err *e);
    void *arg;
};

/* Queues a put. It replaces an entry of the same id; a pinned one stays pinned. Requests for one
 * id run in the order of the calls. On error nothing was taken and on_done does not run. Errors:
 * TOO_BIG, INVALID, NOMEM (also if queued values take too much memory). */
int store_put(struct store *s, const struct store_put *put, struct err *e);

/* Runs the waiting completions. Begins with store_turn_end, so that a callback finds an entry that
 * was just put. */
void store_poll(struct store *s);

/* Selects entries. store_filter_all has the values that restrict nothing. They are -1 in the first four fields,
 * "" in the texts, UINT32_MAX in max_hits and 0 in all others. */
struct store_filter {
    int64_t owner;        /* -1: any */
    int64_t maker;        /* -1: any; with owner: an entry matches if either does */
    int kind;             /* -1: any */
    int pinned;           /* -1: any, 0, 1 */
    struct view hardware; /* the whole text, or all before a space: "sm_90" */
    struct view
        compiler;     /* part of compiler_text, or hex digits that the compiler key begins with */
    struct view text; /* part of name or label */
    uint64_t min_bytes, max_bytes;
    uint64_t min_age_ms, min_idle_ms; /* since made; since last used */
    uint32_t min_hits, max_hits;      /* max_hits UINT32_MAX: any */
};
/* Returns the filter that matches all. */
struct store_filter store_filter_all(void);
/* True if a row matches. */
bool store_filter_match(const struct store_filter *f, const struct store_row *row, uint64_t now_ms);

/* A position of store_scan; all zero: the beginning. */
struct store_cursor {
    uint8_t bytes[24];
};
typedef void (*store_row_cb)(void *arg, const struct store_row *row);
/* Calls `cb` for rows in key order, at most `max_rows` a call, so that a loop can share its time. Returns 1
 * while there is more, 0 at the end, or an error. */
int store_scan(struct store *s, struct store_cursor *cursor, size_t max_rows, store_row_cb cb,
               void *arg, struct err *e);

/* Work for the writer thread on many entries; reports through store_poll. */
struct store_report {
    uint64_t n_entries, n_bytes; /* removed or changed, or in a dry run: that would be */
    uint64_t n_corrupt;          /* verify: damaged and quarantined */
};
typedef void (*store_report_cb)(void *arg, int status, const struct store_report *r,
                                const struct err *e);

/* Removes the given entries (pinned ones too). `ids` is copied. */
int store_remove(struct store *s, const struct store_id *ids, size_t n, store_report_cb cb,
                 void *arg, struct err *e);
/* Evicts unpinned entries that match, and no others, least valuable first, until at most `to_bytes`
 * are left of the whole store (0: all that match). */
int store_evict(struct store *s, const struct store_filter *filter, uint64_t to_bytes, bool dry_run,
                store_report_cb cb, void *arg, struct err *e);
/* Pins or unpins the given entries; FULL if some are above the user's share of pins. */
int store_pin(struct store *s, const struct store_id *ids, size_t n, bool pinned,
              store_report_cb cb, void *arg, struct err *e);
/* Takes marks of enum store_tier off the given entries, and adds others. */
int store_mark(struct store *s, const struct store_id *ids, size_t n, uint32_t off, uint32_t on,
               store_report_cb cb, void *arg, struct err *e);
/* Reads entries from disk and checks them: all (`sample` 0), or a random sample. Runs on a thread
 * of its own; `on_progress` (may be NULL) runs from store_poll. Errors: BUSY (another one runs), NOMEM. */
int store_verify(struct store *s, uint64_t sample,
                 void (*on_progress)(void *arg, uint64_t done, uint64_t total), store_report_cb cb,
                 void *arg, struct err *e);

/* Checks a value from disk again, and quarantines it if it is damaged: a client read bytes that
 * did not match their checksum. */
void store_suspect(struct store *s, const struct store_id *id);
/* Quarantines an entry whose user refused the value, though its bytes are sound. Does nothing if
 * the value's checksum is not `check`, or no longer. */
void store_refuse(struct store *s, const struct store_id *id, const struct key *check);

/* The reason why an entry left. */
enum store_cause {
    STORE_LEFT_FOR_ROOM = 1, /* the store was full */
    STORE_LEFT_FOR_QUOTA,    /* its owner's share was */
    STORE_LEFT_EVICTED,      /* store_evict */
    STORE_LEFT_REMOVED,      /* store_remove */
    STORE_LEFT_EXPIRED,
    STORE_LEFT_DAMAGED, /* quarantined */
    STORE_LEFT_REFUSED, /* quarantined by store_refuse */
    STORE_LEFT_CAUSES,
};
struct store_departure {
    struct store_id id;
    uint32_t cause; /* enum store_cause */
    uint64_t at_ms; /* Unix time */
};
#define STORE_DEPARTURES_MAX 1024u
/* Takes up to `cap` of the entries that left since the last call, the oldest first; returns their
 * number. The store remembers the last STORE_DEPARTURES_MAX, and of one large change only a part.
 */
size_t store_departures(struct store *s, struct store_departure *out, size_t cap);

struct store_stats {
    uint64_t n_entries, n_bytes; /* of values */
    uint64_t max_bytes;          /* the cap: struct store_config */
    uint64_t disk_bytes;         /* index and blob files, as the file system counts */
    uint64_t n_puts, n_evictions, n_corrupt, n_commits;
    uint64_t n_old; /* store_expect_old: the last count, less those evicted since */
    uint64_t kind_entries[16], kind_bytes[16];
    uint64_t left_entries[STORE_LEFT_CAUSES], left_bytes[STORE_LEFT_CAUSES]; /* of n_evictions */
    bool read_only; /* the disk is full or failed: serving, not storing */
    bool rebuilt;   /* the index was rebuilt when this process opened it */
};
/* Reads the statistics. */
void store_stats(struct store *s, struct store_stats *out);

/* Reads a small named value of the store's owner (lifetime counters, identities of toolchains): at most
 * 4 KiB, not counted, never evicted. Errors: NOT_FOUND; INVALID (the name is too long); CORRUPT; IO; TOO_BIG
 * (larger than `cap`). */
int store_meta_get(struct store *s, const char *name, void *out, size_t cap, size_t *out_len);
/* Queues the write of such a value. Errors: INVALID, TOO_BIG, NOMEM. */
int store_meta_put(struct store *s, const char *name, const void *data, size_t len);

#endif
