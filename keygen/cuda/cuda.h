/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda.h - what a CUDA source, a header or a macro definition may do that decides how it is kept.
 *
 * The scan reads text without preprocessing it: it does not know which #if branches are taken nor
 * what macros become. So it over-approximates: whatever the compiler could see counts as used,
 * wherever it stands outside comments and string literals, and names that could be put together
 * with ## count too:
 *
 *     a name can be pasted if the text has a ## and its identifiers contain pieces that cover the
 *     name: `__TI` and `ME__`, or `_`, `_TIME` and `__`. The pieces of several texts are collected
 *     in one scan, since a macro of one header may paste what another spells.
 *
 * A scan of the source, of every header that was read and of every -D value, merged, answers for
 * the whole translation unit.
 *
 * Thread: any; no state. Memory: none.
 */
#ifndef WARM_KEYGEN_CUDA_CUDA_H
#define WARM_KEYGEN_CUDA_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keygen/bytes.h"

#define CUDA_NAMES 5     /* __TIME__ __DATE__ __TIMESTAMP__ __LINE__ __FILE__ */
#define CUDA_NAME_LEN 13 /* of the longest */

struct cuda_scan {          /* all zero: nothing found yet */
    bool includes_quote;    /* #include "x" */
    bool includes_angle;    /* #include <x> */
    bool includes_computed; /* #include MACRO, and anything else that names files */
    bool includes_macro;    /* #include MACRO: text may be put together to any file's name */
    bool uses_line;         /* __LINE__, assert, __builtin_LINE, source_location */
    bool uses_file;         /* __FILE__, assert, __builtin_FILE, source_location */
    bool uses_column;       /* __builtin_COLUMN, source_location */
    bool uses_counter;      /* __COUNTER__ */
    bool has_line_directive;
    bool has_pragma;
    bool pastes;     /* ## */
    bool stringizes; /* # in a macro: white space between tokens may show */
    bool unclear;    /* compilers may read it in two ways: canonical form is the exact text */
    bool opaque;     /* trigraphs and the like: everything is assumed, the clock too */
    /* pieces[n][i] has bit j set if the characters i..j-1 of name n stand as an identifier. */
    uint16_t pieces[CUDA_NAMES][CUDA_NAME_LEN];
};

/* Adds what `text` does to *scan. Linear in `len`; never fails. */
void cuda_scan(const void *text, size_t len, struct cuda_scan *scan);

/* Adds what another scan found to *scan. */
void cuda_scan_merge(struct cuda_scan *scan, const struct cuda_scan *other);

/* The result may depend on when it was made (__TIME__, __DATE__, __TIMESTAMP__): not to be kept. */
bool cuda_scan_uses_clock(const struct cuda_scan *scan);
/* The result may depend on line numbers, or on the name of the program or of a header. */
bool cuda_scan_uses_line(const struct cuda_scan *scan);
bool cuda_scan_uses_file(const struct cuda_scan *scan);
bool cuda_scan_has_includes(const struct cuda_scan *scan);

/* Calls `on_word` for each word of a text in order, comments and literals left out: where it stands,
 * and the word itself; for a ## the word is "##", and
 * for the digraph that stands for a # too. Never fails. */
enum cuda_place {
    CUDA_TEXT,      /* in no directive */
    CUDA_DIRECTIVE, /* in one that defines nothing */
    CUDA_MACRO,     /* the name behind #define */
    CUDA_BODY       /* behind that name: parameters and what the macro becomes */
};
typedef void (*cuda_word)(void *self, enum cuda_place place, struct view word);
void cuda_read_words(const void *text, size_t len, cuda_word on_word, void *self);

/* The second, shared key may be used for a translation unit that this is the merged scan of:
 * neither lines, columns, file names nor the clock can show in its result. (A macro that sees the
 * white space of its arguments is no obstacle: the canonical source of a text that includes or
 * stringizes keeps where white space stands.) */
bool cuda_scan_allows_canonical(const struct cuda_scan *scan);

#endif
