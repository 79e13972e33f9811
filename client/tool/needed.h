/* SPDX-License-Identifier: Apache-2.0 */
/*
 * needed.h - the libraries that a shared library or a program needs (DT_NEEDED).
 *
 * Thread: any; no state. Memory: the caller's.
 */
#ifndef WARM_TOOL_NEEDED_H
#define WARM_TOOL_NEEDED_H

#include "keygen/err.h"

/* Calls `on_name` for each library that the ELF file names, until it returns an error, and returns
 * that. The name is valid during the call. A file of another kind needs none. REFUSED if that is
 * not known: the file is damaged, or of another width or byte order. */
int needed_libraries(const char *path, int (*on_name)(void *self, const char *name), void *self);

#endif
