/* SPDX-License-Identifier: Apache-2.0 */
/*
 * old_glibc.c - functions that glibc 2.17 lacks, for the objects of this library alone: hidden, so
 * that no program finds them. The linker prefers them to the C library's, which would need a newer
 * symbol version. old_glibc.h has the reason.
 *
 * Thread: any; no state but errno.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HIDDEN __attribute__((visibility("hidden")))

/* On 64-bit machines the kernel's struct stat is the C library's. */
_Static_assert(sizeof(long) == 8, "stat needs the C library on this machine");

HIDDEN int stat(const char *restrict path, struct stat *restrict out)
{
    return (int)syscall(SYS_newfstatat, AT_FDCWD, path, out, 0);
}

HIDDEN int lstat(const char *restrict path, struct stat *restrict out)
{
    return (int)syscall(SYS_newfstatat, AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW);
}

HIDDEN int fstat(int fd, struct stat *out) { return (int)syscall(SYS_fstat, fd, out); }

HIDDEN int memfd_create(const char *name, unsigned flags)
{
    return (int)syscall(SYS_memfd_create, name, flags);
}
