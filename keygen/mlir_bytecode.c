/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mlir_bytecode.c - the container of MLIR bytecode, and its operations as generic MLIR text.
 *
 *     "MLïR" version producer NUL
 *     sections: id (7 bits; 0x80: aligned), length, data
 *        0 strings   1 dialects and names of operations   2, 3 attributes and types
 *        4 operations   5, 6 resources   8 properties
 *
 * The text goes through mlir.c, so one program has one key in both encodings: what the canonical
 * form drops, merges and orders is decided in one place. It is never held whole: mlir.c asks for it
 * piece by piece (mlir_pieces.h). Locations are read over. What this reader does not know (a dialect, a
 * code, a property, a resource) ends in `why_exact`: the exact bytes.
 *
 * Operations are walked with a stack of regions on the heap. Thread: any; no state.
 * Memory: tables in proportion to the input, and a piece of the text.
 */
#include "keygen/mlir_bytecode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "keygen/mlir_pieces.h"

/* An attribute that operations share is text in each: a bound on what a small input can become. */
#define TEXT_PER_BYTE 64u
#define TEXT_BASE 65536u
#define PIECE_BYTES (16u * 1024) /* of text, or what one operation needs */

enum section_id {
    STRINGS,
    DIALECTS,
    ATTRS,
    ATTR_OFFSETS,
    IR,
    RESOURCES,
    RESOURCE_OFFSETS,
    DIALECT_VERSIONS,
    PROPERTIES,
    N_SECTIONS
};

struct value {
    uint32_t id, index, type; /* "%id#index"; index is UINT32_MAX for a lone result */
    bool defined;
};

/* A region being walked, and of the operation that it belongs to what is printed after it. */
struct frame {
    struct reader r;       /* of an isolated region its own section */
    uint64_t regions_left; /* after the one at hand */
    uint64_t blocks_left, ops_left;
    bool own_section, in_function;
    uint32_t scope;         /* where the values of the isolated scope begin */
    uint32_t values_before; /* values to go back to at the end of the region */
    uint32_t next_value, end_value;
    uint32_t first_block, next_block; /* labels: of the region's first, of the next to come */
    uint64_t attrs;    /* number + 1 of the dictionary to print after the regions, or 0 */
    uint32_t types_at; /* into `types`: operands, then results */
    uint32_t n_operands, n_results;
};

struct walk {
    struct bytecode *b;
    struct value *values;
    struct frame *frames;
    uint32_t *types;
    uint32_t n_values, n_frames, n_types, cap_values, cap_frames, cap_types;
    uint32_t next_id, next_block;
    bool no_memory;
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

#define MEMO_MAX 1024 /* bytes of a text that is kept */

void bytecode_memo_keep(struct bytecode *b, struct bytecode_memo *memo, size_t start)
{
    size_t len = bytecode_stopped(b) ? 0 : b->out.len - start;
    if (len && len <= MEMO_MAX && b->memo.len <= UINT32_MAX - len) {
        memo->at = (uint32_t)b->memo.len;
        writer_bytes(&b->memo, b->out.data + start, len);
        memo->len = b->memo.failed ? 0 : (uint32_t)len;
    }
}

bool bytecode_memo_put(struct bytecode *b, const struct bytecode_memo *memo)
{
    if (!memo->len)
        return false;
    writer_bytes(&b->out, b->memo.data + memo->at, memo->len);
    return true;
}

/* ---- numbers ---- */

/* The lowest set bit of the first byte says how many bytes there are; zero: eight more. */
uint64_t bytecode_varint(struct reader *r)
{
    if (r->len && !r->failed && *r->data & 1) { /* one byte, as most are */
        r->len--;
        return *r->data++ >> 1;
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

/* The next section: its id and data. Padding up to an alignment is skipped. */
static struct reader take_section(struct bytecode *b, struct reader *r, uint8_t *id)
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

/* An array for `n` items, each of which takes a byte or more of what is left of `r`. */
static void *table_new(struct bytecode *b, const struct reader *r, uint64_t n, size_t size)
{
    if (r->failed || n > r->len) {
        bytecode_malformed(b, "a count that is larger than what follows");
        return NULL;
    }
    void *table = calloc(n ? n : 1, size);
    b->out.failed |= !table;
    return table;
}

static void read_strings(struct bytecode *b, struct reader r)
{
    uint64_t n = bytecode_varint(&r);
    b->strings = table_new(b, &r, n, sizeof *b->strings);
    if (!b->strings)
        return;
    b->n_strings = (uint32_t)n;
    for (uint64_t i = n; i-- > 0;) /* the lengths come last one first */
        b->strings[i].len = bytecode_varint(&r);
    for (uint64_t i = 0; i < n; i++) {
        struct view s = reader_bytes(&r, b->strings[i].len);
        const char *text = s.data;
        if (r.failed || !s.len || text[s.len - 1] != '\0') {
            bytecode_malformed(b, "a string without its end");
            return;
        }
        b->strings[i] = (struct view){text, s.len - 1};
    }
}

static struct view string_at(struct bytecode *b, uint64_t i)
{
    if (i < b->n_strings)
        return b->strings[i];
    bytecode_malformed(b, "a number of a string that is not there");
    return (struct view){"", 0};
}

static void read_dialect(struct bytecode *b, struct reader *r, uint32_t i)
{
    bool versioned = false;
    uint64_t name = b->version >= BYTECODE_DIALECT_VERSIONS ? bytecode_flagged(r, &versioned)
                                                            : bytecode_varint(r);
    uint8_t id;
    b->dialects[i] = string_at(b, name);
    if (versioned)
        take_section(b, r, &id);
}

/* Groups of a dialect, a count, and that many names of operations. */
static void read_opnames(struct bytecode *b, struct reader *r)
{
    uint64_t n = b->version >= BYTECODE_ELIDED_LOCATIONS ? bytecode_varint(r) : r->len;
    b->opnames = table_new(b, r, n, sizeof *b->opnames);
    while (b->opnames && r->len && !r->failed && !bytecode_stopped(b)) {
        uint64_t dialect = bytecode_varint(r), count = bytecode_varint(r);
        if (dialect >= b->n_dialects || count > n - b->n_opnames) {
            bytecode_malformed(b, "names of operations that are more than they should be");
            return;
        }
        for (uint64_t i = 0; i < count && !bytecode_stopped(b); i++) {
            bool registered = true;
            uint64_t name = b->version >= BYTECODE_PROPERTIES ? bytecode_flagged(r, &registered)
                                                              : bytecode_varint(r);
            struct bytecode_opname *op = &b->opnames[b->n_opnames++];
            *op = (struct bytecode_opname){.dialect = b->dialects[dialect],
                                           .name = string_at(b, name)};
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
        read_dialect(b, &r, i);
        b->n_dialects++;
    }
    if (!bytecode_stopped(b))
        read_opnames(b, &r);
    if (r.failed)
        bytecode_malformed(b, "the section of dialects ends too early");
}

/* Sizes of the entries in groups of one dialect: attributes first, then types. */
static void read_entries(struct bytecode *b, struct reader offsets, struct reader data)
{
    uint64_t n_attrs = bytecode_varint(&offsets), n_types = bytecode_varint(&offsets);
    b->attrs = table_new(b, &offsets, n_attrs, sizeof *b->attrs);
    b->types = table_new(b, &offsets, n_types, sizeof *b->types);
    while (!bytecode_stopped(b) && (b->n_attrs < n_attrs || b->n_types < n_types)) {
        uint64_t dialect = bytecode_varint(&offsets), count = bytecode_varint(&offsets);
        bool types = b->n_attrs == n_attrs;
        uint64_t room = types ? n_types - b->n_types : n_attrs - b->n_attrs;
        if (offsets.failed || dialect >= b->n_dialects || count > room || !count) {
            bytecode_malformed(b, "attributes and types that are not as many as they should be");
            return;
        }
        for (uint64_t i = 0; i < count; i++) {
            bool custom;
            uint64_t len = bytecode_flagged(&offsets, &custom);
            struct bytecode_entry e = {reader_bytes(&data, len), (uint32_t)dialect, custom, {0}};
            if (types)
                b->types[b->n_types++] = e;
            else
                b->attrs[b->n_attrs++] = e;
        }
    }
    if (offsets.failed || data.failed)
        bytecode_malformed(b, "the section of attributes ends too early");
}

static void read_properties(struct bytecode *b, struct reader r)
{
    uint64_t n = bytecode_varint(&r);
    b->properties = table_new(b, &r, n, sizeof *b->properties);
    for (uint64_t i = 0; b->properties && i < n && !r.failed; i++) {
        uint64_t len = bytecode_varint(&r);
        b->properties[b->n_properties++] =
            (struct bytecode_properties){.bytes = reader_bytes(&r, len)};
    }
    if (r.failed)
        bytecode_malformed(b, "the section of properties ends too early");
}

/* ---- values ---- */

static bool walk_grow(struct walk *w, void *array, uint32_t need, uint32_t *cap, size_t size)
{
    if (need <= *cap)
        return true;
    void *old;
    memcpy(&old, array, sizeof old);
    uint64_t more = (uint64_t)need + need / 2 + 64;
    void *new = more < UINT32_MAX ? realloc(old, more * size) : NULL;
    if (!new) {
        w->b->out.failed = w->no_memory = true;
        return false;
    }
    memcpy(array, &new, sizeof new);
    *cap = (uint32_t)more;
    return true;
}

static struct frame *walk_top(struct walk *w) { return &w->frames[w->n_frames - 1]; }

/* Gives the next value of the region at hand its name and type. */
static void value_define(struct walk *w, uint32_t id, uint32_t index, uint64_t type)
{
    struct frame *f = walk_top(w);
    if (f->next_value >= f->end_value)
        bytecode_malformed(w->b, "more values in a region than it says");
    else
        w->values[f->next_value++] = (struct value){id, index, (uint32_t)type, true};
}

static const struct value *value_at(struct walk *w, uint64_t i)
{
    uint32_t scope = walk_top(w)->scope;
    if (i >= w->n_values - scope)
        bytecode_malformed(w->b, "a number of a value that is not there");
    else if (!w->values[scope + i].defined)
        bytecode_unknown(w->b, "a value that is used before its definition");
    else
        return &w->values[scope + i];
    return NULL;
}

static void put_value(struct bytecode *b, uint32_t id, uint32_t index)
{
    bytecode_put(b, "%");
    bytecode_put_u64(b, id);
    if (index != UINT32_MAX) {
        bytecode_put(b, "#");
        bytecode_put_u64(b, index);
    }
}

static void push_type(struct walk *w, uint64_t type)
{
    if (type >= w->b->n_types)
        bytecode_malformed(w->b, "a number of a type that is not there");
    else if (walk_grow(w, &w->types, w->n_types + 1, &w->cap_types, sizeof *w->types))
        w->types[w->n_types++] = (uint32_t)type;
}

/* ---- operations ---- */

/* How the uses of values were linked in the producer's memory: nothing that the text shows. */
static void skip_use_lists(struct bytecode *b, struct reader *r, uint64_t n_values)
{
    uint64_t n = n_values == 1 ? 1 : bytecode_varint(r);
    if (n > r->len)
        bytecode_malformed(b, "a count that is larger than what follows");
    for (uint64_t i = 0; i < n && !r->failed && !bytecode_stopped(b); i++) {
        bool pairs;
        if (n_values != 1)
            bytecode_varint(r);
        uint64_t indices = bytecode_flagged(r, &pairs);
        if (indices > r->len)
            bytecode_malformed(b, "a count that is larger than what follows");
        for (uint64_t k = 0; k < indices && !r->failed && !bytecode_stopped(b); k++)
            bytecode_varint(r);
    }
}

enum { /* what follows an operation's name and location */
       HAS_ATTRS = 1,
       HAS_RESULTS = 2,
       HAS_OPERANDS = 4,
       HAS_SUCCESSORS = 8,
       HAS_REGIONS = 16,
       HAS_USE_LISTS = 32,
       HAS_PROPERTIES = 64,
};

/* One operation as it is encoded. */
struct encoded {
    const struct bytecode_opname *name;
    uint8_t mask;
    uint64_t attrs, properties, n_regions;
    struct reader results, operands, successors; /* each at its first number */
    uint64_t n_results, n_operands, n_successors;
    bool isolated;
};

static uint64_t skip_numbers(struct bytecode *b, struct reader *r, bool present, struct reader *at)
{
    uint64_t n = present ? bytecode_varint(r) : 0;
    *at = *r;
    if (n > r->len)
        bytecode_malformed(b, "a count that is larger than what follows");
    for (uint64_t i = 0; i < n && !bytecode_stopped(b); i++)
        bytecode_varint(r);
    return n;
}

static bool take_op(struct bytecode *b, struct reader *r, struct encoded *o)
{
    uint64_t name = bytecode_varint(r);
    o->mask = reader_u8(r);
    bytecode_varint(r); /* location */
    o->attrs = o->mask & HAS_ATTRS ? bytecode_varint(r) + 1 : 0;
    o->properties = o->mask & HAS_PROPERTIES ? bytecode_varint(r) + 1 : 0;
    o->n_results = skip_numbers(b, r, o->mask & HAS_RESULTS, &o->results);
    o->n_operands = skip_numbers(b, r, o->mask & HAS_OPERANDS, &o->operands);
    o->n_successors = skip_numbers(b, r, o->mask & HAS_SUCCESSORS, &o->successors);
    if (o->mask & HAS_USE_LISTS)
        skip_use_lists(b, r, o->n_results);
    o->n_regions = o->mask & HAS_REGIONS ? bytecode_flagged(r, &o->isolated) : 0;
    if (r->failed || name >= b->n_opnames || o->properties > b->n_properties || o->mask & 0x80 ||
        o->n_regions > r->len)
        bytecode_malformed(b, "an operation that is cut off, or of a name that is not there");
    else
        o->name = &b->opnames[name];
    return !bytecode_stopped(b);
}

/* "%3:2 = ", and the values. */
static void put_results(struct walk *w, struct encoded *o)
{
    if (!o->n_results)
        return;
    uint32_t id = w->next_id++;
    put_value(w->b, id, UINT32_MAX);
    if (o->n_results > 1) {
        bytecode_put(w->b, ":");
        bytecode_put_u64(w->b, o->n_results);
    }
    bytecode_put(w->b, " = ");
    struct reader r = o->results;
    for (uint64_t i = 0; i < o->n_results && !bytecode_stopped(w->b); i++)
        value_define(w, id, o->n_results > 1 ? (uint32_t)i : UINT32_MAX, bytecode_varint(&r));
}

/* "(%1, %2)[^bb1]", and the types of operands and results for later. */
static void put_operands(struct walk *w, struct encoded *o, uint32_t first_block)
{
    struct bytecode *b = w->b;
    struct reader r = o->operands;
    bytecode_put(b, "(");
    for (uint64_t i = 0; i < o->n_operands && !bytecode_stopped(b); i++) {
        const struct value *v = value_at(w, bytecode_varint(&r));
        if (!v)
            return;
        bytecode_put(b, i ? ", " : "");
        put_value(b, v->id, v->index);
        push_type(w, v->type);
    }
    bytecode_put(b, ")");
    r = o->results;
    for (uint64_t i = 0; i < o->n_results && !bytecode_stopped(b); i++)
        push_type(w, bytecode_varint(&r));
    r = o->successors;
    for (uint64_t i = 0; i < o->n_successors && !bytecode_stopped(b); i++) {
        bytecode_put(b, i ? ", ^bb" : "[^bb");
        bytecode_put_u64(b, first_block + bytecode_varint(&r));
    }
    bytecode_put(b, o->n_successors ? "]" : "");
}

/* " {attributes} : (types) -> (types)": the end of an operation. Takes back what was pushed. */
static void put_tail(struct walk *w, uint64_t attrs, uint32_t types_at, uint64_t n_operands)
{
    struct bytecode *b = w->b;
    if (attrs) {
        bytecode_put(b, " {");
        bytecode_put_entries(b, attrs - 1);
        bytecode_put(b, "}");
    }
    bytecode_put(b, " : (");
    for (uint32_t i = types_at; i < w->n_types && !bytecode_stopped(b); i++) {
        uint64_t k = i - types_at;
        bytecode_put(b, k == n_operands ? ") -> (" : k ? ", " : "");
        bytecode_put_type(b, w->types[i], 0);
    }
    if (w->n_types - types_at == n_operands)
        bytecode_put(b, ") -> (");
    bytecode_put(b, ")\n");
    w->n_types = types_at;
}

/* Enters the next region of the frame on top: its blocks, and room for its values. */
static void region_begin(struct walk *w)
{
    struct bytecode *b = w->b;
    struct frame *f = walk_top(w);
    bytecode_put(b, "{\n");
    f->values_before = w->n_values;
    f->blocks_left = bytecode_varint(&f->r);
    uint64_t n_values = f->blocks_left ? bytecode_varint(&f->r) : 0;
    if (f->r.failed || n_values > f->r.len || f->blocks_left > f->r.len) {
        bytecode_malformed(b, "a region that is cut off");
        return;
    }
    uint32_t end = w->n_values + (uint32_t)n_values;
    if (!walk_grow(w, &w->values, end, &w->cap_values, sizeof *w->values))
        return;
    if (n_values)
        memset(w->values + w->n_values, 0, n_values * sizeof *w->values);
    f->next_value = w->n_values;
    w->n_values = f->end_value = end;
    f->first_block = f->next_block = w->next_block;
    w->next_block += (uint32_t)f->blocks_left;
    f->ops_left = 0;
}

/* "^bb3(%4: type):", and where its operations begin. */
static void block_begin(struct walk *w)
{
    struct bytecode *b = w->b;
    struct frame *f = walk_top(w);
    uint32_t label = f->next_block++;
    bool has_args;
    f->blocks_left--;
    f->ops_left = bytecode_flagged(&f->r, &has_args);
    uint64_t n_args = has_args ? bytecode_varint(&f->r) : 0;
    if (f->r.failed || n_args > f->r.len || f->ops_left > f->r.len) {
        bytecode_malformed(b, "a block that is cut off");
        return;
    }
    bool unlabelled = !n_args && label == f->first_block; /* nothing branches to a first block */
    if (!unlabelled) {
        bytecode_put(b, "^bb");
        bytecode_put_u64(b, label);
    }
    bytecode_put(b, n_args ? "(" : "");
    for (uint64_t i = 0; i < n_args && !bytecode_stopped(b); i++) {
        bool located = true;
        uint64_t type = b->version >= BYTECODE_ELIDED_LOCATIONS ? bytecode_flagged(&f->r, &located)
                                                                : bytecode_varint(&f->r);
        if (located)
            bytecode_varint(&f->r);
        bytecode_put(b, i ? ", " : "");
        put_value(b, w->next_id, UINT32_MAX);
        bytecode_put(b, ": ");
        bytecode_put_type(b, type, 0);
        value_define(w, w->next_id++, UINT32_MAX, type);
    }
    bytecode_put(b, n_args ? "):\n" : unlabelled ? "" : ":\n");
    if (has_args && b->version >= BYTECODE_USE_LISTS && reader_u8(&f->r))
        skip_use_lists(b, &f->r, n_args);
}

/* Pushes the frame for an operation's regions. Those of an isolated operation see no value from
 * outside and lie in a section of their own. */
static void regions_begin(struct walk *w, const struct encoded *o, uint32_t types_at)
{
    if (!walk_grow(w, &w->frames, w->n_frames + 1, &w->cap_frames, sizeof *w->frames))
        return;
    struct frame *outer = walk_top(w), *f = &w->frames[w->n_frames];
    *f = (struct frame){.r = outer->r,
                        .regions_left = o->n_regions - 1,
                        .own_section = o->isolated && w->b->version >= BYTECODE_LAZY_REGIONS,
                        .in_function =
                            view_is(o->name->name, "func") || view_is(o->name->name, "func_v1"),
                        .scope = o->isolated ? w->n_values : outer->scope,
                        .attrs = o->attrs,
                        .types_at = types_at,
                        .n_operands = (uint32_t)o->n_operands};
    if (f->own_section) {
        uint8_t id = 0;
        f->r = take_section(w->b, &outer->r, &id);
        if (outer->r.failed || id != IR)
            bytecode_malformed(w->b, "isolated regions without their section");
    }
    w->n_frames++;
    bytecode_put(w->b, " (");
    region_begin(w);
}

static void op_begin(struct walk *w)
{
    struct bytecode *b = w->b;
    struct frame *f = walk_top(w);
    struct encoded o = {0};
    f->ops_left--;
    if (!take_op(b, &f->r, &o))
        return;
    uint32_t types_at = w->n_types;
    put_results(w, &o);
    bytecode_put(b, "\"");
    bytecode_put_opname(b, o.name, f->in_function);
    bytecode_put(b, "\"");
    put_operands(w, &o, f->first_block);
    if (o.properties || (o.attrs && b->version < BYTECODE_PROPERTIES)) {
        bytecode_put(b, " <{");
        if (o.properties)
            bytecode_put_properties(b, o.name, &b->properties[o.properties - 1]);
        else
            bytecode_put_entries(b, o.attrs - 1); /* of a function they come before its body */
        bytecode_put(b, "}>");
    }
    if (!o.properties && b->version < BYTECODE_PROPERTIES)
        o.attrs = 0;
    if (!o.n_regions || bytecode_stopped(b)) {
        put_tail(w, o.attrs, types_at, o.n_operands);
        return;
    }
    regions_begin(w, &o, types_at);
}

/* The end of a region: the next of its operation, or the operation's end. */
static void region_end(struct walk *w)
{
    struct frame *f = walk_top(w);
    bytecode_put(w->b, "}");
    w->n_values = f->values_before;
    if (f->regions_left) {
        f->regions_left--;
        bytecode_put(w->b, ", ");
        region_begin(w);
        return;
    }
    bytecode_put(w->b, ")");
    if (!f->own_section)
        w->frames[w->n_frames - 2].r = f->r;
    else if (!reader_done(&f->r))
        bytecode_malformed(w->b, "regions that do not end where they should");
    put_tail(w, f->attrs, f->types_at, f->n_operands);
    w->n_frames--;
}

/* The section of operations is a block without arguments that holds the module. */
static void walk_begin(struct walk *w, struct reader r)
{
    bool has_args;
    if (!walk_grow(w, &w->frames, 1, &w->cap_frames, sizeof *w->frames))
        return;
    uint64_t n_ops = bytecode_flagged(&r, &has_args);
    if (r.failed || has_args || n_ops != 1)
        bytecode_malformed(w->b, "operations that are not one module");
    w->frames[0] = (struct frame){.r = r, .ops_left = n_ops};
    w->n_frames = 1;
}

/* Puts the text of what comes next; false at the end. */
static bool walk_step(struct walk *w)
{
    struct frame *f = walk_top(w);
    if (f->r.failed)
        bytecode_malformed(w->b, "operations that are cut off");
    else if (f->ops_left)
        op_begin(w);
    else if (f->blocks_left)
        block_begin(w);
    else if (w->n_frames > 1)
        region_end(w);
    else
        return false;
    return !bytecode_stopped(w->b);
}

static void walk_close(struct walk *w)
{
    free(w->values);
    free(w->frames);
    free(w->types);
    *w = (struct walk){.b = w->b, .no_memory = w->no_memory};
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
        struct reader section = take_section(b, &r, &id);
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

static void read_tables(struct bytecode *b, const struct reader sections[N_SECTIONS],
                        const bool present[N_SECTIONS])
{
    read_strings(b, sections[STRINGS]);
    if (!bytecode_stopped(b))
        read_dialects(b, sections[DIALECTS]);
    if (!bytecode_stopped(b))
        read_entries(b, sections[ATTR_OFFSETS], sections[ATTRS]);
    if (!bytecode_stopped(b) && present[PROPERTIES])
        read_properties(b, sections[PROPERTIES]);
}

/* What the text is made from. */
static void tables_close(struct bytecode *b)
{
    free(b->strings);
    free(b->dialects);
    free(b->properties);
    free(b->opnames);
    free(b->attrs);
    free(b->types);
    writer_close(&b->memo);
    b->strings = b->dialects = NULL;
    b->properties = NULL;
    b->opnames = NULL;
    b->attrs = b->types = NULL;
}

/* The walk as a text in pieces. */
struct walk_text {
    struct mlir_pieces pieces; /* first: what `next` is called with */
    struct walk w;
    size_t room; /* bytes that the rest of the text may have */
    bool ended;
};

/* A piece ends behind an operation that was not left open for its regions. */
static bool text_next(struct mlir_pieces *pieces, struct view *out)
{
    struct walk_text *t = (struct walk_text *)pieces;
    struct bytecode *b = t->w.b;
    if (t->ended)
        return false;
    b->out.len = 0;
    while (!t->ended) {
        bool is_op = walk_top(&t->w)->ops_left > 0;
        uint32_t depth = t->w.n_frames;
        t->ended = !walk_step(&t->w);
        if (is_op && t->w.n_frames == depth && b->out.len >= PIECE_BYTES)
            break;
    }
    if (b->out.len > t->room)
        bytecode_unknown(b, "its text would be too large");
    t->room -= b->out.len;
    if (t->ended && !bytecode_stopped(b) && !reader_done(&walk_top(&t->w)->r))
        bytecode_malformed(b, "operations that do not end where they should");
    pieces->broken = bytecode_stopped(b);
    t->ended |= pieces->broken;
    if (t->ended) {
        walk_close(&t->w);
        tables_close(b);
    }
    *out = (struct view){b->out.data, b->out.len};
    return !pieces->broken;
}

/* The key of the text. What its reader cannot use is not to be blamed on the bytecode. */
static int form_text(struct bytecode *b, struct reader operations, size_t len, struct form *out,
                     struct err *e)
{
    struct walk_text t = {.pieces = {.next = text_next, .about = 6 * len},
                          .w = {.b = b},
                          .room = len * TEXT_PER_BYTE + TEXT_BASE};
    struct view rest;
    walk_begin(&t.w, operations);
    int code = form_mlir_pieces(&t.pieces, out, e);
    while (text_next(&t.pieces, &rest)) /* what is wrong with the bytecode counts first */
        ;
    walk_close(&t.w);
    if (t.w.no_memory)
        return err_set(e, WARM_ENOMEM, "no memory to read bytecode");
    if (code == WARM_EMALFORMED || code == WARM_ETRUNCATED) {
        out->why_exact = "its operations cannot be spelled as text";
        return WARM_EUNSUPPORTED;
    }
    return code;
}

int form_mlir_bytecode(const struct canon_input *input, struct form *out, struct err *e)
{
    struct bytecode b = {.start = input->data};
    struct reader sections[N_SECTIONS] = {0};
    bool present[N_SECTIONS] = {false};
    if (input->debug_info) {
        out->why_exact = "debug output was asked for, and locations count";
        return WARM_EUNSUPPORTED;
    }
    if (input->len >= UINT32_MAX)
        return err_set(e, WARM_ETOO_BIG, "bytecode of 4 GiB and more is not read");
    writer_init(&b.memo, UINT32_MAX);
    writer_init(&b.out, input->len * TEXT_PER_BYTE + TEXT_BASE);
    int code = read_sections(&b, input, sections, present, e);
    bool is_file = !code;
    if (is_file && !bytecode_stopped(&b))
        read_tables(&b, sections, present);
    if (is_file && !bytecode_stopped(&b))
        code = form_text(&b, sections[IR], input->len, out, e);
    tables_close(&b);
    if (is_file && code != WARM_ENOMEM && b.wrong) {
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
