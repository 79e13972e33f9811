/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flatten.c - copies a function in the plain form that the derivative and the code generator read
 * (program.h, program_flatten). It copies twice: first with calls written out, and then without unused operations.
 *
 * Thread: one at a time for a program. Recursion: calls and loops, at most PROGRAM_CALLS_MAX and
 * PROGRAM_DEPTH_MAX deep.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "keygen/expect.h"

#include "kernels/program/program.h"

#define KNOWN_DEPTH_MAX 8            /* operations on known numbers */
#define COUNT_MAX ((int64_t)1 << 61) /* of a counter: sums of three such numbers do not overflow */

/* ---- counted loops ---- */

void program_origins(const struct program *p, uint32_t *out)
{
    memset(out, 0xFF, (size_t)p->values.n * sizeof *out);
    for (uint32_t i = 0; i < p->ops.n; i++) {
        const struct operation *op = &p->ops.at[i];
        for (uint32_t k = 0; k < op->n_results; k++)
            out[op->results + k] = i;
        for (int which = 0; op->op == OP_WHILE && which < 2; which++) {
            const struct block *b = program_loop_block(p, op, which);
            for (uint32_t k = 0; k < b->n_args; k++)
                out[b->args + k] = i;
        }
    }
}

/* Returns what a loop carries without a change as a value; NONE if it changes. */
static uint32_t unchanged(const struct program *p, const struct operation *loop, uint32_t value)
{
    const struct block *cond = program_loop_block(p, loop, 0),
                       *body = program_loop_block(p, loop, 1);
    uint32_t k = value - (value >= loop->results ? loop->results
                          : value >= body->args  ? body->args
                                                 : cond->args);
    return p->operands.at[body->results + k] == body->args + k ? p->operands.at[loop->operands + k]
                                                               : PROGRAM_NONE;
}

/* True if a value is a whole number that is known. */
static bool is_known(const struct program *p, const uint32_t *origins, uint32_t value, int depth,
                     int64_t *out)
{
    int64_t x = 0, y = 0;
    int32_t bits;
    if (value == PROGRAM_NONE || origins[value] == PROGRAM_NONE || depth == 0)
        return false;
    const struct tensor *t = program_tensor(p, value);
    const struct operation *op = &p->ops.at[origins[value]];
    if ((t->elem != ELEM_I32 && t->elem != ELEM_I64) || t->n != 1)
        return false;
    if (op->op == OP_WHILE)
        return is_known(p, origins, unchanged(p, op, value), depth - 1, out);
    const uint32_t *operands = p->operands.at + op->operands;
    for (uint32_t k = 0; k < op->n_operands && k < 2; k++)
        if (!is_known(p, origins, operands[k], depth - 1, k ? &y : &x))
            return false;
    switch (op->op) {
    case OP_CONSTANT:
        if (t->elem == ELEM_I64) {
            memcpy(out, p->data.at + p->ints.at[op->ints], sizeof *out);
            break;
        }
        memcpy(&bits, p->data.at + p->ints.at[op->ints], sizeof bits);
        *out = bits;
        break;
    case OP_RESHAPE:
    case OP_BROADCAST:
    case OP_CONVERT: *out = x; break;
    case OP_ADD: *out = x + y; break;
    case OP_SUBTRACT: *out = x - y; break;
    case OP_DIVIDE:
        if (y == 0)
            return false;
        *out = x / y;
        break;
    default: return false;
    }
    return t->elem == ELEM_I32 ? *out >= INT32_MIN && *out <= INT32_MAX
                               : *out >= -COUNT_MAX && *out <= COUNT_MAX;
}

/* True if the condition compares a carried value with a known number. Gives the comparison as it reads with
 * the carried value at the left. */
static bool is_bounded(const struct program *p, const uint32_t *origins,
                       const struct operation *loop, struct counted *out, enum direction *direction,
                       int64_t *bound)
{
    static const enum direction TURNED[] = {DIRECTION_EQ, DIRECTION_NE, DIRECTION_LE,
                                            DIRECTION_LT, DIRECTION_GE, DIRECTION_GT};
    const struct block *cond = program_loop_block(p, loop, 0);
    uint32_t result = p->operands.at[cond->results];
    if (origins[result] == PROGRAM_NONE || p->ops.at[origins[result]].op != OP_COMPARE)
        return false;
    const struct operation *compare = &p->ops.at[origins[result]];
    for (uint32_t side = 0; side < 2; side++) {
        uint32_t x = p->operands.at[compare->operands + side],
                 y = p->operands.at[compare->operands + !side];
        if (x < cond->args || x >= cond->args + cond->n_args ||
            !is_known(p, origins, y, KNOWN_DEPTH_MAX, bound))
            continue;
        *direction = (enum direction)p->ints.at[compare->ints];
        *direction = side ? TURNED[*direction] : *direction;
        out->carry = x - cond->args;
        return true;
    }
    return false;
}

/* True if the body adds a known number to the counter. */
static bool is_stepped(const struct program *p, const uint32_t *origins,
                       const struct operation *loop, struct counted *out)
{
    const struct block *body = program_loop_block(p, loop, 1);
    uint32_t counter = body->args + out->carry, next = p->operands.at[body->results + out->carry];
    if (origins[next] == PROGRAM_NONE)
        return false;
    const struct operation *op = &p->ops.at[origins[next]];
    if (op->op == OP_RESHAPE && p->operands.at[op->operands] != counter &&
        origins[p->operands.at[op->operands]] != PROGRAM_NONE)
        op = &p->ops.at[origins[p->operands.at[op->operands]]];
    if (op->op != OP_ADD && op->op != OP_SUBTRACT)
        return false;
    const uint32_t *operands = p->operands.at + op->operands;
    if (operands[0] == counter && is_known(p, origins, operands[1], KNOWN_DEPTH_MAX, &out->step)) {
        out->step = op->op == OP_ADD ? out->step : -out->step;
        return true;
    }
    return op->op == OP_ADD && operands[1] == counter &&
           is_known(p, origins, operands[0], KNOWN_DEPTH_MAX, &out->step);
}

bool program_counted(const struct program *p, const uint32_t *origins, const struct operation *loop,
                     struct counted *out)
{
    enum direction direction;
    int64_t bound, span;
    if (!is_bounded(p, origins, loop, out, &direction, &bound) ||
        !is_stepped(p, origins, loop, out) ||
        !is_known(p, origins, p->operands.at[loop->operands + out->carry], KNOWN_DEPTH_MAX,
                  &out->start) ||
        out->step == 0)
        return false;
    bool down = direction == DIRECTION_GT || direction == DIRECTION_GE ||
                (direction == DIRECTION_NE && out->step < 0);
    int64_t step = down ? -out->step : out->step;
    span = down ? out->start - bound : bound - out->start;
    if (direction == DIRECTION_LE || direction == DIRECTION_GE)
        span++;
    if (direction == DIRECTION_EQ || (direction == DIRECTION_NE && (span < 0 || span % step != 0)))
        return false;
    if (span > 0 && step < 0)
        return false; /* it wraps around before it ends */
    out->trips = span <= 0 ? 0 : (uint64_t)((span + step - 1) / step);
    int64_t last = out->start + out->step * (int64_t)out->trips;
    enum elem elem = program_tensor(p, p->operands.at[loop->operands + out->carry])->elem;
    return elem == ELEM_I64 || (last >= INT32_MIN && last <= INT32_MAX);
}

/* ---- what is needed ---- */

struct copy {
    const struct program *from;
    struct program *to;
    struct err *e;
    program_adder *add;
    uint32_t
        *values; /* by value of `from`: its copy. Functions do not recurse: one place is enough */
    uint32_t *operands;    /* room for those of one operation */
    uint32_t calls, loops; /* open */
    /* of the second copy; NULL in the first */
    uint32_t *origins; /* by value */
    uint32_t *same;    /* by value: another one that it always equals, or itself */
    bool *live;        /* by value */
    uint32_t forward;  /* of the function */
};

/* Returns the first of the values that always equal this one. Shortens the way there. */
static uint32_t first_same(uint32_t *same, uint32_t value)
{
    while (same[value] != value)
        value = same[value] = same[same[value]];
    return value;
}

/* Finds the values that loops carry without a change: `same` of an inner loop's results is known before the
 * end of the outer body. */
static void find_same(struct copy *c)
{
    const struct program *p = c->from;
    for (uint32_t v = 0; v < p->values.n; v++)
        c->same[v] = v;
    for (uint32_t i = p->ops.n; i-- > 0;) { /* inner loops stand behind outer ones */
        const struct operation *op = &p->ops.at[i];
        for (uint32_t k = 0; op->op == OP_WHILE && k < op->n_operands; k++) {
            const struct block *cond = program_loop_block(p, op, 0),
                               *body = program_loop_block(p, op, 1);
            uint32_t returned = first_same(c->same, p->operands.at[body->results + k]);
            if (returned == body->args + k)
                c->same[returned] = c->same[cond->args + k] = c->same[op->results + k] =
                    p->operands.at[op->operands + k];
        }
    }
}

static uint32_t resolved(const struct copy *c, uint32_t value)
{
    return c->same ? first_same(c->same, value) : value;
}

struct work {
    VECTOR(uint32_t) todo;
    bool failed;
};

static void need(struct copy *c, struct work *w, uint32_t value)
{
    value = resolved(c, value);
    if (c->live[value])
        return;
    c->live[value] = true;
    PUSH(w, w->todo, value);
}

/* Marks the operations that a value needs. */
static void need_origin(struct copy *c, struct work *w, uint32_t value)
{
    const struct program *p = c->from;
    if (c->origins[value] == PROGRAM_NONE)
        return;
    const struct operation *op = &p->ops.at[c->origins[value]];
    if (op->op != OP_WHILE) {
        for (uint32_t k = 0; k < op->n_operands; k++)
            need(c, w, p->operands.at[op->operands + k]);
        return;
    }
    const struct block *cond = program_loop_block(p, op, 0), *body = program_loop_block(p, op, 1);
    uint32_t k = value - (value >= op->results  ? op->results
                          : value >= body->args ? body->args
                                                : cond->args);
    need(c, w, p->operands.at[op->operands + k]);
    need(c, w, p->operands.at[body->results + k]);
    need(c, w, p->operands.at[cond->results]);
    need(c, w, body->args + k);
    need(c, w, cond->args + k);
    need(c, w, op->results + k);
}

/* Marks the values that the function's results need. */
static int find_live(struct copy *c, const struct block *b)
{
    struct work w = {.failed = false};
    for (uint32_t i = 0; i < b->n_results; i++)
        need(c, &w, c->from->operands.at[b->results + i]);
    while (w.todo.n && !w.failed)
        need_origin(c, &w, w.todo.at[--w.todo.n]);
    free(w.todo.at);
    return w.failed ? err_set(c->e, WARM_ENOMEM, "a function") : 0;
}

/* ---- the copy ---- */

static int fail(struct copy *c, const struct operation *op, int code, const char *what)
{
    err_set(c->e, code, "%s: %s", op->op == OP_CALL ? "call" : program_op_name(op->op), what);
    if (c->e)
        c->e->line = op->line;
    return code;
}

static uint32_t copy_of(const struct copy *c, uint32_t value)
{
    return c->values[resolved(c, value)];
}

static bool is_live(const struct copy *c, uint32_t value) { return !c->live || c->live[value]; }

static int copy_op(struct copy *c, const struct operation *op)
{
    if (!WARM_EXPECT(op->op != OP_WHILE && op->op != OP_CALL && op->n_results == 1))
        return fail(c, op, WARM_EINVALID, "it has not one result");
    uint32_t type;
    struct tensor t = *program_tensor(c->from, op->results);
    int rc = program_type(c->to, &t, &type, c->e);
    for (uint32_t i = 0; i < op->n_operands; i++)
        c->operands[i] = copy_of(c, c->from->operands.at[op->operands + i]);
    return rc ? rc
              : c->add(c->to,
                       &(struct new_op){op->op, op->line, c->operands, op->n_operands,
                                        c->from->ints.at + op->ints, op->n_ints, type},
                       &c->values[op->results], c->e);
}

static int copy_block(struct copy *c, const struct block *b);

static int copy_call(struct copy *c, const struct operation *op)
{
    const struct program *p = c->from;
    const struct block *callee = &p->blocks.at[p->functions.at[p->ints.at[op->ints]].block];
    if (!WARM_EXPECT(callee->n_args == op->n_operands && callee->n_results == op->n_results))
        return fail(c, op, WARM_EINVALID, "it does not fit the function");
    if (c->calls == PROGRAM_CALLS_MAX)
        return fail(c, op, WARM_ETOO_BIG, "calls inside of calls");
    for (uint32_t k = 0; k < callee->n_args; k++)
        c->values[callee->args + k] = c->values[p->operands.at[op->operands + k]];
    c->calls++;
    int rc = copy_block(c, callee);
    c->calls--;
    for (uint32_t k = 0; rc == 0 && k < op->n_results; k++)
        c->values[op->results + k] = c->values[p->operands.at[callee->results + k]];
    return rc;
}

/* Gives each value that a body returns an operation of its own in that body. */
static int own_results(struct copy *c, uint32_t first_op, uint32_t first_value, uint32_t *values,
                       uint32_t n)
{
    struct program *to = c->to;
    uint8_t *taken = calloc((size_t)(to->values.n - first_value) + 1, 1);
    int rc = taken ? 0 : err_set(c->e, WARM_ENOMEM, "a loop");
    for (uint32_t i = first_op; rc == 0 && i < to->ops.n; i = to->ops.at[i].next)
        if (to->ops.at[i].op != OP_WHILE && to->ops.at[i].op != OP_CONSTANT &&
            to->ops.at[i].op != OP_SCATTER)
            taken[to->ops.at[i].results - first_value] = 1; /* it may be returned */
    for (uint32_t i = 0; rc == 0 && i < n; i++) {
        uint32_t v = values[i], type = to->values.at[v];
        if (v >= first_value && taken[v - first_value]) {
            taken[v - first_value] = 0;
            continue;
        }
        rc = program_add(to, &(struct new_op){OP_RESHAPE, 0, &v, 1, NULL, 0, type}, &values[i],
                         c->e);
    }
    free(taken);
    return rc;
}

/* Copies a loop with the values that it must carry. */
static int copy_while(struct copy *c, const struct operation *op)
{
    const struct program *p = c->from;
    const struct block *cond = program_loop_block(p, op, 0), *body = program_loop_block(p, op, 1);
    struct counted counted;
    if (c->loops == PROGRAM_DEPTH_MAX)
        return fail(c, op, WARM_EUNSUPPORTED,
                    "loops nested more than 32 deep, with calls written out");
    uint32_t n = 0, loop, first, *values = malloc(((size_t)op->n_operands + 1) * sizeof *values);
    if (!values)
        return err_set(c->e, WARM_ENOMEM, "a loop");
    bool no_trip = c->origins && program_counted(p, c->origins, op, &counted) && counted.trips == 0;
    for (uint32_t k = 0; k < op->n_operands; k++) {
        uint32_t operand = p->operands.at[op->operands + k];
        if (no_trip)
            c->values[op->results + k] = copy_of(c, operand);
        else if (resolved(c, body->args + k) == body->args + k && is_live(c, body->args + k))
            values[n++] = copy_of(c, operand);
    }
    if (n == 0) { /* no value changes */
        free(values);
        return 0;
    }
    int rc = program_while_begin(c->to, op->line, values, n, &loop, c->e);
    for (int which = 0; rc == 0 && which < 2; which++) {
        const struct block *b = which ? body : cond;
        uint32_t arg = c->to->blocks.at[c->to->ints.at[c->to->ops.at[loop].ints + (uint32_t)which]]
                           .args,
                 first_op = c->to->ops.n, first_value = c->to->values.n;
        for (uint32_t k = 0; k < op->n_operands; k++)
            if (resolved(c, body->args + k) == body->args + k && is_live(c, body->args + k))
                c->values[b->args + k] = arg++;
        c->loops++;
        rc = copy_block(c, b);
        c->loops--;
        if (rc == 0 && which == 0)
            rc = program_while_body(c->to, loop, copy_of(c, p->operands.at[cond->results]), c->e);
        n = 0;
        for (uint32_t k = 0; rc == 0 && which && k < op->n_operands; k++)
            if (resolved(c, body->args + k) == body->args + k && is_live(c, body->args + k))
                values[n++] = copy_of(c, p->operands.at[body->results + k]);
        if (rc == 0 && which && c->live)
            rc = own_results(c, first_op, first_value, values, n);
    }
    if (rc == 0)
        rc = program_while_end(c->to, loop, values, n, &first, c->e);
    for (uint32_t k = 0; rc == 0 && k < op->n_operands; k++)
        if (resolved(c, body->args + k) == body->args + k && is_live(c, body->args + k))
            c->values[op->results + k] = first++;
    free(values);
    return rc;
}

static int copy_block(struct copy *c, const struct block *b)
{
    const struct program *p = c->from;
    int rc = 0;
    for (uint32_t i = b->first; rc == 0 && i < b->end; i = p->ops.at[i].next) {
        const struct operation *op = &p->ops.at[i];
        if (i >= c->forward && c->to->functions.at[0].forward == PROGRAM_NONE)
            c->to->functions.at[0].forward = c->to->ops.n;
        if (c->to->ops.n > PROGRAM_OPS_MAX)
            return fail(c, op, WARM_ETOO_BIG, "too many operations, with calls written out");
        if (op->op == OP_CALL)
            rc = copy_call(c, op);
        else if (op->op == OP_WHILE)
            rc = copy_while(c, op);
        else if (is_live(c, op->results))
            rc = copy_op(c, op);
    }
    return rc;
}

static int copy_function(struct copy *c, const struct function *f, const struct block *b)
{
    const struct program *p = c->from;
    uint32_t n = b->n_args > b->n_results ? b->n_args : b->n_results, first = 0,
             *list = malloc(((size_t)n + 1) * sizeof *list);
    int rc = list ? 0 : err_set(c->e, WARM_ENOMEM, "a function");
    for (uint32_t i = 0; rc == 0 && i < b->n_args; i++) {
        struct tensor t = *program_tensor(p, b->args + i);
        rc = program_type(c->to, &t, &list[i], c->e);
    }
    if (rc == 0)
        rc = program_func_begin(c->to, f->name ? f->name : "main", list, b->n_args, &first, c->e);
    for (uint32_t i = 0; rc == 0 && i < b->n_args; i++)
        c->values[b->args + i] = first + i;
    if (rc == 0)
        rc = copy_block(c, b);
    for (uint32_t i = 0; rc == 0 && i < b->n_results; i++)
        list[i] = copy_of(c, p->operands.at[b->results + i]);
    if (rc == 0)
        rc = program_func_end(c->to, list, b->n_results, c->e);
    free(list);
    return rc;
}

/* Copies a function, the second time without unused operations. */
static int copied(const struct program *p, uint32_t function, bool second, program_adder *add,
                  struct program **out, struct err *e)
{
    const struct function *f = &p->functions.at[function];
    const struct block *b = &p->blocks.at[f->block];
    size_t n = (size_t)p->values.n + 1;
    uint32_t n_operands = 1;
    for (uint32_t i = 0; i < p->ops.n; i++)
        n_operands = p->ops.at[i].n_operands > n_operands ? p->ops.at[i].n_operands : n_operands;
    struct copy c = {.from = p,
                     .to = program_new(),
                     .e = e,
                     .add = add,
                     .values = calloc(n, sizeof *c.values),
                     .operands = calloc(n_operands, sizeof *c.operands),
                     .origins = second ? calloc(n, sizeof *c.origins) : NULL,
                     .same = second ? calloc(n, sizeof *c.same) : NULL,
                     .live = second ? calloc(n, sizeof *c.live) : NULL,
                     .forward = f->forward};
    if (c.to)
        c.to->side = program_share(p->side);
    bool memory = c.to && c.values && c.operands && (!second || (c.origins && c.same && c.live));
    int rc = memory ? 0 : err_set(e, WARM_ENOMEM, "a function");
    for (uint32_t i = 0; rc == 0 && i < p->data.n; i++) /* constants keep their places */
        PUSH(c.to, c.to->data, p->data.at[i]);
    if (rc == 0 && second) {
        program_origins(p, c.origins);
        find_same(&c);
        rc = find_live(&c, b);
    }
    if (rc == 0)
        rc = copy_function(&c, f, b);
    free(c.values);
    free(c.operands);
    free(c.origins);
    free(c.same);
    free(c.live);
    if (rc)
        program_free(c.to);
    else
        *out = c.to;
    return rc;
}

int program_flatten(const struct program *p, uint32_t function, struct program **out, struct err *e)
{
    struct program *once = NULL;
    int rc = copied(p, function, false, program_add, &once, e);
    if (rc == 0)
        rc = copied(once, 0, true, program_add, out, e);
    program_free(once);
    return rc;
}

int program_copy(const struct program *p, uint32_t function, program_adder *add,
                 struct program **out, struct err *e)
{
    return copied(p, function, true, add, out, e);
}
