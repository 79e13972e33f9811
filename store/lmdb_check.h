/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lmdb_check.h - checks every page of an LMDB 0.9 file.
 *
 * LMDB trusts its pages: a wrong offset makes it read or write outside them. This check reads the file
 * without LMDB and trusts nothing:
 *
 *     meta ──▶ free list tree, main tree ──▶ the tables' trees ──▶ overflow pages, sub-pages
 *
 *   page header   its own number, a known kind, bounds in order
 *   node          inside its page, behind the page's free space
 *   page number   inside the file, and used once: by a page or by the free list
 *   table         its record has the right numbers of entries and of pages of each kind
 *
 * Thread: any; no state. Memory: one bit for each page that the meta page counts.
 */
#ifndef WARM_STORE_LMDB_CHECK_H
#define WARM_STORE_LMDB_CHECK_H

#include <stdint.h>

/* Returns NULL if the whole file is sound, or else the fault in words (static memory). */
const char *lmdb_check(const uint8_t *file, uint64_t size);

#endif
