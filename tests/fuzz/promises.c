/* SPDX-License-Identifier: Apache-2.0 */
/*
 * promises.c - makes a broken promise (keygen/expect.h) end a fuzz target, so that the fuzzer reports the input
 * that breaks it. Each target is linked with it.
 */
#include "keygen/expect.h"

__attribute__((constructor)) static void abort_at_a_broken_promise(void) { expect_abort(); }
