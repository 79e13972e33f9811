/* SPDX-License-Identifier: Apache-2.0 */
/*
 * queue.c - decides which thread a task goes to: the copier, the writer, and back to the loop. store.c
 * queues tasks; the copier, the writer and verification finish them.
 *
 * Thread: any; all but store_event take `lock`.
 */
#include <stdarg.h>
#include <stdio.h>

#include "store/internal.h"

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

/* True if the copier has to work on the task, or to keep the order of its id. Needs `lock`. */
static bool is_for_copier(const struct store *s, const struct task *t)
{
    if (t->type == TASK_CHECK)
        return true;
    if (t->type == TASK_META || t->type == TASK_TOUCH)
        return false;
    if (t->type == TASK_PUT && (t->fd >= 0 || t->row.len > STORE_INLINE_MAX))
        return true;
    return lanes_hold_up(&s->copying, t);
}

void store_queue(struct store *s, struct task *t)
{
    pthread_mutex_lock(&s->lock);
    bool to_copier = is_for_copier(s, t);
    bool queued = true;
    if (to_copier) {
        queued = lanes_add(&s->copying, t);
        pthread_cond_signal(&s->copier_wake);
    } else {
        task_list_add(&s->queue, t);
        pthread_cond_signal(&s->writer_wake);
    }
    pthread_mutex_unlock(&s->lock);
    if (!queued) {
        t->status = err_set(&t->err, WARM_ENOMEM, "out of memory");
        store_finish(s, t);
    }
}

void store_note_dropped(struct store *s, const struct blob_id *id)
{
    pthread_mutex_lock(&s->lock);
    if (s->n_dropped < DROPPED_MAX)
        s->dropped[s->n_dropped] = *id;
    s->n_dropped++;
    pthread_mutex_unlock(&s->lock);
}
