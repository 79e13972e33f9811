/* SPDX-License-Identifier: Apache-2.0 */
/*
 * evict_plan.c - decides in which order store_evict removes the entries that match its filter: least worth
 * first, over any number of entries, in bounded memory. The writer calls it step by step between its
 * batches.
 *
 *     scan all rows ──▶ keep the PLAN_MAX least worth ──▶ remove them in order ──▶ enough: done
 *          ▲            (of those above the last pass)              │
 *          └────────────────────── there were more ─────────────────┘
 *
 * If all matches must go, order does not matter, and one scan does it.
 *
 * Failure modes: an entry that was pinned, replaced or removed since the scan is skipped. An error ends the
 * work, and the report says how far it came.
 *
 * Thread: writer.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "store/fault.h"
#include "store/internal.h"

#define PLAN_MAX 16384u /* entries that are sorted at a time: 0.6 MB */
#define SCAN_STEP 2000u /* rows looked at in one step */
#define REMOVE_STEP 64u /* entries removed in one step */

struct planned {
    double worth;
    struct store_id id;
    uint64_t len;
};
struct evict_plan {
    struct task *task;
    bool removing;   /* the plan; else scanning */
    bool all;        /* all matches go, in no order */
    bool overflowed; /* this scan found more than the plan holds */
    bool scanned;    /* to the end */
    struct index_place place;
    struct planned last; /* of the pass before */
    bool has_last;
    uint64_t left_bytes; /* dry run: bytes that would be left in the store */
    size_t n, next;
    struct planned entry[PLAN_MAX];
};

static int planned_order(const void *a, const void *b)
{
    const struct planned *x = a, *y = b;
    if (x->worth != y->worth)
        return x->worth < y->worth ? -1 : 1;
    return memcmp(&x->id, &y->id, sizeof x->id);
}

/* Restores the heap, whose top is the most valuable entry, from place i down. */
static void plan_sink(struct evict_plan *plan, size_t i)
{
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= plan->n)
            return;
        if (child + 1 < plan->n && planned_order(&plan->entry[child], &plan->entry[child + 1]) < 0)
            child++;
        if (planned_order(&plan->entry[i], &plan->entry[child]) >= 0)
            return;
        struct planned swap = plan->entry[i];
        plan->entry[i] = plan->entry[child];
        plan->entry[child] = swap;
        i = child;
    }
}

/* Adds an entry, or replaces the most valuable one of a full plan. */
static void plan_add(struct evict_plan *plan, const struct planned *p)
{
    assert(plan->n <= PLAN_MAX);
    if (plan->has_last && planned_order(p, &plan->last) <= 0)
        return;
    if (plan->n < PLAN_MAX) {
        plan->entry[plan->n++] = *p;
        if (plan->n == PLAN_MAX && !plan->all)
            for (size_t i = PLAN_MAX / 2; i-- > 0;)
                plan_sink(plan, i);
        return;
    }
    plan->overflowed = true;
    if (planned_order(p, &plan->entry[0]) < 0) {
        plan->entry[0] = *p;
        plan_sink(plan, 0);
    }
}

static int scan_step(struct store *s, struct evict_plan *plan)
{
    MDB_txn *txn = NULL;
    MDB_cursor *cursor;
    uint64_t now_ms = clock_wall_ms();
    int rc = s->index.env ? index_read_begin(&s->index, &txn) : WARM_EIO;
    if (rc != 0)
        return rc;
    rc = mdb_cursor_open(txn, s->index.row, &cursor);
    bool open = rc == 0;
    plan->place.standing = false;
    for (size_t i = 0; rc == 0 && i < SCAN_STEP && !(plan->all && plan->n == PLAN_MAX); i++) {
        struct store_row row;
        rc = index_next(&s->index, cursor, &plan->place, &row);
        if (rc == WARM_ECORRUPT) {
            rc = 0; /* verification removes it */
        } else if (rc == 0 && !row.pinned &&
                   store_filter_match(&plan->task->evict.filter, &row, now_ms)) {
            plan_add(plan, &(struct planned){evict_worth(s, &row, now_ms), row.id, row.len});
        }
    }
    if (open)
        mdb_cursor_close(cursor);
    mdb_txn_abort(txn);
    return rc;
}

static int apply_plan(struct store *s, struct change *c, void *arg)
{
    struct evict_plan *plan = arg;
    struct store_report *report = &plan->task->report;
    *report = plan->task->mark_report;
    size_t next = plan->task->many.mark_id;
    c->cause = STORE_LEFT_EVICTED;
    for (size_t n = 0;
         n < REMOVE_STEP && next < plan->n && c->totals.n_bytes > plan->task->evict.to_bytes;
         n++, next++) {
        struct store_row row;
        const struct planned *p = &plan->entry[next];
        int rc = index_row(&s->index, c->txn, &p->id, &row);
        if (rc != 0 || row.pinned ||
            !store_filter_match(&plan->task->evict.filter, &row, clock_wall_ms()))
            continue; /* gone, pinned or replaced since the scan */
        report->n_entries++;
        report->n_bytes += row.len;
        rc = evict_entry(s, c, &p->id);
        if (rc != 0)
            return rc;
    }
    plan->next = next;
    return 0;
}

/* Reports what apply_plan would. */
static void dry_step(struct evict_plan *plan)
{
    for (; plan->next < plan->n && plan->left_bytes > plan->task->evict.to_bytes; plan->next++) {
        uint64_t len = plan->entry[plan->next].len;
        plan->task->report.n_entries++;
        plan->task->report.n_bytes += len;
        plan->left_bytes -= len < plan->left_bytes ? len : plan->left_bytes;
    }
}

static int remove_step(struct store *s, struct evict_plan *plan, bool *out_enough)
{
    struct task *t = plan->task;
    int rc = 0;
    if (t->evict.dry_run) {
        dry_step(plan);
        *out_enough = plan->left_bytes <= t->evict.to_bytes;
        return 0;
    }
    t->many.mark_id = plan->next;
    t->mark_report = t->report;
    rc = transact(s, apply_plan, plan);
    *out_enough = s->index.totals.n_bytes <= t->evict.to_bytes;
    return rc;
}

/* Scans or removes some more. *out_more: there is more to do; never after an error. */
static int plan_advance(struct store *s, struct evict_plan *plan, bool *out_more)
{
    bool enough;
    *out_more = false;
    if (!plan->removing) {
        int rc = scan_step(s, plan);
        plan->scanned = rc == WARM_ENOT_FOUND;
        if (rc != 0 && !plan->scanned)
            return rc;
        plan->removing = plan->scanned || (plan->all && plan->n == PLAN_MAX);
        if (plan->removing && !plan->all)
            qsort(plan->entry, plan->n, sizeof *plan->entry, planned_order);
        *out_more = true;
        return 0;
    }
    int rc = remove_step(s, plan, &enough);
    if (rc != 0 || enough)
        return rc;
    *out_more = plan->next < plan->n || !plan->scanned || plan->overflowed;
    if (plan->next < plan->n || !*out_more)
        return 0;
    if (!plan->all) { /* scan again, for entries above all of this plan */
        plan->last = plan->entry[plan->n - 1];
        plan->has_last = true;
        plan->place = (struct index_place){.after = false};
    }
    plan->n = plan->next = 0;
    plan->removing = plan->scanned = plan->overflowed = false;
    return 0;
}

static void plan_end(struct store *s, int rc)
{
    struct task *t = s->plan->task;
    free(s->plan);
    s->plan = NULL;
    t->status = index_error(rc, &t->err);
    store_finish(s, t);
}

static void plan_begin(struct store *s, struct task *t)
{
    struct evict_plan *plan = fault_calloc(1, sizeof *plan);
    if (!plan) {
        t->status = err_set(&t->err, WARM_ENOMEM, "out of memory");
        store_finish(s, t);
        return;
    }
    plan->task = t;
    plan->all = t->evict.to_bytes == 0;
    plan->left_bytes = s->index.totals.n_bytes;
    s->plan = plan;
}

bool evict_plan_step(struct store *s)
{
    if (!s->plan && s->evictions.first)
        plan_begin(s, task_list_take(&s->evictions));
    if (s->plan) {
        bool more;
        int rc = plan_advance(s, s->plan, &more);
        if (!more)
            plan_end(s, rc);
    }
    return s->plan || s->evictions.first;
}

void evict_plan_close(struct store *s)
{
    struct task *t;
    if (s->plan)
        task_free(s, s->plan->task);
    free(s->plan);
    s->plan = NULL;
    while ((t = task_list_take(&s->evictions)))
        task_free(s, t);
}
