/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda.c - scans a CUDA text for what it may do that decides how its compile is kept: use the clock, a line
 * or a file's name, include headers, paste names with ##. cuda.h says why it over-approximates.
 *
 * The key of a job, the shims and `warm tool` call it.
 *
 * Thread: any; no state.
 */
#include "keygen/cuda/internal.h"

static const char *const names[CUDA_NAMES] = {"__TIME__", "__DATE__", "__TIMESTAMP__", "__LINE__",
                                              "__FILE__"};
enum { NAME_LINE = 3, NAME_FILE = 4 };

/* True for a letter of one of the names. */
static bool is_name_letter(char c)
{
    return c == '_' || (c >= 'A' && c <= 'T' &&
                        ((1u << (c - 'A')) &
                         ((1u << 0) | (1u << 3) | (1u << 4) | (1u << 5) | (1u << 8) | (1u << 11) |
                          (1u << 12) | (1u << 13) | (1u << 15) | (1u << 18) | (1u << 19))));
}

static void note_pieces(const struct token *t, struct cuda_scan *scan)
{
    if (!SCAN_EXPECT(scan, t->len > 0 && t->len <= CUDA_NAME_LEN)) /* `pieces` has no room */
        return;
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

/* True if this one-letter word was noted before. Such words are common, and add the same pieces each time. */
static bool is_noted(struct lexer *x, const struct token *t)
{
    uint32_t bit = 1u << (*t->data & 31);
    bool noted = t->len == 1 && (x->noted & bit) != 0;
    if (t->len == 1)
        x->noted |= bit;
    return noted;
}

/* Notes the header behind __has_include, before its parenthesis. The lexer reads the header's name as tokens, which
 * it is not. A name whose bytes the tokens would not keep makes the text unclear. */
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
        if (cuda_token_is(t, "assert"))
            scan->uses_line = scan->uses_file = true;
        return;
    case 11:
        scan->uses_counter |= cuda_token_is(t, "__COUNTER__");
        if (cuda_token_is(t, "__has_embed"))
            note_header_test(x);
        return;
    case 13:
    case 18:
        scan->uses_file |= cuda_token_is(t, "__BASE_FILE__") || cuda_token_is(t, "__FILE_NAME__");
        if (cuda_token_is(t, "__has_include") || cuda_token_is(t, "__has_include_next"))
            note_header_test(x);
        return;
    case 14:
        scan->uses_line |= cuda_token_is(t, "__builtin_LINE");
        scan->uses_file |= cuda_token_is(t, "__builtin_FILE");
        return;
    case 15:
    case 25:
        if (cuda_token_is(t, "source_location") || cuda_token_is(t, "__builtin_source_location"))
            scan->uses_line = scan->uses_file = scan->uses_column = true;
        return;
    case 16: scan->uses_column |= cuda_token_is(t, "__builtin_COLUMN"); return;
    case 19: scan->uses_file |= cuda_token_is(t, "__builtin_FILE_NAME"); return;
    default: return;
    }
}

/* Returns the end of the header's name behind `#include`, where the lexer stands, and sets its begin. NULL
 * if there is no <...> or "..." on this line. */
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

struct view cuda_take_header(struct lexer *x)
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
    if (!SCAN_EXPECT(x->scan, x->at <= begin && begin + 1 < end && end <= x->end))
        return (struct view){NULL, 0};
    x->at = end;
    x->word_end = NULL;
    return (struct view){begin, (size_t)(end - begin)};
}

bool cuda_is_include(const struct token *t)
{
    return cuda_token_is(t, "include") || cuda_token_is(t, "include_next") ||
           cuda_token_is(t, "import");
}

void cuda_note_directive(const struct token *t, struct cuda_scan *scan)
{
    if (t->kind == NUMBER || cuda_token_is(t, "line"))
        scan->has_line_directive = true;
    else if (cuda_token_is(t, "pragma"))
        scan->has_pragma = true;
    else if (cuda_token_is(t, "embed"))
        scan->includes_computed = scan->includes_macro = true;
}

/* Notes a '#' that begins no line: a ##, also with splices between the two, or the # operator. */
static void note_hash(struct lexer *x, const struct token *t)
{
    const char *next = x->at;
    size_t len;
    if (!SCAN_EXPECT(x->scan, *t->data == '#' && x->at > t->data) || t->data == x->paired)
        return;
    while (next < x->end && *next == '\\' && (len = cuda_splice_len(x, next)) != 0)
        next += len;
    if (next < x->end && *next == '#') {
        x->scan->pastes = true;
        x->paired = next;
    } else {
        x->scan->stringizes = true;
    }
}

void cuda_note_token(struct lexer *x, const struct token *t)
{
    if (SCAN_EXPECT(x->scan, t->len > 0) && t->kind == WORD)
        note_word(x, t);
    else if (t->kind == PUNCT && *t->data == '#')
        note_hash(x, t);
}

void cuda_scan(const void *text, size_t len, struct cuda_scan *scan)
{
    struct lexer x = cuda_lexer_over(text, len, scan);
    struct token t;

    cuda_next(&x, &t);
    while (t.kind != END) {
        bool directive = cuda_begins_directive(&t);
        if (!directive)
            cuda_note_token(&x, &t);
        cuda_next(&x, &t);
        if (directive && !t.starts_line) {
            cuda_note_directive(&t, scan);
            if (cuda_is_include(&t))
                cuda_take_header(&x);
        }
    }
}

/* The receiver of cuda_read_words. */
struct listener {
    cuda_word on_word;
    void *self;
};

/* Reports a word or a ##, and moves to the next token. */
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
    cuda_next(x, t);
}

/* Reports the words of a directive, from its # to the first token of the next line. */
static void tell_directive(struct lexer *x, struct token *t, const struct listener *to)
{
    enum cuda_place place = CUDA_DIRECTIVE;
    cuda_next(x, t);
    if (!t->starts_line && cuda_is_include(t))
        cuda_take_header(x);
    if (!t->starts_line && cuda_token_is(t, "define")) {
        cuda_next(x, t);
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
    struct lexer x = cuda_lexer_over(text, len, &scan);
    struct token t;

    cuda_next(&x, &t);
    while (t.kind != END) {
        if (cuda_begins_directive(&t))
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

/* True if a text has the name, or if ## can paste it together. */
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
