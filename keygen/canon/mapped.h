/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mapped.h - an input that is a file's mapping: its pages are given back behind the reader.
 *
 *     given back ──┐             next ─┐
 *     ░░░░░░░░░░░░░█████████████████████─────────────────
 *                          at ─▶
 *
 * A reader that goes through its input once says from time to time how far it has come; so of a large
 * file little is resident at once. A page that was given back is read from the file again when somebody
 * looks at it: pointers into it stay good. Does nothing for an input that is no mapping.
 *
 * Thread: as the reader. Memory: none; the input is borrowed.
 */
#ifndef WARM_KEYGEN_CANON_MAPPED_H
#define WARM_KEYGEN_CANON_MAPPED_H

#include <stddef.h>
#include <stdint.h>

#include "keygen/canon/canon.h"

struct mapped {
    uintptr_t kept; /* where the part begins that was not given back */
    uintptr_t next; /* where more is given back; 0: never, so all zeroes are no mapping */
};

/* For a reader that begins at `from`, which lies in the input. */
struct mapped mapped_begin(const struct canon_input *input, const void *from);
/* Gives all of the input back. */
void mapped_give_back(const struct canon_input *input);
void mapped_advance(struct mapped *m, uintptr_t at);

/* The reader has come to `at`, and will hardly look back. */
static inline void mapped_pass(struct mapped *m, const void *at)
{
    if (m->next && (uintptr_t)at >= m->next)
        mapped_advance(m, (uintptr_t)at);
}

#endif
