/* SPDX-License-Identifier: Apache-2.0 */
/*
 * change.c - changes several tables as one write transaction. It keeps the accounts that go with
 * them: totals, usage of owners, shares of users, references to blobs. The writer thread's files
 * call it.
 *
 * A blob whose last reference goes is doomed: its file may leave blobs/ once the change is committed.
 *
 * Thread: writer; and the opening thread before the writer runs.
 */
#include "store/change.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "keygen/vector.h"
#include "store/fault.h"
#include "store/table.h"

#define FILE_BLOCK 4096u /* of a file system */
/* Smaller values lie in leaf pages, which random keys fill to about 0.7; larger ones in pages of
 * their own, with 16 bytes of header. */
#define LEAF_VALUE_MAX(page) ((page) / 2 - 48)
#define LEAF_NODE(len) (((len) + INDEX_KEY + 10) * 10 / 7)

int change_begin(struct change *c, struct index *x)
{
    assert(x->env);
    *c = (struct change){.index = x, .totals = x->totals};
    return table_begin(x->env, 0, &c->txn);
}

int change_commit(struct change *c)
{
    assert(c->txn);
    int rc = memcmp(&c->totals, &c->index->totals, sizeof c->totals) == 0
                 ? 0
                 : index_put_totals(c->index, c->txn, &c->totals);
    MDB_txn *txn = c->txn;
    c->txn = NULL;
    if (rc == 0)
        rc = table_commit(txn);
    else
        mdb_txn_abort(txn);
    if (rc == 0)
        c->index->totals = c->totals;
    else
        c->n_doomed = 0;
    return rc;
}

void change_abort(struct change *c)
{
    if (c->txn)
        mdb_txn_abort(c->txn);
    c->txn = NULL;
    c->n_doomed = 0;
}

void change_close(struct change *c)
{
    change_abort(c);
    writer_close(&c->scratch);
    free(c->doomed);
    c->doomed = NULL;
    c->cap_doomed = 0;
}

static uint64_t round_up(uint64_t len, uint64_t unit) { return (len + unit - 1) / unit * unit; }

uint64_t entry_disk_bytes(const struct index *x, const struct store_row *row)
{
    uint64_t bytes = LEAF_NODE(row_encoded_len(row));
    if (!row->is_blob)
        bytes += row->len <= LEAF_VALUE_MAX(x->page_bytes)
                     ? LEAF_NODE(row->len)
                     : LEAF_NODE(8) + round_up(row->len + 16, x->page_bytes);
    return bytes;
}

uint64_t blob_disk_bytes(uint64_t len)
{
    return round_up(len + ROW_FIXED + 64 + BLOB_FOOTER, FILE_BLOCK) + LEAF_NODE(BLOB_KEY);
}

/* Adds, but never goes below zero: the row that was counted may be damaged now. */
static void add(uint64_t *n, int64_t delta)
{
    *n = delta < 0 && *n < -(uint64_t)delta ? 0 : *n + (uint64_t)delta;
}

uint32_t entry_user(const struct store_row *row)
{
    return row->id.owner == STORE_MADE_HERE ? row->maker : row->id.owner;
}

uint64_t entry_pinned_bytes(const struct index *x, const struct store_row *row)
{
    return entry_disk_bytes(x, row) + (row->is_blob ? blob_disk_bytes(row->len) : 0);
}

/* The effect of one entry on the accounts. */
struct delta {
    int64_t entries, bytes, disk;
    int64_t blob_disk; /* the part of `disk` in the share of `blob_user` */
    uint32_t blob_user;
    int64_t pinned;
};

static int count_share(struct change *c, uint32_t user, int64_t entries, int64_t disk,
                       int64_t pinned)
{
    uint8_t key[4];
    struct store_share s;
    if (!entries && !disk && !pinned)
        return 0;
    owner_encode(user, key);
    int rc = index_share(c->index, c->txn, user, &s);
    if (rc != 0)
        return rc;
    add(&s.n_entries, entries);
    add(&s.disk_bytes, disk);
    add(&s.pinned_bytes, pinned);
    uint64_t numbers[3] = {s.n_entries, s.disk_bytes, s.pinned_bytes};
    c->n_pages++;
    rc = s.n_entries || s.disk_bytes
             ? numbers_put(c->txn, c->index->share, bytes_val(key, sizeof key), numbers, 3)
             : table_del(c->txn, c->index->share, bytes_val(key, sizeof key), NULL);
    return rc == WARM_ENOT_FOUND ? 0 : rc;
}

/* Adds to the accounts of the store, and of the row's owner, user and kind. */
static int count(struct change *c, const struct store_row *row, struct delta d)
{
    uint8_t key[4];
    struct usage u;
    int shares = count_share(c, entry_user(row), d.entries, d.disk - d.blob_disk, d.pinned);
    shares = shares ? shares : count_share(c, d.blob_user, 0, d.blob_disk, 0);
    if (shares)
        return shares;
    owner_encode(row->id.owner, key);
    int rc = index_usage(c->index, c->txn, row->id.owner, &u);
    if (rc != 0)
        return rc;
    add(&u.n_entries, d.entries);
    add(&u.n_bytes, d.bytes);
    add(&u.disk_bytes, d.disk);
    uint64_t numbers[3] = {u.n_entries, u.n_bytes, u.disk_bytes};
    rc = u.n_entries || u.disk_bytes
             ? numbers_put(c->txn, c->index->usage, bytes_val(key, sizeof key), numbers, 3)
             : table_del(c->txn, c->index->usage, bytes_val(key, sizeof key), NULL);
    if (rc != 0 && rc != WARM_ENOT_FOUND)
        return rc;
    struct totals *t = &c->totals;
    unsigned kind = row->kind % INDEX_KINDS;
    add(&t->n_entries, d.entries);
    add(&t->n_bytes, d.bytes);
    add(&t->disk_bytes, d.disk);
    add(&t->kind_entries[kind], d.entries);
    add(&t->kind_bytes[kind], d.entries * (int64_t)row->len);
    return 0;
}

static int put_blob(struct change *c, const struct blob_id *id,
                    const uint64_t numbers[BLOB_NUMBERS])
{
    uint8_t key[BLOB_KEY];
    blob_key(id, key);
    return numbers_put(c->txn, c->index->blob, bytes_val(key, sizeof key), numbers, BLOB_NUMBERS);
}

int change_doom(struct change *c, const struct blob_id *id)
{
    bool failed = false;
    if (c->n_doomed == c->cap_doomed &&
        !vector_grow(&failed, &c->doomed, &c->cap_doomed, c->n_doomed, sizeof *c->doomed))
        return ENOMEM;
    c->doomed[c->n_doomed++] = *id;
    return 0;
}

bool change_spare_blob(struct change *c, const struct blob_id *id)
{
    for (size_t i = 0; i < c->n_doomed; i++)
        if (blob_id_equal(&c->doomed[i], id)) {
            c->doomed[i] = c->doomed[--c->n_doomed];
            return true;
        }
    return false;
}

/* Adds a reference to a row's blob. The first one adds the blob's bytes. */
static int ref_blob(struct change *c, const struct store_row *row, struct delta *d)
{
    struct blob_id id = {row->id.owner, row->content};
    uint64_t numbers[BLOB_NUMBERS];
    int rc = index_blob(c->index, c->txn, &id, numbers);
    if (rc == WARM_ENOT_FOUND) {
        numbers[0] = 0;
        numbers[1] = row->len;
        numbers[2] = blob_disk_bytes(row->len);
        numbers[3] = entry_user(row);
        d->blob_disk += (int64_t)numbers[2];
        d->blob_user = entry_user(row);
        d->bytes += (int64_t)numbers[1];
        d->disk += (int64_t)numbers[2];
        c->totals.blob_disk_bytes += numbers[2];
    } else if (rc != 0) {
        return rc;
    }
    numbers[0]++;
    return put_blob(c, &id, numbers);
}

/* Deletes a blob's record, subtracts its bytes, and dooms it. */
static int drop_blob(struct change *c, const struct blob_id *id,
                     const uint64_t numbers[BLOB_NUMBERS], struct delta *d)
{
    uint8_t key[BLOB_KEY];
    blob_key(id, key);
    d->blob_disk -= (int64_t)numbers[2];
    d->blob_user = (uint32_t)numbers[3];
    d->bytes -= (int64_t)numbers[1];
    d->disk -= (int64_t)numbers[2];
    add(&c->totals.blob_disk_bytes, -(int64_t)numbers[2]);
    int rc = table_del(c->txn, c->index->blob, bytes_val(key, sizeof key), NULL);
    return rc ? rc : change_doom(c, id);
}

/* Removes a reference; the last one dooms the blob. */
static int unref_blob(struct change *c, const struct store_row *row, struct delta *d)
{
    struct blob_id id = {row->id.owner, row->content};
    uint64_t numbers[BLOB_NUMBERS];
    int rc = index_blob(c->index, c->txn, &id, numbers);
    if (rc != 0)
        return rc == WARM_ENOT_FOUND ? 0 : rc;
    if (--numbers[0] > 0)
        return put_blob(c, &id, numbers);
    return drop_blob(c, &id, numbers, d);
}

int change_forget_blob(struct change *c, const struct blob_id *id)
{
    uint64_t numbers[BLOB_NUMBERS];
    struct delta d = {0};
    int rc = index_blob(c->index, c->txn, id, numbers);
    rc = rc ? rc : drop_blob(c, id, numbers, &d);
    return rc ? rc : count(c, &(struct store_row){.id.owner = id->owner, .maker = d.blob_user}, d);
}

static int put_row(struct change *c, const struct store_row *row)
{
    uint8_t key[INDEX_KEY];
    index_key(&row->id, key);
    c->scratch.len = 0;
    row_encode(row, &c->scratch);
    if (c->scratch.failed)
        return ENOMEM;
    c->n_pages += 2;
    return table_put(c->txn, c->index->row, bytes_val(key, sizeof key),
                     bytes_val(c->scratch.data, c->scratch.len), 0);
}

int change_insert(struct change *c, const struct store_row *row, const void *value)
{
    uint8_t key[INDEX_KEY], group[INDEX_GROUP];
    struct delta d = {.entries = 1,
                      .disk = (int64_t)entry_disk_bytes(c->index, row),
                      .pinned = row->pinned ? (int64_t)entry_pinned_bytes(c->index, row) : 0};
    assert(c->txn && row->is_blob == (row->len > STORE_INLINE_MAX));
    assert(row->is_blob || value || row->len == 0);
    index_key(&row->id, key);
    int rc = put_row(c, row);
    if (rc == 0 && row->is_blob) {
        rc = ref_blob(c, row, &d);
    } else if (rc == 0) {
        d.bytes += (int64_t)row->len;
        rc = table_put(c->txn, c->index->value, bytes_val(key, sizeof key),
                       bytes_val(value, row->len), 0);
    }
    if (rc == 0 && index_group_key(row, group))
        rc = table_put(c->txn, c->index->group, bytes_val(group, sizeof group),
                       bytes_val(key + 4, 16), 0);
    c->n_pages += 3 + (row->is_blob ? 0 : (unsigned)(row->len / c->index->page_bytes));
    return rc ? rc : count(c, row, d);
}

void change_tell(struct change *c, const struct store_id *id, enum store_cause cause)
{
    assert(cause != 0);
    if (c->n_left < CHANGE_LEFT_MAX)
        c->left[c->n_left++] = (struct store_departure){.id = *id, .cause = cause};
}

int change_remove(struct change *c, const struct store_row *row)
{
    uint8_t key[INDEX_KEY], group[INDEX_GROUP];
    struct delta d = {.entries = -1,
                      .disk = -(int64_t)entry_disk_bytes(c->index, row),
                      .pinned = row->pinned ? -(int64_t)entry_pinned_bytes(c->index, row) : 0};
    struct store_row fixed = *row; /* its texts are invalid after the first write */
    assert(c->txn);
    index_key(&fixed.id, key);
    int rc = 0;
    if (index_group_key(&fixed, group)) {
        MDB_val member = bytes_val(key + 4, 16);
        rc = table_del(c->txn, c->index->group, bytes_val(group, sizeof group), &member);
    }
    if (rc != 0 && rc != WARM_ENOT_FOUND)
        return rc;
    if (fixed.is_blob) {
        rc = unref_blob(c, &fixed, &d);
    } else {
        d.bytes -= (int64_t)fixed.len;
        rc = table_del(c->txn, c->index->value, bytes_val(key, sizeof key), NULL);
    }
    if (rc == 0 || rc == WARM_ENOT_FOUND)
        rc = table_del(c->txn, c->index->row, bytes_val(key, sizeof key), NULL);
    c->n_pages += 5;
    return rc ? rc : count(c, &fixed, d);
}

int change_remove_broken(struct change *c, const struct store_id *id)
{
    uint8_t key[INDEX_KEY];
    uint64_t numbers[BLOB_NUMBERS];
    struct store_row row = {0};
    MDB_val data;
    index_key(id, key);
    c->broke = true;
    int rc = table_get(c->txn, c->index->row, bytes_val(key, sizeof key), &data);
    if (rc != 0)
        return rc == WARM_ENOT_FOUND ? 0 : rc;
    if (!row_salvage(data.mv_data, data.mv_size, &row))
        row = (struct store_row){0};
    row.id = *id;
    /* The accounts counted the stored length, which the damaged row need not state. */
    struct blob_id blob = {id->owner, row.content};
    rc = table_get(c->txn, c->index->value, bytes_val(key, sizeof key), &data);
    row.is_blob = rc == WARM_ENOT_FOUND;
    row.len = rc == 0 ? data.mv_size : 0;
    if (row.is_blob && (rc = index_blob(c->index, c->txn, &blob, numbers)) == 0)
        row.len = numbers[1];
    return rc == 0 || rc == WARM_ENOT_FOUND ? change_remove(c, &row) : rc;
}

int change_rewrite(struct change *c, const struct store_row *row) { return put_row(c, row); }

int change_pin(struct change *c, const struct store_row *row, bool pinned)
{
    struct store_row changed = *row;
    assert(row->pinned != pinned);
    int64_t bytes = (int64_t)entry_pinned_bytes(c->index, row);
    changed.pinned = pinned;
    int rc = put_row(c, &changed);
    return rc ? rc : count_share(c, entry_user(row), 0, 0, pinned ? bytes : -bytes);
}

int change_group(struct change *c, const struct store_row *row, size_t max, group_cb cb, void *arg)
{
    struct key *keys = fault_malloc(max * sizeof *keys);
    size_t n = 0;
    int rc = keys ? index_group(c->index, c->txn, row, keys, max, &n) : ENOMEM;
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = cb(arg, &(struct store_id){row->id.owner, keys[i]});
    free(keys);
    return rc;
}

int change_meta(struct change *c, const char *name, const void *data, size_t len)
{
    c->n_pages += 2;
    return table_put(c->txn, c->index->meta, name_val(name), bytes_val(data, len), 0);
}

int change_adopted(struct change *c)
{
    uint64_t no = 0;
    return numbers_put(c->txn, c->index->meta, name_val("adopting"), &no, 1);
}
