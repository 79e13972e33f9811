/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libc_gaps.c - functions that glibc 2.17 lacks, for the wheel's programs and for the libraries that
 * are linked into them. Weak: an object that has its own keeps it.
 *
 * Thread: any; no state but errno.
 */
#include "packaging/libc_gaps.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Newer than glibc 2.17's own list. The kernel's headers have the number on each machine. */
#ifndef SYS_getrandom
#define SYS_getrandom __NR_getrandom
#endif
#ifndef SYS_renameat2
#define SYS_renameat2 __NR_renameat2
#endif
#ifndef SYS_memfd_create
#define SYS_memfd_create __NR_memfd_create
#endif
#ifndef SYS_statx
#define SYS_statx __NR_statx
#endif
#ifndef SYS_close_range
#define SYS_close_range __NR_close_range
#endif

#define WEAK __attribute__((weak, visibility("hidden")))

WEAK int memfd_create(const char *name, unsigned flags)
{
    return (int)syscall(SYS_memfd_create, name, flags);
}

WEAK ssize_t getrandom(void *out, size_t len, unsigned flags)
{
    return syscall(SYS_getrandom, out, len, flags);
}

WEAK int getentropy(void *out, size_t len)
{
    return getrandom(out, len, 0) == (ssize_t)len ? 0 : -1;
}

/* Zeroes volatile bytes, so that no compiler takes the loop for useless. */
WEAK void explicit_bzero(void *data, size_t len)
{
    for (volatile char *byte = data; len; len--)
        *byte++ = 0;
}

/* Objects that were built with _FORTIFY_SOURCE call this: libsodium's. */
WEAK void __explicit_bzero_chk(void *data, size_t len, size_t size)
{
    if (len > size)
        abort();
    explicit_bzero(data, len);
}

/* Returns a number below `bound`: 64 random bits make the remainder even enough. */
WEAK uint32_t arc4random_uniform(uint32_t bound)
{
    uint64_t bits;
    while (getrandom(&bits, sizeof bits, 0) != (ssize_t)sizeof bits)
        if (errno != EINTR)
            abort();
    return bound ? (uint32_t)(bits % bound) : 0;
}

WEAK int close_range(unsigned first, unsigned last, int flags)
{
    return (int)syscall(SYS_close_range, first, last, flags);
}

WEAK void closefrom(int first)
{
    if (close_range((unsigned)first, ~0u, 0) == 0)
        return;
    for (long fd = sysconf(_SC_OPEN_MAX); fd-- > first;) /* before Linux 5.9 */
        close((int)fd);
}

WEAK int statx(int dir, const char *path, int flags, unsigned mask, struct statx *out)
{
    return (int)syscall(SYS_statx, dir, path, flags, mask, out);
}

WEAK int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
    return (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, flags);
}

/* Calls fcntl, which is the same on 64-bit machines. Objects that were built with a newer C library
 * call this. */
WEAK int fcntl64(int fd, int command, ...)
{
    va_list args;
    va_start(args, command);
    void *arg = va_arg(args, void *);
    va_end(args);
    return fcntl(fd, command, arg);
}

WEAK void *reallocarray(void *old, size_t n, size_t size)
{
    if (size && n > (size_t)-1 / size) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(old, n * size);
}

/* Takes the C library's if it has one: since 2.18. Threads have stacks of the usual size then. */
WEAK int pthread_setattr_default_np(const pthread_attr_t *attr)
{
    int (*real)(const pthread_attr_t *);
    *(void **)&real = dlsym(RTLD_DEFAULT, "pthread_setattr_default_np");
    return real ? real(attr) : ENOSYS;
}

#ifdef __aarch64__
uint32_t __aarch64_cas4_sync(uint32_t expected, uint32_t desired, uint32_t *at);

/* Compares and swaps with a full barrier: Debian's libuv, which GCC has built, calls it, and zig's runtime
 * has all of its kind but this one. */
WEAK uint32_t __aarch64_cas4_sync(uint32_t expected, uint32_t desired, uint32_t *at)
{
    __sync_synchronize();
    uint32_t was = __sync_val_compare_and_swap(at, expected, desired);
    __sync_synchronize();
    return was;
}
#endif
