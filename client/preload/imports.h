/* SPDX-License-Identifier: Apache-2.0 */
/*
 * imports.h - finds out if an object of the process is linked with functions of a library. Its calls do not go
 * through stand-ins.
 *
 *     object ──▶ dynamic section ──▶ relocations ──▶ symbol ──▶ name: cuLinkAddData_v2
 *
 * Thread: any, no lock but the dynamic linker's. Memory: none.
 */
#ifndef WARM_PRELOAD_IMPORTS_H
#define WARM_PRELOAD_IMPORTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

/* True if a loaded object refers to a symbol whose name begins with one of the prefixes, the last of which is NULL.
 * *seen, 0 at first, says which objects a call for these prefixes saw, so that the next one looks again only after
 * an object was loaded. */
bool imports_any(const char *const *prefixes, _Atomic uint64_t *seen);

#pragma GCC visibility pop

#endif
