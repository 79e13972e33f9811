/* SPDX-License-Identifier: Apache-2.0 */
/*
 * program.c - stores a program: types once each, and operations that check.c has accepted. read.c and
 * the passes of the compiler call it.
 *
 * Thread: one at a time for a program; no other state.
 */
#include "kernels/program/program.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/program/check.h"
#include "keygen/expect.h"

static const char *const NAMES[] = {
#define X(name, text, operands, elements) text,
    PROGRAM_OPS(X)
#undef X
};

static const char *const ELEM_NAMES[] = {
#define X(name, text, size, kind) text,
    PROGRAM_ELEMS(X)
#undef X
};

const char *program_elem_name(enum elem elem)
{
    return WARM_EXPECT((unsigned)elem < ELEM_N) ? ELEM_NAMES[elem] : "no elements";
}

const char *program_op_name(enum op op)
{
    return WARM_EXPECT((unsigned)op < OP_N) ? NAMES[op] : "no operation";
}

struct dot_side program_dot_side(const int64_t *ints, uint32_t which, uint32_t rank)
{
    uint32_t b = (uint32_t)ints[0], c = (uint32_t)ints[1];
    struct dot_side s = {.batch = ints + 2 + which * b,
                         .contracted = ints + 2 + 2 * b + which * c,
                         .n_batch = b,
                         .n_contracted = c};
    for (uint32_t d = 0; d < rank; d++) {
        bool is_free = true;
        for (uint32_t i = 0; i < b; i++)
            is_free &= s.batch[i] != d;
        for (uint32_t i = 0; i < c; i++)
            is_free &= s.contracted[i] != d;
        if (is_free)
            s.free[s.n_free++] = d;
    }
    (void)WARM_EXPECT(b + c + s.n_free == rank); /* each dimension has one role */
    return s;
}

int program_fault(struct err *e)
{
    return err_set(e, WARM_EINVALID, "a fault of the graph compiler: please report it");
}

/* True for an array that an added value may move. */
static bool is_own(const void *own, size_t bytes, const void *array)
{
    return (uintptr_t)array - (uintptr_t)own < bytes;
}

/* True if all of these are values of the program. */
static bool are_values(const struct program *p, const uint32_t *values, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (values[i] >= p->values.n)
            return false;
    return true;
}

/* Makes room in the arrays into which pointers go even if they are empty: NULL + 0 is undefined. */
static bool has_arrays(struct program *p)
{
    return vector_grow(&p->failed, &p->operands.at, &p->operands.cap, 0, sizeof *p->operands.at) &&
           vector_grow(&p->failed, &p->ints.at, &p->ints.cap, 0, sizeof *p->ints.at) &&
           vector_grow(&p->failed, &p->data.at, &p->data.cap, 0, sizeof *p->data.at);
}

struct program *program_new(void)
{
    struct program *p = calloc(1, sizeof *p);
    if (p)
        p->users = 1;
    if (p && has_arrays(p))
        return p;
    program_free(p);
    return NULL;
}

struct program *program_share(struct program *side)
{
    if (side)
        side->users++;
    return side;
}

void program_free(struct program *p)
{
    if (!p || p->users-- > 1)
        return;
    program_free(p->side);
    for (uint32_t i = 0; i < p->names.n; i++)
        free(p->names.at[i]);
    free(p->names.at);
    free(p->types.at);
    slots_close(&p->type_slots);
    free(p->values.at);
    free(p->ops.at);
    free(p->operands.at);
    free(p->ints.at);
    free(p->blocks.at);
    free(p->functions.at);
    free(p->data.at);
    free(p);
}

uint32_t program_function(const struct program *p, const char *name)
{
    uint32_t found = PROGRAM_NONE;
    for (uint32_t i = 0; i < p->functions.n; i++) {
        const char *its = p->functions.at[i].name;
        if (!its || (name && strcmp(name, its) != 0))
            continue;
        if (found != PROGRAM_NONE)
            return PROGRAM_NONE;
        found = i;
    }
    return found;
}

/* ---- types ---- */

static uint64_t type_hash(const struct tensor *t)
{
    uint64_t h = (uint64_t)t->elem * 31 + t->rank;
    for (uint32_t i = 0; i < t->rank; i++) {
        h = (h ^ (uint64_t)t->dims[i]) * 0x9E3779B97F4A7C15u;
        h ^= h >> 29;
    }
    return h;
}

int program_type(struct program *p, struct tensor *type, uint32_t *out, struct err *e)
{
    if (!WARM_EXPECT(type->rank <= PROGRAM_RANK_MAX))
        return program_fault(e);
    int64_t n =
        1; /* the other dimensions of an empty tensor count, too: strides are their products */
    bool empty = false;
    for (uint32_t i = 0; i < type->rank; i++) {
        empty |= type->dims[i] == 0;
        if (type->dims[i] < 0 || __builtin_mul_overflow(n, type->dims[i] ? type->dims[i] : 1, &n) ||
            n > PROGRAM_ELEMENTS_MAX)
            return err_set(e, WARM_ETOO_BIG, "a tensor of more than 2^40 elements");
    }
    type->n = empty ? 0 : n;
    p->failed |= !slots_reserve(&p->type_slots);
    if (p->failed)
        return err_set(e, WARM_ENOMEM, "a type");
    uint64_t hash = type_hash(type);
    SLOTS_EACH(&p->type_slots, hash, i)
    {
        *out = i;
        if (check_same(&p->types.at[i], type))
            return 0;
    }
    *out = p->types.n;
    PUSH(p, p->types, *type);
    if (p->failed)
        return err_set(e, WARM_ENOMEM, "a type");
    slots_add(&p->type_slots, hash, *out);
    return 0;
}

/* ---- functions and operations ---- */

int program_func_begin(struct program *p, const char *name, const uint32_t *types, uint32_t n_types,
                       uint32_t *out_args, struct err *e)
{
    if (!WARM_EXPECT(name && (types || !n_types)))
        return program_fault(e);
    char *copy = strdup(name);
    if (copy)
        PUSH(p, p->names, copy);
    if (!copy || p->failed) {
        free(copy);
        return err_set(e, WARM_ENOMEM, "a function");
    }
    *out_args = p->values.n;
    PUSH(p, p->functions,
         (struct function){.name = copy, .block = p->blocks.n, .forward = PROGRAM_NONE});
    PUSH(p, p->blocks, (struct block){.args = p->values.n, .n_args = n_types, .first = p->ops.n});
    for (uint32_t i = 0; i < n_types; i++)
        PUSH(p, p->values, types[i]);
    return p->failed ? err_set(e, WARM_ENOMEM, "a function") : 0;
}

int program_func_end(struct program *p, const uint32_t *values, uint32_t n, struct err *e)
{
    if (!WARM_EXPECT(p->functions.n && are_values(p, values, n)))
        return program_fault(e);
    struct function *f = &p->functions.at[p->functions.n - 1];
    struct block *b = &p->blocks.at[f->block];
    b->end = p->ops.n;
    b->results = p->operands.n;
    b->n_results = f->n_types = n;
    for (uint32_t i = 0; i < n; i++)
        PUSH(p, p->operands, values[i]);
    f->types = p->operands.n;
    for (uint32_t i = 0; i < n; i++)
        PUSH(p, p->operands, p->values.at[values[i]]);
    return p->failed ? err_set(e, WARM_ENOMEM, "a function") : 0;
}

int program_add(struct program *p, const struct new_op *op, uint32_t *out, struct err *e)
{
    if (!WARM_EXPECT(
            (unsigned)op->op < OP_N && op->op != OP_WHILE && op->op != OP_CALL &&
            are_values(p, op->operands, op->n_operands) &&
            !is_own(p->operands.at, p->operands.n * sizeof *p->operands.at, op->operands) &&
            !is_own(p->ints.at, p->ints.n * sizeof *p->ints.at, op->ints)))
        return program_fault(e);
    struct tensor result;
    struct err why = {0};
    uint32_t type = 0;
    int rc = check_op(p, op, &result, &why);
    if (rc == 0)
        rc = program_type(p, &result, &type, &why);
    if (rc == 0 && op->type != PROGRAM_NONE && op->type != type)
        rc = err_set(&why, WARM_EINVALID, "the result's type does not follow from the operands");
    if (rc) {
        err_set(e, rc, "%s: %s", NAMES[op->op], why.text);
        if (e)
            e->line = op->line;
        return rc;
    }
    struct operation add = {.op = op->op,
                            .line = op->line,
                            .operands = p->operands.n,
                            .n_operands = op->n_operands,
                            .ints = p->ints.n,
                            .n_ints = op->n_ints,
                            .results = p->values.n,
                            .n_results = 1,
                            .next = p->ops.n + 1};
    for (uint32_t i = 0; i < op->n_operands; i++)
        PUSH(p, p->operands, op->operands[i]);
    for (uint32_t i = 0; i < op->n_ints; i++)
        PUSH(p, p->ints, op->ints[i]);
    PUSH(p, p->values, type);
    PUSH(p, p->ops, add);
    if (p->failed)
        return err_set(e, WARM_ENOMEM, "an operation");
    *out = add.results;
    return 0;
}

int program_call(struct program *p, uint32_t function, const uint32_t *operands, uint32_t n,
                 uint32_t *out_results, struct err *e)
{
    if (!WARM_EXPECT(function < p->functions.n && are_values(p, operands, n)))
        return program_fault(e);
    struct function f = p->functions.at[function];
    struct block b = p->blocks.at[f.block];
    struct operation op = {.op = OP_CALL,
                           .operands = p->operands.n,
                           .n_operands = n,
                           .ints = p->ints.n,
                           .n_ints = 1,
                           .results = p->values.n,
                           .n_results = f.n_types,
                           .next = p->ops.n + 1};
    bool fits = n == b.n_args;
    for (uint32_t i = 0; fits && i < n; i++)
        fits = p->values.at[operands[i]] == p->values.at[b.args + i];
    if (!fits)
        return err_set(e, WARM_EINVALID, "call: the types are not those of the function");
    for (uint32_t i = 0; i < n; i++)
        PUSH(p, p->operands, operands[i]);
    PUSH(p, p->ints, function);
    for (uint32_t i = 0; i < f.n_types && !p->failed; i++) {
        uint32_t type = p->operands.at[f.types + i];
        PUSH(p, p->values, type);
    }
    PUSH(p, p->ops, op);
    *out_results = op.results;
    return p->failed ? err_set(e, WARM_ENOMEM, "a call") : 0;
}

/* ---- loops ---- */

/* Begins a block with the types of the loop's operands. */
static void begin_block(struct program *p, uint32_t loop)
{
    struct operation op = p->ops.at[loop];
    PUSH(p, p->blocks,
         (struct block){.args = p->values.n, .n_args = op.n_operands, .first = p->ops.n});
    for (uint32_t i = 0; i < op.n_operands && !p->failed; i++) {
        uint32_t type = p->values.at[p->operands.at[op.operands + i]];
        PUSH(p, p->values, type);
    }
}

static void end_block(struct program *p, uint32_t loop, int which, const uint32_t *values,
                      uint32_t n)
{
    struct block *b = &p->blocks.at[p->ints.at[p->ops.at[loop].ints + (uint32_t)which]];
    b->end = p->ops.n;
    b->results = p->operands.n;
    b->n_results = n;
    for (uint32_t i = 0; i < n; i++)
        PUSH(p, p->operands, values[i]);
}

int program_while_begin(struct program *p, uint32_t line, const uint32_t *operands, uint32_t n,
                        uint32_t *out_loop, struct err *e)
{
    if (!WARM_EXPECT(are_values(p, operands, n)))
        return program_fault(e);
    struct operation op = {.op = OP_WHILE,
                           .line = line,
                           .operands = p->operands.n,
                           .n_operands = n,
                           .ints = p->ints.n,
                           .n_ints = 2};
    *out_loop = p->ops.n;
    for (uint32_t i = 0; i < n; i++)
        PUSH(p, p->operands, operands[i]);
    PUSH(p, p->ints, p->blocks.n);
    PUSH(p, p->ints, p->blocks.n);
    PUSH(p, p->ops, op);
    if (!p->failed)
        begin_block(p, *out_loop);
    return p->failed ? err_set(e, WARM_ENOMEM, "a loop") : 0;
}

int program_while_body(struct program *p, uint32_t loop, uint32_t condition, struct err *e)
{
    if (!WARM_EXPECT(loop < p->ops.n && p->ops.at[loop].op == OP_WHILE &&
                     are_values(p, &condition, 1)))
        return program_fault(e);
    end_block(p, loop, 0, &condition, 1);
    p->ints.at[p->ops.at[loop].ints + 1] = p->blocks.n;
    if (!p->failed)
        begin_block(p, loop);
    return p->failed ? err_set(e, WARM_ENOMEM, "a loop") : 0;
}

int program_while_end(struct program *p, uint32_t loop, const uint32_t *values, uint32_t n,
                      uint32_t *out_results, struct err *e)
{
    if (!WARM_EXPECT(loop < p->ops.n && p->ops.at[loop].op == OP_WHILE && are_values(p, values, n)))
        return program_fault(e);
    struct operation *op = &p->ops.at[loop];
    bool fits = n == op->n_operands;
    for (uint32_t i = 0; fits && i < n; i++)
        fits = p->values.at[values[i]] == p->values.at[p->operands.at[op->operands + i]];
    if (!fits)
        return err_set(e, WARM_EINVALID, "while: the body's types are not those it carries");
    end_block(p, loop, 1, values, n);
    op->next = p->ops.n;
    op->results = *out_results = p->values.n;
    op->n_results = n;
    for (uint32_t i = 0; i < n && !p->failed; i++) {
        uint32_t type = p->values.at[values[i]];
        PUSH(p, p->values, type);
    }
    return p->failed ? err_set(e, WARM_ENOMEM, "a loop") : 0;
}

int program_splat(struct program *p, uint32_t type, double value, uint32_t *out, struct err *e)
{
    if (!WARM_EXPECT(type < p->types.n))
        return program_fault(e);
    int64_t ints[] = {p->data.n, 1};
    uint8_t bytes[sizeof(int64_t)] = {0}; /* of the widest elements */
    program_elem_put(p->types.at[type].elem, value, bytes);
    for (size_t i = 0; i < sizeof bytes; i++)
        PUSH(p, p->data, bytes[i]);
    if (p->failed)
        return err_set(e, WARM_ENOMEM, "a constant");
    return program_add(p, &(struct new_op){OP_CONSTANT, 0, NULL, 0, ints, 2, type}, out, e);
}

int program_identity(struct program *p, enum op reducer, enum elem elem, uint32_t *out,
                     struct err *e)
{
    uint32_t type = 0;
    struct tensor scalar = {.elem = elem};
    int rc = program_type(p, &scalar, &type, e);
    double zero = reducer == OP_ADD && program_is_float(elem) ? -0.0 : 0, most = INFINITY;
    if (!program_is_float(elem)) /* program_elem_put gives the largest and the least number */
        most = 0x1p65;
    return rc ? rc
              : program_splat(p, type,
                              reducer == OP_MULTIPLY  ? 1
                              : reducer == OP_MAXIMUM ? -most
                              : reducer == OP_MINIMUM ? most
                              : reducer == OP_AND
                                  ? program_elem_kind(elem) == KIND_SIGNED ? -1 : most
                                  : zero,
                              out, e);
}
