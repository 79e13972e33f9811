/* SPDX-License-Identifier: Apache-2.0 */
/* fx_text.c - the tokens and comments of FX graph code; fx_internal.h. No state. */
#include "keygen/fx_internal.h"

/* --- failing --- */

void fx_fail(struct fx *f, int code, uint32_t at, const char *what)
{
    if (f->rc)
        return;
    f->rc = err_set(f->e, code, "FX: %s", what);
    err_place(f->e, f->text, f->len, at);
}

void fx_give_up(struct fx *f, const char *why)
{
    if (f->rc)
        return;
    f->rc = WARM_EUNSUPPORTED;
    f->out->why_exact = why;
}

/* --- tokens of Python --- */

enum class {
    C_MARK,
    C_NAME,
    C_DIGIT,
    C_BLANK,
    C_LINE,
    C_COMMENT,
    C_QUOTE,
    C_DOT,
    C_OPEN,
    C_CLOSE,
    C_BAD
};

/* By their first byte; what is not listed is a mark. */
static const uint8_t classes[256] = {
    [0 ... 8] = C_BAD, [11 ... 31] = C_BAD,     ['\t'] = C_BLANK,        ['\n'] = C_LINE,
    [' '] = C_BLANK,   ['#'] = C_COMMENT,       ['"'] = C_QUOTE,         ['\''] = C_QUOTE,
    ['.'] = C_DOT,     ['0' ... '9'] = C_DIGIT, ['A' ... 'Z'] = C_NAME,  ['a' ... 'z'] = C_NAME,
    ['_'] = C_NAME,    ['('] = C_OPEN,          ['['] = C_OPEN,          ['{'] = C_OPEN,
    [')'] = C_CLOSE,   [']'] = C_CLOSE,         ['}'] = C_CLOSE,         ['\\'] = C_BAD,
    ['$'] = C_BAD,     [0x7f] = C_BAD,          [0x80 ... 255] = C_NAME,
};

static enum class class_of(char c) { return (enum class)classes[(uint8_t)c]; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_word_char(char c) { return class_of(c) == C_NAME || class_of(c) == C_DIGIT; }

static uint32_t string_end(struct fx *f, uint32_t at)
{
    char quote = f->text[at];
    uint32_t begin = at++;
    if (fx_char_at(f, at) == quote && fx_char_at(f, at + 1) == quote) {
        fx_give_up(f, "text of several lines");
        return f->len;
    }
    while (at < f->len && f->text[at] != quote && f->text[at] != '\n')
        at += f->text[at] == '\\' ? 2 : 1;
    if (at >= f->len || f->text[at] != quote) {
        fx_fail(f, WARM_ETRUNCATED, begin, "a string is not closed");
        return f->len;
    }
    return at + 1;
}

/* 1, 1e-05, 0x1F, 1.5: a sign after an exponent belongs to it. */
static uint32_t number_end(const struct fx *f, uint32_t at)
{
    for (at++; at < f->len; at++) {
        char c = f->text[at], before = f->text[at - 1];
        bool sign = (c == '-' || c == '+') && (before == 'e' || before == 'E') && at + 1 < f->len &&
                    is_digit(f->text[at + 1]);
        if (!is_word_char(c) && c != '.' && !sign)
            break;
    }
    return at;
}

static bool starts_with(const char *at, const char *end, const char *word)
{
    size_t len = strlen(word);
    return (size_t)(end - at) >= len && memcmp(at, word, len) == 0;
}

/* Of a comment that FX prints before a node, what stands before the place in the source:
 *
 *     # ac_graph_id: 2 - MUST_SAVE File: m.py:7 in f, code: y = x.sin()
 *       ^~~~~~~~~~~~~~~~~~~~~~~~~~
 *
 * decides how the graph is cut into a forward and a backward part, or compiled. It holds for the
 * nodes up to the next such comment. Other comments say nothing. */
static void read_comment(struct fx *f, const char *at, const char *end)
{
    static const char place[] = "File: ", no_place[] = "No stacktrace found";
    const char *stop = NULL, *found;

    while (at < end && (*at == '#' || *at == ' '))
        at++;
    if (starts_with(at, end, place) || starts_with(at, end, no_place)) {
        f->tag_len = 0;
        return;
    }
    for (const char *from = at; (found = memmem(from, (size_t)(end - from), place, 6)) != NULL;
         from = found + 1)
        stop = found; /* the last one: a tag may hold anything */
    if (stop == NULL)
        stop = memmem(at, (size_t)(end - at), no_place, sizeof no_place - 1);
    if (stop == NULL)
        return;
    f->tag_at = (uint32_t)(at - f->text);
    f->tag_len = (uint32_t)(stop - at);
    if (memmem(at, f->tag_len, "...'", 4) != NULL)
        fx_fail(f, WARM_EREFUSED, f->tag_at,
                "an annotation that is cut short: it cannot tell graphs apart");
}

static void skip_comment(struct fx *f)
{
    const char *at = f->text + f->at, *nl = memchr(at, '\n', f->len - f->at);
    const char *end = nl != NULL ? nl : f->text + f->len;
    read_comment(f, at, end);
    f->at = (uint32_t)(end - f->text);
}

/* Blanks and comments; line ends inside brackets. False at a line end that counts. */
static bool skip_blanks(struct fx *f)
{
    for (; f->at < f->len; f->at++) {
        switch (class_of(f->text[f->at])) {
        case C_BLANK: break;
        case C_LINE:
            if (f->parens == 0)
                return false;
            break;
        case C_COMMENT:
            skip_comment(f);
            f->at--; /* its line end is looked at next */
            break;
        case C_BAD:
            if (f->text[f->at] != '\r' || fx_char_at(f, f->at + 1) != '\n')
                return true;
            break;
        default: return true;
        }
    }
    return true;
}

uint32_t fx_word_end(const char *s, uint32_t at, uint32_t len)
{
    while (at < len && is_word_char(s[at]))
        at++;
    return at;
}

struct token fx_next(struct fx *f)
{
    uint32_t from = f->at;
    bool inside = skip_blanks(f);
    uint32_t at = f->at, end = at + 1;
    struct token t = {END, at, 0, at > from};
    if (at == f->len || f->rc)
        return t;
    switch (inside ? class_of(f->text[at]) : C_LINE) {
    case C_LINE: t.kind = LINE; break;
    case C_NAME:
        t.kind = NAME;
        end = fx_word_end(f->text, end, f->len);
        break;
    case C_DOT:
        t.kind = is_digit(fx_char_at(f, end)) ? NUMBER : MARK;
        end = t.kind == NUMBER ? number_end(f, at) : end;
        break;
    case C_DIGIT:
        t.kind = NUMBER;
        end = number_end(f, at);
        break;
    case C_QUOTE:
        t.kind = STRING;
        end = string_end(f, at);
        break;
    case C_BAD: fx_give_up(f, "characters that FX graph code does not have"); return t;
    case C_OPEN:
        t.kind = MARK;
        f->parens++;
        break;
    case C_CLOSE:
        t.kind = MARK;
        if (--f->parens < 0)
            fx_fail(f, WARM_EMALFORMED, at, "a bracket closes that was not opened");
        break;
    default: t.kind = MARK; break;
    }
    f->at = end;
    if (f->rc)
        t.kind = END;
    else
        t.len = end - at;
    return t;
}

struct token fx_peek(struct fx *f)
{
    uint32_t at = f->at, tag_at = f->tag_at, tag_len = f->tag_len;
    int parens = f->parens;
    struct token t = fx_next(f);
    f->at = at;
    f->parens = parens;
    f->tag_at = tag_at;
    f->tag_len = tag_len;
    return t;
}
