/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hlo_line.c - instructions like ones that were read before.
 *
 * Of 64 equal layers, 63 bring no instruction that differs from an earlier one in more than names and
 * where it came from. So an instruction is taken apart as
 *
 *     %add.7 = f32[8]{0} add(%x.6, %y.2), metadata={op_name="step/add" source_line=12}, k={1}
 *     name     piece         n. p. n. piece        left out                           piece
 *
 * and what the reader made of its pieces is remembered. When the same pieces come again, the operation
 * goes into the graph without a second look at them. What followed the last lines the last time is
 * tried first, so a layer that repeats is compared, not looked up.
 *
 * That is the same as reading it again. The reader goes from left to right, so behind equal pieces and
 * names that are plain words it stands where it stood; it is asked to remember only what depends on
 * nothing but the pieces and the types of the operands:
 *   - metadata is left out if the reader took it as such, it says nothing but where the instruction
 *     came from, and the instruction is no call (hlo.c looks into the metadata of those);
 *   - an attribute that refers to an instruction is not remembered. A word that would, if there were an
 *     instruction of that name, is: all lines are forgotten when there is one;
 *   - names of computations and mesh axes mean the same everywhere;
 *   - the line must end where the reader ended, and what follows must not go on with it.
 *
 * When most lines are new, remembering them is given up.
 *
 * Thread: one at a time. Memory: some 100 bytes for each different line.
 */
#define XXH_INLINE_ALL
#include "keygen/hlo_internal.h"
#include "keygen/vector.h"

#include <stdlib.h>
#include <string.h>

#define PIECE_MAX 2048    /* bytes of a piece that is remembered */
#define LINES_JUDGED 2048 /* lines after which the share of new ones is looked at */
#define FORGOTTEN_MAX 64  /* times that all lines are forgotten before it is given up */
#define METADATA "metadata={"

/* ---- metadata ---- */

/* Behind the metadata at p, if it says nothing but where an instruction came from; else NULL. */
static const char *origin_skip(struct hlo *h, const char *p)
{
    const char *start = p, *end = h->base + h->len;
    size_t len = strlen(METADATA);
    if ((size_t)(end - p) < len || memcmp(p, METADATA, len) != 0)
        return NULL;
    p += len;
    while (p < end && *p != '}') {
        const char *key = p;
        while (p < end && ((*p >= 'a' && *p <= 'z') || *p == '_'))
            p++;
        if (end - p < 2 || *p != '=' || !hlo_is_origin_key(key, (size_t)(p - key)))
            return NULL;
        p++;
        if (*p == '"')
            p = h->base + hlo_after_string(h, (uint32_t)(p - h->base));
        else
            while (p < end && *p >= '0' && *p <= '9')
                p++;
        if (p < end && *p == ' ')
            p++;
        else if (p < end && *p != '}')
            return NULL;
    }
    return p < end && !memchr(start, '\n', (size_t)(p - start)) ? p + 1 : NULL;
}

/* ---- lines that repeat ---- */

/* The operation of a shape with these operands, of which the first result goes to *out. */
static bool shape_put(struct hlo *h, const struct line_shape *shape, const uint32_t *operands,
                      uint32_t *out)
{
    const uint32_t *types = shape->n_operands ? &h->lines.types[shape->types] : NULL;
    return graph_op_of_shape(h->g, shape->op, types, operands, out);
}

static const char *piece_skip(const struct hlo *h, const char *p, struct span piece)
{
    bool same = (size_t)(h->base + h->len - p) >= piece.len &&
                memcmp(p, h->base + piece.at, piece.len) == 0;
    return same ? p + piece.len : NULL;
}

/* The end of the instruction whose type is at p if it is as `shape`, and its operands; else NULL. */
static const char *line_is(struct hlo *h, const char *p, const struct line_shape *shape,
                           uint32_t operands[HLO_OPERANDS_MAX])
{
    const char *end = h->base + h->len;
    const struct span *piece = &h->lines.pieces[shape->pieces];
    for (uint32_t i = 0; (p = piece_skip(h, p, *piece++)) && i < shape->n_operands; i++) {
        struct span name = {(uint32_t)(p - h->base), 0};
        while (p < end && hlo_class_of(*p) == WORD)
            p++;
        name.len = (uint32_t)(p - h->base) - name.at;
        operands[i] = hlo_value_find(h, name);
        if (operands[i] == GRAPH_NONE)
            return NULL;
    }
    if (p && shape->has_metadata)
        p = (p = origin_skip(h, p)) ? piece_skip(h, p, *piece) : NULL;
    return p && p < end && *p == '\n' ? p : NULL;
}

/* Where the next instruction begins if the one before it ends at p; else NULL. */
static const char *line_follower(const struct hlo *h, const char *p)
{
    const char *end = h->base + h->len;
    while (p < end && (*p == ' ' || *p == '\n'))
        p++;
    return p < end && (*p == '}' || hlo_class_of(*p) == WORD) ? p : NULL;
}

/* The line at h->at; false, and nothing has changed, if it is not what followed the last time. */
static bool line_repeats(struct hlo *h)
{
    struct lines *l = &h->lines;
    uint32_t next = follow_next(&l->follow), operands[HLO_OPERANDS_MAX], value;
    const char *p = next ? line_follower(h, h->base + h->at) : NULL, *end;
    if (!p || *p == '}')
        return false;
    const struct line_shape *shape = &l->shapes[next - 1];
    p += *p == '%';
    struct span name = {(uint32_t)(p - h->base), 0};
    while (p < h->base + h->len && hlo_class_of(*p) == WORD)
        p++;
    name.len = (uint32_t)(p - h->base) - name.at;
    if (!name.len || !hlo_starts_with(h, name.at + name.len, " = ") ||
        !(end = line_is(h, p + 3, shape, operands)) || !(end = line_follower(h, end)) ||
        !shape_put(h, shape, operands, &value))
        return false;
    l->n_met++;
    h->n_noted--;
    follow_add(&l->follow, next);
    h->at = (uint32_t)(end - h->base);
    if (!hlo_value_add(h, name, value, false))
        hlo_fail(h, WARM_EMALFORMED, name.at, "an instruction with this name exists");
    return true;
}

void hlo_lines_repeat(struct hlo *h)
{
    while (!h->code && line_repeats(h))
        ;
}

/* ---- lines that are known ---- */

/* The metadata among the attributes of an instruction if it is to be left out. False if the line is not
 * to be remembered for its sake. */
static bool metadata_of(struct hlo *h, const struct instr *in, struct span *out)
{
    uint32_t n = 0;
    *out = (struct span){in->end, 0};
    for (uint32_t i = 0; i < in->n_attrs; i++) {
        const struct attr *a = &h->attrs[in->attrs + i];
        if (!hlo_span_is(h, a->key, "metadata"))
            continue;
        *out = (struct span){a->key.at, a->value.at + a->value.len - a->key.at};
        const char *p = h->base + out->at;
        if (n++ || hlo_span_is(h, in->opcode, "call") || origin_skip(h, p) != p + out->len)
            return false;
    }
    return true;
}

void hlo_line_split(struct hlo *h, const struct instr *in)
{
    struct line *l = &h->line;
    struct span metadata;
    uint32_t at = in->type.at;
    l->open = false;
    l->n_operands = hlo_span_is(h, in->opcode, "constant") ? 0 : in->n_operands;
    if (h->lines.given_up || l->n_operands > HLO_OPERANDS_MAX || !metadata_of(h, in, &metadata))
        return;
    l->has_metadata = metadata.len > 0;
    for (uint32_t i = 0; i < l->n_operands; i++) {
        l->names[i] = h->operands[in->operands + i];
        l->pieces[i] = (struct span){at, l->names[i].at - at};
        at = l->names[i].at + l->names[i].len;
    }
    l->pieces[l->n_operands] = (struct span){at, metadata.at - at};
    at = metadata.at + metadata.len;
    l->pieces[l->n_operands + 1] = (struct span){at, in->end - at};
    uint64_t hash = l->n_operands * 2 + l->has_metadata;
    for (uint32_t i = 0; i < l->n_operands + 2; i++) {
        if (l->pieces[i].len > PIECE_MAX)
            return;
        hash = XXH3_64bits_withSeed(h->base + l->pieces[i].at, l->pieces[i].len, hash);
    }
    l->hash = (uint32_t)hash;
    l->open = true;
}

static bool shape_is(const struct hlo *h, const struct line_shape *s)
{
    const struct line *l = &h->line;
    const struct span *pieces = &h->lines.pieces[s->pieces];
    if (s->hash != l->hash || s->n_operands != l->n_operands || s->has_metadata != l->has_metadata)
        return false;
    for (uint32_t i = 0; i < l->n_operands + 2; i++)
        if (pieces[i].len != l->pieces[i].len ||
            memcmp(h->base + pieces[i].at, h->base + l->pieces[i].at, pieces[i].len) != 0)
            return false;
    return true;
}

/* The slot of the line that was split, or the empty one where it would be. */
static uint32_t *shape_slot(const struct hlo *h)
{
    const struct lines *l = &h->lines;
    for (uint32_t i = h->line.hash & l->mask;; i = (i + 1) & l->mask)
        if (!l->slots[i] || shape_is(h, &l->shapes[l->slots[i] - 1]))
            return &l->slots[i];
}

uint32_t hlo_line_known(struct hlo *h)
{
    struct lines *l = &h->lines;
    uint32_t operands[HLO_OPERANDS_MAX], value, i = 0;
    if (!h->line.open)
        return GRAPH_NONE;
    l->n_met++;
    uint32_t known = l->slots ? *shape_slot(h) : 0;
    if (!known)
        return GRAPH_NONE;
    h->line.open = false;
    const struct line_shape *shape = &l->shapes[known - 1];
    while (i < h->line.n_operands &&
           (operands[i] = hlo_value_find(h, h->line.names[i])) != GRAPH_NONE)
        i++;
    if (i < h->line.n_operands || !shape_put(h, shape, operands, &value))
        return GRAPH_NONE;
    follow_add(&l->follow, known);
    return value;
}

/* ---- remembering ---- */

static void lines_forget(struct lines *l)
{
    l->n_shapes = l->n_types = l->n_pieces = 0;
    memset(&l->follow, 0, sizeof l->follow);
    if (l->slots)
        memset(l->slots, 0, ((size_t)l->mask + 1) * sizeof *l->slots);
}

/* Keeps at most one of two slots in use. */
static bool slots_reserve(struct hlo *h)
{
    struct lines *l = &h->lines;
    if (l->slots && l->n_shapes < l->mask / 2)
        return true;
    uint32_t mask = l->slots ? 2 * l->mask + 1 : 255;
    uint32_t *slots = vector_zeroes((size_t)mask + 1, sizeof *slots);
    if (!slots) {
        hlo_fail(h, WARM_ENOMEM, h->at, "out of memory");
        return false;
    }
    for (uint32_t s = 0; s < l->n_shapes; s++) {
        uint32_t i = l->shapes[s].hash & mask;
        while (slots[i])
            i = (i + 1) & mask;
        slots[i] = s + 1;
    }
    free(l->slots);
    l->slots = slots;
    l->mask = mask;
    return true;
}

/* Appends the types of the operands and the pieces of the line; false without memory. */
static bool parts_keep(struct hlo *h, const uint32_t *operands, uint32_t n)
{
    struct lines *l = &h->lines;
    for (uint32_t i = 0; i < n; i++) {
        if (!hlo_grow(h, &l->types, l->n_types, &l->cap_types, sizeof *l->types))
            return false;
        l->types[l->n_types++] = graph_value_type(h->g, operands[i]);
    }
    for (uint32_t i = 0; i < n + 2; i++) {
        if (!hlo_grow(h, &l->pieces, l->n_pieces, &l->cap_pieces, sizeof *l->pieces))
            return false;
        l->pieces[l->n_pieces++] = h->line.pieces[i];
    }
    return true;
}

void hlo_line_record(struct hlo *h, uint32_t type)
{
    struct lines *l = &h->lines;
    const struct line *line = &h->line;
    struct graph_op_shape op = graph_op_shape(h->g);
    if (!line->open || h->code || h->n_extra || graph_failed(h->g) ||
        op.n_operands != line->n_operands || !slots_reserve(h) ||
        !hlo_grow(h, &l->shapes, l->n_shapes, &l->cap_shapes, sizeof *l->shapes))
        return;
    h->line.open = false;
    op.n_results = 1;
    struct line_shape shape = {.op = graph_shape(h->g, &op, &type),
                               .n_operands = op.n_operands,
                               .hash = line->hash,
                               .types = l->n_types,
                               .pieces = l->n_pieces,
                               .has_metadata = line->has_metadata};
    if (!parts_keep(h, graph_op_operands(h->g), op.n_operands))
        return;
    *shape_slot(h) = l->n_shapes + 1;
    l->shapes[l->n_shapes++] = shape;
    follow_add(&l->follow, l->n_shapes);
    if (l->n_shapes >= LINES_JUDGED && l->n_shapes > l->n_met / 2)
        hlo_lines_close(l);
}

void hlo_line_loose(struct hlo *h, struct span word)
{
    struct lines *l = &h->lines;
    if (!word.len || l->given_up)
        return;
    hlo_names_add(h, &l->loose, word, 0);
    l->loose_bits |= (uint64_t)1 << ((uint8_t)h->base[word.at] + 7 * word.len) % 64;
}

void hlo_lines_named(struct hlo *h, struct span name)
{
    struct lines *l = &h->lines;
    uint64_t bit = (uint64_t)1 << ((uint8_t)h->base[name.at] + 7 * name.len) % 64;
    if (l->given_up || !(l->loose_bits & bit) || hlo_names_find(h, &l->loose, name) == GRAPH_NONE)
        return;
    if (++l->n_forgotten > FORGOTTEN_MAX)
        hlo_lines_close(l);
    else
        lines_forget(l);
}

void hlo_lines_close(struct lines *l)
{
    free(l->shapes);
    free(l->types);
    free(l->pieces);
    free(l->slots);
    hlo_names_close(&l->loose);
    memset(l, 0, sizeof *l);
    l->given_up = true;
}
