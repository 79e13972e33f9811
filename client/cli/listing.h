/* SPDX-License-Identifier: Apache-2.0 */
/*
 * listing.h - asks the daemon for rows in pieces, and keeps them for commands that need all at
 * once.
 *
 *     listing_ask ─▶ on_row, on_row, …
 *                       └─▶ listing_keep
 *
 * Thread: main. Memory: a listing owns its rows (listing_close).
 */
#ifndef WARM_CLI_LISTING_H
#define WARM_CLI_LISTING_H

#include "client/cli/remote.h"

/* Takes a row; `frame` is the row as it came. Both last for the call. 0, or an error, which ends
 * the list. */
typedef int (*listing_on_row)(void *arg, const struct wire_row *row, struct view frame);

/* Asks for the rows of `message`, piece by piece; its cursor moves on. 0, an error, or what `on_row` returned. */
int listing_ask(struct remote *r, struct wire_list *message, listing_on_row on_row, void *arg);

struct kept_row {
    uint64_t value; /* the caller's, to sort by */
    uint8_t *frame;
    size_t len;
};
struct listing {
    struct kept_row *rows;
    size_t n, cap;
};

/* Copies the frame. 0 or NOMEM. */
int listing_keep(struct listing *l, struct view frame, uint64_t value);

/* Asks for the entries under these keys, and for all that belongs to them (CLOSURE in PROTOCOL.md). Calls
 * `on_row` for each, once or several times. 0, or an error. */
int listing_closure(struct remote *r, const struct key *keys, size_t n, listing_on_row on_row,
                    void *arg);
/* Asks for all that belongs to the rows of a listing, those rows too; without it they are not found. `on_row`
 * keeps what is wanted. 0, or an error. */
int listing_add_closure(struct remote *r, const struct listing *l, listing_on_row on_row,
                        void *arg);
/* Drops all rows but the first of each entry, and keeps their order. 0 or NOMEM. */
int listing_unique(struct listing *l);

/* Sorts rows by value, the highest first. */
void listing_sort(struct listing *l);

/* Decodes row i, which borrows from the listing. False if it is damaged. */
bool listing_row(const struct listing *l, size_t i, struct wire_row *out);

/* Frees the rows. */
void listing_close(struct listing *l);

#endif
