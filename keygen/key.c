/* SPDX-License-Identifier: Apache-2.0 */
/*
 * key.c - decides how fields become a key: it computes both digests over one stream of tagged
 * fields. All code that makes a key or an address calls it; key.h has the contract.
 *
 * Thread: any; no state.
 */
#define OPENSSL_API_COMPAT                                                                         \
    0x10100000L /* the SHA256_* calls: they allocate no context and cannot fail */
#define OPENSSL_SUPPRESS_DEPRECATED
#define XXH_INLINE_ALL
#include "keygen/key.h"
#include "keygen/domains.h"

#include <string.h>

#include "keygen/bytes.h"
#include "keygen/expect.h"
#include "keygen/key_avx2.h"

#define SHORT_BYTES 240 /* XXH3 uses no vectors up to this length */

void key_to_text(const struct key *key, char out[WARM_KEY_TEXT])
{
    bytes_to_hex(key->bytes, sizeof key->bytes, out);
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

bool key_from_text(const char *text, size_t len, struct key *out)
{
    struct key key;
    if (len != WARM_KEY_TEXT - 1)
        return false;
    for (size_t i = 0; i < sizeof key.bytes; i++) {
        int high = hex_value(text[2 * i]), low = hex_value(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        key.bytes[i] = (uint8_t)(high << 4 | low);
    }
    *out = key;
    return true;
}

bool key_equal(const struct key *a, const struct key *b)
{
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

bool proof_equal(const struct proof *a, const struct proof *b)
{
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

static struct key key_from_hash(XXH128_hash_t hash)
{
    XXH128_canonical_t canonical;
    struct key key;
    XXH128_canonicalFromHash(&canonical, hash);
    memcpy(key.bytes, canonical.digest, sizeof key.bytes);
    return key;
}

struct key key_of_bytes(const void *data, size_t len)
{
#if defined(__x86_64__)
    if (len > SHORT_BYTES && __builtin_cpu_supports("avx2")) {
        struct key key;
        key_hash_avx2(data, len, key.bytes);
        return key;
    }
#endif
    return key_from_hash(XXH3_128bits(data, len));
}

struct proof proof_of_bytes(const void *data, size_t len)
{
    struct proof proof;
    SHA256_CTX sha; /* not SHA256(), which looks providers up and links all of libcrypto */
    SHA256_Init(&sha);
    SHA256_Update(&sha, data, len);
    SHA256_Final(proof.bytes, &sha);
    return proof;
}

static void xxh_update(XXH3_state_t *state, const void *data, size_t len)
{
#if defined(__x86_64__)
    if (len > SHORT_BYTES && __builtin_cpu_supports("avx2")) {
        key_update_avx2(state, data, len);
        return;
    }
#endif
    XXH3_128bits_update(state, data, len);
}

static void builder_update(struct key_builder *b, const void *data, size_t len)
{
    if (len) {
        xxh_update(&b->xxh, data, len);
        SHA256_Update(&b->sha, data, len);
    }
}

void key_add_open(struct key_builder *b, uint32_t tag, uint64_t len)
{
    uint8_t head[12];
    for (size_t i = 0; i < 4; i++)
        head[i] = (uint8_t)(tag >> (8 * i));
    for (size_t i = 0; i < 8; i++)
        head[4 + i] = (uint8_t)(len >> (8 * i));
    builder_update(b, head, sizeof head);
}

void key_add_piece(struct key_builder *b, const void *data, size_t len)
{
    builder_update(b, data, len);
}

void key_begin(struct key_builder *b, const char *domain)
{
    (void)WARM_EXPECT((uintptr_t)b % _Alignof(struct key_builder) == 0); /* see key.h */
    XXH3_128bits_reset(&b->xxh);
    SHA256_Init(&b->sha);
    key_add_text(b, 0, domain);
}

void key_add(struct key_builder *b, uint32_t tag, const void *data, size_t len)
{
    key_add_open(b, tag, len);
    key_add_piece(b, data, len);
}

void key_add_text(struct key_builder *b, uint32_t tag, const char *text)
{
    key_add(b, tag, text, strlen(text));
}

void key_add_u64(struct key_builder *b, uint32_t tag, uint64_t value)
{
    uint8_t bytes[8];
    for (size_t i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(value >> (8 * i));
    key_add(b, tag, bytes, sizeof bytes);
}

void key_end(struct key_builder *b, struct key *out_key, struct proof *out_proof)
{
    *out_key = key_from_hash(XXH3_128bits_digest(&b->xxh));
    SHA256_Final(out_proof->bytes, &b->sha);
}

struct key address_key(const struct address *address)
{
    struct key_builder b;
    struct key key;
    struct proof unused;
    key_begin(&b, DOMAIN_ADDRESS);
    key_add_u64(&b, 1, WARM_KEY_FORMAT);
    key_add_text(&b, 2, address->hardware);
    key_add(&b, 3, address->compiler.bytes, sizeof address->compiler.bytes);
    key_add(&b, 4, address->graph.bytes, sizeof address->graph.bytes);
    key_end(&b, &key, &unused);
    return key;
}
