/* SPDX-License-Identifier: Apache-2.0 */
/*
 * index.h - the LMDB environment of a store: opening it, and reading its tables. change.h writes them.
 *
 *     table   key                         value
 *     row     owner, key                  encoded row (row.h)
 *     value   owner, key                  the bytes, up to STORE_INLINE_MAX
 *     blob    owner, SHA-256              references, length, bytes on disk, user of the share
 *     group   owner, group                keys (sorted duplicates)
 *     usage   owner                       entries, bytes, bytes on disk
 *     share   user                        entries, bytes on disk, of which pinned
 *     meta    name                        format, totals, and the values of store_meta_put
 *
 * An owner is 4 bytes, big-endian, in front of every key: an owner's entries are one range.
 *
 * An entry is in the share of its owner, or, if the daemon made it, of its maker. A blob that several
 * makers have is in the share of the first.
 *
 * Codes: functions here return 0, a WARM_E* code, or LMDB's own code: a positive errno, or a number below
 * -30000. The ranges are disjoint. index_error makes a WARM_E* of each.
 *
 * Thread: a read transaction belongs to the thread that began it. Memory: what was read lives until its
 * transaction ends, in a change until its next write.
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
#define BLOB_NUMBERS 4 /* references, length, bytes on disk, user of the share */

struct totals {
    uint64_t n_entries, n_bytes;
    uint64_t disk_bytes, blob_disk_bytes; /* of all on disk; of blob files alone */
    uint64_t kind_entries[INDEX_KINDS], kind_bytes[INDEX_KINDS];
};
#define TOTALS_NUMBERS (sizeof(struct totals) / 8)

struct usage {
    uint64_t n_entries, n_bytes, disk_bytes;
};

struct index {
    MDB_env *env; /* NULL: not open */
    MDB_dbi row, value, blob, group, usage, share, meta;
    struct totals totals; /* as last committed; the writer's */
    uint64_t map_bytes;
    unsigned page_bytes; /* of the file: those of the kernel that made it, 32 KiB at most */
    uint64_t format;
    bool adopting;          /* blobs/ may hold entries that the index does not know yet */
    void (*on_abort)(void); /* LMDB aborts the process next; may be NULL */
};

/* ---- its life ---- */

/* Opens DIR/index, or makes it. A new index is `adopting` until change_adopted. The struct must
 * stay where it is until index_close. Errors: IO, NOMEM, FULL; CORRUPT if it must be set aside. */
int index_open(struct index *x, const char *dir, uint64_t map_bytes, void (*on_abort)(void),
               struct err *e);
/* Closes the environment if it is open. No transaction may be open. */
void index_close(struct index *x);
#define INDEX_FRESH ".new" /* behind the folder's name: the index that is being written anew */
/* Puts the index that was written anew in the place of the old one if `take`; removes what is left of it. */
void index_renew(const char *dir, bool take);
/* Renames DIR/index to DIR/index.broken-TIME, and removes older ones of these. */
int index_set_aside(const char *dir, struct err *e);

/* True for codes after which this environment must not be used any more. */
bool index_is_damage(int rc);
/* Returns the WARM_E* for any code of this file, and fills *e unless rc is 0. */
int index_error(int rc, struct err *e);
/* Returns a number that changes with each commit that wrote something. */
uint64_t index_last_commit(const struct index *x);
/* Makes meta pages durable, so that a power failure loses nothing that was committed before. */
void index_sync(struct index *x);
/* Returns the bytes of the index file in use, free pages inside it included. */
uint64_t index_file_bytes(const struct index *x);
/* Frees the reader slots of dead processes. */
void index_check_readers(struct index *x);

/* ---- reading ---- */

/* Begins a read transaction, or renews *txn if there is one. */
int index_read_begin(struct index *x, MDB_txn **txn);
/* True if nothing was committed since the transaction began. */
bool index_is_latest(const struct index *x, MDB_txn *txn);

/* Writes the key of an entry. */
void index_key(const struct store_id *id, uint8_t out[INDEX_KEY]);
/* Reads the row of an entry. Errors, after which *out is undefined: NOT_FOUND; CORRUPT if it does
 * not decode or is another entry's. */
int index_row(const struct index *x, MDB_txn *txn, const struct store_id *id,
              struct store_row *out);
/* Reads the inline value of an entry, unhashed. Errors: NOT_FOUND; CORRUPT if its length is not
 * `len`. */
int index_value(const struct index *x, MDB_txn *txn, const struct store_id *id, uint64_t len,
                struct view *out);
/* Hashes an inline value. CORRUPT if it is not the row's. */
int index_check_value(const struct store_row *row, struct view value);
/* Reads the accounts of an owner; all zero if it has none. */
int index_usage(const struct index *x, MDB_txn *txn, uint32_t owner, struct usage *out);
/* Reads the accounts of a user; all zero if there are none. */
int index_share(const struct index *x, MDB_txn *txn, uint32_t user, struct store_share *out);
/* Finds the user with the largest share. NOT_FOUND if there are none. */
int index_largest_share(const struct index *x, MDB_txn *txn, uint32_t *out);
/* Lists the first `cap` owners in a table: in `usage` those that have entries or bytes on disk, in `share` the
 * users that have a share. */
int index_listed(MDB_txn *txn, MDB_dbi dbi, uint32_t *out, size_t cap, size_t *out_n);
#define INDEX_GROUP (4 + 16) /* bytes of a group's key */
/* Writes the key of the row's group. False if it is in none. */
bool index_group_key(const struct store_row *row, uint8_t out[INDEX_GROUP]);
/* Lists the keys of the first `cap` members of a row's group, itself too. */
int index_group(const struct index *x, MDB_txn *txn, const struct store_row *row, struct key *out,
                size_t cap, size_t *out_n);
/* Draws an owner with a probability in proportion to its bytes. NOT_FOUND if there are none. */
int index_pick_owner(const struct index *x, MDB_txn *txn, uint64_t (*next_random)(void *arg),
                     void *arg, uint32_t *out);
/* Reads the record of a blob. */
int index_blob(const struct index *x, MDB_txn *txn, const struct blob_id *id,
               uint64_t numbers[BLOB_NUMBERS]);
/* True if a blob has a record, or if that cannot be read. */
bool index_has_blob(const struct index *x, MDB_txn *txn, const struct blob_id *id);
/* Reads a record of the table `meta`. */
int index_meta(const struct index *x, MDB_txn *txn, const char *name, struct view *out);
/* Writes the totals into a write transaction. */
int index_put_totals(struct index *x, MDB_txn *txn, const struct totals *totals);

/* A position in key order. */
struct index_place {
    uint8_t key[INDEX_KEY];
    bool after;    /* start behind `key`, not at it */
    bool standing; /* the cursor stands on `key`: clear it with each new cursor or key */
};
/* Reads the first row at or after a position, and moves the position past it. NOT_FOUND at the end.
 * CORRUPT for a row that does not decode: the position is past it, and out->id is set. */
int index_next(const struct index *x, MDB_cursor *cursor, struct index_place *place,
               struct store_row *out);

#endif
