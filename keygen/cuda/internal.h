/* SPDX-License-Identifier: Apache-2.0 */
/*
 * internal.h - the lexer of CUDA sources, for the files of this folder only.
 *
 *   lex.c      bytes into preprocessing tokens
 *   cuda.c     the scan (cuda.h)
 *   source.c   the canonical source
 *   excluded.c what no compile reads
 *
 * It follows the order of ISO C++ [lex.phases]: it joins spliced lines first, turns comments into white
 * space, and takes raw strings as they are. If compilers may differ it sets scan->unclear; if even the
 * scan could then miss a name, it sets scan->opaque.
 *
 * Thread: any; a lexer is its caller's. Memory: tokens point into the text.
 */
#ifndef WARM_KEYGEN_CUDA_INTERNAL_H
#define WARM_KEYGEN_CUDA_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "keygen/bytes.h"
#include "keygen/cuda/cuda.h"
#include "keygen/expect.h"

/* Checks a promise. If it is broken, the scan could miss a name. */
#define SCAN_EXPECT(scan, promise) (WARM_EXPECT(promise) || !((scan)->opaque = true))

enum token_kind { END, WORD, NUMBER, LITERAL, PUNCT };

struct token {
    enum token_kind kind;
    const char *data;
    size_t len;
    bool space; /* white space stood before it */
    bool starts_line;
    bool spliced; /* a line splice inside it: its bytes are not its spelling */
    /* What a LINES form must not lose, in this order before the token. */
    unsigned splices, comment_lines, lines;
};

struct lexer {
    const char *at, *end;
    struct cuda_scan *scan;
    bool at_line_start;
    const char *paired;   /* the second mark of a ## */
    uint32_t noted;       /* one-letter words whose pieces were noted, by letter */
    const char *word_end; /* where the last word ended, if it may be a raw string's prefix */
    size_t word_len;
};

/* --- cuda/lex.c --- */

/* Returns a lexer over a text, which it borrows. */
struct lexer cuda_lexer_over(const void *text, size_t len, struct cuda_scan *scan);
/* Sets *t to the next token, END at the end. */
void cuda_next(struct lexer *x, struct token *t);
/* Returns the length of a line splice at `at` (a backslash), or 0. */
size_t cuda_splice_len(const struct lexer *x, const char *at);

static inline bool cuda_token_is(const struct token *t, const char *text)
{
    return t->len > 0 && *t->data == *text && t->len == strlen(text) &&
           memcmp(t->data, text, t->len) == 0;
}
static inline bool cuda_begins_directive(const struct token *t)
{
    return t->starts_line && t->kind == PUNCT && *t->data == '#';
}

/* --- cuda.c: tokens into x->scan --- */

/* Adds any token but a # that begins a line to the scan. */
void cuda_note_token(struct lexer *x, const struct token *t);
/* Adds the token behind a # that begins a line to the scan. */
void cuda_note_directive(const struct token *t, struct cuda_scan *scan);
/* True if the token is the word of a directive that includes. */
bool cuda_is_include(const struct token *t);
/* Adds the header's name to the scan and moves behind it: it is no token, but may contain text that looks
 * like one. Returns the name, empty if it is computed. */
struct view cuda_take_header(struct lexer *x);

#endif
