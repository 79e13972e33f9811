/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handle_table.h - what we keep beside a library's own handles: a table that needs no lock.
 *
 * A handle is in one of the WINDOW slots behind its hash, or is not known; one that finds no room is
 * served by the real library alone. A slot is claimed with BUSY, filled, and then shown under its
 * handle. One handle is used by one thread at a time, as its library demands.
 *
 * Thread: any. Memory: static, untouched until it is needed; what `state` points to is the caller's.
 */
#ifndef WARM_PRELOAD_HANDLE_TABLE_H
#define WARM_PRELOAD_HANDLE_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>

enum { HANDLE_TABLE_SLOTS = 1 << 15 };

struct handle_table {
    struct {
        _Atomic(void *) handle;
        void *state;
    } slots[HANDLE_TABLE_SLOTS];
};

#pragma GCC visibility push(hidden)

/* False if there is no room. */
bool handle_table_add(struct handle_table *t, void *handle, void *state);
/* The state of a handle; NULL if it is not known. */
void *handle_table_find(struct handle_table *t, const void *handle);
/* The same, and forgets it: before the library gives its address to the next one. */
void *handle_table_take(struct handle_table *t, const void *handle);

#pragma GCC visibility pop

#endif
