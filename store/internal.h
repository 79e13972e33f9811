/* SPDX-License-Identifier: Apache-2.0 */
/*
 * internal.h - the inside of a store, for the files of this folder alone.
 *
 *     loop thread            copier thread               writer thread
 *     store.c, open.c        blob_copier.c               writer.c, transaction.c, quarantine.c,
 *                                                        evict*.c, idle*.c, old.c
 *
 *     put, small ──────────────────────────────────────▶ ┐
 *     put, large ──────────▶ copy to tmp/, hash ───────▶ ├ queue ─▶ change ─▶ commit ─┐
 *     check ───────────────▶ hash ─▶ damaged ──────────▶ ┘            │               │
 *     poll ◀── done ◀─────────────────────────────────────────────────┼───────────────┘
 *                            unlink ◀── files of evicted blobs ◀──────┘
 *
 * Order: tasks for one id run in the order in which the loop asked for them. While a task for an id is
 * with the copier, later tasks for it take the same way. Apart from that the copier serves users in
 * turn, a slice of a large value at a time (lanes.c).
 *
 * Locks: `lock` guards the fields listed under it, and is held for pointer work only. Readers of the
 * index hold `env_lock` shared: the loop from the first read of a turn to the turn's end. The writer
 * holds it exclusively while it replaces a damaged environment. A thread that needs both takes env_lock
 * first.
 *
 * Thread: each part of struct store names its own. Memory: store_open makes it, store_close frees it.
 */
#ifndef WARM_STORE_INTERNAL_H
#define WARM_STORE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "store/blob.h"
#include "store/change.h"
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
    uint32_t turn; /* the user whose task was taken last */
    uint64_t serial;
};

#define DROPPED_MAX 64u

struct evictor {
    uint64_t rng;
    bool active;        /* evicting, down to the low-water mark */
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
    bool unread; /* a file or a folder could not be read: the walk must be repeated */
    struct blob_walk walk;
    uint64_t last_commit; /* index_last_commit as it was */
    uint64_t next_walk_ms, next_expiry_ms, next_check_ms, next_sync_ms,
        next_wake_ms;  /* monotonic */
    uint64_t retry_ms; /* until the next walk, after one that could not read all */
    uint64_t n_adopted;
    uint64_t next_old_ms;
    struct old_count old;
    unsigned n_begun; /* how often idle_begin ran: it ends a walk over an older index */
};

struct store {
    struct store_config config; /* its caps are those at open: */
    _Atomic uint64_t max_bytes, quota_bytes;
    _Atomic uint64_t old_before_ms;
    _Atomic uint32_t signers[STORE_SIGNERS_MAX]; /* store_trust; 0: none */
    char *dir;
    int lock_fd;
    struct files files;
    pthread_rwlock_t env_lock;
    struct index index; /* env_lock */
    MDB_txn *reader;    /* the loop's */
    /* `reader` is kept between turns until the next commit. The loop sets this before it looks for a
     * commit; the writer reads it after a commit, and wakes the loop. So old pages are held no longer
     * than a wake-up takes. */
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
    atomic_bool damaged; /* the index must be replaced: set by any thread that sees damage */

    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t writer_wake, copier_wake;
    bool copier_stop, writer_stop;
    bool tell_old;     /* store_expect_old */
    bool caps_changed; /* the writer must check whether it has to evict */
    struct lanes copying;
    struct task_list queue;
    struct task_list done;
    struct burial *burials;
    struct blob_id dropped[DROPPED_MAX]; /* blobs gone: their descriptors must be closed */
    size_t n_dropped;                    /* above DROPPED_MAX: all of them */
    size_t queued_bytes;                 /* heap of waiting values */
    struct store_stats stats;
    struct store_departure left[STORE_DEPARTURES_MAX]; /* n_left % MAX is the next */
    uint64_t n_left, n_left_taken;

    /* writer thread */
    struct evictor evictor;
    struct idle idle;
    struct task_list evictions; /* TASK_EVICT, one at a time */
    struct evict_plan *plan;

    atomic_ullong round_began_ms; /* CPU time of the writer when its round began */
    pthread_t writer, copier, verifier;
    bool writer_started, copier_started, verifier_started;
    atomic_bool verifying;
};

/* True unless the entry came from the tier under a key that is not trusted. */
static inline bool store_counts(const struct store *s, const struct store_row *row)
{
    bool counts = !(row->tier & STORE_TIER_CAME);
    for (size_t i = 0; !counts && row->signer && i < STORE_SIGNERS_MAX; i++)
        counts = atomic_load_explicit(&s->signers[i], memory_order_relaxed) == row->signer;
    return counts;
}

/* ---- queue.c; any thread ---- */

/* Writes one line for the log. */
void store_event(struct store *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Gives a finished task to store_poll. */
void store_finish(struct store *s, struct task *t);
/* Takes a task and queues it: for the copier if its kind or the order of its id needs that, else
 * for the writer. Without memory the task is finished with NOMEM. */
void store_queue(struct store *s, struct task *t);
/* Takes a task and queues it for the writer. */
void store_queue_writer(struct store *s, struct task *t);
/* Tells the loop that a blob is gone: its descriptor must be closed. */
void store_note_dropped(struct store *s, const struct blob_id *id);

/* ---- lanes.c; any thread that holds `lock` ---- */

/* Adds a task to its user's lane. False without memory, if there is no other lane either. */
bool lanes_add(struct lanes *l, struct task *t);
/* Returns the task whose turn it is, and leaves it in its lane. NULL if there is none. */
struct task *lanes_next(struct lanes *l);
/* Removes the task that lanes_next returned. */
void lanes_take(struct lanes *l, struct task *t);
/* True if the task must not overtake one of these. */
bool lanes_hold_up(const struct lanes *l, const struct task *t);
/* Frees all tasks and lanes. */
void lanes_free(struct store *s, struct lanes *l);

/* ---- blob_copier.c ---- */

/* Runs the copier thread until copier_stop. */
void *copier_main(void *store);
/* Unlinks tmp/NAME soon, on the copier thread. Any thread. */
void copier_bury(struct store *s, const char *name);

/* ---- writer.c; writer thread ---- */

/* Runs the writer thread until writer_stop, and until its queue is empty. */
void *writer_main(void *store);

/* ---- transaction.c; writer thread ---- */

typedef int (*transact_apply)(struct store *s, struct change *c, void *arg);
/* Makes a change through `apply`, commits it and dooms its blobs. Evicts and tries again if the
 * map is full; replaces a damaged environment. `apply` can run several times. Returns a code of
 * index.h. */
int transact(struct store *s, transact_apply apply, void *arg);
/* Does the same with one try. */
int transact_once(struct store *s, transact_apply apply, void *arg);
/* Replaces the environment. `why` is LMDB's code for the damage, or 0 to try again after a
 * failure. */
int transact_recover(struct store *s, int why);
/* ---- quarantine.c; writer thread, inside a change ---- */

/* Removes an entry and keeps its bytes in quarantine/. Fine if it is not there. */
int quarantine_entry(struct store *s, struct change *c, const struct store_id *id,
                     enum store_cause cause, const char *why);
/* Quarantines the entry of a TASK_CHECK or TASK_DAMAGED, if it is still damaged. */
int quarantine_damaged(struct store *s, struct change *c, struct task *t);
/* Quarantines the entry of a TASK_REFUSED, if it still has the refused value. */
int quarantine_refused(struct store *s, struct change *c, const struct task *t);

/* ---- evict.c; writer thread ---- */

#define EVICT_ANY UINT64_MAX
/* Notes that `bytes` were put. An entry is young until so many more bytes were put. */
void evict_note_put(struct store *s, uint64_t bytes);
/* Evicts at most `max` entries until at most `goal` bytes are left on disk, of one user's share or
 * of EVICT_ANY. NOT_FOUND if nothing may go. */
int evict_some(struct store *s, struct change *c, uint64_t user, size_t max, uint64_t goal);
/* Removes the expired and the unreadable entries of a sample. *(size_t *)out_n is their number. It is a
 * transact_apply. */
int evict_some_expired(struct store *s, struct change *c, void *out_n);
/* Returns the worth of a byte of the entry, its group not considered; negative: expired or old. */
double evict_worth(const struct store *s, const struct store_row *row, uint64_t now_ms);
/* Removes an entry and counts it as evicted. Fine if it is not there. */
int evict_entry(struct store *s, struct change *c, const struct store_id *id);

/* ---- evict_room.c; writer thread ---- */

/* Returns the bytes that one user may pin: half of its quota, or of the store. Any thread. */
uint64_t evict_pins_max(const struct store *s);
/* Returns the bytes on disk at which eviction ends. */
uint64_t evict_low_water(const struct store *s);
/* Runs one step of eviction to the low-water mark. True while there is more. */
bool evict_step(struct store *s);
/* Makes room for an entry: `index_bytes` and `blob_bytes` in the store, `user_bytes` in the user's
 * share. FULL if there is none. */
int evict_make_room(struct store *s, uint32_t user, uint64_t index_bytes, uint64_t blob_bytes,
                    uint64_t user_bytes, struct err *e);
/* Runs evict_some_expired as one change. Returns the number. */
size_t evict_expired(struct store *s);

/* ---- evict_plan.c; writer thread ---- */

/* Runs one step of store_evict. True while there is more. */
bool evict_plan_step(struct store *s);
/* Frees the plan and the waiting evictions; the writer thread has ended. */
void evict_plan_close(struct store *s);

/* ---- old.c; writer thread ---- */

/* True if the entry was last used before keys changed: see store_expect_old. */
bool old_row(const struct store *s, const struct store_row *row);
/* Subtracts `n` evicted entries from the count of old ones. Needs `lock`. */
void old_gone(struct store *s, uint64_t n);
/* Counts some more old entries. Returns the monotonic time at which to call again. */
uint64_t old_step(struct store *s, uint64_t now_ms);

/* ---- idle_plan.c; writer thread ---- */

#define IDLE_EXPIRY_MS 1000u  /* from one sample of expired rows to the next */
#define IDLE_MINUTE_MS 60000u /* from one look at LMDB's readers to the next, and the like */
#define IDLE_WALK_PACE_MS 20u /* between steps of a walk that only looks for orphans */
#define IDLE_NEVER UINT64_MAX

/* Starts all idle work anew: the index was opened. */
void idle_begin(struct store *s);
/* Ends the walk, if there is one. */
void idle_end(struct store *s);
/* Ends the walk, and plans the next one: this one could not read all. */
void idle_walk_again(struct store *s, uint64_t now_ms);
/* Plans another walk over the blobs: a row was lost that may have referred to one. */
void idle_walk_deeply(struct store *s);
/* Plans a sync of the meta page within a second of this commit. */
void idle_sync_soon(struct store *s);
/* Returns the milliseconds until some idle work is due. */
uint64_t idle_wait_ms(const struct store *s);

/* ---- idle.c; writer thread ---- */

/* Does a bounded piece of idle work. Returns the milliseconds until the next call. */
uint64_t idle_step(struct store *s);

/* ---- verify.c; a thread of its own ---- */

/* Takes a TASK_VERIFY (verify.sample: its entries), checks entries and finishes the task. */
void *verify_main(void *task);

/* ---- index_guard.c; the thread that opens the store ---- */

/* Checks DIR/index in a child process: a few entries, or all of them if `thorough`. With `renews` an index of
 * which all were checked is written anew. False if it is damaged, with the reason in *why (static memory). */
bool index_guard_check(const char *dir, int lock_fd, bool thorough, bool renews, const char **why);

/* ---- suspect.c; the thread that opens the store; store.h has store_mark_suspect ---- */

/* True if the folder has the mark. */
bool suspect_is_marked(int dir);
/* Removes the mark. store_mark_suspect sets it in this folder from now on. */
void suspect_begin(int dir);
/* Ends that: the folder is closed. */
void suspect_end(int dir);

#endif
