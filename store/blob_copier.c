/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blob_copier.c - copies and hashes large values, so that the writer thread never waits for one.
 * store_queue adds its tasks; it passes them on to the writer or finishes them.
 *
 *   put      copy to tmp/ and hash, in slices; compare with the client's digest; append the trailer; the
 *            writer then renames and commits
 *   check    hash a blob, in slices; the writer quarantines a damaged one
 *   burial   unlink a file in tmp/, which takes milliseconds if it is large
 *   others   pass through in their turn, to keep the order of an id
 *
 * After each slice another user has the turn (lanes.c).
 *
 * Failure modes: a put that cannot be copied is finished with its error and leaves no file. All other
 * work goes on.
 *
 * Thread: copier; copier_bury any.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/fault.h"
#include "store/internal.h"

#define SLICE (4u << 20) /* bytes copied or hashed before another user's turn */

void copier_bury(struct store *s, const char *name)
{
    struct burial *b = fault_malloc(sizeof *b);
    if (!b) {
        blob_bury(&s->files, name);
        return;
    }
    memcpy(b->name, name, sizeof b->name);
    pthread_mutex_lock(&s->lock);
    b->next = s->burials;
    s->burials = b;
    pthread_cond_signal(&s->copier_wake);
    pthread_mutex_unlock(&s->lock);
}

enum progress {
    MORE,      /* another slice is left */
    TO_WRITER, /* the writer goes on with it */
    FINISHED,
};

/* Compares the value's digest with the client's, if it gave one. */
static int compare(struct task *t)
{
    t->hashed = true;
    if (!t->expects || key_equal(&t->row.check, &t->expected))
        return 0;
    return err_set(&t->err, WARM_ECORRUPT, "the value is not what its checksum says");
}

/* Reads a small value from its descriptor: it is stored inline. */
static int read_inline(struct task *t)
{
    t->data = fault_malloc(t->row.len ? (size_t)t->row.len : 1);
    if (!t->data)
        return err_set(&t->err, WARM_ENOMEM, "out of memory");
    int rc = value_read(t->fd, t->data, (size_t)t->row.len, &t->err);
    if (rc == 0)
        t->row.check = key_of_bytes(t->data, (size_t)t->row.len);
    return rc ? rc : compare(t);
}

static int seal_blob(struct store *s, struct task *t)
{
    assert(t->draft.made && !t->draft.placed);
    t->row.is_blob = true;
    t->row.check = t->draft.check;
    t->row.content = t->draft.content;
    int rc = compare(t);
    rc = rc ? rc : draft_seal(&s->files, &t->draft, &t->row, &t->err);
    if (rc != 0)
        draft_drop(&s->files, &t->draft);
    return rc;
}

/* Copies the next slice. Returns 1 while there is more. */
static int copy_slice(struct store *s, struct task *t)
{
    int rc = 0;
    if (!t->hashing) {
        t->hashing = hashing_new();
        rc = t->hashing ? draft_begin(&s->files, &t->draft, t->row.len, &t->err)
                        : err_set(&t->err, WARM_ENOMEM, "out of memory");
    }
    if (rc == 0)
        rc = draft_copy(&s->files, &t->draft, t->hashing, t->data, t->fd, SLICE, &t->err);
    return rc ? rc : seal_blob(s, t);
}

static enum progress copy_value(struct store *s, struct task *t)
{
    bool is_blob = t->row.len > STORE_INLINE_MAX;
    t->status = is_blob ? copy_slice(s, t) : t->fd >= 0 ? read_inline(t) : 0;
    if (t->status > 0)
        return MORE;
    hashing_free(t->hashing);
    t->hashing = NULL;
    if (t->fd >= 0)
        close(t->fd);
    t->fd = -1;
    if (is_blob) {
        free(t->data);
        t->data = NULL;
    }
    return t->status == 0 ? TO_WRITER : FINISHED;
}

static int check_slice(struct store *s, struct task *t)
{
    struct blob_id id = {t->row.id.owner, t->row.content};
    if (!t->hashing) {
        t->hashing = hashing_new();
        if (!t->hashing)
            return err_set(&t->err, WARM_ENOMEM, "out of memory");
        int rc = blob_open(&s->files, &id, t->row.len, &t->draft.fd, &t->state, &t->err);
        if (rc != 0)
            return rc;
    }
    if (atomic_load(&s->stopping))
        return err_set(&t->err, WARM_ECANCELLED, "cancelled");
    return blob_check_some(t->draft.fd, t->row.len, &t->row.check, t->hashing, SLICE, &t->err);
}

static enum progress check_blob(struct store *s, struct task *t)
{
    t->status = check_slice(s, t);
    if (t->status > 0)
        return MORE;
    hashing_free(t->hashing);
    t->hashing = NULL;
    t->state_known = t->status == 0;
    if (t->status != 0 && t->draft.fd >= 0) {
        close(t->draft.fd);
        t->draft.fd = -1;
    }
    return t->status == WARM_ECORRUPT || t->status == WARM_ENOT_FOUND ? TO_WRITER : FINISHED;
}

static enum progress work(struct store *s, struct task *t)
{
    switch (t->type) {
    case TASK_PUT: return copy_value(s, t);
    case TASK_CHECK: return check_blob(s, t);
    default: return TO_WRITER;
    }
}

static void pass_on(struct store *s, struct task *t, bool to_writer)
{
    if (to_writer) {
        task_list_add(&s->queue, t);
        pthread_cond_signal(&s->writer_wake);
        return;
    }
    pthread_mutex_unlock(&s->lock);
    store_finish(s, t);
    pthread_mutex_lock(&s->lock);
}

void *copier_main(void *store)
{
    struct store *s = store;
    struct task *t;
    files_sweep_tmp(&s->files);
    pthread_mutex_lock(&s->lock);
    for (;;) {
        if (s->burials) {
            struct burial *b = s->burials;
            s->burials = NULL;
            pthread_mutex_unlock(&s->lock);
            while (b) {
                struct burial *next = b->next;
                blob_bury(&s->files, b->name);
                free(b);
                b = next;
            }
            pthread_mutex_lock(&s->lock);
        } else if ((t = lanes_next(&s->copying))) { /* it stays: later tasks queue behind it */
            pthread_mutex_unlock(&s->lock);
            enum progress progress = work(s, t);
            pthread_mutex_lock(&s->lock);
            if (progress == MORE)
                continue;
            lanes_take(&s->copying, t);
            pass_on(s, t, progress == TO_WRITER);
        } else if (s->copier_stop) {
            break;
        } else {
            pthread_cond_wait(&s->copier_wake, &s->lock);
        }
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}
