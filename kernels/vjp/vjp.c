/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vjp.c - differentiates a function in reverse mode (Griewank and Walther, Evaluating Derivatives, 3.2).
 * It copies the function, its calls written out, and then walks back over the operations:
 *
 *     args ──▶ operations of the function ──▶ results
 *     gradients ◀── rules, last operation first ◀── cotangents
 *
 * A rule uses the values of the function, so all of them are residuals; it recomputes nothing. Only active
 * values have a cotangent.
 *
 * Thread: one at a time for a program. Recursion: calls, at most VJP_CALLS_MAX deep.
 */
#include "kernels/vjp/vjp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/vjp/rules.h"

struct copy {
    const struct program *from;
    struct program *to;
    struct err *e;
    uint32_t *
        values; /* by value of `from`: its copy. Functions do not recurse, so one place is enough */
    uint32_t *operands;
    uint32_t calls;
    bool derive; /* false: the copy is all */
};

/* ---- the function itself ---- */

static int fail(struct err *e, const struct operation *op, int code, const char *what)
{
    err_set(e, code, "%s: %s", op->op == OP_CALL ? "call" : program_op_name(op->op), what);
    if (e)
        e->line = op->line;
    return code;
}

static int copy_op(struct copy *c, const struct operation *op)
{
    uint32_t type;
    struct tensor t = *program_tensor(c->from, op->results);
    int rc = program_type(c->to, &t, &type, c->e);
    for (uint32_t i = 0; i < op->n_operands; i++)
        c->operands[i] = c->values[c->from->operands.at[op->operands + i]];
    return rc ? rc
              : program_add(c->to,
                            &(struct new_op){op->op, op->line, c->operands, op->n_operands,
                                             c->from->ints.at + op->ints, op->n_ints, type},
                            &c->values[op->results], c->e);
}

static int copy_block(struct copy *c, const struct block *b)
{
    const struct program *p = c->from;
    int rc = 0;
    for (uint32_t i = b->first; rc == 0 && i < b->end; i = p->ops.at[i].next) {
        const struct operation *op = &p->ops.at[i];
        if (op->op == OP_WHILE)
            return fail(c->e, op, WARM_EUNSUPPORTED,
                        c->derive ? "a loop has no derivative yet: use the framework's compiler"
                                  : "no code for a loop yet: use the framework's compiler");
        if (c->to->ops.n > VJP_OPS_MAX)
            return fail(c->e, op, WARM_ETOO_BIG, "too many operations, with calls written out");
        if (op->op != OP_CALL) {
            rc = copy_op(c, op);
            continue;
        }
        const struct block *callee = &p->blocks.at[p->functions.at[p->ints.at[op->ints]].block];
        if (c->calls == VJP_CALLS_MAX)
            return fail(c->e, op, WARM_ETOO_BIG, "calls inside of calls");
        for (uint32_t k = 0; k < callee->n_args; k++)
            c->values[callee->args + k] = c->values[p->operands.at[op->operands + k]];
        c->calls++;
        rc = copy_block(c, callee);
        c->calls--;
        for (uint32_t k = 0; k < op->n_results; k++)
            c->values[op->results + k] = c->values[p->operands.at[callee->results + k]];
    }
    return rc;
}

/* Begins the new function: the arguments of the old one, then cotangents for a derivative. */
static int begin(struct copy *c, const struct function *f, const struct block *b,
                 uint32_t *out_args)
{
    char name[256];
    uint32_t n = 0, *types = malloc(((size_t)b->n_args + b->n_results + 1) * sizeof *types);
    int rc = types ? 0 : err_set(c->e, WARM_ENOMEM, "a function");
    for (uint32_t i = 0; rc == 0 && i < b->n_args + (c->derive ? b->n_results : 0); i++) {
        uint32_t value =
            i < b->n_args ? b->args + i : c->from->operands.at[b->results + i - b->n_args];
        struct tensor t = *program_tensor(c->from, value);
        if (i < b->n_args || t.elem == ELEM_F32)
            rc = program_type(c->to, &t, &types[n++], c->e);
    }
    snprintf(name, sizeof name, "%.200s%s", f->name ? f->name : "",
             !c->derive ? ""
             : f->name  ? "_vjp"
                        : "vjp");
    if (rc == 0)
        rc = program_func_begin(c->to, name, types, n, out_args, c->e);
    for (uint32_t i = 0; rc == 0 && i < b->n_args; i++)
        c->values[b->args + i] = *out_args + i;
    free(types);
    return rc;
}

/* ---- the way back ---- */

void vjp_pass(struct vjp *v, uint32_t to, uint32_t cotangent)
{
    if (v->code || !v->active[to])
        return;
    if (v->cotangents[to] == PROGRAM_NONE) {
        v->cotangents[to] = cotangent;
        return;
    }
    uint32_t both[] = {v->cotangents[to], cotangent};
    v->code = program_add(v->p, &(struct new_op){OP_ADD, v->line, both, 2, NULL, 0, PROGRAM_NONE},
                          &v->cotangents[to], v->e);
}

/* True for operations that no gradient passes. */
static bool is_flat(enum op op)
{
    return op == OP_SIGN || op == OP_FLOOR || op == OP_CEIL || op == OP_COMPARE;
}

/* Marks the active values. */
static void mark(struct vjp *v)
{
    const struct program *p = v->p;
    for (uint32_t i = 0; i < p->ops.n; i++) {
        const struct operation *op = &p->ops.at[i];
        bool active = false;
        for (uint32_t k = 0; k < op->n_operands; k++)
            active |= v->active[p->operands.at[op->operands + k]];
        v->active[op->results] =
            active && !is_flat(op->op) && program_tensor(p, op->results)->elem == ELEM_F32;
    }
}

/* Runs the rules, and ends the function with its results and gradients. */
static int go_back(struct vjp *v, struct copy *c, const struct block *b, uint32_t args,
                   const uint32_t *arguments, uint32_t n)
{
    uint32_t n_ops = v->p->ops.n, next = args + b->n_args;
    uint32_t *results = malloc(((size_t)b->n_results + n + 1) * sizeof *results);
    if (!results)
        return err_set(v->e, WARM_ENOMEM, "a function");
    for (uint32_t i = 0; i < n; i++)
        v->active[args + arguments[i]] = true;
    mark(v);
    for (uint32_t i = 0; i < b->n_results; i++) {
        results[i] = c->values[c->from->operands.at[b->results + i]];
        if (c->derive && program_tensor(v->p, results[i])->elem == ELEM_F32)
            vjp_pass(v, results[i], next++);
    }
    for (uint32_t i = n_ops; v->code == 0 && i-- > 0;) {
        struct operation op = v->p->ops.at[i];
        if (v->active[op.results] && v->cotangents[op.results] != PROGRAM_NONE)
            vjp_rule(v, &op, v->cotangents[op.results]);
    }
    v->line = 0;
    for (uint32_t i = 0; v->code == 0 && i < n; i++) {
        uint32_t argument = args + arguments[i], g = v->cotangents[argument];
        results[b->n_results + i] = g == PROGRAM_NONE ? vjp_splat(v, argument, 0) : g;
    }
    if (v->code == 0)
        v->code = program_func_end(v->p, results, b->n_results + n, v->e);
    free(results);
    return v->code;
}

static int check_arguments(const struct program *p, const struct block *b,
                           const uint32_t *arguments, uint32_t n, struct err *e)
{
    for (uint32_t i = 0; i < n; i++) {
        if (arguments[i] >= b->n_args)
            return err_set(e, WARM_EINVALID, "argument %u: there are %u", arguments[i], b->n_args);
        if (program_tensor(p, b->args + arguments[i])->elem != ELEM_F32)
            return err_set(e, WARM_EINVALID, "argument %u is not f32: it has no gradient",
                           arguments[i]);
    }
    return 0;
}

static int copied(const struct program *p, uint32_t function, bool derive,
                  const uint32_t *arguments, uint32_t n, struct program **out, struct err *e)
{
    const struct function *f = &p->functions.at[function];
    const struct block *b = &p->blocks.at[f->block];
    uint32_t args = 0, n_operands = 1;
    int rc = check_arguments(p, b, arguments, n, e);
    if (rc)
        return rc;
    for (uint32_t i = 0; i < p->ops.n; i++)
        n_operands = p->ops.at[i].n_operands > n_operands ? p->ops.at[i].n_operands : n_operands;
    struct program *to = program_new();
    struct copy c = {.from = p,
                     .to = to,
                     .e = e,
                     .derive = derive,
                     .values = calloc((size_t)p->values.n + 1, sizeof *c.values),
                     .operands = calloc(n_operands, sizeof *c.operands)};
    struct vjp v = {.p = to, .e = e};
    rc = to && c.values && c.operands ? 0 : err_set(e, WARM_ENOMEM, "a derivative");
    for (uint32_t i = 0; rc == 0 && i < p->data.n; i++) /* constants keep their places */
        PUSH(to, to->data, p->data.at[i]);
    if (rc == 0)
        rc = begin(&c, f, b, &args);
    if (rc == 0)
        rc = copy_block(&c, b);
    if (rc == 0) {
        v.n_values = to->values.n;
        v.active = calloc((size_t)v.n_values + 1, sizeof *v.active);
        v.cotangents = malloc(((size_t)v.n_values + 1) * sizeof *v.cotangents);
        rc = v.active && v.cotangents ? 0 : err_set(e, WARM_ENOMEM, "a derivative");
    }
    if (rc == 0) {
        memset(v.cotangents, 0xFF, ((size_t)v.n_values + 1) * sizeof *v.cotangents);
        rc = go_back(&v, &c, b, args, arguments, n);
    }
    free(c.values);
    free(c.operands);
    free(v.active);
    free(v.cotangents);
    if (rc)
        program_free(to);
    else
        *out = to;
    return rc;
}

int vjp_function(const struct program *p, uint32_t function, const uint32_t *arguments, uint32_t n,
                 struct program **out, struct err *e)
{
    return copied(p, function, true, arguments, n, out, e);
}

int vjp_inline(const struct program *p, uint32_t function, struct program **out, struct err *e)
{
    return copied(p, function, false, NULL, 0, out, e);
}
