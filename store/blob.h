/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blob.h - the files of a store: values above STORE_INLINE_MAX, drafts of them, quarantine.
 *
 *     draft                     blob                              gone
 *     ─────                     ────                              ────
 *     tmp/put-…  ──place───▶  blobs/OWNER/ab/abcd…  ──doom─────▶  tmp/del-…  ──unlink──▶
 *     (copied and hashed,     (name: SHA-256 of the  └─quarantine▶ quarantine/…
 *      mode 0400)              value; immutable but
 *                              for trailers)
 *
 *     ┌───────────── value ─────────────┬ row, footer ┬ row, footer ┬ … ┐
 *     0                              row.len                            end: read backwards
 *
 * A trailer is the encoded row of an entry that refers to the value, and a footer with its length:
 * from these a lost index is rebuilt. FORMAT.md has the table.
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
#define BLOB_TRAILERS_MAX (64u << 10) /* bytes of trailers; what comes later is not appended */
#define BLOB_FOOTER 16u
#define QUARANTINE_MAX 32u /* files; the oldest go first */

/* The store's folders, as descriptors. */
struct files {
    int dir, blobs, tmp, quarantine;
    uint64_t session; /* part of the name of what this process puts into tmp/ */
    atomic_ulong serial;
};

/* Makes what is missing. Errors: IO. files_close closes; fine on a half-opened one. */
int files_open(struct files *f, const char *dir, struct err *e);
void files_close(struct files *f);
/* Removes what an earlier process left in tmp/. */
void files_sweep_tmp(struct files *f);
/* Bytes that could still be written to the file system, and whether that is known. */
bool files_space(const struct files *f, uint64_t *out_bytes);

struct blob_id {
    uint32_t owner;
    struct proof content;
};
bool blob_id_equal(const struct blob_id *a, const struct blob_id *b);

/* What the file system says of a file. If none of it changed, nor did the bytes, as far as the file
 * system can know: what it cannot (a rotten sector) is found when the file is next hashed. */
struct blob_state {
    uint64_t ino, size;
    int64_t mtime_ns, ctime_ns;
};
bool blob_state_equal(const struct blob_state *a, const struct blob_state *b);

/* A value on its way into blobs/. */
struct draft {
    bool made;     /* tmp/NAME is there */
    bool placed;   /* it went to blobs/ */
    int fd;        /* read-only, once sealed */
    char name[64]; /* in tmp/ */
    uint64_t len;
    struct key check;
    struct proof content;
};
#define DRAFT_NONE ((struct draft){.fd = -1})

/* Both digests of a value that is read piece by piece. */
struct hashing;
/* NULL without memory. free(NULL) is fine. */
struct hashing *hashing_new(void);
void hashing_free(struct hashing *h);

/* Makes the file of a draft. Errors: FULL, IO. */
int draft_begin(struct files *f, struct draft *d, uint64_t len, struct err *e);
/* Copies up to `max` further bytes into it, from memory or, where `data` is NULL, from `fd`, which is
 * read from offset 0. Returns 1 while there is more; 0 when all is there and hashed. Errors: FULL, IO,
 * TRUNCATED; then nothing is left behind. */
int draft_copy(struct files *f, struct draft *d, struct hashing *h, const void *data, int fd,
               uint64_t max, struct err *e);
/* Reads exactly `len` bytes from offset 0. Errors: IO, TRUNCATED. */
int value_read(int fd, void *out, size_t len, struct err *e);
/* Appends the row, whose check and content are the draft's, and opens d->fd. Errors: FULL, IO. */
int draft_seal(struct files *f, struct draft *d, const struct store_row *row, struct err *e);
/* Renames the draft to its place in blobs/; does nothing if it is there. Errors: FULL, IO. */
int draft_place(struct files *f, struct draft *d, uint32_t owner, struct err *e);
/* Removes what is left of the draft in tmp/, closes d->fd. Idempotent. */
void draft_drop(struct files *f, struct draft *d);

/* Opens a blob read-only and tells its state. Errors: NOT_FOUND, IO; CORRUPT if it is no regular
 * file or shorter than `len`. */
int blob_open(struct files *f, const struct blob_id *id, uint64_t len, int *out_fd,
              struct blob_state *out_state, struct err *e);
int blob_fstat(int fd, struct blob_state *out);
/* Hashes the first `len` bytes. `piece` is BLOB_PIECE bytes to work in; `stop` (may be NULL) ends
 * the work early. Errors: CORRUPT, IO, CANCELLED. */
int blob_check(int fd, uint64_t len, const struct key *check, void *piece, const atomic_bool *stop,
               struct err *e);

/* The same in pieces: 1 while there is more. */
int blob_check_some(int fd, uint64_t len, const struct key *check, struct hashing *h, uint64_t max,
                    struct err *e);

/* Appends a row to a blob that is there. Gives the state before and after, so that who knows the
 * one can trust the other. Errors: NOT_FOUND, FULL (of trailers too), IO. */
int blob_append(struct files *f, const struct blob_id *id, const struct store_row *row,
                struct blob_state *out_before, struct blob_state *out_after, struct err *e);

/* Takes a blob out of blobs/, to tmp/NAME. Errors: NOT_FOUND, IO. */
#define DOOMED_NAME 64
int blob_doom(struct files *f, const struct blob_id *id, char out_name[DOOMED_NAME]);
/* Frees the space: slow for large files, so not on the writer thread. */
void blob_bury(struct files *f, const char *name);
/* Moves a damaged blob, or writes a damaged inline value, where a person may look at it. */
int blob_quarantine(struct files *f, const struct blob_id *id);
int value_quarantine(struct files *f, const struct store_id *id, const void *data, size_t len);

/* Rows in the trailers of an open blob, the newest first; at most BLOB_TRAILERS_MAX bytes of them.
 * `cb` returns false to stop. The row is valid during the call. *out_n: how many were found. Errors:
 * IO, NOMEM: they could not be read. */
typedef bool (*blob_row_cb)(void *arg, const struct store_row *row);
int blob_rows(int fd, uint64_t size, blob_row_cb cb, void *arg, size_t *out_n);

/* A walk over all blobs that a caller can leave and come back to. */
struct blob_walk {
    DIR *owners, *prefixes, *names;
    uint32_t owner;
    bool incomplete; /* a folder could not be read, and what is in it was not told */
};
int blob_walk_begin(struct files *f, struct blob_walk *w, struct err *e);
/* 1 and *out, or 0 at the end. What is no blob by its name is passed over. */
int blob_walk_next(struct blob_walk *w, struct blob_id *out);
void blob_walk_end(struct blob_walk *w);

#endif
