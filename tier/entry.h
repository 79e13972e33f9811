/* SPDX-License-Identifier: Apache-2.0 */
/*
 * entry.h - an entry of the store as an object beyond the machine: its name, its bytes, its signature.
 *
 * Integers are little-endian; a text is a u16 length and its bytes.
 *
 * | OFFSET | SIZE | FIELD |
 * |---|---|---|
 * | 0   | 4     | "WTIE" |
 * | 4   | 1     | version, 1 |
 * | 5   | 1     | kind (store/FORMAT.md) |
 * | 6   | 2     | flags: 1 the value follows the signature; else it is the object "HH/b-SHA256" |
 * | 8   | 16    | key |
 * | 24  | 32    | SHA-256 of the proof; of a named entry, of the name's SHA-256 |
 * | 56  | 8     | bytes of the value |
 * | 64  | 16    | XXH3-128 of the value |
 * | 80  | 32    | SHA-256 of the value |
 * | 112 | 4     | cost_ms |
 * | 116 | 8     | when it was made, Unix time in ms |
 * | 124 | 8     | when it expires, likewise; 0: never |
 * | 132 | 48    | group, compiler, graph: 16 bytes each; zero if there is none |
 * | 180 | 2 + … | texts: space, hardware, compiler, name, label; then the name of the key that signed |
 * | …   | 64    | Ed25519 signature of all bytes before it |
 * | …   | n     | the value, with flag 1 |
 *
 * The object's name is "HH/e-ID": ID = SHA-256("warm-tier-1", space, NUL, key, SHA-256 of the proof) in hex,
 * HH its first two digits. A key alone is XXH3-128 and may be shared by other input; a proof opens an entry,
 * so only its hash leaves the machine.
 *
 * The store beyond the machine may return any bytes. An entry counts only if a trusted key signed it, if it
 * answers the request, and if its value has its length and both digests.
 *
 * Thread: any; no state. Memory: views of a read entry point into the bytes that were read.
 */
#ifndef WARM_TIER_ENTRY_H
#define WARM_TIER_ENTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keygen/bytes.h"
#include "keygen/err.h"
#include "keygen/key.h"
#include "tier/signing.h"

#define ENTRY_TEXT_MAX 512u
#define ENTRY_HEAD_MAX 4096u
#define ENTRY_INLINE_MAX (64u << 10) /* bytes of a value */
#define ENTRY_OBJECT_MAX (ENTRY_INLINE_MAX + ENTRY_HEAD_MAX)
#define ENTRY_NAME 72 /* "HH/e-" and 64 hex digits, NUL, rounded up */

struct tier_entry {
    uint8_t kind;
    struct key key;
    struct proof proof_hash;
    uint64_t len;
    struct key check;
    struct proof content;
    uint32_t cost_ms;
    uint64_t created_ms, expires_ms;
    struct key group, compiler, graph;
    struct view space, hardware, compiler_text, name, label;
    struct view signer; /* the name of the key */
    bool is_inline;
    struct view value; /* if it is inline */
};

/* Writes the name of the object of a key and a proof (not its hash) in a space of less than ENTRY_TEXT_MAX
 * bytes. */
void entry_name(struct view space, const struct key *key, const struct proof *proof,
                char out[ENTRY_NAME]);
/* Appends the head and its signature, and an inline value. The signer is set from the key. */
void entry_write(const struct tier_entry *entry, const struct signing_key *key, struct writer *out);

/* Reads an object. MALFORMED, VERSION; DENIED: not signed by one of the trusted keys. *out_key: the key that
 * signed. The value's digests are not compared. */
int entry_read(const void *data, size_t len, const struct trusted_keys *trusted,
               struct tier_entry *out, const struct trusted_key **out_key, struct err *e);

/* True if it is the entry of this space, key and proof. */
bool entry_is(const struct tier_entry *entry, struct view space, const struct key *key,
              const struct proof *proof);
/* True if the bytes are its value: length and both digests. */
bool entry_has_value(const struct tier_entry *entry, const void *value, uint64_t len);

#endif
