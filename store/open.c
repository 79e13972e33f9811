/* SPDX-License-Identifier: Apache-2.0 */
/*
 * open.c - opens and closes a store: decides if the index on disk can be used. The daemon's main calls it.
 *
 *   1. folders, lock             one process, once: two environments on one file would destroy it
 *   2. guard                     a child checks the index; a damaged one is set aside
 *   3. index                     opened, or made; idle.c fills a new one from the files in blobs/
 *   4. copier, writer            start
 *   5. … use …
 *   6. verifier, copier, writer  end, in this order, copier and writer after their queues are empty; access
 *                                times are written, the index is synced
 *   7. everything is freed       also if one of the steps 1 to 4 fails
 *
 * Thread: the loop's.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "store/fault.h"
#include "store/internal.h"

#define LOCK_RETRIES 10u       /* if a living process has it */
#define LOCK_RETRIES_DEAD 500u /* if that process is dead, and its guard (index_guard.c) not yet */
#define LOCK_RETRY_MS 20
#define INDEX_BYTES_MIN (4ull << 30)

const char *const store_parts[] = {"lock",           "index",   "index/data.mdb",
                                   "index/lock.mdb", "blobs",   "tmp",
                                   "quarantine",     "history", NULL};

/* Returns the process that the lock names, and its machine or ""; 0: none. */
static pid_t lock_holder(int fd, char host[HOST_NAME_MAX + 1])
{
    char text[32 + HOST_NAME_MAX] = "";
    long pid = 0;
    *host = '\0';
    if (pread(fd, text, sizeof text - 1, 0) > 0)
        sscanf(text, "%ld %64s", &pid, host); /* HOST_NAME_MAX */
    return (pid_t)pid;
}

/* True if the lock names a process of this machine that has ended. Nothing is known of another machine's. */
static bool holder_is_dead(int fd)
{
    char host[HOST_NAME_MAX + 1], own[HOST_NAME_MAX + 1] = "";
    pid_t holder = lock_holder(fd, host);
    gethostname(own, HOST_NAME_MAX);
    bool is_near = !*host || strcmp(host, own) == 0;
    return holder > 0 && is_near && kill(holder, 0) != 0 && errno == ESRCH;
}

/* Waits a while for the lock. A killed process holds it until it is gone, and a child that it has
 * just forked holds it until the child closes it. Returns 0 or an errno. */
static int try_lock(int fd)
{
    const struct timespec wait = {0, LOCK_RETRY_MS * 1000000l};
    for (unsigned i = 0; flock(fd, LOCK_EX | LOCK_NB) != 0; i++) {
        int errnum = errno;
        if (errnum != EWOULDBLOCK || i >= (holder_is_dead(fd) ? LOCK_RETRIES_DEAD : LOCK_RETRIES))
            return errnum;
        nanosleep(&wait, NULL);
    }
    return 0;
}

bool store_lock_host(const char *dir, char out[HOST_NAME_MAX + 1])
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/lock", dir);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return false;
    bool is_held = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    *out = '\0';
    if (is_held)
        lock_holder(fd, out);
    close(fd); /* frees a lock that it got */
    return is_held;
}

static int take_lock(struct store *s, struct err *e)
{
    char pid[32 + HOST_NAME_MAX] = "", host[HOST_NAME_MAX + 1] = "";
    s->lock_fd = fault_openat(s->files.dir, "lock", O_RDWR | O_CREAT, 0600);
    if (s->lock_fd < 0)
        return err_sys(e, WARM_EIO, errno, "store: cannot open %s/lock", s->dir);
    int errnum = try_lock(s->lock_fd);
    if (errnum != 0) {
        if (errnum != EWOULDBLOCK)
            return err_sys(e, WARM_EIO, errnum, "store: cannot lock %s", s->dir);
        pid_t holder = lock_holder(s->lock_fd, host);
        return err_set(e, WARM_EBUSY, "store: %s is in use by process %ld%s%s", s->dir,
                       (long)holder, *host ? " on " : "", host);
    }
    gethostname(host, HOST_NAME_MAX);
    int len = snprintf(pid, sizeof pid, "%ld %s\n", (long)getpid(), host);
    if (ftruncate(s->lock_fd, 0) != 0 || fault_write(s->lock_fd, pid, (size_t)len) != len)
        store_event(s, "store: cannot write to %s/lock", s->dir); /* the lock itself holds */
    return 0;
}

static void set_aside(struct store *s, const char *why)
{
    struct err e;
    s->stats.rebuilt = true;
    store_event(s, "store: the index is damaged (%s): set aside, rebuilding from the files", why);
    if (index_set_aside(s->dir, &e) != 0)
        store_event(s, "%s", e.text);
}

static int open_index(struct store *s, struct err *e)
{
    const char *why = "";
    bool suspect = suspect_is_marked(s->files.dir);
    if (!index_guard_check(s->dir, s->lock_fd, suspect, true, &why))
        set_aside(s, why);
    suspect_begin(s->files.dir);
    int rc = index_open(&s->index, s->dir, s->config.index_bytes, store_mark_suspect, e);
    if (rc == WARM_ECORRUPT) {
        set_aside(s, e ? e->text : "");
        rc = index_open(&s->index, s->dir, s->config.index_bytes, store_mark_suspect, e);
    }
    return rc;
}

static bool has_blobs(struct store *s)
{
    struct blob_walk walk;
    struct blob_id id;
    if (blob_walk_begin(&s->files, &walk, NULL) != 0)
        return true; /* cannot tell */
    bool has = blob_walk_next(&walk, &id) || walk.incomplete;
    blob_walk_end(&walk);
    return has;
}

/* Clears `adopting` of a new index if there are no files. From then on a file without a row belongs to
 * a put that was cut off. If this fails, the walk does it later. */
static void adopt_nothing(struct store *s)
{
    struct change c;
    if (!s->index.adopting || has_blobs(s))
        return;
    int rc = change_begin(&c, &s->index);
    rc = rc ? rc : change_adopted(&c);
    rc = rc ? rc : change_commit(&c);
    change_close(&c);
    s->index.adopting = rc != 0;
}

static int make_locks(struct store *s)
{
    pthread_condattr_t attr;
    int rc = pthread_condattr_init(&attr);
    rc = rc ? rc : pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    rc = rc ? rc : pthread_cond_init(&s->writer_wake, &attr);
    rc = rc ? rc : pthread_cond_init(&s->copier_wake, NULL);
    rc = rc ? rc : pthread_mutex_init(&s->lock, NULL);
    rc = rc ? rc : pthread_rwlock_init(&s->env_lock, NULL);
    pthread_condattr_destroy(&attr);
    return rc;
}

static struct store *store_alloc(const struct store_config *config)
{
    struct store *s = fault_calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->config = *config;
    if (s->config.index_bytes == 0)
        s->config.index_bytes = 2 * s->config.max_bytes + (1ull << 30);
    if (s->config.index_bytes < INDEX_BYTES_MIN && s->config.max_bytes > INDEX_BYTES_MIN)
        s->config.index_bytes = INDEX_BYTES_MIN;
    s->max_bytes = config->max_bytes;
    s->quota_bytes = config->quota_bytes;
    s->lock_fd = -1;
    s->files = (struct files){.dir = -1, .blobs = -1, .tmp = -1, .quarantine = -1};
    task_list_init(&s->queue);
    task_list_init(&s->done);
    task_list_init(&s->evictions);
    handles_init(&s->handles);
    s->evictor.rng = clock_wall_ms() * 0x9e3779b97f4a7c15u;
    for (size_t i = 0; i < sizeof s->evictor.young / sizeof s->evictor.young[0]; i++)
        s->evictor.young[i] = clock_wall_ms(); /* older entries have had their chance */
    s->flushed_ms = clock_mono_ms();
    s->dir = strdup(config->dir);
    s->active = fault_calloc(1, sizeof *s->active);
    s->flushing = fault_calloc(1, sizeof *s->flushing);
    s->piece = fault_malloc(BLOB_PIECE);
    if (s->dir && s->active && s->flushing && s->piece && make_locks(s) == 0)
        return s;
    free(s->dir);
    free(s->active);
    free(s->flushing);
    free(s->piece);
    free(s);
    return NULL;
}

static void free_list(struct store *s, struct task_list *l)
{
    struct task *t;
    while ((t = task_list_take(l)))
        task_free(s, t);
}

/* Frees all that store_open made, also if it failed half-way; the threads have ended. */
static void store_dispose(struct store *s)
{
    while (s->burials) {
        struct burial *b = s->burials;
        s->burials = b->next;
        blob_bury(&s->files, b->name);
        free(b);
    }
    evict_plan_close(s);
    lanes_free(s, &s->copying);
    free_list(s, &s->queue);
    free_list(s, &s->done);
    if (s->reader)
        mdb_txn_abort(s->reader);
    index_close(&s->index);
    handles_close(&s->handles);
    suspect_end(s->files.dir);
    files_close(&s->files);
    if (s->lock_fd >= 0)
        close(s->lock_fd);
    pthread_rwlock_destroy(&s->env_lock);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->copier_wake);
    pthread_cond_destroy(&s->writer_wake);
    free(s->dir);
    free(s->active);
    free(s->flushing);
    free(s->piece);
    free(s);
}

static void stop_threads(struct store *s)
{
    atomic_store(&s->stopping, true);
    if (s->verifier_started)
        pthread_join(s->verifier, NULL);
    pthread_mutex_lock(&s->lock);
    s->copier_stop = true;
    pthread_cond_signal(&s->copier_wake);
    pthread_mutex_unlock(&s->lock);
    if (s->copier_started)
        pthread_join(s->copier, NULL); /* after it, nothing is added to the writer's queue */
    pthread_mutex_lock(&s->lock);
    s->writer_stop = true;
    pthread_cond_signal(&s->writer_wake);
    pthread_mutex_unlock(&s->lock);
    if (s->writer_started)
        pthread_join(s->writer, NULL);
}

int store_open(struct store **out, const struct store_config *config, struct err *e)
{
    assert(config && config->dir);
    struct store *s = store_alloc(config);
    if (!s)
        return err_set(e, WARM_ENOMEM, "store: out of memory");
    int rc = files_open(&s->files, config->dir, e);
    rc = rc ? rc : take_lock(s, e);
    rc = rc ? rc : open_index(s, e);
    if (rc == 0) {
        s->stats.n_entries = s->index.totals.n_entries;
        s->stats.n_bytes = s->index.totals.n_bytes;
        s->stats.disk_bytes = s->index.totals.blob_disk_bytes + index_file_bytes(&s->index);
        memcpy(s->stats.kind_entries, s->index.totals.kind_entries, sizeof s->stats.kind_entries);
        memcpy(s->stats.kind_bytes, s->index.totals.kind_bytes, sizeof s->stats.kind_bytes);
        adopt_nothing(s);
        idle_begin(s);
        rc = pthread_create(&s->copier, NULL, copier_main, s);
        s->copier_started = rc == 0;
        if (rc == 0) {
            rc = pthread_create(&s->writer, NULL, writer_main, s);
            s->writer_started = rc == 0;
        }
        if (rc != 0)
            rc = err_sys(e, WARM_ENOMEM, rc, "store: cannot start a thread");
    }
    if (rc != 0) {
        stop_threads(s);
        store_dispose(s);
        return rc;
    }
    *out = s;
    return 0;
}

void store_set_caps(struct store *s, uint64_t max_bytes, uint64_t quota_bytes)
{
    pthread_mutex_lock(&s->lock);
    s->max_bytes = max_bytes;
    s->quota_bytes = quota_bytes;
    s->caps_changed = true;
    pthread_cond_signal(&s->writer_wake);
    pthread_mutex_unlock(&s->lock);
}

void store_close(struct store *s)
{
    store_turn_end(s);
    struct task *t = s->active->n ? task_new(TASK_TOUCH, 0) : NULL;
    if (t) {
        t->many.touches = s->active;
        store_queue(s, t);
    }
    stop_threads(s);
    if (s->index.env)
        index_sync(&s->index);
    store_dispose(s);
}
