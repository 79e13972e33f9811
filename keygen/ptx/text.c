/* SPDX-License-Identifier: Apache-2.0 */
/*
 * text.c - splits PTX into tokens, with one token of look-ahead. It notes the first error, or the
 * reason for the exact text. ptx.c and scopes.c call it; ptx/internal.h has the contract.
 *
 * Thread: any; the state is struct ptx.
 */
#include "keygen/ptx/internal.h"

#include "keygen/vector.h"

/* --- failing --- */

void ptx_fail(struct ptx *p, int code, uint32_t at, const char *what)
{
    if (p->rc < 0)
        return;
    p->rc = err_set(p->e, code, "PTX: %s", what);
    err_place(p->e, p->text, p->len, at);
}

void ptx_give_up(struct ptx *p, const char *why)
{
    if (p->rc < 0)
        return;
    p->rc = WARM_EUNSUPPORTED;
    p->out->why_exact = why;
}

bool ptx_grow(struct ptx *p, void *array_at, uint32_t *cap, uint32_t n, size_t size)
{
    bool failed = false;
    if (n < *cap || vector_grow(&failed, array_at, cap, n, size))
        return true;
    ptx_fail(p, WARM_ENOMEM, 0, "no memory for its names");
    return false;
}

/* --- tokens --- */

enum class { C_MARK, C_NAME, C_DIGIT, C_SPACE, C_DOT, C_STRING, C_SLASH, C_BAD };

static const uint8_t classes[256] = {
    [0 ... 8] = C_BAD,      ['\t' ... '\r'] = C_SPACE,
    [14 ... 31] = C_BAD,    [' '] = C_SPACE,
    ['"'] = C_STRING,       ['#'] = C_BAD,
    ['$'] = C_NAME,         ['%'] = C_NAME,
    ['\''] = C_BAD,         ['.'] = C_DOT,
    ['/'] = C_SLASH,        ['0' ... '9'] = C_DIGIT,
    ['A' ... 'Z'] = C_NAME, ['\\'] = C_BAD,
    ['_'] = C_NAME,         ['`'] = C_BAD,
    ['a' ... 'z'] = C_NAME, [0x7f ... 255] = C_BAD, /* other bytes are marks */
};

static enum class class_of(const struct ptx *p, uint32_t at) {
    return at < p->len ? (enum class)classes[(uint8_t)p->text[at]] : C_SPACE;
}

/* Skips the comment that begins at this '/'. False if none begins. */
static bool skip_comment(struct ptx *p)
{
    const char *from = p->text + p->at, *end = p->text + p->len;
    if (end - from < 2)
        return false;
    if (from[1] == '/') {
        const char *nl = memchr(from, '\n', (size_t)(end - from));
        p->at = (uint32_t)((nl != NULL ? nl : end) - p->text);
        return true;
    }
    if (from[1] != '*')
        return false;
    const char *close = memmem(from + 2, (size_t)(end - from - 2), "*/", 2);
    if (close == NULL)
        ptx_fail(p, WARM_ETRUNCATED, p->at, "a comment is not closed");
    p->at = close != NULL ? (uint32_t)(close + 2 - p->text) : p->len;
    return true;
}

static void skip_blanks(struct ptx *p)
{
    for (;;) {
        while (p->at < p->len && classes[(uint8_t)p->text[p->at]] == C_SPACE)
            p->at++;
        if (p->at == p->len || p->text[p->at] != '/' || !skip_comment(p))
            return;
    }
}

/* Returns the end of a name, a number or a word that begins with a dot. */
static uint32_t word_end(const struct ptx *p, uint32_t at, bool dots, bool colons)
{
    for (;;) {
        while (at < p->len && (classes[(uint8_t)p->text[at]] == C_NAME ||
                               classes[(uint8_t)p->text[at]] == C_DIGIT))
            at++;
        if (dots && class_of(p, at) == C_DOT)
            at++;
        else if (colons && at + 2 < p->len && p->text[at] == ':' && p->text[at + 1] == ':')
            at += 2;
        else
            return at;
    }
}

static uint32_t string_end(struct ptx *p, uint32_t at)
{
    uint32_t begin = at++;
    while (at < p->len && p->text[at] != '"')
        at += p->text[at] == '\\' ? 2 : 1;
    if (at >= p->len) {
        ptx_fail(p, WARM_ETRUNCATED, begin, "a string is not closed");
        return p->len;
    }
    return at + 1;
}

struct token ptx_next(struct ptx *p)
{
    uint32_t before = p->at;
    skip_blanks(p);
    struct token t = {END, p->at, 0, p->at == before};
    if (p->at == p->len || p->rc < 0)
        return t;
    uint32_t end = p->at + 1;
    switch (class_of(p, p->at)) {
    case C_NAME:
        t.kind = NAME;
        end = word_end(p, end, false, false);
        break;
    case C_DIGIT:
        t.kind = NUMBER;
        end = word_end(p, end, true, false);
        break;
    case C_DOT:
        t.kind = class_of(p, end) == C_DIGIT ? NUMBER : DOT_WORD;
        end = word_end(p, end, false, true);
        break;
    case C_STRING:
        t.kind = STRING;
        end = string_end(p, p->at);
        break;
    case C_BAD: ptx_give_up(p, "characters that PTX does not have"); return t;
    default: t.kind = MARK; break;
    }
    t.len = end - p->at;
    p->at = end;
    return t;
}

struct token ptx_peek(struct ptx *p)
{
    uint32_t at = p->at;
    struct token t = ptx_next(p);
    p->at = at;
    return t;
}
