/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handle_table.h - finds our state of a library's handle, in a table that needs no lock.
 *
 * A known handle is in one of the WINDOW slots behind its hash. The real library alone serves a
 * handle that finds no room there. A slot is claimed with BUSY, filled, and then published under
 * its handle. One thread at a time uses a handle, as its library demands.
 *
 * Thread: any. Memory: static, its pages untouched until used; `state` points to memory of the
 * caller.
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

/* Adds a handle, neither NULL nor BUSY. False if there is no room. */
bool handle_table_add(struct handle_table *t, void *handle, void *state);
/* Puts `state` (NULL: none) beside a handle that the library has just made. Frees what finds no room, and the state
 * of an older handle at this address, which was destroyed without us. */
void handle_table_renew(struct handle_table *t, void *handle, void *state,
                        void (*state_free)(void *state));
/* Returns the state of a handle; NULL if it is not known. */
void *handle_table_find(struct handle_table *t, const void *handle);
/* Returns the state of a handle and forgets the handle. Called before the library can give the same
 * address to a new handle. */
void *handle_table_take(struct handle_table *t, const void *handle);

#pragma GCC visibility pop

#endif
