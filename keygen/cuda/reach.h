/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reach.h - whether a text can come to show where it stands, by way of macros of others.
 *
 *     header:  #define CHECK(x) (x ? 0 : fail(__FILE__, __LINE__))      CHECK leads there
 *              #define TWICE(x) CHECK(x), CHECK(x)                      TWICE does, through CHECK
 *     source:  a = b;                                                   shows nothing
 *              a = TWICE(b);                                            shows its name and line
 *
 * What stands in a header shows the header's own name and lines, wherever the source is. So a unit
 * whose headers use __FILE__ and __LINE__ still is the same under another name or with other line
 * breaks, if nothing in its source is, or names a macro that leads to, one of them.
 *
 * Not so where a header asks for the place of its caller (source_location, __builtin_LINE as the
 * default of a parameter): that needs no macro. If such a name can stand in the text of any of them,
 * nobody can tell. Where it stands only in an #if, or in a macro that nobody uses, it does nothing.
 *
 * Over-approximates as cuda.h does: all branches of #if, all definitions of a name; in the source, a
 * macro with ## is taken to make any word; in a header, any word that can be put together from what
 * is spelt anywhere. The texts together must not be `opaque` (struct cuda_scan).
 *
 * Thread: one at a time. Memory: hashes of words, 8 bytes each; the texts are borrowed.
 */
#ifndef WARM_KEYGEN_CUDA_REACH_H
#define WARM_KEYGEN_CUDA_REACH_H

#include <stdbool.h>
#include <stddef.h>

struct cuda_reach;

/* NULL if memory ran out. */
struct cuda_reach *cuda_reach_new(void);
void cuda_reach_free(struct cuda_reach *r); /* NULL is fine */

/* Every text of the unit first, the source too: its macros count. Borrowed until the end. */
void cuda_reach_add(struct cuda_reach *r, const void *text, size_t len);
/* Then of one or more of them: can `text` show its name or its lines? True also where nobody can
 * tell: memory ran out, or some text asks for the place of its caller. */
bool cuda_reach_shows_place(struct cuda_reach *r, const void *text, size_t len);
/* Less: does `text` spell __FILE__, or the name of a macro that leads to it by names that are spelt?
 * Not looked for: lines, names that ## makes, the place of a caller. `assert` counts only where a
 * text defines it. */
bool cuda_reach_spells_file(struct cuda_reach *r, const void *text, size_t len);

#endif
