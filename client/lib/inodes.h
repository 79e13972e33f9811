/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inodes.h - finds paths that lead to the same file, as compilers do: by device and inode.
 *
 * `#pragma once` skips a header that was read under another name, but not a copy of it. So the
 * result of a compile depends on which of its paths are one file.
 *
 * Thread: one at a time. Memory: names_close frees the table; it borrows each `id` until then.
 */
#ifndef WARM_LIB_INODES_H
#define WARM_LIB_INODES_H

#include <sys/stat.h>

#include "keygen/canon/names.h"

struct inode {
    dev_t dev;
    ino_t ino;
};

/* Finds the number under which this file was first added; `number` itself if it is new, which adds
 * it, with its name in *id. False if memory ran out. */
static inline bool inodes_first(struct names *all, struct inode *id, const struct stat *st,
                                uint32_t number, uint32_t *out)
{
    bool is_new;
    *id = (struct inode){st->st_dev, st->st_ino};
    uint32_t *first = names_add(all, (const char *)id, sizeof *id, &is_new);
    if (first)
        *out = *first = is_new ? number : *first;
    return first;
}

#endif
