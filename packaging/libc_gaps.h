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

int memfd_create(const char *name, unsigned flags);
ssize_t getrandom(void *out, size_t len, unsigned flags);
int getentropy(void *out, size_t len);
void explicit_bzero(void *data, size_t len);
void __explicit_bzero_chk(void *data, size_t len, size_t size);
uint32_t arc4random_uniform(uint32_t bound);
int close_range(unsigned first, unsigned last, int flags);
void closefrom(int first);
int statx(int dir, const char *path, int flags, unsigned mask, struct statx *out);
int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags);
int fcntl64(int fd, int command, ...);
void *reallocarray(void *old, size_t n, size_t size);
int pthread_setattr_default_np(const pthread_attr_t *attr);

#endif
