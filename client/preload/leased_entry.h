/* SPDX-License-Identifier: Apache-2.0 */
/*
 * leased_entry.h - artifacts that only the program can make: asks for one with a lease, and stores
 * the result of the real function.
 *
 *     leased_entry_get ─┬─ 0: the bytes, checked
 *                       ├─ WARM_LEASE: the caller must make it ──▶ leased_entry_put
 *                       ├─ WARM_ENOT_FOUND: absent or damaged; the caller may ──▶ leased_entry_put
 *                       ├─ WARM_EREFUSED: it was made before and must not be kept: go on without
 *                       └─ another error: go on without
 *     leased_entry_end: in every case; gives back the lease, if it is still held
 *
 * The stored value is: magic "warmkept" (8 bytes), XXH3-128 of the bytes (16), SHA-256 of the key
 * (32), and the bytes. So a value that was stored under the name in another way never reaches a
 * driver or a plugin. An artifact that must not be kept leaves the reason there, with the magic
 * "warmmark": nobody waits for it, or makes it once more only to store it.
 *
 * Thread: one at a time. Memory: its user embeds a struct leased_entry, which borrows the
 * connection.
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

/* Names the entry. `prefix` is the maker's, e.g. "pjrt:1:"; `proof` covers everything that
 * counts. */
void leased_entry_begin(struct leased_entry *e, struct warm *w, const char *prefix,
                        const struct proof *proof);
/* Asks for the entry, and waits while another process makes it. *out borrows until
 * leased_entry_end. Returns as drawn above. */
int leased_entry_get(struct leased_entry *e, struct view *out);
/* True if, after leased_entry_get returned `code`, its caller may store what it makes in its stead: the entry is
 * absent or damaged, or could not be used. */
bool leased_entry_is_ours(int code);
/* Stores the bytes under the entry's lease, if there is one; replaces an older entry. Ignores
 * options.token. Returns 0, or the error of warm_put. */
int leased_entry_put(struct leased_entry *e, const void *data, size_t len,
                     struct warm_put_options options);
#define LEASED_ENTRY_RETRY_MS (60u * 60 * 1000) /* for what failed: perhaps for want of memory */
/* Remembers for `ttl_ms` (0: for ever) that the artifact must not be kept, and tells `warm why` the reason. */
void leased_entry_mark(struct leased_entry *e, const char *reason, uint64_t ttl_ms);
/* Gives back a lease that is still held, and frees the value. */
void leased_entry_end(struct leased_entry *e);

/* False under WARM_READONLY=1. An artifact must then not be made only to be stored. */
bool leased_entry_may_put(void);

#pragma GCC visibility pop

#endif
