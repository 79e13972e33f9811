/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memfd.h - values as memory files, for lengths above WIRE_INLINE_MAX.
 *
 * A sealed memfd cannot change any more: its receiver may map it and trust its length.
 *
 * RLIMIT_FSIZE holds for a memfd, too. Above it the kernel would send SIGXFSZ, so such a value is NOMEM.
 *
 * Thread: any; no state. Memory: the caller closes the descriptor.
 */
#ifndef WARM_WIRE_MEMFD_H
#define WARM_WIRE_MEMFD_H

#include <stddef.h>

#include "keygen/err.h"

/* Copies memory into a memfd. Returns the descriptor, or NOMEM or IO. `name` is for /proc. */
int memfd_of_bytes(const char *name, const void *data, size_t len, struct err *e);

/* Copies memory into a sealed memfd. Returns the descriptor, or NOMEM or IO. */
int memfd_sealed(const char *name, const void *data, size_t len, struct err *e);

#endif
