/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table.c - a hash table with addresses as keys: open addressing, at most half full. walk.c uses it.
 *
 * Thread: one at a time.
 */
#include "client/walk/table.h"

#include <assert.h>
#include <stdlib.h>

#define FIRST_CAP 1024

static struct table_slot *slot_of(const struct table *t, const void *key)
{
    uint64_t i = ((uintptr_t)key >> 4) * 0x9e3779b97f4a7c15u >> 20;
    for (;; i++) {
        struct table_slot *s = &t->slots[i & (t->cap - 1)];
        if (!s->key || s->key == key)
            return s;
    }
}

struct table_slot *table_find(const struct table *t, const void *key)
{
    assert(key);
    struct table_slot *s = t->cap ? slot_of(t, key) : NULL;
    return s && s->key ? s : NULL;
}

static int grow(struct table *t)
{
    struct table old = *t;
    size_t cap = old.cap ? 2 * old.cap : FIRST_CAP;
    struct table_slot *slots = calloc(cap, sizeof *slots);
    if (!slots)
        return -1;
    *t = (struct table){slots, old.n, cap};
    for (size_t i = 0; i < old.cap; i++)
        if (old.slots[i].key)
            *slot_of(t, old.slots[i].key) = old.slots[i];
    free(old.slots);
    return 0;
}

struct table_slot *table_add(struct table *t, const void *key)
{
    assert(key && !table_find(t, key));
    if (2 * (t->n + 1) > t->cap && grow(t))
        return NULL;
    struct table_slot *s = slot_of(t, key);
    s->key = key;
    t->n++;
    return s;
}

void table_free(struct table *t)
{
    free(t->slots);
    *t = (struct table){0};
}
