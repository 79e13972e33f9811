/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vector.h - arrays that grow, for the readers and the graph.
 *
 * A VECTOR is its memory (`at`), its length and its capacity. It starts as all zeroes. PUSH(owner,
 * vector, value) appends. If memory runs out, or the vector is full (VECTOR_MAX), PUSH sets
 * owner->failed. From then on it does nothing.
 *
 * Thread: none. Memory: the owner of the vector owns `at` and frees it.
 */
#ifndef WARM_KEYGEN_VECTOR_H
#define WARM_KEYGEN_VECTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VECTOR(type)                                                                               \
    struct {                                                                                       \
        type *at;                                                                                  \
        uint32_t n, cap;                                                                           \
    }

#define VECTOR_MAX 0x7FFFFFF0u /* entries: an index fits 31 bits */

/* Makes room for more than `n` entries of `size` bytes. `vector_at` points to the pointer. */
bool vector_grow(bool *failed, void *vector_at, uint32_t *cap, uint32_t n, size_t size);

/* Makes room for `more` entries beyond `n`. */
bool vector_widen(bool *failed, void *vector_at, uint32_t *cap, uint32_t n, uint32_t more,
                  size_t size);

#define PUSH(owner, vector, ...)                                                                   \
    do {                                                                                           \
        if ((vector).n < (vector).cap ||                                                           \
            vector_grow(&(owner)->failed, &(vector).at, &(vector).cap, (vector).n,                 \
                        sizeof *(vector).at))                                                      \
            (vector).at[(vector).n++] = __VA_ARGS__;                                               \
    } while (0)

#endif
