/* SPDX-License-Identifier: Apache-2.0 */
/*
 * names.c - the hash table of names.h: open addressing, at most half of the slots in use. hlo.c and
 * fx.c call it for each name. names_clear costs nothing: a slot counts only if its entry is one of the
 * first n, and names the slot.
 *
 * Thread: one at a time for a table.
 */
#define XXH_INLINE_ALL
#include "keygen/canon/names.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "keygen/expect.h"

#define NAMES_START 64u /* slots, a power of two */

/* Returns the entry of a slot, or NULL if the slot is free. */
static struct names_entry *entry_at(const struct names *t, uint32_t slot)
{
    uint32_t i = t->slots[slot];
    return i < t->n && t->entries[i].slot == slot ? &t->entries[i] : NULL;
}

/* Returns the entry of a name. If there is none, returns NULL, and the free slot in *out_slot. */
static struct names_entry *entry_of(const struct names *t, const char *name, size_t len,
                                    uint32_t hash, uint32_t *out_slot)
{
    for (uint32_t slot = hash & (t->cap - 1);; slot = (slot + 1) & (t->cap - 1)) {
        struct names_entry *e = entry_at(t, slot);
        *out_slot = slot;
        if (!e || (e->hash == hash && e->len == len && memcmp(e->name, name, len) == 0))
            return e;
    }
}

/* Makes room for one more entry. */
static bool reserve(struct names *t)
{
    uint32_t cap = t->cap ? t->cap * 2 : NAMES_START, n = t->n;
    if (n < t->cap / 2)
        return true;
    uint32_t *slots = cap ? calloc(cap, sizeof *slots) : NULL;
    struct names_entry *entries =
        slots ? realloc(t->entries, (size_t)cap / 2 * sizeof *entries) : NULL;
    if (!entries) {
        free(slots);
        return false;
    }
    free(t->slots);
    *t = (struct names){.entries = entries, .slots = slots, .cap = cap};
    while (t->n < n) {
        struct names_entry *e = &entries[t->n];
        e->slot = e->hash & (cap - 1);
        while (entry_at(t, e->slot))
            e->slot = (e->slot + 1) & (cap - 1);
        slots[e->slot] = t->n++;
    }
    return true;
}

uint32_t *names_find(const struct names *t, const char *name, size_t len)
{
    uint32_t slot;
    if (!t->n)
        return NULL;
    struct names_entry *e = entry_of(t, name, len, (uint32_t)XXH3_64bits(name, len), &slot);
    return e ? &e->number : NULL;
}

uint32_t *names_add(struct names *t, const char *name, size_t len, bool *out_new)
{
    if (len > UINT32_MAX || !reserve(t))
        return NULL;
    uint32_t hash = (uint32_t)XXH3_64bits(name, len), slot;
    if (!WARM_EXPECT(t->n < t->cap / 2)) /* else the search of a free slot does not end */
        return NULL;
    struct names_entry *e = entry_of(t, name, len, hash, &slot);
    if (out_new)
        *out_new = !e;
    if (!e) {
        t->slots[slot] = t->n;
        e = &t->entries[t->n++];
        *e = (struct names_entry){.name = name, .len = (uint32_t)len, .hash = hash, .slot = slot};
    }
    return &e->number;
}

void names_clear(struct names *t) { t->n = 0; }

void names_close(struct names *t)
{
    free(t->entries);
    free(t->slots);
    *t = (struct names){0};
}
