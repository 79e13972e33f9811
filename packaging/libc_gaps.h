/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libc_gaps.h - declares functions that glibc 2.17 lacks. Included before every source of the wheel's
 * programs, which run with every glibc since 2.17; libc_gaps.c makes the system calls.
 */
#ifndef WARM_PACKAGING_LIBC_GAPS_H
#define WARM_PACKAGING_LIBC_GAPS_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <linux/stat.h> /* struct statx */

#ifndef MFD_CLOEXEC
#include <linux/memfd.h>
#endif
#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1u
#endif
#ifndef GRND_NONBLOCK
#define GRND_NONBLOCK 1u
#endif

/* Debian's libuv refers to `environ` in a way that gives the program a copy of its own, and zig's linker does not know
 * that it is the C library's `__environ`: the copy would stay NULL. */
extern char **__environ;
#define environ __environ

/* Behind each is the glibc that has it first. */

int memfd_create(const char *name, unsigned flags);                                /* glibc 2.27 */
ssize_t getrandom(void *out, size_t len, unsigned flags);                          /* glibc 2.25 */
int getentropy(void *out, size_t len);                                             /* glibc 2.25 */
void explicit_bzero(void *data, size_t len);                                       /* glibc 2.25 */
void __explicit_bzero_chk(void *data, size_t len, size_t size);                    /* glibc 2.25 */
uint32_t arc4random_uniform(uint32_t bound);                                       /* glibc 2.36 */
int close_range(unsigned first, unsigned last, int flags);                         /* glibc 2.34 */
void closefrom(int first);                                                         /* glibc 2.34 */
int statx(int dir, const char *path, int flags, unsigned mask, struct statx *out); /* glibc 2.28 */
int renameat2(int from_dir, const char *from, int to_dir, const char *to,
              unsigned flags);                              /* glibc 2.28 */
int fcntl64(int fd, int command, ...);                      /* glibc 2.28 */
void *reallocarray(void *old, size_t n, size_t size);       /* glibc 2.26 */
int pthread_setattr_default_np(const pthread_attr_t *attr); /* glibc 2.18 */

#endif
