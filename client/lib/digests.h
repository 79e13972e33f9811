/* SPDX-License-Identifier: Apache-2.0 */
/*
 * digests.h - what was at paths when they were last looked at, so that a file that has not changed is
 * not read again, and one that was absent not looked for.
 *
 *     file   ── stat: device, inode, size, times as when it was read ──▶ the digest of then
 *     absent ── its folder, or the nearest that is there: the same ───▶ still absent; one stat for
 *                                                                        all paths of a folder
 *
 * What was changed a moment ago is not remembered: it could change once more within one tick of its
 * file system's clock, and its times would not tell.
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

struct digests *digests_new(void);    /* NULL if memory ran out */
void digests_free(struct digests *d); /* NULL is fine */

/* A pass over many paths begins: what folders are like is asked anew, and once in a pass. */
void digests_begin(struct digests *d);

/* The SHA-256 of the file at `path`, which is as `st` says now. False if it is not known. `d` may be
 * NULL here and below. */
bool digests_recall(const struct digests *d, const char *path, const struct stat *st,
                    struct proof *out);
/* Remembers it. `st` was true before the file was read and after. */
void digests_keep(struct digests *d, const char *path, const struct stat *st,
                  const struct proof *sha256);

/* Nothing is at `path`, as its folder tells. */
bool digests_is_absent(struct digests *d, const char *path);
/* Remembers that nothing is there. */
void digests_keep_absent(struct digests *d, const char *path);

/* The same file with the same content, as far as a stat can tell. */
bool stat_is_same(const struct stat *a, const struct stat *b);
/* Its last change is so long ago that another one would show in its times. */
bool stat_is_settled(const struct stat *st);

#endif
