/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tokens.c - cuts a dump into tokens and decides which white space between them stays. hlo.c
 * calls it for each token.
 *
 * Nothing recurses: brackets are counted.
 *
 * Thread: any; no state.
 */
#include "keygen/canon/tokens.h"

#include "keygen/expect.h"

int tokens_begin(struct tokens *t, const struct canon_input *input, struct form *out, struct err *e)
{
    t->text = input->data;
    t->out = out;
    t->e = e;
    if (input->len >= UINT32_MAX)
        return err_set(e, WARM_ETOO_BIG, "%s: 4 GiB and more are not read", t->language);
    t->len = (uint32_t)input->len;
    return 0;
}

void tokens_fail(struct tokens *t, int code, uint32_t at, const char *what)
{
    if (t->rc)
        return;
    t->rc = err_set(t->e, code, "%s: %s", t->language, what);
    err_place(t->e, t->text, t->len, at);
    t->now.kind = TOKEN_END;
}

void tokens_expected(struct tokens *t, const char *what)
{
    bool is_cut = t->now.at >= t->len;
    tokens_fail(t, is_cut ? WARM_ETRUNCATED : WARM_EMALFORMED, t->now.at, what);
}

/* Returns the offset behind the comment that begins at `at`; `at` if none does. */
static uint32_t comment_end(const struct tokens *t, uint32_t at)
{
    const char *from = t->text + at, *end = NULL;
    size_t left = t->len - at;
    char second = left > 1 ? from[1] : '\0';
    if (second != '*' && second != '/')
        return at;
    bool is_long = second == '*';
    end = is_long ? memmem(from + 2, left - 2, "*/", 2) : memchr(from, '\n', left);
    return end ? (uint32_t)(end - t->text) + (is_long ? 2 : 0) : t->len;
}

/* Returns the offset of the first byte at or behind `at` that is no white space or comment. */
static __attribute__((noinline)) uint32_t skip(const struct tokens *t, uint32_t at)
{
    for (; at < t->len; at++) {
        enum token_class c =
            at < t->len ? (enum token_class)t->classes[(uint8_t)t->text[at]] : CLASS_BAD;
        if (c < CLASS_BLANK || c == CLASS_BAD)
            break;
        if (c == CLASS_SLASH) {
            uint32_t end = comment_end(t, at);
            if (end == at)
                break;
            at = end - 1;
        }
    }
    return at;
}

static uint32_t string_end(struct tokens *t, uint32_t begin)
{
    const char *text = t->text, *end = text + t->len, *from = text + begin + 1, *quote;
    while (from < end && (quote = memchr(from, text[begin], (size_t)(end - from)))) {
        const char *escape = memchr(from, '\\', (size_t)(quote - from));
        if (!escape)
            return (uint32_t)(quote - text) + 1;
        from = escape + 2; /* behind the escaped byte */
    }
    tokens_fail(t, WARM_ETRUNCATED, begin, "a string without end");
    return t->len;
}

/* Reads the rarer tokens, from their first byte on. Returns the end. */
static __attribute__((noinline)) uint32_t other_end(struct tokens *t, enum token_class c)
{
    uint32_t at = t->now.at;
    t->now.kind = c == CLASS_QUOTE ? TOKEN_STRING : TOKEN_MARK;
    if (c == CLASS_QUOTE)
        return string_end(t, at);
    if (c == CLASS_CLOSE)
        tokens_fail(t, WARM_EMALFORMED, at, "a bracket closes that was not opened");
    if (c == CLASS_BAD)
        tokens_fail(t, WARM_EMALFORMED, at, "a character that such a text does not have");
    return at + 1;
}

void tokens_next(struct tokens *t)
{
    const char *text = t->text;
    const uint8_t *classes = t->classes;
    uint32_t len = t->len, at = t->at, end;
    at += at < len && text[at] == ' ';
    if (at < len && classes[(uint8_t)text[at]] > CLASS_QUOTE)
        at = skip(t, at);
    t->now = (struct token){at, 0, t->depth, TOKEN_END, at > t->at};
    t->at = at;
    if (at >= len && t->depth)
        tokens_fail(t, WARM_ETRUNCATED, at, "a bracket without its partner");
    if (at >= len || t->rc)
        return;
    enum token_class c = (enum token_class)classes[(uint8_t)text[at]];
    if (c == CLASS_WORD) {
        for (end = at + 1; end < len && classes[(uint8_t)text[end]] == CLASS_WORD;)
            end++;
        t->now.kind = TOKEN_WORD;
    } else if (c <= CLASS_CLOSE && (t->depth || c != CLASS_CLOSE)) {
        t->now.depth -= c == CLASS_CLOSE;
        t->depth = t->now.depth + (c == CLASS_OPEN);
        t->now.kind = TOKEN_MARK;
        end = at + 1;
    } else {
        end = other_end(t, c);
    }
    t->at = end;
    t->now.len = end - at;
}

/* ---- what a token is ---- */

static bool token_is(const struct tokens *t, const struct token *token, const char *text)
{
    return token->len && t->text[token->at] == *text && token->len == strlen(text) &&
           memcmp(t->text + token->at, text, token->len) == 0;
}

bool tokens_is(const struct tokens *t, const char *text) { return token_is(t, &t->now, text); }

bool tokens_in(const struct tokens *t, const struct token *token, const char *const *texts,
               size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (token_is(t, token, texts[i]))
            return true;
    return false;
}

uint32_t *tokens_number(struct tokens *t, struct names *names, struct token name, bool *out_new)
{
    uint32_t *number = names_add(names, t->text + name.at, name.len, out_new);
    if (!number)
        tokens_fail(t, WARM_ENOMEM, name.at, "no memory for its names");
    return number;
}

/* ---- into the form ---- */

static bool is_operator(char c) { return memchr("<>=&|!+-*/^~%@:", c, 15) != NULL; }

/* Puts the white space that counts: between two words, and between two marks that could make one. */
static inline void put_gap(struct tokens *t, const struct token *token)
{
    bool is_mark = token->kind == TOKEN_MARK;
    char first = t->text[token->at];
    if (token->spaced && (is_mark ? is_operator(t->last) && is_operator(first) : t->last == 'w'))
        form_put(t->out, " ", 1);
}

static void flush(struct tokens *t)
{
    form_put(t->out, t->text + t->put_from, t->put_to - t->put_from);
    t->put_from = t->put_to = 0;
}

void tokens_put(struct tokens *t, const struct token *token)
{
    if (t->rc || !token->len)
        return;
    if (token->at != t->put_to) {
        flush(t);
        put_gap(t, token);
        t->put_from = token->at;
    }
    t->put_to = token->at + token->len;
    t->last = token->kind == TOKEN_MARK ? t->text[token->at] : 'w';
}

void tokens_put_number(struct tokens *t, struct token token, char sign, uint32_t number)
{
    if (t->rc)
        return;
    flush(t);
    put_gap(t, &token);
    form_put(t->out, &sign, 1);
    form_put_u64(t->out, number);
    t->last = 'w';
}

void tokens_put_text(struct tokens *t, const char *text)
{
    flush(t);
    form_put_text(t->out, text);
    t->last = '\0';
}

void tokens_put_exact(struct tokens *t, uint32_t at, uint32_t end)
{
    flush(t);
    if (WARM_EXPECT(at <= end && end <= t->len))
        form_put(t->out, t->text + at, end - at);
    t->last = '\0';
}

int tokens_end(struct tokens *t)
{
    flush(t);
    return t->rc;
}
