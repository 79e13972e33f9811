/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_reader.c - looks values up in JSON from the daemon or from another program's cache. The
 * commands stats, why and doctor, `warm run --report` and the formats of cache folders call it.
 *
 * Thread: any; no state.
 */
#include "client/cli/json_reader.h"

#include <stdlib.h>
#include <string.h>

#include "keygen/shown.h"

/* The rest of the text. */
struct scan {
    const char *at, *end;
};

static struct scan scan_over(struct view v)
{
    const char *text = v.data;
    return (struct scan){text, text + v.len};
}

static void skip_space(struct scan *s)
{
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\n' || *s->at == '\t' || *s->at == '\r'))
        s->at++;
}

static bool take(struct scan *s, char c)
{
    skip_space(s);
    if (s->at == s->end || *s->at != c)
        return false;
    s->at++;
    return true;
}

/* Skips a string: begins on its quote, ends behind the closing one. */
static bool skip_string(struct scan *s)
{
    for (s->at++; s->at < s->end; s->at++) {
        if (*s->at == '\\')
            s->at++;
        else if (*s->at == '"')
            return s->at++, true;
    }
    s->at = s->end;
    return false;
}

/* Skips a value with all that is nested in it; counts brackets, and does not match them. */
static bool skip_value(struct scan *s, struct view *out)
{
    skip_space(s);
    const char *from = s->at;
    size_t depth = 0;
    while (s->at < s->end) {
        char c = *s->at;
        if (depth == 0 && s->at > from &&
            (c == ',' || c == ']' || c == '}' || c == ' ' || c == '\n'))
            break;
        if (c == '"') {
            if (!skip_string(s))
                return false;
        } else {
            depth += c == '{' || c == '[';
            depth -= (c == '}' || c == ']') && depth > 0;
            s->at++;
        }
        if (depth == 0 && (c == '"' || c == '}' || c == ']'))
            break;
    }
    *out = (struct view){from, (size_t)(s->at - from)};
    return depth == 0 && s->at > from;
}

static bool next_member(struct scan *s, bool first, struct view *out_name, struct view *out)
{
    if (!take(s, first ? '{' : ','))
        return false;
    skip_space(s);
    const char *from = s->at;
    if (s->at == s->end || *s->at != '"' || !skip_string(s))
        return false;
    *out_name = (struct view){from + 1, (size_t)(s->at - from) - 2};
    return take(s, ':') && skip_value(s, out);
}

bool json_reader_member(struct view object, size_t i, struct view *out_name, struct view *out)
{
    struct scan s = scan_over(object);
    for (size_t n = 0; next_member(&s, n == 0, out_name, out); n++)
        if (n == i)
            return true;
    return false;
}

bool json_reader_item(struct view array, size_t i, struct view *out)
{
    struct scan s = scan_over(array);
    for (size_t n = 0; take(&s, n == 0 ? '[' : ','); n++) {
        if (!skip_value(&s, out) || ((const char *)out->data)[0] == ']')
            return false;
        if (n == i)
            return true;
    }
    return false;
}

bool json_reader_next(struct view *rest, struct view *out)
{
    struct scan s = scan_over(*rest);
    if ((!take(&s, '[') && !take(&s, ',')) || !skip_value(&s, out) ||
        ((const char *)out->data)[0] == ']')
        return false;
    *rest = (struct view){s.at, (size_t)(s.end - s.at)};
    return true;
}

bool json_reader_find(struct view object, const char *path, struct view *out)
{
    size_t len = strcspn(path, ".");
    struct scan s = scan_over(object);
    struct view name, value;
    for (bool first = true; next_member(&s, first, &name, &value); first = false) {
        if (name.len != len || memcmp(name.data, path, len) != 0)
            continue;
        if (path[len] == '.')
            return json_reader_find(value, path + len + 1, out);
        *out = value;
        return true;
    }
    return false;
}

bool json_reader_number(struct view value, double *out)
{
    char text[40];
    char *end;
    if (value.len == 0 || value.len >= sizeof text)
        return false;
    memcpy(text, value.data, value.len);
    text[value.len] = '\0';
    *out = strtod(text, &end);
    return *end == '\0';
}

unsigned long long json_reader_count(struct view object, const char *path)
{
    struct view value;
    double n;
    if (!json_reader_find(object, path, &value) || !json_reader_number(value, &n) || n < 0)
        return 0;
    return (unsigned long long)n;
}

/* Returns the 4 digits of \u as a number; 0 if they are missing. */
static unsigned unescape_digits(const char *text, size_t len)
{
    char digits[5] = "";
    char *end;
    if (len < 4)
        return 0;
    memcpy(digits, text, 4);
    unsigned long code = strtoul(digits, &end, 16);
    return *end ? 0 : (unsigned)code;
}

static void append(char *out, size_t cap, size_t *n, unsigned char byte)
{
    if (*n + 1 < cap)
        out[(*n)++] = (char)byte;
}

/* Appends a character as UTF-8; '?' for those that a line cannot show, and for halves of surrogate
 * pairs. */
static void append_code(char *out, size_t cap, size_t *n, unsigned code)
{
    if (!shown_is_plain(code) || (code >= 0xd800 && code < 0xe000)) {
        append(out, cap, n, '?');
    } else if (code < 0x80) {
        append(out, cap, n, (unsigned char)code);
    } else if (code < 0x800) {
        append(out, cap, n, (unsigned char)(0xc0 | code >> 6));
        append(out, cap, n, (unsigned char)(0x80 | (code & 0x3f)));
    } else {
        append(out, cap, n, (unsigned char)(0xe0 | code >> 12));
        append(out, cap, n, (unsigned char)(0x80 | (code >> 6 & 0x3f)));
        append(out, cap, n, (unsigned char)(0x80 | (code & 0x3f)));
    }
}

void json_reader_text(struct view value, char *out, size_t cap)
{
    const char *text = value.data;
    size_t n = 0;
    bool quoted = value.len >= 2 && text[0] == '"';
    size_t end = value.len - quoted;
    for (size_t i = quoted; i < end; i++) {
        if (text[i] != '\\' || i + 1 == end) {
            append(out, cap, &n, (unsigned char)text[i]);
        } else if (text[++i] == 'u') {
            append_code(out, cap, &n, unescape_digits(text + i + 1, end - i - 1));
            i += end - i - 1 < 4 ? end - i - 1 : 4;
        } else {
            append(out, cap, &n, strchr("bfnrt", text[i]) ? '?' : (unsigned char)text[i]);
        }
    }
    out[shown_clean(out, n)] =
        '\0'; /* bytes that stand for themselves, and a character that was cut */
}

void json_reader_copy(struct view object, const char *path, char *out, size_t cap)
{
    struct view value;
    *out = '\0';
    if (json_reader_find(object, path, &value))
        json_reader_text(value, out, cap);
}

bool json_reader_is(struct view object, const char *path, const char *json)
{
    struct view value;
    return json_reader_find(object, path, &value) && view_is(value, json);
}
