/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spelling.h - for suites of shared keys: jobs that differ in parts that cannot show in the result. They must
 * cost one compile, and each must get the result of its own compile.
 *
 * Thread: the test's own. Memory: the caller's.
 */
#ifndef WARM_TESTS_SUPPORT_SPELLING_H
#define WARM_TESTS_SUPPORT_SPELLING_H

#include "client/lib/warm.h"
#include "keygen/key.h"
#include "tests/support/two_nvrtc.h"

/* One spelling of a job. */
struct spelling {
    const char *name, *cwd, *source, *version;
    const char *options[4], *expressions[2];
    unsigned flags;
};

/* Compiles. Returns warm_compile's code. */
int spelling_try(struct warm *w, const struct spelling *s, struct warm_result *out);
/* Compiles, which must work. Returns the outcome, and in *out_digest (may be NULL) a digest of the result. */
int spelling_compile(struct warm *w, const struct spelling *s, struct key *out_digest);
/* Returns the digest of this spelling's own compile. */
struct key spelling_own_result(struct warm *w, const struct spelling *s);
/* Compiles, and expects the result of the spelling's own compile. Returns the outcome. */
int spelling_expect_own(struct warm *w, const struct spelling *s);
/* Returns the number of compiles so far. */
unsigned long long n_compiles(const struct warmd *k);

#endif
