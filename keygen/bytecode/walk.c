/* SPDX-License-Identifier: Apache-2.0 */
/*
 * walk.c - adds the operations of MLIR bytecode to the graph. bytecode.c calls it after it has read
 * the tables.
 *
 * The reader of MLIR text reads the types and the dictionaries (mlir/reader.h). The walk writes them
 * as text: each type once, and the dictionary of an operation mostly once for each name, attributes
 * and properties that come together (struct memo). An operation whose numbers repeat, apart from its
 * operands, is one look-up. Of a value the walk keeps only the number in the graph.
 *
 * It walks with a stack of regions on the heap.
 *
 * Thread: any; the state is struct walk. Memory: 4 bytes for each value and block of the current
 * function, and for each type.
 */
#include <stdlib.h>
#include <string.h>

#include "keygen/bytecode/bytecode.h"
#include "keygen/mlir/reader.h"

struct numbers {
    uint32_t *at;
    uint32_t n, cap;
};

enum frame_kind { FRAME_OP, FRAME_FUNC, FRAME_MODULE };

/* An open region, and its operation. */
struct frame {
    struct reader r; /* an isolated region has a section of its own */
    enum frame_kind kind;
    uint64_t regions_left; /* after the current one */
    uint64_t blocks_left, ops_left;
    bool own_section, in_function;
    uint32_t scope;         /* first value of the isolated scope */
    uint32_t values_before; /* values before the region: the number at its end */
    uint32_t next_value, end_value;
    uint32_t labels, n_labels;  /* first of its blocks in `labels`; blocks that have a label */
    uint32_t name;              /* of its operation */
    uint64_t attrs, properties; /* of its operation: see struct encoded */
    uint32_t dict;              /* of its operation */
    uint32_t types, n_results, results; /* first in `types`; its first result */
};

/* An operation, decoded. */
struct encoded {
    uint32_t name;
    uint8_t mask;
    bool isolated;
    uint64_t attrs, properties, n_regions; /* attrs, properties: number + 1; 0: none */
    struct numbers *results;               /* types; after resolving: types of the graph */
    struct numbers *operands;              /* values; after resolving: values of the graph */
    struct reader successors;              /* at its first number */
    uint64_t n_successors;
};

/* A number of the reader or the graph, and the length of its text. */
struct known {
    uint32_t number; /* + 1; 0: none yet */
    uint32_t len;
};

#define MEMOS 512u

/* A number of the graph. Its key for a dictionary: an operation's name, attributes and properties. Its key for
 * a shape: these, the number of operands + 1, and the result's type + 1 or 0. */
struct memo {
    uint32_t key[5];
    uint32_t number, len; /* of the graph; of the text. 0: none */
};

struct walk {
    struct bytecode *b;
    struct mlir *m;
    struct graph *g;
    struct frame *frames;
    uint32_t n_frames, cap_frames;
    struct numbers values;     /* the value in the graph, GRAPH_NONE before its definition */
    struct numbers labels;     /* of blocks; GRAPH_NONE before their first mention */
    struct numbers types;      /* of the results of open operations */
    struct numbers numbers[2]; /* of the current operation; the arguments of the current block */
    struct known *ops;         /* by name; the second half: directly in a function */
    struct known *graph_types; /* by type */
    size_t room;               /* bytes left for the text */
    struct memo memos[MEMOS];  /* by a hash of the key; another one may take its place */
};

static struct frame *top(const struct walk *w) { return &w->frames[w->n_frames - 1]; }

static bool stopped(const struct walk *w)
{
    return bytecode_stopped(w->b) || mlir_reader_stopped(w->m);
}

/* Makes room for `need` entries; false without memory. `array` points to the pointer. */
static bool grow(struct walk *w, void *array, uint32_t need, uint32_t *cap, size_t size)
{
    if (*cap && need <= *cap) /* an empty array has memory too, because pointers point into it */
        return true;
    void *old;
    memcpy(&old, array, sizeof old);
    uint64_t more = (uint64_t)need + need / 2 + 64;
    void *new = more < UINT32_MAX ? realloc(old, more * size) : NULL;
    if (!bytecode_got_memory(w->b, new))
        return false;
    memcpy(array, &new, sizeof new);
    *cap = (uint32_t)more;
    return true;
}

/* Appends `n` times GRAPH_NONE. */
static bool numbers_add(struct walk *w, struct numbers *to, uint32_t n)
{
    uint32_t end = to->n + n;
    if (end < n || !grow(w, &to->at, end, &to->cap, sizeof *to->at))
        return false;
    while (to->n < end)
        to->at[to->n++] = GRAPH_NONE;
    return true;
}

/* Takes the length of a text off the room, for each mention of the text. */
static void charge(struct walk *w, size_t len)
{
    if (len > w->room)
        bytecode_unknown(w->b, "its text would be too large");
    else
        w->room -= len;
}

/* ---- texts ---- */

#define BUFFER_USUAL 65536 /* bytes; a constant, or the head of a function, may have megabytes */

/* Empties the buffer for texts, and frees it after a large text. */
static void texts_begin(struct bytecode *b)
{
    size_t max_len = b->out.max_len;
    b->out.len = 0;
    if (b->out.cap > BUFFER_USUAL) {
        writer_close(&b->out);
        writer_init(&b->out, max_len);
    }
}

static uint32_t short_len(size_t len) { return len < UINT32_MAX ? (uint32_t)len : UINT32_MAX; }

static struct view text_from(const struct bytecode *b, size_t start)
{
    return (struct view){b->out.data + start, b->out.len - start};
}

/* Returns the graph's number of a type. */
static uint32_t type_of(struct walk *w, uint64_t type)
{
    struct bytecode *b = w->b;
    struct known *t = type < b->n_types ? &w->graph_types[type] : NULL;
    if (!t) {
        bytecode_malformed(b, "a number of a type that is not there");
        return 0;
    }
    if (!t->number) {
        size_t start = b->out.len;
        bytecode_put_type(b, type, 0);
        if (stopped(w))
            return 0;
        struct view text = text_from(b, start);
        *t = (struct known){mlir_reader_type(w->m, text) + 1, short_len(text.len)};
        b->out.len = start;
    }
    charge(w, t->len);
    return t->number - 1;
}

/* Returns the reader's number of a name. */
static uint32_t op_of(struct walk *w, uint32_t name, bool in_function)
{
    struct bytecode *b = w->b;
    if (!BYTECODE_EXPECT(b, name < b->n_opnames))
        return 0;
    struct known *op = &w->ops[in_function ? b->n_opnames + name : name];
    if (!op->number) {
        texts_begin(b);
        bytecode_put(b, "\"");
        bytecode_put_opname(b, &b->opnames[name], in_function);
        bytecode_put(b, "\"");
        if (stopped(w))
            return 0;
        struct view text = text_from(b, 0);
        const char *quote = memchr((const char *)text.data + 1, '"', text.len - 1);
        if (!WARM_EXPECT(quote) || quote + 1 != (const char *)text.data + text.len ||
            memchr(text.data, '\\', text.len))
            bytecode_unknown(b, "an operation's name that would need escapes");
        op->number = mlir_reader_op(w->m, text) + 1;
    }
    return op->number - 1;
}

/* Returns the label of a block in the current region: a number, by first mention. */
static uint32_t label_of(struct walk *w, uint64_t block)
{
    struct frame *f = top(w);
    if (block >= w->labels.n - f->labels) {
        bytecode_malformed(w->b, "a number of a block that is not there");
        return 0;
    }
    uint32_t *label = &w->labels.at[f->labels + block];
    if (*label == GRAPH_NONE)
        *label = f->n_labels++;
    return *label;
}

/* Writes the parts of an operation that make its dictionary. They are valid until the next text. */
static struct mlir_parts parts_of(struct walk *w, const struct encoded *o)
{
    struct bytecode *b = w->b;
    bool early = o->attrs && !o->properties && b->version < BYTECODE_PROPERTIES;
    if (!BYTECODE_EXPECT(b, o->name < b->n_opnames && o->properties <= b->n_properties))
        return (struct mlir_parts){0};
    texts_begin(b);
    if (o->properties || early) {
        bytecode_put(b, "{");
        if (early) /* no version has both: the attributes are the properties */
            bytecode_put_entries(b, o->attrs - 1);
        else
            bytecode_put_properties(b, &b->opnames[o->name], &b->properties[o->properties - 1]);
        bytecode_put(b, "}");
    }
    size_t attributes = b->out.len;
    if (o->attrs && !early) {
        bytecode_put(b, "{");
        bytecode_put_entries(b, o->attrs - 1);
        bytecode_put(b, "}");
    }
    size_t successors = b->out.len;
    /* [^1, ^2] */
    struct reader r = o->successors;
    for (uint64_t i = 0; i < o->n_successors && !bytecode_stopped(w->b); i++) {
        bytecode_put(w->b, i ? ", ^" : "[^");
        bytecode_put_u64(w->b, label_of(w, bytecode_varint(&r)));
    }
    bytecode_put(w->b, o->n_successors ? "]" : "");
    charge(w, b->out.len);
    if (stopped(w))
        return (struct mlir_parts){0};
    const uint8_t *at = b->out.data;
    return (struct mlir_parts){.properties = {at, attributes},
                               .attributes = {at + attributes, successors - attributes},
                               .successors = text_from(b, successors)};
}

/* Returns the memo of a key, or the one that may become it. */
static inline struct memo *memo_of(struct walk *w, const uint32_t key[5], bool *out_found)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < 5; i++)
        hash = (hash + key[i]) * 0x9E3779B97F4A7C15u;
    struct memo *memo = &w->memos[hash / (UINT64_MAX / MEMOS + 1)];
    *out_found = memo->len && memcmp(memo->key, key, sizeof memo->key) == 0;
    return memo;
}

static void memo_set(struct memo *memo, const uint32_t key[5], uint32_t number, size_t len)
{
    memcpy(memo->key, key, sizeof memo->key);
    memo->number = number;
    memo->len = short_len(len);
}

/* Returns the dictionary of an operation. */
static uint32_t dict_of(struct walk *w, const struct encoded *o, uint32_t op)
{
    const uint32_t key[5] = {op, (uint32_t)o->attrs, (uint32_t)o->properties};
    bool found;
    struct memo *memo = memo_of(w, key, &found);
    if (!o->attrs && !o->properties && !o->n_successors)
        return 0;
    if (found && !o->n_successors) {
        charge(w, memo->len);
        return memo->number;
    }
    struct mlir_parts parts = parts_of(w, o);
    uint32_t dict = stopped(w) ? 0 : mlir_reader_dict(w->m, op, &parts);
    if (!o->n_successors && !stopped(w))
        memo_set(memo, key, dict, w->b->out.len);
    return dict;
}

/* ---- encoded operations ---- */

/* Skips the order of each value's uses. It has no meaning for the program. */
static void skip_use_lists(struct bytecode *b, struct reader *r, uint64_t n_values)
{
    uint64_t n = n_values == 1 ? 1 : bytecode_read_count(b, r);
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

enum { /* the fields behind an operation's name and location */
       HAS_ATTRS = 1,
       HAS_RESULTS = 2,
       HAS_OPERANDS = 4,
       HAS_SUCCESSORS = 8,
       HAS_REGIONS = 16,
       HAS_USE_LISTS = 32,
       HAS_PROPERTIES = 64,
};

/* Takes a count, then so many numbers. */
static void take_numbers(struct walk *w, struct reader *r, struct numbers *out)
{
    uint64_t n = bytecode_read_count(w->b, r);
    out->n = 0;
    if (n > out->cap && !grow(w, &out->at, (uint32_t)n, &out->cap, sizeof *out->at))
        return;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t number = bytecode_varint(r);
        out->at[i] = number < UINT32_MAX ? (uint32_t)number : UINT32_MAX;
    }
    out->n = (uint32_t)n;
}

/* Takes the next operation. False, and the reading stops, if there is none. */
static bool take_op(struct walk *w, struct reader *r, struct encoded *o)
{
    struct bytecode *b = w->b;
    uint64_t name = bytecode_varint(r);
    *o = (struct encoded){
        .mask = reader_u8(r), .results = &w->numbers[0], .operands = &w->numbers[1]};
    w->numbers[0].n = w->numbers[1].n = 0;
    uint64_t location = bytecode_varint(r);
    if (o->mask & HAS_ATTRS)
        o->attrs = bytecode_varint(r) + 1;
    if (o->mask & HAS_PROPERTIES)
        o->properties = bytecode_varint(r) + 1;
    if (o->mask & HAS_RESULTS)
        take_numbers(w, r, o->results);
    if (o->mask & HAS_OPERANDS)
        take_numbers(w, r, o->operands);
    if (o->mask & HAS_SUCCESSORS) {
        o->n_successors = bytecode_read_count(w->b, r);
        o->successors = *r;
        for (uint64_t i = 0; i < o->n_successors && !bytecode_stopped(w->b); i++)
            bytecode_varint(r);
    }
    if (o->mask & HAS_USE_LISTS)
        skip_use_lists(b, r, o->results->n);
    if (o->mask & HAS_REGIONS)
        o->n_regions = bytecode_flagged(r, &o->isolated);
    if (r->failed || name >= b->n_opnames || o->properties > b->n_properties || o->mask & 0x80 ||
        o->n_regions > r->len || o->attrs > b->n_attrs)
        bytecode_malformed(b, "an operation that is cut off, or of a name that is not there");
    else
        o->name = (uint32_t)name;
    if (b->input->sought && !bytecode_stopped(b))
        bytecode_seek(b, &b->opnames[name], location, top(w)->in_function);
    return !bytecode_stopped(b);
}

/* Replaces the operands' numbers by those of the graph. */
static bool operands_resolve(struct walk *w, const struct encoded *o)
{
    uint32_t *operands = o->operands->at, scope = top(w)->scope, n = w->values.n - scope;
    for (uint32_t i = 0; i < o->operands->n; i++) {
        if (operands[i] >= n) {
            bytecode_malformed(w->b, "a number of a value that is not there");
            return false;
        }
        operands[i] = w->values.at[scope + operands[i]];
        if (operands[i] == GRAPH_NONE) {
            bytecode_unknown(w->b, "a value that is used before its definition");
            return false;
        }
    }
    return true;
}

/* Returns the first of the next `n` values of the current region. */
static uint32_t values_declare(struct walk *w, uint32_t n)
{
    struct frame *f = top(w);
    uint32_t first = f->next_value;
    if (!BYTECODE_EXPECT(w->b, first <= f->end_value))
        return first;
    if (n > f->end_value - first)
        bytecode_malformed(w->b, "more values in a region than it says");
    else
        f->next_value += n;
    return first;
}

/* Replaces types by those of the graph. */
static void types_resolve(struct walk *w, struct numbers *types)
{
    for (uint32_t i = 0; i < types->n && !bytecode_stopped(w->b); i++)
        types->at[i] = type_of(w, types->at[i]);
}

/* Defines `n` values from `first` on as those of the graph from `value` on. */
static void values_define(struct walk *w, uint32_t first, uint32_t n, uint32_t value)
{
    (void)BYTECODE_EXPECT(w->b, n <= w->values.n && first <= w->values.n - n);
    for (uint32_t i = 0; i < n && !w->b->why; i++)
        w->values.at[first + i] = value + i;
}

/* ---- regions ---- */

/* Begins the function of the frame on top, whose first block has these arguments. Returns the value
 * of the first. */
static uint32_t func_begin(struct walk *w, const struct numbers *args, bool is_declaration)
{
    const struct frame *f = top(w);
    struct encoded o = {.name = f->name, .attrs = f->attrs, .properties = f->properties};
    uint32_t op = op_of(w, f->name, false);
    struct mlir_parts parts = parts_of(w, &o);
    return stopped(w) ? 0 : mlir_reader_func(w->m, op, &parts, args->at, args->n, is_declaration);
}

/* Enters the next region of the frame on top: its blocks, and room for its values. */
static void region_begin(struct walk *w)
{
    struct bytecode *b = w->b;
    struct frame *f = top(w);
    f->values_before = f->next_value = w->values.n;
    f->blocks_left = bytecode_varint(&f->r);
    uint64_t n_values = f->blocks_left ? bytecode_varint(&f->r) : 0;
    if (f->r.failed || n_values > f->r.len || f->blocks_left > f->r.len) {
        bytecode_malformed(b, "a region that is cut off");
        return;
    }
    f->labels = w->labels.n;
    f->n_labels = 0;
    if (!numbers_add(w, &w->values, (uint32_t)n_values) ||
        !numbers_add(w, &w->labels, (uint32_t)f->blocks_left)) {
        bytecode_unknown(b, "more values than can be numbered");
        return;
    }
    f->end_value = w->values.n;
    f->ops_left = 0;
    if (f->kind == FRAME_OP)
        graph_region_begin(w->g);
    else if (f->kind == FRAME_FUNC && !f->blocks_left)
        func_begin(w, &(struct numbers){0}, true);
}

static void take_arguments(struct walk *w, struct reader *r, uint64_t n)
{
    struct numbers *args = &w->numbers[0];
    bool located = true, elided = w->b->version >= BYTECODE_ELIDED_LOCATIONS;
    if (n > r->len || !grow(w, &args->at, (uint32_t)n, &args->cap, sizeof *args->at)) {
        bytecode_malformed(w->b, "a block that is cut off");
        return;
    }
    for (args->n = 0; args->n < n && !r->failed;) {
        uint64_t type = elided ? bytecode_flagged(r, &located) : bytecode_varint(r);
        if (located)
            bytecode_varint(r);
        args->at[args->n++] = type < UINT32_MAX ? (uint32_t)type : UINT32_MAX;
    }
}

/* Begins the next block: its arguments, and the place where its operations begin. */
static void block_begin(struct walk *w)
{
    struct bytecode *b = w->b;
    struct frame *f = top(w);
    struct numbers *args = &w->numbers[0];
    uint64_t index = w->labels.n - f->labels - f->blocks_left--;
    bool has_args;
    (void)BYTECODE_EXPECT(b, index < w->labels.n - f->labels);
    args->n = 0;
    f->ops_left = bytecode_flagged(&f->r, &has_args);
    if (has_args)
        take_arguments(w, &f->r, bytecode_varint(&f->r));
    if (f->r.failed || f->ops_left > f->r.len)
        bytecode_malformed(b, "a block that is cut off");
    uint32_t first = values_declare(w, args->n), label = label_of(w, index), value = 0;
    types_resolve(w, args);
    if (stopped(w))
        return;
    if (f->kind == FRAME_MODULE && (index || args->n)) {
        bytecode_unknown(b, "a module with blocks");
    } else if (f->kind == FRAME_FUNC && !index) {
        if (!f->ops_left)
            bytecode_unknown(b, "a function with an empty block");
        value = func_begin(w, args, false);
    } else if (f->kind != FRAME_MODULE) {
        graph_block_begin(w->g, label);
        value = graph_n_values(w->g);
        for (uint32_t i = 0; i < args->n; i++)
            graph_block_arg(w->g, args->at[i]);
    }
    values_define(w, first, args->n, value);
    if (has_args && b->version >= BYTECODE_USE_LISTS && reader_u8(&f->r))
        skip_use_lists(b, &f->r, args->n);
}

/* Pushes the frame for an operation's regions. Those of an isolated operation see no value from
 * outside and lie in a section of their own. */
static void regions_begin(struct walk *w, const struct encoded *o, enum frame_kind kind,
                          uint32_t op, uint32_t dict, uint32_t results)
{
    struct bytecode *b = w->b;
    struct view name = b->opnames[o->name].name;
    uint32_t types = w->types.n, n_results = o->results->n;
    if (kind != FRAME_OP && (o->n_regions != 1 || o->operands->n || n_results || o->n_successors))
        bytecode_unknown(b, "a function or module of an unknown form");
    if (!grow(w, &w->frames, w->n_frames + 1, &w->cap_frames, sizeof *w->frames) ||
        !numbers_add(w, &w->types, n_results) || bytecode_stopped(b))
        return;
    struct frame *outer = top(w), *f = &w->frames[w->n_frames++];
    *f = (struct frame){.r = outer->r,
                        .kind = kind,
                        .regions_left = o->n_regions - 1,
                        .own_section = o->isolated && b->version >= BYTECODE_LAZY_REGIONS,
                        .in_function = view_is(name, "func") || view_is(name, "func_v1"),
                        .scope = o->isolated ? w->values.n : outer->scope,
                        .name = o->name,
                        .attrs = o->attrs,
                        .properties = o->properties,
                        .dict = dict,
                        .types = types,
                        .n_results = n_results,
                        .results = results};
    if (n_results)
        memcpy(w->types.at + types, o->results->at, n_results * sizeof *w->types.at);
    if (f->own_section) {
        uint8_t id = 0;
        f->r = bytecode_take_section(b, &outer->r, &id);
        if (outer->r.failed || id != BYTECODE_IR)
            bytecode_malformed(b, "isolated regions without their section");
    }
    if (kind == FRAME_MODULE) {
        struct mlir_parts parts = parts_of(w, o);
        if (!stopped(w))
            mlir_reader_module(w->m, op, &parts);
    } else if (kind == FRAME_OP) {
        graph_op_begin(w->g, mlir_reader_name(w->m, op));
        for (uint32_t i = 0; i < o->operands->n; i++)
            graph_op_operand(w->g, o->operands->at[i]);
    }
    region_begin(w);
}

/* Returns what an operation with regions is here: a module at the top, a function in it. */
static enum frame_kind kind_of(const struct walk *w, const struct encoded *o)
{
    const struct bytecode_opname *op = &w->b->opnames[o->name];
    bool in_module = w->n_frames == 1 || (w->n_frames == 2 && w->frames[1].kind == FRAME_MODULE);
    if (!in_module)
        return FRAME_OP;
    if (w->n_frames == 1 && view_is(op->dialect, "builtin") && view_is(op->name, "module"))
        return FRAME_MODULE;
    return (view_is(op->dialect, "func") && view_is(op->name, "func")) ||
                   (op->vhlo && view_is(op->name, "func_v1"))
               ? FRAME_FUNC
               : FRAME_OP;
}

/* Returns the graph's shape of an operation without regions. */
static uint32_t shape_of(struct walk *w, const struct encoded *o)
{
    uint32_t n = o->results->n,
             key[5] = {o->name << 1 | top(w)->in_function, (uint32_t)o->attrs,
                       (uint32_t)o->properties, o->operands->n + 1, n ? o->results->at[0] + 1 : 0};
    size_t room = w->room;
    bool found;
    uint32_t op = op_of(w, o->name, top(w)->in_function);
    types_resolve(w, o->results);
    uint32_t dict = stopped(w) ? 0 : dict_of(w, o, op);
    if (stopped(w))
        return 0;
    struct graph_op_shape shape = {.name = mlir_reader_name(w->m, op),
                                   .dict = dict,
                                   .n_operands = o->operands->n,
                                   .n_results = n};
    uint32_t number = graph_shape(w->g, &shape, o->results->at);
    if (!o->n_successors && n < 2)
        memo_set(memo_of(w, key, &found), key, number, room - w->room + 1);
    return number;
}

#define OPERANDS_USUAL 16

/* Adds the next operation, if one with the same numbers but for the operands came before. False: nothing
 * has changed. */
static bool op_repeats(struct walk *w)
{
    struct frame *f = top(w);
    struct reader r = f->r;
    uint32_t operands[OPERANDS_USUAL], value, n_values = w->values.n - f->scope;
    uint64_t name = bytecode_varint(&r), attrs = 0, properties = 0, type = 0, n = 0, more = 0;
    uint8_t mask = reader_u8(&r);
    bytecode_varint(&r); /* location */
    if (mask & HAS_ATTRS)
        attrs = bytecode_varint(&r) + 1;
    if (mask & HAS_PROPERTIES)
        properties = bytecode_varint(&r) + 1;
    if (mask & HAS_RESULTS) {
        more = bytecode_varint(&r) - 1;
        type = bytecode_varint(&r) + 1;
    }
    if (mask & HAS_OPERANDS)
        n = bytecode_varint(&r);
    const uint32_t key[5] = {(uint32_t)name << 1 | f->in_function, (uint32_t)attrs,
                             (uint32_t)properties, (uint32_t)n + 1, (uint32_t)type};
    bool found;
    const struct memo *memo = memo_of(w, key, &found);
    if (!found || w->b->input->sought ||
        mask & (HAS_SUCCESSORS | HAS_REGIONS | HAS_USE_LISTS | 0x80) || more ||
        n > OPERANDS_USUAL || (name | attrs | properties | type) >> 31 ||
        (type && f->next_value == f->end_value))
        return false;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t operand = bytecode_varint(&r);
        operands[i] = operand < n_values ? w->values.at[f->scope + operand] : GRAPH_NONE;
        if (operands[i] == GRAPH_NONE)
            return false;
    }
    if (r.failed || !graph_op_of_shape(w->g, memo->number, operands, &value))
        return false;
    charge(w, memo->len - 1);
    if (type)
        w->values.at[f->next_value++] = value;
    f->r = r;
    f->ops_left--;
    return true;
}

static void op_begin(struct walk *w)
{
    struct frame *f = top(w);
    struct encoded o;
    f->ops_left--;
    if (!take_op(w, &f->r, &o) || !operands_resolve(w, &o))
        return;
    uint32_t results = values_declare(w, o.results->n), value;
    if (!o.n_regions) {
        uint32_t shape = shape_of(w, &o);
        if (!stopped(w) && graph_op_of_shape(w->g, shape, o.operands->at, &value))
            values_define(w, results, o.results->n, value);
        return;
    }
    enum frame_kind kind = kind_of(w, &o);
    uint32_t op = op_of(w, o.name, f->in_function);
    types_resolve(w, o.results);
    uint32_t dict = kind == FRAME_OP && !stopped(w) ? dict_of(w, &o, op) : 0;
    if (!stopped(w))
        regions_begin(w, &o, kind, op, dict, results);
}

/* Ends a region: begins the operation's next region, or ends the operation. */
static void region_end(struct walk *w)
{
    struct frame *f = top(w);
    /* each inner region has removed its own values, labels and types */
    if (!BYTECODE_EXPECT(w->b, w->n_frames > 1 && w->values.n == f->end_value &&
                                   w->labels.n >= f->labels && w->types.n >= f->types))
        return;
    if (f->kind == FRAME_OP)
        graph_region_end(w->g);
    w->values.n = f->values_before;
    w->labels.n = f->labels;
    if (f->regions_left) {
        f->regions_left--;
        region_begin(w);
        return;
    }
    if (!f->own_section)
        w->frames[w->n_frames - 2].r = f->r;
    else if (!reader_done(&f->r))
        bytecode_malformed(w->b, "regions that do not end where they should");
    if (f->kind == FRAME_FUNC)
        graph_func_end(w->g);
    if (f->kind == FRAME_OP) {
        graph_op_dict(w->g, f->dict);
        for (uint32_t i = 0; i < f->n_results; i++)
            graph_op_result(w->g, w->types.at[f->types + i]);
        values_define(w, f->results, f->n_results, graph_op_end(w->g));
    }
    w->types.n = f->types;
    w->n_frames--;
}

/* ---- the walk ---- */

/* Begins the walk. The section of operations is a block without arguments that holds the module. */
static void walk_begin(struct walk *w, struct reader r)
{
    struct bytecode *b = w->b;
    bool has_args;
    w->ops = calloc(2 * (size_t)b->n_opnames + 1, sizeof *w->ops);
    w->graph_types = calloc((size_t)b->n_types + 1, sizeof *w->graph_types);
    if (!bytecode_got_memory(b, w->ops) || !bytecode_got_memory(b, w->graph_types) ||
        !grow(w, &w->frames, 1, &w->cap_frames, sizeof *w->frames))
        return;
    uint64_t n_ops = bytecode_flagged(&r, &has_args);
    if (r.failed || has_args || n_ops != 1)
        bytecode_malformed(b, "operations that are not one module");
    w->frames[0] = (struct frame){.kind = FRAME_MODULE, .r = r, .ops_left = n_ops};
    w->n_frames = 1;
}

/* Walks on by one operation, or by the begin of a block or the end of a region; false at the end. */
static bool walk_step(struct walk *w)
{
    struct frame *f = top(w);
    if (f->r.failed)
        bytecode_malformed(w->b, "operations that are cut off");
    else if (f->ops_left && op_repeats(w))
        return !stopped(w);
    else if (f->ops_left)
        op_begin(w);
    else if (f->blocks_left)
        block_begin(w);
    else if (w->n_frames > 1)
        region_end(w);
    else
        return false;
    return !stopped(w);
}

int bytecode_form_ops(struct bytecode *b, struct reader operations, size_t len, struct form *out,
                      struct err *e)
{
    struct walk w = {.b = b, .room = BYTECODE_TEXT_MAX(len)};
    w.m = mlir_reader_new(b->input->many_processes, out, e);
    if (!w.m) {
        bytecode_tables_close(b);
        return err_set(e, WARM_ENOMEM, "no memory to read bytecode");
    }
    w.g = mlir_reader_graph(w.m);
    walk_begin(&w, operations);
    bool more = !stopped(&w);
    while (more)
        more = walk_step(&w);
    (void)BYTECODE_EXPECT(b, stopped(&w) || (w.n_frames == 1 && !w.values.n && !w.types.n));
    if (!stopped(&w) && !reader_done(&top(&w)->r))
        bytecode_malformed(b, "operations that do not end where they should");
    struct numbers *all[] = {&w.values, &w.labels, &w.types, &w.numbers[0], &w.numbers[1]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]->at);
    free(w.frames);
    free(w.ops);
    free(w.graph_types);
    bytecode_tables_close(b);
    int code = mlir_reader_free(w.m, !bytecode_stopped(b), out, e);
    if (code == WARM_EMALFORMED || code == WARM_ETRUNCATED) {
        out->why_exact = "its attributes cannot be spelled as text";
        return WARM_EUNSUPPORTED;
    }
    return code;
}
