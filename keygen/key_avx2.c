/* SPDX-License-Identifier: Apache-2.0 */
/*
 * key_avx2.c - computes XXH3-128 with vectors of 256 bits, for whole texts and for streams. It
 * compiles xxHash once more, for AVX2. key.c calls it if the processor has AVX2.
 *
 * Thread: any; no state.
 */
#include "keygen/key_avx2.h"

#if defined(__x86_64__)
#include <string.h>

/* The compiler fixes the vectors of xxHash. So this file has a target of its own. */
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC target("avx2")
#endif
#include <immintrin.h>
#define XXH_VECTOR 2 /* XXH_AVX2 */
#define XXH_INLINE_ALL
#include <xxhash.h>

void key_hash_avx2(const void *data, size_t len, uint8_t out[16])
{
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(data, len));
    memcpy(out, canonical.digest, sizeof canonical.digest);
}

void key_update_avx2(void *state, const void *data, size_t len)
{
    XXH3_128bits_update(state, data, len);
}
#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
