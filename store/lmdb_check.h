/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lmdb_check.h - is every page of an LMDB 0.9 file what a page may be?
 *
 * LMDB trusts what its pages say of themselves: a wrong offset makes it read or write outside them.
 * This reads the file without LMDB, trusting nothing:
 *
 *     meta ──▶ free list tree, main tree ──▶ the tables' trees ──▶ overflow pages, sub-pages
 *
 *   page header   its own number, a known kind, bounds in order
 *   node          inside its page, behind the page's free space
 *   page number   inside the file, and used by one only: another page, or the free list
 *   table         pages of each kind and entries as many as its record says
 *
 * Thread: any; no state. Memory: one bit for each page of the file, twice.
 */
#ifndef WARM_STORE_LMDB_CHECK_H
#define WARM_STORE_LMDB_CHECK_H

#include <stdint.h>

/* `file` is the whole file. NULL if all is well, or what is not: static memory. */
const char *lmdb_check(const uint8_t *file, uint64_t size);

#endif
