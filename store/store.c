/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store.c - the interface of store.h: opening and closing, and what the loop thread does itself.
 *
 * A hit: begin the turn's read transaction if there is none; find and decode the row; inline: hash
 * the value where it lies; blob: take its open descriptor if the file is as it was when it was
 * verified, else open and hash it; note the hit in a table. Nothing is written, nothing waits.
 *
 * Failure modes of a hit: an expired row is not found; a damaged one is reported to the writer and
 * CORRUPT to the caller; a file that is gone is NOT_FOUND (it was evicted since this turn's view of
 * the index began); a damaged index is NOT_FOUND for all until the writer has replaced it.
 */
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "store/fault.h"
#include "store/internal.h"

#define QUEUED_MAX (256u << 20) /* bytes of values that wait in memory */
#define CHECKS_MAX 64u          /* blobs being hashed for store_prepare and store_suspect */
#define TOUCH_FLUSH_MS 60000u   /* hits are written after this, */
#define TOUCH_WITH_PUT_MS 5000u /* or with a put after this, */
#define TOUCH_FULL_MS 1000u     /* or, if the table is full, after this */
#define META_MAX 4096u
#define META_NAME_MAX 256u
#define LOCK_RETRIES 10u
#define LOCK_RETRY_MS 20
#define INDEX_BYTES_MIN (4ull << 30)

/* ---- small things ---- */

uint64_t clock_wall_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

uint64_t clock_mono_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

void store_event(struct store *s, const char *format, ...)
{
    char line[512];
    va_list args;
    if (!s->config.on_event)
        return;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    s->config.on_event(s->config.on_event_arg, line);
}

void task_list_init(struct task_list *l) { *l = (struct task_list){.last = &l->first}; }

void task_list_add(struct task_list *l, struct task *t)
{
    t->next = NULL;
    *l->last = t;
    l->last = &t->next;
    l->n++;
}

void task_list_push(struct task_list *l, struct task *t)
{
    t->next = l->first;
    if (!l->first)
        l->last = &t->next;
    l->first = t;
    l->n++;
}

struct task *task_list_take(struct task_list *l)
{
    struct task *t = l->first;
    if (!t)
        return NULL;
    l->first = t->next;
    if (!l->first)
        l->last = &l->first;
    l->n--;
    return t;
}

struct task *task_new(enum task_type type, size_t n_bytes)
{
    struct task *t = fault_calloc(1, sizeof *t + n_bytes);
    if (!t)
        return NULL;
    t->type = type;
    t->fd = -1;
    t->draft = DRAFT_NONE;
    t->queued_ms = clock_mono_ms();
    return t;
}

void task_free(struct store *s, struct task *t)
{
    if (t->fd >= 0)
        close(t->fd);
    draft_drop(&s->files, &t->draft);
    free(t->data);
    free(t->ids);
    free(t);
}

/* ---- queues ---- */

void store_finish(struct store *s, struct task *t)
{
    pthread_mutex_lock(&s->lock);
    bool first = s->done.n == 0;
    task_list_add(&s->done, t);
    pthread_mutex_unlock(&s->lock);
    if (first && s->config.on_wake)
        s->config.on_wake(s->config.on_wake_arg);
}

void store_queue_writer(struct store *s, struct task *t)
{
    pthread_mutex_lock(&s->lock);
    task_list_add(&s->queue, t);
    pthread_cond_signal(&s->writer_wake);
    pthread_mutex_unlock(&s->lock);
}

static bool same_id(const struct store_id *a, const struct store_id *b)
{
    return a->owner == b->owner && key_equal(&a->key, &b->key);
}

/* True if the copier has work in itself or must keep the order of an id. With `lock` held. */
static bool is_for_copier(const struct store *s, const struct task *t)
{
    if (t->type == TASK_CHECK)
        return true;
    if (t->type == TASK_META || t->type == TASK_TOUCH)
        return false;
    if (t->type != TASK_PUT)
        return s->copying.n > 0;
    if (t->fd >= 0 || t->row.len > STORE_INLINE_MAX)
        return true;
    for (const struct task *other = s->copying.first; other; other = other->next)
        if (other->type != TASK_PUT || same_id(&other->row.id, &t->row.id))
            return true;
    return false;
}

void store_queue(struct store *s, struct task *t)
{
    pthread_mutex_lock(&s->lock);
    if (is_for_copier(s, t)) {
        task_list_add(&s->copying, t);
        pthread_cond_signal(&s->copier_wake);
    } else {
        task_list_add(&s->queue, t);
        pthread_cond_signal(&s->writer_wake);
    }
    pthread_mutex_unlock(&s->lock);
}

/* ---- opening ---- */

static atomic_int suspect_dir = -1;

void store_mark_suspect(void)
{
    int errnum = errno;
    int fd = openat(atomic_load(&suspect_dir), "suspect", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
    errno = errnum;
}

/* A process that was killed holds its locks until it is gone altogether: waits a little for that. */
static int try_lock(int fd)
{
    const struct timespec wait = {0, LOCK_RETRY_MS * 1000000l};
    for (unsigned i = 0; flock(fd, LOCK_EX | LOCK_NB) != 0; i++) {
        if (errno != EWOULDBLOCK || i == LOCK_RETRIES)
            return errno;
        nanosleep(&wait, NULL);
    }
    return 0;
}

/* Only one process, and only once: two environments on one file would destroy it. */
static int take_lock(struct store *s, struct err *e)
{
    char pid[32] = "";
    s->lock_fd = fault_openat(s->files.dir, "lock", O_RDWR | O_CREAT, 0600);
    if (s->lock_fd < 0)
        return err_sys(e, WARM_EIO, errno, "store: cannot open %s/lock", s->dir);
    int errnum = try_lock(s->lock_fd);
    if (errnum != 0) {
        if (errnum != EWOULDBLOCK)
            return err_sys(e, WARM_EIO, errnum, "store: cannot lock %s", s->dir);
        if (pread(s->lock_fd, pid, sizeof pid - 1, 0) < 0)
            pid[0] = '\0';
        return err_set(e, WARM_EBUSY, "store: %s is in use by process %ld", s->dir,
                       strtol(pid, NULL, 10));
    }
    int len = snprintf(pid, sizeof pid, "%ld\n", (long)getpid());
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
    bool suspect = faccessat(s->files.dir, "suspect", F_OK, 0) == 0;
    if (!guard_check(s->dir, s->lock_fd, suspect, &why))
        set_aside(s, why);
    if (suspect)
        unlinkat(s->files.dir, "suspect", 0);
    int rc = index_open(&s->index, s->dir, s->config.index_bytes, e);
    if (rc == WARM_ECORRUPT) {
        set_aside(s, e ? e->text : "");
        rc = index_open(&s->index, s->dir, s->config.index_bytes, e);
    }
    return rc;
}

static void set_defaults(struct store_config *c)
{
    if (c->index_bytes == 0)
        c->index_bytes = 2 * c->max_bytes + (1ull << 30);
    if (c->index_bytes < INDEX_BYTES_MIN && c->max_bytes > INDEX_BYTES_MIN)
        c->index_bytes = INDEX_BYTES_MIN;
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

static int start_threads(struct store *s, struct err *e)
{
    int rc = pthread_create(&s->copier, NULL, copier_main, s);
    s->copier_started = rc == 0;
    if (rc == 0) {
        rc = pthread_create(&s->writer, NULL, writer_main, s);
        s->writer_started = rc == 0;
    }
    return rc == 0 ? 0 : err_sys(e, WARM_ENOMEM, rc, "store: cannot start a thread");
}

static struct store *store_alloc(const struct store_config *config)
{
    struct store *s = fault_calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->config = *config;
    set_defaults(&s->config);
    s->lock_fd = -1;
    s->files = (struct files){.dir = -1, .blobs = -1, .tmp = -1, .quarantine = -1};
    task_list_init(&s->copying);
    task_list_init(&s->queue);
    task_list_init(&s->done);
    task_list_init(&s->evictions);
    handles_init(&s->handles);
    s->evictor.rng = clock_wall_ms() * 0x9e3779b97f4a7c15u;
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

/* What store_open made, whether or not it came to its end; the threads have ended. */
static void store_dispose(struct store *s)
{
    while (s->burials) {
        struct burial *b = s->burials;
        s->burials = b->next;
        blob_bury(&s->files, b->name);
        free(b);
    }
    evict_close(s);
    free_list(s, &s->copying);
    free_list(s, &s->queue);
    free_list(s, &s->done);
    if (s->reader)
        mdb_txn_abort(s->reader);
    index_close(&s->index);
    handles_close(&s->handles);
    int dir = s->files.dir;
    if (dir >= 0)
        atomic_compare_exchange_strong(&suspect_dir, &dir, -1);
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
    struct store *s = store_alloc(config);
    if (!s)
        return err_set(e, WARM_ENOMEM, "store: out of memory");
    int rc = files_open(&s->files, config->dir, e);
    rc = rc ? rc : take_lock(s, e);
    rc = rc ? rc : open_index(s, e);
    if (rc == 0) {
        atomic_store(&suspect_dir, s->files.dir);
        s->stats.n_entries = s->index.totals.n_entries;
        s->stats.n_bytes = s->index.totals.n_bytes;
        s->stats.disk_bytes = s->index.totals.blob_disk_bytes + index_file_bytes(&s->index);
        memcpy(s->stats.kind_entries, s->index.totals.kind_entries, sizeof s->stats.kind_entries);
        memcpy(s->stats.kind_bytes, s->index.totals.kind_bytes, sizeof s->stats.kind_bytes);
        sweep_begin(s);
        rc = start_threads(s, e);
    }
    if (rc != 0) {
        stop_threads(s);
        store_dispose(s);
        return rc;
    }
    *out = s;
    return 0;
}

/* ---- turns and hits ---- */

void store_turn_end(struct store *s)
{
    handles_turn_end(&s->handles);
    if (!s->reading)
        return;
    mdb_txn_reset(s->reader);
    s->reading = false;
    pthread_rwlock_unlock(&s->env_lock);
}

/* Tells the writer that the index is damaged; to the caller everything is a miss meanwhile. */
static int note_damage(struct store *s, int rc, struct err *e)
{
    if (!index_is_damage(rc))
        return index_error(rc, e);
    pthread_mutex_lock(&s->lock);
    atomic_store(&s->damaged, true);
    pthread_cond_signal(&s->writer_wake);
    pthread_mutex_unlock(&s->lock);
    return err_set(e, WARM_ENOT_FOUND, "the index is being rebuilt");
}

static int turn_begin(struct store *s, struct err *e)
{
    if (s->reading)
        return 0;
    if (pthread_rwlock_tryrdlock(&s->env_lock) != 0)
        return err_set(e, WARM_ENOT_FOUND, "the index is being rebuilt");
    int rc = s->index.env ? index_read_begin(&s->index, &s->reader) : WARM_ENOT_FOUND;
    s->reading = rc == 0;
    if (s->reading)
        return 0;
    pthread_rwlock_unlock(&s->env_lock);
    return note_damage(s, rc, e);
}

static void flush_touches(struct store *s, uint64_t after_ms)
{
    uint64_t now_ms = clock_mono_ms();
    if (s->flush_busy || s->active->n == 0 || now_ms - s->flushed_ms < after_ms)
        return;
    struct task *t = task_new(TASK_TOUCH, 0);
    if (!t)
        return;
    struct touches *full = s->active;
    s->active = s->flushing;
    s->flushing = full;
    s->flush_busy = true;
    s->flushed_ms = now_ms;
    t->touches = full;
    store_queue(s, t);
}

/* `row` as the index has it. A hit is later than what is written of its row, or being written, so
 * that the writer can tell hits that it has written from those that it has not. */
static void count_hit(struct store *s, const struct store_row *row, uint64_t now_ms)
{
    const struct touch *flushing = s->flush_busy ? touch_find(s->flushing, &row->id) : NULL;
    uint64_t written_ms = row->accessed_ms;
    if (flushing && flushing->last_ms > written_ms)
        written_ms = flushing->last_ms;
    if (now_ms <= written_ms)
        now_ms = written_ms + 1;
    if (touch_add(s->active, &row->id, now_ms))
        return;
    flush_touches(s, TOUCH_FULL_MS);
    touch_add(s->active, &row->id, now_ms); /* if this fails too, the hit goes uncounted */
}

/* Adds the hits that the index does not know yet. */
static void add_unwritten(const struct store *s, struct store_row *row)
{
    const struct touch *t = s->flush_busy ? touch_find(s->flushing, &row->id) : NULL;
    if (t && t->last_ms > row->accessed_ms)
        row_touch(row, t->n_hits, t->last_ms);
    t = s->active->n ? touch_find(s->active, &row->id) : NULL;
    if (t)
        row_touch(row, t->n_hits, t->last_ms);
}

/* Has the writer look again at what this thread found damaged. */
static void report_damage(struct store *s, const struct store_row *row, int status,
                          const struct blob_state *state)
{
    struct task *t = task_new(TASK_DAMAGED, 0);
    if (!t)
        return; /* the next hit finds it again */
    t->row = (struct store_row){.id = row->id, .content = row->content};
    t->status = status;
    if (state)
        t->state = *state;
    store_queue(s, t);
}

static int find_row(struct store *s, const struct store_id *id, uint64_t now_ms,
                    struct store_row *out, struct err *e)
{
    struct store_row row;
    int rc = turn_begin(s, e);
    if (rc != 0)
        return rc;
    rc = index_row(&s->index, s->reader, id, &row);
    if (rc == WARM_ECORRUPT)
        report_damage(s, &(struct store_row){.id = *id}, rc, NULL);
    if (rc == 0 && row_expired(&row, now_ms))
        rc = WARM_ENOT_FOUND;
    if (rc != 0)
        return note_damage(s, rc, e);
    *out = row;
    return 0;
}

static int get_inline(struct store *s, const struct store_row *row, struct store_value *out,
                      struct err *e)
{
    struct view value;
    int rc = index_value(&s->index, s->reader, &row->id, row->len, &value);
    rc = rc ? rc : index_check_value(row, value);
    if (rc == WARM_ECORRUPT || rc == WARM_ENOT_FOUND) {
        report_damage(s, row, WARM_ECORRUPT, NULL);
        return err_set(e, WARM_ECORRUPT, "a stored value was damaged");
    }
    if (rc != 0)
        return note_damage(s, rc, e);
    out->data = value.data;
    return 0;
}

/* Opens and hashes a blob that is not known to be right. */
static int open_blob(struct store *s, const struct store_row *row, struct handle **out,
                     struct err *e)
{
    struct blob_id id = {row->id.owner, row->content};
    struct blob_state state = {0};
    int fd = -1;
    if (s->config.async_check_bytes && row->len > s->config.async_check_bytes)
        return err_set(e, WARM_EBUSY, "the value is to be verified first");
    int rc = blob_open(&s->files, &id, row->len, &fd, &state, e);
    if (rc == 0)
        rc = blob_check(fd, row->len, &row->check, s->piece, NULL, e);
    if (rc == WARM_ECORRUPT || rc == WARM_ENOT_FOUND)
        report_damage(s, row, rc, &state);
    if (rc == 0)
        *out = handles_add(&s->handles, &id, fd, &state);
    else if (fd >= 0)
        close(fd);
    return rc;
}

static int get_blob(struct store *s, const struct store_row *row, struct store_value *out,
                    struct err *e)
{
    struct blob_id id = {row->id.owner, row->content};
    struct blob_state now;
    struct handle *handle = handles_find(&s->handles, &id);
    if (handle && (blob_fstat(handle->fd, &now) != 0 || !blob_state_equal(&now, &handle->state))) {
        handles_drop(&s->handles, &id);
        handle = NULL;
    }
    int rc = handle ? 0 : open_blob(s, row, &handle, e);
    if (rc != 0)
        return rc;
    if (!handles_give(&s->handles, handle))
        return err_set(e, WARM_EIO, "out of memory");
    out->fd = handle->fd;
    return 0;
}

int store_get(struct store *s, const struct store_id *id, struct store_value *out, struct err *e)
{
    struct store_value value = {.fd = -1};
    uint64_t now_ms = clock_wall_ms();
    int rc = find_row(s, id, now_ms, &value.row, e);
    if (rc == 0)
        rc = value.row.is_blob ? get_blob(s, &value.row, &value, e)
                               : get_inline(s, &value.row, &value, e);
    if (rc != 0)
        return rc;
    count_hit(s, &value.row, now_ms);
    add_unwritten(s, &value.row);
    *out = value;
    return 0;
}

int store_peek(struct store *s, const struct store_id *id, struct store_row *out, struct err *e)
{
    struct store_row row;
    int rc = find_row(s, id, clock_wall_ms(), &row, e);
    if (rc != 0)
        return rc;
    add_unwritten(s, &row);
    *out = row;
    return 0;
}

static int queue_check(struct store *s, const struct store_row *row,
                       void (*cb)(void *arg, int status), void *arg, struct err *e)
{
    if (s->n_checks >= CHECKS_MAX)
        return err_set(e, WARM_EBUSY, "too many values are being verified");
    struct task *t = task_new(TASK_CHECK, 0);
    if (!t)
        return err_set(e, WARM_ENOMEM, "out of memory");
    t->row = (struct store_row){
        .id = row->id, .content = row->content, .check = row->check, .len = row->len};
    t->on_prepared = cb;
    t->arg = arg;
    s->n_checks++;
    store_queue(s, t);
    return 0;
}

int store_prepare(struct store *s, const struct store_id *id, void (*cb)(void *arg, int status),
                  void *arg, struct err *e)
{
    struct store_row row;
    int rc = find_row(s, id, clock_wall_ms(), &row, e);
    return rc ? rc : queue_check(s, &row, cb, arg, e);
}

void store_suspect(struct store *s, const struct store_id *id)
{
    struct store_row row;
    if (find_row(s, id, clock_wall_ms(), &row, NULL) != 0)
        return;
    if (!row.is_blob) {
        report_damage(s, &row, WARM_ECORRUPT, NULL);
        return;
    }
    handles_drop(&s->handles, &(struct blob_id){row.id.owner, row.content});
    queue_check(s, &row, NULL, NULL, NULL);
}

/* ---- puts ---- */

static struct view copy_view(struct view v, uint8_t **at)
{
    struct view copy = {*at, v.len < STORE_NAME_MAX ? v.len : STORE_NAME_MAX};
    if (copy.len)
        memcpy(*at, v.data, copy.len);
    *at += copy.len;
    return copy;
}

static struct task *put_task(const struct store_put *put)
{
    const struct store_row *row = &put->row;
    struct task *t = task_new(TASK_PUT, 4 * STORE_NAME_MAX);
    if (!t)
        return NULL;
    uint8_t *at = t->bytes;
    t->row = *row;
    t->row.hardware = copy_view(row->hardware, &at);
    t->row.compiler_text = copy_view(row->compiler_text, &at);
    t->row.name = copy_view(row->name, &at);
    t->row.label = copy_view(row->label, &at);
    t->row.is_blob = row->len > STORE_INLINE_MAX;
    t->row.content = (struct proof){{0}};
    t->keep_existing = put->keep_existing;
    t->on_done = put->on_done;
    t->arg = put->arg;
    return t;
}

/* Values that wait in memory are bounded; one alone may be of any size that is allowed. */
static bool reserve_queued(struct store *s, size_t len)
{
    pthread_mutex_lock(&s->lock);
    bool fits = s->queued_bytes == 0 || s->queued_bytes + len <= QUEUED_MAX;
    s->queued_bytes += fits ? len : 0;
    pthread_mutex_unlock(&s->lock);
    return fits;
}

static int copy_data(struct store *s, struct task *t, const struct store_put *put, struct err *e)
{
    size_t len = (size_t)put->row.len;
    if (!reserve_queued(s, len))
        return err_set(e, WARM_ENOMEM, "too many values wait to be written");
    t->reserved = len;
    t->data = fault_malloc(len ? len : 1);
    if (!t->data)
        return err_set(e, WARM_ENOMEM, "out of memory");
    if (len)
        memcpy(t->data, put->data, len);
    if (!t->row.is_blob)
        t->row.check = key_of_bytes(t->data, len);
    return 0;
}

static void release_queued(struct store *s, struct task *t)
{
    pthread_mutex_lock(&s->lock);
    s->queued_bytes -= t->reserved;
    pthread_mutex_unlock(&s->lock);
    t->reserved = 0;
}

int store_put(struct store *s, const struct store_put *put, struct err *e)
{
    if (put->row.len > STORE_VALUE_MAX)
        return err_set(e, WARM_ETOO_BIG, "a value of %" PRIu64 " bytes is larger than the limit",
                       put->row.len);
    if ((unsigned)put->row.kind >= INDEX_KINDS || (!put->data && put->fd < 0 && put->row.len))
        return err_set(e, WARM_EINVALID, "no such kind of entry, or no value");
    struct task *t = put_task(put);
    if (!t)
        return err_set(e, WARM_ENOMEM, "out of memory");
    if (put->data || put->fd < 0) {
        int rc = copy_data(s, t, put, e);
        if (rc != 0) {
            release_queued(s, t);
            task_free(s, t);
            return rc;
        }
    } else {
        t->fd = put->fd;
    }
    store_queue(s, t);
    flush_touches(s, TOUCH_WITH_PUT_MS);
    return 0;
}

/* ---- what came of it ---- */

/* Keeps the descriptor of a blob whose bytes are known to be right. */
static void keep_handle(struct store *s, struct task *t)
{
    struct blob_id id = {t->row.id.owner, t->row.content};
    struct handle *handle = handles_find(&s->handles, &id);
    if (t->appended && handle && blob_state_equal(&handle->state, &t->before)) {
        handle->state = t->state;
    } else if (t->state_known && t->draft.fd >= 0) {
        handles_add(&s->handles, &id, t->draft.fd, &t->state);
        t->draft.fd = -1;
    }
}

static void finish(struct store *s, struct task *t)
{
    const struct err *e = t->status ? &t->err : NULL;
    switch (t->type) {
    case TASK_PUT:
        if (t->status == 0 && !t->existed)
            keep_handle(s, t);
        release_queued(s, t);
        if (t->on_done)
            t->on_done(t->arg, t->status, t->existed, e);
        break;
    case TASK_CHECK:
        s->n_checks--;
        if (t->status == 0)
            keep_handle(s, t);
        if (t->on_prepared)
            t->on_prepared(t->arg, t->status);
        break;
    case TASK_TOUCH:
        touch_clear(t->touches);
        s->flush_busy = false;
        break;
    case TASK_VERIFY:
        if (t->on_progress && !t->on_report)
            t->on_progress(t->arg, t->done, t->total);
        break;
    default: break;
    }
    if (t->on_report)
        t->on_report(t->arg, t->status, &t->report, e);
}

static void drop_handles(struct store *s, const struct blob_id *dropped, size_t n)
{
    if (n > DROPPED_MAX)
        handles_drop_all(&s->handles);
    for (size_t i = 0; i < n && n <= DROPPED_MAX; i++)
        handles_drop(&s->handles, &dropped[i]);
}

void store_poll(struct store *s)
{
    struct blob_id dropped[DROPPED_MAX];
    struct task_list done;
    struct task *t;
    store_turn_end(s);
    task_list_init(&done);
    pthread_mutex_lock(&s->lock);
    size_t n_dropped = s->n_dropped;
    memcpy(dropped, s->dropped,
           (n_dropped < DROPPED_MAX ? n_dropped : DROPPED_MAX) * sizeof *dropped);
    s->n_dropped = 0;
    while ((t = task_list_take(&s->done)))
        task_list_add(&done, t);
    pthread_mutex_unlock(&s->lock);
    while ((t = task_list_take(&done))) {
        finish(s, t);
        task_free(s, t);
    }
    drop_handles(s, dropped, n_dropped);
    flush_touches(s, TOUCH_FLUSH_MS);
}

void store_close(struct store *s)
{
    store_turn_end(s);
    struct task *t = s->active->n ? task_new(TASK_TOUCH, 0) : NULL;
    if (t) {
        t->touches = s->active;
        store_queue(s, t);
    }
    stop_threads(s);
    if (s->index.env)
        index_sync(&s->index);
    store_dispose(s);
}

/* ---- many entries ---- */

int store_scan(struct store *s, struct store_cursor *cursor, size_t max_rows, store_row_cb cb,
               void *arg, struct err *e)
{
    MDB_cursor *c;
    struct index_place place = {.after = cursor->bytes[0] != 0};
    uint64_t now_ms = clock_wall_ms();
    int rc = turn_begin(s, e);
    if (rc != 0)
        return rc;
    rc = mdb_cursor_open(s->reader, s->index.row, &c);
    if (rc != 0)
        return note_damage(s, rc, e);
    memcpy(place.key, cursor->bytes + 1, INDEX_KEY);
    for (size_t i = 0; rc == 0 && i < max_rows; i++) {
        struct store_row row;
        rc = index_next(&s->index, c, &place, &row);
        if (rc == WARM_ECORRUPT) {
            report_damage(s, &(struct store_row){.id = row.id}, rc, NULL);
            rc = 0;
        } else if (rc == 0 && !row_expired(&row, now_ms)) {
            add_unwritten(s, &row);
            cb(arg, &row);
        }
    }
    mdb_cursor_close(c);
    memcpy(cursor->bytes + 1, place.key, INDEX_KEY);
    cursor->bytes[0] = place.after;
    if (rc == WARM_ENOT_FOUND)
        return 0;
    return rc ? note_damage(s, rc, e) : 1;
}

static int queue_ids(struct store *s, enum task_type type, const struct store_id *ids, size_t n,
                     bool pinned, store_report_cb cb, void *arg, struct err *e)
{
    struct task *t = task_new(type, 0);
    if (t)
        t->ids = n <= SIZE_MAX / sizeof *ids ? fault_malloc((n ? n : 1) * sizeof *ids) : NULL;
    if (!t || !t->ids) {
        if (t)
            task_free(s, t);
        return err_set(e, WARM_ENOMEM, "out of memory");
    }
    if (n)
        memcpy(t->ids, ids, n * sizeof *ids);
    t->n_ids = n;
    t->pinned = pinned;
    t->on_report = cb;
    t->arg = arg;
    store_queue(s, t);
    return 0;
}

int store_remove(struct store *s, const struct store_id *ids, size_t n, store_report_cb cb,
                 void *arg, struct err *e)
{
    return queue_ids(s, TASK_REMOVE, ids, n, false, cb, arg, e);
}

int store_pin(struct store *s, const struct store_id *ids, size_t n, bool pinned,
              store_report_cb cb, void *arg, struct err *e)
{
    return queue_ids(s, TASK_PIN, ids, n, pinned, cb, arg, e);
}

int store_evict(struct store *s, const struct store_filter *filter, uint64_t to_bytes, bool dry_run,
                store_report_cb cb, void *arg, struct err *e)
{
    struct task *t = task_new(TASK_EVICT, 3 * STORE_NAME_MAX);
    if (!t)
        return err_set(e, WARM_ENOMEM, "out of memory");
    uint8_t *at = t->bytes;
    t->filter = *filter;
    t->filter.hardware = copy_view(filter->hardware, &at);
    t->filter.compiler = copy_view(filter->compiler, &at);
    t->filter.text = copy_view(filter->text, &at);
    t->to_bytes = to_bytes;
    t->dry_run = dry_run;
    t->on_report = cb;
    t->arg = arg;
    store_queue(s, t);
    return 0;
}

int store_verify(struct store *s, uint64_t sample,
                 void (*on_progress)(void *arg, uint64_t done, uint64_t total), store_report_cb cb,
                 void *arg, struct err *e)
{
    if (atomic_load(&s->verifying))
        return err_set(e, WARM_EBUSY, "a verification is running");
    if (s->verifier_started)
        pthread_join(s->verifier, NULL);
    s->verifier_started = false;
    struct task *t = task_new(TASK_VERIFY, 0);
    if (!t)
        return err_set(e, WARM_ENOMEM, "out of memory");
    struct store_stats stats;
    store_stats(s, &stats);
    t->verify_store = s;
    t->to_bytes = sample;
    t->total = sample && sample < stats.n_entries ? sample : stats.n_entries;
    t->on_progress = on_progress;
    t->on_report = cb;
    t->arg = arg;
    atomic_store(&s->verifying, true);
    int rc = pthread_create(&s->verifier, NULL, verify_main, t);
    if (rc != 0) {
        atomic_store(&s->verifying, false);
        task_free(s, t);
        return err_sys(e, WARM_ENOMEM, rc, "cannot start a thread");
    }
    s->verifier_started = true;
    return 0;
}

/* ---- statistics and small values ---- */

void store_stats(struct store *s, struct store_stats *out)
{
    pthread_mutex_lock(&s->lock);
    *out = s->stats;
    pthread_mutex_unlock(&s->lock);
    out->max_bytes = s->config.max_bytes;
}

/* Kept apart from the store's own names. */
static bool meta_name(const char *name, char out[META_NAME_MAX + 8])
{
    int len = snprintf(out, META_NAME_MAX + 8, "user.%s", name);
    return len < (int)META_NAME_MAX;
}

int store_meta_get(struct store *s, const char *name, void *out, size_t cap, size_t *out_len)
{
    char full[META_NAME_MAX + 8];
    struct view data;
    if (!meta_name(name, full))
        return WARM_EINVALID;
    int rc = turn_begin(s, NULL);
    rc = rc ? rc : index_meta(&s->index, s->reader, full, &data);
    if (rc != 0)
        return note_damage(s, rc, NULL);
    if (data.len < 8)
        return WARM_ECORRUPT;
    size_t len = data.len - 8;
    struct reader r = reader_over((const uint8_t *)data.data + len, 8);
    if (reader_u64(&r) != row_checksum(data.data, len))
        return WARM_ECORRUPT;
    if (len > cap)
        return WARM_ETOO_BIG;
    if (len)
        memcpy(out, data.data, len);
    *out_len = len;
    return 0;
}

int store_meta_put(struct store *s, const char *name, const void *data, size_t len)
{
    char full[META_NAME_MAX + 8];
    if (!meta_name(name, full))
        return WARM_EINVALID;
    if (len > META_MAX)
        return WARM_ETOO_BIG;
    struct task *t = task_new(TASK_META, strlen(full) + 1);
    struct writer w;
    writer_init(&w, 0);
    writer_bytes(&w, data, len);
    writer_u64(&w, row_checksum(data, len));
    size_t total;
    void *value = writer_take(&w, &total);
    if (!t || !value) {
        free(t);
        free(value);
        return WARM_ENOMEM;
    }
    memcpy(t->bytes, full, strlen(full) + 1);
    t->data = value;
    t->row.len = total;
    store_queue(s, t);
    return 0;
}
