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

struct names_entry {
    const char *name;
    uint32_t len, hash, number;
    uint32_t slot; /* its place in `slots` */
    uint32_t tag;  /* names of two tags are two entries; names_find and names_add use tag 0 */
};

struct names {
    struct names_entry *entries; /* in the order of names_add */
    uint32_t *slots; /* numbers of entries; one counts only if its entry names the slot */
    uint32_t n, cap; /* cap: slots, a power of two or 0; half as many entries */
};

/* Returns the place of a name's number, or NULL. It is valid until the next name is added. */
uint32_t *names_find(const struct names *t, const char *name, size_t len);
/* Does the same, but adds a new name with the number 0 and sets *out_new (if not NULL). NULL without
 * memory. */
uint32_t *names_add(struct names *t, const char *name, size_t len, bool *out_new);
/* Does what names_find does for a name under a tag. *out_hash is for names_put. */
uint32_t *names_look(const struct names *t, uint32_t tag, const char *name, size_t len,
                     uint32_t *out_hash);
/* Adds a name that names_look did not find. False without memory. */
bool names_put(struct names *t, uint32_t tag, const char *name, size_t len, uint32_t hash,
               uint32_t number);
/* Forgets all names. Keeps the memory. */
void names_clear(struct names *t);
/* Frees the table. */
void names_close(struct names *t);

#endif
