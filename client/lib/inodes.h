/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inodes.h - finds paths that lead to the same file, as compilers do: by device and inode.
 *
 * `#pragma once` skips a header that was read under another name, but not a copy of it. So the
 * result of a compile depends on which of its paths are one file.
 *
 * Thread: one at a time. Memory: grows with the files; inodes_close frees it.
 */
#ifndef WARM_LIB_INODES_H
#define WARM_LIB_INODES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

struct inodes { /* all zero is empty */
    struct inode {
        dev_t dev;
        ino_t ino;
        uint32_t number; /* plus 1; 0: the slot is free */
    } * slots;
    uint32_t n, n_slots; /* a power of two, or 0 */
};

/* Finds the number under which this file was first added; `number` itself if it is new, which adds
 * it. False if memory ran out. */
bool inodes_first(struct inodes *all, const struct stat *st, uint32_t number, uint32_t *out);
/* Frees the table and empties it. */
void inodes_close(struct inodes *all);

#endif
