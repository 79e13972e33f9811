/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check.h - the rules for the types of operations, for the files of this folder only.
 *
 * Thread: any; no state.
 */
#ifndef WARM_KERNELS_PROGRAM_CHECK_H
#define WARM_KERNELS_PROGRAM_CHECK_H

#include "kernels/program/program.h"

/* Computes the type of an operation's result in *out, but for out->n. If the caller gives the type,
 * checks that it fits. Error: INVALID; the text lacks the operation's name. */
int check_op(const struct program *p, const struct new_op *op, struct tensor *out, struct err *e);
/* True if two types are equal. */
bool check_same(const struct tensor *a, const struct tensor *b);

#endif
