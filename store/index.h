/* SPDX-License-Identifier: Apache-2.0 */
/*
 * index.h - the LMDB environment of a store: its tables, and changes to several of them as one.
 *
 *     table   key                         value
 *     row     owner, key                  encoded row (row.h)
 *     value   owner, key                  the bytes, up to STORE_INLINE_MAX
 *     blob    owner, SHA-256              references, length, bytes on disk, whose share they are in
 *     group   owner, group                keys (sorted duplicates)
 *     usage   owner                       entries, bytes, bytes on disk
 *     share   user                        entries, bytes on disk, of which pinned
 *     meta    name                        format, totals, and what store_meta_put brought
 *
 * An owner is 4 bytes, big-endian, in front of every key: an owner's entries are one range.
 *
 * Whose share: the owner's, and for what the daemon made the maker's. A blob that several makers have
 * is in the share of the first.
 *
 * Codes: functions here return 0, a WARM_E* code, or what LMDB returned (a positive errno or one of
 * its own codes below -30000): the three ranges are disjoint. index_error makes a WARM_E* of it.
 *
 * Thread: one struct change at a time, on the writer thread; a read transaction on the thread that
 * began it. Memory: what is read lives until its transaction ends, in a change until its next
 * write.
 */
#ifndef WARM_STORE_INDEX_H
#define WARM_STORE_INDEX_H

#include <lmdb.h>
#include <stdatomic.h>

#include "store/blob.h"
#include "store/row.h"
#include "store/store.h"

#define INDEX_FORMAT 2u
#define INDEX_KEY 20   /* owner and key */
#define INDEX_KINDS 16 /* as in struct store_stats */

struct totals {
    uint64_t n_entries, n_bytes;
    uint64_t disk_bytes, blob_disk_bytes; /* what all takes on disk; blob files alone */
    uint64_t kind_entries[INDEX_KINDS], kind_bytes[INDEX_KINDS];
};
#define TOTALS_NUMBERS (sizeof(struct totals) / 8)

struct usage {
    uint64_t n_entries, n_bytes, disk_bytes;
};

struct share {
    uint64_t n_entries, disk_bytes, pinned_bytes;
};

struct index {
    MDB_env *env;
    MDB_dbi row, value, blob, group, usage, share, meta;
    struct totals totals; /* as last committed; the writer's */
    uint64_t map_bytes;
    bool taken_over; /* it was of format 1 when index_open found it */
    uint64_t n_taken_over;
    bool adopting; /* blobs/ may hold entries that the index does not know yet */
};

/* Opens DIR/index, or makes it. A new index is `adopting` until index_adopted. One of format 1 is taken
 * over: this reads every row, once, in one transaction.
 * Errors: IO, NOMEM, FULL; CORRUPT if it must be set aside. */
int index_open(struct index *x, const char *dir, uint64_t map_bytes, struct err *e);
/* No transaction may be open. Fine on one that is not open. */
void index_close(struct index *x);
/* Renames DIR/index to DIR/index.broken-TIME; an older one of these goes. */
int index_set_aside(const char *dir, struct err *e);

/* True for codes after which this environment must not be used any more. */
bool index_is_damage(int rc);
/* A WARM_E* for any code of this file; fills *e unless rc is 0. */
int index_error(int rc, struct err *e);
/* Changes with each commit that wrote something. */
uint64_t index_last_commit(const struct index *x);
/* Makes meta pages durable, so that a power failure loses nothing that was committed before. */
void index_sync(struct index *x);
/* Bytes of the index file in use, free pages inside it included. */
uint64_t index_file_bytes(const struct index *x);
/* Lets go of reader slots of processes that are no more. */
void index_check_readers(struct index *x);

void index_key(const struct store_id *id, uint8_t out[INDEX_KEY]);

int index_read_begin(struct index *x, MDB_txn **txn); /* renews *txn if there is one */
bool index_is_latest(const struct index *x,
                     MDB_txn *txn); /* nothing was committed since it began */

/* The row of an entry. Errors, after which *out is undefined: NOT_FOUND; CORRUPT if it does not decode
 * or is another entry's. */
int index_row(const struct index *x, MDB_txn *txn, const struct store_id *id,
              struct store_row *out);
/* Its inline value. Errors: NOT_FOUND; CORRUPT if its length is not `len`. Not hashed here. */
int index_value(const struct index *x, MDB_txn *txn, const struct store_id *id, uint64_t len,
                struct view *out);
int index_check_value(const struct store_row *row, struct view value);
int index_usage(const struct index *x, MDB_txn *txn, uint32_t owner, struct usage *out);
int index_share(const struct index *x, MDB_txn *txn, uint32_t user, struct share *out);
/* The user with the largest share. NOT_FOUND if there are none. */
int index_largest_share(const struct index *x, MDB_txn *txn, uint32_t *out);
/* The owners that have entries, or had some: up to `cap`, the rest is left out. */
int index_owners(const struct index *x, MDB_txn *txn, uint32_t *out, size_t cap, size_t *out_n);
/* The users who have a share, likewise. */
int index_users(const struct index *x, MDB_txn *txn, uint32_t *out, size_t cap, size_t *out_n);
/* An owner, chosen with a probability in proportion to its bytes. NOT_FOUND if there are none. */
int index_pick_owner(const struct index *x, MDB_txn *txn, uint64_t (*next_random)(void *arg),
                     void *arg, uint32_t *out);
/* True also where that cannot be read. */
bool index_has_blob(const struct index *x, MDB_txn *txn, const struct blob_id *id);
int index_meta(const struct index *x, MDB_txn *txn, const char *name, struct view *out);

/* The first row at or after a position in key order; the position moves past it. NOT_FOUND at the
 * end; CORRUPT for a row that does not decode, with the position past it and out->id set. */
struct index_place {
    uint8_t key[INDEX_KEY];
    bool after;    /* start behind `key`, not at it */
    bool standing; /* the cursor stands on `key`: to be cleared with each new cursor or key */
};
int index_next(const struct index *x, MDB_cursor *cursor, struct index_place *place,
               struct store_row *out);

/* ---- one write transaction ---- */

#define CHANGE_LEFT_MAX 256u /* departures of one change that are told of */
struct change {
    struct index *index;
    MDB_txn *txn;
    struct totals totals;
    unsigned n_pages;       /* roughly how many are dirty */
    struct blob_id *doomed; /* nothing refers to them once this is committed */
    size_t n_doomed, cap_doomed;
    struct writer scratch;
    bool broke;                    /* a row was removed that could not be read */
    uint64_t n_old;                /* of the evicted */
    uint64_t n_evicted, n_corrupt; /* to be added to the statistics once this is committed */
    enum store_cause cause;        /* of evictions */
    struct store_departure left[CHANGE_LEFT_MAX];
    size_t n_left;
};
#define CHANGE_PAGES_MAX 800u /* no change grows larger: it would hold up the others */

/* change_begin; then changes; then change_commit or change_abort; then change_close. */
int change_begin(struct change *c, struct index *x);
int change_commit(struct change *c);
void change_abort(struct change *c);
void change_close(struct change *c);

/* Whose share an entry is in. */
uint32_t entry_user(const struct store_row *row);
/* What a pin keeps on disk. */
uint64_t entry_pinned_bytes(const struct store_row *row);
/* Bytes on disk that an entry stands for, its blob not included; and those of a blob. */
uint64_t entry_disk_bytes(const struct store_row *row);
uint64_t blob_disk_bytes(uint64_t len);

/* Adds an entry whose id is not there. An inline value goes in with it. */
int change_insert(struct change *c, const struct store_row *row, const void *value);
/* Removes an entry, its value, and its reference to a blob: the last one dooms the blob. */
int change_remove(struct change *c, const struct store_row *row);
/* Removes what there is of an entry whose row cannot be read. What the row referred to is found as
 * far as the rest of it makes sense; a blob that stays behind is for change_forget_blob. */
int change_remove_broken(struct change *c, const struct store_id *id);
/* Tells, once this is committed, that an entry is gone. */
void change_tell(struct change *c, const struct store_id *id, enum store_cause cause);
/* Writes a row again: same id, same value, same texts, same pin. */
int change_rewrite(struct change *c, const struct store_row *row);
/* Pins or unpins an entry that is not, or is. */
int change_pin(struct change *c, const struct store_row *row, bool pinned);
/* Takes a blob off the books, and dooms it, though references are still counted. */
int change_forget_blob(struct change *c, const struct blob_id *id);
/* Dooms a blob that no entry refers to. */
int change_doom(struct change *c, const struct blob_id *id);
/* True once, if the blob was doomed by this change; it is no more. */
bool change_spare_blob(struct change *c, const struct blob_id *id);

typedef int (*group_cb)(void *arg, const struct store_id *id);
/* Calls for each member of a group, at most `max`; collected before the first call. */
int change_group(struct change *c, const struct store_row *row, size_t max, group_cb cb, void *arg);
int change_meta(struct change *c, const char *name, const void *data, size_t len);
int change_adopted(struct change *c);

#endif
