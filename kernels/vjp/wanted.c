/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wanted.c - decides what of a graph is compiled: the function itself, its derivative for some arguments, or a
 * training step. graph_compile.c and cpu.c call it.
 *
 * Thread: any; no state.
 */
#include "kernels/vjp/wanted.h"

#include <stdlib.h>

/* Gives the derivative for the chosen arguments, or for all of floats; or the training step. */
static int derivative(const struct wanted *g, const struct program *p, uint32_t f,
                      struct program **out, struct err *e)
{
    const struct block *b = &p->blocks.at[p->functions.at[f].block];
    struct optimizer optimizer;
    uint32_t n = 0, *arguments = malloc(((size_t)b->n_args + 1) * sizeof *arguments);
    int rc = arguments ? 0 : err_set(e, WARM_ENOMEM, "arguments");
    if (g->n_arguments > b->n_args)
        rc = err_set(e, WARM_EINVALID, "gradients of %zu arguments of %u", g->n_arguments,
                     b->n_args);
    for (uint32_t i = 0; rc == 0 && i < b->n_args; i++) {
        if (g->n_arguments ? i < g->n_arguments
                           : program_is_float(program_tensor(p, b->args + i)->elem))
            arguments[n++] = g->n_arguments ? g->arguments[i] : i;
    }
    if (rc == 0 && n == 0)
        rc = err_set(e, WARM_EINVALID,
                     "no argument is of floating-point numbers: nothing has a gradient");
    for (uint32_t i = 0; rc == 0 && i < n; i++)
        if (arguments[i] >= b->n_args)
            rc = err_set(e, WARM_EINVALID, "the gradient of argument %u, and there are %u",
                         arguments[i], b->n_args);
    if (rc == 0 && g->optimizer)
        rc = optimizer_parse(g->optimizer, &optimizer, e);
    if (rc == 0)
        rc = g->optimizer ? optimizer_step(p, f, arguments, n, &optimizer, out, e)
                          : vjp_function(p, f, arguments, n, out, e);
    free(arguments);
    return rc;
}

int wanted_function(const struct program *p, const struct wanted *g, struct program **out,
                    struct err *e)
{
    uint32_t f = program_function(p, NULL);
    if (f == PROGRAM_NONE)
        return err_set(e, WARM_EINVALID, "a module must have one public function");
    return g->derives ? derivative(g, p, f, out, e) : program_flatten(p, f, out, e);
}
