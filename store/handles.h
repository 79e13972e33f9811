/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handles.h - open descriptors of verified blobs. A hit on one costs a single fstat, which shows that the
 * file has not changed since its bytes were verified.
 *
 * Invariant: a descriptor that was given out in this turn stays open until handles_turn_end.
 *
 * Thread: loop. Memory: at most HANDLES_MAX descriptors, and the dropped ones of this turn.
 */
#ifndef WARM_STORE_HANDLES_H
#define WARM_STORE_HANDLES_H

#include "store/blob.h"

#define HANDLES_MAX 128u

struct handle {
    struct blob_id id;
    int fd;                  /* -1: a free slot */
    struct blob_state state; /* in which the bytes were right */
    uint64_t used;           /* tick of the last use */
    bool given;              /* in this turn */
};
struct handles {
    uint64_t tag[HANDLES_MAX]; /* first bytes of the content: a search compares them */
    struct handle slot[HANDLES_MAX];
    uint64_t tick;
    size_t n_given;
    int *closing; /* given out in this turn and dropped since */
    size_t n_closing, cap_closing;
};

/* Makes all slots free. */
void handles_init(struct handles *h);
/* Closes all descriptors. */
void handles_close(struct handles *h);
/* Returns the handle of a blob, or NULL. */
struct handle *handles_find(struct handles *h, const struct blob_id *id);
/* Adds a blob and takes `fd`. Drops the least recently used one if all slots are in use. */
struct handle *handles_add(struct handles *h, const struct blob_id *id, int fd,
                           const struct blob_state *state);
/* Closes a blob's descriptor, or plans that for the turn's end if it was given out. */
void handles_drop(struct handles *h, const struct blob_id *id);
/* Does the same for all blobs. */
void handles_drop_all(struct handles *h);
/* Marks a handle as given out in this turn. False, with nothing marked, without memory. */
bool handles_give(struct handles *h, struct handle *handle);
/* Ends the turn: closes the dropped descriptors. */
void handles_turn_end(struct handles *h);

#endif
