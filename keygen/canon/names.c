/* SPDX-License-Identifier: Apache-2.0 */
/*
 * names.c - the hash table of names.h: open addressing, at most half of the slots in use. Emptying it costs
 * nothing, since a slot counts only with the number of its scope.
 *
 * Thread: one at a time for a table.
 */
#define XXH_INLINE_ALL
#include "keygen/canon/names.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define NAMES_START 64u /* slots, a power of two */

static bool is_live(const struct names *t, const struct names_slot *s)
{
    return s->name && s->scope == t->scope;
}

/* The slot of a name, or the free one where it would be. */
static struct names_slot *slot_of(const struct names *t, const char *name, size_t len,
                                  uint32_t hash)
{
    for (uint32_t i = hash & (t->cap - 1);; i = (i + 1) & (t->cap - 1)) {
        struct names_slot *s = &t->slots[i];
        if (!is_live(t, s) || (s->hash == hash && s->len == len && memcmp(s->name, name, len) == 0))
            return s;
    }
}

static bool reserve(struct names *t)
{
    if (t->n < t->cap / 2)
        return true;
    struct names more = {.n = t->n, .cap = t->cap ? t->cap * 2 : NAMES_START, .scope = t->scope};
    more.slots = more.cap ? calloc(more.cap, sizeof *more.slots) : NULL;
    if (!more.slots)
        return false;
    for (uint32_t i = 0; i < t->cap; i++) {
        const struct names_slot *s = &t->slots[i];
        if (is_live(t, s))
            *slot_of(&more, s->name, s->len, s->hash) = *s;
    }
    free(t->slots);
    *t = more;
    return true;
}

uint32_t *names_find(const struct names *t, const char *name, size_t len)
{
    if (!t->n)
        return NULL;
    struct names_slot *s = slot_of(t, name, len, (uint32_t)XXH3_64bits(name, len));
    return is_live(t, s) ? &s->number : NULL;
}

uint32_t *names_add(struct names *t, const char *name, size_t len, bool *out_new)
{
    if (len > UINT32_MAX || !reserve(t))
        return NULL;
    uint32_t hash = (uint32_t)XXH3_64bits(name, len);
    struct names_slot *s = slot_of(t, name, len, hash);
    bool is_new = !is_live(t, s);
    if (is_new) {
        *s = (struct names_slot){
            .name = name, .len = (uint32_t)len, .hash = hash, .scope = t->scope};
        t->n++;
    }
    if (out_new)
        *out_new = is_new;
    return &s->number;
}

void names_clear(struct names *t)
{
    t->n = 0;
    t->scope++;
}

void names_close(struct names *t)
{
    free(t->slots);
    *t = (struct names){0};
}
