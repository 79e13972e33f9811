/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handle_table.c - a hash table of handles without locks. The stand-ins for NVRTC, nvJitLink, libNVVM and
 * the driver's linker keep one each; handle_table.h has the protocol of a slot.
 *
 * Thread: any.
 */
#include "client/preload/handle_table.h"

#include <stddef.h>
#include <stdint.h>

#include "keygen/expect.h"

enum { WINDOW = 32, NOWHERE = HANDLE_TABLE_SLOTS };
#define BUSY ((void *)1)

static size_t slot_of(const void *handle, size_t i)
{
    uint64_t hash = (uint64_t)(uintptr_t)handle * UINT64_C(0x9e3779b97f4a7c15);
    return ((size_t)(hash >> 40) + i) % HANDLE_TABLE_SLOTS;
}

bool handle_table_add(struct handle_table *t, void *handle, void *state)
{
    if (!WARM_EXPECT(handle && handle != BUSY && state))
        return false;
    for (size_t i = 0; i < WINDOW; i++) {
        size_t at = slot_of(handle, i);
        void *empty = NULL;
        if (atomic_compare_exchange_strong(&t->slots[at].handle, &empty, BUSY)) {
            t->slots[at].state = state;
            atomic_store_explicit(&t->slots[at].handle, handle, memory_order_release);
            return true;
        }
    }
    return false;
}

static size_t find(struct handle_table *t, const void *handle)
{
    for (size_t i = 0; handle && i < WINDOW; i++) {
        size_t at = slot_of(handle, i);
        if (atomic_load_explicit(&t->slots[at].handle, memory_order_acquire) == handle)
            return at;
    }
    return NOWHERE;
}

void *handle_table_find(struct handle_table *t, const void *handle)
{
    size_t at = find(t, handle);
    return at == NOWHERE ? NULL : t->slots[at].state;
}

void *handle_table_take(struct handle_table *t, const void *handle)
{
    size_t at = find(t, handle);
    if (at == NOWHERE)
        return NULL;
    void *state = t->slots[at].state;
    atomic_store_explicit(&t->slots[at].handle, NULL, memory_order_release);
    return state;
}

void handle_table_renew(struct handle_table *t, void *handle, void *state,
                        void (*state_free)(void *state))
{
    void *old = handle_table_take(t, handle);
    if (old)
        state_free(old);
    if (state && !handle_table_add(t, handle, state))
        state_free(state);
}
