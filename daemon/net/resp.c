/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resp.c - parses commands of RESP and writes replies.
 *
 * A command is parsed from its start each time bytes come. That is cheap, because long arguments are not in
 * the buffer. redis.c, long.c and answer.c call it.
 *
 * Thread: any; no state.
 */
#include "daemon/net/resp.h"

#include <assert.h>
#include <string.h>

/* ---- the cursor: each step returns 1, 0 (more bytes are needed) or an error ---- */

struct resp_cursor {
    const uint8_t *data;
    size_t len, at;
};

/* Takes the line at the cursor without its line end; the cursor moves behind it. */
static int resp_line(struct resp_cursor *c, struct view *out, struct err *e)
{
    const uint8_t *start = c->data + c->at;
    size_t left = c->len - c->at;
    const uint8_t *end = left ? memchr(start, '\n', left) : NULL;
    size_t len = end ? (size_t)(end - start) : left;
    if (len > RESP_LINE_MAX)
        return err_set(e, WARM_ETOO_BIG, "line longer than %u bytes", RESP_LINE_MAX);
    if (!end)
        return 0;
    c->at += len + 1;
    if (len && start[len - 1] == '\r')
        len--;
    *out = (struct view){start, len};
    return 1;
}

static bool resp_number(struct view text, int64_t *out)
{
    const char *p = text.data;
    size_t len = text.len;
    bool negative = len && *p == '-';
    if (negative)
        p++, len--;
    if (len == 0 || len > 18)
        return false;
    int64_t n = 0;
    for (size_t i = 0; i < len; i++) {
        if (p[i] < '0' || p[i] > '9')
            return false;
        n = n * 10 + (p[i] - '0');
    }
    *out = negative ? -n : n;
    return true;
}

/* Takes the usual header in one pass: `mark`, up to nine digits, CRLF. False for any other, and for
 * an incomplete one. */
static bool resp_header_usual(struct resp_cursor *c, char mark, int64_t *out)
{
    const uint8_t *p = c->data + c->at;
    size_t left = c->len - c->at, i = 1;
    int64_t n = 0;
    if (left < 4 || *p != mark)
        return false;
    for (size_t most = left - 2 < 10 ? left - 2 : 10; i < most && p[i] >= '0' && p[i] <= '9'; i++)
        n = n * 10 + (p[i] - '0');
    if (i == 1 || p[i] != '\r' || p[i + 1] != '\n')
        return false;
    c->at += i + 2;
    *out = n;
    return true;
}

static int resp_header_any(struct resp_cursor *c, char mark, int64_t *out, struct err *e)
{
    struct view line;
    int rc = resp_line(c, &line, e);
    if (rc <= 0)
        return rc;
    const char *text = line.data;
    if (line.len == 0 || *text != mark)
        return err_set(e, WARM_EMALFORMED, "expected '%c', got '%c'", mark,
                       line.len && *text > ' ' && *text < 0x7f ? *text : '?');
    if (!resp_number((struct view){text + 1, line.len - 1}, out) || *out < -1)
        return err_set(e, WARM_EMALFORMED, "invalid length after '%c'", mark);
    return 1;
}

/* Takes a line of `mark` and a number from -1 to `max`. */
static int resp_header(struct resp_cursor *c, char mark, int64_t max, int64_t *out, struct err *e)
{
    int rc = resp_header_usual(c, mark, out) ? 1 : resp_header_any(c, mark, out, e);
    if (rc > 0 && *out > max)
        return err_set(e, WARM_ETOO_BIG, "length after '%c' above %lld", mark, (long long)max);
    return rc;
}

/* ---- commands ---- */

static int resp_bulk(struct resp_cursor *c, unsigned *spills_left, struct resp_command *out,
                     struct err *e)
{
    int64_t len;
    int rc = resp_header(c, '$', (int64_t)RESP_BULK_MAX, &len, e);
    if (rc <= 0)
        return rc;
    if (len < 0)
        return err_set(e, WARM_EMALFORMED, "a command has no null arguments");
    struct resp_arg *arg = &out->args[out->n_args];
    if (len >= (int64_t)RESP_SPILL_MIN) {
        if (*spills_left == 0) {
            out->spill_at = c->at;
            out->spill_len = (uint64_t)len;
            return 0;
        }
        --*spills_left;
        *arg = (struct resp_arg){NULL, (uint64_t)len};
    } else {
        if (c->len - c->at < (size_t)len + 2)
            return 0;
        *arg = (struct resp_arg){c->data + c->at, (uint64_t)len};
        if (memcmp(c->data + c->at + len, "\r\n", 2) != 0)
            return err_set(e, WARM_EMALFORMED, "no line end after an argument");
        c->at += (size_t)len + 2;
    }
    out->n_args++;
    return 1;
}

static int resp_multi(struct resp_cursor *c, unsigned n_spilled, struct resp_command *out,
                      struct err *e)
{
    int64_t n;
    int rc = resp_header(c, '*', RESP_ARGS_MAX, &n, e);
    for (int64_t i = 0; rc > 0 && i < n; i++)
        rc = resp_bulk(c, &n_spilled, out, e);
    if (rc == 0 && out->spill_len == 0 && c->len > RESP_COMMAND_MAX)
        return err_set(e, WARM_ETOO_BIG, "command longer than %u bytes", RESP_COMMAND_MAX);
    return rc;
}

/* Splits an inline command at its white space. */
static int resp_inline(struct resp_cursor *c, struct resp_command *out, struct err *e)
{
    struct view line;
    int rc = resp_line(c, &line, e);
    if (rc <= 0)
        return rc;
    const uint8_t *p = line.data, *end = p + line.len;
    while (p < end) {
        if (*p == ' ' || *p == '\t') {
            p++;
            continue;
        }
        const uint8_t *word = p;
        while (p < end && *p != ' ' && *p != '\t')
            p++;
        if (out->n_args == RESP_ARGS_MAX)
            return err_set(e, WARM_ETOO_BIG, "more than %u arguments", RESP_ARGS_MAX);
        out->args[out->n_args++] = (struct resp_arg){word, (uint64_t)(p - word)};
    }
    return 1;
}

long resp_parse(const void *data, size_t len, unsigned n_spilled, struct resp_command *out,
                struct err *e)
{
    assert(n_spilled <= RESP_SPILLS_MAX);
    struct resp_cursor c = {data, len, 0};
    out->n_args = 0;
    out->spill_at = 0;
    out->spill_len = 0;
    if (len == 0)
        return 0;
    int rc = *c.data == '*' ? resp_multi(&c, n_spilled, out, e) : resp_inline(&c, out, e);
    return rc > 0 ? (long)c.at : rc;
}

/* ---- arguments ---- */

static uint8_t lower(uint8_t c) { return c >= 'A' && c <= 'Z' ? c | 0x20 : c; }

bool resp_arg_is(const struct resp_arg *arg, const char *text)
{
    size_t i = 0;
    if (!arg->data)
        return false;
    while (i < arg->len && text[i] && lower(arg->data[i]) == lower((uint8_t)text[i]))
        i++;
    return i == arg->len && !text[i];
}

bool resp_arg_number(const struct resp_arg *arg, int64_t *out)
{
    return arg->data && resp_number((struct view){arg->data, arg->len}, out);
}

/* Matches a class such as [a-z] or [^x] at *p, which moves behind it. */
static bool glob_class(const uint8_t **p, const uint8_t *end, uint8_t c)
{
    const uint8_t *at = *p + 1;
    bool negated = at < end && *at == '^', found = false;
    if (negated)
        at++;
    for (; at < end && *at != ']'; at++) {
        if (*at == '\\' && at + 1 < end)
            found |= *++at == c;
        else if (end - at > 2 && at[1] == '-' && at[2] != ']') {
            bool swapped = at[0] > at[2]; /* as Redis reads it */
            found |= at[swapped ? 2 : 0] <= c && c <= at[swapped ? 0 : 2];
            at += 2;
        } else
            found |= *at == c;
    }
    *p = at < end ? at + 1 : end;
    return found != negated;
}

/* Matches a pattern. A mismatch goes back to the last star only: earlier stars need no second
 * try. */
bool resp_glob(struct view pattern, struct view name)
{
    const uint8_t *p = pattern.data, *p_end = p + pattern.len;
    const uint8_t *s = name.data, *s_end = s + name.len;
    const uint8_t *star = NULL, *star_s = NULL;
    while (s < s_end) {
        const uint8_t *next = p;
        bool match = false;
        if (p < p_end && *p == '*') {
            star = ++p;
            star_s = s;
            continue;
        }
        if (p < p_end && *p == '[')
            match = glob_class(&next, p_end, *s);
        else if (p < p_end) {
            if (*p == '\\' && p + 1 < p_end)
                next++;
            match = (*p == '?') || *next == *s;
            next++;
        }
        if (match) {
            p = next;
            s++;
        } else if (star) {
            p = star;
            s = ++star_s;
        } else {
            return false;
        }
    }
    while (p < p_end && *p == '*')
        p++;
    return p == p_end;
}

/* ---- replies ---- */

/* Writes mark, number and CRLF: without printf, since every reply has one. */
static void resp_put_header(struct writer *w, char mark, int64_t n)
{
    char text[24];
    size_t at = sizeof text;
    uint64_t rest = n < 0 ? 0 - (uint64_t)n : (uint64_t)n;
    text[--at] = '\n';
    text[--at] = '\r';
    do
        text[--at] = (char)('0' + rest % 10);
    while (rest /= 10);
    if (n < 0)
        text[--at] = '-';
    text[--at] = mark;
    writer_bytes(w, text + at, sizeof text - at);
}

void resp_put_status(struct writer *w, const char *text)
{
    writer_u8(w, '+');
    writer_bytes(w, text, strlen(text));
    resp_put_crlf(w);
}

void resp_put_error(struct writer *w, const char *text)
{
    writer_u8(w, '-');
    for (; *text; text++)
        writer_u8(w, *text == '\r' || *text == '\n' ? ' ' : (uint8_t)*text);
    resp_put_crlf(w);
}

void resp_put_number(struct writer *w, int64_t n) { resp_put_header(w, ':', n); }

void resp_put_bulk(struct writer *w, const void *data, size_t len)
{
    resp_put_bulk_head(w, len);
    writer_bytes(w, data, len);
    resp_put_crlf(w);
}

void resp_put_bulk_head(struct writer *w, uint64_t len) { resp_put_header(w, '$', (int64_t)len); }

void resp_put_crlf(struct writer *w) { writer_bytes(w, "\r\n", 2); }

void resp_put_text(struct writer *w, const char *text) { resp_put_bulk(w, text, strlen(text)); }

void resp_put_null(struct writer *w, unsigned version)
{
    if (version >= 3)
        writer_bytes(w, "_\r\n", 3);
    else
        writer_bytes(w, "$-1\r\n", 5);
}

void resp_put_array(struct writer *w, size_t n) { resp_put_header(w, '*', (int64_t)n); }

void resp_put_map(struct writer *w, size_t n, unsigned version)
{
    resp_put_header(w, version >= 3 ? '%' : '*', (int64_t)(version >= 3 ? n : 2 * n));
}
