/* SPDX-License-Identifier: Apache-2.0 */
/*
 * expect.c - decides the effect of a broken promise: it ends our own programs, and switches `warm`
 * off in all others. All code below daemon/ and the command line calls it through WARM_EXPECT.
 *
 * Thread: any.
 */
#include "keygen/expect.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static atomic_bool is_off, aborts;

bool expect_broken(const char *promise, const char *file, int line)
{
    bool dies = atomic_load_explicit(&aborts, memory_order_relaxed);
    if (!atomic_exchange(&is_off, true))
        dprintf(STDERR_FILENO, "warm: %s:%d: broken promise: %s: %s\n", file, line, promise,
                dies ? "this program ends" : "going on without the cache");
    if (dies)
        abort();
    return false;
}

bool expect_is_off(void) { return atomic_load_explicit(&is_off, memory_order_relaxed); }

void expect_abort(void) { atomic_store(&aborts, true); }
