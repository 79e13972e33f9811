/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store.c - the interface of store.h but for opening and closing: decides if an entry is a hit, and
 * queues work for the other threads. The daemon's service calls it.
 *
 * A hit:
 *   1. begin the turn's read transaction if there is none
 *   2. find and decode the row
 *   3. inline: hash the value in place; blob: take its open descriptor if the file's state is the verified
 *      one, else open and hash the file
 *   4. count the hit in a table: nothing is written, nothing waits (4)
 *
 * Failure modes of a hit:
 *   the row has expired      NOT_FOUND
 *   its signer is unknown    NOT_FOUND
 *   row or value is damaged  CORRUPT; the writer is told
 *   the file is gone         NOT_FOUND: it was evicted after this turn's transaction began
 *   the index is damaged     NOT_FOUND for all entries until the writer has replaced it
 *
 * Thread: loop.
 */
#include "store/store.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/fault.h"
#include "store/internal.h"

#define QUEUED_MAX (2ull << 30) /* bytes of values that wait in memory: a last resort */
#define CHECKS_MAX 320u         /* blobs being hashed for store_prepare and store_suspect */
#define TOUCH_FLUSH_MS 60000u   /* hits are written after this, */
#define TOUCH_WITH_PUT_MS 5000u /* or with a put after this, */
#define TOUCH_FULL_MS 1000u     /* or, if the table is full, after this */
#define META_MAX 4096u
#define META_NAME_MAX 256u

/* ---- turns and hits ---- */

/* True if the last turn's snapshot is still the latest, and can serve this turn too. A new one
 * costs as much as a row's look-up. Needs env_lock. */
static bool snapshot_is_good(struct store *s)
{
    if (!s->reader || !atomic_load(&s->keeps_snapshot))
        return false;
    if (index_is_latest(&s->index, s->reader))
        return true;
    mdb_txn_reset(s->reader);
    atomic_store(&s->keeps_snapshot, false);
    return false;
}

void store_turn_end(struct store *s)
{
    handles_turn_end(&s->handles);
    if (s->reading)
        atomic_store(&s->keeps_snapshot, true);
    else if (!atomic_load(&s->keeps_snapshot) || pthread_rwlock_tryrdlock(&s->env_lock) != 0)
        return; /* the writer replaces the environment, and ends the transaction too */
    snapshot_is_good(s);
    s->reading = false;
    pthread_rwlock_unlock(&s->env_lock);
}

/* Tells the writer about a damaged index. Returns a miss for that, else the error. */
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
    assert(!s->reading || s->reader);
    if (s->reading)
        return 0;
    if (pthread_rwlock_tryrdlock(&s->env_lock) != 0)
        return err_set(e, WARM_ENOT_FOUND, "the index is being rebuilt");
    int rc = 0;
    if (!snapshot_is_good(s))
        rc = s->index.env ? index_read_begin(&s->index, &s->reader) : WARM_ENOT_FOUND;
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
    t->many.touches = full;
    store_queue(s, t);
}

/* Counts a hit on a row of the index. Its time is later than any that is written, or being
 * written, for the row: by this the writer knows which hits it has written. */
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

/* Adds the hits that are not yet in the index. */
static void add_unwritten(const struct store *s, struct store_row *row)
{
    const struct touch *t = s->flush_busy ? touch_find(s->flushing, &row->id) : NULL;
    if (t && t->last_ms > row->accessed_ms)
        row_touch(row, t->n_hits, t->last_ms);
    t = s->active->n ? touch_find(s->active, &row->id) : NULL;
    if (t)
        row_touch(row, t->n_hits, t->last_ms);
}

/* Asks the writer to check an entry that looks damaged, and to quarantine it. */
static void report_damage(struct store *s, const struct store_row *row, int status,
                          const struct blob_state *state)
{
    struct task *t = task_damaged(row, status, state);
    if (t)
        store_queue(s, t);
}

void store_trust(struct store *s, const uint32_t *signers, size_t n)
{
    assert(n <= STORE_SIGNERS_MAX);
    for (size_t i = 0; i < STORE_SIGNERS_MAX; i++)
        atomic_store(&s->signers[i], i < n ? signers[i] : 0);
}

/* Finds a row that counts and has not expired. *out is undefined after an error. */
static int find_row(struct store *s, const struct store_id *id, uint64_t now_ms,
                    struct store_row *out, struct err *e)
{
    int rc = turn_begin(s, e);
    if (rc != 0)
        return rc;
    rc = index_row(&s->index, s->reader, id, out);
    if (rc == WARM_ECORRUPT)
        report_damage(s, &(struct store_row){.id = *id}, rc, NULL);
    if (rc == 0 && row_expired(out, now_ms)) {
        /* a departure: the entry still exists, but no request finds it */
        pthread_mutex_lock(&s->lock);
        s->left[s->n_left++ % STORE_DEPARTURES_MAX] =
            (struct store_departure){.id = *id, .cause = STORE_LEFT_EXPIRED, .at_ms = now_ms};
        pthread_mutex_unlock(&s->lock);
        rc = WARM_ENOT_FOUND;
    }
    if (rc == 0 && !store_counts(s, out))
        rc = WARM_ENOT_FOUND;
    return rc ? note_damage(s, rc, e) : 0;
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
    out->fd = -1;
    return 0;
}

/* Opens and hashes a blob that is not verified. */
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
        return err_set(e, WARM_ENOMEM, "out of memory");
    out->data = NULL;
    out->fd = handle->fd;
    return 0;
}

int store_look(struct store *s, const struct store_id *id, struct store_value *out, struct err *e)
{
    assert(id && out);
    int rc = find_row(s, id, clock_wall_ms(), &out->row, e);
    if (rc == 0)
        rc = out->row.is_blob ? get_blob(s, &out->row, out, e) : get_inline(s, &out->row, out, e);
    assert(rc != 0 || out->row.is_blob == (out->fd >= 0)); /* (1): one of the two verified it */
    return rc;
}

int store_get(struct store *s, const struct store_id *id, struct store_value *out, struct err *e)
{
    int rc = store_look(s, id, out, e);
    if (rc == 0)
        count_hit(s, &out->row, clock_wall_ms());
    return rc;
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

size_t store_group(struct store *s, const struct store_id *id, struct store_id out[STORE_GROUP_MAX])
{
    struct key keys[STORE_GROUP_MAX];
    struct store_row row;
    size_t n = 0, n_out = 0;
    int rc = find_row(s, id, clock_wall_ms(), &row, NULL);
    if (rc == 0 && (rc = index_group(&s->index, s->reader, &row, keys, STORE_GROUP_MAX, &n)) != 0)
        note_damage(s, rc, NULL);
    for (size_t i = 0; rc == 0 && i < n; i++)
        if (!key_equal(&keys[i], &id->key))
            out[n_out++] = (struct store_id){id->owner, keys[i]};
    return n_out;
}

/* Lists the first `cap` owners in a table of the index. */
static size_t listed(struct store *s, const MDB_dbi *table, uint32_t *out, size_t cap)
{
    size_t n;
    int rc = turn_begin(s, NULL);
    rc = rc ? rc : index_listed(s->reader, *table, out, cap, &n);
    if (rc != 0)
        note_damage(s, rc, NULL);
    return rc ? 0 : n;
}

size_t store_owners(struct store *s, uint32_t *out, size_t cap)
{
    return listed(s, &s->index.usage, out, cap);
}

bool store_share(struct store *s, uint32_t user, struct store_share *out)
{
    int rc = turn_begin(s, NULL);
    rc = rc ? rc : index_share(&s->index, s->reader, user, out);
    if (rc != 0)
        note_damage(s, rc, NULL);
    return rc == 0 && (out->n_entries || out->disk_bytes);
}

size_t store_users(struct store *s, uint32_t *out, size_t cap)
{
    return listed(s, &s->index.share, out, cap);
}

uint64_t store_pins_max(struct store *s) { return evict_pins_max(s); }

static int queue_check(struct store *s, const struct store_row *row,
                       void (*cb)(void *arg, int status), void *arg, struct err *e)
{
    if (s->n_checks >= CHECKS_MAX)
        return err_set(e, WARM_EBUSY, "too many values are being verified");
    struct task *t = task_new(TASK_CHECK, 0);
    if (!t)
        return err_set(e, WARM_ENOMEM, "out of memory");
    t->row = (struct store_row){.id = row->id,
                                .maker = row->maker,
                                .content = row->content,
                                .check = row->check,
                                .len = row->len};
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

void store_refuse(struct store *s, const struct store_id *id, const struct key *check)
{
    struct task *t = task_new(TASK_REFUSED, 0);
    if (!t)
        return;
    t->row = (struct store_row){.id = *id, .check = *check};
    store_queue(s, t);
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
    t->expects = put->check != NULL;
    if (put->check)
        t->expected = *put->check;
    t->out_check = put->out_check;
    t->on_done = put->on_done;
    t->arg = put->arg;
    return t;
}

/* Reserves memory for a queued value. Bounded, but one value alone always fits. */
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
    if (!t->row.is_blob) {
        t->row.check = key_of_bytes(t->data, len);
        t->hashed = true;
    }
    return 0;
}

static void release_queued(struct store *s, struct task *t)
{
    pthread_mutex_lock(&s->lock);
    assert(s->queued_bytes >= t->reserved);
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

/* ---- results ---- */

/* Keeps the descriptor of a verified blob. */
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
        if (t->out_check && t->hashed)
            *t->out_check = t->row.check;
        if (t->on_done)
            t->on_done(t->arg, t->status, t->existed, e);
        break;
    case TASK_CHECK:
        assert(s->n_checks > 0);
        s->n_checks--;
        if (t->status == 0)
            keep_handle(s, t);
        if (t->on_prepared)
            t->on_prepared(t->arg, t->status);
        break;
    case TASK_TOUCH:
        assert(s->flush_busy || t->many.touches == s->active);
        touch_clear(t->many.touches);
        s->flush_busy = false;
        break;
    case TASK_VERIFY:
        if (t->verify.on_progress && !t->on_report)
            t->verify.on_progress(t->arg, t->verify.done, t->verify.total);
        break;
    default: break;
    }
    if (t->on_report)
        t->on_report(t->arg, t->status, &t->report, e);
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
    if (n_dropped > DROPPED_MAX)
        handles_drop_all(&s->handles);
    for (size_t i = 0; i < n_dropped && n_dropped <= DROPPED_MAX; i++)
        handles_drop(&s->handles, &dropped[i]);
    flush_touches(s, TOUCH_FLUSH_MS);
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

/* Queues a task on entries. `what`: its own fields. */
static int queue_ids(struct store *s, const struct task *what, const struct store_id *ids, size_t n,
                     store_report_cb cb, void *arg, struct err *e)
{
    struct task *t = task_new(what->type, 0);
    if (t)
        t->many.ids = n <= SIZE_MAX / sizeof *ids ? fault_malloc((n ? n : 1) * sizeof *ids) : NULL;
    if (!t || !t->many.ids) {
        if (t)
            task_free(s, t);
        return err_set(e, WARM_ENOMEM, "out of memory");
    }
    if (n)
        memcpy(t->many.ids, ids, n * sizeof *ids);
    t->many.n_ids = n;
    t->many.pinned = what->many.pinned;
    t->many.off = what->many.off;
    t->many.on = what->many.on;
    t->on_report = cb;
    t->arg = arg;
    store_queue(s, t);
    return 0;
}

int store_remove(struct store *s, const struct store_id *ids, size_t n, store_report_cb cb,
                 void *arg, struct err *e)
{
    return queue_ids(s, &(struct task){.type = TASK_REMOVE}, ids, n, cb, arg, e);
}

int store_pin(struct store *s, const struct store_id *ids, size_t n, bool pinned,
              store_report_cb cb, void *arg, struct err *e)
{
    return queue_ids(s, &(struct task){.type = TASK_PIN, .many = {.pinned = pinned}}, ids, n, cb,
                     arg, e);
}

int store_mark(struct store *s, const struct store_id *ids, size_t n, uint32_t off, uint32_t on,
               store_report_cb cb, void *arg, struct err *e)
{
    return queue_ids(s, &(struct task){.type = TASK_MARK, .many = {.off = off, .on = on}}, ids, n,
                     cb, arg, e);
}

int store_evict(struct store *s, const struct store_filter *filter, uint64_t to_bytes, bool dry_run,
                store_report_cb cb, void *arg, struct err *e)
{
    struct task *t = task_new(TASK_EVICT, 3 * STORE_NAME_MAX);
    if (!t)
        return err_set(e, WARM_ENOMEM, "out of memory");
    uint8_t *at = t->bytes;
    t->evict.filter = *filter;
    t->evict.filter.hardware = copy_view(filter->hardware, &at);
    t->evict.filter.compiler = copy_view(filter->compiler, &at);
    t->evict.filter.text = copy_view(filter->text, &at);
    t->evict.to_bytes = to_bytes;
    t->evict.dry_run = dry_run;
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
    t->verify.store = s;
    t->verify.sample = sample;
    if (sample >= stats.n_entries) /* as many as there are: each once */
        t->verify.sample = 0;
    t->verify.total = sample && sample < stats.n_entries ? sample : stats.n_entries;
    t->verify.on_progress = on_progress;
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
    out->max_bytes = s->max_bytes;
}

size_t store_departures(struct store *s, struct store_departure *out, size_t cap)
{
    size_t n = 0;
    pthread_mutex_lock(&s->lock);
    if (s->n_left - s->n_left_taken > STORE_DEPARTURES_MAX)
        s->n_left_taken = s->n_left - STORE_DEPARTURES_MAX;
    while (n < cap && s->n_left_taken < s->n_left)
        out[n++] = s->left[s->n_left_taken++ % STORE_DEPARTURES_MAX];
    pthread_mutex_unlock(&s->lock);
    return n;
}

/* Makes the full name: other than the store's own ones. False if it is too long. */
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
