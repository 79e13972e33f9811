/* SPDX-License-Identifier: Apache-2.0 */
/*
 * digests.h - remembers digests of files, and absent files. An unchanged file is not read again,
 * and an absent one is not looked for again.
 *
 *     file   ── stat: device, inode, size, times as when it was read ──▶ the digest of then
 *     absent ── its folder, or the nearest one that exists: unchanged ─▶ still absent; one stat for
 *                                                                        all paths of a folder
 *
 * A file that changed a moment ago is not remembered. It could change again within one tick of its
 * file system's clock, or through a mapping of a dirty page. Its times would not show that.
 *
 * Thread: one at a time. Memory: DIGESTS_MAX paths and folders; when there are more, all are
 * forgotten.
 */
#ifndef WARM_LIB_DIGESTS_H
#define WARM_LIB_DIGESTS_H

#include <stdbool.h>
#include <sys/stat.h>

#include "keygen/key.h"

#define DIGESTS_MAX 8192u

struct digests;

/* Returns an empty memory; NULL if there is no room for it. */
struct digests *digests_new(void);
/* Frees it; NULL is fine. */
void digests_free(struct digests *d);

/* Begins a pass over many paths: each folder is looked at once in a pass. */
void digests_begin(struct digests *d);

/* Finds the SHA-256 of the file at `path`, whose stat is `st` now. False if it is not known. `d`
 * may be NULL here and below. */
bool digests_recall(const struct digests *d, const char *path, const struct stat *st,
                    struct proof *out);
/* Remembers the digest of a file of which stat_shows_mappings. `st` must have held before and after
 * the file was read. */
void digests_keep(struct digests *d, const char *path, const struct stat *st,
                  const struct proof *sha256);

/* True if nothing was at `path`, and its folder has not changed since. */
bool digests_is_absent(struct digests *d, const char *path);
/* Remembers that nothing is at `path`. */
void digests_keep_absent(struct digests *d, const char *path);

/* True if both are the same file with the same content, as far as a stat can tell. */
bool stat_is_same(const struct stat *a, const struct stat *b);
/* True if the last change is so long ago that another one would show in the file's times, unless it
 * is made through a mapping. */
bool stat_is_settled(const struct stat *st);
/* True for an open file if every later write through a mapping will show in its times. Such a write
 * sets them only if its page is clean. The kernel cleans pages after dirty_expire_centisecs, by
 * default 30 s, and never on a file system in memory. The pages of a file that changed less than a
 * minute ago are written to the disk here, and so clean: may block. Call it before the content is
 * read. */
bool stat_shows_mappings(int fd, const struct stat *st);

#endif
