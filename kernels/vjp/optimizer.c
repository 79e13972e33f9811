/* SPDX-License-Identifier: Apache-2.0 */
/*
 * optimizer.c - builds the training step: it unpacks the parameters, calls the derivative, packs the gradients
 * and updates all parameters at once. program_flatten writes the call out.
 *
 * Thread: one at a time for a program; no other state.
 */
#include "kernels/vjp/optimizer.h"

#include <locale.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/vjp/rules.h"

#define USES(kind) (1u << OPTIMIZER_##kind)

static const char *const NAMES[] = {"sgd", "momentum", "adam", "adamw"};

/* The numbers of an optimizer: name, place in the struct, optimizers that have it, default. */
static const struct {
    const char *name;
    size_t at;
    unsigned of;
    float usual; /* NAN: it must be given */
} NUMBERS[] = {
    {"lr", offsetof(struct optimizer, lr), ~0u, NAN},
    {"momentum", offsetof(struct optimizer, momentum), USES(MOMENTUM), 0.9f},
    {"beta1", offsetof(struct optimizer, beta1), USES(ADAM) | USES(ADAMW), 0.9f},
    {"beta2", offsetof(struct optimizer, beta2), USES(ADAM) | USES(ADAMW), 0.999f},
    {"eps", offsetof(struct optimizer, eps), USES(ADAM) | USES(ADAMW), 1e-8f},
    {"decay", offsetof(struct optimizer, decay), USES(ADAMW), 1e-4f},
};
#define N_NUMBERS (sizeof NUMBERS / sizeof *NUMBERS)

static float *number_of(struct optimizer *o, size_t i)
{
    return (float *)(void *)((char *)o + NUMBERS[i].at);
}

/* Reads "lr=0.03", up to a ',' or the end. Returns what follows; NULL if it is none. */
static const char *read_number(const char *at, struct optimizer *o)
{
    const char *is = strchr(at, '=');
    for (size_t i = 0; is && i < N_NUMBERS; i++) {
        size_t len = strlen(NUMBERS[i].name);
        if (len != (size_t)(is - at) || memcmp(at, NUMBERS[i].name, len) != 0 ||
            !(NUMBERS[i].of & 1u << o->kind))
            continue;
        char *end;
        locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* a program's own may have commas */
        if (!c)
            return NULL;
        float x = strtof_l(is + 1, &end, c);
        freelocale(c);
        if (end == is + 1 || !isfinite(x) || (*end && *end != ','))
            return NULL;
        *number_of(o, i) = x;
        return end;
    }
    return NULL;
}

int optimizer_parse(const char *text, struct optimizer *out, struct err *e)
{
    struct optimizer o = {.kind = OPTIMIZER_SGD};
    const char *at = text;
    size_t kind = 0, len = strcspn(text, ",");
    while (kind < 4 && (strlen(NAMES[kind]) != len || memcmp(NAMES[kind], text, len) != 0))
        kind++;
    if (kind == 4)
        return err_set(e, WARM_EINVALID,
                       "%.40s: no such optimizer; there are sgd, momentum, adam, adamw", text);
    o.kind = (enum optimizer_kind)kind;
    for (size_t i = 0; i < N_NUMBERS; i++)
        if (NUMBERS[i].of & 1u << kind)
            *number_of(&o, i) = NUMBERS[i].usual;
    for (at += len; *at;) {
        const char *next = read_number(at + 1, &o);
        if (!next)
            return err_set(e, WARM_EINVALID, "%.40s: not a number of %s, as in %s,lr=0.03", at + 1,
                           NAMES[kind], NAMES[kind]);
        at = next;
    }
    if (isnan(o.lr))
        return err_set(e, WARM_EINVALID, "%s has no learning rate: give %s,lr=0.03", NAMES[kind],
                       NAMES[kind]);
    *out = o;
    return 0;
}

/* Returns how many tensors are its state. */
static uint32_t states_of(const struct optimizer *o)
{
    (void)WARM_EXPECT(o->kind <= OPTIMIZER_ADAMW);
    return o->kind == OPTIMIZER_SGD ? 0 : o->kind == OPTIMIZER_MOMENTUM ? 1 : 3;
}

/* ---- the update ---- */

static uint32_t two(struct vjp *v, enum op op, uint32_t x, uint32_t y)
{
    return lower_add(&v->l, op, (uint32_t[]){x, y}, 2, NULL, 0, PROGRAM_NONE);
}

/* Returns x times a number. */
static uint32_t scaled(struct vjp *v, uint32_t x, float by)
{
    return two(v, OP_MULTIPLY, x, vjp_splat(v, x, by));
}

/* Returns b x + (1 - b) y: the new moment. */
static uint32_t decayed(struct vjp *v, uint32_t x, uint32_t y, float b)
{
    return two(v, OP_ADD, scaled(v, x, b), scaled(v, y, (float)(1 - (double)b)));
}

/* Returns a moment over 1 - b^count: the correction of its start at zero. */
static uint32_t corrected(struct vjp *v, uint32_t moment, uint32_t count, float b)
{
    uint32_t f = lower_add(&v->l, OP_CONVERT, &count, 1, NULL, 0, vjp_type(v, ELEM_F32, 0, NULL));
    f = two(v, OP_SUBTRACT, vjp_splat(v, f, 1), two(v, OP_POWER, vjp_splat(v, f, b), f));
    uint32_t all = lower_add(&v->l, OP_BROADCAST, &f, 1, NULL, 0, v->l.p->values.at[moment]);
    return two(v, OP_DIVIDE, moment, all);
}

/* Returns what Adam subtracts, but for the learning rate. Replaces the state. */
static uint32_t adam(struct vjp *v, const struct optimizer *o, uint32_t p, uint32_t g,
                     uint32_t *state)
{
    int64_t ints[] = {v->l.p->data.n, 1};
    for (uint32_t i = 0; i < 4; i++)
        PUSH(v->l.p, v->l.p->data, i == 0);
    uint32_t one = lower_add(&v->l, OP_CONSTANT, NULL, 0, ints, 2, vjp_type(v, ELEM_I32, 0, NULL));
    state[0] = two(v, OP_ADD, state[0], one);
    state[1] = decayed(v, state[1], g, o->beta1);
    state[2] = decayed(v, state[2], two(v, OP_MULTIPLY, g, g), o->beta2);
    uint32_t first = corrected(v, state[1], state[0], o->beta1),
             second = corrected(v, state[2], state[0], o->beta2),
             root = lower_add(&v->l, OP_SQRT, &second, 1, NULL, 0, PROGRAM_NONE);
    uint32_t x = two(v, OP_DIVIDE, first, two(v, OP_ADD, root, vjp_splat(v, root, o->eps)));
    return o->kind == OPTIMIZER_ADAMW ? two(v, OP_ADD, x, scaled(v, p, o->decay)) : x;
}

/* ---- packing ---- */

/* Returns the elements from `first` on, in the shape of a parameter. */
static uint32_t unpacked(struct vjp *v, uint32_t packed, int64_t first, const struct tensor *t)
{
    int64_t ints[] = {first, first + t->n, 1};
    uint32_t x = lower_add(&v->l, OP_SLICE, &packed, 1, ints, 3, PROGRAM_NONE);
    return lower_add(&v->l, OP_RESHAPE, &x, 1, NULL, 0, vjp_type(v, t->elem, t->rank, t->dims));
}

/* Returns the tensors, concatenated. Replaces them by their flat forms. */
static uint32_t packed(struct vjp *v, uint32_t *tensors, uint32_t n)
{
    for (uint32_t i = 0; i < n && !v->l.code; i++) {
        int64_t len = program_tensor(v->l.p, tensors[i])->n;
        tensors[i] =
            lower_add(&v->l, OP_RESHAPE, &tensors[i], 1, NULL, 0, vjp_type(v, ELEM_F32, 1, &len));
    }
    return lower_add(&v->l, OP_CONCATENATE, tensors, n, (int64_t[]){0}, 1, PROGRAM_NONE);
}

/* The arrays of which a step is built. */
struct step {
    const uint32_t *arguments;
    uint32_t n, n_args;
    uint32_t *types, *operands; /* of the step; of the derivative */
    bool *chosen;               /* by argument of the loss */
};

/* Gives types of the step's arguments: the packed parameters, their state, the other arguments. */
static uint32_t types_of(struct vjp *v, const struct step *s, const struct block *loss,
                         const struct optimizer *o)
{
    int64_t len = 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_args; i++)
        len += s->chosen[i] ? program_tensor(v->l.p, loss->args + i)->n : 0;
    uint32_t flat = vjp_type(v, ELEM_F32, 1, &len);
    s->types[n++] = flat;
    for (uint32_t i = 0; i < states_of(o); i++)
        s->types[n++] = states_of(o) == 3 && i == 0 ? vjp_type(v, ELEM_I32, 0, NULL) : flat;
    for (uint32_t i = 0; i < s->n_args; i++)
        if (!s->chosen[i])
            s->types[n++] = v->l.p->values.at[loss->args + i];
    return n;
}

/* Writes the step behind the derivative, function 0 of the program. `n_results` are the loss's own. */
static void write_step(struct vjp *v, const struct step *s, const struct optimizer *o,
                       const char *name, uint32_t n_results)
{
    struct block d = v->l.p->blocks.at[v->l.p->functions.at[0].block];
    uint32_t args = 0, first = 0, state[3] = {0}, n = types_of(v, s, &d, o);
    uint32_t n_states = states_of(o), next;
    int64_t at = 0;
    if (!v->l.code)
        v->l.code = program_func_begin(v->l.p, name, s->types, n, &args, v->l.e);
    next = args + 1 + n_states;
    for (uint32_t i = 0; i < s->n_args && !v->l.code; i++) {
        struct tensor t = *program_tensor(v->l.p, d.args + i);
        s->operands[i] = s->chosen[i] ? unpacked(v, args, at, &t) : next++;
        at += s->chosen[i] ? t.n : 0;
    }
    if (!v->l.code) /* all of the packed parameters, and each argument of the step */
        (void)VJP_EXPECT(v, at == program_tensor(v->l.p, args)->n && next == args + n);
    for (uint32_t i = s->n_args; i < d.n_args && !v->l.code; i++)
        s->operands[i] = vjp_splat(v, d.args + i, i == s->n_args); /* of the loss 1, of others 0 */
    if (!v->l.code)
        v->l.code = program_call(v->l.p, 0, s->operands, d.n_args, &first, v->l.e);
    for (uint32_t i = 0; i < s->n; i++)
        s->operands[i] = first + n_results + i;
    for (uint32_t i = 0; i < n_states; i++)
        state[i] = args + 1 + i;
    uint32_t g = packed(v, s->operands, s->n);
    if (o->kind == OPTIMIZER_MOMENTUM)
        g = state[0] = two(v, OP_ADD, g, scaled(v, state[0], o->momentum));
    else if (o->kind != OPTIMIZER_SGD)
        g = adam(v, o, args, g, state);
    s->operands[0] = two(v, OP_SUBTRACT, args, scaled(v, g, o->lr));
    memcpy(s->operands + 1, state, n_states * sizeof *state);
    for (uint32_t i = 0; i < n_results; i++)
        s->operands[1 + n_states + i] = first + i;
    if (!v->l.code)
        v->l.code = program_func_end(v->l.p, s->operands, 1 + n_states + n_results, v->l.e);
}

/* Checks that the parameters are in order and that the loss is a scalar. */
static int check(const struct program *p, uint32_t function, const uint32_t *arguments, uint32_t n,
                 struct err *e)
{
    const struct block *b = &p->blocks.at[p->functions.at[function].block];
    for (uint32_t i = 1; i < n; i++)
        if (arguments[i] <= arguments[i - 1])
            return err_set(e, WARM_EINVALID,
                           "the parameters are not in the order of the arguments");
    const struct tensor *t = b->n_results ? program_tensor(p, p->operands.at[b->results]) : NULL;
    if (n == 0 || !t || t->elem != ELEM_F32 || t->rank != 0)
        return err_set(e, WARM_EINVALID,
                       "an optimizer needs parameters, and a loss: result 0 is an f32 scalar");
    return 0;
}

int optimizer_step(const struct program *p, uint32_t function, const uint32_t *arguments,
                   uint32_t n, const struct optimizer *o, struct program **out, struct err *e)
{
    struct program *d = NULL;
    char name[256];
    if (!WARM_EXPECT(function < p->functions.n))
        return program_fault(e);
    const struct block *b = &p->blocks.at[p->functions.at[function].block];
    int rc = check(p, function, arguments, n, e);
    if (rc == 0)
        rc = vjp_whole(p, function, arguments, n, &d, e);
    if (rc)
        return rc;
    const char *its = p->functions.at[function].name;
    snprintf(name, sizeof name, "%.200s_step", its ? its : "");
    size_t room = (size_t)b->n_args + b->n_results + n + 8;
    struct vjp v = {.l = {.p = d, .e = e}};
    struct step s = {.arguments = arguments,
                     .n = n,
                     .n_args = b->n_args,
                     .types = calloc(room, sizeof *s.types),
                     .operands = calloc(room, sizeof *s.operands),
                     .chosen = calloc(room, sizeof *s.chosen)};
    v.l.code = s.types && s.operands && s.chosen ? 0 : err_set(e, WARM_ENOMEM, "a step");
    for (uint32_t i = 0; !v.l.code && i < n; i++)
        s.chosen[arguments[i]] = true;
    if (!v.l.code)
        write_step(&v, &s, o, name, b->n_results);
    if (!v.l.code)
        v.l.code = program_flatten(d, 1, out, e);
    free(s.types);
    free(s.operands);
    free(s.chosen);
    program_free(d);
    return v.l.code;
}
