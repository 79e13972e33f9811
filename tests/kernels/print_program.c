/* SPDX-License-Identifier: Apache-2.0 */
/*
 * print_program.c - writes a program as StableHLO, in MLIR's generic text form. Compilers of StableHLO read it,
 * and so does program_read: the derivative of a graph can be printed, hashed and checked by others.
 *
 * Thread: any; no state. Memory: the caller's writer. Recursion: loops, at most PROGRAM_DEPTH_MAX deep.
 */
#include "tests/kernels/print_program.h"

#include <inttypes.h>

static void put(struct writer *w, const char *text) { writer_bytes(w, text, strlen(text)); }

static void put_type(struct writer *w, const struct tensor *t)
{
    put(w, "tensor<");
    for (uint32_t i = 0; i < t->rank; i++)
        writer_format(w, "%" PRId64 "x", t->dims[i]);
    put(w, program_elem_name(t->elem));
    put(w, ">");
}

static void put_types(const struct program *p, struct writer *w, const uint32_t *types, uint32_t n)
{
    put(w, "(");
    for (uint32_t i = 0; i < n; i++) {
        put(w, i ? ", " : "");
        put_type(w, &p->types.at[types[i]]);
    }
    put(w, ")");
}

static void put_values(struct writer *w, const uint32_t *values, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        writer_format(w, i ? ", %%%u" : "%%%u", values[i]);
}

static void put_value_types(const struct program *p, struct writer *w, const uint32_t *values,
                            uint32_t n)
{
    put(w, "(");
    for (uint32_t i = 0; i < n; i++) {
        put(w, i ? ", " : "");
        put_type(w, program_tensor(p, values[i]));
    }
    put(w, ")");
}

static void put_args(const struct program *p, struct writer *w, uint32_t first, uint32_t n)
{
    put(w, "(");
    for (uint32_t i = 0; i < n; i++) {
        writer_format(w, i ? ", %%%u: " : "%%%u: ", first + i);
        put_type(w, program_tensor(p, first + i));
    }
    put(w, ")");
}

/* Writes "key = array<i64: 1, 2>". */
static void put_array(struct writer *w, const char *key, const int64_t *ints, uint32_t n)
{
    writer_format(w, "%s = array<i64", key);
    for (uint32_t i = 0; i < n; i++)
        writer_format(w, i ? ", %" PRId64 : ": %" PRId64, ints[i]);
    put(w, ">");
}

/* Writes "key = [1, 2]". */
static void put_list(struct writer *w, const char *key, const int64_t *ints, int64_t n)
{
    writer_format(w, "%s = [", key);
    for (int64_t i = 0; i < n; i++)
        writer_format(w, i ? ", %" PRId64 : "%" PRId64, ints[i]);
    put(w, "]");
}

/* Writes an element as MLIR's text has it: floating-point numbers as their bits. */
static void put_element(struct writer *w, enum elem elem, const uint8_t *at)
{
    uint32_t size = program_elem_size(elem);
    uint64_t bits = 0;
    memcpy(&bits, at, size);
    if (elem == ELEM_I1)
        put(w, bits ? "true" : "false");
    else if (program_is_float(elem))
        writer_format(w, "0x%0*" PRIX64, (int)size * 2, bits);
    else if (program_elem_kind(elem) == KIND_UNSIGNED)
        writer_format(w, "%" PRIu64, bits);
    else
        writer_format(w, "%" PRId64, (int64_t)(bits << (64 - 8 * size)) >> (64 - 8 * size));
}

/* Writes the elements of a constant, in a bracket for each dimension. */
static void put_elements(struct writer *w, const struct tensor *t, const uint8_t *at)
{
    uint32_t size = program_elem_size(t->elem);
    for (int64_t i = 0; i < t->n; i++) {
        int64_t inner = 1, opens = 0;
        for (uint32_t d = t->rank; d-- > 0;)
            opens += i % (inner *= t->dims[d]) == 0;
        put(w, i ? ", " : "");
        for (int64_t k = 0; k < opens; k++)
            put(w, "[");
        put_element(w, t->elem, at + i * size);
        inner = 1;
        for (uint32_t d = t->rank; d-- > 0;)
            if ((i + 1) % (inner *= t->dims[d]) == 0)
                put(w, "]");
    }
}

static void put_constant(const struct program *p, struct writer *w, const struct tensor *t,
                         const int64_t *ints)
{
    const uint8_t *at = p->data.at + ints[0];
    put(w, "value = dense<");
    if (ints[1])
        put_element(w, t->elem, at);
    else
        put_elements(w, t, at);
    put(w, "> : ");
    put_type(w, t);
}

static const bool HAS_ATTRS[OP_N] = {
    [OP_COMPARE] = true,       [OP_CONSTANT] = true, [OP_IOTA] = true,     [OP_BROADCAST] = true,
    [OP_TRANSPOSE] = true,     [OP_SLICE] = true,    [OP_PAD] = true,      [OP_CONCATENATE] = true,
    [OP_DYNAMIC_SLICE] = true, [OP_WINDOW] = true,   [OP_REVERSE] = true,  [OP_GATHER] = true,
    [OP_SCATTER] = true,       [OP_CHAIN] = true,    [OP_UNWINDOW] = true, [OP_RANK] = true,
    [OP_REDUCE_MANY] = true,   [OP_REDUCE] = true,   [OP_DOT] = true,
};

static void put_attrs(const struct program *p, struct writer *w, const struct operation *op)
{
    static const char *const DIRECTIONS[] = {"EQ", "NE", "GE", "GT", "LE", "LT"};
    static const char *const ORDERS[] = {[KIND_FLOAT] = "FLOAT",
                                         [KIND_SIGNED] = "SIGNED",
                                         [KIND_UNSIGNED] = "UNSIGNED",
                                         [KIND_TRUTH] = "UNSIGNED"};
    const int64_t *ints = p->ints.at + op->ints;
    uint32_t third = op->n_ints / 3;
    switch (op->op) {
    case OP_COMPARE:
        writer_format(w, "comparison_direction = #stablehlo<comparison_direction %s>, ",
                      DIRECTIONS[ints[0]]);
        writer_format(
            w, "compare_type = #stablehlo<comparison_type %s>",
            ints[1]
                ? "TOTALORDER"
                : ORDERS[program_elem_kind(program_tensor(p, p->operands.at[op->operands])->elem)]);
        break;
    case OP_CONSTANT: put_constant(p, w, program_tensor(p, op->results), ints); break;
    case OP_IOTA: writer_format(w, "iota_dimension = %" PRId64 " : i64", ints[0]); break;
    case OP_BROADCAST: put_array(w, "broadcast_dimensions", ints, op->n_ints); break;
    case OP_TRANSPOSE: put_array(w, "permutation", ints, op->n_ints); break;
    case OP_SLICE:
        put_array(w, "start_indices", ints, third);
        put_array(w, ", limit_indices", ints + third, third);
        put_array(w, ", strides", ints + 2 * third, third);
        break;
    case OP_PAD:
        put_array(w, "edge_padding_low", ints, third);
        put_array(w, ", edge_padding_high", ints + third, third);
        put_array(w, ", interior_padding", ints + 2 * third, third);
        break;
    case OP_CONCATENATE: writer_format(w, "dimension = %" PRId64 " : i64", ints[0]); break;
    case OP_DYNAMIC_SLICE: put_array(w, "slice_sizes", ints, op->n_ints); break;
    case OP_REVERSE: put_array(w, "dimensions", ints, op->n_ints); break;
    case OP_GATHER:
    case OP_SCATTER:
    case OP_CHAIN:
    case OP_UNWINDOW:
    case OP_WINDOW: put_array(w, "ints", ints, op->n_ints); break;
    case OP_RANK:
    case OP_REDUCE_MANY: put_array(w, "ints", ints + 1, op->n_ints - 1); break;
    case OP_REDUCE: put_array(w, "dimensions", ints + 1, op->n_ints - 1); break;
    case OP_DOT:
        put(w, "dot_dimension_numbers = #stablehlo.dot<");
        if (ints[0]) {
            put_list(w, "lhs_batching_dimensions", ints + 2, ints[0]);
            put_list(w, ", rhs_batching_dimensions", ints + 2 + ints[0], ints[0]);
        }
        if (ints[1]) {
            const int64_t *contracted = ints + 2 + 2 * ints[0];
            put_list(w, ints[0] ? ", lhs_contracting_dimensions" : "lhs_contracting_dimensions",
                     contracted, ints[1]);
            put_list(w, ", rhs_contracting_dimensions", contracted + ints[1], ints[1]);
        }
        put(w,
            ">, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]");
        break;
    default: break;
    }
}

static void put_name(const struct program *p, struct writer *w, int64_t function)
{
    const char *name = p->functions.at[function].name;
    if (name)
        writer_format(w, "@%s", name);
    else
        writer_format(w, "@private_%" PRId64, function);
}

/* Writes the reducer of a reduction. The names in it are inside of its own region only. */
static void put_reducer(const struct program *p, struct writer *w, const struct operation *op)
{
    struct tensor t = *program_tensor(p, p->operands.at[op->operands + 1]);
    const char *name = program_op_name((enum op)p->ints.at[op->ints]),
               *elem = program_elem_name(t.elem);
    writer_format(w, " ({ ^bb0(%%a%u: tensor<%s>, %%b%u: tensor<%s>):", op->results, elem,
                  op->results, elem);
    writer_format(
        w, " %%c%u = \"stablehlo.%s\"(%%a%u, %%b%u) : (tensor<%s>, tensor<%s>) -> tensor<%s>",
        op->results, name, op->results, op->results, elem, elem, elem);
    writer_format(w, " \"stablehlo.return\"(%%c%u) : (tensor<%s>) -> () })", op->results, elem);
}

static void put_block(const struct program *p, struct writer *w, const struct block *b,
                      const char *returns);

static void put_block(const struct program *p, struct writer *w, const struct block *b,
                      const char *returns);

/* Writes a side function. Its names are those of the side, which are another region's. */
static void put_side(const struct program *p, struct writer *w, const struct operation *op)
{
    const struct program *side = p->side;
    const struct block *b = &side->blocks.at[side->functions.at[p->ints.at[op->ints]].block];
    struct writer text;
    writer_init(&text, 0);
    put(&text, " ({ ^side");
    writer_format(&text, "%u", op->results);
    put_args(side, &text, b->args, b->n_args);
    put(&text, ":\n");
    put_block(side, &text, b, "stablehlo.return");
    put(&text, "  })");
    for (size_t i = 0; i < text.len; i++) { /* %4 becomes %s7_4 */
        writer_bytes(w, text.data + i, 1);
        if (text.data[i] == '%')
            writer_format(w, "s%u_", op->results);
    }
    w->failed |= text.failed;
    writer_close(&text);
}

static void put_op(const struct program *p, struct writer *w, const struct operation *op)
{
    const uint32_t *operands = p->operands.at + op->operands;
    for (uint32_t i = 0; i < op->n_results; i++)
        writer_format(w, i ? ", %%%u" : "  %%%u", op->results + i);
    put(w, op->n_results ? " = " : "  ");
    if (op->op == OP_CALL)
        put(w, "\"func.call\"(");
    else
        writer_format(w, strchr(program_op_name(op->op), '.') ? "\"%s\"(" : "\"stablehlo.%s\"(",
                      program_op_name(op->op));
    put_values(w, operands, op->n_operands);
    put(w, ")");
    if (op->op == OP_CALL) {
        put(w, " <{callee = ");
        put_name(p, w, p->ints.at[op->ints]);
        put(w, "}>");
    } else if (HAS_ATTRS[op->op]) {
        put(w, " <{");
        put_attrs(p, w, op);
        put(w, "}>");
    }
    if (op->op == OP_REDUCE)
        put_reducer(p, w, op);
    if (op->op == OP_RANK || op->op == OP_REDUCE_MANY)
        put_side(p, w, op);
    for (uint32_t i = 0; op->op == OP_WHILE && i < 2; i++) {
        const struct block *b = &p->blocks.at[p->ints.at[op->ints + i]];
        writer_format(w, "%s ^while%u_%u", i ? "}, {\n" : " ({\n", op->results, i);
        put_args(p, w, b->args, b->n_args);
        put(w, ":\n");
        put_block(p, w, b, "stablehlo.return");
    }
    put(w, op->op == OP_WHILE ? "  }) : " : " : ");
    put_value_types(p, w, operands, op->n_operands);
    put(w, " -> (");
    for (uint32_t i = 0; i < op->n_results; i++) {
        put(w, i ? ", " : "");
        put_type(w, program_tensor(p, op->results + i));
    }
    put(w, ")\n");
}

static void put_block(const struct program *p, struct writer *w, const struct block *b,
                      const char *returns)
{
    for (uint32_t i = b->first; i < b->end; i = p->ops.at[i].next)
        put_op(p, w, &p->ops.at[i]);
    writer_format(w, "  \"%s\"(", returns);
    put_values(w, p->operands.at + b->results, b->n_results);
    put(w, ") : ");
    put_value_types(p, w, p->operands.at + b->results, b->n_results);
    put(w, " -> ()\n");
}

void program_write(const struct program *p, struct writer *out)
{
    put(out, "module {\n");
    for (uint32_t i = 0; i < p->functions.n; i++) {
        const struct function *f = &p->functions.at[i];
        const struct block *b = &p->blocks.at[f->block];
        put(out, f->name ? "func.func public " : "func.func private ");
        put_name(p, out, i);
        put_args(p, out, b->args, b->n_args);
        put(out, " -> ");
        put_types(p, out, p->operands.at + f->types, f->n_types);
        put(out, " {\n");
        put_block(p, out, b, "func.return");
        put(out, "}\n");
    }
    put(out, "}\n");
}
