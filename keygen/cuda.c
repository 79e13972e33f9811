/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda.c - the scan of cuda.h, and the canonical source (KEYS.md, "CUDA C++").
 *
 * Owner: nobody; no state. Thread: any.
 *
 * One lexer of preprocessing tokens serves both. It follows the order of ISO C++ [lex.phases]:
 * spliced lines are joined first (a splice inside a word makes the text `unclear`), comments become
 * white space, raw strings are taken as they are. Where compilers may differ, it sets `unclear`,
 * and `opaque` where even the scan could then miss a name.
 *
 * The canonical source is the token sequence, with white space squeezed to where it can matter:
 *   LOOSE   no macro can turn an argument into a string: only what keeps tokens apart
 *   SQUEEZE there are headers, or a # operator: every run of white space is one blank
 *   LINES   __LINE__ may show: as SQUEEZE, and every line break keeps its place
 */
#include "keygen/cuda.h"

#include <string.h>

#include "keygen/forms.h"

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

#define W8 C_WORD, C_WORD, C_WORD, C_WORD, C_WORD, C_WORD, C_WORD, C_WORD
#define W32 W8, W8, W8, W8
#define B8 C_BAD, C_BAD, C_BAD, C_BAD, C_BAD, C_BAD, C_BAD, C_BAD
#define P8 C_PUNCT, C_PUNCT, C_PUNCT, C_PUNCT, C_PUNCT, C_PUNCT, C_PUNCT, C_PUNCT
static const uint8_t classes[256] = {
    B8, /* 0x00 */
    C_BAD,
    C_SPACE,
    C_LINE,
    C_SPACE,
    C_SPACE,
    C_BAD,
    C_BAD,
    C_BAD, /* tab, line, \v, \f */
    B8,
    B8, /* 0x10 */
    C_SPACE,
    C_PUNCT,
    C_QUOTE,
    C_PUNCT,
    C_WORD /* $ */,
    C_PUNCT,
    C_PUNCT,
    C_QUOTE, /* 0x20 */
    C_PUNCT,
    C_PUNCT,
    C_PUNCT,
    C_PUNCT,
    C_PUNCT,
    C_PUNCT,
    C_PUNCT,
    C_SLASH, /* 0x28 */
    C_DIGIT,
    C_DIGIT,
    C_DIGIT,
    C_DIGIT,
    C_DIGIT,
    C_DIGIT,
    C_DIGIT,
    C_DIGIT, /* 0x30 */
    C_DIGIT,
    C_DIGIT,
    C_PUNCT,
    C_PUNCT,
    C_PUNCT,
    C_PUNCT,
    C_PUNCT,
    C_QUESTION,
    C_PUNCT /* @ */,
    C_WORD,
    C_WORD,
    C_WORD,
    C_WORD,
    C_WORD,
    C_WORD,
    C_WORD, /* 0x40 */
    W8,
    W8,
    C_WORD,
    C_WORD,
    C_WORD,
    C_PUNCT,
    C_BACKSLASH,
    C_PUNCT,
    C_PUNCT,
    C_WORD /* _ */,
    C_PUNCT /* ` */,
    C_WORD,
    C_WORD,
    C_WORD,
    C_WORD,
    C_WORD,
    C_WORD,
    C_WORD, /* 0x60 */
    W8,
    W8,
    C_WORD,
    C_WORD,
    C_WORD,
    C_PUNCT,
    C_PUNCT,
    C_PUNCT,
    C_PUNCT,
    C_BAD,
    W32,
    W32,
    W32,
    W32, /* 0x80: UTF-8 */
};

static enum class class_at(const struct lexer *x, const char *at) {
    return at < x->end ? (enum class)classes[(uint8_t)*at] : C_LINE;
}

static bool is_word_class(enum class c) { return c == C_WORD || c == C_DIGIT; }

/* The length of a line splice at `at` (a backslash), or 0. */
static size_t splice_len(const struct lexer *x, const char *at)
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
            if (splice_len(x, star + 1) != 0 || star[1] == '?')
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

/* At a '/': true if it began a comment, which is then skipped. */
static bool skip_comment(struct lexer *x, struct token *t)
{
    const char *next = x->at + 1;
    if (next == x->end)
        return false;
    if (*next == '\\' && splice_len(x, next) != 0)
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

/* At a backslash outside literals. True if it spliced two lines. */
static bool skip_splice(struct lexer *x, struct token *t)
{
    size_t len = splice_len(x, x->at);
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

/* Up to the next token's first byte. */
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

/* A word or number that goes on behind a splice has another spelling than its bytes. */
static void check_spliced_end(struct lexer *x)
{
    const char *at = x->at;
    size_t len;
    while (at < x->end && *at == '\\' && (len = splice_len(x, at)) != 0)
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

/* [lex.ppnumber]. A quote inside separates digits, from C++14 on; where C++11 would see the begin
 * of a character literal, the text is unclear unless the digits go on. */
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

/* At the quote of R"delimiter( ... )delimiter". */
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

/* A literal that its line does not close: the quote alone is the token, and what follows on that
 * line is looked at too. Whether a comment begins there, compilers may see differently. */
static void unclosed_literal(struct lexer *x, struct token *t)
{
    const char *nl = memchr(x->at, '\n', (size_t)(x->end - x->at));
    size_t rest = (size_t)((nl != NULL ? nl : x->end) - x->at);
    x->scan->unclear = true;
    if (memmem(x->at, rest, "/*", 2) != NULL)
        x->scan->opaque = true;
    t->len = 1;
    x->at++;
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
            size_t splice = splice_len(x, at);
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
        unclosed_literal(x, t);
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

static void next_token(struct lexer *x, struct token *t)
{
    *t = (struct token){.kind = END, .starts_line = x->at_line_start};
    x->at_line_start = false;
    skip_blanks(x, t);
    t->data = x->at;
    if (x->at == x->end) {
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

static struct lexer lexer_over(const void *text, size_t len, struct cuda_scan *scan)
{
    const char *at = text != NULL ? text : "";
    return (struct lexer){.at = at, .end = at + len, .scan = scan, .at_line_start = true};
}

static bool token_is(const struct token *t, const char *text)
{
    size_t len = strlen(text);
    return t->len == len && memcmp(t->data, text, len) == 0;
}

/* --- the scan --- */

static const char *const names[CUDA_NAMES] = {"__TIME__", "__DATE__", "__TIMESTAMP__", "__LINE__",
                                              "__FILE__"};
enum { NAME_LINE = 3, NAME_FILE = 4 };

/* The letters of the names. */
static bool is_name_letter(char c)
{
    return c == '_' || (c >= 'A' && c <= 'T' &&
                        ((1u << (c - 'A')) &
                         ((1u << 0) | (1u << 3) | (1u << 4) | (1u << 5) | (1u << 8) | (1u << 11) |
                          (1u << 12) | (1u << 13) | (1u << 15) | (1u << 18) | (1u << 19))));
}

static void note_pieces(const struct token *t, struct cuda_scan *scan)
{
    for (size_t i = 0; i < t->len; i++)
        if (!is_name_letter(t->data[i]))
            return;
    for (size_t n = 0; n < CUDA_NAMES; n++) {
        size_t len = strlen(names[n]);
        for (size_t at = 0; at + t->len <= len; at++)
            if (memcmp(names[n] + at, t->data, t->len) == 0)
                scan->pieces[n][at] |= (uint16_t)(1u << (at + t->len));
    }
}

/* Words of one letter are common, and their pieces the same each time. */
static bool is_noted(struct lexer *x, const struct token *t)
{
    uint32_t bit = 1u << (*t->data & 31);
    bool noted = t->len == 1 && (x->noted & bit) != 0;
    if (t->len == 1)
        x->noted |= bit;
    return noted;
}

/* Behind __has_include, before its parenthesis: the name of a header is no tokens, but read as such.
 * So it must be one that they keep byte for byte. */
static void note_header_test(struct lexer *x)
{
    const char *at = x->at, *end = memchr(at, '\n', (size_t)(x->end - at));
    end = end != NULL ? end : x->end;
    while (at < end && (*at == ' ' || *at == '\t' || *at == '('))
        at++;
    x->scan->includes_computed = true;
    if (at < end && (*at == '\\' || *at == '/'))
        x->scan->unclear = true; /* a splice or a comment before the name */
    if (at == end || *at != '<')
        return;
    const char *close = memchr(at, '>', (size_t)(end - at));
    size_t len = (size_t)((close != NULL ? close : end) - at);
    bool plain =
        close != NULL && memmem(at, len, "//", 2) == NULL && memmem(at, len, "/*", 2) == NULL;
    for (size_t i = 0; plain && i < len; i++)
        plain = strchr(" \t\\\"'", at[i]) == NULL;
    x->scan->unclear |= !plain;
}

static void note_word(struct lexer *x, const struct token *t)
{
    struct cuda_scan *scan = x->scan;
    if (t->len <= CUDA_NAME_LEN && is_name_letter(t->data[0]) && !is_noted(x, t))
        note_pieces(t, scan);
    switch (t->len) {
    case 6:
        if (token_is(t, "assert"))
            scan->uses_line = scan->uses_file = true;
        return;
    case 11:
        scan->uses_counter |= token_is(t, "__COUNTER__");
        if (token_is(t, "__has_embed"))
            note_header_test(x);
        return;
    case 13:
        scan->uses_file |= token_is(t, "__BASE_FILE__") || token_is(t, "__FILE_NAME__");
        if (token_is(t, "__has_include"))
            note_header_test(x);
        return;
    case 14:
        scan->uses_line |= token_is(t, "__builtin_LINE");
        scan->uses_file |= token_is(t, "__builtin_FILE");
        return;
    case 15:
        if (token_is(t, "source_location"))
            scan->uses_line = scan->uses_file = scan->uses_column = true;
        return;
    case 16: scan->uses_column |= token_is(t, "__builtin_COLUMN"); return;
    case 18:
        if (token_is(t, "__has_include_next"))
            note_header_test(x);
        return;
    case 19: scan->uses_file |= token_is(t, "__builtin_FILE_NAME"); return;
    case 25:
        if (token_is(t, "__builtin_source_location"))
            scan->uses_line = scan->uses_file = scan->uses_column = true;
        return;
    default: return;
    }
}

/* The header's name behind `#include`, where the lexer stands: gives its begin and its end, NULL if
 * it is no <...> or "..." on this line. */
static const char *header_name(const struct lexer *x, const char **out_begin)
{
    const char *at = x->at;
    while (at < x->end && (*at == ' ' || *at == '\t'))
        at++;
    *out_begin = at;
    if (at == x->end || (*at != '<' && *at != '"'))
        return NULL;
    char close = *at == '<' ? '>' : '"';
    for (at++; at < x->end && *at != '\n'; at++)
        if (*at == close)
            return at + 1;
    return NULL;
}

/* Notes the header and steps over its name, which is no token: it may hold what looks like one.
 * Gives the name, empty if it is computed. */
static struct view take_header(struct lexer *x)
{
    const char *begin, *end = header_name(x, &begin);
    if (end == NULL) {
        const char *nl = memchr(begin, '\n', (size_t)(x->end - begin));
        size_t rest = (size_t)((nl != NULL ? nl : x->end) - begin);
        if (memchr(begin, '<', rest) != NULL)
            x->scan->unclear = true; /* a name behind a comment or a splice, read as tokens */
        x->scan->includes_computed = x->scan->includes_macro = true;
        return (struct view){NULL, 0};
    }
    if (*begin == '<')
        x->scan->includes_angle = true;
    else
        x->scan->includes_quote = true;
    x->at = end;
    x->word_end = NULL;
    return (struct view){begin, (size_t)(end - begin)};
}

static bool is_include(const struct token *t)
{
    return token_is(t, "include") || token_is(t, "include_next") || token_is(t, "import");
}

/* The token behind a # that begins a line. */
static void note_directive(const struct token *t, struct cuda_scan *scan)
{
    if (t->kind == NUMBER || token_is(t, "line"))
        scan->has_line_directive = true;
    else if (token_is(t, "pragma"))
        scan->has_pragma = true;
    else if (token_is(t, "embed"))
        scan->includes_computed = scan->includes_macro = true;
}

/* A '#' that begins no line: ##, also with splices between the two, or the operator that makes
 * strings. */
static void note_hash(struct lexer *x, const struct token *t)
{
    const char *next = x->at;
    size_t len;
    if (t->data == x->paired)
        return;
    while (next < x->end && *next == '\\' && (len = splice_len(x, next)) != 0)
        next += len;
    if (next < x->end && *next == '#') {
        x->scan->pastes = true;
        x->paired = next;
    } else {
        x->scan->stringizes = true;
    }
}

/* Any token but a # that begins a line. */
static void note_token(struct lexer *x, const struct token *t)
{
    if (t->kind == WORD)
        note_word(x, t);
    else if (t->kind == PUNCT && *t->data == '#')
        note_hash(x, t);
}

static bool begins_directive(const struct token *t)
{
    return t->starts_line && t->kind == PUNCT && *t->data == '#';
}

void cuda_scan(const void *text, size_t len, struct cuda_scan *scan)
{
    struct lexer x = lexer_over(text, len, scan);
    struct token t;

    next_token(&x, &t);
    while (t.kind != END) {
        bool directive = begins_directive(&t);
        if (!directive)
            note_token(&x, &t);
        next_token(&x, &t);
        if (directive && !t.starts_line) {
            note_directive(&t, scan);
            if (is_include(&t))
                take_header(&x);
        }
    }
}

/* Whom cuda_read_words tells. */
struct listener {
    cuda_word on_word;
    void *self;
};

/* Tells of a word or a ##, and goes on. */
static void tell_token(struct lexer *x, struct token *t, enum cuda_place place,
                       const struct listener *to)
{
    if (t->kind == PUNCT && *t->data == '#')
        note_hash(x, t);
    if (x->scan->pastes)
        to->on_word(to->self, place, (struct view){"##", 2});
    x->scan->pastes = false;
    if (t->kind == WORD)
        to->on_word(to->self, place, (struct view){t->data, t->len});
    next_token(x, t);
}

/* From the # to the first token of the next line. */
static void tell_directive(struct lexer *x, struct token *t, const struct listener *to)
{
    enum cuda_place place = CUDA_DIRECTIVE;
    next_token(x, t);
    if (!t->starts_line && is_include(t))
        take_header(x);
    if (!t->starts_line && token_is(t, "define")) {
        next_token(x, t);
        if (!t->starts_line)
            tell_token(x, t, CUDA_MACRO, to);
        place = CUDA_BODY;
    }
    while (!t->starts_line)
        tell_token(x, t, place, to);
}

void cuda_read_words(const void *text, size_t len, cuda_word on_word, void *self)
{
    const struct listener to = {on_word, self};
    struct cuda_scan scan = {0};
    struct lexer x = lexer_over(text, len, &scan);
    struct token t;

    next_token(&x, &t);
    while (t.kind != END) {
        if (begins_directive(&t))
            tell_directive(&x, &t, &to);
        else
            tell_token(&x, &t, CUDA_TEXT, &to);
    }
}

void cuda_scan_merge(struct cuda_scan *scan, const struct cuda_scan *other)
{
    scan->includes_quote |= other->includes_quote;
    scan->includes_angle |= other->includes_angle;
    scan->includes_computed |= other->includes_computed;
    scan->includes_macro |= other->includes_macro;
    scan->uses_line |= other->uses_line;
    scan->uses_file |= other->uses_file;
    scan->uses_column |= other->uses_column;
    scan->uses_counter |= other->uses_counter;
    scan->has_line_directive |= other->has_line_directive;
    scan->has_pragma |= other->has_pragma;
    scan->pastes |= other->pastes;
    scan->stringizes |= other->stringizes;
    scan->unclear |= other->unclear;
    scan->opaque |= other->opaque;
    for (size_t n = 0; n < CUDA_NAMES; n++)
        for (size_t i = 0; i < CUDA_NAME_LEN; i++)
            scan->pieces[n][i] |= other->pieces[n][i];
}

/* Does the name stand there, or can it be pasted together? */
static bool has_name(const struct cuda_scan *scan, size_t n)
{
    size_t len = strlen(names[n]);
    unsigned reached = 1; /* bit i: the first i characters can be had */

    if (scan->opaque || (scan->pieces[n][0] >> len & 1))
        return true;
    if (!scan->pastes)
        return false;
    for (size_t i = 0; i < len; i++)
        if (reached >> i & 1)
            reached |= scan->pieces[n][i];
    return reached >> len & 1;
}

bool cuda_scan_uses_clock(const struct cuda_scan *scan)
{
    return has_name(scan, 0) || has_name(scan, 1) || has_name(scan, 2);
}

bool cuda_scan_uses_line(const struct cuda_scan *scan)
{
    return scan->uses_line || has_name(scan, NAME_LINE);
}

bool cuda_scan_uses_file(const struct cuda_scan *scan)
{
    return scan->uses_file || has_name(scan, NAME_FILE);
}

bool cuda_scan_has_includes(const struct cuda_scan *scan)
{
    return scan->includes_quote || scan->includes_angle || scan->includes_computed || scan->opaque;
}

bool cuda_scan_allows_canonical(const struct cuda_scan *scan)
{
    return !scan->opaque && !scan->uses_column && !cuda_scan_uses_clock(scan) &&
           !cuda_scan_uses_line(scan) && !cuda_scan_uses_file(scan);
}

/* --- the canonical source --- */

enum mode { LOOSE, SQUEEZE, LINES };

struct printer {
    struct form *out;
    enum mode mode;
    bool any;          /* something was put */
    bool fresh;        /* the last byte put was a line break that we owe to no token */
    struct token last; /* the token before */
};

static void put_many(struct form *out, char c, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        form_put(out, &c, 1);
}

/* The bytes of a token, without the splices in it. */
static void put_token(struct form *out, const struct token *t)
{
    if (!t->spliced) {
        form_put(out, t->data, t->len);
        return;
    }
    const char *at = t->data, *end = at + t->len;
    while (at < end) {
        const char *slash = memchr(at, '\\', (size_t)(end - at));
        const char *stop = slash != NULL ? slash : end;
        form_put(out, at, (size_t)(stop - at));
        if (stop == end)
            return;
        if (stop[1] == '\n' || stop[1] == '\r') {
            at = stop + (stop[1] == '\n' ? 2 : 3);
        } else {
            form_put(out, stop, 2);
            at = stop + 2;
        }
    }
}

/* Marks that no longer mark begins or ends with. */
static bool is_bracket(const struct token *t)
{
    return t->kind == PUNCT && strchr("()[]{};,", *t->data) != NULL;
}

/* May white space between these two go? Only where they stay two tokens without it. */
static bool stays_apart(const struct token *a, const struct token *b)
{
    if (is_bracket(a) || is_bracket(b))
        return true;
    if (a->kind == PUNCT)
        return b->kind == WORD || b->kind == LITERAL || (b->kind == NUMBER && *a->data != '.');
    if (b->kind == PUNCT)
        return a->kind != NUMBER || strchr(".+-", *b->data) == NULL;
    return false;
}

static bool ends_statement(const struct token *t)
{
    return t->kind == PUNCT && (*t->data == ';' || *t->data == '{' || *t->data == '}');
}

/* Line breaks, in a LINES form: one mark for each, so that no two places look alike. */
static void put_lines(struct printer *p, const struct token *t)
{
    put_many(p->out, '\f', t->splices);
    put_many(p->out, '\v', t->comment_lines);
    put_many(p->out, '\n', t->lines);
    if (t->lines == 0 && t->space && p->any)
        form_put(p->out, " ", 1);
}

/* What stands between the last token and `t`, outside directives. A form is easier to compare line
 * by line, so a statement's end breaks the line where there may be a blank; but not before a '#',
 * which would then look like a directive. */
static void put_gap(struct printer *p, const struct token *t)
{
    if (p->mode == LINES) {
        put_lines(p, t);
        return;
    }
    if (!p->any || p->fresh)
        return;
    bool breaks = ends_statement(&p->last) && *t->data != '#';
    if (p->mode == LOOSE && breaks)
        form_put(p->out, "\n", 1);
    else if (t->space && !(p->mode == LOOSE && stays_apart(&p->last, t)))
        form_put(p->out, breaks ? "\n" : " ", 1);
}

static void put_text(struct printer *p, const struct token *t)
{
    put_gap(p, t);
    put_token(p->out, t);
    p->any = true;
    p->fresh = false;
    p->last = *t;
}

/* A directive: its own line, runs of white space as one blank, the header's name as it stands. */
static void put_directive(struct printer *p, struct lexer *x, struct token *t)
{
    if (p->mode == LINES)
        put_lines(p, t);
    else if (p->any && !p->fresh)
        form_put(p->out, "\n", 1);
    form_put(p->out, "#", 1);
    next_token(x, t);
    if (!t->starts_line)
        note_directive(t, x->scan);
    for (bool first = true; !t->starts_line; first = false) {
        if (p->mode == LINES) {
            put_many(p->out, '\f', t->splices);
            put_many(p->out, '\v', t->comment_lines);
        }
        if (t->space && !first)
            form_put(p->out, " ", 1);
        put_token(p->out, t);
        note_token(x, t);
        struct view header = {NULL, 0};
        if (first && is_include(t))
            header = take_header(x);
        if (header.len > 0) {
            form_put(p->out, " ", 1);
            form_put(p->out, header.data, header.len);
        }
        next_token(x, t);
    }
    if (p->mode != LINES)
        form_put(p->out, "\n", 1);
    p->any = true;
    p->fresh = true;
}

/* Puts the form of this mode and scans on the way. */
static void put_source(const struct canon_input *input, enum mode mode, struct form *out,
                       struct cuda_scan *scan)
{
    struct lexer x = lexer_over(input->data, input->len, scan);
    struct printer p = {.out = out, .mode = mode};
    struct token t;

    form_begin(out, "cuda/1");
    next_token(&x, &t);
    while (t.kind != END) {
        if (begins_directive(&t)) {
            put_directive(&p, &x, &t);
        } else {
            note_token(&x, &t);
            put_text(&p, &t);
            next_token(&x, &t);
        }
    }
}

static const char *why_exact(const struct cuda_scan *scan)
{
    if (scan->opaque)
        return "trigraphs or splices that compilers may read differently";
    if (scan->unclear)
        return "characters or literals that compilers may read differently";
    if (scan->uses_column)
        return "the source asks for its columns";
    return NULL;
}

static enum mode mode_of(const struct cuda_scan *scan)
{
    if (cuda_scan_uses_line(scan))
        return LINES;
    return cuda_scan_has_includes(scan) || scan->stringizes ? SQUEEZE : LOOSE;
}

/* Which mode it is is known when the text has been read. So it is guessed, and only a wrong guess
 * costs a second reading. */
int form_cuda(const struct canon_input *input, struct form *out, struct err *e)
{
    struct cuda_scan scan = {0}, again = {0};
    (void)e;

    if (input->debug_info) {
        out->why_exact = "debug output was asked for: it shows lines and columns";
        return WARM_EUNSUPPORTED;
    }
    bool has_include = input->len > 0 && memmem(input->data, input->len, "#include", 8) != NULL;
    enum mode guess = has_include ? SQUEEZE : LOOSE;
    put_source(input, guess, out, &scan);
    out->why_exact = why_exact(&scan);
    if (out->why_exact != NULL)
        return WARM_EUNSUPPORTED;
    if (mode_of(&scan) != guess)
        put_source(input, mode_of(&scan), out, &again);
    return 0;
}

/* A CUDA source has one of these words as a token; other kinds that are asked first do not. */
bool form_cuda_claims(const char *data, size_t len)
{
    static const char *const words[] = {"__global__", "__device__",       "__host__",
                                        "__shared__", "__constant__",     "#include",
                                        "threadIdx",  "__launch_bounds__"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (memmem(data, len, words[i], strlen(words[i])) != NULL)
            return true;
    return false;
}
