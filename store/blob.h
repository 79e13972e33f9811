/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blob.h - the files of a store: values above STORE_INLINE_MAX, drafts of them, quarantine.
 *
 *     draft                     blob                              gone
 *     ─────                     ────                              ────
 *     tmp/…-put-N ─place───▶  blobs/OWNER/ab/abcd…  ──doom─────▶  tmp/…-del-N ─unlink──▶
 *     (copied and hashed,     (name: SHA-256 of the  └─quarantine▶ quarantine/…
 *      mode 0400)              value; immutable but
 *                              for trailers)
 *
 *     ┌───────────── value ─────────────┬ row, footer ┬ row, footer ┬ … ┐
 *     0                              row.len                            end: read backwards
 *
 * A trailer is the encoded row of an entry that refers to the value, and a footer with its length.
 * From these a lost index is rebuilt. FORMAT.md has the table.
 *
 * Thread: drafts are made on any thread; what changes blobs/ runs on the writer thread alone;
 * opening and checking is for all. Memory: everything is embedded by its user.
 */
#ifndef WARM_STORE_BLOB_H
#define WARM_STORE_BLOB_H

#include <dirent.h>
#include <stdatomic.h>

#include "store/row.h"
#include "store/store.h"

#define BLOB_PIECE (256u << 10) /* bytes read, hashed and written at a time: fits the L2 cache */
#define BLOB_TRAILERS_MAX (64u << 10) /* bytes of trailers; later ones are not appended */
#define BLOB_FOOTER 16u
#define QUARANTINE_MAX 32u /* files; the oldest go first */

/* The store's folders, as descriptors. */
struct files {
    int dir, blobs, tmp, quarantine;
    uint64_t session; /* part of the names that this process makes in tmp/ */
    atomic_ulong serial;
};

/* Opens the folders, and makes missing ones. Errors: IO. */
int files_open(struct files *f, const char *dir, struct err *e);
/* Closes them; fine on a half-opened struct. */
void files_close(struct files *f);
/* Removes the files of earlier processes from tmp/. */
void files_sweep_tmp(struct files *f);
/* Returns the free bytes of the file system. False if it does not tell. */
bool files_space(const struct files *f, uint64_t *out_bytes);

struct blob_id {
    uint32_t owner;
    struct proof content;
};
/* True if both name the same blob. */
bool blob_id_equal(const struct blob_id *a, const struct blob_id *b);

/* A file's state in the file system. While it is the same, the bytes are the same, as far as the
 * file system knows. The next hash of the file finds the rest, such as a rotten sector. */
struct blob_state {
    uint64_t ino, size;
    int64_t mtime_ns, ctime_ns;
};
/* True if both are the same state. */
bool blob_state_equal(const struct blob_state *a, const struct blob_state *b);

/* A value on its way into blobs/. */
struct draft {
    bool made;     /* tmp/NAME exists */
    bool placed;   /* it was moved to blobs/ */
    int fd;        /* read-only, once sealed */
    char name[64]; /* in tmp/ */
    uint64_t len;
    struct key check;
    struct proof content;
};
#define DRAFT_NONE ((struct draft){.fd = -1})

/* Both digests of a value that is read piece by piece. */
struct hashing;
/* Begins both digests. NULL without memory. */
struct hashing *hashing_new(void);
/* Frees both digests; NULL is fine. */
void hashing_free(struct hashing *h);

/* Makes the file of a draft. Errors: FULL, IO. */
int draft_begin(struct files *f, struct draft *d, uint64_t len, struct err *e);
/* Copies up to `max` further bytes into it and hashes them: from memory or, if `data` is NULL,
 * from `fd` from offset 0 on. Returns 1 while there is more, 0 at the end. Errors: FULL, IO,
 * TRUNCATED; the draft is then dropped. */
int draft_copy(struct files *f, struct draft *d, struct hashing *h, const void *data, int fd,
               uint64_t max, struct err *e);
/* Reads exactly `len` bytes of a value from offset 0. Errors: IO, TRUNCATED. */
int value_read(int fd, void *out, size_t len, struct err *e);
/* Appends the row, whose check and content are the draft's, and opens d->fd again, read-only. Errors: FULL,
 * IO, NOMEM. */
int draft_seal(struct files *f, struct draft *d, const struct store_row *row, struct err *e);
/* Renames the draft to its place in blobs/; does nothing if it is there. Errors: FULL, IO. */
int draft_place(struct files *f, struct draft *d, uint32_t owner, struct err *e);
/* Removes the draft from tmp/ if it is still there, and closes d->fd. Idempotent. */
void draft_drop(struct files *f, struct draft *d);

/* Opens a blob read-only and reads its state. Errors: NOT_FOUND, IO; CORRUPT if it is no regular
 * file or shorter than `len`. */
int blob_open(struct files *f, const struct blob_id *id, uint64_t len, int *out_fd,
              struct blob_state *out_state, struct err *e);
/* Reads the state of an open blob. Errors: IO; CORRUPT if it is no regular file. */
int blob_fstat(int fd, struct blob_state *out);
/* Hashes the first `len` bytes. `piece` is BLOB_PIECE bytes to work in; `stop` (may be NULL) ends
 * the work early. Errors: CORRUPT, IO, CANCELLED. */
int blob_check(int fd, uint64_t len, const struct key *check, void *piece, const atomic_bool *stop,
               struct err *e);

/* Hashes up to `max` further bytes of a blob of `len`. Returns 1 while there is more, 0 if all are right.
 * Errors: CORRUPT, IO. */
int blob_check_some(int fd, uint64_t len, const struct key *check, struct hashing *h, uint64_t max,
                    struct err *e);

/* Appends a row to a blob. Reports the state before and after: if the first was verified, the
 * second is too. Errors: NOT_FOUND; FULL (also of trailers); IO. */
int blob_append(struct files *f, const struct blob_id *id, const struct store_row *row,
                struct blob_state *out_before, struct blob_state *out_after, struct err *e);

#define DOOMED_NAME 64 /* bytes of NAME */
/* Moves a blob from blobs/ to tmp/NAME. Errors: NOT_FOUND, IO. */
int blob_doom(struct files *f, const struct blob_id *id, char out_name[DOOMED_NAME]);
/* Unlinks tmp/NAME. Slow for large files: not for the writer thread. */
void blob_bury(struct files *f, const char *name);
/* Moves a damaged blob to quarantine/, where a person may look at it. */
int blob_quarantine(struct files *f, const struct blob_id *id);
/* Writes a damaged inline value to quarantine/. */
int value_quarantine(struct files *f, const struct store_id *id, const void *data, size_t len);

typedef bool (*blob_row_cb)(void *arg, const struct store_row *row);
/* Calls `cb` for each row in the trailers of an open blob, the newest first, in at most
 * BLOB_TRAILERS_MAX bytes. `cb` returns false to stop; the row lives during the call. *out_n: the
 * number of rows. Errors: IO, NOMEM. */
int blob_rows(int fd, uint64_t size, blob_row_cb cb, void *arg, size_t *out_n);

/* A walk over all blobs that a caller can leave and come back to. */
struct blob_walk {
    DIR *owners, *prefixes, *names;
    uint32_t owner;
    bool incomplete; /* a folder could not be read, and its blobs are missing */
};
/* Begins a walk. Errors: IO. */
int blob_walk_begin(struct files *f, struct blob_walk *w, struct err *e);
/* Returns 1 and the next blob, or 0 at the end. Skips files whose names are no blob's. */
int blob_walk_next(struct blob_walk *w, struct blob_id *out);
/* Ends a walk at any point. */
void blob_walk_end(struct blob_walk *w);

#endif
