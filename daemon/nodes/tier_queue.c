/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier_queue.c - decides which entry is sent to the tier next. The queue is the store's: an entry that waits
 * has a mark in its row, which its put writes in its own transaction. So it outlives kill -9 and reboots.
 * Memory has the most valuable QUEUE_MAX of them.
 *
 *     put ── row with STORE_TIER_WAITS ──▶ item ──▶ upload ──▶ the mark is taken off, some entries at once
 *     start ── scan of the rows, in slices ──▶ item
 *
 * Order: what other nodes wait for, under a lease; then by time that a hit saves × (1 + hits) / bytes.
 * Failures:
 *   - more entries wait than there are items: the least valuable is left to the next scan;
 *   - more wait than tier_queue, or one waits for longer than tier_queue_age: it is not sent, and counted;
 *   - the daemon ends before a mark is taken off: the entry is sent again, as the same object.
 *
 * Thread: loop thread.
 */
#include <assert.h>
#include <string.h>

#include "daemon/nodes/tier_state.h"
#include "store/clock.h"

#define SCAN_MS 10u      /* between two slices */
#define UNMARK_MS 1000u  /* a mark is taken off by then */
#define COST_UNKNOWN 200 /* ms: manifests, and values whose client did not say */

/* ---- items ---- */

static float value_of(uint32_t cost_ms, uint32_t hits, uint64_t len)
{
    float cost = cost_ms ? (float)cost_ms : COST_UNKNOWN;
    return cost * (1.0f + (float)hits) / (float)(len + 1024);
}

static bool is_before(const struct tier_item *a, const struct tier_item *b)
{
    return a->is_urgent != b->is_urgent ? a->is_urgent : a->value > b->value;
}

static bool is_known(const struct tier *t, const struct store_id *id)
{
    bool known = tier_queue_has(t, id);
    for (size_t i = 0; i < t->n_unmark && !known; i++)
        known = store_id_equal(&t->unmark[i], id);
    return known;
}

/* Adds an item; a full queue leaves its least valuable one to the next scan. */
static void add_item(struct tier *t, const struct tier_item *item)
{
    assert(t->n_items <= QUEUE_MAX);
    size_t least = 0;
    if (t->n_items < QUEUE_MAX) {
        t->items[t->n_items++] = *item;
        return;
    }
    t->is_partial = true;
    for (size_t i = 1; i < t->n_items; i++)
        if (is_before(&t->items[least], &t->items[i]))
            least = i;
    if (is_before(item, &t->items[least]))
        t->items[least] = *item;
}

void tier_queue_add(struct tier *t, const struct store_row *row, bool is_leased)
{
    const struct store_id *id = &row->id;
    struct tier_item item = {.id = *id,
                             .value = value_of(row->cost_ms, 0, row->len),
                             .is_urgent = t->leases != NULL,
                             .is_leased = is_leased,
                             .since_ms = clock_wall_ms(),
                             .offered_ns = clock_mono_ns()};
    for (size_t i = 0; i < t->n_unmark; i++) /* a new value under the id of one just sent */
        if (store_id_equal(&t->unmark[i], id))
            t->unmark[i--] = t->unmark[--t->n_unmark];
    for (size_t i = 0; i < UPLOADS_MAX; i++) { /* or of one that is being sent: it is sent, too */
        struct tier_upload *u = &t->uploads[i];
        if (u->runs && store_id_equal(&u->item.id, id))
            u->is_outdated |= u->n_bytes != row->len || !key_equal(&u->check, &row->check);
    }
    if (!is_known(t, id))
        add_item(t, &item);
}

bool tier_queue_take(struct tier *t, struct tier_item *out, bool *out_early)
{
    /* When was the first of those offered that others wait for: on its way to the disk, in the queue or being sent? An
     * entry under a lease that is younger must wait: other nodes take it as a sign that all it leads to is there. */
    uint64_t first_ns = t->host.first_put_ns(t->host.arg);
    for (size_t i = 0; i < t->n_items; i++)
        if (t->items[i].is_urgent && t->items[i].offered_ns < first_ns)
            first_ns = t->items[i].offered_ns;
    for (size_t i = 0; i < UPLOADS_MAX; i++)
        if (t->uploads[i].runs && t->uploads[i].item.offered_ns < first_ns)
            first_ns = t->uploads[i].item.offered_ns;
    size_t best = t->n_items;
    for (size_t i = 0; i < t->n_items; i++) {
        if (t->items[i].is_leased && first_ns < t->items[i].offered_ns)
            *out_early = true;
        else if (best == t->n_items || is_before(&t->items[i], &t->items[best]))
            best = i;
    }
    if (best == t->n_items)
        return false;
    assert(best < t->n_items);
    *out = t->items[best];
    t->items[best] = t->items[--t->n_items];
    return true;
}

void tier_queue_forget(struct tier *t, const struct store_id *id)
{
    for (size_t i = 0; i < t->n_items; i++)
        if (store_id_equal(&t->items[i].id, id)) {
            t->items[i] = t->items[--t->n_items];
            tier_queue_done(t, id);
            return;
        }
}

bool tier_queue_has(const struct tier *t, const struct store_id *id)
{
    for (size_t i = 0; i < t->n_items; i++)
        if (store_id_equal(&t->items[i].id, id))
            return true;
    for (size_t i = 0; i < UPLOADS_MAX; i++)
        if (t->uploads[i].runs && store_id_equal(&t->uploads[i].item.id, id))
            return true;
    return false;
}

void tier_queue_return(struct tier *t, const struct tier_item *item) { add_item(t, item); }

uint64_t tier_queue_length(const struct tier *t)
{
    size_t n = t->n_items + t->n_uploads;
    return (t->is_partial || t->scans) && t->n_marked > n ? t->n_marked : n;
}

uint64_t tier_queue_oldest_ms(const struct tier *t)
{
    uint64_t now = clock_wall_ms(), since = now;
    for (size_t i = 0; i < t->n_items; i++)
        if (t->items[i].since_ms && t->items[i].since_ms < since)
            since = t->items[i].since_ms;
    return now - since;
}

/* ---- marks ---- */

void tier_queue_flush(struct tier *t)
{
    assert(t->n_unmark <= UNMARK_MAX);
    loop_timer_stop(t->unmark_timer);
    if (t->n_unmark)
        store_mark(t->host.store, t->unmark, t->n_unmark, STORE_TIER_WAITS, 0, NULL, NULL, NULL);
    t->n_unmark = 0;
}

void tier_queue_done(struct tier *t, const struct store_id *id)
{
    assert(t->n_unmark < UNMARK_MAX); /* the last place makes it flush */
    t->n_marked -= t->n_marked > 0;
    t->unmark[t->n_unmark++] = *id;
    if (t->n_unmark == UNMARK_MAX)
        tier_queue_flush(t);
    else if (!loop_timer_runs(t->unmark_timer))
        loop_timer_start(t->unmark_timer, UNMARK_MS, 0);
}

bool tier_keeps(const struct tier *t, const struct store_row *row, uint64_t len, uint32_t cost_ms)
{
    const struct config *c = t->host.config;
    struct view space;
    return !t->has_key || len > c->tier_max_value || len == 0 ||
           (cost_ms && cost_ms < c->tier_min_cost_ms) || !tier_travels(t, row, &space);
}

uint32_t tier_marks(struct tier *t, const struct store_row *row, bool from_tier)
{
    if (from_tier)
        return STORE_TIER_CAME;
    if (!t)
        return 0;
    tier_cost_note(t, row, false);
    if (t->closing || tier_keeps(t, row, row->len, row->cost_ms))
        return 0;
    if (tier_queue_length(t) >= t->host.config->tier_queue) {
        stats_add(t->host.stats, STATS_tier_dropped, row->kind, 1);
        return 0;
    }
    t->n_marked++;
    return STORE_TIER_WAITS;
}

/* ---- the scan ---- */

static void on_row(void *arg, const struct store_row *row)
{
    struct tier *t = arg;
    if (!(row->tier & STORE_TIER_WAITS) || !t->has_key)
        return;
    t->n_scanned++;
    if (is_known(t, &row->id))
        return;
    if (tier_is_too_old(t, row)) {
        stats_add(t->host.stats, STATS_tier_dropped, row->kind, 1);
        if (t->n_unmark < UNMARK_MAX - 1) /* else the next scan */
            tier_queue_done(t, &row->id);
        return;
    }
    add_item(t, &(struct tier_item){.id = row->id,
                                    .value = value_of(row->cost_ms, row->hits, row->len),
                                    .since_ms = row->created_ms});
}

void tier_queue_read(struct tier *t)
{
    assert(t->scans || t->closing);
    struct store *store = t->host.store;
    int more = t->closing ? 0 : store_scan(store, &t->cursor, SCAN_ROWS, on_row, t, NULL);
    store_turn_end(store);
    if (t->n_unmark > UNMARK_MAX / 2)
        tier_queue_flush(t);
    if (more > 0) {
        loop_timer_start(t->scan_timer, SCAN_MS, 0);
    } else {
        t->n_marked = t->n_scanned;
        t->scans = false;
    }
}

void tier_queue_scan(struct tier *t)
{
    if (t->scans || t->closing)
        return;
    t->scans = true;
    t->is_partial = false;
    t->n_scanned = 0;
    t->cursor = (struct store_cursor){{0}};
    loop_timer_start(t->scan_timer, SCAN_MS, 0);
}
