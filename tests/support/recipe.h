/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recipe.h - recipes for the suites of the history.
 *
 * Thread: the test's own. Memory: recipe_make gives a writer, for writer_close.
 */
#ifndef WARM_TESTS_SUPPORT_RECIPE_H
#define WARM_TESTS_SUPPORT_RECIPE_H

#include "keygen/bytes.h"

/* Writes a recipe with these parts; `source` may be NULL. */
void recipe_make(struct writer *out, const char *hardware, const char *label, const char *source);

#endif
