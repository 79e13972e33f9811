/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hlo_scan.c - HLO text into words, values and fields.
 * Nothing recurses: a value is scanned with a count of its brackets. No state but the caller's.
 */
#include "keygen/hlo_internal.h"

#include <stdlib.h>
#include <string.h>

/* clang-format off */
const uint8_t hlo_classes[256] = {
    ['('] = OPEN, ['['] = OPEN, ['{'] = OPEN, [')'] = CLOSE, [']'] = CLOSE, ['}'] = CLOSE,
    ['"'] = QUOTE, [','] = COMMA, [' '] = SPACE, ['\t'] = SPACE, ['\n'] = SPACE, ['\r'] = SPACE,
    ['/'] = SLASH, ['='] = OTHER, [':'] = OTHER, ['<'] = OTHER, ['>'] = OTHER,
};
/* clang-format on */

/* ---- errors ---- */

int hlo_fail(struct hlo *h, int code, uint32_t at, const char *what)
{
    if (h->code)
        return h->code;
    h->code = err_set(h->e, code, "%s", what);
    err_place(h->e, h->base, h->len, at);
    return h->code;
}

/* At the end of the input what is missing was cut off; elsewhere it is wrong. */
int hlo_expected(struct hlo *h, const char *what)
{
    return hlo_fail(h, h->at >= h->len ? WARM_ETRUNCATED : WARM_EMALFORMED, h->at, what);
}

int hlo_unsupported(struct hlo *h, const char *why)
{
    if (!h->code)
        h->out->why_exact = why;
    return hlo_fail(h, WARM_EUNSUPPORTED, h->at, why);
}

/* Room for one more in an array that grows by half. */
bool hlo_grow(struct hlo *h, void *array, uint32_t n, uint32_t *cap, size_t size)
{
    if (n < *cap)
        return true;
    uint32_t more = *cap + *cap / 2 + 64;
    void *old;
    memcpy(&old, array, sizeof old);
    void *new = more > *cap ? realloc(old, more * size) : NULL;
    if (!new) {
        hlo_fail(h, WARM_ENOMEM, h->at, "out of memory");
        return false;
    }
    memcpy(array, &new, sizeof new);
    *cap = more;
    return true;
}

/* ---- bytes ---- */

/* The index after a comment that begins at `at`, or `at` itself if none does. */
uint32_t hlo_after_comment(struct hlo *h, uint32_t at)
{
    const char *from = h->base + at;
    if (hlo_starts_with(h, at, "/*")) {
        const char *end = memmem(from + 2, h->len - at - 2, "*/", 2);
        if (!end)
            hlo_fail(h, WARM_ETRUNCATED, at, "comment without end");
        return end ? (uint32_t)(end - h->base) + 2 : h->len;
    }
    if (hlo_starts_with(h, at, "//")) {
        const char *end = memchr(from, '\n', h->len - at);
        return end ? (uint32_t)(end - h->base) : h->len;
    }
    return at;
}

void hlo_skip_blank_slow(struct hlo *h)
{
    while (h->at < h->len) {
        enum byte_class c = hlo_class_of(h->base[h->at]);
        uint32_t next = c == SPACE ? h->at + 1 : c == SLASH ? hlo_after_comment(h, h->at) : h->at;
        if (next == h->at)
            return;
        h->at = next;
    }
}

/* The index after the string whose opening quote is at `at`. */
uint32_t hlo_after_string(struct hlo *h, uint32_t at)
{
    const char *from = h->base + at + 1, *end = h->base + h->len, *quote;
    while (from < end && (quote = memchr(from, '"', (size_t)(end - from)))) {
        const char *escape = memchr(from, '\\', (size_t)(quote - from));
        if (!escape)
            return (uint32_t)(quote - h->base) + 1;
        from = escape + 2; /* behind the escaped byte */
    }
    hlo_fail(h, WARM_ETRUNCATED, at, "string without end");
    return h->len;
}

/* Scans from h->at to the first byte outside of brackets that ends a value: white space or a
 * closing bracket always, a comma if `comma_ends`. Leaves h->at there. */
struct span hlo_take_value(struct hlo *h, bool comma_ends)
{
    const char *p = h->base + h->at, *end = h->base + h->len;
    uint32_t start = h->at, depth = 0;
    for (;;) {
        while (p < end && hlo_class_of(*p) <= OTHER)
            p++;
        if (p == end)
            break;
        enum byte_class c = hlo_class_of(*p);
        if (!depth && (c == SPACE || c == CLOSE || (c == COMMA && comma_ends)))
            break;
        depth += c == OPEN;
        depth -= c == CLOSE;
        if (c != QUOTE && c != SLASH) {
            p++;
            continue;
        }
        uint32_t at = (uint32_t)(p - h->base);
        uint32_t next = c == QUOTE ? hlo_after_string(h, at) : hlo_after_comment(h, at);
        p = h->base + (next > at ? next : at + 1);
        if (h->code)
            break;
    }
    uint32_t i = (uint32_t)(p - h->base);
    h->at = i;
    if (depth)
        hlo_fail(h, WARM_ETRUNCATED, start, "bracket without its partner");
    return (struct span){start, i - start};
}

struct span hlo_without_percent(const struct hlo *h, struct span name)
{
    if (name.len && h->base[name.at] == '%')
        return (struct span){name.at + 1, name.len - 1};
    return name;
}

bool hlo_in_braces(const struct hlo *h, struct span value)
{
    return value.len >= 2 && h->base[value.at] == '{';
}

bool hlo_key_in(const struct hlo *h, struct span key, const char *const *keys, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (h->base[key.at] == keys[i][0] && hlo_span_is(h, key, keys[i]))
            return true;
    return false;
}

/* True if the span is a decimal number of at most 17 digits. */
bool hlo_number_of(const struct hlo *h, struct span s, int64_t *out)
{
    int64_t n = 0;
    for (uint32_t i = 0; i < s.len; i++) {
        char c = h->base[s.at + i];
        if (c < '0' || c > '9' || i == 17)
            return false;
        n = n * 10 + (c - '0');
    }
    *out = n;
    return s.len > 0;
}

/* Calls `each` for every `name=value` of "{name=value, name=value}", separated by commas or spaces.
 */
void hlo_for_each_field(struct hlo *h, struct span braces,
                        void (*each)(struct hlo *, struct span, struct span))
{
    uint32_t at = h->at, end = braces.at + braces.len - 1;
    h->at = braces.at + 1;
    while (!h->code) {
        hlo_skip_blank(h);
        if (h->at >= end)
            break;
        if (h->base[h->at] == ',') {
            h->at++;
            continue;
        }
        struct span key = hlo_take_word(h), value = {h->at, 0};
        if (hlo_take_byte(h, '=')) {
            hlo_skip_blank(h);
            value = hlo_take_value(h, true);
        } else if (!key.len) {
            key = hlo_take_value(h, true);
        }
        if (!key.len && !value.len) {
            hlo_expected(h, "a field `name=value` was expected");
            break;
        }
        each(h, key, value);
    }
    h->at = at;
}
