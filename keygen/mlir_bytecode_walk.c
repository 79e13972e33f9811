/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mlir_bytecode_walk.c - the operations of MLIR bytecode, as generic MLIR text or into the graph.
 *
 * An operation goes through mlir.c as a piece of text, in which "%0", "%1", ... are its operands and
 * "%0" are its results; of each value only its number in the graph is kept. What an operation without
 * regions says apart from its operands' values is a list of numbers:
 *
 *     name, attributes, properties, types of results, types of operands
 *
 * When a list comes again, mlir.c would read the same text again, so the operation goes into the graph
 * as the one before did (mlir_piece_repeats). What may not be repeated, mlir_line.c decides. The first
 * operation of a block is always read, since with it the block begins.
 *
 * Operations are walked with a stack of regions on the heap. Thread: any; no state.
 * Memory: 8 bytes for each value, and the lists.
 */
#define XXH_INLINE_ALL
#include "keygen/mlir_bytecode.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "keygen/graph.h"
#include "keygen/mlir_pieces.h"
#include "keygen/vector.h"

#define REPEATED_MAX 32 /* operands, and results, of an operation that is remembered */

struct value {
    uint32_t graph; /* number in the graph + 1; 0: not defined yet */
    uint32_t type;
};

/* A region being walked, and of the operation that it belongs to what is printed after it. */
struct frame {
    struct reader r;       /* of an isolated region its own section */
    uint64_t regions_left; /* after the one at hand */
    uint64_t blocks_left, ops_left;
    bool own_section, in_function;
    bool begun;             /* the block at hand has an operation */
    uint32_t scope;         /* where the values of the isolated scope begin */
    uint32_t values_before; /* values to go back to at the end of the region */
    uint32_t next_value, end_value;
    uint32_t first_block, next_block; /* labels: of the region's first, of the next to come */
    uint64_t attrs;    /* number + 1 of the dictionary to print after the regions, or 0 */
    uint32_t types_at; /* into `types`: operands, then results */
    uint32_t n_operands, n_results;
    uint32_t results; /* its first result, in `values` */
};

/* An operation that was read: a list of numbers, and what mlir.c remembers of it. */
struct known_op {
    uint64_t hash;
    uint32_t list, n; /* into `lists` */
    uint32_t shape;
    uint32_t text_len;
};

struct walk {
    struct bytecode *b;
    struct mlir_pieces *pieces;
    struct value *values;
    struct frame *frames;
    uint32_t *types;
    uint32_t *operands; /* of the operation at hand, in the graph */
    uint32_t n_values, n_frames, n_types, cap_values, cap_frames, cap_types, cap_operands;
    uint32_t n_operands;
    uint32_t next_block;
    uint32_t defined, n_defined; /* values that the piece at hand defines */
    bool are_args;               /* as block arguments, each under a name; else results of one */
    bool opened;                 /* the label of a region's first block belongs to the piece */
    struct known_op *known;
    uint32_t *lists, *slots; /* slots: by hash, known + 1; 0: empty */
    uint32_t n_known, cap_known, n_lists, cap_lists, mask;
    uint32_t list[2 * REPEATED_MAX + 6], n_list; /* of the operation at hand; 0: not remembered */
    size_t room;                                 /* bytes that the rest of the text may have */
    struct mapped mapped;
    bool no_memory;
};

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

/* ---- values ---- */

/* Gives the next value of the region at hand its type. */
static void value_declare(struct walk *w, uint64_t type)
{
    struct frame *f = walk_top(w);
    if (f->next_value >= f->end_value)
        bytecode_malformed(w->b, "more values in a region than it says");
    else
        w->values[f->next_value++] = (struct value){.type = (uint32_t)type};
}

static const struct value *value_at(struct walk *w, uint64_t i)
{
    uint32_t scope = walk_top(w)->scope;
    if (i >= w->n_values - scope)
        bytecode_malformed(w->b, "a number of a value that is not there");
    else if (!w->values[scope + i].graph)
        bytecode_unknown(w->b, "a value that is used before its definition");
    else
        return &w->values[scope + i];
    return NULL;
}

/* The values that the last piece defined are in the graph now. */
static void values_resolve(struct walk *w)
{
    struct mlir *reader = w->pieces->reader;
    for (uint32_t i = 0; i < w->n_defined; i++) {
        uint32_t first = reader ? mlir_piece_value(reader, w->are_args ? i : 0) : 0;
        if (first != GRAPH_NONE)
            w->values[w->defined + i].graph = first + (w->are_args ? 0 : i) + 1;
    }
    w->n_defined = 0;
}

static void put_name(struct bytecode *b, uint32_t n)
{
    bytecode_put(b, "%");
    bytecode_put_u64(b, n);
}

static void push_type(struct walk *w, uint64_t type)
{
    if (type >= w->b->n_types)
        bytecode_malformed(w->b, "a number of a type that is not there");
    else if (walk_grow(w, &w->types, w->n_types + 1, &w->cap_types, sizeof *w->types))
        w->types[w->n_types++] = (uint32_t)type;
}

/* ---- encoded operations ---- */

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

/* The operands' values, and the types of operands and results behind those in w->types. */
static bool op_resolve(struct walk *w, const struct encoded *o)
{
    struct bytecode *b = w->b;
    struct reader r = o->operands;
    w->n_operands = 0;
    if (!walk_grow(w, &w->operands, (uint32_t)o->n_operands, &w->cap_operands, sizeof *w->operands))
        return false;
    for (uint64_t i = 0; i < o->n_operands && !bytecode_stopped(b); i++) {
        const struct value *v = value_at(w, bytecode_varint(&r));
        if (!v)
            return false;
        w->operands[w->n_operands++] = v->graph - 1;
        push_type(w, v->type);
    }
    r = o->results;
    for (uint64_t i = 0; i < o->n_results && !bytecode_stopped(b); i++)
        push_type(w, bytecode_varint(&r));
    return !bytecode_stopped(b);
}

/* ---- operations that repeat ---- */

/* The list of numbers of an operation whose types begin at `types_at`, into w->list; empty if it is not
 * to be remembered. */
static void list_make(struct walk *w, const struct encoded *o, uint32_t types_at, bool in_function)
{
    uint32_t n = 0, n_types = w->n_types - types_at;
    w->n_list = 0;
    if (o->n_regions || o->n_successors || o->n_operands > REPEATED_MAX ||
        o->n_results > REPEATED_MAX || o->attrs > w->b->n_attrs)
        return;
    w->list[n++] = (uint32_t)(o->name - w->b->opnames) << 1 | in_function;
    w->list[n++] = (uint32_t)o->attrs;
    w->list[n++] = (uint32_t)o->properties;
    w->list[n++] = (uint32_t)o->n_operands;
    if (n_types)
        memcpy(w->list + n, w->types + types_at, n_types * sizeof *w->list);
    w->n_list = n + n_types;
}

/* The slot of w->list, or the empty one where it would be. */
static uint32_t *known_slot(const struct walk *w, uint64_t hash)
{
    for (uint32_t i = (uint32_t)hash & w->mask;; i = (i + 1) & w->mask) {
        const struct known_op *k = w->slots[i] ? &w->known[w->slots[i] - 1] : NULL;
        if (!k || (k->hash == hash && k->n == w->n_list &&
                   memcmp(w->lists + k->list, w->list, k->n * sizeof *w->list) == 0))
            return &w->slots[i];
    }
}

/* Keeps at most one of two slots in use. */
static bool slots_reserve(struct walk *w)
{
    if (w->slots && w->n_known < w->mask / 2)
        return true;
    uint32_t mask = w->slots ? 2 * w->mask + 1 : 255;
    uint32_t *slots = vector_zeroes((size_t)mask + 1, sizeof *slots);
    if (!slots) {
        w->b->out.failed = w->no_memory = true;
        return false;
    }
    for (uint32_t k = 0; k < w->n_known; k++) {
        uint32_t i = (uint32_t)w->known[k].hash & mask;
        while (slots[i])
            i = (i + 1) & mask;
        slots[i] = k + 1;
    }
    free(w->slots);
    w->slots = slots;
    w->mask = mask;
    return true;
}

/* Puts the operation at hand into the graph if one with its list was there before. */
static bool op_repeats(struct walk *w, const struct encoded *o, uint32_t results)
{
    struct mlir *reader = w->pieces->reader;
    if (!w->n_list || !w->slots || !reader || !walk_top(w)->begun)
        return false;
    uint32_t known = *known_slot(w, XXH3_64bits(w->list, w->n_list * sizeof *w->list)), first;
    const struct known_op *k = known ? &w->known[known - 1] : NULL;
    if (!k || k->text_len > w->room ||
        !mlir_piece_repeats(reader, k->shape, w->operands, w->n_operands, (uint32_t)o->n_results,
                            &first))
        return false;
    w->room -= k->text_len;
    for (uint32_t i = 0; i < o->n_results; i++)
        w->values[results + i].graph = first + i + 1;
    w->n_list = w->n_operands = 0;
    return true;
}

/* The last piece was the operation with w->list. */
static void op_remember(struct walk *w)
{
    struct mlir *reader = w->pieces->reader;
    uint32_t shape = reader && w->n_list ? mlir_piece_shape(reader) : 0;
    if (!shape || !slots_reserve(w) ||
        !walk_grow(w, &w->known, w->n_known + 1, &w->cap_known, sizeof *w->known) ||
        !walk_grow(w, &w->lists, w->n_lists + w->n_list, &w->cap_lists, sizeof *w->lists))
        return;
    uint64_t hash = XXH3_64bits(w->list, w->n_list * sizeof *w->list);
    uint32_t *slot = known_slot(w, hash);
    if (*slot)
        return;
    memcpy(w->lists + w->n_lists, w->list, w->n_list * sizeof *w->list);
    w->known[w->n_known] = (struct known_op){.hash = hash,
                                             .list = w->n_lists,
                                             .n = w->n_list,
                                             .shape = shape,
                                             .text_len = (uint32_t)w->b->out.len};
    w->n_lists += w->n_list;
    *slot = ++w->n_known;
}

/* ---- operations as text ---- */

/* "%0:2 = ". */
static void put_results(struct bytecode *b, uint64_t n)
{
    if (!n)
        return;
    put_name(b, 0);
    if (n > 1) {
        bytecode_put(b, ":");
        bytecode_put_u64(b, n);
    }
    bytecode_put(b, " = ");
}

/* "(%0, %1)[^bb1]". */
static void put_operands(struct bytecode *b, const struct encoded *o, uint32_t first_block)
{
    struct reader r = o->successors;
    bytecode_put(b, "(");
    for (uint32_t i = 0; i < o->n_operands; i++) {
        bytecode_put(b, i ? ", " : "");
        put_name(b, i);
    }
    bytecode_put(b, ")");
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
    w->opened = f->blocks_left > 0;
    f->ops_left = 0;
}

/* "^bb3(%0: type):", and where its operations begin. */
static void block_begin(struct walk *w)
{
    struct bytecode *b = w->b;
    struct frame *f = walk_top(w);
    uint32_t label = f->next_block++;
    bool has_args;
    f->blocks_left--;
    f->begun = w->opened = false;
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
    uint32_t first = f->next_value;
    for (uint32_t i = 0; i < n_args && !bytecode_stopped(b); i++) {
        bool located = true;
        uint64_t type = b->version >= BYTECODE_ELIDED_LOCATIONS ? bytecode_flagged(&f->r, &located)
                                                                : bytecode_varint(&f->r);
        if (located)
            bytecode_varint(&f->r);
        bytecode_put(b, i ? ", " : "");
        put_name(b, i);
        bytecode_put(b, ": ");
        bytecode_put_type(b, type, 0);
        value_declare(w, type);
    }
    w->defined = first;
    w->n_defined = f->next_value - first;
    w->are_args = true;
    bytecode_put(b, n_args ? "):\n" : unlabelled ? "" : ":\n");
    if (has_args && b->version >= BYTECODE_USE_LISTS && reader_u8(&f->r))
        skip_use_lists(b, &f->r, n_args);
}

/* Pushes the frame for an operation's regions. Those of an isolated operation see no value from
 * outside and lie in a section of their own. */
static void regions_begin(struct walk *w, const struct encoded *o, uint32_t types_at,
                          uint32_t results)
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
                        .n_operands = (uint32_t)o->n_operands,
                        .n_results = (uint32_t)o->n_results,
                        .results = results};
    if (f->own_section) {
        uint8_t id = 0;
        f->r = bytecode_take_section(w->b, &outer->r, &id);
        if (outer->r.failed || id != BYTECODE_IR)
            bytecode_malformed(w->b, "isolated regions without their section");
    }
    w->n_frames++;
    bytecode_put(w->b, " (");
    region_begin(w);
}

/* The text of an operation up to its regions, or whole. */
static void put_op(struct walk *w, struct encoded *o, uint32_t types_at, uint32_t results)
{
    struct bytecode *b = w->b;
    struct frame *f = walk_top(w);
    put_results(b, o->n_results);
    bytecode_put(b, "\"");
    bytecode_put_opname(b, o->name, f->in_function);
    bytecode_put(b, "\"");
    put_operands(b, o, f->first_block);
    if (o->properties || (o->attrs && b->version < BYTECODE_PROPERTIES)) {
        bytecode_put(b, " <{");
        if (o->properties)
            bytecode_put_properties(b, o->name, &b->properties[o->properties - 1]);
        else
            bytecode_put_entries(b, o->attrs - 1); /* of a function they come before its body */
        bytecode_put(b, "}>");
    }
    if (!o->properties && b->version < BYTECODE_PROPERTIES)
        o->attrs = 0;
    f->begun = true;
    if (o->n_regions && !bytecode_stopped(b)) {
        regions_begin(w, o, types_at, results);
        return;
    }
    put_tail(w, o->attrs, types_at, o->n_operands);
    w->defined = results;
    w->n_defined = (uint32_t)o->n_results;
    w->are_args = false;
}

static void op_begin(struct walk *w)
{
    struct bytecode *b = w->b;
    struct frame *f = walk_top(w);
    struct encoded o = {0};
    uint32_t types_at = w->n_types, results = f->next_value;
    f->ops_left--;
    if (!take_op(b, &f->r, &o) || !op_resolve(w, &o))
        return;
    for (uint64_t i = 0; i < o.n_results && !bytecode_stopped(b); i++)
        value_declare(w, w->types[types_at + o.n_operands + i]);
    if (bytecode_stopped(b))
        return;
    list_make(w, &o, types_at, f->in_function);
    if (op_repeats(w, &o, results))
        w->n_types = types_at;
    else
        put_op(w, &o, types_at, results);
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
    w->defined = f->results;
    w->n_defined = f->n_results;
    w->are_args = false;
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

/* Puts the text of what comes next, or none; false at the end. */
static bool walk_step(struct walk *w)
{
    struct frame *f = walk_top(w);
    mapped_pass(&w->mapped, f->r.data);
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
    free(w->operands);
    free(w->known);
    free(w->lists);
    free(w->slots);
    *w = (struct walk){.b = w->b, .pieces = w->pieces, .no_memory = w->no_memory};
}

/* The walk as a text in pieces. */
struct walk_text {
    struct mlir_pieces pieces; /* first: what `next` is called with */
    struct walk w;
    bool ended;
};

#define PIECE_USUAL 65536 /* bytes; the head of a function may have megabytes */

/* Makes room for the next piece. */
static void piece_forget(struct bytecode *b)
{
    size_t max_len = b->out.max_len;
    b->out.len = 0;
    if (b->out.cap > PIECE_USUAL) {
        writer_close(&b->out);
        writer_init(&b->out, max_len);
    }
}

/* A piece is what one step puts, and the label of the first block with what opens its region: a function is
 * read with its arguments. */
static bool text_next(struct mlir_pieces *pieces, struct view *out)
{
    struct walk_text *t = (struct walk_text *)pieces;
    struct walk *w = &t->w;
    struct bytecode *b = w->b;
    if (t->ended)
        return false;
    op_remember(w);
    values_resolve(w);
    piece_forget(b);
    w->n_list = w->n_operands = 0;
    while (!t->ended && (!b->out.len || w->opened))
        t->ended = !walk_step(w);
    if (b->out.len > w->room)
        bytecode_unknown(b, "its text would be too large");
    else
        w->room -= b->out.len;
    if (t->ended && !bytecode_stopped(b) && !reader_done(&walk_top(w)->r))
        bytecode_malformed(b, "operations that do not end where they should");
    pieces->broken = bytecode_stopped(b);
    t->ended |= pieces->broken;
    if (!t->ended && pieces->reader)
        mlir_piece_names(pieces->reader, w->operands, w->n_operands);
    *out = (struct view){b->out.data, b->out.len};
    if (t->ended) {
        walk_close(w);
        bytecode_tables_close(b);
    }
    return !pieces->broken && b->out.len;
}

int bytecode_form_ops(struct bytecode *b, struct reader operations, size_t len, struct form *out,
                      struct err *e)
{
    struct walk_text t = {.pieces = {.next = text_next, .about = 6 * len},
                          .w = {.b = b,
                                .room = BYTECODE_TEXT_MAX(len),
                                .mapped = mapped_begin(b->input, operations.data)}};
    struct view rest;
    t.w.pieces = &t.pieces;
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
