/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reach.h - tells whether a text can show its own name or line numbers through macros of other texts.
 *
 *     header:  #define CHECK(x) (x ? 0 : fail(__FILE__, __LINE__))      CHECK leads there
 *              #define TWICE(x) CHECK(x), CHECK(x)                      TWICE does, through CHECK
 *     source:  a = b;                                                   shows nothing
 *              a = TWICE(b);                                            shows its name and line
 *
 * A use of __FILE__ or __LINE__ in a header shows the header's own name and lines, wherever the source
 * is. So the headers of a unit may use both. If the source neither uses one of them nor names a
 * macro that leads to one, its name and line breaks still do not count.
 *
 * A header can also ask for the place of its caller (source_location, __builtin_LINE as the default of
 * a parameter). That needs no macro. If such a name can stand in the text of any file of the unit, the
 * answer is "it may show". In an #if, or in an unused macro, such a name has no effect.
 *
 * The answer over-approximates as cuda.h does: all branches of #if and all definitions of a name count.
 * In the source, a macro with ## may make any word. In a header, ## may make any word that the words
 * of all texts can cover. The texts together must not be `opaque` (struct cuda_scan).
 *
 * Thread: one at a time. Memory: hashes of words, 8 bytes each; the texts are borrowed.
 */
#ifndef WARM_KEYGEN_CUDA_REACH_H
#define WARM_KEYGEN_CUDA_REACH_H

#include <stdbool.h>
#include <stddef.h>

struct cuda_reach;

/* Returns an empty unit, or NULL if memory ran out. */
struct cuda_reach *cuda_reach_new(void);
/* Frees a unit. NULL is fine. */
void cuda_reach_free(struct cuda_reach *r);

/* Adds a text. Add every text of the unit first, the source too. Borrows the text until cuda_reach_free. */
void cuda_reach_add(struct cuda_reach *r, const void *text, size_t len);
/* Adds a text of the system, whose own names ## never joins to such a word (cuda_reach_can_paste). */
void cuda_reach_add_systems(struct cuda_reach *r, const void *text, size_t len);
/* Says that macros of this name become nothing, whatever the texts that were added define. */
void cuda_reach_ignore(struct cuda_reach *r, const char *name);
/* True if ## may make this word from words that texts spell, or that macros make of those: of the system only the macros
 * count, unless its texts use one of another text. Also true if memory ran out. */
bool cuda_reach_can_paste(struct cuda_reach *r, const char *word);
/* True if `text`, one of those that were added, may show its name or its lines. Also true if memory ran
 * out or if some text asks for the place of its caller. */
bool cuda_reach_shows_place(struct cuda_reach *r, const void *text, size_t len);
/* True if `text` spells __FILE__ outside of macros, or names a macro there that leads to it by spelt names. A narrower
 * question: it ignores lines, names that ## makes, and the place of a caller. `assert` counts only if a text
 * defines it. */
bool cuda_reach_spells_file(struct cuda_reach *r, const void *text, size_t len);
/* Returns the same for __PRETTY_FUNCTION__, with which Clang names files. */
bool cuda_reach_spells_function(struct cuda_reach *r, const void *text, size_t len);

#endif
