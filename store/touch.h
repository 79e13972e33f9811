/* SPDX-License-Identifier: Apache-2.0 */
/*
 * touch.h - hits that are not yet in the index: a bounded table, so that a hit writes nothing.
 *
 *     loop: touch_add ──▶ [ active ] ──swap, each minute──▶ [ flushing ] ──▶ writer: rows
 *
 * If the active table is full while the other is being written, hits of further entries are not
 * counted. That is harmless: hits only order eviction.
 *
 * Thread: a table belongs to the loop thread; while it is flushing both threads only read it.
 * Memory: TOUCH_SLOTS × 32 bytes each.
 */
#ifndef WARM_STORE_TOUCH_H
#define WARM_STORE_TOUCH_H

#include "store/store.h"

#define TOUCH_SLOTS 4096u
#define TOUCH_MAX 3072u /* entries; above three quarters, open addressing gets slow */

struct touch {
    struct store_id id;
    uint32_t n_hits; /* 0: a free slot */
    uint64_t last_ms;
};
struct touches {
    size_t n;
    struct touch slot[TOUCH_SLOTS];
};

/* Counts a hit. False if the table is full. */
bool touch_add(struct touches *t, const struct store_id *id, uint64_t now_ms);
/* Returns the hits of an entry, or NULL. */
const struct touch *touch_find(const struct touches *t, const struct store_id *id);
/* Empties a table. */
void touch_clear(struct touches *t);

#endif
