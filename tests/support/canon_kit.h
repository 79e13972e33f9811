/* SPDX-License-Identifier: Apache-2.0 */
/*
 * canon_kit.h - keys of texts, for suites of one kind of input.
 *
 * Thread: any; no state. Memory: none.
 */
#ifndef WARM_TESTS_SUPPORT_CANON_KIT_H
#define WARM_TESTS_SUPPORT_CANON_KIT_H

#include "keygen/canon/canon.h"

/* Returns the key of a text, which must have one. */
struct canon_result canon_of(enum canon_kind kind, const char *text);
/* Returns the code with which a text is refused, or 0. */
int canon_error(enum canon_kind kind, const char *text, struct err *e);
/* Expects that two texts have one key. */
void canon_expect_same(enum canon_kind kind, const char *a, const char *b);
/* Expects that two texts have different keys. */
void canon_expect_other(enum canon_kind kind, const char *a, const char *b);
/* Expects that an input has the key and the canonical text in tests/data/golden/NAME.txt, and prints the first line
 * that differs. `make goldens` writes those files. */
void canon_expect_golden(const char *name, enum canon_kind kind, const void *data, size_t len);

#endif
