/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transaction.c - runs one change of the index until it is committed, or cannot be. All that change the
 * index call transact.
 *
 * A change: begin, apply, commit; then rename away the files of doomed blobs, and publish the totals.
 *
 * Failure modes:
 *   the map is full             evict, again, up to ROUNDS_MAX
 *   the index is damaged        a new one takes its place, again
 *   no memory                   again, once; then the index is suspected of asking for too much
 *   the disk is full or broken  the change fails; nothing was changed
 *
 * Thread: writer.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store/fault.h"
#include "store/internal.h"

#define ROUNDS_MAX 8u
#define EVICT_MAP_FULL 64u      /* entries evicted if the map is full */
#define MEMORY_PROBE (4u << 20) /* bytes: more than any sound transaction asks for at a time */

/* ---- a damaged environment ---- */

/* Opens the environment again, or a new one if it is `broken`. Needs env_lock, exclusively. */
static int replace_env(struct store *s, bool broken, struct err *e)
{
    if (s->reader)
        mdb_txn_abort(s->reader);
    s->reader = NULL;
    atomic_store(&s->keeps_snapshot, false);
    index_close(&s->index);
    int rc = broken ? index_set_aside(s->dir, e) : 0;
    rc = rc ? rc : index_open(&s->index, s->dir, s->config.index_bytes, store_mark_suspect, e);
    if (rc == WARM_ECORRUPT) {
        rc = index_set_aside(s->dir, e);
        rc = rc ? rc : index_open(&s->index, s->dir, s->config.index_bytes, store_mark_suspect, e);
    }
    return rc;
}

int transact_recover(struct store *s, int why)
{
    struct err e;
    bool broken =
        why != 0 && why != MDB_PANIC; /* after a failed meta page write the pages are sound */
    if (why)
        store_event(s, "store: the index cannot be used any more (%s): %s", mdb_strerror(why),
                    broken ? "set aside, rebuilding from the files" : "opening it again");
    idle_end(s);
    pthread_rwlock_wrlock(&s->env_lock);
    int rc = replace_env(s, broken, &e);
    pthread_rwlock_unlock(&s->env_lock);
    atomic_store(&s->damaged, false);
    if (rc != 0) {
        if (why) /* a repeated try is silent */
            store_event(s, "store: no index: %s", e.text);
        return rc;
    }
    if (!why)
        store_event(s, "store: there is an index again");
    pthread_mutex_lock(&s->lock);
    s->stats.rebuilt |= broken;
    pthread_mutex_unlock(&s->lock);
    idle_begin(s);
    return 0;
}

/* ---- changes ---- */

static void publish(struct store *s, const struct change *c)
{
    const struct totals *t = &s->index.totals;
    uint64_t file_bytes = index_file_bytes(&s->index);
    pthread_mutex_lock(&s->lock);
    struct store_stats *st = &s->stats;
    st->n_entries = t->n_entries;
    st->n_bytes = t->n_bytes;
    st->disk_bytes = t->blob_disk_bytes + file_bytes;
    memcpy(st->kind_entries, t->kind_entries, sizeof st->kind_entries);
    memcpy(st->kind_bytes, t->kind_bytes, sizeof st->kind_bytes);
    st->n_evictions += c->n_evicted;
    st->left_entries[c->cause] += c->n_evicted;
    st->left_bytes[c->cause] += c->evicted_bytes;
    old_gone(s, c->n_old);
    st->n_corrupt += c->n_corrupt;
    st->n_commits++;
    uint64_t now_ms = c->n_left ? clock_wall_ms() : 0;
    for (size_t i = 0; i < c->n_left; i++) {
        struct store_departure *to = &s->left[s->n_left++ % STORE_DEPARTURES_MAX];
        *to = c->left[i];
        to->at_ms = now_ms;
    }
    pthread_mutex_unlock(&s->lock);
}

int transact_once(struct store *s, transact_apply apply, void *arg)
{
    struct change c;
    int rc = change_begin(&c, &s->index);
    rc = rc ? rc : apply(s, &c, arg);
    rc = rc ? rc : change_commit(&c);
    if (rc == 0) {
        /* Doomed blobs are moved away, the loop is woken, the totals are published. */
        char name[DOOMED_NAME];
        assert(!c.txn);
        for (size_t i = 0; i < c.n_doomed; i++) {
            if (blob_doom(&s->files, &c.doomed[i], name) == 0)
                copier_bury(s, name);
            store_note_dropped(s, &c.doomed[i]);
        }
        if ((c.n_doomed || atomic_load(&s->keeps_snapshot)) && s->config.on_wake)
            s->config.on_wake(s->config.on_wake_arg);
        idle_sync_soon(s);
        if (c.broke)
            idle_walk_deeply(s);
        publish(s, &c);
    }
    change_close(&c);
    return rc;
}

static int evict_for_map(struct store *s, struct change *c, void *arg)
{
    (void)arg;
    return evict_some(s, c, EVICT_ANY, EVICT_MAP_FULL, 0);
}

/* True if the index seems to want more of the map or of memory than a sound one: a page may be damaged. A
 * failure with another cause passes, or other requests fail, too. */
static bool asks_too_much(struct store *s, int rc, bool again)
{
    if (rc == MDB_MAP_FULL)
        return index_file_bytes(&s->index) < s->index.map_bytes / 2;
    void *memory = rc == ENOMEM && again ? fault_malloc(MEMORY_PROBE) : NULL;
    free(memory);
    return memory != NULL;
}

int transact(struct store *s, transact_apply apply, void *arg)
{
    int rc = 0;
    bool no_memory = false;
    for (unsigned round = 0; round < ROUNDS_MAX; round++) {
        if (!s->index.env)
            rc = transact_recover(s, 0);
        if (!s->index.env)
            return rc;
        rc = transact_once(s, apply, arg);
        if (asks_too_much(s, rc, no_memory))
            rc = MDB_CORRUPTED;
        if (rc == ENOMEM && !no_memory) {
            no_memory = true;
        } else if (index_is_damage(rc)) {
            if (transact_recover(s, rc) != 0)
                return rc;
        } else if (rc == MDB_MAP_FULL) {
            if (transact_once(s, evict_for_map, NULL) != 0)
                return rc;
        } else {
            return rc;
        }
    }
    return rc;
}
