/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lanes.c - decides which task the copier takes next: users in turn, and each user's tasks in order. The
 * loop adds tasks through store_queue; the copier takes them.
 *
 *     user 7   put 4 GiB ─ put ─ put          a slice of 7's, a slice of 9's, a slice of 7's …
 *     user 9   put 70 KB
 *
 * A task waits for earlier tasks of other users only if they concern the same entry. Several users can
 * put the daemon's own entries, and those of a sharing group.
 *
 * Invariants: (1) a lane's tasks are in the order of their serial numbers; (2) no lane is empty.
 *
 * Thread: any, with the store's `lock` held.
 */
#include <assert.h>
#include <stdlib.h>

#include "store/fault.h"
#include "store/internal.h"

static bool is_about_many(const struct task *t)
{
    return t->type == TASK_REMOVE || t->type == TASK_PIN || t->type == TASK_MARK ||
           t->type == TASK_EVICT;
}

/* True if `wide`, a task on many entries, may change the entry of `one`. */
static bool concerns(const struct task *wide, const struct task *one)
{
    const struct store_filter *f = &wide->evict.filter;
    if (wide->type == TASK_EVICT)
        return (f->owner < 0 && f->maker < 0) || f->owner == (int64_t)one->row.id.owner ||
               f->maker == (int64_t)one->row.maker;
    for (size_t i = 0; i < wide->many.n_ids; i++)
        if (store_id_equal(&wide->many.ids[i], &one->row.id))
            return true;
    return false;
}

static bool conflict(const struct task *a, const struct task *b)
{
    if (is_about_many(a))
        return !is_about_many(b) && concerns(a, b);
    return is_about_many(b) ? concerns(b, a) : store_id_equal(&a->row.id, &b->row.id);
}

static uint32_t user_of(const struct task *t)
{
    if (t->type == TASK_EVICT)
        return t->evict.filter.maker >= 0 ? (uint32_t)t->evict.filter.maker : 0;
    if (is_about_many(t))
        return t->many.n_ids ? t->many.ids[0].owner : 0;
    return t->row.maker;
}

static struct lane *lane_of(struct lanes *l, uint32_t user)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->lane[i].user == user)
            return &l->lane[i];
    return NULL;
}

/* Copies a lane. An empty task_list points at itself, and must be made anew at its new place. */
static void lane_move(struct lane *to, const struct lane *from)
{
    *to = *from;
    if (!to->tasks.first)
        to->tasks.last = &to->tasks.first;
}

static struct lane *lane_new(struct lanes *l, uint32_t user)
{
    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 8;
        struct lane *grown = fault_malloc(cap * sizeof *grown);
        if (!grown)
            return l->n ? &l->lane[0] : NULL; /* turns are then less fair; nothing else changes */
        for (size_t i = 0; i < l->n; i++)
            lane_move(&grown[i], &l->lane[i]);
        free(l->lane);
        l->lane = grown;
        l->cap = cap;
    }
    struct lane *lane = &l->lane[l->n++];
    lane->user = user;
    task_list_init(&lane->tasks);
    return lane;
}

bool lanes_add(struct lanes *l, struct task *t)
{
    uint32_t user = user_of(t);
    struct lane *lane = lane_of(l, user);
    if (!lane)
        lane = lane_new(l, user);
    if (!lane)
        return false;
    assert(!lane->tasks.first || lane->tasks.first->serial <= l->serial); /* (1) */
    t->serial = ++l->serial;
    task_list_add(&lane->tasks, t);
    return true;
}

/* True if an earlier task of another lane concerns the same entry. */
static bool must_wait(const struct lanes *l, const struct lane *own, const struct task *t)
{
    for (size_t i = 0; i < l->n; i++) {
        const struct task *other = &l->lane[i] == own ? NULL : l->lane[i].tasks.first;
        for (; other && other->serial < t->serial; other = other->next)
            if (conflict(other, t))
                return true;
    }
    return false;
}

/* Gives the turn to the next user in numeric order, and after the last to the first. */
struct task *lanes_next(struct lanes *l)
{
    const struct lane *best = NULL;
    for (size_t i = 0; i < l->n; i++) {
        const struct lane *lane = &l->lane[i];
        assert(lane->tasks.first); /* (2) */
        uint32_t distance = lane->user - l->turn - 1;
        if ((!best || distance < best->user - l->turn - 1) &&
            !must_wait(l, lane, lane->tasks.first))
            best = lane;
    }
    if (!best)
        return NULL;
    l->turn = best->user;
    return best->tasks.first;
}

void lanes_take(struct lanes *l, struct task *t)
{
    size_t i = 0;
    while (i < l->n && l->lane[i].tasks.first != t)
        i++;
    assert(i < l->n);
    task_list_take(&l->lane[i].tasks);
    if (!l->lane[i].tasks.first && i != --l->n)
        lane_move(&l->lane[i], &l->lane[l->n]);
}

bool lanes_hold_up(const struct lanes *l, const struct task *t)
{
    for (size_t i = 0; i < l->n; i++)
        for (const struct task *other = l->lane[i].tasks.first; other; other = other->next)
            if (conflict(other, t))
                return true;
    return false;
}

void lanes_free(struct store *s, struct lanes *l)
{
    for (struct task *t; (t = lanes_next(l));) {
        lanes_take(l, t);
        task_free(s, t);
    }
    free(l->lane);
    *l = (struct lanes){0};
}
