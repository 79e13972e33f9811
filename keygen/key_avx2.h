/* SPDX-License-Identifier: Apache-2.0 */
/*
 * key_avx2.h - XXH3-128 for processors with AVX2: the same hash in about half of the time. Only
 * key.c calls it, after it has asked the processor.
 *
 * Thread: any. Memory: none.
 */
#ifndef WARM_KEYGEN_KEY_AVX2_H
#define WARM_KEYGEN_KEY_AVX2_H

#include <stddef.h>
#include <stdint.h>

/* Computes the XXH3-128 of bytes, in canonical byte order. */
void key_hash_avx2(const void *data, size_t len, uint8_t out[16]);
/* Adds bytes to a stream. `state` is an XXH3_state_t. */
void key_update_avx2(void *state, const void *data, size_t len);

#endif
