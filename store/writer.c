/* SPDX-License-Identifier: Apache-2.0 */
/*
 * writer.c - the writer thread, the only one that changes the index and the folder blobs/. It decides which
 * tasks share a transaction. store.c and the copier queue them.
 *
 * A round: take a batch of queued tasks, make room, apply the batch in one transaction (transaction.c), tell
 * the loop. A batch waits up to commit_delay_ms for more tasks. Between rounds: one step of eviction, or, with
 * nothing queued, of the idle work.
 *
 * Failure modes of a batch:
 *   one task cannot be done (its file cannot be moved)   it fails, the others go on
 *   the transaction fails as a whole                     each of its tasks again by itself, so that
 *                                                        only those fail that must
 *   the disk is full or broken                           the tasks fail; nothing was changed
 * transaction.c deals with a full map and a damaged index.
 *
 * Thread: writer.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "store/internal.h"

#define BATCH_MAX 64u       /* tasks in a transaction */
#define BATCH_ENOUGH 32u    /* puts that wait for no more company */
#define IDS_PER_CHANGE 150u /* removals or pins in a transaction: about 5 pages each */
#define TOUCHES_PER_CHANGE 256u
#define EVICT_ALONG 16u /* entries evicted in the same transaction as puts */

struct batch {
    struct task *task[BATCH_MAX];
    size_t n;
};

/* ---- puts ---- */

/* Puts the value's file into blobs/, with a trailer for this row. */
static int place_blob(struct store *s, struct change *c, struct task *t,
                      const struct store_row *old)
{
    struct blob_id id = {t->row.id.owner, t->row.content};
    int rc = WARM_ENOT_FOUND;
    if (t->draft.placed || t->appended)
        return 0; /* done before, in a transaction that failed */
    if (index_has_blob(&s->index, c->txn, &id)) {
        struct blob_state now;
        int fd = -1;
        bool same_id =
            old && old->is_blob && memcmp(&old->content, &t->row.content, sizeof old->content) == 0;
        rc = same_id ? blob_open(&s->files, &id, t->row.len, &fd, &now, &t->err)
                     : blob_append(&s->files, &id, &t->row, &t->before, &t->state, &t->err);
        if (fd >= 0)
            close(fd);
        t->appended = rc == 0 && !same_id;
    }
    if (rc == WARM_ENOT_FOUND || rc == WARM_ECORRUPT) {
        rc = draft_place(&s->files, &t->draft, t->row.id.owner, &t->err);
        t->state_known =
            rc == 0 && blob_fstat(t->draft.fd, &t->state) == 0; /* spares the first hit a hash */
        return rc;
    }
    return 0; /* without a trailer, the row is lost only if the index is lost */
}

/* True if the user may pin this entry, which replaces `old` (NULL: none). */
static bool may_pin(struct store *s, struct change *c, const struct store_row *row,
                    const struct store_row *old)
{
    struct store_share share;
    if (index_share(&s->index, c->txn, entry_user(row), &share) != 0)
        return false;
    uint64_t freed = old && old->pinned ? entry_pinned_bytes(&s->index, old) : 0;
    return share.pinned_bytes + entry_pinned_bytes(&s->index, row) <= evict_pins_max(s) + freed;
}

static int apply_put(struct store *s, struct change *c, struct task *t)
{
    struct store_row old;
    uint64_t now_ms = clock_wall_ms();
    int rc = index_row(&s->index, c->txn, &t->row.id, &old);
    if (rc == WARM_ECORRUPT) {
        rc = quarantine_entry(s, c, &t->row.id, STORE_LEFT_DAMAGED, "its row cannot be read");
        rc = rc ? rc : WARM_ENOT_FOUND;
    }
    if (rc != 0 && rc != WARM_ENOT_FOUND)
        return rc;
    bool there = rc == 0;
    t->existed = there && !row_expired(&old, now_ms) && store_counts(s, &old) && t->keep_existing;
    if (t->existed)
        return 0;
    t->row.pinned |= there && old.pinned && may_pin(s, c, &t->row, &old);
    t->row.created_ms = t->row.accessed_ms = now_ms;
    t->row.hits = 0;
    t->row.heat = 1; /* the request that made it counts */
    if (t->row.is_blob) {
        t->status = place_blob(s, c, t, there ? &old : NULL);
        if (t->status != 0)
            return 0;
    }
    if (there)
        rc = change_remove(c, &old);
    else
        rc = 0;
    assert(!t->row.is_blob || t->draft.fd >= 0); /* (2): the copier has sealed the value */
    rc = rc ? rc : change_insert(c, &t->row, t->data);
    if (rc == 0 && t->row.is_blob)
        change_spare_blob(c, &(struct blob_id){t->row.id.owner, t->row.content});
    return rc;
}

/* ---- tasks on many entries ---- */

static int apply_id(struct store *s, struct change *c, struct task *t, const struct store_id *id)
{
    struct store_row row;
    int rc = index_row(&s->index, c->txn, id, &row);
    if (rc == WARM_ECORRUPT)
        return quarantine_entry(s, c, id, STORE_LEFT_DAMAGED, "its row cannot be read");
    if (rc != 0)
        return rc == WARM_ENOT_FOUND ? 0 : rc;
    if (t->type == TASK_PIN && row.pinned == t->many.pinned)
        return 0;
    if (t->type == TASK_PIN && t->many.pinned && !may_pin(s, c, &row, NULL)) {
        t->many.n_refused++;
        return 0;
    }
    uint32_t marks = (row.tier & ~t->many.off) | t->many.on;
    if (t->type == TASK_MARK && row.tier == marks)
        return 0;
    t->report.n_entries++;
    if (t->type == TASK_REMOVE) {
        uint64_t before = c->totals.n_bytes;
        change_tell(c, id, STORE_LEFT_REMOVED);
        rc = change_remove(c, &row);
        t->report.n_bytes += before - c->totals.n_bytes; /* a value of other entries stays */
        return rc;
    }
    t->report.n_bytes += row.len;
    if (t->type == TASK_MARK) {
        row.tier = marks;
        return change_rewrite(c, &row);
    }
    return change_pin(c, &row, t->many.pinned);
}

static int apply_ids(struct store *s, struct change *c, struct task *t)
{
    int rc = 0;
    for (size_t n = 0; rc == 0 && t->many.next_id < t->many.n_ids && n < IDS_PER_CHANGE; n++)
        rc = apply_id(s, c, t, &t->many.ids[t->many.next_id++]);
    return rc;
}

static int apply_touch(struct store *s, struct change *c, const struct touch *touch)
{
    struct store_row row;
    int rc = index_row(&s->index, c->txn, &touch->id, &row);
    if (rc == WARM_ENOT_FOUND || rc == WARM_ECORRUPT)
        return 0;
    if (rc != 0 || row.accessed_ms >= touch->last_ms)
        return rc; /* replaced, or written before in a repeated transaction */
    row_touch(&row, touch->n_hits, touch->last_ms);
    return change_rewrite(c, &row);
}

static int apply_touches(struct store *s, struct change *c, struct task *t)
{
    int rc = 0;
    size_t n = 0;
    for (; rc == 0 && t->many.next_id < TOUCH_SLOTS && n < TOUCHES_PER_CHANGE; t->many.next_id++)
        if (t->many.touches->slot[t->many.next_id].n_hits) {
            rc = apply_touch(s, c, &t->many.touches->slot[t->many.next_id]);
            n++;
        }
    return rc;
}

/* ---- batches ---- */

static size_t task_end(const struct task *t)
{
    return t->type == TASK_TOUCH ? TOUCH_SLOTS : t->many.n_ids;
}

static void task_mark(struct task *t)
{
    t->many.mark_id = t->many.next_id;
    t->mark_report = t->report;
    t->many.mark_refused = t->many.n_refused;
}

static int apply_task(struct store *s, struct change *c, struct task *t)
{
    t->many.next_id = t->many.mark_id;
    t->report = t->mark_report;
    t->many.n_refused = t->many.mark_refused;
    t->existed = false;
    if (t->type != TASK_CHECK && t->type != TASK_DAMAGED)
        t->status = 0; /* an earlier transaction may have failed */
    switch (t->type) {
    case TASK_PUT: return apply_put(s, c, t);
    case TASK_META: return change_meta(c, (const char *)t->bytes, t->data, (size_t)t->row.len);
    case TASK_REMOVE:
    case TASK_PIN:
    case TASK_MARK: return apply_ids(s, c, t);
    case TASK_TOUCH: return apply_touches(s, c, t);
    case TASK_CHECK:
    case TASK_DAMAGED: return quarantine_damaged(s, c, t);
    case TASK_REFUSED: return quarantine_refused(s, c, t);
    default: return 0;
    }
}

static int apply_batch(struct store *s, struct change *c, void *arg)
{
    struct batch *b = arg;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < b->n; i++)
        rc = apply_task(s, c, b->task[i]);
    if (rc == 0 && s->evictor.active && c->n_pages < CHANGE_PAGES_MAX / 2) {
        rc = evict_some(s, c, EVICT_ANY, EVICT_ALONG, evict_low_water(s));
        rc = rc == WARM_ENOT_FOUND ? 0 : rc;
    }
    return rc;
}

static void run_batch(struct store *s, struct batch *b)
{
    int rc = b->n ? transact(s, apply_batch, b) : 0;
    if (rc != 0 && b->n > 1) {
        for (size_t i = 0; i < b->n; i++)
            run_batch(s, &(struct batch){{b->task[i]}, 1});
    } else if (rc != 0) {
        /* A full disk begins with a short write, which LMDB calls an I/O error. */
        uint64_t space;
        if (rc == EIO && files_space(&s->files, &space) && space < (1u << 20))
            rc = ENOSPC;
        b->task[0]->status = index_error(rc, &b->task[0]->err);
        b->task[0]->many.next_id = task_end(b->task[0]);
    }
}

/* Reports once that the store stops storing, and once that it stores again. */
static void note_health(struct store *s, const struct task *t)
{
    bool failing = t->status == WARM_EFULL || t->status == WARM_EIO;
    if (t->status != 0 && !failing)
        return;
    pthread_mutex_lock(&s->lock);
    bool was_failing = s->stats.read_only;
    s->stats.read_only = failing;
    s->stats.n_puts += !failing;
    pthread_mutex_unlock(&s->lock);
    if (failing && !was_failing)
        store_event(s, "store: not storing: %s", t->err.text);
    if (!failing && was_failing)
        store_event(s, "store: storing again");
}

/* Dooms the file of a put that failed after the file was moved. */
static int doom_placed(struct store *s, struct change *c, void *arg)
{
    struct task *t = arg;
    struct blob_id id = {t->row.id.owner, t->row.content};
    return index_has_blob(&s->index, c->txn, &id) ? 0 : change_doom(c, &id);
}

static void finish_put(struct store *s, struct task *t)
{
    if (t->status != 0 && t->draft.placed && s->index.env)
        transact_once(s, doom_placed, t); /* if this fails too, the idle work finds the file */
    if (t->draft.made) {                  /* the copier unlinks it, which may take long */
        copier_bury(s, t->draft.name);
        t->draft.made = false;
    }
    if (!t->draft.placed)
        draft_drop(&s->files, &t->draft);
    if (t->status == 0 && !t->existed)
        evict_note_put(s, t->row.len);
    note_health(s, t);
    store_finish(s, t);
}

/* Finishes the completed tasks. Others go back to the queue: in front if later ones must not overtake. */
static void finish_batch(struct store *s, struct batch *b)
{
    for (size_t i = b->n; i-- > 0;) {
        struct task *t = b->task[i];
        if (t->many.next_id >= task_end(t))
            continue;
        task_mark(t);
        pthread_mutex_lock(&s->lock);
        if (t->type == TASK_TOUCH)
            task_list_add(&s->queue, t);
        else
            task_list_push(&s->queue, t);
        pthread_mutex_unlock(&s->lock);
        b->task[i] = NULL;
    }
    for (size_t i = 0; i < b->n; i++) {
        struct task *t = b->task[i];
        if (t && t->many.n_refused && t->status == 0)
            t->status = err_set(&t->err, WARM_EFULL,
                                "%zu entries are not pinned: a user may pin %" PRIu64 " bytes",
                                t->many.n_refused, evict_pins_max(s));
        if (t && t->type == TASK_PUT)
            finish_put(s, t);
        else if (t)
            store_finish(s, t);
    }
}

static unsigned task_pages(const struct store *s, const struct task *t)
{
    if (t->type == TASK_PUT)
        return 8 + (t->row.is_blob ? 0 : (unsigned)(t->row.len / s->index.page_bytes));
    size_t n = task_end(t) - t->many.next_id;
    return n ? CHANGE_PAGES_MAX / 2 : 4;
}

/* Takes the tasks that fit into one transaction. Needs `lock`. */
static void take_batch(struct store *s, struct batch *b)
{
    unsigned pages = 0;
    b->n = 0;
    while (s->queue.first && b->n < BATCH_MAX) {
        struct task *t = s->queue.first;
        unsigned more = task_pages(s, t);
        if (b->n && pages + more > CHANGE_PAGES_MAX)
            return;
        task_list_take(&s->queue);
        if (t->type == TASK_EVICT) {
            task_list_add(&s->evictions, t);
            continue;
        }
        pages += more;
        task_mark(t);
        b->task[b->n++] = t;
        if (t->type != TASK_PUT && t->many.next_id + IDS_PER_CHANGE < task_end(t) &&
            t->type != TASK_TOUCH)
            return; /* it needs several transactions: nothing may overtake it */
    }
}

/* Returns the bytes that the first `n` tasks add to a user's share. */
static uint64_t bytes_of_user(const struct store *s, const struct batch *b, size_t n, uint32_t user)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < n; i++)
        if (b->task[i]->type == TASK_PUT && entry_user(&b->task[i]->row) == user)
            bytes += entry_pinned_bytes(&s->index, &b->task[i]->row);
    return bytes;
}

/* Makes room for each put of the batch, and finishes those that get none. */
static void admit_batch(struct store *s, struct batch *b)
{
    uint64_t index_bytes = 0, blob_bytes = 0;
    size_t n = 0;
    for (size_t i = 0; i < b->n; i++) {
        struct task *t = b->task[i];
        if (t->type == TASK_PUT) {
            uint64_t entry = entry_disk_bytes(&s->index, &t->row);
            uint64_t blob = t->row.is_blob ? blob_disk_bytes(t->row.len) : 0;
            uint32_t user = entry_user(&t->row);
            t->status = evict_make_room(s, user, index_bytes + entry, blob_bytes + blob,
                                        bytes_of_user(s, b, n, user) + entry + blob, &t->err);
            if (t->status != 0) {
                finish_put(s, t);
                continue;
            }
            index_bytes += entry;
            blob_bytes += blob;
        }
        b->task[n++] = t;
    }
    b->n = n;
}

/* ---- the thread ---- */

static struct timespec in_ms(uint64_t ms)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += (time_t)(ms / 1000);
    t.tv_nsec += (long)(ms % 1000) * 1000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
    }
    return t;
}

/* Waits for more tasks to share the commit of the first one. Needs `lock`. */
static void wait_for_company(struct store *s)
{
    if (s->config.commit_delay_ms == 0 || !s->queue.first)
        return;
    uint64_t waited = clock_mono_ms() - s->queue.first->queued_ms;
    if (waited >= s->config.commit_delay_ms)
        return;
    struct timespec until = in_ms(s->config.commit_delay_ms - waited);
    while (s->queue.n < BATCH_ENOUGH && !s->writer_stop)
        if (pthread_cond_timedwait(&s->writer_wake, &s->lock, &until) == ETIMEDOUT)
            return;
}

uint64_t store_writer_ms(struct store *s)
{
    clockid_t clock;
    uint64_t began = atomic_load(&s->round_began_ms);
    if (pthread_getcpuclockid(s->writer, &clock) != 0)
        return 0;
    uint64_t now = clock_cpu_ms(clock);
    return now > began ? now - began : 0;
}

void *writer_main(void *store)
{
    struct store *s = store;
    struct batch b;
    uint64_t wait_ms = 0;
    for (;;) {
        pthread_mutex_lock(&s->lock);
        struct timespec until = in_ms(wait_ms);
        while (wait_ms && !s->queue.first && !s->writer_stop && !s->caps_changed &&
               !atomic_load(&s->damaged))
            if (pthread_cond_timedwait(&s->writer_wake, &s->lock, &until) == ETIMEDOUT)
                break;
        s->caps_changed = false; /* this round sees them */
        wait_for_company(s);
        bool stop = s->writer_stop && !s->queue.first;
        take_batch(s, &b);
        pthread_mutex_unlock(&s->lock);
        if (stop)
            break;
        atomic_store(&s->round_began_ms, clock_cpu_ms(CLOCK_THREAD_CPUTIME_ID));
        if (atomic_load(&s->damaged))
            transact_recover(s, MDB_CORRUPTED);
        bool idle = b.n == 0;
        admit_batch(s, &b);
        run_batch(s, &b);
        finish_batch(s, &b);
        bool busy = evict_step(s) | evict_plan_step(s);
        wait_ms = !busy && idle ? idle_step(s) : 0;
    }
    idle_end(s);
    return NULL;
}
