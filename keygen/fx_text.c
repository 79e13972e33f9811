/* SPDX-License-Identifier: Apache-2.0 */
/* fx_text.c - the tokens, names and devices of FX graph code; fx_internal.h. No state. */
#include "keygen/fx_internal.h"

#include <stdlib.h>

/* --- failing --- */

void fx_fail(struct fx *f, int code, uint32_t at, const char *what)
{
    unsigned line = 1, column = 1;
    if (f->rc < 0)
        return;
    f->rc = code;
    for (uint32_t i = 0; i < at && i < f->len; i++) {
        column = f->text[i] == '\n' ? 1 : column + 1;
        line += f->text[i] == '\n';
    }
    err_set(f->e, code, "FX: %s", what);
    if (f->e != NULL) {
        f->e->line = line;
        f->e->column = column;
    }
}

void fx_give_up(struct fx *f, const char *why)
{
    if (f->rc < 0)
        return;
    f->rc = WARM_EUNSUPPORTED;
    f->out->why_exact = why;
}

bool fx_grow(struct fx *f, void **array, uint32_t *cap, uint32_t n, size_t size)
{
    if (n < *cap)
        return true;
    uint32_t more = *cap == 0 ? 64 : *cap + *cap / 2;
    void *moved = more > *cap ? realloc(*array, (size_t)more * size) : NULL;
    if (moved == NULL) {
        fx_fail(f, WARM_ENOMEM, 0, "no memory for its nodes");
        return false;
    }
    *array = moved;
    *cap = more;
    return true;
}

/* --- tokens of Python --- */

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (uint8_t)c >= 0x80;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static uint32_t string_end(struct fx *f, uint32_t at)
{
    char quote = f->text[at];
    uint32_t begin = at++;
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
        if (!is_name_char(c) && !is_digit(c) && c != '.' && !sign)
            break;
    }
    return at;
}

/* Blanks and comments; line ends inside brackets. False at a line end that counts. */
bool fx_skip_blanks(struct fx *f)
{
    while (f->at < f->len) {
        char c = f->text[f->at];
        if (c == '\n' && f->parens == 0)
            return false;
        if (c == '#') {
            const char *nl = memchr(f->text + f->at, '\n', f->len - f->at);
            f->at = nl != NULL ? (uint32_t)(nl - f->text) : f->len;
        } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
            f->at++;
        } else {
            return true;
        }
    }
    return true;
}

struct token fx_next(struct fx *f)
{
    bool inside = fx_skip_blanks(f);
    struct token t = {END, f->at, 0};
    if (f->at == f->len || f->rc < 0)
        return t;
    char c = f->text[f->at];
    uint32_t end = f->at + 1;
    if (!inside) {
        t.kind = LINE;
    } else if (is_name_char(c)) {
        t.kind = NAME;
        while (end < f->len && (is_name_char(f->text[end]) || is_digit(f->text[end])))
            end++;
    } else if (is_digit(c) || (c == '.' && end < f->len && is_digit(f->text[end]))) {
        t.kind = NUMBER;
        end = number_end(f, f->at);
    } else if (c == '"' || c == '\'') {
        t.kind = STRING;
        end = string_end(f, f->at);
    } else if (c == '\\' || (uint8_t)c < ' ' || c == 0x7f) {
        fx_give_up(f, "characters that FX graph code does not have");
        return t;
    } else {
        t.kind = MARK;
        f->parens += (c == '(' || c == '[' || c == '{') - (c == ')' || c == ']' || c == '}');
        if (f->parens < 0)
            fx_fail(f, WARM_EMALFORMED, f->at, "a bracket closes that was not opened");
    }
    t.len = end - f->at;
    f->at = end;
    return t;
}

struct token fx_peek(struct fx *f)
{
    uint32_t at = f->at;
    int parens = f->parens;
    struct token t = fx_next(f);
    f->at = at;
    f->parens = parens;
    return t;
}

/* --- names --- */

uint64_t fx_mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

uint64_t fx_hash_bytes(uint64_t h, const char *s, uint32_t len)
{
    uint64_t w = 0;
    for (; len >= 8; s += 8, len -= 8) {
        memcpy(&w, s, 8);
        h = fx_mix(h, w);
    }
    for (w = len; len > 0; len--)
        w = w << 8 | (uint8_t)s[len - 1];
    return fx_mix(h, w);
}

static uint32_t name_hash(const struct fx *f, struct token t)
{
    return (uint32_t)(fx_hash_bytes(t.len, f->text + t.at, t.len) >> 32);
}

static struct name *find_name(const struct fx *f, struct token t, uint32_t hash)
{
    uint32_t mask = f->cap_names - 1;
    for (uint32_t i = hash & mask;; i = (i + 1) & mask) {
        struct name *n = &f->names[i];
        if (n->len == 0 || (n->hash == hash && n->len == t.len &&
                            memcmp(f->text + n->at, f->text + t.at, t.len) == 0))
            return n;
    }
}

static bool grow_names(struct fx *f)
{
    uint32_t cap = f->cap_names == 0 ? 256 : f->cap_names * 2, old_cap = f->cap_names;
    struct name *old = f->names;
    struct name *names = calloc(cap, sizeof *names);
    if (names == NULL) {
        fx_fail(f, WARM_ENOMEM, 0, "no memory for its names");
        return false;
    }
    f->names = names;
    f->cap_names = cap;
    for (uint32_t i = 0; i < old_cap; i++)
        if (old[i].len != 0)
            *find_name(f, (struct token){NAME, old[i].at, old[i].len}, old[i].hash) = old[i];
    free(old);
    return true;
}

/* From here on the name stands for `node` (NONE: for nothing). */
void fx_set_name(struct fx *f, struct token t, uint32_t node)
{
    if (f->n_names * 2 >= f->cap_names && !grow_names(f))
        return;
    uint32_t hash = name_hash(f, t);
    struct name *n = find_name(f, t, hash);
    f->n_names += n->len == 0;
    *n = (struct name){t.at, t.len, hash, node};
}

uint32_t fx_get_name(const struct fx *f, struct token t)
{
    if (f->cap_names == 0)
        return NONE;
    const struct name *n = find_name(f, t, name_hash(f, t));
    return n->len == 0 ? NONE : n->node;
}

/* --- types --- */

/* "f32[2, 3][3, 1]cuda:0": where the device begins; 0 if it is no tensor; NONE if the stride or the
 * device is missing. */
uint32_t fx_type_device(const char *type, uint32_t len)
{
    uint32_t at = 0;
    int groups = 0;

    while (at < len && (is_name_char(type[at]) || is_digit(type[at])))
        at++;
    if (at == 0 || at == len || type[at] != '[')
        return 0;
    while (at < len && type[at] == '[') {
        int depth = 0;
        do {
            depth += (type[at] == '[') - (type[at] == ']');
            at++;
        } while (at < len && depth > 0);
        groups++;
    }
    return groups == 2 && at < len ? at : NONE;
}

/* A bit for each index, one for none, and two at once for an index of several digits: it is then
 * kept. */
static uint64_t device_bit(const char *digits, uint32_t len)
{
    if (len == 0)
        return 1;
    return len == 1 && is_digit(digits[0]) ? 2u << (digits[0] - '0') : 3u << 11;
}

/* Adds what index `device` ("cuda:0") has to *indices; devices that have none by nature are not
 * counted. */
static void note_device(const char *device, uint32_t len, uint64_t *indices)
{
    const char *colon = memchr(device, ':', len);
    uint32_t kind = colon != NULL ? (uint32_t)(colon - device) : len;
    if ((kind == 3 && memcmp(device, "cpu", 3) == 0) ||
        (kind == 4 && memcmp(device, "meta", 4) == 0))
        return;
    *indices |= colon != NULL ? device_bit(colon + 1, len - kind - 1) : device_bit(NULL, 0);
}

/* A string is a device if it is "cuda:0", "xpu:12" and the like; the length of its kind, or 0. */
static uint32_t device_string(const char *s, uint32_t len)
{
    uint32_t kind = 0, at;
    while (kind < len && s[kind] >= 'a' && s[kind] <= 'z')
        kind++;
    if (kind == 0 || kind + 1 >= len || s[kind] != ':')
        return 0;
    for (at = kind + 1; at < len && is_digit(s[at]); at++)
        ;
    return at == len ? kind : 0;
}

/* Which device indices does the text name? In types, in device(type='cuda', index=0), in strings.
 */
void fx_scan_devices(struct fx *f)
{
    uint64_t indices = 0;
    struct token t, before = {END, 0, 0}, name = {END, 0, 0};

    for (t = fx_next(f); f->rc == 0 && t.kind != END; t = fx_next(f)) {
        const char *s = f->text + t.at + 1;
        uint32_t len = t.len < 2 ? 0 : t.len - 2;
        if (t.kind == STRING) {
            uint32_t at = fx_type_device(s, len);
            if (at != 0 && at != NONE)
                note_device(s + at, len - at, &indices);
            else if (device_string(s, len) != 0)
                note_device(s, len, &indices);
            else if (fx_is_mark(f, before, '=') && fx_is(f, name, "type") &&
                     !fx_is_mark(f, fx_peek(f), ','))
                note_device(s, len, &indices);
        } else if (t.kind == NUMBER && fx_is_mark(f, before, '=') && fx_is(f, name, "index")) {
            indices |= device_bit(f->text + t.at, t.len);
        }
        if (before.kind == NAME)
            name = before;
        before = t;
    }
    f->keep_index = (indices & (indices - 1)) != 0;
    f->at = 0;
    if (f->rc == 0 && f->parens != 0)
        fx_fail(f, WARM_ETRUNCATED, f->len, "a bracket is not closed");
    f->parens = 0;
}

/* The part of a quoted text that counts: without a device's index where only one is used. */
uint32_t fx_string_len(const struct fx *f, const char *s, uint32_t len)
{
    uint32_t at = fx_type_device(s, len), kind = device_string(s, len);
    const char *colon = at != 0 && at != NONE ? memchr(s + at, ':', len - at)
                        : kind != 0           ? s + kind
                                              : NULL;
    return colon != NULL && !f->keep_index ? (uint32_t)(colon - s) : len;
}

uint64_t fx_hash_token(const struct fx *f, uint64_t hash, struct token t, bool is_index)
{
    if (t.kind == STRING)
        return fx_hash_bytes(hash, f->text + t.at + 1,
                             fx_string_len(f, f->text + t.at + 1, t.len - 2));
    return is_index && !f->keep_index ? hash : fx_hash_bytes(hash, f->text + t.at, t.len);
}
