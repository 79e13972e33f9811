/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vjp.c - differentiates a function in reverse mode (Griewank and Walther, Evaluating Derivatives, 3.2).
 * It copies the function in its plain form, and then walks back over the operations:
 *
 *     args ──▶ operations of the function ──▶ results
 *     gradients ◀── rules, last operation first ◀── cotangents
 *
 * A loop's way back is a loop, from the last trip to the first. Its body computes the forward body of that
 * trip again, and walks back over it:
 *
 *     forward    carried values, and stacks: a row of each for each trip
 *     back       trip r: rows r ─▶ body again ─▶ rules ─▶ cotangents of the carried values before trip r
 *
 * Gradients of what the body uses from outside are carried, too, and grow by each trip. program_flatten
 * removes what no rule has used: of the body, and of the stacks.
 *
 * Thread: one at a time for a program. Recursion: loops, at most PROGRAM_DEPTH_MAX deep.
 */
#include "kernels/vjp/vjp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/vjp/rules.h"

struct back {
    struct vjp v;
    const struct program *from; /* the function, in its plain form */
    uint32_t *origins;          /* by value of `from` */
    bool *active;               /* by value of `from` */
    uint32_t *values;           /* by value of `from`: its last copy */
    uint32_t *ops;              /* by operation of `from`: its last copy */
    uint32_t *stacks;           /* by value of `from`: its rows, or NONE */
    uint32_t *seen;             /* by value of `from`: the loop that was searched last, + 1 */
    bool *kept;                 /* by value of `from`: the way back reads it and need not copy it */
    bool whole;                 /* the way back may read all values */
    uint32_t trip;              /* whose body is computed again: an i32 */
};

/* ---- activity ---- */

/* True for operations that no gradient passes. */
static bool is_flat(enum op op)
{
    return op == OP_SIGN || op == OP_FLOOR || op == OP_CEIL || op == OP_ROUND ||
           op == OP_ROUND_EVEN || op == OP_COMPARE;
}

struct edge {
    uint32_t to, next; /* edge + 1, or 0 */
};

/* What depends on what: for each value of the function, a list of values. */
struct flow {
    uint32_t *first; /* by value: edge + 1, or 0 */
    VECTOR(struct edge) edges;
    VECTOR(uint32_t) todo; /* active values whose edges were not followed yet */
    bool failed;
};

static void add_edge(struct flow *flow, uint32_t from, uint32_t to)
{
    PUSH(flow, flow->edges, (struct edge){to, flow->first[from]});
    flow->first[from] = flow->edges.n;
}

/* Adds the edges of a block, and of the bodies of its loops. */
static void add_edges(struct flow *flow, const struct program *p, const struct block *b)
{
    for (uint32_t i = b->first; i < b->end; i = p->ops.at[i].next) {
        const struct operation *op = &p->ops.at[i];
        const uint32_t *operands = p->operands.at + op->operands;
        bool passes = !is_flat(op->op) && program_is_float(program_tensor(p, op->results)->elem);
        for (uint32_t k = 0; op->op != OP_WHILE && passes && k < op->n_operands; k++)
            add_edge(flow, operands[k], op->results);
        if (op->op != OP_WHILE)
            continue;
        const struct block *body = program_loop_block(p, op, 1);
        for (uint32_t k = 0; k < op->n_operands; k++) { /* a trip passes on to the next one */
            add_edge(flow, operands[k], body->args + k);
            add_edge(flow, p->operands.at[body->results + k], body->args + k);
            add_edge(flow, body->args + k, op->results + k);
        }
        add_edges(flow, p, body);
    }
}

static void activate(struct back *k, struct flow *flow, uint32_t value)
{
    (void)VJP_EXPECT(&k->v, program_is_float(program_tensor(k->from, value)->elem));
    if (!k->active[value])
        PUSH(flow, flow->todo, value);
    k->active[value] = true;
}

/* Marks the values that depend on n arguments, in time that is linear in the operations. */
static void find_active(struct back *k, const struct block *b, const uint32_t *arguments,
                        uint32_t n)
{
    struct flow flow = {.first = calloc((size_t)k->from->values.n + 1, sizeof *flow.first)};
    flow.failed = !flow.first;
    if (!flow.failed)
        add_edges(&flow, k->from, b);
    for (uint32_t i = 0; i < n; i++)
        activate(k, &flow, b->args + arguments[i]);
    while (flow.todo.n && !flow.failed)
        for (uint32_t at = flow.first[flow.todo.at[--flow.todo.n]]; at;) {
            const struct edge *edge = &flow.edges.at[at - 1];
            at = edge->next;
            activate(k, &flow, edge->to);
        }
    if (flow.failed)
        k->v.l.code = err_set(k->v.l.e, WARM_ENOMEM, "a derivative");
    free(flow.first);
    free(flow.edges.at);
    free(flow.todo.at);
}

/* ---- the function itself ---- */

static int fail(struct back *k, const struct operation *op, int code, const char *what)
{
    if (k->v.l.code)
        return k->v.l.code;
    k->v.l.code = err_set(k->v.l.e, code, "%s: %s", program_op_name(op->op), what);
    if (k->v.l.e)
        k->v.l.e->line = op->line;
    return k->v.l.code;
}

/* Makes room in the tables for all values so far. */
static void widen(struct vjp *v)
{
    if (v->l.p->values.n <= v->n_tables)
        return;
    uint32_t n = 2 * v->l.p->values.n + 64;
    bool *active = realloc(v->active, n * sizeof *active);
    v->active = active ? active : v->active;
    uint32_t *cotangents = realloc(v->cotangents, (size_t)n * sizeof *cotangents);
    v->cotangents = cotangents ? cotangents : v->cotangents;
    if (!active || !cotangents) {
        v->l.code = v->l.code ? v->l.code : err_set(v->l.e, WARM_ENOMEM, "a derivative");
        return;
    }
    memset(active + v->n_tables, 0, (n - v->n_tables) * sizeof *active);
    memset(cotangents + v->n_tables, 0xFF, (size_t)(n - v->n_tables) * sizeof *cotangents);
    v->n_tables = n;
}

/* Notes that `copy` is a value of the function. */
static void becomes(struct back *k, uint32_t value, uint32_t copy)
{
    k->values[value] = copy;
    widen(&k->v);
    if (k->v.l.code)
        return;
    const struct tensor *t = program_tensor(k->from, value), *u = program_tensor(k->v.l.p, copy);
    (void)VJP_EXPECT(&k->v, t->elem == u->elem && t->rank == u->rank && t->n == u->n);
    k->v.active[copy] = k->active[value];
}

static uint32_t whole_of(struct back *k, enum elem elem, int64_t x)
{
    struct program *p = k->v.l.p;
    (void)VJP_EXPECT(&k->v, elem == ELEM_I64 || (int32_t)x == x); /* is_reversible sees to it */
    int64_t ints[] = {p->data.n, 1};
    for (uint32_t i = 0; i < program_elem_size(elem); i++)
        PUSH(p, p->data, (uint8_t)((uint64_t)x >> 8 * i));
    return lower_add(&k->v.l, OP_CONSTANT, NULL, 0, ints, 2, vjp_type(&k->v, elem, 0, NULL));
}

static uint32_t whole(struct back *k, int64_t x) { return whole_of(k, ELEM_I32, x); }

/* Returns a scalar of whole numbers as one of these elements. */
static uint32_t converted(struct back *k, uint32_t x, enum elem elem)
{
    return k->v.l.code || program_tensor(k->v.l.p, x)->elem == elem
               ? x
               : lower_add(&k->v.l, OP_CONVERT, &x, 1, NULL, 0, vjp_type(&k->v, elem, 0, NULL));
}

static uint32_t two(struct back *k, enum op op, uint32_t x, uint32_t y)
{
    return lower_add(&k->v.l, op, (uint32_t[]){x, y}, 2, NULL, 0, PROGRAM_NONE);
}

static uint32_t reshaped(struct back *k, uint32_t x, const struct tensor *t)
{
    return lower_add(&k->v.l, OP_RESHAPE, &x, 1, NULL, 0,
                     vjp_type(&k->v, t->elem, t->rank, t->dims));
}

/* Returns row `trip` of a stack, in the shape of a value of the function. */
static uint32_t row(struct back *k, uint32_t stack, uint32_t value)
{
    const struct tensor *t = program_tensor(k->from, value);
    int64_t sizes[] = {1, t->n};
    if (k->v.l.code || !VJP_EXPECT(&k->v, stack != PROGRAM_NONE)) /* the way there has kept it */
        return 0;
    uint32_t operands[] = {stack, k->trip, whole(k, 0)};
    return reshaped(k, lower_add(&k->v.l, OP_DYNAMIC_SLICE, operands, 3, sizes, 2, PROGRAM_NONE),
                    t);
}

static void copy_op(struct back *k, uint32_t i)
{
    const struct operation *op = &k->from->ops.at[i];
    if (!VJP_EXPECT(&k->v, op->op != OP_WHILE && op->op != OP_CALL && op->n_results == 1))
        return;
    const struct tensor *t = program_tensor(k->from, op->results);
    uint32_t *operands = malloc(((size_t)op->n_operands + 1) * sizeof *operands);
    if (!operands) {
        k->v.l.code = err_set(k->v.l.e, WARM_ENOMEM, "an operation");
        return;
    }
    for (uint32_t j = 0; j < op->n_operands; j++)
        operands[j] = k->values[k->from->operands.at[op->operands + j]];
    uint32_t type = vjp_type(&k->v, t->elem, t->rank, t->dims);
    k->v.l.line = op->line;
    k->ops[i] = k->v.l.p->ops.n;
    uint32_t copy = lower_add(&k->v.l, op->op, operands, op->n_operands,
                              k->from->ints.at + op->ints, op->n_ints, type);
    if (!k->v.l.code && k->stacks[op->results] != PROGRAM_NONE)
        copy = row(k, k->stacks[op->results], op->results);
    becomes(k, op->results, copy);
    free(operands);
}

/* True if the way back reads a value of a trip at less cost than it computes it again (vjp.h). */
static bool is_worth_keeping(const struct back *k, const struct operation *op)
{
    const struct program *p = k->from;
    const int64_t *ints = p->ints.at + op->ints;
    double n = (double)program_tensor(p, op->results)->n, flops = n, bytes = 0;
    if (op->op == OP_WHILE) /* an active one runs again for its own way back */
        return !k->active[op->results];
    if (op->op != OP_DOT && op->op != OP_REDUCE)
        return false; /* computed where it is used: it has no memory of its own */
    for (uint32_t i = 0; i < 2; i++)
        bytes += 4 * (double)program_tensor(p, p->operands.at[op->operands + i])->n;
    const struct tensor *x = program_tensor(p, p->operands.at[op->operands]);
    if (op->op == OP_REDUCE)
        flops = (double)x->n;
    else
        for (int64_t i = 0; i < ints[1]; i++)
            flops *= (i ? 1 : 2) * (double)x->dims[ints[2 + 2 * ints[0] + i]];
    return 8 * n < bytes + flops / VJP_FLOPS_PER_BYTE;
}

static void copy_block(struct back *k, const struct block *b, bool keeps);

/* What a loop keeps of each trip: values of its body. */
struct kept {
    VECTOR(uint32_t) values;
    bool failed;
};

static void find_kept(const struct back *k, const struct operation *op, uint32_t counter,
                      struct kept *out)
{
    const struct program *p = k->from;
    const struct block *body = program_loop_block(p, op, 1);
    for (uint32_t i = 0; i < body->n_args; i++)
        if (i != counter)
            PUSH(out, out->values, body->args + i);
    for (uint32_t i = body->first; i < body->end; i = p->ops.at[i].next) {
        const struct operation *inner = &p->ops.at[i];
        for (uint32_t j = 0; is_worth_keeping(k, inner) && j < inner->n_results; j++)
            PUSH(out, out->values, inner->results + j);
    }
}

/* True if an i32 can number a loop's trips, and a counter of `elem` tell how far it is from its start. */
static bool is_reversible(const struct counted *c, enum elem elem)
{
    int64_t step = c->step < 0 ? -c->step : c->step;
    return c->trips <= INT32_MAX && (elem == ELEM_I64 || (int64_t)c->trips - 1 <= INT32_MAX / step);
}

/* Returns the trip that a loop's counter tells, an i32. */
static uint32_t trip_of(struct back *k, const struct counted *c, uint32_t counter)
{
    enum elem elem = program_tensor(k->v.l.p, counter)->elem;
    if (!VJP_EXPECT(&k->v, c->trips && is_reversible(c, elem)))
        return 0;
    if (c->start)
        counter = two(k, OP_SUBTRACT, counter, whole_of(k, elem, c->start));
    if (c->step != 1)
        counter = two(k, OP_DIVIDE, counter, whole_of(k, elem, c->step));
    return converted(k, counter, ELEM_I32);
}

/* Copies a loop; with `counted` it keeps the rows that its way back reads. */
static void copy_loop(struct back *k, const struct operation *op, const struct counted *counted)
{
    const struct program *p = k->from;
    const struct block *cond = program_loop_block(p, op, 0), *body = program_loop_block(p, op, 1);
    struct kept kept = {.failed = false};
    uint32_t loop = 0, first = 0, n = op->n_operands;
    (void)VJP_EXPECT(&k->v, op->n_results == n && (!counted || counted->carry < n));
    if (counted)
        find_kept(k, op, counted->carry, &kept);
    uint32_t *values = malloc(((size_t)n + kept.values.n + 1) * sizeof *values);
    if (!values || kept.failed)
        k->v.l.code = err_set(k->v.l.e, WARM_ENOMEM, "a loop");
    for (uint32_t i = 0; !k->v.l.code && i < n; i++)
        values[i] = k->values[p->operands.at[op->operands + i]];
    for (uint32_t i = 0; !k->v.l.code && i < kept.values.n; i++) {
        const struct tensor *t = program_tensor(p, kept.values.at[i]);
        uint32_t type = vjp_type(&k->v, t->elem, 2, (int64_t[]){(int64_t)counted->trips, t->n});
        if (!k->v.l.code)
            k->v.l.code = program_splat(k->v.l.p, type, 0, &values[n + i], k->v.l.e);
    }
    if (!k->v.l.code)
        k->v.l.code =
            program_while_begin(k->v.l.p, op->line, values, n + kept.values.n, &loop, k->v.l.e);
    for (int which = 0; !k->v.l.code && which < 2; which++) {
        uint32_t args = program_loop_block(k->v.l.p, &k->v.l.p->ops.at[loop], which)->args;
        for (uint32_t i = 0; i < n; i++)
            becomes(k, (which ? body : cond)->args + i, args + i);
        copy_block(k, which ? body : cond, false);
        if (!k->v.l.code && which == 0)
            k->v.l.code = program_while_body(k->v.l.p, loop,
                                             k->values[p->operands.at[cond->results]], k->v.l.e);
        first = args; /* of the body, behind the last turn */
    }
    for (uint32_t i = 0; !k->v.l.code && i < n; i++)
        values[i] = k->values[p->operands.at[body->results + i]];
    for (uint32_t i = 0; !k->v.l.code && i < kept.values.n; i++) {
        struct tensor t = {.elem = program_tensor(p, kept.values.at[i])->elem,
                           .rank = 2,
                           .dims = {1, program_tensor(p, kept.values.at[i])->n}};
        uint32_t operands[] = {first + n + i, reshaped(k, k->values[kept.values.at[i]], &t),
                               trip_of(k, counted, first + counted->carry), whole(k, 0)};
        values[n + i] = lower_add(&k->v.l, OP_DYNAMIC_UPDATE, operands, 4, NULL, 0, PROGRAM_NONE);
    }
    if (!k->v.l.code)
        k->v.l.code =
            program_while_end(k->v.l.p, loop, values, n + kept.values.n, &first, k->v.l.e);
    for (uint32_t i = 0; !k->v.l.code && i < n; i++)
        becomes(k, op->results + i,
                k->stacks[op->results + i] == PROGRAM_NONE
                    ? first + i
                    : row(k, k->stacks[op->results + i], op->results + i));
    for (uint32_t i = 0; !k->v.l.code && i < kept.values.n; i++)
        k->stacks[kept.values.at[i]] = first + n + i;
    free(values);
    free(kept.values.at);
}

/* True if a loop has a way back. */
static bool is_active(const struct back *k, const struct operation *op)
{
    bool active = false;
    for (uint32_t i = 0; i < op->n_results; i++)
        active |= k->active[op->results + i];
    return active;
}

/* Copies a block. With `keeps` its loops keep what their way back needs. */
static void copy_block(struct back *k, const struct block *b, bool keeps)
{
    const struct program *p = k->from;
    for (uint32_t i = b->first; !k->v.l.code && i < b->end; i = p->ops.at[i].next) {
        const struct operation *op = &p->ops.at[i];
        struct counted counted;
        bool back = op->op == OP_WHILE && keeps && is_active(k, op);
        bool known = back && program_counted(p, k->origins, op, &counted);
        if (k->v.l.p->ops.n > PROGRAM_OPS_MAX)
            fail(k, op, WARM_ETOO_BIG, "too many operations, with calls written out");
        else if (back && !known)
            fail(k, op, WARM_EUNSUPPORTED,
                 "the number of trips is not known, so it has no derivative: use the framework's "
                 "compiler");
        else if (back &&
                 !is_reversible(&counted, program_tensor(p, op->results + counted.carry)->elem))
            fail(k, op, WARM_EUNSUPPORTED,
                 "the counter passes over 2^31 numbers or more, so it has no derivative: use the "
                 "framework's compiler");
        else if (op->op == OP_WHILE)
            copy_loop(k, op, back && counted.trips ? &counted : NULL);
        else
            copy_op(k, i);
    }
}

/* ---- what the way back reads ---- */

/* Notes a value that has memory because a loop uses it. Those that cost nothing to compute have none. */
static void keep_used(struct back *k, uint32_t value)
{
    const struct program *p = k->from;
    const struct operation *op =
        k->origins[value] == PROGRAM_NONE ? NULL : &p->ops.at[k->origins[value]];
    k->kept[value] |= !op || !(op->op == OP_IOTA || op->op == OP_BROADCAST ||
                               (op->op == OP_CONSTANT && p->ints.at[op->ints + 1]));
}

/* Finds the values that have memory in the code of the function alone: results, operands and results of
 * products, results of reductions and loops, and what a loop's body uses from outside. */
static void find_memory(struct back *k, const struct block *b)
{
    const struct program *p = k->from;
    uint32_t outside = 0; /* values below it are from outside of the loop that is open */
    for (uint32_t i = 0; i < b->n_args; i++)
        k->kept[b->args + i] = true;
    for (uint32_t i = 0; i < b->n_results; i++)
        k->kept[p->operands.at[b->results + i]] = true;
    for (uint32_t i = b->first, end = i; i < b->end; i++) {
        const struct operation *op = &p->ops.at[i];
        bool makes = program_has_loop(op->op) || op->op == OP_WHILE ||
                     (op->op == OP_CONSTANT && !p->ints.at[op->ints + 1]);
        for (uint32_t j = 0; j < op->n_results; j++)
            k->kept[op->results + j] |= makes;
        for (uint32_t j = 0; j < op->n_operands; j++)
            if (op->op == OP_DOT || op->op == OP_RANK || op->op == OP_SCATTER)
                k->kept[p->operands.at[op->operands + j]] = true;
            else if (i < end && p->operands.at[op->operands + j] < outside)
                keep_used(k, p->operands.at[op->operands + j]);
        if (op->op == OP_WHILE && i >= end) {
            outside = program_loop_block(p, op, 0)->args;
            end = op->next;
        }
    }
}

/* Copies the operation of a value once more, and what computes its operands, down to values that have memory
 * or were copied before. So the code of the function itself is the same with a derivative and without. */
static void copy_again(struct back *k, uint32_t value)
{
    const struct program *p = k->from;
    struct kept todo = {.failed = false};
    PUSH(&todo, todo.values, value);
    while (todo.values.n && !todo.failed && !k->v.l.code) {
        uint32_t top = todo.values.at[todo.values.n - 1], before = todo.values.n;
        if (!k->kept[top] && !VJP_EXPECT(&k->v, k->origins[top] != PROGRAM_NONE))
            break; /* arguments are kept */
        const struct operation *op = k->kept[top] ? NULL : &p->ops.at[k->origins[top]];
        for (uint32_t i = 0; op && i < op->n_operands; i++)
            if (!k->kept[p->operands.at[op->operands + i]])
                PUSH(&todo, todo.values, p->operands.at[op->operands + i]);
        if (todo.values.n > before)
            continue;
        todo.values.n--;
        if (op)
            copy_op(k, k->origins[top]);
        k->kept[top] = true;
    }
    if (todo.failed && !k->v.l.code)
        k->v.l.code = err_set(k->v.l.e, WARM_ENOMEM, "a derivative");
    free(todo.values.at);
}

/* Copies what the rule of operation i of the function reads. */
static void copy_for_rule(struct back *k, uint32_t i)
{
    const struct program *p = k->from;
    const struct operation *op = &p->ops.at[i];
    uint32_t outside =
        op->op == OP_WHILE ? program_loop_block(p, op, 0)->args : (uint32_t)p->values.n;
    for (uint32_t at = i; at < op->next; at++) /* of a loop, all that it uses from outside */
        for (uint32_t j = 0; j < p->ops.at[at].n_operands; j++)
            if (p->operands.at[p->ops.at[at].operands + j] < outside)
                copy_again(k, p->operands.at[p->ops.at[at].operands + j]);
    uint32_t value = op->results, first = k->values[value];
    if (op->op == OP_WHILE || k->v.l.code)
        return;
    if (k->kept[value]) {
        copy_op(k, i); /* of other operands */
        k->values[value] = first;
    } else {
        copy_again(k, value);
    }
}

/* ---- the way back ---- */

/* Returns the cotangent of a value; zeros if nothing was passed to it. */
static uint32_t cotangent_of(struct vjp *v, uint32_t value)
{
    if (v->l.code)
        return 0;
    if (!VJP_EXPECT(v, value < v->n_tables))
        return 0;
    return v->cotangents[value] == PROGRAM_NONE ? vjp_splat(v, value, 0) : v->cotangents[value];
}

/* Appends the active values from outside that a loop's operations use, each once. */
static void find_used(struct back *k, const struct operation *op, struct kept *out)
{
    const struct program *p = k->from;
    uint32_t loop = (uint32_t)(op - p->ops.at), inside = program_loop_block(p, op, 0)->args;
    for (uint32_t i = loop + 1; i < op->next; i++) {
        const struct operation *inner = &p->ops.at[i];
        for (uint32_t j = 0; j < inner->n_operands; j++) {
            uint32_t v = p->operands.at[inner->operands + j];
            if (v >= inside || !k->active[v] || k->seen[v] == loop + 1)
                continue;
            k->seen[v] = loop + 1;
            PUSH(out, out->values, v);
        }
    }
}

static void walk_back(struct back *k, const struct block *b, bool again);

/* Writes the body of a loop's way back. `args` are the trips behind this one, cotangents of the `carried`
 * values, and of those `used` from outside; fills `results` in the same order. */
static void loop_body(struct back *k, const struct operation *op, const struct counted *c,
                      const struct kept *carried, const struct kept *used, uint32_t args,
                      uint32_t *results)
{
    struct vjp *v = &k->v;
    const struct program *p = k->from;
    const struct block *body = program_loop_block(p, op, 1);
    uint32_t trip = k->trip, n = 0;
    k->trip = two(k, OP_SUBTRACT, whole(k, (int64_t)c->trips - 1), args);
    for (uint32_t i = 0; !v->l.code && i < body->n_args; i++) {
        enum elem elem = program_tensor(p, body->args + i)->elem;
        uint32_t copy;
        if (i != c->carry)
            copy = row(k, k->stacks[body->args + i], body->args + i);
        else
            copy = converted(k, k->trip, elem);
        if (i == c->carry && (c->start != 0 || c->step != 1))
            copy = two(k, OP_ADD, whole_of(k, elem, c->start),
                       two(k, OP_MULTIPLY, whole_of(k, elem, c->step), copy));
        becomes(k, body->args + i, copy);
    }
    for (uint32_t i = 0; !v->l.code && i < used->values.n; i++)
        v->cotangents[k->values[used->values.at[i]]] = args + 1 + carried->values.n + i;
    copy_block(k, body, true);
    for (uint32_t i = 0; !v->l.code && i < carried->values.n; i++)
        vjp_pass(v, k->values[p->operands.at[body->results + carried->values.at[i]]], args + 1 + i);
    walk_back(k, body, false);
    results[n++] = two(k, OP_ADD, args, whole(k, 1));
    for (uint32_t i = 0; i < carried->values.n; i++)
        results[n++] = cotangent_of(v, k->values[body->args + carried->values.at[i]]);
    for (uint32_t i = 0; i < used->values.n; i++)
        results[n++] = cotangent_of(v, k->values[used->values.at[i]]);
    (void)VJP_EXPECT(v, n == 1 + carried->values.n + used->values.n);
    k->trip = trip;
}

/* Adds a loop's way back. */
static void loop_back(struct back *k, const struct operation *op)
{
    struct vjp *v = &k->v;
    const struct program *p = k->from;
    const struct block *body = program_loop_block(p, op, 1);
    struct kept carried = {.failed = false}, used = {.failed = false};
    struct counted c;
    uint32_t loop = 0, n = 0, args = 0, first = 0;
    bool needed = false;
    for (uint32_t i = 0; i < op->n_results; i++) {
        needed |= v->cotangents[k->values[op->results + i]] != PROGRAM_NONE;
        if (k->active[body->args + i])
            PUSH(&carried, carried.values, i);
    }
    if (needed)
        find_used(k, op, &used);
    uint32_t *values = malloc(((size_t)carried.values.n + used.values.n + 1) * sizeof *values);
    if (!values || carried.failed || used.failed)
        v->l.code = err_set(v->l.e, WARM_ENOMEM, "a loop");
    if (v->l.code || !needed || !VJP_EXPECT(v, program_counted(p, k->origins, op, &c)))
        goto out; /* copy_block has refused others */
    for (uint32_t i = 0; c.trips == 0 && i < carried.values.n; i++) /* a result is its operand */
        vjp_pass(v, k->values[p->operands.at[op->operands + carried.values.at[i]]],
                 cotangent_of(v, k->values[op->results + carried.values.at[i]]));
    if (c.trips == 0)
        goto out;
    v->l.line = op->line;
    values[n++] = whole(k, 0);
    for (uint32_t i = 0; i < carried.values.n; i++)
        values[n++] = cotangent_of(v, k->values[op->results + carried.values.at[i]]);
    for (uint32_t i = 0; i < used.values.n; i++)
        values[n++] = cotangent_of(v, k->values[used.values.at[i]]);
    if (!v->l.code)
        v->l.code = program_while_begin(v->l.p, op->line, values, n, &loop, v->l.e);
    if (v->l.code)
        goto out;
    args = program_loop_block(v->l.p, &v->l.p->ops.at[loop], 0)->args;
    uint32_t goes_on = lower_add(&v->l, OP_COMPARE, (uint32_t[]){args, whole(k, (int64_t)c.trips)},
                                 2, (int64_t[]){DIRECTION_LT, 0}, 2, PROGRAM_NONE);
    if (!v->l.code)
        v->l.code = program_while_body(v->l.p, loop, goes_on, v->l.e);
    if (v->l.code)
        goto out;
    args = program_loop_block(v->l.p, &v->l.p->ops.at[loop], 1)->args;
    loop_body(k, op, &c, &carried, &used, args, values);
    if (!v->l.code)
        v->l.code = program_while_end(v->l.p, loop, values, n, &first, v->l.e);
    for (uint32_t i = 0; !v->l.code && i < used.values.n; i++)
        v->cotangents[k->values[used.values.at[i]]] = first + 1 + carried.values.n + i;
    for (uint32_t i = 0; !v->l.code && i < carried.values.n; i++)
        vjp_pass(v, k->values[p->operands.at[op->operands + carried.values.at[i]]], first + 1 + i);
out:
    free(values);
    free(carried.values.at);
    free(used.values.at);
}

/* Runs the rules of a block's operations, from the last to the first. In the function's own block, `again`,
 * it copies what they read. */
static void walk_back(struct back *k, const struct block *b, bool again)
{
    const struct program *p = k->from;
    struct kept ops = {.failed = false};
    for (uint32_t i = b->first; i < b->end; i = p->ops.at[i].next)
        PUSH(&ops, ops.values, i);
    if (ops.failed && !k->v.l.code)
        k->v.l.code = err_set(k->v.l.e, WARM_ENOMEM, "a derivative");
    while (ops.values.n && !k->v.l.code) {
        uint32_t i = ops.values.at[--ops.values.n];
        const struct operation *op = &p->ops.at[i];
        if (op->op == OP_WHILE) {
            if (is_active(k, op)) {
                if (again)
                    copy_for_rule(k, i);
                loop_back(k, op);
            }
            continue;
        }
        uint32_t y = k->values[op->results];
        if (!k->v.active[y] || k->v.cotangents[y] == PROGRAM_NONE)
            continue;
        if (again)
            copy_for_rule(k, i);
        struct operation copy = k->v.l.p->ops.at[k->ops[i]];
        if (!VJP_EXPECT(&k->v, copy.op == op->op && copy.n_operands == op->n_operands))
            break;
        copy.results = y; /* the kept row, if there is one */
        vjp_rule(&k->v, &copy, k->v.cotangents[y]);
    }
    free(ops.values.at);
}

/* ---- functions ---- */

/* Begins the new function: the arguments of the old one, then cotangents. */
static void begin(struct back *k, const struct function *f, const struct block *b,
                  uint32_t *out_args)
{
    char name[256];
    uint32_t n = 0, *types = malloc(((size_t)b->n_args + b->n_results + 1) * sizeof *types);
    if (!types)
        k->v.l.code = err_set(k->v.l.e, WARM_ENOMEM, "a function");
    for (uint32_t i = 0; !k->v.l.code && i < b->n_args + b->n_results; i++) {
        uint32_t value =
            i < b->n_args ? b->args + i : k->from->operands.at[b->results + i - b->n_args];
        const struct tensor *t = program_tensor(k->from, value);
        if (i < b->n_args || program_is_float(t->elem))
            types[n++] = vjp_type(&k->v, t->elem, t->rank, t->dims);
    }
    snprintf(name, sizeof name, "%.200s%s", f->name, *f->name ? "_vjp" : "vjp");
    if (!k->v.l.code)
        k->v.l.code = program_func_begin(k->v.l.p, name, types, n, out_args, k->v.l.e);
    for (uint32_t i = 0; !k->v.l.code && i < b->n_args; i++)
        becomes(k, b->args + i, *out_args + i);
    free(types);
}

/* Writes the function, its way back, and its results and gradients. */
static void derive(struct back *k, const uint32_t *arguments, uint32_t n)
{
    struct vjp *v = &k->v;
    const struct function *f = &k->from->functions.at[0];
    const struct block *b = &k->from->blocks.at[f->block];
    uint32_t args = 0, *results = malloc(((size_t)b->n_results + n + 1) * sizeof *results);
    if (!results) {
        v->l.code = err_set(v->l.e, WARM_ENOMEM, "a function");
        return;
    }
    find_active(k, b, arguments, n);
    begin(k, f, b, &args);
    copy_block(k, b, true);
    if (!v->l.code)
        v->l.p->functions.at[0].forward = v->l.p->ops.n;
    uint32_t next = args + b->n_args;
    for (uint32_t i = 0; !v->l.code && i < b->n_results; i++) {
        results[i] = k->values[k->from->operands.at[b->results + i]];
        if (program_is_float(program_tensor(v->l.p, results[i])->elem))
            vjp_pass(v, results[i], next++);
    }
    if (!v->l.code) /* each f32 result has had its cotangent */
        (void)VJP_EXPECT(v, next == args + v->l.p->blocks.at[0].n_args);
    find_memory(k, b);
    walk_back(k, b, !k->whole);
    v->l.line = 0;
    for (uint32_t i = 0; !v->l.code && i < n; i++)
        results[b->n_results + i] = cotangent_of(v, args + arguments[i]);
    if (!v->l.code)
        v->l.code = program_func_end(v->l.p, results, b->n_results + n, v->l.e);
    free(results);
}

static int check_arguments(const struct program *p, const struct block *b,
                           const uint32_t *arguments, uint32_t n, struct err *e)
{
    for (uint32_t i = 0; i < n; i++) {
        if (arguments[i] >= b->n_args)
            return err_set(e, WARM_EINVALID, "argument %u: there are %u", arguments[i], b->n_args);
        if (!program_is_float(program_tensor(p, b->args + arguments[i])->elem))
            return err_set(e, WARM_EINVALID,
                           "argument %u is not of floating-point numbers: it has no gradient",
                           arguments[i]);
    }
    return 0;
}

static int vjp_of(const struct program *p, uint32_t function, const uint32_t *arguments, uint32_t n,
                  bool whole, struct program **out, struct err *e)
{
    struct program *plain = NULL;
    if (!WARM_EXPECT(function < p->functions.n))
        return program_fault(e);
    int rc = check_arguments(p, &p->blocks.at[p->functions.at[function].block], arguments, n, e);
    if (rc == 0)
        rc = program_flatten(p, function, &plain, e);
    if (rc)
        return rc;
    size_t n_values = (size_t)plain->values.n + 1;
    struct back k = {.v = {.l = {.p = program_new(), .e = e}},
                     .from = plain,
                     .whole = whole,
                     .origins = calloc(n_values, sizeof *k.origins),
                     .active = calloc(n_values, sizeof *k.active),
                     .values = calloc(n_values, sizeof *k.values),
                     .ops = calloc((size_t)plain->ops.n + 1, sizeof *k.ops),
                     .stacks = malloc(n_values * sizeof *k.stacks),
                     .seen = calloc(n_values, sizeof *k.seen),
                     .kept = calloc(n_values, sizeof *k.kept)};
    bool memory =
        k.v.l.p && k.origins && k.active && k.values && k.ops && k.stacks && k.seen && k.kept;
    for (uint32_t i = 0; memory && i < plain->data.n; i++) /* constants keep their places */
        PUSH(k.v.l.p, k.v.l.p->data, plain->data.at[i]);
    if (memory)
        k.v.l.p->side = program_share(plain->side);
    if (!memory || k.v.l.p->failed) {
        k.v.l.code = err_set(e, WARM_ENOMEM, "a derivative");
    } else {
        memset(k.stacks, 0xFF, n_values * sizeof *k.stacks);
        program_origins(plain, k.origins);
        derive(&k, arguments, n);
    }
    if (k.v.l.code == 0)
        k.v.l.code = program_flatten(k.v.l.p, 0, out, e);
    free(k.origins);
    free(k.active);
    free(k.values);
    free(k.ops);
    free(k.stacks);
    free(k.seen);
    free(k.kept);
    free(k.v.active);
    free(k.v.cotangents);
    program_free(k.v.l.p);
    program_free(plain);
    return k.v.l.code;
}

int vjp_function(const struct program *p, uint32_t function, const uint32_t *arguments, uint32_t n,
                 struct program **out, struct err *e)
{
    return vjp_of(p, function, arguments, n, false, out, e);
}

int vjp_whole(const struct program *p, uint32_t function, const uint32_t *arguments, uint32_t n,
              struct program **out, struct err *e)
{
    return vjp_of(p, function, arguments, n, true, out, e);
}
