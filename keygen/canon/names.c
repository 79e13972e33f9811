/* SPDX-License-Identifier: Apache-2.0 */
/*
 * names.c - the hash table of names.h: open addressing, at most half of the slots in use. hlo.c and
 * the readers of MLIR call it. names_clear costs nothing: a slot counts only if its entry is one of the
 * first n, and names the slot.
 *
 * Thread: one at a time for a table.
 */
#define XXH_INLINE_ALL
#include "keygen/canon/names.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "keygen/bytes.h"

#define NAMES_START 256u /* slots, a power of two */

/* Returns the entry of a slot, or NULL if the slot is free. */
static inline struct names_entry *entry_at(const struct names *t, uint32_t slot)
{
    uint32_t i = t->slots[slot];
    return i < t->n && t->entries[i].slot == slot ? &t->entries[i] : NULL;
}

/* Adds an entry, for which there is room. */
static void entry_add(struct names *t, struct names_entry e)
{
    for (e.slot = e.hash & (t->cap - 1); entry_at(t, e.slot);)
        e.slot = (e.slot + 1) & (t->cap - 1);
    t->slots[e.slot] = t->n;
    t->entries[t->n++] = e;
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
    while (t->n < n)
        entry_add(t, entries[t->n]);
    return true;
}

uint32_t *names_look(const struct names *t, uint32_t tag, const char *name, size_t len,
                     uint32_t *out_hash)
{
    uint32_t hash = (uint32_t)XXH3_64bits(name, len) + tag * 0x9E3779B9u;
    struct names_entry *e;
    *out_hash = hash;
    for (uint32_t slot = hash & (t->cap - 1); t->n; slot = (slot + 1) & (t->cap - 1)) {
        if (!(e = entry_at(t, slot)))
            break;
        if (e->hash == hash && e->len == len && e->tag == tag && bytes_equal(e->name, name, len))
            return &e->number;
    }
    return NULL;
}

bool names_put(struct names *t, uint32_t tag, const char *name, size_t len, uint32_t hash,
               uint32_t number)
{
    if (len > UINT32_MAX || !reserve(t))
        return false;
    entry_add(t,
              (struct names_entry){
                  .name = name, .len = (uint32_t)len, .hash = hash, .number = number, .tag = tag});
    return true;
}

uint32_t *names_find(const struct names *t, const char *name, size_t len)
{
    uint32_t hash;
    return names_look(t, 0, name, len, &hash);
}

uint32_t *names_add(struct names *t, const char *name, size_t len, bool *out_new)
{
    uint32_t hash, *number = names_look(t, 0, name, len, &hash);
    if (out_new)
        *out_new = !number;
    if (!number && names_put(t, 0, name, len, hash, 0))
        number = &t->entries[t->n - 1].number;
    return number;
}

void names_clear(struct names *t) { t->n = 0; }

void names_close(struct names *t)
{
    free(t->entries);
    free(t->slots);
    *t = (struct names){0};
}
