/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fault.h - the system calls of the store that can fail, and a hook with which a test makes them fail.
 *
 * The store calls fault_write instead of write, and so on. Each is the real call unless a test has
 * armed the countdown. Then the n-th call of any kind fails with the test's errno. A lasting fault (a
 * full disk) fails all later calls too; a passing one (a signal) does not.
 * Calls of LMDB that may write or allocate ask fault_index first. LMDB's own codes are negative: such a
 * fault counts and fails only these calls.
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

/* Makes the nth call from now on fail, and with `lasting` all calls after it. */
void fault_arm(long nth, int errnum, bool lasting);
/* Ends the fault. True if a call has failed since it was armed. */
bool fault_disarm(void);

/* Each of these makes the call in its comment, or fails as armed. */

int fault_openat(int dirfd, const char *path, int flags, mode_t mode); /* openat */
int fault_mkdirat(int dirfd, const char *path, mode_t mode);           /* mkdirat */
int fault_renameat(int olddirfd, const char *old_path, int newdirfd,
                   const char *new_path);                         /* renameat */
int fault_unlinkat(int dirfd, const char *path, int flags);       /* unlinkat */
int fault_fstat(int fd, struct stat *out);                        /* fstat */
int fault_fchmod(int fd, mode_t mode);                            /* fchmod */
ssize_t fault_write(int fd, const void *data, size_t len);        /* write */
ssize_t fault_pread(int fd, void *out, size_t len, off_t offset); /* pread */
void *fault_malloc(size_t size);                                  /* malloc */
void *fault_calloc(size_t n, size_t size);                        /* calloc */

/* Allocates aligned memory, or fails as armed. `size` must be a multiple of the alignment. */
void *fault_malloc_aligned(size_t alignment, size_t size);

/* Returns 0, or the code with which the next call into LMDB must fail. */
int fault_index(void);

#endif
