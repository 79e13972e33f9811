/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gather.c - finds what each dimension of a gather or scatter means: section "gather" of the StableHLO
 * specification. check.c, eval.c, codegen.c and rules.c call it.
 *
 * Thread: any; no state.
 */
#include "kernels/program/gather.h"

#include <string.h>

#include "keygen/expect.h"

/* True if n numbers are below `rank`, each at most once. Adds them to *seen. */
static bool take_dims(const int64_t *dims, int64_t n, uint32_t rank, unsigned *seen)
{
    for (int64_t i = 0; i < n; i++) {
        if (dims[i] < 0 || dims[i] >= rank || *seen & 1u << dims[i])
            return false;
        *seen |= 1u << dims[i];
    }
    return true;
}

bool gather_of(const int64_t *ints, uint32_t n, const struct tensor *x,
               const struct tensor *indices, struct gather *out)
{
    if (n < GATHER_FIXED)
        return false;
    int64_t n_offset = ints[0], n_gone = ints[1], n_batch = ints[2], n_map = ints[3],
            vector = ints[4];
    for (int i = 0; i < 4; i++)
        if (ints[i] < 0 || ints[i] > PROGRAM_RANK_MAX)
            return false;
    if (n != GATHER_FIXED + n_offset + n_gone + 2 * n_batch + n_map + x->rank || vector < 0 ||
        vector > indices->rank || n_offset + n_gone + n_batch != x->rank)
        return false;
    const int64_t *offset = ints + GATHER_FIXED, *gone = offset + n_offset, *batch = gone + n_gone,
                  *its_batch = batch + n_batch, *map = its_batch + n_batch, *sizes = map + n_map;
    bool has_vector = vector < indices->rank;
    uint32_t rank = indices->rank - has_vector + (uint32_t)n_offset, used = 0;
    unsigned of_slices = 0, of_x = 0, mapped = 0, of_indices = has_vector ? 1u << vector : 0;
    if (rank > PROGRAM_RANK_MAX || !take_dims(offset, n_offset, rank, &of_slices) ||
        !take_dims(gone, n_gone, x->rank, &of_x) || !take_dims(batch, n_batch, x->rank, &of_x) ||
        !take_dims(its_batch, n_batch, indices->rank, &of_indices) ||
        !take_dims(map, n_map, x->rank, &mapped) ||
        n_map != (has_vector ? indices->dims[vector] : 1) || !program_is_whole(indices->elem))
        return false;
    *out = (struct gather){.rank = rank, .unique = ints[5] != 0};
    for (uint32_t d = 0; d < PROGRAM_RANK_MAX; d++)
        out->start[d] = out->along[d] = out->at[d] = -1;
    for (uint32_t d = 0, r = 0; d < indices->rank; d++) {
        if (has_vector && d == vector)
            continue;
        while (of_slices & 1u << r)
            r++;
        out->at[d] = (int)r++;
    }
    for (uint32_t d = 0; d < x->rank; d++) {
        if (!(of_x & 1u << d))
            out->along[d] = (int)offset[used++];
        out->sizes[d] = sizes[d];
        if (sizes[d] < 0 || sizes[d] > x->dims[d] || (of_x & 1u << d && sizes[d] > 1))
            return false;
    }
    for (int64_t i = 0; i < n_batch; i++)
        if (mapped & 1u << batch[i] || x->dims[batch[i]] != indices->dims[its_batch[i]])
            return false;
        else
            out->along[batch[i]] = out->at[its_batch[i]];
    for (int64_t i = 0; i < n_map; i++) {
        out->start[map[i]] = (int)i;
        out->overlaps |= sizes[map[i]] > 1;
    }
    return true;
}

void gather_type(const struct gather *g, const struct tensor *x, const struct tensor *indices,
                 struct tensor *out)
{
    *out = (struct tensor){.elem = x->elem, .rank = g->rank};
    (void)WARM_EXPECT(g->rank <= PROGRAM_RANK_MAX);
    for (uint32_t d = 0; d < x->rank; d++)
        if (g->along[d] >= 0)
            out->dims[g->along[d]] = g->sizes[d];
    for (uint32_t d = 0; d < indices->rank; d++)
        if (g->at[d] >= 0)
            out->dims[g->at[d]] = indices->dims[d];
}

int64_t gather_count(const struct gather *g, const struct tensor *indices)
{
    int64_t n = 1;
    for (uint32_t d = 0; d < indices->rank; d++)
        n *= g->at[d] >= 0 ? indices->dims[d] : 1;
    return n;
}

bool gather_of_chain(const int64_t *ints, uint32_t n, const struct tensor *indices,
                     const struct tensor *updates, struct gather *out)
{
    if (n < GATHER_FIXED)
        return false;
    for (int i = 0; i < 4; i++)
        if (ints[i] < 0 || ints[i] > PROGRAM_RANK_MAX)
            return false;
    int64_t rank = ints[0] + ints[1] + ints[2];
    struct tensor x = {.elem = updates->elem, .rank = (uint32_t)rank};
    if (rank > PROGRAM_RANK_MAX || n != GATHER_FIXED + rank + ints[2] + ints[3] + rank)
        return false;
    memcpy(x.dims, ints + n - rank, (size_t)rank * sizeof *x.dims);
    const int64_t *batch = ints + GATHER_FIXED + ints[0] + ints[1], *its = batch + ints[2];
    for (int64_t i = 0; i < ints[2]; i++) {
        if (batch[i] < 0 || batch[i] >= rank || its[i] < 0 || its[i] >= indices->rank)
            return false;
        x.dims[batch[i]] = indices->dims[its[i]];
    }
    return gather_of(ints, n, &x, indices, out);
}
