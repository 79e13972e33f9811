/* SPDX-License-Identifier: Apache-2.0 */
/*
 * type.c - reads the entries of the tables, and writes types of MLIR bytecode as generic MLIR text.
 * It also writes names and strings. All files of this folder call it.
 *
 * A type of VHLO becomes the StableHLO or builtin one that it stands for. An unknown code stops the
 * reading. BYTECODE_DEPTH_MAX limits the recursion.
 *
 * Thread: any; the state is the caller's.
 */
#include "keygen/bytecode/bytecode.h"

#include <string.h>

void bytecode_put_u64(struct bytecode *b, uint64_t n)
{
    char digits[DECIMAL_MAX], *end = digits + sizeof digits, *at = decimal_before(end, n);
    writer_bytes(&b->out, at, (size_t)(end - at));
}

void bytecode_put_i64(struct bytecode *b, int64_t n)
{
    if (n < 0)
        bytecode_put(b, "-");
    bytecode_put_u64(b, n < 0 ? 0 - (uint64_t)n : (uint64_t)n);
}

void bytecode_put_size(struct bytecode *b, int64_t size)
{
    if (size == BYTECODE_DYNAMIC)
        bytecode_put(b, "?");
    else
        bytecode_put_i64(b, size);
}

/* ---- names and strings ---- */

void bytecode_put_string(struct bytecode *b, struct view s)
{
    static const char hex[] = "0123456789ABCDEF";
    const uint8_t *p = s.data;
    size_t plain = 0; /* all bytes before this one are written */
    bytecode_put(b, "\"");
    for (size_t i = 0; i < s.len; i++) {
        if (p[i] >= 0x20 && p[i] < 0x7f && p[i] != '"' && p[i] != '\\')
            continue;
        char escape[3] = {'\\', hex[p[i] >> 4], hex[p[i] & 15]};
        writer_bytes(&b->out, p + plain, i - plain);
        if (p[i] == '\\')
            bytecode_put(b, "\\\\");
        else
            writer_bytes(&b->out, escape, sizeof escape);
        plain = i + 1;
    }
    writer_bytes(&b->out, p + plain, s.len - plain);
    bytecode_put(b, "\"");
}

static bool is_identifier(struct view s)
{
    const char *p = s.data;
    for (size_t i = 0; i < s.len; i++) {
        char c = p[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        if (!letter && (i == 0 || !((c >= '0' && c <= '9') || c == '$' || c == '.')))
            return false;
    }
    return s.len > 0;
}

void bytecode_put_key(struct bytecode *b, struct view name)
{
    if (is_identifier(name))
        writer_bytes(&b->out, name.data, name.len);
    else
        bytecode_put_string(b, name);
}

void bytecode_put_symbol(struct bytecode *b, struct view name)
{
    bytecode_put(b, "@");
    bytecode_put_key(b, name);
}

/* ---- entries ---- */

struct reader bytecode_entry_reader(const struct bytecode *b, const struct bytecode_entry *e)
{
    if (!WARM_EXPECT(e->at <= e[1].at)) /* the table is in the file's order */
        return reader_over(b->start, 0);
    return reader_over(b->start + e->at, e[1].at - e->at);
}

struct bytecode_entry *bytecode_attr_entry(struct bytecode *b, uint64_t attr)
{
    if (attr < b->n_attrs)
        return &b->attrs[attr];
    bytecode_malformed(b, "a number of an attribute that is not there");
    return NULL;
}

struct bytecode_entry *bytecode_type_entry(struct bytecode *b, uint64_t type)
{
    if (type < b->n_types)
        return &b->types[type];
    bytecode_malformed(b, "a number of a type that is not there");
    return NULL;
}

struct view bytecode_read_string(struct bytecode *b, struct reader *r)
{
    uint64_t i = bytecode_varint(r);
    return bytecode_string(b, r->failed ? UINT64_MAX : i);
}

uint64_t bytecode_read_count(struct bytecode *b, struct reader *r)
{
    uint64_t n = bytecode_varint(r);
    if (!r->failed && n <= r->len)
        return n;
    bytecode_malformed(b, "a count that is larger than what follows");
    return 0;
}

void bytecode_put_text_entry(struct bytecode *b, const struct bytecode_entry *e)
{
    struct reader r = bytecode_entry_reader(b, e);
    size_t len = r.len;
    const char *text = (const char *)r.data;
    if (!len || text[len - 1] != '\0' || memchr(text, '\0', len - 1))
        bytecode_malformed(b, "the text of an attribute or type without its end");
    else
        writer_bytes(&b->out, text, len - 1);
}

/* ---- types ---- */

void bytecode_put_type_of(struct bytecode *b, struct reader *r, int depth)
{
    bytecode_put_type(b, bytecode_varint(r), depth + 1);
}

static void put_type_list(struct bytecode *b, struct reader *r, int depth)
{
    uint64_t n = bytecode_read_count(b, r);
    for (uint64_t i = 0; i < n && !bytecode_stopped(b); i++) {
        bytecode_put(b, i ? ", " : "");
        bytecode_put_type_of(b, r, depth);
    }
}

static void put_function_type(struct bytecode *b, struct reader *r, int depth)
{
    bytecode_put(b, "(");
    put_type_list(b, r, depth);
    bytecode_put(b, ") -> (");
    put_type_list(b, r, depth);
    bytecode_put(b, ")");
}

static void put_tensor_type(struct bytecode *b, struct reader *r, bool encoded, int depth)
{
    uint64_t encoding = encoded ? bytecode_varint(r) : 0;
    bytecode_put(b, "tensor<");
    uint64_t n = bytecode_read_count(b, r);
    for (uint64_t i = 0; i < n; i++) {
        int64_t size = bytecode_signed(r);
        bytecode_put_size(b, size);
        bytecode_put(b, "x");
    }
    bytecode_put_type_of(b, r, depth);
    if (encoded) {
        bytecode_put(b, ", ");
        bytecode_put_attr(b, encoding, depth + 1);
    }
    bytecode_put(b, ">");
}

static void put_wrapped(struct bytecode *b, struct reader *r, const char *before, int depth)
{
    bytecode_put(b, before);
    bytecode_put_type_of(b, r, depth);
    bytecode_put(b, ">");
}

static void put_tuple_type(struct bytecode *b, struct reader *r, int depth)
{
    bytecode_put(b, "tuple<");
    put_type_list(b, r, depth);
    bytecode_put(b, ">");
}

/* Writes a type by its code in BuiltinDialectBytecode. */
static void put_builtin_type(struct bytecode *b, struct reader *r, int depth)
{
    static const char *const floats[] = {"bf16", "f16", "f32", "f64", "f80", "f128"};
    static const char *const small[] = {
        "tf32",          "f8E5M2", "f8E4M3",   "f8E4M3FN", "f8E5M2FNUZ", "f8E4M3FNUZ",
        "f8E4M3B11FNUZ", "f8E3M4", "f4E2M1FN", "f6E2M3FN", "f6E3M2FN",   "f8E8M0FNU"}; /* from 21 */
    uint64_t code = bytecode_varint(r), width;
    switch (code) {
    case 0:
        width = bytecode_varint(r);
        bytecode_put(b, (width & 3) == 0 ? "i" : (width & 3) == 1 ? "si" : "ui");
        bytecode_put_u64(b, width >> 2);
        break;
    case 1: bytecode_put(b, "index"); break;
    case 2: put_function_type(b, r, depth); break;
    case 3 ... 8: bytecode_put(b, floats[code - 3]); break;
    case 9: put_wrapped(b, r, "complex<", depth); break;
    case 12: bytecode_put(b, "none"); break;
    case 13: put_tensor_type(b, r, false, depth); break;
    case 14: put_tensor_type(b, r, true, depth); break;
    case 15: put_tuple_type(b, r, depth); break;
    case 18: put_wrapped(b, r, "tensor<*x", depth); break;
    default:
        if (code >= 21 && code - 21 < sizeof small / sizeof *small)
            bytecode_put(b, small[code - 21]);
        else
            bytecode_unknown(b, "a builtin type that is not known");
    }
}

/* Writes a type of VHLO as the builtin or StableHLO one that it stands for. */
static void put_vhlo_type(struct bytecode *b, struct reader *r, int depth)
{
    /* clang-format off */
    static const char *const plain[] = {
        [0] = "i1", [2] = "bf16", [3] = "f16", [4] = "f32", [5] = "f64", [6] = "f8E4M3FN",
        [7] = "f8E5M2", [9] = "index", [10] = "i4", [11] = "i8", [12] = "i16", [13] = "i32",
        [14] = "i64", [15] = "ui4", [16] = "ui8", [17] = "ui16", [18] = "ui32", [19] = "ui64",
        [22] = "!stablehlo.token", [27] = "f8E4M3FNUZ", [28] = "f8E5M2FNUZ",
        [29] = "f8E4M3B11FNUZ", [31] = "i2", [32] = "ui2", [33] = "none", [34] = "tf32",
        [35] = "f8E4M3", [36] = "f8E3M4", [37] = "f4E2M1FN", [38] = "f6E2M3FN", [39] = "f6E3M2FN",
        [40] = "f8E8M0FNU",
    };
    /* clang-format on */
    uint64_t code = bytecode_varint(r);
    switch (code) {
    case 1: put_wrapped(b, r, "complex<", depth); return;
    case 8: put_function_type(b, r, depth); return;
    case 20: put_tensor_type(b, r, false, depth); return;
    case 21: put_tensor_type(b, r, true, depth); return;
    case 23: put_tuple_type(b, r, depth); return;
    case 25: put_wrapped(b, r, "tensor<*x", depth); return;
    }
    if (code < sizeof plain / sizeof *plain && plain[code])
        bytecode_put(b, plain[code]);
    else
        bytecode_unknown(b, "a VHLO type that is not known");
}

void bytecode_put_type(struct bytecode *b, uint64_t type, int depth)
{
    struct bytecode_entry *e = bytecode_stopped(b) ? NULL : bytecode_type_entry(b, type);
    if (!e)
        return;
    struct reader r = bytecode_entry_reader(b, e);
    if (depth > BYTECODE_DEPTH_MAX || ++b->nested > 2 * BYTECODE_DEPTH_MAX)
        bytecode_unknown(b, "attributes that nest too deep");
    else if (!e->custom)
        bytecode_put_text_entry(b, e);
    else if (e->dialect == DIALECT_BUILTIN)
        put_builtin_type(b, &r, depth);
    else if (e->dialect == DIALECT_VHLO)
        put_vhlo_type(b, &r, depth);
    else if (e->dialect == DIALECT_STABLEHLO && bytecode_varint(&r) == 0)
        bytecode_put(b, "!stablehlo.token");
    else
        bytecode_unknown(b, "a type of a dialect that is not known");
    if (e->custom && !reader_done(&r) && !bytecode_stopped(b))
        bytecode_malformed(b, "a type that does not end where it should");
    b->nested -= b->nested > 0;
}
