/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dense.c - turns constants of MLIR text into the bytes of their elements. attr.c calls it for
 * "dense" and "dense_resource"; plain.c and pretty.c call it for constants that have a type
 * of their own.
 *
 * MLIR prints one constant in several ways: a list, a splat, or a string of hexadecimal digits.
 * Bytecode holds its bytes. The canonical spelling is the bytes:
 *
 *     dense<[1.0, 2.0]> : tensor<2xf32>      dense<0000803F00000040> : tensor<2xf32>
 *     dense<0x7FC00001> : tensor<8xf32>      dense<0100C07F> : tensor<8xf32>   a splat: one element
 *
 * Elements are little-endian. An i1, a narrow integer, and a float of 8, 6 or 4 bits take a byte
 * each. The file reads a number with a fraction as MLIR does: as a double, which it rounds to the
 * element's type, ties to even.
 *
 * Formats differ in the meaning of a number that is too large for a float of a byte. A constant
 * with such a number keeps MLIR's own tokens, and so does one of an unknown type (strings).
 *
 * Thread: any; the state is struct mlir.
 */
#include "keygen/mlir/internal.h"

#include <errno.h>
#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum element_kind { ELEMENT_INT, ELEMENT_FLOAT, ELEMENT_SMALL, ELEMENT_OTHER };

/* A float of a byte has a sign, an exponent and a fraction. */
struct small_float {
    const char *name;
    uint8_t bits, fraction, bias;
    uint8_t max;     /* bits of the largest number */
    bool minus_zero; /* the format has a -0 */
};

struct element {
    enum element_kind kind;
    unsigned bits;                   /* of one part */
    unsigned size;                   /* bytes of one part */
    unsigned parts;                  /* 2 for a complex number */
    unsigned exponent;               /* bits of a float's exponent */
    const struct small_float *small; /* of a float of a byte; else NULL */
    uint64_t count;                  /* elements; UINT64_MAX if unknown */
};

#define LITERAL_MAX 96 /* characters of a number */

static const char hex_digits[] = "0123456789ABCDEF";

/* ---- the type ---- */

static bool number_of(struct slice *s, uint64_t *out)
{
    const char *at = s->at;
    *out = 0;
    while (s->at < s->end && *s->at >= '0' && *s->at <= '9') {
        if (*out > UINT64_MAX / 10 - 1)
            return false;
        *out = *out * 10 + (uint64_t)(*s->at++ - '0');
    }
    return s->at > at;
}

/* Source: the OCP formats of 8 bits and the OCP microscaling formats; for all others LLVM's
 * APFloat.h. */
static const struct small_float small_floats[] = {
    {"f8E4M3FN", 8, 3, 7, 0x7E, true},        {"f8E5M2", 8, 2, 15, 0x7B, true},
    {"f8E4M3", 8, 3, 7, 0x77, true},          {"f8E3M4", 8, 4, 3, 0x6F, true},
    {"f8E4M3FNUZ", 8, 3, 8, 0x7F, false},     {"f8E5M2FNUZ", 8, 2, 16, 0x7F, false},
    {"f8E4M3B11FNUZ", 8, 3, 11, 0x7F, false}, {"f6E2M3FN", 6, 3, 1, 0x1F, true},
    {"f6E3M2FN", 6, 2, 3, 0x1F, true},        {"f4E2M1FN", 4, 1, 1, 0x07, true},
};

static void element_scalar(struct slice s, struct element *out)
{
    for (size_t i = 0; i < sizeof small_floats / sizeof *small_floats; i++)
        if (slice_is(s, small_floats[i].name)) {
            out->kind = ELEMENT_SMALL;
            out->bits = small_floats[i].bits;
            out->size = 1;
            out->small = &small_floats[i];
            return;
        }
    static const struct {
        const char *name;
        unsigned bits, exponent;
    } floats[] = {{"f32", 32, 8}, {"f64", 64, 11}, {"bf16", 16, 8}, {"f16", 16, 5}};
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++)
        if (slice_is(s, floats[i].name)) {
            out->kind = ELEMENT_FLOAT;
            out->bits = floats[i].bits;
            out->exponent = floats[i].exponent;
            out->size = out->bits / 8;
            return;
        }
    uint64_t bits = 0;
    if (slice_is(s, "index")) {
        bits = 64;
        s.at = s.end;
    } else {
        if (s.at < s.end && (*s.at == 'u' || *s.at == 's'))
            s.at++;
        if (s.at >= s.end || *s.at++ != 'i' || !number_of(&s, &bits))
            return;
    }
    if (s.at != s.end || bits < 1 || bits > 64)
        return;
    out->kind = ELEMENT_INT;
    out->bits = (unsigned)bits;
    out->size = bits <= 8 ? 1 : bits <= 16 ? 2 : bits <= 32 ? 4 : 8;
}

/* Reads the element type and the count of tensor<2x3xf32> or vector<...>. */
static struct element element_of(struct slice type)
{
    struct element e = {.kind = ELEMENT_OTHER, .parts = 1, .count = 1};
    struct slice word = slice_word(&type);
    if (!(slice_is(word, "tensor") || slice_is(word, "vector")) || !slice_take(&type, '<') ||
        type.end[-1] != '>')
        return e;
    type.end--;
    for (;;) {
        struct slice ahead = type;
        uint64_t dim;
        if (!number_of(&ahead, &dim) || ahead.at >= ahead.end || *ahead.at != 'x')
            break;
        if (dim && e.count > UINT64_MAX / 2 / dim)
            return e;
        e.count *= dim;
        type.at = ahead.at + 1;
    }
    if (slice_len(type) > 9 && memcmp(type.at, "complex<", 8) == 0) {
        e.parts = 2;
        type = (struct slice){type.at + 8, type.end - 1};
    }
    element_scalar(type, &e);
    if (e.count > UINT64_MAX / 64)
        e.kind = ELEMENT_OTHER;
    return e;
}

/* ---- one number ---- */

/* Rounds a double to a float of `bits` with `exponent` bits of exponent, ties to even. */
static uint64_t float_bits(double d, const struct element *e)
{
    uint64_t raw;
    memcpy(&raw, &d, sizeof raw);
    if (e->bits == 64)
        return raw;
    unsigned fraction = e->bits - 1 - e->exponent;
    int bias = (1 << (e->exponent - 1)) - 1, max = (1 << e->exponent) - 1;
    uint64_t sign = raw >> 63 << (e->bits - 1);
    int exponent = (int)(raw >> 52 & 0x7FF) - 1023 + bias;
    uint64_t mantissa = (raw & 0xFFFFFFFFFFFFFu) | (raw >> 52 & 0x7FF ? 1ull << 52 : 0);
    if ((raw >> 52 & 0x7FF) == 0x7FF)
        return sign | (uint64_t)max << fraction | (mantissa << 12 ? 1ull << (fraction - 1) : 0);
    unsigned drop = 52 - fraction;
    if (exponent <= 0) {
        drop += (unsigned)(1 - exponent);
        exponent = 0;
    }
    if (drop > 60)
        return sign;
    uint64_t kept = mantissa >> drop, rest = mantissa & ((1ull << drop) - 1);
    uint64_t half = 1ull << (drop - 1);
    kept += rest > half || (rest == half && kept & 1);
    /* the hidden bit carries into the exponent by itself */
    uint64_t out = exponent ? ((uint64_t)(exponent - 1) << fraction) + kept : kept;
    if (out >= (uint64_t)max << fraction)
        out = (uint64_t)max << fraction;
    return sign | out;
}

/* Rounds a double to a float of a byte, ties to even. False if the result is too large, or if it is
 * a -0 that the format does not have. */
static bool small_bits(double d, const struct small_float *f, uint64_t *out)
{
    int exponent, least = 1 - f->bias;
    double of = fabs(d), part = frexp(of, &exponent); /* of = part * 2^exponent, 1/2 <= part < 1 */
    if (!(part < 1))
        return false;
    exponent = exponent - 1 > least ? exponent - 1 : least;
    double scaled = ldexp(of, f->fraction - exponent); /* less than 2^(fraction + 1) */
    uint64_t kept = (uint64_t)scaled;
    double rest = scaled - (double)kept;
    kept += rest > 0.5 || (rest == 0.5 && kept & 1);
    /* the hidden bit carries into the exponent by itself */
    uint64_t bits = kept ? ((uint64_t)(exponent - least) << f->fraction) + kept : 0;
    *out = bits | (signbit(d) ? (uint64_t)1 << (f->bits - 1) : 0);
    return bits <= f->max && (bits || !signbit(d) || f->minus_zero);
}

/* Reads up to 18 digits at *text as a number and moves behind them. Returns their count; 0 if there
 * are more. */
static unsigned take_digits(const char **text, uint64_t *out)
{
    const char *p = *text, *first = p;
    uint64_t n = 0;
    while (*p >= '0' && *p <= '9' && p - first < 18)
        n = n * 10 + (uint64_t)(*p++ - '0');
    *text = p;
    *out = n;
    return *p >= '0' && *p <= '9' ? 0 : (unsigned)(p - first);
}

/* Replaces *out, or -*out if `negative`, by its bits as an element. False if the type has no such
 * number. */
static bool int_fits(bool negative, const struct element *e, uint64_t *out)
{
    if (e->bits == 1 && negative) /* both -1 and 1 mean true */
        negative = false;
    uint64_t max = e->bits < 64 ? (1ull << e->bits) - 1 : UINT64_MAX;
    if (*out > (negative ? max / 2 + 1 : max))
        return false; /* else two numbers would share a spelling */
    if (negative)
        *out = (0 - *out) & max;
    return true;
}

static bool parse_int(const char *text, const struct element *e, uint64_t *out)
{
    bool negative = *text == '-';
    text += negative;
    const char *behind = text;
    if (take_digits(&behind, out) && !*behind)
        return int_fits(negative, e, out);
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) {
        *out = *text == 't';
        return !negative && e->bits == 1;
    }
    char *end;
    errno = 0;
    *out = strtoull(text, &end, text[0] == '0' && text[1] == 'x' ? 16 : 10);
    return !*end && !errno && end > text && int_fits(negative, e, out);
}

#define EXACT_DIGITS 15 /* digits of a whole number that a double always holds */
#define EXACT_POWER 22  /* the power of ten up to which a double holds each */

/* Reads a number such as "-1.500000e-01". False if a double cannot hold its digits or its power of
 * ten exactly. Otherwise their product or quotient, rounded once, is the nearest double. Source:
 * Clinger, "How to read floating point numbers accurately" (1990). */
static bool parse_exact(const char *text, double *out)
{
    static const double powers[EXACT_POWER + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                                   1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                                   1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    uint64_t whole, fraction = 0, exponent = 0;
    bool negative = *text == '-', below = false;
    text += negative;
    unsigned before = take_digits(&text, &whole), behind = 0;
    if (!before || *text++ != '.' || !(behind = take_digits(&text, &fraction)) ||
        before + behind > EXACT_DIGITS)
        return false;
    if (*text == 'e' || *text == 'E') {
        below = text[1] == '-';
        text += text[1] == '-' || text[1] == '+' ? 2 : 1;
        unsigned digits = take_digits(&text, &exponent);
        if (!digits || exponent > EXACT_POWER)
            return false;
    }
    int power = (below ? -(int)exponent : (int)exponent) - (int)behind;
    if (FLT_EVAL_METHOD != 0 || *text || power < -EXACT_POWER || power > EXACT_POWER)
        return false;
    double d = (double)(whole * (uint64_t)powers[behind] + fraction);
    d = power < 0 ? d / powers[-power] : d * powers[power];
    *out = negative ? -d : d;
    return true;
}

static bool element_bits(double d, const struct element *e, uint64_t *out)
{
    if (e->kind == ELEMENT_SMALL)
        return small_bits(d, e->small, out);
    *out = float_bits(d, e);
    return true;
}

static bool parse_float(struct mlir *m, const char *text, const struct element *e, uint64_t *out)
{
    double d;
    if (text[0] == '0' && text[1] == 'x') {
        char *end;
        errno = 0;
        *out = strtoull(text, &end, 16);
        return !*end && !errno;
    }
    if (parse_exact(text, &d))
        return element_bits(d, e, out);
    if (!m->c_locale)
        m->c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!m->c_locale)
        return false;
    char *end;
    d = strtod_l(text, &end, (locale_t)m->c_locale);
    if (*end || end == text || isnan(d))
        return false;
    return element_bits(d, e, out);
}

/* Reads the literal at s->at and appends the bytes of one part to m->bytes. */
static bool put_part(struct mlir *m, struct slice *s, const struct element *e)
{
    char text[LITERAL_MAX];
    slice_skip(s);
    const char *at = s->at;
    while (s->at < s->end && (slice_id_goes_on(*s->at) || *s->at == '+'))
        s->at++;
    size_t len = (size_t)(s->at - at);
    if (!len || len >= sizeof text)
        return false;
    memcpy(text, at, len);
    text[len] = '\0';
    uint64_t v;
    if (!(e->kind == ELEMENT_INT ? parse_int(text, e, &v) : parse_float(m, text, e, &v)))
        return false;
    unsigned room = e->kind == ELEMENT_SMALL ? e->bits : 8 * e->size;
    if (room < 64 && v >> room)
        return false;
    for (unsigned i = 0; i < e->size; i++)
        writer_u8(&m->bytes, (uint8_t)(v >> 8 * i));
    return true;
}

/* ---- all of them ---- */

/* Reads the literals of `body` into m->bytes. It ignores brackets, because the shape says how lists
 * nest. */
static bool read_list(struct mlir *m, struct slice body, const struct element *e)
{
    m->bytes.len = 0;
    while (slice_skip(&body), body.at < body.end) {
        char c = *body.at;
        if (c == '[' || c == ']' || c == ',') {
            body.at++;
        } else if (e->parts == 2 && c == '(') {
            body.at++;
            if (!put_part(m, &body, e) || !slice_take(&body, ',') || !put_part(m, &body, e) ||
                !slice_take(&body, ')'))
                return false;
        } else if (e->parts == 2 || !put_part(m, &body, e)) {
            return false;
        }
    }
    return !m->bytes.failed;
}

/* Unpacks bits, eight elements a byte, into a byte for each element. */
static void unpack_bits(struct mlir *m, struct slice hex, uint64_t count)
{
    m->bytes.len = 0;
    if (!MLIR_EXPECT(m, slice_len(hex) / 2 == (count + 7) / 8))
        return;
    for (uint64_t i = 0; i < count; i++) {
        char c = hex.at[i / 8 * 2 + (i % 8 < 4)];
        unsigned nibble = c <= '9' ? (unsigned)(c - '0') : (unsigned)((c | 32) - 'a' + 10);
        writer_u8(&m->bytes, nibble >> i % 4 & 1);
    }
}

static bool repeats(const void *data, size_t len, size_t unit)
{
    return len > unit && memcmp((const char *)data + unit, data, len - unit) == 0;
}

static void put_bytes(struct mlir *m, const struct element *e, unsigned flags)
{
    size_t unit = (size_t)e->size * e->parts;
    size_t len = repeats(m->bytes.data, m->bytes.len, unit) ? unit : m->bytes.len;
    const uint8_t *bytes = m->bytes.data;
    char text[512];
    while (len) {
        size_t n = len < sizeof text / 2 ? len : sizeof text / 2;
        for (size_t i = 0; i < n; i++) {
            text[2 * i] = hex_digits[bytes[i] >> 4];
            text[2 * i + 1] = hex_digits[bytes[i] & 15];
        }
        mlir_emit(m, flags, text, 2 * n);
        bytes += n;
        len -= n;
    }
}

/* Writes digits in upper case. Borrows the text if it has no lower case. */
static void put_digits(struct mlir *m, struct slice hex, unsigned flags)
{
    bool lower = false;
    for (const char *p = hex.at; p < hex.end && !lower; p++)
        lower = *p >= 'a';
    if (!lower && !(flags & ATTR_TYPE)) {
        if (slice_len(hex) >= GRAPH_BORROWED)
            hex = mlir_keep(m, hex);
        graph_dict_borrow(m->g, hex.at, slice_len(hex));
        return;
    }
    for (const char *p = hex.at; p < hex.end; p++) {
        char c = *p >= 'a' && *p <= 'f' ? (char)(*p - 32) : *p;
        mlir_emit(m, flags, &c, 1);
    }
}

static bool all_hex(struct slice hex)
{
    for (const char *p = hex.at; p < hex.end; p++)
        if (!((*p >= '0' && *p <= '9') || (*p >= 'A' && *p <= 'F') || (*p >= 'a' && *p <= 'f')))
            return false;
    return true;
}

/* Writes a string of digits. False if they do not fill the type. */
static bool put_string(struct mlir *m, struct slice hex, const struct element *e, unsigned flags)
{
    uint64_t unit = 2ull * e->size * e->parts, len = slice_len(hex);
    if (!all_hex(hex))
        return false;
    if (e->kind == ELEMENT_INT && e->bits == 1) {
        uint64_t packed = (e->count + 7) / 8 * 2;
        if (len == packed && (e->count > 1 || (hex.at[0] != '0' || hex.at[1] > '1'))) {
            unpack_bits(m, hex, e->count);
            put_bytes(m, e, flags);
            return true;
        }
    }
    if (len == unit || (len == e->count * unit && repeats(hex.at, len, unit)))
        hex.end = hex.at + unit;
    else if (len != e->count * unit)
        return false;
    put_digits(m, hex, flags);
    return true;
}

/* Writes the text between the brackets into the open value. */
static bool put_body(struct mlir *m, struct slice body, const struct element *e, unsigned flags)
{
    slice_trim(&body);
    struct slice quoted = body;
    bool string = body.at < body.end && *body.at == '"' && slice_string(&quoted).end == body.end;
    if (e->kind == ELEMENT_OTHER)
        return mlir_attr(m, body, flags & ATTR_TYPE);
    if (string && slice_len(body) >= 4 && memcmp(body.at, "\"0x", 3) == 0) {
        if (!put_string(m, (struct slice){body.at + 3, body.end - 1}, e, flags))
            return mlir_fail(m, body.at, WARM_EMALFORMED, "a constant does not fill its type");
        return true;
    }
    if (slice_is(body, "..."))
        return mlir_fail(m, body.at, WARM_EREFUSED,
                         "a constant is elided: print constants in full "
                         "(--xla_dump_large_constants, no --mlir-elide-elementsattrs-if-larger)");
    if (!read_list(m, body, e)) {
        if (m->bytes.failed)
            m->failed = true;
        if (e->kind == ELEMENT_SMALL && memchr(body.at, '.', slice_len(body)))
            return mlir_attr(m, body, flags & ATTR_TYPE);
        return mlir_fail(m, body.at, WARM_EMALFORMED, "a constant does not fit its type");
    }
    uint64_t unit = (uint64_t)e->size * e->parts;
    if (m->bytes.len != unit * e->count && m->bytes.len != unit && m->bytes.len)
        return mlir_fail(m, body.at, WARM_EMALFORMED, "a constant does not fill its type");
    put_bytes(m, e, flags);
    return true;
}

/* ---- resources ---- */

/* Reads the pairs name: "0x…" of {-# dialect_resources: { builtin: { … } } #-}. */
static void resources_read(struct mlir *m)
{
    m->resources_read = true;
    const char *open = memmem(m->s.at, (size_t)(m->end - m->s.at), "{-#", 3);
    if (!open)
        return;
    struct slice s = {open + 3, m->end};
    if (!slice_take_word(&s, "dialect_resources") || !slice_take(&s, ':') || !slice_take(&s, '{') ||
        !slice_take_word(&s, "builtin") || !slice_take(&s, ':') || !slice_take(&s, '{'))
        return;
    do {
        struct slice name = slice_word(&s);
        if (name.at == name.end && s.at < s.end && *s.at == '"')
            name = slice_string(&s);
        if (!slice_take(&s, ':'))
            return;
        slice_skip(&s);
        if (s.at >= s.end || *s.at != '"')
            return;
        uint32_t hash;
        struct slice value = slice_string(&s);
        if (cache_find(&m->resources, 0, name, &hash) == GRAPH_NONE) {
            PUSH(m, m->resource_values, value);
            cache_add(m, &m->resources, 0, name, hash, m->resource_values.n - 1);
        }
    } while (slice_take(&s, ',') && !m->failed);
}

#define RESOURCE_HEAD 11 /* "0x and eight digits of alignment */

static bool put_resource(struct mlir *m, struct slice name, const struct element *e, unsigned flags)
{
    uint32_t hash;
    if (!m->resources_read)
        resources_read(m);
    slice_trim(&name);
    uint32_t i = cache_find(&m->resources, 0, name, &hash);
    struct slice value = i == GRAPH_NONE ? (struct slice){0} : m->resource_values.at[i];
    if (i == GRAPH_NONE || slice_len(value) < RESOURCE_HEAD + 1 || memcmp(value.at, "\"0x", 3) != 0)
        return mlir_fail(m, name.at, WARM_EREFUSED,
                         "dense_resource without its data: print resources in full "
                         "(no --mlir-elide-resource-strings-if-larger)");
    struct slice hex = {value.at + RESOURCE_HEAD, value.end - 1};
    if (e->kind == ELEMENT_OTHER) {
        mlir_emit(m, flags, value.at, slice_len(value));
        return true;
    }
    return put_string(m, hex, e, flags) ||
           mlir_fail(m, name.at, WARM_EMALFORMED, "a resource does not fill its type");
}

/* Writes "dense<HEX> : type" from the text in the brackets and the type's own spelling. */
static bool put_dense(struct mlir *m, struct slice body, struct slice type, bool resource,
                      unsigned flags)
{
    struct element e = element_of(type);
    if (!MLIR_EXPECT(m, e.kind == ELEMENT_OTHER || (e.size - 1 < 8 && e.parts - 1 < 2)))
        return false;
    mlir_emit(m, flags, "dense<", 6);
    if (!(resource ? put_resource(m, body, &e, flags) : put_body(m, body, &e, flags)))
        return false;
    mlir_emit(m, flags, "> : ", 4);
    mlir_emit(m, flags, type.at, slice_len(type));
    return true;
}

bool mlir_dense_typed(struct mlir *m, struct slice body, struct slice type)
{
    return put_dense(m, body, type, false, 0);
}

bool mlir_dense(struct mlir *m, struct slice *s, bool resource, unsigned flags)
{
    const char *close = slice_close(*s);
    struct slice body = {s->at + 1, close};
    if (close >= s->end)
        return mlir_fail(m, s->at, WARM_EMALFORMED, "a constant that does not end");
    s->at = close + 1;
    if (!slice_take(s, ':'))
        return mlir_fail(m, s->at, WARM_EMALFORMED, "a constant needs its type");
    struct slice type = slice_type(s);
    if (!(flags & ATTR_TYPE)) { /* the scratch buffer is free */
        struct view text = graph_type_text(m->g, mlir_type(m, type));
        type = (struct slice){text.data, (const char *)text.data + text.len};
    }
    return mlir_ok(m) && put_dense(m, body, type, resource, flags);
}
