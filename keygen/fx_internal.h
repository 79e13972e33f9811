/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fx_internal.h - the inside of the reader of FX graph code, for fx*.c only.
 *
 *   fx_text.c   bytes into tokens of Python, and what a comment says of its nodes
 *   fx_type.c   types of tensors, sizes and devices, into the form
 *   fx.c        statements, graphs and the text as a whole into the form
 *
 * What fails sets fx.rc, the first time for good; every loop ends then. Places are 32 bits: inputs are
 * below 4 GiB.
 *
 * Thread: one at a time. Memory: tokens point into the input; the tables are the reader's.
 */
#ifndef WARM_KEYGEN_FX_INTERNAL_H
#define WARM_KEYGEN_FX_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "keygen/forms.h"
#include "keygen/names.h"

#define NONE UINT32_MAX
#define COUNT(array) (sizeof(array) / sizeof *(array))
#define FX_HOW_TO_PRINT                                                                            \
    "print it with print_readable(print_output=False, include_stride=True, include_device=True)"

enum token_kind { END, LINE, NAME, NUMBER, STRING, MARK };

struct token {
    enum token_kind kind;
    uint32_t at, len;
    bool spaced; /* white space stands before it */
};

struct fx {
    const char *text;
    uint32_t len, at;
    struct form *out;
    struct err *e;
    int rc;
    int parens; /* inside brackets, line ends do not count */

    struct names locals;  /* of this graph: a number and flags, or FREE */
    struct names members; /* attributes of the module: what the text says of them */
    struct names symbols; /* s0, u3: by first use in the text */
    uint32_t n_locals, n_symbols, n_graphs;
    const char *index; /* the first index of a device that the text names */
    uint32_t index_len;
    uint32_t tag_at, tag_len;   /* what the last comment says of the nodes that follow */
    uint32_t told_at, told_len; /* what the form says of them so far */
    uint32_t inner_column;      /* where the first graph inside another begins */
    bool in_graph, has_return, has_types, several_devices;
    char last; /* what was put last: 'w' a word, or a mark */
};

/* --- fx_text.c --- */

/* Ends the reading with an error at a place of the text. */
void fx_fail(struct fx *f, int code, uint32_t at, const char *what);
/* Ends it because not all is understood: the exact text is the form. `why` is static. */
void fx_give_up(struct fx *f, const char *why);

/* The next token, behind blanks and comments; END at the end and after a failure. */
struct token fx_next(struct fx *f);
struct token fx_peek(struct fx *f);
/* The end of the word at a place, the place itself if there is none. */
uint32_t fx_word_end(const char *s, uint32_t at, uint32_t len);

static inline char fx_char_at(const struct fx *f, uint32_t at)
{
    return at < f->len ? f->text[at] : '\0';
}
static inline bool fx_is(const struct fx *f, struct token t, const char *text)
{
    return t.len == strlen(text) && memcmp(f->text + t.at, text, t.len) == 0;
}
static inline bool fx_is_mark(const struct fx *f, struct token t, char c)
{
    return t.kind == MARK && f->text[t.at] == c;
}
/* Is this one '=', and not the first of two? */
static inline bool fx_is_equals(const struct fx *f, struct token t)
{
    return fx_is_mark(f, t, '=') && fx_char_at(f, t.at + 1) != '=';
}

/* --- fx_type.c --- */

/* Puts an annotation: "f32[s0, 3][3, 1]cuda:0". Refuses a tensor that it does not say all of. True if it
 * is one. */
bool fx_put_type(struct fx *f, struct token type);
/* Puts a string; one that names a device as that device. */
void fx_put_string(struct fx *f, struct token t);
/* From behind the word `device`: puts (type='cuda', index=0) if that comes; else false, and nothing has
 * happened. */
bool fx_put_device_call(struct fx *f);
/* Puts which devices the text names, if there are two: which is which counts then. */
void fx_put_devices(struct fx *f);

#endif
