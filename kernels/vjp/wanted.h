/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wanted.h - the function that a graph is compiled to: the graph's own, its derivative, or a training step. The
 * compiler and the interpreter of a bundle (`warm exec --device cpu`) choose the same one.
 *
 * Thread: any; no state.
 */
#ifndef WARM_KERNELS_VJP_WANTED_H
#define WARM_KERNELS_VJP_WANTED_H

#include "kernels/vjp/optimizer.h"

struct wanted {
    bool derives;
    const uint32_t *arguments; /* with gradients; all of floating-point numbers if there are none */
    size_t n_arguments;
    const char *optimizer; /* as optimizer_parse reads it; NULL: none */
};

/* Gives *out (program_free): one public function in the form of program_flatten. `p` must have one public function.
 * Errors: those of program_flatten, vjp_function and optimizer_step; INVALID. */
int wanted_function(const struct program *p, const struct wanted *w, struct program **out,
                    struct err *e);

#endif
