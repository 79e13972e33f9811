/* SPDX-License-Identifier: Apache-2.0 */
/*
 * walk.c - turns the operations of MLIR bytecode into generic MLIR text. bytecode.c calls it after
 * it has read the tables.
 *
 * mlir.c reads each operation as a piece of text, in which "%0", "%1", ... are its operands and
 * "%0" are its results. The walk keeps only the number in the graph of each value. It adds an
 * operation that repeats an earlier one to the graph without text (repeat.c).
 *
 * It walks with a stack of regions on the heap.
 *
 * Thread: any; the state is struct walk.
 */
#include "keygen/bytecode/walk.h"

#include <stdlib.h>
#include <string.h>

bool walk_grow(struct walk *w, void *array, uint32_t need, uint32_t *cap, size_t size)
{
    if (*cap && need <= *cap) /* an empty array has memory too, because pointers point into it */
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

/* ---- values ---- */

/* Makes room for `n` more values, which are not defined. */
static bool values_add(struct walk *w, uint32_t n)
{
    uint32_t end = w->n_values + n;
    if (end < n || !walk_grow(w, &w->values, end, &w->cap_values, sizeof *w->values))
        return false;
    while (w->n_values < end)
        w->values[w->n_values++] = GRAPH_NONE;
    return true;
}

/* Gives the next value of the current region this type. */
static void value_declare(struct walk *w, uint64_t type)
{
    struct frame *f = walk_top(w);
    if (f->next_value >= f->end_value)
        bytecode_malformed(w->b, "more values in a region than it says");
    else if (type >= w->b->n_types)
        bytecode_malformed(w->b, "a number of a type that is not there");
    else
        f->next_value++;
}

/* Notes that the current piece defines the `n` values from `first` on. Returns the place for their
 * types. */
static uint32_t *values_promise(struct walk *w, uint32_t first, uint32_t n, bool are_args)
{
    struct numbers *t = &w->defined_types;
    w->defined = first;
    w->are_args = are_args;
    t->n = walk_grow(w, &t->at, n, &t->cap, sizeof *t->at) ? n : 0;
    return t->at;
}

static void results_promise(struct walk *w, uint32_t first, const uint32_t *types, uint32_t n)
{
    uint32_t *to = values_promise(w, first, n, false);
    for (uint32_t i = 0; i < w->defined_types.n; i++)
        to[i] = types[i];
}

/* Notes the type in the graph of a type of the bytecode. */
static void value_type_note(struct walk *w, uint32_t type, uint32_t graph_type)
{
    struct numbers *t = &w->value_types;
    if (graph_type < t->n && t->at[graph_type])
        return;
    if (!walk_grow(w, &t->at, graph_type + 1, &t->cap, sizeof *t->at))
        return;
    while (t->n <= graph_type)
        t->at[t->n++] = 0;
    t->at[graph_type] = type + 1;
}

/* Gets the graph's numbers for the values that the last piece defined. Without a reader of the
 * pieces, the numbers do not matter. */
static void values_resolve(struct walk *w)
{
    struct mlir *reader = w->pieces->reader;
    for (uint32_t i = 0; i < w->defined_types.n; i++) {
        uint32_t value = w->defined + i, graph_type;
        if (reader) {
            value = mlir_piece_value(reader, w->are_args ? i : 0);
            if (value == GRAPH_NONE)
                continue;
            value += w->are_args ? 0 : i;
            mlir_piece_types(reader, &value, 1, &graph_type);
            value_type_note(w, w->defined_types.at[i], graph_type);
        }
        walk_define(w, w->defined + i, value);
    }
    w->defined_types.n = 0;
}

static void put_name(struct bytecode *b, uint32_t n)
{
    bytecode_put(b, "%");
    bytecode_put_u64(b, n);
}

/* ---- encoded operations ---- */

void walk_skip_use_lists(struct bytecode *b, struct reader *r, uint64_t n_values)
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
    uint64_t n = bytecode_varint(r);
    out->n = 0;
    if (n > r->len) {
        bytecode_malformed(w->b, "a count that is larger than what follows");
        return;
    }
    if (n > out->cap && !walk_grow(w, &out->at, (uint32_t)n, &out->cap, sizeof *out->at))
        return;
    for (; out->n < n; out->n++) {
        uint64_t number = bytecode_varint(r);
        out->at[out->n] = number < UINT32_MAX ? (uint32_t)number : UINT32_MAX;
    }
}

static void take_successors(struct walk *w, struct reader *r, struct encoded *o)
{
    o->n_successors = bytecode_varint(r);
    o->successors = *r;
    if (o->n_successors > r->len)
        bytecode_malformed(w->b, "a count that is larger than what follows");
    for (uint64_t i = 0; i < o->n_successors && !bytecode_stopped(w->b); i++)
        bytecode_varint(r);
}

bool walk_take_op(struct walk *w, struct reader *r, struct numbers numbers[2], struct encoded *o)
{
    struct bytecode *b = w->b;
    uint64_t name = bytecode_varint(r);
    *o = (struct encoded){.mask = reader_u8(r), .results = &numbers[0], .operands = &numbers[1]};
    numbers[0].n = numbers[1].n = 0;
    bytecode_varint(r); /* location */
    if (o->mask & HAS_ATTRS)
        o->attrs = bytecode_varint(r) + 1;
    if (o->mask & HAS_PROPERTIES)
        o->properties = bytecode_varint(r) + 1;
    if (o->mask & HAS_RESULTS)
        take_numbers(w, r, o->results);
    if (o->mask & HAS_OPERANDS)
        take_numbers(w, r, o->operands);
    if (o->mask & HAS_SUCCESSORS)
        take_successors(w, r, o);
    if (o->mask & HAS_USE_LISTS)
        walk_skip_use_lists(b, r, o->results->n);
    if (o->mask & HAS_REGIONS)
        o->n_regions = bytecode_flagged(r, &o->isolated);
    if (r->failed || name >= b->n_opnames || o->properties > b->n_properties || o->mask & 0x80 ||
        o->n_regions > r->len)
        bytecode_malformed(b, "an operation that is cut off, or of a name that is not there");
    else
        o->name = &b->opnames[name];
    return !bytecode_stopped(b);
}

/* Replaces the operands' numbers by those of the graph. */
static bool operands_resolve(struct walk *w, const struct encoded *o)
{
    uint32_t *operands = o->operands->at, scope = walk_top(w)->scope, n = w->n_values - scope;
    for (uint32_t i = 0; i < o->operands->n; i++) {
        if (operands[i] >= n) {
            bytecode_malformed(w->b, "a number of a value that is not there");
            return false;
        }
        operands[i] = walk_value(w, scope + operands[i]);
        if (operands[i] == GRAPH_NONE) {
            bytecode_unknown(w->b, "a value that is used before its definition");
            return false;
        }
    }
    return true;
}

/* Pushes the types of operands, then of results, for the text onto w->types. */
static void types_push(struct walk *w, const struct encoded *o)
{
    uint32_t n_operands = o->operands->n, n = n_operands + o->results->n;
    if (!n || !walk_grow(w, &w->types, w->n_types + n, &w->cap_types, sizeof *w->types))
        return;
    uint32_t *types = w->types + w->n_types;
    if (w->pieces->reader)
        mlir_piece_types(w->pieces->reader, o->operands->at, n_operands, types);
    for (uint32_t i = 0; i < n_operands; i++) {
        bool noted = w->pieces->reader && types[i] < w->value_types.n;
        uint32_t type = noted ? w->value_types.at[types[i]] : 0;
        types[i] = type ? type - 1 : 0;
    }
    if (o->results->n)
        memcpy(types + n_operands, o->results->at, o->results->n * sizeof *types);
    w->n_types += n;
}

/* ---- operations as text ---- */

/* Writes "%0:2 = ". */
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

/* Writes "(%0, %1)[^bb1]". */
static void put_operands(struct bytecode *b, const struct encoded *o, uint32_t first_block)
{
    struct reader r = o->successors;
    bytecode_put(b, "(");
    for (uint32_t i = 0; i < o->operands->n; i++) {
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

/* Writes the end of an operation, " {attributes} : (types) -> (types)". Takes back the types that
 * the caller pushed. */
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
    f->next_value = w->n_values;
    if (!values_add(w, (uint32_t)n_values)) {
        bytecode_unknown(b, "more values than can be numbered");
        return;
    }
    f->end_value = w->n_values;
    f->first_block = f->next_block = w->next_block;
    w->next_block += (uint32_t)f->blocks_left;
    w->opened = f->blocks_left > 0;
    f->ops_left = 0;
}

uint64_t walk_take_argument(struct bytecode *b, struct reader *r)
{
    bool located = true;
    uint64_t type = b->version >= BYTECODE_ELIDED_LOCATIONS ? bytecode_flagged(r, &located)
                                                            : bytecode_varint(r);
    if (located)
        bytecode_varint(r);
    return type;
}

/* Writes "^bb3(%0: type):" and sets where the operations of the block begin. */
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
    bool unlabelled = !n_args && label == f->first_block; /* no branch to a first block */
    if (!unlabelled) {
        bytecode_put(b, "^bb");
        bytecode_put_u64(b, label);
    }
    bytecode_put(b, n_args ? "(" : "");
    uint32_t *types = values_promise(w, f->next_value, (uint32_t)n_args, true);
    for (uint32_t i = 0; i < n_args && !bytecode_stopped(b); i++) {
        uint64_t type = walk_take_argument(b, &f->r);
        bytecode_put(b, i ? ", " : "");
        put_name(b, i);
        bytecode_put(b, ": ");
        bytecode_put_type(b, type, 0);
        value_declare(w, type);
        types[i] = (uint32_t)type;
    }
    bytecode_put(b, n_args ? "):\n" : unlabelled ? "" : ":\n");
    if (has_args && b->version >= BYTECODE_USE_LISTS && reader_u8(&f->r))
        walk_skip_use_lists(b, &f->r, n_args);
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
                        .n_operands = o->operands->n,
                        .n_results = o->results->n,
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

/* Writes the text of an operation up to its regions, or the whole text if it has none. */
static void put_op(struct walk *w, struct encoded *o, uint32_t types_at, uint32_t results)
{
    struct bytecode *b = w->b;
    struct frame *f = walk_top(w);
    put_results(b, o->results->n);
    bytecode_put(b, "\"");
    bytecode_put_opname(b, o->name, f->in_function);
    bytecode_put(b, "\"");
    put_operands(b, o, f->first_block);
    if (o->properties || (o->attrs && b->version < BYTECODE_PROPERTIES)) {
        bytecode_put(b, " <{");
        if (o->properties)
            bytecode_put_properties(b, o->name, &b->properties[o->properties - 1]);
        else
            bytecode_put_entries(b, o->attrs - 1); /* a function's come before its body */
        bytecode_put(b, "}>");
    }
    if (!o->properties && b->version < BYTECODE_PROPERTIES)
        o->attrs = 0;
    f->begun = true;
    if (o->n_regions && !bytecode_stopped(b)) {
        regions_begin(w, o, types_at, results);
        return;
    }
    put_tail(w, o->attrs, types_at, o->operands->n);
    results_promise(w, results, o->results->at, o->results->n);
}

static void op_begin(struct walk *w)
{
    struct bytecode *b = w->b;
    struct frame *f = walk_top(w);
    struct encoded o;
    uint32_t types_at = w->n_types, results = f->next_value;
    f->ops_left--;
    if (!walk_take_op(w, &f->r, w->numbers[0], &o) || !operands_resolve(w, &o))
        return;
    for (uint32_t i = 0; i < o.results->n && !bytecode_stopped(b); i++)
        value_declare(w, o.results->at[i]);
    if (bytecode_stopped(b) || repeat_op(w, &o, results))
        return;
    types_push(w, &o);
    if (bytecode_stopped(b))
        return;
    if (o.n_regions)
        repeat_region_begins(w, &o, results);
    put_op(w, &o, types_at, results);
    w->n_named = o.operands->n;
}

/* Ends a region: begins the operation's next region, or ends the operation. */
static void region_end(struct walk *w)
{
    struct frame *f = walk_top(w);
    bytecode_put(w->b, "}");
    repeat_region_ends(w);
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
    results_promise(w, f->results, f->n_results ? w->types + f->types_at + f->n_operands : NULL,
                    f->n_results);
    w->n_frames--;
}

/* Begins the walk. The section of operations is a block without arguments that holds the module. */
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

/* Puts the text of the next step, which may be none; false at the end. */
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
    repeat_close(w);
    for (size_t i = 0; i < 4; i++)
        free(w->numbers[i / 2][i % 2].at);
    free(w->value_types.at);
    free(w->values);
    free(w->defined_types.at);
    free(w->frames);
    free(w->types);
    *w = (struct walk){.b = w->b, .pieces = w->pieces, .no_memory = w->no_memory};
}

/* The walk as a text in pieces. */
struct walk_text {
    struct mlir_pieces pieces; /* first: `next` receives its address */
    struct walk w;
    bool ended;
};

#define PIECE_USUAL 65536 /* bytes; the head of a function may have megabytes */

/* Empties the buffer for the next piece, and frees it after a large piece. */
static void piece_forget(struct bytecode *b)
{
    size_t max_len = b->out.max_len;
    b->out.len = 0;
    if (b->out.cap > PIECE_USUAL) {
        writer_close(&b->out);
        writer_init(&b->out, max_len);
    }
}

/* Makes the next piece: the text of one step. The label of a first block and the text that opens
 * its region make one piece, so that mlir.c reads a function with its arguments. */
static bool text_next(struct mlir_pieces *pieces, struct view *out)
{
    struct walk_text *t = (struct walk_text *)pieces;
    struct walk *w = &t->w;
    struct bytecode *b = w->b;
    if (t->ended)
        return false;
    values_resolve(w);
    repeat_remember(w);
    piece_forget(b);
    w->n_named = 0;
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
        mlir_piece_names(pieces->reader, w->numbers[0][1].at, w->n_named);
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
    struct walk_text t = {
        .pieces = {.next = text_next, .about = 6 * len, .many_processes = b->input->many_processes},
        .w = {.b = b, .room = BYTECODE_TEXT_MAX(len)}};
    struct view rest;
    t.w.pieces = &t.pieces;
    walk_begin(&t.w, operations);
    int code = form_mlir_pieces(&t.pieces, out, e);
    while (text_next(&t.pieces, &rest)) /* an error in the bytecode counts first */
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
