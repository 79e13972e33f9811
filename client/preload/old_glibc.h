/* SPDX-License-Identifier: Apache-2.0 */
/*
 * old_glibc.h - lets libraries that are loaded into other programs run with every glibc since 2.17.
 *
 * A program may run with an older C library than the one that we were built with: in a container,
 * or on another node. The dynamic linker ends a program whose preloaded library wants a symbol
 * version that its C library lacks. So these libraries want only versions that are old enough:
 *
 *     dlopen and its kin   moved from libdl to libc in 2.34: OLD_GLIBC_BIND
 *     stat, memfd_create   came in 2.33 and 2.27: old_glibc.c makes the system calls itself
 *
 * `make check-glibc` looks at the result. Source: the symbol versions in glibc's abilist files.
 *
 * Thread: any. Memory: none.
 */
#ifndef WARM_PRELOAD_OLD_GLIBC_H
#define WARM_PRELOAD_OLD_GLIBC_H

#if defined(__x86_64__)
#define OLD_GLIBC "GLIBC_2.2.5" /* the first release on this machine */
#elif defined(__aarch64__)
#define OLD_GLIBC "GLIBC_2.17"
#endif

/* Binds a function of the C library to its first version. Stands at file scope, in a file that does
 * not define the function. */
#ifdef OLD_GLIBC
#define OLD_GLIBC_BIND(name) __asm__(".symver " #name ", " #name "@" OLD_GLIBC)
#else
#define OLD_GLIBC_BIND(name) _Static_assert(1, #name)
#endif

#endif
