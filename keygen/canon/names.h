/* SPDX-License-Identifier: Apache-2.0 */
/*
 * names.h - the names of a scope and the number that each stands for: a hash table.
 *
 *     names_add(&t, "add.7", 5, NULL) ──▶ its number, 0 if it is new
 *     names_find(&t, "add.7", 5)      ──▶ its number, or NULL
 *     names_clear(&t)                     the scope ends; costs nothing
 *
 * Thread: one at a time. Memory: the names are borrowed until names_clear or names_close; a struct
 * names of zeroes is empty, and some 64 bytes are held for each name.
 */
#ifndef WARM_KEYGEN_CANON_NAMES_H
#define WARM_KEYGEN_CANON_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct names_slot {
    const char *name;
    uint32_t len, hash, number;
    uint32_t scope; /* of a scope that ended: the slot is free */
};

struct names {
    struct names_slot *slots;
    uint32_t n, cap; /* cap: a power of two, or 0 */
    uint32_t scope;
};

/* Where the number of a name is, or NULL. Good until the next names_add. */
uint32_t *names_find(const struct names *t, const char *name, size_t len);
/* The same; a new name is added with the number 0 and *out_new (if not NULL) is set. NULL without
 * memory. */
uint32_t *names_add(struct names *t, const char *name, size_t len, bool *out_new);
void names_clear(struct names *t);
void names_close(struct names *t);

#endif
