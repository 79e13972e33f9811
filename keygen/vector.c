/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vector.c - decides how the array of a VECTOR (vector.h) grows: 2 KiB and 32 entries at first,
 * then twice as many, VECTOR_MAX at most. PUSH calls it if there is no room.
 *
 * Thread: any; no state.
 */
#include "keygen/vector.h"
#include "keygen/expect.h"

#include <stdlib.h>
#include <string.h>

bool vector_grow(bool *failed, void *vector_at, uint32_t *cap, uint32_t n, size_t size)
{
    void *old, *grown = NULL;
    memcpy(&old, vector_at, sizeof old);
    uint32_t first = size < 64 ? (uint32_t)(2048 / size) : 32;
    uint32_t wider = n < first ? first : n > VECTOR_MAX / 2 ? VECTOR_MAX : 2 * n;
    if (!*failed && n < VECTOR_MAX && WARM_EXPECT(n >= *cap))
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
