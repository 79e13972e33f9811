/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fault.h - every call of the store that the outside can make fail, and the hook that makes it.
 *
 * The store calls fault_write instead of write, and so on. Each is the real call, unless a test has
 * armed the countdown: then the n-th such call, of whichever kind, fails with the errno asked for,
 * and so do all after it if the fault is to last (a full disk) rather than pass (a signal).
 * Calls of LMDB that may write or allocate pass through fault_index; one of LMDB's own codes, which
 * are negative, counts and fails only those.
 *
 *     fault_arm(3, ENOSPC, false);   the third call from now on fails once
 *     …
 *     bool reached = fault_disarm(); false: the operation made fewer than three calls
 *
 * Thread: any; the countdown is atomic. Cost when not armed: one load and a predictable branch.
 */
#ifndef WARM_STORE_FAULT_H
#define WARM_STORE_FAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

void fault_arm(long nth, int errnum, bool lasting);
/* True if the fault was injected at least once since it was armed. */
bool fault_disarm(void);

int fault_openat(int dirfd, const char *path, int flags, mode_t mode);
int fault_mkdirat(int dirfd, const char *path, mode_t mode);
int fault_renameat(int olddirfd, const char *old_path, int newdirfd, const char *new_path);
int fault_unlinkat(int dirfd, const char *path, int flags);
int fault_fstat(int fd, struct stat *out);
int fault_fchmod(int fd, mode_t mode);
ssize_t fault_write(int fd, const void *data, size_t len);
ssize_t fault_pread(int fd, void *out, size_t len, off_t offset);
void *fault_malloc(size_t size);
void *fault_calloc(size_t n, size_t size);
void *fault_malloc_aligned(size_t alignment, size_t size); /* a multiple of the alignment */

/* 0, or the errno with which the next call into LMDB is to fail. */
int fault_index(void);

#endif
