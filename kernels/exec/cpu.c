/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpu.c - reads the module of a bundle, derives what was compiled, and runs it by the interpreter. main.c calls
 * it for `--device cpu` and for `--check`, libwarm for warm_graph_run.
 *
 * Thread: any; no state.
 */
#include "kernels/exec/cpu.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "kernels/eval/eval.h"
#include "kernels/vjp/wanted.h"

/* Reads the module, and derives what the bundle has. */
static int function_of(const struct graph_bundle *b, struct program **out, struct err *e)
{
    struct program *p = NULL;
    char optimizer[256];
    if (!b->module.len)
        return err_set(e, WARM_EUNSUPPORTED, "the bundle has no module: compile it again");
    if (b->optimizer.len >= sizeof optimizer)
        return err_set(e, WARM_EMALFORMED, "a damaged optimizer");
    assert(b->optimizer.data || !b->optimizer.len);
    memcpy(optimizer, b->optimizer.data ? b->optimizer.data : "", b->optimizer.len);
    optimizer[b->optimizer.len] = '\0';
    struct wanted w = {b->derives, b->gradients.at, b->gradients.n, *optimizer ? optimizer : NULL};
    int rc = program_read(b->module.data, b->module.len, &p, e);
    if (rc == 0)
        rc = wanted_function(p, &w, out, e);
    program_free(p);
    return rc;
}

/* True if the bundle has the function's types. */
static bool fits(const struct graph_bundle *b, const struct program *p, const struct block *f)
{
    bool same = f->n_args == b->n_arguments && f->n_results == b->results.n;
    for (uint32_t i = 0; same && i < f->n_args + f->n_results; i++) {
        uint32_t value = i < f->n_args ? f->args + i : p->operands.at[f->results + i - f->n_args];
        uint32_t buffer = i < f->n_args ? i : b->results.at[i - f->n_args];
        const struct tensor *t = program_tensor(p, value), *its = &b->buffers.at[buffer].type;
        same = t->elem == its->elem && t->n == its->n;
    }
    return same;
}

/* Returns room for a tensor's elements as numbers. */
static number *room(const struct program *p, uint32_t value)
{
    return calloc((size_t)program_tensor(p, value)->n + 1, sizeof(number));
}

int cpu_open(const struct graph_bundle *b, struct program **out, struct err *e)
{
    struct program *p = NULL;
    int rc = function_of(b, &p, e);
    if (rc == 0 && (p->functions.n != 1 || !fits(b, p, &p->blocks.at[p->functions.at[0].block])))
        rc = err_set(e, WARM_EMALFORMED, "the module is not that of the launches");
    if (rc)
        program_free(p);
    else
        *out = p;
    return rc;
}

int cpu_run(const struct program *p, const uint8_t *const *args, uint8_t *const *results,
            struct err *e)
{
    int rc;
    const struct block *f = &p->blocks.at[p->functions.at[0].block];
    number **x = calloc((size_t)f->n_args + 1, sizeof *x),
           **y = calloc((size_t)f->n_results + 1, sizeof *y);
    bool memory = x && y;
    for (uint32_t i = 0; memory && i < f->n_args; i++) {
        const struct tensor *t = program_tensor(p, f->args + i);
        memory = (x[i] = room(p, f->args + i)) != NULL;
        for (int64_t k = 0; memory && k < t->n; k++)
            x[i][k] = program_elem_get(t->elem, args[i] + k * program_elem_size(t->elem));
    }
    for (uint32_t i = 0; memory && i < f->n_results; i++)
        memory = (y[i] = room(p, p->operands.at[f->results + i])) != NULL;
    rc = memory ? eval_function(p, 0, (const number *const *)x, y, e)
                : err_set(e, WARM_ENOMEM, "arguments");
    for (uint32_t i = 0; y && i < f->n_results; i++) {
        const struct tensor *t = program_tensor(p, p->operands.at[f->results + i]);
        for (int64_t k = 0; rc == 0 && k < t->n; k++)
            program_elem_put(t->elem, y[i][k], results[i] + k * program_elem_size(t->elem));
        free(y[i]);
    }
    for (uint32_t i = 0; x && i < f->n_args; i++)
        free(x[i]);
    free(x);
    free(y);
    return rc;
}

double cpu_distance(const struct tensor *type, const uint8_t *is, const uint8_t *want)
{
    uint32_t size = program_elem_size(type->elem);
    double eps = type->elem == ELEM_F64    ? 0x1p-52
                 : type->elem == ELEM_F16  ? 0x1p-10
                 : type->elem == ELEM_BF16 ? 0x1p-7
                                           : 0x1p-23,
           largest = 0, distance = 0;
    for (int64_t k = 0; k < type->n; k++) {
        number a = program_elem_get(type->elem, is + k * size),
               b = program_elem_get(type->elem, want + k * size);
        if (a == b || (isnan(a) && isnan(b)))
            continue;
        if (!program_is_float(type->elem) || !isfinite(a) || !isfinite(b))
            return INFINITY;
        distance = fmax(distance, (double)fabsl(a - b));
    }
    for (int64_t k = 0; k < type->n; k++) {
        double b = fabs((double)program_elem_get(type->elem, want + k * size));
        largest = isfinite(b) && b > largest ? b : largest;
    }
    assert(distance >= 0 && largest >= 0);
    return distance == 0 ? 0 : distance / (eps * fmax(largest, eps));
}
