/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda.h - scans a CUDA source, a header or a macro definition for uses that decide how a result is
 * kept: the clock, lines, file names, includes.
 *
 * The scan reads text without preprocessing it. It knows neither which #if branches are taken nor the
 * result of macros. So it over-approximates. A name counts as used anywhere outside of comments and
 * string literals. A name that ## could put together counts, too:
 *
 *     a name can be pasted if the text has a ## and its identifiers contain pieces that cover the
 *     name: `__TI` and `ME__`, or `_`, `_TIME` and `__`. One scan collects the pieces of several
 *     texts, because a macro of one header may paste the words of another.
 *
 * The merged scans of the source, of all headers that were read and of all -D values describe the whole
 * translation unit.
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

/* Adds the findings in `text` to *scan. Linear in `len`; never fails. */
void cuda_scan(const void *text, size_t len, struct cuda_scan *scan);

/* Adds the findings of another scan to *scan. */
void cuda_scan_merge(struct cuda_scan *scan, const struct cuda_scan *other);

/* True if the result may depend on the time (__TIME__, __DATE__, __TIMESTAMP__): it must not be kept. */
bool cuda_scan_uses_clock(const struct cuda_scan *scan);
/* True if the result may depend on line numbers. */
bool cuda_scan_uses_line(const struct cuda_scan *scan);
/* True if the result may depend on the name of the program or of a header. */
bool cuda_scan_uses_file(const struct cuda_scan *scan);
/* True if the text includes other files. */
bool cuda_scan_has_includes(const struct cuda_scan *scan);

/* The place of a word, for cuda_read_words. */
enum cuda_place {
    CUDA_TEXT,      /* in no directive */
    CUDA_DIRECTIVE, /* in one that defines nothing */
    CUDA_MACRO,     /* the name behind #define */
    CUDA_BODY       /* behind that name: parameters and what the macro becomes */
};
typedef void (*cuda_word)(void *self, enum cuda_place place, struct view word);
/* Calls `on_word` for each word of a text in order, outside of comments and literals. For a ##, and for
 * its digraph, the word is "##". Never fails. */
void cuda_read_words(const void *text, size_t len, cuda_word on_word, void *self);

/* Puts blanks in the place of what no compile reads if the macro `name` is defined throughout: the group of #ifndef NAME, and
 * #else of #ifdef NAME, as of `#if !defined(NAME)`. From where compilers may read the text in two ways, it stays as it is. */
void cuda_blank_excluded(void *text, size_t len, const char *name);

/* True if the translation unit with this merged scan may use the second, shared key: neither lines,
 * columns, file names nor the clock can show in its result. (A macro may see the white space of its
 * arguments: the canonical source of a text that includes or stringizes keeps white space.) */
bool cuda_scan_allows_canonical(const struct cuda_scan *scan);

#endif
