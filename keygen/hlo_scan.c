/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hlo_scan.c - HLO text into words, values and fields, and tables of the names in it.
 * Nothing recurses: a value is scanned with a count of its brackets. No state but the caller's.
 */
#define XXH_INLINE_ALL
#include "keygen/hlo_internal.h"
#include "keygen/vector.h"

#include <stdlib.h>
#include <string.h>

#define NAME_START 256u /* slots that a table of names begins with, a power of two */

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

bool hlo_starts_with(const struct hlo *h, uint32_t at, const char *text)
{
    size_t len = strlen(text);
    return h->len - at >= len && memcmp(h->base + at, text, len) == 0;
}

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

bool hlo_take_byte(struct hlo *h, char c)
{
    hlo_skip_blank(h);
    if (h->at >= h->len || h->base[h->at] != c)
        return false;
    h->at++;
    return true;
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

/* ---- tables of names ---- */

/* Names are mostly a word and a number, "add.123", and their neighbours in the text have neighbours in the
 * table: eight numbers of a word share the eight slots of a cache line. */
static uint32_t hash_bytes(const char *s, uint32_t len)
{
    uint32_t word = len, number = 0;
    while (word && len - word < 9 && s[word - 1] >= '0' && s[word - 1] <= '9')
        word--;
    for (uint32_t i = word; i < len; i++)
        number = number * 10 + (uint32_t)(s[i] - '0');
    uint64_t hash = (XXH3_64bits(s, word) ^ number >> 3) * 0x9E3779B97F4A7C15u;
    return (uint32_t)(hash >> 32 & ~(uint64_t)7) | (number & 7);
}

/* The slot of a name, or the empty one where it would be. */
static uint64_t *names_slot(const struct hlo *h, const struct names *t, struct span name,
                            uint32_t hash)
{
    for (uint32_t i = hash & (t->n_slots - 1);; i = (i + 1) & (t->n_slots - 1)) {
        uint64_t *s = &t->slots[i];
        if (!*s)
            return s;
        if (*s >> 32 != hash)
            continue;
        struct span have = t->entries[(uint32_t)*s - 1].name;
        if (have.len == name.len && memcmp(h->base + have.at, h->base + name.at, name.len) == 0)
            return s;
    }
}

/* Keeps at most three of four slots in use, so that a search always ends. */
static bool names_reserve(struct hlo *h, struct names *t)
{
    if (!hlo_grow(h, &t->entries, t->n_entries, &t->cap_entries, sizeof *t->entries))
        return false;
    if (t->n_slots && t->n_entries < t->n_slots / 4 * 3)
        return true;
    uint32_t n_slots = t->n_slots ? t->n_slots * 2 : NAME_START;
    uint64_t *slots = n_slots ? vector_zeroes(n_slots, sizeof *slots) : NULL;
    if (!slots) {
        hlo_fail(h, WARM_ENOMEM, h->at, "out of memory");
        return false;
    }
    for (uint32_t e = 0; e < t->n_entries; e++) {
        uint32_t i = t->entries[e].hash & (n_slots - 1);
        while (slots[i])
            i = (i + 1) & (n_slots - 1);
        slots[i] = (uint64_t)t->entries[e].hash << 32 | (e + 1);
    }
    free(t->slots);
    t->slots = slots;
    t->n_slots = n_slots;
    return true;
}

void hlo_names_clear(struct names *t)
{
    for (uint32_t e = 0; e < t->n_entries; e++) {
        uint32_t i = t->entries[e].hash & (t->n_slots - 1);
        while ((uint32_t)t->slots[i] != e + 1)
            i = (i + 1) & (t->n_slots - 1);
        t->slots[i] = 0;
    }
    t->n_entries = 0;
}

void hlo_names_close(struct names *t)
{
    free(t->entries);
    free(t->slots);
}

/* False if the name is there already. */
bool hlo_names_add(struct hlo *h, struct names *t, struct span name, uint32_t value)
{
    if (!names_reserve(h, t))
        return true;
    uint32_t hash = hash_bytes(h->base + name.at, name.len);
    uint64_t *s = names_slot(h, t, name, hash);
    if (*s)
        return false;
    t->entries[t->n_entries++] = (struct name_entry){name, hash, value};
    *s = (uint64_t)hash << 32 | t->n_entries;
    return true;
}

/* The value of a name, or GRAPH_NONE. */
uint32_t hlo_names_find(const struct hlo *h, const struct names *t, struct span name)
{
    if (!t->n_slots)
        return GRAPH_NONE;
    uint64_t s = *names_slot(h, t, name, hash_bytes(h->base + name.at, name.len));
    return s ? t->entries[(uint32_t)s - 1].value : GRAPH_NONE;
}

uint32_t hlo_word_kind(struct hlo *h, struct names *known, struct span word,
                       uint32_t (*compute)(const struct hlo *, struct span))
{
    uint32_t kind = hlo_names_find(h, known, word);
    if (kind == GRAPH_NONE) {
        kind = compute(h, word);
        hlo_names_add(h, known, word, kind);
    }
    return kind;
}

struct computation *hlo_computation_of(struct hlo *h, struct span name)
{
    uint32_t i = hlo_names_find(h, &h->computed_names, name);
    if (i != GRAPH_NONE)
        return &h->computations[i];
    if (!hlo_grow(h, &h->computations, h->n_computations, &h->cap_computations,
                  sizeof *h->computations))
        return NULL;
    i = h->n_computations++;
    h->computations[i] = (struct computation){
        .name = name, .symbol = graph_symbol(h->g, h->base + name.at, name.len)};
    hlo_names_add(h, &h->computed_names, name, i);
    return &h->computations[i];
}

uint32_t hlo_axis_of(const struct hlo *h, struct span name)
{
    for (uint32_t i = 0; i < h->n_axes; i++)
        if (h->axes[i].len == name.len &&
            memcmp(h->base + h->axes[i].at, h->base + name.at, name.len) == 0)
            return i;
    return GRAPH_NONE;
}
