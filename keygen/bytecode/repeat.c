/* SPDX-License-Identifier: Apache-2.0 */
/*
 * repeat.c - adds operations of bytecode to the graph that repeat earlier ones. walk.c calls it for
 * each operation before it prints the operation as text.
 *
 * An operation apart from the identity of its operands is a list of numbers:
 *
 *     name, attributes, properties, counts, types of results, types of operands in the graph
 *
 * A reduction has one region of one block with a few plain operations. The list then continues with
 *
 *     counts of arguments and operations, types of arguments, the list of each operation, in which
 *     an operand is its place among the region's values
 *
 * If a list comes again, mlir.c would read the same text again. So the walk adds the operation to
 * the graph as the earlier one. mlir/line.c decides which operations may repeat. One with a region
 * may if each operation inside may. mlir.c always reads the first operation of a block as text,
 * because the block begins with it.
 *
 * Evidence: without the regions that repeat, a key takes 40 to 48 % more instructions (callgrind,
 * real modules).
 *
 * Thread: one at a time for a walk; the state is struct walk. Memory: the lists.
 */
#define XXH_INLINE_ALL
#include "keygen/bytecode/walk.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "keygen/vector.h"

enum { /* the beginning of a list */
       LIST_NAME,
       LIST_ATTRS,
       LIST_PROPERTIES,
       LIST_COUNTS, /* operands << 16, results << 1, 1 if it has a region */
       LIST_HEAD,
};

/* ---- lists ---- */

static bool is_plain(const struct encoded *o)
{
    return !o->n_regions && !o->n_successors && o->operands->n <= REPEATED_MAX &&
           o->results->n <= REPEATED_MAX;
}

/* Adds the head of a list, the types of results, and room for as many numbers as the operation has
 * operands. Returns that room, or NULL if the list is full. */
static uint32_t *list_add(const struct walk *w, struct op_list *l, const struct encoded *o,
                          bool in_function)
{
    uint32_t n_operands = o->operands->n, n_results = o->results->n, *at = l->at + l->n;
    if (n_operands > REPEATED_MAX || n_results > REPEATED_MAX || o->attrs > w->b->n_attrs ||
        l->n + LIST_HEAD + n_operands + n_results > LIST_MAX)
        return NULL;
    at[LIST_NAME] = (uint32_t)(o->name - w->b->opnames) << 1 | in_function;
    at[LIST_ATTRS] = (uint32_t)o->attrs;
    at[LIST_PROPERTIES] = (uint32_t)o->properties;
    at[LIST_COUNTS] = n_operands << 16 | n_results << 1 | (o->n_regions != 0);
    for (uint32_t i = 0; i < n_results; i++)
        at[LIST_HEAD + i] = o->results->at[i];
    l->n += LIST_HEAD + n_operands + n_results;
    return at + LIST_HEAD + n_results;
}

/* Adds an operation in the region. The region's values begin behind those of the walk; *n of them
 * are known. `scope`: the first value that the region can name. */
static bool list_add_inner(struct walk *w, struct op_list *l, struct reader *r, uint32_t scope,
                           uint32_t *n)
{
    struct encoded o;
    if (!walk_take_op(w, r, w->numbers[1], &o) || !is_plain(&o))
        return false;
    uint32_t *operands = list_add(w, l, &o, false);
    for (uint32_t i = 0; operands && i < o.operands->n; i++) {
        uint64_t place = (uint64_t)scope + o.operands->at[i];
        if (place < w->n_values || place - w->n_values >= *n)
            return false;
        operands[i] = (uint32_t)(place - w->n_values);
    }
    *n += o.results->n;
    return operands && *n <= REPEATED_MAX;
}

/* Adds the region at `r` and moves behind it. False if the walk cannot remember it. */
static bool list_add_region(struct walk *w, struct op_list *l, struct reader *r, uint32_t scope)
{
    struct bytecode *b = w->b;
    bool has_args;
    uint64_t n_blocks = bytecode_varint(r), n_values = n_blocks ? bytecode_varint(r) : 0;
    uint64_t n_ops = bytecode_flagged(r, &has_args), n_args = has_args ? bytecode_varint(r) : 0;
    if (n_blocks != 1 || n_args > BODY_MAX || !n_ops || n_ops > BODY_MAX ||
        l->n + 1 + n_args > LIST_MAX)
        return false;
    l->at[l->n++] = (uint32_t)(n_args << 16 | n_ops);
    for (uint64_t i = 0; i < n_args; i++) {
        uint64_t type = walk_take_argument(b, r);
        if (type >= b->n_types)
            return false;
        l->at[l->n++] = (uint32_t)type;
    }
    if (has_args && b->version >= BYTECODE_USE_LISTS && reader_u8(r))
        walk_skip_use_lists(b, r, n_args);
    uint32_t n = (uint32_t)n_args;
    for (uint64_t i = 0; i < n_ops; i++)
        if (!list_add_inner(w, l, r, scope, &n))
            return false;
    return n == n_values && !r->failed;
}

/* Adds the region of an operation. That of an isolated operation sees no value from outside and
 * lies in a section of its own. */
static bool list_add_region_of(struct walk *w, const struct encoded *o, struct op_list *l,
                               struct reader *r)
{
    uint8_t id = 0;
    if (!o->isolated)
        return list_add_region(w, l, r, walk_top(w)->scope);
    if (w->b->version < BYTECODE_LAZY_REGIONS)
        return list_add_region(w, l, r, w->n_values);
    struct reader section = bytecode_take_section(w->b, r, &id);
    return !r->failed && id == BYTECODE_IR && list_add_region(w, l, &section, w->n_values) &&
           reader_done(&section);
}

/* Makes the list of the current operation; `r` moves behind the operation's region, if it has one.
 * The list is empty if the walk cannot remember the operation. The walk itself reports errors in
 * the region. */
static void list_make(struct walk *w, const struct encoded *o, struct reader *r)
{
    struct op_list *l = &w->list;
    struct bytecode *b = w->b;
    l->n = 0;
    bool one_region = o->n_regions == 1 && !o->n_successors;
    if (!one_region && !is_plain(o))
        return;
    uint32_t *types = list_add(w, l, o, walk_top(w)->in_function);
    if (types)
        mlir_piece_types(w->pieces->reader, o->operands->at, o->operands->n, types);
    if (types && one_region && !list_add_region_of(w, o, l, r)) {
        l->n = 0;
        b->wrong = b->why = NULL;
    }
}

/* Returns the slot of a list, or the empty slot for it. */
static uint32_t *known_slot(const struct walk *w, const struct op_list *l, uint64_t hash)
{
    for (uint32_t i = (uint32_t)hash & w->mask;; i = (i + 1) & w->mask) {
        const struct known_op *k = w->slots[i] ? &w->known[w->slots[i] - 1] : NULL;
        if (!k || (k->hash == hash && k->n == l->n &&
                   memcmp(w->lists + k->list, l->at, k->n * sizeof *l->at) == 0))
            return &w->slots[i];
    }
}

/* Keeps at least half of the slots empty. False without memory. */
static bool slots_reserve(struct walk *w)
{
    if (w->slots && w->n_known < w->mask / 2)
        return true;
    uint32_t mask = w->slots ? 2 * w->mask + 1 : 255;
    uint32_t *slots = calloc((size_t)mask + 1, sizeof *slots);
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

static uint64_t list_hash(const struct op_list *l)
{
    return XXH3_64bits(l->at, l->n * sizeof *l->at);
}

/* Remembers an operation. The caller fills the `more` numbers behind its list. NULL if the
 * operation is known, or without memory. */
static uint32_t *known_add(struct walk *w, const struct op_list *l, uint32_t shape, size_t text_len,
                           uint32_t more)
{
    if (!slots_reserve(w) ||
        !walk_grow(w, &w->known, w->n_known + 1, &w->cap_known, sizeof *w->known) ||
        !walk_grow(w, &w->lists, w->n_lists + l->n + more, &w->cap_lists, sizeof *w->lists))
        return NULL;
    uint64_t hash = list_hash(l);
    uint32_t *slot = known_slot(w, l, hash), *list = w->lists + w->n_lists;
    if (*slot)
        return NULL;
    memcpy(list, l->at, l->n * sizeof *list);
    w->known[w->n_known] = (struct known_op){.hash = hash,
                                             .list = w->n_lists,
                                             .n = l->n,
                                             .shape = shape,
                                             .text_len = (uint32_t)text_len};
    w->n_lists += l->n + more;
    *slot = ++w->n_known;
    return list + l->n;
}

/* ---- operations that repeat ---- */

/* The numbers behind the list of an operation with a region. */
enum {
    REGION_NAME,
    REGION_DICT,
    REGION_N_ARGS,
    REGION_N_OPS,
    REGION_TYPES, /* types of results, types of arguments, then shapes of operations */
};

/* Adds an operation with a region to the graph, from the numbers behind its list. */
static bool region_repeats(struct walk *w, const struct known_op *k, const struct encoded *o,
                           uint32_t *out)
{
    const uint32_t *numbers = w->lists + k->list + k->n, *types = numbers + REGION_TYPES;
    uint32_t n_args = numbers[REGION_N_ARGS], n_results = o->results->n;
    struct mlir_piece_region region = {.op = {.name = numbers[REGION_NAME],
                                              .dict = numbers[REGION_DICT],
                                              .n_operands = o->operands->n,
                                              .n_results = n_results},
                                       .results = types,
                                       .args = types + n_results,
                                       .n_args = n_args};
    const uint32_t *shapes = region.args + n_args, *at = w->lists + k->list + LIST_HEAD + n_results;
    at += o->operands->n + 1 + n_args;
    mlir_piece_region_begin(w->pieces->reader, &region, o->operands->at);
    for (uint32_t i = 0; i < numbers[REGION_N_OPS]; i++) {
        uint32_t counts = at[LIST_COUNTS], n_operands = counts >> 16;
        at += LIST_HEAD + (counts >> 1 & 0x7fff);
        mlir_piece_region_op(w->pieces->reader, &region, shapes[i], at, n_operands);
        at += n_operands;
    }
    return mlir_piece_region_end(w->pieces->reader, &region, out);
}

/* Adds a shape to the body of the region that the walk reads for the first time. 0: the operation
 * may not repeat. */
static void capture_add(struct walk *w, uint32_t shape)
{
    struct capture *c = &w->capture;
    if (!c->frame)
        return;
    if (!shape || c->n_shapes == BODY_MAX)
        c->frame = 0;
    else
        c->shapes[c->n_shapes++] = shape;
}

bool repeat_op(struct walk *w, const struct encoded *o, uint32_t results)
{
    struct mlir *reader = w->pieces->reader;
    struct frame *f = walk_top(w);
    struct reader r = f->r;
    uint32_t first = GRAPH_NONE;
    w->list.n = 0;
    if (!reader)
        return false;
    list_make(w, o, &r);
    if (!w->list.n || !w->slots || !f->begun)
        return false;
    uint32_t known = *known_slot(w, &w->list, list_hash(&w->list));
    const struct known_op *k = known ? &w->known[known - 1] : NULL;
    if (!k || k->text_len > w->room ||
        !(k->shape ? mlir_piece_repeats(reader, k->shape, o->operands->at, o->operands->n,
                                        o->results->n, &first)
                   : region_repeats(w, k, o, &first)))
        return false;
    w->room -= k->text_len;
    f->r = r;
    for (uint32_t i = 0; i < o->results->n; i++)
        walk_define(w, results + i, first + i);
    capture_add(w, k->shape);
    w->list.n = 0;
    return true;
}

/* ---- operations with a region, read for the first time ---- */

void repeat_region_begins(struct walk *w, const struct encoded *o, uint32_t results)
{
    struct capture *c = &w->capture;
    if (!w->list.n)
        return;
    c->frame = w->n_frames + 1;
    c->ended = false;
    c->list.n = w->list.n;
    memcpy(c->list.at, w->list.at, w->list.n * sizeof *c->list.at);
    c->n_shapes = 0;
    c->results = results;
    c->n_results = o->results->n;
    c->room = w->room;
    w->list.n = 0;
}

void repeat_region_ends(struct walk *w)
{
    struct capture *c = &w->capture;
    const struct frame *f = walk_top(w);
    if (c->frame != w->n_frames)
        return;
    const uint32_t *at = c->list.at, counts = at[LIST_COUNTS];
    uint32_t body = at[LIST_HEAD + (counts >> 1 & 0x7fff) + (counts >> 16)], args[BODY_MAX];
    c->frame = 0;
    c->n_args = body >> 16;
    c->ended = c->n_shapes == (body & 0xffff) && w->pieces->reader;
    for (uint32_t i = 0; c->ended && i < c->n_args; i++)
        args[i] = walk_value(w, f->values_before + i);
    if (c->ended)
        mlir_piece_types(w->pieces->reader, args, c->n_args, c->args);
}

/* Remembers the operation with the captured region, which has ended. */
static void region_remember(struct walk *w)
{
    struct capture *c = &w->capture;
    struct mlir *reader = w->pieces->reader;
    uint32_t values[REPEATED_MAX], types[REPEATED_MAX];
    c->ended = false;
    struct graph_op_shape op = mlir_piece_operation(reader);
    if (op.n_results != c->n_results)
        return;
    for (uint32_t i = 0; i < c->n_results; i++)
        values[i] = walk_value(w, c->results + i);
    mlir_piece_types(reader, values, c->n_results, types);
    uint32_t more = REGION_TYPES + c->n_results + c->n_args + c->n_shapes;
    uint32_t *numbers = known_add(w, &c->list, 0, c->room - w->room, more);
    if (!numbers)
        return;
    numbers[REGION_NAME] = op.name;
    numbers[REGION_DICT] = op.dict;
    numbers[REGION_N_ARGS] = c->n_args;
    numbers[REGION_N_OPS] = c->n_shapes;
    numbers += REGION_TYPES;
    for (uint32_t i = 0; i < c->n_results; i++)
        *numbers++ = types[i];
    for (uint32_t i = 0; i < c->n_args; i++)
        *numbers++ = c->args[i];
    for (uint32_t i = 0; i < c->n_shapes; i++)
        *numbers++ = c->shapes[i];
}

void repeat_remember(struct walk *w)
{
    struct mlir *reader = w->pieces->reader;
    if (!reader)
        return;
    if (w->capture.ended) {
        region_remember(w);
    } else if (w->list.n) {
        uint32_t shape = mlir_piece_shape(reader);
        capture_add(w, shape);
        if (shape)
            known_add(w, &w->list, shape, w->b->out.len, 0);
    }
    w->list.n = 0;
}

void repeat_close(struct walk *w)
{
    free(w->known);
    free(w->lists);
    free(w->slots);
}
