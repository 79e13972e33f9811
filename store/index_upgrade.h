/* SPDX-License-Identifier: Apache-2.0 */
/*
 * index_upgrade.h - takes over an index of format 1.
 *
 * Thread: the one that opens the index. Memory: the pages of the table `blob`, about 130 bytes a blob.
 */
#ifndef WARM_STORE_INDEX_UPGRADE_H
#define WARM_STORE_INDEX_UPGRADE_H

#include "store/index.h"

/* Opens DIR/index as index_open does, and upgrades it if it is of format 1: this reads every row, once,
 * in one transaction. Errors: those of index_open; the index is then closed. */
int index_upgrade_open(struct index *x, const char *dir, uint64_t map_bytes, void (*on_abort)(void),
                       struct err *e);

#endif
