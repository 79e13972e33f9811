/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bytecode.c - reads the container of MLIR bytecode: its sections and tables. canon.c calls it.
 *
 *     "MLïR" version producer NUL
 *     sections: id (7 bits; 0x80: aligned), length, data
 *        0 strings   1 dialects and names of operations   2, 3 attributes and types
 *        4 operations   5, 6 resources   8 properties
 *
 * Its operations go to the graph, its types and attributes through the reader of MLIR text
 * (bytecode/walk.c). So one program has one key in both encodings. The reader skips locations, but for one
 * that the caller seeks. If it meets an unknown dialect, code, property or resource, it sets `why_exact`, and the key has the
 * exact bytes.
 *
 * Thread: any; no state. Memory: tables in proportion to the input, and the text of an operation's
 * attributes.
 */
#include "keygen/bytecode/bytecode.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

enum section_id {
    STRINGS,
    DIALECTS,
    ATTRS,
    ATTR_OFFSETS,
    IR = BYTECODE_IR,
    RESOURCES,
    RESOURCE_OFFSETS,
    DIALECT_VERSIONS,
    PROPERTIES,
    N_SECTIONS
};

void bytecode_unknown(struct bytecode *b, const char *why)
{
    if (!bytecode_stopped(b))
        b->why = why;
}

void bytecode_malformed(struct bytecode *b, const char *what)
{
    if (!bytecode_stopped(b))
        b->wrong = what;
}

bool bytecode_broken(struct bytecode *b)
{
    bytecode_unknown(b, "a fault of the reader");
    return false;
}

/* ---- numbers ---- */

/* Reads a varint. The lowest set bit of the first byte tells the number of bytes; if the byte is
 * zero, eight more follow. */
uint64_t bytecode_varint_long(struct reader *r)
{
    if (r->len >= 8 && !r->failed && *r->data) { /* up to eight bytes */
        uint64_t eight;
        memcpy(&eight, r->data, sizeof eight);
        unsigned n = (unsigned)__builtin_ctz(*r->data) + 1;
        r->data += n;
        r->len -= n;
        return le64toh(eight) << (64 - 8 * n) >> (64 - 7 * n);
    }
    uint8_t first = reader_u8(r);
    if (first == 0)
        return reader_u64(r);
    unsigned more = (unsigned)__builtin_ctz(first);
    uint64_t value = first;
    for (unsigned i = 1; i <= more; i++)
        value |= (uint64_t)reader_u8(r) << (8 * i);
    return value >> (more + 1);
}

int64_t bytecode_signed(struct reader *r)
{
    uint64_t v = bytecode_varint(r);
    return (int64_t)(v >> 1 ^ (0 - (v & 1)));
}

uint64_t bytecode_flagged(struct reader *r, bool *flag)
{
    uint64_t v = bytecode_varint(r);
    *flag = v & 1;
    return v >> 1;
}

/* ---- sections and tables ---- */

struct reader bytecode_take_section(struct bytecode *b, struct reader *r, uint8_t *id)
{
    uint8_t head = reader_u8(r);
    uint64_t len = bytecode_varint(r);
    if (head & 0x80) {
        uint64_t alignment = bytecode_varint(r);
        if (alignment == 0 || alignment > 4096 || (alignment & (alignment - 1)))
            bytecode_malformed(b, "a section with an impossible alignment");
        while (!bytecode_stopped(b) && !r->failed && (size_t)(r->data - b->start) % alignment)
            if (reader_u8(r) != 0xcb)
                bytecode_malformed(b, "a section whose padding is not padding");
    }
    *id = head & 0x7f;
    if (len > r->len)
        r->failed = true;
    struct view data = reader_bytes(r, bytecode_stopped(b) ? 0 : len);
    return reader_over(data.data, data.len);
}

/* Allocates an array for `n` items and one more. Each item takes a byte or more of the rest of `r`. */
static void *table_new(struct bytecode *b, const struct reader *r, uint64_t n, size_t size)
{
    if (r->failed || n > r->len) {
        bytecode_malformed(b, "a count that is larger than what follows");
        return NULL;
    }
    void *table = calloc(n + 1, size);
    bytecode_got_memory(b, table);
    return table;
}

static uint32_t place_of(const struct bytecode *b, const void *at)
{
    size_t place = (size_t)((const uint8_t *)at - b->start);
    return WARM_EXPECT(place <= b->input->len) ? (uint32_t)place : 0;
}

static void read_strings(struct bytecode *b, struct reader r)
{
    uint64_t n = bytecode_varint(&r);
    b->strings = table_new(b, &r, n, sizeof *b->strings);
    if (!b->strings)
        return;
    b->n_strings = (uint32_t)n;
    for (uint64_t i = n; i-- > 0;) { /* the lengths come in reverse order */
        uint64_t len = bytecode_varint(&r);
        r.failed |= len > r.len;
        b->strings[i] = r.failed ? 0 : (uint32_t)len;
    }
    for (uint64_t i = 0; i < n; i++) {
        struct view s = reader_bytes(&r, b->strings[i]);
        const char *text = s.data;
        if (r.failed || !s.len || text[s.len - 1] != '\0') {
            bytecode_malformed(b, "a string without its end");
            return;
        }
        b->strings[i] = place_of(b, text);
    }
    b->strings[n] = place_of(b, r.data);
}

struct view bytecode_string(struct bytecode *b, uint64_t i)
{
    if (i < b->n_strings && BYTECODE_EXPECT(b, b->strings[i] < b->strings[i + 1]))
        return (struct view){(const char *)b->start + b->strings[i], /* without its final NUL */
                             b->strings[i + 1] - b->strings[i] - 1};
    bytecode_malformed(b, "a number of a string that is not there");
    return (struct view){"", 0};
}

/* Reads groups: a dialect, a count, and that many names of operations. */
static void read_opnames(struct bytecode *b, struct reader *r)
{
    uint64_t n = b->version >= BYTECODE_ELIDED_LOCATIONS ? bytecode_varint(r) : r->len;
    b->opnames = table_new(b, r, n, sizeof *b->opnames);
    while (b->opnames && r->len && !r->failed && !bytecode_stopped(b)) {
        uint64_t dialect = bytecode_varint(r), count = bytecode_varint(r);
        if (dialect >= b->n_dialects || count > n - b->n_opnames) {
            bytecode_malformed(b, "more names of operations than the file announces");
            return;
        }
        for (uint64_t i = 0; i < count && !bytecode_stopped(b); i++) {
            bool registered = true;
            uint64_t name = b->version >= BYTECODE_PROPERTIES ? bytecode_flagged(r, &registered)
                                                              : bytecode_varint(r);
            struct bytecode_opname *op = &b->opnames[b->n_opnames++];
            *op = (struct bytecode_opname){.dialect = b->dialects[dialect],
                                           .name = bytecode_string(b, name)};
            bytecode_opname_look_up(op);
            if (!registered)
                op->properties = NULL;
        }
    }
}

static void read_dialects(struct bytecode *b, struct reader r)
{
    uint64_t n = bytecode_varint(&r);
    b->dialects = table_new(b, &r, n, sizeof *b->dialects);
    for (uint32_t i = 0; b->dialects && i < n && !bytecode_stopped(b); i++) {
        bool versioned = false;
        uint64_t name = b->version >= BYTECODE_DIALECT_VERSIONS ? bytecode_flagged(&r, &versioned)
                                                                : bytecode_varint(&r);
        uint8_t id;
        b->dialects[i] = bytecode_string(b, name);
        if (versioned)
            bytecode_take_section(b, &r, &id);
        b->n_dialects++;
    }
    if (!bytecode_stopped(b))
        read_opnames(b, &r);
    if (r.failed)
        bytecode_malformed(b, "the section of dialects ends too early");
}

static enum bytecode_dialect dialect_of(struct view name)
{
    static const char *const names[] = {[DIALECT_BUILTIN] = "builtin",
                                        [DIALECT_STABLEHLO] = "stablehlo",
                                        [DIALECT_VHLO] = "vhlo",
                                        [DIALECT_SDY] = "sdy"};
    for (size_t i = DIALECT_BUILTIN; i < sizeof names / sizeof *names; i++)
        if (view_is(name, names[i]))
            return (enum bytecode_dialect)i;
    return DIALECT_UNKNOWN;
}

/* Reads the entries of one group. */
static void read_group(struct bytecode *b, struct reader *offsets, struct reader *data,
                       uint64_t dialect, uint64_t count, uint32_t *n)
{
    uint8_t known = (uint8_t)dialect_of(b->dialects[dialect]);
    struct bytecode_entry *e = b->attrs + b->n_attrs + b->n_types;
    for (uint64_t i = 0; i < count; i++) {
        bool custom;
        uint64_t len = bytecode_flagged(offsets, &custom);
        *e++ = (struct bytecode_entry){place_of(b, data->data), custom, known};
        reader_bytes(data, len);
    }
    e->at = data->failed ? 0 : place_of(b, data->data);
    *n += (uint32_t)count;
}

/* Reads the sizes of the entries, in groups of one dialect: attributes first, then types. */
static void read_entries(struct bytecode *b, struct reader offsets, struct reader data)
{
    uint64_t n_attrs = bytecode_varint(&offsets), n_types = bytecode_varint(&offsets);
    uint64_t n = n_attrs < UINT32_MAX && n_types < UINT32_MAX ? n_attrs + n_types : UINT64_MAX;
    if (offsets.failed || n > offsets.len) {
        bytecode_malformed(b, "a count that is larger than what follows");
        return;
    }
    b->attrs = calloc(n + 1, sizeof *b->attrs);
    bytecode_got_memory(b, b->attrs);
    while (!bytecode_stopped(b) && (b->n_attrs < n_attrs || b->n_types < n_types)) {
        uint64_t dialect = bytecode_varint(&offsets), count = bytecode_varint(&offsets);
        bool types = b->n_attrs == n_attrs;
        uint64_t room = types ? n_types - b->n_types : n_attrs - b->n_attrs;
        if (offsets.failed || dialect >= b->n_dialects || count > room || !count)
            bytecode_malformed(b, "another number of attributes and types than the file announces");
        else
            read_group(b, &offsets, &data, dialect, count, types ? &b->n_types : &b->n_attrs);
    }
    if (offsets.failed || data.failed)
        bytecode_malformed(b, "the section of attributes ends too early");
    if (b->attrs)
        b->types = b->attrs + b->n_attrs;
}

static void read_properties(struct bytecode *b, struct reader r)
{
    uint64_t n = bytecode_varint(&r);
    b->properties = table_new(b, &r, n, sizeof *b->properties);
    for (uint64_t i = 0; b->properties && i < n && !r.failed; i++) {
        struct view bytes = reader_bytes(&r, bytecode_varint(&r));
        if (!r.failed)
            b->properties[b->n_properties++] = (struct bytecode_properties){
                .at = place_of(b, bytes.data), .len = (uint32_t)bytes.len};
    }
    if (r.failed)
        bytecode_malformed(b, "the section of properties ends too early");
}

/* ---- the file ---- */

static int fail_at(struct err *e, int code, size_t offset, const char *what)
{
    err_set(e, code, "%s", what);
    if (e) {
        e->line = 1;
        e->column = (unsigned)(offset < UINT32_MAX ? offset + 1 : UINT32_MAX);
    }
    return code;
}

static int read_sections(struct bytecode *b, const struct canon_input *input,
                         struct reader sections[N_SECTIONS], bool present[N_SECTIONS],
                         struct err *e)
{
    struct reader r = reader_over(input->data, input->len);
    reader_bytes(&r, 4);
    b->version = bytecode_varint(&r);
    const uint8_t *end = r.failed || !r.len ? NULL : memchr(r.data, '\0', r.len);
    if (!end)
        return fail_at(e, WARM_ETRUNCATED, input->len, "the bytecode ends in its header");
    reader_bytes(&r, (size_t)(end - r.data) + 1); /* the producer's name */
    if (b->version > BYTECODE_VERSION_MAX) {
        bytecode_unknown(b, "a bytecode version that is not known");
        return 0;
    }
    while (r.len && !r.failed && !bytecode_stopped(b)) {
        size_t offset = input->len - r.len;
        uint8_t id;
        struct reader section = bytecode_take_section(b, &r, &id);
        if (r.failed)
            return fail_at(e, WARM_ETRUNCATED, input->len, "a section is cut off");
        if (id >= N_SECTIONS || present[id])
            return fail_at(e, WARM_EMALFORMED, offset, "a section twice, or of an unknown kind");
        present[id] = true;
        sections[id] = section;
    }
    static const uint8_t needed[] = {STRINGS, DIALECTS, ATTRS, ATTR_OFFSETS, IR};
    for (size_t i = 0; i < sizeof needed && !bytecode_stopped(b); i++)
        if (!present[needed[i]])
            return fail_at(e, WARM_ETRUNCATED, input->len, "a section that must be there is not");
    return 0;
}

void bytecode_tables_close(struct bytecode *b)
{
    free(b->strings);
    free(b->dialects);
    free(b->properties);
    free(b->opnames);
    free(b->attrs);
}

int form_mlir_bytecode(const struct canon_input *input, struct form *out, struct err *e)
{
    struct bytecode b = {.start = input->data, .input = input};
    struct reader sections[N_SECTIONS] = {0};
    bool present[N_SECTIONS] = {false};
    if (input->debug_info) {
        out->why_exact = "debug output was asked for, and locations count";
        return WARM_EUNSUPPORTED;
    }
    if (input->len >= UINT32_MAX)
        return err_set(e, WARM_ETOO_BIG, "bytecode of 4 GiB and more is not read");
    writer_init(&b.out, BYTECODE_TEXT_MAX(input->len));
    int code = read_sections(&b, input, sections, present, e);
    bool is_file = !code;
    if (is_file && !bytecode_stopped(&b)) {
        read_strings(&b, sections[STRINGS]);
        if (!bytecode_stopped(&b))
            read_dialects(&b, sections[DIALECTS]);
        if (!bytecode_stopped(&b))
            read_entries(&b, sections[ATTR_OFFSETS], sections[ATTRS]);
        if (!bytecode_stopped(&b) && present[PROPERTIES])
            read_properties(&b, sections[PROPERTIES]);
    }
    if (is_file && !bytecode_stopped(&b))
        code = bytecode_form_ops(&b, sections[BYTECODE_IR], input->len, out, e);
    else
        bytecode_tables_close(&b);
    if (b.out.no_memory) {
        code = err_set(e, WARM_ENOMEM, "no memory to read bytecode");
    } else if (is_file && code != WARM_ENOMEM && b.wrong) {
        code = fail_at(e, WARM_EMALFORMED, 0, b.wrong);
    } else if (is_file && code != WARM_ENOMEM && (b.why || b.out.failed)) {
        out->why_exact = b.why ? b.why : "its text would be too large";
        code = WARM_EUNSUPPORTED;
    }
    writer_close(&b.out);
    return code;
}

bool form_mlir_bytecode_claims(const char *data, size_t len)
{
    return len >= 4 && memcmp(data, "ML\xefR", 4) == 0;
}
