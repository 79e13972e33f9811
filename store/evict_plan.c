/* SPDX-License-Identifier: Apache-2.0 */
/*
 * evict_plan.c - decides in which order store_evict removes the entries that match its filter: least worth
 * first. The writer calls it step by step between its batches.
 *
 *     scan all rows, a step at a time ──▶ sort ──▶ remove in order, a step at a time ──▶ enough: done
 *
 * With the last result of a group go the manifests and marks that led to it: they are of no use without. The
 * report says how many entries go and how many bytes that frees: of values that several entries share, a file is
 * freed by the last one. A dry run finds the same without changing anything.
 *
 * Failure modes: an entry that was pinned, replaced or removed since the scan is skipped. An error ends the
 * work, and the report says how far it came.
 *
 * Thread: writer.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "keygen/vector.h"
#include "store/fault.h"
#include "store/id_set.h"
#include "store/internal.h"

#define SCAN_STEP 2000u /* rows looked at in one step */
#define REMOVE_STEP 64u /* entries removed in one step */

struct planned {
    double worth;
    struct store_id id;
};
struct evict_plan {
    struct task *task;
    bool removing; /* the plan; else scanning */
    bool all;      /* all matches go, in no order */
    bool failed;   /* out of memory */
    struct index_place place;
    VECTOR(struct planned) entry; /* 32 bytes for each match */
    size_t next;
    /* of a dry run: */
    uint64_t left_bytes; /* that would be left in the store */
    struct id_set gone;  /* entries that would go */
    struct id_set
        blobs; /* values of several entries, as owner and the beginning of their SHA-256, */
    uint32_t *n_blob_gone; /* and how many of their entries would go */
    size_t cap_blobs;
};

static int planned_order(const void *a, const void *b)
{
    const struct planned *x = a, *y = b;
    if (x->worth != y->worth)
        return x->worth < y->worth ? -1 : 1;
    return memcmp(&x->id, &y->id, sizeof x->id);
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
    for (size_t i = 0; rc == 0 && i < SCAN_STEP; i++) {
        struct store_row row;
        rc = index_next(&s->index, cursor, &plan->place, &row);
        if (rc == WARM_ECORRUPT) {
            rc = 0; /* verification removes it */
        } else if (rc == 0 && !row.pinned &&
                   store_filter_match(&plan->task->evict.filter, &row, now_ms)) {
            PUSH(plan, plan->entry, (struct planned){evict_worth(s, &row, now_ms), row.id});
            rc = plan->failed ? WARM_ENOMEM : 0;
        }
    }
    if (open)
        mdb_cursor_close(cursor);
    mdb_txn_abort(txn);
    return rc;
}

/* ---- removing ---- */

/* Lists the other members of the row's group, but for `gone` (NULL: none), if all of them only lead to results:
 * manifests and marks. Else *out_n is 0. */
static int leads_of(const struct store *s, MDB_txn *txn, const struct store_row *row,
                    const struct id_set *gone, struct store_id out[STORE_GROUP_MAX], size_t *out_n)
{
    struct key keys[STORE_GROUP_MAX];
    size_t n = 0, n_leads = 0;
    *out_n = 0;
    int rc = index_group(&s->index, txn, row, keys, STORE_GROUP_MAX, &n);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        struct store_id id = {row->id.owner, keys[i]};
        struct store_row member;
        if (store_id_equal(&id, &row->id) || (gone && id_set_has(gone, &id)))
            continue;
        rc = index_row(&s->index, txn, &id, &member);
        if (rc == 0 && (member.kind != STORE_MANIFEST || member.pinned))
            return 0;
        if (rc == 0)
            out[n_leads++] = id;
        rc = rc == WARM_ENOT_FOUND || rc == WARM_ECORRUPT ? 0 : rc;
    }
    *out_n = rc ? 0 : n_leads;
    return rc;
}

/* Removes an entry and what only led to it. */
static int remove_planned(struct store *s, struct change *c, const struct store_row *row,
                          struct store_report *report)
{
    struct store_row gone = {.id = row->id, .group = row->group}; /* the row lies in the index */
    struct store_id leads[STORE_GROUP_MAX];
    uint64_t before = c->totals.n_bytes;
    size_t n = 0;
    int rc = evict_entry(s, c, &gone.id);
    rc = rc ? rc : leads_of(s, c->txn, &gone, NULL, leads, &n);
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = evict_entry(s, c, &leads[i]);
    report->n_entries += 1 + n;
    report->n_bytes += before - c->totals.n_bytes;
    return rc;
}

static bool is_enough(const struct evict_plan *plan, uint64_t left_bytes)
{
    return !plan->all && left_bytes <= plan->task->evict.to_bytes;
}

static int apply_plan(struct store *s, struct change *c, void *arg)
{
    struct evict_plan *plan = arg;
    struct store_report *report = &plan->task->report;
    *report = plan->task->mark_report;
    size_t next = plan->task->many.mark_id;
    c->cause = STORE_LEFT_EVICTED;
    for (size_t n = 0;
         n < REMOVE_STEP && next < plan->entry.n && !is_enough(plan, c->totals.n_bytes);
         n++, next++) {
        struct store_row row;
        int rc = index_row(&s->index, c->txn, &plan->entry.at[next].id, &row);
        if (rc != 0 || row.pinned ||
            !store_filter_match(&plan->task->evict.filter, &row, clock_wall_ms()))
            continue; /* gone, pinned or replaced since the scan */
        rc = remove_planned(s, c, &row, report);
        if (rc != 0)
            return rc;
    }
    plan->next = next;
    return 0;
}

/* ---- a dry run ---- */

/* Returns the bytes that are freed as an entry goes: none while others have the same file. */
static int freed_by(struct store *s, MDB_txn *txn, struct evict_plan *plan,
                    const struct store_row *row, uint64_t *out)
{
    uint64_t numbers[BLOB_NUMBERS];
    struct blob_id blob = {row->id.owner, row->content};
    struct store_id id = {.owner = row->id.owner};
    *out = row->len;
    if (!row->is_blob || index_blob(&s->index, txn, &blob, numbers) != 0 || numbers[0] <= 1)
        return 0;
    memcpy(&id.key, row->content.bytes, sizeof id.key);
    if (plan->blobs.n == plan->cap_blobs && !id_set_has(&plan->blobs, &id)) {
        size_t cap = plan->cap_blobs ? 2 * plan->cap_blobs : 256;
        uint32_t *grown = realloc(plan->n_blob_gone, cap * sizeof *grown);
        if (!grown)
            return WARM_ENOMEM;
        memset(grown + plan->cap_blobs, 0, (cap - plan->cap_blobs) * sizeof *grown);
        plan->n_blob_gone = grown;
        plan->cap_blobs = cap;
    }
    if (!id_set_add(&plan->blobs, &id))
        return WARM_ENOMEM;
    if (++plan->n_blob_gone[id_set_index(&plan->blobs, &id)] < numbers[0])
        *out = 0;
    return 0;
}

static int dry_remove(struct store *s, MDB_txn *txn, struct evict_plan *plan,
                      const struct store_row *row)
{
    uint64_t freed;
    int rc = freed_by(s, txn, plan, row, &freed);
    if (rc != 0 || !id_set_add(&plan->gone, &row->id))
        return rc ? rc : WARM_ENOMEM;
    plan->task->report.n_entries++;
    plan->task->report.n_bytes += freed;
    plan->left_bytes -= freed < plan->left_bytes ? freed : plan->left_bytes;
    return 0;
}

/* Reports what apply_plan would. */
static int dry_step(struct store *s, struct evict_plan *plan)
{
    struct store_id leads[STORE_GROUP_MAX];
    MDB_txn *txn = NULL;
    int rc = s->index.env ? index_read_begin(&s->index, &txn) : WARM_EIO;
    for (size_t n = 0; rc == 0 && n < SCAN_STEP && plan->next < plan->entry.n &&
                       !is_enough(plan, plan->left_bytes);
         n++, plan->next++) {
        struct store_row row;
        size_t n_leads = 0;
        const struct store_id *id = &plan->entry.at[plan->next].id;
        if (id_set_has(&plan->gone, id) || index_row(&s->index, txn, id, &row) != 0)
            continue;
        rc = dry_remove(s, txn, plan, &row);
        rc = rc ? rc : leads_of(s, txn, &row, &plan->gone, leads, &n_leads);
        for (size_t i = 0; rc == 0 && i < n_leads; i++)
            if (index_row(&s->index, txn, &leads[i], &row) == 0)
                rc = dry_remove(s, txn, plan, &row);
    }
    if (txn)
        mdb_txn_abort(txn);
    return rc;
}

static int remove_step(struct store *s, struct evict_plan *plan, bool *out_enough)
{
    struct task *t = plan->task;
    int rc = 0;
    if (t->evict.dry_run) {
        rc = dry_step(s, plan);
        *out_enough = is_enough(plan, plan->left_bytes);
        return rc;
    }
    t->many.mark_id = plan->next;
    t->mark_report = t->report;
    rc = transact(s, apply_plan, plan);
    *out_enough = is_enough(plan, s->index.totals.n_bytes);
    return rc;
}

static void plan_free(struct store *s)
{
    id_set_clear(&s->plan->gone);
    id_set_clear(&s->plan->blobs);
    free(s->plan->n_blob_gone);
    free(s->plan->entry.at);
    free(s->plan);
    s->plan = NULL;
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
        bool enough = false;
        int rc = s->plan->removing ? remove_step(s, s->plan, &enough) : scan_step(s, s->plan);
        if (!s->plan->removing && rc == WARM_ENOT_FOUND) { /* the end of the rows */
            s->plan->removing = true;
            rc = 0;
            if (s->plan->entry.n && !s->plan->all)
                qsort(s->plan->entry.at, s->plan->entry.n, sizeof *s->plan->entry.at,
                      planned_order);
        }
        bool more = rc == 0 && !enough && (!s->plan->removing || s->plan->next < s->plan->entry.n);
        if (!more) {
            struct task *t = s->plan->task;
            plan_free(s);
            t->status = index_error(rc, &t->err);
            store_finish(s, t);
        }
    }
    return s->plan || s->evictions.first;
}

void evict_plan_close(struct store *s)
{
    struct task *t;
    if (s->plan) {
        task_free(s, s->plan->task);
        plan_free(s);
    }
    while ((t = task_list_take(&s->evictions)))
        task_free(s, t);
}
