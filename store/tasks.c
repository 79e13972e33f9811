/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tasks.c - decides which thread a task goes to: the copier, the writer, and back to the loop. store.c
 * queues tasks; the copier, the writer and verification finish them.
 *
 * Thread: any; store_queue, store_queue_writer and store_finish take `lock`.
 */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "store/fault.h"
#include "store/store_internal.h"

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
    assert(l->last && !*l->last);
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
    hashing_free(t->hashing);
    free(t->data);
    free(t->ids);
    free(t);
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
