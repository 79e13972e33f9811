/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spelling.h - for suites of shared keys: jobs that differ in parts that cannot show in the result. They must
 * cost one compile, and each must get the result of its own compile.
 *
 * Thread: the test's own. Memory: rig_up gives what rig_down frees.
 */
#ifndef WARM_TESTS_SUPPORT_SPELLING_H
#define WARM_TESTS_SUPPORT_SPELLING_H

#include "client/lib/warm.h"
#include "keygen/key.h"
#include "tests/support/warmd.h"

/* A daemon with both toolchains, and a connection to it. */
struct rig {
    struct warmd kit;
    char *lib13, *lib12;
    struct warm *warm;
};

/* Defines the rig; skips the test if a toolchain is missing. */
#define NEEDS_TOOLCHAIN(r)                                                                         \
    struct rig r = {.lib13 = toolchain_lib("13.5.37"), .lib12 = toolchain_lib("12.9.86")};         \
    if (!r.lib13 || !r.lib12)                                                                      \
    cr_skip_test("no CUDA toolchain: set WARM_TOOLCHAIN or run `make toolchain`")

/* One spelling of a job. */
struct spelling {
    const char *name, *cwd, *source, *version;
    const char *options[4], *expressions[2];
    unsigned flags;
};

/* Starts the daemon and connects. */
void rig_up(struct rig *r);
/* Ends both. */
void rig_down(struct rig *r);
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
