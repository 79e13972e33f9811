/* SPDX-License-Identifier: Apache-2.0 */
/*
 * touch.c - decides where a hit is counted: open addressing over keys that are digests. store.c counts
 * hits here; writer.c reads a full table.
 *
 * Thread: loop; the writer reads.
 */
#include "store/touch.h"

#include <assert.h>
#include <string.h>

/* Returns the slot of an entry, or the free one for it. TOUCH_MAX leaves a quarter of them free. */
static size_t slot_of(const struct touches *t, const struct store_id *id)
{
    assert(t->n <= TOUCH_MAX);
    /* The whole key is mixed: users choose their keys, and could fill one chain by choosing some bits. */
    uint64_t high, low;
    memcpy(&high, id->key.bytes, 8);
    memcpy(&low, id->key.bytes + 8, 8);
    uint64_t mixed = (high ^ (low << 1) ^ id->owner) * 0x9e3779b97f4a7c15u;
    size_t i = (size_t)(mixed >> 32) % TOUCH_SLOTS;
    while (t->slot[i].n_hits && !store_id_equal(&t->slot[i].id, id))
        i = (i + 1) % TOUCH_SLOTS;
    return i;
}

bool touch_add(struct touches *t, const struct store_id *id, uint64_t now_ms)
{
    struct touch *touch = &t->slot[slot_of(t, id)];
    if (touch->n_hits == 0) {
        if (t->n == TOUCH_MAX)
            return false;
        t->n++;
        touch->id = *id;
    }
    touch->n_hits += touch->n_hits < UINT32_MAX;
    touch->last_ms = now_ms;
    return true;
}

const struct touch *touch_find(const struct touches *t, const struct store_id *id)
{
    const struct touch *touch = &t->slot[slot_of(t, id)];
    return touch->n_hits ? touch : NULL;
}

void touch_clear(struct touches *t) { memset(t, 0, sizeof *t); }
