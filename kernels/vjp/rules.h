/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rules.h - the rule of each operation, for the files of this folder only.
 *
 * Thread: one at a time for a struct vjp; no other state.
 */
#ifndef WARM_KERNELS_VJP_RULES_H
#define WARM_KERNELS_VJP_RULES_H

#include "kernels/program/lower.h"
#include "kernels/vjp/vjp.h"
#include "keygen/expect.h"

/* Checks a promise. If it is broken, that is the derivative's error. */
#define VJP_EXPECT(v, promise) (WARM_EXPECT(promise) || vjp_broken(v))

struct vjp {
    struct lower l; /* of the derivative: the function itself, then its gradients */
    /* by value of l.p; for values of the function itself */
    bool *active;
    uint32_t *cotangents; /* NONE if it is zero so far */
    uint32_t n_tables;    /* entries that these two have */
};

/* Sets the error of a broken promise, if it is the first error. Returns false. Use VJP_EXPECT. */
bool vjp_broken(struct vjp *v);

/* Adds what an operation passes on to its operands, given its result's cotangent. */
void vjp_rule(struct vjp *v, const struct operation *op, uint32_t cotangent);
/* Adds to the cotangent of a value, if it is active. */
void vjp_pass(struct vjp *v, uint32_t to, uint32_t cotangent);

/* Returns a constant of a value's type, all of whose elements are x. */
uint32_t vjp_splat(struct vjp *v, uint32_t like, double x);
/* Returns the type of elements and dimensions; 0 after an error. */
uint32_t vjp_type(struct vjp *v, enum elem elem, uint32_t rank, const int64_t *dims);

#endif
