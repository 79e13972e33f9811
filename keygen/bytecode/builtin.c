/* SPDX-License-Identifier: Apache-2.0 */
/*
 * builtin.c - writes attributes of MLIR bytecode as generic MLIR text. walk.c, properties.c, type.c and sdy.c
 * call it.
 *
 * An entry begins with the code that its dialect gave it. The tables below list the fields for each
 * code. An attribute of VHLO becomes the StableHLO or builtin one that it stands for. An unknown
 * code stops the reading. BYTECODE_DEPTH_MAX limits the recursion.
 *
 * Thread: any; the state is the caller's.
 */
#include "keygen/bytecode/bytecode.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- tensors of constants ---- */

static struct view read_blob(struct bytecode *b, struct reader *r)
{
    return reader_bytes(r, bytecode_read_count(b, r));
}

/* Sets `out` to the text of a type; to the empty text if it is too long. */
static void short_type(struct bytecode *b, uint64_t type, char out[16])
{
    size_t before = b->out.len;
    bytecode_put_type(b, type, 1);
    size_t len = b->out.len - before;
    memset(out, 0, 16);
    if (!bytecode_stopped(b) && len < 16)
        memcpy(out, b->out.data + before, len);
    b->out.len = before;
}

struct tensor {
    int64_t shape[BYTECODE_DIMENSIONS_MAX];
    uint64_t rank, n; /* `n` counts elements */
    char element[16]; /* "i1", "f32"; empty if its text is longer */
};

/* Reads the shape and element type of a ranked tensor type. False if the type is another one, or
 * dynamic. */
static bool tensor_of(struct bytecode *b, uint64_t type, struct tensor *t)
{
    const struct bytecode_entry *e = bytecode_type_entry(b, type);
    if (!e || !e->custom)
        return false;
    struct reader r = bytecode_entry_reader(b, e);
    uint64_t code = bytecode_varint(&r);
    bool builtin = e->dialect == DIALECT_BUILTIN, vhlo = e->dialect == DIALECT_VHLO;
    if (!(builtin && (code == 13 || code == 14)) && !(vhlo && (code == 20 || code == 21)))
        return false;
    if (code == 14 || code == 21)
        bytecode_varint(&r);
    *t = (struct tensor){.rank = bytecode_varint(&r), .n = 1};
    if (t->rank > BYTECODE_DIMENSIONS_MAX)
        return false;
    for (uint64_t i = 0; i < t->rank; i++) {
        t->shape[i] = bytecode_signed(&r);
        if (t->shape[i] < 0 || __builtin_mul_overflow(t->n, (uint64_t)t->shape[i], &t->n))
            return false;
    }
    short_type(b, bytecode_varint(&r), t->element);
    return !r.failed && !bytecode_stopped(b);
}

/* Returns boolean `i` of `n`. A byte holds eight of them, or one if there are `n` bytes. A single
 * byte of ones or zeros holds all. */
static bool bit_at(struct view data, uint64_t n, uint64_t i)
{
    const uint8_t *p = data.data;
    if (data.len == 1 && (p[0] == 0xff || p[0] == 0))
        return p[0] != 0;
    return data.len == n && n != (n + 7) / 8 ? p[i] != 0 : p[i / 8] >> (i % 8) & 1;
}

static bool bits_fit(struct view data, uint64_t n)
{
    const uint8_t *p = data.data;
    bool splat = data.len == 1 && (p[0] == 0xff || p[0] == 0);
    return splat || data.len == (n + 7) / 8 || data.len == n;
}

/* Writes nested lists of the tensor's shape: a bracket opens before the first element of each row. */
static void put_bits(struct bytecode *b, const struct tensor *t, struct view data)
{
    (void)BYTECODE_EXPECT(b, t->n > 0 && bits_fit(data, t->n));
    for (uint64_t i = 0; i < t->n && !bytecode_stopped(b); i++) {
        bytecode_put(b, i ? ", " : "");
        uint64_t row = 1, opens = 0, closes = 0;
        for (uint64_t d = t->rank; d-- > 0;) {
            row *= (uint64_t)t->shape[d];
            opens += i % row == 0;
            closes += (i + 1) % row == 0;
        }
        while (opens--)
            bytecode_put(b, "[");
        bytecode_put(b, bit_at(data, t->n, i) ? "true" : "false");
        while (closes--)
            bytecode_put(b, "]");
    }
}

/* Writes a dense tensor of numbers as `dense<"0x...">`, its bytes in memory order, and its type. */
static void put_dense(struct bytecode *b, struct reader *r)
{
    uint64_t type = bytecode_varint(r);
    struct view data = read_blob(b, r);
    struct tensor t;
    if (bytecode_stopped(b) || !tensor_of(b, type, &t)) {
        if (!bytecode_stopped(b))
            bytecode_unknown(b, "a constant of a type that is not known");
        return;
    }
    bytecode_put(b, "dense<");
    if (strcmp(t.element, "i1") == 0 && t.n) {
        if (!bits_fit(data, t.n))
            bytecode_malformed(b, "a constant of booleans of the wrong size");
        else
            put_bits(b, &t, data);
    } else if (t.n) {
        bytecode_put(b, "\"0x");
        static const char hex[] = "0123456789ABCDEF";
        const uint8_t *p = data.data;
        char *at = writer_reserve(&b->out, 2 * data.len);
        for (size_t i = 0; at && i < data.len; i++) {
            *at++ = hex[p[i] >> 4];
            *at++ = hex[p[i] & 15];
        }
        bytecode_put(b, "\"");
    }
    bytecode_put(b, "> : ");
    bytecode_put_type(b, type, 1);
}

/* A tensor of one dimension with 64-bit integers or booleans. */
struct elements {
    struct view data;
    uint64_t n;
    bool bits;
};

static bool elements_of(struct bytecode *b, uint64_t attr, struct elements *out)
{
    struct bytecode_vhlo v;
    struct tensor t;
    if (!bytecode_vhlo_open(b, attr, &v) || v.code != VHLO_TENSOR) {
        bytecode_unknown(b, "a list of numbers that is no tensor");
        return false;
    }
    uint64_t type = bytecode_varint(&v.rest);
    out->data = read_blob(b, &v.rest);
    if (bytecode_stopped(b) || !tensor_of(b, type, &t) || t.rank != 1) {
        bytecode_unknown(b, "a list of numbers of an unknown type");
        return false;
    }
    out->n = t.n;
    out->bits = strcmp(t.element, "i1") == 0;
    bool whole = strcmp(t.element, "i64") == 0 && out->data.len % 8 == 0 &&
                 (out->data.len / 8 == t.n || (out->data.len == 8 && t.n > 1));
    if (out->bits ? t.n && !bits_fit(out->data, t.n) : !whole)
        bytecode_malformed(b, "a list of numbers of the wrong size");
    return !bytecode_stopped(b);
}

static int64_t element_at(const struct elements *e, uint64_t i)
{
    if (!WARM_EXPECT(i < e->n))
        return 0;
    if (e->bits)
        return bit_at(e->data, e->n, i);
    struct reader r = reader_over(e->data.data, e->data.len);
    reader_bytes(&r, e->data.len == 8 ? 0 : 8 * i); /* a splat has one number */
    return (int64_t)reader_u64(&r);
}

void bytecode_put_elements(struct bytecode *b, uint64_t attr)
{
    struct elements e;
    if (!elements_of(b, attr, &e))
        return;
    for (uint64_t i = 0; i < e.n && !bytecode_stopped(b); i++) {
        bytecode_put(b, i ? ", " : "");
        if (e.bits)
            bytecode_put(b, element_at(&e, i) ? "true" : "false");
        else
            bytecode_put_i64(b, element_at(&e, i));
    }
}

/* ---- attributes: numbers ---- */

/* Returns the width in bits of the integer or float type in the text; 0 for other types. */
static unsigned width_of(const char *type)
{
    while (*type && (*type < '0' || *type > '9'))
        type++;
    return (unsigned)strtoul(type, NULL, 10);
}

/* Reads a number: one byte for up to 8 bits, a signed varint for up to 64. It refuses wider ones. */
static uint64_t read_number(struct bytecode *b, struct reader *r, unsigned bits)
{
    if (bits == 0 || bits > 64) {
        bytecode_unknown(b, "a number of an unknown width");
        return 0;
    }
    return bits <= 8 ? reader_u8(r) : (uint64_t)bytecode_signed(r);
}

static void put_integer(struct bytecode *b, struct reader *r)
{
    char type[16];
    short_type(b, bytecode_varint(r), type);
    unsigned bits = strcmp(type, "index") == 0 ? 64 : width_of(type);
    uint64_t value = read_number(b, r, bits);
    if (bytecode_stopped(b))
        return;
    if (strcmp(type, "i1") == 0) {
        bytecode_put(b, value & 1 ? "true" : "false");
        return;
    }
    unsigned shift = 64 - bits;
    (void)BYTECODE_EXPECT(b, shift < 64); /* read_number refuses other widths */
    if (type[0] == 'u')
        bytecode_put_u64(b, value << shift >> shift);
    else
        bytecode_put_i64(b, (int64_t)(value << shift) >> shift);
    if (!b->in_array || strcmp(type, "i64") != 0) {
        bytecode_put(b, " : ");
        bytecode_put(b, type);
    }
}

/* Writes a float with six digits, as MLIR's printer does, if they are exact; else writes its bits. */
static void put_float(struct bytecode *b, struct reader *r)
{
    char type[16], text[64] = "";
    short_type(b, bytecode_varint(r), type);
    unsigned bits = type[0] == 'b' || type[0] == 't' ? 16 : width_of(type);
    uint64_t value = read_number(b, r, bits);
    if (bytecode_stopped(b))
        return;
    if (strcmp(type, "f64") == 0) {
        double d;
        memcpy(&d, &value, sizeof d);
        snprintf(text, sizeof text, "%.6e", d);
        double again = strtod(text, NULL);
        if (memcmp(&again, &d, sizeof d) != 0)
            text[0] = '\0';
    } else if (strcmp(type, "f32") == 0) {
        uint32_t low = (uint32_t)value;
        float f;
        memcpy(&f, &low, sizeof f);
        snprintf(text, sizeof text, "%.6e", (double)f);
        float again = strtof(text, NULL);
        if (memcmp(&again, &f, sizeof f) != 0)
            text[0] = '\0';
    }
    if (!text[0])
        snprintf(text, sizeof text, "0x%0*" PRIX64, (int)(bits + 3) / 4,
                 bits < 64 ? value & ((UINT64_C(1) << bits) - 1) : value);
    bytecode_put(b, text);
    if (!b->in_array || strcmp(type, "f64") != 0) {
        bytecode_put(b, " : ");
        bytecode_put(b, type);
    }
}

/* ---- attributes: structures ---- */

void bytecode_put_attr_of(struct bytecode *b, struct reader *r, int depth)
{
    bytecode_put_attr(b, bytecode_varint(r), depth + 1);
}

static void put_array(struct bytecode *b, struct reader *r, int depth)
{
    uint64_t n = bytecode_read_count(b, r);
    bool outer = b->in_array;
    b->in_array = true;
    bytecode_put(b, "[");
    for (uint64_t i = 0; i < n && !bytecode_stopped(b); i++) {
        bytecode_put(b, i ? ", " : "");
        bytecode_put_attr_of(b, r, depth);
    }
    bytecode_put(b, "]");
    b->in_array = outer;
}

bool bytecode_string_of(struct bytecode *b, uint64_t attr, struct view *out)
{
    const struct bytecode_entry *e = bytecode_stopped(b) ? NULL : bytecode_attr_entry(b, attr);
    if (!e || !e->custom)
        return false;
    struct reader r = bytecode_entry_reader(b, e);
    uint64_t code = bytecode_varint(&r);
    if (!(e->dialect == DIALECT_BUILTIN && code == 2) &&
        !(e->dialect == DIALECT_VHLO && code == 14))
        return false;
    *out = bytecode_read_string(b, &r);
    return !bytecode_stopped(b);
}

static struct view read_name(struct bytecode *b, struct reader *r)
{
    struct view name = {"", 0};
    if (!bytecode_string_of(b, bytecode_varint(r), &name))
        bytecode_malformed(b, "a name that is no string");
    return name;
}

bool bytecode_attr_is_unit(struct bytecode *b, uint64_t attr)
{
    const struct bytecode_entry *e = bytecode_attr_entry(b, attr);
    if (!e || !e->custom || e->dialect != DIALECT_BUILTIN)
        return false;
    struct reader r = bytecode_entry_reader(b, e);
    return bytecode_varint(&r) == 7;
}

static void put_entry_list(struct bytecode *b, struct reader *r, int depth)
{
    uint64_t n = bytecode_read_count(b, r);
    bool outer = b->in_array;
    b->in_array = false;
    for (uint64_t i = 0; i < n && !bytecode_stopped(b); i++) {
        bytecode_put(b, i ? ", " : "");
        bytecode_put_key(b, read_name(b, r));
        uint64_t value = bytecode_varint(r);
        if (!bytecode_stopped(b) && bytecode_attr_is_unit(b, value))
            continue;
        bytecode_put(b, " = ");
        bytecode_put_attr(b, value, depth + 1);
    }
    b->in_array = outer;
}

static void put_dictionary(struct bytecode *b, struct reader *r, int depth)
{
    bytecode_put(b, "{");
    put_entry_list(b, r, depth);
    bytecode_put(b, "}");
}

void bytecode_put_entries(struct bytecode *b, uint64_t attr)
{
    const struct bytecode_entry *e = bytecode_stopped(b) ? NULL : bytecode_attr_entry(b, attr);
    if (!e)
        return;
    struct reader r = bytecode_entry_reader(b, e);
    uint64_t code = bytecode_varint(&r);
    if (!e->custom || !(e->dialect == DIALECT_BUILTIN && code == 1))
        bytecode_malformed(b, "the attributes of an operation are no dictionary");
    else
        put_entry_list(b, &r, 0);
}

/* Writes array<i64: 1, 2> from element type, count and bytes. */
static void put_dense_array(struct bytecode *b, struct reader *r)
{
    char type[16];
    short_type(b, bytecode_varint(r), type);
    uint64_t n = bytecode_varint(r);
    struct view data = read_blob(b, r);
    bool boolean = strcmp(type, "i1") == 0;
    size_t size = boolean ? 1 : width_of(type) / 8;
    if (type[0] != 'i' || !size || size > 8 || data.len / size != n || data.len % size) {
        bytecode_unknown(b, "an array of an unknown element type");
        return;
    }
    bytecode_put(b, "array<");
    bytecode_put(b, type);
    struct reader at = reader_over(data.data, data.len);
    for (uint64_t i = 0; i < n && !bytecode_stopped(b); i++) {
        uint64_t value = 0;
        reader_copy(&at, &value, size);
        unsigned shift = 64 - 8 * (unsigned)size;
        bytecode_put(b, i ? ", " : ": ");
        if (boolean)
            bytecode_put(b, value ? "true" : "false");
        else
            bytecode_put_i64(b, (int64_t)(value << shift) >> shift);
    }
    bytecode_put(b, ">");
}

static void put_nested_symbol(struct bytecode *b, struct reader *r, int depth)
{
    bytecode_put_symbol(b, read_name(b, r));
    uint64_t n = bytecode_read_count(b, r);
    for (uint64_t i = 0; i < n && !bytecode_stopped(b); i++) {
        bytecode_put(b, "::");
        bytecode_put_attr_of(b, r, depth);
    }
}

/* Writes an attribute by its code in BuiltinDialectBytecode. No form has a location (10 to 15, and 22): put_place. */
static void put_builtin_attr(struct bytecode *b, struct reader *r, int depth)
{
    switch (bytecode_varint(r)) {
    case 0: put_array(b, r, depth); break;
    case 1: put_dictionary(b, r, depth); break;
    case 2: bytecode_put_string(b, bytecode_read_string(b, r)); break;
    case 3:
        bytecode_put_string(b, bytecode_read_string(b, r));
        bytecode_put(b, " : ");
        bytecode_put_type_of(b, r, depth);
        break;
    case 4: bytecode_put_symbol(b, read_name(b, r)); break;
    case 5: put_nested_symbol(b, r, depth); break;
    case 6: bytecode_put_type_of(b, r, depth); break;
    case 7: bytecode_put(b, "unit"); break;
    case 8: put_integer(b, r); break;
    case 9: put_float(b, r); break;
    case 17: put_dense_array(b, r); break;
    case 18: put_dense(b, r); break;
    case 16: bytecode_unknown(b, "a resource"); break;
    default: bytecode_unknown(b, "a builtin attribute that is not known");
    }
}

/* ---- locations ---- */

/* Writes the file, line and column that a location has, of a call the callee's. False if it has none. */
static bool put_place(struct bytecode *b, uint64_t location, int depth, char *out, size_t cap)
{
    struct bytecode_entry *e = depth < BYTECODE_DEPTH_MAX ? bytecode_attr_entry(b, location) : NULL;
    if (!e || !e->custom || e->dialect != DIALECT_BUILTIN)
        return false;
    struct reader r = bytecode_entry_reader(b, e);
    uint64_t code = bytecode_varint(&r), first = bytecode_varint(&r), n = 1;
    switch (code) {
    case 10: /* a call: callee, caller */
        return put_place(b, first, depth + 1, out, cap) ||
               put_place(b, bytecode_varint(&r), depth + 1, out, cap);
    case 12: /* several: how many, and each */
    case 13:
        for (n = first; n-- && !r.failed;)
            if (put_place(b, bytecode_varint(&r), depth + 1, out, cap))
                return true;
        return false;
    case 14: return put_place(b, bytecode_varint(&r), depth + 1, out, cap); /* a name: of what */
    case 22:
        n = bytecode_varint(&r);
        break; /* a range: numbers; the line and the column come first */
    case 11: n = 2; break;
    default: return false;
    }
    struct bytecode_entry *file = bytecode_attr_entry(b, first);
    struct reader name = file ? bytecode_entry_reader(b, file) : (struct reader){.failed = true};
    uint64_t line = n ? bytecode_varint(&r) : 0, column = n > 1 ? bytecode_varint(&r) : 0;
    if (!file || !file->custom || bytecode_varint(&name) != 2 || !line || r.failed)
        return false;
    struct view text = bytecode_read_string(b, &name);
    snprintf(out, cap, "%.*s:%" PRIu64 ":%" PRIu64, text.len < 200 ? (int)text.len : 200,
             (const char *)text.data, line, column);
    return true;
}

void bytecode_seek(struct bytecode *b, const struct bytecode_opname *op, uint64_t location,
                   bool in_function)
{
    struct canon_sought *s = b->input->sought;
    size_t before = b->out.len;
    bytecode_put_opname(b, op, in_function);
    struct view name = {b->out.data + before, b->out.len - before};
    bool same = !bytecode_stopped(b) && name.len == s->op.len &&
                memcmp(name.data, s->op.data, name.len) == 0;
    b->out.len = before;
    s->total += same;
    if (same && s->total == s->nth)
        put_place(b, location, 0, s->place, sizeof s->place);
}

/* ---- attributes of StableHLO and VHLO ---- */

void bytecode_put_conv_side(struct bytecode *b, const char *names, int64_t first, int64_t second,
                            uint64_t spatial)
{
    int64_t place[BYTECODE_DIMENSIONS_MAX] = {first, second};
    struct elements e;
    if (!elements_of(b, spatial, &e))
        return;
    if (e.n > BYTECODE_DIMENSIONS_MAX - 2) {
        bytecode_unknown(b, "a convolution of too many dimensions");
        return;
    }
    for (uint64_t i = 0; i < e.n; i++)
        place[i + 2] = element_at(&e, i);
    bytecode_put_places(b, place, e.n + 2, names);
}

/* Writes the API version, an enumeration in VHLO, as the plain number of StableHLO. */
static void put_api_version(struct bytecode *b, struct reader *r)
{
    bytecode_put_u64(b, bytecode_varint(r));
    bytecode_put(b, " : i32");
}

/* Writes an attribute of VHLO. Enumerations and structures become the StableHLO ones that they
 * stand for. */
static void put_vhlo_attr(struct bytecode *b, struct reader *r, int depth)
{
    uint64_t stands_for = 0;
    switch (bytecode_varint(r)) {
    case VHLO_ARRAY: put_array(b, r, depth); break;
    case VHLO_BOOL: bytecode_put(b, bytecode_varint(r) ? "true" : "false"); break;
    case 3: stands_for = STABLEHLO_COMPARISON_DIRECTION; break;
    case VHLO_COMPARISON_TYPE: stands_for = STABLEHLO_COMPARISON_TYPE; break;
    case 5: put_api_version(b, r); break;
    case VHLO_DICT: put_dictionary(b, r, depth); break;
    case 7: stands_for = STABLEHLO_FFT_TYPE; break;
    case 8: put_float(b, r); break;
    case VHLO_INTEGER: put_integer(b, r); break;
    case 10: stands_for = STABLEHLO_ALIAS; break;
    case VHLO_PRECISION: stands_for = STABLEHLO_PRECISION; break;
    case 12: stands_for = STABLEHLO_RNG_ALGORITHM; break;
    case 13: stands_for = STABLEHLO_RNG_DISTRIBUTION; break;
    case VHLO_STRING: bytecode_put_string(b, bytecode_read_string(b, r)); break;
    case VHLO_TENSOR: put_dense(b, r); break;
    case 16: stands_for = STABLEHLO_TRANSPOSE; break;
    case VHLO_TYPE: bytecode_put_type_of(b, r, depth); break;
    case 18: stands_for = STABLEHLO_BOUNDS; break;
    default: bytecode_unknown(b, "a VHLO attribute that is not known");
    }
    if (stands_for)
        bytecode_put_stablehlo_attr(b, r, stands_for);
}

bool bytecode_attr_open(struct bytecode *b, uint64_t attr, enum bytecode_dialect dialect,
                        struct reader *rest, uint64_t *code)
{
    const struct bytecode_entry *e = bytecode_stopped(b) ? NULL : bytecode_attr_entry(b, attr);
    if (!e || !e->custom || e->dialect != dialect)
        return false;
    *rest = bytecode_entry_reader(b, e);
    *code = bytecode_varint(rest);
    return !rest->failed;
}

bool bytecode_vhlo_open(struct bytecode *b, uint64_t attr, struct bytecode_vhlo *out)
{
    return bytecode_attr_open(b, attr, DIALECT_VHLO, &out->rest, &out->code);
}

bool bytecode_vhlo_integer(struct bytecode *b, uint64_t attr, int64_t *out)
{
    struct bytecode_vhlo v;
    if (!bytecode_vhlo_open(b, attr, &v) || v.code != VHLO_INTEGER)
        return false;
    char type[16];
    short_type(b, bytecode_varint(&v.rest), type);
    unsigned bits = width_of(type), shift = 64 - bits;
    if (bits == 0 || bits > 64)
        return false;
    *out = (int64_t)(read_number(b, &v.rest, bits) << shift) >> shift;
    return !v.rest.failed && !bytecode_stopped(b);
}

bool bytecode_vhlo_is_none(struct bytecode *b, uint64_t attr)
{
    struct bytecode_vhlo v;
    if (!bytecode_vhlo_open(b, attr, &v) || v.code != VHLO_TYPE)
        return false;
    const struct bytecode_entry *e = bytecode_type_entry(b, bytecode_varint(&v.rest));
    if (!e || !e->custom || e->dialect != DIALECT_VHLO)
        return false;
    struct reader r = bytecode_entry_reader(b, e);
    return bytecode_varint(&r) == 33;
}

void bytecode_put_attr(struct bytecode *b, uint64_t attr, int depth)
{
    struct bytecode_entry *e = bytecode_stopped(b) ? NULL : bytecode_attr_entry(b, attr);
    if (!e)
        return;
    struct reader r = bytecode_entry_reader(b, e);
    if (depth > BYTECODE_DEPTH_MAX || ++b->nested > 2 * BYTECODE_DEPTH_MAX)
        bytecode_unknown(b, "attributes that nest too deep");
    else if (!e->custom)
        bytecode_put_text_entry(b, e);
    else if (e->dialect == DIALECT_BUILTIN)
        put_builtin_attr(b, &r, depth);
    else if (e->dialect == DIALECT_STABLEHLO)
        bytecode_put_stablehlo_attr(b, &r, bytecode_varint(&r));
    else if (e->dialect == DIALECT_VHLO)
        put_vhlo_attr(b, &r, depth);
    else if (e->dialect == DIALECT_SDY)
        bytecode_put_sdy_attr(b, &r, depth);
    else
        bytecode_unknown(b, "an attribute of a dialect that is not known");
    if (e->custom && !reader_done(&r) && !bytecode_stopped(b))
        bytecode_malformed(b, "an attribute that does not end where it should");
    b->nested -= b->nested > 0;
}
