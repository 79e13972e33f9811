/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lex.c - splits a CUDA text into preprocessing tokens, as ISO C++ [lex.phases] orders it; cuda/internal.h
 * has the contract. The scan and the canonical source read through it.
 *
 * Thread: any; a lexer is its caller's.
 */
#include "keygen/cuda/internal.h"

/* --- characters --- */

enum class {
    C_PUNCT,
    C_WORD,
    C_DIGIT,
    C_SPACE,
    C_LINE,
    C_QUOTE,
    C_SLASH,
    C_BACKSLASH,
    C_QUESTION,
    C_BAD
};

/* The class of each byte. Bytes that are not listed are punctuation. */
static const uint8_t classes[256] = {
    [0 ... 8] = C_BAD,       ['\t'] = C_SPACE,       ['\n'] = C_LINE,
    ['\v'] = C_SPACE,        ['\f'] = C_SPACE,       [13 ... 31] = C_BAD,
    [' '] = C_SPACE,         ['"'] = C_QUOTE,        ['$'] = C_WORD,
    ['\''] = C_QUOTE,        ['/'] = C_SLASH,        ['0' ... '9'] = C_DIGIT,
    ['?'] = C_QUESTION,      ['A' ... 'Z'] = C_WORD, ['\\'] = C_BACKSLASH,
    ['_'] = C_WORD,          ['a' ... 'z'] = C_WORD, [0x7f] = C_BAD,
    [0x80 ... 255] = C_WORD, /* UTF-8 */
};

static enum class class_at(const struct lexer *x, const char *at) {
    return at < x->end ? (enum class)classes[(uint8_t)*at] : C_LINE;
}

static bool is_word_class(enum class c) { return c == C_WORD || c == C_DIGIT; }

size_t cuda_splice_len(const struct lexer *x, const char *at)
{
    if (at + 1 < x->end && at[1] == '\n')
        return 2;
    if (at + 2 < x->end && at[1] == '\r' && at[2] == '\n')
        return 3;
    return 0;
}

/* --- white space and comments --- */

static void skip_line_comment(struct lexer *x, struct token *t)
{
    for (;;) {
        const char *nl = memchr(x->at, '\n', (size_t)(x->end - x->at));
        if (nl == NULL) {
            x->at = x->end;
            return;
        }
        const char *last = nl;
        if (last > x->at && last[-1] == '\r')
            last--;
        if (last - x->at >= 3 && memcmp(last - 3, "?\?/", 3) == 0)
            x->scan->opaque = true;
        bool spliced = last > x->at && last[-1] == '\\';
        if (!spliced && last > x->at && (last[-1] == ' ' || last[-1] == '\t')) {
            while (last > x->at && (last[-1] == ' ' || last[-1] == '\t'))
                last--;
            if (last > x->at && last[-1] == '\\')
                x->scan->opaque = true; /* some compilers splice here */
        }
        if (!spliced) {
            x->at = nl;
            return;
        }
        t->splices++;
        x->at = nl + 1;
    }
}

static void skip_block_comment(struct lexer *x, struct token *t)
{
    const char *at = x->at;
    for (;;) {
        const char *star = memchr(at, '*', (size_t)(x->end - at));
        if (star == NULL || star + 1 >= x->end) {
            x->scan->unclear = true; /* never closed */
            star = x->end;
        } else if (star[1] == '\\' || star[1] == '?') {
            if (cuda_splice_len(x, star + 1) != 0 || star[1] == '?')
                x->scan->opaque = true; /* may close it */
            at = star + 1;
            continue;
        } else if (star[1] != '/') {
            at = star + 1;
            continue;
        }
        for (const char *nl = x->at; (nl = memchr(nl, '\n', (size_t)(star - nl))) != NULL; nl++)
            t->comment_lines++;
        x->at = star == x->end ? x->end : star + 2;
        return;
    }
}

/* Skips the comment at a '/'. False if none begins there. */
static bool skip_comment(struct lexer *x, struct token *t)
{
    const char *next = x->at + 1;
    if (next == x->end)
        return false;
    if (*next == '\\' && cuda_splice_len(x, next) != 0)
        x->scan->opaque = true; /* may begin a comment behind the splice */
    if (*next == '/') {
        x->at += 2;
        skip_line_comment(x, t);
    } else if (*next == '*') {
        x->at += 2;
        skip_block_comment(x, t);
    } else {
        return false;
    }
    t->space = true;
    return true;
}

/* Skips a splice at a backslash outside literals. False if it splices no lines. */
static bool skip_splice(struct lexer *x, struct token *t)
{
    size_t len = cuda_splice_len(x, x->at);
    if (len == 0) {
        x->scan->unclear = true; /* a universal character name, or blanks before the line's end */
        const char *at = x->at + 1;
        while (at < x->end && (*at == ' ' || *at == '\t' || *at == '\r'))
            at++;
        if (at > x->at + 1 && at < x->end && *at == '\n')
            x->scan->opaque = true;
        return false;
    }
    t->splices++;
    x->at += len;
    return true;
}

static void new_line(struct lexer *x, struct token *t)
{
    t->lines++;
    t->space = true;
    t->starts_line = true;
    x->at++;
}

/* Moves to the first byte of the next token. */
static void skip_blanks(struct lexer *x, struct token *t)
{
    while (x->at < x->end) {
        switch ((enum class)classes[(uint8_t)*x->at]) {
        case C_SPACE:
            t->space = true;
            x->at++;
            break;
        case C_LINE: new_line(x, t); break;
        case C_BAD:
            if (*x->at != '\r')
                return;
            if (x->at + 1 == x->end || x->at[1] != '\n')
                x->scan->unclear = true; /* NVRTC takes it for a blank, a directive may follow */
            t->space = true;
            x->at++;
            break;
        case C_SLASH:
            if (!skip_comment(x, t))
                return;
            break;
        case C_BACKSLASH:
            if (!skip_splice(x, t))
                return;
            break;
        default: return;
        }
    }
}

/* --- tokens --- */

/* Sets `opaque` if a word or number goes on behind a splice: its spelling is then not its bytes. */
static void check_spliced_end(struct lexer *x)
{
    const char *at = x->at;
    size_t len;
    while (at < x->end && *at == '\\' && (len = cuda_splice_len(x, at)) != 0)
        at += len;
    if (at != x->at && (is_word_class(class_at(x, at)) || class_at(x, at) == C_QUOTE))
        x->scan->opaque = true;
}

static void lex_word(struct lexer *x, struct token *t)
{
    const char *at = x->at + 1;
    while (at < x->end && is_word_class((enum class)classes[(uint8_t)*at]))
        at++;
    t->kind = WORD;
    t->len = (size_t)(at - x->at);
    x->at = at;
    x->word_end = at;
    x->word_len = t->len;
    check_spliced_end(x);
}

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'f');
}

/* Reads a number, [lex.ppnumber]. From C++14 on, a quote separates digits. C++11 would begin a character
 * literal there, so the text is unclear unless the digits go on. */
static void lex_number(struct lexer *x, struct token *t)
{
    const char *at = x->at + 1;
    while (at < x->end) {
        char c = *at;
        bool exponent = (c == '+' || c == '-') && ((at[-1] | 32) == 'e' || (at[-1] | 32) == 'p');
        bool separator = c == '\'' && at + 1 < x->end && is_hex(at[1]);
        if (!is_word_class((enum class)classes[(uint8_t)c]) && c != '.' && !exponent &&
            !separator) {
            if (c == '\'')
                x->scan->unclear = true;
            break;
        }
        at++;
    }
    t->kind = NUMBER;
    t->len = (size_t)(at - x->at);
    x->at = at;
    check_spliced_end(x);
}

static bool is_raw_prefix(const char *word, size_t len)
{
    return (len == 1 && word[0] == 'R') || (len == 2 && word[1] == 'R' && strchr("uUL", word[0])) ||
           (len == 3 && memcmp(word, "u8R", 3) == 0);
}

/* Reads a raw string from the quote of R"delimiter( ... )delimiter". */
static void lex_raw_string(struct lexer *x, struct token *t)
{
    const char *open = x->at + 1, *paren = open;
    char close[20];

    t->kind = LITERAL;
    while (paren < x->end && *paren != '(' && paren - open < 17)
        paren++;
    size_t delimiter = (size_t)(paren - open);
    const char *found = NULL;
    if (paren < x->end && *paren == '(' && delimiter <= 16) {
        close[0] = ')';
        memcpy(close + 1, open, delimiter);
        close[1 + delimiter] = '"';
        found = memmem(paren, (size_t)(x->end - paren), close, delimiter + 2);
    }
    if (found == NULL) {
        x->scan->opaque = true;
        t->len = 1;
        x->at++;
        return;
    }
    x->at = found + delimiter + 2;
    t->len = (size_t)(x->at - t->data);
}

static void lex_literal(struct lexer *x, struct token *t)
{
    char quote = *x->at;
    const char *at = x->at + 1;

    t->kind = LITERAL;
    if (quote == '"' && x->word_end == x->at && is_raw_prefix(x->at - x->word_len, x->word_len)) {
        lex_raw_string(x, t);
        return;
    }
    while (at < x->end && *at != quote && *at != '\n') {
        if (*at == '\\') {
            size_t splice = cuda_splice_len(x, at);
            if (splice != 0)
                t->spliced = true;
            at += splice != 0 ? splice : 2;
        } else {
            if (*at == '?' && at + 2 < x->end && at[1] == '?' && at[2] == '/')
                x->scan->opaque = true; /* an escape, if trigraphs are on */
            at++;
        }
    }
    if (at >= x->end || *at != quote) {
        /* Its line does not close it. The quote alone is the token, and the rest of the line is read as tokens.
         * Compilers may disagree whether a comment begins there. */
        const char *nl = memchr(x->at, '\n', (size_t)(x->end - x->at));
        size_t rest = (size_t)((nl != NULL ? nl : x->end) - x->at);
        x->scan->unclear = true;
        if (memmem(x->at, rest, "/*", 2) != NULL)
            x->scan->opaque = true;
        t->len = 1;
        x->at++;
        return;
    }
    x->at = at + 1;
    t->len = (size_t)(x->at - t->data);
}

static void lex_other(struct lexer *x, struct token *t)
{
    char c = *x->at, next = x->at + 1 < x->end ? x->at[1] : '\0';

    if (c == '?' && next == '?' && x->at + 2 < x->end && x->at[2] != '\0' &&
        strchr("=/'()!<>-", x->at[2]) != NULL)
        x->scan->opaque = true;
    if (c == '%' && next == ':') { /* a digraph: # */
        x->scan->unclear = x->scan->pastes = x->scan->stringizes = true;
        x->scan->includes_computed = x->scan->includes_macro = true;
    }
    if (classes[(uint8_t)c] == C_BAD)
        x->scan->unclear = true;
    t->kind = PUNCT;
    t->len = 1;
    x->at++;
}

void cuda_next(struct lexer *x, struct token *t)
{
    *t = (struct token){.kind = END, .starts_line = x->at_line_start};
    x->at_line_start = false;
    skip_blanks(x, t);
    t->data = x->at;
    if (x->at == x->end || !SCAN_EXPECT(x->scan, x->at < x->end)) {
        t->starts_line = true;
        return;
    }
    switch ((enum class)classes[(uint8_t)*x->at]) {
    case C_WORD: lex_word(x, t); return;
    case C_DIGIT: lex_number(x, t); return;
    case C_QUOTE: lex_literal(x, t); return;
    default:
        if (*x->at == '.' && class_at(x, x->at + 1) == C_DIGIT)
            lex_number(x, t);
        else
            lex_other(x, t);
        return;
    }
}

struct lexer cuda_lexer_over(const void *text, size_t len, struct cuda_scan *scan)
{
    const char *at = text != NULL ? text : "";
    return (struct lexer){.at = at, .end = at + len, .scan = scan, .at_line_start = true};
}
