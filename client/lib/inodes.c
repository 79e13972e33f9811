/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inodes.c - a hash table of files by device and inode: open addressing, at most half full.
 * headers.c fills one for each CHECK.
 *
 * Thread: one at a time.
 */
#include "client/lib/inodes.h"

#include <stdlib.h>

#include "keygen/expect.h"

static struct inode *slot_of(const struct inodes *all, dev_t dev, ino_t ino)
{
    uint64_t hash = ((uint64_t)ino ^ (uint64_t)dev << 40) * 0x9e3779b97f4a7c15u;
    uint32_t at = (uint32_t)(hash >> 32);
    for (;; at++) {
        struct inode *slot = &all->slots[at & (all->n_slots - 1)];
        if (!slot->number || (slot->dev == dev && slot->ino == ino))
            return slot;
    }
}

static bool grow(struct inodes *all)
{
    if (2 * all->n < all->n_slots)
        return true;
    struct inodes more = {.n = all->n, .n_slots = all->n_slots ? 2 * all->n_slots : 256};
    more.slots = calloc(more.n_slots, sizeof *more.slots);
    if (!more.slots)
        return false;
    for (uint32_t i = 0; i < all->n_slots; i++)
        if (all->slots[i].number)
            *slot_of(&more, all->slots[i].dev, all->slots[i].ino) = all->slots[i];
    free(all->slots);
    *all = more;
    return true;
}

bool inodes_first(struct inodes *all, const struct stat *st, uint32_t number, uint32_t *out)
{
    if (!WARM_EXPECT(number != UINT32_MAX) || !grow(all))
        return false;
    struct inode *slot = slot_of(all, st->st_dev, st->st_ino);
    if (!slot->number) {
        *slot = (struct inode){st->st_dev, st->st_ino, number + 1};
        all->n++;
    }
    *out = slot->number - 1;
    return true;
}

void inodes_close(struct inodes *all)
{
    free(all->slots);
    *all = (struct inodes){0};
}
