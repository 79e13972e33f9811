/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_internal.h - the inside of a store, for the files of this folder alone.
 *
 *     loop thread            copier thread               writer thread
 *     store.c, open.c        blob_copier.c                    writer.c, evict.c, evict_plan.c, idle.c, old.c
 *
 *     put, small ──────────────────────────────────────▶ ┐
 *     put, large ──────────▶ copy to tmp/, hash ───────▶ ├ queue ─▶ change ─▶ commit ─┐
 *     check ───────────────▶ hash ─▶ damaged ──────────▶ ┘            │               │
 *     poll ◀── done ◀─────────────────────────────────────────────────┼───────────────┘
 *                            unlink ◀── files of evicted blobs ◀──────┘
 *
 * What happens to one id happens in the order in which the loop asked for it: while a task for an
 * id is with the copier, later tasks for it go the same way. Apart from that the copier serves users
 * in turn, a slice of a large value at a time (lanes.c).
 *
 * Locks: `lock` guards what is listed under it and is held for pointer work only; `env_lock` is
 * held shared by who reads the index (the loop: from the first read of a turn to its end) and
 * exclusively by the writer while it replaces a damaged environment. Whoever wants both takes
 * env_lock first.
 */
#ifndef WARM_STORE_STORE_INTERNAL_H
#define WARM_STORE_STORE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "store/blob.h"
#include "store/clock.h"
#include "store/handles.h"
#include "store/index.h"
#include "store/store.h"
#include "store/task.h"
#include "store/touch.h"

/* A file in tmp/ that only waits to be unlinked. */
struct burial {
    struct burial *next;
    char name[DOOMED_NAME];
};

/* Tasks for the copier: a list for each user. */
struct lane {
    uint32_t user;
    struct task_list tasks;
};
struct lanes {
    struct lane *lane;
    size_t n, cap;
    uint32_t turn; /* whose task was taken last */
    uint64_t serial;
};

#define DROPPED_MAX 64u

struct evictor {
    uint64_t rng;
    bool active;        /* between the cap and the low-water mark */
    uint64_t put_bytes; /* since the newest of `young` */
    uint64_t young[16]; /* times at which another sixteenth of the young share had been put */
    unsigned young_at;
};

struct old_count {
    struct index_place place;
    uint64_t n;
};

struct idle {
    bool walking;
    bool deep;   /* the walk looks for blobs whose rows are gone too */
    bool unread; /* a file or a folder could not be read: the walk is to be made again */
    struct blob_walk walk;
    uint64_t last_commit; /* index_last_commit as it was */
    uint64_t next_walk_ms, next_expiry_ms, next_check_ms, next_sync_ms,
        next_wake_ms;  /* monotonic */
    uint64_t retry_ms; /* until the next walk, after one that could not read all */
    uint64_t n_adopted;
    uint64_t next_old_ms;
    struct old_count old;
    unsigned n_begun; /* how often the sweep began: a walk is over when the index was replaced */
};

struct store {
    struct store_config config; /* its caps are those at open: */
    _Atomic uint64_t max_bytes, quota_bytes;
    _Atomic uint64_t old_before_ms;
    char *dir;
    int lock_fd;
    struct files files;
    pthread_rwlock_t env_lock;
    struct index index; /* env_lock */
    MDB_txn *reader;    /* the loop's */
    /* `reader` is not reset between turns, as long as nothing is committed. Set by the loop, before
     * it looks for a commit; who commits looks at it after that, and wakes the loop: so old pages
     * are held no longer than a wake-up takes. */
    atomic_bool keeps_snapshot;

    /* loop thread */
    bool reading; /* in a turn that holds env_lock shared and a live `reader` */
    struct handles handles;
    struct touches *active, *flushing;
    bool flush_busy;
    uint64_t flushed_ms; /* monotonic */
    void *piece;         /* BLOB_PIECE, to hash in */
    size_t n_checks;     /* TASK_CHECK under way */

    /* any thread */
    atomic_bool stopping;
    atomic_bool damaged; /* the index must be replaced: set by who notices */

    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t writer_wake, copier_wake;
    bool copier_stop, writer_stop;
    bool tell_old;     /* store_expect_old */
    bool caps_changed; /* the writer is to look whether it has to evict */
    struct lanes copying;
    struct task_list queue;
    struct task_list done;
    struct burial *burials;
    struct blob_id dropped[DROPPED_MAX]; /* blobs gone: their descriptors are to be closed */
    size_t n_dropped;                    /* above DROPPED_MAX: all of them */
    size_t queued_bytes;                 /* heap that waiting values take */
    struct store_stats stats;
    struct store_departure left[STORE_DEPARTURES_MAX]; /* n_left % MAX is the next */
    uint64_t n_left, n_left_taken;

    /* writer thread */
    struct evictor evictor;
    struct idle idle;
    struct task_list evictions; /* TASK_EVICT, one at a time */
    struct evict_plan *plan;

    pthread_t writer, copier, verifier;
    bool writer_started, copier_started, verifier_started;
    atomic_bool verifying;
};

/* One line for the log; any thread. */
void store_event(struct store *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Hands a finished task to store_poll; any thread. */
void store_finish(struct store *s, struct task *t);
/* Queues a task for the writer, or for the copier if order or its kind asks for that. Takes it. */
void store_queue(struct store *s, struct task *t);
void store_queue_writer(struct store *s, struct task *t);

/* ---- lanes.c; with `lock` held ---- */
/* False without memory for a lane of its own where there is no other. */
bool lanes_add(struct lanes *l, struct task *t);
/* The task whose turn it is; it stays where it is. NULL if there is none. */
struct task *lanes_next(struct lanes *l);
/* Takes out what lanes_next gave. */
void lanes_take(struct lanes *l, struct task *t);
/* True if a task must not overtake one of these. */
bool lanes_hold_up(const struct lanes *l, const struct task *t);
void lanes_free(struct store *s, struct lanes *l);

/* ---- blob_copier.c ---- */
void *copier_main(void *store);
/* Unlinks tmp/NAME soon, on the copier thread. */
void copier_bury(struct store *s, const char *name);

/* ---- writer.c ---- */
void *writer_main(void *store);
/* Makes a change of the index through `apply`, commits it and settles its blobs. Evicts and tries
 * again where the map is full; replaces a damaged environment. Returns a code of index.h. */
typedef int (*writer_apply)(struct store *s, struct change *c, void *arg);
int writer_change(struct store *s, writer_apply apply, void *arg);
/* Cleans up after a put, whatever came of it, and hands it back. */
void writer_finish_put(struct store *s, struct task *t);
/* Removes an entry that failed verification, or a row that does not decode. */
int writer_quarantine(struct store *s, struct change *c, const struct store_id *id,
                      const char *why);

/* ---- evict.c ---- */
#define EVICT_ANY UINT64_MAX
/* Tells of `bytes` that were put, so that what is new can be told from what is old. */
void evict_note_put(struct store *s, uint64_t bytes);
/* Evicts at most `max` entries until at most `goal` bytes are left on disk, of one user's share or of
 * EVICT_ANY. NOT_FOUND if nothing may go. */
int evict_some(struct store *s, struct change *c, uint64_t user, size_t max, uint64_t goal);
/* What one user may pin: half of its quota, or of the store. */
uint64_t evict_pins_max(const struct store *s);
uint64_t evict_low_water(const struct store *s);
/* One step of eviction to the low-water mark. True while there is more. */
bool evict_step(struct store *s);
/* Makes room for an entry in a user's share: so many bytes of index and of a blob's file in the store,
 * `user_bytes` in the share. FULL if there is none to be had. */
int evict_make_room(struct store *s, uint32_t user, uint64_t index_bytes, uint64_t blob_bytes,
                    uint64_t user_bytes, struct err *e);
/* Removes a sample of expired entries; how many. */
size_t evict_expired(struct store *s);
/* What a byte of an entry is worth; negative if it has expired or is old. Its group does not count. */
double evict_worth(const struct store *s, const struct store_row *row, uint64_t now_ms);
/* Removes an entry, counted as evicted; fine if it is not there. */
int evict_entry(struct store *s, struct change *c, const struct store_id *id);

/* ---- evict_plan.c ---- */
/* One step of store_evict. True while there is more. */
bool evict_plan_step(struct store *s);
void evict_plan_close(struct store *s);

/* ---- old.c ---- */
/* True if nobody has used the entry since keys changed: see store_expect_old. */
bool old_row(const struct store *s, const struct store_row *row);
/* So many of them were evicted; with `lock` held. */
void old_gone(struct store *s, uint64_t n);
/* Counts some more of them. Returns when to call again, monotonic. */
uint64_t old_step(struct store *s, uint64_t now_ms);

/* ---- idle.c ---- */
void idle_begin(struct store *s);
/* A row was lost that may have referred to a blob: walk over the blobs once more. */
void idle_walk_deeply(struct store *s);
/* A bounded piece of idle work. Returns in how many ms it wants to be called again. */
uint64_t idle_step(struct store *s);
/* After a commit: its meta page is durable within a second. */
void idle_sync_soon(struct store *s);
void idle_end(struct store *s);

/* ---- verify.c ---- */
/* Takes a TASK_VERIFY (to_bytes: size of the sample) and ends with finishing it. */
void *verify_main(void *task);

/* ---- index_guard.c ---- */
/* Opens and checks DIR/index in a child process: a few pages, or all of them if `thorough`. False
 * if it is damaged; *why (static memory) says how. */
bool index_guard_check(const char *dir, int lock_fd, bool thorough, const char **why);

#endif
