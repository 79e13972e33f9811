/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handles.c - decides which descriptors stay open: the last used ones. store.c calls it at each hit on a
 * blob.
 *
 * Thread: loop.
 */
#include "store/handles.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/fault.h"

static uint64_t tag_of(const struct blob_id *id)
{
    uint64_t tag;
    memcpy(&tag, id->content.bytes, sizeof tag);
    return tag;
}

void handles_init(struct handles *h)
{
    *h = (struct handles){0};
    for (size_t i = 0; i < HANDLES_MAX; i++)
        h->slot[i].fd = -1;
}

struct handle *handles_find(struct handles *h, const struct blob_id *id)
{
    uint64_t tag = tag_of(id);
    for (size_t i = 0; i < HANDLES_MAX; i++) {
        struct handle *handle = &h->slot[i];
        if (h->tag[i] == tag && handle->fd >= 0 && blob_id_equal(&handle->id, id)) {
            handle->used = ++h->tick;
            return handle;
        }
    }
    return NULL;
}

/* Drops a handle. `closing` has room for every descriptor of this turn: handles_give made it. */
static void drop(struct handles *h, struct handle *handle)
{
    if (handle->fd < 0)
        return;
    assert(!handle->given || h->n_closing < h->cap_closing);
    if (handle->given)
        h->closing[h->n_closing++] = handle->fd;
    else
        close(handle->fd);
    handle->fd = -1;
    handle->given = false;
}

void handles_drop(struct handles *h, const struct blob_id *id)
{
    struct handle *handle = handles_find(h, id);
    if (handle)
        drop(h, handle);
}

void handles_drop_all(struct handles *h)
{
    for (size_t i = 0; i < HANDLES_MAX; i++)
        drop(h, &h->slot[i]);
}

struct handle *handles_add(struct handles *h, const struct blob_id *id, int fd,
                           const struct blob_state *state)
{
    assert(fd >= 0);
    struct handle *oldest = handles_find(h, id);
    for (size_t i = 0; !oldest && i < HANDLES_MAX; i++)
        if (h->slot[i].fd < 0)
            oldest = &h->slot[i];
    if (!oldest) {
        oldest = &h->slot[0];
        for (size_t i = 1; i < HANDLES_MAX; i++)
            if (h->slot[i].used < oldest->used)
                oldest = &h->slot[i];
    }
    drop(h, oldest);
    assert(oldest->fd < 0);
    *oldest = (struct handle){.id = *id, .fd = fd, .state = *state, .used = ++h->tick};
    h->tag[oldest - h->slot] = tag_of(id);
    return oldest;
}

bool handles_give(struct handles *h, struct handle *handle)
{
    assert(handle->fd >= 0);
    if (handle->given)
        return true;
    size_t need = h->n_closing + HANDLES_MAX; /* each slot may be given and dropped */
    if (need > h->cap_closing) {
        size_t cap = need + HANDLES_MAX;
        int *more = fault_index() ? NULL : realloc(h->closing, cap * sizeof *more);
        if (!more)
            return false;
        h->closing = more;
        h->cap_closing = cap;
    }
    handle->given = true;
    h->n_given++;
    assert(h->n_closing + HANDLES_MAX <= h->cap_closing);
    return true;
}

void handles_turn_end(struct handles *h)
{
    assert(h->n_closing <= h->cap_closing);
    for (size_t i = 0; h->n_given && i < HANDLES_MAX; i++)
        h->slot[i].given = false;
    h->n_given = 0;
    for (size_t i = 0; i < h->n_closing; i++)
        close(h->closing[i]);
    h->n_closing = 0;
}

void handles_close(struct handles *h)
{
    handles_drop_all(h);
    handles_turn_end(h);
    free(h->closing);
    h->closing = NULL;
    h->cap_closing = 0;
}
