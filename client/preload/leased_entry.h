/* SPDX-License-Identifier: Apache-2.0 */
/*
 * leased_entry.h - artifacts that only the program can make: asked for with a lease, made by the real
 * function, put back.
 *
 *     leased_entry_get ─┬─ 0: the bytes, checked
 *                ├─ WARM_LEASE: the caller's to make ──▶ leased_entry_put
 *                ├─ WARM_ENOT_FOUND: not there, or damaged; the caller may make it ──▶ leased_entry_put
 *                └─ another error: go on without
 *     leased_entry_end: in every case; gives back the lease, if it is still held
 *
 * What is kept: magic "warmkept" (8 bytes), XXH3-128 of the bytes (16), SHA-256 of the key (32), and
 * the bytes. So bytes that came under a name by other ways never reach a driver or a plugin.
 *
 * Thread: one at a time. Memory: a struct leased_entry is embedded by its user; it borrows the connection.
 */
#ifndef WARM_PRELOAD_LEASED_ENTRY_H
#define WARM_PRELOAD_LEASED_ENTRY_H

#include "client/lib/warm.h"
#include "keygen/bytes.h"
#include "keygen/key.h"

#pragma GCC visibility push(hidden)

#define LEASED_ENTRY_NAME_MAX 96

struct leased_entry {
    struct warm *w;
    struct proof proof;
    char name[LEASED_ENTRY_NAME_MAX]; /* prefix and the proof in hex */
    struct warm_value value;
    uint64_t token; /* of the lease, or 0 */
};

/* `prefix` says what makes it, e.g. "pjrt:1:"; `proof` is of everything that counts. */
void leased_entry_begin(struct leased_entry *e, struct warm *w, const char *prefix,
                        const struct proof *proof);
/* Waits while another process makes it. *out borrows until leased_entry_end. */
int leased_entry_get(struct leased_entry *e, struct view *out);
/* `options->token` is filled in. An entry that is there is replaced. */
void leased_entry_put(struct leased_entry *e, const void *data, size_t len,
                      struct warm_put_options options);
void leased_entry_end(struct leased_entry *e);

/* False under WARM_READONLY=1: what would be made only to be put need not be. */
bool leased_entry_may_put(void);

#pragma GCC visibility pop

#endif
