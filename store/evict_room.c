/* SPDX-License-Identifier: Apache-2.0 */
/*
 * evict_room.c - decides when and how much is evicted: for a put that has no room, and in steps above the
 * high-water mark. It also removes expired entries. evict.c chooses the victims. The writer thread calls it
 * between its batches.
 *
 * Eviction starts at EVICT_START of the cap, in steps between the puts, and ends at EVICT_END. A put
 * waits for it only if the cap itself is in its way.
 *
 * Thread: writer; evict_pins_max any.
 */
#include <assert.h>
#include <inttypes.h>

#include "store/internal.h"

#define EVICT_START 975u /* thousandths of the cap */
#define EVICT_END 950u
#define STEP_MAX 64u /* entries in one step */

/* Returns the bytes by which the store, with the given ones added, exceeds so many thousandths of its cap.
 * The index alone may take three quarters of its map (config.index_bytes can make it small): LMDB needs
 * free pages even to delete. */
static uint64_t excess(const struct store *s, unsigned permille, uint64_t index_bytes,
                       uint64_t blob_bytes)
{
    assert(permille <= 1000);
    const struct totals *t = &s->index.totals;
    uint64_t cap = s->max_bytes / 1000 * permille;
    uint64_t map = s->index.map_bytes / 4000 * 3 * permille; /* as in evict_note_put */
    uint64_t all = t->disk_bytes + index_bytes + blob_bytes;
    uint64_t in_index = t->disk_bytes - t->blob_disk_bytes + index_bytes;
    uint64_t over_cap = all > cap ? all - cap : 0;
    uint64_t over_map = in_index > map ? in_index - map : 0;
    return over_cap > over_map ? over_cap : over_map;
}

/* Returns the bytes on disk that remain without `over` bytes. */
static uint64_t goal_without(const struct store *s, uint64_t over)
{
    uint64_t disk = s->index.totals.disk_bytes;
    return disk > over ? disk - over : 0;
}

uint64_t evict_pins_max(const struct store *s)
{
    uint64_t quota = s->quota_bytes, cap = s->max_bytes;
    return (quota && quota < cap ? quota : cap) / 2;
}

uint64_t evict_low_water(const struct store *s)
{
    return goal_without(s, excess(s, EVICT_END, 0, 0));
}

struct some {
    uint64_t user, goal;
    size_t max;
};

static int apply_some(struct store *s, struct change *c, void *arg)
{
    const struct some *some = arg;
    return evict_some(s, c, some->user, some->max, some->goal);
}

/* Returns the bytes on disk of a user's share; 0 if that cannot be read. */
static uint64_t share_of(struct store *s, uint32_t user)
{
    MDB_txn *txn = NULL;
    struct store_share share = {0};
    if (index_read_begin(&s->index, &txn) == 0) {
        index_share(&s->index, txn, user, &share);
        mdb_txn_abort(txn);
    }
    return share.disk_bytes;
}

/* Says that everything is pinned: FULL is of the whole store, TOO_BIG of one user's share. */
static int no_room(int rc, int code, const char *whose, struct err *e)
{
    if (rc == WARM_ENOT_FOUND)
        return err_set(e, code, "%s is full and nothing may be evicted", whose);
    return index_error(rc, e);
}

int evict_make_room(struct store *s, uint32_t user, uint64_t index_bytes, uint64_t blob_bytes,
                    uint64_t user_bytes, struct err *e)
{
    uint64_t quota = s->quota_bytes, need = index_bytes + blob_bytes, cap = s->max_bytes, over;
    if (need > cap || (quota && user_bytes > quota))
        return err_set(e, WARM_ETOO_BIG, "a value of %" PRIu64 " bytes is larger than the %s", need,
                       need > cap ? "store" : "user's share of the store");
    while (s->index.env && (over = excess(s, 1000, index_bytes, blob_bytes)) > 0) {
        struct some some = {EVICT_ANY, goal_without(s, over), STEP_MAX};
        int rc = transact(s, apply_some, &some);
        if (rc != 0)
            return no_room(rc, WARM_EFULL, "the store", e);
    }
    while (quota && s->index.env && share_of(s, user) + user_bytes > quota) {
        struct some some = {user, quota - user_bytes, STEP_MAX};
        int rc = transact(s, apply_some, &some);
        if (rc != 0)
            return no_room(rc, WARM_ETOO_BIG, "the user's share of the store", e);
    }
    return 0;
}

size_t evict_expired(struct store *s)
{
    size_t n = 0;
    return transact(s, evict_some_expired, &n) == 0 ? n : 0;
}

bool evict_step(struct store *s)
{
    struct evictor *ev = &s->evictor;
    ev->active = s->index.env && excess(s, ev->active ? EVICT_END : EVICT_START, 0, 0) > 0;
    if (ev->active) {
        struct some some = {EVICT_ANY, evict_low_water(s), STEP_MAX};
        if (transact(s, apply_some, &some) != 0)
            ev->active = false; /* all pinned, or no disk to write to: the next put asks again */
    }
    return ev->active;
}
