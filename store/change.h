/* SPDX-License-Identifier: Apache-2.0 */
/*
 * change.h - one write transaction on the index, and the accounts that it keeps in order.
 *
 *     change_begin ─▶ changes ─▶ change_commit or change_abort ─▶ change_close
 *
 * Codes are those of index.h.
 *
 * Thread: one struct change at a time, on the writer thread. Memory: a row that was read in a change
 * lives until the change's next write.
 */
#ifndef WARM_STORE_CHANGE_H
#define WARM_STORE_CHANGE_H

#include "store/index.h"

#define CHANGE_LEFT_MAX 256u  /* departures that one change reports */
#define CHANGE_PAGES_MAX 800u /* no change grows larger: it would hold up the others */

struct change {
    struct index *index;
    MDB_txn *txn; /* NULL: committed or aborted */
    struct totals totals;
    unsigned n_pages;       /* roughly how many are dirty */
    struct blob_id *doomed; /* unreferenced once this is committed */
    uint32_t n_doomed, cap_doomed;
    struct writer scratch;
    bool broke;                    /* a row was removed that could not be read */
    uint64_t n_old;                /* of the evicted */
    uint64_t n_evicted, n_corrupt; /* added to the statistics once this is committed */
    uint64_t evicted_bytes;        /* values of the evicted */
    enum store_cause cause;        /* of evictions */
    struct store_departure left[CHANGE_LEFT_MAX];
    size_t n_left;
};

/* Begins a change. It must be closed, even after an error. */
int change_begin(struct change *c, struct index *x);
/* Writes the totals and commits. After an error nothing was changed. */
int change_commit(struct change *c);
/* Undoes all changes. */
void change_abort(struct change *c);
/* Frees what the change holds. Aborts it unless it is committed. */
void change_close(struct change *c);

/* ---- sizes ---- */

/* Returns the user whose share holds an entry. */
uint32_t entry_user(const struct store_row *row);
/* Returns the bytes on disk that a pin keeps. */
uint64_t entry_pinned_bytes(const struct index *x, const struct store_row *row);
/* Returns the bytes on disk of an entry without its blob. */
uint64_t entry_disk_bytes(const struct index *x, const struct store_row *row);
/* Returns the bytes on disk of a blob. */
uint64_t blob_disk_bytes(uint64_t len);

/* ---- entries ---- */

/* Adds an entry whose id has none. An inline value goes in with it. */
int change_insert(struct change *c, const struct store_row *row, const void *value);
/* Removes an entry, its value, and its reference to a blob. */
int change_remove(struct change *c, const struct store_row *row);
/* Removes an entry whose row cannot be read. Finds its value and blob as far as the rest of the row
 * makes sense; change_forget_blob takes a blob that stays behind. */
int change_remove_broken(struct change *c, const struct store_id *id);
/* Reports, once this is committed, that an entry is gone. */
void change_tell(struct change *c, const struct store_id *id, enum store_cause cause);
/* Writes a row again: same id, value, texts and pin. */
int change_rewrite(struct change *c, const struct store_row *row);
/* Changes the pin of an entry, which must be the opposite now. */
int change_pin(struct change *c, const struct store_row *row, bool pinned);

typedef int (*group_cb)(void *arg, const struct store_id *id);
/* Calls `cb` for each member of the row's group, at most `max`. Collects them before the first
 * call. */
int change_group(struct change *c, const struct store_row *row, size_t max, group_cb cb, void *arg);

/* ---- blobs ---- */

/* Removes a blob's record and dooms the blob, though references are still counted. */
int change_forget_blob(struct change *c, const struct blob_id *id);
/* Dooms a blob that no entry refers to. */
int change_doom(struct change *c, const struct blob_id *id);
/* Takes a blob out of the doomed. False if this change did not doom it. */
bool change_spare_blob(struct change *c, const struct blob_id *id);

/* ---- the rest ---- */

/* Writes a record of the table `meta`. */
int change_meta(struct change *c, const char *name, const void *data, size_t len);
/* Clears `adopting`: the index knows all blobs. */
int change_adopted(struct change *c);

#endif
