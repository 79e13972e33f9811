/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tokens.h - the words, strings and marks of a dump. The form of HLO text reads them.
 *
 *     tokens_next(&t) ──▶ t.now ──▶ tokens_put(&t)      the token as it is
 *                               └─▶ tokens_put_number   the number that stands for it
 *
 * White space and comments separate tokens and go. One blank stays between two words, and between two
 * operators. The language has a table of its bytes.
 *
 * Thread: any; no state. Memory: borrows the text.
 */
#ifndef WARM_KEYGEN_CANON_TOKENS_H
#define WARM_KEYGEN_CANON_TOKENS_H

#include "keygen/canon/form.h"
#include "keygen/canon/names.h"

/* The first byte of a token decides its kind. A word goes on as long as its bytes are WORD. */
enum token_class {
    CLASS_WORD,
    CLASS_MARK, /* a token of its own */
    CLASS_OPEN,
    CLASS_CLOSE,
    CLASS_QUOTE,
    CLASS_BLANK,
    CLASS_SLASH, /* a comment: to the line's end if another one follows; up to its partner if '*'
                  * follows; else a mark */
    CLASS_BAD,   /* in no token of the language */
};

enum token_kind { TOKEN_END, TOKEN_WORD, TOKEN_STRING, TOKEN_MARK };

struct token {
    uint32_t at, len;
    uint32_t depth; /* brackets around it. A bracket has the depth of its surroundings. */
    uint8_t kind;   /* enum token_kind */
    bool spaced;    /* white space or a comment comes before it */
};

struct tokens {
    const char *text;
    uint32_t len, at;       /* inputs are below 4 GiB */
    const uint8_t *classes; /* by byte, enum token_class */
    const char *language;   /* for errors */
    struct form *out;
    struct err *e;
    int rc; /* the first error; no token follows it */
    uint32_t depth;
    struct token now;
    uint32_t put_from, put_to; /* of the text: put, but not yet in `out` */
    char last;                 /* 'w' if a word was put last, else the mark */
};

/* Begins before the first token. Error: TOO_BIG. */
int tokens_begin(struct tokens *t, const struct canon_input *input, struct form *out,
                 struct err *e);
/* Reads the next token into t->now. It is an END at the end, and after an error. */
void tokens_next(struct tokens *t);
/* Sets the first error, with its place. */
void tokens_fail(struct tokens *t, int code, uint32_t at, const char *what);
/* Fails at t->now: TRUNCATED at the end of the text, else MALFORMED. */
void tokens_expected(struct tokens *t, const char *what);

/* True if t->now is this text. */
bool tokens_is(const struct tokens *t, const char *text);
/* True if a token is one of n texts. */
bool tokens_in(const struct tokens *t, const struct token *token, const char *const *texts,
               size_t n);
/* True if t->now is this mark. */
static inline bool tokens_mark(const struct tokens *t, char c)
{
    return t->now.kind == TOKEN_MARK && t->text[t->now.at] == c;
}

/* Returns the place of a name's number, as names_add does. NULL, and an error, without memory. */
uint32_t *tokens_number(struct tokens *t, struct names *names, struct token name, bool *out_new);

/* Puts a token as it is. */
void tokens_put(struct tokens *t, const struct token *token);
/* Puts a number in the place of a word. `sign` is in no word of the language. */
void tokens_put_number(struct tokens *t, struct token token, char sign, uint32_t number);
/* Puts a text of the form's own, which separates tokens. */
void tokens_put_text(struct tokens *t, const char *text);
/* Puts the text from `at` to before `end` as it is. It separates tokens, too. */
void tokens_put_exact(struct tokens *t, uint32_t at, uint32_t end);
/* Ends the form. Returns the first error. */
int tokens_end(struct tokens *t);

#endif
