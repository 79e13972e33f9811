/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fault.c - decides at each system call of the store if it fails. All of store/ calls it; only tests arm
 * it.
 *
 * Thread: any; the countdown is atomic.
 */
#include "store/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct {
    atomic_bool armed;
    atomic_long left; /* calls until the fault */
    atomic_int errnum;
    atomic_bool lasting;
    atomic_bool reached;
} fault;

void fault_arm(long nth, int errnum, bool lasting)
{
    atomic_store(&fault.left, nth);
    atomic_store(&fault.errnum, errnum);
    atomic_store(&fault.lasting, lasting);
    atomic_store(&fault.reached, false);
    atomic_store(&fault.armed, true);
}

bool fault_disarm(void)
{
    atomic_store(&fault.armed, false);
    return atomic_load(&fault.reached);
}

int fault_index(void)
{
    if (!atomic_load_explicit(&fault.armed, memory_order_relaxed))
        return 0;
    long left = atomic_fetch_sub(&fault.left, 1);
    if (left > 1 || (left < 1 && !atomic_load(&fault.lasting)))
        return 0;
    atomic_store(&fault.reached, true);
    return atomic_load(&fault.errnum);
}

/* True, with errno set, if this call must fail. */
static bool fault_now(void)
{
    int errnum = atomic_load_explicit(&fault.errnum, memory_order_relaxed) < 0 ? 0 : fault_index();
    if (errnum)
        errno = errnum;
    return errnum != 0;
}

int fault_openat(int dirfd, const char *path, int flags, mode_t mode)
{
    return fault_now() ? -1 : openat(dirfd, path, flags | O_CLOEXEC, mode);
}

int fault_mkdirat(int dirfd, const char *path, mode_t mode)
{
    return fault_now() ? -1 : mkdirat(dirfd, path, mode);
}

int fault_renameat(int olddirfd, const char *old_path, int newdirfd, const char *new_path)
{
    return fault_now() ? -1 : renameat(olddirfd, old_path, newdirfd, new_path);
}

int fault_unlinkat(int dirfd, const char *path, int flags)
{
    return fault_now() ? -1 : unlinkat(dirfd, path, flags);
}

int fault_fstat(int fd, struct stat *out) { return fault_now() ? -1 : fstat(fd, out); }

int fault_fchmod(int fd, mode_t mode) { return fault_now() ? -1 : fchmod(fd, mode); }

ssize_t fault_write(int fd, const void *data, size_t len)
{
    return fault_now() ? -1 : write(fd, data, len);
}

ssize_t fault_pread(int fd, void *out, size_t len, off_t offset)
{
    return fault_now() ? -1 : pread(fd, out, len, offset);
}

void *fault_malloc(size_t size) { return fault_now() ? NULL : malloc(size); }

void *fault_calloc(size_t n, size_t size) { return fault_now() ? NULL : calloc(n, size); }

void *fault_malloc_aligned(size_t alignment, size_t size)
{
    return fault_now() ? NULL : aligned_alloc(alignment, size);
}
