/* SPDX-License-Identifier: Apache-2.0 */
/* finder.c - the room of finder.h. No state, any thread. */
#include "keygen/finder.h"

#include <stdlib.h>
#include <string.h>

#include "keygen/vector.h"

#define FEW 256 /* slots at first */

bool finder_room(struct finder *f, uint32_t more)
{
    uint64_t size = f->slots ? (uint64_t)f->mask + 1 : 0;
    if (f->n + (uint64_t)more <= size / 4 * 3)
        return true;
    size = size ? 2 * size : FEW;
    while (f->n + (uint64_t)more > size / 4 * 3)
        size *= 2;
    uint32_t *wider = vector_zeroes(size, sizeof *wider);
    if (!wider)
        return false;
    free(f->slots);
    *f = (struct finder){.slots = wider, .mask = (uint32_t)(size - 1)};
    return true;
}

void finder_clear(struct finder *f)
{
    if (f->slots)
        memset(f->slots, 0, ((size_t)f->mask + 1) * sizeof *f->slots);
    f->n = 0;
}

void finder_free(struct finder *f)
{
    free(f->slots);
    *f = (struct finder){0};
}
