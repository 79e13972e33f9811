/* SPDX-License-Identifier: Apache-2.0 */
/*
 * idle.c - decides what the writer thread does while nothing is queued, in pieces of a few milliseconds.
 * idle_plan.c says when. writer.c calls idle_step between its batches.
 *
 *   walk       over blobs/, once after each open. If the index is new, the walk adopts the rows in the
 *              trailers: this is the rebuild. Then it removes files that no row refers to: a crash left
 *              them between rename and commit. After a row was lost that could not be read, the walk is
 *              deep: a blob also goes if none of the rows in its trailers is in the index.
 *   expiry     a sample of rows each second; more while many of them have expired
 *   readers    frees the slots of dead processes in LMDB's table, each minute
 *   sync       meta pages are durable a second after the last commit: a power failure of an idle machine
 *              loses nothing
 *   old        entries with keys of older versions are counted (old.c)
 *   wake       the loop, each minute, so that it hands over its table of hits
 *
 * Failure modes of the walk: a file that cannot be read now (no memory, no descriptors, an I/O error) stays,
 * and the walk is repeated later. If the index is replaced during a walk, the walk begins again.
 *
 * Thread: writer.
 */
#include <assert.h>
#include <string.h>
#include <unistd.h>

#include "store/internal.h"

#define WALK_FILES 32u /* in one step */
#define EXPIRY_MANY 8u /* of a sample of 32 */

struct adoption {
    struct store *s;
    struct change *c;
    const struct blob_id *id;
    uint64_t size;
    int rc;
};

/* True if the file's row is newer than the index's row of that id, or the index has none. */
static bool is_wanted(const struct adoption *a, const struct store_row *row)
{
    struct store_row have;
    if (row->id.owner != a->id->owner || !row->is_blob || row->len > a->size ||
        memcmp(&row->content, &a->id->content, sizeof row->content) != 0 ||
        row_expired(row, clock_wall_ms()))
        return false;
    int rc = index_row(&a->s->index, a->c->txn, &row->id, &have);
    return rc == WARM_ENOT_FOUND || (rc == 0 && have.created_ms < row->created_ms);
}

static bool on_trailer(void *arg, const struct store_row *row)
{
    struct adoption *a = arg;
    struct store_row have;
    if (!is_wanted(a, row))
        return true;
    a->rc = index_row(&a->s->index, a->c->txn, &row->id, &have);
    if (a->rc == 0)
        a->rc = change_remove(a->c, &have);
    else if (a->rc == WARM_ENOT_FOUND)
        a->rc = 0;
    a->rc = a->rc ? a->rc : change_insert(a->c, row, NULL);
    if (a->rc == 0) {
        change_spare_blob(a->c, a->id);
        a->s->idle.n_adopted++;
    }
    return a->rc == 0;
}

/* Adopts the rows of a file. *out_unread: it cannot be read now. */
static int adopt(struct store *s, struct change *c, const struct blob_id *id, bool *out_unread)
{
    struct adoption a = {.s = s, .c = c, .id = id};
    struct blob_state state;
    size_t n;
    int fd = -1;
    int rc = blob_open(&s->files, id, 0, &fd, &state, NULL);
    *out_unread = rc != 0 && rc != WARM_ENOT_FOUND && rc != WARM_ECORRUPT;
    if (rc != 0)
        return 0;
    a.size = state.size;
    *out_unread = blob_rows(fd, state.size, on_trailer, &a, &n) != 0;
    close(fd);
    return a.rc;
}

/* ---- blobs whose rows are lost ---- */

struct references {
    struct store *s;
    MDB_txn *txn;
    const struct blob_id *id;
    bool found;
};

static bool on_reference(void *arg, const struct store_row *trailer)
{
    struct references *r = arg;
    struct store_row row;
    r->found |= index_row(&r->s->index, r->txn, &trailer->id, &row) == 0 && row.is_blob &&
                memcmp(&row.content, &r->id->content, sizeof row.content) == 0;
    return !r->found;
}

static bool is_referred_to(struct store *s, MDB_txn *txn, const struct blob_id *id)
{
    struct references r = {s, txn, id, false};
    struct blob_state state;
    size_t n = 0;
    int fd = -1;
    if (blob_open(&s->files, id, 0, &fd, &state, NULL) != 0)
        return true; /* unknown */
    int rc = blob_rows(fd, state.size, on_reference, &r, &n);
    close(fd);
    /* With many trailers, some may be missing. */
    return r.found || rc != 0 || n == 0 || n > BLOB_TRAILERS_MAX / ROW_MAX;
}

/* ---- the walk ---- */

static bool is_orphan(struct store *s, MDB_txn *txn, const struct blob_id *id)
{
    return !index_has_blob(&s->index, txn, id) || (s->idle.deep && !is_referred_to(s, txn, id));
}

struct walked {
    struct blob_id id[WALK_FILES];
    size_t n;
};

static int apply_walked(struct store *s, struct change *c, void *arg)
{
    const struct walked *w = arg;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < w->n; i++) {
        bool unread = false;
        if (s->index.adopting)
            rc = adopt(s, c, &w->id[i], &unread);
        s->idle.unread |= unread;
        if (rc == 0 && !unread && is_orphan(s, c->txn, &w->id[i]))
            rc = index_has_blob(&s->index, c->txn, &w->id[i]) ? change_forget_blob(c, &w->id[i])
                                                              : change_doom(c, &w->id[i]);
    }
    return rc;
}

/* Clears `adopting`, unless the index was replaced since the walk began: the new one needs a new walk. */
static int apply_adopted(struct store *s, struct change *c, void *arg)
{
    const unsigned *walk = arg;
    return s->idle.n_begun == *walk ? change_adopted(c) : 0;
}

/* True if one of the files is an orphan. A read transaction is enough to tell. */
static bool needs_change(struct store *s, const struct walked *w)
{
    MDB_txn *txn = NULL;
    bool needed = false;
    if (index_read_begin(&s->index, &txn) != 0)
        return false;
    for (size_t i = 0; !needed && i < w->n; i++)
        needed = is_orphan(s, txn, &w->id[i]);
    mdb_txn_abort(txn);
    return needed;
}

/* Ends a complete walk: a new index now knows all files. */
static void walk_done(struct store *s, uint64_t now_ms)
{
    assert(s->idle.walking && !s->idle.unread); /* a complete walk */
    bool adopting = s->index.adopting;
    unsigned walk = s->idle.n_begun;
    idle_end(s);
    s->idle.deep = false;
    if (!adopting)
        return;
    int rc = transact(s, apply_adopted, &walk);
    if (s->idle.n_begun != walk)
        return;
    if (rc != 0) {
        idle_walk_again(s, now_ms);
        return;
    }
    s->index.adopting = false;
    if (s->idle.n_adopted)
        store_event(s, "store: rebuilt the index of %llu large entries from their files",
                    (unsigned long long)s->idle.n_adopted);
}

static void walk_step(struct store *s, uint64_t now_ms)
{
    struct walked w = {.n = 0};
    struct idle *idle = &s->idle;
    unsigned walk = idle->n_begun;
    int rc = 0;
    if (!idle->walking && blob_walk_begin(&s->files, &idle->walk, NULL) != 0) {
        idle_walk_again(s, now_ms);
        return;
    }
    idle->walking = true;
    while (w.n < WALK_FILES && blob_walk_next(&idle->walk, &w.id[w.n]))
        w.n++;
    if (w.n && (s->index.adopting || needs_change(s, &w)))
        rc = transact(s, apply_walked, &w);
    if (idle->n_begun != walk)
        return;    /* the index was replaced: the walk begins again */
    if (rc != 0) { /* a full or failing disk */
        idle_walk_again(s, now_ms);
    } else if (w.n < WALK_FILES) {
        if (idle->unread || idle->walk.incomplete)
            idle_walk_again(s, now_ms);
        else
            walk_done(s, now_ms);
    } else {
        idle->next_walk_ms = now_ms + (s->index.adopting ? 0 : IDLE_WALK_PACE_MS);
    }
}

uint64_t idle_step(struct store *s)
{
    struct idle *idle = &s->idle;
    uint64_t now_ms = clock_mono_ms();
    if (!s->index.env)
        return IDLE_EXPIRY_MS; /* the next change tries to open it again */
    if (now_ms >= idle->next_walk_ms)
        walk_step(s, now_ms);
    if (now_ms >= idle->next_expiry_ms)
        idle->next_expiry_ms = now_ms + (evict_expired(s) >= EXPIRY_MANY ? 0 : IDLE_EXPIRY_MS);
    if (s->old_before_ms && now_ms >= idle->next_old_ms)
        idle->next_old_ms = old_step(s, now_ms);
    if (now_ms >= idle->next_check_ms) {
        index_check_readers(&s->index);
        idle->next_check_ms = now_ms + IDLE_MINUTE_MS;
    }
    if (now_ms >= idle->next_sync_ms) {
        index_sync(&s->index);
        idle->next_sync_ms = IDLE_NEVER;
    }
    if (now_ms >= idle->next_wake_ms) {
        if (s->config.on_wake)
            s->config.on_wake(s->config.on_wake_arg);
        idle->next_wake_ms = now_ms + IDLE_MINUTE_MS;
    }
    return idle_wait_ms(s);
}
