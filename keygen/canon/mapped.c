/* SPDX-License-Identifier: Apache-2.0 */
/* mapped.c - the giving back of mapped.h. No state, any thread. */
#include "keygen/canon/mapped.h"

#include <sys/mman.h>
#include <unistd.h>

#define STEP ((uintptr_t)256 * 1024) /* bytes: a call of the system for so many costs nothing */

/* The whole pages of [from, to); gives where the part begins that stays. */
static uintptr_t give_back(uintptr_t from, uintptr_t to)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = (from + page - 1) & ~(page - 1);
    uintptr_t end = to & ~(page - 1);
    if (first >= end)
        return from;
    madvise((void *)first, end - first, MADV_DONTNEED);
    return end;
}

struct mapped mapped_begin(const struct canon_input *input, const void *from)
{
    uintptr_t at = (uintptr_t)from;
    return input->mapped ? (struct mapped){at, at + STEP} : (struct mapped){0};
}

void mapped_give_back(const struct canon_input *input)
{
    if (input->mapped)
        give_back((uintptr_t)input->data, (uintptr_t)input->data + input->len);
}

void mapped_advance(struct mapped *m, uintptr_t at)
{
    m->kept = give_back(m->kept, at);
    m->next = at + STEP;
}
