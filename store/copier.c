/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copier.c - the thread that moves large values, so that the writer thread never waits for one.
 *
 * A put: copy to tmp/ and hash; append the trailer; hand over to the writer, which renames and
 * commits. A check: hash a blob; if it is damaged, the writer is asked to quarantine it. A burial:
 * unlink, which takes milliseconds for large files. Any other task passes through in its turn.
 *
 * Failure modes: a put that cannot be copied is finished with its error and leaves nothing behind;
 * everything else goes on.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/fault.h"
#include "store/internal.h"

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

static void bury(struct store *s, struct burial *b)
{
    while (b) {
        struct burial *next = b->next;
        blob_bury(&s->files, b->name);
        free(b);
        b = next;
    }
}

/* A value that turned out to be small is stored inline. */
static int read_inline(struct task *t)
{
    t->data = fault_malloc(t->row.len ? (size_t)t->row.len : 1);
    if (!t->data)
        return err_set(&t->err, WARM_ENOMEM, "out of memory");
    int rc = value_read(t->fd, t->data, (size_t)t->row.len, &t->err);
    if (rc == 0)
        t->row.check = key_of_bytes(t->data, (size_t)t->row.len);
    return rc;
}

static int copy_blob(struct store *s, struct task *t)
{
    int rc = draft_make(&s->files, &t->draft, t->data, t->fd, t->row.len, &t->err);
    if (rc != 0)
        return rc;
    t->row.is_blob = true;
    t->row.check = t->draft.check;
    t->row.content = t->draft.content;
    rc = draft_seal(&s->files, &t->draft, &t->row, &t->err);
    if (rc != 0)
        draft_drop(&s->files, &t->draft);
    return rc;
}

static void copy_value(struct store *s, struct task *t)
{
    bool is_blob = t->row.len > STORE_INLINE_MAX;
    if (is_blob)
        t->status = copy_blob(s, t);
    else if (t->fd >= 0)
        t->status = read_inline(t);
    if (t->fd >= 0)
        close(t->fd);
    t->fd = -1;
    if (is_blob) {
        free(t->data);
        t->data = NULL;
    }
}

static void check_blob(struct store *s, struct task *t)
{
    struct blob_id id = {t->row.id.owner, t->row.content};
    int fd = -1;
    void *piece = fault_malloc(BLOB_PIECE);
    t->status = piece ? blob_open(&s->files, &id, t->row.len, &fd, &t->state, &t->err)
                      : err_set(&t->err, WARM_ENOMEM, "out of memory");
    if (t->status == 0)
        t->status = blob_check(fd, t->row.len, &t->row.check, piece, &s->stopping, &t->err);
    free(piece);
    if (t->status == 0) {
        t->draft.fd = fd;
        t->state_known = true;
    } else if (fd >= 0) {
        close(fd);
    }
}

/* True if the task is for the writer now; false if it is finished. */
static bool work(struct store *s, struct task *t)
{
    switch (t->type) {
    case TASK_PUT: copy_value(s, t); return t->status == 0;
    case TASK_CHECK:
        check_blob(s, t);
        return t->status == WARM_ECORRUPT || t->status == WARM_ENOT_FOUND;
    default: return true;
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
    files_sweep_tmp(&s->files);
    pthread_mutex_lock(&s->lock);
    for (;;) {
        if (s->burials) {
            struct burial *b = s->burials;
            s->burials = NULL;
            pthread_mutex_unlock(&s->lock);
            bury(s, b);
            pthread_mutex_lock(&s->lock);
        } else if (s->copying.first) {
            struct task *t = s->copying.first; /* stays in the list: later tasks queue behind it */
            pthread_mutex_unlock(&s->lock);
            bool to_writer = work(s, t);
            pthread_mutex_lock(&s->lock);
            task_list_take(&s->copying);
            pass_on(s, t, to_writer);
        } else if (s->copier_stop) {
            break;
        } else {
            pthread_cond_wait(&s->copier_wake, &s->lock);
        }
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}
