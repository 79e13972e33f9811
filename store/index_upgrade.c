/* SPDX-License-Identifier: Apache-2.0 */
/*
 * index_upgrade.c - makes an index of format 2 of one of format 1, which has no shares. open.c and the
 * writer call it after index_open. FORMAT.md lists the steps; all of them are one transaction.
 *
 * Failure modes: any error leaves format 1, and the next open begins anew. A damaged tree ends the
 * upgrade as damage; a damaged row is in no share, and its first reader removes it.
 *
 * Thread: the one that opens the index.
 */
#include "store/index_upgrade.h"

#include <assert.h>
#include <string.h>

#include "store/change.h"
#include "store/table.h"

#define FORMAT_1_BLOB_NUMBERS 3 /* no user */

/* Adds a blob to a user's share, unless it is in one. */
static int take_over_blob(struct change *c, const struct blob_id *id, uint32_t user)
{
    uint8_t key[BLOB_KEY];
    uint64_t numbers[BLOB_NUMBERS];
    MDB_val data;
    blob_key(id, key);
    int rc = table_get(c->txn, c->index->blob, bytes_val(key, sizeof key), &data);
    if (rc != 0 || data.mv_size == NUMBERS_SIZE(BLOB_NUMBERS))
        return rc == WARM_ENOT_FOUND ? 0 : rc;
    if (!numbers_decode(data.mv_data, data.mv_size, numbers, FORMAT_1_BLOB_NUMBERS))
        return MDB_CORRUPTED;
    numbers[FORMAT_1_BLOB_NUMBERS] = user;
    rc = change_put_blob(c, id, numbers);
    return rc ? rc : change_count_share(c, user, 0, (int64_t)numbers[2], 0);
}

static int take_over_row(struct change *c, const struct store_row *row)
{
    struct blob_id blob = {row->id.owner, row->content};
    uint32_t user = entry_user(row);
    int64_t pinned = row->pinned ? (int64_t)entry_pinned_bytes(c->index, row) : 0;
    int rc = change_count_share(c, user, 1, (int64_t)entry_disk_bytes(c->index, row), pinned);
    return rc == 0 && row->is_blob ? take_over_blob(c, &blob, user) : rc;
}

/* Skips damaged rows: they are in no share, and their first reader removes them. */
static int take_over_rows(struct change *c)
{
    MDB_cursor *cursor;
    MDB_stat stat;
    struct index_place place = {.after = false};
    uint64_t *n = &c->index->n_taken_over;
    int rc = mdb_stat(c->txn, c->index->row, &stat);
    rc = rc ? rc : mdb_cursor_open(c->txn, c->index->row, &cursor);
    if (rc != 0)
        return rc;
    for (*n = 0; rc == 0; ++*n) {
        struct store_row row;
        rc = index_next(c->index, cursor, &place, &row);
        if (rc == WARM_ENOT_FOUND)
            break;
        if (*n == stat.ms_entries)
            rc = MDB_CORRUPTED; /* a damaged tree can be endless */
        if (rc == 0)
            rc = take_over_row(c, &row);
        else if (rc == WARM_ECORRUPT)
            rc = 0;
    }
    mdb_cursor_close(cursor);
    return rc == WARM_ENOT_FOUND ? 0 : rc;
}

/* Counts blobs of damaged rows in the shares of their owners. */
static int take_over_blobs(struct change *c)
{
    MDB_cursor *cursor;
    MDB_val key, data;
    int rc = mdb_cursor_open(c->txn, c->index->blob, &cursor);
    if (rc != 0)
        return rc;
    while ((rc = mdb_cursor_get(cursor, &key, &data, MDB_NEXT)) == 0) {
        struct blob_id id;
        uint8_t bytes[BLOB_KEY];
        if (key.mv_size != BLOB_KEY) {
            rc = MDB_CORRUPTED;
            break;
        }
        if (data.mv_size == NUMBERS_SIZE(BLOB_NUMBERS))
            continue;
        memcpy(bytes, key.mv_data, sizeof bytes);
        id.owner = owner_decode(bytes);
        memcpy(id.content.bytes, bytes + 4, sizeof id.content.bytes);
        rc = take_over_blob(c, &id, id.owner);
        key = bytes_val(bytes, sizeof bytes);
        rc = rc ? rc : mdb_cursor_get(cursor, &key, &data, MDB_SET);
        if (rc != 0)
            break;
    }
    mdb_cursor_close(cursor);
    return rc == MDB_NOTFOUND ? 0 : rc;
}

/* Does all of it, or nothing. */
static int upgrade(struct index *x)
{
    struct change c;
    uint64_t format = INDEX_FORMAT;
    int rc = change_begin(&c, x);
    rc = rc ? rc : index_open_share(x, c.txn, MDB_CREATE);
    rc = rc ? rc : take_over_rows(&c);
    rc = rc ? rc : take_over_blobs(&c);
    rc = rc ? rc : numbers_put(c.txn, x->meta, name_val("format"), &format, 1);
    rc = rc ? rc : change_commit(&c);
    change_close(&c);
    return rc;
}

int index_upgrade_open(struct index *x, const char *dir, uint64_t map_bytes, void (*on_abort)(void),
                       struct err *e)
{
    int rc = index_open(x, dir, map_bytes, on_abort, e);
    if (rc != 0 || x->format == INDEX_FORMAT)
        return rc;
    assert(x->format == INDEX_FORMAT_1);
    rc = upgrade(x);
    if (rc == 0) {
        x->format = INDEX_FORMAT;
        x->taken_over = true;
        return 0;
    }
    index_close(x);
    return index_error(rc == MDB_NOTFOUND ? MDB_CORRUPTED : rc, e);
}
