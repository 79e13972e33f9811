/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verify.c - decides if stored entries are sound, by reading them from disk while the store goes on.
 * store_verify starts its thread.
 *
 * It works in chunks. One read transaction covers CHUNK rows: inline values are hashed, rows of blobs are
 * copied. Then the blobs are hashed without a transaction, because an old one would pin pages. The writer
 * checks each damaged entry again before it quarantines it.
 *
 * Thread: its own, one at a time.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/fault.h"
#include "store/internal.h"

#define CHUNK 64u
#define PROGRESS_EVERY 1024u /* entries */

struct verifier {
    struct store *s;
    struct task *task; /* the report */
    void *piece;
    uint64_t sample; /* 0: all */
    struct index_place place;
    struct store_row blobs[CHUNK];
    size_t n_blobs;
    uint64_t rng;
};

/* Counts a damaged entry and tells the writer, which will see the same bytes. */
static void report_damage(struct verifier *v, const struct store_row *row, int status,
                          const struct blob_state *state)
{
    struct task *t = task_damaged(row, status, state);
    v->task->report.n_corrupt++;
    if (t)
        store_queue_writer(v->s, t);
}

static int check_row(struct verifier *v, MDB_txn *txn, const struct store_row *row)
{
    struct view value;
    v->task->report.n_entries++;
    v->task->report.n_bytes += row->len;
    if (row->is_blob) {
        assert(v->n_blobs < CHUNK);
        v->blobs[v->n_blobs++] = *row;
        return 0;
    }
    int rc = index_value(&v->s->index, txn, &row->id, row->len, &value);
    rc = rc ? rc : index_check_value(row, value);
    if (rc == WARM_ECORRUPT || rc == WARM_ENOT_FOUND) {
        report_damage(v, row, WARM_ECORRUPT, NULL);
        rc = 0;
    }
    return rc;
}

/* Moves to a random place in the range of an owner, which is drawn by its bytes. */
static int place_at_random(struct verifier *v, MDB_txn *txn)
{
    uint32_t owner;
    int rc = index_pick_owner(&v->s->index, txn, random_next, &v->rng, &owner);
    if (rc != 0)
        return rc;
    index_key(&(struct store_id){.owner = owner}, v->place.key);
    for (size_t i = 4; i < INDEX_KEY; i++)
        v->place.key[i] = (uint8_t)(random_next(&v->rng) >> 56);
    v->place.after = v->place.standing = false;
    return 0;
}

/* Checks up to CHUNK rows from v->place on. For a sample, each row is at another random place. */
static int read_chunk(struct verifier *v, MDB_txn *txn)
{
    MDB_cursor *cursor;
    int rc = mdb_cursor_open(txn, v->s->index.row, &cursor);
    if (rc != 0)
        return rc;
    v->place.standing = false;
    for (size_t i = 0; rc == 0 && i < CHUNK; i++) {
        struct store_row row;
        if (v->sample && v->task->report.n_entries >= v->sample)
            break;
        if (v->sample)
            rc = place_at_random(v, txn);
        if (rc != 0)
            break;
        rc = index_next(&v->s->index, cursor, &v->place, &row);
        if (rc == WARM_ENOT_FOUND && v->sample) {
            memset(&v->place, 0, sizeof v->place);
            rc = index_next(&v->s->index, cursor, &v->place, &row);
        }
        if (rc == 0) {
            rc = check_row(v, txn, &row);
        } else if (rc == WARM_ECORRUPT) {
            v->task->report.n_entries++;
            report_damage(v, &row, WARM_ECORRUPT, NULL);
            rc = 0;
        }
    }
    mdb_cursor_close(cursor);
    return rc;
}

static int check_blob(struct verifier *v, const struct store_row *row)
{
    struct blob_id id = {row->id.owner, row->content};
    struct blob_state state = {0};
    int fd = -1;
    int rc = blob_open(&v->s->files, &id, row->len, &fd, &state, NULL);
    if (rc == 0)
        rc = blob_check(fd, row->len, &row->check, v->piece, &v->s->stopping, NULL);
    if (fd >= 0)
        close(fd);
    if (rc == WARM_ECORRUPT || rc == WARM_ENOT_FOUND) {
        struct store_row now; /* a missing file may just have been evicted with its row */
        MDB_txn *txn = NULL;
        pthread_rwlock_rdlock(&v->s->env_lock);
        bool there = v->s->index.env && index_read_begin(&v->s->index, &txn) == 0 &&
                     index_row(&v->s->index, txn, &row->id, &now) == 0;
        if (txn)
            mdb_txn_abort(txn);
        pthread_rwlock_unlock(&v->s->env_lock);
        if (there)
            report_damage(v, row, rc, &state);
        rc = 0;
    }
    return rc;
}

/* Checks one chunk. Returns 0 if there is more, NOT_FOUND at the end. */
static int verify_chunk(struct verifier *v)
{
    MDB_txn *txn = NULL;
    v->n_blobs = 0;
    pthread_rwlock_rdlock(&v->s->env_lock);
    int rc = v->s->index.env ? index_read_begin(&v->s->index, &txn) : WARM_EIO;
    rc = rc ? rc : read_chunk(v, txn);
    if (txn)
        mdb_txn_abort(txn);
    pthread_rwlock_unlock(&v->s->env_lock);
    for (size_t i = 0; (rc == 0 || rc == WARM_ENOT_FOUND) && i < v->n_blobs; i++) {
        int blob_rc = check_blob(v, &v->blobs[i]);
        rc = blob_rc ? blob_rc : rc;
    }
    if (atomic_load(&v->s->stopping))
        return WARM_ECANCELLED;
    if (rc == 0 && v->sample && v->task->report.n_entries >= v->sample)
        return WARM_ENOT_FOUND;
    return rc;
}

static void tell_progress(struct verifier *v)
{
    struct task *t = v->task->verify.on_progress ? task_new(TASK_VERIFY, 0) : NULL;
    if (!t)
        return;
    t->verify.on_progress = v->task->verify.on_progress;
    t->arg = v->task->arg;
    t->verify.done = v->task->report.n_entries;
    t->verify.total = v->task->verify.total;
    store_finish(v->s, t);
}

void *verify_main(void *task)
{
    struct task *t = task;
    assert(t->type == TASK_VERIFY && t->verify.store);
    struct store *s = t->verify.store;
    struct verifier *v = fault_calloc(1, sizeof *v);
    void *piece = fault_malloc(BLOB_PIECE);
    int rc = v && piece ? 0 : WARM_ENOMEM;
    uint64_t told = 0;
    if (rc == 0)
        *v = (struct verifier){.s = s, .task = t, .piece = piece, .sample = t->verify.sample};
    if (rc == 0)
        v->rng = clock_mono_ms() * 2654435761u;
    while (rc == 0) {
        rc = verify_chunk(v);
        if (t->report.n_entries - told >= PROGRESS_EVERY) {
            told = t->report.n_entries;
            tell_progress(v);
        }
    }
    if (rc == WARM_ENOT_FOUND)
        rc = 0;
    if (rc == 0)
        tell_progress(v);
    free(v);
    free(piece);
    t->status = index_error(rc, &t->err);
    atomic_store(&s->verifying, false); /* before its callback can ask for another */
    store_finish(s, t);
    return NULL;
}
