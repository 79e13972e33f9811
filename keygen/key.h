/* SPDX-License-Identifier: Apache-2.0 */
/*
 * key.h - the address of an artifact.
 *
 * An address has three separate parts, so that people can list, explain and evict by each:
 *
 *     hardware              compiler                     graph
 *     "sm_90"               16-byte digest of libnvrtc   16-byte digest of the canonical input:
 *     (text, exact target)  and its builtins, content    source or graph, options, names, kind
 *          │                     │                            │
 *          └──────────┬──────────┴────────────────────────────┘
 *                     ▼
 *     struct address ──address_key──▶ struct key (16 bytes, XXH3-128): the key in the store
 *
 * XXH3 finds, SHA-256 proves: beside each graph key goes the SHA-256 of the same canonical bytes.
 * The daemon returns an entry only against that proof. XXH3.md lists the other uses of XXH3.
 *
 * Canonical bytes are a sequence of fields. Each has a tag and a length in front, so "sm_9" + "0"
 * is never "sm_90" + "". KEYS.md lists the fields of each kind.
 *
 * Thread: none. Memory: everything is embedded by its user.
 * Source: XXH3, https://github.com/Cyan4973/xxHash; SHA-256, FIPS 180-4 (libcrypto).
 */
#ifndef WARM_KEYGEN_KEY_H
#define WARM_KEYGEN_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <openssl/sha.h>
#define XXH_STATIC_LINKING_ONLY /* the size of XXH3_state_t, to embed it */
#include <xxhash.h>

#include "keygen/err.h"

/* Raise it if equal input may get another key than before. No request then finds the old entries. */
#define WARM_KEY_FORMAT 1u

#define WARM_HARDWARE_MAX 64 /* bytes of a hardware text, NUL included */

struct key { /* XXH3-128, canonical (big-endian) byte order: its hex text sorts as its bytes do */
    uint8_t bytes[16];
};
struct proof { /* SHA-256 */
    uint8_t bytes[32];
};
_Static_assert(sizeof(struct key) == 16, "a key is 16 bytes on the wire and on disk");
_Static_assert(sizeof(struct proof) == 32, "a proof is 32 bytes on the wire and on disk");

#define WARM_KEY_TEXT 33 /* 32 hex digits and NUL */

/* Writes a key as 32 lower-case hex digits and NUL. */
void key_to_text(const struct key *key, char out[WARM_KEY_TEXT]);
/* True if `text` (exactly `len` bytes) is 32 hex digits, upper or lower case; then sets *out. */
bool key_from_text(const char *text, size_t len, struct key *out);
/* True if two keys are equal. */
bool key_equal(const struct key *a, const struct key *b);
/* True if two proofs are equal. */
bool proof_equal(const struct proof *a, const struct proof *b);

/* Returns the XXH3-128 of bytes, which checks the integrity of values. */
struct key key_of_bytes(const void *data, size_t len);
/* Returns the SHA-256 of bytes, for names of blobs and for proofs. */
struct proof proof_of_bytes(const void *data, size_t len);

/*
 * A key builder reads fields and produces both digests. It hashes every field as
 *     u32 tag, u64 length, bytes
 * after a domain text that is the first field. It buffers nothing and cannot fail. The state is
 * aligned to 64 bytes: keep it on the stack or in static memory, not in malloc'ed memory.
 */
struct key_builder {
    XXH3_state_t xxh;
    SHA256_CTX sha;
};

/* Begins a key. `domain` is the kind of canonical form and its version, e.g. "cuda-exact/2". */
void key_begin(struct key_builder *b, const char *domain);
/* Adds a field of bytes. */
void key_add(struct key_builder *b, uint32_t tag, const void *data, size_t len);
/* Adds a field with the bytes of a C string, without its NUL. */
void key_add_text(struct key_builder *b, uint32_t tag, const char *text);
/* Adds a field of 8 bytes, little-endian. */
void key_add_u64(struct key_builder *b, uint32_t tag, uint64_t value);
/* Begins a field of `len` bytes, which key_add_piece adds in any number of pieces. */
void key_add_open(struct key_builder *b, uint32_t tag, uint64_t len);
/* Adds a piece of the open field. */
void key_add_piece(struct key_builder *b, const void *data, size_t len);
/* Ends the key and computes both digests. */
void key_end(struct key_builder *b, struct key *out_key, struct proof *out_proof);

struct address {
    char hardware[WARM_HARDWARE_MAX]; /* NUL-terminated: "sm_90a", or the producer's own text */
    struct key compiler;
    struct key graph;
};

/* Returns the key of an entry in the store: XXH3-128 over the three parts and WARM_KEY_FORMAT. */
struct key address_key(const struct address *address);

#endif
