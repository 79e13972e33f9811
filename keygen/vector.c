/* SPDX-License-Identifier: Apache-2.0 */
/* vector.c - the growing of vector.h. No state, any thread. */
#include "keygen/vector.h"

#include <stdlib.h>
#include <string.h>

/* malloc keeps so much at hand, seven of each size; calloc does not look there */
#define FEW_BYTES 1024u

void *vector_zeroes(size_t n, size_t size)
{
    if (size && n > FEW_BYTES / size)
        return calloc(n, size);
    void *few = malloc(n * size > FEW_BYTES / 2 ? FEW_BYTES : FEW_BYTES / 2);
    return few ? memset(few, 0, n * size) : NULL;
}

/* The capacity after one that n entries fill: what malloc has at hand (of each size it has few, so small
 * entries are no more than others), then four times that, so that few small ones are copied, then twice. */
static uint32_t wider_than(uint32_t n, size_t size)
{
    uint32_t few = size < FEW_BYTES / 8 ? (uint32_t)(FEW_BYTES / size) : 8;
    if (size > 1 && few > 32)
        few = 32;
    if (n < few)
        return few;
    return n < 1024 ? 4 * n : n > VECTOR_MAX / 2 ? VECTOR_MAX : 2 * n;
}

bool vector_grow(bool *failed, void *vector_at, uint32_t *cap, uint32_t n, size_t size)
{
    void *old, *grown = NULL;
    memcpy(&old, vector_at, sizeof old);
    uint32_t wider = wider_than(n, size);
    if (!*failed && n < VECTOR_MAX)
        grown = realloc(old, wider * size);
    if (!grown) {
        *failed = true;
        return false;
    }
    memcpy(vector_at, &grown, sizeof grown);
    *cap = wider;
    return true;
}

bool vector_widen(bool *failed, void *vector_at, uint32_t *cap, uint32_t n, uint32_t more,
                  size_t size)
{
    while (*cap - n < more)
        if (more > VECTOR_MAX - n ||
            !vector_grow(failed, vector_at, cap, *cap > n ? *cap : n, size)) {
            *failed = true;
            return false;
        }
    return true;
}

void vector_reserve(bool *failed, void *vector_at, uint32_t *cap, uint32_t want, size_t size)
{
    void *fresh = *failed || want > VECTOR_MAX ? NULL : malloc(want * size);
    if (!fresh) {
        *failed = true;
        return;
    }
    memcpy(vector_at, &fresh, sizeof fresh);
    *cap = want;
}
