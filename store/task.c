/* SPDX-License-Identifier: Apache-2.0 */
/*
 * task.c - makes and frees tasks, and keeps lists of them. lanes.c, queue.c and the threads of the store
 * call it.
 *
 * Thread: as in task.h.
 */
#include "store/task.h"

#include <assert.h>
#include <stdlib.h>
#include <unistd.h>

#include "store/fault.h"
#include "store/internal.h"

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

struct task *task_damaged(const struct store_row *row, int status, const struct blob_state *state)
{
    struct task *t = task_new(TASK_DAMAGED, 0);
    if (!t)
        return NULL;
    t->row = (struct store_row){.id = row->id, .content = row->content};
    t->status = status;
    if (state)
        t->state = *state;
    return t;
}

void task_free(struct store *s, struct task *t)
{
    if (t->fd >= 0)
        close(t->fd);
    draft_drop(&s->files, &t->draft);
    hashing_free(t->hashing);
    free(t->data);
    free(t->many.ids);
    free(t);
}
