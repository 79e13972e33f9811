/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handles.h - open descriptors of blobs and what is known of their bytes: a hit on a blob that was
 * verified before, and that the file system says has not changed, costs one fstat.
 *
 * Thread: loop. Memory: HANDLES_MAX descriptors; a descriptor that was given out in this turn and
 * dropped stays open until handles_turn_end.
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
    uint64_t tag[HANDLES_MAX]; /* first bytes of the content: what a search looks at */
    struct handle slot[HANDLES_MAX];
    uint64_t tick;
    size_t n_given;
    int *closing; /* given out in this turn and dropped since */
    size_t n_closing, cap_closing;
};

void handles_init(struct handles *h);
void handles_close(struct handles *h);
/* NULL if it is not there. */
struct handle *handles_find(struct handles *h, const struct blob_id *id);
/* Takes `fd`; drops another if all are in use. */
struct handle *handles_add(struct handles *h, const struct blob_id *id, int fd,
                           const struct blob_state *state);
void handles_drop(struct handles *h, const struct blob_id *id);
void handles_drop_all(struct handles *h);
/* Marks as given out in this turn. False, and nothing is marked, without memory for that. */
bool handles_give(struct handles *h, struct handle *handle);
void handles_turn_end(struct handles *h);

#endif
