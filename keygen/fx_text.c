/* SPDX-License-Identifier: Apache-2.0 */
/* fx_text.c - the tokens, names and devices of FX graph code; fx_internal.h. No state. */
#include "keygen/fx_internal.h"

#include <stdlib.h>

#include "keygen/vector.h"

/* --- failing --- */

void fx_fail(struct fx *f, int code, uint32_t at, const char *what)
{
    if (f->rc < 0)
        return;
    f->rc = err_set(f->e, code, "FX: %s", what);
    err_place(f->e, f->text, f->len, at);
}

void fx_give_up(struct fx *f, const char *why)
{
    if (f->rc < 0)
        return;
    f->rc = WARM_EUNSUPPORTED;
    f->out->why_exact = why;
}

bool fx_grow(struct fx *f, void *array_at, uint32_t *cap, uint32_t n, size_t size)
{
    bool failed = false;
    if (n < *cap || vector_grow(&failed, array_at, cap, n, size))
        return true;
    fx_fail(f, WARM_ENOMEM, 0, "no memory for its nodes");
    return false;
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
    [0 ... 8] = C_BAD, [11 ... 31] = C_BAD,     ['\t'] = C_BLANK,       ['\n'] = C_LINE,
    [' '] = C_BLANK,   ['#'] = C_COMMENT,       ['"'] = C_QUOTE,        ['\''] = C_QUOTE,
    ['.'] = C_DOT,     ['0' ... '9'] = C_DIGIT, ['A' ... 'Z'] = C_NAME, ['a' ... 'z'] = C_NAME,
    ['_'] = C_NAME,    ['('] = C_OPEN,          ['['] = C_OPEN,         ['{'] = C_OPEN,
    [')'] = C_CLOSE,   [']'] = C_CLOSE,         ['}'] = C_CLOSE,        ['\\'] = C_BAD,
    [0x7f] = C_BAD,    [0x80 ... 255] = C_NAME,
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
bool fx_skip_blanks(struct fx *f)
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

static struct token read_token(struct fx *f)
{
    bool inside = fx_skip_blanks(f);
    uint32_t at = f->at, end = at + 1;
    struct token t = {END, at, 0};
    if (at == f->len || f->rc < 0)
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
    t.len = end - at;
    f->at = end;
    return t;
}

struct token fx_next(struct fx *f)
{
    const struct peeked *p = &f->peeked;
    if (p->end != 0 && p->at == f->at && p->parens == f->parens && f->rc == 0) {
        f->at = p->end;
        f->parens = p->parens_after;
        return p->token;
    }
    return read_token(f);
}

struct token fx_peek(struct fx *f)
{
    uint32_t at = f->at;
    int parens = f->parens;
    struct token t = fx_next(f);
    f->peeked = (struct peeked){t, at, f->at, parens, f->parens};
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

static struct name *find_name(const struct fx *f, const struct fx_names *names, struct token t,
                              uint32_t hash)
{
    uint32_t mask = names->cap - 1;
    for (uint32_t i = hash & mask;; i = (i + 1) & mask) {
        struct name *n = &names->slots[i];
        if (n->len == 0 || (n->hash == hash && n->len == t.len &&
                            memcmp(f->text + n->at, f->text + t.at, t.len) == 0))
            return n;
    }
}

static bool grow_names(struct fx *f, struct fx_names *names)
{
    struct fx_names more = {.n = names->n, .cap = names->cap == 0 ? 256 : names->cap * 2};
    more.slots = calloc(more.cap, sizeof *more.slots);
    if (more.slots == NULL) {
        fx_fail(f, WARM_ENOMEM, 0, "no memory for its names");
        return false;
    }
    for (uint32_t i = 0; i < names->cap; i++) {
        const struct name *old = &names->slots[i];
        if (old->len != 0)
            *find_name(f, &more, (struct token){NAME, old->at, old->len}, old->hash) = *old;
    }
    free(names->slots);
    *names = more;
    return true;
}

void fx_set_name(struct fx *f, struct fx_names *names, struct token t, uint32_t value)
{
    if (names->n * 2 >= names->cap && !grow_names(f, names))
        return;
    uint32_t hash = name_hash(f, t);
    struct name *n = find_name(f, names, t, hash);
    names->n += n->len == 0;
    *n = (struct name){t.at, t.len, hash, value};
}

uint32_t fx_get_name(const struct fx *f, const struct fx_names *names, struct token t)
{
    if (names->cap == 0)
        return NONE;
    const struct name *n = find_name(f, names, t, name_hash(f, t));
    return n->len == 0 ? NONE : n->value;
}

/* --- types and devices --- */

struct fx_type fx_read_type(const char *type, uint32_t len)
{
    struct fx_type t = {.device = NONE, .end = len};
    uint32_t at = fx_word_end(type, 0, len);
    int groups = 0;

    if (at > 0 && at < len && type[at] == '(' && type[len - 1] == ')') {
        t.wrapper = at;
        t.dtype = at + 1;
        t.end = len - 1;
        at = fx_word_end(type, t.dtype, t.end);
    }
    t.is_tensor = at > t.dtype && at < t.end && type[at] == '[';
    while (at < t.end && type[at] == '[') {
        int depth = 0;
        do {
            depth += (type[at] == '[') - (type[at] == ']');
            at++;
        } while (at < t.end && depth > 0);
        groups++;
    }
    if (t.is_tensor && groups == 2 && at < t.end)
        t.device = at;
    return t;
}

/* The number at *at, which moves behind it and what parts it from the next; NONE if there is none. */
static uint32_t size_next(const char *type, uint32_t *at)
{
    uint32_t size = NONE;
    while (is_digit(type[*at]) && (size == NONE || size < NONE / 100))
        size = (size == NONE ? 0 : size * 10) + (uint32_t)(type[(*at)++] - '0');
    while (type[*at] == ',' || type[*at] == ' ')
        ++*at;
    return size;
}

bool fx_lies_in_rows(const char *type, uint32_t len)
{
    uint32_t sizes[8], n = 0;
    struct fx_type t = fx_read_type(type, len);
    if (t.device == NONE || t.wrapper)
        return false;
    uint32_t at = fx_word_end(type, t.dtype, len) + 1;
    while (n < COUNT(sizes) && (sizes[n] = size_next(type, &at)) != NONE)
        n++;
    if (type[at] != ']' || type[at + 1] != '[')
        return false;
    uint32_t strides[COUNT(sizes)], m = 0;
    for (at += 2; m < n && (strides[m] = size_next(type, &at)) != NONE; m++)
        continue;
    if (m != n || at + 1 != t.device)
        return false;
    uint64_t row = 1;
    for (uint32_t i = n; i-- > 0;) {
        if (strides[i] == 0)
            continue;
        if (strides[i] != row)
            return false;
        row *= sizes[i]; /* fits: a stride is a row, and neither has more than 32 bits */
    }
    return true;
}

bool fx_is_symbol(const char *word, uint32_t len)
{
    return len >= 2 && (word[0] == 's' || word[0] == 'u') && is_digit(word[1]) &&
           fx_word_end(word, 1, len) == len && is_digit(word[len - 1]);
}

uint32_t fx_find_symbol(const char *s, uint32_t from, uint32_t len, uint32_t *out_len)
{
    for (uint32_t at = from; at < len; at++) {
        uint32_t end = fx_word_end(s, at, len);
        bool is_dtype = end < len && s[end] == '['; /* u8[2] */
        *out_len = end - at;
        if (!is_dtype && fx_is_symbol(s + at, end - at))
            return at;
        at = end > at ? end - 1 : at;
    }
    return len;
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
    static const char *const kinds[] = {"cuda", "xpu", "mps", "mtia",
                                        "hpu",  "npu", "xla", "privateuseone"};
    const char *colon = memchr(s, ':', len);
    uint32_t kind = colon != NULL ? (uint32_t)(colon - s) : 0, at;
    for (at = kind + 1; at < len && is_digit(s[at]); at++)
        ;
    if (kind == 0 || at != len || at == kind + 1)
        return 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strlen(kinds[i]) == kind && memcmp(s, kinds[i], kind) == 0)
            return kind;
    return 0;
}

/* A quoted text: a type, or a device, or what stands behind `type=`. */
static void note_string(const char *s, uint32_t len, bool is_type_word, uint64_t *indices)
{
    struct fx_type type = fx_read_type(s, len);
    if (type.device != NONE)
        note_device(s + type.device, type.end - type.device, indices);
    else if (is_type_word || device_string(s, len) != 0)
        note_device(s, len, indices);
}

/* Is the '=' at this place that of `word=`, blanks aside? */
static bool is_value_of(const struct fx *f, uint32_t at, const char *word)
{
    size_t len = strlen(word);
    while (at > 0 && f->text[at - 1] == ' ')
        at--;
    return at >= len && memcmp(f->text + at - len, word, len) == 0 &&
           (at == len || !is_word_char(f->text[at - len - 1]));
}

/* index=0 */
static void note_index(const struct fx *f, uint32_t at, uint64_t *indices)
{
    uint32_t from = at + 1;
    while (fx_char_at(f, from) == ' ')
        from++;
    if (is_digit(fx_char_at(f, from)) && is_value_of(f, at, "index"))
        *indices |= device_bit(f->text + from, number_end(f, from) - from);
}

/* Which device indices does the text name? In types, in device(type='cuda', index=0), in strings. */
void fx_scan_devices(struct fx *f)
{
    uint64_t indices = 0;
    uint32_t equals = NONE; /* the last '=' with nothing behind it but blanks */

    while (f->at < f->len && f->rc == 0) {
        uint32_t at = f->at++, end;
        switch (class_of(f->text[at])) {
        case C_NAME:
        case C_DIGIT: f->at = fx_word_end(f->text, f->at, f->len); break;
        case C_BLANK: continue;
        case C_COMMENT:
            f->at = at;
            skip_comment(f);
            continue;
        case C_QUOTE:
            f->at = end = string_end(f, at);
            if (f->rc == 0)
                note_string(f->text + at + 1, end - at - 2,
                            equals != NONE && is_value_of(f, equals, "type") &&
                                fx_char_at(f, end) != ',',
                            &indices);
            break;
        case C_OPEN: f->parens++; break;
        case C_CLOSE: f->parens--; break;
        case C_MARK:
            if (f->text[at] == '=') {
                note_index(f, at, &indices);
                equals = at;
                continue;
            }
            break;
        default: break;
        }
        if (f->parens < 0)
            fx_fail(f, WARM_EMALFORMED, at, "a bracket closes that was not opened");
        equals = NONE;
    }
    f->keep_index = (indices & (indices - 1)) != 0;
    f->keep_order = indices != 0;
    if (f->rc == 0 && f->parens != 0)
        fx_fail(f, WARM_ETRUNCATED, f->len, "a bracket is not closed");
    f->at = 0;
    f->parens = 0;
    f->tag_len = 0;
}

uint32_t fx_device_len(const struct fx *f, const char *s, uint32_t len)
{
    uint32_t kind = f->keep_index ? 0 : device_string(s, len);
    return kind != 0 ? kind : len;
}

uint64_t fx_hash_token(const struct fx *f, uint64_t hash, struct token t, bool is_index)
{
    const char *s = f->text + t.at;
    if (t.kind == STRING)
        return fx_hash_bytes(hash, s + 1, fx_device_len(f, s + 1, t.len - 2));
    if (fx_is_symbol(s, t.len) || (is_index && !f->keep_index))
        return hash;
    return fx_hash_bytes(hash, s, t.len);
}
