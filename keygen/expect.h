/* SPDX-License-Identifier: Apache-2.0 */
/*
 * expect.h - promises that the code makes to itself, checked in every build.
 *
 *     WARM_EXPECT(promise) ─┬─ kept: true
 *                           └─ broken ─┬─ in our own programs (expect_abort): a line, and abort
 *                                      └─ loaded into other programs: a line, `warm` is off, false
 *
 * Code that runs only in our own programs uses assert. Code that is loaded into other programs must
 * never end them: it uses WARM_EXPECT, and goes on without the cache if that is false. Once off,
 * `warm` stays off in this process: requests fail with NO_DAEMON, and every call of the program
 * reaches the real library.
 *
 * Thread: any; no lock, no allocation. Memory: one flag.
 */
#ifndef WARM_KEYGEN_EXPECT_H
#define WARM_KEYGEN_EXPECT_H

#include <stdbool.h>

/* True if the promise is kept. If it is false, the caller must fail open. */
#define WARM_EXPECT(promise)                                                                       \
    (__builtin_expect(!!(promise), 1) || expect_broken(#promise, __FILE__, __LINE__))

/* Switches `warm` off in this process, or aborts after expect_abort. Returns false. Use
 * WARM_EXPECT. */
bool expect_broken(const char *promise, const char *file, int line);

/* True if a promise was broken in this process. */
bool expect_is_off(void);

/* Makes every broken promise from now on abort. The main of each of our own programs calls it
 * first. */
void expect_abort(void);

#endif
