/* SPDX-License-Identifier: Apache-2.0 */
/*
 * optimizer.h - a training step as one function: the loss, its gradients, and the parameters' update.
 *
 *     loss(w, b, x) -> l   becomes   step(p, state..., x) -> (p', state'..., l)
 *
 * p has all parameters packed: an f32 tensor of one dimension, the chosen arguments in order, one behind the
 * other. So the update is one computation for all of them, however many tensors they are. The state is packed
 * in the same way:
 *
 *     sgd        none
 *     momentum   trace
 *     adam       count (an i32 scalar, 0 at first), first moment, second moment
 *     adamw      the same
 *
 * The formulas are those of optax 0.2.8 (sgd, adam, adamw). Adam is algorithm 1 of Kingma and Ba 2015, AdamW
 * is algorithm 2 of Loshchilov and Hutter 2019. State begins as zeros.
 *
 * Thread: one at a time for a program; no other state.
 */
#ifndef WARM_KERNELS_VJP_OPTIMIZER_H
#define WARM_KERNELS_VJP_OPTIMIZER_H

#include "kernels/vjp/vjp.h"

enum optimizer_kind { OPTIMIZER_SGD, OPTIMIZER_MOMENTUM, OPTIMIZER_ADAM, OPTIMIZER_ADAMW };

struct optimizer {
    enum optimizer_kind kind;
    /* lr: learning rate; momentum: decay of the trace; beta1, beta2: decays of the moments; eps; decay: of the
     * weights. 0 if the optimizer has none */
    float lr, momentum, beta1, beta2, eps, decay;
};

/* Reads "adam,lr=0.03,beta2=0.99". Those that are not given are optax's: momentum 0.9 (optax has none),
 * beta1 0.9, beta2 0.999, eps 1e-8, decay 1e-4. `lr` must be given. Error: INVALID. */
int optimizer_parse(const char *text, struct optimizer *out, struct err *e);

/* Computes the training step for n parameters, given by their positions among the arguments of a loss. Gives
 * *out (program_free): one public function in the form of program_flatten. Result 0 of the loss is an f32
 * scalar. Errors: those of vjp_function; INVALID for another result 0. */
int optimizer_step(const struct program *p, uint32_t function, const uint32_t *arguments,
                   uint32_t n, const struct optimizer *o, struct program **out, struct err *e);

#endif
