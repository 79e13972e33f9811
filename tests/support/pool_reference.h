/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool_reference.h - the result of the library in process, for comparison with a worker's.
 *
 * Thread: the test's own. Memory: the callers free what is returned.
 */
#ifndef WARM_TESTS_SUPPORT_POOL_REFERENCE_H
#define WARM_TESTS_SUPPORT_POOL_REFERENCE_H

#include "tests/support/pool.h"

/* Compiles in a forked child with one version of the library. Returns all outputs as one text; free() it. */
char *reference(const struct rig *r, const char *version, const struct ask *a, size_t *out_len);
/* Returns an outcome in the same form; free() it. */
char *outcome_form(const struct outcome *o, size_t *out_len);
/* Compiles through the pool and in process with each version, and expects equal outputs. */
void expect_same(struct rig *r, const struct ask *given);

#endif
