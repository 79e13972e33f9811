/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scan.c - the lowest level of the MLIR text reader: words, strings, brackets, types and white
 * space of a slice, the place of an error, and the caches of texts. All files of this folder call
 * it.
 *
 * A cache maps a slice to a number (canon/names.h), so that the reader does not read equal text twice.
 *
 * Thread: any; the state is the caller's.
 */
#include "keygen/mlir/internal.h"

#include <stdlib.h>
#include <string.h>

enum {
    C_SPACE = 1,
    C_WORD = 2,
    C_ID = 4,
    C_MARK = 8, /* walk looks at these for every `stop` */
    C_PLAIN = 16,
    C_COMMA = 32,
    C_COLON = 64,
    C_LINE = 128,
};

/* clang-format off */
const uint8_t slice_classes[256] = {
    [' '] = C_SPACE, ['\t'] = C_SPACE, ['\n'] = C_SPACE | C_LINE, ['\r'] = C_SPACE,
    ['0' ... '9'] = C_WORD | C_PLAIN, ['A' ... 'Z'] = C_WORD | C_PLAIN,
    ['a' ... 'z'] = C_WORD | C_PLAIN,
    ['_'] = C_WORD, ['.'] = C_WORD, ['$'] = C_WORD, ['-'] = C_ID, [':'] = C_COLON, [','] = C_COMMA,
    ['('] = C_MARK, [')'] = C_MARK, ['['] = C_MARK, [']'] = C_MARK, ['{'] = C_MARK, ['}'] = C_MARK,
    ['<'] = C_MARK, ['>'] = C_MARK, ['"'] = C_MARK, ['/'] = C_MARK,
};
/* clang-format on */

static bool is(char c, uint8_t classes) { return slice_classes[(uint8_t)c] & classes; }

bool mlir_fail(struct mlir *m, const char *at, int code, const char *what)
{
    if (m->code)
        return false;
    m->code = code;
    if (at >= m->end && code == WARM_EMALFORMED)
        m->code = WARM_ETRUNCATED;
    err_set(m->e, m->code, "%s", m->code == code ? what : "the text ends in the middle");
    if (!m->e)
        return false;
    const char *line = m->begin;
    m->e->line = 1;
    for (const char *p = m->begin; p < at && p < m->end; p++)
        if (*p == '\n') {
            m->e->line++;
            line = p + 1;
        }
    m->e->column = (unsigned)(at - line) + 1;
    return false;
}

void slice_skip_slow(struct slice *s)
{
    const char *p = s->at, *end = s->end;
    for (;;) {
        while (p < end && is(*p, C_SPACE))
            p++;
        if (end - p < 2 || p[0] != '/' || p[1] != '/')
            break;
        const char *line = memchr(p, '\n', (size_t)(end - p));
        p = line ? line + 1 : end;
    }
    s->at = p;
}

static struct slice run(struct slice *s, uint8_t classes)
{
    struct slice word = {s->at, s->at};
    while (word.end < s->end && is(*word.end, classes))
        word.end++;
    s->at = word.end;
    return word;
}

struct slice slice_word(struct slice *s)
{
    slice_skip(s);
    return run(s, C_WORD);
}

struct slice slice_id(struct slice *s) { return run(s, C_WORD | C_ID); }

bool slice_take_word(struct slice *s, const char *word)
{
    struct slice ahead = *s;
    slice_skip(&ahead);
    while (ahead.at < ahead.end && *ahead.at == *word && *word) {
        ahead.at++;
        word++;
    }
    if (*word || (ahead.at < ahead.end && is(*ahead.at, C_WORD)))
        return false;
    s->at = ahead.at;
    return true;
}

struct slice slice_string(struct slice *s)
{
    const char *from = s->at + 1;
    while (from < s->end) {
        const char *quote = memchr(from, '"', (size_t)(s->end - from));
        if (!quote)
            break;
        size_t escapes = 0;
        while (quote - escapes > s->at + 1 && quote[-1 - (ptrdiff_t)escapes] == '\\')
            escapes++;
        if (escapes % 2 == 0) {
            struct slice string = {s->at, quote + 1};
            s->at = quote + 1;
            return string;
        }
        from = quote + 1;
    }
    s->at = s->end;
    return (struct slice){s->end, s->end};
}

/* Returns the bracket that closes the first one if `stop` is 0, else the first `stop` outside of
 * brackets. "->", ">=" and "<=" are no brackets. */
static const char *walk(struct slice s, char stop)
{
    const unsigned marks = C_MARK | (slice_classes[(uint8_t)stop] & (C_COMMA | C_COLON | C_LINE));
    size_t depth = 0;
    const char *p = s.at;
    for (;;) {
        while (s.end - p > 1 &&
               !((slice_classes[(uint8_t)p[0]] | slice_classes[(uint8_t)p[1]]) & marks))
            p += 2;
        if (p < s.end && !(slice_classes[(uint8_t)*p] & marks))
            p++;
        if (p == s.end)
            return p;
        char c = *p;
        if (c == stop && depth == 0)
            return p;
        switch (c) {
        case '(':
        case '[':
        case '{': depth++; break;
        case '<':
            if (p + 1 == s.end || p[1] != '=')
                depth++;
            break;
        case '>':
            if ((p + 1 < s.end && p[1] == '=') || (p > s.at && p[-1] == '-'))
                break;
            /* fall through */
        case ')':
        case ']':
        case '}':
            if (depth == 0)
                return p; /* closes a bracket from before the slice: also an end */
            if (--depth == 0 && !stop)
                return p;
            break;
        case '"': {
            struct slice string = {p, s.end};
            slice_string(&string);
            p = string.at;
            continue;
        }
        case '/': {
            struct slice comment = {p, s.end};
            slice_skip(&comment);
            if (comment.at > p) {
                if (depth == 0 && stop == '\n')
                    return comment.at < s.end ? comment.at - 1 : s.end;
                p = comment.at;
                continue;
            }
            break;
        }
        default: break;
        }
        p++;
    }
}

const char *slice_close(struct slice s) { return walk(s, 0); }

const char *slice_find(struct slice s, char stop) { return walk(s, stop); }

const char *slice_tensor(struct slice s)
{
    const char *p = s.at + 7;
    if (!slice_begins(s, "tensor<"))
        return NULL;
    while (p < s.end && slice_is_plain(*p))
        p++;
    return p < s.end && *p == '>' ? p + 1 : NULL;
}

struct slice slice_type(struct slice *s)
{
    slice_skip(s);
    struct slice type = {s->at, slice_tensor(*s)};
    if (type.end) {
        s->at = type.end;
        return type;
    }
    if (s->at < s->end && *s->at == '(') { /* a function type */
        const char *close = slice_close(*s);
        s->at = close < s->end ? close + 1 : s->end;
        struct slice ahead = *s;
        slice_skip(&ahead);
        if (ahead.end - ahead.at > 1 && ahead.at[0] == '-' && ahead.at[1] == '>') {
            ahead.at += 2;
            slice_skip(&ahead);
            close = ahead.at < ahead.end && *ahead.at == '(' ? slice_close(ahead) + 1 : NULL;
            if (!close) {
                run(&ahead, C_WORD);
                if (ahead.at < ahead.end && *ahead.at == '<')
                    close = slice_close(ahead) + 1;
            }
            s->at = close && close <= s->end ? close : ahead.at;
        }
        type.end = s->at;
        return type;
    }
    if (s->at < s->end && *s->at == '!')
        s->at++;
    run(s, C_WORD);
    if (s->at < s->end && *s->at == '<') {
        const char *close = slice_close(*s);
        s->at = close < s->end ? close + 1 : s->end;
    }
    type.end = s->at;
    return type;
}

void slice_trim(struct slice *s)
{
    slice_skip(s);
    while (s->end > s->at && is(s->end[-1], C_SPACE))
        s->end--;
}

struct slice mlir_keep_copy(struct mlir *m, struct slice text)
{
    const char *kept = graph_keep(m->g, text.at, slice_len(text));
    return kept ? (struct slice){kept, kept + slice_len(text)} : text;
}

/* ---- caches ---- */

void cache_add(struct mlir *m, struct names *c, uint32_t tag, struct slice text, uint32_t hash,
               uint32_t value)
{
    if (slice_len(text) > UINT32_MAX)
        return; /* the reader reads such a text each time */
    text = mlir_keep(m, text);
    m->failed |= !names_put(c, tag, text.at, slice_len(text), hash, value);
}
