/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sdy.c - writes attributes of the Shardy dialect as text: meshes, shardings and rules. builtin.c
 * calls it.
 *
 * A sharding is `#sdy.sharding<@mesh, [{"x"}, {?}]>`, without its name inside a list. Each part is
 * an attribute with a code of its own. Parts, such as an axis or a dimension, appear in the text
 * only inside another attribute.
 *
 * Thread: any; the state is the caller's.
 * Source: the bytecode definitions and the attribute syntax of Shardy.
 */
#include "keygen/bytecode/bytecode.h"

enum sdy_code {
    MANUAL_AXES,
    MESH_AXIS,
    MESH,
    SUB_AXIS,
    AXIS,
    DIMENSION,
    SHARDING,
    SHARDINGS,
    DIM_MAPPING,
    TENSOR_MAPPING,
    RULE,
};

/* Opens the attribute whose number comes next. False if it has another code. */
static bool open_part(struct bytecode *b, struct reader *r, enum sdy_code code, struct reader *part)
{
    uint64_t have, attr = bytecode_varint(r);
    if (bytecode_attr_open(b, attr, DIALECT_SDY, part, &have) && have == code)
        return true;
    bytecode_malformed(b, "a part of a sharding that is of another kind");
    return false;
}

/* Writes "a, b": reads a count, then writes each part with `put`. */
static void put_parts(struct bytecode *b, struct reader *r, enum sdy_code code,
                      void (*put)(struct bytecode *, struct reader *))
{
    uint64_t n = bytecode_read_count(b, r);
    for (uint64_t i = 0; i < n && !bytecode_stopped(b); i++) {
        struct reader part;
        bytecode_put(b, i ? ", " : "");
        if (open_part(b, r, code, &part))
            put(b, &part);
    }
}

/* Writes an axis: "x" or "x":(2)4. */
static void put_axis(struct bytecode *b, struct reader *r)
{
    bool has_sub;
    bytecode_put_string(b, bytecode_read_string(b, r));
    uint64_t sub = bytecode_flagged(r, &has_sub), code;
    struct reader part;
    if (!has_sub)
        return;
    if (!bytecode_attr_open(b, sub, DIALECT_SDY, &part, &code) || code != SUB_AXIS) {
        bytecode_malformed(b, "a part of an axis that is of another kind");
        return;
    }
    bytecode_put(b, ":(");
    bytecode_put_i64(b, bytecode_signed(&part));
    bytecode_put(b, ")");
    bytecode_put_i64(b, bytecode_signed(&part));
}

/* Writes a dimension: {"x", ?}p1. */
static void put_dimension(struct bytecode *b, struct reader *r)
{
    bytecode_put(b, "{");
    size_t empty = b->out.len;
    put_parts(b, r, AXIS, put_axis);
    if (!reader_u8(r)) /* open: Shardy's propagation may add axes */
        bytecode_put(b, b->out.len == empty ? "?" : ", ?");
    bytecode_put(b, "}");
    bool has_priority;
    uint64_t priority = bytecode_flagged(r, &has_priority);
    if (has_priority) {
        bytecode_put(b, "p");
        bytecode_put_u64(b, priority);
    }
}

/* Writes a sharding: <@mesh, [{"x"}, {}], replicated={"y"}>. */
static void put_sharding(struct bytecode *b, struct reader *r)
{
    bytecode_put(b, "<");
    bytecode_put_attr_of(b, r, 1);
    bytecode_put(b, ", [");
    put_parts(b, r, DIMENSION, put_dimension);
    bytecode_put(b, "]");
    size_t before = b->out.len;
    bytecode_put(b, ", replicated={");
    size_t empty = b->out.len;
    put_parts(b, r, AXIS, put_axis);
    if (b->out.len == empty)
        b->out.len = before;
    else
        bytecode_put(b, "}");
    bytecode_put(b, ">");
}

static void put_mesh_axis(struct bytecode *b, struct reader *r)
{
    bytecode_put_string(b, bytecode_read_string(b, r));
    bytecode_put(b, "=");
    bytecode_put_i64(b, bytecode_signed(r));
}

static void put_mesh(struct bytecode *b, struct reader *r)
{
    bytecode_put(b, "#sdy.mesh<[");
    put_parts(b, r, MESH_AXIS, put_mesh_axis);
    bytecode_put(b, "]");
    uint64_t n = bytecode_read_count(b, r);
    for (uint64_t i = 0; i < n && !bytecode_stopped(b); i++) {
        bytecode_put(b, i ? ", " : ", device_ids=[");
        bytecode_put_i64(b, bytecode_signed(r));
    }
    bytecode_put(b, n ? "]>" : ">");
}

static void put_manual_axes(struct bytecode *b, struct reader *r, int depth)
{
    uint64_t n = bytecode_read_count(b, r);
    bytecode_put(b, "#sdy<manual_axes{");
    for (uint64_t i = 0; i < n && !bytecode_stopped(b); i++) {
        bytecode_put(b, i ? ", " : "");
        bytecode_put_attr_of(b, r, depth);
    }
    bytecode_put(b, "}>");
}

/* ---- rules ---- */

/* Writes the name of a factor: i, j, ... z, z_1, z_2, ... */
static void put_factor(struct bytecode *b, int64_t factor)
{
    if (factor < 0) {
        bytecode_malformed(b, "a factor below zero");
        return;
    }
    char letter[2] = {(char)('i' + (factor < 'z' - 'i' ? factor : 'z' - 'i')), '\0'};
    bytecode_put(b, letter);
    if (factor > 'z' - 'i') {
        bytecode_put(b, "_");
        bytecode_put_i64(b, factor - ('z' - 'i'));
    }
}

static void put_dim_mapping(struct bytecode *b, struct reader *r)
{
    uint64_t n = bytecode_read_count(b, r);
    for (uint64_t i = 0; i < n && !bytecode_stopped(b); i++)
        put_factor(b, bytecode_signed(r));
}

static void put_tensor_mapping(struct bytecode *b, struct reader *r)
{
    bytecode_put(b, "[");
    put_parts(b, r, DIM_MAPPING, put_dim_mapping);
    bytecode_put(b, "]");
}

/* Writes a rule: #sdy.op_sharding_rule<([i, j])->([i, k]) {i=8, j=4, k=2}, custom>. */
static void put_rule(struct bytecode *b, struct reader *r)
{
    uint64_t n = bytecode_read_count(b, r);
    struct reader sizes = *r;
    for (uint64_t i = 0; i < n && !bytecode_stopped(b); i++)
        bytecode_signed(r);
    bytecode_put(b, "#sdy.op_sharding_rule<(");
    put_parts(b, r, TENSOR_MAPPING, put_tensor_mapping);
    bytecode_put(b, ")->(");
    put_parts(b, r, TENSOR_MAPPING, put_tensor_mapping);
    bytecode_put(b, ") {");
    for (uint64_t i = 0; i < n && !bytecode_stopped(b); i++) {
        bytecode_put(b, i ? ", " : "");
        put_factor(b, (int64_t)i);
        bytecode_put(b, "=");
        bytecode_put_i64(b, bytecode_signed(&sizes));
    }
    bytecode_put(b, "}");
    for (int kind = 0; kind < 4; kind++)
        if (bytecode_read_count(b, r))
            bytecode_unknown(b, "a sharding rule with kinds of factors");
    if (reader_u8(r))
        bytecode_put(b, ", custom");
    bytecode_put(b, ">");
}

void bytecode_put_sdy_attr(struct bytecode *b, struct reader *r, int depth)
{
    switch (bytecode_varint(r)) {
    case MANUAL_AXES: put_manual_axes(b, r, depth); break;
    case MESH: put_mesh(b, r); break;
    case SHARDING:
        bytecode_put(b, "#sdy.sharding");
        put_sharding(b, r);
        break;
    case SHARDINGS:
        bytecode_put(b, "#sdy.sharding_per_value<[");
        put_parts(b, r, SHARDING, put_sharding);
        bytecode_put(b, "]>");
        break;
    case RULE: put_rule(b, r); break;
    default: bytecode_unknown(b, "a Shardy attribute that is not known");
    }
}
